//! Compact encodings: small collections kept as one run of bytes, in Redis's own byte formats, so that a serialised
//! payload can use them as they are; and the quicklist, a sequence of such runs.

pub mod bulks;
mod entries;
mod entry;
pub mod inline;
pub mod intset;
pub mod listpack;
pub mod quicklist;

pub use entry::Encoded;
pub use intset::Intset;
pub use listpack::{Entries, Entry, Listpack};
pub use quicklist::Quicklist;

/// The bytes were not a well-formed encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Capacity for `need` bytes: multiples of 16 up to 128, then eighths of a power of two, which are the size classes
/// of the heap below; anything between would be lost there.
pub(crate) fn capacity_for(need: usize) -> usize {
    let step = if need <= 128 { 16 } else { 1 << (need.ilog2() - 3) };
    need.next_multiple_of(step)
}
