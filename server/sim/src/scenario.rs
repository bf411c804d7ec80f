//! Stories written by hand: a script of verbs, and below a line `----` the transcript that playing it must give.
//!
//! A script is the sequence of one fault, step by step, with the right outcome asserted by `expect-` verbs; every oracle of
//! the simulator watches it too. The transcript shows what the members did on the way (roles, elections, synchronizations,
//! epochs, disk faults, replies), so that a change of behaviour is read as a change of a text. `verbs.rs` lists the verbs.
//! Delays are fixed, so that the script alone decides what happens before what.

mod acts;
mod expect;
mod hooks;
mod player;
mod sessions;
mod start;
mod transcript;
mod verbs;

use std::panic::{AssertUnwindSafe, catch_unwind};

use self::player::Player;

/// The line between a script and its transcript.
pub const RULE: &str = "----";

/// A scenario as its file holds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    /// Everything above the rule.
    pub script: String,
    /// Everything below it; empty in a new scenario.
    pub golden: String,
}

/// What playing a script gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Played {
    pub transcript: String,
    /// The first step or oracle that failed.
    pub failure: Option<String>,
}

impl Scenario {
    /// Splits a file's text.
    pub fn parse(text: &str) -> Self {
        let rule = format!("\n{RULE}\n");
        let (script, golden) = text.split_once(&rule).unwrap_or((text.trim_end_matches('\n'), ""));
        Self { script: script.to_owned(), golden: golden.to_owned() }
    }

    /// The file's text with this transcript.
    pub fn with_transcript(&self, transcript: &str) -> String {
        format!("{}\n{RULE}\n{transcript}", self.script)
    }

    /// Plays the script. A panic of the code under test is a failure like any other.
    pub fn play(&self) -> Played {
        let mut transcript = String::new();
        let outcome = catch_unwind(AssertUnwindSafe(|| play(&self.script, &mut transcript)));
        let failure = match outcome {
            Ok(result) => result.err(),
            Err(payload) => Some(format!("panic: {}", panic_text(&*payload))),
        };
        Played { transcript, failure }
    }
}

fn play(script: &str, transcript: &mut String) -> Result<(), String> {
    let mut player: Option<Player> = None;
    for (number, line) in script.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let result = match &mut player {
            Some(player) => player.play(line),
            None => Player::start(line).map(|started| player = Some(started)),
        };
        if let Some(player) = &mut player {
            transcript.push_str(&player.take_lines());
        }
        result.map_err(|error| format!("line {}: {line}: {error}", number + 1))?;
    }
    Ok(())
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// The first lines in which two transcripts differ, for a human to read; `None` if they are equal.
pub fn difference(golden: &str, transcript: &str) -> Option<String> {
    if golden == transcript {
        return None;
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (golden.lines().collect(), transcript.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let context = old[same.saturating_sub(3)..same].iter().map(|line| format!("  {line}"));
    let gone = old[same..].iter().take(6).map(|line| format!("- {line}"));
    let come = new[same..].iter().take(6).map(|line| format!("+ {line}"));
    let lines: Vec<String> = context.chain(gone).chain(come).collect();
    Some(format!("transcript line {}:\n{}", same + 1, lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_its_script_and_its_transcript() {
        let text = "# a story\nstart 1\n----\n> start 1\n";
        let scenario = Scenario::parse(text);
        assert_eq!(
            (scenario.script.as_str(), scenario.golden.as_str()),
            ("# a story\nstart 1", "> start 1\n")
        );
        assert_eq!(scenario.with_transcript("> start 1\n"), text);
        assert_eq!(Scenario::parse("start 1\n").with_transcript("x\n"), "start 1\n----\nx\n");
    }

    #[test]
    fn an_unknown_verb_and_a_false_expectation_fail_with_their_line() {
        let play = |script: &str| Scenario::parse(script).play().failure.unwrap_or_default();
        assert!(play("start 1\n\nfly 1").starts_with("line 3: fly 1: "), "{}", play("start 1\n\nfly 1"));
        let wrong = "start 1\nelect 1\nexpect-tree 1 has /nowhere";
        assert!(play(wrong).starts_with("line 3: expect-tree"), "{}", play(wrong));
        assert!(play("elect 1").contains("start"), "a script begins with start");
    }

    #[test]
    fn the_first_difference_is_shown_with_what_leads_to_it() {
        assert_eq!(difference("a\n", "a\n"), None);
        let shown = difference("a\nb\n", "a\nc\n").expect("they differ");
        assert_eq!(shown, "transcript line 2:\n  a\n- b\n+ c");
    }
}
