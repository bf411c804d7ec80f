//! The API server's rules for a `ZkEnsemble`, checked offline.
//!
//! Local mode and the command line refuse what the API server would refuse. `tests/crd_rules.rs` runs one table
//! of cases through these functions and through the CEL rules of the generated CRD and compares the answers.

use super::config_keys::{self, ConfigKey};
use super::quantity::Quantity;
use super::spec::{
    CLASS_MESSAGE, CONFIG_KEY_MESSAGE, GROW_MESSAGE, IMAGE_MESSAGE, MAX_CONFIG_VALUE, MAX_NAME,
    MAX_OBSERVERS, MAX_VOTERS, NAME_MESSAGE, ODD_MESSAGE, SIZE_MESSAGE, ZkEnsemble, ZkEnsembleSpec,
};

/// One thing that is wrong with a resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Violation {
    /// Path of the field, as in `spec.replicas`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

fn violation(field: impl Into<String>, message: impl Into<String>) -> Violation {
    Violation { field: field.into(), message: message.into() }
}

/// Everything that is wrong with `ensemble` by itself; empty when it is valid.
#[must_use]
pub fn validate(ensemble: &ZkEnsemble) -> Vec<Violation> {
    let spec = &ensemble.spec;
    let mut found = Vec::new();
    if !is_name(ensemble.name()) {
        found.push(violation("metadata.name", NAME_MESSAGE));
    }
    numbers(spec, &mut found);
    if spec.replicas % 2 == 0 {
        found.push(violation("spec.replicas", ODD_MESSAGE));
    }
    if spec.image.as_deref().is_some_and(|image| image.is_empty() || image.contains([' ', '\t', '\n'])) {
        found.push(violation("spec.image", IMAGE_MESSAGE));
    }
    if spec.version.as_deref().is_some_and(|version| !is_tag(version)) {
        found.push(violation("spec.version", "must be a tag such as 0.1.0"));
    }
    if !spec.storage.size.parse::<Quantity>().is_ok_and(|size| size.bytes() > 0) {
        found.push(violation("spec.storage.size", SIZE_MESSAGE));
    }
    config(spec, &mut found);
    found
}

/// Everything that is wrong with changing `old` into `new`; empty when the change may be made.
#[must_use]
pub fn validate_update(new: &ZkEnsemble, old: &ZkEnsemble) -> Vec<Violation> {
    let mut found = validate(new);
    if new.name() != old.name() {
        found.push(violation("metadata.name", "is immutable"));
    }
    let (storage, before) = (&new.spec.storage, &old.spec.storage);
    if let (Ok(now), Ok(was)) = (storage.size.parse::<Quantity>(), before.size.parse::<Quantity>())
        && now < was
    {
        found.push(violation("spec.storage.size", GROW_MESSAGE));
    }
    if storage.storage_class_name != before.storage_class_name {
        found.push(violation("spec.storage.storageClassName", CLASS_MESSAGE));
    }
    found
}

fn numbers(spec: &ZkEnsembleSpec, found: &mut Vec<Violation>) {
    let rollout = &spec.rollout;
    let ranges = [
        ("replicas", i64::from(spec.replicas), 1, i64::from(MAX_VOTERS)),
        ("observers", i64::from(spec.observers), 0, i64::from(MAX_OBSERVERS)),
        ("rollout.settleSeconds", i64::from(rollout.settle_seconds), 0, 3600),
        ("rollout.maxLagZxids", rollout.max_lag_zxids, 0, 1_000_000_000),
        ("rollout.drainSeconds", i64::from(rollout.drain_seconds), 1, 86_400),
        ("rollout.progressDeadlineSeconds", i64::from(rollout.progress_deadline_seconds), 1, 86_400),
    ];
    for (field, value, min, max) in ranges {
        if !(min..=max).contains(&value) {
            found
                .push(violation(format!("spec.{field}"), format!("must be from {min} to {max}, is {value}")));
        }
    }
}

fn config(spec: &ZkEnsembleSpec, found: &mut Vec<Violation>) {
    for (name, value) in &spec.config {
        let field = format!("spec.config[{name}]");
        match ConfigKey::find(name) {
            None => found.push(violation(field, CONFIG_KEY_MESSAGE)),
            Some(key) if value.len() > MAX_CONFIG_VALUE || !key.kind.accepts(value) => {
                found.push(violation(field, format!("must be {}, is {value:?}", key.kind)));
            }
            Some(_) => {}
        }
    }
    if let Some(message) = config_keys::contradiction(&spec.config) {
        found.push(violation("spec.config", message));
    }
}

fn is_name(name: &str) -> bool {
    let letters = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    name.len() <= MAX_NAME
        && name.bytes().all(letters)
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
}

fn is_tag(version: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    version.len() <= 128
        && version.starts_with(word)
        && version.chars().all(|c| word(c) || c == '.' || c == '-')
}
