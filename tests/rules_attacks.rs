//! What a client tries that wants to learn whether somebody else's task exists, and how hosts leak by
//! accident. Each test is one kind of hole: a request that a host may understand and the proxy might
//! not, or an answer that says more than it should.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod rules_support;

use std::io::Write;

use a2a_errata::normalize::{Binding, Failure, Target};
use http::Method;
use rules_support::*;
use serde_json::{Value, json};

/// What hosts say about a task that is somebody else's, or that there is none.
fn tellings() -> Vec<Answer> {
    vec![
        Answer::raw(403, "{\"detail\":\"acme\"}"),
        Answer::raw(404, "acme"),
        Answer::raw(410, ""),
        Answer::envelope(200, "run_forbidden"),
        Answer::envelope(404, "not_found"),
        Answer::error(200, &json!({"code": -32001, "message": "acme/77"})),
        Answer::error(200, &json!({"code": -31403, "message": "user u-9 not in workspace ws-3"})),
        Answer::error(200, &json!({"code": -32000, "message": "x", "data": {"reason": "FORBIDDEN"}})),
    ]
}

/// All the tellings look the same to this request, and like TASK_NOT_FOUND.
#[track_caller]
fn blind(host: &Host, request: &Request, why: &str) {
    let mut first: Option<_> = None;
    for answer in tellings() {
        let seen = host.run(request, &answer);
        assert!(!seen.unbound, "{why}: not bound");
        let found = seen.visible();
        let not_found = found.2.contains("TASK_NOT_FOUND");
        assert!(not_found, "{why}: {} for {:?}", found.2, String::from_utf8_lossy(&answer.body));
        let first = first.get_or_insert_with(|| found.clone());
        assert_eq!(*first, found, "{why}");
    }
}

fn rpc(body: impl Into<Vec<u8>>) -> Request {
    Request::raw(body)
}

#[test]
fn q1_every_spelling_of_a_task_that_a_host_may_read() {
    for body in [
        r#"{"jsonrpc":"2.0","id":7,"method":"ListTaskPushNotificationConfigs","params":{"task_id":"t-1"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":{"task_id":"t-1"}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":{"t\u0061skId":"t-1"}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"\u0047etTask","params":{"\u0069\u0064":"t-1"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"","id":"t-1"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"t-1","id":""}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"t-1","id":null}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":null,"id":"t-1"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":{},"id":"t-1"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"t-1"},"params":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{},"params":{"id":"t-1"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":[],"params":{"id":"t-1"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","method":"Unheard","params":{"id":"t-1"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"Unheard","method":"GetTask","params":{"id":"t-1"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"ListTasks","method":"GetTask","params":{"id":"t-1"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":7,"method":"GetTask","params":{"id":"t-1"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":{},"message":{"taskId":"t-1"}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":{"taskId":"t-1"},"message":{}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":{"taskId":"","task_id":"t-1"}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":{"task_id":"t-1","taskId":""}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":42}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"t-1","x":NaN}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"t-1"}} {}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"t-1"}"#,
        r#"{"id":7,"method":"GetTask","params":{"id":"t-1"}}"#,
        r#"{"jsonrpc":"1.0","method":"GetTask","params":{"id":"t-1"}}"#,
        " \n\t{\"method\":\"GetTask\",\"params\":{\"id\":\"t-1\"},\"id\":7}\n",
        "\u{feff}{\"method\":\"GetTask\",\"params\":{\"id\":\"t-1\"},\"id\":7}",
    ] {
        blind(&Host::rpc(), &rpc(body), body);
    }
}

#[test]
fn q1_three_methods() {
    // A host may take the first, the last or any other of doubled members.
    let names = ["Unheard", "ListTasks", "GetTask"];
    for (a, b, c) in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"{}","method":"{}","method":"{}","params":{{"id":"t-1"}}}}"#,
            names[a], names[b], names[c]
        );
        blind(&Host::rpc(), &rpc(body.clone()), &body);
    }
}

