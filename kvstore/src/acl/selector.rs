//! A set of permissions: commands, keys and channels.

use super::Denial;
use crate::command::{Channels, Command, key};
use crate::commands::extract;
use crate::commands::table::{self, Entry};
use crate::glob;
use crate::session::args::Args;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What may be done to keys that a pattern matches.
pub(super) mod access {
    pub const READ: u8 = 1;
    pub const WRITE: u8 = 2;
    pub const BOTH: u8 = READ | WRITE;
}

/// What a command does to a key, of that kind.
fn access_of(flags: u16) -> u8 {
    let read = if flags & key::ACCESS != 0 { access::READ } else { 0 };
    let write = if flags & (key::INSERT | key::DELETE | key::UPDATE) != 0 { access::WRITE } else { 0 };
    read | write
}

/// Keys that a pattern matches, and what may be done to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyPattern {
    pub pattern: Box<[u8]>,
    pub access: u8,
}

/// The arguments that are keys, found when the first selector wants to know.
pub(super) type KeysOfCall = Option<Vec<(usize, u16)>>;

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Any key.
    pub(super) all_keys: bool,
    /// Any channel.
    pub(super) all_channels: bool,
    /// Whether the rules below start from everything (`+@all`) rather than nothing.
    pub(super) from_all: bool,
    /// A bit per command number.
    pub(super) commands: Box<[u64]>,
    /// Commands that are allowed with this first argument, by number.
    pub(super) first_args: Vec<(usize, Box<[u8]>)>,
    /// Key patterns, in the order in which they were added.
    pub(super) keys: Vec<KeyPattern>,
    /// Channel patterns, in the order in which they were added.
    pub(super) channels: Vec<Box<[u8]>>,
    /// Command rules that lead from all or nothing to `commands`: whether it is allowed, and what.
    pub(super) rules: Vec<(bool, Box<[u8]>)>,
}

impl Selector {
    /// Nothing is allowed, but all channels if `all_channels`.
    pub(super) fn new(all_channels: bool) -> Self {
        Self {
            all_keys: false,
            all_channels,
            from_all: false,
            commands: alloc::vec![0; table::numbers().div_ceil(64)].into_boxed_slice(),
            first_args: Vec::new(),
            keys: Vec::new(),
            channels: Vec::new(),
            rules: Vec::new(),
        }
    }

    /// Everything is allowed.
    pub(super) fn unlimited() -> Self {
        let mut all = Self::new(true);
        all.all_keys = true;
        all.set_all_commands(true);
        all
    }

    /// Whether everything is allowed.
    pub(super) fn is_unrestricted(&self) -> bool {
        self.all_keys && self.all_channels && self.from_all && self.rules.is_empty()
    }

    pub(super) fn set_all_commands(&mut self, allow: bool) {
        self.commands.fill(if allow { u64::MAX } else { 0 });
        self.from_all = allow;
        self.rules.clear();
        self.first_args.clear();
    }

