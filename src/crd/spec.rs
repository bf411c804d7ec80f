//! `ZkEnsemble.spec`: what the user asks for, with the CEL rules the API server enforces.
//!
//! The rules' texts are constants because [`super::validate`] answers with the same words offline.

// The schema derive repeats each struct inside a function body, where `pub` reaches nobody.
#![allow(unreachable_pub)]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::config_keys;
use super::quantity;
use super::status::ZkEnsembleStatus;

/// Most voters an ensemble may have. Every write waits for a majority of them, so more would only be slower.
pub const MAX_VOTERS: i32 = 7;
/// Most observers an ensemble may have.
pub const MAX_OBSERVERS: i32 = 16;
/// Longest resource name: members, Services and labels add to it and must stay within 63 characters.
pub(crate) const MAX_NAME: usize = 40;
/// Most entries of `spec.config`; more than there are allowed keys.
pub(crate) const MAX_CONFIG: usize = 64;
/// Longest configuration value in characters.
pub(crate) const MAX_CONFIG_VALUE: usize = 256;

pub(crate) const NAME_MESSAGE: &str =
    "must be a DNS label of at most 40 characters that starts with a letter; members are named after it";
pub(crate) const ODD_MESSAGE: &str =
    "must be odd: an even number of voters tolerates no more failures than one voter fewer";
pub(crate) const IMAGE_MESSAGE: &str = "must not be empty or contain spaces";
pub(crate) const SIZE_MESSAGE: &str = "must be a size such as 10Gi, and more than zero";
pub(crate) const GROW_MESSAGE: &str = "may only grow: a volume cannot be shrunk";
pub(crate) const CLASS_MESSAGE: &str = "is immutable: volumes cannot move to another storage class";
pub(crate) const CONFIG_KEY_MESSAGE: &str =
    "is not a key that may be set here; membership, ports, directories and safety belong to the operator";

/// What a ZooKeeper ensemble should look like.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "zkensemble.dev",
    version = "v1alpha1",
    kind = "ZkEnsemble",
    plural = "zkensembles",
    singular = "zkensemble",
    shortname = "zke",
    category = "zookeeper",
    namespaced,
    doc = "A ZooKeeper ensemble: a set of zk-server members that agree on one history.",
    status = "ZkEnsembleStatus",
    derive = "PartialEq",
    validation = Rule::new("size(self.metadata.name) <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')")
        .message(NAME_MESSAGE),
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Synced", type_ = "integer", json_path = ".status.synced"),
    printcolumn(name = "Leader", type_ = "string", json_path = ".status.leader"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Epoch", type_ = "integer", json_path = ".status.epoch", priority = "1"),
    printcolumn(name = "Zxid", type_ = "string", json_path = ".status.zxid", priority = "1"),
    printcolumn(name = "Divergent", type_ = "integer", json_path = ".status.divergent", priority = "1"),
    printcolumn(name = "Disk", type_ = "string", json_path = ".status.disk", priority = "1"),
    printcolumn(name = "Rollout", type_ = "string", json_path = ".status.rollout.phase", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ZkEnsembleSpec {
    /// Number of voting members, odd.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 7))]
    #[x_kube(validation = Rule::new("self % 2 == 1").message(ODD_MESSAGE))]
    pub replicas: i32,

    /// Number of observers: members that serve reads and take no part in any vote.
    #[serde(default)]
    #[schemars(range(min = 0, max = 16))]
    pub observers: i32,

    /// Image of zk-server; takes precedence over `version`. In local mode `local:PATH` names a binary of this
    /// machine (relative to the file), and any other image stands for the binary the command line names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = Rule::new("self.matches('^[^ \\t\\n]+$')").message(IMAGE_MESSAGE))]
    pub image: Option<String>,

    /// Version of zk-server: the tag of the default image. Defaults to the operator's own version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}$"))]
    pub version: Option<String>,

    /// CPU and memory of each member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,

    /// The volume of each member.
    #[serde(default)]
    pub storage: StorageSpec,

    /// Further zoo.cfg keys, every value a string. A change restarts the members in turn.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "config_schema")]
    pub config: BTreeMap<String, String>,

    /// How members are restarted when something about them changes.
    #[serde(default)]
    pub rollout: RolloutSpec,
}

/// The volume of each member. Local mode has no volumes and ignores it.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)")
        .message(CLASS_MESSAGE).field_path(".storageClassName")
)]
pub struct StorageSpec {
    /// Size of the volume; may only grow.
    #[serde(default = "ten_gi")]
    #[schemars(length(max = 32), regex(pattern = quantity::PATTERN))]
    #[x_kube(
        validation = Rule::new("quantity(self).isGreaterThan(quantity('0'))").message(SIZE_MESSAGE),
        validation = Rule::new("quantity(self).compareTo(quantity(oldSelf)) >= 0").message(GROW_MESSAGE)
    )]
    pub size: String,

    /// Storage class; immutable. Without it the cluster's default class is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class_name: Option<String>,

    /// What becomes of the volumes when the resource is deleted.
    #[serde(default)]
    pub reclaim_policy: ReclaimPolicy,
}

