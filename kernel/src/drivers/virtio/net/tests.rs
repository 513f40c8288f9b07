//! The rings against a device in memory, which also misbehaves.

use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed};
use std::boxed::Box;
use std::vec::Vec;

use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::{PAGE_SIZE, PhysAddr, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::rings::{Dma, Doorbell, MAX_FRAME, MAX_LARGE, Offload, RING, RxRing, TxRing};
use crate::drivers::virtio::Register;

/// Device addresses are the test's own; memory is leaked.
struct TestMemory;

// SAFETY: the memory is leaked: nobody else's, for good.
unsafe impl Dma for TestMemory {
    fn allocate(len: usize) -> Option<(u64, NonNull<u8>)> {
        let layout = Layout::from_size_align(len, PAGE_SIZE).expect("small");
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory");
        // Old data, as the kernel's frames hold.
        // SAFETY: all of it was just allocated.
        unsafe { start.write_bytes(0xa5, len) };
        Some((start.as_ptr() as u64, start))
    }
}

/// The device's side of one queue.
#[derive(Default)]
struct Device {
    descriptors: u64,
    available: u64,
    used: u64,
    /// Entries of the available ring that were taken.
    taken: u16,
    /// Entries of the used ring that were filled.
    filled: u16,
}

impl Device {
    fn read<T: Copy>(&self, address: u64) -> T {
        // SAFETY: the rings' and buffers' memory is leaked, so it is there, and the tests are single-threaded.
        unsafe { (address as *const T).read_volatile() }
    }

    fn write<T>(&self, address: u64, value: T) {
        // SAFETY: as above.
        unsafe { (address as *mut T).write_volatile(value) };
    }

    /// The next buffer offered: its descriptor, address and length.
    fn take(&mut self) -> Option<(u16, u64, u32)> {
        if self.taken == self.read::<u16>(self.available + 2) {
            return None;
        }
        let head: u16 = self.read(self.available + 4 + 2 * u64::from(self.taken % RING as u16));
        self.taken = self.taken.wrapping_add(1);
        let descriptor = self.descriptors + 16 * u64::from(head);
        Some((head, self.read(descriptor), self.read(descriptor + 8)))
    }

    fn give(&mut self, id: u32, len: u32) {
        let entry = self.used + 4 + 8 * u64::from(self.filled % RING as u16);
        self.write(entry, id);
        self.write(entry + 4, len);
        self.filled = self.filled.wrapping_add(1);
        self.write(self.used + 2, self.filled);
    }

    /// Receives a frame for the driver.
    fn deliver(&mut self, frame: &[u8]) -> bool {
        self.deliver_flagged(frame, 0)
    }

    /// The same with flags in the header.
    fn deliver_flagged(&mut self, frame: &[u8], flags: u8) -> bool {
        let Some((head, address, room)) = self.take() else { return false };
        assert_eq!(room as usize, 12 + MAX_FRAME);
        self.write(address, flags);
        for (i, byte) in frame.iter().enumerate() {
            self.write(address + 12 + i as u64, *byte);
        }
        self.give(u32::from(head), 12 + frame.len() as u32);
        true
    }

    /// Sends the next frame of the driver.
    fn send(&mut self) -> Option<Vec<u8>> {
        let (header, frame) = self.send_with_header()?;
        assert_eq!(header, [0; 12], "no offloads");
        Some(frame)
    }

    fn send_with_header(&mut self) -> Option<([u8; 12], Vec<u8>)> {
        let (head, address, len) = self.take()?;
        let header = core::array::from_fn(|i| self.read(address + i as u64));
        let frame = (12..u64::from(len)).map(|i| self.read(address + i)).collect();
        self.give(u32::from(head), 0);
        Some((header, frame))
    }

    fn wants_doorbell(&self, wants: bool) {
        self.write(self.used, u16::from(!wants));
    }

    fn may_interrupt(&self) -> bool {
        self.read::<u16>(self.available) & 1 == 0
    }
}

#[derive(Default)]
struct TestTransport(Device);

impl Transport for TestTransport {
    fn device_type(&self) -> DeviceType {
        DeviceType::Network
    }
    fn read_device_features(&mut self) -> u64 {
        0
    }
    fn write_driver_features(&mut self, _: u64) {}
    fn max_queue_size(&mut self, _: u16) -> u32 {
        1024
    }
    fn notify(&mut self, _: u16) {}
    fn get_status(&self) -> DeviceStatus {
        DeviceStatus::empty()
    }
    fn set_status(&mut self, _: DeviceStatus) {}
    fn set_guest_page_size(&mut self, _: u32) {}
    fn requires_legacy_layout(&self) -> bool {
        false
    }
    fn queue_set(&mut self, _: u16, size: u32, descriptors: PhysAddr, driver: PhysAddr, device: PhysAddr) {
        assert_eq!(size as usize, RING);
        self.0 = Device { descriptors, available: driver, used: device, ..Device::default() };
    }
    fn queue_unset(&mut self, _: u16) {}
    fn queue_used(&mut self, _: u16) -> bool {
        false
    }
    fn ack_interrupt(&mut self) -> InterruptStatus {
        InterruptStatus::empty()
    }
    fn read_config_generation(&self) -> u32 {
        0
    }
    fn read_config_space<T: FromBytes + IntoBytes>(&self, _: usize) -> Result<T> {
        Err(virtio_drivers::Error::ConfigSpaceMissing)
    }
    fn write_config_space<T: IntoBytes + Immutable>(&mut self, _: usize, _: T) -> Result<()> {
        Ok(())
    }
}

fn doorbell() -> Doorbell {
    let register = NonNull::from(Box::leak(Box::new(0u16)));
    // SAFETY: a leaked number stands for the register.
    unsafe { Doorbell::new(Register::Half(register), 7) }
}

fn receive_ring() -> (RxRing<TestMemory>, Device) {
    receive_ring_with(false)
}

fn receive_ring_with(guest_csum: bool) -> (RxRing<TestMemory>, Device) {
    let mut transport = TestTransport::default();
    let mut ring = RxRing::new(&mut transport, 0, doorbell(), guest_csum).expect("memory");
    ring.flush();
    (ring, transport.0)
}

fn transmit_ring() -> (TxRing<TestMemory>, Device) {
    transmit_ring_with(0)
}

fn transmit_ring_with(large: usize) -> (TxRing<TestMemory>, Device) {
    let mut transport = TestTransport::default();
    let ring = TxRing::new(&mut transport, 1, doorbell(), large).expect("memory");
    (ring, transport.0)
}

fn frame(n: usize) -> Vec<u8> {
    (0..14 + n * 37 % 1500).map(|i| (i + n) as u8).collect()
}

#[test]
fn a_burst_that_fills_the_ring_arrives_whole_and_in_order() {
    let (mut ring, mut device) = receive_ring();
    let mut malformed = 0;
    // Often enough for the 16-bit indices to wrap.
    for round in 0..300 {
        for n in 0..RING {
            assert!(device.deliver(&frame(round + n)));
        }
        assert!(!device.deliver(&frame(0)), "the ring is full");
        let mut lent = Vec::new();
        while let Some(got) = ring.receive(&mut malformed) {
            assert_eq!(*got, frame(round + lent.len()));
            lent.push(got);
        }
        assert_eq!(lent.len(), RING);
        // Given back in another order than they came.
        for got in lent.into_iter().rev() {
            ring.recycle(got);
        }
        ring.flush();
    }
    assert_eq!((malformed, ring.broken()), (0, false));
    // One doorbell a batch.
    assert_eq!(ring.rung(), 301);
}

#[test]
fn the_doorbell_is_rung_only_when_wanted() {
    let (mut ring, mut device) = transmit_ring();
    device.wants_doorbell(false);
    for _ in 0..3 {
        assert!(ring.transmit(60, |f| f.fill(1)).is_some());
        ring.flush();
    }
    assert_eq!(ring.rung(), 0);
    device.wants_doorbell(true);
    ring.flush();
    assert_eq!(ring.rung(), 0, "nothing new was offered");
    for _ in 0..5 {
        assert!(ring.transmit(60, |f| f.fill(2)).is_some());
    }
    ring.flush();
    assert_eq!(ring.rung(), 1);
    assert_eq!((0..8).filter_map(|_| device.send()).count(), 8);
}

#[test]
fn the_device_is_told_which_checksum_to_complete() {
    let (mut ring, mut device) = transmit_ring();
    // Buffers come round: what one frame's header said must not stay for the next in the same buffer.
    for n in 0..3 * RING {
        let complete = n % 3 == 0;
        let offload = if complete { Offload::Checksum } else { Offload::None };
        assert!(ring.transmit_with(60, offload, |f| f.fill(n as u8)).is_some());
        ring.flush();
        let want = if complete { [1, 0, 0, 0, 0, 0, 34, 0, 16, 0, 0, 0] } else { [0; 12] };
        assert_eq!(device.send_with_header(), Some((want, vec![n as u8; 60])));
    }
}

#[test]
fn the_word_of_the_device_counts_where_it_was_negotiated() {
    for negotiated in [false, true] {
        let (mut ring, mut device) = receive_ring_with(negotiated);
        let mut malformed = 0;
        for (flags, vouched) in [(0, false), (1, true), (2, true), (3, true), (4, false)] {
            assert!(device.deliver_flagged(&frame(1), flags));
            let got = ring.receive(&mut malformed).expect("the frame");
            assert_eq!(got.verified, vouched && negotiated, "flags {flags}");
            ring.recycle(got);
        }
    }
}

#[test]
fn a_full_transmit_ring_refuses_and_recovers() {
    let (mut ring, mut device) = transmit_ring();
    let mut sent = 0;
    for round in 0..300 {
        while ring.transmit(frame(sent).len(), |f| f.copy_from_slice(&frame(sent))).is_some() {
            sent += 1;
        }
        assert_eq!(sent, (round + 1) * RING);
        assert!(!ring.can_transmit());
        ring.flush();
        assert!(ring.arm_if_full() && device.may_interrupt());
        for n in sent - RING..sent {
            assert_eq!(device.send().expect("queued"), frame(n));
        }
        assert!(!ring.arm_if_full(), "there is room again, whoever waits should use it");
        ring.disarm();
        assert!(!device.may_interrupt());
    }
    assert!(ring.transmit(MAX_FRAME + 1, |_| ()).is_none());
    assert!(ring.transmit(13, |_| ()).is_none());
}

#[test]
fn a_frame_that_comes_while_arming_is_seen() {
    let (mut ring, mut device) = receive_ring();
    let mut malformed = 0;
    assert!(!device.may_interrupt());
    assert!(ring.arm() && device.may_interrupt());
    ring.disarm();
    assert!(device.deliver(&frame(1)));
    assert!(!ring.arm(), "must not halt");
    assert!(!device.may_interrupt());
    let got = ring.receive(&mut malformed).expect("the frame");
    ring.recycle(got);
    assert!(ring.arm());
}

#[test]
fn senseless_lengths_are_counted_and_their_buffers_used_again() {
    let (mut ring, mut device) = receive_ring();
    let mut malformed = 0;
    for len in [0, 11, 12, 25, 12 + MAX_FRAME as u32 + 1, u32::MAX] {
        let (head, ..) = device.take().expect("offered");
        device.give(u32::from(head), len);
    }
    assert!(device.deliver(&frame(3)));
    let got = ring.receive(&mut malformed).expect("the good one");
    assert_eq!((&*got, malformed), (&frame(3)[..], 6));
    ring.recycle(got);
    ring.flush();
    for n in 0..RING {
        assert!(device.deliver(&frame(n)), "no buffer was lost");
    }
}

#[test]
fn an_unknown_descriptor_closes_the_ring() {
    // Out of range, and one that the device gave back before.
    for id in [RING as u32, 0xffff, 5] {
        let (mut ring, mut device) = receive_ring();
        let mut malformed = 0;
        for n in 0..6 {
            assert!(device.deliver(&frame(n)));
        }
        let mut lent: Vec<_> = core::iter::from_fn(|| ring.receive(&mut malformed)).collect();
        device.give(id, 100);
        assert!(ring.receive(&mut malformed).is_none() && ring.broken());
        lent.drain(..).for_each(|got| ring.recycle(got));
        ring.flush();
        assert!(ring.arm(), "nothing will come: halting is right");
    }
    let (mut ring, mut device) = transmit_ring();
    assert!(ring.transmit(60, |f| f.fill(0)).is_some());
    ring.flush();
    device.give(RING as u32, 0);
    while ring.transmit(60, |f| f.fill(0)).is_some() {}
    assert!(ring.broken() && !ring.can_transmit());
}

#[test]
fn an_index_that_leaps_is_no_frame() {
    let (mut ring, mut device) = receive_ring();
    let mut malformed = 0;
    device.filled = 1000;
    device.write(device.used + 2, 1000u16);
    // The entries hold zeros: descriptor 0, which the ring offers again each time, with length 0.
    assert!(ring.receive(&mut malformed).is_none());
    assert_eq!(malformed, 1000);
}

#[test]
fn the_device_learns_of_a_batch_when_it_is_flushed() {
    let (mut ring, mut device) = transmit_ring();
    for n in 0..3 {
        assert!(ring.transmit(60, |f| f.fill(n)).is_some());
        assert!(device.send().is_none());
    }
    ring.flush();
    assert_eq!((0..4).filter_map(|_| device.send()).count(), 3);
}

#[test]
fn large_frames_go_out_beside_ordinary_ones() {
    const LARGE: usize = 3;
    let (mut ring, mut device) = transmit_ring_with(LARGE);
    for round in 0..200 {
        let mut composed = 0;
        while let Some(buffer) = ring.large() {
            assert_eq!(buffer.len(), MAX_LARGE);
            buffer.fill(composed as u8);
            // It is the same buffer until it is sent.
            assert!(ring.large().expect("the same").iter().all(|byte| *byte == composed as u8));
            let offload = Offload::Segment { headers: 54, mss: 1460 };
            assert!(ring.transmit_large(MAX_LARGE - round, offload));
            composed += 1;
            assert!(composed <= LARGE);
        }
        assert_eq!(composed, LARGE);
        assert!(!ring.transmit_large(1000, Offload::None), "there is no buffer left");
        assert!(ring.transmit(60, |f| f.fill(9)).is_some());
        ring.flush();
        for n in 0..LARGE {
            let (header, frame) = device.send_with_header().expect("queued");
            assert_eq!(header, [1, 1, 54, 0, 0xb4, 5, 34, 0, 16, 0, 0, 0]);
            assert_eq!(frame, vec![n as u8; MAX_LARGE - round]);
        }
        assert_eq!(device.send(), Some(vec![9; 60]));
    }
    // Without large ones the ring holds as many frames as ever.
    let sent = core::iter::from_fn(|| ring.transmit(60, |f| f.fill(1))).count();
    assert_eq!(sent, RING - LARGE);
}
