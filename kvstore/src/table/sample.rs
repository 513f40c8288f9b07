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

    /// Shows up to `n` random items, or as many as there are, all of them with a deadline if `volatile`. They come from
    /// as few segments as it takes: which items share a segment is chance. Each item is as likely as any other; none is
    /// shown twice of one segment.
    pub fn sample(&self, rng: &mut Rng, n: usize, volatile: bool, mut visit: impl FnMut(Pos, &T)) {
        let mut left = n.min(if volatile { self.volatile() } else { self.len });
        // Every turn shows something; in a table of one small segment the turns are soon over.
        while left > 0 {
            let number = if volatile {
                let Some(number) = self.random_volatile_segment(rng) else { return };
                number
            } else {
                self.random_segment(rng)
            };
            let segment = &self.segments[number];
            let there = if volatile { self.volatile.get(number) as usize } else { segment.items.len() };
            let shown = segment.sample(rng, left.min(there), there, volatile, |bucket, item| {
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
        // Which buckets were drawn, of 256: more there are only in a segment that cannot be split any more.
        let mut drawn = [0u64; 4];
        for _ in 0..MAX_DRAWS {
            let bucket = rng.below(self.items.num_buckets());
            let (word, bit) = (bucket / 64 % 4, 1 << (bucket % 64));
            if drawn[word] & bit != 0 {
                continue;
            }
            drawn[word] |= bit;
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
