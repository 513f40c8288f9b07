//! ACL: users and their permissions, what they were refused, and passwords.

mod history;
mod show;
#[cfg(test)]
mod tests;
mod users;

use crate::command::{Arg, Command, Group, flag};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;

/// Flags of those that show or change users.
const ADMIN: u32 = flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE;
/// Flags of the others.
const OPEN: u32 = flag::NOSCRIPT | flag::LOADING | flag::STALE;
const TO_ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

const fn sub(name: &'static str, arity: i8, flags: u32, summary: &'static str, complexity: &'static str) -> Command {
    Command { name, group: Group::Server, since: "6.0.0", summary, complexity, arity, flags, ..Command::DEFAULT }
}

/// The commands of this family.
pub const COMMANDS: &[Command] = &[Command {
    subcommands: &[
        Command {
            args: &[Arg::string("category").optional()],
            run: Some(show::cat),
            ..sub(
                "cat",
                -2,
                OPEN,
                "Lists the ACL categories, or the commands inside a category.",
                "O(1) since the categories and commands are a fixed set.",
            )
        },
        Command {
            args: &[Arg::string("username").multiple()],
            tips: TO_ALL_NODES,
            run: Some(users::deluser),
            ..sub(
                "deluser",
                -3,
                ADMIN,
                "Deletes ACL users, and terminates their connections.",
                "O(1) amortized time considering the typical user.",
            )
        },
        Command {
            since: "7.0.0",
            args: &[Arg::string("username"), Arg::string("command"), Arg::string("arg").optional().multiple()],
            run: Some(users::dryrun),
            ..sub(
                "dryrun",
                -4,
                ADMIN,
                "Simulates the execution of a command by a user, without executing the command.",
                "O(1).",
            )
        },
        Command {
            args: &[Arg::integer("bits").optional()],
            run: Some(genpass),
            ..sub(
                "genpass",
                -2,
                OPEN,
                "Generates a pseudorandom, secure password that can be used to identify ACL users.",
                "O(1)",
            )
        },
        Command {
            args: &[Arg::string("username")],
            history: &[
                ("6.2.0", "Added Pub/Sub channel patterns."),
                (
                    "7.0.0",
                    "Added selectors and changed the format of key and channel patterns from a list to their rule representation.",
                ),
            ],
            run: Some(show::getuser),
            ..sub(
                "getuser",
                3,
                ADMIN,
                "Lists the ACL rules of a user.",
                "O(N). Where N is the number of password, command and pattern rules that the user has.",
            )
        },
        Command {
            help: HELP,
            run: Some(super::keys::help),
            ..sub(
                "help",
                2,
                flag::LOADING | flag::STALE,
                "Returns helpful text about the different subcommands.",
                "O(1)",
            )
        },
        Command {
            run: Some(show::list),
            ..sub(
                "list",
                2,
                ADMIN,
                "Dumps the effective rules in ACL file format.",
                "O(N). Where N is the number of configured users.",
            )
        },
        Command {
            run: Some(no_file),
            ..sub(
                "load",
                2,
                ADMIN,
                "Reloads the rules from the configured ACL file.",
                "O(N). Where N is the number of configured users.",
            )
        },
        Command {
            args: &[Arg::one_of("operation", &[Arg::integer("count"), Arg::word("reset", "RESET")]).optional()],
            history: &[("7.2.0", "Added entry ID, timestamp created, and timestamp last updated.")],
            run: Some(history::log),
            ..sub(
                "log",
                -2,
                ADMIN,
                "Lists recent security events generated due to ACL rules.",
                "O(N) with N being the number of entries shown.",
            )
        },
        Command {
            tips: TO_ALL_NODES,
            run: Some(no_file),
            ..sub(
                "save",
                2,
                ADMIN,
                "Saves the effective ACL rules in the configured ACL file.",
                "O(N). Where N is the number of configured users.",
            )
        },
        Command {
            args: &[Arg::string("username"), Arg::string("rule").optional().multiple()],
            history: &[
                ("6.2.0", "Added Pub/Sub channel patterns."),
                ("7.0.0", "Added selectors and key based permissions."),
            ],
            tips: TO_ALL_NODES,
            run: Some(users::setuser),
            ..sub(
                "setuser",
                -3,
                ADMIN,
                "Creates and modifies an ACL user and its rules.",
                "O(N). Where N is the number of rules provided.",
            )
        },
        Command {
            run: Some(show::users),
            ..sub("users", 2, ADMIN, "Lists all ACL users.", "O(N). Where N is the number of configured users.")
        },
        Command {
            run: Some(show::whoami),
            ..sub("whoami", 2, OPEN, "Returns the authenticated username of the current connection.", "O(1)")
        },
    ],
    ..sub("acl", -2, 0, "A container for Access List Control commands.", "Depends on subcommand.")
}];

/// LOAD and SAVE: there are no files.
fn no_file(_: &mut Ctx<'_>) -> Result<(), Error> {
    Err(Error::Fixed(
        "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.",
    ))
}

/// Longest password that GENPASS makes, in bits.
const MAX_PASSWORD_BITS: i64 = 4_096;

fn genpass(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let bits = match ctx.argc() {
        2 => 256,
        3 => ctx.int(2)?,
        _ => return Err(ctx.wrong_subcommand()),
    };
    if !(1..=MAX_PASSWORD_BITS).contains(&bits) {
        return Err(error_text!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to {MAX_PASSWORD_BITS}"
        ));
    }
    let digits = (bits as usize).div_ceil(4);
    ctx.reply.bulk(&crate::acl::generate_password(&*ctx.core.machine, digits));
    Ok(())
}

const HELP: &[&str] = &[
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
    "HELP",
    "    Print this help.",
];
