//! What CPUs share: a lock that nobody waits for, mailboxes of frames, bells that end another CPU's halt, and the heap's spin
//! lock.
//!
//! All of it is written over [`sync`], so that `cargo test` with `--cfg loom` tries every order in which several CPUs may
//! come, on a machine that reorders what it may (`tests/loom.rs`). `docs/decisions/several-cpus.md` has the reasons.
#![cfg_attr(not(any(test, loom)), no_std)]

extern crate alloc;

pub mod bell;
pub mod exclusive;
pub mod mailbox;
pub mod spin;
mod sync;

/// Most CPUs: one bit each in a word.
pub const MAX_CPUS: usize = 64;
