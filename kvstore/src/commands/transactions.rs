//! Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH. Queueing is the dispatcher's.

use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::reply::Reply;
use crate::server::dispatch;
use crate::server::tracking::note_reads;
use crate::session::Fate;
use crate::session::args::Args;

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
    if ctx.client.hears_replies() {
        if broken {
            ctx.reply.null_array();
        } else {
            ctx.reply.array(multi.queue.len());
        }
    }
    if broken {
        return Ok(());
    }
    ctx.client.executing = Some(multi.queue.len());
    for (_, args) in &multi.queue {
        let mark = ctx.reply.out.mark();
        let open = ctx.client.fate == Fate::Open;
        let pushes = carry_out(ctx, args.args());
        // Replies are switched off and on in the midst of it; a client that has ended itself hears nothing more.
        if !open || !(pushes || ctx.client.reply_mode.wants_replies()) {
            ctx.reply.out.truncate(mark);
        }
    }
    ctx.client.executing = None;
    Ok(())
}

/// Carries out a command of a transaction. Returns whether what it answers are pushes.
fn carry_out(ctx: &mut Ctx<'_>, args: Args<'_>) -> bool {
    let entry = match dispatch::find(ctx.core, args) {
        Ok(entry) => entry,
        Err(error) => {
            ctx.reply.error(&error);
            return false;
        }
    };
    if let Err(error) = ctx.core.permit_in_exec(ctx.client, entry, args) {
        ctx.core.stats.error(error.code());
        ctx.reply.error(&error);
        return false;
    }
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
    inner.freeze(entry.command);
    dispatch::call(&mut inner, entry);
    ctx.core.feed_monitors(ctx.client, entry.command, args);
    if ctx.client.tracking.is_some() {
        note_reads(ctx.keys.space, ctx.client, entry.command, args);
    }
    dispatch::answers_with_pushes(entry.command)
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn commands_are_queued_and_carried_out_together() {
        let mut b = Bench::new(&[]);
        let (c, other) = (b.client(), b.client());
        assert_eq!(b.run(c, "MULTI"), "OK");
        assert_eq!(b.run(c, "SET k v"), "QUEUED");
        assert_eq!(b.run(c, "LPUSH k x"), "QUEUED");
        assert_eq!(b.run(c, "BLPOP none 0"), "QUEUED", "which will not wait");
        assert_eq!(b.run(other, "GET k"), "nil");
        assert_eq!(
            b.run(c, "EXEC"),
            "[OK -WRONGTYPE Operation against a key holding the wrong kind of value nil]",
            "an error does not end it"
        );
        assert_eq!(b.run(c, "EXEC"), "-ERR EXEC without MULTI");
        assert_eq!(b.run(c, "DISCARD"), "-ERR DISCARD without MULTI");
        assert_eq!(b.run(other, "GET k"), "v");
    }

    #[test]
    fn a_refused_command_makes_exec_fail() {
        let mut b = Bench::new(&[]);
        let c = b.client();
        for refused in ["NOSUCH", "GET"] {
            b.run(c, "MULTI");
            assert!(b.run(c, refused).starts_with("-ERR"));
            assert_eq!(b.run(c, "SET k v"), "QUEUED");
            assert_eq!(b.run(c, "EXEC"), "-EXECABORT Transaction discarded because of previous errors.");
            assert_eq!(b.run(c, "GET k"), "nil");
        }
        b.run(c, "MULTI");
        let expected = "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command";
        assert_eq!(b.run(c, "EXEC now"), expected);
        assert_eq!(b.run(c, "EXEC"), "-ERR EXEC without MULTI", "the refused EXEC has ended it");
        b.run(c, "MULTI");
        assert_eq!(b.run(c, "MULTI"), "-ERR MULTI calls can not be nested");
        assert_eq!(b.run(c, "WATCH k"), "-ERR WATCH inside MULTI is not allowed");
        assert_eq!(b.run(c, "EXEC"), "[]", "these two do not spoil it");
    }

    #[test]
    fn a_watched_key_that_changes_makes_exec_answer_nil() {
        let mut b = Bench::new(&[]);
        let (c, other) = (b.client(), b.client());
        let check = |b: &mut Bench, before: &[&str], changes: &[&str], expected: &str| {
            for line in ["FLUSHALL", "SELECT 0"].iter().chain(before) {
                b.run(c, line);
            }
            for line in changes {
                b.run(other, line);
            }
            b.run(c, "MULTI");
            b.run(c, "PING");
            assert_eq!(b.run(c, "EXEC"), expected, "{before:?} {changes:?}");
        };
        check(&mut b, &["WATCH k"], &["SET k 1"], "nil");
        check(&mut b, &["WATCH k"], &["GET k", "DEL k"], "[PONG]");
        check(&mut b, &["SET k 1", "WATCH k"], &["DEL k"], "nil");
        check(&mut b, &["SET k 1", "WATCH k"], &["EXPIRE k 100"], "nil");
        check(&mut b, &["ZADD k 1 a", "WATCH k"], &["ZADD k 1 a", "ZADD k NX 2 a", "ZREM k b"], "[PONG]");
        check(&mut b, &["ZADD k 1 a", "WATCH k"], &["ZPOPMIN k"], "nil");
        check(&mut b, &["WATCH k", "UNWATCH"], &["SET k 1"], "[PONG]");
        check(&mut b, &["WATCH k", "SET k 2"], &[], "nil");
        check(&mut b, &["SELECT 1", "WATCH k", "SELECT 0"], &["SET k 1"], "[PONG]");
        check(&mut b, &["WATCH k"], &["SELECT 1", "SET k 1", "SELECT 0"], "[PONG]");
        check(&mut b, &["SET k 1", "WATCH k"], &["FLUSHALL"], "nil");
        check(&mut b, &["WATCH k"], &["FLUSHALL"], "[PONG]");
        check(&mut b, &["SELECT 1", "SET k 1", "SELECT 0", "WATCH k"], &["SWAPDB 0 1"], "nil");
    }

    #[test]
    fn a_watched_key_may_expire_only_before_it_is_watched() {
        let mut b = Bench::new(&[]);
        let c = b.client();
        b.run(c, "SET k v PX 20");
        b.run(c, "WATCH k");
        b.pass_ms(50);
        b.run(c, "MULTI");
        assert_eq!(b.run(c, "EXEC"), "nil");
        b.run(c, "SET k v PX 20");
        b.pass_ms(50);
        b.run(c, "WATCH k");
        b.run(c, "MULTI");
        assert_eq!(b.run(c, "EXEC"), "[]");
    }

    #[test]
    fn commands_inside_see_what_those_before_changed() {
        let mut b = Bench::new(&[]);
        let (c, monitor) = (b.client(), b.client());
        b.run(monitor, "MONITOR");
        b.run(c, "MULTI");
        for line in ["SELECT 1", "SET k v", "HELLO 3", "GET none", "SELECT 0", "GET k"] {
            assert_eq!(b.run(c, line), "QUEUED");
        }
        let reply = b.run(c, "EXEC");
        assert!(reply.starts_with("[OK OK {server redis") && reply.ends_with("nil OK nil]"), "{reply}");
        let lines = b.read(monitor);
        assert!(lines.contains("[1 127.0.0.1:1] \"SET\" \"k\" \"v\""), "{lines}");
    }
}
