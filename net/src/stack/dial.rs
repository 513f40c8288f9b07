//! Connections that the station opens itself: the next hop's link address, then SYN-SENT (RFC 9293 3.10.7.3).
//!
//! As with those that come in, smoltcp has no part in the handshake: when the peer has answered, a socket is made that is
//! exactly where it would be by then. From there on nothing tells the two kinds apart.

use barium_nic::Nic;

use super::Stack;
use crate::conn::WINDOW_SHIFT;
use crate::control;
use crate::flow::{Flow, FlowKey};
use crate::service::{Dial, DialError, Endpoint, Service};
use crate::wire::{ACK, Outbound, RST, SYN, Segment};

/// A connection that is being opened.
pub(crate) struct Dialing {
    number: u32,
    ticket: u32,
    key: FlowKey,
    next_hop: [u8; 4],
    /// Link address of the next hop, once it is known.
    peer_mac: Option<[u8; 6]>,
    iss: u32,
    /// When to ask again, or to give up.
    pub(super) due_us: u64,
    /// SYNs sent by timer.
    repeats: u8,
    until_us: u64,
}

/// Connections being opened at once.
const MAX_DIALS: usize = 32;
/// Time after which a question for a link address is repeated, and the first SYN; later SYNs wait twice as long each
/// (RFC 6298 2.1).
const FIRST_REPEAT_US: u64 = 1_000_000;
/// The ports that IANA leaves for this (RFC 6335).
const FIRST_PORT: u16 = 49_152;
const PORTS: u32 = 16_384;
/// Ports that are tried for one connection.
const PORTS_TRIED: u32 = 1_024;

impl Stack {
    /// Begins what the service wants opened. Returns whether there may be more.
    pub(super) fn begin_dials<N: Nic, S: Service>(&mut self, nic: &mut N, service: &mut S, now_us: u64) -> bool {
        for _ in 0..MAX_DIALS {
            let Some(dial) = service.next_dial() else { return false };
            if let Err(why) = self.begin_dial(nic, service, now_us, &dial) {
                self.dial_failed(dial.ticket, why);
                self.say_gone(service);
            }
        }
        true
    }

    fn begin_dial<N: Nic, S: Service>(
        &mut self,
        nic: &mut N,
        service: &S,
        now_us: u64,
        dial: &Dial,
    ) -> Result<(), DialError> {
        let addr = self.station.addr.ok_or(DialError::NoAddress)?;
        let Dial { ticket, to, timeout_us } = *dial;
        // What would be no source address is no destination either, and nothing leads back to ourselves.
        if to.addr == addr || matches!(to.addr[0], 0 | 127 | 224..=255) || to.port == 0 {
            return Err(DialError::Unreachable);
        }
        let next_hop = self.control.next_hop(to.addr).ok_or(DialError::Unreachable)?;
        if self.dials.len() >= MAX_DIALS || self.open >= self.config.max_connections {
            return Err(DialError::TooMany);
        }
        self.dials.try_reserve(1).map_err(|_| DialError::OutOfMemory)?;
        let local_port = self.free_port(service, to).ok_or(DialError::TooMany)?;
        let key = FlowKey { addr: to.addr, port: to.port, local_port };
        let number = self.dialed;
        self.dialed = self.dialed.wrapping_add(1);
        let until_us = now_us.saturating_add(timeout_us);
        let iss = self.initial_seq(now_us, &key);
        let due_us = until_us.min(now_us + FIRST_REPEAT_US);
        let entry = Dialing { number, ticket, key, next_hop, peer_mac: None, iss, due_us, repeats: 0, until_us };
        self.flows.set(key, Flow::Dialing(number));
        self.dials.push(entry);
        self.stats.frames_out += self.control.ask_for(nic, self.station.mac, next_hop);
        Ok(())
    }

    /// A local port that makes, with the peer, a connection that is not there yet: from a place on that only we can guess
    /// for that peer (RFC 6056 3.3.3).
    fn free_port<S: Service>(&self, service: &S, to: Endpoint) -> Option<u16> {
        let mut key = FlowKey { addr: to.addr, port: to.port, local_port: 0 };
        let start = (self.iss_hash.hash(key.word()) >> 32) as u32;
        (0..PORTS_TRIED).find_map(|n| {
            let offset = start.wrapping_add(self.dialed).wrapping_add(n) % PORTS;
            key.local_port = FIRST_PORT + offset as u16;
            let free = self.flows.get(&key).is_none()
                && !self.config.listen_ports.contains(&key.local_port)
                && service.owns(to, key.local_port);
            free.then_some(key.local_port)
        })
    }

    fn send_syn<N: Nic>(&mut self, nic: &mut N, key: &FlowKey, peer_mac: [u8; 6], iss: u32) {
        let [a, b] = (self.mtu - 40).to_be_bytes();
        let options = [2, 4, a, b, 1, 3, 3, WINDOW_SHIFT, 1, 1, 4, 2];
        let window = u16::try_from(self.config.initial_receive_buffer).unwrap_or(u16::MAX);
        let out = Outbound { seq: iss, flags: SYN, window, options: &options, ..self.answer(key, peer_mac) };
        self.emit(nic, &out);
    }

