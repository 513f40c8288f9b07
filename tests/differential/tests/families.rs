//! A test per family. `SECONDS_EACH` bounds each in time (10 by default), `SEED` chooses the sequences, `BARIUM_HOST` and
//! `REDIS_SERVER` name the two programs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use barium_differential::grammar::Grammar;
use barium_differential::play::Pair;
use barium_differential::server::Server;
use barium_differential::wire::{Command, Connection, shown};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

/// Sequences between two looks at the clock.
const BATCH: u32 = 20;
/// With at least this long, every command of the family must have been compared often, and served at least once.
const LONG: Duration = Duration::from_secs(30);
const OFTEN: usize = 100;
/// How many times its limit a test may take to reach every command: a slow machine plays fewer sequences in the same time.
const PATIENCE: u32 = 4;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What the sequences have not reached yet of a family's own commands.
fn missing(pair: &Pair, own: &Grammar) -> Option<String> {
    own.shapes.iter().find_map(|shape| {
        let first = shape.name.split('|').next().unwrap_or_default();
        let count = |counts: &BTreeMap<String, usize>| counts.get(first).copied().unwrap_or(0);
        match (count(&pair.compared), count(&pair.served)) {
            (compared, _) if compared < OFTEN => Some(format!("{} was compared {compared} times only", shape.name)),
            (_, 0) => Some(format!("{} was never served without an error", shape.name)),
            _ => None,
        }
    })
}

/// Compares random sequences of the groups' commands; one in `transactions` of 100 is a command of the transaction group.
/// The first group is the family's own: its commands must all be reached.
fn compare(name: &str, groups: &[&str], transactions: u64) {
    let (barium, reference) = (Server::barium().expect("barium-host"), Server::reference().expect("redis-server"));
    let mut docs = Connection::open(reference.port).expect("connect");
    let grammar = Grammar::read(&mut docs, groups).expect("COMMAND DOCS");
    let own = Grammar::read(&mut docs, &groups[..1]).expect("COMMAND DOCS");
    let control = Grammar::read(&mut docs, &["transactions"]).expect("COMMAND DOCS");
    assert!(!grammar.shapes.is_empty(), "no commands in {groups:?}");
    let pair = RefCell::new(Pair::new(barium.port, reference.port));

    // A sequence shrinks by leaving commands out; a command is what its number makes it.
    let choose = |seed: u64| -> Command {
        if seed % 100 < transactions { control.command(seed / 100) } else { grammar.command(seed / 100) }
    };
    let sequences = (any::<bool>(), prop::collection::vec(any::<u64>().no_shrink(), 1..60));
    let limit = Duration::from_secs(number("SECONDS_EACH", 10));
    let started = Instant::now();
    let mut seed = number("SEED", 1);
    let config = Config {
        cases: BATCH,
        failure_persistence: None,
        max_shrink_iters: 3000,
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let mut sequences_played = 0;
    let reached =
        |elapsed: Duration| limit < LONG || elapsed >= limit * PATIENCE || missing(&pair.borrow(), &own).is_none();
    while started.elapsed() < limit || !reached(started.elapsed()) {
        // A runner plays its number of cases once.
        let mut seed_bytes = [0; 32];
        seed_bytes[..8].copy_from_slice(&seed.to_le_bytes());
        seed = seed.wrapping_add(1 << 32);
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed_bytes);
        let mut runner = TestRunner::new_with_rng(config.clone(), rng);
        let result = runner.run(&sequences, |(resp3, seeds)| {
            let commands: Vec<Command> = seeds.into_iter().map(choose).collect();
            pair.borrow_mut().play(&commands, resp3).map_err(|difference| TestCaseError::fail(difference.to_string()))
        });
        match result {
            Ok(()) => sequences_played += BATCH,
            Err(TestError::Fail(reason, (resp3, seeds))) => {
                let lines: Vec<String> = seeds.into_iter().map(|seed| shown(&choose(seed))).collect();
                panic!("{name}, RESP{}:\n  {}\nthe servers differ: {reason}", 2 + u8::from(resp3), lines.join("\n  "));
            }
            Err(TestError::Abort(reason)) => panic!("{name}: {reason}"),
        }
    }
    let pair = pair.into_inner();
    let total: usize = pair.compared.values().sum();
    println!("{name}: {sequences_played} sequences, {total} replies compared");
    if limit >= LONG
        && let Some(what) = missing(&pair, &own)
    {
        panic!("{name}: {what}");
    }
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
