//! `barium-kvstore`: RESP in, RESP out. Time and randomness come in as values.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod encoding;
pub mod glob;
pub mod number;
pub mod random;
pub mod table;
pub mod types;
