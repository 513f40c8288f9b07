//! The rings against a device in memory.
