//! PCI configuration space by ECAM, as the device tree describes the host bridge.

use super::hardware::{self, Window};
use super::memory;
use crate::pci::Windows;
use crate::region::Region;
use core::sync::atomic::{AtomicUsize, Ordering};
use virtio_drivers::transport::pci::bus::{ConfigurationAccess, DeviceFunction};

/// Bytes of configuration space of a bus.
const BUS_BYTES: usize = 1 << 20;

/// Memory-mapped configuration space.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    base: usize,
    len: usize,
    first_bus: u8,
}

static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// The configuration space, if there is a PCI host bridge.
pub fn config() -> Option<Config> {
    let host = hardware::get().pci.as_ref()?;
    let len = host.ecam.len() as usize;
    let mut base = MAPPED.load(Ordering::Acquire);
    if base == 0 {
        base = memory::map_mmio(host.ecam.start, len)?.as_ptr() as usize;
        MAPPED.store(base, Ordering::Release);
    }
    Some(Config { base, len, first_bus: host.first_bus })
}

impl Config {
    /// Where a register lies; `None` outside the buses that the host has.
    fn register(&self, at: DeviceFunction, offset: u8) -> Option<*mut u32> {
        let bus = usize::from(at.bus.checked_sub(self.first_bus)?);
        let function = usize::from(at.device) << 3 | usize::from(at.function);
        let within = bus * BUS_BYTES + (function << 12) + usize::from(offset & !3);
        (at.device < 32 && at.function < 8 && within < self.len).then_some((self.base + within) as *mut u32)
    }
}

impl ConfigurationAccess for Config {
    fn read_word(&self, at: DeviceFunction, offset: u8) -> u32 {
        // SAFETY: the register lies in the mapped configuration space; absent functions read as all ones.
        self.register(at, offset).map_or(u32::MAX, |register| unsafe { register.read_volatile() })
    }

    fn write_word(&mut self, at: DeviceFunction, offset: u8, data: u32) {
        if let Some(register) = self.register(at, offset) {
            // SAFETY: as above; what a write does is the caller's business, like with all of PCI.
            unsafe { register.write_volatile(data) }
        }
    }

    unsafe fn unsafe_clone(&self) -> Self {
        *self
    }
}

/// The windows for base address registers. One that the host bridge shifts is left out: registers hold the CPU's addresses.
pub fn windows() -> Windows {
    let Some(host) = &hardware::get().pci else { return Windows::default() };
    let region = |window: Window| match window {
        Window { pci, cpu, len } if pci == cpu => Region::new(pci, len),
        _ => Region::default(),
    };
    Windows { low: region(host.memory_32), high: region(host.memory_64) }
}
