//! Every file in `scenarios/` is played: its assertions and all oracles must hold, and its transcript must be the one below the line.
//!
//! `UPDATE_GOLDEN=1 cargo test -p zk-sim --test scenarios` writes the transcripts anew. Read the difference, and commit it only
//! if you understand the cause.

use std::path::{Path, PathBuf};

use zk_sim::scenario::{Scenario, difference};

/// The seed documents and the other faults that must have a story each.
const FAULTS: [u32; 26] = [
    1291, 1549, 2307, 2354, 2845, 2846, 3023, 3526, 3911, 4306, 4352, 4394, 4541, 4643, 4646, 4685, 4708,
    4712, 4781, 4785, 4837, 4882, 4925, 5010, 5088, 5094,
];

fn files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a directory entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    files
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[test]
fn every_scenario_holds_and_gives_its_transcript() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let only = std::env::var("SCENARIO").unwrap_or_default();
    let mut failures = Vec::new();
    for path in files().iter().filter(|path| name(path).contains(&only)) {
        let text = std::fs::read_to_string(path).expect("a readable scenario");
        let scenario = Scenario::parse(&text);
        let played = scenario.play();
        if let Some(failure) = played.failure {
            failures.push(format!("{}: {failure}\n{}", name(path), played.transcript));
        } else if let Some(shown) = difference(&scenario.golden, &played.transcript) {
            if update {
                std::fs::write(path, scenario.with_transcript(&played.transcript))
                    .expect("a writable scenario");
            } else {
                failures.push(format!("{}: {shown}", name(path)));
            }
        }
    }
    assert!(failures.is_empty(), "{} failed\n\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn every_known_fault_has_its_story_and_every_story_says_what_it_is() {
    let files = files();
    for fault in FAULTS {
        let prefix = format!("zk{fault}_");
        assert!(
            files.iter().any(|path| name(path).starts_with(&prefix)),
            "no scenario for ZOOKEEPER-{fault}"
        );
    }
    for path in &files {
        let text = std::fs::read_to_string(path).expect("a readable scenario");
        let mut lines = text.lines();
        for head in ["# Goal: ", "# Fault: ", "# Method: "] {
            let found =
                lines.by_ref().take_while(|line| line.starts_with('#')).any(|line| line.starts_with(head));
            assert!(found, "{}: the head names no {head:?}", name(path));
        }
    }
}

#[test]
fn a_scenario_played_twice_gives_the_same_transcript() {
    for path in files().iter().take(5) {
        let scenario = Scenario::parse(&std::fs::read_to_string(path).expect("a readable scenario"));
        assert_eq!(scenario.play(), scenario.play(), "{}", name(path));
    }
}
