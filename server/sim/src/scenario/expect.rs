//! What a script asserts about members, and the `state` lines it shows.

use zk_core::facts::Role;
use zk_jute::Zxid;

use super::player::{Player, Step};

impl Player {
    /// `expect-leader N`
    pub(super) fn expect_leader(&self, id: i64) -> Step {
        let leaders = self.world.leaders();
        if leaders == [id] { Ok(()) } else { Err(format!("leaders are {leaders:?}")) }
    }

    /// `expect-no-leader`
    pub(super) fn expect_no_leader(&self) -> Step {
        let leaders = self.world.leaders();
        if leaders.is_empty() { Ok(()) } else { Err(format!("leaders are {leaders:?}")) }
    }

    /// `expect-role N down|loading|looking|following|observing|leading|draining [serving]`
    pub(super) fn expect_role(&self, id: i64, expected: &str) -> Step {
        let found = self.role(id);
        if found == expected { Ok(()) } else { Err(format!("{id} is {found}")) }
    }

    /// `expect-halt N TEXT`: the process ended itself, for a reason that begins with TEXT.
    pub(super) fn expect_halt(&self, id: i64, expected: &str) -> Step {
        let reason = self.world.node(id).halted.as_ref().map(|reason| format!("{reason:?}"));
        match reason {
            Some(reason) if reason.starts_with(expected) && !self.world.node(id).is_up() => Ok(()),
            other => Err(format!("{id} ended with {other:?}")),
        }
    }

    /// `expect-tree N has|lacks PATH`
    pub(super) fn expect_tree(&self, id: i64, has: bool, path: &str) -> Step {
        let process = self.world.node(id).proc.as_ref().ok_or_else(|| format!("{id} is down"))?;
        let found = process.shared.tree.read().client_stat(path).is_some();
        match (found, has) {
            (true, true) | (false, false) => Ok(()),
            (true, false) => Err(format!("{id} has {path}")),
            (false, true) => Err(format!("{id} lacks {path}")),
        }
    }

    /// `expect-equal N...`: the same zxid applied, the same digest.
    pub(super) fn expect_equal(&self, ids: &[i64]) -> Step {
        let of = |id: i64| {
            let facts = self.world.facts(id).ok_or_else(|| format!("{id} is down"))?;
            Ok::<_, String>((facts.zxid_applied, self.world.tree_digest(id)))
        };
        let first = of(*ids.first().ok_or("of whom?")?)?;
        for id in ids {
            let other = of(*id)?;
            if other != first {
                return Err(format!("{id} is at {other:?}, {} at {first:?}", ids[0]));
            }
        }
        Ok(())
    }

    /// `expect-epochs N accepted=A current=C`: on disk, and in memory if it runs.
    pub(super) fn expect_epochs(&self, id: i64, accepted: u64, current: u64) -> Step {
        let (on_disk, current_on_disk) = self.world.durable_epochs(id);
        if (u64::from(on_disk.0), u64::from(current_on_disk.0)) != (accepted, current) {
            return Err(format!("{id} has accepted={on_disk} current={current_on_disk} on disk"));
        }
        let Some(facts) = self.world.facts(id).filter(|facts| facts.role != Role::Loading) else {
            return Ok(());
        };
        if (facts.accepted_epoch, facts.current_epoch) == (on_disk, current_on_disk) {
            return Ok(());
        }
        Err(format!("{id} has {}/{} in memory", facts.accepted_epoch, facts.current_epoch))
    }

    /// `expect-logged N EPOCH/COUNTER`: its durable log ends there.
    pub(super) fn expect_logged(&self, id: i64, expected: &str) -> Step {
        let found = short(self.world.durable_end(id));
        if found == expected { Ok(()) } else { Err(format!("the log of {id} ends at {found}")) }
    }

    /// `expect-sync N DIFF|TRUNC|SNAP`: how its last synchronization was begun.
    pub(super) fn expect_sync(&self, id: i64, expected: &str) -> Step {
        let found = self.synced_by.get(&id.to_string()).map_or("nothing", String::as_str);
        if found == expected { Ok(()) } else { Err(format!("{id} was synchronized by {found}")) }
    }

    /// `expect-never LINE`: so far nothing was said that begins so.
    pub(super) fn expect_never(&self, text: &str) -> Step {
        let lines = self.world.transcript.as_deref().unwrap_or_default();
        let said = lines.iter().map(|line| self.wording.worded(line)).find(|line| line.starts_with(text));
        said.map_or(Ok(()), |line| Err(format!("it was: {line}")))
    }

    /// `state`: one line a member.
    pub(super) fn state(&mut self) -> Step {
        for id in self.world.options.members().collect::<Vec<_>>() {
            let (accepted, current) = self.world.durable_epochs(id);
            let end = short(self.world.durable_end(id));
            let applied = self.world.facts(id).map(|facts| short(facts.zxid_applied));
            let applied = applied.map_or(String::new(), |zxid| format!(", applied {zxid}"));
            let role = self.role(id);
            self.say(&format!("{id} {role}: accepted {accepted} current {current}, logged {end}{applied}"));
        }
        Ok(())
    }

    fn role(&self, id: i64) -> String {
        let Some(facts) = self.world.facts(id) else { return "down".to_owned() };
        let serving = if facts.serving { " serving" } else { "" };
        format!("{:?}{serving}", facts.role).to_lowercase()
    }
}

/// `epoch/counter`
fn short(zxid: Zxid) -> String {
    format!("{}/{}", zxid.epoch(), zxid.counter())
}
