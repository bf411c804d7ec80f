//! Clients that read slowly, or ask for more than the server may keep in memory for them.

mod common;

use common::client::{Client, set_request};
use common::process::Member;
use zk_jute::OpCode;
use zk_jute::request::{Request, xid};

fn member() -> (tempfile::TempDir, Member) {
    let dir = tempfile::tempdir().expect("directory");
    let member = Member::new(dir.path(), "");
    (dir, member)
}

/// Fault: a connection whose output had been full was not driven again once it was sent, unless a further request was in
/// the socket's buffer: what it had asked for before was answered when it next sent something, or never.
#[test]
fn a_pipeline_of_large_reads_is_answered_to_its_end() {
    let (_dir, mut member) = member();
    let mut client = member.start();
    let large = vec![b'x'; 500_000];
    client.create("/large", b"").expect("create");
    let mut sent = vec![client.send(OpCode::SetData, &set_request("/large", &large)).expect("send")];
    for _ in 0..100 {
        let read = Request::GetData { path: "/large".into(), watch: false };
        sent.push(client.send(OpCode::GetData, &read).expect("send"));
    }
    for (index, xid) in sent.into_iter().enumerate() {
        let reply = client.receive().unwrap_or_else(|error| panic!("answer {index}: {error}"));
        assert_eq!((reply.header.xid, reply.header.err), (xid, 0));
        assert_eq!(reply.body.len() > large.len(), index > 0, "reads see the write before them");
    }
}

/// The same fault for what the core sends: it wakes a connection only if its inbox was empty.
#[test]
fn a_watcher_that_reads_late_gets_every_event() {
    const EVENTS: i32 = 20_000;
    let (_dir, mut member) = member();
    let mut writer = member.start();
    // Long, so that the events are more than the two sockets hold.
    let path = format!("/{}", "w".repeat(1000));
    writer.create(&path, b"").expect("create");
    let mut watcher = member.client();
    let watch = Request::AddWatch { path: path.as_str().into(), mode: 0 };
    watcher.call(OpCode::AddWatch, &watch).expect("watch");
    write_all(&mut writer, &path, EVENTS);
    for index in 0..EVENTS {
        let event = watcher.receive().unwrap_or_else(|error| panic!("event {index}: {error}"));
        assert_eq!(event.header.xid, xid::NOTIFICATION);
    }
    watcher.ping().expect("nothing else waits");
}

/// Sets the node so many times, 1000 requests in flight at most.
fn write_all(writer: &mut Client, path: &str, times: i32) {
    let mut in_flight = 0;
    for _ in 0..times {
        writer.send(OpCode::SetData, &set_request(path, b"1")).expect("send");
        in_flight += 1;
        if in_flight == 1000 {
            writer.receive().expect("answer");
            in_flight -= 1;
        }
    }
    for _ in 0..in_flight {
        assert_eq!(writer.receive().expect("answer").header.err, 0);
    }
}
