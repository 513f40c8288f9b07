//! Frames on their way from CPUs to one CPU.
//!
//! A ring of units of 128 bytes. Whoever posts reserves as many units in a row as its frame needs, writes it where it lies, and
//! then marks its first unit as ready; the one CPU that takes stops at the first frame that is not. Nobody waits for
//! anybody: a full mailbox refuses.

use crate::sync::{AtomicU32, AtomicUsize, Ordering, UnsafeCell};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Bytes of a unit.
pub const UNIT: usize = 128;
/// Longest frame, in bytes.
pub const MAX_LEN: usize = 0xffff;

/// Marks of a first unit. 0: nothing ready.
const READY: u32 = 1 << 31;
/// Nothing but the way to the ring's start.
const PAD: u32 = 1 << 30;
const LEN: u32 = 0xffff;
const TAG_SHIFT: u32 = 16;

#[repr(C, align(64))]
struct Unit([u8; UNIT]);

struct Ring {
    /// Units taken so far; changed by who takes.
    head: AtomicUsize,
    /// Units reserved so far.
    tail: AtomicUsize,
    marks: Box<[AtomicU32]>,
    units: Box<[core::cell::UnsafeCell<Unit>]>,
    /// For loom, which is told of every access to a unit.
    watch: Box<[UnsafeCell<()>]>,
}

// SAFETY: a unit's bytes are accessed by whoever reserved it until it is marked ready, then by the only `Inbox` until `head`
// moves past it.
unsafe impl Sync for Ring {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Ring {}

impl Ring {
    fn mask(&self) -> usize {
        self.marks.len() - 1
    }

    /// The first `len` bytes from unit `at` on.
    ///
    /// # Safety
    /// The caller must have these units for itself (see [`Sync`] above) while it uses what it gets.
    unsafe fn bytes(&self, at: usize, len: usize) -> *mut [u8] {
        let units = len.div_ceil(UNIT);
        debug_assert!(at + units <= self.units.len());
        self.watch.iter().skip(at).take(units).for_each(|unit| unit.with_mut(|_| ()));
        let start = self.units[at..].as_ptr().cast::<u8>().cast_mut();
        core::ptr::slice_from_raw_parts_mut(start, len)
    }

    /// Where a frame of `units` would begin if `tail` units were reserved, and how many are then; `None` when it does not fit.
    fn place(&self, tail: usize, units: usize) -> Option<(usize, usize)> {
        let to_end = self.marks.len() - (tail & self.mask());
        let skipped = if units > to_end { to_end } else { 0 };
        let end = tail.wrapping_add(skipped + units);
        // What was taken is free to be written over: the order of the loads is theirs who wrote.
        let used = end.wrapping_sub(self.head.load(Ordering::Acquire));
        (used <= self.marks.len()).then_some((tail.wrapping_add(skipped), end))
    }
}

/// Makes a mailbox of `units` units, a power of two; at most half of them in a row for one frame. `None` when there is no
/// memory.
pub fn mailbox(units: usize) -> Option<(Outbox, Inbox)> {
    assert!(units.is_power_of_two() && units < 1 << 29);
    let ring = Arc::new(Ring {
        head: AtomicUsize::new(0),
        tail: AtomicUsize::new(0),
        marks: filled(units, || AtomicU32::new(0))?,
        units: filled(units, || core::cell::UnsafeCell::new(Unit([0; UNIT])))?,
        watch: filled(if cfg!(loom) { units } else { 0 }, || UnsafeCell::new(()))?,
    });
    Some((Outbox(ring.clone()), Inbox(ring)))
}

fn filled<T>(n: usize, make: impl FnMut() -> T) -> Option<Box<[T]>> {
    let mut all = Vec::new();
    all.try_reserve_exact(n).ok()?;
    all.resize_with(n, make);
    Some(all.into_boxed_slice())
}

/// The side that posts; every CPU may have one.
#[derive(Clone)]
pub struct Outbox(Arc<Ring>);

impl Outbox {
    /// Posts a frame of `len` bytes that `fill` writes, all of it: there is old data. `tag` goes with it. `None`, without a call of
    /// `fill`, when there is no room. The CPU that takes is not told.
    pub fn post<R>(&self, len: usize, tag: u8, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let ring = &*self.0;
        let units = len.div_ceil(UNIT).max(1);
        if len > MAX_LEN || units > ring.marks.len() / 2 {
            return None;
        }
        let mut tail = ring.tail.load(Ordering::Relaxed);
        let (at, _) = loop {
            let place = ring.place(tail, units)?;
            match ring.tail.compare_exchange_weak(tail, place.1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break place,
                // Another CPU was quicker, which got on.
                Err(now) => tail = now,
            }
        };
        if at != tail {
            let skipped = at.wrapping_sub(tail) as u32;
            ring.marks[tail & ring.mask()].store(READY | PAD | skipped, Ordering::Release);
        }
        let at = at & ring.mask();
        // SAFETY: these units were reserved for this call and are not marked yet.
        let written = fill(unsafe { &mut *ring.bytes(at, len) });
        ring.marks[at].store(READY | u32::from(tag & 0x3f) << TAG_SHIFT | len as u32, Ordering::Release);
        Some(written)
    }

