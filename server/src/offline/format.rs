//! How values look in what the offline tools print: names as upstream's tools have them, numbers as they are searched for
//! (zxids, sessions and digests in hexadecimal), times in UTC.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use serde_json::{Value, json};
use zk_jute::OpCode;
use zk_jute::consts::perms;
use zk_jute::records::Acl;

const MS_PER_DAY: i64 = 24 * 60 * 60 * 1000;

/// Name of a transaction's type (upstream `Request.op2String`).
pub(super) fn op_name(op: i32) -> Cow<'static, str> {
    let Some(known) = OpCode::from_i32(op) else { return format!("unknown {op}").into() };
    Cow::Borrowed(match known {
        OpCode::Create => "create",
        OpCode::Create2 => "create2",
        OpCode::CreateContainer => "createContainer",
        OpCode::CreateTtl => "createTTL",
        OpCode::Delete => "delete",
        OpCode::DeleteContainer => "deleteContainer",
        OpCode::SetData => "setData",
        OpCode::Reconfig => "reconfig",
        OpCode::SetAcl => "setACL",
        OpCode::Check => "check",
        OpCode::Multi => "multi",
        OpCode::CreateSession => "createSession",
        OpCode::CloseSession => "closeSession",
        OpCode::Error => "error",
        // Requests that are never logged.
        OpCode::Notification
        | OpCode::Exists
        | OpCode::GetData
        | OpCode::GetAcl
        | OpCode::GetChildren
        | OpCode::GetChildren2
        | OpCode::Sync
        | OpCode::Ping
        | OpCode::CheckWatches
        | OpCode::RemoveWatches
        | OpCode::MultiRead
        | OpCode::Auth
        | OpCode::SetWatches
        | OpCode::SetWatches2
        | OpCode::Sasl
        | OpCode::GetEphemerals
        | OpCode::GetAllChildrenNumber
        | OpCode::AddWatch
        | OpCode::WhoAmI => return format!("unlogged {known:?}").into(),
    })
}

/// A wall clock time in milliseconds since 1970 as `2026-01-31T12:00:00.000Z`. Any number gives a text: years beyond four
/// digits come out longer.
pub(super) fn utc(ms: i64) -> String {
    let (day, rest) = (ms.div_euclid(MS_PER_DAY), ms.rem_euclid(MS_PER_DAY));
    let (year, month, day) = civil(day);
    let (second, millis) = (rest / 1000, rest % 1000);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Year, month and day of a day since 1970, in the proleptic Gregorian calendar. Counted in eras of 400 years that begin
/// with March, so that the leap day is a year's last.
const fn civil(day: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097;
    /// From 0000-03-01 to 1970-01-01.
    const EPOCH: i64 = 719_468;
    let day = day + EPOCH;
    let (era, day) = (day.div_euclid(DAYS_PER_ERA), day.rem_euclid(DAYS_PER_ERA));
    let year = (day - day / 1460 + day / 36_524 - day / (DAYS_PER_ERA - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = 400 * era + year + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// A path or an id on one line: control characters, which no valid path has, are escaped.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char.is_control() {
            true => out.extend(char.escape_default()),
            false => out.push(char),
        }
    }
    Cow::Owned(out)
}

/// An ACL list as the command line client takes it: `scheme:id:cdrwa`, entries separated by commas.
pub(super) fn acl_text(list: &[Acl]) -> String {
    let mut out = String::new();
    for acl in list {
        if !out.is_empty() {
            out.push(',');
        }
        let (scheme, id) = (printable(&acl.id.scheme), printable(&acl.id.id));
        let _ = write!(out, "{scheme}:{id}:{}", perms_text(acl.perms));
    }
    out
}

/// An ACL list as JSON.
pub(super) fn acl_json(list: &[Acl]) -> Value {
    let entry = |acl: &Acl| json!({ "scheme": &*acl.id.scheme, "id": &*acl.id.id, "perms": acl.perms });
    list.iter().map(entry).collect::<Vec<_>>().into()
}

fn perms_text(bits: i32) -> String {
    let letters = [
        (perms::CREATE, 'c'),
        (perms::DELETE, 'd'),
        (perms::READ, 'r'),
        (perms::WRITE, 'w'),
        (perms::ADMIN, 'a'),
    ];
    letters.into_iter().filter(|(bit, _)| bits & bit != 0).map(|(_, letter)| letter).collect()
}

/// Data as JSON: text where it is text, base64 where it is not, null for null.
pub(super) fn bytes_json(bytes: Option<&[u8]>) -> Value {
    match bytes {
        None => Value::Null,
        Some(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => json!({ "base64": base64::engine::general_purpose::STANDARD.encode(bytes) }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_gregorian_utc_also_around_leap_days_and_before_1970() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_827_696_789, "2000-02-29T12:34:56.789Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_772_323_199_000, "2026-02-28T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc(ms), text, "{ms}");
        }
        assert!(utc(i64::MAX).ends_with('Z') && utc(i64::MIN).ends_with('Z'), "any number has a text");
    }

    #[test]
    fn a_path_never_breaks_a_line() {
        assert_eq!(printable("/a b/ü"), "/a b/ü");
        assert_eq!(printable("/a\n/b\u{1b}"), "/a\\n/b\\u{1b}");
    }

    #[test]
    fn acls_read_as_the_command_line_client_writes_them() {
        let mut list = vec![Acl::open(), Acl::open()];
        list[1].perms = perms::READ | perms::CREATE;
        assert_eq!(acl_text(&list), "world:anyone:cdrwa,world:anyone:cr");
        assert_eq!(acl_text(&[]), "");
    }
}
