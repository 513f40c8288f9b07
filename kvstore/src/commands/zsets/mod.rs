//! Sorted-set commands: members, scores and ranks here; [`ranges`], [`algebra`] and [`pops`] beside.

pub mod algebra;
pub mod pops;
pub mod ranges;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use super::collection::{SCAN_ARGS, ScanOptions, scan_cursor, scan_reply};
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;
use crate::keyspace::event;
use crate::number::{F64_CHARS, I64_CHARS, format_f64, format_g17};
use crate::types::zset::{Member, ZSetMut, ZSetRef, for_members};
use crate::value::{Item, ItemExt};

/// The commands of this file.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "zadd",
        group: Group::SortedSet,
        since: "1.2.0",
        summary: "Adds one or more members to a sorted set, or updates their scores. Creates the key if it doesn't exist.",
        complexity: "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RW | key::UPDATE, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")]).since("3.0.2").optional(),
            Arg::one_of("comparison", &[Arg::word("gt", "GT"), Arg::word("lt", "LT")]).since("6.2.0").optional(),
            Arg::word("change", "CH").since("3.0.2").optional(),
            Arg::word("increment", "INCR").since("3.0.2").optional(),
            Arg::block("data", &[Arg::double("score"), Arg::string("member")]).multiple(),
        ],
        history: &[
            ("2.4.0", "Accepts multiple elements."),
            ("3.0.2", "Added the `XX`, `NX`, `CH` and `INCR` options."),
            ("6.2.0", "Added the `GT` and `LT` options."),
        ],
        run: Some(zadd),
        ..Command::DEFAULT
    },
    Command {
        name: "zcard",
        group: Group::SortedSet,
        since: "1.2.0",
        summary: "Returns the number of members in a sorted set.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RO, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        run: Some(zcard),
        ..Command::DEFAULT
    },
    Command {
        name: "zincrby",
        group: Group::SortedSet,
        since: "1.2.0",
        summary: "Increments the score of a member in a sorted set.",
        complexity: "O(log(N)) where N is the number of elements in the sorted set.",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("increment"), Arg::string("member")],
        run: Some(zincrby),
        ..Command::DEFAULT
    },
    Command {
        name: "zmscore",
        group: Group::SortedSet,
        since: "6.2.0",
        summary: "Returns the score of one or more members in a sorted set.",
        complexity: "O(N) where N is the number of members being requested.",
        arity: -3,
        flags: flag::READONLY | flag::FAST,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("member").multiple()],
        run: Some(zmscore),
        ..Command::DEFAULT
    },
    Command {
        name: "zrandmember",
        group: Group::SortedSet,
        since: "6.2.0",
        summary: "Returns one or more random members from a sorted set.",
        complexity: "O(N) where N is the number of members returned",
        arity: -2,
        flags: flag::READONLY,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::block("options", &[Arg::integer("count"), Arg::word("withscores", "WITHSCORES").optional()])
                .optional(),
        ],
        tips: &["nondeterministic_output"],
        run: Some(zrandmember),
        ..Command::DEFAULT
    },
    Command {
        name: "zrank",
        group: Group::SortedSet,
        since: "2.0.0",
        summary: "Returns the index of a member in a sorted set ordered by ascending scores.",
        complexity: "O(log(N))",
        arity: -3,
        flags: flag::READONLY | flag::FAST,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("member"), Arg::word("withscore", "WITHSCORE").optional()],
        history: &[("7.2.0", "Added the optional `WITHSCORE` argument.")],
        run: Some(zrank),
        ..Command::DEFAULT
    },
    Command {
        name: "zrem",
        group: Group::SortedSet,
        since: "1.2.0",
        summary: "Removes one or more members from a sorted set. Deletes the sorted set if all members were removed.",
        complexity: "O(M*log(N)) with N being the number of elements in the sorted set and M the number of elements to be removed.",
        arity: -3,
        flags: flag::WRITE | flag::FAST,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RW | key::DELETE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("member").multiple()],
        history: &[("2.4.0", "Accepts multiple elements.")],
        run: Some(zrem),
        ..Command::DEFAULT
    },
    Command {
        name: "zrevrank",
        group: Group::SortedSet,
        since: "2.0.0",
        summary: "Returns the index of a member in a sorted set ordered by descending scores.",
        complexity: "O(log(N))",
        arity: -3,
        flags: flag::READONLY | flag::FAST,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("member"), Arg::word("withscore", "WITHSCORE").optional()],
        history: &[("7.2.0", "Added the optional `WITHSCORE` argument.")],
        run: Some(zrevrank),
        ..Command::DEFAULT
    },
    Command {
        name: "zscan",
        group: Group::SortedSet,
        since: "2.8.0",
        summary: "Iterates over members and scores of a sorted set.",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
        arity: -3,
        flags: flag::READONLY,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: SCAN_ARGS,
        tips: &["nondeterministic_output"],
        run: Some(zscan),
        ..Command::DEFAULT
    },
    Command {
        name: "zscore",
        group: Group::SortedSet,
        since: "1.2.0",
        summary: "Returns the score of a member in a sorted set.",
        complexity: "O(1)",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("member")],
        run: Some(zscore),
        ..Command::DEFAULT
    },
];

