//! What the planner reads (a member's facts) and what it writes for members (`zoo.cfg`).

use zk_operator::crd::{ZkEnsemble, strict};
use zk_operator::plan::{Layout, MemberFacts, MemberId, Membership, Objects, Role, Zxid};
use zk_operator::probe;

const ANSWER: &str = r#"{"command":"member","error":null,"version":"0.1.0","boot_id":"a1","my_id":1,"role":"leader",
"leader_id":1,"accepted_epoch":3,"current_epoch":3,"accepted_epoch_disk":3,"current_epoch_disk":3,
"epoch_files_error":null,"zxid_logged":"0x300000004","zxid_committed":"0x300000004","zxid_applied":"0x300000004",
"synced":true,"voters":[1,2,3],"observers":[],"synced_voters":[1,2,3],"synced_observers":[],"sync_queue_depth":0,
"config_version":"0x0","digests":[{"zxid":"0x300000004","digest":"0x1234","version":2}],"digest_mismatches":0,
"disk_free_bytes":500,"disk_total_bytes":1000,"inodes_free":1,"disk_full":false,"draining":false,"clean_marker":null,
"uptime_ms":1,"client_port":2181,"sessions":3,"connections":3,"outstanding":0,"a_field_of_tomorrow":{"x":[1]}}"#;

#[test]
fn a_members_answer_is_read_field_by_field_and_unknown_fields_are_ignored() {
    let facts: MemberFacts = serde_json::from_str(ANSWER).expect("the agreed answer");
    assert_eq!((facts.my_id, facts.role, facts.leader_id), (MemberId(1), Role::Leader, Some(MemberId(1))));
    assert_eq!(facts.zxid_committed, Zxid(0x3_0000_0004));
    assert_eq!((facts.zxid_committed.epoch(), facts.zxid_committed.counter()), (3, 4));
    assert_eq!(facts.synced_voters, [MemberId(1), MemberId(2), MemberId(3)]);
    assert_eq!(facts.digests[0].digest, "0x1234");
    assert_eq!(facts.disk_used_percent(), Some(50));
    assert_eq!(facts.epoch_trouble(), None);
}

#[test]
fn missing_fields_claim_nothing() {
    let facts: MemberFacts = serde_json::from_str(r#"{"role":"a role of tomorrow"}"#).expect("mostly empty");
    assert_eq!((facts.role, facts.synced, facts.current_epoch_disk), (Role::Unknown, false, None));
    let empty: MemberFacts =
        serde_json::from_str(r#"{"zxid_logged":"0xffffffffffffffff"}"#).expect("no history");
    assert_eq!(empty.zxid_logged, Zxid(-1));
}

#[test]
fn epoch_files_that_disagree_with_memory_are_trouble() {
    let facts: MemberFacts = serde_json::from_str(ANSWER).expect("the agreed answer");
    let current = MemberFacts { current_epoch_disk: Some(2), ..facts.clone() };
    assert!(current.epoch_trouble().is_some_and(|text| text.contains("3 and 2 on disk")));
    let missing = MemberFacts { accepted_epoch_disk: None, ..facts.clone() };
    assert!(missing.epoch_trouble().is_some_and(|text| text.contains("missing")));
    let unreadable = MemberFacts { epoch_files_error: Some("currentEpoch: empty".to_owned()), ..facts };
    assert_eq!(unreadable.epoch_trouble().as_deref(), Some("currentEpoch: empty"));
}

fn with_observer() -> ZkEnsemble {
    strict::read(
        "apiVersion: zkensemble.dev/v1alpha1\nkind: ZkEnsemble\nmetadata: { name: zoo }\nspec: { replicas: 1, observers: 1, config: { tickTime: '500' } }",
    )
    .expect("valid")
}

fn objects(layout: &Layout) -> Objects {
    let ensemble = with_observer();
    Objects::of(&ensemble, &Membership::wanted(&ensemble.spec), layout)
}

#[test]
fn a_local_members_zoo_cfg_is_whole() {
    let objects = objects(&Layout::Machine { base_port: 2181, root: "/data".to_owned() });
    let expected = "\
# Member 101 of zoo, written by zk-operator; edits are lost.
4lw.commands.whitelist=conf,cons,crst,dirs,dump,envi,gtmk,isro,mntr,ruok,srst,srvr,stat,wchs
admin.enableServer=true
autopurge.purgeInterval=1
autopurge.snapRetainCount=3
db.autocreate=false
initLimit=10
maxClientCnxns=60
standaloneEnabled=false
syncLimit=5
tickTime=500
dataDir=/data/zoo-101/data
admin.serverAddress=127.0.0.1
admin.serverPort=2291
peerType=observer
server.1=127.0.0.1:2381:2481:participant;127.0.0.1:2181
server.101=127.0.0.1:2391:2491:observer;127.0.0.1:2191
";
    assert_eq!(objects.member(MemberId(101)).expect("the observer").zoo_cfg, expected);
}

#[test]
fn on_a_cluster_members_are_known_by_host_name() {
    let layout = Layout::Cluster { namespace: "prod".to_owned(), domain: "cluster.local".to_owned() };
    let objects = objects(&layout);
    let cfg = &objects.member(MemberId(1)).expect("the voter").zoo_cfg;
    for line in [
        "server.1=zoo-0.zoo-headless.prod.svc.cluster.local:2888:3888:participant;0.0.0.0:2181",
        "server.101=zoo-observer-0.zoo-headless.prod.svc.cluster.local:2888:3888:observer;0.0.0.0:2181",
        "dataDir=/var/lib/zookeeper/data",
    ] {
        assert!(cfg.lines().any(|found| found == line), "{line} is missing in {cfg}");
    }
    assert!(!cfg.contains("peerType"));
}

/// Answers one connection with `response` and closes it.
async fn serve(response: String) -> u16 {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut request = [0; 4096];
        let length = stream.read(&mut request).await.expect("a request");
        assert!(request[..length].starts_with(b"GET /commands/member HTTP/1.1\r\n"));
        stream.write_all(response.as_bytes()).await.expect("the answer is taken");
    });
    port
}

#[tokio::test]
async fn a_probe_brings_the_facts_over_http() {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", ANSWER.len());
    let port = serve(format!("{head}{ANSWER}")).await;
    let facts = probe::member("127.0.0.1", port).await.expect("an answer");
    assert_eq!(facts.role, Role::Leader);
}

#[tokio::test]
async fn a_chunked_answer_that_ends_with_the_connection_is_read_too() {
    let text = format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{ANSWER}\r\n0\r\n\r\n",
        ANSWER.len()
    );
    let facts = probe::member("127.0.0.1", serve(text).await).await.expect("an answer");
    assert_eq!(facts.my_id, MemberId(1));
}

#[tokio::test]
async fn what_is_no_answer_is_an_error_and_never_facts() {
    let endless = format!("HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n{}", " ".repeat(300_000));
    for response in [
        "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnope".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_owned(),
        "imok".to_owned(),
        endless,
    ] {
        let error = probe::member("127.0.0.1", serve(response.clone()).await).await;
        assert!(error.is_err(), "{:?}", &response[..response.len().min(60)]);
    }
}

#[tokio::test]
async fn a_member_that_accepts_and_says_nothing_costs_a_bounded_time() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let started = std::time::Instant::now();
    let error = probe::member("127.0.0.1", listener.local_addr().expect("an address").port()).await;
    assert!(matches!(error, Err(probe::ProbeError::Timeout { .. })), "{error:?}");
    assert!(started.elapsed() < 2 * probe::TIMEOUT);
}
