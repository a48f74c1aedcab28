//! Streams by rule (section 7, O-1's first event, C-1 and C-5 on streams), through the public API and
//! without a socket. What is expected is what the specification says; every case runs in every split
//! of the host's bytes and with the host answering before it has read the request.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::string_slice, clippy::format_collect)] // every text that is cut here is ASCII there

mod rules_support;

use std::io::Write as _;
use std::sync::Arc;

use a2a_errata::normalize::{
    Exchange, Failure, Mode, Outcome, Output, OwnAnswer, Policy, RequestFacts, Rule, Target, Verdict,
};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{Method, StatusCode};
use proptest::prelude::*;
use rules_support::*;
use serde_json::{Value, json};

/// A success event's data, and what is left of an error about `/srv/acme` by the rules.
const OK: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"n":1}}"#;
const BAD: &str =
    r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"at /srv/acme","data":"acme"}}"#;
const SHAPED: &str = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"This operation is not supported","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UNSUPPORTED_OPERATION","domain":"a2a-protocol.org"}]}}"#;
const INTERNAL: &str = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"Internal error"}}"#;
const OVERFLOW: &str =
    r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"response exceeds configured byte limit"}}"#;
const GONE: &str = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"no run acme/1"}}"#;
/// The same on HTTP+JSON.
const HTTP_OK: &str = r#"{"task":{"id":"t-2"}}"#;
const HTTP_BAD: &str = r#"{"error":{"code":501,"status":"UNIMPLEMENTED","message":"at /srv/acme","details":[{"reason":"UNSUPPORTED_OPERATION"}]}}"#;
const HTTP_SHAPED: &str = r#"{"error":{"code":400,"status":"FAILED_PRECONDITION","message":"This operation is not supported","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UNSUPPORTED_OPERATION","domain":"a2a-protocol.org"}]}}"#;

fn sse(body: impl Into<Vec<u8>>) -> Answer {
    Answer::raw(200, body).set("content-type", Some("text/event-stream"))
}

fn lines(body: impl Into<Vec<u8>>) -> Answer {
    Answer::raw(200, body).set("content-type", Some("application/x-ndjson"))
}

/// One event of this data.
fn event(data: &str) -> String {
    format!("data: {data}\n\n")
}

fn streaming(request: Request) -> Request {
    request.header("accept", "text/event-stream")
}

/// A stream call that names no task.
fn stream() -> Request {
    streaming(Request::call("SendStreamingMessage", &json!({"message": {"messageId": "m-1"}})))
}

/// `limits.held_bytes`: an event that waits for its request's end is given up, with all that waits beside it.
#[test]
fn s2_a_stream_that_waits_for_its_request_holds_nothing_without_room() {
    let comments = ": c\n".repeat(2000);
    let bad = BAD.replace("at /srv", &"at /srv ".repeat(2000));
    for text in [event(&bad), comments + &event(&bad), event(&bad) + &event(OK).repeat(400)] {
        for from in [5000, 20_000] {
            let answer = sse(text.clone()).no_room_from(from);
            let seen = Host::rpc().order(Order::AnswerFirst).run(&stream(), &answer);
            assert_eq!(
                (seen.status, seen.shed, seen.code()),
                (503, Some(0), -32603),
                "{from}: {}",
                seen.text()
            );
        }
    }
}

/// A stream call on `t-1`.
fn subscribe() -> Request {
    streaming(Request::call("SubscribeToTask", &json!({"id": "t-1"})))
}

