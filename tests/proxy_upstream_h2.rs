//! Hosts that are spoken to in HTTP/2 (U-3): whatever the proxy does with an answer over HTTP/1.1 it does with one
//! over HTTP/2, and it knows what a host has not looked at (P-2).
// A test says what went wrong by panicking.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic
)]

mod support;

use std::future::Future;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use a2a_errata::proxy::{Http2, Settings, Upstream, UpstreamTls};
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Response, request};
use support::*;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
    })
}

/// A request as the host sees it.
struct Asked {
    head: request::Parts,
    body: RecvStream,
    answer: SendResponse<Bytes>,
    /// The how manieth of all requests it is, from 0.
    number: usize,
    /// Ends the connection gracefully, with this stream as its last.
    last: Arc<Notify>,
}

impl Asked {
    /// All of the body.
    async fn read(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(Ok(piece)) = self.body.data().await {
            let _ = self.body.flow_control().release_capacity(piece.len());
            all.extend_from_slice(&piece);
        }
        all
    }

    fn head(&mut self, status: u16, content_type: &str, end: bool) -> SendStream<Bytes> {
        let head = Response::builder().status(status).header("content-type", content_type).body(()).unwrap();
        self.answer.send_response(head, end).unwrap()
    }

    async fn say(&mut self, status: u16, body: &str) {
        self.read().await;
        let mut stream = self.head(status, "application/json", false);
        send(&mut stream, body, true).await;
    }
}

/// Sends as the window allows.
async fn send(stream: &mut SendStream<Bytes>, text: &str, end: bool) -> bool {
    let mut rest = Bytes::copy_from_slice(text.as_bytes());
    while !rest.is_empty() {
        stream.reserve_capacity(rest.len());
        match std::future::poll_fn(|cx| stream.poll_capacity(cx)).await {
            Some(Ok(room)) => {
                let piece = rest.split_to(room.min(rest.len()));
                if stream.send_data(piece, false).is_err() {
                    return false;
                }
            }
            _ => return false,
        }
    }
    !end || stream.send_data(Bytes::new(), true).is_ok()
}

type Script = dyn Fn(Asked) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// A host that speaks HTTP/2 without being asked, or over TLS.
struct Host {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<(request::Parts, usize)>>>,
}

