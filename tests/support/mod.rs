//! What the integration tests of the proxy share: the proxy itself in this process, a scripted host
//! on raw sockets, and a raw HTTP/1 client. Everything is on 127.0.0.1 and bounded in time.
#![allow(dead_code)]

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use a2a_errata::normalize::{Binding, Interface, Policy};
use a2a_errata::observe::{Metrics, Readiness};
use a2a_errata::proxy::{
    Assembly, Bounds, CardReader, Group, Host, Hosts, Limits, Settings, Timeouts, Upstream,
};
use async_trait::async_trait;
use pingora::server::{ShutdownSignal, ShutdownSignalWatch};
use pingora::services::background::background_service;

/// No test waits longer than this for a byte.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A port nobody listens on, and that is given to nobody who asks for any port. A socket keeps it until the
/// process ends: two proxies that were given the same one would share its connections, without a word
/// (`SO_REUSEPORT`). Whoever asks for this very port gets it, as a proxy does.
pub fn free_port() -> u16 {
    static KEPT: Mutex<Vec<tokio::net::TcpSocket>> = Mutex::new(Vec::new());
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.set_reuseport(true).unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let port = socket.local_addr().unwrap().port();
    KEPT.lock().unwrap().push(socket);
    port
}

/// A proxy in this process. It runs until the process ends: Pingora remembers a runtime by the id of
/// its thread, and ids are used again, so a second server after an ended one would spawn into nothing.
pub struct Proxy {
    pub address: SocketAddr,
    pub metrics: Arc<Metrics>,
    pub readiness: Arc<Readiness>,
    /// What a reload replaces.
    pub hosts: Arc<Hosts>,
}

struct Never;

#[async_trait]
impl ShutdownSignalWatch for Never {
    async fn recv(&self) -> ShutdownSignal {
        std::future::pending().await
    }
}

/// One host with a JSON-RPC interface on `/a2a` and an HTTP+JSON one on `/rest`.
pub fn settings(upstreams: &[SocketAddr]) -> Settings {
    let interface = |path: &str, binding| {
        Arc::new(Interface { path: path.into(), binding, versions: vec!["1.0".into()] })
    };
    Settings {
        listen: format!("127.0.0.1:{}", free_port()),
        tls: None,
        services: 1,
        grace: Duration::ZERO,
        handover: false,
        bounds: Bounds::default(),
        hosts: vec![Host {
            name: "legacy".into(),
            upstreams: upstreams.iter().map(|at| Upstream::new(at.to_string())).collect(),
            group: Group::default(),
            authorities: vec![],
            policy: Arc::new(Policy::default()),
            interfaces: vec![interface("/a2a", Binding::JsonRpc), interface("/rest", Binding::HttpJson)],
            limits: Limits::default(),
            timeouts: Timeouts {
                connect: Duration::from_secs(1),
                read: Duration::from_secs(5),
                write: Duration::from_secs(5),
                idle: Duration::from_secs(5),
            },
            card: a2a_errata::proxy::Card::default(),
            public_url: String::new(),
            modes: vec![],
        }],
    }
}

impl Proxy {
    pub fn start(host: &ScriptedHost) -> Self {
        Self::start_with(settings(&[host.address]))
    }

    pub fn start_with(settings: Settings) -> Self {
        Self::assemble(settings, false)
    }

    /// With the service that asks hosts without interfaces for their cards (I-1).
    pub fn learning(settings: Settings) -> Self {
        Self::assemble(settings, true)
    }

