//! Ranges of sorted sets: by rank, by score and by member; read, counted, stored or removed.

use core::ops::Range;

use super::{removed_some, store, write_element, write_header};
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::commands::collection;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::number::I64_CHARS;
use crate::types::zset::{LexRange, ScoreRange, ZSetMut, ZSetRef, for_members};

/// Which elements of a range are meant.
const LIMIT: Arg = Arg::block("limit", &[Arg::integer("offset"), Arg::integer("count")]).token("LIMIT").optional();

/// The commands of this file.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "zcount",
        group: Group::SortedSet,
        since: "2.0.0",
        summary: "Returns the count of members in a sorted set that have scores within a range.",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        arity: 4,
        flags: flag::READONLY | flag::FAST,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::double("min"), Arg::double("max")],
        run: Some(zcount),
        ..Command::DEFAULT
    },
    Command {
        name: "zlexcount",
        group: Group::SortedSet,
        since: "2.8.9",
        summary: "Returns the number of members in a sorted set within a lexicographical range.",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        arity: 4,
        flags: flag::READONLY | flag::FAST,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("min"), Arg::string("max")],
        run: Some(zlexcount),
        ..Command::DEFAULT
    },
    Command {
        name: "zrange",
        group: Group::SortedSet,
        since: "1.2.0",
        summary: "Returns members in a sorted set within a range of indexes.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements returned.",
        arity: -4,
        flags: flag::READONLY,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::string("start"),
            Arg::string("stop"),
            Arg::one_of("sortby", &[Arg::word("byscore", "BYSCORE"), Arg::word("bylex", "BYLEX")])
                .since("6.2.0")
                .optional(),
            Arg::word("rev", "REV").since("6.2.0").optional(),
            LIMIT.since("6.2.0"),
            Arg::word("withscores", "WITHSCORES").optional(),
        ],
        history: &[("6.2.0", "Added the `REV`, `BYSCORE`, `BYLEX` and `LIMIT` options.")],
        run: Some(zrange),
        ..Command::DEFAULT
    },
    Command {
        name: "zrangebylex",
        group: Group::SortedSet,
        since: "2.8.9",
        summary: "Returns members in a sorted set within a lexicographical range.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
        arity: -4,
        flags: flag::READONLY,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("min"), Arg::string("max"), LIMIT],
        deprecated_since: "6.2.0",
        replaced_by: "`ZRANGE` with the `BYLEX` argument",
        run: Some(zrangebylex),
        ..Command::DEFAULT
    },
    Command {
        name: "zrangebyscore",
        group: Group::SortedSet,
        since: "1.0.5",
        summary: "Returns members in a sorted set within a range of scores.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
        arity: -4,
        flags: flag::READONLY,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::double("min"),
            Arg::double("max"),
            Arg::word("withscores", "WITHSCORES").since("2.0.0").optional(),
            LIMIT,
        ],
        history: &[("2.0.0", "Added the `WITHSCORES` modifier.")],
        deprecated_since: "6.2.0",
        replaced_by: "`ZRANGE` with the `BYSCORE` argument",
        run: Some(zrangebyscore),
        ..Command::DEFAULT
    },
    Command {
        name: "zrangestore",
        group: Group::SortedSet,
        since: "6.2.0",
        summary: "Stores a range of members from sorted set in a key.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements stored into the destination key.",
        arity: -5,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::OW | key::UPDATE, 1, 0, 1), KeySpec::range(key::RO | key::ACCESS, 2, 0, 1)],
        args: &[
            Arg::key("dst", 0),
            Arg::key("src", 1),
            Arg::string("min"),
            Arg::string("max"),
            Arg::one_of("sortby", &[Arg::word("byscore", "BYSCORE"), Arg::word("bylex", "BYLEX")]).optional(),
            Arg::word("rev", "REV").optional(),
            LIMIT,
        ],
        run: Some(zrangestore),
        ..Command::DEFAULT
    },
    Command {
        name: "zremrangebylex",
        group: Group::SortedSet,
        since: "2.8.9",
        summary: "Removes members in a sorted set within a lexicographical range. Deletes the sorted set if all members were removed.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.",
        arity: 4,
        flags: flag::WRITE,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RW | key::DELETE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("min"), Arg::string("max")],
        run: Some(zremrangebylex),
        ..Command::DEFAULT
    },
    Command {
        name: "zremrangebyrank",
        group: Group::SortedSet,
        since: "2.0.0",
        summary: "Removes members in a sorted set within a range of indexes. Deletes the sorted set if all members were removed.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.",
        arity: 4,
        flags: flag::WRITE,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RW | key::DELETE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("start"), Arg::integer("stop")],
        run: Some(zremrangebyrank),
        ..Command::DEFAULT
    },
    Command {
        name: "zremrangebyscore",
        group: Group::SortedSet,
        since: "1.2.0",
        summary: "Removes members in a sorted set within a range of scores. Deletes the sorted set if all members were removed.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.",
        arity: 4,
        flags: flag::WRITE,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RW | key::DELETE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::double("min"), Arg::double("max")],
        run: Some(zremrangebyscore),
        ..Command::DEFAULT
    },
    Command {
        name: "zrevrange",
        group: Group::SortedSet,
        since: "1.2.0",
        summary: "Returns members in a sorted set within a range of indexes in reverse order.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements returned.",
        arity: -4,
        flags: flag::READONLY,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::integer("start"),
            Arg::integer("stop"),
            Arg::word("withscores", "WITHSCORES").optional(),
        ],
        deprecated_since: "6.2.0",
        replaced_by: "`ZRANGE` with the `REV` argument",
        run: Some(zrevrange),
        ..Command::DEFAULT
    },
    Command {
        name: "zrevrangebylex",
        group: Group::SortedSet,
        since: "2.8.9",
        summary: "Returns members in a sorted set within a lexicographical range in reverse order.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
        arity: -4,
        flags: flag::READONLY,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("max"), Arg::string("min"), LIMIT],
        deprecated_since: "6.2.0",
        replaced_by: "`ZRANGE` with the `REV` and `BYLEX` arguments",
        run: Some(zrevrangebylex),
        ..Command::DEFAULT
    },
    Command {
        name: "zrevrangebyscore",
        group: Group::SortedSet,
        since: "2.2.0",
        summary: "Returns members in a sorted set within a range of scores in reverse order.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
        arity: -4,
        flags: flag::READONLY,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::double("max"),
            Arg::double("min"),
            Arg::word("withscores", "WITHSCORES").optional(),
            LIMIT,
        ],
        history: &[("2.1.6", "`min` and `max` can be exclusive.")],
        deprecated_since: "6.2.0",
        replaced_by: "`ZRANGE` with the `REV` and `BYSCORE` arguments",
        run: Some(zrevrangebyscore),
        ..Command::DEFAULT
    },
];

