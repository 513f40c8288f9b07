//! The end of a run that went wrong: what happened, where, and out.

use crate::{arch, cmdline, console, cpu, power};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Deepest backtrace, in frames.
const MAX_FRAMES: usize = 48;

/// The exit status of a panic and of an unexpected exception.
pub const STATUS: u8 = 101;

/// The CPU that failed first.
static PANICKING: AtomicUsize = AtomicUsize::new(NOBODY);
const NOBODY: usize = usize::MAX;
/// The set of CPUs that stopped because another one failed. A CPU may come to stop twice.
static STOPPED: AtomicU64 = AtomicU64::new(0);
const _: () = assert!(cpu::MAX_CPUS <= 64);
/// How long they are waited for, by the clock and, should that stand still, by looks.
const STOP_NS: u64 = 100_000_000;
const STOP_LOOKS: usize = 100_000_000;
static REBOOT: AtomicBool = AtomicBool::new(false);

/// Claims the console for the CPU that fails first, and stops the others: what they would still do, on data that are not to be
/// trusted, nobody should see. Another CPU that comes here meanwhile waits for the end of the machine; the same CPU
/// failing again while it reports leaves at once.
pub(crate) fn claim() {
    let me = cpu::id();
    match PANICKING.compare_exchange(NOBODY, me, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => stop_others(me),
        Err(other) if other == me => {
            console::emergency(format_args!("\nfailed again while reporting\n"));
            leave();
        }
        Err(_) => stop(),
    }
}

/// Stops this CPU when another one has failed.
#[inline]
pub(crate) fn stop_if_over() {
    if PANICKING.load(Ordering::Relaxed) != NOBODY && PANICKING.load(Ordering::Relaxed) != cpu::id() {
        stop();
    }
}

#[cold]
fn stop() -> ! {
    STOPPED.fetch_or(1 << cpu::id(), Ordering::AcqRel);
    loop {
        arch::cpu::halt();
    }
}

fn stopped() -> usize {
    STOPPED.load(Ordering::Acquire).count_ones() as usize
}

fn stop_others(me: usize) {
    let online = cpu::online();
    if online == 1 {
        return;
    }
    (0..online).filter(|id| *id != me).for_each(arch::cpu::stop);
    let limit = arch::time::now_ns() + STOP_NS;
    for _ in 0..STOP_LOOKS {
        if stopped() >= online - 1 || arch::time::now_ns() > limit {
            break;
        }
        arch::cpu::relax();
    }
    console::emergency(format_args!("\n{} of {} other CPUs stopped\n", stopped(), online - 1));
}

/// Prints return addresses, innermost first, and how to turn them into lines.
pub(crate) fn print_backtrace(walk: impl FnOnce(&mut dyn FnMut(usize))) {
    console::emergency(format_args!("backtrace:"));
    let mut frames = 0;
    walk(&mut |address| {
        if frames < MAX_FRAMES {
            console::emergency(format_args!(" {address:#x}"));
        }
        frames += 1;
    });
    console::emergency(format_args!("\n(scripts/symbolize turns these addresses into functions and lines)\n"));
}

/// Powers off with a failing status, or resets when the command line says `panic=reboot`.
pub(crate) fn leave() -> ! {
    if REBOOT.load(Ordering::Relaxed) {
        power::reset();
    }
    power::exit(power::ExitStatus::Failure(STATUS))
}

/// Reads `panic=reboot`.
pub(crate) fn init(line: &str) {
    REBOOT.store(cmdline::get(line, "panic") == Some("reboot"), Ordering::Relaxed);
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    claim();
    console::emergency(format_args!("\nCPU {}: {info}\n", cpu::id()));
    print_backtrace(|frame| arch::cpu::backtrace(frame));
    leave()
}
