//! What a request costs the stack, in instructions: for callgrind, which counts the function `measured` alone.
//!
//! ```sh
//! cargo build --release -p barium-net --example request_cost
//! valgrind --tool=callgrind --toggle-collect='*::measured' --callgrind-out-file=/dev/null \
//!     target/release/examples/request_cost 1 30 1 20
//! ```
//! Arguments: frames a connection sends at once, connections, requests per frame, rounds. The sum that callgrind reports,
//! divided by the requests that the program reports, is the figure. Peers acknowledge with their next request, as busy
//! clients do; a fifth argument `ack` makes them acknowledge at once, with a segment of its own.

use barium_net::{AddressMode, Config, ConnId, Endpoint, Fate, Service, Stack};
use barium_nic::Nic;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const REQUEST: &[u8] = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000042\r\n";
const REPLY: &[u8] = b"$3\r\nxxx\r\n";

/// Buffers go round: nothing is allocated while it is measured.
#[derive(Default)]
struct RingNic {
    rx: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    tx: Vec<Vec<u8>>,
}

impl Nic for RingNic {
    type Frame = Vec<u8>;

    fn mac(&self) -> [u8; 6] {
        MAC
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        self.rx.pop()
    }

    fn recycle(&mut self, frame: Vec<u8>) {
        self.spare.push(frame);
    }

    fn transmit<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let mut frame = self.spare.pop().unwrap_or_default();
        frame.resize(len, 0);
        let r = fill(&mut frame);
        self.tx.push(frame);
        Some(r)
    }

    fn can_transmit(&mut self) -> bool {
        true
    }

    fn flush(&mut self) {}
}

/// Answers every request's worth of bytes with a fixed reply.
struct Fixed {
    out: Vec<(Vec<u8>, usize)>,
}

impl Service for Fixed {
    fn opened(&mut self, conn: ConnId, _peer: Endpoint, _local: Endpoint) -> bool {
        let need = conn.slot as usize + 1;
        self.out.resize_with(need.max(self.out.len()), || (Vec::with_capacity(4096), 0));
        true
    }

    fn received(&mut self, conn: ConnId, bytes: &[u8]) -> usize {
        let out = &mut self.out[conn.slot as usize].0;
        for _ in 0..bytes.len() / REQUEST.len() {
            out.extend_from_slice(REPLY);
        }
        bytes.len()
    }

    fn peer_finished(&mut self, _conn: ConnId) {}

    fn output(&mut self, conn: ConnId) -> &[u8] {
        let (out, sent) = &self.out[conn.slot as usize];
        &out[*sent..]
    }

    fn sent(&mut self, conn: ConnId, n: usize) -> Option<Fate> {
        let (out, sent) = &mut self.out[conn.slot as usize];
        *sent += n;
        if *sent == out.len() {
            out.clear();
            *sent = 0;
        }
        out.is_empty().then_some(Fate::Open)
    }

    fn fate(&self, _conn: ConnId) -> Fate {
        Fate::Open
    }

    fn closed(&mut self, _conn: ConnId) {}

    fn next_ready(&mut self) -> Option<ConnId> {
        None
    }
}

#[inline(never)]
fn measured(stack: &mut Stack, nic: &mut RingNic, service: &mut Fixed, now_us: u64) {
    stack.poll(nic, service, now_us);
}

/// Accepting all connections; counted with `--toggle-collect='*::accepted'`.
#[inline(never)]
fn accepted(stack: &mut Stack, nic: &mut RingNic, service: &mut Fixed, now_us: u64) {
    stack.poll(nic, service, now_us);
}

#[derive(Clone, Copy)]
struct Client {
    port: u16,
    seq: u32,
    ack: u32,
}

fn sum(bytes: &[u8], mut sum: u32) -> u32 {
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
    }
    sum
}

