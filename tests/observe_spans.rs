//! Spans for a collector: what is in them, what is not, and that nobody waits for it (D-4).
// A test says what went wrong by panicking.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic
)]
#![cfg(feature = "otlp")]

#[path = "support/binary.rs"]
mod binary;
mod support;

use binary::{Running, ask, exchange, free_port, run, start, text};
use support::{ERROR, Message, NOT_FOUND, ScriptedHost, eventually, sized};

const PARENT: &str = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";

struct Traced {
    proxy: Running,
    listen: u16,
    admin: u16,
}

/// A proxy before `host` that sends its spans to `collector` every 100 ms.
fn traced(host: &ScriptedHost, collector: &str, more: &[(&str, &str)]) -> Traced {
    let (listen, admin) = (free_port(), free_port());
    let (listen_at, admin_at) = (format!("127.0.0.1:{listen}"), format!("127.0.0.1:{admin}"));
    let upstream = host.address.to_string();
    let mut environment = vec![
        ("A2A_ERRATA_TRACES__OTLP_URL", collector),
        ("A2A_ERRATA_TRACES__HEADERS", "authorization: Bearer collector-token"),
        ("A2A_ERRATA_HOSTS__0__INTERFACES__0__PATH", "/a2a"),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
    ];
    environment.extend_from_slice(more);
    let proxy =
        start(&["run", "--upstream", &upstream, "--listen", &listen_at, "--admin", &admin_at], &environment);
    assert!(ask(admin, "GET /livez").starts_with("HTTP/1.1 200"));
    Traced { proxy, listen, admin }
}

