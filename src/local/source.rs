//! The file that describes the ensemble, and its edits.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::crd::validate::validate_update;
use crate::crd::{ZkEnsemble, strict};

/// The file, what it last said, and the last valid ensemble it described.
pub(super) struct Source {
    path: PathBuf,
    /// The text `ensemble` was read from, or the last one refused.
    settled: Look,
    /// A look that found something new once. An editor may be in the middle of writing, half a file can be valid, and a
    /// rename can leave no file for a moment: what counts is what two looks in a row find.
    fresh: Option<Look>,
    ensemble: ZkEnsemble,
}

/// The file's text, or why there is none to read.
type Look = Result<String, String>;

fn look(path: &Path) -> Look {
    std::fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
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
        Ok(Self { path: path.to_owned(), settled: Ok(text), fresh: None, ensemble })
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

    /// Looks at the file again. An edit is told once, whether it was accepted or not; so is a file that cannot be read,
    /// which changes nothing.
    pub(super) fn poll(&mut self) -> Option<Edit> {
        let found = look(&self.path);
        if found == self.settled {
            self.fresh = None;
            return None;
        }
        if self.fresh.as_ref() != Some(&found) {
            self.fresh = Some(found);
            return None;
        }
        self.fresh = None;
        let edit = match &found {
            Ok(text) => self.take(text),
            Err(why) => Edit::Refused(why.clone()),
        };
        self.settled = found;
        Some(edit)
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
