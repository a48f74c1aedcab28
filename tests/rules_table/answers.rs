//! E-1 to E-9 and P-1: what the client gets.

use a2a_errata::normalize::{OwnAnswer, Verdict};
use http::Method;
use serde_json::{Value, json};

use crate::rules_support::*;

fn error(code: i64) -> Value {
    json!({"code": code, "message": "at /srv/acme"})
}

#[test]
fn e1_members_in_order_compact_and_complete() {
    let seen = Host::rpc().run(&Request::send(), &Answer::error(200, &error(-32004)));
    assert_eq!(
        seen.text(),
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"This operation is not supported","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UNSUPPORTED_OPERATION","domain":"a2a-protocol.org"}]}}"#
    );
    assert_eq!(seen.header("content-type").as_deref(), Some("application/json"));
    assert_eq!(seen.header("content-length"), Some(seen.body.len().to_string()));
}

#[test]
fn e1_invalid_params_never_has_an_a2a_reason() {
    let info = |reason: &str, domain: &str| json!({"@type": ERROR_INFO, "reason": reason, "domain": domain});
    for (data, want) in [
        (json!([info("INVALID_PARAMS", "a2a-protocol.org")]), None),
        (json!({"reason": "INVALID_PARAMS"}), None),
        (json!({"tenant": "acme"}), None),
        (json!([]), None),
        (json!(null), None),
        (
            json!([info("VALIDATION_ERROR", "openwop.dev")]),
            Some(json!([info("VALIDATION_ERROR", "openwop.dev")])),
        ),
        (json!([{"@type": RETRY_INFO, "retryDelay": "1s"}]), None),
    ] {
        let answer = Answer::error(200, &json!({"code": -32602, "message": "x", "data": data}));
        let seen = Host::rpc().run(&Request::send(), &answer);
        assert_eq!(seen.error().get("data").cloned(), want, "{data}");
        assert_eq!(seen.code(), -32602);
    }
}

#[test]
fn e2_which_status_a_post_leaves_with() {
    for status in [200, 201, 400, 402, 404, 409, 415, 500, 503] {
        let seen = Host::rpc().run(&Request::send(), &Answer::error(status, &error(-32004)));
        assert_eq!(seen.status, 200, "an A2A code on {status}");
        let kept = if status >= 500 { status } else { 200 };
        for code in [-32603, -32600, -32700, -32601, -32602, -32000, 1234] {
            let seen = Host::rpc().run(&Request::send(), &Answer::error(status, &error(code)));
            assert_eq!((seen.status, seen.code()), (kept, code), "{code} on {status}");
        }
    }
}

#[test]
fn e2_other_methods_keep_every_status() {
    for status in [400, 404, 405, 409, 500, 503] {
        let request = Request { method: Method::GET, ..Request::raw("") };
        let seen = Host::rpc().run(&request, &Answer::raw(status, "<h1>acme</h1>"));
        assert_eq!(seen.status, status);
        assert!(!seen.text().contains("acme"));
        let seen = Host::rpc().run(&request, &Answer::error(status, &error(-32004)));
        assert_eq!((seen.status, seen.code()), (status, -32004));
    }
}

#[test]
fn e2_headers_of_refusals_pass_verbatim() {
    for (status, name, value) in [
        (401, "www-authenticate", "Bearer realm=\"x\", error=\"invalid_token\""),
        (429, "retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"),
        (429, "ratelimit-limit", "100, 100;w=60"),
        (429, "ratelimit-remaining", "0"),
        (429, "ratelimit", "\"default\";r=0;t=5"),
        (405, "allow", "GET, HEAD"),
    ] {
        let seen = Host::rpc().run(&Request::send(), &Answer::raw(status, "").header(name, value));
        assert_eq!(seen.header(name).as_deref(), Some(value));
    }
}

