//! How a CPU reaches the network: by a queue pair of its own, or by another CPU's.

use alloc::boxed::Box;

use barium_kernel::drivers::Net;
use barium_kernel::drivers::virtio::net::Counters;
use barium_nic::Nic;
use barium_smp::mailbox::Outbox;

use crate::shared::Bells;

/// Tag of a frame in a mailbox: TCP, whose checksum the device completes or the backend has vouched for.
pub const TCP: u8 = 1;

/// A CPU's way to the network.
pub enum Link {
    /// Its own queue pair.
    Queue(Box<Net>),
    /// The queue pair of another CPU. What is received comes by another way.
    Remote(Remote),
}

/// Frames to send go to the CPU that has the queue pair.
pub struct Remote {
    /// The CPU.
    pub cpu: usize,
    /// Its mailbox of frames to send.
    pub outbox: Outbox,
    /// How it is told.
    pub bells: &'static Bells,
    /// Whether it has to be told of something.
    pub posted: bool,
    /// The station's address, and what the device can do.
    pub mac: [u8; 6],
    /// Largest IP packet.
    pub mtu: usize,
    /// Whether the device completes checksums.
    pub completes_checksums: bool,
}

/// Largest frame, for the question whether there is room.
const FULL_FRAME: usize = 1514;

impl Remote {
    #[inline]
    fn post<R>(&mut self, len: usize, tag: u8, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        if len > self.mtu + 14 {
            return None;
        }
        self.posted = true;
        self.outbox.post(len, tag, fill)
    }
}

impl Link {
    /// The queue pair, if it is this CPU's own.
    pub fn queue(&mut self) -> Option<&mut Net> {
        match self {
            Self::Queue(net) => Some(net),
            Self::Remote(_) => None,
        }
    }

    /// What the queue pair did so far.
    pub fn counters(&self) -> Counters {
        match self {
            Self::Queue(net) => net.counters(),
            Self::Remote(_) => Counters::default(),
        }
    }

    /// Whether a received frame waits in the queue.
    #[inline(always)]
    pub fn pending(&self) -> bool {
        match self {
            Self::Queue(net) => net.pending(),
            Self::Remote(_) => false,
        }
    }

    /// Whether the device broke its rings.
    #[inline]
    pub fn failed(&self) -> bool {
        match self {
            Self::Queue(net) => net.failed(),
            Self::Remote(_) => false,
        }
    }

    /// Switches the queues' interrupts on before a halt. Returns false when there is work already.
    #[inline]
    pub fn prepare_wait(&mut self) -> bool {
        match self {
            Self::Queue(net) => net.prepare_wait(),
            Self::Remote(_) => true,
        }
    }

    /// Switches them off after a halt.
    #[inline]
    pub fn finish_wait(&mut self) {
        if let Self::Queue(net) = self {
            net.finish_wait();
        }
    }
}

impl Nic for Link {
    type Frame = <Net as Nic>::Frame;

    fn mac(&self) -> [u8; 6] {
        match self {
            Self::Queue(net) => net.mac(),
            Self::Remote(remote) => remote.mac,
        }
    }

    fn mtu(&self) -> usize {
        match self {
            Self::Queue(net) => net.mtu(),
            Self::Remote(remote) => remote.mtu,
        }
    }

    fn link_up(&self) -> bool {
        match self {
            Self::Queue(net) => net.link_up(),
            Self::Remote(_) => true,
        }
    }

    fn completes_checksums(&self) -> bool {
        match self {
            Self::Queue(net) => net.completes_checksums(),
            Self::Remote(remote) => remote.completes_checksums,
        }
    }

    #[inline(always)]
    fn is_verified(&self, frame: &Self::Frame) -> bool {
        match self {
            Self::Queue(net) => net.is_verified(frame),
            Self::Remote(_) => false,
        }
    }

    #[inline(always)]
    fn receive(&mut self) -> Option<Self::Frame> {
        match self {
            Self::Queue(net) => net.receive(),
            Self::Remote(_) => None,
        }
    }

    #[inline(always)]
    fn recycle(&mut self, frame: Self::Frame) {
        if let Self::Queue(net) = self {
            net.recycle(frame);
        }
    }

    #[inline(always)]
    fn transmit<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        match self {
            Self::Queue(net) => net.transmit(len, fill),
            Self::Remote(remote) => remote.post(len, 0, fill),
        }
    }

    #[inline(always)]
    fn transmit_tcp<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        match self {
            Self::Queue(net) => net.transmit_tcp(len, fill),
            Self::Remote(remote) => remote.post(len, TCP, fill),
        }
    }

    #[inline]
    fn max_large(&self) -> usize {
        match self {
            Self::Queue(net) => net.max_large(),
            Self::Remote(_) => 0,
        }
    }

    fn large(&mut self) -> Option<&mut [u8]> {
        match self {
            Self::Queue(net) => net.large(),
            Self::Remote(_) => None,
        }
    }

    fn transmit_large(&mut self, len: usize, headers: usize, mss: usize) -> bool {
        match self {
            Self::Queue(net) => net.transmit_large(len, headers, mss),
            Self::Remote(_) => false,
        }
    }

    #[inline(always)]
    fn can_transmit(&mut self) -> bool {
        match self {
            Self::Queue(net) => net.can_transmit(),
            Self::Remote(remote) => remote.outbox.has_room(FULL_FRAME),
        }
    }

    #[inline(always)]
    fn flush(&mut self) {
        match self {
            Self::Queue(net) => net.flush(),
            Self::Remote(remote) => {
                if core::mem::take(&mut remote.posted) {
                    remote.bells.wake(remote.cpu);
                }
            }
        }
    }
}
