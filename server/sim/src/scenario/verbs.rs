//! The verbs of a script, one a line; `#` begins a comment, a final `&` does not wait for the outcome.
//!
//! - members: `start ...` (first line, see `start.rs`), `elect N`, `drain N`, `stop N..`, `crash N.. [torn]`,
//!   `restart N..`, `wipe N`
//! - clients: `session S at N [timeout MS]`, `move S to N`, `stall S`, `hang-up S`, `create S PATH [ephemeral]`,
//!   `set S PATH`, `delete S PATH`, `read S PATH`, `close S`
//! - network: `hold A->B`, `release A->B`, `deliver A->B KIND`, `break A B`, `partition A.. | B..`, `heal`
//! - disks: `hold-disk N`, `release-disk N`, `fill-disk N [at PATH]`, `free-disk N`, `fail-disk N OP PATH`, `fail-fsync N`,
//!   `cut-power N OP PATH`; an OP is the beginning of create, write, sync, rename, syncdir, remove, resize or allocate
//! - time: `run MS`, `settle`, `await LINE` (a line that begins so, packets as `3->1 NewLeader`)
//! - assertions: `expect-leader N`, `expect-no-leader`, `expect-role N ROLE [serving]`, `expect-halt N REASON`,
//!   `expect-tree N has|lacks PATH`, `expect-equal N..`, `expect-epochs N accepted=A current=C`, `expect-logged N E/C`,
//!   `expect-sync N DIFF|TRUNC|SNAP`, `expect-outcome S ok|open|lost|failed`,
//!   `expect-never LINE` (nothing that begins so was said)
//! - transcript: `state`, `trace on|off` (packets and commits too)

use std::sync::Arc;

use zk_jute::request::Request;

use super::player::{Player, Step};
use super::sessions::create;
use super::start::number;
use crate::clock::MS;

const EPHEMERAL: i32 = 1;

impl Player {
    /// Carries one line out.
    pub(super) fn verb(&mut self, line: &str) -> Step {
        let (line, later) = line.strip_suffix('&').map_or((line, false), |line| (line.trim_end(), true));
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((verb, rest)) = words.split_first() else { return Ok(()) };
        if let Some(what) = verb.strip_prefix("expect-") {
            return self.expectation(what, rest);
        }
        match *verb {
            "elect" | "drain" | "stop" | "crash" | "restart" | "wipe" => self.member_verb(verb, rest, later),
            "hold" | "release" | "deliver" | "break" | "partition" | "heal" => self.network_verb(verb, rest),
            "hold-disk" | "release-disk" | "fill-disk" | "free-disk" | "fail-disk" | "fail-fsync"
            | "cut-power" => self.disk_verb(verb, rest),
            "run" => {
                self.pass(number(rest.first().copied())? * MS, |_| false);
                Ok(())
            }
            "settle" => self.settle(),
            "await" => self.wait_for_line(&rest.join(" ")),
            "state" => self.state(),
            "trace" => {
                self.wording.trace = rest == ["on"];
                Ok(())
            }
            _ => self.client_verb(verb, rest, later),
        }
    }

    fn member_verb(&mut self, verb: &str, rest: &[&str], later: bool) -> Step {
        match (verb, rest) {
            ("elect", [member]) => self.elect(id(member)?),
            ("drain", [member]) => self.drain(id(member)?, later),
            ("stop", members) => self.stop(&ids(members)?),
            ("crash", [members @ .., "torn"]) => self.crash(&ids(members)?, true),
            ("crash", members) => self.crash(&ids(members)?, false),
            ("restart", members) => self.restart(&ids(members)?),
            ("wipe", [member]) => {
                self.world.wipe(id(member)?);
                Ok(())
            }
            _ => Err("one member is expected".to_owned()),
        }
    }

    fn network_verb(&mut self, verb: &str, rest: &[&str]) -> Step {
        match (verb, rest) {
            ("hold", [way]) => way_of(way).map(|(from, to)| self.hold(from, to, true)),
            ("release", [way]) => way_of(way).map(|(from, to)| self.hold(from, to, false)),
            ("deliver", [way, kind]) => way_of(way).and_then(|(from, to)| self.deliver(from, to, kind)),
            ("break", [one, other]) => self.break_links(id(one)?, id(other)?),
            ("partition", sides) => {
                let bar = sides.iter().position(|word| *word == "|").ok_or("a partition has two sides")?;
                self.partition(&ids(&sides[..bar])?, &ids(&sides[bar + 1..])?);
                Ok(())
            }
            ("heal", []) => {
                let now = self.world.now();
                self.world.net.heal(now);
                Ok(())
            }
            _ => Err("who, and whom?".to_owned()),
        }
    }

