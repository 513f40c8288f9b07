//! Commands on keys, whatever they hold.

use super::collection::scan_cursor;
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::config::Config;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::glob;
use crate::keyspace::event;
use crate::reply::Aggregate;
use crate::value::{Item, ItemExt};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use barium_cell::View;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "copy",
        group: Group::Generic,
        since: "6.2.0",
        summary: "Copies the value of a key to a new key.",
        complexity: "O(N) worst case for collections, where N is the number of nested items. O(1) for string values.",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::KEYSPACE,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1), KeySpec::range(key::OW | key::UPDATE, 2, 0, 1)],
        args: &[
            Arg::key("source", 0),
            Arg::key("destination", 1),
            Arg::integer("destination-db").token("DB").optional(),
            Arg::word("replace", "REPLACE").optional(),
        ],
        run: Some(copy),
        ..Command::DEFAULT
    },
    Command {
        name: "del",
        group: Group::Generic,
        since: "1.0.0",
        summary: "Deletes one or more keys.",
        complexity: "O(N) where N is the number of keys that will be removed. When a key to remove holds a value other than a string, the individual complexity for this key is O(M) where M is the number of elements in the list, set, sorted set or hash. Removing a single key that holds a string value is O(1).",
        arity: -2,
        flags: flag::WRITE,
        acl: acl::KEYSPACE,
        keys: &[KeySpec::range(key::RM | key::DELETE, 1, -1, 1)],
        args: &[Arg::key("key", 0).multiple()],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        run: Some(del),
        ..Command::DEFAULT
    },
    Command {
        name: "exists",
        group: Group::Generic,
        since: "1.0.0",
        summary: "Determines whether one or more keys exist.",
        complexity: "O(N) where N is the number of keys to check.",
        arity: -2,
        flags: flag::READONLY | flag::FAST,
        acl: acl::KEYSPACE,
        keys: &[KeySpec::range(key::RO, 1, -1, 1)],
        args: &[Arg::key("key", 0).multiple()],
        history: &[("3.0.3", "Accepts multiple `key` arguments.")],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        run: Some(exists),
        ..Command::DEFAULT
    },
    Command {
        name: "keys",
        group: Group::Generic,
        since: "1.0.0",
        summary: "Returns all key names that match a pattern.",
        complexity: "O(N) with N being the number of keys in the database, under the assumption that the key names in the database and the given pattern have limited length.",
        arity: 2,
        flags: flag::READONLY,
        acl: acl::DANGEROUS | acl::KEYSPACE,
        args: &[Arg::pattern("pattern")],
        tips: &["request_policy:all_shards", "nondeterministic_output_order"],
        run: Some(keys),
        ..Command::DEFAULT
    },
    Command {
        name: "move",
        group: Group::Generic,
        since: "1.0.0",
        summary: "Moves a key to another database.",
        complexity: "O(1)",
        arity: 3,
        flags: flag::WRITE | flag::FAST,
        acl: acl::KEYSPACE,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("db")],
        run: Some(move_),
        ..Command::DEFAULT
    },
    Command {
        name: "object",
        group: Group::Generic,
        since: "2.2.3",
        summary: "A container for object introspection commands.",
        complexity: "Depends on subcommand.",
        arity: -2,
        subcommands: &[
            Command {
                name: "encoding",
                group: Group::Generic,
                since: "2.2.3",
                summary: "Returns the internal encoding of an object.",
                complexity: "O(1)",
                arity: 3,
                flags: flag::READONLY,
                acl: acl::KEYSPACE,
                keys: &[KeySpec::range(key::RO, 2, 0, 1)],
                args: &[Arg::key("key", 0)],
                tips: &["nondeterministic_output"],
                run: Some(object_encoding),
                ..Command::DEFAULT
            },
            Command {
                name: "freq",
                group: Group::Generic,
                since: "4.0.0",
                summary: "Returns the logarithmic access frequency counter of an object.",
                complexity: "O(1)",
                arity: 3,
                flags: flag::READONLY,
                acl: acl::KEYSPACE,
                keys: &[KeySpec::range(key::RO, 2, 0, 1)],
                args: &[Arg::key("key", 0)],
                tips: &["nondeterministic_output"],
                run: Some(object_freq),
                ..Command::DEFAULT
            },
            Command {
                name: "help",
                group: Group::Generic,
                since: "6.2.0",
                summary: "Returns helpful text about the different subcommands.",
                complexity: "O(1)",
                arity: 2,
                flags: flag::LOADING | flag::STALE,
                acl: acl::KEYSPACE,
                help: OBJECT_HELP,
                run: Some(help),
                ..Command::DEFAULT
            },
            Command {
                name: "idletime",
                group: Group::Generic,
                since: "2.2.3",
                summary: "Returns the time since the last access to an object.",
                complexity: "O(1)",
                arity: 3,
                flags: flag::READONLY,
                acl: acl::KEYSPACE,
                keys: &[KeySpec::range(key::RO, 2, 0, 1)],
                args: &[Arg::key("key", 0)],
                tips: &["nondeterministic_output"],
                run: Some(object_idletime),
                ..Command::DEFAULT
            },
            Command {
                name: "refcount",
                group: Group::Generic,
                since: "2.2.3",
                summary: "Returns the reference count of a value of a key.",
                complexity: "O(1)",
                arity: 3,
                flags: flag::READONLY,
                acl: acl::KEYSPACE,
                keys: &[KeySpec::range(key::RO, 2, 0, 1)],
                args: &[Arg::key("key", 0)],
                tips: &["nondeterministic_output"],
                run: Some(object_refcount),
                ..Command::DEFAULT
            },
        ],
        ..Command::DEFAULT
    },
    Command {
        name: "randomkey",
        group: Group::Generic,
        since: "1.0.0",
        summary: "Returns a random key name from the database.",
        complexity: "O(1)",
        arity: 1,
        flags: flag::READONLY,
        acl: acl::KEYSPACE,
        tips: &["request_policy:all_shards", "response_policy:special", "nondeterministic_output"],
        run: Some(randomkey),
        ..Command::DEFAULT
    },
    Command {
        name: "rename",
        group: Group::Generic,
        since: "1.0.0",
        summary: "Renames a key and overwrites the destination.",
        complexity: "O(1)",
        arity: 3,
        flags: flag::WRITE,
        acl: acl::KEYSPACE,
        keys: &[
            KeySpec::range(key::RW | key::ACCESS | key::DELETE, 1, 0, 1),
            KeySpec::range(key::OW | key::UPDATE, 2, 0, 1),
        ],
        args: &[Arg::key("key", 0), Arg::key("newkey", 1)],
        run: Some(rename),
        ..Command::DEFAULT
    },
    Command {
        name: "renamenx",
        group: Group::Generic,
        since: "1.0.0",
        summary: "Renames a key only when the target key name doesn't exist.",
        complexity: "O(1)",
        arity: 3,
        flags: flag::WRITE | flag::FAST,
        acl: acl::KEYSPACE,
        keys: &[
            KeySpec::range(key::RW | key::ACCESS | key::DELETE, 1, 0, 1),
            KeySpec::range(key::OW | key::INSERT, 2, 0, 1),
        ],
        args: &[Arg::key("key", 0), Arg::key("newkey", 1)],
        history: &[("3.2.0", "The command no longer returns an error when source and destination names are the same.")],
        run: Some(renamenx),
        ..Command::DEFAULT
    },
    Command {
        name: "scan",
        group: Group::Generic,
        since: "2.8.0",
        summary: "Iterates over the key names in the database.",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
        arity: -2,
        flags: flag::READONLY,
        acl: acl::KEYSPACE,
        args: &[
            Arg::integer("cursor"),
            Arg::pattern("pattern").token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
            Arg::string("type").token("TYPE").since("6.0.0").optional(),
        ],
        history: &[("6.0.0", "Added the `TYPE` subcommand.")],
        tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
        run: Some(scan),
        ..Command::DEFAULT
    },
    Command {
        name: "touch",
        group: Group::Generic,
        since: "3.2.1",
        summary: "Returns the number of existing keys out of those specified after updating the time they were last accessed.",
        complexity: "O(N) where N is the number of keys that will be touched.",
        arity: -2,
        flags: flag::READONLY | flag::FAST,
        acl: acl::KEYSPACE,
        keys: &[KeySpec::range(key::RO, 1, -1, 1)],
        args: &[Arg::key("key", 0).multiple()],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        run: Some(touch),
        ..Command::DEFAULT
    },
    Command {
        name: "type",
        group: Group::Generic,
        since: "1.0.0",
        summary: "Determines the type of value stored at a key.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        acl: acl::KEYSPACE,
        keys: &[KeySpec::range(key::RO, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        run: Some(type_),
        ..Command::DEFAULT
    },
    Command {
        name: "unlink",
        group: Group::Generic,
        since: "4.0.0",
        summary: "Asynchronously deletes one or more keys.",
        complexity: "O(1) for each key removed regardless of its size. Then the command does O(N) work in a different thread in order to reclaim memory, where N is the number of allocations the deleted objects where composed of.",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        acl: acl::KEYSPACE,
        keys: &[KeySpec::range(key::RM | key::DELETE, 1, -1, 1)],
        args: &[Arg::key("key", 0).multiple()],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        run: Some(del),
        ..Command::DEFAULT
    },
];

/// A number of a database; `range_error` is said if there is no such database.
pub(super) fn database(ctx: &Ctx<'_>, index: usize, range_error: &'static str) -> Result<usize, Error> {
    let n = ctx.int_in(index, i32::MIN.into(), i32::MAX.into())?;
    usize::try_from(n).ok().filter(|n| *n < ctx.keys.space.dbs.len()).ok_or(Error::Fixed(range_error))
}

fn del(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let mut n = 0;
    for key in ctx.args.iter_from(1) {
        if ctx.keys.remove(key) {
            ctx.modified(key);
            ctx.notify(event::GENERIC, "del", key);
            n += 1;
        }
    }
    ctx.reply.count(n);
    Ok(())
}

fn exists(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let n = ctx.args.iter_from(1).filter(|key| ctx.keys.read_untouched(key).is_some()).count();
    ctx.reply.count(n);
    Ok(())
}

fn touch(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    // What it is for, it does for a CLIENT NO-TOUCH client too.
    ctx.keys.touch = true;
    let mut n = 0;
    for key in ctx.args.iter_from(1) {
        ctx.keys.use_again();
        n += usize::from(ctx.keys.read(key).is_some());
    }
    ctx.reply.count(n);
    Ok(())
}

fn type_(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let name = ctx.keys.read_untouched(ctx.args.get(1)).map_or("none", |item| item.type_of().name());
    ctx.reply.simple(name);
    Ok(())
}

fn keys(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let pattern = ctx.args.get(1);
    let now = ctx.keys.now_ms();
    let at = ctx.reply.defer();
    let mut n = 0;
    for item in ctx.keys.db().table.iter() {
        if (pattern == b"*" || glob::matches(pattern, item.key())) && item.deadline().is_none_or(|d| d >= now) {
            ctx.reply.bulk(item.key());
            n += 1;
        }
    }
    ctx.reply.end(at, Aggregate::Array, n);
    Ok(())
}

/// How often RANDOMKEY looks for a key whose time has not come while those whose time has may not be removed.
const MAX_TRIES: usize = 100;

fn randomkey(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let mut tries = if ctx.keys.space.frozen { MAX_TRIES } else { usize::MAX };
    loop {
        let Some(pos) = ctx.keys.db().table.random(&mut ctx.core.rng) else {
            ctx.reply.null();
            return Ok(());
        };
        let Some(key) = ctx.keys.db().table.at(pos).map(|item| item.key().to_vec()) else { continue };
        // A key whose time has come is removed by the look.
        tries -= 1;
        if ctx.keys.exists(&key) || tries == 0 {
            ctx.reply.bulk(&key);
            return Ok(());
        }
    }
}

/// Options of the SCAN family.
#[derive(Debug)]
pub(super) struct ScanOptions<'a> {
    /// MATCH; None: everything.
    pub pattern: Option<&'a [u8]>,
    /// COUNT.
    pub count: usize,
    /// TYPE (SCAN only).
    pub type_name: Option<&'a [u8]>,
}

