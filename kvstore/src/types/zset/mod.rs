//! Sorted sets: a listpack while small, a counted B+-tree with a hash index beyond (Redis calls that "skiplist").
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

use barium_cell::OutOfMemory;

pub use self::range::{LexBound, LexRange, ScoreRange};
use self::tree::Tree;
use crate::encoding::listpack::{Entry, Listpack};
use crate::number::I64_CHARS;
use crate::table::Hashing;

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

#[derive(Debug)]
enum Repr {
    Listpack(Listpack),
    Tree(Box<Tree>),
}

/// A set of byte strings with a score each, ordered by (score, member). No score is NaN.
#[derive(Debug)]
pub struct ZSet {
    repr: Repr,
}

impl Default for ZSet {
    fn default() -> Self {
        Self { repr: Repr::Listpack(Listpack::new()) }
    }
}

impl ZSet {
    /// An empty set, small.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty set in the encoding for `expected` elements whose longest has `longest` bytes.
    pub fn for_members(limits: &ZSetLimits, expected: usize, longest: usize) -> Self {
        if expected <= limits.listpack_entries && longest <= limits.listpack_value {
            Self::default()
        } else {
            Self { repr: Repr::Tree(Box::new(Tree::new(limits.hashing))) }
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match &self.repr {
            Repr::Listpack(lp) => lp.len() / 2,
            Repr::Tree(tree) => tree.len(),
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
            Repr::Tree(_) => "skiplist",
        }
    }

    /// The listpack of a small set.
    pub fn as_listpack(&self) -> Option<&Listpack> {
        match &self.repr {
            Repr::Listpack(lp) => Some(lp),
            Repr::Tree(_) => None,
        }
    }

    /// Bytes of memory behind the set, without the struct itself.
    pub fn memory_usage(&self) -> usize {
        match &self.repr {
            Repr::Listpack(lp) => lp.memory_usage(),
            Repr::Tree(tree) => size_of::<Tree>() + tree.memory_usage(),
        }
    }

    /// Frees about `n` elements of a set that nobody looks into any more; true when only the set itself is left to drop.
    pub fn free_step(&mut self, n: usize) -> bool {
        match &mut self.repr {
            Repr::Listpack(_) => true,
            Repr::Tree(tree) => tree.free_step(n),
        }
    }

    /// A copy in the same encoding.
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        Ok(match &self.repr {
            Repr::Listpack(lp) => Self { repr: Repr::Listpack(lp.try_clone()?) },
            Repr::Tree(tree) => {
                let mut copy = Tree::new(tree.hashing());
                for (member, score) in tree.iter(0..tree.len()) {
                    copy.insert(member, score)?;
                }
                Self { repr: Repr::Tree(Box::new(copy)) }
            }
        })
    }

