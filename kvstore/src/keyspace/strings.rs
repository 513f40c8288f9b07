//! String values in the keyspace.

use super::access::Access;
use super::{Db, Keys, Keyspace};
use crate::error::Error;
use crate::session::output::Shared;
use crate::table::Pos;
use crate::value::{INLINE_MAX, Item, ItemExt, Object, Str, Type, boxed, copy_of};
use alloc::sync::Arc;
use alloc::vec::Vec;
use barium_cell::{Record, ViewMut};

/// Longest string that grows inside its record; beyond it growing is amortised in a buffer of its own, in bytes.
const GROW_INLINE_MAX: usize = 1_024;
/// Longest text that can be a 64-bit integer.
const INT_MAX_LEN: usize = 20;

/// A new string value.
#[derive(Clone, Copy, Debug)]
pub enum NewStr<'a> {
    /// Bytes, to be copied; integers are recognised.
    Bytes(&'a [u8]),
    /// A received buffer, to be shared.
    Shared(&'a Shared),
}

impl Keys<'_> {
    /// The string at a key, for reading. Errs if the key holds another type.
    #[inline(always)]
    pub fn string(&mut self, key: &[u8]) -> Result<Option<Str<'_>>, Error> {
        match self.read(key) {
            None => Ok(None),
            Some(item) => item.as_str().map(Some).ok_or(Error::WrongType),
        }
    }

    /// Like [`string`](Self::string), for a command that will change it: counts no hit.
    pub fn string_for_write(&mut self, key: &[u8]) -> Result<Option<Str<'_>>, Error> {
        match self.write(key) {
            None => Ok(None),
            Some(item) => item.as_str().map(Some).ok_or(Error::WrongType),
        }
    }

    /// Puts a string over another that takes as much memory and has no deadline; true if it could. What nearly every SET is
    /// that is repeated.
    #[inline(always)]
    pub fn overwrite(&mut self, key: &[u8], value: &[u8]) -> bool {
        let touch = self.touch && self.used == [None; 2];
        let Keyspace { dbs, access, .. } = &mut *self.space;
        dbs.get_mut(self.db).is_some_and(|db| overwrite_in(db, access, touch, key, value))
    }

    /// The same for many, in their order, up to the first that cannot be put over another; true if all could.
    #[inline(never)]
    pub fn overwrite_all<'p>(&mut self, mut pairs: impl Iterator<Item = (&'p [u8], &'p [u8])>) -> bool {
        let touch = self.touch && self.used == [None; 2];
        let Keyspace { dbs, access, .. } = &mut *self.space;
        let Some(db) = dbs.get_mut(self.db) else { return false };
        pairs.all(|(key, value)| overwrite_in(db, access, touch, key, value))
    }

    /// Puts a string at a key, whatever was there. Its deadline is cleared unless `keep_deadline`. Says nothing to anybody.
    #[inline]
    pub fn set_string(&mut self, key: &[u8], value: NewStr<'_>, keep_deadline: bool) -> Result<(), Error> {
        if let NewStr::Bytes(bytes) = value
            && self.overwrite(key, bytes)
        {
            return Ok(());
        }
        self.set_string_anyhow(key, value, keep_deadline)
    }

    fn set_string_anyhow(&mut self, key: &[u8], value: NewStr<'_>, keep_deadline: bool) -> Result<(), Error> {
        let found = self.find_for_use(key);
        let value = match value {
            NewStr::Shared(s) if s.len() > INLINE_MAX => return self.put_shared(found, key, s.clone(), keep_deadline),
            NewStr::Shared(s) => s.as_slice(),
            NewStr::Bytes(b) => b,
        };
        if value.len() > INLINE_MAX {
            return self.put_shared(found, key, copied(value)?, keep_deadline);
        }
        if value.len() <= INT_MAX_LEN
            && matches!(value.first(), Some(b'0'..=b'9' | b'-'))
            && let Some(n) = crate::number::parse_i64(value)
        {
            return self.put_int(found, key, n, keep_deadline);
        }
        let Some(pos) = found else {
            return self.add(Record::with_bytes(key, Type::String as u8, value)?).map(drop);
        };
        let Some(item) = self.at_mut(pos) else { return Ok(()) };
        let old = item.set_bytes(Type::String as u8, value)?;
        let volatile = item.deadline().is_some();
        if let Some(old) = old {
            self.space.lazy.push_object(old);
        }
        if volatile && !keep_deadline { self.set_deadline_at(pos, None) } else { Ok(()) }
    }

    /// Puts an integer at a key that was looked up; its deadline is kept. Says nothing to anybody.
    pub fn set_int(&mut self, key: &[u8], value: i64) -> Result<(), Error> {
        let found = self.find(key);
        self.put_int(found, key, value, true)
    }

    fn put_int(&mut self, found: Option<Pos>, key: &[u8], value: i64, keep_deadline: bool) -> Result<(), Error> {
        let Some(pos) = found else {
            return self.add(Record::with_int(key, Type::String as u8, value)?).map(drop);
        };
        let Some(item) = self.at_mut(pos) else { return Ok(()) };
        let old = item.set_int(Type::String as u8, value)?;
        if let Some(old) = old {
            self.space.lazy.push_object(old);
        }
        if keep_deadline { Ok(()) } else { self.set_deadline_at(pos, None) }
    }

    fn put_shared(&mut self, found: Option<Pos>, key: &[u8], value: Shared, keep_deadline: bool) -> Result<(), Error> {
        let Some(pos) = found else { return self.add_object(key, Object::Str(value)).map(drop) };
        let Some(item) = self.at_mut(pos) else { return Ok(()) };
        let old = item.set_object(Type::RawString as u8, boxed(Object::Str(value)))?;
        if let Some(old) = old {
            self.space.lazy.push_object(old);
        }
        if keep_deadline { Ok(()) } else { self.set_deadline_at(pos, None) }
    }

    /// Stores the result of an in-place change: encoding `raw`, as Redis has it, deadline kept.
    pub fn set_raw(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if value.len() > INLINE_MAX {
            let found = self.find(key);
            return self.put_shared(found, key, copied(value)?, true);
        }
        self.set_tagged(key, value, Type::RawString)
    }

    /// Puts a computed string at a key, whatever was there: encoding `raw`, deadline cleared. Says nothing to anybody.
    pub fn set_string_raw(&mut self, key: &[u8], value: Vec<u8>) -> Result<(), Error> {
        let found = self.find_for_use(key);
        if value.len() > INLINE_MAX {
            return self.put_shared(found, key, Arc::new(value), false);
        }
        self.set_tagged(key, &value, Type::RawString)?;
        self.set_deadline(key, None)
    }

    fn set_tagged(&mut self, key: &[u8], value: &[u8], tag: Type) -> Result<(), Error> {
        match self.find(key) {
            None => self.add(Record::with_bytes(key, tag as u8, value)?).map(drop),
            Some(pos) => {
                let Some(item) = self.at_mut(pos) else { return Ok(()) };
                let old = item.set_bytes(tag as u8, value)?;
                if let Some(old) = old {
                    self.space.lazy.push_object(old);
                }
                Ok(())
            }
        }
    }

    /// Stores a number's text as it stands, an integer too: encoding `embstr`, deadline kept.
    pub fn set_number_text(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.set_tagged(key, value, Type::String)
    }

    /// Changes a string in place after growing it with zeros to at least `len` bytes (creating it if need be). That the key
    /// is used was said by a look-up before. The room is reserved fallibly; `affordable` says whether so many bytes more may be asked for. Errs if the key holds another
    /// type.
    pub fn edit_string<R>(
        &mut self,
        key: &[u8],
        len: usize,
        affordable: impl Fn(usize) -> bool,
        edit: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, Error> {
        let mut buf = [0; crate::number::I64_CHARS];
        let found = self.find(key);
        let old = match found.and_then(|pos| self.at_mut(pos)) {
            None => None,
            Some(item) => Some(item.as_str().ok_or(Error::WrongType)?.len()),
        };
        let new = len.max(old.unwrap_or(0));
        if new > old.unwrap_or(0) && !affordable(new - old.unwrap_or(0)) {
            return Err(Error::OutOfMemory);
        }
        // In place where it lies.
        if let Some(item) = found.and_then(|pos| self.at_mut(pos)) {
            match item.view_mut() {
                ViewMut::Bytes(bytes) if bytes.len() == new => {
                    let r = edit(bytes);
                    item.set_tag(Type::RawString as u8);
                    return Ok(r);
                }
                ViewMut::Object(Object::Str(shared)) => {
                    let value = own(shared, new)?;
                    grow(value, new)?;
                    return Ok(edit(value));
                }
                _ => {}
            }
        }
        let mut value = Vec::new();
        value.try_reserve_exact(new)?;
        if let Some(s) = self.peek(key).and_then(Item::as_str) {
            value.extend_from_slice(s.bytes(&mut buf));
        }
        value.resize(new, 0);
        let r = edit(&mut value);
        if new > GROW_INLINE_MAX {
            let found = self.find(key);
            self.put_shared(found, key, Arc::new(value), true)?;
        } else {
            self.set_raw(key, &value)?;
        }
        Ok(r)
    }

    /// Bytes that key and value take, if there is such a key, by as many elements (or nodes) as `samples` says.
    pub fn memory_usage(&mut self, key: &[u8], samples: usize) -> Option<usize> {
        self.peek(key).map(|item| item.memory_usage(samples) + 2 * size_of::<usize>())
    }

    /// A copy of a value under another key, with its deadline.
    pub fn copy_of(&mut self, key: &[u8], new_key: &[u8]) -> Result<Option<Item>, Error> {
        let Some(item) = self.peek(key) else { return Ok(None) };
        let mut copy = copy_of(item, new_key)?;
        copy.set_deadline(item.deadline())?;
        Ok(Some(copy))
    }
}

