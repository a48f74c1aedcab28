//! What must hold for any bytes: no panic, a passed or a valid answer, the same whatever the split,
//! normalizing twice is normalizing once, one TASK_NOT_FOUND, nothing touched in observe mode.
//! `PROPTEST_CASES` sets how often each is tried.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod rules_support;

use std::sync::LazyLock;

use a2a_errata::normalize::{Failure, Target};
use http::Method;
use proptest::prelude::*;
use proptest::sample::Index;
use rules_support::grammar::{Change, NAMES, SCALARS, apply};
use rules_support::*;
use serde_json::{Value, json};

/// Small enough for debug builds; `PROPTEST_CASES` overrides it.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(160);
    ProptestConfig {
        cases,
        failure_persistence: None,
        max_global_rejects: 1 << 20,
        ..ProptestConfig::default()
    }
}

/// Bodies that hosts really send: the answers of the black-box cases.
static REAL: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/black_box/cases");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let mut found = Vec::new();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "json")) {
        let list: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        for case in list.as_array().unwrap() {
            let up = &case["upstream"];
            if let Some(json) = up.get("json") {
                found.push(json.clone());
            } else if let Some(text) = up["text"].as_str()
                && text.len() < 4000
                && let Ok(json) = serde_json::from_str(text)
            {
                found.push(json);
            }
        }
    }
    assert!(found.len() > 150);
    found
});

/// A scalar that means something somewhere in the rules, or any.
fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(SCALARS.to_vec()).prop_map(str::to_owned),
        "[a-zA-Z0-9 /.@=-]{0,12}".prop_map(|s| format!("\"{s}\"")),
        any::<i64>().prop_map(|n| n.to_string()),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let name = proptest::sample::select(NAMES.to_vec());
    prop_oneof![
        6 => (any::<usize>(), scalar()).prop_map(|(i, s)| Change::Value(i, s)),
        5 => (any::<usize>(), name.clone(), scalar()).prop_map(|(i, n, s)| Change::Member(i, n, s)),
        3 => (any::<usize>(), name).prop_map(|(i, n)| Change::Rename(i, n)),
        1 => (any::<usize>(), any::<u8>()).prop_map(|(i, b)| Change::Byte(i, b)),
        1 => any::<usize>().prop_map(Change::Cut),
        1 => proptest::sample::select(vec![("\u{feff}", ""), ("", "{}"), ("[", "]"), (" \n", "\n"), ("", ",")])
            .prop_map(|(a, b)| Change::Around(a, b)),
    ]
}

/// A real answer with a few changes, or anything at all.
fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
            12 => (any::<Index>(), proptest::collection::vec(change(), 0..4)).prop_map(|(real, changes)| {
                let mut text = real.get(&REAL).to_string().into_bytes();
                for change in &changes {
     apply(&mut text, change);
    }
                text
            }),
            1 => proptest::collection::vec(any::<u8>(), 0..200),
            1 => Just(Vec::new()),
        ]
}

fn status() -> impl Strategy<Value = u16> {
    prop_oneof![
        4 => Just(200u16),
        3 => proptest::sample::select(vec![400u16, 401, 403, 404, 405, 409, 410, 413, 422, 429, 500, 503]),
        1 => 200u16..600,
    ]
}

fn headers() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    proptest::collection::vec(
        proptest::sample::select(vec![
            ("etag", "\"1\""),
            ("x-tenant", "acme"),
            ("retry-after", "5"),
            ("www-authenticate", "Bearer"),
            ("www-authenticate", "Bearer error=\"insufficient_scope\""),
            ("set-cookie", "a=b"),
            ("content-language", "en"),
            ("cache-control", "no-store"),
            ("content-encoding", "identity"),
        ]),
        0..3,
    )
}

fn answer() -> impl Strategy<Value = Answer> {
    let media = proptest::sample::select(vec![
        Some("application/json"),
        Some("application/json"),
        Some("application/problem+json"),
        Some("text/html"),
        None,
    ]);
    (status(), body(), headers(), media).prop_map(|(status, body, headers, media)| {
        let mut answer = Answer::raw(status, body).set("content-type", media);
        for (name, value) in headers {
            answer = answer.header(name, value);
        }
        answer
    })
}

