//! Sessions as a whole: input in any pieces, output that nobody reads, work in bounded steps.

use crate::random::Rng;
use crate::session::Fate;
use crate::testing::Bench;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut r = format!("*{}\r\n", words.len()).into_bytes();
    for w in words {
        r.extend_from_slice(format!("${}\r\n", w.len()).as_bytes());
        r.extend_from_slice(w);
        r.extend_from_slice(b"\r\n");
    }
    r
}

/// A stream of commands, now and then with a large argument, an inline command, an error or rubbish.
fn stream(rng: &mut Rng, rubbish: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..rng.below(30) + 1 {
        let key = format!("k{}", rng.below(5));
        let key = key.as_bytes();
        let big = vec![b'x'; 30_000 + rng.below(20_000)];
        match rng.below(if rubbish { 14 } else { 11 }) {
            0 => bytes.extend(request(&[b"SET", key, &big])),
            1 => bytes.extend(request(&[b"GET", key])),
            2 => bytes.extend(request(&[b"APPEND", key, b"12345"])),
            3 => bytes.extend(request(&[b"MSET", key, &big, b"n", b"1", b"m", &big])),
            4 => bytes.extend(request(&[b"INCR", b"n"])),
            5 => bytes.extend_from_slice(b"PING \"a\\x41 b\"\r\n"),
            6 => bytes.extend_from_slice(b"\r\n*0\r\nECHO x\n"),
            7 => bytes.extend(request(&[b"NOSUCH", b"a"])),
            8 => bytes.extend(request(&[b"LPUSH", b"l", b"a", b"b"])),
            9 => bytes.extend(request(&[b"MULTI"])),
            10 => bytes.extend(request(&[b"EXEC"])),
            11 => bytes.extend((0..rng.below(200)).map(|_| rng.next_u64() as u8)),
            12 => bytes.extend_from_slice(b"*3\r\n$-5\r\n"),
            _ => bytes.extend_from_slice(b"*2\r\n:1\r\n"),
        }
    }
    bytes
}

/// What a fresh server answers to a stream in pieces of the sizes that `size` gives, and what becomes of the session.
fn play(bytes: &[u8], mut size: impl FnMut() -> usize) -> (Vec<u8>, Fate) {
    let mut bench = Bench::new(&[]);
    let client = bench.client();
    let (mut at, mut all) = (0, Vec::new());
    while at < bytes.len() {
        let n = size().min(bytes.len() - at);
        assert_eq!(bench.feed(client, &bytes[at..at + n]), n);
        all.extend(bench.read_raw(client));
        at += n;
    }
    (all, bench.server().fate(client))
}

#[test]
fn input_in_any_pieces_gives_the_same_output() {
    let mut rng = Rng::new(11);
    for round in 0..40 {
        let bytes = stream(&mut rng, round % 2 == 1);
        let whole = play(&bytes, || usize::MAX);
        for most in [bytes.len() / 2_000 + 3, 700, 50_000] {
            let mut sizes = rng.clone();
            assert!(play(&bytes, || sizes.below(most) + 1) == whole, "round {round}, pieces up to {most}");
        }
    }
}

#[test]
fn a_pipeline_is_answered_whole_before_anything_is_read() {
    let mut bench = Bench::new(&[]);
    let client = bench.client();
    bench.run_raw(client, &[b"SET", b"k", &[b'v'; 100]]);
    let batch: Vec<u8> = (0..1_000).flat_map(|_| request(&[b"GET", b"k"])).collect();
    for _ in 0..100 {
        assert_eq!(bench.feed(client, &batch), batch.len());
    }
    assert_eq!(bench.read_raw(client).len(), 100_000 * 108);
}

