//! Sessions: what the server knows of each connection.

pub mod args;
pub mod output;
pub mod parser;

use crate::acl::UserId;
use crate::blocking::Blocked;
use crate::command::Command;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use args::OwnedArgs;
use output::Output;
use parser::Parser;

/// A session as platforms and the engine's registries name it: a slot and how often it was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId {
    /// Position in the table of sessions.
    pub slot: u32,
    /// How often the slot was used before.
    pub generation: u32,
}

/// An address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// IPv4 address.
    pub addr: [u8; 4],
    /// TCP port.
    pub port: u16,
}

impl core::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let [a, b, c, d] = self.addr;
        write!(f, "{a}.{b}.{c}.{d}:{}", self.port)
    }
}

/// What is to become of a session's connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// It stays open.
    #[default]
    Open,
    /// It is closed when the output is sent; input is no longer read.
    CloseAfterOutput,
    /// It is reset at once.
    Abort,
}

/// Which replies a session gets (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// Not the one to the present command (CLIENT REPLY SKIP).
    SkipThis,
    /// Not the one to the next command.
    SkipNext,
    /// Neither.
    SkipThisAndNext,
}

impl ReplyMode {
    /// Whether what the present command answers is sent.
    #[inline]
    pub const fn wants_replies(self) -> bool {
        matches!(self, ReplyMode::On | ReplyMode::SkipNext)
    }
}

/// A transaction that is being queued.
#[derive(Debug, Default)]
pub struct Multi {
    /// The commands.
    pub queue: Vec<(&'static Command, OwnedArgs)>,
    /// Whether one of them was refused, so that EXEC will be too.
    pub failed: bool,
}

/// Channels and patterns that a session is subscribed to.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// Channels.
    pub channels: BTreeSet<Box<[u8]>>,
    /// Patterns.
    pub patterns: BTreeSet<Box<[u8]>>,
    /// Shard channels.
    pub shards: BTreeSet<Box<[u8]>>,
}

impl Subscriptions {
    /// Channels and patterns (not shard channels).
    pub fn count(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// Whether there are none at all.
    pub fn is_empty(&self) -> bool {
        self.count() + self.shards.len() == 0
    }
}

/// CLIENT TRACKING as a session has asked for it. All off: it has turned it off again.
#[derive(Debug, Default)]
pub struct TrackingState {
    /// Whether it tracks.
    pub on: bool,
    /// By prefix, not by what it reads.
    pub bcast: bool,
    /// Only what it reads after CLIENT CACHING YES.
    pub optin: bool,
    /// Everything but what it reads after CLIENT CACHING NO.
    pub optout: bool,
    /// Not its own changes.
    pub noloop: bool,
    /// Whether CLIENT CACHING was given for the command, or transaction, to come.
    pub caching: bool,
    /// Whether the session that it redirects to was found to be gone.
    pub broken: bool,
    /// The session that is told in its place, by number and by name.
    pub redirect: Option<(u64, ClientId)>,
    /// Prefixes that it wants to hear of.
    pub prefixes: BTreeSet<Box<[u8]>>,
}

/// A session's state, without its input and output.
#[derive(Debug)]
pub struct Client {
    /// Number that CLIENT ID gives.
    pub id: u64,
    /// Name in the table of sessions.
    pub handle: ClientId,
    /// The other end.
    pub peer: Endpoint,
    /// This end.
    pub local: Endpoint,
    /// CLIENT SETNAME.
    pub name: Vec<u8>,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: Vec<u8>,
    /// CLIENT SETINFO LIB-VER.
    pub lib_ver: Vec<u8>,
    /// Selected database.
    pub db: usize,
    /// Whether it speaks RESP3.
    pub resp3: bool,
    /// Whose it is.
    pub user: UserId,
    /// Whether it need not authenticate (any more).
    pub authenticated: bool,
    /// Whether it has authenticated as a user that may do everything. [`Core`](crate::core::Core) keeps it true.
    pub unrestricted: bool,
    /// What is to become of its connection.
    pub fate: Fate,
    /// CLIENT REPLY.
    pub reply_mode: ReplyMode,
    /// CLIENT NO-EVICT.
    pub no_evict: bool,
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
    /// Whether it is a MONITOR.
    pub monitor: bool,
    /// The transaction that is being queued.
    pub multi: Option<Box<Multi>>,
    /// How many commands the EXEC has that is being carried out.
    pub executing: Option<usize>,
    /// Keys it watches, with their databases.
    pub watching: Vec<(usize, Box<[u8]>)>,
    /// Whether a watched key was changed.
    pub watch_broken: bool,
    /// Subscriptions; None if there never were any.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// CLIENT TRACKING; None if it was never turned on.
    pub tracking: Option<Box<TrackingState>>,
    /// What it waits for.
    pub blocked: Option<Box<Blocked>>,
    /// Pushes to itself that its present command causes: sent after the reply.
    pub pushes: Output,
    /// When it connected, monotonic time in us.
    pub created_us: u64,
    /// When it last sent something, monotonic time in us.
    pub active_us: u64,
    /// Last command.
    pub last_command: Option<&'static Command>,
    /// Since when its output is beyond the soft limit, monotonic time in us.
    pub soft_limit_since: Option<u64>,
    /// Commands it has sent.
    pub commands: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Most bytes of replies that waited to be sent at once since [`reply_peak_since_us`](Self::reply_peak_since_us).
    pub reply_peak: usize,
    /// Monotonic time, in us.
    pub reply_peak_since_us: u64,
    /// Where the platform keeps its connection.
    pub(crate) home: u8,
    /// Whether it is in the list of sessions that the platform should look at.
    pub(crate) listed: bool,
    /// Whether it is held back until memory was given back, a pause ends or the server wakes up.
    pub(crate) held: bool,
    /// Whether it was killed: it is in no register any more, and only its connection is still to be closed.
    pub(crate) killed: bool,
}

impl Client {
    /// A session that has just connected, not authenticated.
    pub fn new(id: u64, handle: ClientId, peer: Endpoint, local: Endpoint, now_us: u64) -> Self {
        Self {
            id,
            handle,
            peer,
            local,
            name: Vec::new(),
            lib_name: Vec::new(),
            lib_ver: Vec::new(),
            db: 0,
            resp3: false,
            user: UserId::DEFAULT,
            authenticated: false,
            unrestricted: false,
            fate: Fate::Open,
            reply_mode: ReplyMode::On,
            no_evict: false,
            no_touch: false,
            monitor: false,
            multi: None,
            executing: None,
            watching: Vec::new(),
            watch_broken: false,
            subscriptions: None,
            tracking: None,
            blocked: None,
            pushes: Output::new(usize::MAX),
            created_us: now_us,
            active_us: now_us,
            last_command: None,
            soft_limit_since: None,
            commands: 0,
            bytes_in: 0,
            bytes_out: 0,
            reply_peak: 0,
            reply_peak_since_us: now_us,
            home: 0,
            listed: false,
            held: false,
            killed: false,
        }
    }

