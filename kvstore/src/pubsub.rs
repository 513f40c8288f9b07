//! Publish/subscribe: who listens to what, and sending it to them.
//!
//! Messages to the client whose command causes them are kept until its reply is written; those to others go straight into
//! their output.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;

use crate::clients::Clients;
use crate::core::Core;
use crate::glob;
use crate::keyspace::{Event, event};
use crate::reply::Reply;
use crate::session::{Client, ClientId, Fate, Subscriptions};

/// What a subscription is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A channel.
    Channel,
    /// All channels that a glob pattern matches.
    Pattern,
    /// A shard channel.
    Shard,
}

type Listeners = BTreeMap<Box<[u8]>, BTreeSet<ClientId>>;

/// Who listens to what.
#[derive(Debug, Default)]
pub struct PubSub {
    channels: Listeners,
    patterns: Listeners,
    shards: Listeners,
}

impl PubSub {
    fn listeners_mut(&mut self, kind: Kind) -> &mut Listeners {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shards,
        }
    }

    fn listeners(&self, kind: Kind) -> &Listeners {
        match kind {
            Kind::Channel => &self.channels,
            Kind::Pattern => &self.patterns,
            Kind::Shard => &self.shards,
        }
    }

    /// Number of clients that are subscribed to exactly this.
    pub fn subscribers(&self, kind: Kind, name: &[u8]) -> usize {
        self.listeners(kind).get(name).map_or(0, BTreeSet::len)
    }

    /// Everything of a kind that somebody is subscribed to.
    pub fn names(&self, kind: Kind) -> impl ExactSizeIterator<Item = &[u8]> {
        self.listeners(kind).keys().map(|name| &**name)
    }

    /// Subscribes a client; false if it was already.
    pub fn subscribe(&mut self, kind: Kind, client: &mut Client, name: &[u8]) -> bool {
        let own = client.subscriptions.get_or_insert_default();
        if !own.of_mut(kind).insert(name.into()) {
            return false;
        }
        self.listeners_mut(kind).entry(name.into()).or_default().insert(client.handle);
        true
    }

    /// Ends a subscription; false if there was none.
    pub fn unsubscribe(&mut self, kind: Kind, client: &mut Client, name: &[u8]) -> bool {
        let Some(own) = client.subscriptions.as_mut() else { return false };
        if !own.of_mut(kind).remove(name) {
            return false;
        }
        if own.is_empty() {
            client.subscriptions = None;
        }
        let listeners = self.listeners_mut(kind);
        if let Some(clients) = listeners.get_mut(name) {
            clients.remove(&client.handle);
            if clients.is_empty() {
                listeners.remove(name);
            }
        }
        true
    }
}

impl Subscriptions {
    /// The subscriptions of a kind.
    pub fn of(&self, kind: Kind) -> &BTreeSet<Box<[u8]>> {
        match kind {
            Kind::Channel => &self.channels,
            Kind::Pattern => &self.patterns,
            Kind::Shard => &self.shards,
        }
    }

    fn of_mut(&mut self, kind: Kind) -> &mut BTreeSet<Box<[u8]>> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shards,
        }
    }
}

/// Sends to a session, unless it is being closed: after its reply, if it is the present one.
fn send(
    clients: &mut Clients,
    limit: usize,
    present: Option<&mut Client>,
    id: ClientId,
    write: impl FnOnce(&mut Reply<'_>),
) {
    if let Some(client) = present
        && client.handle == id
    {
        if client.fate == Fate::Open {
            write(&mut Reply { out: &mut client.pushes, resp3: client.resp3 });
        }
        return;
    }
    let Some(session) = clients.reachable_mut(id) else { return };
    session.out.set_limit(limit.max(session.out.owned()));
    write(&mut Reply { out: &mut session.out, resp3: session.client.resp3 });
    clients.list_id(id);
}

impl Core {
    /// Writes something to a session that may be the present one: to that it is sent after its reply.
    pub fn deliver(&mut self, present: Option<&mut Client>, id: ClientId, write: impl FnOnce(&mut Reply<'_>)) {
        let limit = self.output_limit();
        send(&mut self.clients, limit, present, id, write);
    }

    /// Sends a message to everybody who listens to a channel (or shard channel). `present` is the client whose command this
    /// is part of. Returns how many listeners there are, those that are being closed with them.
    pub fn publish(&mut self, kind: Kind, channel: &[u8], message: &[u8], mut present: Option<&mut Client>) -> usize {
        let limit = self.output_limit();
        let Core { pubsub, clients, .. } = self;
        let word: &[u8] = if kind == Kind::Shard { b"smessage" } else { b"message" };
        let mut sent = 0;
        for &id in pubsub.listeners(kind).get(channel).into_iter().flatten() {
            sent += 1;
            send(clients, limit, present.as_deref_mut(), id, |reply| {
                reply.push(3);
                reply.bulk(word);
                reply.bulk(channel);
                reply.bulk(message);
            });
        }
        if kind == Kind::Shard {
            return sent;
        }
        for (pattern, listeners) in pubsub.patterns.iter().filter(|(pattern, _)| glob::matches(pattern, channel)) {
            for &id in listeners {
                sent += 1;
                send(clients, limit, present.as_deref_mut(), id, |reply| {
                    reply.push(4);
                    reply.bulk(b"pmessage");
                    reply.bulk(pattern);
                    reply.bulk(channel);
                    reply.bulk(message);
                });
            }
        }
        sent
    }

    /// Publishes a keyspace event on the channels that `mask` asks for.
    pub fn publish_event(&mut self, mask: u32, event: &Event, mut present: Option<&mut Client>) {
        if mask & event::KEYSPACE != 0 {
            let mut channel = format!("__keyspace@{}__:", event.db).into_bytes();
            channel.extend_from_slice(&event.key);
            self.publish(Kind::Channel, &channel, event.name.as_bytes(), present.as_deref_mut());
        }
        if mask & event::KEYEVENT != 0 {
            let channel = format!("__keyevent@{}__:{}", event.db, event.name);
            self.publish(Kind::Channel, channel.as_bytes(), &event.key, present);
        }
    }

    /// Ends all subscriptions of a client without a word.
    pub fn unsubscribe_all(&mut self, client: &mut Client) {
        for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
            while let Some(name) = client.subscriptions.as_ref().and_then(|own| own.of(kind).first().cloned()) {
                self.pubsub.unsubscribe(kind, client, &name);
            }
        }
        client.subscriptions = None;
    }
}
