//! Sorted sets: a listpack in the key's record while small, a counted B+-tree with a hash index beyond (Redis calls that
//! "skiplist").
//!
//! Elements are addressed by rank: a range by score or member is first turned into a range of ranks (O(log n)), which is
//! then walked from either end. So counting, LIMIT and reversing are arithmetic.

mod arena;
mod index;
mod leaf;
mod packed;
mod range;
#[cfg(test)]
mod tests;
mod tree;

use alloc::boxed::Box;
use core::ops::Range;

use barium_cell::{OutOfMemory, View, ViewMut};

pub use self::range::{LexBound, LexRange, ScoreRange};
pub use self::tree::Tree;
use crate::encoding::{Entries, Entry, inline};
use crate::number::I64_CHARS;
use crate::table::Hashing;
use crate::value::{Item, Object, Type, boxed};

/// A member as it is stored: a number in a listpack is not kept as text.
pub type Member<'a> = Entry<'a>;

/// When a sorted set takes which encoding, and the hash function of the second one.
#[derive(Clone, Copy, Debug)]
pub struct ZSetLimits {
    /// `zset-max-listpack-entries`
    pub listpack_entries: usize,
    /// `zset-max-listpack-value`, in bytes
    pub listpack_value: usize,
    /// Hash function of new sets.
    pub hashing: Hashing,
}

/// A set of byte strings with a score each, ordered by (score, member), to look at. No score is NaN.
#[derive(Clone, Copy, Debug)]
pub enum ZSetRef<'a> {
    /// Members and scores in turn.
    Listpack(Entries<'a>),
    /// As a tree.
    Tree(&'a Tree),
}

/// A sorted set to be changed.
#[derive(Debug)]
pub struct ZSetMut<'a>(&'a mut Item);

/// An empty set at a key, in the encoding for `expected` elements whose longest has `longest` bytes.
///
/// # Errors
/// When there is no memory for it.
pub fn for_members(key: &[u8], limits: &ZSetLimits, expected: usize, longest: usize) -> Result<Item, OutOfMemory> {
    let mut item = Item::with_packed(key, Type::ZSet as u8, inline::EMPTY)?;
    if let Some(mut set) = ZSetMut::of(&mut item) {
        set.prepare(expected, longest, limits)?;
    }
    Ok(item)
}

impl<'a> ZSetRef<'a> {
    /// The sorted set that an item holds, if it holds one.
    #[inline]
    pub fn of(item: &'a Item) -> Option<Self> {
        match item.view() {
            View::Packed(bytes) if item.tag() == Type::ZSet as u8 => Some(ZSetRef::Listpack(inline::entries(bytes))),
            View::Object(Object::ZSet(tree)) => Some(ZSetRef::Tree(tree)),
            _ => None,
        }
    }

