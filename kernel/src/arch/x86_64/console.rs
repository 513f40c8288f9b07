//! The first serial port: a 16550 at 0x3f8, polled. A machine without one loses the text, not the boot.

use core::sync::atomic::{AtomicBool, Ordering};
use x86_64::instructions::port::Port;

const BASE: u16 = 0x3f8;
const DATA: u16 = BASE;
const INTERRUPT_ENABLE: u16 = BASE + 1;
const FIFO_CONTROL: u16 = BASE + 2;
const LINE_CONTROL: u16 = BASE + 3;
const MODEM_CONTROL: u16 = BASE + 4;
const LINE_STATUS: u16 = BASE + 5;
const SCRATCH: u16 = BASE + 7;

const RECEIVED: u8 = 1;
const CAN_SEND: u8 = 1 << 5;
/// How often the line status is asked before a byte is given up: far more than a byte takes at 115,200 baud.
const PATIENCE: usize = 1 << 16;

static PRESENT: AtomicBool = AtomicBool::new(false);

fn read_port(port: u16) -> u8 {
    // SAFETY: ports of the serial chip have no effect on memory, and no other driver uses them.
    unsafe { Port::new(port).read() }
}

fn write_port(port: u16, value: u8) {
    // SAFETY: as above.
    unsafe { Port::new(port).write(value) }
}

/// Looks for the chip and sets 115,200 baud, 8N1.
pub(super) fn init() {
    write_port(SCRATCH, 0x5a);
    if read_port(SCRATCH) != 0x5a {
        return;
    }
    write_port(INTERRUPT_ENABLE, 0);
    write_port(LINE_CONTROL, 0x80);
    write_port(DATA, 1);
    write_port(INTERRUPT_ENABLE, 0);
    write_port(LINE_CONTROL, 0x03);
    write_port(FIFO_CONTROL, 0x07);
    write_port(MODEM_CONTROL, 0x03);
    PRESENT.store(true, Ordering::Relaxed);
}

/// Sends bytes as they are.
pub fn write(bytes: &[u8]) {
    if !PRESENT.load(Ordering::Relaxed) {
        return;
    }
    for &byte in bytes {
        for _ in 0..PATIENCE {
            if read_port(LINE_STATUS) & CAN_SEND != 0 {
                write_port(DATA, byte);
                break;
            }
        }
    }
}

/// A byte that was typed.
pub fn read() -> Option<u8> {
    (PRESENT.load(Ordering::Relaxed) && read_port(LINE_STATUS) & RECEIVED != 0).then(|| read_port(DATA))
}
