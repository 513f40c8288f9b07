//! The address space: 4 KiB granules, 48-bit halves. The lower half is never mapped after boot, so null and stray user-style
//! addresses fault. In the upper half:
//!
//! ```text
//! 0xffff_8000_0000_0000 + phys   the direct map: RAM but the kernel image; read, write, never execute
//! 0xffff_c000_0000_0000 + phys   device registers, Device-nGnRE
//! 0xffff_f000_0000_0000          the heap's window: large objects page by page; read, write, never execute
//! 0xffff_ff00_0000_0000          stacks of the further CPUs, an unmapped guard page below each
//! 0xffff_ffff_8000_0000          the kernel image by section: text r-x, rodata r--, data and bss rw-
//! ```
//!
//! The boot tables of the entry code are replaced by these once, from the identity map. After that mappings are only ever
//! added here, so no break-before-make is needed; each addition ends in a barrier before it is used. The window's pages come and
//! go: see [`super::window`].

use super::entry::{EXCEPTION_STACK_BYTES, IMAGE_BASE, SCTLR_ON, SCTLR_WXN, TCR, TCR_EPD0};
use super::sysreg;
use crate::cpu::MAX_CPUS;
use crate::region::{FRAME, Region};
use alloc::alloc::{Layout, alloc};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use spin::Mutex;

const DIRECT_MAP: usize = 0xffff_8000_0000_0000;
const MMIO_BASE: usize = 0xffff_c000_0000_0000;
const STACKS: usize = 0xffff_ff00_0000_0000;
/// Physical addresses at and above it have no place in the direct map or the device window.
const MAX_PHYS: u64 = 1 << 45;
const PAGE: usize = FRAME as usize;
/// A further CPU's stack.
const STACK_BYTES: usize = 256 << 10;
/// Address space of one CPU's stacks: guard, exception stack, guard, stack.
const STACK_SLOT: usize = 1 << 20;
const _: () = assert!(2 * PAGE + EXCEPTION_STACK_BYTES + STACK_BYTES <= STACK_SLOT);

pub(super) const VALID: u64 = 1;
/// A table or, on the last level, a page.
pub(super) const TABLE: u64 = 0b10;
/// The physical address in an entry.
pub(super) const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
const READ_ONLY: u64 = 1 << 7;
const INNER_SHAREABLE: u64 = 0b11 << 8;
const ACCESSED: u64 = 1 << 10;
const PXN: u64 = 1 << 53;
const UXN: u64 = 1 << 54;
/// Indexes into MAIR_EL1.
const DEVICE: u64 = 0 << 2;
const NORMAL: u64 = 2 << 2;

/// The rights of a mapping.
#[derive(Clone, Copy)]
enum Rights {
    Code,
    ReadOnly,
    Data,
    Device,
}

impl Rights {
    const fn bits(self) -> u64 {
        VALID
            | ACCESSED
            | UXN
            | match self {
                Self::Code => NORMAL | INNER_SHAREABLE | READ_ONLY,
                Self::ReadOnly => NORMAL | INNER_SHAREABLE | READ_ONLY | PXN,
                Self::Data => NORMAL | INNER_SHAREABLE | PXN,
                Self::Device => DEVICE | PXN,
            }
    }
}

unsafe extern "C" {
    // Section borders from the linker script: addresses, not objects.
    static __text_start: u8;
    static __text_end: u8;
    static __rodata_start: u8;
    static __rodata_end: u8;
    static __data_start: u8;
    static __image_end: u8;
    static __boot_tables: u8;
    static __replace_tables: u8;
    static __table_pool_start: u8;
    static __table_pool_end: u8;
    static __exception_guard: u8;
    static __boot_guard: u8;
}

/// The address of a linker symbol.
macro_rules! symbol {
    ($name:ident) => {
        (&raw const $name) as usize
    };
}

/// Physical minus link address of the image is the same everywhere in it; this is the image's first physical address.
static IMAGE_PHYS: AtomicU64 = AtomicU64::new(0);
/// Physical address of the level-0 table of the upper half.
static ROOT: AtomicU64 = AtomicU64::new(0);
/// The next table of the image's pool; guards changes of the tables.
static TABLES: Mutex<usize> = Mutex::new(0);