#[test]
fn output_beyond_a_quarter_of_memory_ends_the_session() {
    let mut bench = Bench::new(&[]);
    let (greedy, other) = (bench.client(), bench.client());
    bench.run_raw(greedy, &[b"SET", b"k", &[b'v'; 10_000]]);
    let batch: Vec<u8> = (0..1_000).flat_map(|_| request(&[b"GET", b"k"])).collect();
    // The bench has a gibibyte: a quarter is 26,800 such replies.
    for n in 0..28 {
        let open = bench.server().fate(greedy) == Fate::Open;
        assert!(open || n > 25, "closed after {n},000 replies");
        bench.feed(greedy, &batch);
    }
    assert_eq!(bench.server().fate(greedy), Fate::Abort);
    assert!(bench.server().output(greedy).is_empty());
    assert_eq!(bench.run(other, "PING"), "PONG");
}

#[test]
fn configured_output_limits_hold() {
    let mut bench = Bench::new(&[("client-output-buffer-limit", "normal 100000 50000 2")]);
    let (hard, soft) = (bench.client(), bench.client());
    bench.run_raw(hard, &[b"SET", b"k", &[b'v'; 10_000]]);
    let get = request(&[b"GET", b"k"]);
    for _ in 0..6 {
        bench.feed(hard, &get);
        bench.feed(soft, &get);
    }
    assert_eq!(bench.server().fate(hard), Fate::Open);
    for _ in 0..6 {
        bench.feed(hard, &get);
    }
    assert_eq!(bench.server().fate(hard), Fate::Abort);
    bench.pass_ms(1_500);
    assert_eq!(bench.server().fate(soft), Fate::Open);
    bench.pass_ms(1_500);
    bench.pass_ms(1_500);
    assert_eq!(bench.server().fate(soft), Fate::Abort);
}

#[test]
fn keys_that_expire_together_go_in_bounded_steps() {
    let mut bench = Bench::new(&[]);
    let client = bench.client();
    for i in 0..8_000 {
        bench.run(client, &format!("SET key{i} v PX {}", if i % 4 == 0 { 500_000 } else { 1_000 }));
    }
    assert_eq!(bench.run(client, "DBSIZE"), "8000");
    bench.pass_ms(500);
    assert_eq!(bench.run(client, "DBSIZE"), "8000");
    bench.pass_ms(600);
    let mut steps = 0;
    let mut before: usize = bench.run(client, "DBSIZE").parse().unwrap();
    while before > 2_000 {
        bench.server().tick();
        let now: usize = bench.run(client, "DBSIZE").parse().unwrap();
        assert!(before - now <= 1_024 + 224, "{} keys in one step", before - now);
        before = now;
        steps += 1;
        assert!(steps < 200, "{before} keys are left");
    }
    assert_eq!(before, 2_000);
    // Then there is nothing to do until the others' time comes.
    while bench.server().tick() <= 2_200_000 {}
    assert!(bench.server().tick() > 400_000_000);
    assert!(bench.run(client, "INFO keyspace").contains("keys=2000,expires=2000"));
}

#[test]
fn flushed_databases_and_large_values_are_freed_in_bounded_steps() {
    let mut bench = Bench::new(&[]);
    let client = bench.client();
    for i in 0..10_000 {
        bench.run(client, &format!("SADD set member{i}"));
        bench.run(client, &format!("SET key{i} v"));
    }
    bench.run(client, "DEL set");
    assert_eq!(bench.run(client, "FLUSHALL ASYNC"), "OK");
    let mut steps = 0;
    while !bench.server().keyspace.lazy.is_empty() {
        bench.server().tick();
        steps += 1;
    }
    assert!((5..100).contains(&steps), "{steps} steps");
}

#[test]
fn a_sleeping_engine_takes_no_input_and_wakes_by_itself() {
    let mut bench = Bench::new(&[("enable-debug-command", "yes")]);
    let (a, b) = (bench.client(), bench.client());
    assert_eq!(bench.run(a, "DEBUG SLEEP 1"), "");
    let ping = request(&[b"PING"]);
    assert_eq!(bench.server().feed(b, &ping), 0);
    let until = bench.server().tick();
    assert_eq!(until, 2_000_000);
    bench.pass_ms(1_000);
    let mut woken = Vec::new();
    while let Some(id) = bench.server().next_ready() {
        woken.push(id);
    }
    assert!(woken.contains(&a) && woken.contains(&b));
    assert_eq!(bench.read(a), "OK");
    assert_eq!(bench.server().feed(b, &ping), ping.len());
    assert_eq!(bench.read(b), "PONG");
}

