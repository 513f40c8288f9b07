//! Commands on strings: reading and writing values and parts of them.

use crate::command::{Arg, Command, Express, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;
use crate::keyspace::{NewStr, event};
use crate::number::{I64_CHARS, format_i64};
use crate::reply::Reply;
use crate::session::args::Args;
use crate::value::{ItemExt, Str};

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "append",
        group: Group::String,
        since: "2.0.0",
        summary: "Appends a string to the value of a key. Creates the key if it doesn't exist.",
        complexity: "O(1). The amortized time complexity is O(1) assuming the appended value is small and the already present value is of any size, since the dynamic string library used by the server will double the free space available on every reallocation.",
        arity: 3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::RW | key::INSERT, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("value")],
        run: Some(append),
        ..Command::DEFAULT
    },
    Command {
        name: "get",
        group: Group::String,
        since: "1.0.0",
        summary: "Returns the string value of a key.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        run: Some(get),
        express: Some(Express::Get),
        ..Command::DEFAULT
    },
    Command {
        name: "getdel",
        group: Group::String,
        since: "6.2.0",
        summary: "Returns the string value of a key after deleting the key.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::WRITE | flag::FAST,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::DELETE, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        run: Some(getdel),
        ..Command::DEFAULT
    },
    Command {
        name: "getex",
        group: Group::String,
        since: "6.2.0",
        summary: "Returns the string value of a key after setting its expiration time.",
        complexity: "O(1)",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::UPDATE, 1, 0, 1)
            .notes("RW and UPDATE because it changes the TTL")],
        args: &[
            Arg::key("key", 0),
            Arg::one_of(
                "expiration",
                &[
                    Arg::integer("seconds").token("EX"),
                    Arg::integer("milliseconds").token("PX"),
                    Arg::unix_time("unix-time-seconds").token("EXAT"),
                    Arg::unix_time("unix-time-milliseconds").token("PXAT"),
                    Arg::word("persist", "PERSIST"),
                ],
            )
            .optional(),
        ],
        run: Some(getex),
        ..Command::DEFAULT
    },
    Command {
        name: "getrange",
        group: Group::String,
        since: "2.4.0",
        summary: "Returns a substring of the string stored at a key.",
        complexity: "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for small strings.",
        arity: 4,
        flags: flag::READONLY,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("start"), Arg::integer("end")],
        run: Some(getrange),
        ..Command::DEFAULT
    },
    Command {
        name: "getset",
        group: Group::String,
        since: "1.0.0",
        summary: "Returns the previous string value of a key after setting it to a new value.",
        complexity: "O(1)",
        arity: 3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("value")],
        deprecated_since: "6.2.0",
        replaced_by: "`SET` with the `!GET` argument",
        run: Some(getset),
        ..Command::DEFAULT
    },
    Command {
        name: "mget",
        group: Group::String,
        since: "1.0.0",
        summary: "Atomically returns the string values of one or more keys.",
        complexity: "O(N) where N is the number of keys to retrieve.",
        arity: -2,
        flags: flag::READONLY | flag::FAST,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, -1, 1)],
        args: &[Arg::key("key", 0).multiple()],
        tips: &["request_policy:multi_shard"],
        run: Some(mget),
        ..Command::DEFAULT
    },
    Command {
        name: "mset",
        group: Group::String,
        since: "1.0.1",
        summary: "Atomically creates or modifies the string values of one or more keys.",
        complexity: "O(N) where N is the number of keys to set.",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::OW | key::UPDATE, 1, -1, 2)],
        args: &[Arg::block("data", &[Arg::key("key", 0), Arg::string("value")]).multiple()],
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        run: Some(mset),
        express: Some(Express::SetMany),
        ..Command::DEFAULT
    },
    Command {
        name: "msetnx",
        group: Group::String,
        since: "1.0.1",
        summary: "Atomically modifies the string values of one or more keys only when all keys don't exist.",
        complexity: "O(N) where N is the number of keys to set.",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::OW | key::INSERT, 1, -1, 2)],
        args: &[Arg::block("data", &[Arg::key("key", 0), Arg::string("value")]).multiple()],
        run: Some(msetnx),
        ..Command::DEFAULT
    },
    Command {
        name: "psetex",
        group: Group::String,
        since: "2.6.0",
        summary: "Sets both string value and expiration time in milliseconds of a key. The key is created if it doesn't exist.",
        complexity: "O(1)",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::OW | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("milliseconds"), Arg::string("value")],
        deprecated_since: "2.6.12",
        replaced_by: "`SET` with the `PX` argument",
        run: Some(psetex),
        ..Command::DEFAULT
    },
    Command {
        name: "set",
        group: Group::String,
        since: "1.0.0",
        summary: "Sets the string value of a key, ignoring its type. The key is created if it doesn't exist.",
        complexity: "O(1)",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::UPDATE | key::VARIABLE_FLAGS, 1, 0, 1)
            .notes("RW and ACCESS due to the optional `GET` argument")],
        args: &[
            Arg::key("key", 0),
            Arg::string("value"),
            Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")]).since("2.6.12").optional(),
            Arg::word("get", "GET").since("6.2.0").optional(),
            Arg::one_of(
                "expiration",
                &[
                    Arg::integer("seconds").token("EX").since("2.6.12"),
                    Arg::integer("milliseconds").token("PX").since("2.6.12"),
                    Arg::unix_time("unix-time-seconds").token("EXAT").since("6.2.0"),
                    Arg::unix_time("unix-time-milliseconds").token("PXAT").since("6.2.0"),
                    Arg::word("keepttl", "KEEPTTL").since("6.0.0"),
                ],
            )
            .optional(),
        ],
        history: &[
            ("2.6.12", "Added the `EX`, `PX`, `NX` and `XX` options."),
            ("6.0.0", "Added the `KEEPTTL` option."),
            ("6.2.0", "Added the `GET`, `EXAT` and `PXAT` option."),
            ("7.0.0", "Allowed the `NX` and `GET` options to be used together."),
        ],
        run: Some(set),
        express: Some(Express::Set),
        ..Command::DEFAULT
    },
    Command {
        name: "setex",
        group: Group::String,
        since: "2.0.0",
        summary: "Sets the string value and expiration time of a key. Creates the key if it doesn't exist.",
        complexity: "O(1)",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::OW | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("seconds"), Arg::string("value")],
        deprecated_since: "2.6.12",
        replaced_by: "`SET` with the `EX` argument",
        run: Some(setex),
        ..Command::DEFAULT
    },
    Command {
        name: "setnx",
        group: Group::String,
        since: "1.0.0",
        summary: "Set the string value of a key only when the key doesn't exist.",
        complexity: "O(1)",
        arity: 3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::OW | key::INSERT, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("value")],
        deprecated_since: "2.6.12",
        replaced_by: "`SET` with the `NX` argument",
        run: Some(setnx),
        ..Command::DEFAULT
    },
    Command {
        name: "setrange",
        group: Group::String,
        since: "2.2.0",
        summary: "Overwrites a part of a string value with another by an offset. Creates the key if it doesn't exist.",
        complexity: "O(1), not counting the time taken to copy the new string in place. Usually, this string is very small so the amortized complexity is O(1). Otherwise, complexity is O(M) with M being the length of the value argument.",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::RW | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("offset"), Arg::string("value")],
        run: Some(setrange),
        ..Command::DEFAULT
    },
    Command {
        name: "strlen",
        group: Group::String,
        since: "2.2.0",
        summary: "Returns the length of a string value.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::RO, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        run: Some(strlen),
        ..Command::DEFAULT
    },
    Command {
        name: "substr",
        group: Group::String,
        since: "1.0.0",
        summary: "Returns a substring from a string value.",
        complexity: "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for small strings.",
        arity: 4,
        flags: flag::READONLY,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("start"), Arg::integer("end")],
        deprecated_since: "2.0.0",
        replaced_by: "`GETRANGE`",
        run: Some(getrange),
        ..Command::DEFAULT
    },
];

