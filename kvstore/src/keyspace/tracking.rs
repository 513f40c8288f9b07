//! Client-side caching (CLIENT TRACKING): who has read which key, who wants to hear of which prefixes, and what is to be
//! said when a key changes.
//!
//! The keyspace only notes whom a change concerns; the server sends it when the command has ended. As long as no client
//! tracks, a change costs nothing here ([`Db::observed`](super::Db)).

use super::{Followup, Keys, Keyspace};
use crate::random::Rng;
use crate::session::{Client, ClientId};
use crate::table::{Hashing, Keyed, Table};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use barium_cell::ThinBytes;

/// Keys that wait to be told to a prefix's clients before they are told at once, not at the end of the turn.
pub const MAX_WAITING: usize = 4_096;

/// Some clients, most often one.
#[derive(Debug)]
pub enum Readers {
    /// One.
    One(ClientId),
    /// Several.
    Many(Box<BTreeSet<ClientId>>),
}

impl Readers {
    /// How many.
    fn len(&self) -> usize {
        match self {
            Readers::One(_) => 1,
            Readers::Many(all) => all.len(),
        }
    }

    /// Adds one; false if it was there.
    fn add(&mut self, id: ClientId) -> bool {
        match self {
            Readers::One(one) if *one == id => false,
            Readers::One(one) => {
                *self = Readers::Many(Box::new(BTreeSet::from([*one, id])));
                true
            }
            Readers::Many(all) => all.insert(id),
        }
    }

    /// Calls `visit` with each.
    pub fn each(&self, mut visit: impl FnMut(ClientId)) {
        match self {
            Readers::One(one) => visit(*one),
            Readers::Many(all) => all.iter().copied().for_each(visit),
        }
    }
}

/// A key that clients may have in their caches.
#[derive(Debug)]
pub struct Cached {
    key: ThinBytes,
    readers: Readers,
}

impl Keyed for Cached {
    fn key(&self) -> &[u8] {
        self.key.as_bytes()
    }
}

/// A changed key and the clients that may have it in their caches.
#[derive(Debug)]
pub struct Invalidation {
    /// The key.
    pub key: Box<[u8]>,
    /// The clients; some may be gone, or have stopped tracking.
    pub readers: Readers,
}

/// A prefix that clients want to hear of (BCAST).
#[derive(Debug, Default)]
pub struct Broadcast {
    /// The clients.
    pub clients: BTreeSet<ClientId>,
    /// Keys changed since it was last told, each with the client that changed it last, if that is one with NOLOOP.
    pub keys: BTreeMap<Box<[u8]>, Option<ClientId>>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Tracking {
    /// Sessions that have, or had, tracking on. While there are any, changes are looked at.
    holders: usize,
    /// Clients that track.
    pub clients: usize,
    cached: Table<Cached>,
    items: usize,
    prefixes: BTreeMap<Box<[u8]>, Broadcast>,
    /// The prefixes that have keys to be told of.
    waiting: BTreeSet<Box<[u8]>>,
    /// The client whose command is carried out, if it tracks: the one that NOLOOP is about.
    pub author: Option<ClientId>,
}

impl Tracking {
    pub(super) const fn new(hashing: Hashing) -> Self {
        Self {
            holders: 0,
            clients: 0,
            cached: Table::new(hashing),
            items: 0,
            prefixes: BTreeMap::new(),
            waiting: BTreeSet::new(),
            author: None,
        }
    }

    /// Keys in the table of what clients have read.
    pub const fn keys(&self) -> usize {
        self.cached.len()
    }

    /// The same, counted once for each client that has read it.
    pub const fn items(&self) -> usize {
        self.items
    }

