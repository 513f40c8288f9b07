//! The engine as the program above a stack: connections are sessions.

use alloc::vec::Vec;

use barium_kernel::drivers::Net;
use barium_kernel::{clock, memory};
use barium_kvstore::core::ServerEvent;
use barium_kvstore::links::{LinkError, LinkId, LinkRequest};
use barium_kvstore::server::{Refused, Server};
use barium_kvstore::session::{self, ClientId};
use barium_net::{ConnId, Dial, DialError, Endpoint, Fate, Service, Stack};

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
    /// A connection that the engine has opened.
    Link(LinkId),
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
    /// By the link's slot, which is its ticket too: the link, and its connection once that is there.
    links: Vec<Option<(LinkId, Option<ConnId>)>>,
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
            links: Vec::new(),
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

    /// The next connection whose session or link has something to say.
    fn ready(&mut self) -> Option<ConnId> {
        if self.server.has_link_work()
            && let Some(conn) = self.ready_link()
        {
            return Some(conn);
        }
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
    fn sent(&mut self, conn: ConnId, n: usize) {
        if let Some(id) = self.session(conn) {
            return self.server.sent(id, n);
        }
        match self.peer(conn) {
            Some(Peer::Refused(sent)) => *sent += n,
            Some(&mut Peer::Link(id)) => self.server.link_sent(id, n),
            _ => {}
        }
    }

    #[inline]
    fn fate(&self, conn: ConnId) -> Fate {
        let fate = match self.session(conn) {
            Some(id) => self.server.fate(id),
            None => self.link(conn).map_or(session::Fate::CloseAfterOutput, |id| self.server.link_fate(id)),
        };
        match fate {
            session::Fate::Open => Fate::Open,
            session::Fate::CloseAfterOutput => Fate::CloseAfterOutput,
            session::Fate::Abort => Fate::Abort,
        }
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
        let conn = self.woken.take().or_else(|| self.ready())?;
        // The session may keep input behind a command that waited; the stack offers only what it has itself.
        if let Some(id) = self.session(conn) {
            self.server.feed(id, &[]);
        }
        Some(conn)
    }

    #[inline]
    fn next_dial(&mut self) -> Option<Dial> {
        if !self.server.has_link_work() {
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
            _ if self.woken.is_some() || self.server.has_link_work() => Some(0),
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
