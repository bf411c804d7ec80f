//! `zk-server check`: what the store finds in the files and what the tree adds to it, as text for people and as one JSON
//! object for programs.

use std::io::Write;

use serde_json::Value;
use zk_store::check::{CheckReport, Severity, check_dir};
use zk_store::{FileDisk, StoreConfig};

use super::verify::{TreeFacts, verify};

/// A data directory, verified.
pub(super) struct Checked {
    /// Everything that is wrong, whoever found it.
    pub(super) report: CheckReport,
    /// `None` if the files give no tree.
    tree: Option<TreeFacts>,
}

impl Checked {
    /// Verifies the directories of `config`.
    ///
    /// # Errors
    /// What cannot be read at all.
    pub(super) fn of(config: &StoreConfig) -> anyhow::Result<Self> {
        let mut report = check_dir(&FileDisk, config)?;
        let tree = verify(config, &mut report)?;
        Ok(Self { report, tree })
    }

    /// # Errors
    /// A failed write.
    pub(super) fn print(&self, as_json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
        match as_json {
            true => writeln!(out, "{:#}", self.json()?)?,
            false => self.text(out)?,
        }
        Ok(out.flush()?)
    }

    /// The report of the store with `tree` and `usable` beside its own fields.
    fn json(&self) -> anyhow::Result<Value> {
        let mut report = self.report.to_json();
        report["tree"] = serde_json::to_value(&self.tree)?;
        report["usable"] = self.report.is_usable().into();
        Ok(report)
    }

    /// Files, epochs and problems; the tree; the verdict.
    fn text(&self, out: &mut dyn Write) -> std::io::Result<()> {
        write!(out, "{}", self.report)?;
        match &self.tree {
            Some(tree) => tree_text(tree, out)?,
            None => writeln!(out, "tree: none")?,
        }
        let of =
            |severity| self.report.problems.iter().filter(|problem| problem.severity == severity).count();
        match (of(Severity::Error), of(Severity::Warning)) {
            (0, 0) => writeln!(out, "no problem"),
            (errors, warnings) => writeln!(out, "{errors} errors, {warnings} warnings"),
        }
    }
}

fn tree_text(tree: &TreeFacts, out: &mut dyn Write) -> std::io::Result<()> {
    match &tree.snapshot {
        Some(file) => write!(out, "tree: {}", file.display())?,
        None => write!(out, "tree: no snapshot")?,
    }
    writeln!(
        out,
        " and {} transactions up to {}: {} nodes, {} sessions, {} ephemerals, digest {}",
        tree.replayed, tree.last_zxid, tree.nodes, tree.sessions, tree.ephemerals, tree.digest
    )?;
    writeln!(out, "digests: {} compared, {} differ", tree.compared, tree.digest_mismatches)
}
