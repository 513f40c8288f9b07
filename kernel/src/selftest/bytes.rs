//! `debug=bytes`: copying, filling and comparing as this machine does it, against byte-by-byte models. The functions behind
//! are the architecture's own assembly, which no host of another kind can run.

use crate::announce;
use crate::power::{self, ExitStatus};
use alloc::vec;
use alloc::vec::Vec;
use core::hint::black_box;

/// Ranges start this far into their buffers, so that a stray access shows.
const EDGE: usize = 80;
/// Every length up to the first past two blocks of the longest kind, then some longer ones.
const LENGTHS: [core::ops::Range<usize>; 3] = [0..280, 575..580, 4090..4100];

/// Runs the comparison and powers off with the verdict.
pub(super) fn run() {
    let failed = LENGTHS.into_iter().flatten().find(|len| !(copies(*len) && fills(*len) && compares(*len)));
    match failed {
        None => announce!("byte functions passed"),
        Some(len) => announce!("byte functions failed at length {len}"),
    }
    power::exit(if failed.is_none() { ExitStatus::Success } else { ExitStatus::Failure(1) });
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

/// Whether two buffers are the same, without the functions under test.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| black_box(*a) == black_box(*b))
}

/// Moves to both sides by distances around the block sizes, and at every alignment.
fn copies(len: usize) -> bool {
    [0, 1, 3, 8, 15, 16, 33, 63, 64, 65, 127, 200].into_iter().all(|shift| {
        [(EDGE, EDGE + shift), (EDGE + shift, EDGE)].into_iter().all(|(from, to)| {
            let mut buffer = pattern(len + shift + 2 * EDGE);
            let old = pattern(buffer.len());
            buffer.copy_within(from..from + black_box(len), to);
            buffer.iter().enumerate().all(|(at, byte)| {
                let moved = (to..to + len).contains(&at);
                *byte == if moved { old[at - to + from] } else { old[at] }
            })
        })
    })
}

fn fills(len: usize) -> bool {
    (0..16).all(|shift| {
        let mut buffer = vec![0xa5u8; len + 2 * EDGE];
        let range = EDGE + shift..EDGE + shift + black_box(len);
        buffer[range.clone()].fill(black_box(0x3c));
        buffer.iter().enumerate().all(|(at, byte)| *byte == if range.contains(&at) { 0x3c } else { 0xa5 })
    })
}

/// Every place of a first difference (in long ranges every seventh), in both directions, before a contrary one.
fn compares(len: usize) -> bool {
    let a = pattern(len);
    let mut b = pattern(len);
    if black_box(&a[..]).cmp(black_box(&b[..])).is_ne() || !same(&a, &b) {
        return false;
    }
    (0..len).step_by(if len > 300 { 7 } else { 1 }).all(|at| {
        b[at] = a[at].wrapping_add(0x80);
        let last = len - 1;
        if at < last {
            b[last] = if a[at] < b[at] { a[last].wrapping_sub(1) } else { a[last].wrapping_add(1) };
        }
        let right = black_box(&a[..]).cmp(black_box(&b[..])) == a[at].cmp(&b[at])
            && black_box(&b[..]).cmp(black_box(&a[..])) == b[at].cmp(&a[at])
            && black_box(&a[..]) != black_box(&b[..]);
        (b[at], b[last]) = (a[at], a[last]);
        right
    })
}
