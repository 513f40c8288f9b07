//! MONITOR: after each of random commands, the lines that a monitoring client sees, without their times and addresses.
//! `SECONDS_EACH`, `SEED` and the programs' names as for the families.

use std::time::{Duration, Instant};

use barium_differential::differences::Reference;
use barium_differential::grammar::{Grammar, World, common_commands};
use barium_differential::server::Server;
use barium_differential::settings::number;
use barium_differential::values::Draw;
use barium_differential::wire::{Command, Connection, shown};

/// Commands in a sequence, after which the servers are emptied.
const SEQUENCE: usize = 40;
/// Lines that must be compared, a second of the time given.
const LINES: u64 = 50;
/// What ends the lines of a command.
const END: &str = "\"ECHO\" \"the end\"";

fn is_tame(group: &str, name: &str) -> bool {
    let data = ["generic", "string", "list", "set", "sorted-set", "hash", "stream", "bitmap", "hyperloglog", "geo"];
    let more = [
        "select",
        "publish",
        "spublish",
        "ping",
        "dbsize",
        "flushall",
        "time",
        "lolwut",
        "memory|usage",
        "slowlog|get",
    ];
    (data.contains(&group) || more.contains(&name)) && !["migrate", "wait", "waitaof"].contains(&name)
}

struct Side {
    monitor: Connection,
    writer: Connection,
}

impl Side {
    fn open(port: u16) -> Self {
        let [mut monitor, writer] = [(); 2].map(|()| Connection::open(port).expect("connect"));
        assert_eq!(monitor.ask("MONITOR").expect("MONITOR").text(), b"OK");
        Self { monitor, writer }
    }

    /// Whether the command was refused, and what was seen of it.
    fn play(&mut self, command: &Command) -> (bool, Vec<String>) {
        let end = vec![b"ECHO".to_vec(), b"the end".to_vec()];
        self.writer.send(&[command.clone(), end]).expect("send");
        let refused = self.writer.reply().expect("a reply").is_error();
        self.writer.reply().expect("a reply");
        let mut lines = Vec::new();
        loop {
            let line = String::from_utf8_lossy(self.monitor.reply().expect("a line").text()).into_owned();
            if line.ends_with(END) {
                return (refused, lines);
            }
            // +1339518083.107412 [0 127.0.0.1:60866] "keys" "*"
            let (head, rest) = line.split_once("] ").expect("an address");
            let (time, place) = head.split_once(" [").expect("a time");
            assert!(time.split_once('.').is_some_and(|(s, us)| s.len() == 10 && us.len() == 6), "{line}");
            lines.push(format!("[{}] {rest}", place.split(' ').next().unwrap_or_default()));
        }
    }
}

fn compare_with(reference: Reference) {
    let barium = Server::barium().expect("barium-host");
    let Some(other) = Server::reference(reference).expect("reference server") else {
        println!("monitor: SKIPPED against {reference:?}, which is not there");
        return;
    };
    let mut sides = [barium.port, other.port].map(Side::open);
    let [ours, theirs] = &mut sides;
    let common = common_commands([&mut ours.writer, &mut theirs.writer]).expect("COMMAND LIST");
    let world = World { old: reference == Reference::Redis, ..World::default() };
    let mut reader = Connection::open(barium.port).expect("connect");
    let grammar = Grammar::of_common(&mut reader, &common, &is_tame, world).expect("COMMAND DOCS");
    // What reading the grammar and the lists showed.
    let [ours, theirs] = sides.each_mut().map(|side| side.play(&vec![b"SELECT".to_vec(), b"0".to_vec()]).1);
    assert!(ours.ends_with(&["[0] \"SELECT\" \"0\"".to_string()]) && theirs.len() == 2, "{ours:?} {theirs:?}");
    let mut draw = Draw::new(number("SEED", 1));
    let seconds = number("SECONDS_EACH", 3);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut compared = 0;
    while Instant::now() < end {
        let mut sent = Vec::new();
        for _ in 0..SEQUENCE {
            for command in grammar.commands(draw.below(usize::MAX) as u64) {
                sent.push(shown(&command));
                let [ours, theirs] = sides.each_mut().map(|side| side.play(&command));
                // Where the versions differ in what they refuse, they differ in what is shown.
                if ours.0 != theirs.0 {
                    continue;
                }
                compared += theirs.1.len() as u64;
                assert_eq!(ours.1, theirs.1, "{reference:?} shows otherwise after\n  {}", sent.join("\n  "));
            }
        }
        for side in &mut sides {
            side.play(&vec![b"FLUSHALL".to_vec()]);
        }
    }
    println!("monitor against {reference:?}: {compared} lines compared");
    assert!(compared >= LINES * seconds, "{compared} lines only");
}

#[test]
fn lines_of_valkey() {
    compare_with(Reference::Valkey);
}

#[test]
fn lines_of_redis() {
    compare_with(Reference::Redis);
}
