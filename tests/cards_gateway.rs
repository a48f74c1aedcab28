//! Several hosts behind one listener, told apart by `Host` or `:authority` (I-1): each has its own card,
//! its own interfaces, and nothing of another's.
// A test says what went wrong by panicking.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic
)]

mod support;

use std::time::Duration;

use a2a_errata::normalize::{Binding, Interface};
use a2a_errata::proxy::Settings;
use bytes::Bytes;
use support::*;

/// Says its name to a GET, an error that needs repair to a POST, and has a card.
fn host(name: &'static str, card: String) -> ScriptedHost {
    ScriptedHost::start(move |visit| {
        while let Some(request) = visit.request() {
            let answer = if request.first_line.contains("agent-card") {
                sized(200, &card)
            } else if request.first_line.contains(".well-known") {
                sized(404, "")
            } else if request.first_line.starts_with("GET") {
                sized(200, name)
            } else {
                sized(200, ERROR)
            };
            if !visit.send(answer) {
                break;
            }
        }
    })
}

fn card(name: &str, urls: &[&str]) -> String {
    let interfaces: Vec<_> = urls
        .iter()
        .map(|url| serde_json::json!({"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}))
        .collect();
    serde_json::json!({"name": name, "supportedInterfaces": interfaces}).to_string()
}

/// Hosts with these authorities and one JSON-RPC interface each, or none that is known.
fn gateway(hosts: &[(&str, &ScriptedHost, &[&str], Option<&str>)]) -> Settings {
    let mut all = settings(&[]);
    let template = all.hosts.remove(0);
    for (name, host, authorities, path) in hosts {
        let mut one = template.clone();
        one.name = (*name).into();
        one.upstreams = settings(&[host.address]).hosts.remove(0).upstreams;
        one.authorities = authorities.iter().map(ToString::to_string).collect();
        let interface = |path: &str| {
            Interface { path: path.into(), binding: Binding::JsonRpc, versions: vec!["1.0".into()] }.into()
        };
        one.interfaces = path.iter().map(|path| interface(path)).collect();
        one.card.refresh = Duration::from_millis(30);
        all.hosts.push(one);
    }
    all
}

fn ask(proxy: &Proxy, authority: &str, request: &str) -> Answer {
    proxy.ask(request.replace("Host: h\r\n", &format!("Host: {authority}\r\n")))
}

/// One request over prior-knowledge HTTP/2: status and body.
fn ask_h2(proxy: &Proxy, authority: &str, method: &str, path: &str, body: &'static str) -> (u16, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let address = proxy.address;
    let request = http::Request::builder()
        .method(method)
        .uri(format!("http://{authority}{path}"))
        .header("a2a-version", "1.0")
        .body(())
        .unwrap();
    let exchange = async move {
        let socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let (send, connection) = h2::client::handshake(socket).await.unwrap();
        tokio::spawn(connection);
        let mut send = send.ready().await.unwrap();
        let (answer, mut stream) = send.send_request(request, body.is_empty()).unwrap();
        if !body.is_empty() {
            stream.send_data(Bytes::from_static(body.as_bytes()), true).unwrap();
        }
        let (head, mut pieces) = answer.await.unwrap().into_parts();
        let mut body = Vec::new();
        while let Some(piece) = pieces.data().await {
            body.extend_from_slice(&piece.unwrap());
        }
        (head.status.as_u16(), String::from_utf8(body).unwrap())
    };
    runtime.block_on(async { tokio::time::timeout(PATIENCE, exchange).await.unwrap() })
}

#[test]
fn requests_go_where_their_authority_says() {
    let (a, b, rest) = (host("a", String::new()), host("b", String::new()), host("rest", String::new()));
    let proxy = Proxy::start_with(gateway(&[
        ("a", &a, &["a.example", "[::1]"], Some("/a")),
        ("b", &b, &["b.example:8443", "B2.example"], Some("/b")),
        ("rest", &rest, &[], Some("/r")),
    ]));
    for (authority, name) in [
        ("a.example", "a"),
        ("A.EXAMPLE", "a"),
        ("a.example:80", "a"),
        ("a.example:65535", "a"),
        ("[::1]:8080", "a"),
        ("b.example:8443", "b"),
        ("b2.example:1", "b"),
        // Listed with a port, so only that one.
        ("b.example", "rest"),
        ("b.example:8444", "rest"),
        ("c.example", "rest"),
        ("a.example.evil.example", "rest"),
        ("evil-a.example", "rest"),
    ] {
        ask(&proxy, authority, &get("/docs")).assert_passed(200, name);
        assert_eq!(ask_h2(&proxy, authority, "GET", "/docs", ""), (200, name.into()), "{authority}");
    }
    // The host sees what the client addressed.
    let seen: Vec<_> = a.requests().iter().map(|r| r.header("host").unwrap().to_owned()).collect();
    assert_eq!(seen.iter().filter(|host| *host == "a.example:65535").count(), 2, "{seen:?}");
    proxy.ask("GET /docs HTTP/1.0\r\n\r\n").assert_passed(200, "rest");
}

/// One connection may carry requests for several hosts.
#[test]
fn each_request_of_a_connection_is_routed_by_itself() {
    let (a, b) = (host("a", String::new()), host("b", String::new()));
    let proxy = Proxy::start_with(gateway(&[
        ("a", &a, &["a.example"], Some("/a")),
        ("b", &b, &["b.example"], Some("/b")),
    ]));
    let mut client = proxy.client();
    for name in ["a", "b", "a", "b"] {
        client.send(get("/docs").replace("Host: h", &format!("Host: {name}.example")));
        client.answer().assert_passed(200, name);
    }
}

#[test]
fn an_authority_of_no_host_is_misdirected() {
    let a = host("a", String::new());
    let proxy = Proxy::start_with(gateway(&[("a", &a, &["a.example"], Some("/a"))]));
    let mut client = proxy.client();
    for request in [get("/docs"), post("/a", CALL), post("/a", GET_TASK)] {
        client.send(request);
        let answer = client.answer();
        answer.assert_passed(421, "Misdirected Request");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    }
    client.send(get("/docs").replace("Host: h", "Host: a.example"));
    client.answer().assert_passed(200, "a");
    assert_eq!(ask_h2(&proxy, "h", "POST", "/a", CALL), (421, "Misdirected Request".into()));
    assert_eq!(proxy.ask("GET /docs HTTP/1.0\r\n\r\n").status(), 421);
    assert_eq!(a.requests().len(), 1, "nothing else came through");
}

/// A target and a `Host` that disagree reach no host: who is addressed must not depend on the reader.
#[test]
fn contradicting_authorities_are_refused() {
    let (a, b) = (host("a", String::new()), host("b", String::new()));
    let proxy = Proxy::start_with(gateway(&[
        ("a", &a, &["a.example"], Some("/a")),
        ("b", &b, &["b.example"], Some("/b")),
    ]));
    for head in [
        "GET http://a.example/docs HTTP/1.1\r\nHost: b.example\r\n\r\n",
        "GET /docs HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n",
        "GET /docs HTTP/1.1\r\nHost: a.example, b.example\r\n\r\n",
    ] {
        let answer = proxy.ask(head);
        assert!(matches!(answer.status(), 400 | 421), "{head}: {answer:?}");
    }
    assert!(a.requests().is_empty() && b.requests().is_empty());
    let answer = proxy.ask("GET http://a.example/docs HTTP/1.1\r\nHost: a.example\r\n\r\n");
    answer.assert_passed(200, "a");
}

#[test]
fn interfaces_are_one_hosts_own() {
    let (a, b) = (host("a", String::new()), host("b", String::new()));
    let proxy = Proxy::start_with(gateway(&[
        ("a", &a, &["a.example"], Some("/a")),
        ("b", &b, &["b.example"], Some("/b")),
    ]));
    for (authority, path, repaired) in [
        ("a.example", "/a", true),
        ("a.example", "/b", false),
        ("b.example", "/b", true),
        ("b.example", "/a", false),
    ] {
        let answer = ask(&proxy, authority, &post(path, CALL));
        let (status, body) = ask_h2(&proxy, authority, "POST", path, CALL);
        assert_eq!(status, 200);
        if repaired {
            answer.assert_fault(200, "7");
            assert!(body.contains("UNSUPPORTED_OPERATION") && !body.contains("acme"), "{body}");
        } else {
            answer.assert_passed(200, ERROR);
            assert_eq!(body, ERROR);
        }
    }
    for host in ["a", "b"] {
        let labels = format!("host=\"{host}\",interface=\"/{host}\",outcome=\"rewritten\"");
        proxy.assert_counts("responses_total", &labels, 2.0);
        proxy.assert_counts("responses_total", &format!("host=\"{host}\",interface=\"other\""), 2.0);
    }
}

/// Each card passes as its host wrote it, and only the one with a public URL is rewritten (P-3).
#[test]
fn cards_are_each_hosts_own() {
    let card_a = card("a", &["http://a.internal/a", "http://b.internal/a"]);
    let card_b = card("b", &["http://b.internal/b"]);
    let (a, b) = (host("a", card_a), host("b", card_b.clone()));
    let mut settings = gateway(&[
        ("a", &a, &["a.example", "a.internal"], Some("/a")),
        ("b", &b, &["b.example", "b.internal"], Some("/b")),
    ]);
    settings.hosts[0].public_url = "https://a.example/billing".into();
    let proxy = Proxy::start_with(settings);
    let path = "/.well-known/agent-card.json";
    let public_a = card("a", &["https://a.example/billing/a", "http://b.internal/a"]);
    for path in [path, "/billing/.well-known/agent-card.json"] {
        ask(&proxy, "a.example", &get(path)).assert_passed(200, &public_a);
        assert_eq!(ask_h2(&proxy, "a.example:443", "GET", path, ""), (200, public_a.clone()));
    }
    ask(&proxy, "b.example", &get(path)).assert_passed(200, &card_b);
    ask(&proxy, "a.example", &post("/billing/a", CALL)).assert_fault(200, "7");
    let (status, body) = ask_h2(&proxy, "a.example", "POST", "/billing/a", CALL);
    assert!(status == 200 && body.contains("UNSUPPORTED_OPERATION"), "{body}");
    // The public path is the one host's only.
    ask(&proxy, "b.example", &post("/billing/b", CALL)).assert_passed(200, ERROR);
    let seen: Vec<_> = b.requests().iter().map(|request| request.first_line.clone()).collect();
    assert_eq!(seen, ["GET /.well-known/agent-card.json HTTP/1.1", "POST /billing/b HTTP/1.1"]);
    let seen = a.requests();
    assert!(seen.iter().all(|request| !request.first_line.contains("billing")), "{seen:?}");
    proxy.assert_counts("card_rewrites_total", "host=\"a\",result=\"rewritten\"", 4.0);
    proxy.assert_counts("card_rewrites_total", "host=\"b\"", 0.0);
}

/// One public authority for several hosts: each has its own path below it (P-3).
#[test]
fn hosts_may_share_a_public_authority() {
    let (a, b) = (host("a", card("a", &["http://a.internal/a"])), host("b", card("b", &["/b"])));
    let mut settings =
        gateway(&[("a", &a, &["a.internal"], Some("/a")), ("b", &b, &["b.internal"], Some("/b"))]);
    settings.hosts[0].public_url = "https://agents.example/billing".into();
    settings.hosts[1].public_url = "https://agents.example/support/".into();
    let proxy = Proxy::start_with(settings);
    for (path, card) in [
        ("/billing", card("a", &["https://agents.example/billing/a"])),
        ("/support", card("b", &["https://agents.example/support/b"])),
    ] {
        let path = format!("{path}/.well-known/agent-card.json");
        ask(&proxy, "agents.example", &get(&path)).assert_passed(200, &card);
        assert_eq!(ask_h2(&proxy, "AGENTS.example", "GET", &path, ""), (200, card));
    }
    for (path, repaired) in
        [("/billing/a", true), ("/support/b", true), ("/billing/b", false), ("/support/a", false)]
    {
        let answer = ask(&proxy, "agents.example", &post(path, CALL));
        assert_eq!(answer.text() != ERROR, repaired, "{path}: {answer:?}");
    }
    ask(&proxy, "agents.example", &get("/billing")).assert_passed(200, "a");
    ask(&proxy, "agents.example", &get("/support?x")).assert_passed(200, "b");
    for path in ["/", "/a", "/supports", "/.well-known/agent-card.json"] {
        ask(&proxy, "agents.example", &get(path)).assert_passed(421, "Misdirected Request");
    }
    // By their own names they are reached without it.
    ask(&proxy, "b.internal", &post("/b", CALL)).assert_fault(200, "7");
    assert!(b.requests().iter().all(|request| !request.first_line.contains("support")));
}

/// Cards are asked for under the host's first authority; what a card lists on another host's authority
/// does not count, on this one's neither.
#[test]
fn interfaces_are_learned_from_each_hosts_card() {
    let (a, b) = (
        host("a", card("a", &["https://a.example/main", "https://b.example/stolen", "/own"])),
        host("b", card("b", &["https://b.example:8443/main2", "https://a.example/stolen"])),
    );
    let proxy = Proxy::learning(gateway(&[("a", &a, &["a.example"], None), ("b", &b, &["B.example"], None)]));
    proxy.assert_ready();
    for (authority, path, repaired) in [
        ("a.example", "/main", true),
        ("a.example", "/own", true),
        ("a.example", "/stolen", false),
        ("a.example", "/main2", false),
        ("b.example", "/main2", true),
        ("b.example", "/main", false),
        ("b.example", "/stolen", false),
    ] {
        let answer = ask(&proxy, authority, &post(path, CALL));
        assert_eq!(answer.text() != ERROR, repaired, "{authority}{path}: {answer:?}");
    }
    assert_eq!(a.requests()[0].header("host"), Some("a.example"));
    assert_eq!(b.requests()[0].header("host"), Some("b.example"));
}

/// One host without a card leaves the others alone: it is guarded and unready, they are not.
#[test]
fn one_host_may_be_unready() {
    let (a, b) = (host("a", card("a", &["/main"])), host("b", "no card".into()));
    let proxy = Proxy::learning(gateway(&[("a", &a, &["a.example"], None), ("b", &b, &["b.example"], None)]));
    eventually(|| proxy.readiness.waiting() == ["b"], || format!("{:?}", proxy.readiness.waiting()));
    proxy.await_more("card_reads_total", "host=\"b\",result=\"unusable\"", 1.0);
    ask(&proxy, "a.example", &post("/main", CALL)).assert_fault(200, "7");
    ask(&proxy, "a.example", &post("/other", CALL)).assert_passed(200, ERROR);
    ask(&proxy, "b.example", &post("/other", CALL)).assert_fault(200, "7");
    assert_eq!(proxy.readiness.waiting(), ["b"]);
}
