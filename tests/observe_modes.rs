//! Observed and enforced side by side, and what the metrics and the report make of it (I-5, U-4).
// A test says what went wrong by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::sync::Arc;

use a2a_errata::normalize::{Binding, Mode, Oracle, Policy};
use a2a_errata::observe::report;
use a2a_errata::proxy::InterfaceMode;
use support::*;

fn host() -> ScriptedHost {
    ScriptedHost::saying(sized(200, ERROR))
}

fn own(path: &str, binding: Binding, mode: Mode) -> InterfaceMode {
    InterfaceMode { path: path.into(), binding, mode }
}

/// One interface is enforced while the host is observed, and the other way round; floors are for what is
/// enforced only.
#[test]
fn i5_an_interface_may_have_a_mode_of_its_own() {
    for host_mode in [Mode::Enforce, Mode::Observe] {
        let other = if host_mode == Mode::Enforce { Mode::Observe } else { Mode::Enforce };
        let host = host();
        let mut settings = settings(&[host.address]);
        settings.hosts[0].policy = Arc::new(Policy { mode: host_mode, ..Policy::default() });
        settings.hosts[0].modes = vec![own("/rest", Binding::HttpJson, other)];
        let proxy = Proxy::start_with(settings);
        let rpc = proxy.ask(post("/a2a", CALL));
        let rest = proxy.ask(post("/rest/message:send", "{}"));
        let (enforced, observed) = if host_mode == Mode::Enforce { (rpc, rest) } else { (rest, rpc) };
        assert!(!enforced.text().contains("acme"), "{enforced:?}");
        observed.assert_passed(200, ERROR);
        let (observed_path, enforced_path) =
            if host_mode == Mode::Enforce { ("/rest", "/a2a") } else { ("/a2a", "/rest") };
        for (path, mode) in [(observed_path, "observe"), (enforced_path, "enforce")] {
            proxy.assert_counts("mode_info", &format!(r#"interface="{path}",mode="{mode}""#), 1.0);
            proxy.assert_counts("repairs_total", &format!(r#"interface="{path}""#), 1.0);
        }
        let report = report::make(&proxy.metrics, &proxy.readiness, 14);
        for interface in &report.hosts[0].interfaces {
            let observed = interface.interface == observed_path
                || interface.interface == "other" && host_mode == Mode::Observe;
            assert_eq!(interface.mode == "observe", observed, "{interface:?}");
        }
    }
}

/// What is observed is not touched, in time either, whatever the host's mode is.
#[test]
fn i5_an_observed_interface_has_no_floor() {
    let host = ScriptedHost::saying(sized(200, NOT_FOUND));
    let mut settings = settings(&[host.address]);
    let oracle = Oracle { floor_ms: 60_000, ..Oracle::default() };
    settings.hosts[0].policy = Arc::new(Policy { oracle, ..Policy::default() });
    settings.hosts[0].modes = vec![own("/a2a", Binding::JsonRpc, Mode::Observe)];
    // With the floor, this would take a minute, and the client's patience is shorter.
    Proxy::start_with(settings).ask(post("/a2a", GET_TASK)).assert_passed(200, NOT_FOUND);
}

/// The same path with another binding has the host's mode.
#[test]
fn i5_a_mode_is_for_one_binding() {
    let host = host();
    let mut settings = settings(&[host.address]);
    settings.hosts[0].modes = vec![own("/a2a", Binding::HttpJson, Mode::Observe)];
    Proxy::start_with(settings).ask(post("/a2a", CALL)).assert_fault(200, "7");
}

#[test]
fn u4_what_the_hosts_side_did_wrong_is_counted() {
    let nobody = std::net::SocketAddr::from(([127, 0, 0, 1], free_port()));
    let proxy = Proxy::start_with(settings(&[nobody]));
    proxy.ask(post("/a2a", CALL)).assert_fault(502, "7");
    proxy.assert_counts("upstream_failures_total", r#"kind="connect""#, 1.0);

    let hangs_up = ScriptedHost::start(|visit| {
        visit.request();
    });
    let proxy = Proxy::start(&hangs_up);
    proxy.ask(post("/a2a", CALL)).assert_fault(502, "7");
    proxy.assert_counts("upstream_failures_total", r#"kind="closed""#, 1.0);

    let babbles = ScriptedHost::saying_once("no HTTP at all\r\n\r\n");
    let proxy = Proxy::start(&babbles);
    proxy.ask(post("/a2a", CALL)).assert_fault(502, "7");
    proxy.assert_counts("upstream_failures_total", r#"kind="protocol""#, 1.0);

    let report = report::make(&proxy.metrics, &proxy.readiness, 14);
    let interface = report.hosts[0].interfaces.iter().find(|i| i.interface == "/a2a").unwrap();
    assert_eq!(interface.upstream_failures["protocol"], 1);
    assert_eq!(interface.count("synthesized"), 1);
    assert_eq!(interface.last_repair, None, "a host that is gone is no host that words errors wrong");
}

/// Trace context is the client's and the host's affair; neither side's is touched, on a repaired answer
/// either (Q-4, D-3).
#[test]
fn trace_context_passes_untouched() {
    let answer = "HTTP/1.1 200 X\r\nContent-Type: application/json\r\ntraceresponse: 00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01\r\nContent-Length: ";
    let host = ScriptedHost::saying(format!("{answer}{}\r\n\r\n{ERROR}", ERROR.len()));
    let proxy = Proxy::start(&host);
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers =
        format!("traceparent: {parent}\r\ntracestate: a=1,b@c=2\r\ntracestate: d=3\r\nbaggage: k=v;p\r\n");
    let request = post("/a2a", CALL).replacen("\r\n", &format!("\r\n{headers}"), 1);
    let seen = proxy.ask(request);
    seen.assert_fault(200, "7");
    assert_eq!(seen.header("traceresponse"), Some("00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"));
    let asked = &host.requests()[0];
    assert_eq!(asked.header("traceparent"), Some(parent));
    assert_eq!(asked.all("tracestate"), ["a=1,b@c=2", "d=3"]);
    assert_eq!(asked.header("baggage"), Some("k=v;p"));
}
