//! The `ZkEnsemble` custom resource: what a user asks for (`spec`) and what the operator found (`status`).
//!
//! Nothing here talks to a cluster. Every rule the API server enforces through CEL is also checked by
//! [`validate`], so that local mode and the command line refuse the same files with the same words.
//! The operator never writes into `spec`.

mod config_keys;
pub mod generate;
mod quantity;
mod spec;
mod status;
pub mod strict;
pub mod validate;

pub use config_keys::{CONFIG_KEYS, ConfigKey, ValueKind};
pub use quantity::Quantity;
pub use spec::{
    MAX_OBSERVERS, MAX_VOTERS, ReclaimPolicy, RolloutSpec, StorageSpec, ZkEnsemble, ZkEnsembleSpec,
};
pub use status::{ConditionType, MemberStatus, Reason, RolloutStatus, ZkEnsembleStatus};

/// Annotation that restarts every member in turn when its value changes.
pub const RESTARTED_AT: &str = "zkensemble.dev/restartedAt";
/// The annotation `kubectl rollout restart` writes; honoured like [`RESTARTED_AT`].
pub const KUBECTL_RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";
/// Annotation that stops every act of the operator on this ensemble while it is `"true"`.
pub const PAUSE: &str = "zkensemble.dev/pause";
/// Annotation whose value, a revision, lets a supervised rollout to it restart the leader.
pub const APPROVE: &str = "zkensemble.dev/approve-rollout";
/// Prefix of `spec.image` that names a zk-server binary of this machine; local mode only.
pub const LOCAL_IMAGE: &str = "local:";

impl ZkEnsemble {
    /// The value of annotation `key`, if set.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// The resource's name; empty only for an object that was never validated.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Whether a person stopped every act of the operator on this ensemble.
    #[must_use]
    pub fn reconciliation_paused(&self) -> bool {
        self.annotation(PAUSE) == Some("true")
    }
}
