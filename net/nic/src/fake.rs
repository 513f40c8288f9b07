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
}

impl FakeNic {
    /// An idle device with room for `tx_capacity` frames.
    pub fn new(mac: [u8; 6], tx_capacity: usize) -> Self {
        Self { mac, rx: VecDeque::new(), tx: VecDeque::new(), tx_capacity, flushes: 0, checksums: false }
    }
}

/// Where TCP begins behind the headers of Ethernet and IPv4, and its checksum in it.
const TCP: usize = 34;
const CHECKSUM: usize = 16;

/// Sums TCP's header and payload, with what stands in the checksum's place, and puts the complement there.
fn complete(tcp: &mut [u8]) {
    let sum: u32 =
        tcp.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))).sum();
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    tcp[CHECKSUM..CHECKSUM + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
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

    fn can_transmit(&mut self) -> bool {
        self.tx.len() < self.tx_capacity
    }

    fn flush(&mut self) {
        self.flushes += 1;
    }
}
