//! Hashes: fields and values in one listpack in the key's record while few and short, a hash table beyond, and never back.

use alloc::boxed::Box;
use alloc::vec::Vec;

use barium_cell::{OutOfMemory, ThinPair, View, ViewMut};

use super::sample::{distinct, in_order};
use crate::encoding::{Encoded, Entries, Entry, inline};
use crate::number::{I64_CHARS, estimated_sum};
use crate::random::Rng;
use crate::table::{Hashing, Table};
use crate::value::{Item, Object, Type, boxed};

/// When a hash takes which encoding, and the hash function of the second one.
#[derive(Clone, Copy, Debug)]
pub struct HashLimits {
    /// `hash-max-listpack-entries`
    pub listpack_entries: usize,
    /// `hash-max-listpack-value`, in bytes
    pub listpack_value: usize,
    /// Hash function of new tables.
    pub hashing: Hashing,
}

/// A large hash.
pub type Fields = Table<ThinPair>;

/// A map of byte strings, to look at.
#[derive(Clone, Copy, Debug)]
pub enum HashRef<'a> {
    /// Fields and values in turn.
    Listpack(Entries<'a>),
    /// As a hash table.
    Table(&'a Fields),
}

/// A map of byte strings, to be changed.
#[derive(Debug)]
pub struct HashMut<'a>(&'a mut Item);

/// An empty hash at a key.
///
/// # Errors
/// When there is no memory for it.
pub fn new_hash(key: &[u8]) -> Result<Item, OutOfMemory> {
    Item::with_packed(key, Type::Hash as u8, inline::EMPTY)
}

fn pair(item: &ThinPair) -> (Entry<'_>, Entry<'_>) {
    (Entry::Str(item.first()), Entry::Str(item.second()))
}

/// Position of a field's entry.
#[inline]
fn position(entries: Entries<'_>, field: &[u8]) -> Option<usize> {
    entries.find(entries.first()?, field, 2)
}

impl<'a> HashRef<'a> {
    /// The hash that an item holds, if it holds one.
    #[inline]
    pub fn of(item: &'a Item) -> Option<Self> {
        match item.view() {
            View::Packed(bytes) if item.tag() == Type::Hash as u8 => Some(HashRef::Listpack(inline::entries(bytes))),
            View::Object(Object::Hash(table)) => Some(HashRef::Table(table)),
            _ => None,
        }
    }

    /// Number of fields.
    pub fn len(self) -> usize {
        match self {
            HashRef::Listpack(entries) => entries.len() / 2,
            HashRef::Table(table) => table.len(),
        }
    }

    /// Whether there are no fields.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The listpack of a small hash.
    pub const fn as_listpack(self) -> Option<Entries<'a>> {
        match self {
            HashRef::Listpack(entries) => Some(entries),
            HashRef::Table(_) => None,
        }
    }

    /// The value of `field`.
    pub fn get(self, field: &[u8]) -> Option<Entry<'a>> {
        match self {
            HashRef::Listpack(entries) => Some(entries.get(entries.next(position(entries, field)?)?)),
            HashRef::Table(table) => table.get(field).map(|item| Entry::Str(item.second())),
        }
    }

    /// Whether there is such a field.
    pub fn contains(self, field: &[u8]) -> bool {
        match self {
            HashRef::Listpack(entries) => position(entries, field).is_some(),
            HashRef::Table(table) => table.contains(field),
        }
    }

    /// All fields with their values: in order of insertion from a listpack, else in no particular order.
    pub fn iter(self) -> impl Iterator<Item = (Entry<'a>, Entry<'a>)> {
        let (entries, table) = match self {
            HashRef::Listpack(entries) => (Some(entries.pairs()), None),
            HashRef::Table(table) => (None, Some(table.iter().map(pair))),
        };
        entries.into_iter().flatten().chain(table.into_iter().flatten())
    }

    /// A random field with its value, each as likely as the other. None from an empty hash.
    pub fn random(self, rng: &mut Rng) -> Option<(Entry<'a>, Entry<'a>)> {
        match self {
            HashRef::Listpack(entries) if entries.is_empty() => None,
            HashRef::Listpack(entries) => {
                let pos = entries.seek(2 * rng.below(entries.len() / 2) as isize)?;
                Some((entries.get(pos), entries.get(entries.next(pos)?)))
            }
            HashRef::Table(table) => table.random(rng).and_then(|p| table.at(p)).map(pair),
        }
    }

    /// `count` different random fields (all, if there are no more) with their values, each choice as likely as the
    /// other: in the hash's own order from a listpack.
    ///
    /// # Errors
    /// When there is no memory for the list of them.
    pub fn sample(self, count: usize, rng: &mut Rng) -> Result<Vec<(Entry<'a>, Entry<'a>)>, OutOfMemory> {
        match self {
            HashRef::Listpack(entries) => in_order(entries.pairs(), self.len(), count, rng),
            HashRef::Table(table) => Ok(distinct(table, count, rng)?.into_iter().map(pair).collect()),
        }
    }

    /// Visits fields from a scan cursor on and returns the next cursor; 0 begins and ends. A listpack is visited at
    /// once.
    pub fn scan(self, cursor: u64, count: usize, mut visit: impl FnMut(Entry<'_>, Entry<'_>)) -> u64 {
        if let HashRef::Table(table) = self {
            return table.scan(cursor, count, |item| visit(Entry::Str(item.first()), Entry::Str(item.second())));
        }
        self.iter().for_each(|(field, value)| visit(field, value));
        0
    }
}

