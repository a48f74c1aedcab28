//! Cards and requests of a host that its clients know by another URL (P-3): what is rewritten on the
//! wire, what passes, and what reaches the host.
// A test says what went wrong by panicking.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic
)]

mod support;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use a2a_errata::normalize::{Binding, Interface, Mode, Policy};
use a2a_errata::proxy::Settings;
use flate2::Compression;
use flate2::write::GzEncoder;
use support::*;

const PATH: &str = "/billing/.well-known/agent-card.json";

/// One host behind `https://agents.example/billing`.
fn billing(name: &str, host: &ScriptedHost) -> Settings {
    let mut settings = settings(&[host.address]);
    settings.hosts[0].name = name.into();
    settings.hosts[0].public_url = "https://agents.example/billing".into();
    settings
}

/// A card as a host of 1.0 writes it, oddly spaced, signed.
fn card(host: &str) -> String {
    format!(
        "{{ \"name\":\"x\",\"supportedInterfaces\": [{{\"url\":\"http://{host}/a2a\",\"protocolBinding\":\"JSONRPC\"}}],\n \"n\": 1.50e1,\"signatures\":[{{\"protected\":\"e30\"}}]}}"
    )
}

fn public_card() -> String {
    "{ \"name\":\"x\",\"supportedInterfaces\": [{\"url\":\"https://agents.example/billing/a2a\",\"protocolBinding\":\"JSONRPC\"}],\n \"n\": 1.50e1}".into()
}

/// A host that answers every request with its own card, or whatever is made of it.
fn host_with(answer: impl Fn(String) -> Vec<u8> + Send + Sync + 'static) -> ScriptedHost {
    ScriptedHost::start(move |visit| {
        while let Some(request) = visit.request() {
            // Which address it has, it knows from its own socket.
            let answer = answer(card(visit.own_address().as_str()));
            let _ = request;
            if !visit.send(&answer) {
                break;
            }
        }
    })
}

fn head_and(headers: &str, body: &[u8]) -> Vec<u8> {
    let mut answer =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{headers}\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    answer
}

fn request(method: &str, path: &str, headers: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: agents.example\r\n{headers}\r\n")
}

#[test]
fn a_card_is_told_the_public_url() {
    logged();
    let host = host_with(|card| {
        head_and(
            "Content-Type: application/json\r\nETag: \"h\"\r\nLast-Modified: x\r\nVary: A2A-Version\r\nCache-Control: max-age=60\r\nX-Own: 1\r\n",
            card.as_bytes(),
        )
    });
    let proxy = Proxy::start_with(billing("told", &host));
    let mut client = proxy.client();
    for path in [PATH, "/.well-known/agent-card.json", "/billing/.well-known/agent.json?x=y"] {
        client.send(request("GET", path, "Accept-Encoding: gzip\r\nRange: bytes=0-1\r\nX-Test: 1\r\n"));
        let answer = client.answer();
        answer.assert_passed(200, &public_card());
        assert_eq!(answer.all("content-length"), [public_card().len().to_string()]);
        assert_eq!(answer.header("vary"), Some("A2A-Version"));
        assert_eq!(answer.header("cache-control"), Some("max-age=60"));
        assert_eq!(answer.header("x-own"), Some("1"));
        assert_eq!(answer.header("last-modified"), None);
        assert_eq!(answer.header("transfer-encoding"), None);
        let tag = answer.header("etag").unwrap();
        assert!(tag.starts_with('"') && tag.len() == 34, "{tag}");
    }
    let asked = host.requests();
    let lines: Vec<_> = asked.iter().map(|request| request.first_line.as_str()).collect();
    assert_eq!(
        lines,
        [
            "GET /.well-known/agent-card.json HTTP/1.1",
            "GET /.well-known/agent-card.json HTTP/1.1",
            "GET /.well-known/agent.json?x=y HTTP/1.1"
        ]
    );
    for request in &asked {
        assert_eq!(request.all("accept-encoding"), ["identity"]);
        assert_eq!(request.header("range"), None);
        assert_eq!(request.header("x-test"), Some("1"));
        assert_eq!(request.header("host"), Some("agents.example"));
    }
    proxy.assert_counts("card_rewrites_total", "host=\"told\",result=\"rewritten\"", 3.0);
    proxy.assert_counts("card_signatures_dropped_total", "host=\"told\"", 3.0);
    proxy.assert_counts("rewrites_total", "interface=\"other\",rule=\"P-3\"", 3.0);
    proxy.assert_counts("held_bytes", "", 0.0);
    assert_eq!(assert_logged(&["told", "signatures"]), 1, "once is enough");
}

