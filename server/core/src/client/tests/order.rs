use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

#[test]
fn a_read_waits_for_the_writes_before_it() {
    let mut rig = Rig::connected();
    rig.create("/a");
    rig.send(1, &set("/a"));
    rig.send(2, &get("/a", false));
    rig.send(3, &get("/a", false));
    assert_eq!(rig.sent(), [1]);
    assert!(rig.output().is_empty());
    let written = rig.set("/a");
    rig.reply(1, 0, Response::Empty);
    let packets = rig.packets();
    let zxids: Vec<_> = packets
        .iter()
        .map(|packet| matches!(packet, Packet::Reply { zxid, .. } if *zxid == written.0))
        .collect();
    assert_eq!(zxids, [true, true, true]);
}

#[test]
fn writes_go_out_at_once_behind_writes() {
    let mut rig = Rig::connected();
    for xid in 1..=3 {
        rig.send(xid, &set("/a"));
    }
    rig.send(-2, &Request::Ping);
    rig.send(4, &Request::Sync { path: "/a".into() });
    assert_eq!(rig.sent(), [1, 2, 3, 4]);
}

/// Otherwise the read could see what a later request of the same client wrote.
#[test]
fn a_write_waits_for_the_reads_before_it() {
    let mut rig = Rig::connected();
    rig.create("/a");
    rig.send(1, &set("/a"));
    rig.send(2, &get("/a", false));
    rig.send(3, &set("/a"));
    rig.send(4, &set("/a"));
    rig.send(5, &get("/a", false));
    rig.send(6, &Request::CloseSession);
    assert_eq!(rig.sent(), [1]);
    rig.reply(1, 0, Response::Empty);
    assert_eq!(rig.xids(), [1, 2]);
    assert_eq!(rig.sent(), [3, 4]);
    rig.reply(3, 0, Response::Empty);
    assert_eq!((rig.xids(), rig.sent()), (vec![3], vec![]));
    rig.reply(4, 0, Response::Empty);
    assert_eq!((rig.xids(), rig.sent()), (vec![4, 5], vec![6]));
}

#[test]
fn replies_come_in_the_order_of_the_requests() {
    let mut rig = Rig::connected();
    rig.create("/a");
    rig.send(1, &get("/a", false));
    rig.send(2, &set("/a"));
    rig.send(-2, &Request::Ping);
    rig.send(-4, &Request::Auth { kind: 0, scheme: "digest".into(), auth: Bytes::from_static(b"u:p") });
    rig.send(3, &get("/missing", false));
    rig.send(4, &Request::WhoAmI);
    assert_eq!(rig.xids(), [1]);
    rig.reply(2, 0, Response::Empty);
    assert_eq!(rig.xids(), [2, -2, -4, 3, 4]);
}

#[test]
fn an_event_comes_before_a_reply_that_saw_its_change() {
    let mut rig = Rig::connected();
    rig.create("/a");
    rig.send(1, &get("/a", true));
    let changed = rig.set("/a");
    // The socket task was not woken yet; the read finds the event.
    rig.send(2, &get("/a", false));
    let packets = rig.packets();
    assert!(matches!(packets[0], Packet::Reply { xid: 1, .. }));
    assert!(matches!(&packets[1], Packet::Event { zxid, event } if *zxid == changed.0 && event.kind == 3));
    assert!(matches!(packets[2], Packet::Reply { xid: 2, zxid, .. } if zxid == changed.0));
}

#[test]
fn an_event_that_a_read_has_not_seen_stays_in_the_inbox() {
    let rig = Rig::connected();
    let inbox = rig.conn.inbox();
    let event = WatcherEvent { kind: 3, state: 3, path: "/a".into() };
    for zxid in [5, 6] {
        inbox.push(ClientMessage::Event { zxid: Zxid(zxid), event: event.clone() });
    }
    assert!(inbox.take_seen(Zxid(4)).is_none());
    assert!(matches!(inbox.take_seen(Zxid(5)), Some(ClientMessage::Event { zxid: Zxid(5), .. })));
    assert!(inbox.take_seen(Zxid(5)).is_none());
    assert!(inbox.take().is_some() && inbox.is_empty());
}

/// The client learns that it watches from the reply, so an event before it would find nobody at home.
#[test]
fn an_event_comes_after_a_reply_that_did_not_see_its_change() {
    let mut rig = Rig::connected();
    let created = rig.create("/a");
    rig.send(1, &set("/a"));
    rig.send(2, &get("/a", true));
    let inbox = rig.conn.inbox();
    inbox.push(ClientMessage::Reply { xid: 1, zxid: created, err: 0, response: Response::Empty });
    // The core is a step ahead: it has told of a change that the read below did not see.
    let event = WatcherEvent { kind: 3, state: 3, path: "/a".into() };
    inbox.push(ClientMessage::Event { zxid: Zxid(created.0 + 1), event });
    rig.drive();
    assert_eq!(rig.xids(), [1, 2, -1]);
}

