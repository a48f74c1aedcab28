//! How answers are framed for the client, and what happens to the connections on both sides (C-4,
//! I-4, Q-4).
// A test says what went wrong by panicking.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic
)]

mod support;

use std::thread;
use std::time::Duration;

use support::*;

#[test]
fn the_client_keeps_its_connection_after_rewritten_and_passed_answers() {
    let host = ScriptedHost::start(|visit| {
        for answer in [sized(200, ERROR), sized(200, SUCCESS), chunked(200, ERROR, 10), sized(200, SUCCESS)] {
            visit.request();
            visit.send(answer);
        }
        visit.request();
    });
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    for rewritten in [true, false, true, false] {
        client.send(post("/a2a", CALL));
        let answer = client.answer();
        assert_eq!(answer.header("connection"), Some("keep-alive"));
        if rewritten {
            answer.assert_fault(200, "7");
        } else {
            answer.assert_passed(200, SUCCESS);
        }
    }
    assert_eq!(host.connections(), 1, "and so does the proxy towards the host");
    assert_eq!(host.requests().len(), 4);
}

#[test]
fn an_answer_is_the_same_wherever_the_hosts_bytes_are_split() {
    for body in [ERROR, SUCCESS] {
        let whole = sized(200, body);
        let script = whole.clone();
        let host = ScriptedHost::start(move |visit| {
            for at in 1..script.len() {
                if visit.request().is_none() {
                    return;
                }
                visit.send(&script[..at]);
                thread::sleep(Duration::from_millis(2));
                visit.send(&script[at..]);
            }
            visit.request();
        });
        let proxy = Proxy::start(&host);
        let mut client = proxy.client();
        let mut first: Option<Answer> = None;
        for at in 1..whole.len() {
            client.send(post("/a2a", CALL));
            let mut answer = client.answer();
            answer.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("date"));
            assert!(answer.complete, "{at}: {answer:?}");
            let first = first.get_or_insert_with(|| answer.clone());
            assert_eq!(answer.body, first.body, "{at}");
            assert_eq!(answer.headers, first.headers, "{at}");
        }
        let unsplit = ScriptedHost::saying(whole);
        let unsplit = Proxy::start(&unsplit).ask(post("/a2a", CALL));
        let first = first.unwrap();
        assert_eq!(first.text(), unsplit.text());
        if body == ERROR {
            unsplit.assert_fault(200, "7");
        } else {
            unsplit.assert_passed(200, SUCCESS);
        }
    }
}

#[test]
fn chunked_and_close_delimited_hosts_are_rewritten_alike() {
    let close = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{ERROR}");
    let http_1_0 = format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{ERROR}");
    for answer in [sized(200, ERROR), chunked(200, ERROR, 7), chunked(200, ERROR, 1), close, http_1_0] {
        let host = ScriptedHost::saying_once(answer);
        Proxy::start(&host).ask(post("/a2a", CALL)).assert_fault(200, "7");
    }
}

#[test]
fn chunked_and_close_delimited_successes_pass() {
    let close = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{SUCCESS}");
    for answer in [chunked(200, SUCCESS, 7), close] {
        let host = ScriptedHost::saying_once(answer);
        let answer = Proxy::start(&host).ask(post("/a2a", CALL));
        answer.assert_passed(200, SUCCESS);
        assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
    }
    let host = ScriptedHost::saying(chunked(200, &long_success(), 5000));
    Proxy::start(&host).ask(post("/a2a", CALL)).assert_passed(200, &long_success());
}

#[test]
fn a_stale_length_never_cuts_a_rewritten_body() {
    let short = r#"{"error":1}"#;
    let host = ScriptedHost::saying(format!(
        "HTTP/1.1 500 X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nETag: \"1\"\r\nContent-MD5: x\r\n\r\n{short}",
        short.len()
    ));
    let proxy = Proxy::start(&host);
    let answer = proxy.ask(post("/a2a", CALL));
    assert!(answer.body.len() > short.len(), "{answer:?}");
    assert!(answer.complete && answer.json()["error"].is_object(), "{answer:?}");
    assert_eq!(answer.header("etag"), None);
}

#[test]
fn an_error_without_a_body_is_a_head_that_ends() {
    let host = ScriptedHost::saying("HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n");
    let answer = Proxy::start(&host).ask(post("/a2a", CALL));
    assert!(answer.complete && answer.json()["error"].is_object(), "{answer:?}");
}

