//! `barium-cell`: thin owning pointers, the only unsafe code outside `kernel/`.
//!
//! Safe Rust has no one-word pointer to a sized-at-run-time tail, and two-word ones cost eight bytes in every slot of
//! every hash table. Three owners live here, each one allocation behind one word, with a niche so that `Option` is free:
//! - [`Record`]: a key with its value (bytes, an integer or a boxed object), access clock and optional deadline,
//! - [`ThinBytes`]: a byte string,
//! - [`ThinPair`]: two byte strings (a hash field and its value).
//!
//! Every constructor is fallible: how much memory is asked for is up to a client.
#![no_std]

extern crate alloc;

mod record;
mod thin;

pub use record::{FreshMark, MAX_LEN, Record, View, ViewMut};
pub use thin::{ThinBytes, ThinPair};

/// The allocator had no block of the wanted size. What was being changed is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;
