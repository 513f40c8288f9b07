//! What the commands on lists, sets and hashes share: limits from the configuration, arguments with errors of their own,
//! replies made of stored entries.

use crate::command::Arg;
use crate::ctx::Ctx;
use crate::encoding::bulks::{SHORT_ROOM, WINDOW_ROOM, write_bulks};
use crate::encoding::listpack::{Cursor, Entry};
use crate::error::Error;
use crate::number::{I64_CHARS, format_u64};
use crate::reply::Reply;
use crate::session::args::Args;
use crate::types::hash::HashLimits;
use crate::types::list::NodeLimit;
use crate::types::set::SetLimits;

/// What `getPositiveLongFromObject` answers for anything but a number from 0 on.
pub const NOT_POSITIVE: &str = "ERR value is out of range, must be positive";

impl Ctx<'_> {
    /// The limit that list encodings keep to now.
    #[inline]
    pub fn list_limit(&self) -> NodeLimit {
        self.core.config.list_limit
    }

    /// The limits that hash encodings keep to now.
    #[inline]
    pub fn hash_limits(&self) -> HashLimits {
        self.core.config.hash
    }

    /// The limits that set encodings keep to now.
    #[inline]
    pub fn set_limits(&self) -> SetLimits {
        self.core.config.set
    }

    /// An argument as an integer from `low` to `high`; `text` is the error for anything else.
    pub fn int_or(&self, index: usize, low: i64, high: i64, text: &'static str) -> Result<i64, Error> {
        match crate::number::parse_i64(self.arg(index)) {
            Some(n) if (low..=high).contains(&n) => Ok(n),
            _ => Err(Error::Fixed(text)),
        }
    }

    /// An argument as a count from 0 on; `text` is the error for anything else.
    pub fn count_or(&self, index: usize, text: &'static str) -> Result<usize, Error> {
        self.int_or(index, 0, i64::MAX, text).map(|n| n as usize)
    }

    /// What a wrong number of arguments is answered with.
    pub fn wrong_arity(&self) -> Error {
        crate::error_text!("ERR wrong number of arguments for '{}' command", self.command.name)
    }

    /// The number of keys at argument `index`, which the keys follow.
    pub fn numkeys(&self, index: usize) -> Result<usize, Error> {
        self.int_or(index, 1, i64::MAX, "ERR numkeys should be greater than 0").map(|n| n as usize)
    }
}

impl Reply<'_> {
    /// A stored entry as a bulk string.
    #[inline]
    pub fn entry(&mut self, entry: Entry<'_>) {
        match entry {
            Entry::Str(s) => self.bulk(s),
            Entry::Int(v) => self.bulk_int(v),
        }
    }

    /// `n` entries of a listpack as bulk strings.
    pub fn entries(&mut self, cursor: &mut Cursor<'_>, mut n: usize) {
        while n > 0 {
            if !self.out.room(SHORT_ROOM.saturating_mul(n).min(2 * WINDOW_ROOM)) {
                return;
            }
            let (written, used) = write_bulks(cursor, n, self.out.spare_mut());
            self.out.wrote(used);
            n -= written;
            if n > 0 {
                let Some(entry) = cursor.next() else { return };
                self.entry(entry);
                n -= 1;
            }
        }
    }
}

/// The part of `len` elements that a start and an end index mean, negative ones counted from the end: (first, number).
pub fn range(start: i64, end: i64, len: usize) -> Option<(usize, usize)> {
    let len = len as i64;
    let start = if start < 0 { (len + start).max(0) } else { start };
    let end = if end < 0 { len + end } else { end.min(len - 1) };
    (start <= end && start < len).then(|| (start as usize, (end - start + 1) as usize))
}

/// A scan cursor.
pub fn scan_cursor(text: &[u8]) -> Result<u64, Error> {
    // As strtoul takes it: a sign wraps around, a zero byte ends the text, white space in front is refused.
    let text = text.split(|b| *b == 0).next().unwrap_or_default();
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let invalid = Error::Fixed("ERR invalid cursor");
    if digits.is_empty() {
        return if text.is_empty() { Ok(0) } else { Err(invalid) };
    }
    let value = digits.iter().try_fold(0u64, |value, d| {
        let d = d.wrapping_sub(b'0');
        if d > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(d))
    });
    let value = value.ok_or(invalid)?;
    Ok(if negative { value.wrapping_neg() } else { value })
}

/// Documented arguments of HSCAN, SSCAN and ZSCAN.
pub const SCAN_ARGS: &[Arg] = &[
    Arg::key("key", 0),
    Arg::integer("cursor"),
    Arg::pattern("pattern").token("MATCH").optional(),
    Arg::integer("count").token("COUNT").optional(),
];

/// Options of HSCAN, SSCAN and ZSCAN.
pub struct ScanOptions<'a> {
    /// MATCH; None for `*`.
    pattern: Option<&'a [u8]>,
    /// COUNT.
    pub count: usize,
}

impl<'a> ScanOptions<'a> {
    /// From the arguments from `first` on.
    pub fn parse(args: Args<'a>, first: usize) -> Result<Self, Error> {
        let mut options = Self { pattern: None, count: 10 };
        let mut i = first;
        while i < args.len() {
            if i + 1 == args.len() {
                return Err(Error::Syntax);
            }
            if args.is(i, "count") {
                let n = crate::number::parse_i64(args.get(i + 1)).ok_or(Error::NotInteger)?;
                options.count = usize::try_from(n).ok().filter(|&n| n > 0).ok_or(Error::Syntax)?;
            } else if args.is(i, "match") {
                let pattern = args.get(i + 1);
                options.pattern = (pattern != b"*").then_some(pattern);
            } else {
                return Err(Error::Syntax);
            }
            i += 2;
        }
        Ok(options)
    }

    /// Whether an element passes MATCH.
    pub fn matches(&self, entry: Entry<'_>) -> bool {
        match self.pattern {
            None => true,
            Some(pattern) => crate::glob::matches(pattern, entry.bytes(&mut [0; I64_CHARS])),
        }
    }
}

/// The reply of a scan: `elements` writes the elements and returns the next cursor and how many it wrote.
pub fn scan_reply(reply: &mut Reply<'_>, elements: impl FnOnce(&mut Reply<'_>) -> (u64, usize)) {
    let start = reply.out.mark();
    let (cursor, n) = elements(reply);
    let (mut a, mut b, mut c) = ([0; I64_CHARS], [0; I64_CHARS], [0; I64_CHARS]);
    let cursor = format_u64(&mut a, cursor);
    let digits = format_u64(&mut b, cursor.len() as u64);
    let header = [b"*2\r\n$", digits, b"\r\n", cursor, b"\r\n*", format_u64(&mut c, n as u64), b"\r\n"].concat();
    reply.out.insert(start, &header);
}
