//! The file that describes the ensemble, and its edits.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::crd::validate::validate_update;
use crate::crd::{ZkEnsemble, strict};

/// The file, what it last said, and the last valid ensemble it described.
pub(super) struct Source {
    path: PathBuf,
    /// The text `ensemble` was read from, or the last one refused.
    settled: String,
    /// A text seen once. An editor may be in the middle of writing, and half a file can be valid: a text counts when
    /// two looks in a row find it.
    fresh: Option<String>,
    /// Why the file could not be read at the last look.
    unreadable: Option<String>,
    ensemble: ZkEnsemble,
}

/// What became of an edit.
pub(super) enum Edit {
    Accepted,
    Refused(String),
}

impl Source {
    /// Reads the file for the first time.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut ensemble =
            strict::read(&text).with_context(|| format!("{} is not a valid ensemble", path.display()))?;
        ensemble.metadata.generation = Some(1);
        Ok(Self { path: path.to_owned(), settled: text, fresh: None, unreadable: None, ensemble })
    }

    /// The ensemble as last accepted.
    pub(super) fn ensemble(&self) -> &ZkEnsemble {
        &self.ensemble
    }

    /// The same, to publish a status in.
    pub(super) fn ensemble_mut(&mut self) -> &mut ZkEnsemble {
        &mut self.ensemble
    }

    /// The file's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Looks at the file again. An edit is told once, whether it was accepted or not.
    pub(super) fn poll(&mut self) -> Option<Edit> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => {
                self.unreadable = None;
                text
            }
            // A file that is away for a moment is an editor's rename; one that stays away changes nothing.
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => return self.cannot_read(&error),
        };
        if text == self.settled {
            self.fresh = None;
            return None;
        }
        if self.fresh.as_ref() != Some(&text) {
            self.fresh = Some(text);
            return None;
        }
        self.fresh = None;
        let edit = self.take(&text);
        self.settled = text;
        Some(edit)
    }

    /// Tells why the file cannot be read, once.
    fn cannot_read(&mut self, error: &std::io::Error) -> Option<Edit> {
        let why = format!("cannot read {}: {error}", self.path.display());
        if self.unreadable.as_ref() == Some(&why) {
            return None;
        }
        self.unreadable = Some(why.clone());
        Some(Edit::Refused(why))
    }

    fn take(&mut self, text: &str) -> Edit {
        let mut new = match strict::read(text) {
            Ok(new) => new,
            Err(error) => return Edit::Refused(error.to_string()),
        };
        let violations = validate_update(&new, &self.ensemble);
        if !violations.is_empty() {
            let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
            return Edit::Refused(list.join("\n  "));
        }
        // What the API server does: a generation counts changes of the spec.
        let generation = self.ensemble.metadata.generation.unwrap_or_default();
        new.metadata.generation = Some(generation + i64::from(new.spec != self.ensemble.spec));
        new.status = self.ensemble.status.take();
        self.ensemble = new;
        Edit::Accepted
    }
}
