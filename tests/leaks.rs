//! What of a host's error reaches a client: a secret of its own in every place that an answer has, and for each either
//! nothing of it, or the rule that lets it through. For a "not found" (O-1) no rule does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::collections::BTreeMap;

use support::{Proxy, ScriptedHost, get, post};

/// What every secret begins with. It is a word that says nothing, so that only a rule about its place keeps it back.
const MARK: &str = "quokka";

/// An answer with a secret in one place.
struct Planted {
    head: String,
    body: String,
    trailer: &'static str,
    extension: String,
}

impl Planted {
    fn bytes(&self) -> Vec<u8> {
        format!(
            "HTTP/1.1 {}\r\nTransfer-Encoding: chunked\r\n\r\n{:x}{}\r\n{}\r\n0\r\n{}\r\n",
            self.head,
            self.body.len(),
            self.extension,
            self.body,
            self.trailer
        )
        .into_bytes()
    }
}

/// How an error is said: in JSON-RPC or as a `google.rpc.Status`.
#[derive(Clone, Copy, PartialEq)]
enum Binding {
    JsonRpc,
    HttpJson,
}

/// Headers, and the rule that lets their values through on an error that is rewritten.
const HEADERS: [(&str, Option<&str>); 34] = [
    ("WWW-Authenticate", Some("D-3")),
    ("Retry-After", Some("D-3")),
    ("RateLimit-Limit", Some("D-3")),
    ("Allow", Some("D-3")),
    ("A2A-Version", Some("D-3")),
    ("A2A-Extensions", Some("D-3")),
    ("Access-Control-Allow-Origin", Some("D-3")),
    ("Access-Control-Expose-Headers", Some("D-3")),
    ("Cache-Control", Some("D-3")),
    ("Vary", Some("D-3")),
    ("traceresponse", Some("D-3")),
    ("Server", None),
    ("Set-Cookie", None),
    ("ETag", None),
    ("Last-Modified", None),
    ("Link", None),
    ("Location", None),
    ("Content-Location", None),
    ("Content-Language", None),
    ("Content-Disposition", None),
    ("Content-Security-Policy", None),
    ("Server-Timing", None),
    ("Digest", None),
    ("Repr-Digest", None),
    ("X-Powered-By", None),
    ("X-Request-Id", None),
    ("X-RateLimit-Limit", None),
    ("Via", None),
    ("Age", None),
    ("Expires", None),
    ("Warning", None),
    ("Proxy-Authenticate", None),
    ("Alt-Svc", None),
    ("Quokka-Name", None),
];

