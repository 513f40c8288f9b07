//! A virtio device, whichever bus it is on.

use core::fmt;
use core::ptr::NonNull;

use virtio_drivers::transport::SomeTransport;

use super::Register;
use super::mmio::VirtioMmio;
use super::pci::VirtioPci;
use super::slot::Slot;
use crate::pci::Device;

/// Where a device is.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// A function on a PCI bus.
    Pci(&'a Device),
    /// Memory-mapped registers.
    Mmio(&'a Slot),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pci(device) => write!(f, "PCI {}", device.at),
            Self::Mmio(slot) => write!(f, "{:#x}", slot.at.start),
        }
    }
}

/// Where a device says why it raised its line. Bit 0 stands for queues, bit 1 for configuration.
#[derive(Clone, Copy, Debug)]
pub enum Status {
    /// Reading takes what is read.
    Pci(NonNull<u8>),
    /// What was read is taken by writing it to the second register.
    Mmio(NonNull<u32>, NonNull<u32>),
}

// SAFETY: the registers may be used on any CPU.
unsafe impl Send for Status {}
// SAFETY: as above.
unsafe impl Sync for Status {}

impl Status {
    /// Reads the reasons and releases the line.
    pub fn take(&self) -> u32 {
        // SAFETY: the registers are mapped for good.
        unsafe {
            match self {
                Self::Pci(status) => status.read_volatile().into(),
                Self::Mmio(status, taken) => {
                    let reasons = status.read_volatile();
                    taken.write_volatile(reasons);
                    reasons
                }
            }
        }
    }
}

enum Bus {
    Pci(VirtioPci),
    Mmio(VirtioMmio),
}

/// A device: the transport, and what that leaves to its user.
pub struct VirtioDevice {
    /// Features, status, queues and configuration space.
    pub transport: SomeTransport<'static>,
    bus: Bus,
}

impl VirtioDevice {
    /// Finds and maps the registers.
    pub fn open(place: &Place<'_>) -> Result<Self, &'static str> {
        match place {
            Place::Pci(device) => {
                let (transport, pci) = VirtioPci::open(device)?;
                Ok(Self { transport: transport.into(), bus: Bus::Pci(pci) })
            }
            Place::Mmio(slot) => {
                let (transport, mmio) = VirtioMmio::open(slot)?;
                Ok(Self { transport: transport.into(), bus: Bus::Mmio(mmio) })
            }
        }
    }

    /// The doorbell of a queue.
    pub fn doorbell(&self, queue: u16) -> Option<Register> {
        match &self.bus {
            Bus::Pci(pci) => pci.doorbell(queue).map(Register::Half),
            Bus::Mmio(mmio) => mmio.doorbell().map(Register::Word),
        }
    }

    /// Where the device says why it raised its line.
    pub fn status(&self) -> Option<Status> {
        match &self.bus {
            Bus::Pci(pci) => pci.isr().map(Status::Pci),
            Bus::Mmio(mmio) => mmio.isr().map(|(status, taken)| Status::Mmio(status, taken)),
        }
    }

    /// How many interrupt messages the device can send.
    pub fn vectors(&self) -> usize {
        match &self.bus {
            Bus::Pci(pci) => pci.vectors(),
            Bus::Mmio(_) => 0,
        }
    }

    /// See [`VirtioPci::use_msix`].
    pub fn use_msix(&self, pairs: &[usize], on_queue: fn(usize), on_config: fn(usize)) -> bool {
        match &self.bus {
            Bus::Pci(pci) => pci.use_msix(pairs, on_queue, on_config),
            Bus::Mmio(_) => false,
        }
    }

    /// Routes the device's line to `on_interrupt(arg)`, which takes the [status](Self::status); returns what kind of line it is.
    /// `None` when the machine does not say where it goes.
    pub fn use_line(&self, on_interrupt: fn(usize), arg: usize) -> Option<&'static str> {
        match &self.bus {
            Bus::Pci(pci) => pci.use_pin(on_interrupt, arg).then_some("INTx"),
            Bus::Mmio(mmio) => mmio.use_line(on_interrupt, arg).then_some("MMIO line"),
        }
    }
}
