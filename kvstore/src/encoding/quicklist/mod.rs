//! Quicklist: a long list as a sequence of listpacks of bounded size.
//!
//! Elements meet nodes by Redis's rules (`list-max-listpack-size`), because the number of nodes is what decides when
//! a list that shrinks becomes a single listpack again.
//!
//! Costs: push and pop O(1) at both ends; index lookup walks chunks of nodes (see [`nodes`]), then one listpack; an
//! insert or delete inside moves bytes of one node and touches its neighbours at most. About 3 bytes an element
//! beyond its own.

pub mod nodes;

use alloc::boxed::Box;
use alloc::vec::Vec;

use barium_cell::OutOfMemory;

use self::nodes::{Node, Nodes};
use super::listpack::{Cursor, Entry, HEADER_LEN, Listpack};
use crate::number::estimated_sum;

/// Room that a push is assumed to need beyond the element's text.
const ENTRY_OVERHEAD_ESTIMATE: usize = 8;
/// Most bytes of a listpack whose limit is a number of elements, and of a string inside one.
const SAFE_BYTES: usize = 8192;

/// What a node may hold: `list-max-listpack-size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimit {
    number: i32,
    /// Elements of this many bytes and more get a node of their own, whatever the limit; 0: those beyond the limit do.
    packed_threshold: u32,
}

impl NodeLimit {
    /// From the configured number: positive is elements, -1 to -5 are 4, 8, 16, 32 and 64 KiB.
    pub fn new(list_max_listpack_size: i64) -> Self {
        Self { number: 0, packed_threshold: 0 }.with_number(list_max_listpack_size)
    }

    /// The same with another configured number.
    pub fn with_number(self, list_max_listpack_size: i64) -> Self {
        Self { number: list_max_listpack_size.clamp(-5, i64::from(i32::MAX)) as i32, ..self }
    }

    /// The same limit with another size, in bytes, from which on elements get a node of their own (DEBUG
    /// QUICKLIST-PACKED-THRESHOLD); 0 for none.
    pub const fn with_packed_threshold(self, bytes: u32) -> Self {
        Self { packed_threshold: bytes, ..self }
    }

    /// The configured number.
    pub const fn number(self) -> i32 {
        self.number
    }

    fn bytes(self) -> Option<usize> {
        (self.number < 0).then(|| 4096 << (-self.number - 1))
    }

    fn elements(self) -> usize {
        self.number.max(1) as usize
    }

    /// Whether `bytes` of listpack with `elements` elements are too much for one node.
    pub fn exceeded(self, bytes: usize, elements: usize) -> bool {
        match self.bytes() {
            Some(limit) => bytes > limit,
            None => bytes > SAFE_BYTES || elements > self.elements(),
        }
    }

    /// Whether a node of `bytes` with `elements` elements is at most half of what one may hold.
    pub fn half_full_at_most(self, bytes: usize, elements: usize) -> bool {
        match self.bytes() {
            Some(limit) => bytes <= limit / 2,
            None => elements <= self.elements() / 2,
        }
    }

    /// Whether `bytes` of listpack with `elements` elements are within the limit as conversions see it: without
    /// the bound on bytes for a limit by number.
    pub fn fits(self, bytes: usize, elements: usize) -> bool {
        match self.bytes() {
            Some(limit) => bytes <= limit,
            None => elements <= self.elements(),
        }
    }

    /// Whether an element of `len` bytes gets a node of its own.
    fn is_large(self, len: usize) -> bool {
        match self.packed_threshold {
            0 => len > self.bytes().unwrap_or(SAFE_BYTES),
            threshold => len >= threshold as usize,
        }
    }
}

/// Which end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The head.
    Left,
    /// The tail.
    Right,
}

/// A list of byte strings.
#[derive(Debug)]
pub struct Quicklist {
    nodes: Nodes,
    limit: NodeLimit,
}

impl Quicklist {
    /// An empty list whose nodes keep to `limit`.
    pub fn new(limit: NodeLimit) -> Self {
        Self { nodes: Nodes::default(), limit }
    }

