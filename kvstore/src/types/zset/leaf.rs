//! A leaf of the sorted-set tree: a bounded run of records in one block of bytes.
//!
//! A record is `<hash u32> <score f64> <length, LEB128> <member>`, little-endian. The member's hash is kept so that
//! moving a record between leaves, and finding the record of an index entry, need not compute it.

use alloc::vec::Vec;
use core::cmp::Ordering;

use barium_cell::OutOfMemory;

use crate::encoding::capacity_for;

/// No leaf.
pub(super) const NONE: u32 = u32::MAX;
/// Most records of a leaf.
pub(super) const MAX_RECORDS: usize = 32;
/// A leaf with more bytes is split, unless it has one record only.
pub(super) const MAX_BYTES: usize = 2048;
/// Bytes of hash and score.
const FIXED: usize = 12;

/// One element as stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub hash: u32,
    pub score: f64,
    pub member: &'a [u8],
}

/// Scores as integers of the same order; -0 and 0 are equal, as they are for floating point comparisons.
///
/// In integers because a comparison of floats is a call on targets that have none.
#[inline]
pub(super) fn order_of(score: f64) -> i64 {
    let bits = score.to_bits() as i64;
    let order = bits ^ (((bits >> 63) as u64) >> 1) as i64;
    // -0 is -1 here.
    order + i64::from(order == -1)
}

impl Record<'_> {
    /// The order of sorted sets: by score, then by the member's bytes.
    #[inline]
    pub(super) fn compare(&self, order: i64, member: &[u8]) -> Ordering {
        order_of(self.score).cmp(&order).then_with(|| self.member.cmp(member))
    }

    fn encoded_len(&self) -> usize {
        FIXED + length_bytes(self.member.len()) + self.member.len()
    }
}

/// The rest of a length that does not fit its first byte: bytes it takes, and the length.
#[cold]
fn long_length(first: u8, rest: &[u8]) -> (usize, usize) {
    let mut len = usize::from(first & 0x7f);
    for (i, &byte) in rest.iter().enumerate() {
        len |= usize::from(byte & 0x7f) << (7 * (i + 1));
        if byte < 0x80 {
            return (i + 1, len);
        }
    }
    (rest.len(), 0)
}