    /// Whether the reply to its present command, or the next part of it, reaches it.
    pub fn hears_replies(&self) -> bool {
        self.reply_mode.wants_replies() && self.fate == Fate::Open
    }

    /// Whether it is subscribed to something (which restricts a RESP2 session's commands).
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions.as_ref().is_some_and(|s| !s.is_empty())
    }

    /// Whether commands are carried out one by one as they come, with nothing special about this session.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.multi.is_none()
            && self.subscriptions.is_none()
            && self.tracking.is_none()
            && matches!(self.reply_mode, ReplyMode::On)
            && self.unrestricted
            && !self.monitor
    }

    /// Bytes that queued commands take.
    pub fn queued_memory(&self) -> usize {
        let multi = self.multi.as_ref();
        multi.map_or(0, |m| m.queue.iter().map(|queued| size_of_val(queued) + queued.1.memory_usage()).sum())
    }

    /// Bytes that it owns beside its own size.
    pub fn memory_usage(&self) -> usize {
        let names = |set: &BTreeSet<Box<[u8]>>| set.iter().map(|name| size_of_val(name) + name.len()).sum::<usize>();
        let subscriptions = self.subscriptions.as_ref();
        self.name.capacity()
            + self.lib_name.capacity()
            + self.lib_ver.capacity()
            + self.queued_memory()
            + self.watching.iter().map(|watched| size_of_val(watched) + watched.1.len()).sum::<usize>()
            + subscriptions.map_or(0, |s| names(&s.channels) + names(&s.patterns) + names(&s.shards))
            + self.tracking.as_ref().map_or(0, |t| size_of::<TrackingState>() + names(&t.prefixes))
            + self.blocked.as_ref().map_or(0, |b| size_of_val(&**b) + b.args.memory_usage())
    }

    /// Whether it is to be told when keys change that it has read.
    pub fn tracks_keys(&self) -> bool {
        self.tracking.as_ref().is_some_and(|state| state.on && !state.bcast)
    }

    /// Whether its input is to be left alone for now.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.blocked.is_some() || self.held || self.fate != Fate::Open
    }
}

/// A session: its state, its input and its output.
#[derive(Debug)]
pub struct Session {
    /// State.
    pub client: Client,
    /// Output.
    pub out: Output,
    /// Parser of the input.
    pub(crate) parser: Parser,
    /// Input that was kept: a command that is not complete, or whatever came while the session was stopped.
    pub query: Vec<u8>,
    /// Whether the peer has finished sending.
    pub(crate) finished: bool,
    /// Bytes that it was last noted with for `maxmemory-clients`.
    pub(crate) charged: usize,
}

impl Session {
    /// A session whose output may own so many bytes.
    pub fn new(client: Client, output_limit: usize) -> Self {
        Self {
            client,
            out: Output::new(output_limit),
            parser: Parser::default(),
            query: Vec::new(),
            finished: false,
            charged: 0,
        }
    }

    /// Whether input is kept, or a command was begun that is not complete.
    #[inline]
    pub(crate) fn is_inside_command(&self) -> bool {
        !self.query.is_empty() || !self.parser.is_idle() || self.parser.is_filling()
    }

    /// Notes how much there is to send, before it is sent; what was noted longer ago than `reset_us` is forgotten.
    #[inline]
    pub fn note_reply(&mut self, now_us: u64, reset_us: u64) {
        let len = self.out.len();
        let c = &mut self.client;
        if now_us.saturating_sub(c.reply_peak_since_us) > reset_us {
            (c.reply_peak, c.reply_peak_since_us) = (len, now_us);
        } else {
            c.reply_peak = c.reply_peak.max(len);
        }
    }

    /// Bytes of input that are kept.
    pub fn query_len(&self) -> usize {
        self.query.len()
    }

    /// Bytes that the session takes.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>()
            + self.client.memory_usage()
            + self.query.capacity()
            + self.parser.memory_usage()
            + self.out.owned()
    }

    /// The same with the values that it sends from where they lie, as if it had copied them: what it is charged with.
    pub fn charged_memory(&self) -> usize {
        self.memory_usage() + self.out.shared()
    }
}
