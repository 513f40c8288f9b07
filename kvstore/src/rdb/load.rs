//! Reading values from untrusted bytes.
//!
//! Beside what [`save`](super::save) writes, the formats of Redis 2.6 to 6.2 are read: plain lists, sorted sets with scores
//! as text, ziplists, strings compressed by LZF.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use barium_cell::{OutOfMemory, ViewMut};

use super::crc64::crc64;
use super::{FOOTER_LEN, VERSION, container, kind, lzf, special, ziplist};
use crate::encoding::quicklist::nodes::Node;
use crate::encoding::{Entries, Entry, Intset, Listpack, Quicklist, inline};
use crate::error::Error;
use crate::number::{I64_CHARS, parse_bound};
use crate::types::hash::{HashLimits, HashMut, new_hash};
use crate::types::list::{End, List, NodeLimit};
use crate::types::set::{self, SetLimits, SetMut};
use crate::types::zset::{self, ZSetLimits, ZSetMut};
use crate::value::{INTSET, Item, ItemExt, Object, Type, item_of};

/// Limits of the encodings that loaded values get.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `list-max-listpack-size`
    pub list: NodeLimit,
    /// Limits of compact hashes.
    pub hash: HashLimits,
    /// Limits of compact sets.
    pub set: SetLimits,
    /// Limits of compact sorted sets.
    pub zset: ZSetLimits,
}

/// A value that was read.
pub enum Loaded<'a> {
    /// A string.
    Str(Cow<'a, [u8]>),
    /// Anything else, without a key.
    Item(Item),
}

/// Why a value could not be read.
#[derive(Debug)]
pub enum Failure {
    /// The bytes are not a value.
    BadFormat,
    /// There is no memory for it.
    OutOfMemory,
}

impl From<OutOfMemory> for Failure {
    fn from(_: OutOfMemory) -> Self {
        Failure::OutOfMemory
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::BadFormat => Error::Fixed("ERR Bad data format"),
            Failure::OutOfMemory => Error::OutOfMemory,
        }
    }
}

/// Checks version and checksum of a payload; the part in front of them.
pub fn verified(payload: &[u8]) -> Option<&[u8]> {
    let (body, footer) = payload.split_at_checked(payload.len().checked_sub(FOOTER_LEN)?)?;
    let (version, checksum) = footer.split_at(2);
    let version = u16::from_le_bytes(*version.first_chunk()?);
    let covered = payload.get(..payload.len() - checksum.len())?;
    let right = crc64(0, covered).to_le_bytes() == *checksum;
    (version <= VERSION && right).then_some(body)
}

/// Reads a type byte and a value. What is behind it is not looked at.
///
/// # Errors
/// See [`Failure`].
pub fn value<'a>(body: &'a [u8], limits: &Limits) -> Result<Loaded<'a>, Failure> {
    let mut reader = Reader(body);
    let item = match reader.byte()? {
        kind::STRING => return Ok(Loaded::Str(reader.string()?)),
        kind::LIST => item_of(Object::List(reader.list(limits)?))?,
        kind::LIST_QUICKLIST_2 => item_of(Object::List(reader.quicklist(limits, false)?))?,
        kind::LIST_QUICKLIST => item_of(Object::List(reader.quicklist(limits, true)?))?,
        kind::LIST_ZIPLIST => {
            let mut list = List::from_listpack(reader.ziplist()?);
            list.settle(limits.list);
            item_of(Object::List(list))?
        }
        kind::SET => reader.set(limits)?,
        kind::SET_INTSET => reader.intset(limits)?,
        kind::SET_LISTPACK => set_of(reader.listpack()?.entries(), limits)?,
        kind::HASH => reader.hash(limits)?,
        kind::HASH_LISTPACK => hash_of(reader.listpack()?.entries(), limits)?,
        kind::HASH_ZIPLIST => hash_of(reader.ziplist()?.entries(), limits)?,
        kind::ZSET => reader.zset(limits, Reader::text_score)?,
        kind::ZSET_2 => reader.zset(limits, Reader::binary_score)?,
        kind::ZSET_LISTPACK => zset_of(reader.listpack()?.entries(), limits)?,
        kind::ZSET_ZIPLIST => zset_of(reader.ziplist()?.entries(), limits)?,
        kind @ (kind::STREAM | kind::STREAM_2 | kind::STREAM_3) => {
            item_of(Object::Stream(reader.stream(kind)?.into()))?
        }
        _ => return Err(Failure::BadFormat),
    };
    // Redis keeps no empty collections but streams.
    let empty = item.elements() == 0 && item.type_of() != Type::Stream;
    if empty { Err(Failure::BadFormat) } else { Ok(Loaded::Item(item)) }
}

pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, n: u64) -> Result<&'a [u8], Failure> {
        let n = usize::try_from(n).map_err(|_| Failure::BadFormat)?;
        let (taken, rest) = self.0.split_at_checked(n).ok_or(Failure::BadFormat)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Failure::BadFormat)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, Failure> {
        self.array().map(|[b]| b)
    }

    /// A length whose first byte is `first`.
    fn len_from(&mut self, first: u8) -> Result<u64, Failure> {
        match first {
            0..0x40 => Ok(u64::from(first)),
            0x40..0x80 => Ok(u64::from(first & 0x3F) << 8 | u64::from(self.byte()?)),
            0x80 => self.array().map(|b| u64::from(u32::from_be_bytes(b))),
            0x81 => self.array().map(u64::from_be_bytes),
            _ => Err(Failure::BadFormat),
        }
    }

    pub(super) fn len(&mut self) -> Result<u64, Failure> {
        let first = self.byte()?;
        self.len_from(first)
    }

    pub(super) fn string(&mut self) -> Result<Cow<'a, [u8]>, Failure> {
        let number = |v: i64| Cow::Owned(Entry::Int(v).to_vec());
        match self.byte()? {
            special::INT8 => self.array().map(|b| number(i64::from(i8::from_le_bytes(b)))),
            special::INT16 => self.array().map(|b| number(i64::from(i16::from_le_bytes(b)))),
            special::INT32 => self.array().map(|b| number(i64::from(i32::from_le_bytes(b)))),
            special::LZF => {
                let (packed, len) = (self.len()?, self.len()?);
                let packed = self.take(packed)?;
                let len = usize::try_from(len).map_err(|_| Failure::BadFormat)?;
                let text = lzf::decompress(packed, len).map_err(|_| Failure::OutOfMemory)?;
                text.map(Cow::Owned).ok_or(Failure::BadFormat)
            }
            first => {
                let len = self.len_from(first)?;
                self.take(len).map(Cow::Borrowed)
            }
        }
    }

    fn blob(&mut self) -> Result<Vec<u8>, Failure> {
        match self.string()? {
            Cow::Owned(bytes) => Ok(bytes),
            Cow::Borrowed(bytes) => Ok(Entry::Str(bytes).try_to_vec()?),
        }
    }

    pub(super) fn listpack(&mut self) -> Result<Listpack, Failure> {
        Listpack::from_bytes(self.blob()?).map_err(|_| Failure::BadFormat)
    }

    fn ziplist(&mut self) -> Result<Listpack, Failure> {
        ziplist::to_listpack(&self.string()?).ok_or(Failure::BadFormat)
    }

    fn list(&mut self, limits: &Limits) -> Result<List, Failure> {
        let mut list = List::new_quicklist(limits.list);
        for _ in 0..self.len()? {
            list.push(End::Right, &self.string()?)?;
        }
        list.settle(limits.list);
        Ok(list)
    }

    fn quicklist(&mut self, limits: &Limits, ziplists: bool) -> Result<List, Failure> {
        let mut list = Quicklist::new(limits.list);
        for _ in 0..self.len()? {
            let node = if ziplists {
                Node::Packed(self.ziplist()?)
            } else {
                match self.len()? {
                    container::PLAIN => Node::Plain(self.blob()?.into_boxed_slice()),
                    container::PACKED => Node::Packed(self.listpack()?),
                    _ => return Err(Failure::BadFormat),
                }
            };
            list.append_node(node);
        }
        let mut list = List::from_quicklist(list);
        list.settle(limits.list);
        Ok(list)
    }

    fn set(&mut self, limits: &Limits) -> Result<Item, Failure> {
        let len = self.len()?;
        let mut item = set::new_intset(&[])?;
        for i in 0..len {
            let member = self.string()?;
            if i == 0 {
                item = set::for_members(&[], &member, usize::try_from(len).unwrap_or(usize::MAX), &limits.set)?;
            }
            let mut set = SetMut::of(&mut item).ok_or(Failure::BadFormat)?;
            if !set.add(&member, &limits.set)? {
                return Err(Failure::BadFormat);
            }
        }
        Ok(item)
    }

    fn intset(&mut self, limits: &Limits) -> Result<Item, Failure> {
        let bytes = self.blob()?;
        let ints = Intset::checked(&bytes).map_err(|_| Failure::BadFormat)?;
        let mut item = Item::with_packed(&[], INTSET, &bytes)?;
        SetMut::of(&mut item).ok_or(Failure::BadFormat)?.prepare(ints.len(), &limits.set)?;
        Ok(item)
    }

    fn hash(&mut self, limits: &Limits) -> Result<Item, Failure> {
        let mut item = new_hash(&[])?;
        let mut hash = HashMut::of(&mut item).ok_or(Failure::BadFormat)?;
        for _ in 0..self.len()? {
            let (field, value) = (self.string()?, self.string()?);
            if !hash.set(&field, &value, &limits.hash)? {
                return Err(Failure::BadFormat);
            }
        }
        Ok(item)
    }

    fn zset(&mut self, limits: &Limits, score: impl Fn(&mut Self) -> Result<f64, Failure>) -> Result<Item, Failure> {
        // Built as a tree: in a listpack, elements that come from the greatest on would each move all others.
        let unlimited = ZSetLimits { listpack_entries: 0, ..limits.zset };
        let mut item = zset::for_members(&[], &unlimited, 1, 0)?;
        let mut zset = ZSetMut::of(&mut item).ok_or(Failure::BadFormat)?;
        for _ in 0..self.len()? {
            let member = self.string()?;
            let score = score(self)?;
            if score.is_nan() || zset.insert(&member, score, &unlimited)?.is_some() {
                return Err(Failure::BadFormat);
            }
        }
        zset.settle(&limits.zset)?;
        Ok(item)
    }

    fn binary_score(&mut self) -> Result<f64, Failure> {
        self.array().map(f64::from_le_bytes)
    }

    /// A score as text with its length in one byte; three lengths stand for what has no digits.
    fn text_score(&mut self) -> Result<f64, Failure> {
        match self.byte()? {
            255 => Ok(f64::NEG_INFINITY),
            254 => Ok(f64::INFINITY),
            253 => Err(Failure::BadFormat),
            len => parse_bound(self.take(u64::from(len))?).ok_or(Failure::BadFormat),
        }
    }
}

