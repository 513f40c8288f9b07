//! Rules as ACL SETUSER takes them, one word each.

use super::password;
use super::selector::{KeyPattern, Selector, access};
use super::user::User;
use crate::command::{Command, acl};
use crate::commands::table;
use crate::text::split_arguments;
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// Why a rule is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// It is not a rule.
    Syntax,
    /// There is no such command or category.
    Unknown,
    /// A key pattern after all keys.
    AllKeysAlready,
    /// A channel pattern after all channels.
    AllChannelsAlready,
    /// There is no such password to remove.
    NoSuchPassword,
    /// It is not a SHA-256 in hexadecimal digits.
    BadHash,
    /// A first argument of a subcommand.
    FirstArgOfSubcommand,
}

impl RuleError {
    /// What the reply says.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Syntax => "Syntax error",
            Self::Unknown => "Unknown command or category name in ACL",
            Self::AllKeysAlready => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Self::AllChannelsAlready => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Self::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            Self::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Self::FirstArgOfSubcommand => "Allowing first-arg of a subcommand is not supported",
        }
    }
}

/// Whether a name or pattern could not be written in a line of rules.
pub fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|b| matches!(b, 0 | b'\t'..=b'\r' | b' '))
}

/// Joins the words of selectors that were given as several arguments. Errs with the word that opens a parenthesis which is
/// never closed.
pub fn merge_selectors<'a>(words: &[&'a [u8]]) -> Result<Vec<Cow<'a, [u8]>>, &'a [u8]> {
    let mut merged: Vec<Cow<'a, [u8]>> = Vec::new();
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for &word in words {
        open = match open.take() {
            Some((first, mut text)) => {
                text.push(b' ');
                text.extend_from_slice(word);
                if word.ends_with(b")") {
                    merged.push(Cow::Owned(text));
                    None
                } else {
                    Some((first, text))
                }
            }
            None if word.starts_with(b"(") && !word.ends_with(b")") => Some((word, word.to_vec())),
            None => {
                merged.push(Cow::Borrowed(word));
                None
            }
        };
    }
    open.map_or(Ok(merged), |(first, _)| Err(first))
}

/// The command or subcommand ("config|get") of this name, and its number.
fn find_command(name: &[u8]) -> Option<(usize, &'static Command, bool)> {
    let (first, sub) = match name.iter().position(|b| *b == b'|') {
        Some(at) => (&name[..at], Some(&name[at + 1..])),
        None => (name, None),
    };
    let mut number = 0;
    for command in table::all() {
        if command.name.as_bytes().eq_ignore_ascii_case(first) {
            let Some(sub) = sub else { return Some((number, command, false)) };
            let at = command.subcommands.iter().position(|s| s.name.as_bytes().eq_ignore_ascii_case(sub))?;
            return Some((number + 1 + at, &command.subcommands[at], true));
        }
        number += 1 + command.subcommands.len();
    }
    None
}

impl Selector {
    /// Notes a command rule. It replaces those that it makes void: the same one and, of a container, its subcommands'.
    fn note_rule(&mut self, allow: bool, what: &[u8]) {
        let what = what.to_ascii_lowercase();
        self.rules.retain(|(_, old)| old.strip_prefix(&*what).is_none_or(|rest| !rest.is_empty() && rest[0] != b'|'));
        self.rules.push((allow, what.into()));
    }

