//! The read path as clients see it: answers, the order of checks, and watches that are set with the read.

use std::sync::Arc;

use bytes::Bytes;
use zk_core::Shared;
use zk_core::config::Rules;
use zk_core::input::ConnId;
use zk_core::tree::{ReadContext, ReadReply, process_read};
use zk_jute::consts::perms;
use zk_jute::records::{Acl, Id};
use zk_jute::request::{ClientInfo, MultiResult, Request, Response, WatcherEvent};
use zk_jute::txn::{LoggedTxn, Txn, TxnHeader};
use zk_jute::{ErrorCode, OpCode, SessionId, Zxid};

const ME: ConnId = ConnId(1);
const OTHER: ConnId = ConnId(2);

struct Server {
    shared: Arc<Shared>,
    rules: Rules,
    zxid: i64,
}

impl Server {
    /// "/open", "/open/kid", "/secret" and "/secret/kid" (digest u:h alone), ephemerals "/eph/a" and "/eph/b" of session 7.
    fn new() -> Self {
        let mut server = Self { shared: Shared::new(), rules: Rules::default(), zxid: 0 };
        for path in ["/open", "/open/kid"] {
            server.create(path, &world(perms::ALL), false);
        }
        for path in ["/secret", "/secret/kid"] {
            server.create(path, &[acl(perms::ALL, "digest", "u:h")], false);
        }
        server.create("/eph", &world(perms::ALL), false);
        for path in ["/eph/a", "/eph/b"] {
            server.create(path, &world(perms::ALL), true);
        }
        server
    }

    fn apply(&mut self, op: OpCode, txn: Txn) -> Vec<(ConnId, WatcherEvent)> {
        self.zxid += 1;
        let header = TxnHeader { client_id: 7, cxid: 1, zxid: Zxid(self.zxid), time: 1, op: op as i32 };
        let logged = LoggedTxn { header, txn, digest: None, bytes: Bytes::new() };
        let applied = self.shared.tree.write().apply(&logged, &mut self.shared.watches.lock());
        assert_eq!(applied.err, 0);
        applied.events
    }

    fn create(&mut self, path: &str, acl: &[Acl], ephemeral: bool) -> Vec<(ConnId, WatcherEvent)> {
        let data = Some(Bytes::copy_from_slice(path.as_bytes()));
        let txn = Txn::Create { path: path.into(), data, acl: acl.to_vec(), ephemeral, parent_cversion: -1 };
        self.apply(OpCode::Create, txn)
    }

    fn set(&mut self, path: &str) -> Vec<(ConnId, WatcherEvent)> {
        self.apply(OpCode::SetData, Txn::SetData { path: path.into(), data: None, version: 1 })
    }

    fn delete(&mut self, path: &str) -> Vec<(ConnId, WatcherEvent)> {
        self.apply(OpCode::Delete, Txn::Delete { path: path.into() })
    }

    fn read_as(&self, conn: ConnId, ids: &[Id], request: &Request) -> ReadReply {
        let context = ReadContext { conn, session: SessionId(7), ids, rules: &self.rules };
        process_read(&self.shared, context, request)
    }

    fn read(&self, request: &Request) -> Result<Response, ErrorCode> {
        self.read_as(ME, &[], request).result
    }
}

fn acl(perms: i32, scheme: &str, id: &str) -> Acl {
    Acl { perms, id: Id { scheme: scheme.into(), id: id.into() } }
}

fn world(perms: i32) -> Vec<Acl> {
    vec![acl(perms, "world", "anyone")]
}

fn owner() -> Vec<Id> {
    vec![Id { scheme: "digest".into(), id: "u:h".into() }]
}

fn path(text: &str) -> Arc<str> {
    text.into()
}

fn event(kind: i32, at: &str) -> WatcherEvent {
    WatcherEvent { kind, state: 3, path: at.into() }
}

fn names(list: &[&str]) -> Vec<Arc<str>> {
    list.iter().map(|name| Arc::from(*name)).collect()
}

