//! SORT and SORT_RO.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::encoding::listpack::Entry;
use crate::error::Error;
use crate::error_text;
use crate::keyspace::{Keys, event};
use crate::number::{I64_CHARS, parse_f64};
use crate::types::hash::HashRef;
use crate::types::list::{End, List};
use crate::types::zset::ZSetLimits;
use crate::value::{Item, ItemExt, Object, Type, Value, item_of};

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "sort",
        group: Group::Generic,
        since: "1.0.0",
        summary: "Sorts the elements in a list, a set, or a sorted set, optionally storing the result.",
        complexity: "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned elements. When the elements are not sorted, complexity is O(N).",
        arity: -2,
        flags: flag::WRITE | flag::DENYOOM,
        acl: acl::DANGEROUS | acl::LIST | acl::SET | acl::SORTEDSET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1), KeySpec::unknown(key::RO | key::ACCESS).notes("For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort"), KeySpec::unknown(key::OW | key::UPDATE).notes("For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument array")],
        args: &[Arg::key("key", 0), Arg::pattern("by-pattern").token("BY").display("pattern").key_spec(1).optional(), Arg::block("limit", &[Arg::integer("offset"), Arg::integer("count")]).token("LIMIT").optional(), Arg::pattern("get-pattern").token("GET").display("pattern").key_spec(1).optional().multiple_token(), Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional(), Arg::word("sorting", "ALPHA").optional(), Arg::key("destination", 2).token("STORE").optional()],
        run: Some(sort),
        ..Command::DEFAULT
    },
    Command {
        name: "sort_ro",
        group: Group::Generic,
        since: "7.0.0",
        summary: "Returns the sorted elements of a list, a set, or a sorted set.",
        complexity: "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned elements. When the elements are not sorted, complexity is O(N).",
        arity: -2,
        flags: flag::READONLY,
        acl: acl::DANGEROUS | acl::LIST | acl::SET | acl::SORTEDSET,
        keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1), KeySpec::unknown(key::RO | key::ACCESS).notes("For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort")],
        args: &[Arg::key("key", 0), Arg::pattern("by-pattern").token("BY").display("pattern").key_spec(1).optional(), Arg::block("limit", &[Arg::integer("offset"), Arg::integer("count")]).token("LIMIT").optional(), Arg::pattern("get-pattern").token("GET").display("pattern").key_spec(1).optional().multiple_token(), Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional(), Arg::word("sorting", "ALPHA").optional()],
        run: Some(sort_ro),
        ..Command::DEFAULT
    },
];

/// What is asked for.
#[derive(Default)]
struct Options<'a> {
    descending: bool,
    alpha: bool,
    /// LIMIT's offset and count.
    limit: Option<(i64, i64)>,
    /// Pattern of the keys that hold the weights.
    by: Option<&'a [u8]>,
    /// The elements are wanted in their own order: BY a pattern without a star.
    unsorted: bool,
    /// Patterns of what is replied in place of the element.
    get: Vec<&'a [u8]>,
    store: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(ctx: &Ctx<'a>, read_only: bool) -> Result<Self, Error> {
        let (args, last) = (ctx.args, ctx.argc() - 1);
        let mut options = Self::default();
        // The patterns can mean any key.
        let denied =
            |option: &str| error_text!("ERR {option} option of SORT denied due to insufficient ACL permissions.");
        let may_read_all = || ctx.core.permits_with_any_key(ctx.client, args, key::ACCESS);
        let mut i = 2;
        while i <= last {
            let left = last - i;
            if args.is(i, "asc") {
                options.descending = false;
            } else if args.is(i, "desc") {
                options.descending = true;
            } else if args.is(i, "alpha") {
                options.alpha = true;
            } else if args.is(i, "limit") && left >= 2 {
                options.limit = Some((ctx.int(i + 1)?, ctx.int(i + 2)?));
                i += 2;
            } else if !read_only && args.is(i, "store") && left >= 1 {
                options.store = Some(args.get(i + 1));
                i += 1;
            } else if args.is(i, "by") && left >= 1 {
                let pattern = args.get(i + 1);
                options.by = Some(pattern);
                options.unsorted = !pattern.contains(&b'*');
                if !options.unsorted && !may_read_all() {
                    return Err(denied("BY"));
                }
                i += 1;
            } else if args.is(i, "get") && left >= 1 {
                if !may_read_all() {
                    return Err(denied("GET"));
                }
                options.get.push(args.get(i + 1));
                i += 1;
            } else {
                return Err(Error::Syntax);
            }
            i += 1;
        }
        Ok(options)
    }

    /// First and number of the `len` elements that LIMIT lets through.
    fn window(&self, len: usize) -> (usize, usize) {
        let Some((offset, count)) = self.limit else { return (0, len) };
        let start = usize::try_from(offset).unwrap_or(0).min(len);
        let count = usize::try_from(count).unwrap_or(len);
        (start, count.min(len - start))
    }
}

