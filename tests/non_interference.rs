//! "Not yours" and "not there" are the same bytes, whatever the host says of each (O-1 to O-4): generated pairs of
//! answers, sent by a real host through a real proxy, and compared as the client's socket received them. What must
//! never be told as "not found" never is.
//!
//! `PAIRS` sets how many pairs each test tries; a failure names the case's number, and a case depends on its number
//! alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use a2a_errata::normalize::{Oracle, Policy};
use a2a_errata::probe::ranks::signed_ranks;
use flate2::{Compression, write::GzEncoder};
use support::{PATIENCE, Proxy, ScriptedHost, Visit, settings};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const CAP: usize = 4096;
const INTAKE: usize = 16 * 1024;

fn pairs(by_default: u64) -> u64 {
    std::env::var("PAIRS").ok().and_then(|number| number.parse().ok()).unwrap_or(by_default)
}

/// Random choices that depend on a number alone (SplitMix64).
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}

/// What a host sends for one request: pieces of a connection's bytes, and whether it closes then.
#[derive(Debug, Clone)]
struct Said {
    pieces: Vec<Vec<u8>>,
    pause: Duration,
    closes: bool,
}

/// What a client asks, and in which binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    JsonRpc,
    JsonRpcStream,
    HttpJson,
}

impl Asked {
    const ALL: [Self; 3] = [Self::JsonRpc, Self::JsonRpcStream, Self::HttpJson];

    fn request(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::JsonRpc => {
                ("POST", "/a2a", r#"{"jsonrpc":"2.0","id":"r-1","method":"GetTask","params":{"id":"t-1"}}"#)
            }
            Self::JsonRpcStream => (
                "POST",
                "/a2a",
                r#"{"jsonrpc":"2.0","id":"r-1","method":"SubscribeToTask","params":{"id":"t-1"}}"#,
            ),
            Self::HttpJson => ("GET", "/rest/tasks/t-1", ""),
        }
    }
}

/// Codes of the first row of the table of envelopes, in any binding "not found".
const ENVELOPES: [&str; 9] = [
    "not_found",
    "run_not_found",
    "task_not_found",
    "run_forbidden",
    "id_tenant_mismatch",
    "workspace_membership_required",
    "forbidden_tenant",
    "replay_source_missing",
    "interrupt_not_found",
];

const REASONS: [&str; 5] =
    ["PERMISSION_DENIED", "FORBIDDEN", "UNAUTHORIZED", "ACCESS_DENIED", "TASK_NOT_FOUND"];

/// Texts that tell something, or are no text at all.
const BODIES: [&str; 12] = [
    "",
    " ",
    "acme/t-1 belongs to acme",
    "<html><body>acme</body></html>",
    "{\"detail\":\"acme\"}",
    "{\"jsonrpc\":",
    "[]",
    "\u{feff}{}",
    "null",
    "{\"error\":{\"message\":\"acme\"}}",
    "\"acme\"",
    "{\"error\":\"acme\",\"error\":\"twice\"}",
];

/// Headers that could tell one task from another.
const HEADERS: [&str; 16] = [
    "ETag: \"acme-41\"",
    "Set-Cookie: sid=acme; Path=/",
    "Set-Cookie: other=1",
    "X-Tenant: acme",
    "Server: acme/1.2",
    "Link: <https://acme.example/t>; rel=next",
    "Location: /acme",
    "WWW-Authenticate: Bearer realm=\"acme\"",
    "Retry-After: 7",
    "Cache-Control: max-age=41",
    "Vary: Origin",
    "A2A-Version: 1.0",
    "Access-Control-Allow-Origin: https://acme.example",
    "RateLimit-Remaining: 41",
    "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT",
    "Content-Language: acme",
];

