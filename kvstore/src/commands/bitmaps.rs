//! Commands on strings as arrays of bits.

use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::keyspace::event;
use crate::number::{I64_CHARS, parse_i64};
use crate::value::ItemExt;
use alloc::vec::Vec;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "bitcount",
        group: Group::Bitmap,
        since: "2.6.0",
        summary: "Counts the number of set bits (population counting) in a string.",
        complexity: "O(N)",
        arity: -2,
        flags: flag::READONLY,
        acl: acl::BITMAP,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::block(
                "range",
                &[
                    Arg::integer("start"),
                    Arg::integer("end"),
                    Arg::one_of("unit", &[Arg::word("byte", "BYTE"), Arg::word("bit", "BIT")])
                        .since("7.0.0")
                        .optional(),
                ],
            )
            .optional(),
        ],
        history: &[("7.0.0", "Added the `BYTE|BIT` option.")],
        run: Some(bitcount),
        ..Command::DEFAULT
    },
    Command {
        name: "bitop",
        group: Group::Bitmap,
        since: "2.6.0",
        summary: "Performs bitwise operations on multiple strings, and stores the result.",
        complexity: "O(N)",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::BITMAP,
        keys: &[KeySpec::range(key::OW | key::UPDATE, 2, 0, 1), KeySpec::range(key::RO | key::ACCESS, 3, -1, 1)],
        args: &[
            Arg::one_of(
                "operation",
                &[Arg::word("and", "AND"), Arg::word("or", "OR"), Arg::word("xor", "XOR"), Arg::word("not", "NOT")],
            ),
            Arg::key("destkey", 0),
            Arg::key("key", 1).multiple(),
        ],
        run: Some(bitop),
        ..Command::DEFAULT
    },
    Command {
        name: "bitpos",
        group: Group::Bitmap,
        since: "2.8.7",
        summary: "Finds the first set (1) or clear (0) bit in a string.",
        complexity: "O(N)",
        arity: -3,
        flags: flag::READONLY,
        acl: acl::BITMAP,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::integer("bit"),
            Arg::block(
                "range",
                &[
                    Arg::integer("start"),
                    Arg::block(
                        "end-unit-block",
                        &[
                            Arg::integer("end"),
                            Arg::one_of("unit", &[Arg::word("byte", "BYTE"), Arg::word("bit", "BIT")])
                                .since("7.0.0")
                                .optional(),
                        ],
                    )
                    .optional(),
                ],
            )
            .optional(),
        ],
        history: &[("7.0.0", "Added the `BYTE|BIT` option.")],
        run: Some(bitpos),
        ..Command::DEFAULT
    },
    Command {
        name: "getbit",
        group: Group::Bitmap,
        since: "2.2.0",
        summary: "Returns a bit value by offset.",
        complexity: "O(1)",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        acl: acl::BITMAP,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("offset")],
        run: Some(getbit),
        ..Command::DEFAULT
    },
    Command {
        name: "setbit",
        group: Group::Bitmap,
        since: "2.2.0",
        summary: "Sets or clears the bit at offset of the string value. Creates the key if it doesn't exist.",
        complexity: "O(1)",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::BITMAP,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("offset"), Arg::integer("value")],
        run: Some(setbit),
        ..Command::DEFAULT
    },
];

/// Highest bit offset: strings hold at most 512 MiB unless `proto-max-bulk-len` says otherwise.
pub(super) fn bit_offset(ctx: &Ctx<'_>, arg: &[u8], width: Option<u32>) -> Result<u64, Error> {
    let wrong = Error::Fixed("ERR bit offset is not an integer or out of range");
    let (arg, factor) = match (arg, width) {
        ([b'#', rest @ ..], Some(width)) => (rest, i64::from(width)),
        _ => (arg, 1),
    };
    let n = parse_i64(arg).filter(|n| *n >= 0).and_then(|n| n.checked_mul(factor)).ok_or(wrong.clone())?;
    if n as u64 >> 3 >= ctx.core.config.proto_max_bulk_len as u64 {
        return Err(wrong);
    }
    Ok(n as u64)
}

/// The bit at an offset; bit 0 is the first byte's most significant.
fn bit_of(bytes: &[u8], offset: u64) -> u8 {
    let byte = bytes.get((offset >> 3) as usize).copied().unwrap_or(0);
    byte >> (7 - (offset & 7)) & 1
}

