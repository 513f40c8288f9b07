//! Entries in order of arrival, with removal from any place: the half-open and the TIME-WAIT connections.

use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Node<T> {
    older: u32,
    newer: u32,
    value: Option<T>,
}

/// A list in order of arrival whose entries keep a fixed number while they live. All operations are O(1).
#[derive(Debug)]
pub(crate) struct Fifo<T> {
    nodes: Vec<Node<T>>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    len: usize,
}

impl<T> Fifo<T> {
    pub(crate) const fn new() -> Self {
        Self { nodes: Vec::new(), free: Vec::new(), oldest: NONE, newest: NONE, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends `value` and returns its number.
    pub(crate) fn push(&mut self, value: T) -> u32 {
        let node = Node { older: self.newest, newer: NONE, value: Some(value) };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        match self.nodes.get_mut(self.newest as usize) {
            Some(newest) => newest.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
        self.len += 1;
        at
    }

    /// Takes the entry with number `at` out.
    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let node = self.nodes.get_mut(at as usize)?;
        let value = node.value.take()?;
        let (older, newer) = (node.older, node.newer);
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
        match self.nodes.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        self.free.push(at);
        self.len -= 1;
        Some(value)
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.nodes.get_mut(at as usize)?.value.as_mut()
    }

    /// The oldest entry and its number.
    pub(crate) fn oldest(&self) -> Option<(u32, &T)> {
        let value = self.nodes.get(self.oldest as usize)?.value.as_ref()?;
        Some((self.oldest, value))
    }

    /// The number of the entry that came after `at`.
    pub(crate) fn after(&self, at: u32) -> Option<u32> {
        let newer = self.nodes.get(at as usize)?.newer;
        (newer != NONE).then_some(newer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_through_removals() {
        let mut fifo = Fifo::new();
        let at: Vec<u32> = (0..5).map(|i| fifo.push(i)).collect();
        assert_eq!(fifo.remove(at[2]), Some(2));
        assert_eq!(fifo.remove(at[2]), None);
        assert_eq!(fifo.remove(at[0]), Some(0));
        fifo.push(9);
        let mut seen = Vec::new();
        let mut next = fifo.oldest().map(|(at, _)| at);
        while let Some(at) = next {
            seen.push(*fifo.get_mut(at).expect("live"));
            next = fifo.after(at);
        }
        assert_eq!(seen, [1, 3, 4, 9]);
        assert_eq!(fifo.len(), 4);
        while let Some((at, _)) = fifo.oldest() {
            fifo.remove(at);
        }
        assert_eq!(fifo.len(), 0);
        assert_eq!(fifo.push(7), fifo.oldest().expect("one").0);
    }
}
