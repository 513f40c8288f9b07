//! Commands on hashes.

use super::collection::{SCAN_ARGS, ScanOptions, scan_cursor, scan_reply};
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::encoding::listpack::Entry;
use crate::error::Error;
use crate::keyspace::event;
use crate::number::{I64_CHARS, LongDouble, format_i64};
use crate::reply::Reply;
use crate::types::hash::{HashRef, new_hash};

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "hdel",
        group: Group::Hash,
        since: "2.0.0",
        summary: "Deletes one or more fields and their values from a hash. Deletes the hash if no fields remain.",
        complexity: "O(N) where N is the number of fields to be removed.",
        arity: -3,
        flags: flag::WRITE | flag::FAST,
        acl: acl::HASH,
        keys: &[KeySpec::range(key::RW | key::DELETE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("field").multiple()],
        history: &[("2.4.0", "Accepts multiple `field` arguments.")],
        run: Some(hdel),
        ..Command::DEFAULT
    },
    Command {
        name: "hexists",
        group: Group::Hash,
        since: "2.0.0",
        summary: "Determines whether a field exists in a hash.",
        complexity: "O(1)",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        acl: acl::HASH,
        keys: &[KeySpec::range(key::RO, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("field")],
        run: Some(hexists),
        ..Command::DEFAULT
    },
    Command {
        name: "hget",
        group: Group::Hash,
        since: "2.0.0",
        summary: "Returns the value of a field in a hash.",
        complexity: "O(1)",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        acl: acl::HASH,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("field")],
        run: Some(hget),
        ..Command::DEFAULT
    },
    Command {
        name: "hgetall",
        group: Group::Hash,
        since: "2.0.0",
        summary: "Returns all fields and values in a hash.",
        complexity: "O(N) where N is the size of the hash.",
        arity: 2,
        flags: flag::READONLY,
        acl: acl::HASH,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        tips: &["nondeterministic_output_order"],
        run: Some(hgetall),
        ..Command::DEFAULT
    },
    Command {
        name: "hincrby",
        group: Group::Hash,
        since: "2.0.0",
        summary: "Increments the integer value of a field in a hash by a number. Uses 0 as initial value if the field doesn't exist.",
        complexity: "O(1)",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::HASH,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("field"), Arg::integer("increment")],
        run: Some(hincrby),
        ..Command::DEFAULT
    },
    Command {
        name: "hincrbyfloat",
        group: Group::Hash,
        since: "2.6.0",
        summary: "Increments the floating point value of a field by a number. Uses 0 as initial value if the field doesn't exist.",
        complexity: "O(1)",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::HASH,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("field"), Arg::double("increment")],
        run: Some(hincrbyfloat),
        ..Command::DEFAULT
    },
    Command {
        name: "hkeys",
        group: Group::Hash,
        since: "2.0.0",
        summary: "Returns all fields in a hash.",
        complexity: "O(N) where N is the size of the hash.",
        arity: 2,
        flags: flag::READONLY,
        acl: acl::HASH,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        tips: &["nondeterministic_output_order"],
        run: Some(hkeys),
        ..Command::DEFAULT
    },
    Command {
        name: "hlen",
        group: Group::Hash,
        since: "2.0.0",
        summary: "Returns the number of fields in a hash.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        acl: acl::HASH,
        keys: &[KeySpec::range(key::RO, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        run: Some(hlen),
        ..Command::DEFAULT
    },
    Command {
        name: "hmget",
        group: Group::Hash,
        since: "2.0.0",
        summary: "Returns the values of all fields in a hash.",
        complexity: "O(N) where N is the number of fields being requested.",
        arity: -3,
        flags: flag::READONLY | flag::FAST,
        acl: acl::HASH,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("field").multiple()],
        run: Some(hmget),
        ..Command::DEFAULT
    },
    Command {
        name: "hmset",
        group: Group::Hash,
        since: "2.0.0",
        summary: "Sets the values of multiple fields.",
        complexity: "O(N) where N is the number of fields being set.",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::HASH,
        keys: &[KeySpec::range(key::RW | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::block("data", &[Arg::string("field"), Arg::string("value")]).multiple()],
        deprecated_since: "4.0.0",
        replaced_by: "`HSET` with multiple field-value pairs",
        run: Some(hmset),
        ..Command::DEFAULT
    },
    Command {
        name: "hrandfield",
        group: Group::Hash,
        since: "6.2.0",
        summary: "Returns one or more random fields from a hash.",
        complexity: "O(N) where N is the number of fields returned",
        arity: -2,
        flags: flag::READONLY,
        acl: acl::HASH,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::block("options", &[Arg::integer("count"), Arg::word("withvalues", "WITHVALUES").optional()])
                .optional(),
        ],
        tips: &["nondeterministic_output"],
        run: Some(hrandfield),
        ..Command::DEFAULT
    },
    Command {
        name: "hscan",
        group: Group::Hash,
        since: "2.8.0",
        summary: "Iterates over fields and values of a hash.",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
        arity: -3,
        flags: flag::READONLY,
        acl: acl::HASH,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: SCAN_ARGS,
        tips: &["nondeterministic_output"],
        run: Some(hscan),
        ..Command::DEFAULT
    },
    Command {
        name: "hset",
        group: Group::Hash,
        since: "2.0.0",
        summary: "Creates or modifies the value of a field in a hash.",
        complexity: "O(1) for each field/value pair added, so O(N) to add N field/value pairs when the command is called with multiple field/value pairs.",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::HASH,
        keys: &[KeySpec::range(key::RW | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::block("data", &[Arg::string("field"), Arg::string("value")]).multiple()],
        history: &[("4.0.0", "Accepts multiple `field` and `value` arguments.")],
        run: Some(hset),
        ..Command::DEFAULT
    },
    Command {
        name: "hsetnx",
        group: Group::Hash,
        since: "2.0.0",
        summary: "Sets the value of a field in a hash only when the field doesn't exist.",
        complexity: "O(1)",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::HASH,
        keys: &[KeySpec::range(key::RW | key::INSERT, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("field"), Arg::string("value")],
        run: Some(hsetnx),
        ..Command::DEFAULT
    },
    Command {
        name: "hstrlen",
        group: Group::Hash,
        since: "3.2.0",
        summary: "Returns the length of the value of a field.",
        complexity: "O(1)",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        acl: acl::HASH,
        keys: &[KeySpec::range(key::RO, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("field")],
        run: Some(hstrlen),
        ..Command::DEFAULT
    },
    Command {
        name: "hvals",
        group: Group::Hash,
        since: "2.0.0",
        summary: "Returns all values in a hash.",
        complexity: "O(N) where N is the size of the hash.",
        arity: 2,
        flags: flag::READONLY,
        acl: acl::HASH,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        tips: &["nondeterministic_output_order"],
        run: Some(hvals),
        ..Command::DEFAULT
    },
];

/// Sets the field-value pairs from argument 2 on. Returns how many fields are new.
fn set_pairs(ctx: &mut Ctx<'_>) -> Result<usize, Error> {
    if ctx.argc() % 2 == 1 {
        return Err(ctx.wrong_arity());
    }
    let (key, limits, args) = (ctx.arg(1), ctx.hash_limits(), ctx.args);
    let mut hash = ctx.keys.hash_or_new(key, new_hash)?;
    let mut outcome = hash.prepare(args.iter_from(2), &limits);
    let mut new = 0;
    for i in (2..args.len()).step_by(2) {
        if outcome.is_err() {
            break;
        }
        outcome = hash.set(args.get(i), args.get(i + 1), &limits).map(|is_new| new += usize::from(is_new));
    }
    let pairs = (args.len() - 2) / 2;
    finish(ctx, key, outcome.map_err(Error::from), "hset", pairs)?;
    Ok(new)
}

/// After a hash was written to: tells of the change, or takes an empty hash away that was made for a write that failed.
fn finish<T>(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    outcome: Result<T, Error>,
    name: &'static str,
    changes: usize,
) -> Result<T, Error> {
    if outcome.is_ok() {
        ctx.keys.modified_by(key, changes);
        ctx.keys.notify(event::HASH, name, key);
    } else if ctx.keys.hash(key).is_ok_and(|h| h.is_some_and(HashRef::is_empty)) {
        ctx.keys.remove(key);
    }
    outcome
}

fn hset(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let new = set_pairs(ctx)?;
    ctx.reply.count(new);
    Ok(())
}

fn hmset(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    set_pairs(ctx)?;
    ctx.reply.ok();
    Ok(())
}

fn hsetnx(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (key, field, value, limits) = (ctx.arg(1), ctx.arg(2), ctx.arg(3), ctx.hash_limits());
    let mut hash = ctx.keys.hash_or_new(key, new_hash)?;
    if hash.view().contains(field) {
        ctx.reply.int(0);
        return Ok(());
    }
    let outcome = hash.set(field, value, &limits).map_err(Error::from);
    finish(ctx, key, outcome, "hset", 1)?;
    ctx.reply.int(1);
    Ok(())
}

fn hget(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let field = ctx.arg(2);
    match ctx.keys.hash(ctx.args.get(1))?.and_then(|h| h.get(field)) {
        Some(value) => ctx.reply.entry(value),
        None => ctx.reply.null(),
    }
    Ok(())
}

fn hmget(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let hash = ctx.keys.hash(ctx.args.get(1))?;
    let fields = ctx.args.iter_from(2);
    ctx.reply.array(fields.len());
    for field in fields {
        match hash.and_then(|h| h.get(field)) {
            Some(value) => ctx.reply.entry(value),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

fn hdel(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let key = ctx.arg(1);
    let Some(mut hash) = ctx.keys.hash_mut(key)? else {
        ctx.reply.int(0);
        return Ok(());
    };
    let removed = ctx.args.iter_from(2).filter(|field| hash.remove(field)).count();
    let empty = hash.view().is_empty();
    if removed > 0 {
        ctx.keys.modified_by(key, removed);
        ctx.keys.notify(event::HASH, "hdel", key);
        if empty {
            ctx.keys.remove(key);
            ctx.keys.notify(event::GENERIC, "del", key);
        }
    }
    ctx.reply.count(removed);
    Ok(())
}

fn hlen(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let len = ctx.keys.hash(ctx.args.get(1))?.map_or(0, HashRef::len);
    ctx.reply.count(len);
    Ok(())
}

fn hstrlen(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let field = ctx.arg(2);
    let len = ctx.keys.hash(ctx.args.get(1))?.and_then(|h| h.get(field)).map_or(0, Entry::text_len);
    ctx.reply.count(len);
    Ok(())
}

fn hexists(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let field = ctx.arg(2);
    let there = ctx.keys.hash(ctx.args.get(1))?.is_some_and(|h| h.contains(field));
    ctx.reply.count(usize::from(there));
    Ok(())
}

fn hkeys(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let hash = ctx.keys.hash(ctx.args.get(1))?;
    ctx.reply.array(hash.map_or(0, HashRef::len));
    hash.into_iter().flat_map(HashRef::iter).for_each(|(field, _)| ctx.reply.entry(field));
    Ok(())
}

fn hvals(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let hash = ctx.keys.hash(ctx.args.get(1))?;
    ctx.reply.array(hash.map_or(0, HashRef::len));
    hash.into_iter().flat_map(HashRef::iter).for_each(|(_, value)| ctx.reply.entry(value));
    Ok(())
}

fn hgetall(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let hash = ctx.keys.hash(ctx.args.get(1))?;
    ctx.reply.map(hash.map_or(0, HashRef::len));
    for (field, value) in hash.into_iter().flat_map(HashRef::iter) {
        ctx.reply.entry(field);
        ctx.reply.entry(value);
    }
    Ok(())
}

fn hincrby(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (key, field, limits) = (ctx.arg(1), ctx.arg(2), ctx.hash_limits());
    let increment = ctx.int(3)?;
    let mut hash = ctx.keys.hash_or_new(key, new_hash)?;
    let old = match hash.view().get(field) {
        Some(value) => value.as_int().ok_or(Error::Fixed("ERR hash value is not an integer"))?,
        None => 0,
    };
    let new = old.checked_add(increment).ok_or(Error::Fixed("ERR increment or decrement would overflow"))?;
    let outcome = hash.set(field, format_i64(&mut [0; I64_CHARS], new), &limits).map_err(Error::from);
    finish(ctx, key, outcome, "hincrby", 1)?;
    ctx.reply.int(new);
    Ok(())
}

fn hincrbyfloat(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (key, field, limits) = (ctx.arg(1), ctx.arg(2), ctx.hash_limits());
    let increment = LongDouble::parse(ctx.arg(3)).ok_or(Error::NotFloat)?;
    if increment.is_infinite() {
        return Err(Error::Fixed("ERR value is NaN or Infinity"));
    }
    let mut hash = ctx.keys.hash_or_new(key, new_hash)?;
    let old = match hash.view().get(field) {
        Some(value) => {
            LongDouble::parse(value.bytes(&mut [0; I64_CHARS])).ok_or(Error::Fixed("ERR hash value is not a float"))?
        }
        None => LongDouble::ZERO,
    };
    let new = old
        .checked_add(increment)
        .filter(|sum| !sum.is_infinite())
        .ok_or(Error::Fixed("ERR increment would produce NaN or Infinity"))?;
    let mut text = alloc::vec::Vec::new();
    new.format(&mut text);
    let outcome = hash.set(field, &text, &limits).map_err(Error::from);
    finish(ctx, key, outcome, "hincrbyfloat", 1)?;
    ctx.reply.bulk(&text);
    // Sums of floats may differ elsewhere: what is passed on is the result.
    ctx.keys.effect(&[b"HSET", key, field, &text]);
    Ok(())
}

/// A field, or a field with its value: a pair of its own in RESP3.
fn random_field(reply: &mut Reply<'_>, field: Entry<'_>, value: Entry<'_>, with_value: bool) {
    if with_value && reply.resp3 {
        reply.array(2);
    }
    reply.entry(field);
    if with_value {
        reply.entry(value);
    }
}

fn hrandfield(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if ctx.argc() == 2 {
        match ctx.keys.hash(ctx.args.get(1))?.and_then(|h| h.random(&mut ctx.core.rng)) {
            Some((field, _)) => ctx.reply.entry(field),
            None => ctx.reply.null(),
        }
        return Ok(());
    }
    let count = ctx.int_in(2, -i64::MAX, i64::MAX)?;
    let with_values = ctx.argc() > 3;
    if ctx.argc() > 4 || (with_values && !ctx.args.is(3, "withvalues")) {
        return Err(Error::Syntax);
    }
    if with_values && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(Error::Fixed("ERR value is out of range"));
    }
    let n = count.unsigned_abs() as usize;
    let hash = ctx.keys.hash(ctx.args.get(1))?.filter(|h| n > 0 && !h.is_empty());
    let Some(hash) = hash else {
        ctx.reply.array(0);
        return Ok(());
    };
    let columns = if with_values && !ctx.reply.resp3 { 2 } else { 1 };
    if count < 0 {
        ctx.reply.array(n * columns);
        // As many as were asked for, unless the client has long since lost its chance of getting them.
        for _ in 0..n {
            let Some((field, value)) = hash.random(&mut ctx.core.rng) else { break };
            random_field(&mut ctx.reply, field, value, with_values);
            if ctx.reply.out.overflowed() {
                break;
            }
        }
    } else {
        let sample = hash.sample(n, &mut ctx.core.rng)?;
        ctx.reply.array(sample.len() * columns);
        for (field, value) in sample {
            random_field(&mut ctx.reply, field, value, with_values);
        }
    }
    Ok(())
}

fn hscan(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let cursor = scan_cursor(ctx.arg(2))?;
    let Some(hash) = ctx.keys.hash(ctx.args.get(1))? else {
        scan_reply(&mut ctx.reply, |_| (0, 0));
        return Ok(());
    };
    let options = ScanOptions::parse(ctx.args, 3)?;
    scan_reply(&mut ctx.reply, |reply| {
        let mut n = 0;
        let next = hash.scan(cursor, options.count, |field, value| {
            if options.matches(field) {
                reply.entry(field);
                reply.entry(value);
                n += 2;
            }
        });
        (next, n)
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn encodings_follow_the_limits() {
        let mut b = Bench::new(&[("hash-max-listpack-entries", "2"), ("hash-max-listpack-value", "4")]);
        let c = b.client();
        assert_eq!(b.run(c, "HSET h a 1 b 2"), "2");
        assert_eq!(b.encoding("h"), "listpack");
        assert_eq!(b.run(c, "HSET h a 1 b 2 c 3"), "1");
        assert_eq!(b.encoding("h"), "hashtable");
        b.run(c, "HDEL h a b");
        assert_eq!(b.encoding("h"), "hashtable", "never back");
        b.run(c, "HSETNX long f 12345");
        assert_eq!(b.encoding("long"), "hashtable");
        b.run(c, "HSET n f 9999");
        b.run(c, "HINCRBY n f 1");
        assert_eq!(b.encoding("n"), "hashtable", "five digits");
    }

    #[test]
    fn errors_leave_no_empty_key() {
        let mut b = Bench::new(&[]);
        let c = b.client();
        assert_eq!(b.run(c, "HSET h a"), "-ERR wrong number of arguments for 'hset' command");
        assert_eq!(b.run(c, "HINCRBY h a x"), "-ERR value is not an integer or out of range");
        assert_eq!(b.run(c, "HINCRBYFLOAT h a inf"), "-ERR value is NaN or Infinity");
        assert_eq!(b.encoding("h"), "none");
        assert_eq!(b.run(c, "HINCRBYFLOAT h a 0.1"), "0.1");
        assert_eq!(b.run(c, "HINCRBYFLOAT h a 0.2"), "0.3");
        assert_eq!(b.run(c, "HINCRBY h a 1"), "-ERR hash value is not an integer");
        assert_eq!(b.run(c, "HDEL h a"), "1");
        assert_eq!(b.encoding("h"), "none");
    }

    #[test]
    fn random_fields_take_the_shape_of_the_protocol() {
        let mut b = Bench::new(&[]);
        let c = b.client();
        b.run(c, "HSET h f v");
        assert_eq!(b.run(c, "HRANDFIELD h"), "f");
        assert_eq!(b.run(c, "HRANDFIELD h -2 WITHVALUES"), "[f v f v]");
        assert_eq!(b.run(c, "HRANDFIELD h 5"), "[f]");
        assert_eq!(b.run(c, "HRANDFIELD h 1 VALUES"), "-ERR syntax error");
        assert_eq!(b.run(c, "HRANDFIELD none 5"), "[]");
        assert_eq!(b.run(c, "HSCAN h 0 MATCH f* COUNT 0"), "-ERR syntax error");
        assert_eq!(b.run(c, "HSCAN h 0 MATCH f*"), "[0 [f v]]");
        assert_eq!(b.run(c, "HSCAN h 0 MATCH g*"), "[0 []]");
    }
}
