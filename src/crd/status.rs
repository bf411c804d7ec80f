//! `ZkEnsemble.status`: what the operator found, recomputed from facts at every pass.
//!
//! No field here is an input to a decision but the ones documented as hints; nothing latches.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the operator found.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ZkEnsembleStatus {
    /// Generation of the spec this status answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Voting members that exist, running or not.
    pub replicas: i32,
    /// Members, observers included, that take part in the ensemble.
    pub ready_replicas: i32,
    /// Voters synced with the leader, the leader included.
    pub synced: i32,
    /// Label selector of the voters' pods, for the scale subresource.
    pub selector: String,
    /// Name of the member that leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// Version every member runs, or the lowest and highest while they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The leader's epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// The leader's last committed zxid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zxid: Option<String>,
    /// Members whose data differs from the majority's at the same zxid.
    pub divergent: i32,
    /// The fullest disk, as a share of its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// How far the members are in taking over the current template.
    pub rollout: RolloutStatus,
    /// What holds for the ensemble as a whole.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// One entry a member, in the order of their ids.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub members: Vec<MemberStatus>,
}

/// How far the members are in taking over the current template.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStatus {
    /// One word for where the rollout stands.
    pub phase: String,
    /// Revision of the current template.
    pub revision: String,
    /// When every member first ran `revision` and took part. A hint: it only tells a stalled rollout from a member
    /// that fails long after one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// The last revision with which every member took part. A hint: while `revision` has not shown that a member
    /// joins with it, a member that was lost is created from this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_completed: Option<String>,
    /// Revisions in use that some member took part with. A hint: what nobody joined with is tried on one member only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joined_revisions: Vec<String>,
    /// Members at `revision`, of all members.
    pub updated: String,
    /// The member being restarted or waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<u64>,
    /// When the rollout to `revision` was first seen. A hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// What was done last, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_step: Option<String>,
}

/// What is known of one member.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberStatus {
    /// The member's id, as in `myid`.
    pub id: u64,
    /// The member's name.
    pub name: String,
    /// Its role: leader, follower, observer, looking, ...; empty while it does not answer.
    pub role: String,
    /// In words, what it is doing.
    pub state: String,
    /// Whether it takes part in the ensemble, caught up and with healthy epoch files.
    pub joined: bool,
    /// Revision it runs at.
    pub revision: String,
    /// Version it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its current epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// The last zxid in its log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zxid: Option<String>,
    /// Transactions it is behind the leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<i64>,
    /// Share of its disk in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Times its process ended by itself since it was last started on purpose.
    pub restarts: i32,
}

/// The conditions of an ensemble. `True` is the good answer for all but `Progressing`, `Degraded` and
/// `ReconciliationPaused`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionType {
    /// The ensemble is what the spec asks for: its members are those asked for, each takes part, and each runs the
    /// current template.
    Ready,
    /// A leader serves with a synced quorum.
    Available,
    /// Members are being brought to the current template.
    Progressing,
    /// Something needs attention although the ensemble may serve.
    Degraded,
    /// Every voter is synced with the leader.
    QuorumSynced,
    /// No two members hold different data at the same zxid, and none saw a digest that is not its own. Unknown while a
    /// member does not answer, unless others show trouble.
    MembersConsistent,
    /// No member's disk is near full. Unknown while a member does not answer, unless another one's is.
    StorageHealthy,
    /// Epoch files are readable and agree with memory. Unknown while a member does not answer, unless another one's do
    /// not.
    EpochFilesHealthy,
    /// The members are those the spec asks for, or may become so.
    ScaleAllowed,
    /// A person stopped the operator's acts on this ensemble.
    ReconciliationPaused,
}

/// Why a condition is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    ApprovalNeeded,
    AsExpected,
    Bootstrapping,
    DiskPressure,
    EpochFileUnhealthy,
    ForeignLeader,
    GateClosed,
    ManyLeaders,
    MemberDown,
    MembersDivergent,
    MembersOutdated,
    MismatchSeen,
    NoFacts,
    NoLeader,
    NoMajority,
    NotPaused,
    PausedByAnnotation,
    QuorumLost,
    QuorumServing,
    RollingOut,
    RolloutComplete,
    RolloutPaused,
    RolloutStalled,
    ScalingNotSupported,
    VotersNotSynced,
}

impl std::fmt::Display for ConditionType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The variant's name is the condition's name.
        write!(f, "{self:?}")
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The variant's name is the reason's name.
        write!(f, "{self:?}")
    }
}

impl ZkEnsembleStatus {
    /// The condition of this type, if it was computed.
    #[must_use]
    pub fn condition(&self, wanted: ConditionType) -> Option<&Condition> {
        let name = wanted.to_string();
        self.conditions.iter().find(|condition| condition.type_ == name)
    }

    /// Whether the condition of this type is `True`.
    #[must_use]
    pub fn is_true(&self, wanted: ConditionType) -> bool {
        self.condition(wanted).is_some_and(|condition| condition.status == "True")
    }
}
