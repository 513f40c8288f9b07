//! CONFIG.

use crate::command::{Arg, Command, Group, flag};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::glob;
use crate::stats::Stats;
use alloc::vec::Vec;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[Command {
    name: "config",
    group: Group::Server,
    since: "2.0.0",
    summary: "A container for server configuration commands.",
    complexity: "Depends on subcommand.",
    arity: -2,
    subcommands: &[
        Command {
            name: "get",
            group: Group::Server,
            since: "2.0.0",
            summary: "Returns the effective values of configuration parameters.",
            complexity: "O(N) when N is the number of configuration parameters provided",
            arity: -3,
            flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
            args: &[Arg::string("parameter").multiple()],
            history: &[("7.0.0", "Added the ability to pass multiple pattern parameters in one call")],
            run: Some(config_get),
            ..Command::DEFAULT
        },
        Command {
            name: "help",
            group: Group::Server,
            since: "5.0.0",
            summary: "Returns helpful text about the different subcommands.",
            complexity: "O(1)",
            arity: 2,
            flags: flag::LOADING | flag::STALE,
            run: Some(config_help),
            ..Command::DEFAULT
        },
        Command {
            name: "resetstat",
            group: Group::Server,
            since: "2.0.0",
            summary: "Resets the server's statistics.",
            complexity: "O(1)",
            arity: 2,
            flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            run: Some(config_resetstat),
            ..Command::DEFAULT
        },
        Command {
            name: "rewrite",
            group: Group::Server,
            since: "2.8.0",
            summary: "Persists the effective configuration to file.",
            complexity: "O(1)",
            arity: 2,
            flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            run: Some(config_rewrite),
            ..Command::DEFAULT
        },
        Command {
            name: "set",
            group: Group::Server,
            since: "2.0.0",
            summary: "Sets configuration parameters in-flight.",
            complexity: "O(N) when N is the number of configuration parameters provided",
            arity: -4,
            flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
            args: &[Arg::block("data", &[Arg::string("parameter"), Arg::string("value")]).multiple()],
            history: &[("7.0.0", "Added the ability to set multiple parameters in one call.")],
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            run: Some(config_set),
            ..Command::DEFAULT
        },
    ],
    ..Command::DEFAULT
}];

fn config_get(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let patterns: Vec<Vec<u8>> = ctx.args.iter_from(2).map(<[u8]>::to_ascii_lowercase).collect();
    let found = ctx.core.config.matching(|name| patterns.iter().any(|p| glob::matches(p, name)));
    ctx.reply.map(found.len());
    for (name, value) in found {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.bulk(value.as_bytes());
    }
    Ok(())
}

fn config_set(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if !ctx.argc().is_multiple_of(2) {
        return Err(Error::Fixed("ERR wrong number of arguments for 'config|set' command"));
    }
    let pairs: Vec<(&[u8], &[u8])> =
        (2..ctx.argc()).step_by(2).map(|i| (ctx.args.get(i), ctx.args.get(i + 1))).collect();
    ctx.core.config.set(&pairs)?;
    ctx.keys.space.configure(&ctx.core.config);
    ctx.reply.ok();
    Ok(())
}

fn config_resetstat(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.core.stats = Stats::new();
    ctx.keys.space.stats = Default::default();
    ctx.keys.space.lazy.freed = 0;
    ctx.reply.ok();
    Ok(())
}

fn config_rewrite(_: &mut Ctx<'_>) -> Result<(), Error> {
    Err(Error::Fixed("ERR The server is running without a config file"))
}

fn config_help(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    super::keys::help(ctx, CONFIG_HELP)
}

const CONFIG_HELP: &[&str] = &[
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value>",
    "    Set the configuration <directive> to <value>.",
    "RESETSTAT",
    "    Reset statistics reported by the INFO command.",
    "REWRITE",
    "    Rewrite the configuration file.",
    "HELP",
    "    Prints this help.",
];
