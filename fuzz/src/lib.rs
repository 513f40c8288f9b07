//! What the fuzz targets share: an engine with sessions under a limited heap, a check that all it says is RESP, and a
//! generator of commands from the command table.

pub mod generate;
pub mod host;
pub mod input;
pub mod resp;
