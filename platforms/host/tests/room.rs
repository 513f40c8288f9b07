//! Eviction and expiry with memory as it really is: the engine on this process's heap, its clock in the test's hands.

use barium_heap::host::ProcessHeap;
use barium_kvstore::machine::{Identity, Machine};
use barium_kvstore::server::{Server, Setup};
use barium_kvstore::session::{ClientId, Endpoint};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[global_allocator]
static HEAP: ProcessHeap = ProcessHeap::new();

/// Tests measure the memory of the process: one at a time.
static TURN: Mutex<()> = Mutex::new(());

struct Measured;

impl Machine for Measured {
    fn used_memory(&self) -> usize {
        HEAP.used()
    }
    fn peak_memory(&self) -> usize {
        0
    }
    fn resident_memory(&self) -> usize {
        0
    }
    fn total_memory(&self) -> usize {
        4 << 30
    }
    fn monotonic_ns(&self) -> u64 {
        1
    }
    fn fill_random(&self, out: &mut [u8]) {
        out.fill(7);
    }
}

/// Monotonic time at the start, in us, and Unix time then.
const START_US: u64 = 1_000_000;
const EPOCH_US: i64 = 1_767_225_600_000_000;

struct Bench {
    server: Server,
    id: ClientId,
    now_us: u64,
    _turn: MutexGuard<'static, ()>,
}

impl Bench {
    fn new(config: &[(&str, &str)]) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let setup = Setup {
            machine: Box::new(Measured),
            identity: Identity { os: "host".into(), arch_bits: 64, port: 1, cpus: 1 },
            seed: 1,
            config,
            now_us: START_US,
            unix_us: EPOCH_US,
        };
        let mut server = Server::new(setup).unwrap_or_else(|e| panic!("{}", e.text()));
        let end = Endpoint { addr: [127, 0, 0, 1], port: 1 };
        let id = server.connect(end, end).expect("a free slot");
        Bench { server, id, now_us: START_US, _turn: turn }
    }

    fn ask(&mut self, line: &str) -> String {
        let mut request = line.as_bytes().to_vec();
        request.extend_from_slice(b"\r\n");
        assert_eq!(self.server.feed(self.id, &request), request.len());
        let mut reply = Vec::new();
        loop {
            let piece = self.server.output(self.id).to_vec();
            if piece.is_empty() {
                return String::from_utf8_lossy(&reply).trim_end().into();
            }
            self.server.sent(self.id, piece.len());
            reply.extend_from_slice(&piece);
        }
    }

    fn info(&mut self, field: &str) -> u64 {
        let info = self.ask("INFO everything");
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.and_then(|v| v.trim().parse().ok()).unwrap_or_else(|| panic!("{field} in {info}"))
    }

    fn keys(&mut self) -> usize {
        self.ask("DBSIZE").trim_start_matches(':').parse().expect("a number")
    }

    fn pass_ms(&mut self, ms: u64) {
        self.now_us += ms * 1_000;
        self.server.set_time(self.now_us, EPOCH_US + (self.now_us - START_US) as i64);
    }

    /// Whether there is more to do at once.
    fn tick(&mut self) -> bool {
        self.server.tick() <= self.now_us
    }

    /// Lets it have so much more memory than it uses.
    fn limit(&mut self, more: usize) {
        let max = HEAP.used() + more;
        assert_eq!(self.ask(&format!("CONFIG SET maxmemory {max}")), "+OK");
    }
}

const MIB: usize = 1 << 20;

#[test]
fn writes_go_on_at_the_limit_and_memory_stays_below_it() {
    for policy in [
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
    ] {
        let mut b = Bench::new(&[("maxmemory-policy", policy)]);
        b.limit(2 * MIB);
        let max = b.info("maxmemory");
        for i in 0..40_000 {
            assert_eq!(b.ask(&format!("SET key{i} {:0100} EX 1000", i)), "+OK", "{policy}");
            if i % 1_000 == 0 {
                b.pass_ms(100);
                b.tick();
                assert!(HEAP.used() as u64 <= max + 64 * 1024, "{policy}: {} of {max}", HEAP.used());
            }
        }
        let keys = b.keys();
        assert!(keys > 8_000 && b.info("evicted_keys") as usize == 40_000 - keys, "{policy}: {keys}");
        assert_eq!(
            b.info("errorstat_OOM:count=0".split(':').next().map_or("", |_| "current_eviction_exceeded_time")),
            0
        );
    }
}

#[test]
fn keys_without_a_deadline_stay_and_then_nothing_can_go() {
    let mut b = Bench::new(&[("maxmemory-policy", "volatile-lru")]);
    b.limit(MIB);
    (0..1_000).for_each(|i| drop(b.ask(&format!("SET gone{i} v EX 100"))));
    let mut kept = 0;
    while b.ask(&format!("SET kept{kept} {:0100}", 0)) == "+OK" {
        kept += 1;
    }
    assert!(kept > 4_000, "{kept}");
    assert_eq!(b.keys(), kept);
    assert_eq!(b.info("evicted_keys"), 1_000);
    let refused = "-OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(b.ask("SET more v"), refused);
    // Time over the limit is counted, and what needs no memory goes on; so does a transaction, but for its queue.
    b.pass_ms(500);
    assert!(!b.tick());
    assert_eq!(b.info("current_eviction_exceeded_time"), 500);
    assert_eq!(b.ask("GET kept0").len(), 106);
    assert_eq!(b.ask("MULTI"), "+OK");
    assert_eq!(b.ask("GET kept0"), refused);
    assert_eq!(b.ask("DISCARD"), "+OK");
    assert_eq!(b.ask("CONFIG SET maxmemory 0"), "+OK");
    b.tick();
    assert_eq!((b.info("current_eviction_exceeded_time"), b.info("total_eviction_exceeded_time")), (0, 500));
}

