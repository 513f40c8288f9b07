//! What the device tree says of the machine, read once, before the lasting page tables exist and before there is a heap.
//! Nodes' addresses are taken as the CPU's: buses between the root and a device are expected to translate one to one.

use crate::boot::{BootInfo, Module};
use crate::cpu::MAX_CPUS;
use crate::drivers::virtio::slot::Slot;
use crate::region::Region;
use fdt_raw::{Fdt, NodeBase};
use spin::Once;
use virtio_drivers::transport::pci::bus::DeviceFunction;

/// How the firmware is called.
#[derive(Clone, Copy, Debug)]
pub enum Conduit {
    Hvc,
    Smc,
}

/// The interrupt controller.
#[derive(Clone, Copy, Debug)]
pub enum Gic {
    /// Version 2: distributor and CPU interface, and the frame that turns writes into interrupts.
    V2 { distributor: Region, cpu_interface: Region, msi_frame: Option<Region> },
    /// Version 3 or later: distributor, redistributors (`stride` bytes each, 0 if the usual), interrupt translation service.
    V3 { distributor: Region, redistributors: [Region; MAX_REDISTRIBUTOR_REGIONS], stride: u64, its: Option<Region> },
}

const MAX_REDISTRIBUTOR_REGIONS: usize = 4;
/// QEMU's map has 16 entries: 4 slots of 4 pins.
const MAX_INTERRUPT_MAP: usize = 128;

/// A line of a PCI host's `interrupt-map`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MapEntry {
    /// First cell of the function's address, after the mask.
    pub device: u32,
    /// 1 is INTA#.
    pub pin: u32,
    /// The interrupt's number as the GIC counts (INTID).
    pub intid: u32,
}

/// A window through which the CPU reaches PCI addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    pub pci: u64,
    pub cpu: u64,
    pub len: u64,
}

/// A host bridge with memory-mapped configuration space.
#[derive(Clone, Copy, Debug)]
pub struct PciHost {
    pub ecam: Region,
    pub first_bus: u8,
    pub memory_32: Window,
    pub memory_64: Window,
    pub map: [MapEntry; MAX_INTERRUPT_MAP],
    pub map_len: usize,
    pub map_mask: [u32; 2],
    /// First requester id, the number that the interrupt translation service knows it by, and how many such pairs follow.
    pub message_map: [u32; 3],
}

/// The machine, as far as the kernel uses it.
#[derive(Clone, Debug)]
pub struct Hardware {
    pub uart: Option<u64>,
    pub rtc: Option<u64>,
    pub conduit: Option<Conduit>,
    pub gic: Option<Gic>,
    /// The CPUs' affinities (MPIDR_EL1 without its flag bits), in the device tree's order.
    pub cpus: [u64; MAX_CPUS],
    pub cpu_count: usize,
    pub pci: Option<PciHost>,
    /// Where memory-mapped virtio devices may be.
    pub virtio: [Slot; MAX_VIRTIO_SLOTS],
    pub virtio_count: usize,
}

/// QEMU's `virt` has 32.
const MAX_VIRTIO_SLOTS: usize = 32;

const NOTHING: Hardware = Hardware {
    uart: None,
    rtc: None,
    conduit: None,
    gic: None,
    cpus: [0; MAX_CPUS],
    cpu_count: 0,
    pci: None,
    virtio: [Slot { at: Region { start: 0, end: 0 }, line: 0, edge: false }; MAX_VIRTIO_SLOTS],
    virtio_count: 0,
};

/// Longest command line, the same as Linux' on this architecture.
const CMDLINE_BYTES: usize = 2048;

struct Found {
    hardware: Hardware,
    cmdline: [u8; CMDLINE_BYTES],
    cmdline_len: usize,
}

static FOUND: Once<Found> = Once::new();

/// What was found; nothing before [`read`] has finished.
pub fn get() -> &'static Hardware {
    FOUND.get().map_or(&NOTHING, |found| &found.hardware)
}