    /// Number of elements.
    pub fn len(self) -> usize {
        match self {
            ZSetRef::Listpack(entries) => entries.len() / 2,
            ZSetRef::Tree(tree) => tree.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The listpack of a small set.
    pub const fn as_listpack(self) -> Option<Entries<'a>> {
        match self {
            ZSetRef::Listpack(entries) => Some(entries),
            ZSetRef::Tree(_) => None,
        }
    }

    /// The score of a member.
    pub fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            ZSetRef::Listpack(entries) => packed::find(entries, member).map(|(_, score)| score),
            ZSetRef::Tree(tree) => tree.score(member),
        }
    }

    /// Rank and score of a member.
    pub fn rank(self, member: &[u8]) -> Option<(usize, f64)> {
        match self {
            ZSetRef::Listpack(entries) => packed::rank(entries, member),
            ZSetRef::Tree(tree) => tree.rank(member),
        }
    }

    /// The element of this rank.
    pub fn get(self, rank: usize) -> Option<(Member<'a>, f64)> {
        match self {
            ZSetRef::Listpack(_) => self.iter(rank..rank.saturating_add(1), false).next(),
            ZSetRef::Tree(tree) => tree.get(rank).map(|(member, score)| (Entry::Str(member), score)),
        }
    }

    /// Ranks of the elements with a score in the range.
    pub fn score_range(self, range: &ScoreRange) -> Range<usize> {
        match self {
            ZSetRef::Listpack(entries) => packed::score_range(entries, range),
            ZSetRef::Tree(tree) => {
                let start = tree.count_before(|score, _| range.is_before(score));
                let end = tree.count_before(|score, _| range.is_before_end(score));
                start..end.max(start)
            }
        }
    }

    /// Ranks of the elements with a member in the range, but for the first `skip`, for sets whose scores are all the same.
    /// `reverse` says from which end it is walked: that matters for `skip`, and where scores differ, which Redis leaves
    /// unspecified.
    pub fn lex_range(self, range: &LexRange<'_>, reverse: bool, skip: usize) -> Range<usize> {
        match self {
            ZSetRef::Listpack(entries) => packed::lex_range(entries, range, reverse, skip),
            ZSetRef::Tree(tree) => {
                // Says "none" for some sets with different scores, as Redis does before it looks for the ends.
                let out = |rank: usize, test: &dyn Fn(&[u8]) -> bool| tree.get(rank).is_none_or(|(m, _)| test(m));
                if range.is_empty()
                    || out(tree.len().wrapping_sub(1), &|last| range.is_before(last))
                    || out(0, &|first| !range.is_before_end(first))
                {
                    return 0..0;
                }
                let start = tree.count_before(|_, member| range.is_before(member));
                let end = tree.count_before(|_, member| range.is_before_end(member)).max(start);
                let skip = skip.min(end - start);
                if reverse { start..end - skip } else { start + skip..end }
            }
        }
    }

    /// The elements of these ranks, in order or the last one first.
    pub fn iter(self, ranks: Range<usize>, reverse: bool) -> Iter<'a> {
        let ranks = ranks.start.min(self.len())..ranks.end.min(self.len());
        Iter(match (self, reverse) {
            (ZSetRef::Tree(tree), false) => Walk::Tree(tree.iter(ranks)),
            (ZSetRef::Tree(tree), true) => Walk::TreeBack(tree.iter_back(ranks)),
            (ZSetRef::Listpack(entries), false) => {
                let pos = entries.seek(2 * ranks.start as isize).unwrap_or(entries.end());
                Walk::Listpack { entries, pos, left: ranks.len() }
            }
            (ZSetRef::Listpack(entries), true) => {
                let pos = entries.seek(2 * ranks.end as isize).unwrap_or(entries.end());
                Walk::ListpackBack { entries, pos, left: ranks.len() }
            }
        })
    }

    /// Visits elements from `cursor` on, at least `count` of them, and returns the cursor to go on with: 0 at the end. A
    /// small set is visited as a whole. An element that is there from a scan's begin to its end is visited.
    pub fn scan(self, cursor: u64, count: usize, mut visit: impl FnMut(Member<'_>, f64)) -> u64 {
        match self {
            ZSetRef::Listpack(_) => {
                self.iter(0..self.len(), false).for_each(|(member, score)| visit(member, score));
                0
            }
            ZSetRef::Tree(tree) => tree.scan(cursor, count, |member, score| visit(Entry::Str(member), score)),
        }
    }
}

impl<'a> ZSetMut<'a> {
    /// The sorted set that an item holds, if it holds one.
    pub fn of(item: &'a mut Item) -> Option<Self> {
        (item.tag() == Type::ZSet as u8).then_some(Self(item))
    }

