//! The loop of one CPU: frames, its stack, the engine; then a short look for more, then the halt.
//!
//! One turn takes what arrived, runs the commands in it and sends the answers, with one doorbell a ring. A CPU that just had
//! traffic goes on looking for a while (`poll=`; with several CPUs only where it is asked for, and those with a queue pair),
//! for a halt and its interrupt cost more than a short wait.
//!
//! Only the engine's part of a turn needs others to keep away. Where another CPU has it, what waits for it is kept and the
//! turn goes on without; the bell rings when it is worth another try.

use barium_kernel::{clock, cpu};
use barium_net::Stack;
use barium_nic::Nic;
use barium_smp::exclusive::Claim;
use barium_smp::mailbox::Inbox;

use crate::counters::CpuCounters;
use crate::engine::COUNT_EVERY_NS;
use crate::link::{self, Link};
use crate::shared::Shared;
use crate::start::Banner;

/// How often to look for frames by the clock when the device cannot interrupt, in nanoseconds.
const BLIND_NS: u64 = 1_000_000;

/// Longest halt while segments wait for room in the send ring, in nanoseconds.
const FULL_RING_NS: u64 = 10_000_000;

/// Spins between two looks at the clock while waiting for the next frame.
const LOOKS_PER_CLOCK: u32 = 8;

/// Frames taken from a mailbox in one turn.
const MAILBOX_FRAMES: usize = 512;

/// Why a loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// SHUTDOWN.
    Program,
    /// The device broke its rings.
    Device,
}

/// What one CPU has of its own beside its stack; made by the first, handed to the CPU.
pub struct Part {
    /// Its way to the network.
    pub link: Link,
    /// Frames that other CPUs received for it; none where there is one CPU.
    pub frames: Option<Inbox>,
    /// Frames that CPUs without a queue pair send through its own.
    pub sends: Option<Inbox>,
    /// Says when clients can connect; the first CPU has it.
    pub banner: Option<Banner>,
}

/// One CPU's parts.
pub struct Worker {
    cpu: usize,
    shared: &'static Shared,
    part: Part,
    stack: Stack,
    claim: Claim,
    /// Some of its connections are ready to be looked at.
    has_ready: bool,
    /// Another CPU had the engine when this one tried. It has to try again, whatever else happens: of those that wait only
    /// one is woken at a time.
    missed: bool,
    counters: CpuCounters,
    /// When the counters are told next, in ns since boot, and whether there is something to tell.
    tell_at_ns: u64,
    untold: bool,
    /// CPUs to which frames were posted in this turn, a bit each.
    posted: u64,
    /// The address that the stack was told.
    address: Option<[u8; 4]>,
}

/// What the first part of a turn brought.
#[derive(Default)]
struct Arrived {
    /// Frames of this CPU's own.
    frames: usize,
    /// Frames passed on to other CPUs, or sent for them.
    others: usize,
    /// There may be more at once.
    more: bool,
}

/// What the engine's part of a turn came to.
enum Served {
    /// Nothing waits for it, or another CPU has it.
    No,
    /// It was had; whether there is more to do with it at once.
    Yes { more: bool },
    /// SHUTDOWN.
    Over,
}

impl Worker {
    /// The parts of a CPU, put together on it.
    pub fn new(cpu: usize, shared: &'static Shared, part: Part, stack: Stack) -> Self {
        Self {
            cpu,
            shared,
            part,
            stack,
            claim: Claim::new(cpu),
            has_ready: false,
            missed: false,
            counters: CpuCounters::default(),
            tell_at_ns: 0,
            untold: false,
            posted: 0,
            address: None,
        }
    }

    fn several(&self) -> bool {
        self.shared.cpus > 1
    }

