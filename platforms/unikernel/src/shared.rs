//! What the CPUs share: the engine, their bells and mailboxes, the station's address.
//!
//! A connection belongs to one CPU from its first frame on. A CPU that receives another's frame posts it to that CPU; a CPU
//! without a queue pair posts what it sends to one that has. The engine is everybody's, one at a time.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use barium_kernel::cpu;
use barium_net::steer::Steering;
use barium_smp::bell::Bell;
use barium_smp::exclusive::{Exclusive, Wake};
use barium_smp::mailbox::Outbox;

use crate::counters::Board;
use crate::engine::Engine;

/// Alone on its cache lines.
#[repr(align(128))]
pub struct Apart<T>(pub T);

/// Every CPU's bell.
pub struct Bells(Box<[Apart<Bell>]>);

impl Bells {
    /// So many bells.
    pub fn new(cpus: usize) -> Self {
        Self((0..cpus).map(|_| Apart(Bell::new())).collect())
    }

    /// The bell of a CPU.
    #[inline]
    pub fn of(&self, cpu: usize) -> &Bell {
        &self.0[cpu].0
    }

    /// Rings a CPU's bell, and ends its halt if it halts.
    #[inline]
    pub fn wake(&self, cpu: usize) {
        if self.of(cpu).ring() {
            cpu::wake(cpu);
        }
    }
}

impl Wake for &'static Bells {
    fn wake(&self, cpu: usize) {
        Bells::wake(self, cpu);
    }
}

/// `None` as a number.
const NO_ADDRESS: u64 = u64::MAX;

/// See the [module](self).
pub struct Shared {
    /// How many CPUs there are.
    pub cpus: usize,
    /// The commands' side of everything.
    pub engine: Exclusive<Engine, &'static Bells>,
    /// Every CPU's bell.
    pub bells: &'static Bells,
    /// Whose a received frame is.
    pub steering: Steering,
    /// By CPU: the way of received frames to it.
    pub frames: Vec<Outbox>,
    /// By CPU: whether connections of its have become ready by what others did.
    ready: Box<[Apart<AtomicBool>]>,
    /// CPUs that wait for room in the mailbox of frames to send, a bit each.
    pub wants_room: AtomicU64,
    /// When the engine is next needed though nothing arrives, in ns since boot; the first CPU sees to it.
    pub deadline_ns: AtomicU64,
    /// The station's address, in the low half.
    address: AtomicU64,
    /// What the CPUs counted.
    pub board: Board,
    /// How long to look for more after a frame, in nanoseconds.
    pub poll_ns: u64,
}

impl Shared {
    /// What as many CPUs share as there are bells.
    pub fn new(bells: &'static Bells, engine: Engine, steering: Steering, frames: Vec<Outbox>, poll_ns: u64) -> Self {
        let cpus = bells.0.len();
        Self {
            cpus,
            engine: Exclusive::new(engine, bells),
            bells,
            steering,
            frames,
            ready: (0..cpus).map(|_| Apart(AtomicBool::new(false))).collect(),
            wants_room: AtomicU64::new(0),
            deadline_ns: AtomicU64::new(0),
            address: AtomicU64::new(NO_ADDRESS),
            board: Board::new(cpus),
            poll_ns,
        }
    }

    /// Tells a CPU that connections of its are ready.
    pub fn make_ready(&self, cpu: usize) {
        if !self.ready[cpu].0.swap(true, Ordering::AcqRel) {
            self.bells.wake(cpu);
        }
    }

    /// Whether a CPU was told so since the last question.
    #[inline]
    pub fn take_ready(&self, cpu: usize) -> bool {
        self.ready[cpu].0.load(Ordering::Relaxed) && self.ready[cpu].0.swap(false, Ordering::AcqRel)
    }

    /// Tells all CPUs but the first of the station's address.
    pub fn set_address(&self, addr: Option<[u8; 4]>) {
        let word = addr.map_or(NO_ADDRESS, |addr| u64::from(u32::from_be_bytes(addr)));
        if self.address.swap(word, Ordering::AcqRel) != word {
            (1..self.cpus).for_each(|cpu| self.bells.wake(cpu));
        }
    }

    /// The station's address.
    #[inline]
    pub fn address(&self) -> Option<[u8; 4]> {
        match self.address.load(Ordering::Acquire) {
            NO_ADDRESS => None,
            word => Some((word as u32).to_be_bytes()),
        }
    }
}