impl Host {
    fn start<F>(script: impl Fn(Asked) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let script: Arc<Script> = Arc::new(move |asked| Box::pin(script(asked)));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (count, seen) = (connections.clone(), requests.clone());
        runtime().spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((socket, _)) = listener.accept().await {
                let connection = count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(socket, script.clone(), seen.clone(), connection));
            }
        });
        Self { address, connections, requests }
    }

    /// Answers everything with this.
    fn saying(status: u16, body: impl Into<String>) -> Self {
        let body = body.into();
        Self::start(move |mut asked| {
            let body = body.clone();
            async move { asked.say(status, &body).await }
        })
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn requests(&self) -> Vec<(request::Parts, usize)> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(
    socket: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    script: Arc<Script>,
    seen: Arc<Mutex<Vec<(request::Parts, usize)>>>,
    number: usize,
) {
    let Ok(mut connection) = h2::server::handshake(socket).await else { return };
    let last = Arc::new(Notify::new());
    loop {
        let accepted = tokio::select! {
            accepted = connection.accept() => accepted,
            () = last.notified() => {
                connection.graceful_shutdown();
                continue;
            }
        };
        let Some(Ok((request, answer))) = accepted else { return };
        let (head, body) = request.into_parts();
        let mut seen = seen.lock().unwrap();
        let asked = Asked { head: head.clone(), body, answer, number: seen.len(), last: last.clone() };
        seen.push((head, number));
        tokio::spawn(script(asked));
    }
}

fn settings_for(upstreams: &[SocketAddr]) -> Settings {
    let mut settings = settings(upstreams);
    for upstream in &mut settings.hosts[0].upstreams {
        upstream.http2 = Http2::PriorKnowledge;
    }
    settings
}

fn proxy(host: &Host) -> Proxy {
    Proxy::start_with(settings_for(&[host.address]))
}

#[test]
fn answers_pass_or_are_repaired() {
    let host = Host::start(|mut asked| async move {
        let body = String::from_utf8(asked.read().await).unwrap();
        let (status, answer) = match body.as_str() {
            CALL => (500, ERROR.to_owned()),
            GET_TASK => (404, NOT_FOUND.to_owned()),
            _ if asked.head.uri.path() == "/docs" => (200, "docs".to_owned()),
            _ => (200, long_success()),
        };
        asked.say(status, &answer).await;
    });
    let proxy = proxy(&host);
    let mut client = proxy.client();
    for _ in 0..2 {
        client.send(post("/a2a", CALL));
        let answer = client.answer();
        answer.assert_fault(200, "7");
        assert_eq!(answer.json()["error"]["data"][0]["reason"], "UNSUPPORTED_OPERATION");
        client.send(post("/a2a", GET_TASK));
        let answer = client.answer();
        answer.assert_fault(200, "7");
        assert_eq!(answer.json()["error"]["message"], "Task not found");
        client.send(post("/a2a", &CALL.replace("hi", "long")));
        client.answer().assert_passed(200, &long_success());
        client.send(get("/docs"));
        client.answer().assert_passed(200, "docs");
    }
    let seen = host.requests();
    assert_eq!((host.connections(), seen.len()), (1, 8));
    for (head, _) in seen {
        assert_eq!(head.version, http::Version::HTTP_2);
        assert_eq!((head.uri.scheme_str(), head.uri.authority().unwrap().as_str()), (Some("http"), "h"));
        assert!(!head.headers.contains_key("host") && head.headers.contains_key("via"), "{head:?}");
        assert_eq!(head.headers["a2a-version"], "1.0");
    }
}

/// Requests of any framing and length reach the host as they are.
#[test]
fn request_bodies_go_both_ways() {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let host = Host::start(move |mut asked| {
        let tell = tell.lock().unwrap().clone();
        async move {
            tell.send(asked.read().await).unwrap();
            asked.say(200, SUCCESS).await;
        }
    });
    let proxy = proxy(&host);
    let mut client = proxy.client();
    let long = CALL.replace("hi", &"x".repeat(3_000_000));
    for body in [CALL, &long] {
        client.send(post("/a2a", body));
        client.answer().assert_passed(200, SUCCESS);
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), body.as_bytes());
    }
    client.send("POST /a2a HTTP/1.1\r\nHost: h\r\nA2A-Version: 1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
    for piece in CALL.as_bytes().chunks(10) {
        client.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
        thread::sleep(Duration::from_millis(2));
    }
    client.send("0\r\n\r\n");
    client.answer().assert_passed(200, SUCCESS);
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), CALL.as_bytes());
    // One that waits to be told to go on is told, though the host would tell nobody.
    client.send(post("/a2a", CALL).replacen("Host:", "Expect: 100-continue\r\nHost:", 1).replace(CALL, ""));
    assert_eq!(client.answer().status(), 100);
    client.send(CALL);
    client.answer().assert_passed(200, SUCCESS);
    assert!(host.requests().iter().all(|(head, _)| !head.headers.contains_key("expect")));
}

#[test]
fn heads_without_a_body_and_old_clients() {
    let host = Host::start(|mut asked| async move {
        if asked.head.method == "HEAD" {
            let head = Response::builder().status(200).header("content-length", "1234").body(()).unwrap();
            asked.answer.send_response(head, true).unwrap();
        } else if asked.head.uri.path() == "/gone" {
            asked.head(204, "text/plain", true);
        } else {
            asked.say(200, SUCCESS).await;
        }
    });
    let proxy = proxy(&host);
    let mut client = proxy.client();
    client.send("HEAD /docs HTTP/1.1\r\nHost: h\r\n\r\n");
    let answer = client.answer_to("HEAD");
    assert_eq!((answer.status(), answer.header("content-length")), (200, Some("1234")));
    client.send(get("/gone"));
    assert_eq!(client.answer().status(), 204);
    // HTTP/1.0 knows no chunks, and need not name a host.
    for path in ["/docs", "/a2a"] {
        let mut client = proxy.client();
        let request = format!("POST {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{CALL}", CALL.len());
        client.send(request);
        let answer = client.answer();
        assert_eq!(answer.header("transfer-encoding"), None, "{answer:?}");
        answer.assert_passed(200, SUCCESS);
    }
    assert_eq!(host.requests().last().unwrap().0.uri.authority().unwrap().as_str(), host.address.to_string());
}

