//! The window, over real mappings: the heap's memory is a file in memory, and the window maps pieces of it a second time.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::collections::HashMap;
use std::sync::Mutex;

use super::*;
use crate::{GRANULE, Mapper, PAGES};

/// What the page tables would hold, and whether they are used as they must be.
#[derive(Default)]
struct Tables {
    /// Table and whether it is open, by granule.
    granules: HashMap<usize, (usize, bool)>,
    /// Frame by page; of closed granules too.
    pages: HashMap<usize, usize>,
    /// When a page was unmapped, by the count of stamps given until then.
    unmapped: HashMap<usize, u64>,
}

struct Fake {
    file: i32,
    memory: usize,
    tables: Mutex<Tables>,
    stamps: AtomicU64,
    settled: AtomicU64,
    /// Another CPU holds on to old translations.
    stuck: AtomicBool,
    /// Calls of `map` until all free memory is taken by somebody else; 0 is never.
    rob_after: AtomicUsize,
    robbed: Mutex<Option<&'static TestHeap>>,
    stolen: Mutex<Vec<usize>>,
}

fn map_memory(at: usize, bytes: usize, flags: i32, file: i32, offset: usize) -> usize {
    let rights = if file < 0 { libc::PROT_NONE } else { libc::PROT_READ | libc::PROT_WRITE };
    // SAFETY: a mapping at a place of the system's choice, or over a part of the window that this test reserved.
    let got = unsafe { libc::mmap(at as *mut _, bytes, rights, flags, file, offset as i64) };
    assert_ne!(got, libc::MAP_FAILED);
    got as usize
}

impl Fake {
    /// Nothing there: whoever touches it is caught.
    fn hide(&self, at: usize, bytes: usize) {
        map_memory(at, bytes, libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0);
    }

    fn give_back(&self, heap: &TestHeap) {
        for frame in self.stolen.lock().expect("lock").drain(..) {
            // SAFETY: it was taken with this size and nobody uses it.
            unsafe { heap.free_frames(NonNull::new(frame as *mut u8).expect("an address"), FRAME) };
        }
    }

    fn forget(&self, tables: &mut Tables, page: usize) {
        tables.unmapped.insert(page, self.stamps.load(Relaxed));
    }
}

// SAFETY: the same memory is mapped at both places; `settled` is what the test says it is.
unsafe impl Mapper for Fake {
    unsafe fn open(&self, granule: usize, table: usize) {
        assert_eq!(granule % GRANULE, 0);
        // A table that the heap gave to somebody else as well would show.
        // SAFETY: the frame is the table's.
        unsafe { (table as *mut u8).write_bytes(0xee, FRAME) };
        let before = self.tables.lock().expect("lock").granules.insert(granule, (table, true));
        assert!(before.is_none(), "granule {granule:#x} has a table");
    }

    unsafe fn map(&self, page: usize, frame: usize, count: usize) {
        {
            let mut tables = self.tables.lock().expect("lock");
            assert!(tables.granules[&(page & !(GRANULE - 1))].1, "not open");
            assert_eq!(page & !(GRANULE - 1), (page + (count - 1) * FRAME) & !(GRANULE - 1));
            for n in 0..count {
                let page = page + n * FRAME;
                assert!(tables.pages.insert(page, frame + n * FRAME).is_none(), "page {page:#x} is mapped");
                if let Some(when) = tables.unmapped.remove(&page) {
                    assert!(self.settled.load(Relaxed) > when, "page {page:#x} has not settled");
                }
            }
        }
        map_memory(page, count * FRAME, libc::MAP_FIXED | libc::MAP_SHARED, self.file, frame - self.memory);
        if self.rob_after.load(Relaxed) > 0 && self.rob_after.fetch_sub(1, Relaxed) == 1 {
            let heap = self.robbed.lock().expect("lock").expect("set");
            let mut stolen = self.stolen.lock().expect("lock");
            while let Some(frame) = heap.alloc_frames(1, FRAME) {
                stolen.push(frame.as_ptr() as usize);
            }
        }
    }

    unsafe fn frame(&self, page: usize) -> usize {
        self.tables.lock().expect("lock").pages[&page]
    }

    unsafe fn unmap(&self, page: usize, count: usize) {
        let mut tables = self.tables.lock().expect("lock");
        assert!(tables.granules[&(page & !(GRANULE - 1))].1, "not open");
        for n in 0..count {
            tables.pages.remove(&(page + n * FRAME)).expect("mapped");
            self.forget(&mut tables, page + n * FRAME);
        }
        self.hide(page, count * FRAME);
    }

