//! Intset: a sorted set of integers in one run of bytes, in Redis's format: `<width u32> <count u32> <integer>*`,
//! little-endian, every integer as wide (2, 4 or 8 bytes) as the widest needs. It lies in its key's record.
//!
//! Costs: lookup O(log n), insert and delete move what is behind, and a first wider integer rewrites all. Sets leave
//! this encoding at `set-max-intset-entries`, which bounds all three.

use barium_cell::{OutOfMemory, Packed};

use super::Malformed;

const HEADER_LEN: usize = 8;
/// Bytes of an empty one.
pub const EMPTY: &[u8] = &[2, 0, 0, 0, 0, 0, 0, 0];

/// An intset to look at.
#[derive(Debug, Clone, Copy)]
pub struct Intset<'a> {
    /// The format's bytes.
    bytes: &'a [u8],
}

fn width_of(value: i64) -> usize {
    if i16::try_from(value).is_ok() {
        2
    } else if i32::try_from(value).is_ok() {
        4
    } else {
        8
    }
}

/// The integer that `bytes`, which are as many as an intset's integers can be wide, hold.
fn integer(bytes: &[u8]) -> i64 {
    match *bytes {
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

impl<'a> Intset<'a> {
    /// Bytes that [`insert`] and [`remove`] made, or [`checked`](Self::checked) found good.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Bytes from an untrusted source.
    ///
    /// # Errors
    /// [`Malformed`] when they are not one intset with its integers in strictly ascending order.
    pub fn checked(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header = bytes.get(..HEADER_LEN).ok_or(Malformed)?;
        let width = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let count = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        if !matches!(width, 2 | 4 | 8) || count.checked_mul(width as usize) != Some(bytes.len() - HEADER_LEN) {
            return Err(Malformed);
        }
        let set = Self { bytes };
        let ascending = (1..count).all(|i| set.at(i - 1) < set.at(i));
        if ascending { Ok(set) } else { Err(Malformed) }
    }

    /// The set in Redis's byte format.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    fn width(self) -> usize {
        usize::from(self.bytes[0])
    }

    /// Number of members.
    pub fn len(self) -> usize {
        (self.bytes.len() - HEADER_LEN) / self.width()
    }

    /// Whether there are no members.
    pub const fn is_empty(self) -> bool {
        self.bytes.len() == HEADER_LEN
    }

    fn at(self, index: usize) -> i64 {
        let width = self.width();
        let at = HEADER_LEN + index * width;
        integer(&self.bytes[at..at + width])
    }

    /// The member at `index` in ascending order.
    pub fn get(self, index: usize) -> Option<i64> {
        (index < self.len()).then(|| self.at(index))
    }

    /// All members in ascending order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = i64> + ExactSizeIterator + use<'a> {
        (0..self.len()).map(move |i| self.at(i))
    }

    /// Where `value` is, or where it would go.
    fn search(self, value: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        // Appending in order is the common case.
        if high > 0 && self.at(high - 1) < value {
            return Err(high);
        }
        while low < high {
            let mid = (low + high) / 2;
            match self.at(mid).cmp(&value) {
                core::cmp::Ordering::Equal => return Ok(mid),
                core::cmp::Ordering::Less => low = mid + 1,
                core::cmp::Ordering::Greater => high = mid,
            }
        }
        Err(low)
    }

    /// Whether `value` is a member.
    pub fn contains(self, value: i64) -> bool {
        width_of(value) <= self.width() && self.search(value).is_ok()
    }
}

/// Adds `value` to the intset in a record; false if it was there.
///
/// # Errors
/// When there is no memory for it. The set has the same members then.
pub fn insert<T>(packed: &mut Packed<'_, T>, value: i64) -> Result<bool, OutOfMemory> {
    if width_of(value) > Intset::new(packed.bytes()).width() {
        widen(packed, width_of(value))?;
    }
    let set = Intset::new(packed.bytes());
    let (width, Err(index)) = (set.width(), set.search(value)) else { return Ok(false) };
    packed.splice(HEADER_LEN + index * width, 0, width)?.copy_from_slice(&value.to_le_bytes()[..width]);
    store_count(packed);
    Ok(true)
}

