//! The server: sessions in front of the keyspace. Platforms feed it bytes and the time, and send what it has to say.
//!
//! A plain struct, and a function of its inputs: bytes, times and the seed. One call is one step of one session; nothing
//! waits inside.

mod blocked;
mod client_memory;
pub(crate) mod dispatch;
mod express;
mod feed;
mod followups;
mod housekeeping;
pub(crate) mod migrate;
mod plain;
mod room;
#[cfg(test)]
mod tests;
pub(crate) mod timing;
pub(crate) mod tracking;

use crate::acl::Acl;
use crate::commands::table::Index;
use crate::config::Config;
use crate::core::{Core, Pause, ReplyBuffers, ServerEvent};
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::links::{LinkError, LinkId, LinkRequest, Links};
use crate::machine::{Identity, Machine};
use crate::pubsub::PubSub;
use crate::random::Rng;
use crate::session::args::Span;
use crate::session::{Client, ClientId, Endpoint, Fate, Session};
use crate::slowlog::Slowlog;
use crate::stats::Stats;
use crate::table::Hashing;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use client_memory::ClientMemory;

/// Output buffers that are kept for the next session that has something to say.
const SPARE_BUFFERS: usize = 64;

/// What a server is made of.
pub struct Setup<'a> {
    /// The machine.
    pub machine: Box<dyn Machine>,
    /// Facts that INFO shows.
    pub identity: Identity,
    /// Seed of everything random and of the keyed hash. Must not be guessable by clients.
    pub seed: u64,
    /// Parameters that are not to have their default; `user` stands for a user of ACL: its name and rules.
    pub config: &'a [(&'a str, &'a str)],
    /// Monotonic time, in us.
    pub now_us: u64,
    /// Unix time, in us.
    pub unix_us: i64,
}

/// Why a connection was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// `maxclients` is reached.
    TooManyClients,
    /// There is no memory for another session.
    OutOfMemory,
}

/// See the [module](self).
pub struct Server {
    /// The keys.
    pub keyspace: Keyspace,
    /// Everything else.
    pub core: Core,
    /// Lent to the parser of the session that is being served.
    spare_spans: Vec<Span>,
    /// Lent to sessions that have something to say.
    spare_buffers: Vec<Vec<u8>>,
    /// [`Core::output_limit`] as it was asked for in this turn, None: not yet, or sessions have queued much since.
    output_limit: Option<usize>,
    /// Whether no more than `maxmemory` is in use, as it was asked for in this turn. None: not yet, or there were commands
    /// since that may take memory.
    roomy: Option<bool>,
    /// What the sessions take, for `maxmemory-clients`.
    client_memory: ClientMemory,
    /// When the sessions' limits are looked at next, monotonic time in us.
    next_session_check_us: u64,
}

/// The CPUs of a machine pass it on to each other.
const fn moves_between_cpus<T: Send>() {}
const _: () = moves_between_cpus::<Server>();