/// Writes a string value.
#[inline]
pub(super) fn reply_str(reply: &mut Reply<'_>, value: Str<'_>) {
    match value {
        Str::Bytes(b) => reply.bulk(b),
        Str::Int(n) => reply.bulk_int(n),
        Str::Shared(s) => reply.bulk_shared(s),
    }
}

/// An argument as a new value; one that was received into a buffer of its own becomes the value without a copy.
#[inline]
fn new_value<'a>(args: &Args<'a>, index: usize) -> NewStr<'a> {
    match args.shared(index) {
        Some(s) => NewStr::Shared(s),
        None => NewStr::Bytes(args.get(index)),
    }
}

/// Errs if a string would become longer than the protocol can send.
pub(super) fn check_length(ctx: &Ctx<'_>, len: usize) -> Result<(), Error> {
    if len as u64 > ctx.core.config.proto_max_bulk_len as u64 {
        return Err(Error::Fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)"));
    }
    Ok(())
}

/// How an expire time is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expiry {
    /// Argument that holds the number.
    index: usize,
    seconds: bool,
    absolute: bool,
}

impl Expiry {
    /// What an option word says, if it is one of EX, PX, EXAT and PXAT.
    fn option(word: &[u8], index: usize) -> Option<Self> {
        let (seconds, absolute) = match word.to_ascii_uppercase().as_slice() {
            b"EX" => (true, false),
            b"PX" => (false, false),
            b"EXAT" => (true, true),
            b"PXAT" => (false, true),
            _ => return None,
        };
        Some(Self { index, seconds, absolute })
    }

