//! The whole heap, against a model, from several threads, and filled to the brim.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ptr::NonNull;
use std::vec::Vec;

use crate::classes::{FRAME, MAX_SLAB, SIZES, allocated_size};
use crate::{CpuSlot, Heap, Stats};

#[cfg(not(miri))]
mod window;

std::thread_local! {
    static SLOT: Cell<usize> = const { Cell::new(0) };
}

struct TestSlot;

// SAFETY: each test gives each of its threads a number of its own.
unsafe impl CpuSlot for TestSlot {
    fn current() -> usize {
        SLOT.get()
    }
}

type TestHeap = Heap<TestSlot, 4>;

/// Memory of a test: leaked, so that the heap may keep it.
fn heap(bytes: usize) -> &'static TestHeap {
    let memory = std::vec![0u64; bytes / 8].leak();
    let start = memory.as_mut_ptr() as usize;
    let heap = std::boxed::Box::leak(std::boxed::Box::new(TestHeap::new()));
    // SAFETY: the memory was leaked for this heap alone.
    assert!(unsafe { heap.init(core::slice::from_ref(&(start..start + bytes))) });
    heap
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % n
    }

    /// Mostly small, sometimes up to `most`.
    fn size(&mut self, most: usize) -> usize {
        let limit = most >> self.below(most.ilog2() as usize);
        1 + self.below(limit.max(8))
    }
}

/// One live allocation with a pattern in it that nobody else may disturb.
struct Block {
    ptr: NonNull<u8>,
    layout: Layout,
    seed: u8,
}

// SAFETY: a block is memory that whoever holds the value owns.
unsafe impl Send for Block {}

impl Block {
    fn new(heap: &TestHeap, size: usize, align: usize, seed: u8) -> Option<Self> {
        let layout = Layout::from_size_align(size, align).expect("small sizes");
        // SAFETY: the size is not zero.
        let ptr = NonNull::new(unsafe { heap.alloc(layout) })?;
        assert_eq!(ptr.as_ptr() as usize % align, 0);
        let block = Self { ptr, layout, seed };
        block.write();
        Some(block)
    }

    fn write(&self) {
        let bytes = self.layout.size();
        // SAFETY: the block is this value's, `bytes` long.
        let all = unsafe { core::slice::from_raw_parts_mut(self.ptr.as_ptr(), bytes) };
        let edge = bytes.min(64);
        all[..edge].fill(self.seed);
        all[bytes - edge..].fill(self.seed);
        for page in (FRAME..bytes).step_by(FRAME) {
            all[page] = self.seed ^ (page / FRAME) as u8;
        }
    }

    fn check(&self, kept: usize) {
        // SAFETY: the block is this value's and its ends were written.
        let all = unsafe { core::slice::from_raw_parts(self.ptr.as_ptr(), self.layout.size()) };
        assert!(all[..kept.min(64)].iter().all(|&b| b == self.seed));
        let whole = kept == all.len();
        if whole {
            assert!(all[kept - kept.min(64) + 1..].iter().all(|&b| b == self.seed || kept % FRAME < 64));
        }
        for page in (FRAME..kept).step_by(FRAME) {
            assert_eq!(all[page], self.seed ^ (page / FRAME) as u8, "page {} of {kept} bytes", page / FRAME);
        }
    }

    fn resize(&mut self, heap: &TestHeap, size: usize) {
        let kept = self.layout.size().min(size);
        // SAFETY: the block came from this heap with this layout; the size is not zero.
        let Some(ptr) = NonNull::new(unsafe { heap.realloc(self.ptr.as_ptr(), self.layout, size) }) else { return };
        self.ptr = ptr;
        self.layout = Layout::from_size_align(size, self.layout.align()).expect("small sizes");
        self.check(if kept == size { kept.min(64) } else { kept });
        self.write();
    }

    fn free(self, heap: &TestHeap) {
        self.check(self.layout.size());
        // SAFETY: the block came from this heap with this layout and is given up here.
        unsafe { heap.dealloc(self.ptr.as_ptr(), self.layout) };
    }

    fn takes(&self) -> usize {
        allocated_size(self.layout.size(), self.layout.align())
    }
}

