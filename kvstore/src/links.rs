//! Connections that the engine opens to other servers: MIGRATE's today, a replica's to its master later.
//!
//! Whoever in the engine wants one asks [`Links::open`] and has a name for it at once. The platform takes the request, opens
//! the connection and says what comes in ([`Server`](crate::server::Server)'s `link_*`); the owner reads and writes in its own
//! time, in bounded steps, and ends with [`Links::close`]. Nothing here waits, and nothing here knows what the bytes mean.

use crate::session::output::Output;
use crate::session::{Endpoint, Fate};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A link as platforms and its owner name it: a slot and how often it was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkId {
    /// Position in the table of links.
    pub slot: u32,
    /// How often the slot was used before.
    pub generation: u32,
}

/// A connection that the platform is to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRequest {
    /// The link.
    pub id: LinkId,
    /// Whom to call.
    pub to: Endpoint,
    /// When to give up, in us from now.
    pub timeout_us: u64,
}

/// Why a link was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// The peer said no, or did not answer in time.
    Refused,
    /// There is no way to it, or no room for another connection.
    Unreachable,
}

/// Where a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// The platform has not been asked yet.
    Wanted,
    /// The platform is opening it.
    Dialing,
    /// It is open.
    Open,
    /// It was not opened.
    Failed(LinkError),
    /// It is gone, or the peer has finished sending. What came before can still be read.
    Ended,
}

/// Most input that is kept for the owner; what comes beyond it stays with the platform, in bytes.
pub const INPUT_KEPT: usize = 64 * 1024;

/// A link.
#[derive(Debug)]
pub struct Link {
    to: Endpoint,
    timeout_us: u64,
    /// Where it is.
    pub state: LinkState,
    /// What is still to be sent.
    pub out: Output,
    /// What was received and not read.
    pub input: Vec<u8>,
    /// Bytes sent so far.
    pub sent: u64,
    fate: Fate,
    /// Whether the platform has a connection for it, or is opening one.
    held: bool,
    /// Whether nobody in the engine wants it any more.
    forsaken: bool,
    listed: bool,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    link: Option<Link>,
}

/// All links.
#[derive(Debug, Default)]
pub struct Links {
    slots: Vec<Slot>,
    wanted: VecDeque<LinkId>,
    ready: VecDeque<LinkId>,
}

