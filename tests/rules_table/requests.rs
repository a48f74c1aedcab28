//! I-2 to I-5 and: what is bound, and what is read of the request.

use a2a_errata::normalize::{Binding, Rule, Target, Verdict};
use http::Method;
use serde_json::{Value, json};

use crate::rules_support::*;

fn refused() -> Answer {
    Answer::error(200, &json!({"code": -32004, "message": "at /srv/acme"}))
}

#[test]
fn i2_routes_are_bound_and_other_paths_pass() {
    let bound = |method: Method, path: &str| {
        !Host::http().run(&Request::http(method, path), &Answer::raw(500, "acme")).unbound
    };
    for path in [
        "message:send",
        "message:stream",
        "tasks",
        "tasks/a",
        "tasks/a:cancel",
        "tasks/a:subscribe",
        "tasks/a/pushNotificationConfigs",
        "tasks/a/pushNotificationConfigs/c",
        "extendedAgentCard",
    ] {
        assert!(bound(Method::GET, &format!("/rest/{path}")), "{path}");
        assert!(bound(Method::POST, &format!("/rest/{path}")), "{path}");
        assert!(bound(Method::GET, &format!("/rest/acme/{path}")), "{path} below a tenant");
    }
    for path in ["healthz", "a/b/tasks/c", "message:nope", "message", "card", "tasks/a/b", "openapi.json"] {
        assert!(!bound(Method::GET, &format!("/rest/{path}")), "{path}");
    }
}

#[test]
fn i2_ids_on_a_path_may_be_encoded() {
    for (path, id) in [
        ("/rest/tasks/a%2Fb", "a/b"),
        ("/rest/tasks/a%20b", "a b"),
        ("/rest/tasks/T%C3%A2che", "Tâche"),
        ("/rest/tasks/a~2Fb", "a~2Fb"),
        ("/rest/tasks/a%3Acancel", "a"),
        ("/rest/tasks/%22", "\""),
    ] {
        let seen = Host::http().run(&Request::http(Method::GET, path), &Answer::raw(404, ""));
        assert_eq!(seen.error()["details"][0]["metadata"], json!({"taskId": id}), "{path}");
    }
}

#[test]
fn i3_which_versions_bind() {
    // (offered, header, query, bound)
    type Row = (&'static [&'static str], Option<&'static str>, Option<&'static str>, bool);
    let rows: &[Row] = &[
        (&["1.0"], Some("1.0"), None, true),
        (&["1.0"], None, None, true),
        (&["1.0"], Some(""), None, true),
        (&["1.0"], Some("0.3"), None, true),
        (&["1.0"], Some("9.9"), None, true),
        (&["1.0", "0.3"], Some("1.0"), None, true),
        (&["1.0", "0.3"], Some("1.7"), None, true),
        (&["1.0", "0.3"], None, None, false),
        (&["1.0", "0.3"], Some(""), None, false),
        (&["1.0", "0.3"], Some("0.3"), None, false),
        (&["1.0", "0.3"], Some("0.2"), None, true),
        (&["1.0", "0.3"], Some("2.0"), None, true),
        (&["1.0", "0.3"], Some("nonsense"), None, true),
        (&["1.0", "0.3"], None, Some("A2A-Version=1.0"), true),
        (&["1.0", "0.3"], None, Some("A2A-Version=0.3"), false),
        (&["1.0", "0.3"], None, Some("a2a-version=1%2E0"), true),
        (&["1.0", "0.3"], Some("1.0"), Some("A2A-Version=0.3"), true),
        (&["1.0", "0.3"], Some("0.3"), Some("A2A-Version=1.0"), false),
        (&["0.3"], None, None, false),
        (&["0.3"], Some("1.0"), None, true),
        (&["0.3", "0.2"], Some("0.2"), None, false),
    ];
    for (offered, header, query, bound) in rows {
        let mut request = Request::send().set("a2a-version", *header);
        request.query = query.map(str::to_owned);
        let seen = Host::with("/a2a", Binding::JsonRpc, offered).run(&request, &refused());
        assert_eq!(!seen.unbound, *bound, "{offered:?} {header:?} {query:?}");
    }
}

