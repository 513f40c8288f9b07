//! A value that one CPU at a time works on, and that nobody waits for.
//!
//! A CPU tries. Where another one has the value it leaves its mark, goes on with other work, and halts when there is none: whoever
//! lets go wakes one of those that left a mark. So a holder whose virtual CPU was put aside by the host stalls nobody who has
//! other work, and burns nobody's time.
//!
//! Whoever comes by while the value is free takes it, which is quickest. One who was woken and came too late [`PATIENCE`]
//! times is let through: until it had its turn the others hold back.

use crate::MAX_CPUS;
use crate::sync::{AtomicBool, AtomicU64, Ordering, UnsafeCell};
use core::ops::{Deref, DerefMut};

/// Failed attempts after which the others hold back.
pub const PATIENCE: u32 = 2;

/// How a CPU is told that it should try again.
pub trait Wake {
    /// Ends the present or the next halt of `cpu`.
    fn wake(&self, cpu: usize);
}

/// One CPU's part in the matter: who it is, and how often in a row it came too late.
pub struct Claim {
    cpu: usize,
    misses: u32,
}

impl Claim {
    /// The claim of a CPU. There must be one for each number only, or the marks are mixed up: wake-ups may be lost then,
    /// though never the exclusion.
    ///
    /// # Panics
    /// If the number is not below [`MAX_CPUS`].
    pub fn new(cpu: usize) -> Self {
        assert!(cpu < MAX_CPUS);
        Self { cpu, misses: 0 }
    }
}

/// See the [module](self).
pub struct Exclusive<T, W> {
    held: AtomicBool,
    /// Who left a mark.
    waiting: AtomicU64,
    /// Those among them that came too late too often.
    starving: AtomicU64,
    wake: W,
    value: UnsafeCell<T>,
}

// SAFETY: one guard exists at a time, which gives access as a lock does.
unsafe impl<T: Send, W: Sync> Sync for Exclusive<T, W> {}

impl<T, W: Wake> Exclusive<T, W> {
    /// A free value.
    pub fn new(value: T, wake: W) -> Self {
        Self {
            held: AtomicBool::new(false),
            waiting: AtomicU64::new(0),
            starving: AtomicU64::new(0),
            wake,
            value: UnsafeCell::new(value),
        }
    }

    /// How CPUs are woken.
    pub fn waker(&self) -> &W {
        &self.wake
    }

    /// Takes the value if it is free. Otherwise the CPU is woken when it is worth another try, as often as it takes; until
    /// it had the value it should not halt without having tried.
    #[inline]
    pub fn try_lock(&self, claim: &mut Claim) -> Option<Guard<'_, T, W>> {
        let me = 1u64 << claim.cpu;
        if self.starving.load(Ordering::Acquire) & !me == 0 && self.grab() {
            return Some(self.entered(claim));
        }
        self.try_again(claim)
    }

    #[cold]
    fn try_again(&self, claim: &mut Claim) -> Option<Guard<'_, T, W>> {
        let me = 1u64 << claim.cpu;
        claim.misses = claim.misses.saturating_add(1);
        if claim.misses > PATIENCE {
            self.starving.fetch_or(me, Ordering::AcqRel);
        }
        // From here on whoever lets go sees the mark; who let go before is seen by the second try. The words change by
        // read-modify-write only: of two CPUs the later sees what the earlier did.
        self.waiting.fetch_or(me, Ordering::AcqRel);
        let starving = self.starving.load(Ordering::Acquire);
        if starving & me != 0 || starving == 0 {
            return self.grab().then(|| self.entered(claim));
        }
        // It may be free, and be one of theirs who was not woken because it was not yet known how it stood with them.
        self.wake.wake(next_after(starving, claim.cpu));
        None
    }

    #[inline]
    fn grab(&self) -> bool {
        !self.held.load(Ordering::Relaxed)
            && self.held.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    #[inline]
    fn entered(&self, claim: &mut Claim) -> Guard<'_, T, W> {
        if claim.misses > 0 {
            claim.misses = 0;
            let others = !(1u64 << claim.cpu);
            self.starving.fetch_and(others, Ordering::AcqRel);
            self.waiting.fetch_and(others, Ordering::AcqRel);
        }
        Guard { lock: self, cpu: claim.cpu }
    }

    #[inline]
    fn leave(&self, cpu: usize) {
        self.held.swap(false, Ordering::AcqRel);
        let waiting = self.waiting.fetch_or(0, Ordering::AcqRel);
        if waiting != 0 {
            self.wake_one(waiting, cpu);
        }
    }

    #[cold]
    fn wake_one(&self, waiting: u64, cpu: usize) {
        let first = waiting & self.starving.load(Ordering::Acquire);
        self.wake.wake(next_after(if first != 0 { first } else { waiting }, cpu));
    }
}

/// The number of the next bit of `set`, which is not empty, after `cpu`, cyclically.
fn next_after(set: u64, cpu: usize) -> usize {
    let above = set & (u64::MAX << cpu) & !(1 << cpu);
    (if above != 0 { above } else { set }).trailing_zeros() as usize
}

/// Has the value until dropped.
pub struct Guard<'a, T, W: Wake> {
    lock: &'a Exclusive<T, W>,
    cpu: usize,
}

impl<T, W: Wake> Deref for Guard<'_, T, W> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T, W: Wake> DerefMut for Guard<'_, T, W> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one and is borrowed mutably.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T, W: Wake> Drop for Guard<'_, T, W> {
    #[inline]
    fn drop(&mut self) {
        self.lock.leave(self.cpu);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[derive(Default)]
    struct Woken(RefCell<Vec<usize>>);

    impl Wake for Woken {
        fn wake(&self, cpu: usize) {
            self.0.borrow_mut().push(cpu);
        }
    }

    #[test]
    fn the_next_is_woken_in_turn() {
        assert_eq!(next_after(0b1010, 1), 3);
        assert_eq!(next_after(0b1010, 3), 1);
        assert_eq!(next_after(1 << 63 | 1, 63), 0);
        assert_eq!(next_after(1 << 63, 63), 63);
        let lock = Exclusive::new(0, Woken::default());
        let mut claims: Vec<Claim> = (0..64).map(Claim::new).collect();
        let guard = lock.try_lock(&mut claims[2]).expect("free");
        assert!(lock.try_lock(&mut claims[63]).is_none());
        assert!(lock.try_lock(&mut claims[0]).is_none());
        drop(guard);
        assert_eq!(*lock.waker().0.borrow(), [63]);
        drop(lock.try_lock(&mut claims[63]).expect("free"));
        assert_eq!(*lock.waker().0.borrow(), [63, 0]);
        drop(lock.try_lock(&mut claims[0]).expect("free"));
        assert_eq!(*lock.waker().0.borrow(), [63, 0], "nobody waits");
    }

    #[test]
    fn who_came_too_late_too_often_is_let_through() {
        let lock = Exclusive::new((), Woken::default());
        let (mut greedy, mut patient) = (Claim::new(0), Claim::new(1));
        for _ in 0..=PATIENCE {
            let guard = lock.try_lock(&mut greedy).expect("nobody starves yet");
            assert!(lock.try_lock(&mut patient).is_none());
            drop(guard);
        }
        lock.waker().0.borrow_mut().clear();
        assert!(lock.try_lock(&mut greedy).is_none(), "it is the other's turn");
        assert_eq!(*lock.waker().0.borrow(), [1]);
        drop(lock.try_lock(&mut patient).expect("its turn"));
        assert_eq!(*lock.waker().0.borrow(), [1, 0], "and then the first again");
        assert!(lock.try_lock(&mut greedy).is_some());
    }
}
