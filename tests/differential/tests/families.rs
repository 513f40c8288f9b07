//! A test per family, against Redis and against Valkey. `SECONDS_EACH` bounds each in time (10 by default), `SEQUENCES` in how
//! many are played against each reference (no bound by default), `SEED` chooses the sequences, `BARIUM_HOST`, `REDIS_SERVER` and `VALKEY_SERVER` name the programs.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use barium_differential::coverage::Coverage;
use barium_differential::differences::Reference;
use barium_differential::grammar::{Grammar, World};
use barium_differential::play::{Manner, Pair};
use barium_differential::scene::{CLIENTS, Turn};
use barium_differential::server::Server;
use barium_differential::settings::number;
use barium_differential::skipped::Skipped;
use barium_differential::wire::{Command, Connection, shown};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

/// Sequences between two looks at the clock.
const BATCH: u32 = 20;
/// With at least this long, every command and option of the family must have been compared often, and served at least once.
const LONG: Duration = Duration::from_secs(12);
const OFTEN: usize = 100;
/// How many times its limit a test may take to reach every command: a slow machine plays fewer sequences in the same time.
const PATIENCE: u32 = 6;

/// Values of every type and encoding, as the reference dumps them.
fn payloads(reference: &mut Connection) -> std::io::Result<Vec<Vec<u8>>> {
    let mut payloads = Vec::new();
    for line in [
        "SET k v",
        "SET k 12345",
        "APPEND k aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "RPUSH k a 1 b 100000",
        "SADD k 1 2 3",
        "SADD k m1 m2 m3",
        "HSET k m1 1 m2 x",
        "ZADD k 1 m1 2.5 m2 inf m3",
        "XADD k 3-1 f v",
    ] {
        reference.ask("DEL k")?;
        reference.ask(line)?;
        payloads.push(reference.ask("DUMP k")?.text().to_vec());
    }
    reference.ask("DEL k")?;
    Ok(payloads)
}

/// Picks commands by group and name.
type Pick = fn(&str, &str) -> bool;

/// One family of commands, compared in random sequences.
struct Family {
    name: &'static str,
    /// The family's own: they and their options must all be reached.
    own: Pick,
    /// Those that are mixed with them.
    others: Pick,
    /// How many of 100 commands are of the transaction group, how many of the others the family's own.
    transactions: u64,
    share: u64,
    /// With several clients: what is said first, each line behind the number of the client.
    scene: Option<&'static [&'static str]>,
}

/// What its commands are chosen from.
struct Choice {
    own: Grammar,
    others: Grammar,
    control: Grammar,
    everything: Grammar,
}

impl Choice {
    fn commands(&self, family: &Family, seed: u64) -> Vec<Command> {
        let (from, of_100) = (seed / 10_000, seed % 100);
        let grammar = if of_100 < family.transactions {
            &self.control
        } else if seed / 100 % 100 < family.share || self.others.shapes.is_empty() {
            &self.own
        } else {
            &self.others
        };
        let mut commands = grammar.commands(from);
        let asks_for_keys = |command: &Command| {
            command.len() > 1
                && command[0].eq_ignore_ascii_case(b"command")
                && command[1].to_ascii_lowercase().starts_with(b"getkeys")
        };
        if let Some(first) = commands.first_mut().filter(|command| asks_for_keys(command))
            && from % 20 != 0
        {
            first.truncate(2);
            first.extend(self.everything.commands(from / 20).remove(0));
            if first.len() == 3 {
                // 7.0 wants one word more.
                first.push(b"k".to_vec());
            }
        }
        commands
    }