#[test]
fn random_operations_against_a_model() {
    let heap = heap(8 << 20);
    let mut random = Random(99);
    let mut blocks: Vec<Block> = Vec::new();
    let mut failed = 0;
    for i in 0..if cfg!(miri) { 1500 } else { 200_000 } {
        match random.below(5) {
            0..=1 => {
                let most = if random.below(20) == 0 { 15 } else { 5 };
                let align = 1 << random.below(most);
                match Block::new(heap, random.size(200_000), align, i as u8) {
                    Some(block) => blocks.push(block),
                    None => {
                        failed += 1;
                        for _ in 0..blocks.len() / 2 {
                            blocks.swap_remove(random.below(blocks.len())).free(heap);
                        }
                    }
                }
            }
            2 if !blocks.is_empty() => {
                let n = random.below(blocks.len());
                let size = random.size(200_000);
                blocks[n].resize(heap, size);
            }
            _ if !blocks.is_empty() => blocks.swap_remove(random.below(blocks.len())).free(heap),
            _ => {}
        }
        if i % 1000 == 0 {
            heap.central.lock().check();
            assert_eq!(heap.used(), blocks.iter().map(Block::takes).sum::<usize>());
        }
    }
    assert!(cfg!(miri) || failed < 200_000 / 4);
    for block in blocks {
        block.free(heap);
    }
    everything_is_back(heap);
}

fn everything_is_back(heap: &TestHeap) {
    is_back(heap, Stats::default());
}

/// As much is free as `before`.
fn is_back(heap: &TestHeap, before: Stats) {
    assert_eq!(heap.used(), before.used);
    for slot in 0..5 {
        SLOT.set(slot);
        heap.drain();
    }
    SLOT.set(0);
    heap.settle();
    let mut central = heap.central.lock();
    central.reclaim();
    central.check();
    drop(central);
    let stats = heap.stats();
    assert_eq!((stats.used, stats.held), (before.used, before.held));
    assert!(stats.held_peak > 0 && stats.longest <= stats.total);
}

#[test]
fn small_objects_take_exactly_their_class() {
    let heap = heap(1 << 20);
    for size in (1..=MAX_SLAB).step_by(if cfg!(miri) { 777 } else { 13 }) {
        let block = Block::new(heap, size, 1, 1).expect("fits");
        assert_eq!(heap.used(), allocated_size(size, 1));
        block.free(heap);
        assert_eq!(heap.used(), 0);
    }
}

/// Ten rounds of filling with 100 B, 8 KiB and 1 MiB values and their headers, while a few small objects made in the
/// middle of each fill stay, as connections' do.
#[test]
#[cfg_attr(miri, ignore = "too slow")]
fn freed_memory_finds_its_way_to_other_sizes() {
    let heap = heap(64 << 20);
    let total = heap.stats().total;
    let mut stay = Vec::new();
    for _round in 0..10 {
        for size in [100 + 20, 8192 + 24, (1 << 20) + 24] {
            let mut blocks = Vec::new();
            while let Some(block) = Block::new(heap, size, 8, 3) {
                blocks.push(block);
                if stay.len() < 30 && blocks.len() % (2 + (1 << 20) / size) == 0 {
                    stay.push(Block::new(heap, 200, 8, 4).expect("fits"));
                }
            }
            let got = blocks.len() * allocated_size(size, 8);
            assert!(got * 100 >= total * 97, "{size}: {} %", got * 100 / total);
            for block in blocks {
                block.free(heap);
            }
        }
    }
    let big = Block::new(heap, 32 << 20, 8, 5).expect("half of memory in one piece");
    big.free(heap);
    for block in stay {
        block.free(heap);
    }
    everything_is_back(heap);
}

#[test]
#[cfg_attr(miri, ignore = "too slow")]
fn frames_stay_near_what_is_used_after_random_deletes() {
    let heap = heap(64 << 20);
    let mut random = Random(5);
    let mut blocks = Vec::new();
    for _ in 0..300_000 {
        blocks.push(Block::new(heap, 64 + random.below(48), 8, 6).expect("fits"));
    }
    let stats = heap.stats();
    assert!(stats.held as f64 <= stats.used as f64 * 1.03, "{stats:?}");
    // Half of them deleted at random and written again with the same sizes: nothing is lost to holes.
    for _ in 0..3 {
        for _ in 0..150_000 {
            blocks.swap_remove(random.below(blocks.len())).free(heap);
        }
        for _ in 0..150_000 {
            blocks.push(Block::new(heap, 64 + random.below(48), 8, 6).expect("fits"));
        }
    }
    let stats = heap.stats();
    assert!(stats.held as f64 <= stats.used as f64 * 1.05, "{stats:?}");
    for block in blocks {
        block.free(heap);
    }
    everything_is_back(heap);
}

