//! Event streams through the shell: nothing waits for what comes after it (S-2), and what is counted
//! while answers are under way (U-4).
// A test says what went wrong by panicking.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic
)]

mod support;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a_errata::normalize::{Mode, Policy};
use support::*;

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nX-Host: acme\r\n\r\n";
const GOOD: &str = "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"n\":1}}\n\n";
const BAD: &str =
    "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32004,\"message\":\"at /srv/acme\"}}\n\n";

fn chunk(bytes: &str) -> String {
    format!("{:x}\r\n{bytes}\r\n", bytes.len())
}

fn stream_call() -> String {
    let call = CALL.replace("SendMessage", "SendStreamingMessage");
    post("/a2a", &call).replacen("Host:", "Accept: text/event-stream\r\nHost:", 1)
}

/// A host that sends a piece each time it is told to; an empty one ends the connection.
fn puppet() -> (ScriptedHost, Sender<String>) {
    let (say, said) = channel::<String>();
    let said: Arc<Mutex<Receiver<String>>> = Arc::new(Mutex::new(said));
    let host = ScriptedHost::start(move |visit| {
        visit.request();
        while let Ok(piece) = said.lock().unwrap().recv_timeout(PATIENCE) {
            if piece.is_empty() {
                return;
            }
            visit.send(piece);
            if visit.connection.has_request() {
                visit.request();
            }
        }
    });
    (host, say)
}

/// Reads until `end` has come, without the chunks' own lines.
#[track_caller]
fn read_until(client: &mut Client, end: &str) -> String {
    let read = client.until(end.as_bytes()).expect("the stream ended");
    let text = String::from_utf8(read).unwrap();
    let is_size =
        |line: &str| line.ends_with('\r') && line.trim_end().bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split_inclusive('\n').filter(|line| !is_size(line.trim_end_matches('\n'))).collect()
}

/// The host sends the next event only after the client has the one before.
#[test]
fn each_event_is_there_before_the_next_one_is_sent() {
    let (host, say) = puppet();
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    client.send(stream_call());
    say.send(STREAM.to_owned() + &chunk(GOOD)).unwrap();
    let head = client.head().unwrap();
    assert_eq!((head.status(), head.header("x-host")), (200, Some("acme")));
    assert_eq!(read_until(&mut client, "\n\n"), GOOD);
    for number in 2..6 {
        let event = GOOD.replace('1', &number.to_string());
        // In two pieces, split where nothing is decided yet.
        say.send(chunk(&event[..9])).unwrap();
        say.send(chunk(&event[9..])).unwrap();
        let mut read = read_until(&mut client, "\n\n");
        read.retain(|letter| letter != '\r');
        assert_eq!(read.trim_start_matches('\n'), event);
    }
    say.send(chunk(BAD)).unwrap();
    let fault = read_until(&mut client, "\n\n");
    assert!(fault.contains("\"code\":-32004") && !fault.contains("acme"), "{fault}");
    say.send("0\r\n\r\n".into()).unwrap();
    assert!(client.until(b"0\r\n\r\n").is_some());
}

/// S-2: an event is with the client while the host says nothing more, however the stream is framed, on
/// either binding, and whether it is one that passes or one that is rewritten.
#[test]
fn no_event_waits_for_the_next() {
    let head =
        |media: &str, framing: &str| format!("HTTP/1.1 200 OK\r\nContent-Type: {media}\r\n{framing}\r\n");
    let status = "{\"error\":{\"code\":404,\"status\":\"NOT_FOUND\",\"message\":\"at /srv/acme\"}}";
    let rest_bad = format!("event: error\ndata: {status}\n\n");
    let rest_good = "data: {\"statusUpdate\":{\"taskId\":\"t\"}}\n\n";
    let rest_call = post("/rest/message:stream", "{\"message\":{}}").replacen(
        "Host:",
        "Accept: text/event-stream\r\nHost:",
        1,
    );
    for (media, call, good, bad) in [
        ("text/event-stream", stream_call(), GOOD, BAD),
        ("application/x-ndjson", stream_call(), &GOOD[12..GOOD.len() - 1], &BAD[6..BAD.len() - 1]),
        ("text/event-stream", rest_call, rest_good, rest_bad.as_str()),
    ] {
        for framing in ["Transfer-Encoding: chunked\r\n", "Connection: close\r\n", ""] {
            let (host, say) = puppet();
            let proxy = Proxy::start(&host);
            let mut client = proxy.client();
            client.send(&call);
            let framed = |event: &str| if framing.starts_with('T') { chunk(event) } else { event.to_owned() };
            say.send(head(media, framing)).unwrap();
            for event in [good, bad, good] {
                say.send(framed(event)).unwrap();
                // The host waits for the client here: nothing else is on its way.
                let is_there = if event == bad { "\"code\":" } else { good.trim_end() };
                for part in [is_there, "\n"] {
                    assert!(client.until(part.as_bytes()).is_some(), "{media} {framing} {event}");
                }
            }
        }
    }
}

