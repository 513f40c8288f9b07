//! A two-level timer wheel: one deadline per connection slot, all operations O(1).
//!
//! A tick is 8.192 ms. Deadlines nearer than 256 ticks (2.1 s) lie in the first level, others in the second, whose slots
//! are 256 ticks wide and reach to 537 s; farther ones expire there and are armed again by their owner.

use alloc::vec::Vec;

/// Length of a tick as a power of two of microseconds.
const TICK_SHIFT: u32 = 13;
const SLOTS: u64 = 256;
const NONE: u32 = u32::MAX;
const UNARMED: u16 = u16::MAX;

/// The shortest time a timer can be armed for, in microseconds.
pub(crate) const TICK_US: u64 = 1 << TICK_SHIFT;

#[derive(Clone, Copy, Debug)]
struct Node {
    prev: u32,
    next: u32,
    at_tick: u64,
    slot: u16,
}

/// Deadlines by slot number.
#[derive(Debug)]
pub(crate) struct Wheel {
    now_tick: u64,
    nodes: Vec<Node>,
    heads: [u32; 2 * SLOTS as usize],
    occupied: [[u64; 4]; 2],
}

impl Wheel {
    pub(crate) fn new(now_us: u64) -> Self {
        Self {
            now_tick: now_us >> TICK_SHIFT,
            nodes: Vec::new(),
            heads: [NONE; 2 * SLOTS as usize],
            occupied: [[0; 4]; 2],
        }
    }

    /// The deadline of `id` in microseconds, `u64::MAX` when there is none.
    #[inline]
    pub(crate) fn armed_at_us(&self, id: u32) -> u64 {
        match self.nodes.get(id as usize) {
            Some(node) if node.slot != UNARMED => node.at_tick << TICK_SHIFT,
            _ => u64::MAX,
        }
    }

    /// Sets the deadline of `id`, replacing the one it had. It expires at the first tick not before `at_us`, and in the
    /// next tick at the earliest.
    pub(crate) fn arm(&mut self, id: u32, at_us: u64) {
        self.disarm(id);
        let at = id as usize;
        if at >= self.nodes.len() {
            self.nodes.resize(at + 1, Node { prev: NONE, next: NONE, at_tick: 0, slot: UNARMED });
        }
        let at_tick = (at_us >> TICK_SHIFT).saturating_add(1).max(self.now_tick + 1);
        self.insert(id, at_tick);
    }

    fn insert(&mut self, id: u32, at_tick: u64) {
        let slot = if at_tick - self.now_tick < SLOTS {
            at_tick % SLOTS
        } else {
            let epoch = (at_tick / SLOTS).min(self.now_tick / SLOTS + SLOTS - 1);
            SLOTS + epoch % SLOTS
        };
        let head = self.heads[slot as usize];
        if let Some(head) = self.nodes.get_mut(head as usize) {
            head.prev = id;
        }
        self.nodes[id as usize] = Node { prev: NONE, next: head, at_tick, slot: slot as u16 };
        self.heads[slot as usize] = id;
        self.occupied[(slot / SLOTS) as usize][(slot % SLOTS / 64) as usize] |= 1 << (slot % 64);
    }

    /// Forgets the deadline of `id`.
    pub(crate) fn disarm(&mut self, id: u32) {
        let Some(node) = self.nodes.get(id as usize).copied() else { return };
        if node.slot == UNARMED {
            return;
        }
        self.nodes[id as usize].slot = UNARMED;
        match self.nodes.get_mut(node.prev as usize) {
            Some(prev) => prev.next = node.next,
            None => {
                self.heads[node.slot as usize] = node.next;
                if node.next == NONE {
                    let slot = u64::from(node.slot);
                    self.occupied[(slot / SLOTS) as usize][(slot % SLOTS / 64) as usize] &= !(1 << (slot % 64));
                }
            }
        }
        if let Some(next) = self.nodes.get_mut(node.next as usize) {
            next.prev = node.prev;
        }
    }

