//! What smoltcp's sender lacks in loss recovery, made up for by what it is told.
//!
//! smoltcp implements fast retransmit and Reno (RFC 5681). It ignores selective acknowledgements, counts only duplicates
//! with an unchanged window (a Linux receiver's window changes with almost each of them), forgets a loss with the first
//! acknowledgement after it, and opens the congestion window once per acknowledgement, however much that covers. Over a
//! wire that loses one frame in a hundred most losses then wait for the timer. It can be made to do better from outside:
//! three identical acknowledgements make it send the oldest segment again, and an acknowledgement fed in parts counts for
//! each part. See `docs/decisions/loss-recovery.md` for what this gains.

use crate::conn::{Conn, Host};
use crate::wire::{Sacked, Segment, before};

/// The shortest time that a hole is given to be filled by a segment that was overtaken.
const REORDER_US: u64 = 10_000;
/// What is added to two round trips before the peer is probed: more than delayed acknowledgements of Linux (40 ms).
const PROBE_SLACK_US: u64 = 45_000;
/// Parts in which an acknowledgement is fed at most.
const PARTS: u32 = 32;

impl Conn {
    /// Feeds what `segment` acknowledges segment by segment, so that the congestion window opens by what was acknowledged
    /// (RFC 3465). The last part is left to the segment itself.
    pub(crate) fn count_bytes(&mut self, host: &mut Host, now_us: u64, segment: &Segment) {
        let mss = self.segment_len(host);
        let una = self.una();
        let acked = segment.ack.wrapping_sub(una);
        if acked > self.link.snd_nxt.wrapping_sub(una) || acked <= mss || self.link.rewound {
            return;
        }
        let seq = self.rcv_nxt();
        let parts = ((acked - 1) / mss).min(PARTS);
        for part in 1..=parts {
            let ack = una.wrapping_add(part * mss).wrapping_sub(self.link.seq_delta);
            self.feed_ack(host, now_us, seq, ack, segment.window);
        }
    }

    /// Makes smoltcp send again what the peer's acknowledgement shows to be lost. Returns whether it has something to send.
    ///
    /// A loss is inferred from three segments' worth of selectively acknowledged data (RFC 6675), or less of it that stays
    /// for a while; from an acknowledgement of only a part of what was under way when the first loss was found (RFC 6582);
    /// and, of a segment sent again, from the arrival of what was sent after it (RFC 8985).
    pub(crate) fn recover(&mut self, host: &mut Host, now_us: u64, segment: &Segment, sacked: Sacked) -> bool {
        let (ack, (resent, resent_at)) = (segment.ack, self.link.resent);
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
            None => sacked.bytes >= threshold,
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
        let (una, window) = (self.una(), self.peer_window());
        self.recovery.get_or_insert(self.link.snd_nxt);
        self.loss_check_us = u64::MAX;
        // So that it is not found lost again before it was sent.
        self.link.resent = (una, self.link.snd_nxt);
        // A changed window makes smoltcp count duplicates from the start; three of them make it send again.
        let ack = una.wrapping_sub(self.link.seq_delta);
        let seq = self.rcv_nxt();
        for window in [window ^ 1, window, window, window, window] {
            self.feed_ack(host, now_us, seq, ack, window);
        }
        self.need_egress = true;
    }
}