impl ScanOptions<'_> {
    /// Whether an element is wanted.
    pub fn wants(&self, element: &[u8]) -> bool {
        self.pattern.is_none_or(|p| glob::matches(p, element))
    }
}

/// Reads the options from argument `index` on.
pub(super) fn scan_options<'a>(ctx: &Ctx<'a>, mut index: usize, with_type: bool) -> Result<ScanOptions<'a>, Error> {
    let mut o = ScanOptions { pattern: None, count: 10, type_name: None };
    while index < ctx.argc() {
        let more = index + 1 < ctx.argc();
        if ctx.args.is(index, "COUNT") && more {
            let n = ctx.int(index + 1)?;
            if n < 1 {
                return Err(Error::Syntax);
            }
            o.count = n as usize;
        } else if ctx.args.is(index, "MATCH") && more {
            let pattern = ctx.args.get(index + 1);
            o.pattern = (pattern != b"*").then_some(pattern);
        } else if ctx.args.is(index, "TYPE") && more && with_type {
            o.type_name = Some(ctx.args.get(index + 1));
        } else {
            return Err(Error::Syntax);
        }
        index += 2;
    }
    Ok(o)
}

fn scan(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let cursor = scan_cursor(ctx.arg(1))?;
    let options = scan_options(ctx, 2, true)?;
    let now = ctx.keys.now_ms();
    let at = ctx.reply.out.mark();
    let mut n = 0;
    let reply = &mut ctx.reply;
    let mut expired: Vec<Box<[u8]>> = Vec::new();
    let mut hits = 0;
    let next = ctx.keys.db().table.scan(cursor, options.count, |item| {
        if !options.wants(item.key()) {
            return;
        }
        if item.deadline().is_some_and(|d| d < now) {
            // The look removes it, whatever its type. Without memory another one will.
            if expired.try_reserve(1).is_ok() {
                expired.push(item.key().into());
            }
            return;
        }
        hits += 1;
        if options.type_name.is_none_or(|t| t.eq_ignore_ascii_case(item.type_of().name().as_bytes())) {
            reply.bulk(item.key());
            n += 1;
        }
    });
    for key in &expired {
        ctx.keys.expire(key);
        // To tell its type a key is read.
        if options.type_name.is_some() {
            ctx.keys.space.stats.misses += 1;
            ctx.notify(event::KEY_MISS, "keymiss", key);
        }
    }
    if options.type_name.is_some() {
        ctx.keys.space.stats.hits += hits;
    }
    let digits = format!("{next}");
    ctx.reply.out.insert(at, format!("*2\r\n${}\r\n{digits}\r\n*{n}\r\n", digits.len()).as_bytes());
    Ok(())
}