#[test]
fn e3_retry_after_in_seconds_is_mirrored() {
    for (value, want) in [
        ("2", Some("2s")),
        ("0", Some("0s")),
        ("120", Some("120s")),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("-1", None),
        ("1.5", None),
        ("", None),
        ("99999999999999999999999", None),
    ] {
        for status in [429, 503] {
            let answer = Answer::error(status, &error(-32004)).header("retry-after", value);
            let answer = if status == 429 { Answer { body: Vec::new(), ..answer } } else { answer };
            let seen = Host::rpc().run(&Request::send(), &answer);
            let data = seen.error()["data"].as_array().unwrap().clone();
            assert_eq!(data[0]["@type"], ERROR_INFO);
            let retry = want.map(|d| json!({"@type": RETRY_INFO, "retryDelay": d}));
            assert_eq!(data.get(1).cloned(), retry, "{value} {status}");
            assert_eq!(seen.header("retry-after").as_deref(), Some(value));
        }
    }
}

#[test]
fn e4_status_and_words() {
    let request = Request::http(Method::POST, "/rest/message:send").body("{}");
    for (code, reason, status, word) in [
        (-32002, "TASK_NOT_CANCELABLE", 400, "FAILED_PRECONDITION"),
        (-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", 400, "FAILED_PRECONDITION"),
        (-32004, "UNSUPPORTED_OPERATION", 400, "FAILED_PRECONDITION"),
        (-32005, "CONTENT_TYPE_NOT_SUPPORTED", 400, "INVALID_ARGUMENT"),
        (-32006, "INVALID_AGENT_RESPONSE", 500, "INTERNAL"),
        (-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", 400, "FAILED_PRECONDITION"),
        (-32008, "EXTENSION_SUPPORT_REQUIRED", 400, "FAILED_PRECONDITION"),
        (-32009, "VERSION_NOT_SUPPORTED", 400, "FAILED_PRECONDITION"),
        (-32602, "INVALID_PARAMS", 400, "INVALID_ARGUMENT"),
        (-32600, "INVALID_REQUEST", 400, "INVALID_ARGUMENT"),
        (-32601, "METHOD_NOT_FOUND", 404, "NOT_FOUND"),
        (-32603, "INTERNAL_ERROR", 500, "INTERNAL"),
    ] {
        for answer in [
            Answer::json(
                400,
                &json!({"error": {"code": 400, "status": "UNKNOWN", "message": "x",
                "details": [{"@type": ERROR_INFO, "reason": reason, "domain": "a2a-protocol.org"}]}}),
            ),
            Answer::error(409, &error(code)),
            Answer::json(400, &json!({"error": error(code)})),
        ] {
            let seen = Host::http().run(&request, &answer);
            let why = format!("{reason} from {}", String::from_utf8_lossy(&answer.body));
            assert_eq!((seen.status, seen.error()["status"].clone()), (status, json!(word)), "{why}");
            assert_eq!(seen.error()["code"], status, "{why}");
            assert_eq!(seen.reason().as_deref(), Some(reason), "{why}");
            assert_eq!(seen.header("content-type").as_deref(), Some("application/json"));
            faults_of(&seen.body, a2a_errata::normalize::Binding::HttpJson, 1 << 20).unwrap();
        }
    }
    for (status, word) in [
        (500, "INTERNAL"),
        (501, "UNIMPLEMENTED"),
        (502, "UNAVAILABLE"),
        (503, "UNAVAILABLE"),
        (504, "DEADLINE_EXCEEDED"),
    ] {
        let seen = Host::http().run(&request, &Answer::raw(status, "<h1>acme</h1>"));
        assert_eq!((seen.status, seen.error()["code"].clone()), (status, json!(status)));
        if status != 501 {
            assert_eq!(seen.error()["status"], word);
        }
    }
    for (status, word, reason) in [
        (401, "UNAUTHENTICATED", "UNAUTHENTICATED"),
        (403, "PERMISSION_DENIED", "PERMISSION_DENIED"),
        (413, "INVALID_ARGUMENT", "PAYLOAD_TOO_LARGE"),
        (429, "RESOURCE_EXHAUSTED", "RATE_LIMITED"),
    ] {
        let seen = Host::http().run(&request, &Answer::raw(status, "acme"));
        assert_eq!((seen.status, seen.error()["status"].clone()), (status, json!(word)));
        assert_eq!(seen.reason().as_deref(), Some(reason));
        assert_eq!(seen.error()["details"][0]["domain"], "openwop.dev");
    }
}

#[test]
fn e4_errors_on_a_2xx_are_moved_to_their_status() {
    let send = Request::http(Method::POST, "/rest/message:send").body("{}");
    let status_body = |code: u16, word: &str, reason: &str| {
        json!({"error": {"code": code, "status": word, "message": "x",
            "details": [{"@type": ERROR_INFO, "reason": reason, "domain": "a2a-protocol.org"}]}})
    };
    for (body, status) in [
        (status_body(400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"), 400),
        (status_body(500, "INTERNAL", "INVALID_AGENT_RESPONSE"), 500),
        (json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": "x"}}), 503),
        (json!({"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "x"}}), 401),
        (json!({"error": {"code": 16, "status": "UNAUTHENTICATED", "message": "x"}}), 401),
        (json!({"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "x"}}), 403),
        (json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x"}}), 429),
        (json!({"error": {"code": 3, "status": "INVALID_ARGUMENT", "message": "x"}}), 400),
        (json!({"error": "unauthenticated", "message": "x"}), 401),
        (json!({"error": "internal_error", "message": "x"}), 500),
        (json!({"error": "version_conflict", "message": "x"}), 400),
        (json!({"error": "run_forbidden", "message": "x"}), 403),
    ] {
        let seen = Host::http().run(&send, &Answer::json(200, &body));
        assert_eq!(seen.status, status, "{body} {}", seen.text());
        assert_eq!(seen.error()["code"], status, "{body}");
    }
}

#[test]
fn e4_a_status_body_that_says_not_found_collapses_on_a_task() {
    // Moved to its status, 404 or 403, it is what O-3 collapses, however its code is counted.
    let get = Request::http(Method::GET, "/rest/tasks/t-1");
    for body in [
        json!({"error": {"code": 404, "status": "NOT_FOUND", "message": "No task is visible"}}),
        json!({"error": {"code": 5, "status": "NOT_FOUND", "message": "No task is visible"}}),
        json!({"error": {"code": 200, "status": "NOT_FOUND", "message": "No task is visible"}}),
        json!({"error": {"status": "NOT_FOUND", "message": "No task is visible"}}),
        json!({"error": {"code": 7, "status": "PERMISSION_DENIED", "message": "No task is visible"}}),
        json!({"error": {"code": 403, "message": "No task is visible"}}),
        json!({"error": {"code": 404, "message": "No task is visible"}}),
        json!({"error": {"code": 410, "message": "No task is visible"}}),
        json!({"error": "not_found", "message": "x"}),
        json!({"error": "run_forbidden", "message": "x"}),
        json!({"error": "forbidden", "message": "x"}),
    ] {
        is_http_not_found(&Host::http().run(&get, &Answer::json(200, &body)), &body.to_string());
        is_not_found(&Host::rpc().run(&Request::get_task(), &Answer::json(200, &body)), &body.to_string());
    }
}

#[test]
fn e5_only_allowed_types_leave_and_in_full() {
    let kinds = [
        "BadRequest",
        "RetryInfo",
        "PreconditionFailure",
        "QuotaFailure",
        "LocalizedMessage",
        "DebugInfo",
        "ResourceInfo",
        "RequestInfo",
        "Help",
        "Unheard",
    ];
    let mut data = vec![json!(null), json!("acme"), json!(7), json!({"x": "acme"})];
    for kind in kinds {
        for prefix in ["", "type.googleapis.com/", "type.example/"] {
            data.push(
                json!({"@type": format!("{prefix}google.rpc.{kind}"), "owner": "acme", "detail": "acme",
                "fieldViolations": [{"field": "a.b", "description": "Required", "reason": "acme"}],
                "violations": [{"type": "T", "subject": "S", "description": "Too many", "x": "acme"}],
                "retryDelay": "2s", "locale": "de-DE", "message": "Bitte warten"}),
            );
        }
    }
    let error = json!({"code": -32004, "message": "x", "data": data});
    let seen = Host::rpc().run(&Request::send(), &Answer::error(200, &error));
    faults_of(&seen.body, a2a_errata::normalize::Binding::JsonRpc, 1 << 20).unwrap();
    assert!(!seen.text().contains("acme"), "{}", seen.text());
    for kept in ["BadRequest", "RetryInfo", "PreconditionFailure", "QuotaFailure", "LocalizedMessage"] {
        assert!(seen.text().contains(&format!("type.googleapis.com/google.rpc.{kept}\"")), "{kept}");
    }
    let host = Host::rpc().policy(|p| p.disclosure.detail_types = vec!["acme.Hint".into()]);
    let hint = json!({"code": -32004, "message": "x", "data": [{"@type": "acme.Hint", "n": 1}]});
    let seen = host.run(&Request::send(), &Answer::error(200, &hint));
    assert_eq!(seen.error()["data"][1], json!({"@type": "type.googleapis.com/acme.Hint", "n": 1}));
}

#[test]
fn e5_one_error_info_of_several() {
    let info = |reason: &str, domain: &str| json!({"@type": ERROR_INFO, "reason": reason, "domain": domain});
    let data = json!([{"@type": BAD_REQUEST, "fieldViolations": [{"field": "a", "description": "Required"}]},
        info("X", "acme.example"), info("UNSUPPORTED_OPERATION", "a2a-protocol.org"), info("Y", "openwop.dev"),
        info("UNSUPPORTED_OPERATION", "a2a-protocol.org")]);
    let seen = Host::rpc()
        .run(&Request::send(), &Answer::error(200, &json!({"code": -32004, "message": "x", "data": data})));
    let kinds: Vec<Value> =
        seen.error()["data"].as_array().unwrap().iter().map(|d| d["@type"].clone()).collect();
    assert_eq!(kinds, [ERROR_INFO, BAD_REQUEST]);
    assert_eq!(seen.reason().as_deref(), Some("UNSUPPORTED_OPERATION"));
}

#[test]
fn e6_metadata_values() {
    for (value, want) in [
        ("\"text\"", Some("text")),
        ("7", Some("7")),
        ("1.50", Some("1.50")),
        ("1e3", Some("1000")),
        ("12345678901234567890", Some("12345678901234567890")),
        ("true", Some("true")),
        ("[\"1.0\",\"0.3\"]", Some("1.0,0.3")),
        ("[1,true,\"x\"]", Some("1,true,x")),
        ("null", None),
        ("{}", None),
        ("{\"a\":1}", None),
    ] {
        for data in [
            format!("{{\"mediaType\":{value}}}"),
            format!(
                "[{{\"@type\":\"{ERROR_INFO}\",\"reason\":\"CONTENT_TYPE_NOT_SUPPORTED\",\"metadata\":{{\"mediaType\":{value}}}}}]"
            ),
            format!("{{\"metadata\":{{\"mediaType\":{value}}}}}"),
        ] {
            let body = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{{\"code\":-32005,\"message\":\"x\",\"data\":{data}}}}}"
            );
            let seen = Host::rpc().run(&Request::send(), &Answer::raw(200, body));
            let want = want.map(|w| json!({"mediaType": w}));
            assert_eq!(seen.error()["data"][0].get("metadata").cloned(), want, "{data}");
        }
    }
}

#[test]
fn e7_the_versions_are_the_interfaces_cut_with_the_hosts() {
    let host = Host::with("/a2a", a2a_errata::normalize::Binding::JsonRpc, &["1.0", "0.3"]);
    let request = Request::send().set("a2a-version", Some("2.0"));
    for (data, versions) in [
        (json!(null), "1.0,0.3"),
        (json!({"supportedVersions": ["0.3", "1.0"]}), "1.0,0.3"),
        (json!({"supportedVersions": ["0.3"]}), "0.3"),
        (json!({"supportedVersions": "9.9, 1.0"}), "1.0"),
        (json!({"supported": ["1.0"]}), "1.0"),
        (json!({"supportedVersions": ["9.9"]}), "1.0,0.3"),
        (
            json!([{"@type": ERROR_INFO, "reason": "VERSION_NOT_SUPPORTED", "metadata": {"supportedVersions": "0.3"}}]),
            "0.3",
        ),
        (json!({"metadata": {"supportedVersions": ["0.3"]}}), "0.3"),
    ] {
        let answer = Answer::error(200, &json!({"code": -32009, "message": "x", "data": data}));
        let seen = host.run(&request, &answer);
        let want = json!({"supportedVersions": versions, "requested": "2.0"});
        assert_eq!(seen.error()["data"][0]["metadata"], want, "{data}");
    }
    let none = Request::send().set("a2a-version", None);
    let seen = Host::rpc().run(&none, &Answer::error(200, &error(-32009)));
    assert_eq!(seen.error()["data"][0]["metadata"], json!({"supportedVersions": "1.0"}));
    let envelope =
        json!({"error": "protocol_version_unsupported", "message": "x", "details": {"supported": ["0.3"]}});
    let seen = host.run(&request, &Answer::json(406, &envelope));
    assert_eq!(seen.error()["data"][0]["metadata"]["supportedVersions"], "0.3");
}

fn diagnostic() -> Value {
    json!({"code": "E1", "severity": "error", "message": "Bad tool", "path": null,
        "location": {"line": 1, "column": 2, "start": 3, "end": 4}, "help": null})
}

fn profile(rows: &Value) -> Value {
    json!({"schema": "semaprax.image-agent-application-error-data.v1", "diagnostics": rows})
}

#[test]
fn e8_a_valid_profile_is_kept_whole() {
    let mut second = diagnostic();
    second["severity"] = json!("warning");
    second["location"] = json!(null);
    second["path"] = json!("a.b");
    let data = profile(&json!([diagnostic(), second]));
    let kept = json!([{"@type": "type.googleapis.com/google.protobuf.Struct", "value": data}]);
    for given in [data.clone(), kept.clone()] {
        let answer = Answer::error(200, &json!({"code": -32000, "message": "x", "data": given}));
        let seen = Host::rpc().run(&Request::send(), &answer);
        assert_eq!(seen.error(), json!({"code": -32000, "message": "Server error", "data": kept}));
    }
    // Only on -32000.
    let answer = Answer::error(200, &json!({"code": -32010, "message": "x", "data": data}));
    assert!(Host::rpc().run(&Request::send(), &answer).error().get("data").is_none());
}

#[test]
fn e8_an_invalid_profile_is_dropped_whole() {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut row = diagnostic();
        change(&mut row);
        profile(&json!([diagnostic(), row]))
    };
    let mut bad = vec![
        profile(&json!([])),
        profile(&json!({})),
        profile(&json!(null)),
        profile(&json!([7])),
        json!({"schema": "semaprax.image-agent-application-error-data.v1"}),
        json!({"schema": "semaprax.image-agent-application-error-data.v2", "diagnostics": [diagnostic()]}),
        with(&|r| r["extra"] = json!(1)),
        with(&|r| drop(r.as_object_mut().unwrap().remove("help"))),
        with(&|r| r["severity"] = json!("fatal")),
        with(&|r| r["severity"] = json!(null)),
        with(&|r| r["code"] = json!(1)),
        with(&|r| r["message"] = json!(null)),
        with(&|r| r["path"] = json!(1)),
        with(&|r| r["location"] = json!({"line": 1, "column": 2, "start": 3})),
        with(&|r| r["location"] = json!({"line": -1, "column": 2, "start": 3, "end": 4})),
        with(&|r| r["location"] = json!({"line": 1.5, "column": 2, "start": 3, "end": 4})),
        with(&|r| r["location"] = json!({"line": "1", "column": 2, "start": 3, "end": 4})),
        with(&|r| r["location"] = json!({"line": 1, "column": 2, "start": 3, "end": 4, "x": 5})),
        with(&|r| r["location"] = json!([])),
    ];
    let mut extra = profile(&json!([diagnostic()]));
    extra["tenant"] = json!("acme");
    bad.push(extra);
    for data in bad {
        for data in
            [data.clone(), json!([{"@type": "type.googleapis.com/google.protobuf.Struct", "value": data}])]
        {
            let answer = Answer::error(200, &json!({"code": -32000, "message": "x", "data": data}));
            let seen = Host::rpc().run(&Request::send(), &answer);
            assert_eq!(seen.error(), json!({"code": -32000, "message": "Server error"}), "{data}");
        }
    }
}

/// A conformant answer, in the host's own order and spacing.
const CONFORMANT: &str = " {\"id\" : 7, \"error\":{\"data\":[ {\"domain\":\"a2a-protocol.org\",\"reason\":\"UNSUPPORTED_OPERATION\",\n\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\"} ], \"message\":\"This operation is not supported\",\"code\":-32004},\"jsonrpc\":\"2.0\"}\n";

#[test]
fn e9_a_conformant_answer_passes_with_its_head() {
    for media in ["application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"] {
        for split in [Split::Whole, Split::Every(1)] {
            let answer = Answer::raw(200, CONFORMANT)
                .set("content-type", Some(media))
                .header("etag", "\"1\"")
                .header("x-tenant", "acme")
                .split(split);
            let seen = Host::rpc().run(&Request::send(), &answer);
            assert!(seen.passed(&answer), "{media} {}", seen.text());
            assert_eq!(seen.outcome.verdict, Verdict::Conformant);
        }
    }
    for body in [
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"Streaming is off for this skill","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UNSUPPORTED_OPERATION","domain":"a2a-protocol.org","metadata":{"method":"SendMessage"}}]}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32009,"message":"Protocol version is not supported","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"VERSION_NOT_SUPPORTED","domain":"a2a-protocol.org"}]}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32009,"message":"Protocol version is not supported","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"VERSION_NOT_SUPPORTED","domain":"a2a-protocol.org","metadata":{"supportedVersions":"1.0"}}]}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"Internal error"}}"#,
    ] {
        let answer = Answer::raw(200, body).header("retry-after", "5");
        let seen = Host::rpc().run(&Request::send(), &answer);
        assert!(seen.passed(&answer), "{body} {}", seen.text());
    }
    let refusal = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"Authentication required","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UNAUTHENTICATED","domain":"openwop.dev"}]}}"#;
    let answer = Answer::raw(401, refusal);
    assert!(Host::rpc().run(&Request::send(), &answer).passed(&answer));
}

