//! The Unix socket in the data directory through which this machine, and nobody else, can ask the server to drain.
//!
//! One line in, one line of JSON out. Who may write to the data directory may do this: the directory's permissions are
//! the access control.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tracing::{info, warn};
use zk_core::Input;
use zk_core::effect::HaltReason;

use crate::driver::Handle;
use crate::lifecycle::Lifecycle;

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
    fn of(reason: &HaltReason) -> Self {
        let failed = |what: &str| Self {
            drained: false,
            zxid: "0x0".into(),
            resigned: false,
            error: Some(what.into()),
        };
        match reason {
            HaltReason::Drained { zxid, resigned } => {
                Self { drained: true, zxid: zxid.to_string(), resigned: *resigned, error: None }
            }
            HaltReason::DiskFailed(why) | HaltReason::DiskFull(why) | HaltReason::CorruptData(why) => {
                failed(why)
            }
        }
    }
}

/// Path of the socket.
pub fn socket_path(data_dir: &Path) -> PathBuf {
    data_dir.join("zk-server.sock")
}

/// Opens the socket. The data directory is locked by now, so a socket left over belongs to no living server.
pub fn listen(data_dir: &Path) -> io::Result<UnixListener> {
    let path = socket_path(data_dir);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Removes the socket; a client then finds nobody instead of a dead end.
pub fn remove(data_dir: &Path) {
    if let Err(error) = std::fs::remove_file(socket_path(data_dir)) {
        warn!("control socket: {error}");
    }
}

/// Answers requests until the process ends.
pub async fn serve(listener: UnixListener, driver: Handle, lifecycle: Lifecycle) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (driver, lifecycle) = (driver.clone(), lifecycle.clone());
                tokio::spawn(async move {
                    let _busy = lifecycle.busy();
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
    info!("asked to drain through the control socket");
    driver.input(Input::Drain);
    let reason = lifecycle.halted().await;
    let mut text = serde_json::to_string(&DrainReport::of(&reason))?;
    text.push('\n');
    write.write_all(text.as_bytes()).await
}

/// Asks the server of `data_dir` to drain and waits for its report.
pub fn request_drain(data_dir: &Path, timeout: Duration) -> io::Result<DrainReport> {
    let mut stream = StdUnixStream::connect(socket_path(data_dir))?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(b"drain\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}
