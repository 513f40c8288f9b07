//! Streams: a log of entries in the order of their IDs, and groups of consumers that read it.
//!
//! Entries lie in nodes, listpacks of up to `stream-node-max-entries` entries, which a balanced tree holds by the ID of
//! their first entry: adding is O(1) but for the tree, finding an ID O(log n) and a walk through one node. An entry whose
//! fields are its node's costs its values and about ten bytes.

mod group;
mod id;
mod log;
mod node;
mod radix;
#[cfg(test)]
mod tests;

pub use group::{Consumer, Group, Groups, Pending};
pub use id::{ID_CHARS, StreamId};
pub use log::{Bound, Log, NewId, Range, StreamLimits, Trim};
pub use node::{Item, Node};

use barium_cell::OutOfMemory;

/// A stream. It stays when its last entry goes.
#[derive(Debug, Default)]
pub struct Stream {
    /// Its entries.
    pub log: Log,
    /// Its consumer groups.
    pub groups: Groups,
}

impl Stream {
    /// An empty stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of parts that freeing it takes: entries, pending entries (twice, for the group and for the consumer), consumers,
    /// groups. Not all groups are looked at if there are many parts.
    pub fn parts(&self) -> usize {
        const MANY: usize = 1_000;
        let mut parts = self.log.len as usize + self.log.node_count();
        for group in self.groups.values() {
            if parts > MANY {
                break;
            }
            parts += 1 + group.pending.len() * 2 + group.consumers.len();
        }
        parts
    }

    /// Bytes of memory behind it, without the struct itself, by as many nodes as `samples` says.
    pub fn memory_usage(&self, samples: usize) -> usize {
        let slot = size_of::<(alloc::boxed::Box<[u8]>, Group)>() * 4 / 3;
        let group = |(name, g): (&alloc::boxed::Box<[u8]>, &Group)| slot + name.len() + g.memory_usage();
        self.log.memory_usage(samples) + self.groups.iter().map(group).sum::<usize>()
    }

    /// Frees about `n` parts; true when nothing is left. The stream may only be dropped afterwards.
    pub fn free_step(&mut self, n: usize) -> bool {
        let mut n = self.log.free_step(n);
        while n > 0
            && let Some(mut group) = self.groups.first_entry()
        {
            n = group.get_mut().free_step(n);
            if n > 0 {
                group.remove();
                n -= 1;
            }
        }
        self.log.node_count() == 0 && self.groups.is_empty()
    }

    /// A copy.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        let mut groups = Groups::new();
        for (name, group) in &self.groups {
            // Consumers' names are shared among a group's records, so those must be made anew only if they change:
            // an `Arc` of the old stream serves as well.
            groups.insert(name.clone(), group.clone());
        }
        Ok(Self { log: self.log.try_clone()?, groups })
    }
}
