//! SCAN, HSCAN, SSCAN and ZSCAN keep their promise: what is there from begin to end is returned, however much comes and
//! goes between two calls.

use crate::random::Rng;
use crate::session::ClientId;
use crate::testing::Bench;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// How a type's elements are put in, taken out and scanned; `{}` is where elements, or the cursor, go.
struct Kind {
    scan: &'static str,
    /// Words for one element and a number.
    put: fn(&str, usize) -> String,
    remove: &'static str,
    /// Words of a reply an element.
    columns: usize,
    size: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind { scan: "SCAN", put: |e, n| format!("SET {e} {n}"), remove: "DEL", columns: 1, size: "DBSIZE" },
    Kind { scan: "HSCAN c", put: |e, n| format!("HSET c {e} {n}"), remove: "HDEL c", columns: 2, size: "HLEN c" },
    Kind { scan: "SSCAN c", put: |e, _| format!("SADD c {e}"), remove: "SREM c", columns: 1, size: "SCARD c" },
    Kind { scan: "ZSCAN c", put: |e, n| format!("ZADD c {n} {e}"), remove: "ZREM c", columns: 2, size: "ZCARD c" },
];

struct Scan<'a> {
    bench: Bench,
    client: ClientId,
    kind: &'a Kind,
    rng: Rng,
    guests: Vec<usize>,
    next_guest: usize,
}

impl Scan<'_> {
    fn put(&mut self, element: &str) {
        let n = self.rng.below(1_000);
        let line = (self.kind.put)(element, n);
        self.bench.run(self.client, &line);
    }

    fn remove(&mut self, element: &str) {
        let line = format!("{} {element}", self.kind.remove);
        assert_eq!(self.bench.run(self.client, &line), "1");
    }

    fn come(&mut self, n: usize) {
        for _ in 0..n {
            self.put(&format!("guest{}", self.next_guest));
            self.guests.push(self.next_guest);
            self.next_guest += 1;
        }
    }

    fn go(&mut self, n: usize) {
        for _ in 0..n.min(self.guests.len()) {
            let at = self.rng.below(self.guests.len());
            let guest = self.guests.swap_remove(at);
            self.remove(&format!("guest{guest}"));
        }
    }

    /// One call: next cursor and elements.
    fn call(&mut self, cursor: &str) -> (String, Vec<String>) {
        let count = [1, 7, 10, 100][self.rng.below(4)];
        let reply = self.bench.run(self.client, &format!("{} {cursor} COUNT {count}", self.kind.scan));
        let (cursor, elements) = reply.trim_start_matches('[').split_once(' ').unwrap();
        let elements = elements.trim_start_matches('[').trim_end_matches(']');
        let words: Vec<String> = elements.split(' ').filter(|w| !w.is_empty()).map(ToString::to_string).collect();
        (cursor.to_string(), words.into_iter().step_by(self.kind.columns).collect())
    }
}

fn start(kind: &Kind, seed: u64) -> Scan<'_> {
    let small = [
        ("hash-max-listpack-entries", "16"),
        ("set-max-listpack-entries", "16"),
        ("set-max-intset-entries", "16"),
        ("zset-max-listpack-entries", "16"),
    ];
    let mut bench = Bench::new(&small);
    let client = bench.client();
    Scan { bench, client, kind, rng: Rng::new(seed), guests: Vec::new(), next_guest: 0 }
}

#[test]
fn what_stays_is_returned_while_others_come_and_go() {
    for kind in &KINDS {
        for seed in 0..12 {
            let mut scan = start(kind, seed);
            let stay = [1, 10, 17, 60, 300, 900][seed as usize % 6];
            (0..stay).for_each(|i| scan.put(&format!("stay{i}")));
            // Some scans begin in a large table that shrinks, some in a small one that grows.
            scan.come(if seed % 2 == 0 { 1_500 } else { 20 });
            let mut seen: BTreeMap<String, usize> = BTreeMap::new();
            let (mut cursor, mut calls) = ("0".to_string(), 0);
            loop {
                let (next, elements) = scan.call(&cursor);
                elements.into_iter().for_each(|e| *seen.entry(e).or_default() += 1);
                if next == "0" {
                    break;
                }
                cursor = next;
                calls += 1;
                assert!(calls < 20_000, "{} {seed}: no end", kind.scan);
                let growing = (calls / 15 + seed as usize) % 2 == 1;
                let n = scan.rng.below(60);
                if growing && scan.guests.len() < 3_000 {
                    scan.come(n);
                } else {
                    scan.go(3 * n);
                }
                // What stays may change: value, score.
                let one = scan.rng.below(stay);
                scan.put(&format!("stay{one}"));
            }
            for i in 0..stay {
                let times = seen.get(&format!("stay{i}")).copied().unwrap_or(0);
                assert_eq!(times, 1, "{} {seed}: stay{i} after {calls} calls", kind.scan);
            }
        }
    }
}

#[test]
fn a_small_collection_that_grows_large_between_two_calls() {
    for kind in &KINDS[1..] {
        for seed in 0..20 {
            // A cursor from a large collection, used on a small one, and the other way round.
            let mut scan = start(kind, seed);
            (0..10).for_each(|i| scan.put(&format!("stay{i}")));
            let mut all = BTreeSet::new();
            let (cursor, elements) = scan.call("0");
            assert_eq!((cursor.as_str(), elements.len()), ("0", 10), "a compact one at once");
            scan.come(500);
            let mut cursor = "0".to_string();
            for _ in 0..3 {
                let (next, elements) = scan.call(&cursor);
                all.extend(elements);
                cursor = next;
                if cursor == "0" {
                    break;
                }
            }
            scan.go(495);
            while cursor != "0" {
                let (next, elements) = scan.call(&cursor);
                all.extend(elements);
                cursor = next;
            }
            assert!((0..10).all(|i| all.contains(&format!("stay{i}"))), "{} {seed}", kind.scan);
            let size = scan.bench.run(scan.client, kind.size);
            assert_eq!(size, "15");
        }
    }
}

#[test]
fn a_set_that_spop_makes_small_between_two_calls() {
    // The only collection that goes back to a compact encoding by itself: a table's cursor is used on a listpack.
    for seed in 0..40 {
        let mut scan = start(&KINDS[2], seed);
        (0..60).for_each(|i| scan.put(&format!("stay{i}")));
        let (cursor, first) = scan.call("0");
        let gone = scan.bench.run(scan.client, "SPOP c 50");
        assert_eq!(scan.bench.encoding("c"), "listpack");
        let mut all: BTreeSet<String> = first.into_iter().collect();
        let mut cursor = cursor;
        while cursor != "0" {
            let (next, elements) = scan.call(&cursor);
            all.extend(elements);
            cursor = next;
        }
        let gone: BTreeSet<&str> = gone.trim_matches(['[', ']', '~']).split(' ').collect();
        for i in 0..60 {
            let name = format!("stay{i}");
            assert!(gone.contains(name.as_str()) || all.contains(&name), "{seed}: {name}");
        }
    }
}
