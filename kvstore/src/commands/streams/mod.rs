//! Commands on streams: adding, reading ranges, deleting, trimming. Those of consumer groups lie beside this file.

mod args;
mod effect;
pub mod groups;
pub mod info;
pub mod pending;
pub mod read;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::keyspace::event;
use crate::number::{I64_CHARS, format_u64};
use crate::reply::{Aggregate, Reply};
use crate::types::stream::{Bound, ID_CHARS, Item, Log, NewId, Range, StreamId};
use args::AddTrim;

/// Entries beyond this size are added only if there is memory for them twice, in bytes.
const LARGE_ENTRY: usize = 8192;

/// How far XADD and XTRIM trim.
const TRIM: Arg = Arg::block(
    "trim",
    &[
        Arg::one_of("strategy", &[Arg::word("maxlen", "MAXLEN"), Arg::word("minid", "MINID").since("6.2.0")]),
        Arg::one_of("operator", &[Arg::word("equal", "="), Arg::word("approximately", "~")]).optional(),
        Arg::string("threshold"),
        Arg::integer("count").token("LIMIT").since("6.2.0").optional(),
    ],
);

/// The commands of this part of the family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "xadd",
        group: Group::Stream,
        since: "5.0.0",
        summary: "Appends a new message to a stream. Creates the key if it doesn't exist.",
        complexity: "O(1) when adding a new entry, O(N) when trimming where N being the number of entries evicted.",
        arity: -5,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::STREAM,
        keys: &[KeySpec::range(key::RW | key::UPDATE, 1, 0, 1)
            .notes("UPDATE instead of INSERT because of the optional trimming feature")],
        args: &[
            Arg::key("key", 0),
            Arg::word("nomkstream", "NOMKSTREAM").since("6.2.0").optional(),
            TRIM.optional(),
            Arg::one_of("id-selector", &[Arg::word("auto-id", "*"), Arg::string("id")]),
            Arg::block("data", &[Arg::string("field"), Arg::string("value")]).multiple(),
        ],
        history: &[
            ("6.2.0", "Added the `NOMKSTREAM` option, `MINID` trimming strategy and the `LIMIT` option."),
            ("7.0.0", "Added support for the `<ms>-*` explicit ID form."),
        ],
        tips: &["nondeterministic_output"],
        run: Some(xadd),
        ..Command::DEFAULT
    },
    Command {
        name: "xdel",
        group: Group::Stream,
        since: "5.0.0",
        summary: "Returns the number of messages after removing them from a stream.",
        complexity: "O(1) for each single item to delete in the stream, regardless of the stream size.",
        arity: -3,
        flags: flag::WRITE | flag::FAST,
        acl: acl::STREAM,
        keys: &[KeySpec::range(key::RW | key::DELETE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("id").multiple()],
        run: Some(xdel),
        ..Command::DEFAULT
    },
    Command {
        name: "xlen",
        group: Group::Stream,
        since: "5.0.0",
        summary: "Return the number of messages in a stream.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        acl: acl::STREAM,
        keys: &[KeySpec::range(key::RO, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        run: Some(xlen),
        ..Command::DEFAULT
    },
    Command {
        name: "xrange",
        group: Group::Stream,
        since: "5.0.0",
        summary: "Returns the messages from a stream within a range of IDs.",
        complexity: "O(N) with N being the number of elements being returned. If N is constant (e.g. always asking for the first 10 elements with COUNT), you can consider it O(1).",
        arity: -4,
        flags: flag::READONLY,
        acl: acl::STREAM,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::string("start"),
            Arg::string("end"),
            Arg::integer("count").token("COUNT").optional(),
        ],
        history: &[("6.2.0", "Added exclusive ranges.")],
        run: Some(xrange),
        ..Command::DEFAULT
    },
    Command {
        name: "xrevrange",
        group: Group::Stream,
        since: "5.0.0",
        summary: "Returns the messages from a stream within a range of IDs in reverse order.",
        complexity: "O(N) with N being the number of elements returned. If N is constant (e.g. always asking for the first 10 elements with COUNT), you can consider it O(1).",
        arity: -4,
        flags: flag::READONLY,
        acl: acl::STREAM,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::string("end"),
            Arg::string("start"),
            Arg::integer("count").token("COUNT").optional(),
        ],
        history: &[("6.2.0", "Added exclusive ranges.")],
        run: Some(xrevrange),
        ..Command::DEFAULT
    },
    Command {
        name: "xsetid",
        group: Group::Stream,
        since: "5.0.0",
        summary: "An internal command for replicating stream values.",
        complexity: "O(1)",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::STREAM,
        keys: &[KeySpec::range(key::RW | key::UPDATE, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::string("last-id"),
            Arg::integer("entries-added").token("ENTRIESADDED").since("7.0.0").optional(),
            Arg::string("max-deleted-id").token("MAXDELETEDID").since("7.0.0").optional(),
        ],
        history: &[("7.0.0", "Added the `entries_added` and `max_deleted_entry_id` arguments.")],
        run: Some(xsetid),
        ..Command::DEFAULT
    },
    Command {
        name: "xtrim",
        group: Group::Stream,
        since: "5.0.0",
        summary: "Deletes messages from the beginning of a stream.",
        complexity: "O(N), with N being the number of evicted entries. Constant times are very small however, since entries are organized in macro nodes containing multiple entries that can be released with a single deallocation.",
        arity: -4,
        flags: flag::WRITE,
        acl: acl::STREAM,
        keys: &[KeySpec::range(key::RW | key::DELETE, 1, 0, 1)],
        args: &[Arg::key("key", 0), TRIM],
        history: &[("6.2.0", "Added the `MINID` trimming strategy and the `LIMIT` option.")],
        tips: &["nondeterministic_output"],
        run: Some(xtrim),
        ..Command::DEFAULT
    },
];

impl Reply<'_> {
    /// A stream entry's ID.
    fn stream_id(&mut self, id: StreamId) {
        self.bulk(id.text(&mut [0; ID_CHARS]));
    }

    /// An entry: its ID, and its fields and values.
    fn stream_entry(&mut self, item: &Item<'_>) {
        self.array(2);
        self.stream_id(item.id);
        self.array(item.len * 2);
        item.pairs().for_each(|entry| self.entry(entry));
    }

    /// The entries of a range as an array, `count` at most.
    fn stream_range(&mut self, range: Range<'_>, count: u64) {
        let (start, mut n) = (self.defer(), 0);
        for item in range {
            if n == count || self.out.overflowed() {
                break;
            }
            self.stream_entry(&item);
            n += 1;
        }
        self.end(start, Aggregate::Array, n as usize);
    }
}