#[test]
fn every_read_checks_the_node_first_and_the_right_second() {
    let server = Server::new();
    let reads = |at: &str| {
        let path = path(at);
        [
            Request::GetData { path: path.clone(), watch: true },
            Request::GetChildren { path: path.clone(), watch: true },
            Request::GetChildren2 { path: path.clone(), watch: true },
            Request::Exists { path: path.clone(), watch: false },
            Request::GetAcl { path: path.clone() },
            Request::GetAllChildrenNumber { path },
        ]
    };
    for read in reads("/missing") {
        assert_eq!(server.read(&read), Err(ErrorCode::NoNode), "{read:?}");
    }
    for read in reads("/secret") {
        assert_eq!(server.read(&read), Err(ErrorCode::NoAuth), "{read:?}");
        assert!(server.read_as(ME, &owner(), &read).result.is_ok(), "{read:?}");
    }
    assert!(
        server.shared.watches.lock().by_path().keys().eq([&path("/secret")]),
        "refused reads leave no watch"
    );
}

#[test]
fn replies_carry_the_zxid_that_the_tree_had_processed() {
    let server = Server::new();
    let reply = server.read_as(ME, &[], &Request::Ping);
    assert_eq!((reply.zxid, reply.result, reply.events.len()), (Zxid(7), Ok(Response::Empty), 0));
}

#[test]
fn reads_answer_with_what_is_there() {
    let server = Server::new();
    let stat = server.shared.tree.read().client_stat("/open").unwrap();
    assert_eq!((stat.num_children, stat.cversion, stat.pzxid, stat.data_length), (1, 1, 2, 5));
    let open = || path("/open");
    let data = server.read(&Request::GetData { path: open(), watch: false });
    assert_eq!(data, Ok(Response::Data(Some(Bytes::from_static(b"/open")), stat)));
    assert_eq!(server.read(&Request::Exists { path: open(), watch: false }), Ok(Response::Stat(stat)));
    let children = server.read(&Request::GetChildren { path: open(), watch: false });
    assert_eq!(children, Ok(Response::Children(names(&["kid"]))));
    let children = server.read(&Request::GetChildren2 { path: open(), watch: false });
    assert_eq!(children, Ok(Response::ChildrenStat(names(&["kid"]), stat)));
    let root = server.read(&Request::GetChildren { path: path("/"), watch: false });
    assert_eq!(root, Ok(Response::Children(names(&["eph", "open", "secret", "zookeeper"]))));
    for (at, below) in [("/", 10), ("", 11), ("/eph", 2), ("/eph/a", 0)] {
        assert_eq!(
            server.read(&Request::GetAllChildrenNumber { path: path(at) }),
            Ok(Response::Number(below))
        );
    }
}

#[test]
fn an_acl_is_readable_with_read_or_admin_and_hides_hashes_without_admin() {
    let mut server = Server::new();
    let both = [acl(perms::READ, "world", "anyone"), acl(perms::ADMIN, "digest", "u:h")];
    server.create("/both", &both, false);
    server.create("/admin", &[acl(perms::ADMIN, "world", "anyone")], false);
    let read =
        |ids: &[Id], at: &str| match server.read_as(ME, ids, &Request::GetAcl { path: path(at) }).result {
            Ok(Response::Acl(acl, _)) => Ok(acl),
            Ok(other) => panic!("{other:?}"),
            Err(code) => Err(code),
        };
    assert_eq!(read(&owner(), "/both").unwrap(), both);
    assert_eq!(read(&[], "/both").unwrap()[1], acl(perms::ADMIN, "digest", "u:x"));
    assert_eq!(read(&[], "/admin").unwrap().len(), 1);
    assert_eq!(read(&[], "/secret"), Err(ErrorCode::NoAuth));
}

#[test]
fn exists_watches_what_is_not_there_and_refuses_a_null_character() {
    let mut server = Server::new();
    assert_eq!(
        server.read(&Request::Exists { path: path("/a\0"), watch: true }),
        Err(ErrorCode::BadArguments)
    );
    assert_eq!(server.read(&Request::Exists { path: path("/new"), watch: true }), Err(ErrorCode::NoNode));
    assert_eq!(server.create("/new", &world(31), false), [(ME, event(1, "/new"))]);
    assert_eq!(server.set("/new"), [], "a standard watch fires once");
}

#[test]
fn own_ephemerals_are_found_by_prefix_as_text() {
    let server = Server::new();
    for (prefix, wanted) in [("", 2), ("/", 2), (" / ", 2), ("/e", 2), ("/eph/a", 1), ("/open", 0)] {
        let found = server.read(&Request::GetEphemerals { prefix: path(prefix) });
        assert!(
            matches!(&found, Ok(Response::Ephemerals(paths)) if paths.len() == wanted),
            "{prefix}: {found:?}"
        );
    }
}

