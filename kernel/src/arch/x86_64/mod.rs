//! The PC: x86_64 with ACPI, APICs and PCI; QEMU's q35 and real machines.

mod apic;
mod boot;
pub mod console;
pub mod cpu;
pub mod entropy;
mod entry;
mod exception;
mod firmware;
pub mod irq;
mod mem;
mod paging;
pub mod pci;
pub mod power;
mod smp;
pub mod time;
mod window;

pub(crate) use firmware::virtio_slots;

use crate::boot::BootInfo;
use core::sync::atomic::{AtomicU64, Ordering};

/// The windows into physical memory.
pub mod memory {
    pub use super::paging::{map_mmio, phys_to_virt, virt_to_phys};
    pub use super::window::{Tables, make as make_window, quiescent};
}

static ENTRY_TICKS: AtomicU64 = AtomicU64::new(0);

fn entry_ticks() -> u64 {
    ENTRY_TICKS.load(Ordering::Relaxed)
}

fn image_delta() -> u64 {
    paging::virt_to_phys(entry::address!(text_start) as *const u8)
        .wrapping_sub(entry::address!(text_start) - paging::IMAGE_OFFSET)
}

/// Reads the firmware's tables and sets the interrupt controllers up.
pub(crate) fn init(info: &'static BootInfo) {
    ENTRY_TICKS.store(info.entry_ticks, Ordering::Relaxed);
    firmware::init(info.rsdp);
    irq::mask_legacy();
    if !apic::init(firmware::get().local_apic) {
        panic!("the local APIC cannot be mapped");
    }
    log::debug!("{:?}", cpu::features());
    smp::init(info);
}
