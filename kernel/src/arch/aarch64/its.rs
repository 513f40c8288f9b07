//! GICv3's interrupt translation service (ARM IHI 0069, chapter 5): a device writes an event's number to the doorbell, and
//! tables in memory, which only the service changes, turn (device, event) into a locality-specific interrupt of one CPU.
//!
//! It is set up when the first message is asked for. Each CPU is a collection under its own id. Everything that the
//! service reads is cleaned to memory, whether or not it snoops the caches: this happens a few times in a run.

use super::gic::Message;
use super::gic_v3::{read, read_64, redistributor, write, write_64};
use super::hardware::{self, Gic};
use super::{memory, sysreg};
use crate::cpu;
use crate::memory::allocate_dma;
use alloc::vec::Vec;
use core::ptr::NonNull;
use spin::Mutex;
use virtio_drivers::transport::pci::bus::DeviceFunction;

const GITS_CTLR: usize = 0x0000;
const GITS_TYPER: usize = 0x0008;
const GITS_CBASER: usize = 0x0080;
const GITS_CWRITER: usize = 0x0088;
const GITS_CREADR: usize = 0x0090;
const GITS_BASER: usize = 0x0100;
/// GITS_TRANSLATER, the doorbell, in the second 64 KiB frame.
const DOORBELL: u64 = 0x1_0040;
const GICR_CTLR: usize = 0x0000;
const GICR_TYPER: usize = 0x0008;
const GICR_PROPBASER: usize = 0x0070;
const GICR_PENDBASER: usize = 0x0078;

/// GITS_BASER, GITS_CBASER: in use; inner shareable; write-back caches.
const VALID: u64 = 1 << 63;
const TABLE_ATTRIBUTES: u64 = 0b111 << 59 | 0b01 << 10;
/// The same for a redistributor's tables.
const REDISTRIBUTOR_ATTRIBUTES: u64 = 0b111 << 7 | 0b01 << 10;
/// GICR_PENDBASER.PTZ: the pending table is all zero.
const PENDING_ZERO: u64 = 1 << 62;
const DEVICE_TABLE: u64 = 1;
const COLLECTION_TABLE: u64 = 4;

/// Interrupt numbers have this many bits: locality-specific ones are 8192 up to 16383, the fewest that are allowed.
const ID_BITS: u64 = 14;
const FIRST_LPI: u32 = 8192;
const LAST_LPI: u32 = FIRST_LPI + crate::irq::MAX_LINES as u32;
/// A locality-specific interrupt's configuration: its priority, a bit that is always one, enabled.
const LPI_ENABLED: u8 = 0xa0 | 0b11;
/// Events of a device, as bits.
const EVENT_BITS: u64 = 5;
/// Devices with numbers below this can send: 8 buses.
const DEVICES: usize = 8 << 8;
/// The command queue: one page of 32-byte commands.
const QUEUE_BYTES: usize = 4096;
const COMMAND_BYTES: usize = 32;
const PATIENCE: u32 = 1_000_000;

const MAPD: u64 = 0x08;
const MAPC: u64 = 0x09;
const MAPTI: u64 = 0x0a;
const INV: u64 = 0x0c;
const SYNC: u64 = 0x05;

/// Memory that the service reads.
#[derive(Clone, Copy)]
struct Table {
    phys: u64,
    virt: NonNull<u8>,
    bytes: usize,
}

impl Table {
    /// Zeroed, cleaned to memory.
    fn new(bytes: usize, align: usize) -> Option<Self> {
        let (phys, virt) = allocate_dma(bytes, align)?;
        // SAFETY: the memory was just allocated with at least this size, and is nobody else's.
        unsafe { virt.as_ptr().write_bytes(0, bytes) };
        sysreg::clean_to_memory(virt.as_ptr(), bytes);
        Some(Self { phys, virt, bytes })
    }

    /// Writes at an offset and cleans it to memory.
    fn store<T: Copy>(&self, offset: usize, value: T) {
        if offset + size_of::<T>() <= self.bytes {
            // SAFETY: inside the table; only this module writes it, one writer at a time.
            unsafe { self.virt.as_ptr().add(offset).cast::<T>().write_volatile(value) };
            sysreg::clean_to_memory(self.virt.as_ptr().wrapping_add(offset), size_of::<T>());
        }
    }
}

struct Its {
    base: usize,
    doorbell: u64,
    queue: Table,
    /// Where the next command goes.
    next: usize,
    /// One byte for each locality-specific interrupt.
    properties: Table,
    /// Which CPUs are collections already.
    collections: u64,
    /// Each device with a table of events, and how many of those are taken.
    devices: Vec<(u32, u32)>,
    next_lpi: u32,
}

// SAFETY: the tables are plain memory behind the direct map, the same from every CPU.
unsafe impl Send for Its {}

static ITS: Mutex<Option<Its>> = Mutex::new(None);

/// A message-signalled interrupt of a PCI function for CPU `cpu`. `None` without the service.
pub fn allocate_message(device: DeviceFunction, cpu: usize) -> Option<Message> {
    let Some(Gic::V3 { its: Some(registers), .. }) = &hardware::get().gic else { return None };
    let mut its = ITS.lock();
    if its.is_none() {
        *its = Its::new(registers.start, registers.len() as usize);
    }
    its.as_mut()?.allocate(hardware::message_sender(device)?, cpu)
}

