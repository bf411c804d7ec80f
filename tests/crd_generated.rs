//! The CRD in the repository is the one the types generate.

use std::path::Path;

use zk_operator::crd::generate;

#[test]
fn crds_zkensembles_yaml_is_what_crdgen_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds/zkensembles.yaml");
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let generated = generate::yaml().expect("the CRD is plain data");
    assert!(
        kept == generated,
        "crds/zkensembles.yaml is out of date: zk-operator crdgen > crds/zkensembles.yaml"
    );
}

#[test]
fn the_crd_keeps_the_names_scripts_rely_on() {
    let crd: serde_json::Value = serde_yaml::from_str(&generate::yaml().expect("yaml")).expect("yaml");
    assert_eq!(crd["spec"]["group"], "zkensemble.dev");
    assert_eq!(crd["spec"]["names"]["plural"], "zkensembles");
    assert_eq!(crd["spec"]["names"]["shortNames"][0], "zke");
    let version = &crd["spec"]["versions"][0];
    assert_eq!(version["name"], "v1alpha1");
    assert_eq!(version["subresources"]["scale"]["specReplicasPath"], ".spec.replicas");
    assert_eq!(version["subresources"]["scale"]["statusReplicasPath"], ".status.replicas");
    assert_eq!(version["subresources"]["scale"]["labelSelectorPath"], ".status.selector");
    let columns = version["additionalPrinterColumns"].as_array().expect("columns");
    let shown = |wide: bool| -> Vec<&str> {
        let wanted =
            columns.iter().filter(|column| column["priority"].as_i64().unwrap_or(0) == i64::from(wide));
        wanted.map(|column| column["name"].as_str().expect("a name")).collect()
    };
    assert_eq!(shown(false), ["Ready", "Replicas", "Synced", "Leader", "Version", "Age"]);
    assert_eq!(shown(true), ["Epoch", "Zxid", "Divergent", "Disk", "Rollout"]);
}
