//! Connections before they are established and after they are closed: the SYN queue, TIME-WAIT, and strays.
//!
//! smoltcp has no part in this. A half-open connection is a small record; a socket is made when the peer has shown, by
//! acknowledging our sequence number, that it is where it says (RFC 9293 3.10.7.2, RFC 4987).

use alloc::boxed::Box;

use barium_nic::Nic;

use super::{Slot, Stack};
use crate::conn::{Conn, WINDOW_SHIFT};
use crate::device::Link;
use crate::flow::{Flow, FlowKey};
use crate::wire::{ACK, Outbound, RST, SYN, Segment, SynOptions, before};

/// A handshake under way: our SYN-ACK is out, the acknowledgement is not in.
#[derive(Debug)]
pub(crate) struct HalfOpen {
    pub(super) key: FlowKey,
    peer_mac: [u8; 6],
    options: SynOptions,
    irs: u32,
    iss: u32,
    /// When to send the SYN-ACK again.
    due_us: u64,
    /// SYN-ACKs sent by timer.
    repeats: u8,
}

/// SYN-ACKs repeated before a half-open connection is given up: after 1, 3, 7 and 15 s; given up after 31 s.
const SYN_ACK_REPEATS: u8 = 4;
const SYN_ACK_FIRST_US: u64 = 1_000_000;

/// What is remembered of a connection that we closed first, so that its late segments meet no new one.
#[derive(Debug)]
pub(crate) struct TimeWait {
    pub(super) key: FlowKey,
    pub(super) snd_nxt: u32,
    pub(super) rcv_nxt: u32,
    pub(super) until_us: u64,
}

/// How long TIME-WAIT lasts: shorter than RFC 9293's 2 MSL of four minutes, as everywhere. A valid new SYN ends it sooner.
pub(super) const TIME_WAIT_US: u64 = 15_000_000;

impl Stack {
    /// A segment that belongs to no connection: a SYN for a port that listens, or something to reset.
    pub(super) fn stray_input<N: Nic>(&mut self, nic: &mut N, now_us: u64, key: FlowKey, segment: &Segment) {
        let is_syn = segment.flags & (SYN | ACK | RST) == SYN;
        if is_syn && self.config.listen_ports.contains(&segment.local_port) {
            self.begin(nic, now_us, key, segment, 0);
        } else {
            self.reset_stray(nic, now_us, segment);
        }
    }

    /// Answers a SYN and remembers it. The initial sequence number lies after `after_seq` unless that is 0.
    fn begin<N: Nic>(&mut self, nic: &mut N, now_us: u64, key: FlowKey, segment: &Segment, after_seq: u32) {
        if self.half_open.len() >= self.config.max_half_open.max(1) {
            // An honest peer that is still there sends its SYN again.
            if let Some((oldest, entry)) = self.half_open.oldest() {
                self.flows.remove(&entry.key, Flow::HalfOpen(oldest));
                self.half_open.remove(oldest);
                self.stats.half_open_evicted += 1;
            }
        }
        let mut iss = self.initial_seq(now_us, &key);
        if after_seq != 0 && !before(after_seq, iss) {
            iss = after_seq.wrapping_add(1 << 16);
        }
        let entry = HalfOpen {
            key,
            peer_mac: segment.peer_mac,
            options: segment.syn_options,
            irs: segment.seq,
            iss,
            due_us: now_us + SYN_ACK_FIRST_US,
            repeats: 0,
        };
        self.half_open_due_us = self.half_open_due_us.min(entry.due_us);
        self.send_syn_ack(nic, &entry);
        let at = self.half_open.push(entry);
        self.flows.set(key, Flow::HalfOpen(at));
        self.stats.syns += 1;
    }

    /// An initial sequence number (RFC 6528): a clock of 4 us plus a keyed hash of the connection's name.
    pub(super) fn initial_seq(&self, now_us: u64, key: &FlowKey) -> u32 {
        (self.iss_hash.hash(key.word()) as u32).wrapping_add((now_us >> 2) as u32)
    }

    fn send_syn_ack<N: Nic>(&mut self, nic: &mut N, entry: &HalfOpen) {
        let mss = (self.mtu - 40).to_be_bytes();
        let mut options = [2, 4, mss[0], mss[1], 1, 1, 1, 1, 1, 1, 1, 1];
        let mut len = 4;
        if entry.options.window_scale.is_some() {
            options[len + 1..len + 4].copy_from_slice(&[3, 3, WINDOW_SHIFT]);
            len += 4;
        }
        if entry.options.sack_permitted {
            options[len + 2..len + 4].copy_from_slice(&[4, 2]);
            len += 4;
        }
        let window = u16::try_from(self.config.initial_receive_buffer).unwrap_or(u16::MAX);
        let out = Outbound {
            seq: entry.iss,
            ack: entry.irs.wrapping_add(1),
            flags: SYN | ACK,
            window,
            options: &options[..len],
            ..self.answer(&entry.key, entry.peer_mac)
        };
        self.emit(nic, &out);
    }

