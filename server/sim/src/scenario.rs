//! Stories as text: one verb a line, and below each the transcript of what it caused.
//!
//! A line that starts with two spaces is transcript, `#` begins a comment, everything else is a verb ([`verbs`]). The runner plays the
//! verbs and writes the file anew; a story holds if that is the file it was, no `expect` failed and no oracle spoke. To accept a
//! changed transcript run the test with `UPDATE_GOLDEN=1`, read the difference, and keep it only if its cause is understood.

mod client_verbs;
mod expect;
mod stage;
mod verbs;

pub use stage::Stage;

/// A played story.
#[derive(Debug)]
pub struct Played {
    /// The story with its new transcript.
    pub text: String,
    /// What went wrong: failed expectations, violations, verbs nobody knows.
    pub faults: Vec<String>,
}

/// Plays the story in `text`.
pub fn play(text: &str) -> Played {
    let mut stage = Stage::default();
    let mut out = String::new();
    let mut faults = Vec::new();
    for line in text.lines() {
        if line.starts_with("  ") {
            continue;
        }
        out.push_str(line.trim_end());
        out.push('\n');
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Err(fault) = stage.act(&words) {
            stage.say(&format!("FAILED: {fault}"));
            faults.push(format!("{line}: {fault}"));
        }
        for said in stage.take_transcript() {
            out.push_str("  ");
            out.push_str(&said);
            out.push('\n');
        }
        if let Some(violation) = stage.violation() {
            out.push_str(&format!("  VIOLATION {violation}\n"));
            faults.push(format!("{line}: {violation}"));
            break;
        }
    }
    Played { text: out, faults }
}
