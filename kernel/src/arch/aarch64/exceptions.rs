//! The vector table, and what an exception reports. All exceptions are fatal: nothing is paged in on demand, and interrupts
//! are taken by asking the interrupt controller after a halt ([`super::cpu::wait_for_interrupt`]), never as exceptions.

use super::{cpu, memory, sysreg};
use crate::{console, panic, power};
use core::arch::global_asm;
use core::sync::atomic::{AtomicUsize, Ordering};

/// What the vector code saves before it calls [`report`].
#[repr(C)]
struct Frame {
    x: [u64; 31],
    /// SP_EL0, which is the kernel's stack pointer.
    sp: u64,
    elr: u64,
    spsr: u64,
}

const FRAME_BYTES: usize = size_of::<Frame>();
const _: () = assert!(FRAME_BYTES.is_multiple_of(16));

global_asm!(
    r#"
    // Entries of SPSel = 0, the kernel's normal state: SP is now the exception stack. Entries of SPSel = 1 come from the
    // reporting code itself, whose stack may be what is broken: they start again at its top.
    .macro vector kind
    .balign 128
    .if \kind >= 4 && \kind < 8
    msr     tpidr_el0, x0
    mrs     x0, tpidr_el1
    ldr     x0, [x0]
    mov     sp, x0
    mrs     x0, tpidr_el0
    .endif
    sub     sp, sp, #{frame}
    stp     x0, x1, [sp]
    mov     x0, #\kind
    b       exception_entry
    .endm

    .section .text.vectors, "ax"
    .balign 2048
    .globl __vectors
__vectors:
    vector 0
    vector 1
    vector 2
    vector 3
    vector 4
    vector 5
    vector 6
    vector 7
    vector 8
    vector 9
    vector 10
    vector 11
    vector 12
    vector 13
    vector 14
    vector 15

exception_entry:
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
    stp     x18, x19, [sp, #144]
    stp     x20, x21, [sp, #160]
    stp     x22, x23, [sp, #176]
    stp     x24, x25, [sp, #192]
    stp     x26, x27, [sp, #208]
    stp     x28, x29, [sp, #224]
    mrs     x1, sp_el0
    stp     x30, x1, [sp, #240]
    mrs     x1, elr_el1
    mrs     x2, spsr_el1
    stp     x1, x2, [sp, #256]
    mov     x1, sp
    mov     x29, xzr
    b       {report}
"#,
    frame = const FRAME_BYTES,
    report = sym report,
);

unsafe extern "C" {
    static __vectors: u8;
}

/// Makes the vector table this CPU's.
pub fn init() {
    // SAFETY: the table is the one above, aligned as VBAR_EL1 wants it.
    unsafe { sysreg::write!("vbar_el1", (&raw const __vectors) as u64) };
    sysreg::isb();
}

/// Exceptions taken while one is reported, over all CPUs: after a few the machine is switched off without another word.
static NESTED: AtomicUsize = AtomicUsize::new(0);
const MAX_NESTED: usize = 3;

/// Prints what is known of an exception and ends the run.
extern "C" fn report(kind: usize, frame: &Frame) -> ! {
    let (esr, far) = (sysreg::read!("esr_el1"), sysreg::read!("far_el1"));
    if kind >= 4 && NESTED.fetch_add(1, Ordering::Relaxed) >= MAX_NESTED {
        super::power::exit(power::ExitStatus::Failure(panic::STATUS));
    }
    panic::claim();
    let class = esr >> 26 & 0x3f;
    console::emergency(format_args!(
        "\nCPU {}: {} exception{}: {}\n",
        cpu::id(),
        ["synchronous", "IRQ", "FIQ", "SError"][kind % 4],
        ["", " while reporting another", " from a lower level", " from a 32-bit lower level"][kind / 4 % 4],
        if kind.is_multiple_of(4) { class_name(class) } else { "unexpected" },
    ));
    let abort = matches!(class, 0x20 | 0x21 | 0x24 | 0x25);
    if abort {
        let access = match (class & !1, esr >> 6 & 1) {
            (0x20, _) => "executing",
            (_, 0) => "reading",
            (_, _) => "writing",
        };
        console::emergency(format_args!(
            "{} {access} {far:#x}{}\n",
            fault_name(esr & 0x3f),
            if memory::is_guard_page(far as usize) { ", a guard page: the stack overflowed" } else { "" },
        ));
    }
    console::emergency(format_args!(
        "esr {esr:#010x}  far {far:#018x}  elr {:#018x}  spsr {:#010x}  sp {:#018x}\n",
        frame.elr, frame.spsr, frame.sp
    ));
    for (i, value) in frame.x.iter().enumerate() {
        let end = if i % 4 == 3 || i == 30 { "\n" } else { "  " };
        console::emergency(format_args!("x{i:<2} {value:#018x}{end}"));
    }
    panic::print_backtrace(|see| {
        see(frame.elr as usize);
        // A leaf function may not have pushed its return address; a duplicate does no harm.
        cpu::walk_frames(frame.x[29] as usize, see);
    });
    panic::leave()
}

/// ESR_EL1.EC in words, as far as EL1 code can cause it.
fn class_name(class: u64) -> &'static str {
    match class {
        0x00 => "undefined instruction",
        0x01 => "trapped WFI or WFE",
        0x07 => "trapped floating point or vector instruction",
        0x0d => "branch target",
        0x0e => "illegal execution state",
        0x15 => "SVC",
        0x18 => "trapped system register",
        0x19 => "trapped SVE",
        0x20 | 0x21 => "instruction abort",
        0x22 => "misaligned program counter",
        0x24 | 0x25 => "data abort",
        0x26 => "misaligned stack pointer",
        0x2c => "floating point",
        0x30 | 0x31 => "breakpoint",
        0x32 | 0x33 => "software step",
        0x34 | 0x35 => "watchpoint",
        0x3c => "BRK instruction",
        _ => "unknown class",
    }
}

/// The fault status code of an abort in words.
fn fault_name(status: u64) -> &'static str {
    match status {
        0x00..=0x03 => "address size fault",
        0x04..=0x07 => "not mapped:",
        0x08..=0x0b => "access flag fault",
        0x0c..=0x0f => "not permitted:",
        0x10 => "external abort",
        0x14..=0x17 => "external abort on a table walk",
        0x21 => "misaligned",
        _ => "fault",
    }
}
