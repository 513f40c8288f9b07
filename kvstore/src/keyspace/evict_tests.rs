use crate::testing::Bench;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Which of the keys `k0` to `k<n - 1>` are there.
fn left(bench: &mut Bench, n: usize) -> Vec<usize> {
    (0..n).filter(|i| bench.server().keyspace.keys(0).exists(format!("k{i}").as_bytes())).collect()
}

/// A server under a policy that draws all of a few keys.
fn bench(policy: &str) -> Bench {
    Bench::new(&[("maxmemory-policy", policy), ("maxmemory-samples", "64"), ("notify-keyspace-events", "KEA")])
}

#[test]
fn the_key_that_was_not_used_for_longest_goes_first() {
    for policy in ["allkeys-lru", "volatile-lru"] {
        let mut b = bench(policy);
        let c = b.client();
        for i in 0..10 {
            b.run(c, &format!("SET k{i} v EX 1000"));
            b.pass_ms(1_000);
        }
        b.run(c, "SET lasting v");
        // Looks that are no use, looks that are, and one of each kind of a client that leaves no trace.
        assert_eq!(b.run(c, "EXISTS k1"), "1");
        assert_eq!(b.run(c, "TYPE k2"), "string");
        assert_eq!(b.run(c, "GET k0"), "v");
        assert_eq!(b.run(c, "OBJECT IDLETIME k1"), "9");
        let quiet = b.client();
        b.run(quiet, "CLIENT NO-TOUCH on");
        assert_eq!(b.run(quiet, "GET k4"), "v");
        assert_eq!(b.run(quiet, "TOUCH k5"), "1");
        b.pass_ms(1_000);
        for _ in 0..4 {
            assert!(b.server().keyspace.evict_one());
        }
        assert_eq!(left(&mut b, 10), [0, 5, 6, 7, 8, 9], "{policy}");
    }
}

#[test]
fn the_key_that_is_used_least_goes_first() {
    for policy in ["allkeys-lfu", "volatile-lfu"] {
        let mut b = bench(policy);
        let c = b.client();
        b.run(c, "CONFIG SET lfu-log-factor 0");
        for i in 0..6 {
            b.run(c, &format!("SET k{i} v EX 1000"));
            (0..(i * 5) % 6).for_each(|_| drop(b.run(c, &format!("GET k{i}"))));
        }
        assert_eq!(b.run(c, "OBJECT FREQ k1"), "10");
        for gone in [0, 5, 4, 3] {
            assert!(b.server().keyspace.evict_one());
            assert!(!left(&mut b, 6).contains(&gone), "{policy}");
        }
    }
}

#[test]
fn the_key_whose_deadline_comes_first_goes_first() {
    let mut b = bench("volatile-ttl");
    let c = b.client();
    b.run(c, "SET lasting v");
    for i in 0..20 {
        b.run(c, &format!("SET k{i} v PX {}", 10_000 + i * 7 % 20));
    }
    for n in 0..20 {
        assert!(b.server().keyspace.evict_one());
        assert!(!left(&mut b, 20).contains(&(n * 3 % 20)));
    }
    assert!(!b.server().keyspace.evict_one(), "only keys with a deadline may go");
    assert_eq!(b.run(c, "DBSIZE"), "1");
}

#[test]
fn random_keys_of_all_databases_go() {
    for policy in ["allkeys-random", "volatile-random"] {
        let mut b = bench(policy);
        let c = b.client();
        for db in [0, 3, 9] {
            b.run(c, &format!("SELECT {db}"));
            (0..50).for_each(|i| drop(b.run(c, &format!("SET k{i} v EX 1000"))));
        }
        for _ in 0..60 {
            assert!(b.server().keyspace.evict_one());
        }
        for db in [0, 3, 9] {
            b.run(c, &format!("SELECT {db}"));
            assert_eq!(b.run(c, "DBSIZE"), "30", "{policy}");
        }
        assert_eq!(left(&mut b, 50).len(), 30);
        assert_ne!(left(&mut b, 50), (20..50).collect::<Vec<_>>());
    }
}

#[test]
fn who_is_concerned_is_told() {
    let mut b = bench("allkeys-lru");
    let (watcher, listener, reader) = (b.client(), b.client(), b.client());
    b.run(reader, "XADD k0 1-1 f v");
    b.run(reader, "XGROUP CREATE k0 g $");
    assert_eq!(b.run(reader, "XREADGROUP GROUP g c BLOCK 0 STREAMS k0 >"), "");
    b.run(watcher, "WATCH k0");
    b.run(listener, "PSUBSCRIBE __key*__:*");
    b.server().keyspace.effects_wanted = true;
    assert!(b.server().keyspace.evict_one());
    let effects: Vec<String> =
        b.server().keyspace.effects.iter().map(|e| format!("{:?}", e.args.args().get(0))).collect();
    assert_eq!(effects, [format!("{:?}", b"DEL")]);
    b.pass_ms(1);
    let heard = b.read(listener);
    assert!(heard.contains("__keyspace@0__:k0 evicted") && heard.contains("__keyevent@0__:evicted k0"), "{heard}");
    assert!(b.read(reader).starts_with("-NOGROUP"));
    b.run(watcher, "MULTI");
    b.run(watcher, "PING");
    assert!(b.run(watcher, "EXEC").ends_with("nil"));
    assert!(b.run(watcher, "INFO stats").contains("evicted_keys:1"));
}

#[test]
fn nothing_goes_without_a_policy() {
    let mut b = Bench::new(&[]);
    let c = b.client();
    b.run(c, "SET k0 v EX 100");
    assert!(!b.server().keyspace.evict_one());
    assert_eq!(b.run(c, "CONFIG SET maxmemory-policy allkeys-random"), "OK");
    assert!(b.server().keyspace.evict_one() && !b.server().keyspace.evict_one());
}