#[test]
fn a_pause_holds_commands_back_and_carries_them_out_after() {
    let mut bench = Bench::new(&[]);
    let (a, b) = (bench.client(), bench.client());
    assert_eq!(bench.run(a, "CLIENT PAUSE 1000 WRITE"), "OK");
    assert_eq!(bench.run(b, "GET k"), "nil");
    assert_eq!(bench.run(b, "SET k v"), "");
    bench.feed(b, &request(&[b"GET", b"k"]));
    assert_eq!(bench.read(b), "");
    bench.pass_ms(1_001);
    bench.feed(b, &[]);
    assert_eq!(bench.read(b), "OK v");
}

#[test]
fn a_waiting_client_that_goes_leaves_no_trace() {
    let mut bench = Bench::new(&[]);
    let (a, b) = (bench.client(), bench.client());
    assert_eq!(bench.run(a, "BLPOP q 0"), "");
    bench.server().disconnect(a);
    assert_eq!(bench.run(b, "RPUSH q x"), "1");
    assert_eq!(bench.run(b, "LRANGE q 0 -1"), "[x]");
    let info: String = bench.run(b, "INFO clients");
    assert!(info.contains("blocked_clients:0") && info.contains("connected_clients:1"), "{info}");
}

#[test]
fn muted_replies_are_not_sent() {
    let mut bench = Bench::new(&[]);
    let c = bench.client();
    assert_eq!(bench.run(c, "CLIENT REPLY SKIP"), "");
    assert_eq!(bench.run(c, "PING"), "");
    assert_eq!(bench.run(c, "PING"), "PONG");
    assert_eq!(bench.run(c, "CLIENT REPLY OFF"), "");
    assert_eq!(bench.run(c, "SET k v"), "");
    assert_eq!(bench.run(c, "CLIENT REPLY ON"), "OK");
    assert_eq!(bench.run(c, "GET k"), "v");
}

#[test]
fn who_wants_no_replies_is_not_told_of_errors_in_the_protocol_either() {
    for (mode, told) in [("ON", true), ("SKIP", false), ("OFF", false)] {
        let mut bench = Bench::new(&[]);
        let c = bench.client();
        bench.run(c, &format!("CLIENT REPLY {mode}"));
        bench.feed(c, b"*1\r\n$x\r\n");
        assert_eq!(!bench.read(c).is_empty(), told, "{mode}");
        assert_eq!(bench.server().fate(c), Fate::CloseAfterOutput);
    }
}

#[test]
fn who_was_killed_hears_nothing_more() {
    let mut bench = Bench::new(&[]);
    let (c, listener, told, tracker) = (bench.client(), bench.client(), bench.client(), bench.client());
    bench.run(listener, "SUBSCRIBE c");
    bench.run(listener, "PSUBSCRIBE c*");
    assert_eq!(bench.run(c, "PUBLISH c 1"), "2");
    assert!(!bench.read_raw(listener).is_empty());
    bench.run(told, "HELLO 3");
    bench.run(tracker, "HELLO 3");
    let id = bench.run(told, "CLIENT ID");
    assert_eq!(bench.run(tracker, &format!("CLIENT TRACKING on REDIRECT {id}")), "OK");
    bench.run(tracker, "GET k");
    // All in one go: the connections are still there.
    assert_eq!(bench.run(c, "CLIENT KILL TYPE pubsub"), "1");
    assert_eq!(bench.run(c, "CLIENT KILL TYPE pubsub"), "0");
    assert_eq!(bench.run(c, "PUBLISH c 2"), "0");
    assert!(bench.read_raw(listener).is_empty());
    assert_eq!(bench.run(c, &format!("CLIENT KILL ID {id}")), "1");
    bench.run(c, "SET k v");
    assert!(bench.read(tracker).contains("tracking-redir-broken"));
    assert!(bench.read_raw(told).is_empty());
}
