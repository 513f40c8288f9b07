//! Ending another CPU's halt without an interrupt where it does not halt.

use crate::sync::{AtomicU8, Ordering};

const AWAKE: u8 = 0;
/// Rung since the last look, and awake.
const RUNG: u8 = 1;
const HALTING: u8 = 2;

/// One CPU's bell. Whoever has left something for the CPU rings it; the CPU looks at the bell before it halts.
///
/// Every change is a read-modify-write of one word, so that of a ring and a halt the later sees the earlier: either the
/// ringer finds the CPU halting, or the CPU finds the bell rung and sees what was left before.
pub struct Bell(AtomicU8);

impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}

impl Bell {
    /// The bell of a CPU that runs.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(AtomicU8::new(AWAKE))
    }

    /// The same for loom.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self(AtomicU8::new(AWAKE))
    }

    /// Rings. Returns whether the CPU halts or is about to, so that it needs an interrupt as well.
    #[must_use]
    pub fn ring(&self) -> bool {
        self.0.swap(RUNG, Ordering::AcqRel) == HALTING
    }

    /// Whether it was rung since the last look; for a CPU that waits without halting. To see what it was rung for, call
    /// [`awake`](Self::awake) first.
    #[inline]
    pub fn is_rung(&self) -> bool {
        self.0.load(Ordering::Relaxed) == RUNG
    }

    /// The CPU is about to halt. Returns false when the bell was rung since the last look: then it is to look for what was
    /// left, and counts as awake.
    #[must_use]
    pub fn prepare_halt(&self) -> bool {
        if self.0.swap(HALTING, Ordering::AcqRel) == RUNG {
            self.awake();
            return false;
        }
        true
    }

    /// The CPU does not halt any more, or not after all, and looks for what was left.
    pub fn awake(&self) {
        // A swap, not a store: it sees what a ring in between was for.
        self.0.swap(AWAKE, Ordering::AcqRel);
    }
}
