//! Sorting the first elements of many, in the order in which Redis leaves equal ones.

use alloc::vec::Vec;
use core::cmp::Ordering;

/// Below this many elements, insertion is used.
const SMALL: usize = 7;
/// From this many on, the pivot is the median of nine.
const LARGE: usize = 40;

/// Puts the `wanted` least elements of `items` in front, in order: Bentley and McIlroy's quicksort ("Engineering a sort
/// function", 1993), which leaves out the parts that nobody asks for. Bad input does not make it slow: after enough rounds
/// the rest is sorted otherwise.
pub fn partial_sort<T>(items: &mut [T], wanted: usize, mut compare: impl FnMut(&T, &T) -> Ordering) {
    let rounds = 2 * usize::BITS - 2 * items.len().leading_zeros() + 8;
    let mut left: Vec<(usize, usize, u32)> = alloc::vec![(0, items.len(), rounds)];
    while let Some((start, end, rounds)) = left.pop() {
        if rounds == 0 {
            items[start..end].sort_by(&mut compare);
            continue;
        }
        let Some((less, greater)) = partition(&mut items[start..end], &mut compare) else { continue };
        for (from, to) in [(end - greater, end), (start, start + less)] {
            if to > from + 1 && from < wanted {
                left.push((from, to, rounds - 1));
            }
        }
    }
}

/// Sorts a few items; of more, brings those less than a pivot to the front and those greater to the back and says how many
/// these are.
fn partition<T>(items: &mut [T], compare: &mut impl FnMut(&T, &T) -> Ordering) -> Option<(usize, usize)> {
    let n = items.len();
    if n < SMALL {
        for i in 1..n {
            let mut at = i;
            while at > 0 && compare(&items[at - 1], &items[at]).is_gt() {
                items.swap(at - 1, at);
                at -= 1;
            }
        }
        return None;
    }
    let mut middle = n / 2;
    if n > SMALL {
        let (mut low, mut high) = (0, n - 1);
        if n > LARGE {
            let d = n / 8;
            low = median(items, low, low + d, low + 2 * d, compare);
            middle = median(items, middle - d, middle, middle + d, compare);
            high = median(items, high - 2 * d, high - d, high, compare);
        }
        middle = median(items, low, middle, high, compare);
    }
    items.swap(0, middle);

    // Equal ones are gathered at both ends: ..a, and d.. ; b and c walk towards each other. `c` and `d` are one beyond.
    let (mut a, mut b, mut c, mut d) = (1, 1, n, n);
    loop {
        while b < c {
            let order = compare(&items[b], &items[0]);
            if order.is_gt() {
                break;
            }
            if order.is_eq() {
                items.swap(a, b);
                a += 1;
            }
            b += 1;
        }
        while b < c {
            let order = compare(&items[c - 1], &items[0]);
            if order.is_lt() {
                break;
            }
            if order.is_eq() {
                items.swap(c - 1, d - 1);
                d -= 1;
            }
            c -= 1;
        }
        if b >= c {
            break;
        }
        items.swap(b, c - 1);
        b += 1;
        c -= 1;
    }
    let (less, greater) = (b - a, d - c);
    swap_runs(items, 0, b - a.min(less), a.min(less));
    let back = greater.min(n - d);
    swap_runs(items, b, n - back, back);
    Some((less, greater))
}

fn swap_runs<T>(items: &mut [T], one: usize, other: usize, len: usize) {
    (0..len).for_each(|i| items.swap(one + i, other + i));
}

fn median<T>(items: &[T], a: usize, b: usize, c: usize, compare: &mut impl FnMut(&T, &T) -> Ordering) -> usize {
    let mut less = |x: usize, y: usize| compare(&items[x], &items[y]).is_lt();
    if less(a, b) {
        if less(b, c) {
            b
        } else if less(a, c) {
            c
        } else {
            a
        }
    } else if less(c, b) {
        b
    } else if less(a, c) {
        a
    } else {
        c
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_come_first() {
        let mut state = 1u32;
        for n in [0, 1, 6, 7, 8, 40, 41, 500] {
            for kinds in [1, 3, 1_000] {
                let mut random = || {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    state >> 8
                };
                let mut items: Vec<u32> = (0..n).map(|_| random() % kinds).collect();
                let wanted = if n == 0 { 0 } else { random() as usize % n as usize };
                let mut sorted = items.clone();
                sorted.sort_unstable();
                partial_sort(&mut items, wanted, Ord::cmp);
                assert_eq!(items[..wanted], sorted[..wanted]);
                items.sort_unstable();
                assert_eq!(items, sorted);
            }
        }
    }

    #[test]
    fn bad_input_takes_no_longer() {
        // An adversary that answers so that every pivot is bad (McIlroy 1999).
        let n = 20_000usize;
        let gas = n;
        let mut value = alloc::vec![gas; n];
        let (mut solid, mut candidate, mut compared) = (0, 0, 0usize);
        let mut items: Vec<usize> = (0..n).collect();
        partial_sort(&mut items, n, |&x, &y| {
            compared += 1;
            if value[x] == gas && value[y] == gas {
                value[if x == candidate { x } else { y }] = solid;
                solid += 1;
            }
            if value[x] == gas {
                candidate = x;
            } else if value[y] == gas {
                candidate = y;
            }
            value[x].cmp(&value[y])
        });
        assert!(compared < 80 * n, "{compared}");
    }
}