    fn assemble(settings: Settings, learns: bool) -> Self {
        let address: SocketAddr = settings.listen.parse().unwrap();
        let metrics = Metrics::new();
        let known = settings.hosts.iter().map(|host| (host.name.clone(), !host.interfaces.is_empty()));
        let readiness = Arc::new(Readiness::new(known).with(metrics.groups()));
        let (counts, ready) = (metrics.clone(), readiness.clone());
        let (tell, told) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let mut assembly = Assembly::new(&settings, &counts).unwrap();
            tell.send(assembly.hosts()).unwrap();
            if learns {
                let reader = CardReader::new(&assembly.hosts(), &counts, &ready);
                assembly.add(Box::new(background_service("agent cards", reader)));
            }
            assembly.run_until(Box::new(Never));
        });
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "the proxy does not listen");
            thread::sleep(Duration::from_millis(5));
        }
        Self { address, metrics, readiness, hosts: told.recv_timeout(PATIENCE).unwrap() }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// The values of a metric whose labels hold `labels`, summed up.
    pub fn count(&self, name: &str, labels: &str) -> f64 {
        let text = self.metrics.render();
        let lines = text.lines().filter_map(|line| line.strip_prefix("a2a_errata_")?.strip_prefix(name));
        let values = lines.filter(|line| line.starts_with([' ', '{']) && line.contains(labels));
        values.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }

    /// Waits until it is `expected`.
    #[track_caller]
    pub fn assert_counts(&self, name: &str, labels: &str, expected: f64) {
        eventually(
            || (self.count(name, labels) - expected).abs() < 0.001,
            || format!("{name} {labels} is not {expected}:\n{}", self.metrics.render()),
        );
    }

    /// Waits until it is more than it is now, by `by`.
    #[track_caller]
    pub fn await_more(&self, name: &str, labels: &str, by: f64) {
        let from = self.count(name, labels);
        eventually(
            || self.count(name, labels) >= from + by,
            || format!("{name} {labels} stays at {from}:\n{}", self.metrics.render()),
        );
    }

    /// Waits until every host is ready.
    #[track_caller]
    pub fn assert_ready(&self) -> &Self {
        eventually(|| self.readiness.waiting().is_empty(), || format!("{:?} wait", self.readiness.waiting()));
        self
    }

    /// One request on a connection of its own.
    pub fn ask(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut client = self.client();
        client.send(request);
        client.answer()
    }
}

/// Waits until it is so.
#[track_caller]
pub fn eventually(is_so: impl Fn() -> bool, says: impl Fn() -> String) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{}", says());
        thread::sleep(Duration::from_millis(5));
    }
}

/// What this test process has logged so far; the first call begins it.
pub fn logged() -> String {
    static LOG: OnceLock<Arc<Mutex<Vec<u8>>>> = OnceLock::new();
    struct Writer(Arc<Mutex<Vec<u8>>>);
    impl Write for Writer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let log = LOG.get_or_init(|| {
        let log = Arc::new(Mutex::new(Vec::new()));
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || Writer(writer.clone())).finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        log
    });
    String::from_utf8_lossy(&log.lock().unwrap()).into_owned()
}

/// Waits for a line that says all of this, and returns how many there are.
#[track_caller]
pub fn assert_logged(words: &[&str]) -> usize {
    let count = || logged().lines().filter(|line| words.iter().all(|word| line.contains(word))).count();
    eventually(|| count() > 0, || format!("{words:?} is not in\n{}", logged()));
    count()
}

/// What a host or a client read: a head and a body.
#[derive(Debug, Clone, Default)]
pub struct Message {
    pub first_line: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The body ended as its framing says.
    pub complete: bool,
}

pub type Answer = Message;

