//! Runs of frames ("spans"): a segregated-fit allocator with boundary tags.
//!
//! Every span, free or used, has a tag in the table entry of its first and of its last frame, so that a freed span
//! merges with its neighbours at once, and free spans hang in lists by length (exact below 16 frames, eight lists to a
//! doubling above), found by a bitmap. Both operations are O(1), and a span of any length is taken without rounding to
//! a power of two: see `docs/decisions/heap.md` for why this and not binary buddies.
//!
//! Small spans come from the low end of the lowest free span (of those that head a list), large ones from the high end of the
//! shortest that fits: what stays after memory was full and was emptied again (buffers of connections that were made
//! meanwhile) then lies at the ends, and the middle is free for large values.

use crate::classes::{FRAME, FRAME_SHIFT};

/// Index of a frame; frame 0 is the sentinel below the lowest one.
pub type FrameId = u32;

/// No frame.
pub const NIL: FrameId = u32::MAX;

/// Spans of this many frames and more are taken from the high end.
const LARGE: u32 = 64;

/// Entries of a list searched when no list of surely long enough spans has any.
const SEARCH_LIMIT: usize = 256;

/// Lists of free spans: 16 exact ones and 8 for each doubling up to 2^32 frames.
const BINS: usize = 240;

/// End of a slab's list of free objects.
pub const NO_OBJECT: u16 = u16::MAX;

/// What a frame is. Only the first and the last frame of a free or used span carry a valid kind; in a slab every one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Not memory of this heap.
    Hole,
    /// End of a free span.
    Free,
    /// End of a span that was handed out.
    Used,
    /// First frame of a slab.
    Slab,
    /// First frame of a slab that stays when it is empty.
    Home,
    /// Further frame of a slab; its `next` names the first.
    SlabBody,
}

/// A frame's entry in the table: 16 bytes for 4096, and never touched before the frame is.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// Slab: the size class.
    pub class: u8,
    /// Slab: objects handed out.
    pub used: u16,
    /// Ends of a span: its length in frames. Slab: see [`Frame::set_objects`].
    pub len: u32,
    /// Link of the list that a free span or a slab hangs in. Further frames of a slab: the first one.
    pub next: FrameId,
    /// Link of that list.
    pub prev: FrameId,
}

impl Frame {
    const fn new(kind: Kind, len: u32) -> Self {
        Self { kind, class: 0, used: 0, len, next: NIL, prev: NIL }
    }

    /// Slab: the first free object and the first one never handed out yet, as offsets in units of 8 bytes.
    pub fn objects(&self) -> (u16, u16) {
        (self.len as u16, (self.len >> 16) as u16)
    }

    /// Slab: sets what [`Frame::objects`] returns.
    pub fn set_objects(&mut self, free: u16, carved: u16) {
        self.len = u32::from(free) | u32::from(carved) << 16;
    }
}

/// The frames of the heap and its free spans.
pub struct Spans {
    /// Address of frame 0.
    base: usize,
    /// One entry a frame. Entries that no slab and no span's end covers are uninitialised or stale.
    table: *mut Frame,
    /// Entries in `table`, both sentinels included.
    frames: u32,
    free_frames: u32,
    total_frames: u32,
    heads: [FrameId; BINS],
    occupied: [u64; BINS.div_ceil(64)],
}

// SAFETY: `table` is memory that this value alone uses; it may move between threads with it.
unsafe impl Send for Spans {}

impl Spans {
    /// No memory yet.
    pub const fn new() -> Self {
        Self {
            base: 0,
            table: core::ptr::null_mut(),
            frames: 0,
            free_frames: 0,
            total_frames: 0,
            heads: [NIL; BINS],
            occupied: [0; BINS.div_ceil(64)],
        }
    }

