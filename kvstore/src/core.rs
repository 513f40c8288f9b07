//! What a command handler reaches beside the keys and its own session.

use crate::acl::Acl;
use crate::blocking::{Unblock, WaitRequest};
use crate::clients::Clients;
use crate::commands::table::Index;
use crate::config::Config;
use crate::jobs::Job;
use crate::links::Links;
use crate::machine::{Identity, Machine};
use crate::pubsub::PubSub;
use crate::random::Rng;
use crate::reply::Reply;
use crate::server::migrate::{Migration, SpareLink};
use crate::server::timing::Run;
use crate::session::ClientId;
use crate::slowlog::Slowlog;
use crate::stats::Stats;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// What the platform is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// Stop serving; the machine powers off, the process ends.
    Shutdown,
}

/// Commands that are held back: by CLIENT PAUSE, and writes while MIGRATE is under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pause {
    /// Until when, monotonic time in us; 0: nothing is held back.
    pub until_us: u64,
    /// Whether only writes are.
    pub writes_only: bool,
    /// Whether writes are held back because keys are being migrated.
    pub migrating: bool,
}

impl Pause {
    /// Whether nothing is held back.
    #[inline]
    pub const fn is_off(&self) -> bool {
        (self.until_us | self.migrating as u64) == 0
    }
}

/// What becomes of the buffers that sessions' replies are written into (DEBUG REPLYBUFFER).
#[derive(Clone, Copy, Debug)]
pub struct ReplyBuffers {
    /// Whether a session whose replies are sent gives its buffer to the next that has something to say.
    pub resizing: bool,
    /// How long a session's greatest reply is remembered (`rbp` in CLIENT LIST), in us.
    pub peak_reset_us: u64,
}

impl Default for ReplyBuffers {
    fn default() -> Self {
        Self { resizing: true, peak_reset_us: 5_000_000 }
    }
}

/// See the [module](self).
pub struct Core {
    /// Configuration.
    pub config: Config,
    /// Users and their permissions.
    pub acl: Acl,
    /// The other sessions.
    pub clients: Clients,
    /// Counters.
    pub stats: Stats,
    /// Random numbers.
    pub rng: Rng,
    /// The machine.
    pub machine: Box<dyn Machine>,
    /// Facts that INFO shows.
    pub identity: Identity,
    /// Counters of the layers below, by name, that INFO shows as its section `network`; empty where there are none.
    pub network: Vec<(&'static str, u64)>,
    /// The way from a name to a command.
    pub index: Index,
    /// Who is subscribed to what.
    pub pubsub: PubSub,
    /// What took long.
    pub slowlog: Slowlog,
    /// Run id that INFO shows: 40 hexadecimal digits.
    pub run_id: [u8; 40],
    /// Replication id that INFO shows, in the same form.
    pub replication_id: [u8; 40],
    /// Monotonic time of the present batch, in us.
    pub now_us: u64,
    /// Unix time of the present batch, in us.
    pub unix_us: i64,
    /// Monotonic time when the server started, in us.
    pub started_us: u64,
    /// Unix time when the server started, in s.
    pub started_unix_s: i64,
    /// Bytes in use when the server started.
    pub startup_memory: usize,
    /// Small commands that are timed together.
    pub run: Run,
    /// What the present command asks to wait for.
    pub wait_request: Option<WaitRequest>,
    /// When waiting clients give up: monotonic time in us, client.
    pub timers: BTreeSet<(u64, ClientId)>,
    /// Clients whose wait is to end when the present command has ended (CLIENT UNBLOCK).
    pub unblock: Vec<(ClientId, Unblock)>,
    /// Number of waiting clients.
    pub blocked: usize,
    /// Sessions that get a line for every command.
    pub monitors: Vec<ClientId>,
    /// Until when the whole engine sleeps (DEBUG SLEEP), monotonic time in us; 0: awake; u64::MAX: until a job is done.
    pub asleep_until_us: u64,
    /// CLIENT PAUSE, and what MIGRATE holds back.
    pub pause: Pause,
    /// Connections to other servers.
    pub links: Links,
    /// The MIGRATE that is under way.
    pub migration: Option<Box<Migration>>,
    /// Connections that earlier ones have left.
    pub spare_links: Vec<SpareLink>,
    /// Sessions whose input is held back.
    pub held: Vec<ClientId>,
    /// Sessions whose write waits for memory that is being given back.
    pub short_of_memory: Vec<ClientId>,
    /// Sessions whose FLUSHALL or FLUSHDB is answered when the memory is given back.
    pub flushing: Vec<ClientId>,
    /// Commands that are carried out in steps; the last one's step is next.
    pub jobs: Vec<Job>,
    /// Reply buffers.
    pub reply_buffers: ReplyBuffers,
    /// Whether scripts may call commands that are not for scripts (DEBUG SET-DISABLE-DENY-SCRIPTS).
    pub scripts_unrestricted: bool,
    /// What the platform is to do.
    pub event: Option<ServerEvent>,
    /// Number that the next session gets.
    pub next_client_id: u64,
}

impl Core {
    /// Whether commands are neither watched nor held back.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.monitors.is_empty() && self.pause.is_off()
    }

    /// Unix time of the present batch, in ms.
    pub const fn now_ms(&self) -> i64 {
        self.unix_us / 1000
    }

    /// Bytes that are kept free for small things: replies, records, buffers of sessions.
    fn reserve(&self) -> usize {
        (self.machine.total_memory() / 32).clamp(256 * 1024, 16 * 1024 * 1024)
    }

    /// Bytes that may still be asked for.
    pub fn available(&self) -> usize {
        self.machine.total_memory().saturating_sub(self.machine.used_memory()).saturating_sub(self.reserve())
    }

    /// Whether so many bytes more may be asked for.
    pub fn affordable(&self, bytes: usize) -> bool {
        bytes < 4_096 || bytes <= self.available()
    }

    /// Whether writes that need memory are refused.
    #[inline]
    pub fn over_maxmemory(&self) -> bool {
        let max = self.config.maxmemory;
        max != 0 && self.machine.used_memory() as u64 > max
    }

    /// Notes, for INFO, whether less than `maxmemory` is in use.
    pub fn note_room(&mut self, enough: bool) {
        let since = &mut self.stats.over_maxmemory_since_us;
        match (enough, *since) {
            (true, Some(at)) => {
                *since = None;
                self.stats.over_maxmemory_us += self.now_us.saturating_sub(at);
            }
            (false, None) => *since = Some(self.now_us),
            _ => {}
        }
    }

    /// Most bytes of output that a session may own: never more than a quarter of memory, nor half of what is left.
    pub fn output_limit(&self) -> usize {
        let total = self.machine.total_memory();
        (total / 4).min(total.saturating_sub(self.machine.used_memory()) / 2)
    }

    /// Writes something to a session other than the present one, and has the platform look at it.
    pub fn send_to(&mut self, id: ClientId, write: impl FnOnce(&mut Reply<'_>)) {
        let limit = self.output_limit();
        let Some(session) = self.clients.reachable_mut(id) else { return };
        session.out.set_limit(limit.max(session.out.owned()));
        write(&mut Reply { out: &mut session.out, resp3: session.client.resp3 });
        self.clients.list_id(id);
    }
}
