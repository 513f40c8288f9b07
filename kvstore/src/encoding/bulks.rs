//! Many listpack entries as RESP bulk strings: the inner loop of LRANGE and its like.

use alloc::vec::Vec;

use super::listpack::Cursor;
use crate::number::{I64_CHARS, format_i64};

/// Longest output of a short entry (at most 63 bytes), and room for one block copied beyond its end.
pub const SHORT_ROOM: usize = 5 + 63 + 2 + BLOCK;
/// Short strings are copied in one block of this size, whatever their length: cheaper than a call for a few bytes.
const BLOCK: usize = 16;
/// By how much the output is extended at a time.
const STEP: usize = 1024;

/// Appends up to `n` entries to `out`, each as `$<length>\r\n<text>\r\n`, and returns how many there were. Goes no further
/// than the first entry that is neither a short string (less than 64 bytes) nor a small number (13 bits), and than the
/// room which `out` has: it is not made to grow beyond its capacity.
pub fn append_bulks(entries: &mut Cursor<'_>, n: usize, out: &mut Vec<u8>) -> usize {
    let bytes = entries.rest();
    let step = STEP.min(n.saturating_mul(SHORT_ROOM));
    let mut at = out.len();
    let mut pos = 0;
    let mut done = 0;
    'extend: while done < n {
        let more = step.min(out.capacity() - at);
        if more < SHORT_ROOM {
            break;
        }
        out.resize(at + more, 0);
        let extended = out.as_mut_slice();
        // One check a piece: everything else is within arrays of fixed size.
        while let Some(room) = extended.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<SHORT_ROOM>) {
            let Some(rest) = bytes.get(pos..) else { break 'extend };
            let used = match rest.first_chunk::<{ 1 + BLOCK }>() {
                Some(block) if (0x80..0x80 + BLOCK as u8).contains(&block[0]) => {
                    let len = usize::from(block[0] & 0x0F);
                    pos += len + 2;
                    short(room, block, len)
                }
                _ => match any(room, rest) {
                    Some((taken, used)) => {
                        pos += taken;
                        used
                    }
                    None => break 'extend,
                },
            };
            at += used;
            done += 1;
            if done == n {
                break;
            }
        }
    }
    out.truncate(at);
    entries.skip_bytes(pos);
    done
}

/// A string of less than [`BLOCK`] bytes with so much behind it that a whole block can be read. Returns its length as a
/// bulk string.
#[inline]
fn short(room: &mut [u8; SHORT_ROOM], entry: &[u8; 1 + BLOCK], len: usize) -> usize {
    let len = len & (BLOCK - 1);
    let block: &[u8] = &entry[1..];
    let head = if len < 10 {
        room[..4].copy_from_slice(&[b'$', b'0' + len as u8, b'\r', b'\n']);
        room[4..4 + BLOCK].copy_from_slice(block);
        4
    } else {
        room[..5].copy_from_slice(&[b'$', b'1', b'0' + len as u8 - 10, b'\r', b'\n']);
        room[5..5 + BLOCK].copy_from_slice(block);
        5
    };
    room[head + len..head + len + 2].copy_from_slice(b"\r\n");
    head + len + 2
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
    let len = text.len();
    let head = if len < 10 {
        room[..4].copy_from_slice(&[b'$', b'0' + len as u8, b'\r', b'\n']);
        4
    } else {
        room[..5].copy_from_slice(&[b'$', b'0' + len as u8 / 10, b'0' + len as u8 % 10, b'\r', b'\n']);
        5
    };
    room[head..head + len].copy_from_slice(text);
    room[head + len..head + len + 2].copy_from_slice(b"\r\n");
    Some((taken, head + len + 2))
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec;

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
                out.reserve_exact(1500);
                let capacity = out.capacity();
                let some = append_bulks(&mut cursor, n - done, &mut out);
                assert_eq!(out.capacity(), capacity);
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
}
