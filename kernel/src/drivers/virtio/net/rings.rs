//! The receive and the transmit ring: fixed buffers, batches, and what the device is told when.
//!
//! Each descriptor belongs to one buffer for good, so that offering a buffer writes one entry of the available ring. The index
//! behind which the device looks is written once a batch, and the one that the device writes is read once a batch. (The queue
//! type of `virtio-drivers` writes a descriptor, the index and a fence for every buffer, and reads what the device wants
//! without the fence that keeps the last doorbell from being lost.)

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use virtio_drivers::transport::Transport;

use crate::drivers::virtio::Register;
use crate::drivers::{device_fence, device_read_fence, device_write_fence};

/// Descriptors of each ring, and its buffers.
pub const RING: usize = 256;

/// Bytes of `virtio_net_hdr` (5.1.6) in front of each frame.
const HEADER: usize = 12;

/// The words of `virtio_net_hdr`, little-endian (5.1.6.1): flags (low byte) and segmentation, length of the headers, payload
/// of a segment, where the checksum begins, where it stands behind that, number of buffers.
type Header = [u16; HEADER / 2];

/// Values of the header's fields.
mod header {
    /// To send: complete the checksum of what lies from the start on. Received: that was not done, for the frame never was
    /// on a wire.
    pub const NEEDS_CSUM: u16 = 1;
    /// Received: the checksum was found right.
    pub const DATA_VALID: u16 = 2;
    /// To send, in the second byte: cut into segments of TCP over IPv4.
    pub const TCP_V4: u16 = 1 << 8;
}

/// Where TCP begins in a frame without IP options, and its checksum in it.
const TCP_AT: u16 = 34;
const TCP_CHECKSUM_AT: u16 = 16;

/// What the device is to do with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Nothing.
    None,
    /// Complete the TCP checksum of an IPv4 packet without options; takes `VIRTIO_NET_F_CSUM`.
    Checksum,
    /// That, and cut the packet into segments; takes `VIRTIO_NET_F_HOST_TSO4` too.
    Segment {
        /// Bytes of the headers, Ethernet's included.
        headers: u16,
        /// Bytes of payload in each segment.
        mss: u16,
    },
}

impl Offload {
    #[inline]
    fn header(self) -> Header {
        let words = match self {
            Self::None => [0; HEADER / 2],
            Self::Checksum => [header::NEEDS_CSUM, 0, 0, TCP_AT, TCP_CHECKSUM_AT, 0],
            Self::Segment { headers, mss } => {
                [header::NEEDS_CSUM | header::TCP_V4, headers, mss, TCP_AT, TCP_CHECKSUM_AT, 0]
            }
        };
        words.map(u16::to_le)
    }
}

/// Largest frame without FCS: 1500 bytes of payload behind the Ethernet header.
pub const MAX_FRAME: usize = 1514;

/// Shortest frame that has an Ethernet header.
const MIN_FRAME: usize = 14;

/// Distance between buffers.
const STRIDE: usize = 2048;

/// Memory of the buffers of a receive and a transmit ring, without those for large frames.
pub const PAIR_BYTES: usize = 2 * RING * STRIDE;

/// Where the virtio header begins in a buffer: so that the IP header behind Ethernet's lies at a multiple of 4.
const OFFSET: usize = 2;

/// Distance between buffers for large frames.
pub const LARGE_STRIDE: usize = 32 << 10;

/// Largest frame that the device cuts into segments.
pub const MAX_LARGE: usize = LARGE_STRIDE - OFFSET - HEADER;

/// Most buffers for large frames of a transmit ring; each takes the place of an ordinary one.
pub const MAX_LARGE_BUFFERS: usize = 32;

/// Memory for devices.
///
/// # Safety
/// What [`allocate`](Self::allocate) returns is nobody else's, for good.
pub unsafe trait Dma {
    /// `len` bytes (whole pages), physically contiguous, at a page's beginning: the address that a device uses, and where they
    /// are. They hold old data. `None` when there is no such memory.
    fn allocate(len: usize) -> Option<(u64, NonNull<u8>)>;
}

/// Rings a queue's doorbell.
pub struct Doorbell {
    register: Register,
    queue: u16,
    /// How often it was rung.
    pub rung: u64,
}

impl Doorbell {
    /// The doorbell of `queue`.
    ///
    /// # Safety
    /// `register` must be the queue's doorbell and stay mapped.
    pub unsafe fn new(register: Register, queue: u16) -> Self {
        Self { register, queue, rung: 0 }
    }

