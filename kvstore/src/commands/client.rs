//! CLIENT: sessions seen and steered from a session.

use super::client_tracking;
use crate::acl::UserId;
use crate::blocking::{Unblock, Wait};
use crate::command::{Arg, Command, Group, acl, flag};
use crate::core::{Core, Pause};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::error_text;
use crate::number::parse_i64;
use crate::session::{Client, ClientId, Fate, ReplyMode, Session};
use crate::text::printable;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[Command {
    name: "client",
    group: Group::Connection,
    since: "2.4.0",
    summary: "A container for client connection commands.",
    complexity: "Depends on subcommand.",
    arity: -2,
    subcommands: &[
        client_tracking::CACHING,
        Command {
            name: "getname",
            group: Group::Connection,
            since: "2.6.9",
            summary: "Returns the name of the connection.",
            complexity: "O(1)",
            arity: 2,
            flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            run: Some(client_getname),
            ..Command::DEFAULT
        },
        client_tracking::GETREDIR,
        Command {
            name: "help",
            group: Group::Connection,
            since: "5.0.0",
            summary: "Returns helpful text about the different subcommands.",
            complexity: "O(1)",
            arity: 2,
            flags: flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            help: CLIENT_HELP,
            run: Some(super::keys::help),
            ..Command::DEFAULT
        },
        Command {
            name: "id",
            group: Group::Connection,
            since: "5.0.0",
            summary: "Returns the unique client ID of the connection.",
            complexity: "O(1)",
            arity: 2,
            flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            run: Some(client_id),
            ..Command::DEFAULT
        },
        Command {
            name: "info",
            group: Group::Connection,
            since: "6.2.0",
            summary: "Returns information about the connection.",
            complexity: "O(1)",
            arity: 2,
            flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            tips: &["nondeterministic_output"],
            run: Some(client_info),
            ..Command::DEFAULT
        },
        Command {
            name: "kill",
            group: Group::Connection,
            since: "2.4.0",
            summary: "Terminates open connections.",
            complexity: "O(N) where N is the number of client connections",
            arity: -3,
            flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            args: &[Arg::one_of(
                "filter",
                &[
                    Arg::string("old-format").display("ip:port").deprecated("2.8.12"),
                    Arg::one_of(
                        "new-format",
                        &[
                            Arg::integer("client-id").token("ID").since("2.8.12").optional(),
                            Arg::one_of(
                                "client-type",
                                &[
                                    Arg::word("normal", "NORMAL"),
                                    Arg::word("master", "MASTER").since("3.2.0"),
                                    Arg::word("slave", "SLAVE"),
                                    Arg::word("replica", "REPLICA").since("5.0.0"),
                                    Arg::word("pubsub", "PUBSUB"),
                                ],
                            )
                            .token("TYPE")
                            .since("2.8.12")
                            .optional(),
                            Arg::string("username").token("USER").optional(),
                            Arg::string("addr").token("ADDR").display("ip:port").optional(),
                            Arg::string("laddr").token("LADDR").display("ip:port").since("6.2.0").optional(),
                            Arg::one_of("skipme", &[Arg::word("yes", "YES"), Arg::word("no", "NO")])
                                .token("SKIPME")
                                .optional(),
                        ],
                    )
                    .multiple(),
                ],
            )],
            history: &[
                ("2.8.12", "Added new filter format."),
                ("2.8.12", "`ID` option."),
                ("3.2.0", "Added `master` type in for `TYPE` option."),
                (
                    "5.0.0",
                    "Replaced `slave` `TYPE` with `replica`. `slave` still supported for backward compatibility.",
                ),
                ("6.2.0", "`LADDR` option."),
            ],
            run: Some(client_kill),
            ..Command::DEFAULT
        },
        Command {
            name: "list",
            group: Group::Connection,
            since: "2.4.0",
            summary: "Lists open connections.",
            complexity: "O(N) where N is the number of client connections",
            arity: -2,
            flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            args: &[
                Arg::one_of(
                    "client-type",
                    &[
                        Arg::word("normal", "NORMAL"),
                        Arg::word("master", "MASTER"),
                        Arg::word("replica", "REPLICA"),
                        Arg::word("pubsub", "PUBSUB"),
                    ],
                )
                .token("TYPE")
                .since("5.0.0")
                .optional(),
                Arg::integer("client-id").token("ID").since("6.2.0").optional().multiple(),
            ],
            history: &[
                ("2.8.12", "Added unique client `id` field."),
                ("5.0.0", "Added optional `TYPE` filter."),
                ("6.0.0", "Added `user` field."),
                ("6.2.0", "Added `argv-mem`, `tot-mem`, `laddr` and `redir` fields and the optional `ID` filter."),
                ("7.0.0", "Added `resp`, `multi-mem`, `rbs` and `rbp` fields."),
                ("7.0.3", "Added `ssub` field."),
            ],
            tips: &["nondeterministic_output"],
            run: Some(client_list),
            ..Command::DEFAULT
        },
        Command {
            name: "no-evict",
            group: Group::Connection,
            since: "7.0.0",
            summary: "Sets the client eviction mode of the connection.",
            complexity: "O(1)",
            arity: 3,
            flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            args: &[Arg::one_of("enabled", &[Arg::word("on", "ON"), Arg::word("off", "OFF")])],
            run: Some(client_no_evict),
            ..Command::DEFAULT
        },
        Command {
            name: "no-touch",
            group: Group::Connection,
            since: "7.2.0",
            summary: "Controls whether commands sent by the client affect the LRU/LFU of accessed keys.",
            complexity: "O(1)",
            arity: 3,
            flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            args: &[Arg::one_of("enabled", &[Arg::word("on", "ON"), Arg::word("off", "OFF")])],
            run: Some(client_no_touch),
            ..Command::DEFAULT
        },
        Command {
            name: "pause",
            group: Group::Connection,
            since: "3.0.0",
            summary: "Suspends commands processing.",
            complexity: "O(1)",
            arity: -3,
            flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            args: &[
                Arg::integer("timeout"),
                Arg::one_of("mode", &[Arg::word("write", "WRITE"), Arg::word("all", "ALL")]).since("6.2.0").optional(),
            ],
            history: &[("6.2.0", "`CLIENT PAUSE WRITE` mode added along with the `mode` option.")],
            run: Some(client_pause),
            ..Command::DEFAULT
        },
        Command {
            name: "reply",
            group: Group::Connection,
            since: "3.2.0",
            summary: "Instructs the server whether to reply to commands.",
            complexity: "O(1)",
            arity: 3,
            flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            args: &[Arg::one_of(
                "action",
                &[Arg::word("on", "ON"), Arg::word("off", "OFF"), Arg::word("skip", "SKIP")],
            )],
            run: Some(client_reply),
            ..Command::DEFAULT
        },
        Command {
            name: "setinfo",
            group: Group::Connection,
            since: "7.2.0",
            summary: "Sets information specific to the client or connection.",
            complexity: "O(1)",
            arity: 4,
            flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            args: &[Arg::one_of(
                "attr",
                &[Arg::string("libname").token("LIB-NAME"), Arg::string("libver").token("LIB-VER")],
            )],
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            run: Some(client_setinfo),
            ..Command::DEFAULT
        },
        Command {
            name: "setname",
            group: Group::Connection,
            since: "2.6.9",
            summary: "Sets the connection name.",
            complexity: "O(1)",
            arity: 3,
            flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            args: &[Arg::string("connection-name")],
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            run: Some(client_setname),
            ..Command::DEFAULT
        },
        client_tracking::TRACKING,
        client_tracking::TRACKINGINFO,
        Command {
            name: "unblock",
            group: Group::Connection,
            since: "5.0.0",
            summary: "Unblocks a client blocked by a blocking command from a different connection.",
            complexity: "O(log N) where N is the number of client connections",
            arity: -3,
            flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            args: &[
                Arg::integer("client-id"),
                Arg::one_of("unblock-type", &[Arg::word("timeout", "TIMEOUT"), Arg::word("error", "ERROR")]).optional(),
            ],
            run: Some(client_unblock),
            ..Command::DEFAULT
        },
        Command {
            name: "unpause",
            group: Group::Connection,
            since: "6.2.0",
            summary: "Resumes processing commands from paused clients.",
            complexity: "O(N) Where N is the number of paused clients",
            arity: 2,
            flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            run: Some(client_unpause),
            ..Command::DEFAULT
        },
    ],
    ..Command::DEFAULT
}];

