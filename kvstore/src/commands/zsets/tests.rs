//! Tests of the sorted-set commands: the rules of encodings, events, waiting; replies are compared with a real server's
//! by the differential test.

use alloc::format;

use crate::testing::Bench;

#[test]
fn options_of_zadd() {
    let mut b = Bench::new(&[]);
    let c = b.client();
    assert_eq!(b.run(c, "ZADD z 1 a 2 b"), "2");
    assert_eq!(b.run(c, "ZADD z NX 5 a 3 c"), "1");
    assert_eq!(b.run(c, "ZADD z XX CH 5 a 4 d"), "1");
    assert_eq!(b.run(c, "ZADD z GT CH 4 a 9 b"), "1");
    assert_eq!(b.run(c, "ZADD z LT CH 4 a 10 b 1 e"), "2");
    assert_eq!(b.run(c, "ZRANGE z 0 -1 WITHSCORES"), "[e 1 c 3 a 4 b 9]");
    assert_eq!(b.run(c, "ZADD z INCR 1.5 a"), "5.5");
    assert_eq!(b.run(c, "ZADD z GT INCR -1 a"), "nil");
    assert_eq!(b.run(c, "ZADD z 1 a x b"), "-ERR value is not a valid float");
    assert_eq!(b.run(c, "ZADD new XX 1 a"), "0");
    assert_eq!(b.run(c, "EXISTS new"), "0");
    b.run(c, "ZADD z inf a");
    assert_eq!(b.run(c, "ZINCRBY z -inf a"), "-ERR resulting score is not a number (NaN)");
}

#[test]
fn encodings_follow_the_limits() {
    let mut b = Bench::new(&[("zset-max-listpack-entries", "4"), ("zset-max-listpack-value", "8")]);
    let c = b.client();
    b.run(c, "ZADD z 1 a 2 b 3 c 4 d");
    assert_eq!(b.encoding("z"), "listpack");
    b.run(c, "ZADD z 5 e");
    assert_eq!(b.encoding("z"), "skiplist");
    b.run(c, "ZADD many 1 a 1 a 1 a 1 a 1 a");
    assert_eq!(b.encoding("many"), "skiplist", "what is given counts");
    b.run(c, "ZADD long 1 123456789");
    assert_eq!(b.encoding("long"), "skiplist");
    assert_eq!(b.run(c, "ZRANGESTORE few z 0 2"), "3");
    assert_eq!(b.encoding("few"), "listpack");
    assert_eq!(b.run(c, "ZUNIONSTORE all 2 z long"), "6");
    assert_eq!(b.encoding("all"), "skiplist");
    assert_eq!(b.run(c, "ZDIFFSTORE rest 2 z few"), "2");
    assert_eq!(b.encoding("rest"), "listpack", "a result that fits");
}

#[test]
fn large_sets_answer_as_small_ones() {
    let mut b = Bench::new(&[]);
    let c = b.client();
    for i in 0..1_000 {
        b.run(c, &format!("ZADD big {} m{i:03}", i / 2));
    }
    assert_eq!(b.run(c, "ZRANK big m500"), "500");
    assert_eq!(b.run(c, "ZREVRANK big m500 WITHSCORE"), "[499 250]");
    assert_eq!(b.run(c, "ZCOUNT big (10 20"), "20");
    assert_eq!(b.run(c, "ZRANGE big 11 (10 BYSCORE REV LIMIT 1 5"), "[m022]");
    assert_eq!(b.run(c, "ZREVRANGE big 0 1 WITHSCORES"), "[m999 499 m998 499]");
    assert_eq!(b.run(c, "ZPOPMAX big 2"), "[m999 499 m998 499]");
    assert_eq!(b.run(c, "ZREMRANGEBYRANK big 10 -1"), "988");
    assert_eq!(b.run(c, "ZREMRANGEBYSCORE big -inf (4"), "8");
    assert_eq!(b.run(c, "ZRANGE big 0 -1"), "[m008 m009]");
    assert_eq!(b.run(c, "ZREM big m008 m009 m008"), "2");
    assert_eq!(b.run(c, "EXISTS big"), "0");
}

