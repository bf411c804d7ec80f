//! Links keep order, breaks lose what is on the way, the newest vote wins.

use super::*;
use crate::agenda::Agenda;

struct Bench {
    net: Network,
    agenda: Agenda<NetEvent>,
}

impl Bench {
    fn new() -> Self {
        let delays = Delays { least: MS, most: 20 * MS };
        Self { net: Network::new(Prng::new(3, "net test"), delays), agenda: Agenda::default() }
    }

    fn connect(&mut self) -> LinkId {
        self.net.connect(self.agenda.now(), (1, 1, LinkId(7)), (2, 1), Port::Quorum, false);
        let arrived = self.run();
        let Some(Delivery::Link { node: 2, id, carried: Carried::Open(Port::Quorum), .. }) = arrived.first()
        else {
            panic!("the request arrives first: {arrived:?}");
        };
        assert!(id.0 & LinkId::ACCEPTED != 0);
        assert!(matches!(
            &arrived[1],
            Delivery::Link { node: 1, id: LinkId(7), carried: Carried::Opened, .. }
        ));
        *id
    }

    fn send(&mut self, node: i64, id: LinkId, text: &'static str) {
        let now = self.agenda.now();
        self.net.send(now, (node, 1), id, Carried::Packet(Bytes::from_static(text.as_bytes())));
    }

    fn run(&mut self) -> Vec<Delivery> {
        let mut arrived = Vec::new();
        loop {
            for (time, event) in std::mem::take(&mut self.net.due) {
                self.agenda.at(time, event);
            }
            let Some(event) = self.agenda.pop() else { return arrived };
            arrived.extend(self.net.arrive(self.agenda.now(), event));
        }
    }
}

fn texts(arrived: &[Delivery]) -> Vec<String> {
    arrived
        .iter()
        .map(|delivery| match delivery {
            Delivery::Link { carried: Carried::Packet(bytes), .. } | Delivery::Vote { bytes, .. } => {
                String::from_utf8_lossy(bytes).into_owned()
            }
            Delivery::Link { carried: Carried::Closed(reason), .. } => format!("closed: {reason}"),
            Delivery::Link { carried, .. } => format!("{carried:?}"),
        })
        .collect()
}

#[test]
fn a_link_keeps_the_order_whatever_the_delays() {
    let mut bench = Bench::new();
    let accepted = bench.connect();
    for text in ["a", "b", "c", "d", "e", "f"] {
        bench.send(2, accepted, text);
    }
    assert_eq!(texts(&bench.run()), ["a", "b", "c", "d", "e", "f"]);
}

#[test]
fn a_close_arrives_after_what_was_sent_and_only_at_the_other_end() {
    let mut bench = Bench::new();
    let accepted = bench.connect();
    bench.send(2, accepted, "last words");
    bench.send(1, LinkId(7), "never read");
    let now = bench.agenda.now();
    bench.net.close(now, (2, 1), accepted, "bye");
    assert_eq!(texts(&bench.run()), ["last words", "closed: closed by peer: bye"]);
    assert!(bench.net.links.is_empty() && bench.net.by_id.is_empty());
}

#[test]
fn a_broken_link_loses_what_is_on_the_way_and_both_ends_learn_of_it() {
    let mut bench = Bench::new();
    let accepted = bench.connect();
    bench.send(2, accepted, "lost");
    let (link, ..) = bench.net.standing()[0];
    let now = bench.agenda.now();
    bench.net.break_link(now, link);
    assert_eq!(texts(&bench.run()), ["closed: connection reset", "closed: connection reset"]);
    assert!(bench.net.links.is_empty());
}

#[test]
fn a_held_direction_waits_and_is_delivered_by_hand() {
    let mut bench = Bench::new();
    let accepted = bench.connect();
    bench.net.hold(2, 1);
    bench.send(2, accepted, "x");
    bench.send(2, accepted, "y");
    bench.send(1, LinkId(7), "other way");
    assert_eq!(texts(&bench.run()), ["other way"]);
    let one = bench.net.deliver_one(bench.agenda.now(), 2, 1).expect("held");
    assert_eq!(texts(&[one]), ["x"]);
    let now = bench.agenda.now();
    bench.net.release(now, 2, 1);
    assert_eq!(texts(&bench.run()), ["y"]);
}

#[test]
fn a_partition_times_out_new_links_and_delays_old_ones() {
    let mut bench = Bench::new();
    let accepted = bench.connect();
    bench.net.block(2, 1);
    bench.send(2, accepted, "late");
    let now = bench.agenda.now();
    bench.net.connect(now, (1, 1, LinkId(8)), (2, 1), Port::Quorum, false);
    assert_eq!(texts(&bench.run()), ["closed: connect timed out"]);
    let now = bench.agenda.now();
    bench.net.unblock(now, 2, 1);
    assert_eq!(texts(&bench.run()), ["late"]);
}

#[test]
fn of_the_votes_that_wait_the_newest_is_sent() {
    let mut bench = Bench::new();
    for text in ["1", "2", "3"] {
        bench.net.send_vote(0, 1, 2, Bytes::from_static(text.as_bytes()));
    }
    assert_eq!(texts(&bench.run()), ["1", "3"]);
    let now = bench.agenda.now();
    bench.net.reconnect_votes(now, 2);
    assert_eq!(texts(&bench.run()), ["3"], "a new connection repeats the last vote");
}

#[test]
fn the_end_of_a_process_closes_its_links_at_the_other_ends() {
    let mut bench = Bench::new();
    let accepted = bench.connect();
    bench.send(2, accepted, "sent before");
    let now = bench.agenda.now();
    bench.net.process_gone(now, 2, 1, 0);
    assert_eq!(texts(&bench.run()), ["sent before", "closed: connection reset"]);
    bench.send(2, accepted, "from the grave");
    assert!(bench.run().is_empty());
}
