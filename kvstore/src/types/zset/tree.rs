//! The large encoding of a sorted set: a counted B+-tree of leaf blocks, and a hash index from members to leaves.
//!
//! The tree orders elements by (score, member) and counts them per subtree, so that rank, position and range ends are
//! O(log n). An index entry is a leaf's name and 32 bits of the member's hash; the member itself lies in the leaf alone.
//! Costs for 15-byte members: 28 bytes in a leaf, an eighth of that spare, 2 of leaf and tree nodes, about 14 of index.
//!
//! Nothing that grows touches more than one leaf, one node per level and one segment of the index.

use alloc::vec::Vec;
use core::ops::Range;

use barium_cell::OutOfMemory;

use super::arena::{Arena, CHUNK};
use super::index::{Index, Slot};
use super::leaf::{Leaf, MAX_BYTES, MAX_RECORDS, NONE, Record, order_of};
use crate::table::Hashing;

/// Most children of an inner node.
const FANOUT: usize = 64;
/// Leaves are merged with a neighbour below this many records, if both fit in three quarters of a leaf.
const FEW_RECORDS: usize = MAX_RECORDS / 4;
/// More levels than 2^32 elements can need.
const MAX_HEIGHT: usize = 16;

/// A subtree, as its parent sees it.
#[derive(Clone, Copy, Debug)]
struct Child {
    /// Name of the node (of a leaf at the lowest level).
    node: u32,
    /// Its first leaf: that leaf's first record is where the subtree begins.
    first_leaf: u32,
    /// Elements in it.
    count: u32,
}

#[derive(Debug, Default)]
struct Inner {
    children: Vec<Child>,
}

/// The way from the root to a leaf: inner nodes and which child was taken.
struct Path {
    steps: [(u32, u32); MAX_HEIGHT],
    len: usize,
}

impl Path {
    fn push(&mut self, node: u32, child: usize) {
        self.steps[self.len] = (node, child as u32);
        self.len += 1;
    }
}

/// The hashes of a leaf's members, and how many.
fn hashes(leaf: &Leaf) -> ([u32; MAX_RECORDS + 1], usize) {
    let mut hashes = [0; MAX_RECORDS + 1];
    for (place, (_, record)) in hashes.iter_mut().zip(leaf.records()) {
        *place = record.hash;
    }
    (hashes, leaf.len())
}

/// A place between elements.
struct Position {
    path: Path,
    leaf: u32,
    /// Byte offset in the leaf, and number of records before it there.
    at: usize,
    index: usize,
    /// Elements before it.
    rank: usize,
}

/// A large sorted set: see the module's description.
#[derive(Debug)]
pub struct Tree {
    leaves: Arena<Leaf>,
    inners: Arena<Inner>,
    index: Index,
    root: u32,
    /// Levels of inner nodes.
    height: usize,
    len: usize,
    first_leaf: u32,
    last_leaf: u32,
    /// Bytes of the leaves' blocks.
    block_bytes: usize,
}

impl Tree {
    /// An empty tree.
    pub(super) fn new(hashing: Hashing) -> Self {
        let mut leaves = Arena::new();
        let root = leaves.insert(Leaf::new());
        Self {
            leaves,
            inners: Arena::new(),
            index: Index::new(hashing),
            root,
            height: 0,
            len: 0,
            first_leaf: root,
            last_leaf: root,
            block_bytes: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A copy.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(crate) fn try_clone(&self) -> Result<Self, OutOfMemory> {
        let mut copy = Self::new(self.index.hashing());
        for (member, score) in self.iter(0..self.len()) {
            copy.insert(member, score)?;
        }
        Ok(copy)
    }

    /// The leaf and offset of a member's record.
    fn find(&self, hash: u32, member: &[u8]) -> Option<(u32, usize)> {
        let mut found = None;
        self.index.find(hash, |leaf| {
            found = self.leaves[leaf].find(hash, member).map(|at| (leaf, at));
            found.is_some()
        });
        found
    }

    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        let (leaf, at) = self.find(self.index.hash(member), member)?;
        Some(self.leaves[leaf].record(at).0.score)
    }

    /// The place before the first element that is not `before`, which must be true for a prefix of the elements only. If a
    /// leaf begins there, then the place is in that leaf if its first element is to `enter`, else at the end of the leaf
    /// before.
    fn partition(&self, enter: impl Fn(&Record<'_>) -> bool, before: impl Fn(&Record<'_>) -> bool) -> Position {
        let mut path = Path { steps: [(0, 0); MAX_HEIGHT], len: 0 };
        let mut node = self.root;
        let mut rank = 0;
        for _ in 0..self.height {
            let children = &self.inners[node].children;
            let later = children[1..].partition_point(|child| enter(&self.leaves[child.first_leaf].record(0).0));
            rank += children[..later].iter().map(|child| child.count as usize).sum::<usize>();
            path.push(node, later);
            node = children[later].node;
        }
        let (at, index) = self.leaves[node].partition(before);
        Position { path, leaf: node, at, index, rank: rank + index }
    }

    /// Number of elements that are `before`.
    pub(super) fn count_before(&self, before: impl Fn(f64, &[u8]) -> bool) -> usize {
        let before = |record: &Record<'_>| before(record.score, record.member);
        self.partition(before, before).rank
    }

    /// The place of an element, or where it would be.
    fn place_of(&self, score: f64, member: &[u8]) -> Position {
        let order = order_of(score);
        self.partition(|record| record.compare(order, member).is_le(), |record| record.compare(order, member).is_lt())
    }

    pub(super) fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let score = self.score(member)?;
        Some((self.place_of(score, member).rank, score))
    }

