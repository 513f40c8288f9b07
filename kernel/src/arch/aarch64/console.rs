//! The PL011 UART (ARM DDI 0183), polled. The firmware or QEMU has set its rate.

use super::memory;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

const DATA: usize = 0x00;
const FLAGS: usize = 0x18;
const LINE_CONTROL: usize = 0x2c;
const CONTROL: usize = 0x30;
/// FR.RXFE: nothing was received.
const RECEIVE_EMPTY: u32 = 1 << 4;
/// FR.TXFF: the transmit FIFO is full.
const TRANSMIT_FULL: u32 = 1 << 5;
/// LCR_H: 8 bits, FIFOs on.
const LINE_8_BITS_FIFO: u32 = 0b11 << 5 | 1 << 4;
/// CR: enabled, both directions.
const ENABLE: u32 = 1 | 1 << 8 | 1 << 9;
/// How often a full FIFO is looked at before a byte is given up: an absent or stuck UART must not hang the machine.
const PATIENCE: u32 = 1_000_000;

/// Where the registers are mapped; 0 before [`init`] and on a machine without a PL011.
static BASE: AtomicUsize = AtomicUsize::new(0);

/// Maps the UART at physical address `base` and switches it on.
pub fn init(base: u64) {
    let Some(mapped) = memory::map_mmio(base, 0x1000) else { return };
    BASE.store(mapped.as_ptr() as usize, Ordering::Release);
    write_register(mapped, LINE_CONTROL, LINE_8_BITS_FIFO);
    write_register(mapped, CONTROL, ENABLE);
}

fn registers() -> Option<NonNull<u8>> {
    NonNull::new(BASE.load(Ordering::Acquire) as *mut u8)
}

fn read_register(base: NonNull<u8>, offset: usize) -> u32 {
    // SAFETY: `base` is the mapped register block of a PL011, which is one page long.
    unsafe { base.as_ptr().add(offset).cast::<u32>().read_volatile() }
}

fn write_register(base: NonNull<u8>, offset: usize, value: u32) {
    // SAFETY: as above.
    unsafe { base.as_ptr().add(offset).cast::<u32>().write_volatile(value) }
}

/// Writes bytes as they are. Without a UART they are lost.
pub fn write(bytes: &[u8]) {
    let Some(base) = registers() else { return };
    for &byte in bytes {
        let mut patience = PATIENCE;
        while read_register(base, FLAGS) & TRANSMIT_FULL != 0 && patience > 0 {
            patience -= 1;
        }
        write_register(base, DATA, byte.into());
    }
}

/// A byte that was received, if there is one.
pub fn read() -> Option<u8> {
    let base = registers()?;
    (read_register(base, FLAGS) & RECEIVE_EMPTY == 0).then(|| read_register(base, DATA) as u8)
}
