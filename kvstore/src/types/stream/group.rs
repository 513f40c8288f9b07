//! Consumer groups: how far a group has read, and which entries its consumers have not acknowledged yet.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use super::id::StreamId;
use super::log::Log;

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Debug)]
pub struct Pending {
    /// Name of the consumer that has it.
    pub consumer: Arc<[u8]>,
    /// When it was delivered last: Unix time, in ms.
    pub delivered_ms: i64,
    /// How often it was delivered.
    pub deliveries: u64,
}

/// A consumer of a group.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// When it was last heard of: Unix time, in ms.
    pub seen_ms: i64,
    /// When it last got something: Unix time, in ms; -1: never.
    pub active_ms: i64,
    /// Its part of the group's pending entries.
    pub pending: BTreeSet<StreamId>,
}

/// A consumer group.
#[derive(Clone, Debug)]
pub struct Group {
    /// The last entry that was delivered.
    pub last_id: StreamId,
    /// Number of entries ever added up to that one, where it is known.
    pub entries_read: Option<u64>,
    /// What was delivered and not acknowledged, whoever has it.
    pub pending: BTreeMap<StreamId, Pending>,
    /// The consumers by name.
    pub consumers: BTreeMap<Arc<[u8]>, Consumer>,
}

impl Group {
    /// A group without consumers.
    pub const fn new(last_id: StreamId, entries_read: Option<u64>) -> Self {
        Self { last_id, entries_read, pending: BTreeMap::new(), consumers: BTreeMap::new() }
    }

    /// Makes sure that there is such a consumer; whether there was none.
    pub fn add_consumer(&mut self, name: &[u8], now_ms: i64) -> bool {
        if self.consumers.contains_key(name) {
            return false;
        }
        self.consumers.insert(name.into(), Consumer { seen_ms: now_ms, active_ms: -1, pending: BTreeSet::new() });
        true
    }

    /// The name of a consumer, as it is shared.
    pub fn shared_name(&self, name: &[u8]) -> Option<Arc<[u8]>> {
        self.consumers.get_key_value(name).map(|(name, _)| name.clone())
    }

    /// Gives an entry to a consumer that exists, whoever has it now, and returns its record to be filled in.
    pub fn assign(&mut self, id: StreamId, to: &Arc<[u8]>, now_ms: i64) -> &mut Pending {
        let entry = self.pending.entry(id).or_insert_with(|| Pending {
            consumer: to.clone(),
            delivered_ms: now_ms,
            deliveries: 1,
        });
        if entry.consumer != *to {
            if let Some(old) = self.consumers.get_mut(&entry.consumer) {
                old.pending.remove(&id);
            }
            entry.consumer = to.clone();
        }
        if let Some(consumer) = self.consumers.get_mut(to) {
            consumer.pending.insert(id);
        }
        entry
    }

    /// Takes an entry off the pending ones; whether it was one.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(entry) = self.pending.remove(&id) else { return false };
        if let Some(consumer) = self.consumers.get_mut(&entry.consumer) {
            consumer.pending.remove(&id);
        }
        true
    }

    /// Removes a consumer with its pending entries; returns how many those were.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let consumer = self.consumers.remove(name)?;
        for id in &consumer.pending {
            self.pending.remove(id);
        }
        Some(consumer.pending.len())
    }

    /// Moves on to an entry that is being delivered, behind all delivered before.
    pub fn advance(&mut self, log: &Log, id: StreamId) {
        self.entries_read = match self.entries_read {
            // No entry is missing between the two: the count goes on.
            Some(n) if !log.has_tombstones_from(self.last_id) => Some(n.wrapping_add(1)),
            _ if log.entries_added != 0 => log.distance_from_first(id),
            known => known,
        };
        self.last_id = id;
    }

    /// Number of entries that were added and not yet delivered, where it is known.
    pub fn lag(&self, log: &Log) -> Option<i64> {
        if log.entries_added == 0 {
            return Some(0);
        }
        let read = match self.entries_read {
            Some(n) if !log.has_tombstones_from(self.last_id) => Some(n),
            _ => log.distance_from_first(self.last_id),
        };
        read.map(|n| (log.entries_added as i64).wrapping_sub(n as i64))
    }

    /// Bytes of memory behind it.
    pub fn memory_usage(&self) -> usize {
        let id = size_of::<StreamId>();
        let consumer = size_of::<(Arc<[u8]>, Consumer)>() * 4 / 3 + 2 * size_of::<usize>();
        // Each pending entry is in the group's tree and in its consumer's; trees are about three quarters full.
        let pending = (id + size_of::<Pending>() + id) * 4 / 3;
        self.pending.len() * pending + self.consumers.keys().map(|name| consumer + name.len()).sum::<usize>()
    }

    /// Frees up to `n` pending entries and consumers; returns how many of `n` are left to do.
    pub fn free_step(&mut self, mut n: usize) -> usize {
        while n > 0 && self.pending.pop_first().is_some() {
            n -= 1;
        }
        while n > 0
            && let Some(mut first) = self.consumers.first_entry()
        {
            n -= 1;
            if first.get_mut().pending.pop_first().is_none() {
                first.remove();
            }
        }
        n
    }
}

/// The groups of a stream by name.
pub type Groups = BTreeMap<Box<[u8]>, Group>;
