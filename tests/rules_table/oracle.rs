//! O-1 to O-3: "not yours" and "not there" are one answer.

use a2a_errata::normalize::Failure;
use http::Method;
use serde_json::{Value, json};

use crate::rules_support::*;

/// Every task-addressed call, with parameters in order.
fn task_calls() -> Vec<(&'static str, Request)> {
    let push = json!({"taskId": "t-1", "id": "c-1"});
    vec![
        ("get", Request::get_task()),
        ("cancel", Request::call("CancelTask", &json!({"id": "t-1"}))),
        ("subscribe", Request::call("SubscribeToTask", &json!({"id": "t-1"}))),
        ("get push", Request::call("GetTaskPushNotificationConfig", &push)),
        ("delete push", Request::call("DeleteTaskPushNotificationConfig", &push)),
        ("list push", Request::call("ListTaskPushNotificationConfigs", &json!({"taskId": "t-1"}))),
        (
            "create push",
            Request::call(
                "CreateTaskPushNotificationConfig",
                &json!({"taskId": "t-1", "url": "https://h.example"}),
            ),
        ),
        ("send", Request::send_to_task()),
        ("stream", Request::call("SendStreamingMessage", &json!({"message": {"taskId": "t-1"}}))),
    ]
}

/// Every task-addressed route.
fn task_routes() -> Vec<(Method, &'static str)> {
    vec![
        (Method::GET, "/rest/tasks/t-1"),
        (Method::POST, "/rest/tasks/t-1:cancel"),
        (Method::GET, "/rest/tasks/t-1:subscribe"),
        (Method::POST, "/rest/tasks/t-1:subscribe"),
        (Method::GET, "/rest/tasks/t-1/pushNotificationConfigs"),
        (Method::POST, "/rest/tasks/t-1/pushNotificationConfigs"),
        (Method::GET, "/rest/tasks/t-1/pushNotificationConfigs/c-1"),
        (Method::DELETE, "/rest/tasks/t-1/pushNotificationConfigs/c-1"),
    ]
}

const BODIES: [&str; 7] = [
    "",
    "acme",
    "{\"detail\":\"acme\"}",
    "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32001,\"message\":\"acme\"}}",
    "{\"error\":\"run_forbidden\",\"message\":\"acme\"}",
    "{\"jsonrpc\":",
    "\u{feff}[]",
];

#[test]
fn o1_every_operation_has_the_one_answer() {
    for (why, request) in task_calls() {
        for status in [403, 404, 410] {
            for body in BODIES {
                let answer = Answer::raw(status, body)
                    .header("etag", "\"r-41\"")
                    .header("set-cookie", "sid=1")
                    .header("x-tenant", "acme")
                    .header("www-authenticate", "Bearer realm=\"acme\"")
                    .header("retry-after", "7")
                    .header("cache-control", "no-store")
                    .header("access-control-allow-origin", "*")
                    .header("vary", "origin")
                    .header("a2a-version", "1.0");
                is_not_found(&Host::rpc().run(&request, &answer), &format!("{why} {status} {body:?}"));
            }
        }
    }
}

#[test]
fn o1_every_route_has_the_one_answer() {
    for (method, path) in task_routes() {
        for path in [path.to_owned(), path.replace("/rest/", "/rest/acme/")] {
            for status in [403, 404, 410] {
                for body in BODIES {
                    let answer = Answer::raw(status, body).header("x-tenant", "acme");
                    let seen = Host::http().run(&Request::http(method.clone(), &path), &answer);
                    is_http_not_found(&seen, &format!("{method} {path} {status} {body:?}"));
                }
            }
        }
    }
    for body in [json!({"message": {"taskId": "t-1"}}), json!({"message": {"task_id": "t-1"}})] {
        for route in ["message:send", "message:stream"] {
            let request = Request::http(Method::POST, &format!("/rest/{route}")).body(body.to_string());
            let seen = Host::http().run(&request, &Answer::raw(404, "acme"));
            is_http_not_found(&seen, route);
        }
    }
}

