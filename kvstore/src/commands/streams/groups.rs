//! Consumer groups: XGROUP and XACK.

use super::{args, no_group_of, subcommand_error};
use crate::command::{Arg, Command, Group, KeySpec, acl, flag, key};
use crate::commands::keys::help;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::keyspace::event;
use crate::types::stream::{self, Stream};

/// The commands of this part of the family.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "xack",
        group: Group::Stream,
        since: "5.0.0",
        summary: "Returns the number of messages that were successfully acknowledged by the consumer group member of a stream.",
        complexity: "O(1) for each message ID processed.",
        arity: -4,
        flags: flag::WRITE | flag::FAST,
        acl: acl::STREAM,
        keys: &[KeySpec::range(key::RW | key::UPDATE, 1, 0, 1)],
        args: &[Arg::key("key", 0), Arg::string("group"), Arg::string("id").multiple()],
        run: Some(xack),
        ..Command::DEFAULT
    },
    Command {
        name: "xgroup",
        group: Group::Stream,
        since: "5.0.0",
        summary: "A container for consumer groups commands.",
        complexity: "Depends on subcommand.",
        arity: -2,
        subcommands: &[
            Command {
                name: "create",
                group: Group::Stream,
                since: "5.0.0",
                summary: "Creates a consumer group.",
                complexity: "O(1)",
                arity: -5,
                flags: flag::WRITE | flag::DENYOOM,
                acl: acl::STREAM,
                keys: &[KeySpec::range(key::RW | key::INSERT, 2, 0, 1)],
                args: &[
                    Arg::key("key", 0),
                    Arg::string("group"),
                    Arg::one_of("id-selector", &[Arg::string("id"), Arg::word("new-id", "$")]),
                    Arg::word("mkstream", "MKSTREAM").optional(),
                    Arg::integer("entriesread").token("ENTRIESREAD").display("entries-read").optional(),
                ],
                history: &[("7.0.0", "Added the `entries_read` named argument.")],
                run: Some(xgroup_create),
                ..Command::DEFAULT
            },
            Command {
                name: "createconsumer",
                group: Group::Stream,
                since: "6.2.0",
                summary: "Creates a consumer in a consumer group.",
                complexity: "O(1)",
                arity: 5,
                flags: flag::WRITE | flag::DENYOOM,
                acl: acl::STREAM,
                keys: &[KeySpec::range(key::RW | key::INSERT, 2, 0, 1)],
                args: &[Arg::key("key", 0), Arg::string("group"), Arg::string("consumer")],
                run: Some(xgroup_createconsumer),
                ..Command::DEFAULT
            },
            Command {
                name: "delconsumer",
                group: Group::Stream,
                since: "5.0.0",
                summary: "Deletes a consumer from a consumer group.",
                complexity: "O(1)",
                arity: 5,
                flags: flag::WRITE,
                acl: acl::STREAM,
                keys: &[KeySpec::range(key::RW | key::DELETE, 2, 0, 1)],
                args: &[Arg::key("key", 0), Arg::string("group"), Arg::string("consumer")],
                run: Some(xgroup_delconsumer),
                ..Command::DEFAULT
            },
            Command {
                name: "destroy",
                group: Group::Stream,
                since: "5.0.0",
                summary: "Destroys a consumer group.",
                complexity: "O(N) where N is the number of entries in the group's pending entries list (PEL).",
                arity: 4,
                flags: flag::WRITE,
                acl: acl::STREAM,
                keys: &[KeySpec::range(key::RW | key::DELETE, 2, 0, 1)],
                args: &[Arg::key("key", 0), Arg::string("group")],
                run: Some(xgroup_destroy),
                ..Command::DEFAULT
            },
            Command {
                name: "help",
                group: Group::Stream,
                since: "5.0.0",
                summary: "Returns helpful text about the different subcommands.",
                complexity: "O(1)",
                arity: 2,
                flags: flag::LOADING | flag::STALE,
                acl: acl::STREAM,
                help: XGROUP_HELP,
                run: Some(help),
                ..Command::DEFAULT
            },
            Command {
                name: "setid",
                group: Group::Stream,
                since: "5.0.0",
                summary: "Sets the last-delivered ID of a consumer group.",
                complexity: "O(1)",
                arity: -5,
                flags: flag::WRITE,
                acl: acl::STREAM,
                keys: &[KeySpec::range(key::RW | key::UPDATE, 2, 0, 1)],
                args: &[
                    Arg::key("key", 0),
                    Arg::string("group"),
                    Arg::one_of("id-selector", &[Arg::string("id"), Arg::word("new-id", "$")]),
                    Arg::integer("entriesread").token("ENTRIESREAD").display("entries-read").optional(),
                ],
                history: &[("7.0.0", "Added the optional `entries_read` argument.")],
                run: Some(xgroup_setid),
                ..Command::DEFAULT
            },
        ],
        ..Command::DEFAULT
    },
];

fn xack(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (key, group) = (ctx.arg(1), ctx.arg(2));
    if !ctx.keys.stream(key)?.is_some_and(|s| s.groups.contains_key(group)) {
        ctx.reply.int(0);
        return Ok(());
    }
    for text in ctx.args.iter_from(3) {
        args::id(text, 0)?;
    }
    let Some(group) = ctx.keys.stream_mut(key)?.and_then(|s| s.groups.get_mut(group)) else { return Ok(()) };
    let mut acknowledged = 0;
    for text in ctx.args.iter_from(3) {
        acknowledged += usize::from(group.acknowledge(args::id(text, 0)?));
    }
    if acknowledged > 0 {
        ctx.keys.changed();
    }
    ctx.reply.count(acknowledged);
    Ok(())
}

