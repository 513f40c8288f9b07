//! Errors that a command answers with, in Redis's own words.

use alloc::string::String;
use barium_cell::OutOfMemory;

/// An error reply. [`Error::text`] is what follows the `-` on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The key holds another type.
    WrongType,
    /// The arguments make no sense together.
    Syntax,
    /// An integer was expected.
    NotInteger,
    /// A float was expected.
    NotFloat,
    /// The key does not exist.
    NoSuchKey,
    /// An index lies outside.
    IndexOutOfRange,
    /// There is not enough memory.
    OutOfMemory,
    /// Another fixed text, with its code ("ERR ...").
    Fixed(&'static str),
    /// Another text, with its code. Line ends in it are sent as spaces.
    Text(String),
}

impl Error {
    /// The text, beginning with the error code.
    pub fn text(&self) -> &str {
        match self {
            Error::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            Error::Syntax => "ERR syntax error",
            Error::NotInteger => "ERR value is not an integer or out of range",
            Error::NotFloat => "ERR value is not a valid float",
            Error::NoSuchKey => "ERR no such key",
            Error::IndexOutOfRange => "ERR index out of range",
            Error::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            Error::Fixed(text) => text,
            Error::Text(text) => text,
        }
    }

    /// The error code: the text's first word.
    pub fn code(&self) -> &str {
        self.text().split(' ').next().unwrap_or("")
    }
}

impl From<OutOfMemory> for Error {
    fn from(_: OutOfMemory) -> Self {
        Error::OutOfMemory
    }
}

impl From<alloc::collections::TryReserveError> for Error {
    fn from(_: alloc::collections::TryReserveError) -> Self {
        Error::OutOfMemory
    }
}

/// Makes an [`Error::Text`] from a format string.
#[macro_export]
macro_rules! error_text {
    ($($arg:tt)*) => { $crate::error::Error::Text(alloc::format!($($arg)*)) };
}
