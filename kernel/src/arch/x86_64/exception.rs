//! The interrupt descriptor table, CPU exceptions and the way of device interrupts to their handlers.
//!
//! Every exception is fatal: nothing here faults on purpose. Exceptions run on a stack of their own, so that one caused by a
//! stack that ran over its guard page can be reported.

use super::{cpu, irq, paging};
use crate::console::emergency;
use crate::panic;
use core::arch::global_asm;
use x86_64::VirtAddr;
use x86_64::registers::control::{Cr0, Cr2, Cr3, Cr4};
use x86_64::structures::DescriptorTablePointer;

/// The entry of the interrupt stack table that exceptions use.
pub const STACK_INDEX: u16 = 0;

/// A gate of the table (Intel SDM volume 3, 6.14.1).
#[derive(Clone, Copy)]
#[repr(C)]
struct Gate([u64; 2]);

static mut TABLE: [Gate; 256] = [Gate([0; 2]); 256];

impl Gate {
    /// An interrupt gate, which masks interrupts, on stack `ist` (0: the one in use).
    fn new(handler: u64, ist: u64) -> Self {
        let low = handler & 0xffff | 8 << 16 | ist << 32 | 0x8e00 << 32 | (handler >> 16 & 0xffff) << 48;
        Self([low, handler >> 32])
    }
}

// One stub of 16 bytes per vector. Exceptions 8, 10 to 14, 17, 21, 29 and 30 bring an error code; the others get a zero.
// Interrupt stubs save what a Rust function may change, and no vector state: see the crate's rule on interrupts.
global_asm!(
    r#"
    .pushsection .text, "ax", @progbits
    .balign 16
    .global vector_stubs
vector_stubs:
    .set vector, 0
    .rept 32
    .balign 16
    .if ((1 << vector) & 0x60227d00) == 0
    .byte 0x6a, 0
    .endif
    .byte 0x6a, vector
    jmp exception_common
    .set vector, vector + 1
    .endr
    .rept 224
    .balign 16
    .byte 0x68
    .long vector
    jmp interrupt_common
    .set vector, vector + 1
    .endr

exception_common:
    push r15
    push r14
    push r13
    push r12
    push r11
    push r10
    push r9
    push r8
    push rdi
    push rsi
    push rbp
    push rbx
    push rdx
    push rcx
    push rax
    mov rdi, rsp
    cld
    and rsp, -16
    call {exception}
    ud2

interrupt_common:
    push rax
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
    mov edi, [rsp + 72]
    sub rsp, 8
    cld
    call {interrupt}
    add rsp, 8
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rax
    add rsp, 8
    iretq
    .popsection
"#,
    exception = sym exception,
    interrupt = sym irq::interrupt,
);

unsafe extern "C" {
    static vector_stubs: u8;
}

/// Fills the table, which all CPUs share.
pub(super) fn init() {
    let stubs = &raw const vector_stubs as u64;
    for vector in 0..256 {
        let stack = if vector < 32 { u64::from(STACK_INDEX) + 1 } else { 0 };
        // SAFETY: runs once, on the boot CPU, before any CPU has loaded the table.
        unsafe { TABLE[vector as usize] = Gate::new(stubs + 16 * vector, stack) };
    }
}

/// Loads the table on this CPU.
pub(super) fn load() {
    let pointer = DescriptorTablePointer { limit: 4095, base: VirtAddr::new(&raw const TABLE as u64) };
    // SAFETY: TABLE is filled and never changes again.
    unsafe { x86_64::instructions::tables::lidt(&pointer) };
}

/// What the stubs leave on the stack, lowest address first.
#[repr(C)]
struct Frame {
    registers: [u64; 15],
    vector: u64,
    error: u64,
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

const REGISTERS: [&str; 15] =
    ["rax", "rcx", "rdx", "rbx", "rbp", "rsi", "rdi", "r8 ", "r9 ", "r10", "r11", "r12", "r13", "r14", "r15"];
const RBP: usize = 4;

const NAMES: [&str; 22] = [
    "divide error",
    "debug",
    "non-maskable interrupt",
    "breakpoint",
    "overflow",
    "bound range exceeded",
    "invalid opcode",
    "device not available",
    "double fault",
    "coprocessor segment overrun",
    "invalid TSS",
    "segment not present",
    "stack segment fault",
    "general protection fault",
    "page fault",
    "reserved",
    "x87 floating point error",
    "alignment check",
    "machine check",
    "SIMD floating point error",
    "virtualization exception",
    "control protection fault",
];

const PAGE_FAULT: u64 = 14;

/// Tells what happened and ends the run.
extern "C" fn exception(frame: &Frame) -> ! {
    panic::claim();
    let name = NAMES.get(frame.vector as usize).unwrap_or(&"reserved");
    emergency(format_args!("\nCPU {}: exception {} ({name}), error {:#x}", cpu::id(), frame.vector, frame.error));
    if frame.vector == PAGE_FAULT {
        let what = match frame.error {
            e if e & 16 != 0 => "execution",
            e if e & 2 != 0 => "write",
            _ => "read",
        };
        let why = if frame.error & 1 != 0 { "not allowed" } else { "not mapped" };
        let at = Cr2::read_raw();
        emergency(format_args!(": {what} at {at:#x}, {why}"));
        if let Some(id) = paging::guarded_cpu(at) {
            emergency(format_args!(": stack overflow of CPU {id}"));
        }
    }
    emergency(format_args!("\nrip {:#018x} rsp {:#018x} flags {:#x}\n", frame.rip, frame.rsp, frame.rflags));
    for (i, (name, value)) in REGISTERS.iter().zip(frame.registers).enumerate() {
        emergency(format_args!("{name} {value:#018x}{}", if i % 4 == 3 || i == 14 { "\n" } else { " " }));
    }
    emergency(format_args!(
        "cr0 {:#x} cr2 {:#x} cr3 {:#x} cr4 {:#x}\n",
        Cr0::read_raw(),
        Cr2::read_raw(),
        Cr3::read_raw().0.start_address().as_u64(),
        Cr4::read_raw()
    ));
    panic::print_backtrace(|f| {
        f(frame.rip as usize);
        cpu::walk(frame.registers[RBP], f);
    });
    panic::leave()
}
