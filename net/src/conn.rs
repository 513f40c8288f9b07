//! One TCP connection: a smoltcp socket, and what it takes to exchange the socket for one with other buffers.
//!
//! smoltcp fixes a socket's buffers and chooses its first sequence number when the socket is made. Both get in the way:
//! the handshake is answered before there is a socket (half-open connections must be small), and an idle connection must
//! be small while a busy one needs large buffers. So sockets are made by *staging*: a new socket listens, is fed a made-up
//! SYN and ACK, and is then exactly in the state of an established connection whose receive sequence number is the wanted
//! one. Its send sequence numbers differ from those on the wire by a constant, which [`Link`] adds on the way out and
//! [`Conn::ingress`] subtracts on the way in. A socket can be exchanged whenever nothing is unacknowledged or unread.
//! See `docs/decisions/socket-buffers.md`.

use alloc::vec::Vec;

use barium_nic::Nic;
use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{IpAddress, IpListenEndpoint, Ipv4Address};

use crate::config::Config;
use crate::congestion::Congestion;
use crate::device::{Capture, Link, Port};
use crate::flow::FlowKey;
use crate::train::Train;
use crate::wire::{
    ACK, ETHERNET_LEN, FIN, HEADERS_LEN, Outbound, SYN, Sacked, Segment, SynOptions, TCP_AT, TCP_LEN, before,
};

/// smoltcp's clock for TCP runs this many times faster than the real one, which scales its fixed times: the shortest
/// retransmission timeout from 1 s to 200 ms (Linux's), the longest from 60 s to 12 s, the pace of challenge
/// acknowledgements from 1 s to 200 ms.
pub(crate) const CLOCK_SCALE: u64 = 5;
/// smoltcp's shortest retransmission timeout in real time.
pub(crate) const RTO_FLOOR_US: u64 = 1_000_000 / CLOCK_SCALE;
/// Window scale announced to peers: windows up to 1 MiB in steps of 16 bytes.
pub(crate) const WINDOW_SHIFT: u8 = 4;

/// Real microseconds to smoltcp's time.
#[inline]
pub(crate) fn scaled(now_us: u64) -> Instant {
    Instant::from_micros((now_us * CLOCK_SCALE) as i64)
}

fn scaled_duration(us: u64) -> Duration {
    Duration::from_micros(us * CLOCK_SCALE)
}

/// What all connections of a stack share: the interface and the timing.
pub(crate) struct Host {
    pub(crate) iface: Interface,
    pub(crate) addr: [u8; 4],
    pub(crate) mtu: u16,
    /// Where input that wraps around the end of a receive buffer is put together.
    pub(crate) joined: Vec<u8>,
    ack_delay: Duration,
    pub(crate) keep_alive_us: u64,
    pub(crate) give_up_us: u64,
}

impl Host {
    pub(crate) fn new(config: &Config, mtu: u16, now_us: u64) -> Self {
        let mut iface_config = smoltcp::iface::Config::new(smoltcp::wire::HardwareAddress::Ip);
        iface_config.random_seed = config.seed[0] ^ config.seed[1].rotate_left(32);
        let mut device = Capture { rx: None, seq: 0, end: 0, mtu };
        let mut iface = Interface::new(iface_config, &mut device, scaled(now_us));
        // Which packets are for us is decided before they come here; comparing addresses once more would only cost.
        iface.set_any_ip(true);
        Self {
            iface,
            addr: [0; 4],
            mtu,
            joined: alloc::vec![0; config.initial_receive_buffer],
            ack_delay: scaled_duration(config.ack_delay_us),
            keep_alive_us: config.keep_alive_us,
            give_up_us: config.give_up_us,
        }
    }

    /// Silence after which an idle peer is given up; `None` where it is never probed.
    fn idle_timeout(&self) -> Option<Duration> {
        (self.keep_alive_us > 0).then(|| scaled_duration(self.keep_alive_us + self.give_up_us))
    }
}

/// How an attempt to send ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Egress {
    /// Everything that may be sent now was.
    Done,
    /// The send ring is full; there is more.
    Blocked,
}

