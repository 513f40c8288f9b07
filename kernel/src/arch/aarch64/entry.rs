//! From the boot loader's jump to the first Rust function.
//!
//! The image starts with the header of the Linux boot protocol for arm64 (Documentation/arch/arm64/booting.rst), so that
//! QEMU and other loaders hand over the device tree in x0. The code here runs with the MMU off, at EL1 or EL2, at whatever
//! 2 MiB-aligned physical address the loader chose: it leaves EL2, makes six page tables (one identity-mapped 2 MiB block
//! of the image for the moment of the switch, the image in the higher half, and a window on the device tree), turns the
//! MMU and the caches on, and calls [`super::start`] on the boot stack. The lasting tables, with each section's own
//! rights, are made in Rust ([`super::memory`]).
//!
//! The kernel runs with SPSel = 0: SP is SP_EL0, and every exception switches to SP_EL1, a small stack of its own. So an
//! overflow of the kernel's stack is reported from a sound stack, without any test at exception entry.

use core::arch::global_asm;

/// Where the image is linked: the last 2 GiB of the address space, so that code may use the small code model.
pub const IMAGE_BASE: usize = 0xffff_ffff_8000_0000;
/// The window through which the device tree is read before the lasting tables exist.
pub const DTB_WINDOW: usize = 0xffff_ffff_c000_0000;
/// How much of the device tree the window covers at least: the most that the boot protocol allows.
pub const DTB_MAX_BYTES: usize = 2 << 20;
/// The boot CPU's stack. Its guard page lies below it in the linker script's order.
pub const BOOT_STACK_BYTES: usize = 256 << 10;
/// An exception stack: a register dump with its formatting takes less than half of it.
pub const EXCEPTION_STACK_BYTES: usize = 16 << 10;

/// MAIR_EL1: attribute 0 is Device-nGnRE, 1 is Normal non-cacheable, 2 is Normal write-back.
pub const MAIR: u64 = 0x00ff_4404;
/// TCR_EL1 without the physical address size: 48-bit halves of 4 KiB granules, walks cached and inner shareable.
pub const TCR: u64 =
    16 | 16 << 16 | 0b10 << 30 | 0b01 << 8 | 0b01 << 10 | 0b11 << 12 | 0b01 << 24 | 0b01 << 26 | 0b11 << 28;
/// TCR_EL1.EPD0: no walks for the lower half.
pub const TCR_EPD0: u64 = 1 << 7;
/// SCTLR_EL1 with the MMU off: the bits that are one in every version, and little-endian accesses.
const SCTLR_OFF: u64 = 1 << 11 | 1 << 20 | 1 << 22 | 1 << 28 | 1 << 29;
/// SCTLR_EL1 with the MMU, both caches and the stack alignment check on. SPAN is zero: exceptions set PAN.
pub const SCTLR_ON: u64 = SCTLR_OFF | 1 | 1 << 2 | 1 << 3 | 1 << 12;
/// SCTLR_EL1.WXN: whatever is writable does not execute.
pub const SCTLR_WXN: u64 = 1 << 19;

/// A 2 MiB block of Normal memory, inner shareable, accessed, not for EL0; executable and writable for the short time of boot.
const BOOT_BLOCK: u64 = 0b01 | 2 << 2 | 0b11 << 8 | 1 << 10 | 1 << 54;
/// The same, read-only and never executable.
const BOOT_BLOCK_RO: u64 = BOOT_BLOCK | 1 << 7 | 1 << 53;

