//! Walks random ensembles through random failures and random edits, and holds the planner to its promises at every
//! step. The promises are asserted where steps are carried out, in `planner_fake`.

mod planner_fake;

use planner_fake::{Fake, Quality, ensemble};
use zk_operator::crd::ConditionType;
use zk_operator::plan::{History, MemberId, Membership};

/// Ensembles walked in one run; `PLANNER_WALK_SEEDS` asks for more.
const SEEDS: u64 = 100;

/// SplitMix64: enough randomness for a walk, and the same walk for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[usize::try_from(self.below(items.len() as u64)).expect("an index")].clone()
    }

    fn ticks(&mut self, most: u64) -> u32 {
        u32::try_from(self.below(most)).expect("few ticks")
    }
}

fn fail(fake: &mut Fake, random: &mut Random) {
    let ids: Vec<MemberId> = Membership::wanted(&fake.ensemble.spec).ids().collect();
    let id = random.pick(&ids);
    if random.one_in(10) {
        let ticks = random.ticks(30);
        fake.crash(id, ticks);
    }
    if random.one_in(60) {
        fake.delete(id);
    }
    if random.one_in(12) {
        let (id, ticks) = (random.pick(&ids), random.ticks(60));
        // On one machine no network can hide a member that serves: silence is its own.
        match fake.members.get_mut(&id) {
            Some(_) if fake.local => fake.hang(id, ticks),
            Some(member) => member.unreachable = ticks,
            None => {}
        }
    }
    if random.one_in(12)
        && let Some(member) = fake.members.get_mut(&random.pick(&ids))
        && Some(id) != fake.leader
    {
        member.lag = 40 * i64::from(random.ticks(60));
    }
    if random.one_in(40) {
        // The operator restarts and forgets.
        fake.history = History::default();
    }
}

/// Trouble a gate must see: other data, a disk nearly full, another configuration, an epoch file that cannot be read.
fn sicken(fake: &mut Fake, random: &mut Random) {
    if random.one_in(20) {
        heal(fake);
    }
    let ids: Vec<MemberId> = fake.members.keys().copied().collect();
    if ids.is_empty() || !random.one_in(40) {
        return;
    }
    let member = fake.members.get_mut(&random.pick(&ids)).expect("it exists");
    match random.below(5) {
        0 => member.data = 1 + random.below(2),
        1 => member.mismatches = 1,
        2 => member.disk_low = true,
        3 => member.config_version = 1,
        _ => member.epoch_files_error = Some("currentEpoch: empty".to_owned()),
    }
}

fn heal(fake: &mut Fake) {
    for member in fake.members.values_mut() {
        (member.data, member.mismatches, member.disk_low) = (0, 0, false);
        (member.config_version, member.epoch_files_error) = (0, None);
    }
}

fn edit(fake: &mut Fake, random: &mut Random) {
    if random.one_in(25) {
        // Few values, so that edits also go back to a template that was there before; its quality stays what it was.
        let snap_count = 1000 + random.ticks(12);
        let quality = match snap_count % 6 {
            1 => Quality::Crashes,
            2 => Quality::Hangs,
            3 => Quality::Loner,
            _ => Quality::Good,
        };
        fake.edit(snap_count, quality);
    }
    if random.one_in(50) {
        let paused = random.one_in(3);
        fake.spec().rollout.paused = paused;
    }
}

fn walk(seed: u64) -> usize {
    let mut random = Random(seed);
    let voters = random.pick(&[1, 3, 3, 5, 5, 7]);
    let observers = random.pick(&[0, 0, 1, 3]);
    let mut fake = Fake::new(ensemble(voters, observers));
    fake.spec().rollout.settle_seconds = random.pick(&[0, 4, 10]);
    fake.spec().rollout.max_lag_zxids = random.pick(&[0, 50, 1000]);
    fake.local = random.one_in(2);
    for _ in 0..300 {
        edit(&mut fake, &mut random);
        fail(&mut fake, &mut random);
        sicken(&mut fake, &mut random);
        fake.pass();
        fake.tick();
    }
    heal(&mut fake);
    // Failures stop and the template is one that works: every member must get there.
    fake.spec().rollout.paused = false;
    fake.edit(5000, Quality::Good);
    for _ in 0..1500 {
        let planned = fake.pass();
        fake.tick();
        if fake.done()
            && planned.status.rollout.phase == "Complete"
            && planned.status.is_true(ConditionType::Ready)
        {
            return fake.log.len();
        }
    }
    let planned = fake.pass();
    panic!(
        "seed {seed} does not end: {}\n{:#?}\n{:#?}",
        planned.summary, planned.status.members, fake.members
    );
}

#[test]
fn no_walk_breaks_a_promise_and_every_walk_ends() {
    let seeds = std::env::var("PLANNER_WALK_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let mut steps = 0;
    for seed in 0..seeds {
        // Shown with a failure only.
        println!("seed {seed}");
        steps += walk(seed);
    }
    assert!(
        steps > 10 * usize::try_from(seeds).expect("few seeds"),
        "the walks did next to nothing: {steps} steps"
    );
}
