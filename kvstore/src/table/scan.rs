//! Walks over a table that go on while it changes.

use super::{Keyed, Table};
use alloc::vec::Vec;

/// Low hash bits that a cursor leaves out, so that it stays below 2^52: some clients keep it in a double.
const CURSOR_SHIFT: u32 = 12;

impl<T: Keyed> Table<T> {
    /// Visits at least `count` items (fewer only at the end) from `cursor` on, in hash order, and returns the cursor to go
    /// on with; 0 begins and says that the end was reached. Any number is a legal cursor.
    ///
    /// No more than `count` items are visited but for those whose hashes agree in their top 52 bits.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&T)) -> u64 {
        let mut left = count.max(1);
        let mut from = cursor;
        if from >= 1 << (64 - CURSOR_SHIFT) {
            return 0;
        }
        let mut found: Vec<(u64, &T)> = Vec::new();
        loop {
            let Some(segment) = self.segment_of(from << CURSOR_SHIFT).and_then(|s| self.segments.get(s)) else {
                return 0;
            };
            found.clear();
            found.extend(
                segment
                    .items
                    .iter()
                    .map(|t| (self.hash(t.key()) >> CURSOR_SHIFT, t))
                    .filter(|(position, _)| *position >= from),
            );
            if found.len() > left {
                let (_, last, _) = found.select_nth_unstable_by_key(left - 1, |(position, _)| *position);
                let last = last.0;
                found.iter().filter(|(p, _)| *p <= last).for_each(|(_, t)| visit(t));
                return (last + 1) & ((1 << (64 - CURSOR_SHIFT)) - 1);
            }
            found.iter().for_each(|(_, t)| visit(t));
            left -= found.len();
            // The first position behind this segment.
            let next = if segment.depth == 0 {
                0
            } else {
                (segment.prefix + 1) << (64 - CURSOR_SHIFT - u32::from(segment.depth))
            };
            if next == 0 || next >= 1 << (64 - CURSOR_SHIFT) {
                return 0;
            }
            from = next;
            if left == 0 {
                return from;
            }
        }
    }
}
