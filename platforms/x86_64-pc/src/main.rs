//! The PC image: QEMU's q35 and real machines. Devices are found at run time, so that there is one image.
#![no_std]
#![no_main]

use barium_kernel::boot::Machine;

#[unsafe(no_mangle)]
extern "Rust" fn barium_main(machine: &'static Machine) -> ! {
    barium_unikernel::run(machine)
}
