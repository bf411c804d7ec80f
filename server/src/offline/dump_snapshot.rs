//! A snapshot as text or JSON (upstream `SnapshotFormatter`): nodes in file order with their stat, the sessions with what
//! they own, the digest.
//!
//! Printed while it is read, so a snapshot larger than memory is no problem. In memory are the sessions, the ACL lists
//! and one number for each owner of ephemeral nodes.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use bytes::Bytes;
use serde_json::json;
use zk_core::tree::{DIGEST_VERSION, EphemeralType, node_digest};
use zk_jute::SessionId;
use zk_jute::image::SnapshotSink;
use zk_jute::records::Acl;
use zk_jute::snapshot::{SnapshotHead, SnapshotNode, SnapshotTail};
use zk_store::{FileDisk, StoreError, load_snapshot};

use super::format::{acl_json, acl_text, bytes_json, printable, utc};
use super::logs::zxid_in_name;
use crate::cli::Exit;

/// Number of the open ACL, which is in no map.
const OPEN_ACL: i64 = -1;

/// Prints a snapshot.
///
/// # Errors
/// A file that cannot be read, and a failed write.
pub(super) fn print(file: &Path, as_json: bool, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let mut printer = Printer {
        out,
        as_json,
        failed: None,
        nodes: 0,
        digest: 0,
        sessions: BTreeMap::new(),
        acls: BTreeMap::new(),
    };
    let loaded = load_snapshot(&FileDisk, file, &mut printer);
    if let Some(error) = printer.failed {
        return Err(error.into());
    }
    let exit = match loaded {
        Ok(tail) => printer.finish(file, tail),
        Err(error @ StoreError::Corrupt { .. }) => {
            let line = error.to_string();
            printer.line(&if as_json { json!({ "error": line }).to_string() } else { line });
            Exit::Other
        }
        Err(error) => return Err(error.into()),
    };
    printer.failed.map_or(Ok(exit), |error| Err(error.into()))
}

/// Prints a snapshot while it is read.
struct Printer<'a> {
    out: &'a mut dyn Write,
    as_json: bool,
    failed: Option<std::io::Error>,
    nodes: u64,
    /// Of the nodes so far, as [`zk_core::tree::DataTree::digest`] adds it up.
    digest: i64,
    /// Timeout of each session, if it is open, and the number of its ephemeral nodes.
    sessions: BTreeMap<SessionId, (Option<i32>, u64)>,
    acls: BTreeMap<i64, Vec<Acl>>,
}