    /// A list that starts with the elements of `lp`.
    pub fn from_listpack(lp: Listpack, limit: NodeLimit) -> Self {
        let mut list = Self::new(limit);
        list.append_node(Node::Packed(lp));
        list
    }

    /// Appends a whole node, as a serialised list gives them. Empty ones are dropped.
    pub fn append_node(&mut self, node: Node) {
        if node.count() > 0 {
            self.nodes.insert(self.nodes.len(), node);
        }
    }

    /// Takes over the packed threshold of `limit`; the rest of the list's limit stays as it was when it was made.
    pub const fn set_packed_threshold(&mut self, limit: NodeLimit) {
        self.limit.packed_threshold = limit.packed_threshold;
    }

    /// What its nodes may hold.
    pub const fn limit(&self) -> NodeLimit {
        self.limit
    }

    /// The list as one listpack, if it has a single node that is one.
    pub fn single_listpack(&self) -> Option<&Listpack> {
        if self.nodes.len() == 1 { self.nodes.get(0)?.packed() } else { None }
    }

    /// Takes the only node's listpack out, when [`single_listpack`](Self::single_listpack) has one.
    pub fn take_single_listpack(&mut self) -> Option<Listpack> {
        self.single_listpack()?;
        match self.nodes.remove(0)? {
            Node::Packed(lp) => Some(lp),
            Node::Plain(_) => None,
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.nodes.elements()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.nodes.elements() == 0
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The nodes in order.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter_from(0)
    }

    /// Bytes of memory behind the list, by as many nodes as `samples` says.
    pub fn memory_usage(&self, samples: usize) -> usize {
        self.nodes.overhead() + estimated_sum(self.nodes().map(Node::memory_usage), self.nodes.len(), samples)
    }

    fn small(element: &[u8]) -> Node {
        let mut lp = Listpack::new();
        lp.push_back(element);
        Node::Packed(lp)
    }

    fn node_for(&self, element: &[u8]) -> Result<Node, OutOfMemory> {
        Ok(if self.limit.is_large(element.len()) { Node::Plain(boxed_bytes(element)?) } else { Self::small(element) })
    }

    /// Whether `node` exists and has room for an element of `len` bytes.
    fn has_room(&self, node: Option<&Node>, len: usize) -> bool {
        let Some(Node::Packed(lp)) = node else { return false };
        !self.limit.is_large(len) && !self.limit.exceeded(lp.byte_len() + len + ENTRY_OVERHEAD_ESTIMATE, lp.len() + 1)
    }

    fn has_room_at(&self, node: Option<usize>, len: usize) -> bool {
        self.has_room(node.and_then(|n| self.nodes.get(n)), len)
    }

    fn edit_packed(&mut self, node: usize, change: impl FnOnce(&mut Listpack)) {
        self.nodes.edit(node, |n| {
            if let Node::Packed(lp) = n {
                change(lp);
            }
        });
    }

    /// Adds an element at one end.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn push(&mut self, end: End, element: &[u8]) -> Result<(), OutOfMemory> {
        if self.has_room(self.nodes.end(end), element.len()) {
            self.nodes.edit_end(end, |node| {
                if let Node::Packed(lp) = node {
                    match end {
                        End::Left => lp.push_front(element),
                        End::Right => lp.push_back(element),
                    }
                }
            });
            return Ok(());
        }
        let new = self.node_for(element)?;
        // The node is full: it will hardly grow again, and its spare room is worth more elsewhere.
        self.nodes.edit_end(end, |node| {
            if let Node::Packed(lp) = node {
                lp.shrink_to_fit();
            }
        });
        let at = if end == End::Left { 0 } else { self.nodes.len() };
        self.nodes.insert(at, new);
        Ok(())
    }

