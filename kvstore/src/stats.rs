//! Counters that INFO shows.

use crate::commands::table;
use crate::histogram::Histogram;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// Counters of one command.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandStats {
    /// How often it was carried out.
    pub calls: u64,
    /// Time spent in it, in ns.
    pub ns: u64,
    /// How often it was refused before it was carried out.
    pub rejected: u64,
    /// How often it failed.
    pub failed: u64,
    /// The turn of the event loop (its time, in us) in which it was last timed as part of a run,
    pub timed_at_us: Option<u64>,
    /// and how long each took then, in ns.
    pub each_ns: u64,
}

/// Different error codes that are counted each for itself; more are counted together.
const MAX_ERROR_CODES: usize = 128;

/// See the [module](self).
#[derive(Debug)]
pub struct Stats {
    /// By command number ([`table::Index`]).
    pub commands: Vec<CommandStats>,
    /// How long each took, by command number; None if it was never timed.
    pub latency: Vec<Option<Box<Histogram>>>,
    /// Commands carried out.
    pub processed: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused for want of room.
    pub refused: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Times that bytes were received.
    pub reads: u64,
    /// Times that bytes were sent.
    pub writes: u64,
    /// Error replies.
    pub errors: u64,
    /// Error replies by code.
    pub error_codes: BTreeMap<String, u64>,
    /// Clients closed because their output was beyond its limit.
    pub output_limit_closes: u64,
    /// Clients closed because all together took more than `maxmemory-clients`.
    pub evicted_clients: u64,
    /// Clients closed because their query was beyond its limit.
    pub query_limit_closes: u64,
    /// Time spent in active expiry, in us.
    pub expire_us: u64,
    /// Since when more memory than `maxmemory` is in use (monotonic time, in us), as writes and housekeeping found it.
    pub over_maxmemory_since_us: Option<u64>,
    /// How long that was so before, in us.
    pub over_maxmemory_us: u64,
    /// Clients that wait were made to stop.
    pub unblocked: u64,
    /// Rate meters, by turn.
    pub rates: Rates,
}

/// Rates over about the last 1.6 seconds, as INFO's instantaneous fields show them.
#[derive(Debug, Default)]
pub struct Rates {
    at_us: u64,
    last: [u64; 3],
    samples: [[u64; 3]; 16],
    next: usize,
}

impl Rates {
    /// Takes a sample if 100 ms have passed: operations, bytes in, bytes out, counted since the start.
    pub fn sample(&mut self, now_us: u64, counts: [u64; 3]) {
        let passed = now_us.saturating_sub(self.at_us);
        if passed < 100_000 {
            return;
        }
        for ((sample, now), last) in self.samples[self.next].iter_mut().zip(counts).zip(self.last) {
            *sample = now.saturating_sub(last).saturating_mul(1_000_000) / passed;
        }
        self.next = (self.next + 1) % self.samples.len();
        (self.at_us, self.last) = (now_us, counts);
    }

    /// Operations, bytes in and bytes out a second. Nothing if the last sample is old.
    pub fn per_second(&self, now_us: u64) -> [u64; 3] {
        if now_us.saturating_sub(self.at_us) > 2_000_000 {
            return [0; 3];
        }
        core::array::from_fn(|i| self.samples.iter().map(|s| s[i]).sum::<u64>() / self.samples.len() as u64)
    }
}

impl Stats {
    /// All zero.
    pub fn new() -> Self {
        Self {
            commands: alloc::vec![CommandStats::default(); table::numbers()],
            latency: alloc::vec![None; table::numbers()],
            processed: 0,
            connections: 0,
            refused: 0,
            bytes_in: 0,
            bytes_out: 0,
            reads: 0,
            writes: 0,
            errors: 0,
            error_codes: BTreeMap::new(),
            output_limit_closes: 0,
            evicted_clients: 0,
            query_limit_closes: 0,
            expire_us: 0,
            over_maxmemory_since_us: None,
            over_maxmemory_us: 0,
            unblocked: 0,
            rates: Rates::default(),
        }
    }

    /// Notes that a command took so long altogether, `times` times.
    pub fn took(&mut self, number: usize, times: u32, ns: u64, in_histogram: bool) {
        if let Some(s) = self.commands.get_mut(number) {
            s.ns += ns;
        }
        if in_histogram && let Some(histogram) = self.latency.get_mut(number) {
            let each = if times == 1 { ns } else { ns / u64::from(times.max(1)) };
            histogram.get_or_insert_default().record(each, times);
        }
    }

    /// Counts an error reply.
    pub fn error(&mut self, code: &str) {
        self.errors += 1;
        if let Some(n) = self.error_codes.get_mut(code) {
            *n += 1;
        } else {
            let name = if self.error_codes.len() < MAX_ERROR_CODES { code } else { "OTHERS" };
            *self.error_codes.entry(name.into()).or_default() += 1;
        }
    }
}

impl Default for Stats {
    fn default() -> Self {
        Self::new()
    }
}
