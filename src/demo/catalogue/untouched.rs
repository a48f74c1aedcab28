//! Successes, other URLs and errors that are already in shape: byte for byte (I-4, E-9, F-9).

use super::{A2A, error_info, get_task, send};
use crate::demo::{Answer, Call, Encoding, Framing, Group, INTERFACE, Scenario};
use crate::normalize::Rule::{E9, F9, I2, I4, Q2, Q4};

pub fn scenarios() -> Vec<Scenario> {
    let new = |name, title, seen_at, call, answer| {
        Scenario::new(Group::Untouched, name, title, seen_at, call, answer).rules(&[I4])
    };
    let task = r#"{"task":{"id":"acme/1","contextId":"c-1","status":{"state":"TASK_STATE_COMPLETED"}}}"#;
    vec![
        new("ok-task", "a task, done, with the host's own headers", "every host", send(), Answer::result(task))
            .rules(&[I4, Q4]),
        new(
            "ok-failed-task",
            "a task that failed is a success of the call",
            "@a2a-js/sdk",
            send(),
            Answer::result(
                r#"{"task":{"id":"acme/1","status":{"state":"TASK_STATE_FAILED","message":{"role":"ROLE_AGENT","messageId":"49c4","parts":[{"text":"Agent execution error: db at /srv/x.js failed for tenant acme"}]}}}}"#,
            ),
        ),
        new(
            "ok-result-error",
            "an `error` inside the result",
            "ad servers on a2a-sdk",
            send(),
            Answer::result(r#"{"error":{"code":-32001,"message":"acme/1 not found"}}"#),
        ),
        new(
            "ok-error-null",
            "`error` is null beside the result",
            "JSON-RPC 1.0 libraries",
            get_task(),
            Answer::json(200, r#"{"jsonrpc":"2.0","error":null,"result":{"id":"acme/1"},"id":$ID}"#),
        ),
        new(
            "ok-no-jsonrpc",
            "a result without `jsonrpc`",
            "JSON-RPC 1.0 libraries",
            get_task(),
            Answer::json(200, r#"{"result":{"id":"acme/1"},"error":null,"id":$ID}"#),
        ),
        new(
            "ok-pretty",
            "pretty-printed, in the host's own order",
            "hosts in debug mode",
            send(),
            Answer::json(200, "{\n  \"id\": $ID,\n  \"jsonrpc\": \"2.0\",\n  \"result\": { \"task\": { \"id\": \"acme/1\" } }\n}\n")
                .header("etag", "\"v1\"")
                .header("x-tenant", "acme")
                .header("set-cookie", "a=1; Path=/"),
        ),
        new(
            "ok-bom",
            "a success behind a byte order mark",
            "Windows hosts",
            send(),
            Answer::result(task).encoding(Encoding::Bom),
        ),
        new("ok-gzip", "a success, compressed", "caches in front", send(), Answer::result(task).encoding(Encoding::Gzip)),
        new(
            "ok-large",
            "two megabytes in chunks",
            "hosts that inline files",
            send(),
            Answer::result(&format!(r#"{{"artifact":"{}"}}"#, "0123456789abcdef".repeat(131_072)))
                .framing(Framing::Chunked(50_000)),
        )
        .rules(&[I4, F9]),
        new(
            "ok-notification",
            "202 and no body for a notification",
            "LangGraph",
            Call::post(r#"{"jsonrpc":"2.0","method":"SendMessage","params":{}}"#.to_owned()),
            Answer::new(202, "", ""),
        )
        .rules(&[I4, Q2]),
        new(
            "ok-conformant-error",
            "an error that already says exactly what it should, spaced as it likes",
            "hosts on A2A 1.0",
            send(),
            Answer::json(
                200,
                format!(
                    r#"{{"error": {{"message": "This operation is not supported", "code": -32004, "data": [{}]}}, "jsonrpc": "2.0", "id": $ID}}"#,
                    error_info("UNSUPPORTED_OPERATION", A2A, ""),
                ),
            )
            .header("x-request-id", "acme-1"),
        )
        .rules(&[E9]),
        new(
            "ok-other-url",
            "a 403 on a URL that is no interface",
            "every host",
            Call::get("/docs"),
            Answer::envelope(403, "run_forbidden", "docs of acme", ""),
        )
        .rules(&[I4, I2]),
        new(
            "ok-agent-card",
            "the agent card",
            "every host",
            Call::get("/.well-known/agent-card.json"),
            Answer::json(
                200,
                format!(
                    r#"{{"name":"Legacy","supportedInterfaces":[{{"url":"http://localhost{INTERFACE}","protocolBinding":"JSONRPC","protocolVersion":"1.0"}}]}}"#
                ),
            )
            .header("etag", "\"c\""),
        ),
    ]
}
