//! Where memory-mapped virtio devices may be: what a command line says of it.

use alloc::vec::Vec;

use crate::cmdline;
use crate::region::Region;

/// A place for a memory-mapped device (4.2), which may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its registers, physically.
    pub at: Region,
    /// The number of its interrupt line, as [`crate::irq::line`] takes it.
    pub line: u32,
    /// Whether the line is to be taken as edge-triggered.
    pub edge: bool,
}

/// The slots that words `virtio_mmio.device=<size>@<address>:<interrupt>[:<id>]` name. QEMU and Firecracker append one for each
/// device; the form is Linux' (Documentation/admin-guide/kernel-parameters.txt).
pub fn from_cmdline(line: &str) -> Vec<Slot> {
    let words = cmdline::words(line).filter(|word| word.key == cmdline::VIRTIO_MMIO);
    let slot = |value: &str| {
        let slot = parse(value);
        if slot.is_none() {
            log::warn!("{}={value}: not <size>@<address>:<interrupt>", cmdline::VIRTIO_MMIO);
        }
        slot
    };
    words.filter_map(|word| slot(word.value.unwrap_or(""))).collect()
}

fn parse(value: &str) -> Option<Slot> {
    let (size, rest) = value.split_once('@')?;
    let mut rest = rest.split(':');
    let (start, line) = (number(rest.next()?)?, number(rest.next()?)?);
    let at = Region { start, end: start.checked_add(number(size)?)? };
    Some(Slot { at, line: u32::try_from(line).ok()?, edge: false }).filter(|slot| !slot.at.is_empty())
}

/// A number, hexadecimal behind `0x`, perhaps in units of K, M or G.
fn number(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    value.ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_qemu_and_firecracker() {
        let line =
            "log=warn virtio_mmio.device=512@0xfeb00e00:12 virtio_mmio.device=4K@0xd0000000:5:3 virtio_mmio.device=x";
        let slot = |start, len, line| Slot { at: Region::new(start, len), line, edge: false };
        assert_eq!(from_cmdline(line), [slot(0xfeb0_0e00, 512, 12), slot(0xd000_0000, 4096, 5)]);
    }

    #[test]
    fn what_makes_no_sense_is_none() {
        for value in [
            "",
            "@",
            "512@",
            "512@0xfeb00e00",
            "512@0xfeb00e00:",
            "0@1:1",
            "1@0xffffffffffffffff:1",
            "1@1:4294967296",
            "20000000000G@0:1",
            "512@0xg:1",
            "K@1:1",
        ] {
            assert_eq!(parse(value), None, "{value}");
        }
    }
}