    fn ring(&mut self) {
        // SAFETY: `new`'s caller vouched for the register.
        unsafe {
            match self.register {
                Register::Half(register) => register.write_volatile(self.queue),
                Register::Word(register) => register.write_volatile(self.queue.into()),
            }
        }
        self.rung += 1;
    }
}

// SAFETY: the register may be written from any CPU; the queue's owner alone writes it.
unsafe impl Send for Doorbell {}

/// Buffers of one size in memory that the device may access.
struct Buffers {
    physical: u64,
    start: NonNull<u8>,
    count: usize,
    stride: usize,
}

// SAFETY: the buffers belong to the ring, wherever it is driven.
unsafe impl Send for Buffers {}

impl Buffers {
    fn new<D: Dma>(count: usize, stride: usize) -> Result<Self, SetupError> {
        if count == 0 {
            return Ok(Self { physical: 0, start: NonNull::dangling(), count, stride });
        }
        let (physical, start) = D::allocate(count * stride).ok_or(SetupError::NoMemory)?;
        Ok(Self { physical, start, count, stride })
    }

    /// Where the device finds the virtio header of buffer `n`.
    fn address(&self, n: usize) -> u64 {
        self.physical + (n * self.stride + OFFSET) as u64
    }

    /// The virtio header of buffer `n`.
    #[inline]
    fn header(&self, n: usize) -> NonNull<Header> {
        assert!(n < self.count);
        // SAFETY: the buffer lies within the allocation; its start is even, and so is the offset.
        unsafe { self.start.add(n * self.stride + OFFSET) }.cast()
    }

    /// The frame of buffer `n`, `len` bytes.
    #[inline]
    fn frame(&self, n: usize, len: usize) -> NonNull<[u8]> {
        assert!(len <= self.stride - OFFSET - HEADER);
        // SAFETY: the frame follows the header in the same buffer.
        NonNull::slice_from_raw_parts(unsafe { self.header(n).cast::<u8>().add(HEADER) }, len)
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// There is no memory for rings or buffers.
    NoMemory,
    /// The device has no such queue, one that is too short, or one that is in use.
    NoQueue,
}

impl core::fmt::Display for SetupError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NoMemory => "no memory for a queue",
            Self::NoQueue => "a queue is missing or too short",
        })
    }
}

/// A descriptor (2.7.5).
#[repr(C)]
#[derive(Clone, Copy)]
struct Descriptor {
    address: u64,
    len: u32,
    flags: u16,
    next: u16,
}

/// Descriptor flag: the device writes to the buffer.
const WRITE: u16 = 2;
/// Flag of the available ring (2.7.6): no interrupts please. Of the used ring (2.7.8): no doorbells please.
const SUPPRESS: u16 = 1;

/// Descriptors, available and used ring in one piece of memory, each at a cache line of its own.
const AVAILABLE_AT: usize = size_of::<Descriptor>() * RING;
const USED_AT: usize = AVAILABLE_AT + 1024;
const QUEUE_BYTES: usize = 8192;
const _: () = assert!(AVAILABLE_AT + 6 + 2 * RING <= USED_AT && USED_AT + 6 + 8 * RING <= QUEUE_BYTES);

/// Fields of both rings, in words of 16 bits: flags, index, then the entries.
const FLAGS: usize = 0;
const INDEX: usize = 1;
const ENTRIES: usize = 2;

/// A split virtqueue (2.7) whose descriptors name fixed buffers, and what has to be told to the device.
struct Ring<D> {
    descriptors: NonNull<Descriptor>,
    available: NonNull<u16>,
    used: NonNull<u16>,
    /// Where the next buffer is offered, and up to where the device was told.
    next: u16,
    told: u16,
    /// The next entry of the used ring, and up to where the device was seen to have come.
    done: u16,
    seen: u16,
    /// Which buffers the device has.
    given: [u64; RING / 64],
    doorbell: Doorbell,
    /// The device named a buffer that it does not have: nothing it says can be relied on, the ring is closed.
    broken: bool,
    _memory: PhantomData<fn() -> D>,
}

// SAFETY: the memory behind the pointers belongs to the ring, wherever it is driven.
unsafe impl<D> Send for Ring<D> {}