    /// The leaf that holds the element of this rank, and its number there.
    fn seek(&self, mut rank: usize) -> (u32, usize) {
        let mut node = self.root;
        for _ in 0..self.height {
            for child in &self.inners[node].children {
                node = child.node;
                if rank < child.count as usize {
                    break;
                }
                rank -= child.count as usize;
            }
        }
        (node, rank)
    }

    /// The element of this rank.
    pub(super) fn get(&self, rank: usize) -> Option<(&[u8], f64)> {
        if rank >= self.len {
            return None;
        }
        let (leaf, index) = self.seek(rank);
        let leaf = &self.leaves[leaf];
        let record = leaf.record(leaf.offset_of(index)).0;
        Some((record.member, record.score))
    }

    /// Sets a member's score; returns the score it had.
    pub(super) fn insert(&mut self, member: &[u8], score: f64) -> Result<Option<f64>, OutOfMemory> {
        let hash = self.index.hash(member);
        let Some((leaf, at)) = self.find(hash, member) else {
            self.insert_new(Record { hash, score, member })?;
            return Ok(None);
        };
        let old = self.leaves[leaf].record(at).0.score;
        if self.stays_in_place(leaf, at, score, member) {
            self.leaves[leaf].set_score(at, score);
        } else {
            let place = self.place_of(old, member);
            self.remove_at(place, hash);
            self.insert_new(Record { hash, score, member })?;
        }
        Ok(Some(old))
    }

