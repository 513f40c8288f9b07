//! `memcpy`, `memmove`, `memset`, `memcmp` and `bcmp`, which compiled code calls.
//!
//! The compiler's own versions for this target are `rep` instructions, which an emulator runs byte by byte and real CPUs
//! start slowly: a copy of 15 bytes costs more than 30 steps. These load everything before they store anything up to 128
//! bytes, in overlapping pieces, and go through SSE registers, which no other code of this target uses and no interrupt
//! handler touches.

use core::arch::global_asm;

// Host tests keep the C library's functions beside these.
#[cfg(not(test))]
macro_rules! prefix {
    () => {
        ""
    };
}
#[cfg(test)]
macro_rules! prefix {
    () => {
        "barium_"
    };
}

macro_rules! function {
    ($name:literal) => {
        concat!(".balign 16\n.global ", prefix!(), $name, "\n", prefix!(), $name, ":\n")
    };
}

// rdi = destination, rsi = source, rdx = bytes; returns the destination.
global_asm!(
    ".pushsection .text.hot.mem, \"ax\", @progbits",
    function!("memcpy"),
    function!("memmove"),
    r#"
    mov rax, rdi
    cmp rdx, 16
    jb 20f
    movups xmm0, [rsi]
    movups xmm1, [rsi + rdx - 16]
    cmp rdx, 32
    ja 10f
    movups [rdi], xmm0
    movups [rdi + rdx - 16], xmm1
    ret
10: movups xmm2, [rsi + 16]
    movups xmm3, [rsi + rdx - 32]
    cmp rdx, 64
    ja 11f
    movups [rdi], xmm0
    movups [rdi + 16], xmm2
    movups [rdi + rdx - 32], xmm3
    movups [rdi + rdx - 16], xmm1
    ret
11: movups xmm4, [rsi + 32]
    movups xmm5, [rsi + 48]
    movups xmm6, [rsi + rdx - 64]
    movups xmm7, [rsi + rdx - 48]
    cmp rdx, 128
    ja 12f
    movups [rdi], xmm0
    movups [rdi + 16], xmm2
    movups [rdi + 32], xmm4
    movups [rdi + 48], xmm5
    movups [rdi + rdx - 64], xmm6
    movups [rdi + rdx - 48], xmm7
    movups [rdi + rdx - 32], xmm3
    movups [rdi + rdx - 16], xmm1
    ret
    // More than 128 bytes: the first and the last 64 are in registers. Forwards, unless the destination begins inside the
    // source.
12: mov rcx, rdi
    sub rcx, rsi
    cmp rcx, rdx
    jb 14f
    lea r8, [rdi + rdx - 64]
    sub rsi, rdi
    lea rcx, [rdi + 64]
    movups [rdi], xmm0
    movups [rdi + 16], xmm2
    movups [rdi + 32], xmm4
    movups [rdi + 48], xmm5
13: movups xmm0, [rsi + rcx]
    movups xmm2, [rsi + rcx + 16]
    movups xmm4, [rsi + rcx + 32]
    movups xmm5, [rsi + rcx + 48]
    movups [rcx], xmm0
    movups [rcx + 16], xmm2
    movups [rcx + 32], xmm4
    movups [rcx + 48], xmm5
    add rcx, 64
    cmp rcx, r8
    jb 13b
    movups [r8], xmm6
    movups [r8 + 16], xmm7
    movups [r8 + 32], xmm3
    movups [r8 + 48], xmm1
    ret
    // Backwards. r8 = where the last 64 bytes go, rcx = upper end of what is left in between.
14: test rcx, rcx
    jz 16f
    lea r8, [rdi + rdx - 64]
    sub rsi, rdi
    lea r9, [rdi + 64]
    mov rcx, r8
15: movups xmm8, [rsi + rcx - 16]
    movups xmm9, [rsi + rcx - 32]
    movups xmm10, [rsi + rcx - 48]
    movups xmm11, [rsi + rcx - 64]
    movups [rcx - 16], xmm8
    movups [rcx - 32], xmm9
    movups [rcx - 48], xmm10
    movups [rcx - 64], xmm11
    sub rcx, 64
    cmp rcx, r9
    ja 15b
    movups [r8], xmm6
    movups [r8 + 16], xmm7
    movups [r8 + 32], xmm3
    movups [r8 + 48], xmm1
    movups [rdi], xmm0
    movups [rdi + 16], xmm2
    movups [rdi + 32], xmm4
    movups [rdi + 48], xmm5
16: ret
    // Fewer than 16 bytes.
20: cmp edx, 8
    jb 21f
    mov rcx, [rsi]
    mov r8, [rsi + rdx - 8]
    mov [rdi], rcx
    mov [rdi + rdx - 8], r8
    ret
21: cmp edx, 4
    jb 22f
    mov ecx, [rsi]
    mov r8d, [rsi + rdx - 4]
    mov [rdi], ecx
    mov [rdi + rdx - 4], r8d
    ret
22: cmp edx, 1
    jb 24f
    je 23f
    movzx ecx, word ptr [rsi]
    movzx r8d, byte ptr [rsi + rdx - 1]
    mov [rdi], cx
    mov [rdi + rdx - 1], r8b
    ret
23: movzx ecx, byte ptr [rsi]
    mov [rdi], cl
24: ret
"#,
    ".popsection",
);

