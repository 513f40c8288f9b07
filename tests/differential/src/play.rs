//! Plays a sequence of one client's on both servers and finds the first difference, in the replies or in what is left behind.

use crate::coverage::Coverage;
use crate::differences::Reference;
use crate::judge::{Difference, Judge, difference, lost, with_probes};
use crate::wire::{Command, Connection, Reply, words};

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
    pub(crate) judge: Judge,
}

impl Pair {
    /// Two servers that listen on 127.0.0.1.
    pub fn new(ours: u16, theirs: u16, reference: Reference, coverage: Coverage) -> Pair {
        Pair { ours, theirs, reference, coverage }
    }

    /// Plays `commands` on emptied servers.
    pub fn play(&mut self, commands: &[Command], manner: Manner) -> Result<(), Difference> {
        let mut game = Game::open(self)?;
        if manner.resp3 {
            // Its reply holds versions.
            let _ = game.ours.ask("HELLO 3").and_then(|_| game.theirs.ask("HELLO 3"));
        }
        game.round(&[words("FLUSHALL")])?;
        let before = game.changes();
        let commands = if game.pair.reference == Reference::Valkey { unnested(commands) } else { commands.to_vec() };
        let probed: Vec<Command> = commands.iter().flat_map(with_probes).collect();
        game.round(&probed)?;
        if !game.judge.queued.is_empty() {
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
        let changes = |n: i64| format!("{n} changes");
        Err(difference(&words("INFO persistence"), &changes(ours), &changes(theirs)))
    }
}

/// Whether Redis 7.0 may count the changes of a command otherwise: 7.2 counts the consumers that XCLAIM, XAUTOCLAIM and XREADGROUP make,
/// and 7.0 counts the removal of a key whose time has come when a result takes its place.
fn counts_otherwise(command: &Command) -> bool {
    let is = |word: &Vec<u8>, name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    ["XCLAIM", "XAUTOCLAIM", "XREADGROUP"].iter().any(|name| is(&command[0], name))
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

impl<'a> Game<'a> {
    /// With new connections to both servers.
    pub(crate) fn open(pair: &'a mut Pair) -> Result<Game<'a>, Difference> {
        let open = |port: u16, who: &str| Connection::open(port).map_err(|error| lost(&words("(connect)"), who, error));
        let (ours, theirs) = (open(pair.ours, "barium")?, open(pair.theirs, "reference")?);
        let judge = Judge::new(pair.reference);
        Ok(Game { pair, ours, theirs, judge })
    }

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
            self.judge.compare(&mut self.pair.coverage, command, &ours, &theirs)?;
            replies.push((ours, theirs));
        }
        Ok(replies)
    }
}
