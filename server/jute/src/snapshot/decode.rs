//! Reading a database piece by piece from chunks of any size (upstream `SerializeUtils.deserializeSnapshot`), so that
//! a file and a SNAP stream are read by the same code and neither is in memory as a whole.

use bytes::{Bytes, BytesMut};

use super::encode::END_PATH;
use super::{SnapshotHead, SnapshotNode};
use crate::codec::{DecodeError, Reader, Walk, incomplete_as_none};
use crate::ids::SessionId;
use crate::records::{Acl, StatPersisted};

/// Longest single record (a node, or one entry of the ACL map) unless the caller says otherwise: 64 MiB. Far above
/// `jute.maxbuffer`, because what was allowed to be written must be readable, yet bounded against garbage.
pub const MAX_RECORD_LEN: usize = 64 << 20;

/// One part of a serialized database, in stream order: one head, then nodes, then the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SnapshotPiece {
    Head(SnapshotHead),
    Node(SnapshotNode),
    End,
}

/// Which record comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    SessionCount,
    Sessions { left: usize },
    AclCount,
    Acls { left: usize },
    Nodes,
    Done,
}

/// A pull decoder: push a chunk, take pieces until `None`, push the next.
///
/// Used this way it holds at most one incomplete record (bounded by the limit) plus one chunk, and the head, which
/// grows by what was actually received.
#[derive(Debug)]
pub struct SnapshotDecoder {
    received: BytesMut,
    /// Bytes consumed before `received`.
    consumed: usize,
    /// Where in the stream the current record starts, for the offsets of errors.
    record_start: usize,
    stage: Stage,
    head: SnapshotHead,
    limit: usize,
}

impl Default for SnapshotDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl SnapshotDecoder {
    /// A decoder with a limit of [`MAX_RECORD_LEN`].
    pub fn new() -> Self {
        Self::with_limit(MAX_RECORD_LEN)
    }

    /// A decoder that refuses single records longer than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            received: BytesMut::new(),
            consumed: 0,
            record_start: 0,
            stage: Stage::SessionCount,
            head: SnapshotHead::default(),
            limit,
        }
    }

    /// Adds the next bytes of the stream.
    pub fn push(&mut self, chunk: &[u8]) {
        self.received.extend_from_slice(chunk);
    }

    /// The next piece, or `None` if more bytes are needed (or the end was returned already).
    ///
    /// # Errors
    /// Bytes that are not a database. The decoder is of no use afterwards.
    #[expect(
        clippy::should_implement_trait,
        reason = "a None here asks for more bytes, it does not end anything"
    )]
    pub fn next(&mut self) -> Result<Option<SnapshotPiece>, DecodeError> {
        self.step().map_err(|error| DecodeError { offset: self.record_start + error.offset, ..error })
    }

    /// Bytes after the end, which belong to whatever follows the database; before the end, what is not decoded yet.
    pub fn take_rest(&mut self) -> Vec<u8> {
        let rest = self.received.split().to_vec();
        self.consumed += rest.len();
        rest
    }

    /// Bytes of the stream decoded so far; after the end, the length of the database.
    pub const fn position(&self) -> usize {
        self.consumed
    }

    fn step(&mut self) -> Result<Option<SnapshotPiece>, DecodeError> {
        loop {
            match self.stage {
                Stage::SessionCount => {
                    let Some(left) = self.take_count("session map")? else { return Ok(None) };
                    self.stage = Stage::Sessions { left };
                }
                Stage::Sessions { left: 0 } => self.stage = Stage::AclCount,
                Stage::Sessions { left } => {
                    let Some(mut r) = self.take_record(|walk| walk.skip(8 + 4))? else { return Ok(None) };
                    self.head.sessions.push((SessionId(r.i64()?), r.i32()?));
                    self.stage = Stage::Sessions { left: left - 1 };
                }
                Stage::AclCount => {
                    let Some(left) = self.take_count("ACL map")? else { return Ok(None) };
                    self.stage = Stage::Acls { left };
                }
                Stage::Acls { left: 0 } => {
                    self.stage = Stage::Nodes;
                    return Ok(Some(SnapshotPiece::Head(std::mem::take(&mut self.head))));
                }
                Stage::Acls { left } => {
                    let Some(entry) = self.take_acl()? else { return Ok(None) };
                    self.head.acls.push(entry);
                    self.stage = Stage::Acls { left: left - 1 };
                }
                Stage::Nodes => return self.take_node(),
                Stage::Done => return Ok(None),
            }
        }
    }

    /// Cuts off the record that `walk` steps over, if all of it is there.
    fn take_record(
        &mut self,
        walk: impl FnOnce(&mut Walk<'_>) -> Result<(), DecodeError>,
    ) -> Result<Option<Reader>, DecodeError> {
        self.record_start = self.consumed;
        let mut record = Walk::new(&self.received, self.limit);
        if incomplete_as_none(walk(&mut record))?.is_none() {
            return Ok(None);
        }
        let len = record.position();
        let bytes = self.received.split_to(len).freeze();
        self.consumed += len;
        Ok(Some(Reader::new(bytes)))
    }

    fn take_count(&mut self, what: &'static str) -> Result<Option<usize>, DecodeError> {
        let Some(mut r) = self.take_record(|walk| walk.skip(4))? else { return Ok(None) };
        let count = r.i32()?;
        match usize::try_from(count) {
            Ok(count) => Ok(Some(count)),
            Err(_) => Err(DecodeError::bad_value(0, what, i64::from(count))),
        }
    }

    fn take_acl(&mut self) -> Result<Option<(i64, Vec<Acl>)>, DecodeError> {
        let record = self.take_record(|walk| {
            walk.skip(8)?;
            for _ in 0..walk.i32()?.max(0) {
                walk.skip(4)?;
                walk.skip_sized()?;
                walk.skip_sized()?;
            }
            Ok(())
        })?;
        let Some(mut r) = record else { return Ok(None) };
        let key = r.i64()?;
        let list = Acl::decode_list(&mut r)?.ok_or(DecodeError::null(8, "list in the ACL map"))?;
        Ok(Some((key, list)))
    }

    fn take_node(&mut self) -> Result<Option<SnapshotPiece>, DecodeError> {
        let mut is_end = false;
        let record = self.take_record(|walk| {
            let path = walk.sized()?;
            is_end = path == Some(END_PATH.as_bytes());
            if is_end {
                return Ok(());
            }
            walk.skip_sized()?;
            walk.skip(8 + StatPersisted::ENCODED_LEN)
        })?;
        let Some(mut r) = record else { return Ok(None) };
        if is_end {
            self.stage = Stage::Done;
            return Ok(Some(SnapshotPiece::End));
        }
        Ok(Some(SnapshotPiece::Node(SnapshotNode {
            path: r.string_required("path of a node")?,
            // A copy, because the node outlives the stream and must not keep the chunk it came in.
            data: r.buffer()?.map(|data| Bytes::copy_from_slice(&data)),
            acl: r.i64()?,
            stat: StatPersisted::decode(&mut r)?,
        })))
    }
}
