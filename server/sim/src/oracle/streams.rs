//! Streams without gap: PROPOSALs, COMMITs and INFORMs of one link follow each other (ZOOKEEPER-4925, 5088), and a COMMIT names
//! the oldest proposal that is not committed yet, or a Java learner would end its process.

use std::collections::{BTreeMap, VecDeque};

use zk_core::input::LinkId;
use zk_jute::Zxid;
use zk_jute::quorum::{PacketType, QuorumPacket};

use super::Violation;

#[derive(Debug, Default)]
struct Stream {
    /// Last PROPOSAL or INFORM; none before the first.
    last: Option<Zxid>,
    /// End of the history that DIFF announced: what follows NEWLEADER begins there.
    announced: Option<Zxid>,
    /// Proposed and not committed. Bound: what a leader lets be outstanding.
    pending: VecDeque<Zxid>,
    new_leader: bool,
}

/// The stream of every link, as it arrives at the learner.
#[derive(Debug, Default)]
pub struct Streams {
    streams: BTreeMap<(i64, u64, LinkId), Stream>,
}

impl Streams {
    /// A packet reaches the learner `node`.
    pub fn received(
        &mut self,
        node: i64,
        boot: u64,
        link: LinkId,
        packet: &QuorumPacket,
    ) -> Result<(), Violation> {
        if link.0 & LinkId::ACCEPTED != 0 {
            return Ok(());
        }
        let stream = self.streams.entry((node, boot, link)).or_default();
        match packet.kind {
            PacketType::Proposal => {
                stream.pending.push_back(packet.zxid);
                stream.next(node, packet.zxid)
            }
            PacketType::Inform => stream.next(node, packet.zxid),
            PacketType::Commit => stream.commit(node, packet.zxid),
            PacketType::Diff | PacketType::Trunc | PacketType::Snap => {
                stream.begin(node, packet.zxid, packet.kind)
            }
            PacketType::NewLeader => {
                stream.new_leader = true;
                stream.last = stream.last.or(stream.announced);
                Ok(())
            }
            PacketType::Ping if !stream.new_leader => {
                Err(Violation::new("MessageLegality", format!("{node} got a PING before NEWLEADER")))
            }
            _ => Ok(()),
        }
    }

    /// The process is gone, and with it its links.
    pub fn process_gone(&mut self, node: i64, boot: u64) {
        self.streams.retain(|(member, process, _), _| (*member, *process) != (node, boot));
    }
}

impl Stream {
    fn begin(&mut self, node: i64, zxid: Zxid, kind: PacketType) -> Result<(), Violation> {
        if self.last.is_some() {
            return Err(Violation::new("MessageLegality", format!("{node} got {kind:?} after transactions")));
        }
        // After TRUNC and SNAP the learner's log ends exactly there; DIFF names the end of what will be sent.
        self.last = (kind != PacketType::Diff).then_some(zxid);
        self.announced = (kind == PacketType::Diff).then_some(zxid);
        Ok(())
    }

    fn next(&mut self, node: i64, zxid: Zxid) -> Result<(), Violation> {
        let last = self.last.replace(zxid);
        if last.is_none_or(|last| zxid.follows(last)) {
            return Ok(());
        }
        Err(Violation::new(
            "StreamWithoutGap",
            format!("{node} got {zxid} right after {}", last.unwrap_or_default()),
        ))
    }

    fn commit(&mut self, node: i64, zxid: Zxid) -> Result<(), Violation> {
        let head = self.pending.pop_front();
        if head == Some(zxid) {
            return Ok(());
        }
        let head = head.map_or("nothing".to_owned(), |head| head.to_string());
        Err(Violation::new(
            "MessageLegality",
            format!("{node} got COMMIT of {zxid} while {head} is its oldest proposal"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use zk_jute::Epoch;

    use super::*;

    fn packet(kind: PacketType, counter: u32) -> QuorumPacket {
        QuorumPacket { kind, zxid: Zxid::new(Epoch(1), counter), data: None, auth_info: None }
    }

    #[test]
    fn an_observer_that_misses_an_inform_is_noticed() {
        let mut streams = Streams::default();
        streams.received(4, 1, LinkId(1), &packet(PacketType::Inform, 2)).expect("first");
        let error = streams.received(4, 1, LinkId(1), &packet(PacketType::Inform, 4)).expect_err("gap");
        assert_eq!(error.oracle, "StreamWithoutGap");
    }

    #[test]
    fn an_empty_diff_ends_where_it_says() {
        let mut streams = Streams::default();
        for (kind, counter) in [(PacketType::Diff, 3), (PacketType::NewLeader, 0)] {
            streams.received(4, 1, LinkId(1), &packet(kind, counter)).expect("the history");
        }
        streams.received(4, 1, LinkId(1), &packet(PacketType::Inform, 5)).expect_err("4 is missing");
    }

    #[test]
    fn commits_come_in_the_order_of_the_proposals() {
        let mut streams = Streams::default();
        for counter in [1, 2] {
            streams.received(2, 1, LinkId(1), &packet(PacketType::Proposal, counter)).expect("in order");
        }
        streams.received(2, 1, LinkId(1), &packet(PacketType::Commit, 2)).expect_err("1 is older");
    }
}
