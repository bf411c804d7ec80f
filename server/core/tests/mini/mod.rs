//! The shortest world in which peers can live: links deliver at once and in order, time moves in milliseconds, a disk
//! is a list of transactions.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use zk_core::config::{Member, Membership, PeerConfig, Rules};
use zk_core::effect::{ClientMessage, Effect, HaltReason, IoId, PersistOp};
use zk_core::facts::Facts;
use zk_core::input::{
    ClientCommand, ClientRequest, ConnId, DiskError, Input, LinkEvent, LinkId, Persisted, Recovery,
};
use zk_core::time::{Instant, Now};
use zk_core::tree::DataTree;
use zk_core::{Peer, Shared};
use zk_jute::records::Acl;
use zk_jute::request::{CreateRequest, Request};
use zk_jute::txn::{LoggedTxn, Txn, TxnHeader};
use zk_jute::{Epoch, OpCode, ServerId, SessionId, Writer, Zxid};

type Failure = (fn(&PersistOp) -> bool, DiskError);

#[derive(Default)]
struct Disk {
    image: DataTree,
    log: Vec<LoggedTxn>,
    accepted: Epoch,
    current: Epoch,
    queue: VecDeque<(IoId, PersistOp)>,
    held: bool,
    failure: Option<Failure>,
}

struct Node {
    peer: Peer,
    shared: Arc<Shared>,
    disk: Disk,
    inputs: VecDeque<Input>,
    messages: Vec<ClientMessage>,
    halted: Option<HaltReason>,
}

pub(crate) struct World {
    now_ms: u64,
    nodes: BTreeMap<i64, Node>,
    /// Our end of a link -> the other member and its end.
    links: BTreeMap<(i64, u64), (i64, u64)>,
    next_accepted: u64,
    conns: BTreeMap<(i64, i64), ConnId>,
    next_conn: u64,
}

fn config(id: i64, membership: Option<Membership>) -> PeerConfig {
    PeerConfig {
        my_id: ServerId(id),
        membership,
        tick_ms: 200,
        init_limit: 10,
        sync_limit: 5,
        commit_log_count: 500,
        snap_count: 100_000,
        snap_size_limit: 1 << 32,
        election_min_ms: 200,
        election_max_ms: 60_000,
        election_finalize_ms: 200,
        observer_master: false,
        seed: id.unsigned_abs(),
        rules: Rules::default(),
    }
}

impl World {
    pub(crate) fn new(voters: i64, observers: i64) -> Self {
        let member = |id| {
            let text = format!("h{id}:2888:3888:participant;2181").into();
            (ServerId(id), Member { id: ServerId(id), voter: id <= voters, weight: 1, group: None, text })
        };
        let members = (1..=voters + observers).map(member).collect();
        Self::build(voters + observers, Some(Membership { version: 0, members }))
    }

    pub(crate) fn standalone() -> Self {
        Self::build(1, None)
    }

    fn build(count: i64, membership: Option<Membership>) -> Self {
        let mut world = Self {
            now_ms: 0,
            nodes: BTreeMap::new(),
            links: BTreeMap::new(),
            next_accepted: LinkId::ACCEPTED,
            conns: BTreeMap::new(),
            next_conn: 0,
        };
        for id in 1..=count {
            let shared = Shared::new();
            let mut out = Vec::new();
            let peer = Peer::new(config(id, membership.clone()), Arc::clone(&shared), world.now(), &mut out);
            let node = Node {
                peer,
                shared,
                disk: Disk::default(),
                inputs: VecDeque::new(),
                messages: Vec::new(),
                halted: None,
            };
            world.nodes.insert(id, node);
            world.effects(id, out);
        }
        world
    }

    fn now(&self) -> Now {
        Now { mono: Instant(self.now_ms * 1_000_000), wall_ms: 1_000_000 + self.now_ms as i64 }
    }

