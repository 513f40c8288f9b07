//! Established connections: input to the service, output from it, and what time brings.

use alloc::boxed::Box;

use barium_nic::Nic;
use smoltcp::socket::tcp::State;

use super::Stack;
use super::handshake::{TIME_WAIT_US, TimeWait};
use crate::conn::{Conn, Egress, Host, RTO_FLOOR_US};
use crate::fifo::Fifo;
use crate::flow::Flow;
use crate::service::{ConnId, DialError, Endpoint, Fate, Service};
use crate::wheel::TICK_US;
use crate::wire::{ACK, Outbound, RST, SYN, Segment};

/// Connections served in one turn because the service named them.
const READY_PER_TURN: usize = 256;
/// Connections looked at in one turn for buffers to take back.
const RECLAIM_PER_TURN: u32 = 64;
/// How long a connection keeps large buffers without using them.
const IDLE_BUFFERS_US: u64 = 5_000_000;
/// Factor by which a buffer grows at a time.
const GROWTH: usize = 4;

impl Stack {
    /// A segment for a connection.
    pub(super) fn established_input<N: Nic>(
        &mut self,
        nic: &mut N,
        now_us: u64,
        slot: u32,
        frame: &mut [u8],
        segment: &Segment,
    ) {
        if segment.flags & (SYN | RST) != 0 {
            return self.suspicious_input(nic, now_us, slot, frame, segment);
        }
        let Some(conn) = self.slots.get_mut(slot as usize).and_then(|slot| slot.conn.as_deref_mut()) else { return };
        let concerned = conn.ingress(&mut self.host, nic, now_us, frame, segment);
        if concerned && !conn.touched {
            conn.touched = true;
            self.touched.push(slot);
        }
    }

    /// A segment that would end a connection, or begin one.
    #[cold]
    fn suspicious_input<N: Nic>(&mut self, nic: &mut N, now_us: u64, slot: u32, frame: &mut [u8], segment: &Segment) {
        let Some(mut conn) = self.take(slot) else { return };
        // RFC 5961: only a RST with the exact number resets, another one in the window is asked about (3.2). So is every SYN
        // (4.2): a peer that is dead and born again answers with a RST, and its next SYN is welcome.
        if segment.flags & SYN != 0 {
            self.challenge(nic, now_us, &conn);
        } else if segment.has(RST) && segment.seq != conn.rcv_nxt() {
            let offset = segment.seq.wrapping_sub(conn.rcv_nxt()) as usize;
            if offset < conn.rx_capacity {
                self.challenge(nic, now_us, &conn);
            }
        } else {
            let concerned = conn.ingress(&mut self.host, nic, now_us, frame, segment);
            if concerned && !conn.touched {
                conn.touched = true;
                self.touched.push(slot);
            }
        }
        self.put_back(slot, conn);
    }

    /// Sends an acknowledgement that makes an honest peer say where it stands, at a bounded rate.
    fn challenge<N: Nic>(&mut self, nic: &mut N, now_us: u64, conn: &Conn) {
        if !self.stray_token(now_us) {
            return;
        }
        let out = Outbound {
            seq: conn.link.snd_nxt,
            ack: conn.rcv_nxt(),
            flags: ACK,
            window: conn.window_field(),
            ..self.answer(&conn.key, conn.link.peer_mac)
        };
        self.emit(nic, &out);
        self.stats.challenges += 1;
    }

    /// Tells the service of the connections that are no more, and of those that it wanted in vain.
    #[inline]
    pub(super) fn say_gone<S: Service>(&mut self, service: &mut S) {
        if !self.gone.is_empty() {
            self.gone.drain(..).for_each(|id| service.closed(id));
        }
        if !self.undialed.is_empty() {
            self.undialed.drain(..).for_each(|(ticket, why)| service.dial_failed(ticket, why));
        }
    }

