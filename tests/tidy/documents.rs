//! What the documents say exists, exists; what exists is said; examples and scenarios are used.
//!
//! A map is the fenced block under the heading `## Map`: the first word of each line is a path, from the root of the
//! repository or from the document's own folder.

use crate::source::{self, Source, root};
use std::path::Path;

/// The paths of a document's map; none when it has no map.
fn map_paths(text: &str) -> Option<Vec<String>> {
    let after = text.lines().skip_while(|line| line.trim() != "## Map").skip(1);
    let block =
        after.take_while(|line| !line.starts_with("## ")).skip_while(|line| !line.starts_with("```")).skip(1);
    let paths: Vec<String> = block
        .take_while(|line| !line.starts_with("```"))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    (!paths.is_empty()).then_some(paths)
}

fn read_map(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(document)).unwrap_or_else(|e| panic!("{document}: {e}"));
    map_paths(&text).unwrap_or_else(|| panic!("{document}: no fenced block under `## Map`"))
}

/// Lines of the map of `document` that name nothing.
fn missing_paths(document: &str) -> Vec<String> {
    let folder = root().join(document).parent().map(Path::to_path_buf).expect("a document is in a folder");
    read_map(document)
        .into_iter()
        .filter(|path| !root().join(path).exists() && !folder.join(path).exists())
        .collect()
}

/// Folders below `folder` that hold a crate, but not the root itself.
fn crate_folders(sources: &[Source], folder: &str) -> Vec<String> {
    let manifests = sources.iter().filter_map(|s| s.path.strip_suffix("/Cargo.toml"));
    manifests.filter(|path| path.starts_with(folder)).map(str::to_owned).collect()
}

/// Crates of the repository below `folder` that the map of `document` leaves out.
fn unmapped_crates(document: &str, folder: &str) -> Vec<String> {
    let base = document.rsplit_once('/').map_or("", |(dir, _)| dir);
    let named: Vec<String> = read_map(document).iter().map(|p| p.trim_end_matches('/').to_owned()).collect();
    let is_named = |path: &String| {
        let local = path.strip_prefix(base).unwrap_or(path).trim_start_matches('/');
        named.iter().any(|n| n == path || (!local.is_empty() && n == local))
    };
    crate_folders(&source::all(), folder).into_iter().filter(|p| p != base && !is_named(p)).collect()
}

#[test]
fn every_path_of_the_maps_exists() {
    for document in ["README.md", "server/ARCHITECTURE.md"] {
        let missing = missing_paths(document);
        assert!(missing.is_empty(), "{document}: its map names what is not there: {}", missing.join(", "));
    }
}

#[test]
fn every_crate_is_on_the_maps() {
    for (document, folder) in [("README.md", ""), ("server/ARCHITECTURE.md", "server")] {
        let unmapped = unmapped_crates(document, folder);
        assert!(unmapped.is_empty(), "{document}: its map leaves out: {}", unmapped.join(", "));
    }
}

/// The files below `folder`, as paths from the root.
fn files_below(folder: &str) -> Vec<String> {
    let prefix = format!("{folder}/");
    source::all().into_iter().map(|s| s.path).filter(|path| path.starts_with(&prefix)).collect()
}

/// Source that may make use of an example or a scenario: tests, and code that holds tests.
fn is_test_source(file: &Source) -> bool {
    let code = file.has_extension(&["rs", "py", "java"]);
    code && !file.path.starts_with("tests/tidy/")
        && (file.path.contains("test") || file.text.contains("#[test]"))
}

/// Files of `folder` that no test names, unless one reads the whole folder.
fn unused_files(folder: &str) -> Vec<String> {
    let tests: Vec<Source> = source::all().into_iter().filter(is_test_source).collect();
    let name = folder.rsplit('/').next().unwrap_or(folder);
    let reads_all = tests.iter().any(|t| {
        let lists = ["read_dir", "listdir", ".glob(", ".iterdir("].iter().any(|call| t.text.contains(call));
        lists
            && [format!("\"{name}\""), format!("{name}/"), format!("/{name}\"")]
                .iter()
                .any(|n| t.text.contains(n))
    });
    if reads_all {
        return Vec::new();
    }
    let stem = |path: &String| path.rsplit('/').next().unwrap_or(path).to_owned();
    let used = |path: &String| tests.iter().any(|t| t.text.contains(&stem(path)));
    files_below(folder).into_iter().filter(|path| !used(path)).collect()
}

#[test]
fn every_example_is_used_by_a_test() {
    assert!(!files_below("examples").is_empty(), "examples/ is empty");
    let unused = unused_files("examples");
    assert!(unused.is_empty(), "no test uses: {}", unused.join(", "));
}

#[test]
fn every_scenario_is_played_by_a_test() {
    assert!(!files_below("server/sim/scenarios").is_empty(), "there are no scenarios");
    let unused = unused_files("server/sim/scenarios");
    assert!(unused.is_empty(), "no test plays: {}", unused.join(", "));
}

#[test]
fn every_folder_of_python_tests_is_a_stage_of_the_runner() {
    let runner = std::fs::read_to_string(root().join("tests/harness/run_tests.py")).expect("the runner");
    let is_test = |path: &&String| {
        path.ends_with(".py") && path.rsplit('/').next().is_some_and(|n| n.starts_with("test_"))
    };
    for path in files_below("tests").iter().filter(is_test) {
        let folder = path.rsplit_once('/').map(|(dir, _)| dir).expect("a folder");
        assert!(runner.contains(&format!("\"{folder}\"")), "{folder} is in no stage of run_tests.py");
    }
}

#[test]
fn a_map_is_read_from_the_fenced_block_under_its_heading() {
    let text = "# x\n```\nno/\n```\n## Map\ntext\n```text\nsrc/  the operator\n  server/core/  pure\n```\n## Next\n```\nalso-not\n```\n";
    assert_eq!(map_paths(text).expect("a map"), ["src/", "server/core/"]);
    assert!(map_paths("# x\n## Map\nnothing\n## Other\n```\nsrc\n```\n").is_none());
}