    /// Runs until the engine ends it, or the device does.
    pub fn run(&mut self) -> End {
        let blind = self.part.link.queue().is_some_and(|net| net.interrupts() == "none");
        let bell = self.shared.bells.of(self.cpu);
        // The end of the time to go on looking, after traffic.
        let mut look_until = 0;
        loop {
            cpu::turn();
            let now = clock::now_ns();
            let sent_before = self.stack.stats().frames_out;
            let Arrived { frames, others, mut more } = self.take_in(now / 1000);
            match self.serve(now) {
                Served::No => {}
                Served::Yes { more: ready } => more |= ready,
                Served::Over => {
                    self.stack.egress(&mut self.part.link, now / 1000);
                    return End::Program;
                }
            }
            self.stack.egress(&mut self.part.link, now / 1000);
            if let Some(banner) = &mut self.part.banner {
                banner.update(&self.stack, &self.part.link, self.shared);
            }
            // Frames that nobody answers (multicast of other protocols, the last acknowledgement) are no traffic of ours.
            let answered = frames > 0 && self.stack.stats().frames_out != sent_before;
            if (answered || others > 0) && matches!(self.part.link, Link::Queue(_)) {
                look_until = if self.shared.poll_ns > 0 { clock::now_ns() + self.shared.poll_ns } else { 0 };
            }
            // A connection that ended is told of as soon as the engine can be had.
            if more || (self.stack.wants_service() && !self.missed) {
                continue;
            }
            let deadline = self.deadline_ns();
            if look_until > 0 && self.look(look_until.min(deadline.unwrap_or(u64::MAX))) {
                continue;
            }
            if look_until > 0 && clock::now_ns() >= look_until {
                look_until = 0;
            }
            if self.part.link.failed() {
                return End::Device;
            }
            // From here on a ring ends the halt, also one that is still to come.
            if deadline == Some(0) || (self.several() && !bell.prepare_halt()) {
                continue;
            }
            if self.part.link.prepare_wait() {
                let limit = if blind { Some(clock::now_ns() + BLIND_NS) } else { None };
                cpu::wait_for_interrupt(deadline.into_iter().chain(limit).min());
                self.part.link.finish_wait();
            }
            if self.several() {
                bell.awake();
            }
        }
    }

    /// The first part of a turn: frames from the queue and from other CPUs.
    #[inline]
    fn take_in(&mut self, now_us: u64) -> Arrived {
        if self.several() {
            return self.take_in_shared(now_us);
        }
        let frames = self.stack.ingress(&mut self.part.link, now_us, |_, _| false);
        Arrived { frames, others: 0, more: frames == self.stack.frames_per_turn() }
    }

    fn take_in_shared(&mut self, now_us: u64) -> Arrived {
        let address = self.shared.address();
        if self.cpu != 0 && self.address != address {
            self.address = address;
            self.stack.tell_address(address);
        }
        // Another CPU shows what this one counted: before a long halt it is told.
        if self.untold && now_us * 1000 >= self.tell_at_ns {
            self.tell(now_us * 1000);
        }
        let Self { cpu, shared, part, stack, counters, posted, .. } = self;
        let mut others = 0;
        let received = stack.ingress(&mut part.link, now_us, |frame, verified| {
            let owner = shared.steering.owner(frame);
            if owner == *cpu {
                return false;
            }
            let tag = if verified { link::TCP } else { 0 };
            match shared.frames[owner].post(frame.len(), tag, |copy| copy.copy_from_slice(frame)) {
                Some(()) => counters.mailbox_frames += 1,
                None => counters.mailbox_drops += 1,
            }
            *posted |= 1 << owner;
            others += 1;
            true
        });
        // Before this CPU's own work, so that the others' goes on beside it.
        let mut rings = core::mem::take(posted);
        while rings != 0 {
            shared.bells.wake(rings.trailing_zeros() as usize);
            rings &= rings - 1;
        }
        let mut brought = 0;
        if let Some(inbox) = &mut part.frames {
            while brought < MAILBOX_FRAMES
                && inbox.take(|frame, tag| stack.input(&mut part.link, now_us, frame, tag & link::TCP != 0)).is_some()
            {
                brought += 1;
            }
        }
        let frames = received - others + brought;
        others += self.send_for_others();
        self.untold |= frames + others > 0;
        Arrived { frames, others, more: received == self.stack.frames_per_turn() || brought == MAILBOX_FRAMES }
    }

