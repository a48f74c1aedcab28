//! Hosts that die, stall or are not there; requests that are refused (C-3, C-5, P-1, P-2, O-4).
// A test says what went wrong by panicking.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic
)]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use a2a_errata::normalize::{Oracle, Policy};
use support::*;

/// The beginning of an error that claims to be longer.
const PART: &str = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"acme"#;

fn promised(status: u16, length: usize, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn begun(status: u16, body: &str) -> String {
    let chunked = chunked(status, body, body.len().max(1));
    chunked.strip_suffix("0\r\n\r\n").unwrap().to_owned()
}

fn nobody() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

#[test]
fn a_host_that_dies_inside_a_held_error_is_a_complete_502() {
    for answer in [promised(200, 400, PART), begun(200, PART), promised(500, 900, "<html>acme")] {
        let host = ScriptedHost::saying_once(answer);
        let proxy = Proxy::start(&host);
        let mut client = proxy.client();
        for _ in 0..2 {
            client.send(post("/a2a", CALL));
            let answer = client.answer();
            assert!(answer.complete && matches!(answer.status(), 500 | 502), "{answer:?}");
            answer.assert_fault(answer.status(), "7");
            assert_eq!(answer.header("connection"), Some("keep-alive"), "{answer:?}");
        }
        assert_eq!(host.requests().len(), 2, "nothing is sent again");
    }
}

#[test]
fn a_host_that_stalls_inside_a_held_error_is_a_504() {
    let host = ScriptedHost::start(|visit| {
        visit.request();
        visit.send(begun(200, PART));
        thread::sleep(Duration::from_secs(4));
    });
    let mut settings = settings(&[host.address]);
    settings.hosts[0].timeouts.read = Duration::from_millis(300);
    let proxy = Proxy::start_with(settings);
    let begin = Instant::now();
    proxy.ask(post("/a2a", CALL)).assert_fault(504, "7");
    assert!(begin.elapsed() < Duration::from_secs(3));
}

/// Never a clean end: short of its length, without a last chunk.
#[test]
fn a_host_that_dies_inside_a_flowing_success_aborts_the_answer() {
    let body = long_success();
    let part = &body[..150_000];
    for (answer, framing) in
        [(promised(200, body.len(), part), "content-length"), (begun(200, part), "transfer-encoding")]
    {
        let host = ScriptedHost::saying_once(answer);
        let answer = Proxy::start(&host).ask(post("/a2a", CALL));
        assert_eq!(answer.status(), 200);
        assert!(answer.header(framing).is_some());
        assert!(!answer.complete, "{framing}: a clean end after {} bytes", answer.body.len());
    }
}

#[test]
fn a_stream_that_breaks_off_is_aborted() {
    let event = "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"n\":1}}\n\n";
    let host = ScriptedHost::start(move |visit| {
        visit.request();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        visit.send(format!("{head}{:x}\r\n{event}\r\n", event.len()));
        thread::sleep(Duration::from_millis(100));
    });
    let call = CALL.replace("SendMessage", "SendStreamingMessage");
    let request = post("/a2a", &call).replacen("Host:", "Accept: text/event-stream\r\nHost:", 1);
    let answer = Proxy::start(&host).ask(request);
    assert_eq!((answer.status(), answer.text().as_str()), (200, event));
    assert!(!answer.complete);
}

#[test]
fn elsewhere_a_host_that_dies_aborts_the_answer_too() {
    let host = ScriptedHost::saying_once(promised(200, 10, "12345"));
    let answer = Proxy::start(&host).ask(get("/docs"));
    assert!(!answer.complete, "{answer:?}");
}

#[test]
fn no_answer_at_all_is_502_and_a_call_is_not_repeated() {
    let host = ScriptedHost::start(|visit| drop(visit.request()));
    let proxy = Proxy::start(&host);
    proxy.ask(post("/a2a", CALL)).assert_fault(502, "7");
    assert_eq!(host.requests().len(), 1);
    let answer = proxy.ask(post("/docs", "{}"));
    assert_eq!((answer.status(), answer.text().as_str()), (502, "Bad Gateway"));
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(answer.header("server"), None);
}

/// P-2: a POST on a reused connection that the host has closed after reading it.
#[test]
fn a_call_on_a_reused_connection_is_not_repeated_once_the_host_may_have_seen_it() {
    let host = ScriptedHost::start(|visit| {
        visit.request();
        visit.send(sized(200, SUCCESS));
        visit.request();
    });
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    for call in [CALL, &GET_TASK.replace("GetTask", "CancelTask")] {
        client.send(post("/a2a", CALL));
        client.answer().assert_passed(200, SUCCESS);
        client.send(post("/a2a", call));
        client.answer().assert_fault(502, "7");
    }
    assert_eq!((host.connections(), host.requests().len()), (2, 4));
}

/// P-2: what only asks is, once, with the same bytes.
#[test]
fn a_question_that_failed_on_a_reused_connection_is_sent_again() {
    for request in [get("/docs"), get("/rest/tasks/t-1"), post("/a2a", GET_TASK)] {
        let host = ScriptedHost::start(|visit| {
            visit.request();
            visit.send(sized(200, SUCCESS));
            visit.request();
            if visit.number > 0 {
                visit.send(sized(200, SUCCESS));
            }
        });
        let proxy = Proxy::start(&host);
        let mut client = proxy.client();
        for _ in 0..2 {
            client.send(&request);
            client.answer().assert_passed(200, SUCCESS);
        }
        let seen = host.requests();
        assert_eq!((host.connections(), seen.len()), (2, 3), "{request}");
        assert!(
            seen.iter().all(|again| again.body == seen[0].body && again.first_line == seen[0].first_line)
        );
    }
}

/// P-2: part of an answer is an answer.
#[test]
fn a_get_whose_answer_began_is_not_sent_again() {
    let host = ScriptedHost::start(|visit| {
        visit.request();
        visit.send(sized(200, "{}"));
        visit.request();
        visit.send("HTTP/1.1 200 O");
    });
    let proxy = Proxy::start(&host);
    for path in ["/docs", "/rest/tasks/t-1"] {
        let mut client = proxy.client();
        client.send(get(path));
        client.answer().assert_passed(200, "{}");
        client.send(get(path));
        assert_eq!(client.answer().status(), 502);
    }
    assert_eq!(host.requests().len(), 4);
}

#[test]
fn a_refused_connection_is_502_and_the_id_is_known() {
    let proxy = Proxy::start_with(settings(&[nobody()]));
    let mut client = proxy.client();
    for _ in 0..2 {
        client.send(post("/a2a", CALL));
        let answer = client.answer();
        answer.assert_fault(502, "7");
        assert_eq!(answer.header("connection"), Some("keep-alive"));
        client.send(post("/docs", CALL));
        let answer = client.answer();
        assert_eq!((answer.status(), answer.text().as_str()), (502, "Bad Gateway"));
    }
    // Sent ahead, too.
    client.send([post("/a2a", CALL), post("/a2a", CALL)].concat());
    client.answer().assert_fault(502, "7");
    client.answer().assert_fault(502, "7");
    proxy.assert_counts("inflight", "", 0.0);
}

/// C-3: an answer that is decided does not wait for a host that stalls.
#[test]
fn a_host_that_stalls_behind_the_intake_keeps_nobody_waiting() {
    let gone = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = gone.clone();
    let host = ScriptedHost::start(move |visit| {
        visit.request();
        visit.send(promised(500, 50_000_000, &format!(r#"{{"error":"acme{}"#, "a".repeat(100_000))));
        if visit.connection.closes_within(PATIENCE) {
            seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    });
    let mut settings = settings(&[host.address]);
    let policy = Policy { response_cap_bytes: 4096, intake_bytes: 50_000, ..Policy::default() };
    settings.hosts[0].policy = Arc::new(policy);
    let proxy = Proxy::start_with(settings);
    let mut client = proxy.client();
    let begin = Instant::now();
    for round in 1..=3 {
        client.send(post("/a2a", CALL));
        let answer = client.answer();
        assert!(answer.complete && answer.json()["error"].is_object(), "{answer:?}");
        proxy.assert_counts("inflight", "", 0.0);
        while gone.load(std::sync::atomic::Ordering::SeqCst) < round {
            assert!(begin.elapsed() < PATIENCE, "the host's connection is still open");
            thread::sleep(Duration::from_millis(5));
        }
    }
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
}

#[test]
fn no_upstream_is_503_with_retry_after() {
    let proxy = Proxy::start_with(settings(&[]));
    let answer = proxy.ask(post("/a2a", CALL));
    answer.assert_fault(503, "7");
    assert_eq!(answer.header("retry-after"), Some("1"));
    let answer = proxy.ask(get("/docs"));
    assert_eq!((answer.status(), answer.header("retry-after")), (503, Some("1")));
}

#[test]
fn a_silent_host_is_504() {
    let host = ScriptedHost::start(|visit| {
        visit.request();
        thread::sleep(Duration::from_secs(4));
    });
    let mut settings = settings(&[host.address]);
    settings.hosts[0].timeouts.read = Duration::from_millis(200);
    let proxy = Proxy::start_with(settings);
    proxy.ask(post("/a2a", CALL)).assert_fault(504, "7");
    let answer = proxy.ask(get("/docs"));
    assert_eq!((answer.status(), answer.text().as_str()), (504, "Gateway Timeout"));
}

#[test]
fn an_announced_oversize_is_413_before_the_host_is_asked() {
    let host = ScriptedHost::saying(sized(200, SUCCESS));
    let mut settings = settings(&[host.address]);
    settings.hosts[0].limits.request_bytes = 1000;
    let proxy = Proxy::start_with(settings);
    // The client sends all of it before it reads, as most do.
    let big = CALL.replace("hi", &"a".repeat(300_000));
    for path in ["/a2a", "/docs"] {
        let answer = proxy.ask(post(path, &big));
        assert_eq!((answer.status(), answer.complete), (413, true), "{answer:?}");
        assert_eq!(answer.header("connection"), Some("close"));
    }
    assert_eq!(host.connections(), 0);
    proxy.ask(post("/a2a", CALL)).assert_passed(200, SUCCESS);
}

#[test]
fn an_oversize_that_shows_while_it_comes_is_413() {
    let host = ScriptedHost::start(|visit| {
        visit.request();
        thread::sleep(Duration::from_secs(2));
    });
    let mut settings = settings(&[host.address]);
    settings.hosts[0].limits.request_bytes = 1000;
    let proxy = Proxy::start_with(settings);
    for path in ["/a2a", "/docs"] {
        let mut client = proxy.client();
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: h\r\nA2A-Version: 1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
        ));
        client.send(format!("{:x}\r\n{CALL}\r\n", CALL.len()));
        for _ in 0..20 {
            client.try_send(format!("{:x}\r\n{}\r\n", 100, " ".repeat(100)));
        }
        let answer = client.answer();
        assert_eq!((answer.status(), answer.complete), (413, true), "{answer:?}");
    }
}

#[test]
fn unreadable_framing_is_400_even_before_any_hook() {
    let host = ScriptedHost::saying(sized(200, SUCCESS));
    let proxy = Proxy::start(&host);
    let bad = |path: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: h\r\nA2A-Version: 1.0\r\nContent-Length: abc\r\n\r\n{{}}")
    };
    let answer = proxy.ask(bad("/a2a"));
    answer.assert_fault(400, "null");
    assert_eq!(answer.header("connection"), Some("close"));
    for request in
        [bad("/docs"), "no http\r\n\r\n".to_owned(), "GET / HTTP/1.1\r\n\x01: 1\r\n\r\n".to_owned()]
    {
        let answer = proxy.ask(request);
        assert_eq!((answer.status(), answer.text().as_str()), (400, "Bad Request"));
        assert_eq!(answer.header("server"), None);
    }
    let answer = proxy
        .ask("POST /a2a HTTP/1.1\r\nHost: h\r\nA2A-Version: 1.0\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    answer.assert_fault(400, "null");
}

#[test]
fn a_loop_is_508() {
    let mut settings = settings(&[nobody()]);
    settings.hosts[0].upstreams[0].address = settings.listen.clone();
    let proxy = Proxy::start_with(settings);
    // The inner pass's 508 is a host's answer for the outer one, and judged like any other.
    let answer = proxy.ask(post("/a2a", CALL));
    assert_eq!((answer.complete, answer.json()["id"].to_string().as_str()), (true, "7"));
    let answer = proxy.ask(get("/docs"));
    assert_eq!((answer.status(), answer.text().as_str()), (508, "Loop Detected"));
}

/// C-3: the rest is not read, and its connection not used again; the client's is.
#[test]
fn what_is_over_the_intake_closes_the_hosts_connection() {
    let closed = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = closed.clone();
    let host = ScriptedHost::start(move |visit| {
        while visit.request().is_some() {
            let part = "a".repeat(50_000);
            visit.send(promised(500, 50_000_000, r#"{"error":"acme"#));
            while visit.send(&part) {}
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    });
    let mut settings = settings(&[host.address]);
    let policy = Policy { response_cap_bytes: 4096, intake_bytes: 100_000, ..Policy::default() };
    settings.hosts[0].policy = Arc::new(policy);
    let proxy = Proxy::start_with(settings);
    let mut client = proxy.client();
    for _ in 0..2 {
        client.send(post("/a2a", CALL));
        let answer = client.answer();
        assert!(answer.complete && answer.json()["error"].is_object(), "{answer:?}");
        assert!(!answer.text().contains("acme"));
    }
    assert_eq!(host.connections(), 2);
    thread::sleep(Duration::from_millis(200));
    assert_eq!(closed.load(std::sync::atomic::Ordering::SeqCst), 2);
}

/// O-4: not before the next multiple since the request's last byte; everything else at once.
#[test]
fn not_found_waits_for_the_floor() {
    let host = ScriptedHost::start(|visit| {
        let mut delays = [0, 250, 0].into_iter();
        while let (Some(_), Some(delay)) = (visit.request(), delays.next()) {
            thread::sleep(Duration::from_millis(delay));
            let body = if delays.len() == 0 { SUCCESS } else { NOT_FOUND };
            visit.send(sized(200, body));
        }
    });
    let mut settings = settings(&[host.address]);
    let oracle = Oracle { floor_ms: 200, ..Oracle::default() };
    settings.hosts[0].policy = Arc::new(Policy { oracle, ..Policy::default() });
    let proxy = Proxy::start_with(settings);
    let mut client = proxy.client();
    for expected in [200, 400] {
        let request = post("/a2a", GET_TASK);
        let (first, last) = request.split_at(request.len() - 5);
        client.send(first);
        thread::sleep(Duration::from_millis(50));
        let begin = Instant::now();
        client.send(last);
        client.answer().assert_fault(200, "7");
        let taken = begin.elapsed().as_millis();
        assert!((expected - 5..expected + 120).contains(&taken), "{taken} ms instead of {expected}");
    }
    let begin = Instant::now();
    client.send(post("/a2a", GET_TASK));
    client.answer().assert_passed(200, SUCCESS);
    assert!(begin.elapsed() < Duration::from_millis(150), "a success waited");
}
