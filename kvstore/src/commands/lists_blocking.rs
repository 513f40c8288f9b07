//! Commands on lists that wait for an element.

use super::lists::{end_at, move_element, mpop_args, pop_first};
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::types::list::End;
use crate::value::Type;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "blmove",
        group: Group::List,
        since: "6.2.0",
        summary: "Pops an element from a list, pushes it to another list and returns it. Blocks until an element is available otherwise. Deletes the list if the last element was moved.",
        complexity: "O(1)",
        arity: 6,
        flags: flag::WRITE | flag::DENYOOM | flag::BLOCKING,
        acl: acl::LIST,
        keys: &[
            KeySpec::range(key::RW | key::ACCESS | key::DELETE, 1, 0, 1),
            KeySpec::range(key::RW | key::INSERT, 2, 0, 1),
        ],
        args: &[
            Arg::key("source", 0),
            Arg::key("destination", 1),
            Arg::one_of("wherefrom", &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")]),
            Arg::one_of("whereto", &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")]),
            Arg::double("timeout"),
        ],
        run: Some(blmove),
        ..Command::DEFAULT
    },
    Command {
        name: "blmpop",
        group: Group::List,
        since: "7.0.0",
        summary: "Pops the first element from one of multiple lists. Blocks until an element is available otherwise. Deletes the list if the last element was popped.",
        complexity: "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
        arity: -5,
        flags: flag::WRITE | flag::BLOCKING,
        acl: acl::LIST,
        keys: &[KeySpec::count(key::RW | key::ACCESS | key::DELETE, 2)],
        args: &[
            Arg::double("timeout"),
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::one_of("where", &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")]),
            Arg::integer("count").token("COUNT").optional(),
        ],
        run: Some(blmpop),
        ..Command::DEFAULT
    },
    Command {
        name: "blpop",
        group: Group::List,
        since: "2.0.0",
        summary: "Removes and returns the first element in a list. Blocks until an element is available otherwise. Deletes the list if the last element was popped.",
        complexity: "O(N) where N is the number of provided keys.",
        arity: -3,
        flags: flag::WRITE | flag::BLOCKING,
        acl: acl::LIST,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::DELETE, 1, -2, 1)],
        args: &[Arg::key("key", 0).multiple(), Arg::double("timeout")],
        history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
        run: Some(blpop),
        ..Command::DEFAULT
    },
    Command {
        name: "brpop",
        group: Group::List,
        since: "2.0.0",
        summary: "Removes and returns the last element in a list. Blocks until an element is available otherwise. Deletes the list if the last element was popped.",
        complexity: "O(N) where N is the number of provided keys.",
        arity: -3,
        flags: flag::WRITE | flag::BLOCKING,
        acl: acl::LIST,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::DELETE, 1, -2, 1)],
        args: &[Arg::key("key", 0).multiple(), Arg::double("timeout")],
        history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
        run: Some(brpop),
        ..Command::DEFAULT
    },
    Command {
        name: "brpoplpush",
        group: Group::List,
        since: "2.2.0",
        summary: "Pops an element from a list, pushes it to another list and returns it. Block until an element is available otherwise. Deletes the list if the last element was popped.",
        complexity: "O(1)",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::BLOCKING,
        acl: acl::LIST,
        keys: &[
            KeySpec::range(key::RW | key::ACCESS | key::DELETE, 1, 0, 1),
            KeySpec::range(key::RW | key::INSERT, 2, 0, 1),
        ],
        args: &[Arg::key("source", 0), Arg::key("destination", 1), Arg::double("timeout")],
        history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
        deprecated_since: "6.2.0",
        replaced_by: "`BLMOVE` with the `RIGHT` and `LEFT` arguments",
        run: Some(brpoplpush),
        ..Command::DEFAULT
    },
];

