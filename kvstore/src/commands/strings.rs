//! Commands on strings: reading and writing whole values.

use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::value::Str;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[Command {
    name: "get",
    group: Group::String,
    since: "1.0.0",
    summary: "Returns the string value of a key.",
    complexity: "O(1)",
    arity: 2,
    flags: flag::READONLY | flag::FAST,
    acl: acl::STRING,
    keys: &[KeySpec::range(key::RO | key::ACCESS, 1, 0, 1)],
    args: &[Arg::key("key", 0)],
    run: Some(get),
    ..Command::DEFAULT
}];

/// Writes a string value.
pub(super) fn reply_str(reply: &mut crate::reply::Reply<'_>, value: Str<'_>) {
    match value {
        Str::Bytes(b) => reply.bulk(b),
        Str::Int(n) => reply.bulk_int(n),
        Str::Shared(s) => reply.bulk_shared(s),
    }
}

fn get(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    match ctx.keys.string(ctx.args.get(1))? {
        Some(value) => reply_str(&mut ctx.reply, value),
        None => ctx.reply.null(),
    }
    Ok(())
}
