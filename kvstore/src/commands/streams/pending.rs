//! Entries that were delivered and not acknowledged: XPENDING, XCLAIM, XAUTOCLAIM.

use alloc::vec::Vec;

use super::{args, effect, no_group};
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;
use crate::keyspace::event;
use crate::number::parse_i64;
use crate::reply::{Aggregate, Reply};
use crate::types::stream::{self, Stream, StreamId};

/// The commands of this part of the family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "xautoclaim",
        group: Group::Stream,
        since: "6.2.0",
        summary: "Changes, or acquires, ownership of messages in a consumer group, as if the messages were delivered to as consumer group member.",
        complexity: "O(1) if COUNT is small.",
        arity: -6,
        flags: flag::WRITE | flag::FAST,
        acl: acl::STREAM,
        keys: &[KeySpec::range(key::RW | key::DELETE, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::string("group"),
            Arg::string("consumer"),
            Arg::string("min-idle-time"),
            Arg::string("start"),
            Arg::integer("count").token("COUNT").optional(),
            Arg::word("justid", "JUSTID").optional(),
        ],
        history: &[(
            "7.0.0",
            "Added an element to the reply array, containing deleted entries the command cleared from the PEL",
        )],
        tips: &["nondeterministic_output"],
        run: Some(xautoclaim),
        ..Command::DEFAULT
    },
    Command {
        name: "xclaim",
        group: Group::Stream,
        since: "5.0.0",
        summary: "Changes, or acquires, ownership of a message in a consumer group, as if the message was delivered a consumer group member.",
        complexity: "O(log N) with N being the number of messages in the PEL of the consumer group.",
        arity: -6,
        flags: flag::WRITE | flag::FAST,
        acl: acl::STREAM,
        keys: &[KeySpec::range(key::RW | key::UPDATE, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::string("group"),
            Arg::string("consumer"),
            Arg::string("min-idle-time"),
            Arg::string("id").multiple(),
            Arg::integer("ms").token("IDLE").optional(),
            Arg::unix_time("unix-time-milliseconds").token("TIME").optional(),
            Arg::integer("count").token("RETRYCOUNT").optional(),
            Arg::word("force", "FORCE").optional(),
            Arg::word("justid", "JUSTID").optional(),
            Arg::string("lastid").token("LASTID").optional(),
        ],
        tips: &["nondeterministic_output"],
        run: Some(xclaim),
        ..Command::DEFAULT
    },
    Command {
        name: "xpending",
        group: Group::Stream,
        since: "5.0.0",
        summary: "Returns the information and entries from a stream consumer group's pending entries list.",
        complexity: "O(N) with N being the number of elements returned, so asking for a small fixed number of entries per call is O(1). O(M), where M is the total number of entries scanned when used with the IDLE filter. When the command returns just the summary and the list of consumers is small, it runs in O(1) time; otherwise, an additional O(N) time for iterating every consumer.",
        arity: -3,
        flags: flag::READONLY,
        acl: acl::STREAM,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::string("group"),
            Arg::block(
                "filters",
                &[
                    Arg::integer("min-idle-time").token("IDLE").since("6.2.0").optional(),
                    Arg::string("start"),
                    Arg::string("end"),
                    Arg::integer("count"),
                    Arg::string("consumer").optional(),
                ],
            )
            .optional(),
        ],
        history: &[("6.2.0", "Added the `IDLE` option and exclusive range intervals.")],
        tips: &["nondeterministic_output"],
        run: Some(xpending),
        ..Command::DEFAULT
    },
];

/// XPENDING's interval and filters.
struct Filter<'a> {
    start: StreamId,
    end: StreamId,
    count: u64,
    min_idle_ms: i64,
    consumer: Option<&'a [u8]>,
}

impl<'a> Filter<'a> {
    fn parse(ctx: &Ctx<'a>) -> Result<Option<Self>, Error> {
        let argc = ctx.argc();
        if argc == 3 {
            return Ok(None);
        }
        if !(6..=9).contains(&argc) {
            return Err(Error::Syntax);
        }
        let (mut first, mut min_idle_ms) = (3, 0);
        if ctx.args.is(3, "idle") {
            min_idle_ms = ctx.int(4)?;
            if argc < 8 {
                return Err(Error::Syntax);
            }
            first = 5;
        }
        let count = ctx.int(first + 2)?.max(0) as u64;
        let (start, end) = (args::start(ctx.arg(first))?, args::end(ctx.arg(first + 1))?);
        let consumer = (first + 3 < argc).then(|| ctx.arg(first + 3));
        Ok(Some(Self { start, end, count, min_idle_ms, consumer }))
    }
}

