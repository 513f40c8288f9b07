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
}

impl FakeNic {
    /// An idle device with room for `tx_capacity` frames.
    pub fn new(mac: [u8; 6], tx_capacity: usize) -> Self {
        Self { mac, rx: VecDeque::new(), tx: VecDeque::new(), tx_capacity, flushes: 0 }
    }
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