#[test]
fn q1_names_in_another_case() {
    // Go's encoding/json and others match member names without regard to case.
    for body in [
        r#"{"jsonrpc":"2.0","id":7,"Method":"GetTask","Params":{"ID":"t-1"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"METHOD":"SendMessage","PARAMS":{"MESSAGE":{"TASKID":"t-1"}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":{"taskID":"t-1"}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"ListTaskPushNotificationConfigs","params":{"TaskId":"t-1"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":{"tas\u212aId":"t-1"}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":{"ta\u017fkId":"t-1"}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"","Id":"t-1"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"Unheard","Method":"GetTask","params":{"id":"t-1"}}"#,
    ] {
        blind(&Host::rpc(), &rpc(body), body);
    }
    // The id of the call itself is `id` and nothing else (Q-2).
    let seen = Host::rpc().run(
        &rpc(r#"{"jsonrpc":"2.0","ID":7,"method":"GetTask","params":{"id":"t-1"}}"#),
        &Answer::raw(404, ""),
    );
    assert_eq!(seen.json()["id"], Value::Null);
}

#[test]
fn q1_a_batch_that_names_a_task() {
    for body in [
        r#"[{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"t-1"}}]"#,
        r#"[1,{"jsonrpc":"2.0","id":8,"method":"ListTasks"},{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"t-1"}}]"#,
        r#"[{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":{"taskId":"t-1"}}}]"#,
    ] {
        blind(&Host::rpc(), &rpc(body), body);
        let seen = Host::rpc().run(&rpc(body), &Answer::raw(404, ""));
        assert_eq!(seen.json()["id"], Value::Null, "Q-2: no object");
    }
}

#[test]
fn q1_control_characters_that_lenient_hosts_take() {
    for body in [
        "{\"jsonrpc\":\"2.0\",\"x\":\"a\tb\",\"id\":7,\"method\":\"GetTask\",\"params\":{\"id\":\"t-1\"}}",
        "{\"jsonrpc\":\"2.0\",\"x\":\"a\nb\",\"id\":7,\"method\":\"GetTask\",\"params\":{\"id\":\"t-1\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":\"a\tb\",\"method\":\"GetTask\",\"params\":{\"id\":\"t-1\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"GetTask\",\"params\":{\"id\":\"t\t1\"}}",
    ] {
        blind(&Host::rpc(), &rpc(body), body);
        let seen = Host::rpc().run(&rpc(body), &Answer::raw(404, ""));
        faults_of(&seen.body, Binding::JsonRpc, 4096).unwrap();
    }
}

#[test]
fn q1_what_cannot_be_echoed_does_not_break_the_answer() {
    for body in [
        &b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"GetTask\",\"params\":{\"id\":\"t-1\"}}"[..],
        b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"GetTask\",\"params\":{\"id\":\"\xff\xfe\"}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"GetTask\",\"params\":{\"id\":\"\\ud800\"}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"GetTask\",\"params\":{\"id\":\"t-1",
        b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"GetTask\",\"params\":{\"id\":\"t-\\",
        b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"GetTask\",\"params\":{\"id\":-",
        b"{\"jsonrpc\":\"2.0\",\"id\":NaN,\"method\":\"GetTask\",\"params\":{\"id\":\"t-1\"}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":-Infinity,\"method\":\"GetTask\",\"params\":{\"id\":NaN}}",
    ] {
        let seen = Host::rpc().run(&rpc(body), &Answer::raw(404, ""));
        faults_of(&seen.body, Binding::JsonRpc, 4096)
            .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(body)));
    }
}

