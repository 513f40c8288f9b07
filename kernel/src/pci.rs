//! PCI: configuration space, enumeration of buses, and the functions found.

mod assign;

use crate::arch;
use crate::region::Region;
use alloc::vec::Vec;
use virtio_drivers::transport::pci::bus::{ConfigurationAccess, DeviceFunction, HeaderType, PciRoot};

pub use arch::pci::Config;

/// A function of a device on a PCI bus.
#[derive(Clone, Debug)]
pub struct Device {
    /// Bus, device and function number.
    pub at: DeviceFunction,
    /// Vendor, e.g. 0x1af4.
    pub vendor: u16,
    /// Device, in the vendor's numbering.
    pub device: u16,
    /// Class, subclass and programming interface: 0x02_00_00 is an Ethernet controller.
    pub class: u32,
    /// Revision.
    pub revision: u8,
}

/// The configuration space of all buses, when the machine has PCI.
pub fn root() -> Option<PciRoot<Config>> {
    arch::pci::config().map(PciRoot::new)
}

/// Address ranges for base address registers that the firmware left unassigned; empty where it assigns them all. A
/// register's value is what the CPU uses too.
#[derive(Clone, Copy, Debug, Default)]
pub struct Windows {
    /// Below 4 GiB.
    pub low: Region,
    /// Above it.
    pub high: Region,
}

/// Walks the buses from bus 0 down through bridges.
pub(crate) fn enumerate() -> &'static [Device] {
    let Some(config) = arch::pci::config() else { return &[] };
    assign::assign(config, &arch::pci::windows());
    let mut found = Vec::new();
    scan_bus(&config, 0, 0, &mut found);
    found.sort_by_key(|device| device.at);
    for device in &found {
        log::debug!("pci {}: {:04x}:{:04x} class {:06x}", device.at, device.vendor, device.device, device.class);
    }
    found.leak()
}

/// Deepest nesting of bridges.
const MAX_DEPTH: usize = 8;

/// The functions that are there on a bus, with their first configuration word.
fn functions(config: &Config, bus: u8) -> impl Iterator<Item = (DeviceFunction, u32)> + use<> {
    let config = *config;
    (0..32).flat_map(move |device| {
        let at = move |function| DeviceFunction { bus, device, function };
        let several = config.read_word(at(0), 0x0c) & 0x80_0000 != 0;
        let functions = match config.read_word(at(0), 0x00) {
            0 | u32::MAX => 0,
            _ if several => 8,
            _ => 1,
        };
        (0..functions).filter_map(move |function| match config.read_word(at(function), 0x00) {
            0 | u32::MAX => None,
            id => Some((at(function), id)),
        })
    })
}

fn scan_bus(config: &Config, bus: u8, depth: usize, found: &mut Vec<Device>) {
    for (at, id) in functions(config, bus) {
        let class = config.read_word(at, 0x08);
        let header = (config.read_word(at, 0x0c) >> 16) as u8;
        found.push(Device {
            at,
            vendor: id as u16,
            device: (id >> 16) as u16,
            class: class >> 8,
            revision: class as u8,
        });
        if HeaderType::from(header & 0x7f) == HeaderType::PciPciBridge && depth < MAX_DEPTH {
            let secondary = (config.read_word(at, 0x18) >> 8) as u8;
            if secondary > bus {
                scan_bus(config, secondary, depth + 1, found);
            }
        }
    }
}

/// Where the interrupt pin (1 = INTA#) of a function arrives on the root bus: the bridge's function there, and the pin, which
/// each bridge on the way rotates by the device's number (PCI-to-PCI bridge specification, 9.1).
pub fn root_pin(at: DeviceFunction, pin: u8) -> (DeviceFunction, u8) {
    let Some(config) = arch::pci::config() else { return (at, pin) };
    let (mut at, mut pin) = (at, pin);
    for _ in 0..MAX_DEPTH {
        let leads_here = |bridge: &DeviceFunction| {
            let header = (config.read_word(*bridge, 0x0c) >> 16) as u8 & 0x7f;
            HeaderType::from(header) == HeaderType::PciPciBridge
                && (config.read_word(*bridge, 0x18) >> 8) as u8 == at.bus
        };
        let parent = (0..at.bus).flat_map(|bus| functions(&config, bus)).map(|(at, _)| at).find(leads_here);
        let Some(parent) = parent else { break };
        pin = (pin.saturating_sub(1) + at.device) % 4 + 1;
        at = parent;
    }
    (at, pin)
}
