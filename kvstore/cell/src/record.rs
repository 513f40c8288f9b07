//! A key and its value in one allocation.

use crate::OutOfMemory;
use crate::copy::copy_few;
use alloc::alloc::{Layout, alloc, dealloc, realloc};
use alloc::boxed::Box;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

/// Longest key or inline byte value that a record takes, in bytes.
pub const MAX_LEN: usize = (1 << 30) - 1;

const TAG_MASK: u32 = 0xf;
const KIND_SHIFT: u32 = 4;
const KIND_MASK: u32 = 0x3 << KIND_SHIFT;
const KIND_BYTES: u32 = 0 << KIND_SHIFT;
const KIND_INT: u32 = 1 << KIND_SHIFT;
const KIND_PACKED: u32 = 2 << KIND_SHIFT;
const KIND_OBJECT: u32 = 3 << KIND_SHIFT;
/// Set in the kinds whose payload is eight bytes; the others have bytes behind the key, and their length as payload.
const KIND_WORD: u32 = 1 << KIND_SHIFT;
const HAS_DEADLINE: u32 = 1 << 6;
/// The block is longer than its contents ask for, because they shrank little, or there was no memory for a smaller one. Its
/// size stands behind the contents (4 bytes, not aligned).
const OVERSIZED: u32 = 1 << 7;
const CLOCK_SHIFT: u32 = 8;
const ALIGN: usize = 8;

/// Start of the block: `meta` (tag 4 bits, kind 2 bits, deadline flag, size flag, access clock 24 bits) and the key's length.
/// Then come the deadline (8 bytes, if any), the integer or object pointer (8 bytes) or the length of the bytes (4 bytes),
/// the key and the bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    meta: u32,
    key_len: u32,
}

/// Owns a key with its value: one pointer wide, one allocation (two if the value is an object).
///
/// `tag` is four bits that belong to the caller; the access clock is 24 bits that belong to the caller too.
pub struct Record<T> {
    ptr: NonNull<Head>,
    owns: PhantomData<Box<T>>,
}

// SAFETY: a record owns its block and its object exclusively, so it may move to another thread if the object may.
unsafe impl<T: Send> Send for Record<T> {}
// SAFETY: shared access gives only `&T` and plain bytes.
unsafe impl<T: Sync> Sync for Record<T> {}

/// What [`Record::is_fresh`] compares with.
#[derive(Clone, Copy, Debug)]
pub struct FreshMark(u32);

impl FreshMark {
    const MASK: u32 = !0 << CLOCK_SHIFT | HAS_DEADLINE;
    /// Matches no record.
    pub const NEVER: Self = Self(!Self::MASK);

    /// Matches records whose access clock stands at `clock` and that have no deadline.
    pub const fn of_clock(clock: u32) -> Self {
        Self(clock << CLOCK_SHIFT)
    }
}