/// Errs if a name has bytes that would break the lines of CLIENT LIST.
pub(super) fn check_name(name: &[u8]) -> Result<(), Error> {
    if name.iter().all(|b| (b'!'..=b'~').contains(b)) {
        return Ok(());
    }
    Err(Error::Fixed("ERR Client names cannot contain spaces, newlines or special characters."))
}

fn client_id(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.reply.int(ctx.client.id as i64);
    Ok(())
}

fn client_getname(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if ctx.client.name.is_empty() {
        ctx.reply.null()
    } else {
        ctx.reply.bulk(&ctx.client.name)
    }
    Ok(())
}

fn client_setname(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    check_name(ctx.arg(2))?;
    ctx.client.name = ctx.arg(2).to_vec();
    ctx.reply.ok();
    Ok(())
}

fn client_setinfo(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let value = ctx.args.get(3);
    let field = if ctx.args.is(2, "LIB-NAME") {
        &mut ctx.client.lib_name
    } else if ctx.args.is(2, "LIB-VER") {
        &mut ctx.client.lib_ver
    } else {
        return Err(error_text!("ERR Unrecognized option '{}'", printable(ctx.arg(2), 128)));
    };
    if !value.iter().all(|b| (b'!'..=b'~').contains(b)) {
        let name = printable(ctx.args.get(2), 128);
        return Err(error_text!("ERR {name} cannot contain spaces, newlines or special characters."));
    }
    *field = value.to_vec();
    ctx.reply.ok();
    Ok(())
}

