//! Jute's binary archive: big-endian numbers, length-prefixed buffers and strings, counted vectors, no tags.
//!
//! [`Reader`] and [`Writer`] follow upstream's `BinaryInputArchive` and `BinaryOutputArchive` to the byte, including
//! the text quirks, because a mixed ensemble must build the same tree from the same bytes. No length read from
//! outside is trusted before the bytes it promises are there, so input can neither panic nor reserve memory.

mod reader;
mod text;
mod walk;
mod writer;

pub use reader::Reader;
pub(crate) use walk::Walk;
pub use writer::Writer;

/// Why bytes are not a record, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("at byte {offset}: {kind}")]
pub struct DecodeError {
    /// Offset of the offending field from the start of the decoded buffer.
    pub offset: usize,
    pub kind: DecodeErrorKind,
}

/// The ways in which bytes can fail to be a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeErrorKind {
    /// The buffer ends inside a field; `needed` more bytes would complete it (a lower bound for vectors).
    #[error("record ends {needed} bytes early")]
    Eof { needed: usize },
    /// A length or count below -1 (-1 is jute's null).
    #[error("negative length {len}")]
    NegativeLength { len: i32 },
    /// A buffer, string or packet longer than the reader's limit.
    #[error("length {len} exceeds the limit of {limit} bytes")]
    TooLong { len: usize, limit: usize },
    /// A field that may not be null is null.
    #[error("{what} is null")]
    Null { what: &'static str },
    /// A field holds a value that the protocol does not define.
    #[error("{what} {value} is not valid")]
    BadValue { what: &'static str, value: i64 },
}

impl DecodeError {
    /// True if more bytes could turn the input into a record (upstream: `EOFException`).
    pub const fn is_eof(&self) -> bool {
        matches!(self.kind, DecodeErrorKind::Eof { .. })
    }

    pub(crate) const fn bad_value(offset: usize, what: &'static str, value: i64) -> Self {
        Self { offset, kind: DecodeErrorKind::BadValue { what, value } }
    }

    pub(crate) const fn null(offset: usize, what: &'static str) -> Self {
        Self { offset, kind: DecodeErrorKind::Null { what } }
    }
}

/// Turns "the buffer ends early" into `None`, for decoders that are fed from a socket.
pub(crate) fn incomplete_as_none<T>(result: Result<T, DecodeError>) -> Result<Option<T>, DecodeError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_eof() => Ok(None),
        Err(error) => Err(error),
    }
}
