//! The virtio network device (5.1): pairs of a receive and a transmit queue, each for a CPU of its own.
//!
//! A [`VirtioNet`] is one pair; pairs share nothing that changes while they run, so that no CPU waits for another.
//!
//! Interrupts are off while the loop polls; [`VirtioNet::prepare_wait`] asks for one and looks at the rings once more, so that
//! a frame that comes in between is not slept through.

pub mod rings;
#[cfg(test)]
mod tests;

#[cfg(target_os = "none")]
pub use device::{Counters, VirtioNet, matches};

#[cfg(target_os = "none")]
mod device {
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use core::ptr::NonNull;
    use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use barium_nic::Nic;
    use virtio_drivers::queue::VirtQueue;
    use virtio_drivers::transport::{DeviceStatus, DeviceType, Transport};

    use super::super::KernelHal;
    use super::super::bus::{Place, Status, VirtioDevice};
    use super::super::mmio;
    use super::super::pci::VENDOR;
    use super::rings::{
        Dma, Doorbell, Frame, LARGE_STRIDE, MAX_FRAME, MAX_LARGE, MAX_LARGE_BUFFERS, Offload, PAIR_BYTES, RxRing,
        SetupError, TxRing,
    };
    use crate::{clock, cpu, entropy, memory};

    /// Feature bits (5.1.3 and 6).
    mod feature {
        pub const CSUM: u64 = 1;
        pub const GUEST_CSUM: u64 = 1 << 1;
        pub const MTU: u64 = 1 << 3;
        pub const MAC: u64 = 1 << 5;
        pub const HOST_TSO4: u64 = 1 << 11;
        pub const STATUS: u64 = 1 << 16;
        pub const CTRL_VQ: u64 = 1 << 17;
        pub const MQ: u64 = 1 << 22;
        pub const VERSION_1: u64 = 1 << 32;
        /// Device addresses may go through something; here nothing stands in between, so that accepting it is enough.
        pub const ACCESS_PLATFORM: u64 = 1 << 33;
    }

    /// Offsets in the configuration space (5.1.4).
    mod config {
        pub const MAC: usize = 0;
        pub const STATUS: usize = 6;
        pub const MAX_PAIRS: usize = 8;
        pub const MTU: usize = 10;
    }

    /// Largest IP packet of the buffers, and what IPv4 asks of every link (RFC 791).
    const MAX_MTU: u16 = 1500;
    const MIN_MTU: u16 = 68;

    /// Whether there is a virtio network device, modern or transitional.
    pub fn matches(place: &Place<'_>) -> bool {
        const NETWORK: u32 = 1;
        match place {
            Place::Pci(device) => device.vendor == VENDOR && matches!(device.device, 0x1000 | 0x1041),
            Place::Mmio(slot) => mmio::kind(slot) == NETWORK,
        }
    }

    /// Most queue pairs of a device: more CPUs than this share them.
    const MAX_PAIRS: usize = 16;
    /// Of the memory, one part in so many at most goes into the buffers of the pairs behind the first.
    const MEMORY_SHARE: usize = 16;

    /// Of the memory, one part in so many at most goes into a pair's buffers for large frames.
    const LARGE_SHARE: usize = 128;

    /// Rings and buffers are the kernel's frames, not cleared: the device reads what was written, and writes before it is read.
    struct Frames;

    // SAFETY: frames that were taken from the heap and are never given back.
    unsafe impl Dma for Frames {
        fn allocate(len: usize) -> Option<(u64, NonNull<u8>)> {
            memory::allocate_dma(len, virtio_drivers::PAGE_SIZE)
        }
    }

    /// What the handlers of a pair and its driver share; never freed, for handlers stay registered.
    struct Shared {
        interrupts: AtomicU64,
        /// Of the first pair's.
        config_changed: AtomicBool,
        /// For a line: the register that says why it was raised.
        status: Option<Status>,
    }

    impl Shared {
        fn of(arg: usize) -> &'static Self {
            // SAFETY: handlers are registered with the address of a leaked `Shared` only.
            unsafe { &*(arg as *const Self) }
        }

        fn on_queue(arg: usize) {
            Self::of(arg).interrupts.fetch_add(1, Ordering::Relaxed);
        }

        fn on_config(arg: usize) {
            Self::of(arg).config_changed.store(true, Ordering::Relaxed);
        }

