//! A power cut after every single disk operation, and a full disk at every byte, over a story that uses every operation
//! of the store. After each: nothing synced is lost, history has no hole, an installation is all or nothing, epochs
//! never go back and stay in order, and the store goes on.

mod common;

use common::*;
use zk_jute::txn::LoggedTxn;
use zk_jute::{Epoch, Zxid};
use zk_store::mem_disk::Survival;
use zk_store::{MemDisk, Recovered, Store, StoreConfig, StoreError};

#[derive(Clone, Copy, Debug)]
enum Step {
    Append(Zxid),
    Sync,
    Roll,
    Snapshot(Zxid),
    Truncate(Zxid),
    /// The leader's snapshot, and how many transactions it sent after it.
    Install(Zxid, u32),
    Accepted(u32),
    Current(u32),
    Purge,
    Clean,
    Recover,
}

/// What may be on disk: one history, or two while an installation is under way.
#[derive(Clone, Debug)]
struct Model {
    histories: Vec<History>,
    accepted: (Epoch, Epoch),
    current: (Epoch, Epoch),
}

#[derive(Clone, Debug)]
struct History {
    /// The leader's snapshot that it starts with.
    base: Option<Zxid>,
    txns: Vec<Zxid>,
    /// At least this much is durable.
    floor: Zxid,
}

impl Model {
    fn new() -> Self {
        let history = History { base: None, txns: Vec::new(), floor: Zxid::ZERO };
        let epochs = (Epoch(0), Epoch(0));
        Self { histories: vec![history], accepted: epochs, current: epochs }
    }

    fn last(&self) -> Zxid {
        self.histories[0].last()
    }

    /// What a step may change from the moment it begins.
    fn begin(&mut self, step: Step) {
        match step {
            Step::Append(at) => self.histories[0].txns.push(at),
            Step::Truncate(to) => self.histories[0].floor = to,
            Step::Install(at, count) => {
                let txns = following(at, count);
                let floor = txns.last().copied().unwrap_or(at);
                self.histories.push(History { base: Some(at), txns, floor });
            }
            Step::Accepted(epoch) => self.accepted.1 = Epoch(epoch),
            Step::Current(epoch) => self.current.1 = Epoch(epoch),
            Step::Sync | Step::Roll | Step::Snapshot(_) | Step::Purge | Step::Clean | Step::Recover => {}
        }
    }

    /// What a step promises once it has returned.
    fn end(&mut self, step: Step) {
        match step {
            Step::Sync | Step::Roll => self.histories[0].floor = self.last(),
            Step::Truncate(to) => self.histories[0].cut(to),
            Step::Install(..) => drop(self.histories.remove(0)),
            Step::Accepted(epoch) => self.accepted.0 = Epoch(epoch),
            Step::Current(epoch) => self.current.0 = Epoch(epoch),
            Step::Append(_) | Step::Snapshot(_) | Step::Purge | Step::Clean | Step::Recover => {}
        }
    }

    /// Checks a recovery against what may be on disk, and takes what it found for what is.
    fn found(&mut self, found: &Recovered<Image>, context: &str) {
        let matching = self.histories.iter().position(|history| history.matches(found));
        let Some(at) = matching else {
            panic!("{context}: {} {:?} {self:?}", found.last_logged, found.snapshot_zxid)
        };
        let mut history = self.histories.swap_remove(at);
        history.cut(found.last_logged);
        self.histories = vec![history];
        for (name, epoch, range) in
            [("accepted", found.accepted, &mut self.accepted), ("current", found.current, &mut self.current)]
        {
            assert!(range.0 <= epoch && epoch <= range.1, "{context}: {name} {epoch} not in {range:?}");
            *range = (epoch, epoch);
        }
        assert!(found.accepted >= found.current, "{context}: epochs out of order");
        assert!(found.accepted >= found.last_logged.epoch(), "{context}: accepted below the log");
        assert!(!found.no_history, "{context}: this member has history");
    }
}

/// The next `count` of an epoch.
fn following(at: Zxid, count: u32) -> Vec<Zxid> {
    (1..=count).map(|more| Zxid(at.0 + i64::from(more))).collect()
}

impl History {
    fn last(&self) -> Zxid {
        self.txns.last().copied().or(self.base).unwrap_or(Zxid::ZERO)
    }

    fn cut(&mut self, to: Zxid) {
        self.txns.retain(|at| *at <= to);
        self.floor = to;
    }

