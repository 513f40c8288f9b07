//! Commands that combine several sets.

use alloc::vec::Vec;

use super::sets::reply_members;
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::encoding::listpack::Entry;
use crate::error::Error;
use crate::keyspace::{Keys, event};
use crate::reply::Aggregate;
use crate::session::args::Args;
use crate::types::set::{SetLimits, SetMut, SetRef, new_intset, new_listpack};
use crate::value::{Item, ItemExt};
use barium_cell::OutOfMemory;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "sdiff",
        group: Group::Set,
        since: "1.0.0",
        summary: "Returns the difference of multiple sets.",
        complexity: "O(N) where N is the total number of elements in all given sets.",
        arity: -2,
        flags: flag::READONLY,
        acl: acl::SET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, -1, 1)],
        args: &[Arg::key("key", 0).multiple()],
        tips: &["nondeterministic_output_order"],
        run: Some(sdiff),
        ..Command::DEFAULT
    },
    Command {
        name: "sdiffstore",
        group: Group::Set,
        since: "1.0.0",
        summary: "Stores the difference of multiple sets in a key.",
        complexity: "O(N) where N is the total number of elements in all given sets.",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::SET,
        keys: &[KeySpec::range(key::OW | key::UPDATE, 1, 0, 1), KeySpec::range(key::RO | key::ACCESS, 2, -1, 1)],
        args: &[Arg::key("destination", 0), Arg::key("key", 1).multiple()],
        run: Some(sdiffstore),
        ..Command::DEFAULT
    },
    Command {
        name: "sinter",
        group: Group::Set,
        since: "1.0.0",
        summary: "Returns the intersect of multiple sets.",
        complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
        arity: -2,
        flags: flag::READONLY,
        acl: acl::SET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, -1, 1)],
        args: &[Arg::key("key", 0).multiple()],
        tips: &["nondeterministic_output_order"],
        run: Some(sinter),
        ..Command::DEFAULT
    },
    Command {
        name: "sintercard",
        group: Group::Set,
        since: "7.0.0",
        summary: "Returns the number of members of the intersect of multiple sets.",
        complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
        arity: -3,
        flags: flag::READONLY,
        acl: acl::SET,
        keys: &[KeySpec::count(key::RO | key::ACCESS, 1)],
        args: &[
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::integer("limit").token("LIMIT").optional(),
        ],
        run: Some(sintercard),
        ..Command::DEFAULT
    },
    Command {
        name: "sinterstore",
        group: Group::Set,
        since: "1.0.0",
        summary: "Stores the intersect of multiple sets in a key.",
        complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::SET,
        keys: &[KeySpec::range(key::OW | key::UPDATE, 1, 0, 1), KeySpec::range(key::RO | key::ACCESS, 2, -1, 1)],
        args: &[Arg::key("destination", 0), Arg::key("key", 1).multiple()],
        run: Some(sinterstore),
        ..Command::DEFAULT
    },
    Command {
        name: "smembers",
        group: Group::Set,
        since: "1.0.0",
        summary: "Returns all members of a set.",
        complexity: "O(N) where N is the set cardinality.",
        arity: 2,
        flags: flag::READONLY,
        acl: acl::SET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        tips: &["nondeterministic_output_order"],
        run: Some(smembers),
        ..Command::DEFAULT
    },
    Command {
        name: "sunion",
        group: Group::Set,
        since: "1.0.0",
        summary: "Returns the union of multiple sets.",
        complexity: "O(N) where N is the total number of elements in all given sets.",
        arity: -2,
        flags: flag::READONLY,
        acl: acl::SET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, -1, 1)],
        args: &[Arg::key("key", 0).multiple()],
        tips: &["nondeterministic_output_order"],
        run: Some(sunion),
        ..Command::DEFAULT
    },
    Command {
        name: "sunionstore",
        group: Group::Set,
        since: "1.0.0",
        summary: "Stores the union of multiple sets in a key.",
        complexity: "O(N) where N is the total number of elements in all given sets.",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::SET,
        keys: &[KeySpec::range(key::OW | key::UPDATE, 1, 0, 1), KeySpec::range(key::RO | key::ACCESS, 2, -1, 1)],
        args: &[Arg::key("destination", 0), Arg::key("key", 1).multiple()],
        run: Some(sunionstore),
        ..Command::DEFAULT
    },
];

