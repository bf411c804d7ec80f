//! Writing records (upstream `BinaryOutputArchive`).

use bytes::Bytes;

use super::text::encode_java_text;

/// Appends records to a byte vector.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    lossy: bool,
}

impl<'a> Writer<'a> {
    /// Appends to what `out` holds already.
    pub const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, lossy: false }
    }

    /// The bytes of whatever `encode` writes.
    pub fn build(encode: impl FnOnce(&mut Writer<'_>)) -> Bytes {
        let mut out = Vec::new();
        encode(&mut Writer::new(&mut out));
        Bytes::from(out)
    }

    /// Length of the vector, including what it held before this writer.
    pub const fn len(&self) -> usize {
        self.out.len()
    }

    /// True if nothing is in the vector.
    pub const fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// True once a string was written that no reader, upstream's included, gets back as it was (characters outside
    /// the basic plane; see the module's `text`).
    pub(crate) const fn lossy(&self) -> bool {
        self.lossy
    }

    /// One byte, 0 or 1.
    pub fn bool(&mut self, value: bool) {
        self.out.push(u8::from(value));
    }

    /// Four bytes, big-endian.
    pub fn i32(&mut self, value: i32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// Eight bytes, big-endian.
    pub fn i64(&mut self, value: i64) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// A length-prefixed buffer; `None` is jute's null.
    pub fn buffer(&mut self, value: Option<&[u8]>) {
        let Some(bytes) = value else { return self.i32(-1) };
        self.i32(wire_len(bytes.len()));
        self.out.extend_from_slice(bytes);
    }

    /// A string. Characters outside the basic plane take six bytes, as upstream writes them.
    pub fn string(&mut self, value: &str) {
        let at = self.out.len();
        self.i32(0);
        self.lossy |= encode_java_text(value, self.out);
        let len = wire_len(self.out.len() - at - 4);
        self.out[at..at + 4].copy_from_slice(&len.to_be_bytes());
    }

    /// Jute's null string.
    pub fn null_string(&mut self) {
        self.i32(-1);
    }

    /// A string, or jute's null.
    pub fn opt_string(&mut self, value: Option<&str>) {
        match value {
            Some(text) => self.string(text),
            None => self.null_string(),
        }
    }

    /// The count before a vector's items; `None` is jute's null.
    pub fn vector_len(&mut self, count: Option<usize>) {
        self.i32(count.map_or(-1, wire_len));
    }

    /// A vector of strings.
    pub fn strings<S: AsRef<str>>(&mut self, values: &[S]) {
        self.vector_len(Some(values.len()));
        for value in values {
            self.string(value.as_ref());
        }
    }

    /// Bytes that are encoded already.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// A buffer that holds whatever `encode` writes.
    pub(crate) fn nested(&mut self, encode: impl FnOnce(&mut Self)) {
        let at = self.out.len();
        self.i32(0);
        encode(self);
        let len = wire_len(self.out.len() - at - 4);
        self.out[at..at + 4].copy_from_slice(&len.to_be_bytes());
    }
}

/// A length as jute writes it. Everything this server encodes is bounded far below 2 GiB; a longer value is a bug.
fn wire_len(len: usize) -> i32 {
    i32::try_from(len).expect("a jute length must fit 31 bits")
}
