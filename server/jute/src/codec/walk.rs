//! Finding where an unframed record ends, by its lengths alone: nothing is kept and nothing allocated.

use super::{DecodeError, DecodeErrorKind};

/// Steps over fields without keeping them. Past the limit it fails even if the bytes are not there yet.
pub(crate) struct Walk<'a> {
    bytes: &'a [u8],
    pos: usize,
    limit: usize,
}

impl<'a> Walk<'a> {
    pub(crate) const fn new(bytes: &'a [u8], limit: usize) -> Self {
        Self { bytes, pos: 0, limit }
    }

    /// Bytes stepped over so far.
    pub(crate) const fn position(&self) -> usize {
        self.pos
    }

    pub(crate) fn skip(&mut self, len: usize) -> Result<(), DecodeError> {
        let end = self.pos.saturating_add(len);
        if end > self.limit {
            let kind = DecodeErrorKind::TooLong { len: end, limit: self.limit };
            return Err(DecodeError { offset: self.pos, kind });
        }
        if end > self.bytes.len() {
            let kind = DecodeErrorKind::Eof { needed: end - self.bytes.len() };
            return Err(DecodeError { offset: self.pos, kind });
        }
        self.pos = end;
        Ok(())
    }

    pub(crate) fn i32(&mut self) -> Result<i32, DecodeError> {
        let at = self.pos;
        self.skip(4)?;
        let field = self.bytes[at..].first_chunk().expect("skip saw four bytes");
        Ok(i32::from_be_bytes(*field))
    }

    /// A buffer or string; `None` is null.
    pub(crate) fn sized(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        let offset = self.pos;
        let len = self.i32()?;
        let Ok(len) = usize::try_from(len) else {
            let kind = DecodeErrorKind::NegativeLength { len };
            return if len == -1 { Ok(None) } else { Err(DecodeError { offset, kind }) };
        };
        let start = self.pos;
        self.skip(len)?;
        Ok(Some(&self.bytes[start..self.pos]))
    }

    /// Steps over a buffer or string, null included.
    pub(crate) fn skip_sized(&mut self) -> Result<(), DecodeError> {
        self.sized().map(|_| ())
    }
}
