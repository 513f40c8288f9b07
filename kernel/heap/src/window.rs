//! Allocations that no run of frames is long enough for: frames from wherever they are free, mapped one after another in a
//! window of virtual addresses.
//!
//! The window is cut into granules, each of which the platform's page tables reach through one table of its own. A range of
//! whole granules belongs to one allocation; its tables are frames of the heap, taken and given back with it. So
//! running out of memory half-way is the only failure, and it gives everything back.
//!
//! Addresses are not used again before every CPU has forgotten what they meant ([`Mapper::settled`]). Nobody waits for
//! that: freed ranges are retired, and looked at again when the window or the tables are needed. The frames behind
//! them are free at once: an address that nobody has any more cannot reach them.

use core::mem::swap;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use crate::classes::FRAME;
use crate::{CpuSlot, Heap};

/// Pages that one table maps.
pub const PAGES: usize = 512;

/// Bytes of address space that one table maps.
pub const GRANULE: usize = PAGES * FRAME;

/// Most frames that are taken or given back under one hold of the lock.
const PIECE: usize = 256;

/// Retired granules whose tables are kept until something is needed.
const LAZY: usize = 32;

/// What the platform's page tables do for the window. Addresses of frames and tables are those that the heap was given
/// ([`Heap::init`]); those of pages and granules lie in the window.
///
/// # Safety
/// Between [`map`](Self::map) and [`unmap`](Self::unmap) or [`close`](Self::close) the page must be the frame, readable and
/// writable, on every CPU that learns of it through synchronisation. What [`settled`](Self::settled) promises must hold.
pub unsafe trait Mapper: Sync {
    /// Gives a granule its table: a frame that holds old data. No page of it is mapped then.
    ///
    /// # Safety
    /// The granule must have no table, the frame no other use until [`take_table`](Self::take_table) returns it.
    unsafe fn open(&self, granule: usize, table: usize);

    /// Maps `count` frames, which follow each other, at `page` and the pages behind it.
    ///
    /// # Safety
    /// All must lie in one open granule, not be mapped, and if they ever were since it was opened, that must have settled.
    unsafe fn map(&self, page: usize, frame: usize, count: usize);

    /// The frame behind a mapped page. A granule that was closed still tells.
    ///
    /// # Safety
    /// The page must be mapped, or have been when its granule was closed, and the granule have its table.
    unsafe fn frame(&self, page: usize) -> usize;

    /// Unmaps `count` pages of an open granule.
    ///
    /// # Safety
    /// They must be mapped and used by nobody.
    unsafe fn unmap(&self, page: usize, count: usize);

    /// Unmaps all of an open granule, which keeps its table until that has settled.
    ///
    /// # Safety
    /// Nobody may use its pages.
    unsafe fn close(&self, granule: usize);

    /// Takes the table back from a granule that was closed and has settled. `None` when it has none.
    ///
    /// # Safety
    /// All CPUs must have forgotten the granule.
    unsafe fn take_table(&self, granule: usize) -> Option<usize>;

    /// A name for all that was unmapped and closed until now.
    fn stamp(&self) -> u64;

    /// Whether no CPU holds a translation, or part of one, from before `stamp` was given. Lets the calling CPU forget its
    /// own; does not wait for others.
    fn settled(&self, stamp: u64) -> bool;
}

/// A set of granules.
struct Bits {
    words: &'static mut [u64],
    count: usize,
}

impl Bits {
    const fn none() -> Self {
        Self { words: &mut [], count: 0 }
    }

    fn len(&self) -> usize {
        self.words.len() * 64
    }

    fn has(&self, at: usize) -> bool {
        self.words[at / 64] >> (at % 64) & 1 != 0
    }

    fn add(&mut self, range: Range<usize>) {
        self.count += range.len();
        for at in range {
            debug_assert!(!self.has(at));
            self.words[at / 64] |= 1 << (at % 64);
        }
    }

    fn remove(&mut self, at: usize) {
        debug_assert!(self.has(at));
        self.count -= 1;
        self.words[at / 64] &= !(1 << (at % 64));
    }