/// Reads the device tree into [`get`]'s findings and the memory map into `info`. `None` when it is no device tree.
///
/// # Safety
/// `dtb` is readable for `limit` bytes, which do not change meanwhile.
pub unsafe fn read(dtb: *const u8, limit: usize, info: &mut BootInfo) -> Option<()> {
    // SAFETY: the header is 40 bytes, within any limit.
    let header = unsafe { core::slice::from_raw_parts(dtb, 40) };
    let total = u32::from_be_bytes(header[4..8].try_into().ok()?) as usize;
    if header[..4] != [0xd0, 0x0d, 0xfe, 0xed] || !(40..=limit).contains(&total) {
        return None;
    }
    // SAFETY: the caller's promise.
    let fdt = Fdt::from_bytes(unsafe { core::slice::from_raw_parts(dtb, total) }).ok()?;
    for reservation in fdt.memory_reservations() {
        info.reserved.add(Region::new(reservation.address, reservation.size).grow_to_frames());
    }
    let mut found = Found { hardware: NOTHING, cmdline: [0; CMDLINE_BYTES], cmdline_len: 0 };
    walk(&fdt, &mut found, info);
    let found = FOUND.call_once(|| found);
    info.cmdline = core::str::from_utf8(&found.cmdline[..found.cmdline_len]).unwrap_or("");
    Some(())
}

/// Parts of the tree that can only be understood when the whole was seen.
#[derive(Default)]
struct Pending<'a> {
    gic_phandle: u32,
    gic_address_cells: usize,
    gic_interrupt_cells: usize,
    map: &'a [u8],
    initrd: (u64, u64),
    reserved_level: Option<usize>,
}

fn walk(fdt: &Fdt<'_>, found: &mut Found, info: &mut BootInfo) {
    let mut pending = Pending { gic_interrupt_cells: 3, ..Pending::default() };
    for node in fdt.all_nodes() {
        let name = node.name();
        if pending.reserved_level.is_some_and(|level| node.level() <= level) {
            pending.reserved_level = None;
        }
        if pending.reserved_level.is_some() {
            regions(&node).for_each(|region| info.reserved.add(region.grow_to_frames()));
            continue;
        }
        let kind = Kind::of(&node);
        match name.split_once('@').map_or(name, |(name, _)| name) {
            "reserved-memory" => pending.reserved_level = Some(node.level()),
            "chosen" => read_chosen(&node, &mut pending, found),
            _ if !kind.enabled => {}
            _ if kind.device_type == b"cpu\0" => read_cpu(&node, &mut found.hardware),
            _ if kind.device_type == b"memory\0" => {
                regions(&node).for_each(|region| info.ram.add(region.shrink_to_frames()));
            }
            _ => read_device(&node, kind.compatible, &mut pending, &mut found.hardware),
        }
    }
    let (start, end) = pending.initrd;
    if start < end {
        info.modules[0] = Some(Module { at: Region { start, end }, name: "initrd" });
        info.reserved.add(Region { start, end }.grow_to_frames());
    }
    if let Some(host) = &mut found.hardware.pci {
        read_interrupt_map(host, &pending);
    }
}

/// What decides about a node, from one pass over its properties: the boot time of a small machine is mostly this walk.
struct Kind<'a> {
    device_type: &'a [u8],
    /// Names, each with a final zero byte.
    compatible: &'a [u8],
    enabled: bool,
}

impl<'a> Kind<'a> {
    fn of(node: &NodeBase<'a>) -> Self {
        let mut kind = Self { device_type: &[], compatible: &[], enabled: true };
        for property in node.properties() {
            let value = property.data().as_slice();
            match property.name() {
                "device_type" => kind.device_type = value,
                "compatible" => kind.compatible = value,
                "status" => kind.enabled = matches!(value, b"okay\0" | b"ok\0"),
                _ => {}
            }
        }
        kind
    }
}

fn regions<'a>(node: &NodeBase<'a>) -> impl Iterator<Item = Region> + use<'a> {
    node.reg().into_iter().flatten().map(|reg| Region::new(reg.address, reg.size.unwrap_or(0)))
}

/// Big-endian cells of a property.
fn cells(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.as_chunks::<4>().0.iter().map(|cell| u32::from_be_bytes(*cell))
}

