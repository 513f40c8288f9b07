//! Client eviction (`maxmemory-clients`): while the sessions together take more than that, those that take most are closed.
//!
//! Nothing is counted while the parameter is 0. Then each session's memory is noted when it has been served, and the
//! sessions lie in buckets by powers of two of it, so that a big one is found without looking at all.

use super::Server;
use crate::session::{ClientId, Fate, Session};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Sessions below 2^`SMALLEST` bytes are in the first bucket; the last takes all from 2^`LARGEST` on.
const SMALLEST: u32 = 15;
const LARGEST: u32 = 33;
/// A limit is never less than this, or nobody could set another.
const LEAST_LIMIT: u64 = 128 * 1024;
/// Most sessions that are closed in one step.
const CLOSED_PER_STEP: usize = 1_024;

/// The sessions by the memory they take. Those that may not be evicted (CLIENT NO-EVICT) are not here.
#[derive(Debug, Default)]
pub(super) struct ClientMemory {
    /// Whether it is counted at all.
    on: bool,
    /// What all take together, in bytes.
    total: u64,
    buckets: Vec<BTreeSet<ClientId>>,
}

/// The bucket of a session that takes so many bytes.
fn bucket(bytes: usize) -> usize {
    let log = bytes.max(1).ilog2();
    (log.clamp(SMALLEST - 1, LARGEST) - (SMALLEST - 1)) as usize
}

impl ClientMemory {
    /// Notes what a session takes now.
    fn note(&mut self, session: &mut Session) {
        let c = &session.client;
        let counts = !c.no_evict && c.fate != Fate::Abort;
        let now = if counts { session.charged_memory() } else { 0 };
        let (before, id) = (session.charged, c.handle);
        if now == before {
            return;
        }
        self.total = self.total - before as u64 + now as u64;
        if before == 0 || now == 0 || bucket(before) != bucket(now) {
            if before > 0 {
                self.buckets[bucket(before)].remove(&id);
            }
            if now > 0 {
                self.buckets[bucket(now)].insert(id);
            }
        }
        session.charged = now;
    }

    /// One of the sessions that take most.
    fn biggest(&self) -> Option<ClientId> {
        self.buckets.iter().rev().find_map(|bucket| bucket.first().copied())
    }
}

impl Server {
    /// What all sessions may take together, in bytes; 0: any amount.
    fn client_memory_limit(&self) -> u64 {
        let config = &self.core.config;
        let limit = match config.max_client_memory {
            percent @ ..0 => (u128::from(config.maxmemory) * u128::from(percent.unsigned_abs()) / 100) as u64,
            bytes => bytes as u64,
        };
        if limit == 0 { 0 } else { limit.max(LEAST_LIMIT) }
    }

    /// Notes what a session takes that was served.
    #[inline]
    pub(super) fn note_memory(&mut self, session: &mut Session) {
        if self.client_memory.on {
            self.client_memory.note(session);
        }
    }

    /// Takes a session out that goes.
    pub(super) fn forget_memory(&mut self, session: &mut Session) {
        session.client.fate = Fate::Abort;
        self.note_memory(session);
    }

    /// Closes sessions until the others take no more than `maxmemory-clients`. Returns whether there are more to close.
    pub(super) fn evict_clients(&mut self) -> bool {
        let limit = self.client_memory_limit();
        if self.client_memory.on != (limit != 0) {
            self.start_counting(limit != 0);
        }
        let mut left = CLOSED_PER_STEP;
        while limit != 0 && self.client_memory.total > limit && left > 0 {
            left -= 1;
            let Some(id) = self.client_memory.biggest() else { return false };
            let Some(mut session) = self.core.clients.take(id) else { return false };
            let before = session.charged;
            self.client_memory.note(&mut session);
            if bucket(session.charged) >= bucket(before) {
                self.evict_client(&mut session);
            }
            self.core.clients.put_back(session);
        }
        limit != 0 && self.client_memory.total > limit
    }

    fn evict_client(&mut self, session: &mut Box<Session>) {
        let c = &mut session.client;
        log::warn!("evicting client {} ({}): it takes {} bytes", c.id, c.peer, session.charged);
        c.fate = Fate::Abort;
        self.core.clients.list(c);
        self.core.stats.evicted_clients += 1;
        self.client_memory.note(session);
    }