    /// Whether a record with a new score stays between its neighbours in the leaf. (At a leaf's edge it is removed and put
    /// in anew.)
    fn stays_in_place(&self, leaf: u32, at: usize, score: f64, member: &[u8]) -> bool {
        let leaf = &self.leaves[leaf];
        let order = order_of(score);
        let mut previous = None;
        for (offset, record) in leaf.records() {
            if offset == at {
                let after_previous = previous.is_some_and(|p: Record<'_>| p.compare(order, member).is_lt());
                let next = leaf.record(at).1;
                return after_previous && next < leaf.bytes() && leaf.record(next).0.compare(order, member).is_gt();
            }
            previous = Some(record);
        }
        false
    }

    fn insert_new(&mut self, record: Record<'_>) -> Result<(), OutOfMemory> {
        let Position { path, leaf: id, at, index, .. } = self.place_of(record.score, record.member);
        let slot = Slot { hash: record.hash, leaf: id };
        self.index.insert(slot)?;
        let leaf = &mut self.leaves[id];
        let memory = leaf.memory();
        let inserted = leaf.insert(at, record);
        self.block_bytes += leaf.memory() - memory;
        if inserted.is_err() {
            self.index.remove(slot);
            return inserted;
        }
        self.len += 1;
        for &(node, child) in &path.steps[..path.len] {
            self.inners[node].children[child as usize].count += 1;
        }
        if self.leaves[id].is_overfull()
            && let Err(OutOfMemory) = self.split_leaf(&path, id, index)
        {
            self.remove_at(Position { path, leaf: id, at, index, rank: 0 }, record.hash);
            return Err(OutOfMemory);
        }
        Ok(())
    }

    /// Splits an overfull leaf whose newest record is number `newest`.
    fn split_leaf(&mut self, path: &Path, id: u32, newest: usize) -> Result<(), OutOfMemory> {
        let leaf = &self.leaves[id];
        let count = leaf.len();
        // A set that is filled in order keeps full leaves behind.
        let (at, kept) = if newest + 1 == count && leaf.next == NONE {
            (leaf.offset_of(count - 1), count - 1)
        } else if newest == 0 && leaf.prev == NONE {
            (leaf.offset_of(1), 1)
        } else {
            leaf.middle()
        };
        let next = leaf.next;
        let memory = leaf.memory();
        let leaf = &mut self.leaves[id];
        let mut right = leaf.split_off(at, kept)?;
        self.block_bytes = self.block_bytes + leaf.memory() + right.memory() - memory;
        (right.prev, right.next) = (id, next);
        let (moved, moved_count) = hashes(&right);
        let right_count = right.len() as u32;
        let right_id = self.leaves.insert(right);
        self.leaves[id].next = right_id;
        match next {
            NONE => self.last_leaf = right_id,
            next => self.leaves[next].prev = right_id,
        }
        for &hash in &moved[..moved_count] {
            self.index.relocate(hash, id, right_id);
        }
        self.add_sibling(path, Child { node: right_id, first_leaf: right_id, count: right_count });
        Ok(())
    }

    /// Puts a new node, split off the one that `path` leads to, to its right.
    fn add_sibling(&mut self, path: &Path, mut new: Child) {
        for &(node, child) in path.steps[..path.len].iter().rev() {
            let children = &mut self.inners[node].children;
            children[child as usize].count -= new.count;
            let at = child as usize + 1;
            if children.len() == children.capacity() {
                children.reserve_exact(8);
            }
            children.insert(at, new);
            let n = children.len();
            if n <= FANOUT {
                return;
            }
            let keep = if at + 1 == n { n - n / 8 } else { n / 2 };
            let right = children.split_off(keep);
            children.shrink_to(keep.next_multiple_of(8));
            new =
                Child { node: 0, first_leaf: right[0].first_leaf, count: right.iter().map(|child| child.count).sum() };
            new.node = self.inners.insert(Inner { children: right });
        }
        let old = Child { node: self.root, first_leaf: self.first_leaf, count: self.len as u32 - new.count };
        self.root = self.inners.insert(Inner { children: alloc::vec![old, new] });
        self.height += 1;
    }

    /// Removes a member; returns the score it had.
    pub(super) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let hash = self.index.hash(member);
        let (leaf, at) = self.find(hash, member)?;
        let score = self.leaves[leaf].record(at).0.score;
        let place = self.place_of(score, member);
        self.remove_at(place, hash);
        Some(score)
    }

    /// Removes elements by rank, from `ranks.start` on; `each` sees them before.
    pub(super) fn remove_range(&mut self, ranks: Range<usize>, mut each: impl FnMut(&[u8], f64)) {
        for _ in ranks.clone() {
            let place = self.path_to(ranks.start);
            let record = self.leaves[place.leaf].record(place.at).0;
            each(record.member, record.score);
            let hash = record.hash;
            self.remove_at(place, hash);
        }
    }

    /// The place of the element of this rank.
    fn path_to(&self, rank: usize) -> Position {
        let mut path = Path { steps: [(0, 0); MAX_HEIGHT], len: 0 };
        let mut node = self.root;
        let mut rest = rank;
        for _ in 0..self.height {
            let children = &self.inners[node].children;
            let mut taken = 0;
            while taken + 1 < children.len() && rest >= children[taken].count as usize {
                rest -= children[taken].count as usize;
                taken += 1;
            }
            path.push(node, taken);
            node = children[taken].node;
        }
        Position { path, leaf: node, at: self.leaves[node].offset_of(rest), index: rest, rank }
    }

    /// Removes the record at a place, whose member has this hash.
    fn remove_at(&mut self, place: Position, hash: u32) {
        let Position { path, leaf: id, at, .. } = place;
        let leaf = &mut self.leaves[id];
        let memory = leaf.memory();
        leaf.remove(at);
        self.block_bytes = self.block_bytes + leaf.memory() - memory;
        let left = leaf.len();
        self.index.remove(Slot { hash, leaf: id });
        self.len -= 1;
        for &(node, child) in &path.steps[..path.len] {
            self.inners[node].children[child as usize].count -= 1;
        }
        if path.len == 0 {
            return;
        }
        if left == 0 {
            self.unlink_leaf(id);
            self.remove_child(&path, path.len);
        } else if left < FEW_RECORDS {
            self.merge_leaf(&path);
        }
    }

