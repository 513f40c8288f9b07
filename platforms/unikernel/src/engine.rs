//! The engine as the program above the CPUs' stacks: connections are sessions.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use barium_kernel::{clock, memory};
use barium_kvstore::core::ServerEvent;
use barium_kvstore::links::{LinkError, LinkId, LinkRequest};
use barium_kvstore::server::{Refused, Server};
use barium_kvstore::session::{self, ClientId};
use barium_net::steer::Steering;
use barium_net::{ConnId, Dial, DialError, Endpoint, Fate, Service};

use crate::counters::Board;

/// What a client reads that comes when `maxclients` are there already.
const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// How old counters may be in INFO, in ns; those of another CPU twice that.
pub const COUNT_EVERY_NS: u64 = 10_000_000;

/// What a connection of the stack is to the engine.
#[derive(Clone, Copy)]
enum Peer {
    Session(ClientId),
    /// A connection that the engine has opened. The first CPU has them all: answers of ARP come to it.
    Link(LinkId),
    /// Told [`TOO_MANY`], of which so many bytes were sent.
    Refused(usize),
}

type Links = Vec<Option<(LinkId, Option<ConnId>)>>;

#[derive(Clone, Copy)]
struct Slot {
    generation: u32,
    peer: Peer,
}

/// The engine, and which of its sessions is which connection of which CPU's stack.
pub struct Engine {
    server: Server,
    /// By CPU, then by the connection's slot.
    peers: Vec<Vec<Option<Slot>>>,
    /// By the session's slot.
    conns: Vec<Option<ConnId>>,
    /// By the link's slot, which is its ticket too: the link, and its connection once that is there.
    links: Links,
    /// Connections are refused while more than this is held.
    held_limit: usize,
    /// The latest time that a CPU came with, in ns since boot.
    now_ns: u64,
    counts: Counts,
}

/// Commands by CPU, for INFO.
struct Counts {
    /// By CPU: the name of its count of commands, and the count.
    requests: Vec<(&'static str, u64)>,
    /// Commands of all CPUs at the last look.
    processed: u64,
    /// When the counters that INFO shows are made anew, in ns since boot.
    due_ns: u64,
}

/// How things stand when a CPU is done with the engine.
pub struct Outcome {
    /// The machine is to stop.
    pub shutdown: bool,
    /// When the engine is next needed though nothing arrives, in ns since boot: 0 is at once, `u64::MAX` never.
    pub deadline_ns: u64,
    /// CPUs whose connections are ready to be looked at, a bit each.
    pub ready: u64,
}

impl Engine {
    /// `held_limit`: bytes of memory in use beyond which no connection is accepted.
    pub fn new(server: Server, cpus: usize, held_limit: usize) -> Self {
        let name = |cpu| &*Box::leak(format!("cpu{cpu}_requests").into_boxed_str());
        Self {
            server,
            peers: (0..cpus).map(|_| Vec::new()).collect(),
            conns: Vec::new(),
            links: Links::new(),
            held_limit,
            now_ns: 0,
            counts: Counts { requests: (0..cpus).map(|cpu| (name(cpu), 0)).collect(), processed: 0, due_ns: 0 },
        }
    }

    /// A CPU begins its turn. Time does not go back, though CPUs read it before they get here.
    #[inline]
    pub fn begin(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        self.server.set_time(self.now_ns / 1000, clock::unix_at(self.now_ns) / 1000);
    }

    /// Silence after which a peer is to be probed, in us.
    #[inline]
    pub fn keep_alive_us(&self) -> u64 {
        self.server.config().tcp_keepalive_s * 1_000_000
    }

    /// Whether the counters that it shows are too old.
    #[inline]
    pub fn wants_counters(&self) -> bool {
        self.now_ns >= self.counts.due_ns
    }

    /// Takes over what all CPUs have counted.
    #[cold]
    pub fn count(&mut self, board: &Board) {
        self.counts.due_ns = self.now_ns + COUNT_EVERY_NS;
        let mut counters = board.sums();
        counters.extend_from_slice(&self.counts.requests);
        self.server.set_network(&counters);
    }