#[test]
fn o1_is_always_written_anew() {
    // What the host says is just right, but its head and spacing are its own.
    let body = json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32001, "message": "Task not found",
        "data": [{"@type": ERROR_INFO, "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org", "metadata": {"taskId": "t-1"}}]}});
    let spaced = serde_json::to_string_pretty(&body).unwrap();
    for text in [body.to_string(), spaced] {
        is_not_found(&Host::rpc().run(&Request::get_task(), &Answer::raw(200, text).header("x-a", "b")), "");
    }
}

/// What is written anew without need is told from what clients needed: a host that is right stays right.
#[test]
fn o1_said_by_the_host_itself_is_no_repair() {
    let said = |metadata: Value, code: i64, message: &str| {
        json!({"jsonrpc": "2.0", "id": 7, "error": {"code": code, "message": message, "data": [
            {"@type": ERROR_INFO, "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org", "metadata": metadata}]}})
    };
    let right = said(json!({"taskId": "t-1"}), -32001, "Task not found");
    let mut bare = right.clone();
    bare["error"]["data"][0].as_object_mut().unwrap().remove("metadata");
    let status = json!({"error": {"code": 404, "status": "NOT_FOUND", "message": "Task not found", "details": [
        {"@type": ERROR_INFO, "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org"}]}});
    let get = Request::http(Method::GET, "/rest/tasks/t-1");
    for (host, request, code, body) in [
        (Host::rpc(), Request::get_task(), 200, &right),
        (Host::rpc(), Request::get_task(), 200, &bare),
        (Host::http(), get, 404, &status),
    ] {
        let seen = host.run(&request, &Answer::json(code, body).header("server", "x"));
        assert!(seen.outcome.said_already && !seen.outcome.is_repair(), "{body}");
    }
    for (why, answer) in [
        ("status", Answer::json(404, &right)),
        ("a header that may tell tasks apart", Answer::json(200, &right).header("x-tenant", "a")),
        ("an etag", Answer::json(200, &right).header("etag", "\"1\"")),
        ("message", Answer::json(200, &said(json!({"taskId": "t-1"}), -32001, "No task t-1"))),
        (
            "metadata",
            Answer::json(200, &said(json!({"taskId": "t-1", "owner": "a"}), -32001, "Task not found")),
        ),
        ("code", Answer::json(200, &said(json!({"taskId": "t-1"}), -32603, "Task not found"))),
        ("collapsed", Answer::envelope(403, "run_forbidden")),
    ] {
        let seen = Host::rpc().run(&Request::get_task(), &answer);
        assert!(seen.outcome.is_repair(), "{why}");
    }
}

#[test]
fn o1_of_the_hosts_headers_only_the_configured_survive() {
    let host = Host::rpc().policy(|p| {
        p.oracle.keep_headers = vec!["x-request-id".parse().unwrap(), "content-encoding".parse().unwrap()];
        p.disclosure.headers = vec!["x-other".parse().unwrap()];
    });
    let answer = Answer::raw(404, "").header("x-request-id", "r").header("x-other", "o");
    let seen = host.run(&Request::get_task(), &answer);
    assert_eq!(seen.header("x-request-id").as_deref(), Some("r"));
    assert_eq!(seen.headers.len(), 3);
}

#[test]
fn o1_on_a_stream_call_it_is_one_event() {
    let request =
        Request::call("SubscribeToTask", &json!({"id": "t-1"})).header("accept", "text/event-stream");
    let plain = Answer::error(200, &json!({"code": -32001, "message": "x"}));
    let mut first = None;
    for answer in
        [plain, Answer::raw(404, ""), Answer::raw(403, "acme"), Answer::envelope(200, "run_forbidden")]
    {
        let seen = Host::rpc().run(&request, &answer);
        assert_eq!(seen.status, 200);
        assert_eq!(seen.header("content-type").as_deref(), Some("text/event-stream"));
        assert!(seen.text().starts_with("data: {\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32001"));
        assert!(seen.text().ends_with("}\n\n"));
        let first = first.get_or_insert_with(|| seen.visible());
        assert_eq!(*first, seen.visible());
    }
}