#[test]
fn an_http_1_0_client_gets_no_chunks() {
    let request = format!(
        "POST /a2a HTTP/1.0\r\nHost: h\r\nA2A-Version: 1.0\r\nContent-Length: {}\r\n\r\n{CALL}",
        CALL.len()
    );
    for (answer, expected) in [
        (chunked(200, SUCCESS, 9), SUCCESS.to_owned()),
        (chunked(200, &long_success(), 9000), long_success()),
        (sized(200, SUCCESS), SUCCESS.to_owned()),
    ] {
        let host = ScriptedHost::saying(answer);
        let answer = Proxy::start(&host).ask(&request);
        assert_eq!(answer.header("transfer-encoding"), None);
        answer.assert_passed(200, &expected);
    }
    let host = ScriptedHost::saying(chunked(200, ERROR, 9));
    Proxy::start(&host).ask(&request).assert_fault(200, "7");
    let hinting = format!("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n{}", sized(200, ERROR));
    Proxy::start(&ScriptedHost::saying(hinting)).ask(&request).assert_fault(200, "7");
    let elsewhere = ScriptedHost::saying(chunked(200, "page", 2));
    let answer = Proxy::start(&elsewhere).ask("GET /docs HTTP/1.0\r\nHost: h\r\n\r\n");
    assert_eq!(answer.header("transfer-encoding"), None);
    answer.assert_passed(200, "page");
}

#[test]
fn head_204_and_304_have_no_body_and_keep_the_connection() {
    let host = ScriptedHost::start(|visit| {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nAllow: POST\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nETag: \"c\"\r\n\r\n",
            "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
        ] {
            visit.request();
            visit.send(answer);
        }
        visit.request();
    });
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    client.send("HEAD /docs HTTP/1.1\r\nHost: h\r\n\r\n");
    let answer = client.answer_to("HEAD");
    assert_eq!((answer.status(), answer.header("content-length")), (200, Some("5")));
    client.send(post("/a2a", CALL));
    let answer = client.answer();
    assert_eq!((answer.status(), answer.header("allow")), (204, Some("POST")));
    assert_eq!(answer.header("transfer-encoding"), None);
    client.send(get("/.well-known/agent-card.json"));
    let answer = client.answer();
    assert_eq!((answer.status(), answer.header("etag")), (304, Some("\"c\"")));
    client.send(post("/a2a", CALL));
    client.answer().assert_passed(202, "");
    assert_eq!(host.connections(), 1);
}

#[test]
fn a_head_request_on_a_task_route_keeps_its_framing() {
    let host = ScriptedHost::saying("HTTP/1.1 404 X\r\nContent-Length: 11\r\nX-Owner: acme\r\n\r\n");
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    for _ in 0..2 {
        client.send("HEAD /rest/tasks/1 HTTP/1.1\r\nHost: h\r\nA2A-Version: 1.0\r\n\r\n");
        let answer = client.answer_to("HEAD");
        assert_eq!(answer.status(), 404);
        assert_eq!(answer.header("x-owner"), None);
        assert_eq!(answer.header("transfer-encoding"), None);
    }
}

#[test]
fn informational_heads_are_forwarded_at_once() {
    let host = ScriptedHost::start(|visit| {
        for body in [ERROR, SUCCESS] {
            visit.request();
            visit.send("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n");
            thread::sleep(Duration::from_millis(300));
            visit.send(sized(200, body));
        }
    });
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    client.send(post("/a2a", CALL));
    let begin = std::time::Instant::now();
    let hints = client.answer();
    assert_eq!((hints.status(), hints.header("link")), (103, Some("</x>")));
    assert!(begin.elapsed() < Duration::from_millis(280), "the hints waited for the answer");
    client.answer().assert_fault(200, "7");
    client.send(post("/a2a", CALL));
    assert_eq!(client.answer().status(), 103);
    client.answer().assert_passed(200, SUCCESS);
}

