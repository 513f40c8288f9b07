//! A hash table that grows and shrinks one small piece at a time: an extendible-hash directory of small
//! `hashbrown` tables (segments).
//!
//! - A segment holds at most [`SEGMENT_MAX`] items. A full one is split in two by the next bit of the hash; two small
//!   neighbours are merged. No step touches more than one segment (and, when the directory doubles, four bytes a
//!   segment), whatever the table holds.
//! - The directory is indexed by the hash's top bits, so the segments in directory order hold the items in hash order.
//!   A scan cursor is a position in that order ([`Table::scan`]): an item that is there from the scan's begin to its end
//!   is returned, and returned once, however much the table grows or shrinks between.
//! - Costs, for eight-byte items: 9 bytes a bucket at a load between 0.44 and 0.88, and about 0.5 bytes a bucket for
//!   directory and segment headers: 15 to 20 bytes an item.
//! - Every segment carries a version that each change moves on (for snapshots of one moment), and a lower bound of its
//!   items' deadlines (for active expiry: [`Table::deadline_bound`]).
//!
//! Items bring their own key ([`Keyed`]). Growing is fallible.

mod deadlines;
mod sample;
mod scan;
#[cfg(test)]
mod tests;

use crate::number::estimated_sum;
use crate::random::Rng;
use alloc::vec::Vec;
use core::hash::Hasher;
use deadlines::Counts;
use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use hashbrown::HashTable;

/// Most items in a segment: what a `hashbrown` table of 256 buckets takes.
pub const SEGMENT_MAX: usize = 224;
/// A segment of the largest size that has no room because of graves (places of removed items that must not count as empty)
/// is split if it holds more than this, else its items are put into fresh buckets.
const CROWDED: usize = SEGMENT_MAX / 8 * 7;
/// Two neighbours that hold no more than this together are merged.
const MERGE_MAX: usize = SEGMENT_MAX / 4;
/// Segments are not split at more bits than this; items whose hashes agree in so many share a larger segment.
const MAX_DEPTH: u8 = 40;
/// Deadline bound of a segment without any.
pub const NO_DEADLINE: i64 = i64::MAX;

/// An item that carries its key.
pub trait Keyed {
    /// The key, which must not change while the item is in a table.
    fn key(&self) -> &[u8];

    /// When the item's time comes, if it does. While the item is in a table it is changed only with
    /// [`Table::prepare_deadline`] before and [`Table::deadline_changed`] after it.
    #[inline]
    fn deadline(&self) -> Option<i64> {
        None
    }
}

impl Keyed for barium_cell::ThinBytes {
    fn key(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Keyed for barium_cell::ThinPair {
    fn key(&self) -> &[u8] {
        self.first()
    }
}

impl<T> Keyed for barium_cell::Record<T> {
    #[inline]
    fn key(&self) -> &[u8] {
        barium_cell::Record::key(self)
    }

    #[inline]
    fn deadline(&self) -> Option<i64> {
        barium_cell::Record::deadline(self)
    }
}

/// The keyed hash that the tables of one engine share. Seeded, so that clients cannot choose colliding keys.
#[derive(Clone, Copy, Debug)]
pub struct Hashing {
    seed: u64,
    shared: &'static SharedSeed,
}

impl Hashing {
    /// A hash function from a secret seed. Keeps 64 bytes for as long as the program runs.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let shared = alloc::boxed::Box::leak(alloc::boxed::Box::new(SharedSeed::from_u64(rng.next_u64())));
        Self { seed: rng.next_u64(), shared }
    }

    /// The hash of a key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        let mut h = FoldHasher::with_seed(self.seed, self.shared);
        h.write(key);
        h.finish()
    }
}

/// Where an item lies; good until the table is next changed in its number of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pos {
    segment: u32,
    bucket: u32,
}

