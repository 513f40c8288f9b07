//! The receive and the transmit ring: fixed buffers, batches, and what the device is told when.
//!
//! `VirtQueue::should_notify` reads what the device wants without a fence between that and the store of the new index,
//! which may lose the last doorbell; and its variant for event indices compares wrongly across a wrap and for batches. So the
//! rings do without event indices and put the fence here.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::Transport;
use virtio_drivers::{BufferDirection, Hal, PAGE_SIZE};

use crate::drivers::device_fence;

/// Descriptors of each ring, and its buffers.
pub const RING: usize = 256;

/// Bytes of `virtio_net_hdr` (5.1.6) in front of each frame.
const HEADER: usize = 12;

/// Fields of `virtio_net_hdr`: offsets and flags.
mod header {
    pub const FLAGS: usize = 0;
    pub const CSUM_START: usize = 6;
    pub const CSUM_OFFSET: usize = 8;
    /// To send: complete the checksum of what lies from `CSUM_START` on, at `CSUM_OFFSET` in it. Received: that was not done,
    /// for the frame never was on a wire.
    pub const NEEDS_CSUM: u8 = 1;
    /// Received: the checksum was found right.
    pub const DATA_VALID: u8 = 2;
}

/// Where TCP begins in a frame without IP options, and its checksum in it.
const TCP_AT: u16 = 34;
const TCP_CHECKSUM_AT: u16 = 16;

/// Largest frame without FCS: 1500 bytes of payload behind the Ethernet header.
pub const MAX_FRAME: usize = 1514;

/// Shortest frame that has an Ethernet header.
const MIN_FRAME: usize = 14;

/// Distance between buffers.
const STRIDE: usize = 2048;

/// Memory of the buffers of a receive and a transmit ring.
pub const PAIR_BYTES: usize = 2 * RING * STRIDE;

/// Where the virtio header begins in a buffer: so that the IP header behind Ethernet's lies at a multiple of 4.
const OFFSET: usize = 2;

const NO_SLOT: u16 = u16::MAX;

/// Rings a queue's doorbell.
pub struct Doorbell {
    register: NonNull<u16>,
    queue: u16,
    /// How often it was rung.
    pub rung: u64,
}

impl Doorbell {
    /// The doorbell of `queue`.
    ///
    /// # Safety
    /// `register` must be the queue's doorbell and stay mapped.
    pub unsafe fn new(register: NonNull<u16>, queue: u16) -> Self {
        Self { register, queue, rung: 0 }
    }

    fn ring(&mut self) {
        // SAFETY: `new`'s caller vouched for the register.
        unsafe { self.register.write_volatile(self.queue) };
        self.rung += 1;
    }
}

// SAFETY: the register may be written from any CPU; the queue's owner alone writes it.
unsafe impl Send for Doorbell {}

/// `RING` buffers in memory that the device may access.
struct Buffers {
    start: NonNull<u8>,
}

// SAFETY: the buffers belong to the ring, wherever it is driven.
unsafe impl Send for Buffers {}

impl Buffers {
    fn new<H: Hal>(direction: BufferDirection) -> Option<Self> {
        let (physical, start) = H::dma_alloc(RING * STRIDE / PAGE_SIZE, direction);
        (physical != 0).then_some(Self { start })
    }

    /// The virtio header and the frame of buffer `slot`, `len` bytes of frame.
    fn whole(&self, slot: u16, len: usize) -> NonNull<[u8]> {
        assert!(usize::from(slot) < RING && len <= MAX_FRAME);
        // SAFETY: the slot's buffer lies within the allocation, and header and frame within the buffer.
        let start = unsafe { self.start.add(usize::from(slot) * STRIDE + OFFSET) };
        NonNull::slice_from_raw_parts(start, HEADER + len)
    }

    /// The frame of buffer `slot`, `len` bytes.
    fn frame(&self, slot: u16, len: usize) -> NonNull<[u8]> {
        let whole = self.whole(slot, len).cast::<u8>();
        // SAFETY: the frame follows the header in the same buffer.
        NonNull::slice_from_raw_parts(unsafe { whole.add(HEADER) }, len)
    }
}

/// A received frame, which owns its buffer until it is recycled. One that is dropped instead is lost to the ring.
#[must_use = "a frame's buffer goes back to the ring by `recycle`"]
pub struct Frame {
    data: NonNull<[u8]>,
    slot: u16,
    /// The device vouches for the TCP or UDP checksum.
    pub verified: bool,
}

// SAFETY: the frame is the only user of its buffer.
unsafe impl Send for Frame {}

impl Deref for Frame {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the buffer is this frame's: the device gave it back, and the ring offers it again only after `recycle`.
        unsafe { self.data.as_ref() }
    }
}

impl DerefMut for Frame {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the frame is borrowed mutably.
        unsafe { self.data.as_mut() }
    }
}

/// Why a ring could not be set up.
pub type SetupError = virtio_drivers::Error;