    /// Takes over the memory in `regions` (address ranges; unaligned ends are left out). The table is put at the low
    /// end of the first region that has room for it. Returns false, and takes nothing, when none has or when the heap
    /// already has memory.
    ///
    /// # Safety
    /// The regions must be disjoint, mapped, writable, used by nothing else, and stay so for ever.
    pub unsafe fn init(&mut self, regions: &[core::ops::Range<usize>]) -> bool {
        let whole = |r: &core::ops::Range<usize>| r.start.next_multiple_of(FRAME)..r.end & !(FRAME - 1);
        let used = || regions.iter().map(whole).filter(|r| !r.is_empty());
        let (Some(low), Some(high)) = (used().map(|r| r.start).min(), used().map(|r| r.end).max()) else {
            return false;
        };
        // One sentinel frame on either side, so that every frame has neighbours.
        let frames = (high - low) / FRAME + 2;
        let table_bytes = (frames * size_of::<Frame>()).next_multiple_of(FRAME);
        let Some(home) = used().position(|r| r.len() > table_bytes) else { return false };
        if !self.table.is_null() || frames >= NIL as usize / 2 {
            return false;
        }
        self.base = low - FRAME;
        self.frames = frames as u32;
        let regions =
            || used().enumerate().map(|(i, r)| if i == home { r.start + table_bytes..r.end } else { r.clone() });
        let Some(table) = used().nth(home) else { return false };
        self.table = table.start as *mut Frame;
        let base = self.base;
        let id = |addr: usize| ((addr - base) >> FRAME_SHIFT) as u32;
        for r in regions() {
            let (first, end) = (id(r.start), id(r.end));
            *self.at(first - 1) = Frame::new(Kind::Hole, 0);
            *self.at(end) = Frame::new(Kind::Hole, 0);
        }
        for r in regions() {
            let (first, end) = (id(r.start), id(r.end));
            self.total_frames += end - first;
            self.release(first, end - first);
        }
        true
    }

    /// The entry of a frame.
    #[inline]
    pub fn at(&mut self, id: FrameId) -> &mut Frame {
        debug_assert!(id < self.frames);
        // SAFETY: `id` came from this table (a list link, a span's neighbour or an address of this heap), so it is in
        // bounds; entries that are read were written before: by `init` for the sentinels, by `tag` for spans' ends and
        // by `claim_slab` for slabs. Any bit pattern that those wrote is a valid `Frame`.
        unsafe { &mut *self.table.add(id as usize) }
    }

    /// The frame that an address of this heap lies in.
    #[inline]
    pub fn frame_of(&self, addr: usize) -> FrameId {
        ((addr - self.base) >> FRAME_SHIFT) as u32
    }

    /// The address of a frame.
    #[inline]
    pub fn address(&self, id: FrameId) -> usize {
        self.base + ((id as usize) << FRAME_SHIFT)
    }

    /// Frames in free spans.
    pub fn free_frames(&self) -> usize {
        self.free_frames as usize
    }

    /// Frames under management, without the table's own.
    pub fn total_frames(&self) -> usize {
        self.total_frames as usize
    }

    /// Length of the longest free span, in frames, to the resolution of its list.
    pub fn longest(&mut self) -> usize {
        let Some(bin) = (0..BINS).rev().find(|&b| self.heads[b] != NIL) else { return 0 };
        let mut at = self.heads[bin];
        let mut longest = 0;
        for _ in 0..SEARCH_LIMIT {
            if at == NIL {
                break;
            }
            longest = longest.max(self.at(at).len as usize);
            at = self.at(at).next;
        }
        longest
    }

    /// Takes a span of `n` frames whose address is a multiple of `align` frames (a power of two).
    pub fn take(&mut self, n: u32, align: u32) -> Option<FrameId> {
        debug_assert!(n > 0 && align.is_power_of_two());
        let want = if align > 1 { n.checked_add(align - 1)? } else { n };
        if want >= self.frames {
            return None;
        }
        let found = self.find(want)?;
        let len = self.at(found).len;
        self.unlink(found, len);
        self.free_frames -= len;
        let first = if align > 1 {
            let mask = (align as usize) * FRAME - 1;
            self.frame_of((self.address(found) + mask) & !mask)
        } else if n >= LARGE {
            found + (len - n)
        } else {
            found
        };
        // The used span is tagged before its neighbours are freed, so that they do not merge across it.
        self.tag(first, n, Kind::Used);
        if first > found {
            self.release(found, first - found);
        }
        let rest = found + len - (first + n);
        if rest > 0 {
            self.release(first + n, rest);
        }
        Some(first)
    }

    /// Takes the shortest free span, or `most` frames of it; returns their number too. Each frame is a span of its own
    /// afterwards, so that they can be given back in any pieces.
    pub fn take_shortest(&mut self, most: u32) -> Option<(FrameId, u32)> {
        let bin = self.bins_from(0).next()?;
        let first = self.heads[bin];
        let len = self.at(first).len;
        let n = len.min(most);
        self.unlink(first, len);
        self.free_frames -= len;
        self.split(first, n);
        if len > n {
            self.release(first + n, len - n);
        }
        Some((first, n))
    }

    /// Makes each of `n` used frames from `first` on a span of its own.
    pub fn split(&mut self, first: FrameId, n: u32) {
        for id in first..first + n {
            self.tag(id, 1, Kind::Used);
        }
    }

