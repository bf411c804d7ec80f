//! The directory that holds everything a local ensemble keeps: one directory a member, the record of its membership,
//! its status.
//!
//! `initialize` markers are written here, at the first bootstrap and never again: a member whose data is lost later
//! must not vote as if it had none to lose (invariant 9). The record is what tells the two apart.

use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::plan::{DesiredMember, Membership, Objects};

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
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context(format!("cannot read {}", path.display())),
        };
        let membership =
            serde_yaml::from_str(&text).with_context(|| format!("{} is not a membership", path.display()))?;
        Ok(Some(membership))
    }

    /// Makes every member's directory with its marker and then records the membership. Interrupted before the record,
    /// it is done again from the start, and no member can have run.
    pub(super) fn bootstrap(&self, name: &str, objects: &Objects) -> anyhow::Result<Membership> {
        let mut membership = Membership::default();
        for member in &objects.members {
            let data = self.prepare(member)?;
            if !data.join("version-2").exists() {
                replace(&data.join("initialize"), "")?;
            }
            let kind = if member.voter { &mut membership.voters } else { &mut membership.observers };
            kind.insert(member.id);
        }
        replace(&self.record(name), &serde_yaml::to_string(&membership)?)?;
        Ok(membership)
    }

    /// Brings a member's directory to what its next start needs; answers its data directory.
    pub(super) fn prepare(&self, member: &DesiredMember) -> anyhow::Result<PathBuf> {
        let data = PathBuf::from(&member.address.data_dir);
        fs::create_dir_all(&data).with_context(|| format!("cannot create {}", data.display()))?;
        replace(&data.join("myid"), &format!("{}\n", member.id))?;
        replace(&self.zoo_cfg(member), &member.zoo_cfg)?;
        Ok(data)
    }

    /// Path of a member's configuration.
    pub(super) fn zoo_cfg(&self, member: &DesiredMember) -> PathBuf {
        self.path.join(&member.address.name).join("zoo.cfg")
    }

    /// A member's log, opened at its end.
    pub(super) fn log(&self, name: &str) -> std::io::Result<File> {
        File::options().create(true).append(true).open(self.path.join(name).join("server.log"))
    }

    /// Publishes the status: the file is what `kubectl get -o yaml` would show.
    pub(super) fn publish(&self, name: &str, status: &str) -> anyhow::Result<()> {
        replace(&self.path.join(format!("{name}.status.yaml")), status)
    }

    fn record(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.membership.yaml"))
    }
}

/// Writes a whole file or none of it: a reader never sees half.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || -> std::io::Result<()> {
        let beside = path.with_extension("new");
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
