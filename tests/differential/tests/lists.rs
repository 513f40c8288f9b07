//! That what is said to be skipped, and to differ, is still so.

use barium_differential::differences::{DIFFERENCES, Reference, Seen};
use barium_differential::grammar::all_shapes;
use barium_differential::server::Server;
use barium_differential::skipped::Skipped;
use barium_differential::wire::{Connection, Reply, words};

/// Plays an example on an emptied server; the last reply.
fn last_reply(connection: &mut Connection, example: &[&str]) -> Reply {
    connection.ask("FLUSHALL").expect("FLUSHALL");
    let replies: Vec<Reply> = example.iter().map(|line| connection.ask(line).expect("reply")).collect();
    let _ = connection.ask("DISCARD");
    replies.last().cloned().expect("an example has commands")
}

#[test]
fn every_difference_is_one() {
    let barium = Server::barium().expect("barium-host");
    let mut ours = Connection::open(barium.port).expect("connect");
    for reference in [Reference::Redis, Reference::Valkey] {
        let Some(server) = Server::reference(reference).expect("reference server") else {
            println!("SKIPPED against {reference:?}, which is not there");
            continue;
        };
        let mut theirs = Connection::open(server.port).expect("connect");
        for one in DIFFERENCES.iter().filter(|one| one.from == reference && !one.example.is_empty()) {
            let (mine, other) = (last_reply(&mut ours, one.example), last_reply(&mut theirs, one.example));
            assert_ne!(mine, other, "no longer differs from {reference:?}: {}", one.what);
            let command = words(one.example[one.example.len() - 1]);
            let seen = Seen { command: &command, ours: &mine, theirs: &other };
            let explained = (one.explains)(&seen) || one.what.ends_with("Not generated.");
            assert!(explained, "{seen:?} is not recognised as: {}", one.what);
        }
    }
}

#[test]
fn every_skip_names_something() {
    let skipped = Skipped::read().expect("skipped.txt");
    let barium = Server::barium().expect("barium-host");
    let shapes = all_shapes(&mut Connection::open(barium.port).expect("connect")).expect("COMMAND DOCS");
    for skip in &skipped.0 {
        let shape = shapes.iter().find(|shape| shape.name == skip.command);
        let shape = shape.unwrap_or_else(|| panic!("skipped.txt: there is no command {}", skip.command));
        let known = skip.token.is_empty() || shape.tokens().contains(&skip.token.as_bytes().to_vec());
        assert!(known, "skipped.txt: {} has no {}", skip.command, skip.token);
        assert!(!skip.reason.is_empty());
    }
}
