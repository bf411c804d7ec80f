//! The syntax of `zoo.cfg`: Java's properties format, with the place of every key kept, so that a message can say where.

use std::fmt;
use std::sync::Arc;

/// Where a property was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// A file name, or what stands for one (`-D`, an environment variable).
    pub source: Arc<str>,
    /// 1-based; 0 when the source has no lines.
    pub line: usize,
}

impl Origin {
    /// A place that is no line of a file.
    pub fn whole(source: &str) -> Self {
        Self { source: source.into(), line: 0 }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.source),
            line => write!(f, "{}:{line}", self.source),
        }
    }
}

/// One `key=value`, in the order of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Property {
    pub key: String,
    /// Trimmed, as upstream trims it.
    pub value: String,
    pub origin: Origin,
}

/// Reads properties as `java.util.Properties.load` does: `#` and `!` comments, `=`, `:` or blanks between key and
/// value, backslash escapes, and lines continued by a backslash at their end. Nothing is an error, as upstream.
pub fn parse(source: &str, text: &str) -> Vec<Property> {
    let source: Arc<str> = source.into();
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let mut logical = line.trim_start().to_owned();
        if logical.is_empty() || logical.starts_with(['#', '!']) {
            continue;
        }
        while ends_in_odd_backslashes(&logical) {
            logical.pop();
            match lines.next() {
                Some((_, next)) => logical.push_str(next.trim_start()),
                None => break,
            }
        }
        let (key, value) = split(&logical);
        found.push(Property {
            key: unescape(key).trim().to_owned(),
            value: unescape(value).trim().to_owned(),
            origin: Origin { source: source.clone(), line: index + 1 },
        });
    }
    found
}

fn ends_in_odd_backslashes(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Key and raw value of one logical line.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.char_indices().find(|(_, c)| {
        let ends = !escaped && matches!(c, '=' | ':' | ' ' | '\t' | '\x0c');
        escaped = !escaped && *c == '\\';
        ends
    });
    let Some((end, _)) = end else { return (line, "") };
    let rest = line[end..].trim_start();
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (&line[..end], rest.trim_start())
}

fn unescape(raw: &str) -> String {
    if !raw.contains('\\') {
        return raw.to_owned();
    }
    let mut out = String::with_capacity(raw.len());
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\x0c'),
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                out.push(code.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}