/// A connection.
pub(crate) struct Conn {
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    pub(crate) key: FlowKey,
    pub(crate) link: Link,
    pub(crate) options: SynOptions,
    /// End of what was put into the send buffer, as a sequence number on the wire.
    snd_end: u32,
    /// The next sequence number to hand to the service.
    pub(crate) rcv_next: u32,
    /// End of the farthest segment received.
    rcv_max: u32,
    /// The peer's last window field, not scaled.
    peer_window: u16,
    pub(crate) rx_capacity: usize,
    pub(crate) tx_capacity: usize,
    /// When the peer was last heard of.
    pub(crate) heard_at_us: u64,
    /// The service has not heard of the connection yet.
    pub(crate) fresh: bool,
    /// What the service calls it, if it asked for it.
    pub(crate) ticket: Option<u32>,
    /// The service knows the connection.
    pub(crate) served: bool,
    /// The service was told that the peer finished.
    pub(crate) finish_told: bool,
    /// On the list of those that wait for the service because frames concern them.
    pub(crate) touched: bool,
    /// On the list of those that were served and may have something to send.
    pub(crate) sending: bool,
    /// On the list of those that wait for room in the send ring.
    pub(crate) blocked: bool,
    /// And it was a timer's turn, which is to be made up for.
    pub(crate) overdue: bool,
    /// smoltcp may have something to send.
    pub(crate) need_egress: bool,
    /// The service had more output than there was room for.
    pub(crate) output_left: bool,
    /// The receive buffer was filled by half or more at once.
    pub(crate) want_receive: bool,
    /// Something was received since the last segment was sent.
    pub(crate) owes_ack: bool,
    pub(crate) congestion: Congestion,
    /// The window field that smoltcp was told last.
    pub(crate) told_window: u16,
    /// What the peer's last acknowledgement says to have arrived beyond it, in bytes.
    pub(crate) sacked_bytes: u32,
    /// Acknowledgements of the same again, from a peer that does not say what else arrived.
    pub(crate) duplicates: u32,
    /// How long a hole is given to be filled by what was overtaken, in us: nothing until that happened.
    pub(crate) reorder_us: u64,
    /// Something was lost; recovery ends when this sequence number is acknowledged (RFC 6582).
    pub(crate) recovery: Option<u32>,
    /// When to look whether what a selective acknowledgement left out is still missing, and from where on it was.
    pub(crate) loss_check_us: u64,
    pub(crate) hole: u32,
    /// When to send the oldest segment again if nothing is heard, well before the retransmission timer.
    pub(crate) probe_at_us: u64,
    /// The sequence number whose acknowledgement ends a measurement of the round trip, and when that began.
    pub(crate) rtt_mark: Option<(u32, u64)>,
    /// Smoothed round-trip time, in microseconds; 0 until one was measured.
    pub(crate) srtt_us: u64,
    /// Only the congestion window keeps data from being sent.
    pub(crate) congested: bool,
    /// Whether smoltcp holds back segments that are not full.
    nagle: bool,
    /// The service will close it and reads no more.
    pub(crate) finishing: bool,
    /// We have closed it, or broken it off.
    leaving: bool,
    /// The peer has sent a FIN, perhaps with something missing before it.
    fin_seen: bool,
    /// The service is done with it: when to look whether the peer still takes what is left for it, and what it had
    /// acknowledged at the last look.
    pub(crate) linger_until_us: u64,
    linger_una: u32,
}