fn http_stream() -> Request {
    let request =
        Request::http(Method::POST, "/rest/message:stream").body(r#"{"message":{"messageId":"m"}}"#);
    streaming(request)
}

fn http_subscribe() -> Request {
    streaming(Request::http(Method::POST, "/rest/tasks/t-1:subscribe").body("{}"))
}

/// The same answer in every split and with the request read late.
#[track_caller]
fn every_way(host: &Host, request: &Request, answer: &Answer) -> Seen {
    let whole = host.run(request, answer);
    let splits = (0..=answer.body.len()).map(Split::At).chain([Split::Every(1), Split::Every(3)]);
    for split in splits {
        let answer = answer.clone().split(split.clone());
        for order in [Order::RequestFirst, Order::AnswerFirst] {
            let seen = host.clone().order(order).run(request, &answer);
            assert_eq!(whole.visible(), seen.visible(), "{split:?} {order:?}");
        }
    }
    whole
}

#[track_caller]
fn rpc(answer: &Answer) -> Seen {
    every_way(&Host::rpc(), &stream(), answer)
}

#[track_caller]
fn http(answer: &Answer) -> Seen {
    every_way(&Host::http(), &http_stream(), answer)
}

/// An exchange that is fed by hand, and everything the client has so far.
struct Live {
    exchange: Exchange,
    got: Vec<u8>,
    status: Option<u16>,
    finish: Finish,
}

impl Live {
    fn new(host: &Host, request: &Request) -> Self {
        let facts = RequestFacts {
            method: &request.method,
            path: &request.path,
            query: request.query.as_deref(),
            headers: &request.headers,
        };
        let exchange = Exchange::new(&host.target, &Arc::new(host.policy.clone()), &facts).unwrap();
        Self { exchange, got: Vec::new(), status: None, finish: Finish::Open }
    }

    fn read(host: &Host, request: &Request, answer: &Answer) -> Self {
        let mut live = Self::new(host, request);
        live.request(request);
        live.head(answer);
        live
    }

    fn request(&mut self, request: &Request) {
        self.exchange.request_piece(&request.body);
        self.exchange.request_end();
        self.poll(200);
    }

    fn head(&mut self, answer: &Answer) {
        self.exchange.head(StatusCode::from_u16(answer.status).unwrap(), &answer.headers);
        self.poll(answer.status);
    }

    /// What the client gets right after these bytes.
    fn feed(&mut self, bytes: impl AsRef<[u8]>) -> String {
        let before = self.got.len();
        self.exchange.piece(Bytes::copy_from_slice(bytes.as_ref()));
        self.poll(200);
        String::from_utf8_lossy(&self.got[before..]).into_owned()
    }

    fn poll(&mut self, status: u16) {
        while let Some(output) = self.exchange.poll() {
            match output {
                Output::HostHead => assert!(self.status.replace(status).is_none(), "one head"),
                Output::Head(head) => {
                    assert!(self.status.replace(head.status.as_u16()).is_none(), "one head");
                }
                Output::Body(bytes) => self.got.extend_from_slice(&bytes),
                Output::End => self.finish = Finish::End,
                Output::Abort => self.finish = Finish::Abort,
                Output::PassRest => self.finish = Finish::PassRest,
                Output::CloseUpstream => {}
            }
        }
    }
}

/// The events of a stream as a client reads them: (id, event, retry, data).
fn events(stream: &str) -> Vec<(String, String, String, String)> {
    let text = stream.strip_prefix('\u{feff}').unwrap_or(stream);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let (mut found, mut fields, mut data) = (Vec::new(), [const { String::new() }; 3], None::<String>);
    for line in text.split_inclusive('\n') {
        let Some(line) = line.strip_suffix('\n') else { break };
        if line.is_empty() {
            let [id, name, retry] = std::mem::take(&mut fields);
            if let Some(data) = data.take() {
                found.push((id, name, retry, data));
            }
            continue;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => fields[0] = value.into(),
            "event" => fields[1] = value.into(),
            "retry" => fields[2] = value.into(),
            "data" => data = Some(data.map_or_else(|| value.to_owned(), |d| format!("{d}\n{value}"))),
            _ => {}
        }
    }
    found
}

fn data(stream: &str) -> Vec<String> {
    events(stream).into_iter().map(|e| e.3).collect()
}

// S-1, S-2: what an event is.

/// Streams in LF; each also runs in CRLF, CR and a mix, and every client sees the same events.
#[test]
fn s2_every_spelling_of_an_event() {
    let (head, tail) = BAD.split_at(BAD.find("\"error\"").unwrap());
    let table: Vec<(&str, String, Vec<&str>)> = vec![
        ("plain", format!("data: {OK}\n\ndata: {BAD}\n\n"), vec![OK, SHAPED]),
        ("no space after the colon", format!("data:{BAD}\n\ndata:{OK}\n\n"), vec![SHAPED, OK]),
        ("several lines of data", format!("data: {head}\ndata: {tail}\n\ndata: {OK}\n\n"), vec![SHAPED, OK]),
        ("lines of data before and after", format!("data\ndata: {BAD}\ndata\ndata:\n\n"), vec![SHAPED]),
        ("other fields between", format!("data: {head}\nid: 4\ndata: {tail}\n\n"), vec![SHAPED]),
        ("comments before and between", format!(": a\n:\n\n: b\ndata: {BAD}\n: c\n\n:d\n\n"), vec![SHAPED]),
        ("fields that make no event", format!("retry: 5\n\nid: 1\n\ndata: {BAD}\n\n"), vec![SHAPED]),
        ("many blank lines", format!("\n\n\ndata: {OK}\n\n\n\ndata: {BAD}\n\n\n"), vec![OK, SHAPED]),
        (
            "names that are not data",
            format!("dat: {BAD}\ndatax: {BAD}\nData: {BAD}\ndata: {OK}\n\n"),
            vec![OK],
        ),
        ("space before a name", format!(" data: {BAD}\ndata: {OK}\n\n"), vec![OK]),
        (
            "error, success, error",
            format!("data: {BAD}\n\ndata: {OK}\n\ndata: {BAD}\n\n"),
            vec![SHAPED, OK, SHAPED],
        ),
        ("no JSON", format!("data: [DONE]\n\ndata: {BAD}\n\ndata: ping\n\n"), vec!["[DONE]", SHAPED, "ping"]),
        ("an unterminated error", format!("data: {OK}\n\ndata: {BAD}\n"), vec![OK]),
        ("an unterminated error's first bytes", format!("data: {OK}\n\ndata: {}", &BAD[..50]), vec![OK]),
    ];
    for (why, stream, want) in table {
        let mut mixed = String::new();
        for (i, line) in stream.split_inclusive('\n').enumerate() {
            // An LF right after a CR would be the rest of that line's end.
            let end =
                if line == "\n" && mixed.ends_with('\r') { "\r\n" } else { ["\n", "\r\n", "\r"][i % 3] };
            mixed.push_str(&line.replace('\n', end));
        }
        for stream in [stream.clone(), stream.replace('\n', "\r\n"), stream.replace('\n', "\r"), mixed] {
            for mark in ["", "\u{feff}"] {
                let seen = rpc(&sse(format!("{mark}{stream}")));
                assert_eq!(data(&seen.text()), want, "{why}: {stream:?}");
                assert_eq!((seen.status, seen.finish), (200, Finish::End), "{why}");
                assert!(
                    !seen.text().contains("srv/acme") || stream.contains("dat:") || stream.contains(" data:"),
                    "{why}"
                );
            }
        }
    }
}

#[test]
fn s2_a_success_is_the_very_same_bytes() {
    let table = [
        format!(": hi\n\nid: 1\nretry: 5\nevent: message\ndata: {OK}\n\n"),
        format!("data: {OK}\r\n\r\nid: 2\r\ndata: {OK}\r\n\r\n: bye\r\n"),
        format!("\u{feff}data:{OK}\r\r"),
        "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":7,\ndata: \"result\":{\"t\":\"Tâche 😀\"}}\n\n".into(),
        "data: {\"error\":null,\"result\":{\"error\":{\"code\":-32001}}}\n\n".into(),
        "data: {\"result\":{\"task\":{\"status\":{\"state\":\"TASK_STATE_FAILED\"}}},\"id\":8}\n\n".into(),
        format!("unknown: x\ndata: {OK}\n\ndata: [DONE]\n\n"),
        format!("data: {OK}\n\n: half a comm"),
        format!("data: {}", &OK[..OK.len() - 2]),
    ];
    for stream in table {
        let answer = sse(stream).header("x-acme", "1").header("set-cookie", "a=b");
        let seen = rpc(&answer);
        assert!(seen.passed(&answer), "{:?}", seen.text());
        assert_eq!(seen.outcome.verdict, Verdict::Passed);
    }
}

/// An error keeps what is the stream's own: id, event, retry, comments; not what nobody knows.
#[test]
fn s2_an_error_keeps_its_fields() {
    let seen =
        rpc(&sse(format!(": hi\nid: 41\nsecret: acme\nevent: e\ndata: {BAD}\n: there\nretry: 99\n\n")));
    assert_eq!(seen.text(), format!(": hi\nid: 41\nevent: e\ndata: {SHAPED}\n: there\nretry: 99\n\n"));
    assert!(seen.fired(Rule::S2));
}

#[test]
fn s2_each_event_goes_out_with_its_last_byte() {
    for end in ["\n", "\r\n", "\r"] {
        let ok = format!("data: {OK}{end}{end}");
        let mut live = Live::read(&Host::rpc(), &stream(), &sse(""));
        assert_eq!(
            (live.feed(&ok).as_str(), live.status),
            (ok.as_str(), Some(200)),
            "the whole event, its LF too"
        );
        assert_eq!(
            live.feed(format!(": hb{end}")),
            format!(": hb{end}"),
            "a comment is complete with its line"
        );
        // The byte that decides, and everything after it as it comes.
        let at = ok.find("{\"n\"").unwrap();
        assert_eq!(live.feed(&ok[..at]), "", "undecided: may yet become an error");
        assert_eq!(live.feed(&ok[at..=at]), ok[..=at]);
        assert_eq!(live.feed(&ok[at + 1..]), ok[at + 1..]);
        let bad = format!("data: {BAD}{end}{end}");
        let last = bad.len() - if end == "\r\n" { 2 } else { 1 };
        assert_eq!(live.feed(&bad[..last]), "");
        assert_eq!(live.feed(&bad[last..]), format!("data: {SHAPED}\n\n"));
        assert_eq!(live.feed(&ok), ok);
    }
}

#[test]
fn s2_a_crlf_cut_in_two_is_one_line_end() {
    let mut live = Live::read(&Host::rpc(), &stream(), &sse(""));
    assert_eq!(live.feed(format!("data: {OK}\r\n\r")), format!("data: {OK}\r\n\r"));
    assert_eq!(live.feed("\n"), "\n", "at once: clients wait for it");
    assert_eq!(live.feed(format!("data: {BAD}\r\n\r")), format!("data: {SHAPED}\n\n"));
    assert_eq!(live.feed("\n"), "", "part of what was replaced");
    assert_eq!(live.feed(format!("data: {OK}\r\n\r\n")), format!("data: {OK}\r\n\r\n"));
}

#[test]
fn s2_a_success_larger_than_everything_is_never_held() {
    let host = Host::rpc().policy(|p| (p.response_cap_bytes, p.intake_bytes) = (4096, 8192));
    let mut live = Live::read(&host, &stream(), &sse(""));
    let mut sent = live.feed("data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"t\":\"");
    for _ in 0..100 {
        sent += &live.feed("x".repeat(1000));
        assert_eq!(live.exchange.held_bytes(), 0);
    }
    sent += &live.feed(format!("\"}}}}\n\ndata: {BAD}\n\n"));
    assert_eq!(data(&sent).len(), 2);
    assert!(sent.ends_with(&event(SHAPED)));
    // On the other binding too, whatever its members are called.
    for name in ["task", "artifactUpdate", "kind-less-0-3", "result"] {
        let body =
            format!("data: {{\"{name}\":{{\"t\":\"{}\"}}}}\n\ndata: {HTTP_BAD}\n\n", "x".repeat(20_000));
        let host = Host::http().policy(|p| (p.response_cap_bytes, p.intake_bytes) = (4096, 8192));
        for split in [Split::Whole, Split::Every(7), Split::Every(5000)] {
            let seen = host.run(&http_stream(), &sse(body.clone()).split(split));
            let want =
                body.replace(&format!("data: {HTTP_BAD}"), &format!("data: {HTTP_SHAPED}\nevent: error"));
            assert_eq!(seen.text(), want, "{name}");
        }
    }
}

#[test]
fn s2_data_that_is_no_json() {
    let fixed = |bad: &str| assert_eq!(rpc(&sse(event(bad))).text(), event(INTERNAL), "{bad}");
    let passes = |data: &str| {
        let answer = sse(event(data));
        assert!(rpc(&answer).passed(&answer), "{data}");
    };
    for text in [
        "[DONE]",
        "ping",
        "error: tenant",
        "",
        "{",
        "{}x",
        "{\"jsonrpc\":\"2.0\",\"id\":7",
        "<p>\"error\":1</p>",
    ] {
        passes(text);
    }
    for cut in 40..BAD.len() {
        fixed(&BAD[..cut]);
    }
    fixed("{\"jsonrpc\":\"2.0\" \"id\":7,\"error\":{\"message\":\"acme\"}}");
    fixed("{'jsonrpc':'2.0','error':{'message':'acme'}}");
    fixed("{\"error\":NaN,\"result\":1}");
    fixed("{error: {message: 'acme'}}");
    fixed("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32004,\"message\":\"acme\"}}");
}

/// F-6 on events: what parsers disagree about never passes, and never says what the host said.
#[test]
fn f6_events_that_parsers_disagree_about() {
    let error = r#""error":{"code":-32004,"message":"at /srv/acme"}"#;
    for bad in [
        format!(r#"{{"jsonrpc":"2.0","id":7,{error},"result":{{"acme":1}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":7,"result":null,"result":{{"acme":1}},{error}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":7,"error":null,{error}}}"#),
        format!(r#"{{"jsonrpc":"1.0","id":7,{error}}}"#),
        format!(r#"[{{"jsonrpc":"2.0","id":7,{error}}}]"#),
        format!(r#"{{"jsonrpc":"2.0","id":8,{error},{error}}}"#),
        r#"{"jsonrpc":"2.0","id":7,"\u0065rror":{"\u0063ode":-32004,"message":"/srv/acme"}}"#.into(),
        r#"{"jsonrpc":"2.0","id":7,"error":"acme"}"#.into(),
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"\ud800 /srv/acme"}}"#.into(),
    ] {
        let seen = rpc(&sse(event(&bad)));
        assert_ne!(seen.outcome.verdict, Verdict::Passed, "{bad}");
        assert!(!seen.text().contains("acme"), "{bad}: {}", seen.text());
        let [only] = &data(&seen.text())[..] else { panic!("{bad}: {}", seen.text()) };
        faults_of(only.as_bytes(), a2a_errata::normalize::Binding::JsonRpc, 1 << 20).unwrap();
    }
    let mut latin = event(BAD).into_bytes();
    let at = latin.iter().position(|b| *b == b'/').unwrap();
    latin[at] = 0xe9;
    let seen = rpc(&sse(latin));
    assert!(data(&seen.text()) == [SHAPED] || data(&seen.text()) == [INTERNAL], "{}", seen.text());
}

/// E-9: what is right already passes, in the host's own spelling; on HTTP+JSON once a stream has begun.
#[test]
fn e9_a_conformant_error_event_passes() {
    let spaced = SHAPED.replace(":{", ": {").replace(",\"", ", \"");
    let reordered = format!(
        r#"{{"error":{},"id":7,"jsonrpc":"2.0"}}"#,
        SHAPED.split_once("\"error\":").unwrap().1.strip_suffix('}').unwrap()
    );
    for fine in [SHAPED, &spaced, &reordered, INTERNAL, &SHAPED.replace(",\"error\"", "\ndata: ,\"error\"")] {
        for before in ["", &event(OK)] {
            let answer = sse(format!("{before}id: 3\nevent: error\ndata: {fine}\n\n")).header("x-acme", "1");
            let seen = rpc(&answer);
            assert!(seen.passed(&answer), "{fine}: {}", seen.text());
            assert_eq!(seen.outcome.verdict, Verdict::Conformant);
        }
    }
    let spaced = HTTP_SHAPED.replace(":{", ": {").replace(",\"", ", \"");
    for fine in [HTTP_SHAPED, &spaced] {
        let answer = sse(format!("{}event: error\r\ndata: {fine}\r\n\r\n", event(HTTP_OK)));
        let seen = http(&answer);
        assert!(seen.passed(&answer), "{fine}: {}", seen.text());
        assert_eq!(seen.outcome.verdict, Verdict::Conformant);
        // The last name counts, and without one clients see no error at all.
        for names in ["", "event: message\n", "event: error\nevent: x\n", "event: error\nevent\n"] {
            let seen = http(&sse(format!("{}{names}data: {fine}\n\n", event(HTTP_OK))));
            let last = events(&seen.text()).pop().unwrap();
            assert_eq!((last.1.as_str(), last.3.as_str()), ("error", HTTP_SHAPED), "{names:?}");
        }
    }
}

// S-3: framing.

#[test]
fn s3_an_error_first_or_later_json_rpc() {
    let seen = rpc(&sse(event(BAD))
        .header("x-acme", "1")
        .header("set-cookie", "a")
        .header("cache-control", "no-store"));
    assert_eq!(seen.text(), event(SHAPED));
    assert_eq!(seen.header("content-type").as_deref(), Some("text/event-stream"));
    assert_eq!(seen.header("cache-control").as_deref(), Some("no-store"));
    assert_eq!((seen.header("x-acme"), seen.header("set-cookie")), (None, None), "D-3");
    assert!(!seen.text().contains("event:"), "never added");
    let seen = rpc(&sse(event(OK) + &event(BAD)).header("x-acme", "1"));
    assert_eq!(seen.text(), event(OK) + &event(SHAPED));
    assert_eq!(seen.header("x-acme").as_deref(), Some("1"), "the head was the success's");
}

#[test]
fn s3_an_error_first_or_later_http_json() {
    for answer in [event(HTTP_BAD), format!(": hi\n\nid: 1\nevent: error\ndata: {HTTP_BAD}\n\n")] {
        let seen = http(&sse(answer + &event(HTTP_OK)).header("x-acme", "1"));
        assert_eq!((seen.status, seen.text().as_str()), (400, HTTP_SHAPED));
        assert_eq!(seen.header("content-type").as_deref(), Some("application/json"));
        assert_eq!(seen.header("content-length"), Some(HTTP_SHAPED.len().to_string()));
        assert!(seen.header("x-acme").is_none() && seen.fired(Rule::S3) && seen.closes_upstream);
    }
    let seen =
        http(&sse(format!("{}id: 9\ndata: {HTTP_BAD}\nretry: 3\n\n{}", event(HTTP_OK), event(HTTP_OK))));
    let want =
        format!("{}id: 9\ndata: {HTTP_SHAPED}\nretry: 3\nevent: error\n\n{}", event(HTTP_OK), event(HTTP_OK));
    assert_eq!((seen.status, seen.text()), (200, want));
}

/// On HTTP+JSON the name says that it is an error, whatever the data is.
#[test]
fn s3_named_errors_on_http_json() {
    for data in [
        "db of acme is down",
        r#"{"detail":"acme"}"#,
        r#"{"message":"acme"}"#,
        r#"{"error":"acme","message":"acme"}"#,
        "[1]",
    ] {
        let seen = http(&sse(format!("{}event: error\ndata: {data}\n\n", event(HTTP_OK))));
        assert!(!seen.text().contains("acme"), "{data}: {}", seen.text());
        let last = events(&seen.text()).pop().unwrap();
        assert_eq!(last.1, "error");
        let status: Value = serde_json::from_str(&last.3).unwrap();
        assert_eq!(status["error"]["code"], 500, "{data}");
    }
    // A flat error of JSON-RPC's, as @a2a-js/sdk 0.3.14 writes it.
    let flat = r#"{"code":-32002,"message":"acme/1 cannot be canceled"}"#;
    let seen = http(&sse(format!("{}event: error\ndata: {flat}\n\n", event(HTTP_OK))));
    assert!(seen.text().contains("TASK_NOT_CANCELABLE") && !seen.text().contains("acme"), "{}", seen.text());
    // Of JSON that is no JSON-RPC, too; text is none of ours there.
    let seen = rpc(&sse(format!("{}event: error\ndata: {{\"detail\":\"acme\"}}\n\n", event(OK))));
    assert_eq!(events(&seen.text()).pop().unwrap().3, INTERNAL);
}

#[test]
fn s3_refusals_as_a_first_event_have_their_status() {
    for (code, status) in
        [("unauthenticated", 401), ("forbidden", 403), ("payload_too_large", 413), ("rate_limited", 429)]
    {
        let body = event(&format!(r#"{{"error":"{code}","message":"acme"}}"#));
        for seen in [rpc(&sse(body.clone())), http(&sse(body.clone()))] {
            assert_eq!(seen.status, status, "{code}");
            assert_eq!(seen.header("content-type").as_deref(), Some("application/json"), "{code}");
            assert!(!seen.text().contains("acme") && seen.json()["error"].is_object(), "{code}");
        }
        // Once the stream has begun there is no status left to say it with.
        let seen = rpc(&sse(event(OK) + &body));
        assert_eq!((seen.status, data(&seen.text()).len()), (200, 2), "{code}");
        assert!(!seen.text().contains("acme"), "{code}");
    }
}

#[test]
fn s3_answers_that_are_no_stream() {
    for (status, media, body) in
        [(404, "text/html", "<h1>acme</h1>"), (200, "text/plain", "acme"), (200, "text/html", "")]
    {
        let seen = rpc(&Answer::raw(status, body).set("content-type", Some(media)));
        assert_eq!(
            (seen.status, seen.header("content-type").as_deref()),
            (200, Some("text/event-stream")),
            "{media}"
        );
        assert_eq!(data(&seen.text()).len(), 1, "{media}");
        assert!(!seen.text().contains("acme"));
    }
    let seen = rpc(&Answer::raw(200, BAD));
    assert_eq!(
        (seen.text().as_str(), seen.header("content-type").as_deref()),
        (SHAPED, Some("application/json"))
    );
    // A stream with an error status: the status decides (F-5).
    for status in [400, 500, 503] {
        let seen = rpc(&Answer { status, ..sse(event(OK) + "data: acme\n\n") });
        assert!(!seen.text().contains("acme") && !seen.text().contains("\"n\""), "{status}");
        assert_eq!(seen.status, if status < 500 { 200 } else { status });
    }
}

#[test]
fn s3_notifications_and_unreadable_requests_get_null() {
    let requests = [
        r#"{"jsonrpc":"2.0","method":"SendStreamingMessage","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"SendStreamingMessage"}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"SendStreamingMessage"}"#,
        "no JSON",
    ];
    for request in requests {
        let seen = every_way(&Host::rpc(), &streaming(Request::raw(request)), &sse(event(OK) + &event(BAD)));
        let want = SHAPED.replace("\"id\":7", "\"id\":null");
        assert_eq!(seen.text(), event(OK) + &event(&want), "{request}");
    }
}

// O-1: the first event, and any other.

#[test]
fn o1_not_found_as_the_first_event_is_the_fixed_answer() {
    let unary = Host::rpc().run(&subscribe(), &Answer::raw(403, "<h1>acme</h1>"));
    assert_eq!(unary.header("content-type").as_deref(), Some("text/event-stream"));
    let rest = Host::http().run(&http_subscribe(), &Answer::raw(404, "acme"));
    let says = [
        GONE.to_owned(),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"x","data":[{"a":"acme"}]}}"#.into(),
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-31403,"message":"acme"}}"#.into(),
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"acme"}}"#.into(),
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"acme","data":{"reason":"PERMISSION_DENIED"}}}"#.into(),
        r#"{"error":"run_forbidden","message":"acme"}"#.into(),
        r#"{"error":"not_found","message":"acme"}"#.into(),
        r#"{"error":{"code":404,"status":"NOT_FOUND","message":"acme"}}"#.into(),
    ];
    for say in says {
        for stream in [
            event(&say),
            format!(": acme\n\nid: acme\nevent: error\nretry: 4\ndata: {say}\n\n"),
            format!("\u{feff}: a\r\n\r\ndata: {say}\r\n\r\n") + &event(OK),
        ] {
            for answer in [
                sse(stream.clone()),
                lines(format!("{say}\n")),
                sse(stream.clone()).header("etag", "\"acme\""),
            ] {
                let seen = every_way(&Host::rpc(), &subscribe(), &answer);
                assert_eq!(seen.visible(), unary.visible(), "{say}");
                assert!(seen.outcome.not_found);
                let seen = every_way(&Host::http(), &http_subscribe(), &answer);
                assert_eq!(seen.visible(), rest.visible(), "{say}");
                is_http_not_found(&seen, &say);
            }
        }
    }
    // JSON on every call that did not ask for a stream.
    is_not_found(&every_way(&Host::rpc(), &Request::get_task(), &sse(event(GONE))), "GetTask");
    is_not_found(&every_way(&Host::rpc(), &Request::send_to_task(), &sse(event(GONE))), "SendMessage");
}

