//! Reading streams from an ID on, and waiting for what comes: XREAD and XREADGROUP.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::args;
use super::{effect, no_group};
use crate::blocking::{Wait, WaitRequest};
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;
use crate::keyspace::{EffectForm, event};
use crate::reply::{Aggregate, Reply};
use crate::session::args::OwnedArgs;
use crate::types::stream::{self, ID_CHARS, Log, Stream, StreamId};
use crate::value::Type;

/// Bytes that a pending entry takes, about.
const PENDING_COST: usize = 128;

/// The commands of this part of the family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "xread",
        group: Group::Stream,
        since: "5.0.0",
        summary: "Returns messages from multiple streams with IDs greater than the ones requested. Blocks until a message is available otherwise.",
        complexity: "",
        arity: -4,
        flags: flag::READONLY | flag::BLOCKING,
        acl: acl::STREAM,
        keys: &[KeySpec::keyword(key::RO | key::ACCESS, "STREAMS", 1).last(-1).limit(2)],
        args: &[
            Arg::integer("count").token("COUNT").optional(),
            Arg::integer("milliseconds").token("BLOCK").optional(),
            Arg::block("streams", &[Arg::key("key", 0).multiple(), Arg::string("id").multiple()]).token("STREAMS"),
        ],
        run: Some(xread),
        ..Command::DEFAULT
    },
    Command {
        name: "xreadgroup",
        group: Group::Stream,
        since: "5.0.0",
        summary: "Returns new or historical messages from a stream for a consumer in a group. Blocks until a message is available otherwise.",
        complexity: "For each stream mentioned: O(M) with M being the number of elements returned. If M is constant (e.g. always asking for the first 10 elements with COUNT), you can consider it O(1). On the other side when XREADGROUP blocks, XADD will pay the O(N) time in order to serve the N clients blocked on the stream getting new data.",
        arity: -7,
        flags: flag::WRITE | flag::BLOCKING,
        acl: acl::STREAM,
        keys: &[KeySpec::keyword(key::RO | key::ACCESS, "STREAMS", 4).last(-1).limit(2)],
        args: &[
            Arg::block("group-block", &[Arg::string("group"), Arg::string("consumer")]).token("GROUP"),
            Arg::integer("count").token("COUNT").optional(),
            Arg::integer("milliseconds").token("BLOCK").optional(),
            Arg::word("noack", "NOACK").optional(),
            Arg::block("streams", &[Arg::key("key", 0).multiple(), Arg::string("id").multiple()]).token("STREAMS"),
        ],
        run: Some(xreadgroup),
        ..Command::DEFAULT
    },
];

fn xread(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    read(ctx, false)
}

fn xreadgroup(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    read(ctx, true)
}

#[derive(Default)]
struct Options {
    /// BLOCK: until when, monotonic time in us; Some(None): for ever.
    block: Option<Option<u64>>,
    /// COUNT; 0: all.
    count: u64,
    /// Where the first key stands.
    keys: usize,
    /// Number of keys.
    len: usize,
    /// Where the group stands, which the consumer follows.
    group: Option<usize>,
    noack: bool,
}

impl Options {
    fn parse(ctx: &Ctx<'_>, grouped: bool) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut i = 1;
        while i < ctx.argc() {
            let more = ctx.argc() - 1 - i;
            if ctx.args.is(i, "block") && more > 0 {
                i += 1;
                options.block = Some(wait_until(ctx, i)?);
            } else if ctx.args.is(i, "count") && more > 0 {
                i += 1;
                options.count = ctx.int(i)?.max(0) as u64;
            } else if ctx.args.is(i, "streams") && more > 0 {
                if more % 2 == 1 {
                    let symbol = if grouped { '>' } else { '$' };
                    return Err(error_text!(
                        "ERR Unbalanced '{}' list of streams: for each stream key an ID or '{symbol}' must be specified.",
                        ctx.command.name
                    ));
                }
                (options.keys, options.len) = (i + 1, more / 2);
                break;
            } else if ctx.args.is(i, "group") && more >= 2 {
                if !grouped {
                    return Err(Error::Fixed(
                        "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
                    ));
                }
                options.group = Some(i + 1);
                i += 2;
            } else if ctx.args.is(i, "noack") {
                if !grouped {
                    return Err(Error::Fixed(
                        "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
                    ));
                }
                options.noack = true;
            } else {
                return Err(Error::Syntax);
            }
            i += 1;
        }
        if options.keys == 0 {
            return Err(Error::Syntax);
        }
        if grouped && options.group.is_none() {
            return Err(Error::Fixed("ERR Missing GROUP option for XREADGROUP"));
        }
        Ok(options)
    }
}

