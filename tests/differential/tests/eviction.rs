//! Which keys survive when memory is short: the same trace of accesses to Barium and to the reference, for every policy that
//! removes keys, with room for equally many. `ACCESSES` is the length of the trace (150,000 by default), `POLICY` a single
//! policy, `BARIUM_HOST` and `REDIS_SERVER` name the two programs.
//!
//! A client reads a key and, if it is not there, writes it. Keys are as popular as Zipf's law has it. Both servers are fed
//! in step, so that their clocks of accesses say the same.

use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use barium_differential::differences::Reference;
use barium_differential::server::Server;
use barium_differential::values::Draw;
use barium_differential::wire::{Command, Connection, Reply};

const POLICIES: [&str; 7] =
    ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"];
/// Accesses a key, keys that there are for one that fits, keys for one that counts as hot.
const ACCESSES_PER_KEY: usize = 5;
const KEYS_PER_PLACE: usize = 4;
const KEYS_PER_HOT: usize = 10;
/// Accesses that are sent at once: what waits to be sent or read must be little beside the keys.
const BATCH: usize = 100;
/// How often in a trace the memory is set anew, so that it is room for equally many keys all the time.
const CORRECTIONS: usize = 50;
/// Bytes about that a key takes.
const KEY_BYTES: i64 = 150;
/// Length of a trace whose result chance hardly moves any more.
const LONG: usize = 1_000_000;

/// Ranks of keys, the most popular 0, each drawn in proportion to 1 / (rank + 1).
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(keys: usize) -> Zipf {
        let mut sum = 0.0;
        Zipf((1..=keys).map(|rank| (sum += 1.0 / rank as f64, sum).1).collect())
    }

    fn draw(&self, draw: &mut Draw) -> usize {
        let point = draw.below(1 << 53) as f64 / (1u64 << 53) as f64 * self.0[self.0.len() - 1];
        self.0.partition_point(|&sum| sum <= point)
    }
}

