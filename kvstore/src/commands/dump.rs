//! DUMP and RESTORE.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::keyspace::event;
use crate::keyspace::strings::NewStr;
use crate::number::{I64_CHARS, format_i64};
use crate::rdb::load::{Limits, Loaded, value, verified};
use crate::rdb::save;
use crate::reply::BY_REFERENCE;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "dump",
        group: Group::Generic,
        since: "2.6.0",
        summary: "Returns a serialized representation of the value stored at a key.",
        complexity: "O(1) to access the key and additional O(N*M) to serialize it, where N is the number of objects composing the value and M their average size. For small string values the time complexity is thus O(1)+O(1*M) where M is small, so simply O(1).",
        arity: 2,
        flags: flag::READONLY,
        acl: acl::KEYSPACE,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        tips: &["nondeterministic_output"],
        run: Some(dump),
        ..Command::DEFAULT
    },
    Command {
        name: "restore",
        group: Group::Generic,
        since: "2.6.0",
        summary: "Creates a key from the serialized representation of a value.",
        complexity: "O(1) to create the new key and additional O(N*M) to reconstruct the serialized value, where N is the number of objects composing the value and M their average size. For small string values the time complexity is thus O(1)+O(1*M) where M is small, so simply O(1). However for sorted set values the complexity is O(N*M*log(N)) because inserting values into sorted sets is O(log(N)).",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::DANGEROUS | acl::KEYSPACE,
        keys: &[KeySpec::range(key::OW | key::UPDATE, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::integer("ttl"),
            Arg::string("serialized-value"),
            Arg::word("replace", "REPLACE").since("3.0.0").optional(),
            Arg::word("absttl", "ABSTTL").since("5.0.0").optional(),
            Arg::integer("seconds").token("IDLETIME").since("5.0.0").optional(),
            Arg::integer("frequency").token("FREQ").since("5.0.0").optional(),
        ],
        history: &[
            ("3.0.0", "Added the `REPLACE` modifier."),
            ("5.0.0", "Added the `ABSTTL` modifier."),
            ("5.0.0", "Added the `IDLETIME` and `FREQ` options."),
        ],
        run: Some(restore),
        ..Command::DEFAULT
    },
];

fn dump(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let Some(item) = ctx.keys.read(ctx.args.get(1)) else {
        ctx.reply.null();
        return Ok(());
    };
    let payload = save::dump(item)?;
    if payload.len() < BY_REFERENCE {
        ctx.reply.bulk(&payload)
    } else {
        ctx.reply.bulk_shared(&Arc::new(payload))
    }
    Ok(())
}

#[derive(Default)]
struct Options {
    replace: bool,
    /// The time to live is a point of Unix time.
    absolute: bool,
    /// Seconds since the value was last used.
    idle_s: Option<i64>,
    frequency: Option<i64>,
}

impl Options {
    fn parse(ctx: &Ctx<'_>) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut i = 4;
        while i < ctx.argc() {
            let more = i + 1 < ctx.argc();
            if ctx.args.is(i, "replace") {
                options.replace = true;
            } else if ctx.args.is(i, "absttl") {
                options.absolute = true;
            } else if ctx.args.is(i, "idletime") && more && options.frequency.is_none() {
                i += 1;
                let idle = ctx.int(i)?;
                if idle < 0 {
                    return Err(Error::Fixed("ERR Invalid IDLETIME value, must be >= 0"));
                }
                options.idle_s = Some(idle);
            } else if ctx.args.is(i, "freq") && more && options.idle_s.is_none() {
                i += 1;
                let frequency = ctx.int(i)?;
                if !(0..=255).contains(&frequency) {
                    return Err(Error::Fixed("ERR Invalid FREQ value, must be >= 0 and <= 255"));
                }
                options.frequency = Some(frequency);
            } else {
                return Err(Error::Syntax);
            }
            i += 1;
        }
        Ok(options)
    }
}

fn restore(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (key, payload) = (ctx.arg(1), ctx.arg(3));
    let options = Options::parse(ctx)?;
    if !options.replace && ctx.keys.write(key).is_some() {
        return Err(Error::Fixed("BUSYKEY Target key name already exists."));
    }
    let ttl = ctx.int(2)?;
    if ttl < 0 {
        return Err(Error::Fixed("ERR Invalid TTL value, must be >= 0"));
    }
    let body = verified(payload).ok_or(Error::Fixed("ERR DUMP payload version or checksum are wrong"))?;
    if !ctx.affordable(payload.len().saturating_mul(2)) {
        return Err(Error::OutOfMemory);
    }
    let config = &ctx.core.config;
    let limits = Limits { list: config.list_limit, hash: config.hash, set: config.set, zset: config.zset };
    let loaded = value(body, &limits)?;
    let now = ctx.keys.now_ms();
    let deadline = match ttl {
        0 => None,
        _ if options.absolute => Some(ttl),
        _ => Some(ttl.saturating_add(now)),
    };
    let deleted = options.replace && ctx.keys.remove(key);
    if deadline.is_some_and(|at| at <= now) {
        if deleted {
            ctx.keys.effect(&[b"DEL", key]);
            ctx.keys.modified(key);
            ctx.keys.notify(event::GENERIC, "del", key);
        }
        ctx.reply.ok();
        return Ok(());
    }
    match loaded {
        Loaded::Str(text) if text.len() < BY_REFERENCE => ctx.keys.set_string(key, NewStr::Bytes(&text), false)?,
        Loaded::Str(text) => {
            let text = match text {
                alloc::borrow::Cow::Owned(text) => text,
                alloc::borrow::Cow::Borrowed(text) => crate::encoding::Entry::Str(text).try_to_vec()?,
            };
            ctx.keys.set_string(key, NewStr::Shared(&Arc::new(text)), false)?;
        }
        Loaded::Item(item) => ctx.keys.put(key, item)?,
    }
    if let Some(at) = deadline {
        ctx.keys.set_deadline(key, Some(at))?;
    }
    // Each is heeded only under a policy that keeps it.
    let access = &ctx.keys.space.access;
    let bits = match (access.is_lfu(), options.idle_s, options.frequency) {
        (false, Some(idle), _) => Some(access.with_idle_s(idle as u32)),
        (true, _, Some(frequency)) => Some(access.with_frequency(frequency as u32)),
        _ => None,
    };
    if let Some(bits) = bits
        && let Some(pos) = ctx.keys.find(key)
    {
        ctx.keys.set_clock_at(pos, bits);
    }
    if let Some(at) = deadline.filter(|_| !options.absolute) {
        // What is passed on must not depend on when it arrives.
        let mut buf = [0; I64_CHARS];
        let mut args: Vec<&[u8]> = ctx.args.iter_from(0).collect();
        args[2] = format_i64(&mut buf, at);
        args.push(b"ABSTTL");
        ctx.keys.effect(&args);
    }
    ctx.keys.modified(key);
    ctx.keys.notify(event::GENERIC, "restore", key);
    ctx.reply.ok();
    Ok(())
}
