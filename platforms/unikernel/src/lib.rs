//! The unikernel: the loop that feeds the stack from the NIC and the engine from the stack.
#![no_std]
// On a host there is no machine to run on; `platforms/host` has its own loop.
#![cfg(target_os = "none")]

use barium_kernel::boot::Machine;
use barium_kernel::{announce, cpu};

/// Runs on the boot CPU when the machine is up.
pub fn run(machine: &'static Machine) -> ! {
    announce!(
        "Barium {}: {} CPUs, {} MiB of RAM",
        env!("CARGO_PKG_VERSION"),
        machine.cpus,
        machine.boot.ram.total() >> 20
    );
    loop {
        cpu::wait_for_interrupt(None);
    }
}
