//! Hashes: fields and values in one listpack while few and short, a hash table beyond, and never back.

use alloc::boxed::Box;
use alloc::vec::Vec;

use barium_cell::{OutOfMemory, ThinPair};

use super::sample::{distinct, in_order};
use crate::encoding::listpack::{self, Entry, Listpack};
use crate::number::I64_CHARS;
use crate::random::Rng;
use crate::table::{Hashing, Table};

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

#[derive(Debug)]
enum Repr {
    Listpack(Listpack),
    Table(Box<Table<ThinPair>>),
}

/// A map of byte strings.
#[derive(Debug)]
pub struct Hash {
    repr: Repr,
}

impl Default for Hash {
    fn default() -> Self {
        Self::new()
    }
}

fn pair(item: &ThinPair) -> (Entry<'_>, Entry<'_>) {
    (Entry::Str(item.first()), Entry::Str(item.second()))
}

impl Hash {
    /// An empty hash.
    pub fn new() -> Self {
        Self::from_listpack(Listpack::new())
    }

    /// A hash whose fields (all different) and values stand alternately in a listpack.
    pub fn from_listpack(lp: Listpack) -> Self {
        Self { repr: Repr::Listpack(lp) }
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        match &self.repr {
            Repr::Listpack(lp) => lp.len() / 2,
            Repr::Table(table) => table.len(),
        }
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The encoding's name, as OBJECT ENCODING gives it.
    pub fn encoding(&self) -> &'static str {
        match &self.repr {
            Repr::Listpack(_) => "listpack",
            Repr::Table(_) => "hashtable",
        }
    }

    /// The listpack of a small hash.
    pub fn as_listpack(&self) -> Option<&Listpack> {
        match &self.repr {
            Repr::Listpack(lp) => Some(lp),
            Repr::Table(_) => None,
        }
    }

    /// Bytes of memory behind the hash, without the struct itself. Visits every field of a hash table.
    pub fn memory_usage(&self) -> usize {
        match &self.repr {
            Repr::Listpack(lp) => lp.memory_usage(),
            Repr::Table(table) => {
                size_of::<Table<ThinPair>>() + table.memory_usage() + table.iter().map(ThinPair::size).sum::<usize>()
            }
        }
    }

    /// Frees at least `n` fields' memory (or all there is); true when nothing but the hash itself is left.
    pub fn free_step(&mut self, n: usize) -> bool {
        match &mut self.repr {
            Repr::Listpack(_) => true,
            Repr::Table(table) => {
                table.free_step(n);
                table.is_empty()
            }
        }
    }

    /// The value of `field`.
    pub fn get(&self, field: &[u8]) -> Option<Entry<'_>> {
        match &self.repr {
            Repr::Listpack(lp) => {
                let pos = lp.find(lp.first()?, field, 2)?;
                Some(lp.get(lp.next(pos)?))
            }
            Repr::Table(table) => table.get(field).map(|item| Entry::Str(item.second())),
        }
    }

    /// Whether there is such a field.
    pub fn contains(&self, field: &[u8]) -> bool {
        match &self.repr {
            Repr::Listpack(lp) => lp.first().is_some_and(|p| lp.find(p, field, 2).is_some()),
            Repr::Table(table) => table.contains(field),
        }
    }

    /// Makes ready for the fields and values that a command gives: leaves the listpack at once if they are too many or
    /// one of them is too long.
    pub fn prepare<'a>(
        &mut self,
        fields_and_values: impl ExactSizeIterator<Item = &'a [u8]>,
        limits: &HashLimits,
    ) -> Result<(), OutOfMemory> {
        if let Repr::Listpack(_) = self.repr {
            let mut items = fields_and_values;
            if items.len() / 2 > limits.listpack_entries || items.any(|s| s.len() > limits.listpack_value) {
                return self.use_table(limits);
            }
        }
        Ok(())
    }

    /// Sets a field; true if it is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], limits: &HashLimits) -> Result<bool, OutOfMemory> {
        match &mut self.repr {
            Repr::Listpack(lp) => {
                if field.len() > limits.listpack_value || value.len() > limits.listpack_value {
                    self.use_table(limits)?;
                    return self.set(field, value, limits);
                }
                if let Some(pos) = lp.first().and_then(|p| lp.find(p, field, 2))
                    && let Some(pos) = lp.next(pos)
                {
                    lp.replace(pos, value);
                    return Ok(false);
                }
                lp.reserve(listpack::encoded_len(field) + listpack::encoded_len(value));
                lp.push_back(field);
                lp.push_back(value);
                if lp.len() / 2 > limits.listpack_entries {
                    self.use_table(limits)?;
                }
                Ok(true)
            }
            Repr::Table(table) => {
                let hash = table.hash(field);
                if let Some(item) = table.find_hashed(hash, field).and_then(|p| table.at_mut(p)) {
                    item.set_second(value)?;
                    return Ok(false);
                }
                table.insert_hashed(hash, ThinPair::new(field, value)?).map_err(|_| OutOfMemory)?;
                Ok(true)
            }
        }
    }

    /// Removes a field; false if it was not there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        match &mut self.repr {
            Repr::Listpack(lp) => match lp.first().and_then(|p| lp.find(p, field, 2)) {
                Some(pos) => lp.delete_many(pos, 2) == 2,
                None => false,
            },
            Repr::Table(table) => table.remove(field).is_some(),
        }
    }

    fn use_table(&mut self, limits: &HashLimits) -> Result<(), OutOfMemory> {
        let mut table = Table::new(limits.hashing);
        for (field, value) in self.iter() {
            let item = ThinPair::new(field.bytes(&mut [0; I64_CHARS]), value.bytes(&mut [0; I64_CHARS]))?;
            table.insert(item).map_err(|_| OutOfMemory)?;
        }
        self.repr = Repr::Table(Box::new(table));
        Ok(())
    }

    /// All fields with their values: in order of insertion from a listpack, else in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Entry<'_>, Entry<'_>)> {
        let (lp, table) = match &self.repr {
            Repr::Listpack(lp) => (Some(Pairs(lp.iter())), None),
            Repr::Table(table) => (None, Some(table.iter().map(pair))),
        };
        lp.into_iter().flatten().chain(table.into_iter().flatten())
    }

    /// A random field with its value, each as likely as the other. None from an empty hash.
    pub fn random(&self, rng: &mut Rng) -> Option<(Entry<'_>, Entry<'_>)> {
        match &self.repr {
            Repr::Listpack(lp) if lp.is_empty() => None,
            Repr::Listpack(lp) => {
                let pos = lp.seek(2 * rng.below(lp.len() / 2) as isize)?;
                Some((lp.get(pos), lp.get(lp.next(pos)?)))
            }
            Repr::Table(table) => table.random(rng).and_then(|p| table.at(p)).map(pair),
        }
    }

    /// `count` different random fields (all, if there are no more) with their values, each choice as likely as the
    /// other: in the hash's own order from a listpack.
    ///
    /// # Errors
    /// When there is no memory for the list of them.
    pub fn sample(&self, count: usize, rng: &mut Rng) -> Result<Vec<(Entry<'_>, Entry<'_>)>, OutOfMemory> {
        match &self.repr {
            Repr::Listpack(lp) => in_order(Pairs(lp.iter()), self.len(), count, rng),
            Repr::Table(table) => Ok(distinct(table, count, rng)?.into_iter().map(pair).collect()),
        }
    }

    /// Visits fields from a scan cursor on and returns the next cursor; 0 begins and ends. A listpack is visited at
    /// once.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(Entry<'_>, Entry<'_>)) -> u64 {
        if let Repr::Table(table) = &self.repr {
            return table.scan(cursor, count, |item| visit(Entry::Str(item.first()), Entry::Str(item.second())));
        }
        self.iter().for_each(|(field, value)| visit(field, value));
        0
    }

    /// A copy of the hash.
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        let repr = match &self.repr {
            Repr::Listpack(lp) => Repr::Listpack(lp.try_clone()?),
            Repr::Table(table) => {
                let mut copy = Table::new(table.hashing());
                for item in table.iter() {
                    copy.insert(ThinPair::new(item.first(), item.second())?).map_err(|_| OutOfMemory)?;
                }
                Repr::Table(Box::new(copy))
            }
        };
        Ok(Self { repr })
    }
}

