//! Taking elements from the ends of sorted sets, waiting for them or not.

use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::keyspace::event;
use crate::number::{I64_CHARS, format_u64};
use crate::value::Type;

/// The commands of this file.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "bzmpop",
        group: Group::SortedSet,
        since: "7.0.0",
        summary: "Removes and returns a member by score from one or more sorted sets. Blocks until a member is available otherwise. Deletes the sorted set if the last element was popped.",
        complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the sorted set, and M being the number of elements popped.",
        arity: -5,
        flags: flag::WRITE | flag::BLOCKING,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::count(key::RW | key::ACCESS | key::DELETE, 2)],
        args: &[
            Arg::double("timeout"),
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::one_of("where", &[Arg::word("min", "MIN"), Arg::word("max", "MAX")]),
            Arg::integer("count").token("COUNT").optional(),
        ],
        run: Some(bzmpop),
        ..Command::DEFAULT
    },
    Command {
        name: "bzpopmax",
        group: Group::SortedSet,
        since: "5.0.0",
        summary: "Removes and returns the member with the highest score from one or more sorted sets. Blocks until a member available otherwise.  Deletes the sorted set if the last element was popped.",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        arity: -3,
        flags: flag::WRITE | flag::BLOCKING | flag::FAST,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::DELETE, 1, -2, 1)],
        args: &[Arg::key("key", 0).multiple(), Arg::double("timeout")],
        history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
        run: Some(bzpopmax),
        ..Command::DEFAULT
    },
    Command {
        name: "bzpopmin",
        group: Group::SortedSet,
        since: "5.0.0",
        summary: "Removes and returns the member with the lowest score from one or more sorted sets. Blocks until a member is available otherwise. Deletes the sorted set if the last element was popped.",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        arity: -3,
        flags: flag::WRITE | flag::BLOCKING | flag::FAST,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::DELETE, 1, -2, 1)],
        args: &[Arg::key("key", 0).multiple(), Arg::double("timeout")],
        history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
        run: Some(bzpopmin),
        ..Command::DEFAULT
    },
    Command {
        name: "zmpop",
        group: Group::SortedSet,
        since: "7.0.0",
        summary: "Returns the highest- or lowest-scoring members from one or more sorted sets after removing them. Deletes the sorted set if the last member was popped.",
        complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the sorted set, and M being the number of elements popped.",
        arity: -4,
        flags: flag::WRITE,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::count(key::RW | key::ACCESS | key::DELETE, 1)],
        args: &[
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::one_of("where", &[Arg::word("min", "MIN"), Arg::word("max", "MAX")]),
            Arg::integer("count").token("COUNT").optional(),
        ],
        run: Some(zmpop),
        ..Command::DEFAULT
    },
    Command {
        name: "zpopmax",
        group: Group::SortedSet,
        since: "5.0.0",
        summary: "Returns the highest-scoring members from a sorted set after removing them. Deletes the sorted set if the last member was popped.",
        complexity: "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of elements popped.",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::DELETE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("count").optional()],
        run: Some(zpopmax),
        ..Command::DEFAULT
    },
    Command {
        name: "zpopmin",
        group: Group::SortedSet,
        since: "5.0.0",
        summary: "Returns the lowest-scoring members from a sorted set after removing them. Deletes the sorted set if the last member was popped.",
        complexity: "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of elements popped.",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::DELETE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("count").optional()],
        run: Some(zpopmin),
        ..Command::DEFAULT
    },
];

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Min,
    Max,
}

impl End {
    fn parse(word: &[u8]) -> Result<Self, Error> {
        if word.eq_ignore_ascii_case(b"min") {
            Ok(End::Min)
        } else if word.eq_ignore_ascii_case(b"max") {
            Ok(End::Max)
        } else {
            Err(Error::Syntax)
        }
    }

    const fn event(self) -> &'static str {
        match self {
            End::Min => "zpopmin",
            End::Max => "zpopmax",
        }
    }
}

/// Shapes of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Members and scores.
    Flat,
    /// Pairs of member and score.
    Pairs,
    /// Key, member and score.
    WithKey,
    /// Key, and pairs of member and score.
    KeyAndPairs,
}

