//! What the boot loader hands over, and the order in which the machine comes up.
//!
//! Entry code of an architecture turns whatever it was given (PVH start info, device tree, ...) into one [`BootInfo`] and
//! calls [`start`]. At that point it guarantees: paging is on with the final W^X tables, the boot CPU has its per-CPU area,
//! its stack with a guard page and its exception table, interrupts are masked, and the console can be written.

use crate::region::{Region, Regions};

/// Most ranges that a memory map may have before memory is lost.
pub const MAX_REGIONS: usize = 64;

/// A file that the boot loader put in memory (an initial RAM disk, a Multiboot2 module).
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// Where, physically. Its frames are in [`BootInfo::reserved`].
    pub at: Region,
    /// Its name or arguments.
    pub name: &'static str,
}

/// The boot information, the same for every loader and machine. All addresses are physical.
#[derive(Clone, Debug)]
pub struct BootInfo {
    /// The kernel command line, without the program's name.
    pub cmdline: &'static str,
    /// How the kernel was loaded, for the log: "PVH", "Linux Image".
    pub loader: &'static str,
    /// All RAM that the firmware gives away, whole frames.
    pub ram: Regions<MAX_REGIONS>,
    /// What of it must not be touched: the kernel image, tables in use, modules, firmware data; whole frames.
    pub reserved: Regions<MAX_REGIONS>,
    /// Files that came with the kernel.
    pub modules: [Option<Module>; 4],
    /// ACPI root system description pointer.
    pub rsdp: Option<u64>,
    /// Flattened device tree.
    pub dtb: Option<u64>,
    /// Monotonic machine ticks at the kernel's first instruction (TSC, CNTVCT).
    pub entry_ticks: u64,
}

impl BootInfo {
    /// No memory, no command line.
    pub const fn empty(loader: &'static str) -> Self {
        Self {
            cmdline: "",
            loader,
            ram: Regions::new(),
            reserved: Regions::new(),
            modules: [None; 4],
            rsdp: None,
            dtb: None,
            entry_ticks: 0,
        }
    }

    /// RAM that nobody uses: [`ram`](Self::ram) without [`reserved`](Self::reserved), whole frames, ascending.
    pub fn free(&self) -> Regions<MAX_REGIONS> {
        let mut free = self.ram.clone();
        self.reserved.as_slice().iter().for_each(|region| free.remove(region.grow_to_frames()));
        free
    }
}

/// The machine as it was found; handed to the platform's `barium_main`.
#[cfg(target_os = "none")]
#[derive(Debug)]
pub struct Machine {
    /// What the loader said.
    pub boot: &'static BootInfo,
    /// CPUs that run, the boot CPU among them. They have the ids `0..cpus`.
    pub cpus: usize,
    /// Functions found on the PCI buses, in order of their address.
    pub pci: &'static [crate::pci::Device],
}

#[cfg(target_os = "none")]
unsafe extern "Rust" {
    /// The platform's program; runs on the boot CPU. Written as
    /// `#[unsafe(no_mangle)] extern "Rust" fn barium_main(machine: &'static Machine) -> !`.
    safe fn barium_main(machine: &'static Machine) -> !;
}

/// Brings up what all machines have in common and hands over to the platform. Called once, by the boot CPU.
#[cfg(target_os = "none")]
pub fn start(info: BootInfo) -> ! {
    use crate::{arch, clock, cmdline, console, cpu, memory, panic, pci};
    use alloc::boxed::Box;

    console::init(info.cmdline);
    panic::init(info.cmdline);
    memory::init(&info);
    let info: &'static BootInfo = Box::leak(Box::new(info));
    arch::init(info);
    clock::init();
    let wanted = cmdline::get(info.cmdline, "cpus").and_then(|v| v.parse().ok()).unwrap_or(cpu::MAX_CPUS);
    let cpus = cpu::start_others(wanted);
    let machine = Machine { boot: info, cpus, pci: pci::enumerate() };
    log::info!(
        "{} boot, {} MiB of RAM, {} CPUs, {} PCI functions",
        info.loader,
        info.ram.total() >> 20,
        cpus,
        machine.pci.len()
    );
    let machine: &'static Machine = Box::leak(Box::new(machine));
    crate::selftest::run(machine);
    barium_main(machine)
}

/// Leaves out the range `hole` when the firmware lists it as RAM but it must stay untouched.
pub fn reserve(info: &mut BootInfo, start: u64, len: u64) {
    info.reserved.add(Region::new(start, len).grow_to_frames());
}

#[cfg(test)]
mod tests {
    use super::{BootInfo, reserve};
    use crate::region::Region;

    #[test]
    fn free_memory_is_ram_without_reservations() {
        let mut info = BootInfo::empty("test");
        info.ram.add(Region::new(0x10_0000, 0x100_0000));
        reserve(&mut info, 0x20_0800, 0x1000);
        reserve(&mut info, 0x0, 0x10_1000);
        let free = info.free();
        assert_eq!(
            free.as_slice(),
            [Region { start: 0x10_1000, end: 0x20_0000 }, Region { start: 0x20_2000, end: 0x110_0000 }]
        );
    }
}
