//! A node of a stream: up to some hundred entries in one listpack, in Redis's format.
//!
//! It begins with the master entry: `live deleted n field_1 .. field_n 0`. Each entry is
//! `flags ms seq [n] ... back`: `ms` and `seq` are differences to the node's own ID; an entry with the master's fields
//! has only its values behind them, any other one `n` and then fields and values in turn; `back` is the number of
//! listpack entries in front of it that belong to the entry, so that the node can be read from its end.

use barium_cell::OutOfMemory;

use super::id::StreamId;
use crate::encoding::listpack::{Cursor, Entry, Listpack, encoded_len};

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;
/// Bytes that an entry takes beside its fields and values, at most: four numbers of up to ten bytes and `back`.
const ENTRY_COST: usize = 44;

/// See the [module](self).
#[derive(Debug)]
pub struct Node {
    lp: Listpack,
}

/// What the master entry says.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Entries that were not deleted.
    pub live: u64,
    /// Entries that were.
    pub deleted: u64,
    /// Number of the master's fields.
    fields: usize,
    /// Position of the first of them.
    first_field: usize,
    /// Position of the first entry.
    entries: usize,
}

/// One entry.
#[derive(Clone)]
pub struct Item<'a> {
    /// Its ID.
    pub id: StreamId,
    /// Number of its field-value pairs.
    pub len: usize,
    /// Whether it was deleted.
    deleted: bool,
    /// Where it lies.
    pos: usize,
    /// The master's fields, if it has the same.
    fields: Option<Cursor<'a>>,
    /// Its values, or its fields and values.
    values: Cursor<'a>,
}

impl<'a> Item<'a> {
    /// Fields and values in turn.
    pub fn pairs(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let (mut fields, mut values) = (self.fields.clone(), self.values.clone());
        (0..self.len * 2).map_while(move |i| match &mut fields {
            Some(fields) if i % 2 == 0 => fields.next(),
            _ => values.next(),
        })
    }

    /// Position behind the entry.
    fn end(&self) -> usize {
        let mut rest = self.values.clone();
        let values = if self.fields.is_some() { self.len } else { self.len * 2 };
        rest.by_ref().take(values + 1).for_each(drop);
        rest.pos()
    }
}

fn number(cursor: &mut Cursor<'_>) -> Option<i64> {
    cursor.next()?.as_int()
}

fn count(cursor: &mut Cursor<'_>) -> Option<usize> {
    usize::try_from(number(cursor)?).ok()
}

