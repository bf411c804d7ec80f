//! Strict reading of a `ZkEnsemble` from YAML: a field nobody knows is an error, not silence.
//!
//! The API server does this when asked for strict field validation. It is not done by serde because an operator
//! must still read resources that a newer CRD gave more fields.

use serde_json::Value;

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

/// Reads and validates one resource. A `status` in it is dropped, as the API server drops it: `kubectl get -o yaml`
/// writes one, and nothing a file says of the past may count as found.
///
/// # Errors
/// Everything that is wrong with it at once, each with the path of its field.
pub fn read(text: &str) -> Result<ZkEnsemble, ReadError> {
    // By way of YAML's own values: they refuse a key that is there twice, of which JSON's would keep the last.
    let yaml: serde_yaml::Value = serde_yaml::from_str(text)?;
    let mut value: Value =
        serde_json::to_value(yaml).map_err(<serde_yaml::Error as serde::ser::Error>::custom)?;
    let kind = format!("{} and {}", value["apiVersion"], value["kind"]);
    if kind != r#""zkensemble.dev/v1alpha1" and "ZkEnsemble""# {
        return Err(ReadError::OtherKind(kind));
    }
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    // `annotations:` with every line below it commented out; the API server takes it, too.
    if let Some(fields) = value["metadata"].as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    let mut schema = generate::schema();
    schema["properties"]["metadata"] = generate::metadata_schema();
    let mut found = Vec::new();
    walk(&schema, &value, "", &mut found);
    if !found.is_empty() {
        return Err(ReadError::Invalid(found));
    }
    let ensemble: ZkEnsemble = serde_path_to_error::deserialize(value).map_err(|error| {
        ReadError::Invalid(vec![at(&error.path().to_string(), &error.inner().to_string())])
    })?;
    let found = validate(&ensemble);
    if found.is_empty() { Ok(ensemble) } else { Err(ReadError::Invalid(found)) }
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
    if let Some(message) = wrong_type(schema, value).or_else(|| wrong_value(schema, value)) {
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
        (_, Value::Null) if schema["nullable"] == true => true,
        (_, Value::Null) => return Some("has no value: write one, or leave the field out".to_owned()),
        ("string", Value::Bool(_) | Value::Number(_)) => {
            return Some(format!("must be a string; write it in quotes: \"{value}\""));
        }
        _ => false,
    };
    (!right).then(|| format!("must be of type {}", schema["type"].as_str().unwrap_or("object")))
}

/// A value of the right type that cannot be held at all. Ranges within the type are [`validate`]'s.
fn wrong_value(schema: &Value, value: &Value) -> Option<String> {
    if let (Some(allowed), Value::String(_)) = (schema["enum"].as_array(), value)
        && !allowed.contains(value)
    {
        let allowed: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        return Some(format!("must be {}, is {value}", allowed.join(" or ")));
    }
    let number = value.as_i64().filter(|_| schema["format"] == "int32")?;
    let bound = |key: &str, otherwise: i32| {
        schema[key].as_f64().map_or_else(|| otherwise.to_string(), |bound| format!("{bound}"))
    };
    i32::try_from(number).is_err().then(|| {
        format!("must be from {} to {}, is {number}", bound("minimum", i32::MIN), bound("maximum", i32::MAX))
    })
}