    unsafe fn close(&self, granule: usize) {
        let mut tables = self.tables.lock().expect("lock");
        let entry = tables.granules.get_mut(&granule).expect("open");
        assert!(core::mem::replace(&mut entry.1, false), "closed twice");
        for n in 0..PAGES {
            if tables.pages.contains_key(&(granule + n * FRAME)) {
                self.forget(&mut tables, granule + n * FRAME);
            }
        }
        self.hide(granule, GRANULE);
    }

    unsafe fn take_table(&self, granule: usize) -> Option<usize> {
        let mut tables = self.tables.lock().expect("lock");
        let (table, open) = tables.granules.remove(&granule)?;
        assert!(!open);
        for n in 0..PAGES {
            let page = granule + n * FRAME;
            tables.pages.remove(&page);
            if let Some(when) = tables.unmapped.get(&page) {
                assert!(self.settled.load(Relaxed) > *when, "page {page:#x} has not settled");
            }
        }
        // SAFETY: the table was never anybody else's.
        let kept = unsafe { core::slice::from_raw_parts(table as *const u8, FRAME) };
        assert!(kept.iter().all(|b| *b == 0xee), "somebody wrote into a table");
        Some(table)
    }

    fn stamp(&self) -> u64 {
        self.stamps.fetch_add(1, Relaxed) + 1
    }

    fn settled(&self, stamp: u64) -> bool {
        if !self.stuck.load(Relaxed) {
            self.settled.store(self.stamps.load(Relaxed), Relaxed);
        }
        self.settled.load(Relaxed) >= stamp
    }
}

/// A heap of `bytes` with a window of `window` bytes, and its counts when nothing was taken yet.
fn heap(bytes: usize, window: usize) -> (&'static TestHeap, &'static Fake, Stats) {
    // SAFETY: a new file in memory.
    let file = unsafe { libc::memfd_create(c"heap".as_ptr(), 0) };
    // SAFETY: it is this test's.
    assert_eq!(unsafe { libc::ftruncate(file, bytes as i64) }, 0);
    let memory = map_memory(0, bytes, libc::MAP_SHARED, file, 0);
    let reserve = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let window_at = map_memory(0, window + GRANULE, reserve, -1, 0).next_multiple_of(GRANULE);
    let heap: &'static TestHeap = std::boxed::Box::leak(std::boxed::Box::new(TestHeap::new()));
    let fake: &'static Fake = std::boxed::Box::leak(std::boxed::Box::new(Fake {
        file,
        memory,
        tables: Mutex::default(),
        stamps: AtomicU64::new(0),
        settled: AtomicU64::new(0),
        stuck: AtomicBool::new(false),
        rob_after: AtomicUsize::new(0),
        robbed: Mutex::new(Some(heap)),
        stolen: Mutex::default(),
    }));
    // SAFETY: both mappings are new and are never unmapped.
    unsafe {
        assert!(heap.init(core::slice::from_ref(&(memory..memory + bytes))));
        assert!(heap.set_window(window_at..window_at + window, fake));
    }
    (heap, fake, heap.stats())
}

/// Fills memory with runs of ten frames and frees every other one: half of memory is free, no run is longer than that.
fn fragment(heap: &TestHeap) -> Vec<Block> {
    let mut blocks = Vec::new();
    while let Some(block) = Block::new(heap, 10 * FRAME, 8, 1) {
        blocks.push(block);
    }
    let mut n = 0;
    let (kept, freed): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|_| {
        n += 1;
        n % 2 == 0
    });
    freed.into_iter().for_each(|block| block.free(heap));
    kept
}

fn in_window(heap: &TestHeap, block: &Block) -> bool {
    heap.in_window(block.ptr.as_ptr() as usize)
}

#[allow(clippy::mut_from_ref, reason = "a block owns its memory")]
fn words(block: &Block) -> &mut [u64] {
    // SAFETY: the block is the test's, and aligned to a page.
    unsafe { core::slice::from_raw_parts_mut(block.ptr.as_ptr().cast(), block.layout.size() / 8) }
}

