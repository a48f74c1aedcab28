//! The configuration's JSON Schema is what the binary prints, takes every shipped file, and refuses what the
//! binary refuses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[path = "support/binary.rs"]
mod binary;

use std::path::{Path, PathBuf};

use binary::{run, text};
use boon::{Compiler, Schemas};
use serde_json::Value;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config")
}

/// A TOML file as JSON.
fn as_json(text: &str) -> Value {
    fn value(item: &toml_edit::Item) -> Value {
        match item {
            toml_edit::Item::Value(value) => leaf(value),
            toml_edit::Item::Table(table) => {
                table.iter().map(|(name, item)| (name.to_owned(), value(item))).collect()
            }
            toml_edit::Item::ArrayOfTables(tables) => {
                tables.iter().map(|table| value(&toml_edit::Item::Table(table.clone()))).collect()
            }
            toml_edit::Item::None => Value::Null,
        }
    }
    fn leaf(value: &toml_edit::Value) -> Value {
        match value {
            toml_edit::Value::String(text) => text.value().as_str().into(),
            toml_edit::Value::Integer(number) => (*number.value()).into(),
            toml_edit::Value::Boolean(flag) => (*flag.value()).into(),
            toml_edit::Value::Array(list) => list.iter().map(leaf).collect(),
            toml_edit::Value::InlineTable(table) => {
                table.iter().map(|(name, value)| (name.to_owned(), leaf(value))).collect()
            }
            other => panic!("{other}"),
        }
    }
    let document: toml_edit::DocumentMut = text.parse().unwrap();
    value(document.as_item())
}

fn problems(toml: &str) -> Option<String> {
    let schema: Value =
        serde_json::from_str(&std::fs::read_to_string(directory().join("schema.json")).unwrap()).unwrap();
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("schema.json", schema).unwrap();
    let index = compiler.compile("schema.json", &mut schemas).unwrap();
    schemas.validate(&as_json(toml), index).err().map(|error| error.to_string())
}

#[test]
fn the_shipped_schema_is_what_is_printed() {
    let output = run(&["schema"], &[]);
    assert_eq!(output.status.code(), Some(0));
    let shipped = std::fs::read_to_string(directory().join("schema.json")).unwrap();
    assert!(text(&output.stdout) == shipped, "stale: a2a-errata schema > config/schema.json");
}

#[test]
fn every_shipped_configuration_is_valid_by_it() {
    let mut files = 0;
    for entry in std::fs::read_dir(directory()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(problems(&text), None, "{}", path.display());
            files += 1;
        }
    }
    assert!(files >= 4, "{files}");
}

#[test]
fn what_the_binary_refuses_it_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.toml");
    for toml in [
        "[listen]\nadress = \"127.0.0.1:1\"\n[[hosts]]\nupstreams = [\"127.0.0.1:9\"]",
        "[[hosts]]\nupstreams = []",
        "[[hosts]]\nupstreams = [{ addres = \"127.0.0.1:9\" }]",
        "[[hosts]]\nupstreams = [\"127.0.0.1:9\"]\nmode = \"watch\"",
        "[[hosts]]\nupstreams = [\"127.0.0.1:9\"]\nresponse_cap_bytes = 1",
        "[[hosts]]\nupstreams = [\"127.0.0.1:9\"]\noracle = { floor_ms = 10001 }",
        "[[hosts]]\nupstreams = [\"127.0.0.1:9\"]\nnormalize_0_3 = 1",
        "[[hosts]]\nupstreams = [\"127.0.0.1:9\"]\n[[hosts.interfaces]]\npath = \"/a\"\nmode = \"off\"",
        "[[hosts]]\nupstreams = \"127.0.0.1:9\"",
        "hosts = { upstreams = [\"127.0.0.1:9\"] }",
    ] {
        std::fs::write(&file, toml).unwrap();
        let output = run(&["check", "--config", file.to_str().unwrap()], &[]);
        assert_eq!(output.status.code(), Some(2), "{toml}");
        assert!(problems(toml).is_some(), "{toml}");
    }
}