impl Links {
    /// Asks for a connection.
    pub fn open(&mut self, to: Endpoint, timeout_us: u64) -> LinkId {
        let slot = self.slots.iter().position(|slot| slot.link.is_none()).unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(Slot::default());
        }
        let entry = &mut self.slots[slot];
        entry.link = Some(Link {
            to,
            timeout_us,
            state: LinkState::Wanted,
            out: Output::new(usize::MAX / 2),
            input: Vec::new(),
            sent: 0,
            fate: Fate::Open,
            held: false,
            forsaken: false,
            listed: false,
        });
        let id = LinkId { slot: slot as u32, generation: entry.generation };
        self.wanted.push_back(id);
        id
    }

    /// A link.
    pub fn get(&self, id: LinkId) -> Option<&Link> {
        let slot = self.slots.get(id.slot as usize)?;
        if slot.generation == id.generation { slot.link.as_ref() } else { None }
    }

    /// A link.
    pub fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation == id.generation { slot.link.as_mut() } else { None }
    }

    /// Has the platform look at a link: it has new output, a new fate, or room for input.
    pub fn list(&mut self, id: LinkId) {
        if let Some(link) = self.get_mut(id)
            && link.held
            && !core::mem::replace(&mut link.listed, true)
        {
            self.ready.push_back(id);
        }
    }

    /// The owner is done with a link: it is closed when its output is sent, or at once.
    pub fn close(&mut self, id: LinkId, fate: Fate) {
        let Some(link) = self.get_mut(id) else { return };
        link.forsaken = true;
        link.fate = fate;
        if link.held { self.list(id) } else { self.free(id) }
    }

    fn free(&mut self, id: LinkId) {
        if let Some(slot) = self.slots.get_mut(id.slot as usize)
            && slot.generation == id.generation
        {
            (slot.generation, slot.link) = (slot.generation.wrapping_add(1), None);
        }
    }

    /// Whether the platform is to open or look at one.
    pub fn is_idle(&self) -> bool {
        self.wanted.is_empty() && self.ready.is_empty()
    }

    /// Takes the next connection to be opened.
    pub fn next_wanted(&mut self) -> Option<LinkRequest> {
        while let Some(id) = self.wanted.pop_front() {
            if let Some(link) = self.get_mut(id) {
                link.state = LinkState::Dialing;
                link.held = true;
                return Some(LinkRequest { id, to: link.to, timeout_us: link.timeout_us });
            }
        }
        None
    }

    /// The next link that the platform should look at.
    pub fn next_ready(&mut self) -> Option<LinkId> {
        while let Some(id) = self.ready.pop_front() {
            if let Some(link) = self.get_mut(id) {
                link.listed = false;
                return Some(id);
            }
        }
        None
    }

    /// A link is open. False: it is no longer wanted, and forgotten.
    pub fn opened(&mut self, id: LinkId) -> bool {
        let Some(link) = self.get_mut(id) else { return false };
        if link.forsaken {
            self.free(id);
            return false;
        }
        link.state = LinkState::Open;
        true
    }

    /// A link could not be opened.
    pub fn failed(&mut self, id: LinkId, why: LinkError) {
        self.let_go(id, LinkState::Failed(why));
    }

    /// A link's connection is gone.
    pub fn closed(&mut self, id: LinkId) {
        self.let_go(id, LinkState::Ended);
    }

    /// The platform has nothing to do with a link any more.
    fn let_go(&mut self, id: LinkId, state: LinkState) {
        let Some(link) = self.get_mut(id) else { return };
        (link.state, link.held) = (state, false);
        if link.forsaken {
            self.free(id);
        }
    }

    /// The peer has finished sending.
    pub fn finished(&mut self, id: LinkId) {
        if let Some(link) = self.get_mut(id) {
            link.state = LinkState::Ended;
        }
    }

    /// Bytes came in; returns how many were taken.
    pub fn received(&mut self, id: LinkId, bytes: &[u8]) -> usize {
        let Some(link) = self.get_mut(id).filter(|link| !link.forsaken) else { return bytes.len() };
        let n = INPUT_KEPT.saturating_sub(link.input.len()).min(bytes.len());
        if link.input.try_reserve(n).is_err() {
            return 0;
        }
        link.input.extend_from_slice(&bytes[..n]);
        n
    }

    /// The first `n` bytes of the output were sent.
    pub fn sent(&mut self, id: LinkId, n: usize) {
        if let Some(link) = self.get_mut(id) {
            link.out.advance(n);
            link.sent += n as u64;
        }
    }

    /// What is to become of a link's connection.
    pub fn fate(&self, id: LinkId) -> Fate {
        self.get(id).map_or(Fate::Abort, |link| link.fate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: Endpoint = Endpoint { addr: [10, 0, 0, 2], port: 6379 };

    #[test]
    fn a_link_lives_as_long_as_either_side_holds_it() {
        let mut links = Links::default();
        let a = links.open(TO, 5);
        assert_eq!(links.next_wanted(), Some(LinkRequest { id: a, to: TO, timeout_us: 5 }));
        assert!(links.next_wanted().is_none());
        assert!(links.opened(a));
        links.list(a);
        links.list(a);
        assert_eq!((links.next_ready(), links.next_ready()), (Some(a), None));
        links.close(a, Fate::CloseAfterOutput);
        assert_eq!(links.next_ready(), Some(a));
        assert_eq!((links.fate(a), links.received(a, b"late")), (Fate::CloseAfterOutput, 4));
        links.closed(a);
        assert!(links.get(a).is_none());
        let b = links.open(TO, 5);
        assert_eq!((b.slot, links.get(a).is_none(), links.fate(a)), (a.slot, true, Fate::Abort));
        links.next_wanted();
        links.failed(b, LinkError::Refused);
        assert_eq!(links.get(b).unwrap().state, LinkState::Failed(LinkError::Refused));
        links.close(b, Fate::Abort);
        assert!(links.get(b).is_none() && links.is_idle());
    }

    #[test]
    fn one_that_is_not_wanted_any_more_is_not_opened() {
        let mut links = Links::default();
        let a = links.open(TO, 5);
        links.close(a, Fate::Abort);
        assert!(links.next_wanted().is_none() && links.get(a).is_none());
        let b = links.open(TO, 5);
        links.next_wanted();
        links.close(b, Fate::Abort);
        assert!(links.get(b).is_some(), "the platform is still opening it");
        assert!(!links.opened(b) && links.get(b).is_none());
    }

    #[test]
    fn input_is_bounded() {
        let mut links = Links::default();
        let a = links.open(TO, 5);
        links.next_wanted();
        links.opened(a);
        assert_eq!(links.received(a, &[0; INPUT_KEPT - 1]), INPUT_KEPT - 1);
        assert_eq!(links.received(a, &[0; 10]), 1);
        links.closed(a);
        assert_eq!(links.get(a).unwrap().input.len(), INPUT_KEPT);
    }
}
