//! COMMAND: what the command table says, told to clients.

use super::{extract, table};
use crate::command::{Arg, Begin, Command, Find, Group, KeySpec, acl, flag, key};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::reply::Reply;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The commands of this family.
pub const COMMANDS: &[Command] = &[Command {
    name: "command",
    group: Group::Server,
    since: "2.8.13",
    summary: "Returns detailed information about all commands.",
    complexity: "O(N) where N is the total number of commands",
    arity: -1,
    flags: flag::LOADING | flag::STALE,
    acl: acl::CONNECTION,
    tips: &["nondeterministic_output_order"],
    subcommands: &[
        Command {
            name: "count",
            group: Group::Server,
            since: "2.8.13",
            summary: "Returns a count of commands.",
            complexity: "O(1)",
            arity: 2,
            flags: flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            run: Some(command_count),
            ..Command::DEFAULT
        },
        Command {
            name: "docs",
            group: Group::Server,
            since: "7.0.0",
            summary: "Returns documentary information about one, multiple or all commands.",
            complexity: "O(N) where N is the number of commands to look up",
            arity: -2,
            flags: flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            args: &[Arg::string("command-name").optional().multiple()],
            tips: &["nondeterministic_output_order"],
            run: Some(command_docs),
            ..Command::DEFAULT
        },
        Command {
            name: "getkeys",
            group: Group::Server,
            since: "2.8.13",
            summary: "Extracts the key names from an arbitrary command.",
            complexity: "O(N) where N is the number of arguments to the command",
            arity: -3,
            flags: flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            args: &[Arg::string("command"), Arg::string("arg").optional().multiple()],
            run: Some(command_getkeys),
            ..Command::DEFAULT
        },
        Command {
            name: "getkeysandflags",
            group: Group::Server,
            since: "7.0.0",
            summary: "Extracts the key names and access flags for an arbitrary command.",
            complexity: "O(N) where N is the number of arguments to the command",
            arity: -3,
            flags: flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            args: &[Arg::string("command"), Arg::string("arg").optional().multiple()],
            run: Some(command_getkeysandflags),
            ..Command::DEFAULT
        },
        Command {
            name: "help",
            group: Group::Server,
            since: "5.0.0",
            summary: "Returns helpful text about the different subcommands.",
            complexity: "O(1)",
            arity: 2,
            flags: flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            help: COMMAND_HELP,
            run: Some(super::keys::help),
            ..Command::DEFAULT
        },
        Command {
            name: "info",
            group: Group::Server,
            since: "2.8.13",
            summary: "Returns information about one, multiple or all commands.",
            complexity: "O(N) where N is the number of commands to look up",
            arity: -2,
            flags: flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            args: &[Arg::string("command-name").optional().multiple()],
            history: &[("7.0.0", "Allowed to be called with no argument to get info on all commands.")],
            tips: &["nondeterministic_output_order"],
            run: Some(command_info),
            ..Command::DEFAULT
        },
        Command {
            name: "list",
            group: Group::Server,
            since: "7.0.0",
            summary: "Returns a list of command names.",
            complexity: "O(N) where N is the total number of commands",
            arity: -2,
            flags: flag::LOADING | flag::STALE,
            acl: acl::CONNECTION,
            args: &[Arg::one_of(
                "filterby",
                &[
                    Arg::string("module-name").token("MODULE"),
                    Arg::string("category").token("ACLCAT"),
                    Arg::pattern("pattern").token("PATTERN"),
                ],
            )
            .token("FILTERBY")
            .optional()],
            tips: &["nondeterministic_output_order"],
            run: Some(command_list),
            ..Command::DEFAULT
        },
    ],
    run: Some(command),
    ..Command::DEFAULT
}];

fn command(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let all: Vec<&Command> = table::all().collect();
    ctx.reply.array(all.len());
    all.iter().for_each(|c| describe(&mut ctx.reply, None, c));
    Ok(())
}

fn command_count(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    ctx.reply.count(table::all().count());
    Ok(())
}

/// The command or subcommand ("client|list") of this name.
fn named(name: &[u8]) -> Option<(Option<&'static Command>, &'static Command)> {
    let mut parts = name.splitn(2, |b| *b == b'|');
    let first = parts.next()?;
    let command = table::all().find(|c| c.name.as_bytes().eq_ignore_ascii_case(first))?;
    match parts.next() {
        None => Some((None, command)),
        Some(sub) => command.subcommand(sub).map(|s| (Some(command), s)),
    }
}

