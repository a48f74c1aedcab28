//! JSON-RPC errors whose `data` is not the array of typed details that A2A 1.0 asks for (E-1, E-5).

use super::{A2A, error_info, on_task, send};
use crate::demo::{Answer, Call, Group, Scenario};
use crate::normalize::Rule::{D1, D2, E1, E5, E6, F2, F3};

pub fn scenarios() -> Vec<Scenario> {
    let new =
        |name, title, seen_at, call, answer| Scenario::new(Group::Data, name, title, seen_at, call, answer);
    vec![
        new(
            "data-object",
            "data is an object, with the tenant and the owner in it",
            "most hosts from before A2A 1.0",
            send(),
            Answer::error(
                r#""code":-32004,"message":"This operation is not supported","data":{"method":"SendMessage","tenantId":"acme","owner":"u-9"}"#,
            ),
        )
        .becomes(200, -32004, "UNSUPPORTED_OPERATION")
        .rules(&[E1, E5, D2]),
        new(
            "data-string",
            "data is a sentence",
            "Rust and Go agents",
            Call::json_rpc("7", "tasks/foo", "{}"),
            Answer::error(
                r#""code":-32601,"message":"Method not found","data":"method tasks/foo not supported by agent acme-billing""#,
            ),
        )
        .becomes(200, -32601, "")
        .rules(&[E1, E5]),
        new(
            "data-debug-string",
            "data is a debugger's dump",
            "Elixir agents",
            send(),
            Answer::error(
                r#""code":-32603,"message":"Internal error","data":"{:error, {:badmatch, %{tenant: \"acme\", pid: #PID<0.412.0>}}}""#,
            ),
        )
        .becomes(200, -32603, "")
        .rules(&[E1, E5]),
        new(
            "data-array-of-strings",
            "data is a list of sentences",
            "hand-written hosts",
            send(),
            Answer::error(
                r#""code":-32602,"message":"Invalid parameters","data":["id is required","tenant acme unknown"]"#,
            ),
        )
        .becomes(200, -32602, "")
        .rules(&[E1, E5]),
        new(
            "data-missing",
            "no data at all behind an A2A code",
            "a2a-sdk 0.3, most 0.3 hosts",
            send(),
            Answer::error(r#""code":-32005,"message":"Incompatible content types""#),
        )
        .becomes(200, -32005, "CONTENT_TYPE_NOT_SUPPORTED")
        .rules(&[E1, F3]),
        new(
            "data-empty-array",
            "an empty array: the right type, nothing in it",
            "hosts half-way to 1.0",
            send(),
            Answer::error(r#""code":-32008,"message":"Extension support required","data":[]"#),
        )
        .becomes(200, -32008, "EXTENSION_SUPPORT_REQUIRED")
        .rules(&[E1, F3]),
        new(
            "data-number",
            "data is a number",
            "hand-written hosts",
            send(),
            Answer::error(r#""code":-32603,"message":"Internal error","data":42"#),
        )
        .becomes(200, -32603, "")
        .rules(&[E1, E5]),
        new(
            "data-three-error-infos",
            "several ErrorInfos, one of another domain",
            "hosts that relay their upstream's details",
            send(),
            Answer::error(&format!(
                r#""code":-32004,"message":"This operation is not supported","data":[{},{},{}]"#,
                error_info("UNSUPPORTED_OPERATION", A2A, ""),
                error_info("UNSUPPORTED_OPERATION", A2A, r#","metadata":{"tenant":"acme"}"#),
                error_info("ACME_PLAN_LIMIT", "acme.example", ""),
            )),
        )
        .becomes(200, -32004, "UNSUPPORTED_OPERATION")
        .rules(&[E1, E5, F2]),
        new(
            "data-debug-info",
            "a DebugInfo with the stack, typed and legal, and a leak",
            "gRPC stacks behind A2A",
            send(),
            Answer::error(
                r#""code":-32603,"message":"Internal error","data":[{"@type":"type.googleapis.com/google.rpc.DebugInfo","stackEntries":["at /srv/app/acme.py:41"],"detail":"KeyError"}]"#,
            ),
        )
        .becomes(200, -32603, "")
        .rules(&[E1, E5]),
        new(
            "data-metadata-types",
            "metadata with numbers, lists and objects in it",
            "a2a-sdk (Python) 1.1",
            send(),
            Answer::error(&format!(
                r#""code":-32005,"message":"Incompatible content types","data":[{}]"#,
                error_info(
                    "CONTENT_TYPE_NOT_SUPPORTED",
                    A2A,
                    r#","metadata":{"mediaType":["text/plain","image/png"],"attempt":3,"ctx":{"tenant":"acme"}}"#,
                ),
            )),
        )
        .becomes(200, -32005, "CONTENT_TYPE_NOT_SUPPORTED")
        .rules(&[E1, E5, E6, D2]),
        new(
            "data-pydantic-list",
            "a validator's findings, the whole request echoed in `input`",
            "a2a-sdk (Python), FastAPI",
            send(),
            Answer::error(
                r#""code":-32602,"message":"Invalid parameters","data":[{"type":"missing","loc":["params","message","taskId"],"msg":"Field required","input":{"tenant":"acme"},"url":"https://errors.pydantic.dev/2.14/v/missing"}]"#,
            ),
        )
        .becomes(200, -32602, "")
        .rules(&[E1, E5, D1]),
        new(
            "data-bare-type",
            "reason in camel case, @type without its prefix",
            "JavaScript hosts",
            on_task("CancelTask"),
            Answer::error(
                r#""code":-32002,"message":"at /srv/x.js:1","data":[{"@type":"google.rpc.ErrorInfo","reason":"taskNotCancelable"}]"#,
            ),
        )
        .becomes(200, -32002, "TASK_NOT_CANCELABLE")
        .rules(&[E1, E5, F2, D1]),
    ]
}
