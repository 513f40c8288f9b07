//! Deliberate failures, for tests of how failures are reported: `debug=<kind>` on the command line, on the CPU that
//! `debug-cpu=` names (0 unless said).

use crate::{cmdline, cpu};
use core::hint::black_box;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Kind and function of each failure.
const KINDS: [(&str, fn()); 7] = [
    ("panic", || panic!("asked for by debug=panic")),
    ("null", || write_to(0x8 as *mut u8)),
    ("write-code", || write_to(overflow_stack as *const () as *mut u8)),
    ("write-constant", || write_to(KINDS.as_ptr() as *mut u8)),
    ("execute-data", execute_data),
    ("stack-overflow", || {
        black_box(overflow_stack(black_box(0)));
    }),
    ("undefined", undefined),
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

/// Fails as the command line asks; returns when it asks for nothing.
pub(crate) fn run(line: &str) {
    let Some(kind) = cmdline::get(line, "debug") else { return };
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
