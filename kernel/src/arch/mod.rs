//! The machine-dependent leaves. Each architecture module gives exactly this face; nothing else in the crate asks which
//! architecture it is compiled for.
//!
//! ```text
//! // boot: the arch's entry code enables paging and per-CPU state, fills a boot::BootInfo and calls boot::start(info) -> !.
//! //       boot::start then calls, in this order: console, memory::init, arch::init, time::init, cpu::start_others, PCI.
//! init(info: &'static BootInfo)                firmware tables, interrupt controller, boot CPU's timer; the heap is open
//! console::write(bytes: &[u8])                 polled UART, usable from the first instruction of Rust on, also twice at once
//! console::read() -> Option<u8>
//! cpu::id() -> usize                           0..cpu::MAX_CPUS, dense, 0 is the boot CPU; cheap (gs / tpidr_el1); 0 early on
//! cpu::start_others(wanted: usize) -> usize    starts up to `wanted` - 1 further CPUs, one at a time, each of which calls
//!                                              crate::cpu::secondary(id) -> !; returns how many run, the caller included
//! cpu::wake(id: usize)                         IPI: ends the target's wait_for_interrupt, also when it comes first
//! cpu::stop(id: usize)                         makes the target come to panic::claim or panic::stop_if_over as soon as may be
//! cpu::wait_for_interrupt(deadline_ns: Option<u64>)   called with interrupts masked; sleeps until one is pending or the
//!                                              monotonic deadline passed; opens interrupts around the halt only
//! cpu::relax()                                 pause / yield
//! cpu::halt()                                  halts for good unless the machine says otherwise; interrupts stay masked
//! cpu::backtrace(f: &mut dyn FnMut(usize))     return addresses of the caller, innermost first, by frame pointers
//! time::init(), time::now_ns() -> u64          monotonic since boot, same on all CPUs; 0 before init
//! time::unix_seconds() -> Option<u64>          CMOS / PL031
//! entropy::hardware() -> Option<u64>           RDSEED/RDRAND, RNDR
//! entropy::jitter() -> u64                     a cycle counter's value
//! irq::Line                                    Copy; irq::Line::msi(&self) -> Option<(u64, u32)>: address and data to program
//!                                              into an MSI-X table entry, delivered to the line's CPU
//! irq::allocate_msi(device: DeviceFunction, cpu: usize, handler: fn(usize), arg: usize) -> Option<Line>
//! irq::intx(device: DeviceFunction, pin: u8, handler: fn(usize), arg: usize) -> Option<Line>   level-triggered legacy line
//! irq::line(number: u32, edge: bool, handler: fn(usize), arg: usize) -> Option<Line>   a line by its number
//!                                              (all keep their handlers with crate::irq::register and ::dispatch)
//! memory::phys_to_virt(phys: u64) -> *mut u8   the direct map: all RAM, readable and writable, never executable
//! memory::virt_to_phys(virt: *const u8) -> u64 for the direct map and the kernel image
//! memory::map_mmio(phys: u64, len: usize) -> Option<NonNull<u8>>   uncached; the same range twice gives the same address
//! memory::make_window(bytes: usize) -> Option<Range<usize>>   addresses for the heap's window, without pages
//! memory::Tables: barium_heap::Mapper          maps the heap's frames there
//! memory::quiescent()                          this CPU holds no address of memory that was freed; cheap
//! pci::Config: Copy + ConfigurationAccess, pci::config() -> Option<Config>    ECAM (from MCFG / device tree) or legacy ports
//! pci::windows() -> crate::pci::Windows        bus address ranges for BARs and bridges that the firmware left unassigned
//! virtio_slots(info: &BootInfo) -> Vec<virtio::slot::Slot>   where memory-mapped virtio devices may be
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