#[test]
fn sums_of_infinities_and_negative_zero() {
    let mut b = Bench::new(&[]);
    let c = b.client();
    b.run(c, "ZADD x inf a 0 b");
    b.run(c, "ZADD y -inf a 2 b");
    assert_eq!(b.run(c, "ZUNION 2 x y WITHSCORES"), "[a 0 b 2]");
    assert_eq!(b.run(c, "ZINTER 2 x y WEIGHTS 0 1 AGGREGATE MIN WITHSCORES"), "[a -inf b 0]", "inf * 0 counts as 0");
    assert_eq!(b.run(c, "ZUNION 1 x WEIGHTS -1 WITHSCORES"), "[a -inf b -0]");
    b.run(c, "SADD s a q");
    assert_eq!(b.run(c, "ZUNION 2 s x WITHSCORES"), "[b 0 q 1 a inf]");
    assert_eq!(b.run(c, "ZINTERCARD 2 s x LIMIT 1"), "1");
}

#[test]
fn a_pop_waits_for_a_set() {
    let mut b = Bench::new(&[]);
    let (first, second, c) = (b.client(), b.client(), b.client());
    assert_eq!(b.run(first, "BZPOPMIN z other 0"), "");
    assert_eq!(b.run(second, "BZMPOP 0 1 z MAX COUNT 5"), "");
    b.run(c, "SET z string");
    assert_eq!(b.read(first), "");
    b.run(c, "DEL z");
    assert_eq!(b.run(c, "ZADD z 1 a 2 b 3 c"), "3");
    assert_eq!(b.read(first), "[z a 1]");
    assert_eq!(b.read(second), "[z [[c 3] [b 2]]]");
    assert_eq!(b.run(c, "EXISTS z"), "0");
    assert_eq!(b.run(first, "BZPOPMAX z 0.1"), "");
    b.pass_ms(200);
    assert_eq!(b.read(first), "nil");
    b.run(c, "MULTI");
    b.run(c, "BZPOPMIN z 0");
    assert_eq!(b.run(c, "EXEC"), "[nil]");
}

#[test]
fn events_name_what_happened() {
    let mut b = Bench::new(&[("notify-keyspace-events", "Ezg")]);
    let (c, events) = (b.client(), b.client());
    b.run(events, "PSUBSCRIBE *");
    let mut check = |line: &str, expected: &[&str]| {
        b.run(c, line);
        let got = b.read(events);
        let names: alloc::vec::Vec<&str> =
            got.split(' ').filter(|w| w.starts_with("__key")).map(|w| w.rsplit(':').next().unwrap_or("")).collect();
        assert_eq!(names, expected, "{line}");
    };
    check("ZADD z 1 a 2 b 3 c 4 d", &["zadd"]);
    check("ZADD z 1 a", &[]);
    check("ZINCRBY z 1 a", &["zincr"]);
    check("ZPOPMIN z", &["zpopmin"]);
    check("ZRANGESTORE y z 0 0", &["zrangestore"]);
    check("ZRANGESTORE y z 9 9", &["del"]);
    check("ZINTERSTORE y 1 z", &["zinterstore"]);
    check("ZREM y nobody", &[]);
    check("ZREMRANGEBYRANK y 0 -1", &["zremrangebyrank", "del"]);
    check("ZMPOP 2 y z MAX COUNT 9", &["zpopmax", "del"]);
}

#[test]
fn a_scan_returns_every_member() {
    let mut b = Bench::new(&[("zset-max-listpack-entries", "0")]);
    let c = b.client();
    for i in 0..300 {
        b.run(c, &format!("ZADD z {i} m{i}"));
    }
    let mut seen = alloc::collections::BTreeSet::new();
    let mut cursor = alloc::string::String::from("0");
    loop {
        let reply = b.run(c, &format!("ZSCAN z {cursor} COUNT 7"));
        let words: alloc::vec::Vec<&str> = reply.split(['[', ']', ' ']).filter(|w| !w.is_empty()).collect();
        cursor = words[0].into();
        assert!(words.len() <= 2 * 7 + 1);
        seen.extend(words[1..].iter().step_by(2).map(|w| alloc::string::String::from(*w)));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 300);
}