/// What a range is taken by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// A range as a command names it.
#[derive(Clone, Copy, Debug)]
enum Wanted<'a> {
    /// First and last rank, counted from the near end; negative: from the far end.
    Rank(i64, i64),
    Score(ScoreRange),
    Lex(LexRange<'a>),
}

impl<'a> Wanted<'a> {
    /// Reads the bounds from two arguments.
    fn parse(ctx: &Ctx<'a>, by: By, min: usize, max: usize) -> Result<Self, Error> {
        Ok(match by {
            By::Rank => Wanted::Rank(ctx.int(min)?, ctx.int(max)?),
            By::Score => Wanted::Score(
                ScoreRange::parse(ctx.arg(min), ctx.arg(max)).ok_or(Error::Fixed("ERR min or max is not a float"))?,
            ),
            By::Lex => Wanted::Lex(
                LexRange::parse(ctx.arg(min), ctx.arg(max))
                    .ok_or(Error::Fixed("ERR min or max not valid string range item"))?,
            ),
        })
    }

    /// The ranks of the elements in the range, in the set's own order, without the first `skip` from the near end.
    fn ranks(&self, set: ZSetRef<'_>, reverse: bool, skip: usize) -> Range<usize> {
        let ranks = match self {
            Wanted::Rank(start, stop) => {
                let Some((start, n)) = collection::range(*start, *stop, set.len()) else { return 0..0 };
                let first = if reverse { set.len() - start - n } else { start };
                first..first + n
            }
            Wanted::Score(range) => set.score_range(range),
            Wanted::Lex(range) => return set.lex_range(range, reverse, skip),
        };
        let skip = skip.min(ranks.len());
        if reverse { ranks.start..ranks.end - skip } else { ranks.start + skip..ranks.end }
    }

    /// The ranks that LIMIT leaves. A negative offset leaves none, a negative limit all.
    fn limited(&self, set: ZSetRef<'_>, reverse: bool, offset: i64, limit: i64) -> Range<usize> {
        let Ok(skip) = usize::try_from(offset) else { return 0..0 };
        let ranks = self.ranks(set, reverse, skip);
        let n = usize::try_from(limit).map_or(ranks.len(), |limit| limit.min(ranks.len()));
        if reverse { ranks.end - n..ranks.end } else { ranks.start..ranks.start + n }
    }
}

/// Where a range command's result goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Reply,
    /// To the key that argument 1 names.
    Key,
}

fn zrange(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    range(ctx, Target::Reply, None, None)
}

fn zrangestore(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    range(ctx, Target::Key, None, None)
}

fn zrevrange(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    range(ctx, Target::Reply, Some(By::Rank), Some(true))
}

