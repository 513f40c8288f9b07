//! Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH. Queueing is the dispatcher's.

use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::reply::Reply;
use crate::server::dispatch;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "discard",
        group: Group::Transactions,
        since: "2.0.0",
        summary: "Discards a transaction.",
        complexity: "O(N), when N is the number of queued commands",
        arity: 1,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::ALLOW_BUSY,
        acl: acl::TRANSACTION,
        run: Some(discard),
        ..Command::DEFAULT
    },
    Command {
        name: "exec",
        group: Group::Transactions,
        since: "1.2.0",
        summary: "Executes all commands in a transaction.",
        complexity: "Depends on commands in the transaction",
        arity: 1,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::SKIP_SLOWLOG,
        acl: acl::TRANSACTION,
        run: Some(exec),
        ..Command::DEFAULT
    },
    Command {
        name: "multi",
        group: Group::Transactions,
        since: "1.2.0",
        summary: "Starts a transaction.",
        complexity: "O(1)",
        arity: 1,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::ALLOW_BUSY,
        acl: acl::TRANSACTION,
        run: Some(multi),
        ..Command::DEFAULT
    },
    Command {
        name: "unwatch",
        group: Group::Transactions,
        since: "2.2.0",
        summary: "Forgets about watched keys of a transaction.",
        complexity: "O(1)",
        arity: 1,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::ALLOW_BUSY,
        acl: acl::TRANSACTION,
        run: Some(unwatch),
        ..Command::DEFAULT
    },
    Command {
        name: "watch",
        group: Group::Transactions,
        since: "2.2.0",
        summary: "Monitors changes to keys to determine the execution of a transaction.",
        complexity: "O(1) for every key.",
        arity: -2,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::ALLOW_BUSY,
        acl: acl::TRANSACTION,
        keys: &[KeySpec::range(key::RO, 1, -1, 1)],
        args: &[Arg::key("key", 0).multiple()],
        run: Some(watch),
        ..Command::DEFAULT
    },
];

fn multi(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if ctx.client.multi.is_some() {
        return Err(Error::Fixed("ERR MULTI calls can not be nested"));
    }
    ctx.client.multi = Some(Default::default());
    ctx.reply.ok();
    Ok(())
}

fn discard(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if ctx.client.multi.take().is_none() {
        return Err(Error::Fixed("ERR DISCARD without MULTI"));
    }
    ctx.keys.space.unwatch(ctx.client);
    ctx.reply.ok();
    Ok(())
}

fn watch(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if ctx.client.multi.is_some() {
        return Err(Error::Fixed("ERR WATCH inside MULTI is not allowed"));
    }
    // A client whose transaction will fail anyway needs no more reasons.
    if !ctx.client.watch_broken {
        for key in ctx.args.iter_from(1) {
            ctx.keys.watch(ctx.client, key);
        }
    }
    ctx.reply.ok();
    Ok(())
}

fn unwatch(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.keys.space.unwatch(ctx.client);
    ctx.reply.ok();
    Ok(())
}

fn exec(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let Some(multi) = ctx.client.multi.take() else { return Err(Error::Fixed("ERR EXEC without MULTI")) };
    let broken = ctx.client.watch_broken || ctx.keys.space.has_expired_watch(ctx.client);
    ctx.keys.space.unwatch(ctx.client);
    if multi.failed {
        return Err(Error::Fixed("EXECABORT Transaction discarded because of previous errors."));
    }
    if broken {
        ctx.reply.null_array();
        return Ok(());
    }
    ctx.reply.array(multi.queue.len());
    for (_, args) in &multi.queue {
        let args = args.args();
        let entry = match dispatch::find(ctx.core, args) {
            Ok(entry) => entry,
            Err(error) => {
                ctx.reply.error(&error);
                continue;
            }
        };
        // A command before may have changed database or protocol.
        let mut inner = Ctx {
            command: entry.command,
            args,
            reply: Reply { out: ctx.reply.out, resp3: ctx.client.resp3 },
            keys: ctx.keys.in_db(ctx.client.db),
            client: ctx.client,
            core: ctx.core,
            deny_blocking: true,
        };
        dispatch::call(&mut inner, entry);
    }
    Ok(())
}
