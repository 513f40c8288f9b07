//! Virtio devices (Virtual I/O Device 1.2), on the queue and transport types of `virtio-drivers`.

#[cfg(target_os = "none")]
pub mod bus;
#[cfg(target_os = "none")]
mod mmio;
pub mod net;
#[cfg(target_os = "none")]
mod pci;
pub mod slot;

use core::ptr::NonNull;

/// The register of a doorbell.
#[derive(Clone, Copy, Debug)]
pub enum Register {
    /// Over PCI, a half word (4.1.4.4).
    Half(NonNull<u16>),
    /// Over MMIO, a word (4.2.2, `QueueNotify`).
    Word(NonNull<u32>),
}

#[cfg(target_os = "none")]
mod hal {
    use core::ptr::NonNull;

    use virtio_drivers::{BufferDirection, Hal, PAGE_SIZE, PhysAddr};

    use crate::{arch, memory};

    /// What the virtio types need of the kernel. Device addresses are physical addresses: there is no IOMMU in front.
    #[derive(Debug)]
    pub struct KernelHal;

    // SAFETY: frames come from the heap, zeroed, and are nobody else's; registers are mapped for good.
    unsafe impl Hal for KernelHal {
        fn dma_alloc(pages: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
            let len = pages * PAGE_SIZE;
            match memory::allocate_dma(len, PAGE_SIZE) {
                Some((physical, start)) => {
                    // SAFETY: the frames were just taken, so these bytes are this caller's.
                    unsafe { start.write_bytes(0, len) };
                    (physical, start)
                }
                // Address 0 is how the queue types are told of a failure.
                None => (0, NonNull::dangling()),
            }
        }

        unsafe fn dma_dealloc(physical: PhysAddr, _: NonNull<u8>, pages: usize) -> i32 {
            // SAFETY: the caller gives up what `dma_alloc` returned.
            unsafe { memory::free_frames(physical, pages) };
            0
        }

        unsafe fn mmio_phys_to_virt(physical: PhysAddr, size: usize) -> NonNull<u8> {
            // The caller mapped the whole BAR before (see `pci::Capabilities::find`); mapping it again cannot fail.
            arch::memory::map_mmio(physical, size).unwrap_or_else(|| panic!("device registers at {physical:#x}"))
        }

        unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
            arch::memory::virt_to_phys(buffer.cast::<u8>().as_ptr())
        }

        unsafe fn unshare(_: PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {}
    }
}

#[cfg(target_os = "none")]
pub use hal::KernelHal;