    fn disk_verb(&mut self, verb: &str, rest: &[&str]) -> Step {
        let (member, rest) = rest.split_first().ok_or("whose?")?;
        let id = id(member)?;
        match (verb, rest) {
            ("hold-disk", []) => self.world.hold_disk(id, true),
            ("release-disk", []) => self.world.hold_disk(id, false),
            ("fill-disk", []) => self.fill_disk(id, None),
            ("fill-disk", ["at", path]) => self.fill_disk(id, Some(path)),
            ("free-disk", []) => self.free_disk(id),
            ("fail-disk", [what, path]) => self.fail_disk(id, what, path),
            ("fail-fsync", []) => self.fail_disk(id, "sync", "log."),
            ("cut-power", [what, path]) => self.cut_power(id, what, path),
            _ => Err("not what this verb takes".to_owned()),
        }
    }

    fn client_verb(&mut self, verb: &str, rest: &[&str], later: bool) -> Step {
        let version = -1;
        let path = |path: &&str| Arc::from(*path);
        let (name, request) = match (verb, rest) {
            ("session", [name, "at", home]) => return self.open_session(name, id(home)?, None),
            ("session", [name, "at", home, "timeout", ms]) => {
                return self.open_session(name, id(home)?, Some(number(Some(ms))? as i32));
            }
            ("move", [name, "to", home]) => return self.move_session(name, id(home)?),
            ("stall", [name]) => return self.abandon_session(name, false),
            ("hang-up", [name]) => return self.abandon_session(name, true),
            ("create", [name, path]) => (name, create(path, 0)),
            ("create", [name, path, "ephemeral"]) => (name, create(path, EPHEMERAL)),
            ("set", [name, at]) => (name, Request::SetData { path: path(at), data: None, version }),
            ("delete", [name, at]) => (name, Request::Delete { path: path(at), version }),
            ("read", [name, at]) => (name, Request::GetData { path: path(at), watch: false }),
            ("close", [name]) => (name, Request::CloseSession),
            _ => return Err("no such verb".to_owned()),
        };
        self.request(name, request, later)
    }

    fn expectation(&self, what: &str, rest: &[&str]) -> Step {
        match (what, rest) {
            ("leader", [leader]) => self.expect_leader(id(leader)?),
            ("no-leader", []) => self.expect_no_leader(),
            ("role", [member, role @ ..]) => self.expect_role(id(member)?, &role.join(" ")),
            ("halt", [member, reason]) => self.expect_halt(id(member)?, reason),
            ("tree", [member, "has", path]) => self.expect_tree(id(member)?, true, path),
            ("tree", [member, "lacks", path]) => self.expect_tree(id(member)?, false, path),
            ("equal", members) => self.expect_equal(&ids(members)?),
            ("epochs", [member, accepted, current]) => {
                let accepted = number(accepted.strip_prefix("accepted="))?;
                self.expect_epochs(id(member)?, accepted, number(current.strip_prefix("current="))?)
            }
            ("logged", [member, zxid]) => self.expect_logged(id(member)?, zxid),
            ("sync", [member, mode]) => self.expect_sync(id(member)?, mode),
            ("never", text) => self.expect_never(&text.join(" ")),
            ("outcome", [name, outcome]) => self.expect_outcome(name, outcome),
            _ => Err("no such expectation".to_owned()),
        }
    }
}

/// A member's id.
fn id(word: &str) -> Result<i64, String> {
    word.parse().map_err(|_| format!("a member's id is expected, not {word:?}"))
}

fn ids(words: &[&str]) -> Result<Vec<i64>, String> {
    let ids: Result<Vec<i64>, String> = words.iter().map(|word| id(word)).collect();
    ids.and_then(|ids| if ids.is_empty() { Err("of whom?".to_owned()) } else { Ok(ids) })
}

/// `A->B`
fn way_of(word: &str) -> Result<(i64, i64), String> {
    let (from, to) = word.split_once("->").ok_or_else(|| format!("{word:?} is no way from A to B"))?;
    Ok((id(from)?, id(to)?))
}