fn xpending(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let filter = Filter::parse(ctx)?;
    let (key, name, now) = (ctx.arg(1), ctx.arg(2), ctx.keys.now_ms());
    let group = ctx.keys.stream(key)?.and_then(|s| s.groups.get(name)).ok_or_else(|| no_group(key, name, ""))?;
    match filter {
        Some(filter) => list(&mut ctx.reply, group, &filter, now),
        None => summary(&mut ctx.reply, group),
    }
    Ok(())
}

fn summary(reply: &mut Reply<'_>, group: &stream::Group) {
    reply.array(4);
    reply.count(group.pending.len());
    let (Some((first, _)), Some((last, _))) = (group.pending.first_key_value(), group.pending.last_key_value()) else {
        reply.null();
        reply.null();
        return reply.null_array();
    };
    reply.stream_id(*first);
    reply.stream_id(*last);
    let (mut n, array) = (0, reply.defer());
    for (name, consumer) in group.consumers.iter().filter(|(_, c)| !c.pending.is_empty()) {
        reply.array(2);
        reply.bulk(name);
        reply.bulk_int(consumer.pending.len() as i64);
        n += 1;
    }
    reply.end(array, Aggregate::Array, n);
}

fn list(reply: &mut Reply<'_>, group: &stream::Group, filter: &Filter<'_>, now: i64) {
    let Filter { start, end, .. } = *filter;
    let of_consumer = filter.consumer.map(|name| group.consumers.get(name));
    if start > end || matches!(of_consumer, Some(None)) {
        return reply.array(0);
    }
    let (mut n, array) = (0, reply.defer());
    let mut write = |id: StreamId, pending: &stream::Pending| {
        let idle = now.saturating_sub(pending.delivered_ms);
        if filter.min_idle_ms == 0 || idle >= filter.min_idle_ms {
            reply.array(4);
            reply.stream_id(id);
            reply.bulk(&pending.consumer);
            reply.int(idle.max(0));
            reply.count(pending.deliveries as usize);
            n += 1;
        }
        n < filter.count && !reply.out.overflowed()
    };
    if filter.count > 0 {
        match of_consumer.flatten() {
            Some(consumer) => {
                let mut ids = consumer.pending.range(start..=end);
                let _ = ids.all(|id| group.pending.get(id).is_none_or(|pending| write(*id, pending)));
            }
            None => {
                let _ = group.pending.range(start..=end).all(|(id, pending)| write(*id, pending));
            }
        }
    }
    reply.end(array, Aggregate::Array, n as usize);
}

/// A group with what its claims need.
struct Claim<'a> {
    stream: &'a mut Stream,
    key: &'a [u8],
    group: &'a [u8],
    consumer: &'a [u8],
    now: i64,
    justid: bool,
    /// Whether the command is to be described.
    described: bool,
    effects: Vec<effect::Words>,
    /// Whether anything changed.
    changed: bool,
}

impl Claim<'_> {
    fn group(&mut self) -> Result<&mut stream::Group, Error> {
        self.stream.groups.get_mut(self.group).ok_or_else(|| no_group(self.key, self.group, ""))
    }

    /// Describes how a pending entry stands.
    fn describe(&mut self, id: StreamId) {
        self.changed = true;
        if self.described
            && let Some(group) = self.stream.groups.get(self.group)
        {
            self.effects.extend(effect::claimed(self.key, self.group, group, id));
        }
    }

    /// Makes sure of the consumer; whether there was none.
    fn introduce(&mut self) -> Result<bool, Error> {
        let (now, name) = (self.now, self.consumer);
        let group = self.group()?;
        let created = group.add_consumer(name, now);
        if let Some(consumer) = group.consumers.get_mut(name) {
            consumer.seen_ms = now;
        }
        self.changed |= created;
        Ok(created)
    }

    /// Takes an entry that was deleted off the pending ones.
    fn drop_deleted(&mut self, id: StreamId) -> Result<(), Error> {
        self.describe(id);
        self.group()?.acknowledge(id);
        Ok(())
    }

    /// Gives a pending entry to the consumer.
    fn take(&mut self, id: StreamId, delivered_ms: i64, deliveries: Option<u64>) -> Result<(), Error> {
        let (now, name, justid) = (self.now, self.consumer, self.justid);
        let group = self.group()?;
        let Some(shared) = group.shared_name(name) else { return Ok(()) };
        let pending = group.assign(id, &shared, now);
        pending.delivered_ms = delivered_ms;
        pending.deliveries = deliveries.unwrap_or(pending.deliveries.wrapping_add(u64::from(!justid)));
        if let Some(consumer) = group.consumers.get_mut(name) {
            consumer.active_ms = now;
        }
        self.describe(id);
        Ok(())
    }

    /// Writes an entry that was claimed: its ID, or all of it.
    fn write(&self, reply: &mut Reply<'_>, id: StreamId) {
        match self.stream.log.range(id, id, false).next() {
            Some(item) if !self.justid => reply.stream_entry(&item),
            _ => reply.stream_id(id),
        }
    }
}

