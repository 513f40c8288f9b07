//! The one command table: the families' arrays, and the way from a name to an entry.

use crate::command::{Command, flag};
use alloc::string::String;
use alloc::vec::Vec;

/// The families, in no particular order. A family's file holds its entries, handlers and tests.
pub static FAMILIES: &[&[Command]] = &[
    super::bitfield::COMMANDS,
    super::bitmaps::COMMANDS,
    super::client::COMMANDS,
    super::command::COMMANDS,
    super::configuration::COMMANDS,
    super::connection::COMMANDS,
    super::dump::COMMANDS,
    super::counters::COMMANDS,
    super::diagnostics::COMMANDS,
    super::expire::COMMANDS,
    super::hashes::COMMANDS,
    super::info::COMMANDS,
    super::keys::COMMANDS,
    super::lcs::COMMANDS,
    super::lists::COMMANDS,
    super::lists_blocking::COMMANDS,
    super::pubsub::COMMANDS,
    super::server::COMMANDS,
    super::set_algebra::COMMANDS,
    super::sets::COMMANDS,
    super::sort::COMMANDS,
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
    /// Entry numbers plus one, by the name's hash; the next buckets are tried if one is taken.
    buckets: [u16; BUCKETS],
    entries: Vec<Entry>,
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
        let mut index = Self { buckets: [0; BUCKETS], entries: Vec::new() };
        let mut number = 0;
        for command in all() {
            index.entries.push(Entry { command, container: None, number });
            number += 1 + command.subcommands.len();
            let mut at = bucket(command.name.as_bytes());
            while index.buckets[at] != 0 {
                at = (at + 1) % BUCKETS;
            }
            index.buckets[at] = index.entries.len() as u16;
        }
        index
    }

    /// The command of this name, in any case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<Entry> {
        let mut at = bucket(name);
        loop {
            let n = self.buckets[at];
            if n == 0 {
                return None;
            }
            let entry = self.entries.get(n as usize - 1)?;
            if entry.command.name.as_bytes().eq_ignore_ascii_case(name) {
                return Some(*entry);
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

/// Bucket of a name; case does not matter. Collisions only cost a comparison: names are ours, not the client's.
#[inline]
fn bucket(name: &[u8]) -> usize {
    let mut h = name.len() as u32;
    for &b in name.iter().take(12) {
        h = (h ^ u32::from(b | 0x20)).wrapping_mul(0x0100_0193);
    }
    (h ^ (h >> 15)) as usize % BUCKETS
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