    #[inline]
    fn has_command(&self, number: usize) -> bool {
        self.commands.get(number / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    fn set_bit(&mut self, number: usize, allow: bool) {
        if let Some(word) = self.commands.get_mut(number / 64) {
            if allow {
                *word |= 1 << (number % 64);
            } else {
                *word &= !(1 << (number % 64));
            }
        }
    }

    /// Allows or forbids a command, and with a container all its subcommands.
    pub(super) fn set_command(&mut self, number: usize, command: &Command, allow: bool) {
        for n in number..=number + command.subcommands.len() {
            self.set_bit(n, allow);
        }
        self.first_args.retain(|(n, _)| *n != number);
    }

    /// Allows or forbids the commands of a category.
    pub(super) fn set_category(&mut self, category: u32, allow: bool) {
        let mut number = 0;
        for command in table::all() {
            if command.categories() & category != 0 {
                self.set_command(number, command, allow);
            }
            for (i, sub) in command.subcommands.iter().enumerate() {
                if sub.categories() & category != 0 {
                    self.set_bit(number + 1 + i, allow);
                }
            }
            number += 1 + command.subcommands.len();
        }
    }

    /// Whether a command may be used at all.
    #[inline]
    fn allows_command(&self, entry: Entry, args: Args<'_>) -> bool {
        self.has_command(entry.number)
            || entry.command.has(crate::command::flag::NO_AUTH)
            || self.first_args.iter().any(|(n, arg)| *n == entry.number && args.get(1).eq_ignore_ascii_case(arg))
    }

    /// Whether something may be done to a key.
    fn allows_key(&self, name: &[u8], flags: u16) -> bool {
        let wanted = access_of(flags);
        self.all_keys || self.keys.iter().any(|k| k.access & wanted == wanted && glob::matches(&k.pattern, name))
    }

    /// Whether something may be done to every key that there could be.
    pub(super) fn allows_any_key(&self, flags: u16) -> bool {
        let wanted = access_of(flags);
        self.all_keys || self.keys.iter().any(|k| k.access & wanted == wanted && *k.pattern == *b"*")
    }

    /// Whether a channel may be used; of a pattern, whether the same pattern stands in the rules.
    fn allows_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        self.channels.iter().any(|p| if is_pattern { **p == *name } else { glob::matches(p, name) })
    }

    /// Whether a command may be carried out with these arguments.
    pub(super) fn check(&self, entry: Entry, args: Args<'_>, keys: &mut Option<KeysOfCall>) -> Result<(), Denial> {
        if !self.allows_command(entry, args) {
            return Err(Denial::Command);
        }
        let command = entry.command;
        if !self.all_keys && !command.keys.is_empty() {
            // Arguments of which it cannot be told what they are will be refused by the command itself.
            for &(at, flags) in keys.get_or_insert_with(|| extract::keys(command, args)).iter().flatten() {
                if !self.allows_key(args.get(at), flags) {
                    return Err(Denial::Key(at));
                }
            }
        }
        if !self.all_channels {
            let (range, is_pattern) = match command.channels {
                Channels::None => return Ok(()),
                Channels::Publish => (1..2, false),
                Channels::Subscribe => (1..args.len(), false),
                Channels::SubscribePatterns => (1..args.len(), true),
            };
            for at in range {
                if !self.allows_channel(args.get(at), is_pattern) {
                    return Err(Denial::Channel(at));
                }
            }
        }
        Ok(())
    }

    /// The command rules, as ACL LIST and ACL GETUSER show them.
    pub fn describe_commands(&self) -> Vec<u8> {
        let mut text = if self.from_all { b"+@all".to_vec() } else { b"-@all".to_vec() };
        for (allow, rule) in &self.rules {
            text.extend_from_slice(if *allow { b" +" } else { b" -" });
            text.extend_from_slice(rule);
        }
        text
    }

    /// The key rules, as ACL GETUSER shows them.
    pub fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let mut text = Vec::new();
        for k in &self.keys {
            if !text.is_empty() {
                text.push(b' ');
            }
            text.extend_from_slice(match k.access {
                access::READ => b"%R~",
                access::WRITE => b"%W~",
                _ => b"~",
            });
            text.extend_from_slice(&k.pattern);
        }
        text
    }

    /// The channel rules, as ACL GETUSER shows them.
    pub fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let mut text = Vec::new();
        for c in &self.channels {
            if !text.is_empty() {
                text.push(b' ');
            }
            text.push(b'&');
            text.extend_from_slice(c);
        }
        text
    }

    /// All rules in one line, as ACL LIST shows them.
    pub(super) fn describe(&self, out: &mut Vec<u8>) {
        let keys = self.describe_keys();
        if !keys.is_empty() {
            out.extend_from_slice(&keys);
            out.push(b' ');
        }
        if !self.all_channels {
            out.extend_from_slice(b"resetchannels ");
        }
        let channels = self.describe_channels();
        if !channels.is_empty() {
            out.extend_from_slice(&channels);
            out.push(b' ');
        }
        out.extend_from_slice(&self.describe_commands());
    }
}
