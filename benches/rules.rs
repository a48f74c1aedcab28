//! The rules alone, without a socket: how long one exchange takes for each kind of answer, and that a
//! success costs the same however long it is (F-9).
//!
//! `bench-rules` prints a line per kind; `bench-rules KIND N` only runs that kind N times, for a profiler or an
//! instruction count: `valgrind --tool=callgrind --toggle-collect='bench_rules::exchange' bench-rules KIND N`.
#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::cast_precision_loss, reason = "a measurement may end by panicking")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a_errata::normalize::{Binding, Exchange, Interface, Output, Policy, RequestFacts, Target};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// How Pingora reads a body.
const PIECE: usize = 64 << 10;
const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(10);

struct Kind {
    name: &'static str,
    method: &'static str,
    status: u16,
    body: Vec<u8>,
}

struct Bench {
    target: Target,
    policy: Arc<Policy>,
    request_headers: HeaderMap,
    headers: HeaderMap,
}

fn kinds() -> Vec<Kind> {
    let success = |length: usize| {
        let (before, after) = (r#"{"jsonrpc":"2.0","id":7,"result":{"text":""#, r#""}}"#);
        let body = format!("{before}{}{after}", "x".repeat(length - before.len() - after.len()));
        (200, body)
    };
    let all = [
        ("success 300 B", "GetTask", success(300)),
        ("success 4 KiB", "GetTask", success(4 << 10)),
        ("success 64 KiB", "GetTask", success(64 << 10)),
        ("success 1 MiB", "GetTask", success(1 << 20)),
        ("envelope", "SendMessage", (409, r#"{"error":"acme.ledger_locked","message":"ledger is locked","details":{"tenantId":"acme","runId":"acme/5d2f"}}"#.into())),
        ("oracle", "GetTask", (403, r#"{"error":"forbidden_tenant","message":"principal cannot operate under tenant 'acme'"}"#.into())),
        ("json-rpc", "CancelTask", (200, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"not here","data":{"reason":"UnsupportedOperationError","task_id":"tsk_81","owner_principal":"buyer-2"}}}"#.into())),
        ("validation", "SendMessage", (422, r#"{"detail":[{"type":"missing","loc":["body","params","message"],"msg":"Field required","input":{"a":1}}]}"#.into())),
        ("problem", "SendMessage", (400, r#"{"type":"https://a2a-protocol.org/errors/unsupported-operation","title":"Unsupported","status":400,"detail":"no"}"#.into())),
        ("html", "SendMessage", (502, "<html><body><h1>502 Bad Gateway</h1></body></html>".into())),
        ("conformant", "CancelTask", (200, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"This operation is not supported","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UNSUPPORTED_OPERATION","domain":"a2a-protocol.org"}]}}"#.into())),
    ];
    let kind = |(name, method, (status, body)): (_, _, (u16, String))| Kind {
        name,
        method,
        status,
        body: body.into_bytes(),
    };
    all.into_iter().map(kind).collect()
}

/// One request and its answer, as the shell would pump them.
#[inline(never)]
fn exchange(bench: &Bench, request: &[u8], status: StatusCode, body: &Bytes) -> usize {
    let facts =
        RequestFacts { method: &Method::POST, path: "/a2a", query: None, headers: &bench.request_headers };
    let mut exchange = Exchange::new(&bench.target, &bench.policy, &facts).expect("rules bind it");
    exchange.request_piece(request);
    exchange.request_end();
    exchange.head(status, &bench.headers);
    let mut sent = 0;
    let mut left = body.clone();
    while !left.is_empty() {
        exchange.piece(left.split_to(left.len().min(PIECE)));
        while let Some(output) = exchange.poll() {
            match output {
                Output::Body(bytes) => sent += bytes.len(),
                // The shell does not ask again.
                Output::PassRest => return sent + left.len(),
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

fn main() {
    let mut request_headers = HeaderMap::new();
    request_headers.insert("a2a-version", HeaderValue::from_static("1.0"));
    request_headers.insert("content-type", HeaderValue::from_static("application/json"));
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("server", HeaderValue::from_static("legacy"));
    let interface =
        Interface { path: "/a2a".into(), binding: Binding::JsonRpc, versions: vec!["1.0".into()] };
    let bench = Bench {
        target: Target::Interface(Arc::new(interface)),
        policy: Arc::new(Policy::default()),
        request_headers,
        headers,
    };
    // `cargo bench` passes flags of its own.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    for kind in kinds() {
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"{}","params":{{"id":"task-1","historyLength":3}}}}"#,
            kind.method
        );
        let status = StatusCode::from_u16(kind.status).expect("a status");
        let body = Bytes::from(kind.body);
        let run = |times: usize| {
            for _ in 0..times {
                black_box(exchange(&bench, request.as_bytes(), status, black_box(&body)));
            }
        };
        if let [name, times] = words.as_slice() {
            if name == kind.name {
                run(times.parse().expect("a number"));
            }
            continue;
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
