//! Renders a member's `zoo.cfg`.
//!
//! Two parts: the settings all members share, which make up the template and its revision, and the member's own
//! place. `db.autocreate=false` is in every file: a member that lost its data must not vote as if it had none to
//! lose (invariant 9); the adapter writes the `initialize` marker at the first bootstrap and never again.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::ensemble::{MemberId, Membership};
use super::layout::Layout;
use crate::crd::ZkEnsemble;

/// Settings a user may override through `spec.config`.
const DEFAULTS: &[(&str, &str)] = &[
    ("4lw.commands.whitelist", "conf,cons,crst,dirs,dump,envi,gtmk,isro,mntr,ruok,srst,srvr,stat,wchs"),
    ("autopurge.purgeInterval", "1"),
    ("autopurge.snapRetainCount", "3"),
    ("initLimit", "10"),
    ("maxClientCnxns", "60"),
    ("syncLimit", "5"),
    ("tickTime", "2000"),
];

/// Settings the operator's promises rest on.
const FIXED: &[(&str, &str)] =
    &[("admin.enableServer", "true"), ("db.autocreate", "false"), ("standaloneEnabled", "false")];

/// The settings all members share, by key.
pub(crate) fn shared_settings(ensemble: &ZkEnsemble) -> BTreeMap<&str, &str> {
    let own = ensemble.spec.config.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    // Later entries win: the user's over the defaults, the operator's over both.
    DEFAULTS.iter().copied().chain(own).chain(FIXED.iter().copied()).collect()
}

/// The whole `zoo.cfg` of member `id`.
#[must_use]
pub fn zoo_cfg(ensemble: &ZkEnsemble, membership: &Membership, layout: &Layout, id: MemberId) -> String {
    let own = layout.address(ensemble.name(), id);
    let mut text = format!("# Member {id} of {}, written by zk-operator; edits are lost.\n", ensemble.name());
    let mut line = |key: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{key}={value}");
    };
    for (key, value) in shared_settings(ensemble) {
        line(key, value);
    }
    line("dataDir", &own.data_dir);
    line("admin.serverAddress", layout.admin_bind());
    line("admin.serverPort", &own.admin_port.to_string());
    if membership.observers.contains(&id) {
        line("peerType", "observer");
    }
    for other in membership.ids() {
        let at = layout.address(ensemble.name(), other);
        let role = if membership.voters.contains(&other) { "participant" } else { "observer" };
        line(
            &format!("server.{other}"),
            &format!(
                "{}:{}:{}:{role};{}:{}",
                at.host, at.quorum_port, at.election_port, at.client_bind, at.client_port
            ),
        );
    }
    text
}
