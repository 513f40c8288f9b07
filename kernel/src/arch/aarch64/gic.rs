//! The interrupt controller: one face over versions 2 and 3.

use super::hardware::{self, Gic};
use super::{gic_v2, gic_v3, its};
use core::sync::atomic::{AtomicU8, Ordering};
use virtio_drivers::transport::pci::bus::DeviceFunction;

/// The software-generated interrupt that wakes a CPU.
pub const WAKE: u32 = 0;
/// The virtual timer's interrupt (Arm BSA: PPI 27).
pub const TIMER: u32 = 27;
/// The first interrupt that all CPUs share.
pub const FIRST_SHARED: u32 = 32;
/// Numbers that mean no interrupt.
const SPECIAL: core::ops::RangeInclusive<u32> = 1020..=1023;

static VERSION: AtomicU8 = AtomicU8::new(0);

/// A message-signalled interrupt: where a device writes what, and the number that arrives.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub address: u64,
    pub data: u32,
    pub intid: u32,
}

/// Sets the controller up, and the boot CPU's part of it.
pub fn init() {
    let Some(gic) = &hardware::get().gic else {
        log::error!("no interrupt controller in the device tree");
        return;
    };
    let ready = match *gic {
        Gic::V2 { distributor, cpu_interface, msi_frame } => {
            gic_v2::init(distributor, cpu_interface, msi_frame).map(|()| 2)
        }
        Gic::V3 { distributor, .. } => gic_v3::init(distributor).map(|()| 3),
    };
    match ready {
        Some(version) => VERSION.store(version, Ordering::Release),
        None => log::error!("the interrupt controller's registers cannot be mapped"),
    }
    init_cpu(0);
}

/// Sets up the calling CPU's part.
pub fn init_cpu(id: usize) {
    match VERSION.load(Ordering::Acquire) {
        2 => gic_v2::init_cpu(id),
        3 if !gic_v3::init_cpu(id) => log::error!("CPU {id} has no redistributor"),
        _ => {}
    }
}

/// An interrupt between its acknowledgement and its end.
#[derive(Clone, Copy)]
pub struct Acknowledged {
    /// Its number.
    pub intid: u32,
    /// What the end must be told: version 2 puts the sender of a software-generated interrupt above the number.
    raw: u32,
}

/// Takes the most urgent pending interrupt of this CPU.
#[inline]
pub fn acknowledge() -> Option<Acknowledged> {
    let (raw, intid) = match VERSION.load(Ordering::Relaxed) {
        2 => {
            let raw = gic_v2::acknowledge();
            (raw, raw & 0x3ff)
        }
        3 => {
            let raw = gic_v3::acknowledge();
            (raw, raw)
        }
        _ => return None,
    };
    (!SPECIAL.contains(&intid)).then_some(Acknowledged { intid, raw })
}

/// Says that an acknowledged interrupt was handled.
#[inline]
pub fn finish(handled: Acknowledged) {
    match VERSION.load(Ordering::Relaxed) {
        2 => gic_v2::finish(handled.raw),
        _ => gic_v3::finish(handled.raw),
    }
}

/// Lets a shared interrupt through to CPU `cpu`, which is online.
pub fn enable_shared(intid: u32, cpu: usize, edge: bool) {
    match VERSION.load(Ordering::Acquire) {
        2 => gic_v2::enable_shared(intid, cpu, edge),
        3 => gic_v3::enable_shared(intid, cpu, edge),
        _ => {}
    }
}

/// Interrupts a CPU.
#[inline]
pub fn send_wake(id: usize) {
    match VERSION.load(Ordering::Relaxed) {
        2 => gic_v2::send_wake(id),
        3 => gic_v3::send_wake(id),
        _ => {}
    }
}

/// A message-signalled interrupt of a device for CPU `cpu`, which is online; enabled.
pub fn allocate_message(device: DeviceFunction, cpu: usize) -> Option<Message> {
    match VERSION.load(Ordering::Acquire) {
        2 => gic_v2::allocate_message(cpu),
        3 => its::allocate_message(device, cpu),
        _ => None,
    }
}