/// A piece of [`Rows::text`].
#[derive(Clone, Copy)]
struct Piece {
    start: usize,
    len: usize,
}

#[derive(Clone, Copy)]
enum Weight {
    Score(f64),
    /// None: there is no such key or field.
    Text(Option<Piece>),
}

struct Row {
    element: Piece,
    weight: Weight,
}

/// Copies of the elements: looking up weights may change the keyspace (keys expire).
#[derive(Default)]
struct Rows {
    text: Vec<u8>,
    rows: Vec<Row>,
}

impl Rows {
    fn keep(&mut self, bytes: &[u8]) -> Result<Piece, Error> {
        let piece = Piece { start: self.text.len(), len: bytes.len() };
        self.text.try_reserve(bytes.len())?;
        self.text.extend_from_slice(bytes);
        Ok(piece)
    }

    fn text(&self, piece: Piece) -> &[u8] {
        &self.text[piece.start..piece.start + piece.len]
    }

    fn collect<'e>(&mut self, elements: impl Iterator<Item = Entry<'e>>) -> Result<(), Error> {
        for entry in elements {
            let element = self.keep(entry.bytes(&mut [0; I64_CHARS]))?;
            self.rows.try_reserve(1)?;
            self.rows.push(Row { element, weight: Weight::Score(0.0) });
        }
        Ok(())
    }

    fn sort(&mut self, options: &Options<'_>) {
        let mut rows = core::mem::take(&mut self.rows);
        // For an answer, texts are compared as the C library's strings are, which end at a zero byte.
        let text = |piece: Piece| match self.text(piece) {
            whole if options.store.is_some() => whole,
            whole => whole.split(|b| *b == 0).next().unwrap_or(&[]),
        };
        // Stable, and never a panic: scores are not NaN.
        rows.sort_by(|a, b| {
            let order = match (a.weight, b.weight) {
                (Weight::Score(x), Weight::Score(y)) => {
                    let order = x.partial_cmp(&y).unwrap_or(Ordering::Equal);
                    order.then_with(|| self.text(a.element).cmp(self.text(b.element)))
                }
                (Weight::Text(x), Weight::Text(y)) => x.map(text).cmp(&y.map(text)),
                _ => Ordering::Equal,
            };
            if options.descending { order.reverse() } else { order }
        });
        self.rows = rows;
    }
}

/// A number as a weight: what `strtod` takes as a whole, white space in front with it; nothing at all is 0.
fn score(text: &[u8]) -> Option<f64> {
    let text = text.split(|&b| b == 0).next().unwrap_or(&[]);
    if text.is_empty() {
        return Some(0.0);
    }
    parse_f64(text.trim_ascii_start())
}

/// An item, and the field of it that is meant if it is a hash.
type Referred<'k, 'p> = (&'k Item, Option<&'p [u8]>);

/// The item that a pattern means for an element, and the field of a hash if it names one.
fn referred<'k, 'p>(
    keys: &'k mut Keys<'_>,
    pattern: &'p [u8],
    element: &[u8],
) -> Result<Option<Referred<'k, 'p>>, Error> {
    let Some(star) = pattern.iter().position(|&b| b == b'*') else { return Ok(None) };
    let behind = &pattern[star + 1..];
    let arrow = behind.windows(2).position(|w| w == b"->").filter(|at| at + 2 < behind.len());
    let (tail, field) = match arrow {
        Some(at) => (&behind[..at], Some(&behind[at + 2..])),
        None => (behind, None),
    };
    let mut name = Vec::new();
    name.try_reserve_exact(star + element.len() + tail.len())?;
    name.extend_from_slice(&pattern[..star]);
    name.extend_from_slice(element);
    name.extend_from_slice(tail);
    Ok(keys.read(&name).map(|item| (item, field)))
}

