//! Device drivers, and the list of those that are looked for.
//!
//! A new driver is one folder here and one line in its probe list.

#[cfg(target_os = "none")]
pub mod mmio;
#[cfg(target_os = "none")]
mod msix;
pub mod virtio;

#[cfg(target_os = "none")]
use alloc::boxed::Box;

#[cfg(target_os = "none")]
use crate::boot::Machine;

/// The network device that the platform drives. One kind for now; another becomes a variant.
#[cfg(target_os = "none")]
pub type Net = virtio::net::VirtioNet;

/// Brings up the first network device that a driver knows. What keeps a device from working is logged.
#[cfg(target_os = "none")]
pub fn probe_net(machine: &Machine) -> Option<Box<Net>> {
    machine.pci.iter().find_map(|device| {
        if !virtio::net::matches(device) {
            return None;
        }
        match virtio::net::VirtioNet::open(device) {
            Ok(nic) => Some(nic),
            Err(error) => {
                log::error!("virtio-net at {}: {error}", device.at);
                None
            }
        }
    })
}

/// Accesses of memory that a device shares before it come before those after it, as the device sees them. On aarch64 the
/// language's own fences reach as far as the CPUs do, the inner shareable domain, and devices may lie outside.
#[inline]
pub fn device_fence() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction only orders memory accesses; the compiler moves none over it.
    unsafe {
        core::arch::asm!("dmb osh", options(nostack, preserves_flags))
    };
    #[cfg(not(target_arch = "aarch64"))]
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}