    /// Changes the permissions by one rule.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => {
                self.all_keys = true;
                self.keys.clear();
            }
            b"resetkeys" => {
                self.all_keys = false;
                self.keys.clear();
            }
            b"allchannels" | b"&*" => {
                self.all_channels = true;
                self.channels.clear();
            }
            b"resetchannels" => {
                self.all_channels = false;
                self.channels.clear();
            }
            b"allcommands" | b"+@all" => self.set_all_commands(true),
            b"nocommands" | b"-@all" => self.set_all_commands(false),
            _ => match rule {
                [b'~', pattern @ ..] => self.add_key(access::BOTH, pattern)?,
                [b'%', rest @ ..] => self.add_key_with_access(rest)?,
                [b'&', pattern @ ..] => self.add_channel(pattern)?,
                [b'+', b'@', name @ ..] => self.apply_category(name, true)?,
                [b'-', b'@', name @ ..] => self.apply_category(name, false)?,
                [b'+', name @ ..] => self.allow(name)?,
                [b'-', name @ ..] => {
                    let (number, command, _) = find_command(name).ok_or(RuleError::Unknown)?;
                    self.set_command(number, command, false);
                    self.note_rule(false, name);
                }
                _ => return Err(RuleError::Syntax),
            },
        }
        Ok(())
    }

    fn add_key_with_access(&mut self, rest: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::AllKeysAlready);
        }
        let mut allowed = 0;
        for (at, letter) in rest.iter().enumerate() {
            match letter.to_ascii_uppercase() {
                b'R' if allowed & access::READ == 0 => allowed |= access::READ,
                b'W' if allowed & access::WRITE == 0 => allowed |= access::WRITE,
                b'~' if allowed != 0 => return self.add_key(allowed, &rest[at + 1..]),
                _ => return Err(RuleError::Syntax),
            }
        }
        // Without a tilde: the pattern is empty.
        if allowed == 0 { Err(RuleError::Syntax) } else { self.add_key(allowed, &[]) }
    }

    fn add_key(&mut self, access: u8, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::AllKeysAlready);
        }
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        match self.keys.iter_mut().find(|k| *k.pattern == *pattern) {
            Some(known) => known.access |= access,
            None => self.keys.push(KeyPattern { pattern: pattern.into(), access }),
        }
        Ok(())
    }

    fn add_channel(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::AllChannelsAlready);
        }
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|c| **c == *pattern) {
            self.channels.push(pattern.into());
        }
        Ok(())
    }

    fn apply_category(&mut self, name: &[u8], allow: bool) -> Result<(), RuleError> {
        let (category, name) = acl::category(name).ok_or(RuleError::Unknown)?;
        self.set_category(category, allow);
        self.note_rule(allow, &[b"@", name.as_bytes()].concat());
        Ok(())
    }

    /// `+command`, `+command|subcommand`, or `+command|first-argument`.
    fn allow(&mut self, name: &[u8]) -> Result<(), RuleError> {
        let Some(bar) = name.iter().rposition(|b| *b == b'|') else {
            let (number, command, _) = find_command(name).ok_or(RuleError::Unknown)?;
            self.set_command(number, command, true);
            self.note_rule(true, name);
            return Ok(());
        };
        let (first, last) = (&name[..bar], &name[bar + 1..]);
        let (number, command, is_sub) = find_command(first).ok_or(RuleError::Unknown)?;
        if is_sub {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if last.is_empty() {
            return Err(RuleError::Syntax);
        }
        if command.subcommands.is_empty() {
            log::warn!("allowing a first argument of an otherwise blocked command is deprecated (+{})", command.name);
            if !self.first_args.iter().any(|(n, arg)| *n == number && arg.eq_ignore_ascii_case(last)) {
                self.first_args.push((number, last.into()));
            }
        } else {
            let (number, sub, _) = find_command(name).ok_or(RuleError::Unknown)?;
            self.set_command(number, sub, true);
        }
        self.note_rule(true, name);
        Ok(())
    }
}

impl User {
    /// Changes the user by one rule. `all_channels` is what selectors begin with (`acl-pubsub-default`).
    pub fn apply(&mut self, rule: &[u8], all_channels: bool) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"on" => self.enabled = true,
            b"off" => self.enabled = false,
            b"skip-sanitize-payload" => self.skip_sanitize = true,
            b"sanitize-payload" => self.skip_sanitize = false,
            b"nopass" => {
                self.no_password = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.no_password = false;
                self.passwords.clear();
            }
            b"clearselectors" => self.selectors.clear(),
            b"reset" => *self = Self::new(&self.name, all_channels),
            _ => match rule {
                [b'>', password @ ..] => self.add_password(password::hash(password)),
                [b'#', hash @ ..] => self.add_password(password::parse_hash(hash).ok_or(RuleError::BadHash)?),
                [b'<', password @ ..] => self.remove_password(password::hash(password))?,
                [b'!', hash @ ..] => self.remove_password(password::parse_hash(hash).ok_or(RuleError::BadHash)?)?,
                [b'(', inner @ .., b')'] => {
                    let mut selector = Selector::new(all_channels);
                    // Quotes that are not balanced make an empty selector, as they do there.
                    for rule in split_arguments(inner).unwrap_or_default() {
                        selector.apply(&rule)?;
                    }
                    self.selectors.push(selector);
                }
                _ => self.root.apply(rule)?,
            },
        }
        Ok(())
    }

    fn add_password(&mut self, hash: password::Hash) {
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
        self.no_password = false;
    }

    fn remove_password(&mut self, hash: password::Hash) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|p| *p == hash).ok_or(RuleError::NoSuchPassword)?;
        self.passwords.remove(at);
        Ok(())
    }
}
