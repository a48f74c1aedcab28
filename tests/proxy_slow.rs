//! Clients that take their time: heads that never end, connections without requests, answers that nobody reads.
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
use std::time::{Duration, Instant};

use support::*;

/// Longer than a test waits for anything.
const NEVER: Duration = Duration::from_mins(10);

/// A proxy with these patiences, in milliseconds.
fn patient(host: &ScriptedHost, request_headers: u64, keep_alive: u64, write: u64) -> Proxy {
    let millis = Duration::from_millis;
    let mut settings = settings(&[host.address]);
    settings.bounds.request_headers = millis(request_headers);
    settings.bounds.keep_alive = millis(keep_alive);
    settings.hosts[0].timeouts.write = millis(write);
    settings.hosts[0].timeouts.read = NEVER;
    let proxy = Proxy::start_with(settings);
    proxy.assert_counts("connections_open", "", 0.0);
    proxy
}

/// Milliseconds that no test has.
const LONG: u64 = 600_000;

/// Sends these bytes slowly, again and again, until the other side has closed; and says what it sent.
fn trickled(client: &mut Client, bytes: &[u8]) -> Vec<u8> {
    let began = Instant::now();
    let mut seen = Vec::new();
    'open: while began.elapsed() < PATIENCE {
        for byte in bytes {
            if !client.try_send([*byte]) {
                break 'open;
            }
            if client.has_request() {
                seen.extend(client.some());
            }
        }
    }
    assert!(began.elapsed() < PATIENCE, "the connection is still open");
    seen.extend(client.rest_then_close());
    seen
}

#[test]
fn a_head_that_comes_byte_by_byte_ends() {
    let host = ScriptedHost::saying(sized(200, SUCCESS));
    let proxy = patient(&host, 300, LONG, LONG);
    // On a new connection, and on one that was used.
    for used in [false, true] {
        let mut client = proxy.client();
        if used {
            client.send(post("/a2a", CALL));
            client.answer().assert_passed(200, SUCCESS);
        }
        client.send("POST /a2a HTTP/1.1\r\nHost: h\r\n");
        let seen = String::from_utf8(trickled(&mut client, b"X-A: b\r\n")).unwrap();
        assert!(seen.starts_with("HTTP/1.1 408 "), "{seen:?}");
        assert!(seen.to_lowercase().contains("\r\nconnection: close\r\n"), "{seen:?}");
    }
    proxy.assert_counts("limits_reached_total", "limit=\"request_headers_ms\"", 2.0);
    // And one that stops.
    let mut client = proxy.client();
    client.send("POST /a2a HTTP/1.1\r\nHo");
    let answer = client.answer();
    assert_eq!((answer.status(), answer.complete), (408, true), "{answer:?}");
    assert!(client.rest_then_close().is_empty());
    proxy.assert_counts("connections_open", "", 0.0);
}

/// What came of a head together with the request before it has begun, and is part of its length.
#[test]
fn a_head_that_begins_early_ends() {
    let host = ScriptedHost::saying(sized(200, SUCCESS));
    let proxy = patient(&host, 300, LONG, LONG);
    // Of a request with a body of either framing, and without.
    let chunks = format!("{:x}\r\n{CALL}\r\n0\r\n\r\n", CALL.len());
    let chunked = "POST /a2a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned() + &chunks;
    for (n, call) in [post("/a2a", CALL), chunked, get("/elsewhere")].into_iter().enumerate() {
        for ahead in ["POST /a2a HTT", "P"] {
            let mut client = proxy.client();
            client.send(format!("{call}{ahead}"));
            client.answer();
            let answer = client.answer();
            assert_eq!((answer.status(), answer.complete), (408, true), "{n} {ahead}: {answer:?}");
            assert!(client.rest_then_close().is_empty());
        }
    }
    proxy.assert_counts("limits_reached_total", "limit=\"request_headers_ms\"", 6.0);
    // The empty line that some clients send behind a body is no beginning.
    let mut client = proxy.client();
    client.send(post("/a2a", CALL) + "\r\n");
    client.answer().assert_passed(200, SUCCESS);
    thread::sleep(Duration::from_millis(600));
    client.send(post("/a2a", CALL));
    client.answer().assert_passed(200, SUCCESS);
}

/// A request that waits between its head and its body, or before its head, has done nothing wrong.
#[test]
fn only_heads_have_to_be_quick() {
    let host = ScriptedHost::saying(sized(200, SUCCESS));
    let proxy = patient(&host, 200, LONG, LONG);
    let mut client = proxy.client();
    for _ in 0..2 {
        thread::sleep(Duration::from_millis(500));
        let call = post("/a2a", CALL);
        let (head, body) = call.split_at(call.len() - CALL.len());
        client.send(head);
        thread::sleep(Duration::from_millis(500));
        client.send(body);
        client.answer().assert_passed(200, SUCCESS);
    }
    // Of a request that was sent ahead, the rest comes in time.
    client.send(format!("{}POST /a2a HT", post("/a2a", CALL)));
    client.answer().assert_passed(200, SUCCESS);
    client.send(post("/a2a", CALL).strip_prefix("POST /a2a HT").unwrap());
    client.answer().assert_passed(200, SUCCESS);
}

