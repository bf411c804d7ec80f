//! DurableBeforeAck: when an acknowledgement leaves a member, what it promises is on the platter.
//!
//! It covers ACK of a proposal, ACK of NEWLEADER (everything the synchronization brought, and currentEpoch), ACKEPOCH
//! (acceptedEpoch), LEADERINFO (the leader's own acceptedEpoch; ZOOKEEPER-1291, 4781) and the zxid offered in an election
//! (ZOOKEEPER-4541, 4882).

use std::collections::BTreeMap;

use zk_core::input::LinkId;
use zk_jute::election::{Notification, PeerState};
use zk_jute::quorum::{PacketType, QuorumPacket};
use zk_jute::{Epoch, Zxid};

use super::Violation;
use super::ledger::Ledger;

/// What a learner was told on one link before NEWLEADER.
#[derive(Clone, Copy, Debug, Default)]
struct Synced {
    /// Last transaction that the synchronization brought.
    through: Zxid,
    new_leader: bool,
}

/// Promises that are checked.
#[derive(Debug, Default)]
pub struct Acks {
    /// By member, process and its own number of the link.
    synced: BTreeMap<(i64, u64, LinkId), Synced>,
}

impl Acks {
    /// A packet reaches a learner.
    pub fn received(&mut self, node: i64, boot: u64, link: LinkId, packet: &QuorumPacket) {
        if link.0 & LinkId::ACCEPTED != 0 {
            return;
        }
        let synced = self.synced.entry((node, boot, link)).or_default();
        match packet.kind {
            PacketType::Snap | PacketType::Proposal if !synced.new_leader => synced.through = packet.zxid,
            PacketType::NewLeader => synced.new_leader = true,
            _ => {}
        }
    }

    /// A packet leaves `node`.
    pub fn sent(
        &self,
        node: i64,
        boot: u64,
        link: LinkId,
        packet: &QuorumPacket,
        ledger: &Ledger,
    ) -> Result<(), Violation> {
        let violation = |text: String| Err(Violation::new("DurableBeforeAck", format!("{node}: {text}")));
        let epoch = packet.zxid.epoch();
        match packet.kind {
            PacketType::LeaderInfo if ledger.accepted < epoch => violation(format!(
                "LEADERINFO of epoch {epoch} while acceptedEpoch on disk is {}",
                ledger.accepted
            )),
            PacketType::Ack if packet.zxid.counter() == 0 => {
                self.new_leader_ack(node, boot, link, epoch, ledger)
            }
            PacketType::Ack if ledger.durable_last() < packet.zxid => violation(format!(
                "ACK of {} while the durable log ends at {}",
                packet.zxid,
                ledger.durable_last()
            )),
            _ => Ok(()),
        }
    }

    /// A learner says that it accepts `epoch`.
    pub fn epoch_acknowledged(node: i64, epoch: Epoch, ledger: &Ledger) -> Result<(), Violation> {
        if ledger.accepted >= epoch {
            return Ok(());
        }
        let text =
            format!("{node}: ACKEPOCH for epoch {epoch} while acceptedEpoch on disk is {}", ledger.accepted);
        Err(Violation::new("DurableBeforeAck", text))
    }

    /// An election message leaves `node`.
    pub fn voted(node: i64, vote: &Notification, ledger: &Ledger, emptied: bool) -> Result<(), Violation> {
        let own = vote.state == PeerState::Looking && vote.leader.0 == node;
        if own && emptied && ledger.last() == Zxid::ZERO && vote.zxid != Zxid::NONE {
            let text = format!("{node} lost its history and votes for itself with {}", vote.zxid);
            return Err(Violation::new("NoEmptyVoter", text));
        }
        if !own || vote.zxid.0 < 0 || vote.zxid == ledger.durable_last() || vote.zxid.counter() == 0 {
            return Ok(());
        }
        let text = format!(
            "{node}: votes for itself with {} while its durable log ends at {}",
            vote.zxid,
            ledger.durable_last()
        );
        Err(Violation::new("DurableBeforeAck", text))
    }

    /// The process is gone, and with it its links.
    pub fn process_gone(&mut self, node: i64, boot: u64) {
        self.synced.retain(|(member, process, _), _| (*member, *process) != (node, boot));
    }

    fn new_leader_ack(
        &self,
        node: i64,
        boot: u64,
        link: LinkId,
        epoch: Epoch,
        ledger: &Ledger,
    ) -> Result<(), Violation> {
        let through = self.synced.get(&(node, boot, link)).map_or(Zxid::ZERO, |synced| synced.through);
        if ledger.durable_last() < through {
            let text = format!(
                "{node}: ACK of NEWLEADER for epoch {epoch} while {through} was sent to it and only {} is durable",
                ledger.durable_last()
            );
            return Err(Violation::new("DurableBeforeAck", text));
        }
        if ledger.current < epoch {
            let text = format!(
                "{node}: ACK of NEWLEADER while currentEpoch on disk is {} and not {epoch}",
                ledger.current
            );
            return Err(Violation::new("DurableBeforeAck", text));
        }
        Ok(())
    }
}
