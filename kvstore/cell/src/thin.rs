//! Byte strings behind one word: the lengths lie in front of the bytes, in one byte each up to 254.

use crate::OutOfMemory;
use alloc::alloc::{Layout, alloc, dealloc};
use core::ptr::{self, NonNull};

/// A length of 255 or more is this byte, then the length as a little-endian u32.
const LONG: u8 = 0xff;

const fn head_len(len: usize) -> usize {
    if len < LONG as usize { 1 } else { 5 }
}

/// Writes a length at `to` and returns how many bytes it took.
///
/// # Safety
/// `to` is valid for writes of `head_len(len)` bytes.
unsafe fn write_len(to: *mut u8, len: usize) -> usize {
    // SAFETY: as the caller promised.
    unsafe {
        if len < LONG as usize {
            to.write(len as u8);
            1
        } else {
            to.write(LONG);
            ptr::copy_nonoverlapping((len as u32).to_le_bytes().as_ptr(), to.add(1), 4);
            5
        }
    }
}

/// Reads a length that [`write_len`] wrote, and how many bytes it took.
///
/// # Safety
/// `from` points to bytes that `write_len` wrote.
#[inline]
unsafe fn read_len(from: *const u8) -> (usize, usize) {
    // SAFETY: as the caller promised.
    unsafe {
        let first = from.read();
        if first != LONG {
            return (first as usize, 1);
        }
        let mut le = [0; 4];
        ptr::copy_nonoverlapping(from.add(1), le.as_mut_ptr(), 4);
        (u32::from_le_bytes(le) as usize, 5)
    }
}

fn block(size: usize) -> Result<NonNull<u8>, OutOfMemory> {
    let layout = Layout::from_size_align(size, 1).map_err(|_| OutOfMemory)?;
    // SAFETY: there is at least one byte of length in front, so the size is not zero.
    NonNull::new(unsafe { alloc(layout) }).ok_or(OutOfMemory)
}

/// Owns an immutable byte string: one pointer wide.
pub struct ThinBytes(NonNull<u8>);

// SAFETY: the block is owned exclusively and holds plain bytes.
unsafe impl Send for ThinBytes {}
// SAFETY: shared access only reads plain bytes.
unsafe impl Sync for ThinBytes {}

impl ThinBytes {
    /// A copy of `bytes` (below 4 GiB).
    pub fn new(bytes: &[u8]) -> Result<Self, OutOfMemory> {
        u32::try_from(bytes.len()).map_err(|_| OutOfMemory)?;
        let ptr = block(head_len(bytes.len()) + bytes.len())?;
        // SAFETY: the fresh block is as long as the length and the bytes together.
        unsafe {
            let n = write_len(ptr.as_ptr(), bytes.len());
            ptr::copy_nonoverlapping(bytes.as_ptr(), ptr.as_ptr().add(n), bytes.len());
        }
        Ok(Self(ptr))
    }

    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: `new` wrote a length and that many bytes after it.
        unsafe {
            let (len, n) = read_len(self.0.as_ptr());
            core::slice::from_raw_parts(self.0.as_ptr().add(n), len)
        }
    }

    /// Size of the allocation, in bytes.
    pub fn size(&self) -> usize {
        let len = self.as_bytes().len();
        head_len(len) + len
    }
}

impl Drop for ThinBytes {
    fn drop(&mut self) {
        // SAFETY: `size` is what `new` allocated with; nobody uses the block afterwards.
        unsafe { dealloc(self.0.as_ptr(), Layout::from_size_align_unchecked(self.size(), 1)) };
    }
}

impl core::fmt::Debug for ThinBytes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.as_bytes().fmt(f)
    }
}

/// Owns two byte strings in one allocation: one pointer wide. The first never changes.
pub struct ThinPair(NonNull<u8>);

// SAFETY: the block is owned exclusively and holds plain bytes.
unsafe impl Send for ThinPair {}
// SAFETY: shared access only reads plain bytes.
unsafe impl Sync for ThinPair {}

/// Where the two strings of a pair lie.
struct Parts {
    first: usize,
    first_len: usize,
    second_len: usize,
}

