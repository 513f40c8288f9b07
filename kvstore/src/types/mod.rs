//! The data types of values, one file each.

pub mod list;