#[test]
fn o2_over_the_cap_metadata_goes_first_then_the_id() {
    let host = Host::rpc().policy(|p| p.response_cap_bytes = 4096);
    let run = |id: &str, task: &str| {
        let body =
            json!({"jsonrpc": "2.0", "id": id, "method": "GetTask", "params": {"id": task}}).to_string();
        let seen = host.run(&Request::raw(body), &Answer::raw(404, "acme"));
        assert!(seen.body.len() <= 4096);
        assert_eq!(seen.code(), -32001);
        (seen.json()["id"].clone(), seen.error()["data"][0].get("metadata").cloned())
    };
    let long = "i".repeat(3800);
    assert_eq!(run("i", "t-1"), (json!("i"), Some(json!({"taskId": "t-1"}))));
    assert_eq!(run(&long, "t-1").0, json!(long));
    assert_eq!(run(&long, &"t".repeat(100)), (json!(long), None));
    assert_eq!(run("i", &"t".repeat(5000)), (json!("i"), None));
    assert_eq!(run(&"i".repeat(4090), "t-1"), (Value::Null, None));
    assert_eq!(run(&"i".repeat(9000), "t-1"), (Value::Null, None));
}

#[test]
fn o3_cut_off_or_over_the_intake_collapses_too() {
    let host = Host::rpc().policy(|p| (p.response_cap_bytes, p.intake_bytes) = (4096, 4096));
    for status in [403, 404, 410] {
        for failure in [Failure::Closed, Failure::TimedOut] {
            for body in ["", "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32004,\"mess"] {
                let answer = Answer::raw(status, body).ending(Ending::Fail(failure));
                is_not_found(&host.run(&Request::get_task(), &answer), &format!("{status} {failure:?}"));
            }
        }
        let seen = host.run(&Request::get_task(), &Answer::raw(status, "x".repeat(9000)));
        is_not_found(&seen, "over the intake");
        assert!(seen.closes_upstream);
    }
}

