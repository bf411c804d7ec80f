//! Votes and their frames (upstream `FastLeaderElection.buildMsg`, `FastLeaderElection.Messenger.WorkerReceiver`).

use bytes::Bytes;

use super::{Notification, PeerState};
use crate::codec::{DecodeError, DecodeErrorKind, Reader, Writer};
use crate::ids::{ServerId, Zxid};

/// The version this server sends, as 3.5 and later do.
pub const CURRENT_VERSION: i32 = 2;
/// Longest body of a frame, in bytes (upstream `QuorumCnxManager.PACKETMAXSIZE`).
pub const MAX_FRAME_LEN: usize = 512 * 1024;

/// Lengths by which upstream recognizes the forms of older versions.
const LEN_WITHOUT_PEER_EPOCH: usize = 28;
const LEN_WITHOUT_CONFIG: usize = 40;

impl Notification {
    /// Writes the body of a frame, in the form that `version` asks for.
    pub fn encode(&self, w: &mut Writer<'_>) {
        w.i32(self.state as i32);
        w.i64(self.leader.0);
        w.i64(self.zxid.0);
        w.i64(self.election_epoch);
        if self.version == 0 {
            return;
        }
        w.i64(self.peer_epoch);
        w.i32(self.version);
        if self.version > 1 {
            w.buffer(Some(self.config.as_deref().unwrap_or_default()));
        }
    }

    /// Reads the body of a frame. Bytes after the message are ignored, as upstream does.
    ///
    /// # Errors
    /// A body that is too short for its form, a configuration that does not fit in it, or an undefined state.
    pub fn decode(body: Bytes) -> Result<Self, DecodeError> {
        let len = body.len();
        let mut r = Reader::new(body);
        let raw = r.i32()?;
        let state = PeerState::from_i32(raw);
        let mut notification = Self {
            state: state.ok_or(DecodeError::bad_value(0, "peer state", i64::from(raw)))?,
            leader: ServerId(r.i64()?),
            zxid: Zxid(r.i64()?),
            election_epoch: r.i64()?,
            peer_epoch: 0,
            version: 0,
            config: None,
        };
        if len == LEN_WITHOUT_PEER_EPOCH {
            // Upstream shifts the signed zxid, so -1 stays -1.
            notification.peer_epoch = notification.zxid.0 >> 32;
            return Ok(notification);
        }
        notification.peer_epoch = r.i64()?;
        if len == LEN_WITHOUT_CONFIG {
            return Ok(notification);
        }
        notification.version = r.i32()?;
        if notification.version > 1 {
            let offset = r.position();
            let config = r.buffer()?;
            notification.config = Some(config.ok_or(DecodeError::null(offset, "configuration"))?);
        }
        Ok(notification)
    }
}

/// Appends a frame: the length of `body`, then `body`.
///
/// # Panics
/// If `body` is empty or longer than [`MAX_FRAME_LEN`], which no receiver accepts.
pub fn frame(body: &[u8], out: &mut Vec<u8>) {
    assert!(!body.is_empty() && body.len() <= MAX_FRAME_LEN, "election frame of {} bytes", body.len());
    Writer::new(out).buffer(Some(body));
}

/// The body of the frame at the start of `received` and the length of the whole frame, or `None` if more bytes are
/// needed.
///
/// # Errors
/// A length that is not 1 to [`MAX_FRAME_LEN`].
pub fn try_unframe(received: &[u8]) -> Result<Option<(Bytes, usize)>, DecodeError> {
    let Some((length, rest)) = received.split_first_chunk() else { return Ok(None) };
    let raw = i32::from_be_bytes(*length);
    let len = match usize::try_from(raw) {
        Ok(len @ 1..=MAX_FRAME_LEN) => len,
        Ok(0) => return Err(DecodeError::bad_value(0, "length of election frame", 0)),
        Ok(len) => {
            return Err(DecodeError {
                offset: 0,
                kind: DecodeErrorKind::TooLong { len, limit: MAX_FRAME_LEN },
            });
        }
        Err(_) => return Err(DecodeError { offset: 0, kind: DecodeErrorKind::NegativeLength { len: raw } }),
    };
    Ok(rest.get(..len).map(|body| (Bytes::copy_from_slice(body), 4 + len)))
}
