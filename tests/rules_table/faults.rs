//! F-1 to F-10: from what a host said to a fault.

use a2a_errata::normalize::{Rule, Verdict};
use http::Method;
use serde_json::{Value, json};

use crate::rules_support::*;

const A2A: [(i64, &str); 9] = [
    (-32001, "TASK_NOT_FOUND"),
    (-32002, "TASK_NOT_CANCELABLE"),
    (-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    (-32004, "UNSUPPORTED_OPERATION"),
    (-32005, "CONTENT_TYPE_NOT_SUPPORTED"),
    (-32006, "INVALID_AGENT_RESPONSE"),
    (-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    (-32008, "EXTENSION_SUPPORT_REQUIRED"),
    (-32009, "VERSION_NOT_SUPPORTED"),
];

#[track_caller]
fn is_valid(seen: &Seen, why: &str) {
    let binding = if seen.json().get("jsonrpc").is_some() {
        a2a_errata::normalize::Binding::JsonRpc
    } else {
        a2a_errata::normalize::Binding::HttpJson
    };
    if let Err(fault) = faults_of(&seen.body, binding, 1 << 20) {
        panic!("{why}: {fault}: {}", seen.text());
    }
}

#[test]
fn f1_the_status_decides_whatever_the_body_says() {
    let bodies = [
        json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32001, "message": "Unauthorized"}}),
        json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32007, "message": "Auth"}}),
        json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32008, "message": "Auth Failed"}}),
        json!({"jsonrpc": "2.0", "id": 7, "result": {"secret": "acme"}}),
        json!({"error": "not_found", "message": "acme"}),
        json!({"detail": "acme"}),
        json!("acme"),
    ];
    for (status, code, reason, message) in [
        (401, -32000, "UNAUTHENTICATED", "Authentication required"),
        (407, -32000, "UNAUTHENTICATED", "Authentication required"),
        (413, -32600, "PAYLOAD_TOO_LARGE", "Request too large"),
        (429, -32000, "RATE_LIMITED", "Too many requests"),
    ] {
        for request in [Request::get_task(), Request::send()] {
            for body in &bodies {
                let seen = Host::rpc().run(&request, &Answer::json(status, body));
                let why = format!("{status} {body}");
                let want = json!({"jsonrpc": "2.0", "id": 7, "error": {"code": code, "message": message,
                    "data": [{"@type": ERROR_INFO, "reason": reason, "domain": "openwop.dev"}]}});
                assert_eq!(seen.json(), want, "{why}");
                assert_eq!(seen.status, status, "{why}");
            }
        }
    }
}

#[test]
fn f1_cut_off_or_over_the_intake_too() {
    use a2a_errata::normalize::Failure;
    let host = Host::rpc().policy(|p| (p.response_cap_bytes, p.intake_bytes) = (4096, 4096));
    for status in [401, 407, 413, 429, 403] {
        let answer = Answer::raw(status, "<html>acme");
        for ending in [Failure::Closed, Failure::TimedOut] {
            let seen = host.run(&Request::send(), &answer.clone().ending(Ending::Fail(ending)));
            assert_eq!(seen.status, status);
            is_valid(&seen, "cut off");
            assert_eq!(seen.finish, Finish::End);
        }
        let seen = host.run(&Request::send(), &Answer::raw(status, "a".repeat(9000)));
        assert_eq!(seen.status, status);
        assert!(seen.reason().is_some(), "{}", seen.text());
        assert!(seen.closes_upstream);
    }
}

#[test]
fn f1_a_403_that_names_no_task_is_a_refusal() {
    for body in
        ["", "{\"error\":\"forbidden\",\"message\":\"acme\"}", "<h1>acme</h1>", "{\"detail\":\"acme\"}"]
    {
        let seen = Host::rpc().run(&Request::send(), &Answer::raw(403, body));
        let want = json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32000, "message": "Permission denied",
            "data": [{"@type": ERROR_INFO, "reason": "PERMISSION_DENIED", "domain": "openwop.dev"}]}});
        assert_eq!((seen.status, seen.json()), (403, want), "{body}");
    }
    let http = Request::http(Method::POST, "/rest/message:send").body("{}");
    let seen = Host::http().run(&http, &Answer::raw(403, "acme"));
    assert_eq!(
        (seen.status, seen.json()),
        (
            403,
            json!({"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "Permission denied",
            "details": [{"@type": ERROR_INFO, "reason": "PERMISSION_DENIED", "domain": "openwop.dev"}]}})
        )
    );
}

#[test]
fn f2_a_reason_counts_in_every_place_and_spelling_and_corrects_the_code() {
    let places: [fn(&str) -> Value; 6] = [
        |r| json!({"code": -32603, "message": "x", "data": {"reason": r}}),
        |r| json!({"code": -32603, "message": "x", "data": [{"reason": r}]}),
        |r| json!({"code": -32603, "message": "x", "data": [{"@type": ERROR_INFO, "reason": r, "domain": "a2a-protocol.org"}]}),
        |r| json!({"code": -32603, "message": "x", "data": [{"@type": ERROR_INFO, "reason": r}]}),
        |r| json!({"code": -32603, "message": "x", "data": [{"@type": "google.rpc.ErrorInfo", "reason": r}]}),
        |r| json!({"code": -32603, "message": "x", "data": {"@type": ERROR_INFO, "reason": r}}),
    ];
    for place in places {
        for spelling in
            ["TASK_NOT_CANCELABLE", "TaskNotCancelableError", "taskNotCancelable", "task-not-cancelable"]
        {
            let error = place(spelling);
            let seen = Host::rpc().run(&Request::send(), &Answer::error(200, &error));
            assert_eq!(seen.code(), -32002, "{error}");
            assert_eq!(seen.reason().as_deref(), Some("TASK_NOT_CANCELABLE"), "{error}");
            assert_eq!(seen.error()["data"].as_array().unwrap().len(), 1, "{error}");
        }
    }
}

