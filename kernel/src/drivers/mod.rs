//! Device drivers, and the list of those that are looked for.
//!
//! A new driver is one folder here and one line in its probe list.

#[cfg(target_os = "none")]
pub mod mmio;
#[cfg(target_os = "none")]
mod msix;
pub mod virtio;

#[cfg(target_os = "none")]
use alloc::{boxed::Box, vec::Vec};

#[cfg(target_os = "none")]
use crate::arch;
#[cfg(target_os = "none")]
use crate::boot::Machine;
#[cfg(target_os = "none")]
use virtio::bus::Place;

/// The network device that the platform drives. One kind for now; another becomes a variant.
#[cfg(target_os = "none")]
pub type Net = virtio::net::VirtioNet;

/// Brings up the first network device that a driver knows, as one or more independent queue pairs: the n-th interrupts CPU n
/// and is to be driven there. There are `wanted` of them (CPUs that will drive one) if device and memory have as many, fewer
/// otherwise, and none without a device. What keeps a device from working is logged.
#[cfg(target_os = "none")]
pub fn probe_net(machine: &Machine, wanted: usize) -> Vec<Box<Net>> {
    let wanted = wanted.clamp(1, machine.cpus);
    let open = |place: Place<'_>| {
        if !virtio::net::matches(&place) {
            return None;
        }
        let opened = virtio::net::VirtioNet::open(&place, wanted);
        opened.map_err(|error| log::error!("virtio-net at {place}: {error}")).ok()
    };
    let on_pci = machine.pci.iter().map(Place::Pci).find_map(open);
    // Slots are looked at last: most are empty, and each look costs.
    let opened = on_pci.or_else(|| arch::virtio_slots(machine.boot).iter().map(Place::Mmio).find_map(open));
    opened.unwrap_or_default().into_iter().map(Box::new).collect()
}

/// Writes to memory that a device shares before it come before those after it, as the device sees them.
#[inline]
pub fn device_write_fence() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction only orders memory accesses; the compiler moves none over it.
    unsafe {
        core::arch::asm!("dmb oshst", options(nostack, preserves_flags))
    };
    // x86 orders writes among themselves: only the compiler is told.
    #[cfg(not(target_arch = "aarch64"))]
    core::sync::atomic::fence(core::sync::atomic::Ordering::Release);
}

/// Reads of memory that a device shares before it come before those after it.
#[inline]
pub fn device_read_fence() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction only orders memory accesses; the compiler moves none over it.
    unsafe {
        core::arch::asm!("dmb oshld", options(nostack, preserves_flags))
    };
    #[cfg(not(target_arch = "aarch64"))]
    core::sync::atomic::fence(core::sync::atomic::Ordering::Acquire);
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