    /// Begins or ends counting.
    fn start_counting(&mut self, on: bool) {
        let buckets = if on { bucket(usize::MAX) + 1 } else { 0 };
        self.client_memory = ClientMemory { on, total: 0, buckets: alloc::vec![BTreeSet::new(); buckets] };
        for id in self.core.clients.ids() {
            if let Some(mut session) = self.core.clients.take(id) {
                session.charged = 0;
                self.note_memory(&mut session);
                self.core.clients.put_back(session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::session::{ClientId, Fate};
    use crate::testing::Bench;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;

    /// Sessions that have asked for so many replies of 10 kB each and read none.
    fn deaf(b: &mut Bench, replies: usize) -> ClientId {
        let c = b.client();
        let get = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".repeat(replies);
        b.feed(c, &get);
        c
    }

    fn evicted(b: &mut Bench, c: ClientId) -> String {
        let info = b.run(c, "INFO stats");
        info.lines().find_map(|line| line.strip_prefix("evicted_clients:")).unwrap().into()
    }

    #[test]
    fn those_that_take_most_go_first() {
        let mut b = Bench::new(&[("maxmemory-clients", "1mb")]);
        let c = b.client();
        b.run_raw(c, &[b"SET", b"k", &[b'v'; 10_000]]);
        let (small, big, protected) = (deaf(&mut b, 10), deaf(&mut b, 60), deaf(&mut b, 1));
        b.feed(protected, b"CLIENT NO-EVICT on\r\n");
        b.feed(protected, &b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".repeat(200));
        b.pass_ms(1);
        assert_eq!(b.server().fate(big), Fate::Open, "together they take less");
        let bigger = deaf(&mut b, 80);
        b.pass_ms(1);
        let gone: Vec<bool> = [small, big, bigger, protected].map(|id| b.server().fate(id) == Fate::Abort).into();
        assert!(!gone[0]);
        assert!(!gone[3], "NO-EVICT");
        assert!(gone[1] != gone[2], "one of the two in the same bucket");
        assert_eq!(evicted(&mut b, c), "1");
        b.run(c, "CONFIG SET maxmemory-clients 0");
        deaf(&mut b, 500);
        b.pass_ms(1);
        assert_eq!(evicted(&mut b, c), "1");
        // Counted from scratch when it is set again, as a share of maxmemory.
        b.run(c, "CONFIG SET maxmemory 100mb maxmemory-clients 1%");
        b.pass_ms(1);
        assert_ne!(evicted(&mut b, c), "1");
        assert_eq!(b.run(c, "CONFIG GET maxmemory-clients"), "[maxmemory-clients 1%]");
        assert_eq!(b.run(c, "CLIENT NO-EVICT off"), "OK");
    }

    #[test]
    fn a_big_query_counts_and_one_who_goes_does_not() {
        let mut b = Bench::new(&[("maxmemory-clients", "1mb")]);
        let (a, c) = (b.client(), b.client());
        b.feed(a, &[&b"*2\r\n$3\r\nGET\r\n$900000\r\n"[..], &vec![b'x'; 500_000]].concat());
        b.pass_ms(1);
        assert_eq!(b.server().fate(a), Fate::Open);
        b.server().disconnect(a);
        let again = b.client();
        b.feed(again, &[&b"*2\r\n$3\r\nGET\r\n$900000\r\n"[..], &vec![b'x'; 500_000]].concat());
        b.pass_ms(1);
        assert_eq!((b.server().fate(again), evicted(&mut b, c)), (Fate::Open, "0".into()));
        b.feed(c, &[&b"*2\r\n$3\r\nGET\r\n$900000\r\n"[..], &vec![b'x'; 500_000]].concat());
        b.pass_ms(1);
        assert!(b.server().fate(again) == Fate::Abort || b.server().fate(c) == Fate::Abort);
    }

    #[test]
    fn overwritten_values_that_only_a_queue_still_holds_count_as_its_own() {
        let mut b = Bench::new(&[]);
        let (a, c) = (b.client(), b.client());
        // The bench has a gibibyte: a quarter is eight of these and a bit.
        let value = vec![b'v'; 30 << 20];
        let mut rounds = 0;
        while b.server().fate(a) == Fate::Open {
            b.feed(
                c,
                &[&format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len()).into_bytes()[..], &value, b"\r\n"]
                    .concat(),
            );
            b.read(c);
            b.feed(a, b"GET k\r\n");
            b.pass_ms(1);
            rounds += 1;
            assert!(rounds < 12);
        }
        assert!(rounds > 7, "{rounds}");
        // The same value any number of times takes its memory once.
        let many = b.client();
        b.feed(many, &b"GET k\r\n".repeat(30));
        assert_eq!(b.server().fate(many), Fate::Open);
    }
}
