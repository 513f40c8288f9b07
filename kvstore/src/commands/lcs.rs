//! LCS: the longest common subsequence of two strings.

use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::keyspace::Keys;
use crate::number::I64_CHARS;
use alloc::vec::Vec;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[Command {
    name: "lcs",
    group: Group::String,
    since: "7.0.0",
    summary: "Finds the longest common substring.",
    complexity: "O(N*M) where N and M are the lengths of s1 and s2, respectively",
    arity: -3,
    flags: flag::READONLY,
    acl: acl::STRING,
    keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 1, 1)],
    args: &[
        Arg::key("key1", 0),
        Arg::key("key2", 0),
        Arg::word("len", "LEN").optional(),
        Arg::word("idx", "IDX").optional(),
        Arg::integer("min-match-len").token("MINMATCHLEN").optional(),
        Arg::word("withmatchlen", "WITHMATCHLEN").optional(),
    ],
    run: Some(lcs),
    ..Command::DEFAULT
}];

/// A stretch of equal bytes in both strings: inclusive positions, as the reply gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Match {
    a: (usize, usize),
    b: (usize, usize),
    len: usize,
}

fn lcs(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (mut want_len, mut want_idx, mut with_len, mut min_len) = (false, false, false, 0);
    let text = |keys: &mut Keys<'_>, key: &[u8]| -> Result<Vec<u8>, Error> {
        let mut buf = [0; I64_CHARS];
        let mut copy = Vec::new();
        keys.use_again();
        match keys.string(key) {
            Ok(None) => {}
            Ok(Some(value)) => {
                let bytes = value.bytes(&mut buf);
                copy.try_reserve_exact(bytes.len())?;
                copy.extend_from_slice(bytes);
            }
            Err(_) => return Err(Error::Fixed("ERR The specified keys must contain string values")),
        }
        Ok(copy)
    };
    // Both are looked up before either's type matters: each may be a miss to be told.
    let (a, b) = (text(&mut ctx.keys, ctx.args.get(1)), text(&mut ctx.keys, ctx.args.get(2)));
    let (a, b) = (a?, b?);
    let mut i = 3;
    while i < ctx.argc() {
        if ctx.args.is(i, "IDX") {
            want_idx = true;
        } else if ctx.args.is(i, "LEN") {
            want_len = true;
        } else if ctx.args.is(i, "WITHMATCHLEN") {
            with_len = true;
        } else if ctx.args.is(i, "MINMATCHLEN") && i + 1 < ctx.argc() {
            i += 1;
            min_len = ctx.int(i)?.max(0) as usize;
        } else {
            return Err(Error::Syntax);
        }
        i += 1;
    }
    if want_idx && want_len {
        return Err(Error::Fixed("ERR If you want both the length and indexes, please just use IDX."));
    }
    let table = Lengths::new(ctx, &a, &b)?;
    if want_len {
        ctx.reply.count(table.at(a.len(), b.len()));
        return Ok(());
    }
    let (common, matches) = trace(&table, &a, &b, want_idx, min_len);
    if !want_idx {
        ctx.reply.bulk(&common);
        return Ok(());
    }
    ctx.reply.map(2);
    ctx.reply.bulk(b"matches");
    ctx.reply.array(matches.len());
    for m in &matches {
        ctx.reply.array(if with_len { 3 } else { 2 });
        for (from, to) in [m.a, m.b] {
            ctx.reply.array(2);
            ctx.reply.count(from);
            ctx.reply.count(to);
        }
        if with_len {
            ctx.reply.count(m.len);
        }
    }
    ctx.reply.bulk(b"len");
    ctx.reply.count(table.at(a.len(), b.len()));
    Ok(())
}

/// Length of the longest common subsequence for every pair of beginnings.
struct Lengths {
    cells: Vec<u32>,
    width: usize,
}

impl Lengths {
    fn new(ctx: &Ctx<'_>, a: &[u8], b: &[u8]) -> Result<Self, Error> {
        let too_long = || Error::Fixed("ERR String too long for LCS");
        let too_much = || Error::Fixed("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
        if a.len() >= u32::MAX as usize - 1 || b.len() >= u32::MAX as usize - 1 {
            return Err(too_long());
        }
        let width = b.len() + 1;
        let n = (a.len() + 1).checked_mul(width).ok_or_else(too_long)?;
        let bytes = n.checked_mul(4).ok_or_else(too_long)?;
        if bytes as u64 > ctx.core.config.proto_max_bulk_len as u64 {
            return Err(too_much());
        }
        if !ctx.affordable(bytes) {
            return Err(Error::Fixed("ERR Insufficient memory, failed allocating transient memory for LCS"));
        }
        let mut cells = Vec::new();
        cells.try_reserve_exact(n)?;
        cells.resize(n, 0);
        let mut table = Self { cells, width };
        for (i, x) in a.iter().enumerate() {
            for (j, y) in b.iter().enumerate() {
                let len = if x == y { table.at(i, j) + 1 } else { table.at(i, j + 1).max(table.at(i + 1, j)) };
                table.cells[(i + 1) * width + j + 1] = len as u32;
            }
        }
        Ok(table)
    }

    fn at(&self, i: usize, j: usize) -> usize {
        self.cells[i * self.width + j] as usize
    }
}

/// Walks back through the table as Redis does: the subsequence, and the matches from the last to the first.
fn trace(table: &Lengths, a: &[u8], b: &[u8], want_idx: bool, min_len: usize) -> (Vec<u8>, Vec<Match>) {
    let (mut i, mut j) = (a.len(), b.len());
    let mut left = table.at(i, j);
    let mut common = alloc::vec![0; left];
    let mut matches = Vec::new();
    // The present stretch; its first positions move towards the beginning.
    let mut open: Option<Match> = None;
    while i > 0 && j > 0 {
        let mut emit = false;
        if a[i - 1] == b[j - 1] {
            left -= 1;
            common[left] = a[i - 1];
            match &mut open {
                None => open = Some(Match { a: (i - 1, i - 1), b: (j - 1, j - 1), len: 1 }),
                Some(m) if m.a.0 == i && m.b.0 == j => {
                    (m.a.0, m.b.0) = (i - 1, j - 1);
                    m.len += 1;
                }
                Some(_) => emit = true,
            }
            if (i - 1 == 0 || j - 1 == 0) && !emit {
                emit = true;
            } else if emit {
                // A stretch ends and another begins here.
                push_match(&mut matches, &mut open, want_idx, min_len);
                open = Some(Match { a: (i - 1, i - 1), b: (j - 1, j - 1), len: 1 });
                emit = i - 1 == 0 || j - 1 == 0;
            }
            (i, j) = (i - 1, j - 1);
        } else {
            if table.at(i - 1, j) > table.at(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
            emit = open.is_some();
        }
        if emit {
            push_match(&mut matches, &mut open, want_idx, min_len);
        }
    }
    (common, matches)
}

fn push_match(matches: &mut Vec<Match>, open: &mut Option<Match>, want_idx: bool, min_len: usize) {
    if let Some(m) = open.take()
        && want_idx
        && (min_len == 0 || m.len >= min_len)
    {
        matches.push(m);
    }
}
