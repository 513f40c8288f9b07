//! The border between a network driver and the stack: Ethernet frames in, Ethernet frames out.
//!
//! Shared by `barium-kernel` (whose drivers implement [`Nic`]) and `barium-net` (which drives it); it knows neither.
#![cfg_attr(not(any(test, feature = "fake")), no_std)]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "fake"))]
pub mod fake;

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

    /// Whether the device completes the checksums of frames sent by [`transmit_tcp`](Nic::transmit_tcp); fixed once the
    /// device is up.
    fn completes_checksums(&self) -> bool {
        false
    }

    /// Whether the device or its backend vouches for a received frame's TCP or UDP checksum. The field itself need not be
    /// right then: a frame that never was on a wire has none.
    fn is_verified(&self, _frame: &Self::Frame) -> bool {
        false
    }

    /// The next received frame, or `None` when the ring holds no more.
    fn receive(&mut self) -> Option<Self::Frame>;

    /// Gives a frame's buffer back to the receive ring.
    fn recycle(&mut self, frame: Self::Frame);

    /// Queues one frame of `len` bytes (Ethernet header included, FCS not), which `fill` writes into the buffer of
    /// exactly `len` bytes. Every byte must be written: the buffer holds old data. Returns `None` without calling
    /// `fill` when the ring is full or `len` exceeds the device's frame size.
    fn transmit<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R>;

    /// Like [`transmit`](Nic::transmit), for an IPv4 packet without options that carries TCP. Where the device
    /// [completes checksums](Nic::completes_checksums), the field of TCP's holds the sum of the pseudo-header, not
    /// complemented.
    fn transmit_tcp<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        self.transmit(len, fill)
    }

    /// Largest frame, headers included, that the device cuts into segments (TCP over IPv4); 0 where it cuts none. Such a
    /// device [completes checksums](Nic::completes_checksums) too.
    fn max_large(&self) -> usize {
        0
    }

    /// A buffer of [`max_large`](Nic::max_large) bytes, in which a large frame is composed; it holds old data. It stays the
    /// same, with what was written into it, until [`transmit_large`](Nic::transmit_large) takes it. `None` while all are
    /// on their way.
    fn large(&mut self) -> Option<&mut [u8]> {
        None
    }

    /// Queues the first `len` bytes of [`large`](Nic::large): a frame as for [`transmit_tcp`](Nic::transmit_tcp) that begins
    /// with `headers` bytes of headers and whose payload the device cuts into segments of `mss` bytes, each with those
    /// headers and checksums of its own. Lengths in the headers, and the sum of the pseudo-header, are those of the whole.
    /// Returns false, having queued nothing, where there is no such buffer or the lengths make no sense.
    fn transmit_large(&mut self, _len: usize, _headers: usize, _mss: usize) -> bool {
        false
    }

    /// Whether [`transmit`](Nic::transmit) of a full-size frame would be accepted now.
    fn can_transmit(&mut self) -> bool;

    /// Tells the device what was queued and refilled since the last call: at most one notification per ring.
    fn flush(&mut self);
}
