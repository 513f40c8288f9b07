//! ACPI's static tables, read from bytes: what interrupt controllers, CPUs, timers and PCI segments there are, and how the
//! machine is switched off. Offsets are those of the ACPI 6.5 specification; section numbers stand beside them.

use alloc::vec::Vec;

use crate::drivers::virtio::slot::Slot;
use crate::region::Region;

/// Length of the header that every table starts with (5.2.6).
pub const HEADER: usize = 36;

fn u8_at(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// Where the list of tables is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Physical address of the RSDT or XSDT.
    pub address: u64,
    /// Bytes of an entry in it: 4 or 8.
    pub entry_size: usize,
}

impl Root {
    /// Reads a root system description pointer (5.2.5.3) of at least 20 bytes.
    pub fn parse(rsdp: &[u8]) -> Option<Self> {
        if rsdp.get(..8)? != b"RSD PTR " || sum(rsdp.get(..20)?) != 0 {
            return None;
        }
        let xsdt = if u8_at(rsdp, 15)? >= 2 { u64_at(rsdp, 24).unwrap_or(0) } else { 0 };
        Some(if xsdt != 0 {
            Self { address: xsdt, entry_size: 8 }
        } else {
            Self { address: u64::from(u32_at(rsdp, 16)?), entry_size: 4 }
        })
    }

    /// The physical addresses of the tables that the list in `table` names.
    pub fn entries<'a>(&self, table: &'a [u8]) -> impl Iterator<Item = u64> + 'a {
        let size = self.entry_size;
        table
            .get(HEADER..)
            .unwrap_or_default()
            .chunks_exact(size)
            .filter_map(move |entry| if size == 8 { u64_at(entry, 0) } else { u32_at(entry, 0).map(u64::from) })
    }
}

/// The signature and length of the table whose header this is.
pub fn header(bytes: &[u8]) -> Option<([u8; 4], usize)> {
    let len = u32_at(bytes, 4)? as usize;
    (len >= HEADER).then_some((bytes.get(..4)?.try_into().ok()?, len))
}

/// An I/O APIC (5.2.12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoApicEntry {
    /// Physical address of its registers.
    pub address: u64,
    /// Number of its first line.
    pub first_line: u32,
}

/// Where a legacy interrupt goes (5.2.12.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override {
    /// The legacy interrupt's number.
    pub source: u8,
    /// The line that it arrives at.
    pub line: u32,
    /// Whether the line is active low.
    pub active_low: bool,
    /// Whether it is level-triggered.
    pub level: bool,
}

/// The multiple APIC description table (5.2.12).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Madt {
    /// Physical address of the local APIC's registers.
    pub local_apic: u64,
    /// APIC numbers of the CPUs that may be used.
    pub cpus: Vec<u32>,
    /// I/O APICs.
    pub io_apics: Vec<IoApicEntry>,
    /// Legacy interrupts that do not arrive where their number says.
    pub overrides: Vec<Override>,
}

impl Madt {
    /// Reads the table; what is cut short ends it.
    pub fn parse(table: &[u8]) -> Option<Self> {
        let mut madt = Self { local_apic: u64::from(u32_at(table, HEADER)?), ..Self::default() };
        let mut rest = table.get(HEADER + 8..)?;
        while let (Some(kind), Some(len)) = (u8_at(rest, 0), u8_at(rest, 1)) {
            let Some(entry) = rest.get(..usize::from(len)).filter(|entry| entry.len() >= 2) else { break };
            let _ = madt.add(kind, entry);
            rest = &rest[entry.len()..];
        }
        Some(madt)
    }

    fn add(&mut self, kind: u8, entry: &[u8]) -> Option<()> {
        const ENABLED: u32 = 1;
        match kind {
            0 if u32_at(entry, 4)? & ENABLED != 0 => self.cpus.push(u32::from(u8_at(entry, 3)?)),
            1 => {
                self.io_apics.push(IoApicEntry { address: u64::from(u32_at(entry, 4)?), first_line: u32_at(entry, 8)? })
            }
            2 => {
                let flags = u16_at(entry, 8)?;
                self.overrides.push(Override {
                    source: u8_at(entry, 3)?,
                    line: u32_at(entry, 4)?,
                    active_low: flags & 3 == 3,
                    level: flags >> 2 & 3 == 3,
                });
            }
            5 => self.local_apic = u64_at(entry, 4)?,
            9 if u32_at(entry, 8)? & ENABLED != 0 => self.cpus.push(u32_at(entry, 4)?),
            _ => {}
        }
        Some(())
    }
}

