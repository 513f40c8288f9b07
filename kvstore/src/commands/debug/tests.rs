use crate::session::{ClientId, Endpoint};
use crate::testing::Bench;
use alloc::format;
use alloc::string::ToString;

fn bench() -> (Bench, ClientId) {
    let mut bench = Bench::new(&[("enable-debug-command", "yes")]);
    let client = bench.client();
    (bench, client)
}

#[test]
fn only_those_whom_the_configuration_names_may_use_it() {
    let mut bench = Bench::new(&[]);
    let c = bench.client();
    assert!(bench.run(c, "DEBUG DIGEST").starts_with("-ERR DEBUG command not allowed."));
    // Refused when it is queued, so that the transaction fails.
    bench.run(c, "MULTI");
    assert!(bench.run(c, "DEBUG DIGEST").starts_with("-ERR DEBUG command not allowed."));
    assert!(bench.run(c, "EXEC").starts_with("-EXECABORT"));
    let mut bench = Bench::new(&[("enable-debug-command", "local")]);
    let near = bench.client();
    assert_eq!(bench.run(near, "DEBUG SET-ACTIVE-EXPIRE 1"), "OK");
    let (peer, local) = (Endpoint { addr: [10, 0, 2, 2], port: 9 }, Endpoint { addr: [10, 0, 2, 15], port: 1 });
    let far = bench.server().connect(peer, local).unwrap();
    assert!(bench.run(far, "DEBUG SET-ACTIVE-EXPIRE 1").starts_with("-ERR DEBUG command not allowed."));
}

#[test]
fn populate_makes_keys_in_steps_and_leaves_those_that_are_there() {
    let (mut bench, c) = bench();
    let other = bench.client();
    assert_eq!(bench.run(c, "SET key:7 mine"), "OK");
    assert_eq!(bench.run(c, "DEBUG POPULATE 10000"), "");
    assert_eq!(bench.run(other, "DBSIZE"), "2048");
    assert_eq!(bench.run(other, "GET key:2047"), "value:2047");
    let mut steps = 0;
    let reply = loop {
        let before: usize = bench.run(other, "DBSIZE").parse().unwrap();
        bench.server().tick();
        steps += 1;
        let now: usize = bench.run(other, "DBSIZE").parse().unwrap();
        assert!(now - before <= 2_048 && steps < 10);
        let reply = bench.read(c);
        if !reply.is_empty() {
            break reply;
        }
    };
    assert_eq!((reply.as_str(), steps), ("OK", 4));
    assert_eq!(bench.run(c, "DBSIZE"), "10000");
    assert_eq!(bench.run(c, "GET key:7"), "mine");
    assert_eq!(bench.run(c, "DEBUG POPULATE 2 other 9"), "OK");
    assert_eq!(bench.run_raw(c, &[b"GET", b"other:1"]), b"$9\r\nvalue:1\0\0\r\n");
    assert_eq!(bench.run(c, "DEBUG POPULATE 1 short 3"), "OK");
    assert_eq!(bench.run(c, "GET short:0"), "val");
    assert_eq!(bench.run(c, "DEBUG POPULATE -1"), "-ERR value is out of range, must be positive");
    assert_eq!(bench.run(c, "DEBUG POPULATE 1 key x"), "-ERR value is out of range, must be positive");
    bench.run(c, "MULTI");
    bench.run(c, "DEBUG POPULATE 5000 in");
    assert_eq!(bench.run(c, "EXEC"), "[OK]");
    // What does not fit is an error, and what was made stays.
    assert_eq!(bench.run(c, "DEBUG POPULATE 3 big 2000000000").split(' ').next(), Some("-OOM"));
}

#[test]
fn populating_ends_with_its_client() {
    let (mut bench, c) = bench();
    let other = bench.client();
    assert_eq!(bench.run(c, "DEBUG POPULATE 100000"), "");
    bench.server().disconnect(c);
    bench.pass_ms(1);
    bench.pass_ms(1);
    assert!(bench.run(other, "DBSIZE").parse::<usize>().unwrap() <= 3 * 2_048);
    assert!(bench.server().core.jobs.is_empty());
}

#[test]
fn object_tells_how_a_value_lies() {
    let (mut bench, c) = bench();
    bench.run(c, "SET s 12345");
    let line = bench.run(c, "DEBUG OBJECT s");
    assert!(
        line.starts_with("Value at:0x") && line.contains(" refcount:1 encoding:int serializedlength:3 lru:"),
        "{line}"
    );
    assert!(!bench.run(c, "DEBUG OBJECT s fast").contains("serializedlength"));
    bench.run(c, "CONFIG SET list-max-listpack-size 2");
    bench.run(c, "RPUSH l a b c");
    let line = bench.run(c, "DEBUG OBJECT l");
    // redis-server's line ends so, too.
    let end =
        " lru_seconds_idle:0 ql_nodes:2 ql_avg_node:1.50 ql_listpack_max:2 ql_compressed:0 ql_uncompressed_size:23";
    assert!(line.contains(" encoding:quicklist serializedlength:28 lru:") && line.ends_with(end), "{line}");
    assert_eq!(bench.run(c, "DEBUG OBJECT nokey"), "-ERR no such key");
    assert_eq!(bench.run(c, "DEBUG LISTPACK s"), "-ERR Not a listpack encoded object.");
    bench.run(c, "HSET h f 1");
    assert_eq!(bench.run(c, "DEBUG LISTPACK h"), "Listpack structure printed on stdout");
}

