//! What the engine reads of the machine.

use alloc::format;

use barium_kernel::boot::Machine as Board;
use barium_kernel::{clock, entropy, memory};
use barium_kvstore::machine::{Identity, Machine};

use crate::budget::Budget;

/// The kernel's counters.
pub struct Kernel {
    budget: Budget,
}

impl Kernel {
    /// Counters under a budget.
    pub const fn new(budget: Budget) -> Self {
        Self { budget }
    }
}

impl Machine for Kernel {
    #[inline]
    fn used_memory(&self) -> usize {
        self.budget.pressure(memory::used(), memory::held())
    }

    fn peak_memory(&self) -> usize {
        memory::stats().held_peak
    }

    fn resident_memory(&self) -> usize {
        memory::held()
    }

    fn total_memory(&self) -> usize {
        self.budget.total
    }

    fn monotonic_ns(&self) -> u64 {
        clock::now_ns()
    }

    fn fill_random(&self, out: &mut [u8]) {
        entropy::fill(out);
    }
}

/// What INFO says of the machine.
pub fn identity(board: &Board, port: u16) -> Identity {
    let arch = if cfg!(target_arch = "x86_64") { "x86_64" } else { "aarch64" };
    Identity {
        os: format!("Barium {} {arch}", env!("CARGO_PKG_VERSION")),
        arch_bits: usize::BITS as usize,
        port,
        cpus: board.cpus,
    }
}
