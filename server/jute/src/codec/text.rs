//! Text as Java reads and writes it.
//!
//! Upstream decodes with `new String(bytes, UTF_8)` but encodes each UTF-16 unit on its own, so a character outside
//! the basic plane leaves as two three-byte surrogates and comes back as two U+FFFD. Paths and ids must read the
//! same on every member, whichever implementation it runs, hence both sides are reproduced here.

use std::borrow::Cow;

const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Decodes as Java's `new String(bytes, UTF_8)`: one U+FFFD for each malformed sequence.
///
/// This differs from [`String::from_utf8_lossy`] in one point: an encoded surrogate (`ED A0..BF xx`) is one
/// malformed sequence of up to three bytes, not three of one byte.
pub(super) fn decode_java_utf8(bytes: &[u8]) -> Cow<'_, str> {
    let mut rest = bytes;
    let mut out = String::new();
    loop {
        let error = match std::str::from_utf8(rest) {
            Ok(text) if out.is_empty() => return Cow::Borrowed(text),
            Ok(text) => {
                out.push_str(text);
                return Cow::Owned(out);
            }
            Err(error) => error,
        };
        let (valid, malformed) = rest.split_at(error.valid_up_to());
        out.push_str(&String::from_utf8_lossy(valid));
        out.push(REPLACEMENT);
        let skip = surrogate_len(malformed).or(error.error_len()).unwrap_or(malformed.len());
        rest = &malformed[skip..];
    }
}

/// Length of the (possibly cut short) encoded surrogate that `bytes` starts with, if it does.
fn surrogate_len(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] => Some(3),
        [0xed, 0xa0..=0xbf, ..] => Some(2),
        _ => None,
    }
}

/// Appends `text` as upstream's `BinaryOutputArchive.writeString` does. Returns true if a character outside the basic
/// plane was written, which decodes to something else than `text`.
pub(super) fn encode_java_text(text: &str, out: &mut Vec<u8>) -> bool {
    // Four-byte sequences are the only ones on which UTF-8 and upstream differ.
    if !text.bytes().any(|b| b >= 0xf0) {
        out.extend_from_slice(text.as_bytes());
        return false;
    }
    for unit in text.encode_utf16() {
        let [high, low] = unit.to_be_bytes();
        match unit {
            0..0x80 => out.push(low),
            0x80..0x800 => out.extend([0xc0 | (high << 2) | (low >> 6), 0x80 | (low & 0x3f)]),
            0x800.. => {
                out.extend([
                    0xe0 | (high >> 4),
                    0x80 | ((high << 2) & 0x3f) | (low >> 6),
                    0x80 | (low & 0x3f),
                ]);
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        encode_java_text(text, &mut out);
        out
    }

    #[test]
    fn text_of_the_basic_plane_is_plain_utf8() {
        for text in ["", "/a", "żółć", "\u{7ff}\u{800}\u{ffff}", "日本"] {
            assert_eq!(encode(text), text.as_bytes());
            assert_eq!(decode_java_utf8(text.as_bytes()), text);
        }
    }

    #[test]
    fn supplementary_characters_leave_as_two_surrogates_and_return_as_two_replacements() {
        let bytes = encode("aé日😀");
        assert_eq!(bytes, b"a\xc3\xa9\xe6\x97\xa5\xed\xa0\xbd\xed\xb8\x80");
        assert_eq!(decode_java_utf8(&bytes), "aé日\u{fffd}\u{fffd}");
        assert_eq!(decode_java_utf8("😀".as_bytes()), "😀");
    }
}
