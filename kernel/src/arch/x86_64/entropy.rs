//! The CPU's random numbers.

use super::cpu;
use core::arch::asm;

/// A word from RDSEED or, without it, RDRAND. `None` when there is neither or they do not deliver.
pub fn hardware() -> Option<u64> {
    const ATTEMPTS: usize = 16;
    let features = cpu::features();
    let seed = || {
        let (value, valid): (u64, u8);
        // SAFETY: the instruction is there by CPUID.
        unsafe { asm!("rdseed {}", "setc {}", out(reg) value, out(reg_byte) valid, options(nomem, nostack)) };
        (valid != 0).then_some(value)
    };
    let random = || {
        let (value, valid): (u64, u8);
        // SAFETY: the instruction is there by CPUID.
        unsafe { asm!("rdrand {}", "setc {}", out(reg) value, out(reg_byte) valid, options(nomem, nostack)) };
        (valid != 0).then_some(value)
    };
    let seeded = if features.rdseed { (0..ATTEMPTS).find_map(|_| seed()) } else { None };
    seeded.or_else(|| if features.rdrand { (0..ATTEMPTS).find_map(|_| random()) } else { None })
}

/// The time stamp counter, whose low bits jitter.
pub fn jitter() -> u64 {
    super::time::ticks()
}
