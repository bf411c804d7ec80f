//! The four-letter words, the admin commands and `mntr` of real members, compared by shape with what the Java server
//! answers in the same situation (`golden/java_3_9_5_admin.json`, which tells how it was made).

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::client::{Client, admin, word};
use common::ensemble::is_synced;
use common::process::{Member, eventually, free_port};
use serde_json::Value;
use zk_jute::OpCode;
use zk_jute::request::Request;

/// Sets of a node before anything is compared: enough for a digest in the log.
const SETS: usize = 140;
/// Objects whose keys are data.
const MAPS: [&str; 5] = [
    "current_config",
    "path_to_session_ids",
    "session_id_to_watched_paths",
    "session_id_to_ephemeral_paths",
    "expiry_time_to_session_ids",
];
/// Counters of ours that upstream's `mntr` does not have.
const OWN: [&str; 1] = ["fsync_threshold_exceed_count"];

fn golden() -> Value {
    serde_json::from_str(include_str!("golden/java_3_9_5_admin.json")).expect("golden file")
}

/// What `section` has for `role` and for every role.
fn entries(section: &Value, role: &str) -> Vec<(String, Value)> {
    let of = |role: &str| section[role].as_object().expect(role).clone().into_iter();
    of("every role").chain(of(role)).collect()
}

