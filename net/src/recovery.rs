//! What smoltcp's sender lacks in loss recovery, made up for by what it is told.
//!
//! smoltcp implements fast retransmit, and that is used: three identical acknowledgements make it send the oldest segment again.
//! When they are shown to it is decided here, by selective acknowledgements, which it ignores, and how much may be under way by
//! [`Congestion`](crate::congestion::Congestion). See `docs/decisions/loss-recovery.md` for what this gains.

use crate::conn::{Conn, Host};
use crate::wire::{ACK, Sacked, Segment, before};

/// The shortest time that a hole is given to be filled by a segment that was overtaken.
const REORDER_US: u64 = 10_000;
/// What is added to two round trips before the peer is probed: more than delayed acknowledgements of Linux (40 ms).
const PROBE_SLACK_US: u64 = 45_000;
/// The least and the most that a hole is given once segments were seen to overtake each other.
const OVERTAKING_US: core::ops::RangeInclusive<u64> = 1_000..=10_000;

impl Conn {
    /// The window field that smoltcp is to be told: the peer's window, and no more than the congestion window. In recovery what
    /// has left the network is not counted as under way (RFC 6675).
    #[inline]
    pub(crate) fn window_to_tell(&self) -> u16 {
        let mut window = self.congestion.window();
        if self.recovery.is_some() && !self.link.rewound {
            window = window.saturating_add(self.sacked_bytes);
        }
        let shift = self.options.window_scale.unwrap_or(0).min(14);
        // Rounded up: never a closed window where the peer's is open.
        let field = (window + ((1 << shift) - 1)) >> shift;
        self.peer_window().min(u16::try_from(field).unwrap_or(u16::MAX))
    }

    /// Opens the congestion window by what `segment` acknowledges, unless there was a loss that is being made good.
    pub(crate) fn open_window(&mut self, host: &Host, segment: &Segment) {
        let (mss, una) = (self.segment_len(host), self.una());
        let acked = segment.ack.wrapping_sub(una);
        if segment.flags & ACK != 0 && self.recovery.is_none() && acked <= self.link.snd_nxt.wrapping_sub(una) {
            self.congestion.acknowledged(acked, mss);
        }
    }

    /// Without selective acknowledgements, each one that acknowledges nothing new stands for a segment that arrived behind a
    /// hole (RFC 5681 2).
    pub(crate) fn count_duplicate(&mut self, host: &Host, segment: &Segment) -> Option<Sacked> {
        if segment.payload_len > 0 {
            return None;
        }
        let waiting = segment.ack == self.una() && segment.ack != self.link.snd_nxt;
        if !waiting {
            self.duplicates = 0;
        } else if segment.window == self.peer_window() {
            self.duplicates = self.duplicates.saturating_add(1);
        }
        let bytes = self.duplicates.saturating_mul(self.segment_len(host));
        Some(Sacked { bytes, end: segment.ack, twice: None })
    }

    /// smoltcp's retransmission timer ran out, and it sent its oldest segment again.
    pub(crate) fn timed_out(&mut self, host: &mut Host, now_us: u64) {
        let again = core::mem::replace(&mut self.link.rewound, true);
        // smoltcp takes what it is told below for a sign of life, so that its own timeout does not come.
        if now_us >= self.heard_at_us + host.give_up_us {
            self.abort();
            return;
        }
        // A closed window that is probed is no congestion.
        if self.peer_window() == 0 {
            return;
        }
        let (mss, una) = (self.segment_len(host), self.una());
        self.congestion.timed_out(self.link.snd_nxt.wrapping_sub(una), mss, again);
        self.recovery = None;
        self.sacked_bytes = 0;
        let mut window = self.window_to_tell();
        if window == self.told_window {
            // Or it would count as a duplicate.
            window -= 1;
        }
        if window > 0 {
            self.tell_window(host, now_us, window);
        }
    }

    /// Tells smoltcp a window without any news else.
    fn tell_window(&mut self, host: &mut Host, now_us: u64, window: u16) {
        let (seq, ack) = (self.rcv_nxt(), self.una().wrapping_sub(self.link.seq_delta));
        self.told_window = window;
        self.feed_ack(host, now_us, seq, ack, window);
    }

