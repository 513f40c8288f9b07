//! Compares the replies of one connection in turn, with what it has to remember for that.

use std::collections::BTreeSet;
use std::fmt;
use std::io;

use crate::compare::{Verdict, compare};
use crate::coverage::Coverage;
use crate::differences::Reference;
use crate::wire::{Command, Reply, shown};

/// Where the two servers part.
#[derive(Debug)]
pub struct Difference {
    command: Command,
    ours: String,
    theirs: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}\n  barium    {}\n  reference {}", shown(&self.command), self.ours, self.theirs)
    }
}

/// A connection that broke.
pub(crate) fn lost(command: &Command, who: &str, error: io::Error) -> Difference {
    Difference { command: command.clone(), ours: format!("{who}: {error}"), theirs: String::new() }
}

/// Replies that are not the same.
pub(crate) fn difference(command: &Command, ours: &dyn fmt::Debug, theirs: &dyn fmt::Debug) -> Difference {
    Difference { command: command.clone(), ours: format!("{ours:?}"), theirs: format!("{theirs:?}") }
}

/// What one connection's replies are judged by.
pub(crate) struct Judge {
    reference: Reference,
    /// The commands queued since MULTI, while the reference is inside one.
    pub(crate) queued: Vec<Command>,
    /// A reply whose elements were in another order, and how many of the encodings that decide it are still to come.
    unordered: Option<(Difference, usize)>,
    /// Keys whose order comes from a hash table, whatever they are now.
    pub(crate) shuffled: BTreeSet<Vec<u8>>,
}

/// The command, and questions for the encodings on which the order of its reply depends.
pub(crate) fn with_probes(command: &Command) -> Vec<Command> {
    let name = command.first().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
    let keys = match &name[..] {
        b"smembers" | b"hgetall" | b"hkeys" | b"hvals" | b"sscan" | b"hscan" | b"zscan" | b"sort" | b"sort_ro" => {
            command.get(1..2)
        }
        b"sinter" | b"sunion" | b"sdiff" if command.len() <= 5 => command.get(1..),
        _ => None,
    };
    let probe = |key: &Vec<u8>| vec![b"OBJECT".to_vec(), b"ENCODING".to_vec(), key.clone()];
    let probes = keys.unwrap_or_default().iter().map(probe);
    [command.clone()].into_iter().chain(probes).collect()
}

fn is_probe_of(command: &Command, whose: &Command) -> bool {
    command.len() == 3 && command[1] == b"ENCODING" && whose[1..].contains(&command[2])
}

impl Judge {
    /// For a connection outside of transactions.
    pub(crate) fn new(reference: Reference) -> Judge {
        Judge { reference, queued: Vec::new(), unordered: None, shuffled: BTreeSet::new() }
    }

    /// Compares the replies to a command; those of EXEC one by one.
    pub(crate) fn compare(
        &mut self,
        coverage: &mut Coverage,
        command: &Command,
        ours: &Reply,
        theirs: &Reply,
    ) -> Result<(), Difference> {
        let name = command.first().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
        if theirs.text() == b"QUEUED" {
            self.queued.push(command.clone());
        } else if name == b"exec" || name == b"discard" || name == b"reset" {
            let queued = std::mem::take(&mut self.queued);
            if let (Reply::Many(_, Some(mine)), Reply::Many(_, Some(others))) = (ours, theirs)
                && mine.len() == others.len()
                && mine.len() == queued.len()
            {
                coverage.count(command, theirs);
                for ((command, ours), theirs) in queued.iter().zip(mine).zip(others) {
                    self.one(coverage, command, ours, theirs)?;
                }
                return Ok(());
            }
        }
        self.one(coverage, command, ours, theirs)
    }

    fn one(
        &mut self,
        coverage: &mut Coverage,
        command: &Command,
        ours: &Reply,
        theirs: &Reply,
    ) -> Result<(), Difference> {
        coverage.count(command, theirs);
        let verdict = compare(self.reference, command, ours, theirs);
        if verdict == Verdict::Different {
            return Err(difference(command, ours, theirs));
        }
        if !theirs.is_error() {
            self.shuffle(command);
        }
        if let Some((unordered, left)) = self.unordered.take()
            && is_probe_of(command, &unordered.command)
            && !self.shuffled.contains(&command[2])
        {
            // SUNION and SDIFF gather strings in a hash table in any case.
            let gathers = [&b"sunion"[..], b"sdiff"].contains(&&unordered.command[0].to_ascii_lowercase()[..]);
            let compact: &[&[u8]] = if gathers { &[b"intset", b""] } else { &[b"listpack", b"intset", b""] };
            if compact.contains(&theirs.text()) && ours.text() == theirs.text() {
                if left == 1 {
                    return Err(unordered);
                }
                self.unordered = Some((unordered, left - 1));
            }
        }
        if verdict == Verdict::Unordered {
            let probes = with_probes(command).len() - 1;
            if probes > 0 {
                self.unordered = Some((difference(command, ours, theirs), probes));
            }
        }
        Ok(())
    }

    /// Notes which keys have a hash table's order after a command.
    fn shuffle(&mut self, command: &Command) {
        let word = |at: usize| command.get(at).cloned().unwrap_or_default();
        match &word(0).to_ascii_lowercase()[..] {
            b"sunionstore" | b"sdiffstore" | b"sinterstore" => drop(self.shuffled.insert(word(1))),
            b"copy" | b"rename" | b"renamenx" if self.shuffled.contains(&word(1)) => {
                self.shuffled.insert(word(2));
            }
            _ => {}
        }
    }
}
