//! Packets between a learner and its leader or observer master (upstream module `org.apache.zookeeper.server.quorum`).
//!
//! Packets follow each other without a frame, so a packet's end is known only by walking its lengths. The walk
//! allocates nothing, and a packet is parsed from a buffer of its own: what is kept of it (a proposal's bytes) does not
//! pin the socket's buffer.

use bytes::Bytes;

use crate::codec::{DecodeError, Reader, Walk, Writer, incomplete_as_none};
use crate::ids::{ServerId, Zxid};
use crate::records::Id;

/// Kinds of [`QuorumPacket`] (upstream constants in `Leader`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(i32)]
pub enum PacketType {
    Request = 1,
    Proposal = 2,
    Ack = 3,
    Commit = 4,
    Ping = 5,
    Revalidate = 6,
    Sync = 7,
    Inform = 8,
    CommitAndActivate = 9,
    NewLeader = 10,
    FollowerInfo = 11,
    UpToDate = 12,
    Diff = 13,
    Trunc = 14,
    Snap = 15,
    ObserverInfo = 16,
    LeaderInfo = 17,
    AckEpoch = 18,
    InformAndActivate = 19,
}

impl PacketType {
    /// The kind numbered `raw`, or `None` for a number upstream does not define.
    pub const fn from_i32(raw: i32) -> Option<Self> {
        Some(match raw {
            1 => Self::Request,
            2 => Self::Proposal,
            3 => Self::Ack,
            4 => Self::Commit,
            5 => Self::Ping,
            6 => Self::Revalidate,
            7 => Self::Sync,
            8 => Self::Inform,
            9 => Self::CommitAndActivate,
            10 => Self::NewLeader,
            11 => Self::FollowerInfo,
            12 => Self::UpToDate,
            13 => Self::Diff,
            14 => Self::Trunc,
            15 => Self::Snap,
            16 => Self::ObserverInfo,
            17 => Self::LeaderInfo,
            18 => Self::AckEpoch,
            19 => Self::InformAndActivate,
            _ => return None,
        })
    }
}

/// One packet, unframed on the wire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuorumPacket {
    pub kind: PacketType,
    pub zxid: Zxid,
    pub data: Option<Bytes>,
    /// The requesting client's identities, with [`PacketType::Request`] only. `None` is jute's null vector.
    pub auth_info: Option<Vec<Id>>,
}

/// Longest packet accepted unless the caller says otherwise: 64 MiB. Far above `jute.maxbuffer`, because what one
/// member was allowed to write every other must be able to read (ZOOKEEPER-4306), yet bounded against garbage.
pub const MAX_PACKET_LEN: usize = 64 << 20;

impl QuorumPacket {
    /// Writes the packet as it goes on the wire, without a frame.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.i32(self.kind as i32);
        w.i64(self.zxid.0);
        w.buffer(self.data.as_deref());
        w.vector_len(self.auth_info.as_ref().map(Vec::len));
        for id in self.auth_info.iter().flatten() {
            id.encode(w);
        }
    }

    /// Reads one packet from a buffer that holds all of it.
    ///
    /// # Errors
    /// Bytes that are not a packet, or a type that upstream does not define.
    pub fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        let offset = r.position();
        let raw = r.i32()?;
        let kind = PacketType::from_i32(raw);
        Ok(Self {
            kind: kind.ok_or(DecodeError::bad_value(offset, "packet type", i64::from(raw)))?,
            zxid: Zxid(r.i64()?),
            data: r.buffer()?,
            auth_info: r.vector(Id::decode)?,
        })
    }

    /// The packet at the start of `received` and its length, or `None` if more bytes are needed. Packets longer than
    /// [`MAX_PACKET_LEN`] are an error.
    pub fn try_decode(received: &[u8]) -> Result<Option<(Self, usize)>, DecodeError> {
        Self::try_decode_limited(received, MAX_PACKET_LEN)
    }

    /// [`QuorumPacket::try_decode`] with another limit, in bytes.
    pub fn try_decode_limited(received: &[u8], limit: usize) -> Result<Option<(Self, usize)>, DecodeError> {
        let Some(len) = incomplete_as_none(packet_len(received, limit))? else { return Ok(None) };
        let packet = Self::decode(&mut Reader::new(Bytes::copy_from_slice(&received[..len])))?;
        Ok(Some((packet, len)))
    }
}

/// Length of the packet at the start of `received`, found by its lengths alone.
fn packet_len(received: &[u8], limit: usize) -> Result<usize, DecodeError> {
    let mut walk = Walk::new(received, limit);
    let raw = walk.i32()?;
    if PacketType::from_i32(raw).is_none() {
        return Err(DecodeError::bad_value(0, "packet type", i64::from(raw)));
    }
    walk.skip(8)?;
    walk.skip_sized()?;
    for _ in 0..walk.i32()?.max(0) {
        walk.skip_sized()?;
        walk.skip_sized()?;
    }
    Ok(walk.position())
}

/// Data of FOLLOWERINFO and OBSERVERINFO. `protocol_version` is 0x10000 since 3.5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LearnerInfo {
    pub server_id: ServerId,
    pub protocol_version: i32,
    pub config_version: i64,
}

impl LearnerInfo {
    pub fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { server_id: ServerId(r.i64()?), protocol_version: r.i32()?, config_version: r.i64()? })
    }

    pub fn encode(&self, w: &mut Writer<'_>) {
        w.i64(self.server_id.0);
        w.i32(self.protocol_version);
        w.i64(self.config_version);
    }
}

/// `protocolVersion` in [`LearnerInfo`] and in LEADERINFO's data.
pub const LEARNER_PROTOCOL_VERSION: i32 = 0x10000;

/// What follows the inline snapshot after SNAP, as one jute string.
pub const SNAP_SIGNATURE: &str = "BenWasHere";
