//! `barium-net`: the TCP/IP layer. Frames in, frames out; time is an argument.
//!
//! Below it lies a [`barium_nic::Nic`] (implemented by `barium-kernel`'s drivers), above it a [`Service`] of byte streams
//! (implemented by the platform on top of `barium-kvstore`). It imports neither `kernel` nor `kvstore`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod service;

pub use service::{ConnId, Endpoint, Fate, Service};
