//! The directories of one server: made, locked against other servers, and recognised if both are the same.

use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::fs::{FlockOperation, flock};

use crate::config::StorageConfig;

/// How long a lock may be held by another: `drain` looks at it for an instant, and a predecessor that was killed may
/// take a moment to be gone.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Makes the directories if that is configured, and locks them for as long as the process lives: two servers on one
/// directory would destroy it. Blocks as long as the file systems do.
///
/// # Errors
/// A directory cannot be made or opened, or is used by another server.
pub(super) fn prepare(config: &mut StorageConfig) -> anyhow::Result<()> {
    let data = open(&config.data_dir, config.create_dirs)?;
    let log = open(&config.data_log_dir, config.create_dirs)?;
    let same = identity(&data, &config.data_dir)? == identity(&log, &config.data_log_dir)?;
    lock(data, &config.data_dir)?;
    if same {
        // By another name, through a symbolic link say: everything below compares paths.
        config.data_log_dir.clone_from(&config.data_dir);
        return Ok(());
    }
    lock(log, &config.data_log_dir)
}

fn open(dir: &Path, create: bool) -> anyhow::Result<File> {
    if create {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    }
    File::open(dir).with_context(|| format!("cannot open {}", dir.display()))
}

/// What two names of one directory have in common.
fn identity(dir: &File, path: &Path) -> anyhow::Result<(u64, u64)> {
    let stat = dir.metadata().with_context(|| format!("cannot look at {}", path.display()))?;
    Ok((stat.dev(), stat.ino()))
}

fn lock(dir: File, path: &Path) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && began.elapsed() < LOCK_PATIENCE => {
                sleep(LOCK_PAUSE);
            }
            Err(error) => {
                return Err(error).with_context(|| format!("{} is used by another server", path.display()));
            }
        }
    }
    // Never closed: that the lock is free must mean that the process, with all its threads, is gone.
    let _ = dir.into_raw_fd();
    Ok(())
}