impl Server {
    /// A server with an empty keyspace. Errs with one line if a parameter is not right.
    pub fn new(setup: Setup<'_>) -> Result<Self, Error> {
        let mut rng = Rng::new(setup.seed);
        let hashing = Hashing::new(rng.next_u64());
        let (users, parameters): (Vec<_>, Vec<_>) = setup.config.iter().copied().partition(|(name, _)| *name == "user");
        let config = Config::new(hashing, parameters)?;
        let mut acl = Acl::new(&config);
        for (_, line) in users {
            acl.load(&config, line)?;
        }
        if setup.config.iter().any(|(name, _)| name.eq_ignore_ascii_case("loglevel")) {
            log::set_max_level(config.log_level());
        }
        let databases = config.get("databases").and_then(|d| d.parse().ok()).unwrap_or(crate::keyspace::DATABASES);
        let (run_id, replication_id) = (rng.hex_id(), rng.hex_id());
        let mut keyspace = Keyspace::new(hashing, databases, rng.next_u64());
        keyspace.configure(&config);
        keyspace.set_now(setup.unix_us / 1000);
        let core = Core {
            acl,
            config,
            clients: Default::default(),
            stats: Stats::new(),
            rng,
            identity: setup.identity,
            network: Vec::new(),
            index: Index::new(),
            pubsub: PubSub::default(),
            slowlog: Slowlog::default(),
            run_id,
            replication_id,
            now_us: setup.now_us,
            unix_us: setup.unix_us,
            started_us: setup.now_us,
            started_unix_s: setup.unix_us / 1_000_000,
            startup_memory: setup.machine.used_memory(),
            machine: setup.machine,
            wait_request: None,
            run: Default::default(),
            timers: BTreeSet::new(),
            unblock: Vec::new(),
            blocked: 0,
            monitors: Vec::new(),
            asleep_until_us: 0,
            pause: Pause::default(),
            links: Links::default(),
            migration: None,
            spare_links: Vec::new(),
            held: Vec::new(),
            short_of_memory: Vec::new(),
            flushing: Vec::new(),
            jobs: Vec::new(),
            reply_buffers: ReplyBuffers::default(),
            scripts_unrestricted: false,
            event: None,
            next_client_id: 1,
        };
        Ok(Self {
            keyspace,
            core,
            spare_spans: Vec::new(),
            spare_buffers: Vec::new(),
            output_limit: None,
            roomy: None,
            client_memory: ClientMemory::default(),
            next_session_check_us: 0,
        })
    }

    /// Sets the time that the commands to come will see: monotonic and Unix, in us. Once per batch.
    pub fn set_time(&mut self, now_us: u64, unix_us: i64) {
        self.core.end_run();
        self.core.now_us = now_us;
        self.core.unix_us = unix_us;
        (self.output_limit, self.roomy) = (None, None);
        self.keyspace.set_now(unix_us / 1000);
    }