    /// Gives a span back: `n` frames from `first`, all of which were taken, in one piece or several.
    pub fn release(&mut self, mut first: FrameId, mut n: u32) {
        self.free_frames += n;
        let left = *self.at(first - 1);
        if left.kind == Kind::Free {
            first -= left.len;
            n += left.len;
            self.unlink(first, left.len);
        }
        let right = *self.at(first + n);
        if right.kind == Kind::Free {
            self.unlink(first + n, right.len);
            n += right.len;
        }
        self.tag(first, n, Kind::Free);
        self.link(first, bin_of(n));
    }

    /// Hangs a free span into its list: at the head if it is the lowest so far, else behind the head.
    fn link(&mut self, first: FrameId, bin: usize) {
        let head = self.heads[bin];
        if head < first {
            let second = self.at(head).next;
            self.at(head).next = first;
            let frame = self.at(first);
            (frame.prev, frame.next) = (head, second);
            if second != NIL {
                self.at(second).prev = first;
            }
            return;
        }
        self.at(first).next = head;
        if head != NIL {
            self.at(head).prev = first;
        }
        self.heads[bin] = first;
        self.occupied[bin / 64] |= 1 << (bin % 64);
    }

    /// Length of the used span that begins at `first`.
    pub fn length(&mut self, first: FrameId) -> u32 {
        self.at(first).len
    }

    /// Makes the used span at `first` `n` frames long without moving it. Returns false when what follows is not free.
    pub fn resize(&mut self, first: FrameId, n: u32) -> bool {
        let len = self.length(first);
        if n < len {
            self.tag(first, n, Kind::Used);
            self.release(first + n, len - n);
        } else if n > len {
            let next = *self.at(first + len);
            let more = n - len;
            if next.kind != Kind::Free || next.len < more {
                return false;
            }
            self.unlink(first + len, next.len);
            self.free_frames -= next.len;
            self.tag(first, n, Kind::Used);
            if next.len > more {
                self.release(first + n, next.len - more);
            }
        }
        true
    }

    /// Turns a used span into a slab of `class` without objects handed out. `kind`: [`Kind::Slab`] or [`Kind::Home`].
    pub fn claim_slab(&mut self, first: FrameId, n: u32, class: u8, kind: Kind) {
        for id in first + 1..first + n {
            *self.at(id) = Frame { next: first, ..Frame::new(Kind::SlabBody, 0) };
        }
        let head = self.at(first);
        *head = Frame { class, ..Frame::new(kind, 0) };
        head.set_objects(NO_OBJECT, 0);
    }

    /// A free span of at least `n` frames.
    fn find(&self, n: u32) -> Option<FrameId> {
        let sure = bin_above(n);
        if n < LARGE {
            let lowest = self.bins_from(sure).map(|bin| self.heads[bin]).min();
            if lowest.is_some() {
                return lowest;
            }
        } else if let Some(bin) = self.bins_from(sure).next() {
            return Some(self.heads[bin]);
        }
        // Nothing surely fits; the request's own list may still hold a span that is long enough.
        let bin = bin_of(n);
        if bin == sure {
            return None;
        }
        let mut at = self.heads[bin];
        for _ in 0..SEARCH_LIMIT {
            if at == NIL {
                return None;
            }
            // SAFETY: `at` is linked in a list, so its entry was written by `tag` and is in bounds.
            let frame = unsafe { &*self.table.add(at as usize) };
            if frame.len >= n {
                return Some(at);
            }
            at = frame.next;
        }
        None
    }

    /// The lists from `bin` on that have spans, shortest spans first.
    fn bins_from(&self, bin: usize) -> impl Iterator<Item = usize> {
        let mut word = bin / 64;
        let mut bits = self.occupied.get(word).copied().unwrap_or(0) & (u64::MAX << (bin % 64));
        core::iter::from_fn(move || {
            while bits == 0 {
                word += 1;
                bits = *self.occupied.get(word)?;
            }
            let bit = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            Some(word * 64 + bit)
        })
    }

    fn unlink(&mut self, first: FrameId, len: u32) {
        let Frame { next, prev, .. } = *self.at(first);
        if next != NIL {
            self.at(next).prev = prev;
        }
        if prev != NIL {
            self.at(prev).next = next;
        } else {
            let bin = bin_of(len);
            debug_assert_eq!(self.heads[bin], first);
            self.heads[bin] = next;
            if next == NIL {
                self.occupied[bin / 64] &= !(1 << (bin % 64));
            }
        }
    }

    fn tag(&mut self, first: FrameId, n: u32, kind: Kind) {
        let frame = Frame::new(kind, n);
        *self.at(first) = frame;
        *self.at(first + n - 1) = frame;
    }

