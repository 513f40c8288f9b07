//! How often every command and every option token of it has been compared.

use std::collections::BTreeMap;

use crate::grammar::{Grammar, Reach};
use crate::skipped::Skipped;
use crate::wire::{Command, Reply};

/// Counts, by command and option.
#[derive(Default)]
pub struct Coverage {
    /// How often it was compared, and how often without being an error.
    counts: BTreeMap<Reach, (usize, usize)>,
    /// Which option tokens each command has.
    tokens: BTreeMap<String, Vec<Vec<u8>>>,
    /// Replies compared.
    pub replies: usize,
}

impl Coverage {
    /// Nothing yet, of all commands of this grammar.
    pub fn of(grammar: &Grammar) -> Coverage {
        Coverage { tokens: grammar.tokens.clone(), ..Coverage::default() }
    }

    /// Counts a compared reply.
    pub fn count(&mut self, command: &Command, reply: &Reply) {
        self.replies += 1;
        let lower = |at: usize| command.get(at).map(|word| String::from_utf8_lossy(word).to_lowercase());
        let Some(first) = lower(0) else { return };
        let both = lower(1).map(|second| format!("{first}|{second}")).filter(|both| self.tokens.contains_key(both));
        let start = 1 + usize::from(both.is_some());
        let name = both.unwrap_or(first);
        let mut places = Vec::new();
        for token in self.tokens.get(&name).into_iter().flatten() {
            if command[start.min(command.len())..].iter().any(|word| word.eq_ignore_ascii_case(token)) {
                places.push((name.clone(), String::from_utf8_lossy(token).into_owned()));
            }
        }
        places.push((name, String::new()));
        for place in places {
            let (compared, served) = self.counts.entry(place).or_default();
            *compared += 1;
            *served += usize::from(!reply.is_error());
        }
    }

    /// How often a command was compared.
    pub fn compared(&self, command: &str) -> usize {
        self.counts.get(&(command.to_string(), String::new())).map_or(0, |counts| counts.0)
    }

    /// The first of the grammar's commands and options that was compared fewer than `often` times, or never served.
    pub fn missing(&self, grammar: &Grammar, skipped: &Skipped, often: usize) -> Option<String> {
        grammar.places().into_iter().find_map(|place| {
            let (compared, served) = self.counts.get(&place).copied().unwrap_or_default();
            let (command, token) = &place;
            if skipped.token(command, token.as_bytes(), false) && !token.is_empty() {
                let said = || format!("{command} {token} is said to be skipped, but was compared {compared} times");
                return (compared >= often).then(said);
            }
            match (compared, served) {
                (compared, _) if compared < often => {
                    Some(format!("{command} {token} was compared {compared} times only"))
                }
                (_, 0) => Some(format!("{command} {token} was never served without an error")),
                _ => None,
            }
        })
    }
}
