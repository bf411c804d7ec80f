//! `spec.config` at the bounds of every key: the CEL rules, the offline rules and zk-server's own parser agree, and
//! nothing that is accepted is without effect.

use std::path::Path;

use kube::core::cel::Validator;
use serde_json::json;
use zk_operator::crd::validate::validate;
use zk_operator::crd::{CONFIG_KEYS, ValueKind, ZkEnsemble, generate};
use zk_operator::plan::{Layout, MemberId, Membership, zoo_cfg};
use zk_server::config::keys::{Treatment, treatment};
use zk_server::config::{Sources, load};

fn with(config: &[(&str, &str)]) -> ZkEnsemble {
    let config: serde_json::Map<String, serde_json::Value> =
        config.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    let value = json!({
        "apiVersion": "zkensemble.dev/v1alpha1", "kind": "ZkEnsemble", "metadata": { "name": "zoo" },
        "spec": { "config": config }
    });
    serde_json::from_value(value).expect("the case has the right types")
}

/// What the server's parser says of member 1 of `ensemble`: its errors and its warnings.
fn server_says(ensemble: &ZkEnsemble, directory: &Path) -> (Vec<String>, Vec<String>) {
    let layout = Layout::Machine { base_port: 2181, root: directory.display().to_string() };
    let membership = Membership::wanted(&ensemble.spec);
    let data = layout.address("zoo", MemberId(1)).data_dir;
    std::fs::create_dir_all(&data).expect("a directory");
    std::fs::write(Path::new(&data).join("myid"), "1\n").expect("myid");
    let file = directory.join("zoo.cfg");
    std::fs::write(&file, zoo_cfg(ensemble, &membership, &layout, MemberId(1))).expect("zoo.cfg");
    let lines = |list: &[zk_server::config::Diagnostic]| list.iter().map(ToString::to_string).collect();
    match load(&Sources { file: Some(file), ..Sources::default() }) {
        Ok(loaded) => (Vec::new(), lines(&loaded.warnings)),
        Err(errors) => (lines(&errors), Vec::new()),
    }
}

/// Checks that both sets of rules answer `valid`, and that what they accept the server takes without a word.
fn check(config: &[(&str, &str)], valid: bool, validator: &Validator, directory: &Path) {
    let ensemble = with(config);
    let found = validate(&ensemble);
    assert_eq!(found.is_empty(), valid, "offline, {config:?}: {found:?}");
    let value = serde_json::to_value(&ensemble).expect("plain data");
    let cel = validator.validate(&generate::schema(), &value, None);
    assert_eq!(cel.is_ok(), valid, "CEL, {config:?}: {cel:?}");
    if valid {
        let (errors, warnings) = server_says(&ensemble, directory);
        assert!(errors.is_empty(), "the server refuses {config:?}: {errors:?}");
        assert!(warnings.is_empty(), "the server does not do as told by {config:?}: {warnings:?}");
    }
}

/// Session timeouts depend on each other: one at its bound needs the other to match.
fn companion(key: &str) -> Option<(&'static str, &'static str)> {
    match key {
        "maxSessionTimeout" => Some(("minSessionTimeout", "1")),
        "minSessionTimeout" => Some(("maxSessionTimeout", "999999999")),
        _ => None,
    }
}

/// Values at and around the bounds of a key, and whether they are valid.
fn cases(kind: ValueKind) -> Vec<(String, bool)> {
    let texts: Vec<(&str, bool)> = match kind {
        ValueKind::Number { .. } => vec![("", false), ("1e3", false), ("000000000000001", false)],
        ValueKind::Bool => vec![("true", true), ("false", true), ("yes", false), ("", false)],
        ValueKind::Words => vec![
            ("*", true),
            ("ruok", true),
            ("ruok, stat ,mntr", true),
            ("", false),
            ("ruok,", false),
            ("ruok stat", false),
            ("*,ruok", false),
            ("ru-ok", false),
        ],
    };
    let mut cases: Vec<(String, bool)> =
        texts.into_iter().map(|(text, valid)| (text.to_owned(), valid)).collect();
    if let ValueKind::Number { min, max } = kind {
        let (min, max) = (i64::from(min), i64::from(max));
        let bounds = [(min - 1, false), (min, true), (max, true), (max + 1, false)];
        cases.extend(bounds.map(|(number, valid)| (number.to_string(), valid)));
    }
    cases
}

/// The fault: `jute.maxbuffer` was accepted up to 999999999, where the server stops at 536870911 and never starts; the
/// API server took `snapCount: "0"`, which local mode refuses.
#[test]
fn every_key_is_accepted_at_its_bounds_and_refused_beyond_by_all_that_check_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let validator = Validator::new();
    for key in CONFIG_KEYS {
        for (value, valid) in cases(key.kind) {
            let config: Vec<(&str, &str)> =
                [(key.name, value.as_str())].into_iter().chain(companion(key.name)).collect();
            check(&config, valid, &validator, directory.path());
        }
    }
}

/// The fault: timeouts that contradict each other were accepted, and every member of the first bootstrap ended with
/// exit code 2 for ever.
#[test]
fn session_timeouts_that_contradict_each_other_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let validator = Validator::new();
    let cases: [(&[(&str, &str)], bool); 9] = [
        (&[("minSessionTimeout", "5000"), ("maxSessionTimeout", "4999")], false),
        (&[("minSessionTimeout", "5000"), ("maxSessionTimeout", "5000")], true),
        (&[("maxSessionTimeout", "3999")], false),
        (&[("maxSessionTimeout", "4000")], true),
        (&[("tickTime", "500"), ("maxSessionTimeout", "3999")], true),
        (&[("tickTime", "500"), ("maxSessionTimeout", "999")], false),
        (&[("minSessionTimeout", "40001")], false),
        (&[("minSessionTimeout", "40000")], true),
        (&[("tickTime", "500"), ("minSessionTimeout", "10001")], false),
    ];
    for (config, valid) in cases {
        check(config, valid, &validator, directory.path());
        let (errors, _) = server_says(&with(config), directory.path());
        assert_eq!(errors.is_empty(), valid, "the server on {config:?}: {errors:?}");
    }
}

/// The fault: `leaderServes` and `localSessionsEnabled` were accepted, and did nothing.
#[test]
fn no_key_is_accepted_that_the_server_does_not_use() {
    for key in CONFIG_KEYS {
        assert_eq!(treatment(key.name), Some(Treatment::Used), "{}", key.name);
    }
    for key in ["leaderServes", "localSessionsEnabled", "localSessionsUpgradingEnabled"] {
        assert!(!validate(&with(&[(key, "true")])).is_empty(), "{key}");
    }
}
