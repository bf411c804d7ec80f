//! Writing a database piece by piece (upstream `SerializeUtils.serializeSnapshot`), so that a snapshot never has to be
//! in memory as a whole.

use super::{SnapshotHead, SnapshotNode, SnapshotTail};
use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::Zxid;
use crate::records::Acl;

/// What stands where another node's path would, once there is none.
pub(super) const END_PATH: &str = "/";

/// Digest versions below this one were written as hexadecimal text.
const FIRST_NUMERIC_DIGEST_VERSION: i32 = 2;

/// Appends sessions and ACL map.
pub fn encode_head(head: &SnapshotHead, out: &mut Vec<u8>) {
    let mut w = Writer::new(out);
    w.vector_len(Some(head.sessions.len()));
    for (session, timeout_ms) in &head.sessions {
        w.i64(session.0);
        w.i32(*timeout_ms);
    }
    w.vector_len(Some(head.acls.len()));
    for (key, list) in &head.acls {
        w.i64(*key);
        Acl::encode_list(Some(list), &mut w);
    }
}

/// Appends one node. Parents must come before their children.
///
/// # Panics
/// If the path is "/", which ends the nodes; the root's path is "".
pub fn encode_node(node: &SnapshotNode, out: &mut Vec<u8>) {
    assert!(&*node.path != END_PATH, "the root's path is empty in a snapshot");
    let mut w = Writer::new(out);
    w.string(&node.path);
    w.buffer(node.data.as_deref());
    w.i64(node.acl);
    node.stat.encode(&mut w);
}

/// Appends what ends the nodes.
pub fn encode_end(out: &mut Vec<u8>) {
    Writer::new(out).string(END_PATH);
}

impl SnapshotTail {
    /// Writes the digest part (upstream `ZxidDigest`); the seal between it and the rest is the file's business.
    ///
    /// # Panics
    /// If the digest's version is one whose digests are text; those are read, never written.
    pub fn encode_digest((zxid, version, digest): (Zxid, i32, i64), w: &mut Writer<'_>) {
        assert!(version >= FIRST_NUMERIC_DIGEST_VERSION, "digest version {version} is never written");
        w.i64(zxid.0);
        w.i32(version);
        w.i64(digest);
    }

    /// Reads the digest part: zxid, version, digest. Version 1 wrote the digest as hexadecimal text.
    pub fn decode_digest(r: &mut Reader) -> Result<(Zxid, i32, i64), DecodeError> {
        let zxid = Zxid(r.i64()?);
        let version = r.i32()?;
        if version >= FIRST_NUMERIC_DIGEST_VERSION {
            return Ok((zxid, version, r.i64()?));
        }
        let offset = r.position();
        let text = r.string()?.unwrap_or_default();
        let digest = if text.is_empty() { Ok(0) } else { i64::from_str_radix(&text, 16) };
        let digest =
            digest.map_err(|_| DecodeError::bad_value(offset, "digest of version", i64::from(version)))?;
        Ok((zxid, version, digest))
    }
}
