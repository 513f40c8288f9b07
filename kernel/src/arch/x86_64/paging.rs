//! Page tables: the image by section, the direct map of RAM, windows for device registers and stacks. No page is both
//! writable and executable, and nothing is mapped in the lower half, where null pointers point.
//!
//! Mappings are only ever added here, so that no other CPU ever holds a stale translation; the heap's window, whose pages come
//! and go, is [`super::window`]'s.

use super::entry::address;
use crate::boot::BootInfo;
use crate::region::{FRAME, Region, Regions};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use spin::Mutex;

/// Where physical address 0 is in the direct map.
pub const DIRECT: u64 = 0xffff_8000_0000_0000;
/// Where physical address 0 is in the window of uncached device registers.
const DEVICE: u64 = 0xffff_c000_0000_0000;
/// Where the stacks of CPUs other than the boot CPU are, each in a slot of its own.
const STACKS: u64 = 0xffff_e000_0000_0000;
/// Bytes of address space for each CPU's stacks.
const STACK_SLOT: u64 = 1 << 20;
/// Highest physical address that the windows cover: 32 TiB.
const PHYSICAL_END: u64 = (DEVICE - DIRECT) >> 1;

pub(super) const PRESENT: u64 = 1;
pub(super) const WRITABLE: u64 = 1 << 1;
const WRITE_THROUGH: u64 = 1 << 3;
const UNCACHED: u64 = 1 << 4;
/// Set by the CPU otherwise, at the first use and the first write.
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const LARGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
const NO_EXECUTE: u64 = 1 << 63;
/// The physical address in an entry.
pub(super) const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// What a mapping allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rights {
    /// Instructions.
    Execute,
    /// Constants.
    Read,
    /// Data.
    Write,
    /// Device registers.
    Device,
}

impl Rights {
    fn bits(self) -> u64 {
        let no_execute = if super::cpu::features().no_execute { NO_EXECUTE } else { 0 };
        PRESENT
            | GLOBAL
            | match self {
                Self::Execute => 0,
                Self::Read => no_execute,
                Self::Write => WRITABLE | no_execute,
                Self::Device => WRITABLE | no_execute | UNCACHED | WRITE_THROUGH,
            }
    }
}

/// Physical address of the top-level table, for CR3.
pub static ROOT: AtomicU64 = AtomicU64::new(0);
/// How far the image was moved from its link address.
static IMAGE_DELTA: AtomicU64 = AtomicU64::new(0);
/// Held while tables change.
static CHANGE: Mutex<()> = Mutex::new(());

/// Where the image's link address 0 is.
pub const IMAGE_OFFSET: u64 = 0xffff_ffff_8000_0000;

/// The address in the direct map of a physical address. The caller may use it where that is RAM of its own.
#[inline]
pub fn phys_to_virt(phys: u64) -> *mut u8 {
    (phys + DIRECT) as *mut u8
}

/// The physical address behind an address in the direct map or in the kernel image.
#[inline]
pub fn virt_to_phys(virt: *const u8) -> u64 {
    let virt = virt as u64;
    if virt >= IMAGE_OFFSET {
        virt.wrapping_sub(IMAGE_OFFSET).wrapping_add(IMAGE_DELTA.load(Ordering::Relaxed))
    } else {
        debug_assert!((DIRECT..DEVICE).contains(&virt), "{virt:#x} is not in the direct map");
        virt - DIRECT
    }
}

/// No frame was left for a page table, or the address is beyond what the windows cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoFrame;

