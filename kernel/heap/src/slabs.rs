//! Slabs: spans cut into objects of one size class.
//!
//! A slab's state lies in the frame table, not in the slab, so that objects begin at the frame's start and a power of
//! two is aligned to itself. Free objects hold the offset of the next one; objects never handed out are not touched.

use crate::classes::{CLASSES, FRAME, SIZES, SLAB_FRAMES};
use crate::spans::{FrameId, Kind, NIL, NO_OBJECT, Spans};

/// All slabs and the spans behind them.
pub struct Slabs {
    /// Runs of frames.
    pub spans: Spans,
    /// Per class: slabs with free objects, some of whose objects are handed out.
    partial: [FrameId; CLASSES],
    /// Per class: one slab without objects handed out, kept so that a class at a slab's border does not thrash.
    spare: [FrameId; CLASSES],
}

impl Slabs {
    /// No memory yet.
    pub const fn new() -> Self {
        Self { spans: Spans::new(), partial: [NIL; CLASSES], spare: [NIL; CLASSES] }
    }

    /// Takes up to `want` objects of a class, as a list linked through their first words. Returns its head and length;
    /// null and 0 when there is no memory.
    pub fn take(&mut self, class: usize, want: usize) -> (*mut u8, usize) {
        let size = SIZES[class] as usize;
        let end = (SLAB_FRAMES[class] as usize * FRAME / size * size / 8) as u16;
        let step = (size / 8) as u16;
        let mut list = core::ptr::null_mut::<u8>();
        let mut got = 0;
        while got < want {
            let Some(slab) = self.usable(class) else { break };
            let start = self.spans.address(slab);
            let head = self.spans.at(slab);
            let (mut free, mut carved) = head.objects();
            let before = got;
            while got < want {
                let offset = if free != NO_OBJECT {
                    let offset = free;
                    // SAFETY: `offset` is a free object of this slab, whose first two bytes `give` wrote.
                    free = unsafe { *((start + offset as usize * 8) as *const u16) };
                    offset
                } else if carved < end {
                    let offset = carved;
                    carved += step;
                    offset
                } else {
                    break;
                };
                let object = (start + offset as usize * 8) as *mut u8;
                // SAFETY: the object is free, at least 8 bytes long and 8-aligned, and belongs to the caller from now on.
                unsafe { *object.cast::<*mut u8>() = list };
                list = object;
                got += 1;
            }
            head.used += (got - before) as u16;
            head.set_objects(free, carved);
            if free == NO_OBJECT && carved >= end {
                self.unlink(class, slab);
            }
        }
        (list, got)
    }

    /// A slab of the class with a free object, first in its list.
    fn usable(&mut self, class: usize) -> Option<FrameId> {
        if self.partial[class] != NIL {
            return Some(self.partial[class]);
        }
        let slab = if self.spare[class] != NIL {
            core::mem::replace(&mut self.spare[class], NIL)
        } else {
            let n = u32::from(SLAB_FRAMES[class]);
            let slab = self.spans.take(n, 1)?;
            self.spans.claim_slab(slab, n, class as u8, Kind::Slab);
            slab
        };
        self.link(class, slab);
        Some(slab)
    }

    /// Makes a slab of each class that stays when it is empty, while memory is. The few long-lived objects of a class that
    /// the data does not use then lie here, at the low end, and not wherever room was left when they were made: one of them
    /// in the middle of memory would be in the way of large values for good.
    pub fn make_homes(&mut self) {
        for (class, &frames) in SLAB_FRAMES.iter().enumerate() {
            let n = u32::from(frames);
            let Some(slab) = self.spans.take(n, 1) else { return };
            self.spans.claim_slab(slab, n, class as u8, Kind::Home);
            self.link(class, slab);
        }
    }

    /// Gives one object back to its slab.
    ///
    /// # Safety
    /// `object` must have come from [`Slabs::take`] and be used by nobody.
    pub unsafe fn give(&mut self, object: *mut u8) {
        let address = object as usize;
        let mut slab = self.spans.frame_of(address);
        let frame = self.spans.at(slab);
        if frame.kind == Kind::SlabBody {
            slab = frame.next;
        }
        let start = self.spans.address(slab);
        let head = self.spans.at(slab);
        debug_assert!(matches!(head.kind, Kind::Slab | Kind::Home) && head.used > 0);
        let class = head.class as usize;
        let (free, carved) = head.objects();
        let was_full =
            free == NO_OBJECT && carved as usize + SIZES[class] as usize / 8 > SLAB_FRAMES[class] as usize * FRAME / 8;
        // SAFETY: the caller gives the object up; it is at least 8 bytes long and 8-aligned.
        unsafe { *object.cast::<u16>() = free };
        head.set_objects(((address - start) / 8) as u16, carved);
        head.used -= 1;
        let empty = head.used == 0 && head.kind == Kind::Slab;
        if was_full && !empty {
            self.link(class, slab);
        } else if empty {
            if !was_full {
                self.unlink(class, slab);
            }
            if self.spare[class] == NIL {
                // As new, so that it is carved in address order again.
                self.spans.at(slab).set_objects(NO_OBJECT, 0);
                self.spare[class] = slab;
            } else {
                self.spans.release(slab, u32::from(SLAB_FRAMES[class]));
            }
        }
    }

    /// Returns the kept empty slabs to the spans. Returns whether there were any.
    pub fn reclaim(&mut self) -> bool {
        let mut any = false;
        for (spare, &frames) in self.spare.iter_mut().zip(&SLAB_FRAMES) {
            let slab = core::mem::replace(spare, NIL);
            if slab != NIL {
                self.spans.release(slab, u32::from(frames));
                any = true;
            }
        }
        any
    }

    /// Lists a slab: first if it is the lowest so far, else behind the first.
    fn link(&mut self, class: usize, slab: FrameId) {
        let next = self.partial[class];
        if next < slab {
            let second = core::mem::replace(&mut self.spans.at(next).next, slab);
            let frame = self.spans.at(slab);
            (frame.prev, frame.next) = (next, second);
            if second != NIL {
                self.spans.at(second).prev = slab;
            }
            return;
        }
        let head = self.spans.at(slab);
        head.next = next;
        head.prev = NIL;
        if next != NIL {
            self.spans.at(next).prev = slab;
        }
        self.partial[class] = slab;
    }

    fn unlink(&mut self, class: usize, slab: FrameId) {
        let head = self.spans.at(slab);
        let (next, prev) = (head.next, head.prev);
        if next != NIL {
            self.spans.at(next).prev = prev;
        }
        if prev != NIL {
            self.spans.at(prev).next = next;
        } else {
            self.partial[class] = next;
        }
    }

    /// Checks every listed slab's counts; for tests.
    #[cfg(test)]
    pub fn check(&mut self) {
        self.spans.check();
        for (class, &size) in SIZES.iter().enumerate() {
            let mut at = self.partial[class];
            let mut prev = NIL;
            while at != NIL {
                let frame = *self.spans.at(at);
                assert!(matches!(frame.kind, Kind::Slab | Kind::Home));
                assert_eq!((frame.class as usize, frame.prev), (class, prev));
                let (mut free, carved) = frame.objects();
                let mut free_count = 0;
                while free != NO_OBJECT {
                    free_count += 1;
                    // SAFETY: as in `take`.
                    free = unsafe { *((self.spans.address(at) + free as usize * 8) as *const u16) };
                }
                assert_eq!(frame.used as usize + free_count, carved as usize * 8 / size as usize);
                assert!(frame.used > 0 || frame.kind == Kind::Home);
                prev = at;
                at = frame.next;
            }
        }
    }
}
