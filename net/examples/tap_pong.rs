//! The stack on a Linux tap device, with real kernels as peers: every RESP command is answered `+PONG`, `GET n` with a
//! bulk of n bytes, `QUIT` closes. Needs the right to open the tap device.
//!
//! ```sh
//! cargo build --release -p barium-net --example tap_pong
//! unshare -n sh -c 'ip tuntap add tap0 mode tap; ip addr add 10.7.0.1/24 dev tap0; ip link set tap0 up; ip link set lo up
//!     timeout 60 target/release/examples/tap_pong tap0 10.7.0.2 & sleep 1
//!     redis-benchmark -h 10.7.0.2 -p 5555 -t ping_mbulk -n 100000 -q'
//! ```
//!
//! Further arguments make the wire bad, both ways: frames lost, doubled and delayed by one more millisecond, each of 1000,
//! and the delay of every frame in microseconds: `tap_pong tap0 10.7.0.2 10 5 5 5000`.

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsRawFd;
use std::time::Instant;

use barium_net::{AddressMode, Config, ConnId, Endpoint, Fate, Service, Stack};
use barium_nic::Nic;
use smoltcp::phy::{Device, Medium, RxToken, TunTapInterface, TxToken};

struct TapNic {
    tap: TunTapInterface,
    mac: [u8; 6],
    trouble: Trouble,
    start: Instant,
    /// Frames under way to the stack and to the peer: when they arrive, the frame.
    rx: VecDeque<(u64, Vec<u8>)>,
    tx: VecDeque<(u64, Vec<u8>)>,
    random: u64,
}

/// What happens on the wire: frames of 1000, and microseconds.
#[derive(Clone, Copy, Default)]
struct Trouble {
    loss: u64,
    duplicate: u64,
    reorder: u64,
    delay_us: u64,
}

impl TapNic {
    fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64 + 1
    }

    fn chance(&mut self, of_1000: u64) -> bool {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.random >> 33) % 1000 < of_1000
    }

    /// When the copies of a frame arrive that is sent now.
    fn arrivals(&mut self) -> Vec<u64> {
        let Trouble { loss, duplicate, reorder, delay_us } = self.trouble;
        let mut at = self.now_us() + delay_us;
        if self.chance(loss) {
            return vec![];
        }
        if self.chance(reorder) {
            at += 1000;
        }
        if self.chance(duplicate) { vec![at, at + 100] } else { vec![at] }
    }

    fn bad(&self) -> bool {
        self.trouble.loss + self.trouble.duplicate + self.trouble.reorder + self.trouble.delay_us > 0
    }

    /// Moves frames along the wire; returns when something next arrives.
    fn carry(&mut self) -> Option<u64> {
        while let Some((rx, _)) = self.tap.receive(instant()) {
            let frame = rx.consume(|frame| frame.to_vec());
            for at in self.arrivals() {
                let place = self.rx.partition_point(|(other, _)| *other <= at);
                self.rx.insert(place, (at, frame.clone()));
            }
        }
        let now = self.now_us();
        while let Some((at, frame)) = self.tx.front() {
            if *at > now {
                break;
            }
            if let Some(tx) = self.tap.transmit(instant()) {
                tx.consume(frame.len(), |to| to.copy_from_slice(frame));
            }
            self.tx.pop_front();
        }
        let next = [self.rx.front().map(|(at, _)| *at), self.tx.front().map(|(at, _)| *at)];
        next.into_iter().flatten().min()
    }
}

fn instant() -> smoltcp::time::Instant {
    smoltcp::time::Instant::ZERO
}

impl Nic for TapNic {
    type Frame = Vec<u8>;

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        if self.bad() {
            let now = self.now_us();
            return if self.rx.front()?.0 <= now { self.rx.pop_front().map(|(_, frame)| frame) } else { None };
        }
        let (rx, _) = self.tap.receive(instant())?;
        Some(rx.consume(|frame| frame.to_vec()))
    }

    fn recycle(&mut self, _frame: Vec<u8>) {}

    fn transmit<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        if self.bad() {
            let mut frame = vec![0; len];
            let r = fill(&mut frame);
            for at in self.arrivals() {
                let place = self.tx.partition_point(|(other, _)| *other <= at);
                self.tx.insert(place, (at, frame.clone()));
            }
            return Some(r);
        }
        let tx = self.tap.transmit(instant())?;
        Some(tx.consume(len, fill))
    }

    fn can_transmit(&mut self) -> bool {
        true
    }

    fn flush(&mut self) {}
}

#[derive(Default)]
struct Client {
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    fate: Fate,
}

#[derive(Default)]
struct Pong {
    clients: HashMap<ConnId, Client>,
}

