//! The end of a run that went wrong: what happened, where, and out.

use crate::{arch, cmdline, console, cpu, power};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Deepest backtrace, in frames.
const MAX_FRAMES: usize = 48;

/// The exit status of a panic and of an unexpected exception.
pub const STATUS: u8 = 101;

static PANICKING: AtomicUsize = AtomicUsize::new(usize::MAX);
static REBOOT: AtomicBool = AtomicBool::new(false);

/// Claims the console for the CPU that fails first. Another CPU that fails meanwhile waits for the end of the machine;
/// the same CPU failing again while it reports leaves at once.
pub(crate) fn claim() {
    let me = cpu::id();
    match PANICKING.compare_exchange(usize::MAX, me, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {}
        Err(other) if other == me => {
            console::emergency(format_args!("\nfailed again while reporting\n"));
            leave();
        }
        Err(_) => loop {
            arch::cpu::halt();
        },
    }
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
