//! How often keys were used: after each of random commands, what OBJECT FREQ says of every key. With `lfu-log-factor 0` every use
//! counts, so that nothing is random about it. `SECONDS_EACH`, `SEED` and the programs' names as for the families.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use barium_differential::differences::Reference;
use barium_differential::grammar::{Grammar, World, common_commands};
use barium_differential::server::Server;
use barium_differential::settings::number;
use barium_differential::values::Draw;
use barium_differential::wire::{Command, Connection, Reply, shown};

/// Commands in a sequence, after which the servers are emptied.
const SEQUENCE: usize = 30;
/// Frequencies that must be compared, a second of the time given.
const COMPARED: u64 = 100;

/// Whether a command does the same on both servers at the same time: it draws nothing at random, and no time passes.
fn is_tame(group: &str, name: &str) -> bool {
    let data = ["generic", "string", "list", "set", "sorted-set", "hash", "stream", "bitmap", "hyperloglog", "geo"];
    let not = ["restore", "migrate", "spop", "wait", "randomkey", "keys", "scan", "object", "swapdb", "move"];
    data.contains(&group) && !not.iter().any(|word| name.starts_with(word)) && !name.contains("expire")
}

/// Why a reference counts a command's uses in another way than is done here.
fn excused(reference: Reference, name: &str, refused: bool) -> bool {
    match (reference, name) {
        // The value keeps its counter there, which begins anew in 7.2.
        (Reference::Redis, "rename" | "renamenx") => true,
        // How often they look up a key that they name twice, or look at with and without waiting.
        (
            _,
            "xread" | "xreadgroup" | "blmove" | "brpoplpush" | "bzmpop" | "bzpopmin" | "bzpopmax" | "sort" | "sort_ro",
        ) => true,
        // A key that is added may move others in the table, which then count once more here.
        (_, "lmove" | "rpoplpush" | "mset") => true,
        // They look at their arguments before they look at the key (after 7.2).
        (Reference::Valkey, "bitcount" | "bitpos") => refused,
        // A key that it names twice is not there when it is looked at for the second time (after 7.2).
        (Reference::Valkey, "msetnx") => true,
        _ => false,
    }
}

/// What OBJECT FREQ says of each key.
fn frequencies(connection: &mut Connection, keys: &[Vec<u8>]) -> Vec<Reply> {
    let ask = |key: &Vec<u8>| vec![b"OBJECT".to_vec(), b"FREQ".to_vec(), key.clone()];
    connection.send(&keys.iter().map(ask).collect::<Vec<Command>>()).expect("send");
    keys.iter().map(|_| connection.reply().expect("a reply")).collect()
}

fn compare_with(reference: Reference) {
    let barium = Server::barium().expect("barium-host");
    let Some(other) = Server::reference(reference).expect("reference server") else {
        println!("frequency: SKIPPED against {reference:?}, which is not there");
        return;
    };
    let mut sides = [barium.port, other.port].map(|port| Connection::open(port).expect("connect"));
    let [ours, theirs] = &mut sides;
    let common = common_commands([ours, theirs]).expect("COMMAND LIST");
    let world = World { old: reference == Reference::Redis, sorts: true, ..World::default() };
    let grammar = Grammar::of_common(&mut sides[0], &common, &is_tame, world).expect("COMMAND DOCS");
    for side in &mut sides {
        let set = side
            .ask("CONFIG SET maxmemory 64gb maxmemory-policy allkeys-lfu lfu-log-factor 0 lfu-decay-time 0")
            .expect("CONFIG");
        assert_eq!(set.text(), b"OK");
    }
    let mut draw = Draw::new(number("SEED", 1));
    let seconds = number("SECONDS_EACH", 3);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut compared = 0;
    // By command, an example.
    let mut different: BTreeMap<String, String> = BTreeMap::new();
    while Instant::now() < end {
        sides.iter_mut().for_each(|side| drop(side.ask("FLUSHALL").expect("FLUSHALL")));
        let mut sent: Vec<String> = Vec::new();
        'sequence: for _ in 0..SEQUENCE {
            for command in grammar.commands(draw.below(usize::MAX) as u64) {
                sent.push(shown(&command));
                let replies = sides.each_mut().map(|side| {
                    side.send(std::slice::from_ref(&command)).expect("send");
                    side.reply().expect("a reply")
                });
                let mut keys: Vec<Vec<u8>> =
                    sides[1].ask("KEYS *").expect("KEYS").items().iter().map(|key| key.text().to_vec()).collect();
                keys.sort();
                let [ours, theirs] = sides.each_mut().map(|side| frequencies(side, &keys));
                compared += keys.len() as u64;
                if ours == theirs {
                    continue;
                }
                // Where the versions differ in what they refuse, they differ in what they look at.
                let (name, refused) = (String::from_utf8_lossy(&command[0]).to_lowercase(), replies[1].is_error());
                if replies[0].is_error() == refused && !excused(reference, &name, refused) {
                    let name = if refused { format!("{name}, refused") } else { name };
                    let what = format!("{}\n    {keys:?}\n    {ours:?}\n    {theirs:?}", sent.join("\n    "));
                    let shorter = |old: &String| old.len() > what.len();
                    if different.get(&name).is_none_or(shorter) {
                        different.insert(name, what);
                    }
                }
                break 'sequence;
            }
        }
    }
    println!("frequency against {reference:?}: {compared} compared");
    let examples: Vec<String> = different.iter().map(|(name, what)| format!("{name}:\n    {what}")).collect();
    assert!(different.is_empty(), "{reference:?} counts otherwise:\n  {}", examples.join("\n  "));
    assert!(compared >= COMPARED * seconds, "{compared} frequencies only");
}

#[test]
fn uses_of_valkey() {
    compare_with(Reference::Valkey);
}

#[test]
fn uses_of_redis() {
    compare_with(Reference::Redis);
}