#[test]
fn e9_anything_else_is_written_anew() {
    let same = |body: &str, status: u16, media: &str| {
        let answer = Answer::raw(status, body).set("content-type", Some(media));
        let seen = Host::rpc().run(&Request::send(), &answer);
        assert_eq!(seen.code(), -32004);
        seen.host_head
    };
    assert!(same(CONFORMANT, 200, "application/json"));
    assert!(!same(CONFORMANT, 400, "application/json"), "the status is not");
    assert!(!same(CONFORMANT, 200, "text/plain"), "the media type is not");
    assert!(!same(CONFORMANT, 200, "application/a2a+json"));
    assert!(!same(CONFORMANT, 200, "application/json; charset=utf-16"));
    assert!(!same(&format!("\u{feff}{CONFORMANT}"), 200, "application/json"), "a byte order mark");
    for (from, to) in [
        ("\"id\" : 7", "\"id\":8"),
        ("\"id\" : 7", "\"id\":\"7\""),
        ("\"id\" : 7", "\"id\":7.0"),
        ("\"id\" : 7", "\"id\":null"),
        ("\"id\" : 7,", ""),
        ("\"jsonrpc\":\"2.0\"", "\"jsonrpc\":\"1.0\""),
        ("-32004", "-32004.0"),
        ("-32004", "\"-32004\""),
        ("\"code\":-32004", "\"code\":-32004,\"extra\":1"),
        ("\"jsonrpc\":\"2.0\"", "\"jsonrpc\":\"2.0\",\"extra\":1"),
        ("\"jsonrpc\":\"2.0\"", "\"jsonrpc\":\"2.0\",\"result\":null"),
        ("This operation is not supported", "at /srv/acme"),
        ("a2a-protocol.org", "acme.example\",\"x\":\"y"),
        ("type.googleapis.com/", ""),
        ("\"reason\":", "\"metadata\":{\"tenant\":\"acme\"},\"reason\":"),
        ("\"reason\":", "\"metadata\":{\"method\":7},\"reason\":"),
        ("[ {", "[ null, {"),
        ("\"code\":-32004", "\"code\":-32004,\"code\":-32004"),
    ] {
        let body = CONFORMANT.replace(from, to);
        assert_ne!(body, CONFORMANT);
        let seen = Host::rpc().run(&Request::send(), &Answer::raw(200, body.clone()));
        assert!(!seen.host_head, "{body}");
        assert!(!seen.text().contains("acme"), "{body}");
    }
}

