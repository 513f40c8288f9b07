//! Who is subscribed to what, and delivery.

use crate::core::Core;
use crate::glob;
use crate::keyspace::{Event, KeyMap, MapHashing, event};
use crate::reply::Reply;
use crate::session::{Client, ClientId};
use crate::table::Hashing;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// The registers of channels, patterns and shard channels; no entry is empty.
#[derive(Debug)]
pub struct PubSub {
    /// Subscribers by channel.
    pub channels: KeyMap<Vec<ClientId>>,
    /// Subscribers by pattern.
    pub patterns: BTreeMap<Box<[u8]>, Vec<ClientId>>,
    /// Subscribers by shard channel.
    pub shards: KeyMap<Vec<ClientId>>,
}

impl PubSub {
    /// Nobody is subscribed to anything.
    pub fn new(hashing: Hashing) -> Self {
        let maps = MapHashing(hashing);
        Self {
            channels: HashMap::with_hasher(maps.clone()),
            patterns: BTreeMap::new(),
            shards: HashMap::with_hasher(maps),
        }
    }
}

/// A message as subscribers get it.
fn message(reply: &mut Reply<'_>, kind: &[u8], pattern: Option<&[u8]>, channel: &[u8], text: &[u8]) {
    reply.push(if pattern.is_some() { 4 } else { 3 });
    reply.bulk(kind);
    if let Some(p) = pattern {
        reply.bulk(p);
    }
    reply.bulk(channel);
    reply.bulk(text);
}

impl Core {
    /// Writes something to a session that may be the present one: to that it is sent after its reply.
    pub fn deliver(&mut self, present: Option<&mut Client>, id: ClientId, write: impl FnOnce(&mut Reply<'_>)) {
        match present {
            Some(client) if client.handle == id => {
                write(&mut Reply { out: &mut client.pushes, resp3: client.resp3 });
            }
            _ => self.send_to(id, write),
        }
    }

    /// Sends a message to a channel's subscribers and to those of patterns that match it; returns how many got it.
    pub fn publish(&mut self, mut present: Option<&mut Client>, channel: &[u8], text: &[u8]) -> usize {
        let mut receivers = 0;
        let subscribers = self.pubsub.channels.get(channel).cloned().unwrap_or_default();
        for id in subscribers {
            self.deliver(present.as_deref_mut(), id, |r| message(r, b"message", None, channel, text));
            receivers += 1;
        }
        if self.pubsub.patterns.is_empty() {
            return receivers;
        }
        let matching: Vec<(Box<[u8]>, Vec<ClientId>)> = self
            .pubsub
            .patterns
            .iter()
            .filter(|(pattern, _)| glob::matches(pattern, channel))
            .map(|(pattern, ids)| (pattern.clone(), ids.clone()))
            .collect();
        for (pattern, ids) in matching {
            for id in ids {
                self.deliver(present.as_deref_mut(), id, |r| message(r, b"pmessage", Some(&pattern), channel, text));
                receivers += 1;
            }
        }
        receivers
    }

    /// Sends a message to a shard channel's subscribers; returns how many got it.
    pub fn publish_shard(&mut self, mut present: Option<&mut Client>, channel: &[u8], text: &[u8]) -> usize {
        let subscribers = self.pubsub.shards.get(channel).cloned().unwrap_or_default();
        for &id in &subscribers {
            self.deliver(present.as_deref_mut(), id, |r| message(r, b"smessage", None, channel, text));
        }
        subscribers.len()
    }

    /// Publishes a keyspace event on its channels, as far as `mask` wants them.
    pub fn publish_event(&mut self, mask: u32, e: &Event, mut present: Option<&mut Client>) {
        if mask & event::KEYSPACE != 0 {
            let mut channel = format!("__keyspace@{}__:", e.db).into_bytes();
            channel.extend_from_slice(&e.key);
            self.publish(present.as_deref_mut(), &channel, e.name.as_bytes());
        }
        if mask & event::KEYEVENT != 0 {
            let channel = format!("__keyevent@{}__:{}", e.db, e.name);
            self.publish(present, channel.as_bytes(), &e.key);
        }
    }

    /// Takes a session that is going, or that is reset, out of the registers.
    pub fn unsubscribe_all(&mut self, client: &mut Client) {
        let Some(subscriptions) = client.subscriptions.take() else { return };
        let id = client.handle;
        for channel in &subscriptions.channels {
            leave(&mut self.pubsub.channels, channel, id);
        }
        for channel in &subscriptions.shards {
            leave(&mut self.pubsub.shards, channel, id);
        }
        for pattern in &subscriptions.patterns {
            if let Some(ids) = self.pubsub.patterns.get_mut(pattern) {
                ids.retain(|c| *c != id);
                if ids.is_empty() {
                    self.pubsub.patterns.remove(pattern);
                }
            }
        }
    }
}

/// Takes a session out of one channel's subscribers.
pub fn leave(channels: &mut KeyMap<Vec<ClientId>>, channel: &[u8], id: ClientId) {
    if let Some(ids) = channels.get_mut(channel) {
        ids.retain(|c| *c != id);
        if ids.is_empty() {
            channels.remove(channel);
        }
    }
}
