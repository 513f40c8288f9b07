//! LATENCY: the shape of its replies, without the times in them.

use barium_differential::differences::Reference;
use barium_differential::server::Server;
use barium_differential::wire::{Connection, Reply};

/// What is asked in turn. `DEBUG SLEEP` makes an event.
const LINES: [&str; 27] = [
    "CONFIG RESETSTAT",
    "SET a 1",
    "GET a",
    "CONFIG GET maxmemory",
    "LATENCY HISTOGRAM set get nosuch",
    "LATENCY HISTOGRAM config",
    "LATENCY HISTOGRAM config|get",
    "LATENCY HISTOGRAM del",
    "LATENCY HISTORY command",
    "LATENCY HISTORY",
    "LATENCY LATEST",
    "LATENCY RESET",
    "LATENCY RESET command fast-command",
    "CONFIG SET latency-monitor-threshold 400",
    "DEBUG SLEEP 0.5",
    "LATENCY LATEST",
    "LATENCY HISTORY command",
    "LATENCY HISTORY fast-command",
    "LATENCY RESET nosuch command",
    "LATENCY LATEST",
    "LATENCY GRAPH nosuch",
    "LATENCY NOSUCH",
    "CONFIG SET latency-monitor-threshold 0 latency-tracking no",
    "CONFIG RESETSTAT",
    "GET a",
    "LATENCY HISTOGRAM",
    "CONFIG SET latency-tracking yes",
];

/// The reply with numbers that are times, or counted in them, taken out, and what a hash table orders in one order.
fn shape(reply: &Reply) -> Reply {
    match reply {
        Reply::Line(b':', number) if number.len() > 1 => Reply::Line(b':', b"n".to_vec()),
        Reply::Many(kind, Some(items))
            if items.len() == 2 && items.iter().all(|i| matches!(i, Reply::Line(b':', _))) =>
        {
            // A bucket and how many calls lie in it.
            Reply::Many(*kind, Some(vec![Reply::Line(b':', b"n".to_vec()), shape(&items[1])]))
        }
        Reply::Many(kind, Some(items)) if matches!(items.first(), Some(Reply::Bulk(..))) && items.len() % 2 == 0 => {
            let mut pairs: Vec<Vec<Reply>> = items.chunks(2).map(|pair| pair.iter().map(shape).collect()).collect();
            pairs.sort();
            Reply::Many(*kind, Some(pairs.concat()))
        }
        Reply::Many(kind, Some(items)) => Reply::Many(*kind, Some(items.iter().map(shape).collect())),
        other => other.clone(),
    }
}

#[test]
fn shapes_are_those_of_the_references() {
    let barium = Server::barium().expect("barium-host");
    for reference in [Reference::Redis, Reference::Valkey] {
        let Some(other) = Server::reference(reference).expect("reference server") else {
            println!("latency: SKIPPED against {reference:?}, which is not there");
            continue;
        };
        for hello in ["HELLO 2", "HELLO 3"] {
            let mut sides = [barium.port, other.port].map(|port| Connection::open(port).expect("connect"));
            for side in &mut sides {
                side.ask(hello).expect("HELLO");
            }
            for line in LINES {
                let [ours, theirs] = sides.each_mut().map(|side| shape(&side.ask(line).expect("a reply")));
                assert_eq!(ours, theirs, "{line} of {reference:?} after {hello}");
            }
        }
    }
}
