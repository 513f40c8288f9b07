//! Plays a sequence on both servers and finds the first difference, in the replies or in what is left behind.

use std::collections::BTreeMap;
use std::fmt;

use crate::compare::same;
use crate::wire::{Command, Connection, Reply, shown};

/// Where the two servers part.
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

/// The ports of the two servers, and how often each command has been compared.
pub struct Pair {
    /// Barium's.
    pub ours: u16,
    /// The reference's.
    pub theirs: u16,
    /// Compared replies by lower-case first word.
    pub compared: BTreeMap<String, usize>,
    /// Of those, how many were not errors.
    pub served: BTreeMap<String, usize>,
}

/// One sequence on its way through both servers.
struct Game<'a> {
    pair: &'a mut Pair,
    ours: Connection,
    theirs: Connection,
    /// The commands queued since MULTI, while the reference is inside one.
    queued: Vec<Command>,
}

impl Pair {
    /// Two servers that listen on 127.0.0.1.
    pub fn new(ours: u16, theirs: u16) -> Pair {
        Pair { ours, theirs, compared: BTreeMap::new(), served: BTreeMap::new() }
    }

    /// Plays `commands` on emptied servers, over RESP3 if asked for.
    pub fn play(&mut self, commands: &[Command], resp3: bool) -> Result<(), Difference> {
        let failed = |who: &str, error: std::io::Error| Difference {
            command: vec![b"(connect)".to_vec()],
            ours: format!("{who}: {error}"),
            theirs: String::new(),
        };
        let ours = Connection::open(self.ours).map_err(|error| failed("barium", error))?;
        let theirs = Connection::open(self.theirs).map_err(|error| failed("reference", error))?;
        let mut game = Game { pair: self, ours, theirs, queued: Vec::new() };
        if resp3 {
            // Its reply holds versions.
            let _ = game.ours.ask("HELLO 3").and_then(|_| game.theirs.ask("HELLO 3"));
        }
        game.round(&[words("FLUSHALL")])?;
        game.round(commands)?;
        if !game.queued.is_empty() {
            game.round(&[words("DISCARD")])?;
        }
        game.compare_keyspace()
    }
}

impl Game<'_> {
    /// Sends the commands at once and compares the replies in turn; the reference's replies.
    fn round(&mut self, commands: &[Command]) -> Result<Vec<Reply>, Difference> {
        let lost = |command: &Command, who: &str, error: std::io::Error| Difference {
            command: command.clone(),
            ours: format!("{who}: {error}"),
            theirs: String::new(),
        };
        let first = &commands[0];
        self.ours.send(commands).map_err(|error| lost(first, "barium", error))?;
        self.theirs.send(commands).map_err(|error| lost(first, "reference", error))?;
        let mut replies = Vec::with_capacity(commands.len());
        for command in commands {
            let theirs = self.theirs.reply().map_err(|error| lost(command, "reference", error))?;
            let ours = self.ours.reply().map_err(|error| lost(command, "barium", error))?;
            self.compare(command, &ours, &theirs)?;
            replies.push(theirs);
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
                for ((command, ours), theirs) in queued.iter().zip(mine).zip(others) {
                    self.count(command, theirs);
                    if !same(command, ours, theirs) {
                        return Err(difference(command, ours, theirs));
                    }
                }
                return Ok(());
            }
        }
        self.count(command, theirs);
        if same(command, ours, theirs) { Ok(()) } else { Err(difference(command, ours, theirs)) }
    }

    fn count(&mut self, command: &Command, theirs: &Reply) {
        let name = String::from_utf8_lossy(&command[0]).to_lowercase();
        if !theirs.is_error() {
            *self.pair.served.entry(name.clone()).or_default() += 1;
        }
        *self.pair.compared.entry(name).or_default() += 1;
    }

    /// Every key's type, encoding, time to live and contents.
    fn compare_keyspace(&mut self) -> Result<(), Difference> {
        let keys: Vec<Vec<u8>> =
            self.round(&[words("KEYS *")])?[0].items().iter().map(|key| key.text().to_vec()).collect();
        for key in keys {
            let on_key = |text: &str, rest: &[&str]| {
                let mut command = words(text);
                command.push(key.clone());
                command.extend(rest.iter().map(|word| word.as_bytes().to_vec()));
                command
            };
            let kind =
                self.round(&[on_key("TYPE", &[]), on_key("OBJECT ENCODING", &[]), on_key("TTL", &[])])?.remove(0);
            let contents = match kind.text() {
                b"string" => on_key("GET", &[]),
                b"list" => on_key("LRANGE", &["0", "-1"]),
                b"set" => on_key("SMEMBERS", &[]),
                b"hash" => on_key("HGETALL", &[]),
                b"stream" => on_key("XRANGE", &["-", "+"]),
                b"zset" => on_key("ZRANGE", &["0", "-1", "WITHSCORES"]),
                _ => continue,
            };
            self.round(&[contents])?;
        }
        Ok(())
    }
}

fn words(text: &str) -> Command {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn difference(command: &Command, ours: &Reply, theirs: &Reply) -> Difference {
    Difference { command: command.clone(), ours: format!("{ours:?}"), theirs: format!("{theirs:?}") }
}