/// What CLIENT LIST can see of a session's input and output. Those of the present one are elsewhere just now.
#[derive(Clone, Copy, Default)]
struct Sizes {
    query: usize,
    reply_buffer: usize,
    chunks: usize,
    /// In the buffer, and in chunks.
    output: (usize, usize),
    total: usize,
    arguments: usize,
}

impl Sizes {
    fn of(s: &Session) -> Self {
        Self {
            query: s.query.len(),
            reply_buffer: s.out.buffer_size(),
            chunks: s.out.chunks(),
            output: s.out.parts(),
            total: s.charged_memory(),
            arguments: s.client.blocked.as_ref().map_or(0, |b| b.args.total_len()),
        }
    }
}

/// A line of CLIENT LIST, without its end.
fn describe(c: &Client, sizes: Sizes, core: &Core, last: Option<&str>) -> String {
    let mut flags = String::new();
    let queued = c.multi.as_ref().map(|m| m.queue.len()).or(c.executing);
    let tracking = c.tracking.as_deref();
    for (set, letter) in [
        (c.monitor, 'O'),
        (c.is_subscribed(), 'P'),
        (queued.is_some(), 'x'),
        (c.blocked.is_some(), 'b'),
        (tracking.is_some_and(|t| t.on), 't'),
        (tracking.is_some_and(|t| t.broken), 'R'),
        (tracking.is_some_and(|t| t.bcast), 'B'),
        (c.watch_broken, 'd'),
        (c.fate == Fate::CloseAfterOutput, 'c'),
        (c.fate == Fate::Abort, 'A'),
        (c.no_evict, 'e'),
        (c.no_touch, 'T'),
    ] {
        if set {
            flags.push(letter);
        }
    }
    if flags.is_empty() {
        flags.push('N');
    }
    let (sub, psub, ssub) =
        c.subscriptions.as_ref().map_or((0, 0, 0), |s| (s.channels.len(), s.patterns.len(), s.shards.len()));
    let multi = queued.map_or(-1, |n| n as i64);
    let multi_mem = c.queued_memory();
    format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db={} sub={sub} psub={psub} ssub={ssub} \
         multi={multi} qbuf={} qbuf-free=0 argv-mem={} multi-mem={multi_mem} rbs={} rbp={} obl={} oll={} omem={} \
         tot-mem={} events={} cmd={} user={} redir={} resp={} lib-name={} lib-ver={}",
        c.id,
        c.peer,
        c.local,
        c.handle.slot,
        printable(&c.name, 1024),
        core.now_us.saturating_sub(c.created_us) / 1_000_000,
        core.now_us.saturating_sub(c.active_us) / 1_000_000,
        c.db,
        sizes.query,
        sizes.arguments,
        sizes.reply_buffer,
        c.reply_peak,
        sizes.output.0,
        sizes.chunks,
        sizes.output.1,
        sizes.total,
        if sizes.output != (0, 0) { "rw" } else { "r" },
        last.unwrap_or("NULL"),
        printable(core.acl.name(c.user), 1024),
        client_tracking::redirection(tracking),
        if c.resp3 { 3 } else { 2 },
        printable(&c.lib_name, 1024),
        printable(&c.lib_ver, 1024),
    )
}

