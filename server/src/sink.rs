//! Carries out what the core asks for.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tracing::{debug, error, info, warn};
use zk_core::effect::{ClientMessage, Effect, HaltReason, IoId, Observation, PersistOp, Sink};
use zk_core::input::{ConnId, LinkId};
use zk_jute::quorum::QuorumPacket;

use crate::disk::StorageHandle;
use crate::driver::Clients;
use crate::metrics::Metrics;
use crate::net::client_port::Mailbox;
use crate::net::election_port::ElectionPort;
use crate::net::link::Link;
use crate::net::quorum_port::QuorumPort;

/// The driver's side of every adapter.
pub struct DriverSink {
    clients: Clients,
    links: HashMap<LinkId, Arc<Link>>,
    storage: StorageHandle,
    election: Option<Arc<ElectionPort>>,
    quorum: Option<Arc<QuorumPort>>,
    metrics: Arc<Metrics>,
    /// Operations of this batch; they go to the storage thread together, so that it can group them.
    persist: Vec<(IoId, PersistOp)>,
    wake_clients: Vec<Arc<Mailbox>>,
    wake_links: Vec<LinkId>,
    failed_links: VecDeque<(LinkId, String)>,
    halt: Option<HaltReason>,
}

impl DriverSink {
    pub fn new(
        storage: StorageHandle,
        election: Option<Arc<ElectionPort>>,
        quorum: Option<Arc<QuorumPort>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            clients: Clients::default(),
            links: HashMap::new(),
            storage,
            election,
            quorum,
            metrics,
            persist: Vec::new(),
            wake_clients: Vec::new(),
            wake_links: Vec::new(),
            failed_links: VecDeque::new(),
            halt: None,
        }
    }

    pub fn add_client(&mut self, conn: ConnId, mailbox: Arc<Mailbox>) {
        self.clients.insert(conn, mailbox);
    }

    pub fn remove_client(&mut self, conn: ConnId) {
        self.clients.remove(&conn);
    }

    pub fn add_link(&mut self, id: LinkId, link: Arc<Link>) {
        self.links.insert(id, link);
    }

    /// Forgets a link; false if it was closed from this side before.
    pub fn remove_link(&mut self, id: LinkId) -> bool {
        self.links.remove(&id).is_some()
    }

    /// Gives the link its budget back; false if the link is closed.
    pub fn received(&self, id: LinkId, cost: u32) -> bool {
        let Some(link) = self.links.get(&id) else { return false };
        link.received_budget.add_permits(usize::try_from(cost).unwrap_or(0));
        true
    }

    /// A link that could not take what was sent.
    pub fn take_failed_link(&mut self) -> Option<(LinkId, String)> {
        self.failed_links.pop_front()
    }

    pub fn halted(&self) -> bool {
        self.halt.is_some()
    }

    pub fn take_halt(&mut self) -> Option<HaltReason> {
        self.halt.take()
    }

    /// Wakes everybody for whom something was done since the last flush.
    pub fn flush(&mut self) {
        if !self.persist.is_empty() {
            self.storage.ops(std::mem::take(&mut self.persist));
        }
        // Proposals before replies: the followers' disks work while ours does.
        for id in self.wake_links.drain(..) {
            if let Some(link) = self.links.get(&id) {
                link.flush();
            }
        }
        for mailbox in self.wake_clients.drain(..) {
            mailbox.wake();
        }
    }

    fn tell(&mut self, conn: ConnId, message: ClientMessage) {
        // A connection that is gone has nobody to tell.
        let Some(mailbox) = self.clients.get(&conn) else { return };
        if mailbox.push(message) {
            self.wake_clients.push(mailbox.clone());
        }
    }

    fn send(&mut self, id: LinkId, packet: QuorumPacket) {
        let Some(link) = self.links.get(&id) else { return };
        match link.push(packet) {
            Ok(true) => self.wake_links.push(id),
            Ok(false) => {}
            Err(overflow) => {
                link.close();
                self.links.remove(&id);
                self.failed_links.push_back((id, overflow.to_string()));
            }
        }
    }

    fn observe(&self, observation: Observation) {
        self.metrics.observe(&observation);
        match observation {
            Observation::RoleChanged { role, epoch } => info!("role is now {role}, epoch {epoch}"),
            Observation::ElectionFinished { leader, zxid } => {
                info!("election finished: server {leader} leads, at {zxid}")
            }
            Observation::EpochAccepted(epoch) => info!("accepted epoch {epoch}"),
            Observation::EpochCurrent(epoch) => info!("current epoch {epoch}"),
            Observation::Synchronizing { peer, mode, from, to } => {
                info!("synchronizing server {peer} by {mode} from {from} to {to}");
            }
            Observation::Serving { epoch, zxid } => info!("serving in epoch {epoch} from {zxid}"),
            Observation::LeftRole { why } => warn!("left role: {why}"),
            Observation::LinkFault { peer, why } => warn!("link to server {peer}: {why}"),
            Observation::DigestMismatch { zxid, expected, actual } => {
                error!(
                    "digest mismatch at {zxid}: expected {expected:#x}, tree has {actual:#x}; this member may have diverged"
                );
            }
            Observation::DiskFault(why) => error!("disk: {why}"),
            Observation::SnapshotStarted { zxid } => info!("snapshot at {zxid} started"),
            Observation::SessionExpired(session) => info!("session {session} expired"),
            Observation::Committed { zxid } => debug!("committed {zxid}"),
            Observation::Note(text) => info!("{text}"),
        }
    }
}

impl Sink for DriverSink {
    fn emit(&mut self, effect: Effect) {
        if self.halt.is_some() {
            return;
        }
        match effect {
            Effect::Persist { io, op } => {
                if let PersistOp::Append { bytes, .. } = &op {
                    self.metrics.appended(bytes.len());
                }
                self.persist.push((io, op));
            }
            Effect::Snapshot { image } => self.storage.snapshot(image),
            Effect::Client { conn, message } => self.tell(conn, message),
            Effect::CloseAllClients => {
                for mailbox in self.clients.values() {
                    if mailbox.push(ClientMessage::Close) {
                        self.wake_clients.push(mailbox.clone());
                    }
                }
            }
            Effect::SendVote { to, notification } => {
                if let Some(election) = &self.election {
                    election.send(to, &notification);
                }
            }
            Effect::Connect { link: id, to, port } => {
                if let Some(quorum) = &self.quorum {
                    let link = Link::new();
                    self.links.insert(id, link.clone());
                    quorum.connect(id, link, to, port);
                }
            }
            Effect::Send { link, packet } => self.send(link, packet),
            Effect::SendSnapshot { link: id, image } => {
                if let Some(link) = self.links.get(&id) {
                    link.push_snapshot(image);
                    self.wake_links.push(id);
                }
            }
            Effect::Close { link: id, reason } => {
                if let Some(link) = self.links.remove(&id) {
                    info!("closing link {}: {reason}", id.0 & !LinkId::ACCEPTED);
                    link.close();
                }
            }
            Effect::Observe(observation) => self.observe(observation),
            Effect::Halt(reason) => self.halt = Some(reason),
        }
    }
}