/// XCLAIM's options.
struct Options {
    delivered_ms: Option<i64>,
    deliveries: Option<u64>,
    force: bool,
    justid: bool,
    last_id: StreamId,
}

impl Options {
    fn parse(ctx: &Ctx<'_>, mut i: usize, now: i64) -> Result<Self, Error> {
        let mut options =
            Self { delivered_ms: None, deliveries: None, force: false, justid: false, last_id: StreamId::MIN };
        while i < ctx.argc() {
            let more = i + 1 < ctx.argc();
            let number = |text| parse_i64(ctx.arg(i + 1)).ok_or(Error::Fixed(text));
            if ctx.args.is(i, "force") {
                options.force = true;
            } else if ctx.args.is(i, "justid") {
                options.justid = true;
            } else if ctx.args.is(i, "idle") && more {
                let idle = number("ERR Invalid IDLE option argument for XCLAIM")?;
                options.delivered_ms = Some(now.wrapping_sub(idle));
                i += 1;
            } else if ctx.args.is(i, "time") && more {
                options.delivered_ms = Some(number("ERR Invalid TIME option argument for XCLAIM")?);
                i += 1;
            } else if ctx.args.is(i, "retrycount") && more {
                let n = number("ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
                options.deliveries = u64::try_from(n).ok();
                i += 1;
            } else if ctx.args.is(i, "lastid") && more {
                options.last_id = args::id(ctx.arg(i + 1), 0)?;
                i += 1;
            } else {
                let option = crate::text::printable(ctx.arg(i), usize::MAX);
                return Err(error_text!("ERR Unrecognized XCLAIM option '{option}'"));
            }
            i += 1;
        }
        Ok(options)
    }

    /// When the entries count as delivered: now, unless a time that has been was given.
    fn delivered_ms(&self, now: i64) -> i64 {
        self.delivered_ms.filter(|t| (0..=now).contains(t)).unwrap_or(now)
    }
}

fn xclaim(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (key, group, now) = (ctx.arg(1), ctx.arg(2), ctx.keys.now_ms());
    let described = ctx.keys.space.effects_wanted;
    if !ctx.keys.stream(key)?.is_some_and(|s| s.groups.contains_key(group)) {
        return Err(no_group(key, group, ""));
    }
    let invalid = Error::Fixed("ERR Invalid min-idle-time argument for XCLAIM");
    let min_idle = parse_i64(ctx.arg(4)).ok_or(invalid)?.max(0);
    let ids: Vec<StreamId> = ctx.args.iter_from(5).map_while(|text| args::id(text, 0).ok()).collect();
    let options = Options::parse(ctx, 5 + ids.len(), now)?;
    let (consumer, justid) = (ctx.arg(3), options.justid);
    let Some(stream) = ctx.keys.stream_mut(key)? else { return Ok(()) };
    let mut claim = Claim { stream, key, group, consumer, now, justid, described, effects: Vec::new(), changed: false };
    let created = claim.introduce()?;
    let moved = options.last_id > claim.group()?.last_id;
    if moved {
        claim.group()?.last_id = options.last_id;
    }
    let delivered_ms = options.delivered_ms(now);
    let (mut n, array) = (0, ctx.reply.defer());
    for id in ids {
        let held = claim.group()?.pending.get(&id).map(|p| p.delivered_ms);
        if !claim.stream.log.contains(id) {
            if held.is_some() {
                claim.drop_deleted(id)?;
            }
            continue;
        }
        let due = match held {
            Some(at) => min_idle == 0 || now.saturating_sub(at) >= min_idle,
            None => options.force,
        };
        if due {
            claim.take(id, delivered_ms, options.deliveries)?;
            claim.write(&mut ctx.reply, id);
            n += 1;
        }
    }
    ctx.reply.end(array, Aggregate::Array, n);
    if moved && claim.effects.is_empty() && described {
        let words = effect::position(key, group, claim.group()?);
        claim.effects.push(words);
    }
    let (effects, changed) = (claim.effects, claim.changed || moved);
    finish(ctx, key, created, changed, effects);
    Ok(())
}

/// Says what a claim did.
fn finish(ctx: &mut Ctx<'_>, key: &[u8], created: bool, changed: bool, effects: Vec<effect::Words>) {
    effect::describe(ctx, effects);
    if changed {
        ctx.keys.changed();
    }
    if created {
        ctx.notify(event::STREAM, "xgroup-createconsumer", key);
    }
}

/// Entries that XAUTOCLAIM looks at for each that it may return.
const ATTEMPTS: u64 = 10;

/// COUNT and JUSTID of XAUTOCLAIM.
fn auto_options(ctx: &Ctx<'_>) -> Result<(u64, bool), Error> {
    let (mut count, mut justid) = (100, false);
    let most = i64::MAX / ID_BYTES;
    let mut i = 6;
    while i < ctx.argc() {
        if ctx.args.is(i, "count") && i + 1 < ctx.argc() {
            count = ctx.int_or(i + 1, 1, most, "ERR COUNT must be > 0")? as u64;
            i += 1;
        } else if ctx.args.is(i, "justid") {
            justid = true;
        } else {
            return Err(Error::Syntax);
        }
        i += 1;
    }
    Ok((count, justid))
}

/// Bytes of an ID in Redis, by which it bounds COUNT.
const ID_BYTES: i64 = 16;

fn xautoclaim(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    // The look comes first, and tells of a miss, whatever the arguments are.
    let _ = ctx.keys.read(ctx.arg(1));
    let (key, group, consumer, now) = (ctx.arg(1), ctx.arg(2), ctx.arg(3), ctx.keys.now_ms());
    let described = ctx.keys.space.effects_wanted;
    let invalid = Error::Fixed("ERR Invalid min-idle-time argument for XAUTOCLAIM");
    let min_idle = parse_i64(ctx.arg(4)).ok_or(invalid)?.max(0);
    let mut next = Some(args::start(ctx.arg(5))?);
    let (count, justid) = auto_options(ctx)?;
    let found = ctx.keys.stream_mut(key)?.filter(|s| s.groups.contains_key(group));
    let Some(stream) = found else { return Err(no_group(key, group, "")) };
    let mut claim = Claim { stream, key, group, consumer, now, justid, described, effects: Vec::new(), changed: false };
    let created = claim.introduce()?;
    let (mut claimed, mut deleted) = (Vec::new(), Vec::new());
    let (mut attempts, mut left) = (count.saturating_mul(ATTEMPTS), count);
    while attempts > 0
        && left > 0
        && let Some(from) = next
    {
        attempts -= 1;
        let Some((&id, pending)) = claim.group()?.pending.range(from..).next() else {
            next = None;
            break;
        };
        let delivered_ms = pending.delivered_ms;
        next = id.next();
        if !claim.stream.log.contains(id) {
            claim.drop_deleted(id)?;
            deleted.try_reserve(1)?;
            deleted.push(id);
            left -= 1;
        } else if min_idle == 0 || now.saturating_sub(delivered_ms) >= min_idle {
            claim.take(id, now, None)?;
            claimed.try_reserve(1)?;
            claimed.push(id);
            left -= 1;
        }
    }
    let rest = match next {
        Some(from) => claim.group()?.pending.range(from..).next().map(|(id, _)| *id),
        None => None,
    };
    ctx.reply.array(3);
    ctx.reply.stream_id(rest.unwrap_or(StreamId::MIN));
    ctx.reply.array(claimed.len());
    for id in claimed {
        claim.write(&mut ctx.reply, id);
    }
    ctx.reply.array(deleted.len());
    for id in deleted {
        ctx.reply.stream_id(id);
    }
    let (effects, changed) = (claim.effects, claim.changed);
    finish(ctx, key, created, changed, effects);
    Ok(())
}