impl<D: Dma> Ring<D> {
    fn new<T: Transport>(transport: &mut T, queue: u16, doorbell: Doorbell) -> Result<Self, SetupError> {
        if transport.queue_used(queue) || (transport.max_queue_size(queue) as usize) < RING {
            return Err(SetupError::NoQueue);
        }
        let (physical, start) = D::allocate(QUEUE_BYTES).ok_or(SetupError::NoMemory)?;
        // SAFETY: the memory is ours and that long; the parts lie in it, each aligned for its type, as the start is at a
        // page's beginning. Interrupts are not wanted yet.
        let (available, used) = unsafe {
            start.write_bytes(0, QUEUE_BYTES);
            (start.add(AVAILABLE_AT).cast::<u16>(), start.add(USED_AT).cast::<u16>())
        };
        let ring = Self {
            descriptors: start.cast(),
            available,
            used,
            next: 0,
            told: 0,
            done: 0,
            seen: 0,
            given: [0; RING / 64],
            doorbell,
            broken: false,
            _memory: PhantomData,
        };
        ring.disarm();
        let at = |offset: usize| physical + offset as u64;
        transport.queue_set(queue, RING as u32, at(0), at(AVAILABLE_AT), at(USED_AT));
        Ok(ring)
    }

    /// Says where the buffer of a slot is.
    fn describe(&self, slot: usize, address: u64, len: usize, flags: u16) {
        assert!(slot < RING);
        let descriptor =
            Descriptor { address: address.to_le(), len: (len as u32).to_le(), flags: flags.to_le(), next: 0 };
        // SAFETY: the slot's descriptor lies in the table, and the device does not have it yet.
        unsafe { self.descriptors.add(slot).write(descriptor) };
    }

    /// Says how much of a slot's buffer there is to read.
    #[inline]
    fn set_len(&self, slot: usize, len: usize) {
        assert!(slot < RING);
        // SAFETY: the slot's descriptor lies in the table, and the device does not have it.
        unsafe { (&raw mut (*self.descriptors.add(slot).as_ptr()).len).write((len as u32).to_le()) };
    }

    /// Offers the buffer of a slot, of which the device learns at the next [`flush`](Self::flush).
    #[inline]
    fn offer(&mut self, slot: u16) {
        let entry = ENTRIES + usize::from(self.next) % RING;
        // SAFETY: the entry lies in the available ring; the device does not read it before the index tells it to, for
        // there are as many entries as slots and it has this one no more.
        unsafe { self.available.add(entry).write(slot.to_le()) };
        self.next = self.next.wrapping_add(1);
        self.given[usize::from(slot) / 64 % (RING / 64)] |= 1 << (slot % 64);
    }

    /// The next buffer that the device is done with: its slot and how much was written.
    #[inline]
    fn take(&mut self) -> Option<(u16, u32)> {
        if self.done == self.seen && !self.look() {
            return None;
        }
        let entry = ENTRIES + 4 * (usize::from(self.done) % RING);
        // SAFETY: the entry lies in the used ring, two words of 32 bits, aligned; the device has written it.
        let (id, len) = unsafe {
            let entry = self.used.add(entry).cast::<u32>();
            (u32::from_le(entry.read_volatile()), u32::from_le(entry.add(1).read_volatile()))
        };
        self.done = self.done.wrapping_add(1);
        let bit = 1 << (id % 64);
        match self.given.get_mut(id as usize / 64) {
            Some(word) if *word & bit != 0 => {
                *word &= !bit;
                Some((id as u16, len))
            }
            _ => self.close(id),
        }
    }

    /// Reads how far the device has come; returns whether there is anything new.
    #[inline]
    fn look(&mut self) -> bool {
        if self.broken {
            return false;
        }
        self.seen = self.used_index();
        // What the device wrote before its index is read after it.
        device_read_fence();
        self.seen != self.done
    }

    #[inline]
    fn used_index(&self) -> u16 {
        // SAFETY: the index of the used ring.
        u16::from_le(unsafe { self.used.add(INDEX).read_volatile() })
    }

    #[cold]
    fn close(&mut self, id: u32) -> Option<(u16, u32)> {
        self.broken = true;
        self.seen = self.done;
        log::error!("virtio queue {}: the device returned buffer {id}, which it does not have", self.doorbell.queue);
        None
    }

    /// Whether a buffer came back that was not taken yet.
    #[inline]
    fn pending(&self) -> bool {
        (self.done != self.seen || self.used_index() != self.done) && !self.broken
    }