    pub(crate) fn run_ms(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now_ms += 1;
            for id in self.ids() {
                self.node(id).inputs.push_back(Input::Tick);
            }
            self.settle();
        }
    }

    fn ids(&self) -> Vec<i64> {
        self.nodes.keys().copied().collect()
    }

    fn node(&mut self, id: i64) -> &mut Node {
        self.nodes.get_mut(&id).expect("a member")
    }

    fn settle(&mut self) {
        loop {
            let mut idle = true;
            for id in self.ids() {
                self.work_disk(id);
                while let Some(input) = self.node(id).inputs.pop_front() {
                    idle = false;
                    let now = self.now();
                    let node = self.node(id);
                    let mut out = Vec::new();
                    if node.halted.is_none() {
                        node.peer.handle(now, input, &mut out);
                    }
                    self.effects(id, out);
                    self.work_disk(id);
                }
            }
            if idle {
                return;
            }
        }
    }

    fn work_disk(&mut self, id: i64) {
        let node = self.node(id);
        if node.disk.held {
            return;
        }
        while let Some((io, op)) = node.disk.queue.pop_front() {
            if node.disk.failure.as_ref().is_some_and(|(matches, _)| matches(&op)) {
                let (_, error) = node.disk.failure.take().expect("just seen");
                node.disk.queue.clear();
                node.inputs.push_back(Input::Persisted { io, result: Err(error) });
                return;
            }
            let result = Ok(node.disk.carry_out(op));
            node.inputs.push_back(Input::Persisted { io, result });
        }
    }

    fn effects(&mut self, id: i64, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Persist { io, op } => self.node(id).disk.queue.push_back((io, op)),
                Effect::Client { message, .. } => self.node(id).messages.push(message),
                Effect::SendVote { to, notification } => {
                    let input = Input::Vote { from: ServerId(id), notification };
                    self.node(to.0).inputs.push_back(input);
                }
                Effect::Connect { link, to, .. } => self.connect(id, link, to.0),
                Effect::Send { link, packet } => self.deliver(id, link, LinkEvent::Packet(packet)),
                Effect::SendSnapshot { link, image } => self.deliver(id, link, LinkEvent::Snapshot(image)),
                Effect::Close { link, reason } => {
                    self.deliver(id, link, LinkEvent::Closed { reason });
                    if let Some(other) = self.links.remove(&(id, link.0)) {
                        self.links.remove(&other);
                    }
                }
                Effect::Halt(reason) => self.node(id).halted = Some(reason),
                Effect::Observe(_) | Effect::CloseAllClients | Effect::Snapshot { .. } => {}
            }
        }
    }

    fn connect(&mut self, id: i64, link: LinkId, to: i64) {
        let event = if self.node(to).halted.is_some() {
            LinkEvent::Closed { reason: "refused".into() }
        } else {
            self.next_accepted += 1;
            let theirs = LinkId(self.next_accepted);
            self.links.insert((id, link.0), (to, theirs.0));
            self.links.insert((to, theirs.0), (id, link.0));
            self.node(to).inputs.push_back(Input::Link { link: theirs, event: LinkEvent::Accepted });
            LinkEvent::Connected
        };
        self.node(id).inputs.push_back(Input::Link { link, event });
    }

    fn deliver(&mut self, id: i64, link: LinkId, event: LinkEvent) {
        if let Some((to, theirs)) = self.links.get(&(id, link.0)).copied() {
            self.node(to).inputs.push_back(Input::Link { link: LinkId(theirs), event });
        }
    }

    fn conn(&mut self, id: i64, session: SessionId) -> ConnId {
        self.conns[&(id, session.0)]
    }

    fn command(&mut self, id: i64, conn: ConnId, command: ClientCommand) {
        self.node(id).inputs.push_back(Input::Client { conn, command });
        self.settle();
    }

    fn attached(&mut self, id: i64, conn: ConnId) -> SessionId {
        self.run_ms(50);
        let session = self.nodes[&id].messages.iter().rev().find_map(|message| match message {
            ClientMessage::Established { session, .. } => Some(*session),
            _ => None,
        });
        let session = session.expect("a session");
        self.conns.insert((id, session.0), conn);
        session
    }

    pub(crate) fn create_session(&mut self, id: i64) -> SessionId {
        self.next_conn += 1;
        let conn = ConnId(self.next_conn);
        self.command(id, conn, ClientCommand::CreateSession { timeout_ms: 10_000 });
        self.attached(id, conn)
    }

    pub(crate) fn reattach(&mut self, id: i64, session: SessionId) {
        self.reattach_for(id, session, 10_000);
    }

    pub(crate) fn reattach_for(&mut self, id: i64, session: SessionId, timeout_ms: i32) {
        self.next_conn += 1;
        let conn = ConnId(self.next_conn);
        self.command(id, conn, ClientCommand::Reattach { session, timeout_ms });
        assert_eq!(self.attached(id, conn), session);
    }

    pub(crate) fn touch(&mut self, id: i64, session: SessionId, timeout_ms: i32) {
        let conn = self.conn(id, session);
        self.command(id, conn, ClientCommand::Touch { session, timeout_ms });
    }

    pub(crate) fn try_create(&mut self, id: i64, session: SessionId, xid: i32, path: &str) -> Option<i32> {
        let create = Request::Create(CreateRequest {
            op: OpCode::Create,
            path: path.into(),
            data: Some(Bytes::from_static(b"x")),
            acl: Some(vec![Acl::open()]),
            flags: 0,
            ttl: 0,
        });
        let body = Writer::build(|writer| create.encode(writer));
        let request = ClientRequest { session, xid, op: OpCode::Create as i32, body, auth: Vec::new() };
        let conn = self.conn(id, session);
        self.command(id, conn, ClientCommand::Request(request));
        self.reply(id, xid)
    }

    pub(crate) fn create(&mut self, id: i64, session: SessionId, xid: i32, path: &str) -> i32 {
        self.try_create(id, session, xid, path).expect("an answer")
    }

    pub(crate) fn reply(&self, id: i64, wanted: i32) -> Option<i32> {
        self.nodes[&id].messages.iter().find_map(|message| match message {
            ClientMessage::Reply { xid, err, .. } if *xid == wanted => Some(*err),
            _ => None,
        })
    }

    pub(crate) fn messages(&self, id: i64) -> &[ClientMessage] {
        &self.nodes[&id].messages
    }

    pub(crate) fn facts(&self, id: i64) -> Facts {
        self.nodes[&id].peer.facts()
    }

    pub(crate) fn tree_has(&self, id: i64, path: &str) -> bool {
        self.nodes[&id].shared.tree.read().node(path).is_some()
    }

    pub(crate) fn has_session(&self, id: i64, session: SessionId) -> bool {
        self.nodes[&id].shared.tree.read().session_timeout(session).is_some()
    }

    pub(crate) fn digest(&self, id: i64) -> i64 {
        self.nodes[&id].shared.tree.read().digest()
    }

    pub(crate) fn halted(&self, id: i64) -> Option<HaltReason> {
        self.nodes[&id].halted.clone()
    }

    pub(crate) fn hold_disk(&mut self, id: i64) {
        self.node(id).disk.held = true;
    }

    /// Puts a member's image at `zxid`; to be called before its disk is first read.
    pub(crate) fn start_at(&mut self, id: i64, zxid: Zxid) {
        let header = TxnHeader { client_id: 0, cxid: 0, zxid, time: 0, op: OpCode::Error as i32 };
        let node = self.node(id);
        let txn = LoggedTxn::new(header, Txn::Error { err: 0 }, None);
        node.disk.image.apply(&txn, &mut node.shared.watches.lock());
    }

    pub(crate) fn release_disk(&mut self, id: i64) {
        self.node(id).disk.held = false;
        self.settle();
    }

    pub(crate) fn fail_next(&mut self, id: i64, matches: fn(&PersistOp) -> bool, error: DiskError) {
        self.node(id).disk.failure = Some((matches, error));
    }

    pub(crate) fn drain(&mut self, id: i64) {
        self.node(id).inputs.push_back(Input::Drain);
        self.settle();
    }
}