fn split() -> impl Strategy<Value = Split> {
    prop_oneof![Just(Split::Whole), (0usize..600).prop_map(Split::At), (1usize..40).prop_map(Split::Every)]
}

/// Answers that are too long to have room always, and where there is no more room for them.
fn wide_answer() -> impl Strategy<Value = Answer> {
    let name = proptest::sample::select(vec!["message", "data", "details", "detail", "id", "trace"]);
    let end = proptest::sample::select(vec![Ending::End, Ending::Fail(Failure::Closed)]);
    (answer(), any::<usize>(), name, 3000usize..12_000, 0usize..16_000, end).prop_map(
        |(mut answer, at, name, length, room, ending)| {
            apply(&mut answer.body, &Change::Member(at, name, format!("\"{}\"", "a".repeat(length))));
            answer.ending(ending).no_room_from(room)
        },
    )
}

/// Requests of every kind, the interface they are for, and changes to them.
fn request() -> impl Strategy<Value = (Host, Request)> {
    let calls = vec![
        json!({"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": {"id": "t-1", "historyLength": 3}}),
        json!({"jsonrpc": "2.0", "id": "s-1", "method": "CancelTask", "params": {"id": "t-1"}}),
        json!({"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": {"message": {"taskId": "t-1", "contextId": "c"}}}),
        json!({"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": {"message": {"parts": []}}}),
        json!({"jsonrpc": "2.0", "id": 7, "method": "GetTaskPushNotificationConfig", "params": {"taskId": "t-1", "id": "c"}}),
        json!({"jsonrpc": "2.0", "id": 7, "method": "GetExtendedAgentCard"}),
        json!({"jsonrpc": "2.0", "method": "ListTasks", "params": {}}),
    ];
    let rpc = (proptest::sample::select(calls), proptest::collection::vec(change(), 0..3)).prop_map(
        |(call, changes)| {
            let mut text = call.to_string().into_bytes();
            for change in &changes {
                apply(&mut text, change);
            }
            (Host::rpc(), Request::raw(text))
        },
    );
    let routes = vec![
        (Method::GET, "/rest/tasks/t-1"),
        (Method::POST, "/rest/tasks/t-1:cancel"),
        (Method::POST, "/rest/message:send"),
        (Method::GET, "/rest/tasks"),
        (Method::DELETE, "/rest/acme/tasks/t-1/pushNotificationConfigs/c"),
        (Method::GET, "/rest/extendedAgentCard"),
    ];
    let http = (proptest::sample::select(routes), proptest::collection::vec(change(), 0..2)).prop_map(
        |((method, path), changes)| {
            let mut text = Vec::new();
            if method == Method::POST {
                text = br#"{"message":{"taskId":"t-1"}}"#.to_vec();
                for change in &changes {
                    apply(&mut text, change);
                }
            }
            (Host::http(), Request::http(method, path).body(text))
        },
    );
    prop_oneof![3 => rpc, 2 => http]
}

