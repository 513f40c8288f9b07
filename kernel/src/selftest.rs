//! Tests that only a real boot can make, asked for by `debug=<kind>` on the command line: deliberate failures, on the CPU
//! that `debug-cpu=` names (0 unless said), and checks that power off with a verdict: `debug=wake` of timers and wake-ups,
//! `debug=bytes` of copying, filling and comparing, `debug=window` of large objects that are mapped page by page, `debug=queues`
//! of the network device's queue pairs.

mod bytes;
mod queues;
mod window;

use crate::boot::Machine;
use crate::power::{self, ExitStatus};
use crate::{announce, clock, cmdline, cpu};
use core::hint::black_box;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Kind and function of each test.
const KINDS: [(&str, fn()); 12] = [
    ("panic", || panic!("asked for by debug=panic")),
    ("null", || write_to(0x8 as *mut u8)),
    ("write-code", || write_to(overflow_stack as *const () as *mut u8)),
    ("write-constant", || write_to(KINDS.as_ptr() as *mut u8)),
    ("execute-data", execute_data),
    ("stack-overflow", || {
        black_box(overflow_stack(black_box(0)));
    }),
    ("undefined", undefined),
    ("double-fault", double_fault),
    ("panic-busy", panic_while_others_run),
    ("wake", wake_test),
    ("bytes", bytes::run),
    ("window", window::run),
];

/// Index of the failure that another CPU is to run.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);
static CHOSEN_CPU: AtomicUsize = AtomicUsize::new(0);

fn write_to(address: *mut u8) {
    // SAFETY: it is not: the write must fault, for the page tables forbid it, and the exception ends the run.
    unsafe { black_box(address).write_volatile(0) };
}

fn execute_data() {
    static DATA: AtomicUsize = AtomicUsize::new(0);
    let data = black_box(DATA.as_ptr() as *const ());
    // SAFETY: it is not: the call must fault, for data is not executable, and the exception ends the run.
    let function: fn() = unsafe { core::mem::transmute(data) };
    function();
}

#[allow(unconditional_recursion, reason = "the point of it")]
fn overflow_stack(depth: usize) -> usize {
    let room = black_box([depth; 32]);
    overflow_stack(depth + 1) + room[depth % 32]
}

fn undefined() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: raises an exception, which ends the run.
    unsafe {
        core::arch::asm!("ud2")
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: raises an exception, which ends the run.
    unsafe {
        core::arch::asm!("udf #0")
    };
}

/// An exception that cannot be delivered as itself.
fn double_fault() {
    #[cfg(target_arch = "x86_64")]
    {
        // The descriptor table ends behind the double fault's gate: the page fault has none, and the general protection
        // fault about that has none either.
        let mut table = x86_64::instructions::tables::sidt();
        table.limit = 9 * 16 - 1;
        // SAFETY: exceptions with lower numbers keep their gates; the next one with a higher number ends the run.
        unsafe { x86_64::instructions::tables::lidt(&table) };
        write_to(0x8 as *mut u8);
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a fault on the exception stack's pointer, which then points to nothing: the vector code must not use it. It ends
    // the run.
    unsafe {
        core::arch::asm!("msr spsel, #1", "mov sp, #16", "str xzr, [sp]", options(noreturn))
    };
}

/// Fails while the other CPUs do not wait for anything.
fn panic_while_others_run() {
    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    cpu::run_on_others(|_| {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        loop {
            cpu::turn();
        }
    });
    while RUNNING.load(Ordering::Relaxed) + 1 < cpu::online() {
        cpu::relax();
    }
    panic!("asked for by debug=panic-busy");
}

/// Fails as the command line asks; returns when it asks for nothing.
pub(crate) fn run(machine: &'static Machine) {
    let line = machine.boot.cmdline;
    let Some(kind) = cmdline::get(line, "debug") else { return };
    if kind == "queues" {
        return queues::run(machine);
    }
    let Some(chosen) = KINDS.iter().position(|(name, _)| *name == kind) else {
        log::error!("debug={kind}: no such failure");
        return;
    };
    let on = cmdline::get(line, "debug-cpu").and_then(|value| value.parse().ok()).unwrap_or(0);
    CHOSEN.store(chosen, Ordering::Relaxed);
    CHOSEN_CPU.store(on, Ordering::Relaxed);
    if on == 0 {
        KINDS[chosen].1();
    } else {
        cpu::run_on_others(fail_here);
        loop {
            cpu::wait_for_interrupt(None);
        }
    }
}

fn fail_here(id: usize) -> ! {
    if id == CHOSEN_CPU.load(Ordering::Relaxed) {
        KINDS[CHOSEN.load(Ordering::Relaxed)].1();
    }
    loop {
        cpu::wait_for_interrupt(None);
    }
}

/// Rounds of wake-ups to and fro.
const ROUNDS: usize = 20_000;
/// A wait that ends later than this was ended by its deadline: the wake-up was lost.
const LOST_NS: u64 = 2_000_000_000;

static ASKED: AtomicUsize = AtomicUsize::new(0);
static ANSWERED: AtomicUsize = AtomicUsize::new(0);

/// Waits for deadlines, then lets CPU 1 answer wake-ups, and powers off with the verdict.
fn wake_test() {
    let mut early = 0;
    for us in [1, 10, 50, 100, 500, 1000, 5000, 20_000] {
        let begin = clock::now_ns();
        let deadline = begin + us * 1000;
        while clock::now_ns() < deadline {
            cpu::wait_for_interrupt(Some(deadline));
            early += usize::from(clock::now_ns() < deadline);
        }
        announce!("wait of {us} us took {} us", (clock::now_ns() - begin) / 1000);
    }
    let mut lost = 0;
    if cpu::online() > 1 {
        cpu::run_on_others(answer);
        let begin = clock::now_ns();
        for round in 1..=ROUNDS {
            ASKED.store(round, Ordering::Release);
            cpu::wake(1);
            let deadline = clock::now_ns() + LOST_NS;
            while ANSWERED.load(Ordering::Acquire) != round {
                cpu::wait_for_interrupt(Some(deadline));
                if clock::now_ns() >= deadline {
                    lost += 1;
                    break;
                }
            }
            if lost > 0 {
                break;
            }
        }
        announce!("{ROUNDS} wake-ups to and fro: {} ns each, {lost} lost", (clock::now_ns() - begin) / ROUNDS as u64);
    }
    announce!("waits that ended early: {early}; wake test {}", if lost == 0 { "passed" } else { "failed" });
    power::exit(if lost == 0 { ExitStatus::Success } else { ExitStatus::Failure(1) });
}

fn answer(id: usize) -> ! {
    loop {
        let asked = ASKED.load(Ordering::Acquire);
        if id == 1 && asked != ANSWERED.load(Ordering::Relaxed) {
            ANSWERED.store(asked, Ordering::Release);
            cpu::wake(0);
        }
        cpu::wait_for_interrupt(None);
    }
}