impl Disk {
    fn carry_out(&mut self, op: PersistOp) -> Persisted {
        match op {
            PersistOp::Load | PersistOp::Reload => return Persisted::Loaded(Box::new(self.recovery())),
            PersistOp::Append { bytes, .. } => {
                self.log.push(LoggedTxn::decode(bytes).expect("a transaction"))
            }
            PersistOp::WriteAcceptedEpoch(epoch) => self.accepted = epoch,
            PersistOp::WriteCurrentEpoch(epoch) => self.current = epoch,
            PersistOp::Truncate { zxid } => self.log.retain(|txn| txn.header.zxid <= zxid),
            PersistOp::InstallSnapshot { image, tail } => {
                self.image = *image;
                self.log =
                    tail.into_iter().map(|(_, txn)| LoggedTxn::decode(txn).expect("a transaction")).collect();
            }
            PersistOp::RollLog | PersistOp::WriteCleanMarker { .. } => {}
        }
        Persisted::Done
    }

    fn recovery(&self) -> Recovery {
        let last = self.log.last().map_or(self.image.last_processed(), |txn| txn.header.zxid);
        let at: Zxid = self.image.last_processed();
        Recovery {
            tree: self.image.clone(),
            tail: self.log.iter().filter(|txn| txn.header.zxid > at).cloned().collect(),
            last_logged: last,
            accepted: self.accepted,
            current: self.current,
            no_history: false,
        }
    }
}