fn command_info(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if ctx.argc() == 2 {
        return command(ctx);
    }
    ctx.reply.array(ctx.argc() - 2);
    for name in ctx.args.iter_from(2) {
        match named(name) {
            Some((container, c)) => describe(&mut ctx.reply, container, c),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

fn full_name(container: Option<&Command>, c: &Command) -> String {
    container.map_or_else(|| c.name.to_string(), |p| format!("{}|{}", p.name, c.name))
}

/// First key, last key and step, as they were given before key specifications; and whether keys may stand elsewhere too.
fn legacy_range(c: &Command) -> ([i64; 3], bool) {
    let ranges: Vec<(i64, i64, i64)> = c
        .keys
        .iter()
        .filter_map(|k| match (k.begin, k.find) {
            (Begin::Index(first), Find::Range { last, step, limit: 0 | 1 }) => {
                let last = if last >= 0 { first as i64 + i64::from(last) } else { i64::from(last) };
                Some((first as i64, last, step as i64))
            }
            _ => None,
        })
        .collect();
    let movable = ranges.len() < c.keys.len() || c.keys.iter().any(|k| k.flags & key::INCOMPLETE != 0);
    let Some(&(first, mut last, step)) = ranges.first() else { return ([0; 3], movable) };
    // Specifications that follow one another without a gap are one range.
    for r in &ranges[1..] {
        if r.0 == last + 1 && r.2 == 1 && step == 1 && last >= 0 {
            last = r.1;
        }
    }
    ([first, last, step], movable)
}

fn names(reply: &mut Reply<'_>, names: &[&str]) {
    reply.set(names.len());
    names.iter().for_each(|n| reply.simple(n));
}

/// An entry of COMMAND and COMMAND INFO.
fn describe(reply: &mut Reply<'_>, container: Option<&Command>, c: &Command) {
    let (range, movable) = legacy_range(c);
    reply.array(10);
    reply.bulk(full_name(container, c).as_bytes());
    reply.int(i64::from(c.arity));
    let mut flags: Vec<&str> = flag::FLAG_NAMES.iter().filter(|(bit, _)| c.has(*bit)).map(|(_, n)| *n).collect();
    if movable {
        let at = flags.iter().position(|n| matches!(*n, "allow_busy")).unwrap_or(flags.len());
        flags.insert(at, "movablekeys");
    }
    names(reply, &flags);
    range.iter().for_each(|n| reply.int(*n));
    let categories = c.categories();
    let bits: Vec<&(u32, &str)> = acl::CATEGORY_NAMES.iter().filter(|(bit, _)| categories & bit != 0).collect();
    reply.set(bits.len());
    bits.iter().for_each(|(_, n)| reply.simple(&format!("@{n}")));
    reply.set(c.tips.len());
    c.tips.iter().for_each(|t| reply.bulk(t.as_bytes()));
    reply.set(c.keys.len());
    c.keys.iter().for_each(|k| key_spec(reply, k));
    reply.set(c.subcommands.len());
    c.subcommands.iter().for_each(|s| describe(reply, Some(c), s));
}

fn key_spec(reply: &mut Reply<'_>, k: &KeySpec) {
    reply.map(3 + usize::from(!k.notes.is_empty()));
    if !k.notes.is_empty() {
        reply.bulk(b"notes");
        reply.bulk(k.notes.as_bytes());
    }
    reply.bulk(b"flags");
    key_flags(reply, k.flags);
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    let fields = |reply: &mut Reply<'_>, name: &str, fields: &[(&str, i64)]| {
        reply.bulk(name.as_bytes());
        reply.bulk(b"spec");
        reply.map(fields.len());
        for (name, n) in fields {
            reply.bulk(name.as_bytes());
            reply.int(*n);
        }
    };
    match k.begin {
        Begin::Index(i) => fields(reply, "index", &[("index", i as i64)]),
        Begin::Keyword(word, from) => {
            reply.bulk(b"keyword");
            reply.bulk(b"spec");
            reply.map(2);
            reply.bulk(b"keyword");
            reply.bulk(word.as_bytes());
            reply.bulk(b"startfrom");
            reply.int(i64::from(from));
        }
        Begin::Unknown => fields(reply, "unknown", &[]),
    }
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    match k.find {
        Find::Range { last, step, limit } => {
            let spec = [("lastkey", i64::from(last)), ("keystep", step as i64), ("limit", limit as i64)];
            fields(reply, "range", &spec);
        }
        Find::Count { index, first, step } => {
            let spec = [("keynumidx", index as i64), ("firstkey", first as i64), ("keystep", step as i64)];
            fields(reply, "keynum", &spec);
        }
        Find::Unknown => fields(reply, "unknown", &[]),
    }
}

fn key_flags(reply: &mut Reply<'_>, flags: u16) {
    let set: Vec<&str> = key::KEY_FLAG_NAMES.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, n)| *n).collect();
    names(reply, &set);
}

