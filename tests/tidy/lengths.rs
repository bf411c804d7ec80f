//! Functions and files stay short. Both rules are ratchets: see [`ratchet`].

use crate::source::{self, Source, functions};
use std::collections::BTreeMap;

/// Lines a function may have, signature and braces included.
const FUNCTION_LINES_MAX: usize = 70;
/// Lines a source file may have.
const FILE_LINES_MAX: usize = 600;
/// What the file rule is about.
const SOURCE_EXTENSIONS: &[&str] = &["rs", "py", "sh", "java"];

/// Functions longer than the rule allows, as `path name`, with the lines each has now. Only shrinks.
const LONG_FUNCTIONS: &[(&str, usize)] = &[];

/// Files longer than the rule allows, with the lines each has now. Only shrinks.
const LONG_FILES: &[(&str, usize)] = &[];

/// Faults of `lengths` against `max`, where `tolerated` lists exceptions by their exact present length: growing is a
/// fault, and so is an entry that is higher than need be, or needed no more.
fn ratchet(lengths: &BTreeMap<String, usize>, max: usize, tolerated: &[(&str, usize)]) -> Vec<String> {
    let tolerated: BTreeMap<&str, usize> = tolerated.iter().copied().collect();
    let mut faults = Vec::new();
    for (what, length) in lengths.iter().filter(|(_, length)| **length > max) {
        match tolerated.get(what.as_str()) {
            None => faults.push(format!("{what}: {length} lines, at most {max} are allowed")),
            Some(listed) if length > listed => {
                faults.push(format!("{what}: grew from {listed} to {length} lines, it may only shrink"));
            }
            Some(listed) if length < listed => {
                faults.push(format!("{what}: shrank to {length} lines, so lower its entry of {listed}"));
            }
            Some(_) => {}
        }
    }
    for what in tolerated.keys() {
        if lengths.get(*what).is_none_or(|length| *length <= max) {
            faults.push(format!("{what}: no longer too long (or gone), so remove its entry"));
        }
    }
    faults
}

fn function_lengths(sources: &[Source]) -> BTreeMap<String, usize> {
    let mut longest = BTreeMap::new();
    for file in sources.iter().filter(|s| s.has_extension(&["rs"])) {
        for function in functions(&file.text) {
            // Methods of one name in a file (`new`, `fmt`) share an entry: the longest counts.
            let entry = longest.entry(format!("{} {}", file.path, function.name)).or_insert(0);
            *entry = function.length.max(*entry);
        }
    }
    longest
}

#[test]
fn every_function_fits_a_screen() {
    let faults = ratchet(&function_lengths(&source::all()), FUNCTION_LINES_MAX, LONG_FUNCTIONS);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_source_file_has_one_role_and_a_bounded_length() {
    let sources = source::all();
    let lengths = sources
        .iter()
        .filter(|s| s.has_extension(SOURCE_EXTENSIONS))
        .map(|s| (s.path.clone(), s.lines()))
        .collect();
    let faults = ratchet(&lengths, FILE_LINES_MAX, LONG_FILES);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_tolerated_length_may_shrink_but_not_grow() {
    let now = |n| BTreeMap::from([("f".to_owned(), n)]);
    assert!(ratchet(&now(80), 70, &[("f", 80)]).is_empty());
    assert!(ratchet(&now(70), 70, &[]).is_empty());
    assert_eq!(ratchet(&now(71), 70, &[]).len(), 1, "a new long function");
    assert_eq!(ratchet(&now(81), 70, &[("f", 80)]).len(), 1, "growth");
    assert_eq!(ratchet(&now(79), 70, &[("f", 80)]).len(), 1, "an entry left too high");
    assert_eq!(ratchet(&now(70), 70, &[("f", 80)]).len(), 1, "an entry no longer needed");
}
