//! The engine as the program above a stack: connections are sessions.

use alloc::vec::Vec;

use barium_kernel::drivers::Net;
use barium_kernel::{clock, memory};
use barium_kvstore::core::ServerEvent;
use barium_kvstore::server::{Refused, Server};
use barium_kvstore::session::{self, ClientId};
use barium_net::{ConnId, Endpoint, Fate, Service, Stack};

use crate::start::Banner;
use crate::worker::Program;

/// What a client reads that comes when `maxclients` are there already.
const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// How old the network's counters may be in INFO, in ns.
const COUNT_EVERY_NS: u64 = 10_000_000;

/// What a connection of the stack is to the engine.
#[derive(Clone, Copy)]
enum Peer {
    Session(ClientId),
    /// Told [`TOO_MANY`], of which so many bytes were sent.
    Refused(usize),
}

#[derive(Clone, Copy)]
struct Slot {
    generation: u32,
    peer: Peer,
}

/// The engine, and which of its sessions is which connection.
pub struct Engine {
    server: Server,
    /// By the connection's slot.
    peers: Vec<Option<Slot>>,
    /// By the session's slot.
    conns: Vec<Option<ConnId>>,
    /// A session that became ready outside the stack's turn.
    woken: Option<ConnId>,
    /// When the engine is next needed, in ns since boot; 0 is at once.
    deadline_ns: Option<u64>,
    /// Connections are refused while more than this is held.
    held_limit: usize,
    /// When the network's counters are read next, in ns since boot.
    count_at_ns: u64,
    banner: Banner,
}

impl Engine {
    /// `held_limit`: bytes of memory in use beyond which no connection is accepted.
    pub fn new(server: Server, held_limit: usize, banner: Banner) -> Self {
        Self {
            server,
            peers: Vec::new(),
            conns: Vec::new(),
            woken: None,
            deadline_ns: None,
            held_limit,
            count_at_ns: 0,
            banner,
        }
    }

    fn peer(&mut self, conn: ConnId) -> Option<&mut Peer> {
        let slot = self.peers.get_mut(conn.slot as usize)?.as_mut()?;
        (slot.generation == conn.generation).then_some(&mut slot.peer)
    }

    #[inline]
    fn session(&self, conn: ConnId) -> Option<ClientId> {
        match *self.peers.get(conn.slot as usize)? {
            Some(Slot { generation, peer: Peer::Session(id) }) if generation == conn.generation => Some(id),
            _ => None,
        }
    }

    fn set_conn(&mut self, id: ClientId, conn: Option<ConnId>) {
        let slot = id.slot as usize;
        if self.conns.len() <= slot {
            self.conns.resize(slot + 1, None);
        }
        self.conns[slot] = conn;
    }

    /// Takes over what the network card and the stack have counted, for INFO.
    #[cold]
    fn count(&mut self, stack: &Stack, nic: &Net) {
        let c = nic.counters();
        let mut counters = Vec::from([
            ("rx_frames", c.rx_frames),
            ("rx_bytes", c.rx_bytes),
            ("rx_malformed", c.rx_malformed),
            ("tx_frames", c.tx_frames),
            ("tx_bytes", c.tx_bytes),
            ("tx_full", c.tx_full),
            ("nic_notifications", c.notifications),
            ("nic_interrupts", c.interrupts),
            ("tcp_half_open", stack.half_open() as u64),
            ("tcp_time_wait", stack.time_wait() as u64),
        ]);
        counters.extend_from_slice(&stack.stats().named());
        self.server.set_network(&counters);
    }

    /// The next connection whose session has something to say.
    fn ready(&mut self) -> Option<ConnId> {
        while let Some(id) = self.server.next_ready() {
            let conn = self.conns.get(id.slot as usize).copied().flatten();
            if let Some(conn) = conn
                && self.session(conn) == Some(id)
            {
                return Some(conn);
            }
        }
        None
    }
}

const fn endpoint(endpoint: Endpoint) -> session::Endpoint {
    session::Endpoint { addr: endpoint.addr, port: endpoint.port }
}