fn rename(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    rename_generic(ctx, false)
}

fn renamenx(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    rename_generic(ctx, true)
}

fn rename_generic(ctx: &mut Ctx<'_>, if_absent: bool) -> Result<(), Error> {
    let (from, to) = (ctx.args.get(1), ctx.args.get(2));
    if ctx.keys.find_for_use(from).is_none() {
        return Err(Error::NoSuchKey);
    }
    if if_absent && ctx.keys.find_for_use(to).is_some() {
        ctx.reply.int(0);
        return Ok(());
    }
    if from != to {
        let Some(item) = ctx.keys.take(from) else { return Err(Error::NoSuchKey) };
        match item.rename(to) {
            Ok(item) => {
                ctx.keys.remove(to);
                ctx.keys.add(item)?;
            }
            Err((item, e)) => {
                ctx.keys.add(item)?;
                return Err(e.into());
            }
        }
        ctx.keys.modified_by(from, 0);
        ctx.modified(to);
        ctx.notify(event::GENERIC, "rename_from", from);
        ctx.notify(event::GENERIC, "rename_to", to);
    }
    if if_absent {
        ctx.reply.int(1)
    } else {
        ctx.reply.ok()
    }
    Ok(())
}

const SAME_OBJECT: Error = Error::Fixed("ERR source and destination objects are the same");