#[test]
fn conditions_are_answered_by_the_proxy() {
    let host = host_with(|card| head_and("ETag: \"h\"\r\nVary: A2A-Version\r\n", card.as_bytes()));
    let proxy = Proxy::start_with(billing("conditions", &host));
    let mut client = proxy.client();
    client.send(request("GET", PATH, ""));
    let tag = client.answer().header("etag").unwrap().to_owned();
    for (condition, status) in [
        (format!("If-None-Match: {tag}\r\n"), 304),
        (format!("If-None-Match: \"x\", W/{tag}\r\n"), 304),
        ("If-None-Match: *\r\n".to_owned(), 304),
        ("If-None-Match: \"h\"\r\n".to_owned(), 200),
        ("If-Modified-Since: Mon, 30 Nov 2026 20:00:00 GMT\r\n".to_owned(), 200),
    ] {
        client.send(request("GET", PATH, &condition));
        let answer = client.answer();
        assert_eq!(answer.status(), status, "{condition}: {answer:?}");
        assert_eq!(answer.header("etag"), Some(tag.as_str()));
        assert_eq!(answer.header("vary"), Some("A2A-Version"));
        if status == 304 {
            assert_eq!((answer.body.len(), answer.header("content-length")), (0, None));
        } else {
            answer.assert_passed(200, &public_card());
        }
    }
    let conditional = host
        .requests()
        .iter()
        .filter(|r| r.headers.iter().any(|(n, _)| n.to_ascii_lowercase().starts_with("if-")))
        .count();
    assert_eq!(conditional, 0, "the host has other bytes under its tags");
}

#[test]
fn a_head_tells_nothing_of_the_hosts_bytes() {
    let host = ScriptedHost::saying(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\nETag: \"h\"\r\n\r\n",
    );
    let proxy = Proxy::start_with(billing("head", &host));
    let mut client = proxy.client();
    for _ in 0..2 {
        client.send(request("HEAD", PATH, ""));
        let answer = client.answer_to("HEAD");
        assert_eq!(
            (answer.status(), answer.header("etag"), answer.header("content-length")),
            (200, None, None)
        );
    }
}

#[test]
fn codings_chunks_and_boms_are_undone() {
    fn gzip(card: &str) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(card.as_bytes()).unwrap();
        gzip.finish().unwrap()
    }
    type Make = fn(String) -> Vec<u8>;
    for (name, make) in [
        ("gzip", (|card| head_and("Content-Encoding: gzip\r\n", &gzip(&card))) as Make),
        ("chunked", |card| chunked(200, &card, 5).into_bytes()),
        ("bom", |card| head_and("", format!("\u{feff}{card}").as_bytes())),
        ("until-close", |card| format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{card}").into_bytes()),
    ] {
        let host = ScriptedHost::start(move |visit| {
            if visit.request().is_some() {
                let answer = make(card(&visit.own_address()));
                visit.send(&answer);
            }
        });
        let proxy = Proxy::start_with(billing(name, &host));
        let answer = proxy.ask(request("GET", PATH, ""));
        answer.assert_passed(200, &public_card());
        assert_eq!(answer.header("content-encoding"), None, "{name}");
        assert_eq!(answer.header("content-length"), Some(public_card().len().to_string().as_str()), "{name}");
    }
}

#[test]
fn what_is_no_card_passes() {
    logged();
    let foreign = r#"{"url":"https://elsewhere.example/a2a","signatures":[{}]}"#;
    for (name, status, body, result) in [
        ("html", 200, "<html>", Some("unreadable")),
        ("not-json", 200, "{\"url\":", Some("unreadable")),
        ("foreign", 200, foreign, Some("unchanged")),
        ("missing", 404, "{\"url\":\"/a2a\"}", None),
        ("refused", 401, "{\"url\":\"/a2a\"}", None),
    ] {
        let host = ScriptedHost::saying(sized(status, body).replace("\r\n\r\n", "\r\nETag: \"h\"\r\n\r\n"));
        let proxy = Proxy::start_with(billing(name, &host));
        let mut client = proxy.client();
        for _ in 0..2 {
            client.send(request("GET", PATH, ""));
            let answer = client.answer();
            answer.assert_passed(status, body);
            assert_eq!(answer.header("etag"), Some("\"h\""));
        }
        if let Some(result) = result {
            proxy.assert_counts("card_rewrites_total", &format!("result=\"{result}\""), 2.0);
        } else {
            proxy.assert_counts("card_rewrites_total", "", 0.0);
        }
        proxy.assert_counts("card_signatures_dropped_total", "", 0.0);
    }
    assert_eq!(assert_logged(&["not-json", "keeps its URLs"]), 1);
}