impl Traced {
    /// A call, with this trace context; the answer.
    fn call(&self, flags: &str) -> String {
        let body = r#"{"jsonrpc":"2.0","id":"planted","method":"GetTask","params":{"id":"planted-task"}}"#;
        let request = format!(
            "POST /a2a?planted HTTP/1.1\r\nHost: h\r\nA2A-Version: 1.0\r\nConnection: close\r\nAuthorization: planted\r\n\
             traceparent: 00-{PARENT}-{flags}\r\ntracestate: planted=planted\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        String::from_utf8_lossy(&exchange(self.listen, request.as_bytes())).into_owned()
    }
}

fn holds(message: &Message, bytes: &[u8]) -> bool {
    message.body.windows(bytes.len()).any(|window| window == bytes)
}

fn trace_id() -> Vec<u8> {
    (0..16).map(|n| u8::from_str_radix(&PARENT[2 * n..2 * n + 2], 16).unwrap()).collect()
}

#[test]
fn a_span_says_what_the_access_log_says() {
    let host = ScriptedHost::saying_once(sized(200, NOT_FOUND));
    let collector = ScriptedHost::saying(sized(200, ""));
    let traced = traced(&host, &format!("http://{}", collector.address), &[]);
    traced.call("01");
    eventually(|| !collector.requests().is_empty(), || "no span came".into());
    let batch = &collector.requests()[0];
    assert_eq!(batch.first_line, "POST /v1/traces HTTP/1.1");
    assert_eq!(batch.header("content-type"), Some("application/x-protobuf"));
    assert_eq!(batch.header("authorization"), Some("Bearer collector-token"));
    for word in ["/a2a", "JSONRPC", "rewritten", "TASK_NOT_FOUND", "O-1", "legacy", "enforce", "service.name"]
    {
        assert!(holds(batch, word.as_bytes()), "{word} is missing");
    }
    assert!(holds(batch, &trace_id()), "it belongs to the client's trace");
    assert!(!holds(batch, b"planted"));
    // The host got the client's context as it was.
    assert_eq!(host.requests()[0].header("traceparent"), Some(format!("00-{PARENT}-01").as_str()));
    assert_eq!(host.requests()[0].header("tracestate"), Some("planted=planted"));
    // The token is shown nowhere.
    let shown = ask(traced.admin, "GET /config");
    assert!(shown.contains(r#"headers = ["***"]"#) && !shown.contains("collector-token"), "{shown}");
    eventually(
        || ask(traced.admin, "GET /metrics").contains(r#"span_batches_total{result="delivered"}"#),
        || "not counted".into(),
    );
    assert!(!traced.proxy.log().contains("collector-token"));
}

#[test]
fn the_clients_sampling_decision_stands() {
    let host = ScriptedHost::saying_once(sized(200, ERROR));
    let collector = ScriptedHost::saying(sized(200, ""));
    let traced = traced(&host, &format!("http://{}/v1/traces", collector.address), &[]);
    traced.call("00");
    traced.call("01");
    eventually(|| !collector.requests().is_empty(), || "no span came".into());
    std::thread::sleep(std::time::Duration::from_millis(300));
    let spans: usize = collector
        .requests()
        .iter()
        .map(|batch| batch.body.windows(16).filter(|window| *window == trace_id()).count())
        .sum();
    assert_eq!(spans, 1);
}

#[test]
fn without_a_decision_the_percentage_decides() {
    let host = ScriptedHost::saying_once(sized(200, ERROR));
    let collector = ScriptedHost::saying(sized(200, ""));
    let never = [("A2A_ERRATA_TRACES__SAMPLE_PERCENT", "0")];
    let traced = traced(&host, &format!("http://{}", collector.address), &never);
    assert!(ask(traced.listen, "GET /").starts_with("HTTP/1.1 200"));
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(collector.requests().is_empty());
}

/// A collector that is gone, or says no, is counted; clients do not notice.
#[test]
fn nobody_waits_for_a_collector() {
    let host = ScriptedHost::saying_once(sized(200, ERROR));
    let refuses = ScriptedHost::saying(sized(503, "planted"));
    for collector in
        [format!("http://127.0.0.1:{}", support::free_port()), format!("http://{}", refuses.address)]
    {
        let traced = traced(&host, &collector, &[]);
        assert!(traced.call("01").starts_with("HTTP/1.1 200"));
        eventually(
            || ask(traced.admin, "GET /metrics").contains(r#"span_batches_total{result="lost"}"#),
            || "not counted".into(),
        );
        assert!(traced.call("01").starts_with("HTTP/1.1 200"));
        let log = traced.proxy.log();
        assert!(log.contains("does not take spans") && !log.contains("planted"), "{log}");
    }
}

/// The headers may hold a credential: they are for the collector that was named.
#[test]
fn a_collector_that_sends_on_is_not_followed() {
    let host = ScriptedHost::saying_once(sized(200, ERROR));
    let thief = ScriptedHost::saying(sized(200, ""));
    let moved = ScriptedHost::saying(format!(
        "HTTP/1.1 302 X\r\nLocation: http://localhost:{}/steal\r\nContent-Length: 0\r\n\r\n",
        thief.address.port()
    ));
    let headers = [("A2A_ERRATA_TRACES__HEADERS", "x-api-key: planted")];
    let traced = traced(&host, &format!("http://{}", moved.address), &headers);
    assert!(traced.call("01").starts_with("HTTP/1.1 200"));
    eventually(
        || ask(traced.admin, "GET /metrics").contains(r#"span_batches_total{result="lost"}"#),
        || "not counted".into(),
    );
    assert_eq!(thief.connections(), 0);
}

#[test]
fn a_bad_collector_or_header_is_refused_without_repeating_a_secret() {
    for (key, value, says) in [
        ("A2A_ERRATA_TRACES__OTLP_URL", "collector:4318", "not the URL of a collector"),
        ("A2A_ERRATA_TRACES__HEADERS", "planted", "not a header"),
        ("A2A_ERRATA_TRACES__SAMPLE_PERCENT", "101", "from 0 to 100"),
    ] {
        let output = run(&["check", "--upstream", "127.0.0.1:9"], &[(key, value)]);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(says) && !errors.contains("planted"), "{errors}");
    }
}