impl Printer<'_> {
    fn line(&mut self, line: &str) {
        if self.failed.is_none() {
            self.failed = writeln!(self.out, "{line}").err();
        }
    }

    fn node_text(&mut self, path: &str, node: &SnapshotNode) {
        let stat = &node.stat;
        let acl = match self.acls.get(&node.acl) {
            Some(list) => acl_text(list),
            None if node.acl == OPEN_ACL => acl_text(&[Acl::open()]),
            None => format!("unknown number {}", node.acl),
        };
        let lines = [
            "----".to_owned(),
            printable(path).into_owned(),
            format!("  cZxid = 0x{:x}", stat.czxid),
            format!("  ctime = {}", utc(stat.ctime)),
            format!("  mZxid = 0x{:x}", stat.mzxid),
            format!("  mtime = {}", utc(stat.mtime)),
            format!("  pZxid = 0x{:x}", stat.pzxid),
            format!("  cversion = {}", stat.cversion),
            format!("  dataVersion = {}", stat.version),
            format!("  aclVersion = {}", stat.aversion),
            format!("  ephemeralOwner = 0x{:x}", stat.ephemeral_owner),
            format!("  acl = {acl}"),
            format!("  dataLength = {}", node.data.as_ref().map_or(0, Bytes::len)),
        ];
        self.line(&lines.join("\n"));
    }

    fn node_json(&mut self, path: &str, node: &SnapshotNode) {
        let stat = &node.stat;
        let line = json!({
            "path": path,
            "data": bytes_json(node.data.as_deref()),
            "dataLength": node.data.as_ref().map_or(0, Bytes::len),
            "acl": node.acl,
            "czxid": format!("0x{:x}", stat.czxid),
            "mzxid": format!("0x{:x}", stat.mzxid),
            "pzxid": format!("0x{:x}", stat.pzxid),
            "ctime": stat.ctime,
            "mtime": stat.mtime,
            "version": stat.version,
            "cversion": stat.cversion,
            "aversion": stat.aversion,
            "ephemeralOwner": format!("0x{:x}", stat.ephemeral_owner),
        });
        self.line(&line.to_string());
    }

    /// What follows the nodes. The digest in the file counts only if it is of the instant that the file is named after:
    /// upstream's may be of a later one.
    fn finish(&mut self, file: &Path, tail: SnapshotTail) -> Exit {
        for (session, (timeout, ephemerals)) in std::mem::take(&mut self.sessions) {
            let line = match (self.as_json, timeout) {
                (true, timeout) => {
                    json!({ "session": session.to_string(), "timeout": timeout, "ephemerals": ephemerals })
                        .to_string()
                }
                (false, Some(timeout)) => {
                    format!("session {session} timeout {timeout} ephemerals {ephemerals}")
                }
                (false, None) => format!("session {session} is not open, but owns {ephemerals} ephemerals"),
            };
            self.line(&line);
        }
        let named = zxid_in_name(file, "snapshot.").filter(|zxid| zxid.0 > 0);
        let wrong = tail.digest.is_some_and(|(at, version, digest)| {
            version == DIGEST_VERSION && Some(at) == named && digest != self.digest
        });
        self.tail(tail);
        if wrong {
            let line = format!("{}: the digest in the file is not that of its nodes", file.display());
            self.line(&if self.as_json { json!({ "error": line }).to_string() } else { line });
        }
        if wrong { Exit::Other } else { Exit::Clean }
    }

    fn tail(&mut self, tail: SnapshotTail) {
        let (nodes, computed) = (self.nodes, format!("{:#x}", self.digest));
        let last = tail.last_processed.map(|zxid| zxid.to_string());
        if self.as_json {
            let digest = tail.digest.map(|(zxid, version, digest)| {
                json!({ "zxid": zxid.to_string(), "version": version, "digest": format!("{digest:#x}") })
            });
            let line = json!({
                "digest": digest,
                "computedDigest": computed,
                "lastProcessedZxid": last,
                "nodes": nodes,
            });
            return self.line(&line.to_string());
        }
        let digest = tail.digest.map_or("no digest".to_owned(), |(zxid, version, digest)| {
            format!("digest {digest:#x} of version {version} at zxid {zxid}")
        });
        let last = last.unwrap_or_else(|| "unknown".to_owned());
        self.line(&format!("{nodes} nodes with digest {computed}"));
        self.line(&format!("{digest}, last processed zxid {last}"));
    }
}

impl SnapshotSink for Printer<'_> {
    fn head(&mut self, head: SnapshotHead) {
        self.sessions = head.sessions.into_iter().map(|(id, timeout)| (id, (Some(timeout), 0))).collect();
        for (number, list) in head.acls {
            let line = match self.as_json {
                true => json!({ "acl": number, "list": acl_json(&list) }).to_string(),
                false => format!("acl {number} {}", acl_text(&list)),
            };
            self.line(&line);
            self.acls.insert(number, list);
        }
    }

    fn node(&mut self, node: SnapshotNode) -> Result<(), String> {
        self.nodes += 1;
        self.digest = self.digest.wrapping_add(node_digest(&node.path, node.data.as_deref(), &node.stat));
        if let EphemeralType::Session(owner) = EphemeralType::of(node.stat.ephemeral_owner) {
            self.sessions.entry(owner).or_default().1 += 1;
        }
        let path = if node.path.is_empty() { "/" } else { &*node.path };
        match self.as_json {
            true => self.node_json(path, &node),
            false => self.node_text(path, &node),
        }
        // Ends the reading, too.
        self.failed.as_ref().map_or(Ok(()), |error| Err(error.to_string()))
    }
}