/// Writes an element: a member, and its score if wanted. With scores, RESP3 has a pair for each.
fn write_element(reply: &mut crate::reply::Reply<'_>, member: Member<'_>, score: f64, with_scores: bool) {
    if with_scores && reply.resp3 {
        reply.array(2);
    }
    reply.bulk(member.bytes(&mut [0; I64_CHARS]));
    if with_scores {
        reply.double(score);
    }
}

/// Header of a reply of `n` elements.
fn write_header(reply: &mut crate::reply::Reply<'_>, n: usize, with_scores: bool) {
    reply.array(if with_scores && !reply.resp3 { n * 2 } else { n });
}

/// Puts a result at a key in place of whatever was there, or removes the key if the result is empty; answers its size.
pub(super) fn store(ctx: &mut Ctx<'_>, key: &[u8], result: Item, event_name: &'static str) -> Result<(), Error> {
    let n = result.elements();
    if n > 0 {
        ctx.keys.use_again();
        ctx.keys.put(key, result)?;
        ctx.modified(key);
        ctx.notify(event::ZSET, event_name, key);
    } else if ctx.keys.remove(key) {
        ctx.modified(key);
        ctx.notify(event::GENERIC, "del", key);
    }
    ctx.reply.count(n);
    Ok(())
}

/// Options of ZADD.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AddOptions {
    /// Only new members.
    pub nx: bool,
    /// Only members that are there.
    pub xx: bool,
    /// Only greater scores.
    pub gt: bool,
    /// Only less scores.
    pub lt: bool,
    /// Changed members are counted, not only new ones.
    pub ch: bool,
    /// The score is added to the old one.
    pub incr: bool,
}

/// What became of one element.
enum Outcome {
    Added(f64),
    Updated(f64),
    /// The score was the same already.
    Same(f64),
    /// The options forbid it.
    Skipped,
}

impl AddOptions {
    fn apply(
        self,
        set: &mut ZSetMut<'_>,
        member: &[u8],
        score: f64,
        limits: &crate::types::zset::ZSetLimits,
    ) -> Result<Outcome, Error> {
        let Some(old) = set.view().score(member) else {
            if self.xx {
                return Ok(Outcome::Skipped);
            }
            set.insert(member, score, limits)?;
            return Ok(Outcome::Added(score));
        };
        if self.nx {
            return Ok(Outcome::Skipped);
        }
        let score = if self.incr { score + old } else { score };
        if score.is_nan() {
            return Err(Error::Fixed("ERR resulting score is not a number (NaN)"));
        }
        if (self.lt && score >= old) || (self.gt && score <= old) {
            return Ok(Outcome::Skipped);
        }
        if score == old {
            return Ok(Outcome::Same(score));
        }
        set.insert(member, score, limits)?;
        Ok(Outcome::Updated(score))
    }
}

fn zadd(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    add(ctx, AddOptions::default())
}

fn zincrby(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    add(ctx, AddOptions { incr: true, ..AddOptions::default() })
}

