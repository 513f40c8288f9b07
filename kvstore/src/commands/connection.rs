//! Commands about the connection.

use crate::command::{Arg, Command, Group, acl, flag};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "echo",
        group: Group::Connection,
        since: "1.0.0",
        summary: "Returns the given string.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::LOADING | flag::STALE | flag::FAST,
        acl: acl::CONNECTION,
        args: &[Arg::string("message")],
        run: Some(echo),
        ..Command::DEFAULT
    },
    Command {
        name: "ping",
        group: Group::Connection,
        since: "1.0.0",
        summary: "Returns the server's liveliness response.",
        complexity: "O(1)",
        arity: -1,
        flags: flag::FAST,
        acl: acl::CONNECTION,
        args: &[Arg::string("message").optional()],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        run: Some(ping),
        ..Command::DEFAULT
    },
];

fn echo(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.reply.bulk(ctx.args.get(1));
    Ok(())
}

fn ping(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if ctx.argc() > 2 {
        return Err(error_text!("ERR wrong number of arguments for 'ping' command"));
    }
    if ctx.client.is_subscribed() && !ctx.client.resp3 {
        ctx.reply.array(2);
        ctx.reply.bulk(b"pong");
        ctx.reply.bulk(ctx.args.get(1));
    } else if ctx.argc() == 2 {
        ctx.reply.bulk(ctx.args.get(1));
    } else {
        ctx.reply.simple("PONG");
    }
    Ok(())
}