    /// A segment to the peer of `key` with nothing in it yet.
    pub(super) fn answer(&self, key: &FlowKey, peer_mac: [u8; 6]) -> Outbound<'static> {
        Outbound {
            mac: peer_mac,
            addr: key.addr,
            port: key.port,
            local_mac: self.station.mac,
            local_addr: self.host.addr,
            local_port: key.local_port,
            seq: 0,
            ack: 0,
            flags: 0,
            window: 0,
            options: &[],
        }
    }

    /// A segment for a half-open connection.
    pub(super) fn half_open_input<N: Nic>(
        &mut self,
        nic: &mut N,
        now_us: u64,
        at: u32,
        frame: &mut [u8],
        segment: &Segment,
    ) {
        let Some(entry) = self.half_open.get_mut(at) else { return };
        let (irs, iss, key) = (entry.irs, entry.iss, entry.key);
        if segment.has(RST) {
            if segment.seq == irs.wrapping_add(1) {
                self.forget_half_open(at);
            }
        } else if segment.has(SYN) {
            if segment.has(ACK) {
                return;
            }
            if segment.seq == irs {
                // Our SYN-ACK was lost or is under way.
                if let Some(entry) = self.half_open.remove(at) {
                    self.send_syn_ack(nic, &entry);
                    let at = self.half_open.push(entry);
                    self.flows.set(key, Flow::HalfOpen(at));
                }
            } else {
                self.forget_half_open(at);
                self.begin(nic, now_us, key, segment, 0);
            }
        } else if segment.has(ACK) {
            let offset = segment.seq.wrapping_sub(irs.wrapping_add(1)) as usize;
            if segment.ack != iss.wrapping_add(1) {
                self.reset_stray(nic, now_us, segment);
            } else if offset <= self.config.initial_receive_buffer {
                self.establish(nic, now_us, at, frame, segment);
            }
        }
    }

    fn forget_half_open(&mut self, at: u32) -> Option<HalfOpen> {
        let entry = self.half_open.remove(at)?;
        self.flows.remove(&entry.key, Flow::HalfOpen(at));
        Some(entry)
    }

    /// The handshake is complete: makes the connection and gives it the segment that completed it. The service is told of
    /// it in the second phase.
    fn establish<N: Nic>(&mut self, nic: &mut N, now_us: u64, at: u32, frame: &mut [u8], segment: &Segment) {
        if self.open >= self.config.max_connections {
            self.forget_half_open(at);
            self.stats.refused += 1;
            self.reset_stray(nic, now_us, segment);
            return;
        }
        let Some(entry) = self.half_open.remove(at) else { return };
        let numbers = (entry.irs, entry.iss);
        let Some(slot) = self.admit(now_us, entry.key, segment.peer_mac, entry.options, numbers, segment.window) else {
            self.flows.remove(&entry.key, Flow::HalfOpen(at));
            self.stats.refused += 1;
            self.reset_stray(nic, now_us, segment);
            return;
        };
        self.established_input(nic, now_us, slot, frame, segment);
    }

    /// Makes a connection of a handshake that is complete, in a slot of its own. `options` are those of the peer's SYN,
    /// `numbers` its initial sequence number and ours, `window` is its present window field. `None` if there is no memory
    /// for the buffers.
    pub(super) fn admit(
        &mut self,
        now_us: u64,
        key: FlowKey,
        peer_mac: [u8; 6],
        options: SynOptions,
        numbers: (u32, u32),
        window: u16,
    ) -> Option<u32> {
        let link = Link {
            peer_mac,
            local_mac: self.station.mac,
            seq_delta: 0,
            inner_shift: 0,
            wire_shift: if options.window_scale.is_some() { WINDOW_SHIFT } else { 0 },
            checksum_offload: self.checksum_offload,
            mtu: self.mtu,
            snd_nxt: 0,
            rewound: false,
            resent: (0, 0),
            sent: 0,
            retransmits: 0,
            lost: 0,
        };
        let capacities = (self.config.initial_receive_buffer, self.config.initial_send_buffer);
        let (irs, iss) = numbers;
        let conn = Conn::open(&mut self.host, now_us, key, link, options, irs, iss, capacities, window)?;
        let slot = match self.free_slots.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(Slot { generation: 0, conn: None });
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[slot as usize].conn = Some(Box::new(conn));
        self.flows.set(key, Flow::Open(slot));
        self.open += 1;
        Some(slot)
    }

    /// A segment for a connection in TIME-WAIT (RFC 9293 3.10.7.4, RFC 6191).
    pub(super) fn time_wait_input<N: Nic>(&mut self, nic: &mut N, now_us: u64, at: u32, segment: &Segment) {
        let Some(entry) = self.time_wait.get_mut(at) else { return };
        // A RST does not end TIME-WAIT (RFC 1337).
        if segment.has(RST) {
            return;
        }
        let (key, snd_nxt, rcv_nxt) = (entry.key, entry.snd_nxt, entry.rcv_nxt);
        let is_syn = segment.flags & (SYN | ACK) == SYN;
        if is_syn && before(rcv_nxt, segment.seq) && self.config.listen_ports.contains(&key.local_port) {
            self.time_wait.remove(at);
            self.stats.time_wait_reused += 1;
            self.begin(nic, now_us, key, segment, snd_nxt);
            return;
        }
        // An old duplicate, or a FIN whose acknowledgement was lost.
        if self.stray_token(now_us) {
            let window = u16::try_from(self.config.initial_receive_buffer >> WINDOW_SHIFT).unwrap_or(u16::MAX);
            let out =
                Outbound { seq: snd_nxt, ack: rcv_nxt, flags: ACK, window, ..self.answer(&key, segment.peer_mac) };
            self.emit(nic, &out);
        }
    }

    /// Remembers a connection that we closed first.
    pub(super) fn enter_time_wait(&mut self, entry: TimeWait) {
        if self.time_wait.len() >= self.config.max_time_wait.max(1)
            && let Some((oldest, old)) = self.time_wait.oldest()
        {
            self.flows.remove(&old.key, Flow::TimeWait(oldest));
            self.time_wait.remove(oldest);
        }
        let key = entry.key;
        let at = self.time_wait.push(entry);
        self.flows.set(key, Flow::TimeWait(at));
    }

    /// Answers a segment that belongs to no connection with a RST (RFC 9293 3.10.7.1), at a bounded rate.
    pub(super) fn reset_stray<N: Nic>(&mut self, nic: &mut N, now_us: u64, segment: &Segment) {
        if segment.has(RST) {
            return;
        }
        if !self.stray_token(now_us) {
            self.stats.resets_suppressed += 1;
            return;
        }
        let key = FlowKey { addr: segment.peer_addr, port: segment.peer_port, local_port: segment.local_port };
        let answer = self.answer(&key, segment.peer_mac);
        let out = if segment.has(ACK) {
            Outbound { seq: segment.ack, flags: RST, ..answer }
        } else {
            let ack = segment.seq.wrapping_add(segment.seq_len());
            Outbound { ack, flags: RST | ACK, ..answer }
        };
        self.emit(nic, &out);
        self.stats.resets_sent += 1;
    }

    /// Repeats SYN-ACKs and drops what has run out.
    pub(super) fn expire_handshakes<N: Nic>(&mut self, nic: &mut N, now_us: u64) {
        while let Some((at, entry)) = self.time_wait.oldest() {
            if entry.until_us > now_us {
                break;
            }
            self.flows.remove(&entry.key, Flow::TimeWait(at));
            self.time_wait.remove(at);
        }
        if self.half_open.len() == 0 || now_us < self.half_open_due_us {
            return;
        }
        // At most a few thousand entries, at most once per tick: no order by deadline is kept.
        let mut due_us = u64::MAX;
        let mut next = self.half_open.oldest().map(|(at, _)| at);
        while let Some(at) = next {
            next = self.half_open.after(at);
            let Some(entry) = self.half_open.get_mut(at) else { break };
            if entry.due_us > now_us {
                due_us = due_us.min(entry.due_us);
                continue;
            }
            if entry.repeats >= SYN_ACK_REPEATS {
                self.forget_half_open(at);
                self.stats.half_open_expired += 1;
                continue;
            }
            entry.repeats += 1;
            entry.due_us = now_us + (SYN_ACK_FIRST_US << entry.repeats);
            due_us = due_us.min(entry.due_us);
            let copy = HalfOpen { ..*entry };
            self.send_syn_ack(nic, &copy);
        }
        self.half_open_due_us = due_us.max(now_us + crate::wheel::TICK_US);
    }
}
