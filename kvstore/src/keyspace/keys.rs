//! One database as a command sees it.

use super::{Db, Effect, Event, Followup, Keyspace, event};
use crate::error::Error;
use crate::session::args::OwnedArgs;
use crate::table::Pos;
use crate::types::hash::{HashMut, HashRef};
use crate::types::list::List;
use crate::types::set::{SetMut, SetRef};
use crate::types::stream::Stream;
use crate::types::zset::{ZSetMut, ZSetRef};
use crate::value::{Item, ItemExt, Object, Type, boxed};
use alloc::boxed::Box;
use barium_cell::{OutOfMemory, Record, View, ViewMut};

/// See the [module](self). All lookups treat a key whose time has come as absent, and remove it.
#[derive(Debug)]
pub struct Keys<'a> {
    /// The whole keyspace.
    pub space: &'a mut Keyspace,
    /// Number of the database, below the number of databases.
    pub db: usize,
    /// Whether lookups move the keys' access clocks on (not with CLIENT NO-TOUCH).
    pub touch: bool,
    /// The keys that were touched last: that a command looks at them again does not count as another use.
    pub(super) used: [Option<Pos>; 2],
    /// Whether a value was put over another just now: clients wait for keys that appear, and for streams.
    overwrote: bool,
}

/// The accessors of a type whose values are objects.
macro_rules! objects {
    ($variant:ident, $type:ty, $read:ident, $write:ident, $create:ident) => {
        #[doc = concat!("The ", stringify!($variant), " at a key, for reading. Errs if the key holds another type.")]
        pub fn $read(&mut self, key: &[u8]) -> Result<Option<&$type>, Error> {
            match self.read(key).map(Item::view) {
                None => Ok(None),
                Some(View::Object(Object::$variant(v))) => Ok(Some(v)),
                Some(_) => Err(Error::WrongType),
            }
        }

        #[doc = concat!("The ", stringify!($variant), " at a key, to be changed. Errs if the key holds another type.")]
        pub fn $write(&mut self, key: &[u8]) -> Result<Option<&mut $type>, Error> {
            match self.write(key).map(Item::view_mut) {
                None => Ok(None),
                Some(ViewMut::Object(Object::$variant(v))) => Ok(Some(v)),
                Some(_) => Err(Error::WrongType),
            }
        }

        #[doc = concat!("The ", stringify!($variant), " at a key, put there by `new` if there is no such key. Errs if the key holds another type.")]
        pub fn $create(&mut self, key: &[u8], new: impl FnOnce() -> $type) -> Result<&mut $type, Error> {
            let pos = match self.find_for_use(key) {
                Some(pos) => pos,
                None => self.add_object(key, Object::$variant(new()))?,
            };
            match self.db_mut().table.at_mut(pos).map(Item::view_mut) {
                Some(ViewMut::Object(Object::$variant(v))) => Ok(v),
                _ => Err(Error::WrongType),
            }
        }
    };
}

/// The accessors of a type whose small values lie in the record.
macro_rules! views {
    ($what:literal, $view:ident, $edit:ident, $read:ident, $write:ident, $create:ident) => {
        #[doc = concat!("The ", $what, " at a key, for reading. Errs if the key holds another type.")]
        pub fn $read(&mut self, key: &[u8]) -> Result<Option<$view<'_>>, Error> {
            match self.read(key) {
                None => Ok(None),
                Some(item) => $view::of(item).map(Some).ok_or(Error::WrongType),
            }
        }

        #[doc = concat!("The ", $what, " at a key, to be changed. Errs if the key holds another type.")]
        pub fn $write(&mut self, key: &[u8]) -> Result<Option<$edit<'_>>, Error> {
            match self.write(key) {
                None => Ok(None),
                Some(item) => $edit::of(item).map(Some).ok_or(Error::WrongType),
            }
        }

        #[doc = concat!("The ", $what, " at a key, made by `new` if there is no such key. Errs if the key holds another type.")]
        pub fn $create(
            &mut self,
            key: &[u8],
            new: impl FnOnce(&[u8]) -> Result<Item, OutOfMemory>,
        ) -> Result<$edit<'_>, Error> {
            let pos = match self.find_for_use(key) {
                Some(pos) => pos,
                None => self.add(new(key)?)?,
            };
            self.at_mut(pos).and_then($edit::of).ok_or(Error::WrongType)
        }
    };
}

/// What [`Keys::read_bytes`] finds.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// These bytes; a hit is counted.
    Bytes(&'a [u8]),
    /// There is no such key; a miss is counted.
    Nothing,
    /// Something else; nothing was done.
    Other,
}

