//! Sets: an intset while all members are integers and few, a listpack while few and short, both in the key's record; a hash
//! table beyond. A set never goes back to a smaller encoding by itself.

use alloc::boxed::Box;
use alloc::vec::Vec;

use barium_cell::{OutOfMemory, Packed, ThinBytes, View, ViewMut};

use super::sample::{distinct, in_order};
use crate::encoding::{Encoded, Entries, Entry, Intset, inline, intset};
use crate::number::{I64_CHARS, estimated_sum, format_i64, parse_i64};
use crate::random::Rng;
use crate::table::{Hashing, Table};
use crate::value::{INTSET, Item, Object, Type, boxed};

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

/// A large set.
pub type Members = Table<ThinBytes>;

/// A set of byte strings, to look at.
#[derive(Clone, Copy, Debug)]
pub enum SetRef<'a> {
    /// Of integers only.
    Intset(Intset<'a>),
    /// Few and short members.
    Listpack(Entries<'a>),
    /// As a hash table.
    Table(&'a Members),
}

/// A set of byte strings, to be changed.
#[derive(Debug)]
pub struct SetMut<'a>(&'a mut Item);

/// What a set lies in, to be changed.
enum Repr<'a> {
    Intset(Packed<'a, Object>),
    Listpack(Packed<'a, Object>),
    Table(&'a mut Members),
}

/// An empty set at a key, as an intset.
///
/// # Errors
/// When there is no memory for it.
pub fn new_intset(key: &[u8]) -> Result<Item, OutOfMemory> {
    Item::with_packed(key, INTSET, intset::EMPTY)
}

/// An empty set at a key, as a listpack.
///
/// # Errors
/// When there is no memory for it.
pub fn new_listpack(key: &[u8]) -> Result<Item, OutOfMemory> {
    Item::with_packed(key, Type::Set as u8, inline::EMPTY)
}

/// An empty set at a key, in the encoding that suits a first member and the number of members to come.
///
/// # Errors
/// When there is no memory for it.
pub fn for_members(key: &[u8], first: &[u8], members: usize, limits: &SetLimits) -> Result<Item, OutOfMemory> {
    if parse_i64(first).is_some() && members <= limits.intset_entries {
        new_intset(key)
    } else if members <= limits.listpack_entries {
        new_listpack(key)
    } else {
        let table = Object::Set(Box::new(Table::new(limits.hashing)));
        Item::with_object(key, Type::Set as u8, boxed(table))
    }
}

/// Position of a member's entry.
#[inline]
fn position(entries: Entries<'_>, member: &[u8]) -> Option<usize> {
    entries.find(entries.first()?, member, 1)
}

impl<'a> SetRef<'a> {
    /// The set that an item holds, if it holds one.
    #[inline]
    pub fn of(item: &'a Item) -> Option<Self> {
        const LISTPACK: u8 = Type::Set as u8;
        match (item.view(), item.tag()) {
            (View::Packed(bytes), INTSET) => Some(SetRef::Intset(Intset::new(bytes))),
            (View::Packed(bytes), LISTPACK) => Some(SetRef::Listpack(inline::entries(bytes))),
            (View::Object(Object::Set(table)), _) => Some(SetRef::Table(table)),
            _ => None,
        }
    }

    /// Whether both look at the very same set.
    pub fn is(self, other: SetRef<'_>) -> bool {
        match (self, other) {
            (SetRef::Intset(a), SetRef::Intset(b)) => core::ptr::eq(a.as_bytes(), b.as_bytes()),
            (SetRef::Listpack(a), SetRef::Listpack(b)) => core::ptr::eq(a.bytes(), b.bytes()),
            (SetRef::Table(a), SetRef::Table(b)) => core::ptr::eq(a, b),
            _ => false,
        }
    }

    /// Number of members.
    pub fn len(self) -> usize {
        match self {
            SetRef::Intset(set) => set.len(),
            SetRef::Listpack(entries) => entries.len(),
            SetRef::Table(table) => table.len(),
        }
    }

    /// Whether there are no members.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The intset of a set in that encoding.
    pub const fn as_intset(self) -> Option<Intset<'a>> {
        match self {
            SetRef::Intset(set) => Some(set),
            _ => None,
        }
    }

    /// The listpack of a set in that encoding.
    pub const fn as_listpack(self) -> Option<Entries<'a>> {
        match self {
            SetRef::Listpack(entries) => Some(entries),
            _ => None,
        }
    }

    /// Whether `member` is in the set.
    pub fn contains(self, member: &[u8]) -> bool {
        match self {
            SetRef::Intset(set) => parse_i64(member).is_some_and(|v| set.contains(v)),
            SetRef::Listpack(entries) => position(entries, member).is_some(),
            SetRef::Table(table) => table.contains(member),
        }
    }

    /// Whether a member of another set is in this one too.
    pub fn contains_entry(self, member: Entry<'_>) -> bool {
        match (self, member) {
            (SetRef::Intset(set), Entry::Int(v)) => set.contains(v),
            _ => self.contains(member.bytes(&mut [0; I64_CHARS])),
        }
    }

    /// All members: ascending from an intset, in order of insertion from a listpack, else in no particular order.
    pub fn iter(self) -> impl Iterator<Item = Entry<'a>> {
        let (ints, entries, table) = match self {
            SetRef::Intset(set) => (Some(set.iter().map(Entry::Int)), None, None),
            SetRef::Listpack(entries) => (None, Some(entries.iter()), None),
            SetRef::Table(table) => (None, None, Some(table.iter().map(|t| Entry::Str(t.as_bytes())))),
        };
        ints.into_iter().flatten().chain(entries.into_iter().flatten()).chain(table.into_iter().flatten())
    }

    /// A random member, each as likely as the other. None from an empty set.
    pub fn random(self, rng: &mut Rng) -> Option<Entry<'a>> {
        match self {
            SetRef::Intset(set) => set.get(rng.below(set.len())).map(Entry::Int),
            SetRef::Listpack(entries) if entries.is_empty() => None,
            SetRef::Listpack(entries) => Some(entries.get(entries.seek(rng.below(entries.len()) as isize)?)),
            SetRef::Table(table) => table.random(rng).and_then(|p| table.at(p)).map(|t| Entry::Str(t.as_bytes())),
        }
    }

    /// `count` different random members (all, if there are no more), each choice as likely as the other: in the set's
    /// own order from the compact encodings.
    ///
    /// # Errors
    /// When there is no memory for the list of them.
    pub fn sample(self, count: usize, rng: &mut Rng) -> Result<Vec<Entry<'a>>, OutOfMemory> {
        match self {
            SetRef::Table(table) => {
                Ok(distinct(table, count, rng)?.into_iter().map(|t| Entry::Str(t.as_bytes())).collect())
            }
            _ => in_order(self.iter(), self.len(), count, rng),
        }
    }

    /// Visits members from a scan cursor on and returns the next cursor; 0 begins and ends. Compact encodings are
    /// visited at once.
    pub fn scan(self, cursor: u64, count: usize, mut visit: impl FnMut(Entry<'_>)) -> u64 {
        if let SetRef::Table(table) = self {
            return table.scan(cursor, count, |t| visit(Entry::Str(t.as_bytes())));
        }
        self.iter().for_each(visit);
        0
    }
}