    fn first(&self) -> Option<usize> {
        let word = self.words.iter().position(|word| *word != 0)?;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    /// The first `n` numbers in a row from `from` on that are not in the set.
    fn gap(&self, from: usize, n: usize) -> Option<usize> {
        let (mut at, mut run) = (from, 0);
        while at < self.len() {
            if run == 0 && at.is_multiple_of(64) && self.words[at / 64] == u64::MAX {
                at += 64;
                continue;
            }
            run = if self.has(at) { 0 } else { run + 1 };
            at += 1;
            if run == n {
                return Some(at - n);
            }
        }
        None
    }

    /// Most numbers in a row that are not in the set.
    fn widest_gap(&self) -> usize {
        let (mut run, mut widest) = (0, 0);
        for (at, word) in self.words.iter().enumerate() {
            if *word == 0 {
                run += 64;
            } else {
                for at in at * 64..(at + 1) * 64 {
                    widest = widest.max(run);
                    run = if self.has(at) { 0 } else { run + 1 };
                }
            }
        }
        widest.max(run)
    }
}

/// The window: which granules are in use, and what has still to settle.
pub struct Window {
    mapper: Option<&'static dyn Mapper>,
    base: usize,
    /// Where the search for room goes on: addresses come round late, and have settled by then.
    next: usize,
    /// Not to be handed out: in use, retired or closing.
    taken: Bits,
    /// Given up since the last stamp.
    retired: Bits,
    /// Given up before it.
    closing: Bits,
    stamp: u64,
    /// Whether all of `closing` has settled.
    settled: bool,
    /// Single pages that were unmapped in granules which stay, until that has settled.
    partial: Option<u64>,
}

impl Window {
    /// No window.
    pub const fn new() -> Self {
        Self {
            mapper: None,
            base: 0,
            next: 0,
            taken: Bits::none(),
            retired: Bits::none(),
            closing: Bits::none(),
            stamp: 0,
            settled: false,
            partial: None,
        }
    }

    /// Most pages that could be mapped in one range.
    pub fn longest(&self) -> usize {
        self.taken.widest_gap() * PAGES
    }

    fn granule(&self, address: usize) -> usize {
        (address - self.base) / GRANULE
    }

    /// The address of a fresh range of `n` granules.
    fn reserve(&mut self, n: usize) -> Option<usize> {
        let first = self.taken.gap(self.next, n).or_else(|| self.taken.gap(0, n))?;
        self.taken.add(first..first + n);
        self.next = first + n;
        Some(self.base + first * GRANULE)
    }

    /// Adds `n` granules from `address` on, if they are free.
    fn extend(&mut self, address: usize, n: usize) -> bool {
        let range = self.granule(address)..self.granule(address) + n;
        if range.end > self.taken.len() || range.clone().any(|at| self.taken.has(at)) {
            return false;
        }
        self.taken.add(range);
        true
    }

    /// Gives up `n` granules from `address` on, closed or never opened. Returns whether it is time to settle.
    fn retire(&mut self, address: usize, n: usize) -> bool {
        let first = self.granule(address);
        self.retired.add(first..first + n);
        self.retired.count >= LAZY
    }

    /// Makes one granule that has settled free again; returns its table, if it had one. `None` when there is none.
    fn settle_one(&mut self) -> Option<Option<usize>> {
        let mapper = self.mapper?;
        if self.closing.count == 0 {
            if self.retired.count == 0 {
                return None;
            }
            swap(&mut self.retired, &mut self.closing);
            (self.stamp, self.settled) = (mapper.stamp(), false);
        }
        if !self.settled {
            self.settled = mapper.settled(self.stamp);
            if !self.settled {
                return None;
            }
        }
        let granule = self.closing.first()?;
        self.closing.remove(granule);
        self.taken.remove(granule);
        // SAFETY: the granule was retired before the stamp, and that has settled.
        Some(unsafe { mapper.take_table(self.base + granule * GRANULE) })
    }

    /// Whether pages that were unmapped one by one may be mapped again.
    fn partial_settled(&mut self) -> bool {
        if let (Some(stamp), Some(mapper)) = (self.partial, self.mapper)
            && mapper.settled(stamp)
        {
            self.partial = None;
        }
        self.partial.is_none()
    }
}

/// Where an allocation lies in the window.
#[derive(Clone, Copy)]
struct Mapped {
    mapper: &'static dyn Mapper,
    at: usize,
}

impl Mapped {
    fn page(&self, n: usize) -> usize {
        self.at + n * FRAME
    }

