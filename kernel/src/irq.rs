//! Interrupt lines and their handlers.
//!
//! A handler runs with interrupts masked, on the CPU that was halted when the line fired, and should do no more than note
//! what happened: the loop that is woken does the work.

use crate::arch;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use virtio_drivers::transport::pci::bus::DeviceFunction;

/// Most lines with a handler.
pub const MAX_LINES: usize = 128;

struct Slot {
    handler: AtomicPtr<()>,
    arg: AtomicUsize,
    count: AtomicUsize,
}

static SLOTS: [Slot; MAX_LINES] = [const {
    Slot { handler: AtomicPtr::new(core::ptr::null_mut()), arg: AtomicUsize::new(0), count: AtomicUsize::new(0) }
}; MAX_LINES];
static NEXT: AtomicUsize = AtomicUsize::new(0);

pub use arch::irq::Line;

/// A message-signalled line of a PCI function that interrupts CPU `cpu`, which is online, and calls `handler(arg)` there.
/// `None` when the machine has no message-signalled interrupts or no line is left. The function is named because a GICv3
/// translates messages by their sender.
pub fn allocate_msi(device: DeviceFunction, cpu: usize, handler: fn(usize), arg: usize) -> Option<Line> {
    arch::irq::allocate_msi(device, cpu, handler, arg)
}

/// The level-triggered line of a PCI function's interrupt pin (1 = INTA# .. 4 = INTD#), shared with whoever has it already.
/// `None` when it is not routed.
pub fn intx(device: DeviceFunction, pin: u8, handler: fn(usize), arg: usize) -> Option<Line> {
    arch::irq::intx(device, pin, handler, arg)
}

/// The line with the number `number`, active high: of the I/O APICs on x86_64, of the GIC (counted from 0, as it counts all
/// interrupts) on aarch64. It interrupts this CPU, which then calls `handler(arg)`. `None` when the machine has no such line.
pub fn line(number: u32, edge: bool, handler: fn(usize), arg: usize) -> Option<Line> {
    arch::irq::line(number, edge, handler, arg)
}

/// For the architecture: notes a handler and returns its slot, ascending from 0, which [`dispatch`] takes.
pub(crate) fn register(handler: fn(usize), arg: usize) -> Option<usize> {
    let slot = NEXT.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < MAX_LINES).then_some(n + 1)).ok()?;
    SLOTS[slot].arg.store(arg, Ordering::Relaxed);
    SLOTS[slot].handler.store(handler as *mut (), Ordering::Release);
    Some(slot)
}

/// For the architecture: calls the handler of a slot.
pub(crate) fn dispatch(slot: usize) {
    let Some(slot) = SLOTS.get(slot) else { return };
    let handler = slot.handler.load(Ordering::Acquire);
    if handler.is_null() {
        return;
    }
    slot.count.fetch_add(1, Ordering::Relaxed);
    // SAFETY: only `register` stores here, and it stores a `fn(usize)`.
    let handler: fn(usize) = unsafe { core::mem::transmute(handler) };
    handler(slot.arg.load(Ordering::Relaxed));
}

/// How many interrupts all lines have seen.
pub fn total() -> usize {
    SLOTS[..NEXT.load(Ordering::Acquire)].iter().map(|slot| slot.count.load(Ordering::Relaxed)).sum()
}
