//! A fake ensemble the planner's tests drive: members boot, elect, sync, lag, crash and drain, one tick at a time, and
//! answer the probe as zk-server does. It knows the truth the planner can only infer, which is what makes its
//! checks worth something.

// Each test binary uses its own part of this.
#![allow(dead_code, unreachable_pub)]

use std::collections::{BTreeMap, BTreeSet};

use zk_operator::crd::{ZkEnsemble, ZkEnsembleSpec, strict};
use zk_operator::plan::{
    Digest, History, Layout, MemberFacts, MemberId, Membership, Observed, ObservedMember, Plan, Process,
    Revision, Role, Step, Timestamp, Zxid, plan,
};

/// Seconds a tick of the fake lasts.
pub const TICK: i64 = 2;

/// How servers behave that run a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quality {
    #[default]
    Good,
    /// The process ends soon after it starts.
    Crashes,
    /// The process never answers.
    Hangs,
    /// The process answers and never finds the others.
    Loner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Booting(u32),
    Looking,
    Synced,
    Terminating(u32),
    Dead(u32),
}

#[derive(Clone, Debug)]
pub struct FakeMember {
    pub uid: u64,
    pub boot: u64,
    pub revision: Revision,
    pub state: State,
    pub restarts: u32,
    pub created_at: Timestamp,
    /// Transactions behind; caught up by ten a tick.
    pub lag: i64,
    /// Ticks for which the operator cannot reach it although it serves.
    pub unreachable: u32,
    /// Digests that did not match what the leader sent.
    pub mismatches: u64,
    /// Which data it holds: members with the same number hold the same.
    pub data: u64,
    /// Whether its disk is nearly full.
    pub disk_low: bool,
    pub config_version: i64,
    pub epoch_files_error: Option<String>,
    /// What it says of itself instead of the truth.
    pub lie: Option<fn(&mut MemberFacts)>,
}

pub struct Fake {
    pub ensemble: ZkEnsemble,
    pub membership: Option<Membership>,
    pub members: BTreeMap<MemberId, FakeMember>,
    pub quality: BTreeMap<Revision, Quality>,
    pub leader: Option<MemberId>,
    pub epoch: i64,
    pub zxid: i64,
    pub now: Timestamp,
    pub history: History,
    /// Members we took down that have not rejoined since.
    pub down_by_us: BTreeSet<MemberId>,
    /// Revisions some member was ever synced with.
    pub joined: BTreeSet<Revision>,
    /// Whether the platform is local mode, whose only opinion of a member is its answer.
    pub local: bool,
    /// Every step carried out, in words.
    pub log: Vec<String>,
    election: u32,
    uids: u64,
}

/// An ensemble named `zoo` with this many voters and observers.
pub fn ensemble(voters: i32, observers: i32) -> ZkEnsemble {
    let text = format!(
        "apiVersion: zkensemble.dev/v1alpha1\nkind: ZkEnsemble\nmetadata: {{ name: zoo }}\nspec: {{ replicas: {voters}, observers: {observers} }}"
    );
    strict::read(&text).expect("a valid ensemble")
}

impl Fake {
    pub fn new(ensemble: ZkEnsemble) -> Self {
        Self {
            ensemble,
            membership: None,
            members: BTreeMap::new(),
            quality: BTreeMap::new(),
            leader: None,
            epoch: 0,
            zxid: 0,
            now: Timestamp::from_second(1_800_000_000).expect("a time"),
            history: History::default(),
            down_by_us: BTreeSet::new(),
            joined: BTreeSet::new(),
            local: false,
            log: Vec::new(),
            election: 0,
            uids: 0,
        }
    }

    /// A bootstrapped ensemble in which every member is synced and the first voter leads.
    pub fn settled(ensemble: ZkEnsemble) -> Self {
        let mut fake = Self::new(ensemble);
        for _ in 0..200 {
            fake.pass();
            fake.tick();
        }
        assert!(fake.done(), "a healthy ensemble settles: {:?}", fake.log);
        fake.lead(MemberId(1));
        for _ in 0..20 {
            fake.pass();
            fake.tick();
        }
        fake.log.clear();
        fake
    }

