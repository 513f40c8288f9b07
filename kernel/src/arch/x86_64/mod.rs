//! The x86_64 machine.