#[test]
fn f2_a_reason_of_another_domain_is_none() {
    let error = json!({"code": -32603, "message": "x",
        "data": [{"@type": ERROR_INFO, "reason": "TASK_NOT_CANCELABLE", "domain": "acme.example"}]});
    let seen = Host::rpc().run(&Request::send(), &Answer::error(200, &error));
    assert_eq!(seen.code(), -32603);
    assert!(seen.error().get("data").is_none());
}

#[test]
fn f2_a_problem_type_names_the_error() {
    for (kind, code) in [
        ("https://a2a-protocol.org/errors/task-not-cancelable", -32002),
        ("https://other.example/errors/unsupported-operation", -32004),
        ("/errors/push-notification-not-supported", -32003),
    ] {
        let seen =
            Host::rpc().run(&Request::send(), &Answer::json(400, &json!({"type": kind, "title": "acme"})));
        assert_eq!((seen.status, seen.code()), (200, code), "{kind}");
    }
    for kind in
        ["https://a2a-protocol.org/problems/task-not-cancelable", "about:blank", "task-not-cancelable"]
    {
        let seen = Host::rpc().run(&Request::send(), &Answer::json(400, &json!({"type": kind})));
        assert_eq!(seen.code(), -32600, "{kind}");
    }
}

#[test]
fn f2_the_message_never_identifies() {
    for message in ["Task not found", "TASK_NOT_FOUND", "Unauthorized", "TaskNotCancelableError"] {
        let seen = Host::rpc()
            .run(&Request::get_task(), &Answer::error(200, &json!({"code": -32603, "message": message})));
        assert_eq!(seen.error(), json!({"code": -32603, "message": "Internal error"}), "{message}");
    }
}

#[test]
fn f3_every_code_is_its_error() {
    for (code, reason) in A2A {
        // On a call that names no task, so that TASK_NOT_FOUND is not O-1's.
        let seen =
            Host::rpc().run(&Request::send(), &Answer::error(200, &json!({"code": code, "message": "x"})));
        assert_eq!((seen.code(), seen.reason().as_deref()), (code, Some(reason)));
        is_valid(&seen, reason);
    }
    for (code, message) in [
        (-32700, "Invalid JSON payload"),
        (-32600, "Request payload validation error"),
        (-32601, "Method not found"),
        (-32602, "Invalid parameters"),
        (-32603, "Internal error"),
    ] {
        let error = json!({"code": code, "message": "at /srv/acme", "data": {"tenant": "acme"}});
        let seen = Host::rpc().run(&Request::send(), &Answer::error(200, &error));
        assert_eq!(seen.error(), json!({"code": code, "message": message}));
    }
}

#[test]
fn f3_integral_spellings_fold_and_the_rest_is_internal() {
    for (spelling, code) in [
        ("\"-32002\"", -32002),
        ("-32002.0", -32002),
        ("-3.2002e4", -32002),
        ("\"-32602\"", -32602),
        ("-32002.5", -32603),
        ("\"nope\"", -32603),
        ("true", -32603),
        ("{}", -32603),
        ("[]", -32603),
        ("null", -32603),
        ("99999999999999999999999", -32603),
        ("1e400", -32603),
        ("-32052", -32052),
        ("-32000", -32000),
        ("-32099", -32099),
        ("1234", 1234),
        ("0", 0),
        ("\"1234\"", 1234),
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":{spelling},"message":"at /srv"}}}}"#);
        let seen = Host::rpc().run(&Request::send(), &Answer::raw(200, body));
        assert_eq!(seen.code(), code, "{spelling}");
        is_valid(&seen, spelling);
    }
    let seen = Host::rpc().run(&Request::send(), &Answer::error(200, &json!({})));
    assert_eq!(seen.code(), -32603, "no code at all");
}

/// What a row of the table is for a call.
#[derive(Debug, Clone, Copy)]
enum Want {
    NotFound,
    Code(i64),
    /// A code and the status it leaves with.
    On(i64, u16),
}

const CANCEL: &str = "CancelTask";
const PUSH: &str = "GetTaskPushNotificationConfig";

fn task_call(method: &str) -> Request {
    match method {
        PUSH => Request::call(PUSH, &json!({"taskId": "t-1", "id": "c-1"})),
        "SendMessage" => Request::send_to_task(),
        _ => Request::call(method, &json!({"id": "t-1"})),
    }
}

