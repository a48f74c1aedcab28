//! Every way in which a host can fail, crossed with both bindings, unary and streamed calls, and clients of HTTP/1.1
//! and HTTP/2 (C-5, P-1, F-6, C-3): on a plain connection, over TLS, and while its card changes. What a client gets is
//! a complete answer with the request's id or a visible abort; never a cut body that looks whole, never nothing.
// A test says what went wrong by panicking.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic
)]

#[path = "proxy_chaos/cards.rs"]
mod cards;
#[path = "proxy_chaos/over_tls.rs"]
mod over_tls;
mod support;
#[path = "support/tls.rs"]
mod tls;

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

use a2a_errata::normalize::Policy;
use support::*;
use tls::{Http2, block_on};

/// What is asked for.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// Over HTTP+JSON.
    rest: bool,
    stream: bool,
}

/// What must become of it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Becomes {
    /// A complete fault, and nothing of the host's words.
    Fault,
    /// The same, in place of an answer, with this status.
    Own(u16),
    /// An answer that begins as the host's does and breaks off.
    Abort,
    /// The whole success, byte for byte.
    Success,
    /// A stream that is complete, with what came before and a fault in place of the host's.
    FaultInside,
    /// A stream that is complete, with nothing but what came before.
    Begin,
}

type Script = fn(&mut Visit, Asked);

impl Asked {
    const ALL: [Self; 4] = [
        Self { rest: false, stream: false },
        Self { rest: false, stream: true },
        Self { rest: true, stream: false },
        Self { rest: true, stream: true },
    ];

    fn request(self, filler: usize) -> (&'static str, String) {
        let text = format!("hi{}", "x".repeat(filler));
        match (self.rest, self.stream) {
            (false, false) => ("/a2a", CALL.replace("hi", &text)),
            (false, true) => {
                ("/a2a", CALL.replace("hi", &text).replace("SendMessage", "SendStreamingMessage"))
            }
            (true, stream) => {
                let path = if stream { "/rest/message:stream" } else { "/rest/message:send" };
                (path, format!(r#"{{"message":{{"messageId":"m","parts":[{{"text":"{text}"}}]}}}}"#))
            }
        }
    }

    fn of(request: &Message) -> Self {
        let first = request.first_line.as_str();
        let stream = first.contains(":stream") || request.text().contains("SendStreamingMessage");
        Self { rest: first.contains(" /rest"), stream }
    }

    fn error(self) -> String {
        if self.rest {
            r#"{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"acme at /srv/acme"}}"#.into()
        } else {
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"acme at /srv/acme"}}"#.into()
        }
    }

    fn event(self) -> String {
        let data = if self.rest { r#"{"task":{"id":"t"}}"# } else { SUCCESS };
        format!("data: {data}\n\n")
    }

    /// An error: an answer's body, or an event.
    fn bad(self) -> String {
        if !self.stream {
            return self.error();
        }
        let name = if self.rest { "event: error\n" } else { "" };
        format!("{name}data: {}\n\n", self.error())
    }

    /// A success that has begun to flow.
    fn good(self) -> String {
        if self.stream {
            return self.event();
        }
        let filler = "a".repeat(9000);
        if self.rest {
            format!(r#"{{"task":{{"id":"t","metadata":{{"text":"{filler}"}}}}}}"#)
        } else {
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"text":"{filler}"}}}}"#)
        }
    }

    /// The head of an error's answer, and what goes before it in a stream.
    fn bad_head(self, framing: &str) -> String {
        let status = if self.rest && !self.stream { 400 } else { 200 };
        let media = if self.stream { "text/event-stream" } else { "application/json" };
        // One that may be used again and is closed would be another kind of failure (P-2).
        format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Type: {media}\r\n{framing}\r\n")
    }

    fn before(self) -> String {
        if self.stream { self.event() } else { String::new() }
    }

    fn good_head(self, framing: &str) -> String {
        self.bad_head(framing).replacen(" 400 ", " 200 ", 1)
    }
}

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

fn chunk(bytes: &str) -> String {
    format!("{:x}\r\n{bytes}\r\n", bytes.len())
}

/// Half of it, as if more followed.
fn half(text: &str) -> &str {
    &text[..text.len() / 2]
}

