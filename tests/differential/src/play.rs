//! Plays a sequence on both servers and finds the first difference, in the replies or in what is left behind.

use std::collections::BTreeSet;
use std::fmt;
use std::io;

use crate::compare::{Verdict, compare};
use crate::coverage::Coverage;
use crate::differences::Reference;
use crate::wire::{Command, Connection, Reply, shown, words};

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

/// The ports of the two servers, and what has been compared.
pub struct Pair {
    /// Barium's.
    pub ours: u16,
    /// The reference's.
    pub theirs: u16,
    /// Who that is.
    pub reference: Reference,
    /// What has been compared.
    pub coverage: Coverage,
}

/// How to play.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Over RESP3.
    pub resp3: bool,
    /// At the end, every key is dumped here and restored there, and the other way round.
    pub dump: bool,
}

/// One sequence on its way through both servers.
pub(crate) struct Game<'a> {
    pub(crate) pair: &'a mut Pair,
    ours: Connection,
    theirs: Connection,
    /// The commands queued since MULTI, while the reference is inside one.
    queued: Vec<Command>,
    /// A reply whose elements were in another order, and how many of the encodings that decide it are still to come.
    unordered: Option<(Difference, usize)>,
    /// Keys whose order comes from a hash table, whatever they are now.
    pub(crate) shuffled: BTreeSet<Vec<u8>>,
}

impl Pair {
    /// Two servers that listen on 127.0.0.1.
    pub fn new(ours: u16, theirs: u16, reference: Reference, coverage: Coverage) -> Pair {
        Pair { ours, theirs, reference, coverage }
    }

    /// Plays `commands` on emptied servers.
    pub fn play(&mut self, commands: &[Command], manner: Manner) -> Result<(), Difference> {
        let failed = |who: &str, error: io::Error| lost(&words("(connect)"), who, error);
        let ours = Connection::open(self.ours).map_err(|error| failed("barium", error))?;
        let theirs = Connection::open(self.theirs).map_err(|error| failed("reference", error))?;
        let mut game =
            Game { pair: self, ours, theirs, queued: Vec::new(), unordered: None, shuffled: BTreeSet::new() };
        if manner.resp3 {
            // Its reply holds versions.
            let _ = game.ours.ask("HELLO 3").and_then(|_| game.theirs.ask("HELLO 3"));
        }
        game.round(&[words("FLUSHALL")])?;
        let before = game.changes();
        let commands = if game.pair.reference == Reference::Valkey { unnested(commands) } else { commands.to_vec() };
        let probed: Vec<Command> = commands.iter().flat_map(with_probes).collect();
        game.round(&probed)?;
        if !game.queued.is_empty() {
            game.round(&[words("DISCARD")])?;
        }
        game.compare_changes(before, &commands)?;
        game.compare_keyspace(manner)
    }
}

impl Game<'_> {
    /// How many changes each server has counted; None if it does not say (inside of MULTI).
    fn changes(&mut self) -> Option<[i64; 2]> {
        let count = |connection: &mut Connection| -> Option<i64> {
            let reply = connection.ask("INFO persistence").ok()?;
            let text = String::from_utf8_lossy(reply.text()).into_owned();
            text.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"))?.trim().parse().ok()
        };
        let counts = [count(&mut self.ours), count(&mut self.theirs)];
        Some([counts[0]?, counts[1]?])
    }

    /// Both must have counted as many: what is logged, and when a snapshot is due, depends on it.
    fn compare_changes(&mut self, before: Option<[i64; 2]>, commands: &[Command]) -> Result<(), Difference> {
        let (Some(before), Some(after)) = (before, self.changes()) else { return Ok(()) };
        let [ours, theirs] = [after[0] - before[0], after[1] - before[1]];
        if ours == theirs || self.pair.reference == Reference::Valkey || commands.iter().any(counts_otherwise) {
            return Ok(());
        }
        Err(Difference {
            command: words("INFO persistence"),
            ours: format!("{ours} changes"),
            theirs: format!("{theirs} changes"),
        })
    }
}

