//! The heap as the allocator of a Linux process, over one reserved mapping that the system fills on demand.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::{CpuSlot, Heap, Stats};

/// Threads with lists of their own; further ones share the lock.
const THREADS: usize = 32;

/// Threads that have asked for a number.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Numbers threads as they come; a number is not used again after its thread ended.
struct ThreadSlot;

// SAFETY: each thread takes its number from a counter that only grows, so no two threads have the same; a thread runs
// one method of the heap at a time (signal handlers do not allocate).
unsafe impl CpuSlot for ThreadSlot {
    #[inline]
    fn current() -> usize {
        std::thread_local! {
            static SLOT: Cell<usize> = const { Cell::new(usize::MAX) };
        }
        SLOT.with(|slot| {
            if slot.get() == usize::MAX {
                slot.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            slot.get()
        })
    }
}

/// `#[global_allocator] static HEAP: ProcessHeap = ProcessHeap::new();`
pub struct ProcessHeap {
    heap: Heap<ThreadSlot, THREADS>,
    /// 0: not asked the system yet, 1: somebody is asking, 2: done.
    state: AtomicU8,
}

impl Default for ProcessHeap {
    fn default() -> Self {
        Self::new()
    }
}

impl ProcessHeap {
    /// A heap that reserves its address space at the first allocation.
    pub const fn new() -> Self {
        Self { heap: Heap::new(), state: AtomicU8::new(0) }
    }

    /// Bytes handed out; see [`Heap::used`].
    pub fn used(&self) -> usize {
        self.heap.used_by(NEXT.load(Ordering::Relaxed))
    }

    /// Bytes in frames that are not free; see [`Heap::held`].
    pub fn held(&self) -> usize {
        self.heap.held()
    }

    /// All counts; see [`Heap::stats`]. The total is the reserved address space.
    pub fn stats(&self) -> Stats {
        self.heap.stats()
    }

    #[inline]
    fn ready(&self) {
        if self.state.load(Ordering::Acquire) != 2 {
            self.reserve();
        }
    }

    #[cold]
    fn reserve(&self) {
        if self.state.compare_exchange(0, 1, Ordering::Acquire, Ordering::Acquire).is_err() {
            while self.state.load(Ordering::Acquire) != 2 {
                core::hint::spin_loop();
            }
            return;
        }
        // As much as the system lets be reserved; it commits what is touched.
        for shift in (26..=38).rev() {
            let bytes = 1usize << shift;
            // SAFETY: an anonymous mapping at an address of the system's choice touches nothing that exists.
            let start = unsafe {
                libc::mmap(
                    core::ptr::null_mut(),
                    bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if start != libc::MAP_FAILED {
                let start = start as usize;
                // SAFETY: the mapping is new and is never unmapped.
                unsafe { self.heap.init(core::slice::from_ref(&(start..start + bytes))) };
                break;
            }
        }
        self.state.store(2, Ordering::Release);
    }
}

// SAFETY: forwards to the heap, whose contract is the same.
unsafe impl GlobalAlloc for ProcessHeap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.ready();
        // SAFETY: the caller's duty.
        unsafe { self.heap.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's duty.
        unsafe { self.heap.dealloc(ptr, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's duty.
        unsafe { self.heap.realloc(ptr, layout, new_size) }
    }
}
