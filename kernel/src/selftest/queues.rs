//! `debug=queues`: every CPU sends the frames of its own queue pair back to where they came from, until the command line's
//! `debug-frames=` were seen in all, and says how many it had and how many interrupts. A client outside sends many flows.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use barium_nic::Nic;

use crate::boot::Machine;
use crate::drivers::{self, Net};
use crate::power::{self, ExitStatus};
use crate::{announce, clock, cmdline, cpu};

/// How long frames are waited for.
const PATIENCE_NS: u64 = 30_000_000_000;
/// How long a CPU halts at most: the others may have reached the end.
const HALT_NS: u64 = 100_000_000;
/// Ethernet's two addresses.
const ADDRESS: usize = 6;
/// IPv4's two addresses behind Ethernet's header, and the ports behind its own.
const SOURCE: usize = 26;
const DESTINATION: usize = 30;
const PORTS: usize = 34;

static PAIRS: [AtomicPtr<Net>; cpu::MAX_CPUS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; cpu::MAX_CPUS];
static WANTED: AtomicUsize = AtomicUsize::new(0);
static SEEN: AtomicUsize = AtomicUsize::new(0);
static DONE: AtomicUsize = AtomicUsize::new(0);

/// Gives each CPU its pair and powers off with a verdict.
pub fn run(machine: &'static Machine) {
    let wanted = cmdline::get(machine.boot.cmdline, "debug-frames").and_then(|value| value.parse().ok());
    WANTED.store(wanted.unwrap_or(1000), Ordering::Relaxed);
    let pairs = drivers::probe_net(machine, machine.cpus);
    let count = pairs.len();
    for (slot, pair) in PAIRS.iter().zip(pairs) {
        slot.store(Box::into_raw(pair), Ordering::Release);
    }
    announce!("queue test: {count} pairs on {} CPUs", machine.cpus);
    cpu::run_on_others(|id| {
        echo(id);
        loop {
            cpu::wait_for_interrupt(None);
        }
    });
    echo(0);
    let begin = clock::now_ns();
    while DONE.load(Ordering::Acquire) < count && clock::now_ns() - begin < PATIENCE_NS {
        cpu::wait_for_interrupt(Some(clock::now_ns() + HALT_NS));
    }
    let passed =
        SEEN.load(Ordering::Acquire) >= WANTED.load(Ordering::Relaxed) && DONE.load(Ordering::Acquire) == count;
    announce!("queue test {}", if passed { "passed" } else { "failed" });
    power::exit(if passed { ExitStatus::Success } else { ExitStatus::Failure(1) });
}

fn finished() -> bool {
    SEEN.load(Ordering::Acquire) >= WANTED.load(Ordering::Relaxed)
}

fn echo(id: usize) {
    // SAFETY: `run` stored the address of a pair that nobody else uses, before this CPU was told to begin.
    let Some(nic) = (unsafe { PAIRS[id].load(Ordering::Acquire).as_mut() }) else { return };
    let begin = clock::now_ns();
    while !finished() && clock::now_ns() - begin < PATIENCE_NS {
        cpu::turn();
        while let Some(frame) = nic.receive() {
            SEEN.fetch_add(1, Ordering::AcqRel);
            let _ = nic.transmit(frame.len(), |out| {
                out.copy_from_slice(&frame);
                send_back(out);
            });
            nic.recycle(frame);
        }
        nic.flush();
        if !finished() && nic.prepare_wait() {
            cpu::wait_for_interrupt(Some(clock::now_ns() + HALT_NS));
            nic.finish_wait();
        }
    }
    let counters = nic.counters();
    announce!("queue pair {id}: {} frames, {} interrupts", counters.rx_frames, counters.interrupts);
    DONE.fetch_add(1, Ordering::AcqRel);
    cpu::wake(0);
}

/// Exchanges the frame's addresses and ports: the answer belongs to the same flow, so that the sums stay right.
fn send_back(frame: &mut [u8]) {
    let mut exchange = |one: usize, other: usize, len: usize| {
        if other + len <= frame.len() {
            let (front, back) = frame.split_at_mut(other);
            front[one..one + len].swap_with_slice(&mut back[..len]);
        }
    };
    exchange(0, ADDRESS, ADDRESS);
    exchange(SOURCE, DESTINATION, DESTINATION - SOURCE);
    exchange(PORTS, PORTS + 2, 2);
}
