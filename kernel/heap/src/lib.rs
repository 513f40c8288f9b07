//! The memory layer: buddy frames under a size-class slab.
#![no_std]
