//! Bus numbers and addresses for a machine whose firmware gave none: QEMU's aarch64 `virt` starts a kernel directly, so
//! every base address register is still zero.

use super::Windows;
use crate::arch::pci::Config;
use crate::region::Region;
use virtio_drivers::transport::pci::bus::{
    BarInfo, Command, ConfigurationAccess, DeviceFunction, HeaderType, MemoryBarType, PciRoot,
};

/// Bridges forward memory in steps of this.
const BRIDGE_STEP: u64 = 1 << 20;
/// Offset of the bus numbers in a bridge's header: primary, secondary, subordinate.
const BUS_NUMBERS: u8 = 0x18;
/// Offset of memory base and limit.
const MEMORY_WINDOW: u8 = 0x20;
/// Offset of prefetchable base and limit, and of their upper halves.
const PREFETCHABLE_WINDOW: u8 = 0x24;
const PREFETCHABLE_BASE_TOP: u8 = 0x28;
const PREFETCHABLE_LIMIT_TOP: u8 = 0x2c;

/// Gives every function its bus number and addresses, unless the firmware did for any of them.
pub(super) fn assign(config: Config, windows: &Windows) {
    let mut assigner =
        Assigner { root: PciRoot::new(config), config, next_bus: 1, low: windows.low, high: windows.high };
    if (windows.low.is_empty() && windows.high.is_empty()) || assigner.any_assigned() {
        return;
    }
    assigner.assign_bus(0, 0);
}

struct Assigner {
    root: PciRoot<Config>,
    config: Config,
    next_bus: u8,
    /// What is left for 32-bit and for prefetchable 64-bit registers.
    low: Region,
    high: Region,
}

impl Assigner {
    fn any_assigned(&mut self) -> bool {
        super::functions(&self.config, 0).any(|(at, _)| {
            (0..bar_count(&self.config, at)).any(|bar| {
                let value = self.config.read_word(at, 0x10 + 4 * bar);
                value & 1 == 0 && value & !0xf != 0
            })
        })
    }

    fn assign_bus(&mut self, bus: u8, depth: usize) {
        for (at, _) in super::functions(&self.config, bus) {
            self.assign_bars(at, bus != 0);
            if is_bridge(&self.config, at) && depth < super::MAX_DEPTH && self.next_bus != u8::MAX {
                self.assign_bridge(at, depth);
            }
        }
    }

    /// Sizes and places each memory register. Behind a bridge only prefetchable ones can lie above 4 GiB.
    fn assign_bars(&mut self, at: DeviceFunction, behind_bridge: bool) {
        let mut bar = 0;
        while bar < bar_count(&self.config, at) {
            let info = self.root.bar_info(at, bar);
            let Ok(Some(info)) = info else {
                bar += 1;
                continue;
            };
            if let BarInfo::Memory { address_type, prefetchable, size, .. } = info {
                let wide = address_type == MemoryBarType::Width64;
                let above = wide && (prefetchable || !behind_bridge);
                let place =
                    (if above { take(&mut self.high, size) } else { None }).or_else(|| take(&mut self.low, size));
                match place {
                    Some(address) if wide => self.root.set_bar_64(at, bar, address),
                    Some(address) => self.root.set_bar_32(at, bar, address as u32),
                    None => log::error!("pci {at}: no room for register {bar} of {size:#x} bytes"),
                }
            }
            bar += if info.takes_two_entries() { 2 } else { 1 };
        }
        let (_, command) = self.root.get_status_command(at);
        self.root.set_command(at, command | Command::MEMORY_SPACE);
    }

    /// Numbers the bus behind a bridge, places what is on it, and opens the bridge for exactly that.
    fn assign_bridge(&mut self, at: DeviceFunction, depth: usize) {
        let secondary = self.next_bus;
        self.next_bus += 1;
        let numbers = |subordinate: u8| u32::from(subordinate) << 16 | u32::from(secondary) << 8 | u32::from(at.bus);
        self.config.write_word(at, BUS_NUMBERS, numbers(u8::MAX));
        let starts = [align(&mut self.low), align(&mut self.high)];
        self.assign_bus(secondary, depth + 1);
        let ends = [align(&mut self.low), align(&mut self.high)];
        self.config.write_word(at, BUS_NUMBERS, numbers(self.next_bus - 1));
        // Base above limit means closed. Both are in MiB, in the upper 12 bits of a half word.
        let window = |start: u64, end: u64| {
            let (base, limit) = if start < end { (start, end - 1) } else { (BRIDGE_STEP, 0) };
            (limit as u32 & 0xfff0_0000) | (base >> 16) as u32 & 0xfff0
        };
        self.config.write_word(at, MEMORY_WINDOW, window(starts[0], ends[0]));
        self.config.write_word(at, PREFETCHABLE_WINDOW, window(starts[1], ends[1]));
        self.config.write_word(at, PREFETCHABLE_BASE_TOP, (starts[1] >> 32) as u32);
        self.config.write_word(at, PREFETCHABLE_LIMIT_TOP, (ends[1].saturating_sub(1) >> 32) as u32);
        let (_, command) = self.root.get_status_command(at);
        self.root.set_command(at, command | Command::MEMORY_SPACE | Command::BUS_MASTER);
    }
}

fn is_bridge(config: &Config, at: DeviceFunction) -> bool {
    let header = (config.read_word(at, 0x0c) >> 16) as u8 & 0x7f;
    HeaderType::from(header) == HeaderType::PciPciBridge
}

/// Base address registers in the function's header.
fn bar_count(config: &Config, at: DeviceFunction) -> u8 {
    if is_bridge(config, at) { 2 } else { 6 }
}

/// Takes `size` bytes, a power of two, at a multiple of it.
fn take(window: &mut Region, size: u64) -> Option<u64> {
    let start = window.start.checked_next_multiple_of(size)?;
    let end = start.checked_add(size).filter(|end| *end <= window.end)?;
    window.start = end;
    Some(start)
}

/// Moves a window's start to where a bridge's window can start or end.
fn align(window: &mut Region) -> u64 {
    window.start = window.start.next_multiple_of(BRIDGE_STEP).min(window.end);
    window.start
}
