//! SLOWLOG and LATENCY: what took long.

use crate::command::{Arg, Command, Group, flag};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::text::printable;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "latency",
        group: Group::Server,
        since: "2.8.13",
        summary: "A container for latency diagnostics commands.",
        complexity: "Depends on subcommand.",
        arity: -2,
        subcommands: &[
            super::latency::DOCTOR,
            super::latency::GRAPH,
            Command {
                name: "help",
                group: Group::Server,
                since: "2.8.13",
                summary: "Returns helpful text about the different subcommands.",
                complexity: "O(1)",
                arity: 2,
                flags: flag::LOADING | flag::STALE,
                help: LATENCY_HELP,
                run: Some(super::keys::help),
                ..Command::DEFAULT
            },
            super::latency::HISTOGRAM,
            Command {
                name: "history",
                group: Group::Server,
                since: "2.8.13",
                summary: "Returns timestamp-latency samples for an event.",
                complexity: "O(1)",
                arity: 3,
                flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
                args: &[Arg::string("event")],
                tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
                run: Some(latency_history),
                ..Command::DEFAULT
            },
            Command {
                name: "latest",
                group: Group::Server,
                since: "2.8.13",
                summary: "Returns the latest latency samples for all events.",
                complexity: "O(1)",
                arity: 2,
                flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
                tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
                run: Some(latency_latest),
                ..Command::DEFAULT
            },
            Command {
                name: "reset",
                group: Group::Server,
                since: "2.8.13",
                summary: "Resets the latency data for one or more events.",
                complexity: "O(1)",
                arity: -2,
                flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
                args: &[Arg::string("event").optional().multiple()],
                tips: &["request_policy:all_nodes", "response_policy:agg_sum"],
                run: Some(latency_reset),
                ..Command::DEFAULT
            },
        ],
        ..Command::DEFAULT
    },
    Command {
        name: "slowlog",
        group: Group::Server,
        since: "2.2.12",
        summary: "A container for slow log commands.",
        complexity: "Depends on subcommand.",
        arity: -2,
        subcommands: &[
            Command {
                name: "get",
                group: Group::Server,
                since: "2.2.12",
                summary: "Returns the slow log's entries.",
                complexity: "O(N) where N is the number of entries returned",
                arity: -2,
                flags: flag::ADMIN | flag::LOADING | flag::STALE,
                args: &[Arg::integer("count").optional()],
                history: &[("4.0.0", "Added client IP address, port and name to the reply.")],
                tips: &["request_policy:all_nodes", "nondeterministic_output"],
                run: Some(slowlog_get),
                ..Command::DEFAULT
            },
            Command {
                name: "help",
                group: Group::Server,
                since: "6.2.0",
                summary: "Show helpful text about the different subcommands",
                complexity: "O(1)",
                arity: 2,
                flags: flag::LOADING | flag::STALE,
                help: SLOWLOG_HELP,
                run: Some(super::keys::help),
                ..Command::DEFAULT
            },
            Command {
                name: "len",
                group: Group::Server,
                since: "2.2.12",
                summary: "Returns the number of entries in the slow log.",
                complexity: "O(1)",
                arity: 2,
                flags: flag::ADMIN | flag::LOADING | flag::STALE,
                tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
                run: Some(slowlog_len),
                ..Command::DEFAULT
            },
            Command {
                name: "reset",
                group: Group::Server,
                since: "2.2.12",
                summary: "Clears all entries from the slow log.",
                complexity: "O(N) where N is the number of entries in the slowlog",
                arity: 2,
                flags: flag::ADMIN | flag::LOADING | flag::STALE,
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                run: Some(slowlog_reset),
                ..Command::DEFAULT
            },
        ],
        ..Command::DEFAULT
    },
];

fn slowlog_get(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if ctx.argc() > 3 {
        return Err(ctx.wrong_subcommand());
    }
    let mut n = 10;
    if ctx.argc() == 3 {
        let count = ctx.int(2).ok().filter(|n| *n >= -1);
        let count = count.ok_or(Error::Fixed("ERR count should be greater than or equal to -1"))?;
        n = usize::try_from(count).unwrap_or(usize::MAX);
    }
    let entries = &ctx.core.slowlog.entries;
    ctx.reply.array(entries.len().min(n));
    for e in entries.iter().take(n) {
        ctx.reply.array(6);
        ctx.reply.int(e.id as i64);
        ctx.reply.int(e.at_s);
        ctx.reply.int(e.took_us as i64);
        ctx.reply.array(e.args.len());
        e.args.iter().for_each(|a| ctx.reply.bulk(a));
        ctx.reply.bulk(e.peer.as_bytes());
        ctx.reply.bulk(&e.name);
    }
    Ok(())
}

fn slowlog_len(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.reply.count(ctx.core.slowlog.entries.len());
    Ok(())
}

fn slowlog_reset(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.core.slowlog.entries.clear();
    ctx.reply.ok();
    Ok(())
}

fn latency_history(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let name = printable(ctx.arg(2), 128);
    let series = ctx.core.slowlog.latency.get(name.as_str());
    ctx.reply.array(series.map_or(0, |s| s.samples.len()));
    for (at_s, ms) in series.into_iter().flat_map(|s| &s.samples) {
        ctx.reply.array(2);
        ctx.reply.int(*at_s);
        ctx.reply.int(*ms as i64);
    }
    Ok(())
}

fn latency_latest(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let all = &ctx.core.slowlog.latency;
    ctx.reply.array(all.len());
    for (name, series) in all {
        let (at_s, ms) = series.samples.back().copied().unwrap_or_default();
        ctx.reply.array(4);
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.int(at_s);
        ctx.reply.int(ms as i64);
        ctx.reply.int(series.max_ms as i64);
    }
    Ok(())
}

fn latency_reset(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let all = &mut ctx.core.slowlog.latency;
    let before = all.len();
    if ctx.args.len() == 2 {
        all.clear();
    }
    for name in ctx.args.iter_from(2) {
        all.retain(|n, _| n.as_bytes() != name);
    }
    let removed = before - all.len();
    ctx.reply.count(removed);
    Ok(())
}

const LATENCY_HELP: &[&str] = &[
    "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DOCTOR",
    "    Return a human readable latency analysis report.",
    "GRAPH <event>",
    "    Return an ASCII latency graph for the <event> class.",
    "HISTORY <event>",
    "    Return time-latency samples for the <event> class.",
    "LATEST",
    "    Return the latest latency samples for all events.",
    "RESET [<event> ...]",
    "    Reset latency data of one or more <event> classes.",
    "    (default: reset all data for all event classes)",
    "HISTOGRAM [COMMAND ...]",
    "    Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
    "    If no commands are specified then all histograms are replied.",
    "HELP",
    "    Print this help.",
];

const SLOWLOG_HELP: &[&str] = &[
    "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET [<count>]",
    "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds, arguments array, client IP and port,",
    "    client name",
    "LEN",
    "    Return the length of the slowlog.",
    "RESET",
    "    Reset the slowlog.",
    "HELP",
    "    Print this help.",
];