#[test]
fn elements_from_the_packed_threshold_on_get_nodes_of_their_own() {
    let (mut bench, c) = bench();
    bench.run(c, "CONFIG SET list-max-listpack-size 4");
    assert_eq!(bench.run(c, "DEBUG QUICKLIST-PACKED-THRESHOLD 5b"), "OK");
    // Another parameter's change leaves it alone.
    bench.run(c, "CONFIG SET maxclients 50");
    bench.run(c, "RPUSH l a b c d e 12345 67890");
    assert!(bench.run(c, "DEBUG OBJECT l").contains("ql_nodes:4"), "{}", bench.run(c, "DEBUG OBJECT l"));
    assert_eq!(bench.run(c, "DEBUG QUICKLIST-PACKED-THRESHOLD 0"), "OK");
    bench.run(c, "RPUSH l 12345 67890");
    assert!(bench.run(c, "DEBUG OBJECT l").contains("ql_nodes:5"));
    for wrong in ["5gb", "x", "-1"] {
        let error = "-ERR argument must be a memory value bigger than 1 and smaller than 4gb";
        assert_eq!(bench.run(c, &format!("DEBUG QUICKLIST-PACKED-THRESHOLD {wrong}")), error);
    }
}

#[test]
fn reply_buffers_are_kept_and_peaks_forgotten_as_told() {
    let (mut bench, c) = bench();
    let other = bench.client();
    let field = |bench: &mut Bench, name: &str| {
        let list = bench.run(other, "CLIENT LIST ID 1");
        list.split(name).nth(1).unwrap().split(' ').next().unwrap().parse::<usize>().unwrap()
    };
    bench.run_raw(c, &[b"ECHO", &[b'x'; 3_000]]);
    assert_eq!((field(&mut bench, " rbs="), field(&mut bench, " rbp=")), (0, 3_009));
    assert_eq!(bench.run(c, "DEBUG REPLYBUFFER RESIZING 0"), "OK");
    assert!(field(&mut bench, " rbs=") > 0);
    bench.pass_ms(5_001);
    bench.run(c, "PING");
    assert_eq!(field(&mut bench, " rbp="), 7);
    assert_eq!(bench.run(c, "DEBUG REPLYBUFFER PEAK-RESET-TIME 100"), "OK");
    bench.run_raw(c, &[b"ECHO", &[b'x'; 3_000]]);
    bench.pass_ms(101);
    bench.run(c, "PING");
    assert_eq!(field(&mut bench, " rbp="), 7);
    assert_eq!(bench.run(c, "DEBUG REPLYBUFFER PEAK-RESET-TIME never"), "OK");
    bench.run_raw(c, &[b"ECHO", &[b'x'; 3_000]]);
    bench.pass_ms(60_000);
    bench.run(c, "PING");
    assert_eq!(field(&mut bench, " rbp="), 3_009);
    assert!(
        bench
            .run(c, "DEBUG REPLYBUFFER X 1")
            .starts_with("-ERR unknown subcommand or wrong number of arguments for 'REPLYBUFFER'")
    );
}

#[test]
fn small_things() {
    let (mut bench, c) = bench();
    assert_eq!(bench.run(c, "DEBUG ERROR MYERR"), "-MYERR");
    assert_eq!(bench.run(c, "DEBUG LOG hello"), "OK");
    let id =
        |bench: &mut Bench| bench.run(c, "INFO replication").split("master_replid:").nth(1).unwrap()[..40].to_string();
    let before = id(&mut bench);
    assert_eq!(bench.run(c, "DEBUG CHANGE-REPL-ID"), "OK");
    assert_ne!(id(&mut bench), before);
    assert_eq!(bench.run(c, "DEBUG SET-DISABLE-DENY-SCRIPTS 1"), "OK");
    assert!(bench.server().core.scripts_unrestricted);
    assert_eq!(
        bench.run(c, "DEBUG JMAP"),
        "-ERR unknown subcommand or wrong number of arguments for 'JMAP'. Try DEBUG HELP."
    );
}

#[test]
fn sdslen_tells_what_the_bytes_take() {
    let (mut bench, c) = bench();
    bench.run(c, "SET b hello");
    let line = bench.run(c, "DEBUG SDSLEN b");
    assert!(line.starts_with("key_sds_len:1, key_sds_avail:0, key_zmalloc: "), "{line}");
    assert!(line.ends_with(", val_sds_len:5, val_sds_avail:0, val_zmalloc: 5"), "{line}");
    bench.run(c, "SET i 12");
    bench.run(c, "LPUSH l x");
    for key in ["i", "l"] {
        assert_eq!(bench.run(c, &format!("DEBUG SDSLEN {key}")), "-ERR Not an sds encoded string.");
    }
    assert_eq!(bench.run(c, "DEBUG SDSLEN nosuch"), "-ERR no such key");
}