#[test]
fn i3_several_versions_that_differ_bind() {
    let host = Host::with("/a2a", Binding::JsonRpc, &["1.0", "0.3"]);
    for (first, second) in [("0.3", "1.0"), ("1.0", "0.3")] {
        let request = Request::send().set("a2a-version", Some(first)).header("a2a-version", second);
        assert!(!host.run(&request, &refused()).unbound, "{first} {second}");
    }
    let request = Request::send().set("a2a-version", Some("0.3")).header("a2a-version", "0.3");
    assert!(host.run(&request, &refused()).unbound);
}

#[test]
fn i3_normalize_0_3_binds_and_names_the_old_methods() {
    let host = Host::with("/a2a", Binding::JsonRpc, &["1.0", "0.3"]).policy(|p| p.normalize_0_3 = true);
    for method in ["tasks/get", "tasks/cancel", "tasks/resubscribe"] {
        let request = Request::call(method, &json!({"id": "t-1"})).set("a2a-version", None);
        is_not_found(&host.run(&request, &Answer::raw(404, "acme")), method);
    }
    let request =
        Request::call("message/send", &json!({"message": {"taskId": "t-1"}})).set("a2a-version", None);
    is_not_found(&host.run(&request, &Answer::raw(403, "acme")), "message/send");
    // Without it the same names on a bound request name no task.
    let request = Request::call("tasks/get", &json!({"id": "t-1"}));
    assert_eq!(Host::rpc().run(&request, &Answer::raw(404, "acme")).code(), -32601);
}

#[test]
fn i3_the_old_names_count_at_any_version_under_normalize_0_3() {
    // Hosts dispatch by name: the version header must not be a way around.
    let host = Host::with("/a2a", Binding::JsonRpc, &["1.0", "0.3"]).policy(|p| p.normalize_0_3 = true);
    for version in [Some("1.0"), Some("0.3"), Some("2.0"), None] {
        let request = Request::call("tasks/get", &json!({"id": "t-1"})).set("a2a-version", version);
        is_not_found(&host.run(&request, &Answer::raw(404, "acme")), &format!("{version:?}"));
    }
}

#[test]
fn i3_http_json_errors_at_0_3_have_the_merged_body() {
    let host = Host::with("/v1", Binding::HttpJson, &["1.0", "0.3"]).policy(|p| p.normalize_0_3 = true);
    let get = Request::http(Method::GET, "/v1/tasks/t-1").set("a2a-version", None);
    let seen = host.run(&get, &Answer::raw(404, "acme"));
    let want = json!({"error": {"code": 404, "status": "NOT_FOUND", "message": "Task not found", "details":
        [{"@type": ERROR_INFO, "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org", "metadata": {"taskId": "t-1"}}]},
        "code": -32001, "type": "TaskNotFoundError", "message": "Task not found"});
    assert_eq!((seen.status, seen.json()), (404, want));
}

#[test]
fn i4_other_methods_and_successes_pass() {
    for method in [Method::OPTIONS, Method::CONNECT] {
        let request = Request { method, ..Request::get_task() };
        assert!(Host::rpc().run(&request, &Answer::raw(403, "acme")).unbound);
    }
    for status in [202, 204] {
        let answer = Answer::raw(status, "");
        assert!(Host::rpc().run(&Request::send(), &answer).passed(&answer), "{status}");
    }
    for (status, body) in
        [(200, "{}"), (200, "acme"), (201, "[1"), (302, "acme"), (200, "{\"error\":\"not really\"}")]
    {
        let answer = Answer::raw(status, body);
        let seen = Host::http().run(&Request::http(Method::GET, "/rest/tasks/t-1"), &answer);
        assert!(seen.passed(&answer), "{status} {body}");
    }
}

#[test]
fn i4_a_success_on_http_json_is_never_a_version_refusal() {
    // Only an envelope or a Status body on a 2xx is an error (E-4); these are neither.
    for body in [
        json!({"type": "https://docs.example/errors/version-not-supported", "id": "t-1"}),
        json!({"id": "t-1", "details": [{"@type": ERROR_INFO, "reason": "VERSION_NOT_SUPPORTED"}]}),
        json!({"type": "https://docs.example/errors/task-not-found", "id": "t-1"}),
    ] {
        for status in [200, 302] {
            let answer = Answer::json(status, &body);
            let seen = Host::http().run(&Request::http(Method::GET, "/rest/tasks/t-1"), &answer);
            assert!(seen.passed(&answer), "{status} {body} {}", seen.text());
        }
    }
}

