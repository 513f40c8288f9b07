//! A user: flags, passwords, permissions.

use super::Denial;
use super::password::{self, Hash};
use super::selector::Selector;
use crate::commands::table::Entry;
use crate::session::args::Args;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct User {
    /// Name.
    pub name: Box<[u8]>,
    /// Whether one can log in as it.
    pub enabled: bool,
    /// Whether any password is right.
    pub no_password: bool,
    /// Whether RESTORE may trust the payloads it sends. Kept and shown; payloads are always checked here.
    pub skip_sanitize: bool,
    /// Hashes of its passwords.
    pub(super) passwords: Vec<Hash>,
    /// The permissions that rules outside of parentheses make.
    pub(super) root: Selector,
    /// Those inside.
    pub(super) selectors: Vec<Selector>,
}

impl User {
    /// A user that may do nothing, nor log in.
    pub(super) fn new(name: &[u8], all_channels: bool) -> Self {
        Self {
            name: name.into(),
            enabled: false,
            no_password: false,
            skip_sanitize: false,
            passwords: Vec::new(),
            root: Selector::new(all_channels),
            selectors: Vec::new(),
        }
    }

    /// The user "default" as a server starts with it: it may do everything, without a password.
    pub(super) fn unlimited() -> Self {
        let root = Selector::unlimited();
        Self { enabled: true, no_password: true, root, ..Self::new(super::DEFAULT_NAME, true) }
    }

    /// Sets its one password; an empty one stands for any.
    pub(super) fn set_only_password(&mut self, password: &[u8]) {
        self.passwords.clear();
        self.no_password = password.is_empty();
        if !password.is_empty() {
            self.passwords.push(password::hash(password));
        }
    }

    /// Whether one can log in as it with this password.
    pub(super) fn accepts(&self, password: &[u8]) -> bool {
        if !self.enabled || self.no_password {
            return self.enabled;
        }
        let hash = password::hash(password);
        self.passwords.iter().any(|p| password::same(p, &hash))
    }

    /// Hashes of its passwords, in the order in which they were added.
    pub fn passwords(&self) -> &[Hash] {
        &self.passwords
    }

    /// The permissions that rules outside of parentheses make.
    pub const fn root(&self) -> &Selector {
        &self.root
    }

    /// Those inside of parentheses.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    fn all_selectors(&self) -> impl Iterator<Item = &Selector> {
        core::iter::once(&self.root).chain(&self.selectors)
    }

    /// Whether it may do everything.
    pub(super) fn is_unrestricted(&self) -> bool {
        self.all_selectors().any(Selector::is_unrestricted)
    }

    /// Whether it may carry out a command with these arguments: whether one of its selectors allows all of it.
    pub fn check(&self, entry: Entry, args: Args<'_>) -> Result<(), Denial> {
        let mut keys = None;
        let mut reason = Denial::Command;
        for selector in self.all_selectors() {
            match selector.check(entry, args, &mut keys) {
                Ok(()) => return Ok(()),
                Err(denial) => reason = reason.max(denial),
            }
        }
        Err(reason)
    }

    /// The same for a command that in addition does something ([`key`](crate::command::key)) to keys which its arguments do
    /// not name: one selector has to allow that for any key.
    pub fn allows_with_any_key(&self, entry: Entry, args: Args<'_>, flags: u16) -> bool {
        let mut keys = None;
        self.all_selectors().any(|s| s.check(entry, args, &mut keys).is_ok() && s.allows_any_key(flags))
    }

    /// The channel patterns that are left, if some of those that `old` had are not among them.
    pub(super) fn channels_lost(&self, old: &Self) -> Option<Vec<Box<[u8]>>> {
        if self.all_selectors().any(|s| s.all_channels) {
            return None;
        }
        let left: Vec<Box<[u8]>> = self.all_selectors().flat_map(|s| s.channels.iter().cloned()).collect();
        let kept = |s: &Selector| !s.all_channels && s.channels.iter().all(|c| left.contains(c));
        if old.all_selectors().all(kept) { None } else { Some(left) }
    }

    /// Its flags, as ACL GETUSER lists them.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        let enabled = if self.enabled { "on" } else { "off" };
        let sanitize = if self.skip_sanitize { "skip-sanitize-payload" } else { "sanitize-payload" };
        [Some(enabled), self.no_password.then_some("nopass"), Some(sanitize)].into_iter().flatten()
    }

    /// All of it in one line of rules, as ACL LIST shows it after the name.
    pub fn describe(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for flag in self.flags() {
            text.extend_from_slice(flag.as_bytes());
            text.push(b' ');
        }
        for hash in &self.passwords {
            text.push(b'#');
            text.extend_from_slice(hash);
            text.push(b' ');
        }
        self.root.describe(&mut text);
        for selector in &self.selectors {
            text.extend_from_slice(b" (");
            selector.describe(&mut text);
            text.push(b')');
        }
        text
    }

    /// Bytes that it takes.
    pub fn memory_usage(&self) -> usize {
        let of = |s: &Selector| {
            size_of::<Selector>()
                + s.commands.len() * 8
                + s.keys.iter().map(|k| k.pattern.len() + 48).sum::<usize>()
                + s.channels.iter().map(|c| c.len() + 32).sum::<usize>()
                + s.rules.iter().map(|(_, r)| r.len() + 32).sum::<usize>()
                + s.first_args.iter().map(|(_, a)| a.len() + 48).sum::<usize>()
        };
        size_of::<Self>() + self.passwords.len() * 64 + self.all_selectors().map(of).sum::<usize>()
    }
}
