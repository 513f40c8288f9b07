//! `barium-kernel`: boot, CPUs, memory, interrupts, clock, entropy, log, PCI, drivers. All unsafe code lives here.
//!
//! Knows nothing of RESP or TCP. Above it, a platform's binary exports `barium_main`, which [`boot::start`] calls once the
//! machine is up. Below it, [`arch`] is the only module that differs between machines.
//!
//! On a host target only the parts without hardware are compiled: those are the ones that unit tests reach.
#![cfg_attr(target_os = "none", no_std)]

// A kernel turns addresses into pointers; on these targets usize and u64 are the same.
extern crate alloc;

pub mod acpi;
#[cfg(target_os = "none")]
pub mod arch;
pub mod boot;
pub mod calendar;
#[cfg(target_os = "none")]
pub mod clock;
pub mod cmdline;
#[cfg(target_os = "none")]
pub mod console;
#[cfg(target_os = "none")]
pub mod cpu;
pub mod drivers;
#[cfg(target_os = "none")]
pub mod entropy;
#[cfg(target_os = "none")]
pub mod irq;
#[cfg(target_os = "none")]
pub mod memory;
pub mod mptable;
#[cfg(target_os = "none")]
mod panic;
#[cfg(target_os = "none")]
pub mod pci;
pub mod power;
pub mod region;
#[cfg(target_os = "none")]
mod selftest;
// The unit tests of code that does not need the machine it is for.
#[cfg(all(test, target_arch = "x86_64"))]
#[path = "arch/x86_64/mem.rs"]
mod x86_64_mem;
