//! The time stamp counter as the clock, and the chips that tell how fast it runs.
//!
//! The rate comes from CPUID where it says so. Otherwise the counter is compared with a chip of known rate over a millisecond
//! at boot, and again and again over the ever longer time since then, so that the clock gets as good as that chip without
//! anybody having waited for it.

use super::{apic, cpu, firmware, paging};
use crate::acpi::Fadt;
use core::arch::x86_64::{__cpuid, _rdtsc};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use spin::Mutex;
use x86_64::instructions::port::Port;

/// How long the counter is measured at boot.
const WINDOW_NS: u64 = 1_000_000;
/// Nanoseconds per tick are kept times 2^32.
const SHIFT: u32 = 32;

/// The line that turns ticks into time: `base_ns + (ticks - base_ticks) * rate >> SHIFT`. Readers retry while the version is
/// odd or has changed.
struct Line {
    version: AtomicU64,
    base_ticks: AtomicU64,
    base_ns: AtomicU64,
    rate: AtomicU64,
}

static LINE: Line = Line {
    version: AtomicU64::new(0),
    base_ticks: AtomicU64::new(0),
    base_ns: AtomicU64::new(0),
    rate: AtomicU64::new(0),
};

impl Line {
    fn read(&self) -> (u64, u64, u64) {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let line = (
                self.base_ticks.load(Ordering::Relaxed),
                self.base_ns.load(Ordering::Relaxed),
                self.rate.load(Ordering::Relaxed),
            );
            fence(Ordering::Acquire);
            if version & 1 == 0 && self.version.load(Ordering::Relaxed) == version {
                return line;
            }
            cpu::relax();
        }
    }

    /// For one writer at a time.
    fn write(&self, base_ticks: u64, base_ns: u64, rate: u64) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.base_ticks.store(base_ticks, Ordering::Relaxed);
        self.base_ns.store(base_ns, Ordering::Relaxed);
        self.rate.store(rate, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
    }
}

fn scale(ticks: u64, rate: u64) -> u64 {
    ((u128::from(ticks) * u128::from(rate)) >> SHIFT) as u64
}

/// Time stamp counter.
#[inline]
pub(super) fn ticks() -> u64 {
    // SAFETY: every x86_64 CPU has it, and CR4.TSD is clear.
    unsafe { _rdtsc() }
}

/// Nanoseconds since the kernel was entered. 0 until the rate is known.
#[inline]
pub fn now_ns() -> u64 {
    let (base_ticks, base_ns, rate) = LINE.read();
    base_ns + scale(ticks().saturating_sub(base_ticks), rate)
}

/// The counter's value at a time to come.
pub(super) fn ticks_at(ns: u64) -> u64 {
    let (base_ticks, base_ns, rate) = LINE.read();
    let ticks = (u128::from(ns.saturating_sub(base_ns)) << SHIFT) / u128::from(rate.max(1));
    base_ticks.saturating_add(u64::try_from(ticks).unwrap_or(u64::MAX))
}

/// A chip that counts at a known rate.
#[derive(Clone, Copy)]
enum Reference {
    /// High precision event timer: registers and femtoseconds per tick.
    Hpet(NonNull<u64>, u64),
    /// ACPI power management timer: its port.
    PowerManagement(u16),
    /// Channel 2 of the 8254.
    Pit,
}

// SAFETY: reading a counter from any CPU is fine.
unsafe impl Send for Reference {}

const PM_HZ: u64 = 3_579_545;
const PIT_HZ: u64 = 1_193_182;

impl Reference {
    fn find() -> Self {
        if let Some(hpet) = firmware::get().hpet.and_then(Self::start_hpet) {
            return hpet;
        }
        match firmware::get().fadt {
            Some(Fadt { pm_timer: Some(port), .. }) => Self::PowerManagement(port),
            _ => Self::start_pit(),
        }
    }