/// Options of XGROUP CREATE and SETID.
#[derive(Default)]
struct Options {
    mkstream: bool,
    entries_read: Option<u64>,
}

impl Options {
    fn parse(ctx: &Ctx<'_>, create: bool) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut i = 5;
        while i < ctx.argc() {
            if create && ctx.args.is(i, "mkstream") {
                options.mkstream = true;
                i += 1;
            } else if ctx.args.is(i, "entriesread") && i + 1 < ctx.argc() {
                options.entries_read = match ctx.int(i + 1)? {
                    -1 => None,
                    n => Some(
                        u64::try_from(n)
                            .map_err(|_| Error::Fixed("ERR value for ENTRIESREAD must be positive or -1"))?,
                    ),
                };
                i += 2;
            } else {
                return Err(subcommand_error(ctx, "XGROUP"));
            }
        }
        Ok(options)
    }
}

const NO_KEY: Error = Error::Fixed(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
);

/// The stream and the group that a subcommand is about.
fn group<'a>(ctx: &'a mut Ctx<'_>) -> Result<(&'a mut Stream, &'a [u8]), Error> {
    let (key, name) = (ctx.arg(2), ctx.arg(3));
    let stream = ctx.keys.stream_mut(key)?.ok_or(NO_KEY)?;
    if !stream.groups.contains_key(name) {
        return Err(no_group_of(key, name));
    }
    Ok((stream, name))
}

fn xgroup_create(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let options = Options::parse(ctx, true)?;
    let (key, name) = (ctx.arg(2), ctx.arg(3));
    let end = ctx.keys.stream_mut(key)?.map(|s| s.log.last_id);
    let missing = end.is_none();
    if missing && !options.mkstream {
        return Err(NO_KEY);
    }
    // More arguments than the options can be.
    if ctx.argc() > 8 {
        return Err(subcommand_error(ctx, "XGROUP"));
    }
    let last_id = match ctx.args.get(4) {
        b"$" => end.unwrap_or_default(),
        text => args::id(text, 0)?,
    };
    let groups = &mut ctx.keys.stream_or_new(key, Default::default)?.groups;
    let taken = groups.contains_key(name);
    if !taken {
        groups.insert(name.into(), stream::Group::new(last_id, options.entries_read));
    }
    if missing {
        ctx.keys.modified_by(key, 0);
    }
    if taken {
        return Err(Error::Fixed("BUSYGROUP Consumer Group name already exists"));
    }
    ctx.keys.changed();
    ctx.notify(event::STREAM, "xgroup-create", key);
    ctx.reply.ok();
    Ok(())
}

fn xgroup_setid(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let options = Options::parse(ctx, false)?;
    let (key, text, argc) = (ctx.arg(2), ctx.arg(4), ctx.argc());
    let wrong = subcommand_error(ctx, "XGROUP");
    let (stream, name) = group(ctx)?;
    if argc != 5 && argc != 7 {
        return Err(wrong);
    }
    let last_id = if text == b"$" { stream.log.last_id } else { args::id_or_end(text, 0)? };
    if let Some(group) = stream.groups.get_mut(name) {
        group.last_id = last_id;
        group.entries_read = options.entries_read;
    }
    ctx.keys.changed();
    ctx.notify(event::STREAM, "xgroup-setid", key);
    ctx.reply.ok();
    Ok(())
}

fn xgroup_destroy(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (key, name) = (ctx.arg(2), ctx.arg(3));
    let Some(group) = ctx.keys.stream_mut(key)?.ok_or(NO_KEY)?.groups.remove(name) else {
        ctx.reply.int(0);
        return Ok(());
    };
    // A group can have more pending entries than one turn may free: they go the way of a removed stream.
    let mut husk = Stream::new();
    husk.groups.insert(name.into(), group);
    ctx.keys.space.lazy.push_object(crate::value::boxed(crate::value::Object::Stream(husk.into())));
    ctx.keys.changed();
    ctx.notify(event::STREAM, "xgroup-destroy", key);
    // Readers that wait for the group are to know.
    ctx.keys.wake(key);
    ctx.reply.int(1);
    Ok(())
}

fn xgroup_createconsumer(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (key, consumer, now) = (ctx.arg(2), ctx.arg(4), ctx.keys.now_ms());
    let (stream, name) = group(ctx)?;
    let created = stream.groups.get_mut(name).is_some_and(|group| group.add_consumer(consumer, now));
    if created {
        ctx.keys.changed();
        ctx.notify(event::STREAM, "xgroup-createconsumer", key);
    }
    ctx.reply.int(i64::from(created));
    Ok(())
}

fn xgroup_delconsumer(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (key, consumer) = (ctx.arg(2), ctx.arg(4));
    let (stream, name) = group(ctx)?;
    let pending = stream.groups.get_mut(name).and_then(|group| group.remove_consumer(consumer));
    if pending.is_some() {
        ctx.keys.changed();
        ctx.notify(event::STREAM, "xgroup-delconsumer", key);
    }
    ctx.reply.count(pending.unwrap_or(0));
    Ok(())
}

const XGROUP_HELP: &[&str] = &[
    "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CREATE <key> <groupname> <id|$> [option]",
    "    Create a new consumer group. Options are:",
    "    * MKSTREAM",
    "      Create the empty stream if it does not exist.",
    "    * ENTRIESREAD entries_read",
    "      Set the group's entries_read counter (internal use).",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Create a new consumer in the specified group.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Remove the specified consumer.",
    "DESTROY <key> <groupname>",
    "    Remove the specified group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
    "    Set the current group ID and entries_read counter.",
    "HELP",
    "    Print this help.",
];