fn add(ctx: &mut Ctx<'_>, mut options: AddOptions) -> Result<(), Error> {
    let args = ctx.args;
    let mut first = 2;
    while first < args.len() {
        match args.get(first) {
            o if o.eq_ignore_ascii_case(b"nx") => options.nx = true,
            o if o.eq_ignore_ascii_case(b"xx") => options.xx = true,
            o if o.eq_ignore_ascii_case(b"ch") => options.ch = true,
            o if o.eq_ignore_ascii_case(b"incr") => options.incr = true,
            o if o.eq_ignore_ascii_case(b"gt") => options.gt = true,
            o if o.eq_ignore_ascii_case(b"lt") => options.lt = true,
            _ => break,
        }
        first += 1;
    }
    let elements = (args.len() - first) / 2;
    if elements == 0 || !(args.len() - first).is_multiple_of(2) {
        return Err(Error::Syntax);
    }
    if options.nx && options.xx {
        return Err(Error::Fixed("ERR XX and NX options at the same time are not compatible"));
    }
    if u8::from(options.gt) + u8::from(options.lt) + u8::from(options.nx) > 1 {
        return Err(Error::Fixed("ERR GT, LT, and/or NX options at the same time are not compatible"));
    }
    if options.incr && elements > 1 {
        return Err(Error::Fixed("ERR INCR option supports a single increment-element pair"));
    }
    // All scores are read before anything is changed. One (nearly all calls) needs no list.
    let mut scores = Vec::new();
    if elements > 1 {
        scores.try_reserve_exact(elements)?;
    }
    let mut only = 0.0;
    for i in 0..elements {
        only = ctx.double(first + 2 * i)?;
        if elements > 1 {
            scores.push(only);
        }
    }
    add_elements(ctx, options, elements, |i| (scores.get(i).copied().unwrap_or(only), args.get(first + 2 * i + 1)))
}

