//! A listpack that lies in its key's record: `<entries u16> <entry>*`.
//!
//! The record knows the length, so that of Redis's format only the count (which saturates as there) and the entries are
//! kept.

use barium_cell::{OutOfMemory, Packed};

use super::entries::Entries;
use super::entry::Encoded;

/// Bytes of an empty one.
pub const EMPTY: &[u8] = &[0; COUNT_LEN];
const COUNT_LEN: usize = 2;
/// As many or more: "walk and count".
const COUNT_UNKNOWN: u16 = u16::MAX;

/// The entries.
#[inline]
pub fn entries(bytes: &[u8]) -> Entries<'_> {
    let Some((count, bytes)) = bytes.split_first_chunk() else { return Entries::new(&[], 0) };
    match u16::from_le_bytes(*count) {
        COUNT_UNKNOWN => Entries::new(bytes, Entries::new(bytes, 0).extent(0, usize::MAX).1),
        count => Entries::new(bytes, usize::from(count)),
    }
}

/// The bytes of the entries, to be changed in place.
pub fn entries_mut<'a, T>(packed: &'a mut Packed<'_, T>) -> &'a mut [u8] {
    packed.bytes_mut().get_mut(COUNT_LEN..).unwrap_or_default()
}

fn set_count<T>(packed: &mut Packed<'_, T>, count: usize) {
    let stored = u16::try_from(count).unwrap_or(COUNT_UNKNOWN);
    if let Some(at) = packed.bytes_mut().first_chunk_mut() {
        *at = stored.to_le_bytes();
    }
}

/// Makes the `old` bytes at `pos`, which are `removed` whole entries, be the entries `new`.
///
/// # Errors
/// When there is no memory for more than there was. Nothing is changed then.
pub fn splice<T>(
    packed: &mut Packed<'_, T>,
    pos: usize,
    (old, removed): (usize, usize),
    new: &[Encoded<'_>],
) -> Result<(), OutOfMemory> {
    let count = entries(packed.bytes()).len() + new.len() - removed;
    let mut room = packed.splice(COUNT_LEN + pos, old, new.iter().map(Encoded::entry_len).sum())?;
    for entry in new {
        let (place, rest) = room.split_at_mut(entry.entry_len());
        entry.write(place);
        room = rest;
    }
    if new.len() != removed {
        set_count(packed, count);
    }
    Ok(())
}

/// Appends the entries of another listpack.
///
/// # Errors
/// When there is no memory for them. Nothing is changed then.
pub fn append<T>(packed: &mut Packed<'_, T>, more: Entries<'_>) -> Result<(), OutOfMemory> {
    let before = entries(packed.bytes());
    let (count, end) = (before.len() + more.len(), before.end());
    packed.splice(COUNT_LEN + end, 0, more.end())?.copy_from_slice(more.bytes());
    set_count(packed, count);
    Ok(())
}

/// Removes up to `n` entries from the one at `pos` on; how many there were.
pub fn remove<T>(packed: &mut Packed<'_, T>, pos: usize, n: usize) -> usize {
    let (bytes, gone) = entries(packed.bytes()).extent(pos, n);
    // Less asks for no memory.
    if splice(packed, pos, (bytes, gone), &[]).is_ok() { gone } else { 0 }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use super::*;
    use crate::encoding::Entry;
    use barium_cell::{Record, ViewMut};

    fn edit(record: &mut Record<()>) -> Packed<'_, ()> {
        match record.view_mut() {
            ViewMut::Packed(packed) => packed,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn edits_match_a_vector() {
        let mut rng = crate::random::Rng::new(3);
        let mut record = Record::with_packed(b"key", 0, EMPTY).unwrap();
        let mut model: Vec<Vec<u8>> = Vec::new();
        for step in 0..5_000 {
            let text = format!("{:0width$}", rng.below(1_000), width = rng.below(80) + 1).into_bytes();
            let at = rng.below(model.len() + 1);
            let mut packed = edit(&mut record);
            let now = entries(packed.bytes());
            let pos = now.seek(at as isize).unwrap_or(now.end());
            if rng.below(if step % 400 < 200 { 3 } else { 2 }) > 0 {
                let n = rng.below(3).min(model.len() - at);
                let old = now.extent(pos, n);
                splice(&mut packed, pos, old, &[Encoded::of(&text), Encoded::of_int(-7)]).unwrap();
                model.splice(at..at + n, [text, b"-7".to_vec()]);
            } else {
                let n = rng.below(5);
                assert_eq!(remove(&mut packed, pos, n), n.min(model.len() - at));
                model.drain(at..(at + n).min(model.len()));
            }
            let now = entries(packed.bytes());
            assert_eq!((now.len(), now.iter().map(Entry::to_vec).collect::<Vec<_>>()), (model.len(), model.clone()));
        }
    }

    #[test]
    fn more_entries_than_the_count_tells() {
        let mut record = Record::with_packed(b"key", 0, EMPTY).unwrap();
        let mut packed = edit(&mut record);
        let ones = [1, 1].repeat(70_000);
        append(&mut packed, Entries::new(&ones, 70_000)).unwrap();
        assert_eq!((packed.bytes()[..2].to_vec(), entries(packed.bytes()).len()), ([0xff; 2].to_vec(), 70_000));
        assert_eq!(remove(&mut packed, 2, 10_000), 10_000);
        assert_eq!(
            (packed.bytes()[..2].to_vec(), entries(packed.bytes()).len()),
            (60_000u16.to_le_bytes().to_vec(), 60_000)
        );
    }
}