#[test]
fn streams_flow_event_by_event_and_are_repaired() {
    let good = "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"n\":1}}\n\n";
    let (go_on, goes_on) = mpsc::channel::<()>();
    let goes_on = Arc::new(Mutex::new(goes_on));
    let host = Host::start(move |mut asked| {
        let goes_on = goes_on.clone();
        async move {
            asked.read().await;
            let mut stream = asked.head(200, "text/event-stream", false);
            send(&mut stream, good, false).await;
            tokio::task::spawn_blocking(move || goes_on.lock().unwrap().recv().unwrap()).await.unwrap();
            send(&mut stream, &format!("data: {ERROR}\n\n"), true).await;
        }
    });
    let proxy = proxy(&host);
    let mut client = proxy.client();
    let call = CALL.replace("SendMessage", "SendStreamingMessage");
    client.send(post("/a2a", &call).replacen("Host:", "Accept: text/event-stream\r\nHost:", 1));
    let head = client.head().unwrap();
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    let first = client.until(b"\n\n\r\n").unwrap();
    assert!(String::from_utf8(first).unwrap().contains(good), "it came before the next was sent");
    go_on.send(()).unwrap();
    let rest = String::from_utf8(client.until(b"0\r\n\r\n").unwrap()).unwrap();
    assert!(rest.contains("UNSUPPORTED_OPERATION") && !rest.contains("acme"), "{rest}");
}

/// C-5, P-1: whatever a host does to a stream before or after its head.
#[test]
fn hosts_that_reset_or_stall() {
    let part = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"acme"#;
    for (reason, begins, status) in [
        (Some(Reason::INTERNAL_ERROR), None, 502),
        (Some(Reason::CANCEL), None, 502),
        (Some(Reason::INTERNAL_ERROR), Some(part), 502),
        (None, None, 504),
        (None, Some(part), 504),
    ] {
        let host = Host::start(move |mut asked| async move {
            asked.read().await;
            if let Some(begins) = begins {
                let mut stream = asked.head(200, "application/json", false);
                send(&mut stream, begins, false).await;
                match reason {
                    // Once the piece is out.
                    Some(reason) => {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        stream.send_reset(reason);
                    }
                    None => tokio::time::sleep(Duration::from_secs(2)).await,
                }
            } else {
                match reason {
                    Some(reason) => asked.answer.send_reset(reason),
                    None => tokio::time::sleep(Duration::from_secs(2)).await,
                }
            }
        });
        let mut settings = settings_for(&[host.address]);
        settings.hosts[0].timeouts.read = Duration::from_millis(300);
        let proxy = Proxy::start_with(settings);
        let mut client = proxy.client();
        for _ in 0..2 {
            client.send(post("/a2a", CALL));
            let answer = client.answer();
            answer.assert_fault(status, "7");
            assert_eq!(answer.header("connection"), Some("keep-alive"), "{answer:?}");
        }
        assert_eq!(host.requests().len(), 2, "{reason:?}: nothing is sent again");
    }
}

#[test]
fn a_success_that_breaks_off_is_cut_off_visibly() {
    let host = Host::start(|mut asked| async move {
        asked.read().await;
        let mut stream = asked.head(200, "application/json", false);
        send(&mut stream, &long_success()[..150_000], false).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.send_reset(Reason::INTERNAL_ERROR);
    });
    let proxy = proxy(&host);
    let answer = proxy.ask(post("/a2a", CALL));
    assert!(answer.status() == 200 && !answer.complete, "a clean end after {} bytes", answer.body.len());
    let answer = proxy.ask(get("/docs"));
    assert!(!answer.complete);
}