/// A look at the value.
#[derive(Debug)]
pub enum View<'a, T> {
    /// Bytes that lie in the record.
    Bytes(&'a [u8]),
    /// A small collection's bytes that lie in the record.
    Packed(&'a [u8]),
    /// An integer.
    Int(i64),
    /// An object that the record owns.
    Object(&'a T),
}

/// A look at the value through which it can be changed without changing its kind.
#[derive(Debug)]
pub enum ViewMut<'a, T> {
    /// Bytes that lie in the record.
    Bytes(&'a mut [u8]),
    /// A small collection's bytes that lie in the record.
    Packed(Packed<'a, T>),
    /// An integer.
    Int(&'a mut i64),
    /// An object that the record owns.
    Object(&'a mut T),
}

/// What a block is to hold beside key and deadline.
#[derive(Clone, Copy)]
enum Payload<'a, T> {
    Bytes(&'a [u8]),
    Packed(&'a [u8]),
    Int(i64),
    Object(*mut T),
}

impl<T> Payload<'_, T> {
    const fn kind(&self) -> u32 {
        match self {
            Payload::Bytes(_) => KIND_BYTES,
            Payload::Packed(_) => KIND_PACKED,
            Payload::Int(_) => KIND_INT,
            Payload::Object(_) => KIND_OBJECT,
        }
    }
    const fn bytes_len(&self) -> usize {
        match self {
            Payload::Bytes(b) | Payload::Packed(b) => b.len(),
            _ => 0,
        }
    }
}

const fn payload_at(meta: u32) -> usize {
    if meta & HAS_DEADLINE != 0 { 16 } else { 8 }
}

const fn key_at(meta: u32) -> usize {
    payload_at(meta) + if meta & KIND_WORD == 0 { 4 } else { 8 }
}

const fn block_size(meta: u32, key_len: usize, bytes_len: usize) -> usize {
    (key_at(meta) + key_len + bytes_len).next_multiple_of(ALIGN)
}

impl<T> Record<T> {
    /// A record whose value is a copy of `bytes`.
    pub fn with_bytes(key: &[u8], tag: u8, bytes: &[u8]) -> Result<Self, OutOfMemory> {
        Self::build(u32::from(tag) & TAG_MASK, key, None, Payload::Bytes(bytes))
    }

    /// A record whose value is a small collection that lies in the record: a copy of `bytes`.
    pub fn with_packed(key: &[u8], tag: u8, bytes: &[u8]) -> Result<Self, OutOfMemory> {
        Self::build(u32::from(tag) & TAG_MASK, key, None, Payload::Packed(bytes))
    }

    /// A record whose value is an integer.
    pub fn with_int(key: &[u8], tag: u8, value: i64) -> Result<Self, OutOfMemory> {
        Self::build(u32::from(tag) & TAG_MASK, key, None, Payload::Int(value))
    }

    /// A record whose value is `object`.
    pub fn with_object(key: &[u8], tag: u8, object: Box<T>) -> Result<Self, OutOfMemory> {
        let raw = Box::into_raw(object);
        match Self::build(u32::from(tag) & TAG_MASK, key, None, Payload::Object(raw)) {
            Ok(r) => Ok(r),
            Err(e) => {
                // SAFETY: `raw` came from `Box::into_raw` above and no block took it over.
                drop(unsafe { Box::from_raw(raw) });
                Err(e)
            }
        }
    }

    /// Allocates and fills a block. `meta`'s kind and flags are set from the other arguments.
    fn build(meta: u32, key: &[u8], deadline: Option<i64>, payload: Payload<'_, T>) -> Result<Self, OutOfMemory> {
        let bytes_len = payload.bytes_len();
        if key.len() > MAX_LEN || bytes_len > MAX_LEN {
            return Err(OutOfMemory);
        }
        let meta = (meta & !(KIND_MASK | HAS_DEADLINE | OVERSIZED))
            | payload.kind()
            | if deadline.is_some() { HAS_DEADLINE } else { 0 };
        let size = block_size(meta, key.len(), bytes_len);
        let layout = Layout::from_size_align(size, ALIGN).map_err(|_| OutOfMemory)?;
        // SAFETY: the layout's size is at least that of the head, so it is not zero.
        let ptr = NonNull::new(unsafe { alloc(layout) }).ok_or(OutOfMemory)?;
        // SAFETY: the block is fresh, `size` bytes long and aligned to 8; every offset written is below `size` by the
        // definition of `block_size`, and the sources do not overlap with a fresh block.
        unsafe {
            let base = ptr.as_ptr();
            ptr.cast::<Head>().write(Head { meta, key_len: key.len() as u32 });
            if let Some(at) = deadline {
                base.add(8).cast::<i64>().write(at);
            }
            let slot = base.add(payload_at(meta));
            match payload {
                Payload::Bytes(b) | Payload::Packed(b) => {
                    slot.cast::<u32>().write(b.len() as u32);
                    ptr::copy_nonoverlapping(b.as_ptr(), base.add(key_at(meta) + key.len()), b.len());
                }
                Payload::Int(n) => slot.cast::<i64>().write(n),
                Payload::Object(raw) => slot.cast::<*mut T>().write(raw),
            }
            ptr::copy_nonoverlapping(key.as_ptr(), base.add(key_at(meta)), key.len());
        }
        Ok(Self { ptr: ptr.cast(), owns: PhantomData })
    }

    #[inline]
    fn head(&self) -> Head {
        // SAFETY: `ptr` points to a live block that starts with an initialised head.
        unsafe { *self.ptr.as_ptr() }
    }

    #[inline]
    fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: callers pass offsets inside the block, as laid out by `build`.
        unsafe { self.ptr.as_ptr().cast::<u8>().add(offset) }
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        let head = self.head();
        // SAFETY: `build` put `key_len` initialised bytes there; they are never changed.
        unsafe { core::slice::from_raw_parts(self.at(key_at(head.meta)), head.key_len as usize) }
    }

    /// The caller's four bits.
    #[inline]
    pub fn tag(&self) -> u8 {
        (self.head().meta & TAG_MASK) as u8
    }

    /// Sets the caller's four bits.
    pub fn set_tag(&mut self, tag: u8) {
        self.set_meta(TAG_MASK, u32::from(tag));
    }

    /// The access clock, 24 bits.
    pub fn clock(&self) -> u32 {
        self.head().meta >> CLOCK_SHIFT
    }

    /// Whether the access clock stands where `mark` says and there is no deadline: then a look at the record changes
    /// nothing.
    #[inline]
    pub fn is_fresh(&self, mark: FreshMark) -> bool {
        self.head().meta & FreshMark::MASK == mark.0
    }

    /// Sets the access clock (its low 24 bits).
    #[inline]
    pub fn set_clock(&mut self, clock: u32) {
        self.set_meta(!0 << CLOCK_SHIFT, clock << CLOCK_SHIFT);
    }

    #[inline]
    fn set_meta(&mut self, mask: u32, bits: u32) {
        // SAFETY: the block is live and `&mut self` makes the access exclusive.
        let head = unsafe { &mut *self.ptr.as_ptr() };
        head.meta = (head.meta & !mask) | (bits & mask);
    }

    /// The deadline, in the caller's unit, if there is one.
    #[inline]
    pub fn deadline(&self) -> Option<i64> {
        if self.head().meta & HAS_DEADLINE == 0 {
            return None;
        }
        // SAFETY: with the flag set, `build` wrote an i64 at this offset, which is aligned to 8.
        Some(unsafe { self.at(8).cast::<i64>().read() })
    }

    /// Sets or clears the deadline. Moves the block if one appears or goes.
    pub fn set_deadline(&mut self, deadline: Option<i64>) -> Result<(), OutOfMemory> {
        match (self.head().meta & HAS_DEADLINE != 0, deadline) {
            (false, None) => Ok(()),
            (true, Some(at)) => {
                // SAFETY: with the flag set there is an aligned i64 at this offset, and access is exclusive.
                unsafe { self.at(8).cast::<i64>().write(at) };
                Ok(())
            }
            _ => {
                let moved = Self::build(self.head().meta, self.key(), deadline, self.payload())?;
                self.replace_block(moved);
                Ok(())
            }
        }
    }

    /// The value.
    #[inline]
    pub fn view(&self) -> View<'_, T> {
        let head = self.head();
        if head.meta & KIND_MASK == KIND_BYTES {
            // SAFETY: `build` wrote the length there, and so many initialised bytes behind the key.
            return View::Bytes(unsafe {
                let len = self.at(payload_at(head.meta)).cast::<u32>().read() as usize;
                core::slice::from_raw_parts(self.at(key_at(head.meta) + head.key_len as usize), len)
            });
        }
        match self.payload() {
            // SAFETY: the record owns the object until it is dropped or taken, and `&self` excludes both.
            Payload::Object(raw) => View::Object(unsafe { &*raw }),
            Payload::Bytes(b) => View::Bytes(b),
            Payload::Packed(b) => View::Packed(b),
            Payload::Int(n) => View::Int(n),
        }
    }

    /// Whether the value is bytes that lie in the record.
    #[inline]
    pub fn holds_bytes(&self) -> bool {
        self.head().meta & KIND_MASK == KIND_BYTES
    }

    /// The value, changeable in place.
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        let head = self.head();
        let slot = self.at(payload_at(head.meta));
        // SAFETY: the offsets are those that `build` wrote for this kind, and `&mut self` makes the access exclusive.
        unsafe {
            match head.meta & KIND_MASK {
                KIND_BYTES => {
                    let len = slot.cast::<u32>().read() as usize;
                    let start = self.at(key_at(head.meta) + head.key_len as usize);
                    ViewMut::Bytes(core::slice::from_raw_parts_mut(start, len))
                }
                KIND_INT => ViewMut::Int(&mut *slot.cast::<i64>()),
                KIND_PACKED => ViewMut::Packed(Packed(self)),
                _ => ViewMut::Object(&mut *slot.cast::<*mut T>().read()),
            }
        }
    }

    #[inline]
    fn payload(&self) -> Payload<'_, T> {
        let head = self.head();
        let slot = self.at(payload_at(head.meta));
        // SAFETY: the offsets are those that `build` wrote for this kind.
        unsafe {
            match head.meta & KIND_MASK {
                kind @ (KIND_BYTES | KIND_PACKED) => {
                    let len = slot.cast::<u32>().read() as usize;
                    let start = self.at(key_at(head.meta) + head.key_len as usize);
                    let bytes = core::slice::from_raw_parts(start, len);
                    if kind == KIND_BYTES { Payload::Bytes(bytes) } else { Payload::Packed(bytes) }
                }
                KIND_INT => Payload::Int(slot.cast::<i64>().read()),
                _ => Payload::Object(slot.cast::<*mut T>().read()),
            }
        }
    }

    /// Makes the value a copy of `bytes`, if the value is bytes and the block's size stays.
    #[inline]
    pub fn overwrite(&mut self, tag: u8, bytes: &[u8]) -> bool {
        let Head { meta, key_len } = self.head();
        if meta & KIND_MASK != KIND_BYTES || bytes.len() > MAX_LEN {
            return false;
        }
        let (key_at, key_len) = (key_at(meta), key_len as usize);
        let slot = self.at(payload_at(meta)).cast::<u32>();
        // SAFETY: a block of this kind has the length of its bytes there, initialised and aligned.
        let old = unsafe { slot.read() } as usize;
        let end = key_at + key_len;
        if old != bytes.len() && (end + old).div_ceil(ALIGN) != (end + bytes.len()).div_ceil(ALIGN) {
            return false;
        }
        // SAFETY: the block's size is the same with `bytes` in place of what is there, so they fit; `bytes` cannot lie in
        // this block because `&mut self` is exclusive.
        unsafe {
            slot.write(bytes.len() as u32);
            copy_few(bytes.as_ptr(), self.at(end), bytes.len());
        }
        self.set_tag(tag);
        true
    }

    /// Makes the value a copy of `bytes`; in place if the block's size stays. An object that was the value is returned.
    pub fn set_bytes(&mut self, tag: u8, bytes: &[u8]) -> Result<Option<Box<T>>, OutOfMemory> {
        if self.overwrite(tag, bytes) {
            return Ok(None);
        }
        self.set_payload(tag, Payload::Bytes(bytes))
    }

    /// Makes the value an integer. An object that was the value is returned.
    pub fn set_int(&mut self, tag: u8, value: i64) -> Result<Option<Box<T>>, OutOfMemory> {
        if let ViewMut::Int(n) = self.view_mut() {
            *n = value;
            self.set_tag(tag);
            return Ok(None);
        }
        self.set_payload(tag, Payload::Int(value))
    }

    /// Makes the value a small collection that lies in the record: a copy of `bytes`. An object that was the value is
    /// returned.
    pub fn set_packed(&mut self, tag: u8, bytes: &[u8]) -> Result<Option<Box<T>>, OutOfMemory> {
        self.set_payload(tag, Payload::Packed(bytes))
    }

    /// Makes the value `object`. An object that was the value before is returned.
    pub fn set_object(&mut self, tag: u8, object: Box<T>) -> Result<Option<Box<T>>, OutOfMemory> {
        let raw = Box::into_raw(object);
        let done = self.set_payload(tag, Payload::Object(raw));
        if done.is_err() {
            // SAFETY: `raw` came from `Box::into_raw` above and no block took it over.
            drop(unsafe { Box::from_raw(raw) });
        }
        done
    }

    fn set_payload(&mut self, tag: u8, payload: Payload<'_, T>) -> Result<Option<Box<T>>, OutOfMemory> {
        let meta = (self.head().meta & !TAG_MASK) | (u32::from(tag) & TAG_MASK);
        let new = Self::build(meta, self.key(), self.deadline(), payload)?;
        let old = self.payload_object();
        self.replace_block(new);
        Ok(old)
    }

    /// Takes the object's ownership out of the payload. The block must be freed without dropping it afterwards.
    fn payload_object(&mut self) -> Option<Box<T>> {
        match self.payload() {
            // SAFETY: the pointer came from `Box::into_raw`; the caller frees this block without using it again.
            Payload::Object(raw) => Some(unsafe { Box::from_raw(raw) }),
            _ => None,
        }
    }

    /// The same value, clock and deadline under another key.
    pub fn rename(mut self, key: &[u8]) -> Result<Self, (Self, OutOfMemory)> {
        match Self::build(self.head().meta, key, self.deadline(), self.payload()) {
            Ok(new) => {
                self.replace_block(new);
                Ok(self)
            }
            Err(e) => Err((self, e)),
        }
    }

    /// The value's object, if it is one; the record is gone.
    pub fn into_object(mut self) -> Option<Box<T>> {
        let object = self.payload_object();
        self.free_block();
        core::mem::forget(self);
        object
    }

    /// Frees the present block, but not its object, and takes over `new`'s.
    fn replace_block(&mut self, new: Self) {
        self.free_block();
        self.ptr = new.ptr;
        core::mem::forget(new);
    }

    fn free_block(&mut self) {
        // SAFETY: size and alignment are those that `build` allocated with, since the lengths and flags that they follow
        // from are changed only by making a new block or when the size stays; nobody uses the block afterwards.
        unsafe { dealloc(self.ptr.as_ptr().cast(), Layout::from_size_align_unchecked(self.size(), ALIGN)) };
    }

    /// Size of the block, in bytes; an object's own size not counted.
    pub fn size(&self) -> usize {
        let head = self.head();
        let bytes_len = self.payload().bytes_len();
        if head.meta & OVERSIZED != 0 {
            let end = key_at(head.meta) + head.key_len as usize + bytes_len;
            // SAFETY: with the flag set, `Packed::shift` wrote the size there, inside the block.
            return unsafe { self.at(end).cast::<u32>().read_unaligned() } as usize;
        }
        block_size(head.meta, head.key_len as usize, bytes_len)
    }
}

/// A small collection's bytes in their record, to be changed in length too.
#[derive(Debug)]
pub struct Packed<'a, T>(&'a mut Record<T>);