    /// Hands leadership to `id`, as an election at once would.
    pub fn lead(&mut self, id: MemberId) {
        self.leader = Some(id);
        self.epoch += 1;
        self.zxid = self.epoch << 32;
    }

    pub fn spec(&mut self) -> &mut ZkEnsembleSpec {
        &mut self.ensemble.spec
    }

    /// Sets a configuration key, which makes a new template of this quality.
    pub fn edit(&mut self, snap_count: u32, quality: Quality) -> Revision {
        self.spec().config.insert("snapCount".to_owned(), snap_count.to_string());
        let revision = Revision::of(&self.ensemble);
        self.quality.insert(revision.clone(), quality);
        revision
    }

    fn wanted(&self) -> Membership {
        self.membership.clone().unwrap_or_else(|| Membership::wanted(&self.ensemble.spec))
    }

    /// Voters truly synced now.
    pub fn synced(&self) -> usize {
        let voters = self.wanted().voters;
        voters.iter().filter(|id| self.members.get(id).is_some_and(|m| m.state == State::Synced)).count()
    }

    /// Voters truly synced now whose epoch files are healthy.
    fn sound(&self) -> usize {
        let voters = self.wanted().voters;
        let sound = |m: &FakeMember| m.state == State::Synced && m.epoch_files_error.is_none();
        voters.iter().filter(|id| self.members.get(id).is_some_and(sound)).count()
    }

    /// Whether every member exists, runs the present template and is synced.
    pub fn done(&self) -> bool {
        let target = Revision::of(&self.ensemble);
        self.wanted().ids().all(|id| {
            self.members
                .get(&id)
                .is_some_and(|m| m.state == State::Synced && m.revision == target && m.lag == 0)
        })
    }

    /// What an adapter would see now.
    pub fn observe(&mut self) -> Observed {
        let members =
            self.members.iter().map(|(id, member)| (*id, self.observe_member(*id, member))).collect();
        let layout = Layout::Machine { base_port: 2181, root: "/zoo".to_owned() };
        let mut observed =
            Observed { layout, membership: self.membership.clone(), members, history: self.history.clone() };
        observed.note(&self.ensemble, self.now);
        self.history = observed.history.clone();
        observed
    }

    fn observe_member(&self, id: MemberId, member: &FakeMember) -> ObservedMember {
        let process = match member.state {
            State::Dead(_) => Process::Failed { detail: "exited with 1".to_owned() },
            State::Terminating(_) => Process::Terminating,
            State::Booting(_) | State::Looking | State::Synced => Process::Running,
        };
        let answers = matches!(member.state, State::Looking | State::Synced | State::Terminating(_));
        let facts = (answers && member.unreachable == 0).then(|| self.facts(id, member));
        ObservedMember {
            uid: member.uid.to_string(),
            revision: member.revision.clone(),
            process,
            created_at: member.created_at,
            restarts: member.restarts,
            ready: if self.local { facts.is_some() } else { answers },
            facts,
        }
    }