fn move_(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let key = ctx.args.get(1);
    let to = database(ctx, 2, "ERR DB index is out of range")?;
    if to == ctx.keys.db {
        return Err(SAME_OBJECT);
    }
    if ctx.keys.find_for_use(key).is_none() || ctx.keys.in_db(to).find_for_use(key).is_some() {
        ctx.reply.int(0);
        return Ok(());
    }
    if let Some(item) = ctx.keys.take(key) {
        ctx.keys.in_db(to).add(item)?;
    }
    ctx.modified(key);
    ctx.notify(event::GENERIC, "move_from", key);
    ctx.keys.in_db(to).modified_by(key, 0);
    ctx.keys.in_db(to).notify(event::GENERIC, "move_to", key);
    ctx.reply.int(1);
    Ok(())
}

fn copy(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (from, to) = (ctx.args.get(1), ctx.args.get(2));
    let (mut db, mut replace) = (ctx.keys.db, false);
    let mut i = 3;
    while i < ctx.argc() {
        if ctx.args.is(i, "REPLACE") {
            replace = true;
        } else if ctx.args.is(i, "DB") && i + 1 < ctx.argc() {
            db = database(ctx, i + 1, "ERR DB index is out of range")?;
            i += 1;
        } else {
            return Err(Error::Syntax);
        }
        i += 1;
    }
    if db == ctx.keys.db && from == to {
        return Err(SAME_OBJECT);
    }
    let size = ctx.keys.memory_usage(from, usize::MAX).unwrap_or(0);
    if !ctx.affordable(size) {
        return Err(Error::OutOfMemory);
    }
    if ctx.keys.read(from).is_none() || (ctx.keys.in_db(db).find_for_use(to).is_some() && !replace) {
        ctx.reply.int(0);
        return Ok(());
    }
    let Some(copy) = ctx.keys.copy_of(from, to)? else { return Ok(()) };
    let mut target = ctx.keys.in_db(db);
    target.remove(to);
    target.add(copy)?;
    target.modified(to);
    target.notify(event::GENERIC, "copy_to", to);
    ctx.reply.int(1);
    Ok(())
}