    fn matches(&self, found: &Recovered<Image>) -> bool {
        let last = found.last_logged;
        let after = found.snapshot_zxid.unwrap_or(Zxid::ZERO);
        let tail: Vec<LoggedTxn> =
            self.txns.iter().filter(|at| **at > after && **at <= last).map(|at| txn("own", *at)).collect();
        let known = last == Zxid::ZERO || self.base == Some(last) || self.txns.contains(&last);
        let image = match found.snapshot_zxid {
            None => self.base.is_none(),
            Some(at) if self.base == Some(at) => found.image.label() == label("leader", at),
            Some(at) => self.base.is_none_or(|base| at > base) && found.image.label() == label("own", at),
        };
        last >= self.floor && known && image && found.tail == tail
    }
}

/// Every operation, with logs of several records, batches that are not synced, two epochs, and each change of history both
/// with and without snapshots after it.
fn story() -> Vec<Step> {
    use Step::*;
    let mut steps = vec![Snapshot(Zxid::ZERO), Accepted(1)];
    let appends = |epoch: u32, counters: std::ops::RangeInclusive<u32>| {
        counters.map(move |counter| Append(zxid(epoch, counter)))
    };
    steps.extend(appends(1, 1..=3));
    steps.extend([Sync, Current(1)]);
    steps.extend(appends(1, 4..=5));
    steps.extend([Roll, Snapshot(zxid(1, 5))]);
    steps.extend(appends(1, 6..=8));
    steps.extend([Roll, Snapshot(zxid(1, 8))]);
    steps.extend(appends(1, 9..=10));
    steps.extend([Roll, Snapshot(zxid(1, 10)), Purge]);
    steps.extend(appends(1, 11..=12));
    steps.extend([Sync, Clean, Recover]);
    steps.extend(appends(1, 13..=14));
    steps.extend([Sync, Accepted(3), Truncate(zxid(1, 9)), Recover, Current(3)]);
    steps.extend(appends(3, 1..=4));
    steps.extend([
        Sync,
        Truncate(zxid(3, 2)),
        Recover,
        Accepted(5),
        Install(zxid(4, 7), 0),
        Recover,
        Current(5),
    ]);
    steps.extend(appends(5, 1..=3));
    steps.extend([Sync, Snapshot(zxid(5, 3)), Roll]);
    steps.extend(appends(5, 4..=5));
    steps.extend([Sync, Accepted(6), Install(zxid(5, 2), 2), Recover]);
    steps.extend(appends(6, 1..=1));
    // The old log and the new one have the same name.
    steps.extend([Sync, Install(zxid(5, 9), 3), Install(zxid(5, 9), 2), Recover]);
    steps.extend(appends(6, 1..=1));
    steps.extend([Sync, Clean]);
    steps
}

/// Logs beside the snapshots, or in a directory of their own.
#[derive(Clone, Copy, Debug)]
enum Dirs {
    One,
    Split,
}

fn cfg(dirs: Dirs) -> StoreConfig {
    let log_dir = match dirs {
        Dirs::One => "/data",
        Dirs::Split => "/log",
    };
    StoreConfig { prealloc_bytes: 200, log_dir: log_dir.into(), ..config() }
}

fn act(store: &mut Store<MemDisk>, step: Step, model: &mut Model) -> Result<(), StoreError> {
    match step {
        Step::Append(at) => store.append(at, &txn("own", at).bytes),
        Step::Sync => store.sync(),
        Step::Roll => store.roll(),
        Step::Snapshot(at) => store.write_snapshot(&image("own", at), at),
        Step::Truncate(to) => store.truncate(to),
        Step::Install(at, count) => {
            let tail: Vec<_> =
                following(at, count).iter().map(|next| (*next, txn("own", *next).bytes)).collect();
            store.install_snapshot(&image("leader", at), at, &tail)
        }
        Step::Accepted(epoch) => store.write_accepted_epoch(Epoch(epoch)),
        Step::Current(epoch) => store.write_current_epoch(Epoch(epoch)),
        Step::Purge => store.purge(3).map(drop),
        Step::Clean => store.write_clean_marker(store.last_durable()),
        Step::Recover => {
            let found = store.recover(Image::default)?;
            model.found(&found, "within the story");
            Ok(())
        }
    }
}

/// Plays the story until it ends or a step fails.
fn play(disk: &MemDisk, dirs: Dirs, model: &mut Model) -> Result<(), (Step, StoreError)> {
    let mut store = Store::open(disk.clone(), cfg(dirs));
    store.recover(Image::default).map_err(|error| (Step::Recover, error))?;
    for step in story() {
        model.begin(step);
        act(&mut store, step, model).map_err(|error| (step, error))?;
        model.end(step);
    }
    Ok(())
}