impl Parts {
    const fn size(&self) -> usize {
        self.first + self.first_len + self.second_len
    }
}

impl ThinPair {
    /// Copies of both strings (each below 4 GiB).
    pub fn new(first: &[u8], second: &[u8]) -> Result<Self, OutOfMemory> {
        u32::try_from(first.len()).map_err(|_| OutOfMemory)?;
        u32::try_from(second.len()).map_err(|_| OutOfMemory)?;
        let ptr = block(head_len(first.len()) + head_len(second.len()) + first.len() + second.len())?;
        // SAFETY: the fresh block is as long as both lengths and both strings together.
        unsafe {
            let base = ptr.as_ptr();
            let mut at = write_len(base, first.len());
            at += write_len(base.add(at), second.len());
            ptr::copy_nonoverlapping(first.as_ptr(), base.add(at), first.len());
            ptr::copy_nonoverlapping(second.as_ptr(), base.add(at + first.len()), second.len());
        }
        Ok(Self(ptr))
    }

    #[inline]
    fn parts(&self) -> Parts {
        // SAFETY: `new` wrote two lengths at the start.
        unsafe {
            let (first_len, a) = read_len(self.0.as_ptr());
            let (second_len, b) = read_len(self.0.as_ptr().add(a));
            Parts { first: a + b, first_len, second_len }
        }
    }

    /// The first string.
    #[inline]
    pub fn first(&self) -> &[u8] {
        let p = self.parts();
        // SAFETY: `new` wrote that many bytes there.
        unsafe { core::slice::from_raw_parts(self.0.as_ptr().add(p.first), p.first_len) }
    }

    /// The second string.
    #[inline]
    pub fn second(&self) -> &[u8] {
        let p = self.parts();
        // SAFETY: `new` wrote that many bytes there.
        unsafe { core::slice::from_raw_parts(self.0.as_ptr().add(p.first + p.first_len), p.second_len) }
    }

    /// Replaces the second string; in place if its length stays.
    pub fn set_second(&mut self, second: &[u8]) -> Result<(), OutOfMemory> {
        let p = self.parts();
        if p.second_len != second.len() {
            *self = Self::new(self.first(), second)?;
            return Ok(());
        }
        // SAFETY: the block has exactly this many bytes there, and `&mut self` excludes that `second` lies in it.
        unsafe {
            let to = self.0.as_ptr().add(p.first + p.first_len);
            ptr::copy_nonoverlapping(second.as_ptr(), to, second.len());
        }
        Ok(())
    }

    /// Size of the allocation, in bytes.
    pub fn size(&self) -> usize {
        self.parts().size()
    }
}

impl Drop for ThinPair {
    fn drop(&mut self) {
        // SAFETY: `size` is what `new` allocated with; nobody uses the block afterwards.
        unsafe { dealloc(self.0.as_ptr(), Layout::from_size_align_unchecked(self.size(), 1)) };
    }
}

impl core::fmt::Debug for ThinPair {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (self.first(), self.second()).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn lengths_around_the_long_form() {
        for len in [0, 1, 253, 254, 255, 256, 70_000] {
            let bytes = vec![7u8; len];
            let thin = ThinBytes::new(&bytes).unwrap();
            assert_eq!(thin.as_bytes(), bytes);
            for other in [0, 254, 255] {
                let mut pair = ThinPair::new(&bytes, &vec![1; other]).unwrap();
                assert_eq!((pair.first(), pair.second()), (&bytes[..], &vec![1u8; other][..]));
                pair.set_second(&vec![2; other]).unwrap();
                pair.set_second(&bytes).unwrap();
                assert_eq!((pair.first(), pair.second()), (&bytes[..], &bytes[..]));
            }
        }
    }

    #[test]
    fn one_word_with_a_niche() {
        assert_eq!(size_of::<Option<ThinBytes>>(), size_of::<usize>());
        assert_eq!(size_of::<Option<ThinPair>>(), size_of::<usize>());
        assert_eq!(ThinBytes::new(&[0; 15]).unwrap().size(), 16);
    }
}