    /// The engine as the stack of a CPU sees it.
    #[inline]
    pub fn desk<'a>(&'a mut self, cpu: usize, steering: &'a Steering) -> Desk<'a> {
        Desk {
            server: &mut self.server,
            peers: &mut self.peers[cpu],
            conns: &mut self.conns,
            links: &mut self.links,
            steering,
            cpu,
            held_limit: self.held_limit,
        }
    }

    /// The CPU's stack was served. Does what time brings and the commands of this turn left to do, in bounded steps.
    pub fn end(&mut self, cpu: usize) -> Outcome {
        if let Some(ServerEvent::Shutdown) = self.server.take_event() {
            return Outcome { shutdown: true, deadline_ns: u64::MAX, ready: 0 };
        }
        let next_us = self.server.tick();
        let processed = self.server.core.stats.processed;
        // Fewer: CONFIG RESETSTAT.
        let more = processed.checked_sub(self.counts.processed).unwrap_or(processed);
        self.counts.requests[cpu].1 += more;
        self.counts.processed = processed;
        Outcome {
            shutdown: false,
            deadline_ns: if next_us == u64::MAX { next_us } else { next_us.saturating_mul(1000) },
            ready: self.server.ready_homes() | u64::from(self.server.has_link_work()),
        }
    }
}

/// The engine as the stack of one CPU sees it.
pub struct Desk<'a> {
    server: &'a mut Server,
    peers: &'a mut Vec<Option<Slot>>,
    conns: &'a mut Vec<Option<ConnId>>,
    links: &'a mut Links,
    steering: &'a Steering,
    cpu: usize,
    held_limit: usize,
}

impl Desk<'_> {
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

    fn link(&self, conn: ConnId) -> Option<LinkId> {
        match *self.peers.get(conn.slot as usize)? {
            Some(Slot { generation, peer: Peer::Link(id) }) if generation == conn.generation => Some(id),
            _ => None,
        }
    }

    fn set_peer(&mut self, conn: ConnId, peer: Peer) {
        let slot = conn.slot as usize;
        if self.peers.len() <= slot {
            self.peers.resize(slot + 1, None);
        }
        self.peers[slot] = Some(Slot { generation: conn.generation, peer });
    }

    /// Whether links want something, and of this CPU.
    #[inline]
    fn has_link_work(&self) -> bool {
        self.cpu == 0 && self.server.has_link_work()
    }

    /// The next connection whose link has something to say.
    #[cold]
    fn ready_link(&mut self) -> Option<ConnId> {
        while let Some(id) = self.server.next_ready_link() {
            let conn = self.links.get(id.slot as usize).copied().flatten().filter(|link| link.0 == id);
            if let Some((_, Some(conn))) = conn {
                return Some(conn);
            }
        }
        None
    }
}

const fn endpoint(endpoint: Endpoint) -> session::Endpoint {
    session::Endpoint { addr: endpoint.addr, port: endpoint.port }
}

#[inline]
const fn stack_fate(fate: session::Fate) -> Fate {
    match fate {
        session::Fate::Open => Fate::Open,
        session::Fate::CloseAfterOutput => Fate::CloseAfterOutput,
        session::Fate::Abort => Fate::Abort,
    }
}

