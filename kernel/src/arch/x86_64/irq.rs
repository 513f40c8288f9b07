//! Interrupt vectors: which are the kernel's own, and how devices get theirs.

use super::{apic, cpu, firmware};
use crate::irq::{MAX_LINES, dispatch, register};
use core::sync::atomic::{AtomicU8, Ordering};
use spin::Mutex;
use virtio_drivers::transport::pci::bus::{ConfigurationAccess, DeviceFunction};
use x86_64::instructions::port::Port;

/// The local timer.
pub(super) const TIMER: u8 = 0xf0;
/// Another CPU's wake-up; it only has to end the halt.
pub(super) const WAKE: u8 = 0xf1;
/// The APIC's answer when an interrupt went away; takes no end-of-interrupt.
pub(super) const SPURIOUS: u8 = 0xff;
/// Vector of line slot 0. The first 32 are exceptions, the next 16 what a legacy interrupt controller may raise.
const FIRST: u8 = 0x30;
const _: () = assert!(FIRST as usize + MAX_LINES <= TIMER as usize);

/// An interrupt line of a device.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    vector: u8,
    target: u32,
    message: bool,
}

impl Line {
    /// Address and data that a device writes to raise it.
    pub fn msi(&self) -> Option<(u64, u32)> {
        self.message.then(|| (0xfee0_0000 | u64::from(self.target) << 12, u32::from(self.vector)))
    }
}

fn allocate(target: u32, handler: fn(usize), arg: usize, message: bool) -> Option<Line> {
    // Messages and I/O APICs name 8 bits of APIC number; more takes interrupt remapping.
    if target > 0xff {
        return None;
    }
    let slot = register(handler, arg)?;
    Some(Line { vector: FIRST + slot as u8, target, message })
}

/// A message-signalled line for CPU `cpu`.
pub fn allocate_msi(_device: DeviceFunction, cpu: usize, handler: fn(usize), arg: usize) -> Option<Line> {
    allocate(cpu::apic_id(cpu), handler, arg, true)
}

/// What shares an interrupt pin of the I/O APIC.
struct Shared {
    line: u32,
    slots: [Option<Handler>; 8],
}

type Handler = (fn(usize), usize);

const NOBODY: Shared = Shared { line: 0, slots: [None; 8] };
static SHARED: Mutex<[Shared; 8]> = Mutex::new([NOBODY; 8]);

fn shared(which: usize) {
    let slots = SHARED.lock()[which].slots;
    slots.iter().flatten().for_each(|(handler, arg)| handler(*arg));
}

/// The legacy line of a PCI function: the one that firmware wrote into its interrupt line register.
pub fn intx(at: DeviceFunction, pin: u8, handler: fn(usize), arg: usize) -> Option<Line> {
    let config = super::pci::config()?;
    let line = config.read_word(at, 0x3c) & 0xff;
    if pin == 0 || line == 0xff || line == 0 {
        return None;
    }
    let (line, level, active_low) = firmware::get().legacy_line(line as u8);
    let chip = firmware::get().io_apics.iter().flatten().find(|chip| chip.has(line))?;
    let mut all = SHARED.lock();
    let which = all.iter().position(|s| s.line == line || s.slots[0].is_none())?;
    let first = all[which].slots[0].is_none();
    *all[which].slots.iter_mut().find(|slot| slot.is_none())? = Some((handler, arg));
    all[which].line = line;
    drop(all);
    if !first {
        return Some(Line { vector: 0, target: apic::id(), message: false });
    }
    let allocated = allocate(apic::id(), shared, which, false)?;
    chip.route(line, allocated.vector, allocated.target, level, active_low);
    Some(allocated)
}

/// The line `number` of the I/O APICs, where the tables say that it arrives if it is an ISA line.
pub fn line(number: u32, edge: bool, handler: fn(usize), arg: usize) -> Option<Line> {
    let number = u8::try_from(number).map_or(number, |source| firmware::get().isa_line(source));
    let chip = firmware::get().io_apics.iter().flatten().find(|chip| chip.has(number))?;
    let allocated = allocate(apic::id(), handler, arg, false)?;
    chip.route(number, allocated.vector, allocated.target, !edge, false);
    Some(allocated)
}

/// Masks the two 8259s, which would otherwise interrupt beside the APICs.
pub(super) fn mask_legacy() {
    for port in [0x21, 0xa1] {
        // SAFETY: the interrupt mask registers; machines without them lose the write.
        unsafe { Port::<u8>::new(port).write(0xff) };
    }
}

static UNEXPECTED: AtomicU8 = AtomicU8::new(0);

/// Every interrupt comes here.
pub(super) extern "C" fn interrupt(vector: u32) {
    let vector = vector as u8;
    match vector {
        SPURIOUS => return,
        TIMER => cpu::timer_fired(),
        WAKE => {}
        FIRST..TIMER => dispatch(usize::from(vector - FIRST)),
        // A legacy controller's spurious interrupt, or none of ours: the count is for the debugger.
        _ => UNEXPECTED.store(vector, Ordering::Relaxed),
    }
    apic::end_of_interrupt();
}