#[test]
fn a_connection_without_a_request_is_closed() {
    let host = ScriptedHost::saying(sized(200, SUCCESS));
    let proxy = patient(&host, LONG, 1000, LONG);
    // That never sends a request, or not another one.
    let mut waiting = vec![proxy.client()];
    for _ in 0..2 {
        let mut used = proxy.client();
        for _ in 0..2 {
            used.send(post("/a2a", CALL));
            used.answer().assert_passed(200, SUCCESS);
        }
        waiting.push(used);
    }
    let mut old = proxy.client();
    old.send("GET /elsewhere HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(old.answer().status(), 200);
    waiting.push(old);
    // The preface of HTTP/2 and no more of it, in every length.
    for length in [1, 2, 3, 6, 18, 23] {
        let mut begun = proxy.client();
        begun.send(&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..length]);
        waiting.push(begun);
    }
    for (n, client) in waiting.iter_mut().enumerate() {
        assert!(client.closes_within(PATIENCE), "{n} is still open");
    }
    // All of it, and then pings, but no request.
    let mut pings = proxy.client();
    pings.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    trickled(&mut pings, b"\0\0\x08\x06\0\0\0\0\0abcdefgh");
    // Half a head of HTTP/2, and more of it without end.
    let mut head = proxy.client();
    head.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    head.send(b"\0\0\x01\x01\0\0\0\0\x01\x82");
    trickled(&mut head, b"\0\0\x01\x09\0\0\0\0\x01\x84");
    proxy.assert_counts("connections_open", "", 0.0);
    drop(waiting);
}

/// Neither bodies nor heads wait for ever until somebody takes them.
#[test]
fn a_client_that_reads_nothing_is_left() {
    let body = "b".repeat(200_000);
    let big = format!("HTTP/1.1 204 No Content\r\nX-Big: {}\r\n\r\n", "h".repeat(60_000));
    for answer in [sized(200, &body), chunked(200, &body, 50_000), big] {
        let host = ScriptedHost::saying(answer);
        let proxy = patient(&host, LONG, LONG, 300);
        let mut client = proxy.client();
        // More than all buffers in between hold.
        for _ in 0..600 {
            if !client.try_send(get("/elsewhere")) {
                break;
            }
        }
        eventually(
            || proxy.count("limits_reached_total", "limit=\"write_ms\"") >= 1.0,
            || "nobody was left".into(),
        );
        proxy.assert_counts("connections_open", "", 0.0);
        proxy.assert_counts("inflight", "", 0.0);
    }
}

/// However little it is, and although the system has no room for more in all that time.
#[test]
fn a_client_that_reads_slowly_is_not_left() {
    let body = "b".repeat(16_000_000);
    for answer in [sized(200, &body), chunked(200, &body, 50_000)] {
        let host = ScriptedHost::saying(answer);
        let proxy = patient(&host, LONG, LONG, 1000);
        let mut client = proxy.client();
        client.send(get("/elsewhere"));
        for _ in 0..120 {
            thread::sleep(Duration::from_millis(50));
            client.more();
        }
        let answer = client.answer();
        assert!(answer.complete && answer.body.len() == body.len(), "{} of it", answer.body.len());
        proxy.assert_counts("limits_reached_total", "limit=\"write_ms\"", 0.0);
    }
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The same on HTTP/2, by a window that grows slowly.
#[test]
fn a_client_of_http_2_that_reads_slowly_is_not_left() {
    let body = "b".repeat(105_000);
    let host = ScriptedHost::saying(sized(200, &body));
    let proxy = patient(&host, LONG, LONG, 1500);
    let mut client = proxy.client();
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    client.send(frame(4, 0, 0, b""));
    client.send(frame(1, 5, 1, b"\x82\x86\x84\x01\x01h"));
    let began = Instant::now();
    let mut seen = Vec::new();
    let mut data = 0;
    // Until the stream ends: with the last of its data, or otherwise.
    let ended = 'ended: loop {
        assert!(began.elapsed() < 6 * PATIENCE, "no end");
        let mut at = 0;
        while let Some(&[a, b, c, kind, flags, ..]) = seen.get(at..at + 9) {
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            if seen.len() < at + 9 + length {
                break;
            }
            match kind {
                0 => data += length,
                3 | 7 => break 'ended kind,
                _ => {}
            }
            if kind == 0 && flags & 1 == 1 {
                break 'ended kind;
            }
            at += 9 + length;
        }
        seen.drain(..at);
        for stream in [0, 1] {
            client.send(frame(8, 0, stream, &800_u32.to_be_bytes()));
        }
        thread::sleep(Duration::from_millis(50));
        if client.has_request() {
            seen.extend(client.some());
        }
    };
    assert_eq!((ended, data), (0, body.len()));
}

/// On HTTP/2 a client may promise to read a lot.
#[test]
fn a_client_of_http_2_that_reads_nothing_is_left() {
    let host = ScriptedHost::saying(sized(200, &"b".repeat(2_000_000)));
    let proxy = patient(&host, LONG, 1000, 300);
    let mut client = proxy.client();
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    // A window of two gigabytes for every stream, and for all of them.
    client.send(frame(4, 0, 0, b"\0\x04\x7f\xff\xff\xff"));
    client.send(frame(8, 0, 0, b"\x7f\xff\0\0"));
    for n in 0..20 {
        // GET, http, /, and `h` as the authority.
        client.try_send(frame(1, 5, 2 * n + 1, b"\x82\x86\x84\x01\x01h"));
    }
    eventually(
        || proxy.count("limits_reached_total", "limit=\"write_ms\"") >= 1.0,
        || "nobody was left".into(),
    );
    proxy.assert_counts("connections_open", "", 0.0);
    proxy.assert_counts("inflight", "", 0.0);
}
