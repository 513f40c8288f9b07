//! A NIC in memory: what the test puts in `rx` is received, what the stack sends appears in `tx`.

use std::collections::VecDeque;
use std::vec::Vec;

use crate::Nic;

/// The fake device; all fields are open to the test.
#[derive(Debug)]
pub struct FakeNic {
    /// Station address.
    pub mac: [u8; 6],
    /// Frames waiting to be received.
    pub rx: VecDeque<Vec<u8>>,
    /// Frames that were sent.
    pub tx: VecDeque<Vec<u8>>,
    /// Frames that `tx` may hold before the ring counts as full.
    pub tx_capacity: usize,
    /// Calls of `flush`.
    pub flushes: usize,
    /// Completes TCP checksums, and vouches for those of received frames.
    pub checksums: bool,
    /// Where large frames are composed, as many bytes as one may have; empty where the device cuts none.
    pub large: Vec<u8>,
    /// Large frames that may still be sent before the buffers are all on their way.
    pub large_left: usize,
    /// Large frames sent.
    pub large_sent: usize,
}

impl FakeNic {
    /// An idle device with room for `tx_capacity` frames.
    pub fn new(mac: [u8; 6], tx_capacity: usize) -> Self {
        Self {
            mac,
            rx: VecDeque::new(),
            tx: VecDeque::new(),
            tx_capacity,
            flushes: 0,
            checksums: false,
            large: Vec::new(),
            large_left: usize::MAX,
            large_sent: 0,
        }
    }

    /// The same device, which completes checksums and cuts up frames of up to `len` bytes.
    pub fn cutting(mut self, len: usize) -> Self {
        self.checksums = true;
        self.large = vec![0xa5; len];
        self
    }
}

/// Where IPv4's header begins, and TCP's behind it; fields in them.
const IP: usize = 14;
const IP_LEN: usize = IP + 2;
const IP_CHECKSUM: usize = IP + 10;
const ADDRESSES: usize = IP + 12;
const TCP: usize = 34;
const SEQUENCE: usize = TCP + 4;
const FLAGS: usize = TCP + 13;
const CHECKSUM: usize = 16;
/// FIN and PSH, which only the last segment has.
const LAST_ONLY: u8 = 1 | 8;

fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])));
    let sum: u32 = words.sum();
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// Sums TCP's header and payload, with what stands in the checksum's place, and puts the complement there.
fn complete(tcp: &mut [u8]) {
    let sum = sum(tcp);
    tcp[CHECKSUM..CHECKSUM + 2].copy_from_slice(&(!sum).to_be_bytes());
}

/// The sum that the stack has to put into the checksum's place of a TCP packet, `frame`.
fn pseudo_header(frame: &[u8]) -> u16 {
    let rest = [0, 6, ((frame.len() - TCP) >> 8) as u8, (frame.len() - TCP) as u8];
    sum(&[&frame[ADDRESSES..TCP], &rest].concat())
}

/// Cuts a large frame up as a device does.
fn cut(whole: &[u8], headers: usize, mss: usize) -> Vec<Vec<u8>> {
    assert_eq!(
        usize::from(u16::from_be_bytes([whole[IP_LEN], whole[IP_LEN + 1]])),
        whole.len() - IP,
        "length of the whole"
    );
    assert_eq!(sum(&whole[IP..TCP]), 0xffff, "checksum of the whole's IP header");
    let found = u16::from_be_bytes([whole[TCP + CHECKSUM], whole[TCP + CHECKSUM + 1]]);
    assert_eq!(found, pseudo_header(whole), "sum of the whole's pseudo-header");
    let payload = &whole[headers..];
    let first = u32::from_be_bytes([whole[SEQUENCE], whole[SEQUENCE + 1], whole[SEQUENCE + 2], whole[SEQUENCE + 3]]);
    let count = payload.len().div_ceil(mss);
    payload
        .chunks(mss)
        .enumerate()
        .map(|(n, part)| {
            let mut frame = [&whole[..headers], part].concat();
            let len = (frame.len() - IP) as u16;
            frame[IP_LEN..IP_LEN + 2].copy_from_slice(&len.to_be_bytes());
            frame[IP_CHECKSUM..IP_CHECKSUM + 2].fill(0);
            let checksum = !sum(&frame[IP..TCP]);
            frame[IP_CHECKSUM..IP_CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
            let sequence = first.wrapping_add((n * mss) as u32);
            frame[SEQUENCE..SEQUENCE + 4].copy_from_slice(&sequence.to_be_bytes());
            if n + 1 < count {
                frame[FLAGS] &= !LAST_ONLY;
            }
            let pseudo = pseudo_header(&frame);
            frame[TCP + CHECKSUM..TCP + CHECKSUM + 2].copy_from_slice(&pseudo.to_be_bytes());
            complete(&mut frame[TCP..]);
            frame
        })
        .collect()
}

impl Nic for FakeNic {
    type Frame = Vec<u8>;

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        self.rx.pop_front()
    }

    fn recycle(&mut self, _frame: Vec<u8>) {}

    fn completes_checksums(&self) -> bool {
        self.checksums
    }

    fn is_verified(&self, _frame: &Vec<u8>) -> bool {
        self.checksums
    }

    fn transmit_tcp<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let r = self.transmit(len, fill)?;
        if self.checksums
            && let Some(tcp) = self.tx.back_mut().and_then(|frame| frame.get_mut(TCP..))
        {
            complete(tcp);
        }
        Some(r)
    }

    fn transmit<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        if !self.can_transmit() || len > 1514 {
            return None;
        }
        let mut frame = vec![0xa5; len];
        let r = fill(&mut frame);
        self.tx.push_back(frame);
        Some(r)
    }

    fn max_large(&self) -> usize {
        self.large.len()
    }

    fn large(&mut self) -> Option<&mut [u8]> {
        (!self.large.is_empty() && self.large_left > 0).then_some(&mut self.large)
    }

    fn transmit_large(&mut self, len: usize, headers: usize, mss: usize) -> bool {
        if self.large_left == 0 || !(headers + 1..=self.large.len()).contains(&len) {
            return false;
        }
        self.large_left -= 1;
        self.large_sent += 1;
        self.tx.extend(cut(&self.large[..len], headers, mss));
        true
    }

    fn can_transmit(&mut self) -> bool {
        self.tx.len() < self.tx_capacity
    }

    fn flush(&mut self) {
        self.flushes += 1;
    }
}
