//! DEBUG: for tests of clients and of the server itself. `enable-debug-command` says who may use it.

mod digest;
mod object;
mod populate;
mod protocol;

use crate::blocking::{Wait, WaitRequest};
use crate::command::{Command, Group, flag};
use crate::config::parse_memory;
use crate::core::ReplyBuffers;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::number::parse_f64;
use crate::text::{printable, readable};
use alloc::vec::Vec;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[Command {
    name: "debug",
    group: Group::Server,
    since: "1.0.0",
    summary: "A container for debugging commands.",
    complexity: "Depends on subcommand.",
    arity: -2,
    flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::PROTECTED,
    syscmd: true,
    run: Some(debug),
    ..Command::DEFAULT
}];

/// What clients that may not use it are told.
pub const NOT_ALLOWED: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.";

/// The greatest element size from which on lists can be told to keep elements in nodes of their own, in bytes.
const MAX_PACKED_THRESHOLD: u64 = (1 << 32) - (1 << 20);

fn debug(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    match (ctx.arg(1).to_ascii_lowercase().as_slice(), ctx.argc()) {
        (b"change-repl-id", 2) => {
            log::warn!("changing the replication id after receiving CHANGE-REPL-ID");
            ctx.core.replication_id = ctx.core.rng.hex_id();
        }
        (b"digest", 2) => return digest::dataset(ctx),
        (b"digest-value", 2..) => return digest::values(ctx),
        (b"error", 3) => return Err(Error::Text(readable(ctx.arg(2), 4096))),
        (b"help", 2) => return super::keys::help_lines(ctx, HELP),
        (b"listpack", 3) => return object::listpack(ctx),
        (b"log", 3) => log::warn!("DEBUG LOG: {}", printable(ctx.arg(2), 4096)),
        (b"object", 3 | 4) => return object::object(ctx),
        (b"populate", 3..=5) => return populate::populate(ctx),
        (b"protocol", 3) => return protocol::protocol(ctx),
        (b"quicklist-packed-threshold", 3) => packed_threshold(ctx)?,
        (b"replybuffer", 4) => reply_buffer(ctx)?,
        (b"sdslen", 3) => return object::string_lengths(ctx),
        (b"set-active-expire", 3) => ctx.keys.space.active_expiry = switch(ctx, 2),
        (b"set-disable-deny-scripts", 3) => ctx.core.scripts_unrestricted = switch(ctx, 2),
        (b"sleep", 3) => return sleep(ctx),
        _ => return Err(ctx.wrong_subcommand()),
    }
    ctx.reply.ok();
    Ok(())
}

/// Whether an argument is a number other than 0, as C's `atoi` takes it: what follows the digits is not looked at.
fn switch(ctx: &Ctx<'_>, index: usize) -> bool {
    let text = ctx.arg(index).trim_ascii_start();
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    digits.iter().take_while(|b| b.is_ascii_digit()).any(|b| *b != b'0')
}

/// Stops the whole engine for a while, without keeping a CPU busy.
fn sleep(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let seconds = parse_f64(ctx.arg(2)).unwrap_or(0.0);
    let us = if seconds > 0.0 { (seconds * 1_000_000.0) as u64 } else { 0 };
    if us == 0 {
        ctx.reply.ok();
        return Ok(());
    }
    let until = ctx.core.now_us.saturating_add(us);
    ctx.core.asleep_until_us = ctx.core.asleep_until_us.max(until);
    if ctx.deny_blocking {
        ctx.reply.ok();
    } else {
        ctx.core.wait_request = Some(wait_until(Some(until)));
    }
    Ok(())
}

/// A wait that ends with `+OK`.
fn wait_until(until_us: Option<u64>) -> WaitRequest {
    WaitRequest { wait: Wait::Time, even_without_key: false, args: None, keys: Vec::new(), until_us }
}

/// Sets the size from which on an element of a list gets a node of its own.
fn packed_threshold(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let bytes = parse_memory(ctx.arg(2))
        .filter(|n| *n <= MAX_PACKED_THRESHOLD)
        .ok_or(Error::Fixed("ERR argument must be a memory value bigger than 1 and smaller than 4gb"))?;
    ctx.core.config.list_limit = ctx.core.config.list_limit.with_packed_threshold(bytes as u32);
    Ok(())
}

/// How long a session's greatest reply is remembered, and whether sessions give their reply buffers back.
fn reply_buffer(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    match ctx.arg(2).to_ascii_lowercase().as_slice() {
        b"peak-reset-time" => {
            ctx.core.reply_buffers.peak_reset_us = match ctx.arg(3).to_ascii_lowercase().as_slice() {
                b"never" => u64::MAX,
                b"reset" => ReplyBuffers::default().peak_reset_us,
                _ => u64::try_from(ctx.int(3)?).map_or(u64::MAX, |ms| ms.saturating_mul(1000)),
            }
        }
        b"resizing" => ctx.core.reply_buffers.resizing = switch(ctx, 3),
        _ => return Err(ctx.wrong_subcommand()),
    }
    Ok(())
}

const HELP: &[&str] = &[
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANGE-REPL-ID",
    "    Change the replication IDs of the instance.",
    "    Dangerous: should be used only for testing the replication subsystem.",
    "DIGEST",
    "    Output a hex signature representing the current DB content.",
    "DIGEST-VALUE <key> [<key> ...]",
    "    Output a hex signature of the values of all the specified keys.",
    "ERROR <string>",
    "    Return a Redis protocol error with <string> as message. Useful for clients",
    "    unit tests to simulate Redis errors.",
    "LOG <message>",
    "    Write <message> to the server log.",
    "OBJECT <key> [fast]",
    "    Show low level info about `key` and associated value.",
    "    Some fields of the default behavior may be time consuming to fetch,",
    "    and `fast` can be passed to avoid fetching them.",
    "POPULATE <count> [<prefix>] [<size>]",
    "    Create <count> string keys named key:<num>. If <prefix> is specified then",
    "    it is used instead of the 'key' prefix. These are not propagated to",
    "    replicas.",
    "PROTOCOL <type>",
    "    Reply with a test value of the specified type. <type> can be: string,",
    "    integer, double, bignum, null, array, set, map, attrib, push, verbatim,",
    "    true, false.",
    "SDSLEN <key>",
    "    Show low level SDS string info representing `key` and value.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Setting it to 0 disables expiring keys in background when they are not",
    "    accessed (otherwise the Redis behavior). Setting it to 1 reenables back the",
    "    default.",
    "SET-DISABLE-DENY-SCRIPTS <0|1>",
    "    Setting it to 1 lets scripts call commands that they are not allowed to.",
    "QUICKLIST-PACKED-THRESHOLD <size>",
    "    Sets the threshold for elements to be inserted as plain vs packed nodes",
    "    Default value is 1GB, allows values up to 4GB. Setting to 0 restores to default.",
    "SLEEP <seconds>",
    "    Stop the server for <seconds>. Decimals allowed.",
    "LISTPACK <key>",
    "    Show low level info about the listpack encoding of <key>.",
    "REPLYBUFFER PEAK-RESET-TIME <NEVER||RESET|time>",
    "    Sets the time (in milliseconds) to wait between client reply buffer peak resets.",
    "    In case NEVER is provided the last observed peak will never be reset",
    "    In case RESET is provided the peak reset time will be restored to the default value",
    "REPLYBUFFER RESIZING <0|1>",
    "    Enable or disable the reply buffer resize cron job",
    "HELP",
    "    Print this help.",
];

#[cfg(test)]
mod tests;
