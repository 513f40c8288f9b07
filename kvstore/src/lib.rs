//! `barium-kvstore`: RESP in, RESP out.
//!
//! The layer above the network and below nothing: it knows neither TCP nor the kernel. Time, randomness and bytes come in
//! as values through [`server::Server`]; what it asks of the machine stands in [`machine`].
//!
//! The path of a request: [`server`] feeds a [`session`]'s parser, the [`commands::table`] names the handler, the handler
//! ([`ctx`]) works on the [`keyspace`] and writes its [`reply`] into the session's output.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod acl;
pub mod blocking;
pub mod clients;
pub mod command;
pub mod commands;
pub mod config;
pub mod core;
pub mod ctx;
pub mod encoding;
pub mod error;
pub mod glob;
pub mod histogram;
pub mod jobs;
pub mod keyspace;
pub mod links;
pub mod machine;
pub mod number;
pub mod pubsub;
pub mod random;
pub mod rdb;
pub mod reply;
pub mod server;
pub mod session;
pub mod slowlog;
pub mod stats;
pub mod table;
#[cfg(test)]
mod testing;
pub mod text;
pub mod types;
pub mod value;
