//! Commands from the table: each with arguments of the documented kinds, now and then spoiled.

use crate::input::Input;
use barium_kvstore::command::{Arg, ArgType, Command, Group};
use barium_kvstore::commands::table;
use std::sync::LazyLock;

/// A command and, of a subcommand, its container.
type Entry = (&'static Command, Option<&'static Command>);

/// Commands that can be carried out, the containers' subcommands among them.
static ALL: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let mut all: Vec<Entry> = Vec::new();
    for command in table::all() {
        if command.run.is_some() {
            all.push((command, None));
        }
        all.extend(command.subcommands.iter().map(|sub| (sub, Some(command))));
    }
    all.sort_by_key(|(command, container)| (container.map_or(command.name, |c| c.name), command.name));
    all
});

/// Makes what is made once.
pub fn prepare() {
    LazyLock::force(&ALL);
}

/// Most words of a command.
const MAX_WORDS: usize = 400;

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "5",
    "10",
    "-2",
    "100",
    "-5",
    "127",
    "128",
    "512",
    "4096",
    "65536",
    "1000000",
    "4294967295",
    "4294967296",
    "2147483647",
    "-2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "00",
    "+1",
    "1e3",
    "",
    " 1",
    "536870911",
];

const DOUBLES: &[&str] = &[
    "0",
    "1",
    "-1",
    "1.5",
    "0.001",
    "3.0e10",
    "inf",
    "-inf",
    "+inf",
    "nan",
    "-0",
    "1e308",
    "5e-324",
    "0x1p-3",
    "12345678901234567",
    "0.1",
    "-85.05112878",
    "180",
    "179.99999",
    "1e-400",
    "17.3",
    "38.115556",
    "13.361389",
];

const STRINGS: &[&str] = &[
    "a",
    "b",
    "c",
    "d",
    "e",
    "",
    "12",
    "-7",
    "3.25",
    "hello",
    "[a",
    "(b",
    "(1",
    "-",
    "+",
    "(1.5",
    "[",
    "*",
    "$",
    ">",
    "0-1",
    "1-1",
    "1-*",
    "5",
    "5-0",
    "2-18446744073709551615",
    "field",
    "value",
    "u8",
    "i16",
    "u63",
    "i64",
    "#1",
    "x",
    "10",
];

const PATTERNS: &[&str] = &["*", "list*", "?", "[a-z]*", "\\*", "*a*", "str1", "*->a", "hash1->b", "#", "__key*__:*"];

const SUBSCRIPTIONS: &[&str] = &["news", "new*", "__keyevent@0__:set", "__keyspace@0__:str1"];

/// Keys, by the kind of value that mostly lies there.
fn key(group: Group, input: &mut Input<'_>, out: &mut Vec<u8>) {
    let family = match input.below(10) {
        9 => input.pick(&["str", "list", "set", "zset", "hash", "stream"]),
        _ => match group {
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet | Group::Geo => "zset",
            Group::Hash => "hash",
            Group::Stream => "stream",
            Group::String | Group::Bitmap | Group::HyperLogLog => "str",
            _ => input.pick(&["str", "list", "set", "zset", "hash", "stream"]),
        },
    };
    out.extend_from_slice(family.as_bytes());
    out.push(b'1' + input.below(3) as u8);
}

/// Bytes that a value could be: short words, numbers, anything, or something long.
fn text(input: &mut Input<'_>, out: &mut Vec<u8>) {
    match input.below(12) {
        0..7 => out.extend_from_slice(input.pick(STRINGS).as_bytes()),
        7 => out.extend_from_slice(input.pick(NUMBERS).as_bytes()),
        8 => out.extend_from_slice(input.pick(DOUBLES).as_bytes()),
        9 | 10 => {
            let len = input.below(24);
            out.extend_from_slice(input.take(len));
        }
        _ => {
            // Around the sizes at which something changes: embedded strings, compact encodings, shared replies, chunks.
            let len = input.pick(&[44usize, 45, 64, 65, 200, 4096, 8 * 1024, 16 * 1024, 16 * 1024, 40 * 1024]);
            let len = if len == 40 * 1024 && input.one_in(4) { 1 << 20 } else { len };
            let fill = input.byte();
            out.resize(out.len() + len - input.below(3), fill);
        }
    }
}

/// The words of one command. They end with the input.
pub fn command(input: &mut Input<'_>) -> Vec<Vec<u8>> {
    let entries = &*ALL;
    let (command, container) = entries[input.below(entries.len())];
    let mut words = Vec::new();
    if let Some(container) = container {
        words.push(container.name.as_bytes().to_vec());
    }
    words.push(command.name.as_bytes().to_vec());
    if command.args.is_empty() && command.arity.unsigned_abs() as usize > words.len() {
        // Nothing is documented: DEBUG.
        for _ in 0..input.below(4) {
            let mut word = Vec::new();
            match input.below(3) {
                0 => key(command.group, input, &mut word),
                1 => word.extend_from_slice(input.pick(DEBUG_WORDS).as_bytes()),
                _ => text(input, &mut word),
            }
            words.push(word);
        }
    }
    let group = container.map_or(command.group, |c| c.group);
    for arg in command.args {
        argument(arg, group, input, &mut words);
    }
    if input.one_in(12) {
        spoil(input, &mut words);
    }
    keep_sane(&mut words);
    words
}

