//! Intset: a sorted set of integers in one run of bytes, in Redis's format: `<width u32> <count u32> <integer>*`,
//! little-endian, every integer as wide (2, 4 or 8 bytes) as the widest needs.
//!
//! Costs: lookup O(log n), insert and delete move what is behind, and a first wider integer rewrites all. Sets leave
//! this encoding at `set-max-intset-entries`, which bounds all three.

use alloc::vec::Vec;

use super::{Malformed, capacity_for};

const HEADER_LEN: usize = 8;

/// An owned intset.
#[derive(Debug, Clone)]
pub struct Intset {
    /// The format's bytes.
    bytes: Vec<u8>,
}

impl Default for Intset {
    fn default() -> Self {
        Self::new()
    }
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

impl Intset {
    /// An empty set.
    pub fn new() -> Self {
        let mut bytes = Vec::new();
        bytes.reserve_exact(capacity_for(HEADER_LEN + 2));
        bytes.extend_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0]);
        Self { bytes }
    }

    /// Takes over bytes from an untrusted source.
    ///
    /// # Errors
    /// [`Malformed`] when they are not one intset with its integers in strictly ascending order.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Malformed> {
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
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn width(&self) -> usize {
        usize::from(self.bytes[0])
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        (self.bytes.len() - HEADER_LEN) / self.width()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER_LEN
    }

    /// Bytes of memory behind the set, spare room included.
    pub fn memory_usage(&self) -> usize {
        self.bytes.capacity()
    }

    fn at(&self, index: usize) -> i64 {
        let width = self.width();
        let at = HEADER_LEN + index * width;
        let b = &self.bytes[at..at + width];
        match *b {
            [a, b] => i64::from(i16::from_le_bytes([a, b])),
            [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => 0,
        }
    }

    /// The member at `index` in ascending order.
    pub fn get(&self, index: usize) -> Option<i64> {
        (index < self.len()).then(|| self.at(index))
    }

    /// All members in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = i64> + ExactSizeIterator + '_ {
        (0..self.len()).map(|i| self.at(i))
    }

    /// Where `value` is, or where it would go.
    fn search(&self, value: i64) -> Result<usize, usize> {
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
    pub fn contains(&self, value: i64) -> bool {
        width_of(value) <= self.width() && self.search(value).is_ok()
    }

    /// Adds `value`; false if it was there.
    pub fn insert(&mut self, value: i64) -> bool {
        if width_of(value) > self.width() {
            self.widen(width_of(value));
        }
        let Err(index) = self.search(value) else { return false };
        let width = self.width();
        let len = self.bytes.len();
        self.make_room(width);
        self.bytes.resize(len + width, 0);
        let at = HEADER_LEN + index * width;
        self.bytes.copy_within(at..len, at + width);
        self.bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        self.store_count();
        true
    }

    /// Removes `value`; false if it was not there.
    pub fn remove(&mut self, value: i64) -> bool {
        if width_of(value) > self.width() {
            return false;
        }
        let Ok(index) = self.search(value) else { return false };
        self.remove_at(index);
        true
    }

    /// Removes the member at `index`, which must exist.
    pub fn remove_at(&mut self, index: usize) {
        let width = self.width();
        let at = HEADER_LEN + index * width;
        self.bytes.drain(at..at + width);
        self.store_count();
        if self.bytes.len() * 2 < self.bytes.capacity() && self.bytes.capacity() > 64 {
            self.bytes.shrink_to(capacity_for(self.bytes.len()));
        }
    }

    fn make_room(&mut self, more: usize) {
        let len = self.bytes.len();
        if self.bytes.capacity() < len + more {
            self.bytes.reserve_exact(capacity_for(len + more) - len);
        }
    }

    fn store_count(&mut self) {
        let count = self.len() as u32;
        self.bytes[4..HEADER_LEN].copy_from_slice(&count.to_le_bytes());
    }

    fn widen(&mut self, width: usize) {
        let len = self.len();
        let mut bytes = Vec::new();
        bytes.reserve_exact(capacity_for(HEADER_LEN + (len + 1) * width));
        bytes.extend_from_slice(&(width as u32).to_le_bytes());
        bytes.extend_from_slice(&(len as u32).to_le_bytes());
        for value in self.iter() {
            bytes.extend_from_slice(&value.to_le_bytes()[..width]);
        }
        self.bytes = bytes;
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    #[test]
    fn bytes_are_those_of_redis() {
        let mut set = Intset::new();
        for v in [5, -1, 300] {
            assert!(set.insert(v));
        }
        assert_eq!(set.as_bytes(), [2, 0, 0, 0, 3, 0, 0, 0, 0xFF, 0xFF, 5, 0, 0x2C, 1]);
        assert!(set.insert(-70_000));
        assert_eq!(set.as_bytes()[..12], [4, 0, 0, 0, 4, 0, 0, 0, 0x90, 0xEE, 0xFE, 0xFF]);
        assert!(set.insert(i64::MAX));
        assert_eq!(set.as_bytes()[0], 8);
        assert_eq!(set.iter().collect::<Vec<_>>(), [-70_000, -1, 5, 300, i64::MAX]);
    }

    #[test]
    fn random_edits_match_a_tree() {
        let mut seed = 7u64;
        let mut set = Intset::new();
        let mut model = BTreeSet::new();
        for i in 0..20_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let v = (seed as i64) >> if i < 5000 { 54 } else { 50 };
            if seed & (1 << 20) == 0 {
                assert_eq!(set.insert(v), model.insert(v));
            } else {
                assert_eq!(set.remove(v), model.remove(&v));
            }
            assert_eq!(set.contains(v), model.contains(&v));
            assert_eq!(set.len(), model.len());
        }
        assert!(set.iter().eq(model.iter().copied()));
        assert!(Intset::from_bytes(set.as_bytes().to_vec()).is_ok());
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
            assert!(Intset::from_bytes(bad.to_vec()).is_err());
        }
    }
}
