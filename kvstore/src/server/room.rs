//! Making room: what a write does that finds more memory in use than `maxmemory`, and what is done about it between the
//! turns of the event loop.

use super::Server;
use crate::blocking::{Wait, WaitRequest};
use crate::command::Command;
use crate::session::Client;
use crate::session::args::Args;
use alloc::vec::Vec;

/// Elements of removed values that are freed in one step.
const FREE_PER_STEP: usize = 2_048;
/// Steps of freeing that a command which needs memory does itself.
const FREE_STEPS_IN_NEED: usize = 2;
/// Most keys that are removed in one step, whatever `maxmemory-eviction-tenacity` says.
const MAX_EVICTED_PER_STEP: usize = 4_096;

/// What came of making room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is enough.
    Enough,
    /// There will be: more is being given back.
    Later,
    /// There is nothing that may go.
    None,
}

/// Keys that are removed in one step. Redis gives itself 50 us for every degree of `maxmemory-eviction-tenacity` up to ten,
/// and then 15 % more for each; a key takes some three of them, and sixteen go before it looks at the clock. Here they are
/// counted, so that the same input does the same on every machine.
fn evicted_per_step(tenacity: u32) -> usize {
    let mut keys = 16 * tenacity.clamp(1, 10) as usize;
    for _ in 10..tenacity {
        keys = (keys + keys * 15 / 100).min(MAX_EVICTED_PER_STEP);
    }
    keys
}

impl Server {
    /// Frees memory that is given up and removes keys, as the policy allows, in a bounded step.
    pub(super) fn make_room(&mut self) -> Room {
        let mut keys = evicted_per_step(self.core.config.eviction_tenacity);
        let mut steps = FREE_STEPS_IN_NEED;
        let begin_ns = self.core.event_begin_ns();
        let room = loop {
            if !self.core.over_maxmemory() {
                break Room::Enough;
            }
            // The memory of what was removed comes first: else more would be removed than it takes.
            if !self.keyspace.lazy.is_empty() {
                if steps == 0 {
                    break Room::Later;
                }
                steps -= 1;
                self.keyspace.lazy.step(FREE_PER_STEP);
                continue;
            }
            // While clients are paused the keys stay as they are.
            if self.core.pause.until_us != 0 {
                return Room::Enough;
            }
            if keys == 0 {
                break Room::Later;
            }
            keys -= 1;
            let begin_ns = self.core.event_begin_ns();
            if !self.keyspace.evict_one() {
                break Room::None;
            }
            self.core.latency_event_since("eviction-del", begin_ns);
        };
        self.core.latency_event_since("eviction-cycle", begin_ns);
        self.core.note_room(room == Room::Enough);
        room
    }

    /// Has a command that needs memory wait, or not: it may go on while keys are being removed, as Redis has it, as long
    /// as the machine itself is not short of memory.
    pub(super) fn may_exceed(&self) -> bool {
        self.core.config.maxmemory_policy.is_some() && self.core.available() > 0
    }

    /// What is to be freed between two turns of the event loop; returns whether there is more to do at once.
    pub(super) fn free_step(&mut self) -> bool {
        if self.keyspace.lazy.step(FREE_PER_STEP) {
            return true;
        }
        if !self.core.over_maxmemory() {
            self.core.note_room(true);
            return false;
        }
        self.make_room() == Room::Later
    }

    /// Keeps a command that needs memory until enough of what was given up is free, or all of it.
    pub(super) fn wait_for_memory(&mut self, client: &mut Client, command: &'static Command, args: Args<'_>) {
        self.core.wait_request = Some(WaitRequest {
            wait: Wait::Pause,
            even_without_key: false,
            args: None,
            keys: Vec::new(),
            until_us: None,
        });
        self.block(client, command, args);
        self.core.short_of_memory.push(client.handle);
    }
}