#[test]
fn f4_every_row_of_the_table_on_a_task_addressed_call() {
    use Want::{Code, NotFound, On};
    let rows: &[(&str, u16, &str, Want)] = &[
        ("not_found", 200, "GetTask", NotFound),
        ("run_not_found", 200, "GetTask", NotFound),
        ("task_not_found", 200, CANCEL, NotFound),
        ("run_forbidden", 200, PUSH, NotFound),
        ("id_tenant_mismatch", 200, "SendMessage", NotFound),
        ("workspace_membership_required", 400, "GetTask", NotFound),
        ("forbidden_tenant", 400, "GetTask", NotFound),
        ("replay_source_missing", 200, "GetTask", NotFound),
        ("interrupt_not_found", 409, "GetTask", NotFound),
        ("forbidden", 200, "GetTask", NotFound),
        ("forbidden", 403, "SendMessage", NotFound),
        ("credential_forbidden", 200, "GetTask", NotFound),
        ("sandbox_escape_attempt", 200, CANCEL, NotFound),
        ("acme.no_entry", 403, "GetTask", NotFound),
        ("run_terminal", 409, CANCEL, Code(-32002)),
        ("run_terminal", 409, "SendMessage", Code(-32004)),
        ("run_terminal", 409, "GetTask", Code(-32004)),
        ("capability_required", 422, PUSH, Code(-32003)),
        ("capability_not_provided", 422, PUSH, Code(-32003)),
        ("capability_required", 422, "SendMessage", Code(-32004)),
        ("capability_not_provided", 422, "GetTask", Code(-32004)),
        ("unsupported_media_type", 415, "SendMessage", Code(-32005)),
        ("interop_version_unsupported", 400, "GetTask", Code(-32009)),
        ("protocol_version_unsupported", 406, "GetTask", Code(-32009)),
        ("protocol_version_mismatch", 400, "SendMessage", Code(-32009)),
        ("interop_version_unsupported", 403, "GetTask", Code(-32009)),
        ("validation_error", 400, "SendMessage", Code(-32602)),
        ("fork_point_invalid", 422, "SendMessage", Code(-32602)),
        ("unauthenticated", 401, "GetTask", On(-32000, 401)),
        ("unauthenticated", 200, "GetTask", On(-32000, 401)),
        ("key_revoked", 400, "GetTask", On(-32000, 401)),
        ("rate_limited", 429, "GetTask", On(-32000, 429)),
        ("rate_limited", 200, "GetTask", On(-32000, 429)),
        ("payload_too_large", 413, "SendMessage", On(-32600, 413)),
        ("workspace_too_large", 200, "SendMessage", On(-32600, 413)),
        ("version_conflict", 409, "SendMessage", Code(-32600)),
        ("client_version_unsupported", 426, "GetTask", Code(-32600)),
        ("credential_not_found", 422, "GetTask", Code(-32600)),
        ("pack_version_not_found", 200, "SendMessage", Code(-32600)),
        ("interrupt_expired", 200, CANCEL, Code(-32600)),
        ("internal_error", 500, "GetTask", On(-32603, 500)),
        ("runner_unavailable", 503, "GetTask", On(-32603, 503)),
        ("credential_unavailable", 501, "GetTask", On(-32603, 501)),
    ];
    for (code, status, method, want) in rows {
        let seen = Host::rpc().run(&task_call(method), &Answer::envelope(*status, code));
        let why = format!("{code} on {status} to {method}: {}", seen.text());
        match want {
            NotFound => is_not_found(&seen, &why),
            Code(n) => assert_eq!((seen.status, seen.code()), (200, *n), "{why}"),
            On(n, status) => assert_eq!((seen.status, seen.code()), (*status, *n), "{why}"),
        }
        is_valid(&seen, &why);
        assert!(!seen.text().contains("acme"), "{why}");
    }
}

#[test]
fn f4_a_404_code_is_no_missing_route_where_a_task_is_named() {
    let request = Request::http(Method::GET, "/rest/tasks/t-1");
    let seen = Host::http().run(&request, &Answer::envelope(422, "credential_not_found"));
    assert_eq!(
        (seen.status, seen.reason().as_deref()),
        (400, Some("CREDENTIAL_NOT_FOUND")),
        "{}",
        seen.text()
    );
    // A 404 would be "not found" behind a second proxy (E-5).
    let again = Answer::raw(seen.status, seen.body.clone());
    assert!(Host::http().run(&request, &again).passed(&again));
}

/// E-5: on HTTP+JSON an OpenWOP reason is all that tells the errors of a 400 apart, so it decides.
#[test]
fn f4_a_reason_means_the_same_behind_a_second_proxy() {
    let send = Request::http(Method::POST, "/rest/message:send").body("{}");
    let info = |reason: &str| json!([{"@type": ERROR_INFO, "reason": reason, "domain": "openwop.dev"}]);
    let status = |code: u16, reason: &str| json!({"error": {"code": code, "status": "INVALID_ARGUMENT", "message": "not so", "details": info(reason)}});
    let rpc = |code: i64, reason: &str| json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "not so", "data": info(reason)}});
    for (answer, message) in [
        (Answer::json(422, &status(403, "VERSION_CONFLICT")), "Request payload validation error"),
        (Answer::json(422, &status(422, "VALIDATION_ERROR")), "not so"),
        (Answer::json(400, &status(400, "VERSION_CONFLICT")), "Request payload validation error"),
        (Answer::json(400, &rpc(-32602, "VERSION_CONFLICT")), "Request payload validation error"),
        (Answer::json(400, &rpc(-32600, "VALIDATION_ERROR")), "not so"),
        (Answer::json(400, &rpc(-32700, "ACME_BROKEN")), "Request payload validation error"),
    ] {
        let once = Host::http().run(&send, &answer);
        assert_eq!((once.status, &once.error()["message"]), (400, &json!(message)), "{}", once.text());
        let again = Answer::raw(once.status, once.body.clone());
        assert!(Host::http().run(&send, &again).passed(&again), "{}", once.text());
    }
}

