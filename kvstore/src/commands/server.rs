//! Commands about the server: databases, time, memory, the end.

use crate::blocking::{Wait, WaitRequest};
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::core::ServerEvent;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::number::parse_i64;
use crate::reply::Reply;
use crate::session::Fate;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "dbsize",
        group: Group::Server,
        since: "1.0.0",
        summary: "Returns the number of keys in the database.",
        complexity: "O(1)",
        arity: 1,
        flags: flag::READONLY | flag::FAST,
        acl: acl::KEYSPACE,
        tips: &["request_policy:all_shards", "response_policy:agg_sum"],
        run: Some(dbsize),
        ..Command::DEFAULT
    },
    Command {
        name: "flushall",
        group: Group::Server,
        since: "1.0.0",
        summary: "Removes all keys from all databases.",
        complexity: "O(N) where N is the total number of keys in all databases",
        arity: -1,
        flags: flag::WRITE,
        acl: acl::DANGEROUS | acl::KEYSPACE,
        args: &[Arg::one_of(
            "flush-type",
            &[Arg::word("async", "ASYNC").since("4.0.0"), Arg::word("sync", "SYNC").since("6.2.0")],
        )
        .optional()],
        history: &[
            ("4.0.0", "Added the `ASYNC` flushing mode modifier."),
            ("6.2.0", "Added the `SYNC` flushing mode modifier."),
        ],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        run: Some(flushall),
        ..Command::DEFAULT
    },
    Command {
        name: "flushdb",
        group: Group::Server,
        since: "1.0.0",
        summary: "Remove all keys from the current database.",
        complexity: "O(N) where N is the number of keys in the selected database",
        arity: -1,
        flags: flag::WRITE,
        acl: acl::DANGEROUS | acl::KEYSPACE,
        args: &[Arg::one_of(
            "flush-type",
            &[Arg::word("async", "ASYNC").since("4.0.0"), Arg::word("sync", "SYNC").since("6.2.0")],
        )
        .optional()],
        history: &[
            ("4.0.0", "Added the `ASYNC` flushing mode modifier."),
            ("6.2.0", "Added the `SYNC` flushing mode modifier."),
        ],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        run: Some(flushdb),
        ..Command::DEFAULT
    },
    Command {
        name: "lolwut",
        group: Group::Server,
        since: "5.0.0",
        summary: "Displays computer art and the server version",
        complexity: "",
        arity: -1,
        flags: flag::READONLY | flag::FAST,
        args: &[Arg::integer("version").token("VERSION").optional()],
        run: Some(lolwut),
        ..Command::DEFAULT
    },
    Command {
        name: "memory",
        group: Group::Server,
        since: "4.0.0",
        summary: "A container for memory diagnostics commands.",
        complexity: "Depends on subcommand.",
        arity: -2,
        subcommands: &[
            Command {
                name: "doctor",
                group: Group::Server,
                since: "4.0.0",
                summary: "Outputs a memory problems report.",
                complexity: "O(1)",
                arity: 2,
                tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
                run: Some(memory_doctor),
                ..Command::DEFAULT
            },
            Command {
                name: "help",
                group: Group::Server,
                since: "4.0.0",
                summary: "Returns helpful text about the different subcommands.",
                complexity: "O(1)",
                arity: 2,
                flags: flag::LOADING | flag::STALE,
                help: MEMORY_HELP,
                run: Some(super::keys::help),
                ..Command::DEFAULT
            },
            Command {
                name: "malloc-stats",
                group: Group::Server,
                since: "4.0.0",
                summary: "Returns the allocator statistics.",
                complexity: "Depends on how much memory is allocated, could be slow",
                arity: 2,
                tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
                run: Some(memory_malloc_stats),
                ..Command::DEFAULT
            },
            Command {
                name: "purge",
                group: Group::Server,
                since: "4.0.0",
                summary: "Asks the allocator to release memory.",
                complexity: "Depends on how much memory is allocated, could be slow",
                arity: 2,
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                run: Some(memory_purge),
                ..Command::DEFAULT
            },
            Command {
                name: "stats",
                group: Group::Server,
                since: "4.0.0",
                summary: "Returns details about memory usage.",
                complexity: "O(1)",
                arity: 2,
                tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
                run: Some(memory_stats),
                ..Command::DEFAULT
            },
            Command {
                name: "usage",
                group: Group::Server,
                since: "4.0.0",
                summary: "Estimates the memory usage of a key.",
                complexity: "O(N) where N is the number of samples.",
                arity: -3,
                flags: flag::READONLY,
                keys: &[KeySpec::range(key::RO, 2, 0, 1)],
                args: &[Arg::key("key", 0), Arg::integer("count").token("SAMPLES").optional()],
                run: Some(memory_usage),
                ..Command::DEFAULT
            },
        ],
        ..Command::DEFAULT
    },
    Command {
        name: "monitor",
        group: Group::Server,
        since: "1.0.0",
        summary: "Listens for all requests received by the server in real-time.",
        complexity: "",
        arity: 1,
        flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
        run: Some(monitor),
        ..Command::DEFAULT
    },
    Command {
        name: "shutdown",
        group: Group::Server,
        since: "1.0.0",
        summary: "Synchronously saves the database(s) to disk and shuts down the server.",
        complexity: "O(N) when saving, where N is the total number of keys in all databases when saving data, otherwise O(1)",
        arity: -1,
        flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::NO_MULTI | flag::ALLOW_BUSY,
        args: &[Arg::one_of(
            "abort-selector",
            &[
                Arg::block(
                    "save-selector-block",
                    &[
                        Arg::one_of("save-selector", &[Arg::word("nosave", "NOSAVE"), Arg::word("save", "SAVE")])
                            .optional(),
                        Arg::word("now", "NOW").since("7.0.0").optional(),
                        Arg::word("force", "FORCE").since("7.0.0").optional(),
                    ],
                ),
                Arg::word("abort", "ABORT").since("7.0.0"),
            ],
        )
        .optional()],
        history: &[("7.0.0", "Added the `NOW`, `FORCE` and `ABORT` modifiers.")],
        run: Some(shutdown),
        ..Command::DEFAULT
    },
    Command {
        name: "swapdb",
        group: Group::Server,
        since: "4.0.0",
        summary: "Swaps two databases.",
        complexity: "O(N) where N is the count of clients watching or blocking on keys from both databases.",
        arity: 3,
        flags: flag::WRITE | flag::FAST,
        acl: acl::DANGEROUS | acl::KEYSPACE,
        args: &[Arg::integer("index1"), Arg::integer("index2")],
        run: Some(swapdb),
        ..Command::DEFAULT
    },
    Command {
        name: "time",
        group: Group::Server,
        since: "2.6.0",
        summary: "Returns the server time.",
        complexity: "O(1)",
        arity: 1,
        flags: flag::LOADING | flag::STALE | flag::FAST,
        tips: &["nondeterministic_output"],
        run: Some(time),
        ..Command::DEFAULT
    },
];

