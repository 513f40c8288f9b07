//! RESTORE of any payload with a right checksum; what it made is used in every way, and dumped.
#![no_main]

use barium_fuzz::host::{Host, payload};
use barium_fuzz::input::Input;
use libfuzzer_sys::fuzz_target;

/// What is done with a value, `k`; all of it on every type.
const USES: &[&str] = &[
    "type k",
    "object encoding k",
    "memory usage k",
    "get k",
    "append k x",
    "setrange k 3 yy",
    "getrange k 0 -1",
    "bitcount k",
    "pfcount k",
    "pfadd k a b c",
    "pfmerge other k",
    "lrange k 0 -1",
    "lpos k a",
    "linsert k before a b",
    "lset k 0 z",
    "lset k -1 12",
    "rpush k 1",
    "lpush k abc",
    "lindex k 2",
    "ltrim k 1 -2",
    "lrem k 0 1",
    "smembers k",
    "sadd k 5 x",
    "srem k 5",
    "spop k",
    "srandmember k 5",
    "sscan k 0 count 100",
    "hgetall k",
    "hset k f v",
    "hincrby k f 1",
    "hdel k f",
    "hrandfield k -3 withvalues",
    "hscan k 0",
    "zrange k 0 -1 withscores",
    "zadd k 1 m",
    "zadd k xx inf a",
    "zincrby k 1.5 m",
    "zrank k m",
    "zrangebyscore k -inf +inf limit 1 3",
    "zrangebylex k - +",
    "zremrangebyrank k 0 0",
    "zpopmin k",
    "zrandmember k -4 withscores",
    "xrange k - +",
    "xrevrange k + - count 3",
    "xinfo stream k full",
    "xinfo groups k",
    "xadd k * f v",
    "xtrim k minid 5",
    "xdel k 0-1 1-1",
    "xgroup create k g0 0",
    "xreadgroup group g0 c streams k >",
    "xautoclaim k g0 c2 0 0",
    "xpending k g0",
    "xack k g0 1-1",
    "xtrim k maxlen 1",
    "sort k alpha",
    "copy k other replace",
    "rename k k2",
    "copy k2 k",
];

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let mut host = Host::new(1);
    let choice = input.byte();
    if choice & 1 != 0 {
        // Smaller than usual, so that conversions are near.
        for (name, value) in [
            ("hash-max-listpack-entries", "4"),
            ("set-max-listpack-entries", "4"),
            ("set-max-intset-entries", "3"),
            ("zset-max-listpack-entries", "4"),
            ("list-max-listpack-size", "3"),
        ] {
            host.command(0, &[b"config", b"set", name.as_bytes(), value.as_bytes()]);
        }
    }
    let mut dump = payload(input.0);
    if choice == 0xFF {
        dump = input.0.to_vec();
    }
    let reply = host.ask(0, &[b"restore", b"k", b"0", &dump]);
    if reply == b"+OK\r\n" {
        host.check_values();
        for line in USES {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            host.command(0, &words);
        }
    }
    // It came after what `finish` compares with.
    drop((dump, reply));
    host.finish();
});