    fn facts(&self, id: MemberId, member: &FakeMember) -> MemberFacts {
        let membership = self.wanted();
        let synced = member.state == State::Synced;
        let leads = synced && self.leader == Some(id);
        let role = match (leads, synced, membership.voters.contains(&id)) {
            (true, ..) => Role::Leader,
            (false, false, _) => Role::Looking,
            (false, true, true) => Role::Follower,
            (false, true, false) => Role::Observer,
        };
        let all_synced = |ids: &BTreeSet<MemberId>| -> Vec<MemberId> {
            let is = |id: &&MemberId| self.members.get(*id).is_some_and(|m| m.state == State::Synced);
            if leads { ids.iter().filter(is).copied().collect() } else { Vec::new() }
        };
        let logged = self.zxid - member.lag;
        let digests = [logged & !127, logged].map(|zxid| Digest {
            zxid: Zxid(zxid),
            digest: format!("{:#x}", zxid.cast_unsigned() ^ (member.data << 48)),
            version: 2,
        });
        let mut facts = MemberFacts {
            version: "0.1.0".to_owned(),
            boot_id: member.boot.to_string(),
            my_id: id,
            role,
            leader_id: if synced { self.leader } else { None },
            accepted_epoch: self.epoch,
            current_epoch: self.epoch,
            accepted_epoch_disk: Some(self.epoch),
            current_epoch_disk: Some(self.epoch),
            epoch_files_error: member.epoch_files_error.clone(),
            zxid_logged: Zxid(logged),
            zxid_committed: Zxid(self.zxid),
            synced,
            voters: membership.voters.iter().copied().collect(),
            observers: membership.observers.iter().copied().collect(),
            synced_voters: all_synced(&membership.voters),
            synced_observers: all_synced(&membership.observers),
            config_version: Zxid(member.config_version),
            digests: digests.into(),
            digest_mismatches: member.mismatches,
            disk_free_bytes: Some(if member.disk_low { 1 << 20 } else { 500 << 30 }),
            disk_total_bytes: Some(1000 << 30),
            ..MemberFacts::default()
        };
        if let Some(lie) = member.lie {
            lie(&mut facts);
        }
        facts
    }

    /// One pass of an adapter: observe, plan, carry out, publish. Checks the planner's promises on the way.
    pub fn pass(&mut self) -> Plan {
        let observed = self.observe();
        let planned = plan(&self.ensemble, &observed, self.now);
        if self.zxid % 16 == 0 {
            let again = plan(&self.ensemble, &observed, self.now);
            assert_eq!((&planned.steps, &planned.status), (&again.steps, &again.status), "planning is pure");
        }
        for step in &planned.steps {
            self.carry_out(step);
        }
        self.ensemble.status = Some(planned.status.clone());
        planned
    }

    fn carry_out(&mut self, step: &Step) {
        self.log.push(step.to_string());
        match step {
            Step::Bootstrap { .. } => {
                assert!(self.membership.is_none(), "an ensemble is bootstrapped once");
                self.membership = Some(Membership::wanted(&self.ensemble.spec));
            }
            Step::Start { member, revision, .. } => {
                assert!(!self.members.contains_key(member), "only a missing member is started");
                self.check_stakes(*member, revision);
                self.create(*member, revision.clone());
            }
            Step::Restart { member, uid, successor, .. } => self.restart(*member, uid, *successor),
        }
    }

    /// While a leader exists, no step makes a second member run a template nobody ever joined with.
    fn check_stakes(&self, id: MemberId, revision: &Revision) {
        let target = Revision::of(&self.ensemble);
        let unproven = |revision: &Revision| usize::from(!self.joined.contains(revision));
        let stake = |member: &FakeMember| match member.state {
            State::Terminating(_) => unproven(&target),
            _ => unproven(&member.revision),
        };
        let before: usize = self.members.values().map(stake).sum();
        let after = before - self.members.get(&id).map_or(0, stake) + unproven(revision);
        assert!(
            self.leader.is_none() || after <= before.max(1),
            "member {id} is given revision {revision}, and {after} members now run what nobody joined with: {:?}\n{}",
            self.log,
            self.picture()
        );
    }

    /// The members in short, for a failure.
    fn picture(&self) -> String {
        let line = |(id, m): (&MemberId, &FakeMember)| {
            let (revision, joined) = (&m.revision, self.joined.contains(&m.revision));
            format!(
                "{id}: {:?} at {revision} (joined once: {joined}), silent for {}, {} behind, {} restarts\n",
                m.state, m.unreachable, m.lag, m.restarts
            )
        };
        let members: String = self.members.iter().map(line).collect();
        format!("leader {:?}, local mode: {}\n{members}", self.leader, self.local)
    }

