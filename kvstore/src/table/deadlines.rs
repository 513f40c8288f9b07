//! What a table knows of its items' deadlines: a lower bound a segment, for the sweep, and how many items with a deadline
//! each segment holds, for a fair draw among them.

use super::{Keyed, NO_DEADLINE, Pos, Segment, Table};
use crate::random::Rng;
use alloc::vec::Vec;
use barium_cell::OutOfMemory;

/// A count a segment, with sums over ranges in O(log n) (Fenwick, "A new data structure for cumulative frequency tables",
/// 1994): 4 bytes a segment, and none as long as all are zero from the start.
#[derive(Debug)]
pub(super) struct Counts(Vec<u32>);

impl Counts {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Whether counts are kept. All are zero if not.
    pub(super) const fn is_kept(&self) -> bool {
        !self.0.is_empty()
    }

    /// Makes room for the counts of `n` segments, all zero, if there is none yet.
    pub(super) fn keep(&mut self, n: usize) -> Result<(), OutOfMemory> {
        if self.0.is_empty() {
            self.0.try_reserve_exact(n).map_err(|_| OutOfMemory)?;
            self.0.resize(n, 0);
        }
        Ok(())
    }

    pub(super) const fn memory_usage(&self) -> usize {
        self.0.capacity() * 4
    }

    /// Sum of the first `n` counts.
    fn before(&self, n: usize) -> u32 {
        let (mut at, mut sum) = (n, 0u32);
        while at > 0 {
            sum = sum.wrapping_add(self.0[at - 1]);
            at &= at - 1;
        }
        sum
    }

    pub(super) fn total(&self) -> usize {
        self.before(self.0.len()) as usize
    }

    pub(super) fn get(&self, index: usize) -> u32 {
        if self.is_kept() { self.before(index + 1).wrapping_sub(self.before(index)) } else { 0 }
    }

    /// Adds to a count (modulo 2^32: a negative number takes away).
    pub(super) fn add(&mut self, index: usize, n: u32) {
        let mut at = index + 1;
        while at <= self.0.len() {
            self.0[at - 1] = self.0[at - 1].wrapping_add(n);
            at += at & at.wrapping_neg();
        }
    }

    /// Room for one count more. Grows by an eighth, as the segments do.
    pub(super) fn reserve(&mut self) -> Option<()> {
        if self.is_kept() && self.0.len() == self.0.capacity() {
            self.0.try_reserve_exact((self.0.len() / 8).max(1)).ok()?;
        }
        Some(())
    }

    /// Appends a count, for which room was reserved.
    pub(super) fn push(&mut self, n: u32) {
        let index = self.0.len();
        let covered = (index + 1) & (index + 1).wrapping_neg();
        let sum = self.before(index).wrapping_sub(self.before(index + 1 - covered));
        self.0.push(sum.wrapping_add(n));
    }

    /// Takes a count out and puts the last in its place.
    pub(super) fn swap_remove(&mut self, index: usize) -> u32 {
        if !self.is_kept() {
            return 0;
        }
        let last = self.0.len() - 1;
        let (gone, moved) = (self.get(index), self.get(last));
        self.0.pop();
        if index < last {
            self.add(index, moved.wrapping_sub(gone));
        }
        if self.0.len() * 2 < self.0.capacity() {
            self.0.shrink_to(self.0.len() + self.0.len() / 8);
        }
        gone
    }

    /// The index whose range of the summed counts holds `n`, which is below the total.
    fn find(&self, n: usize) -> usize {
        let (mut at, mut left) = (0, n as u32);
        let mut step = (self.0.len() + 1).next_power_of_two() / 2;
        while step > 0 {
            if let Some(&sum) = self.0.get(at + step - 1)
                && sum <= left
            {
                at += step;
                left -= sum;
            }
            step /= 2;
        }
        at
    }
}

impl<T> Segment<T> {
    /// Notes an item's deadline.
    pub(super) fn note_deadline(&mut self, deadline: Option<i64>) {
        self.deadline = self.deadline.min(deadline.unwrap_or(NO_DEADLINE));
    }
}

impl<T: Keyed> Table<T> {
    /// Number of items with a deadline.
    pub fn volatile(&self) -> usize {
        self.volatile.total()
    }

    /// To be called before an item gets its first deadline.
    pub fn prepare_deadline(&mut self) -> Result<(), OutOfMemory> {
        self.volatile.keep(self.segments.len())
    }

    /// To be called after the deadline of the item at `pos` was set, changed or cleared; `had`: whether there was one.
    pub fn deadline_changed(&mut self, pos: Pos, had: bool, deadline: Option<i64>) {
        let number = pos.segment as usize;
        let Some(s) = self.segments.get_mut(number) else { return };
        s.note_deadline(deadline);
        if deadline.is_some() != had {
            self.volatile.add(number, if had { u32::MAX } else { 1 });
        }
    }

    /// No item's deadline of this segment lies before this; None: there is no such segment.
    pub fn deadline_bound(&self, number: usize) -> Option<i64> {
        self.segments.get(number).map(|s| s.deadline)
    }

    /// Number of items in a segment.
    pub fn segment_len(&self, number: usize) -> usize {
        self.segments.get(number).map_or(0, |s| s.items.len())
    }

    /// Takes out of a segment up to `limit` items whose deadline lies before `now`, and sets its bound anew.
    pub fn take_due(&mut self, number: usize, now: i64, limit: usize) -> Vec<T> {
        let Some(s) = self.segments.get_mut(number) else { return Vec::new() };
        let due: Vec<T> = s.items.extract_if(|item| item.deadline().is_some_and(|at| at < now)).take(limit).collect();
        s.deadline = s.items.iter().filter_map(Keyed::deadline).min().unwrap_or(NO_DEADLINE);
        if !due.is_empty() {
            s.version = s.version.wrapping_add(1);
            self.volatile.add(number, (due.len() as u32).wrapping_neg());
            self.len -= due.len();
            self.tidy(number);
        }
        due
    }

    /// A random segment, each as likely as it holds items with a deadline.
    pub(super) fn random_volatile_segment(&self, rng: &mut Rng) -> Option<usize> {
        let total = self.volatile.total();
        (total > 0).then(|| self.volatile.find(rng.below(total)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_against_a_model() {
        let mut rng = Rng::new(3);
        let mut model: Vec<u32> = alloc::vec![0; 5];
        let mut counts = Counts::new();
        assert_eq!((counts.total(), counts.get(3), counts.swap_remove(0)), (0, 0, 0));
        counts.keep(5).unwrap();
        for _ in 0..20_000 {
            let at = rng.below(model.len());
            match rng.below(5) {
                0 if model.len() < 300 => {
                    let n = rng.below(4) as u32;
                    counts.reserve().unwrap();
                    counts.push(n);
                    model.push(n);
                }
                1 if model.len() > 1 => assert_eq!(counts.swap_remove(at), model.swap_remove(at)),
                2 if model[at] > 0 => {
                    counts.add(at, u32::MAX);
                    model[at] -= 1;
                }
                _ => {
                    counts.add(at, 1);
                    model[at] += 1;
                }
            }
            let at = rng.below(model.len());
            assert_eq!(counts.get(at), model[at]);
            let total: u32 = model.iter().sum();
            assert_eq!(counts.total(), total as usize);
            if total > 0 {
                let n = rng.below(total as usize);
                let mut left = n as u32;
                let expected = model.iter().position(|&c| {
                    c > left || {
                        left -= c;
                        false
                    }
                });
                assert_eq!(Some(counts.find(n)), expected);
            }
        }
    }
}
