//! What the ACPI tables say of this machine.

use super::apic::IoApic;
use super::paging::map_firmware;
use crate::acpi::{self, Ecam, Fadt, Madt, Override, Root};
use crate::boot::BootInfo;
use crate::drivers::virtio::slot::{self, Slot};
use crate::mptable;
use alloc::vec::Vec;
use spin::Once;

/// Most I/O APICs that are used.
const MAX_IO_APICS: usize = 8;

/// The machine by its tables; what a table did not say has the value of an old PC.
#[derive(Debug)]
pub(super) struct Firmware {
    /// APIC numbers of usable CPUs; the boot CPU's may be among them.
    pub(super) cpus: Vec<u32>,
    /// Physical address of the local APIC's registers.
    pub(super) local_apic: u64,
    /// I/O APICs, all their lines masked.
    pub(super) io_apics: [Option<IoApic>; MAX_IO_APICS],
    overrides: Vec<Override>,
    /// Configuration space in memory.
    pub(super) ecam: Option<Ecam>,
    /// Physical address of the HPET's registers.
    pub(super) hpet: Option<u64>,
    /// Power registers and the timer.
    pub(super) fadt: Option<Fadt>,
}

static FIRMWARE: Once<Firmware> = Once::new();

/// The tables' content; empty before [`init`].
pub(super) fn get() -> &'static Firmware {
    FIRMWARE.call_once(|| Firmware {
        cpus: Vec::new(),
        local_apic: 0xfee0_0000,
        io_apics: [None; MAX_IO_APICS],
        overrides: Vec::new(),
        ecam: None,
        hpet: None,
        fadt: None,
    })
}

/// Reads the tables that `rsdp` leads to.
pub(super) fn init(rsdp: Option<u64>) {
    FIRMWARE.call_once(|| read(rsdp.or_else(search)));
}

/// Bytes that firmware left at `phys`.
fn bytes(phys: u64, len: usize) -> Option<&'static [u8]> {
    let start = map_firmware(phys, len)?;
    // SAFETY: mapped, and nothing writes there: it is no RAM of ours (RAM that is ours is never named by a table).
    Some(unsafe { core::slice::from_raw_parts(start.as_ptr(), len) })
}

/// The table at `phys`, when it has a plausible header.
pub(super) fn table(phys: u64) -> Option<([u8; 4], &'static [u8])> {
    const LONGEST: usize = 16 << 20;
    let (signature, len) = acpi::header(bytes(phys, acpi::HEADER)?)?;
    (len <= LONGEST).then(|| Some((signature, bytes(phys, len)?)))?
}

/// The root pointer where a BIOS leaves it (ACPI 6.5, 5.2.5.1).
fn search() -> Option<u64> {
    const START: u64 = 0xe_0000;
    let area = bytes(START, 0x2_0000)?;
    (0..area.len() - 36).step_by(16).find(|at| Root::parse(&area[*at..]).is_some()).map(|at| START + at as u64)
}

/// The multiprocessor table, where a BIOS without ACPI leaves a pointer to it (MultiProcessor Specification 1.4, chapter 4):
/// the end of base memory, then the BIOS itself.
fn multiprocessor_table() -> Option<Madt> {
    let places = [(0x9_fc00, 0x400), (0xf_0000, 0x1_0000)];
    let at = places.into_iter().find_map(|(start, len)| {
        let area = bytes(start, len)?;
        area.chunks_exact(mptable::POINTER).find_map(mptable::pointer)
    })?;
    let len = mptable::len(bytes(at, mptable::HEADER)?)?;
    mptable::parse(bytes(at, len)?)
}

/// Where memory-mapped virtio devices may be: by the command line, or by the DSDT of a machine with ACPI.
pub(crate) fn virtio_slots(info: &BootInfo) -> Vec<Slot> {
    let mut slots = slot::from_cmdline(info.cmdline);
    if let Some((_, dsdt)) = get().fadt.and_then(|fadt| table(fadt.dsdt)) {
        slots.extend(acpi::virtio_slots(dsdt));
    }
    slots
}

fn read(rsdp: Option<u64>) -> Firmware {
    let mut firmware = Firmware {
        cpus: Vec::new(),
        local_apic: 0xfee0_0000,
        io_apics: [None; MAX_IO_APICS],
        overrides: Vec::new(),
        ecam: None,
        hpet: None,
        fadt: None,
    };
    let root = rsdp.and_then(|at| Root::parse(bytes(at, 36)?));
    let Some((root, (_, list))) = root.and_then(|root| Some((root, table(root.address)?))) else {
        match multiprocessor_table() {
            Some(table) => firmware.add_madt(table),
            None => log::warn!("neither ACPI tables nor a multiprocessor table: one CPU, ports for PCI"),
        }
        return firmware;
    };
    for (signature, table) in root.entries(list).filter_map(table) {
        match &signature {
            b"APIC" => firmware.add_madt(Madt::parse(table).unwrap_or_default()),
            b"FACP" => firmware.fadt = Fadt::parse(table),
            b"MCFG" => firmware.ecam = acpi::ecam(table),
            b"HPET" => firmware.hpet = acpi::hpet(table),
            _ => {}
        }
    }
    firmware
}

impl Firmware {
    fn add_madt(&mut self, madt: Madt) {
        self.local_apic = madt.local_apic;
        self.cpus = madt.cpus;
        self.overrides = madt.overrides;
        for (slot, entry) in self.io_apics.iter_mut().zip(&madt.io_apics) {
            *slot = IoApic::new(entry.address, entry.first_line);
        }
    }

    /// The line at which an ISA interrupt arrives.
    pub(super) fn isa_line(&self, source: u8) -> u32 {
        self.overrides.iter().find(|o| o.source == source).map_or(source.into(), |o| o.line)
    }

    /// Where a legacy interrupt arrives: line, whether level-triggered, whether active low. A PCI function's is shared and
    /// level-triggered unless the tables say otherwise.
    pub(super) fn legacy_line(&self, source: u8) -> (u32, bool, bool) {
        self.overrides
            .iter()
            .find(|o| o.source == source)
            .map_or((u32::from(source), true, true), |o| (o.line, o.level, o.active_low))
    }
}
