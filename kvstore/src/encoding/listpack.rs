//! Listpack: a sequence of strings and integers in one run of bytes, in Redis's format (redis `listpack.md`).
//!
//! `<total bytes u32> <entries u16> <entry>* 0xFF`, all little-endian. An entry is its encoding, its data, and the
//! length of both ("backlen", readable from its end), so that the sequence can be walked both ways.
//!
//! Costs: push and pop at both ends are O(1) amortised, because spare room is kept in front of the bytes as well as
//! behind them (a plain listpack moves everything for a push at its head). An insert or a delete moves the shorter
//! side. Capacity grows in eighths of a power of two, so at most an eighth is spare.

use alloc::boxed::Box;
use alloc::vec::Vec;

use barium_cell::OutOfMemory;

pub use super::entries::{Cursor, Entries, Iter};
use super::entry::{Encoded, backlen_width, body_len, entry_len, read_backlen};
pub use super::entry::{Entry, encoded_len};
use super::{Malformed, capacity_for};

/// Bytes before the first entry.
pub const HEADER_LEN: usize = 6;
const END: u8 = 0xFF;
/// The count in the header when there are too many entries for 16 bits: "walk and count".
const COUNT_UNKNOWN: u16 = u16::MAX;

/// An owned listpack. Positions (`pos`) are byte offsets of entries from the first one; any change behind or at a position
/// invalidates it unless the method says otherwise.
pub struct Listpack {
    /// Spare room, the listpack's bytes, spare room.
    buf: Box<[u8]>,
    /// Where the listpack starts in `buf`.
    head: u32,
    /// Number of entries (the header's count saturates).
    count: u32,
}

impl Default for Listpack {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for Listpack {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Listpack {
    /// An empty listpack.
    pub fn new() -> Self {
        Self::with_room(0)
    }

    /// An empty listpack with room for `room` bytes of entries.
    pub fn with_room(room: usize) -> Self {
        let mut buf = Vec::with_capacity(capacity_for(HEADER_LEN + 1 + room));
        buf.extend_from_slice(&[HEADER_LEN as u8 + 1, 0, 0, 0, 0, 0, END]);
        buf.resize(buf.capacity(), 0);
        Self { buf: buf.into_boxed_slice(), head: 0, count: 0 }
    }

    /// Takes over bytes from an untrusted source after checking every entry.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are not exactly one well-formed listpack.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Malformed> {
        let count = validate(&bytes)?;
        Ok(Self { buf: bytes.into_boxed_slice(), head: 0, count })
    }

    /// A copy.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        let buf = Entry::Str(self.as_bytes()).try_to_vec()?.into_boxed_slice();
        Ok(Self { buf, head: 0, count: self.count })
    }

    /// The listpack in Redis's byte format.
    pub fn as_bytes(&self) -> &[u8] {
        let head = self.head as usize;
        &self.buf[head..head + self.byte_len()]
    }

    /// Number of bytes of the format, header and end mark included.
    pub fn byte_len(&self) -> usize {
        let head = self.head as usize;
        let b = &self.buf[head..head + 4];
        u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of memory behind the listpack, spare room included, without the struct itself.
    pub fn memory_usage(&self) -> usize {
        self.buf.len()
    }

    /// The entries, for everything that only reads.
    #[inline]
    pub fn entries(&self) -> Entries<'_> {
        let start = self.head as usize + HEADER_LEN;
        Entries::new(&self.buf[start..start + self.end()], self.count as usize)
    }

    /// Position behind the last entry, where an insert appends.
    #[inline]
    pub fn end(&self) -> usize {
        self.byte_len() - HEADER_LEN - 1
    }

    /// As [`Entries::first`].
    pub fn first(&self) -> Option<usize> {
        self.entries().first()
    }

    /// As [`Entries::last`].
    pub fn last(&self) -> Option<usize> {
        self.entries().last()
    }

    /// As [`Entries::next`].
    pub fn next(&self, pos: usize) -> Option<usize> {
        self.entries().next(pos)
    }

