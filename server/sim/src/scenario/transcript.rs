//! What of a run goes into a transcript, and in which words: short, and without numbers that mean nothing to a reader.

use std::collections::BTreeMap;

/// How lines are worded.
#[derive(Clone, Debug, Default)]
pub(super) struct Wording {
    /// Packets and commits are shown too.
    pub(super) trace: bool,
    /// Nothing is shown.
    pub(super) silent: bool,
    /// Names of the script's sessions, by the client's number.
    pub(super) clients: BTreeMap<usize, String>,
    /// Names of session ids, as they are written (`0x...`).
    pub(super) ids: BTreeMap<String, String>,
}

impl Wording {
    /// The line as it is shown, or `None` if it is not.
    pub(super) fn shown(&self, line: &str) -> Option<String> {
        let quiet = is_packet(line) || line.contains(" committed ") || line.contains(" link closed: ");
        (!self.silent && (self.trace || !quiet)).then(|| self.worded(line))
    }

    /// The line with names for sessions and `epoch/counter` for zxids.
    pub(super) fn worded(&self, line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(|word| self.word(word)).collect();
        match &words[..] {
            [client, number, rest @ ..] if client == "client" => {
                let name = number.parse().ok().and_then(|number: usize| self.clients.get(&number));
                format!("{}: {}", name.map_or("?", String::as_str), rest.join(" "))
            }
            words => words.join(" "),
        }
    }

    fn word(&self, word: &str) -> String {
        let bare = word.trim_end_matches([',', ';', ':']);
        let tail = &word[bare.len()..];
        if let Some(name) = self.ids.get(bare) {
            return format!("{name}{tail}");
        }
        let Some(number) = bare.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok())
        else {
            return word.to_owned();
        };
        format!("{}{tail}", zxid_text(number))
    }
}

/// A zxid as `epoch/counter`; a number that is none (a session nobody named) as `?`.
fn zxid_text(number: u64) -> String {
    const EPOCHS: u64 = 1_000_000;
    match (number, number >> 32) {
        (u64::MAX, _) => "none".to_owned(),
        (_, epoch) if epoch > EPOCHS => "?".to_owned(),
        (number, epoch) => format!("{epoch}/{}", number & 0xffff_ffff),
    }
}

/// `1->2 Proposal ...`
fn is_packet(line: &str) -> bool {
    line.split(' ').next().is_some_and(|word| word.contains("->"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_have_names_and_zxids_an_epoch() {
        let mut wording = Wording::default();
        wording.clients.insert(0, "a".to_owned());
        wording.ids.insert("0x100000000000001".to_owned(), "a".to_owned());
        let worded = |line| wording.shown(line);
        assert_eq!(
            worded("client 0 Create -> err 0 at 0x100000002").as_deref(),
            Some("a: Create -> err 0 at 1/2")
        );
        assert_eq!(worded("2 session 0x100000000000001 expired").as_deref(), Some("2 session a expired"));
        assert_eq!(worded("2 session 0x300000000000001 expired").as_deref(), Some("2 session ? expired"));
        assert_eq!(worded("3->1 Proposal 0x100000002"), None);
        assert_eq!(worded("1 elected 3 at 0xffffffffffffffff").as_deref(), Some("1 elected 3 at none"));
    }
}