/// What becomes of the volumes when the resource is deleted.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReclaimPolicy {
    /// Volumes stay.
    #[default]
    Retain,
    /// Volumes are deleted with the resource.
    Delete,
}

/// How members are restarted when something about them changes.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RolloutSpec {
    /// Whether to hold every restart back. A member that is missing is still started.
    #[serde(default)]
    pub paused: bool,

    /// Whether to stop before the leader until the annotation `zkensemble.dev/approve-rollout` names the revision.
    #[serde(default)]
    pub supervised: bool,

    /// Seconds a restarted member must have been back in the quorum before the next one is touched.
    #[serde(default = "ten")]
    #[schemars(range(min = 0, max = 3600))]
    pub settle_seconds: i32,

    /// Transactions a member may be behind the leader and still count as caught up.
    #[serde(default = "thousand")]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub max_lag_zxids: i64,

    /// Seconds a stopping member gets to drain before it is killed.
    #[serde(default = "sixty")]
    #[schemars(range(min = 1, max = 86_400))]
    pub drain_seconds: i32,

    /// Seconds a restarted member may take to rejoin before the rollout reports that it stalled.
    #[serde(default = "six_hundred")]
    #[schemars(range(min = 1, max = 86_400))]
    pub progress_deadline_seconds: i32,
}

fn three() -> i32 {
    3
}
fn ten() -> i32 {
    10
}
fn sixty() -> i32 {
    60
}
fn six_hundred() -> i32 {
    600
}
fn thousand() -> i64 {
    1000
}
fn ten_gi() -> String {
    "10Gi".to_owned()
}

impl Default for StorageSpec {
    fn default() -> Self {
        Self { size: ten_gi(), storage_class_name: None, reclaim_policy: ReclaimPolicy::Retain }
    }
}

impl Default for RolloutSpec {
    fn default() -> Self {
        Self {
            paused: false,
            supervised: false,
            settle_seconds: ten(),
            max_lag_zxids: thousand(),
            drain_seconds: sixty(),
            progress_deadline_seconds: six_hundred(),
        }
    }
}

impl ZkEnsembleSpec {
    /// The image members run: `image` as written, or the default image at `version`.
    #[must_use]
    pub fn effective_image(&self) -> String {
        let version = self.version.as_deref().unwrap_or(env!("CARGO_PKG_VERSION"));
        self.image.clone().unwrap_or_else(|| format!("ghcr.io/zkensemble/zk-server:{version}"))
    }
}

/// Schema of `spec.config`: the allow list of [`config_keys::CONFIG_KEYS`] as CEL rules.
fn config_schema(_: &mut SchemaGenerator) -> Schema {
    let rules: Vec<Value> = config_keys::rules(CONFIG_KEY_MESSAGE)
        .into_iter()
        .map(|(rule, message)| json!({ "rule": rule, "message": message }))
        .collect();
    json_schema!({
        "type": "object",
        "maxProperties": MAX_CONFIG,
        "additionalProperties": { "type": "string", "maxLength": MAX_CONFIG_VALUE, "pattern": "^[^\\n\\r]+$" },
        "x-kubernetes-validations": rules,
    })
}
