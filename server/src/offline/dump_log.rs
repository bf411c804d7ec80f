//! A transaction log as text or JSON (upstream `TxnLogToolkit` in dump mode): one transaction a line, in file order.
//!
//! Data is shown by its length in the text, because it may be anything; the JSON has it in full.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

use bytes::Bytes;
use serde_json::{Value, json};
use zk_jute::records::Acl;
use zk_jute::txn::{LoggedTxn, Txn, TxnDigest};
use zk_store::dump::{LogFileEnd, dump_log};
use zk_store::{FileDisk, StoreError};

use super::format::{acl_json, acl_text, bytes_json, op_name, printable, utc};
use crate::cli::Exit;

/// Prints a log.
///
/// # Errors
/// A file that cannot be read, and a failed write.
pub(super) fn print(file: &Path, as_json: bool, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let (mut failed, mut count) = (None, 0_u64);
    let end = dump_log(&FileDisk, file, &mut |offset, txn| {
        count += 1;
        if failed.is_none() {
            let line = if as_json { json(offset, txn).to_string() } else { text(offset, txn) };
            failed = writeln!(out, "{line}").err();
        }
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    let (offset, damage) = match end {
        Ok(LogFileEnd::Clean { offset }) => (offset, None),
        Ok(LogFileEnd::Damaged { offset, what, .. }) => (offset, Some(what)),
        Ok(LogFileEnd::Headless) => (0, Some("the file has no header and holds no record".to_owned())),
        Err(StoreError::Corrupt { offset, what, .. }) => (offset, Some(what)),
        Err(error) => return Err(error.into()),
    };
    let line = match &damage {
        None => format!("end of log at byte {offset} after {count} transactions"),
        Some(what) => format!("damaged at byte {offset} after {count} transactions: {what}"),
    };
    match as_json {
        true => {
            let file = file.display().to_string();
            let end = json!({ "end": line, "file": file, "offset": offset, "transactions": count, "damage": damage });
            writeln!(out, "{end}")?;
        }
        false => writeln!(out, "{}: {line}", file.display())?,
    }
    Ok(if damage.is_none() { Exit::Clean } else { Exit::Other })
}

fn text(offset: u64, txn: &LoggedTxn) -> String {
    let header = &txn.header;
    let mut line = format!(
        "{} session 0x{:x} cxid 0x{:x} zxid {} ",
        utc(header.time),
        header.client_id,
        header.cxid,
        header.zxid
    );
    body_text(header.op, &txn.txn, &mut line);
    if let Some(TxnDigest { version, tree_digest }) = txn.digest {
        let _ = write!(line, " digest {tree_digest:#x}");
        if version != zk_core::tree::DIGEST_VERSION {
            let _ = write!(line, " of version {version}");
        }
    }
    let _ = write!(line, " at byte {offset}");
    line
}

/// Type and content; also of the parts of a multi, which nest once at most.
fn body_text(op: i32, txn: &Txn, line: &mut String) {
    line.push_str(&op_name(op));
    // Writing to a string cannot fail.
    let _ = match txn {
        Txn::Create { path, data, acl, ephemeral, parent_cversion } => {
            node_text(path, data, acl, line);
            write!(line, " ephemeral {ephemeral} parentCVersion {parent_cversion}")
        }
        Txn::CreateTtl { path, data, acl, parent_cversion, ttl } => {
            node_text(path, data, acl, line);
            write!(line, " parentCVersion {parent_cversion} ttl {ttl}")
        }
        Txn::CreateContainer { path, data, acl, parent_cversion } => {
            node_text(path, data, acl, line);
            write!(line, " parentCVersion {parent_cversion}")
        }
        Txn::Delete { path } => write!(line, " {}", printable(path)),
        Txn::SetData { path, data, version } => {
            write!(line, " {} dataLength {} version {version}", printable(path), length(data))
        }
        Txn::Check { path, version } => write!(line, " {} version {version}", printable(path)),
        Txn::SetAcl { path, acl, version } => {
            write!(line, " {} acl {} version {version}", printable(path), acl_text(acl))
        }
        Txn::CreateSession { timeout_ms } => write!(line, " timeout {timeout_ms}"),
        Txn::CloseSession { paths } => {
            paths.iter().flatten().try_for_each(|path| write!(line, " {}", printable(path)))
        }
        Txn::Error { err } => write!(line, " {err}"),
        Txn::Multi(entries) => {
            for (index, (op, txn)) in entries.iter().enumerate() {
                line.push_str(if index == 0 { " " } else { "; " });
                body_text(*op, txn, line);
            }
            Ok(())
        }
    };
}

fn node_text(path: &str, data: &Option<Bytes>, acl: &[Acl], line: &mut String) {
    let _ = write!(line, " {} dataLength {} acl {}", printable(path), length(data), acl_text(acl));
}

/// Bytes of data, 0 for null.
fn length(data: &Option<Bytes>) -> usize {
    data.as_ref().map_or(0, Bytes::len)
}

fn json(offset: u64, txn: &LoggedTxn) -> Value {
    let header = &txn.header;
    json!({
        "offset": offset,
        "zxid": header.zxid.to_string(),
        "session": format!("0x{:x}", header.client_id),
        "cxid": header.cxid,
        "time": header.time,
        "op": header.op,
        "type": op_name(header.op),
        "txn": body_json(&txn.txn),
        "digest": txn.digest.map(|digest| format!("{:#x}", digest.tree_digest)),
        "digestVersion": txn.digest.map(|digest| digest.version),
    })
}

fn body_json(txn: &Txn) -> Value {
    match txn {
        Txn::Create { path, data, acl, ephemeral, parent_cversion } => json!({
            "path": &**path,
            "data": bytes_json(data.as_deref()),
            "dataLength": length(data),
            "acl": acl_json(acl),
            "ephemeral": ephemeral,
            "parentCVersion": parent_cversion,
        }),
        Txn::CreateTtl { path, data, acl, parent_cversion, ttl } => json!({
            "path": &**path,
            "data": bytes_json(data.as_deref()),
            "dataLength": length(data),
            "acl": acl_json(acl),
            "parentCVersion": parent_cversion,
            "ttl": ttl,
        }),
        Txn::CreateContainer { path, data, acl, parent_cversion } => json!({
            "path": &**path,
            "data": bytes_json(data.as_deref()),
            "dataLength": length(data),
            "acl": acl_json(acl),
            "parentCVersion": parent_cversion,
        }),
        Txn::Delete { path } => json!({ "path": &**path }),
        Txn::SetData { path, data, version } => json!({
            "path": &**path,
            "data": bytes_json(data.as_deref()),
            "dataLength": length(data),
            "version": version,
        }),
        Txn::Check { path, version } => json!({ "path": &**path, "version": version }),
        Txn::SetAcl { path, acl, version } => {
            json!({ "path": &**path, "acl": acl_json(acl), "version": version })
        }
        Txn::CreateSession { timeout_ms } => json!({ "timeOut": timeout_ms }),
        Txn::CloseSession { paths } => {
            let paths = paths.as_ref().map(|paths| paths.iter().map(|path| &**path).collect::<Vec<&str>>());
            json!({ "paths": paths })
        }
        Txn::Error { err } => json!({ "err": err }),
        Txn::Multi(entries) => {
            let entry =
                |(op, txn): &(i32, Txn)| json!({ "op": op, "type": op_name(*op), "txn": body_json(txn) });
            entries.iter().map(entry).collect::<Vec<_>>().into()
        }
    }
}

/// What a transaction changes, in a few words for a message: the type and the first path.
pub(super) fn summary(txn: &LoggedTxn) -> String {
    let name = op_name(txn.header.op);
    match first_path(&txn.txn) {
        Some(path) => format!("{name} {}", printable(path)),
        None => name.into_owned(),
    }
}

fn first_path(txn: &Txn) -> Option<&str> {
    match txn {
        Txn::Create { path, .. }
        | Txn::CreateTtl { path, .. }
        | Txn::CreateContainer { path, .. }
        | Txn::Delete { path }
        | Txn::SetData { path, .. }
        | Txn::Check { path, .. }
        | Txn::SetAcl { path, .. } => Some(path),
        Txn::CloseSession { paths } => paths.as_ref()?.first().map(|path| &**path),
        Txn::Multi(entries) => entries.iter().find_map(|(_, txn)| first_path(txn)),
        Txn::CreateSession { .. } | Txn::Error { .. } => None,
    }
}
