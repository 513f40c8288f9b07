//! The sequence of a quicklist's nodes: a deque of chunks of at most [`CHUNK_NODES`] nodes, each with the number of its
//! elements. An index is found by walking the chunks, then one chunk's nodes: for 10 M elements about 200 steps where
//! a linked list takes 20,000; and no change touches more than one chunk.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::End;
use crate::encoding::listpack::{Entry, Listpack};

/// Most nodes in one chunk.
const CHUNK_NODES: usize = 64;

/// Some neighbouring elements of the list.
#[derive(Debug)]
pub enum Node {
    /// Several elements in one listpack.
    Packed(Listpack),
    /// One element that is too big for a listpack.
    Plain(Box<[u8]>),
}

impl Node {
    /// Number of elements.
    pub fn count(&self) -> usize {
        match self {
            Node::Packed(lp) => lp.len(),
            Node::Plain(_) => 1,
        }
    }

    /// Bytes of the elements as stored.
    pub fn byte_len(&self) -> usize {
        match self {
            Node::Packed(lp) => lp.byte_len(),
            Node::Plain(bytes) => bytes.len(),
        }
    }

    /// Bytes of memory behind the node.
    pub fn memory_usage(&self) -> usize {
        match self {
            Node::Packed(lp) => lp.memory_usage(),
            Node::Plain(bytes) => bytes.len(),
        }
    }

    /// The node's listpack, if it has one.
    pub fn packed(&self) -> Option<&Listpack> {
        match self {
            Node::Packed(lp) => Some(lp),
            Node::Plain(_) => None,
        }
    }

    /// The element at `offset`.
    pub fn get(&self, offset: usize) -> Option<Entry<'_>> {
        match self {
            Node::Packed(lp) => Some(lp.get(lp.seek(offset as isize)?)),
            Node::Plain(bytes) => (offset == 0).then_some(Entry::Str(bytes)),
        }
    }
}

#[derive(Debug)]
struct Chunk {
    elements: usize,
    nodes: VecDeque<Node>,
}

/// The nodes of a list, in order. Nodes are named by their number.
#[derive(Debug, Default)]
pub struct Nodes {
    chunks: VecDeque<Chunk>,
    nodes: usize,
    elements: usize,
}

