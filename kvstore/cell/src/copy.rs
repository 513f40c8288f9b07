//! Copying few bytes.

use core::ptr;

/// Copies `from` to `to`, which is as long (else nothing happens). Up to sixteen bytes go by a pair of words that may overlap,
/// which is cheaper than a call.
#[inline(always)]
pub fn copy_short(to: &mut [u8], from: &[u8]) {
    if to.len() == from.len() {
        // SAFETY: both are valid for so many bytes, and a `&mut` overlaps with nothing.
        unsafe { copy_few(from.as_ptr(), to.as_mut_ptr(), from.len()) }
    }
}

/// Copies `n` bytes.
///
/// # Safety
/// `from` must be valid for reading and `to` for writing `n` bytes, and they must not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_few(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: each access lies within the first `n` bytes, of which there are at least as many as the arm says.
    unsafe {
        match n {
            8..=16 => pair::<u64>(from, to, n),
            4..=7 => pair::<u32>(from, to, n),
            1..=3 => {
                let (first, middle, last) = (*from, *from.add(n / 2), *from.add(n - 1));
                *to = first;
                *to.add(n / 2) = middle;
                *to.add(n - 1) = last;
            }
            _ => ptr::copy_nonoverlapping(from, to, n),
        }
    }
}

/// Copies the first and the last word of `n` bytes.
///
/// # Safety
/// As for [`copy_few`], with `n` at least a word.
#[inline(always)]
unsafe fn pair<T>(from: *const u8, to: *mut u8, n: usize) {
    let last = n - size_of::<T>();
    // SAFETY: the caller vouches for `n` bytes, a word's length of them from 0 and from `last` on.
    unsafe {
        let (a, b) = (from.cast::<T>().read_unaligned(), from.add(last).cast::<T>().read_unaligned());
        to.cast::<T>().write_unaligned(a);
        to.add(last).cast::<T>().write_unaligned(b);
    }
}

#[cfg(test)]
mod tests {
    use super::copy_short;

    #[test]
    fn every_length() {
        let from: [u8; 40] = core::array::from_fn(|i| i as u8 + 1);
        for n in 0..=40 {
            let mut to = [0; 41];
            copy_short(&mut to[..n], &from[..n]);
            assert!(to[..n] == from[..n] && to[n..].iter().all(|b| *b == 0), "{n}");
        }
        let mut to = [0; 2];
        copy_short(&mut to, &from[..3]);
        assert_eq!(to, [0; 2]);
    }
}