    /// A frame for the control interface, of interest while connections are being opened: the link address of a next hop,
    /// or the news that a SYN cannot be delivered.
    pub(super) fn dial_control<N: Nic>(&mut self, nic: &mut N, now_us: u64, frame: &[u8]) {
        if let Some((addr, mac)) = control::arp_answer(frame) {
            for i in 0..self.dials.len() {
                let entry = &mut self.dials[i];
                if entry.next_hop == addr && entry.peer_mac.is_none() {
                    entry.peer_mac = Some(mac);
                    entry.due_us = entry.until_us.min(now_us + FIRST_REPEAT_US);
                    let (key, iss) = (entry.key, entry.iss);
                    self.send_syn(nic, &key, mac, iss);
                }
            }
        } else if let Some((addr, port, local_port, seq)) = control::undelivered(frame) {
            let key = FlowKey { addr, port, local_port };
            // Whoever does not know the sequence number has not seen the SYN (RFC 5927 4.1).
            if let Some(at) = self.dials.iter().position(|dial| dial.key == key && dial.iss == seq) {
                self.end_dial(at, DialError::Refused);
            }
        }
    }

    /// A segment of the peer of a connection that is being opened.
    pub(super) fn dial_input<N: Nic>(&mut self, nic: &mut N, now_us: u64, number: u32, segment: &Segment) {
        let Some(at) = self.dials.iter().position(|dial| dial.number == number) else { return };
        let acknowledged = segment.has(ACK) && segment.ack == self.dials[at].iss.wrapping_add(1);
        if segment.has(RST) {
            if acknowledged {
                self.end_dial(at, DialError::Refused);
            }
        } else if segment.has(ACK) && !acknowledged {
            self.reset_stray(nic, now_us, segment);
        } else if segment.has(SYN | ACK) {
            self.dial_answered(nic, now_us, at, segment);
        }
        // A SYN alone would be both sides opening at once. Whom we call listens, and does not open.
    }

    /// The peer has answered: makes the connection and completes the handshake.
    fn dial_answered<N: Nic>(&mut self, nic: &mut N, now_us: u64, at: usize, segment: &Segment) {
        let Dialing { number, ticket, key, iss, .. } = self.dials.swap_remove(at);
        let options = segment.syn_options;
        // The window of a SYN is not scaled, that of the connection is (RFC 7323 2.2).
        let scaled = segment.window >> options.window_scale.unwrap_or(0);
        let window = scaled.max(segment.window.min(1));
        let Some(slot) = self.admit(now_us, key, segment.peer_mac, options, (segment.seq, iss), window) else {
            self.flows.remove(&key, Flow::Dialing(number));
            self.reset_stray(nic, now_us, segment);
            return self.dial_failed(ticket, DialError::OutOfMemory);
        };
        let answer = self.answer(&key, segment.peer_mac);
        let Some(conn) = self.slots[slot as usize].conn.as_mut() else { return };
        // The service is told in its phase of the turn, and what it has to say goes out then.
        conn.ticket = Some(ticket);
        conn.touched = true;
        self.touched.push(slot);
        // If this is lost the peer sends its SYN-ACK again, which is answered with the same.
        let (seq, ack, window) = (conn.link.snd_nxt, conn.rcv_nxt(), conn.window_field());
        self.emit(nic, &Outbound { seq, ack, flags: ACK, window, ..answer });
    }

    /// Notes that a connection did not come about; the service is told in its phase of the turn.
    pub(super) fn dial_failed(&mut self, ticket: u32, why: DialError) {
        self.stats.dial_failed += 1;
        self.undialed.push((ticket, why));
    }

    fn end_dial(&mut self, at: usize, why: DialError) {
        let entry = self.dials.swap_remove(at);
        self.flows.remove(&entry.key, Flow::Dialing(entry.number));
        self.dial_failed(entry.ticket, why);
    }

    /// Gives up everything that is being opened.
    pub(super) fn end_dials(&mut self, why: DialError) {
        while !self.dials.is_empty() {
            self.end_dial(self.dials.len() - 1, why);
        }
    }

    /// Asks again where nobody answered, and gives up whose time is over.
    pub(super) fn expire_dials<N: Nic>(&mut self, nic: &mut N, now_us: u64) {
        let mut at = 0;
        while let Some(entry) = self.dials.get_mut(at) {
            if entry.due_us <= now_us && entry.until_us <= now_us {
                self.end_dial(at, DialError::TimedOut);
                continue;
            }
            if entry.due_us <= now_us {
                let (key, iss, next_hop) = (entry.key, entry.iss, entry.next_hop);
                if let Some(mac) = entry.peer_mac {
                    entry.repeats = (entry.repeats + 1).min(6);
                    entry.due_us = entry.until_us.min(now_us + (FIRST_REPEAT_US << entry.repeats));
                    self.send_syn(nic, &key, mac, iss);
                    self.stats.retransmits += 1;
                } else {
                    entry.due_us = entry.until_us.min(now_us + FIRST_REPEAT_US);
                    self.stats.frames_out += self.control.ask_for(nic, self.station.mac, next_hop);
                }
            }
            at += 1;
        }
    }
}
