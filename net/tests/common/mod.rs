//! A stack under test, a smoltcp peer with a network of its own, and the wire between them.
#![allow(dead_code)]

pub mod raw;

use std::collections::{BTreeMap, VecDeque};

use barium_net::{AddressMode, Config, ConnId, Dial, DialError, Endpoint, Fate, Service, Stack, Turn};
use barium_nic::Nic;
use barium_nic::fake::FakeNic;
use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr, Ipv4Address};

pub const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const ADDR: [u8; 4] = [10, 0, 0, 1];
pub const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub const PEER_ADDR: [u8; 4] = [10, 0, 0, 2];
pub const PORT: u16 = 5555;

/// What the echo service remembers of a connection.
#[derive(Default)]
pub struct EchoConn {
    pub out: VecDeque<u8>,
    pub received: usize,
    /// In how many pieces it was offered.
    pub pieces: usize,
    pub peer_finished: bool,
    pub fate: Fate,
    /// Largest amount taken at a time.
    pub take: Option<usize>,
}

/// Sends back what it gets.
#[derive(Default)]
pub struct Echo {
    pub conns: BTreeMap<ConnId, EchoConn>,
    pub opened: usize,
    pub closed: usize,
    pub refuse: bool,
    pub close_on_finish: bool,
    /// Answers nothing but remembers how much came.
    pub mute: bool,
    pub ready: Vec<ConnId>,
    pub take: Option<usize>,
    /// Connections to open.
    pub dials: VecDeque<Dial>,
    /// What came of them: ticket, connection, local port.
    pub dialed: Vec<(u32, ConnId, u16)>,
    pub dial_failed: Vec<(u32, DialError)>,
    /// Only local ports that this divides are ours.
    pub own_every: Option<u16>,
}

impl Echo {
    pub fn new() -> Self {
        Self { close_on_finish: true, ..Self::default() }
    }
}

impl Service for Echo {
    fn opened(&mut self, conn: ConnId, _peer: Endpoint, _local: Endpoint) -> bool {
        self.opened += 1;
        if self.refuse {
            return false;
        }
        assert!(self.conns.insert(conn, EchoConn::default()).is_none());
        true
    }

    fn received(&mut self, conn: ConnId, bytes: &[u8]) -> usize {
        let mute = self.mute;
        let take = self.take.unwrap_or(usize::MAX);
        let conn = self.conns.get_mut(&conn).expect("known");
        let n = bytes.len().min(take);
        conn.received += n;
        conn.pieces += 1;
        if !mute {
            conn.out.extend(&bytes[..n]);
        }
        n
    }

    fn peer_finished(&mut self, conn: ConnId) {
        let close = self.close_on_finish;
        let conn = self.conns.get_mut(&conn).expect("known");
        assert!(!conn.peer_finished, "told once");
        conn.peer_finished = true;
        if close {
            conn.fate = Fate::CloseAfterOutput;
        }
    }

    fn output(&mut self, conn: ConnId) -> &[u8] {
        self.conns.get(&conn).map_or(&[], |conn| conn.out.as_slices().0)
    }

    fn sent(&mut self, conn: ConnId, n: usize) -> Option<Fate> {
        let conn = self.conns.get_mut(&conn).expect("known");
        conn.out.drain(..n);
        conn.out.is_empty().then_some(conn.fate)
    }

    fn fate(&self, conn: ConnId) -> Fate {
        self.conns.get(&conn).map_or(Fate::Open, |conn| conn.fate)
    }

    fn closed(&mut self, conn: ConnId) {
        self.closed += 1;
        assert!(self.conns.remove(&conn).is_some(), "closed once");
    }

    fn next_ready(&mut self) -> Option<ConnId> {
        self.ready.pop()
    }

    fn next_dial(&mut self) -> Option<Dial> {
        self.dials.pop_front()
    }

    fn owns(&self, _peer: Endpoint, local_port: u16) -> bool {
        self.own_every.is_none_or(|n| local_port.is_multiple_of(n))
    }

    fn dialed(&mut self, ticket: u32, conn: ConnId, local: Endpoint) -> bool {
        self.dialed.push((ticket, conn, local.port));
        self.opened(conn, local, local)
    }

    fn dial_failed(&mut self, ticket: u32, why: DialError) {
        self.dial_failed.push((ticket, why));
    }
}

/// splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// What happens to frames on the way, in both directions.
#[derive(Clone, Copy, Default)]
pub struct Trouble {
    /// Frames lost, of 1000.
    pub loss: u64,
    /// Frames doubled, of 1000.
    pub duplicate: u64,
    /// Frames overtaken by later ones, of 1000.
    pub reorder: u64,
    /// Time on the way, in microseconds.
    pub delay_us: u64,
}

/// Frames under way one way: arrival time, order, frame.
#[derive(Default)]
pub struct Way {
    frames: Vec<(u64, u64, Vec<u8>)>,
    count: u64,
}

impl Way {
    pub fn send(&mut self, now_us: u64, frame: Vec<u8>, trouble: &Trouble, random: &mut Random) {
        if random.below(1000) < trouble.loss {
            return;
        }
        let mut copies = 1;
        if random.below(1000) < trouble.duplicate {
            copies = 2;
        }
        for _ in 0..copies {
            let mut at = now_us + trouble.delay_us;
            if random.below(1000) < trouble.reorder {
                at += 50 + random.below(500);
            }
            self.count += 1;
            self.frames.push((at, self.count, frame.clone()));
        }
    }

    pub fn arrived(&mut self, now_us: u64) -> Vec<Vec<u8>> {
        self.frames.sort_by_key(|(at, order, _)| (*at, *order));
        let n = self.frames.partition_point(|(at, _, _)| *at <= now_us);
        self.frames.drain(..n).map(|(_, _, frame)| frame).collect()
    }

    pub fn next_at(&self) -> Option<u64> {
        self.frames.iter().map(|(at, _, _)| *at).min()
    }
}

/// The peer's device: two queues.
#[derive(Default)]
pub struct Queues {
    pub rx: VecDeque<Vec<u8>>,
    pub tx: Vec<Vec<u8>>,
}

pub struct QueueRx(Vec<u8>);
pub struct QueueTx<'a>(&'a mut Vec<Vec<u8>>);

impl RxToken for QueueRx {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for QueueTx<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let r = f(&mut frame);
        self.0.push(frame);
        r
    }
}

impl Device for Queues {
    type RxToken<'a> = QueueRx;
    type TxToken<'a> = QueueTx<'a>;

    fn receive(&mut self, _: Instant) -> Option<(QueueRx, QueueTx<'_>)> {
        Some((QueueRx(self.rx.pop_front()?), QueueTx(&mut self.tx)))
    }

    fn transmit(&mut self, _: Instant) -> Option<QueueTx<'_>> {
        Some(QueueTx(&mut self.tx))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = DeviceCapabilities::default();
        caps.medium = Medium::Ethernet;
        caps.max_transmission_unit = 1514;
        caps
    }
}

/// A stack with an echo service, and a smoltcp host on the other end of the wire.
pub struct World {
    pub now_us: u64,
    pub stack: Stack,
    pub nic: FakeNic,
    pub service: Echo,
    pub peer: Interface,
    pub peer_sockets: SocketSet<'static>,
    pub queues: Queues,
    pub trouble: Trouble,
    pub random: Random,
    pub to_stack: Way,
    pub to_peer: Way,
    /// Frames on the wire, both ways.
    pub frames: u64,
    pub next_port: u16,
}

pub fn config() -> Config {
    let mode = AddressMode::Static { addr: ADDR, prefix_len: 24, gateway: None };
    Config::new(mode, PORT, [0x1234, 0x5678])
}

impl World {
    pub fn new(config: Config, seed: u64) -> Self {
        // Every other seed has a device that cuts large frames up.
        let nic = FakeNic::new(MAC, 256);
        let nic = if seed % 2 == 1 { nic.cutting(16 << 10) } else { nic };
        let now_us = 1_000_000;
        let stack = Stack::new(config, &nic, now_us);
        let mut queues = Queues::default();
        let mut peer_config = smoltcp::iface::Config::new(HardwareAddress::Ethernet(EthernetAddress(PEER_MAC)));
        peer_config.random_seed = seed;
        let mut peer = Interface::new(peer_config, &mut queues, Instant::from_micros(now_us as i64));
        peer.update_ip_addrs(|addrs| {
            addrs.push(IpCidr::new(IpAddress::Ipv4(Ipv4Address::from(PEER_ADDR)), 24)).expect("room");
        });
        Self {
            now_us,
            stack,
            nic,
            service: Echo::new(),
            peer,
            peer_sockets: SocketSet::new(vec![]),
            queues,
            trouble: Trouble::default(),
            random: Random(seed),
            to_stack: Way::default(),
            to_peer: Way::default(),
            frames: 0,
            next_port: 40000,
        }
    }

