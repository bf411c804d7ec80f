//! `zk-server check` and `zk-server dump`: files read without a server (upstream `TxnLogToolkit`, `SnapshotFormatter`; a
//! check as a whole upstream does not have).
//!
//! Both only read: every file is opened for reading, and nothing is repaired. What they find they say, in order, and
//! what a start would do about it decides the exit code.

mod check;
mod dump_log;
mod dump_snapshot;
mod format;
mod logs;
mod replay;
mod verify;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use tracing::error;
use zk_store::{LONGEST_RECORD, StoreConfig};

use crate::cli::Exit;

/// Where the files are below a data directory.
const VERSION_DIR: &str = "version-2";

/// Verifies a data directory and prints what was found: every file for itself, then the tree that they give, transaction
/// by transaction against the digest that its leader logged.
///
/// [`Exit::Clean`] if a server could start from the directory and would have everything: warnings are what a start
/// repairs or proves harmless (a torn tail, a repeated record). [`Exit::Other`] with an error among the problems,
/// [`Exit::Usage`] if `dir` or `log_dir` is no data directory. One problem a line, or one JSON object.
///
/// # Errors
/// What cannot be read at all, and a failed write to `out`.
pub fn check(
    dir: &Path,
    log_dir: Option<PathBuf>,
    as_json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let mut config = StoreConfig { max_record: LONGEST_RECORD, ..StoreConfig::new(dir) };
    config.log_dir = log_dir.unwrap_or_else(|| dir.to_owned());
    for dir in [&config.data_dir, &config.log_dir] {
        if !dir.join(VERSION_DIR).is_dir() {
            error!("{} is no data directory: there is no {VERSION_DIR} in it", dir.display());
            return Ok(Exit::Usage);
        }
    }
    let checked = check::Checked::of(&config)?;
    forgive_closed_pipe(checked.print(as_json, out))?;
    Ok(if checked.report.is_usable() { Exit::Clean } else { Exit::Other })
}

/// Prints a transaction log or a snapshot, told apart by the magic number, or by the name where that is unknown. Text as
/// upstream's tools print it, or one JSON object a line.
///
/// [`Exit::Clean`] if the file is intact to its end, [`Exit::Other`] if it is not, [`Exit::Usage`] if there is no such
/// file. What is wrong is the last line, with file and offset.
///
/// # Errors
/// A file that cannot be read at all, and a failed write to `out`.
pub fn dump(file: &Path, as_json: bool, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let mut magic = [0; 4];
    match File::open(file).and_then(|mut opened| read_start(&mut opened, &mut magic)) {
        Ok(()) => {}
        Err(failure) if matches!(failure.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => {
            error!("cannot dump {}: {failure}", file.display());
            return Ok(Exit::Usage);
        }
        Err(failure) => return Err(anyhow::anyhow!("cannot read {}: {failure}", file.display())),
    }
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_snapshot = match &magic {
        b"ZKSN" => true,
        b"ZKLG" => false,
        _ => name.starts_with("snapshot."),
    };
    let mut out = std::io::BufWriter::new(out);
    let printed = match is_snapshot {
        true => dump_snapshot::print(file, as_json, &mut out),
        false => dump_log::print(file, as_json, &mut out),
    };
    match printed.and_then(|exit| out.flush().map(|()| exit).map_err(Into::into)) {
        Err(failure) => forgive_closed_pipe(Err(failure)).map(|()| Exit::Clean),
        exit => exit,
    }
}

/// As much of `magic` as the file has.
fn read_start(file: &mut File, magic: &mut [u8; 4]) -> std::io::Result<()> {
    match file.read_exact(magic) {
        Err(failure) if failure.kind() == ErrorKind::UnexpectedEof => Ok(()),
        other => other,
    }
}

/// A reader that has seen enough (`| head`) is no failure.
fn forgive_closed_pipe(printed: anyhow::Result<()>) -> anyhow::Result<()> {
    match printed {
        Err(failure)
            if failure
                .downcast_ref::<std::io::Error>()
                .is_some_and(|failure| failure.kind() == ErrorKind::BrokenPipe) =>
        {
            Ok(())
        }
        other => other,
    }
}