/// P-2: a host that refuses a stream has not looked at it, so that SendMessage too is sent again.
#[test]
fn a_refused_stream_is_sent_again() {
    let host = Host::start(|mut asked| async move {
        if asked.number.is_multiple_of(2) {
            asked.answer.send_reset(Reason::REFUSED_STREAM);
        } else {
            asked.say(200, SUCCESS).await;
        }
    });
    let proxy = proxy(&host);
    for path in ["/a2a", "/elsewhere"] {
        proxy.ask(post(path, CALL)).assert_passed(200, SUCCESS);
    }
    assert_eq!(host.requests().len(), 4);

    // No other code promises that the host has not looked: what it has seen is not sent again.
    for reason in [
        Reason::NO_ERROR,
        Reason::PROTOCOL_ERROR,
        Reason::CANCEL,
        Reason::CONNECT_ERROR,
        Reason::ENHANCE_YOUR_CALM,
        Reason::INADEQUATE_SECURITY,
        Reason::HTTP_1_1_REQUIRED,
    ] {
        let host = Host::start(move |mut asked| async move { asked.answer.send_reset(reason) });
        let proxy = self::proxy(&host);
        for _ in 0..2 {
            proxy.ask(post("/a2a", CALL)).assert_fault(502, "7");
        }
        assert_eq!(host.requests().len(), 2, "{reason:?}");
    }

    // One that refuses everything is asked a bounded number of times; and another address does it.
    let refuses = Host::start(|mut asked| async move { asked.answer.send_reset(Reason::REFUSED_STREAM) });
    let alone = self::proxy(&refuses);
    alone.ask(post("/a2a", CALL)).assert_fault(502, "7");
    assert!((2..20).contains(&refuses.requests().len()), "{}", refuses.requests().len());
    let good = Host::saying(200, SUCCESS);
    let group = Proxy::start_with(settings_for(&[refuses.address, good.address]));
    for _ in 0..4 {
        group.ask(post("/a2a", CALL)).assert_passed(200, SUCCESS);
    }
}

/// A host on raw frames: it answers each connection's first request by closing the connection, with `last` as the
/// last stream it has looked at.
fn going_away(last: u32, then_closes: bool) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let count = count.clone();
            thread::spawn(move || {
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut preface = [0; 24];
                socket.read_exact(&mut preface).unwrap();
                socket.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap();
                let mut head = [0; 9];
                while socket.read_exact(&mut head).is_ok() {
                    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                    let mut payload = vec![0; length as usize];
                    socket.read_exact(&mut payload).unwrap();
                    match (head[3], head[4] & 1) {
                        (4, 0) => socket.write_all(&[0, 0, 0, 4, 1, 0, 0, 0, 0]).unwrap(),
                        // The last of the request's body.
                        (0, 1) => {
                            count.fetch_add(1, Ordering::SeqCst);
                            let mut away = vec![0, 0, 8, 7, 0, 0, 0, 0, 0];
                            away.extend(last.to_be_bytes());
                            away.extend(0u32.to_be_bytes());
                            socket.write_all(&away).unwrap();
                            if then_closes {
                                // Reading on: what is left unread at a close would take the frame away.
                                let _ = socket.shutdown(Shutdown::Write);
                                let _ = std::io::copy(&mut socket, &mut std::io::sink());
                                return;
                            }
                        }
                        _ => {}
                    }
                }
            });
        }
    });
    (address, asked)
}