#[test]
fn a_card_over_max_bytes_passes_as_it_is() {
    logged();
    let long = format!(r#"{{"url":"/a2a","x":"{}"}}"#, "a".repeat(100_000));
    for (name, answer) in [("sized-large", sized(200, &long)), ("chunked-large", chunked(200, &long, 3000))] {
        let host = ScriptedHost::saying(answer);
        let mut settings = billing(name, &host);
        settings.hosts[0].card.max_bytes = 10_000;
        let proxy = Proxy::start_with(settings);
        let mut client = proxy.client();
        for _ in 0..2 {
            client.send(request("GET", PATH, ""));
            client.answer().assert_passed(200, &long);
        }
        proxy.assert_counts("card_rewrites_total", "result=\"too_large\"", 2.0);
        proxy.assert_counts("held_bytes", "", 0.0);
        assert_eq!(assert_logged(&[name, "card.max_bytes"]), 1);
    }
}

/// C-5, P-1: no interface, so the proxy's own answers are text; a card is never cut off.
#[test]
fn a_host_that_breaks_off_in_its_card_is_a_bad_gateway() {
    let host = ScriptedHost::saying_once("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"url\":");
    let proxy = Proxy::start_with(billing("breaks", &host));
    let mut client = proxy.client();
    for _ in 0..2 {
        client.send(request("GET", PATH, ""));
        let answer = client.answer();
        answer.assert_passed(502, "Bad Gateway");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    }
    let mut nobody = settings(&[format!("127.0.0.1:{}", free_port()).parse().unwrap()]);
    nobody.hosts[0].public_url = "https://agents.example".into();
    Proxy::start_with(nobody)
        .ask(request("GET", "/.well-known/agent.json", ""))
        .assert_passed(502, "Bad Gateway");
}

/// I-5: nothing is touched, the conditions included; everything is counted.
#[test]
fn an_observed_hosts_card_passes_and_is_counted() {
    let host = host_with(|card| head_and("ETag: \"h\"\r\n", card.as_bytes()));
    let mut settings = billing("observed", &host);
    settings.hosts[0].policy = Arc::new(Policy { mode: Mode::Observe, ..Policy::default() });
    let proxy = Proxy::start_with(settings);
    let answer = proxy.ask(request("GET", PATH, "If-None-Match: \"x\"\r\nAccept-Encoding: br\r\n"));
    answer.assert_passed(200, &card(&host.address.to_string()));
    assert_eq!(answer.header("etag"), Some("\"h\""));
    let asked = &host.requests()[0];
    assert_eq!((asked.header("if-none-match"), asked.header("accept-encoding")), (Some("\"x\""), Some("br")));
    proxy.assert_counts("card_rewrites_total", "result=\"rewritten\"", 1.0);
}

/// A request below the public path is for the interface that the rest of its path names.
#[test]
fn calls_below_the_public_path_are_repaired() {
    let host = ScriptedHost::saying(sized(200, ERROR));
    let proxy = Proxy::start_with(billing("calls", &host));
    let mut client = proxy.client();
    for path in ["/billing/a2a", "/billing/a2a/", "/a2a", "/billing/%61%32a"] {
        client.send(post(path, CALL));
        client.answer().assert_fault(200, "7");
    }
    client.send(get("/billing/rest/tasks/t-1?x=/billing"));
    assert_eq!(client.answer().status(), 400);
    for path in ["/billings/a2a", "/billing/x", "/Billing/a2a"] {
        client.send(post(path, CALL));
        client.answer().assert_passed(200, ERROR);
    }
    let asked = host.requests();
    let targets: Vec<_> = asked.iter().map(|r| r.first_line.split(' ').nth(1).unwrap()).collect();
    assert_eq!(
        targets,
        [
            "/a2a",
            "/a2a/",
            "/a2a",
            "/%61%32a",
            "/rest/tasks/t-1?x=/billing",
            "/billings/a2a",
            "/x",
            "/Billing/a2a"
        ]
    );
    assert!(asked.iter().filter(|request| request.first_line.contains("a2a")).all(|r| r.text() == CALL));
}

/// The card that a call gets has the same URLs, in both bindings.
#[test]
fn extended_cards_are_told_the_public_url() {
    let host = ScriptedHost::start(|visit| {
        while let Some(request) = visit.request() {
            let card = card(&visit.own_address());
            let is_call = request.first_line.starts_with("POST");
            let card = if is_call { format!(r#"{{"jsonrpc":"2.0","id":7,"result":{card}}}"#) } else { card };
            visit.send(chunked(200, &card, 20).replace("\r\n\r\n{", "\r\nETag: \"h\"\r\n\r\n{"));
        }
    });
    let proxy = Proxy::start_with(billing("extended", &host));
    let mut client = proxy.client();
    let call = CALL.replace("SendMessage", "GetExtendedAgentCard");
    for _ in 0..2 {
        client.send(post("/billing/a2a", &call));
        let answer = client.answer();
        answer.assert_passed(200, &format!(r#"{{"jsonrpc":"2.0","id":7,"result":{}}}"#, public_card()));
        assert_eq!(answer.header("content-length"), Some(answer.body.len().to_string().as_str()));
        assert_eq!((answer.header("etag"), answer.header("transfer-encoding")), (None, None));
        client.send(get("/billing/rest/extendedAgentCard"));
        client.answer().assert_passed(200, &public_card());
        // The same bytes in the answer to another call are no card.
        client.send(post("/billing/a2a", CALL));
        assert!(client.answer().text().contains("\"signatures\""));
    }
    proxy.assert_counts("card_rewrites_total", "host=\"extended\",result=\"rewritten\"", 4.0);
    proxy.assert_counts("rewrites_total", "interface=\"/a2a\",rule=\"P-3\"", 2.0);
    proxy.assert_counts("held_bytes", "", 0.0);
}

/// The root of the host is the public path itself, with or without a slash.
#[test]
fn an_interface_at_the_root_is_at_the_public_path() {
    let host = ScriptedHost::saying(sized(200, ERROR));
    let mut settings = billing("root", &host);
    let root = Interface { path: String::new(), binding: Binding::JsonRpc, versions: vec!["1.0".into()] };
    settings.hosts[0].interfaces = vec![root.into()];
    let proxy = Proxy::start_with(settings);
    let mut client = proxy.client();
    for path in ["/billing", "/billing/", "/billing?x", "/"] {
        client.send(post(path, CALL));
        client.answer().assert_fault(200, "7");
    }
    let targets: Vec<_> = host.requests().iter().map(|r| r.first_line.clone()).collect();
    assert_eq!(targets, ["POST / HTTP/1.1", "POST / HTTP/1.1", "POST /?x HTTP/1.1", "POST / HTTP/1.1"]);
}

#[test]
fn off_by_default() {
    let host = host_with(|card| head_and("ETag: \"h\"\r\n", card.as_bytes()));
    let proxy = Proxy::start_with(settings(&[host.address]));
    let answer = proxy.ask(request("GET", "/.well-known/agent-card.json", "If-None-Match: \"x\"\r\n"));
    answer.assert_passed(200, &card(&host.address.to_string()));
    proxy.ask(request("GET", "/billing/x", ""));
    assert_eq!(host.requests()[0].header("if-none-match"), Some("\"x\""));
    assert_eq!(host.requests()[1].first_line, "GET /billing/x HTTP/1.1");
    proxy.assert_counts("card_rewrites_total", "", 0.0);
}

/// I-1 and P-3 together: what is learned from a card that knows its public URL matches what comes.
#[test]
fn a_card_that_is_public_already_is_learned_as_the_host_sees_it() {
    let host = ScriptedHost::start(|visit| {
        while let Some(request) = visit.request() {
            let url = "https://agents.example/billing/main";
            let card = format!(
                r#"{{"supportedInterfaces":[{{"url":"{url}","protocolBinding":"JSONRPC","protocolVersion":"1.0"}}]}}"#
            );
            let is_card = request.first_line.contains("agent-card");
            visit.send(if is_card { sized(200, &card) } else { sized(200, ERROR) });
        }
    });
    let mut settings = billing("knows", &host);
    settings.hosts[0].interfaces.clear();
    settings.hosts[0].authorities = vec!["billing.internal".into(), "agents.example".into()];
    let proxy = Proxy::learning(settings);
    proxy.assert_ready();
    let call = post("/billing/main", CALL).replace("Host: h", "Host: agents.example");
    proxy.ask(call).assert_fault(200, "7");
    let answer = proxy.ask(request("GET", PATH, ""));
    assert_eq!(answer.json()["supportedInterfaces"][0]["url"], "https://agents.example/billing/main");
    proxy.assert_counts("card_rewrites_total", "result=\"unchanged\"", 1.0);
}

/// A pooled connection that the host has closed meanwhile: asked again, answered once (P-2).
#[test]
fn a_card_is_asked_for_again_on_a_stale_connection() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let host = ScriptedHost::start(move |visit| {
        if visit.request().is_some() {
            count.fetch_add(1, Ordering::SeqCst);
            let answer = head_and("", card(&visit.own_address()).as_bytes());
            visit.send(&answer);
            // Takes the next request of a pooled connection and hangs up on it.
            visit.request();
        }
    });
    let proxy = Proxy::start_with(billing("stale", &host));
    let mut client = proxy.client();
    for _ in 0..2 {
        client.send(request("GET", PATH, ""));
        client.answer().assert_passed(200, &public_card());
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert_eq!(host.requests().len(), 3);
}