/// A queue, the buffer behind each of its descriptors, and what has to be told to the device.
struct Ring<H: Hal> {
    queue: VirtQueue<H, RING>,
    buffers: Buffers,
    /// Buffer of each descriptor that the device has; [`NO_SLOT`] for the others.
    slot_of: [u16; RING],
    doorbell: Doorbell,
    /// Buffers were offered since the doorbell was last considered.
    offered: bool,
    /// The device named a buffer that it does not have: nothing it says can be relied on, the ring is closed.
    broken: bool,
}

impl<H: Hal> Ring<H> {
    fn new<T: Transport>(
        transport: &mut T,
        index: u16,
        doorbell: Doorbell,
        direction: BufferDirection,
    ) -> Result<Self, SetupError> {
        let mut queue = VirtQueue::new(transport, index, false, false)?;
        queue.set_dev_notify(false);
        let buffers = Buffers::new::<H>(direction).ok_or(SetupError::DmaError)?;
        Ok(Self { queue, buffers, slot_of: [NO_SLOT; RING], doorbell, offered: false, broken: false })
    }

    /// The next descriptor that the device is done with and its buffer.
    fn done(&mut self) -> Option<(u16, u16)> {
        if self.broken {
            return None;
        }
        let token = self.queue.peek_used()?;
        match self.slot_of.get_mut(usize::from(token)) {
            Some(slot) if *slot != NO_SLOT => Some((token, core::mem::replace(slot, NO_SLOT))),
            _ => {
                self.broken = true;
                log::error!(
                    "virtio queue {}: the device returned buffer {token}, which it does not have",
                    self.doorbell.queue
                );
                None
            }
        }
    }

    /// Tells the device of what was offered, if it wants to know.
    fn flush(&mut self) {
        if !self.offered {
            return;
        }
        self.offered = false;
        // The new index must be visible before what the device wants is read: either it sees the index before it goes to
        // sleep, or we see that it wants the doorbell.
        device_fence();
        if self.queue.should_notify() {
            self.doorbell.ring();
        }
    }

    /// Asks for an interrupt at the next buffer done. Returns false, without asking, when one is done already.
    fn arm(&mut self) -> bool {
        if self.broken {
            return true;
        }
        self.queue.set_dev_notify(true);
        // The wish must be visible before the ring is looked at for the last time: either the device sees it when it
        // returns the next buffer, or we see that buffer.
        device_fence();
        if self.queue.can_pop() {
            self.queue.set_dev_notify(false);
            return false;
        }
        true
    }

    fn disarm(&mut self) {
        self.queue.set_dev_notify(false);
    }
}

/// The receive ring.
pub struct RxRing<H: Hal> {
    ring: Ring<H>,
    /// The device may leave checksums to us or vouch for them (`VIRTIO_NET_F_GUEST_CSUM`).
    guest_csum: bool,
}

impl<H: Hal> RxRing<H> {
    /// Sets up queue `index` and offers all buffers; the device learns of them at the first [`flush`](Self::flush).
    pub fn new<T: Transport>(
        transport: &mut T,
        index: u16,
        doorbell: Doorbell,
        guest_csum: bool,
    ) -> Result<Self, SetupError> {
        let ring = Ring::new(transport, index, doorbell, BufferDirection::DeviceToDriver)?;
        let mut ring = Self { ring, guest_csum };
        for slot in 0..RING as u16 {
            ring.offer(slot);
        }
        Ok(ring)
    }

    fn offer(&mut self, slot: u16) {
        let ring = &mut self.ring;
        let mut buffer = ring.buffers.whole(slot, MAX_FRAME);
        // SAFETY: the buffer is the ring's own, no frame lends it, and it is not touched until the device is done with it.
        let added = unsafe { ring.queue.add(&[], &mut [buffer.as_mut()]) };
        match added {
            Ok(token) => {
                ring.slot_of[usize::from(token)] = slot;
                ring.offered = true;
            }
            // There are as many descriptors as buffers.
            Err(error) => log::error!("receive ring: {error}"),
        }
    }

    /// The next frame. Buffers whose length makes no sense are offered again and added to `malformed`.
    pub fn receive(&mut self, malformed: &mut u64) -> Option<Frame> {
        loop {
            let ring = &mut self.ring;
            let (token, slot) = ring.done()?;
            let mut buffer = ring.buffers.whole(slot, MAX_FRAME);
            // SAFETY: this is the buffer that was added under this token.
            let len = unsafe { ring.queue.pop_used(token, &[], &mut [buffer.as_mut()]) };
            let len = len.map_or(0, |len| len as usize);
            if (HEADER + MIN_FRAME..=HEADER + MAX_FRAME).contains(&len) {
                // SAFETY: the buffer is the ring's own again, and the device wrote at least the header.
                let flags = unsafe { buffer.cast::<u8>().add(header::FLAGS).read() };
                let verified = self.guest_csum && flags & (header::NEEDS_CSUM | header::DATA_VALID) != 0;
                return Some(Frame { data: ring.buffers.frame(slot, len - HEADER), slot, verified });
            }
            *malformed += 1;
            self.offer(slot);
        }
    }

    /// Whether a frame is waiting.
    #[inline]
    pub fn pending(&self) -> bool {
        self.ring.queue.can_pop() && !self.ring.broken
    }