/// The entries of a listpack two by two.
#[derive(Clone)]
struct Pairs<'a>(listpack::Iter<'a>);

impl<'a> Iterator for Pairs<'a> {
    type Item = (Entry<'a>, Entry<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.0.next()?, self.0.next()?))
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::format;
    use alloc::vec;

    use super::*;

    #[test]
    fn random_edits_match_a_tree() {
        let mut rng = Rng::new(11);
        for entries in [5, 128] {
            let limits = HashLimits { listpack_entries: entries, listpack_value: 64, hashing: Hashing::new(2) };
            for round in 0..60 {
                let mut hash = Hash::new();
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
                        assert_eq!(hash.get(&field).map(Entry::to_vec).as_ref(), model.get(&field));
                        assert_eq!(hash.remove(&field), model.remove(&field).is_some());
                    }
                }
                let all: BTreeMap<_, _> = hash.iter().map(|(f, v)| (f.to_vec(), v.to_vec())).collect();
                assert_eq!(all, model);
                assert_eq!(hash.len(), model.len());
                let some = hash.sample(20, &mut rng).unwrap();
                assert_eq!(some.len(), 20.min(model.len()));
                assert!(some.iter().all(|(f, v)| model.get(&f.to_vec()) == Some(&v.to_vec())));
                let mut seen = BTreeMap::new();
                let mut cursor = 0;
                loop {
                    cursor = hash.scan(cursor, 3, |f, v| assert!(seen.insert(f.to_vec(), v.to_vec()).is_none()));
                    if cursor == 0 {
                        break;
                    }
                }
                assert_eq!(seen, model);
                let copy = hash.try_clone().unwrap();
                while !hash.free_step(10) {}
                assert_eq!(copy.len(), model.len());
            }
        }
    }

    #[test]
    fn encodings_follow_the_limits() {
        let limits = HashLimits { listpack_entries: 3, listpack_value: 4, hashing: Hashing::new(2) };
        let mut hash = Hash::new();
        for (i, f) in ["a", "b", "c", "d"].iter().enumerate() {
            assert_eq!(hash.encoding(), "listpack");
            hash.set(f.as_bytes(), b"1", &limits).unwrap();
            assert_eq!(hash.len(), i + 1);
        }
        assert_eq!(hash.encoding(), "hashtable");
        for args in [&["f", "12345"][..], &["12345", "v"], &["f", "v"].repeat(4)] {
            let mut hash = Hash::new();
            hash.prepare(args.iter().map(|s| s.as_bytes()), &limits).unwrap();
            assert_eq!(hash.encoding(), "hashtable");
        }
    }
}