/// A timeout in ms as a point of monotonic time, in us; None: wait for ever.
fn wait_until(ctx: &Ctx<'_>, index: usize) -> Result<Option<u64>, Error> {
    let ms = crate::number::parse_i64(ctx.arg(index))
        .ok_or(Error::Fixed("ERR timeout is not an integer or out of range"))?;
    if ms < 0 {
        return Err(Error::Fixed("ERR timeout is negative"));
    }
    if ms == 0 {
        return Ok(None);
    }
    if ms.checked_add(ctx.core.now_ms()).is_none() {
        return Err(Error::Fixed("ERR timeout is out of range"));
    }
    Ok(Some(ctx.core.now_us.saturating_add((ms as u64).saturating_mul(1000))))
}

/// The IDs behind which is read; the greatest ID stands for `>`.
fn ids(ctx: &mut Ctx<'_>, options: &Options, grouped: bool) -> Result<Vec<StreamId>, Error> {
    let mut ids = Vec::new();
    ids.try_reserve_exact(options.len)?;
    for key_at in options.keys..options.keys + options.len {
        let (key, text) = (ctx.arg(key_at), ctx.arg(key_at + options.len));
        ctx.keys.use_again();
        let stream = ctx.keys.stream(key)?;
        if grouped && text == b">" && !options.noack {
            // Whatever is delivered becomes pending: more small allocations than the heap's reserve may stand for.
            let n = stream.as_ref().map_or(0, |s| s.log.len).min(or_all(options.count)) as usize;
            if !ctx.core.affordable(n.saturating_mul(PENDING_COST)) {
                return Err(Error::OutOfMemory);
            }
        }
        if let Some(at) = options.group {
            let group = ctx.args.get(at);
            if stream.is_none_or(|s| !s.groups.contains_key(group)) {
                return Err(no_group(key, group, " in XREADGROUP with GROUP option"));
            }
        }
        ids.push(match text {
            b"$" if grouped => {
                return Err(Error::Fixed(
                    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
                ));
            }
            b"$" => stream.map_or(StreamId::MIN, |s| s.log.last_id),
            b">" if !grouped => {
                return Err(Error::Fixed(
                    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
                ));
            }
            b">" => StreamId::MAX,
            _ => args::id(text, 0)?,
        });
    }
    Ok(ids)
}

fn read(ctx: &mut Ctx<'_>, grouped: bool) -> Result<(), Error> {
    let options = Options::parse(ctx, grouped)?;
    let ids = ids(ctx, &options, grouped)?;
    if grouped {
        // It is described by what it delivers, not by itself.
        ctx.keys.space.effect_form = EffectForm::Replaced;
    }
    let start = ctx.reply.defer();
    let mut served = 0;
    for (i, id) in ids.iter().enumerate() {
        let at = options.keys + i;
        ctx.keys.use_again();
        let done = match options.group {
            Some(group) => serve_group(ctx, &options, at, group, *id)?,
            None => serve(ctx, &options, at, *id)?,
        };
        served += usize::from(done);
    }
    if served > 0 {
        let kind = if ctx.reply.resp3 { Aggregate::Map } else { Aggregate::Array };
        ctx.reply.end(start, kind, served);
        return Ok(());
    }
    match options.block {
        Some(until_us) if !ctx.deny_blocking => wait(ctx, &options, &ids, until_us, grouped),
        _ => ctx.reply.null_array(),
    }
    Ok(())
}

/// Has the client wait; what comes after `$` was settled when the command came.
fn wait(ctx: &mut Ctx<'_>, options: &Options, ids: &[StreamId], until_us: Option<u64>, grouped: bool) {
    let first_id = options.keys + options.len;
    let mut texts = Vec::with_capacity(ids.len());
    texts.resize(ids.len(), [0; ID_CHARS]);
    let mut args: Vec<&[u8]> = ctx.args.iter_from(0).collect();
    for ((arg, id), text) in args.iter_mut().skip(first_id).zip(ids).zip(&mut texts) {
        if *arg == b"$" {
            *arg = id.text(text);
        }
    }
    ctx.core.wait_request = Some(WaitRequest {
        wait: Wait::Key(Type::Stream),
        // A reader of a group is told when the stream goes.
        even_without_key: grouped,
        args: Some(OwnedArgs::from_slices(&args)),
        keys: (options.keys..first_id).map(|i| ctx.args.get(i).into()).collect(),
        until_us,
    });
}

/// The head of a stream's part of the reply: its key.
fn head(reply: &mut Reply<'_>, key: &[u8]) {
    if !reply.resp3 {
        reply.array(2);
    }
    reply.bulk(key);
}

const fn or_all(count: u64) -> u64 {
    if count == 0 { u64::MAX } else { count }
}

