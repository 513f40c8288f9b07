//! The request parser: RESP arrays and inline commands, in place, with Redis's limits and error texts.
//!
//! Arguments are found in the slice that is passed in; nothing is copied. When the slice ends within a command, the
//! caller keeps the command's bytes and goes on with a longer slice later: what was parsed is remembered, not redone.

use super::args::{Args, Span};
use super::output::Shared;
use crate::error::Error;
use crate::error_text;
use crate::number::parse_i64;
use crate::text::{is_space, quoted_word};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Longest line: an inline command, or the header of an array or a bulk string, in bytes.
const MAX_LINE: usize = 64 * 1024;
/// Bulk strings from this size on that have not arrived whole are received into a buffer of their own, in bytes.
pub const BIG_BULK: usize = 32 * 1024;
/// Most arguments of a client that has not authenticated.
const MAX_ARGS_UNAUTHENTICATED: i64 = 10;
/// Longest argument of a client that has not authenticated, in bytes.
const MAX_BULK_UNAUTHENTICATED: i64 = 16 * 1024;

/// What the parser is told about the session.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `proto-max-bulk-len`, in bytes.
    pub max_bulk: i64,
    /// Whether the session has still to authenticate.
    pub auth_required: bool,
}

/// How far the parser came.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A command is complete; it ends at the cursor. It may be empty.
    Command,
    /// More bytes are needed.
    Incomplete,
    /// A large argument of this length begins at the cursor; [`Parser::begin_fill`] must follow.
    Big(usize),
    /// This is not the protocol; [`Parser::take_error`] says why.
    Bad,
}

/// What a header line says.
enum Header {
    /// This number.
    Number(i64),
    /// Something that is not a number.
    NotANumber,
    /// It is not complete.
    Incomplete,
    /// It is too long.
    TooLong,
}

/// A large argument that is being received.
#[derive(Debug)]
struct Fill {
    /// None: there was no memory for it, its bytes are dropped.
    buffer: Option<Vec<u8>>,
    missing: usize,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Parser {
    spans: Vec<Span>,
    big: Vec<Shared>,
    /// Arguments of the present array still to come.
    left: u32,
    /// Length of the argument whose header was read.
    bulk: Option<u32>,
    /// Where to go on in the buffer.
    cursor: usize,
    /// Bytes to pass over at the cursor: the line end of a large argument.
    skip: u8,
    fill: Option<Fill>,
    out_of_memory: bool,
    error: Option<Error>,
}

impl Parser {
    /// Where the parser stands in the buffer.
    pub const fn cursor(&self) -> usize {
        self.cursor
    }

    /// Whether it stands between two commands.
    pub const fn is_idle(&self) -> bool {
        self.left == 0
    }

    /// Whether a large argument is being received.
    pub const fn is_filling(&self) -> bool {
        self.fill.is_some()
    }

    /// Why the input is not the protocol.
    pub fn take_error(&mut self) -> Error {
        self.error.take().unwrap_or(Error::Syntax)
    }

    #[cold]
    fn bad(&mut self, error: Error) -> Step {
        self.error = Some(error);
        Step::Bad
    }

    #[cold]
    fn protocol(&mut self, text: &'static str) -> Step {
        self.bad(Error::Fixed(text))
    }

    /// Whether an argument of the present command was dropped for lack of memory.
    pub const fn is_out_of_memory(&self) -> bool {
        self.out_of_memory
    }

    /// The arguments found so far; `buffer` is what was parsed.
    #[inline]
    pub fn args<'a>(&'a self, buffer: &'a [u8]) -> Args<'a> {
        Args { buffer, spans: &self.spans, big: &self.big }
    }

    /// Forgets the command that is complete, to begin the next one.
    #[inline]
    pub fn next_command(&mut self) {
        self.spans.clear();
        if !self.big.is_empty() || self.out_of_memory {
            self.big = Vec::new();
            self.out_of_memory = false;
        }
    }

