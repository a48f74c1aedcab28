//! D-1 to D-3: which of a host's words, members and headers reach the client.

use a2a_errata::normalize::{DroppedKind, Messages};
use serde_json::{Value, json};

use crate::rules_support::*;

const CANONICAL: &str = "This operation is not supported";

fn message(host: &Host, text: &str) -> String {
    let seen = host.run(&Request::send(), &Answer::error(200, &json!({"code": -32004, "message": text})));
    seen.error()["message"].as_str().unwrap().to_owned()
}

#[test]
fn d1_guarded_keeps_what_is_harmless() {
    let long = "ok ".repeat(85).trim_end().to_owned() + "k";
    let exact = format!("{}{}", "ok ".repeat(85), "k");
    assert_eq!(exact.chars().count(), 256);
    for text in [
        "Streaming is off for this skill",
        "At most 3 parts are accepted",
        "Try again later",
        "Nur Textnachrichten werden unterstützt",
        "Artifacts of the type image/png are not accepted",
        "Use text/plain or application/json",
        "この操作はサポートされていません",
        "Only one part, please; not 12.",
        "The value must be > 3 and <= 10",
        &exact,
        &long,
    ] {
        assert_eq!(message(&Host::rpc(), text), text);
    }
}

#[test]
fn d1_guarded_replaces_what_can_identify() {
    let too_long = "k".repeat(10) + &" ok".repeat(90);
    for text in [
        "two\nlines",
        "tab\there",
        "a bell \u{7} rings",
        "zero\u{200b}width",
        "bidi \u{202e} trick",
        "at /srv/acme/agent.py",
        "C:\\agents\\acme",
        "./agent.db is locked",
        "see https://acme.example/docs",
        "see www.acme.example",
        "host db-1.internal is down",
        "connect 10.0.0.5:5432 failed",
        "mail ops@acme.example",
        "run 5d2f6a7b-8c9d-4e1f-a2a3-b4c5d6e7f8a9 failed",
        "run 9f86d081884c7d659a2feaa0c55ad015 failed",
        "token eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9 refused",
        "task acme/5d2f6a7b8c9d0e1f2a3b4c is busy",
        "task acme/77 is busy",
        "mode=strict is required",
        "ValueError: no such skill",
        "java.lang.NullPointerException",
        "Traceback (most recent call last)",
        "panicked at main.rs",
        "Your tenant is disabled",
        "Your organization has no seats left",
        "the org has none",
        "workspace is full",
        "account closed",
        "principal unknown",
        "only the owner can do this",
        "you are no member",
        "bad subject",
        "ask your team",
        "no such user",
        "two Users at once",
        "tenantId missing",
        "tenant_id missing",
        "tenantid missing",
        "no such userid",
        "bad orgids given",
        "accountname taken",
        "task acme~2F77 is busy",
        "task acme%2f77 is busy",
        "arn:aws:agents:us-1:1111:x denied",
        "peer 2001:db8:0:1:2:3:4:5 is gone",
        "{\"a\":1}",
        "<b>no</b>",
        "",
        "   ",
        &too_long,
    ] {
        assert_eq!(message(&Host::rpc(), text), CANONICAL, "{text:?}");
    }
}

#[test]
fn d1_an_echo_of_the_requests_own_is_no_disclosure() {
    let run = |request: &Request, text: &str| {
        let seen = Host::rpc().run(request, &Answer::error(200, &json!({"code": -32004, "message": text})));
        seen.error()["message"] == *text
    };
    let task =
        Request::call("SendMessage", &json!({"message": {"taskId": "5d2f6a7b-8c9d-4e1f-a2a3-b4c5d6e7f8a9"}}));
    assert!(run(&task, "Task 5d2f6a7b-8c9d-4e1f-a2a3-b4c5d6e7f8a9 is done"));
    assert!(!run(&Request::send_to_task(), "Task 5d2f6a7b-8c9d-4e1f-a2a3-b4c5d6e7f8a9 is done"));
    assert!(run(&Request::send(), "No handler at /a2a for this"));
    assert!(!run(&Request::send(), "No handler at /a2a/acme for this"));
    let old = Request::call("tasks/acme-thing", &json!({}));
    assert!(run(&old, "No method tasks/acme-thing here"));
    assert!(!run(&old, "No method tasks/acme-thing/x here"));
}

#[test]
fn d1_words_are_added_and_modes_are_kept() {
    let host = Host::rpc().policy(|p| p.disclosure.words = vec!["ledger".into(), "cost center".into()]);
    for text in
        ["The ledger is closed", "Ledgers are closed", "LEDGER", "no cost center given", "your tenant"]
    {
        assert_eq!(message(&host, text), CANONICAL, "{text}");
    }
    assert_eq!(message(&host, "Try again later"), "Try again later");
    let host = Host::rpc().policy(|p| p.disclosure.messages = Messages::Canonical);
    assert_eq!(message(&host, "Try again later"), CANONICAL);
    let host = Host::rpc().policy(|p| p.disclosure.messages = Messages::Upstream);
    assert_eq!(message(&host, "tenant acme at /srv"), "tenant acme at /srv");
    assert_eq!(message(&host, ""), CANONICAL);
}