    /// Tells the device of what was offered, and rings if it wants to know.
    #[inline]
    fn flush(&mut self) {
        if self.next == self.told {
            return;
        }
        // Entries, descriptors and buffers must be there before the index that leads to them.
        device_write_fence();
        // SAFETY: the index of the available ring.
        unsafe { self.available.add(INDEX).write_volatile(self.next.to_le()) };
        self.told = self.next;
        // The new index must be visible before what the device wants is read: either it sees the index before it goes to
        // sleep, or we see that it wants the doorbell.
        device_fence();
        // SAFETY: the flags of the used ring.
        let flags = u16::from_le(unsafe { self.used.add(FLAGS).read_volatile() });
        if flags & SUPPRESS == 0 {
            self.doorbell.ring();
        }
    }

    fn set_flags(&self, flags: u16) {
        // SAFETY: the flags of the available ring.
        unsafe { self.available.add(FLAGS).write_volatile(flags.to_le()) };
    }

    /// Asks for an interrupt at the next buffer done. Returns false, without asking, when one is done already.
    fn arm(&mut self) -> bool {
        if self.broken {
            return true;
        }
        self.set_flags(0);
        // The wish must be visible before the ring is looked at for the last time: either the device sees it when it
        // returns the next buffer, or we see that buffer.
        device_fence();
        if self.pending() {
            self.disarm();
            return false;
        }
        true
    }

    fn disarm(&self) {
        self.set_flags(SUPPRESS);
    }
}

/// The receive ring.
pub struct RxRing<D> {
    ring: Ring<D>,
    buffers: Buffers,
    /// The device may leave checksums to us or vouch for them (`VIRTIO_NET_F_GUEST_CSUM`).
    guest_csum: bool,
}

impl<D: Dma> RxRing<D> {
    /// Sets up queue `index` and offers all buffers; the device learns of them at the first [`flush`](Self::flush).
    pub fn new<T: Transport>(
        transport: &mut T,
        index: u16,
        doorbell: Doorbell,
        guest_csum: bool,
    ) -> Result<Self, SetupError> {
        let buffers = Buffers::new::<D>(RING, STRIDE)?;
        let mut ring = Ring::new(transport, index, doorbell)?;
        for slot in 0..RING {
            ring.describe(slot, buffers.address(slot), HEADER + MAX_FRAME, WRITE);
            ring.offer(slot as u16);
        }
        Ok(Self { ring, buffers, guest_csum })
    }

    /// The next frame. Buffers whose length makes no sense are offered again and added to `malformed`.
    #[inline]
    pub fn receive(&mut self, malformed: &mut u64) -> Option<Frame> {
        loop {
            let (slot, len) = self.ring.take()?;
            let len = len as usize;
            if (HEADER + MIN_FRAME..=HEADER + MAX_FRAME).contains(&len) {
                // SAFETY: the buffer is the ring's own again, and the device wrote at least the header.
                let [flags, ..] = unsafe { self.buffers.header(usize::from(slot)).read() }.map(u16::from_le);
                let verified = self.guest_csum && flags & (header::NEEDS_CSUM | header::DATA_VALID) != 0;
                return Some(Frame { data: self.buffers.frame(slot.into(), len - HEADER), slot, verified });
            }
            *malformed += 1;
            self.ring.offer(slot);
        }
    }

    /// Whether a frame is waiting.
    #[inline]
    pub fn pending(&self) -> bool {
        self.ring.pending()
    }

    /// Offers a frame's buffer to the device again.
    #[inline]
    pub fn recycle(&mut self, frame: Frame) {
        self.ring.offer(frame.slot);
    }

    /// See [`Ring::flush`].
    #[inline]
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

/// The transmit ring: slots of ordinary buffers first, then those of large ones.
pub struct TxRing<D> {
    ring: Ring<D>,
    buffers: Buffers,
    large: Buffers,
    free: Stack<RING>,
    free_large: Stack<MAX_LARGE_BUFFERS>,
}

/// Free slots; the last one given back is the first to be used again.
struct Stack<const N: usize> {
    slots: [u16; N],
    len: usize,
}

impl<const N: usize> Stack<N> {
    /// `count` slots from `first` on.
    fn new(first: usize, count: usize) -> Self {
        Self { slots: core::array::from_fn(|n| (first + n) as u16), len: count.min(N) }
    }

    #[inline]
    fn last(&self) -> Option<u16> {
        self.slots.get(self.len.wrapping_sub(1)).copied()
    }