global_asm!(
    r#"
    .section .head.text, "ax"
    .globl _head
_head:
    b       _start
    .long   0
    .quad   0                       // text_offset: directly on the 2 MiB boundary
    .quad   __image_end - _head     // image_size, with what is not in the file
    .quad   0xa                     // little-endian, 4 KiB pages, anywhere in memory
    .quad   0, 0, 0
    .ascii  "ARM\x64"
    .long   0

    .globl _start
_start:
    mov     x20, x0                 // the device tree
    msr     tpidrro_el0, xzr        // CPU 0
    bl      leave_el2
    adrp    x21, _head              // where the image lies
    tst     x21, #0x1fffff
    b.ne    park                    // not what the protocol promises, and nobody to tell

    // Six tables: identity L0, L1, L2, then the higher half's L0, L1, L2 of the image; the device tree's L2 is a seventh.
    adrp    x22, __boot_tables
    mov     x0, x22
    add     x1, x22, #7 * 4096
1:  stp     xzr, xzr, [x0], #16
    stp     xzr, xzr, [x0], #16
    stp     xzr, xzr, [x0], #16
    stp     xzr, xzr, [x0], #16
    cmp     x0, x1
    b.lo    1b

    // Identity: one block, the one that holds switch_on.
    adrp    x0, switch_on
    ubfx    x1, x0, #39, #9
    add     x2, x22, #1 * 4096
    orr     x2, x2, #3
    str     x2, [x22, x1, lsl #3]
    ubfx    x1, x0, #30, #9
    add     x3, x22, #1 * 4096
    add     x2, x22, #2 * 4096
    orr     x4, x2, #3
    str     x4, [x3, x1, lsl #3]
    ubfx    x1, x0, #21, #9
    ldr     x5, ={block}
    and     x0, x0, #~0x1fffff
    orr     x0, x0, x5
    str     x0, [x2, x1, lsl #3]

    // The image, block by block.
    add     x1, x22, #3 * 4096
    add     x2, x22, #4 * 4096
    orr     x3, x2, #3
    str     x3, [x1, #511 * 8]
    add     x1, x22, #5 * 4096
    orr     x3, x1, #3
    str     x3, [x2, #510 * 8]
    adrp    x3, __image_end
    orr     x0, x21, x5
    sub     x3, x3, x21
    mov     x6, #0x200000
2:  str     x0, [x1], #8
    add     x0, x0, x6
    subs    x3, x3, x6
    b.hi    2b

    // The device tree: the block it starts in and the one after.
    add     x1, x22, #6 * 4096
    orr     x3, x1, #3
    str     x3, [x2, #511 * 8]
    ldr     x5, ={block_ro}
    and     x0, x20, #~0x1fffff
    orr     x0, x0, x5
    str     x0, [x1]
    add     x0, x0, x6
    str     x0, [x1, #8]

    // The tables were written past the caches; what those may hold of the same lines is stale.
    dmb     sy
    mrs     x0, ctr_el0
    ubfx    x0, x0, #16, #4
    mov     x1, #4
    lsl     x1, x1, x0
    mov     x0, x22
    add     x2, x22, #7 * 4096
3:  dc      ivac, x0
    add     x0, x0, x1
    cmp     x0, x2
    b.lo    3b
    dsb     sy

    mov     x0, x22
    add     x1, x22, #3 * 4096
    ldr     x30, =__high_start
    b       switch_on

    // In the higher half: a stack, the exception stack, zeroed .bss.
    .globl __high_start
__high_start:
    msr     spsel, #1
    ldr     x0, =__exception_stack_end
    mov     sp, x0
    msr     spsel, #0
    ldr     x0, =__boot_stack_end
    mov     sp, x0
    ldr     x0, =__bss_start
    ldr     x1, =__bss_end
4:  cmp     x0, x1
    b.hs    5f
    stp     xzr, xzr, [x0], #16
    stp     xzr, xzr, [x0], #16
    b       4b
5:  mov     x29, xzr                // backtraces end here
    mov     x30, xzr
    mov     x0, x20
    mov     x1, x21
    mov     x2, x23
    b       {start}

    // A further CPU, from PSCI's CPU_ON: x0 is the physical address of its `SecondaryStart`.
    .globl __secondary_start
__secondary_start:
    mov     x20, x0
    bl      leave_el2
    ldp     x0, x1, [x20]           // the boot CPU's tables, cleaned to memory for this
    ldr     x20, [x20, #16]         // the higher half's address of its `PerCpu`
    ldr     x30, =__secondary_high
    b       switch_on
__secondary_high:
    ldp     x0, x1, [x20]           // exception stack, stack
    msr     spsel, #1
    mov     sp, x0
    msr     spsel, #0
    mov     sp, x1
    mov     x29, xzr
    mov     x30, xzr
    mov     x0, x20
    b       {secondary}

    // MMU and caches on with the tables x0 (lower half) and x1 (higher half), then to x30 in the higher half.
switch_on:
    ldr     x2, ={mair}
    msr     mair_el1, x2
    ldr     x2, ={tcr}
    mrs     x3, id_aa64mmfr0_el1
    and     x3, x3, #0xf            // the physical address size, of which 48 bits can be used with 4 KiB granules
    mov     x4, #5
    cmp     x3, x4
    csel    x3, x3, x4, lo
    bfi     x2, x3, #32, #3
    msr     tcr_el1, x2
    msr     ttbr0_el1, x0
    msr     ttbr1_el1, x1
    mov     x2, #3 << 20            // floating point and vectors do not trap
    msr     cpacr_el1, x2
    isb
    tlbi    vmalle1
    ic      iallu
    dsb     nsh
    isb
    ldr     x2, ={sctlr}
    msr     sctlr_el1, x2
    isb
    ret

    // Other tables for the upper half, x0; called at its physical address, for nothing of the upper half is mapped between
    // the two: translations of different sizes for one address must never meet in the TLB. Changes x1 and x2.
    .globl __replace_tables
__replace_tables:
    mrs     x1, tcr_el1
    orr     x2, x1, #1 << 23        // EPD1: no walks for the upper half
    msr     tcr_el1, x2
    isb
    tlbi    vmalle1
    dsb     nsh
    isb
    msr     ttbr1_el1, x0
    isb
    msr     tcr_el1, x1
    isb
    ret

    // To EL1 with the MMU off and all interrupts masked; x23 is the exception level the CPU was in.
leave_el2:
    msr     daifset, #0xf
    ldr     x0, ={sctlr_off}
    mrs     x23, currentel
    lsr     x23, x23, #2
    cmp     x23, #2
    b.eq    1f
    msr     sctlr_el1, x0
    isb
    ret
1:  msr     sctlr_el1, x0
    mov     x0, #1 << 31            // EL1 is AArch64; nothing is trapped or routed to EL2
    msr     hcr_el2, x0
    isb
    mov     x0, #3                  // timers and counters are EL1's
    msr     cnthctl_el2, x0
    msr     cntvoff_el2, xzr
    mov     x0, #0x33ff             // no traps of floating point
    msr     cptr_el2, x0
    msr     hstr_el2, xzr
    mrs     x0, midr_el1
    msr     vpidr_el2, x0
    mrs     x0, mpidr_el1
    msr     vmpidr_el2, x0
    msr     vttbr_el2, xzr
    mrs     x0, mdcr_el2
    and     x0, x0, #0x1f           // performance counters are EL1's, nothing of debugging is trapped
    msr     mdcr_el2, x0
    mrs     x0, id_aa64pfr0_el1
    ubfx    x0, x0, #24, #4
    cbz     x0, 2f
    mrs     x0, s3_4_c12_c9_5       // ICC_SRE_EL2: EL1 may use the GICv3 system registers
    orr     x0, x0, #8
    orr     x0, x0, #1
    msr     s3_4_c12_c9_5, x0
    isb
    msr     s3_4_c12_c11_0, xzr     // ICH_HCR_EL2
2:  mov     x0, #0x3c4              // to EL1t, everything masked
    msr     spsr_el2, x0
    msr     elr_el2, x30
    eret

park:
    wfe
    b       park
"#,
    block = const BOOT_BLOCK,
    block_ro = const BOOT_BLOCK_RO,
    mair = const MAIR,
    tcr = const TCR,
    sctlr = const SCTLR_ON,
    sctlr_off = const SCTLR_OFF,
    start = sym super::start,
    secondary = sym super::cpu::secondary_entry,
);