#[test]
fn e9_spacing_over_the_cap_is_written_compact() {
    let host = Host::rpc().policy(|p| p.response_cap_bytes = 4096);
    let body = CONFORMANT.replacen("{\"id\"", &format!("{{{}\"id\"", " ".repeat(5000)), 1);
    let answer = Answer::raw(200, body.clone()).header("x-tenant", "acme");
    let seen = host.run(&Request::send(), &answer);
    assert!(!seen.host_head && seen.header("x-tenant").is_none());
    assert_eq!(seen.json(), serde_json::from_str::<Value>(&body).unwrap());
    assert!(!seen.text().contains(": ") && seen.body.len() < 400, "{}", seen.text());
    let fits = CONFORMANT.replacen("{\"id\"", &format!("{{{}\"id\"", " ".repeat(4096 - CONFORMANT.len())), 1);
    assert_eq!(fits.len(), 4096);
    let answer = Answer::raw(200, fits);
    assert!(host.run(&Request::send(), &answer).passed(&answer));
}

#[test]
fn p1_own_answers_in_both_bindings() {
    let send = Request::http(Method::POST, "/rest/message:send").body("{}");
    for (own, status, code, word) in [
        (OwnAnswer::BadGateway, 502, -32603, "UNAVAILABLE"),
        (OwnAnswer::GatewayTimeout, 504, -32603, "DEADLINE_EXCEEDED"),
        (OwnAnswer::Unavailable, 503, -32603, "UNAVAILABLE"),
        (OwnAnswer::RequestTooLarge, 413, -32600, "INVALID_ARGUMENT"),
        (OwnAnswer::BadRequest, 400, -32600, "INVALID_ARGUMENT"),
        (OwnAnswer::Loop, 508, -32603, "INTERNAL"),
    ] {
        let seen = Host::rpc().own(&Request::send(), own);
        assert_eq!(
            (seen.status, seen.code(), seen.json()["id"].clone()),
            (status, code, json!(7)),
            "{own:?}"
        );
        let retry = (status == 503).then(|| "1".to_owned());
        assert_eq!(seen.header("retry-after"), retry);
        let seen = Host::http().own(&send, own);
        assert_eq!((seen.status, seen.error()["status"].clone()), (status, json!(word)), "{own:?}");
        assert_eq!(seen.header("retry-after"), retry);
    }
}
