//! `debug=window`: large objects in fragmented memory, mapped, used by every CPU, given up and mapped elsewhere, until the
//! window's addresses have come round a few times. A translation that a CPU kept too long would show other contents.

use crate::power::{self, ExitStatus};
use crate::region::FRAME;
use crate::{announce, clock, cpu, memory};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Objects of all sizes, and small ones in a window that is nearly full.
const LARGE_ROUNDS: usize = 200;
const CROWDED_ROUNDS: usize = 500;
/// Runs of this many bytes fill memory; every other one is then freed.
const RUN: usize = 10 * FRAME as usize;
/// What may stay behind: slabs and lists of free objects.
const LOST: usize = 256 << 10;
/// How long the other CPUs may take to notice that objects are gone.
const PATIENCE_NS: u64 = 5_000_000_000;
/// Words of a page.
const STEP: usize = FRAME as usize / 8;

/// What the other CPUs look at: an object, how many words it has, and in which round.
static OBJECT: AtomicPtr<u64> = AtomicPtr::new(core::ptr::null_mut());
static WORDS: AtomicUsize = AtomicUsize::new(0);
static ROUND: AtomicUsize = AtomicUsize::new(0);
/// CPUs that have looked in this round, and words that any of them found wrong in any round.
static DONE: AtomicUsize = AtomicUsize::new(0);
static WRONG: AtomicUsize = AtomicUsize::new(0);

/// Runs the check and powers off with the verdict.
pub(super) fn run() {
    let held = memory::held();
    let verdict = check();
    // Tables rest until every CPU has passed; they are looked at again when somebody counts.
    let limit = clock::now_ns() + PATIENCE_NS;
    while memory::stats().held > held + LOST && clock::now_ns() < limit {
        cpu::turn();
    }
    let left = memory::held().saturating_sub(held) >> 10;
    match verdict {
        Some(mapped) if WRONG.load(Ordering::Relaxed) == 0 && left <= LOST >> 10 => {
            let objects = LARGE_ROUNDS + CROWDED_ROUNDS;
            announce!("window test passed: {objects} objects, {mapped} in the window, {left} KiB not given back");
            power::exit(ExitStatus::Success)
        }
        _ => {
            announce!("window test failed: {} words wrong, {left} KiB not given back", WRONG.load(Ordering::Relaxed));
            power::exit(ExitStatus::Failure(1))
        }
    }
}

fn run_of_frames(bytes: usize) -> Option<Vec<u8>> {
    let mut run = Vec::new();
    run.try_reserve_exact(bytes).ok().map(|()| run)
}

/// How many objects lay in the window. `None` when one was refused.
fn check() -> Option<usize> {
    let count = memory::stats().total / RUN;
    let (mut kept, mut freed) = (Vec::with_capacity(count), Vec::with_capacity(count));
    while let Some(run) = run_of_frames(RUN) {
        let half = if kept.len() > freed.len() { &mut freed } else { &mut kept };
        half.push(run);
    }
    drop(freed);
    cpu::run_on_others(look);
    // Every size from a few pages to nearly all that is free, in no order.
    let most = kept.len() * RUN * 9 / 10 / 8;
    let mut mapped = 0;
    for round in 1..=LARGE_ROUNDS {
        let words = round * 7919 % LARGE_ROUNDS * most / LARGE_ROUNDS / (1 + round % 4);
        mapped += usize::from(use_everywhere(round, words.max(RUN / 4))?);
    }
    // The window is full but for four granules: addresses come round at once.
    let mut crowd: Vec<Vec<u8>> = Vec::with_capacity(count);
    while let Some(object) = run_of_frames(RUN + 1) {
        crowd.push(object);
    }
    crowd.truncate(crowd.len().saturating_sub(4));
    for round in LARGE_ROUNDS + 1..=LARGE_ROUNDS + CROWDED_ROUNDS {
        mapped += usize::from(use_everywhere(round, RUN / 4 + round * 7919 % CROWDED_ROUNDS * 300)?);
    }
    Some(mapped)
}

/// Takes an object, lets every CPU read it and write to it, and looks what is there then. Returns whether it lay in the
/// window; `None` when there was no room for it.
fn use_everywhere(round: usize, words: usize) -> Option<bool> {
    let mut object: Vec<u64> = Vec::new();
    // The last addresses rest until every CPU has passed.
    let limit = clock::now_ns() + PATIENCE_NS;
    while object.try_reserve_exact(words).is_err() {
        if clock::now_ns() > limit {
            return None;
        }
        cpu::turn();
    }
    object.extend((0..words).map(|at| if at % STEP == 0 { expected(round, at, 0) } else { 0 }));
    OBJECT.store(object.as_mut_ptr(), Ordering::Relaxed);
    WORDS.store(words, Ordering::Relaxed);
    DONE.store(0, Ordering::Relaxed);
    ROUND.store(round, Ordering::Release);
    let online = cpu::online();
    (1..online).for_each(cpu::wake);
    while DONE.load(Ordering::Acquire) + 1 < online {
        cpu::turn();
    }
    for id in 0..online {
        let wrong = (0..words).step_by(STEP).filter(|at| object.get(at + id) != expect(round, *at, id, words).as_ref());
        WRONG.fetch_add(wrong.count(), Ordering::Relaxed);
    }
    Some(memory::in_window(object.as_ptr().cast()))
}

fn expected(round: usize, at: usize, id: usize) -> u64 {
    (round << 40 | at << 8 | id) as u64
}

/// What CPU `id` leaves behind the first word of the page at `at`.
fn expect(round: usize, at: usize, id: usize, words: usize) -> Option<u64> {
    (at + id < words).then(|| expected(round, at, id))
}

/// Another CPU: reads each page's first word, and writes one of its own behind it.
fn look(id: usize) -> ! {
    let mut seen = 0;
    loop {
        let round = ROUND.load(Ordering::Acquire);
        if round != seen {
            seen = round;
            let (object, words) = (OBJECT.load(Ordering::Relaxed), WORDS.load(Ordering::Relaxed));
            let mut wrong = 0;
            for at in (0..words).step_by(STEP) {
                // SAFETY: the object is alive until all CPUs are done with the round; the first words of pages are not written,
                // and of the words behind them each is one CPU's.
                unsafe {
                    wrong += usize::from(object.add(at).read_volatile() != expected(round, at, 0));
                    if at + id < words {
                        object.add(at + id).write_volatile(expected(round, at, id));
                    }
                }
            }
            WRONG.fetch_add(wrong, Ordering::Relaxed);
            DONE.fetch_add(1, Ordering::AcqRel);
        }
        // One half of the CPUs halts in between, the other never does.
        if id % 2 == 1 {
            cpu::wait_for_interrupt(None);
        } else {
            cpu::turn();
        }
    }
}
