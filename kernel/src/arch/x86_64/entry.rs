//! From the boot loader's 32-bit world, and from a starting CPU's 16-bit one, to Rust in the higher half.
//!
//! Entry code is linked at physical addresses (section `.boot`) and finds out by how much the image was moved. Its page
//! tables (`.boot.bss`) map the first 4 GiB twice, at 0 and at the direct map's base, and the image in the higher half, all
//! writable and executable; they serve until [`super::paging`] has built the real ones, and again for each CPU's start.

use core::arch::global_asm;

/// `start`'s second argument: how the image was loaded.
pub const LOADER_PVH: u32 = 0;

// Xen's PVH note (Xen public headers, elfnote.h): the physical address of the 32-bit entry point.
global_asm!(
    r#"
    .pushsection .note.pvh, "a", @note
    .balign 4
    .long 4
    .long 8
    .long 18
    .asciz "Xen"
    .quad pvh_entry
    .popsection
"#
);

// On entry (PVH start-of-day ABI): flat 32-bit protected mode, paging off, EBX = physical address of hvm_start_info.
// EBP becomes the difference between where the image is and where it was linked to be.
global_asm!(
    r#"
    .pushsection .boot, "awx", @progbits
    .code32
    .global pvh_entry
pvh_entry:
    cli
    cld
    mov esi, {pvh}
boot_common:
    // There is no stack yet, and CALL is the only way to learn EIP: borrow the first word of the boot information.
    mov ecx, [ebx]
    lea esp, [ebx + 4]
    call boot_here
boot_here:
    pop ebp
    mov [ebx], ecx
    sub ebp, offset boot_here
    lea esp, [ebp + early_stack_end]
    push esi
    push ebx

    lea edi, [ebp + early_tables]
    xor eax, eax
    mov ecx, 8 * 1024
    rep stosd

    lea edi, [ebp + early_pml4]
    lea eax, [ebp + early_pdpt_low + 3]
    mov [edi], eax
    mov [edi + 256 * 8], eax
    lea eax, [ebp + early_pdpt_high + 3]
    mov [edi + 511 * 8], eax
    lea eax, [ebp + early_pd_high + 3]
    mov [ebp + early_pdpt_high + 510 * 8], eax
    // 32 MiB of image in 2 MiB pages, from link address 2 MiB on.
    lea edi, [ebp + early_pd_high + 8]
    lea eax, [ebp + image_start + 0x83]
    mov ecx, 16
3:  mov [edi], eax
    add eax, 0x200000
    add edi, 8
    dec ecx
    jnz 3b

    mov eax, 0x80000000
    cpuid
    cmp eax, 0x80000001
    jb no_long_mode
    mov eax, 0x80000001
    cpuid
    bt edx, 29
    jnc no_long_mode
    mov esi, edx
    // The first 4 GiB: 1 GiB pages where there are any.
    lea edi, [ebp + early_pdpt_low]
    bt esi, 26
    jnc 5f
    mov eax, 0x83
    mov ecx, 4
4:  mov [edi], eax
    add eax, 0x40000000
    add edi, 8
    dec ecx
    jnz 4b
    jmp 8f
5:  lea eax, [ebp + early_pd_low + 3]
    mov ecx, 4
6:  mov [edi], eax
    add eax, 0x1000
    add edi, 8
    dec ecx
    jnz 6b
    lea edi, [ebp + early_pd_low]
    mov eax, 0x83
    mov ecx, 2048
7:  mov [edi], eax
    add eax, 0x200000
    add edi, 8
    dec ecx
    jnz 7b

8:  lea eax, [ebp + early_gdt]
    mov [ebp + early_gdt_pointer + 2], eax
    lgdt [ebp + early_gdt_pointer]
    mov eax, 0xa0                   // CR4: PAE, PGE
    mov cr4, eax
    lea eax, [ebp + early_pml4]
    mov cr3, eax
    mov ecx, 0xc0000080             // EFER: LME, and NXE where CPUID has it
    mov eax, 0x100
    bt esi, 20
    jnc 9f
    or eax, 0x800
9:  mov [ebp + ap_efer], eax
    xor edx, edx
    wrmsr
    pop ebx
    pop esi
    mov eax, 0x80010033             // CR0: PG, WP, NE, ET, MP, PE
    mov cr0, eax
    lea eax, [ebp + boot64]
    push 8
    push eax
    retf
no_long_mode:
    hlt
    jmp no_long_mode

    .code64
boot64:
    mov eax, 16
    mov ds, eax
    mov es, eax
    mov ss, eax
    xor eax, eax
    mov fs, eax
    mov gs, eax
    movabs rax, offset start_high
    jmp rax

    .balign 8
    .global early_gdt
early_gdt:
    .quad 0
    .quad 0x00af9b000000ffff        // 64-bit code
    .quad 0x00cf93000000ffff        // data
early_gdt_pointer:
    .word 23
    .long 0
    .popsection

    .pushsection .boot.bss, "aw", @nobits
    .balign 4096
    .global early_pml4
early_tables:
early_pml4:      .skip 4096
early_pdpt_low:  .skip 4096
early_pdpt_high: .skip 4096
early_pd_high:   .skip 4096
early_pd_low:    .skip 4 * 4096
    .skip 64
early_stack_end:
    .popsection

    .pushsection .text, "ax", @progbits
start_high:
    lea rsp, [rip + boot_stack_end]
    rdtsc
    shl rdx, 32
    or rdx, rax
    mov r8, rdx                     // ticks
    lea rdi, [rip + bss_start]
    lea rcx, [rip + bss_end]
    sub rcx, rdi
    shr rcx, 3
    xor eax, eax
    rep stosq
    mov edi, ebx                    // boot information
    mov esi, esi                    // loader
    movsxd rdx, ebp                 // how far the image was moved
    mov rcx, r8
    xor ebp, ebp
    call {start}
    ud2
    .popsection
"#,
    pvh = const LOADER_PVH,
    start = sym super::boot::start,
);

