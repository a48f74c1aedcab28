//! What must hold for any bytes: no panic, a passed or a valid answer, the same whatever the split,
//! normalizing twice is normalizing once, one TASK_NOT_FOUND, nothing touched in observe mode.
//! `PROPTEST_CASES` sets how often each is tried.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod rules_support;

use std::sync::LazyLock;

use a2a_errata::normalize::{Binding, Failure, Mode, Verdict};
use a2a_errata::protocol::scan::{Kind, Scanner, Visitor};
use a2a_errata::protocol::tree::{self, Node};
use http::Method;
use proptest::prelude::*;
use proptest::sample::Index;
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

/// Scalars that mean something somewhere in the rules.
fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "null",
            "true",
            "false",
            "0",
            "-0",
            "7",
            "-32001",
            "-32001.0",
            "\"-32001\"",
            "-32002",
            "-32004",
            "-32009",
            "-32602",
            "-32603",
            "-32600",
            "-31403",
            "-32000",
            "403",
            "404",
            "500",
            "5",
            "1e400",
            "-1e-7",
            "NaN",
            "\"2.0\"",
            "\"1.0\"",
            "\"not_found\"",
            "\"run_forbidden\"",
            "\"forbidden\"",
            "\"validation_error\"",
            "\"acme.thing\"",
            "\"TASK_NOT_FOUND\"",
            "\"TASK_NOT_CANCELABLE\"",
            "\"VERSION_NOT_SUPPORTED\"",
            "\"PERMISSION_DENIED\"",
            "\"NOT_FOUND\"",
            "\"INVALID_PARAMS\"",
            "\"a2a-protocol.org\"",
            "\"openwop.dev\"",
            "\"type.googleapis.com/google.rpc.ErrorInfo\"",
            "\"google.rpc.BadRequest\"",
            "\"\"",
            "\"\\ud800\"",
            "\"\\u0000\"",
            "\"t-1\"",
            "\"0.3,1.0\"",
            "{}",
            "[]",
            "[null]",
            "[[]]",
        ])
        .prop_map(str::to_owned),
        "[a-zA-Z0-9 /.@=-]{0,12}".prop_map(|s| format!("\"{s}\"")),
        any::<i64>().prop_map(|n| n.to_string()),
    ]
}

const NAMES: &[&str] = &[
    "jsonrpc",
    "id",
    "result",
    "error",
    "code",
    "message",
    "data",
    "details",
    "reason",
    "domain",
    "metadata",
    "status",
    "@type",
    "detail",
    "errors",
    "type",
    "title",
    "supportedVersions",
    "supported",
    "taskId",
    "fieldViolations",
    "method",
    "params",
    "historyLength",
    "tenant",
    "x",
    "loc",
    "msg",
    "err\\u006fr",
    "\\u0063ode",
    "value",
    "schema",
];