impl<T> Packed<'_, T> {
    /// Where the bytes start in the block, and how many there are.
    #[inline]
    fn extent(&self) -> (usize, usize) {
        let head = self.0.head();
        // SAFETY: the record is of the packed kind, for which `build` wrote the length there.
        let len = unsafe { self.0.at(payload_at(head.meta)).cast::<u32>().read() };
        (key_at(head.meta) + head.key_len as usize, len as usize)
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let (start, len) = self.extent();
        // SAFETY: `build` and `splice` put so many initialised bytes there, and `&self` excludes that they change.
        unsafe { core::slice::from_raw_parts(self.0.at(start), len) }
    }

    /// The bytes, to be changed in place.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let (start, len) = self.extent();
        // SAFETY: as in `bytes`, and `&mut self` makes the access exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.0.at(start), len) }
    }

    /// Makes the `old` bytes at `at` be `new` bytes, and returns those: what was there, then zeros. The block grows as far as
    /// it must, and shrinks once a quarter of it is not needed. Errs, with nothing changed, if there is no memory for more
    /// or the range is out of bounds; if `new` is not more than `old` it succeeds.
    pub fn splice(&mut self, at: usize, old: usize, new: usize) -> Result<&mut [u8], OutOfMemory> {
        let (start, len) = self.extent();
        let behind = len.checked_sub(at).and_then(|n| n.checked_sub(old)).ok_or(OutOfMemory)?;
        if new != old {
            self.shift(start + at, old, new, behind)?;
        }
        // SAFETY: `at + new` is not beyond the end of the bytes, all of which are initialised; `&mut self` makes the access
        // exclusive.
        Ok(unsafe { core::slice::from_raw_parts_mut(self.0.at(start + at), new) })
    }

    /// Makes the `old` bytes at offset `from` of the block, which the last `behind` ones follow, be `new` bytes.
    #[inline]
    fn shift(&mut self, from: usize, old: usize, new: usize, behind: usize) -> Result<(), OutOfMemory> {
        let (start, len) = self.extent();
        let after = (len - old).checked_add(new).filter(|&n| n <= MAX_LEN).ok_or(OutOfMemory)?;
        let meta = self.0.head().meta;
        let want = (start + after).next_multiple_of(ALIGN);
        let mut size = (start + len).next_multiple_of(ALIGN);
        if meta & OVERSIZED != 0 {
            // SAFETY: with the flag set, the size lies behind the bytes, inside the block.
            size = unsafe { self.0.at(start + len).cast::<u32>().read_unaligned() } as usize;
            self.0.set_meta(OVERSIZED, 0);
        }
        if want > size {
            if let Err(error) = self.resize(size, want) {
                self.0.set_meta(OVERSIZED, meta);
                return Err(error);
            }
            size = want;
        }
        // SAFETY: the block has at least `want` bytes, which hold `start + after`, that is `from + new + behind`; what moves
        // lies in front of `start + len`, initialised, inside the block as it was.
        unsafe {
            let from = self.0.at(from);
            ptr::copy(from.add(old), from.add(new), behind);
            if new > old {
                from.add(old).write_bytes(0, new - old);
            }
            self.0.at(payload_at(meta)).cast::<u32>().write(after as u32);
        }
        if want < size && (want > size / 4 * 3 || self.resize(size, want).is_err()) {
            // Sizes are multiples of 8 and `start + after` is at most `want`: there are 8 bytes behind it.
            // SAFETY: the block is `size` bytes long, and the 4 bytes at `start + after` lie inside it.
            unsafe { self.0.at(start + after).cast::<u32>().write_unaligned(size as u32) };
            self.0.set_meta(OVERSIZED, OVERSIZED);
        }
        Ok(())
    }

    /// Moves the block, which has `old` bytes, to one of `new` bytes.
    fn resize(&mut self, old: usize, new: usize) -> Result<(), OutOfMemory> {
        let layout = Layout::from_size_align(old, ALIGN).map_err(|_| OutOfMemory)?;
        Layout::from_size_align(new, ALIGN).map_err(|_| OutOfMemory)?;
        // SAFETY: `old` is the size that the block was allocated with, `new` is not zero and a valid size at this alignment
        // as just checked; the old pointer is not used again.
        let ptr = NonNull::new(unsafe { realloc(self.0.ptr.as_ptr().cast(), layout, new) }).ok_or(OutOfMemory)?;
        self.0.ptr = ptr.cast();
        Ok(())
    }
}

