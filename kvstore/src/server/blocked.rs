//! Clients that wait: entering the queues of their keys, being carried out again, giving up.

use super::Server;
use super::dispatch;
use crate::blocking::{Blocked, Unblock, Wait};
use crate::command::Command;
use crate::commands::table::Entry;
use crate::core::Core;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::reply::Reply;
use crate::session::args::Args;
use crate::session::{Client, ClientId, Fate, Session};
use crate::value::ItemExt;
use alloc::boxed::Box;

/// Clients and keys looked after in one go. A chain of moves between lists could go on for ever.
const MAX_SERVED: usize = 4_096;

impl Server {
    /// Has a session wait, as its command asked for.
    pub(super) fn block(&mut self, client: &mut Client, command: &'static Command, args: Args<'_>) {
        let Some(request) = self.core.wait_request.take() else { return };
        let id = client.handle;
        if let Some(until) = request.until_us {
            self.core.timers.insert((until, id));
        }
        if let Some(db) = self.keyspace.dbs.get_mut(client.db) {
            for key in &request.keys {
                let queue = db.waiting.entry(key.clone()).or_default();
                if !queue.contains(&id) {
                    queue.push_back(id);
                }
            }
            self.keyspace.note_observers(client.db);
        }
        if self.core.jobs.last().is_some_and(|job| job.client == id && job.work.stops_others()) {
            self.core.asleep_until_us = u64::MAX;
        }
        self.core.blocked += 1;
        client.last_command = Some(command);
        client.blocked = Some(Box::new(Blocked {
            wait: request.wait,
            even_without_key: request.even_without_key,
            db: client.db,
            keys: request.keys,
            until_us: request.until_us,
            command,
            args: request.args.unwrap_or_else(|| args.to_owned()),
            since_us: self.core.now_us,
        }));
    }

    /// Serves the clients that wait for keys that a session's command has changed. What they do can concern that session
    /// too: meanwhile it is among the others.
    #[cold]
    pub(super) fn serve_ready_after(&mut self, session: &mut Session) {
        let c = &session.client;
        let stand_in = Session::new(Client::new(c.id, c.handle, c.peer, c.local, 0), 0);
        let id = c.handle;
        self.core.clients.put_back(Box::new(core::mem::replace(session, stand_in)));
        self.serve_ready();
        if let Some(itself) = self.core.clients.take(id) {
            *session = *itself;
        }
    }

    /// Serves the clients that wait for keys that were changed, in the order in which they came.
    pub(super) fn serve_ready(&mut self) {
        let mut budget = MAX_SERVED;
        while budget > 0 && !self.keyspace.ready.is_empty() {
            let (db, key) = self.keyspace.ready.remove(0);
            let Some(queue) = self.keyspace.dbs.get(db).and_then(|d| d.waiting.get(&key)) else { continue };
            let waiters: alloc::vec::Vec<ClientId> = queue.iter().copied().collect();
            for id in waiters {
                budget = budget.saturating_sub(1);
                let found = self.keyspace.keys(db).peek(&key).map(ItemExt::type_of);
                // Whoever is being closed would only lose what it is given.
                let open = self.core.clients.get(id).filter(|s| s.client.fate == Fate::Open);
                let fits = open.and_then(|s| s.client.blocked.as_ref()).is_some_and(|b| {
                    b.db == db && (found.is_some_and(|t| b.wait == Wait::Key(t)) || b.even_without_key)
                });
                if fits && let Some(session) = self.core.clients.take(id) {
                    self.try_again(session);
                }
            }
        }
    }

    /// Carries a waiting command out again; if it asks to go on waiting it keeps its place.
    fn try_again(&mut self, mut session: Box<Session>) {
        let Some(blocked) = session.client.blocked.take() else { return self.core.clients.put_back(session) };
        self.begin(&mut session);
        let mark = session.out.mark();
        let args = blocked.args.args();
        if let Ok(entry) = dispatch::find(&self.core, args) {
            // The user's rules may have changed meanwhile.
            match self.core.permit(&session.client, entry, args) {
                Ok(()) => {
                    let tracks = session.client.tracking.is_some();
                    self.keyspace.tracking.author = tracks.then_some(session.client.handle);
                    self.call_again(&mut session, entry, args);
                    if tracks {
                        self.after_tracked(&mut session.client, Some(entry.command), args);
                    }
                }
                Err(e) => {
                    self.count_rejected(entry);
                    self.core.stats.error(e.code());
                    Reply { out: &mut session.out, resp3: session.client.resp3 }.error(&e);
                }
            }
        }
        if self.core.wait_request.take().is_some() {
            session.client.blocked = Some(blocked);
        } else {
            session.client.blocked = Some(blocked);
            self.core.leave_queues(&mut self.keyspace, &mut session.client);
            let Session { client, out, .. } = &mut *session;
            dispatch::take_back_unwanted(client, out, Some(mark));
            self.core.clients.list(client);
        }
        if self.keyspace.has_followups() {
            self.follow_up(Some(&mut session.client));
        }
        if !session.client.pushes.is_empty() {
            let Session { client, out, .. } = &mut *session;
            out.append(&mut client.pushes);
        }
        self.finish(session);
    }

