//! MSI-X (PCI Local Bus 3.0, 6.8.2): message-signalled interrupts, one table entry each.

use virtio_drivers::transport::pci::bus::{BarInfo, ConfigurationAccess, DeviceFunction, PciRoot};

use super::mmio::Window;
use crate::irq::Line;
use crate::pci::Config;

const CAPABILITY: u8 = 0x11;

/// Message control, in the upper half of the capability's first word.
const ENABLE: u32 = 1 << 31;
const FUNCTION_MASK: u32 = 1 << 30;

const ENTRY: usize = 16;

/// The MSI-X table of a function.
pub struct Msix {
    capability: u8,
    control: u32,
    table: Window,
    entries: usize,
}

impl Msix {
    /// Finds and maps the table. `None` when the function has no MSI-X or its BAR is not set up.
    pub fn find(root: &mut PciRoot<Config>, at: DeviceFunction) -> Option<Self> {
        let capability = root.capabilities(at).find(|c| c.id == CAPABILITY)?.offset;
        let config = crate::arch::pci::config()?;
        let control = config.read_word(at, capability);
        let entries = (control >> 16 & 0x7ff) as usize + 1;
        let place = config.read_word(at, capability + 4);
        let Ok(Some(BarInfo::Memory { address, size, .. })) = root.bar_info(at, (place & 7) as u8) else { return None };
        let offset = u64::from(place & !7);
        let len = entries * ENTRY;
        if address == 0 || offset + len as u64 > size {
            return None;
        }
        Some(Self { capability, control, table: Window::map(address + offset, len)?, entries })
    }

    /// How many entries the table has.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Points entry `n` at a line and unmasks it. Returns false when there is no such entry or the line has no message.
    pub fn set(&self, n: usize, line: &Line) -> bool {
        let Some((address, data)) = line.msi() else { return false };
        let at = n * ENTRY;
        n < self.entries
            && self.table.write(at, address as u32)
            && self.table.write(at + 4, (address >> 32) as u32)
            && self.table.write(at + 8, data)
            && self.table.write(at + 12, 0u32)
    }

    /// Switches the function from its pin to messages.
    pub fn enable(&self, at: DeviceFunction) {
        if let Some(mut config) = crate::arch::pci::config() {
            config.write_word(at, self.capability, self.control & !FUNCTION_MASK | ENABLE);
        }
    }
}
