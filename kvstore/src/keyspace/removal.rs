//! What the server removes of its own accord.

use super::{Keys, event};
use crate::value::Item;

/// Why the server removed a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Its time had come.
    Expired,
    /// There was no memory left.
    Evicted,
}

impl Keys<'_> {
    /// Counts a key that the server took out of the table, tells everybody whom it concerns and frees the value.
    pub(super) fn removed_by_server(&mut self, item: Item, why: Why) {
        let (count, class, name) = match why {
            Why::Expired => (&mut self.space.stats.expired, event::EXPIRED, "expired"),
            Why::Evicted => (&mut self.space.stats.evicted, event::EVICTED, "evicted"),
        };
        *count += 1;
        let key = item.key();
        let command: &[u8] = if self.space.lazy_removal[why as usize] { b"UNLINK" } else { b"DEL" };
        self.logged(&[command, key]);
        // Redis's order, which a client sees that tracks keys and listens to events.
        match why {
            Why::Expired => {
                self.notify(class, name, key);
                self.removed(key);
            }
            Why::Evicted => {
                self.removed(key);
                self.notify(class, name, key);
            }
        }
        self.space.lazy.drop_item(item);
    }
}