/// What [`Keys::overwrite`] does in a database. `touch`: whether it counts as a use of the key.
#[inline(always)]
fn overwrite_in(db: &mut Db, access: &mut Access, touch: bool, key: &[u8], value: &[u8]) -> bool {
    // What may become an integer, or is stored elsewhere, is left to others.
    if value.len() > INLINE_MAX || matches!(value.first(), Some(b'0'..=b'9' | b'-')) {
        return false;
    }
    let Some(item) = db.table.get_mut(key) else { return false };
    let fresh = item.is_fresh(access.fresh());
    if (!fresh && item.deadline().is_some()) || !item.overwrite(Type::String as u8, value) {
        return false;
    }
    fresh || access.touch_lasting(item, touch)
}

/// A copy to be kept.
fn copied(value: &[u8]) -> Result<Shared, Error> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(value.len())?;
    copy.extend_from_slice(value);
    Ok(Arc::new(copy))
}

/// Makes a shared buffer the only owner's, with room for `len` bytes.
fn own(shared: &mut Shared, len: usize) -> Result<&mut Vec<u8>, Error> {
    if Arc::get_mut(shared).is_none() {
        // A reply that is being sent holds it: leave that its bytes.
        let mut copy = Vec::new();
        copy.try_reserve_exact(len.max(shared.len()))?;
        copy.extend_from_slice(shared);
        *shared = Arc::new(copy);
    }
    Arc::get_mut(shared).ok_or(Error::OutOfMemory)
}

/// Grows with zeros; the capacity grows by a quarter, so that appending is amortised and little is wasted.
fn grow(value: &mut Vec<u8>, len: usize) -> Result<(), Error> {
    if len > value.capacity() {
        let slack = (value.len() / 4).min(1 << 20);
        if value.try_reserve_exact(len + slack - value.len()).is_err() {
            value.try_reserve_exact(len - value.len())?;
        }
    }
    value.resize(len, 0);
    Ok(())
}