    /// Creates a member; its data stays what it was.
    fn create(&mut self, id: MemberId, revision: Revision) {
        self.uids += 1;
        let before = self.members.get(&id);
        let member = FakeMember {
            uid: self.uids,
            boot: self.uids,
            revision,
            state: State::Booting(2),
            restarts: 0,
            created_at: self.now,
            lag: 0,
            unreachable: 0,
            mismatches: 0,
            data: before.map_or(0, |member| member.data),
            disk_low: before.is_some_and(|member| member.disk_low),
            config_version: before.map_or(0, |member| member.config_version),
            epoch_files_error: None,
            lie: None,
        };
        self.members.insert(id, member);
    }

    /// Restarts a member and checks the promises against the truth.
    fn restart(&mut self, id: MemberId, uid: &str, successor: Option<MemberId>) {
        let membership = self.wanted();
        let (quorum, before) = (membership.quorum(), self.sound());
        let target = Revision::of(&self.ensemble);
        let member = self.members.get(&id).expect("only a member that exists is restarted").clone();
        assert_eq!(member.uid.to_string(), uid, "a step names the incarnation it means");
        assert!(member.revision != target, "only an outdated member is restarted");
        assert!(!matches!(member.state, State::Terminating(_)), "a stopping member is left alone");
        self.check_stakes(id, &target);
        if self.leader == Some(id) {
            let others = self.members.iter().filter(|(other, _)| **other != id);
            let outdated: Vec<_> = others.filter(|(_, m)| m.revision != target).map(|(id, _)| id.0).collect();
            assert!(
                outdated.is_empty(),
                "the leader goes last, and {outdated:?} are still to go: {:?}",
                self.log
            );
            assert_eq!(
                successor.is_some(),
                membership.voters.len() > 1,
                "the leader has someone to hand over to"
            );
        }
        if let State::Dead(_) = member.state {
            self.create(id, target);
            return;
        }
        if self.leader.is_some() {
            self.check_health(id);
        }
        if member.state == State::Synced {
            self.down_by_us.insert(id);
        }
        let down = &self.down_by_us;
        assert!(
            down.len() <= 1,
            "at most one member is down because of us, and {down:?} are: {:?}",
            self.log
        );
        self.members.get_mut(&id).expect("it exists").state = State::Terminating(2);
        if membership.voters.len() > 1 && before >= quorum {
            assert!(
                self.sound() >= quorum,
                "our act left {} synced of {quorum}: {:?}",
                self.sound(),
                self.log
            );
        }
        if self.leader == Some(id) {
            match successor.filter(|_| self.synced() >= quorum) {
                Some(next) => self.lead(next),
                None => self.lose_leader(),
            }
        }
    }

    /// Nobody live is restarted while those that stay differ, or the quorum among them rests on a full disk.
    fn check_health(&self, id: MemberId) {
        let heard = |m: &&FakeMember| {
            let sound = m.unreachable == 0 && m.lag == 0 && m.epoch_files_error.is_none();
            m.state == State::Synced && m.lie.is_none() && sound
        };
        let all: Vec<&FakeMember> = self.members.values().filter(heard).collect();
        let same = |key: fn(&FakeMember) -> u64| all.windows(2).all(|pair| key(pair[0]) == key(pair[1]));
        assert!(same(|m| m.data), "member {id} is restarted while members hold different data");
        assert!(
            same(|m| m.config_version.unsigned_abs()),
            "member {id} is restarted while configuration versions differ"
        );
        let voters = self.wanted().voters;
        let mut others = voters.iter().filter(|other| **other != id).filter_map(|id| self.members.get(id));
        assert!(
            !others.any(|m| heard(&m) && m.disk_low),
            "member {id} is restarted while the quorum rests on a disk that is nearly full"
        );
    }

    fn lose_leader(&mut self) {
        self.leader = None;
        self.election = 2;
        for member in self.members.values_mut().filter(|member| member.state == State::Synced) {
            member.state = State::Looking;
        }
    }

