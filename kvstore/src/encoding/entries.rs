//! Reading a listpack: its entries without header and end mark, wherever they lie.
//!
//! Positions (`pos`) are byte offsets of entries from the first one.

use super::entry::{Entry, decode, entry_len, read_backlen};
use super::listpack::HEADER_LEN;
use crate::number::parse_i64;

/// The entries of a listpack.
#[derive(Clone, Copy)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl core::fmt::Debug for Entries<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> Entries<'a> {
    /// `count` entries that lie in `bytes` one behind the other.
    #[inline]
    pub const fn new(bytes: &'a [u8], count: usize) -> Self {
        Self { bytes, count }
    }

    /// The bytes of all entries.
    #[inline]
    pub const fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Number of entries.
    #[inline]
    pub const fn len(self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Position of the first entry.
    #[inline]
    pub const fn first(self) -> Option<usize> {
        if self.count > 0 { Some(0) } else { None }
    }

    /// Position of the last entry.
    pub fn last(self) -> Option<usize> {
        self.prev(self.end())
    }

    /// Position behind the last entry, where an insert appends.
    #[inline]
    pub const fn end(self) -> usize {
        self.bytes.len()
    }

    /// Length of the listpack in Redis's format, with header and end mark.
    pub const fn framed_len(self) -> usize {
        HEADER_LEN + self.bytes.len() + 1
    }

    /// How many bytes up to `n` entries from `pos` on take, and how many entries those are.
    pub fn extent(self, pos: usize, n: usize) -> (usize, usize) {
        let (mut stop, mut count) = (pos, 0);
        while count < n && stop < self.bytes.len() {
            stop += entry_len(&self.bytes[stop..]);
            count += 1;
        }
        (stop - pos, count)
    }

    /// Position of the entry after the one at `pos`.
    pub fn next(self, pos: usize) -> Option<usize> {
        let next = pos + entry_len(&self.bytes[pos..]);
        (next < self.bytes.len()).then_some(next)
    }

    /// Position of the entry before `pos`, which may be [`end`](Self::end).
    pub fn prev(self, pos: usize) -> Option<usize> {
        if pos == 0 {
            return None;
        }
        let (len, width) = read_backlen(self.bytes, pos)?;
        Some(pos - len - width)
    }

    /// Position of the entry at `index`; negative ones count from the end (-1 is the last). Walks from the nearer end.
    pub fn seek(self, index: isize) -> Option<usize> {
        let len = self.count;
        let index = if index < 0 { len.checked_sub(index.unsigned_abs())? } else { index as usize };
        if index >= len {
            return None;
        }
        if index <= len / 2 {
            let bytes = self.bytes;
            let mut pos = 0;
            for _ in 0..index {
                pos += entry_len(&bytes[pos..]);
            }
            Some(pos)
        } else {
            let mut pos = self.bytes.len();
            for _ in index..len {
                pos = self.prev(pos)?;
            }
            Some(pos)
        }
    }

    /// The entry at `pos`.
    pub fn get(self, pos: usize) -> Entry<'a> {
        decode(&self.bytes[pos..]).0
    }

    /// All entries in order; can be walked from both ends.
    pub fn iter(self) -> Iter<'a> {
        Iter { bytes: self.bytes, front: 0, back: self.bytes.len(), left: self.count }
    }

    /// The entries from `pos` on; `pos` may be [`end`](Self::end). The iterator's length is not known beforehand.
    pub fn iter_from(self, pos: usize) -> Cursor<'a> {
        Cursor { bytes: self.bytes, pos }
    }

    /// Position of the first entry equal to `needle` at or after `pos`, looking at every `step`-th entry
    /// (2 looks at a map's keys only).
    pub fn find(self, pos: usize, needle: &[u8], step: usize) -> Option<usize> {
        let number = parse_i64(needle);
        let bytes = self.bytes;
        let end = bytes.len();
        let mut pos = pos;
        let mut skip = 0;
        while pos < end {
            let rest = &bytes[pos..];
            if skip == 0 {
                let (entry, len) = decode(rest);
                if entry.matches(needle, number) {
                    return Some(pos);
                }
                pos += len;
                skip = step;
            } else {
                pos += entry_len(rest);
            }
            skip -= 1;
        }
        None
    }

    /// The entries two by two.
    pub fn pairs(self) -> Pairs<'a> {
        Pairs(self.iter())
    }
}

/// Iterator over a listpack's entries, from both ends.
#[derive(Clone)]
pub struct Iter<'a> {
    bytes: &'a [u8],
    front: usize,
    back: usize,
    left: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (entry, len) = decode(&self.bytes[self.front..]);
        self.front += len;
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let left = self.left.checked_sub(1)?;
        let (len, width) = read_backlen(self.bytes, self.back)?;
        self.left = left;
        self.back -= len + width;
        Some(decode(&self.bytes[self.back..]).0)
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Iterator from a position to the end; knows where it stands.
#[derive(Clone)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    pos: usize,
}

impl<'a> Cursor<'a> {
    /// Position of the entry that comes next.
    pub fn pos(&self) -> usize {
        self.pos
    }

    /// The bytes of the entries that come.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.pos..).unwrap_or(&[])
    }

    /// Goes on by whole entries of `bytes` bytes.
    pub(super) fn skip_bytes(&mut self, bytes: usize) {
        self.pos += bytes;
    }
}

impl<'a> Iterator for Cursor<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        if self.pos >= self.bytes.len() {
            return None;
        }
        let (entry, len) = decode(&self.bytes[self.pos..]);
        self.pos += len;
        Some(entry)
    }
}

/// The entries of a listpack two by two.
#[derive(Clone)]
pub struct Pairs<'a>(Iter<'a>);

impl<'a> Iterator for Pairs<'a> {
    type Item = (Entry<'a>, Entry<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.0.next()?, self.0.next()?))
    }
}
