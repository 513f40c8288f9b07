//! Local APICs (registers in memory, or MSRs in x2APIC mode) and I/O APICs.

use super::{cpu, paging, time};
use crate::clock;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use spin::Mutex;
use x86_64::registers::model_specific::Msr;

const APIC_BASE: u32 = 0x1b;
const X2APIC_FIRST: u32 = 0x800;
const TSC_DEADLINE: u32 = 0x6e0;

const ID: u32 = 0x20;
const TASK_PRIORITY: u32 = 0x80;
const END_OF_INTERRUPT: u32 = 0xb0;
const SPURIOUS: u32 = 0xf0;
const COMMAND: u32 = 0x300;
const COMMAND_HIGH: u32 = 0x310;
const LVT_TIMER: u32 = 0x320;
const LVT_LINT0: u32 = 0x350;
const LVT_LINT1: u32 = 0x360;
const LVT_ERROR: u32 = 0x370;
const TIMER_INITIAL: u32 = 0x380;
const TIMER_CURRENT: u32 = 0x390;
const TIMER_DIVIDE: u32 = 0x3e0;

const MASKED: u32 = 1 << 16;
const ENABLE: u32 = 1 << 8;
const TSC_DEADLINE_MODE: u32 = 2 << 17;
const NON_MASKABLE: u32 = 4 << 8;
const DIVIDE_BY_16: u32 = 3;
const DELIVERY_PENDING: u64 = 1 << 12;
const NMI: u32 = 4 << 8 | 1 << 14;
const INIT: u32 = 5 << 8 | 1 << 14;
const STARTUP: u32 = 6 << 8 | 1 << 14;

/// Address of the registers in memory; 0 in x2APIC mode.
static REGISTERS: AtomicUsize = AtomicUsize::new(0);
/// Timer ticks per nanosecond, times 2^32.
static TIMER_RATE: AtomicU64 = AtomicU64::new(0);

fn read(register: u32) -> u32 {
    match REGISTERS.load(Ordering::Relaxed) {
        // SAFETY: x2APIC mode is on, and `register` is one of the constants above.
        0 => unsafe { Msr::new(X2APIC_FIRST + (register >> 4)).read() as u32 },
        // SAFETY: the page of registers is mapped.
        base => unsafe { ((base + register as usize) as *const u32).read_volatile() },
    }
}

fn write(register: u32, value: u32) {
    match REGISTERS.load(Ordering::Relaxed) {
        // SAFETY: x2APIC mode is on, and `register` is one of the constants above.
        0 => unsafe { Msr::new(X2APIC_FIRST + (register >> 4)).write(u64::from(value)) },
        // SAFETY: the page of registers is mapped.
        base => unsafe { ((base + register as usize) as *mut u32).write_volatile(value) },
    }
}

/// Finds this machine's way to the local APIC and sets the boot CPU's up. False when the registers cannot be mapped.
pub(super) fn init(address: u64) -> bool {
    if !cpu::features().x2apic {
        let Some(registers) = paging::map_mmio(address, 4096) else { return false };
        REGISTERS.store(registers.as_ptr() as usize, Ordering::Relaxed);
    }
    init_cpu();
    cpu::note_boot_apic(id());
    true
}

/// Sets up the local APIC of this CPU: everything but IPIs and messages is masked.
pub(super) fn init_cpu() {
    let mut base = Msr::new(APIC_BASE);
    let mode = if cpu::features().x2apic { 0xc00 } else { 0x800 };
    // SAFETY: switches the APIC on where it is; x2APIC mode is there by CPUID.
    unsafe {
        let value = base.read();
        if value & 0xc00 != mode {
            base.write(value | mode);
        }
    }
    write(TASK_PRIORITY, 0);
    write(LVT_LINT0, MASKED);
    write(LVT_LINT1, if crate::cpu::id() == 0 { NON_MASKABLE } else { MASKED });
    write(LVT_ERROR, MASKED);
    write(SPURIOUS, ENABLE | u32::from(super::irq::SPURIOUS));
    if cpu::features().tsc_deadline {
        write(LVT_TIMER, TSC_DEADLINE_MODE | u32::from(super::irq::TIMER));
        // The mode must be in force before the first deadline is written (SDM volume 3, 10.5.4.1).
        core::sync::atomic::fence(Ordering::SeqCst);
    } else {
        write(TIMER_DIVIDE, DIVIDE_BY_16);
        write(LVT_TIMER, u32::from(super::irq::TIMER));
    }
}

/// This CPU's number among the APICs.
pub(super) fn id() -> u32 {
    if REGISTERS.load(Ordering::Relaxed) == 0 { read(ID) } else { read(ID) >> 24 }
}

/// Says that the handling of the interrupt being served is over.
pub(super) fn end_of_interrupt() {
    write(END_OF_INTERRUPT, 0);
}

