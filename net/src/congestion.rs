//! The congestion window of one connection: what may be under way, in bytes.
//!
//! smoltcp's own controllers cannot be told of losses that selective acknowledgements show, halve once for each loss of one
//! window, and count acknowledgements, not bytes. So smoltcp is left without one, and is told windows of the peer that are no
//! larger than this one. Decrease and increase are those of CUBIC where Reno would be faster (RFC 9438 4.3), which over the
//! round trips of a local network is nearly always.

/// Segments of the initial window (RFC 6928).
const INITIAL_SEGMENTS: u32 = 10;
/// Largest window, in bytes: beyond all buffers.
const MOST: u32 = 1 << 24;

/// What a loss took away, until it is certain that it was one.
#[derive(Clone, Copy, Debug)]
struct Before {
    /// The segment that was sent again.
    seq: u32,
    window: u32,
    threshold: u32,
}

/// The window and how it changes.
#[derive(Clone, Debug)]
pub(crate) struct Congestion {
    window: u32,
    /// Below it the window grows by what is acknowledged.
    threshold: u32,
    /// The window before the last decrease.
    peak: u32,
    /// Increase of less than a byte, in bytes times the window.
    rest: u64,
    before: Option<Before>,
}

impl Congestion {
    /// Of a new connection with segments of `mss` bytes.
    pub(crate) fn new(mss: u32) -> Self {
        Self { window: INITIAL_SEGMENTS * mss, threshold: MOST, peak: 0, rest: 0, before: None }
    }

    /// Bytes that may be under way.
    pub(crate) fn window(&self) -> u32 {
        self.window
    }

    /// `acked` bytes were acknowledged while only the window kept more from being sent.
    pub(crate) fn acknowledged(&mut self, acked: u32, mss: u32) {
        if self.window < self.threshold {
            self.window = self.window.saturating_add(acked).min(self.threshold.max(self.window));
        } else {
            // One segment a window; 9/17 of that until the window is what it was (RFC 9438 4.3: with a decrease to 0.7
            // as fast, on average, as Reno).
            let share = if self.window < self.peak { (9, 17) } else { (1, 1) };
            self.rest += u64::from(acked) * u64::from(mss) * share.0 / share.1;
            let more = self.rest / u64::from(self.window);
            self.rest -= more * u64::from(self.window);
            self.window = self.window.saturating_add(more as u32);
        }
        self.window = self.window.min(MOST);
    }

    /// The segment at `seq` was found lost, the first of a window, with `flight` bytes under way.
    pub(crate) fn lost(&mut self, seq: u32, flight: u32, mss: u32) {
        self.before = Some(Before { seq, window: self.window, threshold: self.threshold });
        let used = self.window.min(flight.max(mss));
        self.peak = used;
        self.window = (used / 10 * 7).max(2 * mss);
        self.threshold = self.window;
        self.rest = 0;
    }

    /// The peer received the segment at `seq` twice. Returns whether the last decrease was for it, which was not lost then:
    /// all is as before (RFC 4015).
    pub(crate) fn arrived_twice(&mut self, seq: u32) -> bool {
        let Some(before) = self.before.filter(|before| before.seq == seq) else { return false };
        self.before = None;
        self.window = self.window.max(before.window);
        self.threshold = self.threshold.max(before.threshold);
        true
    }

    /// The retransmission timer ran out with `flight` bytes under way; `again` if it had before, without an acknowledgement
    /// since (RFC 5681 3.1).
    pub(crate) fn timed_out(&mut self, flight: u32, mss: u32, again: bool) {
        if !again {
            self.threshold = (flight.min(self.window) / 2).max(2 * mss);
            self.peak = self.window;
        }
        self.window = mss;
        self.rest = 0;
        self.before = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    /// One window after another is acknowledged, segment by segment.
    fn round_trips(congestion: &mut Congestion, count: usize) -> u32 {
        for _ in 0..count {
            for _ in 0..congestion.window() / MSS {
                congestion.acknowledged(MSS, MSS);
            }
        }
        congestion.window()
    }

    #[test]
    fn grows_twofold_then_by_a_segment_a_round_trip() {
        let mut c = Congestion::new(MSS);
        assert_eq!(c.window(), 10_000);
        assert_eq!(round_trips(&mut c, 2), 40_000);
        c.lost(1, 40_000, MSS);
        assert_eq!(c.window(), 28_000);
        let slowly = round_trips(&mut c, 10);
        assert!((32_500..34_000).contains(&slowly), "about half a segment each: {slowly}");
        round_trips(&mut c, 20);
        let (from, to) = (round_trips(&mut c, 0), round_trips(&mut c, 10));
        assert!(from > 40_000 && (9_000..=10_500).contains(&(to - from)), "a whole one each: {from} to {to}");
    }

    #[test]
    fn one_acknowledgement_of_much_counts_like_many() {
        let (mut one, mut many) = (Congestion::new(MSS), Congestion::new(MSS));
        for c in [&mut one, &mut many] {
            c.lost(1, 10_000, MSS);
        }
        one.acknowledged(7000, MSS);
        (0..7).for_each(|_| many.acknowledged(MSS, MSS));
        assert!(one.window().abs_diff(many.window()) < 100, "{one:?} {many:?}");
    }

    #[test]
    fn what_was_not_lost_is_given_back() {
        let mut c = Congestion::new(MSS);
        c.lost(77, 10_000, MSS);
        assert_eq!(c.window(), 7000);
        assert!(!c.arrived_twice(78));
        assert!(c.arrived_twice(77));
        assert_eq!(c.window(), 10_000);
        assert!(!c.arrived_twice(77), "once");
        assert_eq!(round_trips(&mut c, 1), 20_000, "the threshold too");
    }

    #[test]
    fn a_timeout_begins_with_one_segment_and_stops_doubling_at_half() {
        let mut c = Congestion::new(MSS);
        round_trips(&mut c, 2);
        c.timed_out(40_000, MSS, false);
        assert_eq!(c.window(), MSS);
        c.timed_out(MSS, MSS, true);
        assert_eq!(round_trips(&mut c, 4), 16_000);
        let then = round_trips(&mut c, 1);
        assert!((20_000..20_500).contains(&then), "{then}");
        let more = round_trips(&mut c, 1) - then;
        assert!((400..=1100).contains(&more), "{more}");
        // Never less than two segments after a loss, nor none at all.
        for _ in 0..20 {
            c.lost(1, 3000, MSS);
        }
        assert_eq!(c.window(), 2 * MSS);
    }
}