impl Message {
    pub fn status(&self) -> u16 {
        self.first_line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn all(&self, name: &str) -> Vec<&str> {
        let matching = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        matching.map(|(_, value)| value.as_str()).collect()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A complete JSON-RPC error with this id, and not the host's bytes.
    #[track_caller]
    pub fn assert_fault(&self, status: u16, id: &str) -> &Self {
        assert_eq!(self.status(), status, "{self:?}");
        assert!(self.complete, "{self:?}");
        let json = self.json();
        assert_eq!(json["id"].to_string(), id, "{self:?}");
        assert!(json["error"]["code"].is_i64(), "{self:?}");
        assert!(!self.text().contains("acme"), "the host's text came through: {self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        assert_eq!(self.header("content-length"), Some(self.body.len().to_string().as_str()), "{self:?}");
        assert_eq!(self.header("transfer-encoding"), None, "{self:?}");
        assert!(self.header("date").is_some(), "{self:?}");
        assert_eq!(self.header("server"), None, "{self:?}");
        self
    }

    /// A complete answer with these very bytes.
    #[track_caller]
    pub fn assert_passed(&self, status: u16, body: &str) -> &Self {
        assert_eq!(self.status(), status, "{self:?}");
        assert!(self.complete, "{self:?}");
        assert_eq!(self.text(), body, "{self:?}");
        self
    }
}

/// One end of a connection, with what was read ahead.
pub struct Connection {
    stream: TcpStream,
    tls: Option<Tls>,
    ahead: Vec<u8>,
}

/// This end of TLS.
enum Tls {
    Client(Box<rustls::ClientConnection>),
    Server(Box<rustls::ServerConnection>),
}

pub type Client = Connection;

impl Connection {
    pub fn connect(address: SocketAddr) -> Self {
        Self::new(TcpStream::connect_timeout(&address, PATIENCE).unwrap())
    }

    pub fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, tls: None, ahead: Vec::new() }
    }

    /// Over TLS, the handshake done.
    pub fn over_tls(address: SocketAddr, mut tls: rustls::ClientConnection) -> std::io::Result<Self> {
        let mut new = Self::new(TcpStream::connect_timeout(&address, PATIENCE)?);
        while tls.is_handshaking() {
            tls.complete_io(&mut new.stream)?;
        }
        new.tls = Some(Tls::Client(Box::new(tls)));
        Ok(new)
    }

    /// Waits for a client's handshake and does it. False if it does not come about.
    pub fn shake(&mut self, config: Arc<rustls::ServerConfig>) -> bool {
        let mut tls = rustls::ServerConnection::new(config).unwrap();
        while tls.is_handshaking() {
            // What it still has to say, such as why not, is sent by this too.
            if tls.complete_io(&mut self.stream).is_err() {
                return false;
            }
        }
        self.tls = Some(Tls::Server(Box::new(tls)));
        true
    }

    /// Tells the other side of TLS that this was all (close_notify).
    pub fn end_tls(&mut self) {
        let Some(Tls::Server(tls)) = &mut self.tls else { panic!("it is no host's end of TLS") };
        tls.send_close_notify();
        while tls.wants_write() && tls.write_tls(&mut self.stream).is_ok_and(|written| written > 0) {}
    }

    /// Below TLS, if there is any: these bytes as they are.
    pub fn send_raw(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// What TLS has agreed on.
    pub fn tls(&self) -> &rustls::ClientConnection {
        let Some(Tls::Client(tls)) = &self.tls else { panic!("it is no client's end of TLS") };
        tls
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.tls {
            None => self.stream.write_all(bytes),
            Some(Tls::Client(tls)) => {
                let mut stream = rustls::Stream::new(&mut **tls, &mut self.stream);
                stream.write_all(bytes).and_then(|()| stream.flush())
            }
            Some(Tls::Server(tls)) => {
                let mut stream = rustls::Stream::new(&mut **tls, &mut self.stream);
                stream.write_all(bytes).and_then(|()| stream.flush())
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match &mut self.tls {
            None => self.stream.read(buffer),
            Some(Tls::Client(tls)) => rustls::Stream::new(&mut **tls, &mut self.stream).read(buffer),
            Some(Tls::Server(tls)) => rustls::Stream::new(&mut **tls, &mut self.stream).read(buffer),
        }
    }

    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.write(bytes.as_ref()).unwrap();
    }

    /// Sends as long as the other side takes it.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.write(bytes.as_ref()).is_ok()
    }

    pub fn end_sending(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Closes the connection, with a FIN.
    pub fn close(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Reads a little of what there is, or waits for it. False at the end.
    pub fn more(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        match self.read(&mut buffer) {
            Ok(0) | Err(_) => false,
            Ok(read) => {
                self.ahead.extend_from_slice(&buffer[..read]);
                true
            }
        }
    }

    /// The bytes up to and with `end`; `None` when the other side closed before.
    pub fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.ahead.windows(end.len()).position(|window| window == end) {
                return Some(self.ahead.drain(..at + end.len()).collect());
            }
            if !self.more() {
                return None;
            }
        }
    }

    fn exactly(&mut self, count: usize, into: &mut Vec<u8>) -> bool {
        while self.ahead.len() < count {
            if !self.more() {
                into.append(&mut self.ahead);
                return false;
            }
        }
        into.extend(self.ahead.drain(..count));
        true
    }

    /// Everything up to the close.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.more() {}
        std::mem::take(&mut self.ahead)
    }

    /// Everything up to the close, which comes.
    #[track_caller]
    pub fn rest_then_close(&mut self) -> Vec<u8> {
        let rest = self.rest();
        assert!(self.closes_within(PATIENCE), "the connection is still open");
        rest
    }

    /// Waits for some bytes to come, and takes them.
    pub fn some(&mut self) -> Vec<u8> {
        if self.ahead.is_empty() {
            self.more();
        }
        std::mem::take(&mut self.ahead)
    }

    /// Whether there is something to read, within a moment.
    pub fn has_request(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let some = !self.ahead.is_empty() || self.more();
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        some
    }

    /// Whether the other side has closed, within `patience`.
    pub fn closes_within(&mut self, patience: Duration) -> bool {
        self.stream.set_read_timeout(Some(patience)).unwrap();
        let mut byte = [0; 1];
        let closed = match self.read(&mut byte) {
            Ok(read) => read == 0,
            Err(error) => {
                !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
            }
        };
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        closed
    }

    pub fn head(&mut self) -> Option<Message> {
        let head = String::from_utf8(self.until(b"\r\n\r\n")?).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let first_line = lines.next().unwrap().to_owned();
        let headers = lines
            .map(|line| line.split_once(':').unwrap_or_else(|| panic!("no header: {line:?}")))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        Some(Message { first_line, headers, ..Message::default() })
    }

    fn body(&mut self, message: &mut Message, until_close: bool) {
        let mut body = Vec::new();
        message.complete = if message.header("transfer-encoding").is_some_and(|value| value == "chunked") {
            loop {
                let Some(line) = self.until(b"\r\n") else { break false };
                let size = usize::from_str_radix(String::from_utf8_lossy(&line).trim(), 16).unwrap();
                if !self.exactly(size, &mut body) {
                    break false;
                }
                if size == 0 {
                    // No trailers, or some.
                    let end = self.until(b"\r\n");
                    break end.is_some_and(|line| line == b"\r\n") || self.until(b"\r\n\r\n").is_some();
                }
                let Some(_) = self.until(b"\r\n") else { break false };
            }
        } else if let Some(length) = message.header("content-length") {
            let length = length.parse().unwrap();
            self.exactly(length, &mut body)
        } else if until_close {
            body = self.rest();
            true
        } else {
            true
        };
        message.body = body;
    }

    /// The body of an answer whose head was read.
    pub fn read_body(&mut self, answer: &mut Answer) {
        self.body(answer, true);
    }

    /// A request; `None` when the connection ended instead.
    pub fn request(&mut self) -> Option<Message> {
        let mut request = self.head()?;
        self.body(&mut request, false);
        Some(request)
    }

    /// The next answer with a body.
    #[track_caller]
    pub fn answer(&mut self) -> Answer {
        self.answer_to("POST")
    }

    /// The next answer, informational ones included.
    #[track_caller]
    pub fn answer_to(&mut self, method: &str) -> Answer {
        let mut answer = self.head().expect("the connection was closed without an answer");
        let bodyless = method == "HEAD" || matches!(answer.status(), 100..200 | 204 | 304);
        if bodyless {
            answer.complete = true;
        } else {
            self.body(&mut answer, true);
        }
        answer
    }
}

/// A host that does what a test says with every connection.
pub struct ScriptedHost {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<Message>>>,
}

/// A connection to the host.
pub struct Visit {
    pub connection: Connection,
    /// The how manieth connection it is, from 0.
    pub number: usize,
    requests: Arc<Mutex<Vec<Message>>>,
}

impl Visit {
    /// The next request, which the test sees too.
    pub fn request(&mut self) -> Option<Message> {
        let request = self.connection.request()?;
        self.requests.lock().unwrap().push(request.clone());
        Some(request)
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.connection.try_send(bytes)
    }