#[test]
fn i5_observe_passes_bytes_and_tells_what_would_be() {
    use a2a_errata::normalize::Mode;
    let host = Host::rpc().policy(|p| p.mode = Mode::Observe);
    for (answer, verdict) in [
        (refused(), Verdict::Rewritten),
        (Answer::raw(404, "acme"), Verdict::Rewritten),
        (Answer::raw(200, "{\"result\":{}}"), Verdict::Passed),
        (Answer::raw(500, ""), Verdict::Rewritten),
    ] {
        for split in [Split::Whole, Split::Every(1)] {
            let answer = answer.clone().split(split);
            let seen = host.run(&Request::get_task(), &answer);
            assert!(seen.passed(&answer));
            assert_eq!(seen.outcome.verdict, verdict);
            assert_eq!(seen.fired(Rule::I5), verdict == Verdict::Rewritten);
        }
    }
    let seen = host.run(&Request::get_task(), &Answer::raw(403, "acme"));
    assert!(seen.outcome.not_found && seen.outcome.collapsed.is_some());
    let big = Answer::raw(200, "x".repeat(5 << 20));
    assert!(host.run(&Request::send(), &big).passed(&big));
}

#[test]
fn i1_before_a_card_is_known_an_a2a_call_is_bound() {
    let host = Host { target: Target::Unknown, ..Host::rpc() };
    is_not_found(&host.run(&Request::get_task(), &Answer::raw(403, "acme")), "an A2A call");
    for body in [
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"eth_call\"}",
        "{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"GetTask\",\"params\":{\"id\":\"t-1\"}}",
        "hello",
        "",
    ] {
        let answer = Answer::raw(403, "acme");
        let seen = host.run(&Request::raw(body), &answer);
        assert!(seen.passed(&answer), "{body}");
    }
}

fn id_of(request: &str) -> (String, Value) {
    let seen = Host::rpc().run(&Request::raw(request), &refused());
    let text = seen.text();
    let raw = text.split_once("\"id\":").unwrap().1.split_once(",\"error\"").unwrap().0.to_owned();
    (raw, seen.error()["code"].clone())
}

#[test]
fn q1_ids_are_raw_tokens() {
    for id in [
        "7",
        "-0",
        "0",
        "9007199254740993",
        "1180591620717411303424",
        "1.0",
        "1e3",
        "-1.5E-7",
        "\"\"",
        "\"a\"",
        "\"\\u0061\"",
        "\"a\\/b\"",
        "\"\\\"\"",
        "\"Tâche\"",
        "\"\\ud83d\\ude00\"",
    ] {
        for body in [
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"SendMessage\"}}"),
            format!(
                "{{\"params\":{{\"id\":9,\"x\":[{{\"id\":8}}]}},\"method\":\"SendMessage\",\"id\" : {id} ,\"jsonrpc\":\"2.0\"}}"
            ),
            format!("{{\"\\u0069d\":{id},\"jsonrpc\":\"2.0\",\"method\":\"SendMessage\"}}"),
        ] {
            assert_eq!(id_of(&body), (id.to_owned(), json!(-32004)), "{body}");
        }
    }
    let long = format!("\"{}\"", "x".repeat(65_536));
    assert_eq!(id_of(&format!("{{\"id\":{long},\"jsonrpc\":\"2.0\",\"method\":\"SendMessage\"}}")).0, long);
}