/// A status and a body that mean "not found" or "not yours" to a call that addresses a task (O-3).
fn collapses(choices: &mut Choices, asked: Asked) -> (u16, String) {
    let pad = match choices.below(8) {
        0 => CAP + choices.below(200),
        1 => INTAKE - 100 + choices.below(200),
        2 => INTAKE * 2,
        _ => choices.below(60),
    };
    let text = "acme ".repeat(pad / 5);
    let refusing = *choices.pick(&[403_u16, 404, 410]);
    if choices.one_in(4) {
        return (refusing, format!("{}{text}", choices.pick(&BODIES)));
    }
    let envelope = format!(r#"{{"error":"{}","message":"{text}"}}"#, choices.pick(&ENVELOPES));
    if choices.one_in(4) {
        let status = *choices.pick(&[200_u16, 400, 403, 404, 409, 410]);
        return (status, envelope);
    }
    let reason = choices.pick(&REASONS);
    let data = match choices.below(4) {
        0 => r#","data":{"owner":"acme"}"#.to_owned(),
        1 => format!(
            r#","data":[{{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"{reason}","domain":"acme"}}]"#
        ),
        2 => format!(r#","data":{{"reason":"{reason}","tenant":"acme"}}"#),
        _ => String::new(),
    };
    if asked == Asked::HttpJson {
        let status = *choices.pick(&[403_u16, 404, 410, 422]);
        let code = status;
        return (
            status,
            format!(
                r#"{{"error":{{"code":{code},"status":"NOT_FOUND","message":"{text}","details":[{{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org","metadata":{{"owner":"acme"}}}}]}}}}"#
            ),
        );
    }
    // -32602 of a request that is well-formed; the proxy itself found no fault with it.
    let code = *choices.pick(&["-32001", "-32001", "\"-32001\"", "-32001.0", "-31403", "-32602"]);
    let id = *choices.pick(&["\"r-1\"", "null", "7", "\"acme\""]);
    let status = if code.starts_with("-32001") {
        *choices.pick(&[200_u16, 400, 403, 404, 409, 410, 500])
    } else {
        *choices.pick(&[200_u16, 400, 403])
    };
    let mut members = [
        r#""jsonrpc":"2.0""#.to_owned(),
        format!(r#""id":{id}"#),
        format!(r#""error":{{"code":{code},"message":"{text}"{data}}}"#),
    ];
    if choices.one_in(3) {
        members.reverse();
    }
    let space = *choices.pick(&["", " ", "\n  "]);
    (status, format!("{{{space}{}{space}}}", members.join(&format!(",{space}"))))
}

/// What must never be told as "not found": refusals of authentication and failures of infrastructure.
fn stays(choices: &mut Choices, asked: Asked) -> (u16, String, &'static str) {
    let error = |code: &str| match asked {
        Asked::HttpJson => r#"{"error":{"code":500,"status":"INTERNAL","message":"acme"}}"#.to_owned(),
        _ => format!(r#"{{"jsonrpc":"2.0","id":"r-1","error":{{"code":{code},"message":"acme"}}}}"#),
    };
    let body = choices.pick(&BODIES).to_string();
    match choices.below(6) {
        0 => (401, body, "WWW-Authenticate: Bearer"),
        1 => (429, body, "Retry-After: 7"),
        2 => (*choices.pick(&[500_u16, 502, 503, 504]), body, "X-A: b"),
        3 => (403, body, "WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"acme\""),
        4 => (if asked == Asked::HttpJson { 500 } else { 200 }, error("-32603"), "X-A: b"),
        _ => (401, error("-32001"), "WWW-Authenticate: Bearer"),
    }
}

/// As bytes of a connection: some headers, some framing, some coding, some split.
fn framed(choices: &mut Choices, asked: Asked, status: u16, body: &str, more: &str) -> Said {
    let as_event = asked == Asked::JsonRpcStream && status == 200 && choices.one_in(2);
    let mut body = if as_event {
        let (before, after) =
            *choices.pick(&[("", "\n\n"), (": acme\n\n", "\r\n\r\n"), ("id: acme\nevent: x\n", "\n\n")]);
        format!("{before}data: {}{after}", body.replace('\n', "")).into_bytes()
    } else {
        body.as_bytes().to_vec()
    };
    let kind = if as_event {
        "text/event-stream"
    } else {
        choices.pick(&[
            "application/json",
            "application/problem+json",
            "text/html",
            "text/plain; charset=utf-8",
        ])
    };
    let mut head = format!("Content-Type: {kind}\r\n{more}");
    if !more.is_empty() {
        head.push_str("\r\n");
    }
    for _ in 0..choices.below(5) {
        let header = choices.pick(&HEADERS);
        // Said by the case itself, with a meaning.
        if !header.starts_with("WWW-Authenticate") || !more.starts_with("WWW-Authenticate") {
            head.push_str(header);
            head.push_str("\r\n");
        }
    }
    if choices.one_in(6) && !body.is_empty() {
        let mut coder = GzEncoder::new(Vec::new(), Compression::fast());
        coder.write_all(&body).unwrap();
        body = coder.finish().unwrap();
        head.push_str("Content-Encoding: gzip\r\n");
    }
    let framing = choices.below(3);
    let closes = framing == 2 || choices.one_in(6);
    if closes {
        // Said, or the proxy could send the next request on a connection that is about to go, which nobody may send
        // again (P-2).
        head.push_str("Connection: close\r\n");
    }
    let reason = choices.pick(&["OK", "Acme Owns This", "Not Found", ""]);
    let mut bytes = format!("HTTP/1.1 {status} {reason}\r\n{head}").into_bytes();
    match framing {
        0 => {
            bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
            bytes.extend(&body);
        }
        1 => {
            bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
            let size = 1 + choices.below(body.len().max(1));
            let extension = *choices.pick(&["", "", ";owner=acme"]);
            for chunk in body.chunks(size.max(body.len() / 40 + 1)) {
                bytes.extend(format!("{:x}{extension}\r\n", chunk.len()).bytes());
                bytes.extend(chunk);
                bytes.extend(b"\r\n");
            }
            bytes.extend(*choices.pick(&[&b"0\r\n\r\n"[..], b"0\r\nX-Owner: acme\r\n\r\n"]));
        }
        _ => {
            bytes.extend(b"\r\n");
            bytes.extend(&body);
        }
    }
    let count = *choices.pick(&[1, 1, 2, 5]);
    let size = bytes.len().div_ceil(count).max(1);
    let pause = Duration::from_millis(choices.below(3) as u64);
    Said { pieces: bytes.chunks(size).map(<[u8]>::to_vec).collect(), pause, closes }
}

/// A host that says for each request what was laid down for its `X-Case`.
struct Scripted {
    host: ScriptedHost,
    answers: Arc<Mutex<HashMap<u64, Said>>>,
}

impl Scripted {
    fn new() -> Self {
        let answers = Arc::new(Mutex::new(HashMap::<u64, Said>::new()));
        let laid_down = answers.clone();
        let script = move |visit: &mut Visit| {
            while let Some(request) = visit.request() {
                let case = request.header("x-case").unwrap().parse().unwrap();
                let said = laid_down.lock().unwrap().remove(&case).unwrap();
                for (n, piece) in said.pieces.iter().enumerate() {
                    if n > 0 {
                        thread::sleep(said.pause);
                    }
                    // The proxy may have heard enough.
                    if !visit.send(piece) {
                        return;
                    }
                }
                if said.closes {
                    return;
                }
            }
        };
        Self { host: ScriptedHost::start(script), answers }
    }

    fn proxy(&self, oracle: Oracle) -> Proxy {
        let mut settings = settings(&[self.host.address]);
        settings.hosts[0].policy =
            Arc::new(Policy { response_cap_bytes: CAP, intake_bytes: INTAKE, oracle, ..Policy::default() });
        Proxy::start_with(settings)
    }

    fn lay_down(&self, case: u64, said: Said) {
        self.answers.lock().unwrap().insert(case, said);
    }
}

/// An HTTP/1 client that reads everything up to the close, and then a benign call on the same connection, so that
/// what becomes of the connection is compared too.
fn over_http_1(proxy: &Proxy, asked: Asked, case: u64) -> Vec<u8> {
    let (method, path, body) = asked.request();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: h\r\nA2A-Version: 1.0\r\nX-Case: {case}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let last =
        format!("GET /plain HTTP/1.1\r\nHost: h\r\nX-Case: {}\r\nConnection: close\r\n\r\n", u64::MAX - case);
    let mut socket = std::net::TcpStream::connect(proxy.address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    socket.write_all(last.as_bytes()).unwrap();
    let mut seen = Vec::new();
    socket.read_to_end(&mut seen).unwrap();
    seen
}

/// The bytes without the values of `Date`.
fn undated(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let is_date = |line: &&str| !line.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("date:"));
    text.split("\r\n").filter(is_date).collect::<Vec<_>>().join("\r\n")
}

/// A socket that remembers what it received.
struct Tapped {
    socket: tokio::net::TcpStream,
    received: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Tapped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(cx, buf);
        self.received.lock().unwrap().extend_from_slice(&buf.filled()[before..]);
        polled
    }
}

impl AsyncWrite for Tapped {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// Every frame that an HTTP/2 client gets of an answer, on a connection of its own, and the answer's `Date`.
fn over_http_2(proxy: &Proxy, asked: Asked, case: u64) -> (Vec<Vec<u8>>, String) {
    let (method, path, body) = asked.request();
    let request = http::Request::builder()
        .method(method)
        .uri(format!("http://h{path}"))
        .header("a2a-version", "1.0")
        .header("x-case", case)
        .header("content-type", "application/json")
        .body(())
        .unwrap();
    let received = Arc::new(Mutex::new(Vec::new()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let date = runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(proxy.address).await.unwrap();
        let (mut send, connection) =
            h2::client::handshake(Tapped { socket, received: received.clone() }).await.unwrap();
        let driver = tokio::spawn(connection);
        let exchange = async {
            let (answer, mut stream) = send.send_request(request, body.is_empty()).unwrap();
            if !body.is_empty() {
                stream.send_data(bytes::Bytes::from_static(body.as_bytes()), true).unwrap();
            }
            let (head, mut body) = answer.await.unwrap().into_parts();
            while let Some(piece) = body.data().await {
                let _ = body.flow_control().release_capacity(piece.unwrap().len());
            }
            head.headers["date"].to_str().unwrap().to_owned()
        };
        let date = tokio::time::timeout(PATIENCE, exchange).await.unwrap();
        driver.abort();
        date
    });
    (frames_of_answers(&received.lock().unwrap()), date)
}

/// HEADERS, DATA, RST_STREAM; not what is the connection's.
fn frames_of_answers(received: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut rest = received;
    while rest.len() >= 9 {
        let length = usize::from(rest[0]) << 16 | usize::from(rest[1]) << 8 | usize::from(rest[2]);
        let (frame, after) = rest.split_at((9 + length).min(rest.len()));
        if frame[5..9] != [0, 0, 0, 0] {
            frames.push(frame.to_vec());
        }
        rest = after;
    }
    frames
}

/// Every pair is two answers of its own to one request.
fn pair(choices: &mut Choices, asked: Asked) -> [Said; 2] {
    [(); 2].map(|()| {
        let (status, body) = collapses(choices, asked);
        framed(choices, asked, status, &body, "")
    })
}

/// What the client gets after the answer, on the same connection.
fn benign() -> Said {
    let pieces = vec![b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()];
    Said { pieces, pause: Duration::ZERO, closes: false }
}

#[test]
fn o1_http_1_clients_get_the_same_bytes() {
    let scripted = Scripted::new();
    let proxy = scripted.proxy(Oracle::default());
    for number in 0..pairs(400) {
        let mut choices = Choices(number);
        let asked = *choices.pick(&Asked::ALL);
        let both = pair(&mut choices, asked);
        let seen = [0, 1].map(|side| {
            let case = number * 2 + side as u64;
            scripted.lay_down(case, both[side].clone());
            scripted.lay_down(u64::MAX - case, benign());
            undated(&over_http_1(&proxy, asked, case))
        });
        let told = || {
            let sent = both
                .each_ref()
                .map(|said| String::from_utf8_lossy(&said.pieces.concat()).replace("acme acme ", ""));
            format!("case {number}, {asked:?}\n--- one\n{}\n--- other\n{}", sent[0], sent[1])
        };
        assert_eq!(seen[0], seen[1], "{}", told());
        assert!(seen[0].contains("Task not found") && !seen[0].contains("acme"), "{}\n{}", seen[0], told());
        assert!(seen[0].ends_with("ok"), "the connection is lost: {}\n{}", seen[0], told());
    }
}

#[test]
fn o1_http_2_clients_get_the_same_frames() {
    let scripted = Scripted::new();
    let proxy = scripted.proxy(Oracle::default());
    for number in 0..pairs(200) {
        // Within one second, or `Date` would differ.
        let mut seen = Vec::new();
        for _ in 0..10 {
            let mut choices = Choices(!number);
            let asked = *choices.pick(&Asked::ALL);
            let both = pair(&mut choices, asked);
            seen = (0..2)
                .map(|side| {
                    let case = number * 2 + side as u64;
                    scripted.lay_down(case, both[side].clone());
                    over_http_2(&proxy, asked, case)
                })
                .collect();
            if seen[0].1 == seen[1].1 {
                break;
            }
        }
        assert!(seen[0] == seen[1], "case {number}:\n{:?}\n{:?}", seen[0], seen[1]);
        assert!(seen[0].0.len() >= 2, "case {number}: {seen:?}");
    }
}

#[test]
fn o3_what_is_no_not_found_is_never_told_as_one() {
    let scripted = Scripted::new();
    let proxy = scripted.proxy(Oracle::default());
    for number in 0..pairs(400) {
        let mut choices = Choices(number ^ 0xA2A);
        let asked = *choices.pick(&Asked::ALL);
        let (status, body, header) = stays(&mut choices, asked);
        scripted.lay_down(number, framed(&mut choices, asked, status, &body, header));
        scripted.lay_down(u64::MAX - number, benign());
        let seen = undated(&over_http_1(&proxy, asked, number));
        let is_not_found =
            seen.contains("Task not found") || seen.contains("TASK_NOT_FOUND") || seen.contains("-32001");
        assert!(!is_not_found, "case {number}, {asked:?}, {status} {body:?}:\n{seen}");
        assert!(
            seen.starts_with(&format!("HTTP/1.1 {status} ")),
            "case {number}, {asked:?}, {status} {body:?}:\n{seen}"
        );
    }
}

/// A host that takes five milliseconds longer for somebody else's task.
fn tenant_checking_host() -> ScriptedHost {
    ScriptedHost::start(|visit| {
        while let Some(request) = visit.request() {
            if request.text().contains("foreign") {
                thread::sleep(Duration::from_millis(5));
            }
            if !visit.send(support::sized(404, "acme")) {
                return;
            }
        }
    })
}

fn floored(host: &ScriptedHost, floor_ms: u64) -> Proxy {
    let mut settings = settings(&[host.address]);
    let oracle = Oracle { floor_ms, ..Oracle::default() };
    settings.hosts[0].policy = Arc::new(Policy { oracle, ..Policy::default() });
    Proxy::start_with(settings)
}

/// Paired times of that host.
fn timed(floor_ms: u64) -> Vec<(f64, f64)> {
    const EACH: usize = 250;
    const CLIENTS: usize = 8;
    let host = tenant_checking_host();
    let address = floored(&host, floor_ms).address;
    let clients: [_; CLIENTS] = std::array::from_fn(|which| {
        thread::spawn(move || {
            let mut client = support::Connection::connect(address);
            let mut time = |task: &str| {
                let call = support::GET_TASK.replace("t-1", task);
                let began = Instant::now();
                client.send(support::post("/a2a", &call));
                client.answer().assert_fault(200, "7");
                began.elapsed().as_secs_f64()
            };
            // Which one is asked first takes turns, so that what comes second is nobody's disadvantage; and half of the
            // clients ask the one while the others ask the other, since the floor keeps all of them in step, and what
            // is answered at once would be in the way of its like.
            let pair = |n| {
                if (n + which) % 2 == 0 {
                    (time("foreign"), time("missing"))
                } else {
                    let missing = time("missing");
                    (time("foreign"), missing)
                }
            };
            (0..EACH).map(pair).collect::<Vec<_>>()
        })
    });
    clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
}

/// Two thousand pairs each. Without the floor the difference is plain, so that the test can tell; with it, nothing is
/// left that the test could see.
#[test]
fn o4_the_floor_hides_what_a_tenant_check_takes() {
    let bare = signed_ranks(&timed(0)).unwrap();
    println!("without a floor: {bare:?}");
    assert!(bare.effect > 0.9 && bare.p < 1e-9, "{bare:?}");
    let floored = signed_ranks(&timed(50)).unwrap();
    println!("with a floor of 50 ms: {floored:?}");
    assert!(floored.effect.abs() < 0.1 && floored.p > 1e-4, "{floored:?}");
}

/// On one connection of HTTP/2 the order of two answers is plain to see, to the microsecond and without a clock. Whichever of
/// them the host takes longer for, they leave as they were asked for.
#[test]
fn o4_the_order_of_answers_is_that_of_their_requests() {
    const ROUNDS: usize = 40;
    let host = tenant_checking_host();
    let proxy = floored(&host, 50);
    let received = Arc::new(Mutex::new(Vec::new()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let rounds = runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(proxy.address).await.unwrap();
        let tapped = Tapped { socket, received: received.clone() };
        let (mut send, connection) = h2::client::handshake(tapped).await.unwrap();
        let driver = tokio::spawn(connection);
        let mut rounds = Vec::new();
        for round in 0..ROUNDS {
            send = send.ready().await.unwrap();
            let tasks = if round % 2 == 0 { ["foreign", "missing"] } else { ["missing", "foreign"] };
            let answers = tasks.map(|task| {
                let request = http::Request::post("http://h/a2a")
                    .header("a2a-version", "1.0")
                    .header("content-type", "application/json")
                    .body(())
                    .unwrap();
                let (answer, mut stream) = send.send_request(request, false).unwrap();
                let call = r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"TASK"}}"#;
                stream.send_data(call.replace("TASK", task).into(), true).unwrap();
                answer
            });
            rounds.push(answers.each_ref().map(|answer| answer.stream_id().as_u32()));
            for answer in answers {
                let mut body = tokio::time::timeout(PATIENCE, answer).await.unwrap().unwrap().into_body();
                while let Some(piece) = body.data().await {
                    let _ = body.flow_control().release_capacity(piece.unwrap().len());
                }
            }
        }
        driver.abort();
        rounds
    });
    let frames = frames_of_answers(&received.lock().unwrap());
    let heads: Vec<u32> = frames
        .iter()
        .filter(|frame| frame[3] == 1)
        .map(|frame| u32::from_be_bytes(frame[5..9].try_into().unwrap()))
        .collect();
    assert_eq!(heads, rounds.concat());
}