#[test]
fn o1_later_the_same_payload_stands_in_place() {
    let first = Host::rpc().run(&subscribe(), &sse(event(GONE)));
    let seen = every_way(&Host::rpc(), &subscribe(), &sse(event(OK) + "id: 2\n" + &event(GONE) + &event(OK)));
    assert_eq!(seen.text(), event(OK) + "id: 2\n" + &first.text() + &event(OK));
    let rest = Host::http().run(&http_subscribe(), &Answer::raw(404, ""));
    let seen = every_way(&Host::http(), &http_subscribe(), &sse(event(HTTP_OK) + &event(GONE)));
    assert_eq!(seen.text(), format!("{}data: {}\nevent: error\n\n", event(HTTP_OK), rest.text()));
}

// C-1 to C-3: sizes.

fn small(host: Host) -> Host {
    host.policy(|p| (p.response_cap_bytes, p.intake_bytes) = (4096, 6000))
}

#[test]
fn c1_an_error_event_over_the_cap_or_the_intake() {
    let violations = |n: usize| vec![r#"{"field":"message.parts","description":"Required"}"#; n].join(",");
    let over_cap = format!(
        r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":-32602,"message":"Invalid parameters","data":[{{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{}]}}]}}}}"#,
        violations(100)
    );
    assert!((4096..6000).contains(&over_cap.len()));
    let over_intake =
        format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":-32004,"message":"{}"}}}}"#, "z".repeat(30_000));
    let host = small(Host::rpc());
    for (bad, rule) in [(&over_cap, Rule::C1), (&over_intake, Rule::C3)] {
        for end in ["\n", "\r\n", "\r"] {
            let stream = format!("data: {OK}\n\nid: 5\ndata: {bad}\n\ndata: {OK}\n\n").replace('\n', end);
            let good = format!("data: {OK}\n\n").replace('\n', end);
            let want = format!("{good}id: 5\ndata: {OVERFLOW}\n\n{good}");
            for split in [Split::Whole, Split::Every(1), Split::Every(997), Split::Every(4096)] {
                for order in [Order::RequestFirst, Order::AnswerFirst] {
                    let answer = sse(stream.clone()).split(split.clone());
                    let seen = host.clone().order(order).run(&stream_call(), &answer);
                    assert_eq!(seen.text(), want, "{end:?} {split:?} {order:?}");
                    assert!(seen.fired(rule) && seen.fired(Rule::C2));
                    assert_eq!(seen.outcome.verdict, Verdict::Overflow);
                }
            }
        }
    }
    // Small once it is normalized, but too much to read: the same at every split (C-3).
    let seen = host.run(&stream_call(), &sse(event(&over_intake)));
    assert_eq!(seen.text(), event(OVERFLOW));
    let http_big =
        format!(r#"{{"error":{{"code":400,"status":"INVALID_ARGUMENT","message":"{}"}}}}"#, "z".repeat(9000));
    let seen = small(Host::http()).run(&http_stream(), &sse(event(&http_big)));
    assert_eq!(
        (seen.status, seen.error()["message"].as_str()),
        (500, Some("response exceeds configured byte limit"))
    );
    // O-1 if what was read says so.
    let gone =
        format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":-32001,"message":"{}"}}}}"#, "z".repeat(9000));
    let fixed = Host::rpc().run(&subscribe(), &Answer::raw(403, ""));
    for split in [Split::Whole, Split::Every(1), Split::Every(997)] {
        let seen = host.run(&subscribe(), &sse(event(&gone)).split(split));
        assert_eq!(seen.visible(), fixed.visible());
    }
}

fn stream_call() -> Request {
    stream()
}

#[test]
fn c1_text_larger_than_the_intake_is_no_error() {
    let answer = sse(event(&"lorem ipsum ".repeat(2000)) + &event(OK));
    for split in [Split::Whole, Split::Every(1), Split::Every(997)] {
        let answer = answer.clone().split(split);
        assert!(small(Host::rpc()).run(&stream(), &answer).passed(&answer));
    }
}

#[test]
fn c1_cap_success_holds_successes_to_it() {
    let host = small(Host::rpc()).policy(|p| p.cap.success = true);
    let big = |n: usize| format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"t":"{}"}}}}"#, "x".repeat(n));
    let at_cap = big(4096 - big(0).len());
    for (data, want) in [
        (OK.to_owned(), None),
        (at_cap.clone(), None),
        (big(4097 - big(0).len()), Some(OVERFLOW)),
        (big(20_000), Some(OVERFLOW)),
        ("lorem ipsum ".repeat(400), Some(OVERFLOW)),
        ("lorem ipsum ".repeat(2000), Some(OVERFLOW)),
        (BAD.to_owned(), Some(SHAPED)),
    ] {
        for split in [Split::Whole, Split::Every(1), Split::Every(997)] {
            let answer = sse(event(OK) + &event(&data) + &event(OK)).split(split);
            let seen = host.run(&stream(), &answer);
            assert_eq!(seen.text(), event(OK) + &event(want.unwrap_or(&data)) + &event(OK), "{}", data.len());
        }
    }
    let seen = small(Host::http())
        .policy(|p| p.cap.success = true)
        .run(&http_stream(), &sse(event(&format!(r#"{{"task":{{"id":"{}"}}}}"#, "x".repeat(5000)))));
    assert_eq!(seen.status, 500, "the first event, so that the status can say it");
}

// C-5: hosts that die.

#[test]
fn c5_a_host_that_dies_at_every_byte() {
    let body = format!(": hi\n\n{}{}{}", event(OK), event(BAD), event(OK));
    let decided = 6 + "data: ".len() + OK.find("{\"n\"").unwrap();
    for failure in [Failure::Closed, Failure::TimedOut] {
        for cut in 0..body.len() {
            for order in [Order::RequestFirst, Order::AnswerFirst] {
                let answer = sse(&body[..cut]).ending(Ending::Fail(failure));
                let seen = Host::rpc().order(order).run(&stream(), &answer);
                if cut <= decided {
                    let status = if failure == Failure::Closed { 502 } else { 504 };
                    assert_eq!((seen.status, seen.finish), (status, Finish::End), "{cut}");
                    assert_eq!(seen.text(), INTERNAL, "correlated, and complete {cut} {order:?}");
                    assert_eq!(seen.outcome.verdict, Verdict::Synthesized);
                } else {
                    assert_eq!(seen.finish, Finish::Abort, "never a clean end: {cut}");
                    assert!(!seen.text().contains("acme"), "{cut}");
                    assert!(body.replace(BAD, SHAPED).starts_with(&seen.text()), "{cut}: {}", seen.text());
                }
                assert!(seen.fired(Rule::C5));
            }
        }
    }
}

/// Not one byte of an error that is not complete, whoever ends it.
#[test]
fn s2_an_unterminated_error_says_nothing() {
    for ending in [Ending::End, Ending::Fail(Failure::Closed), Ending::Open] {
        for cut in 1..event(BAD).len() {
            let body = event(OK) + &event(BAD)[..cut];
            let seen = Host::rpc().run(&stream(), &sse(body).ending(ending));
            assert_eq!(seen.text(), event(OK), "{cut} {ending:?}");
        }
    }
}

// Q-1: hosts that answer before they have read the request.

#[test]
fn q1_an_early_stream_waits_only_where_it_must() {
    let answer = sse("");
    let mut live = Live::new(&Host::rpc(), &stream());
    live.head(&answer);
    assert_eq!(live.feed(event(OK)), event(OK), "a success needs no id");
    assert!(!live.exchange.wants_request());
    assert_eq!(live.feed(event(BAD)), "");
    assert!(live.exchange.wants_request());
    assert_eq!(live.feed(event(OK)), "", "in order");
    live.exchange.end();
    live.poll(200);
    assert_eq!(live.finish, Finish::Open);
    live.request(&stream());
    assert_eq!(String::from_utf8_lossy(&live.got), event(OK) + &event(SHAPED) + &event(OK));
    assert_eq!(live.finish, Finish::End);
    assert!(!live.exchange.wants_request());
}

#[test]
fn q1_an_early_stream_that_dies_is_still_correlated() {
    for body in ["", ": hi\n\n", "data: {\"jsonrpc\"", "data: {\"jsonrpc\":\"2.0\",\"error\":{"] {
        let mut live = Live::new(&Host::rpc(), &stream());
        live.head(&sse(""));
        live.feed(body);
        live.exchange.fail(Failure::Closed);
        live.poll(200);
        assert!(live.exchange.wants_request(), "{body:?}");
        live.request(&stream());
        assert_eq!(
            (live.status, String::from_utf8_lossy(&live.got).as_ref()),
            (Some(502), INTERNAL),
            "{body:?}"
        );
        assert_eq!(live.finish, Finish::End);
    }
}

// S-1: lines of JSON.

/// One JSON document that is called a stream, blank lines before it: no event, and no bytes that go by unread.
#[test]
fn s1_a_document_behind_blank_lines_is_one_in_any_split() {
    for blanks in [1, 63, 64, 65, 1000, 4095, 4096, 5000] {
        let mut body = vec![b'\n'; blanks];
        body.extend_from_slice(BAD.as_bytes());
        let whole = Host::rpc().run(&Request::send(), &sse(body.clone()));
        if blanks < 4096 {
            assert_eq!(whole.text(), SHAPED, "{blanks}");
        }
        for split in
            [Split::Every(1), Split::Every(63), Split::At(64), Split::At(blanks), Split::At(blanks + 1)]
        {
            let cut = Host::rpc().run(&Request::send(), &sse(body.clone()).split(split.clone()));
            assert_eq!(cut.visible(), whole.visible(), "{blanks} {split:?}");
        }
    }
}

/// What clients decode before they read it is judged as what it is then.
#[test]
fn s1_a_coded_document_is_judged_as_one_in_any_split() {
    let envelope = r#"{"error":"run_forbidden","message":"tenant acme"}"#;
    let get = Request::call("GetTask", &json!({"id": "t-1"}));
    let rest = Request::http(Method::GET, "/rest/tasks/t-1");
    let blank = format!("\u{feff}\n{BAD}");
    for (host, request, body) in [
        (Host::rpc(), &get, envelope),
        (Host::rpc(), &Request::send(), BAD),
        (Host::rpc(), &Request::send(), blank.as_str()),
        (Host::rpc(), &Request::send(), OK),
        (Host::http(), &rest, envelope),
        (Host::http(), &rest, HTTP_BAD),
    ] {
        let plain = host.run(request, &sse(body));
        let bytes = gzip(&[body]).concat();
        for split in [Split::Every(1), Split::Every(7), Split::At(11), Split::At(bytes.len())] {
            let coded = sse(bytes.clone()).header("content-encoding", "gzip").split(split.clone());
            let seen = host.run(request, &coded);
            if body == OK {
                assert!(seen.passed(&coded), "{split:?}: {}", seen.text());
            } else {
                assert_eq!(seen.visible(), plain.visible(), "{body} {split:?}");
                assert!(!seen.text().contains("acme"), "{body} {split:?}");
            }
        }
    }
}

#[test]
fn s1_ndjson_line_by_line() {
    for end in ["\n", "\r\n"] {
        let seen = rpc(&lines(format!("{OK}{end}{end}{BAD}{end}{OK}{end}")));
        assert_eq!(seen.text(), format!("{OK}{end}{end}{SHAPED}\n{OK}{end}"));
        let seen = rpc(&lines(format!("{OK}{end}{BAD}")));
        assert_eq!(seen.text(), format!("{OK}{end}{SHAPED}\n"), "the last line needs no end");
        let seen = rpc(&lines(format!("{BAD}{end}")));
        assert_eq!(
            (seen.text(), seen.header("content-type").as_deref()),
            (format!("{SHAPED}\n"), Some("application/x-ndjson"))
        );
        let seen = rpc(&lines(format!("\u{feff}{BAD}{end}{OK}")));
        assert_eq!(seen.text(), format!("{SHAPED}\n{OK}"), "a byte order mark hides nothing");
    }
    for media in ["application/jsonl", "application/x-ndjson; charset=utf-8"] {
        let seen = rpc(&lines(format!("{BAD}\n")).set("content-type", Some(media)));
        assert_eq!(seen.header("content-type").as_deref(), Some(media), "its own name for it");
    }
    let answer = lines(format!("{OK}\n{OK}"));
    assert!(rpc(&answer).passed(&answer));
    let seen = http(&lines(format!("{HTTP_OK}\n{HTTP_BAD}\n")));
    assert_eq!(seen.text(), format!("{HTTP_OK}\n{HTTP_SHAPED}\n"));
    let seen = http(&lines(format!("{HTTP_BAD}\n{HTTP_OK}\n")));
    assert_eq!((seen.status, seen.text().as_str()), (400, HTTP_SHAPED));
    let seen =
        Host::rpc().run(&stream(), &lines(format!("{OK}\n{BAD}")).ending(Ending::Fail(Failure::Closed)));
    assert_eq!((seen.text(), seen.finish), (format!("{OK}\n"), Finish::Abort));
}

// C-4, S-4: codings and lengths.

/// Each piece is flushed, so that it can be read at once.
fn gzip(pieces: &[&str]) -> Vec<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let mut out = Vec::new();
    for piece in pieces {
        gzip.write_all(piece.as_bytes()).unwrap();
        gzip.flush().unwrap();
        out.push(std::mem::take(gzip.get_mut()));
    }
    out.push(gzip.finish().unwrap());
    out
}

#[test]
fn c4_a_compressed_stream() {
    let pieces = gzip(&[&event(OK), &event(BAD), &event(OK)]);
    let coded = |bytes: Vec<u8>| {
        let answer = sse(bytes).header("content-encoding", "gzip").header("content-length", "999");
        answer.header("etag", "\"1\"").header("content-digest", "sha-256=:YQ==:")
    };
    let seen = rpc(&coded(pieces.concat()));
    assert_eq!(seen.text(), event(OK) + &event(SHAPED) + &event(OK));
    for stale in ["content-encoding", "content-length", "etag", "content-digest"] {
        assert!(seen.header(stale).is_none(), "{stale}");
    }
    // With no delay, and in order while the request is awaited.
    let mut live = Live::read(&Host::rpc(), &stream(), &coded(Vec::new()));
    assert_eq!(live.feed(&pieces[0]), event(OK));
    assert_eq!(live.feed(&pieces[1]), event(SHAPED));
    let mut live = Live::new(&Host::rpc(), &stream());
    live.head(&coded(Vec::new()));
    for piece in &pieces {
        live.feed(piece);
    }
    live.exchange.end();
    live.request(&stream());
    assert_eq!(String::from_utf8_lossy(&live.got), event(OK) + &event(SHAPED) + &event(OK));
    // A success may be larger than what is ever held.
    let big = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"t":"{}"}}}}"#, "x".repeat(50_000));
    let seen = small(Host::rpc()).run(&stream(), &coded(gzip(&[&event(&big)]).concat()));
    assert_eq!((seen.text(), seen.finish), (event(&big), Finish::End));
    // What is not in its coding is a host that died.
    let seen = rpc(&coded(b"data: x\n\n".to_vec()));
    assert_eq!((seen.status, seen.finish), (502, Finish::End));
    let mut broken = pieces[0].clone();
    broken.extend_from_slice(&[0xff; 64]);
    let seen = Host::rpc().run(&stream(), &coded(broken).split(Split::At(pieces[0].len())));
    assert_eq!((seen.text(), seen.finish), (event(OK), Finish::Abort));
}

