//! `zoo.cfg`, the dynamic configuration file, `myid`, `-D` arguments and environment: read, checked, and turned into
//! one [`Config`] with every default filled in (upstream `QuorumPeerConfig` and the many `System.getProperty` calls).
//!
//! Unknown keys are warnings with their line; a bad value is an error with file, line and what is allowed; whatever
//! asks for protection that is not implemented refuses the start, so that nobody runs in the clear by accident.

mod build;
mod ensemble;
pub mod keys;
pub mod properties;
pub mod server_line;
mod settings;
pub mod source;
#[cfg(test)]
mod tests;

pub use build::{Loaded, Sources, load, without_secrets};
pub use ensemble::Ensemble;
pub use server_line::{HostPort, ServerLine};
pub use settings::{
    AdminConfig, ClientPortConfig, Config, MetricsConfig, NetConfig, StorageConfig, WordList,
};
pub use source::Diagnostic;
