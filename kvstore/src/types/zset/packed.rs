//! The small encoding of a sorted set: member, score, member, score ... in one listpack, in order.

use core::cmp::Ordering;
use core::ops::Range;

use super::{LexRange, Member, ScoreRange, leaf::order_of};
use crate::encoding::listpack::{Entry, HEADER_LEN, Listpack, encoded_len};
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
pub(super) fn has_room(lp: &Listpack, member: &[u8]) -> bool {
    lp.byte_len() + encoded_len(member) + 2 * F64_CHARS < MAX_LISTPACK_BYTES
}

/// Elements with their member's position, in order.
fn elements(lp: &Listpack) -> impl Iterator<Item = (usize, Member<'_>, f64)> {
    let mut cursor = lp.iter_from(HEADER_LEN);
    core::iter::from_fn(move || {
        let pos = cursor.pos();
        let member = cursor.next()?;
        Some((pos, member, score_of(cursor.next()?)))
    })
}

/// Position, rank and score of a member.
pub(super) fn find(lp: &Listpack, member: &[u8]) -> Option<(usize, f64)> {
    let pos = lp.find(lp.first()?, member, 2)?;
    Some((pos, score_of(lp.get(lp.next(pos)?))))
}

pub(super) fn rank(lp: &Listpack, member: &[u8]) -> Option<(usize, f64)> {
    let (found, score) = find(lp, member)?;
    Some((elements(lp).take_while(|(pos, ..)| *pos < found).count(), score))
}

pub(super) fn insert_new(lp: &mut Listpack, member: &[u8], score: f64) {
    let order = order_of(score);
    let place = elements(lp).find(|&(_, other, other_score)| {
        order_of(other_score).cmp(&order).then_with(|| compare(other, member)).is_gt()
    });
    let pos = place.map_or(lp.end(), |(pos, ..)| pos);
    // The member last, so that it ends up in front of its score.
    match double_to_i64(score) {
        Some(integer) => lp.insert_int(pos, integer),
        None => lp.insert(pos, format_f64(&mut [0; F64_CHARS], score)),
    }
    lp.insert(pos, member);
}

pub(super) fn remove_at(lp: &mut Listpack, pos: usize) {
    lp.delete_many(pos, 2);
}

/// Ranks of the elements in a range of scores.
pub(super) fn score_range(lp: &Listpack, range: &ScoreRange) -> Range<usize> {
    let start = elements(lp).take_while(|&(_, _, score)| range.is_before(score)).count();
    let end = elements(lp).take_while(|&(_, _, score)| range.is_before_end(score)).count();
    start..end.max(start)
}

/// Ranks of the elements in a range of members, but for the first `skip`. What it gives when scores differ is not specified,
/// but is what Redis gives: from the first element (`reverse`: the last one) that is not out of the range at its near end,
/// `skip` elements are passed over whatever they are, and then the run of elements not out of it at its far end is taken.
pub(super) fn lex_range(lp: &Listpack, range: &LexRange<'_>, reverse: bool, skip: usize) -> Range<usize> {
    let len = lp.len() / 2;
    let test = |rank: usize, test: &dyn Fn(&[u8]) -> bool| {
        lp.seek(2 * rank as isize).is_some_and(|pos| test(lp.get(pos).bytes(&mut [0; I64_CHARS])))
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
