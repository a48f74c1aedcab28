//! What changes while it runs: the configuration by a reload, the certificate, the binary by an upgrade, and which hosts
//! are alive. Nothing that is under way notices.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[path = "support/binary.rs"]
mod binary;
#[path = "support/mortal.rs"]
mod mortal;
mod support;
#[path = "support/tls.rs"]
mod tls;

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use binary::{Running, ask, command, exchange, free_port, text};
use mortal::Mortal;
use support::{CALL, Connection, ERROR, PATIENCE, SUCCESS, ScriptedHost, Visit, eventually, post, sized};
use tls::{Authority, Http2, TlsClient, block_on};

const STREAM: &str =
    r#"{"jsonrpc":"2.0","id":7,"method":"SendStreamingMessage","params":{"message":{"messageId":"m"}}}"#;
/// Events of one stream, and the time between two.
const EVENTS: usize = 20;
const PACE: Duration = Duration::from_millis(50);

/// A proxy with a configuration file that can be written anew.
struct Stage {
    directory: tempfile::TempDir,
    listen: u16,
    admin: u16,
    started: usize,
}

impl Stage {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Others can enter what `tempdir` makes on some systems.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        Self { directory, listen: free_port(), admin: free_port(), started: 0 }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("a.toml")
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("handover.sock")
    }

    /// The listeners, and then these tables.
    fn write(&self, tables: &str) {
        let listeners = format!(
            "[listen]\naddress = \"127.0.0.1:{}\"\nhandover = \"{}\"\n[admin]\naddress = \"127.0.0.1:{}\"\n",
            self.listen,
            self.socket().display(),
            self.admin
        );
        fs::write(self.file(), listeners + tables).unwrap();
    }

    fn start(&mut self, more: &[&str]) -> Process {
        self.started += 1;
        let log = self.directory.path().join(format!("{}.log", self.started));
        let mut command = command();
        command.args(["run", "--log-level", "info", "--config"]).arg(self.file()).args(more);
        command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        Process { running: Running(command.spawn().unwrap()), log }
    }

    fn started(&mut self, tables: &str) -> Process {
        self.write(tables);
        let process = self.start(&[]);
        assert!(ask(self.admin, "GET /livez").starts_with("HTTP/1.1 200 "));
        // Each listener has a thread of its own.
        let listens = || TcpStream::connect(("127.0.0.1", self.listen)).is_ok();
        eventually(listens, || process.log());
        process
    }

    /// `POST /-/reload`, from here: status line and text.
    fn reload(&self) -> String {
        let request =
            "POST /-/reload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        text(&exchange(self.admin, request.as_bytes()))
    }

    fn metric(&self, series: &str) -> Option<f64> {
        let page = ask(self.admin, "GET /metrics");
        let line = page.lines().find_map(|line| line.strip_prefix(&format!("a2a_errata_{series} ")))?;
        Some(line.trim().parse().unwrap())
    }

    fn call(&self) -> String {
        let mut client = Connection::connect(([127, 0, 0, 1], self.listen).into());
        client.send(post("/a2a", CALL));
        client.answer().text()
    }
}

struct Process {
    running: Running,
    log: PathBuf,
}

