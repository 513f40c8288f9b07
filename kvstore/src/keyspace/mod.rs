//! The keyspace: sixteen databases of keys, and everything that a change of a key sets in motion.
//!
//! Commands see it through [`Keys`], one database at a time. What a change means for others - watching transactions,
//! waiting clients, subscribers of keyspace events, the log of effects - is collected in queues here and carried out by
//! the server when the command has ended.

pub mod access;
mod evict;
mod expiry;
mod keys;
mod lazy;
pub mod policy;
mod removal;
pub mod strings;
pub mod tracking;
mod watch;

pub use keys::{Found, Keys};
pub use lazy::LazyFree;
pub use strings::NewStr;

use crate::config::Config;
use crate::session::ClientId;
use crate::session::args::OwnedArgs;
use crate::table::{Hashing, NO_DEADLINE, Table};
use crate::value::Item;
use access::Access;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use evict::Evictor;
use expiry::Sweep;
use hashbrown::HashMap;
use policy::Order;
use tracking::{Invalidation, Tracking};

/// Number of databases unless configured otherwise.
pub const DATABASES: usize = 16;

/// Classes of keyspace events, as `notify-keyspace-events` names them.
#[allow(missing_docs)]
pub mod event {
    pub const KEYSPACE: u32 = 1; // K
    pub const KEYEVENT: u32 = 1 << 1; // E
    pub const GENERIC: u32 = 1 << 2; // g
    pub const STRING: u32 = 1 << 3; // $
    pub const LIST: u32 = 1 << 4; // l
    pub const SET: u32 = 1 << 5; // s
    pub const HASH: u32 = 1 << 6; // h
    pub const ZSET: u32 = 1 << 7; // z
    pub const EXPIRED: u32 = 1 << 8; // x
    pub const EVICTED: u32 = 1 << 9; // e
    pub const STREAM: u32 = 1 << 10; // t
    pub const KEY_MISS: u32 = 1 << 11; // m
    pub const LOADED: u32 = 1 << 12;
    pub const MODULE: u32 = 1 << 13; // d
    pub const NEW: u32 = 1 << 14; // n
    pub const ALL: u32 = GENERIC | STRING | LIST | SET | HASH | ZSET | EXPIRED | EVICTED | STREAM | MODULE; // A
}

/// Keyed by the engine's own hash.
pub type KeyMap<V> = HashMap<Box<[u8]>, V, MapHashing>;

/// [`Hashing`] for `hashbrown`'s maps.
#[derive(Clone, Debug)]
pub struct MapHashing(pub Hashing);

/// See [`MapHashing`].
#[derive(Debug)]
pub struct MapHasher(Hashing, u64);

impl core::hash::BuildHasher for MapHashing {
    type Hasher = MapHasher;
    fn build_hasher(&self) -> MapHasher {
        MapHasher(self.0, 0)
    }
}

impl core::hash::Hasher for MapHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.1 = self.1.rotate_left(5) ^ self.0.hash(bytes);
    }
    fn finish(&self) -> u64 {
        self.1
    }
}

/// A database.
#[derive(Debug)]
pub struct Db {
    /// Its keys.
    pub table: Table<Item>,
    /// Sum of its keys' deadlines (Unix time, in ms).
    pub(crate) deadlines: i128,
    /// Where active expiry stands.
    sweep: Sweep,
    /// Who WATCHes which key.
    pub watched: KeyMap<Vec<ClientId>>,
    /// Who waits for which key, in the order in which they came.
    pub waiting: KeyMap<VecDeque<ClientId>>,
    /// Whether anybody watches or waits here, or tracks: whether a change concerns others.
    observed: bool,
}

impl Db {
    fn new(hashing: Hashing) -> Self {
        let maps = MapHashing(hashing);
        Self {
            table: Table::new(hashing),
            deadlines: 0,
            sweep: Sweep::new(),
            watched: HashMap::with_hasher(maps.clone()),
            waiting: HashMap::with_hasher(maps),
            observed: false,
        }
    }
}

impl Db {
    /// Mean time that keys with a deadline have left, in ms.
    pub fn average_ttl(&self, now_ms: i64) -> i64 {
        let volatile = self.table.volatile() as i128;
        let sum = self.deadlines - i128::from(now_ms) * volatile;
        sum.checked_div(volatile).map_or(0, |mean| mean.max(0) as i64)
    }
}

/// A keyspace event that is to be published.
#[derive(Debug)]
pub struct Event {
    /// Database.
    pub db: usize,
    /// Name of the event.
    pub name: &'static str,
    /// Key.
    pub key: Box<[u8]>,
}

/// What a command set in motion for others, in the order in which it happened.
#[derive(Debug)]
pub enum Followup {
    /// A keyspace event is to be published.
    Event(Event),
    /// A key changed that clients may have in their caches.
    Invalidate(Invalidation),
    /// All keys of a database did.
    InvalidateAll,
    /// Many keys changed that have a prefix which clients track.
    Broadcasts,
}

/// A change in the form in which it is logged and replicated.
#[derive(Debug)]
pub struct Effect {
    /// Database.
    pub db: usize,
    /// The command.
    pub args: OwnedArgs,
}

/// How the present command's effect is described.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EffectForm {
    /// By the command as it was given, if it changed anything.
    #[default]
    Verbatim,
    /// By what the handler put into the list.
    Replaced,
}

