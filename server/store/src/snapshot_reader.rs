//! Reading and verifying a snapshot file (upstream `FileSnap.deserialize`, `SnapStream`).
//!
//! "Valid" means that every checksum fits. Upstream's own test, five trailing bytes or just the magic of a compressed
//! stream, lets a purge keep torn files and delete the good one.

use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;
use zk_jute::image::SnapshotSink;
use zk_jute::snapshot::{SnapshotDecoder, SnapshotHead, SnapshotNode, SnapshotPiece, SnapshotTail};
use zk_jute::{Reader, Zxid};

use crate::config::LONGEST_RECORD;
use crate::disk::{Disk, DiskFile};
use crate::error::StoreError;
use crate::names::Compression;
use crate::snapshot_writer::HEADER;

/// Bytes read at once.
const CHUNK: usize = 256 << 10;
/// Seal: checksum and the string "/".
const SEAL_LEN: usize = 8 + 4 + 1;
/// Footer with the last processed zxid and its seal.
const PROCESSED_LEN: usize = 8 + SEAL_LEN;
/// Bytes after the nodes that are looked at; the footers known today take 67.
const MAX_FOOTERS: u64 = 4096;

/// A sink for snapshots that are only checked.
#[derive(Clone, Copy, Default, Debug)]
pub struct NullSink;

impl SnapshotSink for NullSink {
    fn head(&mut self, _head: SnapshotHead) {}

    fn node(&mut self, _node: SnapshotNode) -> Result<(), String> {
        Ok(())
    }
}

/// Streams a snapshot file into `sink` and verifies every checksum. What `sink` holds after an error is worthless.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes are not a whole snapshot, if `sink` refuses a node, or if the file is
/// compressed with snappy, which this server does not read.
pub fn load_snapshot<D: Disk>(
    disk: &D,
    path: &Path,
    sink: &mut dyn SnapshotSink,
) -> Result<SnapshotTail, StoreError> {
    load_within(disk, path, LONGEST_RECORD, sink)
}

/// [`load_snapshot`] with a limit in bytes for each node and each ACL list.
pub(crate) fn load_within<D: Disk>(
    disk: &D,
    path: &Path,
    limit: usize,
    sink: &mut dyn SnapshotSink,
) -> Result<SnapshotTail, StoreError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let compression = crate::names::parse_snapshot(name).map_or(Compression::None, |(_, how)| how);
    let file = disk.open(path, false).map_err(StoreError::io(path, "open"))?;
    let stream = FileStream { file, offset: 0 };
    match compression {
        Compression::None => Input::new(stream, path, limit).load(sink),
        Compression::Gzip => {
            let unzipped = flate2::read::GzDecoder::new(io::BufReader::with_capacity(CHUNK, stream));
            Input::new(unzipped, path, limit).load(sink)
        }
        Compression::Snappy => {
            Err(StoreError::corrupt(path, 0, "snappy-compressed snapshots cannot be read"))
        }
    }
}

struct FileStream<F> {
    file: F,
    offset: u64,
}

impl<F: DiskFile> Read for FileStream<F> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(self.offset, buf)?;
        self.offset += n as u64;
        Ok(n)
    }
}

struct Input<'a, R> {
    stream: R,
    path: &'a Path,
    /// Longest record, in bytes.
    limit: usize,
    adler: adler2::Adler32,
    /// Bytes of the (uncompressed) stream before the current chunk.
    offset: u64,
}

impl<'a, R: Read> Input<'a, R> {
    fn new(stream: R, path: &'a Path, limit: usize) -> Self {
        Self { stream, path, limit, adler: adler2::Adler32::new(), offset: 0 }
    }

    fn load(mut self, sink: &mut dyn SnapshotSink) -> Result<SnapshotTail, StoreError> {
        let mut header = Vec::new();
        self.fill(&mut header, HEADER.len() as u64)?;
        // The dbid is never checked, as upstream never does.
        if header.len() < HEADER.len() || header[..8] != HEADER[..8] {
            let what = format!("the file header is {header:02x?}, not that of a snapshot of version 2");
            return Err(self.corrupt(what));
        }
        self.adler.write_slice(&header);
        self.offset = header.len() as u64;
        let mut rest = self.nodes(sink)?;
        self.fill(&mut rest, MAX_FOOTERS)?;
        self.footers(Bytes::from(rest))
    }