/// Gives `then` the string that a pattern means for an element; None if there is no such string.
fn with_referred<R>(
    keys: &mut Keys<'_>,
    pattern: &[u8],
    element: &[u8],
    then: impl FnOnce(Option<&[u8]>) -> R,
) -> Result<R, Error> {
    if pattern == b"#" {
        return Ok(then(Some(element)));
    }
    let mut buf = [0; I64_CHARS];
    Ok(match referred(keys, pattern, element)? {
        Some((item, None)) => match item.as_str() {
            Some(string) => then(Some(string.bytes(&mut buf))),
            None => then(None),
        },
        Some((item, Some(field))) => match HashRef::of(item).and_then(|hash| hash.get(field)) {
            Some(value) => then(Some(value.bytes(&mut buf))),
            None => then(None),
        },
        None => then(None),
    })
}

/// Copies the elements to be sorted; if their own order is asked for, only those that LIMIT lets through. Returns the
/// rows and the part of them that is wanted.
fn load(ctx: &mut Ctx<'_>, options: &Options<'_>) -> Result<(Rows, core::ops::Range<usize>), Error> {
    let key = ctx.arg(1);
    let mut rows = Rows::default();
    let zset_limits = ZSetLimits { listpack_entries: 0, ..ctx.core.config.zset };
    let Some(item) = ctx.keys.read(key) else { return Ok((rows, 0..0)) };
    let ordered = match item.value() {
        Value::List(list) => {
            if options.unsorted {
                let (first, n) = options.window(list.len());
                if options.descending {
                    rows.collect(list.iter_back().skip(first).take(n))?;
                } else {
                    rows.collect(list.iter_from(first).take(n))?;
                }
            } else {
                rows.collect(list.iter())?;
            }
            options.unsorted
        }
        Value::Set(set) => {
            rows.collect(set.iter())?;
            false
        }
        Value::ZSet(_) => {
            // As Redis does: sorting one takes its compact encoding away.
            if let Some(mut zset) = ctx.keys.zset_mut(key)? {
                zset.prepare(1, 0, &zset_limits)?;
                let zset = zset.view();
                let (first, n) = if options.unsorted { options.window(zset.len()) } else { (0, zset.len()) };
                let elements = if options.descending {
                    let end = zset.len() - first;
                    zset.iter(end - n..end, true)
                } else {
                    zset.iter(first..first + n, false)
                };
                rows.collect(elements.map(|(member, _)| member))?;
            }
            options.unsorted
        }
        _ => return Err(Error::WrongType),
    };
    let len = rows.rows.len();
    let (first, n) = if ordered { (0, len) } else { options.window(len) };
    Ok((rows, first..first + n))
}

fn weigh(ctx: &mut Ctx<'_>, options: &Options<'_>, rows: &mut Rows) -> Result<(), Error> {
    let mut copy = Vec::new();
    for i in 0..rows.rows.len() {
        let element = rows.rows[i].element;
        let weight = match (options.by, options.alpha) {
            (None, true) => Weight::Text(Some(element)),
            (None, false) => Weight::Score(score(rows.text(element)).ok_or(NOT_SCORES)?),
            (Some(pattern), alpha) => {
                copy.clear();
                let there = with_referred(&mut ctx.keys, pattern, rows.text(element), |text| match text {
                    Some(text) => copy.try_reserve(text.len()).map(|()| {
                        copy.extend_from_slice(text);
                        true
                    }),
                    None => Ok(false),
                })??;
                match (there, alpha) {
                    (true, true) => Weight::Text(Some(rows.keep(&copy)?)),
                    (false, true) => Weight::Text(None),
                    (true, false) => Weight::Score(score(&copy).ok_or(NOT_SCORES)?),
                    (false, false) => Weight::Score(0.0),
                }
            }
        };
        rows.rows[i].weight = weight;
    }
    Ok(())
}

const NOT_SCORES: Error = Error::Fixed("ERR One or more scores can't be converted into double");