/// Counters that INFO shows.
#[derive(Debug, Default)]
pub struct KeyStats {
    /// Reads that found their key.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Keys removed because their time had come.
    pub expired: u64,
    /// Keys removed to make room.
    pub evicted: u64,
    /// Running mean of the share of keys with a deadline whose time had come when the sweep came, in percent.
    pub stale_percent: f64,
    /// Steps of the sweep that ended at their bound, with more to do.
    pub expire_steps_cut: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Keyspace {
    /// The databases.
    pub dbs: Vec<Db>,
    /// Present Unix time, in ms; stands still during a command.
    pub now_ms: i64,
    /// Counts changes; a command that left it alone changed nothing.
    pub dirty: u64,
    /// Counters.
    pub stats: KeyStats,
    /// Values whose memory is being given back.
    pub lazy: LazyFree,
    /// Classes of events that are published ([`event`]).
    pub notify_mask: u32,
    /// Events of the present command, and changes that tracking clients are told of.
    pub events: Vec<Followup>,
    /// Keys that somebody waits for and that the present command changed.
    pub ready: Vec<(usize, Box<[u8]>)>,
    /// Clients with a watched key that the present command changed.
    pub touched: Vec<ClientId>,
    /// CLIENT TRACKING.
    pub tracking: Tracking,
    /// Whether effects are collected.
    pub effects_wanted: bool,
    /// Effects of the present command.
    pub effects: Vec<Effect>,
    /// How the present command's effect is described.
    pub effect_form: EffectForm,
    /// Whether keys stay as they are though their time has come: the present command does not write, and clients are paused.
    pub frozen: bool,
    /// Whether keys whose time has come are removed by the sweep too.
    pub active_expiry: bool,
    /// Whether removed keys are logged as UNLINK, not as DEL: those whose time had come, those that made room.
    lazy_removal: [bool; 2],
    /// `active-expire-effort`.
    expire_effort: u32,
    /// When the sweep has something to do next (Unix time, in ms).
    next_sweep_ms: i64,
    /// Which keys make room.
    evictor: Evictor,
    /// The clock of accesses.
    pub access: Access,
    hashing: Hashing,
}

impl Keyspace {
    /// An empty keyspace; `seed` is that of its random choices.
    pub fn new(hashing: Hashing, databases: usize, seed: u64) -> Self {
        Self {
            dbs: (0..databases).map(|_| Db::new(hashing)).collect(),
            now_ms: 0,
            dirty: 0,
            stats: KeyStats::default(),
            lazy: LazyFree::default(),
            notify_mask: 0,
            events: Vec::new(),
            ready: Vec::new(),
            touched: Vec::new(),
            tracking: Tracking::new(hashing),
            effects_wanted: false,
            effects: Vec::new(),
            effect_form: EffectForm::Verbatim,
            frozen: false,
            active_expiry: true,
            lazy_removal: [false; 2],
            expire_effort: 1,
            next_sweep_ms: NO_DEADLINE,
            evictor: Evictor::new(seed ^ 1),
            access: Access::new(seed),
            hashing,
        }
    }

    /// The hash function of its tables.
    pub const fn hashing(&self) -> Hashing {
        self.hashing
    }

    /// One database.
    pub const fn keys(&mut self, db: usize) -> Keys<'_> {
        Keys::new(self, db)
    }

    /// Takes over what the configuration says of keys.
    pub fn configure(&mut self, config: &Config) {
        self.notify_mask = config.notify_mask;
        let lfu = config.maxmemory_policy.is_some_and(|p| p.order == Order::Lfu);
        self.access.configure(lfu, config.lfu_log_factor, config.lfu_decay_minutes);
        self.evictor.configure(config.maxmemory_policy, config.maxmemory_samples);
        self.lazy_removal = [config.lazy_expire, config.lazy_eviction];
        self.expire_effort = config.expire_effort;
    }

    /// Sets the time that commands see (Unix time, in ms).
    pub const fn set_now(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.access.set_now(now_ms / 1000);
    }

    /// Whether the present command left something to do.
    #[inline]
    pub fn has_followups(&self) -> bool {
        !(self.events.is_empty() && self.ready.is_empty() && self.touched.is_empty() && self.effects.is_empty())
    }

    /// Empties a database; its memory is given back step by step. Returns how many keys there were.
    pub fn flush(&mut self, db: usize) -> usize {
        let hashing = self.hashing;
        let Some(d) = self.dbs.get_mut(db) else { return 0 };
        let n = d.table.len();
        let old = core::mem::replace(&mut d.table, Table::new(hashing));
        (d.deadlines, d.sweep) = (0, Sweep::new());
        // Who waits for a stream's group learns that it is gone.
        self.ready.extend(d.waiting.keys().filter(|key| old.contains(key)).map(|key| (db, key.clone())));
        for (key, watchers) in &d.watched {
            if old.contains(key) {
                self.touched.extend(watchers);
            }
        }
        self.lazy.push_table(old);
        n
    }

    /// Exchanges the contents of two databases. Who watches or waits stays where they are.
    pub fn swap(&mut self, a: usize, b: usize) {
        if a == b || a.max(b) >= self.dbs.len() {
            return;
        }
        let (low, high) = (a.min(b), a.max(b));
        let (left, right) = self.dbs.split_at_mut(high);
        let (x, y) = (&mut left[low], &mut right[0]);
        for d in [&*x, &*y] {
            for (key, watchers) in &d.watched {
                if x.table.contains(key) || y.table.contains(key) {
                    self.touched.extend(watchers);
                }
            }
        }
        core::mem::swap(&mut x.table, &mut y.table);
        core::mem::swap(&mut x.deadlines, &mut y.deadlines);
        core::mem::swap(&mut x.sweep, &mut y.sweep);
        for (n, d) in [(low, &*x), (high, &*y)] {
            for key in d.waiting.keys().filter(|k| x.table.contains(k) || y.table.contains(k)) {
                self.ready.push((n, key.clone()));
            }
        }
    }
}
