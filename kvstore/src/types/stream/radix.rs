//! The number of nodes that Redis's radix tree would have for a set of IDs, kept up to date as IDs come and go: XINFO STREAM
//! shows it, and must not visit all of them for it.
//!
//! The tree has a node for each ID, one for each place where IDs part, and one for each piece of more than one byte between
//! those (and between the root, which is there always, and the first of them).

use super::id::StreamId;
use alloc::collections::BTreeMap;

/// Bytes of an ID.
const LEN: u32 = 16;

/// How many of their first bytes two IDs have in common.
const fn common(a: u128, b: u128) -> u32 {
    (a ^ b).leading_zeros() / 8
}

/// Nodes between a place at depth `below` and the next one above it, if there is one.
fn piece(below: u32, above: Option<u32>) -> usize {
    match above {
        Some(above) => usize::from(below - above > 1),
        None => usize::from(below > 0),
    }
}

/// How many nodes the tree has more with `id`, which is not among `ids`, than without it.
pub(super) fn added_by<V>(ids: &BTreeMap<StreamId, V>, id: StreamId) -> usize {
    let number = |id: &StreamId| u128::from_be_bytes(id.to_bytes());
    let x = number(&id);
    let before = |x: u128| ids.range(..StreamId::from_bytes(x.to_be_bytes())).next_back().map(|(id, _)| number(id));
    let from = |x: u128| ids.range(StreamId::from_bytes(x.to_be_bytes())..).next().map(|(id, _)| number(id));
    let left = before(x).map(|n| common(n, x));
    let right = from(x).map(|n| common(n, x));
    // Where the new ID parts from the others.
    let Some(at) = left.max(right) else {
        // The root of an empty tree becomes the ID's one piece.
        return 1;
    };
    // The IDs that go with it so far.
    let low = x & !(u128::MAX.checked_shr(8 * at).unwrap_or(0));
    let high = x | u128::MAX.checked_shr(8 * at).unwrap_or(0);
    let (Some(first), Some(last)) = (from(low), high.checked_add(1).map_or_else(|| before_end(ids), before)) else {
        return 0;
    };
    let below = if first == last { LEN } else { common(first, last) };
    if below == at {
        // Others part here too.
        return 1 + piece(LEN, Some(at));
    }
    let outside = before(first).map(|n| common(n, first));
    let above = outside.max(last.checked_add(1).and_then(from).map(|n| common(n, last)));
    2 + piece(LEN, Some(at)) + piece(below, Some(at)) + piece(at, above) - piece(below, above)
}

/// The greatest ID, as a number.
fn before_end<V>(ids: &BTreeMap<StreamId, V>) -> Option<u128> {
    ids.last_key_value().map(|(id, _)| u128::from_be_bytes(id.to_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;
    use alloc::vec::Vec;

    /// Counted by a walk over all.
    fn counted(ids: &BTreeMap<StreamId, ()>) -> usize {
        let mut all = ids.keys().map(|id| id.to_bytes());
        let Some(mut before) = all.next() else { return 1 };
        // Depths of the places where IDs part above the present one.
        let mut open = Vec::new();
        let mut nodes = 1;
        let piece = |below: usize, above: usize| usize::from(below - above > 1);
        for id in all {
            nodes += 1;
            let common = id.iter().zip(&before).take_while(|(a, b)| a == b).count();
            let mut below = 16;
            while let Some(&top) = open.last() {
                if top < common {
                    break;
                }
                nodes += piece(below, top);
                below = top;
                if top == common {
                    break;
                }
                open.pop();
            }
            if below > common {
                nodes += 1 + piece(below, common);
                open.push(common);
            }
            before = id;
        }
        let mut below = 16;
        while let Some(top) = open.pop() {
            nodes += piece(below, top);
            below = top;
        }
        nodes + usize::from(below > 0)
    }

    #[test]
    fn what_comes_and_goes_counts_as_a_walk_does() {
        let mut rng = Rng::new(4);
        for round in 0..40 {
            let (mut ids, mut nodes) = (BTreeMap::new(), 1);
            for step in 0..300 {
                let part = |rng: &mut Rng| match rng.below(4) {
                    0 => rng.next_u64(),
                    1 => rng.below(4) as u64,
                    2 => 1 << (8 * rng.below(8)),
                    _ => u64::MAX - rng.below(3) as u64,
                };
                let id = StreamId { ms: part(&mut rng), seq: part(&mut rng) };
                let grow = (step / 50 + round) % 2 == 0 || ids.len() < 2;
                if grow && !ids.contains_key(&id) {
                    nodes += added_by(&ids, id);
                    ids.insert(id, ());
                } else if let Some((&near, ())) = ids.range(id..).next() {
                    ids.remove(&near);
                    nodes -= added_by(&ids, near);
                }
                assert_eq!(nodes, counted(&ids), "{ids:?}");
            }
        }
    }
}
