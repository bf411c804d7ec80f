//! Everything that crosses the simulated network is encoded on one side and decoded on the other, so that the codec takes part in
//! every run. What does not decode to what was sent is a defect of the codec and stops the run.

use std::ops::ControlFlow;

use bytes::Bytes;
use zk_core::tree::{DataTree, TreeBuilder};
use zk_jute::election::Notification;
use zk_jute::image::{SnapshotSink, SnapshotSource};
use zk_jute::quorum::{QuorumPacket, SNAP_SIGNATURE};
use zk_jute::snapshot::{SnapshotDecoder, SnapshotPiece, SnapshotTail, encode_end, encode_head, encode_node};
use zk_jute::{Reader, Writer, Zxid};

/// A packet as it goes on a quorum link.
pub fn encode_packet(packet: &QuorumPacket) -> Bytes {
    Writer::build(|w| packet.encode(w))
}

/// The packet in `bytes`, which hold nothing else.
pub fn decode_packet(bytes: &Bytes) -> Result<QuorumPacket, String> {
    match QuorumPacket::try_decode(bytes) {
        Ok(Some((packet, len))) if len == bytes.len() => Ok(packet),
        other => Err(format!("{} bytes do not decode to one packet: {other:?}", bytes.len())),
    }
}

/// The body of an election message.
pub fn encode_vote(vote: &Notification) -> Bytes {
    Writer::build(|w| vote.encode(w))
}

/// The election message in `bytes`.
pub fn decode_vote(bytes: Bytes) -> Result<Notification, String> {
    Notification::decode(bytes).map_err(|error| format!("an election message does not decode: {error}"))
}

/// A database and its signature, as they follow a SNAP packet.
pub fn encode_image(image: &DataTree) -> Bytes {
    let mut out = Vec::new();
    encode_head(&image.head(), &mut out);
    image.visit_nodes(&mut |node| {
        encode_node(node, &mut out);
        ControlFlow::Continue(())
    });
    encode_end(&mut out);
    Writer::new(&mut out).string(SNAP_SIGNATURE);
    Bytes::from(out)
}

/// The database in `bytes`, which the SNAP packet before it said ends at `zxid`.
pub fn decode_image(bytes: &Bytes, zxid: Zxid) -> Result<DataTree, String> {
    let mut decoder = SnapshotDecoder::new();
    // Two chunks, so that a record is cut somewhere.
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let mut builder = TreeBuilder::new();
    let mut complete = false;
    for chunk in [first, second] {
        decoder.push(chunk);
        while let Some(piece) = decoder.next().map_err(|error| error.to_string())? {
            match piece {
                SnapshotPiece::Head(head) => builder.head(head),
                SnapshotPiece::Node(node) => builder.node(node)?,
                SnapshotPiece::End => complete = true,
            }
        }
    }
    let signature = Reader::new(Bytes::from(decoder.take_rest())).string_required("signature");
    match signature {
        Ok(signature) if complete && &*signature == SNAP_SIGNATURE => {
            builder.finish(SnapshotTail::default(), zxid)
        }
        other => Err(format!("the image has no signature: {other:?}")),
    }
}
