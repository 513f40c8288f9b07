//! Virtio over memory-mapped registers (4.2): what `virtio-drivers`' transport leaves to its user - doorbells and interrupts.

use core::ptr::NonNull;

use virtio_drivers::transport::mmio::{MmioTransport, MmioVersion};

use super::slot::Slot;
use crate::drivers::mmio::Window;
use crate::irq;

/// Registers that the transport has no methods for (4.2.2).
mod register {
    pub const MAGIC: usize = 0x00;
    pub const DEVICE: usize = 0x08;
    pub const NOTIFY: usize = 0x50;
    pub const INTERRUPT_STATUS: usize = 0x60;
    pub const INTERRUPT_ACK: usize = 0x64;
}

/// "virt".
const MAGIC: u32 = 0x7472_6976;

/// A device behind memory-mapped registers.
pub struct VirtioMmio {
    window: Window,
    slot: Slot,
}

/// The kind of device in a slot (5): 0 for none, 1 for a network card.
pub fn kind(slot: &Slot) -> u32 {
    let window = Window::map(slot.at.start, slot.at.len() as usize);
    window
        .filter(|window| window.read(register::MAGIC) == Some(MAGIC))
        .and_then(|window| window.read(register::DEVICE))
        .unwrap_or(0)
}

impl VirtioMmio {
    /// Maps the registers; returns the transport beside what it does not do.
    pub fn open(slot: &Slot) -> Result<(MmioTransport<'static>, Self), &'static str> {
        let window = Window::map(slot.at.start, slot.at.len() as usize).ok_or("registers not mapped")?;
        let header = window.register::<u32>(register::MAGIC).ok_or("registers missing")?;
        // SAFETY: the registers are mapped for good, `len` bytes of them, and nobody else drives the device.
        let transport = unsafe { MmioTransport::new(header.cast(), slot.at.len() as usize) };
        let transport = transport.map_err(|error| {
            log::error!("{error}");
            "no virtio transport"
        })?;
        if transport.version() == MmioVersion::Legacy {
            return Err("a legacy device: it needs -global virtio-mmio.force-legacy=false");
        }
        Ok((transport, Self { window, slot: *slot }))
    }

    /// The doorbell of all queues.
    pub fn doorbell(&self) -> Option<NonNull<u32>> {
        self.window.register(register::NOTIFY)
    }

    /// The interrupt status register, whose bits are as [`super::pci::VirtioPci::isr`]'s, and the one that takes those that were
    /// seen.
    pub fn isr(&self) -> Option<(NonNull<u32>, NonNull<u32>)> {
        Some((self.window.register(register::INTERRUPT_STATUS)?, self.window.register(register::INTERRUPT_ACK)?))
    }

    /// Routes the device's line to `on_interrupt(arg)`. Returns false when the machine has no such line.
    pub fn use_line(&self, on_interrupt: fn(usize), arg: usize) -> bool {
        irq::line(self.slot.line, self.slot.edge, on_interrupt, arg).is_some()
    }
}