/// O-1: where a task is named an interim head would tell whether there is one, by being there and by what it says.
#[test]
fn informational_heads_tell_nothing_of_a_task() {
    for status in ["100 Acme", "102 Processing", "103 Early Hints", "199 Acme"] {
        let host = ScriptedHost::start(move |visit| {
            while visit.request().is_some() {
                visit.send(format!("HTTP/1.1 {status}\r\nX-Owner: acme\r\nLink: </acme>\r\n\r\n"));
                visit.send(sized(403, "no"));
            }
        });
        let proxy = Proxy::start(&host);
        let mut client = proxy.client();
        for request in
            [post("/a2a", GET_TASK), get("/rest/tasks/1").replacen("Host:", "A2A-Version: 1.0\r\nHost:", 1)]
        {
            client.send(request);
            let answer = client.answer();
            assert!(
                !answer.first_line.contains(" 1") && answer.text().contains("TASK_NOT_FOUND"),
                "{status} {answer:?}"
            );
        }
        client.send(post("/a2a", GET_TASK).replacen("Host:", "Expect: 100-continue\r\nHost:", 1));
        let answer = client.answer();
        if status.starts_with("100") {
            assert_eq!((answer.status(), answer.headers.len()), (100, 0), "{answer:?}");
        } else {
            assert!(answer.text().contains("TASK_NOT_FOUND"), "{status} {answer:?}");
        }
    }
}

#[test]
fn hop_by_hop_headers_stay_on_their_hop() {
    let host = ScriptedHost::saying(format!(
        "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\nX-End: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nServer: acme\r\nContent-Length: {}\r\n\r\n{SUCCESS}",
        SUCCESS.len()
    ));
    let proxy = Proxy::start(&host);
    let answer = proxy.ask(post("/a2a", CALL));
    answer.assert_passed(200, SUCCESS);
    assert_eq!(answer.all("connection"), ["keep-alive"]);
    assert_eq!((answer.header("keep-alive"), answer.header("x-hop")), (None, None));
    assert_eq!((answer.header("x-end"), answer.header("server")), (Some("1"), Some("acme")));
    assert_eq!(answer.all("set-cookie"), ["a", "b"]);
}

#[test]
fn a_client_may_send_its_next_requests_ahead() {
    let host = ScriptedHost::start(|visit| {
        let mut number = 0;
        while visit.request().is_some() {
            thread::sleep(Duration::from_millis(20));
            let body = if number % 2 == 0 { ERROR } else { SUCCESS };
            visit.send(sized(200, body));
            number += 1;
        }
    });
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    client.send(post("/a2a", CALL).repeat(4));
    for number in 0..4 {
        let answer = client.answer();
        if number % 2 == 0 {
            answer.assert_fault(200, "7")
        } else {
            answer.assert_passed(200, SUCCESS)
        };
    }
}