impl Node {
    /// An empty node whose master has these fields (every other one of `pairs`).
    pub fn new<'a>(pairs: impl ExactSizeIterator<Item = &'a [u8]> + Clone) -> Self {
        let fields = pairs.len() / 2;
        let bytes: usize = pairs.clone().map(encoded_len).sum();
        let mut lp = Listpack::with_room(bytes + fields * 2 + 2 * ENTRY_COST);
        for n in [0, 0, fields as i64] {
            lp.insert_int(lp.end(), n);
        }
        pairs.step_by(2).for_each(|field| lp.push_back(field));
        lp.insert_int(lp.end(), 0);
        Self { lp }
    }

    /// A node from an untrusted source, whose own ID is `master`: None unless it is well-formed and its IDs ascend.
    pub fn from_listpack(lp: Listpack, master: StreamId) -> Option<Self> {
        let node = Self { lp };
        let header = node.checked_header()?;
        let (mut pos, mut before) = (header.entries, None);
        let (mut live, mut deleted) = (0, 0);
        while pos < node.lp.end() {
            let item = node.checked_item(master, &header, pos)?;
            if item.id < master || before.is_some_and(|id| id >= item.id) {
                return None;
            }
            before = Some(item.id);
            *(if item.deleted { &mut deleted } else { &mut live }) += 1;
            pos = item.end();
        }
        (live == header.live && deleted == header.deleted && live + deleted > 0).then_some(node)
    }

    fn checked_header(&self) -> Option<Header> {
        let mut cursor = self.lp.iter_from(self.lp.first()?);
        let live = u64::try_from(number(&mut cursor)?).ok()?;
        let deleted = u64::try_from(number(&mut cursor)?).ok()?;
        let fields = count(&mut cursor).filter(|&n| n <= self.lp.len())?;
        let first_field = cursor.pos();
        for _ in 0..fields {
            cursor.next()?;
        }
        (number(&mut cursor)? == 0).then_some(Header { live, deleted, fields, first_field, entries: cursor.pos() })
    }

    fn checked_item(&self, master: StreamId, header: &Header, pos: usize) -> Option<Item<'_>> {
        let item = self.item(master, header, pos)?;
        let mut rest = item.values.clone();
        let values = if item.fields.is_some() { item.len } else { item.len.checked_mul(2)? };
        for _ in 0..values {
            rest.next()?;
        }
        let back = 3 + values + usize::from(item.fields.is_none());
        (count(&mut rest)? == back).then_some(item)
    }

    /// The master entry.
    pub fn header(&self) -> Header {
        // Every node was made by `new` or checked by `from_listpack`.
        self.checked_header().unwrap_or(Header {
            live: 0,
            deleted: 0,
            fields: 0,
            first_field: 0,
            entries: self.lp.end(),
        })
    }

    fn item(&self, master: StreamId, header: &Header, pos: usize) -> Option<Item<'_>> {
        let mut cursor = self.lp.iter_from(pos);
        let flags = number(&mut cursor)?;
        let ms = master.ms.wrapping_add(number(&mut cursor)? as u64);
        let seq = master.seq.wrapping_add(number(&mut cursor)? as u64);
        let same = flags & SAME_FIELDS != 0;
        let len = if same { header.fields } else { count(&mut cursor)? };
        Some(Item {
            id: StreamId { ms, seq },
            len,
            deleted: flags & DELETED != 0,
            pos,
            fields: same.then(|| self.lp.iter_from(header.first_field)),
            values: cursor,
        })
    }

    /// Number of entries that were not deleted.
    pub fn live(&self) -> u64 {
        self.lp.iter().next().and_then(Entry::as_int).unwrap_or(0) as u64
    }

    /// Entries, deleted ones included.
    pub fn total(&self) -> u64 {
        let mut numbers = self.lp.iter().take(2).filter_map(Entry::as_int);
        (numbers.next().unwrap_or(0) + numbers.next().unwrap_or(0)) as u64
    }

    /// Adds an entry: `pairs` are fields and values in turn. `id` is greater than those of all entries.
    pub fn append<'a>(
        &mut self,
        master: StreamId,
        id: StreamId,
        pairs: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
    ) {
        let header = self.header();
        let len = pairs.len() / 2;
        let same = len == header.fields
            && self
                .lp
                .iter_from(header.first_field)
                .zip(pairs.clone().step_by(2))
                .take(len)
                .all(|(field, given)| field.is(given));
        let bytes: usize = pairs.clone().skip(usize::from(same)).step_by(1 + usize::from(same)).map(encoded_len).sum();
        self.lp.reserve(bytes + ENTRY_COST);
        let lp = &mut self.lp;
        lp.insert_int(lp.end(), if same { SAME_FIELDS } else { 0 });
        lp.insert_int(lp.end(), id.ms.wrapping_sub(master.ms) as i64);
        lp.insert_int(lp.end(), id.seq.wrapping_sub(master.seq) as i64);
        let back = if same {
            pairs.skip(1).step_by(2).for_each(|value| lp.push_back(value));
            3 + len
        } else {
            lp.insert_int(lp.end(), len as i64);
            pairs.for_each(|text| lp.push_back(text));
            4 + 2 * len
        };
        lp.insert_int(lp.end(), back as i64);
        self.set_counts(header.live + 1, header.deleted);
    }

    fn set_counts(&mut self, live: u64, deleted: u64) {
        let Some(first) = self.lp.first() else { return };
        self.lp.replace_int(first, live as i64);
        if let Some(second) = self.lp.next(first) {
            self.lp.replace_int(second, deleted as i64);
        }
    }

    /// The ID of the last entry, deleted or not.
    pub fn last_id(&self, master: StreamId) -> StreamId {
        let header = self.header();
        let end = self.lp.end();
        self.before(end, &header).and_then(|pos| self.item(master, &header, pos)).map_or(master, |item| item.id)
    }

    /// Position of the entry that ends at `end`.
    fn before(&self, end: usize, header: &Header) -> Option<usize> {
        if end <= header.entries {
            return None;
        }
        let mut pos = self.lp.prev(end)?;
        for _ in 0..self.lp.get(pos).as_int()? {
            pos = self.lp.prev(pos)?;
        }
        Some(pos)
    }

    /// The entries that were not deleted, from the first or the last on.
    pub fn items(&self, master: StreamId, reverse: bool) -> Items<'_> {
        let header = self.header();
        let at = if reverse { self.lp.end() } else { header.entries };
        Items { node: self, master, header, at, reverse }
    }

    /// Marks entries as deleted, from the first on, as long as `go_on` says so of an entry's ID and the number of those
    /// deleted so far; returns how many.
    pub fn delete_while(&mut self, master: StreamId, go_on: impl Fn(StreamId, u64) -> bool) -> u64 {
        let header = self.header();
        let (mut pos, mut gone) = (header.entries, 0);
        while pos < self.lp.end() {
            let Some(item) = self.item(master, &header, pos) else { break };
            if !go_on(item.id, gone) {
                break;
            }
            let (deleted, same, end) = (item.deleted, item.fields.is_some(), item.end());
            if !deleted {
                // A one-digit number for another: nothing moves.
                self.lp.replace_int(pos, DELETED | if same { SAME_FIELDS } else { 0 });
                gone += 1;
            }
            pos = end;
        }
        self.set_counts(header.live - gone, header.deleted + gone);
        gone
    }

    /// Marks an entry as deleted; whether it was there.
    pub fn delete(&mut self, master: StreamId, id: StreamId) -> bool {
        let found = self.items(master, false).find(|item| item.id >= id).filter(|item| item.id == id);
        let Some((pos, same)) = found.map(|item| (item.pos, item.fields.is_some())) else { return false };
        self.lp.replace_int(pos, DELETED | if same { SAME_FIELDS } else { 0 });
        let header = self.header();
        self.set_counts(header.live - 1, header.deleted + 1);
        true
    }

    /// The listpack.
    pub fn listpack(&self) -> &Listpack {
        &self.lp
    }

    /// Gives spare room back.
    pub fn shrink_to_fit(&mut self) {
        self.lp.shrink_to_fit();
    }

    /// A copy.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        Ok(Self { lp: self.lp.try_clone()? })
    }
}

/// See [`Node::items`].
#[derive(Clone)]
pub struct Items<'a> {
    node: &'a Node,
    master: StreamId,
    header: Header,
    at: usize,
    reverse: bool,
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        loop {
            let pos = if self.reverse { self.node.before(self.at, &self.header)? } else { self.at };
            let item = self.node.item(self.master, &self.header, pos)?;
            self.at = if self.reverse { pos } else { item.end() };
            if !item.deleted {
                return Some(item);
            }
        }
    }
}
