//! CPUs: who am I, start-up by PSCI, idling, wake-up by a software-generated interrupt, and walks of the stack.

use super::{entry, exceptions, gic, hardware, irq, memory, power, sysreg, time};
use crate::cpu::MAX_CPUS;
use core::sync::atomic::{AtomicUsize, Ordering};

/// What belongs to one CPU. TPIDR_EL1 points to it; the entry and vector code read the first two fields.
#[repr(C)]
pub(super) struct PerCpu {
    exception_stack: AtomicUsize,
    stack: AtomicUsize,
    id: AtomicUsize,
}

static PER_CPU: [PerCpu; MAX_CPUS] =
    [const { PerCpu { exception_stack: AtomicUsize::new(0), stack: AtomicUsize::new(0), id: AtomicUsize::new(0) } };
        MAX_CPUS];

/// What a starting CPU reads with its MMU off; the entry code knows the layout.
#[repr(C)]
struct SecondaryStart {
    lower_tables: u64,
    upper_tables: u64,
    per_cpu: *const PerCpu,
}

/// How long a CPU may take from CPU_ON until it runs, before it is given up.
const START_PATIENCE_NS: u64 = 2_000_000_000;

unsafe extern "C" {
    static __exception_stack_end: u8;
    static __boot_stack_end: u8;
    static __secondary_start: u8;
}

/// Gives the boot CPU its per-CPU area.
pub(super) fn init_boot() {
    PER_CPU[0].exception_stack.store((&raw const __exception_stack_end) as usize, Ordering::Relaxed);
    PER_CPU[0].stack.store((&raw const __boot_stack_end) as usize, Ordering::Relaxed);
    adopt(&PER_CPU[0], 0);
}

/// Makes an area this CPU's.
fn adopt(area: &'static PerCpu, id: usize) {
    area.id.store(id, Ordering::Relaxed);
    // SAFETY: TPIDR_EL1 is for the kernel's use, and TPIDRRO_EL0 repeats the id where one instruction reads it.
    unsafe {
        sysreg::write!("tpidr_el1", (&raw const *area) as u64);
        sysreg::write!("tpidrro_el0", id as u64);
    }
}

/// This CPU's dense id. Zero before [`init_boot`]: the entry code clears the register.
#[inline(always)]
pub fn id() -> usize {
    sysreg::read!("tpidrro_el0") as usize
}

/// This CPU's affinity, as the device tree and the interrupt controller write it.
pub(super) fn affinity() -> u64 {
    sysreg::read!("mpidr_el1") & 0xff_00ff_ffff
}

/// A hint inside a spin.
#[inline]
pub fn relax() {
    sysreg::spin_hint();
}

/// Halts with interrupts masked.
pub fn halt() {
    sysreg::wfi();
}

/// Halts until an interrupt is pending or the monotonic clock reaches `deadline_ns`, then handles what is pending.
/// WFI ends on an interrupt that is pending though masked, so nothing is lost between the caller's last check and the halt,
/// and nothing is ever taken as an exception: the handlers are called from here.
pub fn wait_for_interrupt(deadline_ns: Option<u64>) {
    if let Some(deadline) = deadline_ns {
        time::set_deadline(deadline);
    }
    // What this CPU stored must be on its way before it sleeps.
    sysreg::dsb_sy();
    sysreg::wfi();
    if deadline_ns.is_some() {
        time::clear_deadline();
        sysreg::isb();
    }
    irq::handle_pending();
}

/// Ends the present or the next wait of a CPU. What was stored before is seen by it after.
pub fn wake(id: usize) {
    // The interrupt must not overtake the stores that it tells of.
    sysreg::dsb_ishst();
    gic::send_wake(id);
}

/// Ends the present wait of a CPU, so that it looks whether another one has failed. One that runs looks at the end of its
/// turn: interrupts are never taken as exceptions.
pub fn stop(id: usize) {
    wake(id);
}

/// Starts CPUs one at a time until `wanted` run; returns how many do.
pub fn start_others(wanted: usize) -> usize {
    let hardware = hardware::get();
    let mut running = 1;
    for &mpidr in hardware.cpus[..hardware.cpu_count].iter().filter(|mpidr| **mpidr != affinity()) {
        if running >= wanted {
            break;
        }
        match start(running, mpidr) {
            Ok(()) => running += 1,
            Err(reason) => log::error!("CPU {mpidr:#x} does not start: {reason}"),
        }
    }
    running
}

fn start(id: usize, mpidr: u64) -> Result<(), &'static str> {
    let area = &PER_CPU[id];
    let (exception_stack, stack) = memory::new_stacks(id).ok_or("no memory for its stacks")?;
    area.exception_stack.store(exception_stack, Ordering::Relaxed);
    area.stack.store(stack, Ordering::Relaxed);
    area.id.store(id, Ordering::Relaxed);
    let (lower_tables, upper_tables) = memory::secondary_tables();
    let context = SecondaryStart { lower_tables, upper_tables, per_cpu: area };
    sysreg::clean_to_memory((&raw const context).cast(), size_of::<SecondaryStart>());
    let entry = memory::virt_to_phys(&raw const __secondary_start);
    power::cpu_on(mpidr, entry, memory::virt_to_phys((&raw const context).cast())).map_err(|_| "refused by PSCI")?;
    let limit = time::now_ns() + START_PATIENCE_NS;
    while crate::cpu::online() <= id {
        if time::now_ns() > limit {
            // It may still come up and read its context, which lives on this stack: there is no way on but to stop.
            panic!("CPU {mpidr:#x} was started and never arrived");
        }
        relax();
    }
    Ok(())
}

/// A further CPU, on its own stack, from the entry code.
pub(super) extern "C" fn secondary_entry(area: &'static PerCpu) -> ! {
    let id = area.id.load(Ordering::Relaxed);
    memory::enforce();
    adopt(area, id);
    exceptions::init();
    gic::init_cpu(id);
    crate::cpu::secondary(id)
}

/// Return addresses of the caller and its callers.
pub fn backtrace(see: &mut dyn FnMut(usize)) {
    let frame: usize;
    // SAFETY: reads the frame pointer.
    unsafe { core::arch::asm!("mov {}, x29", out(reg) frame, options(nomem, nostack, preserves_flags)) };
    walk_frames(frame, see);
}

/// Follows frame records (AAPCS64: the caller's x29, then the return address) from `frame` outwards, as long as they are
/// readable and rise.
pub(super) fn walk_frames(mut frame: usize, see: &mut dyn FnMut(usize)) {
    while memory::is_readable(frame) && memory::is_readable(frame + 8) {
        // SAFETY: both words were just found readable and aligned.
        let [next, address] = unsafe { (frame as *const [usize; 2]).read() };
        if address == 0 {
            return;
        }
        see(address);
        if next <= frame || next - frame > entry::BOOT_STACK_BYTES {
            return;
        }
        frame = next;
    }
}