    /// Whether a frame of `len` bytes would find room if nobody else posted.
    pub fn has_room(&self, len: usize) -> bool {
        self.0.place(self.0.tail.load(Ordering::Relaxed), len.div_ceil(UNIT).max(1)).is_some()
    }
}

/// The side that takes; there is one.
pub struct Inbox(Arc<Ring>);

impl Inbox {
    /// Whether the next frame is ready.
    #[inline]
    pub fn is_ready(&self) -> bool {
        let ring = &*self.0;
        ring.marks[ring.head.load(Ordering::Relaxed) & ring.mask()].load(Ordering::Acquire) != 0
    }

    /// Takes the next frame, with its tag. `None` when none is ready.
    #[inline]
    pub fn take<R>(&mut self, take: impl FnOnce(&mut [u8], u8) -> R) -> Option<R> {
        let ring = &*self.0;
        loop {
            let head = ring.head.load(Ordering::Relaxed);
            let at = head & ring.mask();
            let mark = ring.marks[at].load(Ordering::Acquire);
            if mark == 0 {
                return None;
            }
            let len = (mark & LEN) as usize;
            if mark & PAD != 0 {
                ring.marks[at].store(0, Ordering::Relaxed);
                ring.head.store(head.wrapping_add(len), Ordering::Release);
                continue;
            }
            // SAFETY: the units are ready, and nobody but this, the only inbox, takes them.
            let taken = take(unsafe { &mut *ring.bytes(at, len) }, (mark >> TAG_SHIFT) as u8 & 0x3f);
            ring.marks[at].store(0, Ordering::Relaxed);
            // From here on the units may be written over.
            ring.head.store(head.wrapping_add(len.div_ceil(UNIT).max(1)), Ordering::Release);
            return Some(taken);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn frames_of_all_lengths_come_out_as_they_went_in() {
        let (outbox, mut inbox) = mailbox(32).expect("memory");
        let mut sent = std::collections::VecDeque::new();
        let mut seed = 1u32;
        let mut refused = 0;
        for n in 0..20_000u32 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if seed >> 31 == 0 {
                let len = (seed >> 8) as usize % 1515;
                let tag = n as u8 & 3;
                let room = outbox.has_room(len);
                let posted = outbox.post(len, tag, |bytes| bytes.fill(n as u8));
                assert_eq!(posted.is_some(), room);
                match posted {
                    Some(()) => sent.push_back((len, tag, n as u8)),
                    None => refused += 1,
                }
            } else {
                let got = inbox.take(|bytes, tag| {
                    let all = bytes.first().copied().unwrap_or_default();
                    assert!(bytes.iter().all(|byte| *byte == all));
                    (bytes.len(), tag, all)
                });
                match (got, sent.pop_front()) {
                    (Some(got), Some(sent)) => {
                        assert!(got.0 == sent.0 && got.1 == sent.1 && (got.0 == 0 || got.2 == sent.2))
                    }
                    (None, None) => assert!(!inbox.is_ready()),
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(refused > 100, "the mailbox was full at times");
        assert!(outbox.post(17 * UNIT, 0, |_| ()).is_none(), "longer than half the ring");
    }

    #[test]
    fn several_post_at_once() {
        const EACH: u32 = 20_000;
        let (outbox, mut inbox) = mailbox(64).expect("memory");
        std::thread::scope(|scope| {
            for cpu in 0..3u8 {
                let outbox = outbox.clone();
                scope.spawn(move || {
                    for n in 0..EACH {
                        let len = 4 + (n as usize * 37) % 400;
                        while outbox
                            .post(len, cpu, |bytes| {
                                bytes.fill(cpu);
                                bytes[..4].copy_from_slice(&n.to_le_bytes());
                            })
                            .is_none()
                        {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let mut next = [0; 3];
            while next != [EACH; 3] {
                let took = inbox.take(|bytes, cpu| {
                    let n = u32::from_le_bytes(bytes[..4].try_into().expect("4 bytes"));
                    assert_eq!(n, next[usize::from(cpu)], "each one's frames keep their order");
                    assert!(bytes[4..].iter().all(|byte| *byte == cpu));
                    next[usize::from(cpu)] += 1;
                });
                if took.is_none() {
                    std::thread::yield_now();
                }
            }
        });
    }
}
