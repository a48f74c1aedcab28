//! TLS towards clients (U-3): the rules hold over it as they do in the clear, certificates change under open
//! connections, and nothing that is no TLS, or is never finished, gets in anybody's way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[path = "support/binary.rs"]
mod binary;
mod support;
#[path = "support/tls.rs"]
mod tls;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use binary::{Running, ask, command, exchange, free_port, run, text};
use support::{
    Answer, CALL, Connection, ERROR, GET_TASK, NOT_FOUND, PATIENCE, SUCCESS, ScriptedHost, eventually, post,
    sized,
};
use tls::{Authority, EXPIRED, NOT_YET, Signed, TlsClient, block_on};

/// The name the tests' listener goes by.
const NAME: &str = "agents.example";
const EVENT: &str = "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"n\":1}}\n\n";
const FORBIDDEN: &str = r#"{"error":"run_forbidden","message":"run belongs to acme"}"#;

/// A host that answers by what it is asked: `/large` with so many bytes, `/echo` with what was sent, a call by the
/// method it names; a stream sends an event for each thing that it is told.
fn host() -> (ScriptedHost, Sender<()>) {
    let (tell, told) = channel::<()>();
    let told = Mutex::new(told);
    let host = ScriptedHost::start(move |visit| {
        while let Some(request) = visit.request() {
            let body = request.text();
            let target = request.first_line.split(' ').nth(1).unwrap().to_owned();
            let mut answer = if target == "/echo" {
                sized(200, &body)
            } else if let Some(size) = target.strip_prefix("/large/") {
                sized(200, &"x".repeat(size.parse().unwrap()))
            } else if target.ends_with("?foreign") {
                sized(403, FORBIDDEN)
            } else if body.contains("GetTask") {
                sized(200, NOT_FOUND)
            } else if body.contains("CancelTask") {
                sized(200, ERROR)
            } else {
                sized(200, SUCCESS)
            };
            if body.contains("SendStreamingMessage") {
                visit.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
                while told.lock().unwrap().recv_timeout(PATIENCE * 2).is_ok() {
                    visit.send(format!("{:x}\r\n{EVENT}\r\n", EVENT.len()));
                }
                answer = "0\r\n\r\n".into();
            }
            visit.send(answer);
        }
    });
    (host, tell)
}

const STREAM: &str =
    r#"{"jsonrpc":"2.0","id":7,"method":"SendStreamingMessage","params":{"message":{"messageId":"m"}}}"#;
const CANCEL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"CancelTask","params":{"id":"t-1"}}"#;
/// Where the task that is asked for is somebody else's.
const FOREIGN: &str = "/a2a?foreign";

struct Stage {
    directory: tempfile::TempDir,
    authority: Authority,
    listen: u16,
    admin: u16,
    started: std::cell::Cell<usize>,
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
    fn assert_logs(&self, words: &[&str]) {
        let says = || self.log().lines().any(|line| words.iter().all(|word| line.contains(word)));
        eventually(says, || format!("{words:?} is not in\n{}", self.log()));
    }

    #[track_caller]
    fn ends_within(&mut self, patience: Duration) {
        let end = Instant::now() + patience;
        while self.running.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "it still runs:\n{}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Stage {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let (listen, admin) = (free_port(), free_port());
        Self { directory, authority: Authority::new(), listen, admin, started: 0.into() }
    }

    fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.listen).into()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn put(&self, name: &str, contents: &str) -> String {
        fs::write(self.path(name), contents).unwrap();
        self.path(name).display().to_string()
    }

    /// `NAME.crt` and `NAME.key`, as members of a table.
    fn put_pair(&self, name: &str, signed: &Signed) -> String {
        let cert = self.put(&format!("{name}.crt"), &signed.cert);
        let key = self.put(&format!("{name}.key"), &signed.key);
        format!("cert = \"{cert}\"\nkey = \"{key}\"\n")
    }

    /// The listener's table and then this host.
    fn write(&self, tls: &str, host: &ScriptedHost) -> PathBuf {
        let (listen, admin) = (self.listen, self.admin);
        let socket = self.path("handover.sock");
        let file = format!(
            "[listen]\naddress = \"127.0.0.1:{listen}\"\nhandover = \"{}\"\n[listen.tls]\n{tls}[admin]\n\
             address = \"127.0.0.1:{admin}\"\n[[hosts]]\nupstreams = [\"{}\"]\n[[hosts.interfaces]]\npath = \"/a2a\"\n",
            socket.display(),
            host.address
        );
        PathBuf::from(self.put("a.toml", &file))
    }

    fn spawn(&self, more: &[&str]) -> Process {
        self.started.set(self.started.get() + 1);
        let log = self.path(&format!("{}.log", self.started.get()));
        let mut command = command();
        command.args(["run", "--log-level", "info", "--config"]).arg(self.path("a.toml")).args(more);
        command.stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
        Process { running: Running(command.spawn().unwrap()), log }
    }

    fn start(&self, tls: &str, host: &ScriptedHost) -> Process {
        self.write(tls, host);
        let process = self.spawn(&[]);
        assert!(ask(self.admin, "GET /livez").starts_with("HTTP/1.1 200 "));
        let listens = || TcpStream::connect(self.address()).is_ok();
        eventually(listens, || process.log());
        process
    }

    /// With one certificate for [`NAME`].
    fn started(&self, host: &ScriptedHost) -> Process {
        self.start(&self.put_pair("tls", &self.authority.sign(&[NAME])), host)
    }

    fn client(&self, protocols: &[&str]) -> TlsClient {
        TlsClient::new(&self.authority, NAME, protocols)
    }

    fn http_1(&self) -> Connection {
        self.client(&["http/1.1"]).connect(self.address())
    }

    fn metric(&self, series: &str) -> i64 {
        let page = ask(self.admin, "GET /metrics");
        let line = page.lines().find_map(|line| line.strip_prefix(&format!("a2a_errata_{series} ")));
        line.unwrap_or_else(|| panic!("no {series} in\n{page}")).trim().parse().unwrap()
    }

    /// Longer than tests usually wait: handshakes have ten seconds.
    #[track_caller]
    fn assert_metric(&self, series: &str, expected: i64) {
        let end = Instant::now() + PATIENCE * 3;
        while self.metric(series) != expected {
            assert!(Instant::now() < end, "{series} is {}, not {expected}", self.metric(series));
            thread::sleep(Duration::from_millis(20));
        }
    }

    #[track_caller]
    fn assert_failures(&self, cause: &str, expected: i64) {
        self.assert_metric(&format!("tls_handshake_failures_total{{cause=\"{cause}\"}}"), expected);
    }

    fn reload(&self) -> String {
        let request =
            "POST /-/reload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        text(&exchange(self.admin, request.as_bytes()))
    }
}

