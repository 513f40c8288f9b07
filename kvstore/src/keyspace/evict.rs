//! Removing keys to make room.
//!
//! As in Redis, the best key is approximated: a few random keys are drawn, the best of them and of those drawn before are
//! kept in a small pool, and the best of the pool goes. The draw is uniform over the keys that the policy allows. The pool
//! holds hashes of keys: it needs no memory when there is none, and what it names may be gone when its turn comes.

use super::policy::{Order, Policy};
use super::removal::Why;
use super::{Db, Keyspace};
use crate::random::Rng;
use crate::table::Keyed;
use crate::value::Item;
use alloc::vec::Vec;

/// Candidates that are kept between draws, as in Redis.
const POOL: usize = 16;
/// Draws after which eviction gives up: every candidate of each of them would have to be gone.
const MAX_DRAWS: usize = 64;

/// A key that was drawn.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// The higher the sooner it goes.
    score: u64,
    hash: u64,
    db: usize,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Evictor {
    policy: Option<Policy>,
    samples: usize,
    /// By score, the highest last.
    pool: Vec<Candidate>,
    /// Database from which a random key is taken next.
    next_db: usize,
    rng: Rng,
}

impl Evictor {
    pub(super) fn new(seed: u64) -> Self {
        Self { policy: None, samples: 0, pool: Vec::with_capacity(POOL), next_db: 0, rng: Rng::new(seed) }
    }

    pub(super) fn configure(&mut self, policy: Option<Policy>, samples: usize) {
        if self.policy != policy {
            // Another policy's scores mean nothing.
            self.pool.clear();
        }
        (self.policy, self.samples) = (policy, samples);
    }
}

/// Keeps a candidate, if it is better than the worst of a full pool.
fn offer(pool: &mut Vec<Candidate>, new: Candidate) {
    if let Some(old) = pool.iter().position(|c| (c.hash, c.db) == (new.hash, new.db)) {
        pool.remove(old);
    }
    let place = pool.partition_point(|c| c.score < new.score);
    if pool.len() < POOL {
        pool.insert(place, new);
    } else if place > 0 {
        pool.remove(0);
        pool.insert(place - 1, new);
    }
}

/// Number of keys of a database that a policy allows to go.
fn candidates(db: &Db, policy: Policy) -> usize {
    if policy.volatile_only { db.table.volatile() } else { db.table.len() }
}

impl Keyspace {
    /// Removes one key, as the policy chooses. False: it allows none to go, or there is none.
    pub fn evict_one(&mut self) -> bool {
        let Some(policy) = self.evictor.policy else { return false };
        if policy.order == Order::Random {
            return self.evict_any(policy);
        }
        for _ in 0..MAX_DRAWS {
            if !self.draw(policy) {
                return false;
            }
            while let Some(best) = self.evictor.pool.pop() {
                let table = &self.dbs[best.db].table;
                let found = table.find_where(best.hash, |item| {
                    table.hash(item.key()) == best.hash && (!policy.volatile_only || item.deadline().is_some())
                });
                if let Some(pos) = found {
                    let mut keys = self.keys(best.db);
                    if let Some(item) = keys.take_at(pos) {
                        keys.removed_by_server(item, Why::Evicted);
                    }
                    return true;
                }
            }
        }
        false
    }

    /// Draws keys from every database into the pool. False: there are none.
    fn draw(&mut self, policy: Policy) -> bool {
        let Evictor { pool, rng, samples, .. } = &mut self.evictor;
        let access = &self.access;
        let mut total = 0;
        for (db, d) in self.dbs.iter().enumerate() {
            let there = candidates(d, policy);
            if there == 0 {
                continue;
            }
            total += there;
            d.table.sample(rng, *samples, policy.volatile_only, |_, item: &Item| {
                let score = match policy.order {
                    Order::Lfu => u64::from(u32::MAX - access.frequency(item.clock())),
                    Order::Ttl => u64::MAX - item.deadline().unwrap_or(i64::MAX).max(0) as u64,
                    Order::Lru | Order::Random => u64::from(access.idle_s(item.clock())),
                };
                offer(pool, Candidate { score, hash: d.table.hash(Keyed::key(item)), db });
            });
        }
        total > 0
    }

    /// Removes a random key, from each database in turn.
    fn evict_any(&mut self, policy: Policy) -> bool {
        for _ in 0..self.dbs.len() {
            let db = self.evictor.next_db % self.dbs.len();
            self.evictor.next_db = db + 1;
            let mut found = None;
            if candidates(&self.dbs[db], policy) > 0 {
                let rng = &mut self.evictor.rng;
                self.dbs[db].table.sample(rng, 1, policy.volatile_only, |pos, _| found = Some(pos));
            }
            let mut keys = self.keys(db);
            if let Some(item) = found.and_then(|pos| keys.take_at(pos)) {
                keys.removed_by_server(item, Why::Evicted);
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
#[path = "evict_tests.rs"]
mod tests;