/// Details of every type that `google.rpc` has, each with a secret in every member, and the rule that lets them through.
fn details(secret: &str) -> Vec<(&'static str, String, Option<&'static str>)> {
    let of = |name: &str, members: &str| {
        format!(r#"{{"@type":"type.googleapis.com/google.rpc.{name}",{}}}"#, members.replace('~', secret))
    };
    vec![
        ("ErrorInfo.reason", of("ErrorInfo", r#""reason":"~","domain":"a2a-protocol.org""#), None),
        ("ErrorInfo.domain", of("ErrorInfo", r#""reason":"UNSUPPORTED_OPERATION","domain":"~""#), None),
        (
            "ErrorInfo.metadata, an unknown key's value",
            of(
                "ErrorInfo",
                r#""reason":"UNSUPPORTED_OPERATION","domain":"a2a-protocol.org","metadata":{"k":"~"}"#,
            ),
            None,
        ),
        (
            "ErrorInfo.metadata, a key",
            of(
                "ErrorInfo",
                r#""reason":"UNSUPPORTED_OPERATION","domain":"a2a-protocol.org","metadata":{"~":"v"}"#,
            ),
            None,
        ),
        (
            "ErrorInfo.metadata, an allowed key's value",
            of(
                "ErrorInfo",
                r#""reason":"UNSUPPORTED_OPERATION","domain":"a2a-protocol.org","metadata":{"extension":"~"}"#,
            ),
            Some("D-2"),
        ),
        (
            "ErrorInfo.metadata.taskId of another",
            of(
                "ErrorInfo",
                r#""reason":"UNSUPPORTED_OPERATION","domain":"a2a-protocol.org","metadata":{"taskId":"~"}"#,
            ),
            None,
        ),
        (
            "ErrorInfo, an unknown member",
            of("ErrorInfo", r#""reason":"UNSUPPORTED_OPERATION","x":"~""#),
            None,
        ),
        ("DebugInfo", of("DebugInfo", r#""stackEntries":["~"],"detail":"~""#), None),
        ("ResourceInfo", of("ResourceInfo", r#""resourceType":"~","resourceName":"~","owner":"~""#), None),
        ("RequestInfo", of("RequestInfo", r#""requestId":"~","servingData":"~""#), None),
        ("Help", of("Help", r#""links":[{"description":"~","url":"~"}]"#), None),
        ("a type of another's", format!(r#"{{"@type":"{secret}.example/T","x":"{secret}"}}"#), None),
        ("an untyped detail", format!(r#"{{"x":"{secret}"}}"#), None),
        ("a detail that is text", format!("\"{secret}\""), None),
        ("RetryInfo, an unknown member", of("RetryInfo", r#""retryDelay":"1s","x":"~""#), None),
        (
            "BadRequest, a description",
            of("BadRequest", r#""fieldViolations":[{"field":"f","description":"~"}]"#),
            Some("D-1"),
        ),
        (
            "BadRequest, an unknown member",
            of("BadRequest", r#""fieldViolations":[{"field":"f","x":"~"}],"y":"~""#),
            None,
        ),
        (
            "QuotaFailure",
            of("QuotaFailure", r#""violations":[{"subject":"s","description":"~"}]"#),
            Some("E-5"),
        ),
        (
            "PreconditionFailure",
            of("PreconditionFailure", r#""violations":[{"type":"t","subject":"s","description":"~"}]"#),
            Some("E-5"),
        ),
        ("LocalizedMessage", of("LocalizedMessage", r#""locale":"en","message":"~""#), Some("E-5")),
    ]
}

/// Every place, by name, with a secret in it. `error` is the error without its places: a code that means what it says.
fn places(binding: Binding, code: i64, status: u16) -> BTreeMap<String, (Planted, Option<&'static str>)> {
    let mut all = BTreeMap::new();
    let secret = |n: usize| format!("{MARK}{n}");
    let plain_error = |message: &str, more: &str| match binding {
        Binding::JsonRpc => {
            format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":{code},"message":"{message}"{more}}}}}"#)
        }
        Binding::HttpJson => {
            let more = more.replace("\"data\":", "\"details\":");
            format!(
                r#"{{"error":{{"code":{status},"status":"FAILED_PRECONDITION","message":"{message}"{more}}}}}"#
            )
        }
    };
    let info = |more: &str| {
        let reason = if code == -32001 { "TASK_NOT_FOUND" } else { "UNSUPPORTED_OPERATION" };
        let info = format!(
            r#"{{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"{reason}","domain":"a2a-protocol.org"}}"#
        );
        format!(r#","data":[{info}{more}]"#)
    };
    let head = format!("{status} OK\r\nContent-Type: application/json");
    // Always something to repair: a member that has no place.
    let broken = |message: &str, more: &str| plain_error(message, &format!("{more},\"extra\":1"));
    let mut add = |place: &str, planted: Planted, rule: Option<&'static str>| {
        assert!(all.insert(place.to_owned(), (planted, rule)).is_none(), "{place} is there twice");
    };
    let answer = |head: String, body: String| Planted { head, body, trailer: "", extension: String::new() };
    let ordinary = || broken("No", &info(""));
    let mut n = 0;
    let mut next = || {
        n += 1;
        secret(n)
    };

    add("status phrase", answer(head.replacen("OK", &next(), 1), ordinary()), None);
    for (name, rule) in HEADERS {
        let value = format!("{head}\r\n{name}: {}", next());
        add(&format!("header {name}"), answer(value, ordinary()), rule);
    }
    add("Content-Type, a parameter", answer(format!("{head}; x={}", next()), ordinary()), None);
    add(
        "a chunk's extension",
        Planted { extension: format!(";x={}", next()), ..answer(head.clone(), ordinary()) },
        None,
    );
    add("a trailer", Planted { trailer: "X-T: quokka\r\n", ..answer(head.clone(), ordinary()) }, None);
    add("message, one harmless line", answer(head.clone(), broken(&next(), &info(""))), Some("D-1"));
    for (kind, text) in [
        ("a path", "at /srv/~"),
        ("a URL", "see https://~.example"),
        ("an address", "ask ~@example.org"),
        ("a tenant and a name", "~/t-9 is missing"),
        ("a key and a value", "owner=~"),
        ("a word of the list", "the tenant ~ has it"),
        ("two lines", "no\\n~"),
        ("an exception", "ValueError: ~"),
    ] {
        let text = text.replace('~', &next());
        add(&format!("message, {kind}"), answer(head.clone(), broken(&text, &info(""))), None);
    }
    add(
        "error, an unknown member",
        answer(head.clone(), plain_error("No", &format!(r#","x":"{}""#, next()))),
        None,
    );
    add(
        "error, a member's name",
        answer(head.clone(), plain_error("No", &format!(r#","{}":1"#, next()))),
        None,
    );
    let whole = ordinary().replacen('{', &format!(r#"{{"x":"{}","#, next()), 1);
    add("document, an unknown member", answer(head.clone(), whole), None);
    add(
        "id of another request",
        answer(head.clone(), ordinary().replace("\"id\":7", &format!(r#""id":"{}""#, next()))),
        None,
    );
    for (kind, data) in
        [("text", r#""~""#), ("a list of texts", r#"["~"]"#), ("an object", r#"{"x":"~","~":1}"#)]
    {
        let data = data.replace('~', &next());
        add(
            &format!("data, {kind}"),
            answer(head.clone(), plain_error("No", &format!(r#","data":{data}"#))),
            None,
        );
    }
    let input = format!(
        r#"{{"detail":[{{"loc":["f"],"msg":"Field required","input":"{0}","ctx":{{"x":"{0}"}},"url":"{0}"}}]}}"#,
        next()
    );
    add("a validator's echo", answer(head.replace(&status.to_string(), "422"), input), None);
    let envelope = format!(r#"{{"error":"run_terminal","message":"No","details":{{"owner":"{}"}}}}"#, next());
    add("an envelope's details", answer(head.replace(&status.to_string(), "409"), envelope), None);
    for (kind, content) in [("HTML", "<title>~</title>"), ("text", "~"), ("a stack trace", "Traceback\\n  ~")]
    {
        let body = content.replace('~', &next());
        add(&format!("a body of {kind}"), answer("500 X\r\nContent-Type: text/html".into(), body), None);
    }
    let code = next();
    for (kind, detail, rule) in details(&code) {
        let more = if kind.starts_with("ErrorInfo") {
            format!(r#","data":[{detail}]"#)
        } else {
            info(&format!(",{detail}"))
        };
        add(&format!("details, {kind}"), answer(head.clone(), broken("No", &more)), rule);
    }
    all
}

/// A proxy before a host that answers each request with what is planted in the place that `X-Place` names.
fn proxy(all: &BTreeMap<String, (Planted, Option<&'static str>)>) -> Proxy {
    let answers: BTreeMap<String, Vec<u8>> =
        all.iter().map(|(place, (planted, _))| (place.clone(), planted.bytes())).collect();
    let host = ScriptedHost::start(move |visit| {
        while let Some(request) = visit.request() {
            if !visit.send(&answers[request.header("x-place").unwrap()]) {
                return;
            }
        }
    });
    Proxy::start(&host)
}

/// Everything the client gets when a secret is in this place, as text.
fn received(proxy: &Proxy, request: &str, place: &str) -> String {
    let request = request.replacen("\r\n", &format!("\r\nX-Place: {place}\r\nConnection: close\r\n"), 1);
    let mut client = proxy.client();
    client.send(request);
    let all = String::from_utf8(client.rest()).unwrap();
    assert!(all.starts_with("HTTP/1.1 "), "{place}: {all}");
    all
}

/// The table as a whole: what reaches the client does so by the rule that is named, and nothing else does.
fn check(binding: Binding, request: &str, code: i64, status: u16, allowed: bool) {
    let all = places(binding, code, status);
    let proxy = proxy(&all);
    let mut wrong = Vec::new();
    for (place, (_, rule)) in &all {
        let seen = received(&proxy, request, place);
        let leaked = seen.to_ascii_lowercase().contains(MARK);
        let may = allowed && rule.is_some();
        if leaked != may {
            wrong.push(format!("{place} ({}): {seen}", rule.unwrap_or("no rule")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

const OTHER: &str = r#"{"jsonrpc":"2.0","id":7,"method":"ListTasks","params":{}}"#;

#[test]
fn an_error_of_a_json_rpc_host_tells_what_a_rule_lets_through() {
    check(Binding::JsonRpc, &post("/a2a", OTHER), -32004, 200, true);
}

#[test]
fn an_error_of_an_http_json_host_tells_what_a_rule_lets_through() {
    check(Binding::HttpJson, &get("/rest/tasks"), -32004, 400, true);
}

#[test]
fn a_json_rpc_not_found_tells_nothing() {
    let all_collapse = |place: &String| !place.starts_with("a body of") && !place.starts_with("an envelope");
    not_found(Binding::JsonRpc, &post("/a2a", support::GET_TASK), 403, all_collapse);
}

#[test]
fn an_http_json_not_found_tells_nothing() {
    let all_collapse = |place: &String| !place.starts_with("a body of") && !place.starts_with("an envelope");
    not_found(Binding::HttpJson, &get("/rest/tasks/t-1"), 403, all_collapse);
}

/// Wherever it is planted: every answer is the same, and has none of it.
fn not_found(binding: Binding, request: &str, status: u16, of: impl Fn(&String) -> bool) {
    let all = places(binding, -32001, status);
    let proxy = proxy(&all);
    let answers: BTreeMap<String, String> = all
        .keys()
        .filter(|place| of(place))
        .map(|place| {
            let seen = received(&proxy, request, place);
            let lines = seen.split("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with("date:"));
            (place.clone(), lines.collect::<Vec<_>>().join("\r\n"))
        })
        .collect();
    let first = answers.values().next().unwrap();
    assert!(first.contains("Task not found"), "{first}");
    for (place, seen) in &answers {
        assert!(!seen.to_ascii_lowercase().contains(MARK), "{place}: {seen}");
        assert_eq!(seen, first, "{place}");
    }
}

/// Of a stream's error event its framing passes (S-2); of a first event that says "not found" nothing does (O-1).
#[test]
fn an_error_event_keeps_its_framing_and_a_not_found_does_not() {
    for (code, call, passes) in [
        (-32004, OTHER.replace("ListTasks", "SendStreamingMessage"), &["quokka1", "quokka2", "quokka3"][..]),
        (-32001, support::GET_TASK.replace("GetTask", "SubscribeToTask"), &[]),
    ] {
        let stream = format!(
            ": quokka1\nid: quokka2\nevent: quokka3\nretry: 1\nquokka4: x\n\
             data: {{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{{\"code\":{code},\"message\":\"No\",\"data\":\"quokka5\"}}}}\n\n"
        );
        let host = ScriptedHost::saying(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; x=quokka6\r\nContent-Length: {}\r\nX-Q: quokka7\r\n\r\n{stream}",
            stream.len()
        ));
        let request = post("/a2a", &call).replacen("\r\n", "\r\nConnection: close\r\n", 1);
        let mut client = Proxy::start(&host).client();
        client.send(request);
        let seen = String::from_utf8(client.rest()).unwrap();
        assert!(seen.contains(&code.to_string()), "{seen}");
        let all = (1..=7).map(|n| format!("quokka{n}"));
        let leaked: Vec<_> = all.filter(|secret| seen.to_ascii_lowercase().contains(secret)).collect();
        assert_eq!(leaked, passes, "{seen}");
    }
}
