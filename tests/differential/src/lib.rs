//! The same random command sequences to Barium's host server and to Debian's `redis-server`, replies compared byte for
//! byte: what is here generates, plays and compares; `tests/families.rs` runs it, a family of commands a test.
//!
//! Commands are generated from the reference's own `COMMAND DOCS`, so that every option token of every command is reached.
//! [`known`] is the one place that lists where the two may differ, and which commands are left out, each with its reason.
#![forbid(unsafe_code)]

pub mod compare;
pub mod grammar;
pub mod known;
pub mod play;
pub mod server;
pub mod values;
pub mod wire;
