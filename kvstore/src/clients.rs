//! The table of sessions.

use crate::session::{Client, ClientId, Fate, Session};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

#[derive(Debug)]
struct Slot {
    generation: u32,
    /// None: free, or the session is being served just now.
    session: Option<Box<Session>>,
    used: bool,
}

/// All sessions. The one that is being served is taken out meanwhile.
#[derive(Debug, Default)]
pub struct Clients {
    slots: Vec<Slot>,
    free: Vec<u32>,
    len: usize,
    /// Sessions that the platform should look at, each once, by the home of their connection.
    ready: Vec<VecDeque<ClientId>>,
    /// The homes among them that have some.
    ready_homes: u64,
}

impl Clients {
    /// Number of sessions.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no sessions.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The name that the next session will have.
    pub fn reserve(&mut self) -> ClientId {
        match self.free.last() {
            Some(&slot) => ClientId { slot, generation: self.slots[slot as usize].generation },
            None => ClientId { slot: self.slots.len() as u32, generation: 0 },
        }
    }

    /// Adds a session under the name that [`reserve`](Self::reserve) gave last.
    pub fn insert(&mut self, session: Box<Session>) -> ClientId {
        self.len += 1;
        if let Some(slot) = self.free.pop() {
            let s = &mut self.slots[slot as usize];
            (s.session, s.used) = (Some(session), true);
            return ClientId { slot, generation: s.generation };
        }
        self.slots.push(Slot { generation: 0, session: Some(session), used: true });
        ClientId { slot: self.slots.len() as u32 - 1, generation: 0 }
    }

    /// Takes a session out to serve it.
    #[inline]
    pub fn take(&mut self, id: ClientId) -> Option<Box<Session>> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation == id.generation { slot.session.take() } else { None }
    }

    /// Puts a session back.
    #[inline]
    pub fn put_back(&mut self, session: Box<Session>) {
        let id = session.client.handle;
        if let Some(slot) = self.slots.get_mut(id.slot as usize) {
            slot.session = Some(session);
        }
    }

    /// Frees the slot of a session that was taken out.
    pub fn release(&mut self, id: ClientId) {
        if let Some(slot) = self.slots.get_mut(id.slot as usize)
            && slot.generation == id.generation
            && slot.used
        {
            slot.generation = slot.generation.wrapping_add(1);
            (slot.session, slot.used) = (None, false);
            self.free.push(id.slot);
            self.len -= 1;
        }
    }

    /// A session other than the one being served.
    #[inline]
    pub fn get(&self, id: ClientId) -> Option<&Session> {
        let slot = self.slots.get(id.slot as usize)?;
        if slot.generation == id.generation { slot.session.as_deref() } else { None }
    }

    /// A session other than the one being served.
    #[inline]
    pub fn get_mut(&mut self, id: ClientId) -> Option<&mut Session> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation == id.generation { slot.session.as_deref_mut() } else { None }
    }

    /// The same, unless its connection is being closed: to such a session nothing more is said.
    #[inline]
    pub fn reachable_mut(&mut self, id: ClientId) -> Option<&mut Session> {
        self.get_mut(id).filter(|s| s.client.fate == Fate::Open)
    }

    /// All sessions but the one being served and those that were killed.
    pub fn iter(&self) -> impl Iterator<Item = &Session> {
        self.slots.iter().filter_map(|s| s.session.as_deref()).filter(|s| !s.client.killed)
    }

    /// All sessions but the one being served.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.slots.iter_mut().filter_map(|s| s.session.as_deref_mut())
    }

    /// Names of all sessions but the one being served.
    pub fn ids(&self) -> Vec<ClientId> {
        self.iter().map(|s| s.client.handle).collect()
    }

    /// Has the platform look at a session: it has new output, a new fate, or wants input.
    pub fn list(&mut self, client: &mut Client) {
        if !client.listed {
            client.listed = true;
            self.push_ready(client.home, client.handle);
        }
    }

    fn push_ready(&mut self, home: u8, id: ClientId) {
        let home = usize::from(home);
        if self.ready.len() <= home {
            self.ready.resize_with(home + 1, VecDeque::new);
        }
        self.ready[home].push_back(id);
        self.ready_homes |= 1 << home;
    }

    /// The same for a session in the table.
    pub fn list_id(&mut self, id: ClientId) {
        if let Some(s) = self.get_mut(id)
            && !s.client.listed
        {
            s.client.listed = true;
            let home = s.client.home;
            self.push_ready(home, id);
        }
    }

    /// Closes a session in the table: at once, or when its output is sent.
    pub fn end(&mut self, id: ClientId, fate: Fate) {
        if let Some(s) = self.get_mut(id)
            && s.client.fate != Fate::Abort
        {
            s.client.fate = fate;
            self.list_id(id);
        }
    }

    /// The next session of a home that the platform should look at.
    #[inline]
    pub fn next_ready(&mut self, home: usize) -> Option<ClientId> {
        if self.ready_homes >> home & 1 == 0 {
            return None;
        }
        while let Some(id) = self.ready.get_mut(home)?.pop_front() {
            if let Some(s) = self.get_mut(id) {
                s.client.listed = false;
                return Some(id);
            }
        }
        self.ready_homes &= !(1 << home);
        None
    }

    /// The homes that have sessions which the platform should look at, a bit each.
    #[inline]
    pub fn ready_homes(&self) -> u64 {
        self.ready_homes
    }
}