fn words(text: &str) -> Command {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn key(number: usize) -> Vec<u8> {
    format!("key:{number:012}").into_bytes()
}

/// A server under test.
struct Side {
    name: &'static str,
    connection: Connection,
}

impl Side {
    fn all(&mut self, commands: &[Command]) -> io::Result<Vec<Reply>> {
        self.connection.send(commands)?;
        commands.iter().map(|_| self.connection.reply()).collect()
    }

    fn info(&mut self, field: &str) -> io::Result<usize> {
        let reply = self.connection.ask("INFO")?;
        let text = String::from_utf8_lossy(reply.text()).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse().ok()).ok_or(io::ErrorKind::InvalidData.into())
    }

    fn keys(&mut self) -> io::Result<usize> {
        let reply = self.connection.ask("DBSIZE")?;
        String::from_utf8_lossy(reply.text()).parse().map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Fills it with `places` keys that nobody asks for, and lets it have no more memory than that takes.
    fn prepare(&mut self, trace: &Trace) -> io::Result<()> {
        self.all(&[words("CONFIG SET maxmemory 0 maxmemory-policy noeviction"), words("FLUSHALL")])?;
        let fillers: Vec<usize> = (trace.keys..trace.keys + trace.places).collect();
        for numbers in fillers.chunks(BATCH) {
            let sets: Vec<Command> = numbers.iter().map(|&n| trace.set(n, n - trace.keys < trace.lasting)).collect();
            self.all(&sets)?;
        }
        let used = self.info("used_memory")?;
        let policy = format!("CONFIG SET maxmemory {used} maxmemory-policy {}", trace.policy);
        let replies = self.all(&[words(&policy)])?;
        assert!(!replies[0].is_error(), "{}: {:?}", self.name, replies[0]);
        Ok(())
    }

    /// Sets the memory so that as many keys fit as should: what a key takes changes as tables fill and empty.
    fn correct(&mut self, trace: &Trace) -> io::Result<()> {
        let missing = trace.places as i64 - self.keys()? as i64;
        let memory = self.info("maxmemory")? as i64 + missing * KEY_BYTES;
        self.all(&[words(&format!("CONFIG SET maxmemory {memory}"))]).map(drop)
    }

    /// Percent of the hot keys that are there.
    fn survivors(&mut self, trace: &Trace) -> io::Result<f64> {
        let hot: Vec<usize> = (0..trace.hot()).collect();
        let mut there = 0;
        for numbers in hot.chunks(BATCH) {
            let mut exists = words("EXISTS");
            exists.extend(numbers.iter().map(|&number| key(number)));
            let reply = &self.all(&[exists])?[0];
            there += String::from_utf8_lossy(reply.text()).parse::<usize>().expect("a count");
        }
        Ok(there as f64 * 100.0 / hot.len() as f64)
    }
}

/// What is played.
struct Trace {
    policy: &'static str,
    keys: usize,
    places: usize,
    /// Of the keys that nobody asks for, those that have no deadline, and so stay under a volatile policy.
    lasting: usize,
    value: Vec<u8>,
}

impl Trace {
    fn new(policy: &'static str, accesses: usize) -> Trace {
        let keys = accesses / ACCESSES_PER_KEY;
        let places = keys / KEYS_PER_PLACE;
        let lasting = if policy.starts_with("volatile") { places / 5 } else { 0 };
        Trace { policy, keys, places, lasting, value: vec![b'v'; 100] }
    }

    /// How many of the keys are hot; they are the first ones.
    fn hot(&self) -> usize {
        self.keys / KEYS_PER_HOT
    }

    /// The command that writes a key.
    fn set(&self, number: usize, lasting: bool) -> Command {
        let mut set = vec![b"SET".to_vec(), key(number), self.value.clone()];
        if self.policy.starts_with("volatile") && !lasting {
            // Deadlines that do not come in the time of the test; on the whole, hot keys have later ones.
            let noise = Draw::new(number as u64).below(10_000);
            let hot = if number < self.hot() { 4_000 } else { 0 };
            set.extend([b"EX".to_vec(), (10_000 + noise + hot).to_string().into_bytes()]);
        }
        set
    }

    /// Plays it on both servers in step; what survived of the hot keys on each, in percent.
    fn play(&self, sides: &mut [Side; 2], accesses: usize) -> io::Result<[f64; 2]> {
        for side in sides.iter_mut() {
            side.prepare(self)?;
        }
        let (zipf, mut draw) = (Zipf::new(self.keys), Draw::new(7));
        for batch in 0..accesses / BATCH {
            if batch.is_multiple_of(accesses / BATCH / CORRECTIONS) {
                for side in sides.iter_mut() {
                    side.correct(self)?;
                }
            }
            let numbers: Vec<usize> = (0..BATCH).map(|_| zipf.draw(&mut draw)).collect();
            let gets: Vec<Command> = numbers.iter().map(|&n| vec![b"GET".to_vec(), key(n)]).collect();
            for side in sides.iter_mut() {
                side.connection.send(&gets)?;
            }
            for side in sides.iter_mut() {
                let mut sets = Vec::new();
                for &number in &numbers {
                    if side.connection.reply()? == Reply::Bulk(b'$', None) {
                        sets.push(self.set(number, false));
                    }
                }
                let replies = side.all(&sets)?;
                let refused = replies.iter().find(|reply| reply.is_error());
                assert!(refused.is_none(), "{}: {refused:?}", side.name);
            }
        }
        let [ours, theirs] = sides;
        for side in [&mut *ours, &mut *theirs] {
            let keys = side.keys()?;
            let off = keys.abs_diff(self.places) as f64 / self.places as f64;
            assert!(off < 0.03, "{}: {keys} keys at the end, there is room for {}", side.name, self.places);
        }
        Ok([ours.survivors(self)?, theirs.survivors(self)?])
    }
}

#[test]
fn hot_keys_survive_as_they_do_on_the_reference() {
    let accesses = std::env::var("ACCESSES").ok().and_then(|n| n.parse().ok()).unwrap_or(150_000);
    let only = std::env::var("POLICY").unwrap_or_default();
    let barium = Server::barium().expect("barium-host");
    let reference = Server::reference(Reference::Redis).expect("redis-server").expect("redis-server");
    let side = |name, port| Side { name, connection: Connection::open(port).expect("connect") };
    let mut sides = [side("barium", barium.port), side("reference", reference.port)];
    // The fewer keys, the more is chance.
    let tolerance = if accesses >= LONG { 3.0 } else { 6.0 };
    let mut failed = Vec::new();
    for policy in POLICIES.into_iter().filter(|policy| only.is_empty() || *policy == only) {
        let started = Instant::now();
        let [ours, theirs] = Trace::new(policy, accesses).play(&mut sides, accesses).expect(policy);
        println!(
            "{policy}: {ours:.1} % of the hot keys survive, {theirs:.1} % on the reference ({:.0} s)",
            started.elapsed().as_secs_f64()
        );
        if (ours - theirs).abs() > tolerance {
            failed.push(policy);
        }
    }
    assert!(failed.is_empty(), "more than {tolerance} points apart: {failed:?}");
}

/// Keys that expire together, how soon all of them have to be gone, and how long an answer may take meanwhile. (What the
/// server does is far below; the rest is for machines that have other things to do.)
const EXPIRING: usize = 1_000_000;
const GONE_IN: Duration = Duration::from_secs(5);
const ANSWER_IN: Duration = Duration::from_secs(1);

#[test]
fn a_million_keys_that_nobody_reads_are_gone_in_five_seconds() {
    let barium = Server::barium().expect("barium-host");
    let mut side = Side { name: "barium", connection: Connection::open(barium.port).expect("connect") };
    // They are made while nothing is removed, with a deadline that has passed when the last is there.
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() + 2_000;
    for first in (0..EXPIRING).step_by(1_000) {
        let set = |n| vec![b"SET".to_vec(), key(n), b"v".to_vec(), b"PXAT".to_vec(), unix.to_string().into_bytes()];
        let sets: Vec<Command> = (first..first + 1_000).map(set).collect();
        side.all(&sets).expect("replies");
    }
    std::thread::sleep(Duration::from_secs(2));
    let made = side.keys().expect("a count");
    side.all(&[words("DEBUG SET-ACTIVE-EXPIRE 1")]).expect("a reply");
    let (started, mut slowest) = (Instant::now(), Duration::ZERO);
    while side.keys().expect("a count") > 0 {
        let asked = Instant::now();
        assert_eq!(side.connection.ask("PING").expect("an answer").text(), b"PONG");
        slowest = slowest.max(asked.elapsed());
        assert!(started.elapsed() < GONE_IN, "{} keys are left", side.keys().unwrap_or(0));
    }
    println!("{made} expired keys gone in {:?}, answers in {slowest:?} at most", started.elapsed());
    assert!(slowest < ANSWER_IN);
}