fn dbsize(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let n = ctx.keys.db().table.len();
    ctx.reply.count(n);
    Ok(())
}

/// Whether to answer at once (ASYNC). The keys are gone at once in both modes, and their memory is given back between the
/// turns; without ASYNC the answer comes when it is, so that what the client writes next finds room.
fn flush_async(ctx: &Ctx<'_>) -> Result<bool, Error> {
    match ctx.argc() {
        1 => Ok(ctx.core.config.lazy_flush),
        2 if ctx.args.is(1, "ASYNC") => Ok(true),
        2 if ctx.args.is(1, "SYNC") => Ok(false),
        _ => Err(Error::Syntax),
    }
}

/// Elements that a flush frees itself: of a small database, all.
const FREED_AT_ONCE: usize = 2_048;

/// Counts and answers a flush of `n` keys.
fn flushed(ctx: &mut Ctx<'_>, at_once: bool, n: usize) {
    ctx.keys.space.dirty += n as u64;
    if n == 0 {
        // An empty database was flushed too, as far as replicas are concerned.
        let args: Vec<&[u8]> = ctx.args.iter_from(0).collect();
        ctx.keys.effect(&args);
    }
    if at_once {
        ctx.reply.ok();
    } else {
        answer_when_freed(ctx);
    }
}

/// Answers when the memory of removed values is given back, step by step.
fn answer_when_freed(ctx: &mut Ctx<'_>) {
    if ctx.deny_blocking || !ctx.keys.space.lazy.step(FREED_AT_ONCE) {
        ctx.reply.ok();
    } else {
        ctx.core.wait_request = Some(WaitRequest {
            wait: Wait::Time,
            even_without_key: false,
            args: None,
            keys: Vec::new(),
            until_us: None,
        });
        ctx.core.flushing.push(ctx.client.handle);
    }
}

fn flushdb(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let at_once = flush_async(ctx)?;
    let db = ctx.keys.db;
    let n = ctx.keys.space.flush(db);
    ctx.keys.space.invalidate_all();
    flushed(ctx, at_once, n);
    Ok(())
}

fn flushall(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let at_once = flush_async(ctx)?;
    let n = (0..ctx.keys.space.dbs.len()).map(|db| ctx.keys.space.flush(db)).sum();
    ctx.keys.space.invalidate_all();
    flushed(ctx, at_once, n);
    Ok(())
}

