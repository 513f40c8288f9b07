//! Compact encodings: small collections kept as one run of bytes, in Redis's own byte formats, so that a serialised
//! payload can use them as they are.

pub mod decimal;
pub mod listpack;

pub use decimal::{MAX_DECIMAL_LEN, decimal, parse_i64};
pub use listpack::{Entry, Listpack};
