//! What a script does to members, their disks and the network between them.

use zk_core::input::Input;

use super::player::{AFTER, Player, Step};
use crate::clock::MS;
use crate::disk::{Planned, Tear};

/// Things let through by one `deliver` at most: far more than one synchronization.
const DELIVERIES_MAX: usize = 200;

impl Player {
    /// `elect N`: N leads and serves before anybody else begins to.
    ///
    /// The first election of a script is how its stage is set, not its story: it is told in one line.
    pub(super) fn elect(&mut self, id: i64) -> Step {
        self.wording.silent |= !self.staged;
        let before = self.world.leaders();
        let other = |leaders: &[i64]| {
            leaders.iter().copied().find(|leader| *leader != id && !before.contains(leader))
        };
        self.wait("a leader", |world| {
            let leaders = world.leaders();
            leaders.contains(&id) || other(&leaders).is_some()
        })?;
        let leaders = self.world.leaders();
        self.pass(AFTER, |_| false);
        self.wording.silent = false;
        if !std::mem::replace(&mut self.staged, true) {
            self.say(&format!("{} leads", leaders.first().copied().unwrap_or_default()));
        }
        other(&leaders).map_or(Ok(()), |other| Err(format!("{other} leads")))
    }

    /// `drain N [&]`: stops in good order, as `zk-server drain` does.
    pub(super) fn drain(&mut self, id: i64, later: bool) -> Step {
        self.world.input(id, Input::Drain);
        if later {
            self.pass(AFTER, |_| false);
            return Ok(());
        }
        self.wait("the end of the process", |world| !world.node(id).is_up())
    }

    /// `stop N`: the process is killed. What it wrote stays in the page cache.
    pub(super) fn stop(&mut self, ids: &[i64]) -> Step {
        for id in ids {
            self.world.kill(*id, 0);
        }
        Ok(())
    }

    /// `crash N [torn]`: the machine loses power; what was not synced is lost, or each write kept, cut or lost at random.
    pub(super) fn crash(&mut self, ids: &[i64], torn: bool) -> Step {
        let tear = if torn { Tear::Sectors(self.world.options.sector) } else { Tear::Lose };
        for id in ids {
            self.world.power_cut(*id, 0, tear);
        }
        Ok(())
    }

    /// `restart N`: a new process, if none runs.
    pub(super) fn restart(&mut self, ids: &[i64]) -> Step {
        for id in ids {
            if self.world.node(*id).is_up() {
                return Err(format!("{id} runs"));
            }
            self.world.boot(*id);
        }
        Ok(())
    }

    /// `settle`: every running member serves one and the same state, and it is the history's.
    pub(super) fn settle(&mut self) -> Step {
        self.pass(AFTER, |_| false);
        if !self.pass(super::player::PATIENCE, |world| world.settled().is_ok()) {
            return self.world.settled();
        }
        for id in self.world.up() {
            let result = crate::run::judge_tree(&self.world, id);
            self.world.oracles.check(result);
        }
        Ok(())
    }

    /// `deliver A->B KIND`: lets what is held through, one after another, up to the first of this kind: a packet's, or
    /// Vote, Open, Opened, Image, Closed.
    pub(super) fn deliver(&mut self, from: i64, to: i64, kind: &str) -> Step {
        for _ in 0..DELIVERIES_MAX {
            if self.world.let_one_through(from, to).as_deref() == Some(kind) {
                return Ok(());
            }
            self.pass(3 * MS, |_| false);
        }
        Err(format!("no {kind} came"))
    }

    /// `break A B`: their links break; what was on the way is lost.
    pub(super) fn break_links(&mut self, one: i64, other: i64) -> Step {
        match self.world.break_links(one, other) {
            0 => Err("no link stands".to_owned()),
            _ => Ok(()),
        }
    }

    /// `partition A.. | B..`: nothing passes between the two sides.
    pub(super) fn partition(&mut self, left: &[i64], right: &[i64]) {
        for one in left {
            for other in right {
                self.world.net.block(*one, *other);
                self.world.net.block(*other, *one);
            }
        }
    }

    /// `hold A->B` and `release A->B`: what goes from A to B waits, and comes in its order.
    pub(super) fn hold(&mut self, from: i64, to: i64, held: bool) {
        let now = self.world.now();
        if held {
            self.world.net.hold(from, to);
        } else {
            self.world.net.release(now, from, to);
        }
    }

    /// `fill-disk N`: full now; `fill-disk N at PATH`: full from the next operation on a file whose path contains PATH.
    pub(super) fn fill_disk(&mut self, id: i64, at: Option<&str>) -> Step {
        let disk = &self.world.node(id).disk;
        match at {
            None => disk.limit(Some(disk.used())),
            Some(path) => disk.plan(Planned::Fill { what: String::new(), path: path.to_owned(), after: 0 }),
        }
        Ok(())
    }

    /// `free-disk N`: there is room again.
    pub(super) fn free_disk(&mut self, id: i64) -> Step {
        let disk = &self.world.node(id).disk;
        disk.limit(None);
        disk.clear_plan();
        Ok(())
    }

    /// `fail-disk N OP PATH`: the next such operation fails with an I/O error (`fail-fsync N` is `fail-disk N sync log.`).
    pub(super) fn fail_disk(&mut self, id: i64, what: &str, path: &str) -> Step {
        let fault = Planned::Fail { what: what.to_owned(), path: path.to_owned(), after: 0 };
        self.world.node(id).disk.plan(fault);
        Ok(())
    }

    /// `cut-power N OP PATH`: the power goes right before the next such operation.
    pub(super) fn cut_power(&mut self, id: i64, what: &str, path: &str) -> Step {
        let fault = Planned::PowerCut { what: what.to_owned(), path: path.to_owned(), after: 0 };
        self.world.node(id).disk.plan(fault);
        Ok(())
    }
}
