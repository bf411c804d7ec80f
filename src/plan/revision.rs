//! The revision of a template: equal exactly when a member need not be restarted.

use super::zoo_cfg::shared_settings;
use crate::crd::{KUBECTL_RESTARTED_AT, RESTARTED_AT, ZkEnsemble};

/// Names one template: the image, the shared settings, the resources and the restart annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(String);

impl Revision {
    /// The revision of the template `ensemble` describes.
    #[must_use]
    pub fn of(ensemble: &ZkEnsemble) -> Self {
        let mut hash = Fnv::default();
        hash.field(&ensemble.spec.effective_image());
        for (key, value) in shared_settings(ensemble) {
            hash.field(key);
            hash.field(value);
        }
        // Serialising plain data with string keys cannot fail; were it to, all such templates would share a revision.
        hash.field(&serde_json::to_string(&ensemble.spec.resources).unwrap_or_default());
        for key in [RESTARTED_AT, KUBECTL_RESTARTED_AT] {
            hash.field(ensemble.annotation(key).unwrap_or_default());
        }
        Self(format!("{:010x}", hash.0 & 0xff_ffff_ffff))
    }

    /// The revision another adapter recorded as `text`.
    #[must_use]
    pub fn recorded(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The revision as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// FNV-1a, 64 bits: the standard library's hasher may change between releases, and a revision must not.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Takes in one field and an end mark, so that fields cannot run into each other.
    fn field(&mut self, text: &str) {
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
