//! What the store must be told: where the files are and how much to trust and to spend.

use std::path::PathBuf;

/// Bytes of a log that may be written and not yet synced: 16 MiB. The store syncs on its own once they are exceeded,
/// so whatever is damaged further than this before the last intact record was durable once, and cannot be a torn
/// tail (see [`crate::log_reader`]).
pub const MAX_UNSYNCED: u64 = 16 << 20;

/// Longest transaction or snapshot record that is read unless the caller says otherwise, 256 MiB: far more than any
/// server writes by default, yet garbage cannot claim all memory.
pub const DEFAULT_MAX_RECORD: usize = 256 << 20;

/// Longest record that a file can hold: its length is a Java int. For tools that are not told what a server may write.
pub const LONGEST_RECORD: usize = i32::MAX as usize;

/// Settings of a [`crate::Store`]. Defaults are upstream's.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// `dataDir`: contains `version-2` with snapshots and epoch files.
    pub data_dir: PathBuf,
    /// `dataLogDir`: contains `version-2` with logs, and the `initialize` file. Equal to `data_dir` unless split.
    pub log_dir: PathBuf,
    /// `preAllocSize`, in bytes: how far a log is extended at once. 0 switches preallocation off.
    pub prealloc_bytes: u64,
    /// `zookeeper.db.autocreate`: an empty directory is an empty database, not a lost one.
    pub autocreate: bool,
    /// `forceSync`: off, a power cut may lose acknowledged transactions.
    pub force_sync: bool,
    /// `zookeeper.snapshot.trust.empty`: logs without any snapshot are complete (upgrades from 3.4).
    pub trust_empty: bool,
    /// Longest transaction or snapshot record in bytes, at most [`LONGEST_RECORD`]. It must be no less than what any member
    /// may write (`jute.maxbuffer` and what upstream allows on top of it), or what was logged could not be read back.
    pub max_record: usize,
    /// Bytes kept aside so that epoch files and markers can be written on a full disk. 0 keeps none.
    pub reserve_bytes: u64,
}

impl StoreConfig {
    /// Upstream's defaults with everything in one directory.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        let data_dir = data_dir.into();
        Self {
            log_dir: data_dir.clone(),
            data_dir,
            prealloc_bytes: 64 << 20,
            autocreate: true,
            force_sync: true,
            trust_empty: false,
            max_record: DEFAULT_MAX_RECORD,
            reserve_bytes: 64 << 10,
        }
    }
}
