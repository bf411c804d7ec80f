//! What a run leaves behind: one line for each input of each peer with a digest of what it caused.
//!
//! A sweep keeps none of it; a failing seed is run again with the lines kept, and two runs of one seed keep the same lines. The lines are JSON so that other tools can read them, and carry no time but the simulated one.

use crate::clock::Nanos;

/// Lines kept at most: at about 200 bytes each, 400 MB for a run that would be far over its step bound anyway.
const LINES_MAX: usize = 2_000_000;

/// FNV-1a, 64 bits: stable across versions and platforms, which the standard library's hasher does not promise.
pub fn fnv(bytes: &[u8]) -> u64 {
    fnv_more(0xcbf2_9ce4_8422_2325, bytes)
}

/// Continues [`fnv`] from `hash`.
pub fn fnv_more(mut hash: u64, bytes: &[u8]) -> u64 {
    for byte in bytes {
        hash ^= u64::from(*byte);
        hash = hash.wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

/// A hasher that can be written to like a string, so that a `Debug` form is hashed without being built.
#[derive(Clone, Copy, Debug)]
pub struct FnvWriter(pub u64);

impl Default for FnvWriter {
    fn default() -> Self {
        Self(fnv(&[]))
    }
}

impl std::fmt::Write for FnvWriter {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0 = fnv_more(self.0, text.as_bytes());
        Ok(())
    }
}

/// The trace of one run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    lines: Option<Vec<String>>,
    count: u64,
}

impl Trace {
    /// A trace that keeps its lines if `keep`, else only counts steps.
    pub fn new(keep: bool) -> Self {
        Self { lines: keep.then(Vec::new), count: 0 }
    }

    /// One step: `node` took `input` in at `time`, and it caused what hashes to `effects`.
    pub fn step(&mut self, time: Nanos, node: i64, input: &str, effects: u64) {
        self.count += 1;
        let number = self.count;
        if let Some(lines) = self.lines.as_mut().filter(|lines| lines.len() < LINES_MAX) {
            let text = serde_json::Value::from(input).to_string();
            lines.push(format!(
                r#"{{"step":{number},"ns":{time},"node":{node},"input":{text},"effects":"{effects:016x}"}}"#
            ));
        }
    }

    /// Something that is not an input of a peer: a fault, an operator's act, a client's operation.
    pub fn note(&mut self, time: Nanos, text: &str) {
        if let Some(lines) = self.lines.as_mut().filter(|lines| lines.len() < LINES_MAX) {
            let text = serde_json::Value::from(text).to_string();
            lines.push(format!(r#"{{"ns":{time},"note":{text}}}"#));
        }
    }

    /// True if lines are kept, so that a caller may spare the trouble of making a long one.
    pub const fn keeps_lines(&self) -> bool {
        self.lines.is_some()
    }

    /// Inputs so far.
    pub const fn steps(&self) -> u64 {
        self.count
    }

    /// The lines kept.
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_json_and_steps_are_counted_without_lines_too() {
        let run = |keep| {
            let mut trace = Trace::new(keep);
            trace.step(5, 1, "Tick", 0xabc);
            trace.note(6, "crash 1 \"x\"");
            trace
        };
        assert_eq!((run(true).steps(), run(false).steps()), (1, 1));
        assert_eq!((run(true).lines().len(), run(false).lines().len()), (2, 0));
        for line in run(true).lines() {
            serde_json::from_str::<serde_json::Value>(line).expect("a line is JSON");
        }
    }
}