/// Writes what a stream has behind an ID; false if there is nothing.
fn serve(ctx: &mut Ctx<'_>, options: &Options, key_at: usize, behind: StreamId) -> Result<bool, Error> {
    let key = ctx.arg(key_at);
    let Some(stream) = ctx.keys.stream(key)? else { return Ok(false) };
    let Some(start) = behind.next() else { return Ok(false) };
    if stream.log.len == 0 || stream.log.last_valid_id() <= behind {
        return Ok(false);
    }
    head(&mut ctx.reply, key);
    ctx.reply.stream_range(stream.log.range(start, StreamId::MAX, false), or_all(options.count));
    Ok(true)
}

/// Writes what a group has for a consumer: what is new, or (behind another ID than `>`) what it did not acknowledge.
fn serve_group(
    ctx: &mut Ctx<'_>,
    options: &Options,
    key_at: usize,
    group_at: usize,
    behind: StreamId,
) -> Result<bool, Error> {
    let (key, group_name, name) = (ctx.arg(key_at), ctx.arg(group_at), ctx.arg(group_at + 1));
    let now = ctx.keys.now_ms();
    let new = behind == StreamId::MAX;
    let describe = ctx.keys.space.effects_wanted;
    // Looking whether the group is there was one read of the key, this is another.
    if ctx.keys.stream(key)?.is_none() {
        return Ok(false);
    }
    let Some(stream) = ctx.keys.stream_mut(key)? else { return Ok(false) };
    let Stream { log, groups } = &mut **stream;
    let Some(group) = groups.get_mut(group_name) else { return Ok(false) };
    let created = group.add_consumer(name, now);
    let Some(shared) = group.shared_name(name) else { return Ok(false) };
    if let Some(consumer) = group.consumers.get_mut(name) {
        consumer.seen_ms = now;
    }
    let done = !new || (log.len > 0 && log.last_valid_id() > group.last_id);
    let before = group.last_id;
    let mut delivered = Vec::new();
    if done {
        head(&mut ctx.reply, key);
    }
    if !new {
        let start = behind.next().unwrap_or(StreamId::MIN);
        history(&mut ctx.reply, log, group, name, start, options.count, now);
    } else if done {
        let owner = (!options.noack).then_some(&shared);
        delivered = deliver(&mut ctx.reply, log, group, owner, options.count, now, describe);
    }
    let mut effects = Vec::new();
    if describe {
        effects.extend(delivered.iter().filter_map(|&id| effect::claimed(key, group_name, group, id)));
        if created && options.noack {
            effects.push(effect::consumer(key, group_name, name));
        }
        if group.last_id != before {
            effects.push(effect::position(key, group_name, group));
        }
    }
    effect::describe(ctx, effects);
    if created {
        ctx.keys.changed();
        ctx.notify(event::STREAM, "xgroup-createconsumer", key);
    }
    if done {
        ctx.keys.changed();
    }
    Ok(done)
}

/// Writes the entries behind the group's last one and moves the group on. They become pending for `owner`, if there is
/// one. Returns the IDs if they are wanted.
fn deliver(
    reply: &mut Reply<'_>,
    log: &Log,
    group: &mut stream::Group,
    owner: Option<&Arc<[u8]>>,
    count: u64,
    now: i64,
    wanted: bool,
) -> Vec<StreamId> {
    let (mut n, mut ids) = (0, Vec::new());
    let array = reply.defer();
    let start = group.last_id.next().unwrap_or(StreamId::MIN);
    for item in log.range(start, StreamId::MAX, false) {
        if n == or_all(count) || reply.out.overflowed() {
            break;
        }
        if item.id > group.last_id {
            group.advance(log, item.id);
        }
        reply.stream_entry(&item);
        if let Some(owner) = owner {
            let pending = group.assign(item.id, owner, now);
            (pending.delivered_ms, pending.deliveries) = (now, 1);
            if wanted {
                ids.push(item.id);
            }
        }
        n += 1;
    }
    reply.end(array, Aggregate::Array, n as usize);
    if let Some(consumer) = owner.and_then(|name| group.consumers.get_mut(name)) {
        consumer.active_ms = now;
    }
    ids
}

/// Writes the entries from an ID on that a consumer did not acknowledge.
fn history(
    reply: &mut Reply<'_>,
    log: &Log,
    group: &mut stream::Group,
    name: &[u8],
    start: StreamId,
    count: u64,
    now: i64,
) {
    let (mut n, array) = (0, reply.defer());
    if let Some(consumer) = group.consumers.get(name) {
        for &id in consumer.pending.range(start..) {
            if n == or_all(count) || reply.out.overflowed() {
                break;
            }
            n += 1;
            let Some(item) = log.range(id, id, false).next() else {
                // It was deleted since.
                reply.array(2);
                reply.stream_id(id);
                reply.null_array();
                continue;
            };
            reply.stream_entry(&item);
            if let Some(pending) = group.pending.get_mut(&id) {
                pending.delivered_ms = now;
                pending.deliveries = pending.deliveries.wrapping_add(1);
            }
        }
    }
    reply.end(array, Aggregate::Array, n as usize);
}