#[test]
fn q1_the_task_is_found_in_any_order_and_split() {
    let big = "x".repeat(20_000);
    let bodies = [
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"GetTask\",\"params\":{\"id\":\"t-1\"}}".to_owned(),
        "{\"params\":{\"id\":\"t-1\"},\"method\":\"GetTask\",\"id\":7}".to_owned(),
        format!("{{\"params\":{{\"x\":\"{big}\",\"id\":\"t-1\"}},\"x\":[[{{}}]],\"method\":\"GetTask\",\"id\":7}}"),
        "{\"id\":7,\"par\\u0061ms\":{\"i\\u0064\":\"t-1\"},\"method\":\"\\u0047etTask\"}".to_owned(),
        "{\"id\":7,\"method\":\"CancelTask\",\"params\":{\"metadata\":{\"id\":\"zzz\"},\"id\":\"t-1\"}}".to_owned(),
        "{\"id\":7,\"method\":\"SendMessage\",\"params\":{\"message\":{\"parts\":[{\"taskId\":\"zzz\"}],\"taskId\":\"t-1\"}}}".to_owned(),
        "{\"id\":7,\"method\":\"ListTaskPushNotificationConfigs\",\"params\":{\"taskId\":\"t-1\"}}".to_owned(),
    ];
    for body in bodies {
        for split in [Split::Whole, Split::Every(1), Split::Every(3)] {
            for order in [Order::RequestFirst, Order::AnswerFirst] {
                let request = Request::raw(body.clone()).split(split.clone());
                let seen = Host::rpc().order(order).run(&request, &Answer::raw(404, "acme"));
                is_not_found(&seen, body.get(..40).unwrap());
            }
        }
    }
}

#[test]
fn q1_an_answer_that_needs_the_id_waits_and_one_that_does_not_flows() {
    let host = Host::rpc().order(Order::AnswerFirst);
    let seen = host.run(&Request::send(), &refused());
    assert_eq!(seen.json()["id"], 7);
    let answer = Answer::raw(200, "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}");
    assert!(host.run(&Request::send(), &answer).passed(&answer));
}

#[test]
fn q2_what_makes_an_id_null() {
    for body in [
        "",
        "x",
        "7",
        "[]",
        "null",
        "\"x\"",
        "{\"jsonrpc\":\"2.0\",\"id\":7",
        "{\"jsonrpc\":\"2.0\",\"id\":7}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"SendMessage\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"SendMessage\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"SendMessage\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"SendMessage\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":[7],\"method\":\"SendMessage\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"id\":7,\"method\":\"SendMessage\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"\\u0069d\":8,\"method\":\"SendMessage\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":NaN,\"method\":\"SendMessage\"}",
        "[{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"SendMessage\"}]",
    ] {
        assert_eq!(id_of(body).0, "null", "{body}");
    }
    // `jsonrpc` right or not, the object is readable.
    for body in ["{\"id\":7}", "{\"jsonrpc\":\"1.0\",\"id\":7}", "{\"jsonrpc\":5,\"id\":7,\"method\":[]}"] {
        assert_eq!(id_of(body).0, "7", "{body}");
    }
}

#[test]
fn q2_a_notification_without_a_body_stays_without() {
    let notification = Request::raw("{\"jsonrpc\":\"2.0\",\"method\":\"SendMessage\",\"params\":{}}");
    for status in [200, 202, 204, 400, 500] {
        let seen = Host::rpc().run(&notification, &Answer::raw(status, ""));
        assert!(seen.body.is_empty(), "{status} {}", seen.text());
    }
    let seen = Host::rpc().run(&notification, &refused());
    assert_eq!((seen.json()["id"].clone(), seen.code()), (Value::Null, -32004));
}

#[test]
fn q3_which_calls_name_a_task() {
    let named = |method: &str, params: Value| {
        Host::rpc().run(&Request::call(method, &params), &Answer::raw(404, "")).code() == -32001
    };
    assert!(named("GetTask", json!({"id": "t-1"})));
    assert!(named("CreateTaskPushNotificationConfig", json!({"taskId": "t-1"})));
    assert!(named("SendStreamingMessage", json!({"message": {"taskId": "t-1"}})));
    assert!(!named("SendMessage", json!({"message": {"contextId": "c"}})));
    assert!(!named("SendMessage", json!({"message": {"taskId": ""}})));
    assert!(!named("SendMessage", json!({"taskId": "t-1"})));
    assert!(!named("ListTasks", json!({"id": "t-1"})));
    assert!(!named("GetTask", json!({})));
    assert!(!named("GetExtendedAgentCard", json!({"id": "t-1"})));
    assert!(!named("Unheard", json!({"id": "t-1"})));
}
