//! The few requests that load needs, as frames: a length, the request header (xid, type), the record. Big-endian.

/// Request types of `ZooDefs.OpCode`.
mod op {
    pub(super) const CREATE: i32 = 1;
    pub(super) const GET_DATA: i32 = 4;
    pub(super) const SET_DATA: i32 = 5;
    pub(super) const CLOSE_SESSION: i32 = -11;
}

/// `Perms.ALL`.
const PERMS_ALL: i32 = 31;
/// Length of a session's password.
pub(crate) const PASSWORD_LEN: usize = 16;

fn put_i32(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put_buffer(out: &mut Vec<u8>, value: &[u8]) {
    put_i32(out, i32::try_from(value.len()).expect("a buffer of the load tool is small"));
    out.extend_from_slice(value);
}

/// Appends one frame whose body `fill` writes.
fn frame(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    put_i32(out, 0);
    fill(out);
    let length = i32::try_from(out.len() - at - 4).expect("a frame of the load tool is small");
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// `ConnectRequest`; session 0 asks for a new one. `timeout_ms` is what the client proposes.
pub(crate) fn connect(out: &mut Vec<u8>, timeout_ms: i32, session: i64, password: &[u8], last_zxid: i64) {
    frame(out, |b| {
        put_i32(b, 0);
        put_i64(b, last_zxid);
        put_i32(b, timeout_ms);
        put_i64(b, session);
        put_buffer(b, password);
        b.push(0); // not read-only
    });
}

pub(crate) fn get_data(out: &mut Vec<u8>, xid: i32, path: &str) {
    frame(out, |b| {
        put_i32(b, xid);
        put_i32(b, op::GET_DATA);
        put_buffer(b, path.as_bytes());
        b.push(0); // no watch
    });
}

/// `setData` of any version.
pub(crate) fn set_data(out: &mut Vec<u8>, xid: i32, path: &str, data: &[u8]) {
    frame(out, |b| {
        put_i32(b, xid);
        put_i32(b, op::SET_DATA);
        put_buffer(b, path.as_bytes());
        put_buffer(b, data);
        put_i32(b, -1);
    });
}

/// `create` of a persistent node that everyone may use.
pub(crate) fn create(out: &mut Vec<u8>, xid: i32, path: &str, data: &[u8]) {
    frame(out, |b| {
        put_i32(b, xid);
        put_i32(b, op::CREATE);
        put_buffer(b, path.as_bytes());
        put_buffer(b, data);
        put_i32(b, 1); // one ACL entry
        put_i32(b, PERMS_ALL);
        put_buffer(b, b"world");
        put_buffer(b, b"anyone");
        put_i32(b, 0); // flags: persistent
    });
}

pub(crate) fn close_session(out: &mut Vec<u8>, xid: i32) {
    frame(out, |b| {
        put_i32(b, xid);
        put_i32(b, op::CLOSE_SESSION);
    });
}

/// Length of the first whole frame's body in `bytes`, or none while it is still incomplete.
pub(crate) fn whole_frame(bytes: &[u8]) -> Option<usize> {
    let header: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    let length = i32::from_be_bytes(header) as usize;
    (bytes.len() >= 4 + length).then_some(length)
}

/// Header of a reply.
pub(crate) struct Reply {
    pub(crate) xid: i32,
    pub(crate) zxid: i64,
    pub(crate) error: i32,
}

/// The `ReplyHeader` at the start of a frame's body.
pub(crate) fn reply(body: &[u8]) -> Option<Reply> {
    Some(Reply {
        xid: i32::from_be_bytes(body.get(0..4)?.try_into().ok()?),
        zxid: i64::from_be_bytes(body.get(4..12)?.try_into().ok()?),
        error: i32::from_be_bytes(body.get(12..16)?.try_into().ok()?),
    })
}

/// Length of a `Stat`: six longs and five ints.
const STAT_LEN: usize = 6 * 8 + 5 * 4;

/// Length of the whole body of a successful reply to [`get_data`] for a node of `size` bytes.
pub(crate) const fn get_data_reply_len(size: usize) -> usize {
    16 + 4 + size + STAT_LEN
}

#[cfg(test)]
mod tests {
    use super::{get_data, reply, set_data, whole_frame};

    #[test]
    fn a_frame_is_whole_only_with_its_last_byte() {
        let mut out = Vec::new();
        set_data(&mut out, 7, "/a", b"xyz");
        assert_eq!(whole_frame(&out), Some(out.len() - 4));
        assert_eq!(whole_frame(&out[..out.len() - 1]), None);
        assert_eq!(whole_frame(&out[..3]), None);
    }

    #[test]
    fn a_read_is_these_bytes() {
        let mut out = Vec::new();
        get_data(&mut out, 1, "/a");
        assert_eq!(out, [0, 0, 0, 15, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 2, b'/', b'a', 0]);
    }

    #[test]
    fn a_short_reply_is_none() {
        assert!(reply(&[0; 15]).is_none());
        assert_eq!(reply(&[0; 16]).expect("a header").error, 0);
    }
}
