//! The files of the repository, and just enough of Rust's lexical rules to find where a function ends.
//!
//! Why by hand: a parser would be a dependency far larger than the rule it serves. What is blanked out here are
//! comments, strings and character literals, so that a brace that is left is a brace.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold no source of ours: build output, the version control's, editors'.
const SKIPPED: &[&str] = &["target", "node_modules", "__pycache__"];

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A text file of the repository.
pub(crate) struct Source {
    /// Relative to the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn has_extension(&self, extensions: &[&str]) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, ext)| extensions.contains(&ext))
    }

    pub(crate) fn lines(&self) -> usize {
        self.text.lines().count()
    }
}

/// Every text file, sorted by path. Files that are not UTF-8 (golden bytes) are left out.
pub(crate) fn all() -> Vec<Source> {
    let mut found = Vec::new();
    walk(root(), &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 20, "the walk found only {} files: it looks in the wrong place", found.len());
    found
}

fn walk(dir: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
        let path = entry.expect("a directory entry").path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if path.is_dir() {
            let hidden = name.starts_with('.') && name != ".ci";
            if !hidden && !name.starts_with("target-") && !SKIPPED.contains(&name) {
                walk(&path, found);
            }
        } else if let Ok(text) = fs::read_to_string(&path) {
            found.push(Source { path: relative(&path), text });
        }
    }
}

fn relative(path: &Path) -> String {
    let relative: PathBuf = path.strip_prefix(root()).expect("below the root").into();
    relative.to_string_lossy().replace('\\', "/")
}

/// A function: its name, its first line (from 1) and how many lines it spans, signature and closing brace included.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) length: usize,
}

/// The functions with a body in a Rust file. A nested function counts on its own and within the outer one.
pub(crate) fn functions(text: &str) -> Vec<Function> {
    let code = blank(text);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = code[at..].find("fn ") {
        let start = at + offset;
        at = start + 3;
        let before = code[..start].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let name: String = code[at..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if let Some(end) = body_end(&code[at..]).filter(|_| !name.is_empty()) {
            let line = code[..start].matches('\n').count() + 1;
            found.push(Function { name, line, length: code[start..=at + end].matches('\n').count() + 1 });
        }
    }
    found
}

/// Offset of the brace that closes the first body, or none for a declaration that ends in a semicolon.
fn body_end(code: &str) -> Option<usize> {
    let (mut braces, mut brackets) = (0usize, 0usize);
    for (i, c) in code.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            ';' if braces == 0 && brackets == 0 => return None,
            '{' => braces += 1,
            '}' if braces <= 1 => return (braces == 1).then_some(i),
            '}' => braces -= 1,
            _ => {}
        }
    }
    None
}

/// The text with comments, strings and character literals replaced by spaces; line breaks stay.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut i = 0;
    while i < bytes.len() {
        let end = match bytes[i] {
            b'/' if bytes[i..].starts_with(b"//") => line_end(bytes, i),
            b'/' if bytes[i..].starts_with(b"/*") => comment_end(bytes, i),
            b'r' if !follows_word(bytes, i) => raw_string_end(bytes, i),
            b'"' => string_end(bytes, i),
            b'\'' => char_end(bytes, i),
            _ => i,
        };
        for byte in &mut out[i..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        i = end.max(i + 1);
    }
    String::from_utf8(out).expect("only whole tokens are replaced, by spaces")
}

fn follows_word(bytes: &[u8], i: usize) -> bool {
    // `br"` is a raw string too, so a lone b before does not count.
    let Some(before) = i.checked_sub(1).map(|at| bytes[at]) else { return false };
    let b_prefix = before == b'b' && (i < 2 || !is_word(bytes[i - 2]));
    is_word(before) && !b_prefix
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn line_end(bytes: &[u8], i: usize) -> usize {
    bytes[i..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |n| i + n)
}

fn comment_end(bytes: &[u8], i: usize) -> usize {
    let (mut depth, mut at) = (0usize, i);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], i: usize) -> usize {
    let mut at = i + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// End of `r"…"` or `r#"…"#` that starts at `i`; `i` itself when it is a plain word or a raw identifier.
fn raw_string_end(bytes: &[u8], i: usize) -> usize {
    let hashes = bytes[i + 1..].iter().take_while(|b| **b == b'#').count();
    if bytes.get(i + 1 + hashes) != Some(&b'"') {
        return i;
    }
    let close: Vec<u8> = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let from = i + 2 + hashes;
    bytes[from..]
        .windows(close.len())
        .position(|w| w == close)
        .map_or(bytes.len(), |n| from + n + close.len())
}

/// End of a character literal; `i` itself for a lifetime.
fn char_end(bytes: &[u8], i: usize) -> usize {
    if bytes.get(i + 1) == Some(&b'\\') {
        return bytes[i + 3..].iter().position(|b| *b == b'\'').map_or(bytes.len(), |n| i + 3 + n + 1);
    }
    // One character of at most four bytes, then the closing quote.
    let close = (2..=5).find(|n| bytes.get(i + n) == Some(&b'\''));
    match close {
        Some(n) if std::str::from_utf8(&bytes[i + 1..i + n]).is_ok_and(|s| s.chars().count() == 1) => {
            i + n + 1
        }
        _ => i,
    }
}

#[test]
fn a_function_is_measured_past_braces_in_strings_comments_and_characters() {
    let text = "fn a() {\n    let x = \"}\"; // }\n    let y = '}';\n    let z = r#\"}\"}\"#; /* } */\n}\nfn b();\nfn c<'a>(x: &'a [u8; 2]) -> u8 {\n    1\n}\n";
    let found: Vec<_> = functions(text).into_iter().map(|f| (f.name, f.line, f.length)).collect();
    assert_eq!(found, [("a".into(), 1, 5), ("c".into(), 7, 3)]);
}