/// Q-1, Q-4: the request's bytes are the client's, but for `Accept-Encoding` on an interface and the
/// trace that finds loops.
#[test]
fn the_host_sees_what_the_client_sent() {
    let host = ScriptedHost::saying(sized(200, SUCCESS));
    let proxy = Proxy::start(&host);
    let headers = "Authorization: Bearer a.b\r\nA2A-Extensions: urn:x\r\nAccept: application/json, */*;q=0.1\r\nAccept-Encoding: gzip\r\nAccept-Encoding: br\r\nVia: 1.0 edge\r\nX-Tenant: T\r\n";
    for (path, encodings) in [("/a2a", vec!["identity"]), ("/docs", vec!["gzip", "br"])] {
        let body = r#"{"id" : 9007199254740993, "jsonrpc":"2.0","method":"GetTask"}"#;
        proxy.ask(format!(
            "POST {path} HTTP/1.1\r\nHost: h\r\nA2A-Version: 1.0\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let seen = host.requests().pop().unwrap();
        assert_eq!(seen.text(), body);
        assert_eq!(seen.all("accept-encoding"), encodings, "{path}");
        for (name, value) in [
            ("authorization", "Bearer a.b"),
            ("a2a-extensions", "urn:x"),
            ("a2a-version", "1.0"),
            ("accept", "application/json, */*;q=0.1"),
            ("x-tenant", "T"),
            ("host", "h"),
        ] {
            assert_eq!(seen.all(name), [value], "{name}");
        }
        let via = seen.all("via");
        assert_eq!((via.len(), via[0]), (2, "1.0 edge"));
        assert!(via[1].starts_with("1.1 a2a-errata-"));
    }
}

#[test]
fn a_chunked_request_reaches_the_host_whole() {
    let host = ScriptedHost::saying(sized(200, ERROR));
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    client.send("POST /a2a HTTP/1.1\r\nHost: h\r\nA2A-Version: 1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
    for piece in CALL.as_bytes().chunks(11) {
        client.send(format!("{:x}\r\n{}\r\n", piece.len(), String::from_utf8_lossy(piece)));
        thread::sleep(Duration::from_millis(1));
    }
    client.send("0\r\n\r\n");
    client.answer().assert_fault(200, "7");
    assert_eq!(host.requests()[0].text(), CALL);
}

/// What says "close" on a second line says it too.
#[test]
fn a_connection_that_the_host_will_close_is_not_used_again() {
    for lines in
        ["Connection: close", "Connection: X-Own\r\nConnection: close", "Connection: keep-alive, Close"]
    {
        let answer = format!("HTTP/1.1 200 OK\r\n{lines}\r\nContent-Length: 4\r\n\r\npage");
        let host = ScriptedHost::saying(answer);
        let proxy = Proxy::start(&host);
        let mut client = proxy.client();
        for asked in 1..=3 {
            client.send(post("/x", "{}"));
            client.answer().assert_passed(200, "page");
            assert_eq!(host.connections(), asked, "{lines}");
        }
    }
}

/// Q-1: a request's head waits for nobody, and what announces a chunk is nobody yet.
#[test]
fn a_head_reaches_the_host_before_the_first_chunk() {
    for announced in ["2", "28", "28\r", "28\r\n", "28;a=b"] {
        let host = ScriptedHost::start(|visit| {
            if visit.connection.head().is_some() {
                visit.send(sized(200, "early"));
                visit.request();
            }
        });
        let proxy = Proxy::start(&host);
        let mut client = proxy.client();
        // In one, so that the proxy has read both before it has written the head.
        client.send(format!("POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{announced}"));
        client.answer().assert_passed(200, "early");
    }
}

#[test]
fn what_no_rule_binds_passes_with_its_status_and_headers() {
    let body = r#"{"error":"run_forbidden","message":"acme/1"}"#;
    let host = ScriptedHost::saying(format!(
        "HTTP/1.1 403 Nope\r\nContent-Type: application/json\r\nX-Tenant: acme\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    for path in ["/v1/runs", "/a2a/below", "/", "/a2a//"] {
        client.send(post(path, "{}"));
        let answer = client.answer();
        answer.assert_passed(403, body);
        assert_eq!(answer.header("x-tenant"), Some("acme"));
        assert_eq!(answer.header("content-length"), Some(body.len().to_string().as_str()));
    }
}

#[test]
fn an_upgrade_elsewhere_passes() {
    let host = ScriptedHost::start(|visit| {
        let request = visit.request().unwrap();
        assert_eq!(request.header("upgrade"), Some("websocket"));
        visit.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        let said = visit.connection.some();
        visit.send([b"echo ", said.as_slice()].concat());
    });
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    client.send("GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.status(), answer.header("upgrade")), (101, Some("websocket")));
    client.send("hello");
    assert_eq!(String::from_utf8(client.rest()).unwrap(), "echo hello");
}

/// I-4: an upgrade passes when it comes about; asking for one is no way around the rules.
#[test]
fn an_upgrade_that_an_interface_refuses_is_an_answer_like_any_other() {
    let ask = "GET /rest/tasks/t-1 HTTP/1.1\r\nHost: h\r\nA2A-Version: 1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n";
    let host = ScriptedHost::saying(sized(403, r#"{"error":"run_forbidden","message":"acme/1"}"#));
    let answer = Proxy::start(&host).ask(ask);
    assert_eq!((answer.status(), answer.complete), (404, true), "{answer:?}");
    assert!(!answer.text().contains("acme"), "{answer:?}");
    let host = ScriptedHost::start(|visit| {
        visit.request();
        visit.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhi");
    });
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    client.send(ask);
    assert_eq!(client.answer().status(), 101);
    assert_eq!(client.rest(), b"hi");
}

#[test]
fn several_services_share_the_port() {
    let host = ScriptedHost::saying(sized(200, ERROR));
    let mut settings = settings(&[host.address]);
    settings.services = 3;
    let proxy = Proxy::start_with(settings);
    for _ in 0..24 {
        proxy.ask(post("/a2a", CALL)).assert_fault(200, "7");
    }
    assert!(host.connections() > 1, "every connection landed on one service");
}

/// Shorter than HTTP/2's preface, which is not waited for.
#[test]
fn a_very_short_request_is_answered() {
    let host = ScriptedHost::saying(sized(200, "ok"));
    let proxy = Proxy::start(&host);
    proxy.ask("GET / HTTP/1.0\r\n\r\n").assert_passed(200, "ok");
}