impl Process {
    fn signal(&self, name: &str) {
        let pid = self.running.0.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    #[track_caller]
    fn assert_logs(&self, words: &str) {
        eventually(|| self.log().contains(words), || format!("{words} is not in\n{}", self.log()));
    }

    #[track_caller]
    fn ends_with(&mut self, code: i32) {
        self.ends_within(Duration::from_secs(15));
        assert_eq!(self.running.0.wait().unwrap().code(), Some(code), "{}", self.log());
    }

    /// Waits for its end.
    #[track_caller]
    fn ends_within(&mut self, patience: Duration) {
        let end = Instant::now() + patience;
        while self.running.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "it still runs:\n{}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn host(name: &str, upstream: &ScriptedHost, mode: &str) -> String {
    format!(
        "[[hosts]]\nname = \"{name}\"\nupstreams = [\"{}\"]\nmode = \"{mode}\"\n[[hosts.interfaces]]\npath = \"/a2a\"\n",
        upstream.address
    )
}

/// I-5: observed first, then enforced, by a signal; the numbers go on.
#[test]
fn i5_observe_becomes_enforce_by_a_reload() {
    let upstream = ScriptedHost::start(serve);
    let mut stage = Stage::new();
    let process = stage.started(&host("legacy", &upstream, "observe"));
    assert_eq!(stage.call(), ERROR);
    stage.write(&host("legacy", &upstream, "enforce"));
    assert_eq!(stage.call(), ERROR, "nothing is read before it is asked for");
    process.signal("HUP");
    process.assert_logs("configuration reloaded");
    assert!(!stage.call().contains("acme"));
    let of = |what: &str| {
        stage.metric(&format!("{what},host=\"legacy\",interface=\"/a2a\",outcome=\"rewritten\"}}"))
    };
    eventually(
        || of("responses_total{binding=\"JSONRPC\"") == Some(3.0),
        || ask(stage.admin, "GET /metrics"),
    );
    assert_eq!(stage.metric(r#"mode_info{host="legacy",interface="/a2a",mode="enforce"}"#), Some(1.0));
    assert_eq!(stage.metric(r#"config_reloads_total{result="ok"}"#), Some(1.0));
    assert!(ask(stage.admin, "GET /config").contains("mode = \"enforce\""));

    stage.write(&host("legacy", &upstream, "observe"));
    let says = stage.reload();
    assert!(says.starts_with("HTTP/1.1 200 ") && says.ends_with("reloaded; changed: legacy\n"), "{says}");
    assert_eq!(stage.call(), ERROR);
    assert!(stage.reload().ends_with("reloaded; no host changed\n"));
}

/// A bad one is refused as a whole: the old one runs on, and everybody who looks is told why.
#[test]
fn a_bad_configuration_is_refused_and_the_old_one_runs_on() {
    let upstream = ScriptedHost::start(serve);
    let mut stage = Stage::new();
    let process = stage.started(&host("legacy", &upstream, "observe"));
    let before = ask(stage.admin, "GET /config").split_once("\r\n\r\n").unwrap().1.to_owned();
    let bad = host("legacy", &upstream, "enforce")
        .replace("path = ", "disclosure = { words = [\" acme\"] }\npath = ");
    let file = stage.file();
    let place = format!("{}:11:1: ", file.display());
    for (tables, says) in [
        (bad.clone(), format!("{place}hosts[0].interfaces[0].disclosure: unknown key")),
        (
            host("legacy", &upstream, "enforced"),
            "hosts[0].mode = \"enforced\": must be \"enforce\" or".to_owned(),
        ),
        ("[[hosts]\n".to_owned(), "not TOML".to_owned()),
        (String::new(), "there is no host".to_owned()),
    ] {
        stage.write(&tables);
        let answer = stage.reload();
        assert!(answer.starts_with("HTTP/1.1 422 ") && answer.contains(&says), "{says}\nis not in\n{answer}");
        assert!(answer.contains(&file.display().to_string()), "{answer}");
        assert_eq!(stage.call(), ERROR);
        let page = ask(stage.admin, "GET /");
        assert!(page.contains("not reloaded"), "{page}");
    }
    assert_eq!(stage.metric(r#"config_reloads_total{result="refused"}"#), Some(4.0));
    assert_eq!(stage.metric("config_last_reload_successful"), Some(0.0));
    process.assert_logs("configuration not reloaded; the one before stays in effect");
    process.assert_logs("hosts[0].interfaces[0].disclosure: unknown key");
    assert_eq!(ask(stage.admin, "GET /config").split_once("\r\n\r\n").unwrap().1, before);
    let report = ask(stage.admin, "GET /report");
    assert!(report.contains("\"refused\": {"), "{report}");

    // D-4: a secret that is written wrong is not shown either.
    let secret =
        host("legacy", &upstream, "observe").replace("mode", "disclosure.words = [\" acme-secret\"]\nmode");
    stage.write(&secret);
    let answer = stage.reload();
    assert!(answer.contains("hosts[0].disclosure.words[0] = \"***\""), "{answer}");
    let seen = answer + &ask(stage.admin, "GET /") + &process.log();
    assert!(!seen.contains("acme-secret"), "{seen}");

    fs::remove_file(&file).unwrap();
    assert!(stage.reload().contains("cannot be read"));
    stage.write(&host("legacy", &upstream, "enforce"));
    assert!(stage.reload().starts_with("HTTP/1.1 200 "));
    assert_eq!(stage.metric("config_last_reload_successful"), Some(1.0));
    assert!(!ask(stage.admin, "GET /").contains("not reloaded"));
}

/// Sockets stay where they are; to say so beats to half obey.
#[test]
fn what_takes_a_new_process_is_named() {
    let upstream = ScriptedHost::start(serve);
    let mut stage = Stage::new();
    let _process = stage.started(&host("legacy", &upstream, "observe"));
    let (listen, admin) = (stage.listen, stage.admin);
    stage.write(&host("legacy", &upstream, "enforce"));
    let text = fs::read_to_string(stage.file()).unwrap();
    for (key, from, to) in [
        ("listen.address", format!("127.0.0.1:{listen}"), format!("127.0.0.1:{}", free_port())),
        ("admin.address", format!("127.0.0.1:{admin}"), format!("127.0.0.1:{}", free_port())),
        ("listen.handover", stage.socket().display().to_string(), "/run/other.sock".to_owned()),
    ] {
        fs::write(stage.file(), text.replace(&from, &to)).unwrap();
        let answer = stage.reload();
        assert!(answer.starts_with("HTTP/1.1 422 "), "{answer}");
        let says = format!(
            "{key} = \"{to}\": cannot change while the proxy runs; restart it, or write \"{from}\" again"
        );
        assert!(answer.contains(&says), "{says}\nis not in\n{answer}");
        assert_eq!(stage.call(), ERROR);
    }
    // Spans go on to where they went; what it was, and what it is to be, may open something.
    for (traces, key) in [
        ("otlp_url = \"http://127.0.0.1:9/v1/traces?key=acme\"", "traces.otlp_url"),
        ("sample_percent = 7", "traces.sample_percent"),
        ("headers = [\"authorization: Bearer acme\"]", "traces.headers"),
    ] {
        fs::write(stage.file(), format!("{text}[traces]\n{traces}\n")).unwrap();
        let answer = stage.reload();
        assert!(answer.starts_with("HTTP/1.1 422 ") && answer.contains(key), "{answer}");
        assert!(
            answer.contains("cannot change while the proxy runs") && !answer.contains("acme"),
            "{answer}"
        );
    }
    assert!(!ask(admin, "GET /config").contains("acme"));
    fs::write(stage.file(), &text).unwrap();
    let from_a_page = "POST /-/reload HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let answer = binary::text(&exchange(admin, from_a_page.as_bytes()));
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}

/// Hosts come and go, with their cards and their series; a stream keeps the host it began with.
#[test]
fn hosts_come_and_go() {
    let upstream = ScriptedHost::start(|visit| {
        while let Some(request) = visit.request() {
            if request.first_line.contains("agent-card.json") {
                let card = r#"{"name":"a","supportedInterfaces":[{"url":"http://h/learned","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}"#;
                visit.send(sized(200, card));
            } else if request.text().contains("SendStreamingMessage") {
                stream(visit);
            } else {
                visit.send(sized(200, ERROR));
            }
        }
    });
    let mut stage = Stage::new();
    let by_card = |name: &str, mode: &str| {
        format!("[[hosts]]\nname = \"{name}\"\nupstreams = [\"{}\"]\nmode = \"{mode}\"\n", upstream.address)
    };
    let process = stage.started(&by_card("first", "observe"));
    let ready = |host: &str| ask(stage.admin, &format!("GET /readyz/{host}")).starts_with("HTTP/1.1 200 ");
    eventually(|| ready("first"), || process.log());
    let cards = || upstream.requests().iter().filter(|r| r.first_line.contains("agent-card")).count();
    let read = cards();

    // The same host, enforced: what its card said is known at once.
    stage.write(&by_card("first", "enforce"));
    assert!(stage.reload().starts_with("HTTP/1.1 200 "));
    assert!(ready("first"));
    let mut client = Connection::connect(([127, 0, 0, 1], stage.listen).into());
    client.send(post("/learned", CALL));
    assert!(!client.answer().text().contains("acme"));
    eventually(|| cards() > read, || "its card is read on".into());

    // A host takes its place in the middle of a stream.
    let mut streaming = Connection::connect(([127, 0, 0, 1], stage.listen).into());
    streaming.send(post("/learned", STREAM));
    let first = streaming.head().unwrap();
    assert_eq!(first.header("content-type"), Some("text/event-stream"));
    stage.write(&by_card("second", "enforce"));
    let says = stage.reload();
    assert!(says.ends_with("reloaded; new: second; gone: first\n"), "{says}");
    eventually(|| ready("second"), || process.log());
    assert!(ask(stage.admin, "GET /readyz/first").starts_with("HTTP/1.1 404 "));
    assert!(stage.metric(r#"host_ready{host="second"}"#) == Some(1.0));
    let count = format!(
        "responses_total{{binding=\"JSONRPC\",host=\"first\",interface=\"/learned\",outcome=\"{}\"}}",
        "rewritten"
    );
    assert_eq!(stage.metric(&count), Some(1.0), "a stream still counts on it");
    assert_eq!(events(&mut streaming), EVENTS);

    // Series of hosts that are gone go with the next reload.
    eventually(|| stage.metric("streams_open") == Some(0.0), || process.log());
    assert!(stage.reload().starts_with("HTTP/1.1 200 "));
    let page = ask(stage.admin, "GET /metrics");
    assert!(!page.contains("host=\"first\"") && page.contains("host=\"second\""), "{page}");
}

/// A stream of [`EVENTS`] events.
fn stream(visit: &mut Visit) -> bool {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let event = format!("data: {SUCCESS}\n\n");
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    visit.send(head)
        && (0..EVENTS).all(|_| {
            let went = visit.send(&chunk);
            thread::sleep(PACE);
            went
        })
        && visit.send("0\r\n\r\n")
}

/// How many events came until the clean end; panics if it is none.
#[track_caller]
fn events(client: &mut Connection) -> usize {
    let rest = client.until(b"\r\n0\r\n\r\n").expect("the stream was cut");
    String::from_utf8(rest).unwrap().matches("data: ").count()
}

/// The door that the clients of a load come in by.
#[derive(Clone)]
struct Door {
    address: SocketAddr,
    /// None: in the clear.
    tls: Option<[TlsClient; 2]>,
}

impl Door {
    fn plain(port: u16) -> Self {
        Self { address: ([127, 0, 0, 1], port).into(), tls: None }
    }

    fn over_tls(port: u16, authority: &Authority) -> Self {
        let tls = ["http/1.1", "h2"].map(|protocol| TlsClient::new(authority, "agents.example", &[protocol]));
        Self { tls: Some(tls), ..Self::plain(port) }
    }

    fn connect(&self) -> Connection {
        match &self.tls {
            None => Connection::connect(self.address),
            Some([client, _]) => client.connect(self.address),
        }
    }

    /// A connection of HTTP/2, driven until the runtime ends.
    async fn http_2(&self) -> Result<Http2, String> {
        match &self.tls {
            None => {
                let (client, driver) = Http2::in_the_clear(self.address).await?;
                tokio::spawn(driver);
                Ok(client)
            }
            Some([_, client]) => {
                let (client, driver) = client.http_2(self.address).await?;
                tokio::spawn(driver);
                Ok(client)
            }
        }
    }
}

/// What the clients of a load saw.
#[derive(Default)]
struct Seen {
    /// The id of the request that was made last.
    made: AtomicU64,
    done: Mutex<BTreeMap<&'static str, usize>>,
    /// By the request's id.
    lost: Mutex<BTreeMap<u64, String>>,
    stop: AtomicBool,
}

impl Seen {
    /// A call, or a stream's, with an id of its own.
    fn make(&self, body: &str) -> (u64, String) {
        let id = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        (id, body.replacen("\"id\":7", &format!("\"id\":{id}"), 1))
    }

    fn count(&self, kind: &'static str) {
        *self.done.lock().unwrap().entry(kind).or_default() += 1;
    }

    fn lost(&self, kind: &str, id: u64, how: impl std::fmt::Display) {
        self.lost.lock().unwrap().insert(id, format!("{kind}: {how}"));
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Whether this is the whole answer to the call with this id: the error, put into shape, or a host's success.
fn is_answer(text: &str, id: u64) -> bool {
    let json: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    json["id"] == id && (json["error"]["code"] == -32004 || json["result"].is_object())
}

/// Whether this is a whole stream.
fn is_stream(text: &str, id: u64) -> bool {
    text.matches(&format!("\"id\":{id},\"result\"")).count() == EVENTS
}

/// A reused connection that was not used for this long may be closed under the next request, as any HTTP/1 client
/// knows; one in steady use must not be.
const IDLE: Duration = Duration::from_millis(500);

/// HTTP/1: calls on one connection for as long as it is kept, or on one each.
fn http_1(seen: &Seen, door: &Door, kind: &'static str, reuse: bool) {
    let mut kept: Option<(Connection, Instant)> = None;
    while seen.goes_on() {
        let again = kept.is_some();
        let (mut client, used) = kept.take().unwrap_or_else(|| (door.connect(), Instant::now()));
        let was_idle = again && used.elapsed() > IDLE;
        let (id, call) = seen.make(CALL);
        let sent = client.try_send(post(&format!("/a2a?{id}"), &call));
        match client.head().filter(|_| sent) {
            Some(mut answer) => {
                client.read_body(&mut answer);
                if answer.status() == 200 && answer.complete && is_answer(&answer.text(), id) {
                    seen.count(kind);
                } else {
                    seen.lost(kind, id, format!("{answer:?}"));
                }
                let closes =
                    answer.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
                kept = (reuse && !closes).then(|| (client, Instant::now()));
            }
            None if was_idle => {}
            None => {
                let how = format!("no answer, on a {} connection", if again { "kept" } else { "new" });
                seen.lost(kind, id, how);
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// HTTP/1: one stream after the other.
fn http_1_streams(seen: &Seen, door: &Door) {
    while seen.goes_on() {
        let mut client = door.connect();
        let (id, call) = seen.make(STREAM);
        client.send(post(&format!("/a2a?{id}"), &call));
        match client.head().map(|head| (head, client.until(b"\r\n0\r\n\r\n"))) {
            Some((_, Some(rest))) if is_stream(&String::from_utf8_lossy(&rest), id) => {
                seen.count("h1 streams");
            }
            other => seen.lost("h1 streams", id, format!("{other:?}")),
        }
    }
}

/// HTTP/2: calls or streams, one after the other on a connection that says goodbye when it ends.
fn http_2(seen: &Seen, door: &Door, kind: &'static str, body: &'static str) {
    block_on(async {
        while seen.goes_on() {
            let client = match door.http_2().await {
                Ok(client) => client,
                Err(error) => {
                    seen.lost(kind, 0, error);
                    continue;
                }
            };
            while seen.goes_on() {
                let (id, call) = seen.make(body);
                match tokio::time::timeout(PATIENCE, client.whole(&format!("/a2a?{id}"), call)).await {
                    Ok(Ok(answer)) => {
                        let is_whole = if body == STREAM { is_stream } else { is_answer };
                        if is_whole(&answer, id) {
                            seen.count(kind);
                        } else {
                            seen.lost(kind, id, answer);
                        }
                    }
                    // Not taken any more: to be sent on another connection (RFC 9113, 6.8).
                    Ok(Err(error)) if error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR) => {
                        break;
                    }
                    Ok(Err(error)) => {
                        seen.lost(kind, id, error);
                        break;
                    }
                    Err(_) => {
                        seen.lost(kind, id, "no answer in time");
                        break;
                    }
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
}

/// Runs every kind of client until `change` is over; what was lost, by the request's id.
fn under_load(door: &Door, change: impl FnOnce()) -> BTreeMap<u64, String> {
    let seen = Arc::new(Seen::default());
    let mut clients = Vec::new();
    let mut run = |client: fn(&Seen, &Door)| {
        let (seen, door) = (seen.clone(), door.clone());
        clients.push(thread::spawn(move || client(&seen, &door)));
    };
    for _ in 0..2 {
        run(|seen, door| http_1(seen, door, "h1 kept", true));
        run(http_1_streams);
        run(|seen, door| http_2(seen, door, "h2 streams", STREAM));
    }
    run(|seen, door| http_1(seen, door, "h1 new", false));
    run(|seen, door| http_2(seen, door, "h2", CALL));
    change();
    seen.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
    let (done, lost) = (seen.done.lock().unwrap(), seen.lost.lock().unwrap());
    println!("{done:?}, {} lost", lost.len());
    assert_eq!(done.len(), 5, "{done:?}");
    assert!(done.values().all(|number| *number >= 4), "{done:?}");
    lost.clone()
}

#[track_caller]
fn assert_nothing_lost(lost: &BTreeMap<u64, String>) {
    assert!(lost.is_empty(), "{lost:#?}");
}

/// Fifty reloads, by signal and by request, good ones and bad ones, hosts that come, go and change.
#[test]
fn fifty_reloads_under_load_lose_nothing() {
    let upstream = ScriptedHost::start(serve);
    let mut stage = Stage::new();
    let variants = [
        host("legacy", &upstream, "enforce"),
        host("legacy", &upstream, "observe"),
        host("renamed", &upstream, "enforce"),
        host("renamed", &upstream, "enforce")
            + &host("more", &upstream, "enforce").replace("mode", "authorities = [\"more.example\"]\nmode"),
    ];
    let process = stage.started(&variants[0]);
    let lost = under_load(&Door::plain(stage.listen), || {
        for n in 1..=50_u32 {
            let bad = n % 10 == 0;
            stage.write(if bad { "[[hosts]]\nnam = 1\n" } else { &variants[n as usize % variants.len()] });
            if n % 2 == 0 {
                let answer = stage.reload();
                assert!(answer.starts_with(if bad { "HTTP/1.1 422 " } else { "HTTP/1.1 200 " }), "{answer}");
            } else {
                process.signal("HUP");
                let total = || {
                    ["ok", "refused"].map(|result| {
                        stage
                            .metric(&format!("config_reloads_total{{result=\"{result}\"}}"))
                            .unwrap_or_default()
                    })
                };
                eventually(|| total().iter().sum::<f64>() >= f64::from(n), || process.log());
            }
            thread::sleep(Duration::from_millis(80));
        }
    });
    assert_nothing_lost(&lost);
    assert_eq!(stage.metric(r#"config_reloads_total{result="ok"}"#), Some(45.0));
    assert_eq!(stage.metric(r#"config_reloads_total{result="refused"}"#), Some(5.0));
}

/// Answers calls at once, and streams with [`EVENTS`] events.
fn serve(visit: &mut Visit) {
    while let Some(request) = visit.request() {
        let (id, went) = (id_of(&request), &mut |bytes: &str| visit.send(bytes));
        if !answered(&request.text(), &id, went) {
            return;
        }
    }
}

/// The same, but for a host that dies: then it reads on and says nothing.
fn serve_mortally(stream: TcpStream, seen: &Mutex<Vec<String>>, is_dead: &AtomicBool) {
    let mut connection = Connection::new(stream);
    while let Some(request) = connection.request() {
        let id = id_of(&request);
        seen.lock().unwrap().push(id.clone());
        let says = &mut |bytes: &str| !is_dead.load(Ordering::SeqCst) && connection.try_send(bytes);
        answered(&request.text(), &id, says);
    }
}

/// Which request it is, from the head: of one that was cut off it may be all there is.
fn id_of(request: &support::Message) -> String {
    let query = request.first_line.split_once('?').and_then(|(_, rest)| rest.split_once(' '));
    query.map_or("7", |(id, _)| id).to_owned()
}

fn answered(request: &str, id: &str, send: &mut impl FnMut(&str) -> bool) -> bool {
    let with_id = |text: &str| text.replacen("\"id\":7", &format!("\"id\":{id}"), 1);
    if !request.contains("SendStreamingMessage") {
        return send(&sized(200, &with_id(ERROR)));
    }
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let event = format!("data: {}\n\n", with_id(SUCCESS));
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    send(head)
        && (0..EVENTS).all(|_| {
            let went = send(&chunk);
            thread::sleep(PACE);
            went
        })
        && send("0\r\n\r\n")
}

/// Starts a process that takes over, and waits until it has and the one before has ended.
fn upgrade(stage: &mut Stage, old: &mut Process) {
    let new = stage.start(&["--upgrade"]);
    new.assert_logs("waiting for the listening sockets");
    old.signal("QUIT");
    old.assert_logs("handing over to a new process");
    new.assert_logs("took over the listening sockets");
    old.ends_within(Duration::from_secs(20));
    assert_eq!(old.running.0.wait().unwrap().code(), Some(0), "{}", old.log());
    *old = new;
}

/// Three new processes, one after the other, each with the sockets of the one before; the configuration changes on
/// the way.
#[test]
fn upgrades_under_load_lose_nothing() {
    let upstream = ScriptedHost::start(serve);
    let mut stage = Stage::new();
    let mut process = stage.started(&host("legacy", &upstream, "observe"));
    let lost = under_load(&Door::plain(stage.listen), || {
        for n in 0..3 {
            stage.write(&host(&format!("after-{n}"), &upstream, "enforce"));
            upgrade(&mut stage, &mut process);
            process.signal("HUP");
            process.assert_logs("configuration reloaded");
            assert!(ask(stage.admin, "GET /config").contains(&format!("name = \"after-{n}\"")));
        }
    });
    assert_nothing_lost(&lost);
    assert!(!stage.call().contains("acme"));
    process.signal("TERM");
    process.ends_within(Duration::from_secs(10));
}

/// Everything at once, over TLS: 50 reloads, 5 certificates, 5 processes, 5 deaths of a host. What is lost is what a dead
/// host had read; no request is seen twice, and no stream is cut but by its host's death.
#[test]
fn reloads_certificates_upgrades_and_deaths_under_load() {
    const ROUNDS: u32 = 5;
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let stays = Mortal::start(0, &seen, serve_mortally);
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let mut dies = Mortal::start(0, &heard, serve_mortally);
    let authority = Authority::new();
    let mut stage = Stage::new();
    let (cert, key) = (stage.directory.path().join("tls.crt"), stage.directory.path().join("tls.key"));
    let sign = || {
        let signed = authority.sign(&["agents.example"]);
        fs::write(&key, &signed.key).unwrap();
        fs::write(&cert, &signed.cert).unwrap();
        signed
    };
    sign();
    let tables = |name: &str| {
        format!(
            "[listen.tls]\ncert = \"{}\"\nkey = \"{}\"\n[[hosts]]\nname = \"{name}\"\nupstreams = [\"{}\", \"{}\"]\n\
             ejection = {{ for_ms = 100 }}\n[[hosts.interfaces]]\npath = \"/a2a\"\n",
            cert.display(),
            key.display(),
            stays.address,
            dies.address
        )
    };
    let (listeners, variants) = (Stage::write, [tables("legacy"), tables("renamed")]);
    let mut process = stage.started(&variants[0]);
    let door = Door::over_tls(stage.listen, &authority);
    let [watcher, _] = door.tls.clone().unwrap();
    let lost = under_load(&door, || {
        for round in 0..ROUNDS {
            for n in 0..10 {
                listeners(&stage, &variants[n % 2]);
                let answer = stage.reload();
                assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
                thread::sleep(Duration::from_millis(50));
            }
            let port = dies.address.port();
            dies.kill(Shutdown::Write);
            thread::sleep(Duration::from_millis(300));
            dies = Mortal::start(port, &heard, serve_mortally);

            let signed = sign();
            // By itself, or by a reload.
            if round % 2 == 0 {
                stage.reload();
            }
            let is_shown = || watcher.shown_by(door.address) == signed.der;
            eventually(is_shown, || format!("the old certificate is shown\n{}", process.log()));

            upgrade(&mut stage, &mut process);
        }
    });
    let heard = heard.lock().unwrap();
    let read: HashSet<u64> = heard.iter().map(|id| id.parse().unwrap()).collect();
    println!("{} lost, {} read by the host that dies", lost.len(), read.len());
    let unread: BTreeMap<_, _> = lost.iter().filter(|(id, _)| !read.contains(id)).collect();
    assert!(unread.is_empty(), "{unread:#?}");
    let all: Vec<_> = seen.lock().unwrap().iter().chain(heard.iter()).cloned().collect();
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "a request was seen twice");
    process.signal("TERM");
    process.ends_within(Duration::from_secs(20));
}

/// Who waits for the sockets makes one at that place, and takes nothing else away from there.
#[test]
fn a_file_at_the_place_of_the_hand_over_stays() {
    let upstream = ScriptedHost::start(serve);
    let mut stage = Stage::new();
    stage.write(&host("legacy", &upstream, "observe"));
    fs::write(stage.socket(), "precious").unwrap();
    let mut process = stage.start(&["--upgrade"]);
    process.ends_within(Duration::from_secs(10));
    assert_eq!(process.running.0.wait().unwrap().code(), Some(3), "{}", process.log());
    assert!(process.log().contains("no socket, which is left as it is"), "{}", process.log());
    assert_eq!(fs::read_to_string(stage.socket()).unwrap(), "precious");
}

/// A signal that nobody is there for is no reason to end; and the sockets go to nobody who may not have them.
#[test]
fn a_hand_over_needs_somebody_and_a_place_of_its_own() {
    let upstream = ScriptedHost::start(serve);
    let mut stage = Stage::new();
    let mut process = stage.started(&host("legacy", &upstream, "observe"));
    process.signal("QUIT");
    process.assert_logs("no new process waits for the sockets");
    assert_eq!(stage.call(), ERROR);
    assert_eq!(process.running.0.try_wait().unwrap(), None);
    // It still listens to signals.
    process.signal("TERM");
    process.ends_within(Duration::from_secs(10));

    let refused = |stage: &mut Stage, more: &[&str], says: &str| {
        let mut process = stage.start(more);
        process.ends_within(Duration::from_secs(10));
        assert_eq!(process.running.0.wait().unwrap().code(), Some(1));
        assert!(process.log().contains(says), "{}", process.log());
    };
    fs::set_permissions(stage.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    refused(&mut stage, &[], "is open to every user of this machine; use a directory of mode 0700 or 0750");
    fs::set_permissions(stage.directory.path(), fs::Permissions::from_mode(0o770)).unwrap();
    refused(&mut stage, &[], "can be written to by a whole group; use a directory of mode 0700 or 0750");
    let text = fs::read_to_string(stage.file()).unwrap();
    let missing = Path::new("/nowhere/at/all.sock").display().to_string();
    fs::write(stage.file(), text.replace(&stage.socket().display().to_string(), &missing)).unwrap();
    refused(&mut stage, &[], "cannot be used");
    fs::write(stage.file(), text.replace(&stage.socket().display().to_string(), "")).unwrap();
    let mut process = stage.start(&["--upgrade"]);
    process.ends_with(NOT_TAKEN);
    process.assert_logs("--upgrade needs listen.handover");
}

/// The exit code of a process that was to take over and did not.
const NOT_TAKEN: i32 = 3;

/// What the new process cannot use keeps the one before in its place: it answers all the while and can still hand over.
#[test]
fn who_cannot_serve_takes_nothing_over() {
    let upstream = ScriptedHost::start(serve);
    let mut stage = Stage::new();
    let tables = host("legacy", &upstream, "observe");
    let mut process = stage.started(&tables);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (listen, admin, taken) = (stage.listen, stage.admin, taken.local_addr().unwrap().port());
    let mut refusals = 0;
    let tls = "[listen.tls]\ncert = \"/nowhere\"\nkey = \"/nowhere\"\n";
    for (ports, more, code, says) in [
        ((taken, admin), "", NOT_TAKEN, "(listen.address): Address already in use"),
        ((listen, taken), "", NOT_TAKEN, "(admin.address): Address already in use"),
        ((listen, admin), tls, 2, "cannot be read"),
        ((listen, admin), "nothing = 1\n", 2, "unknown key"),
    ] {
        (stage.listen, stage.admin) = ports;
        stage.write(&format!("{more}{tables}"));
        (stage.listen, stage.admin) = (listen, admin);
        let mut new = stage.start(&["--upgrade"]);
        if code == NOT_TAKEN {
            new.assert_logs("waiting for the listening sockets");
            process.signal("QUIT");
        }
        new.ends_with(code);
        new.assert_logs(says);
        if code == NOT_TAKEN {
            eventually(
                || process.log().matches("the new process cannot take over").count() == refusals + 1,
                || process.log(),
            );
            refusals += 1;
            new.assert_logs("not taking over; the process that runs, if one does, goes on");
        }
        assert!(!new.log().contains("panicked") && !new.log().contains("\"listening\""), "{}", new.log());
        for _ in 0..5 {
            assert_eq!(stage.call(), ERROR);
        }
        assert!(process.running.0.try_wait().unwrap().is_none(), "{}", process.log());
    }
    assert!(!process.log().contains("handing over"), "{}", process.log());
    // And then one that can; it listens elsewhere, too.
    stage.listen = free_port();
    stage.write(&tables);
    let new = stage.start(&["--upgrade"]);
    new.assert_logs("waiting for the listening sockets");
    process.signal("QUIT");
    process.ends_within(Duration::from_secs(20));
    new.assert_logs("took over the listening sockets");
    new.assert_logs("nobody listens here any more once the process before has ended");
    assert_eq!(stage.call(), ERROR);
}

/// Killed as soon as it has the sockets, and before it has served for a moment.
#[test]
fn who_dies_after_the_start_takes_nothing_over() {
    let upstream = ScriptedHost::start(serve);
    let mut stage = Stage::new();
    let mut process = stage.started(&host("legacy", &upstream, "observe"));
    let mut new = stage.start(&["--upgrade"]);
    new.assert_logs("waiting for the listening sockets");
    process.signal("QUIT");
    new.assert_logs("\"listening\"");
    new.signal("KILL");
    new.running.0.wait().unwrap();
    process.assert_logs("the new process ended before it served");
    for _ in 0..20 {
        assert_eq!(stage.call(), ERROR);
    }
    upgrade(&mut stage, &mut process);
    assert_eq!(stage.call(), ERROR);
}

/// Nobody to take over from, and two that want to.
#[test]
fn an_upgrade_that_does_not_happen_says_why() {
    let upstream = ScriptedHost::start(serve);
    let mut stage = Stage::new();
    let mut process = stage.started(&host("legacy", &upstream, "observe"));
    let mut first = stage.start(&["--upgrade"]);
    first.assert_logs("waiting for the listening sockets");
    let mut second = stage.start(&["--upgrade"]);
    second.ends_with(NOT_TAKEN);
    second.assert_logs("another process with --upgrade is about to take over");
    assert!(!second.log().contains("panicked"), "{}", second.log());
    first.ends_with(NOT_TAKEN);
    first.assert_logs(
        "nobody sent the listening sockets within 6 s; send SIGQUIT to the process that has them",
    );
    assert!(!first.log().contains("\"listening\"") && !first.log().contains("took over"), "{}", first.log());
    // Neither is in the way of the next.
    upgrade(&mut stage, &mut process);
    let log = process.log();
    let [took, listens] = ["took over", "\"listening\""].map(|words| log.find(words).unwrap());
    let waits = log.find("waiting for").unwrap();
    assert!(waits < listens && listens < took, "{log}");
}