    /// Prefixes that somebody wants to hear of.
    pub fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// Whether changed keys wait to be told to the clients of their prefixes.
    pub fn has_broadcasts(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Has a client hear of a prefix.
    pub fn broadcast_to(&mut self, id: ClientId, prefix: &[u8]) {
        self.prefixes.entry(prefix.into()).or_default().clients.insert(id);
    }

    /// Ends that.
    pub fn stop_broadcast_to(&mut self, id: ClientId, prefix: &[u8]) {
        if let Some(broadcast) = self.prefixes.get_mut(prefix) {
            broadcast.clients.remove(&id);
            if broadcast.clients.is_empty() {
                self.prefixes.remove(prefix);
            }
        }
    }

    /// The next prefix's changed keys, taken out, with the clients they are for.
    pub fn next_broadcast(&mut self) -> Option<Broadcast> {
        while let Some(prefix) = self.waiting.pop_first() {
            if let Some(broadcast) = self.prefixes.get_mut(&prefix) {
                let keys = core::mem::take(&mut broadcast.keys);
                return Some(Broadcast { clients: broadcast.clients.clone(), keys });
            }
        }
        None
    }

    /// Notes that a client has read a key. False: there is no memory for it.
    fn remember(&mut self, id: ClientId, key: &[u8]) -> bool {
        if let Some(cached) = self.cached.get_mut(key) {
            self.items += usize::from(cached.readers.add(id));
            return true;
        }
        let Ok(key) = ThinBytes::new(key) else { return false };
        let added = self.cached.insert(Cached { key, readers: Readers::One(id) }).is_ok();
        self.items += usize::from(added);
        added
    }

    /// Takes a key out of the table.
    fn forget(&mut self, key: &[u8]) -> Option<Invalidation> {
        let cached = self.cached.remove(key)?;
        self.items -= cached.readers.len();
        Some(Invalidation { key: cached.key().into(), readers: cached.readers })
    }

    /// Notes a change of a key for the prefixes that it has; true: so many are waiting that they should be told now.
    fn note(&mut self, key: &[u8], author: Option<ClientId>) -> bool {
        let Self { prefixes, waiting, .. } = self;
        let mut many = false;
        let mut add = |prefix: &[u8], broadcast: &mut Broadcast| {
            if broadcast.keys.is_empty() {
                waiting.insert(prefix.into());
            }
            broadcast.keys.insert(key.into(), author);
            many |= broadcast.keys.len() >= MAX_WAITING;
        };
        if prefixes.len() <= key.len() {
            for (prefix, broadcast) in prefixes.iter_mut().filter(|(prefix, _)| key.starts_with(prefix)) {
                add(prefix, broadcast);
            }
        } else {
            for prefix in (0..=key.len()).map(|n| &key[..n]) {
                if let Some(broadcast) = prefixes.get_mut(prefix) {
                    add(prefix, broadcast);
                }
            }
        }
        many
    }
}

impl Keys<'_> {
    /// Collects what the clients that may have a key in their caches are to be told. `author`: whether the present client
    /// changed it, and not the server by itself.
    pub(super) fn invalidate(&mut self, key: &[u8], author: bool) {
        let tracking = &mut self.space.tracking;
        let author = if author { tracking.author } else { None };
        if !tracking.prefixes.is_empty() && tracking.note(key, author) {
            self.space.events.push(Followup::Broadcasts);
        }
        if let Some(invalidation) = self.space.tracking.forget(key) {
            self.space.events.push(Followup::Invalidate(invalidation));
        }
    }
}

impl Keyspace {
    /// Notes that a client has read a key and may keep its value.
    pub fn remember_reader(&mut self, id: ClientId, key: &[u8]) {
        if !self.tracking.remember(id, key) {
            // What cannot be remembered must not be kept.
            self.events.push(Followup::Invalidate(Invalidation { key: key.into(), readers: Readers::One(id) }));
        }
    }

    /// Forgets keys that clients have read, chosen at random, until no more than `max` (0: any number) are left, `most` at
    /// a time; the clients will be told. Returns whether there are still too many.
    pub fn limit_tracked_keys(&mut self, max: usize, most: usize, rng: &mut Rng) -> bool {
        if max == 0 {
            return false;
        }
        for _ in 0..most {
            if self.tracking.cached.len() <= max {
                return false;
            }
            let pos = self.tracking.cached.random(rng);
            let Some(key) = pos.and_then(|pos| self.tracking.cached.at(pos)).map(|c| Box::<[u8]>::from(c.key())) else {
                return false;
            };
            let forgotten = self.tracking.forget(&key);
            self.events.extend(forgotten.map(Followup::Invalidate));
        }
        self.tracking.cached.len() > max
    }

    /// All keys of a database, or of all, were removed by one command: whoever tracks is told so.
    pub fn invalidate_all(&mut self) {
        if self.tracking.clients > 0 {
            self.events.push(Followup::InvalidateAll);
        }
        self.drop_tracked();
    }

    fn drop_tracked(&mut self) {
        let empty = Table::new(self.hashing);
        self.lazy.push_cached(core::mem::replace(&mut self.tracking.cached, empty));
        self.tracking.items = 0;
    }

    /// Turns a client's tracking on, with the modes that it is given.
    pub fn enable_tracking(&mut self, client: &mut Client) -> &mut Tracking {
        let state = client.tracking.get_or_insert_with(|| {
            self.tracking.holders += 1;
            Default::default()
        });
        if !state.on {
            state.on = true;
            self.tracking.clients += 1;
        }
        self.refresh_observed();
        &mut self.tracking
    }

    /// Turns a client's tracking off. What it has read stays noted, in case it turns it on again.
    pub fn disable_tracking(&mut self, client: &mut Client) {
        let Some(state) = client.tracking.as_deref_mut().filter(|state| state.on) else { return };
        let state = core::mem::take(state);
        for prefix in &state.prefixes {
            self.tracking.stop_broadcast_to(client.handle, prefix);
        }
        self.tracking.clients -= 1;
    }

    /// Forgets a client that goes. What it has read stays noted until that changes or nobody is left who might track.
    pub fn end_tracking(&mut self, client: &mut Client) {
        self.disable_tracking(client);
        if client.tracking.take().is_some() {
            self.tracking.holders -= 1;
            if self.tracking.holders == 0 {
                self.drop_tracked();
                self.refresh_observed();
            }
        }
    }

    fn refresh_observed(&mut self) {
        (0..self.dbs.len()).for_each(|db| self.note_observers(db));
    }

    /// To be called when somebody begins or ends to watch a database's keys, to wait for them, or to track.
    pub(crate) fn note_observers(&mut self, db: usize) {
        if let Some(db) = self.dbs.get_mut(db) {
            db.observed = self.tracking.holders > 0 || !db.watched.is_empty() || !db.waiting.is_empty();
        }
    }
}
