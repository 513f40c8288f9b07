//! What there is to know about streams: XINFO.

use super::{no_group_of, subcommand_error};
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::commands::keys::help;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::reply::Reply;
use crate::types::stream::{self, Log, Stream, StreamId};

/// The commands of this part of the family.
pub const COMMANDS: &[Command] = &[Command {
    name: "xinfo",
    group: Group::Stream,
    since: "5.0.0",
    summary: "A container for stream introspection commands.",
    complexity: "Depends on subcommand.",
    arity: -2,
    subcommands: &[
        Command {
            name: "consumers",
            group: Group::Stream,
            since: "5.0.0",
            summary: "Returns a list of the consumers in a consumer group.",
            complexity: "O(1)",
            arity: 4,
            flags: flag::READONLY,
            acl: acl::STREAM,
            keys: &[KeySpec::range(key::RO | key::ACCESS, 2, 0, 1)],
            args: &[Arg::key("key", 0), Arg::string("group")],
            history: &[("7.2.0", "Added the `inactive` field, and changed the meaning of `idle`.")],
            tips: &["nondeterministic_output"],
            run: Some(xinfo_consumers),
            ..Command::DEFAULT
        },
        Command {
            name: "groups",
            group: Group::Stream,
            since: "5.0.0",
            summary: "Returns a list of the consumer groups of a stream.",
            complexity: "O(1)",
            arity: 3,
            flags: flag::READONLY,
            acl: acl::STREAM,
            keys: &[KeySpec::range(key::RO | key::ACCESS, 2, 0, 1)],
            args: &[Arg::key("key", 0)],
            history: &[("7.0.0", "Added the `entries-read` and `lag` fields")],
            run: Some(xinfo_groups),
            ..Command::DEFAULT
        },
        Command {
            name: "help",
            group: Group::Stream,
            since: "5.0.0",
            summary: "Returns helpful text about the different subcommands.",
            complexity: "O(1)",
            arity: 2,
            flags: flag::LOADING | flag::STALE,
            acl: acl::STREAM,
            help: XINFO_HELP,
            run: Some(help),
            ..Command::DEFAULT
        },
        Command {
            name: "stream",
            group: Group::Stream,
            since: "5.0.0",
            summary: "Returns information about a stream.",
            complexity: "O(1)",
            arity: -3,
            flags: flag::READONLY,
            acl: acl::STREAM,
            keys: &[KeySpec::range(key::RO | key::ACCESS, 2, 0, 1)],
            args: &[
                Arg::key("key", 0),
                Arg::block("full-block", &[Arg::word("full", "FULL"), Arg::integer("count").token("COUNT").optional()])
                    .optional(),
            ],
            history: &[
                ("6.0.0", "Added the `FULL` modifier."),
                (
                    "7.0.0",
                    "Added the `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, `entries-read` and `lag` fields",
                ),
                ("7.2.0", "Added the `active-time` field, and changed the meaning of `seen-time`."),
            ],
            run: Some(xinfo_stream),
            ..Command::DEFAULT
        },
    ],
    ..Command::DEFAULT
}];

impl Reply<'_> {
    fn field(&mut self, name: &str) {
        self.bulk(name.as_bytes());
    }

    fn named_count(&mut self, name: &str, n: usize) {
        self.field(name);
        self.count(n);
    }

    fn named_id(&mut self, name: &str, id: StreamId) {
        self.field(name);
        self.stream_id(id);
    }

    /// A number, or null if it is not known.
    fn named_int(&mut self, name: &str, n: Option<i64>) {
        self.field(name);
        match n {
            Some(n) => self.int(n),
            None => self.null(),
        }
    }
}

fn xinfo_consumers(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (key, name, now) = (ctx.arg(2), ctx.arg(3), ctx.keys.now_ms());
    let stream = ctx.keys.stream(key)?.ok_or(Error::NoSuchKey)?;
    let group = stream.groups.get(name).ok_or_else(|| no_group_of(key, name))?;
    ctx.reply.array(group.consumers.len());
    for (name, consumer) in &group.consumers {
        ctx.reply.map(4);
        ctx.reply.field("name");
        ctx.reply.bulk(name);
        ctx.reply.named_count("pending", consumer.pending.len());
        ctx.reply.named_int("idle", Some((now - consumer.seen_ms).max(0)));
        let inactive = if consumer.active_ms == -1 { -1 } else { now - consumer.active_ms };
        ctx.reply.named_int("inactive", Some(inactive));
    }
    Ok(())
}