fn command(target: u32, low: u32) {
    if REGISTERS.load(Ordering::Relaxed) == 0 {
        // Earlier stores must be seen by the CPU that is interrupted: writing this MSR does not order them.
        core::sync::atomic::fence(Ordering::SeqCst);
        // SAFETY: x2APIC mode is on; the command is one of ours.
        unsafe { Msr::new(X2APIC_FIRST + (COMMAND >> 4)).write(u64::from(target) << 32 | u64::from(low)) };
        return;
    }
    write(COMMAND_HIGH, target << 24);
    write(COMMAND, low);
    for _ in 0..1_000_000 {
        if u64::from(read(COMMAND)) & DELIVERY_PENDING == 0 {
            break;
        }
        cpu::relax();
    }
}

/// Interrupts the CPU with APIC number `target`.
pub(super) fn send(target: u32, vector: u8) {
    command(target, u32::from(vector) | 1 << 14);
}

/// Interrupts the CPU with APIC number `target` whatever it does.
pub(super) fn send_nmi(target: u32) {
    command(target, NMI);
}

/// Resets the CPU with APIC number `target`.
pub(super) fn send_init(target: u32) {
    command(target, INIT);
}

/// Lets it run the code at physical address `page` << 12, in real mode.
pub(super) fn send_startup(target: u32, page: u8) {
    command(target, STARTUP | u32::from(page));
}

/// Starts counting down from the highest value, without an interrupt, for calibration.
pub(super) fn start_counting() {
    if !cpu::features().tsc_deadline {
        write(LVT_TIMER, MASKED | u32::from(super::irq::TIMER));
        write(TIMER_INITIAL, u32::MAX);
    }
}

/// Ticks since [`start_counting`].
pub(super) fn counted() -> u32 {
    if cpu::features().tsc_deadline { 0 } else { u32::MAX - read(TIMER_CURRENT) }
}

/// Ends counting and notes that `ticks` took `ns`.
pub(super) fn set_rate(ticks: u32, ns: u64) {
    if !cpu::features().tsc_deadline {
        write(TIMER_INITIAL, 0);
        write(LVT_TIMER, u32::from(super::irq::TIMER));
        TIMER_RATE.store(((u128::from(ticks) << 32) / u128::from(ns.max(1))) as u64, Ordering::Relaxed);
    }
}

/// Lets this CPU's timer fire once in `ns` nanoseconds or, when that is too far for it, earlier.
pub(super) fn set_timer(ns: u64) {
    if cpu::features().tsc_deadline {
        let deadline = time::ticks_at(clock::now_ns().saturating_add(ns));
        // SAFETY: the timer is in this mode.
        unsafe { Msr::new(TSC_DEADLINE).write(deadline) };
    } else {
        let ticks = (u128::from(ns) * u128::from(TIMER_RATE.load(Ordering::Relaxed))) >> 32;
        write(TIMER_INITIAL, ticks.clamp(1, u128::from(u32::MAX)) as u32);
    }
}

/// An I/O APIC's register window.
#[derive(Clone, Copy, Debug)]
pub(super) struct IoApic {
    registers: NonNull<u32>,
    first_line: u32,
    lines: u32,
}

// SAFETY: the registers may be used from any CPU; IO_APIC_ACCESS orders them.
unsafe impl Send for IoApic {}
// SAFETY: as above.
unsafe impl Sync for IoApic {}

static IO_APIC_ACCESS: Mutex<()> = Mutex::new(());

impl IoApic {
    /// Maps the I/O APIC at `address`, whose lines count from `first_line`, and masks them all.
    pub(super) fn new(address: u64, first_line: u32) -> Option<Self> {
        let mut it = Self { registers: paging::map_mmio(address, 0x20)?.cast(), first_line, lines: 0 };
        it.lines = (it.read(1) >> 16 & 0xff) + 1;
        Some(it)
    }

    fn read(&self, register: u32) -> u32 {
        let _access = IO_APIC_ACCESS.lock();
        // SAFETY: index and data register of the window that was mapped.
        unsafe {
            self.registers.write_volatile(register);
            self.registers.add(4).read_volatile()
        }
    }

    fn write(&self, register: u32, value: u32) {
        let _access = IO_APIC_ACCESS.lock();
        // SAFETY: as above.
        unsafe {
            self.registers.write_volatile(register);
            self.registers.add(4).write_volatile(value);
        }
    }

    /// Whether the line is one of this chip's.
    pub(super) fn has(&self, line: u32) -> bool {
        (self.first_line..self.first_line + self.lines).contains(&line)
    }

    /// Lets a line raise `vector` on the CPU with APIC number `target`.
    pub(super) fn route(&self, line: u32, vector: u8, target: u32, level: bool, active_low: bool) {
        let register = 0x10 + 2 * (line - self.first_line);
        self.write(register + 1, target << 24);
        self.write(register, u32::from(vector) | u32::from(active_low) << 13 | u32::from(level) << 15);
    }
}
