//! GICv3 (ARM IHI 0069): distributor, redistributors, and the CPU interface in system registers.

use super::gic::{FIRST_SHARED, TIMER, WAKE};
use super::hardware::{self, Gic};
use super::{cpu, memory, sysreg};
use crate::cpu::MAX_CPUS;
use crate::region::Region;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

// Distributor.
const GICD_CTLR: usize = 0x0000;
const GICD_TYPER: usize = 0x0004;
const GICD_IGROUPR: usize = 0x0080;
const GICD_ISENABLER: usize = 0x0100;
const GICD_IPRIORITYR: usize = 0x0400;
const GICD_ICFGR: usize = 0x0c00;
const GICD_IROUTER: usize = 0x6000;
/// GICD_CTLR: affinity routing, and group 1 of both security views.
const GICD_ENABLE: u32 = 1 << 4 | 1 << 1 | 1;
/// GICD_CTLR.RWP: a change is under way.
const GICD_PENDING: u32 = 1 << 31;
// Redistributor: two frames of 64 KiB, the second for the private interrupts; four with virtual LPIs.
const GICR_TYPER: usize = 0x0008;
const GICR_WAKER: usize = 0x0014;
const FRAME_BYTES: u64 = 64 << 10;
const PRIVATE: usize = 64 << 10;

const PRIORITY: u8 = 0xa0;
const PRIORITY_MASK: u64 = 0xf0;
/// How often a register is asked before the hardware is taken for broken.
const PATIENCE: u32 = 1_000_000;

static DISTRIBUTOR: AtomicUsize = AtomicUsize::new(0);
/// Each CPU's redistributor, mapped; 0 while it has none.
static REDISTRIBUTOR: [AtomicUsize; MAX_CPUS] = [const { AtomicUsize::new(0) }; MAX_CPUS];
/// Each CPU's affinity.
static AFFINITY: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// Reads a 32-bit register of a mapped block.
pub(super) fn read(base: usize, offset: usize) -> u32 {
    // SAFETY: callers pass the base of a mapped register block, which was stored after mapping, and an offset inside it.
    unsafe { ((base + offset) as *const u32).read_volatile() }
}

/// Reads a 64-bit register of a mapped block.
pub(super) fn read_64(base: usize, offset: usize) -> u64 {
    // SAFETY: as above.
    unsafe { ((base + offset) as *const u64).read_volatile() }
}

/// Writes a 32-bit register of a mapped block.
pub(super) fn write(base: usize, offset: usize, value: u32) {
    // SAFETY: as above.
    unsafe { ((base + offset) as *mut u32).write_volatile(value) }
}

/// Writes a 64-bit register of a mapped block.
pub(super) fn write_64(base: usize, offset: usize, value: u64) {
    // SAFETY: as above.
    unsafe { ((base + offset) as *mut u64).write_volatile(value) }
}

fn write_byte(base: usize, offset: usize, value: u8) {
    // SAFETY: as above; priorities may be accessed bytewise.
    unsafe { ((base + offset) as *mut u8).write_volatile(value) }
}

fn wait_for_distributor(base: usize) {
    let mut patience = PATIENCE;
    while read(base, GICD_CTLR) & GICD_PENDING != 0 && patience > 0 {
        patience -= 1;
    }
}

/// Switches the distributor on with affinity routing; every shared interrupt is disabled after reset.
pub fn init(distributor: Region) -> Option<()> {
    let base = memory::map_mmio(distributor.start, distributor.len() as usize)?.as_ptr() as usize;
    DISTRIBUTOR.store(base, Ordering::Relaxed);
    write(base, GICD_CTLR, 0);
    wait_for_distributor(base);
    write(base, GICD_CTLR, GICD_ENABLE);
    wait_for_distributor(base);
    Some(())
}

/// The redistributor whose affinity is this CPU's.
fn find_redistributor() -> Option<usize> {
    let Some(Gic::V3 { redistributors, stride, .. }) = &hardware::get().gic else { return None };
    let affinity = cpu::affinity();
    let packed = (affinity >> 8 & 0xff00_0000) | (affinity & 0xff_ffff);
    for region in redistributors.iter().filter(|region| !region.is_empty()) {
        let mut at = region.start;
        while at + 2 * FRAME_BYTES <= region.end {
            let base = memory::map_mmio(at, 2 * FRAME_BYTES as usize)?.as_ptr() as usize;
            let kind = read_64(base, GICR_TYPER);
            if kind >> 32 == packed {
                return Some(base);
            }
            if kind & 1 << 4 != 0 {
                break;
            }
            let usual = if kind & 1 << 1 != 0 { 4 * FRAME_BYTES } else { 2 * FRAME_BYTES };
            at += if *stride != 0 { *stride } else { usual };
        }
    }
    None
}

