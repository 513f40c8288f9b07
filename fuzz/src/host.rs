//! An engine with sessions and no network, under a heap that ends where the guest's would.

use barium_kvstore::links::LinkError;
use barium_kvstore::machine::{Identity, Machine};
use barium_kvstore::rdb::crc64::crc64;
use barium_kvstore::rdb::load::{self, Limits, Loaded};
use barium_kvstore::rdb::{self, save};
use barium_kvstore::server::{Server, Setup};
use barium_kvstore::session::{ClientId, Endpoint, Fate};
use barium_kvstore::value::{ItemExt, Type};
use cap::Cap;
use std::alloc::System;

use crate::{generate, resp};

/// Bytes that the engine may use.
pub const MEMORY: usize = 64 << 20;
/// What is beyond that and still given: the checks' own copies of replies.
const MARGIN: usize = 32 << 20;
/// Bytes of the hash's seeds.
const SEEDS: usize = 1024;
/// Databases that are looked at.
const DATABASES: usize = 4;
/// Output of a session that is kept until somebody asks, in bytes.
const KEPT: usize = 1 << 20;

/// Everything is allocated here; an allocation beyond the limit fails, which aborts unless the engine was prepared.
#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

struct Limited {
    base: usize,
}

impl Machine for Limited {
    fn used_memory(&self) -> usize {
        HEAP.allocated().saturating_sub(self.base)
    }
    fn peak_memory(&self) -> usize {
        self.used_memory()
    }
    fn resident_memory(&self) -> usize {
        self.used_memory()
    }
    fn total_memory(&self) -> usize {
        MEMORY
    }
    fn monotonic_ns(&self) -> u64 {
        START_US * 1_000
    }
    fn fill_random(&self, out: &mut [u8]) {
        out.fill(7);
    }
}

const START_US: u64 = 1_000_000;
/// Unix time of monotonic time 0: 2026-01-01.
const EPOCH_US: i64 = 1_767_225_600_000_000;

/// A session and what it said since it was last looked at.
struct Session {
    id: ClientId,
    /// Input that the server did not take yet.
    untaken: Vec<u8>,
    /// Output that nobody has asked for yet.
    said: Vec<u8>,
    /// How much of it was checked.
    checked: usize,
    /// Whether it reads.
    reads: bool,
    /// Whether it has ended.
    over: bool,
}

/// An engine with sessions.
pub struct Host {
    /// What was allocated before it was made, in bytes.
    base: usize,
    /// The engine.
    pub server: Server,
    sessions: Vec<Session>,
    now_us: u64,
}

impl Host {
    /// An engine with `sessions` sessions.
    ///
    /// # Panics
    /// If the configuration is not right.
    pub fn new(sessions: usize) -> Self {
        generate::prepare();
        let base = HEAP.allocated();
        HEAP.set_limit(base + MEMORY + MARGIN).expect("the limit is above what is used");
        let setup = Setup {
            machine: Box::new(Limited { base }),
            identity: Identity { os: "fuzz".into(), arch_bits: 64, port: 1, cpus: 1 },
            seed: 7,
            config: &[("enable-debug-command", "yes")],
            now_us: START_US,
            unix_us: EPOCH_US + START_US as i64,
        };
        let Ok(server) = Server::new(setup) else { panic!("the engine does not start") };
        let mut host = Self { base, server, sessions: Vec::new(), now_us: START_US };
        for _ in 0..sessions {
            let session = host.connect().expect("there is room for a session");
            host.sessions.push(session);
        }
        host
    }

    fn connect(&mut self) -> Option<Session> {
        let end = Endpoint { addr: [127, 0, 0, 1], port: 1 };
        let id = self.server.connect(end, end).ok()?;
        Some(Session { id, untaken: Vec::new(), said: Vec::new(), checked: 0, reads: true, over: false })
    }

    /// Ends it: all that it took must be given back.
    ///
    /// # Panics
    /// If something was kept.
    pub fn finish(mut self) {
        self.check_values();
        let base = self.base;
        drop(self);
        // (The leak detector of the sanitizer takes longer, and finds the hash's seeds, which live as long as the program.)
        let kept = HEAP.allocated().saturating_sub(base);
        assert!(kept <= SEEDS, "{kept} bytes are not given back");
    }

    /// Lets a session end and another take its place.
    pub fn reconnect(&mut self, n: usize) {
        self.server.disconnect(self.sessions[n].id);
        self.settle();
        // The input may have made that impossible (maxclients, memory); then the place stays empty.
        if let Some(session) = self.connect() {
            self.sessions[n] = session;
        }
    }

    /// A session's peer has finished sending.
    pub fn hang_up(&mut self, n: usize) {
        self.server.peer_finished(self.sessions[n].id);
        self.settle();
    }

    /// Has a session read its output, or leave it where it is.
    pub fn set_reads(&mut self, n: usize, reads: bool) {
        self.sessions[n].reads = reads;
        self.settle();
    }