fn command_docs(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    if ctx.argc() == 2 {
        ctx.reply.map(table::all().count());
        table::all().for_each(|c| document(&mut ctx.reply, None, c));
        return Ok(());
    }
    let found: Vec<_> = ctx.args.iter_from(2).filter_map(named).collect();
    ctx.reply.map(found.len());
    found.iter().for_each(|(container, c)| document(&mut ctx.reply, *container, c));
    Ok(())
}

/// A pair of COMMAND DOCS: the name and what is to be said.
fn document(reply: &mut Reply<'_>, container: Option<&Command>, c: &Command) {
    reply.bulk(full_name(container, c).as_bytes());
    let texts = [("summary", c.summary), ("since", c.since), ("group", c.group.name()), ("complexity", c.complexity)];
    let deprecated = [("deprecated_since", c.deprecated_since), ("replaced_by", c.replaced_by)];
    let doc_flags: Vec<&str> = [(!c.deprecated_since.is_empty(), "deprecated"), (c.syscmd, "syscmd")]
        .iter()
        .filter(|(set, _)| *set)
        .map(|(_, n)| *n)
        .collect();
    let lists = [!doc_flags.is_empty(), !c.history.is_empty(), !c.args.is_empty(), !c.subcommands.is_empty()];
    let given = |pairs: &[(&str, &str)]| pairs.iter().filter(|(_, t)| !t.is_empty()).count();
    reply.map(given(&texts) + given(&deprecated) + lists.iter().filter(|l| **l).count());
    let write = |reply: &mut Reply<'_>, pairs: &[(&str, &str)]| {
        for (name, text) in pairs.iter().filter(|(_, t)| !t.is_empty()) {
            reply.bulk(name.as_bytes());
            reply.bulk(text.as_bytes());
        }
    };
    write(reply, &texts);
    if !doc_flags.is_empty() {
        reply.bulk(b"doc_flags");
        names(reply, &doc_flags);
    }
    write(reply, &deprecated);
    if !c.history.is_empty() {
        reply.bulk(b"history");
        reply.set(c.history.len());
        for (version, text) in c.history {
            reply.array(2);
            reply.bulk(version.as_bytes());
            reply.bulk(text.as_bytes());
        }
    }
    if !c.args.is_empty() {
        reply.bulk(b"arguments");
        arguments(reply, c.args);
    }
    if !c.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(c.subcommands.len());
        c.subcommands.iter().for_each(|s| document(reply, Some(c), s));
    }
}

fn arguments(reply: &mut Reply<'_>, args: &[Arg]) {
    reply.array(args.len());
    for a in args {
        let plain = a.parts.is_empty();
        let display = if !plain {
            ""
        } else if a.display.is_empty() {
            a.name
        } else {
            a.display
        };
        let flags: Vec<&str> =
            [(a.optional, "optional"), (a.multiple, "multiple"), (a.multiple_token, "multiple_token")]
                .iter()
                .filter(|(set, _)| *set)
                .map(|(_, n)| *n)
                .collect();
        let texts = [
            ("display_text", display),
            ("token", a.token.unwrap_or("")),
            ("since", a.since),
            ("deprecated_since", a.deprecated_since),
        ];
        let n = texts.iter().filter(|(name, t)| !t.is_empty() || (*name == "token" && a.token.is_some())).count();
        reply.map(2 + n + usize::from(a.key_spec.is_some()) + usize::from(!flags.is_empty()) + usize::from(!plain));
        let pair = |reply: &mut Reply<'_>, name: &str, text: &str| {
            reply.bulk(name.as_bytes());
            reply.bulk(text.as_bytes());
        };
        pair(reply, "name", a.name);
        pair(reply, "type", a.kind.name());
        if !display.is_empty() {
            pair(reply, "display_text", display);
        }
        if let Some(spec) = a.key_spec {
            reply.bulk(b"key_spec_index");
            reply.int(i64::from(spec));
        }
        if let Some(token) = a.token {
            pair(reply, "token", token);
        }
        if !a.since.is_empty() {
            pair(reply, "since", a.since);
        }
        if !a.deprecated_since.is_empty() {
            pair(reply, "deprecated_since", a.deprecated_since);
        }
        if !flags.is_empty() {
            reply.bulk(b"flags");
            names(reply, &flags);
        }
        if !plain {
            reply.bulk(b"arguments");
            arguments(reply, a.parts);
        }
    }
}

