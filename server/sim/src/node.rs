//! One member: a machine with a disk and a clock, and the process that runs on it, if any.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::BytesMut;
use zk_core::client::{ClientConfig, ClientConn, Inbox};
use zk_core::config::{Member, Membership, PeerConfig};
use zk_core::effect::HaltReason;
use zk_core::input::{ConnId, LinkId};
use zk_core::{Peer, Shared};
use zk_jute::{Epoch, ServerId, Zxid};

use crate::clock::{Nanos, NodeClock};
use crate::disk::SimDisk;
use crate::options::Options;
use crate::storage::Storage;

/// A client connection as its server sees it.
pub struct ServerConn {
    pub conn: ClientConn,
    pub inbox: Arc<Inbox>,
    pub input: BytesMut,
    pub client: usize,
    /// The client's number for it.
    pub connection: u64,
}

/// A running process.
pub struct Proc {
    pub peer: Peer,
    pub shared: Arc<Shared>,
    pub storage: Storage,
    pub conns: BTreeMap<ConnId, ServerConn>,
    pub client_config: Arc<ClientConfig>,
    /// Where the image that follows on a link ends, from the SNAP packet before it.
    pub snap_zxid: BTreeMap<LinkId, Zxid>,
    /// Last processed zxid that the oracles were told of; none before the first load.
    pub applied: Option<Zxid>,
    /// The epoch that this process leads: what it appends in it are its proposals.
    pub leading: Option<Epoch>,
    /// When the tick on the agenda is due.
    pub tick_at: Option<Nanos>,
    /// Connections whose inbox was filled.
    pub waken: BTreeSet<ConnId>,
}

/// One member.
pub struct Node {
    pub id: i64,
    pub disk: SimDisk,
    pub clock: NodeClock,
    pub proc: Option<Proc>,
    /// Which start of the process this is; numbers never repeat.
    pub boot: u64,
    /// The process stands still until then.
    pub paused_until: Option<Nanos>,
    /// An operator emptied the directory: no `initialize`, no autocreate.
    pub wiped: bool,
    /// How the last process ended, if it ended itself.
    pub halted: Option<HaltReason>,
    /// Disk batches take this many times as long.
    pub disk_slowness: u64,
    /// An operator wants it down: nobody restarts it.
    pub stopped: bool,
    next_conn: u64,
}

impl Node {
    /// A machine with an empty disk.
    pub fn new(id: i64, disk: SimDisk, clock: NodeClock) -> Self {
        Self {
            id,
            disk,
            clock,
            proc: None,
            boot: 0,
            paused_until: None,
            wiped: false,
            halted: None,
            disk_slowness: 1,
            stopped: false,
            next_conn: 0,
        }
    }

    /// A number for a client connection, never used before on this member.
    pub const fn next_conn(&mut self) -> ConnId {
        self.next_conn += 1;
        ConnId(self.next_conn)
    }

    /// True if the process exists, paused or not.
    pub const fn is_up(&self) -> bool {
        self.proc.is_some()
    }
}

impl Proc {
    /// A process around a peer that was just made.
    pub fn new(peer: Peer, shared: Arc<Shared>, storage: Storage, options: &Options) -> Self {
        Self {
            peer,
            shared,
            storage,
            conns: BTreeMap::new(),
            client_config: Arc::new(ClientConfig::new(options.tick_ms, options.rules.clone())),
            snap_zxid: BTreeMap::new(),
            applied: None,
            leading: None,
            tick_at: None,
            waken: BTreeSet::new(),
        }
    }

    /// Takes a new client connection in.
    pub fn accept(&mut self, id: ConnId, client: usize, connection: u64, now: zk_core::time::Now) {
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let conn = ClientConn::new(id, ip, self.client_config.clone(), self.shared.clone(), now);
        let inbox = conn.inbox();
        self.conns.insert(id, ServerConn { conn, inbox, input: BytesMut::new(), client, connection });
    }

    /// The connection that `client` knows by this number.
    pub fn conn_of(&self, client: usize, connection: u64) -> Option<ConnId> {
        self.conns
            .iter()
            .find(|(_, conn)| conn.client == client && conn.connection == connection)
            .map(|(id, _)| *id)
    }
}

/// The configuration of the whole ensemble.
pub fn membership(options: &Options) -> Membership {
    let member = |id: i64| {
        let kind = if options.is_voter(id) { "participant" } else { "observer" };
        Member {
            id: ServerId(id),
            voter: options.is_voter(id),
            weight: 1,
            group: None,
            text: format!("node{id}:2888:3888:{kind};2181").into(),
        }
    };
    Membership { version: 0, members: options.members().map(|id| (ServerId(id), member(id))).collect() }
}

/// What one member is told.
pub fn peer_config(options: &Options, id: i64, boot: u64) -> PeerConfig {
    PeerConfig {
        my_id: ServerId(id),
        membership: (!options.standalone).then(|| membership(options)),
        tick_ms: options.tick_ms,
        init_limit: options.init_limit,
        sync_limit: options.sync_limit,
        commit_log_count: options.commit_log_count,
        snap_count: options.snap_count,
        snap_size_limit: 4 << 30,
        election_min_ms: 50,
        election_max_ms: 1_600,
        election_finalize_ms: 50,
        observer_master: options.observer_master,
        seed: options.seed ^ ((id as u64) << 32) ^ boot,
        rules: options.rules.clone(),
    }
}