    fn turns(&self, family: &Family, seed: u64) -> Vec<Turn> {
        // A subscriber to everything only listens: 7.0 tells it of its own misses in the midst of a reply.
        let listens = family.scene.is_some_and(|setup| setup.iter().any(|line| line.starts_with("1 PSUBSCRIBE")));
        let client = match (seed % CLIENTS as u64) as usize {
            1 if listens => 0,
            client => client,
        };
        let commands = self.commands(family, seed / CLIENTS as u64);
        let turn = |command: Command| {
            let waits = self.own.waits(&command) || self.others.waits(&command);
            let patient = if listens { 2 } else { 1 };
            Turn { client: if waits && client == 0 { patient } else { client }, waits, command }
        };
        commands.into_iter().map(turn).collect()
    }
}

impl Family {
    fn compare(&self) {
        let skipped = Skipped::read().expect("skipped.txt");
        let read = |server: &Server, pick: Pick, world: &World| {
            let mut connection = Connection::open(server.port).expect("connect");
            Grammar::read(&mut connection, &pick, &skipped, world.clone()).expect("COMMAND DOCS")
        };
        let everything: Pick = |_, _| true;
        let barium = Server::barium().expect("barium-host");
        let mut coverage = Coverage::of(&read(&barium, everything, &World::default()));
        let own = read(&barium, self.own, &World::default());
        let limit = Duration::from_secs(number("SECONDS_EACH", 10));
        for reference in [Reference::Redis, Reference::Valkey] {
            let Some(other) = Server::reference(reference).expect("reference server") else {
                println!("{}: SKIPPED against {reference:?}, which is not there", self.name);
                continue;
            };
            // As new as the reference: users and parameters outlive a sequence.
            let barium = Server::barium().expect("barium-host");
            // The last one goes on until everything is reached.
            let patience = if reference == Reference::Valkey && limit >= LONG { PATIENCE } else { 1 };
            let pair = Pair::new(barium.port, other.port, reference, coverage);
            // Nobody else is connected later on, so that both servers have as many clients.
            let payloads = payloads(&mut Connection::open(other.port).expect("connect")).expect("payloads");
            let world = World {
                old: reference == Reference::Redis,
                patient: self.scene.is_some(),
                sorts: (self.own)("generic", "sort") || (self.others)("generic", "sort"),
                payloads,
            };
            let choice = Choice {
                own: read(&barium, self.own, &world),
                others: read(&barium, self.others, &world),
                control: read(&barium, |group, _| group == "transactions", &world),
                everything: read(&barium, everything, &world),
            };
            assert!(!choice.own.shapes.is_empty(), "{}: no commands", self.name);
            coverage = self.play(pair, &choice, &skipped, limit / 2, patience);
        }
        println!("{}: {} replies compared", self.name, coverage.replies);
        if limit >= LONG
            && let Some(what) = coverage.missing(&own, &skipped, OFTEN)
        {
            panic!("{}: {what}", self.name);
        }
    }