/// Removes `value` from the intset in a record; false if it was not there.
pub fn remove<T>(packed: &mut Packed<'_, T>, value: i64) -> bool {
    let set = Intset::new(packed.bytes());
    let width = set.width();
    if width_of(value) > width {
        return false;
    }
    let Ok(index) = set.search(value) else { return false };
    // Less asks for no memory.
    let removed = packed.splice(HEADER_LEN + index * width, width, 0).is_ok();
    store_count(packed);
    removed
}

fn store_count<T>(packed: &mut Packed<'_, T>) {
    let count = Intset::new(packed.bytes()).len() as u32;
    packed.bytes_mut()[4..HEADER_LEN].copy_from_slice(&count.to_le_bytes());
}

/// Makes every integer `width` bytes wide, which is wider than they are.
fn widen<T>(packed: &mut Packed<'_, T>, width: usize) -> Result<(), OutOfMemory> {
    let set = Intset::new(packed.bytes());
    let (len, old, end) = (set.len(), set.width(), packed.bytes().len());
    packed.splice(end, 0, len * (width - old))?;
    let bytes = packed.bytes_mut();
    // From the last on: each goes to where none is that has not moved yet.
    for i in (0..len).rev() {
        let value = integer(&bytes[HEADER_LEN + i * old..][..old]);
        bytes[HEADER_LEN + i * width..][..width].copy_from_slice(&value.to_le_bytes()[..width]);
    }
    bytes[..4].copy_from_slice(&(width as u32).to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use super::*;
    use barium_cell::{Record, View, ViewMut};

    fn record() -> Record<()> {
        Record::with_packed(b"", 0, EMPTY).unwrap()
    }

    fn view(record: &Record<()>) -> Intset<'_> {
        match record.view() {
            View::Packed(bytes) => Intset::new(bytes),
            other => panic!("{other:?}"),
        }
    }

    fn edit(record: &mut Record<()>) -> Packed<'_, ()> {
        match record.view_mut() {
            ViewMut::Packed(packed) => packed,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bytes_are_those_of_redis() {
        let mut set = record();
        for v in [5, -1, 300] {
            assert!(insert(&mut edit(&mut set), v).unwrap());
        }
        assert_eq!(view(&set).as_bytes(), [2, 0, 0, 0, 3, 0, 0, 0, 0xFF, 0xFF, 5, 0, 0x2C, 1]);
        assert!(insert(&mut edit(&mut set), -70_000).unwrap());
        assert_eq!(view(&set).as_bytes()[..12], [4, 0, 0, 0, 4, 0, 0, 0, 0x90, 0xEE, 0xFE, 0xFF]);
        assert!(insert(&mut edit(&mut set), i64::MAX).unwrap());
        assert_eq!(view(&set).as_bytes()[0], 8);
        assert_eq!(view(&set).iter().collect::<Vec<_>>(), [-70_000, -1, 5, 300, i64::MAX]);
    }

    #[test]
    fn random_edits_match_a_tree() {
        let mut seed = 7u64;
        let mut set = record();
        let mut model = BTreeSet::new();
        for i in 0..20_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let v = (seed as i64) >> if i < 5000 { 54 } else { 50 };
            if seed & (1 << 20) == 0 {
                assert_eq!(insert(&mut edit(&mut set), v).unwrap(), model.insert(v));
            } else {
                assert_eq!(remove(&mut edit(&mut set), v), model.remove(&v));
            }
            assert_eq!(view(&set).contains(v), model.contains(&v));
            assert_eq!(view(&set).len(), model.len());
        }
        assert!(view(&set).iter().eq(model.iter().copied()));
        assert!(Intset::checked(view(&set).as_bytes()).is_ok());
    }

    #[test]
    fn damaged_bytes_are_refused() {
        for bad in [
            &[][..],
            &[2, 0, 0, 0, 1, 0, 0],
            &[3, 0, 0, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 1, 0, 0, 0],
            &[2, 0, 0, 0, 2, 0, 0, 0, 5, 0, 5, 0],
            &[2, 0, 0, 0, 2, 0, 0, 0, 6, 0, 5, 0],
            &[8, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 5, 0],
        ] {
            assert!(Intset::checked(bad).is_err());
        }
    }
}
