//! What a command set in motion for others: broken transactions, keyspace events, lines for MONITOR.

use super::Server;
use super::tracking::Own;
use crate::command::{Command, flag};
use crate::core::Core;
use crate::keyspace::{Followup, Keyspace};
use crate::session::args::{Args, is_secret};
use crate::session::{Client, ClientId, Fate, ReplyMode, Session};
use crate::text;
use alloc::format;
use alloc::string::String;

impl Server {
    /// Carries out what the keyspace collected during a command of `present`, or between commands.
    pub(super) fn follow_up(&mut self, mut present: Option<&mut Client>) {
        for id in core::mem::take(&mut self.keyspace.touched) {
            if let Some(client) = present.as_deref_mut().filter(|client| client.handle == id) {
                client.watch_broken = true;
            } else if let Some(s) = self.core.clients.get_mut(id) {
                s.client.watch_broken = true;
            }
        }
        let mut own = Own::new();
        for followup in core::mem::take(&mut self.keyspace.events) {
            match followup {
                Followup::Event(event) => {
                    self.core.publish_event(self.keyspace.notify_mask, &event, present.as_deref_mut());
                }
                Followup::Invalidate(change) => self.invalidate(&change, &mut present, &mut own),
                Followup::InvalidateAll => self.invalidate_all(&mut present, &mut own),
                Followup::Broadcasts => self.send_broadcasts(present.as_deref_mut()),
            }
        }
        if let Some(client) = present
            && !own.is_empty()
        {
            self.tell_own(client, own);
        }
        self.keyspace.effects.clear();
    }

    /// Closes a session whose output is beyond the limits of its class.
    pub(super) fn check_output(&mut self, session: &mut Session) {
        if session.client.fate == Fate::Abort {
            return;
        }
        let limit = self.core.config.output_limits[usize::from(session.client.is_subscribed()) * 2];
        // By what the user set, everything that waits counts, values that are sent from where they lie with it.
        let queued = session.out.len() as u64;
        let over = |limit: u64| limit != 0 && queued >= limit;
        let mut close = session.out.overflowed() || over(limit.hard);
        if over(limit.soft) {
            let since = *session.client.soft_limit_since.get_or_insert(self.core.now_us);
            close |= self.core.now_us.saturating_sub(since) >= limit.soft_seconds.saturating_mul(1_000_000);
        } else {
            session.client.soft_limit_since = None;
        }
        if close {
            let who: String = format!("client {} ({})", session.client.id, session.client.peer);
            if session.out.overflowed() {
                log::warn!("closing {who}: there is no memory for its output");
            } else {
                log::warn!("closing {who}: its output is beyond the limit ({queued} bytes)");
            }
            self.core.stats.output_limit_closes += 1;
            session.client.fate = Fate::Abort;
            self.core.clients.list(&mut session.client);
        }
    }

    /// The same for a session that was written to by others.
    pub(super) fn check_output_of(&mut self, id: ClientId) {
        if let Some(mut session) = self.core.clients.take(id) {
            self.check_output(&mut session);
            self.core.clients.put_back(session);
        }
    }
}

impl Core {
    /// Takes a session that is going out of every register.
    pub(super) fn forget(&mut self, space: &mut Keyspace, client: &mut Client) {
        self.leave_queues(space, client);
        space.unwatch(client);
        space.end_tracking(client);
        self.unsubscribe_all(client);
        let id = client.handle;
        if client.monitor {
            client.monitor = false;
            self.monitors.retain(|m| *m != id);
        }
    }

    /// Ends a session other than the present one. As far as others can tell it is gone; its connection is still to be reset.
    pub fn kill(&mut self, space: &mut Keyspace, id: ClientId) {
        let Some(mut session) = self.clients.take(id) else { return };
        self.forget(space, &mut session.client);
        session.client.killed = true;
        self.clients.put_back(session);
        self.clients.end(id, Fate::Abort);
    }

    /// Shows a command that was carried out to the clients that MONITOR. Who does that itself sees it after the reply.
    pub fn feed_monitors(&mut self, client: &mut Client, command: &Command, args: Args<'_>) {
        if self.monitors.is_empty() || command.has(flag::SKIP_MONITOR | flag::ADMIN) {
            return;
        }
        let mut line = format!(
            "+{}.{:06} [{} {}]",
            self.unix_us.div_euclid(1_000_000),
            self.unix_us.rem_euclid(1_000_000),
            client.db,
            client.peer
        );
        for (at, arg) in args.iter_from(0).enumerate() {
            line.push(' ');
            text::quoted(&mut line, if is_secret(args, at) { b"(redacted)" } else { arg });
        }
        line.push_str("\r\n");
        let monitors = core::mem::take(&mut self.monitors);
        // A line is a reply, which CLIENT REPLY holds back, also while it speaks of a command that is still to come.
        let muted = |mode: ReplyMode| mode != ReplyMode::On;
        for &id in &monitors {
            if id == client.handle {
                if client.hears_replies() {
                    client.pushes.write(line.as_bytes());
                }
            } else if !self.clients.get(id).is_some_and(|s| muted(s.client.reply_mode)) {
                self.send_to(id, |reply| reply.raw(line.as_bytes()));
            }
        }
        self.monitors = monitors;
    }
}
