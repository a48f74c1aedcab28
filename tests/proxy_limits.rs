//! What clients may take: bytes held back, connections, streams, heads and requests (`limits`).
// A test says what went wrong by panicking.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic
)]

mod support;
#[path = "support/tls.rs"]
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use a2a_errata::normalize::{Mode, Policy};
use a2a_errata::proxy::Bounds;
use support::*;
use tls::{Http2, block_on};

/// A proxy in front of this host, with other bounds than the usual.
fn bounded(host: &ScriptedHost, change: impl FnOnce(&mut Bounds)) -> Proxy {
    let mut settings = settings(&[host.address]);
    change(&mut settings.bounds);
    Proxy::start_with(settings)
}

/// An error of so many bytes and more.
fn long_error(bytes: usize) -> String {
    let filler = "acme".repeat(bytes / 4);
    format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":-32603,"message":"{filler}"}}}}"#)
}

/// A host that answers each request with these bytes but pauses behind so many of them until it is told, so that the
/// proxy has to hold them.
fn pausing(answer: String, at: usize) -> (ScriptedHost, Arc<AtomicBool>) {
    let go = Arc::new(AtomicBool::new(false));
    let told = go.clone();
    let host = ScriptedHost::start(move |visit| {
        while visit.request().is_some() {
            visit.send(&answer[..at]);
            let began = Instant::now();
            while !told.load(Ordering::SeqCst) && began.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(5));
            }
            visit.send(&answer[at..]);
            if !answer.contains("Content-Length") {
                return;
            }
        }
    });
    (host, go)
}

fn reached(proxy: &Proxy, limit: &str, times: f64) {
    proxy.assert_counts("limits_reached_total", &format!("limit=\"{limit}\""), times);
}