fn object_encoding(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    match ctx.keys.inspect(ctx.args.get(2)) {
        Some(item) => ctx.reply.bulk(item.encoding().as_bytes()),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// The count of references that Redis would have for a value. It shares its objects for small integers and calls that a
/// count of INT_MAX, unless each needs its access clock.
pub(super) fn refcount(config: &Config, item: &Item) -> i32 {
    let shares = config.maxmemory == 0 || config.maxmemory_policy.is_none_or(|p| !p.uses_access_clock());
    if shares && matches!(item.view(), View::Int(0..10_000)) { i32::MAX } else { 1 }
}

fn object_refcount(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    match ctx.keys.inspect(ctx.args.get(2)) {
        Some(item) => ctx.reply.int(refcount(&ctx.core.config, item).into()),
        None => ctx.reply.null(),
    }
    Ok(())
}

fn object_idletime(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let bits = ctx.keys.inspect(ctx.args.get(2)).map(Item::clock);
    let access = &ctx.keys.space.access;
    match bits {
        None => ctx.reply.null(),
        Some(_) if access.is_lfu() => {
            return Err(Error::Fixed(
                "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        Some(bits) => ctx.reply.int(access.idle_s(bits).into()),
    }
    Ok(())
}

fn object_freq(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let bits = ctx.keys.inspect(ctx.args.get(2)).map(Item::clock);
    let access = &ctx.keys.space.access;
    match bits {
        None => ctx.reply.null(),
        Some(_) if !access.is_lfu() => {
            return Err(Error::Fixed(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        Some(bits) => ctx.reply.int(access.frequency(bits).into()),
    }
    Ok(())
}

/// HELP of a container command.
pub(super) fn help(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    help_lines(ctx, ctx.command.help)
}

/// Lines of help.
pub(super) fn help_lines(ctx: &mut Ctx<'_>, lines: &[&str]) -> Result<(), Error> {
    ctx.reply.array(lines.len());
    lines.iter().for_each(|line| ctx.reply.simple(line));
    Ok(())
}

const OBJECT_HELP: &[&str] = &[
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
    "HELP",
    "    Print this help.",
];