    /// Sends bytes over a session. What it says is checked.
    pub fn feed(&mut self, n: usize, bytes: &[u8]) {
        let session = &mut self.sessions[n];
        // A peer can have so much under way only.
        if session.untaken.len() < 1 << 20 {
            session.untaken.extend_from_slice(bytes);
        }
        self.offer(n);
        self.settle();
    }

    /// Sends a command over a session.
    pub fn command(&mut self, n: usize, words: &[&[u8]]) {
        self.feed(n, &request(words));
    }

    /// Sends a command and returns what came since the last time, this command's reply last. The session must read, and
    /// neither wait nor subscribe.
    pub fn ask(&mut self, n: usize, words: &[&[u8]]) -> Vec<u8> {
        self.said(n);
        self.command(n, words);
        self.said(n)
    }

    /// What a session said since it was last asked.
    pub fn said(&mut self, n: usize) -> Vec<u8> {
        self.sessions[n].checked = 0;
        std::mem::take(&mut self.sessions[n].said)
    }

    /// Lets time go by.
    pub fn pass_ms(&mut self, ms: u64) {
        self.now_us += ms * 1000;
        self.server.set_time(self.now_us, EPOCH_US + self.now_us as i64);
        self.settle();
    }

    /// Checks that every value is sound: it can be dumped, and what is read from the dump has as many elements.
    pub fn check_values(&mut self) {
        let config = &self.server.core.config;
        let limits = Limits { list: config.list_limit, hash: config.hash, set: config.set, zset: config.zset };
        for n in 0..DATABASES {
            let keys = self.server.keyspace.keys(n);
            for item in keys.db().table.iter() {
                // There may be no memory for it.
                let Ok(dump) = save::dump(item) else { continue };
                let body = load::verified(&dump).expect("a right checksum");
                let loaded = match load::value(body, &limits) {
                    Ok(loaded) => loaded,
                    Err(load::Failure::OutOfMemory) => continue,
                    Err(load::Failure::BadFormat) => {
                        panic!("{} does not load: {}", item.key().escape_ascii(), body.escape_ascii())
                    }
                };
                match loaded {
                    Loaded::Item(loaded) => {
                        assert!(loaded.elements() > 0 || loaded.type_of() == Type::Stream, "an empty collection");
                        assert_eq!(loaded.type_of(), item.type_of(), "{}", item.key().escape_ascii());
                        assert_eq!(loaded.elements(), item.elements(), "elements of {}", item.key().escape_ascii());
                    }
                    Loaded::Str(_) => assert!(matches!(item.type_of(), Type::String | Type::RawString)),
                }
            }
        }
    }

    /// Offers what a session has sent.
    fn offer(&mut self, n: usize) {
        let session = &mut self.sessions[n];
        let taken = self.server.feed(session.id, &session.untaken);
        session.untaken.drain(..taken);
        self.read(n);
    }

    /// Reads a session's output, in pieces as a socket would take it.
    fn read(&mut self, n: usize) {
        let session = &mut self.sessions[n];
        if !session.reads || session.over {
            return;
        }
        loop {
            let piece = self.server.output(session.id);
            if piece.is_empty() {
                break;
            }
            let len = piece.len().min(64 * 1024);
            session.said.extend_from_slice(&piece[..len]);
            self.server.sent(session.id, len);
        }
        if self.server.fate(session.id) == Fate::Abort {
            // What was queued is dropped where it is.
            session.said.clear();
        }
        resp::replies(&session.said[session.checked.min(session.said.len())..]);
        if session.said.len() > KEPT {
            session.said.clear();
        }
        session.checked = session.said.len();
    }

    /// Serves whoever is ready and does what time brings, as the event loop does, until nothing is left to do.
    fn settle(&mut self) {
        for _turn in 0..100_000 {
            let wake_us = self.server.tick();
            let mut any = false;
            while let Some(link) = self.server.next_link() {
                any = true;
                self.server.link_failed(link.id, LinkError::Refused);
            }
            while let Some(id) = self.server.next_ready() {
                any = true;
                if let Some(n) = self.sessions.iter().position(|s| s.id == id) {
                    self.offer(n);
                }
            }
            if !any && wake_us > self.now_us {
                self.check_fates();
                return;
            }
        }
        panic!("the engine does not come to rest");
    }

    /// Ends the sessions that the engine is done with, as a platform does.
    fn check_fates(&mut self) {
        for n in 0..self.sessions.len() {
            self.read(n);
            let id = self.sessions[n].id;
            self.sessions[n].over |= match self.server.fate(id) {
                Fate::Open => false,
                Fate::CloseAfterOutput => self.server.output(id).is_empty(),
                Fate::Abort => true,
            };
            if self.sessions[n].over {
                self.server.disconnect(id);
                self.sessions[n].untaken.clear();
            }
        }
    }
}

/// A command as a client sends it.
pub fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    request
}

/// A payload of RESTORE with this body: the version and the checksum are put behind it.
pub fn payload(body: &[u8]) -> Vec<u8> {
    let mut payload = body.to_vec();
    payload.extend_from_slice(&rdb::VERSION.to_le_bytes());
    let sum = crc64(0, &payload);
    payload.extend_from_slice(&sum.to_le_bytes());
    payload
}
