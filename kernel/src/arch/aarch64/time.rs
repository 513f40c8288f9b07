//! The generic timer's virtual counter, and the PL031 calendar clock.

use super::{hardware, memory, sysreg};
use core::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds of a tick as a fixed-point number with 32 fractional bits.
static NS_PER_TICK: AtomicU64 = AtomicU64::new(0);
/// Ticks of a nanosecond, likewise.
static TICKS_PER_NS: AtomicU64 = AtomicU64::new(0);
/// The counter at boot: monotonic time starts there.
static START: AtomicU64 = AtomicU64::new(0);

const NS_PER_S: u64 = 1_000_000_000;
/// What CNTFRQ_EL0 is taken for when the firmware left it zero: QEMU's frequency.
const USUAL_HZ: u64 = 62_500_000;
/// PL031's data register: seconds since 1970.
const RTC_DATA: usize = 0;

/// The raw counter.
#[inline]
pub fn ticks() -> u64 {
    sysreg::read!("cntvct_el0")
}

/// Starts the clock at `start` ticks.
pub(super) fn start_at(start: u64) {
    let hz = match sysreg::read!("cntfrq_el0") & 0xffff_ffff {
        0 => USUAL_HZ,
        hz => hz,
    };
    START.store(start, Ordering::Relaxed);
    NS_PER_TICK.store((NS_PER_S << 32) / hz, Ordering::Relaxed);
    TICKS_PER_NS.store((hz << 32) / NS_PER_S, Ordering::Relaxed);
}

/// The clock runs since the first instructions of boot: nothing is left to do.
pub fn init() {}

/// Nanoseconds since boot. The counter is the same for all CPUs; it may be read a few instructions early.
#[inline]
pub fn now_ns() -> u64 {
    scale(ticks() - START.load(Ordering::Relaxed), NS_PER_TICK.load(Ordering::Relaxed))
}

#[inline]
fn scale(value: u64, factor: u64) -> u64 {
    ((u128::from(value) * u128::from(factor)) >> 32) as u64
}

/// Lets the timer's interrupt be pending from `deadline_ns` on.
#[inline]
pub(super) fn set_deadline(deadline_ns: u64) {
    let ticks = scale(deadline_ns, TICKS_PER_NS.load(Ordering::Relaxed));
    // One more tick, so that rounding does not end a wait just before its time.
    let compare = START.load(Ordering::Relaxed).saturating_add(ticks).saturating_add(1);
    // SAFETY: the timer only raises an interrupt, which is asked for after the halt.
    unsafe {
        sysreg::write!("cntv_cval_el0", compare);
        sysreg::write!("cntv_ctl_el0", 1);
    }
}

/// Switches the timer off; its interrupt is no longer pending.
#[inline]
pub(super) fn clear_deadline() {
    // SAFETY: as above.
    unsafe { sysreg::write!("cntv_ctl_el0", 0) };
}

/// Seconds since 1970 from the calendar clock.
pub fn unix_seconds() -> Option<u64> {
    let base = memory::map_mmio(hardware::get().rtc?, 0x1000)?;
    // SAFETY: the device tree says that a PL031's registers are there.
    let seconds = unsafe { base.as_ptr().add(RTC_DATA).cast::<u32>().read_volatile() };
    (seconds != 0).then_some(seconds.into())
}
