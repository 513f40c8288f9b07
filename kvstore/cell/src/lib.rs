//! Thin owning pointers: the only unsafe code outside `kernel/`.
#![no_std]

extern crate alloc;
