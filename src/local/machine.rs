//! One pass of local mode: look, ask, plan, act, tell.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::join_all;

use super::directory::Root;
use super::keeper::{Event, Keeper, Launch};
use super::printer::Printer;
use super::source::{Edit, Source};
use super::{Binary, banner};
use crate::crd::{ConditionType, ZkEnsembleStatus};
use crate::plan::{
    History, Layout, MemberFacts, MemberId, Membership, Objects, Observed, ObservedMember, Plan, Revision,
    Step, Timestamp, plan,
};
use crate::probe;

/// Longest wait for the members to drain when local mode ends.
pub(super) const LAST_PATIENCE: Duration = Duration::from_secs(20);
/// First pause before an act that failed is tried again; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// An act that failed.
struct Failed {
    /// The act, in words.
    what: String,
    /// Why it failed.
    why: String,
    /// When it is tried again.
    until: Instant,
    pause: Duration,
}

/// The ensemble on this machine.
pub(super) struct Machine {
    source: Source,
    layout: Layout,
    binary: Binary,
    membership: Option<Membership>,
    keepers: BTreeMap<MemberId, Keeper>,
    /// What failed last, by the member it was about; none stands for all of them.
    failed: BTreeMap<Option<MemberId>, Failed>,
    history: History,
    printer: Printer,
    incarnations: u64,
    published: String,
    welcomed: bool,
    // Last, so that members are gone before their directory is.
    root: Root,
}

impl Machine {
    /// The ensemble of `source`, with nothing running yet.
    pub(super) fn new(source: Source, root: Root, layout: Layout, binary: Binary) -> anyhow::Result<Self> {
        let membership = root.membership(source.ensemble().name())?;
        let mut printer = Printer::new();
        printer.say(&format!("{}: data in {}", source.ensemble().name(), root.path().display()));
        Ok(Self {
            source,
            layout,
            binary,
            membership,
            keepers: BTreeMap::new(),
            failed: BTreeMap::new(),
            history: History::default(),
            printer,
            incarnations: 0,
            published: String::new(),
            welcomed: false,
            root,
        })
    }

    /// Runs one pass.
    pub(super) async fn pass(&mut self) {
        self.look_at_file();
        self.look_at_children();
        let mut observed = self.observe().await;
        let now = Timestamp::now();
        observed.note(self.source.ensemble(), now);
        self.history = observed.history.clone();
        let plan = plan(self.source.ensemble(), &observed, now);
        self.act(&plan, now);
        self.tell(plan);
    }

    fn look_at_file(&mut self) {
        match self.source.poll() {
            None => {}
            Some(Edit::Refused(why)) => {
                self.printer.say(&format!("edit refused, the ensemble stays as it is:\n  {why}"));
            }
            Some(Edit::Accepted) => {
                let revision = Revision::of(self.source.ensemble());
                // It may be the cure.
                self.failed.clear();
                self.printer.say(&format!("edit accepted: the template is revision {revision}"));
            }
        }
    }

    fn look_at_children(&mut self) {
        let name = self.source.ensemble().name();
        for (id, keeper) in &mut self.keepers {
            if let Some(event) = keeper.tick() {
                self.printer.event(*id, &event);
            }
            if let Err(error) = self.root.trim_log(&self.layout.address(name, *id).name) {
                self.printer.once("error", &format!("member {id}'s log cannot be trimmed: {error}"));
            }
        }
    }

    async fn observe(&self) -> Observed {
        let name = self.source.ensemble().name();
        let asked = self.keepers.iter().filter(|(_, keeper)| keeper.running()).map(|(id, _)| async {
            let at = self.layout.address(name, *id);
            // No facts is all the planner needs to know; why is in the member's log.
            Some((*id, probe::member(&at.host, at.admin_port).await.ok()?))
        });
        let mut answers: BTreeMap<MemberId, MemberFacts> =
            join_all(asked).await.into_iter().flatten().collect();
        let members =
            self.keepers.iter().map(|(id, keeper)| (*id, observed(keeper, answers.remove(id)))).collect();
        let (layout, membership) = (self.layout.clone(), self.membership.clone());
        Observed { layout, membership, members, history: self.history.clone() }
    }

    fn act(&mut self, plan: &Plan, now: Timestamp) {
        // Whoever was stopped for a restart comes back from the template of now, not of when the step was decided.
        let gone: Vec<MemberId> =
            self.keepers.iter().filter(|(_, keeper)| keeper.stopped()).map(|(id, _)| *id).collect();
        for id in gone {
            self.attempt(Some(id), &format!("start member {id} again"), None, |machine| {
                machine.launch(id, &plan.objects, now)
            });
        }
        for step in &plan.steps {
            let text = in_words(step);
            self.attempt(step.member(), &text, Some(&text), |machine| match step {
                Step::Bootstrap { .. } => machine.bootstrap(&plan.objects),
                Step::Start { member, .. } => machine.launch(*member, &plan.objects, now),
                Step::Restart { member, uid, .. } => {
                    machine.restart(*member, uid);
                    Ok(())
                }
            });
        }
    }

    /// Does `act`, which is `what` about `member`, unless it failed a moment ago; prints `heading` before it. One
    /// member's failure keeps no other member waiting, and is told once however often it is met again.
    fn attempt(
        &mut self,
        member: Option<MemberId>,
        what: &str,
        heading: Option<&str>,
        act: impl FnOnce(&mut Self) -> anyhow::Result<()>,
    ) {
        let before = match self.failed.remove(&member) {
            Some(failed) if failed.what == what && Instant::now() < failed.until => {
                self.failed.insert(member, failed);
                return;
            }
            before => before.filter(|failed| failed.what == what),
        };
        if let Some(heading) = heading.filter(|_| before.is_none()) {
            self.printer.step(heading);
        }
        let Err(error) = act(self) else { return };
        let why = format!("{error:#}");
        if before.as_ref().is_none_or(|failed| failed.why != why) {
            let about = member.map(|id| format!("member {id}: ")).unwrap_or_default();
            self.printer.say(&format!("error: {about}{why}; it is tried again"));
        }
        let pause = before.map_or(FIRST_PAUSE, |failed| (failed.pause * 2).min(LONGEST_PAUSE));
        self.failed
            .insert(member, Failed { what: what.to_owned(), why, until: Instant::now() + pause, pause });
    }