#[test]
fn f4_a_reason_of_the_bindings_own_is_no_code_of_openwops() {
    let get = Request::http(Method::GET, "/rest/tasks/t-1");
    let send = Request::http(Method::POST, "/rest/message:send").body("{}");
    for request in [&get, &send] {
        for reason in [
            "INVALID_PARAMS",
            "INVALID_REQUEST",
            "METHOD_NOT_FOUND",
            "PARSE_ERROR",
            "JSON_PARSE",
            "INTERNAL_ERROR",
        ] {
            for code in [json!([-32602]), json!(-32603), json!(-32602), json!(-32600)] {
                for status in [400, 409, 500, 503] {
                    let info = json!([{"@type": ERROR_INFO, "reason": reason, "domain": "openwop.dev"}]);
                    let body = json!({"jsonrpc": "2.0", "id": 7, "error": {"code": code, "message": "no", "data": info}});
                    let once = Host::http().run(request, &Answer::json(status, &body));
                    let again = Answer::raw(once.status, once.body.clone());
                    let twice = Host::http().run(request, &again);
                    assert_eq!((twice.status, twice.text()), (once.status, once.text()), "{status} {body}");
                }
            }
        }
    }
}

/// A vendor's code, written as a reason, may be a registered code's, the binding's, or one that forbids: it is read
/// as that behind a second proxy, so it is by the first (E-5).
#[test]
fn f4_a_vendors_code_means_the_same_behind_a_second_proxy() {
    let facts: serde_json::Value = serde_json::from_str(include_str!("../facts/openwop-codes.json")).unwrap();
    let mut words: Vec<String> =
        facts["codes"].as_array().unwrap().iter().map(|c| c["code"].as_str().unwrap().to_owned()).collect();
    let more = "conflict_x access_denied permission_denied un_authorized run_not_found task_not_found run_terminal_error \
        invalid_params invalid_request method_not_found internal_error parse_error json_parse version_not_supported \
        unsupported_operation resource_exhausted payload_too_large unauthenticated_error forbidden_error";
    words.extend(more.split_whitespace().map(str::to_owned));
    let mut codes: Vec<String> = Vec::new();
    for word in &words {
        for (at, _) in word.match_indices('_') {
            let (vendor, name) = word.split_at(at);
            codes.push(format!("{}.{}", vendor.replace('_', "-"), name.trim_start_matches('_')));
        }
    }
    assert!(codes.len() > 150 && codes.contains(&"credential.required".to_owned()));
    let calls = [
        (Host::rpc(), Request::call("GetTask", &json!({"id": "t-1"}))),
        (Host::rpc(), Request::call("ListTasks", &json!({}))),
        (Host::rpc(), Request::send_to_task()),
        (Host::http(), Request::http(Method::GET, "/rest/tasks/t-1")),
        (Host::http(), Request::http(Method::GET, "/rest/tasks")),
        (Host::http(), Request::http(Method::POST, "/rest/message:send").body("{}")),
    ];
    for code in &codes {
        for status in [200, 400, 401, 404, 409, 410, 422, 429, 500, 503] {
            for (host, request) in &calls {
                let once = host.run(request, &Answer::envelope(status, code));
                let again = Answer::raw(once.status, once.body.clone());
                let twice = host.run(request, &again);
                assert_eq!((twice.status, twice.text()), (once.status, once.text()), "{code} on {status}");
            }
        }
    }
}