#[test]
fn q1_coded_and_foreign_encoded_requests() {
    let plain = r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"t-1"}}"#;
    let gzip = |bytes: &[u8]| {
        let mut w = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        w.write_all(bytes).unwrap();
        w.finish().unwrap()
    };
    let zlib = |bytes: &[u8]| {
        let mut w = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        w.write_all(bytes).unwrap();
        w.finish().unwrap()
    };
    let utf16: Vec<u8> = plain.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let utf32: Vec<u8> = plain.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect();
    let once = gzip(plain.as_bytes());
    let mut padded = once.clone();
    padded.extend_from_slice(&[0; 32]);
    for (coding, body) in [
        ("gzip", once.clone()),
        ("GZip", once.clone()),
        ("x-gzip", once.clone()),
        ("gzip, identity", once.clone()),
        ("gzip, gzip", gzip(&once)),
        ("deflate", zlib(plain.as_bytes())),
        ("deflate, gzip", gzip(&zlib(plain.as_bytes()))),
        ("zstd", zstd::encode_all(plain.as_bytes(), 1).unwrap()),
        ("identity", utf16.clone()),
        ("identity", utf32),
        ("gzip", gzip(&utf16)),
        ("gzip", padded),
    ] {
        for split in [Split::Whole, Split::Every(1)] {
            let request = rpc(body.clone()).header("content-encoding", coding).split(split);
            blind(&Host::rpc(), &request, coding);
        }
    }
}