fn setbit(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let key = ctx.args.get(1);
    let offset = bit_offset(ctx, ctx.arg(2), None)?;
    let on = match parse_i64(ctx.arg(3)) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(Error::Fixed("ERR bit is not an integer or out of range")),
    };
    let byte = (offset >> 3) as usize;
    let core = &*ctx.core;
    let grows = ctx.keys.write(key).and_then(|item| item.as_str()).is_none_or(|text| text.len() <= byte);
    let old = ctx.keys.edit_string(
        key,
        byte + 1,
        |n| core.affordable(n),
        |bytes| {
            let old = bit_of(bytes, offset);
            let mask = 0x80 >> (offset & 7);
            if on {
                bytes[byte] |= mask
            } else {
                bytes[byte] &= !mask
            }
            old
        },
    )?;
    // A bit that is so already is no change, unless the string grew.
    if grows || old != u8::from(on) {
        ctx.modified(key);
        ctx.notify(event::STRING, "setbit", key);
    }
    ctx.reply.int(i64::from(old));
    Ok(())
}

fn getbit(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let offset = bit_offset(ctx, ctx.arg(2), None)?;
    let mut buf = [0; I64_CHARS];
    let bit = ctx.keys.string(ctx.args.get(1))?.map_or(0, |v| bit_of(v.bytes(&mut buf), offset));
    ctx.reply.int(i64::from(bit));
    Ok(())
}

/// Ones in the bits `from..to`.
fn count(bytes: &[u8], from: u64, to: u64) -> u64 {
    let ones = |b: &[u8]| {
        let (words, rest) = b.as_chunks::<8>();
        let whole: u32 = words.iter().map(|w| u64::from_ne_bytes(*w).count_ones()).sum();
        u64::from(whole) + rest.iter().map(|b| u64::from(b.count_ones())).sum::<u64>()
    };
    let (first, last) = ((from >> 3) as usize, ((to - 1) >> 3) as usize);
    let head = 0xffu8 >> (from & 7);
    let tail = 0xffu8 << (7 - ((to - 1) & 7));
    if first == last {
        return u64::from((bytes[first] & head & tail).count_ones());
    }
    u64::from((bytes[first] & head).count_ones())
        + ones(&bytes[first + 1..last])
        + u64::from((bytes[last] & tail).count_ones())
}

/// The unit argument of BITCOUNT and BITPOS: whether it is BIT.
fn unit(ctx: &Ctx<'_>, index: usize) -> Result<bool, Error> {
    if ctx.argc() <= index || ctx.args.is(index, "BYTE") {
        return Ok(false);
    }
    if ctx.args.is(index, "BIT") { Ok(true) } else { Err(Error::Syntax) }
}

/// An inclusive range in bytes or bits as the bits `from..to` of `len` bytes; None if it is empty.
fn bit_range(len: usize, start: i64, end: i64, bits: bool) -> Option<(u64, u64)> {
    let total = if bits { len * 8 } else { len };
    let r = super::strings::range_within(total, start, end)?;
    let scale = if bits { 1 } else { 8 };
    Some((r.start as u64 * scale, r.end as u64 * scale))
}

/// BITPOS's range: like [`bit_range`], but two negative numbers in the wrong order are clamped first, as Redis does.
fn search_range(len: usize, start: i64, end: i64, bits: bool) -> Option<(u64, u64)> {
    let clamp = |at: i64, total: i64| if at < 0 { (total + at).max(0) } else { at };
    let total = if bits { len as i64 * 8 } else { len as i64 };
    bit_range(len, clamp(start, total), clamp(end, total), bits)
}

fn bitcount(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let given = match ctx.argc() {
        2 => None,
        4 | 5 => Some(()),
        _ => {
            // A missing key is told before bad arguments are.
            if ctx.keys.string(ctx.args.get(1))?.is_none() {
                ctx.reply.int(0);
                return Ok(());
            }
            return Err(Error::Syntax);
        }
    };
    let mut buf = [0; I64_CHARS];
    let (start, end, bits) = match given {
        None => (0, -1, false),
        Some(()) => {
            if ctx.keys.string(ctx.args.get(1))?.is_none() {
                ctx.reply.int(0);
                return Ok(());
            }
            let (start, end) = (ctx.int(2)?, ctx.int(3)?);
            // Nothing is counted here, whatever the unit is said to be.
            if start < 0 && end < 0 && start > end {
                ctx.reply.int(0);
                return Ok(());
            }
            (start, end, unit(ctx, 4)?)
        }
    };
    let Some(value) = ctx.keys.string(ctx.args.get(1))? else {
        ctx.reply.int(0);
        return Ok(());
    };
    let bytes = value.bytes(&mut buf);
    let n = bit_range(bytes.len(), start, end, bits).map_or(0, |(from, to)| count(bytes, from, to));
    ctx.reply.int(n as i64);
    Ok(())
}

