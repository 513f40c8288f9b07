//! Commands on one set; those that combine several are in [`set_algebra`](super::set_algebra).

use alloc::vec::Vec;

use super::collection::{NOT_POSITIVE, SCAN_ARGS, ScanOptions, scan_cursor, scan_reply};
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::encoding::listpack::Entry;
use crate::error::Error;
use crate::keyspace::event;
use crate::reply::Reply;
use crate::types::set::{SetRef, for_members};

/// Most members that one SREM in the log names.
const EFFECT_BATCH: usize = 1024;
/// SPOP builds the set anew when what remains of it is less than a fifth of what goes.
const REBUILD_FACTOR: usize = 5;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "sadd",
        group: Group::Set,
        since: "1.0.0",
        summary: "Adds one or more members to a set. Creates the key if it doesn't exist.",
        complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::SET,
        keys: &[KeySpec::range(key::RW | key::INSERT, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("member").multiple()],
        history: &[("2.4.0", "Accepts multiple `member` arguments.")],
        run: Some(sadd),
        ..Command::DEFAULT
    },
    Command {
        name: "scard",
        group: Group::Set,
        since: "1.0.0",
        summary: "Returns the number of members in a set.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        acl: acl::SET,
        keys: &[KeySpec::range(key::RO, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        run: Some(scard),
        ..Command::DEFAULT
    },
    Command {
        name: "sismember",
        group: Group::Set,
        since: "1.0.0",
        summary: "Determines whether a member belongs to a set.",
        complexity: "O(1)",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        acl: acl::SET,
        keys: &[KeySpec::range(key::RO, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("member")],
        run: Some(sismember),
        ..Command::DEFAULT
    },
    Command {
        name: "smismember",
        group: Group::Set,
        since: "6.2.0",
        summary: "Determines whether multiple members belong to a set.",
        complexity: "O(N) where N is the number of elements being checked for membership",
        arity: -3,
        flags: flag::READONLY | flag::FAST,
        acl: acl::SET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("member").multiple()],
        run: Some(smismember),
        ..Command::DEFAULT
    },
    Command {
        name: "smove",
        group: Group::Set,
        since: "1.0.0",
        summary: "Moves a member from one set to another.",
        complexity: "O(1)",
        arity: 4,
        flags: flag::WRITE | flag::FAST,
        acl: acl::SET,
        keys: &[
            KeySpec::range(key::RW | key::ACCESS | key::DELETE, 1, 0, 1),
            KeySpec::range(key::RW | key::INSERT, 2, 0, 1),
        ],
        args: &[Arg::key("source", 0), Arg::key("destination", 1), Arg::string("member")],
        run: Some(smove),
        ..Command::DEFAULT
    },
    Command {
        name: "spop",
        group: Group::Set,
        since: "1.0.0",
        summary: "Returns one or more random members from a set after removing them. Deletes the set if the last member was popped.",
        complexity: "Without the count argument O(1), otherwise O(N) where N is the value of the passed count.",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        acl: acl::SET,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::DELETE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("count").since("3.2.0").optional()],
        history: &[("3.2.0", "Added the `count` argument.")],
        tips: &["nondeterministic_output"],
        run: Some(spop),
        ..Command::DEFAULT
    },
    Command {
        name: "srandmember",
        group: Group::Set,
        since: "1.0.0",
        summary: "Get one or multiple random members from a set",
        complexity: "Without the count argument O(1), otherwise O(N) where N is the absolute value of the passed count.",
        arity: -2,
        flags: flag::READONLY,
        acl: acl::SET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("count").since("2.6.0").optional()],
        history: &[("2.6.0", "Added the optional `count` argument.")],
        tips: &["nondeterministic_output"],
        run: Some(srandmember),
        ..Command::DEFAULT
    },
    Command {
        name: "srem",
        group: Group::Set,
        since: "1.0.0",
        summary: "Removes one or more members from a set. Deletes the set if the last member was removed.",
        complexity: "O(N) where N is the number of members to be removed.",
        arity: -3,
        flags: flag::WRITE | flag::FAST,
        acl: acl::SET,
        keys: &[KeySpec::range(key::RW | key::DELETE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("member").multiple()],
        history: &[("2.4.0", "Accepts multiple `member` arguments.")],
        run: Some(srem),
        ..Command::DEFAULT
    },
    Command {
        name: "sscan",
        group: Group::Set,
        since: "2.8.0",
        summary: "Iterates over members of a set.",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
        arity: -3,
        flags: flag::READONLY,
        acl: acl::SET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: SCAN_ARGS,
        tips: &["nondeterministic_output"],
        run: Some(sscan),
        ..Command::DEFAULT
    },
];