// rdi = destination, esi = byte, rdx = bytes; returns the destination.
global_asm!(
    ".pushsection .text.hot.mem, \"ax\", @progbits",
    function!("memset"),
    r#"
    mov rax, rdi
    movzx ecx, sil
    movabs r8, 0x0101010101010101
    imul rcx, r8
    cmp rdx, 16
    jb 20f
    movq xmm0, rcx
    punpcklqdq xmm0, xmm0
    lea r8, [rdi + rdx - 16]
    cmp rdx, 64
    ja 10f
    movups [rdi], xmm0
    cmp rdx, 32
    jbe 9f
    movups [rdi + 16], xmm0
    movups [r8 - 16], xmm0
9:  movups [r8], xmm0
    ret
10: movups [rdi], xmm0
    movups [rdi + 16], xmm0
    movups [rdi + 32], xmm0
    movups [rdi + 48], xmm0
    add rdi, 64
    lea r9, [r8 - 48]
    cmp rdi, r9
    jb 10b
    movups [r9], xmm0
    movups [r9 + 16], xmm0
    movups [r9 + 32], xmm0
    movups [r8], xmm0
    ret
20: cmp edx, 8
    jb 21f
    mov [rdi], rcx
    mov [rdi + rdx - 8], rcx
    ret
21: cmp edx, 4
    jb 22f
    mov [rdi], ecx
    mov [rdi + rdx - 4], ecx
    ret
22: cmp edx, 1
    jb 24f
    mov [rdi], cl
    je 24f
    mov [rdi + rdx - 2], cx
24: ret
"#,
    ".popsection",
);

// rdi, rsi = what is compared, rdx = bytes; returns less than, equal to or greater than 0.
global_asm!(
    ".pushsection .text.hot.mem, \"ax\", @progbits",
    function!("memcmp"),
    r#"
    cmp rdx, 8
    jb 20f
    sub rdx, 8
    xor r8d, r8d
10: mov rax, [rdi + r8]
    mov rcx, [rsi + r8]
    cmp rax, rcx
    jne 30f
    add r8, 8
    cmp r8, rdx
    jb 10b
    // The last 8 bytes, which may overlap those before.
    mov rax, [rdi + rdx]
    mov rcx, [rsi + rdx]
    cmp rax, rcx
    jne 30f
    xor eax, eax
    ret
30: bswap rax
    bswap rcx
    cmp rax, rcx
    sbb eax, eax
    or eax, 1
    ret
20: test edx, edx
    jz 22f
    xor r8d, r8d
21: movzx eax, byte ptr [rdi + r8]
    movzx ecx, byte ptr [rsi + r8]
    sub eax, ecx
    jnz 23f
    inc r8d
    cmp r8d, edx
    jb 21b
22: xor eax, eax
23: ret
"#,
    // The same, but any result other than 0 will do.
    function!("bcmp"),
    r#"
    cmp rdx, 8
    jb 20f
    mov rax, [rdi + rdx - 8]
    xor rax, [rsi + rdx - 8]
    jnz 12f
    sub rdx, 8
    jbe 13f
    xor r8d, r8d
10: mov rax, [rdi + r8]
    cmp rax, [rsi + r8]
    jne 12f
    add r8, 8
    cmp r8, rdx
    jb 10b
13: xor eax, eax
    ret
12: mov eax, 1
    ret
20: cmp edx, 4
    jb 21f
    mov eax, [rdi]
    xor eax, [rsi]
    mov ecx, [rdi + rdx - 4]
    xor ecx, [rsi + rdx - 4]
    or eax, ecx
    ret
21: cmp edx, 1
    jb 23f
    movzx eax, byte ptr [rdi]
    movzx ecx, byte ptr [rsi]
    je 22f
    mov ah, [rdi + 1]
    mov ch, [rsi + 1]
    movzx r8d, byte ptr [rdi + rdx - 1]
    movzx r9d, byte ptr [rsi + rdx - 1]
    xor eax, ecx
    xor r8d, r9d
    or eax, r8d
    ret
22: xor eax, ecx
    ret
23: xor eax, eax
    ret
"#,
    ".popsection",
);