/// P-2: a connection that goes away says which streams were looked at.
#[test]
fn what_a_goaway_leaves_out_is_sent_again_and_nothing_else() {
    let good = Host::saying(200, SUCCESS);
    for then_closes in [false, true] {
        let (away, asked) = going_away(0, then_closes);
        let proxy = Proxy::start_with(settings_for(&[away, good.address]));
        for _ in 0..4 {
            proxy.ask(post("/a2a", CALL)).assert_passed(200, SUCCESS);
        }
        assert!(asked.load(Ordering::SeqCst) >= 1);
    }
    let before = good.requests().len();
    let (away, asked) = going_away(1, true);
    let proxy = Proxy::start_with(settings_for(&[away, good.address]));
    for _ in 0..2 {
        let answer = proxy.ask(post("/a2a", CALL));
        assert!(matches!(answer.status(), 200 | 502), "{answer:?}");
    }
    assert_eq!((asked.load(Ordering::SeqCst), good.requests().len() - before), (1, 1));
}

/// A connection that ends gracefully finishes what it has, and the next request is on a new one.
#[test]
fn a_graceful_end_of_a_connection_costs_nothing() {
    let host = Host::start(|mut asked| async move {
        asked.read().await;
        asked.last.notify_one();
        tokio::time::sleep(Duration::from_millis(20)).await;
        asked.say(200, SUCCESS).await;
    });
    let proxy = proxy(&host);
    let mut client = proxy.client();
    for _ in 0..5 {
        client.send(post("/a2a", CALL));
        client.answer().assert_passed(200, SUCCESS);
    }
    assert_eq!(host.requests().len(), 5);
    assert!(host.connections() > 1);
}

/// A client that goes away takes its stream along, and leaves the connection to the others.
#[test]
fn a_client_that_goes_cancels_its_stream_only() {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let host = Host::start(move |mut asked| {
        let tell = tell.lock().unwrap().clone();
        async move {
            let body = asked.read().await;
            if body.starts_with(b"{\"wait") || String::from_utf8_lossy(&body).contains("Streaming") {
                let kind =
                    if body.starts_with(b"{\"wait") { "application/json" } else { "text/event-stream" };
                let mut stream = asked.head(200, kind, false);
                send(&mut stream, "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n", false).await;
                let reset = std::future::poll_fn(|cx| stream.poll_reset(cx)).await;
                tell.send(reset.unwrap()).unwrap();
            } else {
                asked.say(200, SUCCESS).await;
            }
        }
    });
    let proxy = proxy(&host);
    for _ in 0..3 {
        let mut stream = proxy.client();
        let call = CALL.replace("SendMessage", "SendStreamingMessage");
        stream.send(post("/a2a", &call).replacen("Host:", "Accept: text/event-stream\r\nHost:", 1));
        stream.until(b"\n\n").unwrap();
        proxy.ask(post("/a2a", CALL)).assert_passed(200, SUCCESS);
        stream.close();
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), Reason::CANCEL);
        let in_flight = || proxy.metrics.groups().addresses("legacy")[0].in_flight;
        eventually(|| in_flight() == 0, || format!("{} are counted still", in_flight()));
    }
    assert_eq!(host.connections(), 1);
}

