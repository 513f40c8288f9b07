//! Full segments of one connection, collected into one frame that the device cuts up again.
//!
//! smoltcp writes segment after segment. Each is let write its headers over the end of what was collected so far, which is
//! put back behind it: so its payload comes to lie where it belongs without being copied once more. What does not continue
//! the segments before (options, another acknowledgement, a gap) goes out by itself, behind them.

use barium_nic::Nic;

use crate::device::{Link, MAX_MTU, send_one};
use crate::wire::{ACK, ETHERNET_LEN, FIN, HEADERS_LEN, Headers, IPV4_LEN, PSH, TCP_AT, TCP_LEN, u16_at, u32_at};

/// A frame under way in the device's [large buffer](Nic::large).
pub(crate) struct Train {
    /// Payload of a full segment.
    mss: usize,
    /// Bytes of the frame so far; 0 while there is none.
    len: usize,
    /// smoltcp's sequence number behind it.
    next: u32,
    /// What its segments have in common.
    kind: Option<Kind>,
    segments: u32,
}

/// What decides whether a segment continues a train.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    ack: u32,
    window: u16,
    /// Length of the header, and flags but those that end a train.
    shape: [u8; 2],
}

impl Kind {
    fn of(headers: &Headers) -> Self {
        let ack = u32_at(headers, TCP_AT + 8);
        let window = u16_at(headers, TCP_AT + 14);
        Self { ack, window, shape: [headers[TCP_AT + 12], headers[TCP_AT + 13] & !(PSH | FIN)] }
    }

    /// No options, nothing but data.
    fn is_plain(self) -> bool {
        self.shape == [((TCP_LEN / 4) << 4) as u8, ACK]
    }
}

/// The headers that end at `at`.
fn headers_before(buffer: &mut [u8], at: usize) -> Option<&mut Headers> {
    buffer.get_mut(at.checked_sub(HEADERS_LEN)?..at)?.try_into().ok()
}

impl Train {
    /// Collects segments with `mss` bytes of payload.
    pub(crate) fn new(mss: u32) -> Self {
        Self { mss: mss as usize, len: 0, next: 0, kind: None, segments: 0 }
    }

    /// Whether an IP packet of `len` bytes concerns the train: it is full, or there are others before it.
    #[inline]
    pub(crate) fn takes(&self, len: usize) -> bool {
        self.len > 0 || len >= IPV4_LEN + TCP_LEN + self.mss
    }

    /// Lets `write` write its packet of `len` bytes; see the module's text.
    pub(crate) fn consume<N: Nic, R>(
        &mut self,
        nic: &mut N,
        link: &mut Link,
        len: usize,
        write: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        if self.len > 0 && self.len + len > nic.max_large() {
            self.finish(nic, link);
        }
        let payload_at = if self.len == 0 { HEADERS_LEN } else { self.len };
        let begin = payload_at - HEADERS_LEN;
        let end = begin + ETHERNET_LEN + len;
        // An acknowledgement or a segment that is not full begins no train.
        let buffer = if self.takes(len) { nic.large().filter(|buffer| end <= buffer.len()) } else { None };
        let Some(buffer) = buffer else {
            return send_one(nic, link, len, write);
        };
        let Some(kept) = headers_before(buffer, payload_at).map(|headers| *headers) else {
            return send_one(nic, link, len, write);
        };
        let result = write(&mut buffer[begin + ETHERNET_LEN..end]);
        let Some(headers) = headers_before(buffer, payload_at) else { return result };
        let (kind, flags, seq) = (Kind::of(headers), headers[TCP_AT + 13], u32_at(headers, TCP_AT + 4));
        let continues = self.len == 0 || (self.kind == Some(kind) && seq == self.next);
        if !kind.is_plain() || !continues {
            let mut packet = [0; MAX_MTU];
            packet[..len].copy_from_slice(&buffer[begin + ETHERNET_LEN..end]);
            if self.len > 0 {
                buffer[begin..payload_at].copy_from_slice(&kept);
            }
            self.finish(nic, link);
            send_one(nic, link, len, |out| out.copy_from_slice(&packet[..len]));
            return result;
        }
        if self.len > 0 {
            buffer[begin..payload_at].copy_from_slice(&kept);
            buffer[TCP_AT + 13] |= flags;
        }
        let payload = end - payload_at;
        self.len = end;
        self.kind = Some(kind);
        self.next = seq.wrapping_add(payload as u32);
        self.segments += 1;
        link.account(seq, flags, payload as u32);
        if payload < self.mss || flags & (PSH | FIN) != 0 {
            self.finish(nic, link);
        }
        result
    }

    /// Sends what was collected.
    pub(crate) fn finish<N: Nic>(&mut self, nic: &mut N, link: &mut Link) {
        let (len, segments) = (core::mem::take(&mut self.len), core::mem::take(&mut self.segments));
        if len == 0 {
            return;
        }
        let frame = nic.large().and_then(|buffer| buffer.get_mut(..len));
        if let Some((headers, rest)) = frame.and_then(|frame| frame.split_first_chunk_mut::<HEADERS_LEN>()) {
            let total = (len - ETHERNET_LEN) as u16;
            headers[ETHERNET_LEN + 2..ETHERNET_LEN + 4].copy_from_slice(&total.to_be_bytes());
            link.complete(headers, rest);
        }
        if !nic.transmit_large(len, HEADERS_LEN, self.mss) {
            link.lost += segments;
        }
    }
}
