//! Listpack entries and other short texts as RESP bulk strings: the inner loop of LRANGE and its like.

use super::listpack::Cursor;
use crate::number::{I64_CHARS, format_i64};

/// Room for the longest bulk string that [`short_bulk`] writes (of 99 bytes).
pub const SHORT_ROOM: usize = 128;
/// Most bytes of output that [`write_bulks`] has a use for at once.
pub const WINDOW_ROOM: usize = 2 * IN + OUT_BEYOND;

/// Tiny strings, of up to eight bytes, are copied window by window: entries out of arrays and bulk strings into arrays twice
/// as long, powers of two, so that a mask takes the place of each check. So many bytes of entries (a mask of eight bits comes
/// for free with some loads);
const IN: usize = 256;
/// so many near the end;
const FEW_IN: usize = 64;
/// and what is read and written beyond the last entry that begins in a window: they are copied in a block of eight bytes,
/// whatever their length.
const IN_BEYOND: usize = 1 + TINY;
const OUT_BEYOND: usize = 4 + 15 + 2;
const TINY: usize = 8;
/// How many other entries are copied before the next look for tiny ones.
const OTHERS: usize = 8;

/// By an entry's first byte, what stands before its text if it is a tiny string; else 0.
const HEADS: [u32; 256] = {
    let mut heads = [0; 256];
    let mut len = 0;
    while len <= TINY {
        heads[0x80 + len] = u32::from_le_bytes([b'$', b'0' + len as u8, b'\r', b'\n']);
        len += 1;
    }
    heads
};

