//! What a key holds.

use crate::encoding::{Intset, inline};
use crate::error::Error;
use crate::session::output::Shared;
use crate::types::hash::{self, Fields, HashRef};
use crate::types::list::List;
use crate::types::set::{self, Members, SetRef};
use crate::types::stream::Stream;
use crate::types::zset::{Tree, ZSetRef};
use alloc::boxed::Box;
use barium_cell::{OutOfMemory, Record, View};

/// A key with its value, deadline (Unix time, in ms) and access clock.
pub type Item = Record<Object>;

/// Longest string that lies in the record itself, in bytes; longer ones are shared buffers, sent without a copy.
pub const INLINE_MAX: usize = crate::reply::BY_REFERENCE - 1;
/// Longest string with the encoding `embstr`, in bytes.
pub const EMBSTR_MAX: usize = 44;

/// A value that does not lie in the record.
pub enum Object {
    /// A long string.
    Str(Shared),
    /// A list.
    List(List),
    /// A set that is too large for its record.
    Set(Box<Members>),
    /// A sorted set that is too large for its record.
    ZSet(Box<Tree>),
    /// A hash that is too large for its record.
    Hash(Box<Fields>),
    /// A stream.
    Stream(Box<Stream>),
}

/// Type of a value. The numbers are the records' tags; [`INTSET`] is one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Type {
    /// String (`int` or `embstr`, or a long one).
    String = 0,
    /// String that was changed in place or is long: encoding `raw`.
    RawString = 1,
    /// List.
    List = 2,
    /// Set.
    Set = 3,
    /// Sorted set.
    ZSet = 4,
    /// Hash.
    Hash = 5,
    /// Stream.
    Stream = 6,
}

/// Tag of a set that lies in its record as an intset; as a listpack its tag is that of its type.
pub const INTSET: u8 = 7;
const LISTPACK_HASH: u8 = Type::Hash as u8;
const LISTPACK_ZSET: u8 = Type::ZSet as u8;

impl Type {
    /// The name that TYPE gives.
    pub const fn name(self) -> &'static str {
        match self {
            Type::String | Type::RawString => "string",
            Type::List => "list",
            Type::Set => "set",
            Type::ZSet => "zset",
            Type::Hash => "hash",
            Type::Stream => "stream",
        }
    }
}

impl core::fmt::Debug for Object {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}({})", self.encoding(), self.elements())
    }
}

impl Object {
    /// The type.
    pub const fn type_of(&self) -> Type {
        match self {
            Object::Str(_) => Type::RawString,
            Object::List(_) => Type::List,
            Object::Set(_) => Type::Set,
            Object::ZSet(_) => Type::ZSet,
            Object::Hash(_) => Type::Hash,
            Object::Stream(_) => Type::Stream,
        }
    }

    /// Number of elements; 1 for a string. Of a stream it is the number of parts that freeing it takes.
    pub fn elements(&self) -> usize {
        match self {
            Object::Str(_) => 1,
            Object::List(v) => v.len(),
            Object::Set(v) => v.len(),
            Object::ZSet(v) => v.len(),
            Object::Hash(v) => v.len(),
            Object::Stream(v) => v.parts(),
        }
    }

    /// The name that OBJECT ENCODING gives.
    pub fn encoding(&self) -> &'static str {
        match self {
            Object::Str(_) => "raw",
            Object::List(v) => v.encoding(),
            Object::Set(_) | Object::Hash(_) => "hashtable",
            Object::ZSet(_) => "skiplist",
            Object::Stream(_) => "stream",
        }
    }

    /// Bytes that the value takes, by as many of its elements (or nodes) as `samples` says.
    pub fn memory_usage(&self, samples: usize) -> usize {
        size_of::<Self>()
            + match self {
                Object::Str(s) => s.capacity() + size_of::<Shared>() * 3,
                Object::List(v) => v.memory_usage(samples),
                Object::Set(v) => set::memory_usage(v, samples),
                Object::ZSet(v) => size_of::<Tree>() + v.memory_usage(),
                Object::Hash(v) => hash::memory_usage(v, samples),
                Object::Stream(v) => size_of::<Stream>() + v.memory_usage(samples),
            }
    }

    /// A copy. A long string is shared until one of the two changes.
    pub fn try_clone(&self) -> Result<Self, Error> {
        Ok(match self {
            Object::Str(s) => Object::Str(s.clone()),
            Object::List(v) => Object::List(v.try_clone()?),
            Object::Set(v) => Object::Set(Box::new(set::try_clone(v)?)),
            Object::ZSet(v) => Object::ZSet(Box::new(v.try_clone()?)),
            Object::Hash(v) => Object::Hash(Box::new(hash::try_clone(v)?)),
            Object::Stream(v) => Object::Stream(Box::new(v.try_clone()?)),
        })
    }

    /// Frees up to about `n` elements of a value that nobody uses any more; true when dropping the rest is cheap.
    pub fn free_step(&mut self, n: usize) -> bool {
        match self {
            Object::Str(_) => true,
            Object::List(v) => v.free_step(n),
            Object::Set(v) => v.free_step(n) == 0 || v.is_empty(),
            Object::ZSet(v) => v.free_step(n),
            Object::Hash(v) => v.free_step(n) == 0 || v.is_empty(),
            Object::Stream(v) => v.free_step(n),
        }
    }
}

