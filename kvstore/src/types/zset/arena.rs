//! Places for tree nodes, named by `u32`: grows by a small chunk at a time and gives empty chunks back.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Places of a chunk.
pub(super) const CHUNK: usize = 16;

#[derive(Debug)]
struct Chunk<T> {
    /// [`CHUNK`] places, or none while the chunk has no memory.
    places: Box<[T]>,
    /// Which are taken, one bit each.
    taken: u16,
}

/// A set of values with stable `u32` names.
#[derive(Debug)]
pub(super) struct Arena<T> {
    chunks: Vec<Chunk<T>>,
    /// Chunks with a free place.
    open: Vec<u32>,
    /// Chunks with memory.
    live: usize,
}

impl<T: Default> Arena<T> {
    pub(super) fn new() -> Self {
        Self { chunks: Vec::new(), open: Vec::new(), live: 0 }
    }

    pub(super) fn insert(&mut self, value: T) -> u32 {
        let chunk_id = match self.open.last() {
            Some(&id) => id,
            None => {
                let id = self.chunks.len() as u32;
                self.chunks.push(Chunk { places: Box::default(), taken: 0 });
                self.open.push(id);
                id
            }
        };
        let chunk = &mut self.chunks[chunk_id as usize];
        if chunk.places.is_empty() {
            chunk.places = core::iter::repeat_with(T::default).take(CHUNK).collect();
            self.live += 1;
        }
        let place = chunk.taken.trailing_ones();
        chunk.taken |= 1 << place;
        chunk.places[place as usize] = value;
        if chunk.taken == u16::MAX {
            self.open.pop();
        }
        chunk_id * CHUNK as u32 + place
    }

    /// Takes the value out; its name may be given again.
    pub(super) fn remove(&mut self, id: u32) -> T {
        let (chunk_id, place) = (id / CHUNK as u32, id % CHUNK as u32);
        let chunk = &mut self.chunks[chunk_id as usize];
        let value = core::mem::take(&mut chunk.places[place as usize]);
        if chunk.taken == u16::MAX {
            self.open.push(chunk_id);
        }
        chunk.taken &= !(1 << place);
        if chunk.taken == 0 {
            chunk.places = Box::default();
            self.live -= 1;
        }
        value
    }

    /// Drops the last chunk; false if there is none. The names in it are void then, and nothing may be inserted any more.
    pub(super) fn drop_chunk(&mut self) -> bool {
        self.chunks.pop().is_some()
    }

    /// Bytes of memory behind the arena, without what the values own.
    pub(super) fn memory_usage(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk<T>>() + self.open.capacity() * 4 + self.live * CHUNK * size_of::<T>()
    }
}

impl<T> core::ops::Index<u32> for Arena<T> {
    type Output = T;
    #[inline]
    fn index(&self, id: u32) -> &T {
        &self.chunks[id as usize / CHUNK].places[id as usize % CHUNK]
    }
}

impl<T> core::ops::IndexMut<u32> for Arena<T> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.chunks[id as usize / CHUNK].places[id as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_reused_and_empty_chunks_freed() {
        let mut arena = Arena::new();
        let ids: Vec<u32> = (0..100u32).map(|value| arena.insert(value)).collect();
        for (value, &id) in ids.iter().enumerate() {
            assert_eq!(arena[id], value as u32);
        }
        let full = arena.memory_usage();
        for &id in &ids[16..] {
            arena.remove(id);
        }
        assert!(arena.memory_usage() < full);
        for value in 0..200 {
            let id = arena.insert(value);
            assert!(!ids[..16].contains(&id));
        }
        assert_eq!(arena[ids[7]], 7);
    }
}
