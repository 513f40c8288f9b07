//! One direction of a bad wire: what becomes of each frame, and when it comes out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How bad the wire is. Shares are of the frames, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// Share of frames that get lost.
    pub loss: f64,
    /// How long every frame takes, in microseconds.
    pub delay_us: u64,
    /// Share of frames that take longer, so that others overtake them.
    pub reorder: f64,
    /// By how much longer, in microseconds.
    pub reorder_us: u64,
    /// Share of frames that come twice.
    pub duplicate: f64,
    /// Frames on the wire beyond which more are lost.
    pub limit: usize,
}

/// What became of the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that came in.
    pub frames: u64,
    /// Lost on purpose.
    pub lost: u64,
    /// Held back so that others overtake them.
    pub reordered: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Lost because the wire was full.
    pub overflowed: u64,
}

/// A frame on its way: when it comes out, its place among those of that moment, its bytes.
type Travelling = Reverse<(u64, u64, Vec<u8>)>;

/// One direction. The n-th frame's fate depends on the seed alone, not on time.
pub struct Wire {
    quality: Quality,
    rng: fastrand::Rng,
    travelling: BinaryHeap<Travelling>,
    order: u64,
    /// What was counted so far.
    pub counts: Counts,
}

/// Whether a frame carries IPv4. Others (ARP) pass unharmed: their loss would test address resolution, which tries again
/// after a second.
fn is_ipv4(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[8, 0])
}

impl Wire {
    /// An empty wire.
    pub fn new(quality: Quality, seed: u64) -> Self {
        Self {
            quality,
            rng: fastrand::Rng::with_seed(seed),
            travelling: BinaryHeap::new(),
            order: 0,
            counts: Counts::default(),
        }
    }

    /// A frame enters.
    pub fn enter(&mut self, now_us: u64, frame: &[u8]) {
        let q = self.quality;
        self.counts.frames += 1;
        let mut due_us = now_us + q.delay_us;
        let mut copies = 1;
        if is_ipv4(frame) {
            // All three are drawn for each frame, so that the next one's fate does not depend on this one's.
            let [lost, late, twice] = [q.loss, q.reorder, q.duplicate].map(|share| self.rng.f64() < share);
            if lost {
                self.counts.lost += 1;
                return;
            }
            if late {
                self.counts.reordered += 1;
                due_us += q.reorder_us;
            }
            if twice {
                self.counts.duplicated += 1;
                copies = 2;
            }
        }
        for _ in 0..copies {
            if self.travelling.len() >= q.limit {
                self.counts.overflowed += 1;
                return;
            }
            self.travelling.push(Reverse((due_us, self.order, frame.to_vec())));
            self.order += 1;
        }
    }

    /// When the next frame comes out.
    pub fn next_us(&self) -> Option<u64> {
        self.travelling.peek().map(|Reverse((due_us, ..))| *due_us)
    }

    /// Hands out the frames that are due, as long as `leave` takes them.
    pub fn leave(&mut self, now_us: u64, mut leave: impl FnMut(&[u8]) -> bool) {
        while let Some(Reverse((due_us, _, frame))) = self.travelling.peek() {
            if *due_us > now_us || !leave(frame) {
                return;
            }
            self.travelling.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(n: u32, kind: [u8; 2]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend(kind);
        frame.extend(n.to_be_bytes());
        frame
    }

    /// What comes out of a wire that gets `count` frames, 10 us apart: (time, number).
    fn travel(quality: Quality, seed: u64, count: u32, kind: [u8; 2]) -> (Vec<(u64, u32)>, Counts) {
        let mut wire = Wire::new(quality, seed);
        let mut out = Vec::new();
        for now in 0..u64::from(count) * 10 + 100_000 {
            if now % 10 == 0 && now / 10 < u64::from(count) {
                wire.enter(now, &frame((now / 10) as u32, kind));
            }
            wire.leave(now, |frame| {
                out.push((now, u32::from_be_bytes([frame[14], frame[15], frame[16], frame[17]])));
                true
            });
        }
        assert_eq!(wire.next_us(), None);
        (out, wire.counts)
    }

    const BAD: Quality =
        Quality { loss: 0.01, delay_us: 5000, reorder: 0.02, reorder_us: 500, duplicate: 0.03, limit: 10_000 };

    #[test]
    fn a_good_wire_changes_nothing() {
        let (out, counts) = travel(Quality { delay_us: 7, limit: 100, ..Quality::default() }, 1, 1000, [8, 0]);
        assert!(out.iter().enumerate().all(|(i, &(at, n))| n as usize == i && at == 10 * i as u64 + 7));
        assert_eq!(counts, Counts { frames: 1000, ..Counts::default() });
    }

    #[test]
    fn a_bad_wire_is_as_bad_as_it_was_asked_to_be() {
        let (out, counts) = travel(BAD, 3, 20_000, [8, 0]);
        assert!((150..250).contains(&counts.lost), "{counts:?}");
        assert!((330..470).contains(&counts.reordered), "{counts:?}");
        assert!((500..700).contains(&counts.duplicated), "{counts:?}");
        assert_eq!(out.len() as u64, 20_000 - counts.lost + counts.duplicated);
        let overtaken = out.windows(2).filter(|pair| pair[1].1 < pair[0].1).count() as u64;
        assert!(overtaken > counts.reordered / 2, "{overtaken} of {counts:?}");
        for (at, n) in out {
            let took = at - u64::from(n) * 10;
            assert!(took == 5000 || took == 5500, "{took}");
        }
    }

    #[test]
    fn a_seed_is_a_fate() {
        assert_eq!(travel(BAD, 5, 5000, [8, 0]).0, travel(BAD, 5, 5000, [8, 0]).0);
        assert_ne!(travel(BAD, 5, 5000, [8, 0]).0, travel(BAD, 6, 5000, [8, 0]).0);
    }

    #[test]
    fn address_resolution_is_spared_and_the_wire_has_an_end() {
        let worst = Quality { loss: 1.0, delay_us: 5, limit: 10, ..Quality::default() };
        assert_eq!(travel(worst, 1, 50, [8, 6]).0.len(), 50);
        assert_eq!(travel(worst, 1, 50, [8, 0]).0.len(), 0);
        let full = Quality { delay_us: 1000, limit: 10, ..Quality::default() };
        let (out, counts) = travel(full, 1, 50, [8, 0]);
        assert_eq!((out.len(), counts.overflowed), (10, 40));
    }

    #[test]
    fn what_is_not_taken_stays() {
        let mut wire = Wire::new(Quality { limit: 9, ..Quality::default() }, 1);
        wire.enter(0, b"one");
        wire.leave(0, |_| false);
        assert_eq!(wire.next_us(), Some(0));
        let mut got = Vec::new();
        wire.leave(0, |frame| {
            got.push(frame.to_vec());
            true
        });
        assert_eq!(got, [b"one"]);
    }
}
