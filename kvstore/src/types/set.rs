//! Sets: an intset while all members are integers and few, a listpack while few and short, a hash table beyond.
//! A set never goes back to a smaller encoding by itself.

use alloc::boxed::Box;
use alloc::vec::Vec;

use barium_cell::{OutOfMemory, ThinBytes};

use super::sample::{distinct, in_order};
use crate::encoding::intset::Intset;
use crate::encoding::listpack::{Entry, Listpack};
use crate::number::{I64_CHARS, format_i64, parse_i64};
use crate::random::Rng;
use crate::table::{Hashing, Table};

/// When a set takes which encoding, and the hash function of the last one.
#[derive(Clone, Copy, Debug)]
pub struct SetLimits {
    /// `set-max-intset-entries`
    pub intset_entries: usize,
    /// `set-max-listpack-entries`
    pub listpack_entries: usize,
    /// `set-max-listpack-value`, in bytes
    pub listpack_value: usize,
    /// Hash function of new tables.
    pub hashing: Hashing,
}

#[derive(Debug)]
enum Repr {
    Intset(Intset),
    Listpack(Listpack),
    Table(Box<Table<ThinBytes>>),
}

/// A set of byte strings.
#[derive(Debug)]
pub struct Set {
    repr: Repr,
}

impl Default for Set {
    fn default() -> Self {
        Self::new()
    }
}

impl Set {
    /// An empty set, as an intset.
    pub fn new() -> Self {
        Self { repr: Repr::Intset(Intset::new()) }
    }

    /// An empty set in the encoding that suits a first member and the number of members to come.
    pub fn for_members(first: &[u8], members: usize, limits: &SetLimits) -> Self {
        if parse_i64(first).is_some() && members <= limits.intset_entries {
            Self::new()
        } else if members <= limits.listpack_entries {
            Self::new_listpack()
        } else {
            Self { repr: Repr::Table(Box::new(Table::new(limits.hashing))) }
        }
    }

    /// An empty set, as a listpack.
    pub fn new_listpack() -> Self {
        Self::from_listpack(Listpack::new())
    }

    /// A set whose members, all different, stand in a listpack.
    pub fn from_listpack(lp: Listpack) -> Self {
        Self { repr: Repr::Listpack(lp) }
    }

    /// A set of the integers of an intset.
    pub fn from_intset(set: Intset) -> Self {
        Self { repr: Repr::Intset(set) }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        match &self.repr {
            Repr::Intset(set) => set.len(),
            Repr::Listpack(lp) => lp.len(),
            Repr::Table(table) => table.len(),
        }
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The encoding's name, as OBJECT ENCODING gives it.
    pub fn encoding(&self) -> &'static str {
        match &self.repr {
            Repr::Intset(_) => "intset",
            Repr::Listpack(_) => "listpack",
            Repr::Table(_) => "hashtable",
        }
    }

    /// The intset of a set in that encoding.
    pub fn as_intset(&self) -> Option<&Intset> {
        match &self.repr {
            Repr::Intset(set) => Some(set),
            _ => None,
        }
    }

    /// The listpack of a set in that encoding.
    pub fn as_listpack(&self) -> Option<&Listpack> {
        match &self.repr {
            Repr::Listpack(lp) => Some(lp),
            _ => None,
        }
    }

    /// Bytes of memory behind the set, without the struct itself. Visits every member of a hash table.
    pub fn memory_usage(&self) -> usize {
        match &self.repr {
            Repr::Intset(set) => set.memory_usage(),
            Repr::Listpack(lp) => lp.memory_usage(),
            Repr::Table(table) => {
                size_of::<Table<ThinBytes>>() + table.memory_usage() + table.iter().map(ThinBytes::size).sum::<usize>()
            }
        }
    }

    /// Frees at least `n` members' memory (or all there is); true when nothing but the set itself is left.
    pub fn free_step(&mut self, n: usize) -> bool {
        match &mut self.repr {
            Repr::Table(table) => {
                table.free_step(n);
                table.is_empty()
            }
            _ => true,
        }
    }