    /// As [`Entries::prev`].
    pub fn prev(&self, pos: usize) -> Option<usize> {
        self.entries().prev(pos)
    }

    /// As [`Entries::seek`].
    pub fn seek(&self, index: isize) -> Option<usize> {
        self.entries().seek(index)
    }

    /// As [`Entries::get`].
    #[inline]
    pub fn get(&self, pos: usize) -> Entry<'_> {
        self.entries().get(pos)
    }

    /// As [`Entries::iter`].
    pub fn iter(&self) -> Iter<'_> {
        self.entries().iter()
    }

    /// As [`Entries::iter_from`].
    pub fn iter_from(&self, pos: usize) -> Cursor<'_> {
        self.entries().iter_from(pos)
    }

    /// As [`Entries::find`].
    pub fn find(&self, pos: usize, needle: &[u8], step: usize) -> Option<usize> {
        self.entries().find(pos, needle, step)
    }

    /// Appends `element`.
    pub fn push_back(&mut self, element: &[u8]) {
        let new = Encoded::of(element);
        let (head, total, len) = (self.head as usize, self.byte_len(), new.entry_len());
        let end = head + total - 1;
        // Only the end mark has to move, if there is room.
        let Some(room) = self.buf.get_mut(end..=end + len) else { return self.splice(self.end(), 0, 0, new) };
        new.write(room);
        room[len] = END;
        self.write_header(total + len, self.count + 1);
    }

    /// Prepends `element`.
    pub fn push_front(&mut self, element: &[u8]) {
        let new = Encoded::of(element);
        let (head, len) = (self.head as usize, new.entry_len());
        // Only the header has to move, if there is room.
        let Some(start) = head.checked_sub(len) else { return self.splice(0, 0, 0, new) };
        let total = self.byte_len();
        new.write(&mut self.buf[start + HEADER_LEN..head + HEADER_LEN]);
        self.head = start as u32;
        self.write_header(total + len, self.count + 1);
    }

    /// Removes the first entry, if there is one.
    pub fn pop_front(&mut self) {
        if self.count > 0 {
            let total = self.byte_len();
            let old = entry_len(self.entries().bytes());
            self.head += old as u32;
            self.write_header(total - old, self.count - 1);
            self.give_back();
        }
    }

    /// Removes the last entry, if there is one.
    pub fn pop_back(&mut self) {
        if let Some(pos) = self.last() {
            let end = HEADER_LEN + pos;
            self.buf[self.head as usize + end] = END;
            self.write_header(end + 1, self.count - 1);
            self.give_back();
        }
    }

    /// Inserts `element` before the entry at `pos` (or at the end); it is then the entry at `pos`.
    pub fn insert(&mut self, pos: usize, element: &[u8]) {
        self.splice(pos, 0, 0, Encoded::of(element));
    }

    /// As [`insert`](Self::insert), for a number.
    pub fn insert_int(&mut self, pos: usize, value: i64) {
        self.splice(pos, 0, 0, Encoded::of_int(value));
    }

    /// As [`insert`](Self::insert), for an entry of this or another listpack.
    pub fn insert_entry(&mut self, pos: usize, entry: Entry<'_>) {
        self.splice(pos, 0, 0, entry.into());
    }

    /// Replaces the entry at `pos`, which stays its position.
    pub fn replace(&mut self, pos: usize, element: &[u8]) {
        let old = entry_len(&self.entries().bytes()[pos..]);
        self.splice(pos, old, 1, Encoded::of(element));
    }

    /// As [`replace`](Self::replace), for a number.
    pub fn replace_int(&mut self, pos: usize, value: i64) {
        let old = entry_len(&self.entries().bytes()[pos..]);
        self.splice(pos, old, 1, Encoded::of_int(value));
    }

    /// Removes the entry at `pos`, which then is the position of the next one (or the end).
    pub fn delete(&mut self, pos: usize) {
        let old = entry_len(&self.entries().bytes()[pos..]);
        self.remove_bytes(pos, old, 1);
    }

    /// Removes up to `n` entries from `pos` on and returns how many there were.
    pub fn delete_many(&mut self, pos: usize, n: usize) -> usize {
        let (bytes, gone) = self.entries().extent(pos, n);
        self.remove_bytes(pos, bytes, gone);
        gone
    }

    /// Removes `n` entries from entry number `index` on (negative: from the end); what is not there is ignored.
    pub fn delete_range(&mut self, index: isize, n: usize) -> usize {
        match self.seek(index) {
            Some(pos) if n > 0 => self.delete_many(pos, n),
            _ => 0,
        }
    }

    /// Moves the entries from number `index` on into a listpack of their own.
    pub fn split_off(&mut self, index: usize) -> Listpack {
        let Some(pos) = self.seek(index as isize) else { return Listpack::new() };
        let moved = self.count - index as u32;
        let end = self.end();
        let mut tail = Listpack::with_room(end - pos);
        tail.append_raw(&self.entries().bytes()[pos..], moved);
        self.remove_bytes(pos, end - pos, moved as usize);
        tail
    }

    /// Appends all entries of `other`.
    pub fn append(&mut self, other: &Listpack) {
        self.append_raw(other.entries().bytes(), other.count);
    }

    /// Makes room for `more` bytes of entries behind the last one, so that several pushes grow the listpack once.
    pub fn reserve(&mut self, more: usize) {
        let total = self.byte_len();
        if self.buf.len() - self.head as usize - total < more {
            self.rebuild(total - 1, 0, 0, capacity_for(total + more), false);
        }
    }

    /// Gives spare room back to the allocator.
    pub fn shrink_to_fit(&mut self) {
        let want = capacity_for(self.byte_len());
        if self.buf.len() > want {
            self.rebuild(self.byte_len() - 1, 0, 0, want, false);
        }
    }

    fn append_raw(&mut self, entries: &[u8], count: u32) {
        let at = self.byte_len() - 1;
        self.resize(at, 0, entries.len());
        let at = self.head as usize + at;
        self.buf[at..at + entries.len()].copy_from_slice(entries);
        self.set_count(self.count + count);
    }

    fn splice(&mut self, pos: usize, old: usize, replaced: u32, new: Encoded<'_>) {
        let (start, len) = (HEADER_LEN + pos, new.entry_len());
        self.resize(start, old, len);
        let at = self.head as usize + start;
        new.write(&mut self.buf[at..at + len]);
        self.set_count(self.count + 1 - replaced);
        if len < old {
            self.give_back();
        }
    }

    fn remove_bytes(&mut self, pos: usize, bytes: usize, entries: usize) {
        self.resize(HEADER_LEN + pos, bytes, 0);
        self.set_count(self.count - entries as u32);
        self.give_back();
    }

    /// Frees spare room once it is half of all: sooner, a queue near a size class's edge would go to and fro.
    fn give_back(&mut self) {
        if self.buf.len() > 64 && self.byte_len() < self.buf.len() / 2 {
            self.shrink_to_fit();
        }
    }

    fn set_count(&mut self, count: u32) {
        self.write_header(self.byte_len(), count);
    }

    #[inline]
    fn write_header(&mut self, total: usize, count: u32) {
        self.count = count;
        let at = self.head as usize;
        self.buf[at..at + HEADER_LEN].copy_from_slice(&header(total, count as usize));
    }

    /// Makes the `old` bytes at `pos`, counted from the header on, be `new` ones (their content is left over), and updates
    /// the total.
    fn resize(&mut self, pos: usize, old: usize, new: usize) {
        let head = self.head as usize;
        let total = self.byte_len();
        let behind = total - pos - old;
        let after = total - old + new;
        if new > old {
            let more = new - old;
            let spare_front = head;
            let spare_back = self.buf.len() - head - total;
            let front_is_shorter = pos < behind;
            if spare_front >= more && (front_is_shorter || spare_back < more) {
                self.buf.copy_within(head..head + pos, head - more);
                self.head -= more as u32;
            } else if spare_back >= more {
                self.buf.copy_within(head + pos + old..head + total, head + pos + new);
            } else if spare_front + spare_back >= more + total / 8 {
                // Enough room, on the wrong sides: move everything, which the room just paid for.
                self.rebuild(pos, old, new, self.buf.len(), front_is_shorter);
            } else {
                self.rebuild(pos, old, new, capacity_for(after), front_is_shorter);
            }
        } else if new < old {
            let less = old - new;
            if pos < behind {
                self.buf.copy_within(head..head + pos, head + less);
                self.head += less as u32;
            } else {
                self.buf.copy_within(head + pos + old..head + total, head + pos + new);
            }
        }
        let head = self.head as usize;
        self.buf[head..head + 4].copy_from_slice(&(after as u32).to_le_bytes());
    }

    /// Moves everything into `cap` bytes, where the `old` bytes at `pos` (counted from the header on) become `new`, spare room
    /// in front or behind.
    fn rebuild(&mut self, pos: usize, old: usize, new: usize, cap: usize, room_in_front: bool) {
        let head = self.head as usize;
        let total = self.byte_len();
        let after = total - old + new;
        let cap = cap.max(after);
        if head == 0 && !room_in_front && cap > self.buf.len() {
            // The allocator may be able to extend in place.
            let mut buf = core::mem::take(&mut self.buf).into_vec();
            buf.reserve_exact(cap - buf.len());
            buf.resize(cap, 0);
            buf.copy_within(pos + old..total, pos + new);
            self.buf = buf.into_boxed_slice();
            return;
        }
        let new_head = if room_in_front { cap - after } else { 0 };
        let mut buf = Vec::with_capacity(cap);
        buf.resize(new_head, 0);
        buf.extend_from_slice(&self.buf[head..head + pos]);
        buf.resize(buf.len() + new, 0);
        buf.extend_from_slice(&self.buf[head + pos + old..head + total]);
        buf.resize(cap, 0);
        self.buf = buf.into_boxed_slice();
        self.head = new_head as u32;
    }
}

