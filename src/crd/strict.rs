//! Strict reading of a `ZkEnsemble` from YAML: a field nobody knows is an error, not silence.
//!
//! The API server does this when asked for strict field validation. It is not done by serde because an operator
//! must still read resources that a newer CRD gave more fields.

use serde::de::Error as _;
use serde_json::{Value, json};

use super::generate;
use super::spec::ZkEnsemble;
use super::validate::{Violation, validate};

/// Why a text is not a valid `ZkEnsemble`.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is not YAML, or holds more or less than one document.
    #[error("not a YAML document: {0}")]
    Yaml(#[from] serde_yaml::Error),
    /// It is some other resource.
    #[error("apiVersion and kind must be zkensemble.dev/v1alpha1 and ZkEnsemble, are {0}")]
    OtherKind(String),
    /// Its values are wrong.
    #[error("{}", list(.0))]
    Invalid(Vec<Violation>),
}

/// Reads and validates one resource.
///
/// # Errors
/// Everything that is wrong with it at once, each with the path of its field.
pub fn read(text: &str) -> Result<ZkEnsemble, ReadError> {
    // By way of YAML's own values, which refuse a key that is there twice; JSON's take the last one.
    let value: serde_yaml::Value = serde_yaml::from_str(text)?;
    let mut value: Value = serde_json::to_value(value).map_err(serde_yaml::Error::custom)?;
    let kind = format!("{} and {}", value["apiVersion"], value["kind"]);
    if kind != r#""zkensemble.dev/v1alpha1" and "ZkEnsemble""# {
        return Err(ReadError::OtherKind(kind));
    }
    let mut found = Vec::new();
    let mut schema = generate::schema();
    schema["properties"]["metadata"] = metadata_schema();
    walk(&schema, &value, "", &mut found);
    if !found.is_empty() {
        return Err(ReadError::Invalid(found));
    }
    // A status is what we tell, not what we are told: one saved by `kubectl get -o yaml` is of another time.
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    let ensemble: ZkEnsemble = serde_path_to_error::deserialize(value).map_err(|error| {
        ReadError::Invalid(vec![at(&error.path().to_string(), &error.inner().to_string())])
    })?;
    let found = validate(&ensemble);
    if found.is_empty() { Ok(ensemble) } else { Err(ReadError::Invalid(found)) }
}

/// What the API server knows of `metadata`, which a CRD's own schema leaves out.
fn metadata_schema() -> Value {
    let strings = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" }, "namespace": { "type": "string" }, "generateName": { "type": "string" },
            "labels": strings, "annotations": strings,
            // Set by the server; found in what `kubectl get -o yaml` saved.
            "uid": {}, "resourceVersion": {}, "generation": {}, "creationTimestamp": {}, "managedFields": {},
            "finalizers": {}, "ownerReferences": {}, "selfLink": {}, "deletionTimestamp": {},
            "deletionGracePeriodSeconds": {},
        },
    })
}

fn list(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  ")
}

fn at(field: &str, message: &str) -> Violation {
    Violation { field: field.to_owned(), message: message.to_owned() }
}

/// Compares `value` with the schema of its place, as deep as the schema describes it. The depth is bounded by the
/// schema, which is not recursive.
fn walk(schema: &Value, value: &Value, path: &str, found: &mut Vec<Violation>) {
    let child = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    if let Some(message) = wrong_type(schema, value) {
        found.push(at(path, &message));
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let known = schema["properties"].get(name);
                match known.or_else(|| schema.get("additionalProperties")) {
                    Some(schema) => walk(schema, value, &child(name), found),
                    None if schema.get("properties").is_some() => {
                        found.push(at(&child(name), "unknown field"))
                    }
                    None => {}
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(&schema["items"], item, &format!("{path}[{index}]"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn wrong_type(schema: &Value, value: &Value) -> Option<String> {
    let right = match (schema["type"].as_str()?, value) {
        ("object", Value::Object(_)) | ("array", Value::Array(_)) => true,
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) | ("number", Value::Number(_)) => true,
        ("integer", Value::Number(number)) => number.is_i64(),
        ("object", Value::Null) => true,
        (_, Value::Null) => schema["nullable"].as_bool().unwrap_or(false),
        ("string", Value::Bool(_) | Value::Number(_)) => {
            return Some(format!("must be a string; write it in quotes: \"{value}\""));
        }
        _ => false,
    };
    (!right).then(|| format!("must be of type {}", schema["type"].as_str().unwrap_or("object")))
}