impl<'a> Keys<'a> {
    /// A database of a keyspace.
    pub const fn new(space: &'a mut Keyspace, db: usize) -> Self {
        Self { space, db, touch: true, used: [None; 2], overwrote: false }
    }

    objects!(List, List, list, list_mut, list_or_new);
    objects!(Stream, Box<Stream>, stream, stream_mut, stream_or_new);
    views!("set", SetRef, SetMut, set, set_mut, set_or_new);
    views!("sorted set", ZSetRef, ZSetMut, zset, zset_mut, zset_or_new);
    views!("hash", HashRef, HashMut, hash, hash_mut, hash_or_new);

    /// The same for a shorter time.
    pub const fn reborrow(&mut self) -> Keys<'_> {
        Keys { space: self.space, db: self.db, touch: self.touch, used: [None; 2], overwrote: false }
    }

    /// Another database.
    pub const fn in_db(&mut self, db: usize) -> Keys<'_> {
        Keys { space: self.space, db, touch: self.touch, used: [None; 2], overwrote: false }
    }

    /// The database.
    #[inline]
    pub fn db(&self) -> &Db {
        &self.space.dbs[self.db]
    }

    /// The database, to be changed.
    #[inline]
    pub fn db_mut(&mut self) -> &mut Db {
        &mut self.space.dbs[self.db]
    }

    /// Present Unix time, in ms.
    pub const fn now_ms(&self) -> i64 {
        self.space.now_ms
    }

    /// Finds a key, without counting or touching it.
    #[inline]
    pub fn find(&mut self, key: &[u8]) -> Option<Pos> {
        let pos = self.db().table.find(key)?;
        self.unless_expired(pos, key)
    }

    /// Removes the key at `pos` if its time has come. One that has to stay all the same counts as absent.
    #[inline]
    fn unless_expired(&mut self, pos: Pos, key: &[u8]) -> Option<Pos> {
        if let Some(at) = self.db().table.at(pos)?.deadline()
            && at < self.space.now_ms
        {
            self.expire(key);
            return None;
        }
        Some(pos)
    }

    /// Looks at a key, without counting or touching it.
    pub fn peek(&mut self, key: &[u8]) -> Option<&Item> {
        let pos = self.find(key)?;
        self.db().table.at(pos)
    }

    /// Whether there is such a key.
    pub fn exists(&mut self, key: &[u8]) -> bool {
        self.find(key).is_some()
    }

    /// Like [`read`](Self::read), for a key that is there and has no deadline. None says nothing, and did nothing.
    #[inline(always)]
    pub fn read_lasting(&mut self, key: &[u8]) -> Option<&Item> {
        let Keyspace { dbs, access, stats, .. } = &mut *self.space;
        let item = dbs.get_mut(self.db)?.table.get_to_mark(key)?;
        if !access.touch_lasting(item, self.touch) {
            return None;
        }
        stats.hits += 1;
        Some(item)
    }

    /// Reads a string whose bytes lie in its record and which has no deadline, or finds that there is no such key.
    #[inline(always)]
    pub fn read_bytes(&mut self, key: &[u8]) -> Found<'_> {
        let Keyspace { dbs, access, stats, notify_mask, .. } = &mut *self.space;
        let Some(db) = dbs.get_mut(self.db) else { return Found::Other };
        let Some(item) = db.table.get_to_mark(key) else {
            if *notify_mask & event::KEY_MISS != 0 {
                return Found::Other;
            }
            stats.misses += 1;
            return Found::Nothing;
        };
        if !item.holds_bytes() || !access.touch_lasting(item, self.touch) {
            return Found::Other;
        }
        stats.hits += 1;
        match item.view() {
            View::Bytes(bytes) => Found::Bytes(bytes),
            _ => Found::Other,
        }
    }

    /// Looks a key up for reading: counts a hit or a miss and moves the access clock.
    pub fn read(&mut self, key: &[u8]) -> Option<&Item> {
        let Some(pos) = self.find(key) else {
            self.space.stats.misses += 1;
            self.notify(event::KEY_MISS, "keymiss", key);
            return None;
        };
        self.space.stats.hits += 1;
        self.touch_at(pos);
        self.db().table.at(pos)
    }

    /// Looks a key up for reading, without moving its access clock.
    pub fn read_untouched(&mut self, key: &[u8]) -> Option<&Item> {
        let touch = core::mem::replace(&mut self.touch, false);
        let found = self.read(key).is_some();
        self.touch = touch;
        if found { self.peek(key) } else { None }
    }

    /// Looks at a key and counts a hit or a miss, without moving its access clock or telling anybody that it is missing.
    pub fn inspect(&mut self, key: &[u8]) -> Option<&Item> {
        let found = self.find(key);
        match found {
            Some(_) => self.space.stats.hits += 1,
            None => self.space.stats.misses += 1,
        }
        self.db().table.at(found?)
    }

    /// Finds a key and moves its access clock, without counting a hit or a miss: what a write does first.
    #[inline]
    pub fn find_for_use(&mut self, key: &[u8]) -> Option<Pos> {
        let pos = self.db().table.find(key)?;
        if self.db().table.at(pos)?.is_fresh(self.space.access.fresh()) {
            return Some(pos);
        }
        let pos = self.unless_expired(pos, key)?;
        self.touch_at(pos);
        Some(pos)
    }

    fn touch_at(&mut self, pos: Pos) {
        if !self.touch || self.used.contains(&Some(pos)) {
            return;
        }
        self.used = [Some(pos), self.used[0]];
        let Some(old) = self.db().table.at(pos).map(Item::clock) else { return };
        let new = self.space.access.touched(old);
        if new != old {
            self.set_clock_at(pos, new);
        }
    }

    /// Has the next look at a key count as another use: the command does what two commands do.
    pub const fn use_again(&mut self) {
        self.used = [None; 2];
    }

    /// Sets the access clock of the key at a position that a lookup gave.
    pub fn set_clock_at(&mut self, pos: Pos, bits: u32) {
        if let Some(item) = self.db_mut().table.at_mut(pos) {
            item.set_clock(bits);
        }
    }

    /// Looks a key up to change its value. The caller says [`modified`](Self::modified) when it has.
    #[inline]
    pub fn write(&mut self, key: &[u8]) -> Option<&mut Item> {
        let pos = self.find_for_use(key)?;
        self.db_mut().table.at_mut(pos)
    }

    /// The item at a position that a lookup gave.
    pub fn at_mut(&mut self, pos: Pos) -> Option<&mut Item> {
        self.db_mut().table.at_mut(pos)
    }

    /// Adds an item under a key that is not there.
    pub fn add(&mut self, mut item: Item) -> Result<Pos, Error> {
        item.set_clock(self.space.access.initial());
        let deadline = item.deadline();
        let pos = self.db_mut().table.insert(item).map_err(|_| Error::OutOfMemory)?;
        if let Some(at) = deadline {
            self.db_mut().deadlines += i128::from(at);
            self.note_deadline(at);
        }
        if self.space.notify_mask & event::NEW != 0
            && let Some(key) = self.db().table.at(pos).map(|i| alloc::boxed::Box::<[u8]>::from(i.key()))
        {
            self.notify(event::NEW, "new", &key);
        }
        Ok(pos)
    }

    /// Adds an object under a key that is not there.
    pub fn add_object(&mut self, key: &[u8], object: Object) -> Result<Pos, Error> {
        let tag = object.type_of() as u8;
        self.add(Record::with_object(key, tag, boxed(object))?)
    }

    /// Puts an item at a key, whatever was there; what it was called before is forgotten, a deadline cleared. Says nothing to
    /// anybody.
    pub fn put(&mut self, key: &[u8], item: Item) -> Result<(), Error> {
        let mut item = item.rename(key).map_err(|(_, error)| error)?;
        let Some(pos) = self.find_for_use(key) else { return self.add(item).map(drop) };
        self.set_deadline_at(pos, None)?;
        if let Some(there) = self.at_mut(pos) {
            item.set_clock(there.clock());
            let old = core::mem::replace(there, item);
            self.overwrote = old.type_of() != Type::Stream;
            self.space.lazy.drop_item(old);
        }
        Ok(())
    }

    /// Takes a key out.
    pub fn take(&mut self, key: &[u8]) -> Option<Item> {
        let pos = self.find(key)?;
        self.take_at(pos)
    }

    pub(super) fn take_at(&mut self, pos: Pos) -> Option<Item> {
        let item = self.db_mut().table.remove_at(pos)?;
        self.forget_deadline(&item);
        Some(item)
    }

    /// Says that an item has left the table.
    pub(super) fn forget_deadline(&mut self, item: &Item) {
        if let Some(at) = item.deadline() {
            self.db_mut().deadlines -= i128::from(at);
        }
    }

    /// Removes a key; a large value is freed later. Returns whether there was one. Says nothing to anybody.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let Some(item) = self.take(key) else { return false };
        self.space.lazy.drop_item(item);
        true
    }

    /// Removes a key whose collection has become empty, with the event for it.
    pub fn remove_if_empty(&mut self, key: &[u8]) -> bool {
        let empty = self.peek(key).is_some_and(|item| item.elements() == 0);
        if empty && self.remove(key) {
            self.notify(event::GENERIC, "del", key);
        }
        empty
    }

    /// A key's deadline: None without such a key, Some(None) without a deadline.
    pub fn deadline(&mut self, key: &[u8]) -> Option<Option<i64>> {
        self.peek(key).map(Item::deadline)
    }

    /// Sets or clears a key's deadline (Unix time, in ms). Says nothing to anybody.
    pub fn set_deadline(&mut self, key: &[u8], deadline: Option<i64>) -> Result<(), Error> {
        match self.find(key) {
            Some(pos) => self.set_deadline_at(pos, deadline),
            None => Ok(()),
        }
    }

    /// Like [`set_deadline`](Self::set_deadline), at a position that a lookup gave.
    pub fn set_deadline_at(&mut self, pos: Pos, deadline: Option<i64>) -> Result<(), Error> {
        let d = self.db_mut();
        if deadline.is_some() {
            d.table.prepare_deadline()?;
        }
        let Some(item) = d.table.at_mut(pos) else { return Ok(()) };
        let old = item.deadline();
        if old.is_none() && deadline.is_none() {
            return Ok(());
        }
        item.set_deadline(deadline)?;
        d.table.deadline_changed(pos, old.is_some(), deadline);
        d.deadlines += i128::from(deadline.unwrap_or(0)) - i128::from(old.unwrap_or(0));
        if let Some(at) = deadline {
            self.note_deadline(at);
        }
        Ok(())
    }

    /// Says that a key's value (or its existence) was changed: counts it, breaks transactions that watch it, and wakes
    /// clients that wait for it.
    #[inline]
    pub fn modified(&mut self, key: &[u8]) {
        self.modified_by(key, 1);
    }

    /// The same for what counts as `changes`, one an element; 0 for the other key of a command that changes two.
    #[inline]
    pub fn modified_by(&mut self, key: &[u8], changes: usize) {
        self.space.dirty += changes as u64;
        if self.space.dbs[self.db].observed {
            self.tell_observers(key, true);
        }
    }

    /// The same for a key that the server removed by itself, which is no change that counts.
    pub(super) fn removed(&mut self, key: &[u8]) {
        if self.space.dbs[self.db].observed {
            self.tell_observers(key, false);
        }
    }

    #[cold]
    fn tell_observers(&mut self, key: &[u8], author: bool) {
        self.touch_watchers(key);
        self.invalidate(key, author);
        if !core::mem::take(&mut self.overwrote) {
            self.wake(key);
        }
    }

    /// Breaks transactions that watch a key.
    fn touch_watchers(&mut self, key: &[u8]) {
        if let Some(watchers) = self.space.dbs[self.db].watched.get(key) {
            self.space.touched.extend(watchers);
        }
    }

    /// Counts a change that neither breaks WATCHes nor wakes clients: what a consumer group does with its own state.
    pub fn changed(&mut self) {
        self.space.dirty += 1;
    }

    /// Has the clients that wait for a key looked after when the command has ended.
    pub(crate) fn wake(&mut self, key: &[u8]) {
        let db = self.db;
        if self.space.dbs[db].waiting.contains_key(key)
            && !self.space.ready.iter().any(|(d, k)| *d == db && **k == *key)
        {
            self.space.ready.push((db, key.into()));
        }
    }

    /// Publishes a keyspace event when the command has ended, if its class ([`event`]) is wanted.
    #[inline]
    pub fn notify(&mut self, class: u32, name: &'static str, key: &[u8]) {
        if self.space.notify_mask & class != 0 && self.space.notify_mask & (event::KEYSPACE | event::KEYEVENT) != 0 {
            self.space.events.push(Followup::Event(Event { db: self.db, name, key: key.into() }));
        }
    }

    /// Whether nobody is to be told of changes of its keys.
    pub fn is_quiet(&self) -> bool {
        !self.db().observed && self.space.notify_mask == 0 && !self.space.effects_wanted
    }

    /// Describes the present command's effect by another command than the one that was given (SPOP's by SREM). Can be
    /// called more than once.
    pub fn effect(&mut self, args: &[&[u8]]) {
        self.space.effect_form = super::EffectForm::Replaced;
        self.logged(args);
    }

    /// Adds a change to the effects that is not the present command's: what the server does in between.
    pub fn logged(&mut self, args: &[&[u8]]) {
        if self.space.effects_wanted {
            self.space.effects.push(Effect { db: self.db, args: OwnedArgs::from_slices(args) });
        }
    }
}
