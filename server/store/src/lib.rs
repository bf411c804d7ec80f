//! Durable formats of a ZooKeeper server over one small [`Disk`] trait: transaction log, snapshots, epoch files, recovery,
//! truncation, installation of a leader's snapshot, purge, offline check.
//!
//! Bytes are upstream's, so a Java server and this one can take over each other's directory. What differs is the order of
//! steps: everything that must survive a crash is fsynced together with its name, every multi-step change has one commit
//! point, and a refusal changes nothing. The crate is synchronous and knows neither threads nor clocks; one storage
//! thread drives [`Store`].

pub mod check;
mod config;
pub mod disk;
pub mod disk_suite;
pub mod dump;
mod epochs;
mod error;
pub mod file_disk;
mod files;
mod install;
mod log_chain;
mod log_reader;
mod log_writer;
pub mod mem_disk;
mod names;
mod purge;
mod recovery;
mod recovery_epochs;
mod repair;
mod snapshot_reader;
mod snapshot_writer;
mod store;
mod truncate;

pub use config::{DEFAULT_MAX_RECORD, LONGEST_RECORD, MAX_UNSYNCED, StoreConfig};
pub use disk::{Disk, DiskFile, DiskUsage, is_no_space};
pub use error::StoreError;
pub use file_disk::FileDisk;
pub use mem_disk::MemDisk;
pub use purge::{MIN_RETAIN, PurgeCheck, PurgePlan};
pub use recovery::Recovered;
pub use repair::Repair;
pub use snapshot_reader::{NullSink, load_snapshot};
pub use snapshot_writer::{PendingSnapshot, SnapshotWriter};
pub use store::Store;
