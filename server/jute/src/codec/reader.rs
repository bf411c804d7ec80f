//! Reading one record from a buffer (upstream `BinaryInputArchive`).

use std::sync::Arc;

use bytes::Bytes;

use super::text::decode_java_utf8;
use super::{DecodeError, DecodeErrorKind};

/// Every item of every vector in the protocol takes at least this many bytes (the length of a string).
const MIN_ITEM_LEN: usize = 4;

/// Items for which a vector reserves memory on the word of its count (of at most 40 bytes each: 40 KiB).
const MAX_RESERVED_ITEMS: usize = 1024;

/// A cursor over one record. Cloning is cheap and shares the bytes.
#[derive(Clone, Debug)]
pub struct Reader {
    buf: Bytes,
    pos: usize,
    /// Longest buffer or string that is accepted, in bytes.
    limit: usize,
}

impl Reader {
    /// Reads from the start of `buf`; buffers and strings may be as long as `buf` itself.
    pub const fn new(buf: Bytes) -> Self {
        Self::with_limit(buf, usize::MAX)
    }

    /// Like [`Reader::new`], but a buffer or string longer than `limit` bytes is
    /// [`DecodeErrorKind::TooLong`] (upstream: `jute.maxbuffer` plus `zookeeper.jute.maxbuffer.extrasize`).
    pub const fn with_limit(buf: Bytes, limit: usize) -> Self {
        Self { buf, pos: 0, limit }
    }

    /// Bytes consumed so far, which is the offset of the next field.
    pub const fn position(&self) -> usize {
        self.pos
    }

    /// Bytes not consumed yet.
    pub const fn remaining(&self) -> usize {
        self.buf.len() - self.pos
    }

    /// The bytes not consumed yet, without copying.
    pub fn rest(&self) -> Bytes {
        self.buf.slice(self.pos..)
    }

    /// One byte; anything but 0 is true, as in Java's `DataInput.readBoolean`.
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.array::<1>()?[0] != 0)
    }

    /// Four bytes, big-endian.
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// Eight bytes, big-endian.
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// A buffer that shares this reader's bytes; `None` is jute's null.
    pub fn buffer(&mut self) -> Result<Option<Bytes>, DecodeError> {
        let Some(len) = self.len()? else { return Ok(None) };
        let start = self.pos;
        self.skip(len)?;
        Ok(Some(self.buf.slice(start..self.pos)))
    }

    /// A string; `None` is jute's null. Malformed UTF-8 becomes U+FFFD exactly as Java's decoder does it.
    pub fn string(&mut self) -> Result<Option<Arc<str>>, DecodeError> {
        let Some(len) = self.len()? else { return Ok(None) };
        let start = self.pos;
        self.skip(len)?;
        let text = decode_java_utf8(&self.buf[start..self.pos]);
        Ok(Some(Arc::from(text)))
    }

    /// A string that may not be null, such as a path: null is [`DecodeErrorKind::Null`] naming `what`.
    pub fn string_required(&mut self, what: &'static str) -> Result<Arc<str>, DecodeError> {
        let offset = self.pos;
        self.string()?.ok_or(DecodeError::null(offset, what))
    }

    /// A string where null and "" mean the same, such as an ACL's id.
    pub fn string_or_empty(&mut self) -> Result<Arc<str>, DecodeError> {
        Ok(self.string()?.unwrap_or_else(|| Arc::from("")))
    }

    /// The count before a vector's items; `None` is jute's null.
    ///
    /// A count that the remaining bytes cannot hold (four bytes an item at least) is [`DecodeErrorKind::Eof`].
    pub fn vector_len(&mut self) -> Result<Option<usize>, DecodeError> {
        let offset = self.pos;
        let count = self.i32()?;
        let Some(count) = non_null(count, offset)? else { return Ok(None) };
        let needed = count.saturating_mul(MIN_ITEM_LEN);
        if needed > self.remaining() {
            return Err(self.eof(needed));
        }
        Ok(Some(count))
    }

    /// A vector of whatever `item` reads; `None` is jute's null.
    pub fn vector<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let Some(count) = self.vector_len()? else { return Ok(None) };
        // Items take more memory than bytes on the wire: beyond the common case, grow only by what is really there.
        let mut items = Vec::with_capacity(count.min(MAX_RESERVED_ITEMS));
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(Some(items))
    }

    /// A vector of strings, null read as empty.
    pub fn strings(&mut self, what: &'static str) -> Result<Vec<Arc<str>>, DecodeError> {
        Ok(self.vector(|r| r.string_required(what))?.unwrap_or_default())
    }

    /// The length before a buffer or string, checked against the limit.
    fn len(&mut self) -> Result<Option<usize>, DecodeError> {
        let offset = self.pos;
        let len = self.i32()?;
        let Some(len) = non_null(len, offset)? else { return Ok(None) };
        if len > self.limit {
            return Err(DecodeError { offset, kind: DecodeErrorKind::TooLong { len, limit: self.limit } });
        }
        Ok(Some(len))
    }

    /// Steps over `len` bytes.
    fn skip(&mut self, len: usize) -> Result<(), DecodeError> {
        if len > self.remaining() {
            return Err(self.eof(len));
        }
        self.pos += len;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some(bytes) = self.buf[self.pos..].first_chunk::<N>() else { return Err(self.eof(N)) };
        let array = *bytes;
        self.pos += N;
        Ok(array)
    }

    const fn eof(&self, wanted: usize) -> DecodeError {
        DecodeError { offset: self.pos, kind: DecodeErrorKind::Eof { needed: wanted - self.remaining() } }
    }
}

/// Jute's lengths and counts: -1 is null, anything lower is an error.
fn non_null(len: i32, offset: usize) -> Result<Option<usize>, DecodeError> {
    match usize::try_from(len) {
        Ok(len) => Ok(Some(len)),
        Err(_) if len == -1 => Ok(None),
        Err(_) => Err(DecodeError { offset, kind: DecodeErrorKind::NegativeLength { len } }),
    }
}
