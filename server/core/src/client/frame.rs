//! Length-prefixed packets from a byte stream (upstream `NIOServerCnxn.readLength`, `FourLetterCommands`).

use bytes::{Buf as _, Bytes, BytesMut};

use super::CloseReason;

/// Bytes of the length before a packet.
const LENGTH: usize = 4;

/// Words that a fresh connection may send instead of a packet.
pub const FOUR_LETTER_WORDS: [&str; 18] = [
    "conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr", "ruok", "srst", "srvr",
    "stat", "stmk", "wchc", "wchp", "wchs",
];

/// The four-letter word that a connection begins with, if it is one. As a length it would exceed 1.6 GB.
pub fn is_four_letter_word(first: &[u8; 4]) -> Option<&'static str> {
    FOUR_LETTER_WORDS.into_iter().find(|word| word.as_bytes() == first)
}

/// Takes the next packet out of `input`, without its length; `None` if it is not complete yet. Reserves what is missing, at
/// most `limit` bytes, only after the length is known to be within it.
pub(super) fn take_frame(input: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, CloseReason> {
    let Some(length) = input.first_chunk::<LENGTH>() else { return Ok(None) };
    let length = i32::from_be_bytes(*length);
    let Some(len) = usize::try_from(length).ok().filter(|len| *len <= limit) else {
        return Err(CloseReason::BadLength { len: length, limit });
    };
    let total = LENGTH + len;
    if input.len() < total {
        input.reserve(total - input.len());
        return Ok(None);
    }
    input.advance(LENGTH);
    Ok(Some(input.split_to(len).freeze()))
}

/// Appends a packet to `output` that holds whatever `encode` writes.
pub(super) fn put_frame(output: &mut Vec<u8>, encode: impl FnOnce(&mut zk_jute::Writer<'_>)) {
    let at = output.len();
    output.extend_from_slice(&[0; LENGTH]);
    encode(&mut zk_jute::Writer::new(output));
    let len = output.len() - at - LENGTH;
    let len = i32::try_from(len).expect("a reply must be smaller than 2 GiB");
    output[at..at + LENGTH].copy_from_slice(&len.to_be_bytes());
}
