//! Virtio over PCI: what `virtio-drivers`' transport leaves to its user - interrupt vectors, doorbells, interrupt status.

use core::ptr::NonNull;

use virtio_drivers::transport::pci::bus::{BarInfo, Command, ConfigurationAccess, PciRoot};
use virtio_drivers::transport::pci::{
    PciTransport, VIRTIO_PCI_CAP_COMMON_CFG, VIRTIO_PCI_CAP_ISR_CFG, VIRTIO_PCI_CAP_NOTIFY_CFG,
};

use super::KernelHal;
use crate::drivers::mmio::Window;
use crate::drivers::msix::Msix;
use crate::irq;
use crate::pci::{Config, Device};

/// Vendor of all virtio devices.
pub const VENDOR: u16 = 0x1af4;

const VENDOR_CAPABILITY: u8 = 0x09;

/// Registers of the common configuration (4.1.4.3).
mod common {
    pub const CONFIG_VECTOR: usize = 0x10;
    pub const QUEUE_SELECT: usize = 0x16;
    pub const QUEUE_VECTOR: usize = 0x1a;
    pub const QUEUE_NOTIFY_OFF: usize = 0x1e;
}

/// Registers of a virtio function that the transport has no methods for.
pub struct VirtioPci {
    device: Device,
    common: Window,
    notify: Window,
    notify_multiplier: u32,
    isr: Window,
    msix: Option<Msix>,
}

impl VirtioPci {
    /// Finds and maps the registers and lets the function access memory.
    pub fn open(device: &Device) -> Result<(PciTransport, Self), &'static str> {
        let mut root = crate::pci::root().ok_or("no configuration space")?;
        let at = device.at;
        let (_, command) = root.get_status_command(at);
        root.set_command(at, command | Command::MEMORY_SPACE | Command::BUS_MASTER);
        let find =
            |root: &mut PciRoot<Config>, kind| region(root, device, kind).ok_or("registers missing or not mapped");
        let (common, _) = find(&mut root, VIRTIO_PCI_CAP_COMMON_CFG)?;
        let (isr, _) = find(&mut root, VIRTIO_PCI_CAP_ISR_CFG)?;
        let (notify, notify_multiplier) = find(&mut root, VIRTIO_PCI_CAP_NOTIFY_CFG)?;
        let msix = Msix::find(&mut root, at);
        let transport = PciTransport::new::<KernelHal, _>(&mut root, at).map_err(|error| {
            log::error!("{at}: {error}");
            "no modern virtio transport"
        })?;
        Ok((transport, Self { device: device.clone(), common, notify, notify_multiplier, isr, msix }))
    }

    /// The doorbell of a queue.
    pub fn doorbell(&self, queue: u16) -> Option<NonNull<u16>> {
        self.common.write(common::QUEUE_SELECT, queue);
        let offset: u16 = self.common.read(common::QUEUE_NOTIFY_OFF)?;
        self.notify.register(usize::from(offset) * self.notify_multiplier as usize)
    }

    /// The interrupt status register: bit 0 queues, bit 1 configuration. Reading it clears it and releases the pin.
    pub fn isr(&self) -> Option<NonNull<u8>> {
        self.isr.register(0)
    }

    /// How many interrupt vectors the function has.
    pub fn vectors(&self) -> usize {
        self.msix.as_ref().map_or(0, Msix::entries)
    }

    /// Routes, by MSI-X, the interrupts of the queues of `pairs[n]` (2 n and 2 n + 1) to CPU n, where `on_queue(pairs[n])` is
    /// called, and those of configuration changes to CPU 0, where `on_config(pairs[0])` is. To be called between the
    /// features' negotiation and the queues' set-up. Returns false when that cannot be had.
    pub fn use_msix(&self, pairs: &[usize], on_queue: fn(usize), on_config: fn(usize)) -> bool {
        const NO_VECTOR: u16 = 0xffff;
        let (Some(msix), Some(&first)) = (&self.msix, pairs.first()) else { return false };
        let lines = pairs.iter().map(|&arg| (on_queue, arg)).chain([(on_config, first)]);
        for (vector, (handler, arg)) in lines.enumerate() {
            let cpu = if vector < pairs.len() { vector } else { 0 };
            let line = irq::allocate_msi(self.device.at, cpu, handler, arg);
            if !line.is_some_and(|line| msix.set(vector, &line)) {
                return false;
            }
        }
        msix.enable(self.device.at);
        self.common.write(common::CONFIG_VECTOR, pairs.len() as u16);
        (0..2 * pairs.len() as u16).all(|queue| {
            self.common.write(common::QUEUE_SELECT, queue);
            self.common.write(common::QUEUE_VECTOR, queue / 2);
            // The device says by the value it reads back whether it had a vector left.
            self.common.read(common::QUEUE_VECTOR) != Some(NO_VECTOR)
        })
    }

    /// Routes the function's pin to `on_interrupt(arg)`. Returns false when it has none or the machine does not say where
    /// it goes.
    pub fn use_pin(&self, on_interrupt: fn(usize), arg: usize) -> bool {
        let Some(config) = crate::arch::pci::config() else { return false };
        let pin = (config.read_word(self.device.at, 0x3c) >> 8) as u8;
        (1..=4).contains(&pin) && irq::intx(self.device.at, pin, on_interrupt, arg).is_some()
    }
}

/// Maps the registers that the vendor capability of type `kind` names; returns them and the capability's fifth word (the
/// doorbells' multiplier).
fn region(root: &mut PciRoot<Config>, device: &Device, kind: u8) -> Option<(Window, u32)> {
    let config = crate::arch::pci::config()?;
    let capability = root
        .capabilities(device.at)
        .find(|c| c.id == VENDOR_CAPABILITY && (c.private_header >> 8) as u8 == kind && c.private_header as u8 >= 16)?
        .offset;
    let word = |n: u8| config.read_word(device.at, capability + 4 * n);
    let (bar, offset, len) = (word(1) as u8, word(2), word(3));
    let Ok(Some(BarInfo::Memory { address, size, .. })) = root.bar_info(device.at, bar) else { return None };
    if address == 0 || u64::from(offset) + u64::from(len) > size {
        return None;
    }
    let window = Window::map(address + u64::from(offset), len as usize)?;
    Some((window, word(4)))
}