fn sadd(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (key, limits, args) = (ctx.arg(1), ctx.set_limits(), ctx.args);
    let members = args.len() - 2;
    let mut set = ctx.keys.set_or_new(key, |key| for_members(key, args.get(2), members, &limits))?;
    set.prepare(members, &limits)?;
    let mut added = 0;
    let mut outcome: Result<(), Error> = Ok(());
    for member in args.iter_from(2) {
        match set.add(member, &limits) {
            Ok(new) => added += usize::from(new),
            Err(error) => {
                outcome = Err(error.into());
                break;
            }
        }
    }
    let empty = set.view().is_empty();
    if added > 0 {
        ctx.keys.modified_by(key, added);
        ctx.keys.notify(event::SET, "sadd", key);
    } else if empty {
        ctx.keys.remove(key);
    }
    outcome?;
    ctx.reply.count(added);
    Ok(())
}

fn srem(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let key = ctx.arg(1);
    let Some(mut set) = ctx.keys.set_mut(key)? else {
        ctx.reply.int(0);
        return Ok(());
    };
    let removed = ctx.args.iter_from(2).filter(|member| set.remove(member)).count();
    let empty = set.view().is_empty();
    if removed > 0 {
        ctx.keys.modified_by(key, removed);
        ctx.keys.notify(event::SET, "srem", key);
        if empty {
            ctx.keys.remove(key);
            ctx.keys.notify(event::GENERIC, "del", key);
        }
    }
    ctx.reply.count(removed);
    Ok(())
}

fn smove(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (source, destination, member) = (ctx.arg(1), ctx.arg(2), ctx.arg(3));
    let limits = ctx.set_limits();
    // Both are looked up, whatever they are, and that is their use.
    ctx.keys.find_for_use(source);
    if source == destination {
        ctx.keys.use_again();
    }
    ctx.keys.find_for_use(destination);
    ctx.keys.touch = false;
    let Some(set) = ctx.keys.set_mut(source)? else {
        ctx.reply.int(0);
        return Ok(());
    };
    let there = set.view().contains(member);
    ctx.keys.set_mut(destination)?;
    if !there || source == destination {
        ctx.reply.count(usize::from(there));
        return Ok(());
    }
    // Added first: there may be no memory for it. That the key is new is said later.
    let events = ctx.keys.space.events.len();
    let mut target = ctx.keys.set_or_new(destination, |key| for_members(key, member, 1, &limits))?;
    let added = target.add(member, &limits);
    if added.is_err() && target.view().is_empty() {
        ctx.keys.remove(destination);
    }
    let added = added?;
    let new = ctx.keys.space.events.len() - events;
    let Some(mut set) = ctx.keys.set_mut(source)? else { return Ok(()) };
    set.remove(member);
    let empty = set.view().is_empty();
    ctx.keys.notify(event::SET, "srem", source);
    if empty {
        ctx.keys.remove(source);
        ctx.keys.notify(event::GENERIC, "del", source);
    }
    ctx.keys.space.events[events..].rotate_left(new);
    ctx.keys.modified(source);
    if added {
        ctx.keys.modified(destination);
        ctx.keys.notify(event::SET, "sadd", destination);
    }
    ctx.reply.int(1);
    Ok(())
}

fn sismember(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let member = ctx.arg(2);
    let there = ctx.keys.set(ctx.args.get(1))?.is_some_and(|s| s.contains(member));
    ctx.reply.count(usize::from(there));
    Ok(())
}

fn smismember(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let set = ctx.keys.set(ctx.args.get(1))?;
    let members = ctx.args.iter_from(2);
    ctx.reply.array(members.len());
    for member in members {
        ctx.reply.count(usize::from(set.is_some_and(|s| s.contains(member))));
    }
    Ok(())
}

fn scard(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let len = ctx.keys.set(ctx.args.get(1))?.map_or(0, SetRef::len);
    ctx.reply.count(len);
    Ok(())
}

fn spop(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let key = ctx.arg(1);
    match ctx.argc() {
        2 => {}
        3 => return spop_count(ctx),
        _ => return Err(Error::Syntax),
    }
    let Some(mut set) = ctx.keys.set_mut(key)? else {
        ctx.reply.null();
        return Ok(());
    };
    let Some(member) = set.pop(&mut ctx.core.rng)? else { return Ok(()) };
    let empty = set.view().is_empty();
    ctx.keys.notify(event::SET, "spop", key);
    ctx.keys.effect(&[b"SREM", key, &member]);
    ctx.reply.bulk(&member);
    if empty {
        ctx.keys.remove(key);
        ctx.keys.notify(event::GENERIC, "del", key);
    }
    ctx.keys.modified(key);
    Ok(())
}

