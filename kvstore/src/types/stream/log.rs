//! The entries of a stream: nodes in the order of their IDs, and what is known of entries that are gone.

use alloc::collections::{BTreeMap, btree_map};

use barium_cell::OutOfMemory;

use super::id::StreamId;
use super::node::{Item, Items, Node};
use super::radix;
use crate::error::Error;
use crate::number::estimated_sum;

/// Most bytes of fields and values that an entry may have, and of a node.
const MAX_BYTES: usize = 1 << 30;

/// Limits of a node.
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// `stream-node-max-bytes`; 0: none.
    pub node_bytes: usize,
    /// `stream-node-max-entries`; 0: none.
    pub node_entries: u64,
}

/// Which ID a new entry gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewId {
    /// The present time (Unix time, in ms), or the last entry's ID plus one.
    Auto(u64),
    /// This time and the next free sequence number.
    Time(u64),
    /// This one.
    Exact(StreamId),
}

/// What trimming leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// This number of entries.
    Len(u64),
    /// Entries from this ID on.
    Id(StreamId),
}

/// How a stream is trimmed.
#[derive(Clone, Copy, Debug)]
pub struct Trim {
    /// What is left.
    pub bound: Bound,
    /// Only whole nodes go, so more may be left.
    pub approximate: bool,
    /// No more than so many entries go; 0: no limit.
    pub limit: u64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Log {
    /// By the ID of their first entry, which goes on counting when that entry is deleted. (Trimming by
    /// ID can leave a node of deleted entries.)
    nodes: BTreeMap<StreamId, Node>,
    /// Nodes of a radix tree of their IDs, without the root.
    radix: usize,
    /// Number of entries.
    pub len: u64,
    /// ID of the entry that was added last, deleted or not.
    pub last_id: StreamId,
    /// ID of the first entry; `0-0` without entries.
    pub first_id: StreamId,
    /// Greatest ID of the entries that were deleted one by one.
    pub max_deleted_id: StreamId,
    /// Entries that were ever added.
    pub entries_added: u64,
}

impl Log {
    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The nodes with their IDs.
    pub fn nodes(&self) -> impl Iterator<Item = (StreamId, &Node)> {
        self.nodes.iter().map(|(id, node)| (*id, node))
    }

    /// Takes over a node when a stream is loaded: false if there is one with that ID. Counts its entries.
    pub fn add_node(&mut self, master: StreamId, node: Node) -> bool {
        let overlaps = self.nodes.last_key_value().is_some_and(|(id, last)| last.last_id(*id) >= master);
        self.len += node.live();
        let new = !overlaps && !self.nodes.contains_key(&master);
        if new {
            self.insert_node(master, node);
        }
        new
    }

    /// The ID that the next entry gets: None if there is none that is greater than the last.
    pub fn new_id(&self, new: NewId) -> Option<StreamId> {
        let id = match new {
            NewId::Auto(ms) if ms > self.last_id.ms => StreamId { ms, seq: 0 },
            NewId::Auto(_) => self.last_id.next()?,
            NewId::Time(ms) if ms == self.last_id.ms => StreamId { ms, seq: self.last_id.seq.checked_add(1)? },
            NewId::Time(ms) => StreamId { ms, seq: 0 },
            NewId::Exact(id) => id,
        };
        (id > self.last_id).then_some(id)
    }

    /// Bytes of the node that the next entry may go to.
    pub fn tail_bytes(&self) -> usize {
        self.nodes.last_key_value().map_or(0, |(_, node)| node.listpack().byte_len())
    }

    /// Adds an entry: `pairs` are fields and values in turn, at least one of each. `id` is from [`new_id`](Self::new_id).
    ///
    /// # Errors
    /// When fields and values are too large together.
    pub fn append<'a>(
        &mut self,
        id: StreamId,
        pairs: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
        limits: &StreamLimits,
    ) -> Result<(), Error> {
        let bytes: usize = pairs.clone().map(<[u8]>::len).sum();
        if bytes > MAX_BYTES {
            return Err(Error::Fixed("ERR Elements are too large to be stored"));
        }
        let node_bytes = if limits.node_bytes == 0 { MAX_BYTES } else { limits.node_bytes.min(MAX_BYTES) };
        let mut appended = false;
        if let Some((master, node)) = self.nodes.iter_mut().next_back() {
            if node.listpack().byte_len() + bytes >= node_bytes {
                // A new node.
            } else if limits.node_entries != 0 && node.total() >= limits.node_entries {
                node.shrink_to_fit();
            } else {
                node.append(*master, id, pairs.clone());
                appended = true;
            }
        }
        if !appended {
            let mut node = Node::new(pairs.clone());
            node.append(id, id, pairs);
            self.insert_node(id, node);
        }
        self.len += 1;
        // A stream that was RESTOREd brings its own count, which may be any.
        self.entries_added = self.entries_added.wrapping_add(1);
        self.last_id = id;
        if self.len == 1 {
            self.first_id = id;
        }
        Ok(())
    }