/// Takes up to `count` elements of the set at `key`, which is not empty, and answers them.
fn pop(ctx: &mut Ctx<'_>, key: &[u8], end: End, count: usize, shape: Shape) -> Result<(), Error> {
    let Some(mut set) = ctx.keys.zset_mut(key)? else { return Ok(()) };
    let len = set.view().len();
    let n = count.min(len);
    match shape {
        Shape::Flat => ctx.reply.array(2 * n),
        Shape::Pairs => ctx.reply.array(n),
        Shape::WithKey => {
            ctx.reply.array(2 * n + 1);
            ctx.reply.bulk(key);
        }
        Shape::KeyAndPairs => {
            ctx.reply.array(2);
            ctx.reply.bulk(key);
            ctx.reply.array(n);
        }
    }
    let ranks = if end == End::Min { 0..n } else { len - n..len };
    let pairs = matches!(shape, Shape::Pairs | Shape::KeyAndPairs);
    for (member, score) in set.view().iter(ranks.clone(), end == End::Max) {
        if pairs {
            ctx.reply.array(2);
        }
        ctx.reply.bulk(member.bytes(&mut [0; I64_CHARS]));
        ctx.reply.double(score);
    }
    set.remove_range(ranks, |_, _| {});
    ctx.notify(event::ZSET, end.event(), key);
    ctx.keys.remove_if_empty(key);
    ctx.keys.modified_by(key, n);
    Ok(())
}

/// The first of the keys (`first` and the `n - 1` arguments after it) that holds a set with elements.
fn candidate<'a>(ctx: &mut Ctx<'a>, first: usize, n: usize) -> Result<Option<&'a [u8]>, Error> {
    for key in ctx.args.iter_from(first).take(n) {
        if ctx.keys.zset_mut(key)?.is_some_and(|set| !set.view().is_empty()) {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

fn zpopmin(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    pop_one_key(ctx, End::Min)
}

fn zpopmax(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    pop_one_key(ctx, End::Max)
}

fn pop_one_key(ctx: &mut Ctx<'_>, end: End) -> Result<(), Error> {
    if ctx.argc() > 3 {
        return Err(Error::Syntax);
    }
    let counted = ctx.argc() == 3;
    let count = match ctx.int(2) {
        _ if !counted => 1,
        Ok(count) if count >= 0 => count as usize,
        _ => return Err(Error::Fixed("ERR value is out of range, must be positive")),
    };
    match candidate(ctx, 1, 1)? {
        Some(key) if count > 0 => {
            let shape = if counted && ctx.reply.resp3 { Shape::Pairs } else { Shape::Flat };
            pop(ctx, key, end, count, shape)
        }
        _ => {
            ctx.reply.array(0);
            Ok(())
        }
    }
}

fn bzpopmin(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    pop_or_wait(ctx, End::Min)
}

fn bzpopmax(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    pop_or_wait(ctx, End::Max)
}

fn pop_or_wait(ctx: &mut Ctx<'_>, end: End) -> Result<(), Error> {
    let last = ctx.argc() - 1;
    let until = ctx.timeout(last)?;
    match candidate(ctx, 1, last - 1)? {
        Some(key) => {
            // Found by one look, popped from by another.
            ctx.keys.use_again();
            pop(ctx, key, end, 1, Shape::WithKey)?;
            ctx.effect(&[end.event().as_bytes(), key]);
            Ok(())
        }
        None => ctx.block(Type::ZSet, 1..last, until, false),
    }
}

fn zmpop(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    pop_many(ctx, 1, false)
}

fn bzmpop(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    pop_many(ctx, 2, true)
}

/// ZMPOP and BZMPOP; the number of keys is argument `count_at`.
fn pop_many(ctx: &mut Ctx<'_>, count_at: usize, wait: bool) -> Result<(), Error> {
    let args = ctx.args;
    let positive = |at: usize, error: &'static str| {
        ctx.int(at).ok().filter(|&n| n > 0).map(|n| n as usize).ok_or(Error::Fixed(error))
    };
    let keys = positive(count_at, "ERR numkeys should be greater than 0")?;
    let first = count_at + 1;
    let end_at = first.checked_add(keys).filter(|&at| at < args.len()).ok_or(Error::Syntax)?;
    let end = End::parse(args.get(end_at))?;
    let count = match args.len() - end_at {
        1 => 1,
        3 if args.is(end_at + 1, "count") => positive(end_at + 2, "ERR count should be greater than 0")?,
        // A first COUNT is read before what follows it is found wrong.
        n if n > 3 && args.is(end_at + 1, "count") => {
            positive(end_at + 2, "ERR count should be greater than 0")?;
            return Err(Error::Syntax);
        }
        _ => return Err(Error::Syntax),
    };
    let until = if wait { ctx.timeout(1)? } else { None };
    match candidate(ctx, first, keys)? {
        Some(key) => {
            if wait {
                ctx.keys.use_again();
            }
            let n = count.min(ctx.keys.zset_mut(key)?.map_or(0, |set| set.view().len()));
            pop(ctx, key, end, count, Shape::KeyAndPairs)?;
            ctx.effect(&[end.event().as_bytes(), key, format_u64(&mut [0; I64_CHARS], n as u64)]);
            Ok(())
        }
        None if wait => ctx.block(Type::ZSet, first..first + keys, until, false),
        None => {
            ctx.reply.null_array();
            Ok(())
        }
    }
}
