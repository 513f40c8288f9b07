//! The virtio network device (5.1): one receive and one transmit queue.
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
    use core::ptr::NonNull;
    use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use barium_nic::Nic;
    use virtio_drivers::transport::{DeviceStatus, DeviceType, Transport};

    use super::super::KernelHal;
    use super::super::pci::{VENDOR, VirtioPci};
    use super::rings::{Doorbell, Frame, MAX_FRAME, RxRing, TxRing};
    use crate::entropy;
    use crate::pci::Device;

    const RECEIVE: u16 = 0;
    const TRANSMIT: u16 = 1;

    /// Feature bits (5.1.3 and 6).
    mod feature {
        pub const CSUM: u64 = 1;
        pub const GUEST_CSUM: u64 = 1 << 1;
        pub const MTU: u64 = 1 << 3;
        pub const MAC: u64 = 1 << 5;
        pub const STATUS: u64 = 1 << 16;
        pub const VERSION_1: u64 = 1 << 32;
        /// Device addresses may go through something; here nothing stands in between, so that accepting it is enough.
        pub const ACCESS_PLATFORM: u64 = 1 << 33;
    }

    /// Offsets in the configuration space (5.1.4).
    mod config {
        pub const MAC: usize = 0;
        pub const STATUS: usize = 6;
        pub const MTU: usize = 10;
    }

    /// Largest IP packet of the buffers, and what IPv4 asks of every link (RFC 791).
    const MAX_MTU: u16 = 1500;
    const MIN_MTU: u16 = 68;

    /// Whether the function is a virtio network device, modern or transitional.
    pub fn matches(device: &Device) -> bool {
        device.vendor == VENDOR && matches!(device.device, 0x1000 | 0x1041)
    }

    /// What handlers and driver share; never freed, for handlers stay registered.
    struct Shared {
        interrupts: AtomicU64,
        config_changed: AtomicBool,
        /// For the pin: the register whose read releases it.
        isr: Option<NonNull<u8>>,
    }

    // SAFETY: the register may be read on any CPU.
    unsafe impl Sync for Shared {}

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

        fn on_pin(arg: usize) {
            let shared = Self::of(arg);
            // SAFETY: the register is mapped for good; reading it acknowledges the interrupt.
            let status = shared.isr.map_or(0, |isr| unsafe { isr.read_volatile() });
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

    /// A running device.
    pub struct VirtioNet {
        rx: RxRing<KernelHal>,
        tx: TxRing<KernelHal>,
        pci: VirtioPci,
        shared: &'static Shared,
        mac: [u8; 6],
        mtu: u16,
        completes_checksums: bool,
        has_status: bool,
        link_up: bool,
        interrupts: &'static str,
        counters: Counters,
    }

    impl VirtioNet {
        /// Sets the device up (3.1.1).
        pub fn open(device: &Device) -> Result<Box<Self>, &'static str> {
            let mut pci = VirtioPci::open(device)?;
            if pci.transport.device_type() != DeviceType::Network {
                return Err("not a network device");
            }
            let started = DeviceStatus::ACKNOWLEDGE | DeviceStatus::DRIVER;
            pci.transport.set_status(DeviceStatus::empty());
            pci.transport.set_status(started);

            let offered = pci.transport.read_device_features();
            if offered & feature::VERSION_1 == 0 {
                return Err("a legacy device: it needs disable-legacy=on or a newer hypervisor");
            }
            // Checksums: for frames from and to the same host nobody need compute them at all.
            let mut wanted = feature::CSUM | feature::GUEST_CSUM;
            wanted |= feature::MAC | feature::STATUS | feature::VERSION_1 | feature::ACCESS_PLATFORM;
            // Accepting the MTU would oblige us to receive packets as large as it is, and the buffers end at 1500.
            let mtu = pci.transport.read_config_space::<u16>(config::MTU).unwrap_or(0);
            if offered & feature::MTU != 0 && (MIN_MTU..=MAX_MTU).contains(&mtu) {
                wanted |= feature::MTU;
            }
            let accepted = offered & wanted;
            pci.transport.write_driver_features(accepted);
            pci.transport.set_status(started | DeviceStatus::FEATURES_OK);
            if !pci.transport.get_status().contains(DeviceStatus::FEATURES_OK) {
                return Err("the device refuses the features it offered");
            }

            let shared: &'static Shared = Box::leak(Box::new(Shared {
                interrupts: AtomicU64::new(0),
                config_changed: AtomicBool::new(false),
                isr: pci.isr(),
            }));
            let arg = core::ptr::from_ref(shared) as usize;
            let interrupts = if pci.use_msix(&[RECEIVE, TRANSMIT], Shared::on_queue, Shared::on_config, arg) {
                "MSI-X"
            } else if pci.use_pin(Shared::on_pin, arg) {
                "INTx"
            } else {
                "none"
            };

            let doorbell = |pci: &VirtioPci, queue| {
                // SAFETY: the register is this queue's doorbell, mapped for good.
                pci.doorbell(queue).map(|register| unsafe { Doorbell::new(register, queue) }).ok_or("no doorbell")
            };
            let failed = |error| {
                log::error!("virtio-net: {error}");
                "no queues"
            };
            let bell = doorbell(&pci, RECEIVE)?;
            let rx =
                RxRing::new(&mut pci.transport, RECEIVE, bell, accepted & feature::GUEST_CSUM != 0).map_err(failed)?;
            let bell = doorbell(&pci, TRANSMIT)?;
            let tx = TxRing::new(&mut pci.transport, TRANSMIT, bell).map_err(failed)?;
            let mac = if accepted & feature::MAC != 0 {
                pci.transport
                    .read_consistent(|| pci.transport.read_config_space::<[u8; 6]>(config::MAC))
                    .map_err(failed)?
            } else {
                local_mac()
            };
            pci.transport.finish_init();

            let mut nic = Box::new(Self {
                rx,
                tx,
                pci,
                shared,
                mac,
                mtu: if accepted & feature::MTU != 0 { mtu } else { MAX_MTU },
                completes_checksums: accepted & feature::CSUM != 0,
                has_status: accepted & feature::STATUS != 0,
                link_up: true,
                interrupts,
                counters: Counters::default(),
            });
            nic.read_link();
            nic.rx.flush();
            Ok(nic)
        }

        fn read_link(&mut self) {
            if self.has_status {
                const LINK_UP: u16 = 1;
                let status = self.pci.transport.read_config_space::<u16>(config::STATUS).unwrap_or(LINK_UP);
                let up = status & LINK_UP != 0;
                if up != self.link_up {
                    log::warn!("virtio-net: link {}", if up { "up" } else { "down" });
                    self.link_up = up;
                }
            }
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
            if self.shared.config_changed.swap(false, Ordering::Relaxed) {
                self.read_link();
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
            self.link_up
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
            let sent = self.tx.transmit_with(len, self.completes_checksums, fill);
            self.count_sent(len, sent)
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