impl<T> Drop for Record<T> {
    fn drop(&mut self) {
        drop(self.payload_object());
        self.free_block();
    }
}

impl<T: core::fmt::Debug> core::fmt::Debug for Record<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Record").field("key", &self.key()).field("value", &self.view()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::without_memory;
    use alloc::rc::Rc;
    use alloc::vec;

    #[test]
    fn one_word_with_a_niche() {
        assert_eq!(size_of::<Option<Record<u8>>>(), size_of::<usize>());
    }

    #[test]
    fn kinds_change_and_keep_key_clock_and_deadline() {
        let mut r = Record::<Rc<u8>>::with_bytes(b"some key", 3, b"value").unwrap();
        r.set_clock(0xabcdef);
        r.set_deadline(Some(-7)).unwrap();
        let object = Rc::new(5u8);
        assert!(r.set_object(4, Box::new(object.clone())).unwrap().is_none());
        assert_eq!((r.key(), r.tag(), r.clock(), r.deadline()), (&b"some key"[..], 4, 0xabcdef, Some(-7)));
        let old = r.set_int(1, i64::MIN).unwrap().unwrap();
        assert_eq!((Rc::strong_count(&object), **old), (2, 5));
        drop(old);
        assert_eq!(Rc::strong_count(&object), 1);
        assert!(matches!(r.view(), View::Int(i64::MIN)));
        r.set_bytes(2, b"").unwrap();
        assert!(matches!(r.view(), View::Bytes(b"")));
        r.set_deadline(None).unwrap();
        assert_eq!((r.key(), r.tag(), r.clock(), r.deadline()), (&b"some key"[..], 2, 0xabcdef, None));
        assert!(r.is_fresh(FreshMark::of_clock(0xabcdef)) && !r.is_fresh(FreshMark::of_clock(0xabcdee)));
        assert!(!r.is_fresh(FreshMark::NEVER));
    }

    #[test]
    fn every_length_around_a_block_border() {
        for key_len in 0..20 {
            for len in 0..40 {
                let (key, bytes) = (vec![1u8; key_len], vec![2u8; len]);
                let mut r = Record::<()>::with_bytes(&key, 0, b"x").unwrap();
                r.set_bytes(0, &bytes).unwrap();
                assert_eq!(r.key(), key);
                assert!(matches!(r.view(), View::Bytes(b) if b == bytes));
                assert_eq!(r.size() % 8, 0);
            }
        }
    }

    #[test]
    fn packed_bytes_are_spliced_like_a_vector() {
        let mut seed = 1u64;
        let mut random = move |n: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % n
        };
        for key_len in [0, 1, 15, 300] {
            let key = vec![b'k'; key_len];
            let mut r = Record::<Rc<u8>>::with_packed(&key, 5, &[]).unwrap();
            let mut model = vec![];
            for step in 0..2_000 {
                let ViewMut::Packed(mut packed) = r.view_mut() else { panic!("{r:?}") };
                let at = random(model.len() + 1);
                let old = random(model.len() - at + 1).min(random(40) + 1);
                let new = vec![step as u8; random(if step % 64 < 32 { 40 } else { 20 })];
                let room = packed.splice(at, old, new.len()).unwrap();
                if new.len() > old {
                    assert!(room[old..].iter().all(|b| *b == 0));
                }
                room.copy_from_slice(&new);
                model.splice(at..at + old, new);
                assert_eq!(packed.bytes(), model);
                if step % 50 == 0 {
                    r.set_deadline((step % 100 == 0).then_some(7)).unwrap();
                }
                assert!(matches!(r.view(), View::Packed(b) if b == model));
                assert_eq!((r.key(), r.tag()), (&key[..], 5));
                let need = block_size(r.head().meta, key_len, model.len());
                assert!((need..=need / 3 * 4 + 32).contains(&r.size()), "{} for {need}", r.size());
            }
            let ViewMut::Packed(mut packed) = r.view_mut() else { panic!("{r:?}") };
            assert!(packed.splice(model.len(), 1, 0).is_err());
            assert!(packed.splice(0, 0, MAX_LEN + 1).is_err());
            assert_eq!(packed.bytes(), model);
            r.set_object(4, Box::new(Rc::new(1))).unwrap();
            drop(r.set_packed(5, b"again").unwrap().unwrap());
            assert!(matches!(r.rename(b"other").unwrap().view(), View::Packed(b"again")));
        }
    }

    #[test]
    fn without_memory_a_block_stays_as_long_as_it_is() {
        let mut r = Record::<Rc<u8>>::with_packed(b"key", 5, &[7; 300]).unwrap();
        let size = r.size();
        let splice = |r: &mut Record<Rc<u8>>, at, old, new| {
            let ViewMut::Packed(mut packed) = r.view_mut() else { panic!("{r:?}") };
            packed.splice(at, old, new).map(|room| room.len())
        };
        without_memory(|| {
            assert_eq!(splice(&mut r, 0, 0, 64), Err(OutOfMemory));
            assert_eq!(splice(&mut r, 10, 100, 0), Ok(0));
            assert_eq!((r.size(), r.key()), (size, &b"key"[..]));
            assert!(matches!(r.view(), View::Packed(b) if *b == [7; 200]));
            assert_eq!(splice(&mut r, 200, 0, 90), Ok(90), "it has room");
            assert_eq!(splice(&mut r, 8, 282, 0), Ok(0));
            assert_eq!(r.size(), size);
        });
        assert_eq!(splice(&mut r, 0, 1, 0), Ok(0));
        assert_eq!(r.size(), 24, "made smaller as soon as there is memory");
        without_memory(|| assert_eq!(splice(&mut r, 0, 7, 0), Ok(0)));
        assert_eq!(r.size(), 24);
        r.set_deadline(Some(1)).unwrap();
        assert_eq!((r.size(), r.deadline()), (24, Some(1)));
        without_memory(|| r.set_deadline(Some(2)).unwrap());
        assert!(matches!(r.view(), View::Packed(b"")));
    }

    #[test]
    fn small_records_are_small() {
        assert_eq!(Record::<()>::with_bytes(&[0; 16], 0, &[0; 16]).unwrap().size(), 48);
        assert_eq!(Record::<()>::with_int(&[0; 16], 0, 1).unwrap().size(), 32);
    }

    #[test]
    fn objects_are_dropped_once() {
        let object = Rc::new(1u8);
        let r = Record::with_object(b"k", 0, Box::new(object.clone())).unwrap();
        let r = r.rename(b"another key").unwrap();
        assert_eq!(r.key(), b"another key");
        assert_eq!(Rc::strong_count(&object), 2);
        drop(r);
        assert_eq!(Rc::strong_count(&object), 1);
        let r = Record::with_object(b"k", 0, Box::new(object.clone())).unwrap();
        drop(r.into_object().unwrap());
        assert_eq!(Rc::strong_count(&object), 1);
    }
}
