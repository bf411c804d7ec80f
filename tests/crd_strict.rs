//! Reading a resource strictly: every refusal names the field that is wrong, and nothing in a file is dropped in silence.

use zk_operator::crd::strict;

const HEAD: &str = "apiVersion: zkensemble.dev/v1alpha1\nkind: ZkEnsemble\n";

fn refusal(text: &str) -> String {
    match strict::read(&format!("{HEAD}{text}")) {
        Ok(_) => panic!("this was accepted:\n{text}"),
        Err(error) => error.to_string(),
    }
}

fn of_spec(spec: &str) -> String {
    refusal(&format!("metadata: {{ name: zoo }}\nspec:\n  {spec}\n"))
}

/// The fault: of a key that is there twice, the last one won in silence.
#[test]
fn a_key_that_is_there_twice_is_refused() {
    let text = of_spec("replicas: 3\n  replicas: 5");
    assert!(text.contains("duplicate entry") && text.contains("replicas"), "{text}");
    let text = of_spec("config:\n    tickTime: \"500\"\n    tickTime: \"600\"");
    assert!(text.contains("duplicate entry") && text.contains("tickTime"), "{text}");
    let text = refusal("metadata: { name: zoo }\nspec: {}\nspec: { replicas: 1 }\n");
    assert!(text.contains("duplicate entry") && text.contains("spec"), "{text}");
}

/// The fault: `metadata` was not looked at, so a misspelt `annotations` lost its annotations in silence.
#[test]
fn an_unknown_field_of_metadata_is_refused() {
    let text = refusal("metadata: { name: zoo, anotations: { zkensemble.dev/pause: \"true\" } }\nspec: {}\n");
    assert_eq!(text, "metadata.anotations: unknown field");
}

/// The fault: every value that serde refused was said to be wrong with `spec`.
#[test]
fn a_refusal_names_the_field_that_is_wrong() {
    assert_eq!(
        refusal("metadata: { name: zoo, annotations: { zkensemble.dev/pause: true } }\nspec: {}\n"),
        "metadata.annotations.zkensemble.dev/pause: must be a string; write it in quotes: \"true\""
    );
    assert_eq!(
        of_spec("storage: { reclaimPolicy: Foo }"),
        "spec.storage.reclaimPolicy: must be Retain or Delete, is \"Foo\""
    );
    assert_eq!(of_spec("replicas: 3000000000"), "spec.replicas: must be from 1 to 7, is 3000000000");
    assert_eq!(
        of_spec("rollout: { drainSeconds: 3000000000 }"),
        "spec.rollout.drainSeconds: must be from 1 to 86400, is 3000000000"
    );
    assert_eq!(of_spec("rollout:"), "spec.rollout: has no value: write one, or leave the field out");
    assert_eq!(
        refusal("metadata: { name: zoo }\nspec:\n"),
        "spec: has no value: write one, or leave the field out"
    );
    let text = refusal("metadata: { name: zoo, creationTimestamp: yesterday }\nspec: {}\n");
    assert!(text.starts_with("metadata.creationTimestamp: "), "{text}");
}

#[test]
fn annotations_that_are_all_commented_out_are_none() {
    let text = format!(
        "{HEAD}metadata:\n  name: zoo\n  annotations:\n  #  zkensemble.dev/pause: \"true\"\nspec: {{}}\n"
    );
    assert!(strict::read(&text).expect("it is valid").metadata.annotations.is_none());
}

/// The fault: a `status` in the file (`kubectl get -o yaml` writes one) was taken for what the operator had found.
#[test]
fn a_status_in_the_file_is_dropped() {
    let text = format!(
        "{HEAD}metadata: {{ name: zoo }}\nspec: {{}}\nstatus: {{ rollout: {{ completedAt: \"2020-01-01T00:00:00Z\" }}, x: 1 }}\n"
    );
    assert_eq!(strict::read(&text).expect("it is valid").status, None);
}
