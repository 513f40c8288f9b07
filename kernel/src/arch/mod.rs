//! The machine-dependent leaves. Each architecture module gives exactly this face; nothing else in the crate asks which
//! architecture it is compiled for.
//!
//! ```text
//! // boot: the arch's entry code enables paging and per-CPU state, fills a boot::BootInfo and calls boot::start(info) -> !
//! console::write(bytes: &[u8])                 polled UART, usable from the first instruction of Rust on
//! console::read() -> Option<u8>
//! cpu::id() -> usize                           0..cpu::MAX_CPUS, dense, 0 is the boot CPU; cheap (gs / tpidr_el1)
//! cpu::start_others(wanted: usize) -> usize    starts up to `wanted` - 1 further CPUs, each of which calls cpu::secondary(id) -> !
//! cpu::wake(id: usize)                         IPI: ends the target's wait_for_interrupt, also when it comes first
//! cpu::wait_for_interrupt(deadline_ns: Option<u64>)   called with interrupts masked; sleeps until one is pending or the
//!                                              monotonic deadline passed; opens interrupts around the halt only
//! cpu::relax()                                 pause / yield
//! cpu::backtrace(f: &mut dyn FnMut(usize))     return addresses, innermost first, by frame pointers
//! time::init(), time::now_ns() -> u64          monotonic since boot, same on all CPUs
//! time::unix_seconds() -> Option<u64>          CMOS / PL031
//! entropy::hardware() -> Option<u64>           RDRAND/RDSEED, RNDR
//! irq::allocate(handler: fn(usize), arg: usize) -> Option<irq::Line>     a vector (x86) / SPI or MSI (arm)
//! irq::Line::msi(&self) -> Option<(u64, u32)>  address and data to program into an MSI-X table entry for this CPU
//! irq::intx(device: pci location, pin) -> Option<irq::Line>   level-triggered legacy line
//! memory::{phys_to_virt, virt_to_phys, map_mmio(phys, len) -> NonNull<u8>, protect ...}
//! pci::config_space() -> PciConfig             ECAM base (from MCFG / device tree) or legacy ports
//! power::exit(status: ExitStatus) -> !         success: ACPI/PSCI power-off; failure: a status that QEMU returns
//! power::reset() -> !
//! ```

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use self::aarch64::*;
#[cfg(target_arch = "x86_64")]
pub use self::x86_64::*;
