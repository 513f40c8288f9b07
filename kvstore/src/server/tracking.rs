//! Client-side caching: what tracking clients are told, and noting what they read.

use super::Server;
use crate::command::{Command, flag, key};
use crate::commands::extract;
use crate::core::Core;
use crate::keyspace::Keyspace;
use crate::keyspace::tracking::{Broadcast, Invalidation};
use crate::session::args::Args;
use crate::session::{Client, ClientId};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

/// Channel on which RESP2 clients that others redirect to are told.
const CHANNEL: &[u8] = b"__redis__:invalidate";
/// Tracked keys that are forgotten in one step if there are more than `tracking-table-max-keys`.
const FORGET_PER_STEP: usize = 1_024;

/// What the present client itself is to be told when everything else is: a key, or (None) that all keys went.
pub(super) type Own = Vec<Option<Box<[u8]>>>;

/// Notes the keys that a command of a tracking client reads. Depends on the modes and on CLIENT CACHING.
pub fn note_reads(space: &mut Keyspace, client: &Client, command: &Command, args: Args<'_>) {
    let Some(state) = client.tracking.as_deref().filter(|state| state.on && !state.bcast) else { return };
    if !command.has(flag::READONLY) || (state.optin && !state.caching) || (state.optout && state.caching) {
        return;
    }
    let keys = extract::keys(command, args).unwrap_or_default();
    for (at, _) in keys.into_iter().filter(|(_, flags)| flags & key::NOT_KEY == 0) {
        space.remember_reader(client.handle, args.get(at));
    }
}

