//! The hash index of a large sorted set: from a member's hash to the leaf that holds it.

use barium_cell::OutOfMemory;

use crate::table::{Hashing, Keyed, Pos, Table};

/// An index entry. Two members of one leaf with the same hash have equal entries; either may stand for either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// Hash of the member.
    pub hash: u32,
    /// Name of the leaf.
    pub leaf: u32,
}

/// A slot as the table keeps it: hash and leaf, little-endian.
#[derive(Debug)]
struct Stored([u8; 8]);

impl Stored {
    fn new(slot: Slot) -> Self {
        Self((u64::from(slot.hash) | u64::from(slot.leaf) << 32).to_le_bytes())
    }

    fn slot(&self) -> Slot {
        let bits = u64::from_le_bytes(self.0);
        Slot { hash: bits as u32, leaf: (bits >> 32) as u32 }
    }
}

impl Keyed for Stored {
    fn key(&self) -> &[u8] {
        &self.0[..4]
    }
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Index {
    table: Table<Stored>,
}

impl Index {
    pub(super) fn new(hashing: Hashing) -> Self {
        Self { table: Table::new(hashing) }
    }

    pub(super) fn hashing(&self) -> Hashing {
        self.table.hashing()
    }

    /// The hash of a member, as slots hold it.
    pub(super) fn hash(&self, member: &[u8]) -> u32 {
        (self.table.hash(member) >> 32) as u32
    }

    /// Looks at the leaves of members with this hash until `found` says true.
    pub(super) fn find(&self, hash: u32, mut found: impl FnMut(u32) -> bool) {
        let key = hash.to_le_bytes();
        self.table.find_where(self.table.hash(&key), |stored| {
            let slot = stored.slot();
            slot.hash == hash && found(slot.leaf)
        });
    }

    fn position(&self, slot: Slot) -> Option<Pos> {
        let stored = Stored::new(slot);
        self.table.find_where(self.table.hash(stored.key()), |other| other.0 == stored.0)
    }

    pub(super) fn insert(&mut self, slot: Slot) -> Result<(), OutOfMemory> {
        self.table.insert(Stored::new(slot)).map(drop).map_err(|_| OutOfMemory)
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        if let Some(at) = self.position(slot) {
            self.table.remove_at(at);
        }
    }

    /// Notes that a member with this hash moved between leaves.
    pub(super) fn relocate(&mut self, hash: u32, from: u32, to: u32) {
        if let Some(at) = self.position(Slot { hash, leaf: from })
            && let Some(stored) = self.table.at_mut(at)
        {
            *stored = Stored::new(Slot { hash, leaf: to });
        }
    }

    /// Visits slots as [`Table::scan`] does.
    pub(super) fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(Slot)) -> u64 {
        self.table.scan(cursor, count, |stored| visit(stored.slot()))
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.table.memory_usage()
    }

    /// Drops about a segment; how many slots went, 0 at the end. Nothing may be looked up any more.
    pub(super) fn free_step(&mut self, n: usize) -> usize {
        self.table.free_step(n)
    }
}