    /// The frame behind page `n`, and how many of the following pages up to `end` continue it, at most [`PIECE`].
    ///
    /// # Safety
    /// As for [`Mapper::frame`], for all of them.
    unsafe fn piece(&self, n: usize, end: usize) -> (usize, usize) {
        // SAFETY: the caller's duty.
        let frame = |n: usize| unsafe { self.mapper.frame(self.page(n)) };
        let first = frame(n);
        let most = (end - n).min(PIECE);
        (first, (1..most).find(|i| frame(n + i) != first + i * FRAME).unwrap_or(most))
    }

    /// Closes the granules of pages `range`, which begins at a granule's first page.
    ///
    /// # Safety
    /// As for [`Mapper::close`].
    unsafe fn close(&self, range: Range<usize>) {
        for n in range.step_by(PAGES) {
            // SAFETY: the caller's duty.
            unsafe { self.mapper.close(self.page(n)) };
        }
    }
}

/// Granules of `pages` pages.
fn granules(pages: usize) -> usize {
    pages.div_ceil(PAGES)
}

impl<C: CpuSlot, const CPUS: usize> Heap<C, CPUS> {
    /// Gives the heap a window of addresses, once, after [`Heap::init`]. It takes memory for its sets: three bits a granule.
    /// Returns false when that cannot be had.
    ///
    /// # Safety
    /// The window begins at a multiple of [`GRANULE`] (of its length, whole multiples of 64 granules are used), is not mapped, and nobody but the mapper maps anything there.
    pub unsafe fn set_window(&self, window: Range<usize>, mapper: &'static dyn Mapper) -> bool {
        let words = window.len() / GRANULE / 64;
        let Some(sets) = self.alloc_frames(3 * words * size_of::<u64>(), FRAME) else { return false };
        // SAFETY: the memory was just taken for this, aligned to a frame, is as long as that, and is never given back.
        let sets = unsafe {
            sets.write_bytes(0, 3 * words * size_of::<u64>());
            core::slice::from_raw_parts_mut(sets.cast::<u64>().as_ptr(), 3 * words)
        };
        let (taken, rest) = sets.split_at_mut(words);
        let (retired, closing) = rest.split_at_mut(words);
        let bits = |words| Bits { words, count: 0 };
        *self.window.lock() = Window {
            mapper: Some(mapper),
            base: window.start,
            taken: bits(taken),
            retired: bits(retired),
            closing: bits(closing),
            ..Window::new()
        };
        self.window_start.store(window.start, Ordering::Relaxed);
        self.window_bytes.store(words * 64 * GRANULE, Ordering::Relaxed);
        true
    }

    /// Whether an address of this heap lies in the window, where what follows each other in addresses need not in memory.
    #[inline]
    pub fn in_window(&self, address: usize) -> bool {
        address.wrapping_sub(self.window_start.load(Ordering::Relaxed)) < self.window_bytes.load(Ordering::Relaxed)
    }

    /// Makes what has settled in the window free again, and the frames of its tables.
    pub(crate) fn settle(&self) {
        loop {
            let settled = self.window.lock().settle_one();
            match settled {
                Some(Some(table)) => self.give(table, 1),
                Some(None) => {}
                None => return,
            }
        }
    }

    /// Up to `most` frames that follow each other, and how many; each of them can be given back by itself.
    fn take_piece(&self, most: usize) -> Option<(usize, usize)> {
        let mut central = self.central();
        let spans = &mut central.slabs.spans;
        let (first, n) = spans.take_shortest(most.min(PIECE) as u32)?;
        Some((spans.address(first), n as usize))
    }

    fn give(&self, frame: usize, count: usize) {
        let mut central = self.central();
        let first = central.slabs.spans.frame_of(frame);
        central.slabs.spans.release(first, count as u32);
    }

    /// A range for `pages` pages, without any yet. `None` without a window, without room in it or, to spare the work, when
    /// fewer frames than `fresh` and the tables are free.
    fn reserve(&self, pages: usize, fresh: usize) -> Option<Mapped> {
        self.settle();
        if self.central().slabs.spans.free_frames() < fresh.checked_add(granules(pages))? {
            return None;
        }
        let mut window = self.window.lock();
        let mapper = window.mapper?;
        let at = window.reserve(granules(pages))?;
        Some(Mapped { mapper, at })
    }

