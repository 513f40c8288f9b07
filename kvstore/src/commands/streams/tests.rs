use alloc::string::String;

use crate::testing::Bench;

#[test]
fn entries_come_back_in_ranges() {
    let mut b = Bench::new(&[("stream-node-max-entries", "2")]);
    let c = b.client();
    assert_eq!(b.run(c, "XADD s 1-1 a 1"), "1-1");
    assert_eq!(b.run(c, "XADD s 1-* a 2 b 3"), "1-2");
    assert_eq!(b.run(c, "XADD s MAXLEN = 9 7 a 4"), "7-0");
    assert_eq!(b.run(c, "XADD s * a 5"), "1767225601000-0");
    assert_eq!(b.run(c, "XADD s * a 6"), "1767225601000-1");
    assert_eq!(b.run(c, "XRANGE s - (7-0 COUNT 5"), "[[1-1 [a 1]] [1-2 [a 2 b 3]]]");
    assert_eq!(b.run(c, "XREVRANGE s 7 1-2"), "[[7-0 [a 4]] [1-2 [a 2 b 3]]]");
    assert_eq!(b.run(c, "XRANGE s (7-0 7"), "[]");
    assert_eq!(b.run(c, "XRANGE s - + COUNT 0"), "nil");
    assert_eq!(b.run(c, "XDEL s 1-1 1-9"), "1");
    assert_eq!(b.run(c, "XTRIM s MAXLEN 1"), "3");
    assert_eq!((b.run(c, "XLEN s"), b.run(c, "TYPE s"), b.encoding("s")), ("1".into(), "stream".into(), "stream"));
    assert_eq!(b.run(c, "XTRIM s MAXLEN 0"), "1");
    assert_eq!(b.run(c, "EXISTS s"), "1");
    assert_eq!(b.run(c, "XADD none NOMKSTREAM * a 1"), "nil");
    assert_eq!(b.run(c, "SCAN 0 TYPE stream"), "[0 [s]]");
}

#[test]
fn errors_are_redis_s() {
    let mut b = Bench::new(&[]);
    let c = b.client();
    b.run(c, "XADD s 5-5 a 1");
    for (line, error) in [
        ("XADD s 5-5 a 1", "-ERR The ID specified in XADD is equal or smaller than the target stream top item"),
        ("XADD s 0-0 a 1", "-ERR The ID specified in XADD must be greater than 0-0"),
        ("XADD s x a 1", "-ERR Invalid stream ID specified as stream command argument"),
        ("XADD s * a 1 b", "-ERR wrong number of arguments for 'xadd' command"),
        ("XADD s LIMIT 5 * a 1", "-ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"),
        ("XTRIM s MAXLEN 5 LIMIT 5", "-ERR syntax error, LIMIT cannot be used without the special ~ option"),
        (
            "XREAD STREAMS s t 0",
            "-ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified.",
        ),
        (
            "XREAD GROUP g c STREAMS s 0",
            "-ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
        ),
        ("XSETID s 5-4", "-ERR The ID specified in XSETID is smaller than the target stream top item"),
        ("XGROUP SETID s g 0", "-NOGROUP No such consumer group 'g' for key name 's'"),
        (
            "XGROUP CREATE s g 0 X",
            "-ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP.",
        ),
        ("XCLAIM s g c 0 5-5", "-NOGROUP No such key 's' or consumer group 'g'"),
        ("XRANGE s (18446744073709551615-18446744073709551615 +", "-ERR invalid start ID for the interval"),
    ] {
        assert_eq!(b.run(c, line), error, "{line}");
    }
    b.run(c, "XADD s 18446744073709551615-18446744073709551615 a 1");
    let full = "-ERR The stream has exhausted the last possible ID, unable to add more items";
    assert_eq!(b.run(c, "XADD s * a 1"), full);
}

#[test]
fn readers_wait_for_what_comes() {
    let mut b = Bench::new(&[]);
    let (reader, writer) = (b.client(), b.client());
    b.run(writer, "XADD s 1-1 a 1");
    assert_eq!(b.run(reader, "XREAD BLOCK 0 STREAMS s t $ 0"), "");
    assert_eq!(b.run(writer, "XADD s 1-2 a 2"), "1-2");
    assert_eq!(b.read(reader), "[[s [[1-2 [a 2]]]]]");
    assert_eq!(b.run(reader, "XREAD BLOCK 100 STREAMS s $"), "");
    b.run(writer, "DEL s");
    b.pass_ms(200);
    assert_eq!(b.read(reader), "nil");
    assert_eq!(b.run(reader, "XREAD BLOCK -1 STREAMS s $"), "-ERR timeout is negative");
    b.run(reader, "MULTI");
    b.run(reader, "XREAD BLOCK 0 STREAMS s $");
    assert_eq!(b.run(reader, "EXEC"), "[nil]");
}

#[test]
fn readers_of_a_group_are_told_when_it_goes() {
    let mut b = Bench::new(&[]);
    let (one, two, writer) = (b.client(), b.client(), b.client());
    b.run(writer, "XGROUP CREATE s g $ MKSTREAM");
    let read = "XREADGROUP GROUP g c BLOCK 0 COUNT 1 STREAMS s >";
    let gone = "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option";
    assert_eq!((b.run(one, read), b.run(two, read)), (String::new(), String::new()));
    b.run(writer, "XADD s 1-1 a 1");
    assert_eq!((b.read(one), b.read(two)), ("[[s [[1-1 [a 1]]]]]".into(), String::new()));
    assert_eq!(b.run(writer, "XGROUP DESTROY s g"), "1");
    assert_eq!(b.read(two), gone);
    for way in ["DEL s", "SET s x", "RENAME s other"] {
        b.run(writer, "DEL s");
        b.run(writer, "XGROUP CREATE s g $ MKSTREAM");
        assert_eq!(b.run(two, read), "");
        b.run(writer, way);
        let want = if way.starts_with("SET") { "-WRONGTYPE" } else { gone };
        assert!(b.read(two).starts_with(want), "{way}");
    }
}