    /// Walks every list and neighbour relation; for tests.
    #[cfg(test)]
    pub fn check(&mut self) {
        let mut free = 0;
        for bin in 0..BINS {
            let mut at = self.heads[bin];
            assert_eq!(at != NIL, self.occupied[bin / 64] >> (bin % 64) & 1 == 1);
            let mut prev = NIL;
            while at != NIL {
                let f = *self.at(at);
                assert_eq!((f.kind, f.prev), (Kind::Free, prev));
                assert_eq!(bin_of(f.len), bin);
                let last = *self.at(at + f.len - 1);
                assert_eq!((last.kind, last.len), (Kind::Free, f.len));
                assert_ne!(self.at(at - 1).kind, Kind::Free);
                assert_ne!(self.at(at + f.len).kind, Kind::Free);
                free += f.len;
                prev = at;
                at = f.next;
            }
        }
        assert_eq!(free, self.free_frames);
    }
}

/// The list that a free span of `n` frames hangs in.
fn bin_of(n: u32) -> usize {
    if n < 16 {
        n as usize
    } else {
        let log = n.ilog2();
        16 + (log as usize - 4) * 8 + (n >> (log - 3) & 7) as usize
    }
}

/// The first list all of whose spans have at least `n` frames.
fn bin_above(n: u32) -> usize {
    if n < 16 { n as usize } else { bin_of(n.saturating_add((1 << (n.ilog2() - 3)) - 1)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{vec, vec::Vec};

    #[test]
    fn bins_cover_all_lengths() {
        let mut n: u32 = 1;
        while n < u32::MAX / 4 {
            assert!(bin_of(n) < BINS && bin_of(n + 1) - bin_of(n) <= 1);
            assert!(bin_above(n) == bin_of(n) || bin_above(n) == bin_of(n) + 1);
            n += 1 + n / 64;
        }
        assert!(bin_of(u32::MAX) < BINS);
    }

    fn spans(frames: usize) -> (Spans, Vec<u8>) {
        let mut memory = vec![0u8; (frames + 2) * FRAME];
        let start = memory.as_mut_ptr() as usize;
        let mut spans = Spans::new();
        // SAFETY: the vector lives as long as the spans in each test.
        assert!(unsafe { spans.init(core::slice::from_ref(&(start..start + memory.len()))) });
        (spans, memory)
    }

    #[test]
    fn random_takes_and_releases_keep_the_invariants() {
        let (mut spans, _memory) = spans(1024);
        let total = spans.free_frames();
        let mut held: Vec<(u32, u32)> = Vec::new();
        let mut seed = 7u64;
        let mut random = move |n: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        for _ in 0..if cfg!(miri) { 300 } else { 20_000 } {
            match random(4) {
                0 | 1 => {
                    let n = 1 + random(100) as u32;
                    let align = 1 << random(5);
                    if let Some(first) = spans.take(n, align) {
                        assert_eq!(spans.address(first) % (align as usize * FRAME), 0);
                        for &(f, len) in &held {
                            assert!(first + n <= f || f + len <= first);
                        }
                        held.push((first, n));
                    }
                }
                2 if !held.is_empty() => {
                    let (first, n) = held.swap_remove(random(held.len() as u64) as usize);
                    spans.release(first, n);
                }
                3 if !held.is_empty() => {
                    let i = random(held.len() as u64) as usize;
                    let n = 1 + random(120) as u32;
                    if spans.resize(held[i].0, n) {
                        held[i].1 = n;
                    }
                }
                _ => {}
            }
            spans.check();
            let used: u32 = held.iter().map(|h| h.1).sum();
            assert_eq!(spans.free_frames() + used as usize, total);
        }
        for (first, n) in held {
            spans.release(first, n);
        }
        spans.check();
        assert_eq!(spans.longest(), total);
    }

    #[test]
    fn values_a_little_over_a_power_of_two_pack_densely() {
        let (mut spans, _memory) = spans(8 * 1024);
        let mut got = 0;
        while spans.take(257, 1).is_some() {
            got += 257;
        }
        assert!(got * 100 >= spans.total_frames() * 96, "{got} of {}", spans.total_frames());
    }

    #[test]
    fn regions_with_holes_and_neighbours() {
        let mut memory = vec![0u8; 64 * FRAME];
        let start = (memory.as_mut_ptr() as usize).next_multiple_of(FRAME);
        let mut spans = Spans::new();
        let at = |frame: usize| start + frame * FRAME;
        // SAFETY: the vector outlives the spans.
        assert!(unsafe { spans.init(&[at(40)..at(50) + 7, at(0) + 1..at(20), at(20)..at(30)]) });
        spans.check();
        // One frame of the first region holds the table, and the unaligned ones are left out.
        assert_eq!(spans.total_frames(), 9 + 19 + 10);
        assert!(spans.take(30, 1).is_none());
        assert!(spans.take(29, 1).is_some());
        assert!(spans.take(9, 1).is_some());
        assert!(spans.take(1, 1).is_none());
    }
}