    /// Maps pages `from..to` with what `source` gives for a page and a number of frames, at most that many. Granules that
    /// begin there are opened. Returns the end of what was mapped, which is before `to` when memory ran out; no granule
    /// is open then that has no page.
    fn map_pages(
        &self,
        range: Mapped,
        from: usize,
        to: usize,
        source: &mut dyn FnMut(usize, usize) -> Option<(usize, usize)>,
    ) -> usize {
        let mut page = from;
        while page < to {
            let fresh = page.is_multiple_of(PAGES);
            if fresh {
                let Some((table, _)) = self.take_piece(1) else { return page };
                // SAFETY: the range is the caller's and this granule was not opened since it is; the frame is fresh.
                unsafe { range.mapper.open(range.page(page), table) };
            }
            let room = (to - page).min(PAGES - page % PAGES);
            let Some((frame, n)) = source(page, room) else {
                if fresh {
                    // SAFETY: it was just opened and has no page.
                    unsafe { range.mapper.close(range.page(page)) };
                }
                return page;
            };
            // SAFETY: the pages belong to the caller's range, in one open granule, and are not mapped: `from` is the end of
            // what is, and what was unmapped behind it has settled (`resize_mapped` looks).
            unsafe { range.mapper.map(range.page(page), frame, n) };
            page += n;
        }
        to
    }

    /// Gives back the frames of `pages`, whose granules are closed.
    ///
    /// # Safety
    /// The pages were mapped, each frame only here, and their tables are there still.
    unsafe fn give_pages(&self, range: Mapped, pages: Range<usize>) {
        let mut page = pages.start;
        while page < pages.end {
            // SAFETY: the caller's duty.
            let (frame, n) = unsafe { range.piece(page, pages.end) };
            self.give(frame, n);
            page += n;
        }
    }

    fn retire(&self, range: Mapped, granules: Range<usize>) {
        let retired = self.window.lock().retire(range.at + granules.start * GRANULE, granules.len());
        if retired {
            self.settle();
        }
    }

    fn mapped(&self, at: usize) -> Option<Mapped> {
        self.window.lock().mapper.map(|mapper| Mapped { mapper, at })
    }

    /// Takes `bytes`, rounded up to whole frames, in the window. The contents are undefined.
    #[cold]
    pub(crate) fn alloc_mapped(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let pages = bytes.div_ceil(FRAME);
        if align > GRANULE {
            return None;
        }
        let range = self.reserve(pages, pages)?;
        let end = self.map_pages(range, 0, pages, &mut |_, most| self.take_piece(most));
        if end < pages {
            // SAFETY: nobody else knows of the range yet.
            unsafe {
                range.close(0..end);
                self.give_pages(range, 0..end);
            }
            self.retire(range, 0..granules(pages));
            return None;
        }
        self.uncached.fetch_add(pages * FRAME, Ordering::Relaxed);
        NonNull::new(range.at as *mut u8)
    }

    /// Gives back what [`Heap::alloc_mapped`] returned, as long as it is now.
    ///
    /// # Safety
    /// As for [`core::alloc::GlobalAlloc::dealloc`].
    #[cold]
    pub(crate) unsafe fn free_mapped(&self, start: NonNull<u8>, bytes: usize) {
        let pages = bytes.div_ceil(FRAME);
        let Some(range) = self.mapped(start.as_ptr() as usize) else { return };
        // SAFETY: the caller gives the pages up.
        unsafe {
            range.close(0..pages);
            self.give_pages(range, 0..pages);
        }
        self.retire(range, 0..granules(pages));
        self.uncached.fetch_sub(pages * FRAME, Ordering::Relaxed);
    }

