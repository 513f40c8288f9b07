//! Tests of the list commands: what the comparison with a real server cannot show, and the rules of encodings.

use crate::testing::Bench;

#[test]
fn encodings_follow_the_limit_both_ways() {
    let mut b = Bench::new(&[("list-max-listpack-size", "4")]);
    let c = b.client();
    b.run(c, "RPUSH l 1 2 3 4");
    assert_eq!(b.encoding("l"), "listpack");
    b.run(c, "LINSERT l BEFORE none x");
    assert_eq!(b.encoding("l"), "quicklist", "made ready before the pivot is looked for");
    b.run(c, "RPOP l");
    assert_eq!(b.encoding("l"), "quicklist");
    b.run(c, "RPOP l");
    assert_eq!(b.encoding("l"), "listpack", "half the limit");
    b.run(c, "RPUSH l 3 4");
    assert_eq!(b.run(c, "RPOPLPUSH l l"), "4");
    assert_eq!(b.encoding("l"), "listpack", "never more than four at once");
    b.run(c, "RPUSH l 5");
    assert_eq!((b.encoding("l"), b.run(c, "LTRIM l 0 1").as_str()), ("quicklist", "OK"));
    assert_eq!(b.encoding("l"), "listpack");
}

#[test]
fn events_come_in_redis_order() {
    let mut b = Bench::new(&[("notify-keyspace-events", "El$g")]);
    let (c, events) = (b.client(), b.client());
    b.run(events, "PSUBSCRIBE *");
    let mut check = |line: &str, expected: &[&str]| {
        b.run(c, line);
        let got = b.read(events);
        let names: alloc::vec::Vec<&str> =
            got.split(' ').filter(|w| w.starts_with("__key")).map(|w| w.rsplit(':').next().unwrap_or("")).collect();
        assert_eq!(names, expected, "{line}");
    };
    check("RPUSH l a b c", &["rpush"]);
    check("LMOVE l m LEFT RIGHT", &["rpush", "lpop"]);
    check("RPOPLPUSH m l", &["lpush", "rpop", "del"]);
    check("LREM l 0 none", &[]);
    check("LREM l 0 a", &["lrem"]);
    check("LTRIM l 5 6", &["ltrim", "del"]);
    check("LPUSHX l a", &[]);
    check("RPUSH l a", &["rpush"]);
    check("LMPOP 2 none l LEFT COUNT 9", &["lpop", "del"]);
}

#[test]
fn a_long_range_spans_chunks_and_kinds_of_elements() {
    let mut b = Bench::new(&[]);
    let c = b.client();
    let mut expected = alloc::vec::Vec::new();
    for i in 0..5000usize {
        let element = match i % 50 {
            0 => "x".repeat(i),
            1 => alloc::format!("{}", i * 1_000_000_007),
            2 => "y".repeat(64),
            _ => alloc::format!("e{i}"),
        };
        if !element.is_empty() {
            b.run(c, &alloc::format!("RPUSH l {element}"));
            expected.push(element);
        }
    }
    assert_eq!(b.run(c, "LRANGE l 0 -1"), alloc::format!("[{}]", expected.join(" ")));
    assert_eq!(b.run(c, "LRANGE l 1234 1300"), alloc::format!("[{}]", expected[1234..1301].join(" ")));
    expected.reverse();
    assert_eq!(b.run(c, "RPOP l 70"), alloc::format!("[{}]", expected[..70].join(" ")));
}

#[test]
fn counts_are_checked_before_the_key() {
    let mut b = Bench::new(&[]);
    let c = b.client();
    assert_eq!(b.run(c, "LPOP l 1 2"), "-ERR wrong number of arguments for 'lpop' command");
    assert_eq!(b.run(c, "LPOP l x"), "-ERR value is out of range, must be positive");
    assert_eq!(b.run(c, "LPOP l 0"), "nil");
    b.run(c, "RPUSH l a");
    assert_eq!(b.run(c, "LPOP l 0"), "[]");
    assert_eq!(b.run(c, "LMPOP 1 l LEFT COUNT 0"), "-ERR count should be greater than 0");
    assert_eq!(b.run(c, "LMPOP 2 l LEFT"), "-ERR syntax error");
    assert_eq!(b.run(c, "LSET none 0 x"), "-ERR no such key");
}