#[cfg(test)]
mod tests {
    unsafe extern "C" {
        fn barium_memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8;
        fn barium_memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8;
        fn barium_memset(to: *mut u8, byte: i32, len: usize) -> *mut u8;
        fn barium_memcmp(a: *const u8, b: *const u8, len: usize) -> i32;
        fn barium_bcmp(a: *const u8, b: *const u8, len: usize) -> i32;
    }

    /// Every length up to several turns of every loop.
    const LENGTHS: std::ops::Range<usize> = 0..420;
    const EDGE: usize = 16;

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 37 + i / 256 * 11 + 5) as u8).collect()
    }

    #[test]
    fn copies_exactly_the_bytes() {
        for len in LENGTHS {
            let from = pattern(len + 2 * EDGE);
            let mut to = vec![0xa5; len + 2 * EDGE];
            let at = to.as_mut_ptr().wrapping_add(EDGE);
            // SAFETY: both ranges lie inside their vectors.
            assert_eq!(unsafe { barium_memcpy(at, from.as_ptr().add(EDGE), len) }, at);
            assert_eq!(to[EDGE..EDGE + len], from[EDGE..EDGE + len], "length {len}");
            assert!(to[..EDGE].iter().chain(&to[EDGE + len..]).all(|b| *b == 0xa5), "length {len}");
        }
    }

    #[test]
    fn moves_within_a_buffer_either_way() {
        for len in LENGTHS {
            for shift in [0usize, 1, 2, 7, 8, 15, 16, 17, 31, 48, 63, 64, 65, 100, 127, 128, 129, 200] {
                for (from, to) in [(EDGE, EDGE + shift), (EDGE + shift, EDGE)] {
                    let mut buffer = pattern(len + shift + 2 * EDGE);
                    let mut expected = buffer.clone();
                    expected.copy_within(from..from + len, to);
                    let start = buffer.as_mut_ptr();
                    // SAFETY: both ranges lie inside the vector.
                    unsafe { barium_memmove(start.add(to), start.add(from), len) };
                    assert_eq!(buffer, expected, "length {len} from {from} to {to}");
                }
            }
        }
    }

    #[test]
    fn sets_exactly_the_bytes() {
        for len in LENGTHS {
            let mut to = vec![0xa5; len + 2 * EDGE];
            // SAFETY: the range lies inside the vector.
            unsafe { barium_memset(to.as_mut_ptr().add(EDGE), 0x1c3, len) };
            assert!(to[EDGE..EDGE + len].iter().all(|b| *b == 0xc3), "length {len}");
            assert!(to[..EDGE].iter().chain(&to[EDGE + len..]).all(|b| *b == 0xa5), "length {len}");
        }
    }

    #[test]
    fn compares_like_slices() {
        for len in LENGTHS {
            let a = pattern(len);
            let mut b = a.clone();
            let compare = |a: &[u8], b: &[u8]| {
                // SAFETY: both slices have `len` bytes.
                let (order, differ) =
                    unsafe { (barium_memcmp(a.as_ptr(), b.as_ptr(), len), barium_bcmp(a.as_ptr(), b.as_ptr(), len)) };
                assert_eq!(order.cmp(&0), a.cmp(b), "length {len}");
                assert_eq!(differ != 0, a != b, "length {len}");
            };
            compare(&a, &b);
            for at in 0..len {
                for change in [1u8, 0x80, 0xff] {
                    b[at] = a[at].wrapping_add(change);
                    compare(&a, &b);
                    compare(&b, &a);
                    // A later difference the other way must not count.
                    if at + 1 < len {
                        b[len - 1] = a[len - 1].wrapping_sub(change);
                        compare(&a, &b);
                        b[len - 1] = a[len - 1];
                    }
                }
                b[at] = a[at];
            }
        }
    }
}