    /// The first or last element.
    pub fn peek(&self, end: End) -> Option<Entry<'_>> {
        match (self.nodes.end(end)?, end) {
            (Node::Packed(lp), End::Left) => Some(lp.get(lp.first()?)),
            (Node::Packed(lp), End::Right) => Some(lp.get(lp.last()?)),
            (Node::Plain(bytes), _) => Some(Entry::Str(bytes)),
        }
    }

    /// Removes the first or last element, if there is one.
    pub fn pop(&mut self, end: End) {
        let several = self.nodes.end(end).is_some_and(|n| n.count() > 1);
        if several {
            self.nodes.edit_end(end, |node| match (node, end) {
                (Node::Packed(lp), End::Left) => lp.pop_front(),
                (Node::Packed(lp), End::Right) => lp.pop_back(),
                (Node::Plain(_), _) => {}
            });
        } else {
            let number = if end == End::Left { 0 } else { self.nodes.len().saturating_sub(1) };
            self.nodes.remove(number);
        }
    }

    /// The element at `index`.
    pub fn get(&self, index: usize) -> Option<Entry<'_>> {
        let (node, offset) = self.nodes.find(index)?;
        self.nodes.get(node)?.get(offset)
    }

    /// Inserts before (or after) the element at `index`, which must exist.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn insert(&mut self, index: usize, after: bool, element: &[u8]) -> Result<(), OutOfMemory> {
        let Some((node, offset)) = self.nodes.find(index) else { return Ok(()) };
        let Some(target) = self.nodes.get(node) else { return Ok(()) };
        let count = target.count();
        let plain = target.packed().is_none();
        let at_edge = if after { offset + 1 == count } else { offset == 0 };
        let neighbour = if after { Some(node + 1) } else { node.checked_sub(1) };
        let beside = if after { node + 1 } else { node };
        let within = if after { offset + 1 } else { offset };
        if self.limit.is_large(element.len()) {
            let new = self.node_for(element)?;
            if !plain && !at_edge {
                self.split(node, within);
                self.nodes.insert(node + 1, new);
            } else {
                self.nodes.insert(beside, new);
            }
        } else if self.has_room_at(Some(node), element.len()) {
            self.edit_packed(node, |lp| {
                let pos = lp.seek(within as isize).unwrap_or(lp.end());
                lp.insert(pos, element);
            });
        } else if at_edge && let Some(next) = neighbour.filter(|&n| self.has_room_at(Some(n), element.len())) {
            self.edit_packed(next, |lp| if after { lp.push_front(element) } else { lp.push_back(element) });
        } else if at_edge || plain {
            self.nodes.insert(beside, Self::small(element));
        } else {
            // A full node, in its middle: the new element joins the half that the pivot is not in.
            self.split(node, within);
            if after {
                self.edit_packed(node + 1, |lp| lp.push_front(element));
                self.merge_around(node);
            } else {
                self.edit_packed(node, |lp| lp.push_back(element));
                self.merge_around(node + 1);
            }
        }
        Ok(())
    }

    /// Splits a packed node so that its elements from `offset` on are the next node.
    fn split(&mut self, node: usize, offset: usize) {
        let tail = self.nodes.edit(node, |n| match n {
            Node::Packed(lp) => Some(lp.split_off(offset)),
            Node::Plain(_) => None,
        });
        if let Some(Some(tail)) = tail
            && !tail.is_empty()
        {
            self.nodes.insert(node + 1, Node::Packed(tail));
        }
    }

    fn can_merge(&self, a: usize, b: usize) -> bool {
        let (Some(Node::Packed(a)), Some(Node::Packed(b))) = (self.nodes.get(a), self.nodes.get(b)) else {
            return false;
        };
        !self.limit.exceeded(a.byte_len() + b.byte_len() - HEADER_LEN - 1, a.len() + b.len())
    }

    /// Joins node `a` and the one behind it, if both fit in one.
    fn try_merge(&mut self, a: usize) -> bool {
        if !self.can_merge(a, a + 1) {
            return false;
        }
        if let Some(Node::Packed(tail)) = self.nodes.remove(a + 1) {
            self.edit_packed(a, |lp| lp.append(&tail));
        }
        true
    }

    /// After a split: tries, in Redis's order, the two nodes before, the two behind, and the centre with each side.
    fn merge_around(&mut self, mut center: usize) {
        if center >= 2 && self.try_merge(center - 2) {
            center -= 1;
        }
        if center + 2 < self.nodes.len() {
            self.try_merge(center + 1);
        }
        if center >= 1 && self.try_merge(center - 1) {
            center -= 1;
        }
        self.try_merge(center);
    }

    /// Replaces the element at `index`, if there is one.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn replace(&mut self, index: usize, element: &[u8]) -> Result<(), OutOfMemory> {
        let Some((node, offset)) = self.nodes.find(index) else { return Ok(()) };
        let Some(target) = self.nodes.get(node) else { return Ok(()) };
        let large = self.limit.is_large(element.len());
        match (target, large) {
            (Node::Packed(_), false) => self.edit_packed(node, |lp| {
                if let Some(pos) = lp.seek(offset as isize) {
                    lp.replace(pos, element);
                }
            }),
            (Node::Plain(_), _) => {
                let new = self.node_for(element)?;
                self.nodes.edit(node, |n| *n = new);
            }
            (Node::Packed(lp), true) => {
                let count = lp.len();
                let new = self.node_for(element)?;
                if offset + 1 < count {
                    self.split(node, offset + 1);
                }
                self.nodes.insert(node + 1, new);
                self.delete_in_node(node, offset, 1);
            }
        }
        Ok(())
    }

    /// Deletes elements of one node, and the node when it is empty then. Returns how many elements went.
    fn delete_in_node(&mut self, node: usize, offset: usize, n: usize) -> usize {
        let Some(target) = self.nodes.get(node) else { return 0 };
        let count = target.count();
        let n = n.min(count.saturating_sub(offset));
        if n == count {
            self.nodes.remove(node);
        } else {
            self.edit_packed(node, |lp| {
                lp.delete_range(offset as isize, n);
            });
        }
        n
    }

    /// Removes up to `n` elements from `index` on.
    pub fn delete_range(&mut self, index: usize, mut n: usize) {
        while n > 0 {
            let Some((node, offset)) = self.nodes.find(index) else { return };
            let gone = self.delete_in_node(node, offset, n);
            if gone == 0 {
                return;
            }
            n -= gone;
        }
    }

    /// Removes elements equal to `needle`, at most `max`, starting at one end. Returns how many there were.
    pub fn remove_equal(&mut self, needle: &[u8], max: usize, from: End) -> usize {
        let mut removed = 0;
        let mut node = if from == End::Left { 0 } else { self.nodes.len() };
        while removed < max {
            if from == End::Right {
                let Some(before) = node.checked_sub(1) else { break };
                node = before;
            }
            let left = max - removed;
            let outcome = self.nodes.edit(node, |n| match n {
                Node::Packed(lp) => (remove_equal(lp, needle, left, from), lp.is_empty()),
                Node::Plain(bytes) if **bytes == *needle => (1, true),
                Node::Plain(_) => (0, false),
            });
            let Some((gone, emptied)) = outcome else { break };
            removed += gone;
            if emptied {
                self.nodes.remove(node);
            } else if from == End::Left {
                node += 1;
            }
        }
        removed
    }

    /// The elements from `index` on, in order.
    pub fn iter_from(&self, index: usize) -> impl Iterator<Item = Entry<'_>> {
        let (node, offset) = self.nodes.find(index).unwrap_or((self.nodes.len(), 0));
        let mut skip = offset;
        self.nodes.iter_from(node).flat_map(move |n| Elements::from(n, core::mem::take(&mut skip)))
    }

    /// The elements from `index` towards the head.
    pub fn iter_back_from(&self, index: usize) -> impl Iterator<Item = Entry<'_>> {
        let (node, mut skip) = match self.nodes.find(index) {
            Some((node, offset)) => (node, self.nodes.get(node).map_or(0, Node::count) - offset - 1),
            None => (usize::MAX, 0),
        };
        self.nodes.iter_back_from(node).flat_map(move |n| {
            let skip = core::mem::take(&mut skip);
            let (lp, plain) = match n {
                Node::Packed(lp) => (Some(lp.iter().rev().skip(skip)), None),
                Node::Plain(bytes) => (None, Some(Entry::Str(bytes))),
            };
            plain.into_iter().chain(lp.into_iter().flatten())
        })
    }

    /// Calls `each` for the runs of elements that up to `n` elements from `index` on lie in.
    pub fn runs<'a>(&'a self, index: usize, mut n: usize, mut each: impl FnMut(Run<'a>)) {
        let Some((node, offset)) = self.nodes.find(index) else { return };
        let mut skip = offset;
        for target in self.nodes.iter_from(node) {
            let offset = core::mem::take(&mut skip);
            let here = n.min(target.count() - offset);
            each(match target {
                Node::Packed(lp) => Run::packed(lp, offset, here),
                Node::Plain(bytes) => Run::Plain(bytes),
            });
            n -= here;
            if n == 0 {
                return;
            }
        }
    }

    /// A copy of the list.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        let mut copy = Self::new(self.limit);
        for node in self.nodes() {
            copy.append_node(match node {
                Node::Packed(lp) => Node::Packed(lp.try_clone()?),
                Node::Plain(bytes) => Node::Plain(boxed_bytes(bytes)?),
            });
        }
        Ok(copy)
    }

    /// Frees nodes from the tail until about `n` elements are gone; true when none is left.
    pub fn free_step(&mut self, n: usize) -> bool {
        let mut freed = 0;
        while freed < n {
            let Some(node) = self.nodes.len().checked_sub(1).and_then(|last| self.nodes.remove(last)) else {
                return true;
            };
            freed += node.count();
        }
        self.nodes.is_empty()
    }
}

