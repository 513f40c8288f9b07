//! HELP of every command that has it, line by line. 7.2's texts are those of 7.0 but for the last line; where it has more, they
//! are Valkey's.

use std::collections::BTreeSet;

use barium_differential::differences::Reference;
use barium_differential::server::Server;
use barium_differential::wire::Connection;

const COMMANDS: [&str; 12] = [
    "OBJECT", "XINFO", "XGROUP", "COMMAND", "CONFIG", "CLIENT", "ACL", "PUBSUB", "LATENCY", "MEMORY", "SLOWLOG",
    "MODULE",
];
/// Beginnings of CLIENT HELP's lines that one version has and the other has not.
const OF_CLIENTS: [&str; 11] = [
    "SETINFO ",
    "Set client meta",
    "* LIB-",
    "NO-TOUCH ",
    "Will not touch",
    "CAPA ",
    "The client claims",
    "* REDIRECT",
    "The client can handle",
    "* ID ",
    "* MAXAGE ",
];

/// The lines without what the versions name differently.
fn lines(port: u16, command: &str) -> Vec<String> {
    let mut connection = Connection::open(port).expect("connect");
    let reply = connection.ask(&format!("{command} HELP")).expect("HELP");
    assert!(!reply.items().is_empty(), "{command} HELP: {reply:?}");
    let text = |line: &[u8]| String::from_utf8_lossy(line).replace("Redis ", "").replace("Prints this", "Print this");
    reply.items().iter().map(|line| text(line.text()).replace("PRIMARY", "MASTER")).collect()
}

#[test]
fn lines_are_those_of_the_references() {
    let barium = Server::barium().expect("barium-host");
    for reference in [Reference::Redis, Reference::Valkey] {
        let Some(other) = Server::reference(reference).expect("reference server") else {
            println!("help: SKIPPED against {reference:?}, which is not there");
            continue;
        };
        for command in COMMANDS {
            let [ours, theirs] = [barium.port, other.port].map(|port| lines(port, command));
            if command != "CLIENT" {
                assert_eq!(ours, theirs, "{command} HELP of {reference:?}");
                continue;
            }
            let [ours, theirs] =
                [&ours, &theirs].map(|lines| lines.iter().map(String::as_str).collect::<BTreeSet<_>>());
            for line in ours.symmetric_difference(&theirs) {
                let excused = OF_CLIENTS.iter().any(|beginning| line.trim_start().starts_with(beginning));
                let of_kill = ["Kill connections by client id.", "Kill connections older than the specified age."];
                assert!(excused || of_kill.contains(&line.trim()), "CLIENT HELP of {reference:?}: {line:?}");
            }
        }
    }
}
