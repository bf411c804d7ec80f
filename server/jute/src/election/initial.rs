//! The first bytes on an election connection (upstream `QuorumCnxManager.startConnection`, `InitialMessage.parse`).

use bytes::Bytes;

use super::InitialMessage;
use crate::codec::{DecodeError, DecodeErrorKind, Reader, Writer, incomplete_as_none};
use crate::ids::ServerId;

/// One address (3.5 and later, and 3.6 and later without `multiAddress.enabled`).
pub const PROTOCOL_VERSION_V1: i64 = -65536;
/// Several addresses joined with `|` (3.6 and later with `multiAddress.enabled`).
pub const PROTOCOL_VERSION_V2: i64 = -65535;
/// Longest text of addresses, in bytes (upstream `QuorumCnxManager.maxBuffer`).
pub const MAX_ADDRESSES_LEN: usize = 2048;

/// Version, server id and the length of the addresses.
const HEAD_LEN: usize = 8 + 8 + 4;

impl InitialMessage {
    /// Writes the message; it must leave in one segment.
    ///
    /// # Panics
    /// If the addresses are none or longer than [`MAX_ADDRESSES_LEN`], which no receiver accepts.
    pub fn encode(&self, w: &mut Writer<'_>) {
        if self.protocol_version >= 0 {
            return w.i64(self.sid.0);
        }
        let text = self.addresses.join("|");
        assert!(!text.is_empty() && text.len() <= MAX_ADDRESSES_LEN, "addresses of {} bytes", text.len());
        w.i64(self.protocol_version);
        w.i64(self.sid.0);
        w.buffer(Some(text.as_bytes()));
    }

    /// The message at the start of `received` and its length, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// A version upstream does not know, an unreasonable length, or an address that is not `host:port`.
    pub fn try_decode(received: &[u8]) -> Result<Option<(Self, usize)>, DecodeError> {
        let bounded = &received[..received.len().min(HEAD_LEN + MAX_ADDRESSES_LEN)];
        let mut r = Reader::new(Bytes::copy_from_slice(bounded));
        let message = incomplete_as_none(Self::decode(&mut r))?;
        Ok(message.map(|message| (message, r.position())))
    }

    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        let version = r.i64()?;
        if version >= 0 {
            return Ok(Self { protocol_version: 0, sid: ServerId(version), addresses: Vec::new() });
        }
        if version != PROTOCOL_VERSION_V1 && version != PROTOCOL_VERSION_V2 {
            return Err(DecodeError::bad_value(0, "protocol version", version));
        }
        let sid = ServerId(r.i64()?);
        check_len(r.clone().i32()?, r.position())?;
        let offset = r.position() + 4;
        let text = r.string_required("addresses")?;
        // Like Java's split, which forgets empty pieces at the end.
        let addresses: Vec<String> = text.trim_end_matches('|').split('|').map(str::to_owned).collect();
        if !addresses.iter().all(|address| is_host_and_port(address)) {
            return Err(DecodeError::bad_value(offset, "election address of server", sid.0));
        }
        Ok(Self { protocol_version: version, sid, addresses })
    }
}

fn check_len(len: i32, offset: usize) -> Result<(), DecodeError> {
    let kind = match usize::try_from(len) {
        Ok(1..=MAX_ADDRESSES_LEN) => return Ok(()),
        Ok(0) => return Err(DecodeError::bad_value(offset, "length of addresses", 0)),
        Ok(len) => DecodeErrorKind::TooLong { len, limit: MAX_ADDRESSES_LEN },
        Err(_) => DecodeErrorKind::NegativeLength { len },
    };
    Err(DecodeError { offset, kind })
}

/// `host:port` or `[v6]:port` (upstream `ConfigUtils.getHostAndPort`).
fn is_host_and_port(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host_is_valid = match bracketed {
        Some(inner) => !inner.is_empty(),
        None => !host.is_empty() && !host.contains([':', '[', ']']),
    };
    host_is_valid && port.parse::<u16>().is_ok()
}