/// Many clients, one connection; one that does not read holds up nobody.
#[test]
fn one_connection_has_many_streams() {
    let host = Host::start(|mut asked| async move {
        let long = asked.head.uri.path() == "/long";
        asked.read().await;
        let mut stream = asked.head(200, "application/json", false);
        if long {
            for _ in 0..200 {
                if !send(&mut stream, &"x".repeat(100_000), false).await {
                    return;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        send(&mut stream, SUCCESS, true).await;
    });
    let proxy = Arc::new(proxy(&host));
    proxy.ask(post("/a2a", CALL)).assert_passed(200, SUCCESS);
    let mut lazy: Vec<_> = (0..4).map(|_| proxy.client()).collect();
    for client in &mut lazy {
        client.send(get("/long"));
    }
    thread::sleep(Duration::from_millis(100));
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let proxy = proxy.clone();
            thread::spawn(move || {
                let mut client = proxy.client();
                for _ in 0..10 {
                    client.send(post("/a2a", CALL));
                    client.answer().assert_passed(200, SUCCESS);
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    assert!(host.connections() <= 4, "{} connections", host.connections());
    for mut client in lazy {
        let answer = client.answer();
        assert!(answer.complete && answer.body.len() == 20_000_000 + SUCCESS.len());
    }
}

/// Trailers of a success reach a client that speaks HTTP/2. HTTP/1.1 clients get the success without them.
#[test]
fn trailers_pass_where_the_client_can_have_them() {
    let host = Host::start(|mut asked| async move {
        asked.read().await;
        let mut stream = asked.head(200, "application/json", false);
        send(&mut stream, SUCCESS, false).await;
        let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "42".parse().unwrap())]);
        stream.send_trailers(trailers).unwrap();
    });
    let proxy = proxy(&host);
    let address = proxy.address;
    for path in ["/a2a", "/docs"] {
        proxy.ask(post(path, CALL)).assert_passed(200, SUCCESS);
        let (body, trailers) = runtime().block_on(async move {
            let socket = tokio::net::TcpStream::connect(address).await.unwrap();
            let (send, connection) = h2::client::handshake(socket).await.unwrap();
            tokio::spawn(connection);
            let request = http::Request::post(format!("http://h{path}")).header("a2a-version", "1.0");
            let mut send = send.ready().await.unwrap();
            let (answer, mut stream) = send.send_request(request.body(()).unwrap(), false).unwrap();
            stream.send_data(Bytes::from_static(CALL.as_bytes()), true).unwrap();
            let mut body = answer.await.unwrap().into_body();
            let mut all = Vec::new();
            while let Some(piece) = body.data().await {
                all.extend_from_slice(&piece.unwrap());
            }
            (all, body.trailers().await.unwrap())
        });
        assert_eq!(body, SUCCESS.as_bytes());
        assert_eq!(trailers.unwrap()["x-sum"], "42");
    }
}

/// P-3: a path that is taken off leaves the authority, whatever the client speaks.
#[test]
fn the_public_path_is_taken_off() {
    let host = Host::saying(200, SUCCESS);
    let mut settings = settings_for(&[host.address]);
    settings.hosts[0].public_url = "http://agents.example/billing".into();
    let proxy = Proxy::start_with(settings);
    let request = post("/billing/a2a?x=1", CALL).replacen("Host: h", "Host: agents.example", 1);
    proxy.ask(request).assert_passed(200, SUCCESS);
    let address = proxy.address;
    let status = runtime().block_on(async move {
        let socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let (send, connection) = h2::client::handshake(socket).await.unwrap();
        tokio::spawn(connection);
        let request =
            http::Request::post("http://agents.example/billing/a2a?x=1").header("a2a-version", "1.0");
        let mut send = send.ready().await.unwrap();
        let (answer, mut stream) = send.send_request(request.body(()).unwrap(), false).unwrap();
        stream.send_data(Bytes::from_static(CALL.as_bytes()), true).unwrap();
        answer.await.unwrap().status()
    });
    assert_eq!(status, 200);
    let seen = host.requests();
    let uris: Vec<_> = seen.iter().map(|(head, _)| head.uri.to_string()).collect();
    assert_eq!(uris, ["http://agents.example/a2a?x=1"; 2]);
}

/// Interim heads are not the answer, and Pingora reads none over HTTP/2.
#[test]
fn interim_heads_do_not_take_the_answers_place() {
    let host = Host::start(|mut asked| async move {
        asked.read().await;
        let hint = Response::builder().status(103).header("link", "</x>").body(()).unwrap();
        asked.answer.send_informational(hint).unwrap();
        asked.say(500, ERROR).await;
    });
    let proxy = proxy(&host);
    proxy.ask(post("/a2a", CALL)).assert_fault(200, "7");
}

/// The card is read, and addresses are checked, in HTTP/2 as well.
#[test]
fn the_card_and_the_checks_speak_it_too() {
    let host = Host::start(|mut asked| async move {
        let scheme = asked.head.uri.scheme_str().map(str::to_owned);
        assert_eq!(scheme.as_deref(), Some("http"));
        match asked.head.uri.path() {
            "/healthz" => asked.say(200, "well").await,
            "/.well-known/agent-card.json" => {
                let card = r#"{"name":"a","supportedInterfaces":[{"url":"http://h/x","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}"#;
                asked.say(200, card).await;
            }
            _ => asked.say(500, ERROR).await,
        }
    });
    let mut settings = settings_for(&[host.address]);
    settings.hosts[0].interfaces.clear();
    settings.hosts[0].group.health = Some(a2a_errata::proxy::Health {
        path: "/healthz".into(),
        interval: Duration::from_millis(50),
        timeout: PATIENCE,
        failures: 1,
        successes: 1,
    });
    let proxy = Proxy::learning(settings);
    proxy.assert_ready();
    proxy.await_more("health_checks_total", "result=\"ok\"", 2.0);
    proxy.assert_counts("health_checks_total", "result=\"failed\"", 0.0);
    proxy.ask(post("/x", CALL)).assert_fault(200, "7");
}

/// A TLS host that offers these protocols, and says which was agreed on.
fn tls_host(offers: &[&str]) -> (SocketAddr, Arc<AtomicUsize>) {
    let key = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![key.cert.der().clone()],
            rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = offers.iter().map(|offer| offer.as_bytes().to_vec()).collect();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    runtime().spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, count) = (acceptor.clone(), count.clone());
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(socket).await else { return };
                count.fetch_add(1, Ordering::SeqCst);
                if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                    let script: Arc<Script> = Arc::new(|mut asked| {
                        Box::pin(async move {
                            assert_eq!(asked.head.uri.scheme_str(), Some("https"));
                            asked.say(500, ERROR).await;
                        })
                    });
                    serve(stream, script, Arc::default(), 0).await;
                } else {
                    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
                    let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
                    while let Ok(number @ 1..) = stream.read(&mut buffer).await {
                        read.extend_from_slice(&buffer[..number]);
                        if read.ends_with(CALL.as_bytes()) {
                            read.clear();
                            stream.write_all(sized(404, NOT_FOUND).as_bytes()).await.unwrap();
                        }
                    }
                }
            });
        }
    });
    (address, connections)
}

