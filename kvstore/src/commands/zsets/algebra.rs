//! Union, intersection and difference of sorted sets; plain sets may take part with a score of 1 for each member.

use alloc::vec::Vec;

use super::{store, write_element, write_header};
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::encoding::listpack::Entry;
use crate::error::Error;
use crate::error_text;
use crate::number::{I64_CHARS, parse_f64};
use crate::types::set::SetRef;
use crate::types::zset::{ZSetLimits, ZSetMut, ZSetRef, for_members};
use crate::value::{Item, ItemExt, Type, Value};

/// The commands of this file.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "zdiff",
        group: Group::SortedSet,
        since: "6.2.0",
        summary: "Returns the difference between multiple sorted sets.",
        complexity: "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size of the first set, and K is the size of the result set.",
        arity: -3,
        flags: flag::READONLY,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::count(key::RO | key::ACCESS, 1)],
        args: &[
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::word("withscores", "WITHSCORES").optional(),
        ],
        run: Some(zdiff),
        ..Command::DEFAULT
    },
    Command {
        name: "zdiffstore",
        group: Group::SortedSet,
        since: "6.2.0",
        summary: "Stores the difference of multiple sorted sets in a key.",
        complexity: "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size of the first set, and K is the size of the result set.",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::OW | key::UPDATE, 1, 0, 1), KeySpec::count(key::RO | key::ACCESS, 2)],
        args: &[Arg::key("destination", 0), Arg::integer("numkeys"), Arg::key("key", 1).multiple()],
        run: Some(zdiffstore),
        ..Command::DEFAULT
    },
    Command {
        name: "zinter",
        group: Group::SortedSet,
        since: "6.2.0",
        summary: "Returns the intersect of multiple sorted sets.",
        complexity: "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of input sorted sets and M being the number of elements in the resulting sorted set.",
        arity: -3,
        flags: flag::READONLY,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::count(key::RO | key::ACCESS, 1)],
        args: &[
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::integer("weight").token("WEIGHTS").optional().multiple(),
            Arg::one_of("aggregate", &[Arg::word("sum", "SUM"), Arg::word("min", "MIN"), Arg::word("max", "MAX")])
                .token("AGGREGATE")
                .optional(),
            Arg::word("withscores", "WITHSCORES").optional(),
        ],
        run: Some(zinter),
        ..Command::DEFAULT
    },
    Command {
        name: "zintercard",
        group: Group::SortedSet,
        since: "7.0.0",
        summary: "Returns the number of members of the intersect of multiple sorted sets.",
        complexity: "O(N*K) worst case with N being the smallest input sorted set, K being the number of input sorted sets.",
        arity: -3,
        flags: flag::READONLY,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::count(key::RO | key::ACCESS, 1)],
        args: &[
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::integer("limit").token("LIMIT").optional(),
        ],
        run: Some(zintercard),
        ..Command::DEFAULT
    },
    Command {
        name: "zinterstore",
        group: Group::SortedSet,
        since: "2.0.0",
        summary: "Stores the intersect of multiple sorted sets in a key.",
        complexity: "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of input sorted sets and M being the number of elements in the resulting sorted set.",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::OW | key::UPDATE, 1, 0, 1), KeySpec::count(key::RO | key::ACCESS, 2)],
        args: &[
            Arg::key("destination", 0),
            Arg::integer("numkeys"),
            Arg::key("key", 1).multiple(),
            Arg::integer("weight").token("WEIGHTS").optional().multiple(),
            Arg::one_of("aggregate", &[Arg::word("sum", "SUM"), Arg::word("min", "MIN"), Arg::word("max", "MAX")])
                .token("AGGREGATE")
                .optional(),
        ],
        run: Some(zinterstore),
        ..Command::DEFAULT
    },
    Command {
        name: "zunion",
        group: Group::SortedSet,
        since: "6.2.0",
        summary: "Returns the union of multiple sorted sets.",
        complexity: "O(N)+O(M*log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number of elements in the resulting sorted set.",
        arity: -3,
        flags: flag::READONLY,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::count(key::RO | key::ACCESS, 1)],
        args: &[
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::integer("weight").token("WEIGHTS").optional().multiple(),
            Arg::one_of("aggregate", &[Arg::word("sum", "SUM"), Arg::word("min", "MIN"), Arg::word("max", "MAX")])
                .token("AGGREGATE")
                .optional(),
            Arg::word("withscores", "WITHSCORES").optional(),
        ],
        run: Some(zunion),
        ..Command::DEFAULT
    },
    Command {
        name: "zunionstore",
        group: Group::SortedSet,
        since: "2.0.0",
        summary: "Stores the union of multiple sorted sets in a key.",
        complexity: "O(N)+O(M log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number of elements in the resulting sorted set.",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::SORTEDSET,
        keys: &[KeySpec::range(key::OW | key::UPDATE, 1, 0, 1), KeySpec::count(key::RO | key::ACCESS, 2)],
        args: &[
            Arg::key("destination", 0),
            Arg::integer("numkeys"),
            Arg::key("key", 1).multiple(),
            Arg::integer("weight").token("WEIGHTS").optional().multiple(),
            Arg::one_of("aggregate", &[Arg::word("sum", "SUM"), Arg::word("min", "MIN"), Arg::word("max", "MAX")])
                .token("AGGREGATE")
                .optional(),
        ],
        run: Some(zunionstore),
        ..Command::DEFAULT
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Union,
    Inter,
    Diff,
}

