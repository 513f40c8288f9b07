//! What the CPUs count below the engine, for INFO.

use alloc::vec::Vec;

use barium_net::Stack;
use spin::Mutex;

use crate::link::Link;
use crate::shared::Apart;

/// What a CPU counts itself, beside its stack's and queue pair's counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuCounters {
    /// Times that the engine was another CPU's.
    pub engine_misses: u64,
    /// Frames posted to other CPUs.
    pub mailbox_frames: u64,
    /// Frames that were dropped because another CPU's mailbox was full.
    pub mailbox_drops: u64,
}

/// Counters by name.
pub type Row = Vec<(&'static str, u64)>;

/// By CPU, what it told last.
pub struct Board(Vec<Apart<Mutex<Row>>>);

impl Board {
    /// Nothing told yet.
    pub fn new(cpus: usize) -> Self {
        Self((0..cpus).map(|_| Apart(Mutex::new(Row::new()))).collect())
    }

    /// Takes over how a CPU's counters stand.
    #[cold]
    pub fn tell(&self, cpu: usize, stack: &Stack, link: &Link, own: CpuCounters) {
        // Only whoever reads the board may have it: the next time will do.
        let Some(mut row) = self.0[cpu].0.try_lock() else { return };
        let nic = link.counters();
        row.clear();
        row.extend([
            ("rx_frames", nic.rx_frames),
            ("rx_bytes", nic.rx_bytes),
            ("rx_malformed", nic.rx_malformed),
            ("tx_frames", nic.tx_frames),
            ("tx_bytes", nic.tx_bytes),
            ("tx_full", nic.tx_full),
            ("nic_notifications", nic.notifications),
            ("nic_interrupts", nic.interrupts),
            ("tcp_half_open", stack.half_open() as u64),
            ("tcp_time_wait", stack.time_wait() as u64),
            ("engine_misses", own.engine_misses),
            ("mailbox_frames", own.mailbox_frames),
            ("mailbox_drops", own.mailbox_drops),
        ]);
        row.extend(stack.stats().named());
    }

    /// The sums over all CPUs.
    pub fn sums(&self) -> Row {
        let mut sums = Row::new();
        for row in &self.0 {
            let Some(row) = row.0.try_lock() else { continue };
            if sums.is_empty() {
                sums.clone_from(&row);
            } else {
                // All rows have the same names in the same order.
                sums.iter_mut().zip(row.iter()).for_each(|(sum, (_, value))| sum.1 += value);
            }
        }
        sums
    }
}