const DEBUG_WORDS: &[&str] = &[
    "object",
    "listpack",
    "0",
    "set-active-expire",
    "quicklist-packed-threshold",
    "digest",
    "digest-value",
    "protocol",
    "replybuffer",
    "error",
    "log",
    "change-repl-id",
    "attrib",
    "map",
    "100",
    "str1",
];

fn argument(arg: &Arg, group: Group, input: &mut Input<'_>, words: &mut Vec<Vec<u8>>) {
    if arg.optional && input.below(3) != 1 {
        return;
    }
    let times = match arg.multiple {
        false => 1,
        true => match input.below(16) {
            15 => input.pick(&[40, 140]),
            n => 1 + n % 3,
        },
    };
    for i in 0..times {
        if words.len() > MAX_WORDS || (i > 3 && input.is_empty()) {
            return;
        }
        if let Some(token) = arg.token
            && (i == 0 || arg.multiple_token)
        {
            words.push(token.as_bytes().to_vec());
        }
        let mut word = Vec::new();
        match arg.kind {
            ArgType::PureToken => continue,
            ArgType::OneOf => {
                let part = &arg.parts[input.below(arg.parts.len())];
                argument(part, group, input, words);
                continue;
            }
            ArgType::Block => {
                for part in arg.parts {
                    argument(part, group, input, words);
                }
                continue;
            }
            ArgType::Key => key(group, input, &mut word),
            // Counts of keys are mostly right: the command goes no further otherwise.
            ArgType::Integer if matches!(arg.name, "numkeys") && !input.one_in(8) => {
                word.push(b'1' + input.below(2) as u8);
            }
            ArgType::Integer if arg.name.contains("timeout") || arg.name.contains("milliseconds") => {
                word.extend_from_slice(input.pick(&["0", "1", "10", "50"]).as_bytes())
            }
            ArgType::Integer => word.extend_from_slice(input.pick(NUMBERS).as_bytes()),
            ArgType::Double => word.extend_from_slice(input.pick(DOUBLES).as_bytes()),
            ArgType::UnixTime => word.extend_from_slice(
                input.pick(&["1767225700", "1767225601500", "1", "-5", "99999999999999"]).as_bytes(),
            ),
            ArgType::Pattern => word.extend_from_slice(input.pick(PATTERNS).as_bytes()),
            ArgType::String if arg.name.contains("channel") => {
                word.extend_from_slice(input.pick(SUBSCRIPTIONS).as_bytes())
            }
            ArgType::String if group == Group::Server && arg.name == "parameter" => {
                word.extend_from_slice(input.pick(PARAMETERS).as_bytes())
            }
            ArgType::String => text(input, &mut word),
        }
        words.push(word);
    }
}

const PARAMETERS: &[&str] = &[
    "hash-max-listpack-entries",
    "list-max-listpack-size",
    "set-max-intset-entries",
    "set-max-listpack-entries",
    "zset-max-listpack-entries",
    "hash-max-listpack-value",
    "notify-keyspace-events",
    "stream-node-max-entries",
    "maxmemory",
    "maxmemory-policy",
    "maxmemory-samples",
    "slowlog-max-len",
    "list-compress-depth",
    "maxmemory-clients",
    "client-output-buffer-limit",
    "*",
];

/// Makes a command wrong in one place.
fn spoil(input: &mut Input<'_>, words: &mut Vec<Vec<u8>>) {
    let at = input.below(words.len().min(8) + 1);
    match input.below(4) {
        0 if at < words.len() => drop(words.remove(at)),
        1 if at < words.len() => words.insert(at, words[at].clone()),
        2 if at < words.len() => {
            words[at].clear();
            text(input, &mut words[at]);
        }
        _ => {
            let mut word = Vec::new();
            text(input, &mut word);
            words.insert(at.min(words.len()), word);
        }
    }
}

/// What would only end the run, or make it long, is not sent.
fn keep_sane(words: &mut [Vec<u8>]) {
    let Some(name) = words.first() else { return };
    if name.eq_ignore_ascii_case(b"shutdown") || words.iter().any(|word| takes_long(word)) {
        words[0] = b"ping".to_vec();
    }
}

/// Whether bytes name something that only takes long: a million keys made by six bytes, a self-test.
pub fn takes_long(bytes: &[u8]) -> bool {
    let names = |word: &[u8]| bytes.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word));
    bytes.len() < 4096 && [&b"populate"[..], b"pfselftest"].iter().any(|word| names(word))
}