    /// Moves time on to `now_us`; whatever expired is disarmed and appended to `expired`.
    pub(crate) fn advance(&mut self, now_us: u64, expired: &mut Vec<u32>) {
        let target = now_us >> TICK_SHIFT;
        while self.now_tick < target {
            if self.occupied[0] == [0; 4] {
                // Nothing can expire before the next slot of the second level opens.
                let boundary = (self.now_tick / SLOTS + 1) * SLOTS;
                if boundary > target || self.occupied[1] == [0; 4] {
                    self.now_tick = target;
                    return;
                }
                self.now_tick = boundary;
            } else {
                self.now_tick += 1;
            }
            if self.now_tick.is_multiple_of(SLOTS) {
                self.cascade();
            }
            let slot = (self.now_tick % SLOTS) as usize;
            while self.heads[slot] != NONE {
                let id = self.heads[slot];
                self.disarm(id);
                expired.push(id);
            }
        }
    }

    /// Spreads the second level's slot that begins now over the first level.
    fn cascade(&mut self) {
        let slot = (SLOTS + self.now_tick / SLOTS % SLOTS) as usize;
        while self.heads[slot] != NONE {
            let id = self.heads[slot];
            let at_tick = self.nodes[id as usize].at_tick;
            self.disarm(id);
            // What lay beyond the wheel's reach expires early, here; its owner arms it again. What is due at this very
            // tick goes into the slot that is emptied next.
            self.insert(id, at_tick.clamp(self.now_tick, self.now_tick + SLOTS - 1));
        }
    }

    /// When [`advance`](Self::advance) should next be called, in microseconds: not after the first deadline, possibly
    /// before it.
    pub(crate) fn next_at_us(&self) -> Option<u64> {
        let near =
            next_set(&self.occupied[0], (self.now_tick + 1) % SLOTS).map(|distance| self.now_tick + 1 + distance);
        // The first level reaches beyond the point where the second's next slot opens.
        let epoch = self.now_tick / SLOTS;
        let far = next_set(&self.occupied[1], (epoch + 1) % SLOTS).map(|distance| (epoch + 1 + distance) * SLOTS);
        let tick = match (near, far) {
            (Some(near), Some(far)) => near.min(far),
            (near, far) => near.or(far)?,
        };
        Some(tick << TICK_SHIFT)
    }
}

/// Distance from bit `from` to the first set one, cyclically.
fn next_set(bits: &[u64; 4], from: u64) -> Option<u64> {
    let (word, bit) = ((from / 64) as usize, from % 64);
    let first = bits[word] >> bit;
    if first != 0 {
        return Some(u64::from(first.trailing_zeros()));
    }
    for step in 1..=4 {
        let word = bits[(word + step) % 4];
        if word != 0 {
            return Some(step as u64 * 64 - bit + u64::from(word.trailing_zeros()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn agrees_with_a_sorted_map() {
        let mut wheel = Wheel::new(123_456);
        let mut model: BTreeMap<u32, u64> = BTreeMap::new();
        let mut x = 7u64;
        let mut random = move |n: u64| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (x >> 33) % n
        };
        let mut now = 123_456u64;
        let mut expired = Vec::new();
        for _ in 0..200_000 {
            match random(10) {
                0..=4 => {
                    let id = random(500) as u32;
                    let reach = [20_000, 3_000_000, 400_000_000][random(3) as usize];
                    let at = now + random(reach);
                    wheel.arm(id, at);
                    model.insert(id, at);
                }
                5 => {
                    let id = random(500) as u32;
                    wheel.disarm(id);
                    model.remove(&id);
                }
                _ => {
                    let step = [1_000, 30_000, 2_000_000, 40_000_000][random(4) as usize];
                    let due = model.values().min().copied();
                    if let (Some(next), Some(due)) = (wheel.next_at_us(), due) {
                        assert!(next <= due + 2 * TICK_US, "next {next} due {due} now {now}");
                    }
                    assert_eq!(wheel.next_at_us().is_some(), !model.is_empty());
                    now += random(step);
                    expired.clear();
                    wheel.advance(now, &mut expired);
                    for id in &expired {
                        let at = model.remove(id).expect("was armed");
                        assert!(at <= now, "early: {at} at {now}");
                    }
                    for (id, at) in &model {
                        assert!(*at + 2 * TICK_US > now, "late: {id} {at} at {now}");
                    }
                }
            }
        }
    }

    #[test]
    fn beyond_reach_expires_early_and_an_empty_wheel_jumps() {
        let mut wheel = Wheel::new(0);
        let mut expired = Vec::new();
        wheel.advance(1 << 60, &mut expired);
        assert_eq!(wheel.next_at_us(), None);
        let mut wheel = Wheel::new(0);
        wheel.arm(3, 10_000_000_000);
        wheel.advance(600_000_000, &mut expired);
        assert_eq!(expired, [3]);
    }
}