    /// Sends what CPUs without a queue pair have to send. The doorbell is rung at the end of the turn.
    fn send_for_others(&mut self) -> usize {
        let Some(inbox) = &mut self.part.sends else { return 0 };
        let nic = &mut self.part.link;
        let mut sent = 0;
        while nic.can_transmit()
            && inbox
                .take(|frame, tag| {
                    // There is room, and no frame is longer than the device takes.
                    let _ = if tag & link::TCP != 0 {
                        nic.transmit_tcp(frame.len(), |out| out.copy_from_slice(frame))
                    } else {
                        nic.transmit(frame.len(), |out| out.copy_from_slice(frame))
                    };
                })
                .is_some()
        {
            sent += 1;
        }
        if sent > 0 {
            let mut waiting = self.shared.wants_room.swap(0, core::sync::atomic::Ordering::AcqRel);
            while waiting != 0 {
                self.shared.bells.wake(waiting.trailing_zeros() as usize);
                waiting &= waiting - 1;
            }
        }
        sent
    }

    /// The second part: the engine, if something waits for it and it can be had.
    fn serve(&mut self, now: u64) -> Served {
        use core::sync::atomic::Ordering;
        let shared = self.shared;
        self.has_ready |= shared.take_ready(self.cpu);
        let due = self.cpu == 0 && shared.deadline_ns.load(Ordering::Acquire) <= now;
        if !(self.has_ready || due || self.missed || self.stack.wants_service()) {
            return Served::No;
        }
        let Some(mut engine) = shared.engine.try_lock(&mut self.claim) else {
            self.counters.engine_misses += 1;
            self.missed = true;
            return Served::No;
        };
        self.missed = false;
        engine.begin(now);
        self.stack.set_keep_alive(engine.keep_alive_us());
        if engine.wants_counters() {
            self.tell(now);
            engine.count(&shared.board);
        }
        let more = self.stack.serve(&mut self.part.link, &mut engine.desk(self.cpu, &shared.steering), now / 1000);
        let outcome = engine.end(self.cpu);
        if outcome.shutdown {
            // Nobody is served any more.
            core::mem::forget(engine);
            return Served::Over;
        }
        // Changed by whoever has the engine.
        let before = shared.deadline_ns.load(Ordering::Relaxed);
        shared.deadline_ns.store(outcome.deadline_ns, Ordering::Release);
        drop(engine);
        if outcome.deadline_ns < before && self.cpu != 0 {
            shared.bells.wake(0);
        }
        let me = 1 << self.cpu;
        self.has_ready = more || outcome.ready & me != 0;
        let mut others = outcome.ready & !me;
        while others != 0 {
            shared.make_ready(others.trailing_zeros() as usize);
            others &= others - 1;
        }
        Served::Yes { more: self.has_ready }
    }

    /// Tells how this CPU's counters stand.
    fn tell(&mut self, now: u64) {
        self.tell_at_ns = now + COUNT_EVERY_NS;
        self.untold = false;
        self.shared.board.tell(self.cpu, &self.stack, &self.part.link, self.counters);
    }

    /// When the next turn is needed though nothing arrives; `Some(0)` is at once.
    fn deadline_ns(&mut self) -> Option<u64> {
        use core::sync::atomic::Ordering;
        let mut stack = self.stack.next_deadline().map(|us| us.saturating_mul(1000));
        // Segments that wait for room in a full ring are due at once, but nothing can be done before the device's interrupt
        // or the ring of the CPU that sends them.
        if stack == Some(0) {
            if let Link::Remote(_) = self.part.link {
                self.shared.wants_room.fetch_or(1 << self.cpu, Ordering::AcqRel);
            }
            if !self.part.link.can_transmit() {
                stack = Some(clock::now_ns() + FULL_RING_NS);
            }
        }
        // Frames of others that found the ring full.
        if self.part.sends.as_ref().is_some_and(Inbox::is_ready) && !self.part.link.can_transmit() {
            stack = stack.into_iter().chain([clock::now_ns() + FULL_RING_NS]).min();
        }
        let engine = match self.shared.deadline_ns.load(Ordering::Acquire) {
            u64::MAX => None,
            // Whoever has it rings.
            _ if self.missed => None,
            at => (self.cpu == 0).then_some(at),
        };
        let tell = self.untold.then_some(self.tell_at_ns);
        stack.into_iter().chain(engine).chain(tell).min()
    }

    /// Looks for frames until `until`. Returns whether one came, or something else to do.
    fn look(&mut self, until: u64) -> bool {
        let bell = self.shared.bells.of(self.cpu);
        loop {
            for _ in 0..LOOKS_PER_CLOCK {
                if self.part.link.pending() {
                    return true;
                }
                if bell.is_rung() {
                    bell.awake();
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