/// A writer changes the node all the time while the connection reads and watches it: between two replies of zxids z1 < z2
/// there is exactly the one event that is in between, and never one that is not.
#[test]
#[expect(clippy::disallowed_methods, reason = "the writer stands for the thread of the core")]
fn events_and_replies_never_pass_each_other_under_concurrent_writes() {
    let mut rig = Rig::connected();
    rig.create("/a");
    let (shared, inbox, first) = (rig.shared.clone(), rig.conn.inbox(), rig.next);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let writer = std::thread::spawn(move || {
        let mut zxid = first;
        while !stopped.load(Ordering::Relaxed) {
            let txn = Txn::SetData { path: "/a".into(), data: None, version: 1 };
            apply(&shared, &inbox, Zxid(zxid), OpCode::SetData, txn);
            zxid += 1;
        }
    });
    let mut packets = Vec::new();
    for xid in 0..20_000 {
        rig.send(xid, &get("/a", true));
        packets.extend(rig.packets());
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().expect("the writer must not fail");
    let (mut seen, mut fired, mut events) = (0, None, 0);
    for packet in packets {
        match packet {
            Packet::Event { zxid, .. } => {
                assert!(zxid > seen, "event {zxid} came after a reply at {seen} that saw it");
                assert_eq!(fired.replace(zxid), None, "one watch, one event");
                events += 1;
            }
            Packet::Reply { zxid, err, .. } => {
                assert_eq!(err, 0);
                // The node changes with every zxid, so a later reply has seen what the watch waited for.
                if zxid > seen && seen > 0 {
                    assert!(fired.is_some(), "the reply at {zxid} came before the event after {seen}");
                }
                assert!(
                    fired.is_none_or(|fired| fired <= zxid),
                    "the event came before the reply that watches"
                );
                (seen, fired) = (zxid, None);
            }
        }
    }
    assert!(events > 10, "the writer must have come between: {events} events");
}

#[test]
fn the_zxid_in_replies_never_goes_back() {
    let mut rig = Rig::connected();
    rig.create("/a");
    rig.create("/b");
    rig.send(1, &get("/a", false));
    assert_eq!(rig.only_reply().1, 2);
    rig.send(2, &set("/a"));
    rig.push(ClientMessage::Reply { xid: 2, zxid: Zxid(1), err: -101, response: Response::Empty });
    assert_eq!(rig.only_reply().1, 2);
}

/// A ping between writes is answered with what this client has seen, not with what may still be on its way to it.
#[test]
fn a_ping_does_not_run_ahead_of_the_writes_behind_it() {
    let mut rig = Rig::connected();
    rig.create("/a");
    rig.send(1, &set("/a"));
    rig.send(-2, &Request::Ping);
    rig.send(2, &set("/a"));
    let first = rig.set("/a");
    rig.conn.inbox().push(ClientMessage::Reply { xid: 1, zxid: first, err: 0, response: Response::Empty });
    let second = rig.set("/a");
    rig.reply(2, 0, Response::Empty);
    let zxids: Vec<_> = rig
        .packets()
        .into_iter()
        .map(|packet| if let Packet::Reply { xid, zxid, .. } = packet { (xid, zxid) } else { (-1, 0) })
        .collect();
    assert_eq!(zxids, [(1, first.0), (-2, first.0), (2, second.0)]);
}

#[test]
fn missed_events_come_before_the_answer_to_set_watches() {
    let mut rig = Rig::connected();
    rig.create("/a");
    rig.create("/b");
    let paths = |paths: &[&str]| paths.iter().map(|path| Arc::from(*path)).collect::<Vec<_>>();
    let (data, exist) = (paths(&["/a", "/b"]), paths(&["/c"]));
    rig.send(-8, &Request::SetWatches { relative_zxid: 1, data, exist, child: paths(&["/gone"]) });
    let packets = rig.packets();
    let events: Vec<_> = packets
        .iter()
        .map(|packet| match packet {
            Packet::Event { zxid, event } => (*zxid, event.kind, event.path.to_string()),
            Packet::Reply { xid, err, .. } => (i64::from(*xid), *err, String::new()),
        })
        .collect();
    assert_eq!(events, [(-1, 3, "/b".into()), (-1, 2, "/gone".into()), (-8, 0, String::new())]);
    let created = rig.create("/c");
    rig.drive();
    assert!(matches!(rig.packets()[..], [Packet::Event { zxid, .. }] if zxid == created.0));
}
