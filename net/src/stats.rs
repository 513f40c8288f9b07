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
    /// Connections that the service wanted and got.
    pub dialed: u64,
    /// Connections that the service wanted and did not get.
    pub dial_failed: u64,
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

    /// Every counter under the name that INFO gives it.
    pub fn named(&self) -> [(&'static str, u64); 19 + MALFORMED_KINDS] {
        [
            ("tcp_accepted", self.accepted),
            ("tcp_dialed", self.dialed),
            ("tcp_dial_failed", self.dial_failed),
            ("tcp_refused", self.refused),
            ("tcp_closed", self.closed),
            ("tcp_broken", self.broken),
            ("tcp_syns", self.syns),
            ("tcp_half_open_evicted", self.half_open_evicted),
            ("tcp_half_open_expired", self.half_open_expired),
            ("tcp_time_wait_reused", self.time_wait_reused),
            ("tcp_retransmits", self.retransmits),
            ("tcp_resets_sent", self.resets_sent),
            ("tcp_resets_suppressed", self.resets_suppressed),
            ("tcp_challenges", self.challenges),
            ("tcp_buffers_grown", self.buffers_grown),
            ("tcp_buffers_shrunk", self.buffers_shrunk),
            ("tx_ring_full", self.ring_full),
            ("tx_frames_lost", self.frames_lost),
            ("rx_dropped", self.malformed_total()),
            ("rx_dropped_truncated", self.malformed(Malformed::Truncated)),
            ("rx_dropped_ethertype", self.malformed(Malformed::EtherType)),
            ("rx_dropped_other_station", self.malformed(Malformed::OtherStation)),
            ("rx_dropped_ip_header", self.malformed(Malformed::IpHeader)),
            ("rx_dropped_ip_checksum", self.malformed(Malformed::IpChecksum)),
            ("rx_dropped_fragment", self.malformed(Malformed::Fragment)),
            ("rx_dropped_address", self.malformed(Malformed::Address)),
            ("rx_dropped_tcp_header", self.malformed(Malformed::TcpHeader)),
            ("rx_dropped_tcp_checksum", self.malformed(Malformed::TcpChecksum)),
            ("rx_dropped_protocol", self.malformed(Malformed::Protocol)),
        ]
    }

    pub(crate) fn count_malformed(&mut self, why: Malformed) {
        self.malformed[why as usize] += 1;
    }
}