        fn on_line(arg: usize) {
            let status = Self::of(arg).status.map_or(0, |status| status.take());
            if status & 1 != 0 {
                Self::on_queue(arg);
            }
            if status & 2 != 0 {
                Self::on_config(arg);
            }
        }
    }

    /// What the device did so far.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Counters {
        /// Frames received.
        pub rx_frames: u64,
        /// Bytes received, Ethernet headers included.
        pub rx_bytes: u64,
        /// Received buffers whose length made no sense.
        pub rx_malformed: u64,
        /// Frames sent.
        pub tx_frames: u64,
        /// Bytes sent, Ethernet headers included.
        pub tx_bytes: u64,
        /// Frames refused because the ring was full.
        pub tx_full: u64,
        /// Doorbells rung, of both queues.
        pub notifications: u64,
        /// Interrupts taken for the queues.
        pub interrupts: u64,
    }

    /// What there is once in a device, and is the first pair's business.
    struct Control {
        device: VirtioDevice,
        has_status: bool,
    }

    /// A queue pair of a running device.
    pub struct VirtioNet {
        rx: RxRing<Frames>,
        tx: TxRing<Frames>,
        /// In the first pair.
        control: Option<Control>,
        shared: &'static Shared,
        /// Of all pairs.
        link_up: &'static AtomicBool,
        mac: [u8; 6],
        mtu: u16,
        completes_checksums: bool,
        segments: bool,
        interrupts: &'static str,
        counters: Counters,
    }

    const fn moves_between_cpus<T: Send>() {}
    const _: () = moves_between_cpus::<VirtioNet>();

    /// Why a device could not be set up.
    type Refusal = &'static str;

    fn failed(error: virtio_drivers::Error) -> Refusal {
        log::error!("virtio-net: {error}");
        "no answers from the device"
    }

    fn no_queue(error: SetupError) -> Refusal {
        log::error!("virtio-net: {error}");
        "no queues"
    }

    impl VirtioNet {
        /// Sets the device up (3.1.1) with up to `wanted` queue pairs, the n-th for CPU n; there is at least one.
        pub fn open(place: &Place<'_>, wanted: usize) -> Result<Vec<Self>, Refusal> {
            match Self::open_with(place, wanted) {
                // The device is reset and begins anew.
                Err(error) if wanted > 1 => {
                    log::warn!("virtio-net at {place}: {error}: one queue pair");
                    Self::open_with(place, 1)
                }
                opened => opened,
            }
        }

        fn open_with(place: &Place<'_>, wanted: usize) -> Result<Vec<Self>, Refusal> {
            let mut device = VirtioDevice::open(place)?;
            if device.transport.device_type() != DeviceType::Network {
                return Err("not a network device");
            }
            let started = DeviceStatus::ACKNOWLEDGE | DeviceStatus::DRIVER;
            device.transport.set_status(DeviceStatus::empty());
            device.transport.set_status(started);

            let offered = device.transport.read_device_features();
            if offered & feature::VERSION_1 == 0 {
                return Err("a legacy device: it needs disable-legacy=on or a newer hypervisor");
            }
            // Checksums: for frames from and to the same host nobody need compute them at all.
            let mut features = feature::CSUM | feature::GUEST_CSUM;
            // A packet is cut up where its checksums are completed.
            if offered & feature::CSUM != 0 {
                features |= feature::HOST_TSO4;
            }
            features |= feature::MAC | feature::STATUS | feature::VERSION_1 | feature::ACCESS_PLATFORM;
            // Accepting the MTU would oblige us to receive packets as large as it is, and the buffers end at 1500.
            let mtu = device.transport.read_config_space::<u16>(config::MTU).unwrap_or(0);
            if offered & feature::MTU != 0 && (MIN_MTU..=MAX_MTU).contains(&mtu) {
                features |= feature::MTU;
            }
            let most = most_pairs(&device, offered);
            let vectors_allow = device.vectors().saturating_sub(1);
            let count = wanted.min(most.into()).min(vectors_allow).min(affordable_pairs()).max(1);
            if count > 1 {
                features |= feature::CTRL_VQ | feature::MQ;
            }
            let accepted = offered & features;
            device.transport.write_driver_features(accepted);
            device.transport.set_status(started | DeviceStatus::FEATURES_OK);
            if !device.transport.get_status().contains(DeviceStatus::FEATURES_OK) {
                return Err("the device refuses the features it offered");
            }

            let shared: &'static [Shared] = Vec::leak(
                (0..count)
                    .map(|_| Shared {
                        interrupts: AtomicU64::new(0),
                        config_changed: AtomicBool::new(false),
                        status: device.status(),
                    })
                    .collect(),
            );
            let args: Vec<usize> = shared.iter().map(|shared| core::ptr::from_ref(shared) as usize).collect();
            let interrupts = if device.use_msix(&args, Shared::on_queue, Shared::on_config) {
                "MSI-X"
            } else if count > 1 {
                return Err("no interrupt for each CPU");
            } else {
                device.use_line(Shared::on_line, args[0]).unwrap_or("none")
            };

            let mac = if accepted & feature::MAC != 0 {
                device
                    .transport
                    .read_consistent(|| device.transport.read_config_space::<[u8; 6]>(config::MAC))
                    .map_err(failed)?
            } else {
                local_mac()
            };
            let link_up: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(true)));
            let segments = accepted & feature::HOST_TSO4 != 0;
            let large = if segments { large_buffers() } else { 0 };
            let mut pairs = Vec::new();
            for (index, shared) in shared.iter().enumerate() {
                let (receive, transmit) = (2 * index as u16, 2 * index as u16 + 1);
                let doorbell = |device: &VirtioDevice, queue| {
                    // SAFETY: the register is this queue's doorbell, mapped for good.
                    device.doorbell(queue).map(|bell| unsafe { Doorbell::new(bell, queue) }).ok_or("no doorbell")
                };
                let bell = doorbell(&device, receive)?;
                let vouches = accepted & feature::GUEST_CSUM != 0;
                let rx = RxRing::new(&mut device.transport, receive, bell, vouches).map_err(no_queue)?;
                let bell = doorbell(&device, transmit)?;
                let tx = TxRing::new(&mut device.transport, transmit, bell, large).map_err(no_queue)?;
                pairs.push(Self {
                    rx,
                    tx,
                    control: None,
                    shared,
                    link_up,
                    mac,
                    mtu: if accepted & feature::MTU != 0 { mtu } else { MAX_MTU },
                    completes_checksums: accepted & feature::CSUM != 0,
                    segments,
                    interrupts,
                    counters: Counters::default(),
                });
            }
            let mut commands = match count {
                1 => None,
                _ => Some(VirtQueue::new(&mut device.transport, 2 * most, false, false).map_err(failed)?),
            };
            device.transport.finish_init();
            if let Some(queue) = &mut commands {
                set_pairs(&mut device, queue, 2 * most, count as u16)?;
            }
            let control = Control { device, has_status: accepted & feature::STATUS != 0 };
            control.read_link(link_up);
            pairs[0].control = Some(control);
            pairs.iter_mut().for_each(|pair| pair.rx.flush());
            // Its memory stays the device's.
            core::mem::forget(commands);
            Ok(pairs)
        }

        #[inline]
        fn count_sent<R>(&mut self, len: usize, sent: Option<R>) -> Option<R> {
            if sent.is_some() {
                self.counters.tx_frames += 1;
                self.counters.tx_bytes += len as u64;
            } else if len <= MAX_FRAME {
                self.counters.tx_full += 1;
            }
            sent
        }

        /// The driver's name.
        pub fn name(&self) -> &'static str {
            "virtio-net"
        }

        /// How the device interrupts: "MSI-X", "INTx" or "none", when the loop must look by itself now and then.
        pub fn interrupts(&self) -> &'static str {
            self.interrupts
        }

        /// What happened so far.
        pub fn counters(&self) -> Counters {
            Counters {
                notifications: self.rx.rung() + self.tx.rung(),
                interrupts: self.shared.interrupts.load(Ordering::Relaxed),
                ..self.counters
            }
        }

        /// Whether the device broke its rings and nothing can be received or sent any more.
        pub fn failed(&self) -> bool {
            self.rx.broken() || self.tx.broken()
        }

        /// Whether a received frame is waiting.
        #[inline]
        pub fn pending(&self) -> bool {
            self.rx.pending()
        }

        /// Switches interrupts on before a halt. Returns false, with interrupts off, when there is work already. To be called
        /// with the CPU's interrupts masked until the halt.
        pub fn prepare_wait(&mut self) -> bool {
            if let Some(control) = &self.control
                && self.shared.config_changed.swap(false, Ordering::Relaxed)
            {
                control.read_link(self.link_up);
            }
            if !self.rx.arm() {
                return false;
            }
            if !self.tx.arm_if_full() {
                self.rx.disarm();
                return false;
            }
            true
        }

        /// Switches interrupts off after a halt.
        pub fn finish_wait(&mut self) {
            self.rx.disarm();
            self.tx.disarm();
        }
    }

    impl Control {
        fn read_link(&self, link_up: &AtomicBool) {
            const LINK_UP: u16 = 1;
            if self.has_status {
                let status = self.device.transport.read_config_space::<u16>(config::STATUS).unwrap_or(LINK_UP);
                let up = status & LINK_UP != 0;
                if link_up.swap(up, Ordering::Relaxed) != up {
                    log::warn!("virtio-net: link {}", if up { "up" } else { "down" });
                }
            }
        }
    }

    /// How many queue pairs the device has. The control queue comes behind all of them, used or not.
    fn most_pairs(device: &VirtioDevice, offered: u64) -> u16 {
        const NEEDED: u64 = feature::CTRL_VQ | feature::MQ;
        if offered & NEEDED != NEEDED {
            return 1;
        }
        // 5.1.4: 1 to 0x8000.
        device.transport.read_config_space::<u16>(config::MAX_PAIRS).unwrap_or(1).clamp(1, 0x8000)
    }

    /// How many pairs the memory is large enough for.
    fn affordable_pairs() -> usize {
        (1 + memory::stats().total / MEMORY_SHARE / PAIR_BYTES).min(MAX_PAIRS)
    }

    /// How many buffers for large frames a pair gets.
    fn large_buffers() -> usize {
        (memory::stats().total / LARGE_SHARE / LARGE_STRIDE).min(MAX_LARGE_BUFFERS)
    }

    /// Commands of the control queue (5.1.6.5).
    type ControlQueue = VirtQueue<KernelHal, 2>;

    /// Tells the device to use `count` pairs (5.1.6.5.5).
    fn set_pairs(device: &mut VirtioDevice, queue: &mut ControlQueue, index: u16, count: u16) -> Result<(), Refusal> {
        const MULTIQUEUE: u8 = 4;
        const PAIRS_SET: u8 = 0;
        const OK: u8 = 0;
        const PATIENCE_NS: u64 = 1_000_000_000;
        // Leaked if the device does not answer: it may write there later.
        let [low, high] = count.to_le_bytes();
        let command = Box::leak(Box::new([MULTIQUEUE, PAIRS_SET, low, high]));
        let answer = Box::leak(Box::new([!OK]));
        // SAFETY: both live until the command is popped, and for good when it never is.
        let token = unsafe { queue.add(&[&*command], &mut [&mut *answer]) }.map_err(failed)?;
        device.transport.notify(index);
        let begin = clock::now_ns();
        while !queue.can_pop() {
            if clock::now_ns() - begin > PATIENCE_NS {
                return Err("no answer to the number of queue pairs");
            }
            cpu::relax();
        }
        // SAFETY: these are the buffers that were added under the token.
        unsafe { queue.pop_used(token, &[&*command], &mut [&mut *answer]) }.map_err(failed)?;
        // SAFETY: both were leaked above, and the device is done with them.
        let said = unsafe {
            drop(Box::from_raw(command));
            Box::from_raw(answer)
        };
        if said[0] == OK { Ok(()) } else { Err("the device refuses its number of queue pairs") }
    }

    /// A random address, locally administered, of one station.
    fn local_mac() -> [u8; 6] {
        let mut mac = [0; 6];
        entropy::fill(&mut mac);
        mac[0] = mac[0] & 0xfc | 2;
        mac
    }

    impl Nic for VirtioNet {
        type Frame = Frame;

        fn mac(&self) -> [u8; 6] {
            self.mac
        }

        fn mtu(&self) -> usize {
            usize::from(self.mtu)
        }

        fn link_up(&self) -> bool {
            self.link_up.load(Ordering::Relaxed)
        }

        fn completes_checksums(&self) -> bool {
            self.completes_checksums
        }

        #[inline]
        fn is_verified(&self, frame: &Frame) -> bool {
            frame.verified
        }

        #[inline]
        fn receive(&mut self) -> Option<Frame> {
            let frame = self.rx.receive(&mut self.counters.rx_malformed)?;
            self.counters.rx_frames += 1;
            self.counters.rx_bytes += frame.len() as u64;
            Some(frame)
        }

        #[inline]
        fn recycle(&mut self, frame: Frame) {
            self.rx.recycle(frame);
        }

        #[inline]
        fn transmit<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
            let sent = self.tx.transmit(len, fill);
            self.count_sent(len, sent)
        }

        #[inline]
        fn transmit_tcp<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
            let offload = if self.completes_checksums { Offload::Checksum } else { Offload::None };
            let sent = self.tx.transmit_with(len, offload, fill);
            self.count_sent(len, sent)
        }

        fn max_large(&self) -> usize {
            if self.segments { MAX_LARGE } else { 0 }
        }

        #[inline]
        fn large(&mut self) -> Option<&mut [u8]> {
            self.tx.large()
        }

        fn transmit_large(&mut self, len: usize, headers: usize, mss: usize) -> bool {
            let offload = match (u16::try_from(headers), u16::try_from(mss)) {
                (Ok(headers), Ok(mss)) if len > usize::from(headers) + usize::from(mss) => {
                    Offload::Segment { headers, mss }
                }
                _ if len <= MAX_FRAME => Offload::Checksum,
                _ => return false,
            };
            let sent = self.tx.transmit_large(len, offload).then_some(());
            self.count_sent(len, sent).is_some()
        }

        #[inline]
        fn can_transmit(&mut self) -> bool {
            self.tx.can_transmit()
        }

        fn flush(&mut self) {
            self.tx.flush();
            self.rx.flush();
        }
    }
}
