//! Taking the leader's history in (upstream `Learner.syncWithLeader`).
//!
//! Order is everything here, and it is the order of the disk stream: the cut and every transaction, or the image together
//! with every transaction, then `currentEpoch`; only when the last of these is durable is NEWLEADER acknowledged
//! (ZOOKEEPER-3911, 4643, 4646, 4785). Image and transactions are one operation: installed one after the other, a crash
//! between them would leave less than this member had logged, and perhaps less than what it had helped to commit.
//! Nothing of it enters the tree before UPTODATE (ZOOKEEPER-1549).

use std::sync::Arc;

use zk_jute::quorum::{PacketType, QuorumPacket};
use zk_jute::txn::LoggedTxn;
use zk_jute::{Reader, Zxid};

use super::base::{Ctx, Flow, Leave};
use super::learner::{Learner, Stage};
use crate::effect::PersistOp;
use crate::mutants::mutant;
use crate::tree::DataTree;

impl Learner {
    /// The first packet after ACKEPOCH: DIFF, TRUNC or SNAP.
    pub(super) fn begin_sync(&mut self, ctx: &mut Ctx<'_>, packet: &QuorumPacket) -> Flow {
        ctx.base.journal.dirty = true;
        let claimed_nothing = ctx.base.needs_image || ctx.base.votable_zxid() == Zxid::NONE;
        match packet.kind {
            PacketType::Snap => {
                self.stage = Stage::AwaitingImage(packet.zxid);
                return Ok(());
            }
            _ if claimed_nothing => {
                return Err(Leave::because(format!("{:?} where only SNAP would help", packet.kind)));
            }
            PacketType::Diff => self.sync_committed = ctx.base.journal.appended,
            PacketType::Trunc => self.truncate(ctx, packet.zxid)?,
            other => return Err(Leave::because(format!("{other:?} where DIFF, TRUNC or SNAP was due"))),
        }
        self.stage = Stage::Syncing;
        Ok(())
    }

    /// TRUNC: what only we have logged is cut off. If some of it is already in the tree (an upstream server's dirty
    /// snapshot), the tree is read again from an older one.
    fn truncate(&mut self, ctx: &mut Ctx<'_>, zxid: Zxid) -> Flow {
        if zxid > ctx.base.journal.appended {
            return Err(Leave::because(format!("TRUNC to {zxid}, after the end of the log")));
        }
        self.sync_committed = zxid;
        ctx.base.io.submit(PersistOp::Truncate { zxid }, ctx.out);
        if zxid >= ctx.base.journal.applied {
            ctx.base.journal.truncate(zxid);
        } else {
            ctx.base.journal.truncate_below_applied(zxid);
            ctx.base.io.submit(PersistOp::Reload, ctx.out);
        }
        Ok(())
    }

    /// The image that SNAP announced.
    pub(super) fn install(&mut self, ctx: &mut Ctx<'_>, image: Box<DataTree>) -> Flow {
        let Stage::AwaitingImage(zxid) = self.stage else {
            return Err(Leave::because(format!("an image while {:?}", self.stage)));
        };
        // The stream itself carries no zxid; the adapter took it from the same packet.
        assert_eq!(image.last_processed(), zxid, "the image is the one that SNAP announced");
        ctx.base.journal.replace_history(zxid);
        self.sync_committed = zxid;
        self.stage = Stage::Syncing;
        self.image = Some(image);
        Ok(())
    }

    /// Hands the image and every transaction that came after it to the disk, as one operation.
    fn persist_image(&mut self, ctx: &mut Ctx<'_>) {
        let Some(image) = self.image.take() else { return };
        let after = image.last_processed();
        let tail = ctx.base.journal.history(after, ctx.base.journal.appended);
        let tail = tail.map(|txn| (txn.header.zxid, txn.bytes.clone())).collect();
        ctx.base.io.submit(PersistOp::InstallSnapshot { image, tail }, ctx.out);
    }

    /// Packets between the start of the synchronization and UPTODATE.
    pub(super) fn sync_packet(&mut self, ctx: &mut Ctx<'_>, packet: QuorumPacket) -> Flow {
        match packet.kind {
            PacketType::Proposal => self.take_txn(ctx, &packet),
            PacketType::Inform => {
                self.take_txn(ctx, &packet)?;
                self.sync_commit(ctx, packet.zxid)
            }
            PacketType::Commit => self.sync_commit(ctx, packet.zxid),
            PacketType::NewLeader if self.stage == Stage::Syncing => self.new_leader(ctx, &packet),
            PacketType::UpToDate if self.stage == Stage::AwaitingUpToDate => self.up_to_date(ctx),
            PacketType::Ping => Ok(()),
            other => Err(self.stream_fault(ctx, format!("{other:?} while {:?}", self.stage))),
        }
    }

