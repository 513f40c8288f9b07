//! Physical memory and the heap, which is the global allocator.
//!
//! All free RAM of the boot information goes to one [`barium_heap::Heap`], through the direct map: frames and objects
//! come from the same pool, so that memory freed in one form can be had in the other. Large objects for which there is no
//! run of frames lie in a window of addresses, where they are mapped page by page: their physical memory is not contiguous.
//! Devices are given memory of [`allocate_dma`] only, which always is.

use core::ops::Range;
use core::ptr::NonNull;

use barium_heap::{CpuSlot, Heap};

pub use barium_heap::Stats;

use crate::boot::{BootInfo, MAX_REGIONS};
use crate::cpu::{self, MAX_CPUS};
use crate::region::FRAME;
use crate::{arch, console};

struct ThisCpu;

// SAFETY: a CPU runs one thing at a time: interrupts are open only around the halt, where no allocation is in progress,
// and neither their handlers nor exceptions allocate.
unsafe impl CpuSlot for ThisCpu {
    #[inline(always)]
    fn current() -> usize {
        cpu::id()
    }
}

#[global_allocator]
static HEAP: Heap<ThisCpu, MAX_CPUS> = Heap::new();

/// Gives the free memory of `info` to the heap. Called once, before any allocation.
pub(crate) fn init(info: &BootInfo) {
    let free = info.free();
    let mut ranges: [Range<usize>; MAX_REGIONS] = [const { 0..0 }; MAX_REGIONS];
    for (range, region) in ranges.iter_mut().zip(free.as_slice()) {
        let start = arch::memory::phys_to_virt(region.start) as usize;
        *range = start..start + region.len() as usize;
    }
    // SAFETY: the regions are RAM that nobody uses, disjoint by construction, and the direct map covers all RAM.
    if !unsafe { HEAP.init(&ranges[..free.as_slice().len()]) } {
        console::emergency(format_args!("no usable memory: {} bytes of RAM\n", info.ram.total()));
    }
    make_window();
    if info.ram.dropped() + free.dropped() > 0 {
        log::warn!("the memory map has more than {MAX_REGIONS} ranges: some memory is not used");
    }
}

/// Address space of the heap's window for each byte of memory: for every 256 KiB there can be one object in it.
const WINDOW_FACTOR: usize = 8;

fn make_window() {
    let made = arch::memory::make_window(HEAP.stats().total.saturating_mul(WINDOW_FACTOR));
    // SAFETY: the architecture reserves these addresses for the heap.
    if !made.is_some_and(|window| unsafe { HEAP.set_window(window, &arch::memory::Tables) }) {
        log::warn!("no memory for a window of addresses: large objects need memory in one piece");
    }
}

/// Whether an object of the heap lies in the window: its frames need not follow each other.
pub fn in_window(object: *const u8) -> bool {
    HEAP.in_window(object as usize)
}

/// Bytes handed out: objects at the size of their class, and whole frames. Cheap.
#[inline]
pub fn used() -> usize {
    HEAP.used_by(cpu::online())
}

/// Bytes in frames that are not free: what is used and what the heap keeps or wastes besides. Cheap.
pub fn held() -> usize {
    HEAP.held()
}

/// All counts of the heap.
pub fn stats() -> Stats {
    HEAP.stats()
}

/// Takes `count` contiguous frames; returns their physical address. They hold old data.
pub fn allocate_frames(count: usize) -> Option<u64> {
    allocate_dma(count.checked_mul(FRAME as usize)?, FRAME as usize).map(|(physical, _)| physical)
}

/// Gives frames back.
///
/// # Safety
/// `physical` must have come from [`allocate_frames`] with the same `count`, and nothing may use them any more.
pub unsafe fn free_frames(physical: u64, count: usize) {
    if let Some(start) = NonNull::new(arch::memory::phys_to_virt(physical)) {
        // SAFETY: the caller gives up frames that came from this heap.
        unsafe { HEAP.free_frames(start, count * FRAME as usize) };
    }
}

/// Takes at least `len` bytes of whole, physically contiguous frames at a multiple of `align` (a power of two). Returns
/// their physical address and where the direct map has them. They hold old data.
pub fn allocate_dma(len: usize, align: usize) -> Option<(u64, NonNull<u8>)> {
    let start = HEAP.alloc_frames(len, align)?;
    Some((arch::memory::virt_to_phys(start.as_ptr()), start))
}
