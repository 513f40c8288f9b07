//! PSCI (ARM DEN 0022): starting CPUs and leaving the machine; semihosting for an exit status that QEMU returns.

use super::{hardware::Conduit, sysreg};
use crate::power::ExitStatus;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use smccc::{Hvc, Smc, psci};

/// 0 is none, 1 is HVC, 2 is SMC: how the firmware is called. Kept apart from the device tree's findings, since a panic
/// before those exist must be able to ask.
static CONDUIT: AtomicU8 = AtomicU8::new(0);
/// Whether somebody listens to semihosting calls; to anybody else they are undefined instructions.
static SEMIHOSTING: AtomicBool = AtomicBool::new(false);

/// Takes down what the device tree and the command line say about leaving.
pub fn init(conduit: Option<Conduit>, semihosting: bool) {
    let number = match conduit {
        None => 0,
        Some(Conduit::Hvc) => 1,
        Some(Conduit::Smc) => 2,
    };
    CONDUIT.store(number, Ordering::Relaxed);
    SEMIHOSTING.store(semihosting, Ordering::Relaxed);
}

/// Powers off. QEMU exits with 0, or, if semihosting was announced, with the status' code.
pub fn exit(status: ExitStatus) -> ! {
    if status != ExitStatus::Success && SEMIHOSTING.load(Ordering::Relaxed) {
        semihosting_exit(status.code());
    }
    let _ = match CONDUIT.load(Ordering::Relaxed) {
        1 => psci::system_off::<Hvc>(),
        2 => psci::system_off::<Smc>(),
        _ => Ok(()),
    };
    halt()
}

/// Resets the machine.
pub fn reset() -> ! {
    let _ = match CONDUIT.load(Ordering::Relaxed) {
        1 => psci::system_reset::<Hvc>(),
        2 => psci::system_reset::<Smc>(),
        _ => Ok(()),
    };
    halt()
}

/// Starts the CPU with affinity `mpidr` at physical address `entry`, MMU off, with `context` in x0.
pub fn cpu_on(mpidr: u64, entry: u64, context: u64) -> Result<(), psci::error::Error> {
    match CONDUIT.load(Ordering::Relaxed) {
        1 => psci::cpu_on::<Hvc>(mpidr, entry, context),
        2 => psci::cpu_on::<Smc>(mpidr, entry, context),
        _ => Err(psci::error::Error::NotSupported),
    }
}

/// Stops this CPU for good.
pub fn halt() -> ! {
    loop {
        sysreg::wfi();
    }
}

/// SYS_EXIT_EXTENDED (semihosting for AArch64, operation 0x20) with ADP_Stopped_ApplicationExit.
fn semihosting_exit(code: u8) {
    let block: [u64; 2] = [0x20026, code.into()];
    // SAFETY: the command line said that semihosting is there; the call reads the block and does not return.
    unsafe {
        core::arch::asm!("hlt #0xf000", inout("x0") 0x20u64 => _, in("x1") block.as_ptr(), options(nostack, readonly));
    }
}