fn fold(mut sum: u32) -> [u8; 2] {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

impl Client {
    fn segment(&mut self, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut f = Vec::with_capacity(1514);
        f.extend_from_slice(&MAC);
        f.extend_from_slice(&[2, 0, 0, 0, 0, 2, 8, 0]);
        let options: &[u8] = if flags & 2 != 0 { &[2, 4, 5, 0xb4, 4, 2, 1, 3, 3, 7, 1, 1] } else { &[] };
        let tcp_len = 20 + options.len() + payload.len();
        f.extend_from_slice(&[0x45, 0]);
        f.extend_from_slice(&((20 + tcp_len) as u16).to_be_bytes());
        f.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1]);
        let check = fold(sum(&f[14..34], 0));
        f[24..26].copy_from_slice(&check);
        f.extend_from_slice(&self.port.to_be_bytes());
        f.extend_from_slice(&5555u16.to_be_bytes());
        f.extend_from_slice(&self.seq.to_be_bytes());
        f.extend_from_slice(&self.ack.to_be_bytes());
        f.extend_from_slice(&[((20 + options.len()) as u8 / 4) << 4, flags, 0xfa, 0xf0, 0, 0, 0, 0]);
        f.extend_from_slice(options);
        f.extend_from_slice(payload);
        let check = fold(sum(&f[34..], sum(&f[26..34], 6 + tcp_len as u32)));
        f[50..52].copy_from_slice(&check);
        self.seq = self.seq.wrapping_add(payload.len() as u32 + u32::from(flags & 2 != 0));
        f
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| args.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (frames, connections, per_frame, rounds) = (number(0, 1), number(1, 30), number(2, 1), number(3, 20));
    let acks = args.get(4).is_some_and(|text| text == "ack");
    let mode = AddressMode::Static { addr: [10, 0, 0, 1], prefix_len: 24, gateway: None };
    let mut nic = RingNic::default();
    let mut config = Config::new(mode, 5555, [1, 2]);
    config.max_half_open = connections;
    config.frames_per_turn = usize::MAX;
    let mut stack = Stack::new(config, &nic, 0);
    let mut service = Fixed { out: Vec::new() };
    let mut clients: Vec<Client> =
        (0..connections).map(|i| Client { port: 1024 + i as u16, seq: 77 * i as u32, ack: 0 }).collect();
    let mut now_us = 1_000_000;
    nic.rx = clients.iter_mut().map(|client| client.segment(2, &[])).collect();
    stack.poll(&mut nic, &mut service, now_us);
    let learn = |clients: &mut Vec<Client>, nic: &mut RingNic| {
        for frame in nic.tx.drain(..) {
            let port = u16::from_be_bytes([frame[36], frame[37]]);
            let client = &mut clients[usize::from(port - 1024)];
            let seq = u32::from_be_bytes(frame[38..42].try_into().expect("four bytes"));
            let payload = frame.len() - 34 - usize::from(frame[46] >> 4) * 4;
            client.ack = seq.wrapping_add(payload as u32 + u32::from(frame[47] & 2 != 0));
        }
    };
    learn(&mut clients, &mut nic);
    nic.rx = clients.iter_mut().map(|client| client.segment(0x10, &[])).collect();
    accepted(&mut stack, &mut nic, &mut service, now_us);
    let mut requests = 0;
    let payload = REQUEST.repeat(per_frame);
    for _ in 0..rounds {
        now_us += 200;
        for client in &mut clients {
            for _ in 0..frames {
                let frame = client.segment(0x18, &payload);
                nic.rx.push(frame);
            }
            requests += frames * per_frame;
        }
        nic.rx.reverse();
        measured(&mut stack, &mut nic, &mut service, now_us);
        assert!(nic.rx.is_empty());
        learn(&mut clients, &mut nic);
        if acks {
            nic.rx.extend(clients.iter_mut().map(|client| client.segment(0x10, &[])));
            measured(&mut stack, &mut nic, &mut service, now_us + 10);
        }
    }
    println!("{requests} requests, {} frames in, {} out", stack.stats().frames_in, stack.stats().frames_out);
    assert_eq!(stack.connections(), connections);
    assert_eq!(stack.stats().retransmits, 0);
}