    pub fn now(&self) -> Instant {
        Instant::from_micros(self.now_us as i64)
    }

    /// A connecting socket of the peer with buffers of `size` bytes.
    pub fn connect(&mut self, size: usize) -> SocketHandle {
        let mut socket = tcp::Socket::new(tcp::SocketBuffer::new(vec![0; size]), tcp::SocketBuffer::new(vec![0; size]));
        socket.set_nagle_enabled(false);
        let remote = (IpAddress::Ipv4(Ipv4Address::from(ADDR)), PORT);
        socket.connect(self.peer.context(), remote, self.next_port).expect("connect");
        self.next_port += 1;
        self.peer_sockets.add(socket)
    }

    pub fn socket(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.peer_sockets.get_mut(handle)
    }

    /// One turn of everything. Returns whether anything moved.
    pub fn step(&mut self) -> Turn {
        self.peer.poll(self.now(), &mut self.queues, &mut self.peer_sockets);
        for frame in self.queues.tx.drain(..) {
            self.frames += 1;
            self.to_stack.send(self.now_us, frame, &self.trouble, &mut self.random);
        }
        self.nic.rx.extend(self.to_stack.arrived(self.now_us));
        let turn = self.stack.poll(&mut self.nic, &mut self.service, self.now_us);
        for frame in self.nic.tx.drain(..) {
            self.frames += 1;
            self.to_peer.send(self.now_us, frame, &self.trouble, &mut self.random);
        }
        self.queues.rx.extend(self.to_peer.arrived(self.now_us));
        turn
    }

    /// Steps until `done` or until `limit_us` of simulated time passed. Time jumps to the next event when nothing moves.
    pub fn run(&mut self, limit_us: u64, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now_us + limit_us;
        while self.now_us < end {
            let before = self.frames;
            let turn = self.step();
            if done(self) {
                return true;
            }
            if self.frames != before || turn.more || !self.queues.rx.is_empty() {
                self.now_us += 10;
                continue;
            }
            let mut next = end;
            for at in
                [self.to_stack.next_at(), self.to_peer.next_at(), self.stack.next_deadline()].into_iter().flatten()
            {
                next = next.min(at);
            }
            if let Some(at) = self.peer.poll_at(self.now(), &self.peer_sockets) {
                next = next.min(at.total_micros() as u64);
            }
            self.now_us = next.max(self.now_us + 10);
        }
        done(self)
    }

    /// Connects and waits until the peer's side is established.
    pub fn established(&mut self, size: usize) -> SocketHandle {
        let handle = self.connect(size);
        assert!(self.run(60_000_000, |w| w.socket(handle).state() == tcp::State::Established), "handshake");
        handle
    }
}

/// `n` bytes that tell where they belong.
pub fn pattern(n: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    (0..n).map(|_| random.next() as u8).collect()
}

/// Sends `bytes` over `handle` and expects them back.
pub fn echo(world: &mut World, handle: SocketHandle, bytes: &[u8], limit_us: u64) {
    let (mut sent, mut back) = (0, Vec::new());
    let ok = world.run(limit_us, |w| {
        let socket = w.socket(handle);
        if socket.can_send() && sent < bytes.len() {
            sent += socket.send_slice(&bytes[sent..]).expect("send");
        }
        while socket.can_recv() {
            socket
                .recv(|b| {
                    back.extend_from_slice(b);
                    (b.len(), ())
                })
                .expect("recv");
        }
        assert!(back.len() <= bytes.len());
        back.len() == bytes.len()
    });
    assert!(ok, "{} of {} bytes came back, {} sent; {:?}", back.len(), bytes.len(), sent, world.stack.stats());
    assert!(back == bytes, "bytes differ");
}

/// The MAC of the fake NIC, to name the trait's use.
pub fn mac(nic: &FakeNic) -> [u8; 6] {
    nic.mac()
}
