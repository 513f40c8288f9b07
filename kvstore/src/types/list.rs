//! Lists: one listpack while small, a quicklist beyond `list-max-listpack-size`, and back once it has shrunk to half.

use alloc::boxed::Box;

use barium_cell::OutOfMemory;

use crate::encoding::listpack::{Entry, Listpack};
use crate::encoding::quicklist::{self, Quicklist};
pub use crate::encoding::quicklist::{End, NodeLimit, Run};
use crate::number::parse_i64;

#[derive(Debug)]
enum Repr {
    Listpack(Listpack),
    Quicklist(Box<Quicklist>),
}

/// A list of byte strings.
#[derive(Debug)]
pub struct List {
    repr: Repr,
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

impl List {
    /// An empty list.
    pub fn new() -> Self {
        Self { repr: Repr::Listpack(Listpack::new()) }
    }

    /// An empty list in the encoding for many elements; [`settle`](Self::settle) it when it is built.
    pub fn new_quicklist(limit: NodeLimit) -> Self {
        Self::from_quicklist(Quicklist::new(limit))
    }

    /// A list with the elements of `lp`.
    pub fn from_listpack(lp: Listpack) -> Self {
        Self { repr: Repr::Listpack(lp) }
    }

    /// A list that takes over a quicklist, as serialised lists come; settle its encoding with
    /// [`settle`](Self::settle).
    pub fn from_quicklist(list: Quicklist) -> Self {
        Self { repr: Repr::Quicklist(Box::new(list)) }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match &self.repr {
            Repr::Listpack(lp) => lp.len(),
            Repr::Quicklist(ql) => ql.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The encoding's name, as OBJECT ENCODING gives it.
    pub fn encoding(&self) -> &'static str {
        match &self.repr {
            Repr::Listpack(_) => "listpack",
            Repr::Quicklist(_) => "quicklist",
        }
    }

    /// The listpack of a small list.
    pub fn as_listpack(&self) -> Option<&Listpack> {
        match &self.repr {
            Repr::Listpack(lp) => Some(lp),
            Repr::Quicklist(_) => None,
        }
    }

    /// The quicklist of a long list.
    pub fn as_quicklist(&self) -> Option<&Quicklist> {
        match &self.repr {
            Repr::Listpack(_) => None,
            Repr::Quicklist(ql) => Some(ql),
        }
    }

    /// Bytes of memory behind the list, without the struct itself, by as many nodes as `samples` says.
    pub fn memory_usage(&self, samples: usize) -> usize {
        match &self.repr {
            Repr::Listpack(lp) => lp.memory_usage(),
            Repr::Quicklist(ql) => size_of::<Quicklist>() + ql.memory_usage(samples),
        }
    }

    /// Frees about `n` elements; true when there is little left to free but the list itself.
    pub fn free_step(&mut self, n: usize) -> bool {
        match &mut self.repr {
            Repr::Listpack(_) => true,
            Repr::Quicklist(ql) => ql.free_step(n),
        }
    }

    /// Makes ready for `elements` more elements of `bytes` bytes in all: leaves the listpack encoding if that is too
    /// much for it. Call it before adding or replacing anything.
    pub fn prepare(&mut self, limit: NodeLimit, elements: usize, bytes: usize) {
        match &mut self.repr {
            Repr::Listpack(lp) if limit.exceeded(lp.byte_len() + bytes, lp.len() + elements) => {
                let lp = core::mem::take(lp);
                self.repr = Repr::Quicklist(Box::new(Quicklist::from_listpack(lp, limit)));
            }
            Repr::Listpack(_) => {}
            Repr::Quicklist(list) => list.set_packed_threshold(limit),
        }
    }

    /// Goes back to one listpack when a quicklist has shrunk to one node at most half full. Call it after removing or
    /// replacing.
    pub fn shrunk(&mut self, limit: NodeLimit) {
        if let Repr::Quicklist(ql) = &mut self.repr
            && ql.single_listpack().is_some_and(|lp| limit.half_full_at_most(lp.byte_len(), lp.len()))
            && let Some(lp) = ql.take_single_listpack()
        {
            self.repr = Repr::Listpack(lp);
        }
    }

    /// Chooses the encoding for a list that was just built, whatever it is now.
    pub fn settle(&mut self, limit: NodeLimit) {
        match &mut self.repr {
            Repr::Listpack(_) => self.prepare(limit, 0, 0),
            Repr::Quicklist(ql) => {
                if ql.single_listpack().is_some_and(|lp| limit.fits(lp.byte_len(), lp.len()))
                    && let Some(lp) = ql.take_single_listpack()
                {
                    self.repr = Repr::Listpack(lp);
                }
            }
        }
    }

    /// Adds an element at one end ([`prepare`](Self::prepare) first).
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn push(&mut self, end: End, element: &[u8]) -> Result<(), OutOfMemory> {
        match (&mut self.repr, end) {
            (Repr::Listpack(lp), End::Left) => lp.push_front(element),
            (Repr::Listpack(lp), End::Right) => lp.push_back(element),
            (Repr::Quicklist(ql), _) => return ql.push(end, element),
        }
        Ok(())
    }

    /// The element at `index`.
    pub fn get(&self, index: usize) -> Option<Entry<'_>> {
        match &self.repr {
            Repr::Listpack(lp) if index < lp.len() => Some(lp.get(lp.seek(index as isize)?)),
            Repr::Listpack(_) => None,
            Repr::Quicklist(ql) => ql.get(index),
        }
    }