impl Nodes {
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes == 0
    }

    /// Number of elements in all of them.
    pub fn elements(&self) -> usize {
        self.elements
    }

    fn place(&self, node: usize) -> Option<(usize, usize)> {
        if node >= self.nodes {
            return None;
        }
        if node >= self.nodes / 2 {
            let mut behind = self.nodes - node;
            for (c, chunk) in self.chunks.iter().enumerate().rev() {
                if behind <= chunk.nodes.len() {
                    return Some((c, chunk.nodes.len() - behind));
                }
                behind -= chunk.nodes.len();
            }
        } else {
            let mut rest = node;
            for (c, chunk) in self.chunks.iter().enumerate() {
                if rest < chunk.nodes.len() {
                    return Some((c, rest));
                }
                rest -= chunk.nodes.len();
            }
        }
        None
    }

    /// The node with number `node`.
    pub fn get(&self, node: usize) -> Option<&Node> {
        let (c, n) = self.place(node)?;
        self.chunks.get(c)?.nodes.get(n)
    }

    /// The first or last node.
    #[inline]
    pub fn end(&self, end: End) -> Option<&Node> {
        match end {
            End::Left => self.chunks.front()?.nodes.front(),
            End::Right => self.chunks.back()?.nodes.back(),
        }
    }

    /// As [`edit`](Self::edit), for the first or last node.
    #[inline]
    pub fn edit_end<R>(&mut self, end: End, change: impl FnOnce(&mut Node) -> R) -> Option<R> {
        let chunk = match end {
            End::Left => self.chunks.front_mut()?,
            End::Right => self.chunks.back_mut()?,
        };
        let target = match end {
            End::Left => chunk.nodes.front_mut()?,
            End::Right => chunk.nodes.back_mut()?,
        };
        let before = target.count();
        let result = change(target);
        let after = target.count();
        chunk.elements = chunk.elements - before + after;
        self.elements = self.elements - before + after;
        Some(result)
    }

    /// Changes a node and keeps the counts right.
    pub fn edit<R>(&mut self, node: usize, change: impl FnOnce(&mut Node) -> R) -> Option<R> {
        let (c, n) = self.place(node)?;
        let chunk = self.chunks.get_mut(c)?;
        let target = chunk.nodes.get_mut(n)?;
        let before = target.count();
        let result = change(target);
        let after = target.count();
        chunk.elements = chunk.elements - before + after;
        self.elements = self.elements - before + after;
        Some(result)
    }

    /// The number of the node that holds element `index`, and the element's offset in it. Walks from the nearer end.
    pub fn find(&self, index: usize) -> Option<(usize, usize)> {
        if index >= self.elements {
            return None;
        }
        if index < self.elements / 2 {
            let (mut rest, mut node) = (index, 0);
            for chunk in &self.chunks {
                if rest >= chunk.elements {
                    rest -= chunk.elements;
                    node += chunk.nodes.len();
                    continue;
                }
                for n in &chunk.nodes {
                    if rest < n.count() {
                        return Some((node, rest));
                    }
                    rest -= n.count();
                    node += 1;
                }
            }
        } else {
            let (mut behind, mut node) = (self.elements - index, self.nodes);
            for chunk in self.chunks.iter().rev() {
                if behind > chunk.elements {
                    behind -= chunk.elements;
                    node -= chunk.nodes.len();
                    continue;
                }
                for n in chunk.nodes.iter().rev() {
                    node -= 1;
                    if behind <= n.count() {
                        return Some((node, n.count() - behind));
                    }
                    behind -= n.count();
                }
            }
        }
        None
    }

    /// Inserts `new` so that it gets the number `at` (at most [`len`](Self::len)).
    pub fn insert(&mut self, at: usize, new: Node) {
        let count = new.count();
        let (mut c, mut n) = match self.place(at) {
            Some(place) => place,
            None => match self.chunks.back() {
                Some(last) => (self.chunks.len() - 1, last.nodes.len()),
                None => {
                    self.chunks.push_back(Chunk { elements: 0, nodes: VecDeque::new() });
                    (0, 0)
                }
            },
        };
        if self.chunks[c].nodes.len() == CHUNK_NODES {
            // A push at either end starts a new chunk, so that growing lists fill their chunks; others are halved.
            if at == 0 {
                self.chunks.push_front(Chunk { elements: 0, nodes: VecDeque::new() });
            } else if at >= self.nodes {
                self.chunks.push_back(Chunk { elements: 0, nodes: VecDeque::new() });
                (c, n) = (c + 1, 0);
            } else {
                let chunk = &mut self.chunks[c];
                let nodes = chunk.nodes.split_off(CHUNK_NODES / 2);
                let elements = nodes.iter().map(Node::count).sum();
                chunk.elements -= elements;
                self.chunks.insert(c + 1, Chunk { elements, nodes });
                if n > CHUNK_NODES / 2 {
                    (c, n) = (c + 1, n - CHUNK_NODES / 2);
                }
            }
        }
        let chunk = &mut self.chunks[c];
        chunk.nodes.insert(n, new);
        chunk.elements += count;
        self.nodes += 1;
        self.elements += count;
    }

    /// Takes a node out.
    pub fn remove(&mut self, node: usize) -> Option<Node> {
        let (c, n) = self.place(node)?;
        let chunk = self.chunks.get_mut(c)?;
        let gone = chunk.nodes.remove(n)?;
        chunk.elements -= gone.count();
        self.nodes -= 1;
        self.elements -= gone.count();
        if chunk.nodes.is_empty() {
            self.chunks.remove(c);
        } else if let Some(next) = self.chunks.get(c + 1)
            && next.nodes.len() + self.chunks[c].nodes.len() <= CHUNK_NODES / 4
            && let Some(next) = self.chunks.remove(c + 1)
        {
            // Thinned out: a walk over chunks must stay short.
            let chunk = &mut self.chunks[c];
            chunk.elements += next.elements;
            chunk.nodes.extend(next.nodes);
        }
        Some(gone)
    }

    /// The nodes from number `from` on.
    pub fn iter_from(&self, from: usize) -> impl Iterator<Item = &Node> {
        let (c, n) = self.place(from).unwrap_or((self.chunks.len(), 0));
        let mut skip = n;
        self.chunks.range(c..).flat_map(move |chunk| {
            let from = core::mem::take(&mut skip);
            chunk.nodes.range(from..)
        })
    }

    /// The nodes from number `from` towards the first one.
    pub fn iter_back_from(&self, from: usize) -> impl Iterator<Item = &Node> {
        let (chunks, mut take) = match self.place(from) {
            Some((c, n)) => (c + 1, Some(n + 1)),
            None => (0, None),
        };
        self.chunks.range(..chunks).rev().flat_map(move |chunk| {
            let upto = take.take().unwrap_or(chunk.nodes.len());
            chunk.nodes.range(..upto).rev()
        })
    }

    /// Bytes of memory behind the sequence itself, without what the nodes own.
    pub fn overhead(&self) -> usize {
        let nodes: usize = self.chunks.iter().map(|c| c.nodes.capacity()).sum();
        nodes * size_of::<Node>() + self.chunks.capacity() * size_of::<Chunk>()
    }
}
