//! A server without a network, for tests of commands: lines in, readable replies out.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::machine::{Identity, Machine};
use crate::server::{Server, Setup};
use crate::session::{ClientId, Endpoint};
use crate::value::ItemExt;

/// What a reading of the clock takes, in ns: so long does every command that is timed by itself.
pub const READING_NS: u64 = 1_500;

#[derive(Default)]
struct Fixed(AtomicU64);

impl Machine for Fixed {
    fn used_memory(&self) -> usize {
        1 << 20
    }
    fn peak_memory(&self) -> usize {
        1 << 20
    }
    fn resident_memory(&self) -> usize {
        2 << 20
    }
    fn total_memory(&self) -> usize {
        1 << 30
    }
    /// Every reading takes a while.
    fn monotonic_ns(&self) -> u64 {
        self.0.fetch_add(READING_NS, Ordering::Relaxed)
    }
    fn fill_random(&self, out: &mut [u8]) {
        out.iter_mut().zip(1..).for_each(|(byte, n)| *byte = n);
    }
}

/// A server with sessions.
pub struct Bench {
    server: Server,
    now_us: u64,
}

/// Monotonic time at the start, in us; Unix time is this much later than 2026-01-01.
const START_US: u64 = 1_000_000;
const EPOCH_US: i64 = 1_767_225_600_000_000;

impl Bench {
    /// A server with some parameters set.
    pub fn new(config: &[(&str, &str)]) -> Self {
        let server = Server::new(Setup {
            machine: Box::new(Fixed::default()),
            identity: Identity { os: "test".to_string(), arch_bits: 64, port: 1, cpus: 1 },
            seed: 7,
            config,
            now_us: START_US,
            unix_us: EPOCH_US + START_US as i64,
        });
        Self { server: server.unwrap_or_else(|e| panic!("{}", e.text())), now_us: START_US }
    }

    /// A new session.
    pub fn client(&mut self) -> ClientId {
        let end = Endpoint { addr: [127, 0, 0, 1], port: 1 };
        self.server.connect(end, end).unwrap()
    }

    /// Lets time go by.
    pub fn pass_ms(&mut self, ms: u64) {
        self.now_us += ms * 1000;
        self.server.set_time(self.now_us, EPOCH_US + self.now_us as i64);
        self.server.tick();
    }

    /// Sends a command, words separated by single spaces (`''` is an empty one), and returns what the session has to read
    /// then: nothing, if it waits.
    pub fn run(&mut self, client: ClientId, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(|w| if w == "''" { &[] } else { w.as_bytes() }).collect();
        self.send(client, &words);
        self.read(client)
    }

    /// Sends a command of any bytes and returns what the session has to read then, as it is.
    pub fn run_raw(&mut self, client: ClientId, words: &[&[u8]]) -> Vec<u8> {
        self.send(client, words);
        self.read_raw(client)
    }

    fn send(&mut self, client: ClientId, words: &[&[u8]]) {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        let taken = self.server.feed(client, &request);
        assert_eq!(taken, request.len());
    }

    /// Feeds bytes as they are and then serves whoever wants input; returns how many were taken.
    pub fn feed(&mut self, client: ClientId, bytes: &[u8]) -> usize {
        let taken = self.server.feed(client, bytes);
        while let Some(id) = self.server.next_ready() {
            self.server.feed(id, &[]);
        }
        taken
    }

    /// The server itself.
    pub const fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    /// What a session has to read.
    pub fn read(&mut self, client: ClientId) -> String {
        let raw = self.read_raw(client);
        let mut replies = Vec::new();
        let mut at = 0;
        while at < raw.len() {
            replies.push(readable(&raw, &mut at));
        }
        replies.join(" ")
    }

    /// What a session has to read, as it is.
    pub fn read_raw(&mut self, client: ClientId) -> Vec<u8> {
        let mut raw = Vec::new();
        loop {
            let piece = self.server.output(client).to_vec();
            if piece.is_empty() {
                break;
            }
            self.server.sent(client, piece.len());
            raw.extend_from_slice(&piece);
        }
        raw
    }

    /// The name of the encoding of a key in database 0.
    pub fn encoding(&mut self, key: &str) -> &'static str {
        self.server.keyspace.keys(0).peek(key.as_bytes()).map_or("none", ItemExt::encoding)
    }
}

fn readable(raw: &[u8], at: &mut usize) -> String {
    let end = *at + raw[*at..].windows(2).position(|w| w == b"\r\n").unwrap();
    let (kind, head) = (raw[*at], String::from_utf8_lossy(&raw[*at + 1..end]).into_owned());
    *at = end + 2;
    let mut several = |n: usize| {
        let parts: Vec<String> = (0..n).map(|_| readable(raw, at)).collect();
        parts.join(" ")
    };
    match (kind, head.as_str()) {
        (b'-', text) => format!("-{text}"),
        (b'$' | b'*', "-1") | (b'_', _) => "nil".to_string(),
        (b'$', len) => {
            let len: usize = len.parse().unwrap();
            let text = String::from_utf8_lossy(&raw[*at..*at + len]).into_owned();
            *at += len + 2;
            text
        }
        (b'*', n) => format!("[{}]", several(n.parse().unwrap())),
        (b'~', n) => format!("~[{}]", several(n.parse().unwrap())),
        (b'>', n) => format!(">[{}]", several(n.parse().unwrap())),
        (b'%', n) => format!("{{{}}}", several(n.parse::<usize>().unwrap() * 2)),
        (_, text) => text.to_string(),
    }
}