    /// The entries from `start` to `end`, both included, in order or in reverse.
    pub fn range(&self, start: StreamId, end: StreamId, reverse: bool) -> Range<'_> {
        let nodes = if start <= end {
            let from = self.nodes.range(..=start).next_back().map_or(start, |(id, _)| *id);
            self.nodes.range(from..=end)
        } else {
            self.nodes.range(StreamId::MAX..StreamId::MAX)
        };
        Range { nodes, items: None, start, end, reverse }
    }

    /// Whether there is such an entry.
    pub fn contains(&self, id: StreamId) -> bool {
        self.range(id, id, false).next().is_some()
    }

    /// ID of the last entry there is; `0-0` without one.
    pub fn last_valid_id(&self) -> StreamId {
        self.range(StreamId::MIN, StreamId::MAX, true).next().map_or(StreamId::MIN, |item| item.id)
    }

    fn find_first(&mut self) {
        let first = self.range(StreamId::MIN, StreamId::MAX, false).next();
        self.first_id = first.map_or(StreamId::MIN, |item| item.id);
    }

    /// Brings the first ID up to date after nodes were loaded.
    pub fn settle(&mut self) {
        self.find_first();
    }

    /// Deletes an entry; whether it was there.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let Some((&master, node)) = self.nodes.range_mut(..=id).next_back() else { return false };
        if !node.delete(master, id) {
            return false;
        }
        if node.live() == 0 {
            self.remove_node(master);
        }
        self.len -= 1;
        self.max_deleted_id = self.max_deleted_id.max(id);
        if self.len == 0 || id == self.first_id {
            self.find_first();
        }
        true
    }

    /// Removes entries from the beginning; returns how many.
    pub fn trim(&mut self, trim: &Trim) -> u64 {
        let mut deleted = 0;
        while let Some(mut first) = self.nodes.first_entry() {
            if matches!(trim.bound, Bound::Len(n) if self.len <= n) {
                break;
            }
            let live = first.get().live();
            if trim.limit != 0 && deleted + live > trim.limit {
                break;
            }
            let master = *first.key();
            let whole = match trim.bound {
                Bound::Len(n) => self.len - live >= n,
                Bound::Id(id) => first.get().last_id(master) < id,
            };
            if whole {
                self.remove_node(master);
                self.len -= live;
                deleted += live;
                continue;
            }
            if trim.approximate {
                break;
            }
            let len = self.len;
            let gone = first.get_mut().delete_while(master, |id, gone| match trim.bound {
                Bound::Len(n) => len - gone > n,
                Bound::Id(least) => id < least,
            });
            self.len -= gone;
            deleted += gone;
            break;
        }
        if deleted > 0 {
            self.find_first();
        }
        deleted
    }

    /// Whether an entry from `start` on, of those that are still there or behind the first of them, was deleted.
    pub fn has_tombstones_from(&self, start: StreamId) -> bool {
        self.len > 0
            && !self.max_deleted_id.is_zero()
            && self.first_id <= self.max_deleted_id
            && start <= self.max_deleted_id
    }

    /// How many entries were ever added up to `id`, where that can be told.
    pub fn distance_from_first(&self, id: StreamId) -> Option<u64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        if self.len == 0 && id <= self.last_id {
            return Some(self.entries_added);
        }
        if id >= self.last_id {
            return (id == self.last_id).then_some(self.entries_added);
        }
        if self.max_deleted_id.is_zero() || self.max_deleted_id < self.first_id {
            let gone = self.entries_added.saturating_sub(self.len);
            if id < self.first_id {
                return Some(gone);
            }
            if id == self.first_id {
                return Some(gone.wrapping_add(1));
            }
        }
        None
    }

    /// Bytes of memory behind it, by as many nodes as `samples` says.
    pub fn memory_usage(&self, samples: usize) -> usize {
        // A tree's nodes are about three quarters full.
        let slot = (size_of::<StreamId>() + size_of::<Node>()) * 4 / 3;
        estimated_sum(self.nodes.values().map(|node| slot + node.listpack().memory_usage()), self.nodes.len(), samples)
    }

    /// Frees nodes with about `n` entries; returns how many of `n` are left to do.
    pub fn free_step(&mut self, mut n: usize) -> usize {
        while n > 0
            && let Some((_, node)) = self.nodes.pop_first()
        {
            n = n.saturating_sub(node.total() as usize);
        }
        n
    }

    /// A copy.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        let mut nodes = BTreeMap::new();
        for (id, node) in &self.nodes {
            nodes.insert(*id, node.try_clone()?);
        }
        Ok(Self { nodes, ..*self })
    }

    /// Number of nodes that Redis's radix tree has for the nodes' IDs.
    pub const fn radix_nodes(&self) -> usize {
        1 + self.radix
    }

    fn insert_node(&mut self, id: StreamId, node: Node) {
        self.radix += radix::added_by(&self.nodes, id);
        self.nodes.insert(id, node);
    }

    fn remove_node(&mut self, id: StreamId) {
        self.nodes.remove(&id);
        self.radix -= radix::added_by(&self.nodes, id);
    }
}

/// See [`Log::range`].
#[derive(Clone)]
pub struct Range<'a> {
    nodes: btree_map::Range<'a, StreamId, Node>,
    items: Option<Items<'a>>,
    start: StreamId,
    end: StreamId,
    reverse: bool,
}

impl<'a> Iterator for Range<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        loop {
            if let Some(items) = &mut self.items {
                for item in items.by_ref() {
                    let (before, behind) = (item.id < self.start, item.id > self.end);
                    if !before && !behind {
                        return Some(item);
                    }
                    if if self.reverse { before } else { behind } {
                        return None;
                    }
                }
            }
            let next = if self.reverse { self.nodes.next_back() } else { self.nodes.next() };
            let (master, node) = next?;
            self.items = Some(node.items(*master, self.reverse));
        }
    }
}