    /// Serves the connection in `slot` if it still waits for it: since it was touched it may have ended, and another one
    /// have taken the slot.
    #[inline]
    pub(super) fn serve_touched<N: Nic, S: Service>(&mut self, nic: &mut N, service: &mut S, now_us: u64, slot: u32) {
        let waiting = self.slots.get(slot as usize).and_then(|slot| slot.conn.as_ref());
        if waiting.is_some_and(|conn| conn.touched) {
            self.serve_one(nic, service, now_us, slot);
        }
    }

    /// Serves the connection in `slot` once: input, output, what the service wants to become of it.
    fn serve_one<N: Nic, S: Service>(&mut self, nic: &mut N, service: &mut S, now_us: u64, slot: u32) {
        let Some(mut conn) = self.take(slot) else { return };
        let id = self.id(slot);
        conn.touched = false;
        if conn.fresh {
            self.introduce(&mut conn, service, id);
        }
        if conn.served {
            deliver(&mut conn, &mut self.host, service, id);
            if conn.want_receive {
                self.grow(&mut conn, nic, now_us, 0);
            }
            let fate = self.fill(&mut conn, nic, service, now_us, id);
            if fate != Fate::Open {
                self.obey(&mut conn, service, now_us, id, fate);
            }
        } else {
            conn.read(&mut [], |bytes| bytes.len());
        }
        if !conn.sending {
            conn.sending = true;
            self.sending.push(slot);
        }
        self.keep(slot, conn);
    }

    /// Tells the service of a new connection, which it may refuse.
    fn introduce<S: Service>(&mut self, conn: &mut Conn, service: &mut S, id: ConnId) {
        conn.fresh = false;
        let peer = Endpoint { addr: conn.key.addr, port: conn.key.port };
        let local = Endpoint { addr: self.host.addr, port: conn.key.local_port };
        let (taken, count) = match conn.ticket {
            None => (service.opened(id, peer, local), &mut self.stats.accepted),
            Some(ticket) => (service.dialed(ticket, id, local), &mut self.stats.dialed),
        };
        if taken {
            conn.served = true;
            *count += 1;
        } else {
            conn.abort();
            self.stats.refused += 1;
        }
    }

    /// Sends what the connection in `slot` has to send after it was served.
    #[inline]
    pub(super) fn send<N: Nic>(&mut self, nic: &mut N, now_us: u64, slot: u32) {
        let Some(mut conn) = self.take(slot) else { return };
        conn.sending = false;
        self.finish_turn(nic, now_us, slot, conn, false);
    }

    /// Moves the service's output into the send buffer. Returns what the service wants to become of the connection.
    #[inline]
    fn fill<N: Nic, S: Service>(
        &mut self,
        conn: &mut Conn,
        nic: &mut N,
        service: &mut S,
        now_us: u64,
        id: ConnId,
    ) -> Fate {
        conn.output_left = false;
        loop {
            let output = service.output(id);
            if output.is_empty() {
                return service.fate(id);
            }
            let n = match conn.enqueue_all(&self.host, output) {
                Some(n) => n,
                None => {
                    let unacked = conn.unacked();
                    if self.may_grow(conn) {
                        if conn.quiescent() {
                            self.grow(conn, nic, now_us, unacked + output.len());
                        } else if unacked > 0 {
                            // Once the peer has acknowledged what is under way the buffer can be exchanged.
                            conn.output_left = true;
                            return service.fate(id);
                        }
                    }
                    conn.enqueue(&self.host, output)
                }
            };
            if n == 0 {
                conn.output_left = true;
                return service.fate(id);
            }
            if let Some(fate) = service.sent(id, n) {
                return fate;
            }
        }
    }

    /// Does what the service wants to become of the connection.
    #[inline(never)]
    fn obey<S: Service>(&mut self, conn: &mut Conn, service: &mut S, now_us: u64, id: ConnId, fate: Fate) {
        match fate {
            Fate::Open => return,
            Fate::CloseAfterOutput => {
                conn.finishing = true;
                if conn.output_left {
                    conn.linger(&self.host, now_us);
                    return;
                }
                conn.close(&self.host, now_us);
            }
            Fate::Abort => conn.abort(),
        }
        conn.served = false;
        conn.read(&mut [], |bytes| bytes.len());
        service.closed(id);
    }

