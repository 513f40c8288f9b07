//! Ziplists, which servers before Redis 7 used where listpacks are used now: read only, into listpacks.
//!
//! `<bytes u32> <offset of the last u32> <entries u16> <entry>* 0xFF`; an entry is the previous one's length (1 byte, or
//! 0xFE and 4), its encoding, and its data.

use crate::encoding::Listpack;

const HEADER_LEN: usize = 10;

/// The entries as a listpack. None if the bytes are not one well-formed ziplist.
pub fn to_listpack(bytes: &[u8]) -> Option<Listpack> {
    let total = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    let count = u16::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
    if total != bytes.len() || bytes.last() != Some(&0xFF) {
        return None;
    }
    let mut lp = Listpack::new();
    let end = bytes.len().checked_sub(1)?;
    let mut at = HEADER_LEN;
    let mut previous_len = 0;
    while at < end {
        let start = at;
        let entry = bytes.get(at..end)?;
        let (stored, width) = match *entry.first()? {
            0xFE => (u32::from_le_bytes(*entry.get(1..)?.first_chunk()?) as usize, 5),
            0xFF => return None,
            n => (usize::from(n), 1),
        };
        if stored != previous_len {
            return None;
        }
        at += width + push(&mut lp, entry.get(width..)?)?;
        previous_len = at - start;
    }
    (at == end && (count == u16::MAX || usize::from(count) == lp.len())).then_some(lp)
}

/// Appends the entry whose encoding `body` starts with; its length.
fn push(lp: &mut Listpack, body: &[u8]) -> Option<usize> {
    let first = *body.first()?;
    let mut string = |header: usize, len: usize| {
        lp.push_back(body.get(header..header.checked_add(len)?)?);
        Some(header + len)
    };
    match first >> 6 {
        0 => return string(1, usize::from(first & 0x3F)),
        1 => return string(2, usize::from(first & 0x3F) << 8 | usize::from(*body.get(1)?)),
        2 => return string(5, u32::from_be_bytes(*body.get(1..)?.first_chunk()?) as usize),
        _ => {}
    }
    let number = body.get(1..)?;
    let (value, len) = match first {
        0xC0 => (i64::from(i16::from_le_bytes(*number.first_chunk()?)), 3),
        0xD0 => (i64::from(i32::from_le_bytes(*number.first_chunk()?)), 5),
        0xE0 => (i64::from_le_bytes(*number.first_chunk()?), 9),
        0xF0 => {
            let [a, b, c] = *number.first_chunk()?;
            (i64::from(i32::from_le_bytes([0, a, b, c]) >> 8), 4)
        }
        0xFE => (i64::from(*number.first()? as i8), 2),
        0xF1..=0xFD => (i64::from(first & 0x0F) - 1, 1),
        _ => return None,
    };
    lp.insert_int(lp.end(), value);
    Some(len)
}