fn spop_count(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (key, limits) = (ctx.arg(1), ctx.set_limits());
    let count = ctx.count_or(2, NOT_POSITIVE)?;
    let Some(mut set) = ctx.keys.set_mut(key)?.filter(|_| count > 0) else {
        ctx.reply.set(0);
        return Ok(());
    };
    let len = set.view().len();
    if count >= len {
        reply_members(&mut ctx.reply, set.view());
        // All of it is a union of one set, which reads it.
        ctx.keys.space.stats.hits += 1;
        ctx.keys.notify(event::SET, "spop", key);
        ctx.keys.remove(key);
        ctx.keys.notify(event::GENERIC, "del", key);
        ctx.keys.effect(&[b"DEL", key]);
        ctx.keys.modified_by(key, len);
        return Ok(());
    }
    let mut gone: Vec<Vec<u8>> = Vec::new();
    gone.try_reserve_exact(count)?;
    for member in set.view().sample(count, &mut ctx.core.rng)? {
        gone.push(member.try_to_vec()?);
    }
    for member in &gone {
        set.remove(member);
    }
    if (len - count) * REBUILD_FACTOR <= count {
        set.compacted(&limits)?;
    }
    ctx.reply.set(gone.len());
    gone.iter().for_each(|member| ctx.reply.bulk(member));
    ctx.keys.notify(event::SET, "spop", key);
    for batch in gone.chunks(EFFECT_BATCH) {
        let args: Vec<&[u8]> = [b"SREM", key].into_iter().chain(batch.iter().map(Vec::as_slice)).collect();
        ctx.keys.effect(&args);
    }
    ctx.keys.modified_by(key, gone.len());
    Ok(())
}

/// All members as a set.
pub(super) fn reply_members(reply: &mut Reply<'_>, set: SetRef<'_>) {
    reply.set(set.len());
    set.iter().for_each(|member| reply.entry(member));
}

fn srandmember(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    match ctx.argc() {
        2 => {
            match ctx.keys.set(ctx.args.get(1))?.and_then(|s| s.random(&mut ctx.core.rng)) {
                Some(member) => ctx.reply.entry(member),
                None => ctx.reply.null(),
            }
            return Ok(());
        }
        3 => {}
        _ => return Err(Error::Syntax),
    }
    let count = ctx.int_in(2, -i64::MAX, i64::MAX)?;
    let n = count.unsigned_abs() as usize;
    let Some(set) = ctx.keys.set(ctx.args.get(1))?.filter(|s| n > 0 && !s.is_empty()) else {
        ctx.reply.array(0);
        return Ok(());
    };
    if count < 0 {
        // As many as were asked for, unless the client has long since lost its chance of getting them.
        ctx.reply.array(n);
        for _ in 0..n {
            let Some(member) = set.random(&mut ctx.core.rng) else { break };
            ctx.reply.entry(member);
            if ctx.reply.out.overflowed() {
                break;
            }
        }
    } else {
        let members: Vec<Entry<'_>> = set.sample(n, &mut ctx.core.rng)?;
        ctx.reply.array(members.len());
        members.into_iter().for_each(|member| ctx.reply.entry(member));
    }
    Ok(())
}

fn sscan(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let cursor = scan_cursor(ctx.arg(2))?;
    let Some(set) = ctx.keys.set(ctx.args.get(1))? else {
        scan_reply(&mut ctx.reply, |_| (0, 0));
        return Ok(());
    };
    let options = ScanOptions::parse(ctx.args, 3)?;
    scan_reply(&mut ctx.reply, |reply| {
        let mut n = 0;
        let next = set.scan(cursor, options.count, |member| {
            if options.matches(member) {
                reply.entry(member);
                n += 1;
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
    fn pops_are_random_members_and_compact_the_set() {
        let mut b = Bench::new(&[("set-max-intset-entries", "10"), ("set-max-listpack-entries", "10")]);
        let c = b.client();
        for i in 0..200 {
            b.run(c, &alloc::format!("SADD s {i}"));
        }
        assert_eq!(b.encoding("s"), "hashtable");
        b.run(c, "SPOP s 100");
        assert_eq!((b.encoding("s"), b.run(c, "SCARD s").as_str()), ("hashtable", "100"));
        b.run(c, "SPOP s 95");
        assert_eq!((b.encoding("s"), b.run(c, "SCARD s").as_str()), ("listpack", "5"));
        b.run(c, "SPOP s 9");
        assert_eq!(b.encoding("s"), "none");
        assert_eq!(b.run(c, "SPOP s 2"), "[]");
        assert_eq!(b.run(c, "SPOP s"), "nil");
    }

    #[test]
    fn moves_between_sets() {
        let mut b = Bench::new(&[]);
        let c = b.client();
        b.run(c, "SADD a x");
        assert_eq!(b.run(c, "SMOVE a b y"), "0");
        assert_eq!(b.run(c, "SMOVE a a x"), "1");
        assert_eq!(b.run(c, "SMOVE a b x"), "1");
        assert_eq!((b.encoding("a"), b.encoding("b")), ("none", "listpack"));
    }
}