#[test]
fn o3_over_the_intake_the_code_that_was_read_counts() {
    let host = Host::rpc().policy(|p| (p.response_cap_bytes, p.intake_bytes) = (4096, 8192));
    let big = "x".repeat(20_000);
    let error = |code: i64| {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{{\"code\":{code},\"message\":\"{big}\"}}}}")
    };
    for (status, body) in [
        (200, error(-32001)),
        (500, error(-32001)),
        (200, error(-31403)),
        (200, error(-32602)),
        (400, error(-32602)),
        (200, format!("{{\"error\":\"run_forbidden\",\"message\":\"{big}\"}}")),
        (200, format!("{{\"error\":\"forbidden\",\"message\":\"{big}\"}}")),
        (200, format!("{{\"error\":\"forbidden_scope\",\"message\":\"{big}\"}}")),
        (200, format!("{{\"error\":\"validation_error\",\"message\":\"{big}\"}}")),
        (422, format!("{{\"detail\":\"{big}\"}}")),
    ] {
        for split in [Split::Whole, Split::Every(1000)] {
            let seen = host.run(&Request::get_task(), &Answer::raw(status, body.clone()).split(split));
            is_not_found(&seen, body.get(..60).unwrap());
            assert!(seen.closes_upstream);
        }
    }
}

#[test]
fn o3_a_404_with_a_jsonrpc_explanation_is_that() {
    for status in [404, 410] {
        for code in [-32002, -32004, -32601, -32603, -32000, 1234] {
            let answer = Answer::error(status, &json!({"code": code, "message": "x"}));
            let seen = Host::rpc().run(&Request::get_task(), &answer);
            assert_eq!((seen.status, seen.code()), (200, code), "{status}");
        }
        let answer = Answer::json(status, &json!({"jsonrpc": "2.0", "id": 7, "result": {}}));
        assert!(Host::rpc().run(&Request::get_task(), &answer).passed(&answer));
        for code in [json!("x"), json!(null), json!(-32001), json!("-32001"), json!({})] {
            let answer = Answer::error(status, &json!({"code": code, "message": "x"}));
            is_not_found(&Host::rpc().run(&Request::get_task(), &answer), &format!("{status} {code}"));
        }
    }
}

#[test]
fn o3_a_403_collapses_whatever_its_body() {
    for answer in [
        Answer::error(403, &json!({"code": -32004, "message": "x"})),
        Answer::json(403, &json!({"jsonrpc": "2.0", "id": 7, "result": {}})),
        Answer::envelope(403, "capability_required"),
        Answer::envelope(403, "acme.no_entry"),
        Answer::raw(403, "RBAC: access denied").set("content-type", Some("text/plain")),
    ] {
        is_not_found(&Host::rpc().run(&Request::get_task(), &answer), &String::from_utf8_lossy(&answer.body));
    }
}

#[test]
fn o3_an_error_that_says_forbidden_collapses() {
    let info =
        |reason: &str, domain: &str| json!([{"@type": ERROR_INFO, "reason": reason, "domain": domain}]);
    let mut errors = vec![
        json!({"code": -31403, "message": "permission denied"}),
        json!({"code": "-31403", "message": "permission denied"}),
        json!({"code": -32603, "message": "x", "data": {"reason": "FORBIDDEN"}}),
    ];
    for reason in ["PERMISSION_DENIED", "FORBIDDEN", "UNAUTHORIZED", "ACCESS_DENIED"] {
        errors.push(json!({"code": -32000, "message": "x", "data": info(reason, "openwop.dev")}));
        errors.push(json!({"code": -32603, "message": "x", "data": info(reason, "a2a-protocol.org")}));
        errors.push(json!({"code": -32603, "message": "x", "data": info(reason, "acme.example")}));
    }
    for reason in [
        "RUN_FORBIDDEN",
        "NOT_FOUND",
        "RUN_NOT_FOUND",
        "ID_TENANT_MISMATCH",
        "WORKSPACE_MEMBERSHIP_REQUIRED",
        "FORBIDDEN_TENANT",
        "REPLAY_SOURCE_MISSING",
        "INTERRUPT_NOT_FOUND",
    ] {
        errors.push(json!({"code": -32000, "message": "x", "data": info(reason, "openwop.dev")}));
    }
    for error in errors {
        for status in [200, 400, 500] {
            for (why, request) in task_calls() {
                let seen = Host::rpc().run(&request, &Answer::error(status, &error));
                is_not_found(&seen, &format!("{why} {status} {error}"));
            }
        }
    }
}

#[test]
fn o3_invalid_params_collapses_where_the_parameters_are_in_order() {
    let answers = [
        Answer::error(200, &json!({"code": -32602, "message": "Access denied to task"})),
        Answer::error(400, &json!({"code": -32602, "message": "x"})),
        Answer::raw(422, "{\"detail\":[]}"),
        Answer::raw(422, ""),
        Answer::envelope(400, "validation_error"),
        Answer::envelope(200, "validation_error"),
        Answer::envelope(422, "envelope_invalid"),
    ];
    for answer in &answers {
        for (why, request) in task_calls() {
            let seen = Host::rpc().run(&request, answer);
            if matches!(why, "send" | "stream") {
                assert_eq!(seen.code(), -32602, "{why}");
            } else {
                is_not_found(&seen, why);
            }
        }
    }
    let invalid = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "x",
        "details": [{"@type": ERROR_INFO, "reason": "INVALID_PARAMS", "domain": "a2a-protocol.org"}]}});
    for answer in
        [Answer::json(400, &invalid), Answer::raw(422, ""), Answer::envelope(400, "validation_error")]
    {
        for (method, path) in task_routes() {
            let seen = Host::http().run(&Request::http(method.clone(), path), &answer);
            is_http_not_found(&seen, path);
        }
    }
}

