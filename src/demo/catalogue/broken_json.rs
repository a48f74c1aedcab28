//! Bodies that two parsers read in two ways, or not at all: never handed on (F-6).

use super::send;
use crate::demo::{Answer, Encoding, Group, Scenario};
use crate::normalize::Rule::{C4, E1, F6};

const REFUSAL: &str = r#""code":-32004,"message":"This operation is not supported""#;

pub fn scenarios() -> Vec<Scenario> {
    let new = |name, title, seen_at, answer| {
        Scenario::new(Group::BrokenJson, name, title, seen_at, send(), answer).rules(&[F6, E1])
    };
    let refused = |scenario: Scenario| scenario.becomes(200, -32004, "UNSUPPORTED_OPERATION");
    let unreadable = |scenario: Scenario| scenario.becomes(200, -32603, "");
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":$ID,"error":{{"code":-32603,"message":"acme","data":{}1{}}}}}"#,
        "[".repeat(220),
        "]".repeat(220)
    );
    let mut latin1 = br#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"acme: T"#.to_vec();
    latin1.extend_from_slice(b"\xe2che introuvable\"}}");
    vec![
        refused(new(
            "json-bom",
            "a byte order mark in front",
            "Windows hosts, .NET writers",
            Answer::error(REFUSAL).encoding(Encoding::Bom),
        )),
        refused(
            new(
                "json-utf16",
                "UTF-16 under application/json",
                "Windows hosts",
                Answer::error(REFUSAL)
                    .encoding(Encoding::Utf16)
                    .header("content-type", "application/json; charset=utf-16"),
            )
            .rules(&[F6, C4]),
        ),
        unreadable(new(
            "json-bad-utf8",
            "Latin-1 under charset=utf-8",
            "PHP and older Java hosts",
            Answer::new(200, "application/json; charset=utf-8", latin1),
        )),
        unreadable(new(
            "json-lone-surrogate",
            "half a character",
            "JavaScript hosts that cut strings",
            Answer::error(r#""code":-32603,"message":"\ud800 acme""#),
        )),
        new(
            "json-duplicate-members",
            "two messages, two ids: which one counts?",
            "hosts that concatenate JSON",
            Answer::json(
                200,
                r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"no","message":"/srv/acme.ini missing"},"id":1}"#,
            ),
        )
        .becomes(200, -32603, ""),
        new(
            "json-trailing-document",
            "two documents in one body",
            "hosts that answer twice",
            Answer::json(
                200,
                "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"error\":{\"code\":-32603,\"message\":\"first\"}}\n{\"jsonrpc\":\"2.0\",\"id\":$ID,\"error\":{\"code\":-32603,\"message\":\"acme\"}}",
            ),
        )
        .becomes(200, -32603, ""),
        unreadable(new("json-nested-220", "220 levels deep", "hosts that print what they hold", Answer::json(200, deep))),
        new(
            "json-result-and-error",
            "both a result and an error",
            "Ethereum-style JSON-RPC servers",
            Answer::json(
                200,
                r#"{"id":$ID,"jsonrpc":"2.0","result":"acme","error":{"code":-32603,"message":"x","data":null}}"#,
            ),
        )
        .becomes(200, -32603, ""),
        refused(new(
            "json-rpc-1-0",
            "JSON-RPC 1.0: `result` null beside the error, no version",
            "older RPC libraries",
            Answer::json(200, format!(r#"{{"result":null,"error":{{{REFUSAL}}},"id":$ID}}"#)),
        )),
        new(
            "json-array",
            "an array in answer to a single call",
            "batch-minded servers",
            Answer::json(
                200,
                r#"[{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"acme"}},{"jsonrpc":"2.0","id":2,"result":{}}]"#,
            ),
        )
        .becomes(200, -32603, ""),
        refused(new(
            "json-escaped-keys",
            "keys written with escapes",
            "hosts that escape everything",
            Answer::json(
                200,
                r#"{"jsonrpc":"2.0","id":$ID,"err\u006fr":{"c\u006fde":-32004,"message":"at /srv/acme"}}"#,
            ),
        )),
        new(
            "json-raw-newline",
            "a newline inside a string",
            "a2a-java 0.3, which concatenates strings",
            Answer::json(
                200,
                "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"error\":{\"code\":-32603,\"message\":\"Unexpected char at\nacme\"}}",
            ),
        )
        .becomes(200, -32603, ""),
        unreadable(new(
            "json-error-is-text",
            "the error is a sentence",
            "hand-written hosts",
            Answer::json(200, r#"{"jsonrpc":"2.0","id":$ID,"error":"acme says no"}"#),
        )),
        unreadable(new(
            "json-cut-short",
            "complete as HTTP, half as JSON",
            "hosts that cut at a buffer's end",
            Answer::json(200, r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32004,"message":"acme"#),
        )),
    ]
}
