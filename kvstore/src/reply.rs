//! Writes replies into a session's output, in the protocol version that the session speaks.

use crate::encoding::bulks::short_bulk;
use crate::error::Error;
use crate::number::double::F64_CHARS;
use crate::number::{I64_CHARS, format_f64, format_i64, format_u64};
use crate::session::output::{Mark, Output, Shared};

/// Values from this size on are sent from where they lie, in bytes.
pub const BY_REFERENCE: usize = 16 * 1024;

/// A reply writer. Each method writes one complete value, or the header of an aggregate whose elements the caller then
/// writes.
#[derive(Debug)]
pub struct Reply<'a> {
    /// Where it goes.
    pub out: &'a mut Output,
    /// Whether the session speaks RESP3.
    pub resp3: bool,
}

/// An aggregate whose length is not yet known; [`Reply::end`] must follow.
#[must_use = "the header must be put in with `end`"]
#[derive(Clone, Copy, Debug)]
pub struct Deferred(Mark);

/// Kinds of aggregates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Array.
    Array,
    /// Set; an array in RESP2.
    Set,
    /// Map, counted in pairs; an array of twice the length in RESP2.
    Map,
    /// Out-of-band push; an array in RESP2.
    Push,
}

impl Reply<'_> {
    /// The same writer for a shorter time.
    pub fn reborrow(&mut self) -> Reply<'_> {
        Reply { out: self.out, resp3: self.resp3 }
    }

    /// Raw protocol bytes.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.write(bytes);
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.write_block(b"+OK\r\n\0\0\0", 5);
    }

    /// A simple string (without line ends).
    pub fn simple(&mut self, text: &str) {
        self.raw(b"+");
        self.raw(text.as_bytes());
        self.raw(b"\r\n");
    }

    /// An error. Line ends inside are sent as spaces.
    pub fn error(&mut self, error: &Error) {
        self.raw(b"-");
        let text = error.text().trim_end_matches(['\r', '\n']);
        for (i, part) in text.split(['\r', '\n']).enumerate() {
            if i > 0 {
                self.raw(b" ");
            }
            self.raw(part.as_bytes());
        }
        self.raw(b"\r\n");
    }

    /// A type byte, a number and a line end.
    #[inline]
    fn header(&mut self, kind: u8, n: u64) {
        if n < 10 {
            return self.out.write_block(&[kind, b'0' + n as u8, b'\r', b'\n'], 4);
        }
        self.long_header(kind, n);
    }

    fn long_header(&mut self, kind: u8, n: u64) {
        let mut line = [kind; I64_CHARS + 3];
        let mut buf = [0; I64_CHARS];
        let digits = format_u64(&mut buf, n);
        line[1..=digits.len()].copy_from_slice(digits);
        line[digits.len() + 1..digits.len() + 3].copy_from_slice(b"\r\n");
        self.out.write(&line[..digits.len() + 3]);
    }

    /// An integer.
    #[inline]
    pub fn int(&mut self, n: i64) {
        if n >= 0 {
            return self.header(b':', n as u64);
        }
        let mut buf = [0; I64_CHARS];
        let text = format_i64(&mut buf, n);
        self.raw(b":");
        self.raw(text);
        self.raw(b"\r\n");
    }

    /// A count as an integer.
    #[inline]
    pub fn count(&mut self, n: usize) {
        self.header(b':', n as u64);
    }

    /// A bulk string.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        match self.out.spare_mut().first_chunk_mut() {
            Some(room) if bytes.len() < 100 => {
                let written = short_bulk(room, bytes);
                self.out.wrote(written);
            }
            _ => self.long_bulk(bytes),
        }
    }

    fn long_bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len() as u64);
        self.raw(bytes);
        self.raw(b"\r\n");
    }

    /// A bulk string that is not copied if it is large.
    pub fn bulk_shared(&mut self, value: &Shared) {
        if value.len() < BY_REFERENCE {
            return self.bulk(value);
        }
        self.header(b'$', value.len() as u64);
        self.out.write_shared(value);
        self.raw(b"\r\n");
    }

    /// An integer as a bulk string.
    pub fn bulk_int(&mut self, n: i64) {
        let mut buf = [0; I64_CHARS];
        self.bulk(format_i64(&mut buf, n));
    }

    /// No value: `$-1` in RESP2.
    #[inline]
    pub fn null(&mut self) {
        self.raw(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// No array: `*-1` in RESP2.
    pub fn null_array(&mut self) {
        self.raw(if self.resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// Header of an aggregate of `n` elements (pairs, for a map).
    #[inline]
    pub fn aggregate(&mut self, kind: Aggregate, n: usize) {
        let (byte, n) = self.shape(kind, n);
        self.header(byte, n as u64);
    }

    #[inline]
    const fn shape(&self, kind: Aggregate, n: usize) -> (u8, usize) {
        match (kind, self.resp3) {
            (Aggregate::Map, true) => (b'%', n),
            (Aggregate::Map, false) => (b'*', n * 2),
            (Aggregate::Set, true) => (b'~', n),
            (Aggregate::Push, true) => (b'>', n),
            _ => (b'*', n),
        }
    }

    /// Header of an array.
    #[inline]
    pub fn array(&mut self, n: usize) {
        self.header(b'*', n as u64);
    }

    /// Header of a map of `n` pairs.
    pub fn map(&mut self, n: usize) {
        self.aggregate(Aggregate::Map, n);
    }

    /// Header of a set.
    pub fn set(&mut self, n: usize) {
        self.aggregate(Aggregate::Set, n);
    }

    /// Header of a push.
    pub fn push(&mut self, n: usize) {
        self.aggregate(Aggregate::Push, n);
    }

    /// Begins an aggregate whose length is not known yet.
    pub fn defer(&mut self) -> Deferred {
        Deferred(self.out.mark())
    }

    /// Puts in the header of a deferred aggregate of `n` elements (pairs, for a map).
    pub fn end(&mut self, at: Deferred, kind: Aggregate, n: usize) {
        let (byte, n) = self.shape(kind, n);
        let mut header = [0u8; I64_CHARS + 3];
        let mut buf = [0; I64_CHARS];
        let digits = format_u64(&mut buf, n as u64);
        header[0] = byte;
        header[1..=digits.len()].copy_from_slice(digits);
        header[digits.len() + 1..digits.len() + 3].copy_from_slice(b"\r\n");
        self.out.insert(at.0, &header[..digits.len() + 3]);
    }

    /// A double; a bulk string in RESP2.
    pub fn double(&mut self, value: f64) {
        let mut buf = [0; F64_CHARS];
        let text = format_f64(&mut buf, value);
        if self.resp3 {
            self.raw(b",");
            self.raw(text);
            self.raw(b"\r\n");
        } else {
            self.bulk(text);
        }
    }

    /// A boolean; 1 or 0 in RESP2.
    pub fn boolean(&mut self, value: bool) {
        match (self.resp3, value) {
            (true, true) => self.raw(b"#t\r\n"),
            (true, false) => self.raw(b"#f\r\n"),
            (false, _) => self.int(i64::from(value)),
        }
    }

    /// A big number (decimal digits); a bulk string in RESP2.
    pub fn big_number(&mut self, digits: &str) {
        if self.resp3 {
            self.raw(b"(");
            self.raw(digits.as_bytes());
            self.raw(b"\r\n");
        } else {
            self.bulk(digits.as_bytes());
        }
    }

    /// Text with a three-letter format ("txt"); a bulk string in RESP2.
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        if !self.resp3 {
            return self.bulk(text);
        }
        self.header(b'=', text.len() as u64 + 4);
        self.raw(format.as_bytes());
        self.raw(b":");
        self.raw(text);
        self.raw(b"\r\n");
    }
}