    /// Tells that the first `n` bytes of the buffer are no longer in it. The spans found so far move with it.
    pub fn rebase(&mut self, n: usize) {
        self.cursor -= n;
        for s in &mut self.spans {
            if s.start & Span::BIG == 0 {
                s.start -= n as u32;
            }
        }
    }

    /// Sets the cursor, between two commands.
    pub const fn set_cursor(&mut self, at: usize) {
        self.cursor = at;
    }

    /// Bytes that it owns.
    pub fn memory_usage(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
            + self.big.iter().map(|b| b.capacity()).sum::<usize>()
            + self.fill.as_ref().and_then(|f| f.buffer.as_ref()).map_or(0, Vec::capacity)
    }

    /// Lends a vector for spans to a parser that has none.
    #[inline]
    pub fn lend(&mut self, spans: &mut Vec<Span>) {
        if self.spans.capacity() == 0 {
            core::mem::swap(&mut self.spans, spans);
        }
    }

    /// Takes the lent vector back if no command is under way.
    #[inline]
    pub fn give_back(&mut self, spans: &mut Vec<Span>) {
        if self.spans.capacity() > 0 && self.is_idle() {
            self.spans.clear();
            if spans.capacity() == 0 {
                core::mem::swap(&mut self.spans, spans);
                // A command with very many arguments must not keep its room for ever.
                if spans.capacity() > 4_096 {
                    *spans = Vec::new();
                }
            } else {
                self.spans = Vec::new();
            }
        }
    }

    /// Goes on in `buffer` from the cursor.
    #[inline(always)]
    pub fn parse(&mut self, buffer: &[u8], limits: Limits) -> Step {
        if self.left == 0 && self.parse_short(buffer) { Step::Command } else { self.parse_any(buffer, limits) }
    }

    /// A whole command whose headers have one or two digits, which is nearly every one, in one go.
    /// False: it is something else, and nothing was taken.
    #[inline(always)]
    fn parse_short(&mut self, buffer: &[u8]) -> bool {
        let Some((n, mut rest)) = buffer.get(self.cursor..).and_then(short_array) else { return false };
        for _ in 0..n {
            let Some((span, behind)) = short_item(buffer, rest) else {
                self.spans.clear();
                return false;
            };
            if !self.push_span(span) {
                self.spans.clear();
                return false;
            }
            rest = behind;
        }
        self.cursor = buffer.len() - rest.len();
        true
    }

    #[inline(never)]
    fn parse_any(&mut self, buffer: &[u8], limits: Limits) -> Step {
        if self.left == 0 {
            match buffer.get(self.cursor) {
                None => return Step::Incomplete,
                Some(b'*') => {
                    let n = match self.header(buffer) {
                        Header::Number(n) => n,
                        Header::Incomplete => return Step::Incomplete,
                        Header::NotANumber => return self.protocol("ERR Protocol error: invalid multibulk length"),
                        Header::TooLong => return self.protocol("ERR Protocol error: too big mbulk count string"),
                    };
                    if n > MAX_ARGS_UNAUTHENTICATED {
                        if n > i64::from(i32::MAX) {
                            return self.protocol("ERR Protocol error: invalid multibulk length");
                        }
                        if limits.auth_required {
                            return self.protocol("ERR Protocol error: unauthenticated multibulk length");
                        }
                    }
                    if n <= 0 {
                        return Step::Command;
                    }
                    self.left = n as u32;
                }
                Some(_) => return self.inline_command(buffer),
            }
        }
        self.array_body(buffer, limits)
    }

