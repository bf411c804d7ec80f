//! The fixed records around requests: connect handshake, headers, watch events (upstream `ProtocolManager` and the
//! generated classes of `org.apache.zookeeper.proto`).

use bytes::Bytes;

use super::{
    ClientInfo, ConnectRequest, ConnectResponse, MultiHeader, ReplyHeader, RequestHeader, WatcherEvent,
};
use crate::codec::{DecodeError, Reader, Writer};

impl ConnectRequest {
    /// Reads either form, with or without the read-only byte. A null password reads as an empty one.
    pub fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            protocol_version: r.i32()?,
            last_zxid_seen: r.i64()?,
            timeout_ms: r.i32()?,
            session_id: r.i64()?,
            password: r.buffer()?.unwrap_or_default(),
            read_only: decode_read_only(r)?,
        })
    }

    /// Writes 45 bytes with a 16-byte password, 44 without the read-only byte.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.i32(self.protocol_version);
        w.i64(self.last_zxid_seen);
        w.i32(self.timeout_ms);
        w.i64(self.session_id);
        w.buffer(Some(&self.password));
        if let Some(read_only) = self.read_only {
            w.bool(read_only);
        }
    }
}

impl ConnectResponse {
    /// Reads either form, with or without the read-only byte.
    pub fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            protocol_version: r.i32()?,
            timeout_ms: r.i32()?,
            session_id: r.i64()?,
            password: r.buffer()?.unwrap_or_default(),
            read_only: decode_read_only(r)?,
        })
    }

    /// Writes 37 bytes with a 16-byte password, 36 without the read-only byte.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.i32(self.protocol_version);
        w.i32(self.timeout_ms);
        w.i64(self.session_id);
        w.buffer(Some(&self.password));
        if let Some(read_only) = self.read_only {
            w.bool(read_only);
        }
    }
}

/// Clients up to 3.4 end their request before this byte.
fn decode_read_only(r: &mut Reader) -> Result<Option<bool>, DecodeError> {
    if r.remaining() == 0 { Ok(None) } else { Ok(Some(r.bool()?)) }
}

impl RequestHeader {
    pub fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { xid: r.i32()?, op: r.i32()? })
    }

    pub fn encode(&self, w: &mut Writer<'_>) {
        w.i32(self.xid);
        w.i32(self.op);
    }
}

impl ReplyHeader {
    pub fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { xid: r.i32()?, zxid: r.i64()?, err: r.i32()? })
    }

    pub fn encode(&self, w: &mut Writer<'_>) {
        w.i32(self.xid);
        w.i64(self.zxid);
        w.i32(self.err);
    }
}

impl MultiHeader {
    /// What closes a list of operations or results.
    pub const END: Self = Self { op: -1, done: true, err: -1 };

    pub fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { op: r.i32()?, done: r.bool()?, err: r.i32()? })
    }

    pub fn encode(&self, w: &mut Writer<'_>) {
        w.i32(self.op);
        w.bool(self.done);
        w.i32(self.err);
    }
}

impl WatcherEvent {
    pub fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { kind: r.i32()?, state: r.i32()?, path: r.string_or_empty()? })
    }

    pub fn encode(&self, w: &mut Writer<'_>) {
        w.i32(self.kind);
        w.i32(self.state);
        w.string(&self.path);
    }
}

impl ClientInfo {
    pub fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { scheme: r.string_or_empty()?, user: r.string_or_empty()? })
    }

    pub fn encode(&self, w: &mut Writer<'_>) {
        w.string(&self.scheme);
        w.string(&self.user);
    }
}

/// A null buffer where null and empty mean the same.
pub(super) fn buffer_or_empty(r: &mut Reader) -> Result<Bytes, DecodeError> {
    Ok(r.buffer()?.unwrap_or_default())
}
