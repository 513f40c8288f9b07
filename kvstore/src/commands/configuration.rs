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
            help: CONFIG_HELP,
            run: Some(super::keys::help),
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
        // A name that was given in full is shown as it was given.
        let by = patterns.iter().position(|p| glob::matches(p, name.as_bytes())).filter(|i| is_literal(&patterns[*i]));
        ctx.reply.bulk(by.map_or(name.as_bytes(), |i| ctx.args.get(i + 2)));
        ctx.reply.bulk(value.as_bytes());
    }
    Ok(())
}

fn is_literal(pattern: &[u8]) -> bool {
    !pattern.iter().any(|byte| b"[*?".contains(byte))
}

fn config_set(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if !ctx.argc().is_multiple_of(2) {
        return Err(Error::Syntax);
    }
    let pairs: Vec<(&[u8], &[u8])> =
        (2..ctx.argc()).step_by(2).map(|i| (ctx.args.get(i), ctx.args.get(i + 1))).collect();
    let password = ctx.core.config.requirepass.clone();
    let level = ctx.core.config.log_level();
    ctx.core.config.set(&pairs)?;
    if ctx.core.config.requirepass != password {
        ctx.core.acl.set_default_password(&ctx.core.config.requirepass);
    }
    if ctx.core.config.log_level() != level {
        log::set_max_level(ctx.core.config.log_level());
    }
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
    "    Print this help.",
];

#[cfg(test)]
mod tests {
    use crate::config::{PARAMS, Rule};
    use crate::testing::Bench;
    use alloc::format;

    #[test]
    fn several_are_set_together_or_not_at_all() {
        let mut bench = Bench::new(&[]);
        let c = bench.client();
        assert_eq!(bench.run(c, "CONFIG SET maxclients 50 hash-max-ziplist-entries 7"), "OK");
        assert_eq!(
            bench.run(c, "CONFIG GET MAXCLIENTS hash-max-*-entries"),
            "[hash-max-listpack-entries 7 hash-max-ziplist-entries 7 MAXCLIENTS 50]"
        );
        let failed =
            |name: &str, why: &str| format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
        for (line, error) in [
            ("maxclients 60 maxmemory x", failed("maxmemory", "argument must be a memory value")),
            ("maxclients 60 maxmemory -1", failed("maxmemory", "argument must be a memory value")),
            ("maxclients 0", failed("maxclients", "argument must be between 1 and 4294967295 inclusive")),
            ("maxclients 60 Maxclients 61", failed("Maxclients", "duplicate parameter")),
            ("maxclients x databases 3", failed("databases", "can't set immutable config")),
            ("dir /tmp", failed("dir", "can't set protected config")),
            ("maxclients x nosuch y", "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'".into()),
            ("maxclients 60 maxmemory", "-ERR syntax error".into()),
        ] {
            assert_eq!(bench.run(c, &format!("CONFIG SET {line}")), error, "{line}");
        }
        assert_eq!(bench.run(c, "CONFIG GET maxclients"), "[maxclients 50]");
        assert_eq!(bench.run(c, "CONFIG SET maxmemory kb"), "OK");
    }

    #[test]
    fn what_has_one_value_takes_that_and_no_other() {
        let mut bench = Bench::new(&[]);
        let c = bench.client();
        for p in PARAMS.iter().filter(|p| p.rule == Rule::Constant) {
            let value = if p.default.is_empty() { "''" } else { p.default };
            assert_eq!(bench.run(c, &format!("CONFIG SET {} {value}", p.name)), "OK", "{}", p.name);
        }
        for line in ["appendonly yes", "save 60", "hz 100", "slave-read-only no"] {
            assert!(bench.run(c, &format!("CONFIG SET {line}")).ends_with("can't set immutable config"), "{line}");
        }
        assert!(PARAMS.iter().all(|p| p.why.is_empty() == matches!(p.rule, Rule::Free | Rule::AtStart)));
        assert!(PARAMS.is_sorted_by_key(|p| p.name));
    }

    #[test]
    fn the_log_level_can_be_changed() {
        let mut bench = Bench::new(&[]);
        let c = bench.client();
        let before = log::max_level();
        assert_eq!(bench.run(c, "CONFIG SET loglevel verbose"), "OK");
        assert_eq!(log::max_level(), log::LevelFilter::Debug);
        log::set_max_level(before);
    }

    #[test]
    fn there_is_no_file_to_rewrite() {
        let mut bench = Bench::new(&[]);
        let c = bench.client();
        assert_eq!(bench.run(c, "CONFIG REWRITE"), "-ERR The server is running without a config file");
    }
}