#[test]
fn a_lower_limit_is_reached_in_bounded_steps() {
    for (tenacity, most) in [(0, 16), (10, 160), (30, 2_700), (100, 4_096)] {
        let mut b = Bench::new(&[("maxmemory-policy", "allkeys-lru")]);
        b.limit(64 * MIB);
        (0..20_000).for_each(|i| drop(b.ask(&format!("SET key{i} {:0100}", i))));
        b.ask("SADD big 1 2 3");
        b.ask(&format!("CONFIG SET maxmemory-eviction-tenacity {tenacity}"));
        let goal = HEAP.used() - MIB;
        assert_eq!(b.ask(&format!("CONFIG SET maxmemory {goal}")), "+OK");
        let (mut before, mut steps) = (b.keys(), 0);
        while b.tick() {
            // Who reads, and who writes, goes on meanwhile.
            assert_eq!(b.ask("PING"), "+PONG");
            if steps == 0 {
                assert_eq!(b.ask("SET new v"), "+OK");
            }
            let now = b.keys();
            assert!(before <= now + 2 * most + 1, "{} at once", before - now);
            (before, steps) = (now, steps + 1);
        }
        assert!(HEAP.used() <= goal + 4_096, "{} of {goal}", HEAP.used());
        assert!(b.keys() > 10_000 && steps >= 7_000 / (2 * most), "{} keys, {steps} steps", b.keys());
    }
}

#[test]
fn a_large_value_makes_room_before_other_keys_go() {
    let mut b = Bench::new(&[("maxmemory-policy", "volatile-lru")]);
    b.limit(64 * MIB);
    for i in 0..200 {
        let members: Vec<String> = (0..100).map(|j| format!("member{}", i * 100 + j)).collect();
        b.ask(&format!("SADD big {}", members.join(" ")));
    }
    b.ask("EXPIRE big 1000");
    (0..1_000).for_each(|i| drop(b.ask(&format!("SET key{i} v"))));
    b.limit(0);
    (1_000..1_500).for_each(|i| assert_eq!(b.ask(&format!("SET key{i} v")), "+OK"));
    while b.tick() {}
    assert_eq!((b.ask("EXISTS big"), b.keys()), (":0".into(), 1_500));
}

/// Fills databases with keys that expire together at 10 s.
fn fill(b: &mut Bench, keys: usize) {
    for i in 0..keys {
        if i % (keys / 2) == 0 {
            b.ask(&format!("SELECT {}", i / (keys / 2)));
        }
        b.ask(&format!("SET key{i} v PXAT {}", EPOCH_US / 1_000 + 10_000));
    }
    b.ask("SELECT 0");
}

#[test]
fn a_million_keys_that_expire_together_are_gone_in_five_seconds() {
    let mut b = Bench::new(&[]);
    // A debug build takes its time to fill; what is counted is the same.
    let keys = if cfg!(debug_assertions) { 200_000 } else { 1_000_000 };
    fill(&mut b, keys);
    b.pass_ms(9_000);
    assert!(!b.tick());
    b.pass_ms(1_001);
    let (begin, mut steps, mut before) = (Instant::now(), 0, 0);
    while b.tick() {
        assert_eq!(b.ask("PING"), "+PONG");
        let expired = b.info("expired_keys") as usize;
        assert!(expired - before <= 1_024 + 224, "{} in one step", expired - before);
        (before, steps) = (expired, steps + 1);
    }
    // (Each second database's keys are looked for by the same steps.)
    assert_eq!((b.info("expired_keys") as usize, b.keys()), (keys, 0));
    assert!(steps < keys / 1_024 * 2 + 20, "{steps} steps");
    assert!(begin.elapsed().as_secs_f64() < 5.0, "{:?}", begin.elapsed());
    assert!(b.info("expired_time_cap_reached_count") > 0);
}

#[test]
fn keys_that_expire_all_the_time_cost_a_bounded_share() {
    let mut b = Bench::new(&[]);
    // Twenty keys a millisecond, spread over all segments.
    for i in 0..60_000 {
        b.ask(&format!("SET key{i} v PXAT {}", EPOCH_US / 1_000 + 1_000 + i / 20));
    }
    let mut late = 0;
    for ms in 0..4_500 {
        b.pass_ms(1);
        let mut steps = 0;
        while b.tick() {
            steps += 1;
        }
        assert!(steps < 60, "{steps} steps at once");
        let due = (ms as usize).clamp(1_000, 4_000) - 1_000;
        late = late.max((due * 20).saturating_sub(b.server.keyspace.stats.expired as usize));
    }
    // A tenth of a second's keys are late at most, and those of the round itself.
    assert!(late <= 20 * 150, "{late} keys were late");
    assert_eq!(b.keys(), 0);
}