#[test]
fn c4_a_length_does_not_survive_an_error_that_changes_it() {
    let body = event(OK) + &event(BAD);
    let seen = rpc(&sse(body.clone()).header("content-length", &body.len().to_string()));
    assert_eq!(seen.text(), event(OK) + &event(SHAPED));
    assert!(seen.header("content-length").is_none());
    let seen = rpc(&sse(event(BAD)).header("content-length", &event(BAD).len().to_string()));
    assert!(seen.header("content-length").is_none_or(|n| n == event(SHAPED).len().to_string()));
}

#[test]
fn s4_an_empty_stream_passes() {
    for (host, request) in
        [(Host::rpc(), stream()), (Host::rpc(), subscribe()), (Host::http(), http_subscribe())]
    {
        for answer in [sse(""), sse("").header("content-length", "0"), sse("").header("x-acme", "1")] {
            let seen = every_way(&host, &request, &answer);
            assert!(seen.passed(&answer), "its own head, its length too");
            assert_eq!(seen.finish, Finish::End);
        }
    }
}

// I-4, I-5: what is not touched.

#[test]
fn i5_observe_mode_touches_no_stream() {
    let gzipped = gzip(&[&event(BAD)]).concat();
    for body in
        [event(OK) + &event(BAD), event(BAD), event(GONE), format!("data: {}", &BAD[..60]), String::new()]
    {
        let coded = sse(gzipped.clone()).header("content-encoding", "gzip");
        let broken = sse("data: x\n\n").header("content-encoding", "gzip");
        for answer in [sse(body.clone()), lines(body.clone()), coded, broken] {
            for request in [stream(), subscribe()] {
                let host = Host::rpc().policy(|p| p.mode = Mode::Observe);
                let seen = every_way(&host, &request, &answer);
                assert!(seen.passed(&answer), "{body:?}: {:?}", seen.text());
            }
        }
    }
    let seen = Host::rpc().policy(|p| p.mode = Mode::Observe).run(&stream(), &sse(event(BAD)));
    assert_eq!(seen.outcome.verdict, Verdict::Rewritten, "but it is counted");
    let seen = Host::rpc()
        .policy(|p| p.mode = Mode::Observe)
        .run(&stream(), &sse(event(BAD)).ending(Ending::Fail(Failure::Closed)));
    assert_eq!(seen.finish, Finish::Abort);
}