impl Conn {
    /// Makes a connection whose handshake, answered with `iss`, was completed by a segment of the peer with the window
    /// field `window`. That segment is to be given to [`ingress`](Self::ingress) next. `None` if there is no memory for the buffers.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn open(
        host: &mut Host,
        now_us: u64,
        key: FlowKey,
        mut link: Link,
        options: SynOptions,
        irs: u32,
        iss: u32,
        capacities: (usize, usize),
        window: u16,
    ) -> Option<Self> {
        let (rx_capacity, tx_capacity) = capacities;
        let (sockets, handle, isn, inner_shift) =
            stage_syn(host, now_us, &key, &options, irs, rx_capacity, tx_capacity)?;
        link.seq_delta = iss.wrapping_sub(isn);
        link.inner_shift = inner_shift;
        link.snd_nxt = iss.wrapping_add(1);
        let mss = u32::from(options.mss.min(host.mtu - 40));
        let mut conn = Self {
            sockets,
            handle,
            key,
            options,
            snd_end: link.snd_nxt,
            link,
            rcv_next: irs.wrapping_add(1),
            rcv_max: irs.wrapping_add(1),
            peer_window: window,
            rx_capacity,
            tx_capacity,
            heard_at_us: now_us,
            fresh: true,
            ticket: None,
            served: false,
            finish_told: false,
            touched: false,
            sending: false,
            blocked: false,
            overdue: false,
            need_egress: true,
            output_left: false,
            want_receive: false,
            owes_ack: false,
            congestion: Congestion::new(mss),
            told_window: window,
            sacked_bytes: 0,
            duplicates: 0,
            reorder_us: 0,
            recovery: None,
            loss_check_us: u64::MAX,
            hole: 0,
            probe_at_us: u64::MAX,
            rtt_mark: None,
            srtt_us: 0,
            congested: false,
            nagle: false,
            finishing: false,
            leaving: false,
            fin_seen: false,
            linger_until_us: u64::MAX,
            linger_una: 0,
        };
        // The segment that completed the handshake may be one that smoltcp would not complete it with.
        let seq = conn.rcv_next;
        let window = conn.window_to_tell();
        conn.feed_ack(host, now_us, seq, isn.wrapping_add(1), window);
        Some(conn)
    }

    #[inline]
    pub(crate) fn socket(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    #[inline]
    pub(crate) fn state(&self) -> tcp::State {
        self.sockets.get::<tcp::Socket>(self.handle).state()
    }

    /// Bytes received that the service has not taken.
    #[inline]
    pub(crate) fn unread(&self) -> usize {
        self.sockets.get::<tcp::Socket>(self.handle).recv_queue()
    }

    /// Bytes in the send buffer: not sent or not acknowledged.
    #[inline]
    pub(crate) fn unacked(&self) -> usize {
        self.sockets.get::<tcp::Socket>(self.handle).send_queue()
    }

    /// The oldest sequence number that the peer has not acknowledged.
    pub(crate) fn una(&self) -> u32 {
        self.snd_end.wrapping_sub(self.unacked() as u32)
    }

    /// Bytes in the send buffer that were not sent yet.
    fn unsent(&self) -> u32 {
        self.snd_end.wrapping_sub(self.link.snd_nxt)
    }

    /// Whether the peer's FIN has been received.
    #[inline]
    pub(crate) fn peer_finished(&self) -> bool {
        use tcp::State::*;
        self.fin_seen && matches!(self.state(), CloseWait | LastAck | Closing | TimeWait)
    }

    /// Whether our FIN has been queued.
    pub(crate) fn closing(&self) -> bool {
        use tcp::State::*;
        matches!(self.state(), FinWait1 | FinWait2 | Closing | LastAck | TimeWait | Closed)
    }

    /// Whether nothing is left to do and the peer is owed nothing.
    pub(crate) fn gone(&self) -> bool {
        let socket = self.sockets.get::<tcp::Socket>(self.handle);
        socket.state() == tcp::State::Closed && socket.remote_endpoint().is_none()
    }

    /// The next sequence number expected from the peer.
    pub(crate) fn rcv_nxt(&self) -> u32 {
        let fin = self.peer_finished() && !self.finish_told;
        self.rcv_next.wrapping_add(self.unread() as u32).wrapping_add(u32::from(fin))
    }

    /// The peer's last window field, not scaled.
    pub(crate) fn peer_window(&self) -> u16 {
        self.peer_window
    }

    /// Payload of a full segment, in bytes.
    pub(crate) fn segment_len(&self, host: &Host) -> u32 {
        u32::from(self.options.mss.min(host.mtu - 40))
    }

    /// The window field of an acknowledgement sent now.
    pub(crate) fn window_field(&self) -> u16 {
        let window = (self.rx_capacity - self.unread()) >> self.link.wire_shift;
        u16::try_from(window).unwrap_or(u16::MAX)
    }

    /// Gives a frame of the peer to smoltcp. Returns whether the connection needs serving because of it.
    pub(crate) fn ingress<N: Nic>(
        &mut self,
        host: &mut Host,
        nic: &mut N,
        now_us: u64,
        frame: &mut [u8],
        segment: &Segment,
    ) -> bool {
        if self.congested || self.link.rewound {
            self.open_window(host, segment);
        }
        if segment.flags & ACK != 0 {
            let ack = segment.ack.wrapping_sub(self.link.seq_delta);
            frame[TCP_AT + 8..TCP_AT + 12].copy_from_slice(&ack.to_be_bytes());
        }
        self.link.peer_mac = segment.peer_mac;
        self.heard_at_us = now_us;
        self.fin_seen |= segment.flags & FIN != 0;
        let sacked = if !self.options.sack_permitted {
            self.count_duplicate(host, segment)
        } else if segment.payload_len == 0 && (segment.options_len > 0 || self.recovery.is_some()) {
            Some(Sacked::parse(&frame[HEADERS_LEN..HEADERS_LEN + segment.options_len], segment.ack))
        } else {
            None
        };
        if let Some(sacked) = &sacked {
            self.sacked_bytes = sacked.bytes;
        }
        if !before(segment.seq, self.rcv_next) {
            self.peer_window = segment.window;
        }
        let mut window = self.window_to_tell();
        // smoltcp counts duplicates only where the window does not change. When to send again is not its decision.
        if segment.payload_len == 0 && window == self.told_window && window > 1 && self.link.snd_nxt != segment.ack {
            window -= 1;
        }
        self.told_window = window;
        frame[TCP_AT + 14..TCP_AT + 16].copy_from_slice(&window.to_be_bytes());
        if segment.window == 0 && segment.ack == self.link.snd_nxt && self.link.snd_nxt != self.snd_end {
            // Our FIN is acknowledged: a closed window means nothing any more, but in FIN-WAIT-2 smoltcp's probe timer,
            // once it ran out, would make it send acknowledgements without end.
            frame[TCP_AT + 14..TCP_AT + 16].copy_from_slice(&[0, 1]);
        }
        let end = segment.seq.wrapping_add(segment.payload_len as u32);
        // A segment beyond the window is none of ours to remember.
        if before(self.rcv_max, end) && end.wrapping_sub(self.rcv_next) as usize <= self.rx_capacity {
            self.rcv_max = end;
        }
        let mut port = Port {
            nic,
            rx: Some(&frame[ETHERNET_LEN..segment.frame_len]),
            link: &mut self.link,
            train: None,
            blocked: false,
        };
        host.iface.poll_ingress_single(scaled(now_us), &mut port, &mut self.sockets);
        if let Some(sacked) = sacked
            && self.recover(host, now_us, segment, sacked)
        {
            // At once: of the acknowledgements behind this one, each is to let a new segment out (RFC 6582 3.2).
            self.egress(host, nic, now_us);
        }
        if self.rtt_mark.is_some() || self.probe_at_us != u64::MAX {
            self.note_ack(now_us, segment.ack);
        }
        // An acknowledgement of all that was sent, with nothing waiting, calls for nothing: the most frequent segment
        // beside requests.
        let acks_all = segment.payload_len == 0
            && segment.flags == ACK
            && segment.ack == self.link.snd_nxt
            && self.link.snd_nxt == self.snd_end
            && !self.output_left
            && self.served
            && !self.blocked;
        if acks_all && self.state() == tcp::State::Established {
            return false;
        }
        self.owes_ack |= segment.payload_len > 0;
        self.need_egress = true;
        true
    }

    /// Hands received bytes to `take`, which returns how many it took, until it takes fewer than it was given. Returns
    /// how many were taken. Where they wrap around the end of the receive buffer and `joined` has room they are copied, for
    /// two halves of a request cost the service more.
    pub(crate) fn read(&mut self, joined: &mut [u8], mut take: impl FnMut(&[u8]) -> usize) -> usize {
        let mut total = 0;
        loop {
            let socket = self.socket();
            let waiting = socket.recv_queue();
            let taken = socket.recv(|bytes| {
                if bytes.len() < waiting && waiting <= joined.len() {
                    return (0, None);
                }
                let n = if bytes.is_empty() { 0 } else { take(bytes).min(bytes.len()) };
                (n, Some((n, n < bytes.len())))
            });
            let Ok(taken) = taken else { break };
            let (n, short) = match (taken, joined.get_mut(..waiting)) {
                (Some(taken), _) => taken,
                (None, Some(joined)) => {
                    let n = read_joined(socket, joined, &mut take);
                    (n, n < waiting)
                }
                (None, None) => break,
            };
            total += n;
            if short || !socket.can_recv() {
                break;
            }
        }
        self.rcv_next = self.rcv_next.wrapping_add(total as u32);
        // The window may have opened, which the peer waits to hear.
        self.need_egress |= total > 0;
        total
    }

    /// Puts bytes into the send buffer; returns how many fitted without a break. There may be room for more.
    #[inline]
    pub(crate) fn enqueue(&mut self, host: &Host, bytes: &[u8]) -> usize {
        let n = put(self.socket(), host, bytes);
        self.note_queued(n);
        n
    }

    /// The same if there is room for all of them. `None`: there is not, and nothing was done.
    #[inline]
    pub(crate) fn enqueue_all(&mut self, host: &Host, bytes: &[u8]) -> Option<usize> {
        let capacity = self.tx_capacity;
        let socket = self.socket();
        if socket.send_queue() + bytes.len() > capacity {
            return None;
        }
        let n = put(socket, host, bytes);
        self.note_queued(n);
        Some(n)
    }

    #[inline]
    fn note_queued(&mut self, n: usize) {
        self.snd_end = self.snd_end.wrapping_add(n as u32);
        self.need_egress |= n > 0;
    }

    /// Queues our FIN behind what is in the send buffer.
    pub(crate) fn close(&mut self, host: &Host, now_us: u64) {
        self.leaving = true;
        let give_up = scaled_duration(host.give_up_us);
        let socket = self.socket();
        socket.set_timeout(Some(give_up));
        socket.close();
        self.need_egress = true;
        self.linger(host, now_us);
    }

    /// From now on the peer must go on taking what is left for it.
    pub(crate) fn linger(&mut self, host: &Host, now_us: u64) {
        if self.linger_until_us == u64::MAX {
            self.linger_until_us = now_us + host.give_up_us;
            self.linger_una = self.una();
        }
    }

    /// Whether the connection is to be given up because the peer takes nothing more, or has nothing left to take but does
    /// not say goodbye.
    pub(crate) fn lingered(&mut self, host: &Host, now_us: u64) -> bool {
        if now_us < self.linger_until_us {
            return false;
        }
        let una = self.una();
        if una == self.linger_una {
            return true;
        }
        self.linger_una = una;
        self.linger_until_us = now_us + host.give_up_us;
        false
    }

    /// Ends the connection with a RST.
    pub(crate) fn abort(&mut self) {
        self.leaving = true;
        self.socket().abort();
        self.need_egress = true;
    }

    /// Sends what smoltcp has to send.
    pub(crate) fn egress<N: Nic>(&mut self, host: &mut Host, nic: &mut N, now_us: u64) -> Egress {
        let snd_nxt = self.link.snd_nxt;
        let mss = self.segment_len(host);
        let egress = self.send(host, nic, now_us, mss);
        if self.link.snd_nxt.wrapping_sub(snd_nxt) >= mss {
            self.note_sent(host, now_us);
        }
        egress
    }

    #[inline]
    fn send<N: Nic>(&mut self, host: &mut Host, nic: &mut N, now_us: u64, mss: u32) -> Egress {
        // Much to send, and that for the first time: for the device to cut up, if it does.
        if self.unsent() <= mss || self.link.rewound || nic.max_large() == 0 {
            return self.send_segments(host, nic, now_us, mss, None);
        }
        let mut train = Train::new(mss);
        let egress = self.send_segments(host, nic, now_us, mss, Some(&mut train));
        train.finish(nic, &mut self.link);
        egress
    }

    #[inline]
    fn send_segments<N: Nic>(
        &mut self,
        host: &mut Host,
        nic: &mut N,
        now_us: u64,
        mss: u32,
        mut train: Option<&mut Train>,
    ) -> Egress {
        let now = scaled(now_us);
        while self.need_egress {
            let before = (self.link.sent, self.link.snd_nxt, self.link.retransmits);
            // In the middle of much data a segment that is not full would only be an effect of the congestion window.
            let nagle = self.output_left || self.unsent() >= mss;
            if nagle != self.nagle {
                self.nagle = nagle;
                self.socket().set_nagle_enabled(nagle);
            }
            if !nic.can_transmit() {
                return Egress::Blocked;
            }
            let train = train.as_deref_mut();
            let mut port = Port { nic, rx: None, link: &mut self.link, train, blocked: false };
            host.iface.poll_egress(now, &mut port, &mut self.sockets);
            if port.blocked {
                return Egress::Blocked;
            }
            // Once everything queued has gone out there is no point in asking smoltcp again, nor after a segment that
            // took no sequence number.
            let rest = self.link.snd_nxt != self.snd_end || self.link.rewound || self.leaving;
            let moved = (self.link.snd_nxt, self.link.retransmits) != (before.1, before.2);
            if self.link.sent != before.0 {
                self.owes_ack = false;
            }
            self.need_egress = moved && rest;
        }
        self.congested = self.unsent() > 0 && {
            let window = usize::from(self.peer_window) << self.options.window_scale.unwrap_or(0);
            let in_flight = self.link.snd_nxt.wrapping_sub(self.una()) as usize;
            in_flight + usize::from(self.options.mss) <= window
        };
        Egress::Done
    }

    /// Does what a timer may have made due: as [`egress`](Self::egress), after looking for losses.
    ///
    /// Neither asks smoltcp while the send ring is full: it would take a fast retransmit for done, and its timer with it, and
    /// the peer waits for that segment for ever.
    pub(crate) fn egress_on_time<N: Nic>(&mut self, host: &mut Host, nic: &mut N, now_us: u64) -> Egress {
        let lost = self.check_loss(host, now_us) || self.check_silence(host, now_us);
        if lost && self.egress(host, nic, now_us) == Egress::Blocked {
            return Egress::Blocked;
        }
        self.need_egress = true;
        if !nic.can_transmit() {
            return Egress::Blocked;
        }
        let retransmits = self.link.retransmits;
        // smoltcp's retransmission timer goes back to the first segment and on from there (unlike a fast retransmit), by no
        // more than it hears is allowed after that segment.
        let mut port = Port { nic, rx: None, link: &mut self.link, train: None, blocked: false };
        host.iface.poll_egress(scaled(now_us), &mut port, &mut self.sockets);
        if port.blocked {
            return Egress::Blocked;
        }
        if self.link.retransmits != retransmits && self.link.snd_nxt != self.una() {
            self.timed_out(host, now_us);
        }
        self.egress(host, nic, now_us)
    }

    /// Adjusts what depends on whether the peer owes us something, before the timers are looked at.
    pub(crate) fn tend(&mut self, host: &Host, now_us: u64) {
        if self.unacked() > 0 || self.closing() {
            return;
        }
        let idle_timeout = host.idle_timeout();
        // Once a peer is silent for too long it is probed four times before it is given up.
        let interval = (host.keep_alive_us > 0).then(|| {
            let silent = now_us.saturating_sub(self.heard_at_us) + (1 << 14) >= host.keep_alive_us;
            scaled_duration(if silent { host.give_up_us / 4 } else { host.keep_alive_us })
        });
        let socket = self.socket();
        socket.set_timeout(idle_timeout);
        socket.set_keep_alive(interval);
    }

    /// When smoltcp next has something to do without being asked, in microseconds.
    pub(crate) fn poll_at_us(&mut self, host: &mut Host, now_us: u64) -> Option<u64> {
        let at = host.iface.poll_at(scaled(now_us), &self.sockets)?;
        Some(at.total_micros().max(0) as u64 / CLOCK_SCALE)
    }

    /// Whether the socket can be exchanged now.
    pub(crate) fn quiescent(&self) -> bool {
        let socket = self.sockets.get::<tcp::Socket>(self.handle);
        socket.state() == tcp::State::Established
            && socket.send_queue() == 0
            && socket.recv_queue() == 0
            && self.link.snd_nxt == self.snd_end
            && self.rcv_max == self.rcv_next
    }

    /// Exchanges the socket of a [`quiescent`](Self::quiescent) connection for one with other buffers. If the receive
    /// buffer changes, the peer is told its new window. Returns false, having done nothing, if there is no memory for it.
    pub(crate) fn resize<N: Nic>(
        &mut self,
        host: &mut Host,
        nic: &mut N,
        now_us: u64,
        rx_capacity: usize,
        tx_capacity: usize,
    ) -> bool {
        let irs = self.rcv_next.wrapping_sub(1);
        let staged = stage_syn(host, now_us, &self.key, &self.options, irs, rx_capacity, tx_capacity);
        let Some((sockets, handle, isn, inner_shift)) = staged else { return false };
        let tell = rx_capacity != self.rx_capacity;
        self.sockets = sockets;
        self.handle = handle;
        self.nagle = false;
        self.link.inner_shift = inner_shift;
        self.rx_capacity = rx_capacity;
        self.tx_capacity = tx_capacity;
        let end = isn.wrapping_add(1);
        let window = self.window_to_tell();
        self.feed_ack(host, now_us, self.rcv_next, end, window);
        self.link.seq_delta = self.snd_end.wrapping_sub(end);
        self.tend(host, now_us);
        // An octet from before the window makes smoltcp acknowledge at once: the peer learns the window, and smoltcp
        // itself forgets the unscaled one of its SYN-ACK.
        let probe = Staged { seq: irs, ack: end, flags: ACK, window, options: &[], payload: &[0] };
        let (packet, len) = probe.packet(&self.key, host.addr);
        if tell && nic.can_transmit() {
            let mut port = Port { nic, rx: Some(&packet[..len]), link: &mut self.link, train: None, blocked: false };
            host.iface.poll_ingress_single(scaled(now_us), &mut port, &mut self.sockets);
        } else {
            let mut capture = Capture { rx: Some(&packet[..len]), seq: 0, end: 0, mtu: host.mtu };
            host.iface.poll_ingress_single(scaled(now_us), &mut capture, &mut self.sockets);
        }
        self.need_egress = true;
        true
    }

    /// Feeds the socket a made-up acknowledgement, with smoltcp's idea of our sequence numbers.
    pub(crate) fn feed_ack(&mut self, host: &mut Host, now_us: u64, seq: u32, ack: u32, window: u16) {
        let ack = Staged { seq, ack, flags: ACK, window, options: &[], payload: &[] };
        let (packet, len) = ack.packet(&self.key, host.addr);
        let mut capture = Capture { rx: Some(&packet[..len]), seq: 0, end: 0, mtu: host.mtu };
        host.iface.poll_ingress_single(scaled(now_us), &mut capture, &mut self.sockets);
    }
}

