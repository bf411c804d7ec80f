//! The rules of `ZkEnsemble`: the CEL rules the API server evaluates and the offline rules answer alike, and offline
//! answers can be read.

use kube::core::cel::Validator;
use serde_json::{Value, json};
use zk_operator::crd::validate::{validate, validate_update};
use zk_operator::crd::{ZkEnsemble, generate, strict};

fn named(name: &str, spec: Value) -> ZkEnsemble {
    let value = json!({
        "apiVersion": "zkensemble.dev/v1alpha1", "kind": "ZkEnsemble", "metadata": { "name": name }, "spec": spec
    });
    serde_json::from_value(value).expect("the case has the right types")
}

fn with(spec: Value) -> ZkEnsemble {
    named("zoo", spec)
}

/// Whether the CRD's CEL rules accept `new`. Ranges and patterns are OpenAPI's, not CEL's, so cases keep to CEL rules.
fn cel_accepts(new: &ZkEnsemble, old: Option<&ZkEnsemble>) -> bool {
    let json = |ensemble| serde_json::to_value(ensemble).expect("plain data");
    Validator::new().validate(&generate::schema(), &json(new), old.map(json).as_ref()).is_ok()
}

#[test]
fn cel_and_offline_rules_agree_on_every_resource() {
    let cases = [
        (with(json!({})), true),
        (with(json!({ "replicas": 1 })), true),
        (with(json!({ "replicas": 7, "observers": 16 })), true),
        (with(json!({ "replicas": 2 })), false),
        (with(json!({ "replicas": 4 })), false),
        (with(json!({ "image": "registry.example/zk-server:1" })), true),
        (with(json!({ "image": "local:./target/zk-server" })), true),
        (with(json!({ "image": "" })), false),
        (with(json!({ "image": "zk server" })), false),
        (with(json!({ "storage": { "size": "1.5Ti" } })), true),
        (with(json!({ "storage": { "size": "0" } })), false),
        (with(json!({ "storage": { "size": "0Gi" } })), false),
        (with(json!({ "config": { "tickTime": "500", "digest.enabled": "false" } })), true),
        (with(json!({ "config": { "4lw.commands.whitelist": "*" } })), true),
        (with(json!({ "config": { "clientPort": "2181" } })), false),
        (with(json!({ "config": { "server.1": "a:1:2" } })), false),
        (with(json!({ "config": { "forceSync": "no" } })), false),
        (with(json!({ "config": { "tickTime": "soon" } })), false),
        (with(json!({ "config": { "snapCount": "-1" } })), false),
        (with(json!({ "config": { "digest.enabled": "maybe" } })), false),
        (with(json!({ "config": { "leaderServes": "no" } })), false),
        (named("a", json!({})), true),
        (named("zoo-2", json!({})), true),
        (named("2-zoo", json!({})), false),
        (named("Zoo", json!({})), false),
        (named("zoo-", json!({})), false),
        (named(&"z".repeat(40), json!({})), true),
        (named(&"z".repeat(41), json!({})), false),
    ];
    for (ensemble, valid) in cases {
        let found = validate(&ensemble);
        let spec = &ensemble.spec;
        assert_eq!(found.is_empty(), valid, "offline, {:?}: {found:?} in {spec:?}", ensemble.metadata.name);
        assert_eq!(cel_accepts(&ensemble, None), valid, "CEL, {:?}: {spec:?}", ensemble.metadata.name);
    }
}

#[test]
fn cel_and_offline_rules_agree_on_every_change() {
    let size = |size: &str| with(json!({ "storage": { "size": size } }));
    let class = |class: &str| with(json!({ "storage": { "storageClassName": class } }));
    let cases = [
        (size("10Gi"), size("20Gi"), true),
        (size("10Gi"), size("10Gi"), true),
        (size("10Gi"), size("10240Mi"), true),
        (size("10Gi"), size("10G"), false),
        (size("1Ti"), size("999Gi"), false),
        (class("fast"), class("fast"), true),
        (class("fast"), class("slow"), false),
        (class("fast"), with(json!({})), false),
        (with(json!({})), class("fast"), false),
        (with(json!({ "replicas": 3 })), with(json!({ "replicas": 5 })), true),
        (with(json!({ "replicas": 3 })), with(json!({ "replicas": 4 })), false),
    ];
    for (old, new, valid) in cases {
        let found = validate_update(&new, &old);
        assert_eq!(found.is_empty(), valid, "offline: {found:?} from {:?} to {:?}", old.spec, new.spec);
        assert_eq!(cel_accepts(&new, Some(&old)), valid, "CEL: from {:?} to {:?}", old.spec, new.spec);
    }
}