/// How scores of the same member go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combine {
    Sum,
    Min,
    Max,
}

impl Combine {
    fn apply(self, a: f64, b: f64) -> f64 {
        match self {
            // inf - inf is 0 here.
            Combine::Sum => not_nan(a + b),
            Combine::Min if b < a => b,
            Combine::Max if b > a => b,
            Combine::Min | Combine::Max => a,
        }
    }
}

fn not_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// What the result is wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Reply,
    /// To be stored at the key of argument 1.
    Store,
    /// Its size only, up to a limit (ZINTERCARD).
    Count,
}

#[derive(Clone, Copy)]
enum Members<'a> {
    None,
    ZSet(ZSetRef<'a>),
    Set(SetRef<'a>),
}

/// An input.
#[derive(Clone, Copy)]
struct Source<'a> {
    members: Members<'a>,
    weight: f64,
}

impl<'a> Source<'a> {
    fn new(item: Option<&'a Item>, weight: f64) -> Self {
        let members = match item.map(Item::value) {
            Some(Value::ZSet(set)) => Members::ZSet(set),
            Some(Value::Set(set)) => Members::Set(set),
            _ => Members::None,
        };
        Self { members, weight }
    }

    fn len(&self) -> usize {
        match self.members {
            Members::None => 0,
            Members::ZSet(set) => set.len(),
            Members::Set(set) => set.len(),
        }
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        match self.members {
            Members::None => None,
            Members::ZSet(set) => set.score(member),
            Members::Set(set) => set.contains(member).then_some(1.0),
        }
    }

