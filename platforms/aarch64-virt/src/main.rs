//! Board start-up.
#![no_std]
#![no_main]
