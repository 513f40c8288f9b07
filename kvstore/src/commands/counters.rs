//! Commands on strings that are numbers.

use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::keyspace::event;
use crate::number::{I64_CHARS, LongDouble};
use alloc::vec::Vec;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "decr",
        group: Group::String,
        since: "1.0.0",
        summary: "Decrements the integer value of a key by one. Uses 0 as initial value if the key doesn't exist.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        run: Some(decr),
        ..Command::DEFAULT
    },
    Command {
        name: "decrby",
        group: Group::String,
        since: "1.0.0",
        summary: "Decrements a number from the integer value of a key. Uses 0 as initial value if the key doesn't exist.",
        complexity: "O(1)",
        arity: 3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("decrement")],
        run: Some(decrby),
        ..Command::DEFAULT
    },
    Command {
        name: "incr",
        group: Group::String,
        since: "1.0.0",
        summary: "Increments the integer value of a key by one. Uses 0 as initial value if the key doesn't exist.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        run: Some(incr),
        ..Command::DEFAULT
    },
    Command {
        name: "incrby",
        group: Group::String,
        since: "1.0.0",
        summary: "Increments the integer value of a key by a number. Uses 0 as initial value if the key doesn't exist.",
        complexity: "O(1)",
        arity: 3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("increment")],
        run: Some(incrby),
        ..Command::DEFAULT
    },
    Command {
        name: "incrbyfloat",
        group: Group::String,
        since: "2.6.0",
        summary: "Increment the floating point value of a key by a number. Uses 0 as initial value if the key doesn't exist.",
        complexity: "O(1)",
        arity: 3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::STRING,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::double("increment")],
        run: Some(incrbyfloat),
        ..Command::DEFAULT
    },
];

fn incr(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    add(ctx, 1)
}

fn decr(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    add(ctx, -1)
}

fn incrby(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let n = ctx.int(2)?;
    add(ctx, n)
}

fn decrby(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let n = ctx.int(2)?.checked_neg().ok_or(Error::Fixed("ERR decrement would overflow"))?;
    add(ctx, n)
}

fn add(ctx: &mut Ctx<'_>, n: i64) -> Result<(), Error> {
    let key = ctx.args.get(1);
    let old = match ctx.keys.string_for_write(key)? {
        None => 0,
        Some(value) => value.int().ok_or(Error::NotInteger)?,
    };
    let new = old.checked_add(n).ok_or(Error::Fixed("ERR increment or decrement would overflow"))?;
    ctx.keys.set_int(key, new)?;
    ctx.modified(key);
    ctx.notify(event::STRING, "incrby", key);
    ctx.reply.int(new);
    Ok(())
}

fn incrbyfloat(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let key = ctx.args.get(1);
    let mut buf = [0; I64_CHARS];
    let old = match ctx.keys.string_for_write(key)? {
        None => LongDouble::from_i64(0),
        Some(value) => LongDouble::parse(value.bytes(&mut buf)).ok_or(Error::NotFloat)?,
    };
    let increment = LongDouble::parse(ctx.arg(2)).ok_or(Error::NotFloat)?;
    let new = old.checked_add(increment).filter(|n| !n.is_infinite());
    let new = new.ok_or(Error::Fixed("ERR increment would produce NaN or Infinity"))?;
    let mut text = Vec::new();
    new.format(&mut text);
    ctx.keys.set_number_text(key, &text)?;
    ctx.modified(key);
    ctx.notify(event::STRING, "incrbyfloat", key);
    ctx.effect(&[b"SET", key, &text, b"KEEPTTL"]);
    ctx.reply.bulk(&text);
    Ok(())
}