impl Service for Desk<'_> {
    fn opened(&mut self, conn: ConnId, peer: Endpoint, local: Endpoint) -> bool {
        if memory::held() > self.held_limit {
            return false;
        }
        let peer = match self.server.connect_at(self.cpu, endpoint(peer), endpoint(local)) {
            Ok(id) => {
                self.set_conn(id, Some(conn));
                Peer::Session(id)
            }
            Err(Refused::TooManyClients) => Peer::Refused(0),
            Err(Refused::OutOfMemory) => return false,
        };
        self.set_peer(conn, peer);
        true
    }

    #[inline]
    fn received(&mut self, conn: ConnId, bytes: &[u8]) -> usize {
        if let Some(id) = self.session(conn) {
            return self.server.feed(id, bytes);
        }
        self.link(conn).map_or(bytes.len(), |id| self.server.link_received(id, bytes))
    }

    fn peer_finished(&mut self, conn: ConnId) {
        if let Some(id) = self.session(conn) {
            self.server.peer_finished(id);
        } else if let Some(id) = self.link(conn) {
            self.server.link_finished(id);
        }
    }

    #[inline]
    fn output(&mut self, conn: ConnId) -> &[u8] {
        if let Some(id) = self.session(conn) {
            return self.server.output(id);
        }
        match self.peer(conn).copied() {
            Some(Peer::Refused(sent)) => TOO_MANY.get(sent..).unwrap_or_default(),
            Some(Peer::Link(id)) => self.server.link_output(id),
            _ => &[],
        }
    }

    #[inline]
    fn sent(&mut self, conn: ConnId, n: usize) -> Option<Fate> {
        if let Some(id) = self.session(conn) {
            return self.server.sent(id, n).map(stack_fate);
        }
        match self.peer(conn) {
            Some(Peer::Refused(sent)) => *sent += n,
            Some(&mut Peer::Link(id)) => self.server.link_sent(id, n),
            _ => return Some(self.fate(conn)),
        }
        if self.output(conn).is_empty() { Some(self.fate(conn)) } else { None }
    }

    #[inline]
    fn fate(&self, conn: ConnId) -> Fate {
        let fate = match self.session(conn) {
            Some(id) => self.server.fate(id),
            None => self.link(conn).map_or(session::Fate::CloseAfterOutput, |id| self.server.link_fate(id)),
        };
        stack_fate(fate)
    }

    fn closed(&mut self, conn: ConnId) {
        if let Some(id) = self.session(conn) {
            self.server.disconnect(id);
            self.set_conn(id, None);
        } else if let Some(id) = self.link(conn) {
            self.links[id.slot as usize] = None;
            self.server.link_closed(id);
        }
        if let Some(slot) = self.peers.get_mut(conn.slot as usize)
            && slot.is_some_and(|slot| slot.generation == conn.generation)
        {
            *slot = None;
        }
    }

    #[inline]
    fn next_ready(&mut self) -> Option<ConnId> {
        if self.has_link_work()
            && let Some(conn) = self.ready_link()
        {
            return Some(conn);
        }
        while let Some(id) = self.server.next_ready_at(self.cpu) {
            let conn = self.conns.get(id.slot as usize).copied().flatten();
            if let Some(conn) = conn
                && self.session(conn) == Some(id)
            {
                // The session may keep input behind a command that waited; the stack offers only what it has itself.
                self.server.feed(id, &[]);
                return Some(conn);
            }
        }
        None
    }

    fn owns(&self, peer: Endpoint, local_port: u16) -> bool {
        self.steering.owner_of(peer, local_port) == self.cpu
    }

    #[inline]
    fn next_dial(&mut self) -> Option<Dial> {
        if !self.has_link_work() {
            return None;
        }
        let LinkRequest { id, to, timeout_us } = self.server.next_link()?;
        let slot = id.slot as usize;
        if self.links.len() <= slot {
            self.links.resize(slot + 1, None);
        }
        self.links[slot] = Some((id, None));
        Some(Dial { ticket: id.slot, to: Endpoint { addr: to.addr, port: to.port }, timeout_us })
    }

    fn dialed(&mut self, ticket: u32, conn: ConnId, _local: Endpoint) -> bool {
        let Some(Some((id, of))) = self.links.get_mut(ticket as usize) else { return false };
        let id = *id;
        *of = Some(conn);
        if !self.server.link_opened(id) {
            self.links[ticket as usize] = None;
            return false;
        }
        self.set_peer(conn, Peer::Link(id));
        true
    }

    fn dial_failed(&mut self, ticket: u32, why: DialError) {
        let Some((id, _)) = self.links.get_mut(ticket as usize).and_then(Option::take) else { return };
        let why = match why {
            DialError::Refused | DialError::TimedOut => LinkError::Refused,
            _ => LinkError::Unreachable,
        };
        self.server.link_failed(id, why);
    }
}