impl Service for Engine {
    fn opened(&mut self, conn: ConnId, peer: Endpoint, local: Endpoint) -> bool {
        if memory::held() > self.held_limit {
            return false;
        }
        let peer = match self.server.connect(endpoint(peer), endpoint(local)) {
            Ok(id) => {
                self.set_conn(id, Some(conn));
                Peer::Session(id)
            }
            Err(Refused::TooManyClients) => Peer::Refused(0),
            Err(Refused::OutOfMemory) => return false,
        };
        let slot = conn.slot as usize;
        if self.peers.len() <= slot {
            self.peers.resize(slot + 1, None);
        }
        self.peers[slot] = Some(Slot { generation: conn.generation, peer });
        true
    }

    #[inline]
    fn received(&mut self, conn: ConnId, bytes: &[u8]) -> usize {
        self.session(conn).map_or(bytes.len(), |id| self.server.feed(id, bytes))
    }

    fn peer_finished(&mut self, conn: ConnId) {
        if let Some(id) = self.session(conn) {
            self.server.peer_finished(id);
        }
    }

    #[inline]
    fn output(&mut self, conn: ConnId) -> &[u8] {
        if let Some(id) = self.session(conn) {
            return self.server.output(id);
        }
        match self.peer(conn) {
            Some(Peer::Refused(sent)) => TOO_MANY.get(*sent..).unwrap_or_default(),
            _ => &[],
        }
    }

    #[inline]
    fn sent(&mut self, conn: ConnId, n: usize) {
        if let Some(id) = self.session(conn) {
            self.server.sent(id, n);
        } else if let Some(Peer::Refused(sent)) = self.peer(conn) {
            *sent += n;
        }
    }

    #[inline]
    fn fate(&self, conn: ConnId) -> Fate {
        let Some(id) = self.session(conn) else { return Fate::CloseAfterOutput };
        match self.server.fate(id) {
            session::Fate::Open => Fate::Open,
            session::Fate::CloseAfterOutput => Fate::CloseAfterOutput,
            session::Fate::Abort => Fate::Abort,
        }
    }

    fn closed(&mut self, conn: ConnId) {
        if let Some(id) = self.session(conn) {
            self.server.disconnect(id);
            self.set_conn(id, None);
        }
        if let Some(slot) = self.peers.get_mut(conn.slot as usize)
            && slot.is_some_and(|slot| slot.generation == conn.generation)
        {
            *slot = None;
        }
    }

    #[inline]
    fn next_ready(&mut self) -> Option<ConnId> {
        let conn = self.woken.take().or_else(|| self.ready())?;
        // The session may keep input behind a command that waited; the stack offers only what it has itself.
        if let Some(id) = self.session(conn) {
            self.server.feed(id, &[]);
        }
        Some(conn)
    }
}

impl Program for Engine {
    #[inline]
    fn begin(&mut self, now_ns: u64, stack: &mut Stack, nic: &Net) {
        self.server.set_time(now_ns / 1000, clock::unix_ns() / 1000);
        if now_ns >= self.count_at_ns {
            self.count_at_ns = now_ns + COUNT_EVERY_NS;
            self.count(stack, nic);
            stack.set_keep_alive(self.server.config().tcp_keepalive_s * 1_000_000);
        }
    }

    fn end(&mut self, stack: &Stack, nic: &Net) -> bool {
        self.banner.update(stack, nic);
        if let Some(ServerEvent::Shutdown) = self.server.take_event() {
            return false;
        }
        // After the commands of this turn, whose timeouts and leavings it takes up. Whom it wakes is served in the next turn,
        // which then follows at once.
        let next_us = self.server.tick();
        if self.woken.is_none() {
            self.woken = self.ready();
        }
        self.deadline_ns = match next_us {
            _ if self.woken.is_some() => Some(0),
            u64::MAX => None,
            us => Some(us.saturating_mul(1000)),
        };
        true
    }

    #[inline]
    fn deadline_ns(&self) -> Option<u64> {
        self.deadline_ns
    }
}
