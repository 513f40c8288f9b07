//! The one command table: the families' arrays, and the way from a name to an entry.

use crate::command::{Command, Express, flag};
use crate::session::args::Args;
use crate::session::parser::short_array;
use alloc::boxed::Box;
use alloc::string::String;

/// The families, in no particular order. A family's file holds its entries, handlers and tests.
pub static FAMILIES: &[&[Command]] = &[
    super::acl::COMMANDS,
    super::bitfield::COMMANDS,
    super::bitmaps::COMMANDS,
    super::client::COMMANDS,
    super::command::COMMANDS,
    super::configuration::COMMANDS,
    super::connection::COMMANDS,
    super::dump::COMMANDS,
    super::counters::COMMANDS,
    super::debug::COMMANDS,
    super::diagnostics::COMMANDS,
    super::expire::COMMANDS,
    super::geo::COMMANDS,
    super::geo::search::COMMANDS,
    super::hashes::COMMANDS,
    super::hyperloglog::COMMANDS,
    super::info::COMMANDS,
    super::keys::COMMANDS,
    super::lcs::COMMANDS,
    super::lists::COMMANDS,
    super::lists_blocking::COMMANDS,
    super::migrate::COMMANDS,
    super::modules::COMMANDS,
    super::pubsub::COMMANDS,
    super::replication::COMMANDS,
    super::server::COMMANDS,
    super::set_algebra::COMMANDS,
    super::sets::COMMANDS,
    super::sort::COMMANDS,
    super::streams::COMMANDS,
    super::streams::groups::COMMANDS,
    super::streams::info::COMMANDS,
    super::streams::pending::COMMANDS,
    super::streams::read::COMMANDS,
    super::strings::COMMANDS,
    super::transactions::COMMANDS,
    super::zsets::COMMANDS,
    super::zsets::algebra::COMMANDS,
    super::zsets::pops::COMMANDS,
    super::zsets::ranges::COMMANDS,
];

/// All commands, family by family.
pub fn all() -> impl Iterator<Item = &'static Command> {
    FAMILIES.iter().flat_map(|f| f.iter())
}

/// All commands and subcommands with their numbers, in that order.
pub fn entries() -> impl Iterator<Item = Entry> {
    let with_container =
        all().flat_map(|c| core::iter::once((None, c)).chain(c.subcommands.iter().map(move |s| (Some(c), s))));
    with_container.enumerate().map(|(number, (container, command))| Entry { command, container, number })
}

/// A command's name, a subcommand's with its container's.
pub fn full_name(command: &'static Command) -> String {
    let container = all().find(|c| c.subcommands.iter().any(|s| core::ptr::eq(s, command)));
    Entry { command, container, number: 0 }.full_name()
}

/// Number of commands and subcommands together.
pub fn numbers() -> usize {
    all().map(|c| 1 + c.subcommands.len()).sum()
}

/// Buckets of the index; a power of two, several times the number of commands.
const BUCKETS: usize = 1_024;

/// Finds commands by name.
#[derive(Debug)]
pub struct Index {
    /// By the name's hash; the next buckets are tried if one is taken.
    buckets: Box<[Bucket; BUCKETS]>,
    /// The commands that can go the express way.
    express: [ExpressEntry; EXPRESS],
}

/// How many commands can go the express way.
const EXPRESS: usize = 3;

/// A command that can go the express way: what it is, and how a request for it looks.
#[derive(Clone, Copy, Debug)]
pub struct ExpressEntry {
    /// The command's number.
    pub number: usize,
    /// The command.
    pub command: &'static Command,
    /// What to do.
    pub express: Express,
    /// The first eight bytes of the name's bulk string, [`EXPRESS_CASE`] set.
    word: u64,
    /// Number of arguments with the name; 0: any.
    arguments: usize,
    /// Length of the name's bulk string.
    name_len: usize,
}

/// The case of what stands behind `$<one digit>\r\n`. Of a name of three letters the fourth byte is the line's end, which no
/// command's parser looks at.
const EXPRESS_CASE: u64 = CASE << 32;

impl ExpressEntry {
    const NONE: Self =
        Self { number: 0, command: &Command::DEFAULT, express: Express::Get, word: 0, arguments: 0, name_len: 0 };