#[test]
fn q1_ids_hidden_behind_much_else() {
    let big = "x".repeat(300_000);
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let long_name = "n".repeat(5000);
    for body in [
        format!(r#"{{"params":{{"metadata":{{"a":"{big}"}},"id":"t-1"}},"id":7,"method":"CancelTask"}}"#),
        format!(r#"{{"x":{deep},"params":{{"x":{deep},"id":"t-1"}},"id":7,"method":"GetTask"}}"#),
        format!(r#"{{"{long_name}":1,"params":{{"{long_name}":1,"id":"t-1"}},"id":7,"method":"GetTask"}}"#),
    ] {
        blind(&Host::rpc(), &rpc(body.clone()), body.get(..30).unwrap());
    }
}

#[test]
fn i2_spellings_of_a_route_that_hosts_take() {
    // Servers decode before they route, ignore case, or tolerate a slash at the end.
    for path in [
        "/rest/tasks/t-1",
        "/rest/t%61sks/t-1",
        "/rest/tasks%2Ft-1",
        "/rest/tasks%2ft-1%3Acancel",
        "/rest/tasks/t-1/",
        "/rest/tasks/t-1:cancel/",
        "/rest/Tasks/t-1",
        "/rest/TASKS/t-1:CANCEL",
        "/rest/tasks/t-1/pushnotificationconfigs",
        "/rest/tasks/t-1/pushNotificationConfigs/",
        "/rest/tasks/t-1/pushNotificationConfigs/c/",
        "/rest//tasks/t-1",
        "/rest/tasks//t-1",
        "/rest/acme/tasks/t-1/",
        "/rest/acme%2Ftasks%2Ft-1",
        "/rest/./tasks/t-1",
        "/rest/x/../tasks/t-1",
    ] {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            blind(&Host::http(), &Request::http(method, path), path);
        }
    }
}

#[test]
fn q1_http_json_messages_that_name_a_task() {
    for body in [
        r#"{"message":{"taskId":"t-1"}}"#,
        r#"{"message":{"task_id":"t-1"}}"#,
        r#"{"Message":{"TaskId":"t-1"}}"#,
        r#"{"message":{},"message":{"taskId":"t-1"}}"#,
        r#"{"message":{"taskId":"t-1"}"#,
    ] {
        for path in
            ["/rest/message:send", "/rest/message:stream", "/rest/acme/message:send", "/rest/message%3Asend"]
        {
            blind(&Host::http(), &Request::http(Method::POST, path).body(body), &format!("{path} {body}"));
        }
    }
}

#[test]
fn i3_versions_that_mean_one_thing_here_and_another_there() {
    // Not plainly one 0.3 version: bound.
    let host = Host::with("/a2a", Binding::JsonRpc, &["1.0", "0.3"]);
    for value in
        ["0.3, 1.0", "1.0, 0.3", "0.3.0, 1.0", "0.3.0;1.0", "0.3.x", "0.3 1.0", "0.3.1.0", "00.3", "0.03"]
    {
        let seen = host.run(&Request::get_task().set("a2a-version", Some(value)), &Answer::raw(404, ""));
        assert!(!seen.unbound, "{value}");
    }
}

#[test]
fn o3_upgrades_and_other_headers_change_nothing() {
    for (name, value) in [
        ("upgrade", "h2c"),
        ("connection", "upgrade"),
        ("x-http-method-override", "GET"),
        ("content-type", "text/plain"),
        ("expect", "100-continue"),
        ("range", "bytes=0-10"),
        ("if-none-match", "*"),
        ("accept", "text/html"),
    ] {
        blind(&Host::rpc(), &Request::get_task().header(name, value), name);
    }
}

#[test]
fn o3_method_games() {
    for method in
        [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::from_bytes(b"QUERY").unwrap()]
    {
        let request = Request { method: method.clone(), ..Request::get_task() };
        blind(&Host::rpc(), &request, method.as_str());
    }
}

#[test]
fn o3_odd_answers_are_the_same_answer() {
    let tell = json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32001, "message": "acme"}}).to_string();
    let utf16: Vec<u8> = tell.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut w = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    w.write_all(tell.as_bytes()).unwrap();
    let gzip = w.finish().unwrap();
    let mut answers = vec![
        Answer::raw(200, tell.clone()).set("content-type", Some("text/html")),
        Answer::raw(200, tell.clone()).set("content-type", None),
        Answer::raw(200, tell.clone()).set("content-type", Some("application/octet-stream")),
        Answer::raw(200, utf16),
        Answer::raw(200, format!("\u{feff}{tell}")),
        Answer::raw(200, gzip).header("content-encoding", "gzip"),
        Answer::raw(200, zstd::encode_all(tell.as_bytes(), 1).unwrap()).header("content-encoding", "zstd"),
        Answer::raw(302, tell.clone()).header("location", "/acme"),
    ];
    for body in [
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"code":-32001,"message":"acme"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603},"error":{"code":-32001,"message":"acme"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001},"error":null}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001},"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":-32001}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":null,"error":{"code":-32001}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001.00,"message":"\ud800"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":"-32001"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"c\u006fde":-32001}}"#,
        r#"{"id":7,"error":{"code":-32001}}"#,
        r#"{"code":-32001,"message":"acme"}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND"}]}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"data":{"reason":"taskNotFound"}}}"#,
        r#"{"error":{"code":-32603,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND"}]}}"#,
    ] {
        answers.push(Answer::raw(200, body));
    }
    for answer in answers {
        is_not_found(&Host::rpc().run(&Request::get_task(), &answer), &String::from_utf8_lossy(&answer.body));
    }
}

#[test]
fn o3_code_and_reason_at_every_depth_and_order() {
    let deep = format!("{}{}", "[".repeat(400), "]".repeat(400));
    for body in [
        format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"x":{deep},"code":-32001,"message":"acme"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":7,"x":{deep},"error":{{"code":-32001,"data":{deep}}}}}"#),
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":-32603,"data":[{deep},{{"reason":"TASK_NOT_FOUND"}}]}}}}"#
        ),
    ] {
        is_not_found(
            &Host::rpc().run(&Request::get_task(), &Answer::raw(200, body.clone())),
            body.get(..50).unwrap(),
        );
    }
}

