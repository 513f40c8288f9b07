//! The stack: demultiplexing, turns, timers.
//!
//! A turn has three phases, of which only the second needs the service:
//!
//! 1. [`ingress`](Stack::ingress): a batch of frames from the NIC, each to its connection;
//! 2. [`serve`](Stack::serve): every connection concerned once, its input to the service, the service's output into its
//!    send buffer;
//! 3. [`egress`](Stack::egress): segments to the NIC, and what time brings.
//!
//! So a pipeline that arrives in several segments is answered in full ones, and the answers carry the acknowledgements.
//! Where the service is shared and just now another's, the second phase is left out: what waits for it is kept.

mod dial;
mod handshake;
mod serve;

use alloc::boxed::Box;
use alloc::vec::Vec;

use barium_nic::Nic;

use crate::config::{AddressMode, Config};
use crate::conn::{Conn, Host};
use crate::control::{Address, Control};
use crate::device::MAX_MTU;
use crate::fifo::Fifo;
use crate::flow::{Flow, FlowKey, FlowTable, Keyed};
use crate::service::{ConnId, DialError, Service};
use crate::stats::Stats;
use crate::wheel::Wheel;
use crate::wire::{self, Inbound, Outbound, Station};
use dial::Dialing;
use handshake::{HalfOpen, TimeWait};

/// What a turn did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Frames received.
    pub frames_in: usize,
    /// Frames sent.
    pub frames_out: usize,
    /// There is more to do right away: the batch was full.
    pub more: bool,
}

/// A place for a connection.
struct Slot {
    generation: u32,
    conn: Option<Box<Conn>>,
}

/// A TCP/IP endpoint on one NIC queue. Plain data: several may live side by side, one per CPU.
pub struct Stack {
    config: Config,
    station: Station,
    checksum_offload: bool,
    mtu: u16,
    control: Control,
    host: Host,
    flows: FlowTable,
    iss_hash: Keyed,
    half_open: Fifo<HalfOpen>,
    half_open_due_us: u64,
    time_wait: Fifo<TimeWait>,
    /// Connections that we are opening.
    dials: Vec<Dialing>,
    /// How many were begun so far.
    dialed: u32,
    /// Those that came to nothing, of which the service has not heard yet.
    undialed: Vec<(u32, DialError)>,
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    open: usize,
    wheel: Wheel,
    /// Slots that wait for the service: frames concern them.
    touched: Vec<u32>,
    /// Slots that were served, whose segments go out next.
    sending: Vec<u32>,
    /// Connections that are no more, of which the service has not heard yet.
    gone: Vec<ConnId>,
    /// Slots that wait for room in the send ring.
    blocked: Vec<u32>,
    /// Work lists of a turn, kept for their memory.
    scratch: Vec<u32>,
    /// Bytes of socket buffers beyond the initial ones.
    grown_bytes: usize,
    /// The next slot to look at for buffers to take back.
    reclaiming: Option<u32>,
    /// Answers to stray segments that may still be sent until `tokens_at_us` moves on.
    tokens: u32,
    tokens_at_us: u64,
    stats: Stats,
}

/// Answers per second to segments that belong to no connection.
const STRAY_ANSWERS_PER_S: u32 = 1000;

impl Stack {
    /// A stack for `nic`, whose address, MTU and offloads are read here once. `now_us` is the monotonic time in
    /// microseconds, as in all other calls.
    pub fn new<N: Nic>(config: Config, nic: &N, now_us: u64) -> Self {
        let mtu = nic.mtu().min(MAX_MTU) as u16;
        let mac = nic.mac();
        let checksum_offload = nic.completes_checksums();
        let control = Control::new(config.address, mac, usize::from(mtu), config.seed[0].rotate_left(17), now_us);
        let dhcp = matches!(config.address, AddressMode::Dhcp);
        let [a, b] = config.seed;
        let mut stack = Self {
            station: Station { mac, addr: None, dhcp },
            checksum_offload,
            mtu,
            control,
            host: Host::new(&config, mtu, now_us),
            flows: FlowTable::new([a, b]),
            iss_hash: Keyed::new([b.rotate_left(23), a.rotate_left(41)]),
            half_open: Fifo::new(),
            half_open_due_us: u64::MAX,
            time_wait: Fifo::new(),
            dials: Vec::new(),
            dialed: 0,
            undialed: Vec::new(),
            slots: Vec::new(),
            free_slots: Vec::new(),
            open: 0,
            wheel: Wheel::new(now_us),
            touched: Vec::new(),
            sending: Vec::new(),
            gone: Vec::new(),
            blocked: Vec::new(),
            scratch: Vec::new(),
            grown_bytes: 0,
            reclaiming: None,
            tokens: STRAY_ANSWERS_PER_S,
            tokens_at_us: now_us,
            stats: Stats::default(),
            config,
        };
        stack.take_address();
        stack
    }

