//! Memory and time as Linux has them.

use barium_heap::host::ProcessHeap;
use barium_kvstore::machine::{Identity, Machine};
use std::fs::File;
use std::io::Read;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The two clocks.
#[derive(Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// Monotonic time, in us.
    pub fn monotonic_us(&self) -> u64 {
        // Not from zero: a time of 0 stands for "never" in places.
        self.start.elapsed().as_micros() as u64 + 1_000_000
    }

    /// Unix time, in us.
    pub fn unix_us(&self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64)
    }
}

/// The process's heap and clock.
pub struct Linux {
    heap: &'static ProcessHeap,
    clock: Clock,
    total: usize,
}

impl Linux {
    /// The machine that this process runs on; half of its memory is the server's.
    pub fn new(heap: &'static ProcessHeap) -> Self {
        Self { heap, clock: Clock { start: Instant::now() }, total: physical_memory() / 2 }
    }

    /// The clock.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// Facts for INFO.
    pub fn identity(&self, port: u16) -> Identity {
        Identity {
            os: format!("Linux {} {}", kernel_release(), std::env::consts::ARCH),
            arch_bits: usize::BITS as usize,
            port,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl Machine for Linux {
    fn used_memory(&self) -> usize {
        self.heap.used()
    }
    fn peak_memory(&self) -> usize {
        self.heap.stats().held_peak
    }
    fn resident_memory(&self) -> usize {
        self.heap.stats().held
    }
    fn total_memory(&self) -> usize {
        self.total
    }
    fn monotonic_ns(&self) -> u64 {
        self.clock.start.elapsed().as_nanos() as u64
    }
    fn fill_random(&self, out: &mut [u8]) {
        let read = File::open("/dev/urandom").and_then(|mut f| f.read_exact(out));
        read.expect("/dev/urandom gives random bytes");
    }
}

fn physical_memory() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|l| l.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    kib.map_or(1 << 30, |k| k * 1024)
}

fn kernel_release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(|_| String::new(), |s| s.trim().into())
}
