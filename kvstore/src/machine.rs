//! What the engine asks of the machine it runs on.

use alloc::string::String;

/// Readings that the engine takes in between. The platform implements it; tests give fixed values.
pub trait Machine: Send {
    /// Bytes of the heap in use, as the allocator counts them.
    fn used_memory(&self) -> usize;
    /// Most bytes that were in use at once.
    fn peak_memory(&self) -> usize;
    /// Bytes of memory behind the heap (frames held), of which `used_memory` is a part.
    fn resident_memory(&self) -> usize;
    /// Bytes that the heap can hold at most.
    fn total_memory(&self) -> usize;
    /// Monotonic time now, in ns. Used to measure how long things took; what commands see is the time that was given with
    /// the batch.
    fn monotonic_ns(&self) -> u64;
    /// Fills `out` with bytes that nobody can guess: passwords are made of them.
    fn fill_random(&self, out: &mut [u8]);
}

/// Facts that INFO shows.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Operating system and machine ("Barium 0.1.0 x86_64").
    pub os: String,
    /// Architecture, in bits.
    pub arch_bits: usize,
    /// TCP port that clients connect to.
    pub port: u16,
    /// Number of CPUs.
    pub cpus: usize,
}