/// The full name of a session's last command.
fn last_command(c: &Client) -> Option<String> {
    c.last_command.map(super::table::full_name)
}

/// The line of the session that is being served with `command`; its input and output are elsewhere just now.
pub(crate) fn summary(client: &Client, core: &Core, command: &str) -> String {
    describe(client, Sizes { total: size_of::<Session>(), ..Sizes::default() }, core, Some(command))
}

fn own_line(ctx: &Ctx<'_>) -> String {
    let container = format!("client|{}", ctx.command.name);
    let buffer = ctx.reply.out.buffer_size();
    let sizes = Sizes {
        total: size_of::<Session>() + buffer + ctx.client.memory_usage(),
        reply_buffer: buffer,
        arguments: ctx.args.total_len(),
        ..Sizes::default()
    };
    describe(ctx.client, sizes, ctx.core, Some(&container))
}

fn client_info(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let line = own_line(ctx) + "\n";
    ctx.reply.verbatim("txt", line.as_bytes());
    Ok(())
}

/// Class of a session, as TYPE names it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Normal,
    PubSub,
    /// Replicas and masters: there are none.
    Replication,
}

fn class_named(name: &[u8]) -> Result<Class, Error> {
    match name.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(Class::Normal),
        b"pubsub" => Ok(Class::PubSub),
        b"slave" | b"replica" | b"master" => Ok(Class::Replication),
        _ => Err(error_text!("ERR Unknown client type '{}'", printable(name, 128))),
    }
}

fn class_of(c: &Client) -> Class {
    if c.is_subscribed() { Class::PubSub } else { Class::Normal }
}