#[test]
fn runs_grow_and_shrink_in_place() {
    let heap = heap(4 << 20);
    let mut block = Block::new(heap, 100_000, 8, 9).expect("fits");
    let at = block.ptr;
    for size in [300_000, 50_000, 1_000_000, 200_000] {
        block.resize(heap, size);
        assert_eq!(block.ptr, at);
        assert_eq!(heap.used(), size.next_multiple_of(FRAME));
    }
    block.resize(heap, 1000);
    assert_eq!(heap.used(), 1024);
    block.free(heap);
    everything_is_back(heap);
}

#[test]
fn impossible_sizes_are_refused() {
    let heap = heap(1 << 20);
    for size in [2 << 20, isize::MAX as usize - 4096, 1 << 40] {
        assert!(Block::new(heap, size, 8, 0).is_none());
    }
    assert!(heap.alloc_frames(4096, 1 << 30).is_none());
    assert_eq!(heap.used(), 0);
    assert!(heap.alloc_frames(1, FRAME).is_some());
}

#[test]
fn objects_may_be_freed_by_another_thread() {
    let heap = heap(16 << 20);
    let rounds = if cfg!(miri) { 40 } else { 30_000 };
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..5).map(|_| std::sync::mpsc::sync_channel::<Block>(512)).unzip();
    std::thread::scope(|scope| {
        for (n, receiver) in receivers.into_iter().enumerate() {
            let next = senders[(n + 1) % 5].clone();
            scope.spawn(move || {
                // The fifth has no lists of its own.
                SLOT.set(n);
                let mut random = Random(n as u64 + 1);
                for i in 0..rounds {
                    if let Some(block) = Block::new(heap, random.size(40_000), 8, (i + n) as u8)
                        && let Err(unsent) = next.try_send(block)
                    {
                        let (std::sync::mpsc::TrySendError::Full(block)
                        | std::sync::mpsc::TrySendError::Disconnected(block)) = unsent;
                        block.free(heap);
                    }
                    if let Ok(block) = receiver.try_recv() {
                        block.free(heap);
                    }
                }
                drop(next);
                while let Ok(block) = receiver.recv_timeout(core::time::Duration::from_millis(200)) {
                    block.free(heap);
                }
            });
        }
        drop(senders);
    });
    everything_is_back(heap);
}

#[test]
fn every_class_can_be_filled_and_emptied() {
    let heap = heap(2 << 20);
    let bytes = if cfg!(miri) { 6_000 } else { 300_000 };
    for &size in &SIZES {
        let blocks: Vec<Block> =
            (0..bytes / size as usize + 2).map(|_| Block::new(heap, size as usize, 8, 2).expect("fits")).collect();
        heap.central.lock().check();
        for block in blocks {
            block.free(heap);
        }
    }
    everything_is_back(heap);
}

/// Long-lived objects of other classes, made while memory is nearly full, do not lie in the middle afterwards.
#[test]
#[cfg_attr(miri, ignore = "too slow")]
fn what_stays_leaves_room_for_a_large_value() {
    let heap = heap(128 << 20);
    let mut random = Random(77);
    let mut stay: Vec<Block> = Vec::new();
    for round in 0..3 {
        for size in [8192 + 24, (1 << 20) + 24] {
            let mut blocks: Vec<Block> = Vec::new();
            while heap.used() < 110 << 20 {
                blocks.push(Block::new(heap, size, 8, 1).expect("below the limit"));
                if random.below(40) == 0 {
                    if stay.len() > 60 {
                        stay.swap_remove(random.below(60)).free(heap);
                    }
                    stay.push(Block::new(heap, 16 + random.below(400), 8, 2).expect("below the limit"));
                }
            }
            while !blocks.is_empty() {
                blocks.swap_remove(random.below(blocks.len())).free(heap);
            }
            let big = Block::new(heap, 90 << 20, 8, 3);
            big.unwrap_or_else(|| panic!("round {round}, {size}: {:?}", heap.stats())).free(heap);
        }
    }
}