fn zrangebyscore(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    range(ctx, Target::Reply, Some(By::Score), Some(false))
}

fn zrevrangebyscore(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    range(ctx, Target::Reply, Some(By::Score), Some(true))
}

fn zrangebylex(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    range(ctx, Target::Reply, Some(By::Lex), Some(false))
}

fn zrevrangebylex(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    range(ctx, Target::Reply, Some(By::Lex), Some(true))
}

/// All range commands; `by` and `reverse` are given where the command's name says them.
fn range(ctx: &mut Ctx<'_>, target: Target, by: Option<By>, reverse: Option<bool>) -> Result<(), Error> {
    let args = ctx.args;
    let source = if target == Target::Key { 2 } else { 1 };
    let (mut chosen_by, mut chosen_reverse) = (by, reverse);
    let (mut with_scores, mut offset, mut limit) = (false, 0, -1);
    let mut at = source + 3;
    while at < args.len() {
        let option = args.get(at);
        if target == Target::Reply && option.eq_ignore_ascii_case(b"withscores") {
            with_scores = true;
        } else if option.eq_ignore_ascii_case(b"limit") && at + 2 < args.len() {
            offset = ctx.int(at + 1)?;
            limit = ctx.int(at + 2)?;
            at += 2;
        } else if chosen_reverse.is_none() && option.eq_ignore_ascii_case(b"rev") {
            chosen_reverse = Some(true);
        } else if chosen_by.is_none() && option.eq_ignore_ascii_case(b"bylex") {
            chosen_by = Some(By::Lex);
        } else if chosen_by.is_none() && option.eq_ignore_ascii_case(b"byscore") {
            chosen_by = Some(By::Score);
        } else {
            return Err(Error::Syntax);
        }
        at += 1;
    }
    let by = chosen_by.unwrap_or(By::Rank);
    let reverse = chosen_reverse.unwrap_or(false);
    if limit != -1 && by == By::Rank {
        return Err(Error::Fixed(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    if with_scores && by == By::Lex {
        return Err(Error::Fixed("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
    }
    let wanted = if reverse && by != By::Rank {
        Wanted::parse(ctx, by, source + 2, source + 1)?
    } else {
        Wanted::parse(ctx, by, source + 1, source + 2)?
    };
    let limits = ctx.core.config.zset;
    let found = ctx.keys.zset(args.get(source))?;
    // LIMIT 0 -1 is allowed with ranks too, and means nothing.
    let offset = if by == By::Rank { 0 } else { offset };
    let ranks = found.map_or(0..0, |set| wanted.limited(set, reverse, offset, limit));
    let elements = found.map(|set| set.iter(ranks.clone(), reverse)).into_iter().flatten();
    if target == Target::Reply {
        write_header(&mut ctx.reply, ranks.len(), with_scores);
        for (member, score) in elements {
            write_element(&mut ctx.reply, member, score, with_scores);
        }
        return Ok(());
    }
    // Redis knows the size beforehand, and so makes the encoding at once, for ranges by rank only.
    let mut item = for_members(&[], &limits, if by == By::Rank { ranks.len() } else { 0 }, 0)?;
    let Some(mut result) = ZSetMut::of(&mut item) else { return Err(Error::WrongType) };
    let mut buf = [0; I64_CHARS];
    for (member, score) in elements {
        result.insert(member.bytes(&mut buf), score, &limits)?;
    }
    store(ctx, args.get(1), item, "zrangestore")
}

fn zcount(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    count(ctx, By::Score)
}

fn zlexcount(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    count(ctx, By::Lex)
}

fn count(ctx: &mut Ctx<'_>, by: By) -> Result<(), Error> {
    let wanted = Wanted::parse(ctx, by, 2, 3)?;
    let n = ctx.keys.zset(ctx.args.get(1))?.map_or(0, |set| wanted.ranks(set, false, 0).len());
    ctx.reply.count(n);
    Ok(())
}

fn zremrangebyrank(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    remove_range(ctx, By::Rank, "zremrangebyrank")
}

fn zremrangebyscore(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    remove_range(ctx, By::Score, "zremrangebyscore")
}

fn zremrangebylex(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    remove_range(ctx, By::Lex, "zremrangebylex")
}

fn remove_range(ctx: &mut Ctx<'_>, by: By, event_name: &'static str) -> Result<(), Error> {
    let key = ctx.arg(1);
    let wanted = Wanted::parse(ctx, by, 2, 3)?;
    let mut removed = 0;
    if let Some(mut set) = ctx.keys.zset_mut(key)? {
        let ranks = wanted.ranks(set.view(), false, 0);
        removed = ranks.len();
        set.remove_range(ranks, |_, _| {});
    }
    removed_some(ctx, key, removed, event_name);
    ctx.reply.count(removed);
    Ok(())
}
