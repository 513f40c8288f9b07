//! The arguments of one command: slices of the buffer that they were received in.

use super::output::Shared;
use alloc::vec::Vec;

/// Whether argument `at` is a user name or password, which neither MONITOR nor the slow log may show.
pub fn is_secret(args: Args<'_>, at: usize) -> bool {
    let auth = |at: usize| at > 0 && args.is(at, "AUTH");
    if args.is(0, "AUTH") {
        at > 0
    } else if args.is(0, "HELLO") {
        auth(at.saturating_sub(1)) || auth(at.saturating_sub(2))
    } else if args.is(0, "ACL") {
        let all = args.is(1, "SETUSER") || args.is(1, "DELUSER");
        (at >= 2 && all) || (at == 2 && args.is(1, "GETUSER"))
    } else if args.is(0, "MIGRATE") {
        crate::commands::migrate::is_secret(args, at)
    } else {
        at == 3 && args.is(0, "CONFIG") && args.is(1, "SET") && args.is(2, "requirepass")
    }
}

/// Where an argument lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset in the buffer, or [`Span::BIG`] plus the number of a large argument.
    pub(super) start: u32,
    pub(super) len: u32,
}

impl Span {
    pub(super) const BIG: u32 = 1 << 31;

    pub(super) const fn new(start: usize, len: usize) -> Self {
        Self { start: start as u32, len: len as u32 }
    }
}

/// The arguments of one command, its name first. Copying it copies three slices.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    pub(super) buffer: &'a [u8],
    pub(super) spans: &'a [Span],
    pub(super) big: &'a [Shared],
}

impl<'a> Args<'a> {
    /// Number of arguments, with the command's name.
    #[inline]
    pub const fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// An argument; empty if there are not so many.
    #[inline]
    pub fn get(&self, index: usize) -> &'a [u8] {
        let Some(span) = self.spans.get(index) else { return &[] };
        if span.start & Span::BIG != 0 {
            return self.big.get((span.start & !Span::BIG) as usize).map_or(&[], |b| b.as_slice());
        }
        let start = span.start as usize;
        self.buffer.get(start..start + span.len as usize).unwrap_or(&[])
    }

    /// Sixty-four bits from where an argument begins, of its first eight bytes or of it and what follows; None where there
    /// are not so many.
    #[inline]
    pub fn word(&self, index: usize) -> Option<u64> {
        let span = self.spans.get(index)?;
        // The number of a large argument is beyond any buffer.
        let from = self.buffer.get(span.start as usize..)?;
        from.first_chunk().map(|word| u64::from_le_bytes(*word))
    }

    /// An argument that was received into a buffer of its own, which can become a value without a copy.
    #[inline]
    pub fn shared(&self, index: usize) -> Option<&'a Shared> {
        let span = self.spans.get(index)?;
        if span.start & Span::BIG == 0 {
            return None;
        }
        self.big.get((span.start & !Span::BIG) as usize)
    }

    /// Whether an argument is this word, in any case.
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// The arguments from `index` on.
    pub fn iter_from(
        &self,
        index: usize,
    ) -> impl ExactSizeIterator<Item = &'a [u8]> + DoubleEndedIterator + Clone + use<'a> {
        let all = *self;
        (index.min(all.len())..all.len()).map(move |i| all.get(i))
    }

    /// The arguments from `index` on as arguments of their own (MULTI's queue, a script's call).
    pub fn tail(&self, index: usize) -> Args<'a> {
        Args { spans: self.spans.get(index..).unwrap_or(&[]), ..*self }
    }

    /// Bytes of all of them.
    pub fn total_len(&self) -> usize {
        self.spans.iter().map(|span| span.len as usize).sum()
    }

    /// A copy that owns its bytes; large arguments go on being shared.
    pub fn to_owned(&self) -> OwnedArgs {
        let mut buffer = Vec::new();
        let mut spans = Vec::with_capacity(self.len());
        for (i, span) in self.spans.iter().enumerate() {
            if span.start & Span::BIG != 0 {
                spans.push(*span);
            } else {
                spans.push(Span::new(buffer.len(), span.len as usize));
                buffer.extend_from_slice(self.get(i));
            }
        }
        OwnedArgs { buffer, spans, big: self.big.to_vec() }
    }
}

impl core::ops::Index<usize> for Args<'_> {
    type Output = [u8];
    fn index(&self, index: usize) -> &[u8] {
        self.get(index)
    }
}

/// Arguments that own their bytes.
#[derive(Clone, Debug, Default)]
pub struct OwnedArgs {
    buffer: Vec<u8>,
    spans: Vec<Span>,
    big: Vec<Shared>,
}

impl OwnedArgs {
    /// Copies of some slices.
    pub fn from_slices(slices: &[&[u8]]) -> Self {
        let mut owned = Self::default();
        for s in slices {
            owned.spans.push(Span::new(owned.buffer.len(), s.len()));
            owned.buffer.extend_from_slice(s);
        }
        owned
    }

    /// The arguments.
    pub fn args(&self) -> Args<'_> {
        Args { buffer: &self.buffer, spans: &self.spans, big: &self.big }
    }

    /// Bytes of all of them.
    pub fn total_len(&self) -> usize {
        self.args().total_len()
    }

    /// Bytes that they take.
    pub fn memory_usage(&self) -> usize {
        self.buffer.capacity()
            + self.spans.capacity() * size_of::<Span>()
            + self.big.iter().map(|b| b.capacity()).sum::<usize>()
    }
}