fn sort_with(ctx: &mut Ctx<'_>, read_only: bool) -> Result<(), Error> {
    let mut options = Options::parse(ctx, read_only)?;
    let is_set = ctx.keys.peek(ctx.args.get(1)).is_some_and(|item| item.type_of() == Type::Set);
    if options.unsorted && is_set && options.store.is_some() {
        // A set has no order of its own, but what is stored must be the same everywhere.
        (options.unsorted, options.alpha, options.by) = (false, true, None);
    }
    let (mut rows, window) = load(ctx, &options)?;
    if !options.unsorted {
        weigh(ctx, &options, &mut rows)?;
        rows.sort(&options);
    }
    match options.store {
        Some(destination) => store(ctx, &options, &rows, window, destination),
        None => reply(ctx, &options, &rows, window),
    }
}

fn reply(ctx: &mut Ctx<'_>, options: &Options<'_>, rows: &Rows, window: core::ops::Range<usize>) -> Result<(), Error> {
    let columns = options.get.len().max(1);
    ctx.reply.array(window.len() * columns);
    for row in &rows.rows[window] {
        let element = rows.text(row.element);
        if options.get.is_empty() {
            ctx.reply.bulk(element);
        }
        for pattern in &options.get {
            let reply = &mut ctx.reply;
            let written = with_referred(&mut ctx.keys, pattern, element, |text| match text {
                Some(text) => reply.bulk(text),
                None => reply.null(),
            });
            // There was no memory for the name: too late for an error.
            if written.is_err() {
                reply.null();
            }
        }
    }
    Ok(())
}

fn store(
    ctx: &mut Ctx<'_>,
    options: &Options<'_>,
    rows: &Rows,
    window: core::ops::Range<usize>,
    destination: &[u8],
) -> Result<(), Error> {
    let limit = ctx.list_limit();
    if !ctx.affordable(rows.text.len() + window.len() * size_of::<Row>()) {
        return Err(Error::OutOfMemory);
    }
    let mut list = List::new_quicklist(limit);
    for row in &rows.rows[window] {
        let element = rows.text(row.element);
        if options.get.is_empty() {
            list.push(End::Right, element)?;
        }
        for pattern in &options.get {
            with_referred(&mut ctx.keys, pattern, element, |text| list.push(End::Right, text.unwrap_or(&[])))??;
        }
    }
    list.settle(limit);
    let len = list.len();
    if len > 0 {
        ctx.keys.put(destination, item_of(Object::List(list))?)?;
        ctx.keys.modified_by(destination, len);
        ctx.keys.notify(event::LIST, "sortstore", destination);
    } else if ctx.keys.remove(destination) {
        ctx.keys.modified(destination);
        ctx.keys.notify(event::GENERIC, "del", destination);
    }
    ctx.reply.count(len);
    Ok(())
}

fn sort(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    sort_with(ctx, false)
}

fn sort_ro(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    sort_with(ctx, true)
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn weights_columns_and_windows() {
        let mut b = Bench::new(&[]);
        let c = b.client();
        b.run(c, "RPUSH l 3 1 2");
        b.run(c, "HSET h:1 w 30 n one");
        b.run(c, "HSET h:2 w 20 n two");
        b.run(c, "HSET h:3 w 10");
        assert_eq!(b.run(c, "SORT l"), "[1 2 3]");
        assert_eq!(b.run(c, "SORT l DESC LIMIT 1 1"), "[2]");
        assert_eq!(b.run(c, "SORT l BY h:*->w GET # GET h:*->n"), "[3 nil 2 two 1 one]");
        assert_eq!(b.run(c, "SORT l BY nosort LIMIT 1 5"), "[1 2]");
        assert_eq!(b.run(c, "SORT l BY nosort DESC LIMIT 0 2"), "[2 1]");
        assert_eq!(b.run(c, "SORT l LIMIT -5 -1"), "[1 2 3]");
        assert_eq!(b.run(c, "SORT l GET h:*->n STORE d"), "3");
        assert_eq!(b.run(c, "LRANGE d 0 -1"), "[one two ]");
        assert_eq!(b.run(c, "SORT none STORE d"), "0");
        assert_eq!(b.encoding("d"), "none");
        b.run(c, "RPUSH l x");
        assert_eq!(b.run(c, "SORT l"), "-ERR One or more scores can't be converted into double");
        assert_eq!(b.run(c, "SORT l ALPHA DESC"), "[x 3 2 1]");
        assert_eq!(b.run(c, "SORT_RO l STORE d"), "-ERR syntax error");
        b.run(c, "ZADD z 3 a 2 b 1 c");
        assert_eq!(b.run(c, "SORT z BY nosort DESC LIMIT 1 2"), "[b c]");
    }
}