/// A copy of a string whose size a client chose.
fn boxed_bytes(bytes: &[u8]) -> Result<Box<[u8]>, OutOfMemory> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| OutOfMemory)?;
    copy.extend_from_slice(bytes);
    Ok(copy.into_boxed_slice())
}

/// Removes entries equal to `needle`, at most `max`, starting at one end of `lp`.
pub fn remove_equal(lp: &mut Listpack, needle: &[u8], max: usize, from: End) -> usize {
    let mut removed = 0;
    match from {
        End::Left => {
            let mut pos = 0;
            while removed < max
                && let Some(hit) = lp.find(pos, needle, 1)
            {
                lp.delete(hit);
                removed += 1;
                pos = hit;
            }
        }
        End::Right => {
            let mut pos = lp.end();
            while removed < max
                && let Some(before) = lp.prev(pos)
            {
                if lp.get(before).is(needle) {
                    lp.delete(before);
                    removed += 1;
                }
                pos = before;
            }
        }
    }
    removed
}

/// Neighbouring elements of a list, as they lie in memory.
pub enum Run<'a> {
    /// So many from where the cursor stands.
    Packed(Cursor<'a>, usize),
    /// A single large one.
    Plain(&'a [u8]),
}

impl<'a> Run<'a> {
    /// `n` elements of a listpack from number `offset` on.
    pub fn packed(lp: &'a Listpack, offset: usize, n: usize) -> Self {
        let pos = if offset == 0 { Some(0) } else { lp.seek(offset as isize) };
        Run::Packed(lp.iter_from(pos.unwrap_or(lp.end())), n)
    }
}

/// The elements of one node from some offset on.
enum Elements<'a> {
    Packed(Cursor<'a>),
    Plain(Option<&'a [u8]>),
}

impl<'a> Elements<'a> {
    fn from(node: &'a Node, offset: usize) -> Self {
        match node {
            Node::Packed(lp) => Elements::Packed(lp.iter_from(lp.seek(offset as isize).unwrap_or(lp.end()))),
            Node::Plain(bytes) => Elements::Plain((offset == 0).then_some(bytes)),
        }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        match self {
            Elements::Packed(cursor) => cursor.next(),
            Elements::Plain(bytes) => bytes.take().map(Entry::Str),
        }
    }
}

impl Quicklist {
    /// All elements' texts; for tests and conversions.
    pub fn to_texts(&self) -> Vec<Vec<u8>> {
        self.iter_from(0).map(Entry::to_vec).collect()
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
