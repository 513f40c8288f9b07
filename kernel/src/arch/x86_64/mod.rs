//! The x86_64 machine.
#![allow(missing_docs, reason = "the face is documented in arch/mod.rs")]

use crate::boot::BootInfo;

pub(crate) fn init(_info: &'static BootInfo) {}

pub mod console {
    pub fn write(_bytes: &[u8]) {}
    pub fn read() -> Option<u8> {
        None
    }
}

pub mod cpu {
    pub fn id() -> usize {
        0
    }
    pub fn start_others(_wanted: usize) -> usize {
        1
    }
    pub fn wake(_id: usize) {}
    pub fn wait_for_interrupt(_deadline_ns: Option<u64>) {}
    pub fn relax() {
        core::hint::spin_loop();
    }
    pub fn halt() {}
    pub fn backtrace(_f: &mut dyn FnMut(usize)) {}
}

pub mod time {
    pub fn init() {}
    pub fn now_ns() -> u64 {
        0
    }
    pub fn unix_seconds() -> Option<u64> {
        None
    }
}

pub mod entropy {
    pub fn hardware() -> Option<u64> {
        None
    }
    pub fn jitter() -> u64 {
        0
    }
}

pub mod irq {
    use virtio_drivers::transport::pci::bus::DeviceFunction;

    #[derive(Clone, Copy, Debug)]
    pub struct Line;
    impl Line {
        pub fn msi(&self) -> Option<(u64, u32)> {
            None
        }
    }
    pub fn allocate_msi(_device: DeviceFunction, _handler: fn(usize), _arg: usize) -> Option<Line> {
        None
    }
    pub fn intx(_device: DeviceFunction, _pin: u8, _handler: fn(usize), _arg: usize) -> Option<Line> {
        None
    }
}

pub mod memory {
    use core::ptr::NonNull;

    pub fn phys_to_virt(phys: u64) -> *mut u8 {
        phys as *mut u8
    }
    pub fn virt_to_phys(virt: *const u8) -> u64 {
        virt as u64
    }
    pub fn map_mmio(phys: u64, _len: usize) -> Option<NonNull<u8>> {
        NonNull::new(phys as *mut u8)
    }
}

pub mod pci {
    use virtio_drivers::transport::pci::bus::{ConfigurationAccess, DeviceFunction};

    #[derive(Clone, Copy, Debug)]
    pub struct Config;
    impl ConfigurationAccess for Config {
        fn read_word(&self, _at: DeviceFunction, _offset: u8) -> u32 {
            u32::MAX
        }
        fn write_word(&mut self, _at: DeviceFunction, _offset: u8, _data: u32) {}
        unsafe fn unsafe_clone(&self) -> Self {
            *self
        }
    }
    pub fn config() -> Option<Config> {
        None
    }
    pub fn windows() -> crate::pci::Windows {
        crate::pci::Windows::default()
    }
}

pub mod power {
    use crate::power::ExitStatus;

    pub fn exit(_status: ExitStatus) -> ! {
        loop {
            super::cpu::halt();
        }
    }
    pub fn reset() -> ! {
        loop {
            super::cpu::halt();
        }
    }
}