/// One change to a document's text that keeps most of its shape.
#[derive(Debug, Clone)]
enum Change {
    /// In place of one of the values.
    Value(Index, String),
    /// One more member in one of the objects: a new one, or a double.
    Member(Index, &'static str, String),
    /// One of the names becomes another.
    Rename(Index, &'static str),
    /// A byte.
    Byte(Index, u8),
    /// Cut there.
    Cut(Index),
    /// Something before or after it.
    Around(&'static str, &'static str),
}

fn change() -> impl Strategy<Value = Change> {
    let name = proptest::sample::select(NAMES.to_vec());
    prop_oneof![
        6 => (any::<Index>(), scalar()).prop_map(|(i, s)| Change::Value(i, s)),
        5 => (any::<Index>(), name.clone(), scalar()).prop_map(|(i, n, s)| Change::Member(i, n, s)),
        3 => (any::<Index>(), name).prop_map(|(i, n)| Change::Rename(i, n)),
        1 => (any::<Index>(), any::<u8>()).prop_map(|(i, b)| Change::Byte(i, b)),
        1 => any::<Index>().prop_map(Change::Cut),
        1 => proptest::sample::select(vec![("\u{feff}", ""), ("", "{}"), ("[", "]"), (" \n", "\n"), ("", ",")])
            .prop_map(|(a, b)| Change::Around(a, b)),
    ]
}

/// Where values and names begin and end in a well-formed text.
#[derive(Default)]
struct Places {
    values: Vec<(usize, usize)>,
    objects: Vec<usize>,
    names: Vec<(usize, usize)>,
}

/// A plain reader of compact JSON text, only for finding places to change.
fn places(text: &[u8]) -> Places {
    let mut found = Places::default();
    let mut open: Vec<(usize, bool)> = Vec::new();
    let mut i = 0;
    let mut name_next = false;
    while i < text.len() {
        let start = i;
        match text[i] {
            b'{' => {
                open.push((i, true));
                found.objects.push(i + 1);
                name_next = true;
                i += 1;
            }
            b'[' => {
                open.push((i, false));
                name_next = false;
                i += 1;
            }
            b'}' | b']' => {
                i += 1;
                if let Some((begin, _)) = open.pop() {
                    found.values.push((begin, i));
                }
            }
            b',' => {
                name_next = open.last().is_some_and(|o| o.1);
                i += 1;
            }
            b':' => {
                name_next = false;
                i += 1;
            }
            b'"' => {
                i += 1;
                while i < text.len() && text[i] != b'"' {
                    i += if text[i] == b'\\' { 2 } else { 1 };
                }
                i = (i + 1).min(text.len());
                if name_next { found.names.push((start, i)) } else { found.values.push((start, i)) }
            }
            b' ' | b'\n' | b'\r' | b'\t' => i += 1,
            _ => {
                while i < text.len() && !b",]} \n".contains(&text[i]) {
                    i += 1;
                }
                i = i.max(start + 1);
                found.values.push((start, i));
            }
        }
    }
    found
}

fn apply(text: &mut Vec<u8>, change: &Change) {
    let found = places(text);
    let splice = |text: &mut Vec<u8>, (a, b): (usize, usize), with: &str| {
        text.splice(a..b.min(text.len()), with.bytes());
    };
    match change {
        Change::Value(at, with) if !found.values.is_empty() => splice(text, *at.get(&found.values), with),
        Change::Member(at, name, value) if !found.objects.is_empty() => {
            let at = *at.get(&found.objects);
            let comma = if text.get(at) == Some(&b'}') { "" } else { "," };
            splice(text, (at, at), &format!("\"{name}\":{value}{comma}"));
        }
        Change::Rename(at, name) if !found.names.is_empty() => {
            splice(text, *at.get(&found.names), &format!("\"{name}\""));
        }
        Change::Byte(at, byte) if !text.is_empty() => {
            let at = at.index(text.len());
            text[at] = *byte;
        }
        Change::Cut(at) if !text.is_empty() => text.truncate(at.index(text.len())),
        Change::Around(before, after) => {
            splice(text, (0, 0), before);
            text.extend_from_slice(after.as_bytes());
        }
        _ => {}
    }
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

fn binding(host: &Host) -> Binding {
    match &host.target {
        a2a_errata::normalize::Target::Interface(i) | a2a_errata::normalize::Target::Likely(i) => i.binding,
        a2a_errata::normalize::Target::Unknown => Binding::JsonRpc,
    }
}

proptest! {
    #![proptest_config(config())]

    /// Passed bytes or a valid answer; never anything between, never a panic.
    #[test]
    fn e1_passed_or_valid((host, request) in request(), answer in answer()) {
        let seen = host.run(&request, &answer);
        prop_assert!(matches!(seen.finish, Finish::End | Finish::PassRest));
        if seen.host_head {
            prop_assert!(seen.passed(&answer));
            prop_assert!(is_untouched(&seen));
            if answer.status >= 400 && binding(&host) == Binding::HttpJson {
                prop_assert_eq!(faults_of(&seen.body, Binding::HttpJson, 1 << 20), Ok(()));
            }
        } else if !seen.body.is_empty() {
            let valid = faults_of(&seen.body, binding(&host), host.policy.response_cap_bytes);
            // A lone surrogate in the request's own id is echoed as it came (Q-1).
            let lone = String::from_utf8_lossy(&request.body).contains("\\ud800");
            prop_assert!(valid.is_ok() || lone, "{:?}: {}", valid, seen.text());
            prop_assert!(seen.header("content-type").is_some_and(|t| t == "application/json"));
            prop_assert_eq!(seen.header("content-length"), Some(seen.body.len().to_string()));
            for name in ["etag", "set-cookie", "x-tenant", "content-language", "content-encoding"] {
                prop_assert!(seen.header(name).is_none());
            }
        }
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
        if !seen.host_head {
            prop_assert!(seen.body.len() <= 4096);
        }
    }

    /// The same whatever the split of either side's bytes, and whoever ends first.
    #[test]
    fn f9_the_split_does_not_matter(
        (host, request) in request(), answer in answer(), a in split(), b in split(), late in any::<bool>(),
    ) {
        let first = host.run(&request, &answer).visible();
        let order = if late { Order::AnswerFirst } else { Order::RequestFirst };
        let seen = host.clone().order(order).run(&request.split(b), &answer.split(a)).visible();
        prop_assert_eq!(first, seen);
    }

    /// Nor does it on streams, whatever their lines are made of.
    #[test]
    fn s2_the_split_of_a_stream_does_not_matter(
        (host, request) in request(),
        events in proptest::collection::vec((body(), 0usize..6), 1..4),
        end in proptest::sample::select(vec!["\n\n", "\r\n\r\n", "\r\r", "\n", ""]),
        a in split(), late in any::<bool>(),
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
        let first = host.run(&request, &answer).visible();
        let order = if late { Order::AnswerFirst } else { Order::RequestFirst };
        let seen = host.clone().order(order).run(&request, &answer.split(a)).visible();
        prop_assert_eq!(first, seen);
    }

    /// Our answer, coming from a host, is conformant; TASK_NOT_FOUND becomes itself.
    #[test]
    fn e5_twice_is_once((host, request) in request(), answer in answer()) {
        let once = host.run(&request, &answer);
        prop_assume!(!once.host_head && !once.body.is_empty());
        prop_assume!(faults_of(&once.body, binding(&host), 1 << 20).is_ok());
        // On a task's route a 404 collapses unless a JSON-RPC body explains it (O-3), and ours is none.
        prop_assume!(!(binding(&host) == Binding::HttpJson && once.reason().as_deref() == Some("METHOD_NOT_FOUND")));
        let again = Answer { status: once.status, headers: once.headers.clone(), ..Answer::raw(200, once.body.clone()) };
        let twice = host.run(&request, &again);
        prop_assert_eq!(once.visible(), twice.visible());
        if once.outcome.not_found {
            prop_assert!(!twice.host_head);
        } else if once.outcome.verdict == Verdict::Rewritten {
            prop_assert_eq!(twice.outcome.verdict, Verdict::Conformant, "{}", once.text());
        }
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
        let host = host.policy(|p| p.mode = Mode::Observe);
        let answer = answer.split(a);
        prop_assert!(host.run(&request, &answer).passed(&answer));
    }

    /// Nothing of a host's marker text, wherever it stands in an error, reaches the client.
    #[test]
    fn d1_no_marker_leaves((host, request) in request(), real in any::<Index>(), at in any::<Index>(), status in status()) {
        let mut text = real.get(&REAL).to_string().into_bytes();
        apply(&mut text, &Change::Value(at, "\"tenant zz-marker at /srv\"".into()));
        let answer = Answer::raw(status, text).header("x-zz", "zz-marker");
        let seen = host.run(&request, &answer);
        if !seen.host_head {
            // The allow-listed metadata and a valid profile are the host's own words by rule (D-2, E-8).
            let allowed = ["mediaType", "extension", "\"method\"", "\"field\"", "Struct", "supportedVersions"];
            let text = seen.text();
            prop_assert!(!text.contains("zz-marker") || allowed.iter().any(|a| text.contains(a)), "{}", text);
        }
    }
}

/// Collects what the scanner says as a tree of serde's.
#[derive(Default)]
struct Collect {
    strings: Vec<Vec<u8>>,
    token: Vec<u8>,
    depth_ok: bool,
    open: usize,
}

impl Visitor for Collect {
    fn name(&mut self, _: usize, _: Option<&[u8]>) {}
    fn begin(&mut self, depth: usize, kind: Kind) -> bool {
        self.depth_ok = depth == self.open;
        if matches!(kind, Kind::Object | Kind::Array) {
            self.open += 1;
        }
        self.token.clear();
        kind == Kind::String
    }
    fn raw(&mut self, bytes: &[u8]) {
        self.token.extend_from_slice(bytes);
    }
    fn end(&mut self, _: usize, kind: Kind) {
        match kind {
            Kind::Object | Kind::Array => self.open -= 1,
            Kind::String => self.strings.push(std::mem::take(&mut self.token)),
            _ => {}
        }
    }
}

fn strings(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::String(s) => out.push(s.clone()),
        Value::Array(list) => list.iter().for_each(|v| strings(v, out)),
        Value::Object(map) => map.values().for_each(|v| strings(v, out)),
        _ => {}
    }
}

fn scan(text: &[u8], split: &Split) -> (bool, bool, Collect) {
    let mut scanner = Scanner::new();
    let mut collect = Collect::default();
    let mut ok = true;
    for piece in split.pieces(text) {
        ok = ok && scanner.feed(piece, &mut collect).is_ok();
    }
    ok = ok && scanner.finish(&mut collect).is_ok();
    (ok, scanner.is_odd(), collect)
}

fn to_value(node: &Node) -> Value {
    serde_json::from_slice(&node.to_bytes()).unwrap()
}

proptest! {
    #![proptest_config(config())]

    /// The scanner takes and refuses what serde takes and refuses, quirks aside.
    #[test]
    fn scan_agrees_with_serde(text in body(), split in split()) {
        let theirs = serde_json::from_slice::<Value>(&text);
        let (ok, odd, collect) = scan(&text, &split);
        if std::str::from_utf8(&text).is_ok() {
            match &theirs {
                Ok(_) => prop_assert!(ok && !odd),
                // serde has limits of its own: nesting, and numbers beyond a float.
                Err(e) => prop_assert!(!ok || odd || e.to_string().contains("range") || e.to_string().contains("recursion"),
                    "{e}: {}", String::from_utf8_lossy(&text)),
            }
        }
        if let Ok(value) = &theirs
            && strict::parse(&text).is_ok()
        {
            let mut want = Vec::new();
            strings(value, &mut want);
            let have: Vec<String> = collect.strings.iter().map(|s| tree::decode_string(s).0).collect();
            prop_assert_eq!(want, have);
            prop_assert_eq!(collect.open, 0);
        }
    }

    /// The tree says what serde's does, and writes what it read.
    #[test]
    fn tree_agrees_with_serde(text in body()) {
        let strict = strict::parse(&text);
        let tree = tree::parse(&text);
        match (&strict, &tree) {
            (Ok(value), Ok(document)) => {
                prop_assert!(!document.odd);
                prop_assert_eq!(&to_value(&document.root), value);
                let again = tree::parse(&document.root.to_bytes()).unwrap();
                prop_assert_eq!(&again.root, &document.root);
            }
            (Ok(_), Err(_)) => prop_assert!(false, "refused: {}", String::from_utf8_lossy(&text)),
            (Err(_), Ok(document)) => prop_assert!(document.odd, "not odd: {}", String::from_utf8_lossy(&text)),
            (Err(_), Err(_)) => {}
        }
    }

    /// The scanner does not care how its bytes come.
    #[test]
    fn scan_in_any_split(text in body(), split in split()) {
        let (ok, odd, collect) = scan(&text, &Split::Whole);
        let (ok_2, odd_2, collect_2) = scan(&text, &split);
        prop_assert_eq!((ok, ok && odd), (ok_2, ok_2 && odd_2));
        if ok {
            prop_assert_eq!(collect.strings, collect_2.strings);
        }
    }
}
