//! GICv2 (ARM IHI 0048) and its message frame, GICv2m (ARM SBSA, appendix E).

use super::gic::{FIRST_SHARED, Message, TIMER, WAKE};
use super::memory;
use crate::region::Region;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

// Distributor.
const GICD_CTLR: usize = 0x000;
const GICD_TYPER: usize = 0x004;
const GICD_ISENABLER: usize = 0x100;
const GICD_IPRIORITYR: usize = 0x400;
const GICD_ITARGETSR: usize = 0x800;
const GICD_ICFGR: usize = 0xc00;
const GICD_SGIR: usize = 0xf00;
// CPU interface.
const GICC_CTLR: usize = 0x00;
const GICC_PMR: usize = 0x04;
const GICC_IAR: usize = 0x0c;
const GICC_EOIR: usize = 0x10;
// Message frame.
const MSI_TYPER: usize = 0x008;
const MSI_SETSPI_NS: usize = 0x040;

/// The priority of everything that is enabled, and the mask that lets it through.
const PRIORITY: u32 = 0xa0;
const PRIORITY_MASK: u32 = 0xf0;
/// Most CPUs that the version knows.
const CPUS: usize = 8;

static DISTRIBUTOR: AtomicUsize = AtomicUsize::new(0);
static CPU_INTERFACE: AtomicUsize = AtomicUsize::new(0);
/// Physical address of the message frame's doorbell; 0 without one.
static DOORBELL: AtomicU64 = AtomicU64::new(0);
/// The message interrupts not yet given out.
static NEXT_MESSAGE: AtomicU32 = AtomicU32::new(0);
static LAST_MESSAGE: AtomicU32 = AtomicU32::new(0);
/// Each CPU's bit in target lists: interface numbers need not follow our ids.
static TARGET: [AtomicU8; CPUS] = [const { AtomicU8::new(0) }; CPUS];

fn read(base: &AtomicUsize, offset: usize) -> u32 {
    // SAFETY: the bases are set once, by `init`, to mapped register blocks, and all offsets lie inside them; no register
    // is touched before.
    unsafe { ((base.load(Ordering::Relaxed) + offset) as *const u32).read_volatile() }
}

fn write(base: &AtomicUsize, offset: usize, value: u32) {
    // SAFETY: as above.
    unsafe { ((base.load(Ordering::Relaxed) + offset) as *mut u32).write_volatile(value) }
}

/// Writes the byte of an interrupt in one of the registers with a byte each.
fn write_byte(base: &AtomicUsize, offset: usize, value: u8) {
    // SAFETY: as above; these registers may be accessed bytewise.
    unsafe { ((base.load(Ordering::Relaxed) + offset) as *mut u8).write_volatile(value) }
}

fn map(region: Region) -> Option<NonNull<u8>> {
    memory::map_mmio(region.start, region.len() as usize)
}

/// Switches the distributor on; every shared interrupt is disabled after reset.
pub fn init(distributor: Region, cpu_interface: Region, msi_frame: Option<Region>) -> Option<()> {
    DISTRIBUTOR.store(map(distributor)?.as_ptr() as usize, Ordering::Relaxed);
    CPU_INTERFACE.store(map(cpu_interface)?.as_ptr() as usize, Ordering::Relaxed);
    write(&DISTRIBUTOR, GICD_CTLR, 1);
    if let Some(frame) = msi_frame {
        let base = map(frame)?;
        // SAFETY: the frame's registers are mapped, a page of them.
        let kind = unsafe { base.as_ptr().add(MSI_TYPER).cast::<u32>().read_volatile() };
        let (first, count) = (kind >> 16 & 0x3ff, kind & 0x3ff);
        NEXT_MESSAGE.store(first, Ordering::Relaxed);
        LAST_MESSAGE.store(first + count, Ordering::Relaxed);
        DOORBELL.store(frame.start + MSI_SETSPI_NS as u64, Ordering::Relaxed);
    }
    Some(())
}

/// Opens this CPU's interface for the wake-up and the timer.
pub fn init_cpu(id: usize) {
    // The targets of the first interrupts read as the reading CPU's own bit. A single-CPU implementation reads zero there.
    let own = read(&DISTRIBUTOR, GICD_ITARGETSR) as u8;
    if let Some(target) = TARGET.get(id) {
        target.store(if own == 0 { 1 } else { own }, Ordering::Release);
    }
    for intid in [WAKE, TIMER] {
        write_byte(&DISTRIBUTOR, GICD_IPRIORITYR + intid as usize, PRIORITY as u8);
    }
    write(&DISTRIBUTOR, GICD_ISENABLER, 1 << WAKE | 1 << TIMER);
    write(&CPU_INTERFACE, GICC_PMR, PRIORITY_MASK);
    write(&CPU_INTERFACE, GICC_CTLR, 1);
}

/// The interrupt acknowledge register's value: number, and the sender's interface of a software-generated one.
#[inline]
pub fn acknowledge() -> u32 {
    read(&CPU_INTERFACE, GICC_IAR)
}

/// Ends an interrupt; takes what [`acknowledge`] gave.
#[inline]
pub fn finish(acknowledged: u32) {
    write(&CPU_INTERFACE, GICC_EOIR, acknowledged);
}

/// Enables a shared interrupt for CPU `cpu`.
pub fn enable_shared(intid: u32, cpu: usize, edge: bool) {
    let lines = 32 * ((read(&DISTRIBUTOR, GICD_TYPER) & 0x1f) + 1);
    if !(FIRST_SHARED..lines).contains(&intid) {
        log::error!("the interrupt controller has no line {intid}");
        return;
    }
    let at = intid as usize;
    write_byte(&DISTRIBUTOR, GICD_IPRIORITYR + at, PRIORITY as u8);
    let target = TARGET.get(cpu).map_or(1, |target| target.load(Ordering::Acquire));
    write_byte(&DISTRIBUTOR, GICD_ITARGETSR + at, target);
    let (config, shift) = (GICD_ICFGR + at / 16 * 4, at % 16 * 2);
    let others = read(&DISTRIBUTOR, config) & !(0b10 << shift);
    write(&DISTRIBUTOR, config, others | u32::from(edge) << (shift + 1));
    write(&DISTRIBUTOR, GICD_ISENABLER + at / 32 * 4, 1 << (at % 32));
}

/// Interrupts CPU `id`.
#[inline]
pub fn send_wake(id: usize) {
    if let Some(target) = TARGET.get(id) {
        write(&DISTRIBUTOR, GICD_SGIR, u32::from(target.load(Ordering::Acquire)) << 16 | WAKE);
    }
}

/// Takes one of the message frame's interrupts for CPU `cpu`.
pub fn allocate_message(cpu: usize) -> Option<Message> {
    let doorbell = DOORBELL.load(Ordering::Relaxed);
    let last = LAST_MESSAGE.load(Ordering::Relaxed);
    let take = |next: u32| (doorbell != 0 && next < last).then_some(next + 1);
    let intid = NEXT_MESSAGE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
    enable_shared(intid, cpu, true);
    Some(Message { address: doorbell, data: intid, intid })
}