    #[inline]
    fn push(&mut self, slot: u16) {
        if let Some(place) = self.slots.get_mut(self.len) {
            *place = slot;
            self.len += 1;
        }
    }
}

impl<D: Dma> TxRing<D> {
    /// Sets up queue `index` with `large` buffers (up to [`MAX_LARGE_BUFFERS`]) for frames that the device cuts up.
    pub fn new<T: Transport>(
        transport: &mut T,
        index: u16,
        doorbell: Doorbell,
        large: usize,
    ) -> Result<Self, SetupError> {
        let large = Buffers::new::<D>(large.min(MAX_LARGE_BUFFERS), LARGE_STRIDE)?;
        let buffers = Buffers::new::<D>(RING - large.count, STRIDE)?;
        let ring = Ring::new(transport, index, doorbell)?;
        for slot in 0..RING {
            let of_large = slot.checked_sub(buffers.count);
            let address = of_large.map_or_else(|| buffers.address(slot), |n| large.address(n));
            ring.describe(slot, address, HEADER, 0);
        }
        let free = Stack::new(0, buffers.count);
        let free_large = Stack::new(buffers.count, large.count);
        Ok(Self { ring, buffers, large, free, free_large })
    }

    /// Queues a frame of `len` bytes written by `fill`. `None` when the ring is full or the frame too long.
    #[inline]
    pub fn transmit<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        self.transmit_with(len, Offload::None, fill)
    }

    /// Like [`transmit`](Self::transmit), with something left to the device.
    #[inline]
    pub fn transmit_with<R>(&mut self, len: usize, offload: Offload, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        if !(MIN_FRAME..=MAX_FRAME).contains(&len) || !self.can_transmit() {
            return None;
        }
        let slot = self.free.last()?;
        // SAFETY: the slot is free, so the buffer is the ring's own.
        let result = fill(unsafe { self.buffers.frame(slot.into(), len).as_mut() });
        // SAFETY: as above.
        unsafe { self.buffers.header(slot.into()).write(offload.header()) };
        self.free.len -= 1;
        self.queue(slot, len);
        Some(result)
    }

    /// The buffer in which the next large frame is composed: the same one until [`transmit_large`](Self::transmit_large).
    #[inline]
    pub fn large(&mut self) -> Option<&mut [u8]> {
        if self.free_large.len == 0 {
            self.reclaim();
        }
        let n = usize::from(self.free_large.last()?) - self.buffers.count;
        if self.ring.broken {
            return None;
        }
        // SAFETY: the slot is free, so the buffer is the ring's own; it is borrowed as long as the ring is.
        Some(unsafe { self.large.frame(n, MAX_LARGE).as_mut() })
    }

    /// Queues the first `len` bytes of [`large`](Self::large). Returns false, and queues nothing, where there is no such
    /// buffer or the length makes no sense.
    pub fn transmit_large(&mut self, len: usize, offload: Offload) -> bool {
        let Some(slot) = self.free_large.last().filter(|_| (MIN_FRAME..=MAX_LARGE).contains(&len)) else {
            return false;
        };
        // SAFETY: the slot is free, so the buffer is the ring's own.
        unsafe { self.large.header(usize::from(slot) - self.buffers.count).write(offload.header()) };
        self.free_large.len -= 1;
        self.queue(slot, len);
        true
    }

    #[inline]
    fn queue(&mut self, slot: u16, len: usize) {
        self.ring.set_len(slot.into(), HEADER + len);
        self.ring.offer(slot);
    }

    /// Whether a frame would be accepted.
    #[inline]
    pub fn can_transmit(&mut self) -> bool {
        if self.free.len == 0 {
            self.reclaim();
        }
        self.free.len > 0 && !self.ring.broken
    }

    /// Takes back the buffers of frames that were sent.
    fn reclaim(&mut self) {
        while let Some((slot, _)) = self.ring.take() {
            if usize::from(slot) < self.buffers.count {
                self.free.push(slot);
            } else {
                self.free_large.push(slot);
            }
        }
    }

    /// See [`Ring::flush`].
    #[inline]
    pub fn flush(&mut self) {
        self.ring.flush();
    }

    /// Asks for an interrupt at the next frame sent, if the ring was found full. Returns false, without asking, when it has
    /// room again, which whoever waits for that does not know yet.
    pub fn arm_if_full(&mut self) -> bool {
        if self.free.len > 0 {
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