fn length_bytes(len: usize) -> usize {
    (70 - (len as u64 | 1).leading_zeros() as usize) / 7
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Leaf {
    block: Vec<u8>,
    count: u16,
    /// Neighbours in order, or [`NONE`].
    pub prev: u32,
    pub next: u32,
}

impl Leaf {
    pub(super) fn new() -> Self {
        Self { block: Vec::new(), count: 0, prev: NONE, next: NONE }
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Bytes of all records.
    pub(super) fn bytes(&self) -> usize {
        self.block.len()
    }

    /// Bytes of memory that the leaf owns.
    pub(super) fn memory(&self) -> usize {
        self.block.capacity()
    }

    pub(super) fn is_overfull(&self) -> bool {
        self.len() > MAX_RECORDS || (self.block.len() > MAX_BYTES && self.count > 1)
    }

    /// The record at a byte offset, and the offset of the next.
    #[inline(always)]
    pub(super) fn record(&self, at: usize) -> (Record<'_>, usize) {
        let Some(([h0, h1, h2, h3, s0, s1, s2, s3, s4, s5, s6, s7, short], rest)) =
            self.block[at..].split_first_chunk::<{ FIXED + 1 }>()
        else {
            panic!("no record begins here");
        };
        let hash = u32::from_le_bytes([*h0, *h1, *h2, *h3]);
        let score = u64::from_le_bytes([*s0, *s1, *s2, *s3, *s4, *s5, *s6, *s7]);
        let (start, len) = if *short < 0x80 { (0, usize::from(*short)) } else { long_length(*short, rest) };
        let record = Record { hash, score: f64::from_bits(score), member: &rest[start..start + len] };
        (record, at + FIXED + 1 + start + len)
    }

    /// Records in order, each with its offset.
    pub(super) fn records(&self) -> impl Iterator<Item = (usize, Record<'_>)> {
        let mut at = 0;
        core::iter::from_fn(move || {
            (at < self.block.len()).then(|| {
                let (record, next) = self.record(at);
                (core::mem::replace(&mut at, next), record)
            })
        })
    }

    /// Offset and number of the first record that is not `before`; the end if all are.
    pub(super) fn partition(&self, before: impl Fn(&Record<'_>) -> bool) -> (usize, usize) {
        let (mut at, mut index) = (0, 0);
        while at < self.block.len() {
            let (record, next) = self.record(at);
            if !before(&record) {
                break;
            }
            at = next;
            index += 1;
        }
        (at, index)
    }

    /// The offset of record number `index`.
    pub(super) fn offset_of(&self, index: usize) -> usize {
        (0..index).fold(0, |at, _| self.record(at).1)
    }

    /// The offset of a member's record.
    pub(super) fn find(&self, hash: u32, member: &[u8]) -> Option<usize> {
        self.records().find(|(_, record)| record.hash == hash && record.member == member).map(|(at, _)| at)
    }

    pub(super) fn insert(&mut self, at: usize, record: Record<'_>) -> Result<(), OutOfMemory> {
        let len = record.encoded_len();
        let old_len = self.block.len();
        self.reserve(len)?;
        self.block.resize(old_len + len, 0);
        self.block.copy_within(at..old_len, at + len);
        let place = &mut self.block[at..at + len];
        place[..4].copy_from_slice(&record.hash.to_le_bytes());
        place[4..FIXED].copy_from_slice(&record.score.to_bits().to_le_bytes());
        let mut rest = record.member.len();
        let mut to = FIXED;
        while rest >= 0x80 {
            place[to] = rest as u8 | 0x80;
            rest >>= 7;
            to += 1;
        }
        place[to] = rest as u8;
        place[to + 1..].copy_from_slice(record.member);
        self.count += 1;
        Ok(())
    }

    pub(super) fn remove(&mut self, at: usize) {
        let (_, next) = self.record(at);
        self.block.drain(at..next);
        self.count -= 1;
        self.trim();
    }

    pub(super) fn set_score(&mut self, at: usize, score: f64) {
        self.block[at + 4..at + FIXED].copy_from_slice(&score.to_bits().to_le_bytes());
    }

    /// Moves the records from `at` on, `kept` being before it, to a leaf of their own. Its neighbours are to be set.
    pub(super) fn split_off(&mut self, at: usize, kept: usize) -> Result<Self, OutOfMemory> {
        let tail = &self.block[at..];
        let mut block = Vec::new();
        block.try_reserve_exact(capacity_for(tail.len())).map_err(|_| OutOfMemory)?;
        block.extend_from_slice(tail);
        let count = self.count - kept as u16;
        self.block.truncate(at);
        self.count = kept as u16;
        self.trim();
        Ok(Self { block, count, prev: NONE, next: NONE })
    }

    /// Appends all records of `other`.
    pub(super) fn append(&mut self, other: &Self) -> Result<(), OutOfMemory> {
        self.reserve(other.block.len())?;
        self.block.extend_from_slice(&other.block);
        self.count += other.count;
        Ok(())
    }

    /// Where to split an overfull leaf: (offset, records before). Both parts have records and about half of the bytes.
    pub(super) fn middle(&self) -> (usize, usize) {
        let half = self.block.len() / 2;
        let (mut at, mut index) = (self.record(0).1, 1);
        while index + 1 < self.len() {
            let next = self.record(at).1;
            if next > half {
                break;
            }
            at = next;
            index += 1;
        }
        (at, index)
    }

    /// Makes room for `more` bytes: little of it, for most leaves stay as they are for long.
    fn reserve(&mut self, more: usize) -> Result<(), OutOfMemory> {
        let needed = self.block.len() + more;
        if needed > self.block.capacity() {
            self.block.try_reserve_exact(capacity_for(needed) - self.block.len()).map_err(|_| OutOfMemory)?;
        }
        Ok(())
    }

    /// Gives room back once it is a quarter of all.
    fn trim(&mut self) {
        let wanted = capacity_for(self.block.len());
        if wanted + wanted / 4 + 32 < self.block.capacity() {
            self.block.shrink_to(wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_keep_their_parts() {
        let mut leaf = Leaf::new();
        let long = alloc::vec![7u8; 20_000];
        let members: [&[u8]; 4] = [b"a", b"", &long, &long[..128]];
        for (i, member) in members.iter().enumerate() {
            leaf.insert(leaf.bytes(), Record { hash: i as u32, score: i as f64 - 1.5, member }).unwrap();
        }
        for (i, (at, record)) in leaf.records().enumerate() {
            assert_eq!((record.hash, record.score, record.member), (i as u32, i as f64 - 1.5, members[i]));
            assert_eq!(leaf.find(i as u32, members[i]), Some(at));
            assert_eq!(leaf.offset_of(i), at);
        }
        let second = leaf.offset_of(1);
        leaf.remove(second);
        assert_eq!(leaf.len(), 3);
        assert_eq!(leaf.find(1, b""), None);
        let rest = leaf.split_off(leaf.offset_of(1), 1).unwrap();
        assert_eq!((leaf.len(), rest.len()), (1, 2));
        leaf.append(&rest).unwrap();
        assert_eq!(leaf.records().map(|(_, record)| record.hash).collect::<Vec<_>>(), [0, 2, 3]);
    }

    #[test]
    fn scores_order_as_numbers() {
        let scores = [f64::NEG_INFINITY, -1e300, -1.0, -5e-324, 0.0, 5e-324, 1.0, f64::INFINITY];
        assert!(scores.windows(2).all(|pair| order_of(pair[0]) < order_of(pair[1])));
        assert_eq!(order_of(-0.0), order_of(0.0));
    }
}