fn swapdb(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let index = |i: usize, text: &'static str| {
        parse_i64(ctx.arg(i)).and_then(|n| i32::try_from(n).ok()).ok_or(Error::Fixed(text))
    };
    let a = index(1, "ERR invalid first DB index")?;
    let b = index(2, "ERR invalid second DB index")?;
    let count = ctx.keys.space.dbs.len();
    let place = |n: i32| usize::try_from(n).ok().filter(|n| *n < count);
    let (Some(a), Some(b)) = (place(a), place(b)) else {
        return Err(Error::Fixed("ERR DB index is out of range"));
    };
    ctx.keys.space.swap(a, b);
    ctx.keys.space.dirty += 1;
    ctx.reply.ok();
    Ok(())
}

fn time(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let us = ctx.core.unix_us;
    ctx.reply.array(2);
    ctx.reply.bulk_int(us.div_euclid(1_000_000));
    ctx.reply.bulk_int(us.rem_euclid(1_000_000));
    Ok(())
}

fn lolwut(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if ctx.argc() >= 3 && ctx.args.is(1, "VERSION") {
        ctx.int(2)?;
    }
    let text = format!("Redis ver. {}\n", super::info::REDIS_VERSION);
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn monitor(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if ctx.deny_blocking {
        return Err(Error::Fixed("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    if !ctx.client.monitor {
        ctx.client.monitor = true;
        ctx.core.monitors.push(ctx.client.handle);
    }
    ctx.reply.ok();
    Ok(())
}

fn shutdown(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (mut save, mut nosave, mut abort) = (false, false, false);
    for arg in ctx.args.iter_from(1) {
        match arg.to_ascii_lowercase().as_slice() {
            b"nosave" => nosave = true,
            b"save" => save = true,
            b"now" | b"force" => {}
            b"abort" => abort = true,
            _ => return Err(Error::Syntax),
        }
    }
    if (abort && ctx.argc() > 2) || (save && nosave) {
        return Err(Error::Syntax);
    }
    if abort {
        return Err(Error::Fixed("ERR No shutdown in progress."));
    }
    log::warn!("client {} ({}) shuts the server down", ctx.client.id, ctx.client.peer);
    ctx.core.event = Some(ServerEvent::Shutdown);
    ctx.client.fate = Fate::CloseAfterOutput;
    Ok(())
}

fn memory_usage(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    /// Elements that are looked at unless SAMPLES says otherwise.
    const SAMPLES: usize = 5;
    let (mut i, mut samples) = (3, SAMPLES);
    while i < ctx.argc() {
        if !ctx.args.is(i, "SAMPLES") || i + 1 >= ctx.argc() {
            return Err(Error::Syntax);
        }
        samples = match ctx.int(i + 1)? {
            0 => usize::MAX,
            n => usize::try_from(n).map_err(|_| Error::Syntax)?,
        };
        i += 2;
    }
    match ctx.keys.memory_usage(ctx.args.get(2), samples) {
        Some(n) => ctx.reply.count(n),
        None => ctx.reply.null(),
    }
    Ok(())
}

fn memory_doctor(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let m = &ctx.core.machine;
    let (used, rss) = (m.used_memory(), m.resident_memory());
    let text = if used < 5 * 1024 * 1024 {
        String::from(
            "Hi Sam, this instance is empty or is using very little memory, my issues detector can't be used in these conditions. Please, leave for your mission on Earth and fill it with some data. The new Sam and I will be back to our programming as soon as I finished rebooting.\n",
        )
    } else if rss > used + used / 2 {
        format!(
            "Sam, I detected a few issues in this Redis instance memory implants:\n\n * High total RSS: This instance has a memory fragmentation greater than 1.4: {used} bytes are used of {rss} held.\n"
        )
    } else {
        String::from(
            "Hi Sam, I can't find any memory issue in your instance. I can only account for what occurs on this base.\n",
        )
    };
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn memory_stats(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let m = &ctx.core.machine;
    let (used, rss, peak) = (m.used_memory(), m.resident_memory(), m.peak_memory().max(m.used_memory()));
    let overhead = super::info::overhead(ctx);
    let startup = ctx.core.startup_memory;
    let keys: usize = ctx.keys.space.dbs.iter().map(|d| d.table.len()).sum();
    let dataset = used.saturating_sub(overhead);
    let clients: usize = ctx.core.clients.iter().map(|s| s.memory_usage()).sum();
    let dbs: Vec<(usize, usize)> = ctx
        .keys
        .space
        .dbs
        .iter()
        .enumerate()
        .filter(|(_, d)| !d.table.is_empty())
        .map(|(n, d)| (n, d.table.memory_usage()))
        .collect();
    let r = &mut ctx.reply;
    let slack = rss.saturating_sub(used);
    r.map(27 + dbs.len());
    let count = |r: &mut Reply<'_>, name: &str, n: usize| {
        r.bulk(name.as_bytes());
        r.count(n);
    };
    let share = |r: &mut Reply<'_>, name: &str, part: usize, of: usize, scale: f64| {
        r.bulk(name.as_bytes());
        r.double(if of == 0 { 0.0 } else { part as f64 * scale / of as f64 });
    };
    count(r, "peak.allocated", peak);
    count(r, "total.allocated", used);
    count(r, "startup.allocated", startup);
    count(r, "replication.backlog", 0);
    count(r, "clients.slaves", 0);
    count(r, "clients.normal", clients);
    count(r, "cluster.links", 0);
    count(r, "aof.buffer", 0);
    count(r, "lua.caches", 0);
    count(r, "functions.caches", 0);
    for (n, bytes) in dbs {
        r.bulk(format!("db.{n}").as_bytes());
        r.map(3);
        count(r, "overhead.hashtable.main", bytes);
        count(r, "overhead.hashtable.expires", 0);
        count(r, "overhead.hashtable.slot-to-keys", 0);
    }
    count(r, "overhead.total", overhead);
    count(r, "keys.count", keys);
    count(r, "keys.bytes-per-key", used.saturating_sub(startup).checked_div(keys).unwrap_or(0));
    count(r, "dataset.bytes", dataset);
    share(r, "dataset.percentage", dataset, used.saturating_sub(startup), 100.0);
    share(r, "peak.percentage", used, peak, 100.0);
    count(r, "allocator.allocated", used);
    count(r, "allocator.active", rss);
    count(r, "allocator.resident", rss);
    share(r, "allocator-fragmentation.ratio", rss, used, 1.0);
    count(r, "allocator-fragmentation.bytes", slack);
    // What the allocator holds is all that there is.
    share(r, "allocator-rss.ratio", rss, rss, 1.0);
    count(r, "allocator-rss.bytes", 0);
    share(r, "rss-overhead.ratio", rss, rss, 1.0);
    count(r, "rss-overhead.bytes", 0);
    share(r, "fragmentation", rss, used, 1.0);
    count(r, "fragmentation.bytes", slack);
    Ok(())
}

fn memory_malloc_stats(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let m = &ctx.core.machine;
    let text = format!(
        "barium-heap: {} bytes used, {} held, {} at most, {} in all\n",
        m.used_memory(),
        m.resident_memory(),
        m.peak_memory(),
        m.total_memory()
    );
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn memory_purge(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    // The heap gives empty spans back by itself; what can be waited for is the queue of removed values.
    answer_when_freed(ctx);
    Ok(())
}

const MEMORY_HELP: &[&str] = &[
    "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DOCTOR",
    "    Return memory problems reports.",
    "MALLOC-STATS",
    "    Return internal statistics report from the memory allocator.",
    "PURGE",
    "    Attempt to purge dirty pages for reclamation by the allocator.",
    "STATS",
    "    Return information about the memory usage of the server.",
    "USAGE <key> [SAMPLES <count>]",
    "    Return memory in bytes used by <key> and its value. Nested values are",
    "    sampled up to <count> times (default: 5, 0 means sample all).",
    "HELP",
    "    Print this help.",
];

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use alloc::format;

    #[test]
    fn purging_waits_until_removed_values_are_freed_in_steps() {
        let mut bench = Bench::new(&[]);
        let c = bench.client();
        assert_eq!(bench.run(c, "MEMORY PURGE"), "OK");
        for i in 0..10_000 {
            bench.run(c, &format!("SADD set member{i}"));
        }
        bench.run(c, "UNLINK set");
        assert_eq!(bench.run(c, "MEMORY PURGE"), "");
        while !bench.server().keyspace.lazy.is_empty() {
            bench.server().tick();
        }
        bench.server().tick();
        assert_eq!(bench.read(c), "OK");
    }

    #[test]
    fn memory_is_told_by_database() {
        let mut bench = Bench::new(&[]);
        let c = bench.client();
        bench.run(c, "SET k v");
        let stats = bench.run(c, "MEMORY STATS");
        assert!(stats.contains("db.0 [overhead.hashtable.main "), "{stats}");
        assert!(stats.contains(" keys.count 1 ") && stats.contains(" allocator-rss.ratio 1 "), "{stats}");
        bench.run(c, "HELLO 3");
        // The map says how many pairs it has: all of the reply was read.
        assert!(bench.run(c, "MEMORY STATS").starts_with("{peak.allocated "));
    }
}
