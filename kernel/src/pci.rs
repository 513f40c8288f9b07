//! PCI: configuration space, enumeration of buses, and the functions found.

use crate::arch;
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

/// Walks the buses from bus 0 down through bridges.
pub(crate) fn enumerate() -> &'static [Device] {
    let Some(config) = arch::pci::config() else { return &[] };
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

fn scan_bus(config: &Config, bus: u8, depth: usize, found: &mut Vec<Device>) {
    for device in 0..32 {
        for function in 0..8 {
            let at = DeviceFunction { bus, device, function };
            let id = config.read_word(at, 0x00);
            if id == u32::MAX || id == 0 {
                if function == 0 {
                    break;
                }
                continue;
            }
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
            if function == 0 && header & 0x80 == 0 {
                break;
            }
        }
    }
}