/// Puts bytes into a send buffer, as many as fit without a break. The peer's time to acknowledge begins with the first.
#[inline(always)]
fn put(socket: &mut tcp::Socket<'_>, host: &Host, bytes: &[u8]) -> usize {
    if socket.send_queue() == 0 {
        socket.set_timeout(Some(scaled_duration(host.give_up_us)));
    }
    let put = socket.send(|room| {
        let n = room.len().min(bytes.len());
        room[..n].copy_from_slice(&bytes[..n]);
        (n, n)
    });
    put.unwrap_or(0)
}

/// Hands all that `socket` received, as many bytes as `joined` has, to `take` in one piece; returns how many it took.
// Out of line it would need what `take` captures in memory, also where nothing wraps around.
#[inline(always)]
fn read_joined(socket: &mut tcp::Socket<'_>, joined: &mut [u8], take: &mut impl FnMut(&[u8]) -> usize) -> usize {
    // Fails only where nothing can be received, which was asked before.
    let len = socket.peek_slice(joined).unwrap_or(0);
    let taken = take(&joined[..len]).min(len);
    let mut left = taken;
    while left > 0 {
        let piece = socket.recv(|bytes| (bytes.len().min(left), bytes.len().min(left)));
        match piece {
            Ok(n) if n > 0 => left -= n,
            _ => break,
        }
    }
    taken - left
}