    /// Whether the send buffer may still grow.
    fn may_grow(&self, conn: &Conn) -> bool {
        conn.tx_capacity < self.config.max_send_buffer && self.grown_bytes < self.config.buffer_budget
    }

    /// Exchanges the buffers for larger ones, if the connection is quiet and memory allows it. `send_bytes` is what the
    /// send buffer should hold, 0 if it is large enough.
    fn grow<N: Nic>(&mut self, conn: &mut Conn, nic: &mut N, now_us: u64, send_bytes: usize) {
        if !conn.quiescent() {
            return;
        }
        let mut rx = conn.rx_capacity;
        if conn.want_receive {
            rx = (rx * GROWTH).min(self.config.max_receive_buffer).max(rx);
            conn.want_receive = false;
        }
        let mut tx = conn.tx_capacity;
        if send_bytes > tx {
            tx = send_bytes.next_power_of_two().max(tx * GROWTH).min(self.config.max_send_buffer).max(tx);
        }
        let more = (rx - conn.rx_capacity) + (tx - conn.tx_capacity);
        if more == 0 {
            return;
        }
        if self.grown_bytes + more > self.config.buffer_budget {
            self.reclaiming = Some(0);
            return;
        }
        if conn.resize(&mut self.host, nic, now_us, rx, tx) {
            self.grown_bytes += more;
            self.stats.buffers_grown += 1;
        }
    }

    /// Looks for idle connections with large buffers, a few at a time, after memory for buffers was found short.
    fn reclaim<N: Nic>(&mut self, nic: &mut N, now_us: u64) {
        let Some(first) = self.reclaiming else { return };
        let end = (first + RECLAIM_PER_TURN).min(self.slots.len() as u32);
        for slot in first..end {
            let Some(mut conn) = self.take(slot) else { continue };
            self.shrink(&mut conn, nic, now_us);
            self.put_back(slot, conn);
        }
        self.reclaiming = (end < self.slots.len() as u32).then_some(end);
    }

    /// Gives back buffers that an idle connection does not use. The window is only taken back where memory is short, for
    /// the peer may send what it was once allowed to.
    fn shrink<N: Nic>(&mut self, conn: &mut Conn, nic: &mut N, now_us: u64) {
        if now_us < conn.heard_at_us + IDLE_BUFFERS_US || !conn.quiescent() {
            return;
        }
        let short = self.grown_bytes > self.config.buffer_budget / 2;
        let rx = if short { conn.rx_capacity.min(self.config.initial_receive_buffer) } else { conn.rx_capacity };
        let tx = conn.tx_capacity.min(self.config.initial_send_buffer);
        let less = (conn.rx_capacity - rx) + (conn.tx_capacity - tx);
        if less == 0 {
            return;
        }
        if conn.resize(&mut self.host, nic, now_us, rx, tx) {
            self.grown_bytes = self.grown_bytes.saturating_sub(less);
            self.stats.buffers_shrunk += 1;
        }
    }

