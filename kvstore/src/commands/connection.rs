//! Commands about the connection.

use crate::command::{Arg, Command, Group, acl, flag};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;
use crate::number::parse_i64;
use crate::session::{Fate, ReplyMode};
use crate::text::printable;
use alloc::vec::Vec;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "auth",
        group: Group::Connection,
        since: "1.0.0",
        summary: "Authenticates the connection.",
        complexity: "O(N) where N is the number of passwords defined for the user",
        arity: -2,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::NO_AUTH | flag::ALLOW_BUSY,
        acl: acl::CONNECTION,
        args: &[Arg::string("username").since("6.0.0").optional(), Arg::string("password")],
        history: &[("6.0.0", "Added ACL style (username and password).")],
        run: Some(auth),
        ..Command::DEFAULT
    },
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
        name: "hello",
        group: Group::Connection,
        since: "6.0.0",
        summary: "Handshakes with the server.",
        complexity: "O(1)",
        arity: -1,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::NO_AUTH | flag::ALLOW_BUSY,
        acl: acl::CONNECTION,
        args: &[Arg::block(
            "arguments",
            &[
                Arg::integer("protover"),
                Arg::block("auth", &[Arg::string("username"), Arg::string("password")]).token("AUTH").optional(),
                Arg::string("clientname").token("SETNAME").optional(),
            ],
        )
        .optional()],
        history: &[(
            "6.2.0",
            "`protover` made optional; when called without arguments the command reports the current connection's context.",
        )],
        run: Some(hello),
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
    Command {
        name: "quit",
        group: Group::Connection,
        since: "1.0.0",
        summary: "Closes the connection.",
        complexity: "O(1)",
        arity: -1,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::NO_AUTH | flag::ALLOW_BUSY,
        acl: acl::CONNECTION,
        deprecated_since: "7.2.0",
        replaced_by: "just closing the connection",
        run: Some(quit),
        ..Command::DEFAULT
    },
    Command {
        name: "reset",
        group: Group::Connection,
        since: "6.2.0",
        summary: "Resets the connection.",
        complexity: "O(1)",
        arity: 1,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::NO_AUTH | flag::ALLOW_BUSY,
        acl: acl::CONNECTION,
        run: Some(reset),
        ..Command::DEFAULT
    },
    Command {
        name: "select",
        group: Group::Connection,
        since: "1.0.0",
        summary: "Changes the selected database.",
        complexity: "O(1)",
        arity: 2,
        flags: flag::LOADING | flag::STALE | flag::FAST,
        acl: acl::CONNECTION,
        args: &[Arg::integer("index")],
        run: Some(select),
        ..Command::DEFAULT
    },
];

fn echo(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.reply.bulk(ctx.args.get(1));
    Ok(())
}

fn ping(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if ctx.argc() > 2 {
        return Err(Error::Fixed("ERR wrong number of arguments for 'ping' command"));
    }
    if ctx.client.is_subscribed() && !ctx.client.resp3 {
        ctx.reply.array(2);
        ctx.reply.bulk(b"pong");
        ctx.reply.bulk(ctx.args.get(1));
    } else if ctx.argc() == 2 {
        ctx.reply.bulk(ctx.args.get(1));
    } else {
        ctx.reply.raw(b"+PONG\r\n");
    }
    Ok(())
}

fn quit(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.reply.ok();
    ctx.client.fate = Fate::CloseAfterOutput;
    Ok(())
}

fn select(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let db = super::keys::database(ctx, 1, "ERR DB index is out of range")?;
    ctx.client.db = db;
    ctx.keys.db = db;
    ctx.reply.ok();
    Ok(())
}

/// Checks a user name and a password, and makes the session that user's.
fn log_in(ctx: &mut Ctx<'_>, user: &[u8], password: &[u8]) -> Result<(), Error> {
    match ctx.core.acl.authenticate(user, password) {
        Some(id) => {
            ctx.core.become_user(ctx.client, id, true);
            Ok(())
        }
        None => {
            ctx.core.log_failed_login(ctx.client, user, ctx.args.get(0));
            Err(Error::Fixed("WRONGPASS invalid username-password pair or user is disabled."))
        }
    }
}

fn auth(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    match ctx.argc() {
        2 => {
            if ctx.core.acl.default_has_no_password() {
                return Err(Error::Fixed(
                    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
                ));
            }
            log_in(ctx, b"default", ctx.args.get(1))?;
        }
        3 => log_in(ctx, ctx.args.get(1), ctx.args.get(2))?,
        _ => return Err(Error::Syntax),
    }
    ctx.reply.ok();
    Ok(())
}

fn hello(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let mut resp3 = ctx.client.resp3;
    if ctx.argc() > 1 {
        let not_a_number = Error::Fixed("ERR Protocol version is not an integer or out of range");
        resp3 = match parse_i64(ctx.arg(1)).ok_or(not_a_number)? {
            2 => false,
            3 => true,
            _ => return Err(Error::Fixed("NOPROTO unsupported protocol version")),
        };
    }
    let (mut credentials, mut name) = (None, None);
    let mut i = 2;
    while i < ctx.argc() {
        if ctx.args.is(i, "AUTH") && i + 2 < ctx.argc() {
            credentials = Some((ctx.args.get(i + 1), ctx.args.get(i + 2)));
            i += 2;
        } else if ctx.args.is(i, "SETNAME") && i + 1 < ctx.argc() {
            name = Some(ctx.args.get(i + 1));
            super::client::check_name(ctx.args.get(i + 1))?;
            i += 1;
        } else {
            return Err(error_text!("ERR Syntax error in HELLO option '{}'", printable(ctx.arg(i), 128)));
        }
        i += 1;
    }
    if let Some((user, password)) = credentials {
        log_in(ctx, user, password)?;
    }
    if !ctx.client.authenticated {
        return Err(Error::Fixed(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        ctx.client.name = name.to_vec();
    }
    ctx.client.resp3 = resp3;
    ctx.reply.resp3 = resp3;
    let id = ctx.client.id as i64;
    let r = &mut ctx.reply;
    r.map(7);
    r.bulk(b"server");
    r.bulk(b"redis");
    r.bulk(b"version");
    r.bulk(super::info::REDIS_VERSION.as_bytes());
    r.bulk(b"proto");
    r.int(if resp3 { 3 } else { 2 });
    r.bulk(b"id");
    r.int(id);
    r.bulk(b"mode");
    r.bulk(b"standalone");
    r.bulk(b"role");
    r.bulk(b"master");
    r.bulk(b"modules");
    r.array(0);
    Ok(())
}

fn reset(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.client.multi = None;
    ctx.keys.space.unwatch(ctx.client);
    ctx.core.unsubscribe_all(ctx.client);
    ctx.keys.space.disable_tracking(ctx.client);
    if ctx.client.monitor {
        let id = ctx.client.handle;
        ctx.core.monitors.retain(|m| *m != id);
    }
    let c = &mut *ctx.client;
    (c.db, c.resp3, c.monitor, c.no_evict, c.no_touch, c.reply_mode) = (0, false, false, false, false, ReplyMode::On);
    c.name = Vec::new();
    ctx.core.become_default(ctx.client);
    ctx.keys.db = 0;
    ctx.reply.resp3 = false;
    ctx.reply.simple("RESET");
    Ok(())
}
