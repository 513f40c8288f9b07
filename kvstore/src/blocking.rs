//! Commands that wait: for a key, or for a time.
//!
//! A waiting command is kept with its arguments and carried out again when one of its keys was changed into something of
//! the type it waits for. Clients that wait for the same key are served in the order in which they came; one that is
//! carried out and has to go on waiting keeps its place.

use crate::command::Command;
use crate::session::args::OwnedArgs;
use crate::value::Type;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What is being waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// One of the keys becoming a collection of this type.
    Key(Type),
    /// The time alone, or the memory of flushed keys to be given back (the reply when it comes is `+OK`).
    Time,
    /// Replicas to acknowledge (the reply is how many did).
    Replicas,
    /// Replicas to have what was written in their append-only files (the reply is whether this server has it, and how many
    /// of them do).
    ReplicaLogs,
    /// MIGRATE to have done its work.
    Migration,
    /// CLIENT PAUSE or a MIGRATE to end, or memory to be given back; then the command is carried out for the first time.
    Pause,
}

/// A waiting command.
#[derive(Debug)]
pub struct Blocked {
    /// What it waits for.
    pub wait: Wait,
    /// Whether a key that went, or became something else, ends the wait too: the command then answers an error.
    pub even_without_key: bool,
    /// Database of the keys.
    pub db: usize,
    /// The keys.
    pub keys: Vec<Box<[u8]>>,
    /// When it gives up, monotonic time in us; None: never.
    pub until_us: Option<u64>,
    /// The command.
    pub command: &'static Command,
    /// Its arguments.
    pub args: OwnedArgs,
    /// When it began, monotonic time in us.
    pub since_us: u64,
}

/// What a handler asks for: to wait for some keys.
#[derive(Debug)]
pub struct WaitRequest {
    /// What is being waited for.
    pub wait: Wait,
    /// Whether a key that went, or became something else, ends the wait too.
    pub even_without_key: bool,
    /// The arguments with which the command is carried out again, if not those that it came with.
    pub args: Option<OwnedArgs>,
    /// The keys.
    pub keys: Vec<Box<[u8]>>,
    /// When to give up, monotonic time in us; None: never.
    pub until_us: Option<u64>,
}

/// Why a client stops waiting without having been served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblock {
    /// Its time is up, or CLIENT UNBLOCK says so.
    Timeout,
    /// CLIENT UNBLOCK ... ERROR.
    Error,
}