/// What must hold after anything that happened to the disk.
fn check_after(disk: &MemDisk, dirs: Dirs, mut model: Model, context: &str) {
    let mut store = Store::open(disk.clone(), cfg(dirs));
    let found = store.recover(Image::default).unwrap_or_else(|error| panic!("{context}: {error}"));
    model.found(&found, context);
    let cut = disk.fork();
    cut.power_cut(Survival::Nothing);
    let (_, again) = recovered_with(&cut, cfg(dirs));
    assert_eq!(again.last_logged, found.last_logged, "{context}: what a recovery reports is durable");
    model.found(&again, &format!("{context}: what a recovery reports is durable"));
    let again = store.recover(Image::default).unwrap_or_else(|error| panic!("{context}, again: {error}"));
    assert_eq!(again.repairs, [], "{context}: repaired once is repaired");
    model.found(&again, context);
    disk.set_capacity(None);
    let epoch = found.accepted.0.max(1);
    accept(&mut store, epoch);
    let last = found.last_logged;
    let next = if last.epoch().0 == epoch { zxid(epoch, last.counter() + 1) } else { zxid(epoch, 1) };
    append(&mut store, next);
    store.sync().expect("sync");
    disk.power_cut(Survival::Nothing);
    let (_, after) = recovered_with(disk, cfg(dirs));
    assert_eq!(after.last_logged, next, "{context}: the store goes on");
}

#[test]
fn the_story_ends_well_when_nothing_happens() {
    let dirs = Dirs::One;
    let mut model = Model::new();
    let disk = MemDisk::new();
    play(&disk, dirs, &mut model).unwrap_or_else(|(step, error)| panic!("{step:?}: {error}"));
    assert_eq!(model.last(), zxid(6, 1));
    check_after(&disk, dirs, model, "no failure");
}

#[test]
fn a_power_cut_after_any_disk_operation_loses_nothing_that_was_promised() {
    power_cuts(Dirs::One);
}

#[test]
fn a_power_cut_after_any_disk_operation_loses_nothing_with_a_log_directory_of_its_own() {
    power_cuts(Dirs::Split);
}

fn power_cuts(dirs: Dirs) {
    let whole = MemDisk::new();
    play(&whole, dirs, &mut Model::new()).unwrap_or_else(|(step, error)| panic!("{step:?}: {error}"));
    let seeds = (1..=12).map(|seed| Survival::Some { seed });
    let survivals: Vec<Survival> =
        [Survival::Nothing, Survival::Everything].into_iter().chain(seeds).collect();
    assert!(whole.changes() > 150, "the story is long enough: {}", whole.changes());
    for changes in 1..=whole.changes() {
        let disk = MemDisk::new();
        let mut model = Model::new();
        disk.fail_after(changes);
        let failed = play(&disk, dirs, &mut model);
        for survival in &survivals {
            let disk = disk.fork();
            disk.power_cut(match survival {
                Survival::Some { seed } => Survival::Some { seed: seed * 1_000_003 + changes },
                other => *other,
            });
            let step = failed.as_ref().err().map(|(step, _)| step);
            check_after(
                &disk,
                dirs,
                model.clone(),
                &format!("{survival:?} after {changes} changes, in {step:?}"),
            );
        }
    }
}

#[test]
fn a_disk_that_is_full_at_any_byte_loses_nothing_that_was_promised() {
    let dirs = Dirs::One;
    let mut capacity = 0;
    loop {
        let disk = MemDisk::new();
        disk.set_capacity(Some(capacity));
        let mut model = Model::new();
        let Err((step, error)) = play(&disk, dirs, &mut model) else { break };
        assert!(matches!(error, StoreError::NoSpace { .. }), "{step:?} with {capacity} bytes: {error}");
        let context = format!("full at {capacity} bytes in {step:?}");
        let cut = disk.fork();
        check_after(&disk, dirs, model.clone(), &context);
        cut.power_cut(Survival::Nothing);
        check_after(&cut, dirs, model, &format!("{context}, and a power cut"));
        capacity += 1;
    }
    assert!(capacity > 1000, "the story needs more than {capacity} bytes");
}

#[test]
fn a_power_cut_during_recovery_itself_loses_nothing() {
    let dirs = Dirs::One;
    // Killed in the middle of an installation past its commit point, with a torn tail before it.
    let whole = MemDisk::new();
    play(&whole, dirs, &mut Model::new()).unwrap_or_else(|(step, error)| panic!("{step:?}: {error}"));
    for changes in (1..=whole.changes()).step_by(3) {
        let crashed = MemDisk::new();
        let mut model = Model::new();
        crashed.fail_after(changes);
        drop(play(&crashed, dirs, &mut model));
        crashed.power_cut(Survival::Some { seed: changes });
        for during in 1.. {
            let disk = crashed.fork();
            disk.fail_after(during);
            let mut store = Store::open(disk.clone(), cfg(dirs));
            let finished = store.recover(Image::default).is_ok();
            disk.power_cut(Survival::Some { seed: changes * 31 + during });
            check_after(
                &disk,
                dirs,
                model.clone(),
                &format!("crash at {changes}, then in recovery at {during}"),
            );
            if finished {
                break;
            }
        }
    }
}
