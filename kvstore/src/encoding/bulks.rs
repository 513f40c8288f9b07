//! Many listpack entries as RESP bulk strings: the inner loop of LRANGE and its like.

use alloc::vec::Vec;

use super::listpack::{Cursor, Entry};
use crate::number::{I64_CHARS, format_i64, format_u64};

/// Longest output of a short entry (at most 63 bytes), and room for one block copied beyond its end.
const SHORT_ROOM: usize = 5 + 63 + 2 + BLOCK;
/// Short strings are copied in one block of this size, whatever their length: cheaper than a call for a few bytes.
const BLOCK: usize = 16;
/// By how much the output is extended at a time.
const STEP: usize = 1024;

/// Appends up to `n` entries to `out`, each as `$<length>\r\n<text>\r\n`, and returns how many there were. Stops early
/// once `out` has grown beyond `max` bytes.
pub fn append_bulks(entries: &mut Cursor<'_>, n: usize, out: &mut Vec<u8>, max: usize) -> usize {
    let mut done = 0;
    while done < n {
        done += append_short(entries, n - done, out, max);
        if done == n || out.len() > max {
            break;
        }
        let Some(entry) = entries.next() else { break };
        append_bulk(entry, out);
        done += 1;
    }
    done
}

/// Appends one bulk string.
pub fn append_bulk(entry: Entry<'_>, out: &mut Vec<u8>) {
    let mut buf = [0; I64_CHARS];
    let text = entry.bytes(&mut buf);
    out.push(b'$');
    out.extend_from_slice(format_u64(&mut [0; I64_CHARS], text.len() as u64));
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// As long as entries are short strings or numbers of one or two bytes.
fn append_short(entries: &mut Cursor<'_>, n: usize, out: &mut Vec<u8>, max: usize) -> usize {
    let bytes = entries.rest();
    let mut at = out.len();
    let mut pos = 0;
    let mut done = 0;
    while done < n {
        if out.len() - at < SHORT_ROOM {
            if at > max {
                break;
            }
            out.resize(at + STEP, 0);
        }
        let Some(&first) = bytes.get(pos) else { break };
        let Some(room) = out.get_mut(at..at + SHORT_ROOM) else { break };
        let used = if first & 0xC0 == 0x80 {
            let len = usize::from(first & 0x3F);
            let head = if len < 10 {
                room[..4].copy_from_slice(&[b'$', b'0' + len as u8, b'\r', b'\n']);
                4
            } else {
                let (tens, ones) = (len as u8 / 10, len as u8 % 10);
                room[..5].copy_from_slice(&[b'$', b'0' + tens, b'0' + ones, b'\r', b'\n']);
                5
            };
            match bytes.get(pos + 1..pos + 1 + BLOCK) {
                Some(block) if len <= BLOCK => room[head..head + BLOCK].copy_from_slice(block),
                _ => match bytes.get(pos + 1..pos + 1 + len) {
                    Some(text) => room[head..head + len].copy_from_slice(text),
                    None => break,
                },
            }
            room[head + len..head + len + 2].copy_from_slice(b"\r\n");
            pos += len + 2;
            head + len + 2
        } else if first < 0xE0 {
            // A number of at most four digits and a sign.
            let value = if first < 0x80 {
                pos += 2;
                i64::from(first)
            } else {
                let Some(&low) = bytes.get(pos + 1) else { break };
                pos += 3;
                i64::from(((u16::from(first) << 8 | u16::from(low)) << 3) as i16 >> 3)
            };
            let mut buf = [0; I64_CHARS];
            let text = format_i64(&mut buf, value);
            room[..4].copy_from_slice(&[b'$', b'0' + text.len() as u8, b'\r', b'\n']);
            room[4..4 + text.len()].copy_from_slice(text);
            room[4 + text.len()..6 + text.len()].copy_from_slice(b"\r\n");
            6 + text.len()
        } else {
            break;
        };
        at += used;
        done += 1;
    }
    out.truncate(at);
    entries.skip_bytes(pos);
    done
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
            let mut out = b"*".to_vec();
            let pos = lp.seek(from).unwrap();
            let done = append_bulks(&mut lp.iter_from(pos), n, &mut out, usize::MAX);
            let from = from as usize;
            assert_eq!(done, n.min(2000 - from));
            let mut want = b"*".to_vec();
            for text in &expected[from..from + done] {
                want.extend_from_slice(format!("${}\r\n", text.len()).as_bytes());
                want.extend_from_slice(text);
                want.extend_from_slice(b"\r\n");
            }
            assert!(out == want);
        }
        let mut out = Vec::new();
        let done = append_bulks(&mut lp.iter_from(6), 2000, &mut out, 5000);
        assert!(done < 2000 && out.len() > 5000 && out.len() < 9000);
    }
}
