//! The unikernel: the loop that feeds the stack from the NIC and the engine from the stack.
#![no_std]