#[test]
fn o3_nested_envelopes_and_wrappers_leak_nothing() {
    for body in [
        r#"{"error":{"error":"run_forbidden","message":"acme"}}"#,
        r#"{"detail":{"error":"run_forbidden","message":"acme"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"error":"run_forbidden","message":"acme"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":"run_forbidden acme"}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":["acme"]}"#,
        r#"{"jsonRpcError":{"code":-32001,"message":"acme"}}"#,
        r#"[{"error":"run_forbidden","message":"acme"}]"#,
        r#""acme""#,
        "acme",
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32099,\"message\":\"tenant acme\",\"data\":{\"acme\":\"acme\",\"stack\":[\"acme\"]}}}",
        "{\"jsonrpc\":\"2.0\",\"id\":\"acme\",\"error\":{\"code\":-32603,\"message\":\"acme\",\"acme\":1},\"acme\":{}}",
    ] {
        for status in [200, 400, 409, 418, 422, 500] {
            for request in [Request::get_task(), Request::send()] {
                let answer = Answer::raw(status, body).header("x-acme", "acme").header("set-cookie", "acme");
                let seen = Host::rpc().run(&request, &answer);
                assert!(!seen.host_head && !seen.text().contains("acme"), "{status} {body} {}", seen.text());
                assert!(seen.headers.values().all(|v| v != "acme"));
                faults_of(&seen.body, Binding::JsonRpc, 4096).unwrap();
            }
        }
    }
}

#[test]
fn o3_cut_off_at_every_byte_tells_no_two_tasks_apart() {
    // A foreign task's answer and a missing task's, both cut at the same status.
    let whole =
        json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32004, "message": "acme", "data": {"a": 1}}})
            .to_string();
    for status in [403, 404, 410] {
        for at in 0..whole.len() {
            let body = whole.get(..at).unwrap();
            for failure in [Failure::Closed, Failure::TimedOut] {
                let answer = Answer::raw(status, body).ending(Ending::Fail(failure));
                is_not_found(&Host::rpc().run(&Request::get_task(), &answer), body);
            }
        }
    }
    for at in 0..whole.len() {
        let body = whole.get(..at).unwrap();
        let seen = Host::rpc().run(&Request::get_task(), &Answer::raw(200, body));
        assert_eq!((seen.status, seen.code()), (200, -32603), "ends early: {body}");
        assert!(!seen.text().contains("acme"));
    }
}

#[test]
fn o3_the_intake_crossed_at_every_byte_of_a_code() {
    // However the boundary falls, a code that is not complete is not that code.
    let host = Host::rpc().policy(|p| (p.response_cap_bytes, p.intake_bytes) = (4096, 4096));
    for shift in 0..60 {
        let pad = "x".repeat(4096 - 55 + shift);
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"x\":\"{pad}\",\"error\":{{\"code\":-320019,\"message\":\"acme{}\"}}}}",
            "y".repeat(200)
        );
        for split in [Split::Every(1), Split::Every(64)] {
            let seen = host.run(&Request::get_task(), &Answer::raw(200, body.clone()).split(split));
            assert_eq!(seen.code(), -32603, "{shift} {}", seen.text());
        }
    }
}

#[test]
fn d1_no_text_of_the_host_gets_through_a_list_of_versions_or_keys() {
    for data in [
        json!({"supportedVersions": ["tenant acme"]}),
        json!({"supportedVersions": "tenant acme"}),
        json!({"requested": "tenant acme"}),
        json!([{"@type": ERROR_INFO, "reason": "VERSION_NOT_SUPPORTED", "domain": "a2a-protocol.org",
            "metadata": {"requested": "tenant acme", "supportedVersions": "tenant acme"}}]),
    ] {
        let answer = Answer::error(200, &json!({"code": -32009, "message": "x", "data": data}));
        for request in [Request::send(), Request::send().set("a2a-version", None)] {
            let seen = Host::rpc().run(&request, &answer);
            assert!(!seen.text().contains("acme"), "{data} {}", seen.text());
            let host = Host { target: a2a_errata::normalize::Target::Unknown, ..Host::rpc() };
            let seen = host.run(&request, &answer);
            assert!(!seen.text().contains("acme"), "{data} {}", seen.text());
        }
    }
}

