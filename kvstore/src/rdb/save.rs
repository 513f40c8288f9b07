//! Writing values.

use alloc::vec::Vec;

use super::crc64::crc64;
use super::{VERSION, container, kind, special};
use crate::encoding::Entries;
use crate::encoding::listpack;
use crate::encoding::listpack::Entry;
use crate::encoding::quicklist::nodes::Node;
use crate::error::Error;
use crate::number::{I64_CHARS, parse_i64};
use crate::types::hash::HashRef;
use crate::types::list::List;
use crate::types::set::SetRef;
use crate::types::zset::ZSetRef;
use crate::value::{Item, ItemExt, Value};

/// The payload that DUMP gives for a key's value.
///
/// # Errors
/// When there is no memory for it.
pub fn dump(item: &Item) -> Result<Vec<u8>, Error> {
    let mut out = Writer { bytes: Some(Vec::new()), len: 0 };
    out.item(item)?;
    out.bytes(&VERSION.to_le_bytes())?;
    let mut payload = out.bytes.unwrap_or_default();
    let crc = crc64(0, &payload).to_le_bytes();
    payload.try_reserve(crc.len())?;
    payload.extend_from_slice(&crc);
    Ok(payload)
}

/// Length of what is saved of a key's value, in bytes, without its type (DEBUG OBJECT's `serializedlength`).
pub fn saved_len(item: &Item) -> usize {
    let mut out = Writer { bytes: None, len: 0 };
    // Only memory can fail, and counting takes none.
    let _ = out.item(item);
    out.len.saturating_sub(1)
}

/// Writes, or counts what would be written.
pub(super) struct Writer {
    bytes: Option<Vec<u8>>,
    len: usize,
}

impl Writer {
    fn item(&mut self, item: &Item) -> Result<(), Error> {
        match item.value() {
            Value::Str(string) => self.string_value(string.bytes(&mut [0; I64_CHARS])),
            Value::List(list) => self.list(list),
            Value::Set(set) => self.set(set),
            Value::Hash(hash) => self.hash(hash),
            Value::ZSet(zset) => self.zset(zset),
            Value::Stream(stream) => self.stream(stream),
        }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.len += bytes.len();
        if let Some(out) = &mut self.bytes {
            out.try_reserve(bytes.len())?;
            out.extend_from_slice(bytes);
        }
        Ok(())
    }

    pub(super) fn kind(&mut self, kind: u8) -> Result<(), Error> {
        self.bytes(&[kind])
    }

    /// A length: 6, 14, 32 or 64 bits, the first two bits of the first byte say which; high bits first.
    pub(super) fn len(&mut self, len: u64) -> Result<(), Error> {
        match len {
            0..0x40 => self.bytes(&[len as u8]),
            0x40..0x4000 => self.bytes(&[0x40 | (len >> 8) as u8, len as u8]),
            0x4000..0x1_0000_0000 => {
                self.bytes(&[0x80])?;
                self.bytes(&(len as u32).to_be_bytes())
            }
            _ => {
                self.bytes(&[0x81])?;
                self.bytes(&len.to_be_bytes())
            }
        }
    }

    /// Bytes with their length in front.
    pub(super) fn blob(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.len(bytes.len() as u64)?;
        self.bytes(bytes)
    }

    /// As [`blob`](Self::blob), or shorter if it is the text of a small integer.
    pub(super) fn string(&mut self, text: &[u8]) -> Result<(), Error> {
        let number = if text.len() <= 11 { parse_i64(text).and_then(|v| i32::try_from(v).ok()) } else { None };
        let Some(value) = number else { return self.blob(text) };
        let bytes = value.to_le_bytes();
        if i8::try_from(value).is_ok() {
            self.bytes(&[special::INT8, bytes[0]])
        } else if i16::try_from(value).is_ok() {
            self.bytes(&[special::INT16, bytes[0], bytes[1]])
        } else {
            self.bytes(&[special::INT32])?;
            self.bytes(&bytes)
        }
    }

    fn entry(&mut self, entry: Entry<'_>) -> Result<(), Error> {
        self.string(entry.bytes(&mut [0; I64_CHARS]))
    }

    fn string_value(&mut self, text: &[u8]) -> Result<(), Error> {
        self.kind(kind::STRING)?;
        self.string(text)
    }

    fn list(&mut self, list: &List) -> Result<(), Error> {
        self.kind(kind::LIST_QUICKLIST_2)?;
        if let Some(lp) = list.as_listpack() {
            self.len(1)?;
            self.len(container::PACKED)?;
            return self.blob(lp.as_bytes());
        }
        let Some(quicklist) = list.as_quicklist() else { return Ok(()) };
        self.len(quicklist.node_count() as u64)?;
        for node in quicklist.nodes() {
            match node {
                Node::Packed(lp) => {
                    self.len(container::PACKED)?;
                    self.blob(lp.as_bytes())?;
                }
                Node::Plain(bytes) => {
                    self.len(container::PLAIN)?;
                    self.blob(bytes)?;
                }
            }
        }
        Ok(())
    }

    /// A listpack as a blob.
    fn listpack(&mut self, entries: Entries<'_>) -> Result<(), Error> {
        let (front, end) = listpack::frame(entries);
        self.len(entries.framed_len() as u64)?;
        self.bytes(&front)?;
        self.bytes(entries.bytes())?;
        self.bytes(&end)
    }

    fn set(&mut self, set: SetRef<'_>) -> Result<(), Error> {
        if let Some(intset) = set.as_intset() {
            self.kind(kind::SET_INTSET)?;
            self.blob(intset.as_bytes())
        } else if let Some(lp) = set.as_listpack() {
            self.kind(kind::SET_LISTPACK)?;
            self.listpack(lp)
        } else {
            self.kind(kind::SET)?;
            self.len(set.len() as u64)?;
            set.iter().try_for_each(|member| self.entry(member))
        }
    }

    fn hash(&mut self, hash: HashRef<'_>) -> Result<(), Error> {
        if let Some(lp) = hash.as_listpack() {
            self.kind(kind::HASH_LISTPACK)?;
            return self.listpack(lp);
        }
        self.kind(kind::HASH)?;
        self.len(hash.len() as u64)?;
        hash.iter().try_for_each(|(field, value)| {
            self.entry(field)?;
            self.entry(value)
        })
    }

    fn zset(&mut self, zset: ZSetRef<'_>) -> Result<(), Error> {
        if let Some(lp) = zset.as_listpack() {
            self.kind(kind::ZSET_LISTPACK)?;
            return self.listpack(lp);
        }
        self.kind(kind::ZSET_2)?;
        self.len(zset.len() as u64)?;
        // From the greatest, as Redis does: read back in this order, each goes to the front.
        zset.iter(0..zset.len(), true).try_for_each(|(member, score)| {
            self.entry(member)?;
            self.bytes(&score.to_le_bytes())
        })
    }
}
