//! Rules of znode paths (upstream `PathUtils`).

use std::sync::Arc;

/// Why a path is not one. The texts are upstream's, positions count UTF-16 units as Java does.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PathError {
    #[error("Path length must be > 0")]
    Empty,
    #[error("Path must start with / character")]
    NotAbsolute,
    #[error("Path must not end with / character")]
    TrailingSlash,
    #[error("Invalid path string \"{path}\" caused by {reason} @{at}")]
    Invalid { path: String, reason: &'static str, at: usize },
}

/// Checks `path` as upstream's `PathUtils.validatePath` does.
pub fn validate_path(path: &str) -> Result<(), PathError> {
    check(path, false)
}

/// As [`validate_path`], for a node about to be created: a sequential one may end in `/`, because the server adds digits.
pub fn validate_create_path(path: &str, sequential: bool) -> Result<(), PathError> {
    check(path, sequential)
}

fn check(path: &str, sequential: bool) -> Result<(), PathError> {
    let suffix = if sequential { "1" } else { "" };
    if path.is_empty() && !sequential {
        return Err(PathError::Empty);
    }
    if !path.starts_with('/') {
        return Err(PathError::NotAbsolute);
    }
    if path.len() + suffix.len() == 1 {
        return Ok(());
    }
    if path.ends_with('/') && !sequential {
        return Err(PathError::TrailingSlash);
    }
    match first_fault(path, suffix) {
        None => Ok(()),
        Some((reason, at)) => Err(PathError::Invalid { path: format!("{path}{suffix}"), reason, at }),
    }
}

/// Segment by segment: "." and ".." may not be whole segments, and no segment may be empty.
fn first_fault(path: &str, suffix: &str) -> Option<(&'static str, usize)> {
    let mut at = 0;
    let (mut last, mut before) = ('/', '/');
    let mut chars = path.chars().chain(suffix.chars()).skip(1).peekable();
    while let Some(c) = chars.next() {
        at += 1;
        let ends = chars.peek().is_none_or(|next| *next == '/');
        if c == '\0' {
            return Some(("null character not allowed", at));
        } else if c == '/' && last == '/' {
            return Some(("empty node name specified", at));
        } else if c == '.' && ends && (last == '/' || (last == '.' && before == '/')) {
            return Some(("relative paths not allowed", at));
        } else if is_forbidden(c) {
            return Some(("invalid character", at));
        }
        (before, last) = (last, c);
    }
    None
}

/// Control characters, the private use area, the specials, and everything outside the basic plane (a surrogate in Java).
const fn is_forbidden(c: char) -> bool {
    matches!(c, '\u{1}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

/// Path of the parent: "/" for a child of the root, `None` for the root itself and for what is no absolute path.
pub fn parent(path: &str) -> Option<&str> {
    match path.rfind('/')? {
        0 if path.len() == 1 => None,
        0 => Some("/"),
        at => Some(&path[..at]),
    }
}

/// Last segment of `path`.
pub fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// `path` with the suffix of a sequential node: the parent's stored `cversion` as `%010d`, sign included once the
/// 32-bit counter has wrapped.
pub fn sequential(path: &str, parent_cversion: i32) -> Arc<str> {
    format!("{path}{parent_cversion:010}").into()
}

/// True if `path` lies under `ancestor` and is not `ancestor` itself.
pub fn is_under(path: &str, ancestor: &str) -> bool {
    path.strip_prefix(ancestor).is_some_and(|rest| ancestor == "/" || rest.starts_with('/'))
}