#[test]
fn f4_every_row_of_the_table_on_other_calls() {
    use Want::{Code, NotFound, On};
    let card = Request::call("GetExtendedAgentCard", &json!({}));
    let list = Request::call("ListTasks", &json!({}));
    let rows: &[(&str, u16, &Request, Want)] = &[
        ("not_found", 404, &card, Code(-32007)),
        ("not_found", 200, &card, Code(-32007)),
        ("not_found", 404, &list, Code(-32601)),
        ("run_not_found", 404, &list, Code(-32601)),
        ("run_not_found", 404, &card, Code(-32601)),
        ("task_not_found", 404, &list, Code(-32601)),
        ("task_not_found", 400, &list, Code(-32601)),
        ("replay_source_missing", 404, &list, Code(-32601)),
        ("interrupt_not_found", 404, &list, Code(-32601)),
        ("run_forbidden", 403, &list, On(-32000, 403)),
        ("run_forbidden", 200, &list, On(-32000, 403)),
        ("id_tenant_mismatch", 403, &list, On(-32000, 403)),
        ("workspace_membership_required", 403, &list, On(-32000, 403)),
        ("forbidden_tenant", 403, &list, On(-32000, 403)),
        ("forbidden_tenant", 400, &list, On(-32000, 403)),
        ("forbidden", 403, &list, On(-32000, 403)),
        ("forbidden", 200, &list, On(-32000, 403)),
        ("delegation_scope_amplified", 403, &list, On(-32000, 403)),
        ("run_terminal", 409, &list, Code(-32004)),
        ("capability_required", 422, &list, Code(-32004)),
        ("capability_not_provided", 422, &card, Code(-32004)),
        ("unsupported_media_type", 415, &list, Code(-32005)),
        ("interop_version_unsupported", 400, &list, Code(-32009)),
        ("protocol_version_unsupported", 406, &list, Code(-32009)),
        ("protocol_version_mismatch", 400, &list, Code(-32009)),
        ("validation_error", 400, &list, Code(-32602)),
        ("envelope_invalid", 422, &list, Code(-32602)),
        ("audience_mismatch", 401, &list, On(-32000, 401)),
        ("sign_in_required", 401, &list, On(-32000, 401)),
        ("rate_limited", 429, &list, On(-32000, 429)),
        ("payload_too_large", 413, &list, On(-32600, 413)),
        ("conflict", 409, &list, Code(-32600)),
        ("interrupt_expired", 410, &list, Code(-32600)),
        ("pack_load_failure", 500, &list, On(-32603, 500)),
        ("pack_registry_unreachable", 503, &list, On(-32603, 503)),
        ("acme-labs.ledger_locked", 409, &list, Code(-32600)),
        ("acme-labs.ledger_locked", 422, &list, Code(-32602)),
        ("acme-labs.ledger_locked", 502, &list, On(-32603, 502)),
        ("acme-labs.ledger_locked", 403, &list, On(-32000, 403)),
    ];
    for (code, status, request, want) in rows {
        let seen = Host::rpc().run(request, &Answer::envelope(*status, code));
        let why = format!("{code} on {status}: {}", seen.text());
        match want {
            NotFound => unreachable!(),
            Code(n) => assert_eq!((seen.status, seen.code()), (200, *n), "{why}"),
            On(n, status) => assert_eq!((seen.status, seen.code()), (*status, *n), "{why}"),
        }
        is_valid(&seen, &why);
        assert!(!seen.text().contains("acme says") && !seen.text().contains("tenant\""), "{why}");
    }
}

#[test]
fn f4_what_is_no_a2a_error_names_its_openwop_code() {
    for (code, status, reason) in [
        ("validation_error", 400, "VALIDATION_ERROR"),
        ("version_conflict", 409, "VERSION_CONFLICT"),
        ("internal_error", 500, "INTERNAL_ERROR"),
        ("acme-labs.ledger_locked", 409, "ACME_LABS_LEDGER_LOCKED"),
        ("run_not_found", 404, "RUN_NOT_FOUND"),
        ("key_revoked", 401, "UNAUTHENTICATED"),
        ("forbidden", 403, "PERMISSION_DENIED"),
        ("rate_limited", 429, "RATE_LIMITED"),
        ("workspace_too_large", 413, "PAYLOAD_TOO_LARGE"),
    ] {
        let seen = Host::rpc().run(&Request::send(), &Answer::envelope(status, code));
        let want = json!([{"@type": ERROR_INFO, "reason": reason, "domain": "openwop.dev"}]);
        assert_eq!(seen.error()["data"], want, "{code}");
        let http = Request::http(Method::POST, "/rest/message:send").body("{}");
        let seen = Host::http().run(&http, &Answer::envelope(status, code));
        assert_eq!(seen.error()["details"], want, "{code} on HTTP+JSON");
    }
}

#[test]
fn f4_look_alikes_are_no_envelopes() {
    for body in [
        json!({"error": "Not Found", "message": "Route POST:/a2a not found", "statusCode": 404}),
        json!({"error": "Forbidden", "message": "acme"}),
        json!({"error": "io.a2a.spec.TaskNotFoundError", "message": "acme"}),
        json!({"error": "not_found", "message": 7}),
        json!({"error": "not_found"}),
        json!({"error": "NOT_FOUND", "message": "acme"}),
        json!({"error": "openwop.thing", "message": "acme"}),
        json!({"error": "unheard_of", "message": "acme"}),
    ] {
        let card = Request::call("GetExtendedAgentCard", &json!({}));
        let seen = Host::rpc().run(&card, &Answer::json(400, &body));
        assert_eq!(
            (seen.status, seen.error()),
            (200, json!({"code": -32600, "message": "Request payload validation error"})),
            "{body}"
        );
        let seen = Host::rpc().run(&card, &Answer::json(200, &body));
        assert_eq!((seen.status, seen.code()), (200, -32603), "{body}");
    }
}

#[test]
fn f4_a_body_with_jsonrpc_is_no_envelope() {
    let body = json!({"jsonrpc": "2.0", "error": "not_found", "message": "x"});
    let card = Request::call("GetExtendedAgentCard", &json!({}));
    let seen = Host::rpc().run(&card, &Answer::json(200, &body));
    assert_eq!(seen.code(), -32603);
}