fn property<'a>(node: &NodeBase<'a>, name: &str) -> Option<&'a [u8]> {
    node.find_property(name).map(|property| property.data().as_slice())
}

/// A number of one or two cells.
fn number(node: &NodeBase<'_>, name: &str) -> Option<u64> {
    property(node, name).map(|bytes| cells(bytes).fold(0, |value, cell| value << 32 | u64::from(cell)))
}

fn read_chosen(node: &NodeBase<'_>, pending: &mut Pending<'_>, found: &mut Found) {
    pending.initrd = (number(node, "linux,initrd-start").unwrap_or(0), number(node, "linux,initrd-end").unwrap_or(0));
    let line = node.find_property_str("bootargs").unwrap_or("");
    // A longer line is cut at a word: half an option could mean something else.
    let cut = match line.len() {
        len if len <= CMDLINE_BYTES => len,
        _ => line.as_bytes()[..CMDLINE_BYTES].iter().rposition(|&byte| byte == b' ').unwrap_or(0),
    };
    found.cmdline[..cut].copy_from_slice(&line.as_bytes()[..cut]);
    found.cmdline_len = cut;
}

fn read_cpu(node: &NodeBase<'_>, hardware: &mut Hardware) {
    let Some(affinity) = number(node, "reg") else { return };
    if let Some(slot) = hardware.cpus.get_mut(hardware.cpu_count) {
        *slot = affinity;
        hardware.cpu_count += 1;
    }
}

/// Devices, told apart by what they are compatible with. Of several of a kind the first that is enabled counts.
fn read_device<'a>(node: &NodeBase<'a>, compatible: &[u8], pending: &mut Pending<'a>, hardware: &mut Hardware) {
    for kind in compatible.split(|byte| *byte == 0) {
        match kind {
            b"arm,pl011" if hardware.uart.is_none() => hardware.uart = regions(node).next().map(|at| at.start),
            b"arm,pl031" if hardware.rtc.is_none() => hardware.rtc = regions(node).next().map(|at| at.start),
            b"arm,psci" | b"arm,psci-0.2" | b"arm,psci-1.0" => {
                hardware.conduit = match node.find_property_str("method") {
                    Some("hvc") => Some(Conduit::Hvc),
                    Some("smc") => Some(Conduit::Smc),
                    _ => None,
                };
            }
            b"arm,cortex-a15-gic" | b"arm,gic-400" | b"arm,gic-v3" if hardware.gic.is_none() => {
                read_gic(node, pending, hardware, kind == b"arm,gic-v3");
            }
            b"arm,gic-v2m-frame" => {
                if let Some(Gic::V2 { msi_frame, .. }) = &mut hardware.gic {
                    *msi_frame = regions(node).next();
                }
            }
            b"arm,gic-v3-its" => {
                if let Some(Gic::V3 { its, .. }) = &mut hardware.gic {
                    *its = regions(node).next();
                }
            }
            b"virtio,mmio" => read_virtio(node, hardware),
            b"pci-host-ecam-generic" if hardware.pci.is_none() => read_pci(node, pending, hardware),
            _ => continue,
        }
        return;
    }
}

/// The interrupt specifier: kind (0 is a shared peripheral interrupt), number, trigger (1 and 2 are edges).
fn read_virtio(node: &NodeBase<'_>, hardware: &mut Hardware) {
    let mut specifier = cells(property(node, "interrupts").unwrap_or(&[]));
    let mut next = || specifier.next();
    let (Some(at), Some(0), Some(number), Some(trigger)) = (regions(node).next(), next(), next(), next()) else {
        return;
    };
    if let Some(slot) = hardware.virtio.get_mut(hardware.virtio_count) {
        *slot = Slot { at, line: 32 + number, edge: trigger & 3 != 0 };
        hardware.virtio_count += 1;
    }
}

