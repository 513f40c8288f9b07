//! BITFIELD: integers of any width in a string.

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
        name: "bitfield",
        group: Group::Bitmap,
        since: "3.2.0",
        summary: "Performs arbitrary bitfield integer operations on strings.",
        complexity: "O(1) for each subcommand specified",
        arity: -2,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::BITMAP,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::UPDATE | key::VARIABLE_FLAGS, 1, 0, 1)
            .notes("This command allows both access and modification of the key")],
        args: &[
            Arg::key("key", 0),
            Arg::one_of(
                "operation",
                &[
                    Arg::block("get-block", &[Arg::string("encoding"), Arg::integer("offset")]).token("GET"),
                    Arg::block(
                        "write",
                        &[
                            Arg::one_of(
                                "overflow-block",
                                &[Arg::word("wrap", "WRAP"), Arg::word("sat", "SAT"), Arg::word("fail", "FAIL")],
                            )
                            .token("OVERFLOW")
                            .optional(),
                            Arg::one_of(
                                "write-operation",
                                &[
                                    Arg::block(
                                        "set-block",
                                        &[Arg::string("encoding"), Arg::integer("offset"), Arg::integer("value")],
                                    )
                                    .token("SET"),
                                    Arg::block(
                                        "incrby-block",
                                        &[Arg::string("encoding"), Arg::integer("offset"), Arg::integer("increment")],
                                    )
                                    .token("INCRBY"),
                                ],
                            ),
                        ],
                    ),
                ],
            )
            .optional()
            .multiple(),
        ],
        run: Some(bitfield),
        ..Command::DEFAULT
    },
    Command {
        name: "bitfield_ro",
        group: Group::Bitmap,
        since: "6.0.0",
        summary: "Performs arbitrary read-only bitfield integer operations on strings.",
        complexity: "O(1) for each subcommand specified",
        arity: -2,
        flags: flag::READONLY | flag::FAST,
        acl: acl::BITMAP,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::block("get-block", &[Arg::string("encoding"), Arg::integer("offset")])
                .token("GET")
                .optional()
                .multiple_token(),
        ],
        run: Some(bitfield_ro),
        ..Command::DEFAULT
    },
];

/// What happens when a value does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

/// An integer type: `i1` to `i64`, `u1` to `u63`.
#[derive(Clone, Copy, Debug)]
struct IntType {
    signed: bool,
    bits: u32,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Get,
    Set(i64),
    Increment(i64),
}

#[derive(Clone, Copy, Debug)]
struct Op {
    action: Action,
    kind: IntType,
    /// In bits.
    offset: u64,
    overflow: Overflow,
}

fn int_type(arg: &[u8]) -> Result<IntType, Error> {
    let invalid = Error::Fixed(
        "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
    );
    let (signed, most) = match arg.first() {
        Some(b'i') => (true, 64),
        Some(b'u') => (false, 63),
        _ => return Err(invalid),
    };
    let bits = parse_i64(&arg[1..]).filter(|n| (1..=most).contains(n)).ok_or(invalid)?;
    Ok(IntType { signed, bits: bits as u32 })
}

impl IntType {
    const fn min(self) -> i128 {
        if self.signed { -(1 << (self.bits - 1)) } else { 0 }
    }

    const fn max(self) -> i128 {
        if self.signed { (1 << (self.bits - 1)) - 1 } else { (1 << self.bits) - 1 }
    }

    /// The value that the low bits stand for.
    const fn value_of(self, raw: u64) -> i64 {
        let shift = 64 - self.bits;
        if self.signed { ((raw << shift) as i64) >> shift } else { ((raw << shift) >> shift) as i64 }
    }

    /// A value made to fit; None: it does not, and that is a failure.
    fn fit(self, value: i128, overflow: Overflow) -> Option<i64> {
        if (self.min()..=self.max()).contains(&value) {
            return Some(value as i64);
        }
        match overflow {
            Overflow::Fail => None,
            Overflow::Saturate => Some(if value > self.max() { self.max() } else { self.min() } as i64),
            Overflow::Wrap => Some(self.value_of(value as u64)),
        }
    }

    fn read(self, bytes: &[u8], offset: u64) -> i64 {
        let raw = (offset..offset + u64::from(self.bits)).fold(0u64, |raw, at| {
            let byte = bytes.get((at >> 3) as usize).copied().unwrap_or(0);
            raw << 1 | u64::from(byte >> (7 - (at & 7)) & 1)
        });
        self.value_of(raw)
    }

    fn write(self, bytes: &mut [u8], offset: u64, value: i64) {
        for i in 0..u64::from(self.bits) {
            let on = value as u64 >> (u64::from(self.bits) - 1 - i) & 1 == 1;
            let at = offset + i;
            let mask = 0x80 >> (at & 7);
            let byte = &mut bytes[(at >> 3) as usize];
            if on { *byte |= mask } else { *byte &= !mask }
        }
    }
}

