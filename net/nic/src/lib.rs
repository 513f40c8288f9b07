//! The border between a network driver and the stack: Ethernet frames in, Ethernet frames out.
//!
//! Shared by `barium-kernel` (whose drivers implement [`Nic`]) and `barium-net` (which drives it); it knows neither.
#![cfg_attr(not(any(test, feature = "fake")), no_std)]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "fake"))]
pub mod fake;

/// What the device computes or checks so that software need not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Frames handed up have had their TCP/UDP checksum verified by the device or its backend.
    pub rx_checksum: bool,
    /// The device fills in the TCP/UDP checksum of frames sent.
    pub tx_checksum: bool,
}

/// One transmit and one receive ring of an Ethernet device.
///
/// The caller polls. Receiving and sending are batched: a driver makes completed receive buffers visible in
/// [`receive`](Nic::receive), returns them to the device in [`recycle`](Nic::recycle), and tells the device about
/// refilled and queued buffers once per batch, in [`flush`](Nic::flush).
pub trait Nic {
    /// A received frame, from its Ethernet header on, without FCS. It is owned: the driver's buffer is lent until
    /// [`recycle`](Nic::recycle).
    type Frame: core::ops::DerefMut<Target = [u8]>;

    /// The station address.
    fn mac(&self) -> [u8; 6];

    /// Largest IP packet, in bytes (1500 for plain Ethernet).
    fn mtu(&self) -> usize {
        1500
    }

    /// Whether the link is up.
    fn link_up(&self) -> bool {
        true
    }

    /// Offloads in force, fixed once the device is up.
    fn offload(&self) -> Offload {
        Offload::default()
    }

    /// The next received frame, or `None` when the ring holds no more.
    fn receive(&mut self) -> Option<Self::Frame>;

    /// Gives a frame's buffer back to the receive ring.
    fn recycle(&mut self, frame: Self::Frame);

    /// Queues one frame of `len` bytes (Ethernet header included, FCS not), which `fill` writes into the buffer of
    /// exactly `len` bytes. Every byte must be written: the buffer holds old data. Returns `None` without calling
    /// `fill` when the ring is full or `len` exceeds the device's frame size.
    fn transmit<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R>;

    /// Whether [`transmit`](Nic::transmit) of a full-size frame would be accepted now.
    fn can_transmit(&mut self) -> bool;

    /// Tells the device what was queued and refilled since the last call: at most one notification per ring.
    fn flush(&mut self);
}