    /// The first or last element.
    pub fn peek(&self, end: End) -> Option<Entry<'_>> {
        match (&self.repr, end) {
            (Repr::Listpack(lp), End::Left) => Some(lp.get(lp.first()?)),
            (Repr::Listpack(lp), End::Right) => Some(lp.get(lp.last()?)),
            (Repr::Quicklist(ql), _) => ql.peek(end),
        }
    }

    /// Removes the first or last element, if there is one.
    pub fn pop(&mut self, end: End) {
        match (&mut self.repr, end) {
            (Repr::Listpack(lp), End::Left) => lp.pop_front(),
            (Repr::Listpack(lp), End::Right) => lp.pop_back(),
            (Repr::Quicklist(ql), _) => ql.pop(end),
        }
    }

    /// The index that a command's number means (negative ones count from the end), if the element exists.
    pub fn index(&self, index: i64) -> Option<usize> {
        let len = self.len();
        let at = if index < 0 {
            len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?
        } else {
            usize::try_from(index).ok()?
        };
        (at < len).then_some(at)
    }

    /// Inserts before or after the element at `index`, which must exist ([`prepare`](Self::prepare) first).
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn insert(&mut self, index: usize, after: bool, element: &[u8]) -> Result<(), OutOfMemory> {
        match &mut self.repr {
            Repr::Listpack(lp) => {
                let at = index + usize::from(after);
                let pos = if at < lp.len() { lp.seek(at as isize) } else { None };
                lp.insert(pos.unwrap_or(lp.end()), element);
                Ok(())
            }
            Repr::Quicklist(ql) => ql.insert(index, after, element),
        }
    }

    /// Replaces the element at `index`, if there is one ([`prepare`](Self::prepare) first).
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn replace(&mut self, index: usize, element: &[u8]) -> Result<(), OutOfMemory> {
        match &mut self.repr {
            Repr::Listpack(lp) => {
                if index < lp.len()
                    && let Some(pos) = lp.seek(index as isize)
                {
                    lp.replace(pos, element);
                }
                Ok(())
            }
            Repr::Quicklist(ql) => ql.replace(index, element),
        }
    }

    /// Removes up to `n` elements from `index` on.
    pub fn delete_range(&mut self, index: usize, n: usize) {
        match &mut self.repr {
            Repr::Listpack(lp) => {
                if index < lp.len() {
                    lp.delete_range(index as isize, n);
                }
            }
            Repr::Quicklist(ql) => ql.delete_range(index, n),
        }
    }

