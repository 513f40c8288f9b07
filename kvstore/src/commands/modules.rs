//! MODULE. There are no modules, and `enable-module-command` keeps clients from loading any.

use crate::command::{Arg, Command, Group, flag};
use crate::ctx::Ctx;
use crate::error::Error;

/// What it takes to change the modules.
const CHANGES: u32 = flag::ADMIN | flag::NOSCRIPT | flag::NO_ASYNC_LOADING | flag::PROTECTED;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[Command {
    name: "module",
    group: Group::Server,
    since: "4.0.0",
    summary: "A container for module commands.",
    complexity: "Depends on subcommand.",
    arity: -2,
    subcommands: &[
        Command {
            name: "help",
            group: Group::Server,
            since: "5.0.0",
            summary: "Returns helpful text about the different subcommands.",
            complexity: "O(1)",
            arity: 2,
            flags: flag::LOADING | flag::STALE,
            help: MODULE_HELP,
            run: Some(super::keys::help),
            ..Command::DEFAULT
        },
        Command {
            name: "list",
            group: Group::Server,
            since: "4.0.0",
            summary: "Returns all loaded modules.",
            complexity: "O(N) where N is the number of loaded modules.",
            arity: 2,
            flags: flag::ADMIN | flag::NOSCRIPT,
            tips: &["nondeterministic_output_order"],
            run: Some(module_list),
            ..Command::DEFAULT
        },
        Command {
            name: "load",
            group: Group::Server,
            since: "4.0.0",
            summary: "Loads a module.",
            complexity: "O(1)",
            arity: -3,
            flags: CHANGES,
            args: &[Arg::string("path"), Arg::string("arg").optional().multiple()],
            run: Some(not_allowed),
            ..Command::DEFAULT
        },
        Command {
            name: "loadex",
            group: Group::Server,
            since: "7.0.0",
            summary: "Loads a module using extended parameters.",
            complexity: "O(1)",
            arity: -3,
            flags: CHANGES,
            args: &[
                Arg::string("path"),
                Arg::block("configs", &[Arg::string("name"), Arg::string("value")])
                    .token("CONFIG")
                    .optional()
                    .multiple_token(),
                Arg::string("args").token("ARGS").optional().multiple(),
            ],
            run: Some(not_allowed),
            ..Command::DEFAULT
        },
        Command {
            name: "unload",
            group: Group::Server,
            since: "4.0.0",
            summary: "Unloads a module.",
            complexity: "O(1)",
            arity: 3,
            flags: CHANGES,
            args: &[Arg::string("name")],
            run: Some(not_allowed),
            ..Command::DEFAULT
        },
    ],
    ..Command::DEFAULT
}];

/// What clients are told that would load a module.
pub const NOT_ALLOWED: &str = "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.";

fn not_allowed(_: &mut Ctx<'_>) -> Result<(), Error> {
    Err(Error::Fixed(NOT_ALLOWED))
}

fn module_list(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.reply.array(0);
    Ok(())
}

const MODULE_HELP: &[&str] = &[
    "MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "LIST",
    "    Return a list of loaded modules.",
    "LOAD <path> [<arg> ...]",
    "    Load a module library from <path>, passing to it any optional arguments.",
    "LOADEX <path> [[CONFIG NAME VALUE] [CONFIG NAME VALUE]] [ARGS ...]",
    "    Load a module library from <path>, while passing it module configurations and optional arguments.",
    "UNLOAD <name>",
    "    Unload a module.",
    "HELP",
    "    Print this help.",
];

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn there_are_none_and_none_can_be_loaded() {
        let mut bench = Bench::new(&[]);
        let c = bench.client();
        assert_eq!(bench.run(c, "MODULE LIST"), "[]");
        for command in ["MODULE LOAD x", "MODULE LOADEX x", "MODULE UNLOAD x"] {
            assert!(bench.run(c, command).starts_with("-ERR MODULE command not allowed."));
        }
        bench.run(c, "MULTI");
        assert!(bench.run(c, "MODULE LOAD x").starts_with("-ERR MODULE command not allowed."));
        assert!(bench.run(c, "EXEC").starts_with("-EXECABORT"));
    }
}