fn read_gic(node: &NodeBase<'_>, pending: &mut Pending<'_>, hardware: &mut Hardware, version_3: bool) {
    pending.gic_phandle = number(node, "phandle").unwrap_or(0) as u32;
    pending.gic_address_cells = number(node, "#address-cells").unwrap_or(0) as usize;
    pending.gic_interrupt_cells = number(node, "#interrupt-cells").unwrap_or(3) as usize;
    let mut at = regions(node);
    let (Some(distributor), Some(second)) = (at.next(), at.next()) else { return };
    hardware.gic = Some(if version_3 {
        let mut redistributors = [Region::default(); MAX_REDISTRIBUTOR_REGIONS];
        redistributors[0] = second;
        let count = number(node, "#redistributor-regions").unwrap_or(1) as usize;
        for (slot, region) in redistributors.iter_mut().take(count).skip(1).zip(at) {
            *slot = region;
        }
        let stride = number(node, "redistributor-stride").unwrap_or(0);
        Gic::V3 { distributor, redistributors, stride, its: None }
    } else {
        Gic::V2 { distributor, cpu_interface: second, msi_frame: None }
    });
}

fn read_pci<'a>(node: &NodeBase<'a>, pending: &mut Pending<'a>, hardware: &mut Hardware) {
    let Some(ecam) = regions(node).next() else { return };
    let mut host = PciHost {
        ecam,
        first_bus: property(node, "bus-range").and_then(|range| cells(range).next()).unwrap_or(0) as u8,
        memory_32: Window::default(),
        memory_64: Window::default(),
        map: [MapEntry::default(); MAX_INTERRUPT_MAP],
        map_len: 0,
        map_mask: [0; 2],
        message_map: [0, 0, 1 << 16],
    };
    // Three cells of PCI address, two of the CPU's, two of length.
    for range in property(node, "ranges").unwrap_or(&[]).chunks_exact(7 * 4) {
        let mut cell = cells(range).map(u64::from);
        let mut next = || cell.next().unwrap_or(0);
        let flags = next();
        let window = Window { pci: next() << 32 | next(), cpu: next() << 32 | next(), len: next() << 32 | next() };
        match flags >> 24 & 3 {
            2 => host.memory_32 = window,
            3 => host.memory_64 = window,
            _ => {}
        }
    }
    // First id, the service's phandle, first number, count. There is one service.
    if let Some(map) = property(node, "msi-map") {
        let mut cell = cells(map);
        let mut next = || cell.next().unwrap_or(0);
        let (first, _, number, count) = (next(), next(), next(), next());
        host.message_map = [first, number, count];
    }
    let mut mask = cells(property(node, "interrupt-map-mask").unwrap_or(&[]));
    host.map_mask = [mask.next().unwrap_or(0), mask.nth(2).unwrap_or(0)];
    pending.map = property(node, "interrupt-map").unwrap_or(&[]);
    hardware.pci = Some(host);
}

/// Each entry: three cells of function address, one of pin, the controller's phandle, its address, its interrupt specifier
/// (kind, number, trigger; kind 0 is a shared peripheral interrupt).
fn read_interrupt_map(host: &mut PciHost, pending: &Pending<'_>) {
    let len = 5 + pending.gic_address_cells + pending.gic_interrupt_cells;
    if pending.gic_interrupt_cells < 3 || len > 16 {
        return;
    }
    for bytes in pending.map.chunks_exact(len * 4) {
        let mut entry = [0; 16];
        entry.iter_mut().zip(cells(bytes)).for_each(|(slot, cell)| *slot = cell);
        let specifier = &entry[5 + pending.gic_address_cells..];
        if entry[4] == pending.gic_phandle && specifier[0] == 0 && host.map_len < MAX_INTERRUPT_MAP {
            host.map[host.map_len] = MapEntry { device: entry[0], pin: entry[3], intid: 32 + specifier[1] };
            host.map_len += 1;
        }
    }
}

/// The number by which the interrupt translation service knows a PCI function.
pub fn message_sender(device: DeviceFunction) -> Option<u32> {
    let [first, number, count] = get().pci.as_ref()?.message_map;
    let requester = u32::from(device.bus) << 8 | u32::from(device.device) << 3 | u32::from(device.function);
    requester.checked_sub(first).filter(|offset| *offset < count).map(|offset| number + offset)
}