/// The sets at the keys that stand in `args[range]`, None for keys that do not exist.
///
/// # Errors
/// When one of them holds another type.
fn gather<'k>(
    keys: &'k mut Keys<'_>,
    args: Args<'_>,
    range: core::ops::Range<usize>,
) -> Result<Vec<Option<SetRef<'k>>>, Error> {
    for i in range.clone() {
        keys.use_again();
        // Counts the lookup, checks the type, and removes a key whose time has come.
        keys.set(args.get(i))?;
    }
    let table = &keys.db().table;
    Ok(range.map(|i| SetRef::of(table.get(args.get(i))?)).collect())
}

/// Visits the members that all of `sets` have, in the order of the smallest set, until `each` says stop.
fn intersect<'k>(
    sets: &mut [SetRef<'k>],
    mut each: impl FnMut(Entry<'k>) -> Result<bool, OutOfMemory>,
) -> Result<(), OutOfMemory> {
    // Stable, so that equal sizes stay in the order given.
    sets.sort_by_key(|set| set.len());
    let Some((&smallest, others)) = sets.split_first() else { return Ok(()) };
    for member in smallest.iter() {
        if others.iter().all(|set| set.is(smallest) || set.contains_entry(member)) && !each(member)? {
            break;
        }
    }
    Ok(())
}

fn smembers(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let set = ctx.keys.set(ctx.args.get(1))?;
    match set {
        Some(set) => reply_members(&mut ctx.reply, set),
        None => ctx.reply.set(0),
    }
    Ok(())
}

fn sinter(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let sets = gather(&mut ctx.keys, ctx.args, 1..ctx.args.len())?;
    let Some(mut sets) = sets.into_iter().collect::<Option<Vec<_>>>() else {
        ctx.reply.set(0);
        return Ok(());
    };
    let at = ctx.reply.defer();
    let mut n = 0;
    intersect(&mut sets, |member| {
        ctx.reply.entry(member);
        n += 1;
        Ok(true)
    })?;
    ctx.reply.end(at, Aggregate::Set, n);
    Ok(())
}

fn sintercard(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let numkeys = ctx.numkeys(1)?;
    if numkeys > ctx.argc() - 2 {
        return Err(Error::Fixed("ERR Number of keys can't be greater than number of args"));
    }
    let mut limit = 0;
    let mut i = numkeys + 2;
    while i < ctx.argc() {
        if !ctx.args.is(i, "limit") || i + 1 == ctx.argc() {
            return Err(Error::Syntax);
        }
        limit = ctx.count_or(i + 1, "ERR LIMIT can't be negative")?;
        i += 2;
    }
    let sets = gather(&mut ctx.keys, ctx.args, 2..numkeys + 2)?;
    let mut n = 0;
    if let Some(mut sets) = sets.into_iter().collect::<Option<Vec<_>>>() {
        intersect(&mut sets, |_| {
            n += 1;
            Ok(n != limit)
        })?;
    }
    ctx.reply.count(n);
    Ok(())
}

/// The intersection as a new set, in the encoding that Redis gives it.
fn intersection(mut sets: Vec<SetRef<'_>>, limits: &SetLimits) -> Result<Item, OutOfMemory> {
    sets.sort_by_key(|set| set.len());
    let from_intset = sets.first().is_some_and(|set| set.as_intset().is_some());
    let mut item = if from_intset { new_intset(&[])? } else { new_listpack(&[])? };
    let Some(mut result) = SetMut::of(&mut item) else { return Ok(item) };
    let mut only_integers = true;
    intersect(&mut sets, |member| {
        only_integers = only_integers && member.as_int().is_some();
        result.add_entry(member, limits)?;
        Ok(true)
    })?;
    if only_integers {
        result.integers_to_intset(limits)?;
    }
    Ok(item)
}

fn union(sets: &[Option<SetRef<'_>>], limits: &SetLimits) -> Result<Item, OutOfMemory> {
    let mut item = new_intset(&[])?;
    let Some(mut result) = SetMut::of(&mut item) else { return Ok(item) };
    for member in sets.iter().flatten().flat_map(|set| set.iter()) {
        result.add_entry(member, limits)?;
    }
    Ok(item)
}

/// The members of the first set that no other has.
fn difference(mut sets: Vec<Option<SetRef<'_>>>, limits: &SetLimits) -> Result<Item, OutOfMemory> {
    let mut item = new_intset(&[])?;
    let Some((&mut Some(first), others)) = sets.split_first_mut() else { return Ok(item) };
    if others.iter().flatten().any(|set| set.is(first)) {
        return Ok(item);
    }
    let Some(mut result) = SetMut::of(&mut item) else { return Ok(item) };
    let existing = 1 + others.iter().flatten().count();
    let total: usize = first.len() + others.iter().flatten().map(|set| set.len()).sum::<usize>();
    if first.len() * existing / 2 <= total {
        // Few lookups: ask the largest sets first whether they have a member.
        others.sort_by_key(|set| core::cmp::Reverse(set.map_or(0, SetRef::len)));
        for member in first.iter() {
            if !others.iter().flatten().any(|set| set.contains_entry(member)) {
                result.add_entry(member, limits)?;
            }
        }
    } else {
        for member in first.iter() {
            result.add_entry(member, limits)?;
        }
        for set in others.iter().flatten() {
            if result.view().is_empty() {
                break;
            }
            for member in set.iter() {
                result.remove_entry(member);
            }
        }
    }
    Ok(item)
}

/// Replies with a set that was made for this.
fn reply_set(ctx: &mut Ctx<'_>, item: &Item) {
    if let Some(set) = SetRef::of(item) {
        reply_members(&mut ctx.reply, set);
    }
}

/// Puts a result at the key of argument 1, or removes that key if the result is empty.
fn store(ctx: &mut Ctx<'_>, set: Item, name: &'static str) -> Result<(), Error> {
    let destination = ctx.arg(1);
    let len = set.elements();
    if len > 0 {
        ctx.keys.use_again();
        ctx.keys.put(destination, set)?;
        ctx.keys.modified(destination);
        ctx.keys.notify(event::SET, name, destination);
    } else if ctx.keys.remove(destination) {
        ctx.keys.modified(destination);
        ctx.keys.notify(event::GENERIC, "del", destination);
    }
    ctx.reply.count(len);
    Ok(())
}

fn sinterstore(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let limits = ctx.set_limits();
    let sets = gather(&mut ctx.keys, ctx.args, 2..ctx.args.len())?;
    let result = match sets.into_iter().collect::<Option<Vec<_>>>() {
        Some(sets) => intersection(sets, &limits)?,
        None => new_intset(&[])?,
    };
    store(ctx, result, "sinterstore")
}

fn sunion(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let limits = ctx.set_limits();
    let result = union(&gather(&mut ctx.keys, ctx.args, 1..ctx.args.len())?, &limits)?;
    reply_set(ctx, &result);
    Ok(())
}

fn sunionstore(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let limits = ctx.set_limits();
    let result = union(&gather(&mut ctx.keys, ctx.args, 2..ctx.args.len())?, &limits)?;
    store(ctx, result, "sunionstore")
}

fn sdiff(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let limits = ctx.set_limits();
    let result = difference(gather(&mut ctx.keys, ctx.args, 1..ctx.args.len())?, &limits)?;
    reply_set(ctx, &result);
    Ok(())
}

fn sdiffstore(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let limits = ctx.set_limits();
    let result = difference(gather(&mut ctx.keys, ctx.args, 2..ctx.args.len())?, &limits)?;
    store(ctx, result, "sdiffstore")
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn results_keep_redis_order_and_encoding() {
        let mut b = Bench::new(&[]);
        let c = b.client();
        b.run(c, "SADD a z 1 y 2 x");
        b.run(c, "SADD b 2 x z 1");
        b.run(c, "SADD i 5 1 2");
        assert_eq!(b.run(c, "SINTER a b"), "[2 x z 1]", "the order of the smaller one");
        assert_eq!(b.run(c, "SUNION i a"), "[1 2 5 z y x]", "integers first, as an intset holds them");
        assert_eq!(b.run(c, "SDIFF a i"), "[z y x]");
        assert_eq!(b.run(c, "SDIFF a b a"), "[]");
        assert_eq!(b.run(c, "SINTERSTORE d a i"), "2");
        assert_eq!(b.encoding("d"), "intset");
        assert_eq!(b.run(c, "SINTERSTORE d b a"), "4");
        assert_eq!(b.encoding("d"), "listpack");
        assert_eq!(b.run(c, "SINTERSTORE d a none"), "0");
        assert_eq!(b.encoding("d"), "none");
        assert_eq!(b.run(c, "SINTERCARD 2 a b LIMIT 3"), "3");
        assert_eq!(b.run(c, "SINTERCARD 3 a b"), "-ERR Number of keys can't be greater than number of args");
    }
}
