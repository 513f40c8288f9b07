//! Commands about keys' deadlines.

use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;
use crate::keyspace::event;
use crate::number::{I64_CHARS, format_i64};

/// When EXPIRE and the like are to do something at all.
const CONDITION: Arg = Arg::one_of(
    "condition",
    &[Arg::word("nx", "NX"), Arg::word("xx", "XX"), Arg::word("gt", "GT"), Arg::word("lt", "LT")],
)
.since("7.0.0")
.optional();

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "expire",
        group: Group::Generic,
        since: "1.0.0",
        summary: "Sets the expiration time of a key in seconds.",
        complexity: "O(1)",
        arity: -3,
        flags: flag::WRITE | flag::FAST,
        acl: acl::KEYSPACE,
        keys: &[KeySpec::range(key::RW | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("seconds"), CONDITION],
        history: &[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")],
        run: Some(expire),
        ..Command::DEFAULT
    },
    Command {
        name: "expireat",
        group: Group::Generic,
        since: "1.2.0",
        summary: "Sets the expiration time of a key to a Unix timestamp.",
        complexity: "O(1)",
        arity: -3,
        flags: flag::WRITE | flag::FAST,
        acl: acl::KEYSPACE,
        keys: &[KeySpec::range(key::RW | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::unix_time("unix-time-seconds"), CONDITION],
        history: &[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")],
        run: Some(expireat),
        ..Command::DEFAULT
    },
    Command {
        name: "expiretime",
        group: Group::Generic,
        since: "7.0.0",
        summary: "Returns the expiration time of a key as a Unix timestamp.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        acl: acl::KEYSPACE,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        run: Some(expiretime),
        ..Command::DEFAULT
    },
    Command {
        name: "persist",
        group: Group::Generic,
        since: "2.2.0",
        summary: "Removes the expiration time of a key.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::WRITE | flag::FAST,
        acl: acl::KEYSPACE,
        keys: &[KeySpec::range(key::RW | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        run: Some(persist),
        ..Command::DEFAULT
    },
    Command {
        name: "pexpire",
        group: Group::Generic,
        since: "2.6.0",
        summary: "Sets the expiration time of a key in milliseconds.",
        complexity: "O(1)",
        arity: -3,
        flags: flag::WRITE | flag::FAST,
        acl: acl::KEYSPACE,
        keys: &[KeySpec::range(key::RW | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("milliseconds"), CONDITION],
        history: &[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")],
        run: Some(pexpire),
        ..Command::DEFAULT
    },
    Command {
        name: "pexpireat",
        group: Group::Generic,
        since: "2.6.0",
        summary: "Sets the expiration time of a key to a Unix milliseconds timestamp.",
        complexity: "O(1)",
        arity: -3,
        flags: flag::WRITE | flag::FAST,
        acl: acl::KEYSPACE,
        keys: &[KeySpec::range(key::RW | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::unix_time("unix-time-milliseconds"), CONDITION],
        history: &[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")],
        run: Some(pexpireat),
        ..Command::DEFAULT
    },
    Command {
        name: "pexpiretime",
        group: Group::Generic,
        since: "7.0.0",
        summary: "Returns the expiration time of a key as a Unix milliseconds timestamp.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        acl: acl::KEYSPACE,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        run: Some(pexpiretime),
        ..Command::DEFAULT
    },
    Command {
        name: "pttl",
        group: Group::Generic,
        since: "2.6.0",
        summary: "Returns the expiration time in milliseconds of a key.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        acl: acl::KEYSPACE,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        history: &[("2.8.0", "Added the -2 reply.")],
        tips: &["nondeterministic_output"],
        run: Some(pttl),
        ..Command::DEFAULT
    },
    Command {
        name: "ttl",
        group: Group::Generic,
        since: "1.0.0",
        summary: "Returns the expiration time in seconds of a key.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        acl: acl::KEYSPACE,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        history: &[("2.8.0", "Added the -2 reply.")],
        tips: &["nondeterministic_output"],
        run: Some(ttl),
        ..Command::DEFAULT
    },
];

fn expire(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let now = ctx.keys.now_ms();
    expire_generic(ctx, now, true)
}

fn pexpire(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let now = ctx.keys.now_ms();
    expire_generic(ctx, now, false)
}

fn expireat(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    expire_generic(ctx, 0, true)
}

fn pexpireat(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    expire_generic(ctx, 0, false)
}

/// Under which condition the deadline is set.
#[derive(Debug, Default)]
struct Condition {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

fn condition(ctx: &Ctx<'_>) -> Result<Condition, Error> {
    let mut c = Condition::default();
    for i in 3..ctx.argc() {
        match ctx.arg(i).to_ascii_uppercase().as_slice() {
            b"NX" => c.nx = true,
            b"XX" => c.xx = true,
            b"GT" => c.gt = true,
            b"LT" => c.lt = true,
            _ => return Err(error_text!("ERR Unsupported option {}", crate::text::printable(ctx.arg(i), 1024))),
        }
    }
    if c.nx && (c.xx || c.gt || c.lt) {
        return Err(Error::Fixed("ERR NX and XX, GT or LT options at the same time are not compatible"));
    }
    if c.gt && c.lt {
        return Err(Error::Fixed("ERR GT and LT options at the same time are not compatible"));
    }
    Ok(c)
}

fn expire_generic(ctx: &mut Ctx<'_>, base: i64, seconds: bool) -> Result<(), Error> {
    let key = ctx.args.get(1);
    let condition = condition(ctx)?;
    let invalid = || error_text!("ERR invalid expire time in '{}' command", ctx.command.name);
    let n = ctx.int(2)?;
    let ms = if seconds { n.checked_mul(1000).ok_or_else(invalid)? } else { n };
    let at = ms.checked_add(base).ok_or_else(invalid)?;
    let Some(old) = ctx.keys.write(key).map(|item| item.deadline()) else {
        ctx.reply.int(0);
        return Ok(());
    };
    let kept = match old {
        Some(old) => condition.nx || (condition.gt && at <= old) || (condition.lt && at >= old),
        None => condition.xx || condition.gt,
    };
    if kept {
        ctx.reply.int(0);
        return Ok(());
    }
    if at <= ctx.keys.now_ms() {
        ctx.keys.remove(key);
        ctx.modified(key);
        ctx.notify(event::GENERIC, "del", key);
        ctx.effect(&[b"DEL", key]);
    } else {
        ctx.keys.set_deadline(key, Some(at))?;
        ctx.modified(key);
        ctx.notify(event::GENERIC, "expire", key);
        let mut buf = [0; I64_CHARS];
        ctx.effect(&[b"PEXPIREAT", key, format_i64(&mut buf, at)]);
    }
    ctx.reply.int(1);
    Ok(())
}

fn persist(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let key = ctx.args.get(1);
    let removed = ctx.keys.write(key).is_some_and(|item| item.deadline().is_some());
    if removed {
        ctx.keys.set_deadline(key, None)?;
        ctx.modified(key);
        ctx.notify(event::GENERIC, "persist", key);
    }
    ctx.reply.int(i64::from(removed));
    Ok(())
}

/// Answers with something made of the deadline and the present time, or with -1 or -2.
fn deadline(ctx: &mut Ctx<'_>, of: impl Fn(i64, i64) -> i64) -> Result<(), Error> {
    let now = ctx.keys.now_ms();
    let n = match ctx.keys.read_untouched(ctx.args.get(1)).map(|item| item.deadline()) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => of(at, now),
    };
    ctx.reply.int(n);
    Ok(())
}

fn ttl(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    deadline(ctx, |at, now| ((at - now).max(0) + 500) / 1000)
}

fn pttl(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    deadline(ctx, |at, now| (at - now).max(0))
}

fn expiretime(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    deadline(ctx, |at, _| at.saturating_add(500) / 1000)
}

fn pexpiretime(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    deadline(ctx, |at, _| at)
}
