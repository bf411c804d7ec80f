//! Names of everything in a data directory (upstream `Util`, `SnapStream`, `FileTxnSnapLog`), and which of them are ours.
//!
//! Upstream ignores names that do not start with `log.` or `snapshot.`; our markers and temporary files keep to that,
//! so that a Java server can take a directory over at any time.

use std::path::{Path, PathBuf};

use zk_jute::Zxid;

use crate::config::StoreConfig;

pub(crate) const ACCEPTED_EPOCH: &str = "acceptedEpoch";
pub(crate) const CURRENT_EPOCH: &str = "currentEpoch";
/// Commit point of a snapshot installation; holds the snapshot's zxid in hexadecimal.
pub(crate) const INSTALLING: &str = "installing";
/// Written at an orderly stop; holds the last logged zxid in hexadecimal.
pub(crate) const CLEAN: &str = "clean";
/// Holds the first zxid ever logged here, which proves that a log starting with it needs no snapshot.
pub(crate) const ORIGIN: &str = "origin";
/// Space kept aside for the small files above.
pub(crate) const RESERVE: &str = ".reserve";
/// Upstream's marker that an empty directory may be trusted.
pub(crate) const INITIALIZE: &str = "initialize";
const TMP: &str = ".tmp";
const INSTALL_TMP: &str = ".snapshot.installing";
const INSTALL_LOG_TMP: &str = ".log.installing";

/// How a snapshot file is compressed (upstream `zookeeper.snapshot.compression.method`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Compression {
    None,
    Gzip,
    Snappy,
}

/// A file whose name carries a zxid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    pub(crate) zxid: Zxid,
    pub(crate) path: PathBuf,
    pub(crate) compression: Compression,
}

/// Where the files of one member are.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// `dataDir/version-2`.
    pub(crate) snap_dir: PathBuf,
    /// `dataLogDir/version-2`.
    pub(crate) log_dir: PathBuf,
    /// `dataLogDir`.
    pub(crate) log_root: PathBuf,
}

impl Layout {
    pub(crate) fn new(cfg: &StoreConfig) -> Self {
        const VERSION_DIR: &str = "version-2";
        Self {
            snap_dir: cfg.data_dir.join(VERSION_DIR),
            log_dir: cfg.log_dir.join(VERSION_DIR),
            log_root: cfg.log_dir.clone(),
        }
    }

    pub(crate) fn split(&self) -> bool {
        self.snap_dir != self.log_dir
    }

    pub(crate) fn in_snap_dir(&self, name: &str) -> PathBuf {
        self.snap_dir.join(name)
    }

    pub(crate) fn initialize(&self) -> PathBuf {
        self.log_root.join(INITIALIZE)
    }

    pub(crate) fn log(&self, first: Zxid) -> PathBuf {
        self.log_dir.join(format!("log.{:x}", first.0))
    }

    pub(crate) fn snapshot(&self, zxid: Zxid) -> PathBuf {
        self.snap_dir.join(format!("snapshot.{:x}", zxid.0))
    }

    /// Where a periodic snapshot grows. The generation keeps writers of a left role out of each other's files.
    pub(crate) fn snapshot_tmp(&self, zxid: Zxid, generation: u64) -> PathBuf {
        self.snap_dir.join(format!(".snapshot.{:x}.{generation}{TMP}", zxid.0))
    }

    /// Where a snapshot that is to replace all history grows.
    pub(crate) fn install_tmp(&self) -> PathBuf {
        self.snap_dir.join(INSTALL_TMP)
    }

    /// Where the log grows that belongs to such a snapshot.
    pub(crate) fn install_log_tmp(&self) -> PathBuf {
        self.log_dir.join(INSTALL_LOG_TMP)
    }
}

/// The neighbour in which the next content of a small file is prepared.
pub(crate) fn tmp_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(TMP);
    PathBuf::from(name)
}

/// True for names that only an interrupted write of ours, or of upstream's epoch files, leaves behind.
pub(crate) fn is_leftover(name: &str) -> bool {
    let small = [ACCEPTED_EPOCH, CURRENT_EPOCH, INSTALLING, CLEAN, ORIGIN];
    match name.strip_suffix(TMP) {
        Some(stem) => small.contains(&stem) || stem.starts_with(".snapshot.") || stem == RESERVE,
        None => name == INSTALL_TMP || name == INSTALL_LOG_TMP,
    }
}

/// The first zxid of `log.<hex>`.
pub(crate) fn parse_log(name: &str) -> Option<Zxid> {
    parse_hex(name.strip_prefix("log.")?)
}

/// Zxid and compression of `snapshot.<hex>[.gz|.snappy]`.
pub(crate) fn parse_snapshot(name: &str) -> Option<(Zxid, Compression)> {
    let rest = name.strip_prefix("snapshot.")?;
    let (hex, compression) = match rest.split_once('.') {
        None => (rest, Compression::None),
        Some((hex, "gz")) => (hex, Compression::Gzip),
        Some((hex, "snappy")) => (hex, Compression::Snappy),
        Some(_) => return None,
    };
    Some((parse_hex(hex)?, compression))
}

/// A zxid in hexadecimal without prefix, as names and markers hold it.
pub(crate) fn parse_hex(text: &str) -> Option<Zxid> {
    let zxid = i64::from_str_radix(text, 16).ok()?;
    (zxid >= 0).then_some(Zxid(zxid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_upstream_writes_them_and_others_are_left_alone() {
        assert_eq!(parse_log("log.100000001"), Some(Zxid(0x1_0000_0001)));
        assert_eq!(parse_snapshot("snapshot.0"), Some((Zxid(0), Compression::None)));
        assert_eq!(parse_snapshot("snapshot.a.gz"), Some((Zxid(10), Compression::Gzip)));
        assert_eq!(parse_snapshot("snapshot.a.snappy"), Some((Zxid(10), Compression::Snappy)));
        for foreign in ["log.5.bak", "log.", "log.xyz", "log.ffffffffffffffff", "snapshot.a.b", "myid"] {
            assert_eq!((parse_log(foreign), parse_snapshot(foreign)), (None, None), "{foreign}");
        }
    }

    #[test]
    fn only_our_own_temporary_files_count_as_leftovers() {
        for ours in ["acceptedEpoch.tmp", "currentEpoch.tmp", ".snapshot.5.1.tmp", ".snapshot.installing"] {
            assert!(is_leftover(ours), "{ours}");
        }
        for foreign in ["log.5", "snapshot.5", "notes.tmp", "acceptedEpoch", ".reserve"] {
            assert!(!is_leftover(foreign), "{foreign}");
        }
    }
}