    /// The station's address; `None` while DHCP has not given one.
    pub fn address(&self) -> Option<Address> {
        self.control.address()
    }

    /// Tells a stack that does not find out by itself ([`AddressMode::Told`]) what address the station has now.
    pub fn tell_address(&mut self, addr: Option<[u8; 4]>) {
        self.control.tell(addr);
        self.change_address();
    }

    /// Changes the silence after which a peer is probed, in us; 0 switches probes off. A connection takes it up when its
    /// peer is heard of next.
    pub fn set_keep_alive(&mut self, keep_alive_us: u64) {
        self.host.keep_alive_us = keep_alive_us;
    }

    /// Most frames that [`ingress`](Self::ingress) takes at once.
    #[inline]
    pub fn frames_per_turn(&self) -> usize {
        self.config.frames_per_turn
    }

    /// What was counted so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Connections open to the service or being closed.
    pub fn connections(&self) -> usize {
        self.open
    }

    /// Handshakes under way.
    pub fn half_open(&self) -> usize {
        self.half_open.len()
    }

    /// Connections remembered in TIME-WAIT.
    pub fn time_wait(&self) -> usize {
        self.time_wait.len()
    }

    /// Bytes of socket buffers beyond the initial ones.
    pub fn grown_bytes(&self) -> usize {
        self.grown_bytes
    }

    /// A whole turn: all three phases.
    pub fn poll<N: Nic, S: Service>(&mut self, nic: &mut N, service: &mut S, now_us: u64) -> Turn {
        let sent_before = self.stats.frames_out;
        let frames_in = self.ingress(nic, now_us, |_, _| false);
        let more_ready = self.serve(nic, service, now_us);
        self.egress(nic, now_us);
        self.say_gone(service);
        Turn {
            frames_in,
            frames_out: (self.stats.frames_out - sent_before) as usize,
            more: frames_in == self.config.frames_per_turn || more_ready,
        }
    }

    /// The first phase: takes a batch of what the NIC received. `elsewhere` is offered each frame first, with whether its
    /// checksum is vouched for, and returns whether another stack gets it. Returns how many frames there were.
    pub fn ingress<N: Nic>(
        &mut self,
        nic: &mut N,
        now_us: u64,
        mut elsewhere: impl FnMut(&[u8], bool) -> bool,
    ) -> usize {
        self.unblock(nic, now_us);
        let mut frames_in = 0;
        while frames_in < self.config.frames_per_turn {
            let Some(mut frame) = nic.receive() else { break };
            let verified = nic.is_verified(&frame);
            if !elsewhere(&frame, verified) {
                self.input(nic, now_us, &mut frame, verified);
            }
            nic.recycle(frame);
            frames_in += 1;
        }
        frames_in
    }

    /// Whether connections wait for [`serve`](Self::serve).
    #[inline]
    pub fn wants_service(&self) -> bool {
        !self.touched.is_empty() || !self.gone.is_empty() || !self.undialed.is_empty()
    }

    /// The second phase: serves the connections that wait for it, and those that the service names, and begins to open
    /// those that it wants. Returns whether there may be more of the latter two.
    pub fn serve<N: Nic, S: Service>(&mut self, nic: &mut N, service: &mut S, now_us: u64) -> bool {
        self.say_gone(service);
        let mut touched = core::mem::take(&mut self.touched);
        for slot in touched.drain(..) {
            self.serve_touched(nic, service, now_us, slot);
        }
        self.touched = touched;
        let more_ready = self.serve_ready(nic, service, now_us);
        self.begin_dials(nic, service, now_us) || more_ready
    }