/// Over TLS what is spoken is agreed on, and HTTP/1.1 where the host has nothing else.
#[test]
fn over_tls_it_is_agreed_on() {
    for (offers, http2, reason) in [
        (&["h2", "http/1.1"][..], Http2::Alpn, "UNSUPPORTED_OPERATION"),
        (&["http/1.1"], Http2::Alpn, "TASK_NOT_FOUND"),
        (&[], Http2::Alpn, "TASK_NOT_FOUND"),
        (&["h2", "http/1.1"], Http2::Off, "TASK_NOT_FOUND"),
    ] {
        let (address, connections) = tls_host(offers);
        let mut settings = settings(&[]);
        let tls = UpstreamTls { sni: "localhost".into(), verify: false, ca: vec![], client: None };
        let upstream = Upstream { http2, tls: Some(tls), ..Upstream::new(address.to_string()) };
        settings.hosts[0].upstreams = vec![upstream];
        let proxy = Proxy::start_with(settings);
        let mut client = proxy.client();
        for _ in 0..3 {
            client.send(post("/a2a", CALL));
            let answer = client.answer();
            answer.assert_fault(200, "7");
            assert_eq!(answer.json()["error"]["data"][0]["reason"], reason, "{offers:?} {http2:?}");
        }
        assert_eq!(connections.load(Ordering::SeqCst), 1, "{offers:?} {http2:?}");
    }
}

/// A host that speaks no HTTP/2 where it is said to is a 502, not silence.
#[test]
fn a_host_that_does_not_speak_it_is_502() {
    let host = ScriptedHost::start(|visit| {
        visit.connection.some();
        visit.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let proxy = Proxy::start_with(settings_for(&[host.address]));
    proxy.ask(post("/a2a", CALL)).assert_fault(502, "7");
    let _ = TcpStream::connect(host.address);
}