    /// For a command whose name has three or four letters.
    fn of(command: &'static Command, number: usize) -> Option<Self> {
        let express = command.express?;
        let name = command.name.as_bytes();
        let (&[a, b, c, d], 3 | 4) = ([name, b"\r"].concat().first_chunk()?, name.len()) else { return None };
        let start = [b'$', b'0' + name.len() as u8, b'\r', b'\n', a, b, c, d];
        let arguments = if express == Express::SetMany { 0 } else { usize::from(command.arity.unsigned_abs()) };
        let word = u64::from_le_bytes(start) | EXPRESS_CASE;
        Some(Self { number, command, express, word, arguments, name_len: 4 + name.len() + 2 })
    }
}

/// How a command is carried out from a session about which nothing is out of the ordinary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// With every check.
    #[default]
    Full,
    /// The short way ([`Command::is_simple`]).
    Short,
    /// The short way, and timed together with others of its kind ([`Command::is_quick`]).
    Quick,
}

impl Way {
    fn of(command: &Command) -> Self {
        match (command.is_simple(), command.is_quick()) {
            (false, _) => Way::Full,
            (true, false) => Way::Short,
            (true, true) => Way::Quick,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// [`word`] of the name.
    word: u64,
    /// Length of the name, if its word alone tells it from all others: up to eight letters.
    exact_len: u8,
    way: Way,
    entry: Option<Entry>,
}

/// A command and its number, for counters; its subcommands' numbers follow it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The command, or the subcommand.
    pub command: &'static Command,
    /// Of a subcommand, the command that contains it.
    pub container: Option<&'static Command>,
    /// Its number.
    pub number: usize,
}

impl Entry {
    /// Its name, with its container's ("client|list").
    pub fn full_name(self) -> String {
        match self.container {
            Some(c) => alloc::format!("{}|{}", c.name, self.command.name),
            None => self.command.name.into(),
        }
    }
}

impl Index {
    /// The index of all commands.
    pub fn new() -> Self {
        let mut index =
            Self { buckets: Box::new([Bucket::default(); BUCKETS]), express: [ExpressEntry::NONE; EXPRESS] };
        let mut express = index.express.iter_mut();
        let mut number = 0;
        for command in all() {
            let word = word(command.name.as_bytes());
            let mut at = bucket(word);
            while index.buckets[at].entry.is_some() {
                at = (at + 1) % BUCKETS;
            }
            let entry = Entry { command, container: None, number };
            let name = command.name.as_bytes();
            let exact = name.len() <= 8 && name.iter().all(u8::is_ascii_lowercase);
            let exact_len = if exact { name.len() as u8 } else { 0 };
            index.buckets[at] = Bucket { word, exact_len, way: Way::of(command), entry: Some(entry) };
            if let Some(found) = ExpressEntry::of(command, number)
                && let Some(place) = express.next()
            {
                *place = found;
            }
            number += 1 + command.subcommands.len();
        }
        index
    }

    /// The command for which the request that `rest` begins with may go the express way, the number of arguments behind its
    /// name, and what holds them.
    #[inline(always)]
    pub fn find_express<'a>(&self, rest: &'a [u8]) -> Option<(&ExpressEntry, usize, &'a [u8])> {
        let (arguments, behind) = short_array(rest)?;
        let word = u64::from_le_bytes(*behind.first_chunk()?) | EXPRESS_CASE;
        let found = self.express.iter().find(|e| e.word == word)?;
        if found.arguments != arguments && found.arguments != 0 {
            return None;
        }
        Some((found, arguments - 1, behind.get(found.name_len..)?))
    }

    /// The command of this name, in any case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<Entry> {
        self.lookup(word(name), name).map(|(entry, _)| entry)
    }

    /// The command that the first argument names, if it is a simple one ([`Command::is_simple`]).
    #[inline]
    pub fn find_simple(&self, args: Args<'_>) -> Option<(Entry, Way)> {
        let name = args.get(0);
        let found = match args.word(0) {
            Some(first) if name.len() <= 8 => self.lookup(short_word(first, name.len()), name),
            _ => self.lookup(word(name), name),
        };
        found.filter(|(_, way)| *way != Way::Full)
    }

    #[inline]
    fn lookup(&self, word: u64, name: &[u8]) -> Option<(Entry, Way)> {
        let mut at = bucket(word);
        loop {
            let found = &self.buckets[at];
            let entry = found.entry?;
            if found.word == word {
                // A byte that differs from a letter's in the bit of its case only is that letter.
                if usize::from(found.exact_len) == name.len()
                    || entry.command.name.as_bytes().eq_ignore_ascii_case(name)
                {
                    return Some((entry, found.way));
                }
            }
            at = (at + 1) % BUCKETS;
        }
    }
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

