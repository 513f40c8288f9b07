//! What is done between the turns of the event loop, in bounded steps.

use super::Server;
use crate::blocking::{Unblock, Wait, WaitRequest};
use crate::command::Command;
use crate::session::args::Args;
use crate::session::{Client, ClientId, Fate};
use crate::table::NO_DEADLINE;
use alloc::vec::Vec;

/// How often sessions' limits are looked at, in us.
const SESSIONS_EVERY_US: u64 = 1_000_000;

impl Server {
    /// Does what time brings. To be called after the sessions that [`next_ready`](Self::next_ready) named were served, and
    /// again when it names some after that. Returns the monotonic time, in us, at which it wants to be called again (u64::MAX: only
    /// after the next input); a time that has passed means that there is more to do at once.
    pub fn tick(&mut self) -> u64 {
        let now = self.core.now_us;
        if self.core.asleep_until_us != 0 {
            if self.core.asleep_until_us == u64::MAX {
                self.job_step();
                if self.core.jobs.iter().any(|job| job.work.stops_others()) {
                    return now;
                }
            } else if self.core.asleep_until_us > now {
                return self.core.asleep_until_us;
            }
            self.core.asleep_until_us = 0;
            self.release_held();
        }
        if self.core.pause.until_us != 0 && self.core.pause.until_us <= now {
            self.core.pause.until_us = 0;
            self.release_held();
        }
        self.give_up();
        let mut next = self.core.timers.first().map_or(u64::MAX, |(at, _)| *at);
        if self.core.pause.until_us != 0 {
            next = next.min(self.core.pause.until_us);
        }
        if self.core.migration.is_some() {
            next = next.min(self.migrate_step());
        }
        if !self.core.spare_links.is_empty() {
            next = next.min(self.core.close_spare_links());
        }
        if self.job_step() {
            next = now;
        }
        // While clients are paused the keys stay as they are.
        let paused = self.core.pause.until_us != 0;
        if !paused && self.keyspace.is_sweep_due() {
            let begin_ns = self.core.machine.monotonic_ns();
            self.keyspace.expire_step();
            self.core.stats.expire_us += self.core.machine.monotonic_ns().saturating_sub(begin_ns) / 1_000;
            self.core.latency_event_since("expire-cycle", begin_ns);
        }
        let sweep_ms = self.keyspace.next_sweep_ms();
        if !paused && sweep_ms != NO_DEADLINE {
            let wait_ms = sweep_ms.saturating_sub(self.keyspace.now_ms).max(0) as u64;
            next = next.min(now.saturating_add(wait_ms.saturating_mul(1000)));
        }
        let too_many_tracked = self.limit_tracked();
        let freeing = self.free_step();
        if freeing || too_many_tracked {
            next = now;
        }
        if self.keyspace.has_followups() {
            self.follow_up(None);
            self.serve_ready();
        }
        if self.keyspace.tracking.has_broadcasts() {
            self.send_broadcasts(None);
        }
        if self.keyspace.lazy.is_empty() {
            for id in core::mem::take(&mut self.core.flushing) {
                self.unblock(id, Unblock::Timeout);
            }
        }
        if !self.core.short_of_memory.is_empty() && (!freeing || !self.core.over_maxmemory()) {
            let waiting = core::mem::take(&mut self.core.short_of_memory);
            self.release(waiting);
        }
        self.look_after_sessions();
        if self.evict_clients() {
            next = now;
        }
        if self.core.config.timeout_s != 0 && !self.core.clients.is_empty() {
            next = next.min(self.next_session_check_us);
        }
        let s = &mut self.core.stats;
        s.rates.sample(now, [s.processed, s.bytes_in, s.bytes_out]);
        next
    }

    /// A step of a command that is carried out in steps; whether there are more.
    fn job_step(&mut self) -> bool {
        let Some(mut job) = self.core.jobs.pop() else { return false };
        if self.core.clients.get(job.client).is_some_and(|s| s.client.blocked.is_some()) {
            match job.work.step(&mut self.keyspace, &mut self.core) {
                Ok(None) => self.core.jobs.push(job),
                Ok(Some(answer)) => drop(self.answer_waiting(job.client, |_, reply| answer.write(reply))),
                Err(error) => drop(self.answer_waiting(job.client, |_, reply| reply.error(&error))),
            }
        }
        !self.core.jobs.is_empty()
    }

    /// Ends the wait of clients whose time is up.
    fn give_up(&mut self) {
        while let Some(&(at, id)) = self.core.timers.first()
            && at <= self.core.now_us
        {
            self.core.timers.pop_first();
            self.unblock(id, Unblock::Timeout);
        }
    }

    /// Has the platform offer input again to the sessions that were held back.
    pub(super) fn release_held(&mut self) {
        let held = core::mem::take(&mut self.core.held);
        self.release(held);
    }

    fn release(&mut self, held: Vec<ClientId>) {
        for id in held {
            let Some(s) = self.core.clients.get_mut(id) else { continue };
            s.client.held = false;
            if s.client.blocked.as_ref().is_some_and(|b| b.wait == Wait::Pause) {
                self.resume(id);
            }
            self.core.clients.list_id(id);
        }
    }

    /// Keeps a command of a paused session until the pause ends.
    pub(super) fn hold_back(&mut self, client: &mut Client, command: &'static Command, args: Args<'_>) {
        self.core.wait_request = Some(WaitRequest {
            wait: Wait::Pause,
            even_without_key: false,
            args: None,
            keys: Vec::new(),
            until_us: None,
        });
        self.block(client, command, args);
        self.core.held.push(client.handle);
    }

    /// Closes idle sessions (`timeout`) and those whose output stays too long beyond the soft limit.
    fn look_after_sessions(&mut self) {
        let now = self.core.now_us;
        if now < self.next_session_check_us {
            return;
        }
        self.next_session_check_us = now + SESSIONS_EVERY_US;
        let timeout_us = self.core.config.timeout_s.saturating_mul(1_000_000);
        for id in self.core.clients.ids() {
            let Some(s) = self.core.clients.get(id) else { continue };
            let c = &s.client;
            let idle = timeout_us != 0
                && now.saturating_sub(c.active_us) > timeout_us
                && c.blocked.is_none()
                && !c.monitor
                && !c.is_subscribed();
            if idle {
                self.core.clients.end(id, Fate::Abort);
            } else if s.out.chunks() > 0 {
                self.check_output_of(id);
            }
        }
    }
}