fn ask_1(client: &mut Connection, path: &str, body: &str) -> Answer {
    client.send(post(path, body));
    client.answer()
}

/// Status, headers and body of an answer, but for the time.
fn timeless(answer: &Answer) -> (String, Vec<(String, String)>, Vec<u8>) {
    let headers = answer.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("date"));
    (answer.first_line.clone(), headers.cloned().collect(), answer.body.clone())
}

#[test]
fn http_1_over_tls_passes_and_is_repaired_as_in_the_clear() {
    let (host, _tell) = host();
    let stage = Stage::new();
    let _proxy = stage.started(&host);
    let mut client = stage.http_1();
    assert_eq!(client.tls().alpn_protocol(), Some(&b"http/1.1"[..]));
    for _ in 0..3 {
        ask_1(&mut client, "/a2a", CALL).assert_passed(200, SUCCESS);
        ask_1(&mut client, "/a2a", CANCEL).assert_fault(200, "7");
    }
    // O-1: what is not yours and what is not there cannot be told apart, here either.
    let (foreign, absent) = (ask_1(&mut client, FOREIGN, GET_TASK), ask_1(&mut client, "/a2a", GET_TASK));
    foreign.assert_fault(200, "7");
    assert_eq!(timeless(&foreign), timeless(&absent));
    for size in [16_384, 65_537, 1_048_577, 3_000_000] {
        let large = ask_1(&mut client, &format!("/large/{size}"), "");
        assert_eq!((large.complete, large.body.len()), (true, size));
        let body = "y".repeat(size);
        ask_1(&mut client, "/echo", &body).assert_passed(200, &body);
    }
    assert_eq!(stage.metric("tls_handshakes_total{result=\"done\"}"), 1, "one connection for all");
}

#[test]
fn http_2_over_tls_passes_and_is_repaired_as_in_the_clear() {
    let (host, _tell) = host();
    let stage = Stage::new();
    let _proxy = stage.started(&host);
    block_on(async {
        let (client, driver) = stage.client(&["h2", "http/1.1"]).http_2(stage.address()).await.unwrap();
        tokio::spawn(driver);
        for _ in 0..3 {
            let (answer, body) = client.call("/a2a", CALL).await;
            assert_eq!((answer.status, body.as_slice()), (200, SUCCESS.as_bytes()));
        }
        let (_, body) = client.call("/a2a", CANCEL).await;
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&body["id"], body["error"]["code"].as_i64()), (&7.into(), Some(-32004)));
        let (mut foreign, mut absent) =
            (client.call(FOREIGN, GET_TASK).await, client.call("/a2a", GET_TASK).await);
        for answer in [&mut foreign.0, &mut absent.0] {
            answer.headers.remove("date");
        }
        assert_eq!((&foreign.0.headers, &foreign.1), (&absent.0.headers, &absent.1));
        assert!(text(&foreign.1).contains("TASK_NOT_FOUND"));
        for size in [65_537, 1_048_577, 3_000_000] {
            let (answer, body) = client.call(&format!("/large/{size}"), "").await;
            assert_eq!((answer.status, body.len()), (200, size));
            let sent = "y".repeat(size);
            let (answer, body) = client.call("/echo", sent.clone()).await;
            assert!(answer.status == 200 && body == sent.as_bytes(), "{size}: {}", body.len());
        }
    });
    assert_eq!(stage.metric("tls_handshakes_total{result=\"done\"}"), 1);
}