// The start-up code of the other CPUs, copied to a page below 1 MiB and entered there in real mode. The words at its end
// are filled in by super::smp.
global_asm!(
    r#"
    .pushsection .boot, "awx", @progbits
    .balign 16
    .code16
    .global ap_trampoline, ap_trampoline_end, ap_cr3, ap_far, ap_gdt_pointer, ap_efer, ap_long
ap_trampoline:
    cli
    cld
    mov ax, cs
    mov ds, ax
    lgdtd [ap_gdt_pointer_at]
    mov eax, 0xa0
    mov cr4, eax
    mov eax, dword ptr [ap_cr3_at]
    mov cr3, eax
    mov ecx, 0xc0000080
    mov eax, dword ptr [ap_efer_at]
    xor edx, edx
    wrmsr
    mov eax, 0x80010033
    mov cr0, eax
    .byte 0x66, 0xff, 0x2e          // ljmp to 16:32 in memory: the assembler's own form depends on its version
    .word ap_far - ap_trampoline
    .code64
ap_long:
    mov eax, 16
    mov ds, eax
    mov es, eax
    mov ss, eax
    xor eax, eax
    mov fs, eax
    mov gs, eax
    movabs rax, offset ap_high
    jmp rax
    .balign 8
ap_cr3:  .long 0
ap_efer: .long 0
ap_far:  .long 0
    .word 8
ap_gdt_pointer:
    .word 23
    .long 0
ap_trampoline_end:
    .set ap_gdt_pointer_at, ap_gdt_pointer - ap_trampoline
    .set ap_cr3_at, ap_cr3 - ap_trampoline
    .set ap_efer_at, ap_efer - ap_trampoline
    .code64
    .popsection

    .pushsection .text, "ax", @progbits
ap_high:
    mov rax, [rip + {cr3}]
    mov cr3, rax
    mov rsp, [rip + {stack}]
    mov rdi, [rip + {area}]
    xor ebp, ebp
    call {enter}
    ud2
    .popsection
"#,
    cr3 = sym super::paging::ROOT,
    stack = sym super::smp::STACK,
    area = sym super::smp::AREA,
    enter = sym super::smp::enter,
);

#[allow(missing_docs, reason = "symbols of the linker script and of the assembly above; only their addresses count")]
pub mod symbols {
    unsafe extern "C" {
        pub static image_start: u8;
        pub static image_end: u8;
        pub static text_start: u8;
        pub static text_end: u8;
        pub static rodata_start: u8;
        pub static rodata_end: u8;
        pub static data_start: u8;
        pub static data_end: u8;
        pub static fault_stack_start: u8;
        pub static fault_stack_end: u8;
        pub static boot_stack_start: u8;
        pub static boot_stack_end: u8;
        pub static early_pml4: u8;
        pub static early_gdt: u8;
        pub static ap_trampoline: u8;
        pub static ap_trampoline_end: u8;
        pub static ap_cr3: u8;
        pub static ap_far: u8;
        pub static ap_gdt_pointer: u8;
        pub static ap_long: u8;
    }
}

/// The address of a linker symbol.
macro_rules! address {
    ($symbol:ident) => {
        (&raw const $crate::arch::x86_64::entry::symbols::$symbol) as u64
    };
}
pub(super) use address;