    /// Makes smoltcp send again what the peer's acknowledgement shows to be lost. Returns whether it has something to send.
    ///
    /// A loss is inferred from three segments' worth of selectively acknowledged data (RFC 6675), or less of it that stays
    /// for a while; from an acknowledgement of only a part of what was under way when the first loss was found (RFC 6582);
    /// and, of a segment sent again, from the arrival of what was sent after it (RFC 8985).
    pub(crate) fn recover(&mut self, host: &mut Host, now_us: u64, segment: &Segment, sacked: Sacked) -> bool {
        let (ack, (resent, resent_at)) = (segment.ack, self.link.resent);
        if let Some(seq) = sacked.twice
            && self.congestion.arrived_twice(seq)
        {
            // It had only been overtaken: next time there is more patience.
            self.reorder_us = (self.srtt_us / 4).clamp(*OVERTAKING_US.start(), *OVERTAKING_US.end());
            self.recovery = None;
        }
        if self.recovery.is_some_and(|end| !before(ack, end)) || self.unacked() == 0 {
            self.recovery = None;
        }
        // What the peer acknowledges must be what smoltcp is waiting for.
        if ack != self.una() || !before(ack, self.link.snd_nxt) || self.link.rewound {
            self.loss_check_us = u64::MAX;
            return false;
        }
        let threshold = 3 * self.segment_len(host);
        let lost = match self.recovery {
            None if self.hole == ack && self.loss_check_us != u64::MAX => {
                sacked.bytes >= threshold && now_us + REORDER_US >= self.loss_check_us + self.reorder_us
            }
            None => sacked.bytes >= threshold && self.reorder_us == 0,
            Some(_) if ack != resent => before(resent, ack),
            Some(_) => before(resent_at, sacked.end),
        };
        if lost {
            self.resend(host, now_us);
        } else if sacked.bytes == 0 {
            self.loss_check_us = u64::MAX;
        } else if self.loss_check_us == u64::MAX || self.hole != ack {
            self.hole = ack;
            self.loss_check_us = if self.recovery.is_some() { u64::MAX } else { now_us + REORDER_US };
        }
        lost
    }

    /// Looks whether a hole that was seen some time ago is still there. Returns whether there is something to send.
    pub(crate) fn check_loss(&mut self, host: &mut Host, now_us: u64) -> bool {
        if now_us < self.loss_check_us {
            return false;
        }
        self.loss_check_us = u64::MAX;
        let open = self.unacked() > 0 && self.una() == self.hole && before(self.hole, self.link.snd_nxt);
        if !open || self.link.rewound {
            return false;
        }
        self.resend(host, now_us);
        true
    }

    /// A full segment or more was sent: measures the round trip, and sets when to probe. What is no more than one segment is left alone,
    /// for its acknowledgement may be delayed.
    pub(crate) fn note_sent(&mut self, host: &Host, now_us: u64) {
        if self.link.snd_nxt.wrapping_sub(self.una()) <= self.segment_len(host) {
            return;
        }
        if self.rtt_mark.is_none() {
            self.rtt_mark = Some((self.link.snd_nxt, now_us));
        }
        self.set_probe(now_us);
    }

    /// The peer acknowledged something.
    pub(crate) fn note_ack(&mut self, now_us: u64, ack: u32) {
        if let Some((seq, since_us)) = self.rtt_mark
            && !before(ack, seq)
        {
            self.rtt_mark = None;
            let sample = now_us - since_us;
            if self.recovery.is_none() && !self.link.rewound {
                self.srtt_us = if self.srtt_us == 0 { sample } else { (7 * self.srtt_us + sample) / 8 }.max(1);
            }
        }
        if self.probe_at_us != u64::MAX {
            if ack == self.link.snd_nxt {
                self.probe_at_us = u64::MAX;
            } else {
                self.set_probe(now_us);
            }
        }
    }

    fn set_probe(&mut self, now_us: u64) {
        self.probe_at_us = if self.srtt_us > 0 { now_us + 2 * self.srtt_us + PROBE_SLACK_US } else { u64::MAX };
    }

    /// Sends the oldest segment again where two round trips passed without a word: the last segments or the only
    /// acknowledgement of a whole flight were lost (compare RFC 8985 7). Returns whether there is something to send.
    pub(crate) fn check_silence(&mut self, host: &mut Host, now_us: u64) -> bool {
        if now_us < self.probe_at_us {
            return false;
        }
        self.probe_at_us = u64::MAX;
        let waiting = self.unacked() > 0 && before(self.una(), self.link.snd_nxt);
        if !waiting || self.link.rewound || self.peer_window() == 0 {
            return false;
        }
        self.resend(host, now_us);
        true
    }

    /// Makes smoltcp send its oldest segment again.
    fn resend(&mut self, host: &mut Host, now_us: u64) {
        let una = self.una();
        if self.recovery.is_none() {
            let mss = self.segment_len(host);
            self.congestion.lost(una, self.link.snd_nxt.wrapping_sub(una), mss);
            self.recovery = Some(self.link.snd_nxt);
        }
        self.loss_check_us = u64::MAX;
        // So that it is not found lost again before it was sent.
        self.link.resent = (una, self.link.snd_nxt);
        // A changed window makes smoltcp count duplicates from the start; three of them make it send again.
        let window = self.window_to_tell();
        for window in [window ^ 1, window, window, window, window] {
            self.tell_window(host, now_us, window);
        }
        self.need_egress = true;
    }
}