    /// Makes `old` pages at `start` `new` pages without moving them. Returns false when that cannot be done; making
    /// them fewer always can.
    ///
    /// # Safety
    /// They are the caller's, who gives up those behind `new`.
    #[cold]
    pub(crate) unsafe fn resize_mapped(&self, start: *mut u8, old: usize, new: usize) -> bool {
        let Some(range) = self.mapped(start as usize) else { return false };
        if new < old {
            // SAFETY: the caller's duty.
            unsafe { self.cut(range, old, new) };
            self.retire(range, granules(new)..granules(old));
            return true;
        }
        let (have, want) = (granules(old), granules(new));
        self.settle();
        if self.central().slabs.spans.free_frames() < (new - old) + (want - have) {
            return false;
        }
        {
            let mut window = self.window.lock();
            // The rest of the last granule may have been mapped before.
            if !old.is_multiple_of(PAGES) && !window.partial_settled()
                || !window.extend(range.at + have * GRANULE, want - have)
            {
                return false;
            }
        }
        let end = self.map_pages(range, old, new, &mut |_, most| self.take_piece(most));
        if end < new {
            // SAFETY: the pages behind `old` were just mapped and nobody knows of them.
            unsafe { self.cut(range, end, old) };
            self.retire(range, have..want);
        }
        end == new
    }

    /// Unmaps the pages `new..old` and gives their frames back; the granules behind the last page are closed.
    ///
    /// # Safety
    /// The pages are mapped and nobody uses them.
    unsafe fn cut(&self, range: Mapped, old: usize, new: usize) {
        let whole = (granules(new) * PAGES).min(old);
        // SAFETY: the caller's duty.
        unsafe {
            range.close(whole..old);
            self.give_pages(range, whole..old);
        }
        if new == whole {
            return;
        }
        let mut page = new;
        while page < whole {
            // SAFETY: as above. The frames are unmapped before anybody else can have them.
            let (frame, n) = unsafe {
                let piece = range.piece(page, whole);
                range.mapper.unmap(range.page(page), piece.1);
                piece
            };
            self.give(frame, n);
            page += n;
        }
        let stamp = range.mapper.stamp();
        self.window.lock().partial = Some(stamp);
    }

    /// Makes `old` frames at `start`, a run or in the window, `new` ones at another address in the window, without copying
    /// them: for growth when there is no room for both. Returns null, and changes nothing, when that cannot be done.
    ///
    /// # Safety
    /// They are the caller's, who gives up the old address if a new one is returned.
    #[cold]
    pub(crate) unsafe fn move_mapped(&self, start: *mut u8, old: usize, new: usize) -> *mut u8 {
        let from = start as usize;
        let Some(range) = self.reserve(new, new - old) else { return core::ptr::null_mut() };
        let source = Mapped { at: from, ..range };
        let is_run = !self.in_window(from);
        let end = self.map_pages(range, 0, new, &mut |page, most| match page {
            _ if page >= old => self.take_piece(most),
            _ if is_run => Some((from + page * FRAME, most.min(old - page))),
            // SAFETY: the pages are the caller's and mapped.
            _ => Some(unsafe { source.piece(page, old.min(page + most)) }),
        });
        if end < new {
            // SAFETY: nobody knows of the range; what lies before `old` goes on under its other address.
            unsafe {
                range.close(0..end);
                self.give_pages(range, old.min(end)..end);
            }
            self.retire(range, 0..granules(new));
            return core::ptr::null_mut();
        }
        if is_run {
            let mut central = self.central();
            let first = central.slabs.spans.frame_of(from);
            central.slabs.spans.split(first, old as u32);
        } else {
            // SAFETY: the caller gives up the old address; the frames are the new range's.
            unsafe { source.close(0..old) };
            self.retire(source, 0..granules(old));
        }
        self.uncached.fetch_add((new - old) * FRAME, Ordering::Relaxed);
        range.at as *mut u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn bits(words: usize) -> Bits {
        Bits { words: vec![0; words].leak(), count: 0 }
    }

    #[test]
    fn gaps_are_found_across_words() {
        let mut set = bits(4);
        assert_eq!((set.gap(0, 256), set.gap(0, 257), set.gap(1, 256), set.widest_gap()), (Some(0), None, None, 256));
        set.add(0..64);
        set.add(70..71);
        assert_eq!((set.gap(0, 6), set.gap(0, 7), set.gap(65, 6)), (Some(64), Some(71), Some(71)));
        assert_eq!((set.gap(0, 185), set.gap(0, 186), set.widest_gap()), (Some(71), None, 185));
        set.remove(3);
        assert_eq!((set.gap(0, 1), set.first(), set.count), (Some(3), Some(0), 64));
        assert_eq!(bits(0).gap(0, 1), None);
    }
}
