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

    /// Bytes arrived, in order, contiguous; the slice lies in the receive ring and is valid for this call only. Returns
    /// how many were taken. Those not taken are offered again after the next [`next_ready`](Service::next_ready) that
    /// names the connection or with the next arrival, and fill the receive window meanwhile (back-pressure). All frames of
    /// a turn are processed before the first call, so a pipeline comes in as few pieces as possible.
    fn received(&mut self, conn: ConnId, bytes: &[u8]) -> usize;

    /// The peer has sent FIN and everything before it has been received.
    fn peer_finished(&mut self, conn: ConnId);

    /// The next contiguous piece of output, empty when there is none. Bytes stay the service's until
    /// [`sent`](Service::sent).
    fn output(&mut self, conn: ConnId) -> &[u8];

    /// The first `n` bytes of [`output`](Service::output) were copied into the send window.
    fn sent(&mut self, conn: ConnId, n: usize);

    /// What should become of the connection.
    fn fate(&self, conn: ConnId) -> Fate;

    /// The connection is gone, whoever ended it. The service forgets `conn`; also called after `Abort`.
    fn closed(&mut self, conn: ConnId);

    /// Takes the next connection, other than the one just served, that has new output, a new fate or wants untaken
    /// input offered again.
    fn next_ready(&mut self) -> Option<ConnId>;
}
