//! memcpy, memmove, memset, memcmp and bcmp, which compiled code calls by name. The ones that come with the compiler go byte
//! by byte for short and for misaligned ranges; these use overlapping accesses of up to 32 bytes, so that a 16-byte copy
//! takes 8 instructions and a long one 6 for each 64 bytes. Vector registers are free: nothing interrupts kernel code.
//!
//! They are for Normal memory, where accesses need not be aligned; device memory is accessed through volatile registers.

use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.bytes, "ax"
    .balign 64
    .globl memcpy
    .globl memmove
    // x0 to, x1 from, x2 length; x0 is kept for the result. Up to 128 bytes everything is loaded before anything is
    // stored, so overlap does not matter.
memcpy:
memmove:
    add     x4, x1, x2
    add     x5, x0, x2
    cmp     x2, #16
    b.lo    2f
    cmp     x2, #32
    b.hi    1f
    ldr     q0, [x1]
    ldur    q1, [x4, #-16]
    str     q0, [x0]
    stur    q1, [x5, #-16]
    ret
1:  cmp     x2, #64
    b.hi    5f
    ldp     q0, q1, [x1]
    ldp     q2, q3, [x4, #-32]
    stp     q0, q1, [x0]
    stp     q2, q3, [x5, #-32]
    ret
2:  tbz     x2, #3, 3f
    ldr     x6, [x1]
    ldur    x7, [x4, #-8]
    str     x6, [x0]
    stur    x7, [x5, #-8]
    ret
3:  tbz     x2, #2, 4f
    ldr     w6, [x1]
    ldur    w7, [x4, #-4]
    str     w6, [x0]
    stur    w7, [x5, #-4]
    ret
4:  cbz     x2, 9f
    lsr     x8, x2, #1
    ldrb    w6, [x1]
    ldrb    w9, [x1, x8]
    ldurb   w7, [x4, #-1]
    strb    w6, [x0]
    strb    w9, [x0, x8]
    sturb   w7, [x5, #-1]
9:  ret
5:  cmp     x2, #128
    b.hi    6f
    ldp     q0, q1, [x1]
    ldp     q2, q3, [x1, #32]
    ldp     q4, q5, [x4, #-64]
    ldp     q6, q7, [x4, #-32]
    stp     q0, q1, [x0]
    stp     q2, q3, [x0, #32]
    stp     q4, q5, [x5, #-64]
    stp     q6, q7, [x5, #-32]
    ret
    // Long: towards the end unless that would overwrite what is still to be read. The last (first) 64 bytes are loaded
    // before the loop and stored after it, and may overlap it.
6:  sub     x6, x0, x1
    cmp     x6, x2
    b.lo    8f
    ldp     q16, q17, [x4, #-64]
    ldp     q18, q19, [x4, #-32]
    mov     x3, x0
    sub     x2, x2, #64
7:  ldp     q2, q3, [x1, #32]
    ldp     q0, q1, [x1], #64
    subs    x2, x2, #64
    stp     q2, q3, [x3, #32]
    stp     q0, q1, [x3], #64
    b.hi    7b
    stp     q16, q17, [x5, #-64]
    stp     q18, q19, [x5, #-32]
    ret
8:  cbz     x6, 9b
    ldp     q16, q17, [x1]
    ldp     q18, q19, [x1, #32]
    sub     x2, x2, #64
7:  ldp     q2, q3, [x4, #-32]
    ldp     q0, q1, [x4, #-64]!
    subs    x2, x2, #64
    stp     q2, q3, [x5, #-32]
    stp     q0, q1, [x5, #-64]!
    b.hi    7b
    stp     q16, q17, [x0]
    stp     q18, q19, [x0, #32]
    ret

    .balign 64
    .globl memset
    // x0 to, w1 byte, x2 length.
memset:
    dup     v0.16b, w1
    add     x5, x0, x2
    cmp     x2, #16
    b.lo    2f
    str     q0, [x0]
    stur    q0, [x5, #-16]
    cmp     x2, #32
    b.ls    9f
    str     q0, [x0, #16]
    stur    q0, [x5, #-32]
    cmp     x2, #64
    b.ls    9f
    stp     q0, q0, [x0, #32]
    stp     q0, q0, [x5, #-64]
    // The first 64 and the last 64 bytes are done; between them by 64.
    add     x3, x0, #64
    subs    x2, x2, #128
    b.ls    9f
1:  stp     q0, q0, [x3, #32]
    stp     q0, q0, [x3], #64
    subs    x2, x2, #64
    b.hi    1b
9:  ret
2:  tbz     x2, #3, 3f
    str     d0, [x0]
    stur    d0, [x5, #-8]
    ret
3:  tbz     x2, #2, 4f
    str     s0, [x0]
    stur    s0, [x5, #-4]
    ret
4:  cbz     x2, 9b
    strb    w1, [x0]
    tbz     x2, #1, 9b
    stur    h0, [x5, #-2]
    ret

    .balign 64
    .globl memcmp
    .globl bcmp
    // x0, x1, x2 length. The first difference decides, as big-endian numbers of what was loaded.
memcmp:
bcmp:
    cmp     x2, #8
    b.lo    4f
    add     x8, x0, x2
    add     x9, x1, x2
    subs    x2, x2, #16
    b.ls    2f
1:  ldp     x4, x6, [x0], #16
    ldp     x5, x7, [x1], #16
    cmp     x4, x5
    ccmp    x6, x7, #0, eq
    b.ne    5f
    subs    x2, x2, #16
    b.hi    1b
    // The last 16 bytes, or all 8 to 16.
2:  cmn     x2, #8
    b.le    3f
    ldr     x4, [x0]
    ldr     x5, [x1]
    cmp     x4, x5
    b.ne    6f
3:  ldur    x4, [x8, #-8]
    ldur    x5, [x9, #-8]
    cmp     x4, x5
    b.ne    6f
    mov     w0, #0
    ret
4:  cbz     x2, 7f
8:  ldrb    w4, [x0], #1
    ldrb    w5, [x1], #1
    subs    w3, w4, w5
    b.ne    7f
    subs    x2, x2, #1
    b.ne    8b
    mov     w3, #0
7:  cmp     x2, #0
    csel    w0, w3, wzr, ne
    ret
5:  cmp     x4, x5
    csel    x4, x4, x6, ne
    csel    x5, x5, x7, ne
6:  rev     x4, x4
    rev     x5, x5
    cmp     x4, x5
    mov     w0, #1
    cneg    w0, w0, lo
    ret
"#
);