#[test]
fn f5_the_status_of_a_frameworks_answer_decides() {
    let bodies =
        ["", "{\"detail\":\"acme\"}", "<html>acme</html>", "acme", "{\"title\":\"acme\",\"status\":1}"];
    for (status, code, leaves) in [
        (400, -32600, 200),
        (402, -32600, 200),
        (409, -32600, 200),
        (415, -32600, 200),
        (418, -32600, 200),
        (499, -32600, 200),
        (422, -32602, 200),
        (404, -32601, 200),
        (405, -32601, 200),
        (500, -32603, 500),
        (501, -32603, 501),
        (502, -32603, 502),
        (503, -32603, 503),
        (504, -32603, 504),
        (599, -32603, 599),
        (200, -32603, 200),
        (201, -32603, 200),
        (299, -32603, 200),
    ] {
        for body in bodies {
            let seen = Host::rpc().run(&Request::send(), &Answer::raw(status, body));
            let why = format!("{status} {body:?}");
            assert_eq!((seen.status, seen.code()), (leaves, code), "{why}");
            assert!(!seen.text().contains("acme"), "{why}");
            assert!(seen.error().get("data").is_none(), "{why}");
            is_valid(&seen, &why);
        }
    }
}

#[test]
fn f5_a_401_may_stay_empty_but_is_never_a_success() {
    let seen = Host::rpc().run(&Request::send(), &Answer::raw(401, "").header("www-authenticate", "Bearer"));
    assert_eq!(seen.status, 401);
    assert_eq!(seen.header("www-authenticate").as_deref(), Some("Bearer"));
    assert!(seen.body.is_empty() || seen.code() == -32000);
}

#[test]
fn f5_field_violations_are_all_such_a_body_gives() {
    let body = json!({"detail": [{"type": "missing", "loc": ["body", "message", 0], "msg": "Field required",
        "input": {"tenant": "acme"}, "url": "https://errors.example/v", "ctx": {"x": 1}}], "hint": "acme"});
    let seen = Host::rpc().run(&Request::send(), &Answer::json(422, &body));
    let want = json!({"code": -32602, "message": "Invalid parameters", "data": [{"@type": BAD_REQUEST,
        "fieldViolations": [{"field": "body.message.0", "description": "Field required"}]}]});
    assert_eq!((seen.status, seen.error()), (200, want));
}

#[test]
fn f6_what_parsers_disagree_about_is_never_forwarded() {
    let error = r#"{"code":-32004,"message":"No"}"#;
    let odd: Vec<(&str, Vec<u8>, i64)> = vec![
        ("bom", format!("\u{feff}{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{error}}}").into(), -32004),
        ("no jsonrpc", format!("{{\"id\":7,\"error\":{error}}}").into(), -32004),
        ("jsonrpc 1.0", format!("{{\"jsonrpc\":\"1.0\",\"id\":7,\"error\":{error}}}").into(), -32004),
        ("both", format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{{}},\"error\":{error}}}").into(), -32004),
        ("error first", format!("{{\"jsonrpc\":\"2.0\",\"error\":{error},\"result\":{{}},\"id\":7}}").into(), -32004),
        ("escaped key", format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"\\u0065rror\":{error}}}").into(), -32004),
        ("array", format!("[{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{error}}}]").into(), -32603),
        ("trailing", format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{error}}}{{}}").into(), -32603),
        ("trailing comma", format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{error},}}").into(), -32603),
        ("lone", b"{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32004,\"message\":\"\\ud800\"}}".to_vec(), -32004),
        ("bad utf-8", b"{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32004,\"message\":\"\xff\"}}".to_vec(), -32004),
        ("doubled", b"{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32004,\"code\":-32004,\"message\":\"No\"}}".to_vec(), -32004),
        ("doubled result", b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":1},\"result\":{\"b\":2}}".to_vec(), -32603),
        ("doubled errors", format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":null,\"error\":{error}}}").into(), -32004),
        ("NaN", b"{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":NaN,\"message\":\"No\"}}".to_vec(), -32603),
        (
            "deep",
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{{\"code\":-32004,\"message\":\"No\",\"data\":{}{}}}}}",
                "[".repeat(200),
                "]".repeat(200)
            )
            .into(),
            -32004,
        ),
        ("empty object", b"{}".to_vec(), -32603),
        ("neither", b"{\"jsonrpc\":\"2.0\",\"id\":7}".to_vec(), -32603),
        ("error null only", b"{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":null}".to_vec(), -32603),
    ];
    for (why, body, code) in odd {
        let answer = Answer::raw(200, body);
        let seen = Host::rpc().run(&Request::send(), &answer);
        assert!(!seen.host_head, "{why}");
        assert_eq!((seen.status, seen.code(), seen.json()["id"].clone()), (200, code, json!(7)), "{why}");
        is_valid(&seen, why);
    }
}

#[test]
fn f6_no_doubled_member_leaves_in_a_detail() {
    for kind in ["PreconditionFailure", "QuotaFailure"] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":-32004,"message":"x","data":[{{"@type":"type.googleapis.com/google.rpc.{kind}","violations":[{{"description":"one","subject":"app","description":"two"}}]}}]}}}}"#
        );
        let seen = Host::rpc().run(&Request::send(), &Answer::raw(200, body));
        is_valid(&seen, kind);
        assert_eq!(seen.error()["data"][1]["violations"], json!([{"subject": "app", "description": "two"}]));
    }
}

