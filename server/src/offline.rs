//! `zk-server check` and `zk-server dump`: files read without a server.

use std::io::Write;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use serde_json::{Value, json};
use zk_jute::image::SnapshotSink;
use zk_jute::snapshot::{SnapshotHead, SnapshotNode};
use zk_jute::txn::{LoggedTxn, Txn};
use zk_store::dump::{LogFileEnd, dump_log};
use zk_store::{FileDisk, StoreConfig, StoreError, load_snapshot};

use crate::cli::Exit;

/// Verifies a data directory and prints what was found. [`Exit::Clean`] if a server could start from it.
pub fn check(
    dir: &Path,
    log_dir: Option<PathBuf>,
    as_json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let mut config = StoreConfig::new(dir);
    config.log_dir = log_dir.unwrap_or_else(|| dir.to_owned());
    let report = zk_store::check::check_dir(&FileDisk, &config)?;
    if as_json {
        writeln!(out, "{:#}", report.to_json())?;
    } else {
        write!(out, "{report}")?;
    }
    Ok(if report.is_usable() { Exit::Clean } else { Exit::Other })
}

/// Prints a transaction log or a snapshot, told apart by the name.
pub fn dump(file: &Path, as_json: bool, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name.starts_with("snapshot.") {
        return dump_snapshot(file, as_json, out);
    }
    let mut failed = None;
    let end = dump_log(&FileDisk, file, &mut |offset, txn| {
        let line = if as_json { txn_json(offset, txn).to_string() } else { txn_text(offset, txn) };
        if failed.is_none() {
            failed = writeln!(out, "{line}").err();
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let (line, exit) = match end {
        LogFileEnd::Clean { offset } => (format!("end of log at byte {offset}"), Exit::Clean),
        LogFileEnd::Damaged { offset, what } => (format!("damaged at byte {offset}: {what}"), Exit::Other),
        LogFileEnd::Headless => ("the file has no header and holds no record".to_owned(), Exit::Other),
    };
    match as_json {
        true => writeln!(out, "{}", json!({ "end": line }))?,
        false => writeln!(out, "{line}")?,
    }
    Ok(exit)
}

fn txn_text(offset: u64, txn: &LoggedTxn) -> String {
    let header = &txn.header;
    let digest = txn.digest.map_or_else(String::new, |digest| format!(" digest {:#x}", digest.tree_digest));
    format!(
        "@{offset} zxid {} session 0x{:x} cxid 0x{:x} time {} {:?}{digest}",
        header.zxid, header.client_id, header.cxid, header.time, txn.txn
    )
}

fn txn_json(offset: u64, txn: &LoggedTxn) -> Value {
    let header = &txn.header;
    json!({
        "offset": offset,
        "zxid": header.zxid.to_string(),
        "session": format!("0x{:x}", header.client_id),
        "cxid": header.cxid,
        "time": header.time,
        "op": header.op,
        "txn": body_json(&txn.txn),
        "digest": txn.digest.map(|digest| format!("{:#x}", digest.tree_digest)),
    })
}

fn body_json(txn: &Txn) -> Value {
    match txn {
        Txn::Create { path, data, ephemeral, parent_cversion, .. } => {
            json!({ "path": &**path, "data": bytes_json(data.as_deref()), "ephemeral": ephemeral, "parentCVersion": parent_cversion })
        }
        Txn::CreateTtl { path, data, parent_cversion, ttl, .. } => {
            json!({ "path": &**path, "data": bytes_json(data.as_deref()), "parentCVersion": parent_cversion, "ttl": ttl })
        }
        Txn::CreateContainer { path, data, parent_cversion, .. } => {
            json!({ "path": &**path, "data": bytes_json(data.as_deref()), "parentCVersion": parent_cversion })
        }
        Txn::Delete { path } => json!({ "path": &**path }),
        Txn::SetData { path, data, version } => {
            json!({ "path": &**path, "data": bytes_json(data.as_deref()), "version": version })
        }
        Txn::Check { path, version } => json!({ "path": &**path, "version": version }),
        Txn::SetAcl { path, acl, version } => {
            json!({ "path": &**path, "acl": format!("{acl:?}"), "version": version })
        }
        Txn::CreateSession { timeout_ms } => json!({ "timeOut": timeout_ms }),
        Txn::CloseSession { paths } => {
            json!({ "paths": paths.as_ref().map(|paths| paths.iter().map(|path| &**path).collect::<Vec<&str>>()) })
        }
        Txn::Error { err } => json!({ "err": err }),
        Txn::Multi(txns) => {
            txns.iter().map(|(op, txn)| json!({ "op": op, "txn": body_json(txn) })).collect::<Vec<_>>().into()
        }
    }
}

/// Text where it is text, base64 where it is not.
fn bytes_json(bytes: Option<&[u8]>) -> Value {
    match bytes {
        None => Value::Null,
        Some(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => json!({ "base64": base64::engine::general_purpose::STANDARD.encode(bytes) }),
        },
    }
}

fn dump_snapshot(file: &Path, as_json: bool, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let mut printer = Printer { out, as_json, failed: None };
    let loaded = load_snapshot(&FileDisk, file, &mut printer);
    if let Some(error) = printer.failed {
        return Err(error.into());
    }
    let tail = match loaded {
        Ok(tail) => tail,
        Err(error @ StoreError::Corrupt { .. }) => {
            writeln!(out, "{error}")?;
            return Ok(Exit::Other);
        }
        Err(error) => return Err(error.into()),
    };
    let digest = tail.digest.map(|(zxid, version, digest)| {
        json!({ "zxid": zxid.to_string(), "version": version, "digest": format!("{digest:#x}") })
    });
    let last = tail.last_processed.map(|zxid| zxid.to_string());
    match as_json {
        true => writeln!(out, "{}", json!({ "digest": digest, "lastProcessedZxid": last }))?,
        false => writeln!(
            out,
            "digest {} last processed zxid {}",
            digest.map_or_else(|| "none".to_owned(), |digest| digest.to_string()),
            last.unwrap_or_else(|| "unknown".to_owned())
        )?,
    }
    Ok(Exit::Clean)
}

/// Prints a snapshot while it is read.
struct Printer<'a> {
    out: &'a mut dyn Write,
    as_json: bool,
    failed: Option<std::io::Error>,
}

impl Printer<'_> {
    fn line(&mut self, line: &str) {
        if self.failed.is_none() {
            self.failed = writeln!(self.out, "{line}").err();
        }
    }
}

impl SnapshotSink for Printer<'_> {
    fn head(&mut self, head: SnapshotHead) {
        for (session, timeout) in head.sessions {
            match self.as_json {
                true => self.line(&json!({ "session": session.to_string(), "timeout": timeout }).to_string()),
                false => self.line(&format!("session {session} timeout {timeout}")),
            }
        }
        for (id, acl) in head.acls {
            match self.as_json {
                true => self.line(&json!({ "acl": id, "list": format!("{acl:?}") }).to_string()),
                false => self.line(&format!("acl {id} {acl:?}")),
            }
        }
    }

    fn node(&mut self, node: SnapshotNode) -> Result<(), String> {
        let path = if node.path.is_empty() { "/" } else { &*node.path };
        let stat = &node.stat;
        if self.as_json {
            let line = json!({
                "path": path,
                "data": bytes_json(node.data.as_deref()),
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
        } else {
            let length = node.data.as_ref().map_or(0, bytes::Bytes::len);
            self.line(&format!("{path} acl {} dataLength {length} {stat:?}", node.acl));
        }
        match &self.failed {
            Some(error) => Err(error.to_string()),
            None => Ok(()),
        }
    }
}
