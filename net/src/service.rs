//! The byte-stream service that sits on top of the stack: the stack knows nothing of what the bytes mean.

/// A connection of the stack: the slot in its table and the slot's generation, so that a stale name is never mistaken
/// for the connection that took the slot later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    /// Position in the connection table.
    pub slot: u32,
    /// How often the slot was used before.
    pub generation: u32,
}

/// An IPv4 address and a TCP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Address, in network order.
    pub addr: [u8; 4],
    /// Port.
    pub port: u16,
}

/// A connection that the service wants to a server elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dial {
    /// The service's own name for it, by which it is told what came of it.
    pub ticket: u32,
    /// Whom to call.
    pub to: Endpoint,
    /// When to give up, in us from now.
    pub timeout_us: u64,
}

/// Why a connection that the service wanted did not come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialError {
    /// The peer, or a router on the way, says no.
    Refused,
    /// There is no way to such an address: the station's own, one that is nobody's, or beyond a gateway that is not set.
    Unreachable,
    /// Nobody answered in time.
    TimedOut,
    /// The station has no address, or has just lost the one it called from.
    NoAddress,
    /// Too many at once: of those under way, of connections, or of ports in use.
    TooMany,
    /// There is no memory for it.
    OutOfMemory,
}

/// What the service wants to become of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// Stay open.
    #[default]
    Open,
    /// Send what is queued, then FIN; input is no longer read. Once all output is in the send buffer the stack calls
    /// [`closed`](Service::closed) and sees to the rest of the farewell alone.
    CloseAfterOutput,
    /// Reset at once; queued output is dropped.
    Abort,
}

/// The consumer of the stack's TCP connections.
///
/// The stack calls it from its turn; the service never calls the stack. Output that arises for a connection other than
/// the one being served (a push, an unblocked wait) is announced through [`next_ready`](Service::next_ready).
pub trait Service {
    /// A connection is established. Returns false to refuse it (it is reset).
    fn opened(&mut self, conn: ConnId, peer: Endpoint, local: Endpoint) -> bool;

    /// Bytes arrived, in order, contiguous; the slice lies in the receive ring (what wraps around its end, if it is not much, in
    /// a copy) and is valid for this call only. Returns how many were taken. Those not taken are offered again after the next [`next_ready`](Service::next_ready) that
    /// names the connection or with the next arrival, and fill the receive window meanwhile (back-pressure). All frames of
    /// a turn are processed before the first call, so a pipeline comes in as few pieces as possible.
    fn received(&mut self, conn: ConnId, bytes: &[u8]) -> usize;

    /// The peer has sent FIN and everything before it has been received.
    fn peer_finished(&mut self, conn: ConnId);

    /// The next contiguous piece of output, empty when there is none. Bytes stay the service's until
    /// [`sent`](Service::sent).
    fn output(&mut self, conn: ConnId) -> &[u8];

    /// The first `n` bytes of [`output`](Service::output) were copied into the send window. `None`: there is more; else
    /// what should become of the connection, as [`fate`](Service::fate) says.
    fn sent(&mut self, conn: ConnId, n: usize) -> Option<Fate>;

    /// What should become of the connection.
    fn fate(&self, conn: ConnId) -> Fate;

    /// The connection is gone, whoever ended it. The service forgets `conn`; also called after `Abort`.
    fn closed(&mut self, conn: ConnId);

    /// Takes the next connection, other than the one just served, that has new output, a new fate or wants untaken
    /// input offered again.
    fn next_ready(&mut self) -> Option<ConnId>;

    /// Takes the next connection that the service wants to open. The stack answers each with one call of
    /// [`dialed`](Service::dialed) or [`dial_failed`](Service::dial_failed), in this turn or a later one.
    #[inline]
    fn next_dial(&mut self) -> Option<Dial> {
        None
    }

    /// Whether what `peer` sends to `local_port` comes to this stack. Where the flows of one NIC are dealt out to several
    /// stacks by a hash of their addresses, a connection that is opened here takes a port that makes it one of ours.
    /// The link address of the next hop is asked for by the dialling stack too, so that answers to ARP must reach it.
    #[inline]
    fn owns(&self, _peer: Endpoint, _local_port: u16) -> bool {
        true
    }

    /// The connection asked for under `ticket` is there; from now on it is like any other. Returns false if it is no longer
    /// wanted (it is reset).
    fn dialed(&mut self, _ticket: u32, _conn: ConnId, _local: Endpoint) -> bool {
        false
    }

    /// The connection asked for under `ticket` did not come about.
    fn dial_failed(&mut self, _ticket: u32, _why: DialError) {}
}