/// The range that the image takes, with what is not in its file.
pub fn image_region() -> Region {
    Region::new(IMAGE_PHYS.load(Ordering::Relaxed), (symbol!(__image_end) - IMAGE_BASE) as u64)
}

/// Where a physical address of RAM is mapped.
#[inline]
pub fn phys_to_virt(phys: u64) -> *mut u8 {
    let offset = phys.wrapping_sub(IMAGE_PHYS.load(Ordering::Relaxed));
    if offset < (symbol!(__image_end) - IMAGE_BASE) as u64 {
        return (IMAGE_BASE + offset as usize) as *mut u8;
    }
    (DIRECT_MAP + phys as usize) as *mut u8
}

/// The physical address of a byte in the direct map or the image. For anything else (a stack of a further CPU, a device)
/// the tables are asked; an address that is not mapped gives `u64::MAX`.
#[inline]
pub fn virt_to_phys(virt: *const u8) -> u64 {
    let virt = virt as usize;
    if (DIRECT_MAP..MMIO_BASE).contains(&virt) {
        (virt - DIRECT_MAP) as u64
    } else if virt >= IMAGE_BASE {
        (virt - IMAGE_BASE) as u64 + IMAGE_PHYS.load(Ordering::Relaxed)
    } else {
        translate(virt)
    }
}

/// Asks the MMU.
fn translate(virt: usize) -> u64 {
    // SAFETY: the instruction only writes PAR_EL1, which nobody else uses; interrupts are masked.
    unsafe { core::arch::asm!("at s1e1r, {}", in(reg) virt, options(nomem, nostack, preserves_flags)) };
    sysreg::isb();
    match sysreg::read!("par_el1") {
        par if par & 1 == 0 => par & ADDRESS | (virt as u64 & (FRAME - 1)),
        _ => u64::MAX,
    }
}

/// A table as the 512 entries that the CPU also walks.
pub(super) fn table(phys: u64) -> &'static [AtomicU64; 512] {
    // SAFETY: every table lies in the image's pool, in a leaked allocation of the heap or, in the window, in a frame that the
    // heap leaves to it as long as this reference is used; it is mapped where `phys_to_virt` says and aligned to its size.
    unsafe { &*phys_to_virt(phys).cast() }
}

/// A fresh, empty table. Boot takes them from the image's pool; later, when that is used up, from the heap.
fn new_table(used: &mut usize) -> Option<u64> {
    let at = symbol!(__table_pool_start) + *used * PAGE;
    if at < symbol!(__table_pool_end) {
        *used += 1;
        let phys = virt_to_phys(at as *const u8);
        // SAFETY: the page belongs to the pool and is not in use as a table yet.
        unsafe { (at as *mut u8).write_bytes(0, PAGE) };
        return Some(phys);
    }
    // SAFETY: the layout has a size.
    let fresh = unsafe { alloc::alloc::alloc_zeroed(Layout::from_size_align(PAGE, PAGE).ok()?) };
    (!fresh.is_null()).then(|| virt_to_phys(fresh))
}

/// Maps `virt..virt + len` to `phys`, all whole pages, with the largest blocks that fit. What is mapped already stays as
/// it is. `None` when there is no memory for a table.
fn map(used: &mut usize, virt: usize, phys: u64, len: usize, rights: Rights) -> Option<()> {
    fill(used, ROOT.load(Ordering::Relaxed), 0, virt, phys, len, rights.bits())
}

