//! [`Disk`] over the real file system.
//!
//! A directory is fsynced through a handle of its own, because a name is durable only then; creating a directory
//! fsyncs each parent for the same reason.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::disk::{Disk, DiskFile, DiskUsage};

/// The file system of this machine.
#[derive(Clone, Copy, Default, Debug)]
pub struct FileDisk;

/// A file of [`FileDisk`].
#[derive(Debug)]
pub struct RealFile(File);

impl Disk for FileDisk {
    type File = RealFile;

    fn create(&self, path: &Path) -> io::Result<RealFile> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        Ok(RealFile(file))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<RealFile> {
        Ok(RealFile(OpenOptions::new().read(true).write(write).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            // Everything this crate names is ASCII; a name that is not even UTF-8 is none of its business.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        fs::exists(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.as_os_str().is_empty() || fs::exists(dir)? {
            return Ok(());
        }
        let parent = dir.parent().unwrap_or(Path::new(""));
        self.create_dir_all(parent)?;
        match fs::create_dir(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.sync_dir(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn usage(&self, dir: &Path) -> io::Result<DiskUsage> {
        let stat = rustix::fs::statvfs(dir)?;
        let inodes_free = if stat.f_files == 0 { u64::MAX } else { stat.f_favail };
        Ok(DiskUsage {
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
            free: stat.f_bavail.saturating_mul(stat.f_frsize),
            inodes_free,
        })
    }
}

impl DiskFile for RealFile {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.0.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn size(&mut self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&mut self, offset: u64, len: u64) -> io::Result<()> {
        loop {
            match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), offset, len) {
                Err(Errno::INTR) => {}
                // Not every file system can reserve space; the zeros are what the format needs.
                Err(Errno::OPNOTSUPP) => {
                    let end = (offset + len).max(self.size()?);
                    return self.0.set_len(end);
                }
                other => return Ok(other?),
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}
