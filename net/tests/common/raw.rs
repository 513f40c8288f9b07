//! A peer that says exactly what the test wants, segment by segment.
#![allow(dead_code)]

use barium_net::{Config, Stack};
use barium_nic::fake::FakeNic;

use super::{ADDR, Echo, MAC, PORT};

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;

/// Without selective acknowledgements.
pub const PLAIN_SYN_OPTIONS: &[u8] = &[2, 4, 5, 0xb4, 1, 3, 3, 7];
pub const SYN_OPTIONS: &[u8] = &[2, 4, 5, 0xb4, 4, 2, 1, 3, 3, 7, 1, 1];

/// A TCP segment without its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seg {
    pub src: u16,
    pub dst: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
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

/// An IPv4 frame for the stack.
pub fn ip_frame(from: [u8; 4], to: [u8; 4], protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut f = Vec::new();
    f.extend_from_slice(&MAC);
    f.extend_from_slice(&[2, 0, from[0], from[1], from[2], from[3], 8, 0]);
    f.extend_from_slice(&[0x45, 0]);
    f.extend_from_slice(&((20 + body.len()) as u16).to_be_bytes());
    f.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
    f.extend_from_slice(&from);
    f.extend_from_slice(&to);
    let check = fold(sum(&f[14..34], 0));
    f[24..26].copy_from_slice(&check);
    f.extend_from_slice(body);
    f
}

impl Seg {
    pub fn frame(&self, from: [u8; 4]) -> Vec<u8> {
        let mut tcp = Vec::new();
        tcp.extend_from_slice(&self.src.to_be_bytes());
        tcp.extend_from_slice(&self.dst.to_be_bytes());
        tcp.extend_from_slice(&self.seq.to_be_bytes());
        tcp.extend_from_slice(&self.ack.to_be_bytes());
        let options_len = self.options.len().div_ceil(4) * 4;
        tcp.extend_from_slice(&[((20 + options_len) as u8 / 4) << 4, self.flags]);
        tcp.extend_from_slice(&self.window.to_be_bytes());
        tcp.extend_from_slice(&[0; 4]);
        tcp.extend_from_slice(&self.options);
        tcp.resize(20 + options_len, 0);
        tcp.extend_from_slice(&self.payload);
        let check = fold(sum(&tcp, sum(&from, sum(&ADDR, 6 + tcp.len() as u32))));
        tcp[16..18].copy_from_slice(&check);
        ip_frame(from, ADDR, 6, &tcp)
    }

    /// Reads a frame of the stack, checking its checksums and that it goes to `to`.
    pub fn parse(f: &[u8], to: [u8; 4]) -> Option<Seg> {
        assert_eq!(f[6..12], MAC, "source MAC");
        if f[12..14] != [8, 0] || f[23] != 6 {
            return None;
        }
        assert_eq!(f[..6], [2, 0, to[0], to[1], to[2], to[3]], "to the MAC that the peer's frames came from");
        assert_eq!(f[30..34], to, "destination");
        assert_eq!(fold(sum(&f[14..34], 0)), [0, 0], "IP checksum");
        assert_eq!(usize::from(u16::from_be_bytes([f[16], f[17]])), f.len() - 14, "IP length");
        let tcp = &f[34..];
        assert_eq!(fold(sum(tcp, sum(&f[26..34], 6 + tcp.len() as u32))), [0, 0], "TCP checksum");
        let header = usize::from(tcp[12] >> 4) * 4;
        let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().expect("four"));
        Some(Seg {
            src: u16::from_be_bytes([tcp[0], tcp[1]]),
            dst: u16::from_be_bytes([tcp[2], tcp[3]]),
            seq: word(4),
            ack: word(8),
            flags: tcp[13],
            window: u16::from_be_bytes([tcp[14], tcp[15]]),
            options: tcp[20..header].to_vec(),
            payload: tcp[header..].to_vec(),
        })
    }

    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}

