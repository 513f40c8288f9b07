//! How recently, or how often, a key was used: 24 bits in the head of its record.
//!
//! With an LRU policy they are the second of the last access. With an LFU policy they are the minute of the last access (16
//! bits) and a counter (8 bits) that grows with the logarithm of the number of accesses and falls with time. A change of
//! policy leaves them as they are: until a key is used again its bits are read the other way, as in Redis.
//! (Redis's documentation, "Key eviction": how LRU and LFU are approximated.)

use crate::random::Rng;
use crate::value::Item;
use barium_cell::FreshMark;

/// Counter of a new key under LFU, so that it is not evicted before it had a chance.
const LFU_INITIAL: u32 = 5;
const LFU_MAX: u32 = 255;
const CLOCK_MASK: u32 = 0xff_ffff;
const MINUTES_MASK: u32 = 0xffff;

/// The clock of accesses.
#[derive(Debug)]
pub struct Access {
    /// Unix time in seconds, 24 bits.
    seconds: u32,
    /// Unix time in minutes, 16 bits.
    minutes: u32,
    lfu: bool,
    log_factor: u32,
    decay_minutes: u32,
    /// Matches records that a look need not change.
    fresh: FreshMark,
    rng: Rng,
}

impl Access {
    pub(super) const fn new(seed: u64) -> Self {
        Self {
            seconds: 0,
            minutes: 0,
            lfu: false,
            log_factor: 0,
            decay_minutes: 0,
            fresh: FreshMark::of_clock(0),
            rng: Rng::new(seed),
        }
    }

    /// Sets what is kept: frequencies, or times of last access. `log_factor`: the larger, the more accesses a step of the
    /// counter takes. `decay_minutes`: minutes without access after which the counter falls by one; 0: it does not fall.
    pub(super) const fn configure(&mut self, lfu: bool, log_factor: u32, decay_minutes: u32) {
        (self.lfu, self.log_factor, self.decay_minutes) = (lfu, log_factor, decay_minutes);
        self.refresh();
    }

    pub(super) const fn set_now(&mut self, unix_s: i64) {
        self.seconds = unix_s as u32 & CLOCK_MASK;
        self.minutes = (unix_s / 60) as u32 & MINUTES_MASK;
        self.refresh();
    }

    const fn refresh(&mut self) {
        // Under LFU every access counts.
        self.fresh = if self.lfu { FreshMark::NEVER } else { FreshMark::of_clock(self.seconds) };
    }

    /// Unix time in seconds, 24 bits.
    pub const fn seconds(&self) -> u32 {
        self.seconds
    }

    /// Whether frequencies are kept.
    pub const fn is_lfu(&self) -> bool {
        self.lfu
    }

    #[inline]
    pub(super) const fn fresh(&self) -> FreshMark {
        self.fresh
    }

    /// The bits of a new key.
    #[inline]
    pub const fn initial(&self) -> u32 {
        if self.lfu { self.with_frequency(LFU_INITIAL) } else { self.seconds }
    }

    /// The bits of a key of this frequency, under LFU.
    pub const fn with_frequency(&self, frequency: u32) -> u32 {
        self.minutes << 8 | (frequency & LFU_MAX)
    }

    /// The bits of a key that was last used so long ago, under LRU.
    pub const fn with_idle_s(&self, idle_s: u32) -> u32 {
        self.seconds.wrapping_sub(idle_s) & CLOCK_MASK
    }

    /// The bits of a key that is being used.
    #[inline]
    pub(super) fn touched(&mut self, bits: u32) -> u32 {
        if self.lfu { self.used(bits) } else { self.seconds }
    }

    /// Moves the clock of a record without a deadline on, if its key's use counts (`touch`) and it does not stand there
    /// already. False: it has a deadline, and nothing was done.
    #[inline(always)]
    pub(super) fn touch_lasting(&mut self, item: &mut Item, touch: bool) -> bool {
        if item.is_fresh(self.fresh) {
            return true;
        }
        if item.deadline().is_some() {
            return false;
        }
        if touch {
            item.set_clock(self.touched(item.clock()));
        }
        true
    }

    fn used(&mut self, bits: u32) -> u32 {
        let frequency = self.frequency(bits);
        // One access in so many counts.
        let steps = u64::from(frequency.saturating_sub(LFU_INITIAL)) * u64::from(self.log_factor) + 1;
        let counts = frequency < LFU_MAX && self.rng.below(steps as usize) == 0;
        self.with_frequency(frequency + u32::from(counts))
    }

    /// The counter, as it has fallen since the last access.
    pub const fn frequency(&self, bits: u32) -> u32 {
        let idle_minutes = self.minutes.wrapping_sub(bits >> 8) & MINUTES_MASK;
        let fallen = match idle_minutes.checked_div(self.decay_minutes) {
            Some(n) => n,
            None => 0,
        };
        (bits & LFU_MAX).saturating_sub(fallen)
    }

    /// Seconds since the last access.
    pub const fn idle_s(&self, bits: u32) -> u32 {
        self.seconds.wrapping_sub(bits) & CLOCK_MASK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(lfu: bool, log_factor: u32, decay: u32) -> Access {
        let mut a = Access::new(1);
        a.configure(lfu, log_factor, decay);
        a.set_now(1_000_000_000);
        a
    }

    #[test]
    fn idle_time_survives_the_clock_s_wrap() {
        let mut a = access(false, 10, 1);
        a.set_now((1 << 24) - 3);
        let bits = a.initial();
        a.set_now((1 << 24) + 7);
        assert_eq!((a.idle_s(bits), a.touched(bits)), (10, 7));
        assert_eq!(a.idle_s(a.with_idle_s(1_000)), 1_000);
    }

    #[test]
    fn frequency_grows_logarithmically() {
        // The table of Redis's documentation: factor 10 gives 10 after 100 hits, 18 after 1,000, 142 after 100,000.
        for (factor, hits, low, high) in
            [(0, 100, 105, 105), (1, 1_000, 44, 54), (10, 100, 7, 13), (10, 1_000, 15, 23), (10, 100_000, 134, 152)]
        {
            let mut a = access(true, factor, 1);
            let mut bits = a.initial();
            for _ in 0..hits {
                bits = a.touched(bits);
            }
            let f = a.frequency(bits);
            assert!((low..=high).contains(&f), "factor {factor}, {hits} hits: {f}");
        }
        let mut a = access(true, 0, 1);
        assert_eq!((0..1_000).fold(a.initial(), |bits, _| a.touched(bits)) & 255, 255);
    }

    #[test]
    fn frequency_falls_with_time() {
        let mut a = access(true, 0, 2);
        let bits = a.with_frequency(20);
        a.set_now(1_000_000_000 + 60 * 7);
        assert_eq!(a.frequency(bits), 17);
        let touched = a.touched(bits);
        assert_eq!((touched & 255, a.frequency(touched)), (18, 18));
        a.set_now(1_000_000_000 + 60 * 500);
        assert_eq!(a.frequency(bits), 0);
        a.configure(true, 0, 0);
        assert_eq!(a.frequency(bits), 20);
    }
}
