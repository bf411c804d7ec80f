//! What local mode says once the ensemble serves: where it is and what to try.

use std::path::Path;

use crate::crd::ZkEnsemble;
use crate::plan::{Address, Layout, Objects};

/// The text, of several lines.
pub(super) fn text(ensemble: &ZkEnsemble, file: &Path, layout: &Layout, objects: &Objects) -> String {
    let addresses: Vec<&Address> = objects.members.iter().map(|member| &member.address).collect();
    let join = |one: fn(&Address) -> String, by: &str| {
        addresses.iter().map(|address| one(address)).collect::<Vec<_>>().join(by)
    };
    let clients = join(|at| format!("{}:{}", at.host, at.client_port), ",");
    let admins = join(|at| format!("http://{}:{}/commands", at.host, at.admin_port), "\n               ");
    let first = addresses.first().copied();
    let (client, admin) = first.map_or((0, 0), |at| (at.client_port, at.admin_port));
    let root = match layout {
        Layout::Machine { root, .. } => root.as_str(),
        Layout::Cluster { .. } => "",
    };
    format!(
        "ready: {name} serves with {count} members
    connect    {clients}
    admin      {admins}
    logs       {root}/{name}-ID/server.log
    try
      zkCli.sh -server {clients}
      python3 -c \"from kazoo.client import KazooClient as K; k = K('{clients}'); k.start(); print(k.get_children('/'))\"
      curl -s http://127.0.0.1:{admin}/commands/member
      echo srvr | nc 127.0.0.1 {client}
    then edit {file} (a config key, the image, the annotation zkensemble.dev/restartedAt)
    and watch the rolling restart. Ctrl-C drains and stops everything.",
        name = ensemble.name(),
        count = addresses.len(),
        file = file.display(),
    )
}
