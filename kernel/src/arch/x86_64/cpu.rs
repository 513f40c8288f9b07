//! What each CPU has of its own, its features, and how it idles.

use super::{apic, exception, paging, time, window};
use crate::cpu::MAX_CPUS;
use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::registers::control::{Cr4, Cr4Flags};
use x86_64::registers::model_specific::GsBase;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable};
use x86_64::structures::tss::TaskStateSegment;

/// Features that code asks for at run time, as bits of one word: [`Features`] reads them.
static FEATURES: AtomicU32 = AtomicU32::new(0);

/// Features of the boot CPU; the others are taken to have the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Features {
    pub(super) no_execute: bool,
    pub(super) gigabyte_pages: bool,
    pub(super) x2apic: bool,
    pub(super) tsc_deadline: bool,
    pub(super) rdrand: bool,
    pub(super) rdseed: bool,
    pub(super) hypervisor: bool,
}

/// What CPUID said at boot; before that, nothing is there.
pub(super) fn features() -> Features {
    let bits = FEATURES.load(Ordering::Relaxed);
    let has = |bit: u32| bits & (1 << bit) != 0;
    Features {
        no_execute: has(0),
        gigabyte_pages: has(1),
        x2apic: has(2),
        tsc_deadline: has(3),
        rdrand: has(4),
        rdseed: has(5),
        hypervisor: has(6),
    }
}

/// Whether this is QEMU's own emulator.
static EMULATED: AtomicBool = AtomicBool::new(false);

fn read_features() {
    let basic = __cpuid(1);
    let extended = if __cpuid(0x8000_0000).eax >= 0x8000_0001 { __cpuid(0x8000_0001).edx } else { 0 };
    let structured = if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
    let bit = |word: u32, bit: u32| word >> bit & 1;
    let bits = [
        bit(extended, 20),
        bit(extended, 26),
        bit(basic.ecx, 21),
        bit(basic.ecx, 24),
        bit(basic.ecx, 30),
        bit(structured, 18),
        bit(basic.ecx, 31),
    ];
    let signature = __cpuid(0x4000_0000);
    let emulated =
        [signature.ebx, signature.ecx, signature.edx].map(u32::to_le_bytes).as_flattened() == b"TCGTCGTCGTCG";
    EMULATED.store(bit(basic.ecx, 31) != 0 && emulated, Ordering::Relaxed);
    FEATURES.store(bits.iter().rev().fold(0, |word, bit| word << 1 | bit), Ordering::Relaxed);
}

/// A CPU's own data; the GS base points to it. `id` is read by its offset.
#[repr(C)]
pub struct Area {
    /// Dense number of the CPU.
    id: usize,
    /// Its local APIC's number.
    apic_id: u32,
    gdt: GlobalDescriptorTable,
    tss: TaskStateSegment,
}

/// Local APIC numbers by CPU id, for IPIs.
static APIC_IDS: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];
/// Deadline that each CPU's timer is set to; 0 when it is not. Only its CPU uses it.
static ARMED: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

impl Area {
    const fn new(id: usize) -> Self {
        Self { id, apic_id: 0, gdt: GlobalDescriptorTable::new(), tss: TaskStateSegment::new() }
    }

    /// The area of a CPU that will be started.
    pub(super) fn make(id: usize, apic_id: u32, fault_top: u64) -> Self {
        let mut area = Self::new(id);
        area.apic_id = apic_id;
        APIC_IDS[id].store(apic_id, Ordering::Relaxed);
        area.set_fault_stack(fault_top);
        area
    }

    fn set_fault_stack(&mut self, top: u64) {
        self.tss.interrupt_stack_table[exception::STACK_INDEX as usize] = VirtAddr::new(top);
    }
}

static mut BOOT_AREA: Area = Area::new(0);

/// Gives the boot CPU its area, descriptor tables and features. The first thing after the console.
pub(super) fn init_boot() {
    read_features();
    exception::init();
    // SAFETY: runs once, alone, before anybody else uses BOOT_AREA; from here on it belongs to the boot CPU.
    unsafe {
        let area = &raw mut BOOT_AREA;
        (*area).set_fault_stack(paging::boot_stacks().fault_top);
        enter(&mut *area);
    }
}

/// Notes the boot CPU's APIC number, once its APIC can be read.
pub(super) fn note_boot_apic(apic_id: u32) {
    APIC_IDS[0].store(apic_id, Ordering::Relaxed);
}

/// The APIC number of CPU `id`, which is online.
pub(super) fn apic_id(id: usize) -> u32 {
    APIC_IDS[id].load(Ordering::Relaxed)
}

