//! System registers and barriers.

/// Reads a system register by name.
macro_rules! read {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading a system register that EL1 may read changes nothing that Rust code relies on.
        unsafe {
            core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nomem, nostack, preserves_flags))
        };
        value
    }};
}

/// Writes a system register by name. The caller is in an unsafe block that says why the new value is sound.
macro_rules! write {
    ($name:literal, $value:expr) => {{
        let value: u64 = $value;
        core::arch::asm!(concat!("msr ", $name, ", {}"), in(reg) value, options(nostack, preserves_flags))
    }};
}

pub(super) use {read, write};

/// Defines functions for instructions that only order other instructions or say that the CPU has nothing to do.
macro_rules! harmless {
    ($($(#[$doc:meta])* $name:ident = $instruction:literal;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name() {
            // SAFETY: the instruction has no effect on registers or memory; the compiler moves no memory access over it.
            unsafe { core::arch::asm!($instruction, options(nostack, preserves_flags)) };
        }
    )* };
}

harmless! {
    /// What was done to system registers is seen by the instructions after it.
    isb = "isb";
    /// All memory accesses before it are complete, for the whole system.
    dsb_sy = "dsb sy";
    /// Stores before it are complete for the inner shareable domain: table walks of all CPUs see them.
    dsb_ishst = "dsb ishst";
    /// Accesses before it are complete for the inner shareable domain.
    dsb_ish = "dsb ish";
    /// Waits until an interrupt is pending, masked or not.
    wfi = "wfi";
    /// A hint inside a spin.
    spin_hint = "yield";
}

/// Makes all CPUs forget their translations for the upper half, after what was stored to the tables.
pub fn forget_translations() {
    // SAFETY: the tables say what is to be used; forgetting costs time and nothing else.
    unsafe {
        core::arch::asm!("dsb ishst", "tlbi vmalle1is", "dsb ish", "isb", options(nostack, preserves_flags));
    }
}

/// Cleans the data cache lines of a range to the point of coherency, for a reader whose MMU and caches are off.
pub fn clean_to_memory(start: *const u8, bytes: usize) {
    let line = 4usize << (read!("ctr_el0") >> 16 & 0xf);
    let mut at = start as usize & !(line - 1);
    while at < start as usize + bytes {
        // SAFETY: cleaning writes back what is in the cache already; the range is memory of a live object.
        unsafe { core::arch::asm!("dc cvac, {}", in(reg) at, options(nostack, preserves_flags)) };
        at += line;
    }
    dsb_sy();
}
