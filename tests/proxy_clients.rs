//! Clients that are slow, early, late or gone, and HTTP/2 ones (C-5, I-4, Q-1).
// A test says what went wrong by panicking.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic
)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use support::*;

/// A call whose id comes last, after `size` bytes.
fn id_last(size: usize) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"SendMessage","params":{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"text":"{}"}}]}}}},"id":7}}"#,
        "a".repeat(size)
    )
}

/// Q-1: the host answers before it has read the request, reads nothing of it, and closes or does not.
#[test]
fn an_early_answer_waits_for_the_id_and_keeps_the_clients_connection() {
    for closes in [true, false] {
        let host = ScriptedHost::start(move |visit| {
            visit.connection.head();
            visit.send(sized(500, ERROR));
            if !closes {
                thread::sleep(Duration::from_secs(4));
            }
        });
        let proxy = Proxy::start(&host);
        let mut client = proxy.client();
        for _ in 0..2 {
            let body = id_last(3_000_000);
            let request = post("/a2a", &body);
            let (first, last) = request.split_at(1000);
            client.send(first);
            thread::sleep(Duration::from_millis(100));
            client.send(last);
            let begin = Instant::now();
            let answer = client.answer();
            assert_eq!(answer.json()["id"], 7, "{answer:?}");
            assert_eq!(answer.header("connection"), Some("keep-alive"), "{answer:?}");
            assert!(answer.complete && begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
        }
    }
}

/// Q-1: a host that does not get the rest of a request does not get a clean end of it either.
#[test]
fn a_request_that_is_read_past_the_host_does_not_seem_complete() {
    let (tell, told) = std::sync::mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let host = ScriptedHost::start(move |visit| {
        visit.connection.until(br#""text":"aaaa"#);
        visit.send(sized(500, ERROR));
        tell.lock().unwrap().send(visit.connection.rest()).unwrap();
    });
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    let body = id_last(1000);
    let (first, last) = body.split_at(500);
    for _ in 0..2 {
        client
            .send("POST /a2a HTTP/1.1\r\nHost: h\r\nA2A-Version: 1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.send(format!("{:x}\r\n{first}\r\n", first.len()));
        thread::sleep(Duration::from_millis(150));
        client.send(format!("{:x}\r\n{last}\r\n0\r\n\r\n", last.len()));
        let answer = client.answer();
        assert_eq!((answer.json()["id"].to_string().as_str(), answer.complete), ("7", true), "{answer:?}");
        let seen = String::from_utf8(told.recv_timeout(PATIENCE).unwrap()).unwrap();
        assert!(!seen.ends_with("0\r\n\r\n"), "{seen}");
    }
}

/// Q-1: within its limits.
#[test]
fn an_early_answer_does_not_wait_longer_than_a_client_may_be_silent() {
    let host = ScriptedHost::start(|visit| {
        visit.connection.head();
        visit.send(sized(500, ERROR));
        thread::sleep(Duration::from_secs(4));
    });
    let mut settings = settings(&[host.address]);
    settings.hosts[0].timeouts.read = Duration::from_millis(300);
    let proxy = Proxy::start_with(settings);
    let mut client = proxy.client();
    client.send(&post("/a2a", &id_last(1000))[..400]);
    let begin = Instant::now();
    let answer = client.answer();
    assert!(answer.complete && answer.json()["error"].is_object(), "{answer:?}");
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(begin.elapsed() < Duration::from_secs(3));
}

#[test]
fn an_early_answer_to_an_oversize_request_is_413() {
    let host = ScriptedHost::start(|visit| {
        visit.connection.head();
        visit.send(sized(500, ERROR));
        thread::sleep(Duration::from_secs(2));
    });
    let mut settings = settings(&[host.address]);
    settings.hosts[0].limits.request_bytes = 5000;
    let proxy = Proxy::start_with(settings);
    let mut client = proxy.client();
    client.send(
        "POST /a2a HTTP/1.1\r\nHost: h\r\nA2A-Version: 1.0\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    );
    thread::sleep(Duration::from_millis(200));
    for _ in 0..30 {
        client.try_send(format!("{:x}\r\n{}\r\n", 1000, " ".repeat(1000)));
    }
    let answer = client.answer();
    assert_eq!((answer.status(), answer.complete), (413, true), "{answer:?}");
}

/// A success needs no id: it flows while the request still comes.
#[test]
fn an_early_success_flows_at_once() {
    let host = ScriptedHost::start(|visit| {
        while visit.connection.head().is_some() {
            visit.send(sized(200, &long_success()));
            visit.connection.until(br#""id":7}"#);
        }
    });
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    let request = post("/a2a", &id_last(1000));
    let (first, last) = request.split_at(400);
    client.send(first);
    client.answer().assert_passed(200, &long_success());
    client.send(last);
    // Both connections are good for another one.
    client.send(post("/a2a", &id_last(10)));
    client.answer().assert_passed(200, &long_success());
    assert_eq!(host.connections(), 1);
}

#[test]
fn a_slow_upload_is_one_request() {
    let host = ScriptedHost::saying(sized(200, ERROR));
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    for piece in post("/a2a", CALL).as_bytes().chunks(9) {
        client.send(piece);
        thread::sleep(Duration::from_millis(3));
    }
    client.answer().assert_fault(200, "7");
    assert_eq!(host.requests()[0].text(), CALL);
}

#[test]
fn a_slow_reader_gets_everything() {
    let body = format!(r#"{{"jsonrpc":"2.0","id":7,"result":"{}"}}"#, "a".repeat(8 << 20));
    let host = ScriptedHost::saying(chunked(200, &body, 100_000));
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    client.send(post("/a2a", CALL));
    thread::sleep(Duration::from_millis(300));
    let answer = client.answer();
    assert!(answer.complete);
    assert_eq!(answer.body.len(), body.len());
    client.send(post("/a2a", CALL));
    assert!(client.answer().complete, "the connection was lost");
}

#[test]
fn expect_100_continue_is_the_hosts_to_answer() {
    let host = ScriptedHost::start(|visit| {
        let head = visit.connection.head().unwrap();
        assert_eq!(head.header("expect"), Some("100-continue"));
        visit.send("HTTP/1.1 100 Continue\r\n\r\n");
        let body = visit.connection.some();
        assert_eq!(String::from_utf8(body).unwrap(), CALL);
        visit.send(sized(200, ERROR));
    });
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    let request = post("/a2a", CALL).replacen("Host:", "Expect: 100-continue\r\nHost:", 1);
    client.send(request.strip_suffix(CALL).unwrap());
    assert_eq!(client.answer().status(), 100);
    client.send(CALL);
    client.answer().assert_fault(200, "7");
}

/// Q-1: the host refuses without asking for the body, and the client would not send it unasked.
#[test]
fn an_answer_instead_of_100_continue_still_gets_its_id() {
    let host = ScriptedHost::start(|visit| {
        visit.connection.head();
        visit.send(sized(500, ERROR));
        thread::sleep(Duration::from_secs(2));
    });
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    let request = post("/a2a", CALL).replacen("Host:", "Expect: 100-continue\r\nHost:", 1);
    client.send(request.strip_suffix(CALL).unwrap());
    assert_eq!(client.answer().status(), 100);
    client.send(CALL);
    let answer = client.answer();
    assert_eq!(answer.json()["id"], 7, "{answer:?}");
}

#[test]
fn a_client_that_leaves_takes_the_hosts_connection_with_it() {
    let gone = Arc::new(AtomicBool::new(false));
    let seen = gone.clone();
    let host = ScriptedHost::start(move |visit| {
        visit.request();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        visit.send(format!("{head}c\r\n: hello all\n\r\n"));
        seen.store(visit.connection.closes_within(PATIENCE), Ordering::SeqCst);
    });
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    let call = CALL.replace("SendMessage", "SendStreamingMessage");
    client.send(post("/a2a", &call).replacen("Host:", "Accept: text/event-stream\r\nHost:", 1));
    thread::sleep(Duration::from_millis(100));
    client.close();
    let deadline = Instant::now() + PATIENCE;
    while !gone.load(Ordering::SeqCst) {
        assert!(Instant::now() < deadline, "the host still streams");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_client_that_leaves_while_its_answer_is_held_does_no_harm() {
    let host = ScriptedHost::start(|visit| {
        if visit.number == 0 {
            visit.request();
            visit.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"error\":");
            visit.connection.closes_within(PATIENCE);
        } else {
            while visit.request().is_some() && visit.send(sized(200, ERROR)) {}
        }
    });
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    client.send(post("/a2a", CALL));
    thread::sleep(Duration::from_millis(100));
    client.close();
    proxy.ask(post("/a2a", CALL)).assert_fault(200, "7");
}

/// One HTTP/2 connection with prior knowledge.
struct Http2 {
    runtime: tokio::runtime::Runtime,
    send: h2::client::SendRequest<Bytes>,
}

struct Http2Answer {
    status: u16,
    headers: http::HeaderMap,
    body: Vec<u8>,
    /// How the stream ended, if not well.
    reset: Option<h2::Reason>,
}

impl Http2 {
    fn connect(proxy: &Proxy) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let address = proxy.address;
        let send = runtime.block_on(async {
            let socket = tokio::net::TcpStream::connect(address).await.unwrap();
            let (send, connection) = h2::client::handshake(socket).await.unwrap();
            tokio::spawn(connection);
            send
        });
        Self { runtime, send }
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> Http2Answer {
        let send = self.send.clone();
        let request = http::Request::builder()
            .method(method)
            .uri(format!("http://h{path}"))
            .header("a2a-version", "1.0")
            .header("content-type", "application/json")
            .body(())
            .unwrap();
        let body = Bytes::copy_from_slice(body.as_bytes());
        self.runtime.block_on(async {
            tokio::time::timeout(PATIENCE, async {
                let mut send = send.ready().await.unwrap();
                let (answer, mut stream) = send.send_request(request, body.is_empty()).unwrap();
                if !body.is_empty() {
                    stream.send_data(body, true).unwrap();
                }
                let (head, mut body) = answer.await.unwrap().into_parts();
                let mut answer = Http2Answer {
                    status: head.status.as_u16(),
                    headers: head.headers,
                    body: vec![],
                    reset: None,
                };
                while let Some(piece) = body.data().await {
                    match piece {
                        Ok(piece) => {
                            let _ = body.flow_control().release_capacity(piece.len());
                            answer.body.extend_from_slice(&piece);
                        }
                        Err(error) => {
                            answer.reset = Some(error.reason().unwrap_or(h2::Reason::PROTOCOL_ERROR));
                            break;
                        }
                    }
                }
                answer
            })
            .await
            .unwrap()
        })
    }
}

#[test]
fn http_2_clients_get_rewritten_and_passed_answers() {
    let close = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{ERROR}");
    for error in [sized(200, ERROR), chunked(200, ERROR, 5), close] {
        let host = ScriptedHost::start(move |visit| {
            while let Some(request) = visit.request() {
                let passes = request.text().contains("GetTask") || request.first_line.contains("/docs");
                visit.send(if passes { chunked(200, SUCCESS, 20) } else { error.clone() });
                if !passes && error.ends_with(ERROR) && !error.contains("Content-Length") {
                    return;
                }
            }
        });
        let proxy = Proxy::start(&host);
        let mut client = Http2::connect(&proxy);
        for _ in 0..2 {
            let answer = client.ask("POST", "/a2a", CALL);
            let json: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!((answer.status, json["id"].to_string().as_str()), (200, "7"));
            assert_eq!(answer.headers["content-length"], answer.body.len().to_string());
            assert!(!answer.headers.contains_key("transfer-encoding") && answer.headers.contains_key("date"));
            assert_eq!(answer.reset, None);
            let answer = client.ask("POST", "/a2a", GET_TASK);
            assert_eq!((answer.status, answer.body.as_slice()), (200, SUCCESS.as_bytes()));
            let answer = client.ask("GET", "/docs", "");
            assert_eq!(
                (answer.status, answer.body.as_slice(), answer.reset),
                (200, SUCCESS.as_bytes(), None)
            );
        }
        let seen = host.requests();
        assert!(seen.iter().all(|request| request.header("host") == Some("h")), "{seen:?}");
    }
}

#[test]
fn an_http_2_client_sees_a_reset_when_the_host_dies_inside_a_success() {
    let body = long_success();
    let promised = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.len(), &body[..150_000]);
    let host = ScriptedHost::start(move |visit| {
        visit.request();
        visit.send(if visit.number == 0 {
            &promised
        } else {
            "HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{\"error\":"
        });
    });
    let proxy = Proxy::start(&host);
    let mut client = Http2::connect(&proxy);
    let answer = client.ask("POST", "/a2a", CALL);
    assert_eq!(answer.status, 200);
    assert!(answer.reset.is_some(), "a clean end after {} bytes", answer.body.len());
    // The connection goes on, and a held error is a complete answer.
    let answer = client.ask("POST", "/a2a", CALL);
    let json: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((answer.status, json["id"].to_string().as_str(), answer.reset), (502, "7", None));
}

#[test]
fn an_http_2_client_gets_the_proxys_own_answers() {
    let host = ScriptedHost::saying(sized(200, SUCCESS));
    let mut settings = settings(&[host.address]);
    settings.hosts[0].limits.request_bytes = 1000;
    let proxy = Proxy::start_with(settings);
    let mut client = Http2::connect(&proxy);
    let big = CALL.replace("hi", &"a".repeat(20_000));
    assert_eq!(client.ask("POST", "/a2a", &big).status, 413);
    assert_eq!(client.ask("POST", "/docs", &big).status, 413);
    assert_eq!(client.ask("POST", "/a2a", CALL).status, 200);
}
