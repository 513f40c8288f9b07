//! Random items, each as likely as any other.

use super::{Keyed, Pos, SEGMENT_MAX, Segment, Table};
use crate::random::Rng;

/// Draws in one segment after which it is left with fewer items than were asked for: never reached in a segment of the
/// ordinary size but by bad luck.
const MAX_DRAWS: usize = 4_096;

impl<T: Keyed> Table<T> {
    /// A random item, each as likely as the other (but for the few percent by which directory slots differ).
    pub fn random(&self, rng: &mut Rng) -> Option<Pos> {
        if self.len == 0 {
            return None;
        }
        let segment = self.random_segment(rng);
        let items = &self.segments[segment].items;
        loop {
            let bucket = rng.below(items.num_buckets());
            if items.get_bucket(bucket).is_some() {
                return Some(Pos { segment: segment as u32, bucket: bucket as u32 });
            }
        }
    }

    /// Shows up to `n` random items, or as many as there are, all of them with a deadline if `volatile`. Each is as likely
    /// as any other. Where segments hold enough of them they come from one: which items share a segment is chance.
    /// (Where some hold fewer than are taken from one, those in fuller segments would come more often.)
    pub fn sample(&self, rng: &mut Rng, n: usize, volatile: bool, mut visit: impl FnMut(Pos, &T)) {
        let total = if volatile { self.volatile() } else { self.len };
        let mut left = n.min(total);
        let at_once = if total / 4 >= n * self.segments.len() || self.segments.len() == 1 { n } else { 1 };
        while left > 0 {
            let number = if volatile {
                let Some(number) = self.random_volatile_segment(rng) else { return };
                number
            } else {
                self.random_segment(rng)
            };
            let segment = &self.segments[number];
            let there = if volatile { self.volatile.get(number) as usize } else { segment.items.len() };
            let shown = segment.sample(rng, left.min(at_once).min(there), there, volatile, |bucket, item| {
                visit(Pos { segment: number as u32, bucket: bucket as u32 }, item);
            });
            if shown == 0 {
                return;
            }
            left -= shown;
        }
    }

    /// A random segment, each as likely as it holds items: drawn by directory slot, kept as often as its items are many
    /// for the slots it has.
    fn random_segment(&self, rng: &mut Rng) -> usize {
        if self.segments.len() == 1 {
            return 0;
        }
        loop {
            let segment = self.directory[rng.below(self.directory.len())] as usize;
            let s = &self.segments[segment];
            let room = SEGMENT_MAX << (self.depth - s.depth);
            if rng.below(room) < s.items.len() {
                return segment;
            }
        }
    }
}

