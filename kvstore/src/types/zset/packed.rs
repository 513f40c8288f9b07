//! The small encoding of a sorted set: member, score, member, score ... in one listpack, in order.

use core::cmp::Ordering;
use core::ops::Range;

use barium_cell::{OutOfMemory, Packed};

use super::{LexRange, Member, ScoreRange, leaf::order_of};
use crate::encoding::listpack::encoded_len;
use crate::encoding::{Encoded, Entries, Entry, inline};
use crate::number::I64_CHARS;
use crate::number::{double::F64_CHARS, double_to_i64, format_f64, parse_f64};

/// Redis lets a listpack grow to 1 GiB.
const MAX_LISTPACK_BYTES: usize = 1 << 30;

/// The score that an entry holds.
pub(super) fn score_of(entry: Entry<'_>) -> f64 {
    match entry {
        Entry::Int(value) => value as f64,
        Entry::Str(text) => parse_f64(text).unwrap_or(0.0),
    }
}

fn compare(a: Entry<'_>, b: &[u8]) -> Ordering {
    a.bytes(&mut [0; I64_CHARS]).cmp(b)
}

/// Whether a listpack takes another element of this length.
pub(super) fn has_room(entries: Entries<'_>, member: &[u8]) -> bool {
    entries.end() + encoded_len(member) + 2 * F64_CHARS < MAX_LISTPACK_BYTES
}

/// Elements with their member's position, in order.
fn elements(entries: Entries<'_>) -> impl Iterator<Item = (usize, Member<'_>, f64)> {
    let mut cursor = entries.iter_from(0);
    core::iter::from_fn(move || {
        let pos = cursor.pos();
        let member = cursor.next()?;
        Some((pos, member, score_of(cursor.next()?)))
    })
}

/// Position, rank and score of a member.
pub(super) fn find(entries: Entries<'_>, member: &[u8]) -> Option<(usize, f64)> {
    let pos = entries.find(entries.first()?, member, 2)?;
    Some((pos, score_of(entries.get(entries.next(pos)?))))
}

pub(super) fn rank(entries: Entries<'_>, member: &[u8]) -> Option<(usize, f64)> {
    let (found, score) = find(entries, member)?;
    Some((elements(entries).take_while(|(pos, ..)| *pos < found).count(), score))
}

/// Where an element belongs that is not there, or is there with another score.
fn place(entries: Entries<'_>, member: &[u8], score: f64) -> usize {
    let order = order_of(score);
    let mut all = elements(entries);
    let next = all.find(|&(_, other, other_score)| {
        order_of(other_score).cmp(&order).then_with(|| compare(other, member)).is_gt()
    });
    next.map_or(entries.end(), |(pos, ..)| pos)
}

/// Makes the `old` bytes at `pos`, which are `removed` entries, be one element.
fn write<T>(
    packed: &mut Packed<'_, T>,
    pos: usize,
    old: (usize, usize),
    member: &[u8],
    score: f64,
) -> Result<(), OutOfMemory> {
    let mut buf = [0; F64_CHARS];
    let score = match double_to_i64(score) {
        Some(integer) => Encoded::of_int(integer),
        None => Encoded::of(format_f64(&mut buf, score)),
    };
    inline::splice(packed, pos, old, &[Encoded::of(member), score])
}

/// Adds an element that is not there.
pub(super) fn insert_new<T>(packed: &mut Packed<'_, T>, member: &[u8], score: f64) -> Result<(), OutOfMemory> {
    let pos = place(inline::entries(packed.bytes()), member, score);
    write(packed, pos, (0, 0), member, score)
}

/// Adds an element that comes after all others.
pub(super) fn push<T>(packed: &mut Packed<'_, T>, member: &[u8], score: f64) -> Result<(), OutOfMemory> {
    let end = inline::entries(packed.bytes()).end();
    write(packed, end, (0, 0), member, score)
}

/// Gives the element at `pos`, whose member is `member`, another score, and moves it to where it then belongs.
pub(super) fn change<T>(packed: &mut Packed<'_, T>, pos: usize, member: &[u8], score: f64) -> Result<(), OutOfMemory> {
    let entries = inline::entries(packed.bytes());
    let (old, before) = (entries.extent(pos, 2), entries.end());
    let to = place(entries, member, score);
    write(packed, pos, old, member, score)?;
    let new = old.0 + inline::entries(packed.bytes()).end() - before;
    let bytes = inline::entries_mut(packed);
    if to < pos {
        bytes[to..pos + new].rotate_right(new);
    } else if to > pos + old.0 {
        bytes[pos..to + new - old.0].rotate_left(new);
    }
    Ok(())
}

/// Ranks of the elements in a range of scores.
pub(super) fn score_range(entries: Entries<'_>, range: &ScoreRange) -> Range<usize> {
    let start = elements(entries).take_while(|&(_, _, score)| range.is_before(score)).count();
    let end = elements(entries).take_while(|&(_, _, score)| range.is_before_end(score)).count();
    start..end.max(start)
}

/// Ranks of the elements in a range of members, but for the first `skip`. What it gives when scores differ is not specified,
/// but is what Redis gives: from the first element (`reverse`: the last one) that is not out of the range at its near end,
/// `skip` elements are passed over whatever they are, and then the run of elements not out of it at its far end is taken.
pub(super) fn lex_range(entries: Entries<'_>, range: &LexRange<'_>, reverse: bool, skip: usize) -> Range<usize> {
    let len = entries.len() / 2;
    let test = |rank: usize, test: &dyn Fn(&[u8]) -> bool| {
        entries.seek(2 * rank as isize).is_some_and(|pos| test(entries.get(pos).bytes(&mut [0; I64_CHARS])))
    };
    let above = |rank: usize| test(rank, &|member| !range.is_before(member));
    let below = |rank: usize| test(rank, &|member| range.is_before_end(member));
    if range.is_empty() || len == 0 || !above(len - 1) || !below(0) {
        return 0..0;
    }
    if reverse {
        let Some(last) = (0..len).rev().find(|&rank| below(rank)).filter(|&rank| above(rank)) else { return 0..0 };
        let end = (last + 1).saturating_sub(skip);
        end - (0..end).rev().take_while(|&rank| above(rank)).count()..end
    } else {
        let Some(first) = (0..len).find(|&rank| above(rank)).filter(|&rank| below(rank)) else { return 0..0 };
        let start = first.saturating_add(skip).min(len);
        start..start + (start..len).take_while(|&rank| below(rank)).count()
    }
}
