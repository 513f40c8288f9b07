//! Physical memory and the heap.

use crate::arch;
use crate::boot::BootInfo;
use crate::region::FRAME;
use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(0);
static END: AtomicU64 = AtomicU64::new(0);

/// Gives the free memory of `info` to the frame allocator and opens the heap. Called once, before any allocation.
pub(crate) fn init(info: &BootInfo) {
    if let Some(largest) = info.free().as_slice().iter().max_by_key(|region| region.len()) {
        NEXT.store(largest.start, Ordering::Relaxed);
        END.store(largest.end, Ordering::Relaxed);
    }
}

/// Takes `count` contiguous frames; returns their physical address. They hold old data.
pub fn allocate_frames(count: usize) -> Option<u64> {
    take(count as u64 * FRAME, FRAME)
}

fn take(len: u64, align: u64) -> Option<u64> {
    let end = END.load(Ordering::Relaxed);
    let start = |next: u64| (next + align - 1) & !(align - 1);
    NEXT.fetch_update(Ordering::AcqRel, Ordering::Acquire, |next| Some(start(next) + len).filter(|top| *top <= end))
        .ok()
        .map(start)
}

struct Bump;

#[global_allocator]
static HEAP: Bump = Bump;

// SAFETY: `take` hands every byte out once; nothing is ever given back.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size() as u64, layout.align() as u64).map_or(core::ptr::null_mut(), arch::memory::phys_to_virt)
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
