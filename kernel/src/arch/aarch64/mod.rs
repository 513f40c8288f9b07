//! The aarch64 machine.