/// An event that is answered in the stream's place ends it, so what follows does not count; and what is over the intake
/// loses its headers.
#[test]
fn i5_what_is_noted_is_what_enforcing_does() {
    let owned = |answer: Answer| answer.header("x-owner", "acme").header("etag", "\"1\"");
    let http_gone = r#"{"error":{"code":404,"status":"NOT_FOUND","message":"acme"}}"#;
    let long =
        format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":-32001,"message":"{}"}}}}"#, "x".repeat(9000));
    let rest = Request::http(Method::GET, "/rest/tasks/t-1:subscribe");
    for (host, request, answer) in [
        (Host::rpc(), subscribe(), owned(sse(event(GONE) + &event(BAD)))),
        (Host::rpc(), stream(), owned(sse(event(BAD) + &event(GONE)))),
        (Host::http(), rest.clone(), owned(sse(event(http_gone) + &event(HTTP_BAD)))),
        (Host::http(), rest, owned(sse(event(HTTP_BAD) + &event(HTTP_OK)))),
        (Host::rpc(), Request::call("GetTask", &json!({"id": "t-1"})), owned(Answer::raw(200, long))),
    ] {
        let small = |host: Host, mode: Mode| {
            host.policy(|p| (p.mode, p.intake_bytes, p.response_cap_bytes) = (mode, 6000, 6000))
        };
        let done = small(host.clone(), Mode::Enforce).run(&request, &answer).outcome;
        let noted = small(host, Mode::Observe).run(&request, &answer).outcome;
        let rules =
            |outcome: &Outcome| outcome.rules.iter().filter(|rule| *rule != Rule::I5).collect::<Vec<_>>();
        assert_eq!(rules(&noted), rules(&done), "{answer:?}");
        assert_eq!((noted.reason, noted.collapsed), (done.reason, done.collapsed), "{answer:?}");
        assert!(rules(&done).contains(&Rule::D3));
    }
}