fn xinfo_groups(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let stream = ctx.keys.stream(ctx.args.get(2))?.ok_or(Error::NoSuchKey)?;
    ctx.reply.array(stream.groups.len());
    for (name, group) in &stream.groups {
        ctx.reply.map(6);
        ctx.reply.field("name");
        ctx.reply.bulk(name);
        ctx.reply.named_count("consumers", group.consumers.len());
        ctx.reply.named_count("pending", group.pending.len());
        ctx.reply.named_id("last-delivered-id", group.last_id);
        ctx.reply.named_int("entries-read", group.entries_read.map(|n| n as i64));
        ctx.reply.named_int("lag", group.lag(&stream.log));
    }
    Ok(())
}

/// What COUNT is unless it is given.
const FULL_COUNT: u64 = 10;

/// COUNT of XINFO STREAM ... FULL, or None without FULL.
fn full(ctx: &Ctx<'_>) -> Result<Option<u64>, Error> {
    let argc = ctx.argc();
    if argc == 3 {
        return Ok(None);
    }
    if (argc != 4 && argc != 6) || !ctx.args.is(3, "full") {
        return Err(subcommand_error(ctx, "XINFO"));
    }
    if argc == 4 {
        return Ok(Some(FULL_COUNT));
    }
    if !ctx.args.is(4, "count") {
        return Err(subcommand_error(ctx, "XINFO"));
    }
    let n = u64::try_from(ctx.int(5)?).unwrap_or(FULL_COUNT);
    Ok(Some(if n == 0 { u64::MAX } else { n }))
}

fn xinfo_stream(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let options = full(ctx);
    let stream = ctx.keys.stream(ctx.args.get(2))?.ok_or(Error::NoSuchKey)?;
    let options = options?;
    let (reply, log) = (&mut ctx.reply, &stream.log);
    reply.map(if options.is_some() { 9 } else { 10 });
    reply.named_count("length", log.len as usize);
    reply.named_count("radix-tree-keys", log.node_count());
    reply.named_count("radix-tree-nodes", log.radix_nodes());
    reply.named_id("last-generated-id", log.last_id);
    reply.named_id("max-deleted-entry-id", log.max_deleted_id);
    reply.named_int("entries-added", Some(log.entries_added as i64));
    reply.named_id("recorded-first-entry-id", log.first_id);
    match options {
        Some(count) => full_parts(reply, stream, count),
        None => {
            reply.named_count("groups", stream.groups.len());
            for (name, reverse) in [("first-entry", false), ("last-entry", true)] {
                reply.field(name);
                edge(reply, log, reverse);
            }
        }
    }
    Ok(())
}

/// The first or the last entry.
fn edge(reply: &mut Reply<'_>, log: &Log, reverse: bool) {
    match log.range(StreamId::MIN, StreamId::MAX, reverse).next() {
        Some(item) => reply.stream_entry(&item),
        None => reply.null(),
    }
}

fn full_parts(reply: &mut Reply<'_>, stream: &Stream, count: u64) {
    reply.field("entries");
    reply.stream_range(stream.log.range(StreamId::MIN, StreamId::MAX, false), count);
    reply.field("groups");
    reply.array(stream.groups.len());
    for (name, group) in &stream.groups {
        reply.map(7);
        reply.field("name");
        reply.bulk(name);
        reply.named_id("last-delivered-id", group.last_id);
        reply.named_int("entries-read", group.entries_read.map(|n| n as i64));
        reply.named_int("lag", group.lag(&stream.log));
        full_group(reply, group, usize::try_from(count).unwrap_or(usize::MAX));
    }
}

fn full_group(reply: &mut Reply<'_>, group: &stream::Group, count: usize) {
    reply.named_count("pel-count", group.pending.len());
    reply.field("pending");
    reply.array(group.pending.len().min(count));
    for (id, pending) in group.pending.iter().take(count) {
        reply.array(4);
        reply.stream_id(*id);
        reply.bulk(&pending.consumer);
        reply.int(pending.delivered_ms);
        reply.count(pending.deliveries as usize);
    }
    reply.field("consumers");
    reply.array(group.consumers.len());
    for (name, consumer) in &group.consumers {
        reply.map(5);
        reply.field("name");
        reply.bulk(name);
        reply.named_int("seen-time", Some(consumer.seen_ms));
        reply.named_int("active-time", Some(consumer.active_ms));
        reply.named_count("pel-count", consumer.pending.len());
        reply.field("pending");
        reply.array(consumer.pending.len().min(count));
        for id in consumer.pending.iter().take(count) {
            let pending = group.pending.get(id);
            reply.array(3);
            reply.stream_id(*id);
            reply.int(pending.map_or(0, |p| p.delivered_ms));
            reply.count(pending.map_or(0, |p| p.deliveries as usize));
        }
    }
}

const XINFO_HELP: &[&str] = &[
    "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CONSUMERS <key> <groupname>",
    "    Show consumers of <groupname>.",
    "GROUPS <key>",
    "    Show the stream consumer groups.",
    "STREAM <key> [FULL [COUNT <count>]",
    "    Show information about the stream.",
    "HELP",
    "    Print this help.",
];
