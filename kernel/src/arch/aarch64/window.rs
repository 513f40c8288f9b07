//! The heap's window: frames mapped page by page, and when their addresses may be used again.
//!
//! One instruction makes all CPUs forget, so that nothing has to rest: `settled` issues it and waits for its completion. Between
//! the removal of an entry and the next one in its place lies that invalidation (break before make, Arm ARM D8.16).

use super::memory::{self, ADDRESS, TABLE, VALID};
use super::sysreg;
use crate::region::FRAME;
use barium_heap::{GRANULE, Mapper};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

/// Where the window begins.
const WINDOW: usize = 0xffff_f000_0000_0000;
/// Its greatest length: 8 TiB.
const MOST: usize = 1 << 43;

/// The page tables, as the heap uses them.
#[derive(Debug)]
pub struct Tables;

/// Makes the upper tables of a window of at least `bytes`, as far as they reach. `None` when no memory is left for them.
pub fn make(bytes: usize) -> Option<Range<usize>> {
    const TABLE_REACH: usize = 1 << 30;
    let len = bytes.min(MOST).next_multiple_of(TABLE_REACH);
    for at in (WINDOW..WINDOW + len).step_by(TABLE_REACH) {
        memory::make_directory(at)?;
    }
    Some(WINDOW..WINDOW + len)
}

/// The directory entry of a granule.
fn directory(granule: usize) -> &'static AtomicU64 {
    debug_assert!(granule >= WINDOW);
    memory::directory_entry(granule)
}

/// The table's entry of a page whose granule has a table, open or closed.
fn entry(page: usize) -> &'static AtomicU64 {
    let table = memory::table(directory(page).load(Ordering::Relaxed) & ADDRESS);
    &table[page / FRAME as usize % table.len()]
}

// SAFETY: pages become what `map` says in the tables that all CPUs share, behind a barrier. `settled` makes all CPUs forget.
unsafe impl Mapper for Tables {
    unsafe fn open(&self, granule: usize, table: usize) {
        // SAFETY: the frame was given for this.
        unsafe { (table as *mut u8).write_bytes(0, FRAME as usize) };
        // The CPU may walk to the table as soon as the entry is there: its zeros come first.
        sysreg::dsb_ishst();
        directory(granule).store(memory::virt_to_phys(table as *const u8) | VALID | TABLE, Ordering::Relaxed);
    }

    unsafe fn map(&self, page: usize, frame: usize, count: usize) {
        let phys = memory::virt_to_phys(frame as *const u8);
        for offset in (0..count as u64 * FRAME).step_by(FRAME as usize) {
            entry(page + offset as usize).store((phys + offset) | memory::data_page_bits(), Ordering::Relaxed);
        }
        // Walks see the entries before anybody uses the pages. Absent entries are not cached.
        sysreg::dsb_ishst();
        sysreg::isb();
    }

    unsafe fn frame(&self, page: usize) -> usize {
        memory::phys_to_virt(entry(page).load(Ordering::Relaxed) & ADDRESS) as usize
    }

    unsafe fn unmap(&self, page: usize, count: usize) {
        for n in 0..count {
            entry(page + n * FRAME as usize).store(0, Ordering::Release);
        }
    }

    unsafe fn close(&self, granule: usize) {
        debug_assert!(granule.is_multiple_of(GRANULE));
        // The address stays in the entry, which the CPU does not look at any more.
        directory(granule).fetch_and(!VALID, Ordering::Release);
    }

    unsafe fn take_table(&self, granule: usize) -> Option<usize> {
        let table = directory(granule).swap(0, Ordering::Relaxed) & ADDRESS;
        (table != 0).then(|| memory::phys_to_virt(table) as usize)
    }

    fn stamp(&self) -> u64 {
        0
    }

    fn settled(&self, _: u64) -> bool {
        sysreg::forget_translations();
        true
    }
}

/// Other CPUs' translations are forgotten without their help.
#[inline(always)]
pub fn quiescent() {}
