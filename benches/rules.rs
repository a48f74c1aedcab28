//! The rules alone, without a socket: how long one exchange takes for each kind of answer, and that a
//! success costs the same however long it is (F-9).

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a_errata::normalize::{Binding, Exchange, Interface, Output, Policy, RequestFacts, Target};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::word;

/// How Pingora reads a body.
const PIECE: usize = 64 << 10;
const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(10);

/// One request and the answer to it.
struct Kind {
    name: String,
    request: String,
    status: StatusCode,
    media: &'static str,
    /// What the host's connection is read in; nothing: only the request is read.
    pieces: Vec<Bytes>,
}

struct Bench {
    target: Target,
    policy: Arc<Policy>,
    request_headers: HeaderMap,
}

fn request(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{"id":"task-1","historyLength":3}}}}"#)
}

fn kinds() -> Vec<Kind> {
    let mut all = Vec::new();
    let mut unary = |name: &str, method: &str, status: u16, body: String| {
        let body = Bytes::from(body);
        let pieces = (0..body.len()).step_by(PIECE).map(|at| body.slice(at..body.len().min(at + PIECE)));
        all.push(Kind {
            name: name.into(),
            request: request(method),
            status: StatusCode::from_u16(status).expect("a status"),
            media: "application/json",
            pieces: pieces.collect(),
        });
    };
    for (name, length) in [("300 B", 300), ("4 KiB", 4 << 10), ("64 KiB", 64 << 10), ("1 MiB", 1 << 20)] {
        let (before, after) = (r#"{"jsonrpc":"2.0","id":7,"result":{"text":""#, r#""}}"#);
        let body = format!("{before}{}{after}", "x".repeat(length - before.len() - after.len()));
        unary(&format!("success {name}"), "GetTask", 200, body);
    }
    for (name, method, status, body) in [
        (
            "envelope",
            "SendMessage",
            409,
            r#"{"error":"acme.ledger_locked","message":"ledger is locked","details":{"tenantId":"acme","runId":"acme/5d2f"}}"#,
        ),
        (
            "oracle",
            "GetTask",
            403,
            r#"{"error":"forbidden_tenant","message":"principal cannot operate under tenant 'acme'"}"#,
        ),
        (
            "json-rpc",
            "CancelTask",
            200,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"not here","data":{"reason":"UnsupportedOperationError","task_id":"tsk_81","owner_principal":"buyer-2"}}}"#,
        ),
        (
            "validation",
            "SendMessage",
            422,
            r#"{"detail":[{"type":"missing","loc":["body","params","message"],"msg":"Field required","input":{"a":1}}]}"#,
        ),
        (
            "problem",
            "SendMessage",
            400,
            r#"{"type":"https://a2a-protocol.org/errors/unsupported-operation","title":"Unsupported","status":400,"detail":"no"}"#,
        ),
        ("html", "SendMessage", 502, "<html><body><h1>502 Bad Gateway</h1></body></html>"),
        (
            "conformant",
            "CancelTask",
            200,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"This operation is not supported","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UNSUPPORTED_OPERATION","domain":"a2a-protocol.org"}]}}"#,
        ),
    ] {
        unary(name, method, status, body.into());
    }
    let good = "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"statusUpdate\":{\"taskId\":\"task-1\",\"contextId\":\"context-1\",\"status\":{\"state\":\"TASK_STATE_WORKING\"}}}}\n\n";
    let bad = "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32004,\"message\":\"not here\",\"data\":{\"reason\":\"UnsupportedOperationError\",\"task_id\":\"tsk_81\"}}}\n\n";
    // What an event costs is what a hundred more of them cost.
    for (name, more, number) in [("", good, 0), (" and 100 events", good, 100), (" and 100 errors", bad, 100)]
    {
        let mut pieces = vec![Bytes::from(good)];
        pieces.extend(std::iter::repeat_n(Bytes::from(more), number));
        all.push(Kind {
            name: format!("stream of an event{name}"),
            request: request("SendStreamingMessage"),
            status: StatusCode::OK,
            media: "text/event-stream",
            pieces,
        });
    }
    let text = "x".repeat(4 << 10);
    let params = format!(
        r#""params":{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"text":"{text}"}}]}}}}"#
    );
    for (name, request) in [
        ("request, id first", format!(r#"{{"jsonrpc":"2.0","id":7,"method":"SendMessage",{params}}}"#)),
        ("request, id last", format!(r#"{{{params},"method":"SendMessage","id":7,"jsonrpc":"2.0"}}"#)),
    ] {
        all.push(Kind {
            name: name.into(),
            request,
            status: StatusCode::OK,
            media: "application/json",
            pieces: Vec::new(),
        });
    }
    all
}

/// One request and its answer, as the shell would pump them.
#[inline(never)]
fn exchange(bench: &Bench, kind: &Kind, headers: &HeaderMap) -> usize {
    let facts =
        RequestFacts { method: &Method::POST, path: "/a2a", query: None, headers: &bench.request_headers };
    let mut exchange = Exchange::new(&bench.target, &bench.policy, &facts).expect("rules bind it");
    exchange.request_piece(kind.request.as_bytes());
    exchange.request_end();
    if kind.pieces.is_empty() {
        return usize::from(exchange.operation().is_some());
    }
    exchange.head(kind.status, headers);
    let mut sent = 0;
    for piece in &kind.pieces {
        exchange.piece(piece.clone());
        while let Some(output) = exchange.poll() {
            match output {
                Output::Body(bytes) => sent += bytes.len(),
                // The shell does not ask again.
                Output::PassRest => return sent,
                _ => {}
            }
        }
    }
    exchange.end();
    while let Some(output) = exchange.poll() {
        if let Output::Body(bytes) = output {
            sent += bytes.len();
        }
    }
    sent
}

/// `rules` prints a line per kind: nanoseconds at the least, median, most. `rules KIND TIMES` only runs that
/// kind so often, for a profiler or an instruction count; `rules --list` names the kinds.
pub fn run(words: &[String]) {
    let mut request_headers = HeaderMap::new();
    request_headers.insert("a2a-version", HeaderValue::from_static("1.0"));
    request_headers.insert("content-type", HeaderValue::from_static("application/json"));
    let interface =
        Interface { path: "/a2a".into(), binding: Binding::JsonRpc, versions: vec!["1.0".into()] };
    let bench = Bench {
        target: Target::Interface(Arc::new(interface)),
        policy: Arc::new(Policy::default()),
        request_headers,
    };
    for kind in kinds() {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static(kind.media));
        headers.insert("server", HeaderValue::from_static("legacy"));
        let run = |times: usize| {
            for _ in 0..times {
                black_box(exchange(&bench, black_box(&kind), &headers));
            }
        };
        match words {
            [] => {}
            [word] => {
                assert_eq!(word, "--list", "rules [--list | KIND TIMES]");
                println!("{}", kind.name);
                continue;
            }
            [name, ..] => {
                if *name == kind.name {
                    run(word(words, 1).unwrap_or(1));
                }
                continue;
            }
        }
        let began = Instant::now();
        let mut times = 0;
        while began.elapsed() < ROUND {
            run(16);
            times += 16;
        }
        let mut rounds: Vec<f64> = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let began = Instant::now();
            run(times);
            rounds.push(began.elapsed().as_nanos() as f64 / times as f64);
        }
        rounds.sort_by(f64::total_cmp);
        let at = |n: usize| rounds.get(n).copied().unwrap_or_default();
        println!("{}\t{:.0}\t{:.0}\t{:.0}", kind.name, at(0), at(ROUNDS / 2), at(ROUNDS - 1));
    }
}
