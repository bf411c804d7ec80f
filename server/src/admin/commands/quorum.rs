//! Commands about the ensemble: who leads, who votes, who learns.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use zk_core::facts::{Facts, LearnerFacts, Role};

use crate::admin::{Admin, zab_phase};
use crate::config::HostPort;

/// `leader`.
pub(super) fn leader(admin: &Admin, facts: &Facts) -> Value {
    let Some(ensemble) = &admin.config.ensemble else {
        return json!({ "error": "server is not initialized" });
    };
    let line = facts.leader.and_then(|id| ensemble.servers.get(&id));
    json!({
        "is_leader": facts.role == Role::Leading,
        "leader_id": facts.leader.map_or(-1, |id| id.0),
        // As configured; upstream shows what it resolved that to.
        "leader_ip": line.and_then(|line| line.quorum.first()).map_or("", |address| address.host.as_str()),
    })
}

/// `observers`: those synced with this leader or observer master (upstream `LearnerHandler.getLearnerHandlerInfo`).
pub(super) fn observers(admin: &Admin, facts: &Facts) -> Value {
    let synced =
        |learner: &&LearnerFacts| learner.synced && !learner.voter && learner.sid != admin.config.my_id;
    let synced: Vec<Value> =
        facts.learners.iter().filter(synced).map(|learner| observer(admin, learner)).collect();
    json!({ "synced_observers": synced.len(), "observers": synced })
}

/// Counters of the link are not kept: null says that they are unknown, which a zero would not.
fn observer(admin: &Admin, learner: &LearnerFacts) -> Value {
    let line = admin.config.ensemble.as_ref().and_then(|ensemble| ensemble.servers.get(&learner.sid));
    json!({
        "remote_socket_address": line.and_then(|line| line.quorum.first()).map(ToString::to_string),
        "sid": learner.sid.0,
        "established": null,
        "queued_packets": null,
        "queued_packets_size": null,
        "packets_received": null,
        "packets_sent": null,
        "requests": null,
        "last_zxid": learner.last_zxid.0,
    })
}

/// `voting_view`. A client's address is known of the members whose line has it, and of this one.
pub(super) fn voting_view(admin: &Admin) -> Value {
    let Some(ensemble) = &admin.config.ensemble else { return json!({ "current_config": {} }) };
    let texts = |addresses: &[HostPort]| addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
    let view: BTreeMap<String, Value> = ensemble
        .servers
        .iter()
        .filter(|(_, line)| line.voter)
        .map(|(id, line)| {
            let own = admin.config.client.address.as_ref().filter(|_| *id == admin.config.my_id);
            let member = json!({
                "server_addresses": texts(&line.quorum),
                "election_addresses": texts(&line.election),
                "client_address": line.client.as_ref().or(own).map_or_else(String::new, ToString::to_string),
                "learner_type": "participant",
            });
            (id.to_string(), member)
        })
        .collect();
    json!({ "current_config": view })
}

/// `zabstate`. Upstream forgets its state while a leader is looked for; this shows it then too.
pub(super) fn zabstate(admin: &Admin, facts: &Facts) -> Value {
    let mine = admin.config.ensemble.as_ref().and_then(|ensemble| ensemble.servers.get(&admin.config.my_id));
    let Some(mine) = mine else { return json!({ "voting": false, "zabstate": "" }) };
    let zxid = facts.zxid_applied;
    json!({
        "myid": admin.config.my_id.0,
        "is_leader": facts.role == Role::Leading,
        "quorum_address": addresses(&mine.quorum),
        "election_address": addresses(&mine.election),
        "client_address": admin.config.client.address.as_ref().map_or_else(String::new, ToString::to_string),
        "voting": mine.voter,
        "last_zxid": format!("0x{:x}", zxid.0),
        "zab_epoch": zxid.epoch().0,
        "zab_counter": zxid.counter(),
        "zabstate": zab_phase(facts).unwrap_or("election"),
    })
}

/// Upstream's `MultipleAddresses` as its JSON library sees it. Whether an address can be reached is not probed here, so
/// every one counts as reachable.
fn addresses(all: &[HostPort]) -> Value {
    let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
    let first = texts.first();
    let ports: Vec<u16> = all.iter().map(|address| address.port).collect();
    json!({
        "empty": all.is_empty(),
        "all_addresses": texts,
        "wildcard_addresses": ports.iter().map(|port| format!("0.0.0.0:{port}")).collect::<Vec<_>>(),
        "all_ports": ports,
        "all_host_strings": all.iter().map(|address| address.host.as_str()).collect::<Vec<_>>(),
        "reachable_address": first,
        "all_reachable_addresses": texts,
        "all_reachable_addresses_or_all": texts,
        "reachable_or_one": first,
        "one": first,
    })
}