    /// Removes up to `n` elements at one end.
    pub fn delete_end(&mut self, end: End, n: usize) {
        if n == 1 {
            return self.pop(end);
        }
        let index = if end == End::Left { 0 } else { self.len().saturating_sub(n) };
        self.delete_range(index, n);
    }

    /// Removes elements equal to `needle`, at most `max`, starting at one end. Returns how many there were.
    pub fn remove_equal(&mut self, needle: &[u8], max: usize, from: End) -> usize {
        match &mut self.repr {
            Repr::Listpack(lp) => quicklist::remove_equal(lp, needle, max, from),
            Repr::Quicklist(ql) => ql.remove_equal(needle, max, from),
        }
    }

    /// Calls `each` for the runs of elements that up to `n` elements from `index` on lie in: the quickest way over a
    /// range.
    pub fn runs<'a>(&'a self, index: usize, n: usize, mut each: impl FnMut(Run<'a>)) {
        match &self.repr {
            Repr::Listpack(lp) => {
                if index < lp.len() {
                    each(Run::packed(lp, index, n.min(lp.len() - index)));
                }
            }
            Repr::Quicklist(ql) => ql.runs(index, n, each),
        }
    }

    /// The index of the first element equal to `needle`.
    pub fn position(&self, needle: &[u8]) -> Option<usize> {
        let number = parse_i64(needle);
        self.iter().position(|e| e.matches(needle, number))
    }

    /// A copy of the list.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        Ok(Self {
            repr: match &self.repr {
                Repr::Listpack(lp) => Repr::Listpack(lp.try_clone()?),
                Repr::Quicklist(ql) => Repr::Quicklist(Box::new(ql.try_clone()?)),
            },
        })
    }

    /// The elements from the head on.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.iter_from(0)
    }

    /// The elements from `index` on.
    pub fn iter_from(&self, index: usize) -> impl Iterator<Item = Entry<'_>> {
        let (lp, ql) = match &self.repr {
            Repr::Listpack(lp) => (Some(lp.iter_from(lp.seek(index as isize).unwrap_or(lp.end()))), None),
            Repr::Quicklist(ql) => (None, Some(ql.iter_from(index))),
        };
        lp.into_iter().flatten().chain(ql.into_iter().flatten())
    }

    /// The elements from the tail on.
    pub fn iter_back(&self) -> impl Iterator<Item = Entry<'_>> {
        let (lp, ql) = match &self.repr {
            Repr::Listpack(lp) => (Some(lp.iter().rev()), None),
            Repr::Quicklist(ql) => (None, Some(ql.iter_back_from(ql.len().saturating_sub(1)))),
        };
        lp.into_iter().flatten().chain(ql.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn encodings_change_both_ways() {
        let limit = NodeLimit::new(4);
        let mut list = List::new();
        for i in 0..10u8 {
            list.prepare(limit, 1, 1);
            list.push(End::Right, &[b'a' + i]).unwrap();
            assert_eq!(list.encoding(), if i < 4 { "listpack" } else { "quicklist" });
        }
        assert_eq!(list.index(-1), Some(9));
        assert_eq!(list.index(-11), None);
        assert_eq!(list.iter_back().map(Entry::to_vec).collect::<Vec<_>>().concat(), b"jihgfedcba");
        for left in (0..10).rev() {
            list.delete_end(End::Left, 1);
            list.shrunk(limit);
            assert_eq!(list.len(), left);
            assert_eq!(list.encoding(), if left > 2 { "quicklist" } else { "listpack" }, "{left}");
        }
        list.prepare(NodeLimit::new(-1), 1, 5000);
        list.push(End::Left, &vec![b'x'; 5000]).unwrap();
        assert_eq!(list.encoding(), "quicklist");
        assert_eq!(list.peek(End::Right).map(Entry::text_len), Some(5000));
        assert!(list.free_step(1) && list.is_empty());
    }
}