/// Adds elements (score, member) to the set at the command's first key, and answers as ZADD does.
pub(super) fn add_elements<'a>(
    ctx: &mut Ctx<'_>,
    options: AddOptions,
    elements: usize,
    element: impl Fn(usize) -> (f64, &'a [u8]),
) -> Result<(), Error> {
    let longest = (0..elements).map(|i| element(i).1.len()).max().unwrap_or(0);
    let key = ctx.arg(1);
    let limits = ctx.core.config.zset;
    let (mut added, mut updated, mut last) = (0, 0, None);
    let mut result = Ok(());
    if ctx.keys.zset_mut(key)?.is_some() || !options.xx {
        let mut set = ctx.keys.zset_or_new(key, |key| for_members(key, &limits, elements, longest))?;
        set.prepare(elements, longest, &limits)?;
        for i in 0..elements {
            let (score, member) = element(i);
            match options.apply(&mut set, member, score, &limits) {
                Ok(outcome) => {
                    last = match outcome {
                        Outcome::Added(score) => {
                            added += 1;
                            Some(score)
                        }
                        Outcome::Updated(score) => {
                            updated += 1;
                            Some(score)
                        }
                        Outcome::Same(score) => Some(score),
                        Outcome::Skipped => last,
                    }
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if added + updated > 0 {
            ctx.keys.modified_by(key, added + updated);
            ctx.notify(event::ZSET, if options.incr { "zincr" } else { "zadd" }, key);
        } else {
            // Memory ran out before the first element was in.
            ctx.keys.remove_if_empty(key);
        }
    }
    result?;
    match (options.incr, last) {
        (true, Some(score)) => ctx.reply.double(score),
        (true, None) => ctx.reply.null(),
        (false, _) => ctx.reply.count(if options.ch { added + updated } else { added }),
    }
    Ok(())
}

fn zrem(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let key = ctx.arg(1);
    let mut removed = 0;
    if let Some(mut set) = ctx.keys.zset_mut(key)? {
        for member in ctx.args.iter_from(2) {
            removed += usize::from(set.remove(member).is_some());
            if set.view().is_empty() {
                break;
            }
        }
    }
    removed_some(ctx, key, removed, "zrem");
    ctx.reply.count(removed);
    Ok(())
}

/// Says that elements were removed from a key, which goes if none is left.
fn removed_some(ctx: &mut Ctx<'_>, key: &[u8], removed: usize, event_name: &'static str) {
    if removed > 0 {
        ctx.notify(event::ZSET, event_name, key);
        ctx.keys.remove_if_empty(key);
        ctx.keys.modified_by(key, removed);
    }
}

fn zcard(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let n = ctx.keys.zset(ctx.args.get(1))?.map_or(0, ZSetRef::len);
    ctx.reply.count(n);
    Ok(())
}

fn zscore(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    match ctx.keys.zset(ctx.args.get(1))?.and_then(|set| set.score(ctx.args.get(2))) {
        Some(score) => ctx.reply.double(score),
        None => ctx.reply.null(),
    }
    Ok(())
}

fn zmscore(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let set = ctx.keys.zset(ctx.args.get(1))?;
    ctx.reply.array(ctx.args.len() - 2);
    for member in ctx.args.iter_from(2) {
        match set.and_then(|set| set.score(member)) {
            Some(score) => ctx.reply.double(score),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

fn zrank(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    rank(ctx, false)
}

fn zrevrank(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    rank(ctx, true)
}

fn rank(ctx: &mut Ctx<'_>, reverse: bool) -> Result<(), Error> {
    let args = ctx.args;
    if args.len() > 4 {
        return Err(error_text!("ERR wrong number of arguments for '{}' command", ctx.command.name));
    }
    let with_score = args.len() == 4;
    if with_score && !args.is(3, "withscore") {
        return Err(Error::Syntax);
    }
    let found = match ctx.keys.zset(args.get(1))? {
        Some(set) => {
            set.rank(args.get(2)).map(|(rank, score)| (if reverse { set.len() - 1 - rank } else { rank }, score))
        }
        None => None,
    };
    match (found, with_score) {
        (Some((rank, score)), true) => {
            ctx.reply.array(2);
            ctx.reply.count(rank);
            ctx.reply.double(score);
        }
        (Some((rank, _)), false) => ctx.reply.count(rank),
        (None, true) => ctx.reply.null_array(),
        (None, false) => ctx.reply.null(),
    }
    Ok(())
}

fn zrandmember(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let args = ctx.args;
    if args.len() == 2 {
        match ctx.keys.zset(args.get(1))? {
            None => ctx.reply.null(),
            Some(set) => {
                if let Some((member, _)) = set.get(ctx.core.rng.below(set.len())) {
                    ctx.reply.bulk(member.bytes(&mut [0; I64_CHARS]));
                }
            }
        }
        return Ok(());
    }
    let count = ctx.int_in(2, -i64::MAX, i64::MAX)?;
    if args.len() > 4 || (args.len() == 4 && !args.is(3, "withscores")) {
        return Err(Error::Syntax);
    }
    let with_scores = args.len() == 4;
    if with_scores && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err(Error::Fixed("ERR value is out of range"));
    }
    let hashing = ctx.keys.space.hashing();
    let Some(set) = ctx.keys.zset(args.get(1))? else {
        ctx.reply.array(0);
        return Ok(());
    };
    let len = set.len();
    let wanted = count.unsigned_abs() as usize;
    if count < 0 || wanted == 1 {
        write_header(&mut ctx.reply, wanted, with_scores);
        for _ in 0..wanted {
            let Some((member, score)) = set.get(ctx.core.rng.below(len)) else { break };
            write_element(&mut ctx.reply, member, score, with_scores);
            // What cannot be sent need not be written.
            if ctx.reply.out.overflowed() {
                break;
            }
        }
        return Ok(());
    }
    let n = wanted.min(len);
    write_header(&mut ctx.reply, n, with_scores);
    if n == len {
        // In Redis's order.
        for (member, score) in set.iter(0..len, true) {
            write_element(&mut ctx.reply, member, score, with_scores);
        }
        return Ok(());
    }
    // A walk over the ranks that takes each with the chance that leaves exactly the number still wanted (Knuth's algorithm S)
    // costs as much as the set is long; for few out of many, drawing distinct ranks is cheaper.
    if n * 8 > len {
        let mut left = n;
        for (rank, (member, score)) in set.iter(0..len, false).enumerate() {
            if ctx.core.rng.below(len - rank) < left {
                left -= 1;
                write_element(&mut ctx.reply, member, score, with_scores);
            }
        }
    } else {
        let mut seen = hashbrown::HashSet::with_hasher(crate::keyspace::MapHashing(hashing));
        seen.try_reserve(n).map_err(|_| Error::OutOfMemory)?;
        while seen.len() < n {
            let rank = ctx.core.rng.below(len);
            if seen.insert(rank)
                && let Some((member, score)) = set.get(rank)
            {
                write_element(&mut ctx.reply, member, score, with_scores);
            }
        }
    }
    Ok(())
}

fn zscan(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let args = ctx.args;
    let cursor = scan_cursor(args.get(2))?;
    let Some(set) = ctx.keys.zset(args.get(1))? else {
        scan_reply(&mut ctx.reply, |_| (0, 0));
        return Ok(());
    };
    let options = ScanOptions::parse(args, 3)?;
    // Large sets' scores have seventeen digits here, as in Redis; a listpack's are as they are stored.
    let large = set.as_listpack().is_none();
    scan_reply(&mut ctx.reply, |reply| {
        let mut n = 0;
        let cursor = set.scan(cursor, options.count, |member, score| {
            if options.matches(member) {
                n += 2;
                reply.bulk(member.bytes(&mut [0; I64_CHARS]));
                let mut buf = [0; F64_CHARS];
                reply.bulk(if large { format_g17(&mut buf, score) } else { format_f64(&mut buf, score) });
            }
        });
        (cursor, n)
    });
    Ok(())
}