#[derive(Debug)]
struct Segment<T> {
    items: HashTable<T>,
    /// Number of top hash bits that all its items share.
    depth: u8,
    /// Those bits.
    prefix: u64,
    version: u64,
    /// No item's deadline lies before this.
    deadline: i64,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Table<T> {
    hashing: Hashing,
    /// Segment numbers by the hash's top `depth` bits; empty only while there are no segments.
    directory: Vec<u32>,
    segments: Vec<Segment<T>>,
    depth: u8,
    /// Segments that are as deep as the directory.
    deepest: u32,
    len: usize,
    merges: u64,
    /// By segment, how many of its items have a deadline.
    volatile: Counts,
}

impl<T: Keyed> Segment<T> {
    /// Items that its buckets take while there are no graves.
    fn places(&self) -> usize {
        self.items.num_buckets() / 8 * 7
    }

    /// Puts the items into as many fresh buckets, if a good part of the buckets is graves: left to itself the hash table
    /// would take twice as many. None if there is no memory.
    fn clear_graves(&mut self, hashing: Hashing) -> Option<()> {
        let places = self.places();
        if self.items.is_empty() || self.items.len() > places / 8 * 7 {
            return Some(());
        }
        let rehash = |t: &T| inner(hashing.hash(t.key()));
        let mut fresh = HashTable::new();
        fresh.try_reserve(places, rehash).ok()?;
        for t in self.items.drain() {
            let hash = rehash(&t);
            fresh.insert_unique(hash, t, rehash);
        }
        self.items = fresh;
        Some(())
    }
}

/// `hashbrown` takes its tag from the top bits and its bucket from the low ones. The top bits are alike within a segment,
/// so it gets the hash turned around.
#[inline]
const fn inner(hash: u64) -> u64 {
    hash.rotate_left(32)
}

/// Whether two keys are the same. Comparing the usual lengths word by word here is cheaper than the call of a general
/// comparison.
#[inline(always)]
fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match a.len() {
        8..=16 => a.first_chunk::<8>() == b.first_chunk::<8>() && a.last_chunk::<8>() == b.last_chunk::<8>(),
        4..=7 => a.first_chunk::<4>() == b.first_chunk::<4>() && a.last_chunk::<4>() == b.last_chunk::<4>(),
        _ => a == b,
    }
}

impl<T: Keyed> Table<T> {
    /// An empty table; allocates nothing.
    pub const fn new(hashing: Hashing) -> Self {
        Self {
            hashing,
            directory: Vec::new(),
            segments: Vec::new(),
            depth: 0,
            deepest: 0,
            len: 0,
            merges: 0,
            volatile: Counts::new(),
        }
    }

    /// The hash function, for a table beside this one.
    pub const fn hashing(&self) -> Hashing {
        self.hashing
    }

    /// Number of items.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no items.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of segments.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Number of merges so far: a merge gives another segment the number of the one that is gone.
    pub const fn merges(&self) -> u64 {
        self.merges
    }

    /// Total number of buckets, used or not.
    pub fn buckets(&self) -> usize {
        self.segments.iter().map(|s| s.items.num_buckets()).sum()
    }

    /// Version of a segment: moves on with every change of it.
    pub fn version(&self, segment: usize) -> Option<u64> {
        self.segments.get(segment).map(|s| s.version)
    }

    /// Bytes that the table itself takes (not what its items own). Of a large table only some segments are looked at.
    pub fn memory_usage(&self) -> usize {
        const SAMPLES: usize = 1_024;
        let segments = self.segments.iter().map(|s| s.items.allocation_size());
        self.directory.capacity() * 4
            + self.segments.capacity() * size_of::<Segment<T>>()
            + self.volatile.memory_usage()
            + estimated_sum(segments, self.segments.len(), SAMPLES)
    }