    /// Takes a leaf out of the chain and drops it.
    fn unlink_leaf(&mut self, id: u32) {
        let leaf = self.leaves.remove(id);
        self.block_bytes -= leaf.memory();
        match leaf.prev {
            NONE => self.first_leaf = leaf.next,
            prev => self.leaves[prev].next = leaf.next,
        }
        match leaf.next {
            NONE => self.last_leaf = leaf.prev,
            next => self.leaves[next].prev = leaf.prev,
        }
    }

    /// Takes the child that the first `depth` steps lead to out of its parent, with what becomes empty above.
    fn remove_child(&mut self, path: &Path, depth: usize) {
        for level in (0..depth).rev() {
            let (node, child) = path.steps[level];
            let children = &mut self.inners[node].children;
            children.remove(child as usize);
            if children.is_empty() && level > 0 {
                self.inners.remove(node);
                continue;
            }
            if child == 0 {
                self.update_first_leaf(path, level);
            }
            self.merge_inner(path, level);
            break;
        }
        while self.height > 0 && self.inners[self.root].children.len() == 1 {
            let only = self.inners.remove(self.root).children[0].node;
            self.root = only;
            self.height -= 1;
        }
    }

    /// Tells the nodes above the inner node at `level` of the path which leaf it begins with now.
    fn update_first_leaf(&mut self, path: &Path, level: usize) {
        let first_leaf = self.inners[path.steps[level].0].children[0].first_leaf;
        for &(node, child) in path.steps[..level].iter().rev() {
            self.inners[node].children[child as usize].first_leaf = first_leaf;
            if child != 0 {
                break;
            }
        }
    }

    /// The numbers of two neighbouring children of a node, one of them `child`; `None` for an only child.
    fn neighbours(children: &[Child], child: usize) -> Option<(usize, usize)> {
        if child + 1 < children.len() { Some((child, child + 1)) } else { Some((child.checked_sub(1)?, child)) }
    }

    /// Merges the leaf that the path leads to with a neighbour of the same parent, if they fit.
    fn merge_leaf(&mut self, path: &Path) {
        let (node, child) = path.steps[path.len - 1];
        let children = &self.inners[node].children;
        let Some((left, right)) = Self::neighbours(children, child as usize) else { return };
        let (left_id, right_id) = (children[left].node, children[right].node);
        let (a, b) = (&self.leaves[left_id], &self.leaves[right_id]);
        if a.len() + b.len() > MAX_RECORDS * 3 / 4 || a.bytes() + b.bytes() > MAX_BYTES * 3 / 4 {
            return;
        }
        let (moved, moved_count) = hashes(b);
        let right_leaf = core::mem::take(&mut self.leaves[right_id]);
        let left_leaf = &mut self.leaves[left_id];
        let memory = left_leaf.memory();
        let appended = left_leaf.append(&right_leaf);
        self.block_bytes = self.block_bytes + left_leaf.memory() - memory;
        self.leaves[right_id] = right_leaf;
        if appended.is_err() {
            return;
        }
        for &hash in &moved[..moved_count] {
            self.index.relocate(hash, right_id, left_id);
        }
        self.unlink_leaf(right_id);
        let children = &mut self.inners[node].children;
        children[left].count += children[right].count;
        let mut to_right = Path { steps: path.steps, len: path.len };
        to_right.steps[path.len - 1].1 = right as u32;
        self.remove_child(&to_right, path.len);
    }

    /// Merges the inner node at `level` of the path with a neighbour, if both are small.
    fn merge_inner(&mut self, path: &Path, level: usize) {
        let Some(above) = level.checked_sub(1) else { return };
        let (node, child) = path.steps[above];
        let children = &self.inners[node].children;
        let Some((left, right)) = Self::neighbours(children, child as usize) else { return };
        let (left_id, right_id) = (children[left].node, children[right].node);
        let together = self.inners[left_id].children.len() + self.inners[right_id].children.len();
        if together > FANOUT / 2 {
            return;
        }
        let mut moved = self.inners.remove(right_id).children;
        self.inners[left_id].children.append(&mut moved);
        let children = &mut self.inners[node].children;
        children[left].count += children[right].count;
        let mut to_right = Path { steps: path.steps, len: path.len };
        to_right.steps[above].1 = right as u32;
        self.remove_child(&to_right, above + 1);
    }