    /// The number in the header line at the cursor, which moves behind it.
    #[inline]
    fn header(&mut self, buffer: &[u8]) -> Header {
        let at = self.cursor;
        // One and two digits, which is nearly every header.
        if let Some(&[_, a, b, c, d]) = buffer.get(at..at + 5).and_then(|s| <&[u8; 5]>::try_from(s).ok()) {
            let (tens, ones) = (a.wrapping_sub(b'0'), b.wrapping_sub(b'0'));
            if tens <= 9 {
                if b == b'\r' {
                    self.cursor = at + 4;
                    return Header::Number(i64::from(tens));
                }
                if ones <= 9 && c == b'\r' && tens != 0 {
                    self.cursor = at + 5;
                    let _ = d;
                    return Header::Number(i64::from(tens) * 10 + i64::from(ones));
                }
            }
        }
        self.long_header(buffer)
    }

    fn long_header(&mut self, buffer: &[u8]) -> Header {
        let at = self.cursor;
        let rest = buffer.get(at..).unwrap_or(&[]);
        let Some(end) = rest.iter().take(MAX_LINE + 1).position(|&b| b == b'\r') else {
            return if rest.len() > MAX_LINE { Header::TooLong } else { Header::Incomplete };
        };
        if end + 2 > rest.len() {
            return Header::Incomplete;
        }
        self.cursor = at + end + 2;
        rest.get(1..end).and_then(parse_i64).map_or(Header::NotANumber, Header::Number)
    }

    #[inline]
    fn array_body(&mut self, buffer: &[u8], limits: Limits) -> Step {
        if self.skip > 0 {
            let n = usize::from(self.skip).min(buffer.len().saturating_sub(self.cursor));
            self.cursor += n;
            self.skip -= n as u8;
            if self.skip > 0 {
                return Step::Incomplete;
            }
            self.left -= 1;
        }
        let (mut cursor, mut left) = (self.cursor, self.left);
        while left > 0 {
            if self.bulk.is_none()
                && let Some((span, behind)) = buffer.get(cursor..).and_then(|rest| short_item(buffer, rest))
            {
                if !self.push_span(span) {
                    return self.bad(Error::OutOfMemory);
                }
                cursor = buffer.len() - behind.len();
                left -= 1;
                continue;
            }
            (self.cursor, self.left) = (cursor, left);
            if let Some(step) = self.array_item(buffer, limits) {
                return step;
            }
            (cursor, left) = (self.cursor, self.left);
        }
        (self.cursor, self.left) = (cursor, left);
        Step::Command
    }

    /// One argument in general. None: it is found, and there may be more.
    fn array_item(&mut self, buffer: &[u8], limits: Limits) -> Option<Step> {
        let len = match self.bulk {
            Some(len) => len as usize,
            None => match self.bulk_header(buffer, limits) {
                Ok(len) => len,
                Err(step) => return Some(step),
            },
        };
        let end = self.cursor + len + 2;
        if buffer.len() < end {
            if len >= BIG_BULK {
                return Some(Step::Big(len));
            }
            self.bulk = Some(len as u32);
            return Some(Step::Incomplete);
        }
        if !self.push_span(Span::new(self.cursor, len)) {
            return Some(self.bad(Error::OutOfMemory));
        }
        self.cursor = end;
        self.bulk = None;
        self.left -= 1;
        None
    }

    /// False: there is no memory for it.
    #[inline]
    fn push_span(&mut self, span: Span) -> bool {
        if self.spans.len() == self.spans.capacity() && !self.grow_spans() {
            return false;
        }
        self.spans.push(span);
        true
    }

    #[cold]
    fn grow_spans(&mut self) -> bool {
        self.spans.try_reserve(8).is_ok()
    }