impl<T: Keyed> Segment<T> {
    /// Shows `n` random items of the `there` that qualify; returns how many were shown.
    fn sample(&self, rng: &mut Rng, n: usize, there: usize, volatile: bool, mut visit: impl FnMut(usize, &T)) -> usize {
        let qualifies = |item: &&T| !volatile || item.deadline().is_some();
        let mut shown = 0;
        if n == there {
            // All of them.
            for bucket in self.items.iter_buckets() {
                if let Some(item) = self.items.get_bucket(bucket).filter(qualifies) {
                    visit(bucket, item);
                    shown += 1;
                    if shown == n {
                        break;
                    }
                }
            }
            return shown;
        }
        // Which buckets were drawn. There are at most 256, but in a segment that cannot be split any more: of those beyond
        // one may be drawn twice.
        let mut drawn = [0u64; 4];
        for _ in 0..MAX_DRAWS {
            let bucket = rng.below(self.items.num_buckets());
            if let Some(word) = drawn.get_mut(bucket / 64) {
                let bit = 1 << (bucket % 64);
                if *word & bit != 0 {
                    continue;
                }
                *word |= bit;
            }
            if let Some(item) = self.items.get_bucket(bucket).filter(qualifies) {
                visit(bucket, item);
                shown += 1;
                if shown == n {
                    break;
                }
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Hashing;
    use alloc::format;
    use alloc::vec;
    use alloc::vec::Vec;
    use barium_cell::Record;

    /// A table of numbered items, every `nth` of which has a deadline.
    fn table(n: usize, nth: usize) -> Table<Record<()>> {
        let mut t = Table::new(Hashing::new(11));
        for i in 0..n {
            let mut item = Record::with_bytes(format!("{i}").as_bytes(), 0, b"v").unwrap();
            if i % nth == 0 {
                item.set_deadline(Some(i as i64)).unwrap();
            }
            t.insert(item).unwrap();
        }
        t
    }

    fn number(item: &Record<()>) -> usize {
        core::str::from_utf8(item.key()).unwrap().parse().unwrap()
    }

    /// Draws until each of the qualifying items should have come 100 times; sees that none came far more or less often.
    fn is_fair(n: usize, nth: usize, volatile: bool, at_once: usize) {
        let t = table(n, nth);
        let mut rng = Rng::new(5);
        let there = if volatile { n.div_ceil(nth) } else { n };
        let mut counts = vec![0u32; n];
        for _ in 0..there * 100 / at_once {
            let mut shown = 0;
            t.sample(&mut rng, at_once, volatile, |_, item| {
                counts[number(item)] += 1;
                shown += 1;
            });
            assert_eq!(shown, at_once.min(there));
        }
        let drawn: Vec<u32> = counts.iter().copied().filter(|c| *c > 0).collect();
        assert_eq!(drawn.len(), there);
        // Six standard deviations of a Poisson distribution, and the few percent of the segments.
        assert!(drawn.iter().all(|c| (32..=172).contains(c)), "{:?} {:?}", drawn.iter().min(), drawn.iter().max());
        // The mean of any hundred in a row is hardly a matter of chance any more.
        for row in drawn.chunks_exact(100) {
            let mean = row.iter().sum::<u32>() / 100;
            assert!((90..=110).contains(&mean), "{mean}");
        }
    }

    #[test]
    fn every_item_is_as_likely() {
        is_fair(3_000, 1, false, 1);
        is_fair(3_000, 7, false, 5);
        is_fair(20, 1, false, 5);
    }

    #[test]
    fn every_item_with_a_deadline_is_as_likely() {
        is_fair(6_000, 2, true, 5);
        is_fair(20_000, 50, true, 1);
        is_fair(20_000, 50, true, 5);
        is_fair(40_000, 400, true, 5);
        is_fair(300, 100, true, 5);
    }

    #[test]
    fn the_count_of_deadlines_follows_every_change() {
        let mut rng = Rng::new(2);
        let mut t = table(0, 1);
        let mut model = alloc::collections::BTreeMap::new();
        for round in 0..4 {
            for _ in 0..6_000 {
                let key = format!("{}", rng.below(5_000));
                let deadline = (rng.below(3) == 0).then(|| rng.below(1_000) as i64);
                if rng.below(4) > 2 - round % 2 * 2 {
                    if let Some(pos) = t.find(key.as_bytes()) {
                        t.prepare_deadline().unwrap();
                        let item = t.at_mut(pos).unwrap();
                        let had = item.deadline().is_some();
                        item.set_deadline(deadline).unwrap();
                        t.deadline_changed(pos, had, deadline);
                    } else {
                        let mut item = Record::with_bytes(key.as_bytes(), 0, b"").unwrap();
                        item.set_deadline(deadline).unwrap();
                        t.insert(item).unwrap();
                    }
                    model.insert(key, deadline);
                } else {
                    t.remove(key.as_bytes());
                    model.remove(&key);
                }
            }
            assert_eq!((t.len(), t.volatile()), (model.len(), model.values().flatten().count()));
            for (number, s) in t.segments.iter().enumerate() {
                let deadlines: Vec<i64> = s.items.iter().filter_map(Keyed::deadline).collect();
                assert_eq!(t.volatile.get(number) as usize, deadlines.len());
                assert!(deadlines.iter().all(|at| *at >= s.deadline));
            }
            // What is due goes, and only that.
            let mut number = 0;
            while t.deadline_bound(number).is_some() {
                let due = t.take_due(number, 100, 1_000);
                assert!(due.iter().all(|item| item.deadline().is_some_and(|at| at < 100)));
                number += usize::from(due.is_empty());
            }
            model.retain(|_, deadline| deadline.is_none_or(|at| at >= 100));
            assert_eq!((t.len(), t.volatile()), (model.len(), model.values().flatten().count()));
        }
    }
}