    /// `127.0.0.1:PORT` of the host.
    pub fn own_address(&self) -> String {
        self.connection.stream.local_addr().unwrap().to_string()
    }
}

impl ScriptedHost {
    pub fn start(script: impl Fn(&mut Visit) + Send + Sync + 'static) -> Self {
        Self::start_at(0, script)
    }

    /// On a port that was announced before.
    pub fn start_at(port: u16, script: impl Fn(&mut Visit) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (counted, seen, script) = (connections.clone(), requests.clone(), Arc::new(script));
        // Ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let number = counted.fetch_add(1, Ordering::SeqCst);
                let (script, requests) = (script.clone(), seen.clone());
                thread::spawn(move || {
                    let mut visit = Visit { connection: Connection::new(stream), number, requests };
                    script(&mut visit);
                });
            }
        });
        Self { address, connections, requests }
    }

    /// Answers every request on a connection with the same bytes.
    pub fn saying(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(move |visit| while visit.request().is_some() && visit.send(&answer) {})
    }

    /// Answers one request per connection, then closes.
    pub fn saying_once(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(move |visit| {
            if visit.request().is_some() {
                visit.send(&answer);
            }
        })
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn requests(&self) -> Vec<Message> {
        self.requests.lock().unwrap().clone()
    }
}

pub const ERROR: &str = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"at /srv/acme"}}"#;
pub const NOT_FOUND: &str =
    r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"acme/1 is no task"}}"#;
pub const SUCCESS: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"message":"acme says hello"}}"#;
pub const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}}"#;
pub const GET_TASK: &str = r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"t-1"}}"#;

/// A POST with a length.
pub fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: h\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\nA2A-Version: 1.0\r\n\r\n")
}

/// A host's answer with a length.
pub fn sized(status: u16, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A host's answer in chunks of `size` bytes.
pub fn chunked(status: u16, body: &str, size: usize) -> String {
    let mut answer = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    for chunk in body.as_bytes().chunks(size) {
        write!(answer, "{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk)).unwrap();
    }
    answer.push_str("0\r\n\r\n");
    answer
}

/// A success that is longer than what is judged whole.
pub fn long_success() -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"text":"{}"}}}}"#, "a".repeat(200_000))
}