    /// Sends what the connection has to send, then keeps it, retires it or lets it go. `timed` says that a timer
    /// brought it here, and asks for its exact next deadline.
    fn finish_turn<N: Nic>(&mut self, nic: &mut N, now_us: u64, slot: u32, mut conn: Box<Conn>, timed: bool) {
        let egress = if timed {
            conn.egress_on_time(&mut self.host, nic, now_us)
        } else {
            conn.egress(&mut self.host, nic, now_us)
        };
        let state = conn.state();
        if state == State::Closed && conn.gone() {
            self.put_back(slot, conn);
            self.release(slot);
            return;
        }
        conn.overdue |= timed && egress == Egress::Blocked;
        if egress == Egress::Blocked && !conn.blocked {
            conn.blocked = true;
            self.blocked.push(slot);
            self.stats.ring_full += 1;
        }
        if state == State::TimeWait && egress == Egress::Done {
            let entry = TimeWait {
                key: conn.key,
                snd_nxt: conn.link.snd_nxt,
                rcv_nxt: conn.rcv_nxt(),
                until_us: now_us + TIME_WAIT_US,
            };
            self.put_back(slot, conn);
            self.release(slot);
            self.enter_time_wait(entry);
            return;
        }
        // A deadline that moves on with every segment is not followed exactly: the wheel holds one that is not later than
        // the connection's earliest, and what is really due is found out when it expires.
        let by = if timed || state != State::Established {
            let at = conn.poll_at_us(&mut self.host, now_us).unwrap_or(u64::MAX);
            // Large buffers are looked after again when they have not been used for a while.
            let grown = conn.tx_capacity > self.config.initial_send_buffer && conn.quiescent();
            let look_us = if grown { (conn.heard_at_us + IDLE_BUFFERS_US).max(now_us + TICK_US) } else { u64::MAX };
            at.min(look_us)
        } else if conn.owes_ack {
            now_us + self.config.ack_delay_us
        } else {
            now_us + RTO_FLOOR_US
        };
        let by = by.min(conn.loss_check_us).min(conn.probe_at_us).min(conn.linger_until_us);
        if by != u64::MAX && self.wheel.armed_at_us(slot) > by.saturating_add(2 * TICK_US) {
            self.wheel.arm(slot, by);
        }
        self.put_back(slot, conn);
    }

    /// Serves the connections that the service names. Returns whether there may be more of them.
    pub(super) fn serve_ready<N: Nic, S: Service>(&mut self, nic: &mut N, service: &mut S, now_us: u64) -> bool {
        for _ in 0..READY_PER_TURN {
            let Some(id) = service.next_ready() else { return false };
            if self.slots.get(id.slot as usize).is_some_and(|slot| slot.generation == id.generation) {
                self.serve_one(nic, service, now_us, id.slot);
            }
        }
        true
    }

    /// Has the connections that found the send ring full try again, in their order, until it is full once more.
    pub(super) fn unblock<N: Nic>(&mut self, nic: &mut N, now_us: u64) {
        let mut tried = 0;
        while tried < self.blocked.len() && nic.can_transmit() {
            let slot = self.blocked[tried];
            tried += 1;
            // One that was told so since goes when its turn to send comes.
            let waits = |conn: &mut Box<Conn>| core::mem::take(&mut conn.blocked) && !conn.sending;
            if self.slots.get_mut(slot as usize).and_then(|slot| slot.conn.as_mut()).is_some_and(waits)
                && let Some(mut conn) = self.take(slot)
            {
                let timed = core::mem::take(&mut conn.overdue);
                self.finish_turn(nic, now_us, slot, conn, timed);
            }
        }
        self.blocked.drain(..tried);
    }

    /// Has the connection wait for room in the send ring without an attempt to send, which would cost as much as one that
    /// succeeds.
    pub(super) fn wait_for_room(&mut self, slot: u32) {
        let Some(conn) = self.slots.get_mut(slot as usize).and_then(|slot| slot.conn.as_mut()) else { return };
        conn.sending = false;
        if !conn.blocked {
            conn.blocked = true;
            self.blocked.push(slot);
            self.stats.ring_full += 1;
        }
    }

    /// Does what is due.
    pub(super) fn expire<N: Nic>(&mut self, nic: &mut N, now_us: u64) {
        let mut expired = core::mem::take(&mut self.scratch);
        self.wheel.advance(now_us, &mut expired);
        for slot in expired.drain(..) {
            self.expire_one(nic, now_us, slot);
        }
        self.scratch = expired;
        self.reclaim(nic, now_us);
        self.expire_handshakes(nic, now_us);
        self.expire_dials(nic, now_us);
        if self.control.next_us().is_some_and(|at| at <= now_us) {
            self.stats.frames_out += self.control.egress(nic, now_us);
            if self.control.follow_lease() {
                self.change_address();
            }
        }
    }