    /// Ends a member's process; the keeper starts it again after `ticks`.
    pub fn crash(&mut self, id: MemberId, ticks: u32) {
        if let Some(member) = self.members.get_mut(&id)
            && !matches!(member.state, State::Terminating(_))
        {
            member.state = State::Dead(ticks);
            member.restarts += 1;
        }
        self.down_by_us.remove(&id);
        self.check_leader();
    }

    /// Makes a member's process hang for `ticks`: it neither answers nor takes part.
    pub fn hang(&mut self, id: MemberId, ticks: u32) {
        if let Some(member) = self.members.get_mut(&id)
            && matches!(member.state, State::Looking | State::Synced)
        {
            member.state = State::Booting(ticks);
            self.down_by_us.remove(&id);
            self.check_leader();
        }
    }

    /// Removes a member as if somebody had deleted its pod.
    pub fn delete(&mut self, id: MemberId) {
        self.members.remove(&id);
        self.down_by_us.remove(&id);
        self.check_leader();
    }

    fn check_leader(&mut self) {
        let lost =
            self.leader.is_some_and(|id| self.members.get(&id).is_none_or(|m| m.state != State::Synced));
        if lost || (self.leader.is_some() && self.synced() < self.wanted().quorum()) {
            self.lose_leader();
        }
    }

    /// Lets the ensemble live for [`TICK`] seconds.
    pub fn tick(&mut self) {
        self.now = self.now.checked_add(zk_seconds(TICK)).expect("a time");
        let ids: Vec<MemberId> = self.members.keys().copied().collect();
        for id in ids {
            self.tick_member(id);
        }
        self.check_leader();
        self.elect();
        let synced = self.members.values().filter(|member| member.state == State::Synced);
        self.joined.extend(synced.map(|member| member.revision.clone()));
        if self.leader.is_some() {
            self.zxid += 3;
        }
    }

    fn tick_member(&mut self, id: MemberId) {
        let leader = self.leader.is_some();
        let Some(member) = self.members.get_mut(&id) else { return };
        member.unreachable = member.unreachable.saturating_sub(1);
        member.lag = (member.lag - 10).max(0);
        let quality = self.quality.get(&member.revision).copied().unwrap_or_default();
        match (member.state, quality) {
            (State::Booting(_), Quality::Hangs) => {}
            (State::Booting(0), Quality::Crashes) => {
                member.restarts += 1;
                member.state = State::Dead(5);
            }
            (State::Booting(0), _) => member.state = State::Looking,
            (State::Booting(left), _) => member.state = State::Booting(left - 1),
            (State::Looking, Quality::Good) if leader => {
                member.state = State::Synced;
                self.down_by_us.remove(&id);
            }
            (State::Looking | State::Synced, _) => {}
            (State::Terminating(0), _) => self.create(id, Revision::of(&self.ensemble)),
            (State::Terminating(left), _) => member.state = State::Terminating(left - 1),
            (State::Dead(0), _) => {
                self.uids += 1;
                member.boot = self.uids;
                member.state = State::Booting(2);
            }
            (State::Dead(left), _) => member.state = State::Dead(left - 1),
        }
    }

    fn elect(&mut self) {
        if self.leader.is_some() || self.election > 0 {
            self.election = self.election.saturating_sub(1);
            return;
        }
        let membership = self.wanted();
        let able = |id: &&MemberId| {
            self.members.get(*id).is_some_and(|m| {
                m.state == State::Looking
                    && self.quality.get(&m.revision).copied().unwrap_or_default() == Quality::Good
            })
        };
        let candidates: Vec<MemberId> = membership.voters.iter().filter(able).copied().collect();
        if candidates.len() < membership.quorum() {
            return;
        }
        let turn = usize::try_from(self.epoch).unwrap_or(0) % candidates.len();
        self.lead(candidates[turn]);
        for id in candidates {
            self.members.get_mut(&id).expect("a candidate exists").state = State::Synced;
            self.down_by_us.remove(&id);
        }
    }
}

fn zk_seconds(seconds: i64) -> std::time::Duration {
    std::time::Duration::from_secs(seconds.unsigned_abs())
}