fn xadd(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let options = AddTrim::parse(ctx, true)?;
    let (key, first) = (ctx.arg(1), options.id_at + 1);
    if ctx.argc() < first + 2 || (ctx.argc() - first) % 2 == 1 {
        return Err(ctx.wrong_arity());
    }
    let Some(new) = options.id else { return Err(ctx.wrong_arity()) };
    if new == NewId::Exact(StreamId::MIN) {
        return Err(Error::Fixed("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let pairs = ctx.args.iter_from(first);
    let existing = ctx.keys.stream_mut(key)?;
    if options.no_mkstream && existing.is_none() {
        ctx.reply.null();
        return Ok(());
    }
    let (last, node) = existing.map_or((StreamId::MIN, 0), |s| (s.log.last_id, s.log.tail_bytes()));
    if last == StreamId::MAX {
        return Err(Error::Fixed("ERR The stream has exhausted the last possible ID, unable to add more items"));
    }
    let bytes = pairs.clone().map(<[u8]>::len).sum::<usize>() + node;
    if bytes > LARGE_ENTRY && !ctx.affordable(bytes.saturating_mul(2)) {
        return Err(Error::OutOfMemory);
    }
    let limits = ctx.core.config.stream;
    let log = &mut ctx.keys.stream_or_new(key, Default::default)?.log;
    let smaller = Error::Fixed("ERR The ID specified in XADD is equal or smaller than the target stream top item");
    let id = log.new_id(new).ok_or(smaller)?;
    log.append(id, pairs, &limits)?;
    let trimmed = options.trim.is_some_and(|trim| log.trim(&trim) > 0);
    let left = bound_left(log, &options);
    ctx.reply.stream_id(id);
    ctx.modified(key);
    ctx.notify(event::STREAM, "xadd", key);
    if trimmed {
        ctx.notify(event::STREAM, "xtrim", key);
    }
    describe(ctx, &options, left, Some(id));
    Ok(())
}

/// What trimming left, if that is not what its bound says: a number of entries, or the first entry's ID.
fn bound_left(log: &Log, options: &AddTrim) -> Option<Bound> {
    let trim = options.trim.filter(|trim| trim.approximate)?;
    Some(match trim.bound {
        Bound::Len(_) => Bound::Len(log.len),
        Bound::Id(id) if log.len == 0 => Bound::Id(id),
        Bound::Id(_) => Bound::Id(log.first_id),
    })
}

/// Describes what XADD or XTRIM did: with the ID that was given out, and an exact bound.
fn describe(ctx: &mut Ctx<'_>, options: &AddTrim, left: Option<Bound>, id: Option<StreamId>) {
    let automatic = matches!(options.id, Some(NewId::Auto(_) | NewId::Time(_)));
    if !ctx.keys.space.effects_wanted || (left.is_none() && !automatic) {
        return;
    }
    let (mut digits, mut bound_text, mut id_text) = ([0; I64_CHARS], [0; ID_CHARS], [0; ID_CHARS]);
    let bound: &[u8] = match left {
        Some(Bound::Len(n)) => format_u64(&mut digits, n),
        Some(Bound::Id(id)) => id.text(&mut bound_text),
        None => &[],
    };
    let id: &[u8] = id.map_or(&[], |id| id.text(&mut id_text));
    let mut args: Vec<&[u8]> = Vec::with_capacity(ctx.argc());
    for (i, arg) in ctx.args.iter_from(0).enumerate() {
        let in_limit = options.limit_at.is_some_and(|at| i == at || i == at + 1);
        if left.is_some() && in_limit {
            continue;
        }
        args.push(match i {
            _ if left.is_some() && i == options.bound_at => bound,
            _ if left.is_some() && i + 1 == options.bound_at => b"=",
            _ if automatic && i == options.id_at => id,
            _ => arg,
        });
    }
    ctx.effect(&args);
}

fn xtrim(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let options = AddTrim::parse(ctx, false)?;
    let key = ctx.arg(1);
    let (Some(stream), Some(trim)) = (ctx.keys.stream_mut(key)?, options.trim) else {
        ctx.reply.int(0);
        return Ok(());
    };
    let deleted = stream.log.trim(&trim);
    let left = bound_left(&stream.log, &options);
    if deleted > 0 {
        ctx.notify(event::STREAM, "xtrim", key);
        ctx.modified(key);
        describe(ctx, &options, left, None);
    }
    ctx.reply.count(deleted as usize);
    Ok(())
}

fn xlen(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let len = ctx.keys.stream(ctx.args.get(1))?.map_or(0, |s| s.log.len);
    ctx.reply.count(len as usize);
    Ok(())
}

fn xrange(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    range(ctx, false)
}

fn xrevrange(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    range(ctx, true)
}

fn range(ctx: &mut Ctx<'_>, reverse: bool) -> Result<(), Error> {
    let (start_at, end_at) = if reverse { (3, 2) } else { (2, 3) };
    let (start, end) = (args::start(ctx.arg(start_at))?, args::end(ctx.arg(end_at))?);
    let mut count = None;
    let mut i = 4;
    while i < ctx.argc() {
        if !ctx.args.is(i, "count") || i + 1 == ctx.argc() {
            return Err(Error::Syntax);
        }
        // Only -1 stands for no limit; Redis takes other negative numbers for 0.
        count = Some(ctx.int(i + 1)?).map(|n| n.max(0) as u64);
        i += 2;
    }
    let Some(stream) = ctx.keys.stream(ctx.args.get(1))? else {
        ctx.reply.array(0);
        return Ok(());
    };
    if count == Some(0) {
        ctx.reply.null_array();
    } else {
        ctx.reply.stream_range(stream.log.range(start, end, reverse), count.unwrap_or(u64::MAX));
    }
    Ok(())
}

fn xdel(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let key = ctx.arg(1);
    if ctx.keys.stream_mut(key)?.is_none() {
        ctx.reply.int(0);
        return Ok(());
    }
    // Nothing is deleted if one of the IDs makes no sense.
    for text in ctx.args.iter_from(2) {
        args::id(text, 0)?;
    }
    let Some(stream) = ctx.keys.stream_mut(key)? else { return Ok(()) };
    let mut deleted = 0;
    for text in ctx.args.iter_from(2) {
        deleted += usize::from(stream.log.delete(args::id(text, 0)?));
    }
    if deleted > 0 {
        ctx.modified(key);
        ctx.notify(event::STREAM, "xdel", key);
    }
    ctx.reply.count(deleted);
    Ok(())
}

fn xsetid(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let id = args::id(ctx.arg(2), 0)?;
    let (mut added, mut max_deleted) = (None, StreamId::MIN);
    let mut i = 3;
    while i < ctx.argc() {
        let more = i + 1 < ctx.argc();
        if ctx.args.is(i, "entriesadded") && more {
            let n = ctx.int(i + 1)?;
            added = Some(u64::try_from(n).map_err(|_| Error::Fixed("ERR entries_added must be positive"))?);
        } else if ctx.args.is(i, "maxdeletedid") && more {
            max_deleted = args::id(ctx.arg(i + 1), 0)?;
            if id < max_deleted {
                return Err(Error::Fixed(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
        } else {
            return Err(Error::Syntax);
        }
        i += 2;
    }
    let key = ctx.arg(1);
    let Some(stream) = ctx.keys.stream_mut(key)? else { return Err(Error::NoSuchKey) };
    let log = &mut stream.log;
    if id < log.max_deleted_id {
        return Err(Error::Fixed("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"));
    }
    if log.len > 0 {
        if id < log.last_valid_id() {
            return Err(Error::Fixed("ERR The ID specified in XSETID is smaller than the target stream top item"));
        }
        if added.is_some_and(|n| n < log.len) {
            return Err(Error::Fixed(
                "ERR The entries_added specified in XSETID is smaller than the target stream length",
            ));
        }
    }
    log.last_id = id;
    log.entries_added = added.unwrap_or(log.entries_added);
    if !max_deleted.is_zero() {
        log.max_deleted_id = max_deleted;
    }
    ctx.keys.changed();
    ctx.notify(event::STREAM, "xsetid", key);
    ctx.reply.ok();
    Ok(())
}

/// What a key or group that is not there is answered with.
fn no_group(key: &[u8], group: &[u8], where_: &str) -> Error {
    let text = |b: &[u8]| crate::text::printable(b, usize::MAX);
    crate::error_text!("NOGROUP No such key '{}' or consumer group '{}'{where_}", text(key), text(group))
}

/// As [`no_group`], of a key that is there.
fn no_group_of(key: &[u8], group: &[u8]) -> Error {
    let text = |b: &[u8]| crate::text::printable(b, usize::MAX);
    crate::error_text!("NOGROUP No such consumer group '{}' for key name '{}'", text(group), text(key))
}

/// What a subcommand answers to arguments that make no sense.
fn subcommand_error(ctx: &Ctx<'_>, container: &str) -> Error {
    let name = crate::text::printable(ctx.arg(1), 128);
    crate::error_text!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try {container} HELP.")
}