#[test]
fn a_large_block_is_had_from_fragmented_memory() {
    let (heap, _, before) = heap(144 << 20, 1 << 30);
    let kept = fragment(heap);
    assert_eq!(kept.iter().filter(|block| in_window(heap, block)).count(), 0);
    assert!(heap.central.lock().spans.longest() < 20);
    let half = heap.stats();
    assert!(half.longest >= 64 << 20, "{half:?}");
    let big = Block::new(heap, 64 << 20, 8, 2).expect("half of memory is free");
    assert!(in_window(heap, &big));
    words(&big).iter_mut().enumerate().for_each(|(n, word)| *word = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let stats = heap.stats();
    assert_eq!(stats.used, half.used + (64 << 20));
    assert_eq!(stats.held, half.held + (64 << 20) + 32 * FRAME, "the pages and a table for each 2 MiB");
    kept.iter().for_each(|block| block.check(block.layout.size()));
    assert!(words(&big).iter().enumerate().all(|(n, word)| *word == (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    // What `longest` says is right to the page.
    let longest = heap.stats().longest;
    assert!(Block::new(heap, longest + 1, 8, 3).is_none());
    Block::new(heap, longest, 8, 3).expect("as stated").free(heap);
    big.write();
    big.free(heap);
    kept.into_iter().for_each(|block| block.free(heap));
    is_back(heap, before);
}

#[test]
fn random_operations_with_a_window() {
    let (heap, fake, before) = heap(6 << 20, 128 << 20);
    let mut random = Random(4711);
    let mut blocks: Vec<Block> = Vec::new();
    let mut mapped = 0;
    for i in 0..20_000 {
        match random.below(6) {
            0..=2 => match Block::new(heap, random.size(3 << 20), 8, i as u8) {
                Some(block) => {
                    mapped += usize::from(in_window(heap, &block));
                    blocks.push(block);
                }
                None => {
                    for _ in 0..blocks.len().div_ceil(8) {
                        blocks.swap_remove(random.below(blocks.len())).free(heap);
                    }
                }
            },
            3 if !blocks.is_empty() => {
                let n = random.below(blocks.len());
                let size = random.size(3 << 20);
                blocks[n].resize(heap, size);
            }
            4 if !blocks.is_empty() => {
                // By a little, so that it may stay where it is.
                let n = random.below(blocks.len());
                let size = (blocks[n].layout.size() + random.below(300_000)).saturating_sub(150_000).max(1);
                blocks[n].resize(heap, size);
            }
            _ if !blocks.is_empty() => blocks.swap_remove(random.below(blocks.len())).free(heap),
            _ => {}
        }
        // Now and then the other CPU does not look up for a while.
        if random.below(100) == 0 {
            fake.stuck.store(random.below(2) == 0, Relaxed);
        }
        if i % 1000 == 0 {
            heap.central.lock().check();
            assert_eq!(heap.used(), before.used + blocks.iter().map(Block::takes).sum::<usize>());
        }
    }
    assert!(mapped > 300, "{mapped}");
    fake.stuck.store(false, Relaxed);
    blocks.into_iter().for_each(|block| block.free(heap));
    is_back(heap, before);
    assert!(fake.tables.lock().expect("lock").granules.is_empty());
}

#[test]
fn running_out_half_way_gives_everything_back() {
    let (heap, fake, before) = heap(32 << 20, 256 << 20);
    let kept = fragment(heap);
    let free = heap.stats();
    // Refused before anything is taken.
    assert!(Block::new(heap, free.total - free.held, 8, 1).is_none());
    assert_eq!(heap.stats(), Stats { held_peak: free.held_peak, ..free });
    // Somebody else takes all that is left while pages are mapped: at once, in the middle, at a granule's border.
    for after in [1, 17, 51, 52, 53, 200] {
        fake.rob_after.store(after, Relaxed);
        assert!(Block::new(heap, 12 << 20, 8, 1).is_none());
        heap.settle();
        heap.central.lock().check();
        let got = (free.total - heap.stats().held) / FRAME;
        assert!((after * 9..=after * 10 + 6).contains(&got), "{after} pieces of at most 10 frames: {got} are back");
        kept.iter().for_each(|block| block.check(block.layout.size()));
        fake.give_back(heap);
        assert_eq!(Stats { held_peak: free.held_peak, ..heap.stats() }, free);
    }
    kept.into_iter().for_each(|block| block.free(heap));
    is_back(heap, before);
}

#[test]
fn growth_that_fails_leaves_the_block_as_it_was() {
    let (heap, fake, before) = heap(32 << 20, 256 << 20);
    let kept = fragment(heap);
    let mut block = Block::new(heap, 3 << 20, 8, 7).expect("fits");
    assert!(in_window(heap, &block));
    let at = block.ptr;
    fake.rob_after.store(80, Relaxed);
    block.resize(heap, 10 << 20);
    assert_eq!((block.ptr, block.layout.size()), (at, 3 << 20), "nothing was left to grow into");
    block.check(3 << 20);
    fake.give_back(heap);
    block.resize(heap, 10 << 20);
    assert_eq!(block.layout.size(), 10 << 20);
    block.free(heap);
    kept.into_iter().for_each(|block| block.free(heap));
    is_back(heap, before);
}

#[test]
fn addresses_rest_until_every_cpu_has_forgotten_them() {
    let (heap, fake, before) = heap(4 << 20, 128 << 20);
    let kept = fragment(heap);
    fake.stuck.store(true, Relaxed);
    let mut seen = Vec::new();
    while let Some(block) = Block::new(heap, 600_000, 8, 3) {
        assert!(in_window(heap, &block) && !seen.contains(&block.ptr), "used again too early");
        seen.push(block.ptr);
        block.free(heap);
    }
    // Bounded by the window and by the memory for tables that rest with the addresses.
    assert!(seen.len() >= 60 && seen.len() <= 64, "{}", seen.len());
    fake.stuck.store(false, Relaxed);
    for _ in 0..500 {
        Block::new(heap, 600_000, 8, 3).expect("settled").free(heap);
    }
    kept.into_iter().for_each(|block| block.free(heap));
    is_back(heap, before);
}

#[test]
fn blocks_in_the_window_grow_and_shrink_where_they_are() {
    let (heap, fake, before) = heap(32 << 20, 256 << 20);
    let kept = fragment(heap);
    let mut block = Block::new(heap, 100_000, 8, 9).expect("fits");
    let at = block.ptr;
    for size in [1 << 20, 5 << 20, (2 << 20) + 5000, 40_000, 2 << 20, (2 << 20) + 1, 4 << 20, 9 << 20, 300_000] {
        block.resize(heap, size);
        assert_eq!((block.ptr, block.layout.size()), (at, size));
        assert_eq!(
            heap.used(),
            kept.iter().map(Block::takes).sum::<usize>() + before.used + size.next_multiple_of(FRAME)
        );
    }
    // Pages that a CPU may still remember are not mapped anew: the block moves.
    fake.stuck.store(true, Relaxed);
    block.resize(heap, 200_000);
    assert_eq!(block.ptr, at);
    block.resize(heap, 400_000);
    assert!(block.ptr != at && in_window(heap, &block));
    fake.stuck.store(false, Relaxed);
    // To an object of a slab.
    block.resize(heap, 1000);
    assert!(!in_window(heap, &block));
    block.free(heap);
    kept.into_iter().for_each(|block| block.free(heap));
    is_back(heap, before);
}

/// Growth that has no room for the old and the new copy takes the old one's frames along.
#[test]
fn growth_without_room_for_a_copy_moves_the_frames() {
    let (heap, _, before) = heap(16 << 20, 128 << 20);
    let behind = Block::new(heap, 1 << 20, 8, 12).expect("fits");
    let mut block = Block::new(heap, 6 << 20, 8, 11).expect("fits");
    assert!(block.ptr < behind.ptr, "large runs come from the high end");
    block.resize(heap, 10 << 20);
    assert!(in_window(heap, &block) && block.layout.size() == 10 << 20);
    // The granule behind it is taken: it moves within the window.
    let wall = heap.alloc_mapped(40_000, 8).expect("fits");
    let at = block.ptr;
    assert_eq!(wall.as_ptr() as usize, at.as_ptr() as usize + (10 << 20));
    block.resize(heap, 13 << 20);
    assert!(block.ptr != at && in_window(heap, &block) && block.layout.size() == 13 << 20);
    // More than there is: as it was.
    let at = block.ptr;
    block.resize(heap, 40 << 20);
    assert_eq!((block.ptr, block.layout.size()), (at, 13 << 20));
    block.free(heap);
    behind.free(heap);
    // SAFETY: it came from `alloc_mapped` with this size.
    unsafe { heap.free_mapped(wall, 40_000) };
    is_back(heap, before);
}

#[test]
fn several_threads_share_the_window() {
    let (heap, _, before) = heap(24 << 20, 512 << 20);
    let kept = fragment(heap);
    std::thread::scope(|scope| {
        for slot in 0..4 {
            scope.spawn(move || {
                SLOT.set(slot);
                let mut random = Random(slot as u64 + 77);
                let mut mine: Vec<Block> = Vec::new();
                for i in 0..1500 {
                    match random.below(3) {
                        0 => mine.extend(Block::new(heap, 33_000 + random.below(3 << 20), 8, i as u8)),
                        1 if !mine.is_empty() => {
                            let (n, size) = (random.below(mine.len()), 33_000 + random.below(3 << 20));
                            mine[n].resize(heap, size);
                        }
                        _ if !mine.is_empty() => mine.swap_remove(random.below(mine.len())).free(heap),
                        _ => {}
                    }
                }
                mine.into_iter().for_each(|block| block.free(heap));
            });
        }
    });
    kept.into_iter().for_each(|block| block.free(heap));
    is_back(heap, before);
}