/// A PCI segment's configuration space in memory (PCI firmware specification, 4.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ecam {
    /// Physical address where bus 0 is or would be.
    pub address: u64,
    /// First bus.
    pub first_bus: u8,
    /// Last bus.
    pub last_bus: u8,
}

/// Reads the MCFG table's entry for segment 0.
pub fn ecam(mcfg: &[u8]) -> Option<Ecam> {
    mcfg.get(HEADER + 8..)?.chunks_exact(16).find(|entry| u16_at(entry, 8) == Some(0)).and_then(|entry| {
        Some(Ecam { address: u64_at(entry, 0)?, first_bus: u8_at(entry, 10)?, last_bus: u8_at(entry, 11)? })
    })
}

/// Physical address of the HPET's registers (IA-PC HPET specification, 3.2.4).
pub fn hpet(table: &[u8]) -> Option<u64> {
    const IN_MEMORY: u8 = 0;
    (u8_at(table, 40)? == IN_MEMORY).then(|| u64_at(table, 44)).flatten()
}

/// A register in I/O or memory space (5.2.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// An I/O port.
    Port(u16),
    /// A physical address.
    Memory(u64),
}

impl Register {
    fn parse(table: &[u8], at: usize) -> Option<Self> {
        let address = u64_at(table, at + 4)?;
        match u8_at(table, at)? {
            _ if address == 0 => None,
            0 => Some(Self::Memory(address)),
            1 => u16::try_from(address).ok().map(Self::Port),
            _ => None,
        }
    }
}

/// What is needed of the fixed ACPI description table (5.2.9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fadt {
    /// Physical address of the differentiated system description table.
    pub dsdt: u64,
    /// Port to switch ACPI mode on at, with the value to write, where the machine starts in legacy mode.
    pub enable: Option<(u16, u8)>,
    /// PM1a control block.
    pub pm1a_control: Option<u16>,
    /// PM1b control block.
    pub pm1b_control: Option<u16>,
    /// Port of the power management timer, which counts at 3.579545 MHz.
    pub pm_timer: Option<u16>,
    /// Register and value that reset the machine.
    pub reset: Option<(Register, u8)>,
    /// The sleep control register of a hardware-reduced machine.
    pub sleep_control: Option<Register>,
}

impl Fadt {
    /// Reads the table.
    pub fn parse(table: &[u8]) -> Option<Self> {
        const RESET_SUPPORTED: u32 = 1 << 10;
        const HARDWARE_REDUCED: u32 = 1 << 20;
        let port = |at| u32_at(table, at).and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
        let flags = u32_at(table, 112)?;
        let reduced = flags & HARDWARE_REDUCED != 0;
        let dsdt = u64_at(table, 140).filter(|dsdt| *dsdt != 0).unwrap_or(u64::from(u32_at(table, 40)?));
        let fixed = |at| if reduced { None } else { port(at) };
        let reset = if flags & RESET_SUPPORTED != 0 { Register::parse(table, 116) } else { None };
        Some(Self {
            dsdt,
            enable: fixed(48).zip(u8_at(table, 52).filter(|value| *value != 0)),
            pm1a_control: fixed(64),
            pm1b_control: fixed(68),
            pm_timer: fixed(76),
            reset: reset.zip(u8_at(table, 128)),
            sleep_control: if reduced { Register::parse(table, 244) } else { None },
        })
    }
}

/// The sleep types for soft-off, PM1a's and PM1b's, from the `\_S5` package in a DSDT's byte code (7.4.2, 20.2.5.4).
///
/// Only the form that compilers emit is read: `Name (_S5, Package { byte, byte, ... })` with constants.
pub fn soft_off(dsdt: &[u8]) -> Option<(u8, u8)> {
    const NAME: u8 = 0x08;
    const PACKAGE: u8 = 0x12;
    let code = dsdt.get(HEADER..)?;
    let named = code.windows(4).enumerate().filter(|(_, window)| *window == b"_S5_").find_map(|(at, _)| {
        let before = code.get(at.checked_sub(2)?..at)?;
        let is_name = before[1] == NAME || before == [NAME, b'\\'];
        code.get(at + 4..).filter(|rest| is_name && rest.first() == Some(&PACKAGE))
    })?;
    // The package's length is one byte, or a lead byte that says how many follow; the element count comes after it.
    let lead = u8_at(named, 1)?;
    let mut elements = named.get(2 + usize::from(lead >> 6) + 1..)?;
    let mut next = || {
        let (value, len) = match *elements.first()? {
            0x00 => (0, 1),
            0x01 => (1, 1),
            0x0a => (u8_at(elements, 1)?, 2),
            _ => return None,
        };
        elements = elements.get(len..)?;
        Some(value)
    };
    let first = next()?;
    Some((first, next().unwrap_or(first)))
}

