//! Several members as one ensemble.

use std::path::{Path, PathBuf};

use super::process::{Member, eventually, free_port};

/// Members 1 to n, in this order.
pub struct Ensemble {
    pub members: Vec<Member>,
}

impl Ensemble {
    /// An ensemble of voters whose directories `dir_of` names. Nothing is started.
    pub fn new(size: usize, dir_of: impl Fn(usize) -> PathBuf, extra: &str) -> Self {
        let mut text = format!("initLimit=20\nsyncLimit=10\n{extra}\n");
        for id in 1..=size {
            text.push_str(&format!("server.{id}=127.0.0.1:{}:{}\n", free_port(), free_port()));
        }
        let members = (1..=size).map(|id| {
            let member = Member::new(&dir_of(id), &text);
            std::fs::write(member.data().join("myid"), id.to_string()).expect("myid");
            member
        });
        Self { members: members.collect() }
    }

    /// An ensemble below one directory.
    pub fn below(dir: &Path, size: usize) -> Self {
        Self::new(size, |id| dir.join(id.to_string()), "")
    }

    /// Starts all and waits until all take part.
    pub fn start(&mut self) {
        for member in &mut self.members {
            member.spawn(&[]);
        }
        eventually("every member takes part", || self.members.iter().all(is_synced));
    }

    /// Index of the leader, once there is one that serves.
    pub fn leader(&self) -> usize {
        let mut found = None;
        eventually("there is a leader", || {
            found = self.members.iter().position(|member| member.role() == "leader" && is_synced(member));
            found.is_some()
        });
        found.expect("leader")
    }

    /// Indices of all but `one`.
    pub fn others(&self, one: usize) -> Vec<usize> {
        (0..self.members.len()).filter(|index| *index != one).collect()
    }
}

/// True if the member serves in a role.
pub fn is_synced(member: &Member) -> bool {
    member.facts().is_some_and(|facts| facts["synced"] == true)
}
