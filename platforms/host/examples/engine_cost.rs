//! Feeds the engine pipelines of one kind of request, without sockets: for instruction counts under callgrind.
//!
//! usage: `valgrind --tool=callgrind engine_cost COMMAND ROUNDS DEPTH KEYS`, with COMMAND get, set, incr, ping, mset, lpush,
//! lpop, hset, sadd, spop or lrange. Prints how many requests were served; the difference of two runs with different ROUNDS is their cost.

use barium_heap::host::ProcessHeap;
use barium_kvstore::machine::{Identity, Machine};
use barium_kvstore::server::{Server, Setup};
use barium_kvstore::session::{ClientId, Endpoint};

#[global_allocator]
static HEAP: ProcessHeap = ProcessHeap::new();

struct Still;

impl Machine for Still {
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
        1 << 30
    }
    fn monotonic_ns(&self) -> u64 {
        1_000
    }
    fn fill_random(&self, out: &mut [u8]) {
        out.fill(1);
    }
}

fn request(words: &[&str]) -> Vec<u8> {
    let mut r = format!("*{}\r\n", words.len());
    words.iter().for_each(|w| r += &format!("${}\r\n{w}\r\n", w.len()));
    r.into_bytes()
}

fn feed(server: &mut Server, id: ClientId, bytes: &[u8]) -> usize {
    assert_eq!(server.feed(id, bytes), bytes.len());
    let mut sent = 0;
    loop {
        let n = server.output(id).len();
        if n == 0 {
            return sent;
        }
        server.sent(id, n);
        sent += n;
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize, default: usize| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let kind = args.get(1).map_or("get", String::as_str);
    let (rounds, depth, keys) = (number(2, 1000), number(3, 16), number(4, 1));
    let mut server = Server::new(Setup {
        machine: Box::new(Still),
        identity: Identity { os: "host".into(), arch_bits: 64, port: 1, cpus: 1 },
        seed: 1,
        config: &[("maxmemory", "1gb")],
        now_us: 1,
        unix_us: 1_700_000_000_000_000,
    })
    .unwrap_or_else(|e| panic!("{}", e.text()));
    let end = Endpoint { addr: [127, 0, 0, 1], port: 1 };
    let id = server.connect(end, end).expect("a free slot");
    for k in 0..keys {
        feed(&mut server, id, &request(&["SET", &format!("key:{k:012}"), "xxx"]));
    }
    for k in 0..600 {
        feed(&mut server, id, &request(&["RPUSH", "mylist", &format!("el{k}")]));
    }
    let batches: Vec<Vec<u8>> = (0..keys.clamp(1, 4096))
        .map(|b| {
            let mut all = Vec::new();
            for d in 0..depth {
                let key = format!("key:{:012}", (b * depth + d).wrapping_mul(7919) % keys);
                all.extend(match kind {
                    "get" => request(&["GET", &key]),
                    "set" => request(&["SET", &key, "xxx"]),
                    "incr" => request(&["INCR", &format!("counter:{key}")]),
                    "ping" => request(&["PING"]),
                    "lpush" => request(&["LPUSH", "pushed", "xxx"]),
                    "lpop" => request(&["LPOP", "mylist"]),
                    "hset" => request(&["HSET", "myhash", &format!("field:{key}"), "xxx"]),
                    "sadd" => request(&["SADD", "myset", &format!("element:{key}")]),
                    "spop" => request(&["SPOP", "myset"]),
                    "lrange" => request(&["LRANGE", "mylist", "0", "599"]),
                    "mset" => {
                        let mut words = vec!["MSET"];
                        (0..10).for_each(|_| words.extend([key.as_str(), "xxx"]));
                        request(&words)
                    }
                    other => panic!("{other}: not a kind of request"),
                });
            }
            all
        })
        .collect();
    let mut bytes = 0;
    for r in 0..rounds {
        bytes += feed(&mut server, id, &batches[r % batches.len()]);
    }
    println!("{} requests, {bytes} bytes of replies", rounds * depth);
}
