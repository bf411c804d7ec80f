//! The golden file and the values that the golden program serialized.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use zk_jute::codec::{DecodeError, Reader, Writer};
use zk_jute::records::{Acl, Id, Stat};

pub(crate) const DATA: &[u8] = &[0, 1, 0x80, 0xff];
pub(crate) const SESSION: i64 = 0x1122_3344_5566_7788;

pub(crate) fn text(value: &str) -> Arc<str> {
    Arc::from(value)
}

pub(crate) fn texts(values: &[&str]) -> Vec<Arc<str>> {
    values.iter().copied().map(Arc::from).collect()
}

pub(crate) fn data() -> Option<Bytes> {
    Some(Bytes::from_static(DATA))
}

pub(crate) fn id(scheme: &str, id: &str) -> Id {
    Id { scheme: text(scheme), id: text(id) }
}

pub(crate) fn acls() -> Vec<Acl> {
    vec![Acl { perms: 31, id: id("world", "anyone") }, Acl { perms: 5, id: id("digest", "żuk:xyz") }]
}

pub(crate) const STAT: Stat = Stat {
    czxid: 0x1_0000_0001,
    mzxid: 0x1_0000_0002,
    ctime: 1_700_000_000_001,
    mtime: 1_700_000_000_002,
    version: 3,
    cversion: 4,
    aversion: 5,
    ephemeral_owner: SESSION,
    data_length: 7,
    num_children: 8,
    pzxid: 0x1_0000_0009,
};

pub(crate) fn unhex(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "odd hex {hex}");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
}

/// The lines of the golden file with the given first word, without it.
pub(crate) fn golden_lines(word: &str) -> Vec<(String, Vec<u8>)> {
    let lines = include_str!("../golden/golden.txt").lines();
    let pairs = lines.filter_map(|line| {
        let (name, hex) = line.rsplit_once(' ')?;
        Some((name.strip_prefix(word)?.to_owned(), unhex(hex)))
    });
    pairs.collect()
}

/// The bytes of every record in the golden file.
pub(crate) fn golden_records() -> BTreeMap<String, Bytes> {
    let lines = golden_lines("").into_iter().filter(|(name, _)| !name.contains(' '));
    lines.map(|(name, bytes)| (name, Bytes::from(bytes))).collect()
}

pub(crate) fn golden(name: &str) -> Bytes {
    golden_records().remove(name).unwrap_or_else(|| panic!("no golden record {name}"))
}

/// Checks that upstream's bytes decode to `value`, all of them, and that `value` encodes to upstream's bytes.
pub(crate) fn check<T: PartialEq + Debug>(
    name: &str,
    value: &T,
    decode: impl FnOnce(&mut Reader) -> Result<T, DecodeError>,
    encode: impl FnOnce(&T, &mut Writer<'_>),
) {
    let bytes = golden(name);
    let mut r = Reader::new(bytes.clone());
    let decoded = decode(&mut r).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(&decoded, value, "{name} decodes to another value");
    assert_eq!(r.remaining(), 0, "{name} leaves bytes behind");
    assert_eq!(Writer::build(|w| encode(value, w)), bytes, "{name} encodes to other bytes");
}