/// A string value, wherever it lies.
#[derive(Clone, Copy, Debug)]
pub enum Str<'a> {
    /// Bytes in the record.
    Bytes(&'a [u8]),
    /// An integer.
    Int(i64),
    /// A long string.
    Shared(&'a Shared),
}

impl<'a> Str<'a> {
    /// The bytes; an integer's digits are written into `buf`.
    pub fn bytes<'b>(self, buf: &'b mut [u8; crate::number::I64_CHARS]) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Str::Bytes(b) => b,
            Str::Int(n) => crate::number::format_i64(buf, n),
            Str::Shared(s) => s,
        }
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        self.bytes(&mut [0; crate::number::I64_CHARS]).len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The integer that the string is the canonical text of.
    pub fn int(self) -> Option<i64> {
        match self {
            Str::Int(n) => Some(n),
            Str::Bytes(b) => crate::number::parse_i64(b),
            Str::Shared(_) => None,
        }
    }
}

/// A value, wherever it lies.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// A string.
    Str(Str<'a>),
    /// A list.
    List(&'a List),
    /// A set.
    Set(SetRef<'a>),
    /// A sorted set.
    ZSet(ZSetRef<'a>),
    /// A hash.
    Hash(HashRef<'a>),
    /// A stream.
    Stream(&'a Stream),
}

/// Views on an [`Item`].
pub trait ItemExt {
    /// The value.
    fn value(&self) -> Value<'_>;
    /// Type of the value.
    fn type_of(&self) -> Type;
    /// The value as a string, if it is one.
    fn as_str(&self) -> Option<Str<'_>>;
    /// The name that OBJECT ENCODING gives.
    fn encoding(&self) -> &'static str;
    /// Bytes that key and value take, by as many elements (or nodes) as `samples` says.
    fn memory_usage(&self, samples: usize) -> usize;
    /// Number of elements; 1 for a string. Of a stream it is the number of parts that freeing it takes.
    fn elements(&self) -> usize;
}

impl ItemExt for Item {
    fn value(&self) -> Value<'_> {
        match self.view() {
            View::Bytes(b) => Value::Str(Str::Bytes(b)),
            View::Int(n) => Value::Str(Str::Int(n)),
            View::Packed(bytes) => match self.tag() {
                INTSET => Value::Set(SetRef::Intset(Intset::new(bytes))),
                LISTPACK_HASH => Value::Hash(HashRef::Listpack(inline::entries(bytes))),
                LISTPACK_ZSET => Value::ZSet(ZSetRef::Listpack(inline::entries(bytes))),
                _ => Value::Set(SetRef::Listpack(inline::entries(bytes))),
            },
            View::Object(Object::Str(s)) => Value::Str(Str::Shared(s)),
            View::Object(Object::List(v)) => Value::List(v),
            View::Object(Object::Set(v)) => Value::Set(SetRef::Table(v)),
            View::Object(Object::ZSet(v)) => Value::ZSet(ZSetRef::Tree(v)),
            View::Object(Object::Hash(v)) => Value::Hash(HashRef::Table(v)),
            View::Object(Object::Stream(v)) => Value::Stream(v),
        }
    }

    fn type_of(&self) -> Type {
        match self.tag() {
            0 => Type::String,
            1 => Type::RawString,
            2 => Type::List,
            3 | INTSET => Type::Set,
            4 => Type::ZSet,
            5 => Type::Hash,
            _ => Type::Stream,
        }
    }

    #[inline]
    fn as_str(&self) -> Option<Str<'_>> {
        match self.view() {
            View::Bytes(b) => Some(Str::Bytes(b)),
            View::Int(n) => Some(Str::Int(n)),
            View::Object(Object::Str(s)) => Some(Str::Shared(s)),
            View::Object(_) | View::Packed(_) => None,
        }
    }

    fn encoding(&self) -> &'static str {
        match self.view() {
            View::Int(_) => "int",
            View::Bytes(b) if b.len() <= EMBSTR_MAX && self.type_of() == Type::String => "embstr",
            View::Bytes(_) => "raw",
            View::Packed(_) if self.tag() == INTSET => "intset",
            View::Packed(_) => "listpack",
            View::Object(o) => o.encoding(),
        }
    }

    fn memory_usage(&self, samples: usize) -> usize {
        self.size() + if let View::Object(o) = self.view() { o.memory_usage(samples) } else { 0 }
    }

    fn elements(&self) -> usize {
        match self.value() {
            Value::Str(_) => 1,
            Value::List(v) => v.len(),
            Value::Set(v) => v.len(),
            Value::ZSet(v) => v.len(),
            Value::Hash(v) => v.len(),
            Value::Stream(v) => v.parts(),
        }
    }
}

/// A copy of a value under another key, without deadline and clock. A long string is shared until one of the two changes.
///
/// # Errors
/// When there is no memory for it.
pub fn copy_of(item: &Item, key: &[u8]) -> Result<Item, Error> {
    Ok(match item.view() {
        View::Bytes(b) => Record::with_bytes(key, item.tag(), b)?,
        View::Packed(b) => Record::with_packed(key, item.tag(), b)?,
        View::Int(n) => Record::with_int(key, item.tag(), n)?,
        View::Object(o) => Record::with_object(key, item.tag(), boxed(o.try_clone()?))?,
    })
}

/// An item without a key, until it is put at one.
///
/// # Errors
/// When there is no memory for it.
pub fn item_of(object: Object) -> Result<Item, OutOfMemory> {
    let tag = object.type_of() as u8;
    Record::with_object(&[], tag, boxed(object))
}

/// Boxes an object. (A fixed small size: the heap's reserve covers it.)
pub fn boxed(object: Object) -> Box<Object> {
    Box::new(object)
}