/// The bit in which the two cases of a letter differ, in each of eight bytes.
const CASE: u64 = 0x2020_2020_2020_2020;

/// Sixty-four bits made of a name, the same in any case: of its first and last eight bytes, or of all if there are fewer.
#[inline]
fn word(name: &[u8]) -> u64 {
    if name.len() > 8
        && let (Some(first), Some(last)) = (name.first_chunk::<8>(), name.last_chunk::<8>())
    {
        return (u64::from_le_bytes(*first) | CASE) ^ (u64::from_le_bytes(*last) | CASE).rotate_left(19);
    }
    let bytes = name.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b));
    short_word(bytes, name.len())
}

/// The word of a name of up to eight bytes, which are the low ones of `bytes`.
#[inline]
const fn short_word(bytes: u64, len: usize) -> u64 {
    // Of an empty name nothing is left; the shift is then by 64, which is taken in two.
    (bytes | CASE) << (32 - 4 * len) << (32 - 4 * len)
}

/// Bucket of a name's word. Collisions only cost a comparison: the names in the index are ours, not the client's.
#[inline]
const fn bucket(word: u64) -> usize {
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % BUCKETS
}

const fn check(commands: &[Command], sub: bool) {
    let mut i = 0;
    while i < commands.len() {
        let c = &commands[i];
        assert!(c.arity != 0 && !c.name.is_empty() && !c.since.is_empty(), "an entry lacks name, since or arity");
        assert!(!(c.has(flag::WRITE) && c.has(flag::READONLY)), "WRITE and READONLY exclude each other");
        assert!(!c.has(flag::DENYOOM) || c.has(flag::WRITE) || c.subcommands.is_empty(), "DENYOOM is for writes");
        assert!(c.run.is_some() || !c.subcommands.is_empty(), "an entry has neither handler nor subcommands");
        assert!(i == 0 || less(commands[i - 1].name, c.name), "a family is not sorted by name");
        assert!(is_lower(c.name), "a name is not in lower case");
        // A fixed arity is the number of arguments, unless one of them may repeat or be left out.
        let mut fixed = true;
        let mut a = 0;
        while a < c.args.len() {
            fixed = fixed && !c.args[a].optional && !c.args[a].multiple;
            a += 1;
        }
        let names = if sub { 2 } else { 1 };
        let simple = simple_arguments(c);
        assert!(
            !(c.arity > 0 && simple && fixed) || c.arity as usize == names + c.args.len(),
            "arity and arguments differ"
        );
        check(c.subcommands, true);
        i += 1;
    }
}

/// Whether each documented argument is one word.
const fn simple_arguments(c: &Command) -> bool {
    let mut a = 0;
    while a < c.args.len() {
        let arg = &c.args[a];
        if !arg.parts.is_empty() || (arg.token.is_some() && !matches!(arg.kind, crate::command::ArgType::PureToken)) {
            return false;
        }
        a += 1;
    }
    true
}

const fn less(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() {
        if a[i] != b[i] {
            return a[i] < b[i];
        }
        i += 1;
    }
    a.len() < b.len()
}

const fn is_lower(name: &str) -> bool {
    let name = name.as_bytes();
    let mut i = 0;
    while i < name.len() {
        if name[i].is_ascii_uppercase() {
            return false;
        }
        i += 1;
    }
    true
}

const _: () = {
    let mut i = 0;
    while i < FAMILIES.len() {
        check(FAMILIES[i], false);
        i += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn every_command_is_found_in_any_case() {
        let index = Index::new();
        for c in all() {
            assert!(core::ptr::eq(index.find(c.name.as_bytes()).unwrap().command, c));
            assert!(
                core::ptr::eq(index.find(c.name.to_ascii_uppercase().as_bytes()).unwrap().command, c),
                "{}",
                c.name
            );
        }
        assert!(index.find(b"").is_none());
        assert!(index.find(b"nosuchcommand").is_none());
        let mut names: Vec<_> = all().map(|c| c.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().count());
    }
}
