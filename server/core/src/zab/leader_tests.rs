//! A leader alone with what its learners say, packet by packet (upstream `Leader`, `LearnerHandler`).

use bytes::Bytes;
use zk_jute::quorum::{LEARNER_PROTOCOL_VERSION, LearnerInfo, PacketType, QuorumPacket};
use zk_jute::{Epoch, ServerId, Writer, Zxid};

use super::base::{Base, Ctx, Flow};
use super::io_stream::IoKind;
use super::leader::{Leader, Phase};
use super::learner_handler::{HandlerState, bare, with_data};
use crate::Shared;
use crate::config::{Member, Membership, PeerConfig, Rules};
use crate::effect::Effect;
use crate::election::Vote;
use crate::input::{ClientCommand, ConnId, LinkEvent, LinkId};
use crate::time::{Instant, Now};

const E1: Epoch = Epoch(1);

struct Office {
    base: Base,
    out: Vec<Effect>,
    leader: Leader,
}

fn config(voters: i64) -> PeerConfig {
    let member = |id| Member { id: ServerId(id), voter: true, weight: 1, group: None, text: "".into() };
    let members = (1..=voters).map(|id| (ServerId(id), member(id))).collect();
    PeerConfig {
        my_id: ServerId(voters),
        membership: Some(Membership { version: 0, members }),
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
        seed: 1,
        rules: Rules::default(),
    }
}

const fn now() -> Now {
    Now { mono: Instant(0), wall_ms: 0 }
}

impl Office {
    fn open(voters: i64) -> Self {
        let mut base = Base::new(config(voters), Shared::new());
        let mut out = Vec::new();
        let vote = Vote {
            leader: ServerId(voters),
            zxid: Zxid::ZERO,
            peer_epoch: 0,
            round: 1,
            state: zk_jute::election::PeerState::Leading,
            version: 2,
        };
        let mut ctx = Ctx { base: &mut base, now: now(), out: &mut out };
        let leader = Leader::start(&mut ctx, vote).expect("an epoch");
        let mut office = Self { base, out, leader };
        if voters > 1 {
            office.introduce(1);
        }
        office.base.epochs.accepted = E1;
        office.completed(&IoKind::AcceptedEpoch(E1)).expect("leads on");
        if voters > 1 {
            office.agree(1);
        }
        office.base.epochs.current = E1;
        office.completed(&IoKind::CurrentEpoch(E1)).expect("leads on");
        if voters > 1 {
            office.says(1, bare(PacketType::Ack, Zxid::new(E1, 0))).expect("leads on");
        }
        assert_eq!(office.leader.phase, Phase::Broadcast);
        office
    }

    fn with(&mut self, act: impl FnOnce(&mut Leader, &mut Ctx<'_>) -> Flow) -> Flow {
        let mut ctx = Ctx { base: &mut self.base, now: now(), out: &mut self.out };
        act(&mut self.leader, &mut ctx)
    }

    fn completed(&mut self, kind: &IoKind) -> Flow {
        self.with(|leader, ctx| leader.completed(ctx, kind))
    }

    fn says(&mut self, link: u64, packet: QuorumPacket) -> Flow {
        self.with(|leader, ctx| leader.link(ctx, LinkId(link), LinkEvent::Packet(packet)))
    }

    fn introduce(&mut self, sid: u64) {
        self.with(|leader, ctx| leader.link(ctx, LinkId(sid), LinkEvent::Accepted)).expect("leads on");
        let info = LearnerInfo {
            server_id: ServerId(sid.cast_signed()),
            protocol_version: LEARNER_PROTOCOL_VERSION,
            config_version: 0,
        };
        let data = Writer::build(|writer| info.encode(writer));
        self.says(sid, with_data(PacketType::FollowerInfo, Zxid::ZERO, data)).expect("leads on");
    }

    fn agree(&mut self, sid: u64) {
        let data = Bytes::from_static(&[0; 4]);
        self.says(sid, with_data(PacketType::AckEpoch, Zxid::ZERO, data)).expect("leads on");
    }

    fn propose(&mut self) -> Zxid {
        let command = ClientCommand::CreateSession { timeout_ms: 10_000 };
        self.with(|leader, ctx| leader.client(ctx, ConnId(1), command)).expect("leads on");
        self.base.journal.appended
    }

    fn logged(&mut self, zxid: Zxid) -> Flow {
        self.base.journal.logged(zxid);
        self.completed(&IoKind::Append(zxid))
    }

    fn state(&self, link: u64) -> Option<HandlerState> {
        self.leader.handlers.get(&LinkId(link)).map(|handler| handler.state)
    }
}

/// Near the end of its counter a leader left at once, and what was proposed and not committed was never answered.
#[test]
fn a_leader_near_the_end_of_its_zxids_commits_what_is_proposed_before_it_leaves() {
    let mut office = Office::open(1);
    let near = Zxid::new(E1, u32::MAX - 0x2_0000);
    let journal = &mut office.base.journal;
    (journal.applied, journal.committed, journal.durable, journal.appended) = (near, near, near, near);
    office.leader.primary.as_mut().expect("established").skip_to(near);
    let first = office.propose();
    let second = office.propose();
    assert_eq!(office.logged(first), Ok(()), "one is not committed yet");
    assert!(office.leader.is_resigning());
    assert_eq!(office.propose(), second, "nothing new is taken in");
    let left = office.logged(second).expect_err("settled");
    assert_eq!((left.why.as_str(), office.base.journal.applied), ("resigned", second));
}

/// Followers of 3.8 may acknowledge a proposal before NEWLEADER, and were dropped for it.
#[test]
fn an_early_acknowledgement_of_a_proposal_counts_once_the_follower_is_synced() {
    let mut office = Office::open(3);
    office.introduce(2);
    office.agree(2);
    assert_eq!(office.state(2), Some(HandlerState::Syncing));
    let zxid = office.propose();
    office.logged(zxid).expect("leads on");
    office.says(2, bare(PacketType::Ack, zxid)).expect("leads on");
    assert_eq!(office.state(2), Some(HandlerState::Syncing), "neither dropped nor synced");
    assert!(office.base.journal.committed < zxid, "its history is not known to be durable");
    office.says(2, bare(PacketType::Ack, Zxid::new(E1, 0))).expect("leads on");
    assert_eq!(office.state(2), Some(HandlerState::Serving));
    assert_eq!(office.base.journal.committed, zxid);
}