    /// Plays for the time given, or that times the patience if not all was reached.
    fn play(&self, pair: Pair, choice: &Choice, skipped: &Skipped, limit: Duration, patience: u32) -> Coverage {
        let reference = pair.reference;
        let pair = RefCell::new(pair);
        // A sequence shrinks by leaving commands out; a command is what its number makes it.
        let play = |manner: u8, seeds: &[u64]| match self.scene {
            None => {
                let commands: Vec<Command> = seeds.iter().flat_map(|seed| choice.commands(self, *seed)).collect();
                pair.borrow_mut().play(&commands, Manner { resp3: manner & 1 == 1, dump: manner < 2 })
            }
            Some(setup) => {
                let turns: Vec<Turn> = seeds.iter().flat_map(|seed| choice.turns(self, *seed)).collect();
                pair.borrow_mut().play_scene(setup, &turns, manner)
            }
        };
        let show = |seeds: &[u64]| -> String {
            let lines: Vec<String> = match self.scene {
                None => seeds.iter().flat_map(|seed| choice.commands(self, *seed)).map(|line| shown(&line)).collect(),
                Some(_) => {
                    let turns = seeds.iter().flat_map(|seed| choice.turns(self, *seed));
                    turns.map(|turn| format!("{}> {}", turn.client, shown(&turn.command))).collect()
                }
            };
            lines.join("\n  ")
        };
        let length = if self.scene.is_some() { 1..30 } else { 1..60 };
        let sequences = (0..8u8, prop::collection::vec(any::<u64>().no_shrink(), length));
        let started = Instant::now();
        let mut seed = number("SEED", 1);
        let config = Config {
            cases: BATCH,
            failure_persistence: None,
            max_shrink_iters: 3000,
            max_shrink_time: 30_000,
            ..Config::default()
        };
        // A bound on sequences has every run play the same ones, however fast the machine is.
        let most = number("SEQUENCES", u64::MAX);
        let mut played = 0;
        let enough = |played: u64, elapsed: Duration| {
            let all = || pair.borrow().coverage.missing(&choice.own, skipped, OFTEN).is_none();
            (elapsed >= limit || played >= most) && (patience == 1 || elapsed >= limit * patience || all())
        };
        while !enough(played, started.elapsed()) {
            played += u64::from(BATCH);
            // A runner plays its number of cases once.
            let mut seed_bytes = [0; 32];
            seed_bytes[..8].copy_from_slice(&seed.to_le_bytes());
            seed = seed.wrapping_add(1 << 32);
            let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed_bytes);
            let mut runner = TestRunner::new_with_rng(config.clone(), rng);
            // Once a server has ended nothing shrinks.
            let first = RefCell::new(None);
            let result = runner.run(&sequences, |(manner, seeds)| {
                play(manner, &seeds).map_err(|difference| {
                    first.borrow_mut().get_or_insert_with(|| show(&seeds));
                    TestCaseError::fail(difference.to_string())
                })
            });
            match result {
                Ok(()) => {}
                Err(TestError::Fail(reason, (manner, seeds))) => {
                    let ended = reason.message().contains("(connect)");
                    let lines = first.into_inner().filter(|_| ended).unwrap_or_else(|| show(&seeds));
                    let (name, setup) = (self.name, self.scene.unwrap_or_default());
                    panic!(
                        "{name} against {reference:?}, RESP3 for {manner:03b}: {setup:?}\n  {lines}\nthe servers differ: {reason}"
                    );
                }
                Err(TestError::Abort(reason)) => panic!("{}: {reason}", self.name),
            }
        }
        pair.into_inner().coverage
    }
}

/// A family of one client's commands, of one group or more.
fn alone(name: &'static str, own: Pick, others: Pick, transactions: u64) {
    let share = if others("", "") { 50 } else { 40 };
    Family { name, own, others, transactions, share, scene: None }.compare();
}

const NONE: Pick = |_, _| false;
const KEYS: Pick = |group, _| ["string", "list", "set", "hash", "sorted-set", "stream"].contains(&group);

#[test]
fn strings() {
    alone("strings", |group, _| group == "string", NONE, 0);
}

#[test]
fn bitmaps() {
    alone("bitmaps", |group, _| group == "bitmap", |group, _| group == "string", 0);
}

#[test]
fn lists() {
    alone("lists", |group, _| group == "list", NONE, 0);
}

#[test]
fn sets() {
    alone("sets", |group, _| group == "set", NONE, 0);
}

#[test]
fn hashes() {
    alone("hashes", |group, _| group == "hash", NONE, 0);
}

#[test]
fn sorted_sets() {
    alone("sorted sets", |group, _| group == "sorted-set", |group, _| group == "set", 0);
}

#[test]
fn geo() {
    alone("geo", |group, _| group == "geo", NONE, 0);
}

#[test]
fn hyperloglogs() {
    alone("hyperloglogs", |group, _| group == "hyperloglog", NONE, 0);
}

#[test]
fn keys_of_all_types() {
    alone("keys of all types", |group, _| group == "generic", KEYS, 0);
}

#[test]
fn transactions() {
    alone(
        "transactions",
        |group, _| group == "transactions",
        |group, name| group == "generic" || KEYS(group, name),
        30,
    );
}

