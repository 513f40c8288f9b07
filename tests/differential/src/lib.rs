//! The same random command sequences to Barium's host server and to Debian's `redis-server`, replies compared byte for
//! byte: what is here generates, plays and compares; `tests/families.rs` runs it, a family of commands a test.
//!
//! Commands are generated from the command table's own documented arguments (`COMMAND DOCS`), so that every option token of
//! every command is reached. [`differences`] lists where right servers differ, each with its reason; `skipped.txt` what is
//! left out.
#![forbid(unsafe_code)]

mod admin;
pub mod compare;
pub mod coverage;
pub mod crc64;
pub mod differences;
pub mod grammar;
pub mod judge;
pub mod keyspace;
mod listing;
pub mod play;
pub mod scene;
pub mod server;
pub mod settings;
pub mod skipped;
pub mod tame;
pub mod values;
pub mod wire;
