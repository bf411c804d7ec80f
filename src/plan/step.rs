//! The acts a plan may ask for, each with the reason a person would want to read.

use super::ensemble::MemberId;
use super::revision::Revision;

/// One act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Give every member an empty data directory with the `initialize` marker, and record the membership. Asked for
    /// once in an ensemble's life: a marker written later could let an empty member vote (invariant 9).
    Bootstrap { reason: String },
    /// Create a member that does not exist, without the marker, from the template called `revision`: the current one,
    /// or the one the members ran before it while the current one has not shown that a member joins with it.
    Start { member: MemberId, revision: Revision, reason: String },
    /// Drain and stop the incarnation `uid` of a member, and create it again from the current template. Until then
    /// the adapter shows it as [`super::Process::Terminating`], never as absent: absent means lost. Draining a
    /// leader includes its resignation, to `successor` where the server lets one be named.
    Restart { member: MemberId, uid: String, successor: Option<MemberId>, reason: String },
}

impl Step {
    /// The member the step is about, if it is about one.
    #[must_use]
    pub fn member(&self) -> Option<MemberId> {
        match self {
            Self::Bootstrap { .. } => None,
            Self::Start { member, .. } | Self::Restart { member, .. } => Some(*member),
        }
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bootstrap { reason } => write!(f, "bootstrap: {reason}"),
            Self::Start { member, revision, reason } => {
                write!(f, "start member {member} at revision {revision}: {reason}")
            }
            Self::Restart { member, reason, .. } => write!(f, "restart member {member}: {reason}"),
        }
    }
}