    /// Reads up to the end of the nodes; returns the bytes of the last chunk behind it.
    fn nodes(&mut self, sink: &mut dyn SnapshotSink) -> Result<Vec<u8>, StoreError> {
        let mut decoder = SnapshotDecoder::with_limit(self.limit);
        let mut chunk = Vec::with_capacity(CHUNK);
        loop {
            chunk.clear();
            self.fill(&mut chunk, CHUNK as u64)?;
            if chunk.is_empty() {
                let what = "the file ends within the nodes".to_owned();
                return Err(self.corrupt(what));
            }
            decoder.push(&chunk);
            if self.drain(&mut decoder, sink)? {
                let rest = decoder.take_rest();
                self.adler.write_slice(&chunk[..chunk.len() - rest.len()]);
                self.offset += (chunk.len() - rest.len()) as u64;
                return Ok(rest);
            }
            self.adler.write_slice(&chunk);
            self.offset += chunk.len() as u64;
        }
    }

    /// Hands over the pieces that are complete; true at the end.
    fn drain(&self, decoder: &mut SnapshotDecoder, sink: &mut dyn SnapshotSink) -> Result<bool, StoreError> {
        loop {
            let at = decoder.position();
            let offset = (HEADER.len() + at) as u64;
            match decoder.next() {
                Ok(None) => return Ok(false),
                Ok(Some(SnapshotPiece::End)) => return Ok(true),
                Ok(Some(SnapshotPiece::Head(head))) => sink.head(head),
                Ok(Some(SnapshotPiece::Node(node))) => {
                    sink.node(node).map_err(|what| StoreError::corrupt(self.path, offset, what))?;
                }
                Err(error) => return Err(StoreError::corrupt(self.path, offset, error.to_string())),
            }
        }
    }

    /// Reads the seals. Older versions wrote fewer footers, later ones may write more.
    fn footers(&mut self, rest: Bytes) -> Result<SnapshotTail, StoreError> {
        let mut tail = SnapshotTail::default();
        let mut r = Reader::new(rest.clone());
        self.seal(&rest, &mut r, 0)?;
        if r.remaining() > 0 && r.remaining() != PROCESSED_LEN {
            let start = r.position();
            let digest = SnapshotTail::decode_digest(&mut r);
            tail.digest = Some(digest.map_err(|error| self.corrupt(error.to_string()))?);
            self.seal(&rest, &mut r, start)?;
        }
        if r.remaining() >= PROCESSED_LEN {
            let start = r.position();
            let zxid = r.i64().map_err(|error| self.corrupt(error.to_string()))?;
            tail.last_processed = Some(Zxid(zxid));
            self.seal(&rest, &mut r, start)?;
        }
        Ok(tail)
    }

    /// Checks the seal at the reader, which covers what the reader has consumed since `start` as well.
    fn seal(&mut self, rest: &Bytes, r: &mut Reader, start: usize) -> Result<(), StoreError> {
        let sealed = r.position();
        self.adler.write_slice(&rest[start..sealed]);
        let expected = i64::from(self.adler.checksum());
        let found = r.i64().and_then(|found| Ok((found, r.string()?)));
        let (found, end) = found.map_err(|error| self.corrupt(format!("the seal is cut short: {error}")))?;
        if end.as_deref() != Some("/") {
            return Err(self.corrupt(format!("the seal ends with {end:?}")));
        }
        if found != expected {
            let what = format!("the checksum is {found:#x}, the bytes before it give {expected:#x}");
            return Err(self.corrupt(what));
        }
        self.adler.write_slice(&rest[sealed..r.position()]);
        Ok(())
    }

    /// Appends up to `limit` bytes of the stream to `to`; fewer only at its end.
    fn fill(&mut self, to: &mut Vec<u8>, limit: u64) -> Result<(), StoreError> {
        let read = self.stream.by_ref().take(limit).read_to_end(to);
        match read {
            Ok(_) => Ok(()),
            // Only the decompressor objects to bytes; it says so with these kinds.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)
                    || error.kind() == io::ErrorKind::UnexpectedEof =>
            {
                Err(self.corrupt(error.to_string()))
            }
            Err(error) => Err(StoreError::io(self.path, "read")(error)),
        }
    }

    fn corrupt(&self, what: String) -> StoreError {
        StoreError::corrupt(self.path, self.offset, what)
    }
}
