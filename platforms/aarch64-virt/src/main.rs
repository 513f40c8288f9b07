//! The aarch64 image: QEMU's `virt` machine and its like. The kernel brings the machine up; the rest is common to all boards.
#![no_std]
#![no_main]

use barium_kernel::boot::Machine;

/// The kernel's call when the machine is up.
#[unsafe(no_mangle)]
extern "Rust" fn barium_main(machine: &'static Machine) -> ! {
    barium_unikernel::run(machine)
}
