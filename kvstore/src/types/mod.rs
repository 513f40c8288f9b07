//! The data types of values, one file each.

pub mod geohash;
pub mod hash;
pub mod hyperloglog;
pub mod list;
mod sample;
pub mod set;
pub mod stream;
pub mod zset;
