//! The heap's window: frames mapped page by page, and when their addresses may be used again.
//!
//! x86 CPUs keep translations until they are told to forget them, each by itself. Nobody is interrupted for that: an
//! address that was unmapped rests until every CPU has emptied its TLB or is halted, and a CPU that is halted empties it
//! before it does anything else. Window pages are not global, so that loading CR3 forgets them and nothing else.

use super::paging::{self, ADDRESS, PRESENT, WRITABLE};
use crate::cpu::MAX_CPUS;
use crate::region::FRAME;
use barium_heap::{GRANULE, Mapper};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};

/// Where the window begins.
const WINDOW: u64 = 0xffff_f000_0000_0000;
/// Its greatest length: 8 TiB.
const MOST: u64 = 1 << 43;

/// How often the tables' losses were named so far.
static EPOCH: AtomicU64 = AtomicU64::new(1);
/// The epoch in which each CPU last emptied its TLB.
static EMPTIED: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(HALTED) }; MAX_CPUS];
/// Halted or not started: it will empty its TLB before it uses the window.
const HALTED: u64 = u64::MAX;
/// Awake, but not through with that.
const WAKING: u64 = 0;

/// The page tables, as the heap uses them.
#[derive(Debug)]
pub struct Tables;

/// Makes the upper tables of a window of at least `bytes`, as far as they reach. `None` when no memory is left for them.
pub fn make(bytes: usize) -> Option<Range<usize>> {
    const TABLE_REACH: u64 = 1 << 30;
    let len = (bytes as u64).min(MOST).next_multiple_of(TABLE_REACH);
    for at in (WINDOW..WINDOW + len).step_by(TABLE_REACH as usize) {
        paging::make_directory(at).ok()?;
    }
    // The CPU that runs is awake.
    quiescent();
    Some(WINDOW as usize..(WINDOW + len) as usize)
}

/// The directory entry of a granule.
fn directory(granule: usize) -> &'static AtomicU64 {
    debug_assert!(granule as u64 >= WINDOW);
    // SAFETY: `make` made the tables down to the directory, and they stay. Entries are only used through atomics.
    unsafe { AtomicU64::from_ptr(paging::entry(granule as u64, 1)) }
}

/// The table's entry of a page whose granule has a table, open or closed.
fn entry(page: usize) -> &'static AtomicU64 {
    let table = directory(page).load(Ordering::Relaxed) & ADDRESS;
    // SAFETY: the table is a frame that the heap gave for this, used through atomics only.
    unsafe { AtomicU64::from_ptr(paging::slot(table, page as u64, 0)) }
}

// SAFETY: pages become what `map` says in the tables that all CPUs share; absent entries are not cached. `settled` waits for
// every CPU's flush (see `EMPTIED`).
unsafe impl Mapper for Tables {
    unsafe fn open(&self, granule: usize, table: usize) {
        let table = paging::virt_to_phys(table as *const u8);
        paging::clear_frame(table);
        directory(granule).store(table | PRESENT | WRITABLE, Ordering::Release);
    }

    unsafe fn map(&self, page: usize, frame: usize, count: usize) {
        let bits = paging::data_bits();
        let phys = paging::virt_to_phys(frame as *const u8);
        for offset in (0..count as u64 * FRAME).step_by(FRAME as usize) {
            entry(page + offset as usize).store((phys + offset) | bits, Ordering::Release);
        }
        // No access to the pages is moved before that.
        compiler_fence(Ordering::SeqCst);
    }

    unsafe fn frame(&self, page: usize) -> usize {
        paging::phys_to_virt(entry(page).load(Ordering::Relaxed) & ADDRESS) as usize
    }

    unsafe fn unmap(&self, page: usize, count: usize) {
        for n in 0..count {
            entry(page + n * FRAME as usize).store(0, Ordering::Release);
        }
    }

    unsafe fn close(&self, granule: usize) {
        debug_assert!(granule.is_multiple_of(GRANULE));
        // The address stays in the entry, which the CPU does not look at any more.
        directory(granule).fetch_and(!PRESENT, Ordering::Release);
    }

    unsafe fn take_table(&self, granule: usize) -> Option<usize> {
        let table = directory(granule).swap(0, Ordering::Relaxed) & ADDRESS;
        (table != 0).then(|| paging::phys_to_virt(table) as usize)
    }

    fn stamp(&self) -> u64 {
        // What was unmapped is visible before the new epoch is.
        EPOCH.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn settled(&self, stamp: u64) -> bool {
        quiescent();
        fence(Ordering::SeqCst);
        EMPTIED.iter().all(|cpu| cpu.load(Ordering::Acquire) >= stamp)
    }
}

/// Between two turns of a CPU's loop: forgets what was unmapped meanwhile.
#[inline]
pub fn quiescent() {
    let emptied = &EMPTIED[super::cpu::id()];
    let epoch = EPOCH.load(Ordering::Acquire);
    if emptied.load(Ordering::Relaxed) != epoch {
        paging::flush();
        emptied.store(epoch, Ordering::Release);
    }
}

/// Before this CPU halts; what it did with the window is done. Returns what [`awake`] must be given.
#[inline]
pub(super) fn halting() -> u64 {
    let emptied = &EMPTIED[super::cpu::id()];
    let before = emptied.load(Ordering::Relaxed);
    emptied.store(HALTED, Ordering::Release);
    before
}

/// After the halt, or when a CPU starts (then `before` is 0), and before it uses the window.
#[inline]
pub(super) fn awake(before: u64) {
    let emptied = &EMPTIED[super::cpu::id()];
    // Either whoever asks sees that this CPU is awake, or this CPU sees his epoch, and with it what he unmapped.
    emptied.store(WAKING, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    let epoch = EPOCH.load(Ordering::Acquire);
    if before != epoch {
        paging::flush();
    }
    emptied.store(epoch, Ordering::Release);
}