/// The part of [`map`] that lies in one table of `level`, entry by entry.
fn fill(used: &mut usize, at: u64, level: usize, virt: usize, phys: u64, len: usize, bits: u64) -> Option<()> {
    let shift = 39 - 9 * level;
    let size = 1usize << shift;
    let entries = table(at);
    let mut done = 0;
    while done < len {
        let (from, to) = (virt + done, phys + done as u64);
        let part = (size - (from & (size - 1))).min(len - done);
        let entry = &entries[from >> shift & 511];
        let old = entry.load(Ordering::Relaxed);
        let next = match (level, old) {
            (3, 0) => {
                entry.store(to | bits | TABLE, Ordering::Relaxed);
                None
            }
            (1 | 2, 0) if part == size && to & (size as u64 - 1) == 0 => {
                entry.store(to | bits, Ordering::Relaxed);
                None
            }
            (_, 0) => {
                let next = new_table(used)?;
                // The CPU may walk to the new table as soon as the entry is there: its zeros come first.
                sysreg::dsb_ishst();
                entry.store(next | VALID | TABLE, Ordering::Relaxed);
                Some(next)
            }
            (0..=2, _) if old & TABLE != 0 => Some(old & ADDRESS),
            _ => None,
        };
        if let Some(next) = next {
            fill(used, next, level + 1, from, to, part, bits)?;
        }
        done += part;
    }
    Some(())
}

/// Makes the tables for `virt` down to the one whose entries are for 2 MiB each. They stay. `None` without memory for them.
pub(super) fn make_directory(virt: usize) -> Option<()> {
    let used = &mut *TABLES.lock();
    let mut at = ROOT.load(Ordering::Relaxed);
    for level in 0..2 {
        let entry = &table(at)[virt >> (39 - 9 * level) & 511];
        if entry.load(Ordering::Relaxed) == 0 {
            let next = new_table(used)?;
            sysreg::dsb_ishst();
            entry.store(next | VALID | TABLE, Ordering::Relaxed);
        }
        at = entry.load(Ordering::Relaxed) & ADDRESS;
    }
    Some(())
}

/// The entry for `virt` in the table that [`make_directory`] made.
pub(super) fn directory_entry(virt: usize) -> &'static AtomicU64 {
    let mut at = ROOT.load(Ordering::Relaxed);
    for level in 0..2 {
        at = table(at)[virt >> (39 - 9 * level) & 511].load(Ordering::Relaxed) & ADDRESS;
    }
    &table(at)[virt >> 21 & 511]
}

/// What an entry for a page of data has beside the address.
pub(super) const fn data_page_bits() -> u64 {
    Rights::Data.bits() | TABLE
}

/// Builds the lasting tables from the memory map and switches this CPU to them. `None` when the pool is too small.
///
/// # Safety
/// Called once, by the boot CPU, on the boot tables, before anybody else uses this module; the image lies at `image_phys`
/// and `ram` is RAM.
pub unsafe fn init(image_phys: u64, ram: &[Region]) -> Option<()> {
    IMAGE_PHYS.store(image_phys, Ordering::Relaxed);
    let used = &mut *TABLES.lock();
    ROOT.store(new_table(used)?, Ordering::Relaxed);
    let sections = [
        (symbol!(__text_start), symbol!(__text_end), Rights::Code),
        (symbol!(__rodata_start), symbol!(__rodata_end), Rights::ReadOnly),
        (symbol!(__data_start), symbol!(__exception_guard), Rights::Data),
        (symbol!(__exception_guard) + PAGE, symbol!(__boot_guard), Rights::Data),
        (symbol!(__boot_guard) + PAGE, symbol!(__image_end), Rights::Data),
    ];
    for (start, end, rights) in sections {
        map(used, start, virt_to_phys(start as *const u8), end - start, rights)?;
    }
    let image = image_region();
    for region in ram {
        let region = Region { start: region.start, end: region.end.min(MAX_PHYS) }.shrink_to_frames();
        let before = Region { start: region.start, end: region.end.min(image.start) };
        let after = Region { start: region.start.max(image.end), end: region.end };
        for part in [before, after] {
            if !part.is_empty() {
                let virt = DIRECT_MAP + part.start as usize;
                map(used, virt, part.start, part.len() as usize, Rights::Data)?;
            }
        }
    }
    activate();
    Some(())
}