#[test]
fn a_multi_read_answers_each_entry_for_itself_and_never_watches() {
    let server = Server::new();
    let entries = vec![
        Request::GetData { path: path("/open"), watch: true },
        Request::GetChildren { path: path("/open"), watch: true },
        Request::GetData { path: path("/secret"), watch: false },
        Request::GetChildren { path: path("/missing"), watch: false },
    ];
    let Ok(Response::Multi(results)) = server.read(&Request::MultiRead(entries)) else { panic!() };
    assert!(matches!(&results[0], MultiResult::Ok(OpCode::GetData, Response::Data(Some(_), _))));
    assert_eq!(results[1], MultiResult::Ok(OpCode::GetChildren, Response::Children(names(&["kid"]))));
    assert_eq!(results[2..], [MultiResult::Error(-102), MultiResult::Error(-101)]);
    assert_eq!(server.shared.watches.lock().count(), 0);
    let odd = Request::MultiRead(vec![Request::Exists { path: path("/"), watch: false }]);
    assert_eq!(server.read(&odd), Err(ErrorCode::MarshallingError));
}

#[test]
fn who_am_i_names_users_without_their_hashes() {
    let server = Server::new();
    let ids = [owner().remove(0), Id { scheme: "ip".into(), id: "::1".into() }];
    let told = server.read_as(ME, &ids, &Request::WhoAmI).result;
    let info = |scheme: &str, user: &str| ClientInfo { scheme: scheme.into(), user: user.into() };
    assert_eq!(told, Ok(Response::WhoAmI(vec![info("digest", "u"), info("ip", "::1")])));
}

#[test]
fn requests_that_write_are_not_answered_here() {
    let server = Server::new();
    let delete = Request::Delete { path: path("/open"), version: -1 };
    assert_eq!(server.read(&delete), Err(ErrorCode::Unimplemented));
    assert_eq!(server.read(&Request::Sync { path: path("/") }), Err(ErrorCode::Unimplemented));
}

#[test]
fn set_watches_tells_at_once_what_was_missed_and_watches_the_rest() {
    let mut server = Server::new();
    server.set("/open");
    let seen_all = server.zxid;
    let request = |since: i64| Request::SetWatches2 {
        relative_zxid: since,
        data: names(&["/open", "/gone"]),
        exist: names(&["/eph", "/later"]),
        child: names(&["/open", "/gone", "/eph"]),
        persistent: names(&["/p"]),
        persistent_recursive: names(&["/r"]),
    };
    let reply = server.read_as(ME, &[], &request(seen_all));
    assert_eq!(reply.result, Ok(Response::Empty));
    assert_eq!(reply.events, [event(2, "/gone"), event(1, "/eph"), event(2, "/gone")]);
    assert_eq!(server.set("/open"), [(ME, event(3, "/open"))]);
    assert_eq!(server.delete("/open/kid"), [(ME, event(4, "/open"))]);
    assert_eq!(server.create("/later", &world(31), false), [(ME, event(1, "/later"))]);
    let reply = server.read_as(OTHER, &[], &request(1));
    let missed = [event(3, "/open"), event(2, "/gone"), event(1, "/eph"), event(1, "/later")];
    let children = [event(4, "/open"), event(2, "/gone"), event(4, "/eph")];
    assert_eq!(reply.events, [missed.as_slice(), &children].concat());
    assert_eq!(server.create("/r", &world(31), false), [(ME, event(1, "/r")), (OTHER, event(1, "/r"))]);
    assert_eq!(server.create("/r/x", &world(31), false), [(ME, event(1, "/r/x")), (OTHER, event(1, "/r/x"))]);
}

