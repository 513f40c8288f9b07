//! CPUs: dense ids, start-up, idling and wake-up.
//!
//! Interrupts are masked everywhere but inside [`wait_for_interrupt`], so that code between two waits is never
//! interrupted and handlers need not save vector state.

use crate::{arch, panic};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Most CPUs that are used.
pub const MAX_CPUS: usize = 64;

static ONLINE: AtomicUsize = AtomicUsize::new(1);
/// A `fn(usize) -> !`, null while the other CPUs have nothing to do.
static PROGRAM: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// The id of this CPU: dense, the boot CPU is 0.
#[inline]
pub fn id() -> usize {
    arch::cpu::id()
}

/// How many CPUs run.
pub fn online() -> usize {
    ONLINE.load(Ordering::Acquire)
}

/// Halts until an interrupt arrives, one is pending, [`wake`] was called for this CPU since the last wait, or the
/// monotonic clock reaches `deadline_ns`. May also return early. Must be called with no lock held.
pub fn wait_for_interrupt(deadline_ns: Option<u64>) {
    arch::cpu::wait_for_interrupt(deadline_ns);
    panic::stop_if_over();
}

/// To be called between two turns of a loop that may go on without waiting: this CPU holds no address of memory that was
/// freed (until every CPU has said so, or waited, such an address may not be used again), and stops here when another one
/// has failed.
#[inline]
pub fn turn() {
    arch::memory::quiescent();
    panic::stop_if_over();
}

/// Ends the present or the next [`wait_for_interrupt`] of CPU `id`. Does nothing for an id that is not online.
pub fn wake(id: usize) {
    if id < online() {
        arch::cpu::wake(id);
    }
}

/// A hint inside a bounded spin.
#[inline]
pub fn relax() {
    arch::cpu::relax();
}

/// Starts further CPUs until `wanted` run in all; returns how many do.
pub(crate) fn start_others(wanted: usize) -> usize {
    let cpus = arch::cpu::start_others(wanted.clamp(1, MAX_CPUS));
    if cpus != online() {
        log::warn!("{cpus} CPUs answered, {} came up", online());
    }
    online()
}

/// Where a CPU other than the boot CPU arrives from its entry code, on its own stack, with its per-CPU area, exception
/// table and timer set up and interrupts masked. Ids come online in ascending order: `start_others` starts one at a time.
pub fn secondary(id: usize) -> ! {
    ONLINE.store(id + 1, Ordering::Release);
    // The boot CPU may be halted until this one has arrived.
    arch::cpu::wake(0);
    loop {
        let program = PROGRAM.load(Ordering::Acquire);
        if !program.is_null() {
            // SAFETY: only `run_on_others` stores here, and it stores a `fn(usize) -> !`.
            let program: fn(usize) -> ! = unsafe { core::mem::transmute(program) };
            program(id);
        }
        wait_for_interrupt(None);
    }
}

/// Lets every CPU but the boot CPU run `program`, which gets the CPU's id. Until then they are halted.
pub fn run_on_others(program: fn(usize) -> !) {
    PROGRAM.store(program as *mut (), Ordering::Release);
    (1..online()).for_each(wake);
}
