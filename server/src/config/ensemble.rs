//! The members, from `server.N`, `group.N` and `weight.N` (upstream `QuorumMaj`, `QuorumHierarchical`).

use std::collections::BTreeMap;

use zk_core::config::{Member, Membership};
use zk_jute::ServerId;

use super::properties::{Origin, Property};
use super::server_line::{HostPort, ServerLine};
use super::source::Settings;

/// The configured members with their addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ensemble {
    pub servers: BTreeMap<ServerId, ServerLine>,
    /// Group and weight of each voter, with hierarchical quorums.
    pub groups: BTreeMap<ServerId, (u32, u32)>,
    /// Version of the dynamic file (from its name, or else its line `version=`), 0 for a static configuration.
    pub version: i64,
}

impl Ensemble {
    /// What the core is told about the members.
    pub fn membership(&self) -> Membership {
        let members = self.servers.iter().map(|(id, line)| {
            let group = self.groups.get(id);
            let member = Member {
                id: *id,
                voter: line.voter,
                weight: group.map_or(1, |(_, weight)| *weight),
                group: group.map(|(group, _)| *group),
                text: line.to_string().into(),
            };
            (*id, member)
        });
        Membership { version: self.version, members: members.collect() }
    }

    /// Members that vote.
    pub fn voters(&self) -> impl Iterator<Item = ServerId> {
        self.servers.iter().filter(|(_, line)| line.voter).map(|(id, _)| *id)
    }

    /// Members that do not vote.
    pub fn observers(&self) -> impl Iterator<Item = ServerId> {
        self.servers.iter().filter(|(_, line)| !line.voter).map(|(id, _)| *id)
    }

    /// Reads the members from `settings`. `None` if the file names none. `named` is the version that the file's name
    /// carries.
    pub(super) fn read(settings: &mut Settings, named: Option<i64>) -> Option<Self> {
        let version = read_version(settings, named);
        let multi_address = settings.flag("multiAddress.enabled", false);
        let mut ensemble = Self { servers: BTreeMap::new(), groups: BTreeMap::new(), version };
        for (id, Property { key, value, origin }) in settings.family("server.") {
            let line = ServerLine::parse(&value, multi_address);
            match (parse_id(&id), line) {
                (Err(why), _) | (_, Err(why)) => settings.error(origin, format!("{key}: {why}")),
                (Ok(id), Ok(line)) => {
                    ensemble.servers.insert(id, line);
                }
            }
        }
        if ensemble.servers.is_empty() {
            return None;
        }
        ensemble.read_groups(settings);
        ensemble.check_addresses(settings);
        Some(ensemble)
    }

    fn read_groups(&mut self, settings: &mut Settings) {
        let weights = self.read_weights(settings);
        for (group, Property { key, value, origin }) in settings.family("group.") {
            let Ok(group) = group.parse::<u32>() else {
                settings.error(origin, format!("{key}: a group is a whole number"));
                continue;
            };
            for id in value.split(':') {
                match parse_id(id.trim()) {
                    Ok(id) if !self.servers.contains_key(&id) => {
                        settings.error(origin.clone(), format!("{key}: there is no server.{id}"));
                    }
                    Ok(id) => {
                        let weight = weights.get(&id).copied().unwrap_or(1);
                        if self.groups.insert(id, (group, weight)).is_some() {
                            settings.error(origin.clone(), format!("{key}: server {id} is in two groups"));
                        }
                    }
                    Err(why) => settings.error(origin.clone(), format!("{key}: {why}")),
                }
            }
        }
        if self.groups.is_empty() && weights.is_empty() {
            return;
        }
        let missing: Vec<ServerId> = self.voters().filter(|id| !self.groups.contains_key(id)).collect();
        for id in missing {
            let place = settings.place(&format!("server.{id}"));
            settings.error(place, format!("server.{id} is in no group.N, and groups or weights are used"));
        }
    }

    fn read_weights(&self, settings: &mut Settings) -> BTreeMap<ServerId, u32> {
        let mut weights = BTreeMap::new();
        for (id, Property { key, value, origin }) in settings.family("weight.") {
            match (parse_id(&id), value.parse::<u32>()) {
                (Ok(id), Ok(weight)) => {
                    weights.insert(id, weight);
                }
                (Err(why), _) => settings.error(origin, format!("{key}: {why}")),
                (_, Err(_)) => settings.error(origin, format!("{key}: {value:?} is no weight: 0 or more")),
            }
        }
        weights
    }

    /// Two members at one address would be one process voting twice.
    fn check_addresses(&self, settings: &mut Settings) {
        let mut seen: BTreeMap<&HostPort, ServerId> = BTreeMap::new();
        for (id, line) in &self.servers {
            for address in line.quorum.iter().chain(&line.election).chain(&line.client) {
                if address.is_wildcard() {
                    continue;
                }
                if let Some(other) = seen.insert(address, *id) {
                    let place = settings.place(&format!("server.{id}"));
                    settings
                        .error(place, format!("server.{id}: {address} is already used by server.{other}"));
                }
            }
        }
    }
}

/// `version=`, in hexadecimal, as upstream writes it into the file that it prepares for the next configuration. As
/// upstream, the name wins.
fn read_version(settings: &mut Settings, named: Option<i64>) -> i64 {
    let Some(Property { value, origin, .. }) = settings.raw("version").cloned() else {
        return named.unwrap_or(0);
    };
    match (i64::from_str_radix(&value, 16), named) {
        (Err(_), _) => {
            settings.error(origin, format!("version: {value:?} is not allowed: a hexadecimal number"));
            0
        }
        (Ok(written), None) => written,
        (Ok(written), Some(named)) => {
            if written != named {
                settings.warn(origin, format!("version={value}: the file's name says {named:x}, which wins"));
            }
            named
        }
    }
}

fn parse_id(text: &str) -> Result<ServerId, String> {
    match text.parse::<i64>() {
        Ok(id) if (0..=255).contains(&id) => Ok(ServerId(id)),
        _ => Err(format!("{text:?} is no server id: 0 to 255")),
    }
}

/// Reads the one number of a `myid` file.
pub(super) fn parse_my_id(text: &str, origin: &Origin, settings: &mut Settings) -> Option<ServerId> {
    match parse_id(text.lines().next().unwrap_or("").trim()) {
        Ok(id) => Some(id),
        Err(why) => {
            settings.error(origin.clone(), why);
            None
        }
    }
}
