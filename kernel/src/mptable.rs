//! The multiprocessor table (MultiProcessor Specification 1.4, chapter 4), read from bytes: what a PC without ACPI tables says
//! of its CPUs and interrupt controllers, in the same form as ACPI's MADT.

use crate::acpi::{IoApicEntry, Madt, Override};

/// Length of the floating pointer.
pub const POINTER: usize = 16;
/// Length of the table's header.
pub const HEADER: usize = 44;

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |word| u16::from_le_bytes([word[0], word[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

/// The table's physical address, from the floating pointer (4.1) if there is one at the beginning of `bytes`.
pub fn pointer(bytes: &[u8]) -> Option<u64> {
    let bytes = bytes.get(..POINTER)?;
    let table = u32_at(bytes, 4);
    (&bytes[..4] == b"_MP_" && bytes[8] == 1 && sum(bytes) == 0 && table != 0).then_some(table.into())
}

/// The length of the table whose header (4.2) is at the beginning of `bytes`.
pub fn len(bytes: &[u8]) -> Option<usize> {
    let len = usize::from(u16_at(bytes, 4));
    (bytes.len() >= HEADER && &bytes[..4] == b"PCMP" && len >= HEADER).then_some(len)
}

/// What a whole table says (4.3). Interrupts of buses other than ISA are left out. The table's length says where it ends: QEMU's
/// qboot leaves its number of entries at 0.
pub fn parse(table: &[u8]) -> Option<Madt> {
    if len(table)? != table.len() || sum(table) != 0 {
        return None;
    }
    let mut madt = Madt { local_apic: u32_at(table, 36).into(), ..Madt::default() };
    let mut isa = None;
    let mut rest = &table[HEADER..];
    while let Some(&kind) = rest.first() {
        let (entry, behind) = rest.split_at_checked(if kind == 0 { 20 } else { 8 })?;
        rest = behind;
        const ENABLED: u8 = 1;
        const VECTORED: u8 = 0;
        match kind {
            0 if entry[3] & ENABLED != 0 => madt.cpus.push(entry[1].into()),
            1 if entry[2..].starts_with(b"ISA") => isa = Some(entry[1]),
            // The lines of several controllers are not numbered through: only the first one's can be named.
            2 if entry[3] & ENABLED != 0 && madt.io_apics.is_empty() => {
                madt.io_apics.push(IoApicEntry { address: u32_at(entry, 4).into(), first_line: 0 });
            }
            3 if entry[1] == VECTORED && Some(entry[4]) == isa => {
                let flags = u16_at(entry, 2);
                madt.overrides.push(Override {
                    source: entry[5],
                    line: entry[7].into(),
                    active_low: flags & 3 == 3,
                    level: flags >> 2 & 3 == 3,
                });
            }
            _ => {}
        }
    }
    Some(madt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn closed(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
        bytes[at] = 0;
        bytes[at] = 0u8.wrapping_sub(sum(&bytes));
        bytes
    }

    fn table() -> Vec<u8> {
        let mut bytes = b"PCMP".to_vec();
        bytes.resize(HEADER, 0);
        bytes[36..40].copy_from_slice(&0xfee0_0000u32.to_le_bytes());
        let cpu = |apic: u8, flags: u8| [&[0, apic, 0x14, flags][..], &[0; 16]].concat();
        bytes.extend([cpu(0, 3), cpu(1, 1), cpu(2, 0)].concat());
        bytes.extend(b"\x01\x00PCI   ");
        bytes.extend(b"\x01\x01ISA   ");
        bytes.extend([2, 3, 0x14, 1, 0, 0, 0xc0, 0xfe]);
        bytes.extend([3, 0, 0, 0, 1, 0, 3, 2]);
        bytes.extend([3, 0, 0x0f, 0, 1, 12, 3, 12]);
        bytes.extend([3, 0, 0, 0, 0, 5, 3, 17]);
        bytes.extend([4, 3, 0, 0, 1, 0, 0, 0]);
        let len = bytes.len() as u16;
        bytes[4..6].copy_from_slice(&len.to_le_bytes());
        closed(bytes, 7)
    }

    #[test]
    fn pointer_with_a_right_sum() {
        let mut bytes = b"_MP_\x10\xfc\x09\x00\x01\x04\x00\x00\x00\x00\x00\x00".to_vec();
        bytes = closed(bytes, 10);
        assert_eq!(pointer(&bytes), Some(0x9_fc10));
        bytes[4] ^= 1;
        assert_eq!(pointer(&bytes), None);
        assert_eq!(pointer(b"_MP_"), None);
    }

    #[test]
    fn cpus_controllers_and_lines() {
        let table = table();
        assert_eq!(len(&table), Some(table.len()));
        let madt = parse(&table).expect("sound");
        assert_eq!((madt.local_apic, &madt.cpus[..]), (0xfee0_0000, &[0, 1][..]));
        assert_eq!(madt.io_apics, [IoApicEntry { address: 0xfec0_0000, first_line: 0 }]);
        let line = |source, line, active_low, level| Override { source, line, active_low, level };
        assert_eq!(madt.overrides, [line(0, 2, false, false), line(12, 12, true, true)]);
    }

    #[test]
    fn what_is_cut_short_or_changed_is_none() {
        let whole = table();
        for len in 0..whole.len() {
            assert_eq!(parse(&whole[..len]), None);
        }
        let mut cut = whole[..whole.len() - 1].to_vec();
        cut[4] -= 1;
        assert_eq!(parse(&closed(cut, 7)), None, "the last entry is not whole");
        let mut changed = whole;
        changed[50] ^= 4;
        assert_eq!(parse(&changed), None);
    }
}