    /// The deadline, Unix time in ms.
    fn deadline(self, ctx: &Ctx<'_>) -> Result<i64, Error> {
        let invalid = || error_text!("ERR invalid expire time in '{}' command", ctx.command.name);
        let n = ctx.int(self.index)?;
        if n <= 0 {
            return Err(invalid());
        }
        let ms = if self.seconds { n.checked_mul(1000).ok_or_else(invalid)? } else { n };
        let base = if self.absolute { 0 } else { ctx.keys.now_ms() };
        ms.checked_add(base).ok_or_else(invalid)
    }
}

/// What to do with a value that is read.
#[inline]
fn get_generic(ctx: &mut Ctx<'_>, key: &[u8]) -> Result<bool, Error> {
    match ctx.keys.string(key)? {
        Some(value) => {
            reply_str(&mut ctx.reply, value);
            Ok(true)
        }
        None => {
            ctx.reply.null();
            Ok(false)
        }
    }
}

fn get(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if let Some(item) = ctx.keys.read_lasting(ctx.args.get(1)) {
        reply_str(&mut ctx.reply, item.as_str().ok_or(Error::WrongType)?);
        return Ok(());
    }
    get_generic(ctx, ctx.args.get(1)).map(drop)
}

/// SET's options.
#[derive(Debug, Default)]
struct SetOptions {
    if_absent: bool,
    if_present: bool,
    get: bool,
    keep_ttl: bool,
    expiry: Option<Expiry>,
}

fn set_options(ctx: &Ctx<'_>) -> Result<SetOptions, Error> {
    let mut o = SetOptions::default();
    let mut i = 3;
    while i < ctx.argc() {
        let word = ctx.arg(i);
        if word.eq_ignore_ascii_case(b"NX") && !o.if_present {
            o.if_absent = true;
        } else if word.eq_ignore_ascii_case(b"XX") && !o.if_absent {
            o.if_present = true;
        } else if word.eq_ignore_ascii_case(b"GET") {
            o.get = true;
        } else if word.eq_ignore_ascii_case(b"KEEPTTL") && o.expiry.is_none() {
            o.keep_ttl = true;
        } else if let Some(expiry) = Expiry::option(word, i + 1)
            && !o.keep_ttl
            && o.expiry.is_none_or(|e| (e.seconds, e.absolute) == (expiry.seconds, expiry.absolute))
            && i + 1 < ctx.argc()
        {
            o.expiry = Some(expiry);
            i += 1;
        } else {
            return Err(Error::Syntax);
        }
        i += 1;
    }
    Ok(o)
}

fn set(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if ctx.argc() == 3 {
        let key = ctx.args.get(1);
        ctx.keys.set_string(key, new_value(&ctx.args, 2), false)?;
        ctx.modified(key);
        ctx.notify(event::STRING, "set", key);
        ctx.reply.ok();
        return Ok(());
    }
    let options = set_options(ctx)?;
    set_generic(ctx, 2, &options)
}