    /// Whether `member` is in the set.
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.repr {
            Repr::Intset(set) => parse_i64(member).is_some_and(|v| set.contains(v)),
            Repr::Listpack(lp) => lp.first().is_some_and(|p| lp.find(p, member, 1).is_some()),
            Repr::Table(table) => table.contains(member),
        }
    }

    /// Whether a member of another set is in this one too.
    pub fn contains_entry(&self, member: Entry<'_>) -> bool {
        match (&self.repr, member) {
            (Repr::Intset(set), Entry::Int(v)) => set.contains(v),
            _ => self.contains(member.bytes(&mut [0; I64_CHARS])),
        }
    }

    /// Makes ready for as many more members as a command gives: a great number goes to a hash table at once.
    pub fn prepare(&mut self, members: usize, limits: &SetLimits) -> Result<(), OutOfMemory> {
        let oversized = match &self.repr {
            Repr::Intset(_) => members > limits.intset_entries,
            Repr::Listpack(_) => members > limits.listpack_entries,
            Repr::Table(_) => false,
        };
        if oversized { self.use_table(limits) } else { Ok(()) }
    }

    /// Adds `member`; false if it was there.
    pub fn add(&mut self, member: &[u8], limits: &SetLimits) -> Result<bool, OutOfMemory> {
        match &mut self.repr {
            Repr::Table(table) => {
                let hash = table.hash(member);
                if table.find_hashed(hash, member).is_some() {
                    return Ok(false);
                }
                table.insert_hashed(hash, ThinBytes::new(member)?).map_err(|_| OutOfMemory)?;
                Ok(true)
            }
            Repr::Listpack(lp) => {
                if lp.first().is_some_and(|p| lp.find(p, member, 1).is_some()) {
                    return Ok(false);
                }
                if lp.len() < limits.listpack_entries && member.len() <= limits.listpack_value {
                    lp.push_back(member);
                    return Ok(true);
                }
                self.use_table(limits)?;
                self.add(member, limits)
            }
            Repr::Intset(set) => match parse_i64(member) {
                Some(value) => self.add_int(value, limits),
                None => {
                    if Self::suits_listpack(set, member, limits) {
                        self.repr = Repr::Listpack(Self::listpack_of(set));
                    } else {
                        self.use_table(limits)?;
                    }
                    self.add(member, limits)
                }
            },
        }
    }

    /// As [`add`](Self::add), for a number.
    fn add_int(&mut self, value: i64, limits: &SetLimits) -> Result<bool, OutOfMemory> {
        let Repr::Intset(set) = &mut self.repr else {
            return self.add(format_i64(&mut [0; I64_CHARS], value), limits);
        };
        if !set.insert(value) {
            return Ok(false);
        }
        // Redis lets no intset beyond a gibibyte, whatever is configured.
        if set.len() > limits.intset_entries.min(1 << 30) {
            self.use_table(limits)?;
        }
        Ok(true)
    }

    /// As [`add`](Self::add), for a member of another set.
    pub fn add_entry(&mut self, member: Entry<'_>, limits: &SetLimits) -> Result<bool, OutOfMemory> {
        match member {
            Entry::Int(value) => self.add_int(value, limits),
            Entry::Str(s) => self.add(s, limits),
        }
    }

    fn suits_listpack(set: &Intset, member: &[u8], limits: &SetLimits) -> bool {
        let digits = |v: Option<i64>| v.map_or(0, |v| Entry::Int(v).text_len());
        let longest = digits(set.get(0)).max(digits(set.len().checked_sub(1).and_then(|i| set.get(i))));
        set.len() < limits.listpack_entries && member.len() <= limits.listpack_value && longest <= limits.listpack_value
    }

    fn listpack_of(set: &Intset) -> Listpack {
        let mut lp = Listpack::new();
        for value in set.iter() {
            lp.insert_int(lp.end(), value);
        }
        lp
    }

    fn use_table(&mut self, limits: &SetLimits) -> Result<(), OutOfMemory> {
        if let Repr::Table(_) = self.repr {
            return Ok(());
        }
        let mut table = Table::new(limits.hashing);
        for member in self.iter() {
            let item = ThinBytes::new(member.bytes(&mut [0; I64_CHARS]))?;
            table.insert(item).map_err(|_| OutOfMemory)?;
        }
        self.repr = Repr::Table(Box::new(table));
        Ok(())
    }

    /// Makes an intset of a set of which all members are known to be integers, if they are not too many.
    pub fn integers_to_intset(&mut self, limits: &SetLimits) {
        if matches!(self.repr, Repr::Intset(_)) || self.len() > limits.intset_entries.min(1 << 30) {
            return;
        }
        let mut set = Intset::new();
        for member in self.iter() {
            match member.as_int() {
                Some(value) => set.insert(value),
                None => return,
            };
        }
        self.repr = Repr::Intset(set);
    }

    /// Removes `member`; false if it was not there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.repr {
            Repr::Intset(set) => parse_i64(member).is_some_and(|v| set.remove(v)),
            Repr::Listpack(lp) => match lp.first().and_then(|p| lp.find(p, member, 1)) {
                Some(pos) => {
                    lp.delete(pos);
                    true
                }
                None => false,
            },
            Repr::Table(table) => table.remove(member).is_some(),
        }
    }

    /// Removes a member of another set; false if it was not there.
    pub fn remove_entry(&mut self, member: Entry<'_>) -> bool {
        match (&mut self.repr, member) {
            (Repr::Intset(set), Entry::Int(v)) => set.remove(v),
            _ => self.remove(member.bytes(&mut [0; I64_CHARS])),
        }
    }

    /// All members: ascending from an intset, in order of insertion from a listpack, else in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let (ints, lp, table) = match &self.repr {
            Repr::Intset(set) => (Some(set.iter().map(Entry::Int)), None, None),
            Repr::Listpack(lp) => (None, Some(lp.iter()), None),
            Repr::Table(table) => (None, None, Some(table.iter().map(|t| Entry::Str(t.as_bytes())))),
        };
        ints.into_iter().flatten().chain(lp.into_iter().flatten()).chain(table.into_iter().flatten())
    }

    /// A random member, each as likely as the other. None from an empty set.
    pub fn random(&self, rng: &mut Rng) -> Option<Entry<'_>> {
        match &self.repr {
            Repr::Intset(set) => set.get(rng.below(set.len())).map(Entry::Int),
            Repr::Listpack(lp) if lp.is_empty() => None,
            Repr::Listpack(lp) => Some(lp.get(lp.seek(rng.below(lp.len()) as isize)?)),
            Repr::Table(table) => table.random(rng).and_then(|p| table.at(p)).map(|t| Entry::Str(t.as_bytes())),
        }
    }

    /// `count` different random members (all, if there are no more), each choice as likely as the other: in the set's
    /// own order from the compact encodings.
    ///
    /// # Errors
    /// When there is no memory for the list of them.
    pub fn sample(&self, count: usize, rng: &mut Rng) -> Result<Vec<Entry<'_>>, OutOfMemory> {
        match &self.repr {
            Repr::Table(table) => {
                Ok(distinct(table, count, rng)?.into_iter().map(|t| Entry::Str(t.as_bytes())).collect())
            }
            _ => in_order(self.iter(), self.len(), count, rng),
        }
    }

    /// Removes and returns one random member's text.
    ///
    /// # Errors
    /// When there is no memory for a copy of it.
    pub fn pop(&mut self, rng: &mut Rng) -> Result<Option<Vec<u8>>, OutOfMemory> {
        let Some(member) = self.random(rng) else { return Ok(None) };
        let member = member.try_to_vec()?;
        self.remove(&member);
        Ok(Some(member))
    }

    /// As SPOP leaves a hash table of which most members went: what is left, in the smallest encoding that takes it.
    pub fn compacted(&mut self, limits: &SetLimits) -> Result<(), OutOfMemory> {
        if matches!(self.repr, Repr::Table(_)) && self.len() <= limits.listpack_entries {
            let mut set = Self::new_listpack();
            for member in self.iter() {
                set.add_entry(member, limits)?;
            }
            *self = set;
        }
        Ok(())
    }

    /// Visits members from a scan cursor on and returns the next cursor; 0 begins and ends. Compact encodings are
    /// visited at once.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(Entry<'_>)) -> u64 {
        if let Repr::Table(table) = &self.repr {
            return table.scan(cursor, count, |t| visit(Entry::Str(t.as_bytes())));
        }
        self.iter().for_each(visit);
        0
    }

    /// A copy of the set.
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        let repr = match &self.repr {
            Repr::Intset(set) => Repr::Intset(set.clone()),
            Repr::Listpack(lp) => Repr::Listpack(lp.try_clone()?),
            Repr::Table(table) => {
                let mut copy = Table::new(table.hashing());
                for member in table.iter() {
                    copy.insert(ThinBytes::new(member.as_bytes())?).map_err(|_| OutOfMemory)?;
                }
                Repr::Table(Box::new(copy))
            }
        };
        Ok(Self { repr })
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;
    use alloc::vec;

    use super::*;

    fn limits() -> SetLimits {
        SetLimits { intset_entries: 8, listpack_entries: 6, listpack_value: 10, hashing: Hashing::new(1) }
    }

    fn texts(set: &Set) -> BTreeSet<Vec<u8>> {
        set.iter().map(Entry::to_vec).collect()
    }

    #[test]
    fn encodings_follow_the_limits() {
        let l = limits();
        let mut set = Set::for_members(b"1", 1, &l);
        for i in 0..8 {
            set.add(format!("{i}").as_bytes(), &l).unwrap();
        }
        assert_eq!(set.encoding(), "intset");
        let mut mixed = set.try_clone().unwrap();
        set.add(b"8", &l).unwrap();
        assert_eq!(set.encoding(), "hashtable");
        mixed.add(b"x", &l).unwrap();
        assert_eq!(mixed.encoding(), "hashtable", "nine members are too many for a listpack of six");
        let mut few = Set::for_members(b"2", 1, &l);
        few.add(b"2", &l).unwrap();
        few.add(b"x", &l).unwrap();
        assert_eq!(few.encoding(), "listpack");
        assert_eq!(few.iter().map(Entry::to_vec).collect::<Vec<_>>(), [b"2", b"x"]);
        few.add(&[b'y'; 11], &l).unwrap();
        assert_eq!(few.encoding(), "hashtable");
        assert_eq!(Set::for_members(b"a", 7, &l).encoding(), "hashtable");
        let mut ints = Set::new_listpack();
        for i in [3, 1, 2] {
            ints.add(format!("{i}").as_bytes(), &l).unwrap();
        }
        ints.integers_to_intset(&l);
        assert_eq!(ints.encoding(), "intset");
    }

    #[test]
    fn random_edits_match_a_tree() {
        let mut rng = Rng::new(5);
        for big in [false, true] {
            let mut l = limits();
            if big {
                (l.intset_entries, l.listpack_entries) = (512, 128);
            }
            for _ in 0..50 {
                let mut set = Set::new();
                let mut model = BTreeSet::new();
                let letters = rng.below(2) == 0;
                for _ in 0..400 {
                    let mut member = format!("{}", rng.below(300)).into_bytes();
                    if letters && rng.below(10) == 0 {
                        member.insert(0, b'm');
                    }
                    if rng.below(3) > 0 {
                        assert_eq!(set.add(&member, &l), Ok(model.insert(member)));
                    } else {
                        assert_eq!(set.remove(&member), model.remove(&member));
                    }
                }
                assert_eq!(texts(&set), model);
                assert_eq!(texts(&set.try_clone().unwrap()), model);
                let some = set.sample(30, &mut rng).unwrap();
                assert_eq!(some.len(), 30.min(model.len()));
                let unique: BTreeSet<_> = some.iter().map(|e| e.to_vec()).collect();
                assert!(unique.len() == some.len() && unique.is_subset(&model));
                let mut seen = vec![];
                let mut cursor = 0;
                loop {
                    cursor = set.scan(cursor, 7, |e| seen.push(e.to_vec()));
                    if cursor == 0 {
                        break;
                    }
                }
                seen.sort();
                assert!(seen.iter().eq(model.iter()));
                while !set.free_step(50) {}
            }
        }
    }

    #[test]
    fn samples_are_fair() {
        let mut rng = Rng::new(9);
        let mut l = limits();
        for entries in [100, 2] {
            l.listpack_entries = entries;
            let mut set = Set::new_listpack();
            for i in 0..20 {
                set.add(format!("m{i}").as_bytes(), &l).unwrap();
            }
            for count in [1, 5, 15] {
                let mut hits = [0usize; 20];
                for _ in 0..4000 {
                    for e in set.sample(count, &mut rng).unwrap() {
                        let text = e.to_vec();
                        hits[core::str::from_utf8(&text[1..]).unwrap().parse::<usize>().unwrap()] += 1;
                    }
                }
                let expected = 4000 * count / 20;
                assert!(hits.iter().all(|h| h.abs_diff(expected) < expected / 4), "{count}: {hits:?}");
            }
        }
    }

    #[test]
    fn a_large_set_costs_little() {
        let mut set = Set::new_listpack();
        let l = SetLimits { intset_entries: 512, listpack_entries: 128, listpack_value: 64, hashing: Hashing::new(1) };
        for i in 0..100_000 {
            set.add(format!("member{i:09}").as_bytes(), &l).unwrap();
        }
        let each = set.memory_usage() as f64 / 100_000.0;
        assert!(each < 40.0, "{each} bytes for 15");
    }
}
