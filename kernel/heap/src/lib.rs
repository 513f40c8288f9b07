//! The memory layer: frames under a size-class slab under per-CPU lists; the global allocator.
//!
//! ```text
//! cache   per CPU: lists of free small objects, no lock          lib.rs
//! slabs   spans cut into objects of one class, one lock          slabs.rs
//! spans   runs of frames, merged when freed, the same lock       spans.rs
//! window  where no run is long enough: frames mapped in a row    window.rs
//! ```
//!
//! It is generic over where it runs ([`CpuSlot`]) and is handed its memory once ([`Heap::init`]), so that the kernel
//! and the host process measure memory with the same code. Sizes are in [`classes`]; `docs/decisions/heap.md` has the
//! reasons and the measurements.
#![cfg_attr(not(any(test, feature = "std")), no_std)]

pub mod classes;
#[cfg(feature = "std")]
pub mod host;
mod slabs;
mod spans;
#[cfg(test)]
mod tests;
mod window;

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicUsize, Ordering};

use barium_smp::spin::{Guard, Lock};
pub use classes::allocated_size;
use classes::{BATCH, CACHED, FRAME, FRAME_SHIFT, MAX_CACHED, MAX_SLAB, SIZES, class_of, padded, small_class};
use slabs::Slabs;

use window::Window;
pub use window::{GRANULE, Mapper, PAGES};

/// Which per-CPU lists the caller may use.
///
/// # Safety
/// While one caller that was given a number is inside a method of [`Heap`], no other may be given the same number: on
/// bare metal because a CPU is not interrupted by code that allocates, in a process because a thread owns its number.
pub unsafe trait CpuSlot {
    /// The caller's number. One that is not below the heap's number of slots means none: such a caller takes the lock
    /// for every object.
    fn current() -> usize;
}

/// One list of free objects, linked through their first words.
#[derive(Clone, Copy)]
struct Bin {
    head: *mut u8,
    count: usize,
}

/// The lists of one CPU, alone on its cache lines.
#[repr(align(128))]
struct Cache {
    bins: UnsafeCell<[Bin; CACHED]>,
    /// Bytes handed out less bytes given back by this CPU; wraps below zero where others' objects are freed. Written
    /// by this CPU only.
    used: AtomicUsize,
}

impl Cache {
    const fn new() -> Self {
        Self { bins: UnsafeCell::new([Bin { head: null_mut(), count: 0 }; CACHED]), used: AtomicUsize::new(0) }
    }

    #[inline(always)]
    fn count(&self, bytes: usize) {
        self.used.store(self.used.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }
}

/// What the heap holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Handed out: size-class bytes and whole frames.
    pub used: usize,
    /// In frames that are not free: what is used, what the slabs' and CPUs' lists keep, and what slabs waste.
    pub held: usize,
    /// The most that was held at once.
    pub held_peak: usize,
    /// All memory of the heap, without its own table.
    pub total: usize,
    /// The largest piece that could be had at once, contiguous or in the window.
    pub longest: usize,
}

/// Memory from which on each class has a slab of its own from the beginning (1 MiB in all).
const HOMES_FROM: usize = 96 << 20;

/// Holds the lock; notes at its end what is held then.
struct Central<'a> {
    slabs: Guard<'a, Slabs>,
    held: &'a AtomicUsize,
    held_peak: &'a AtomicUsize,
}

impl Drop for Central<'_> {
    #[inline]
    fn drop(&mut self) {
        let spans = &self.slabs.spans;
        let held = (spans.total_frames() - spans.free_frames()) * FRAME;
        // Written under the lock only; read by anybody.
        self.held.store(held, Ordering::Relaxed);
        if held > self.held_peak.load(Ordering::Relaxed) {
            self.held_peak.store(held, Ordering::Relaxed);
        }
    }
}

/// A heap for up to `CPUS` CPUs, told apart by `C`.
pub struct Heap<C, const CPUS: usize> {
    caches: [Cache; CPUS],
    /// Bytes handed out without a cache.
    uncached: AtomicUsize,
    central: Lock<Slabs>,
    /// Bytes in frames that are not free, now and at most.
    held: AtomicUsize,
    held_peak: AtomicUsize,
    window: Lock<Window>,
    /// Where the window is; written once.
    window_start: AtomicUsize,
    window_bytes: AtomicUsize,
    slot: PhantomData<fn() -> C>,
}

