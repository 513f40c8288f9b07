//! The unikernel: what both boards have in common between the kernel, the stack and the engine.
//!
//! Boards call [`run`]; the rest is the command line's options and the loop.
#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod budget;
#[cfg(target_os = "none")]
mod counters;
#[cfg(target_os = "none")]
mod engine;
#[cfg(target_os = "none")]
mod link;
#[cfg(target_os = "none")]
mod machine;
pub mod options;
#[cfg(target_os = "none")]
mod shared;
#[cfg(target_os = "none")]
mod start;
#[cfg(target_os = "none")]
mod worker;

#[cfg(target_os = "none")]
pub use start::run;
