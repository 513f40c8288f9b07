//! A histogram of durations with two significant digits, laid out as HdrHistogram does (<http://hdrhistogram.org>): within a
//! power of two all steps are of one width, an 128th of it. Counts exist where something was counted.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Steps within a power of two, from the second one on.
const STEPS: usize = 128;
/// Powers of two that are told apart; longer durations (more than half an hour) count as the longest.
const LONGEST_NS: u64 = (1 << 41) - 1;

/// Durations, in ns.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Counts by step, in groups of [`STEPS`]: the first two of width 1, each further one of twice the width.
    groups: [Option<Box<[u32; STEPS]>>; GROUPS],
    total: u64,
}

/// Groups of steps.
const GROUPS: usize = step_of(LONGEST_NS) / STEPS + 1;

impl Default for Histogram {
    fn default() -> Self {
        Self { groups: [const { None }; GROUPS], total: 0 }
    }
}

/// Number of the step that a duration falls in.
const fn step_of(ns: u64) -> usize {
    let shift = 63 - (ns | STEPS as u64).leading_zeros() as usize - 7;
    shift * STEPS + (ns >> shift) as usize
}

/// The longest duration of a step.
const fn highest(step: usize) -> u64 {
    let shift = (step / STEPS).saturating_sub(1);
    let within = (step - shift * STEPS) as u64;
    ((within + 1) << shift) - 1
}

impl Histogram {
    /// Counts a duration `times` times.
    pub fn record(&mut self, ns: u64, times: u32) {
        let step = step_of(ns.min(LONGEST_NS));
        if let Some(group) = self.groups.get_mut(step / STEPS) {
            let counts = group.get_or_insert_with(|| Box::new([0; STEPS]));
            counts[step % STEPS] = counts[step % STEPS].saturating_add(times);
            self.total += u64::from(times);
        }
    }

    /// How many durations were counted.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Steps in which something was counted, with their counts, shortest first.
    fn steps(&self) -> impl Iterator<Item = (usize, u64)> {
        let groups = self.groups.iter().enumerate().filter_map(|(n, group)| Some((n, group.as_deref()?)));
        groups.flat_map(|(n, counts)| {
            let steps = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            steps.map(move |(i, count)| (n * STEPS + i, u64::from(*count)))
        })
    }

    /// The duration, in ns, that a share of all (0 to 100) does not exceed.
    pub fn percentile(&self, share: f64) -> u64 {
        if share == 0.0 {
            return self
                .steps()
                .next()
                .map_or(0, |(step, _)| step.checked_sub(1).map_or(0, |below| highest(below) + 1));
        }
        let wanted = ((share / 100.0 * self.total as f64 + 0.5) as u64).max(1);
        let mut seen = 0;
        for (step, count) in self.steps() {
            seen += count;
            if seen >= wanted {
                return highest(step);
            }
        }
        0
    }

    /// What LATENCY HISTOGRAM shows: for each power of two from 1,024 ns on, as far as anything was counted, the longest
    /// duration of its step and how many were not longer. Those that add nothing are left out.
    pub fn by_powers_of_two(&self) -> Vec<(u64, u64)> {
        let mut shown = Vec::new();
        let (mut level, mut seen, mut told) = (1_024, 0, 0);
        let mut steps = self.steps().peekable();
        while seen < self.total {
            let last = step_of(level);
            while let Some((_, count)) = steps.next_if(|(step, _)| *step <= last) {
                seen += count;
            }
            if seen > told {
                shown.push((highest(last), seen));
                told = seen;
            }
            level *= 2;
            if level > LONGEST_NS * 2 {
                break;
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_next_to_each_other_and_an_128th_wide() {
        for step in 0..34 * STEPS {
            assert_eq!(step_of(highest(step)), step);
            assert_eq!(step_of(highest(step) + 1), step + 1);
        }
        for ns in [300u64, 12_345, 1_000_000, 123_456_789] {
            assert!(highest(step_of(ns)) - ns <= ns / 128);
        }
        // As Redis shows a microsecond and ten of them.
        assert_eq!((highest(step_of(1_000)), highest(step_of(10_000))), (1_003, 10_047));
    }

    #[test]
    fn percentiles_and_powers_of_two() {
        let mut h = Histogram::default();
        assert_eq!((h.percentile(50.0), h.by_powers_of_two()), (0, Vec::new()));
        h.record(500, 90);
        h.record(20_000, 9);
        h.record(u64::MAX, 1);
        assert_eq!(h.total(), 100);
        assert_eq!(h.percentile(50.0), 501);
        assert_eq!(h.percentile(99.0), 20_095);
        assert!(h.percentile(100.0) >= LONGEST_NS);
        let shown = h.by_powers_of_two();
        assert_eq!(shown[..2], [(1_031, 90), (33_023, 99)]);
        assert_eq!((shown.len(), shown[2].1), (3, 100));
    }
}