    /// The score of a member.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.repr {
            Repr::Listpack(lp) => packed::find(lp, member).map(|(_, score)| score),
            Repr::Tree(tree) => tree.score(member),
        }
    }

    /// Sets the score of a member, which is added if it is not there; returns the score it had. `score` is not NaN.
    pub fn insert(&mut self, member: &[u8], score: f64, limits: &ZSetLimits) -> Result<Option<f64>, OutOfMemory> {
        debug_assert!(!score.is_nan());
        if let Repr::Listpack(lp) = &mut self.repr {
            if let Some((pos, old)) = packed::find(lp, member) {
                if old != score {
                    packed::remove_at(lp, pos);
                    packed::insert_new(lp, member, score);
                }
                return Ok(Some(old));
            }
            if lp.len() / 2 < limits.listpack_entries
                && member.len() <= limits.listpack_value
                && packed::has_room(lp, member)
            {
                packed::insert_new(lp, member, score);
                return Ok(None);
            }
        }
        self.make_tree(limits)?.insert(member, score)
    }

    /// The tree that the set is, or becomes.
    fn make_tree(&mut self, limits: &ZSetLimits) -> Result<&mut Tree, OutOfMemory> {
        if let Repr::Listpack(_) = self.repr {
            let mut tree = Tree::new(limits.hashing);
            let mut buf = [0; I64_CHARS];
            for (member, score) in self.iter(0..self.len(), false) {
                tree.insert(member.bytes(&mut buf), score)?;
            }
            self.repr = Repr::Tree(Box::new(tree));
        }
        match &mut self.repr {
            Repr::Tree(tree) => Ok(tree),
            Repr::Listpack(_) => unreachable!("it was just made one"),
        }
    }

    /// Makes ready for the elements that a command gives, whose longest has `longest` bytes: leaves the listpack at once if
    /// they alone are too many for it or one is too long.
    pub fn prepare(&mut self, elements: usize, longest: usize, limits: &ZSetLimits) -> Result<(), OutOfMemory> {
        if elements > limits.listpack_entries || longest > limits.listpack_value {
            self.make_tree(limits)?;
        }
        Ok(())
    }

    /// Goes back to a listpack if the set fits its limits; for results that were built at once.
    pub fn settle(&mut self, limits: &ZSetLimits) {
        let fits = |member: Member<'_>| member.text_len() <= limits.listpack_value;
        if let Repr::Tree(_) = self.repr
            && self.len() <= limits.listpack_entries
            && self.iter(0..self.len(), false).all(|(member, _)| fits(member))
        {
            let mut lp = Listpack::new();
            for (member, score) in self.iter(0..self.len(), false) {
                packed::insert_new(&mut lp, &member.to_vec(), score);
            }
            self.repr = Repr::Listpack(lp);
        }
    }

    /// Removes a member; returns the score it had.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match &mut self.repr {
            Repr::Listpack(lp) => {
                let (pos, score) = packed::find(lp, member)?;
                packed::remove_at(lp, pos);
                Some(score)
            }
            Repr::Tree(tree) => tree.remove(member),
        }
    }

    /// Removes the elements of these ranks; `each` sees them in order.
    pub fn remove_range(&mut self, ranks: Range<usize>, mut each: impl FnMut(Member<'_>, f64)) {
        let ranks = ranks.start.min(self.len())..ranks.end.min(self.len());
        match &mut self.repr {
            Repr::Tree(tree) => tree.remove_range(ranks, |member, score| each(Entry::Str(member), score)),
            Repr::Listpack(_) => {
                self.iter(ranks.clone(), false).for_each(|(member, score)| each(member, score));
                if let Repr::Listpack(lp) = &mut self.repr {
                    lp.delete_range(2 * ranks.start as isize, 2 * ranks.len());
                }
            }
        }
    }

    /// Rank and score of a member.
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        match &self.repr {
            Repr::Listpack(lp) => packed::rank(lp, member),
            Repr::Tree(tree) => tree.rank(member),
        }
    }

    /// The element of this rank.
    pub fn get(&self, rank: usize) -> Option<(Member<'_>, f64)> {
        match &self.repr {
            Repr::Listpack(_) => self.iter(rank..rank.saturating_add(1), false).next(),
            Repr::Tree(tree) => tree.get(rank).map(|(member, score)| (Entry::Str(member), score)),
        }
    }

    /// Ranks of the elements with a score in the range.
    pub fn score_range(&self, range: &ScoreRange) -> Range<usize> {
        match &self.repr {
            Repr::Listpack(lp) => packed::score_range(lp, range),
            Repr::Tree(tree) => {
                let start = tree.count_before(|score, _| range.is_before(score));
                let end = tree.count_before(|score, _| range.is_before_end(score));
                start..end.max(start)
            }
        }
    }

    /// Ranks of the elements with a member in the range, but for the first `skip`, for sets whose scores are all the same.
    /// `reverse` says from which end it is walked: that matters for `skip`, and where scores differ, which Redis leaves
    /// unspecified.
    pub fn lex_range(&self, range: &LexRange<'_>, reverse: bool, skip: usize) -> Range<usize> {
        match &self.repr {
            Repr::Listpack(lp) => packed::lex_range(lp, range, reverse, skip),
            Repr::Tree(tree) => {
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
    pub fn iter(&self, ranks: Range<usize>, reverse: bool) -> Iter<'_> {
        let ranks = ranks.start.min(self.len())..ranks.end.min(self.len());
        Iter(match (&self.repr, reverse) {
            (Repr::Tree(tree), false) => Walk::Tree(tree.iter(ranks)),
            (Repr::Tree(tree), true) => Walk::TreeBack(tree.iter_back(ranks)),
            (Repr::Listpack(lp), false) => {
                let pos = lp.seek(2 * ranks.start as isize).unwrap_or(lp.end());
                Walk::Listpack { lp, pos, left: ranks.len() }
            }
            (Repr::Listpack(lp), true) => {
                let pos = lp.seek(2 * ranks.end as isize).unwrap_or(lp.end());
                Walk::ListpackBack { lp, pos, left: ranks.len() }
            }
        })
    }

    /// Visits elements from `cursor` on, at least `count` of them, and returns the cursor to go on with: 0 at the end. A
    /// small set is visited as a whole. An element that is there from a scan's begin to its end is visited.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(Member<'_>, f64)) -> u64 {
        match &self.repr {
            Repr::Listpack(_) => {
                self.iter(0..self.len(), false).for_each(|(member, score)| visit(member, score));
                0
            }
            Repr::Tree(tree) => tree.scan(cursor, count, |member, score| visit(Entry::Str(member), score)),
        }
    }
}

enum Walk<'a> {
    Listpack { lp: &'a Listpack, pos: usize, left: usize },
    ListpackBack { lp: &'a Listpack, pos: usize, left: usize },
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
            Walk::Listpack { lp, pos, left } => {
                *left = left.checked_sub(1)?;
                let mut cursor = lp.iter_from(*pos);
                let element = (cursor.next()?, packed::score_of(cursor.next()?));
                *pos = cursor.pos();
                Some(element)
            }
            Walk::ListpackBack { lp, pos, left } => {
                *left = left.checked_sub(1)?;
                let score = lp.prev(*pos)?;
                *pos = lp.prev(score)?;
                Some((lp.get(*pos), packed::score_of(lp.get(score))))
            }
        }
    }
}