#[test]
fn d1_some_errors_are_always_canonical() {
    for messages in [Messages::Guarded, Messages::Canonical, Messages::Upstream] {
        let host = Host::rpc().policy(|p| p.disclosure.messages = messages);
        for (code, want) in [
            (-32001, "Task not found"),
            (-32603, "Internal error"),
            (-32700, "Invalid JSON payload"),
            (-32600, "Request payload validation error"),
            (-32000, "Server error"),
        ] {
            let answer = Answer::error(200, &json!({"code": code, "message": "Try again later"}));
            let seen = host.run(&Request::send(), &answer);
            assert_eq!(seen.error()["message"], want, "{code} {messages:?}");
        }
        let seen =
            host.run(&Request::send(), &Answer::error(429, &json!({"code": -32000, "message": "Later"})));
        assert_eq!(seen.error()["message"], "Too many requests");
    }
    let unknown = Answer::error(200, &json!({"code": -32052, "message": "at /srv"}));
    assert_eq!(Host::rpc().run(&Request::send(), &unknown).error()["message"], "The agent returned an error");
}

#[test]
fn d1_descriptions_pass_the_same_gate() {
    let rows = json!([
        {"field": "message.parts", "description": "At least one part is required"},
        {"field": "message.parts[0]", "description": "tenant acme has no quota"},
        {"field": "a", "description": "at /srv/acme"},
        {"field": "/srv/acme", "description": "Required"},
        {"field": "5d2f6a7b8c9d0e1f2a3b4c5d", "description": "Required"}
    ]);
    let error =
        json!({"code": -32602, "message": "x", "data": [{"@type": BAD_REQUEST, "fieldViolations": rows}]});
    let seen = Host::rpc().run(&Request::send(), &Answer::error(200, &error));
    let want = json!([
        {"field": "message.parts", "description": "At least one part is required"},
        {"field": "message.parts[0]", "description": "Invalid value"},
        {"field": "a", "description": "Invalid value"},
        {"description": "Required"},
        {"description": "Required"}
    ]);
    assert_eq!(seen.error()["data"][0]["fieldViolations"], want);
}

#[test]
fn d2_metadata_is_an_allow_list() {
    let data = json!({"mediaType": "image/png", "extension": "https://x.example/e", "method": "SendMessage", "field": "a.b",
        "taskId": "t-1", "contextId": "c-1", "tenant": "acme", "owner": "u-9", "trace": "x", "region": "eu"});
    let run = |host: &Host, request: &Request| -> (Value, Vec<String>) {
        let answer = Answer::error(200, &json!({"code": -32004, "message": "x", "data": data}));
        let seen = host.run(request, &answer);
        let dropped = seen.outcome.dropped_names.iter().map(ToString::to_string).collect();
        assert!(seen.outcome.dropped[DroppedKind::Metadata as usize] > 0);
        (seen.error()["data"][0]["metadata"].clone(), dropped)
    };
    let base = json!({"mediaType": "image/png", "extension": "https://x.example/e", "method": "SendMessage", "field": "a.b"});
    let (metadata, dropped) = run(&Host::rpc(), &Request::send());
    assert_eq!(metadata, base);
    for name in ["tenant", "owner", "trace", "region", "taskId", "contextId"] {
        assert!(dropped.iter().any(|d| d == name), "{name}");
    }
    let mine = Request::call("SendMessage", &json!({"message": {"taskId": "t-1", "contextId": "c-1"}}));
    let mut with = base.clone();
    with["taskId"] = json!("t-1");
    with["contextId"] = json!("c-1");
    assert_eq!(run(&Host::rpc(), &mine).0, with);
    let other = Request::call("SendMessage", &json!({"message": {"taskId": "t-2", "contextId": "c-2"}}));
    assert_eq!(run(&Host::rpc(), &other).0, base);
    let host = Host::rpc().policy(|p| p.disclosure.metadata_keys = vec!["region".into()]);
    let mut with = base.clone();
    with["region"] = json!("eu");
    assert_eq!(run(&host, &Request::send()).0, with);
}

#[test]
fn d3_headers_are_an_allow_list() {
    let kept = [
        "www-authenticate",
        "retry-after",
        "ratelimit-limit",
        "ratelimit-policy",
        "allow",
        "a2a-version",
        "a2a-extensions",
        "access-control-allow-origin",
        "access-control-expose-headers",
        "cache-control",
        "vary",
        "date",
        "traceparent",
        "tracestate",
        "x-configured",
    ];
    let gone = [
        "etag",
        "set-cookie",
        "server",
        "x-tenant",
        "x-powered-by",
        "server-timing",
        "content-language",
        "digest",
        "content-digest",
        "location",
        "via",
        "link",
        "last-modified",
        "content-disposition",
        "p3p",
        "age",
    ];
    let host = Host::rpc().policy(|p| p.disclosure.headers = vec!["x-configured".parse().unwrap()]);
    let mut answer = Answer::error(200, &json!({"code": -32004, "message": "at /srv"}));
    for name in kept.iter().chain(&gone) {
        answer = answer.header(name, "v");
    }
    let seen = host.run(&Request::send(), &answer);
    for name in kept {
        assert_eq!(seen.header(name).as_deref(), Some("v"), "{name}");
    }
    for name in gone {
        assert_eq!(seen.header(name), None, "{name}");
    }
    assert_eq!(seen.headers.len(), kept.len() + 2);
}