    /// The third phase: sends what the served connections have to send and what is due, then tells the device, once.
    pub fn egress<N: Nic>(&mut self, nic: &mut N, now_us: u64) {
        let mut sending = core::mem::take(&mut self.sending);
        for slot in sending.drain(..) {
            if nic.can_transmit() {
                self.send(nic, now_us, slot);
            } else {
                self.wait_for_room(slot);
            }
        }
        self.sending = sending;
        self.expire(nic, now_us);
        nic.flush();
    }

    /// When [`poll`](Self::poll) is next needed though nothing arrives, in microseconds; possibly in the past. While
    /// segments wait for room in the send ring that is soon.
    pub fn next_deadline(&self) -> Option<u64> {
        let mut next = self.wheel.next_at_us();
        let mut add = |at: Option<u64>| {
            next = match (next, at) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            }
        };
        add(self.control.next_us());
        add((self.half_open.len() > 0).then_some(self.half_open_due_us));
        add(self.dials.iter().map(|dial| dial.due_us).min());
        add(self.time_wait.oldest().map(|(_, entry)| entry.until_us));
        add((!self.blocked.is_empty()).then_some(0));
        next
    }

    /// Checks a frame and hands it to its connection, as a part of the first phase. `verified` says that its TCP or UDP
    /// checksum is vouched for.
    pub fn input<N: Nic>(&mut self, nic: &mut N, now_us: u64, frame: &mut [u8], verified: bool) {
        self.stats.frames_in += 1;
        let segment = match wire::parse(frame, verified, &self.station) {
            Ok(Inbound::Tcp(segment)) => segment,
            Ok(Inbound::Control { len }) => {
                if !self.dials.is_empty() {
                    self.dial_control(nic, now_us, &frame[..len]);
                }
                if verified {
                    wire::clear_udp_checksum(frame);
                }
                self.stats.frames_out += self.control.ingress(nic, now_us, &frame[..len]);
                return;
            }
            Err(why) => {
                self.stats.count_malformed(why);
                return;
            }
        };
        let key = FlowKey { addr: segment.peer_addr, port: segment.peer_port, local_port: segment.local_port };
        match self.flows.get(&key) {
            Some(Flow::Open(slot)) => self.established_input(nic, now_us, slot, frame, &segment),
            Some(Flow::HalfOpen(at)) => self.half_open_input(nic, now_us, at, frame, &segment),
            Some(Flow::Dialing(number)) => self.dial_input(nic, now_us, number, &segment),
            Some(Flow::TimeWait(at)) => self.time_wait_input(nic, now_us, at, &segment),
            None => self.stray_input(nic, now_us, key, &segment),
        }
    }

    /// Takes over the control interface's address, resetting connections of the old one.
    fn take_address(&mut self) {
        let address = self.control.address();
        self.station.addr = address.map(|address| address.addr);
        self.host.addr = self.station.addr.unwrap_or_default();
    }

    /// Sends a frame of the stack's own. Returns whether there was room.
    fn emit<N: Nic>(&mut self, nic: &mut N, out: &Outbound<'_>) -> bool {
        let offload = self.checksum_offload;
        let sent = nic.transmit_tcp(out.frame_len(), |frame| {
            out.emit(frame);
            wire::fill_frame_checksums(frame, offload);
        });
        match sent {
            Some(()) => self.stats.frames_out += 1,
            None => self.stats.frames_lost += 1,
        }
        sent.is_some()
    }

    /// Whether one more answer to a stray segment may be sent.
    fn stray_token(&mut self, now_us: u64) -> bool {
        if now_us >= self.tokens_at_us + 1_000_000 {
            self.tokens = STRAY_ANSWERS_PER_S;
            self.tokens_at_us = now_us;
        }
        let allowed = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        allowed
    }

    /// The name of the connection in `slot`.
    fn id(&self, slot: u32) -> ConnId {
        ConnId { slot, generation: self.slots[slot as usize].generation }
    }
}