    /// The elements of these ranks in order.
    pub(super) fn iter(&self, ranks: Range<usize>) -> Forward<'_> {
        let ranks = ranks.start.min(self.len)..ranks.end.min(self.len);
        let left = ranks.len();
        if left == 0 {
            return Forward { tree: self, leaf: NONE, at: 0, left: 0 };
        }
        let (leaf, index) = self.seek(ranks.start);
        Forward { tree: self, leaf, at: self.leaves[leaf].offset_of(index), left }
    }

    /// The elements of these ranks, the last one first.
    pub(super) fn iter_back(&self, ranks: Range<usize>) -> Backward<'_> {
        let ranks = ranks.start.min(self.len)..ranks.end.min(self.len);
        let left = ranks.len();
        let mut iter = Backward { tree: self, leaf: NONE, offsets: [0; MAX_RECORDS], before: 0, left };
        if left > 0 {
            let (leaf, index) = self.seek(ranks.end - 1);
            iter.enter(leaf);
            iter.before = index + 1;
        }
        iter
    }

    /// Visits index entries from `cursor` on until at least `count` were seen; returns the next cursor, 0 at the end.
    pub(super) fn scan(&self, cursor: u64, count: usize, mut each: impl FnMut(&[u8], f64)) -> u64 {
        self.index.scan(cursor, count, |slot| {
            for (_, record) in self.leaves[slot.leaf].records().filter(|(_, record)| record.hash == slot.hash) {
                each(record.member, record.score);
            }
        })
    }

    /// Bytes of memory behind the tree, without the struct itself.
    pub(crate) fn memory_usage(&self) -> usize {
        let inner_bytes = (self.len / MAX_RECORDS + 1) * size_of::<Child>();
        self.block_bytes
            + self.leaves.memory_usage()
            + self.inners.memory_usage()
            + self.index.memory_usage()
            + inner_bytes * 3 / 2
    }

    /// Frees about `n` elements; true once all are gone. The tree may only be dropped afterwards.
    pub(crate) fn free_step(&mut self, n: usize) -> bool {
        let mut freed = 0;
        while freed < n {
            // A chunk of leaves holds up to 16 times 32 elements, one allocation per leaf.
            if self.leaves.drop_chunk() {
                freed += CHUNK * MAX_RECORDS;
            } else if self.inners.drop_chunk() {
                // And one of inner nodes as many times up to 64 children.
                freed += CHUNK * FANOUT;
            } else {
                match self.index.free_step(n - freed) {
                    0 => return true,
                    slots => freed += slots,
                }
            }
        }
        false
    }
}

/// Iterator over elements in order.
pub(super) struct Forward<'a> {
    tree: &'a Tree,
    leaf: u32,
    at: usize,
    left: usize,
}

impl<'a> Iterator for Forward<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let tree = self.tree;
        let mut leaf = &tree.leaves[self.leaf];
        if self.at >= leaf.bytes() {
            self.leaf = leaf.next;
            self.at = 0;
            leaf = &tree.leaves[self.leaf];
        }
        let (record, next) = leaf.record(self.at);
        self.at = next;
        Some((record.member, record.score))
    }
}

/// Iterator over elements from the last one on.
pub(super) struct Backward<'a> {
    tree: &'a Tree,
    leaf: u32,
    /// Where the leaf's records are: they can be walked forward only.
    offsets: [u32; MAX_RECORDS],
    /// Records of the leaf that are still to come.
    before: usize,
    left: usize,
}

impl Backward<'_> {
    fn enter(&mut self, leaf: u32) {
        self.leaf = leaf;
        self.before = 0;
        for (place, (at, _)) in self.offsets.iter_mut().zip(self.tree.leaves[leaf].records()) {
            *place = at as u32;
            self.before += 1;
        }
    }
}

impl<'a> Iterator for Backward<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        if self.before == 0 {
            self.enter(self.tree.leaves[self.leaf].prev);
        }
        self.before -= 1;
        let tree = self.tree;
        let record = tree.leaves[self.leaf].record(self.offsets[self.before] as usize).0;
        Some((record.member, record.score))
    }
}