    fn expire_one<N: Nic>(&mut self, nic: &mut N, now_us: u64, slot: u32) {
        let Some(mut conn) = self.take(slot) else { return };
        if conn.lingered(&self.host, now_us) {
            conn.abort();
        } else {
            conn.tend(&self.host, now_us);
            self.shrink(&mut conn, nic, now_us);
        }
        conn.need_egress = true;
        self.finish_turn(nic, now_us, slot, conn, true);
    }

    /// Follows a change of the station's address: what was bound to the old one ends.
    pub(super) fn change_address(&mut self) {
        let old = self.station.addr;
        self.take_address();
        if old.is_none() || old == self.station.addr {
            return;
        }
        for slot in 0..self.slots.len() as u32 {
            if self.slots[slot as usize].conn.is_some() {
                self.release(slot);
            }
        }
        while let Some((at, entry)) = self.half_open.oldest() {
            self.flows.remove(&entry.key, Flow::HalfOpen(at));
            self.half_open.remove(at);
        }
        while let Some((at, entry)) = self.time_wait.oldest() {
            self.flows.remove(&entry.key, Flow::TimeWait(at));
            self.time_wait.remove(at);
        }
        self.half_open = Fifo::new();
        self.end_dials(DialError::NoAddress);
    }

    /// Takes the connection out of its slot, so that it and the stack can be worked on together.
    #[inline]
    fn take(&mut self, slot: u32) -> Option<Box<Conn>> {
        self.slots.get_mut(slot as usize)?.conn.take()
    }

    /// Puts a connection into its slot, which is empty: there is nothing to drop, and nobody need look.
    #[inline]
    fn keep(&mut self, slot: u32, conn: Box<Conn>) {
        core::mem::forget(self.slots[slot as usize].conn.replace(conn));
    }

    /// Puts a connection that was taken out back and counts what it sent.
    #[inline]
    fn put_back(&mut self, slot: u32, mut conn: Box<Conn>) {
        let link = &mut conn.link;
        self.stats.frames_out += u64::from(core::mem::take(&mut link.sent));
        if link.retransmits | link.lost != 0 {
            self.stats.retransmits += u64::from(core::mem::take(&mut link.retransmits));
            self.stats.frames_lost += u64::from(core::mem::take(&mut link.lost));
        }
        self.keep(slot, conn);
    }

    /// Lets a connection go; the service, if it still knows of it, is told in its next turn.
    fn release(&mut self, slot: u32) {
        let Some(conn) = self.take(slot) else { return };
        let id = self.id(slot);
        self.flows.remove(&conn.key, Flow::Open(slot));
        self.wheel.disarm(slot);
        self.open -= 1;
        let grown = (conn.rx_capacity - self.config.initial_receive_buffer.min(conn.rx_capacity))
            + (conn.tx_capacity - self.config.initial_send_buffer.min(conn.tx_capacity));
        self.grown_bytes = self.grown_bytes.saturating_sub(grown);
        self.stats.closed += 1;
        let entry = &mut self.slots[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        self.free_slots.push(slot);
        if conn.served {
            self.stats.broken += 1;
            self.gone.push(id);
        } else if let Some(ticket) = conn.ticket.filter(|_| conn.fresh) {
            self.dial_failed(ticket, DialError::Refused);
        }
    }
}

/// Hands the service what was received.
#[inline]
fn deliver<S: Service>(conn: &mut Conn, host: &mut Host, service: &mut S, id: ConnId) {
    let finishing = conn.finishing;
    let taken = conn.read(&mut host.joined, |bytes| if finishing { bytes.len() } else { service.received(id, bytes) });
    conn.want_receive |= taken >= conn.rx_capacity / 2;
    if !conn.finish_told && conn.peer_finished() && conn.unread() == 0 {
        conn.finish_told = true;
        conn.rcv_next = conn.rcv_next.wrapping_add(1);
        service.peer_finished(id);
    }
}