#[test]
fn events_flow_one_by_one_over_tls() {
    let (host, tell) = host();
    let stage = Stage::new();
    let _proxy = stage.started(&host);
    let mut client = stage.http_1();
    client.send(post("/a2a", STREAM));
    for _ in 0..3 {
        tell.send(()).unwrap();
        let read = client.until(b"\n\n").expect("no event");
        assert!(text(&read).contains("\"n\":1"));
    }
}

#[test]
fn events_flow_one_by_one_over_http_2_and_tls() {
    let (host, tell) = host();
    let stage = Stage::new();
    let _proxy = stage.started(&host);
    block_on(async {
        let (client, driver) = stage.client(&["h2"]).http_2(stage.address()).await.unwrap();
        tokio::spawn(driver);
        tell.send(()).unwrap();
        let events = async {
            let mut answer = client.post("/a2a", STREAM.into()).await.unwrap();
            for _ in 0..3 {
                assert_eq!(answer.piece().await.unwrap(), EVENT.as_bytes());
                tell.send(()).unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, events).await.expect("no event in time");
    });
}

/// What is negotiated decides, and nothing else.
#[test]
fn the_protocol_is_what_was_agreed_on() {
    let (host, _tell) = host();
    let stage = Stage::new();
    let pair = stage.put_pair("tls", &stage.authority.sign(&[NAME]));
    let proxy = stage.start(&pair, &host);
    let agreed = |protocols: &[&str]| {
        let client = stage.client(protocols).try_connect(stage.address());
        client.map(|client| client.tls().alpn_protocol().map(text))
    };
    assert_eq!(agreed(&["http/1.1", "h2"]), Ok(Some("h2".into())));
    assert_eq!(agreed(&["http/1.1"]), Ok(Some("http/1.1".into())));
    assert!(agreed(&["spdy/3"]).unwrap_err().contains("NoApplicationProtocol"));
    assert_eq!(agreed(&[]), Ok(None));
    // A client that agreed on nothing speaks HTTP/1; HTTP/2 is not guessed.
    ask_1(&mut stage.client(&[]).connect(stage.address()), "/a2a", CALL).assert_passed(200, SUCCESS);
    let mut client = stage.client(&[]).connect(stage.address());
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(client.answer().status(), 400);

    stage.write(&format!("{pair}http2 = false\n"), &host);
    assert!(stage.reload().contains("changed: listen.tls"));
    assert_eq!(agreed(&["h2", "http/1.1"]), Ok(Some("http/1.1".into())));
    assert!(agreed(&["h2"]).is_err());
    assert!(proxy.log().contains("tls=on") || proxy.log().contains("\"tls\":\"on\""), "{}", proxy.log());
}

/// A call, or why there was no answer. In TLS 1.3 a client learns that it was refused when it reads.
fn call(stage: &Stage, client: &TlsClient) -> Result<u16, String> {
    let mut connection = client.try_connect(stage.address())?;
    if !connection.try_send(post("/a2a", CALL)) {
        return Err("closed".into());
    }
    connection.head().map(|head| head.status()).ok_or_else(|| "closed".into())
}

#[test]
fn clients_show_a_certificate_where_they_must() {
    let (host, _tell) = host();
    let stage = Stage::new();
    let (clients, strangers) = (Authority::new(), Authority::new());
    let pair = stage.put_pair("tls", &stage.authority.sign(&[NAME]));
    let ca = stage.put("clients.pem", &clients.pem());
    let showing = |shown: Option<&Signed>| TlsClient::with(&stage.authority, NAME, &["http/1.1"], shown);
    let (known, stranger) = (clients.sign(&["a.example"]), strangers.sign(&["a.example"]));
    let late = clients.sign_for(&["a.example"], EXPIRED);

    let proxy = stage.start(&format!("{pair}client_ca = \"{ca}\"\n"), &host);
    assert_eq!(call(&stage, &showing(Some(&known))), Ok(200));
    assert!(call(&stage, &showing(Some(&stranger))).is_err());
    assert!(call(&stage, &showing(Some(&late))).is_err());
    assert!(call(&stage, &showing(None)).is_err());
    stage.assert_metric("tls_handshakes_total{result=\"failed\"}", 3);
    for cause in ["unknown_issuer", "expired", "no_client_certificate"] {
        stage.assert_failures(cause, 1);
    }
    // One that believes somebody else.
    let doubtful = TlsClient::with(&strangers, NAME, &["http/1.1"], Some(&known));
    assert!(call(&stage, &doubtful).is_err());
    stage.assert_failures("refused_by_client", 1);
    stage.assert_failures("other", 0);

    stage.write(&format!("{pair}client_ca = \"{ca}\"\nclient_auth = \"optional\"\n"), &host);
    proxy.signal("HUP");
    proxy.assert_logs(&["configuration reloaded", "changed: listen.tls"]);
    assert_eq!(call(&stage, &showing(Some(&known))), Ok(200));
    assert_eq!(call(&stage, &showing(None)), Ok(200));
    assert!(call(&stage, &showing(Some(&stranger))).is_err());

    // Another authority: who was let in stays, who comes anew must be known to it.
    let kept = showing(Some(&known));
    let mut open = kept.connect(stage.address());
    ask_1(&mut open, "/a2a", CALL).assert_passed(200, SUCCESS);
    stage.put("clients.pem", &strangers.pem());
    stage.assert_metric("certificate_reloads_total{use=\"listen\"}", 2);
    assert!(call(&stage, &kept).is_err());
    assert_eq!(call(&stage, &showing(Some(&stranger))), Ok(200));
    ask_1(&mut open, "/a2a", CALL).assert_passed(200, SUCCESS);
}

#[test]
fn a_certificate_is_chosen_by_the_name_that_is_asked_for() {
    let (host, _tell) = host();
    let stage = Stage::new();
    let signed = [
        stage.authority.sign(&[NAME, "localhost"]),
        stage.authority.sign(&["billing.example", "Ledger.Example"]),
        stage.authority.sign(&["*.support.example"]),
        stage.authority.sign(&["exact.support.example"]),
    ];
    let default = stage.put_pair("0", &signed[0]);
    let further: Vec<String> = (1..4)
        .map(|n| format!("[[listen.tls.certificates]]\n{}", stage.put_pair(&n.to_string(), &signed[n])))
        .collect();
    let ed25519 = stage.authority.sign_ed25519(&["billing.example"]);
    let _proxy = stage.start(&(default.clone() + &further.concat()), &host);
    for (name, which) in [
        (NAME, 0),
        ("billing.example", 1),
        ("ledger.example", 1),
        ("a.support.example", 2),
        ("exact.support.example", 3),
    ] {
        let client = TlsClient::new(&stage.authority, name, &["http/1.1"]);
        assert!(client.shown_by(stage.address()) == signed[which].der, "{name}");
    }
    // Two kinds of key for one name: the one that the client knows.
    stage.write(
        &(default
            + &further.concat()
            + &format!("[[listen.tls.certificates]]\n{}", stage.put_pair("4", &ed25519))),
        &host,
    );
    assert!(stage.reload().contains("200 OK"));
    for _ in 0..2 {
        let client = TlsClient::new(&stage.authority, "billing.example", &[]);
        assert!(client.shown_by(stage.address()) == signed[1].der);
    }
    // The default, which is not for these names; and an address is no name.
    for name in ["a.b.support.example", "support.example", "nobody.example", "127.0.0.1"] {
        let refused = TlsClient::new(&stage.authority, name, &[]).try_connect(stage.address());
        let says = refused.err().unwrap_or_default();
        assert!(says.contains("not valid for name"), "{name}: {says}");
    }
}

/// As Kubernetes and cert-manager do it: the files are links through a directory that is a link itself.
#[test]
fn certificates_change_under_open_connections() {
    let (host, tell) = host();
    let stage = Stage::new();
    let signed = [stage.authority.sign(&[NAME]), stage.authority.sign_for(&[NAME], (2020, 2091))];
    for (n, signed) in signed.iter().enumerate() {
        fs::create_dir(stage.path(&format!("v{n}"))).unwrap();
        stage.put(&format!("v{n}/tls.crt"), &signed.cert);
        stage.put(&format!("v{n}/tls.key"), &signed.key);
    }
    symlink("v0", stage.path("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        symlink(Path::new("..data").join(name), stage.path(name)).unwrap();
    }
    let at = |name: &str| stage.path(name).display().to_string();
    let pair = format!("cert = \"{}\"\nkey = \"{}\"\n", at("tls.crt"), at("tls.key"));
    let proxy = stage.start(&pair, &host);
    let expiry = "certificate_expiry_timestamp_seconds{host=\"\",key=\"cert\",use=\"listen\"}";
    let before = stage.metric(expiry);
    let (mut open, mut stream) = (stage.http_1(), stage.http_1());
    ask_1(&mut open, "/a2a", CALL).assert_passed(200, SUCCESS);
    stream.send(post("/a2a", STREAM));
    tell.send(()).unwrap();
    stream.until(b"\n\n").expect("no event");

    symlink("v1", stage.path("..new")).unwrap();
    fs::rename(stage.path("..new"), stage.path("..data")).unwrap();
    stage.assert_metric("certificate_reloads_total{use=\"listen\"}", 1);
    assert_eq!(stage.client(&[]).shown_by(stage.address()), signed[1].der);
    assert!(stage.metric(expiry) > before);
    proxy.assert_logs(&["certificate files taken anew", "listen"]);
    ask_1(&mut open, "/a2a", CALL).assert_passed(200, SUCCESS);
    tell.send(()).unwrap();
    stream.until(b"\n\n").expect("the stream was cut");
    assert_eq!(stage.metric("config_reloads_total{result=\"ok\"}"), 0, "the configuration is not read again");
    assert_eq!(stage.metric("certificates_refused{use=\"listen\"}"), 0);
}

#[test]
fn files_that_cannot_be_used_are_not_taken_and_told() {
    let (host, _tell) = host();
    let stage = Stage::new();
    let first = stage.authority.sign(&[NAME]);
    let proxy = stage.start(&stage.put_pair("tls", &first), &host);
    let refused = |count: i64| stage.assert_metric("certificates_refused{use=\"listen\"}", count);
    let failures = |cause: &str| {
        stage.metric(&format!("certificate_failures_total{{cause=\"{cause}\",use=\"listen\"}}"))
    };
    let still_first = || assert_eq!(stage.client(&[]).shown_by(stage.address()), first.der);

    // Half of a pair.
    let second = stage.authority.sign(&[NAME]);
    stage.put("tls.crt", &second.cert);
    refused(1);
    proxy.assert_logs(&["listen.tls.key", "cause", "mismatch", "does not belong to the certificate"]);
    still_first();
    let report: serde_json::Value =
        serde_json::from_str(ask(stage.admin, "GET /report").split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(report["certificates"]["refused"][0]["key"], "listen.tls.key", "{report}");
    let page = ask(stage.admin, "GET /");
    assert!(page.contains("listen.tls.key") && page.contains("does not belong to the certificate"), "{page}");
    thread::sleep(Duration::from_secs(5));
    assert_eq!(failures("mismatch"), 1, "told once, not at every look");
    // A reload reads the same files and says the same.
    assert!(stage.reload().contains("does not belong to the certificate"));
    assert_eq!(failures("mismatch"), 2);
    still_first();
    stage.put("tls.key", &second.key);
    refused(0);
    assert_eq!(stage.client(&[]).shown_by(stage.address()), second.der);

    for (years, cause) in [(EXPIRED, "expired"), (NOT_YET, "not_yet_valid")] {
        stage.put_pair("tls", &stage.authority.sign_for(&[NAME], years));
        refused(1);
        assert_eq!(failures(cause), 1, "{cause}");
        assert_eq!(stage.client(&[]).shown_by(stage.address()), second.der);
        stage.put_pair("tls", &second);
        refused(0);
    }
    stage.put("tls.crt", "");
    refused(1);
    assert_eq!(failures("unusable"), 1);
    fs::remove_file(stage.path("tls.crt")).unwrap();
    eventually(|| failures("unreadable") >= 1, || proxy.log());
    assert_eq!(stage.client(&[]).shown_by(stage.address()), second.der);
    stage.put_pair("tls", &stage.authority.sign(&[NAME]));
    refused(0);
    let log = proxy.log();
    let secret = |pem: &str| log.contains(pem.lines().nth(1).unwrap());
    assert!(!secret(&first.key) && !secret(&second.key) && !log.contains("PRIVATE KEY"), "{log}");
}

/// Told before it ends and after; served on, since no certificate at all is no better.
#[test]
fn a_certificate_that_ends_is_told_and_stays() {
    let (host, _tell) = host();
    let stage = Stage::new();
    let signed = stage.authority.sign_for_seconds(&[NAME], 8);
    let proxy = stage.start(&stage.put_pair("tls", &signed), &host);
    proxy.assert_logs(&["certificate expires soon", "cert"]);
    assert!(ask(stage.admin, "GET /").contains("expires in"));
    let mut open = stage.http_1();
    ask_1(&mut open, "/a2a", CALL).assert_passed(200, SUCCESS);
    proxy.assert_logs(&["certificate has expired and is still in effect", "cert"]);
    ask_1(&mut open, "/a2a", CALL).assert_passed(200, SUCCESS);
    // The last second is one of its time.
    let refused = || stage.client(&[]).try_connect(stage.address()).err().unwrap_or_default();
    eventually(|| refused().contains("expired"), refused);
    assert!(ask(stage.admin, "GET /").contains("has expired"));
    let failures = || stage.metric("certificate_failures_total{cause=\"expired\",use=\"listen\"}");
    let outside = "certificates_outside_their_time{use=\"listen\"}";
    assert_eq!(failures(), 0);
    // It is in nobody's way: not in that of a reload, nor of another certificate.
    let further = |signed: &Signed| {
        let tls = "cert = \"".to_owned() + &stage.path("tls.crt").display().to_string() + "\"\nkey = \"";
        let tls = tls + &stage.path("tls.key").display().to_string() + "\"\n[[listen.tls.certificates]]\n";
        stage.write(&(tls + &stage.put_pair("further", signed)), &host);
    };
    further(&stage.authority.sign(&["b.example"]));
    let answer = stage.reload();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    proxy.assert_logs(&["certificate outside its time", "listen.tls.cert", "it is in use all the same"]);
    assert_eq!(stage.metric(outside), 1);
    let renewed = stage.authority.sign(&["b.example"]);
    stage.put_pair("further", &renewed);
    stage.assert_metric("certificate_reloads_total{use=\"listen\"}", 2);
    assert_eq!(TlsClient::new(&stage.authority, "b.example", &[]).shown_by(stage.address()), renewed.der);
    assert!(ask(stage.admin, "GET /").contains("has expired"));
    assert_eq!(failures(), 0);
    // One that is new is.
    further(&stage.authority.sign_for(&["b.example"], EXPIRED));
    assert!(stage.reload().starts_with("HTTP/1.1 422 "));
    assert!(failures() >= 1);
    further(&renewed);
    stage.put_pair("tls", &stage.authority.sign(&[NAME]));
    stage.assert_metric("certificate_reloads_total{use=\"listen\"}", 3);
    assert_eq!(stage.metric(outside), 0);
    ask_1(&mut stage.http_1(), "/a2a", CALL).assert_passed(200, SUCCESS);
}

/// An old root that was signed across, or that is still in a bundle, keeps nobody from starting.
#[test]
fn an_old_certificate_beside_the_one_that_counts_is_left_out_and_told() {
    let (host, _tell) = host();
    let stage = Stage::new();
    let (old, clients, early) = (Authority::of(EXPIRED), Authority::new(), Authority::of(NOT_YET));
    let mut chained = stage.authority.sign(&[NAME]);
    chained.cert += &old.pem();
    chained.cert += &stage.authority.pem();
    let pair = stage.put_pair("tls", &chained);
    let ca = stage.put("clients.pem", &(old.pem() + &clients.pem() + &early.pem()));
    let proxy = stage.start(&format!("{pair}client_ca = \"{ca}\"\n"), &host);
    for key in ["listen.tls.cert", "listen.tls.client_ca"] {
        proxy.assert_logs(&[key, "valid from", "it is left out"]);
    }
    stage.assert_metric("certificates_outside_their_time{use=\"listen\"}", 3);
    let showing = |authority: &Authority| {
        TlsClient::with(&stage.authority, NAME, &["http/1.1"], Some(&authority.sign(&["a.example"])))
    };
    assert_eq!(call(&stage, &showing(&clients)), Ok(200));
    assert!(call(&stage, &showing(&old)).is_err());
    let shown = showing(&clients).connect(stage.address()).tls().peer_certificates().unwrap().len();
    assert_eq!(shown, 2, "the leaf and its authority");
    // By a reload and by themselves, too.
    let answer = stage.reload();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    stage.put("clients.pem", &(clients.pem() + &old.pem()));
    stage.assert_metric("certificates_outside_their_time{use=\"listen\"}", 2);
    assert_eq!(stage.metric("certificates_refused{use=\"listen\"}"), 0);
    // Nothing but old ones is nothing.
    stage.put("clients.pem", &old.pem());
    stage.assert_metric("certificates_refused{use=\"listen\"}", 1);
    assert!(stage.reload().contains("only; renew it"));
    assert_eq!(call(&stage, &showing(&clients)), Ok(200));
}

/// What is no regular file, or has no end, is refused and holds nobody up.
#[test]
fn files_that_would_hold_everybody_up_are_not_read() {
    type Make<'a> = &'a dyn Fn(&str);
    let (host, _tell) = host();
    let stage = Stage::new();
    let signed = stage.authority.sign(&[NAME]);
    let pair = stage.put_pair("tls", &signed);
    let proxy = stage.start(&pair, &host);
    let pipe = |name: &str| {
        assert!(Command::new("mkfifo").arg(stage.path(name)).status().unwrap().success());
    };
    let huge = signed.cert.clone() + &"# not the end\n".repeat(100_000);
    let kinds: [(&str, Make<'_>); 4] = [
        ("is a pipe, no regular file", &pipe),
        ("is a directory, no regular file", &|name| fs::create_dir(stage.path(name)).unwrap()),
        ("is a device, no regular file", &|name| symlink("/dev/zero", stage.path(name)).unwrap()),
        ("has more than 1 MiB", &|name| {
            stage.put(name, &huge);
        }),
    ];
    for (n, (says, make)) in (1..).zip(&kinds) {
        fs::remove_file(stage.path("tls.crt")).unwrap();
        make("tls.crt");
        proxy.assert_logs(&["listen.tls.cert", "unreadable", says]);
        stage.assert_metric("certificates_refused{use=\"listen\"}", 1);
        let answer = stage.reload();
        assert!(answer.starts_with("HTTP/1.1 422 ") && answer.contains(says), "{answer}");
        // Neither a start.
        refused(&stage.path("a.toml"), "listen.tls.cert", says);
        assert_eq!(stage.client(&[]).shown_by(stage.address()), signed.der);
        if stage.path("tls.crt").is_dir() {
            fs::remove_dir(stage.path("tls.crt")).unwrap();
        } else {
            fs::remove_file(stage.path("tls.crt")).unwrap();
        }
        stage.put("tls.crt", &signed.cert);
        stage.assert_metric("certificates_refused{use=\"listen\"}", 0);
        assert!(stage.metric("certificate_failures_total{cause=\"unreadable\",use=\"listen\"}") >= 2 * n);
    }
    // The configuration itself.
    let toml = fs::read_to_string(stage.path("a.toml")).unwrap();
    fs::remove_file(stage.path("a.toml")).unwrap();
    pipe("a.toml");
    let answer = stage.reload();
    assert!(answer.starts_with("HTTP/1.1 422 ") && answer.contains("is a pipe, no regular file"), "{answer}");
    proxy.signal("HUP");
    stage.assert_metric("config_reloads_total{result=\"refused\"}", 6);
    // Whoever starts may give it one, if somebody writes.
    let file = stage.path("a.toml");
    let says = format!("{}: cannot be read (was not read within 5000 ms)", file.display());
    refused(&file, &says, "give the path of a TOML file");
    let writer = thread::spawn({
        let (file, toml) = (file.clone(), toml.clone());
        move || fs::write(file, toml)
    });
    let checked = run(&["check", "--config", file.to_str().unwrap()], &[]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    writer.join().unwrap().unwrap();
    fs::remove_file(&file).unwrap();
    stage.put("a.toml", &toml);
    assert!(stage.reload().starts_with("HTTP/1.1 200 "));
    ask_1(&mut stage.http_1(), "/a2a", CALL).assert_passed(200, SUCCESS);
}

#[test]
fn what_is_no_tls_is_closed_and_harms_nobody() {
    let (host, _tell) = host();
    let stage = Stage::new();
    let mut proxy = stage.started(&host);
    let answer = exchange(stage.listen, post("/a2a", CALL).as_bytes());
    assert!(!text_lossy(&answer).contains("HTTP/"), "{answer:?}");
    for noise in
        [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], b"\x16\x03\x01\xff\xff", &[0; 64], &vec![0xff; 70_000]]
    {
        let mut stream = TcpStream::connect(stage.address()).unwrap();
        // The proxy may have hung up by then.
        let _ = stream.write_all(noise);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    stage.assert_metric("tls_handshakes_total{result=\"not_tls\"}", 4);
    stage.assert_metric("tls_handshakes_total{result=\"failed\"}", 1);
    stage.assert_failures("not_tls", 4);
    stage.assert_failures("protocol", 1);
    assert!(TlsClient::new(&Authority::new(), NAME, &[]).try_connect(stage.address()).is_err());
    stage.assert_failures("refused_by_client", 1);
    let mut gone = TcpStream::connect(stage.address()).unwrap();
    gone.write_all(b"\x16\x03\x01\x02\x00\x01").unwrap();
    drop(gone);
    stage.assert_failures("closed", 1);
    assert!(host.requests().is_empty());
    ask_1(&mut stage.http_1(), "/a2a", CALL).assert_passed(200, SUCCESS);
    assert!(proxy.running.0.try_wait().unwrap().is_none());
    assert!(!proxy.log().contains("panicked"), "{}", proxy.log());
}

#[test]
fn handshakes_that_are_never_finished_end_and_are_in_nobodys_way() {
    let (host, _tell) = host();
    let stage = Stage::new();
    let _proxy = stage.started(&host);
    // Silent ones, and ones that stop inside the first record.
    let hanging: Vec<TcpStream> = (0..300)
        .map(|n| {
            let mut stream = TcpStream::connect(stage.address()).unwrap();
            if n % 2 == 0 {
                stream.write_all(b"\x16\x03\x01\x02\x00\x01").unwrap();
            }
            stream
        })
        .collect();
    for _ in 0..20 {
        ask_1(&mut stage.http_1(), "/a2a", CALL).assert_passed(200, SUCCESS);
    }
    stage.assert_metric("tls_handshakes_total{result=\"timeout\"}", 300);
    stage.assert_failures("timeout", 300);
    for mut stream in hanging {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)));
    }
}

fn text_lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_shutdown_finishes_what_is_under_way_over_tls() {
    let (host, tell) = host();
    let stage = Stage::new();
    let mut proxy = stage.started(&host);
    let (mut idle, mut stream) = (stage.http_1(), stage.http_1());
    ask_1(&mut idle, "/a2a", CALL).assert_passed(200, SUCCESS);
    stream.send(post("/a2a", STREAM));
    tell.send(()).unwrap();
    stream.until(b"\n\n").expect("no event");
    proxy.signal("TERM");
    proxy.assert_logs(&["shutting down"]);
    tell.send(()).unwrap();
    stream.until(b"\n\n").expect("the stream was cut");
    drop(tell);
    stream.until(b"0\r\n\r\n").expect("the stream has no end");
    assert!(idle.closes_within(PATIENCE));
    proxy.ends_within(PATIENCE);
}

#[test]
fn an_upgrade_hands_a_tls_listener_over() {
    let (host, tell) = host();
    let stage = Stage::new();
    let (old, new) = (stage.authority.sign(&[NAME]), stage.authority.sign(&[NAME]));
    let mut before = stage.start(&stage.put_pair("old", &old), &host);
    let mut stream = stage.http_1();
    stream.send(post("/a2a", STREAM));
    tell.send(()).unwrap();
    stream.until(b"\n\n").expect("no event");
    stage.write(&stage.put_pair("new", &new), &host);
    let after = stage.spawn(&["--upgrade"]);
    before.signal("QUIT");
    after.assert_logs(&["took over the listening sockets"]);
    // Both accept for a while, each with its own certificate; none is refused.
    let end = Instant::now() + PATIENCE * 2;
    loop {
        let mut client = stage.http_1();
        let shown = client.tls().peer_certificates().unwrap()[0].to_vec();
        ask_1(&mut client, "/a2a", CALL).assert_passed(200, SUCCESS);
        assert!(shown == old.der || shown == new.der);
        if before.log().contains("handing over") && shown == new.der {
            break;
        }
        assert!(Instant::now() < end, "{}", before.log());
        thread::sleep(Duration::from_millis(20));
    }
    tell.send(()).unwrap();
    stream.until(b"\n\n").expect("the stream was cut");
    drop(tell);
    stream.until(b"0\r\n\r\n").expect("the stream has no end");
    before.ends_within(PATIENCE * 3);
    assert_eq!(stage.client(&[]).shown_by(stage.address()), new.der);
}

#[test]
fn the_listener_changes_between_plain_and_tls_by_a_reload() {
    let (host, _tell) = host();
    let stage = Stage::new();
    let _proxy = stage.start("", &host);
    let mut plain = Connection::connect(stage.address());
    ask_1(&mut plain, "/a2a", CALL).assert_passed(200, SUCCESS);
    stage.write(&stage.put_pair("tls", &stage.authority.sign(&[NAME])), &host);
    assert!(stage.reload().contains("changed: listen.tls"));
    ask_1(&mut stage.http_1(), "/a2a", CALL).assert_passed(200, SUCCESS);
    ask_1(&mut plain, "/a2a", CALL).assert_passed(200, SUCCESS);
    let shown = ask(stage.admin, "GET /config");
    assert!(shown.contains("tls.cert = ") && shown.contains("tls.crt"), "{shown}");
    assert!(!shown.contains("-----"), "{shown}");
}

#[test]
fn u1_a_listeners_files_that_cannot_be_used_are_named() {
    let (host, _tell) = host();
    let stage = Stage::new();
    let sign = |years| stage.authority.sign_for(&[NAME], years);
    let good = stage.put_pair("good", &sign(tls::VALID));
    let other = stage.put_pair("other", &sign(tls::VALID));
    let nameless = stage.put_pair("nameless", &stage.authority.sign(&[]));
    let noise = stage.put("noise", "no PEM at all\n");
    let line = |pair: &str, n: usize| pair.lines().nth(n).unwrap().to_owned();
    let inline = |pair: &str| format!("certificates = [{{ {}, {} }}]\n", line(pair, 0), line(pair, 1));
    for (tls, place, key, says) in [
        (
            "cert = \"/nowhere.crt\"\nkey = \"/nowhere.key\"\n".into(),
            "5:8",
            "cert = \"/nowhere.crt\"",
            "cannot be read",
        ),
        (format!("cert = \"{noise}\"\nkey = \"{noise}\"\n"), "5:8", "cert", "holds no certificate"),
        (line(&good, 0) + "\n" + &line(&other, 1) + "\n", "6:7", "key", "does not belong to the certificate"),
        (line(&good, 0) + "\n", "5:8", "key = \"\"", "is missing beside cert; write the key's path"),
        (line(&good, 1) + "\n", "5:7", "cert = \"\"", "is missing beside key"),
        (format!("client_ca = \"{noise}\"\n"), "5:13", "cert = \"\"", "is missing beside client_ca"),
        (format!("{good}client_ca = \"{noise}\"\n"), "7:13", "client_ca", "holds no certificate"),
        (stage.put_pair("old", &sign(EXPIRED)), "5:8", "cert", "only; renew it"),
        (stage.put_pair("soon", &sign(NOT_YET)), "5:8", "cert", "only; renew it"),
        (good.clone() + &inline(&nameless), "7:16", "certificates[0].cert", "names no host that it is for"),
        (
            good.clone() + &inline(&(line(&good, 0) + "\n" + &line(&other, 1))),
            "7:16",
            "certificates[0].key",
            "does not belong to the certificate",
        ),
    ] {
        let file = stage.write(&tls, &host);
        refused(&file, &format!("{}:{place}: listen.tls.{key}", file.display()), says);
    }
    for (tls, says) in [
        (format!("{good}certificates = [\"a\"]\n"), "listen.tls.certificates[0] = \"a\": must be a table"),
        (format!("{good}certificates = [{{ cert = \"a\" }}]\n"), "has no `key`"),
        (format!("{good}certificates = [{{ cert = \"a\", keys = \"b\" }}]\n"), "unknown key `keys`"),
        (format!("{good}client_auth = \"maybe\"\n"), "must be \"required\" or \"optional\""),
        (format!("{good}http2 = 1\n"), "must be true or false"),
        ("cert = \"-----BEGIN CERTIFICATE-----\"\n".into(), "not the path of a file"),
    ] {
        refused(&stage.write(&tls, &host), "a.toml:", says);
    }
    let file = stage.write(&(good.clone() + &inline(&other)), &host);
    let checked = run(&["check", "--config", file.to_str().unwrap()], &[]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    let again = stage.put("again.toml", &text(&checked.stdout));
    assert_eq!(run(&["check", "--config", &again], &[]).status.code(), Some(0), "{}", text(&checked.stdout));
}

#[track_caller]
fn refused(file: &Path, place: &str, says: &str) {
    let output = run(&["check", "--config", file.to_str().unwrap()], &[]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains(place) && told.contains(says), "{place} … {says}\nis not in\n{told}");
}