    /// A look at it.
    #[inline]
    pub fn view(&self) -> ZSetRef<'_> {
        ZSetRef::of(self.0).unwrap_or(ZSetRef::Listpack(Entries::new(&[], 0)))
    }

    /// Sets the score of a member, which is added if it is not there; returns the score it had. `score` is not NaN.
    pub fn insert(&mut self, member: &[u8], score: f64, limits: &ZSetLimits) -> Result<Option<f64>, OutOfMemory> {
        debug_assert!(!score.is_nan());
        if let ViewMut::Packed(mut packed) = self.0.view_mut() {
            let entries = inline::entries(packed.bytes());
            if let Some((pos, old)) = packed::find(entries, member) {
                if old != score {
                    packed::change(&mut packed, pos, member, score)?;
                }
                return Ok(Some(old));
            }
            if entries.len() / 2 < limits.listpack_entries
                && member.len() <= limits.listpack_value
                && packed::has_room(entries, member)
            {
                packed::insert_new(&mut packed, member, score)?;
                return Ok(None);
            }
        }
        self.tree(limits)?.insert(member, score)
    }

    /// The tree that the set is, or becomes.
    fn tree(&mut self, limits: &ZSetLimits) -> Result<&mut Tree, OutOfMemory> {
        if let View::Packed(_) = self.0.view() {
            let mut tree = Tree::new(limits.hashing);
            let mut buf = [0; I64_CHARS];
            for (member, score) in self.view().iter(0..usize::MAX, false) {
                tree.insert(member.bytes(&mut buf), score)?;
            }
            self.0.set_object(Type::ZSet as u8, boxed(Object::ZSet(Box::new(tree))))?;
        }
        match self.0.view_mut() {
            ViewMut::Object(Object::ZSet(tree)) => Ok(tree),
            _ => Err(OutOfMemory),
        }
    }

    /// Makes ready for the elements that a command gives, whose longest has `longest` bytes: leaves the listpack at once if
    /// they alone are too many for it or one is too long.
    pub fn prepare(&mut self, elements: usize, longest: usize, limits: &ZSetLimits) -> Result<(), OutOfMemory> {
        if elements > limits.listpack_entries || longest > limits.listpack_value {
            self.tree(limits)?;
        }
        Ok(())
    }

    /// Goes back to a listpack if the set fits its limits; for results that were built at once.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn settle(&mut self, limits: &ZSetLimits) -> Result<(), OutOfMemory> {
        let fits = |member: Member<'_>| member.text_len() <= limits.listpack_value;
        if let ZSetRef::Tree(tree) = self.view()
            && tree.len() <= limits.listpack_entries
            && self.view().iter(0..usize::MAX, false).all(|(member, _)| fits(member))
        {
            let mut small = Item::with_packed(&[], Type::ZSet as u8, inline::EMPTY)?;
            if let ViewMut::Packed(mut packed) = small.view_mut() {
                for (member, score) in tree.iter(0..tree.len()) {
                    packed::push(&mut packed, member, score)?;
                }
            }
            if let View::Packed(bytes) = small.view() {
                self.0.set_packed(Type::ZSet as u8, bytes)?;
            }
        }
        Ok(())
    }

    /// Removes a member; returns the score it had.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match self.0.view_mut() {
            ViewMut::Packed(mut packed) => {
                let (pos, score) = packed::find(inline::entries(packed.bytes()), member)?;
                inline::remove(&mut packed, pos, 2);
                Some(score)
            }
            ViewMut::Object(Object::ZSet(tree)) => tree.remove(member),
            _ => None,
        }
    }

    /// Removes the elements of these ranks; `each` sees them in order.
    pub fn remove_range(&mut self, ranks: Range<usize>, mut each: impl FnMut(Member<'_>, f64)) {
        let len = self.view().len();
        let ranks = ranks.start.min(len)..ranks.end.min(len);
        if let ZSetRef::Listpack(_) = self.view() {
            self.view().iter(ranks.clone(), false).for_each(|(member, score)| each(member, score));
        }
        match self.0.view_mut() {
            ViewMut::Packed(mut packed) => {
                if let Some(pos) = inline::entries(packed.bytes()).seek(2 * ranks.start as isize) {
                    inline::remove(&mut packed, pos, 2 * ranks.len());
                }
            }
            ViewMut::Object(Object::ZSet(tree)) => {
                tree.remove_range(ranks, |member, score| each(Entry::Str(member), score));
            }
            _ => {}
        }
    }
}

enum Walk<'a> {
    Listpack { entries: Entries<'a>, pos: usize, left: usize },
    ListpackBack { entries: Entries<'a>, pos: usize, left: usize },
    Tree(tree::Forward<'a>),
    TreeBack(tree::Backward<'a>),
}

/// Iterator over elements of a sorted set.
pub struct Iter<'a>(Walk<'a>);

impl<'a> Iterator for Iter<'a> {
    type Item = (Member<'a>, f64);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Walk::Tree(walk) => walk.next().map(|(member, score)| (Entry::Str(member), score)),
            Walk::TreeBack(walk) => walk.next().map(|(member, score)| (Entry::Str(member), score)),
            Walk::Listpack { entries, pos, left } => {
                *left = left.checked_sub(1)?;
                let mut cursor = entries.iter_from(*pos);
                let element = (cursor.next()?, packed::score_of(cursor.next()?));
                *pos = cursor.pos();
                Some(element)
            }
            Walk::ListpackBack { entries, pos, left } => {
                *left = left.checked_sub(1)?;
                let score = entries.prev(*pos)?;
                *pos = entries.prev(score)?;
                Some((entries.get(*pos), packed::score_of(entries.get(score))))
            }
        }
    }
}
