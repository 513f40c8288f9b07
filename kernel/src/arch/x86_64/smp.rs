//! Starting the other CPUs: INIT and start-up IPIs to a trampoline below 1 MiB (SDM volume 3, 8.4).

use super::entry::address;
use super::{apic, cpu, firmware, paging, time, window};
use crate::boot::BootInfo;
use crate::cpu::MAX_CPUS;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use spin::Once;

/// Stack pointer for the CPU being started.
pub(super) static STACK: AtomicU64 = AtomicU64::new(0);
/// Its area.
pub(super) static AREA: AtomicPtr<cpu::Area> = AtomicPtr::new(core::ptr::null_mut());
/// Physical address of the trampoline's page.
static TRAMPOLINE: Once<u64> = Once::new();

/// Longest time that a CPU is waited for. QEMU's answer within one; a busy host may let them wait.
const PATIENCE_NS: u64 = 500_000_000;
/// After this long without an answer the start-up IPI is sent again, as the SDM's procedure has it.
const SECOND_TRY_NS: u64 = 1_000_000;

/// Chooses the trampoline's page: free RAM below 640 KiB, not the first page.
pub(super) fn init(info: &BootInfo) {
    const TOP: u64 = 0xa_0000;
    let page = info.ram.as_slice().iter().filter(|region| region.start < TOP).find_map(|region| {
        let page = region.start.max(0x8000);
        (page + 0x1000 <= region.end.min(TOP)).then_some(page)
    });
    if let Some(page) = page {
        TRAMPOLINE.call_once(|| page);
    }
}

/// Copies the start-up code to its page and fills in its words.
fn prepare(page: u64) {
    let source = address!(ap_trampoline);
    let len = (address!(ap_trampoline_end) - source) as usize;
    let offset = |symbol: u64| (symbol - source) as usize;
    let copy = paging::phys_to_virt(page);
    let delta = super::image_delta();
    let early_tables = address!(early_pml4).wrapping_add(delta) as u32;
    let gdt = address!(early_gdt).wrapping_add(delta) as u32;
    let long = page as u32 + offset(address!(ap_long)) as u32;
    // SAFETY: the page is RAM that nobody else uses (all below 1 MiB is reserved), and the code is shorter than it; the early
    // tables and the source lie in the image, below 4 GiB.
    unsafe {
        core::ptr::copy_nonoverlapping(paging::phys_to_virt(source.wrapping_add(delta)), copy, len);
        let put = |at: usize, value: u32| copy.add(at).cast::<u32>().write_unaligned(value);
        put(offset(address!(ap_cr3)), early_tables);
        put(offset(address!(ap_far)), long);
        put(offset(address!(ap_gdt_pointer)) + 2, gdt);
    }
}

/// Starts CPUs until `wanted` run.
pub(super) fn start_others(wanted: usize) -> usize {
    let own = apic::id();
    let others = firmware::get().cpus.iter().filter(|id| **id != own);
    let mut running = 1;
    let Some(&page) = TRAMPOLINE.get() else {
        if others.count() > 0 {
            log::warn!("no memory below 640 KiB: other CPUs stay off");
        }
        return running;
    };
    for (count, &apic_id) in others.take(wanted.min(MAX_CPUS) - 1).enumerate() {
        if count == 0 {
            prepare(page);
        }
        match start(running, apic_id, page) {
            Ok(()) => running += 1,
            Err(why) => {
                // A late answer could meet the next CPU's stack: stop here.
                log::error!("CPU with APIC number {apic_id} did not start: {why}");
                break;
            }
        }
    }
    running
}

fn start(id: usize, apic_id: u32, page: u64) -> Result<(), &'static str> {
    let stacks = paging::make_stacks(id).ok_or("no memory for its stacks")?;
    STACK.store(stacks.top, Ordering::Relaxed);
    AREA.store(Box::into_raw(Box::new(cpu::Area::make(id, apic_id, stacks.fault_top))), Ordering::Release);
    apic::send_init(apic_id);
    let begin = time::now_ns();
    let mut next_try = begin;
    loop {
        if crate::cpu::online() > id {
            return Ok(());
        }
        let now = time::now_ns();
        if now - begin > PATIENCE_NS {
            return Err("no answer");
        }
        if now >= next_try && next_try <= begin + SECOND_TRY_NS {
            apic::send_startup(apic_id, (page >> 12) as u8);
            next_try = if next_try == begin { begin + SECOND_TRY_NS } else { u64::MAX };
        }
        // The CPU's arrival wakes this one.
        cpu::wait_for_interrupt(Some((now + SECOND_TRY_NS).min(next_try.max(now + 1))));
    }
}

/// A started CPU's first Rust, on its own stack.
pub(super) unsafe extern "C" fn enter(area: *mut cpu::Area) -> ! {
    // SAFETY: `start` made the area for this CPU alone and leaked it; its fault stack is mapped.
    unsafe { cpu::enter(&mut *area) };
    window::awake(0);
    apic::init_cpu();
    crate::cpu::secondary(cpu::id())
}