/// Pops an element off the first key that has one, or waits.
fn pop(ctx: &mut Ctx<'_>, end: End) -> Result<(), Error> {
    let last = ctx.argc() - 1;
    let until = ctx.timeout(last)?;
    if pop_first(ctx, 1..last, end, None)? { Ok(()) } else { ctx.block(Type::List, 1..last, until, false) }
}

fn blpop(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    pop(ctx, End::Left)
}

fn brpop(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    pop(ctx, End::Right)
}

fn blmpop(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (keys, end, count) = mpop_args(ctx, 2)?;
    let until = ctx.timeout(1)?;
    if pop_first(ctx, keys.clone(), end, Some(count))? { Ok(()) } else { ctx.block(Type::List, keys, until, false) }
}

fn blmove(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (from, to) = (end_at(ctx, 3)?, end_at(ctx, 4)?);
    let until = ctx.timeout(5)?;
    if !move_element(ctx, from, to)? {
        return ctx.block(Type::List, [1], until, true);
    }
    let args = [b"LMOVE", ctx.arg(1), ctx.arg(2), ctx.arg(3), ctx.arg(4)];
    ctx.effect(&args);
    Ok(())
}

fn brpoplpush(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let until = ctx.timeout(3)?;
    if !move_element(ctx, End::Right, End::Left)? {
        return ctx.block(Type::List, [1], until, true);
    }
    let args = [b"RPOPLPUSH", ctx.arg(1), ctx.arg(2)];
    ctx.effect(&args);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn waiters_are_served_in_their_order_whoever_writes() {
        let mut b = Bench::new(&[]);
        let (first, second, writer) = (b.client(), b.client(), b.client());
        assert_eq!(b.run(first, "BLPOP q other 0"), "");
        assert_eq!(b.run(second, "BRPOP q 0"), "");
        assert_eq!(b.run(writer, "RPUSH q a b c"), "3");
        assert_eq!(b.read(first), "[q a]");
        assert_eq!(b.read(second), "[q c]");
        assert_eq!(b.run(writer, "LRANGE q 0 -1"), "[b]");
        assert_eq!(b.run(first, "BLMPOP 0 2 none p RIGHT COUNT 2"), "");
        assert_eq!(b.run(writer, "RENAME q p"), "OK");
        assert_eq!(b.read(first), "[p [b]]");
        assert_eq!(b.run(first, "BLPOP sorted 0"), "");
        b.run(writer, "SADD numbers 2 1");
        assert_eq!(b.run(writer, "SORT numbers STORE sorted"), "2");
        assert_eq!(b.read(first), "[sorted 1]");
    }

    #[test]
    fn chains_of_moves_complete_at_once() {
        let mut b = Bench::new(&[]);
        let (one, two, writer) = (b.client(), b.client(), b.client());
        assert_eq!(b.run(one, "BLMOVE a b LEFT RIGHT 0"), "");
        assert_eq!(b.run(two, "BRPOPLPUSH b c 0"), "");
        assert_eq!(b.run(writer, "LPUSH a v"), "1");
        assert_eq!(b.run(writer, "LRANGE c 0 -1"), "[v]");
        assert_eq!((b.read(one), b.read(two)), ("v".into(), "v".into()));
    }

    #[test]
    fn a_wait_ends_with_the_time_and_not_with_another_type() {
        let mut b = Bench::new(&[]);
        let (waiter, writer) = (b.client(), b.client());
        assert_eq!(b.run(waiter, "BLPOP q 0.5"), "");
        b.run(writer, "SADD q member");
        b.pass_ms(400);
        assert_eq!(b.read(waiter), "");
        b.pass_ms(200);
        assert_eq!(b.read(waiter), "nil");
        assert_eq!(b.run(waiter, "BLPOP none -1"), "-ERR timeout is negative");
        assert_eq!(b.run(waiter, "BLMOVE none q LEFT UP 0"), "-ERR syntax error");
        assert!(b.run(waiter, "BLPOP q 0").starts_with("-WRONGTYPE"));
    }
}
