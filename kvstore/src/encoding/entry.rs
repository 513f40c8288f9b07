//! Entries of a listpack: their bytes, and the values that they are.
//!
//! An entry is its encoding (in the first byte), its data, and the length of both ("backlen").

use alloc::vec::Vec;

use barium_cell::OutOfMemory;

use crate::number::{I64_CHARS, format_i64, parse_i64};

/// One element, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A string that is no canonical decimal integer.
    Str(&'a [u8]),
    /// An integer; its text is the canonical decimal one.
    Int(i64),
}

impl<'a> Entry<'a> {
    /// The element's text; an integer is printed into `buf`.
    pub fn bytes<'b>(self, buf: &'b mut [u8; I64_CHARS]) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Entry::Str(s) => s,
            Entry::Int(v) => format_i64(buf, v),
        }
    }

    /// The element's text in a buffer of its own.
    pub fn to_vec(self) -> Vec<u8> {
        self.bytes(&mut [0; I64_CHARS]).to_vec()
    }

    /// Length of the element's text.
    pub fn text_len(self) -> usize {
        match self {
            Entry::Str(s) => s.len(),
            Entry::Int(v) => format_i64(&mut [0; I64_CHARS], v).len(),
        }
    }

    /// The element as an integer, if its text is one.
    pub fn as_int(self) -> Option<i64> {
        match self {
            // Longer listpacks from elsewhere may hold small integers as strings.
            Entry::Str(s) => parse_i64(s),
            Entry::Int(v) => Some(v),
        }
    }

    /// Whether the element's text is `needle`.
    pub fn is(self, needle: &[u8]) -> bool {
        self.matches(needle, parse_i64(needle))
    }

    /// As [`is`](Self::is), for many elements: the needle comes with the number that it is the text of, if it is one.
    #[inline]
    pub fn matches(self, needle: &[u8], number: Option<i64>) -> bool {
        match self {
            Entry::Str(s) => s == needle,
            Entry::Int(v) => number == Some(v),
        }
    }

    /// As [`to_vec`](Self::to_vec), when the length was up to a client.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn try_to_vec(self) -> Result<Vec<u8>, OutOfMemory> {
        let mut buf = [0; I64_CHARS];
        let text = self.bytes(&mut buf);
        let mut copy = Vec::new();
        copy.try_reserve_exact(text.len()).map_err(|_| OutOfMemory)?;
        copy.extend_from_slice(text);
        Ok(copy)
    }
}

/// An element ready to be written as an entry.
pub enum Encoded<'a> {
    /// A string.
    Str(&'a [u8]),
    /// An integer.
    Int(i64),
}

impl<'a> From<Entry<'a>> for Encoded<'a> {
    fn from(entry: Entry<'a>) -> Self {
        match entry {
            Entry::Str(s) => Encoded::of(s),
            Entry::Int(v) => Encoded::Int(v),
        }
    }
}

impl<'a> Encoded<'a> {
    /// A text, as an integer if it is one.
    pub fn of(element: &'a [u8]) -> Self {
        match parse_i64(element) {
            Some(v) => Encoded::Int(v),
            None => Encoded::Str(element),
        }
    }

    /// An integer.
    pub fn of_int(value: i64) -> Self {
        Encoded::Int(value)
    }

    /// Bytes before the backlen.
    fn body_len(&self) -> usize {
        match self {
            Encoded::Str(s) if s.len() < 64 => 1 + s.len(),
            Encoded::Str(s) if s.len() < 4096 => 2 + s.len(),
            Encoded::Str(s) => 5 + s.len(),
            Encoded::Int(0..=127) => 1,
            Encoded::Int(-4096..=4095) => 2,
            Encoded::Int(-0x8000..=0x7FFF) => 3,
            Encoded::Int(-0x80_0000..=0x7F_FFFF) => 4,
            Encoded::Int(-0x8000_0000..=0x7FFF_FFFF) => 5,
            Encoded::Int(_) => 9,
        }
    }

    /// Length of the whole entry, in bytes.
    pub fn entry_len(&self) -> usize {
        let body = self.body_len();
        body + backlen_width(body)
    }