#[test]
fn o3_invalid_params_stays_where_they_are_not() {
    let answer = Answer::error(200, &json!({"code": -32602, "message": "x"}));
    for (method, params) in [
        ("GetTask", json!({"id": ""})),
        ("GetTask", json!({"id": 5})),
        ("GetTask", json!({"id": null})),
        ("GetTask", json!({})),
        ("GetTask", json!([])),
        ("GetTask", json!({"id": "t-1", "historyLength": -1})),
        ("GetTask", json!({"id": "t-1", "historyLength": 1.5})),
        ("GetTask", json!({"id": "t-1", "historyLength": "1"})),
        ("GetTask", json!({"id": "t-1", "tenant": "acme"})),
        ("GetTask", json!({"id": "t-1", "tenant": ""})),
        ("GetTask", json!({"id": "t-1", "nope": 1})),
        ("CancelTask", json!({"id": "t-1", "nope": 1})),
        ("GetTaskPushNotificationConfig", json!({"taskId": "t-1"})),
        ("GetTaskPushNotificationConfig", json!({"taskId": "t-1", "id": ""})),
        ("ListTaskPushNotificationConfigs", json!({"taskId": "t-1", "tenant": "acme"})),
    ] {
        let seen = Host::rpc().run(&Request::call(method, &params), &answer);
        assert_eq!(seen.code(), -32602, "{method} {params}");
    }
    for (method, params) in [
        ("GetTask", json!({"id": "t-1", "historyLength": 0})),
        ("GetTask", json!({"historyLength": 10, "id": "t-1"})),
        ("GetTask", json!({"id": "t-1", "history_length": 10})),
    ] {
        is_not_found(&Host::rpc().run(&Request::call(method, &params), &answer), &params.to_string());
    }
}

#[test]
fn o3_authentication_and_infrastructure_are_never_not_found() {
    for status in [401, 407, 413, 429, 500, 502, 503, 504] {
        for body in [
            "",
            "{\"detail\":\"acme\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32603,\"message\":\"x\"}}",
        ] {
            let seen = Host::rpc().run(&Request::get_task(), &Answer::raw(status, body));
            assert_eq!(seen.status, status);
            assert_ne!(seen.code(), -32001, "{status} {body}");
        }
    }
    let internal = Answer::error(200, &json!({"code": -32603, "message": "x"}));
    assert_eq!(Host::rpc().run(&Request::get_task(), &internal).code(), -32603);
}

#[test]
fn o3_insufficient_scope_stays_a_refusal_unless_configured() {
    for (challenge, stays) in [
        ("Bearer error=\"insufficient_scope\", scope=\"tasks:read\"", true),
        ("Bearer realm=\"a\", error=insufficient_scope", true),
        ("DPoP error = \"insufficient_scope\"", true),
        ("Bearer error=\"invalid_token\"", false),
        ("Bearer realm=\"insufficient_scope\"", false),
        ("Bearer error_description=\"insufficient_scope\"", false),
        ("Bearer", false),
    ] {
        let answer = Answer::raw(403, "acme").header("www-authenticate", challenge);
        let seen = Host::rpc().run(&Request::get_task(), &answer);
        if stays {
            assert_eq!((seen.status, seen.code()), (403, -32000), "{challenge}");
            assert_eq!(seen.header("www-authenticate").as_deref(), Some(challenge));
        } else {
            is_not_found(&seen, challenge);
        }
        let host = Host::rpc().policy(|p| p.oracle.collapse_scope = true);
        is_not_found(&host.run(&Request::get_task(), &answer), challenge);
    }
}

#[test]
fn o3_only_a_403_is_kept_for_its_scope() {
    // The exception is "a 403 whose challenge says so", not any answer that carries the challenge.
    for answer in [
        Answer::error(200, &json!({"code": -31403, "message": "x"})),
        Answer::error(400, &json!({"code": -32000, "message": "x", "data": {"reason": "FORBIDDEN"}})),
        Answer::envelope(200, "run_forbidden"),
    ] {
        let answer = answer.header("www-authenticate", "Bearer error=\"insufficient_scope\"");
        is_not_found(&Host::rpc().run(&Request::get_task(), &answer), &String::from_utf8_lossy(&answer.body));
    }
}