    fn call_again(&mut self, session: &mut Session, entry: Entry, args: Args<'_>) {
        let reply = Reply { out: &mut session.out, resp3: session.client.resp3 };
        let mut ctx = Ctx {
            command: entry.command,
            args,
            reply,
            keys: self.keyspace.keys(session.client.db),
            client: &mut session.client,
            core: &mut self.core,
            deny_blocking: false,
        };
        dispatch::call(&mut ctx, entry);
    }

    /// Carries out the command that a pause kept.
    pub(super) fn resume(&mut self, id: ClientId) {
        let Some(mut session) = self.core.clients.take(id) else { return };
        if let Some(blocked) = self.core.leave_queues(&mut self.keyspace, &mut session.client) {
            self.begin(&mut session);
            let Session { client, out, .. } = &mut *session;
            self.execute_in_full(client, out, blocked.args.args());
        }
        self.finish(session);
        if !self.keyspace.ready.is_empty() {
            self.serve_ready();
        }
    }

    /// Ends a client's wait without having served it. Returns whether it was waiting.
    pub(super) fn unblock(&mut self, id: ClientId, why: Unblock) -> bool {
        let blocked = self.answer_waiting(id, |blocked, reply| match (why, blocked.wait) {
            (Unblock::Error, _) => reply.error(&Error::Fixed("UNBLOCKED client unblocked via CLIENT UNBLOCK")),
            (Unblock::Timeout, Wait::Key(_)) => reply.null_array(),
            (Unblock::Timeout, Wait::Time) => reply.ok(),
            (Unblock::Timeout, Wait::Replicas) => reply.int(0),
            (Unblock::Timeout, Wait::ReplicaLogs) => {
                reply.array(2);
                reply.int(0);
                reply.int(0);
            }
            (Unblock::Timeout, Wait::Pause | Wait::Migration) => {}
        });
        if let Some(blocked) = &blocked
            && matches!(blocked.wait, Wait::Key(_))
        {
            self.core.gave_up(blocked.command, why);
        }
        blocked.is_some()
    }

    /// Ends a client's wait with a reply. Returns what it waited for, if it did.
    pub(super) fn answer_waiting(
        &mut self,
        id: ClientId,
        write: impl FnOnce(&Blocked, &mut Reply<'_>),
    ) -> Option<Box<Blocked>> {
        let mut session = self.core.clients.take(id)?;
        let blocked = self.core.leave_queues(&mut self.keyspace, &mut session.client);
        if let Some(blocked) = &blocked {
            let Session { client, out, .. } = &mut *session;
            let mark = out.mark();
            write(blocked, &mut Reply { out, resp3: client.resp3 });
            dispatch::take_back_unwanted(client, out, Some(mark));
            self.core.clients.list(client);
        }
        self.core.clients.put_back(session);
        blocked
    }
}

impl Core {
    /// Takes a session out of the queues that it waits in.
    pub(super) fn leave_queues(&mut self, space: &mut Keyspace, client: &mut Client) -> Option<Box<Blocked>> {
        let blocked = client.blocked.take()?;
        let id = client.handle;
        self.blocked -= 1;
        if let Some(until) = blocked.until_us {
            self.timers.remove(&(until, id));
        }
        if let Some(db) = space.dbs.get_mut(blocked.db) {
            for key in &blocked.keys {
                if let Some(queue) = db.waiting.get_mut(key) {
                    queue.retain(|c| *c != id);
                    if queue.is_empty() {
                        db.waiting.remove(key);
                    }
                }
            }
            space.note_observers(blocked.db);
        }
        Some(blocked)
    }
}