    /// The hash of a key, for the `_hashed` forms.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.hashing.hash(key)
    }

    #[inline]
    fn slot(&self, hash: u64) -> usize {
        ((hash >> 1) >> (63 - self.depth)) as usize
    }

    #[inline]
    fn segment_of(&self, hash: u64) -> Option<usize> {
        self.directory.get(self.slot(hash)).map(|&s| s as usize)
    }

    /// Finds the item with this key.
    #[inline(always)]
    pub fn find(&self, key: &[u8]) -> Option<Pos> {
        self.find_hashed(self.hash(key), key)
    }

    /// Like [`find`](Self::find), with the key's hash known.
    #[inline(always)]
    pub fn find_hashed(&self, hash: u64, key: &[u8]) -> Option<Pos> {
        let segment = self.segment_of(hash)?;
        let items = &self.segments.get(segment)?.items;
        let bucket = items.find_bucket_index(inner(hash), |item| same(item.key(), key))?;
        Some(Pos { segment: segment as u32, bucket: bucket as u32 })
    }

    /// Finds an item by the hash of its key and a test of its own, for keys that may occur more than once.
    #[inline]
    pub fn find_where(&self, hash: u64, mut test: impl FnMut(&T) -> bool) -> Option<Pos> {
        let segment = self.segment_of(hash)?;
        let bucket = self.segments.get(segment)?.items.find_bucket_index(inner(hash), |item| test(item))?;
        Some(Pos { segment: segment as u32, bucket: bucket as u32 })
    }

    /// The item at a position.
    #[inline]
    pub fn at(&self, pos: Pos) -> Option<&T> {
        self.segments.get(pos.segment as usize)?.items.get_bucket(pos.bucket as usize)
    }

    /// The item at a position, to be changed (but for its key).
    #[inline]
    pub fn at_mut(&mut self, pos: Pos) -> Option<&mut T> {
        let segment = self.segments.get_mut(pos.segment as usize)?;
        segment.version = segment.version.wrapping_add(1);
        segment.items.get_bucket_mut(pos.bucket as usize)
    }

    /// The item with this key.
    #[inline(always)]
    pub fn get(&self, key: &[u8]) -> Option<&T> {
        let hash = self.hash(key);
        let segment = self.segment_of(hash)?;
        self.segments.get(segment)?.items.find(inner(hash), |item| same(item.key(), key))
    }

    /// The item with this key, to be changed (but for its key).
    #[inline(always)]
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut T> {
        let hash = self.hash(key);
        let segment = self.segment_of(hash)?;
        let segment = self.segments.get_mut(segment)?;
        let item = segment.items.find_mut(inner(hash), |item| same(item.key(), key))?;
        segment.version = segment.version.wrapping_add(1);
        Some(item)
    }

    /// The item with this key, for a mark on it that no version counts (its access clock).
    #[inline(always)]
    pub fn get_to_mark(&mut self, key: &[u8]) -> Option<&mut T> {
        let hash = self.hash(key);
        let segment = self.segment_of(hash)?;
        self.segments.get_mut(segment)?.items.find_mut(inner(hash), |item| same(item.key(), key))
    }

    /// Whether there is an item with this key.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.find(key).is_some()
    }

    /// Adds an item whose key is not in the table. Gives it back if there is no memory.
    pub fn insert(&mut self, item: T) -> Result<Pos, T> {
        let hash = self.hash(item.key());
        self.insert_hashed(hash, item)
    }

    /// Like [`insert`](Self::insert), with the key's hash known.
    pub fn insert_hashed(&mut self, hash: u64, item: T) -> Result<Pos, T> {
        let Some(segment) = self.make_room(hash) else { return Err(item) };
        let deadline = item.deadline();
        if deadline.is_some() && self.volatile.keep(self.segments.len()).is_err() {
            return Err(item);
        }
        let hashing = self.hashing;
        let target = &mut self.segments[segment];
        if target.items.len() == target.items.capacity() && target.clear_graves(hashing).is_none() {
            return Err(item);
        }
        if target.items.try_reserve(1, |t| inner(hashing.hash(t.key()))).is_err() {
            return Err(item);
        }
        target.version = target.version.wrapping_add(1);
        let entry = target.items.insert_unique(inner(hash), item, |t| inner(hashing.hash(t.key())));
        let bucket = entry.bucket_index() as u32;
        self.len += 1;
        if deadline.is_some() {
            target.note_deadline(deadline);
            self.volatile.add(segment, 1);
        }
        Ok(Pos { segment: segment as u32, bucket })
    }

    /// The segment for a hash, split as often as it takes to have room. None if there is no memory.
    fn make_room(&mut self, hash: u64) -> Option<usize> {
        if self.segments.is_empty() {
            self.directory.try_reserve_exact(1).ok()?;
            self.segments.try_reserve_exact(1).ok()?;
            self.directory.push(0);
            self.segments.push(Segment {
                items: HashTable::new(),
                depth: 0,
                prefix: 0,
                version: 0,
                deadline: NO_DEADLINE,
            });
            self.deepest = 1;
        }
        loop {
            let segment = self.segment_of(hash)?;
            let s = &self.segments[segment];
            let full = s.items.len() >= SEGMENT_MAX
                || (s.items.len() > CROWDED && s.items.len() == s.items.capacity() && s.places() == SEGMENT_MAX);
            if !full || s.depth >= MAX_DEPTH {
                return Some(segment);
            }
            self.split(segment)?;
        }
    }

    /// Splits a segment by its next hash bit.
    fn split(&mut self, segment: usize) -> Option<()> {
        let depth = self.segments[segment].depth;
        if depth == self.depth {
            self.double()?;
        }
        // A vector of many segments grows by an eighth: doubling would waste half of it.
        if self.segments.len() == self.segments.capacity() {
            self.segments.try_reserve_exact((self.segments.len() / 8).max(1)).ok()?;
        }
        self.volatile.reserve()?;
        let hashing = self.hashing;
        let bit = 1u64 << (63 - depth);
        let goes = |t: &T| hashing.hash(t.key()) & bit != 0;
        let rehash = |t: &T| inner(hashing.hash(t.key()));
        let new_number = self.segments.len() as u32;
        let old = &mut self.segments[segment];
        let moving = old.items.iter().filter(|t| goes(t)).count();
        let mut items = HashTable::new();
        items.try_reserve(moving, rehash).ok()?;
        let mut volatile = 0;
        for t in old.items.extract_if(|t| goes(t)) {
            let hash = rehash(&t);
            volatile += u32::from(t.deadline().is_some());
            items.insert_unique(hash, t, rehash);
        }
        old.items.shrink_to(0, rehash);
        old.depth += 1;
        old.version = old.version.wrapping_add(1);
        old.prefix <<= 1;
        let new =
            Segment { items, depth: old.depth, prefix: old.prefix | 1, version: old.version, deadline: old.deadline };
        if new.depth == self.depth {
            self.deepest += 2;
        }
        let slots = self.slots(&new);
        self.directory[slots].fill(new_number);
        self.segments.push(new);
        if self.volatile.is_kept() {
            self.volatile.push(volatile);
            self.volatile.add(segment, volatile.wrapping_neg());
        }
        Some(())
    }

    /// Directory slots that name a segment.
    fn slots(&self, s: &Segment<T>) -> core::ops::Range<usize> {
        let spread = self.depth - s.depth;
        let first = (s.prefix as usize) << spread;
        first..first + (1 << spread)
    }

    fn double(&mut self) -> Option<()> {
        let n = self.directory.len();
        self.directory.try_reserve_exact(n).ok()?;
        self.directory.resize(n * 2, 0);
        for i in (0..n).rev() {
            let segment = self.directory[i];
            self.directory[2 * i] = segment;
            self.directory[2 * i + 1] = segment;
        }
        self.depth += 1;
        self.deepest = 0;
        Some(())
    }

    /// Removes the item with this key.
    pub fn remove(&mut self, key: &[u8]) -> Option<T> {
        let pos = self.find(key)?;
        self.remove_at(pos)
    }

    /// Removes the item at a position.
    pub fn remove_at(&mut self, pos: Pos) -> Option<T> {
        let segment = self.segments.get_mut(pos.segment as usize)?;
        let (item, _) = segment.items.get_bucket_entry(pos.bucket as usize).ok()?.remove();
        segment.version = segment.version.wrapping_add(1);
        self.len -= 1;
        if item.deadline().is_some() {
            self.volatile.add(pos.segment as usize, u32::MAX);
        }
        self.tidy(pos.segment as usize);
        Some(item)
    }

    /// Gives memory back after removals from a segment.
    fn tidy(&mut self, segment: usize) {
        let hashing = self.hashing;
        let s = &mut self.segments[segment];
        if s.items.num_buckets() > 8 && s.items.len() * 5 < s.places() * 2 {
            // Into half the buckets, with a fifth of them to spare.
            s.items.shrink_to(s.items.len() * 5 / 4, |t| inner(hashing.hash(t.key())));
        }
        if self.segments[segment].depth > 0 && self.segments[segment].items.len() < MERGE_MAX {
            self.merge(segment);
        } else if self.len == 0 {
            self.clear();
        }
    }

    /// Merges a segment with its neighbour if both are small.
    fn merge(&mut self, segment: usize) {
        let s = &self.segments[segment];
        let buddy_slot = ((s.prefix ^ 1) as usize) << (self.depth - s.depth);
        let buddy = self.directory[buddy_slot] as usize;
        let b = &self.segments[buddy];
        if b.depth != s.depth || b.items.len() + s.items.len() > MERGE_MAX {
            return;
        }
        let (keep, gone) = if segment < buddy { (segment, buddy) } else { (buddy, segment) };
        let hashing = self.hashing;
        let rehash = |t: &T| inner(hashing.hash(t.key()));
        let need = self.segments[gone].items.len();
        if self.segments[keep].items.try_reserve(need, rehash).is_err() {
            return;
        }
        let mut removed = self.segments.swap_remove(gone);
        let volatile = self.volatile.swap_remove(gone);
        self.volatile.add(keep, volatile);
        self.merges += 1;
        let kept = &mut self.segments[keep];
        for t in removed.items.drain() {
            let hash = rehash(&t);
            kept.items.insert_unique(hash, t, rehash);
        }
        if kept.depth == self.depth {
            self.deepest -= 2;
        }
        kept.depth -= 1;
        kept.prefix >>= 1;
        kept.version = kept.version.max(removed.version).wrapping_add(1);
        kept.deadline = kept.deadline.min(removed.deadline);
        let slots = self.slots(&self.segments[keep]);
        self.directory[slots].fill(keep as u32);
        if let Some(moved) = self.segments.get(gone) {
            let slots = self.slots(moved);
            self.directory[slots].fill(gone as u32);
        }
        if self.segments.len() * 2 < self.segments.capacity() {
            self.segments.shrink_to(self.segments.len() + self.segments.len() / 8);
        }
        if self.deepest == 0 && self.depth > 0 {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let n = self.directory.len() / 2;
        for i in 0..n {
            self.directory[i] = self.directory[2 * i];
        }
        self.directory.truncate(n);
        self.directory.shrink_to_fit();
        self.depth -= 1;
        self.deepest = self.segments.iter().filter(|s| s.depth == self.depth).count() as u32;
    }

    /// Drops everything at once. For a large table use [`free_step`](Self::free_step) until it says 0.
    pub fn clear(&mut self) {
        *self = Self { merges: self.merges + 1, ..Self::new(self.hashing) };
    }

    /// Drops items of a table that nobody looks into any more, segment by segment until at least `n` are gone; returns
    /// how many there were. 0: the table is empty.
    pub fn free_step(&mut self, n: usize) -> usize {
        (self.directory, self.volatile) = (Vec::new(), Counts::new());
        let mut freed = 0;
        while freed < n {
            let Some(s) = self.segments.pop() else { break };
            freed += s.items.len();
        }
        self.len -= freed.min(self.len);
        if self.segments.is_empty() {
            self.clear();
        }
        freed
    }

    /// Takes items out of a table that nobody looks into any more, one after the other.
    pub fn pop_any(&mut self) -> Option<T> {
        (self.directory, self.volatile) = (Vec::new(), Counts::new());
        loop {
            let s = self.segments.last_mut()?;
            let bucket = s.items.iter_buckets().next();
            match bucket.and_then(|b| s.items.get_bucket_entry(b).ok()) {
                Some(entry) => {
                    self.len -= 1;
                    return Some(entry.remove().0);
                }
                None => drop(self.segments.pop()),
            }
        }
    }

    /// All items, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.segments.iter().flat_map(|s| s.items.iter())
    }
}
