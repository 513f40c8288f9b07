//! `barium-kernel`: boot, CPUs, memory, interrupts, clock, entropy, log, PCI, drivers. All unsafe code lives here.
//!
//! Knows nothing of RESP or TCP. Above it, a platform's binary calls [`arch`]'s common face.
#![cfg_attr(target_os = "none", no_std)]

extern crate alloc;