#[test]
fn groups_keep_what_was_not_acknowledged() {
    let mut b = Bench::new(&[]);
    let c = b.client();
    for i in 1..=4 {
        b.run(c, &alloc::format!("XADD s {i} a {i}"));
    }
    assert_eq!(b.run(c, "XGROUP CREATE s g 0"), "OK");
    assert_eq!(b.run(c, "XGROUP CREATE s g 0"), "-BUSYGROUP Consumer Group name already exists");
    assert_eq!(b.run(c, "XREADGROUP GROUP g x COUNT 3 STREAMS s >"), "[[s [[1-0 [a 1]] [2-0 [a 2]] [3-0 [a 3]]]]]");
    b.pass_ms(50);
    assert_eq!(b.run(c, "XACK s g 1 9"), "1");
    assert_eq!(b.run(c, "XPENDING s g"), "[2 2-0 3-0 [[x 2]]]");
    assert_eq!(b.run(c, "XPENDING s g IDLE 50 - + 9"), "[[2-0 x 50 1] [3-0 x 50 1]]");
    b.run(c, "XDEL s 2");
    assert_eq!(b.run(c, "XREADGROUP GROUP g x STREAMS s 0"), "[[s [[2-0 nil] [3-0 [a 3]]]]]");
    assert_eq!(b.run(c, "XAUTOCLAIM s g y 0 -"), "[0-0 [[3-0 [a 3]]] [2-0]]");
    assert_eq!(b.run(c, "XCLAIM s g z 0 3 4 JUSTID FORCE"), "[3-0 4-0]");
    assert_eq!(b.run(c, "XPENDING s g - + 9 z"), "[[3-0 z 0 3] [4-0 z 0 1]]");
    assert_eq!(
        b.run(c, "XINFO GROUPS s"),
        "[[name g consumers 3 pending 2 last-delivered-id 3-0 entries-read 3 lag 1]]"
    );
    assert_eq!(b.run(c, "XGROUP DELCONSUMER s g z"), "2");
    assert_eq!(b.run(c, "XPENDING s g"), "[0 nil nil nil]");
    assert_eq!(b.run(c, "COPY s t"), "1");
    assert_eq!(b.run(c, "XINFO CONSUMERS t g"), b.run(c, "XINFO CONSUMERS s g"));
}

#[test]
fn a_group_s_own_state_is_no_change_of_the_stream() {
    let mut b = Bench::new(&[("notify-keyspace-events", "Kt")]);
    let (watcher, other, listener) = (b.client(), b.client(), b.client());
    b.run(listener, "PSUBSCRIBE *");
    b.run(other, "XADD s 1 a 1");
    b.run(watcher, "WATCH s");
    b.run(other, "XGROUP CREATE s g 0");
    b.run(other, "XREADGROUP GROUP g c STREAMS s >");
    b.run(other, "XACK s g 1");
    b.run(watcher, "MULTI");
    assert_eq!(b.run(watcher, "XLEN s"), "QUEUED");
    assert_eq!(b.run(watcher, "EXEC"), "[1]");
    b.run(other, "XADD s MAXLEN 1 2 a 2");
    let events = b.read(listener);
    for event in ["xadd", "xgroup-create", "xgroup-createconsumer", "xtrim"] {
        assert!(events.contains(event), "{event}: {events}");
    }
}

#[test]
fn a_stream_survives_dump_and_restore() {
    let mut b = Bench::new(&[("stream-node-max-entries", "3")]);
    let c = b.client();
    for i in 1..=10 {
        b.run(c, &alloc::format!("XADD s {i} a {i} f{} x", i % 2));
    }
    b.run(c, "XDEL s 4 5");
    b.run(c, "XGROUP CREATE s g 2 ENTRIESREAD 2");
    b.run(c, "XREADGROUP GROUP g c COUNT 4 STREAMS s >");
    let dump = b.run_raw(c, &[b"DUMP", b"s"]);
    let start = dump.windows(2).position(|w| w == b"\r\n").unwrap() + 2;
    let payload = &dump[start..dump.len() - 2];
    assert_eq!(b.run_raw(c, &[b"RESTORE", b"t", b"0", payload]), b"+OK\r\n");
    assert_eq!(b.run(c, "XINFO STREAM s FULL COUNT 0"), b.run(c, "XINFO STREAM t FULL COUNT 0"));
    // No byte can be changed without being noticed (the checksum is made right again).
    for at in 0..payload.len() - 10 {
        let mut broken = payload[..payload.len() - 8].to_vec();
        broken[at] ^= 1 << (at % 8);
        broken.extend(crate::rdb::crc64::crc64(0, &broken).to_le_bytes());
        b.run_raw(c, &[b"RESTORE", b"u", b"0", &broken, b"REPLACE"]);
        for line in ["XINFO STREAM u FULL COUNT 0", "XREVRANGE u + -", "XTRIM u MAXLEN 3", "XADD u * a 1", "XDEL u 7"] {
            b.run(c, line);
        }
    }
}