// SAFETY: `central` and `window` are locked, the counters atomic, and of `caches` each is used by one caller at a time (see `CpuSlot`).
unsafe impl<C, const CPUS: usize> Sync for Heap<C, CPUS> {}
// SAFETY: the free objects that the raw pointers name belong to the heap, wherever it is used.
unsafe impl<C, const CPUS: usize> Send for Heap<C, CPUS> {}

impl<C: CpuSlot, const CPUS: usize> Default for Heap<C, CPUS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: CpuSlot, const CPUS: usize> Heap<C, CPUS> {
    /// An empty heap: every allocation fails until [`Heap::init`].
    pub const fn new() -> Self {
        Self {
            caches: [const { Cache::new() }; CPUS],
            uncached: AtomicUsize::new(0),
            central: Lock::new(Slabs::new()),
            held: AtomicUsize::new(0),
            held_peak: AtomicUsize::new(0),
            window: Lock::new(Window::new()),
            window_start: AtomicUsize::new(0),
            window_bytes: AtomicUsize::new(0),
            slot: PhantomData,
        }
    }

    #[inline]
    fn central(&self) -> Central<'_> {
        Central { slabs: self.central.lock(), held: &self.held, held_peak: &self.held_peak }
    }

    /// Gives the heap its memory, once. Returns false when it already has some or when no region can hold the table of
    /// frames (16 bytes for each 4096 between the lowest and the highest address).
    ///
    /// # Safety
    /// The address ranges must be disjoint, mapped, writable, used by nothing else, and stay so for ever.
    pub unsafe fn init(&self, regions: &[Range<usize>]) -> bool {
        let mut central = self.central();
        // SAFETY: the caller vouches for the regions.
        let ready = unsafe { central.slabs.spans.init(regions) };
        if ready && central.slabs.spans.total_frames() * FRAME >= HOMES_FROM {
            central.slabs.make_homes();
        }
        ready
    }

    /// Bytes handed out: size-class bytes and whole frames. A sum over the slots, no lock.
    pub fn used(&self) -> usize {
        self.used_by(CPUS)
    }

    /// The same where only the first `slots` have ever been used.
    #[inline]
    pub fn used_by(&self, slots: usize) -> usize {
        let caches = self.caches.iter().take(slots);
        let cached = caches.fold(0usize, |sum, c| sum.wrapping_add(c.used.load(Ordering::Relaxed)));
        let used = cached.wrapping_add(self.uncached.load(Ordering::Relaxed));
        // The slots' counters are read at different moments; a sum that went below zero meanwhile is nothing.
        if used > isize::MAX as usize { 0 } else { used }
    }

    /// Bytes in frames that are not free: what is used, what lists and slabs keep, and what slabs waste. No lock.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// All counts, when what rests needlessly was given back; takes the lock.
    pub fn stats(&self) -> Stats {
        self.settle();
        let mappable = self.window.lock().longest();
        let mut central = self.central();
        let spans = &mut central.slabs.spans;
        // A table for every `PAGES` frames, and for those that remain.
        let mappable = mappable.min(spans.free_frames() - spans.free_frames().div_ceil(PAGES + 1));
        Stats {
            used: self.used(),
            held: (spans.total_frames() - spans.free_frames()) * FRAME,
            held_peak: self.held_peak.load(Ordering::Relaxed),
            total: spans.total_frames() * FRAME,
            longest: spans.longest().max(mappable) * FRAME,
        }
    }

    /// Takes `bytes`, rounded up to whole frames that follow each other, at an address that is a multiple of `align` (a power of two, at least
    /// one frame is meant): memory for DMA, stacks and page tables. The contents are undefined. `None` when there is
    /// no such run.
    pub fn alloc_frames(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let frames = u32::try_from(bytes.max(1).div_ceil(FRAME)).ok()?;
        let align = u32::try_from(align.max(FRAME) / FRAME).ok()?;
        let address = {
            let mut central = self.central();
            let first = match central.slabs.spans.take(frames, align) {
                Some(first) => Some(first),
                None => {
                    drop(central);
                    self.drain();
                    self.settle();
                    central = self.central();
                    central.slabs.reclaim();
                    central.slabs.spans.take(frames, align)
                }
            }?;
            central.slabs.spans.address(first)
        };
        self.uncached.fetch_add(frames as usize * FRAME, Ordering::Relaxed);
        NonNull::new(address as *mut u8)
    }

    /// Gives back what [`Heap::alloc_frames`] returned for the same number of bytes.
    ///
    /// # Safety
    /// `start` must have come from [`Heap::alloc_frames`] of this heap with the same `bytes` and be used by nobody.
    pub unsafe fn free_frames(&self, start: NonNull<u8>, bytes: usize) {
        let frames = bytes.max(1).div_ceil(FRAME) as u32;
        let mut central = self.central();
        let first = central.slabs.spans.frame_of(start.as_ptr() as usize);
        debug_assert_eq!(central.slabs.spans.length(first), frames);
        central.slabs.spans.release(first, frames);
        drop(central);
        self.uncached.fetch_sub(frames as usize * FRAME, Ordering::Relaxed);
    }

    /// Gives the calling CPU's lists back to their slabs.
    pub fn drain(&self) {
        let Some(cache) = self.caches.get(C::current()) else { return };
        for class in 0..CACHED {
            self.flush(cache, class, usize::MAX);
        }
    }

    #[cold]
    fn refill(&self, cache: &Cache, class: usize) -> *mut u8 {
        let want = usize::from(BATCH[class]);
        let mut got = self.central().slabs.take(class, want);
        if got.1 == 0 {
            self.drain();
            self.settle();
            let mut central = self.central();
            central.slabs.reclaim();
            got = central.slabs.take(class, 1);
        }
        let (object, count) = got;
        if object.is_null() {
            return object;
        }
        // SAFETY: `object` heads a list of `count` objects that now belong to this CPU; its first word names the next.
        // The cache is this CPU's (see `CpuSlot`) and no other reference to its bins is alive.
        unsafe {
            (*cache.bins.get())[class] = Bin { head: *object.cast::<*mut u8>(), count: count - 1 };
        }
        object
    }

    /// Moves up to `most` objects from a CPU's list to their slabs.
    #[cold]
    fn flush(&self, cache: &Cache, class: usize, most: usize) {
        // SAFETY: the cache is the calling CPU's (see `CpuSlot`) and no other reference to its bins is alive.
        let bin = unsafe { &mut (*cache.bins.get())[class] };
        let mut central = self.central();
        for _ in 0..most.min(bin.count) {
            let object = bin.head;
            // SAFETY: the list holds `count` objects that nobody uses; the first word of each names the next.
            unsafe {
                bin.head = *object.cast::<*mut u8>();
                central.slabs.give(object);
            }
            bin.count -= 1;
        }
    }

    #[inline]
    fn alloc_small(&self, class: usize) -> *mut u8 {
        let size = SIZES[class] as usize;
        let Some(cache) = self.caches.get(C::current()) else { return self.alloc_slab(class) };
        // SAFETY: the cache is the calling CPU's (see `CpuSlot`); the reference ends before anything else uses it.
        let bin = unsafe { &mut (*cache.bins.get())[class] };
        let object = bin.head;
        let object = if object.is_null() {
            let object = self.refill(cache, class);
            if object.is_null() {
                return object;
            }
            object
        } else {
            // SAFETY: a listed object is free and its first word names the next.
            bin.head = unsafe { *object.cast::<*mut u8>() };
            bin.count -= 1;
            object
        };
        cache.count(size);
        object
    }

    #[inline]
    unsafe fn free_small(&self, object: *mut u8, class: usize) {
        let size = SIZES[class] as usize;
        let Some(cache) = self.caches.get(C::current()) else {
            // SAFETY: the caller gives the object up.
            return unsafe { self.free_slab(object, class) };
        };
        // SAFETY: the cache is the calling CPU's (see `CpuSlot`); the reference ends before anything else uses it.
        let bin = unsafe { &mut (*cache.bins.get())[class] };
        // SAFETY: the caller gives the object up; it is at least 8 bytes long and 8-aligned.
        unsafe { *object.cast::<*mut u8>() = bin.head };
        bin.head = object;
        bin.count += 1;
        let batch = usize::from(BATCH[class]);
        if bin.count > 2 * batch {
            self.flush(cache, class, batch);
        }
        cache.count(size.wrapping_neg());
    }

    /// An object straight from the slabs: of a class that is not cached, or for a caller without a cache.
    #[cold]
    fn alloc_slab(&self, class: usize) -> *mut u8 {
        let (mut object, _) = self.central().slabs.take(class, 1);
        if object.is_null() {
            self.drain();
            self.settle();
            let mut central = self.central();
            central.slabs.reclaim();
            object = central.slabs.take(class, 1).0;
        }
        if !object.is_null() {
            self.uncached.fetch_add(SIZES[class] as usize, Ordering::Relaxed);
        }
        object
    }

    #[cold]
    unsafe fn free_slab(&self, object: *mut u8, class: usize) {
        // SAFETY: the caller gives the object up.
        unsafe { self.central().slabs.give(object) };
        self.uncached.fetch_sub(SIZES[class] as usize, Ordering::Relaxed);
    }

    /// Resizes whole frames where they lie. Returns false when that cannot be done.
    ///
    /// # Safety
    /// As for [`GlobalAlloc::realloc`].
    unsafe fn resize_run(&self, start: *mut u8, old: usize, new: usize) -> bool {
        let (old, new) = (old.div_ceil(FRAME), new.div_ceil(FRAME));
        let Ok(frames) = u32::try_from(new) else { return false };
        if old == new {
            return true;
        }
        let resized = if self.in_window(start as usize) {
            // SAFETY: the caller's duty.
            unsafe { self.resize_mapped(start, old, new) }
        } else {
            let mut central = self.central();
            let first = central.slabs.spans.frame_of(start as usize);
            central.slabs.spans.resize(first, frames)
        };
        if !resized {
            return false;
        }
        self.uncached.fetch_add((new << FRAME_SHIFT).wrapping_sub(old << FRAME_SHIFT), Ordering::Relaxed);
        true
    }
}

