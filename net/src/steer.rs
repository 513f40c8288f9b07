//! Which CPU a frame belongs to, where several have a stack each.
//!
//! As a network card with receive-side scaling does it: a hash of the connection's four addresses picks an entry of a table,
//! which names the CPU. A card that hashes by itself brings its own hash; the table stays.

use crate::flow::{FlowKey, Keyed};
use crate::service::Endpoint;
use crate::wire::{ETHERNET_LEN, IPV4_LEN};

/// Entries of the table.
const ENTRIES: usize = 128;

/// Whose a frame is.
#[derive(Clone, Debug)]
pub struct Steering {
    hash: Keyed,
    table: [u8; ENTRIES],
}

impl Steering {
    /// Shares the connections out to so many CPUs as there are weights, in proportion to them. `seed` is the same for all
    /// of them, and must be unpredictable to peers in production.
    pub fn new(seed: u64, weights: &[u16]) -> Self {
        let mut table = [0; ENTRIES];
        let total: usize = weights.iter().map(|weight| usize::from(*weight)).sum();
        if total > 0 {
            let (mut cpu, mut passed) = (0, 0);
            for (n, entry) in table.iter_mut().enumerate() {
                // The middle of the entry's share of the whole.
                let at = (2 * n + 1) * total / (2 * ENTRIES);
                while at >= passed + usize::from(weights[cpu]) {
                    passed += usize::from(weights[cpu]);
                    cpu += 1;
                }
                *entry = cpu as u8;
            }
        }
        Self { hash: Keyed::new([seed, seed.rotate_left(29)]), table }
    }

    /// The CPU that a received frame belongs to. What belongs to no TCP connection is the first CPU's.
    #[inline]
    pub fn owner(&self, frame: &[u8]) -> usize {
        const TCP_OVER_PLAIN_IPV4: [u8; 3] = [0x08, 0x00, 0x45];
        const PORTS: usize = ETHERNET_LEN + IPV4_LEN;
        let Some(head) = frame.first_chunk::<{ PORTS + 4 }>() else { return 0 };
        // Whoever owns the frame looks closer. Fragments, of which only the first has ports, are nobody's.
        if head[12..15] != TCP_OVER_PLAIN_IPV4 || head[ETHERNET_LEN + 9] != 6 || head[ETHERNET_LEN + 6] & 0x3f != 0 {
            return 0;
        }
        let source = ETHERNET_LEN + 12;
        let key = FlowKey {
            addr: [head[source], head[source + 1], head[source + 2], head[source + 3]],
            port: u16::from_be_bytes([head[PORTS], head[PORTS + 1]]),
            local_port: u16::from_be_bytes([head[PORTS + 2], head[PORTS + 3]]),
        };
        self.owner_of_key(&key)
    }

    /// The CPU that a connection belongs to.
    pub fn owner_of(&self, peer: Endpoint, local_port: u16) -> usize {
        self.owner_of_key(&FlowKey { addr: peer.addr, port: peer.port, local_port })
    }

    #[inline]
    fn owner_of_key(&self, key: &FlowKey) -> usize {
        usize::from(self.table[(self.hash.hash(key.word()) >> 32) as usize % ENTRIES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(addr: [u8; 4], port: u16) -> [u8; 60] {
        let mut frame = [0; 60];
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        frame[ETHERNET_LEN + 9] = 6;
        frame[26..30].copy_from_slice(&addr);
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        frame[36..38].copy_from_slice(&5555u16.to_be_bytes());
        frame
    }

    #[test]
    fn connections_are_shared_out_by_weight() {
        for (weights, least, most) in [
            (&[1u16, 1, 1, 1][..], [23, 23, 23, 23], [27, 27, 27, 27]),
            (&[1, 3, 3, 3], [8, 28, 28, 28], [12, 32, 32, 32]),
            (&[0, 1, 1, 2], [0, 23, 23, 48], [0, 27, 27, 52]),
        ] {
            let steering = Steering::new(0x1234_5678_9abc_def0, weights);
            let mut counts = [0usize; 4];
            for port in 0..60_000 {
                counts[steering.owner(&frame([10, 0, 0, 1], port))] += 1;
            }
            for cpu in 0..4 {
                let percent = counts[cpu] / 600;
                assert!((least[cpu]..=most[cpu]).contains(&percent), "{weights:?}: {counts:?}");
            }
        }
        let all: Vec<u16> = (0..64).map(|_| 1).collect();
        let steering = Steering::new(1, &all);
        assert!((0..64).all(|cpu| steering.table.iter().filter(|entry| usize::from(**entry) == cpu).count() == 2));
    }

    #[test]
    fn everything_else_is_the_first_cpus() {
        let steering = Steering::new(7, &[0, 1]);
        let tcp = frame([10, 0, 0, 1], 1000);
        assert_eq!(steering.owner(&tcp), 1);
        assert_eq!(steering.owner_of(Endpoint { addr: [10, 0, 0, 1], port: 1000 }, 5555), 1);
        for (at, value) in [(12, 0x86), (13, 6), (14, 0x46), (ETHERNET_LEN + 9, 17), (ETHERNET_LEN + 6, 0x20), (20, 1)]
        {
            let mut other = tcp;
            other[at] = value;
            assert_eq!(steering.owner(&other), 0);
        }
        assert_eq!(steering.owner(&tcp[..37]), 0);
        assert_eq!(steering.owner(&[]), 0);
        assert_eq!(Steering::new(7, &[]).owner(&tcp), 0);
        // A fragment's offset has a second byte; the wire check sees to those.
        let mut dont_fragment = tcp;
        dont_fragment[ETHERNET_LEN + 6] = 0x40;
        assert_eq!(steering.owner(&dont_fragment), 1);
    }
}
