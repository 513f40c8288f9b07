//! Physical address ranges: what the firmware says of memory, and what is left of it.

use core::fmt;

/// Size in bytes of a frame, the unit of the memory map.
pub const FRAME: u64 = 4096;

/// A half-open range of physical addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl Region {
    /// The range `start..start + len`, cut at the top of the address space.
    pub const fn new(start: u64, len: u64) -> Self {
        Self { start, end: start.saturating_add(len) }
    }

    /// Bytes.
    pub const fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether no byte is in it.
    pub const fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// The whole frames inside it.
    pub const fn shrink_to_frames(self) -> Self {
        Self { start: self.start.saturating_add(FRAME - 1) & !(FRAME - 1), end: self.end & !(FRAME - 1) }
    }

    /// The whole frames that it touches.
    pub const fn grow_to_frames(self) -> Self {
        Self { start: self.start & !(FRAME - 1), end: self.end.saturating_add(FRAME - 1) & !(FRAME - 1) }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}..{:#x}", self.start, self.end)
    }
}

/// Up to `N` regions in ascending order, disjoint. It lives before the heap does.
#[derive(Clone, Debug)]
pub struct Regions<const N: usize> {
    items: [Region; N],
    len: usize,
    dropped: usize,
}

impl<const N: usize> Regions<N> {
    /// None.
    pub const fn new() -> Self {
        Self { items: [Region { start: 0, end: 0 }; N], len: 0, dropped: 0 }
    }

    /// The regions, ascending and disjoint.
    pub fn as_slice(&self) -> &[Region] {
        &self.items[..self.len]
    }

    /// How many regions found no room.
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// Bytes in all regions.
    pub fn total(&self) -> u64 {
        self.as_slice().iter().map(Region::len).sum()
    }

    /// Adds a region, merged with those that it overlaps or touches. A full list counts it as dropped, which loses memory
    /// when the list holds usable memory; callers of lists of reserved memory must check [`dropped`](Self::dropped).
    pub fn add(&mut self, mut region: Region) {
        if region.is_empty() {
            return;
        }
        let mut kept = 0;
        let mut at = 0;
        for i in 0..self.len {
            let item = self.items[i];
            if item.end < region.start || item.start > region.end {
                self.items[kept] = item;
                kept += 1;
                if item.end < region.start {
                    at = kept;
                }
            } else {
                region = Region { start: item.start.min(region.start), end: item.end.max(region.end) };
            }
        }
        self.len = kept;
        if kept == N {
            self.dropped += 1;
            return;
        }
        self.items.copy_within(at..kept, at + 1);
        self.items[at] = region;
        self.len += 1;
    }

    /// Takes a range out of every region that it overlaps.
    pub fn remove(&mut self, hole: Region) {
        if hole.is_empty() {
            return;
        }
        let old = self.clone();
        self.len = 0;
        for item in old.as_slice() {
            self.push(Region { start: item.start, end: item.end.min(hole.start) });
            self.push(Region { start: item.start.max(hole.end), end: item.end });
        }
    }

    /// Appends a region that lies behind all others.
    fn push(&mut self, region: Region) {
        if region.is_empty() {
            return;
        }
        if self.len == N {
            self.dropped += 1;
            return;
        }
        self.items[self.len] = region;
        self.len += 1;
    }
}

impl<const N: usize> Default for Regions<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{Region, Regions};

    fn list(regions: &[(u64, u64)]) -> Regions<8> {
        let mut list = Regions::new();
        for &(start, end) in regions {
            list.add(Region { start, end });
        }
        list
    }

    fn pairs(list: &Regions<8>) -> Vec<(u64, u64)> {
        list.as_slice().iter().map(|r| (r.start, r.end)).collect()
    }

    #[test]
    fn adding_sorts_and_merges() {
        assert_eq!(pairs(&list(&[(30, 40), (10, 20), (50, 60)])), [(10, 20), (30, 40), (50, 60)]);
        assert_eq!(pairs(&list(&[(30, 40), (10, 20), (20, 30)])), [(10, 40)]);
        assert_eq!(pairs(&list(&[(10, 20), (30, 40), (50, 60), (15, 55)])), [(10, 60)]);
        assert_eq!(pairs(&list(&[(10, 20), (5, 5)])), [(10, 20)]);
    }

    #[test]
    fn removing_splits() {
        let mut l = list(&[(0, 100), (200, 300)]);
        l.remove(Region { start: 40, end: 50 });
        assert_eq!(pairs(&l), [(0, 40), (50, 100), (200, 300)]);
        l.remove(Region { start: 90, end: 210 });
        assert_eq!(pairs(&l), [(0, 40), (50, 90), (210, 300)]);
        l.remove(Region { start: 0, end: 1000 });
        assert_eq!(pairs(&l), []);
    }

    #[test]
    fn a_full_list_says_what_it_lost() {
        let mut l = list(&[(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11), (12, 13), (14, 15)]);
        assert_eq!(l.dropped(), 0);
        l.add(Region { start: 20, end: 21 });
        assert_eq!(l.dropped(), 1);
        l.add(Region { start: 15, end: 16 });
        assert_eq!((l.dropped(), l.as_slice().len()), (1, 8));
    }

    #[test]
    fn model_of_bytes() {
        // Every operation against a plain set of bytes; a small multiplicative generator gives the ranges.
        let mut seed = 1u64;
        let mut next = move || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % 64
        };
        for _ in 0..200 {
            let mut list = Regions::<64>::new();
            let mut model = [false; 128];
            for step in 0..12 {
                let region = Region::new(next(), next() / 2);
                let set = step % 3 != 2;
                if set {
                    list.add(region)
                } else {
                    list.remove(region)
                }
                model[region.start as usize..region.end as usize].fill(set);
                let mut bytes = [false; 128];
                list.as_slice().iter().for_each(|r| bytes[r.start as usize..r.end as usize].fill(true));
                assert_eq!(bytes, model);
                assert!(list.as_slice().windows(2).all(|w| w[0].end <= w[1].start));
            }
        }
    }
}