    /// Takes one transaction into journal and log, if it follows; a gap ends the link (ZOOKEEPER-4925).
    pub(super) fn take_txn(&mut self, ctx: &mut Ctx<'_>, packet: &QuorumPacket) -> Flow {
        let bytes = packet.data.clone().unwrap_or_default();
        let txn = match LoggedTxn::decode(bytes) {
            Ok(txn) => Arc::new(txn),
            Err(error) => return Err(self.stream_fault(ctx, format!("proposal {}: {error}", packet.zxid))),
        };
        let zxid = txn.header.zxid;
        // A Java leader names the image's zxid after it has begun to forward: what the image holds may come again.
        if self.image.as_ref().is_some_and(|image| zxid <= image.last_processed()) {
            return Ok(());
        }
        let after = ctx.base.journal.appended;
        if !ctx.base.journal.accepts(zxid) {
            return Err(self.stream_fault(ctx, format!("gap: proposal {zxid} after {after}")));
        }
        match self.stage {
            Stage::Broadcast => {
                ctx.append_received(txn);
                if ctx.base.journal.overflows() {
                    return Err(Leave::because("our own log is too far behind the leader"));
                }
            }
            // The image is not on disk yet: what follows it goes there together with it.
            _ if self.image.is_some() => ctx.base.journal.push(txn),
            _ => ctx.append(txn),
        }
        if mutant!("ack_before_sync") && self.stage == Stage::Broadcast {
            self.acknowledge(ctx, zxid);
        }
        Ok(())
    }

    /// A COMMIT before UPTODATE moves the end of what will be committed with it.
    fn sync_commit(&mut self, ctx: &mut Ctx<'_>, zxid: Zxid) -> Flow {
        if zxid > ctx.base.journal.appended {
            return Err(self.stream_fault(ctx, format!("COMMIT {zxid}, which was never proposed here")));
        }
        self.sync_committed = self.sync_committed.max(zxid);
        Ok(())
    }

    /// NEWLEADER: everything before it is in the disk stream already; `currentEpoch` goes after it.
    fn new_leader(&mut self, ctx: &mut Ctx<'_>, packet: &QuorumPacket) -> Flow {
        if packet.zxid != Zxid::new(self.epoch, 0) {
            let expected = Zxid::new(self.epoch, 0);
            return Err(self.stream_fault(ctx, format!("NEWLEADER {} where {expected} was due", packet.zxid)));
        }
        self.persist_image(ctx);
        self.acked_history = self.sync_committed;
        self.stage = Stage::EnteringEpoch;
        if mutant!("newleader_ack_early") {
            self.new_leader_durable(ctx);
        }
        ctx.base.io.submit(PersistOp::WriteCurrentEpoch(self.epoch), ctx.out);
        Ok(())
    }

    /// Packets of the broadcast phase.
    pub(super) fn broadcast_packet(&mut self, ctx: &mut Ctx<'_>, packet: QuorumPacket) -> Flow {
        match packet.kind {
            PacketType::Proposal => self.take_txn(ctx, &packet),
            PacketType::Inform => {
                self.take_txn(ctx, &packet)?;
                self.commit(ctx, packet.zxid)
            }
            PacketType::Commit => self.commit(ctx, packet.zxid),
            PacketType::Ping => {
                self.answer_ping(ctx);
                Ok(())
            }
            PacketType::Revalidate => self.revalidated(ctx, &packet),
            PacketType::Sync => {
                self.sync_settled(ctx);
                Ok(())
            }
            PacketType::UpToDate => Ok(()),
            other => Err(self.stream_fault(ctx, format!("{other:?} in broadcast"))),
        }
    }

    /// COMMIT: must be the next one that is logged here and not committed.
    fn commit(&mut self, ctx: &mut Ctx<'_>, zxid: Zxid) -> Flow {
        let next = ctx.base.journal.next_uncommitted().map(|txn| txn.header.zxid);
        if next != Some(zxid) {
            return Err(self.stream_fault(ctx, format!("COMMIT {zxid} where {next:?} was due")));
        }
        ctx.base.journal.committed = zxid;
        self.apply(ctx);
        Ok(())
    }

    fn revalidated(&mut self, ctx: &mut Ctx<'_>, packet: &QuorumPacket) -> Flow {
        let data = packet.data.clone().unwrap_or_default();
        let mut reader = Reader::new(data);
        let decoded = reader.i64().and_then(|session| Ok((session, reader.bool()?)));
        match decoded {
            Ok((session, valid)) => {
                self.session_revalidated(ctx, zk_jute::SessionId(session), valid, packet);
                Ok(())
            }
            Err(error) => Err(self.stream_fault(ctx, format!("REVALIDATE: {error}"))),
        }
    }
}