/// The places of memory-mapped virtio devices that a DSDT's byte code names: devices with the id `LNRO0005`, whose resources
/// (6.4.3.4 and 6.4.3.6) are a fixed range of memory and an interrupt. As with [`soft_off`], only what compilers emit is read.
pub fn virtio_slots(dsdt: &[u8]) -> Vec<Slot> {
    const ID: &[u8] = b"LNRO0005\0";
    /// How far behind a device's id its resources are looked for.
    const REACH: usize = 256;
    let mut slots = Vec::new();
    let mut rest = dsdt.get(HEADER..).unwrap_or_default();
    while let Some(at) = rest.windows(ID.len()).position(|window| window == ID) {
        rest = &rest[at + ID.len()..];
        let device = &rest[..rest.len().min(REACH)];
        let end = device.windows(ID.len()).position(|window| window == ID).unwrap_or(device.len());
        slots.extend(resources(&device[..end]));
    }
    slots
}

/// The memory and the interrupt among a device's resources.
fn resources(device: &[u8]) -> Option<Slot> {
    const MEMORY: &[u8] = &[0x86, 9, 0];
    const INTERRUPT: u8 = 0x89;
    const EDGE: u8 = 1 << 1;
    let memory = device.get(device.windows(MEMORY.len()).position(|window| window == MEMORY)?..)?;
    let at = Region::new(u32_at(memory, 4)?.into(), u32_at(memory, 8)?.into());
    let interrupt = memory.get(12..)?;
    (u8_at(interrupt, 0)? == INTERRUPT && u8_at(interrupt, 4)? >= 1).then_some(())?;
    Some(Slot { at, line: u32_at(interrupt, 5)?, edge: u8_at(interrupt, 3)? & EDGE != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(signature: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let mut bytes = signature.to_vec();
        bytes.extend(((HEADER + body.len()) as u32).to_le_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn root_pointer_of_either_revision() {
        let mut rsdp = b"RSD PTR \0BOCHS \0\x10\x20\x30\x40".to_vec();
        rsdp[8] = 0u8.wrapping_sub(sum(&rsdp));
        assert_eq!(Root::parse(&rsdp), Some(Root { address: 0x4030_2010, entry_size: 4 }));
        rsdp[8] ^= 1;
        assert_eq!(Root::parse(&rsdp), None);
        rsdp[15] = 2;
        rsdp[8] = 0;
        rsdp[8] = 0u8.wrapping_sub(sum(&rsdp));
        rsdp.extend(36u32.to_le_bytes());
        rsdp.extend(0x1_2345_6780u64.to_le_bytes());
        let root = Root::parse(&rsdp).expect("valid");
        assert_eq!(root, Root { address: 0x1_2345_6780, entry_size: 8 });
        let list = table(b"XSDT", &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(root.entries(&list).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(header(&list), Some((*b"XSDT", HEADER + 17)));
    }

    #[test]
    fn madt_keeps_enabled_cpus_and_survives_cuts() {
        let mut body = vec![0, 0, 0xe0, 0xfe, 1, 0, 0, 0];
        body.extend([0, 8, 0, 0, 1, 0, 0, 0]);
        body.extend([0, 8, 1, 1, 0, 0, 0, 0]);
        body.extend([0, 8, 2, 2, 1, 0, 0, 0]);
        body.extend([1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0]);
        body.extend([2, 10, 0, 0, 2, 0, 0, 0, 0, 0]);
        body.extend([2, 10, 0, 5, 5, 0, 0, 0, 0x0f, 0]);
        body.extend([9, 16, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0]);
        let whole = table(b"APIC", &body);
        let madt = Madt::parse(&whole).expect("valid");
        assert_eq!(madt.local_apic, 0xfee0_0000);
        assert_eq!(madt.cpus, [0, 2, 0x100]);
        assert_eq!(madt.io_apics, [IoApicEntry { address: 0xfec0_0000, first_line: 0 }]);
        assert_eq!(madt.overrides[0], Override { source: 0, line: 2, active_low: false, level: false });
        assert_eq!(madt.overrides[1], Override { source: 5, line: 5, active_low: true, level: true });
        for len in 0..whole.len() {
            let _ = Madt::parse(&whole[..len]);
        }
        // An entry of length 0 or 1 must not loop for ever.
        assert!(Madt::parse(&table(b"APIC", &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 1])).is_some());
    }

    #[test]
    fn soft_off_in_the_forms_compilers_emit() {
        let dsdt = |code: &[u8]| table(b"DSDT", code);
        assert_eq!(soft_off(&dsdt(b"xx\x08_S5_\x12\x06\x04\0\0\0\0")), Some((0, 0)));
        assert_eq!(soft_off(&dsdt(b"x\x08\\_S5_\x12\x0a\x04\x0a\x05\x0a\x07\0\0")), Some((5, 7)));
        assert_eq!(soft_off(&dsdt(b"xx\x08_S5_\x12\x46\x00\x04\x01\x01")), Some((1, 1)));
        assert_eq!(soft_off(&dsdt(b"xx\x14_S5_\x12\x06\x04\0\0")), None);
        assert_eq!(soft_off(&dsdt(b"xx\x08_S5_\x12")), None);
        assert_eq!(soft_off(&dsdt(b"")), None);
        assert_eq!(soft_off(b"short"), None);
    }

    #[test]
    fn virtio_devices_of_a_microvm() {
        // As QEMU's microvm has them, _UID and _CCA between.
        let device = |base: u32, line: u32| {
            let mut code =
                b"\x5b\x82\x4aVR00\x08_HID\x0dLNRO0005\0\x08_UID\x0a\x0b\x08_CCA\x01\x08_CRS\x11\x1a\x0a\x17".to_vec();
            code.extend([0x86, 9, 0, 1]);
            code.extend(base.to_le_bytes());
            code.extend(512u32.to_le_bytes());
            code.extend([0x89, 6, 0, 1, 1]);
            code.extend(line.to_le_bytes());
            code.extend([0x79, 0]);
            code
        };
        let code = [device(0xfeb0_0000, 24), b"LNRO0005\0".to_vec(), device(0xfeb0_2e00, 47)].concat();
        let whole = table(b"DSDT", &code);
        let slot = |start, line| Slot { at: Region::new(start, 512), line, edge: false };
        assert_eq!(virtio_slots(&whole), [slot(0xfeb0_0000, 24), slot(0xfeb0_2e00, 47)]);
        for len in 0..whole.len() {
            let _ = virtio_slots(&whole[..len]);
        }
    }

    #[test]
    fn fadt_of_a_pc_and_of_a_reduced_machine() {
        let mut fadt = table(b"FACP", &[0; 232]);
        fadt[40..44].copy_from_slice(&0x7fe_0000u32.to_le_bytes());
        fadt[48..52].copy_from_slice(&0xb2u32.to_le_bytes());
        fadt[52] = 2;
        fadt[64..68].copy_from_slice(&0x604u32.to_le_bytes());
        fadt[76..80].copy_from_slice(&0x608u32.to_le_bytes());
        fadt[112..116].copy_from_slice(&(1u32 << 10).to_le_bytes());
        fadt[116] = 1;
        fadt[120] = 0xf9;
        fadt[121] = 0x0c;
        fadt[128] = 0x0f;
        let parsed = Fadt::parse(&fadt).expect("long enough");
        assert_eq!(parsed.dsdt, 0x7fe_0000);
        assert_eq!(parsed.enable, Some((0xb2, 2)));
        assert_eq!((parsed.pm1a_control, parsed.pm1b_control, parsed.pm_timer), (Some(0x604), None, Some(0x608)));
        assert_eq!(parsed.reset, Some((Register::Port(0xcf9), 0x0f)));
        fadt[112..116].copy_from_slice(&(1u32 << 20).to_le_bytes());
        fadt[248..256].copy_from_slice(&0xfea0_0200u64.to_le_bytes());
        let parsed = Fadt::parse(&fadt).expect("long enough");
        assert_eq!(parsed.pm1a_control, None);
        assert_eq!(parsed.sleep_control, Some(Register::Memory(0xfea0_0200)));
        for len in 0..fadt.len() {
            let _ = Fadt::parse(&fadt[..len]);
        }
    }

    #[test]
    fn mcfg_and_hpet() {
        let mut body = vec![0; 8];
        body.extend([0, 0, 0, 0xb0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 0, 0]);
        assert_eq!(ecam(&table(b"MCFG", &body)), Some(Ecam { address: 0xb000_0000, first_bus: 0, last_bus: 0xff }));
        assert_eq!(ecam(&table(b"MCFG", &[0; 8])), None);
        let hpet_body = [1, 0xa2, 0x86, 0x80, 0, 0, 0, 0, 0, 0, 0xd0, 0xfe, 0, 0, 0, 0, 0];
        assert_eq!(hpet(&table(b"HPET", &hpet_body)), Some(0xfed0_0000));
    }
}
