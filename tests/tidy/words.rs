//! No leftovers and no traces of the machine that a file was written on.

use crate::source::{self, Source, functions};

/// Where a rule's own words are, so it would find itself.
const EXEMPT: &[&str] = &["tests/tidy/", "Cargo.lock"];
/// Files of code, in which a leftover marker means unfinished work.
const CODE: &[&str] = &["rs", "py", "sh", "java", "toml", "yaml", "yml", "md", "txt"];

/// Markers of unfinished work.
const LEFTOVERS: &[&str] = &["FIXME", "TODO", "XXX:", "todo!(", "unimplemented!(", "dbg!("];

/// Paths that only some machine has. Anything below a home directory is one, too.
const MACHINE_PATHS: &[&str] = &["/work/", "/tmp/zksrc", "/root/", "/home/", "/Users/", "../shared/"];

/// Hosts of package registries: clients know them, the project has no business to.
const REGISTRY_HOSTS: &[&str] = &[
    "pypi.org",
    "pythonhosted.org",
    "registry.npmjs.org",
    "repo.maven.apache.org",
    "repo1.maven.org",
    "proxy.golang.org",
    "deb.debian.org",
    "static.crates.io",
    "index.crates.io",
];

fn faults(sources: &[Source], banned: &[&str], why: &str) -> Vec<String> {
    let mut found = Vec::new();
    for file in sources.iter().filter(|s| !EXEMPT.iter().any(|e| s.path.starts_with(e))) {
        for (number, line) in file.text.lines().enumerate() {
            for word in banned.iter().filter(|word| contains(line, word)) {
                found.push(format!("{}:{}: {word} ({why})", file.path, number + 1));
            }
        }
    }
    found
}

/// Whether `line` has `word`, not as the tail of a longer path or name (`target/work/` is no machine's path).
fn contains(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '}' | '>' | '-' | ')'))
    })
}

#[test]
fn no_unfinished_work_is_left_behind() {
    let code: Vec<_> = source::all().into_iter().filter(|s| s.has_extension(CODE)).collect();
    let found = faults(&code, LEFTOVERS, "finish it, or file an issue");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    let found = faults(&source::all(), MACHINE_PATHS, "a path of one machine");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn no_file_names_the_host_of_a_registry() {
    let found = faults(&source::all(), REGISTRY_HOSTS, "use the registry's client");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Unit tests beside a module are about that module, whose header speaks for them.
#[test]
fn every_rust_module_says_what_it_is() {
    let bare: Vec<_> = source::all()
        .into_iter()
        .filter(|s| s.has_extension(&["rs"]))
        .filter(|s| {
            !(s.path.ends_with("/tests.rs") || s.path.contains("/tests/") && s.path.contains("/src/"))
        })
        .filter(|s| !s.text.trim_start().starts_with("//!") && !functions(&s.text).is_empty())
        .map(|s| s.path)
        .collect();
    assert!(bare.is_empty(), "these lack a `//!` header:\n{}", bare.join("\n"));
}

#[test]
fn a_word_is_found_on_its_own_but_not_within_a_path() {
    assert!(contains("cd /work/main", "/work/"));
    assert!(contains("see \"/root/x\"", "/root/"));
    assert!(!contains("$dir/home/x", "../shared/"));
    assert!(!contains("target/work/x", "/work/"));
}
