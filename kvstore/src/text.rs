//! Bytes as text.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

/// At most `max` bytes as text, bytes that are not UTF-8 replaced.
pub fn readable(bytes: &[u8], max: usize) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(max)]).into_owned()
}

/// The same up to the first zero byte, as Redis's messages show what a client sent.
pub fn printable(bytes: &[u8], max: usize) -> String {
    readable(bytes.split(|&b| b == 0).next().unwrap_or_default(), max)
}

/// Bytes in double quotes with escapes, as Redis's `sdscatrepr` writes them (MONITOR).
pub fn quoted(out: &mut String, bytes: &[u8]) {
    out.push('"');
    for &b in bytes {
        match b {
            b'\\' | b'"' => {
                out.push('\\');
                out.push(b as char);
            }
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            7 => out.push_str("\\a"),
            8 => out.push_str("\\b"),
            0x20..=0x7e => out.push(b as char),
            _ => {
                let _ = write!(out, "\\x{b:02x}");
            }
        }
    }
    out.push('"');
}

/// Whether a byte is white space in C's sense.
pub const fn is_space(b: u8) -> bool {
    b.is_ascii_whitespace() || b == 0x0b
}

/// The word of a line that begins at `at`, with shell-like quotes as Redis's `sdssplitargs` reads them, and where it ends.
/// None: the quotes are not balanced.
pub fn quoted_word(line: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
    #[derive(PartialEq)]
    enum In {
        Plain,
        Double,
        Single,
    }
    let mut word = Vec::new();
    let mut state = In::Plain;
    // After a closing quote there must be a space or the end.
    let closed = |next: Option<&u8>| next.is_none_or(|b| is_space(*b) || *b == 0);
    loop {
        let byte = line.get(at).copied().filter(|&b| b != 0);
        match (&state, byte) {
            (In::Plain, None) => return Some((word, at)),
            (_, None) => return None,
            (In::Plain, Some(b)) if is_space(b) => return Some((word, at)),
            (In::Plain, Some(b'"')) => state = In::Double,
            (In::Plain, Some(b'\'')) => state = In::Single,
            (In::Double, Some(b'"')) | (In::Single, Some(b'\'')) => {
                return if closed(line.get(at + 1)) { Some((word, at + 1)) } else { None };
            }
            (In::Double, Some(b'\\')) => {
                let hex = |i: usize| line.get(at + i).and_then(|&b| (b as char).to_digit(16));
                if line.get(at + 1) == Some(&b'x')
                    && let (Some(high), Some(low)) = (hex(2), hex(3))
                {
                    word.push((high * 16 + low) as u8);
                    at += 3;
                } else if let Some(&escaped) = line.get(at + 1) {
                    at += 1;
                    word.push(match escaped {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'b' => 8,
                        b'a' => 7,
                        other => other,
                    });
                } else {
                    word.push(b'\\');
                }
            }
            (In::Single, Some(b'\\')) if line.get(at + 1) == Some(&b'\'') => {
                at += 1;
                word.push(b'\'');
            }
            (_, Some(b)) => word.push(b),
        }
        at += 1;
    }
}

/// The words of a line, with quotes as in [`quoted_word`]. None: the quotes are not balanced.
pub fn split_arguments(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        at += line[at..].iter().take_while(|b| is_space(**b)).count();
        // A NUL ends the line there, as it ends a C string.
        if line.get(at).is_none_or(|b| *b == 0) {
            return Some(words);
        }
        let (word, next) = quoted_word(line, at)?;
        words.push(word);
        at = next;
    }
}
