//! Giving memory back in bounded steps: removed collections and flushed databases are queued and taken apart between the
//! turns of the event loop.

use super::tracking::Cached;
use crate::table::Table;
use crate::value::{Item, Object};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use barium_cell::View;

/// Values with more elements than this are freed later, not at once.
pub const LAZY_ELEMENTS: usize = 64;

#[derive(Debug)]
enum Garbage {
    Object(Box<Object>),
    Table(Table<Item>),
    Cached(Table<Cached>),
}

/// The queue of what is to be freed.
#[derive(Debug, Default)]
pub struct LazyFree {
    queue: VecDeque<Garbage>,
    /// Objects freed this way so far.
    pub freed: u64,
}

impl LazyFree {
    /// Whether nothing is to be freed.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Number of objects and databases in the queue.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Frees a removed item, at once or later.
    #[inline]
    pub fn drop_item(&mut self, item: Item) {
        if let View::Object(o) = item.view()
            && o.elements() > LAZY_ELEMENTS
            && let Some(object) = item.into_object()
        {
            self.push_object(object);
        }
    }

    /// Frees a value, at once or later.
    pub fn push_object(&mut self, object: Box<Object>) {
        if object.elements() > LAZY_ELEMENTS {
            self.queue.push_back(Garbage::Object(object));
        }
    }

    /// Frees a whole table later.
    pub fn push_table(&mut self, table: Table<Item>) {
        if !table.is_empty() {
            self.queue.push_back(Garbage::Table(table));
        }
    }

    /// Frees what was noted of keys that clients have read.
    pub fn push_cached(&mut self, table: Table<Cached>) {
        if !table.is_empty() {
            self.queue.push_back(Garbage::Cached(table));
        }
    }

    /// Frees about `n` elements; returns whether there is more.
    pub fn step(&mut self, n: usize) -> bool {
        let mut left = n;
        while left > 0 {
            match self.queue.front_mut() {
                None => return false,
                Some(Garbage::Object(object)) => {
                    if object.free_step(left) {
                        self.queue.pop_front();
                        self.freed += 1;
                        left = left.saturating_sub(LAZY_ELEMENTS);
                    } else {
                        return true;
                    }
                }
                Some(Garbage::Cached(table)) => match table.pop_any() {
                    None => drop(self.queue.pop_front()),
                    Some(_) => {
                        self.freed += 1;
                        left -= 1;
                    }
                },
                Some(Garbage::Table(table)) => match table.pop_any() {
                    None => drop(self.queue.pop_front()),
                    Some(item) => {
                        self.freed += 1;
                        left -= 1;
                        if let View::Object(o) = item.view() {
                            let elements = o.elements();
                            if elements > LAZY_ELEMENTS
                                && let Some(object) = item.into_object()
                            {
                                self.queue.push_front(Garbage::Object(object));
                            } else {
                                left = left.saturating_sub(elements);
                            }
                        }
                    }
                },
            }
        }
        !self.queue.is_empty()
    }
}