    /// Tells the counters of the layers below (network card, stack) as they stand, for INFO's section `network`.
    pub fn set_network(&mut self, counters: &[(&'static str, u64)]) {
        self.core.network.clear();
        self.core.network.extend_from_slice(counters);
    }

    /// The parameters in force.
    pub fn config(&self) -> &Config {
        &self.core.config
    }

    /// A client has connected.
    pub fn connect(&mut self, peer: Endpoint, local: Endpoint) -> Result<ClientId, Refused> {
        self.connect_at(0, peer, local)
    }

    /// The same where the platform keeps its connections in several places (one a CPU), numbered from 0 to 63: each has its own
    /// [`next_ready_at`](Self::next_ready_at).
    pub fn connect_at(&mut self, home: usize, peer: Endpoint, local: Endpoint) -> Result<ClientId, Refused> {
        let refused = if self.core.clients.len() >= self.core.config.maxclients {
            Some(Refused::TooManyClients)
        } else if self.core.available() < 64 * 1024 {
            Some(Refused::OutOfMemory)
        } else {
            None
        };
        if let Some(refused) = refused {
            self.core.stats.refused += 1;
            return Err(refused);
        }
        self.core.stats.connections += 1;
        let id = self.core.next_client_id;
        self.core.next_client_id += 1;
        let handle = self.core.clients.reserve();
        let mut client = Client::new(id, handle, peer, local, self.core.now_us);
        client.home = home as u8 & 63;
        self.core.become_default(&mut client);
        let session = Session::new(client, self.core.output_limit());
        Ok(self.core.clients.insert(Box::new(session)))
    }

    /// The peer has finished sending. What it sent is still carried out; then the connection is closed.
    pub fn peer_finished(&mut self, id: ClientId) {
        if let Some(s) = self.core.clients.get_mut(id) {
            s.finished = true;
            // A client that waits is gone; so is one with nothing left to do.
            if !s.client.held {
                self.core.clients.end(id, Fate::CloseAfterOutput);
            }
        }
    }

    /// The next piece of a session's output; empty when there is none.
    pub fn output(&self, id: ClientId) -> &[u8] {
        self.core.clients.get(id).map_or(&[], |s| s.out.front())
    }

    /// The first `n` bytes of [`output`](Self::output) were sent. `None`: there is more; else what is to become
    /// of the connection, as [`fate`](Self::fate) says.
    #[inline]
    pub fn sent(&mut self, id: ClientId, n: usize) -> Option<Fate> {
        let Some(s) = self.core.clients.get_mut(id) else { return Some(Fate::Abort) };
        s.note_reply(self.core.now_us, self.core.reply_buffers.peak_reset_us);
        s.out.advance(n);
        s.client.bytes_out += n as u64;
        self.core.stats.bytes_out += n as u64;
        self.core.stats.writes += 1;
        if !s.out.is_empty() {
            return None;
        }
        let fate = s.client.fate;
        if self.core.reply_buffers.resizing
            && let Some(buffer) = s.out.take_buffer()
            && self.spare_buffers.len() < SPARE_BUFFERS
        {
            self.spare_buffers.push(buffer);
        }
        Some(fate)
    }

    /// What is to become of a session's connection.
    pub fn fate(&self, id: ClientId) -> Fate {
        self.core.clients.get(id).map_or(Fate::Abort, |s| s.client.fate)
    }

    /// The connection is gone, whoever ended it.
    pub fn disconnect(&mut self, id: ClientId) {
        let Some(mut session) = self.core.clients.take(id) else { return };
        self.forget_memory(&mut session);
        self.core.forget(&mut self.keyspace, &mut session.client);
        self.core.clients.release(id);
    }

    /// The next session, other than the one just fed, with new output, a new fate, or that wants input offered again. The
    /// platform then feeds it what it has, if only nothing.
    pub fn next_ready(&mut self) -> Option<ClientId> {
        self.next_ready_at(0)
    }

    /// The next one in one of the places where the platform keeps its connections.
    #[inline]
    pub fn next_ready_at(&mut self, home: usize) -> Option<ClientId> {
        self.core.clients.next_ready(home)
    }

    /// The places for which there may be such sessions, a bit each.
    #[inline]
    pub fn ready_homes(&self) -> u64 {
        self.core.clients.ready_homes()
    }

    /// Takes the next connection to another server that the platform is to open.
    #[inline]
    pub fn next_link(&mut self) -> Option<LinkRequest> {
        self.core.links.next_wanted()
    }

    /// Whether there are links to be opened or looked at.
    #[inline]
    pub fn has_link_work(&self) -> bool {
        !self.core.links.is_idle()
    }

    /// A link is open. False: it is no longer wanted; the platform ends the connection and forgets it.
    pub fn link_opened(&mut self, id: LinkId) -> bool {
        self.core.links.opened(id)
    }

    /// A link could not be opened.
    pub fn link_failed(&mut self, id: LinkId, why: LinkError) {
        self.core.links.failed(id, why);
    }

    /// Bytes arrived from a link's peer; returns how many were taken. The others are to be offered again when
    /// [`next_ready_link`](Self::next_ready_link) names the link.
    pub fn link_received(&mut self, id: LinkId, bytes: &[u8]) -> usize {
        self.core.links.received(id, bytes)
    }

    /// The peer has finished sending.
    pub fn link_finished(&mut self, id: LinkId) {
        self.core.links.finished(id);
    }

    /// The next piece of a link's output; empty when there is none.
    pub fn link_output(&self, id: LinkId) -> &[u8] {
        self.core.links.get(id).map_or(&[], |link| link.out.front())
    }

    /// The first `n` bytes of [`link_output`](Self::link_output) were sent.
    pub fn link_sent(&mut self, id: LinkId, n: usize) {
        self.core.links.sent(id, n);
    }

    /// What is to become of a link's connection.
    pub fn link_fate(&self, id: LinkId) -> Fate {
        self.core.links.fate(id)
    }

    /// A link's connection is gone, whoever ended it.
    pub fn link_closed(&mut self, id: LinkId) {
        self.core.links.closed(id);
    }

    /// The next link with new output, a new fate, or room for input.
    #[inline]
    pub fn next_ready_link(&mut self) -> Option<LinkId> {
        self.core.links.next_ready()
    }

    /// Takes what the platform is to do, if anything.
    pub fn take_event(&mut self) -> Option<ServerEvent> {
        self.core.event.take()
    }
}
