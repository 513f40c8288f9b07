//! Counters of a stack, for INFO and for tests.

/// Why a received frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its headers say.
    Truncated,
    /// Not IPv4 or ARP.
    EtherType,
    /// The link address is another station's.
    OtherStation,
    /// IP version, header length or options that are not taken.
    IpHeader,
    /// IP header checksum.
    IpChecksum,
    /// A fragment: nothing the stack serves sends any.
    Fragment,
    /// The destination is another host's address, or a source that no answer can go to.
    Address,
    /// TCP header length or flags.
    TcpHeader,
    /// TCP checksum.
    TcpChecksum,
    /// A protocol that nothing here handles.
    Protocol,
}

/// Number of kinds in [`Malformed`].
const MALFORMED_KINDS: usize = 10;

/// What a stack has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames received.
    pub frames_in: u64,
    /// Frames sent.
    pub frames_out: u64,
    /// Connections whose handshake completed and that the service took.
    pub accepted: u64,
    /// Connections whose handshake completed but that were reset: too many, or the service said no.
    pub refused: u64,
    /// Connections that ended, for whatever reason.
    pub closed: u64,
    /// Connections reset by the peer or given up because it was silent.
    pub broken: u64,
    /// SYNs that found a free or recycled place among the half-open.
    pub syns: u64,
    /// Half-open connections that gave way to a newer one.
    pub half_open_evicted: u64,
    /// Half-open connections whose peer never answered.
    pub half_open_expired: u64,
    /// SYNs that replaced a connection in TIME-WAIT.
    pub time_wait_reused: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// RST segments sent for segments that belong to no connection.
    pub resets_sent: u64,
    /// Such segments that went unanswered because of the rate limit.
    pub resets_suppressed: u64,
    /// SYN and inexact RST segments for an open connection that were answered with a challenge (RFC 5961).
    pub challenges: u64,
    /// Times a connection's buffers were replaced by larger ones.
    pub buffers_grown: u64,
    /// Times a connection's buffers were replaced by smaller ones.
    pub buffers_shrunk: u64,
    /// Times a send ring was found full. Nothing is lost by it.
    pub ring_full: u64,
    /// Frames lost because the send ring was full: only such whose loss a protocol makes up for.
    pub frames_lost: u64,
    malformed: [u64; MALFORMED_KINDS],
}

impl Stats {
    /// Frames dropped for the reason `why`.
    pub fn malformed(&self, why: Malformed) -> u64 {
        self.malformed[why as usize]
    }

    /// Frames dropped for any reason.
    pub fn malformed_total(&self) -> u64 {
        self.malformed.iter().sum()
    }

    pub(crate) fn count_malformed(&mut self, why: Malformed) {
        self.malformed[why as usize] += 1;
    }
}