#[test]
fn f6_utf16_and_utf32_are_read() {
    let text = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"No"}}"#;
    let forms: [Vec<u8>; 4] = [
        text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
        text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
    ];
    for body in forms {
        let seen = Host::rpc().run(&Request::send(), &Answer::raw(200, body));
        assert_eq!((seen.code(), seen.reason().as_deref()), (-32004, Some("UNSUPPORTED_OPERATION")));
    }
}

#[test]
fn f6_a_success_passes_however_oddly_it_is_written() {
    let deep = format!("{{\"result\":{}{}}}", "[".repeat(300), "]".repeat(300));
    for body in [
        "{\"result\":{\"a\":1,\"a\":2}}".as_bytes(),
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}".as_bytes(),
        b"{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{},\"error\":null}",
        b"{\"error\":null,\"result\":7}",
        b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":null}",
        b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"error\":{\"code\":-32001}}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"task\":{\"status\":{\"state\":\"TASK_STATE_FAILED\"}}}}",
        b"{\"jsonrpc\":\"2.0\",\"result\":\"\\ud800\"}",
        deep.as_bytes(),
    ] {
        for request in [Request::get_task(), Request::send()] {
            let answer = Answer::raw(200, body).header("etag", "\"1\"").header("x-tenant", "acme");
            let seen = Host::rpc().run(&request, &answer);
            assert!(seen.passed(&answer), "{}", String::from_utf8_lossy(body));
            assert_eq!(seen.outcome.verdict, Verdict::Passed);
        }
    }
}

#[test]
fn f7_a_wrong_code_on_a_version_that_is_not_offered() {
    let host = Host::rpc();
    let request = Request::send().set("a2a-version", Some("2.0"));
    for answer in [
        Answer::error(200, &json!({"code": -32600, "message": "v", "data": {"supportedVersions": ["1.0"]}})),
        Answer::error(200, &json!({"code": -32602, "message": "v", "data": {"supportedVersions": "1.0"}})),
        Answer::error(
            400,
            &json!({"code": -32600, "message": "v", "data": [{"supportedVersions": ["1.0"]}]}),
        ),
        Answer::json(
            400,
            &json!({"error": "validation_error", "message": "v", "details": {"supportedVersions": ["1.0"]}}),
        ),
        Answer::json(400, &json!({"error": "protocol_version_unsupported", "message": "v"})),
        Answer::json(406, &json!({"error": "protocol_version_unsupported", "message": "v"})),
    ] {
        let seen = host.run(&request, &answer);
        assert_eq!((seen.status, seen.code()), (200, -32009), "{:?}", answer.body);
        assert_eq!(
            seen.error()["data"][0]["metadata"],
            json!({"supportedVersions": "1.0", "requested": "2.0"}),
            "{:?}",
            String::from_utf8_lossy(&answer.body)
        );
    }
    // Not without the list, and not on a version that the interface offers.
    let plain = Answer::error(200, &json!({"code": -32600, "message": "v"}));
    assert_eq!(host.run(&request, &plain).code(), -32600);
    let listed =
        Answer::error(200, &json!({"code": -32600, "message": "v", "data": {"supportedVersions": ["1.0"]}}));
    assert_eq!(host.run(&Request::send(), &listed).code(), -32600);
}

#[test]
fn f7_a_version_refusal_is_never_told_as_not_found() {
    for status in [200, 400, 403, 404, 410, 500] {
        let error = json!({"code": -32009, "message": "v"});
        let seen = Host::rpc().run(&Request::get_task(), &Answer::error(status, &error));
        assert_eq!((seen.status, seen.code()), (200, -32009), "{status}");
    }
}

#[test]
fn f8_a_404_without_an_explanation_is_method_not_found_where_no_task_is_named() {
    for body in ["", "Not Found", "{\"detail\":\"Not Found\"}", "{\"error\":\"not_found\",\"message\":\"x\"}"]
    {
        let seen = Host::rpc().run(&Request::send(), &Answer::raw(404, body));
        assert_eq!((seen.status, seen.code()), (200, -32601), "{body}");
        let http = Request::http(Method::POST, "/rest/message:send").body("{}");
        let seen = Host::http().run(&http, &Answer::raw(404, body));
        assert_eq!((seen.status, seen.error()["status"].clone()), (404, json!("NOT_FOUND")), "{body}");
    }
    let explained = Answer::error(404, &json!({"code": -32004, "message": "No"}));
    assert_eq!(Host::rpc().run(&Request::send(), &explained).code(), -32004);
}

#[test]
fn f8_a_bare_405_is_method_not_found_on_any_call() {
    for request in [Request::send(), Request::get_task()] {
        let seen = Host::rpc().run(&request, &Answer::raw(405, "").header("allow", "GET"));
        assert_eq!((seen.status, seen.code()), (200, -32601));
        assert_eq!(seen.header("allow").as_deref(), Some("GET"));
    }
    for path in ["/rest/tasks/t-1", "/rest/tasks"] {
        let seen = Host::http().run(&Request::http(Method::GET, path), &Answer::raw(405, ""));
        assert_eq!((seen.status, seen.reason().as_deref()), (405, Some("METHOD_NOT_FOUND")), "{path}");
        assert_eq!(seen.error()["code"], 405);
    }
}