fn command_list(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    enum By<'a> {
        All,
        Category(Option<u32>),
        Pattern(&'a [u8]),
        Module,
    }
    let by = match ctx.argc() {
        2 => By::All,
        5 if ctx.args.is(2, "FILTERBY") && ctx.args.is(3, "ACLCAT") => {
            By::Category(acl::category(ctx.arg(4)).map(|(bit, _)| bit))
        }
        5 if ctx.args.is(2, "FILTERBY") && ctx.args.is(3, "PATTERN") => By::Pattern(ctx.args.get(4)),
        5 if ctx.args.is(2, "FILTERBY") && ctx.args.is(3, "MODULE") => By::Module,
        _ => return Err(Error::Syntax),
    };
    let mut found: Vec<String> = Vec::new();
    for c in table::all() {
        let each = core::iter::once((None, c)).chain(c.subcommands.iter().map(|s| (Some(c), s)));
        for (container, c) in each {
            let name = full_name(container, c);
            let wanted = match &by {
                By::All => true,
                By::Category(bit) => bit.is_some_and(|b| c.categories() & b != 0),
                By::Pattern(p) => crate::glob::matches_case(p, name.as_bytes(), true),
                By::Module => false,
            };
            if wanted {
                found.push(name);
            }
        }
    }
    ctx.reply.array(found.len());
    found.iter().for_each(|n| ctx.reply.bulk(n.as_bytes()));
    Ok(())
}

fn command_getkeys(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let found = keys_of_call(ctx)?;
    ctx.reply.array(found.len());
    found.iter().for_each(|(key, _)| ctx.reply.bulk(key));
    Ok(())
}

fn command_getkeysandflags(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let found = keys_of_call(ctx)?;
    ctx.reply.array(found.len());
    for (key, flags) in found {
        ctx.reply.array(2);
        ctx.reply.bulk(key);
        key_flags(&mut ctx.reply, flags);
    }
    Ok(())
}

fn keys_of_call<'a>(ctx: &Ctx<'a>) -> Result<Vec<(&'a [u8], u16)>, Error> {
    let call = ctx.args.tail(2);
    let invalid = Error::Fixed("ERR Invalid command specified");
    let entry = ctx.core.index.find(call.get(0)).ok_or(invalid.clone())?;
    let command = if entry.command.subcommands.is_empty() {
        entry.command
    } else {
        match entry.command.subcommand(call.get(1)) {
            Some(s) => s,
            None if call.len() == 1 => entry.command,
            None => return Err(invalid),
        }
    };
    if command.keys.iter().all(|spec| spec.flags & key::NOT_KEY != 0) {
        return Err(Error::Fixed("ERR The command has no key arguments"));
    }
    if !command.arity_fits(call.len()) {
        return Err(Error::Fixed("ERR Invalid number of arguments specified for command"));
    }
    let found = extract::keys(command, call).ok_or(Error::Fixed("ERR Invalid arguments specified for command"))?;
    if found.is_empty() && !command.has(flag::NO_MANDATORY_KEYS) {
        return Err(Error::Fixed("ERR Invalid arguments specified for command"));
    }
    Ok(found.into_iter().map(|(i, flags)| (call.get(i), flags)).collect())
}

const COMMAND_HELP: &[&str] = &[
    "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "(no subcommand)",
    "    Return details about all Redis commands.",
    "COUNT",
    "    Return the total number of commands in this Redis server.",
    "LIST",
    "    Return a list of all commands in this Redis server.",
    "INFO [<command-name> ...]",
    "    Return details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "GETKEYS <full-command>",
    "    Return the keys from a full Redis command.",
    "GETKEYSANDFLAGS <full-command>",
    "    Return the keys and the access flags from a full Redis command.",
    "HELP",
    "    Print this help.",
];
