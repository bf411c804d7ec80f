//! The directory that holds everything a local ensemble keeps: one directory a member, the record of its membership,
//! its status.
//!
//! `initialize` markers are written here, at the first bootstrap and never again: a member whose data is lost later
//! must not vote as if it had none to lose (invariant 9). The record is what tells the two apart.

use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::plan::{DesiredMember, MemberId, Membership, Objects};

/// What a bootstrap found and made.
pub(super) struct Bootstrapped {
    pub(super) membership: Membership,
    /// Members that had data already; if there are any, only they have a vote at first.
    pub(super) holding: Vec<MemberId>,
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
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context(format!("cannot read {}", path.display())),
        };
        let membership =
            serde_yaml::from_str(&text).with_context(|| format!("{} is not a membership", path.display()))?;
        Ok(Some(membership))
    }

    /// Makes every member's directory with its marker and then records the membership. Interrupted before the record,
    /// it is done again from the start, and no member can have run.
    ///
    /// No marker is written as soon as one member has data (a record that was lost, a directory brought from elsewhere):
    /// the others could elect each other with nothing before that member is up, and its data would be cut to theirs.
    /// Without a marker they have no vote, and get everything from the one that has it.
    pub(super) fn bootstrap(&self, name: &str, objects: &Objects) -> anyhow::Result<Bootstrapped> {
        let mut membership = Membership::default();
        let mut empty = Vec::new();
        let mut holding = Vec::new();
        for member in &objects.members {
            let data = self.prepare(member)?;
            if data.join("version-2").exists() {
                holding.push(member.id)
            } else {
                empty.push(data)
            }
            let kind = if member.voter { &mut membership.voters } else { &mut membership.observers };
            kind.insert(member.id);
        }
        if holding.is_empty() {
            for data in empty {
                replace(&data.join("initialize"), "")?;
            }
        }
        // Last: with the record and without the markers no quorum would ever form.
        replace(&self.record(name), &serde_yaml::to_string(&membership)?)?;
        Ok(Bootstrapped { membership, holding })
    }

    /// Brings a member's directory to what its next start needs; answers its data directory.
    pub(super) fn prepare(&self, member: &DesiredMember) -> anyhow::Result<PathBuf> {
        let data = PathBuf::from(&member.address.data_dir);
        fs::create_dir_all(&data).with_context(|| format!("cannot create {}", data.display()))?;
        for directory in [Some(self.path.as_path()), data.parent()].into_iter().flatten() {
            sync_directory(directory).with_context(|| format!("cannot sync {}", directory.display()))?;
        }
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

/// Makes the names in a directory durable.
fn sync_directory(directory: &Path) -> std::io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Writes a whole file or none of it: a reader never sees half. What is written afterwards is not durable before it.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || -> std::io::Result<()> {
        let beside = path.with_extension("new");
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        path.parent().map_or(Ok(()), sync_directory)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd::strict;
    use crate::plan::Layout;

    fn objects(root: &Root) -> Objects {
        let ensemble = strict::read(include_str!("../../examples/three-members.yaml")).expect("valid");
        let layout = Layout::Machine { base_port: 2181, root: root.path().display().to_string() };
        Objects::of(&ensemble, &Membership::wanted(&ensemble.spec), &layout)
    }

    fn markers(objects: &Objects) -> usize {
        let marker = |member: &DesiredMember| Path::new(&member.address.data_dir).join("initialize");
        objects.members.iter().filter(|member| marker(member).exists()).count()
    }

    #[test]
    fn a_new_ensemble_gets_a_marker_for_every_member() {
        let root = Root::open(None).expect("directory");
        let objects = objects(&root);
        let made = root.bootstrap("three-members", &objects).expect("bootstrap");
        assert_eq!((markers(&objects), made.holding.len(), made.membership.voters.len()), (3, 0, 3));
        assert!(root.membership("three-members").expect("record").is_some());
    }

    /// Fault: the marker was withheld for each directory by itself. Beside one member with data two empty ones could elect
    /// each other, and its data was cut to their empty history.
    #[test]
    fn no_member_may_begin_from_nothing_beside_one_that_has_data() {
        let root = Root::open(None).expect("directory");
        let objects = objects(&root);
        let data = Path::new(&objects.members[0].address.data_dir).join("version-2");
        fs::create_dir_all(&data).expect("data");
        let made = root.bootstrap("three-members", &objects).expect("bootstrap");
        assert_eq!((markers(&objects), made.holding), (0, vec![objects.members[0].id]));
    }
}
