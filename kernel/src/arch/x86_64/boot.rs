//! From the PVH start information to a `BootInfo`.
//!
//! The layout is Xen's `hvm_start_info` (xen/include/public/arch-x86/hvm/start_info.h).

use super::{entry, paging};
use crate::boot::{BootInfo, Module, reserve};
use crate::region::Region;

const MAGIC: u32 = 0x336e_c578;
const MEMORY_RAM: u32 = 1;
/// Longest command line that is kept, in bytes.
const CMDLINE_MAX: usize = 4096;
/// Everything below is left to firmware, its tables and the start-up code of CPUs.
const LOW_MEMORY: u64 = 0x10_0000;

#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    module_count: u32,
    modules: u64,
    cmdline: u64,
    rsdp: u64,
    // Since version 1:
    memory_map: u64,
    memory_map_entries: u32,
    reserved: u32,
}

#[repr(C)]
struct ModuleEntry {
    start: u64,
    len: u64,
    cmdline: u64,
    reserved: u64,
}

#[repr(C)]
struct MemoryMapEntry {
    start: u64,
    len: u64,
    kind: u32,
    reserved: u32,
}

static mut CMDLINE: [u8; CMDLINE_MAX] = [0; CMDLINE_MAX];

/// Rust's first function: on the boot stack, with the early page tables.
///
/// # Safety
/// Called once, by the entry code, with what it got: the physical address of the boot information, which loader made it, how
/// far the image was moved from its link address, and the time stamp counter.
pub unsafe extern "C" fn start(info: u32, loader: u32, delta: u64, ticks: u64) -> ! {
    super::console::init();
    super::cpu::init_boot();
    let mut boot = BootInfo::empty(if loader == entry::LOADER_PVH { "PVH" } else { "unknown" });
    boot.entry_ticks = ticks;
    // SAFETY: the loader put its start information there; the early tables map the first 4 GiB.
    let parsed = unsafe { parse_pvh(u64::from(info), &mut boot) };
    let image = Region { start: entry::address!(image_start), end: entry::address!(image_end) };
    reserve(&mut boot, image.start.wrapping_add(delta), image.len());
    reserve(&mut boot, 0, LOW_MEMORY);
    if let Err(why) = parsed.and_then(|()| paging::init(&mut boot, delta)) {
        crate::console::emergency(format_args!("cannot boot: {why}\n"));
        crate::power::exit(crate::power::ExitStatus::Failure(1));
    }
    crate::boot::start(boot)
}

/// Reads the PVH start information at physical address `at` into `boot`.
///
/// # Safety
/// `at` must be what a PVH loader passed, and the early tables must be in force.
unsafe fn parse_pvh(at: u64, boot: &mut BootInfo) -> Result<(), &'static str> {
    // SAFETY: by the caller's word.
    let info = unsafe { &*early::<StartInfo>(at) };
    if info.magic != MAGIC {
        return Err("no PVH start information");
    }
    if info.version < 1 || info.memory_map_entries == 0 {
        return Err("the PVH start information has no memory map");
    }
    boot.rsdp = Some(info.rsdp).filter(|rsdp| *rsdp != 0);
    // SAFETY: the loader's own list of `memory_map_entries` entries.
    let map = unsafe {
        core::slice::from_raw_parts(early::<MemoryMapEntry>(info.memory_map), info.memory_map_entries as usize)
    };
    for entry in map.iter().filter(|entry| entry.kind == MEMORY_RAM) {
        boot.ram.add(Region::new(entry.start, entry.len).shrink_to_frames());
    }
    if info.cmdline != 0 {
        // SAFETY: a string that ends with a zero byte, by the PVH ABI; and nothing else has touched CMDLINE.
        boot.cmdline = unsafe { keep_cmdline(info.cmdline) };
    }
    // SAFETY: the loader's own list of `module_count` entries.
    let modules =
        unsafe { core::slice::from_raw_parts(early::<ModuleEntry>(info.modules.max(8)), info.module_count as usize) };
    for (slot, module) in boot.modules.iter_mut().zip(modules) {
        let at = Region::new(module.start, module.len);
        *slot = Some(Module { at, name: "" });
        boot.reserved.add(at.grow_to_frames());
    }
    Ok(())
}

fn early<T>(phys: u64) -> *const T {
    paging::phys_to_virt(phys) as *const T
}

/// Copies the command line out of memory that will be given away. What is not UTF-8 is cut off.
///
/// # Safety
/// `at` must be the physical address of a string that ends with a zero byte; called once.
unsafe fn keep_cmdline(at: u64) -> &'static str {
    let source = early::<u8>(at);
    let mut len = 0;
    // SAFETY: the string has not ended before `len`; CMDLINE is this function's.
    let kept = unsafe {
        while len < CMDLINE_MAX && *source.add(len) != 0 {
            len += 1;
        }
        let kept = &raw mut CMDLINE as *mut u8;
        core::ptr::copy_nonoverlapping(source, kept, len);
        core::slice::from_raw_parts(kept, len)
    };
    match core::str::from_utf8(kept) {
        Ok(line) => line,
        Err(error) => core::str::from_utf8(&kept[..error.valid_up_to()]).unwrap_or_default(),
    }
}