    /// Writes the entry, which `out` is as long as.
    pub fn write(&self, out: &mut [u8]) {
        let body = self.body_len();
        match *self {
            Encoded::Str(s) => {
                let header = body - s.len();
                match header {
                    1 => out[0] = 0x80 | s.len() as u8,
                    2 => {
                        out[0] = 0xE0 | (s.len() >> 8) as u8;
                        out[1] = s.len() as u8;
                    }
                    _ => {
                        out[0] = 0xF0;
                        out[1..5].copy_from_slice(&(s.len() as u32).to_le_bytes());
                    }
                }
                out[header..body].copy_from_slice(s);
            }
            Encoded::Int(v) => match body {
                1 => out[0] = v as u8,
                2 => {
                    // 13 bits of two's complement, high bits first.
                    let bits = (v as u16) & 0x1FFF;
                    out[0] = 0xC0 | (bits >> 8) as u8;
                    out[1] = bits as u8;
                }
                _ => {
                    out[0] = match body {
                        3 => 0xF1,
                        4 => 0xF2,
                        5 => 0xF3,
                        _ => 0xF4,
                    };
                    out[1..body].copy_from_slice(&v.to_le_bytes()[..body - 1]);
                }
            },
        }
        write_backlen(body, &mut out[body..]);
    }
}

/// Bytes that an entry would take for `element`: what a size limit counts before it is added.
pub fn encoded_len(element: &[u8]) -> usize {
    Encoded::of(element).entry_len()
}

pub fn backlen_width(body: usize) -> usize {
    // The format's own limits, odd ones included.
    match body {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    }
}

fn write_backlen(body: usize, out: &mut [u8]) {
    let width = backlen_width(body);
    for (i, byte) in out[..width].iter_mut().enumerate() {
        let bits = (body >> (7 * (width - 1 - i))) as u8 & 0x7F;
        *byte = if i == 0 { bits } else { bits | 0x80 };
    }
}

/// Reads the backlen that ends before `end`: (length of the body, width of the backlen).
pub fn read_backlen(bytes: &[u8], end: usize) -> Option<(usize, usize)> {
    let mut len = 0;
    for width in 1..=5 {
        let byte = *bytes.get(end.checked_sub(width)?)?;
        len |= usize::from(byte & 0x7F) << (7 * (width - 1));
        if byte & 0x80 == 0 {
            return Some((len, width));
        }
    }
    None
}

/// Length of the body of the entry that `b` starts with, from its first bytes.
#[inline]
pub fn body_len(b: &[u8]) -> usize {
    match b[0] {
        0..=0x7F => 1,
        n @ 0x80..=0xBF => 1 + usize::from(n & 0x3F),
        0xC0..=0xDF => 2,
        n @ 0xE0..=0xEF => 2 + (usize::from(n & 0x0F) << 8 | usize::from(b[1])),
        0xF0 => 5 + u32::from_le_bytes([b[1], b[2], b[3], b[4]]) as usize,
        0xF1 => 3,
        0xF2 => 4,
        0xF3 => 5,
        _ => 9,
    }
}

/// Length of the entry that `b` starts with, backlen included.
#[inline]
pub fn entry_len(b: &[u8]) -> usize {
    let body = body_len(b);
    body + backlen_width(body)
}

/// The entry that `b` starts with, and its length.
#[inline]
pub fn decode(b: &[u8]) -> (Entry<'_>, usize) {
    let first = b[0];
    // The two commonest first.
    if first & 0xC0 == 0x80 {
        let end = 1 + usize::from(first & 0x3F);
        return (Entry::Str(&b[1..end]), end + 1);
    }
    if first & 0x80 == 0 {
        return (Entry::Int(i64::from(first)), 2);
    }
    let body = body_len(b);
    let entry = match first {
        0xC0..=0xDF => {
            let bits = u16::from(first & 0x1F) << 8 | u16::from(b[1]);
            // Moves the 13-bit sign to the top and back.
            Entry::Int(i64::from((bits << 3) as i16 >> 3))
        }
        0xE0..=0xEF => Entry::Str(&b[2..body]),
        0xF0 => Entry::Str(&b[5..body]),
        _ => {
            let mut wide = [if b[body - 1] & 0x80 == 0 { 0 } else { 0xFF }; 8];
            wide[..body - 1].copy_from_slice(&b[1..body]);
            Entry::Int(i64::from_le_bytes(wide))
        }
    };
    (entry, body + backlen_width(body))
}