#[test]
fn i1_a_stream_of_something_else_passes() {
    let host = Host { target: Target::Unknown, ..Host::rpc() };
    let request = streaming(Request::raw(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#));
    let answer = sse(event(BAD));
    assert!(every_way(&host, &request, &answer).passed(&answer));
    let seen = every_way(&host, &stream(), &sse(event(BAD)));
    assert_eq!(seen.text(), event(SHAPED), "an A2A call is bound by what it says");
}

#[test]
fn p1_no_answer_at_all_is_the_status_and_json() {
    let seen = Host::rpc().own(&stream(), OwnAnswer::BadGateway);
    assert_eq!((seen.status, seen.text().as_str()), (502, INTERNAL));
}

// Whatever the bytes are.

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    ProptestConfig {
        cases,
        failure_persistence: None,
        max_global_rejects: 1 << 20,
        ..ProptestConfig::default()
    }
}

/// Lines of a stream, most of them parts of events.
fn line() -> impl Strategy<Value = String> {
    let data = proptest::sample::select(vec![
        OK,
        BAD,
        SHAPED,
        GONE,
        HTTP_OK,
        HTTP_BAD,
        HTTP_SHAPED,
        "[DONE]",
        "{",
        "",
        "{\"error\":",
        "null",
        "{}",
        r#"{"error":"run_forbidden","message":"m"}"#,
        r#"{"error":"rate_limited","message":"m"}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"m"},"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":-32602,"message":"m"}}"#,
    ]);
    prop_oneof![
        6 => data.prop_map(|d| format!("data: {d}")),
        // An error in two lines; successes and errors of about the intake's size.
        1 => Just(r#"data: {"jsonrpc":"2.0","id":7,"#.to_owned()),
        1 => Just(r#"data: "error":{"code":-32001,"message":"m"}}"#.to_owned()),
        1 => (4000usize..6100, any::<bool>(), any::<bool>()).prop_map(|(n, first, good)| {
            let pad = format!("\"x\":\"{}\"", "z".repeat(n));
            let says = if good { "\"result\":{},\"task\":{}" } else { "\"error\":{\"code\":-32004,\"message\":\"m\"}" };
            if first { format!("data: {{{pad},{says}}}") } else { format!("data: {{{says},{pad}}}") }
        }),
        1 => (4000usize..6100).prop_map(|n| format!("data: {}", "lorem ".repeat(n / 6))),
        1 => proptest::sample::select(vec!["data", "data:", ": c", "id: 1", "event: error", "event: x", "retry: 1", "x: y", "\u{feff}"])
            .prop_map(str::to_owned),
        1 => "[ -~]{0,8}",
        5 => Just(String::new()),
    ]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let end = proptest::sample::select(vec!["\n", "\r\n", "\r"]);
    let text = proptest::collection::vec((line(), end.clone()), 0..12).prop_map(|lines| {
        lines.into_iter().flat_map(|(line, end)| [line.into_bytes(), end.into()]).flatten().collect()
    });
    // All of one kind of line end, or each its own.
    let uniform = (proptest::collection::vec(line(), 0..12), end)
        .prop_map(|(lines, end)| lines.into_iter().map(|l| l + end).collect::<String>().into_bytes());
    prop_oneof![4 => uniform, 2 => text, 1 => proptest::collection::vec(any::<u8>(), 0..80)]
}

fn exchanges() -> impl Strategy<Value = (Host, Request)> {
    prop_oneof![
        Just((Host::rpc(), stream())),
        Just((Host::rpc(), subscribe())),
        Just((Host::rpc(), Request::get_task())),
        Just((small(Host::rpc()), stream())),
        Just((small(Host::rpc()), subscribe())),
        Just((small(Host::rpc()).policy(|p| p.cap.success = true), stream())),
        Just((small(Host::http()), http_stream())),
        Just((small(Host::http()).policy(|p| p.cap.success = true), http_subscribe())),
        Just((Host::http(), http_stream())),
        Just((Host::http(), http_subscribe())),
    ]
}

fn framed(body: Vec<u8>, is_lines: bool) -> Answer {
    if is_lines { lines(body) } else { sse(body) }
}

proptest! {
    #![proptest_config(config())]

    /// The same in any split of the bytes, whoever is read first, however it ends.
    #[test]
    fn s2_any_split(
        (host, request) in exchanges(), body in body(), is_lines in any::<bool>(), a in 1usize..40, b in any::<prop::sample::Index>(),
        ending in proptest::sample::select(vec![Ending::End, Ending::Open, Ending::Fail(Failure::Closed), Ending::Fail(Failure::TimedOut)]),
    ) {
        let answer = framed(body, is_lines).ending(ending);
        let whole = host.run(&request, &answer).visible();
        for split in [Split::Every(a), Split::At(b.index(answer.body.len() + 1)), Split::Every(1)] {
            for order in [Order::RequestFirst, Order::AnswerFirst] {
                let seen = host.clone().order(order).run(&request, &answer.clone().split(split.clone()));
                prop_assert_eq!(&whole, &seen.visible(), "{:?} {:?}", split, order);
            }
        }
    }

    /// Our stream, coming from a host, stays as it is.
    #[test]
    fn e5_twice_is_once((host, request) in exchanges(), body in body(), is_lines in any::<bool>()) {
        let once = host.run(&request, &framed(body, is_lines));
        // C-2's message is its own; read back it is an internal error like any other (D-1).
        prop_assume!(!once.headers.is_empty() && !once.text().contains("exceeds configured byte limit"));
        let again = Answer { status: once.status, headers: once.headers.clone(), ..Answer::raw(200, once.body.clone()) };
        let twice = host.run(&request, &again);
        prop_assert_eq!(once.text(), twice.text());
        prop_assert_eq!(once.status, twice.status);
    }

    /// No secret planted in an error event leaves, wherever it stands.
    #[test]
    fn d1_no_secret_of_an_error_event_leaves(
        (host, request) in exchanges(), before in any::<bool>(), place in 0usize..8, code in proptest::sample::select(vec![-32001, -32004, -32602, -32603, -32000, 418, 403]),
        a in 1usize..60, cut in any::<bool>(),
    ) {
        let secret = "zz-marker /srv/x";
        let error = match place {
            0 => json!({"code": code, "message": secret}),
            1 => json!({"code": code, "message": "m", "data": secret}),
            2 => json!({"code": code, "message": "m", "data": {secret: secret}}),
            3 => json!({"code": code, "message": "m", "data": [{"loc": [1], "msg": secret, "input": secret}]}),
            4 => json!({"code": secret, "message": "m", "status": secret}),
            5 => json!({"code": code, "message": "m", "details": [{"@type": secret, "reason": secret, "metadata": {"k": secret}}]}),
            6 => json!({"code": code, "message": "m", secret: 1}),
            _ => json!(secret),
        };
        let (rest, ok) = match &host.target {
            Target::Interface(i) if i.path == "/rest" => (json!({"error": error, "x": secret}), HTTP_OK),
            _ => (json!({"jsonrpc": "2.0", "id": secret, "error": error, "x": secret}), OK),
        };
        let mut text = rest.to_string();
        if cut {
            text.truncate(text.len() - 2);
        }
        let stream = format!("{}x: {secret}\ndata: {text}\n\n{}", if before { event(ok) } else { String::new() }, event(ok));
        let seen = host.run(&request, &sse(stream).split(Split::Every(a)));
        prop_assert!(!seen.text().contains("zz-marker"), "{}", seen.text());
    }

    /// A success that is well-formed goes out as it came, whatever is around it.
    #[test]
    fn i4_successes_pass(n in 1usize..6, names in proptest::collection::vec("[a-z]{1,6}", 6), a in 1usize..50, end in proptest::sample::select(vec!["\n", "\r\n", "\r"])) {
        let stream: String = (0..n).map(|i| format!(": {i}{end}id: {i}{end}data: {{\"{}\":1,\"result\":[{i}]}}{end}{end}", names[i])).collect();
        prop_assume!(names.iter().all(|n| n != "result" && n != "error"));
        let answer = sse(stream).split(Split::Every(a));
        let seen = Host::rpc().run(&stream_call(), &answer);
        prop_assert!(seen.passed(&answer));
    }
}

/// The policy's default is what the cases above rely on.
#[test]
fn u3_defaults() {
    let policy = Policy::default();
    assert_eq!((policy.response_cap_bytes, policy.intake_bytes), (1 << 20, 4 << 20));
}