/// Whether Redis 7.0 may count the changes of a command otherwise: 7.2 counts the consumers that XCLAIM and XAUTOCLAIM make,
/// and 7.0 counts the removal of a key whose time has come when a result takes its place.
fn counts_otherwise(command: &Command) -> bool {
    let is = |word: &Vec<u8>, name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    ["XCLAIM", "XAUTOCLAIM"].iter().any(|name| is(&command[0], name))
        || command.iter().any(|word| is(word, "EXAT") || is(word, "PXAT") || is(word, "ABSTTL"))
}

/// The commands without MULTI and WATCH inside a transaction, which these end in Valkey.
fn unnested(commands: &[Command]) -> Vec<Command> {
    let mut inside = false;
    let keep = |command: &&Command| {
        let name = command[0].to_ascii_lowercase();
        let nested = inside && (name == b"multi" || name == b"watch");
        inside = match &name[..] {
            b"multi" => true,
            b"exec" | b"discard" | b"reset" => false,
            _ => inside,
        };
        !nested
    };
    commands.iter().filter(keep).cloned().collect()
}

/// The command, and questions for the encodings on which the order of its reply depends.
fn with_probes(command: &Command) -> Vec<Command> {
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

impl Game<'_> {
    /// Sends the commands at once and compares the replies in turn; the reference's replies.
    pub(crate) fn round(&mut self, commands: &[Command]) -> Result<Vec<Reply>, Difference> {
        self.exchange(commands, commands).map(|replies| replies.into_iter().map(|(_, theirs)| theirs).collect())
    }

    /// Sends each server its own form of the same commands, which are known as the first of the two; all replies.
    pub(crate) fn exchange(
        &mut self,
        commands: &[Command],
        to_theirs: &[Command],
    ) -> Result<Vec<(Reply, Reply)>, Difference> {
        let Some(first) = commands.first() else { return Ok(Vec::new()) };
        self.ours.send(commands).map_err(|error| lost(first, "barium", error))?;
        self.theirs.send(to_theirs).map_err(|error| lost(first, "reference", error))?;
        let mut replies = Vec::with_capacity(commands.len());
        for command in commands {
            let theirs = self.theirs.reply().map_err(|error| lost(command, "reference", error))?;
            let ours = self.ours.reply().map_err(|error| lost(command, "barium", error))?;
            self.compare(command, &ours, &theirs)?;
            replies.push((ours, theirs));
        }
        Ok(replies)
    }

    fn compare(&mut self, command: &Command, ours: &Reply, theirs: &Reply) -> Result<(), Difference> {
        let name = command.first().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
        if theirs.text() == b"QUEUED" {
            self.queued.push(command.clone());
        } else if name == b"exec" || name == b"discard" {
            let queued = std::mem::take(&mut self.queued);
            if let (Reply::Many(_, Some(mine)), Reply::Many(_, Some(others))) = (ours, theirs)
                && mine.len() == others.len()
                && mine.len() == queued.len()
            {
                self.pair.coverage.count(command, theirs);
                for ((command, ours), theirs) in queued.iter().zip(mine).zip(others) {
                    self.judge(command, ours, theirs)?;
                }
                return Ok(());
            }
        }
        self.judge(command, ours, theirs)
    }

    fn judge(&mut self, command: &Command, ours: &Reply, theirs: &Reply) -> Result<(), Difference> {
        self.pair.coverage.count(command, theirs);
        let verdict = compare(self.pair.reference, command, ours, theirs);
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
}

impl Game<'_> {
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

pub(crate) fn lost(command: &Command, who: &str, error: io::Error) -> Difference {
    Difference { command: command.clone(), ours: format!("{who}: {error}"), theirs: String::new() }
}

pub(crate) fn difference(command: &Command, ours: &Reply, theirs: &Reply) -> Difference {
    Difference { command: command.clone(), ours: format!("{ours:?}"), theirs: format!("{theirs:?}") }
}
