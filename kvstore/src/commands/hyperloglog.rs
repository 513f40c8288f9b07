//! HyperLogLog commands. The format and the arithmetic are in [`hyperloglog`](crate::types::hyperloglog).

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use super::hyperloglog_test::SelfTest;
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;
use crate::jobs;
use crate::keyspace::event;
use crate::number::I64_CHARS;
use crate::types::hyperloglog::{self as hll, REGISTERS};

/// The commands of this file.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "pfadd",
        group: Group::HyperLogLog,
        since: "2.8.9",
        summary: "Adds elements to a HyperLogLog key. Creates the key if it doesn't exist.",
        complexity: "O(1) to add every element.",
        arity: -2,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::HYPERLOGLOG,
        keys: &[KeySpec::range(key::RW | key::INSERT, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("element").optional().multiple()],
        run: Some(pfadd),
        ..Command::DEFAULT
    },
    Command {
        name: "pfcount",
        group: Group::HyperLogLog,
        since: "2.8.9",
        summary: "Returns the approximated cardinality of the set(s) observed by the HyperLogLog key(s).",
        complexity: "O(1) with a very small average constant time when called with a single key. O(N) with N being the number of keys, and much bigger constant times, when called with multiple keys.",
        arity: -2,
        flags: flag::MAY_REPLICATE | flag::READONLY,
        acl: acl::HYPERLOGLOG,
        keys: &[KeySpec::range(key::RW | key::ACCESS, 1, -1, 1)
            .notes("RW because it may change the internal representation of the key, and propagate to replicas")],
        args: &[Arg::key("key", 0).multiple()],
        run: Some(pfcount),
        ..Command::DEFAULT
    },
    Command {
        name: "pfdebug",
        group: Group::HyperLogLog,
        since: "2.8.9",
        summary: "Internal commands for debugging HyperLogLog values.",
        complexity: "N/A",
        arity: 3,
        flags: flag::WRITE | flag::DENYOOM | flag::ADMIN,
        acl: acl::HYPERLOGLOG,
        keys: &[KeySpec::range(key::RW | key::ACCESS, 2, 0, 1)],
        args: &[Arg::string("subcommand"), Arg::key("key", 0)],
        syscmd: true,
        run: Some(pfdebug),
        ..Command::DEFAULT
    },
    Command {
        name: "pfmerge",
        group: Group::HyperLogLog,
        since: "2.8.9",
        summary: "Merges one or more HyperLogLog values into a single key.",
        complexity: "O(N) to merge N HyperLogLogs, but with high constant times.",
        arity: -2,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::HYPERLOGLOG,
        keys: &[
            KeySpec::range(key::RW | key::ACCESS | key::INSERT, 1, 0, 1),
            KeySpec::range(key::RO | key::ACCESS, 2, -1, 1),
        ],
        args: &[Arg::key("destkey", 0), Arg::key("sourcekey", 1).optional().multiple()],
        run: Some(pfmerge),
        ..Command::DEFAULT
    },
    Command {
        name: "pfselftest",
        group: Group::HyperLogLog,
        since: "2.8.9",
        summary: "An internal command for testing HyperLogLog values.",
        complexity: "N/A",
        arity: 1,
        flags: flag::ADMIN,
        acl: acl::HYPERLOGLOG,
        syscmd: true,
        run: Some(pfselftest),
        ..Command::DEFAULT
    },
];

/// A copy of the value at a key that is to be changed, if there is one.
fn copy(ctx: &mut Ctx<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let mut digits = [0; I64_CHARS];
    let Some(text) = ctx.keys.string_for_write(key)? else { return Ok(None) };
    let text = text.bytes(&mut digits);
    hll::check(text)?;
    let mut value = Vec::new();
    value.try_reserve_exact(text.len())?;
    value.extend_from_slice(text);
    Ok(Some(value))
}

