//! Commands on lists that answer at once; those that wait are in [`lists_blocking`](super::lists_blocking).

use super::collection::{NOT_POSITIVE, range};
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::keyspace::{Keys, event};
use crate::reply::{Aggregate, Reply};
use crate::types::list::{End, List, NodeLimit, Run};

/// Copies of elements beyond this size are made only if there is memory for them twice.
const LARGE_ELEMENT: usize = 8192;

/// What an element takes beside its own bytes, at most, when it is one of many.
const ENTRY_COST: usize = 16;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "lindex",
        group: Group::List,
        since: "1.0.0",
        summary: "Returns an element from a list by its index.",
        complexity: "O(N) where N is the number of elements to traverse to get to the element at index. This makes asking for the first or the last element of the list O(1).",
        arity: 3,
        flags: flag::READONLY,
        acl: acl::LIST,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("index")],
        run: Some(lindex),
        ..Command::DEFAULT
    },
    Command {
        name: "linsert",
        group: Group::List,
        since: "2.2.0",
        summary: "Inserts an element before or after another element in a list.",
        complexity: "O(N) where N is the number of elements to traverse before seeing the value pivot. This means that inserting somewhere on the left end on the list (head) can be considered O(1) and inserting somewhere on the right end (tail) is O(N).",
        arity: 5,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::LIST,
        keys: &[KeySpec::range(key::RW | key::INSERT, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::one_of("where", &[Arg::word("before", "BEFORE"), Arg::word("after", "AFTER")]),
            Arg::string("pivot"),
            Arg::string("element"),
        ],
        run: Some(linsert),
        ..Command::DEFAULT
    },
    Command {
        name: "llen",
        group: Group::List,
        since: "1.0.0",
        summary: "Returns the length of a list.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        acl: acl::LIST,
        keys: &[KeySpec::range(key::RO, 1, 0, 1)],
        args: &[Arg::key("key", 0)],
        run: Some(llen),
        ..Command::DEFAULT
    },
    Command {
        name: "lmove",
        group: Group::List,
        since: "6.2.0",
        summary: "Returns an element after popping it from one list and pushing it to another. Deletes the list if the last element was moved.",
        complexity: "O(1)",
        arity: 5,
        flags: flag::WRITE | flag::DENYOOM,
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
        ],
        run: Some(lmove),
        ..Command::DEFAULT
    },
    Command {
        name: "lmpop",
        group: Group::List,
        since: "7.0.0",
        summary: "Returns multiple elements from a list after removing them. Deletes the list if the last element was popped.",
        complexity: "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
        arity: -4,
        flags: flag::WRITE,
        acl: acl::LIST,
        keys: &[KeySpec::count(key::RW | key::ACCESS | key::DELETE, 1)],
        args: &[
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::one_of("where", &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")]),
            Arg::integer("count").token("COUNT").optional(),
        ],
        run: Some(lmpop),
        ..Command::DEFAULT
    },
    Command {
        name: "lpop",
        group: Group::List,
        since: "1.0.0",
        summary: "Returns the first elements in a list after removing it. Deletes the list if the last element was popped.",
        complexity: "O(N) where N is the number of elements returned",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        acl: acl::LIST,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::DELETE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("count").since("6.2.0").optional()],
        history: &[("6.2.0", "Added the `count` argument.")],
        run: Some(lpop),
        ..Command::DEFAULT
    },
    Command {
        name: "lpos",
        group: Group::List,
        since: "6.0.6",
        summary: "Returns the index of matching elements in a list.",
        complexity: "O(N) where N is the number of elements in the list, for the average case. When searching for elements near the head or the tail of the list, or when the MAXLEN option is provided, the command may run in constant time.",
        arity: -3,
        flags: flag::READONLY,
        acl: acl::LIST,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[
            Arg::key("key", 0),
            Arg::string("element"),
            Arg::integer("rank").token("RANK").optional(),
            Arg::integer("num-matches").token("COUNT").optional(),
            Arg::integer("len").token("MAXLEN").optional(),
        ],
        run: Some(lpos),
        ..Command::DEFAULT
    },
    Command {
        name: "lpush",
        group: Group::List,
        since: "1.0.0",
        summary: "Prepends one or more elements to a list. Creates the key if it doesn't exist.",
        complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::LIST,
        keys: &[KeySpec::range(key::RW | key::INSERT, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("element").multiple()],
        history: &[("2.4.0", "Accepts multiple `element` arguments.")],
        run: Some(lpush),
        ..Command::DEFAULT
    },
    Command {
        name: "lpushx",
        group: Group::List,
        since: "2.2.0",
        summary: "Prepends one or more elements to a list only when the list exists.",
        complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::LIST,
        keys: &[KeySpec::range(key::RW | key::INSERT, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("element").multiple()],
        history: &[("4.0.0", "Accepts multiple `element` arguments.")],
        run: Some(lpushx),
        ..Command::DEFAULT
    },
    Command {
        name: "lrange",
        group: Group::List,
        since: "1.0.0",
        summary: "Returns a range of elements from a list.",
        complexity: "O(S+N) where S is the distance of start offset from HEAD for small lists, from nearest end (HEAD or TAIL) for large lists; and N is the number of elements in the specified range.",
        arity: 4,
        flags: flag::READONLY,
        acl: acl::LIST,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("start"), Arg::integer("stop")],
        run: Some(lrange),
        ..Command::DEFAULT
    },
    Command {
        name: "lrem",
        group: Group::List,
        since: "1.0.0",
        summary: "Removes elements from a list. Deletes the list if the last element was removed.",
        complexity: "O(N+M) where N is the length of the list and M is the number of elements removed.",
        arity: 4,
        flags: flag::WRITE,
        acl: acl::LIST,
        keys: &[KeySpec::range(key::RW | key::DELETE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("count"), Arg::string("element")],
        run: Some(lrem),
        ..Command::DEFAULT
    },
    Command {
        name: "lset",
        group: Group::List,
        since: "1.0.0",
        summary: "Sets the value of an element in a list by its index.",
        complexity: "O(N) where N is the length of the list. Setting either the first or the last element of the list is O(1).",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::LIST,
        keys: &[KeySpec::range(key::RW | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("index"), Arg::string("element")],
        run: Some(lset),
        ..Command::DEFAULT
    },
    Command {
        name: "ltrim",
        group: Group::List,
        since: "1.0.0",
        summary: "Removes elements from both ends a list. Deletes the list if all elements were trimmed.",
        complexity: "O(N) where N is the number of elements to be removed by the operation.",
        arity: 4,
        flags: flag::WRITE,
        acl: acl::LIST,
        keys: &[KeySpec::range(key::RW | key::DELETE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("start"), Arg::integer("stop")],
        run: Some(ltrim),
        ..Command::DEFAULT
    },
    Command {
        name: "rpop",
        group: Group::List,
        since: "1.0.0",
        summary: "Returns and removes the last elements of a list. Deletes the list if the last element was popped.",
        complexity: "O(N) where N is the number of elements returned",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        acl: acl::LIST,
        keys: &[KeySpec::range(key::RW | key::ACCESS | key::DELETE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::integer("count").since("6.2.0").optional()],
        history: &[("6.2.0", "Added the `count` argument.")],
        run: Some(rpop),
        ..Command::DEFAULT
    },
    Command {
        name: "rpoplpush",
        group: Group::List,
        since: "1.2.0",
        summary: "Returns the last element of a list after removing and pushing it to another list. Deletes the list if the last element was popped.",
        complexity: "O(1)",
        arity: 3,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::LIST,
        keys: &[
            KeySpec::range(key::RW | key::ACCESS | key::DELETE, 1, 0, 1),
            KeySpec::range(key::RW | key::INSERT, 2, 0, 1),
        ],
        args: &[Arg::key("source", 0), Arg::key("destination", 1)],
        deprecated_since: "6.2.0",
        replaced_by: "`LMOVE` with the `RIGHT` and `LEFT` arguments",
        run: Some(rpoplpush),
        ..Command::DEFAULT
    },
    Command {
        name: "rpush",
        group: Group::List,
        since: "1.0.0",
        summary: "Appends one or more elements to a list. Creates the key if it doesn't exist.",
        complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::LIST,
        keys: &[KeySpec::range(key::RW | key::INSERT, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("element").multiple()],
        history: &[("2.4.0", "Accepts multiple `element` arguments.")],
        run: Some(rpush),
        ..Command::DEFAULT
    },
    Command {
        name: "rpushx",
        group: Group::List,
        since: "2.2.0",
        summary: "Appends an element to a list only when the list exists.",
        complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        acl: acl::LIST,
        keys: &[KeySpec::range(key::RW | key::INSERT, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("element").multiple()],
        history: &[("4.0.0", "Accepts multiple `element` arguments.")],
        run: Some(rpushx),
        ..Command::DEFAULT
    },
];

/// An argument LEFT or RIGHT.
pub(super) fn end_at(ctx: &Ctx<'_>, index: usize) -> Result<End, Error> {
    if ctx.args.is(index, "left") {
        Ok(End::Left)
    } else if ctx.args.is(index, "right") {
        Ok(End::Right)
    } else {
        Err(Error::Syntax)
    }
}

/// Appends the arguments from `first` on to a list; all or none of them.
fn push_args(
    list: &mut List,
    ctx_args: crate::session::args::Args<'_>,
    first: usize,
    end: End,
    limit: NodeLimit,
) -> Result<(), Error> {
    let elements = ctx_args.iter_from(first);
    let count = elements.len();
    list.prepare(limit, count, elements.map(<[u8]>::len).sum());
    for (pushed, element) in ctx_args.iter_from(first).enumerate() {
        if let Err(error) = list.push(end, element) {
            list.delete_end(end, pushed);
            return Err(error.into());
        }
    }
    Ok(())
}

fn push(ctx: &mut Ctx<'_>, end: End, only_existing: bool) -> Result<(), Error> {
    let key = ctx.arg(1);
    let limit = ctx.list_limit();
    // Nodes grow by a few bytes at a time, but how many of them a client asks for is up to it.
    if !ctx.affordable(ctx.args.iter_from(2).map(|element| element.len() + ENTRY_COST).sum()) {
        return Err(Error::OutOfMemory);
    }
    let len = if only_existing {
        let Some(list) = ctx.keys.list_mut(key)? else {
            ctx.reply.int(0);
            return Ok(());
        };
        push_args(list, ctx.args, 2, end, limit)?;
        list.len()
    } else {
        let list = ctx.keys.list_or_new(key, List::new)?;
        if let Err(error) = push_args(list, ctx.args, 2, end, limit) {
            if list.is_empty() {
                ctx.keys.remove(key);
            }
            return Err(error);
        }
        list.len()
    };
    ctx.keys.modified_by(key, ctx.argc() - 2);
    ctx.keys.notify(event::LIST, if end == End::Left { "lpush" } else { "rpush" }, key);
    ctx.reply.count(len);
    Ok(())
}

fn lpush(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    push(ctx, End::Left, false)
}

fn rpush(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    push(ctx, End::Right, false)
}

fn lpushx(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    push(ctx, End::Left, true)
}

fn rpushx(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    push(ctx, End::Right, true)
}

fn linsert(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (key, pivot, element) = (ctx.arg(1), ctx.arg(3), ctx.arg(4));
    let after = if ctx.args.is(2, "after") {
        true
    } else if ctx.args.is(2, "before") {
        false
    } else {
        return Err(Error::Syntax);
    };
    let limit = ctx.list_limit();
    let Some(list) = ctx.keys.list_mut(key)? else {
        ctx.reply.int(0);
        return Ok(());
    };
    // As Redis does, before it knows whether the pivot is there.
    list.prepare(limit, 1, element.len());
    let Some(index) = list.position(pivot) else {
        ctx.reply.int(-1);
        return Ok(());
    };
    list.insert(index, after, element)?;
    let len = list.len();
    ctx.keys.modified(key);
    ctx.keys.notify(event::LIST, "linsert", key);
    ctx.reply.count(len);
    Ok(())
}

fn llen(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let len = ctx.keys.list(ctx.args.get(1))?.map_or(0, List::len);
    ctx.reply.count(len);
    Ok(())
}

fn lindex(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let index = ctx.int(2);
    let Some(list) = ctx.keys.list(ctx.args.get(1))? else {
        ctx.reply.null();
        return Ok(());
    };
    match list.index(index?).and_then(|i| list.get(i)) {
        Some(entry) => ctx.reply.entry(entry),
        None => ctx.reply.null(),
    }
    Ok(())
}

fn lset(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (key, element) = (ctx.arg(1), ctx.arg(3));
    let (limit, index) = (ctx.list_limit(), ctx.int(2));
    let list = ctx.keys.list_mut(key)?.ok_or(Error::NoSuchKey)?;
    let index = index?;
    list.prepare(limit, 1, element.len());
    let index = list.index(index).ok_or(Error::IndexOutOfRange)?;
    list.replace(index, element)?;
    list.shrunk(limit);
    ctx.keys.modified(key);
    ctx.keys.notify(event::LIST, "lset", key);
    ctx.reply.ok();
    Ok(())
}

/// Up to `n` elements from one end as an array, in the order in which they would be popped.
fn reply_end(reply: &mut Reply<'_>, list: &List, end: End, n: usize) {
    match end {
        End::Left => reply_range(reply, list, 0, n.min(list.len())),
        End::Right => {
            let n = n.min(list.len());
            reply.array(n);
            list.iter_back().take(n).for_each(|entry| reply.entry(entry));
        }
    }
}

/// `n` elements from `first` on, which must exist, as an array.
fn reply_range(reply: &mut Reply<'_>, list: &List, first: usize, n: usize) {
    reply.array(n);
    list.runs(first, n, |run| match run {
        Run::Packed(mut cursor, n) => reply.entries(&mut cursor, n),
        Run::Plain(element) => reply.bulk(element),
    });
}

/// What follows when elements were popped off a list.
fn popped(
    keys: &mut Keys<'_>,
    key: &[u8],
    end: End,
    limit: NodeLimit,
    emptied: bool,
    changes: usize,
) -> Result<(), Error> {
    keys.notify(event::LIST, if end == End::Left { "lpop" } else { "rpop" }, key);
    shrunk_or_removed(keys, key, limit, emptied, changes)
}

/// What follows when elements were removed: an emptied list goes (its elements, if they are still there, are freed step by
/// step), another may change its encoding.
fn shrunk_or_removed(
    keys: &mut Keys<'_>,
    key: &[u8],
    limit: NodeLimit,
    emptied: bool,
    changes: usize,
) -> Result<(), Error> {
    if emptied {
        keys.remove(key);
        keys.notify(event::GENERIC, "del", key);
    } else if let Some(list) = keys.list_mut(key)? {
        list.shrunk(limit);
    }
    keys.modified_by(key, changes);
    Ok(())
}

fn pop(ctx: &mut Ctx<'_>, end: End) -> Result<(), Error> {
    let key = ctx.arg(1);
    let count = match ctx.argc() {
        2 => None,
        3 => Some(ctx.count_or(2, NOT_POSITIVE)?),
        _ => return Err(ctx.wrong_arity()),
    };
    let limit = ctx.list_limit();
    let Some(list) = ctx.keys.list_mut(key)? else {
        if count.is_some() {
            ctx.reply.null_array()
        } else {
            ctx.reply.null()
        }
        return Ok(());
    };
    match count {
        Some(0) => {
            ctx.reply.array(0);
            Ok(())
        }
        Some(n) => {
            reply_end(&mut ctx.reply, list, end, n);
            let n = n.min(list.len());
            let emptied = n == list.len();
            if !emptied {
                list.delete_end(end, n);
            }
            popped(&mut ctx.keys, key, end, limit, emptied, n)
        }
        None => {
            match list.peek(end) {
                Some(entry) => ctx.reply.entry(entry),
                None => ctx.reply.null(),
            }
            list.pop(end);
            if list.is_empty() {
                return popped(&mut ctx.keys, key, end, limit, true, 1);
            }
            list.shrunk(limit);
            ctx.keys.notify(event::LIST, if end == End::Left { "lpop" } else { "rpop" }, key);
            ctx.keys.modified(key);
            Ok(())
        }
    }
}

fn lpop(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    pop(ctx, End::Left)
}

fn rpop(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    pop(ctx, End::Right)
}

/// Pops the first non-empty list among the key arguments; false if there is none. Up to `count` elements with the key's
/// name around them, or, without a count, key and element.
pub(super) fn pop_first(
    ctx: &mut Ctx<'_>,
    keys: core::ops::Range<usize>,
    end: End,
    count: Option<usize>,
) -> Result<bool, Error> {
    let limit = ctx.list_limit();
    for index in keys {
        let key = ctx.arg(index);
        let Some(list) = ctx.keys.list_mut(key)? else { continue };
        let name: &[u8] = if end == End::Left { b"LPOP" } else { b"RPOP" };
        ctx.reply.array(2);
        ctx.reply.bulk(key);
        let len = list.len();
        let popped_count = match count {
            Some(n) => {
                let n = n.min(len);
                reply_end(&mut ctx.reply, list, end, n);
                if n < len {
                    list.delete_end(end, n);
                }
                Some(n)
            }
            None => {
                match list.peek(end) {
                    Some(entry) => ctx.reply.entry(entry),
                    None => ctx.reply.null(),
                }
                list.pop(end);
                None
            }
        };
        let n = popped_count.unwrap_or(1);
        popped(&mut ctx.keys, key, end, limit, n == len, n)?;
        match popped_count {
            Some(n) => {
                let mut buf = [0; crate::number::I64_CHARS];
                ctx.keys.effect(&[name, key, crate::number::format_u64(&mut buf, n as u64)]);
            }
            None => ctx.keys.effect(&[name, key]),
        }
        return Ok(true);
    }
    Ok(false)
}

/// Keys, end and count of LMPOP and BLMPOP, whose number of keys is argument `at`.
pub(super) fn mpop_args(ctx: &Ctx<'_>, at: usize) -> Result<(core::ops::Range<usize>, End, usize), Error> {
    let numkeys = ctx.numkeys(at)?;
    let end_index = numkeys.checked_add(at + 1).filter(|&i| i < ctx.argc()).ok_or(Error::Syntax)?;
    let end = end_at(ctx, end_index)?;
    let mut count = None;
    let mut i = end_index + 1;
    while i < ctx.argc() {
        if count.is_some() || !ctx.args.is(i, "count") || i + 1 == ctx.argc() {
            return Err(Error::Syntax);
        }
        count = Some(ctx.int_or(i + 1, 1, i64::MAX, "ERR count should be greater than 0")? as usize);
        i += 2;
    }
    Ok((at + 1..end_index, end, count.unwrap_or(1)))
}

fn lmpop(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (keys, end, count) = mpop_args(ctx, 1)?;
    if !pop_first(ctx, keys, end, Some(count))? {
        ctx.reply.null_array();
    }
    Ok(())
}

fn lrange(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (start, end) = (ctx.int(2)?, ctx.int(3)?);
    let Some(list) = ctx.keys.list(ctx.args.get(1))? else {
        ctx.reply.array(0);
        return Ok(());
    };
    match range(start, end, list.len()) {
        Some((first, n)) => reply_range(&mut ctx.reply, list, first, n),
        None => ctx.reply.array(0),
    }
    Ok(())
}

fn ltrim(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let key = ctx.arg(1);
    let (start, end) = (ctx.int(2)?, ctx.int(3)?);
    let limit = ctx.list_limit();
    let Some(list) = ctx.keys.list_mut(key)? else {
        ctx.reply.ok();
        return Ok(());
    };
    let len = list.len();
    let (first, n) = range(start, end, len).unwrap_or((len, 0));
    if n > 0 {
        list.delete_end(End::Right, len - first - n);
        list.delete_end(End::Left, first);
    }
    ctx.keys.notify(event::LIST, "ltrim", key);
    // Trimming nothing breaks WATCHes all the same, but is nothing to log.
    shrunk_or_removed(&mut ctx.keys, key, limit, n == 0, len - n)?;
    ctx.reply.ok();
    Ok(())
}

/// What LPOS is asked for.
struct Search {
    rank: i64,
    count: Option<usize>,
    max_len: usize,
}

fn search_args(ctx: &Ctx<'_>) -> Result<Search, Error> {
    let mut search = Search { rank: 1, count: None, max_len: 0 };
    let mut i = 3;
    while i < ctx.argc() {
        let more = i + 1 < ctx.argc();
        if more && ctx.args.is(i, "rank") {
            search.rank = ctx.int_in(i + 1, -i64::MAX, i64::MAX)?;
            if search.rank == 0 {
                return Err(Error::Fixed(
                    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
                     or use negative to start from the end of the list",
                ));
            }
        } else if more && ctx.args.is(i, "count") {
            search.count = Some(ctx.count_or(i + 1, "ERR COUNT can't be negative")?);
        } else if more && ctx.args.is(i, "maxlen") {
            search.max_len = ctx.count_or(i + 1, "ERR MAXLEN can't be negative")?;
        } else {
            return Err(Error::Syntax);
        }
        i += 2;
    }
    Ok(search)
}

fn lpos(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let element = ctx.arg(2);
    let search = search_args(ctx)?;
    let Some(list) = ctx.keys.list(ctx.args.get(1))? else {
        if search.count.is_some() {
            ctx.reply.array(0)
        } else {
            ctx.reply.null()
        }
        return Ok(());
    };
    let number = crate::number::parse_i64(element);
    let depth = if search.max_len == 0 { usize::MAX } else { search.max_len };
    let mut skip = search.rank.unsigned_abs() - 1;
    let mut wanted = match search.count {
        None => 1,
        Some(0) => usize::MAX,
        Some(n) => n,
    };
    let reply = &mut ctx.reply;
    let deferred = search.count.map(|_| reply.defer());
    let mut found = 0;
    let len = list.len();
    // Stops by itself when enough were found.
    let mut look = |(i, hit): (usize, bool)| {
        if hit && skip > 0 {
            skip -= 1;
        } else if hit {
            reply.count(if search.rank > 0 { i } else { len - i - 1 });
            found += 1;
            wanted -= 1;
        }
        wanted > 0
    };
    if search.rank > 0 {
        list.iter().take(depth).map(|e| e.matches(element, number)).enumerate().all(&mut look);
    } else {
        list.iter_back().take(depth).map(|e| e.matches(element, number)).enumerate().all(&mut look);
    }
    match deferred {
        Some(at) => reply.end(at, Aggregate::Array, found),
        None if found == 0 => reply.null(),
        None => {}
    }
    Ok(())
}

fn lrem(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (key, element) = (ctx.arg(1), ctx.arg(3));
    let count = ctx.int_in(2, -i64::MAX, i64::MAX)?;
    let limit = ctx.list_limit();
    let Some(list) = ctx.keys.list_mut(key)? else {
        ctx.reply.int(0);
        return Ok(());
    };
    let max = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
    let removed = list.remove_equal(element, max, if count < 0 { End::Right } else { End::Left });
    let emptied = list.is_empty();
    if removed > 0 {
        ctx.keys.notify(event::LIST, "lrem", key);
        shrunk_or_removed(&mut ctx.keys, key, limit, emptied, removed)?;
    }
    ctx.reply.count(removed);
    Ok(())
}

/// Moves an element from one list to another or to another end; false if there is no source list.
pub(super) fn move_element(ctx: &mut Ctx<'_>, from: End, to: End) -> Result<bool, Error> {
    let (source, destination) = (ctx.arg(1), ctx.arg(2));
    let limit = ctx.list_limit();
    if ctx.keys.list_mut(source)?.is_none() {
        return Ok(false);
    }
    if source == destination {
        ctx.keys.use_again();
    }
    ctx.keys.list_mut(destination)?;
    // That was their use; where the source lies may change when the destination is made.
    ctx.keys.touch = false;
    let Some(list) = ctx.keys.list_mut(source)? else { return Ok(false) };
    let Some(element) = list.peek(from) else { return Ok(false) };
    let element = element.try_to_vec()?;
    if element.len() > LARGE_ELEMENT && !ctx.core.affordable(element.len()) {
        return Err(Error::OutOfMemory);
    }
    let mut emptied = false;
    if let Some(list) = ctx.keys.list_mut(source)? {
        list.pop(from);
        emptied = list.is_empty();
    }
    let list = ctx.keys.list_or_new(destination, List::new)?;
    list.prepare(limit, 1, element.len());
    list.push(to, &element)?;
    ctx.keys.modified(destination);
    ctx.keys.notify(event::LIST, if to == End::Left { "lpush" } else { "rpush" }, destination);
    ctx.reply.bulk(&element);
    emptied &= source != destination;
    popped(&mut ctx.keys, source, from, limit, emptied, 0)?;
    Ok(true)
}

fn lmove(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (from, to) = (end_at(ctx, 3)?, end_at(ctx, 4)?);
    if !move_element(ctx, from, to)? {
        ctx.reply.null();
    }
    Ok(())
}

fn rpoplpush(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if !move_element(ctx, End::Right, End::Left)? {
        ctx.reply.null();
    }
    Ok(())
}

#[cfg(test)]
#[path = "lists_tests.rs"]
mod tests;