/// Maps `len` bytes in the largest pages that fit. What is mapped already must have the same target and keeps its rights.
fn map(virt: u64, phys: u64, len: u64, rights: Rights, frame: &mut dyn FnMut() -> Option<u64>) -> Result<(), NoFrame> {
    let gigabyte_pages = super::cpu::features().gigabyte_pages;
    let rights = rights.bits();
    let mut done = 0;
    while done < len {
        let fits = |size: u64| ((virt + done) | (phys + done)) & (size - 1) == 0 && len - done >= size;
        let level = match () {
            () if gigabyte_pages && fits(1 << 30) => 2,
            () if fits(1 << 21) => 1,
            () => 0,
        };
        match descend(virt + done, level, frame)? {
            Place::Mapped(bytes) => done += bytes,
            Place::Table { table, level } => {
                let large = if level > 0 { LARGE } else { 0 };
                let size = page_size(level);
                // To the end of the table, the page size stays the same.
                while len - done >= size {
                    let slot = slot(table, virt + done, level);
                    // SAFETY: a word of a page table that CHANGE (or being alone at boot) makes ours. Only an absent entry is
                    // filled, so no translation changes.
                    unsafe {
                        if slot.read_volatile() & PRESENT != 0 {
                            break;
                        }
                        slot.write_volatile((phys + done) | large | rights);
                    }
                    done += size;
                    if (virt + done) & (512 * size - 1) == 0 {
                        break;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Bytes that an entry of a table at `level` covers (0: 4 KiB, 1: 2 MiB, 2: 1 GiB).
const fn page_size(level: u32) -> u64 {
    1 << (12 + 9 * level)
}

/// The entry for `virt` of a table at `level`.
pub(super) fn slot(table: u64, virt: u64, level: u32) -> *mut u64 {
    (phys_to_virt(table) as *mut u64).wrapping_add((virt >> (12 + 9 * level)) as usize & 511)
}

/// Where an address is to be mapped.
enum Place {
    /// It is mapped, and so are this many bytes from it on.
    Mapped(u64),
    /// In an absent entry of this table.
    Table { table: u64, level: u32 },
}

/// Finds the place for a page at `level`, or at a lower one where a table has its place already; makes missing tables.
fn descend(virt: u64, level: u32, frame: &mut dyn FnMut() -> Option<u64>) -> Result<Place, NoFrame> {
    let mut table = ROOT.load(Ordering::Relaxed);
    for at in (0..4).rev() {
        let slot = slot(table, virt, at);
        // SAFETY: `table` is a page table of 512 words in the direct map, and CHANGE (or being alone at boot) makes it ours.
        let entry = unsafe { slot.read_volatile() };
        if entry & PRESENT != 0 {
            if at == 0 || entry & LARGE != 0 {
                return Ok(Place::Mapped(page_size(at) - (virt & (page_size(at) - 1))));
            }
            table = entry & ADDRESS;
        } else if at <= level {
            return Ok(Place::Table { table, level: at });
        } else {
            let new = frame().ok_or(NoFrame)?;
            clear_frame(new);
            // SAFETY: as above.
            unsafe { slot.write_volatile(new | PRESENT | WRITABLE) };
            table = new;
        }
    }
    Err(NoFrame)
}

/// Fills a frame of our own with zeros.
pub(super) fn clear_frame(phys: u64) {
    let words = phys_to_virt(phys) as *mut u64;
    // SAFETY: the caller has just taken this frame; it is in the direct map.
    unsafe {
        core::arch::asm!("rep stosq", inout("rcx") 512 => _, inout("rdi") words => _, in("rax") 0,
            options(nostack, preserves_flags));
    }
}

/// Builds the tables and switches to them. Frames for them come from the end of free memory below 4 GiB, which the early
/// tables map, and are added to `info.reserved`.
///
/// # Errors
/// When there is not enough memory.
pub fn init(info: &mut BootInfo, delta: u64) -> Result<(), &'static str> {
    IMAGE_DELTA.store(delta, Ordering::Relaxed);
    let mut pool = info
        .free()
        .as_slice()
        .iter()
        .map(|region| Region { start: region.start, end: region.end.min(1 << 32) })
        .filter(|region| !region.is_empty())
        .max_by_key(Region::len)
        .ok_or("no free memory below 4 GiB")?;
    let pool_end = pool.end;
    let mut frame = || {
        pool.end -= FRAME;
        (pool.end >= pool.start).then_some(pool.end)
    };
    let root = frame().ok_or("no frame for page tables")?;
    clear_frame(root);
    ROOT.store(root, Ordering::Relaxed);
    build(info, &mut frame).map_err(|NoFrame| "no frame for page tables")?;
    info.reserved.add(Region { start: pool.end, end: pool_end });
    // SAFETY: the new tables map the image, the stack and the direct map where the early ones do.
    unsafe { core::arch::asm!("mov cr3, {}", in(reg) root, options(nostack, preserves_flags)) };
    Ok(())
}

fn build(info: &BootInfo, frame: &mut dyn FnMut() -> Option<u64>) -> Result<(), NoFrame> {
    let phys = |virt: u64| virt_to_phys(virt as *const u8);
    let mut section = |start: u64, end: u64, rights| map(start, phys(start), end - start, rights, frame);
    section(address!(text_start), address!(text_end), Rights::Execute)?;
    section(address!(rodata_start), address!(rodata_end), Rights::Read)?;
    section(address!(data_start), address!(data_end), Rights::Write)?;
    section(address!(fault_stack_start), address!(fault_stack_end), Rights::Write)?;
    section(address!(boot_stack_start), address!(boot_stack_end), Rights::Write)?;
    // The direct map must not be a second, writable way to code and constants.
    let constant = Region { start: phys(address!(text_start)), end: phys(address!(rodata_end)) };
    let mut writable: Regions<{ crate::boot::MAX_REGIONS }> = info.ram.clone();
    writable.remove(constant);
    for (regions, rights) in [(writable.as_slice(), Rights::Write), (&[constant][..], Rights::Read)] {
        for region in regions {
            let end = region.end.min(PHYSICAL_END);
            if region.start < end {
                map(DIRECT + region.start, region.start, end - region.start, rights, frame)?;
            }
        }
    }
    Ok(())
}

fn add(virt: u64, phys: u64, len: u64, rights: Rights) -> Result<(), NoFrame> {
    let _change = CHANGE.lock();
    map(virt, phys, len, rights, &mut || crate::memory::allocate_frames(1))
}

/// Makes the tables for `virt` down to the one whose entries are for 2 MiB each. They stay.
pub(super) fn make_directory(virt: u64) -> Result<(), NoFrame> {
    let _change = CHANGE.lock();
    descend(virt, 1, &mut || crate::memory::allocate_frames(1)).map(|_| ())
}

/// The entry for `virt` in the table at `level`, down to which tables exist.
pub(super) fn entry(virt: u64, level: u32) -> *mut u64 {
    let mut table = ROOT.load(Ordering::Relaxed);
    for at in (level + 1..4).rev() {
        // SAFETY: the caller knows that the tables exist; they lie in the direct map and entries that name tables stay.
        table = unsafe { slot(table, virt, at).read_volatile() } & ADDRESS;
    }
    slot(table, virt, level)
}

/// What an entry for a page of data has beside the address, when its translation is not to outlive [`flush`].
pub(super) fn data_bits() -> u64 {
    Rights::Write.bits() & !GLOBAL | ACCESSED | DIRTY
}

/// Forgets this CPU's translations that are not global, and parts of walks.
pub(super) fn flush() {
    // SAFETY: the tables stay the same.
    unsafe {
        core::arch::asm!("mov {0}, cr3", "mov cr3, {0}", out(reg) _, options(nostack, preserves_flags));
    }
}

/// Maps registers of a device, uncached; the same range twice gives the same address. `None` when no memory is left for
/// tables.
pub fn map_mmio(phys: u64, len: usize) -> Option<NonNull<u8>> {
    window(DEVICE, Rights::Device, phys, len)
}

/// Maps what firmware left in memory, to be read. Where that is RAM it has been mapped already.
pub fn map_firmware(phys: u64, len: usize) -> Option<NonNull<u8>> {
    window(DIRECT, Rights::Read, phys, len)
}

fn window(base: u64, rights: Rights, phys: u64, len: usize) -> Option<NonNull<u8>> {
    let pages = Region::new(phys, len as u64).grow_to_frames();
    if pages.end > PHYSICAL_END {
        return None;
    }
    add(base + pages.start, pages.start, pages.len(), rights).ok()?;
    NonNull::new((base + phys) as *mut u8)
}

/// The stacks of one CPU.
#[derive(Clone, Copy, Debug)]
pub struct Stacks {
    /// Initial stack pointer of the CPU's own stack.
    pub top: u64,
    /// Initial stack pointer for exceptions.
    pub fault_top: u64,
}

/// Stack sizes of CPUs other than the boot CPU, whose stacks are in the linker script.
const FAULT_STACK: u64 = 4 * FRAME;
const STACK: u64 = 64 * FRAME;

/// Makes the stacks for CPU `id`, an unmapped page below each. `None` when no memory is left.
pub fn make_stacks(id: usize) -> Option<Stacks> {
    let slot = STACKS + id as u64 * STACK_SLOT;
    let fault = slot + FRAME;
    let stack = fault + FAULT_STACK + FRAME;
    for (virt, len) in [(fault, FAULT_STACK), (stack, STACK)] {
        let phys = crate::memory::allocate_frames((len / FRAME) as usize)?;
        add(virt, phys, len, Rights::Write).ok()?;
    }
    Some(Stacks { top: stack + STACK, fault_top: fault + FAULT_STACK })
}

/// The boot CPU's stacks.
pub fn boot_stacks() -> Stacks {
    Stacks { top: address!(boot_stack_end), fault_top: address!(fault_stack_end) }
}

/// Whether `address` is inside some CPU's stack, for backtraces: there it can be read.
pub fn on_a_stack(address: u64) -> bool {
    let boot = [
        (address!(fault_stack_start), address!(fault_stack_end)),
        (address!(boot_stack_start), address!(boot_stack_end)),
    ];
    boot.iter().any(|&(start, end)| (start..end).contains(&address))
        || slot_of(address).is_some_and(|(id, offset)| {
            id > 0 && id < crate::cpu::online() && !is_guard(offset) && offset < 2 * FRAME + FAULT_STACK + STACK
        })
}

/// The CPU whose stack's guard page `address` is in.
pub fn guarded_cpu(address: u64) -> Option<usize> {
    let page = address & !(FRAME - 1);
    if page == address!(fault_stack_start) - FRAME || page == address!(boot_stack_start) - FRAME {
        return Some(0);
    }
    slot_of(address).filter(|&(_, offset)| is_guard(offset)).map(|(id, _)| id)
}

fn slot_of(address: u64) -> Option<(usize, u64)> {
    let offset = address.checked_sub(STACKS)?;
    let id = (offset / STACK_SLOT) as usize;
    (id < crate::cpu::MAX_CPUS).then_some((id, offset % STACK_SLOT))
}

const fn is_guard(offset: u64) -> bool {
    offset < FRAME || (offset >= FRAME + FAULT_STACK && offset < 2 * FRAME + FAULT_STACK)
}

/// Whether `address` is in the image's code.
pub fn is_code(address: u64) -> bool {
    (address!(text_start)..address!(text_end)).contains(&address)
}