#[test]
fn d2_allowed_keys_carry_no_smuggled_text() {
    // `requested`, `supportedVersions` and `field` are allow-listed; their values are still the host's.
    for reason in ["WORKSPACE_ACME_SUSPENDED", "acme", "A", "A B"] {
        let info = json!([{"@type": ERROR_INFO, "reason": reason, "domain": "acme.example"}]);
        let answer = Answer::error(200, &json!({"code": -32603, "message": "x", "data": info}));
        let seen = Host::rpc().run(&Request::send(), &answer);
        assert!(seen.error().get("data").is_none(), "{reason} {}", seen.text());
    }
}

#[test]
fn c5_a_stream_of_informational_heads_is_not_the_answer() {
    // 1xx is not fed to the machine but for a 101, which passes.
    let answer = Answer::raw(101, "acme");
    assert!(Host::rpc().run(&Request::get_task(), &answer).passed(&answer));
}

#[test]
fn f5_statuses_without_a_body_by_definition() {
    for status in [204, 304] {
        let answer = Answer::raw(status, "").header("etag", "\"1\"");
        assert!(Host::rpc().run(&Request::send(), &answer).passed(&answer));
    }
    // A 205, or a 203 with a body that is an error, is a 2xx as any other.
    let seen = Host::rpc()
        .run(&Request::get_task(), &Answer::error(203, &json!({"code": -32001, "message": "acme"})));
    is_not_found(&seen, "203");
}

#[test]
fn i2_another_spelling_of_the_url_is_bound_if_the_body_is_a_call() {
    let Target::Interface(interface) = Host::rpc().target else { panic!("a known interface") };
    let host = Host { target: Target::Likely(interface), ..Host::rpc() };
    blind(&host, &Request::get_task(), "a call");
    // Anything else there is somebody else's (I-4).
    for body in [r#"{"jsonrpc":"2.0","id":1,"method":"eth_call"}"#, "{", "a=b", ""] {
        let answer = Answer::raw(403, "acme");
        let seen = host.run(&rpc(body), &answer);
        assert!(seen.passed(&answer), "{body}");
    }
}

#[test]
fn s1_a_document_that_calls_itself_a_stream_is_judged_as_one_document() {
    let error = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"at /srv/acme"}}"#;
    let success = r#"{"jsonrpc":"2.0","id":7,"result":{"a":"acme"}}"#;
    for lead in ["", "\n", "\u{feff}", " \r\n\t"] {
        for split in [Split::Whole, Split::Every(1), Split::At(2)] {
            let answer = |body: &str| {
                Answer::raw(200, [lead, body].concat())
                    .set("content-type", Some("text/event-stream"))
                    .split(split.clone())
            };
            let seen = Host::rpc().run(&Request::send(), &answer(error));
            assert_eq!(seen.code(), -32004, "{lead:?} {split:?}");
            assert!(!String::from_utf8_lossy(&seen.body).contains("acme"));
            let passes = answer(success);
            assert!(Host::rpc().run(&Request::send(), &passes).passed(&passes), "{lead:?} {split:?}");
        }
    }
}

#[test]
fn i2_another_spelling_of_an_http_json_base_is_bound_on_its_task_routes() {
    let Target::Interface(interface) = Host::http().target else { panic!("a known interface") };
    let host = Host { target: Target::Likely(interface), ..Host::http() };
    for path in ["/REST/tasks/t-1", "/r%65st/tasks/t-1", "//rest//tasks/t-1", "/x/../Rest/Tasks/t-1:cancel"] {
        blind(&host, &Request::http(Method::GET, path), path);
    }
    // What names no task is somebody else's (I-4).
    for path in ["/REST/healthz", "/REST/tasks", "/other/tasks/t-1x/y", "/REST"] {
        let seen = host.run(&Request::http(Method::GET, path), &Answer::raw(403, "acme"));
        assert!(seen.unbound, "{path}");
    }
    // Encoding that means nothing is the URL itself.
    blind(&Host::http(), &Request::http(Method::GET, "/r%65st/tasks/t-1"), "encoded base");
}