    fn start_hpet(phys: u64) -> Option<Self> {
        const CAPABILITIES: usize = 0;
        const CONFIGURATION: usize = 2;
        let registers: NonNull<u64> = paging::map_mmio(phys, 0x400)?.cast();
        // SAFETY: registers of the HPET, mapped; setting bit 0 lets the main counter run.
        unsafe {
            let capabilities = registers.add(CAPABILITIES).read_volatile();
            let femtoseconds = capabilities >> 32;
            // The specification allows 100 ns at most; a 32-bit counter would wrap between comparisons.
            if femtoseconds == 0 || femtoseconds > 100_000_000 || capabilities & 1 << 13 == 0 {
                return None;
            }
            let configuration = registers.add(CONFIGURATION);
            configuration.write_volatile(configuration.read_volatile() | 1);
            Some(Self::Hpet(registers, femtoseconds))
        }
    }

    fn start_pit() -> Self {
        // SAFETY: the 8254's and the speaker's ports; channel 2 counts down from 65535 and raises no interrupt.
        unsafe {
            let mut gate = Port::<u8>::new(0x61);
            let value = gate.read();
            gate.write(value & !2 | 1);
            Port::<u8>::new(0x43).write(0b1011_0100);
            Port::<u8>::new(0x42).write(0xff);
            Port::<u8>::new(0x42).write(0xff);
        }
        Self::Pit
    }

    /// The counter; it counts up.
    fn count(self) -> u64 {
        const MAIN_COUNTER: usize = 0xf0 / 8;
        // SAFETY: reads a counter of a chip that `find` has found.
        unsafe {
            match self {
                Self::Hpet(registers, _) => registers.add(MAIN_COUNTER).read_volatile(),
                Self::PowerManagement(port) => u64::from(Port::<u32>::new(port).read() & 0xff_ffff),
                Self::Pit => {
                    Port::<u8>::new(0x43).write(0b1000_0000);
                    let mut data = Port::<u8>::new(0x42);
                    let low = data.read();
                    u64::from(!u16::from_le_bytes([low, data.read()]))
                }
            }
        }
    }

    /// Counts from one reading to a later one.
    fn since(self, from: u64, to: u64) -> u64 {
        let width = match self {
            Self::Hpet(..) => u64::MAX,
            Self::PowerManagement(_) => 0xff_ffff,
            Self::Pit => 0xffff,
        };
        to.wrapping_sub(from) & width
    }

    /// Femtoseconds per count.
    fn femtoseconds(self) -> u64 {
        match self {
            Self::Hpet(_, femtoseconds) => femtoseconds,
            Self::PowerManagement(_) => 1_000_000_000_000_000 / PM_HZ,
            Self::Pit => 1_000_000_000_000_000 / PIT_HZ,
        }
    }

    fn counts_in(self, ns: u64) -> u64 {
        ns * 1_000_000 / self.femtoseconds()
    }

    /// Nanoseconds between two readings, the later one second.
    fn ns_between(self, from: u64, to: u64) -> u64 {
        (u128::from(self.since(from, to)) * u128::from(self.femtoseconds()) / 1_000_000) as u64
    }

    /// How long it can be left alone before its counter has gone round.
    fn longest_ns(self) -> u64 {
        match self {
            Self::Hpet(..) => u64::MAX,
            Self::PowerManagement(_) => 4_000_000_000,
            Self::Pit => 50_000_000,
        }
    }

    /// Reads both counters as nearly at once as a few attempts allow: count, ticks.
    fn sample(self) -> (u64, u64) {
        let mut best = (0, 0, u64::MAX);
        for _ in 0..4 {
            let before = ticks();
            let count = self.count();
            let took = ticks().wrapping_sub(before);
            if took < best.2 {
                best = (count, before + took / 2, took);
            }
        }
        (best.0, best.1)
    }
}

/// A measurement that is going on.
struct Measuring {
    reference: Reference,
    first_count: u64,
    first_ticks: u64,
    next_ns: u64,
}

static MEASURING: Mutex<Option<Measuring>> = Mutex::new(None);
/// When the rate should be looked at again, in ticks; the highest value when never.
static NEXT_LOOK: AtomicU64 = AtomicU64::new(u64::MAX);

fn rate_of(ticks: u64, ns: u64) -> u64 {
    ((u128::from(ns) << SHIFT) / u128::from(ticks.max(1))) as u64
}