/// The arguments of the first command in `input` and its length, if it is complete.
fn command(input: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    fn line(input: &[u8], at: usize) -> Option<(&[u8], usize)> {
        let end = input[at..].windows(2).position(|pair| pair == b"\r\n")? + at;
        Some((&input[at..end], end + 2))
    }
    fn number(text: &[u8]) -> usize {
        std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    }
    let (head, mut at) = line(input, 0)?;
    if head.first() != Some(&b'*') {
        return Some((head.split(|b| *b == b' ').collect(), at));
    }
    let mut args = Vec::new();
    for _ in 0..number(&head[1..]) {
        let (head, start) = line(input, at)?;
        let len = number(head.get(1..)?);
        at = start + len + 2;
        args.push(input.get(start..start + len)?);
        input.get(..at)?;
    }
    Some((args, at))
}

impl Service for Pong {
    fn opened(&mut self, conn: ConnId, _peer: Endpoint, _local: Endpoint) -> bool {
        self.clients.insert(conn, Client::default());
        true
    }

    fn received(&mut self, conn: ConnId, bytes: &[u8]) -> usize {
        let Some(client) = self.clients.get_mut(&conn) else { return bytes.len() };
        client.input.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((args, len)) = command(&client.input[at..]) {
            match args.as_slice() {
                [name, n] if name.eq_ignore_ascii_case(b"GET") => {
                    let n: usize = std::str::from_utf8(n).ok().and_then(|n| n.parse().ok()).unwrap_or(3);
                    client.output.extend_from_slice(format!("${n}\r\n").as_bytes());
                    client.output.extend((0..n).map(|i| ((i * 31) >> 3) as u8));
                    client.output.extend_from_slice(b"\r\n");
                }
                [name] if name.eq_ignore_ascii_case(b"QUIT") => client.fate = Fate::CloseAfterOutput,
                [name, ..] if name.eq_ignore_ascii_case(b"CONFIG") => client.output.extend_from_slice(b"*0\r\n"),
                _ => client.output.extend_from_slice(b"+PONG\r\n"),
            }
            at += len;
        }
        client.input.drain(..at);
        bytes.len()
    }

    fn peer_finished(&mut self, conn: ConnId) {
        if let Some(client) = self.clients.get_mut(&conn) {
            client.fate = Fate::CloseAfterOutput;
        }
    }

    fn output(&mut self, conn: ConnId) -> &[u8] {
        self.clients.get(&conn).map_or(&[], |client| &client.output[client.sent..])
    }

    fn sent(&mut self, conn: ConnId, n: usize) -> Option<Fate> {
        let Some(client) = self.clients.get_mut(&conn) else { return Some(Fate::Open) };
        client.sent += n;
        if client.sent == client.output.len() {
            client.output.clear();
            client.sent = 0;
        }
        client.output.is_empty().then_some(client.fate)
    }

    fn fate(&self, conn: ConnId) -> Fate {
        self.clients.get(&conn).map_or(Fate::Open, |client| client.fate)
    }

    fn closed(&mut self, conn: ConnId) {
        self.clients.remove(&conn);
    }

    fn next_ready(&mut self) -> Option<ConnId> {
        None
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let name = args.get(1).map_or("tap0", String::as_str);
    let address = match args.get(2).map(String::as_str) {
        Some("dhcp") => AddressMode::Dhcp,
        text => {
            let addr: std::net::Ipv4Addr = text.unwrap_or("10.7.0.2").parse().expect("an IPv4 address");
            AddressMode::Static { addr: addr.octets(), prefix_len: 16, gateway: None }
        }
    };
    let tap = TunTapInterface::new(name, Medium::Ethernet).expect("tap device");
    let fd = tap.as_raw_fd();
    let number = |at: usize| args.get(at).and_then(|text| text.parse().ok()).unwrap_or(0);
    let trouble = Trouble { loss: number(3), duplicate: number(4), reorder: number(5), delay_us: number(6) };
    let start = Instant::now();
    let (rx, tx) = (VecDeque::new(), VecDeque::new());
    let mut nic = TapNic { tap, mac: [2, 0, 0, 7, 0, 2], trouble, start, rx, tx, random: 1 };
    let now_us = || start.elapsed().as_micros() as u64 + 1;
    let mut stack = Stack::new(Config::new(address, 5555, [std::process::id().into(), 42]), &nic, now_us());
    let mut service = Pong::default();
    let mut report_at = 5_000_000;
    loop {
        let mut carried = None;
        if nic.bad() {
            carried = nic.carry();
        }
        let turn = stack.poll(&mut nic, &mut service, now_us());
        let now = now_us();
        if now > report_at {
            eprintln!(
                "{now} {:?} open {} grown {} {:?}",
                stack.address(),
                stack.connections(),
                stack.grown_bytes(),
                stack.stats()
            );
            report_at = now + 5_000_000;
        }
        if turn.more {
            continue;
        }
        let next = [stack.next_deadline(), carried, nic.tx.front().map(|(at, _)| *at)];
        let wait = next.into_iter().flatten().min().map_or(1_000_000, |at| at.saturating_sub(now)).min(1_000_000);
        smoltcp::phy::wait(fd, Some(smoltcp::time::Duration::from_micros(wait))).expect("poll");
    }
}