fn begun_error(asked: Asked) -> String {
    let body = format!("{}{}", asked.before(), half(&asked.bad()));
    format!("{}{}", asked.bad_head(CHUNKED), chunk(&body))
}

fn begun_success(asked: Asked) -> String {
    let good = asked.good();
    let begin = if asked.stream { good.as_str() } else { &good[..8000] };
    format!("{}{}", asked.good_head(CHUNKED), chunk(begin))
}

fn silence() {
    thread::sleep(Duration::from_secs(4));
}

fn slowly(visit: &mut Visit, bytes: &str) {
    for part in bytes.as_bytes().chunks(bytes.len() / 25 + 1) {
        if !visit.send(part) {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// An error that is far longer than it looks.
fn bomb(asked: Asked) -> Vec<u8> {
    let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let bad = asked.bad();
    let (begin, end) = bad.split_at(bad.find("acme").unwrap());
    coder.write_all(asked.before().as_bytes()).unwrap();
    coder.write_all(begin.as_bytes()).unwrap();
    for _ in 0..500 {
        coder.write_all(&[b'a'; 10_000]).unwrap();
    }
    coder.write_all(end.as_bytes()).unwrap();
    coder.finish().unwrap()
}

/// What the host does, how much of a request there is, and what becomes of it: unary and streamed.
type Fault = (&'static str, usize, Script, Becomes, Becomes);

#[rustfmt::skip]
static FAULTS: &[Fault] = &[
    ("closes without an answer", 0, |_, _| {}, Becomes::Own(502), Becomes::Own(502)),
    ("closes inside an error", 0, |visit, asked| _ = visit.send(begun_error(asked)), Becomes::Own(502), Becomes::Abort),
    ("closes inside a success", 0, |visit, asked| _ = visit.send(begun_success(asked)), Becomes::Abort, Becomes::Abort),
    // What of the request is not read when it closes makes a reset of it.
    ("resets without an answer", 3_000_000, |_, _| {}, Becomes::Own(502), Becomes::Own(502)),
    ("stalls before its answer", 0, |_, _| silence(), Becomes::Own(504), Becomes::Own(504)),
    ("stalls inside its head", 0, |visit, asked| {
        visit.send(half(&asked.bad_head(CHUNKED)));
        silence();
    }, Becomes::Own(504), Becomes::Own(504)),
    ("stalls inside an error", 0, |visit, asked| {
        visit.send(begun_error(asked));
        silence();
    }, Becomes::Own(504), Becomes::Abort),
    ("stalls inside a success", 0, |visit, asked| {
        visit.send(begun_success(asked));
        silence();
    }, Becomes::Abort, Becomes::Abort),
    ("trickles an error", 0, |visit, asked| {
        let body = format!("{}{}", asked.before(), asked.bad());
        slowly(visit, &format!("{}{}0\r\n\r\n", asked.bad_head(CHUNKED), chunk(&body)));
    }, Becomes::Fault, Becomes::FaultInside),
    ("trickles a success", 0, |visit, asked| {
        slowly(visit, &format!("{}{}0\r\n\r\n", asked.good_head(CHUNKED), chunk(&asked.good())));
    }, Becomes::Success, Becomes::Success),
    ("sends more behind an error's end", 0, |visit, asked| {
        let body = format!("{}{}", asked.before(), asked.bad());
        visit.send(format!("{}{}0\r\n\r\nHTTP/1.1 200 acme\r\n\r\nacme", asked.bad_head(CHUNKED), chunk(&body)));
        silence();
    }, Becomes::Fault, Becomes::FaultInside),
    ("sends more behind a success's end", 0, |visit, asked| {
        visit.send(format!("{}{}0\r\n\r\nHTTP/1.1 200 acme\r\n\r\nacme", asked.good_head(CHUNKED), chunk(&asked.good())));
        silence();
    }, Becomes::Success, Becomes::Success),
    ("promises more of an error than it sends", 0, |visit, asked| {
        let body = format!("{}{}", asked.before(), asked.bad());
        visit.send(format!("{}{body}", asked.bad_head("Content-Length: 90000\r\n")));
    }, Becomes::Fault, Becomes::Abort),
    ("promises more of a success than it sends", 0, |visit, asked| {
        visit.send(format!("{}{}", asked.good_head("Content-Length: 90000\r\n"), asked.good()));
    }, Becomes::Abort, Becomes::Abort),
    ("promises less of an error than it sends", 0, |visit, asked| {
        let length = asked.before().len() + asked.bad().len() - 9;
        let framing = format!("Content-Length: {length}\r\n");
        visit.send(format!("{}{}{}", asked.bad_head(&framing), asked.before(), asked.bad()));
        silence();
    }, Becomes::Fault, Becomes::Begin),
    ("sends an error without end", 0, |visit, asked| {
        let endless = asked.bad().replace("\n\n", "").replace("}}", "").replace("\"}", "");
        let begin = format!("{}{}", asked.before(), endless.trim_end_matches('"'));
        visit.send(format!("{}{}", asked.bad_head(CHUNKED), chunk(&begin)));
        for _ in 0..300 {
            if !visit.send(chunk(&"acme".repeat(2500))) {
                return;
            }
        }
    }, Becomes::Fault, Becomes::Abort),
    ("sends a hundred hints before an error", 0, |visit, asked| {
        for _ in 0..100 {
            visit.send("HTTP/1.1 103 Early Hints\r\nLink: </acme>\r\n\r\n");
        }
        let body = format!("{}{}", asked.before(), asked.bad());
        visit.send(format!("{}{}0\r\n\r\n", asked.bad_head(CHUNKED), chunk(&body)));
    }, Becomes::Fault, Becomes::FaultInside),
    ("sends a bomb", 0, |visit, asked| {
        let bomb = bomb(asked);
        let framing = format!("Content-Encoding: gzip\r\nContent-Length: {}\r\n", bomb.len());
        visit.send(asked.bad_head(&framing));
        visit.send(bomb);
        silence();
    }, Becomes::Fault, Becomes::FaultInside),
    ("says what is no HTTP", 0, |visit, _| _ = visit.send("acme\0\r\n\r\nacme"), Becomes::Own(502), Becomes::Own(502)),
    ("chunks what is no chunk, in an error", 0, |visit, asked| {
        visit.send(format!("{}acme\r\n", begun_error(asked)));
        silence();
    }, Becomes::Fault, Becomes::Abort),
    ("chunks what is no chunk, in a success", 0, |visit, asked| {
        visit.send(format!("{}acme\r\n", begun_success(asked)));
        silence();
    }, Becomes::Abort, Becomes::Abort),
];

/// What a client got: the body, and whether it was whole.
struct Got {
    /// 0: none came.
    status: u16,
    text: String,
    complete: bool,
}

fn over_http_1(proxy: &Proxy, (path, body): (&str, &str), asked: Asked) -> Got {
    let mut request = post(path, body);
    if asked.stream {
        request = request.replacen("\r\n", "\r\nAccept: text/event-stream\r\n", 1);
    }
    let mut client = proxy.client();
    client.try_send(request);
    let mut answer = client.answer();
    while answer.status() == 103 {
        answer = client.answer();
    }
    Got { status: answer.status(), text: answer.text(), complete: answer.complete }
}

fn over_http_2(proxy: &Proxy, (path, body): (&str, &str)) -> Got {
    block_on(async {
        let (client, driver) = Http2::in_the_clear(proxy.address).await.unwrap();
        let driver = tokio::spawn(driver);
        let whole = async {
            let mut answer = client.post(path, body.to_owned().into()).await?;
            Ok::<_, h2::Error>((answer.status, answer.rest().await?))
        };
        let whole = tokio::time::timeout(PATIENCE, whole).await;
        driver.abort();
        match whole.expect("nothing in time") {
            Ok((status, body)) => {
                Got { status, text: String::from_utf8_lossy(&body).into_owned(), complete: true }
            }
            Err(_) => Got { status: 0, text: String::new(), complete: false },
        }
    })
}

/// The error in it is one that the client can use, and nothing of the host's.
fn assert_fault(name: &str, asked: Asked, text: &str) {
    let json = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(text);
    let json: serde_json::Value =
        serde_json::from_str(json).unwrap_or_else(|e| panic!("{name}: {e}: {text}"));
    if asked.rest {
        assert!(json["error"]["code"].is_u64() && json["error"]["status"].is_string(), "{name}: {text}");
    } else {
        assert_eq!(json["id"].to_string(), "7", "{name}: {text}");
        assert!(json["error"]["code"].is_i64() && json["result"].is_null(), "{name}: {text}");
    }
    assert!(!text.contains("acme"), "{name}: {text}");
}

fn check(name: &str, asked: Asked, becomes: Becomes, got: &Got) {
    let Got { status, text, complete } = got;
    assert_eq!(*complete, becomes != Becomes::Abort, "{name}: {text}");
    match becomes {
        Becomes::Fault => assert_fault(name, asked, text),
        Becomes::Own(own) => {
            assert_eq!(*status, own, "{name}: {text}");
            assert_fault(name, asked, text);
        }
        Becomes::Success => assert_eq!(*text, asked.good(), "{name}"),
        Becomes::Begin => assert_eq!(*text, asked.before(), "{name}"),
        Becomes::FaultInside => {
            let rest = text.strip_prefix(&asked.before()).unwrap_or_else(|| panic!("{name}: {text}"));
            assert!(rest.ends_with("\n\n"), "{name}: {text}");
            assert_fault(name, asked, rest);
        }
        // Of the error that broke off nothing is there.
        Becomes::Abort => assert!(!text.replace(&asked.event(), "").contains("acme"), "{name}: {text}"),
    }
}

/// How often code of the proxy panicked.
fn panics() -> &'static AtomicUsize {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !panic.location().is_some_and(|at| at.file().starts_with("tests/")) {
                PANICS.fetch_add(1, Ordering::SeqCst);
            }
            before(panic);
        }));
    });
    &PANICS
}

