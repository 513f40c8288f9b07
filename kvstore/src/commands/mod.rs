//! The commands, one file per family.
//!
//! # Adding a command
//! Everything about a command stands in its family's file:
//! 1. an entry in the family's `COMMANDS`, sorted by name: name, group, since, summary, complexity, arity, flags, ACL
//!    categories, key specifications, documented arguments and the handler
//!    ([`Command`](crate::command::Command); what an entry leaves out is empty). The table's checks run at compile time.
//! 2. the handler, `fn(&mut Ctx) -> Result<(), Error>`: it writes exactly one reply, or returns an error.
//! 3. tests, beside the handler.
//!
//! A new family is one more line in [`table::FAMILIES`].
//!
//! # What a handler does
//! Arguments are checked first (count and memory were checked before), in Redis's order: the first error is the reply. The
//! key's value is looked up by type: `ctx.keys.list(key)?` to read, `list_mut` to change, `list_or_new` to create; a key
//! of another type is an error there. After a change:
//! - `ctx.modified(key)`: counts the change, breaks WATCHes, wakes clients that wait for the key;
//! - `ctx.notify(event::LIST, "lpush", key)`: publishes the keyspace event;
//! - `ctx.keys.remove_if_empty(key)` if elements were removed;
//! - `ctx.effect(&[...])` if the command as it was given does not describe what it did (SPOP's effect is an SREM).
//!
//! A command that waits calls `ctx.block(...)` in place of a reply; it will be carried out again. Whatever grows by a size
//! that the client chose asks `ctx.affordable(n)` and reserves fallibly.

pub mod acl;
pub mod bitfield;
pub mod bitmaps;
pub mod client;
pub mod client_tracking;
pub mod collection;
pub mod command;
pub mod configuration;
pub mod connection;
pub mod counters;
pub mod debug;
pub mod diagnostics;
pub mod dump;
pub mod expire;
pub mod extract;
pub mod geo;
pub mod hashes;
pub mod hyperloglog;
mod hyperloglog_test;
pub mod info;
pub mod keys;
pub mod latency;
pub mod lcs;
pub mod lists;
pub mod lists_blocking;
pub mod migrate;
pub mod modules;
pub mod pubsub;
pub mod replication;
#[cfg(test)]
mod scan_tests;
pub mod server;
pub mod set_algebra;
pub mod sets;
pub mod sort;
pub mod streams;
pub mod strings;
pub mod table;
pub mod transactions;
pub mod zsets;
