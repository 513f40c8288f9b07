//! Random selections without repetition.

use alloc::vec::Vec;

use barium_cell::OutOfMemory;

use crate::random::Rng;
use crate::table::{Keyed, Table};

/// `count` of `total` items in their own order (all, if there are no more), each choice as likely as the other: an item
/// is taken with the probability (still wanted / still to come). (Knuth, TAOCP 3.4.2, algorithm S.)
///
/// # Errors
/// When there is no memory for the list.
pub fn in_order<T>(
    items: impl Iterator<Item = T>,
    total: usize,
    count: usize,
    rng: &mut Rng,
) -> Result<Vec<T>, OutOfMemory> {
    let mut wanted = count.min(total);
    let mut chosen = Vec::new();
    chosen.try_reserve_exact(wanted).map_err(|_| OutOfMemory)?;
    for (i, item) in items.enumerate() {
        if wanted == 0 {
            break;
        }
        if rng.below(total - i) < wanted {
            chosen.push(item);
            wanted -= 1;
        }
    }
    Ok(chosen)
}

/// `count` different items of a table (all, if there are no more), each choice as likely as the other. Takes time in
/// proportion to the smaller of the table and about three times `count`.
///
/// # Errors
/// When there is no memory for the list.
pub fn distinct<'a, T: Keyed>(table: &'a Table<T>, count: usize, rng: &mut Rng) -> Result<Vec<&'a T>, OutOfMemory> {
    let total = table.len();
    let count = count.min(total);
    let mut chosen: Vec<&T> = Vec::new();
    if count.saturating_mul(3) > total {
        // Nearly all: choose while walking over everything.
        return in_order(table.iter(), total, count, rng);
    }
    chosen.try_reserve_exact(count).map_err(|_| OutOfMemory)?;
    let mut drawn = Table::new(table.hashing());
    while chosen.len() < count {
        let Some(item) = table.random(rng).and_then(|p| table.at(p)) else { break };
        if drawn.contains(item.key()) {
            continue;
        }
        if drawn.insert(Borrowed(item)).is_err() {
            return Err(OutOfMemory);
        }
        chosen.push(item);
    }
    Ok(chosen)
}

/// An item that lies in another table.
struct Borrowed<'a, T>(&'a T);

impl<T: Keyed> Keyed for Borrowed<'_, T> {
    fn key(&self) -> &[u8] {
        self.0.key()
    }
}
