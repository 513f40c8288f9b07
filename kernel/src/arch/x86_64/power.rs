//! Switching the machine off and resetting it.

use super::{cpu, firmware, paging};
use crate::acpi::{self, Register};
use crate::power::ExitStatus;
use x86_64::instructions::port::Port;

/// QEMU's isa-debug-exit device, at its customary port: writing n ends QEMU with status 2 n + 1.
const DEBUG_EXIT: u16 = 0xf4;
const GRACE_NS: u64 = 1_000_000_000;
const SLEEP_ENABLE: u16 = 1 << 13;

/// Powers off; see [`crate::power::exit`].
pub fn exit(status: ExitStatus) -> ! {
    if status != ExitStatus::Success && cpu::features().hypervisor {
        // SAFETY: under a hypervisor nothing else answers at this port; where nobody does, the write is lost.
        unsafe { Port::<u32>::new(DEBUG_EXIT).write(u32::from(status.code())) };
    }
    acpi_off();
    if firmware::get().fadt.is_none() && cpu::features().hypervisor {
        // A small virtual machine without ACPI (QEMU's microvm, Firecracker) has no switch: its monitor takes a reset for the end.
        reset();
    }
    // The power goes a moment after the write, if it goes.
    let begin = super::time::now_ns();
    for _ in 0..100_000_000 {
        if super::time::now_ns() - begin > GRACE_NS {
            break;
        }
        cpu::relax();
    }
    crate::console::emergency(format_args!("it is safe to switch the machine off\n"));
    loop {
        cpu::halt();
    }
}

fn acpi_off() {
    let Some(fadt) = firmware::get().fadt else { return };
    let (type_a, type_b) = firmware::table(fadt.dsdt).and_then(|(_, dsdt)| acpi::soft_off(dsdt)).unwrap_or((0, 0));
    if let Some(register) = fadt.sleep_control {
        write(register, type_a << 2 | 1 << 5);
    }
    for (port, kind) in [(fadt.pm1a_control, type_a), (fadt.pm1b_control, type_b)] {
        if let Some(port) = port {
            let mut port = Port::<u16>::new(port);
            // SAFETY: the PM1 control block, by the FADT; all work is done.
            unsafe {
                if let Some((command, value)) = fadt.enable.filter(|_| port.read() & 1 == 0) {
                    Port::<u8>::new(command).write(value);
                    for _ in 0..10_000 {
                        if port.read() & 1 != 0 {
                            break;
                        }
                    }
                }
                let keep = port.read() & !(7 << 10);
                port.write(keep | u16::from(kind & 7) << 10 | SLEEP_ENABLE);
            }
        }
    }
}

fn write(register: Register, value: u8) {
    match register {
        // SAFETY: a register that the FADT names for this.
        Register::Port(port) => unsafe { Port::<u8>::new(port).write(value) },
        Register::Memory(at) => {
            if let Some(register) = paging::map_mmio(at, 1) {
                // SAFETY: as above, mapped.
                unsafe { register.write_volatile(value) };
            }
        }
    }
}

/// Resets: the FADT's register, the keyboard controller, and last a fault without a handler.
pub fn reset() -> ! {
    if let Some((register, value)) = firmware::get().fadt.and_then(|fadt| fadt.reset) {
        write(register, value);
    }
    // SAFETY: the keyboard controller's reset line; then an empty descriptor table, so that the exception cannot be
    // delivered and the CPU shuts down, which resets a PC.
    unsafe {
        Port::<u8>::new(0x64).write(0xfe);
        let none = x86_64::structures::DescriptorTablePointer { limit: 0, base: x86_64::VirtAddr::zero() };
        x86_64::instructions::tables::lidt(&none);
        core::arch::asm!("int3");
    }
    loop {
        cpu::halt();
    }
}