    /// All members with their scores, as they are.
    fn iter(&self) -> impl Iterator<Item = (Entry<'a>, f64)> + use<'a> {
        let (zset, set) = match self.members {
            Members::None => (None, None),
            Members::ZSet(set) => (Some(set), None),
            Members::Set(set) => (None, Some(set)),
        };
        let scored = zset.into_iter().flat_map(|set| set.iter(0..set.len(), false));
        scored.chain(set.into_iter().flat_map(|set| set.iter().map(|member| (member, 1.0))))
    }
}

fn zunion(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    run(ctx, Operation::Union, Purpose::Reply)
}

fn zunionstore(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    run(ctx, Operation::Union, Purpose::Store)
}

fn zinter(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    run(ctx, Operation::Inter, Purpose::Reply)
}

fn zinterstore(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    run(ctx, Operation::Inter, Purpose::Store)
}

fn zintercard(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    run(ctx, Operation::Inter, Purpose::Count)
}

fn zdiff(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    run(ctx, Operation::Diff, Purpose::Reply)
}

fn zdiffstore(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    run(ctx, Operation::Diff, Purpose::Store)
}

/// What follows the keys.
struct Options {
    /// One for each key.
    weights: Vec<f64>,
    combine: Combine,
    with_scores: bool,
    /// 0: none.
    limit: usize,
}

impl Options {
    fn parse(ctx: &Ctx<'_>, mut at: usize, keys: usize, operation: Operation, purpose: Purpose) -> Result<Self, Error> {
        let args = ctx.args;
        let mut options = Self { weights: Vec::new(), combine: Combine::Sum, with_scores: false, limit: 0 };
        options.weights.try_reserve_exact(keys)?;
        options.weights.resize(keys, 1.0);
        let weighted = operation != Operation::Diff && purpose != Purpose::Count;
        while at < args.len() {
            let remaining = args.len() - at;
            if weighted && remaining > keys && args.is(at, "weights") {
                for (i, weight) in options.weights.iter_mut().enumerate() {
                    *weight = parse_f64(args.get(at + 1 + i)).ok_or(Error::Fixed("ERR weight value is not a float"))?;
                }
                at += keys + 1;
            } else if weighted && remaining >= 2 && args.is(at, "aggregate") {
                options.combine = match args.get(at + 1) {
                    word if word.eq_ignore_ascii_case(b"sum") => Combine::Sum,
                    word if word.eq_ignore_ascii_case(b"min") => Combine::Min,
                    word if word.eq_ignore_ascii_case(b"max") => Combine::Max,
                    _ => return Err(Error::Syntax),
                };
                at += 2;
            } else if purpose == Purpose::Reply && args.is(at, "withscores") {
                options.with_scores = true;
                at += 1;
            } else if purpose == Purpose::Count && remaining >= 2 && args.is(at, "limit") {
                let limit = ctx.int(at + 1).ok().and_then(|limit| usize::try_from(limit).ok());
                options.limit = limit.ok_or(Error::Fixed("ERR LIMIT can't be negative"))?;
                at += 2;
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(options)
    }
}

fn run(ctx: &mut Ctx<'_>, operation: Operation, purpose: Purpose) -> Result<(), Error> {
    let args = ctx.args;
    let count_at = if purpose == Purpose::Store { 2 } else { 1 };
    let count = ctx.int(count_at)?;
    if count < 1 {
        return Err(error_text!("ERR at least 1 input key is needed for '{}' command", ctx.command.name));
    }
    let first = count_at + 1;
    let count = usize::try_from(count).ok().filter(|&n| n <= args.len() - first).ok_or(Error::Syntax)?;
    for key in args.iter_from(first).take(count) {
        ctx.keys.use_again();
        if let Some(item) = ctx.keys.read(key)
            && !matches!(item.type_of(), Type::ZSet | Type::Set)
        {
            return Err(Error::WrongType);
        }
    }
    let options = Options::parse(ctx, first + count, count, operation, purpose)?;
    let limits = ctx.core.config.zset;

    // Time stands still during a command: what was there a moment ago still is.
    let table = &ctx.keys.db().table;
    let mut sources = Vec::new();
    sources.try_reserve_exact(count)?;
    for (key, &weight) in args.iter_from(first).zip(&options.weights) {
        sources.push(Source::new(table.get(key), weight));
    }
    if operation != Operation::Diff {
        // The order in which scores are added shows in the last digit of sums.
        sources.sort_by_key(Source::len);
    }
    if purpose == Purpose::Count {
        let mut n = 0;
        for_common(&sources, options.combine, |_, _| {
            n += 1;
            Ok(n != options.limit)
        })?;
        ctx.reply.count(n);
        return Ok(());
    }
    // The large encoding whatever the size: it alone keeps -0, which Redis answers here.
    let large = ZSetLimits { listpack_entries: 0, ..limits };
    let mut item = for_members(&[], &large, 1, 0)?;
    let Some(mut result) = ZSetMut::of(&mut item) else { return Err(Error::WrongType) };
    match operation {
        Operation::Union => union(&mut result, &sources, options.combine, &large)?,
        Operation::Inter => for_common(&sources, options.combine, |member, score| {
            result.insert(member, score, &large)?;
            Ok(true)
        })?,
        Operation::Diff => difference(&mut result, &sources, &large)?,
    }
    if purpose == Purpose::Store {
        result.settle(&limits)?;
        let event = match operation {
            Operation::Union => "zunionstore",
            Operation::Inter => "zinterstore",
            Operation::Diff => "zdiffstore",
        };
        return store(ctx, args.get(1), item, event);
    }
    let result = result.view();
    write_header(&mut ctx.reply, result.len(), options.with_scores);
    for (member, score) in result.iter(0..result.len(), false) {
        write_element(&mut ctx.reply, member, score, options.with_scores);
    }
    Ok(())
}

/// Calls `each` with the members that are in all sources, and their scores together, until it says false. The sources are
/// ordered by length.
fn for_common(
    sources: &[Source<'_>],
    combine: Combine,
    mut each: impl FnMut(&[u8], f64) -> Result<bool, Error>,
) -> Result<(), Error> {
    let Some((smallest, others)) = sources.split_first() else { return Ok(()) };
    let mut buf = [0; I64_CHARS];
    'members: for (member, score) in smallest.iter() {
        let member = member.bytes(&mut buf);
        let mut sum = not_nan(smallest.weight * score);
        for other in others {
            let Some(score) = other.score(member) else { continue 'members };
            // No number, as 0 times inf is, leaves MIN and MAX as they are; of a SUM it makes 0.
            sum = combine.apply(sum, score * other.weight);
        }
        if !each(member, sum)? {
            return Ok(());
        }
    }
    Ok(())
}

fn union(result: &mut ZSetMut<'_>, sources: &[Source<'_>], combine: Combine, limits: &ZSetLimits) -> Result<(), Error> {
    let mut buf = [0; I64_CHARS];
    for source in sources {
        for (member, score) in source.iter() {
            let member = member.bytes(&mut buf);
            let score = not_nan(source.weight * score);
            let score = result.view().score(member).map_or(score, |sum| combine.apply(sum, score));
            result.insert(member, score, limits)?;
        }
    }
    Ok(())
}

fn difference(result: &mut ZSetMut<'_>, sources: &[Source<'_>], limits: &ZSetLimits) -> Result<(), Error> {
    let Some((first, others)) = sources.split_first() else { return Ok(()) };
    let mut buf = [0; I64_CHARS];
    for (member, score) in first.iter() {
        let member = member.bytes(&mut buf);
        if !others.iter().any(|other| other.score(member).is_some()) {
            result.insert(member, score, limits)?;
        }
    }
    Ok(())
}
