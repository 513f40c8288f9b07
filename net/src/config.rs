//! What a [`Stack`](crate::Stack) is told when it is made.

use alloc::vec::Vec;

/// Where the station's IPv4 address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressMode {
    /// A fixed address.
    Static {
        /// Address of this station.
        addr: [u8; 4],
        /// Length of the network prefix, 0 to 32.
        prefix_len: u8,
        /// Router for other networks. Answers go to the link address a peer's frames came from, so that it is only
        /// needed for traffic the station starts itself.
        gateway: Option<[u8; 4]>,
    },
    /// Ask a DHCP server and renew the lease (RFC 2131).
    Dhcp,
    /// Another stack of the same station finds out ([`Stack::tell_address`](crate::Stack::tell_address)). This one sees
    /// TCP only.
    Told,
}

/// Parameters of a stack. [`Config::new`] gives the defaults.
#[derive(Clone, Debug)]
pub struct Config {
    /// How the station gets its address.
    pub address: AddressMode,
    /// TCP ports that accept connections.
    pub listen_ports: Vec<u16>,
    /// Seed of the flow hash and the initial sequence numbers. Must be unpredictable to peers in production.
    pub seed: [u64; 2],
    /// Connections in all; a handshake that completes beyond them is reset.
    pub max_connections: usize,
    /// Handshakes under way; the oldest gives way to a new one.
    pub max_half_open: usize,
    /// Closed connections remembered in TIME-WAIT; the oldest gives way to a new one.
    pub max_time_wait: usize,
    /// Receive buffer of a new connection, in bytes: its first window.
    pub initial_receive_buffer: usize,
    /// Send buffer of a new connection, in bytes.
    pub initial_send_buffer: usize,
    /// Size to which the receive buffer of a busy connection grows, in bytes; at most 512 KiB.
    pub max_receive_buffer: usize,
    /// Size to which the send buffer of a busy connection grows, in bytes.
    pub max_send_buffer: usize,
    /// Bytes that all socket buffers together may take beyond the initial ones. Growth stops there.
    pub buffer_budget: usize,
    /// Silence after which a peer is probed, in microseconds; 0 switches probes off (Redis's `tcp-keepalive`).
    pub keep_alive_us: u64,
    /// Silence of a peer that owes an acknowledgement (of data, FIN or probe) after which it is given up, in microseconds.
    pub give_up_us: u64,
    /// How long an acknowledgement waits for data to travel with, in microseconds.
    pub ack_delay_us: u64,
    /// Frames taken from the receive ring in one turn.
    pub frames_per_turn: usize,
}

impl Config {
    /// The defaults, for a station at `address` that accepts connections at `port`.
    pub fn new(address: AddressMode, port: u16, seed: [u64; 2]) -> Self {
        Self {
            address,
            listen_ports: alloc::vec![port],
            seed,
            max_connections: 20_000,
            max_half_open: 2048,
            max_time_wait: 4096,
            initial_receive_buffer: 4096,
            initial_send_buffer: 2048,
            max_receive_buffer: 256 << 10,
            max_send_buffer: 256 << 10,
            buffer_budget: 16 << 20,
            keep_alive_us: 300_000_000,
            give_up_us: 60_000_000,
            ack_delay_us: 10_000,
            frames_per_turn: 256,
        }
    }
}