/// An array of keys as it goes over the wire.
fn array<'a>(keys: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", keys.len()).into_bytes();
    for key in keys {
        bytes.extend_from_slice(format!("${}\r\n", key.len()).as_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// CLIENT CACHING speaks of one command or transaction, which is over.
pub(super) fn forget_caching(client: &mut Client) {
    if client.multi.is_none()
        && let Some(state) = client.tracking.as_deref_mut()
    {
        state.caching = false;
    }
}

impl Server {
    /// After a command of a client that tracks, or has tracked: notes what it read, and forgets that CLIENT CACHING was
    /// given for it.
    pub(super) fn after_tracked(&mut self, client: &mut Client, command: Option<&Command>, args: Args<'_>) {
        self.keyspace.tracking.author = None;
        if let Some(command) = command {
            note_reads(&mut self.keyspace, client, command, args);
            self.limit_tracked();
        }
        if !args.is(0, "client") {
            forget_caching(client);
        }
        if self.keyspace.has_followups() {
            self.follow_up(Some(client));
        }
    }

    /// Keeps the table of what clients have read within its limit; returns whether there is more to do.
    pub(super) fn limit_tracked(&mut self) -> bool {
        let max = self.core.config.tracking_max_keys;
        self.keyspace.limit_tracked_keys(max, FORGET_PER_STEP, &mut self.core.rng)
    }

    /// Tells the clients that may have a key in their caches that it changed.
    pub(super) fn invalidate(&mut self, change: &Invalidation, present: &mut Option<&mut Client>, own: &mut Own) {
        let key = array(core::iter::once(&*change.key));
        change.readers.each(|id| {
            if let Some(client) = present.as_deref_mut().filter(|client| client.handle == id) {
                if client.tracking.as_ref().is_some_and(|state| state.on && !state.bcast && !state.noloop) {
                    own.push(Some(change.key.clone()));
                }
            } else if self.core.clients.get(id).is_some_and(|s| s.client.tracks_keys()) {
                self.core.tell_tracker(present.as_deref_mut(), id, &key);
            }
        });
    }

    /// Tells every client that tracks that all keys went.
    pub(super) fn invalidate_all(&mut self, present: &mut Option<&mut Client>, own: &mut Own) {
        if present.as_ref().is_some_and(|client| client.tracking.as_ref().is_some_and(|state| state.on)) {
            own.push(None);
        }
        let tracks = |s: &&crate::session::Session| s.client.tracking.as_ref().is_some_and(|state| state.on);
        let all: Vec<(ClientId, bool)> =
            self.core.clients.iter().filter(tracks).map(|s| (s.client.handle, s.client.resp3)).collect();
        for (id, resp3) in all {
            self.core.tell_tracker(present.as_deref_mut(), id, nothing(resp3));
        }
    }

    /// Tells the present client what concerns itself, after everything else.
    pub(super) fn tell_own(&mut self, client: &mut Client, own: Own) {
        let (id, resp3) = (client.handle, client.resp3);
        for key in own {
            match key {
                Some(key) => self.core.tell_tracker(Some(client), id, &array(core::iter::once(&*key))),
                None => self.core.tell_tracker(Some(client), id, nothing(resp3)),
            }
        }
    }

    /// Tells the clients that track by prefix what has changed since they were told last.
    pub(super) fn send_broadcasts(&mut self, mut present: Option<&mut Client>) {
        while let Some(Broadcast { clients, keys }) = self.keyspace.tracking.next_broadcast() {
            let all = array(keys.keys().map(|key| &**key));
            for id in clients {
                let state = match &present {
                    Some(client) if client.handle == id => client.tracking.as_deref(),
                    _ => self.core.clients.get(id).and_then(|s| s.client.tracking.as_deref()),
                };
                let others: Vec<&[u8]>;
                let some: Vec<u8>;
                let payload = if state.is_some_and(|state| state.noloop) && keys.values().any(|by| *by == Some(id)) {
                    others = keys.iter().filter(|(_, by)| **by != Some(id)).map(|(key, _)| &**key).collect();
                    if others.is_empty() {
                        continue;
                    }
                    some = array(others.into_iter());
                    &some
                } else {
                    &all
                };
                self.core.tell_tracker(present.as_deref_mut(), id, payload);
            }
        }
    }
}

/// That all keys went, in a client's own protocol.
const fn nothing(resp3: bool) -> &'static [u8] {
    if resp3 { b"_\r\n" } else { b"$-1\r\n" }
}

impl Core {
    /// Sends a tracking client, or the one that it redirects to, an invalidation. If that one is gone the client itself is
    /// told so.
    fn tell_tracker(&mut self, mut present: Option<&mut Client>, id: ClientId, payload: &[u8]) {
        let redirect = match present.as_deref().filter(|client| client.handle == id) {
            Some(client) => client.tracking.as_ref().and_then(|state| state.redirect),
            None => {
                let session = self.clients.get(id);
                session.and_then(|s| s.client.tracking.as_ref()).and_then(|state| state.redirect)
            }
        };
        let Some((number, target)) = redirect else {
            return self.deliver(present, id, |reply| {
                if reply.resp3 {
                    reply.push(2);
                    reply.bulk(b"invalidate");
                    reply.raw(payload);
                }
            });
        };
        let subscribed = match present.as_deref().filter(|client| client.handle == target) {
            Some(client) => Some(client.is_subscribed()),
            None => self.clients.reachable_mut(target).map(|s| s.client.is_subscribed()),
        };
        let Some(subscribed) = subscribed else {
            let state = match present.as_deref_mut().filter(|client| client.handle == id) {
                Some(client) => client.tracking.as_deref_mut(),
                None => self.clients.get_mut(id).and_then(|s| s.client.tracking.as_deref_mut()),
            };
            if let Some(state) = state {
                state.broken = true;
            }
            return self.deliver(present, id, |reply| {
                if reply.resp3 {
                    reply.push(2);
                    reply.bulk(b"tracking-redir-broken");
                    reply.int(number as i64);
                }
            });
        };
        self.deliver(present, target, |reply| {
            if reply.resp3 {
                reply.push(2);
                reply.bulk(b"invalidate");
                reply.raw(payload);
            } else if subscribed {
                reply.push(3);
                reply.bulk(b"message");
                reply.bulk(CHANNEL);
                reply.raw(payload);
            }
        });
    }
}