/// Finds the counter's rate and the local timer's, and starts the clock.
pub fn init() {
    let entry = super::entry_ticks();
    let known = known_rate();
    let reference = Reference::find();
    let (first_count, first_ticks) = reference.sample();
    apic::start_counting();
    // Each look at the chip takes long, so that few fit into the window.
    let window = reference.counts_in(WINDOW_NS);
    let mut looks = 0;
    while reference.since(first_count, reference.count()) < window && looks < 1_000_000 {
        looks += 1;
    }
    let counted = apic::counted();
    let (count, last_ticks) = reference.sample();
    let ns = reference.ns_between(first_count, count);
    let measured = rate_of(last_ticks - first_ticks, ns);
    let rate = known.unwrap_or(measured);
    apic::set_rate(counted, scale(last_ticks - first_ticks, rate));
    LINE.write(entry, 0, rate);
    log::debug!("time stamp counter at {} kHz", 1_000_000u64 * (1 << SHIFT) / rate.max(1));
    if known.is_none() && ns >= WINDOW_NS {
        let next_ns = now_ns() + 10 * WINDOW_NS;
        *MEASURING.lock() = Some(Measuring { reference, first_count, first_ticks, next_ns });
        NEXT_LOOK.store(ticks_at(next_ns), Ordering::Relaxed);
    }
}

/// Nanoseconds per tick by CPUID: crystal and ratio, the base frequency, or what a hypervisor says.
fn known_rate() -> Option<u64> {
    const KHZ: u128 = 1_000;
    let khz_rate = |khz: u128| (khz != 0).then(|| ((1_000_000 << SHIFT) / khz) as u64);
    if cpu::features().hypervisor {
        let last = __cpuid(0x4000_0000).eax;
        if (0x4000_0010..0x4000_1000).contains(&last) {
            return khz_rate(u128::from(__cpuid(0x4000_0010).eax));
        }
        return None;
    }
    let last = __cpuid(0).eax;
    if last >= 0x15 {
        let leaf = __cpuid(0x15);
        if leaf.eax != 0 && leaf.ebx != 0 && leaf.ecx != 0 {
            return khz_rate(u128::from(leaf.ecx) * u128::from(leaf.ebx) / u128::from(leaf.eax) / KHZ);
        }
    }
    None
}

/// Improves the rate when it is time to; called where a CPU is about to halt.
pub(super) fn look_again() {
    if ticks() < NEXT_LOOK.load(Ordering::Relaxed) {
        return;
    }
    let Some(mut guard) = MEASURING.try_lock() else { return };
    let Some(measuring) = guard.as_mut() else { return };
    let (count, at) = measuring.reference.sample();
    let (base_ticks, base_ns, old_rate) = LINE.read();
    let now = base_ns + scale(at.saturating_sub(base_ticks), old_rate);
    let passed = scale(at - measuring.first_ticks, old_rate);
    if passed >= measuring.reference.longest_ns() {
        *guard = None;
        NEXT_LOOK.store(u64::MAX, Ordering::Relaxed);
        return;
    }
    let true_ns = measuring.reference.ns_between(measuring.first_count, count);
    let rate = rate_of(at - measuring.first_ticks, true_ns);
    // The clock goes on from where it is, so that it never jumps; what it was wrong by so far stays.
    LINE.write(at, now, rate);
    measuring.next_ns = now + 4 * passed;
    NEXT_LOOK.store(ticks_at(measuring.next_ns), Ordering::Relaxed);
}

/// Seconds since 1970 by the CMOS clock, taken to run in UTC.
pub fn unix_seconds() -> Option<u64> {
    const STATUS_A: u8 = 0x0a;
    const STATUS_B: u8 = 0x0b;
    const UPDATING: u8 = 0x80;
    fn read(register: u8) -> u8 {
        // SAFETY: index and data port of the CMOS clock, used by nobody else; bit 7 keeps NMIs on.
        unsafe {
            Port::<u8>::new(0x70).write(register);
            Port::<u8>::new(0x71).read()
        }
    }
    let fields = || [0x00, 0x02, 0x04, 0x07, 0x08, 0x09, 0x32].map(read);
    if read(STATUS_A) == 0xff {
        return None;
    }
    // An update takes less than 2 ms; two equal readings outside of one are consistent.
    let mut last = fields();
    for _ in 0..10_000 {
        let calm = read(STATUS_A) & UPDATING == 0;
        let now = fields();
        if calm && now == last {
            return crate::calendar::from_cmos(now, read(STATUS_B));
        }
        last = now;
    }
    None
}