impl<'a> HashMut<'a> {
    /// The hash that an item holds, if it holds one.
    pub fn of(item: &'a mut Item) -> Option<Self> {
        (item.tag() == Type::Hash as u8).then_some(Self(item))
    }

    /// A look at it.
    #[inline]
    pub fn view(&self) -> HashRef<'_> {
        HashRef::of(self.0).unwrap_or(HashRef::Listpack(Entries::new(&[], 0)))
    }

    /// Makes ready for the fields and values that a command gives: leaves the listpack at once if they are too many or
    /// one of them is too long.
    pub fn prepare<'b>(
        &mut self,
        fields_and_values: impl ExactSizeIterator<Item = &'b [u8]>,
        limits: &HashLimits,
    ) -> Result<(), OutOfMemory> {
        if let View::Packed(_) = self.0.view() {
            let mut items = fields_and_values;
            if items.len() / 2 > limits.listpack_entries || items.any(|s| s.len() > limits.listpack_value) {
                self.table(limits)?;
            }
        }
        Ok(())
    }

    /// Sets a field; true if it is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], limits: &HashLimits) -> Result<bool, OutOfMemory> {
        if let ViewMut::Packed(mut packed) = self.0.view_mut()
            && field.len().max(value.len()) <= limits.listpack_value
        {
            let entries = inline::entries(packed.bytes());
            if let Some(pos) = position(entries, field).and_then(|pos| entries.next(pos)) {
                let old = entries.extent(pos, 1);
                inline::splice(&mut packed, pos, old, &[Encoded::of(value)])?;
                return Ok(false);
            }
            let (end, len) = (entries.end(), entries.len() / 2);
            inline::splice(&mut packed, end, (0, 0), &[Encoded::of(field), Encoded::of(value)])?;
            if len >= limits.listpack_entries {
                self.table(limits)?;
            }
            return Ok(true);
        }
        let table = self.table(limits)?;
        let hash = table.hash(field);
        if let Some(item) = table.find_hashed(hash, field).and_then(|p| table.at_mut(p)) {
            item.set_second(value)?;
            return Ok(false);
        }
        table.insert_hashed(hash, ThinPair::new(field, value)?).map_err(|_| OutOfMemory)?;
        Ok(true)
    }

    /// Removes a field; false if it was not there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        match self.0.view_mut() {
            ViewMut::Packed(mut packed) => match position(inline::entries(packed.bytes()), field) {
                Some(pos) => inline::remove(&mut packed, pos, 2) == 2,
                None => false,
            },
            ViewMut::Object(Object::Hash(table)) => table.remove(field).is_some(),
            _ => false,
        }
    }

    /// The table that the hash is, or becomes.
    fn table(&mut self, limits: &HashLimits) -> Result<&mut Fields, OutOfMemory> {
        if let View::Packed(_) = self.0.view() {
            let mut table = Table::new(limits.hashing);
            for (field, value) in self.view().iter() {
                let item = ThinPair::new(field.bytes(&mut [0; I64_CHARS]), value.bytes(&mut [0; I64_CHARS]))?;
                table.insert(item).map_err(|_| OutOfMemory)?;
            }
            self.0.set_object(Type::Hash as u8, boxed(Object::Hash(Box::new(table))))?;
        }
        match self.0.view_mut() {
            ViewMut::Object(Object::Hash(table)) => Ok(table),
            _ => Err(OutOfMemory),
        }
    }
}

