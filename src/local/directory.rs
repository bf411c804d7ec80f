//! The directory that holds everything a local ensemble keeps: one directory a member, the record of its membership,
//! its status.
//!
//! `initialize` markers are written here, at the first bootstrap and never again: a member whose data is lost later
//! must not vote as if it had none to lose (invariant 9). The record is what tells the two apart; without one, a
//! history found in any member's directory does.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::plan::{DesiredMember, Membership, Objects};

/// Size in bytes a member's log may reach before it is moved aside. One older piece is kept, so a member's logs take
/// twice this at most: they are on the disk of the data, which they must not fill.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// What a bootstrap found and did.
pub(super) struct Bootstrap {
    /// Who the members are.
    pub(super) membership: Membership,
    /// Directories that held a history already; with any, no member was told to start from nothing.
    pub(super) kept: Vec<String>,
}

/// The directory, locked for as long as this lives.
pub(super) struct Root {
    path: PathBuf,
    /// Removed at exit when nobody named a directory.
    _temporary: Option<tempfile::TempDir>,
    _lock: File,
}

impl Root {
    /// Opens `wanted`, or a temporary directory.
    pub(super) fn open(wanted: Option<&Path>) -> anyhow::Result<Self> {
        let (path, temporary) = match wanted {
            Some(path) => {
                fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
                // Members get the path in their configuration and must find it from anywhere.
                (fs::canonicalize(path).with_context(|| format!("cannot open {}", path.display()))?, None)
            }
            None => {
                let directory = tempfile::Builder::new().prefix("zkensemble-").tempdir()?;
                (directory.path().to_owned(), Some(directory))
            }
        };
        let lock = File::create(path.join(".lock"))
            .with_context(|| format!("cannot write in {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _temporary: temporary, _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                bail!("{} is in use by another zk-operator local", path.display())
            }
            Err(TryLockError::Error(error)) => Err(error).context(format!("cannot lock {}", path.display())),
        }
    }