/// Every path of keys in `value`.
fn paths(value: &Value, prefix: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let key = if MAPS.contains(&prefix) { "*" } else { key };
                let path = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
                paths(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| paths(item, &format!("{prefix}[]"), found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn strings(value: &Value) -> BTreeSet<String> {
    value.as_array().expect("list").iter().map(|item| item.as_str().expect("text").to_owned()).collect()
}

/// What only one of them has.
fn difference<'a>(found: &'a BTreeSet<String>, wanted: &'a BTreeSet<String>) -> Vec<&'a String> {
    found.symmetric_difference(wanted).collect()
}

/// As the golden file has texts: without what differs from run to run.
fn shape(text: &str, dir: &Path) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        if let Some((name, _)) = line.split_once(dir.to_str().expect("path")) {
            out.push_str(&format!("{name}<dir>\n"));
        } else if let Some((start, rest)) = line.split_once("lop=") {
            let (_, rest) = rest.split_once(',').expect("more after lop");
            out.push_str(&format!("{}lop=<op>,{}", numbers(start), numbers(rest)));
        } else if line.starts_with("Zookeeper version: 3.9.5-") {
            out.push_str("Zookeeper version: <version>\n");
        } else {
            out.push_str(&numbers(line));
        }
    }
    out
}

fn numbers(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let unsigned = rest.strip_prefix('-').unwrap_or(rest);
        if let Some(hex) = rest.strip_prefix("0x") {
            out.push_str("<hex>");
            rest = hex.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        } else if digits(unsigned) > 0 {
            out.push_str("<n>");
            rest = &unsigned[digits(unsigned)..];
            let fraction = rest.strip_prefix('.').map_or(0, digits);
            rest = if fraction > 0 { &rest[fraction + 1..] } else { rest };
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// A session that makes an ephemeral node, a digest, and a watch.
fn busy_client(member: &Member, name: &str) -> Client {
    let mut client = member.client();
    client.create(&format!("/{name}"), b"").expect("create");
    client.create_ephemeral(&format!("/{name}/e")).expect("create");
    for round in 0..SETS {
        client.set(&format!("/{name}"), round.to_string().as_bytes()).expect("set");
    }
    let watch = Request::GetData { path: format!("/{name}").into(), watch: true };
    client.call(OpCode::GetData, &watch).expect("get");
    client
}

fn commands_have_the_fields(member: &Member, role: &str) {
    for (command, wanted) in entries(&golden()["commands"], role) {
        let answer = admin(member.admin_port, &format!("/commands/{command}")).expect("answer");
        let mut found = BTreeSet::new();
        paths(&answer, "", &mut found);
        let mut wanted = strings(&wanted);
        // When sessions expire is not reported yet.
        wanted.remove("expiry_time_to_session_ids.*");
        assert!(found == wanted, "{role}: {command}: {:?} in {answer:#}", difference(&found, &wanted));
    }
}

fn mntr_has_the_series(member: &Member, role: &str) {
    let mut wanted = strings(&golden()["mntr"]["every role"]);
    wanted.extend(strings(&golden()["mntr"][role]));
    wanted.extend(OWN.map(|name| format!("zk_{name}")));
    let text = word(member.client_port, "mntr");
    let found: BTreeSet<String> =
        text.lines().map(|line| line.split_once('\t').expect(line).0.to_owned()).collect();
    assert!(found == wanted, "{role}: mntr: {:?}", difference(&found, &wanted));
    assert_eq!(text.lines().count(), wanted.len(), "{role}: a series is listed twice");
    let answer = admin(member.admin_port, "/commands/monitor").expect("answer");
    let keys = answer.as_object().expect("object").keys().filter(|key| *key != "command" && *key != "error");
    let keys: BTreeSet<String> = keys.map(|key| format!("zk_{key}")).collect();
    assert!(keys == wanted, "{role}: monitor: {:?}", difference(&keys, &wanted));
}

/// Lines may come in another order where upstream's come from a hash table.
fn words_have_the_shape(member: &Member, role: &str) {
    for (name, wanted) in entries(&golden()["words"], role) {
        let wanted = wanted.as_str().expect("text");
        let answer = match &*name {
            "envi" => member_environment(member),
            "stmk" => word(member.client_port, "stmk\0\0\0\0\0\0\0\0"),
            _ => word(member.client_port, &name),
        };
        let found = if name == "envi" { answer } else { shape(&answer, &member.dir) };
        let lines = |text: &str| text.split_inclusive('\n').map(str::to_owned).collect::<BTreeSet<_>>();
        if matches!(&*name, "cons" | "stat") {
            assert_eq!(lines(&found), lines(wanted), "{role}: {name}");
        } else {
            assert_eq!(found, wanted, "{role}: {name}");
        }
    }
}

fn member_environment(member: &Member) -> String {
    let line =
        |line: &str| line.split_once('=').map_or_else(|| format!("{line}\n"), |(key, _)| format!("{key}=\n"));
    word(member.client_port, "envi").lines().map(line).collect()
}

/// A leader proposes, the others are told.
fn counts_what_its_role_does(member: &Member, role: &str) {
    let monitor = admin(member.admin_port, "/commands/monitor").expect("answer");
    let value = |name: &str| monitor[name].as_i64().unwrap_or_else(|| panic!("{name} in {monitor:#}"));
    let (proposed, received) = (value("proposal_count"), value("learner_proposal_received_count"));
    let (committed, told) = (value("commit_count"), value("learner_commit_received_count"));
    let least = 4 * i64::try_from(SETS).expect("small");
    if role == "leader" {
        assert!(committed >= least && proposed >= committed && received == 0, "{role}: {monitor:#}");
        assert!(value("min_proposal_size") > 0 && value("min_proposal_size") <= value("max_proposal_size"));
        assert_eq!((value("learners"), value("synced_followers"), value("synced_observers")), (3, 2, 1));
    } else {
        assert!(committed == 0 && told >= least && proposed == 0 && received > 0, "{role}: {monitor:#}");
    }
}

#[test]
fn a_standalone_server_answers_in_the_shapes_of_upstream() {
    let dir = tempfile::tempdir().expect("directory");
    let mut member = Member::new(dir.path(), "maxClientCnxns=0");
    member.spawn(&[]);
    let _client = busy_client(&member, "cap1");
    words_have_the_shape(&member, "standalone");
    mntr_has_the_series(&member, "standalone");
    commands_have_the_fields(&member, "standalone");
}

#[test]
fn leader_follower_and_observer_answer_in_the_shapes_of_upstream() {
    let dir = tempfile::tempdir().expect("directory");
    let mut text = "initLimit=20\nsyncLimit=10\nmaxClientCnxns=0\n".to_owned();
    for id in 1..=4 {
        let role = if id == 4 { "observer" } else { "participant" };
        text.push_str(&format!("server.{id}=127.0.0.1:{}:{}:{role}\n", free_port(), free_port()));
    }
    let member = |id: usize| {
        let peer_type = if id == 4 { "peerType=observer\n" } else { "" };
        let mut member = Member::new(&dir.path().join(id.to_string()), &format!("{text}{peer_type}"));
        std::fs::write(member.data().join("myid"), id.to_string()).expect("myid");
        member.spawn(&[]);
        member
    };
    let members: Vec<Member> = (1..=4).map(member).collect();
    eventually("every member takes part", || members.iter().all(is_synced));
    let clients =
        members.iter().enumerate().map(|(index, member)| busy_client(member, &format!("cap{index}")));
    let _clients: Vec<Client> = clients.collect();
    for member in &members {
        let role = member.role();
        // First, because `srst` is among the words.
        counts_what_its_role_does(member, &role);
        words_have_the_shape(member, &role);
        mntr_has_the_series(member, &role);
        commands_have_the_fields(member, &role);
    }
}

#[test]
fn a_member_that_looks_for_a_leader_refuses_as_upstream_does_and_still_tells_its_metrics() {
    let dir = tempfile::tempdir().expect("directory");
    let mut text = "initLimit=20\nsyncLimit=10\n".to_owned();
    for id in 1..=3 {
        text.push_str(&format!("server.{id}=127.0.0.1:{}:{}\n", free_port(), free_port()));
    }
    let mut member = Member::new(dir.path(), &text);
    std::fs::write(member.data().join("myid"), "1").expect("myid");
    member.spawn(&[]);
    // It says so from the start, and counts it once it has read its disk.
    let counted = || admin(member.admin_port, "/commands/monitor").ok()?["looking_count"].as_i64();
    eventually("it looks", || member.role() == "looking" && counted() >= Some(1));
    for (name, wanted) in golden()["words"]["looking"].as_object().expect("looking") {
        assert_eq!(&word(member.client_port, name), wanted.as_str().expect("text"), "{name}");
    }
    for (command, wanted) in golden()["commands"]["looking"].as_object().expect("looking") {
        let answer = admin(member.admin_port, &format!("/commands/{command}")).expect("answer");
        let mut found = BTreeSet::new();
        paths(&answer, "", &mut found);
        // These two tell more than upstream, which fails and is silent then.
        if !matches!(&**command, "environment" | "zabstate") {
            assert_eq!(found, strings(wanted), "{command}: {answer:#}");
        }
    }
    let zabstate = admin(member.admin_port, "/commands/zabstate").expect("answer");
    assert_eq!(zabstate["zabstate"], "election");
    let monitor = admin(member.admin_port, "/commands/monitor").expect("answer");
    assert_eq!((&monitor["server_state"], &monitor["error"]), (&"looking".into(), &Value::Null));
    assert!(
        monitor["looking_count"].as_i64() >= Some(1) && monitor["znode_count"].is_number(),
        "{monitor:#}"
    );
}