impl<'a> SetMut<'a> {
    /// The set that an item holds, if it holds one.
    pub fn of(item: &'a mut Item) -> Option<Self> {
        (item.tag() == Type::Set as u8 || item.tag() == INTSET).then_some(Self(item))
    }

    /// A look at it.
    #[inline]
    pub fn view(&self) -> SetRef<'_> {
        SetRef::of(self.0).unwrap_or(SetRef::Listpack(Entries::new(&[], 0)))
    }

    fn repr(&mut self) -> Option<Repr<'_>> {
        let is_intset = self.0.tag() == INTSET;
        match self.0.view_mut() {
            ViewMut::Packed(packed) if is_intset => Some(Repr::Intset(packed)),
            ViewMut::Packed(packed) => Some(Repr::Listpack(packed)),
            ViewMut::Object(Object::Set(table)) => Some(Repr::Table(table)),
            _ => None,
        }
    }

    /// Makes ready for as many more members as a command gives: a great number goes to a hash table at once.
    pub fn prepare(&mut self, members: usize, limits: &SetLimits) -> Result<(), OutOfMemory> {
        let oversized = match self.view() {
            SetRef::Intset(_) => members > limits.intset_entries,
            SetRef::Listpack(_) => members > limits.listpack_entries,
            SetRef::Table(_) => false,
        };
        if oversized { self.table(limits).map(drop) } else { Ok(()) }
    }

    /// Adds `member`; false if it was there.
    pub fn add(&mut self, member: &[u8], limits: &SetLimits) -> Result<bool, OutOfMemory> {
        match self.repr() {
            Some(Repr::Intset(mut packed)) => {
                if let Some(value) = parse_i64(member) {
                    let added = intset::insert(&mut packed, value)?;
                    return self.added_int(added, limits);
                }
                if suits_listpack(Intset::new(packed.bytes()), member, limits) {
                    self.use_listpack()?;
                    return self.add(member, limits);
                }
            }
            Some(Repr::Listpack(mut packed)) => {
                let entries = inline::entries(packed.bytes());
                if position(entries, member).is_some() {
                    return Ok(false);
                }
                if entries.len() < limits.listpack_entries && member.len() <= limits.listpack_value {
                    let end = entries.end();
                    inline::splice(&mut packed, end, (0, 0), &[Encoded::of(member)])?;
                    return Ok(true);
                }
            }
            _ => {}
        }
        let table = self.table(limits)?;
        let hash = table.hash(member);
        if table.find_hashed(hash, member).is_some() {
            return Ok(false);
        }
        table.insert_hashed(hash, ThinBytes::new(member)?).map_err(|_| OutOfMemory)?;
        Ok(true)
    }

    /// Leaves the intset if a number that was added is one too many.
    fn added_int(&mut self, added: bool, limits: &SetLimits) -> Result<bool, OutOfMemory> {
        // Redis lets no intset beyond a gibibyte, whatever is configured.
        if added && self.view().len() > limits.intset_entries.min(1 << 30) {
            self.table(limits)?;
        }
        Ok(added)
    }

    /// As [`add`](Self::add), for a member of another set.
    pub fn add_entry(&mut self, member: Entry<'_>, limits: &SetLimits) -> Result<bool, OutOfMemory> {
        match (member, self.repr()) {
            (Entry::Int(value), Some(Repr::Intset(mut packed))) => {
                let added = intset::insert(&mut packed, value)?;
                self.added_int(added, limits)
            }
            (Entry::Int(value), _) => self.add(format_i64(&mut [0; I64_CHARS], value), limits),
            (Entry::Str(s), _) => self.add(s, limits),
        }
    }

    /// Makes a listpack of an intset.
    fn use_listpack(&mut self) -> Result<(), OutOfMemory> {
        let mut item = new_listpack(&[])?;
        self.view().iter().try_for_each(|member| push(&mut item, member))?;
        self.become_packed(&item)
    }

    /// Takes over the contents of a small set.
    fn become_packed(&mut self, other: &Item) -> Result<(), OutOfMemory> {
        if let View::Packed(bytes) = other.view() {
            self.0.set_packed(other.tag(), bytes)?;
        }
        Ok(())
    }

    /// The table that the set is, or becomes.
    fn table(&mut self, limits: &SetLimits) -> Result<&mut Members, OutOfMemory> {
        if let View::Packed(_) = self.0.view() {
            let mut table = Table::new(limits.hashing);
            for member in self.view().iter() {
                let item = ThinBytes::new(member.bytes(&mut [0; I64_CHARS]))?;
                table.insert(item).map_err(|_| OutOfMemory)?;
            }
            self.0.set_object(Type::Set as u8, boxed(Object::Set(Box::new(table))))?;
        }
        match self.repr() {
            Some(Repr::Table(table)) => Ok(table),
            _ => Err(OutOfMemory),
        }
    }

    /// Makes an intset of a set of which all members are known to be integers, if they are not too many.
    pub fn integers_to_intset(&mut self, limits: &SetLimits) -> Result<(), OutOfMemory> {
        let set = self.view();
        if set.as_intset().is_some() || set.len() > limits.intset_entries.min(1 << 30) {
            return Ok(());
        }
        let mut item = new_intset(&[])?;
        for member in set.iter() {
            if let (Some(value), ViewMut::Packed(mut packed)) = (member.as_int(), item.view_mut()) {
                intset::insert(&mut packed, value)?;
            }
        }
        self.become_packed(&item)
    }

    /// Removes `member`; false if it was not there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match self.repr() {
            Some(Repr::Intset(mut packed)) => parse_i64(member).is_some_and(|v| intset::remove(&mut packed, v)),
            Some(Repr::Listpack(mut packed)) => match position(inline::entries(packed.bytes()), member) {
                Some(pos) => inline::remove(&mut packed, pos, 1) == 1,
                None => false,
            },
            Some(Repr::Table(table)) => table.remove(member).is_some(),
            None => false,
        }
    }

    /// Removes a member of another set; false if it was not there.
    pub fn remove_entry(&mut self, member: Entry<'_>) -> bool {
        match (self.repr(), member) {
            (Some(Repr::Intset(mut packed)), Entry::Int(v)) => intset::remove(&mut packed, v),
            _ => self.remove(member.bytes(&mut [0; I64_CHARS])),
        }
    }

    /// Removes and returns one random member's text.
    ///
    /// # Errors
    /// When there is no memory for a copy of it.
    pub fn pop(&mut self, rng: &mut Rng) -> Result<Option<Vec<u8>>, OutOfMemory> {
        let Some(member) = self.view().random(rng) else { return Ok(None) };
        let member = member.try_to_vec()?;
        self.remove(&member);
        Ok(Some(member))
    }

    /// As SPOP leaves a hash table of which most members went: what is left, in the smallest encoding that takes it.
    pub fn compacted(&mut self, limits: &SetLimits) -> Result<(), OutOfMemory> {
        if matches!(self.view(), SetRef::Table(table) if table.len() <= limits.listpack_entries) {
            let mut item = new_listpack(&[])?;
            let Some(mut set) = SetMut::of(&mut item) else { return Ok(()) };
            for member in self.view().iter() {
                set.add_entry(member, limits)?;
            }
            self.become_packed(&item)?;
        }
        Ok(())
    }
}