/// Wakes this CPU's redistributor and opens its interface for the wake-up and the timer; false if it has none.
pub fn init_cpu(id: usize) -> bool {
    let Some(base) = find_redistributor() else { return false };
    REDISTRIBUTOR[id].store(base, Ordering::Relaxed);
    AFFINITY[id].store(cpu::affinity(), Ordering::Release);
    write(base, GICR_WAKER, read(base, GICR_WAKER) & !0b10);
    let mut patience = PATIENCE;
    while read(base, GICR_WAKER) & 0b100 != 0 && patience > 0 {
        patience -= 1;
    }
    let private = base + PRIVATE;
    write(private, GICD_IGROUPR, u32::MAX);
    for intid in [WAKE, TIMER] {
        write_byte(private, GICD_IPRIORITYR + intid as usize, PRIORITY);
    }
    write(private, GICD_ISENABLER, 1 << WAKE | 1 << TIMER);
    let access = sysreg::read!("s3_0_c12_c12_5") | 1;
    // SAFETY: the registers of the CPU interface (by encoding, for the base assembler does not know their names): system
    // register access, priority mask, no preemption, end of interrupt drops and deactivates, group 1 on. Interrupts stay
    // masked in PSTATE, so nothing is taken by surprise.
    unsafe {
        sysreg::write!("s3_0_c12_c12_5", access);
        sysreg::isb();
        sysreg::write!("s3_0_c4_c6_0", PRIORITY_MASK);
        sysreg::write!("s3_0_c12_c12_3", 0);
        sysreg::write!("s3_0_c12_c12_4", 0);
        sysreg::write!("s3_0_c12_c12_7", 1);
    }
    sysreg::isb();
    true
}

/// ICC_IAR1_EL1: the interrupt's number.
#[inline]
pub fn acknowledge() -> u32 {
    let intid = sysreg::read!("s3_0_c12_c12_0") as u32;
    // What the device wrote before it signalled is seen after the acknowledge.
    sysreg::dsb_sy();
    intid
}

/// ICC_EOIR1_EL1.
#[inline]
pub fn finish(intid: u32) {
    // SAFETY: ends the interrupt that the caller acknowledged.
    unsafe { sysreg::write!("s3_0_c12_c12_1", intid.into()) };
    sysreg::isb();
}

/// Enables a shared interrupt for CPU `cpu`.
pub fn enable_shared(intid: u32, cpu: usize, edge: bool) {
    let base = DISTRIBUTOR.load(Ordering::Relaxed);
    let lines = 32 * ((read(base, GICD_TYPER) & 0x1f) + 1);
    if !(FIRST_SHARED..lines.min(1020)).contains(&intid) {
        log::error!("the interrupt controller has no line {intid}");
        return;
    }
    let at = intid as usize;
    let (word, bit) = (at / 32 * 4, 1 << (at % 32));
    write(base, GICD_IGROUPR + word, read(base, GICD_IGROUPR + word) | bit);
    write_byte(base, GICD_IPRIORITYR + at, PRIORITY);
    let (config, shift) = (GICD_ICFGR + at / 16 * 4, at % 16 * 2);
    let others = read(base, config) & !(0b10 << shift);
    write(base, config, others | u32::from(edge) << (shift + 1));
    write_64(base, GICD_IROUTER + at * 8, AFFINITY[cpu].load(Ordering::Acquire));
    write(base, GICD_ISENABLER + word, bit);
    wait_for_distributor(base);
}

/// Interrupts CPU `id` through ICC_SGI1R_EL1.
#[inline]
pub fn send_wake(id: usize) {
    let affinity = AFFINITY[id].load(Ordering::Acquire);
    let level_0 = affinity & 0xff;
    let value = (affinity >> 32 & 0xff) << 48
        | (affinity >> 16 & 0xff) << 32
        | (affinity >> 8 & 0xff) << 16
        | (level_0 >> 4) << 44
        | u64::from(WAKE) << 24
        | 1 << (level_0 & 15);
    // SAFETY: raises the wake-up interrupt, which has no handler, on another CPU.
    unsafe { sysreg::write!("s3_0_c12_c11_5", value) };
    sysreg::isb();
}

/// The mapped redistributor of a CPU that runs.
pub(super) fn redistributor(id: usize) -> Option<usize> {
    match REDISTRIBUTOR.get(id)?.load(Ordering::Relaxed) {
        0 => None,
        base => Some(base),
    }
}