/// What stands in front of and behind entries to make them a listpack in Redis's format.
pub fn frame(entries: Entries<'_>) -> (Header, [u8; 1]) {
    (header(entries.framed_len(), entries.len()), [END])
}

/// The start of a listpack.
type Header = [u8; HEADER_LEN];

#[inline]
fn header(total: usize, count: usize) -> Header {
    let stored = count.min(usize::from(COUNT_UNKNOWN)) as u64;
    let [a, b, c, d, e, f, ..] = (stored << 32 | total as u64).to_le_bytes();
    [a, b, c, d, e, f]
}

/// Walks untrusted bytes; the number of entries if all is well.
fn validate(bytes: &[u8]) -> Result<u32, Malformed> {
    let total = bytes.len();
    if total < HEADER_LEN + 1 || bytes[total - 1] != END {
        return Err(Malformed);
    }
    if u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize != total {
        return Err(Malformed);
    }
    let end = total - 1;
    let mut pos = HEADER_LEN;
    let mut count: u32 = 0;
    while pos < end {
        let rest = &bytes[pos..end];
        let header = match rest[0] {
            0xE0..=0xEF => 2,
            0xF0 => 5,
            0xF5..=0xFF => return Err(Malformed),
            _ => 1,
        };
        if rest.len() < header {
            return Err(Malformed);
        }
        let body = body_len(rest);
        let len = body.checked_add(backlen_width(body)).ok_or(Malformed)?;
        if rest.len() < len || read_backlen(rest, len) != Some((body, backlen_width(body))) {
            return Err(Malformed);
        }
        pos += len;
        count += 1;
    }
    let stored = u16::from_le_bytes([bytes[4], bytes[5]]);
    if stored != COUNT_UNKNOWN && u32::from(stored) != count {
        return Err(Malformed);
    }
    Ok(count)
}

#[cfg(test)]
#[path = "listpack_tests.rs"]
mod tests;