fn client_list(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (mut class, mut ids) = (None, None);
    if ctx.argc() == 4 && ctx.args.is(2, "TYPE") {
        class = Some(class_named(ctx.arg(3))?);
    } else if ctx.argc() > 3 && ctx.args.is(2, "ID") {
        let parsed: Option<Vec<i64>> = ctx.args.iter_from(3).map(parse_i64).collect();
        ids = Some(parsed.ok_or(Error::Fixed("ERR Invalid client ID"))?);
    } else if ctx.argc() != 2 {
        return Err(Error::Syntax);
    }
    let wanted = |c: &Client| {
        class.is_none_or(|k| class_of(c) == k) && ids.as_ref().is_none_or(|ids| ids.contains(&(c.id as i64)))
    };
    let mut lines: Vec<(u64, String)> = Vec::new();
    if wanted(ctx.client) {
        lines.push((ctx.client.id, own_line(ctx)));
    }
    for s in ctx.core.clients.iter().filter(|s| wanted(&s.client)) {
        let last = last_command(&s.client);
        lines.push((s.client.id, describe(&s.client, Sizes::of(s), ctx.core, last.as_deref())));
    }
    lines.sort_by_key(|(id, _)| *id);
    // An ID may be asked for any number of times.
    let line_of = |id: &i64| lines.binary_search_by_key(id, |(id, _)| *id as i64).ok().map(|at| &lines[at].1);
    let size = match &ids {
        Some(ids) => ids.iter().filter_map(line_of).map(|line| line.len() + 1).sum(),
        None => lines.iter().map(|(_, line)| line.len() + 1).sum(),
    };
    let mut text = String::new();
    if !ctx.affordable(size) || text.try_reserve_exact(size).is_err() {
        return Err(Error::OutOfMemory);
    }
    let mut add = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    match &ids {
        // As they were asked for, and as often.
        Some(ids) => ids.iter().filter_map(line_of).for_each(|line| add(line)),
        None => lines.iter().for_each(|(_, line)| add(line)),
    }
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// What CLIENT KILL is to kill.
#[derive(Default)]
struct Filter {
    id: Option<u64>,
    class: Option<Class>,
    addr: Option<String>,
    laddr: Option<String>,
    user: Option<UserId>,
    skip_me: bool,
}

impl Filter {
    fn fits(&self, c: &Client, me: u64) -> bool {
        self.id.is_none_or(|id| c.id == id)
            && self.class.is_none_or(|k| class_of(c) == k)
            && self.addr.as_ref().is_none_or(|a| c.peer.to_string() == *a)
            && self.laddr.as_ref().is_none_or(|a| c.local.to_string() == *a)
            && self.user.is_none_or(|u| c.user == u)
            && !(self.skip_me && c.id == me)
    }
}

fn client_kill(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let old_form = ctx.argc() == 3;
    let text = |arg: &[u8]| printable(arg, 128);
    let mut filter = Filter { skip_me: !old_form, ..Filter::default() };
    if old_form {
        filter.addr = Some(text(ctx.arg(2)));
    } else {
        let mut i = 2;
        while i < ctx.argc() {
            if i + 1 >= ctx.argc() {
                return Err(Error::Syntax);
            }
            let value = ctx.arg(i + 1);
            match ctx.arg(i).to_ascii_lowercase().as_slice() {
                b"id" => {
                    let bad = Error::Fixed("ERR client-id should be greater than 0");
                    filter.id = Some(parse_i64(value).filter(|n| *n > 0).ok_or(bad)? as u64);
                }
                b"type" => filter.class = Some(class_named(value)?),
                b"addr" => filter.addr = Some(text(value)),
                b"laddr" => filter.laddr = Some(text(value)),
                b"user" => {
                    let unknown = || error_text!("ERR No such user '{}'", text(value));
                    filter.user = Some(ctx.core.acl.find(value).ok_or_else(unknown)?);
                }
                b"skipme" if value.eq_ignore_ascii_case(b"yes") => filter.skip_me = true,
                b"skipme" if value.eq_ignore_ascii_case(b"no") => filter.skip_me = false,
                _ => return Err(Error::Syntax),
            }
            i += 2;
        }
    }
    let me = ctx.client.id;
    let mut killed = 0;
    // Who is being closed already is not killed once more.
    let fits = |c: &Client| c.fate != Fate::Abort && filter.fits(c, me);
    let doomed: Vec<ClientId> =
        ctx.core.clients.iter().map(|s| &s.client).filter(|c| fits(c)).map(|c| c.handle).collect();
    for id in doomed {
        ctx.core.kill(ctx.keys.space, id);
        killed += 1;
    }
    if filter.fits(ctx.client, me) {
        ctx.client.fate = Fate::CloseAfterOutput;
        killed += 1;
    }
    match (old_form, killed) {
        (true, 0) => return Err(Error::Fixed("ERR No such client")),
        (true, _) => ctx.reply.ok(),
        (false, n) => ctx.reply.count(n),
    }
    Ok(())
}

/// ON or OFF.
fn switch(arg: &[u8]) -> Result<bool, Error> {
    match arg.to_ascii_lowercase().as_slice() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(Error::Syntax),
    }
}

fn client_no_evict(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.client.no_evict = switch(ctx.arg(2))?;
    ctx.reply.ok();
    Ok(())
}

fn client_no_touch(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.client.no_touch = switch(ctx.arg(2))?;
    ctx.reply.ok();
    Ok(())
}

