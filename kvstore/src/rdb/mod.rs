//! Values as bytes, in the format of Redis's database files (RDB, version 11): what DUMP gives and RESTORE takes.
//!
//! A payload is a type byte, the value, the version (two bytes) and a CRC-64 of all that (eight bytes), little-endian.
//! Compact encodings are stored as they lie in memory. Older servers' formats are read too; see [`load`].

pub mod crc64;
pub mod load;
mod lzf;
pub mod save;
mod stream;
mod ziplist;

/// Version of the format that is written, and newest that is read.
pub const VERSION: u16 = 11;
/// Bytes of version and checksum.
const FOOTER_LEN: usize = 10;

/// Type bytes.
mod kind {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const ZSET: u8 = 3;
    pub const HASH: u8 = 4;
    pub const ZSET_2: u8 = 5;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const SET_INTSET: u8 = 11;
    pub const ZSET_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    pub const LIST_QUICKLIST: u8 = 14;
    pub const HASH_LISTPACK: u8 = 16;
    pub const ZSET_LISTPACK: u8 = 17;
    pub const LIST_QUICKLIST_2: u8 = 18;
    pub const STREAM: u8 = 15;
    pub const STREAM_2: u8 = 19;
    pub const SET_LISTPACK: u8 = 20;
    pub const STREAM_3: u8 = 21;
}

/// How a quicklist's node is stored.
mod container {
    pub const PLAIN: u64 = 1;
    pub const PACKED: u64 = 2;
}

/// First byte of a string that is not simply its length and bytes.
mod special {
    pub const INT8: u8 = 0xC0;
    pub const INT16: u8 = 0xC1;
    pub const INT32: u8 = 0xC2;
    pub const LZF: u8 = 0xC3;
}

#[cfg(test)]
mod tests;
