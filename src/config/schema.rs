//! The JSON Schema of the configuration, for editors: made from the table of keys, with what
//! `config/reference.toml` says of each as its description, so that neither can drift from it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{KEYS, Key, Kind, keys};

/// Where every key is explained.
const REFERENCE: &str = include_str!("../../config/reference.toml");

/// The schema (draft 2020-12) of a configuration file. Nothing is required: what a file leaves out may come
/// from the environment or from flags.
#[must_use]
pub fn schema() -> Value {
    let said = descriptions(REFERENCE);
    let mut root = table("", &said);
    if let Some(root) = root.as_object_mut() {
        root.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        root.insert("title".into(), json!("Configuration of a2a-errata"));
    }
    root
}

/// The keys of one table.
fn table(path: &str, said: &BTreeMap<String, String>) -> Value {
    let members = KEYS.iter().filter(|key| key.split().0 == path && !matches!(key.kind, Kind::Later(_)));
    let properties: Map<String, Value> =
        members.map(|key| (key.split().1.to_owned(), property(key, said))).collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

fn property(key: &Key, said: &BTreeMap<String, String>) -> Value {
    let mut value = match key.kind {
        Kind::Text(_) => json!({"type": "string"}),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Number(least, i64::MAX) => json!({"type": "integer", "minimum": least}),
        Kind::Number(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Kind::Choice(words) => json!({"enum": words}),
        Kind::Texts(_) => json!({"type": "array", "items": {"type": "string"}}),
        Kind::Upstreams => json!({"type": "array", "minItems": 1, "items": {"anyOf": [
            {"type": "string"},
            {"type": "object", "additionalProperties": false, "required": ["address"],
             "properties": {"address": {"type": "string"}, "weight": {
                 "type": "integer", "minimum": 0, "maximum": keys::MOST_WEIGHT, "default": 1}, "http2": {
                 "enum": keys::HTTP2, "default": "off"}, "tls": {
                 "type": "object", "additionalProperties": false, "properties": {
                     "sni": {"type": "string"}, "ca": {"type": "string"}, "client_cert": {"type": "string"},
                     "client_key": {"type": "string"}, "verify": {"type": "boolean", "default": true}}}}},
        ]}}),
        Kind::Certificates => json!({"type": "array", "items": {
            "type": "object", "additionalProperties": false, "required": ["cert", "key"],
            "properties": {"cert": {"type": "string"}, "key": {"type": "string"}}}}),
        Kind::Table => table(key.path, said),
        Kind::Tables => json!({"type": "array", "items": table(&format!("{}[]", key.path), said)}),
        Kind::Later(_) => json!(false),
    };
    if let Some(value) = value.as_object_mut() {
        if let Some(text) = said.get(key.path) {
            value.insert("description".into(), json!(text));
        }
        if let Some(default) = key.default.and_then(|text| text.parse::<toml_edit::Value>().ok()) {
            value.insert("default".into(), as_json(&default));
        }
    }
    value
}

fn as_json(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => json!(text.value()),
        toml_edit::Value::Integer(number) => json!(number.value()),
        toml_edit::Value::Boolean(flag) => json!(flag.value()),
        toml_edit::Value::Array(list) => list.iter().map(as_json).collect(),
        // No key has one of these.
        toml_edit::Value::Float(_) | toml_edit::Value::Datetime(_) | toml_edit::Value::InlineTable(_) => {
            Value::Null
        }
    }
}

/// The comment right above each key and table, in one line.
fn descriptions(reference: &str) -> BTreeMap<String, String> {
    let mut said = BTreeMap::new();
    let mut table = String::new();
    let mut comment = String::new();
    for line in reference.lines() {
        if let Some(text) = line.strip_prefix("# ") {
            if !comment.is_empty() {
                comment.push(' ');
            }
            comment.push_str(text);
            continue;
        }
        let path = if let Some(name) = line.strip_prefix("[[").and_then(|line| line.strip_suffix("]]")) {
            let path = name.replace("hosts.", "hosts[].");
            table = format!("{path}[]");
            Some(path)
        } else if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            table = name.replace("hosts.", "hosts[].");
            Some(table.clone())
        } else {
            line.split_once(" = ").map(|(name, _)| format!("{table}.{name}"))
        };
        if let Some(path) = path.filter(|_| !comment.is_empty()) {
            said.insert(path, comment.clone());
        }
        comment.clear();
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_explained() {
        let said = descriptions(REFERENCE);
        for key in KEYS.iter().filter(|key| key.is_value()) {
            assert!(said.contains_key(key.path), "{} has no comment in config/reference.toml", key.path);
        }
        assert_eq!(
            said["hosts[].disclosure.words"],
            "Further words that make a message unfit, such as names of your tenants' things."
        );
    }
}