    #[inline]
    fn bulk_header(&mut self, buffer: &[u8], limits: Limits) -> Result<usize, Step> {
        match buffer.get(self.cursor) {
            Some(b'$') => {}
            None => return Err(Step::Incomplete),
            // Redis looks for the line's end first.
            Some(&other) => {
                return Err(match self.long_header(buffer) {
                    Header::Incomplete => Step::Incomplete,
                    Header::TooLong => self.protocol("ERR Protocol error: too big bulk count string"),
                    _ => self.bad(error_text!("ERR Protocol error: expected '$', got '{}'", other as char)),
                });
            }
        }
        match self.header(buffer) {
            Header::Number(n) if (0..=MAX_BULK_UNAUTHENTICATED).contains(&n) => Ok(n as usize),
            Header::Number(n) if n < 0 || n > limits.max_bulk => {
                Err(self.protocol("ERR Protocol error: invalid bulk length"))
            }
            Header::Number(_) if limits.auth_required => {
                Err(self.protocol("ERR Protocol error: unauthenticated bulk length"))
            }
            Header::Number(n) => Ok(n as usize),
            Header::Incomplete => Err(Step::Incomplete),
            Header::TooLong => Err(self.protocol("ERR Protocol error: too big bulk count string")),
            Header::NotANumber => Err(self.protocol("ERR Protocol error: invalid bulk length")),
        }
    }

    /// Begins to receive a large argument of `len` bytes, if `affordable` and there is memory; else its bytes will be
    /// dropped and the command answered with an error.
    pub fn begin_fill(&mut self, len: usize, affordable: bool) {
        let mut buffer = Vec::new();
        let ok = affordable && buffer.try_reserve_exact(len).is_ok();
        self.out_of_memory |= !ok;
        self.fill = Some(Fill { buffer: ok.then_some(buffer), missing: len });
    }

    /// Takes bytes of the large argument; returns how many. The bytes do not go through the buffer that is parsed.
    pub fn fill(&mut self, bytes: &[u8]) -> usize {
        let Some(fill) = &mut self.fill else { return 0 };
        let n = fill.missing.min(bytes.len());
        fill.missing -= n;
        if let Some(buffer) = &mut fill.buffer {
            buffer.extend_from_slice(&bytes[..n]);
        }
        if fill.missing == 0 {
            let buffer = self.fill.take().and_then(|f| f.buffer).unwrap_or_default();
            let number = self.big.len() as u32;
            self.big.push(Arc::new(buffer));
            self.spans.push(Span { start: Span::BIG | number, len: 0 });
            // It is complete with its line end.
            self.bulk = None;
            self.skip = 2;
        }
        n
    }

