//! Where members run: the hosts, ports and directories a platform gives them.

use super::ensemble::MemberId;

/// How a platform places members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All on this machine, told apart by port.
    Machine {
        /// Client port of member 1.
        base_port: u16,
        /// Directory that holds one directory a member.
        root: String,
    },
    /// One pod a member, told apart by host name.
    Cluster {
        /// Namespace of the pods.
        namespace: String,
        /// The cluster's DNS domain.
        domain: String,
    },
}

/// Where one member runs and listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The member's name: of its directory, its pod, its row in a table.
    pub name: String,
    /// Host other members and clients reach it at.
    pub host: String,
    /// Address it listens for clients on.
    pub client_bind: String,
    /// Port for clients.
    pub client_port: u16,
    /// Port for the admin server.
    pub admin_port: u16,
    /// Port for the leader's quorum connections.
    pub quorum_port: u16,
    /// Port for leader election.
    pub election_port: u16,
    /// Its `dataDir`.
    pub data_dir: String,
}

/// Distance between the blocks of client, admin, quorum and election ports on one machine.
const BLOCK: u16 = 100;
/// Observers' place within a block; above every voter's.
const OBSERVER_OFFSET: u16 = 10;
/// Highest base port whose last block still fits.
pub(crate) const MAX_BASE_PORT: u16 = u16::MAX - 4 * BLOCK;

impl Layout {
    /// Where member `id` of the ensemble `name` runs.
    ///
    /// # Panics
    /// When a machine's base port is above 65135: the adapter checks it before anything else.
    #[must_use]
    pub fn address(&self, name: &str, id: MemberId) -> Address {
        let (ordinal, observer) = id.ordinal();
        match self {
            Self::Machine { base_port, root } => {
                assert!(*base_port <= MAX_BASE_PORT, "base port {base_port} leaves no room for four blocks");
                let place =
                    u16::try_from(ordinal).unwrap_or(BLOCK - 1) + if observer { OBSERVER_OFFSET } else { 0 };
                assert!(place < BLOCK, "member {id} does not fit into a block of {BLOCK} ports");
                let member = format!("{name}-{id}");
                Address {
                    host: "127.0.0.1".to_owned(),
                    client_bind: "127.0.0.1".to_owned(),
                    client_port: base_port + place,
                    admin_port: base_port + BLOCK + place,
                    quorum_port: base_port + 2 * BLOCK + place,
                    election_port: base_port + 3 * BLOCK + place,
                    data_dir: format!("{root}/{member}/data"),
                    name: member,
                }
            }
            Self::Cluster { namespace, domain } => {
                let pod = format!("{name}-{}{ordinal}", if observer { "observer-" } else { "" });
                Address {
                    host: format!("{pod}.{name}-headless.{namespace}.svc.{domain}"),
                    client_bind: "0.0.0.0".to_owned(),
                    client_port: 2181,
                    admin_port: 8080,
                    quorum_port: 2888,
                    election_port: 3888,
                    data_dir: "/var/lib/zookeeper/data".to_owned(),
                    name: pod,
                }
            }
        }
    }

    /// Address the admin server listens on: never the network for a machine's own ensemble.
    #[must_use]
    pub fn admin_bind(&self) -> &'static str {
        match self {
            Self::Machine { .. } => "127.0.0.1",
            Self::Cluster { .. } => "0.0.0.0",
        }
    }
}
