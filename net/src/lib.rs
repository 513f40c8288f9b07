//! `barium-net`: the TCP/IP layer. Frames in, frames out; time is an argument.
//!
//! Below it lies a [`barium_nic::Nic`] (implemented by `barium-kernel`'s drivers), above it a [`Service`] of byte streams
//! (implemented by the platform on top of `barium-kvstore`). It imports neither `kernel` nor `kvstore`.
//!
//! The path of a segment: `wire` checks the frame, `flow` finds its connection, `conn` gives it to that connection's
//! smoltcp socket, `stack` hands the bytes to the service and the answer back, `device` frames what smoltcp sends.
//! What is not TCP goes to `control`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod checksum;
mod config;
mod congestion;
mod conn;
mod control;
mod device;
mod fifo;
mod flow;
mod recovery;
pub mod service;
mod stack;
mod stats;
pub mod steer;
mod train;
mod wheel;
mod wire;

pub use config::{AddressMode, Config};
pub use control::Address;
pub use service::{ConnId, Dial, DialError, Endpoint, Fate, Service};
pub use stack::{Stack, Turn};
pub use stats::{Malformed, Stats};
