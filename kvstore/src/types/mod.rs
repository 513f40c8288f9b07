//! The data types of values, one file each.

pub mod hash;
pub mod list;
mod sample;
pub mod set;
pub mod zset;