/// Many hosts end their lines with CRLF and keep connections alive with a lone comment: a client that
/// waits for the LF, or for the comment, gets it at once (S-2).
#[test]
fn the_last_byte_of_an_event_and_a_lone_comment_do_not_wait() {
    let (host, say) = puppet();
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    client.send(stream_call());
    let good = GOOD.replace('\n', "\r\n");
    say.send(STREAM.to_owned() + &chunk(&good)).unwrap();
    assert_eq!(client.head().unwrap().status(), 200);
    assert!(client.until(b"}}\r\n\r\n").is_some());
    say.send(chunk(": still here\r\n")).unwrap();
    assert!(client.until(b": still here\r\n").is_some());
    say.send(chunk(&BAD.replace('\n', "\r\n"))).unwrap();
    let fault = read_until(&mut client, "]}}\n\n");
    assert!(fault.contains("\"code\":-32004") && !fault.contains("acme"), "{fault}");
    say.send("0\r\n\r\n".into()).unwrap();
    assert!(client.until(b"0\r\n\r\n").is_some());
}

#[test]
fn the_connection_is_used_again_after_a_stream() {
    let host = ScriptedHost::start(|visit| {
        for piece in [GOOD, BAD, ""] {
            visit.request();
            visit.send(
                STREAM.to_owned()
                    + &if piece.is_empty() { String::new() } else { chunk(piece) }
                    + "0\r\n\r\n",
            );
        }
    });
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    client.send(stream_call());
    client.answer().assert_passed(200, GOOD);
    client.send(stream_call());
    let answer = client.answer();
    assert!(answer.complete && answer.status() == 200 && !answer.text().contains("acme"), "{answer:?}");
    client.send(stream_call());
    client.answer().assert_passed(200, "");
    assert_eq!(host.connections(), 1);
}

/// U-4: what is in flight, open and held shows while it is, and is gone afterwards.
#[test]
fn what_is_under_way_is_counted() {
    let (host, say) = puppet();
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    client.send(stream_call());
    say.send(STREAM.to_owned() + &chunk(GOOD)).unwrap();
    client.head().unwrap();
    proxy.assert_counts("inflight", "", 1.0);
    proxy.assert_counts("streams_open", "", 1.0);
    say.send("0\r\n\r\n".into()).unwrap();
    assert!(client.until(b"0\r\n\r\n").is_some());
    proxy.assert_counts("inflight", "", 0.0);
    proxy.assert_counts("streams_open", "", 0.0);
    client.send(post("/a2a", CALL));
    std::thread::sleep(Duration::from_millis(100));
    let answer = sized(200, ERROR);
    let (head, body) = answer.split_at(120);
    let count = u32::try_from(head.split_once("\r\n\r\n").unwrap().1.len()).unwrap();
    say.send(head.to_owned()).unwrap();
    proxy.assert_counts("held_bytes", "", f64::from(count));
    say.send(body.to_owned()).unwrap();
    client.answer().assert_fault(200, "7");
    for name in ["held_bytes", "inflight", "streams_open"] {
        proxy.assert_counts(name, "", 0.0);
    }
    proxy.assert_counts("responses_total", "outcome=\"passed\"", 1.0);
    proxy.assert_counts("responses_total", "outcome=\"rewritten\"", 1.0);
    proxy.assert_counts("added_seconds_count", "", 2.0);
}

#[test]
fn a_client_that_leaves_while_its_answer_is_held_leaves_nothing_behind() {
    let (host, say) = puppet();
    let proxy = Proxy::start(&host);
    let mut client = proxy.client();
    client.send(post("/a2a", CALL));
    say.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"error\":".into()).unwrap();
    proxy.assert_counts("held_bytes", "", 9.0);
    client.close();
    proxy.assert_counts("held_bytes", "", 0.0);
    proxy.assert_counts("inflight", "", 0.0);
}

/// I-5: an observed host's bytes are not touched; what would have been done is counted.
#[test]
fn an_observed_host_is_only_counted() {
    let host = ScriptedHost::saying(sized(200, NOT_FOUND));
    let mut settings = settings(&[host.address]);
    let mut policy = Policy { mode: Mode::Observe, ..Policy::default() };
    policy.oracle.floor_ms = 5000;
    settings.hosts[0].policy = Arc::new(policy);
    let proxy = Proxy::start_with(settings);
    let begin = std::time::Instant::now();
    proxy.ask(post("/a2a", GET_TASK)).assert_passed(200, NOT_FOUND);
    assert!(begin.elapsed() < Duration::from_secs(3), "the floor is for what is changed");
    proxy.assert_counts("rewrites_total", "rule=\"O-1\"", 1.0);
}

/// The verdict needs the head, which is on its way to the client when the body comes.
#[test]
fn an_observed_answer_in_pieces_is_judged_with_its_head() {
    let (host, say) = puppet();
    let mut settings = settings(&[host.address]);
    settings.hosts[0].policy = Arc::new(Policy { mode: Mode::Observe, ..Policy::default() });
    let proxy = Proxy::start_with(settings);
    let mut client = proxy.client();
    client.send(post("/a2a", GET_TASK));
    let challenge = "\r\nWWW-Authenticate: Bearer error=\"insufficient_scope\"\r\n";
    let answer = sized(403, NOT_FOUND).replacen("\r\n", challenge, 1);
    let (head, body) = answer.split_at(answer.find("\r\n\r\n").unwrap() + 4);
    for piece in [head, &body[..9], &body[9..]] {
        say.send(piece.to_owned()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    client.answer().assert_passed(403, NOT_FOUND);
    // The challenge says that this 403 is no task's (O-3).
    proxy.assert_counts("rewrites_total", "rule=\"F-1\"", 1.0);
    proxy.assert_counts("rewrites_total", "rule=\"O-3\"", 0.0);
}