fn parse(ctx: &Ctx<'_>, read_only: bool) -> Result<Vec<Op>, Error> {
    let mut ops = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut i = 2;
    while i < ctx.argc() {
        let left = ctx.argc() - i - 1;
        let (arguments, what) = match ctx.arg(i).to_ascii_lowercase().as_slice() {
            b"get" if left >= 2 => (2, 'g'),
            b"set" if left >= 3 => (3, 's'),
            b"incrby" if left >= 3 => (3, 'i'),
            b"overflow" if left >= 1 => {
                overflow = match ctx.arg(i + 1).to_ascii_lowercase().as_slice() {
                    b"wrap" => Overflow::Wrap,
                    b"sat" => Overflow::Saturate,
                    b"fail" => Overflow::Fail,
                    _ => return Err(Error::Fixed("ERR Invalid OVERFLOW type specified")),
                };
                i += 2;
                continue;
            }
            _ => return Err(Error::Syntax),
        };
        let kind = int_type(ctx.arg(i + 1))?;
        let offset = super::bitmaps::bit_offset(ctx, ctx.arg(i + 2), Some(kind.bits))?;
        let action = match what {
            'g' => Action::Get,
            _ if read_only => {
                ctx.int(i + 3)?;
                Action::Set(0)
            }
            's' => Action::Set(ctx.int(i + 3)?),
            _ => Action::Increment(ctx.int(i + 3)?),
        };
        ops.push(Op { action, kind, offset, overflow });
        i += 1 + arguments;
    }
    if read_only && ops.iter().any(|op| !matches!(op.action, Action::Get)) {
        return Err(Error::Fixed("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    Ok(ops)
}

fn bitfield(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let ops = parse(ctx, false)?;
    run(ctx, &ops)
}

fn bitfield_ro(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let ops = parse(ctx, true)?;
    run(ctx, &ops)
}

fn run(ctx: &mut Ctx<'_>, ops: &[Op]) -> Result<(), Error> {
    let key = ctx.args.get(1);
    let writes = ops.iter().filter(|op| !matches!(op.action, Action::Get));
    let end = writes.map(|op| ((op.offset + u64::from(op.kind.bits) - 1) >> 3) as usize + 1).max();
    let Some(end) = end else { return read_all(ctx, key, ops) };
    let core = &*ctx.core;
    let grows = ctx.keys.write(key).and_then(|item| item.as_str()).is_none_or(|text| text.len() < end);
    let results = ctx.keys.edit_string(
        key,
        end,
        |n| core.affordable(n),
        |bytes| ops.iter().map(|op| apply(bytes, op)).collect::<Vec<_>>(),
    )?;
    ctx.reply.array(results.len());
    for (r, _) in &results {
        match r {
            Some(n) => ctx.reply.int(*n),
            None => ctx.reply.null(),
        }
    }
    // A number that is so already is no change, unless the string grew.
    let wrote = |(op, (r, differs)): (&Op, &(Option<i64>, bool))| {
        !matches!(op.action, Action::Get) && r.is_some() && (grows || *differs)
    };
    let changed = ops.iter().zip(&results).filter(|each| wrote(*each)).count();
    if changed > 0 {
        ctx.keys.modified_by(key, changed);
        ctx.notify(event::STRING, "setbit", key);
    }
    Ok(())
}

fn read_all(ctx: &mut Ctx<'_>, key: &[u8], ops: &[Op]) -> Result<(), Error> {
    let mut buf = [0; I64_CHARS];
    let value = ctx.keys.string(key)?;
    let bytes = value.map_or(&[][..], |v| v.bytes(&mut buf));
    ctx.reply.array(ops.len());
    for op in ops {
        ctx.reply.int(op.kind.read(bytes, op.offset));
    }
    Ok(())
}

/// Carries one operation out: its result (None: it did not fit), and whether the number there is another one now.
fn apply(bytes: &mut [u8], op: &Op) -> (Option<i64>, bool) {
    let old = op.kind.read(bytes, op.offset);
    let result = apply_to(bytes, op, old);
    (result, op.kind.read(bytes, op.offset) != old)
}

fn apply_to(bytes: &mut [u8], op: &Op, old: i64) -> Option<i64> {
    match op.action {
        Action::Get => Some(old),
        Action::Set(value) => {
            // An unsigned type sees the argument's 64 bits as unsigned, as Redis does.
            let wide = if op.kind.signed { i128::from(value) } else { i128::from(value as u64) };
            // How far a signed type's greatest value is above this one is asked in 64 bits, in Redis: a distance beyond them
            // counts as too great a value.
            let far_below = op.kind.signed && op.kind.bits < 64 && (op.kind.max() as i64).wrapping_sub(value) < 0;
            let new = if far_below && wide <= op.kind.max() && matches!(op.overflow, Overflow::Saturate) {
                op.kind.max() as i64
            } else {
                op.kind.fit(wide, op.overflow)?
            };
            op.kind.write(bytes, op.offset, new);
            Some(old)
        }
        Action::Increment(by) => {
            let new = op.kind.fit(i128::from(old) + i128::from(by), op.overflow)?;
            op.kind.write(bytes, op.offset, new);
            Some(new)
        }
    }
}
