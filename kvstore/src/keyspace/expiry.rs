//! Keys whose time has come.
//!
//! A key's deadline lies in its record. Each segment of a database's table keeps a lower bound of its items' deadlines,
//! and the database one over all: the sweep looks at a segment only when its bound has passed, so that nothing is
//! sampled, no second index is kept and an idle server has nothing to do until the next deadline.

use super::{Effect, Keys, Keyspace, event};
use crate::session::args::OwnedArgs;
use crate::table::{NO_DEADLINE, Pos};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Most segments that one step of the sweep compares.
const SEGMENTS_PER_STEP: usize = 1_024;
/// Most keys that one step of the sweep removes (a segment's worth more at most).
const KEYS_PER_STEP: usize = 1_024;

impl Keys<'_> {
    /// Removes a key whose time has come.
    pub(super) fn expire(&mut self, key: &[u8]) {
        if !self.delete(key) {
            return;
        }
        self.space.stats.expired += 1;
        if self.space.effects_wanted {
            self.space.effects.push(Effect { db: self.db, args: OwnedArgs::from_slices(&[b"DEL", key]) });
        }
        self.notify(event::EXPIRED, "expired", key);
        self.touch_watchers(key);
        self.wake(key);
    }

    /// One step of the sweep; returns when to come again (Unix time, in ms), `now` if at once.
    fn sweep(&mut self) -> i64 {
        let now = self.space.now_ms;
        let d = self.db_mut();
        if d.sweep.next == 0 {
            if d.sweep.earliest >= now {
                return d.sweep.earliest.saturating_add(1);
            }
            d.sweep.round = NO_DEADLINE;
            d.sweep.merges = d.table.merges();
        }
        let (mut segments, mut removed) = (0, 0);
        while segments < SEGMENTS_PER_STEP && removed < KEYS_PER_STEP {
            let number = self.db().sweep.next;
            let Some(bound) = self.db().table.deadline_bound(number) else { return self.end_round(now) };
            segments += 1;
            let bound = if bound < now { self.expire_segment(number, &mut removed) } else { bound };
            let d = self.db_mut();
            d.sweep.round = d.sweep.round.min(bound);
            d.sweep.next = number + 1;
        }
        now
    }

    /// Removes a segment's keys whose time has come; returns the bound of those that stay.
    fn expire_segment(&mut self, number: usize, removed: &mut usize) -> i64 {
        let now = self.space.now_ms;
        let due: Vec<Box<[u8]>> = self
            .db()
            .table
            .segment_items(number)
            .filter(|item| item.deadline().is_some_and(|at| at < now))
            .map(|item| item.key().into())
            .collect();
        *removed += due.len();
        for key in &due {
            self.expire(key);
        }
        self.db_mut().table.refresh_deadline(number, |item| item.deadline())
    }

    /// A round has seen all segments. If some were merged meanwhile, and so renumbered, one may have been missed: then
    /// another round follows.
    fn end_round(&mut self, now: i64) -> i64 {
        let d = self.db_mut();
        d.sweep.next = 0;
        d.sweep.earliest = if d.table.merges() == d.sweep.merges { d.sweep.round } else { i64::MIN };
        d.sweep.earliest.saturating_add(1).max(now)
    }

    /// Notes that the item at `pos` has a deadline.
    pub(super) fn note_deadline(&mut self, pos: Pos, deadline: i64) {
        let d = self.db_mut();
        d.table.note_deadline(pos, deadline);
        d.sweep.earliest = d.sweep.earliest.min(deadline);
        d.sweep.round = d.sweep.round.min(deadline);
    }
}

/// Where the sweep of a database stands.
#[derive(Debug)]
pub struct Sweep {
    /// No key's deadline lies before this (Unix time, in ms).
    earliest: i64,
    /// The same over the segments that the present round has seen.
    round: i64,
    /// The segment that is next; 0 between rounds.
    next: usize,
    /// The table's count of merges when the round began.
    merges: u64,
}

impl Sweep {
    pub(super) const fn new() -> Self {
        Self { earliest: NO_DEADLINE, round: NO_DEADLINE, next: 0, merges: 0 }
    }
}

impl Keyspace {
    /// One bounded step of active expiry over all databases; returns when to come again (Unix time, in ms).
    pub fn expire_step(&mut self) -> i64 {
        if !self.active_expiry {
            return NO_DEADLINE;
        }
        (0..self.dbs.len()).map(|db| self.keys(db).sweep()).min().unwrap_or(NO_DEADLINE)
    }
}