proptest! {
    #![proptest_config(config())]

    /// Passed bytes or a valid answer; never anything between, never a panic.
    #[test]
    fn e1_passed_or_valid((host, request) in request(), answer in answer()) {
        let seen = host.run(&request, &answer);
        prop_assert_eq!(invariants::passed_or_valid(&host, &request, &answer, &seen), Ok(()));
        prop_assert_eq!(invariants::no_header_of_the_hosts(&host, &seen), Ok(()));
        prop_assert_eq!(invariants::never_an_id_of_others(&host, &request, &seen), Ok(()));
        prop_assert_eq!(invariants::one_not_found(&host, &request, &answer, &seen), Ok(()));
        prop_assert!(!seen.host_head || is_untouched(&seen));
    }

    /// The cap holds for whatever is written, and what is over it is the fixed answer.
    #[test]
    fn c1_never_over_the_cap((host, request) in request(), answer in answer(), pad in 0usize..9000) {
        let host = host.policy(|p| (p.response_cap_bytes, p.intake_bytes) = (4096, 4096));
        let mut answer = answer;
        let wide = format!("\"mediaType\":\"{}\",", "a".repeat(pad));
        if let Some(at) = answer.body.windows(8).position(|w| w == b"\"data\":{") {
            answer.body.splice(at + 8..at + 8, wide.bytes());
        }
        let seen = host.run(&request, &answer);
        prop_assert_eq!(invariants::within_the_cap(&host, &seen), Ok(()));
        prop_assert_eq!(invariants::holds_little(&host, &answer, &seen), Ok(()));
    }

    /// Where there is no room to hold it: a 503, or what its beginning decides; never half an answer.
    #[test]
    fn p1_no_room_is_a_503_or_what_is_decided_already(
        (host, request) in request(), answer in wide_answer(), first in any::<bool>(), known in 0..4,
        a in split(), b in split(),
    ) {
        let mut host = host.order(if first { Order::RequestFirst } else { Order::AnswerFirst });
        // What may be to no interface after all (I-1).
        host.target = match host.target {
            Target::Interface(_) if known == 0 => Target::Unknown,
            Target::Interface(interface) if known == 1 => Target::Likely(interface),
            target => target,
        };
        if matches!(host.target, Target::Interface(_)) {
            prop_assert_eq!(invariants::all(&host, &request, &answer, (&a, &b)), Ok(()));
            return Ok(());
        }
        let answer = answer.split(b);
        let seen = host.run(&request.split(a), &answer);
        // Whole either way: the host's own, or one of ours.
        let whole = if seen.host_head { seen.passed(&answer) } else { seen.finish == Finish::End };
        let broke_off = seen.finish == Finish::Abort && matches!(answer.ending, Ending::Fail(_));
        prop_assert!(whole || broke_off, "{:?}", seen.visible());
    }

    /// And in a stream: the same before its first event, an error event behind it.
    #[test]
    fn p1_no_room_in_a_stream_is_an_error_event_or_an_end(
        (host, request) in request(),
        events in proptest::collection::vec((wide_answer(), 0usize..4), 1..4),
        room in 0usize..30_000, first in any::<bool>(), a in split(), b in split(),
    ) {
        let mut text = Vec::new();
        for (answer, kind) in events {
            let line: &[u8] = [&b"data: "[..], b"id: 4\ndata:", b": c\ndata: ", b"event: error\ndata: "][kind];
            text.extend_from_slice(line);
            text.extend(answer.body.iter().filter(|b| !b"\r\n".contains(b)));
            text.extend_from_slice(b"\n\n");
        }
        let host = host.order(if first { Order::RequestFirst } else { Order::AnswerFirst });
        let request = request.header("accept", "text/event-stream");
        let media = Some("text/event-stream");
        let answer = Answer::raw(200, text).set("content-type", media).no_room_from(room);
        prop_assert_eq!(invariants::all(&host, &request, &answer, (&a, &b)), Ok(()));
    }

    /// The same whatever the split of either side's bytes, and whoever ends first.
    #[test]
    fn f9_the_split_does_not_matter(
        (host, request) in request(), answer in answer(), a in split(), b in split(),
    ) {
        let first = host.run(&request, &answer);
        prop_assert_eq!(invariants::same_in_any_split(&host, &request, &answer, (&b, &a), &first), Ok(()));
    }

    /// Nor does it on streams, whatever their lines are made of.
    #[test]
    fn s2_the_split_of_a_stream_does_not_matter(
        (host, request) in request(),
        events in proptest::collection::vec((body(), 0usize..6), 1..4),
        end in proptest::sample::select(vec!["\n\n", "\r\n\r\n", "\r\r", "\n", ""]),
        a in split(), b in split(),
    ) {
        let mut text = Vec::new();
        for (data, kind) in events {
            let line: &[u8] = [&b"data: "[..], b"data:", b"id: 4\ndata: ", b": c\r\ndata: ", b"event: error\rdata: ", b"retry: 5\n\ndata: "][kind];
            text.extend_from_slice(line);
            text.extend(data.iter().filter(|b| !b"\r\n".contains(b)));
            text.extend_from_slice(end.as_bytes());
        }
        let request = request.header("accept", "text/event-stream");
        let answer = Answer::raw(200, text).set("content-type", Some("text/event-stream"));
        let first = host.run(&request, &answer);
        prop_assert_eq!(invariants::events_in_shape(&host, &request, &answer, &first), Ok(()));
        prop_assert_eq!(invariants::same_in_any_split(&host, &request, &answer, (&b, &a), &first), Ok(()));
    }

    /// Our answer, coming from a host, is conformant; TASK_NOT_FOUND becomes itself.
    #[test]
    fn e5_twice_is_once((host, request) in request(), answer in answer()) {
        let once = host.run(&request, &answer);
        prop_assert_eq!(invariants::twice_is_once(&host, &request, &answer, &once), Ok(()));
    }

    /// On a task-addressed call the collapse class is one answer, whatever the host sends.
    #[test]
    fn o1_one_answer(
        body in body(), status in proptest::sample::select(vec![403u16, 404, 410]), headers in headers(),
        end in proptest::sample::select(vec![Ending::End, Ending::Fail(Failure::Closed), Ending::Fail(Failure::TimedOut)]),
        a in split(),
    ) {
        // What section 5 lets through: a challenge for scope, a version refusal, a JSON-RPC explanation.
        let text = String::from_utf8_lossy(&body);
        prop_assume!(!text.contains("VERSION_NOT_SUPPORTED") && !text.contains("ersion") && !text.contains("-32009"));
        let explained = text.contains("jsonrpc") || text.contains("result");
        let status = if explained { 403 } else { status };
        let mut answer = Answer::raw(status, body).split(a).ending(end);
        for (name, value) in headers.into_iter().filter(|(_, v)| !v.contains("insufficient_scope")) {
            answer = answer.header(name, value);
        }
        is_not_found(&Host::rpc().run(&Request::get_task(), &answer), "JSON-RPC");
        is_http_not_found(&Host::http().run(&Request::http(Method::GET, "/rest/tasks/t-1"), &answer), "HTTP+JSON");
    }

    /// Observe mode touches nothing.
    #[test]
    fn i5_observe_touches_nothing((host, request) in request(), answer in answer(), a in split()) {
        prop_assert_eq!(invariants::observed_untouched(&host, &request, &answer.split(a)), Ok(()));
    }

    /// Nothing of a host's marker text, wherever it stands in an error, reaches the client.
    #[test]
    fn d1_no_marker_leaves((host, request) in request(), real in any::<Index>(), at in any::<usize>(), status in status()) {
        let mut text = real.get(&REAL).to_string().into_bytes();
        apply(&mut text, &Change::Value(at, format!("\"at {}\"", invariants::MARKER)));
        let answer = Answer::raw(status, text).header("x-zz", invariants::MARKER);
        let seen = host.run(&request, &answer);
        prop_assert_eq!(invariants::no_marker_leaves(&host, &request, &answer, &seen), Ok(()));
    }
}

proptest! {
    #![proptest_config(config())]

    /// The scanner takes and refuses what serde takes and refuses, quirks aside.
    #[test]
    fn scan_agrees_with_serde(text in body()) {
        prop_assert_eq!(reading::scanner_agrees(&text), Ok(()));
    }

    /// The tree says what serde's does, and writes what it read.
    #[test]
    fn tree_agrees_with_serde(text in body()) {
        prop_assert_eq!(reading::tree_agrees(&text), Ok(()));
    }

    /// The scanner does not care how its bytes come.
    #[test]
    fn scan_in_any_split(text in body(), split in split()) {
        prop_assert_eq!(reading::scans_the_same(&text, &split.pieces(&text)), Ok(()));
    }
}