    fn bootstrap(&mut self, objects: &Objects) -> anyhow::Result<()> {
        let done = self.root.bootstrap(self.source.ensemble().name(), objects)?;
        if !done.kept.is_empty() {
            self.printer.say(&format!(
                "data found in {}: it is kept, and no member starts from nothing; those without data get it from one that has it",
                done.kept.join(", ")
            ));
        }
        self.membership = Some(done.membership);
        Ok(())
    }

    fn launch(&mut self, id: MemberId, objects: &Objects, now: Timestamp) -> anyhow::Result<()> {
        let Some(desired) = objects.member(id) else { return Ok(()) };
        self.root.prepare(desired)?;
        self.root.trim_log(&desired.address.name)?;
        self.incarnations += 1;
        let launch = Launch {
            uid: format!("{id}-{}", self.incarnations),
            revision: objects.revision.clone(),
            binary: self.binary.of(self.source.ensemble())?,
            zoo_cfg: self.root.zoo_cfg(desired),
            log: self.root.log(&desired.address.name)?,
        };
        let (keeper, event) = Keeper::start(launch, now);
        self.printer.event(id, &event);
        self.keepers.insert(id, keeper);
        Ok(())
    }

    fn restart(&mut self, id: MemberId, uid: &str) {
        let patience =
            Duration::from_secs(self.source.ensemble().spec.rollout.drain_seconds.unsigned_abs().into());
        if let Some(keeper) = self.keepers.get_mut(&id).filter(|keeper| keeper.uid() == uid) {
            // A drain ends new sessions, resigns if it leads and flushes; the next passes find it gone.
            keeper.stop(patience);
        }
    }

    fn tell(&mut self, plan: Plan) {
        self.printer.table(&plan.status);
        if plan.steps.is_empty() {
            self.printer.once(&plan.status.rollout.phase.to_lowercase(), &plan.summary);
        }
        self.publish(&plan.status);
        let ready = plan.status.is_true(ConditionType::Ready) && plan.status.rollout.phase == "Complete";
        self.source.ensemble_mut().status = Some(plan.status);
        if ready && !self.welcomed {
            self.welcomed = true;
            let text = banner::text(self.source.ensemble(), self.source.path(), &self.layout, &plan.objects);
            self.printer.say(&text);
        }
    }

    fn publish(&mut self, status: &ZkEnsembleStatus) {
        let result = serde_yaml::to_string(status).map_err(Into::into).and_then(|text| {
            if text == self.published {
                return Ok(());
            }
            self.root.publish(self.source.ensemble().name(), &text)?;
            self.published = text;
            Ok(())
        });
        if let Err(error) = result {
            let error: anyhow::Error = error;
            self.printer.once("error", &format!("{error:#}"));
        }
    }

    /// Asks every member to drain and end.
    pub(super) fn drain(&mut self) {
        let drain =
            Duration::from_secs(self.source.ensemble().spec.rollout.drain_seconds.unsigned_abs().into());
        for keeper in self.keepers.values_mut() {
            keeper.stop(drain.min(LAST_PATIENCE));
        }
        // After the deed: printing may block on a terminal that nobody reads.
        self.printer.say(&format!("stopping: {} members drain", self.keepers.len()));
    }

    /// Ends every member at once.
    pub(super) fn kill(&mut self) {
        for keeper in self.keepers.values_mut() {
            keeper.stop(Duration::ZERO);
        }
        self.printer.say("asked again: what still drains is killed");
    }

    /// Whether every member is gone; asked until it is so.
    pub(super) fn stopped(&mut self) -> bool {
        self.look_at_children();
        let stopped = self.keepers.values().all(Keeper::stopped);
        if stopped {
            self.printer.say("stopped: no member is left running");
        }
        stopped
    }
}

fn observed(keeper: &Keeper, facts: Option<MemberFacts>) -> ObservedMember {
    ObservedMember {
        uid: keeper.uid().to_owned(),
        revision: keeper.revision().clone(),
        process: keeper.process(),
        created_at: keeper.created_at(),
        restarts: keeper.restarts(),
        // On one machine no network stands between us and the member: silence is its own.
        ready: facts.is_some(),
        facts,
    }
}

/// The step as it is printed. zk-server's drain lets no successor be named, so the plan's is no promise here.
fn in_words(step: &Step) -> String {
    match step {
        Step::Restart { successor: Some(_), .. } => format!("{step}; the vote decides who leads next"),
        Step::Bootstrap { .. } | Step::Start { .. } | Step::Restart { .. } => step.to_string(),
    }
}

impl Printer {
    /// Tells what happened to a member's process.
    fn event(&mut self, id: MemberId, event: &Event) {
        match event {
            Event::Started { pid } => self.say(&format!("member {id} started, pid {pid}")),
            Event::Ended { detail } => self.say(&format!("member {id} {detail}")),
            Event::Stopped { fault: None } => self.say(&format!("member {id} stopped")),
            Event::Stopped { fault: Some(fault) } => {
                self.say(&format!("member {id} stopped, not in good order: {fault}"));
            }
            Event::Overrun => self.say(&format!("member {id} did not drain in time and was killed")),
        }
    }
}
