//! The storage threads of the members, and the ledgers that follow them.

use bytes::Bytes;
use zk_core::effect::{IoId, PersistOp};
use zk_core::input::{DiskError, Input, Persisted, Recovery};
use zk_jute::Zxid;

use super::World;
use crate::event::Event;
use crate::oracle::ledger::{Doubt, Entry, check_recovery};
use crate::oracle::{Violation, epochs};
use crate::storage::{ACCEPTED_EPOCH, CURRENT_EPOCH, Running, Storage};

impl World {
    /// Begins the next batch, if the storage is idle.
    pub(crate) fn storage_begin(&mut self, id: i64) {
        self.publish_snapshot(id);
        self.begin_snapshot(id);
        let batch_max = self.options.batch_max;
        let Some(process) = &mut self.node_mut(id).proc else { return };
        if !process.storage.begin(batch_max) {
            return;
        }
        let appended: Vec<Entry> = match &process.storage.running {
            Some(Running::Appends { entries, .. }) => {
                entries.iter().map(|(_, entry)| entry.clone()).collect()
            }
            Some(Running::One(..)) | None => Vec::new(),
        };
        for entry in appended {
            self.oracles.appended(id, entry);
        }
        if self.power_cut_if_dark(id) {
            return;
        }
        let delay = self.disk_prng.between(self.options.disk_least, self.options.disk_most);
        let slowness = self.node(id).disk_slowness;
        self.schedule_storage(id, delay * slowness);
    }

    /// The batch has had its time: it becomes durable, or fails.
    pub(super) fn storage_done(&mut self, id: i64) {
        let Some(process) = &mut self.node_mut(id).proc else { return };
        match process.storage.running.take() {
            None => {}
            Some(Running::Appends { entries, failed }) => self.appends_done(id, &entries, failed),
            Some(Running::One(io, op)) => self.operation_done(id, io, &op),
        }
        self.storage_begin(id);
    }

    fn appends_done(&mut self, id: i64, entries: &[(IoId, Entry)], failed: Option<(IoId, DiskError)>) {
        let first = entries.first().map(|(io, _)| *io);
        if let Some((io, error)) = failed {
            // The failed append took the store out of use before the others were synced: the whole batch failed.
            return self.persisted(id, first.unwrap_or(io), Err(error));
        }
        let Some(process) = &mut self.node_mut(id).proc else { return };
        let synced = process.storage.finish_appends();
        if self.power_cut_if_dark(id) {
            return;
        }
        match (synced, entries.last()) {
            (Err(error), _) => self.persisted(id, first.unwrap_or_default(), Err(error)),
            (Ok(()), Some((io, entry))) => {
                self.oracles.ledgers.entry(id).or_default().sync_through(entry.zxid);
                self.persisted(id, *io, Ok(Persisted::Done));
            }
            (Ok(()), None) => {}
        }
    }

    fn operation_done(&mut self, id: i64, io: IoId, op: &PersistOp) {
        let ledger = self.oracles.ledgers.entry(id).or_default();
        match op {
            PersistOp::Truncate { zxid } => ledger.doubt = Some(Doubt::Truncate(*zxid)),
            PersistOp::InstallSnapshot { image, tail } => {
                ledger.doubt = Some(Doubt::Install(image.last_processed(), entries_of(tail)));
            }
            PersistOp::Load | PersistOp::Reload => {}
            _ => ledger.doubt = None,
        }
        let Some(process) = &mut self.node_mut(id).proc else { return };
        let result = process.storage.carry_out(op);
        if self.power_cut_if_dark(id) {
            return;
        }
        if let Ok(done) = &result {
            self.account(id, op, done);
        }
        self.check_epochs(id);
        self.persisted(id, io, result);
    }

    fn persisted(&mut self, id: i64, io: IoId, result: Result<Persisted, DiskError>) {
        self.input(id, Input::Persisted { io, result });
    }