#[test]
fn f9_a_body_of_4_kib_is_judged_whole_and_a_longer_one_flows() {
    // Begins as a success, then says something else or breaks.
    for tail in ["\"},\"error\":{\"code\":-32004,\"message\":\"No\"}}", "\"},\"result\":1}", "\"}", ""] {
        for length in [4094, 4095, 4096] {
            let head = "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":\"";
            let body = [head, &"x".repeat(length - head.len() - tail.len()), tail].concat();
            assert_eq!(body.len(), length);
            for split in [Split::Whole, Split::Every(1), Split::At(4095), Split::At(100)] {
                let answer = Answer::raw(200, body.clone()).split(split.clone());
                let seen = Host::rpc().run(&Request::send(), &answer);
                assert!(!seen.host_head, "{length} bytes, {split:?}, ending in {tail:?}");
                assert!(matches!(seen.code(), -32004 | -32603));
            }
        }
        for length in [4097, 4098, 8192] {
            // All of the tail comes after the first 4 KiB.
            let head = "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":\"";
            let pad = length.max(4096 + tail.len()) - head.len() - tail.len();
            let body = [head, &"x".repeat(pad), tail].concat();
            if body.len() < 4097 {
                continue;
            }
            for split in [Split::Whole, Split::Every(1000), Split::At(4096), Split::At(4097)] {
                let answer = Answer::raw(200, body.clone()).split(split.clone());
                let seen = Host::rpc().run(&Request::send(), &answer);
                assert!(seen.passed(&answer), "{} bytes, {split:?}, ending in {tail:?}", body.len());
            }
        }
    }
}

#[test]
fn f9_what_follows_a_late_result_decides_nothing_in_any_split() {
    let pad = "x".repeat(5000);
    for tail in ["\"result\":7,\"result\":8}", "\"result\":7,\"error\":{\"code\":-32004,\"message\":\"No\"}}"]
    {
        let body = format!("{{\"x\":\"{pad}\",{tail}");
        let stream = format!("data: {{{tail}\n\n");
        for split in (1..40).map(|n| Split::At(body.len() - n)).chain([Split::Whole, Split::Every(1)]) {
            let answer = Answer::raw(200, body.clone()).split(split.clone());
            assert!(Host::rpc().run(&Request::send(), &answer).passed(&answer), "{tail} {split:?}");
        }
        for split in (1..stream.len()).map(Split::At).chain([Split::Whole, Split::Every(1)]) {
            let answer = Answer::raw(200, stream.clone()).set("content-type", Some("text/event-stream"));
            let answer = answer.split(split.clone());
            let seen = Host::rpc().run(&Request::send(), &answer);
            assert!(seen.body == answer.body, "{tail} {split:?} {}", seen.text());
        }
    }
}

#[test]
fn f9_a_success_flows_before_it_is_complete() {
    let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"{}", "x".repeat(6000));
    let seen = Host::rpc().run(&Request::send(), &Answer::raw(200, body.clone()).ending(Ending::Open));
    assert!(seen.host_head);
    assert_eq!(seen.finish, Finish::PassRest);
    assert_eq!(seen.body, body.as_bytes());
    assert!(seen.fired(Rule::F9));
}

#[test]
fn f9_result_null_and_a_late_result_decide_nothing_early() {
    let pad = "x".repeat(5000);
    for (body, code) in [
        (
            format!("{{\"result\":null,\"x\":\"{pad}\",\"error\":{{\"code\":-32004,\"message\":\"No\"}}}}"),
            Some(-32004),
        ),
        (
            format!("{{\"result\":null,\"error\":{{\"code\":-32004,\"message\":\"No\",\"x\":\"{pad}\"}}}}"),
            Some(-32004),
        ),
        (
            format!("{{\"x\":\"{pad}\",\"error\":{{\"code\":-32004,\"message\":\"No\"}},\"result\":{{}}}}"),
            Some(-32004),
        ),
        (format!("{{\"result\":null,\"x\":\"{pad}\"}}"), None),
        (format!("{{\"x\":\"{pad}\",\"result\":{{}}}}"), None),
    ] {
        for split in [Split::Whole, Split::Every(7), Split::At(4096), Split::At(4095)] {
            let answer = Answer::raw(200, body.clone()).split(split);
            let seen = Host::rpc().run(&Request::send(), &answer);
            match code {
                Some(code) => assert_eq!(seen.code(), code),
                None => assert!(seen.passed(&answer)),
            }
        }
    }
}

#[test]
fn f10_an_a2a_code_counts_on_any_other_status() {
    for status in [200, 201, 400, 404, 409, 410, 418, 422, 500, 502, 503] {
        for (code, reason) in A2A {
            if code == -32001 {
                continue;
            }
            let answer = Answer::error(status, &json!({"code": code, "message": "x"}));
            for request in [Request::send(), Request::get_task()] {
                let seen = Host::rpc().run(&request, &answer);
                assert_eq!((seen.status, seen.code()), (200, code), "{status} {reason}");
            }
        }
        let not_found = Answer::error(status, &json!({"code": -32001, "message": "x"}));
        is_not_found(&Host::rpc().run(&Request::get_task(), &not_found), &status.to_string());
    }
}