    /// The directory's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The membership `name` was bootstrapped with, if it was.
    pub(super) fn membership(&self, name: &str) -> anyhow::Result<Option<Membership>> {
        let path = self.record(name);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context(format!("cannot read {}", path.display())),
        };
        let membership =
            serde_yaml::from_str(&text).with_context(|| format!("{} is not a membership", path.display()))?;
        Ok(Some(membership))
    }

    /// Makes every member's directory with its marker and then records the membership. Interrupted before the record,
    /// it is done again from the start, and no member can have run.
    ///
    /// A history in one directory means that the ensemble has one: the record was lost, or data was brought here. Then
    /// nobody gets a marker, because two members that may start from nothing would elect each other and take the
    /// history from the third. Without a marker and without data a member has no vote, so a majority must have the data
    /// or none could ever lead; which copy is the right one is for a person to say.
    ///
    /// # Errors
    /// A history in some directories but not in those of a majority of voters; a directory or file that cannot be read,
    /// written or synced. Nothing is recorded then.
    pub(super) fn bootstrap(&self, name: &str, objects: &Objects) -> anyhow::Result<Bootstrap> {
        let kept = self.histories(name)?;
        let mut membership = Membership::default();
        for member in &objects.members {
            let kind = if member.voter { &mut membership.voters } else { &mut membership.observers };
            kind.insert(member.id);
        }
        let voters = objects.members.iter().filter(|member| member.voter);
        let holding = voters.filter(|member| kept.contains(&member.address.name)).count();
        if !kept.is_empty() && holding < membership.quorum() {
            bail!(
                "there is data in {}, and {} of {} voters must have it before one can lead: copy data/version-2 as a whole \
                 to the directories of others below {}, or move it away to start from nothing",
                kept.join(", "),
                membership.quorum(),
                membership.voters.len(),
                self.path.display(),
            );
        }
        for member in &objects.members {
            let marker = self.prepare(member)?.join("initialize");
            if kept.is_empty() {
                replace(&marker, "")?;
            } else {
                // One may be left from a bootstrap that was interrupted before the history was brought here.
                remove(&marker)?;
            }
        }
        replace(&self.record(name), &serde_yaml::to_string(&membership)?)?;
        Ok(Bootstrap { membership, kept })
    }

    /// Directories of `name`'s members, wanted ones or not, that hold a history.
    fn histories(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let at = || format!("cannot look for data in {}", self.path.display());
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path).with_context(at)? {
            let entry = entry.with_context(at)?;
            let directory = entry.file_name().to_string_lossy().into_owned();
            let id = directory.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
            let ours = id.is_some_and(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()));
            let history = entry.path().join("data/version-2");
            if ours
                && history.try_exists().with_context(|| format!("cannot look at {}", history.display()))?
            {
                found.push(directory);
            }
        }
        found.sort();
        Ok(found)
    }

    /// Brings a member's directory to what its next start needs; answers its data directory.
    ///
    /// # Errors
    /// A directory or file that cannot be written or synced.
    pub(super) fn prepare(&self, member: &DesiredMember) -> anyhow::Result<PathBuf> {
        let data = PathBuf::from(&member.address.data_dir);
        fs::create_dir_all(&data).with_context(|| format!("cannot create {}", data.display()))?;
        replace(&data.join("myid"), &format!("{}\n", member.id))?;
        replace(&self.zoo_cfg(member), &member.zoo_cfg)?;
        // The entry of the member's directory is the root's.
        sync(&self.path)?;
        Ok(data)
    }

    /// Path of a member's configuration.
    pub(super) fn zoo_cfg(&self, member: &DesiredMember) -> PathBuf {
        self.path.join(&member.address.name).join("zoo.cfg")
    }

    /// A member's log, opened at its end.
    pub(super) fn log(&self, name: &str) -> std::io::Result<File> {
        File::options().create(true).append(true).open(self.log_path(name))
    }

    /// Moves a member's log aside when it has reached [`LOG_BYTES_MAX`]. The member holds it open for appending, so its
    /// text is copied and the file emptied; lines written in between are lost.
    ///
    /// # Errors
    /// The log cannot be emptied. That it cannot be copied (a full disk) keeps nothing: the bound matters more.
    pub(super) fn trim_log(&self, name: &str) -> std::io::Result<()> {
        let path = self.log_path(name);
        match fs::metadata(&path) {
            Ok(found) if found.len() >= LOG_BYTES_MAX => {}
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
        let mut log = File::options().read(true).write(true).open(&path)?;
        let older = path.with_extension("log.1");
        if copy_end(&mut log, &older).is_err() {
            // Half a copy only takes space.
            let _ = fs::remove_file(&older);
        }
        log.set_len(0)
    }

    fn log_path(&self, name: &str) -> PathBuf {
        self.path.join(name).join("server.log")
    }

    /// Publishes the status: the file is what `kubectl get -o yaml` would show. It is written anew after every start,
    /// so it need not survive a power cut.
    pub(super) fn publish(&self, name: &str, status: &str) -> anyhow::Result<()> {
        let path = self.path.join(format!("{name}.status.yaml"));
        put(&path, status, false).with_context(|| format!("cannot write {}", path.display()))
    }

    fn record(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.membership.yaml"))
    }
}

/// Copies the last [`LOG_BYTES_MAX`] bytes of `log` to `older`.
fn copy_end(log: &mut File, older: &Path) -> std::io::Result<()> {
    let length = log.metadata()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES_MAX)))?;
    std::io::copy(log, &mut File::create(older)?)?;
    Ok(())
}

/// Writes a whole file or none of it, durably: a reader never sees half, and what is written after it is on disk only
/// if it is.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    put(path, text, true).with_context(|| format!("cannot write {}", path.display()))?;
    path.parent().map_or(Ok(()), sync)
}

fn put(path: &Path, text: &str, durable: bool) -> std::io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    if durable {
        file.sync_all()?;
    }
    fs::rename(&beside, path)
}

/// Removes a file that may be there, durably.
fn remove(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => path.parent().map_or(Ok(()), sync),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).context(format!("cannot remove {}", path.display())),
    }
}

/// Makes the entries of a directory durable: a rename is not, by itself.
fn sync(directory: &Path) -> anyhow::Result<()> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.with_context(|| format!("cannot sync {}", directory.display()))
}
