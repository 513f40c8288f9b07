//! A test per family, against Redis and against Valkey. `SECONDS_EACH` bounds each in time (10 by default), `SEED` chooses
//! the sequences, `BARIUM_HOST`, `REDIS_SERVER` and `VALKEY_SERVER` name the programs.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use barium_differential::coverage::Coverage;
use barium_differential::differences::Reference;
use barium_differential::grammar::{Grammar, World};
use barium_differential::play::{Manner, Pair};
use barium_differential::server::Server;
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

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

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

/// One family: some groups' commands, compared in random sequences.
struct Family {
    name: &'static str,
    /// The first group is the family's own: its commands and their options must all be reached.
    groups: &'static [&'static str],
    /// How many of 100 commands are of the transaction group.
    transactions: u64,
}

impl Family {
    fn compare(&self) {
        let skipped = Skipped::read().expect("skipped.txt");
        let barium = Server::barium().expect("barium-host");
        let mut docs = Connection::open(barium.port).expect("connect");
        let own = |group: &str, _: &str| self.groups[0] == group;
        let own = Grammar::read(&mut docs, &own, &skipped, World::default()).expect("COMMAND DOCS");
        let everything = Grammar::read(&mut docs, &|_, _| true, &skipped, World::default()).expect("COMMAND DOCS");
        let mut coverage = Coverage::of(&everything);
        let limit = Duration::from_secs(number("SECONDS_EACH", 10));
        for reference in [Reference::Redis, Reference::Valkey] {
            let Some(other) = Server::reference(reference).expect("reference server") else {
                println!("{}: SKIPPED against {reference:?}, which is not there", self.name);
                continue;
            };
            // The last one goes on until everything is reached.
            let patience = if reference == Reference::Valkey && limit >= LONG { PATIENCE } else { 1 };
            let pair = Pair::new(barium.port, other.port, reference, coverage);
            let mut connection = Connection::open(other.port).expect("connect");
            let world = World {
                old: reference == Reference::Redis,
                patient: false,
                sorts: self.groups.contains(&"generic"),
                payloads: payloads(&mut connection).expect("payloads"),
            };
            coverage = self.play(pair, &mut docs, &skipped, world, (limit / 2, patience), &own);
        }
        println!("{}: {} replies compared", self.name, coverage.replies);
        if limit >= LONG
            && let Some(what) = coverage.missing(&own, &skipped, OFTEN)
        {
            panic!("{}: {what}", self.name);
        }
    }

    /// Plays for the time given, or that times the patience if not all was reached.
    fn play(
        &self,
        pair: Pair,
        docs: &mut Connection,
        skipped: &Skipped,
        world: World,
        (limit, patience): (Duration, u32),
        own: &Grammar,
    ) -> Coverage {
        let mine = |group: &str, _: &str| self.groups.contains(&group);
        let grammar = Grammar::read(docs, &mine, skipped, world.clone()).expect("COMMAND DOCS");
        let transactions = |group: &str, _: &str| group == "transactions";
        let control = Grammar::read(docs, &transactions, skipped, world).expect("COMMAND DOCS");
        assert!(!grammar.shapes.is_empty(), "no commands in {:?}", self.groups);
        let reference = pair.reference;
        let pair = RefCell::new(pair);

        // A sequence shrinks by leaving commands out; a command is what its number makes it.
        let choose = |seed: u64| -> Vec<Command> {
            if seed % 100 < self.transactions { control.commands(seed / 100) } else { grammar.commands(seed / 100) }
        };
        let sequences = (any::<bool>(), 0..4u8, prop::collection::vec(any::<u64>().no_shrink(), 1..60));
        let started = Instant::now();
        let mut seed = number("SEED", 1);
        let config = Config {
            cases: BATCH,
            failure_persistence: None,
            max_shrink_iters: 3000,
            max_shrink_time: 30_000,
            ..Config::default()
        };
        let enough = |elapsed: Duration| {
            let all = || pair.borrow().coverage.missing(own, skipped, OFTEN).is_none();
            elapsed >= limit && (patience == 1 || elapsed >= limit * patience || all())
        };
        while !enough(started.elapsed()) {
            // A runner plays its number of cases once.
            let mut seed_bytes = [0; 32];
            seed_bytes[..8].copy_from_slice(&seed.to_le_bytes());
            seed = seed.wrapping_add(1 << 32);
            let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed_bytes);
            let mut runner = TestRunner::new_with_rng(config.clone(), rng);
            let result = runner.run(&sequences, |(resp3, dump, seeds)| {
                let commands: Vec<Command> = seeds.into_iter().flat_map(choose).collect();
                let manner = Manner { resp3, dump: dump == 0 };
                let played = pair.borrow_mut().play(&commands, manner);
                played.map_err(|difference| TestCaseError::fail(difference.to_string()))
            });
            match result {
                Ok(()) => {}
                Err(TestError::Fail(reason, (resp3, _, seeds))) => {
                    let lines: Vec<String> = seeds.into_iter().flat_map(choose).map(|line| shown(&line)).collect();
                    let lines = lines.join("\n  ");
                    let (name, resp) = (self.name, 2 + u8::from(resp3));
                    panic!("{name} against {reference:?}, RESP{resp}:\n  {lines}\nthe servers differ: {reason}");
                }
                Err(TestError::Abort(reason)) => panic!("{}: {reason}", self.name),
            }
        }
        pair.into_inner().coverage
    }
}

fn compare(name: &'static str, groups: &'static [&'static str], transactions: u64) {
    Family { name, groups, transactions }.compare();
}

#[test]
fn strings() {
    compare("strings", &["string"], 0);
}

#[test]
fn bitmaps() {
    compare("bitmaps", &["bitmap", "string"], 0);
}

#[test]
fn lists() {
    compare("lists", &["list"], 0);
}

#[test]
fn sets() {
    compare("sets", &["set"], 0);
}

#[test]
fn hashes() {
    compare("hashes", &["hash"], 0);
}

#[test]
fn sorted_sets() {
    compare("sorted sets", &["sorted-set", "set"], 0);
}

#[test]
fn geo() {
    compare("geo", &["geo"], 0);
}

#[test]
fn hyperloglogs() {
    compare("hyperloglogs", &["hyperloglog"], 0);
}

#[test]
fn keys_of_all_types() {
    compare("keys of all types", &["generic", "string", "list", "set", "hash", "sorted-set", "stream"], 0);
}

#[test]
fn transactions() {
    compare("transactions", &["generic", "string", "list", "set", "hash", "sorted-set", "stream"], 30);
}

#[test]
fn streams() {
    compare("streams", &["stream"], 0);
}