#[test]
fn watches_are_added_checked_and_removed_by_type() {
    let server = Server::new();
    let add = |mode| server.read(&Request::AddWatch { path: path("/open"), mode });
    let check = |kind| server.read(&Request::CheckWatches { path: path("/open"), kind });
    let remove = |kind| server.read(&Request::RemoveWatches { path: path("/open"), kind });
    let (yes, no) = (Ok(Response::Empty), Err(ErrorCode::NoWatcher));
    assert_eq!((1..=5).map(check).collect::<Vec<_>>(), vec![no.clone(); 5]);
    assert_eq!(add(0), Ok(Response::Error(0)));
    assert_eq!(add(1), Ok(Response::Error(0)));
    assert_eq!(add(2), Err(ErrorCode::MarshallingError));
    assert_eq!(check(6), Err(ErrorCode::MarshallingError));
    server.read(&Request::GetData { path: path("/open"), watch: true }).unwrap();
    let kinds: Vec<_> = (1..=5).map(check).collect();
    assert_eq!(kinds, [no.clone(), yes.clone(), yes.clone(), yes.clone(), yes.clone()]);
    server.read(&Request::GetChildren { path: path("/open"), watch: true }).unwrap();
    assert_eq!(remove(5), yes);
    assert_eq!(remove(5), no);
    assert_eq!(remove(4), yes);
    assert_eq!((check(1), check(2), check(4)), (yes.clone(), yes.clone(), no.clone()));
    assert_eq!(remove(1), yes);
    assert_eq!((check(1), check(2)), (no.clone(), yes.clone()));
    assert_eq!(remove(3), yes);
    assert_eq!(remove(3), no);
    assert_eq!(server.shared.watches.lock().count(), 0);
}

#[test]
fn an_event_goes_only_to_those_who_may_read_the_node_at_that_moment() {
    let mut server = Server::new();
    let recursive = Request::AddWatch { path: path("/"), mode: 1 };
    server.read_as(ME, &owner(), &recursive).result.unwrap();
    server.read_as(OTHER, &[], &recursive).result.unwrap();
    assert_eq!(server.set("/secret"), [(ME, event(3, "/secret"))]);
    assert_eq!(server.set("/open"), [(ME, event(3, "/open")), (OTHER, event(3, "/open"))]);
    assert_eq!(server.delete("/secret/kid"), [(ME, event(2, "/secret/kid"))]);
    server.shared.watches.lock().set_auth(OTHER, SessionId(7), &owner());
    assert_eq!(server.set("/secret").len(), 2, "an identity added later counts");
    server.shared.watches.lock().set_skip_acl(true);
    server.shared.watches.lock().set_auth(OTHER, SessionId(7), &[]);
    assert_eq!(server.set("/secret").len(), 2, "skipACL delivers all");
}

#[test]
fn a_child_event_is_filtered_by_the_parent_and_a_filtered_watch_is_used_up() {
    let mut server = Server::new();
    let children = Request::GetChildren { path: path("/secret"), watch: true };
    server.read_as(ME, &owner(), &children).result.unwrap();
    server.shared.watches.lock().set_auth(ME, SessionId(7), &[]);
    assert_eq!(server.create("/secret/new", &world(31), false), []);
    server.shared.watches.lock().set_auth(ME, SessionId(7), &owner());
    assert_eq!(server.create("/secret/newer", &world(31), false), []);
}

#[test]
fn a_closed_connection_leaves_nothing_behind() {
    let mut server = Server::new();
    for conn in [ME, OTHER] {
        server.read_as(conn, &[], &Request::GetData { path: path("/open"), watch: true }).result.unwrap();
        server.read_as(conn, &[], &Request::GetChildren { path: path("/open"), watch: true }).result.unwrap();
        server.read_as(conn, &[], &Request::AddWatch { path: path("/"), mode: 1 }).result.unwrap();
    }
    assert_eq!(server.shared.watches.lock().count(), 6);
    server.shared.watches.lock().remove_conn(ME);
    assert_eq!(server.shared.watches.lock().count(), 3);
    assert_eq!(server.set("/open"), [(OTHER, event(3, "/open"))]);
    server.shared.watches.lock().remove_conn(OTHER);
    assert!(server.shared.watches.lock().is_empty());
    assert_eq!(server.set("/open"), []);
}

#[test]
fn reports_list_data_watches_by_session_and_by_path() {
    let server = Server::new();
    server.read_as(ME, &[], &Request::GetData { path: path("/open"), watch: true }).result.unwrap();
    server.read_as(ME, &[], &Request::GetData { path: path("/eph"), watch: true }).result.unwrap();
    server.read_as(OTHER, &[], &Request::GetData { path: path("/eph"), watch: true }).result.unwrap();
    server.read_as(OTHER, &[], &Request::GetChildren { path: path("/eph"), watch: true }).result.unwrap();
    let watches = server.shared.watches.lock();
    let summary = watches.summary();
    assert_eq!((summary.connections, summary.paths, summary.total, watches.count()), (2, 2, 3, 4));
    assert!(watches.by_session()[&SessionId(7)].iter().eq(&names(&["/eph", "/open"])));
    assert!(watches.by_path().keys().eq(&names(&["/eph", "/open"])));
}