/// Bytes of memory behind a large hash, by as many fields as `samples` says.
pub fn memory_usage(table: &Fields, samples: usize) -> usize {
    size_of::<Fields>() + table.memory_usage() + estimated_sum(table.iter().map(ThinPair::size), table.len(), samples)
}

/// A copy of a large hash.
///
/// # Errors
/// When there is no memory for it.
pub fn try_clone(table: &Fields) -> Result<Fields, OutOfMemory> {
    let mut copy = Table::new(table.hashing());
    for item in table.iter() {
        copy.insert(ThinPair::new(item.first(), item.second())?).map_err(|_| OutOfMemory)?;
    }
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::format;
    use alloc::vec;

    use super::*;
    use crate::value::ItemExt;

    #[test]
    fn random_edits_match_a_tree() {
        let mut rng = Rng::new(11);
        for entries in [5, 128] {
            let limits = HashLimits { listpack_entries: entries, listpack_value: 64, hashing: Hashing::new(2) };
            for round in 0..60 {
                let mut item = new_hash(b"key").unwrap();
                let mut hash = HashMut::of(&mut item).unwrap();
                let mut model = BTreeMap::new();
                for _ in 0..300 {
                    let field = format!("f{}", rng.below(150)).into_bytes();
                    let value = match rng.below(30) {
                        0 if round % 3 == 0 => vec![b'v'; 65 + rng.below(300)],
                        1..20 => format!("{}", rng.next_u64() as i64 >> rng.below(63)).into_bytes(),
                        _ => vec![b'v'; rng.below(60)],
                    };
                    if rng.below(3) > 0 {
                        assert_eq!(hash.set(&field, &value, &limits), Ok(!model.contains_key(&field)));
                        model.insert(field, value);
                    } else {
                        assert_eq!(hash.view().get(&field).map(Entry::to_vec).as_ref(), model.get(&field));
                        assert_eq!(hash.remove(&field), model.remove(&field).is_some());
                    }
                }
                let all: BTreeMap<_, _> = hash.view().iter().map(|(f, v)| (f.to_vec(), v.to_vec())).collect();
                assert_eq!(all, model);
                assert_eq!(hash.view().len(), model.len());
                let some = hash.view().sample(20, &mut rng).unwrap();
                assert_eq!(some.len(), 20.min(model.len()));
                assert!(some.iter().all(|(f, v)| model.get(&f.to_vec()) == Some(&v.to_vec())));
                let mut seen = BTreeMap::new();
                let mut cursor = 0;
                loop {
                    cursor = hash.view().scan(cursor, 3, |f, v| assert!(seen.insert(f.to_vec(), v.to_vec()).is_none()));
                    if cursor == 0 {
                        break;
                    }
                }
                assert_eq!(seen, model);
                let mut copy = crate::value::copy_of(&item, b"other key").unwrap();
                assert_eq!((copy.key(), copy.elements()), (&b"other key"[..], model.len()));
                HashMut::of(&mut copy).unwrap().set(b"one more", b"1", &limits).unwrap();
                assert_eq!((copy.elements(), item.elements()), (model.len() + 1, model.len()));
            }
        }
    }

    #[test]
    fn encodings_follow_the_limits() {
        let limits = HashLimits { listpack_entries: 3, listpack_value: 4, hashing: Hashing::new(2) };
        let mut item = new_hash(b"key").unwrap();
        for (i, f) in ["a", "b", "c", "d"].iter().enumerate() {
            assert_eq!(item.encoding(), "listpack");
            HashMut::of(&mut item).unwrap().set(f.as_bytes(), b"1", &limits).unwrap();
            assert_eq!(item.elements(), i + 1);
        }
        assert_eq!(item.encoding(), "hashtable");
        for args in [&["f", "12345"][..], &["12345", "v"], &["f", "v"].repeat(4)] {
            let mut item = new_hash(b"key").unwrap();
            HashMut::of(&mut item).unwrap().prepare(args.iter().map(|s| s.as_bytes()), &limits).unwrap();
            assert_eq!(item.encoding(), "hashtable");
        }
    }
}
