//! The Unix socket in the data directory through which this machine, and nobody else, can ask the server to drain.
//!
//! One line in, one line of JSON out. Who may write to the data directory may do this: the directory's permissions are
//! the access control.

use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tracing::{info, warn};
use zk_core::Input;
use zk_core::effect::HaltReason;

use crate::driver::Handle;
use crate::lifecycle::Lifecycle;

/// Name of the socket in the data directory.
const SOCKET: &str = "zk-server.sock";
/// Longest path that is put into a socket address, bytes: the shortest limit of the systems this runs on is 103.
const SOCKET_PATH_MAX: usize = 100;
/// How often the end of the process is looked for.
const END_POLL: Duration = Duration::from_millis(10);
/// Longest request line, bytes.
const LINE_MAX: u64 = 64;

/// What a drain did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DrainReport {
    /// False if the server ended for another reason than the drain.
    pub drained: bool,
    /// The last durable transaction, in hexadecimal.
    pub zxid: String,
    /// True if it was the leader and resigned.
    pub resigned: bool,
    /// Why it ended, if not by the drain.
    pub error: Option<String>,
}

impl DrainReport {
    fn of(reason: Option<&HaltReason>) -> Self {
        let failed = |what: &str| Self {
            drained: false,
            zxid: "0x0".into(),
            resigned: false,
            error: Some(what.into()),
        };
        match reason {
            None => failed("a bug: the server ended without a reason"),
            Some(HaltReason::Drained { zxid, resigned }) => {
                Self { drained: true, zxid: zxid.to_string(), resigned: *resigned, error: None }
            }
            Some(HaltReason::DiskFailed(why) | HaltReason::DiskFull(why) | HaltReason::CorruptData(why)) => {
                failed(why)
            }
        }
    }
}

/// The file that stands for the socket, removed when dropped: a client then finds nobody instead of a dead end.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            warn!("control socket: {error}");
        }
    }
}

/// Calls `use_path` with a path of the socket that fits into a socket address, which holds 107 bytes on Linux: a longer
/// one leads through an open directory.
fn with_socket_path<T>(data_dir: &Path, use_path: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let path = data_dir.join(SOCKET);
    if path.as_os_str().len() <= SOCKET_PATH_MAX {
        return use_path(&path);
    }
    let dir = File::open(data_dir)?;
    use_path(&Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(SOCKET))
}

/// Opens the socket. The data directory is locked by now, so a socket left over belongs to no living server.
///
/// # Errors
/// The socket cannot be made in `data_dir`.
pub fn listen(data_dir: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let path = data_dir.join(SOCKET);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = with_socket_path(data_dir, |short| UnixListener::bind(short))?;
    let file = SocketFile(path);
    std::fs::set_permissions(&file.0, Permissions::from_mode(0o600))?;
    Ok((listener, file))
}

/// Answers requests until the process ends.
pub async fn serve(listener: UnixListener, driver: Handle, lifecycle: Lifecycle) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (driver, lifecycle) = (driver.clone(), lifecycle.clone());
                tokio::spawn(async move {
                    if let Err(error) = answer(stream, &driver, &lifecycle).await {
                        warn!("control socket: {error}");
                    }
                });
            }
            Err(error) => {
                warn!("control socket: accept failed: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer(mut stream: UnixStream, driver: &Handle, lifecycle: &Lifecycle) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let mut line = String::new();
    tokio::io::BufReader::new(read.take(LINE_MAX)).read_line(&mut line).await?;
    if line.trim() != "drain" {
        return write.write_all(b"{\"error\":\"unknown request\"}\n").await;
    }
    // Not before: a connection that asks for nothing must not hold the stop.
    let _busy = lifecycle.busy();
    info!("asked to drain through the control socket");
    driver.input(Input::Drain);
    let reason = lifecycle.halted().await;
    let mut text = serde_json::to_string(&DrainReport::of(reason.as_ref()))?;
    text.push('\n');
    write.write_all(text.as_bytes()).await
}

/// Why a drain was not seen through.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    #[error("no answer from a server in {}: {error}", dir.display())]
    NoServer { dir: PathBuf, error: io::Error },
    #[error("the server in {} has not drained within {} s; it goes on with it", dir.display(), limit.as_secs())]
    NotDrained { dir: PathBuf, limit: Duration },
    #[error("the server in {} ended without saying how far it came", dir.display())]
    NoReport { dir: PathBuf },
    #[error(
        "the server in {} has stopped, but its process has not ended within {} s: the directory is still locked",
        dir.display(), limit.as_secs()
    )]
    NotEnded { dir: PathBuf, limit: Duration },
}

/// Asks the server of `data_dir` to drain and waits up to `limit` for its report.
///
/// # Errors
/// Nobody listens, the report is not there in time, or the server ended without one.
pub fn request_drain(data_dir: &Path, limit: Duration) -> Result<DrainReport, DrainError> {
    let dir = || data_dir.to_owned();
    let exchange = || {
        let mut stream = with_socket_path(data_dir, |path| StdUnixStream::connect(path))?;
        // A limit of zero would mean none.
        stream.set_read_timeout(Some(limit.max(Duration::from_millis(1))))?;
        stream.write_all(b"drain\n")?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    };
    let line: String = exchange().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => DrainError::NotDrained { dir: dir(), limit },
        _ => DrainError::NoServer { dir: dir(), error },
    })?;
    if line.is_empty() {
        return Err(DrainError::NoReport { dir: dir() });
    }
    serde_json::from_str(&line).map_err(|error| DrainError::NoServer { dir: dir(), error: error.into() })
}

/// Waits until the process that serves `data_dir` is gone, which frees its lock; not longer than `limit`.
///
/// # Errors
/// The lock is still held by then, or the directory cannot be looked at.
pub fn wait_for_end(data_dir: &Path, limit: Duration) -> Result<(), DrainError> {
    let no_server = |error| DrainError::NoServer { dir: data_dir.to_owned(), error };
    let dir = File::open(data_dir).map_err(no_server)?;
    let began = Instant::now();
    loop {
        // Shared, and given back at once: two that wait do not see each other, and a server that starts meanwhile tries
        // for longer than this takes.
        match flock(&dir, FlockOperation::NonBlockingLockShared) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(no_server(error.into())),
            Err(_) if began.elapsed() >= limit => {
                return Err(DrainError::NotEnded { dir: data_dir.to_owned(), limit });
            }
            Err(_) => std::thread::sleep(END_POLL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault: `drain` returned while the process, and with it the lock of the directory, was still there.
    #[test]
    fn the_end_is_waited_for_as_long_as_the_directory_is_locked() {
        let dir = tempfile::tempdir().expect("directory");
        let held = File::open(dir.path()).expect("open");
        flock(&held, FlockOperation::NonBlockingLockExclusive).expect("lock");
        let failure = wait_for_end(dir.path(), Duration::ZERO).expect_err("still there");
        assert!(failure.to_string().contains("its process has not ended within 0 s"), "{failure}");
        drop(held);
        wait_for_end(dir.path(), Duration::ZERO).expect("gone");
        let again = File::open(dir.path()).expect("open");
        flock(&again, FlockOperation::NonBlockingLockExclusive).expect("nothing is left locked");
    }
}
