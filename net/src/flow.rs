//! Which connection a segment belongs to: the hash table in front of everything.

use hashbrown::HashTable;

/// The peer's half of a connection's 4-tuple and the local port. The local address is the station's only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowKey {
    pub(crate) addr: [u8; 4],
    pub(crate) port: u16,
    pub(crate) local_port: u16,
}

/// What a flow is just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// A handshake under way, by its number among the half-open.
    HalfOpen(u32),
    /// A connection that we are opening, by its number.
    Dialing(u32),
    /// A connection, by its slot.
    Open(u32),
    /// A connection closed lately, by its number among those in TIME-WAIT.
    TimeWait(u32),
}

/// Keyed 64-bit hash of a few words, by multiplying and folding as wyhash does. The key keeps peers from choosing
/// colliding ports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyed {
    seed: [u64; 2],
}

impl Keyed {
    pub(crate) fn new(seed: [u64; 2]) -> Self {
        Self { seed: [seed[0] ^ 0xa076_1d64_78bd_642f, seed[1] ^ 0xe703_7ed1_a0b4_28db] }
    }

    #[inline]
    pub(crate) fn hash(&self, word: u64) -> u64 {
        fold(fold(word ^ self.seed[0], self.seed[1]), word ^ 0x9e37_79b9_7f4a_7c15)
    }
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

impl FlowKey {
    /// The key as one word.
    #[inline]
    pub(crate) fn word(&self) -> u64 {
        (u64::from(u32::from_be_bytes(self.addr)) << 32) | (u64::from(self.port) << 16) | u64::from(self.local_port)
    }
}

/// All flows by their key.
#[derive(Debug)]
pub(crate) struct FlowTable {
    table: HashTable<(FlowKey, Flow)>,
    hash: Keyed,
}

impl FlowTable {
    pub(crate) fn new(seed: [u64; 2]) -> Self {
        Self { table: HashTable::new(), hash: Keyed::new(seed) }
    }

    #[inline]
    pub(crate) fn get(&self, key: &FlowKey) -> Option<Flow> {
        let hash = self.hash.hash(key.word());
        self.table.find(hash, |(k, _)| k == key).map(|(_, flow)| *flow)
    }

    /// Sets the flow of `key`, whatever it was before.
    pub(crate) fn set(&mut self, key: FlowKey, flow: Flow) {
        let hasher = self.hash;
        let hash = hasher.hash(key.word());
        match self.table.find_mut(hash, |(k, _)| *k == key) {
            Some(entry) => entry.1 = flow,
            None => {
                self.table.insert_unique(hash, (key, flow), |(k, _)| hasher.hash(k.word()));
            }
        }
    }

    /// Forgets `key` if it still stands for `flow`.
    pub(crate) fn remove(&mut self, key: &FlowKey, flow: Flow) {
        let hash = self.hash.hash(key.word());
        if let Ok(entry) = self.table.find_entry(hash, |(k, f)| k == key && *f == flow) {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_get_remove() {
        let mut table = FlowTable::new([1, 2]);
        let key = |n: u32| FlowKey { addr: n.to_be_bytes(), port: n as u16, local_port: 6379 };
        for n in 0..10_000 {
            table.set(key(n), Flow::HalfOpen(n));
        }
        for n in 0..10_000 {
            assert_eq!(table.get(&key(n)), Some(Flow::HalfOpen(n)));
            table.set(key(n), Flow::Open(n));
        }
        table.remove(&key(5), Flow::HalfOpen(5));
        assert_eq!(table.get(&key(5)), Some(Flow::Open(5)), "a stale removal does nothing");
        table.remove(&key(5), Flow::Open(5));
        assert_eq!(table.get(&key(5)), None);
    }
}