/// SET, SETNX, SETEX and PSETEX once their arguments are read; the value is argument `value`.
fn set_generic(ctx: &mut Ctx<'_>, value: usize, o: &SetOptions) -> Result<(), Error> {
    let key = ctx.args.get(1);
    let deadline = o.expiry.map(|e| e.deadline(ctx)).transpose()?;
    if o.get {
        get_generic(ctx, key)?;
        ctx.keys.use_again();
    }
    if (o.if_absent || o.if_present) && ctx.keys.find_for_use(key).is_some() == o.if_absent {
        if !o.get {
            set_reply(ctx, false);
        }
        return Ok(());
    }
    let stored = ctx.keys.set_string(key, new_value(&ctx.args, value), o.keep_ttl || deadline.is_some());
    if stored.is_ok()
        && let Some(at) = deadline
    {
        ctx.keys.set_deadline(key, Some(at))?;
    }
    match stored {
        // The old value is already in the reply; that there was no memory for the new one cannot be said any more.
        Err(e) if !o.get => return Err(e),
        Err(_) => return Ok(()),
        Ok(()) => {}
    }
    ctx.modified(key);
    ctx.notify(event::STRING, "set", key);
    let mut buf = [0; I64_CHARS];
    let bytes = ctx.args.get(value);
    if let Some(at) = deadline {
        ctx.effect(&[b"SET", key, bytes, b"PXAT", format_i64(&mut buf, at)]);
        ctx.notify(event::GENERIC, "expire", key);
    } else if o.get {
        if o.keep_ttl {
            ctx.effect(&[b"SET", key, bytes, b"KEEPTTL"]);
        } else {
            ctx.effect(&[b"SET", key, bytes]);
        }
    }
    if !o.get {
        set_reply(ctx, true);
    }
    Ok(())
}

/// Says whether the value was stored, as the command says it.
fn set_reply(ctx: &mut Ctx<'_>, stored: bool) {
    match (ctx.command.name, stored) {
        ("setnx", _) => ctx.reply.int(i64::from(stored)),
        (_, true) => ctx.reply.ok(),
        (_, false) => ctx.reply.null(),
    }
}

fn setnx(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    set_generic(ctx, 2, &SetOptions { if_absent: true, ..SetOptions::default() })
}

fn setex(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let expiry = Some(Expiry { index: 2, seconds: true, absolute: false });
    set_generic(ctx, 3, &SetOptions { expiry, ..SetOptions::default() })
}

fn psetex(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let expiry = Some(Expiry { index: 2, seconds: false, absolute: false });
    set_generic(ctx, 3, &SetOptions { expiry, ..SetOptions::default() })
}

fn getset(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let key = ctx.args.get(1);
    get_generic(ctx, key)?;
    ctx.keys.use_again();
    if ctx.keys.set_string(key, new_value(&ctx.args, 2), false).is_err() {
        return Ok(());
    }
    ctx.modified(key);
    ctx.notify(event::STRING, "set", key);
    ctx.effect(&[b"SET", key, ctx.args.get(2)]);
    Ok(())
}

fn getdel(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let key = ctx.args.get(1);
    if get_generic(ctx, key)? && ctx.keys.remove(key) {
        ctx.modified(key);
        ctx.notify(event::GENERIC, "del", key);
        ctx.effect(&[b"DEL", key]);
    }
    Ok(())
}

fn getex(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let key = ctx.args.get(1);
    let mut persist = false;
    let mut expiry: Option<Expiry> = None;
    let mut i = 2;
    while i < ctx.argc() {
        if ctx.args.is(i, "PERSIST") && expiry.is_none() {
            persist = true;
        } else if let Some(e) = Expiry::option(ctx.arg(i), i + 1)
            && !persist
            && expiry.is_none_or(|old| (old.seconds, old.absolute) == (e.seconds, e.absolute))
            && i + 1 < ctx.argc()
        {
            expiry = Some(e);
            i += 1;
        } else {
            return Err(Error::Syntax);
        }
        i += 1;
    }
    if ctx.keys.string(key)?.is_none() {
        ctx.reply.null();
        return Ok(());
    }
    let deadline = expiry.map(|e| e.deadline(ctx)).transpose()?;
    if let Some(value) = ctx.keys.string_for_write(key)? {
        reply_str(&mut ctx.reply, value);
    }
    match deadline {
        Some(at) if at <= ctx.keys.now_ms() => {
            ctx.keys.remove(key);
            ctx.modified(key);
            ctx.notify(event::GENERIC, "del", key);
            ctx.effect(&[b"DEL", key]);
        }
        Some(at) => {
            ctx.keys.set_deadline(key, Some(at))?;
            ctx.modified(key);
            let mut buf = [0; I64_CHARS];
            ctx.effect(&[b"PEXPIREAT", key, format_i64(&mut buf, at)]);
            ctx.notify(event::GENERIC, "expire", key);
        }
        None if persist && ctx.keys.deadline(key).flatten().is_some() => {
            ctx.keys.set_deadline(key, None)?;
            ctx.modified(key);
            ctx.effect(&[b"PERSIST", key]);
            ctx.notify(event::GENERIC, "persist", key);
        }
        None => {}
    }
    Ok(())
}