    fn inline_command(&mut self, buffer: &[u8]) -> Step {
        let start = self.cursor;
        let rest = &buffer[start..];
        let Some(end) = rest.iter().take(MAX_LINE + 1).position(|&b| b == b'\n') else {
            return if rest.len() > MAX_LINE {
                self.protocol("ERR Protocol error: too big inline request")
            } else {
                Step::Incomplete
            };
        };
        self.cursor = start + end + 1;
        let line = &rest[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match self.split_words(line, start) {
            Ok(()) => Step::Command,
            Err(e) => self.bad(e),
        }
    }

    /// Splits a line into words with shell-like quotes, as Redis's `sdssplitargs` does.
    fn split_words(&mut self, line: &[u8], offset: usize) -> Result<(), Error> {
        let unbalanced = Error::Fixed("ERR Protocol error: unbalanced quotes in request");
        let mut at = 0;
        loop {
            while at < line.len() && is_space(line[at]) {
                at += 1;
            }
            // A NUL ends the line there, as it ends a C string.
            if at >= line.len() || line[at] == 0 {
                return Ok(());
            }
            let len = line[at..].iter().position(|&b| is_space(b) || b == 0).unwrap_or(line.len() - at);
            if !line[at..at + len].iter().any(|b| matches!(b, b'"' | b'\'')) {
                if !self.push_span(Span::new(offset + at, len)) {
                    return Err(Error::OutOfMemory);
                }
                at += len;
                continue;
            }
            let Some((word, next)) = quoted_word(line, at) else { return Err(unbalanced) };
            at = next;
            let number = self.big.len() as u32;
            self.big.push(Arc::new(word));
            if !self.push_span(Span { start: Span::BIG | number, len: 0 }) {
                return Err(Error::OutOfMemory);
            }
        }
    }
}

/// The number in the header of the array at the beginning of `rest`, and what follows it; if it is from 1 to 99 and has no
/// digits more than it needs.
#[inline(always)]
pub fn short_array(rest: &[u8]) -> Option<(usize, &[u8])> {
    let word = u32::from_le_bytes(*rest.first_chunk()?);
    let first = (word >> 8 & 0xff).wrapping_sub(u32::from(b'1'));
    if first > 8 {
        return None;
    }
    if word & 0x00ff_00ff == u32::from(b'*') | u32::from(b'\r') << 16 {
        return Some((first as usize + 1, rest.get(4..)?));
    }
    let second = (word >> 16 & 0xff).wrapping_sub(u32::from(b'0'));
    if word & 0xff00_00ff != u32::from(b'*') | u32::from(b'\r') << 24 || second > 9 {
        return None;
    }
    Some(((first as usize + 1) * 10 + second as usize, rest.get(5..)?))
}

/// The argument at the beginning of `rest`, the end of `buffer`, and what follows it; if [`short_bulk`] finds one.
#[inline(always)]
fn short_item<'a>(buffer: &[u8], rest: &'a [u8]) -> Option<(Span, &'a [u8])> {
    let (header, len, behind) = short_bulk(rest)?;
    Some((Span::new(buffer.len() - rest.len() + header, len), behind))
}

/// The text of the bulk string at the beginning of `rest`, and what follows it; if [`short_bulk`] finds one.
#[inline(always)]
pub fn short_text(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let (header, len, behind) = short_bulk(rest)?;
    Some((rest.get(header..header + len)?, behind))
}

/// The length of the header of the bulk string at the beginning of `rest`, that of its text, and what follows it; if the header
/// has one or two digits and all is there.
#[inline(always)]
pub fn short_bulk(rest: &[u8]) -> Option<(usize, usize, &[u8])> {
    const DOLLAR: u32 = b'$' as u32;
    const CR: u32 = b'\r' as u32;
    let word = u32::from_le_bytes(*rest.first_chunk()?);
    let first = (word >> 8 & 0xff).wrapping_sub(u32::from(b'0'));
    let (header, len) = if word & 0x00ff_00ff == DOLLAR | CR << 16 {
        (4, first)
    } else if word & 0xff00_00ff == DOLLAR | CR << 24 && (1..=9).contains(&first) {
        let second = (word >> 16 & 0xff).wrapping_sub(u32::from(b'0'));
        if second > 9 {
            return None;
        }
        (5, first * 10 + second)
    } else {
        return None;
    };
    if first > 9 {
        return None;
    }
    let len = len as usize;
    let behind = rest.get(header + len + 2..)?;
    Some((header, len, behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec;

    const LIMITS: Limits = Limits { max_bulk: 512 * 1024 * 1024, auth_required: false };

    /// Parses bytes that arrive in pieces of `step`, as a session does with a buffer of its own.
    fn run(bytes: &[u8], step: usize, limits: Limits) -> (Vec<Vec<Vec<u8>>>, Option<Error>) {
        let (mut p, mut buffer, mut all) = (Parser::default(), Vec::new(), vec![]);
        for mut piece in bytes.chunks(step) {
            while !piece.is_empty() {
                if p.is_filling() {
                    let n = p.fill(piece);
                    piece = &piece[n..];
                    continue;
                }
                buffer.extend_from_slice(piece);
                piece = &[];
                loop {
                    match p.parse(&buffer, limits) {
                        Step::Bad => return (all, Some(p.take_error())),
                        Step::Incomplete => break,
                        Step::Command => {
                            all.push(p.args(&buffer).iter_from(0).map(<[u8]>::to_vec).collect());
                            p.next_command();
                            let n = p.cursor();
                            buffer.drain(..n);
                            p.rebase(n);
                        }
                        Step::Big(n) => {
                            let tail = buffer.split_off(p.cursor());
                            p.begin_fill(n, true);
                            assert_eq!(p.fill(&tail), tail.len().min(n));
                            buffer.extend_from_slice(&tail[tail.len().min(n)..]);
                            if p.is_filling() {
                                break;
                            }
                        }
                    }
                }
            }
        }
        (all, None)
    }

    fn request(words: &[&[u8]]) -> Vec<u8> {
        let mut r = format!("*{}\r\n", words.len()).into_bytes();
        for w in words {
            r.extend_from_slice(format!("${}\r\n", w.len()).as_bytes());
            r.extend_from_slice(w);
            r.extend_from_slice(b"\r\n");
        }
        r
    }

    #[test]
    fn commands_in_any_pieces() {
        let (big, small) = (vec![b'x'; 100_000], vec![b'y'; 300]);
        let commands: [&[&[u8]]; 6] = [
            &[b"GET", b"k"],
            &[b"SET", b"k", &big],
            &[b"MSET", b"a", &big, b"b", &small, b"c", &big],
            &[b"", b""],
            &[b"PING"],
            &[&small, b"\r\n"],
        ];
        let bytes: Vec<u8> = commands.iter().flat_map(|c| request(c)).collect();
        let want: Vec<Vec<Vec<u8>>> = commands.iter().map(|c| c.iter().map(|w| w.to_vec()).collect()).collect();
        for step in [1, 2, 3, 7, 1_000, 40_000, 1_000_000] {
            assert!(run(&bytes, step, LIMITS) == (want.clone(), None), "step {step}");
        }
    }

    #[test]
    fn inline_words() {
        let (all, error) = run(
            b"  SET a \"b c\\x41\\n\"  \r\nPING\n\r\nECHO 'it\\'s'\r\nECHO a\"b\"\r\n*0\r\n*-1\r\nX \"\"\r\n",
            3,
            LIMITS,
        );
        let want: Vec<Vec<Vec<u8>>> = [
            &[&b"SET"[..], b"a", b"b cA\n"][..],
            &[b"PING"],
            &[],
            &[b"ECHO", b"it's"],
            &[b"ECHO", b"ab"],
            &[],
            &[],
            &[b"X", b""],
        ]
        .iter()
        .map(|c| c.iter().map(|w| w.to_vec()).collect())
        .collect();
        assert_eq!((all, error), (want, None));
    }

    #[test]
    fn errors_as_redis_words_them() {
        let strict = Limits { auth_required: true, ..LIMITS };
        for (bytes, limits, text) in [
            (&b"*abc\r\n"[..], LIMITS, "invalid multibulk length"),
            (b"*2147483648\r\n", LIMITS, "invalid multibulk length"),
            (b"*11\r\n", strict, "unauthenticated multibulk length"),
            (b"*1\r\n$-1\r\n", LIMITS, "invalid bulk length"),
            (b"*1\r\n$a\r\n", LIMITS, "invalid bulk length"),
            (b"*1\r\n$536870913\r\n", LIMITS, "invalid bulk length"),
            (b"*1\r\n$16385\r\n", strict, "unauthenticated bulk length"),
            (b"*1\r\nPING\r\n", LIMITS, "expected '$', got 'P'"),
            (b"ECHO \"a\r\n", LIMITS, "unbalanced quotes in request"),
            (b"ECHO 'a'b\r\n", LIMITS, "unbalanced quotes in request"),
        ] {
            for step in [1, 100] {
                let (all, error) = run(bytes, step, limits);
                assert_eq!(error.unwrap().text().to_string(), format!("ERR Protocol error: {text}"));
                assert!(all.is_empty());
            }
        }
        for (start, text) in [
            ("", "too big inline request"),
            ("*1", "too big mbulk count string"),
            ("*1\r\n$1", "too big bulk count string"),
        ] {
            let mut bytes = start.as_bytes().to_vec();
            bytes.resize(70_000, b'1');
            let (_, error) = run(&bytes, 1_000, LIMITS);
            assert_eq!(error.unwrap().text(), format!("ERR Protocol error: {text}"));
        }
    }
}