/// `limits.held_bytes`: what all hold together, not what one holds. Who holds already, goes on.
#[test]
fn over_the_held_bytes_an_error_is_a_503_and_successes_flow() {
    let go = Arc::new(AtomicBool::new(false));
    let told = go.clone();
    let host = ScriptedHost::start(move |visit| {
        while let Some(request) = visit.request() {
            if !request.text().contains("hold") {
                let success = long_success();
                // A short one comes in two parts, and is held in between.
                let short = sized(200, SUCCESS);
                let (a, b) = short.split_at(short.len() - 9);
                let sent = if request.text().contains("short") {
                    visit.send(a) && {
                        thread::sleep(Duration::from_millis(30));
                        visit.send(b)
                    }
                } else {
                    visit.send(sized(200, &success))
                };
                assert!(sent);
                continue;
            }
            let answer = sized(500, &long_error(30_000));
            visit.send(&answer[..20_000]);
            let began = Instant::now();
            while !told.load(Ordering::SeqCst) && began.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(5));
            }
            visit.send(&answer[20_000..]);
        }
    });
    let proxy = bounded(&host, |bounds| bounds.held_bytes = 50_000);
    let hold = CALL.replace("hi", "hold");
    let mut holding = [proxy.client(), proxy.client()];
    for (client, held) in holding.iter_mut().zip([19_000.0, 38_000.0]) {
        client.send(post("/a2a", &hold));
        eventually(|| proxy.count("held_bytes", "") >= held, || format!("{held} bytes are not held"));
    }
    let mut client = proxy.client();
    for _ in 0..2 {
        client.send(post("/a2a", &hold));
        let answer = client.answer();
        answer.assert_fault(503, "7");
        assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}");
        assert_eq!(answer.header("connection"), Some("keep-alive"), "{answer:?}");
        client.send(post("/a2a", CALL));
        client.answer().assert_passed(200, &long_success());
        client.send(post("/a2a", &CALL.replace("hi", "short")));
        client.answer().assert_passed(200, SUCCESS);
    }
    client.send(post("/rest/message:send", r#"{"message":{"messageId":"hold"}}"#));
    let answer = client.answer();
    let error = &answer.json()["error"];
    assert_eq!((answer.status(), error["code"].as_u64()), (503, Some(503)), "{answer:?}");
    assert_eq!(error["status"], "UNAVAILABLE", "{answer:?}");
    assert!(!answer.text().contains("acme"), "{answer:?}");
    reached(&proxy, "held_bytes", 3.0);
    go.store(true, Ordering::SeqCst);
    for client in &mut holding {
        client.answer().assert_fault(500, "7");
    }
    proxy.assert_counts("held_bytes", "", 0.0);
}

/// What an answer's head or beginning decides (O-3, F-1) is not decided otherwise where there is no room: nobody
/// learns by filling the room whether a task is somebody else's.
#[test]
fn what_is_decided_already_needs_no_room() {
    let filler = "acme".repeat(5_000);
    let begun = |status: u16, body: &str| sized(status, &format!("{body}{filler}\"}}}}"));
    for (name, long, short) in [
        ("403", begun(403, r#"{"error":{"message":""#), sized(403, "{}")),
        ("404", begun(404, r#"{"error":{"message":""#), sized(404, "{}")),
        (
            "-32001",
            begun(200, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":""#),
            sized(200, NOT_FOUND),
        ),
        ("401", begun(401, r#"{"error":{"message":""#), sized(401, "{}")),
    ] {
        let answers = [(long, 15_000), (short, 0)].map(|(said, at)| {
            let (host, go) = pausing(said, at);
            go.store(at == 0, Ordering::SeqCst);
            let proxy = bounded(&host, |bounds| bounds.held_bytes = 5_000);
            let answer = proxy.ask(post("/a2a", GET_TASK));
            assert!(answer.complete && !answer.text().contains("acme"), "{name}: {answer:?}");
            (answer.status(), answer.text())
        });
        assert_eq!(answers[0], answers[1], "{name}");
    }
}

/// Before a stream's first event it is an answer like any other; after one, the event is replaced and the stream goes on.
#[test]
fn an_event_that_has_no_room_is_replaced() {
    let success = format!("data: {SUCCESS}\n\n");
    let error = format!("data: {}\n\n", long_error(20_000));
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let call = CALL.replace("SendMessage", "SendStreamingMessage");
    let request = post("/a2a", &call).replacen("\r\n", "\r\nAccept: text/event-stream\r\n", 1);

    let events = |host: &ScriptedHost, go: &AtomicBool, request: &str| {
        let proxy = bounded(host, |bounds| bounds.held_bytes = 5_000);
        let mut client = proxy.client();
        client.send(request);
        reached(&proxy, "held_bytes", 1.0);
        go.store(true, Ordering::SeqCst);
        client.answer()
    };
    let (host, go) = pausing(format!("{head}{success}{error}{success}"), 10_000);
    let answer = events(&host, &go, &request);
    assert!(answer.complete, "{answer:?}");
    let text = answer.text();
    let rest = text.strip_prefix(&success).and_then(|rest| rest.strip_suffix(&success)).expect(&text);
    let event: serde_json::Value = serde_json::from_str(rest.trim().strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!((&event["id"], &event["error"]["code"]), (&7.into(), &(-32603).into()), "{text}");
    assert!(!rest.contains("acme"), "{rest}");

    let (host, go) = pausing(format!("{head}{error}{success}"), 10_000);
    events(&host, &go, &request).assert_fault(503, "7");

    // A stream of the other binding, whose errors have a name.
    let message = "acme".repeat(5_000);
    let error = format!("event: error\ndata: {{\"error\":{{\"code\":500,\"message\":\"{message}\"}}}}\n\n");
    let task = "data: {\"task\":{\"id\":\"t\"}}\n\n";
    let (host, go) = pausing(format!("{head}{task}{error}{task}"), 10_000);
    let answer = events(&host, &go, &post("/rest/message:stream", r#"{"message":{"messageId":"m"}}"#));
    let text = answer.text();
    assert!(answer.complete && text.starts_with(task) && text.ends_with(task), "{answer:?}");
    assert!(
        text.contains("event: error\ndata: {\"error\":{\"code\":503,\"status\":\"UNAVAILABLE\""),
        "{text}"
    );
    assert!(!text.contains("acme"), "{text}");
}

/// A redirect is no error (F-5): nothing of it is given up.
#[test]
fn a_redirect_that_has_no_room_passes_whole() {
    let body = format!("{{\"trace\":\"{}\"}}", "x".repeat(20_000));
    let (host, go) = pausing(sized(302, &body), 10_000);
    let proxy = bounded(&host, |bounds| bounds.held_bytes = 5_000);
    let mut client = proxy.client();
    client.send(post("/a2a", CALL));
    reached(&proxy, "held_bytes", 1.0);
    go.store(true, Ordering::SeqCst);
    client.answer().assert_passed(302, &body);
}

/// A host that answers before it has read (Q-1): what waits for the request's id is given up once, and counted once.
#[test]
fn what_waits_for_its_request_is_given_up_once() {
    let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let endless = format!("{stream}data: {}", long_error(20_000));
    let late = format!("{stream}data: {}\n\ndata: {SUCCESS}\n\n", long_error(20_000));
    for answer in [sized(500, &long_error(20_000)), endless, late] {
        let says = answer.clone();
        let host = ScriptedHost::start(move |visit| {
            visit.connection.until(b"\r\n\r\n");
            visit.send(&says);
            visit.connection.until(b"}}}");
        });
        let proxy = bounded(&host, |bounds| bounds.held_bytes = 5_000);
        let call = CALL.replace("SendMessage", "SendStreamingMessage").replace("hi", &"x".repeat(5000));
        let request = post("/a2a", &call).replacen("\r\n", "\r\nAccept: text/event-stream\r\n", 1);
        let mut client = proxy.client();
        for piece in request.as_bytes().chunks(1000) {
            client.send(piece);
            thread::sleep(Duration::from_millis(20));
        }
        client.answer().assert_fault(503, "7");
        reached(&proxy, "held_bytes", 1.0);
        proxy.assert_counts("held_bytes", "", 0.0);
    }
}

/// I-5: only the verdict is given up.
#[test]
fn an_observed_answer_passes_where_there_is_no_room_to_judge_it() {
    let (host, go) = pausing(sized(500, &long_error(20_000)), 10_000);
    let mut settings = settings(&[host.address]);
    settings.bounds.held_bytes = 5_000;
    settings.hosts[0].policy = Arc::new(Policy { mode: Mode::Observe, ..Policy::default() });
    let proxy = Proxy::start_with(settings);
    let mut client = proxy.client();
    client.send(post("/a2a", CALL));
    reached(&proxy, "held_bytes", 1.0);
    go.store(true, Ordering::SeqCst);
    client.answer().assert_passed(500, &long_error(20_000));
}

/// P-3: a card that cannot be changed would send clients past the proxy.
#[test]
fn a_card_that_has_no_room_is_a_503() {
    let card = format!(r#"{{"name":"{}","url":"http://h/a2a"}}"#, "a".repeat(20_000));
    let (host, _go) = pausing(sized(200, &card), 10_000);
    let mut settings = settings(&[host.address]);
    settings.bounds.held_bytes = 5_000;
    settings.hosts[0].public_url = "https://agents.example".into();
    let proxy = Proxy::start_with(settings);
    let answer = proxy.ask(get("/.well-known/agent-card.json"));
    assert_eq!((answer.status(), answer.header("retry-after")), (503, Some("1")), "{answer:?}");
    assert_eq!(answer.text(), "Service Unavailable");
}

#[test]
fn a_connection_too_many_is_closed() {
    let host = ScriptedHost::saying(sized(200, SUCCESS));
    let proxy = bounded(&host, |bounds| bounds.connections = 2);
    proxy.assert_counts("connections_open", "", 0.0);
    let mut clients = [proxy.client(), proxy.client()];
    for client in &mut clients {
        client.send(post("/a2a", CALL));
        client.answer().assert_passed(200, SUCCESS);
    }
    for _ in 0..3 {
        let mut late = proxy.client();
        late.try_send(post("/a2a", CALL));
        assert!(late.rest_then_close().is_empty(), "one too many got an answer");
    }
    reached(&proxy, "connections", 3.0);
    proxy.assert_counts("connections_open", "", 2.0);
    let [first, mut second] = clients;
    first.close();
    proxy.assert_counts("connections_open", "", 1.0);
    proxy.ask(post("/a2a", CALL)).assert_passed(200, SUCCESS);
    second.send(post("/a2a", CALL));
    second.answer().assert_passed(200, SUCCESS);
}

#[test]
fn a_client_of_http_2_is_told_how_many_streams_it_may_open() {
    let host = ScriptedHost::saying(sized(200, SUCCESS));
    let proxy = bounded(&host, |bounds| bounds.concurrent_streams = 3);
    block_on(async {
        let socket = tokio::net::TcpStream::connect(proxy.address).await.unwrap();
        let (send, connection) = h2::client::handshake(socket).await.unwrap();
        let driver = tokio::spawn(connection);
        let told = async {
            while send.current_max_send_streams() != 3 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, told).await.expect("never told");
        driver.abort();
    });
}

/// A call whose head has this many bytes.
fn call_with_head(bytes: usize) -> String {
    let call = post("/a2a", CALL);
    let head = call.len() - CALL.len();
    call.replacen("\r\n", &format!("\r\nX-A: {}\r\n", "a".repeat(bytes - head - "X-A: \r\n".len())), 1)
}

#[test]
fn a_head_may_be_as_long_as_it_may_be() {
    let host = ScriptedHost::saying(sized(200, SUCCESS));
    let proxy = bounded(&host, |bounds| bounds.request_header_bytes = 5_000);
    let mut client = proxy.client();
    for _ in 0..2 {
        client.send(call_with_head(5_000));
        client.answer().assert_passed(200, SUCCESS);
    }
    for size in [1_000, 100_000] {
        let mut client = proxy.client();
        // Longer than its reads, or in one.
        for piece in call_with_head(5_001).as_bytes().chunks(size) {
            client.try_send(piece);
        }
        let answer = client.answer();
        assert_eq!((answer.status(), answer.complete), (431, true), "{answer:?}");
        assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
        assert!(client.rest_then_close().is_empty());
    }
    reached(&proxy, "request_header_bytes", 2.0);
    assert_eq!(host.requests().len(), 2);
    // Or some of it with the request before.
    for (size, status) in [(5_000, 200), (5_001, 431)] {
        let (long, mut client) = (call_with_head(size), proxy.client());
        client.send(post("/a2a", CALL) + &long[..100]);
        client.answer().assert_passed(200, SUCCESS);
        client.try_send(&long[100..]);
        assert_eq!(client.answer().status(), status, "{size}");
    }
    reached(&proxy, "request_header_bytes", 3.0);

    block_on(async {
        let (client, driver) = Http2::in_the_clear(proxy.address).await.unwrap();
        let driver = tokio::spawn(driver);
        let long = format!("/a2a?{}", "a".repeat(5_000));
        let refused = tokio::time::timeout(PATIENCE, client.post(&long, CALL.into())).await.unwrap();
        assert!(refused.is_err() || refused.is_ok_and(|answer| answer.status == 431));
        let (answer, body) = client.call("/a2a", CALL).await;
        assert_eq!((answer.status, String::from_utf8(body).unwrap().as_str()), (200, SUCCESS));
        driver.abort();
    });
}

#[test]
fn a_hosts_head_that_is_too_long_is_a_502() {
    let long = sized(200, SUCCESS).replacen("\r\n", &format!("\r\nX-Acme: {}\r\n", "a".repeat(5_000)), 1);
    let host = ScriptedHost::saying(long);
    let mut settings = settings(&[host.address]);
    settings.hosts[0].limits.response_header_bytes = 5_000;
    let proxy = Proxy::start_with(settings);
    let mut client = proxy.client();
    for _ in 0..2 {
        client.send(post("/a2a", CALL));
        client.answer().assert_fault(502, "7");
    }
    client.send(get("/elsewhere"));
    let answer = client.answer();
    assert_eq!((answer.status(), answer.text().as_str()), (502, "Bad Gateway"), "{answer:?}");
    reached(&proxy, "response_header_bytes", 3.0);
}

/// `limits.requests_per_second`: in the interface's shape, with the request's id, and the connection goes on.
#[test]
fn a_client_that_asks_too_often_gets_a_429() {
    let host = ScriptedHost::saying(sized(200, SUCCESS));
    let proxy = bounded(&host, |bounds| bounds.requests_per_second = 2);
    let mut client = proxy.client();
    let mut until = |request: String, status: u16| {
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < PATIENCE, "never a {status}");
            client.send(&request);
            let answer = client.answer();
            if answer.status() == status {
                assert_eq!(answer.header("connection"), Some("keep-alive"), "{answer:?}");
                return answer;
            }
            if status == 200 {
                thread::sleep(Duration::from_millis(300));
            }
        }
    };
    let answer = until(post("/a2a", CALL), 429);
    answer.assert_fault(429, "7");
    assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}");
    let error = &answer.json()["error"];
    assert_eq!(error["code"], -32000, "{answer:?}");
    assert_eq!(error["data"][0]["reason"], "RATE_LIMITED", "{answer:?}");
    assert_eq!(error["data"][1]["retryDelay"], "1s", "{answer:?}");
    until(post("/a2a", CALL), 200).assert_passed(200, SUCCESS);
    let answer = until(get("/rest/tasks/t"), 429);
    assert_eq!(answer.json()["error"]["status"], "RESOURCE_EXHAUSTED", "{answer:?}");
    assert_eq!(answer.json()["error"]["details"][0]["reason"], "RATE_LIMITED", "{answer:?}");
    let answer = until(get("/elsewhere"), 429);
    assert_eq!((answer.text().as_str(), answer.header("retry-after")), ("Too Many Requests", Some("1")));
    assert!(proxy.count("limits_reached_total", "limit=\"requests_per_second\"") >= 3.0);
}

/// Off unless it is asked for.
#[test]
fn a_client_may_ask_as_often_as_it_likes() {
    let host = ScriptedHost::saying(sized(200, SUCCESS));
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    for _ in 0..300 {
        client.send(post("/a2a", CALL));
        client.answer().assert_passed(200, SUCCESS);
    }
    reached(&proxy, "requests_per_second", 0.0);
}
