//! Walks over a table that go on while it changes: cursors for clients, and the sweep for passed deadlines.

use super::{Keyed, NO_DEADLINE, Pos, Table};
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

    /// Notes that the item at `pos` has this deadline, so that the segment's bound holds.
    pub fn note_deadline(&mut self, pos: Pos, deadline: i64) {
        if let Some(s) = self.segments.get_mut(pos.segment as usize) {
            s.deadline = s.deadline.min(deadline);
        }
    }

    /// Sets a segment's deadline bound anew after its passed items were removed.
    pub fn refresh_deadline(&mut self, number: usize, deadline: impl Fn(&T) -> Option<i64>) -> i64 {
        let Some(s) = self.segments.get_mut(number) else { return NO_DEADLINE };
        s.deadline = s.items.iter().filter_map(deadline).min().unwrap_or(NO_DEADLINE);
        s.deadline
    }

    /// The deadline bound of a segment.
    pub fn deadline_bound(&self, number: usize) -> Option<i64> {
        self.segments.get(number).map(|s| s.deadline)
    }

    /// The items of a segment, by number.
    pub fn segment_items(&self, number: usize) -> impl Iterator<Item = &T> {
        self.segments.get(number).into_iter().flat_map(|s| s.items.iter())
    }
}