    /// Offers a frame's buffer to the device again.
    pub fn recycle(&mut self, frame: Frame) {
        self.offer(frame.slot);
    }

    /// See [`Ring::flush`].
    pub fn flush(&mut self) {
        self.ring.flush();
    }

    /// See [`Ring::arm`].
    pub fn arm(&mut self) -> bool {
        self.ring.arm()
    }

    /// Takes back what [`arm`](Self::arm) asked for.
    pub fn disarm(&mut self) {
        self.ring.disarm();
    }

    /// Whether the device broke the ring.
    pub fn broken(&self) -> bool {
        self.ring.broken
    }

    /// Doorbells rung.
    pub fn rung(&self) -> u64 {
        self.ring.doorbell.rung
    }
}

/// The transmit ring.
pub struct TxRing<H: Hal> {
    ring: Ring<H>,
    free: [u16; RING],
    free_count: usize,
}

impl<H: Hal> TxRing<H> {
    /// Sets up queue `index`.
    pub fn new<T: Transport>(transport: &mut T, index: u16, doorbell: Doorbell) -> Result<Self, SetupError> {
        let ring = Ring::<H>::new(transport, index, doorbell, BufferDirection::DriverToDevice)?;
        for slot in 0..RING as u16 {
            let header = ring.buffers.whole(slot, 0).cast::<u8>();
            // The device does not write to it. What stays zero: no segmentation.
            // SAFETY: the buffer is the ring's own and the device does not have it yet.
            unsafe { header.write_bytes(0, HEADER) };
        }
        Ok(Self { ring, free: core::array::from_fn(|slot| slot as u16), free_count: RING })
    }

    /// Queues a frame of `len` bytes written by `fill`. `None` when the ring is full or the frame too long.
    #[inline]
    pub fn transmit<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        self.transmit_with(len, false, fill)
    }

    /// Like [`transmit`](Self::transmit); with `complete` the device completes the TCP checksum of an IPv4 packet without
    /// options, if `VIRTIO_NET_F_CSUM` was negotiated.
    #[inline]
    pub fn transmit_with<R>(&mut self, len: usize, complete: bool, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        if !(MIN_FRAME..=MAX_FRAME).contains(&len) || !self.can_transmit() {
            return None;
        }
        let slot = self.free[self.free_count - 1];
        let ring = &mut self.ring;
        // SAFETY: the slot is free, so the buffer is the ring's own.
        let result = fill(unsafe { ring.buffers.frame(slot, len).as_mut() });
        let buffer = ring.buffers.whole(slot, len);
        let (flags, start, offset) = if complete { (header::NEEDS_CSUM, TCP_AT, TCP_CHECKSUM_AT) } else { (0, 0, 0) };
        let begin = buffer.cast::<u8>();
        // SAFETY: the fields lie within the header, and the buffer is the ring's own. Both are little-endian (5.1.6.1).
        unsafe {
            begin.add(header::FLAGS).write(flags);
            begin.add(header::CSUM_START).cast::<u16>().write_unaligned(start.to_le());
            begin.add(header::CSUM_OFFSET).cast::<u16>().write_unaligned(offset.to_le());
        }
        // SAFETY: the buffer is the ring's own and not touched until the device is done with it.
        let token = unsafe { ring.queue.add(&[buffer.as_ref()], &mut []) }.ok()?;
        ring.slot_of[usize::from(token)] = slot;
        ring.offered = true;
        self.free_count -= 1;
        Some(result)
    }

    /// Whether a frame would be accepted.
    #[inline]
    pub fn can_transmit(&mut self) -> bool {
        if self.free_count == 0 {
            self.reclaim();
        }
        self.free_count > 0 && !self.ring.broken
    }

    /// Takes back the buffers of frames that were sent.
    fn reclaim(&mut self) {
        while let Some((token, slot)) = self.ring.done() {
            // The length matters to nobody: the device writes nothing.
            let buffer = self.ring.buffers.whole(slot, MAX_FRAME);
            // SAFETY: this is the buffer that was added under this token; its length only matters to an IOMMU.
            let popped = unsafe { self.ring.queue.pop_used(token, &[buffer.as_ref()], &mut []) };
            debug_assert!(popped.is_ok());
            self.free[self.free_count] = slot;
            self.free_count += 1;
        }
    }

    /// See [`Ring::flush`].
    pub fn flush(&mut self) {
        self.ring.flush();
    }

    /// Asks for an interrupt at the next frame sent, if the ring was found full. Returns false, without asking, when it has
    /// room again, which whoever waits for that does not know yet.
    pub fn arm_if_full(&mut self) -> bool {
        if self.free_count > 0 {
            return true;
        }
        !self.can_transmit() && self.ring.arm()
    }

    /// Takes back what [`arm_if_full`](Self::arm_if_full) asked for.
    pub fn disarm(&mut self) {
        self.ring.disarm();
    }

    /// Whether the device broke the ring.
    pub fn broken(&self) -> bool {
        self.ring.broken
    }

    /// Doorbells rung.
    pub fn rung(&self) -> u64 {
        self.ring.doorbell.rung
    }
}