impl Its {
    fn new(phys: u64, len: usize) -> Option<Self> {
        let base = memory::map_mmio(phys, len)?.as_ptr() as usize;
        write(base, GITS_CTLR, 0);
        for index in 0..8 {
            let register = GITS_BASER + 8 * index;
            let entry = (read_64(base, register) >> 48 & 0x1f) as usize + 1;
            match read_64(base, register) >> 56 & 7 {
                DEVICE_TABLE => set_table(base, register, DEVICES * entry)?,
                COLLECTION_TABLE => set_table(base, register, cpu::MAX_CPUS * entry)?,
                _ => {}
            }
        }
        let queue = Table::new(QUEUE_BYTES, 64 << 10)?;
        write_64(base, GITS_CBASER, VALID | TABLE_ATTRIBUTES | queue.phys);
        write_64(base, GITS_CWRITER, 0);
        write(base, GITS_CTLR, 1);
        let properties = Table::new(1 << (ID_BITS - 1), 4096)?;
        Some(Self {
            base,
            doorbell: phys + DOORBELL,
            queue,
            next: 0,
            properties,
            collections: 0,
            devices: Vec::new(),
            next_lpi: FIRST_LPI,
        })
    }

    fn allocate(&mut self, device: u32, cpu: usize) -> Option<Message> {
        let target = self.open_collection(cpu)?;
        let event = self.new_event(device)?;
        let intid = self.next_lpi;
        if intid >= LAST_LPI {
            return None;
        }
        self.next_lpi += 1;
        self.properties.store((intid - FIRST_LPI) as usize, LPI_ENABLED);
        let sender = u64::from(device) << 32;
        self.command([MAPTI | sender, u64::from(intid) << 32 | u64::from(event), cpu as u64, 0]);
        self.command([INV | sender, event.into(), 0, 0]);
        self.command([SYNC, 0, target, 0]);
        self.run()?;
        Some(Message { address: self.doorbell, data: event, intid })
    }

    /// The next event of a device, whose table is made when it has none.
    fn new_event(&mut self, device: u32) -> Option<u32> {
        if let Some((_, events)) = self.devices.iter_mut().find(|(known, _)| *known == device) {
            let event = *events;
            *events = event.checked_add(1).filter(|next| *next <= 1 << EVENT_BITS)?;
            return Some(event);
        }
        if device as usize >= DEVICES {
            return None;
        }
        let entry = (read_64(self.base, GITS_TYPER) >> 4 & 0xf) as usize + 1;
        let table = Table::new(entry << EVENT_BITS, 4096)?;
        self.devices.push((device, 1));
        self.command([MAPD | u64::from(device) << 32, EVENT_BITS - 1, VALID | table.phys, 0]);
        Some(0)
    }

    /// Makes a CPU a target; returns how commands name its redistributor.
    fn open_collection(&mut self, cpu: usize) -> Option<u64> {
        let redistributor = redistributor(cpu)?;
        let by_address = read_64(self.base, GITS_TYPER) & 1 << 19 != 0;
        let target = if by_address {
            memory::virt_to_phys(redistributor as *const u8)
        } else {
            (read_64(redistributor, GICR_TYPER) >> 8 & 0xffff) << 16
        };
        if self.collections & 1 << cpu == 0 {
            let pending = Table::new(1 << (ID_BITS - 3), 64 << 10)?;
            write_64(redistributor, GICR_PROPBASER, self.properties.phys | REDISTRIBUTOR_ATTRIBUTES | (ID_BITS - 1));
            write_64(redistributor, GICR_PENDBASER, pending.phys | REDISTRIBUTOR_ATTRIBUTES | PENDING_ZERO);
            write(redistributor, GICR_CTLR, read(redistributor, GICR_CTLR) | 1);
            sysreg::dsb_sy();
            self.command([MAPC, 0, VALID | target | cpu as u64, 0]);
            self.collections |= 1 << cpu;
        }
        Some(target)
    }

    /// Queues a command. The queue holds far more than one allocation needs, and each ends in [`run`](Self::run).
    fn command(&mut self, words: [u64; 4]) {
        self.queue.store(self.next, words);
        self.next = (self.next + COMMAND_BYTES) % QUEUE_BYTES;
    }

    /// Hands the queued commands over and waits until they are done.
    fn run(&mut self) -> Option<()> {
        write_64(self.base, GITS_CWRITER, self.next as u64);
        for _ in 0..PATIENCE {
            let done = read_64(self.base, GITS_CREADR);
            if done == self.next as u64 {
                return Some(());
            }
            if done & 1 != 0 {
                break;
            }
        }
        log::error!("the interrupt translation service does not take commands");
        None
    }
}

/// Gives one of the service's tables its memory, in the page size that the register takes.
fn set_table(base: usize, register: usize, bytes: usize) -> Option<()> {
    write_64(base, register, TABLE_ATTRIBUTES);
    let size_bits = read_64(base, register) >> 8 & 3;
    let page = [4 << 10, 16 << 10, 64 << 10].get(size_bits as usize).copied().unwrap_or(64 << 10);
    let bytes = bytes.next_multiple_of(page);
    let table = Table::new(bytes, page)?;
    write_64(base, register, VALID | TABLE_ATTRIBUTES | table.phys | size_bits << 8 | (bytes / page - 1) as u64);
    Some(())
}