/// Writes up to `n` entries to `room`, each as `$<length>\r\n<text>\r\n`; how many there were, and how many bytes they take.
/// Goes no further than the first entry that is neither a short string (less than 64 bytes) nor a small number (13 bits), and
/// stops when there are less than [`SHORT_ROOM`] bytes of room.
pub fn write_bulks(entries: &mut Cursor<'_>, n: usize, room: &mut [u8]) -> (usize, usize) {
    let bytes = entries.rest();
    let mut rest = bytes;
    let (mut at, mut left) = (0, n);
    'all: while left > 0 {
        let Some(to) = room.get_mut(at..) else { break };
        let (done, used) = if let (Some(from), Some(to)) = (rest.first_chunk(), to.first_chunk_mut()) {
            tiny::<IN, { IN + IN_BEYOND }, { 2 * IN + OUT_BEYOND }>(from, to, left)
        } else if let (Some(from), Some(to)) = (rest.first_chunk(), to.first_chunk_mut()) {
            tiny::<FEW_IN, { FEW_IN + IN_BEYOND }, { 2 * FEW_IN + OUT_BEYOND }>(from, to, left)
        } else {
            (0, 0)
        };
        if done > 0 {
            at += used;
            left -= done;
            // A tiny string takes four bytes more as a bulk string than as an entry.
            rest = rest.get(used - 4 * done..).unwrap_or_default();
            continue;
        }
        for _ in 0..OTHERS.min(left) {
            let Some(to) = room.get_mut(at..).and_then(<[u8]>::first_chunk_mut) else { break 'all };
            let Some((taken, used)) = any(to, rest) else { break 'all };
            at += used;
            left -= 1;
            rest = rest.get(taken..).unwrap_or_default();
        }
    }
    entries.skip_bytes(bytes.len() - rest.len());
    (n - left, at)
}

/// As many tiny strings as fit for sure, up to `n`, as bulk strings: how many, and the length of the output. `WINDOW` is a power of
/// two; `FROM` and `TO` are it and its double with what may be read and written beyond.
#[inline(always)]
fn tiny<const WINDOW: usize, const FROM: usize, const TO: usize>(
    from: &[u8; FROM],
    to: &mut [u8; TO],
    n: usize,
) -> (usize, usize) {
    // The longest takes ten bytes there and fourteen here, less than twice as many.
    let n = n.min(WINDOW / (1 + TINY + 1));
    let (mut pos, mut at, mut left) = (0, 0, n);
    while left > 0 {
        let entry = &from[pos & (WINDOW - 1)..][..IN_BEYOND];
        let head = HEADS[usize::from(entry[0])];
        if head == 0 {
            break;
        }
        let len = usize::from(entry[0] & 15);
        let room = &mut to[at & (2 * WINDOW - 1)..][..OUT_BEYOND];
        room[..4].copy_from_slice(&head.to_le_bytes());
        room[4..4 + TINY].copy_from_slice(&entry[1..]);
        room[4 + len..4 + len + 2].copy_from_slice(b"\r\n");
        pos += len + 2;
        at += len + 6;
        left -= 1;
    }
    (n - left, at)
}

/// Any entry that is short, as a bulk string: bytes read and bytes written.
fn any(room: &mut [u8; SHORT_ROOM], rest: &[u8]) -> Option<(usize, usize)> {
    let first = *rest.first()?;
    let mut buf = [0; I64_CHARS];
    let (text, taken) = match first {
        0..0x80 => (format_i64(&mut buf, i64::from(first)), 2),
        0x80..0xC0 => {
            let len = usize::from(first & 0x3F);
            (rest.get(1..1 + len)?, len + 2)
        }
        0xC0..0xE0 => {
            let bits = u16::from(first) << 8 | u16::from(*rest.get(1)?);
            (format_i64(&mut buf, i64::from((bits << 3) as i16 >> 3)), 3)
        }
        _ => return None,
    };
    Some((taken, short_bulk(room, text)))
}

/// Writes a bulk string of less than 100 bytes; returns how long it is with its header.
#[inline(always)]
pub fn short_bulk(room: &mut [u8; SHORT_ROOM], bytes: &[u8]) -> usize {
    let n = bytes.len().min(99);
    let head = if n < 10 {
        room[..4].copy_from_slice(&[b'$', b'0' + n as u8, b'\r', b'\n']);
        4
    } else {
        room[..5].copy_from_slice(&[b'$', b'0' + (n / 10) as u8, b'0' + (n % 10) as u8, b'\r', b'\n']);
        5
    };
    barium_cell::copy_short(&mut room[head..head + n], bytes);
    room[head + n..head + n + 2].copy_from_slice(b"\r\n");
    head + n + 2
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::encoding::Listpack;

    #[test]
    fn as_if_written_one_by_one() {
        let mut lp = Listpack::new();
        let mut expected = Vec::new();
        for i in 0..2000usize {
            let text = match i % 7 {
                0 => format!("{}", i as i64 - 1000).into_bytes(),
                1 => vec![b'a'; i % 64],
                2 => format!("{}", i as u64 * 1_000_000_007).into_bytes(),
                3 if i % 5 == 0 => vec![b'b'; i],
                // Long stretches of tiny ones.
                _ if i / 300 % 2 == 1 => vec![b'd'; i % 9],
                _ => vec![b'c'; i % 20],
            };
            lp.push_back(&text);
            expected.push(text);
        }
        for (from, n) in [(0, 2000), (0, 3000), (10, 0), (1999, 1), (500, 700)] {
            let mut cursor = lp.iter_from(lp.seek(from).unwrap());
            let from = from as usize;
            let mut done = 0;
            let mut out = b"*".to_vec();
            let mut fast = 0;
            while done < n {
                // Room of every size, around those of the windows too.
                let mut room = vec![0; SHORT_ROOM + done * 7 % 2_500];
                let (some, used) = write_bulks(&mut cursor, n - done, &mut room);
                out.extend_from_slice(&room[..used]);
                (done, fast) = (done + some, fast + some);
                if done == n {
                    break;
                }
                let Some(entry) = cursor.next() else { break };
                out.extend_from_slice(format!("${}\r\n", entry.text_len()).as_bytes());
                out.extend_from_slice(&entry.to_vec());
                out.extend_from_slice(b"\r\n");
                done += 1;
            }
            assert_eq!(done, n.min(2000 - from));
            assert!(fast * 2 >= done);
            let mut want = b"*".to_vec();
            for text in &expected[from..from + done] {
                want.extend_from_slice(format!("${}\r\n", text.len()).as_bytes());
                want.extend_from_slice(text);
                want.extend_from_slice(b"\r\n");
            }
            assert!(out == want);
        }
    }

    #[test]
    fn short_bulk_strings_of_every_length() {
        let text: Vec<u8> = (0..99).collect();
        for n in 0..=99 {
            let mut room = [b'?'; SHORT_ROOM];
            let written = short_bulk(&mut room, &text[..n]);
            let want = [format!("${n}\r\n").as_bytes(), &text[..n], b"\r\n"].concat();
            assert!(room[..written] == want, "{n}");
        }
    }
}