/// A made-up segment of the peer.
struct Staged<'a> {
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    options: &'a [u8],
    payload: &'a [u8],
}

impl Staged<'_> {
    /// The segment as an IP packet without checksums, which smoltcp is told to ignore.
    fn packet(&self, key: &FlowKey, local_addr: [u8; 4]) -> ([u8; 64], usize) {
        let out = Outbound {
            mac: [0; 6],
            addr: local_addr,
            port: key.local_port,
            local_mac: [0; 6],
            local_addr: key.addr,
            local_port: key.port,
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            options: self.options,
        };
        let mut frame = [0; ETHERNET_LEN + 64];
        let end = out.frame_len() + self.payload.len();
        out.emit(&mut frame[..out.frame_len()]);
        frame[out.frame_len()..end].copy_from_slice(self.payload);
        let mut packet = [0; 64];
        packet.copy_from_slice(&frame[ETHERNET_LEN..]);
        let len = end - ETHERNET_LEN;
        packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        (packet, len)
    }
}

/// Makes a socket that has received a SYN with the sequence number `irs` and answered it. Returns it with its own initial
/// sequence number and window scale.
fn stage_syn(
    host: &mut Host,
    now_us: u64,
    key: &FlowKey,
    options: &SynOptions,
    irs: u32,
    rx_capacity: usize,
    tx_capacity: usize,
) -> Option<(SocketSet<'static>, SocketHandle, u32, u8)> {
    let mut socket = tcp::Socket::new(buffer(rx_capacity)?, buffer(tx_capacity)?);
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(Some(host.ack_delay));
    socket.set_timeout(host.idle_timeout());
    socket.set_keep_alive((host.keep_alive_us > 0).then(|| scaled_duration(host.keep_alive_us)));
    let endpoint = IpListenEndpoint { addr: Some(IpAddress::Ipv4(Ipv4Address::from(host.addr))), port: key.local_port };
    // Cannot fail: the socket is new and the port is not 0.
    let _ = socket.listen(endpoint);
    let mut sockets = SocketSet::new(Vec::with_capacity(1));
    let handle = sockets.add(socket);
    let mss = options.mss.to_be_bytes();
    let mut list = [1; TCP_LEN - 8];
    list[..4].copy_from_slice(&[2, 4, mss[0], mss[1]]);
    if let Some(shift) = options.window_scale {
        list[4..7].copy_from_slice(&[3, 3, shift]);
    }
    if options.sack_permitted {
        list[8..10].copy_from_slice(&[4, 2]);
    }
    let syn = Staged { seq: irs, ack: 0, flags: SYN, window: u16::MAX, options: &list, payload: &[] };
    let (packet, len) = syn.packet(key, host.addr);
    let mut capture = Capture { rx: Some(&packet[..len]), seq: 0, end: 0, mtu: host.mtu };
    let now = scaled(now_us);
    host.iface.poll_ingress_single(now, &mut capture, &mut sockets);
    host.iface.poll_egress(now, &mut capture, &mut sockets);
    let inner_shift = match options.window_scale {
        // As smoltcp computes it from the buffer's size (RFC 7323).
        Some(_) => (usize::BITS - rx_capacity.leading_zeros()).saturating_sub(16) as u8,
        None => 0,
    };
    Some((sockets, handle, capture.seq, inner_shift))
}

/// A buffer of `capacity` bytes, if there is memory for it.
fn buffer(capacity: usize) -> Option<tcp::SocketBuffer<'static>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(capacity).ok()?;
    bytes.resize(capacity, 0);
    Some(tcp::SocketBuffer::new(bytes))
}