fn mget(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.reply.array(ctx.argc() - 1);
    for key in ctx.args.iter_from(1) {
        ctx.keys.use_again();
        match ctx.keys.string(key) {
            Ok(Some(value)) => reply_str(&mut ctx.reply, value),
            _ => ctx.reply.null(),
        }
    }
    Ok(())
}

fn mset(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    mset_generic(ctx, false)
}

fn msetnx(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    mset_generic(ctx, true)
}

fn mset_generic(ctx: &mut Ctx<'_>, if_absent: bool) -> Result<(), Error> {
    if ctx.argc().is_multiple_of(2) {
        return Err(error_text!("ERR wrong number of arguments for '{}' command", ctx.command.name));
    }
    if if_absent {
        let mut keys = ctx.args.iter_from(1).step_by(2);
        if keys.any(|key| ctx.keys.find_for_use(key).is_some()) {
            ctx.reply.int(0);
            return Ok(());
        }
    }
    for i in (1..ctx.argc()).step_by(2) {
        let key = ctx.args.get(i);
        ctx.keys.use_again();
        ctx.keys.set_string(key, new_value(&ctx.args, i + 1), false)?;
        ctx.modified(key);
        ctx.notify(event::STRING, "set", key);
    }
    if if_absent {
        ctx.reply.int(1)
    } else {
        ctx.reply.ok()
    }
    Ok(())
}

fn append(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (key, tail) = (ctx.args.get(1), ctx.args.get(2));
    let len = match ctx.keys.string_for_write(key)? {
        None => {
            ctx.keys.set_string(key, new_value(&ctx.args, 2), false)?;
            tail.len()
        }
        Some(old) => {
            let old = old.len();
            let len = old.saturating_add(tail.len());
            check_length(ctx, len)?;
            let core = &*ctx.core;
            ctx.keys.edit_string(key, len, |n| core.affordable(n), |value| value[old..].copy_from_slice(tail))?;
            len
        }
    };
    ctx.modified(key);
    ctx.notify(event::STRING, "append", key);
    ctx.reply.count(len);
    Ok(())
}

fn strlen(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let len = ctx.keys.string(ctx.args.get(1))?.map_or(0, Str::len);
    ctx.reply.count(len);
    Ok(())
}

fn setrange(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (key, value) = (ctx.args.get(1), ctx.args.get(3));
    let offset = ctx.int(2)?;
    if offset < 0 {
        return Err(Error::Fixed("ERR offset is out of range"));
    }
    let old = ctx.keys.string_for_write(key)?.map_or(0, Str::len);
    if value.is_empty() {
        ctx.reply.count(old);
        return Ok(());
    }
    let (start, end) = (offset as usize, (offset as usize).saturating_add(value.len()));
    check_length(ctx, end)?;
    let core = &*ctx.core;
    ctx.keys.edit_string(key, end, |n| core.affordable(n), |bytes| bytes[start..end].copy_from_slice(value))?;
    ctx.modified(key);
    ctx.notify(event::STRING, "setrange", key);
    ctx.reply.count(old.max(end));
    Ok(())
}

fn getrange(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (start, end) = (ctx.int(2)?, ctx.int(3)?);
    let Some(value) = ctx.keys.string(ctx.args.get(1))? else {
        ctx.reply.bulk(b"");
        return Ok(());
    };
    let mut buf = [0; I64_CHARS];
    let bytes = value.bytes(&mut buf);
    match range(bytes.len(), start, end) {
        Some(r) if r.len() == bytes.len() => reply_str(&mut ctx.reply, value),
        Some(r) => ctx.reply.bulk(&bytes[r]),
        None => ctx.reply.bulk(b""),
    }
    Ok(())
}

/// Redis's inclusive range with negative positions counted from the end; None if it is empty.
pub(super) fn range(len: usize, start: i64, end: i64) -> Option<core::ops::Range<usize>> {
    if start < 0 && end < 0 && start > end {
        return None;
    }
    range_within(len, start, end)
}

/// The same, but that two negative positions in the wrong order are first brought to the string's begin if they lie before
/// it, and may then be in order.
pub(super) fn range_within(len: usize, start: i64, end: i64) -> Option<core::ops::Range<usize>> {
    let len = len as i64;
    let place = |n: i64| if n < 0 { n.saturating_add(len).max(0) } else { n };
    let (start, end) = (place(start), place(end).min(len - 1));
    if start > end || len == 0 { None } else { Some(start as usize..end as usize + 1) }
}
