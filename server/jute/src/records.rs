//! Plain records shared by the client wire, the log and snapshots (upstream module `org.apache.zookeeper.data`).

use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Writer};
use crate::consts::perms;

/// A `scheme:id` pair (upstream `Id`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Id {
    pub scheme: Arc<str>,
    pub id: Arc<str>,
}

impl Id {
    /// Reads one; null fields become "", which is no scheme and so an invalid ACL, as upstream answers null.
    pub fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { scheme: r.string_or_empty()?, id: r.string_or_empty()? })
    }

    pub fn encode(&self, w: &mut Writer<'_>) {
        w.string(&self.scheme);
        w.string(&self.id);
    }
}

/// One access control entry: permission bits of [`crate::consts::perms`] for one [`Id`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Acl {
    pub perms: i32,
    pub id: Id,
}

impl Acl {
    /// Everything to everyone (upstream `ZooDefs.Ids.OPEN_ACL_UNSAFE`, whose list has this one entry).
    pub fn open() -> Self {
        Self { perms: perms::ALL, id: Id { scheme: Arc::from("world"), id: Arc::from("anyone") } }
    }

    pub fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { perms: r.i32()?, id: Id::decode(r)? })
    }

    pub fn encode(&self, w: &mut Writer<'_>) {
        w.i32(self.perms);
        self.id.encode(w);
    }

    /// A vector of entries; `None` is jute's null.
    pub fn decode_list(r: &mut Reader) -> Result<Option<Vec<Self>>, DecodeError> {
        r.vector(Self::decode)
    }

    /// A vector of entries; `None` is jute's null.
    pub fn encode_list(list: Option<&[Self]>, w: &mut Writer<'_>) {
        w.vector_len(list.map(<[Self]>::len));
        for acl in list.unwrap_or_default() {
            acl.encode(w);
        }
    }
}

/// What a client sees of a node's metadata (upstream `Stat`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stat {
    pub czxid: i64,
    pub mzxid: i64,
    /// Milliseconds since 1970.
    pub ctime: i64,
    /// Milliseconds since 1970.
    pub mtime: i64,
    pub version: i32,
    pub cversion: i32,
    pub aversion: i32,
    pub ephemeral_owner: i64,
    pub data_length: i32,
    pub num_children: i32,
    pub pzxid: i64,
}

impl Stat {
    pub fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            czxid: r.i64()?,
            mzxid: r.i64()?,
            ctime: r.i64()?,
            mtime: r.i64()?,
            version: r.i32()?,
            cversion: r.i32()?,
            aversion: r.i32()?,
            ephemeral_owner: r.i64()?,
            data_length: r.i32()?,
            num_children: r.i32()?,
            pzxid: r.i64()?,
        })
    }

    pub fn encode(&self, w: &mut Writer<'_>) {
        w.i64(self.czxid);
        w.i64(self.mzxid);
        w.i64(self.ctime);
        w.i64(self.mtime);
        w.i32(self.version);
        w.i32(self.cversion);
        w.i32(self.aversion);
        w.i64(self.ephemeral_owner);
        w.i32(self.data_length);
        w.i32(self.num_children);
        w.i64(self.pzxid);
    }
}

/// What is stored of a node's metadata (upstream `StatPersisted`): `cversion` counts child creations only,
/// `ephemeral_owner` also encodes container and TTL nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatPersisted {
    pub czxid: i64,
    pub mzxid: i64,
    pub ctime: i64,
    pub mtime: i64,
    pub version: i32,
    pub cversion: i32,
    pub aversion: i32,
    pub ephemeral_owner: i64,
    pub pzxid: i64,
}

impl StatPersisted {
    /// Bytes of one record: six longs and three ints.
    pub const ENCODED_LEN: usize = 6 * 8 + 3 * 4;

    pub fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            czxid: r.i64()?,
            mzxid: r.i64()?,
            ctime: r.i64()?,
            mtime: r.i64()?,
            version: r.i32()?,
            cversion: r.i32()?,
            aversion: r.i32()?,
            ephemeral_owner: r.i64()?,
            pzxid: r.i64()?,
        })
    }

    pub fn encode(&self, w: &mut Writer<'_>) {
        w.i64(self.czxid);
        w.i64(self.mzxid);
        w.i64(self.ctime);
        w.i64(self.mtime);
        w.i32(self.version);
        w.i32(self.cversion);
        w.i32(self.aversion);
        w.i64(self.ephemeral_owner);
        w.i64(self.pzxid);
    }
}
