//! The CPU's random numbers.

use super::sysreg;

/// A random number from RNDR, where the CPU has it (FEAT_RNG) and it gives one at once.
pub fn hardware() -> Option<u64> {
    if sysreg::read!("id_aa64isar0_el1") >> 60 == 0 {
        return None;
    }
    let (value, ok): (u64, u64);
    // SAFETY: the CPU has the register, S3_3_C2_C4_0; the read sets Z when no number was ready.
    unsafe {
        core::arch::asm!(
            "mrs {value}, s3_3_c2_c4_0",
            "cset {ok}, ne",
            value = out(reg) value,
            ok = out(reg) ok,
            options(nomem, nostack)
        );
    }
    (ok != 0).then_some(value)
}

/// A counter whose lowest bits depend on how long things really took.
pub fn jitter() -> u64 {
    super::time::ticks()
}
