//! How memory is shared out between the data and everything else.
//!
//! The heap's counters cover all of it, so the data's limit is a limit on everything that is in use, and what lies above it is
//! a reserve: for connections and their buffers, for what a command needs while it runs, and for what the heap cannot give out
//! because free objects are scattered.

/// Bytes of memory by use, out of `total` that the heap manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// All that the heap manages.
    pub total: usize,
    /// `maxmemory`, unless the command line says otherwise.
    pub max_memory: usize,
    /// What all connections' socket buffers may grow by.
    pub socket_buffers: usize,
    /// Connections at once.
    pub connections: usize,
    /// New connections are refused while less than this is free.
    pub low_water: usize,
}

/// What an idle connection takes: its control blocks, first buffers and session.
const CONNECTION: usize = 12 * 1024;

/// Connections beyond which no memory helps: the ports of a few peers.
const MAX_CONNECTIONS: usize = 20_000;

impl Budget {
    /// Shares out `total` bytes, `used` of which the kernel and its devices have taken already.
    pub fn new(total: usize, used: usize) -> Self {
        let free = total.saturating_sub(used);
        let reserve = (total / 8).clamp(5 << 20, 128 << 20).min(free / 2);
        Self {
            total,
            max_memory: total - reserve,
            socket_buffers: reserve / 4,
            connections: (free / 2 / CONNECTION).clamp(64, MAX_CONNECTIONS),
            // Room for what the buffers may still grow by, and as much again for what commands need while they run.
            low_water: reserve / 2,
        }
    }

    /// Bytes that count as used when writes are judged: what was handed out or, where scattered free objects keep many
    /// frames, what is missing from the frames that must stay free.
    pub fn pressure(&self, used: usize, held: usize) -> usize {
        let reserve = self.total - self.max_memory;
        used.max(held.saturating_sub(reserve / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_machines() {
        for total in [24 << 20, 250 << 20, 1 << 30, 6usize << 30] {
            let budget = Budget::new(total, 2 << 20);
            assert!(budget.max_memory * 100 >= total * 78, "{budget:?}");
            assert!(budget.max_memory + budget.socket_buffers + budget.low_water <= total);
            assert!(budget.connections * CONNECTION <= total / 2);
        }
        assert!(Budget::new(26 << 20, 2 << 20).connections >= 500);
        assert_eq!(Budget::new(512 << 20, 2 << 20).connections, 20_000);
        // Nothing to share out: no panic.
        Budget::new(0, 0);
        Budget::new(1 << 20, 1 << 20);
    }

    #[test]
    fn scattered_memory_counts() {
        let budget = Budget::new(256 << 20, 0);
        assert_eq!(budget.pressure(100 << 20, 110 << 20), 100 << 20);
        assert!(budget.pressure(100 << 20, 256 << 20) > budget.max_memory);
    }
}
