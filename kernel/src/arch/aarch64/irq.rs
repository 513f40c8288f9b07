//! Interrupt lines: PCI pins by the host bridge's map, messages by GICv2m or the ITS; and the handling of what is pending.

use super::{gic, hardware};
use crate::irq::{MAX_LINES, dispatch, register};
use crate::pci::root_pin;
use core::sync::atomic::{AtomicU32, Ordering};
use virtio_drivers::transport::pci::bus::DeviceFunction;

/// Interrupts handled in one go, before the waiting loop gets its turn: a line that no handler silences must not hang it.
const MAX_AT_ONCE: usize = 64;

/// The interrupt of each slot of the common table; 0 (the wake-up's number, which has no handler) for none. Several slots
/// may have the same: then the line is shared.
static INTIDS: [AtomicU32; MAX_LINES] = [const { AtomicU32::new(0) }; MAX_LINES];
/// How many slots are in use.
static SLOTS: AtomicU32 = AtomicU32::new(0);

/// An interrupt line with a handler.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    message: Option<(u64, u32)>,
}

impl Line {
    /// The address and data that an MSI-X table entry takes; `None` for a PCI pin.
    pub fn msi(&self) -> Option<(u64, u32)> {
        self.message
    }
}

fn bind(intid: u32, handler: fn(usize), arg: usize) -> Option<()> {
    let slot = register(handler, arg)?;
    INTIDS[slot].store(intid, Ordering::Release);
    SLOTS.fetch_max(slot as u32 + 1, Ordering::AcqRel);
    Some(())
}

/// A message-signalled line of a PCI function for CPU `cpu`.
pub fn allocate_msi(device: DeviceFunction, cpu: usize, handler: fn(usize), arg: usize) -> Option<Line> {
    let message = gic::allocate_message(device, cpu)?;
    bind(message.intid, handler, arg)?;
    Some(Line { message: Some((message.address, message.data)) })
}

/// The line of a PCI function's pin, by the host bridge's map.
pub fn intx(device: DeviceFunction, pin: u8, handler: fn(usize), arg: usize) -> Option<Line> {
    let host = hardware::get().pci.as_ref()?;
    let (device, pin) = root_pin(device, pin);
    let address = u32::from(device.bus) << 16 | u32::from(device.device) << 11 | u32::from(device.function) << 8;
    let wanted = (address & host.map_mask[0], u32::from(pin) & host.map_mask[1]);
    let entry = host.map[..host.map_len].iter().find(|entry| (entry.device, entry.pin) == wanted)?;
    bind(entry.intid, handler, arg)?;
    gic::enable_shared(entry.intid, crate::cpu::id(), false);
    Some(Line { message: None })
}

/// The GIC's interrupt `number`.
pub fn line(number: u32, edge: bool, handler: fn(usize), arg: usize) -> Option<Line> {
    bind(number, handler, arg)?;
    gic::enable_shared(number, crate::cpu::id(), edge);
    Some(Line { message: None })
}

/// Acknowledges and handles what is pending for this CPU.
#[inline]
pub(super) fn handle_pending() {
    for _ in 0..MAX_AT_ONCE {
        let Some(taken) = gic::acknowledge() else { return };
        let slots = SLOTS.load(Ordering::Acquire) as usize;
        if taken.intid >= gic::FIRST_SHARED {
            for (slot, bound) in INTIDS[..slots].iter().enumerate() {
                if bound.load(Ordering::Relaxed) == taken.intid {
                    dispatch(slot);
                }
            }
        }
        gic::finish(taken);
    }
}