fn pfadd(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let key = ctx.arg(1);
    let sparse_max = ctx.core.config.hll_sparse_max_bytes;
    let (mut updated, mut result) = (0u64, Ok(()));
    let mut digits = [0; I64_CHARS];
    let dense_len = match ctx.keys.string_for_write(key)? {
        None => None,
        Some(text) => {
            let text = text.bytes(&mut digits);
            hll::check(text)?;
            hll::is_dense(text).then_some(text.len())
        }
    };
    if let Some(len) = dense_len {
        // In place.
        let elements = ctx.args.iter_from(2);
        updated = ctx.keys.edit_string(
            key,
            len,
            |_| true,
            |value| {
                let updated = elements.filter(|element| hll::add_dense(value, element)).count() as u64;
                if updated > 0 {
                    hll::invalidate(value);
                }
                updated
            },
        )?;
    } else {
        let mut value = match copy(ctx, key)? {
            Some(value) => value,
            None => {
                updated = 1;
                hll::empty()
            }
        };
        for element in ctx.args.iter_from(2) {
            match hll::add(&mut value, element, sparse_max) {
                Ok(changed) => updated += u64::from(changed),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if updated > 0 && result.is_ok() {
            hll::invalidate(&mut value);
        }
        ctx.keys.set_raw(key, &value)?;
    }
    result?;
    if updated > 0 {
        ctx.modified(key);
        ctx.keys.space.dirty += updated - 1;
        ctx.notify(event::STRING, "pfadd", key);
    }
    ctx.reply.count(usize::from(updated > 0));
    Ok(())
}

/// The union of the values at the keys, and whether one of them is dense.
fn union(ctx: &mut Ctx<'_>) -> Result<(Vec<u8>, bool), Error> {
    let mut registers = hll::registers()?;
    let mut dense = false;
    let mut digits = [0; I64_CHARS];
    for key in ctx.args.iter_from(1) {
        ctx.keys.use_again();
        let Some(text) = ctx.keys.string(key)? else { continue };
        let text = text.bytes(&mut digits);
        hll::check(text)?;
        dense |= hll::is_dense(text);
        hll::merge(&mut registers, text)?;
    }
    Ok((registers, dense))
}

fn pfcount(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if ctx.argc() > 2 {
        let (registers, _) = union(ctx)?;
        ctx.reply.int(hll::count_registers(&registers) as i64);
        return Ok(());
    }
    let key = ctx.arg(1);
    let mut digits = [0; I64_CHARS];
    let Some(text) = ctx.keys.string(key)? else {
        ctx.reply.int(0);
        return Ok(());
    };
    let text = text.bytes(&mut digits);
    hll::check(text)?;
    let (len, cached) = (text.len(), hll::cached(text));
    let cardinality = match cached {
        Some(cardinality) => cardinality,
        None => hll::count(text)?,
    };
    ctx.keys.edit_string(key, len, |_| true, |value| hll::cache(value, cardinality))?;
    if cached.is_none() {
        // A reading command, but the value is another string now: that is logged, too.
        ctx.modified(key);
        ctx.effect(&[b"PFCOUNT", key]);
    }
    ctx.reply.int(cardinality as i64);
    Ok(())
}

fn pfmerge(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (registers, dense) = union(ctx)?;
    let key = ctx.arg(1);
    let sparse_max = ctx.core.config.hll_sparse_max_bytes;
    ctx.keys.use_again();
    let mut value = copy(ctx, key)?.unwrap_or_else(hll::empty);
    if dense {
        hll::make_dense(&mut value)?;
    }
    for (i, &count) in registers.iter().enumerate() {
        if count > 0 {
            hll::raise(&mut value, i, count, sparse_max)?;
        }
    }
    hll::invalidate(&mut value);
    ctx.keys.set_raw(key, &value)?;
    ctx.modified(key);
    ctx.notify(event::STRING, "pfadd", key);
    ctx.reply.ok();
    Ok(())
}

fn pfdebug(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (what, key) = (ctx.arg(1), ctx.arg(2));
    let Some(mut value) = copy(ctx, key)? else {
        return Err(Error::Fixed("ERR The specified key does not exist"));
    };
    let sparse = !hll::is_dense(&value);
    if what.eq_ignore_ascii_case(b"getreg") || what.eq_ignore_ascii_case(b"todense") {
        if sparse {
            hll::make_dense(&mut value)?;
            ctx.keys.set_raw(key, &value)?;
            ctx.keys.space.dirty += 1;
        }
        if what.eq_ignore_ascii_case(b"todense") {
            ctx.reply.count(usize::from(sparse));
            return Ok(());
        }
        ctx.reply.array(REGISTERS);
        for i in 0..REGISTERS {
            ctx.reply.count(usize::from(hll::dense_register(&value, i)));
        }
    } else if what.eq_ignore_ascii_case(b"decode") {
        if !sparse {
            return Err(Error::Fixed("ERR HLL encoding is not sparse"));
        }
        ctx.reply.bulk(decoded(&value)?.as_bytes());
    } else if what.eq_ignore_ascii_case(b"encoding") {
        ctx.reply.simple(if sparse { "sparse" } else { "dense" });
    } else {
        let what = crate::text::printable(what, 128);
        return Err(error_text!("ERR Unknown PFDEBUG subcommand '{what}'"));
    }
    Ok(())
}

/// The runs of a sparse value in words.
fn decoded(value: &[u8]) -> Result<String, Error> {
    let mut text = String::new();
    text.try_reserve(value.len() * 8)?;
    for run in hll::runs(value) {
        let written = match run {
            _ if run.value > 0 => write!(text, "v:{},{} ", run.value, run.len),
            _ if run.is_long() => write!(text, "Z:{} ", run.len),
            _ => write!(text, "z:{} ", run.len),
        };
        debug_assert!(written.is_ok(), "a string takes what is written");
    }
    text.truncate(text.trim_end().len());
    Ok(text)
}

fn pfselftest(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let test = SelfTest::new(&mut ctx.core.rng, ctx.core.config.hll_sparse_max_bytes)?;
    jobs::carry_out(ctx, test)
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn counts_and_merges() {
        let mut b = Bench::new(&[]);
        let c = b.client();
        assert_eq!(b.run(c, "PFADD p a b c d e f g"), "1");
        assert_eq!(b.run(c, "PFADD p a"), "0");
        assert_eq!(b.run(c, "PFCOUNT p"), "7");
        assert_eq!(
            b.run_raw(c, &[b"GET", b"p"]),
            b"$38\r\nHYLL\x01\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00Fm\x80V\x0c\x80D<\x848\x80P\xb1\x84I\x8c\x80Bm\x80BZ\r\n"
        );
        assert_eq!(b.run(c, "PFDEBUG DECODE p").split(' ').next(), Some("Z:1646"));
        assert_eq!(b.run(c, "PFMERGE q p nokey"), "OK");
        assert_eq!(b.run(c, "PFCOUNT q p"), "7");
        assert_eq!(b.run(c, "PFCOUNT none"), "0");
        assert_eq!(b.run(c, "PFADD new"), "1");
        assert_eq!(b.run(c, "PFADD new"), "0");
        assert_eq!(b.run(c, "PFDEBUG TODENSE q"), "1");
        assert_eq!(b.run(c, "PFDEBUG ENCODING q"), "dense");
        assert_eq!(b.run(c, "PFDEBUG DECODE q"), "-ERR HLL encoding is not sparse");
        assert_eq!(b.run(c, "PFADD q a z"), "1");
        assert_eq!(b.run(c, "PFCOUNT q"), "8");
        assert_eq!(b.run(c, "PFMERGE p q"), "OK");
        assert_eq!(b.run(c, "PFDEBUG ENCODING p"), "dense");
    }

    #[test]
    fn other_strings_are_refused() {
        let mut b = Bench::new(&[]);
        let c = b.client();
        b.run(c, "SET s v");
        b.run(c, "LPUSH l v");
        for line in ["PFADD s x", "PFCOUNT s", "PFMERGE new s", "PFDEBUG GETREG s"] {
            assert_eq!(b.run(c, line), "-WRONGTYPE Key is not a valid HyperLogLog string value.", "{line}");
        }
        assert_eq!(b.run(c, "PFADD l x"), "-WRONGTYPE Operation against a key holding the wrong kind of value");
        assert_eq!(b.run(c, "EXISTS new"), "0");
        b.run_raw(c, &[b"SET", b"bad", b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\0"]);
        assert_eq!(b.run(c, "PFCOUNT bad"), "-INVALIDOBJ Corrupted HLL object detected");
        assert_eq!(b.run(c, "PFMERGE new bad"), "-INVALIDOBJ Corrupted HLL object detected");
    }

    #[test]
    fn says_what_happened() {
        let mut b = Bench::new(&[("notify-keyspace-events", "E$")]);
        let (c, events) = (b.client(), b.client());
        b.run(events, "PSUBSCRIBE *");
        let mut check = |line: &str, expected: usize| {
            b.run(c, line);
            assert_eq!(b.read(events).matches("__keyevent@0__:pfadd").count(), expected, "{line}");
        };
        check("PFADD p a", 1);
        check("PFADD p a", 0);
        check("PFMERGE q p", 1);
        check("PFCOUNT q", 0);
    }
}