/// Switches this CPU to the lasting tables and closes the lower half.
fn activate() {
    sysreg::dsb_ish();
    sysreg::isb();
    let replace = virt_to_phys(&raw const __replace_tables);
    // SAFETY: the routine runs from the identity-mapped block that the entry code left, and returns here: code, data and
    // stack are mapped in the new tables at the same addresses as in the boot tables.
    unsafe {
        core::arch::asm!(
            "blr {}",
            in(reg) replace,
            in("x0") ROOT.load(Ordering::Relaxed),
            out("x1") _,
            out("x2") _,
            out("x30") _,
            options(nostack)
        );
    }
    enforce();
}

/// Closes the lower half, makes whatever is writable non-executable, and forgets older translations.
pub fn enforce() {
    let size = (sysreg::read!("id_aa64mmfr0_el1") & 0xf).min(5);
    let has_pan = sysreg::read!("id_aa64mmfr1_el1") >> 20 & 0xf != 0;
    // SAFETY: nothing in the lower half is used any more, and no page of the lasting tables is both written and executed.
    unsafe {
        sysreg::write!("tcr_el1", TCR | TCR_EPD0 | size << 32);
        sysreg::write!("sctlr_el1", SCTLR_ON | SCTLR_WXN);
        sysreg::isb();
        core::arch::asm!("tlbi vmalle1", "dsb nsh", "isb", options(nostack, preserves_flags));
        if has_pan {
            // PSTATE.PAN, which an assembler for the base architecture does not know by name.
            core::arch::asm!(".inst 0xd500419f", options(nostack, preserves_flags));
        }
    }
}

pub use super::window::{Tables, make as make_window, quiescent};

/// What a further CPU needs to start: the tables for the lower and the upper half.
pub fn secondary_tables() -> (u64, u64) {
    (virt_to_phys((&raw const __boot_tables).cast()), ROOT.load(Ordering::Relaxed))
}

/// Maps device registers, uncached and in order. The same range twice gives the same address. `None` for an address that no
/// device window reaches or when there is no memory for a table.
pub fn map_mmio(phys: u64, len: usize) -> Option<NonNull<u8>> {
    let range = Region::new(phys, len as u64).grow_to_frames();
    if range.end > MAX_PHYS || range.is_empty() {
        return None;
    }
    map(&mut TABLES.lock(), MMIO_BASE + range.start as usize, range.start, range.len() as usize, Rights::Device)?;
    sysreg::dsb_ishst();
    sysreg::isb();
    NonNull::new((MMIO_BASE + phys as usize) as *mut u8)
}

/// The tops of a further CPU's exception stack and stack, freshly allocated, each above an unmapped page.
pub fn new_stacks(cpu: usize) -> Option<(usize, usize)> {
    let slot = STACKS + cpu.checked_sub(1)? * STACK_SLOT;
    let exception = slot + PAGE;
    let stack = exception + EXCEPTION_STACK_BYTES + PAGE;
    for (at, bytes) in [(exception, EXCEPTION_STACK_BYTES), (stack, STACK_BYTES)] {
        // SAFETY: the layout has a size. The memory is never freed.
        let memory = unsafe { alloc(Layout::from_size_align(bytes, PAGE).ok()?) };
        if memory.is_null() {
            return None;
        }
        map(&mut TABLES.lock(), at, virt_to_phys(memory), bytes, Rights::Data)?;
    }
    sysreg::dsb_ishst();
    sysreg::isb();
    Some((exception + EXCEPTION_STACK_BYTES, stack + STACK_BYTES))
}

/// Whether an address lies in a page that is left unmapped to catch a stack that overflows.
pub fn is_guard_page(at: usize) -> bool {
    let page = at & !(PAGE - 1);
    if (STACKS..STACKS + MAX_CPUS * STACK_SLOT).contains(&at) {
        return matches!((page - STACKS) % STACK_SLOT, 0)
            || (page - STACKS) % STACK_SLOT == PAGE + EXCEPTION_STACK_BYTES;
    }
    page == symbol!(__exception_guard) || page == symbol!(__boot_guard)
}

/// Whether an aligned word at `at` can be read: for walks of frame pointers that may be damaged.
pub fn is_readable(at: usize) -> bool {
    at.is_multiple_of(8) && at >= DIRECT_MAP && translate(at) != u64::MAX
}
