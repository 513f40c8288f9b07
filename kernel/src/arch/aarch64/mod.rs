//! The aarch64 machine, as QEMU's `virt` and its like describe it by device tree: GICv2 or GICv3, PSCI, the generic timer,
//! PL011 and PL031, a PCI host bridge with ECAM. What every item of the common face does is said in `arch/mod.rs`.

mod bytes;
pub mod console;
pub mod cpu;
pub mod entropy;
mod entry;
mod exceptions;
mod gic;
mod gic_v2;
mod gic_v3;
mod hardware;
pub mod irq;
mod its;
pub mod memory;
pub mod pci;
pub mod power;
mod sysreg;
pub mod time;
mod window;

use alloc::vec::Vec;

use crate::boot::{self, BootInfo};
use crate::drivers::virtio::slot::{self, Slot};

/// The first Rust function of the boot CPU, on its stack in the higher half and on the entry code's page tables: `dtb` and
/// `image` are physical addresses, `level` is the exception level that the loader entered at.
extern "C" fn start(dtb: u64, image: u64, level: u64) -> ! {
    let ticks = time::ticks();
    exceptions::init();
    cpu::init_boot();
    time::start_at(ticks);
    let mut info = BootInfo::empty(if level == 2 { "Linux Image (EL2)" } else { "Linux Image" });
    info.entry_ticks = ticks;
    let offset = dtb as usize & (entry::DTB_MAX_BYTES - 1);
    let window = (entry::DTB_WINDOW + offset) as *const u8;
    // SAFETY: the entry code mapped the block that the tree starts in and the next one there.
    let read = unsafe { hardware::read(window, 2 * entry::DTB_MAX_BYTES - offset, &mut info) };
    // SAFETY: this is the boot CPU, once, on the boot tables; the ranges are the firmware's.
    let mapped = read.is_some() && unsafe { memory::init(image, info.ram.as_slice()) }.is_some();
    if !mapped {
        // Nothing is known of any device: there is nobody to tell.
        power::halt();
    }
    let hardware = hardware::get();
    power::init(hardware.conduit, info.cmdline.split_ascii_whitespace().any(|word| word == "semihosting"));
    if let Some(uart) = hardware.uart {
        console::init(uart);
    }
    info.reserved.add(memory::image_region().grow_to_frames());
    boot::start(info)
}

/// Sets up the interrupt controller.
pub(crate) fn init(_info: &'static BootInfo) {
    gic::init();
}

/// Where memory-mapped virtio devices may be, by the device tree and the command line. QEMU fills the slots from the last on.
pub(crate) fn virtio_slots(info: &BootInfo) -> Vec<Slot> {
    let hardware = hardware::get();
    let mut slots = slot::from_cmdline(info.cmdline);
    slots.extend(hardware.virtio[..hardware.virtio_count].iter().rev());
    slots
}