#[test]
fn ranges_are_checked_offline_as_openapi_checks_them() {
    for spec in [
        json!({ "replicas": 9 }),
        json!({ "replicas": -1 }),
        json!({ "observers": 17 }),
        json!({ "rollout": { "settleSeconds": -1 } }),
        json!({ "rollout": { "drainSeconds": 0 } }),
        json!({ "storage": { "size": "ten" } }),
        json!({ "version": "a b" }),
    ] {
        let ensemble = with(spec.clone());
        assert!(!validate(&ensemble).is_empty(), "{spec} is out of range");
    }
}

fn refusal(spec: &str) -> String {
    let text = format!(
        "apiVersion: zkensemble.dev/v1alpha1\nkind: ZkEnsemble\nmetadata: {{ name: zoo }}\nspec: {spec}\n"
    );
    strict::read(&text).expect_err("the spec is wrong").to_string()
}

#[test]
fn a_refusal_names_the_field_and_says_what_to_write() {
    assert_eq!(refusal("{ replica: 3 }"), "spec.replica: unknown field");
    assert_eq!(refusal("{ rollout: { settle: 3 } }"), "spec.rollout.settle: unknown field");
    assert_eq!(
        refusal("{ config: { tickTime: 500 } }"),
        "spec.config.tickTime: must be a string; write it in quotes: \"500\""
    );
    assert_eq!(refusal("{ replicas: many }"), "spec.replicas: must be of type integer");
    assert_eq!(
        refusal("{ replicas: 4 }"),
        "spec.replicas: must be odd: an even number of voters tolerates no more failures than one voter fewer"
    );
    assert_eq!(
        refusal("{ config: { snapCount: \"0\" } }"),
        "spec.config[snapCount]: must be a whole number from 2 to 999999999, is \"0\""
    );
    let several = refusal("{ replicas: 8, observers: 20 }");
    assert_eq!(several.lines().count(), 3, "every fault is told at once: {several}");
}

#[test]
fn another_resource_is_refused_as_such() {
    let error = strict::read("apiVersion: v1\nkind: ConfigMap\n").expect_err("not an ensemble").to_string();
    assert!(error.contains("\"v1\" and \"ConfigMap\""), "{error}");
}

#[test]
fn the_examples_are_valid_and_the_api_server_would_take_them() {
    for text in
        [include_str!("../examples/three-members.yaml"), include_str!("../examples/with-observers.yaml")]
    {
        let ensemble = strict::read(text).expect("a valid example");
        assert!(cel_accepts(&ensemble, None), "{:?}", ensemble.metadata.name);
    }
}

/// Fault: the last of two keys of one name counted, in silence.
#[test]
fn a_key_that_is_there_twice_is_refused() {
    let twice = refusal("{ replicas: 3, replicas: 5 }");
    assert!(twice.contains("duplicate") && twice.contains("replicas"), "{twice}");
}

/// Fault: what is below `metadata` was not looked at, so that a misspelt `annotations` was dropped, and whatever was wrong
/// with a value was said to be wrong with `spec`.
#[test]
fn metadata_is_read_as_strictly_as_the_rest() {
    let refusal = |metadata: &str| {
        let text = format!(
            "apiVersion: zkensemble.dev/v1alpha1\nkind: ZkEnsemble\nmetadata: {metadata}\nspec: {{}}\n"
        );
        strict::read(&text).expect_err("the metadata is wrong").to_string()
    };
    assert_eq!(refusal("{ name: zoo, anotations: { a: b } }"), "metadata.anotations: unknown field");
    assert_eq!(
        refusal("{ name: zoo, annotations: { zkensemble.dev/pause: true } }"),
        "metadata.annotations.zkensemble.dev/pause: must be a string; write it in quotes: \"true\""
    );
}

#[test]
fn a_value_of_the_right_type_that_is_no_value_of_its_field_is_named_with_it() {
    let refused = refusal("{ storage: { reclaimPolicy: Foo } }");
    assert!(refused.starts_with("spec.storage.reclaimPolicy: ") && refused.contains("Foo"), "{refused}");
    assert!(refusal("{ replicas: 3000000000 }").starts_with("spec.replicas: "));
}

/// Fault: a status saved with the resource was taken for what is.
#[test]
fn a_status_in_the_file_is_not_read() {
    let text = "apiVersion: zkensemble.dev/v1alpha1\nkind: ZkEnsemble\nmetadata: { name: zoo, uid: x }\nspec: {}\n\
                status: { observedGeneration: 7 }\n";
    let ensemble = strict::read(text).unwrap_or_else(|error| panic!("what kubectl saved is valid: {error}"));
    assert!(ensemble.status.is_none());
}
