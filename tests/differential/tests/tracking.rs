//! Client tracking: after each of random commands, what a tracking client is told. It reads every key before, so that each
//! change of one, and nothing else, has to be said. `SECONDS_EACH`, `SEED` and the programs' names as for the families.

use std::time::{Duration, Instant};

use barium_differential::differences::Reference;
use barium_differential::grammar::{Grammar, World, common_commands};
use barium_differential::server::Server;
use barium_differential::settings::number;
use barium_differential::values::Draw;
use barium_differential::wire::{Command, Connection, Reply, shown, words};

/// Commands in a sequence, after which the servers are emptied.
const SEQUENCE: usize = 40;
/// Changes that must be compared, a second of the time given.
const CHANGES: u64 = 5;
/// Modes in turn, as CLIENT TRACKING takes them.
const MODES: [&str; 3] = ["on", "on NOLOOP", "on BCAST"];

/// Whether a command's changes come at the same time on both servers, and in the same order: it sets no time at which a
/// key goes, draws nothing at random and does not wait.
fn is_tame(group: &str, name: &str) -> bool {
    let data = ["generic", "string", "list", "set", "sorted-set", "hash", "stream", "bitmap", "hyperloglog", "geo"];
    let not = ["expire", "pexpire", "restore", "migrate", "spop", "getex", "setex", "psetex", "wait", "dump", "object"];
    data.contains(&group)
        && !not.iter().any(|word| name.starts_with(word))
        && !["set", "sort", "keys", "scan", "randomkey", "move"].contains(&name)
}

/// What one server is asked, and what its tracking client hears.
struct Side {
    tracker: Connection,
    writer: Connection,
    bcast: bool,
}

impl Side {
    fn open(port: u16) -> Self {
        let [mut tracker, writer] = [(); 2].map(|()| Connection::open(port).expect("connect"));
        tracker.ask("HELLO 3").expect("HELLO");
        Self { tracker, writer, bcast: false }
    }

    /// What the tracker has been told until it answers. By prefix it is told at the end of a turn of the event loop, which
    /// may come after an answer or two.
    fn heard(&mut self) -> Vec<Reply> {
        if self.bcast {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.tracker.send(&[words("ECHO end")]).expect("send");
        let mut told = Vec::new();
        loop {
            match self.tracker.reply().expect("a reply") {
                reply if reply.text() == b"end" => return told,
                Reply::Many(b'>', items) => told.push(Reply::Many(b'>', items)),
                _ => {}
            }
        }
    }

    fn begin(&mut self, mode: &str) {
        self.bcast = mode.contains("BCAST");
        self.tracker.ask("CLIENT TRACKING off").expect("off");
        self.writer.ask("FLUSHALL").expect("FLUSHALL");
        self.tracker.ask(&format!("CLIENT TRACKING {mode}")).expect("on");
        self.heard();
    }

    /// Has the tracker read the keys of a command, whatever they are, and one of the two send it. Whether it was refused,
    /// and what the tracker then hears.
    fn play(&mut self, command: &Command, by_tracker: bool) -> (bool, Vec<Reply>) {
        let read: Command = [b"EXISTS".to_vec()].into_iter().chain(command[1..].iter().cloned()).collect();
        if read.len() > 1 {
            self.tracker.send(&[read]).expect("send");
        }
        self.heard();
        let sender = if by_tracker { &mut self.tracker } else { &mut self.writer };
        sender.send(std::slice::from_ref(command)).expect("send");
        let refused = sender.reply().expect("a reply").is_error();
        (refused, self.heard())
    }
}

fn compare_with(reference: Reference) {
    let barium = Server::barium().expect("barium-host");
    let Some(other) = Server::reference(reference).expect("reference server") else {
        println!("tracking: SKIPPED against {reference:?}, which is not there");
        return;
    };
    let mut sides = [barium.port, other.port].map(Side::open);
    let [ours, theirs] = &mut sides;
    let common = common_commands([&mut ours.writer, &mut theirs.writer]).expect("COMMAND LIST");
    let world = World { old: reference == Reference::Redis, ..World::default() };
    let grammar = Grammar::of_common(&mut sides[0].writer, &common, &is_tame, world).expect("COMMAND DOCS");
    let mut draw = Draw::new(number("SEED", 1));
    let seconds = number("SECONDS_EACH", 3);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut changes = 0;
    for round in 0.. {
        let mode = MODES[round % MODES.len()];
        sides.iter_mut().for_each(|side| side.begin(mode));
        let mut sent: Vec<String> = vec![format!("CLIENT TRACKING {mode}")];
        for _ in 0..SEQUENCE {
            let (seed, by_tracker) = (draw.below(usize::MAX) as u64, draw.chance(30));
            for command in grammar.commands(seed) {
                sent.push(format!("{}{}", if by_tracker { "by itself: " } else { "" }, shown(&command)));
                let [ours, theirs] = sides.each_mut().map(|side| side.play(&command, by_tracker));
                // Where the versions differ in what they refuse, they differ in what they change.
                if ours.0 != theirs.0 {
                    continue;
                }
                changes += theirs.1.len() as u64;
                assert_eq!(ours.1, theirs.1, "{reference:?} says otherwise after\n  {}", sent.join("\n  "));
            }
        }
        if Instant::now() > end {
            break;
        }
    }
    println!("tracking against {reference:?}: {changes} invalidations compared");
    assert!(changes >= CHANGES * seconds, "{changes} invalidations only");
}

#[test]
fn invalidations_of_valkey() {
    compare_with(Reference::Valkey);
}

#[test]
fn invalidations_of_redis() {
    compare_with(Reference::Redis);
}