    /// The ledger follows an operation that is done.
    fn account(&mut self, id: i64, op: &PersistOp, done: &Persisted) {
        let ledger = self.oracles.ledgers.entry(id).or_default();
        match (op, done) {
            (PersistOp::Truncate { zxid }, _) => ledger.truncate(*zxid),
            (PersistOp::InstallSnapshot { image, tail }, _) => {
                ledger.install(image.last_processed(), entries_of(tail));
            }
            (PersistOp::Load | PersistOp::Reload, Persisted::Loaded(found)) => self.recovered(id, found),
            _ => {}
        }
    }

    /// Recovery must bring back what was promised and nothing else, and make it durable before anybody relies on it.
    fn recovered(&mut self, id: i64, found: &Recovery) {
        let base = found.tree.last_processed();
        let tail: Vec<Entry> = found.tail.iter().map(|txn| Entry::new(txn.zxid(), &txn.bytes)).collect();
        let node = self.node(id);
        let undurable =
            node.disk.paths().into_iter().find(|path| path.contains("/log.") && node.disk.is_dirty(path));
        let ledger = self.oracles.ledgers.entry(id).or_default();
        let mut result = check_recovery(ledger, base, &tail)
            .map_err(|violation| Violation::new(violation.oracle, format!("{id}: {}", violation.text)));
        if let Some(path) = undurable {
            let text = format!("{id} recovered {path} without making it durable");
            result = result.and(Err(Violation::new("Durability", text)));
        }
        ledger.recovered(base, tail);
        self.oracles.check(result);
    }

    /// Looks at the epochs on the platter.
    pub(super) fn check_epochs(&mut self, id: i64) {
        let disk = &self.node(id).disk;
        let read = |path| disk.durable_bytes(path).as_deref().and_then(epochs::parse);
        let (accepted, current) = (read(ACCEPTED_EPOCH), read(CURRENT_EPOCH));
        self.oracles.epochs_on_disk(id, accepted, current);
    }

    /// DurableBeforeAck, asked of the bytes: a store that starts from nothing but the platter must find what is acknowledged.
    pub(super) fn check_platter(&mut self, id: i64, zxid: Zxid) {
        let copy = self.node(id).disk.durable_copy();
        let mut storage = Storage::open(&copy, false, false);
        let found = match storage.carry_out(&PersistOp::Load) {
            Ok(Persisted::Loaded(found)) => found.last_logged,
            Ok(Persisted::Done) => return,
            Err(error) => {
                let text = format!("{id} acknowledges {zxid} with a platter that cannot be read: {error}");
                return self.oracles.check(Err(Violation::new("DurableBeforeAck", text)));
            }
        };
        let promised = if zxid.counter() == 0 {
            self.oracles.ledgers.entry(id).or_default().durable_last()
        } else {
            zxid
        };
        if found < promised {
            let text = format!("{id} acknowledges {zxid}, and recovery from the platter ends at {found}");
            self.oracles.check(Err(Violation::new("DurableBeforeAck", text)));
        }
    }

    fn begin_snapshot(&mut self, id: i64) {
        let Some(process) = &mut self.node_mut(id).proc else { return };
        if process.storage.begin_snapshot() {
            let boot = self.node(id).boot;
            let delay = 3 * self.disk_prng.between(self.options.disk_least, self.options.disk_most);
            self.agenda.after(delay, Event::Snapshot { node: id, boot });
        }
    }

    pub(super) fn snapshot_written(&mut self, id: i64) {
        if let Some(process) = &mut self.node_mut(id).proc {
            process.storage.write_snapshot();
        }
        if !self.power_cut_if_dark(id) {
            self.storage_begin(id);
        }
    }

    fn publish_snapshot(&mut self, id: i64) {
        let Some(process) = &mut self.node_mut(id).proc else { return };
        let Some((zxid, result)) = process.storage.publish_snapshot() else { return };
        if !self.power_cut_if_dark(id) {
            self.input(id, Input::SnapshotDone { zxid, result });
        }
    }
}

fn entries_of(tail: &[(Zxid, Bytes)]) -> Vec<Entry> {
    tail.iter().map(|(zxid, bytes)| Entry::new(*zxid, bytes)).collect()
}