/// First bit in `from..to` that is `on`.
fn position(bytes: &[u8], on: bool, from: u64, to: u64) -> Option<u64> {
    let skip = if on { 0 } else { 0xff };
    let mut at = from;
    while at < to {
        if at & 7 == 0 {
            // Bytes without such a bit are passed over at once.
            let rest = &bytes[(at >> 3) as usize..];
            let n = rest.iter().take_while(|b| **b == skip).count() as u64;
            at += n * 8;
            if at >= to {
                return None;
            }
        }
        if (bit_of(bytes, at) == 1) == on {
            return Some(at);
        }
        at += 1;
    }
    None
}

fn bitpos(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let on = match ctx.int(2)? {
        0 => false,
        1 => true,
        _ => return Err(Error::Fixed("ERR The bit argument must be 1 or 0.")),
    };
    let mut buf = [0; I64_CHARS];
    if ctx.keys.string(ctx.args.get(1))?.is_none() {
        ctx.reply.int(if on { -1 } else { 0 });
        return Ok(());
    }
    if ctx.argc() > 6 {
        return Err(Error::Syntax);
    }
    let start = if ctx.argc() >= 4 { ctx.int(3)? } else { 0 };
    let bits = unit(ctx, 5)?;
    let end_given = ctx.argc() >= 5;
    let end = if end_given { ctx.int(4)? } else { -1 };
    let Some(value) = ctx.keys.string_for_write(ctx.args.get(1))? else { return Ok(()) };
    let bytes = value.bytes(&mut buf);
    let found = match search_range(bytes.len(), start, end, bits) {
        None => -1,
        Some((from, to)) => match position(bytes, on, from, to) {
            Some(at) => at as i64,
            // Behind the string there are zeros, unless an end was given.
            None if !on && !end_given => bytes.len() as i64 * 8,
            None => -1,
        },
    };
    ctx.reply.int(found);
    Ok(())
}

fn bitop(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let op: fn(u8, u8) -> u8 = match ctx.arg(1).to_ascii_lowercase().as_slice() {
        b"and" => |a, b| a & b,
        b"or" => |a, b| a | b,
        b"xor" => |a, b| a ^ b,
        b"not" if ctx.argc() == 4 => |a, _| !a,
        b"not" => return Err(Error::Fixed("ERR BITOP NOT must be called with a single source key.")),
        _ => return Err(Error::Syntax),
    };
    let not = ctx.args.is(1, "not");
    let key = ctx.args.get(2);
    let mut buf = [0; I64_CHARS];
    let mut len = 0;
    for source in ctx.args.iter_from(3) {
        ctx.keys.use_again();
        len = len.max(ctx.keys.string(source)?.map_or(0, |v| v.len()));
    }
    if len == 0 {
        if ctx.keys.remove(key) {
            ctx.modified(key);
            ctx.notify(event::GENERIC, "del", key);
        }
        ctx.reply.int(0);
        return Ok(());
    }
    if !ctx.affordable(len) {
        return Err(Error::OutOfMemory);
    }
    let mut result = Vec::new();
    result.try_reserve_exact(len)?;
    // They were looked up before.
    let touch = core::mem::replace(&mut ctx.keys.touch, false);
    for (i, source) in ctx.args.iter_from(3).enumerate() {
        let value = ctx.keys.string_for_write(source)?;
        let bytes = value.map_or(&[][..], |v| v.bytes(&mut buf));
        if i == 0 {
            result.extend_from_slice(bytes);
            result.resize(len, 0);
            if not {
                result.iter_mut().for_each(|b| *b = op(*b, 0));
            }
        } else {
            let (with, beyond) = result.split_at_mut(bytes.len());
            with.iter_mut().zip(bytes).for_each(|(a, b)| *a = op(*a, *b));
            beyond.iter_mut().for_each(|a| *a = op(*a, 0));
        }
    }
    ctx.keys.touch = touch;
    ctx.keys.use_again();
    ctx.keys.set_string_raw(key, result)?;
    ctx.modified(key);
    ctx.notify(event::STRING, "set", key);
    ctx.reply.count(len);
    Ok(())
}
