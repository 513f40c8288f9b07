//! What a key holds.

use crate::error::Error;
use crate::session::output::Shared;
use crate::types::hash::Hash;
use crate::types::list::List;
use crate::types::set::Set;
use crate::types::stream::Stream;
use crate::types::zset::ZSet;
use alloc::boxed::Box;
use barium_cell::{Record, View};

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
    /// A set.
    Set(Set),
    /// A sorted set.
    ZSet(ZSet),
    /// A hash.
    Hash(Hash),
    /// A stream.
    Stream(Box<Stream>),
}

/// Type of a value. The numbers are the records' tags.
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
        write!(f, "{}({})", self.encoding(), self.len())
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
    pub fn len(&self) -> usize {
        match self {
            Object::Str(_) => 1,
            Object::List(v) => v.len(),
            Object::Set(v) => v.len(),
            Object::ZSet(v) => v.len(),
            Object::Hash(v) => v.len(),
            Object::Stream(v) => v.parts(),
        }
    }

    /// Whether it is a collection without elements, which cannot stay. (A stream without entries can.)
    pub fn is_empty(&self) -> bool {
        !matches!(self, Object::Stream(_)) && self.len() == 0
    }

    /// The name that OBJECT ENCODING gives.
    pub fn encoding(&self) -> &'static str {
        match self {
            Object::Str(_) => "raw",
            Object::List(v) => v.encoding(),
            Object::Set(v) => v.encoding(),
            Object::ZSet(v) => v.encoding(),
            Object::Hash(v) => v.encoding(),
            Object::Stream(_) => "stream",
        }
    }

    /// Bytes that the value takes.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>()
            + match self {
                Object::Str(s) => s.capacity() + size_of::<Shared>() * 3,
                Object::List(v) => v.memory_usage(),
                Object::Set(v) => v.memory_usage(),
                Object::ZSet(v) => v.memory_usage(),
                Object::Hash(v) => v.memory_usage(),
                Object::Stream(v) => size_of::<Stream>() + v.memory_usage(),
            }
    }

    /// A copy. A long string is shared until one of the two changes.
    pub fn try_clone(&self) -> Result<Self, Error> {
        Ok(match self {
            Object::Str(s) => Object::Str(s.clone()),
            Object::List(v) => Object::List(v.try_clone()?),
            Object::Set(v) => Object::Set(v.try_clone()?),
            Object::ZSet(v) => Object::ZSet(v.try_clone()?),
            Object::Hash(v) => Object::Hash(v.try_clone()?),
            Object::Stream(v) => Object::Stream(Box::new(v.try_clone()?)),
        })
    }

    /// Frees up to about `n` elements of a value that nobody uses any more; true when dropping the rest is cheap.
    pub fn free_step(&mut self, n: usize) -> bool {
        match self {
            Object::Str(_) => true,
            Object::List(v) => v.free_step(n),
            Object::Set(v) => v.free_step(n),
            Object::ZSet(v) => v.free_step(n),
            Object::Hash(v) => v.free_step(n),
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

/// Views on an [`Item`].
pub trait ItemExt {
    /// Type of the value.
    fn type_of(&self) -> Type;
    /// The value as a string, if it is one.
    fn as_str(&self) -> Option<Str<'_>>;
    /// The name that OBJECT ENCODING gives.
    fn encoding(&self) -> &'static str;
    /// Bytes that key and value take.
    fn memory_usage(&self) -> usize;
    /// Number of elements; 1 for a string.
    fn elements(&self) -> usize;
}

impl ItemExt for Item {
    fn type_of(&self) -> Type {
        match self.tag() {
            0 => Type::String,
            1 => Type::RawString,
            2 => Type::List,
            3 => Type::Set,
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
            View::Object(_) => None,
        }
    }

    fn encoding(&self) -> &'static str {
        match self.view() {
            View::Int(_) => "int",
            View::Bytes(b) if b.len() <= EMBSTR_MAX && self.type_of() == Type::String => "embstr",
            View::Bytes(_) => "raw",
            View::Object(o) => o.encoding(),
        }
    }

    fn memory_usage(&self) -> usize {
        self.size() + if let View::Object(o) = self.view() { o.memory_usage() } else { 0 }
    }

    fn elements(&self) -> usize {
        if let View::Object(o) = self.view() { o.len() } else { 1 }
    }
}

/// Boxes an object, or says that there is no memory. (A fixed small size: the heap's reserve covers it.)
pub fn boxed(object: Object) -> Box<Object> {
    Box::new(object)
}