#[test]
fn streams() {
    alone("streams", |group, _| group == "stream", NONE, 0);
}

/// Clients that wait, and others that give them what they wait for or change what they wait for.
#[test]
fn waiting() {
    Family {
        name: "waiting",
        own: |_, name| {
            let blocking = ["blpop", "brpop", "blmove", "brpoplpush", "blmpop", "bzpopmin", "bzpopmax", "bzmpop"];
            blocking.contains(&name) || name.starts_with("xread")
        },
        others: |group, name| {
            let groups = ["list", "sorted-set", "stream"];
            let more = ["del", "rename", "copy", "move", "flushall", "set", "swapdb", "sort", "restore", "expire"];
            groups.contains(&group) || more.contains(&name)
        },
        transactions: 10,
        share: 40,
        scene: Some(&[]),
    }
    .compare();
}

/// Subscribers, and keyspace events.
#[test]
fn channels() {
    Family {
        name: "pub/sub",
        own: |group, _| group == "pubsub",
        others: |_, name| ["set", "del", "lpush", "ping", "expire"].contains(&name),
        transactions: 0,
        share: 80,
        scene: Some(&["0 CONFIG SET notify-keyspace-events KEA"]),
    }
    .compare();
}

/// The events of every command, in order.
#[test]
fn keyspace_events() {
    Family {
        name: "keyspace events",
        own: |group, name| group == "generic" || KEYS(group, name),
        others: |group, name| {
            // BITCOUNT and BITPOS miss a key before or after they look at their arguments.
            ["bitmap", "geo", "hyperloglog"].contains(&group) && name != "bitcount" && name != "bitpos"
        },
        transactions: 5,
        share: 80,
        scene: Some(&["0 CONFIG SET notify-keyspace-events KEAmn", "1 PSUBSCRIBE __key*__:*"]),
    }
    .compare();
}

/// Transactions that other clients break.
#[test]
fn watching() {
    Family {
        name: "watching",
        own: |group, _| group == "transactions",
        others: |group, name| {
            ["string", "hash"].contains(&group) || ["del", "rename", "expire", "swapdb"].contains(&name)
        },
        transactions: 30,
        share: 0,
        scene: Some(&[]),
    }
    .compare();
}

/// Clients that look at each other.
#[test]
fn clients() {
    Family {
        name: "clients",
        own: |group, _| group == "connection",
        others: |_, name| ["blpop", "lpush", "subscribe", "set", "ping"].contains(&name),
        transactions: 0,
        share: 80,
        scene: Some(&["0 CLIENT UNPAUSE"]),
    }
    .compare();
}

/// Users and what they may do.
#[test]
fn users() {
    Family {
        name: "users",
        own: |_, name| name.starts_with("acl|"),
        others: |group, name| ["string", "list"].contains(&group) || ["auth", "publish", "config|get"].contains(&name),
        transactions: 5,
        share: 80,
        // Whatever an earlier sequence left: everyone is there, then nobody.
        scene: Some(&[
            "0 ACL SETUSER u reset",
            "0 ACL SETUSER v reset",
            "0 ACL SETUSER nosuch reset",
            "0 ACL SETUSER  reset",
            "0 ACL DELUSER u v nosuch ",
            "0 ACL LOG RESET",
        ]),
    }
    .compare();
}

/// What is asked of the server as such.
#[test]
fn server() {
    Family {
        name: "server",
        own: |group, name| group == "server" && !name.starts_with("acl|"),
        others: KEYS,
        transactions: 5,
        share: 60,
        scene: Some(&[
            "0 CONFIG SET hash-max-listpack-entries 128 hash-max-listpack-value 64 set-max-intset-entries 512",
            "0 CONFIG SET zset-max-listpack-entries 128 zset-max-listpack-value 64 list-max-listpack-size -2",
            "0 CONFIG SET slowlog-log-slower-than -1 maxmemory-policy noeviction",
            "0 SLOWLOG RESET",
        ]),
    }
    .compare();
}