/// A stack, its NIC and its service, with time.
pub struct Bench {
    pub stack: Stack,
    pub nic: FakeNic,
    pub service: Echo,
    pub now_us: u64,
}

impl Bench {
    pub fn new(config: Config) -> Self {
        Self::with_nic(config, FakeNic::new(MAC, 4096))
    }

    pub fn with_nic(config: Config, nic: FakeNic) -> Self {
        let now_us = 5_000_000;
        Self { stack: Stack::new(config, &nic, now_us), nic, service: Echo::new(), now_us }
    }

    pub fn poll(&mut self) -> Vec<Vec<u8>> {
        loop {
            let turn = self.stack.poll(&mut self.nic, &mut self.service, self.now_us);
            if !turn.more {
                break;
            }
        }
        self.nic.tx.drain(..).collect()
    }

    /// Lets `us` pass, stopping at every deadline of the stack; returns the frames sent meanwhile, with their times.
    pub fn pass(&mut self, us: u64) -> Vec<(u64, Vec<u8>)> {
        let end = self.now_us + us;
        let mut sent = Vec::new();
        let mut turns = 0;
        loop {
            let at = self.stack.next_deadline().unwrap_or(end).clamp(self.now_us, end);
            self.now_us = at.max(self.now_us + 1).min(end);
            sent.extend(self.poll().into_iter().map(|frame| (self.now_us, frame)));
            turns += 1;
            assert!(turns < 1_000_000, "deadlines do not move on");
            if self.now_us >= end {
                return sent;
            }
        }
    }
}

/// One connection's other end.
#[derive(Clone, Debug)]
pub struct Peer {
    pub addr: [u8; 4],
    pub port: u16,
    pub seq: u32,
    pub ack: u32,
    pub window: u16,
    /// What its SYN says.
    pub syn_options: &'static [u8],
}

impl Peer {
    pub fn new(addr: [u8; 4], port: u16) -> Self {
        Self { addr, port, seq: 1000 + u32::from(port) * 7919, ack: 0, window: 512, syn_options: SYN_OPTIONS }
    }

    pub fn seg(&self, flags: u8, payload: &[u8]) -> Seg {
        let options = if flags & SYN != 0 { self.syn_options.to_vec() } else { vec![] };
        let ack = if flags & ACK != 0 { self.ack } else { 0 };
        Seg {
            src: self.port,
            dst: PORT,
            seq: self.seq,
            ack,
            flags,
            window: self.window,
            options,
            payload: payload.to_vec(),
        }
    }

    /// Queues a segment and moves the sequence number on.
    pub fn send(&mut self, bench: &mut Bench, flags: u8, payload: &[u8]) {
        let seg = self.seg(flags, payload);
        self.seq = self.seq.wrapping_add(payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0));
        bench.nic.rx.push_back(seg.frame(self.addr));
    }

    /// Sends and returns the answers.
    pub fn say(&mut self, bench: &mut Bench, flags: u8, payload: &[u8]) -> Vec<Seg> {
        self.send(bench, flags, payload);
        self.hear(bench.poll())
    }

    /// Reads the frames of the stack, acknowledging their contents from now on.
    pub fn hear(&mut self, frames: Vec<Vec<u8>>) -> Vec<Seg> {
        let segs: Vec<Seg> = frames.iter().filter_map(|frame| Seg::parse(frame, self.addr)).collect();
        for seg in &segs {
            let len = seg.payload.len() as u32 + u32::from(seg.flags & (SYN | FIN) != 0);
            if len > 0 {
                self.ack = seg.seq.wrapping_add(len);
            }
        }
        segs
    }

    /// Shakes hands.
    pub fn open(&mut self, bench: &mut Bench) {
        let answer = self.say(bench, SYN, &[]);
        assert_eq!(answer.len(), 1);
        assert_eq!(answer[0].flags, SYN | ACK);
        assert_eq!(answer[0].ack, self.seq);
        let answer = self.say(bench, ACK, &[]);
        assert_eq!(answer, []);
    }
}