/// An item whose value is a listpack.
fn packed(kind: Type, entries: Entries<'_>) -> Result<Item, OutOfMemory> {
    let mut item = Item::with_packed(&[], kind as u8, inline::EMPTY)?;
    if let ViewMut::Packed(mut packed) = item.view_mut() {
        inline::append(&mut packed, entries)?;
    }
    Ok(item)
}

/// A set of a listpack's entries, if they are all different.
fn set_of(entries: Entries<'_>, limits: &Limits) -> Result<Item, Failure> {
    // A table finds what comes twice.
    let as_table = SetLimits { intset_entries: 0, listpack_entries: 0, ..limits.set };
    let mut item = set::new_listpack(&[])?;
    let mut table = SetMut::of(&mut item).ok_or(Failure::BadFormat)?;
    for member in entries.iter() {
        if !table.add(member.bytes(&mut [0; I64_CHARS]), &as_table)? {
            return Err(Failure::BadFormat);
        }
    }
    if entries.len() <= limits.set.listpack_entries { Ok(packed(Type::Set, entries)?) } else { Ok(item) }
}

/// A hash of a listpack's entries, fields and values in turn, if the fields are all different.
fn hash_of(entries: Entries<'_>, limits: &Limits) -> Result<Item, Failure> {
    if !entries.len().is_multiple_of(2) {
        return Err(Failure::BadFormat);
    }
    let as_table = HashLimits { listpack_entries: 0, ..limits.hash };
    let mut item = new_hash(&[])?;
    let mut table = HashMut::of(&mut item).ok_or(Failure::BadFormat)?;
    for (field, value) in entries.pairs() {
        let (mut a, mut b) = ([0; I64_CHARS], [0; I64_CHARS]);
        if !table.set(field.bytes(&mut a), value.bytes(&mut b), &as_table)? {
            return Err(Failure::BadFormat);
        }
    }
    if entries.len() / 2 <= limits.hash.listpack_entries { Ok(packed(Type::Hash, entries)?) } else { Ok(item) }
}

/// A sorted set of a listpack's entries, members and scores in turn.
fn zset_of(entries: Entries<'_>, limits: &Limits) -> Result<Item, Failure> {
    let mut item = zset::for_members(&[], &limits.zset, 0, 0)?;
    let mut zset = ZSetMut::of(&mut item).ok_or(Failure::BadFormat)?;
    if !entries.len().is_multiple_of(2) {
        return Err(Failure::BadFormat);
    }
    for (member, score) in entries.pairs() {
        let score = match score {
            Entry::Int(value) => value as f64,
            Entry::Str(text) => parse_bound(text).ok_or(Failure::BadFormat)?,
        };
        if zset.insert(member.bytes(&mut [0; I64_CHARS]), score, &limits.zset)?.is_some() {
            return Err(Failure::BadFormat);
        }
    }
    Ok(item)
}
