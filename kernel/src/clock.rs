//! Time: monotonic nanoseconds since boot, and Unix time.

use crate::arch;
use core::sync::atomic::{AtomicI64, Ordering};

/// Unix nanoseconds at monotonic zero; 0 while unknown.
static UNIX_BASE_NS: AtomicI64 = AtomicI64::new(0);

/// Starts the monotonic clock and reads the calendar clock once.
pub(crate) fn init() {
    arch::time::init();
    match arch::time::unix_seconds() {
        // The second was somewhere in its course: its middle is wrong by half a second at most.
        Some(seconds) => set_unix_ns(seconds as i64 * 1_000_000_000 + 500_000_000),
        None => log::warn!("no calendar clock: Unix time counts from boot"),
    }
}

/// Nanoseconds since boot; the same on all CPUs, never goes back.
#[inline]
pub fn now_ns() -> u64 {
    arch::time::now_ns()
}

/// Nanoseconds since 1970-01-01 UTC. The calendar clock was read once, at boot, with its resolution of a second.
pub fn unix_ns() -> i64 {
    unix_at(now_ns())
}

/// Nanoseconds since 1970-01-01 UTC at `now_ns` of the monotonic clock.
#[inline]
pub fn unix_at(now_ns: u64) -> i64 {
    UNIX_BASE_NS.load(Ordering::Relaxed) + now_ns as i64
}

/// Sets Unix time; monotonic time is not touched.
pub fn set_unix_ns(now: i64) {
    UNIX_BASE_NS.store(now - now_ns() as i64, Ordering::Relaxed);
}