/// Makes `area` this CPU's, loads its tables and switches its protections on.
///
/// # Safety
/// `area` must be used by no other CPU, and its fault stack must be mapped.
pub(super) unsafe fn enter(area: &'static mut Area) {
    area.gdt.append(Descriptor::kernel_code_segment());
    area.gdt.append(Descriptor::kernel_data_segment());
    // SAFETY: the TSS lives in the same area as the table that names it, for ever.
    let tss = area.gdt.append(unsafe { Descriptor::tss_segment_unchecked(&raw const area.tss) });
    // SAFETY: the selectors name the entries just made; the same flat segments as before.
    unsafe {
        area.gdt.load_unsafe();
        CS::set_reg(x86_64::structures::gdt::SegmentSelector(8));
        for set in [SS::set_reg, DS::set_reg, ES::set_reg] {
            set(x86_64::structures::gdt::SegmentSelector(16));
        }
        load_tss(tss);
        exception::load();
    }
    GsBase::write(VirtAddr::from_ptr(area));
    let structured = Some(__cpuid(0))
        .filter(|all| all.eax >= 7)
        .map_or((0, 0), |_| (__cpuid_count(7, 0).ebx, __cpuid_count(7, 0).ecx));
    let mut cr4 = Cr4::read_raw() | Cr4Flags::OSFXSR.bits() | Cr4Flags::OSXMMEXCPT_ENABLE.bits();
    for (word, bit, flag) in [
        (structured.0, 7, Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION),
        (structured.0, 20, Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION),
        (structured.1, 2, Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION),
    ] {
        if word >> bit & 1 != 0 {
            cr4 |= flag.bits();
        }
    }
    // SAFETY: the flags are there by CPUID; no page is a user page, so that they forbid nothing that is done.
    unsafe { Cr4::write_raw(cr4) };
}

/// The dense id of this CPU.
#[inline]
pub fn id() -> usize {
    let id: usize;
    // SAFETY: GS points to this CPU's Area from `init_boot` (or `smp::enter`) on, and `id` is its first field.
    unsafe { asm!("mov {}, gs:[0]", out(reg) id, options(nostack, preserves_flags, readonly, pure)) };
    id
}

/// Starts further CPUs.
pub fn start_others(wanted: usize) -> usize {
    super::smp::start_others(wanted)
}

/// Sends the wake-up interrupt.
pub fn wake(id: usize) {
    apic::send(apic_id(id), super::irq::WAKE);
}

/// Interrupts a CPU that is online, masked or not: the exception brings it to `panic::claim`.
pub fn stop(id: usize) {
    apic::send_nmi(apic_id(id));
}

/// Sleeps until an interrupt or the deadline. An interrupt that is pending already is taken at once: `sti` holds
/// interrupts off for one more instruction, which is the halt.
pub fn wait_for_interrupt(deadline_ns: Option<u64>) {
    if let Some(deadline) = deadline_ns {
        let now = time::now_ns();
        if deadline <= now {
            // What is pending gets its handler, but nobody sleeps.
            // SAFETY: the handlers save every register that Rust code changes.
            unsafe { asm!("sti", "nop", "cli") };
            return;
        }
        // A timer that is set to an earlier time stays: one early return costs less than setting it anew at every wait.
        let armed = &ARMED[id()];
        let set_to = armed.load(Ordering::Relaxed);
        if set_to == 0 || deadline < set_to {
            armed.store(deadline, Ordering::Relaxed);
            apic::set_timer(deadline - now);
        }
    }
    time::look_again();
    let before = window::halting();
    // SAFETY: as above.
    unsafe { asm!("sti", "hlt", "cli") };
    window::awake(before);
}

/// Notes that this CPU's timer has fired.
pub(super) fn timer_fired() {
    ARMED[id()].store(0, Ordering::Relaxed);
}

/// A hint inside a spin. QEMU's emulator answers `pause` by leaving the guest and taking its global lock, which slows the
/// devices that are waited for: there it is left out.
#[inline]
pub fn relax() {
    if !EMULATED.load(Ordering::Relaxed) {
        core::hint::spin_loop();
    }
}

/// Halts with interrupts masked.
pub fn halt() {
    // SAFETY: only stops this CPU.
    unsafe { asm!("hlt", options(nomem, nostack)) };
}

/// Calls `f` with the return addresses of the callers, innermost first.
#[inline(never)]
pub fn backtrace(f: &mut dyn FnMut(usize)) {
    let frame: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack, preserves_flags)) };
    walk(frame, f);
}

/// Walks the chain of frame pointers as long as it goes up inside known stacks.
pub(super) fn walk(mut frame: u64, f: &mut dyn FnMut(usize)) {
    while frame.is_multiple_of(8) && paging::on_a_stack(frame) && paging::on_a_stack(frame + 8) {
        // SAFETY: both words are in a mapped stack; what they hold is only looked at.
        let (next, address) = unsafe { (*(frame as *const u64), *((frame + 8) as *const u64)) };
        if !paging::is_code(address) {
            return;
        }
        f(address as usize);
        if next <= frame {
            return;
        }
        frame = next;
    }
}
