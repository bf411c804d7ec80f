//! The simulated world: members, network, clients, and the one loop that moves them.
//!
//! Everything that happens is an event of one agenda; [`World::step`] takes the next. Randomness comes from the seed, one stream a
//! purpose, and nothing reads a clock: the same options give the same run, byte for byte.

mod boot;
mod clients;
mod connections;
mod drive;
mod effects;
mod faults;
mod storage;

use zk_core::input::Input;

use self::faults::Step;
use crate::agenda::Agenda;
use crate::client::SimClient;
use crate::clock::{MS, Nanos, NodeClock};
use crate::disk::SimDisk;
use crate::event::{Event, Repair};
use crate::history::History;
use crate::net::Network;
use crate::node::Node;
use crate::options::Options;
use crate::oracle::{Oracles, Violation};
use crate::prng::Prng;
use crate::storage::{DATA_DIR, INITIALIZE};
use crate::trace::Trace;
use crate::workload::Workload;

/// The world of one run.
pub struct World {
    pub options: Options,
    pub(crate) agenda: Agenda<Event>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) net: Network,
    pub(crate) clients: Vec<SimClient>,
    pub(crate) workload: Workload,
    pub oracles: Oracles,
    pub trace: Trace,
    pub history: History,
    /// Lines for a scenario's transcript; none in sweeps.
    pub(crate) transcript: Option<Vec<String>>,
    pub(crate) disk_prng: Prng,
    pub(crate) client_prng: Prng,
    pub(crate) fault_prng: Prng,
    /// Random faults and the workload go on.
    pub(crate) troubled: bool,
    /// Processes that end are started again.
    pub(crate) supervised: bool,
    pub(crate) counters: Counters,
    /// How long the ensemble took to converge after the faults.
    pub(crate) calmed: Nanos,
    /// Trouble that waits for a step of the protocol.
    pub(crate) ambush: Option<Step>,
    /// Decides when the durable bytes themselves are read back.
    pub(crate) oracle_prng: Prng,
    /// Packets get lines in the transcript.
    pub(crate) show_packets: bool,
}

/// What a run went through, for its summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    pub boots: u64,
    pub power_cuts: u64,
    pub faults: u64,
    pub snapshots: u64,
    pub diffs: u64,
    pub truncs: u64,
    pub snaps: u64,
    pub expired: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        let Self { boots, power_cuts, faults, snapshots, diffs, truncs, snaps, expired } = other;
        self.boots += boots;
        self.power_cuts += power_cuts;
        self.faults += faults;
        self.snapshots += snapshots;
        self.diffs += diffs;
        self.truncs += truncs;
        self.snaps += snaps;
        self.expired += expired;
    }
}

impl World {
    /// A world in which no process runs yet.
    pub fn new(options: Options, keep_trace: bool) -> Self {
        let seed = options.seed;
        let voters = options.members().filter(|node| options.is_voter(*node)).collect();
        let mut clock_prng = Prng::new(seed, "clock");
        let nodes = options.members().map(|id| machine(&options, id, &mut clock_prng)).collect();
        Self {
            agenda: Agenda::default(),
            nodes,
            net: Network::new(Prng::new(seed, "net"), options.delays),
            clients: Vec::new(),
            workload: Workload::new(Prng::new(seed, "workload"), options.keys),
            oracles: Oracles::new(voters),
            trace: Trace::new(keep_trace),
            history: History::default(),
            transcript: None,
            disk_prng: Prng::new(seed, "disk"),
            client_prng: Prng::new(seed, "clients"),
            fault_prng: Prng::new(seed, "faults"),
            troubled: false,
            supervised: true,
            counters: Counters::default(),
            calmed: 0,
            ambush: None,
            oracle_prng: Prng::new(seed, "oracle"),
            show_packets: false,
            options,
        }
    }

    /// True time.
    pub const fn now(&self) -> Nanos {
        self.agenda.now()
    }

    /// Carries the next event out. False if there is none.
    pub fn step(&mut self) -> bool {
        let Some(event) = self.agenda.pop() else { return false };
        self.dispatch(event);
        self.settle_network();
        true
    }

    /// Puts what the network will do on the agenda.
    pub(crate) fn settle_network(&mut self) {
        for (time, event) in std::mem::take(&mut self.net.due) {
            self.agenda.at(time, Event::Net(event));
        }
    }

    /// Goes on until `time`, a violation, or `done`.
    pub fn run_until(&mut self, time: Nanos, mut done: impl FnMut(&Self) -> bool) {
        while self.oracles.violation().is_none() && !done(self) {
            if self.trace.steps() > self.options.steps_max {
                let text = format!("{} inputs without an end", self.options.steps_max);
                self.oracles.check(Err(Violation::new("StepBound", text)));
                return;
            }
            if self.agenda.next_time().is_none_or(|next| next > time) {
                self.agenda.advance_to(time);
                return;
            }
            self.step();
        }
    }