// SAFETY: objects are disjoint, as long and as aligned as asked for (the tests of `classes` show both), and stay the
// caller's until freed; failure is null; nothing unwinds.
unsafe impl<C: CpuSlot, const CPUS: usize> GlobalAlloc for Heap<C, CPUS> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = padded(layout.size(), layout.align());
        if size <= MAX_CACHED {
            self.alloc_small(small_class(size))
        } else if size <= MAX_SLAB && layout.align() <= FRAME {
            self.alloc_slab(class_of(size))
        } else {
            let run = self.alloc_frames(size, layout.align()).or_else(|| self.alloc_mapped(size, layout.align()));
            run.map_or(null_mut(), NonNull::as_ptr)
        }
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        let size = padded(layout.size(), layout.align());
        // SAFETY: the caller gives up an object that `alloc` returned for this layout, so it came from the same branch.
        unsafe {
            if size <= MAX_CACHED {
                self.free_small(ptr, small_class(size));
            } else if size <= MAX_SLAB && layout.align() <= FRAME {
                self.free_slab(ptr, class_of(size));
            } else if let Some(start) = NonNull::new(ptr) {
                if self.in_window(ptr as usize) {
                    self.free_mapped(start, size);
                } else {
                    self.free_frames(start, size);
                }
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let align = layout.align();
        let (old, new) = (padded(layout.size(), align), padded(new_size, align));
        let slab = |size: usize| size <= MAX_SLAB && align <= FRAME;
        let stays = match (slab(old), slab(new)) {
            (true, true) => class_of(old) == class_of(new),
            // SAFETY: the caller's duty.
            (false, false) => unsafe { self.resize_run(ptr, old, new) },
            _ => false,
        };
        if stays {
            return ptr;
        }
        // SAFETY: `new_size` at this alignment is a valid layout by the caller's duty; both blocks are at least
        // as long as what is copied and disjoint; the old one is given up by the caller.
        unsafe {
            let to = self.alloc(Layout::from_size_align_unchecked(new_size, align));
            if !to.is_null() {
                core::ptr::copy_nonoverlapping(ptr, to, layout.size().min(new_size));
                self.dealloc(ptr, layout);
                return to;
            }
            if !slab(old) && new > old && align <= GRANULE {
                return self.move_mapped(ptr, old.div_ceil(FRAME), new.div_ceil(FRAME));
            }
            to
        }
    }
}