fn chaotic(change: impl Fn(&mut a2a_errata::proxy::Settings), host: &ScriptedHost) -> Proxy {
    let mut settings = settings(&[host.address]);
    settings.hosts[0].timeouts.read = Duration::from_secs(1);
    let policy = Policy { response_cap_bytes: 16_384, intake_bytes: 65_536, ..Policy::default() };
    settings.hosts[0].policy = Arc::new(policy);
    change(&mut settings);
    Proxy::start_with(settings)
}

fn cross(name: &str, filler: usize, proxy: &Proxy, unary: Becomes, streamed: Becomes) {
    for asked in Asked::ALL {
        let becomes = if asked.stream { streamed } else { unary };
        let (path, body) = asked.request(filler);
        let name = format!("a host that {name}, {asked:?}");
        check(&format!("{name}, HTTP/1.1"), asked, becomes, &over_http_1(proxy, (path, &body), asked));
        check(&format!("{name}, HTTP/2"), asked, becomes, &over_http_2(proxy, (path, &body)));
    }
    proxy.assert_counts("inflight", "", 0.0);
    proxy.assert_counts("held_bytes", "", 0.0);
}

/// Most of them wait most of the time.
fn at_once<T: Sync>(all: &[T], each: impl Fn(&T) + Copy + Send) {
    let panics = panics();
    thread::scope(|scope| {
        for some in all.chunks(all.len().div_ceil(4)) {
            scope.spawn(move || some.iter().for_each(each));
        }
    });
    assert_eq!(panics.load(Ordering::SeqCst), 0);
}

#[test]
fn every_failure_is_a_complete_fault_or_a_visible_abort() {
    at_once(FAULTS, try_out);
}

#[test]
fn every_failure_of_tls_is_a_complete_fault_or_a_visible_abort() {
    let hosts = over_tls::Certificates::new();
    at_once(over_tls::FAULTS, |fault| over_tls::try_out(fault, &hosts));
}

#[test]
fn a_card_that_changes_under_calls_changes_none_of_them() {
    at_once(cards::CHANGES, cards::try_out);
}

fn try_out((name, filler, script, unary, streamed): &Fault) {
    let (script, reads_all) = (*script, *filler == 0);
    let host = ScriptedHost::start(move |visit| {
        if reads_all {
            let Some(request) = visit.request() else { return };
            script(visit, Asked::of(&request));
        } else {
            visit.connection.until(b"\r\n\r\n");
        }
    });
    let proxy = chaotic(|_| {}, &host);
    cross(name, *filler, &proxy, *unary, *streamed);
}
