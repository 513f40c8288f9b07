//! WATCH: keys whose change makes a session's transaction fail.

use super::{Keys, Keyspace};
use crate::session::Client;

impl Keys<'_> {
    /// Has a session watch a key. A key whose time has come already counts as absent: that it then goes is no change.
    pub fn watch(&mut self, client: &mut Client, key: &[u8]) {
        if client.watching.iter().any(|(db, watched)| *db == self.db && **watched == *key) {
            return;
        }
        self.find(key);
        self.db_mut().watched.entry(key.into()).or_default().push(client.handle);
        self.space.note_observers(self.db);
        client.watching.push((self.db, key.into()));
    }
}

impl Keyspace {
    /// Whether the time of one of a session's watched keys has come, though nobody has removed it yet.
    pub fn has_expired_watch(&self, client: &Client) -> bool {
        client.watching.iter().any(|(db, key)| {
            let item = self.dbs.get(*db).and_then(|db| db.table.get(key));
            item.and_then(|item| item.deadline()).is_some_and(|at| at < self.now_ms)
        })
    }

    /// Ends a session's WATCHes.
    pub fn unwatch(&mut self, client: &mut Client) {
        for (number, key) in core::mem::take(&mut client.watching) {
            let Some(db) = self.dbs.get_mut(number) else { continue };
            if let Some(watchers) = db.watched.get_mut(&key) {
                watchers.retain(|c| *c != client.handle);
                if watchers.is_empty() {
                    db.watched.remove(&key);
                    self.note_observers(number);
                }
            }
        }
        client.watch_broken = false;
    }
}
