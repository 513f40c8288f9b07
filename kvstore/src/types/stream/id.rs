//! IDs of stream entries: milliseconds and a sequence number.

use crate::number::{I64_CHARS, format_u64};

/// Bytes of the longest ID's text.
pub const ID_CHARS: usize = 2 * I64_CHARS + 1;

/// ID of an entry; IDs are ordered by time, then by sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Unix time, in ms, unless the client chose another number.
    pub ms: u64,
    /// Number among the entries of the same `ms`.
    pub seq: u64,
}

impl StreamId {
    /// `0-0`, which no entry has.
    pub const MIN: Self = Self { ms: 0, seq: 0 };
    /// The greatest one.
    pub const MAX: Self = Self { ms: u64::MAX, seq: u64::MAX };

    /// The ID that follows; None after the greatest.
    pub const fn next(self) -> Option<Self> {
        match (self.seq.checked_add(1), self.ms.checked_add(1)) {
            (Some(seq), _) => Some(Self { ms: self.ms, seq }),
            (None, Some(ms)) => Some(Self { ms, seq: 0 }),
            (None, None) => None,
        }
    }

    /// The ID before; None before `0-0`.
    pub const fn prev(self) -> Option<Self> {
        match (self.seq.checked_sub(1), self.ms.checked_sub(1)) {
            (Some(seq), _) => Some(Self { ms: self.ms, seq }),
            (None, Some(ms)) => Some(Self { ms, seq: u64::MAX }),
            (None, None) => None,
        }
    }

    /// Whether it is `0-0`.
    pub fn is_zero(self) -> bool {
        self == Self::MIN
    }

    /// Sixteen bytes, high ones first: their order is the IDs' order.
    pub fn to_bytes(self) -> [u8; 16] {
        ((u128::from(self.ms) << 64) | u128::from(self.seq)).to_be_bytes()
    }

    /// From [`to_bytes`](Self::to_bytes).
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_be_bytes(bytes);
        Self { ms: (both >> 64) as u64, seq: both as u64 }
    }

    /// The text, written into `buf`.
    pub fn text(self, buf: &mut [u8; ID_CHARS]) -> &[u8] {
        let mut digits = [0; I64_CHARS];
        let ms = format_u64(&mut digits, self.ms);
        let dash = ms.len();
        buf[..dash].copy_from_slice(ms);
        buf[dash] = b'-';
        let seq = format_u64(&mut digits, self.seq);
        let end = dash + 1 + seq.len();
        buf[dash + 1..end].copy_from_slice(seq);
        &buf[..end]
    }
}
