//! Keys whose time has come.
//!
//! A key's deadline lies in its record. Each segment of a database's table keeps a lower bound of its items' deadlines,
//! and the database one over all: the sweep looks at a segment only when its bound has passed, so that nothing is
//! sampled, no second index is kept and an idle server has nothing to do until the next deadline.
//!
//! A round of the sweep sees all segments, in bounded steps. Where keys expire all the time, rounds are kept apart, so
//! that the sweep has several due keys a segment to remove and takes a bounded share of the time: `active-expire-effort`
//! chooses how large a one.

use super::removal::Why;
use super::{Keys, Keyspace};
use crate::table::NO_DEADLINE;

/// Most segments whose bounds one step compares.
const SEGMENTS_PER_STEP: usize = 1_024;
/// Most keys that one step removes, and, in fours, that it looks at (a segment's worth more at most); at the least
/// effort. Each degree more adds an eighth.
const KEYS_PER_STEP: usize = 1_024;
/// Time between the beginnings of two rounds at the least effort, in ms; at effort n the n-th part.
const ROUND_MS: i64 = 100;
/// Keys that are looked at a millisecond, over the time between two rounds, at the least effort; at effort n n times as
/// many.
const KEYS_PER_MS: usize = 1_000;
/// Longest time between two rounds while keys are due, in ms.
const LONGEST_PAUSE_MS: i64 = 2_000;
/// Weight of a round in the running mean of the share of stale keys.
const STALE_WEIGHT: f64 = 0.05;

impl Keys<'_> {
    /// Removes a key whose time has come, unless nothing is to change now.
    pub(crate) fn expire(&mut self, key: &[u8]) {
        if !self.space.frozen
            && let Some(pos) = self.db().table.find(key)
            && let Some(item) = self.take_at(pos)
        {
            self.removed_by_server(item, Why::Expired);
        }
    }

    /// One step of the sweep; returns when to come again (Unix time, in ms), `now` if at once.
    fn sweep(&mut self) -> i64 {
        let now = self.space.now_ms;
        let d = self.db_mut();
        if d.sweep.next.is_none() {
            let due = d.sweep.due(now);
            if due > now {
                return due;
            }
            d.sweep = Sweep { next: Some(0), merges: d.table.merges(), volatile: d.table.volatile(), ..Sweep::new() };
        }
        let most = KEYS_PER_STEP + KEYS_PER_STEP / 8 * (self.space.expire_effort as usize - 1);
        let (mut segments, mut seen, mut removed) = (0, 0, 0);
        while segments < SEGMENTS_PER_STEP && seen < most * 4 && removed < most {
            let d = self.db_mut();
            let number = d.sweep.next.unwrap_or(0);
            let Some(bound) = d.table.deadline_bound(number) else { return self.end_round() };
            segments += 1;
            if bound < now {
                let len = d.table.segment_len(number);
                let taken = self.expire_segment(number, most);
                (seen, removed) = (seen + len, removed + taken);
                let s = &mut self.db_mut().sweep;
                (s.seen, s.removed) = (s.seen + len, s.removed + taken);
            }
            // If there are more due keys, or the number stands for another segment after a merge, it is looked at again.
            let d = self.db_mut();
            let bound = d.table.deadline_bound(number).unwrap_or(NO_DEADLINE);
            if bound >= now {
                d.sweep.round = d.sweep.round.min(bound);
                d.sweep.next = Some(number + 1);
            }
        }
        self.space.stats.expire_steps_cut += 1;
        now
    }

    /// Removes up to `most` keys of a segment whose time has come; returns how many.
    fn expire_segment(&mut self, number: usize, most: usize) -> usize {
        let now = self.space.now_ms;
        let due = self.db_mut().table.take_due(number, now, most);
        let taken = due.len();
        for item in due {
            self.forget_deadline(&item);
            self.removed_by_server(item, Why::Expired);
        }
        taken
    }

    /// A round has seen all segments. If some were merged meanwhile, and so renumbered, one may have been missed: then
    /// another round follows. Returns when the next one begins.
    fn end_round(&mut self) -> i64 {
        let (now, effort) = (self.space.now_ms, self.space.expire_effort);
        let d = self.db_mut();
        let s = &mut d.sweep;
        s.next = None;
        if d.table.merges() == s.merges {
            s.earliest = s.round;
            s.not_before = now + ROUND_MS.max((s.seen / KEYS_PER_MS) as i64) / i64::from(effort);
        } else {
            (s.earliest, s.not_before) = (i64::MIN, now);
        }
        let stale = if s.volatile == 0 { 0.0 } else { s.removed as f64 * 100.0 / s.volatile as f64 };
        let next = s.due(now);
        let mean = &mut self.space.stats.stale_percent;
        *mean = stale * STALE_WEIGHT + *mean * (1.0 - STALE_WEIGHT);
        next
    }

    /// Notes that a key has a deadline.
    pub(super) fn note_deadline(&mut self, deadline: i64) {
        let s = &mut self.db_mut().sweep;
        s.earliest = s.earliest.min(deadline);
        s.round = s.round.min(deadline);
        self.space.next_sweep_ms = self.space.next_sweep_ms.min(deadline);
    }
}

/// Where the sweep of a database stands.
#[derive(Debug)]
pub struct Sweep {
    /// No key's deadline lies before this (Unix time, in ms).
    earliest: i64,
    /// The same over the segments that the present round has seen.
    round: i64,
    /// The segment that is next, in a round.
    next: Option<usize>,
    /// The table's count of merges when the round began.
    merges: u64,
    /// Keys with a deadline when the round began.
    volatile: usize,
    /// Keys that the round has looked at.
    seen: usize,
    /// Keys that the round has removed.
    removed: usize,
    /// When the next round may begin (Unix time, in ms).
    not_before: i64,
}

impl Sweep {
    pub(super) const fn new() -> Self {
        Self {
            earliest: NO_DEADLINE,
            round: NO_DEADLINE,
            next: None,
            merges: 0,
            volatile: 0,
            seen: 0,
            removed: 0,
            not_before: i64::MIN,
        }
    }

    /// When the next round begins; not before `now`.
    fn due(&self, now: i64) -> i64 {
        if self.earliest == NO_DEADLINE {
            return NO_DEADLINE;
        }
        // A clock that was set back must not keep it waiting.
        let not_before = self.not_before.min(now + LONGEST_PAUSE_MS);
        self.earliest.saturating_add(1).max(not_before).max(now)
    }
}

impl Keyspace {
    /// Whether active expiry has something to do.
    #[inline]
    pub const fn is_sweep_due(&self) -> bool {
        self.active_expiry && self.next_sweep_ms <= self.now_ms
    }

    /// When active expiry has something to do next (Unix time, in ms).
    pub const fn next_sweep_ms(&self) -> i64 {
        if self.active_expiry { self.next_sweep_ms } else { NO_DEADLINE }
    }

    /// One bounded step of active expiry.
    pub fn expire_step(&mut self) {
        let mut next = NO_DEADLINE;
        for db in 0..self.dbs.len() {
            // What is removed in one database must not add to what is removed in the others.
            if next <= self.now_ms {
                break;
            }
            next = next.min(self.keys(db).sweep());
        }
        self.next_sweep_ms = next;
    }
}
