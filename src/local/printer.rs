//! What local mode prints: lines with the seconds since its start, and the table of members when a row changes.
//!
//! A terminal that is closed, or a reader that had enough (`| head`), ends the printing and nothing else: the members
//! are not to die of it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Instant;

use crate::crd::{MemberStatus, ZkEnsembleStatus};

/// Prints, and remembers what it printed so that nothing is said twice.
pub(super) struct Printer {
    start: Instant,
    said: String,
    rows: Vec<[String; 4]>,
}

const HEADER: [&str; 8] = ["ID", "ROLE", "EPOCH", "ZXID", "LAG", "DISK", "REVISION", "STATE"];

impl Printer {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), said: String::new(), rows: Vec::new() }
    }

    /// Prints a line.
    pub(super) fn say(&mut self, text: &str) {
        print(&format!("[{:7.1}s] {text}\n", self.start.elapsed().as_secs_f64()));
    }

    /// Prints a step. What is waited for after it is news, even in the words of before.
    pub(super) fn step(&mut self, text: &str) {
        self.say(text);
        self.said.clear();
    }

    /// Prints a line unless it is the one printed last in this way.
    pub(super) fn once(&mut self, kind: &str, text: &str) {
        let line = format!("{kind}: {text}");
        if self.said != line {
            self.say(&line);
            self.said = line;
        }
    }

    /// Prints the table when a row changed in more than its zxid, lag or disk, which change all the time.
    pub(super) fn table(&mut self, status: &ZkEnsembleStatus) {
        let rows: Vec<[String; 4]> = status.members.iter().map(key).collect();
        if rows == self.rows {
            return;
        }
        self.rows = rows;
        print(&table(status));
    }
}

/// Prints, if anybody can read it. `println!` would panic otherwise.
pub(super) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn key(member: &MemberStatus) -> [String; 4] {
    [member.role.clone(), shown(member.epoch), member.revision.clone(), member.state.clone()]
}

fn shown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn table(status: &ZkEnsembleStatus) -> String {
    let mut lines = vec![HEADER.map(str::to_owned)];
    lines.extend(status.members.iter().map(|member| {
        let role = if member.role.is_empty() { "-".to_owned() } else { member.role.clone() };
        [
            member.id.to_string(),
            role,
            shown(member.epoch),
            shown(member.zxid.as_ref()),
            shown(member.lag),
            shown(member.disk.as_ref()),
            member.revision.clone(),
            member.state.clone(),
        ]
    }));
    let widths: Vec<usize> = (0..HEADER.len())
        .map(|column| lines.iter().map(|line| line[column].len()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for line in &lines {
        let cells: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "    {}", cells.join("  ").trim_end());
    }
    text
}