fn client_reply(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.client.reply_mode = match ctx.arg(2).to_ascii_lowercase().as_slice() {
        b"on" => {
            ctx.reply.ok();
            ReplyMode::On
        }
        b"off" => ReplyMode::Off,
        b"skip" => match ctx.client.reply_mode {
            ReplyMode::Off => ReplyMode::Off,
            ReplyMode::SkipThis | ReplyMode::SkipThisAndNext => ReplyMode::SkipThisAndNext,
            ReplyMode::On | ReplyMode::SkipNext => ReplyMode::SkipNext,
        },
        _ => return Err(Error::Syntax),
    };
    Ok(())
}

fn client_pause(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if ctx.argc() > 4 {
        return Err(ctx.wrong_subcommand());
    }
    let writes_only = match ctx.arg(3).to_ascii_lowercase().as_slice() {
        _ if ctx.argc() == 3 => false,
        b"write" => true,
        b"all" => false,
        _ => return Err(Error::Fixed("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let ms = parse_i64(ctx.arg(2)).ok_or(Error::Fixed("ERR timeout is not an integer or out of range"))?;
    if ms < 0 {
        return Err(Error::Fixed("ERR timeout is negative"));
    }
    let until_us = ctx.core.now_us.saturating_add((ms as u64).saturating_mul(1000));
    let pause = &mut ctx.core.pause;
    // A pause that is under way is neither shortened nor weakened.
    if pause.until_us == 0 {
        *pause = Pause { until_us, writes_only, ..*pause };
    } else {
        pause.until_us = pause.until_us.max(until_us);
        pause.writes_only &= writes_only;
    }
    ctx.reply.ok();
    Ok(())
}

fn client_unpause(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    // A time that has passed: the next turn lets everything go on.
    if ctx.core.pause.until_us != 0 {
        ctx.core.pause.until_us = 1;
    }
    ctx.reply.ok();
    Ok(())
}

fn client_unblock(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if ctx.argc() > 4 {
        return Err(ctx.wrong_subcommand());
    }
    let why = match ctx.arg(3).to_ascii_lowercase().as_slice() {
        _ if ctx.argc() == 3 => Unblock::Timeout,
        b"timeout" => Unblock::Timeout,
        b"error" => Unblock::Error,
        _ => return Err(Error::Fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
    };
    let id = ctx.int(2)?;
    let ends = |wait| matches!(wait, Wait::Key(_) | Wait::Replicas | Wait::ReplicaLogs);
    let waiting = |s: &&Session| s.client.id as i64 == id && s.client.blocked.as_ref().is_some_and(|b| ends(b.wait));
    let target = ctx.core.clients.iter().find(waiting).map(|s| s.client.handle);
    match target {
        Some(handle) if !ctx.core.unblock.iter().any(|(h, _)| *h == handle) => {
            ctx.core.unblock.push((handle, why));
            ctx.core.stats.unblocked += 1;
            ctx.reply.int(1);
        }
        _ => ctx.reply.int(0),
    }
    Ok(())
}

const CLIENT_HELP: &[&str] = &[
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CACHING (YES|NO)",
    "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
    "GETREDIR",
    "    Return the client ID we are redirecting to when tracking is enabled.",
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections. Options are:",
    "    * ADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made from the specified address",
    "    * LADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made to specified local address",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Kill connections by type.",
    "    * USER <username>",
    "      Kill connections authenticated by <username>.",
    "    * SKIPME (YES|NO)",
    "      Skip killing current connection (default: yes).",
    "LIST [options ...]",
    "    Return information about client connections. Options:",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Return clients of specified type.",
    "UNPAUSE",
    "    Stop the current client pause, resuming traffic.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Suspend all, or just write, clients for <timeout> milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "SETINFO <option> <value>",
    "Set client meta attr. Options are:",
    "    * LIB-NAME: the client lib name.",
    "    * LIB-VER: the client lib version.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Unblock the specified blocked client.",
    "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
    "         [OPTIN] [OPTOUT] [NOLOOP]",
    "    Control server assisted client side caching.",
    "TRACKINGINFO",
    "    Report tracking status for the current connection.",
    "NO-EVICT (ON|OFF)",
    "    Protect current client connection from eviction.",
    "NO-TOUCH (ON|OFF)",
    "    Will not touch LRU/LFU stats when this mode is on.",
    "HELP",
    "    Print this help.",
];
