//! Configuration space: in memory where ACPI's MCFG says so, else by the ports 0xcf8 and 0xcfc.

use super::{firmware, paging};
use core::ptr::NonNull;
use spin::{Mutex, Once};
use virtio_drivers::transport::pci::bus::{ConfigurationAccess, DeviceFunction};
use x86_64::instructions::port::Port;

/// The way to configuration space.
#[derive(Clone, Copy, Debug)]
pub enum Config {
    /// Memory: 1 MiB for each bus from `first_bus` to `last_bus`.
    Ecam {
        /// Where `first_bus` begins.
        base: NonNull<u32>,
        /// First bus.
        first_bus: u8,
        /// Last bus.
        last_bus: u8,
    },
    /// Ports.
    Ports,
}

// SAFETY: aligned 32-bit accesses to configuration space may come from any CPU; the ports have a lock.
unsafe impl Send for Config {}
// SAFETY: as above.
unsafe impl Sync for Config {}

static PORTS: Mutex<()> = Mutex::new(());

impl Config {
    fn ecam_register(&self, at: DeviceFunction, offset: u8) -> Option<NonNull<u32>> {
        let Self::Ecam { base, first_bus, last_bus } = *self else { return None };
        if !(first_bus..=last_bus).contains(&at.bus) || !at.valid() {
            return None;
        }
        let function = usize::from(at.bus - first_bus) << 8 | usize::from(at.device) << 3 | usize::from(at.function);
        // SAFETY: within the mapped megabytes of the buses.
        Some(unsafe { base.add(function << 10 | usize::from(offset >> 2)) })
    }

    fn port_address(at: DeviceFunction, offset: u8) -> u32 {
        1 << 31
            | u32::from(at.bus) << 16
            | u32::from(at.device) << 11
            | u32::from(at.function) << 8
            | u32::from(offset & 0xfc)
    }
}

impl ConfigurationAccess for Config {
    fn read_word(&self, at: DeviceFunction, offset: u8) -> u32 {
        match self {
            Self::Ecam { .. } => match self.ecam_register(at, offset) {
                // SAFETY: a register of configuration space.
                Some(register) => unsafe { register.read_volatile() },
                None => u32::MAX,
            },
            Self::Ports => {
                let _ports = PORTS.lock();
                // SAFETY: the host bridge's index and data ports.
                unsafe {
                    Port::<u32>::new(0xcf8).write(Self::port_address(at, offset));
                    Port::<u32>::new(0xcfc).read()
                }
            }
        }
    }

    fn write_word(&mut self, at: DeviceFunction, offset: u8, data: u32) {
        match self {
            Self::Ecam { .. } => {
                if let Some(register) = self.ecam_register(at, offset) {
                    // SAFETY: a register of configuration space; what it does is the driver's business.
                    unsafe { register.write_volatile(data) };
                }
            }
            Self::Ports => {
                let _ports = PORTS.lock();
                // SAFETY: as above.
                unsafe {
                    Port::<u32>::new(0xcf8).write(Self::port_address(at, offset));
                    Port::<u32>::new(0xcfc).write(data);
                }
            }
        }
    }

    unsafe fn unsafe_clone(&self) -> Self {
        *self
    }
}

static CONFIG: Once<Option<Config>> = Once::new();

/// The way to configuration space, when there is PCI.
pub fn config() -> Option<Config> {
    *CONFIG.call_once(find)
}

fn find() -> Option<Config> {
    if let Some(ecam) = firmware::get().ecam {
        let buses = usize::from(ecam.last_bus.saturating_sub(ecam.first_bus)) + 1;
        // The table's address is that of bus 0 even where the first bus is another.
        let base = paging::map_mmio(ecam.address + (u64::from(ecam.first_bus) << 20), buses << 20)?.cast();
        return Some(Config::Ecam { base, first_bus: ecam.first_bus, last_bus: ecam.last_bus });
    }
    // The index register reads back what is written where there is a host bridge.
    let _ports = PORTS.lock();
    // SAFETY: the host bridge's index port.
    let index = unsafe {
        let mut port = Port::<u32>::new(0xcf8);
        port.write(1 << 31);
        port.read()
    };
    (index == 1 << 31).then_some(Config::Ports)
}

/// None: firmware has numbered the buses and placed the BARs of a PC.
pub fn windows() -> crate::pci::Windows {
    crate::pci::Windows::default()
}
