//! docs/commands.md and docs/configuration.md, made from the command table and the parameters. The test fails when they are
//! not what it would write; with UPDATE_DOCS=1 (`make docs`) it writes them.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use barium_kvstore::command::{Arg, ArgType, Command, acl, flag};
use barium_kvstore::commands::table;
use barium_kvstore::config::{Kind, PARAMS, Rule};

const MADE_BY: &str = "<!-- Made by `make docs` from the source; changes here are lost. -->\n\n";

/// A command's arguments as its documentation writes them.
fn syntax(args: &[Arg]) -> String {
    args.iter().map(argument).collect::<Vec<_>>().join(" ")
}

fn argument(arg: &Arg) -> String {
    let display = if arg.display.is_empty() { arg.name } else { arg.display };
    let mut text = match arg.kind {
        ArgType::PureToken => String::new(),
        ArgType::OneOf => arg.parts.iter().map(argument).collect::<Vec<_>>().join(" | "),
        ArgType::Block => syntax(arg.parts),
        _ => display.to_string(),
    };
    if arg.kind == ArgType::OneOf && (!arg.optional || arg.token.is_some()) {
        text = format!("<{text}>");
    }
    let token = arg.token.map(|token| if token.is_empty() { "\"\"" } else { token });
    let with_token = |text: &str| [token.unwrap_or_default(), text].join(" ").trim().to_string();
    let text = match (arg.multiple, arg.multiple_token) {
        (true, true) => format!("{0} [{0} ...]", with_token(&text)),
        (true, false) => with_token(&format!("{text} [{text} ...]")),
        _ => with_token(&text),
    };
    if arg.optional { format!("[{text}]") } else { text }
}

fn names<'a>(bits: u32, of: &'a [(u32, &'a str)]) -> Vec<&'a str> {
    of.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect()
}

fn entry(out: &mut String, container: &str, c: &Command) {
    let name = format!("{container}{}", c.name).to_uppercase();
    let call = format!("{name} {}", syntax(c.args));
    let _ = writeln!(out, "### {name}\n\n    {}\n", call.trim());
    let _ = writeln!(out, "{}\n", c.summary);
    let _ = write!(out, "Since {}", c.since);
    if !c.deprecated_since.is_empty() {
        let _ = write!(out, ", deprecated since {}: use {}", c.deprecated_since, c.replaced_by);
    }
    if !c.complexity.is_empty() {
        let _ = write!(out, ". {}", c.complexity.trim_end_matches('.'));
    }
    let categories: Vec<String> =
        names(c.categories(), acl::CATEGORY_NAMES).iter().map(|name| format!("@{name}")).collect();
    let flags = names(c.flags, flag::FLAG_NAMES);
    let flags = if flags.is_empty() { "none".into() } else { flags.join(" ") };
    let _ = writeln!(out, ". Flags: {flags}. ACL: {}.\n", categories.join(" "));
}

fn commands() -> String {
    let mut all: Vec<&Command> = table::all().collect();
    all.sort_by_key(|c| (c.group.name(), c.name));
    let subcommands: usize = all.iter().map(|c| c.subcommands.len()).sum();
    let mut out = format!("# Commands\n\n{MADE_BY}{} commands and {subcommands} subcommands, by group.\n\n", all.len());
    let mut group = "";
    for c in all {
        if c.group.name() != group {
            group = c.group.name();
            let _ = writeln!(out, "## {group}\n");
        }
        entry(&mut out, "", c);
        c.subcommands.iter().for_each(|s| entry(&mut out, &format!("{} ", c.name), s));
    }
    out.trim_end().to_string() + "\n"
}

/// What values a parameter takes.
fn values(kind: Kind) -> String {
    let top = |high: i64| if high == i64::MAX { "...".to_string() } else { high.to_string() };
    match kind {
        Kind::Bool => "yes, no".into(),
        Kind::Int(low, high) => format!("{low} to {}", top(high)),
        Kind::Memory(low, high) => format!("size, {low} to {}", top(high)),
        Kind::LargeMemory => "size".into(),
        Kind::MemoryOrPercent => "size, or percent of maxmemory".into(),
        Kind::Percentiles => "percentiles".into(),
        Kind::Text => "text".into(),
        Kind::Word(words) => words.join(", "),
        Kind::OutputLimits => "class, hard and soft limit, seconds".into(),
        Kind::Events => "letters of event classes".into(),
    }
}

fn configuration() -> String {
    let mut out = format!(
        "# Configuration\n\n{MADE_BY}Parameters are set on the boot line (`ARGS=\"maxmemory=64mb\"`), by the host server's command line \
         (`--maxmemory 64mb`) and by CONFIG SET. Those that Redis 7.2 has and that are not listed belong to features that are not \
         there; CONFIG SET calls them unknown.\n\n| parameter | other name | values | default | set |\n|---|---|---|---|---|\n"
    );
    for p in PARAMS.iter().filter(|p| matches!(p.rule, Rule::Free | Rule::AtStart)) {
        let when = if p.rule == Rule::Free { "at any time" } else { "at the start" };
        let _ = writeln!(out, "| {} | {} | {} | {} | {when} |", p.name, p.alias, values(p.kind), p.default);
    }
    out += "\n## With one value\n\nThese can be read, because tools do, and have one value, because nothing here would change with \
            another. CONFIG SET takes that value and refuses others.\n\n| parameter | other name | value | why |\n|---|---|---|---|\n";
    for p in PARAMS.iter().filter(|p| !matches!(p.rule, Rule::Free | Rule::AtStart)) {
        let _ = writeln!(out, "| {} | {} | {} | {} |", p.name, p.alias, p.default, p.why);
    }
    out
}

/// Whether the document is as it should be; writes it if it is to be written.
fn is_current(name: &str, text: &str) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    if env::var_os("UPDATE_DOCS").is_some() {
        return fs::write(&path, text).is_ok();
    }
    fs::read_to_string(&path).is_ok_and(|old| old == text)
}

#[test]
fn documents_are_current() {
    for (name, text) in [("commands.md", commands()), ("configuration.md", configuration())] {
        assert!(is_current(name, &text), "docs/{name} is stale: run `make docs`");
    }
}

#[test]
fn calls_are_written_as_documented() {
    let call = |name: &str| table::all().find(|c| c.name == name).map(|c| syntax(c.args)).unwrap_or_default();
    assert_eq!(call("get"), "key");
    assert_eq!(call("mset"), "key value [key value ...]");
    assert_eq!(
        call("set"),
        "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]"
    );
    assert_eq!(call("linsert"), "key <BEFORE | AFTER> pivot element");
    assert!(call("bitfield").contains("[OVERFLOW <WRAP | SAT | FAIL>]"));
    assert_eq!(call("lmpop"), "numkeys key [key ...] <LEFT | RIGHT> [COUNT count]");
}