fn suits_listpack(set: Intset<'_>, member: &[u8], limits: &SetLimits) -> bool {
    let digits = |v: Option<i64>| v.map_or(0, |v| Entry::Int(v).text_len());
    let longest = digits(set.get(0)).max(digits(set.len().checked_sub(1).and_then(|i| set.get(i))));
    set.len() < limits.listpack_entries && member.len() <= limits.listpack_value && longest <= limits.listpack_value
}

/// Appends a member that is known to be new to a listpack.
fn push(item: &mut Item, member: Entry<'_>) -> Result<(), OutOfMemory> {
    let ViewMut::Packed(mut packed) = item.view_mut() else { return Ok(()) };
    let end = inline::entries(packed.bytes()).end();
    inline::splice(&mut packed, end, (0, 0), &[Encoded::from(member)])
}

/// Bytes of memory behind a large set, by as many members as `samples` says.
pub fn memory_usage(table: &Members, samples: usize) -> usize {
    size_of::<Members>() + table.memory_usage() + estimated_sum(table.iter().map(ThinBytes::size), table.len(), samples)
}

/// A copy of a large set.
///
/// # Errors
/// When there is no memory for it.
pub fn try_clone(table: &Members) -> Result<Members, OutOfMemory> {
    let mut copy = Table::new(table.hashing());
    for member in table.iter() {
        copy.insert(ThinBytes::new(member.as_bytes())?).map_err(|_| OutOfMemory)?;
    }
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;
    use alloc::vec;

    use super::*;
    use crate::value::ItemExt;
    use crate::value::copy_of;

    fn limits() -> SetLimits {
        SetLimits { intset_entries: 8, listpack_entries: 6, listpack_value: 10, hashing: Hashing::new(1) }
    }

    fn texts(set: &Item) -> BTreeSet<Vec<u8>> {
        SetRef::of(set).unwrap().iter().map(Entry::to_vec).collect()
    }

    fn edit(set: &mut Item) -> SetMut<'_> {
        SetMut::of(set).unwrap()
    }

    #[test]
    fn encodings_follow_the_limits() {
        let l = limits();
        let mut set = for_members(b"key", b"1", 1, &l).unwrap();
        for i in 0..8 {
            edit(&mut set).add(format!("{i}").as_bytes(), &l).unwrap();
        }
        assert_eq!(set.encoding(), "intset");
        let mut mixed = copy_of(&set, b"copy").unwrap();
        edit(&mut set).add(b"8", &l).unwrap();
        assert_eq!(set.encoding(), "hashtable");
        edit(&mut mixed).add(b"x", &l).unwrap();
        assert_eq!(mixed.encoding(), "hashtable", "nine members are too many for a listpack of six");
        let mut few = for_members(b"key", b"2", 1, &l).unwrap();
        edit(&mut few).add(b"2", &l).unwrap();
        edit(&mut few).add(b"x", &l).unwrap();
        assert_eq!(few.encoding(), "listpack");
        assert_eq!(SetRef::of(&few).unwrap().iter().map(Entry::to_vec).collect::<Vec<_>>(), [b"2", b"x"]);
        edit(&mut few).add(&[b'y'; 11], &l).unwrap();
        assert_eq!(few.encoding(), "hashtable");
        assert_eq!(for_members(b"key", b"a", 7, &l).unwrap().encoding(), "hashtable");
        let mut ints = new_listpack(b"key").unwrap();
        for i in [3, 1, 2] {
            edit(&mut ints).add(format!("{i}").as_bytes(), &l).unwrap();
        }
        edit(&mut ints).integers_to_intset(&l).unwrap();
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
                let mut set = new_intset(b"key").unwrap();
                let mut model = BTreeSet::new();
                let letters = rng.below(2) == 0;
                for _ in 0..400 {
                    let mut member = format!("{}", rng.below(300)).into_bytes();
                    if letters && rng.below(10) == 0 {
                        member.insert(0, b'm');
                    }
                    if rng.below(3) > 0 {
                        assert_eq!(edit(&mut set).add(&member, &l), Ok(model.insert(member)));
                    } else {
                        assert_eq!(edit(&mut set).remove(&member), model.remove(&member));
                    }
                }
                assert_eq!(texts(&set), model);
                assert_eq!(texts(&copy_of(&set, b"copy").unwrap()), model);
                let some = SetRef::of(&set).unwrap().sample(30, &mut rng).unwrap();
                assert_eq!(some.len(), 30.min(model.len()));
                let unique: BTreeSet<_> = some.iter().map(|e| e.to_vec()).collect();
                assert!(unique.len() == some.len() && unique.is_subset(&model));
                let mut seen = vec![];
                let mut cursor = 0;
                loop {
                    cursor = SetRef::of(&set).unwrap().scan(cursor, 7, |e| seen.push(e.to_vec()));
                    if cursor == 0 {
                        break;
                    }
                }
                seen.sort();
                assert!(seen.iter().eq(model.iter()));
            }
        }
    }

    #[test]
    fn samples_are_fair() {
        let mut rng = Rng::new(9);
        let mut l = limits();
        for entries in [100, 2] {
            l.listpack_entries = entries;
            let mut set = new_listpack(b"key").unwrap();
            for i in 0..20 {
                edit(&mut set).add(format!("m{i}").as_bytes(), &l).unwrap();
            }
            for count in [1, 5, 15] {
                let mut hits = [0usize; 20];
                for _ in 0..4000 {
                    for e in SetRef::of(&set).unwrap().sample(count, &mut rng).unwrap() {
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
        let mut set = new_listpack(b"key").unwrap();
        let l = SetLimits { intset_entries: 512, listpack_entries: 128, listpack_value: 64, hashing: Hashing::new(1) };
        for i in 0..100_000 {
            edit(&mut set).add(format!("member{i:09}").as_bytes(), &l).unwrap();
        }
        let each = set.memory_usage(usize::MAX) as f64 / 100_000.0;
        assert!(each < 40.0, "{each} bytes for 15");
    }
}
