//! The loop of one CPU: its receive ring, its stack, the engine; then a short look for more, then the halt.
//!
//! One turn takes what the NIC received, runs the commands in it and sends the answers, with one doorbell a ring. A CPU that
//! just had traffic goes on looking for a while (`poll=`), for a halt and its interrupt cost more than a short wait.
//! Nothing here is shared with another CPU but the engine, which the service reaches for once a turn.

use barium_kernel::drivers::Net;
use barium_kernel::{clock, cpu};
use barium_net::{Service, Stack};
use barium_nic::Nic;

/// What the loop asks of the program above the stack, besides serving connections.
pub trait Program: Service {
    /// A turn begins; the time is `now_ns` since boot. What stack and NIC counted in the turns before can be read,
    /// and the stack be told of changed parameters.
    fn begin(&mut self, now_ns: u64, stack: &mut Stack, nic: &Net);

    /// The stack has had its turn: what fell due is done, in bounded steps. Returns false when the loop should end.
    fn end(&mut self, stack: &Stack, nic: &Net) -> bool;

    /// When the next turn is needed though nothing arrives, in nanoseconds since boot; `Some(0)` for at once.
    fn deadline_ns(&self) -> Option<u64>;
}

/// How often to look for frames by the clock when the device cannot interrupt, in nanoseconds.
const BLIND_NS: u64 = 1_000_000;

/// Longest halt while segments wait for room in the send ring, in nanoseconds.
const FULL_RING_NS: u64 = 10_000_000;

/// Spins between two looks at the clock while waiting for the next frame.
const LOOKS_PER_CLOCK: u32 = 8;

/// Why a loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The program is done.
    Program,
    /// The device broke its rings.
    Device,
}

/// One CPU's parts.
pub struct Worker<'a, P> {
    /// Its queue pair.
    pub nic: &'a mut Net,
    /// Its connections.
    pub stack: Stack,
    /// What is served.
    pub program: P,
    /// How long to look for more after a frame, in nanoseconds.
    pub poll_ns: u64,
}

impl<P: Program> Worker<'_, P> {
    /// Runs until the program ends it, or the device does.
    pub fn run(&mut self) -> End {
        let blind = self.nic.interrupts() == "none";
        // The end of the time to go on looking, after traffic.
        let mut look_until = 0;
        loop {
            cpu::turn();
            let now = clock::now_ns();
            self.program.begin(now, &mut self.stack, self.nic);
            let turn = self.stack.poll(self.nic, &mut self.program, now / 1000);
            if !self.program.end(&self.stack, self.nic) {
                return End::Program;
            }
            // Frames that nobody answers (multicast of other protocols, the last acknowledgement) are no traffic of ours.
            if turn.frames_in > 0 && turn.frames_out > 0 {
                look_until = if self.poll_ns > 0 { clock::now_ns() + self.poll_ns } else { 0 };
            }
            if turn.more {
                continue;
            }
            let deadline = self.deadline_ns();
            if look_until > 0 && self.look(look_until.min(deadline.unwrap_or(u64::MAX))) {
                continue;
            }
            if look_until > 0 && clock::now_ns() >= look_until {
                look_until = 0;
            }
            if self.nic.failed() {
                return End::Device;
            }
            if deadline == Some(0) || !self.nic.prepare_wait() {
                continue;
            }
            let limit = if blind { Some(clock::now_ns() + BLIND_NS) } else { None };
            cpu::wait_for_interrupt(deadline.into_iter().chain(limit).min());
            self.nic.finish_wait();
        }
    }

    /// When the next turn is needed though nothing arrives.
    fn deadline_ns(&mut self) -> Option<u64> {
        let mut stack = self.stack.next_deadline().map(|us| us.saturating_mul(1000));
        // Segments that wait for room in a full ring are due at once, but nothing can be done before the device's interrupt.
        if stack == Some(0) && !self.nic.can_transmit() {
            stack = Some(clock::now_ns() + FULL_RING_NS);
        }
        stack.into_iter().chain(self.program.deadline_ns()).min()
    }

    /// Looks for frames until `until`. Returns whether one came.
    fn look(&self, until: u64) -> bool {
        loop {
            for _ in 0..LOOKS_PER_CLOCK {
                if self.nic.pending() {
                    return true;
                }
                cpu::relax();
            }
            if clock::now_ns() >= until {
                return false;
            }
        }
    }
}
