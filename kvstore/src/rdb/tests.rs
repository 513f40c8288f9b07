//! Payloads of a real Redis, and damage.

use alloc::format;
use alloc::vec::Vec;

use super::load::{Limits, Loaded, value, verified};
use crate::table::Hashing;
use crate::testing::Bench;
use crate::types::hash::HashLimits;
use crate::types::list::NodeLimit;
use crate::types::set::SetLimits;
use crate::types::zset::ZSetLimits;
use crate::value::{ItemExt, Value};

fn limits() -> Limits {
    let hashing = Hashing::new(3);
    Limits {
        list: NodeLimit::new(-2),
        hash: HashLimits { listpack_entries: 128, listpack_value: 64, hashing },
        set: SetLimits { intset_entries: 512, listpack_entries: 128, listpack_value: 64, hashing },
        zset: ZSetLimits { listpack_entries: 128, listpack_value: 64, hashing },
    }
}

/// Type, encoding and elements of a payload given in hexadecimal.
fn describe(hex: &str) -> Option<alloc::string::String> {
    let bytes: Vec<u8> = (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
    Some(match value(verified(&bytes)?, &limits()).ok()? {
        Loaded::Str(text) => format!("string {}", alloc::string::String::from_utf8_lossy(&text)),
        Loaded::Item(item) => {
            let elements: Vec<Vec<u8>> = match item.value() {
                Value::Set(v) => v.iter().map(|e| e.to_vec()).collect(),
                Value::Hash(v) => v.iter().flat_map(|(f, v)| [f.to_vec(), v.to_vec()]).collect(),
                Value::ZSet(v) => {
                    let all = v.iter(0..usize::MAX, false);
                    all.flat_map(|(m, s)| [m.to_vec(), format!("{s}").into_bytes()]).collect()
                }
                Value::List(v) => v.iter().map(|e| e.to_vec()).collect(),
                _ => Vec::new(),
            };
            let text = alloc::string::String::from_utf8_lossy(&elements.join(&b' ')).into_owned();
            format!("{} {} {}", item.type_of().name(), item.encoding(), text)
        }
    })
}

#[test]
fn payloads_of_redis_are_read() {
    for (payload, expected) in [
        // 8.0
        ("000568656c6c6f0b000aad620598abc983", "string hello"),
        // 8.0
        ("00c0fb0b00201b7b872ab9d6e1", "string -5"),
        // 8.0
        ("00c2701101000b00687bb58d68af7c2c", "string 70000"),
        // 8.0
        (
            "00c30a407802616261e06a010161620b00db57cdffae98ff5b",
            "string abababababababababababababababababababababababababababababababababababababababababababababababababababababababababababab",
        ),
        // 8.0
        ("1201020f0f00000003008161020101816202ff0b00f99c1e3f1611f295", "list listpack a 1 b"),
        // 8.0
        ("0b14040000000300000090eefeff01000000030000000b0060d1513a5bcfa401", "set intset -70000 1 3"),
        // 8.0
        ("140f0f00000003008178020101817902ff0b00f4771a255b746420", "set listpack x 1 y"),
        // 8.0
        ("10121200000004008166028176028167020c01ff0b00b7cc84e00a1c68f7", "hash listpack f v g 12"),
        // 8.0
        (
            "111d1d0000000600816302842d696e6605816102010181620283322e3504ff0b00504d8ee81c80dbb4",
            "zset listpack c -inf a 1 b 2.5",
        ),
        // 8.0
        (
            "04010166c3094046017676e039000176760b009bc44779ff6d9d15",
            "hash hashtable f vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv",
        ),
        // 8.0
        (
            "0201c3094046016d6de03900016d6d0b001b92997b4c84801d",
            "set hashtable mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm",
        ),
        // 8.0
        (
            "0501c3094046016d6de03900016d6d000000000000f83f0b00b853298de32f2664",
            "zset skiplist mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm 1.5",
        ),
        // 7.0
        ("000568656c6c6f0a006372df766534200a", "string hello"),
        // 7.0
        ("00c0fb0a0049c4c6f4d7263f68", "string -5"),
        // 7.0
        ("00c2701101000a0001a408fe953095a5", "string 70000"),
        // 7.0
        (
            "00c30a407802616261e06a010161620a00b288708c530716d2",
            "string abababababababababababababababababababababababababababababababababababababababababababababababababababababababababababab",
        ),
        // 7.0
        ("1201020f0f00000003008161020101816202ff0a009043a34ceb8e1b1c", "list listpack a 1 b"),
        // 7.0
        ("0b14040000000300000090eefeff01000000030000000a00090eec49a6504d88", "set intset -70000 1 3"),
        // 7.0
        ("10121200000004008166028176028167020c01ff0a00de133993f783817e", "hash listpack f v g 12"),
        // 7.0
        (
            "111d1d0000000600816302842d696e6605816102010181620283322e3504ff0a003992339be11f323d",
            "zset listpack c -inf a 1 b 2.5",
        ),
        // 7.0
        (
            "04010166c3094046017676e039000176760a00f21bfa0a02f2749c",
            "hash hashtable f vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv",
        ),
        // 7.0
        (
            "0201c3094046016d6de03900016d6d0a00724d2408b11b6994",
            "set hashtable mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm",
        ),
        // 7.0
        (
            "0501c3094046016d6de03900016d6d000000000000f83f0a00d18c94fe1eb0cfed",
            "zset skiplist mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm 1.5",
        ),
        // 6.2: a list, a hash and a sorted set of ziplists
        (
            "0e01409d9d000000990000000b0000016103f102fd02feff03c07fff04f070110105f000ee8505d00000004006e000000000000100000a40647979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797967017aff0900763652c670880819",
            "list listpack a 0 12 -1 -129 70000 -8000000 1073741824 1099511627776 yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy z",
        ),
        ("0a10100000000d000000020000017103f6ff0900be262cac98290c53", "list listpack q 5"),
        ("0d161600000012000000040000016603f2020167030177ff09004d2f1a45df0997ab", "hash listpack f 1 g w"),
        ("0c181800000012000000040000016d03f202016e0303322e35ff0900ad1a9b4cf5537b4f", "zset listpack m 1 n 2.5"),
        ("0102016101620900e25ac1b2818579f4", "list listpack a b"),
        ("03020161ff016204332e32350900483576c0069cb31f", "zset listpack a -inf b 3.25"),
    ] {
        assert_eq!(describe(payload).as_deref(), Some(expected), "{payload}");
    }
}

#[test]
fn payloads_survive_the_way_there_and_back() {
    let mut b = Bench::new(&[("list-max-listpack-size", "4")]);
    let c = b.client();
    for line in [
        "SET s hello",
        "SET n 123456",
        "SET long xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "RPUSH l a 1 b 2",
        "RPUSH ql 1 2 3 4 5 6 7 8 9",
        "SADD is 1 2 300000",
        "SADD ls a b 1",
        "HSET h a 1 b 2",
        "ZADD z 1 a 2.5 b -inf c",
    ] {
        b.run(c, line);
    }
    for key in ["s", "n", "long", "l", "ql", "is", "ls", "h", "z"] {
        let payload = b.run_raw(c, &[b"DUMP", key.as_bytes()]);
        let start = payload.iter().position(|&x| x == b'\n').unwrap() + 1;
        let payload = &payload[start..payload.len() - 2];
        assert_eq!(b.run_raw(c, &[b"RESTORE", b"copy", b"0", payload, b"REPLACE"]), b"+OK\r\n", "{key}");
        assert_eq!(b.encoding("copy"), b.encoding(key));
        assert_eq!(b.run_raw(c, &[b"DUMP", b"copy"])[start..], b.run_raw(c, &[b"DUMP", key.as_bytes()])[start..]);
        assert!(b.run_raw(c, &[b"RESTORE", b"copy", b"0", payload]).starts_with(b"-BUSYKEY"));
        // Damage anywhere is noticed, and with the checksum put right again it is at least no panic.
        for i in 0..payload.len() {
            let mut bad = payload.to_vec();
            bad[i] ^= 1 << (i % 8);
            assert!(verified(&bad).is_none());
            let body = bad.len() - 10;
            let _ = value(&bad[..body], &limits());
            let _ = value(&bad[..i.min(body)], &limits());
        }
    }
    assert_eq!(b.run(c, "RESTORE x 0 junk"), "-ERR DUMP payload version or checksum are wrong");
    assert_eq!(b.run(c, "RESTORE x -1 junk"), "-ERR Invalid TTL value, must be >= 0");
    assert_eq!(b.run(c, "RESTORE x 0 junk FREQ 256"), "-ERR Invalid FREQ value, must be >= 0 and <= 255");
    assert_eq!(b.run(c, "RESTORE x 0 junk IDLETIME 1 FREQ 1"), "-ERR syntax error");
    assert_eq!(b.run(c, "DUMP none"), "nil");
}