    /// The member with this id.
    ///
    /// # Panics
    /// If there is none: ids are 1 to the number of members.
    pub fn node(&self, id: i64) -> &Node {
        &self.nodes[usize::try_from(id - 1).expect("ids begin with 1")]
    }

    pub(crate) fn node_mut(&mut self, id: i64) -> &mut Node {
        &mut self.nodes[usize::try_from(id - 1).expect("ids begin with 1")]
    }

    /// Adds a line to the trace and, in a scenario, to the transcript.
    pub(crate) fn note(&mut self, text: &str) {
        let now = self.agenda.now();
        self.trace.note(now, text);
        self.say(text);
    }

    /// Adds a line to a scenario's transcript.
    pub(crate) fn say(&mut self, text: &str) {
        if let Some(lines) = &mut self.transcript {
            lines.push(text.to_owned());
        }
    }

    fn dispatch(&mut self, event: Event) {
        if let Some(until) = self.paused(&event) {
            // A stopped process: everything waits, in its order, until it goes on.
            self.agenda.at(until, event);
            return;
        }
        match event {
            Event::Tick { node, boot } => self.tick(node, boot),
            Event::Net(event) => self.arrive(event),
            Event::Storage { node, boot } if self.runs(node, boot) => self.storage_done(node),
            Event::Snapshot { node, boot } if self.runs(node, boot) => self.snapshot_written(node),
            Event::Storage { .. } | Event::Snapshot { .. } => {}
            Event::Boot { node } => self.boot_if_wanted(node),
            Event::Resume { node } => self.resume(node),
            Event::Fault => self.random_fault(),
            Event::Ambush { node } => self.ambushed(node),
            Event::Repair(repair) => self.repair(repair),
            Event::Client { client } => self.client_acts(client),
            Event::ToServer { client, connection, bytes } => self.reaches_server(client, connection, bytes),
            Event::ToClient { client, connection, bytes } => self.reaches_client(client, connection, bytes),
        }
    }

    /// Until when the process that `event` is for stands still.
    fn paused(&self, event: &Event) -> Option<Nanos> {
        let node = match event {
            Event::Tick { node, .. } | Event::Storage { node, .. } | Event::Snapshot { node, .. } => *node,
            Event::Net(event) => self.net.target(*event)?,
            Event::ToServer { client, .. } => self.clients.get(*client)?.node,
            _ => return None,
        };
        self.node(node).paused_until
    }

    pub(crate) fn runs(&self, node: i64, boot: u64) -> bool {
        let node = self.node(node);
        node.proc.is_some() && node.boot == boot
    }

    /// The pause ends, unless it is another one that began after a restart.
    fn resume(&mut self, id: i64) {
        let now = self.agenda.now();
        let node = self.node_mut(id);
        if node.paused_until.is_some_and(|until| until <= now) {
            node.paused_until = None;
        }
    }

    fn repair(&mut self, repair: Repair) {
        let now = self.agenda.now();
        match repair {
            Repair::Network => self.net.heal(now),
            Repair::FreeDisk(node) => self.node(node).disk.limit(None),
            Repair::QuickDisk(node) => self.node_mut(node).disk_slowness = 1,
        }
    }

    fn tick(&mut self, id: i64, boot: u64) {
        if !self.runs(id, boot) {
            return;
        }
        let now = self.agenda.now();
        let node = self.node_mut(id);
        let local = node.clock.at(now);
        let Some(process) = &mut node.proc else { return };
        process.tick_at = None;
        let due = process.peer.next_deadline().is_some_and(|deadline| deadline <= local.mono);
        for (conn, server) in &mut process.conns {
            server.conn.on_tick(local);
            if server.conn.closing().is_some() {
                process.waken.insert(*conn);
            }
        }
        if due {
            self.input(id, Input::Tick);
        } else {
            self.settle(id);
        }
    }
}

/// A machine with an empty disk that is marked for a first bootstrap.
fn machine(options: &Options, id: i64, clock_prng: &mut Prng) -> Node {
    let disk = SimDisk::new(Prng::new(options.seed, &format!("disk {id}")));
    disk.make_dirs(DATA_DIR);
    disk.place(INITIALIZE, b"");
    let drift = clock_prng.below(2 * options.drift_ppm + 1) as i64 - options.drift_ppm as i64;
    let offset = if options.drift_ppm == 0 { 0 } else { clock_prng.below(5_000) * MS };
    let skew = drift / 10;
    Node::new(id, disk, NodeClock::new(offset, drift, skew))
}
