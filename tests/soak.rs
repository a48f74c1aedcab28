//! Mixed traffic for as long as `SOAK_SECONDS` says, and a host that has every kind of trouble: every client gets what it
//! must, memory and descriptors stay where they are, nothing panics, and the proxy's counters say what hosts and clients
//! counted themselves.
//!
//! `cargo test` runs it for some seconds, `make soak` for half an hour and on the release binary (`SOAK_BINARY`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "a test may end by panicking; what is counted here is far below what a float holds exactly"
)]

#[path = "support/binary.rs"]
mod binary;
mod support;
#[path = "support/tls.rs"]
mod tls;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use binary::{Running, ask, command_of, free_port};
use support::{
    CALL, Connection, ERROR, GET_TASK, PATIENCE, SUCCESS, chunked, eventually, long_success, sized,
};
use tls::{Http2, block_on};

/// What a client must get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Success,
    /// A complete error in the interface's shape.
    Fault(u16),
    /// A success that visibly breaks off.
    Torn,
    /// The client does not wait for it.
    Gone,
}

use Outcome::{Fault, Gone, Success, Torn};

/// A kind of request, by what the host does with it.
struct Kind {
    name: &'static str,
    path: &'static str,
    outcome: Outcome,
    /// How often it is among a hundred or so.
    share: u64,
    /// The host fails it.
    fails: bool,
}

const fn kind(name: &'static str, outcome: Outcome, share: u64) -> Kind {
    Kind { name, path: "/a2a", outcome, share, fails: false }
}

const fn failing(name: &'static str, outcome: Outcome, share: u64) -> Kind {
    Kind { fails: true, ..kind(name, outcome, share) }
}

const KINDS: [Kind; 20] = [
    kind("success", Success, 30),
    kind("large", Success, 6),
    kind("garbage-behind", Success, 3),
    kind("stream", Success, 6),
    kind("error", Fault(200), 14),
    kind("foreign", Fault(200), 10),
    kind("page", Fault(500), 4),
    kind("busy", Fault(429), 3),
    kind("trickle", Fault(200), 3),
    kind("interim", Fault(200), 3),
    kind("endless", Fault(200), 1),
    kind("bomb", Fault(200), 1),
    kind("leaves", Gone, 3),
    failing("silent", Fault(504), 1),
    failing("dies", Fault(502), 2),
    failing("torn-error", Fault(502), 2),
    failing("torn-success", Torn, 2),
    failing("torn-stream", Torn, 2),
    Kind { path: "/rest/tasks/t-1", ..kind("rest-foreign", Fault(404), 4) },
    Kind { path: "/rest/message:send", ..failing("rest-dies", Fault(502), 2) },
];

/// The kind of the request with this number: every kind comes again and again, in no simple order.
fn kind_of(id: u64, http2: bool) -> &'static Kind {
    // Requests over HTTP/2 are those that its test client can make.
    let all = || KINDS.iter().filter(|kind| !http2 || kind.path == "/a2a" && kind.outcome != Gone);
    let mut turn = id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    turn %= all().map(|kind| kind.share).sum::<u64>();
    all()
        .find(|kind| {
            let is_it = turn < kind.share;
            turn = turn.wrapping_sub(kind.share);
            is_it
        })
        .unwrap()
}

fn with_id(text: &str, id: u64) -> String {
    text.replacen("\"id\":7", &format!("\"id\":{id}"), 1)
}

/// What is asked; now and then with a long body.
fn body_of(kind: &Kind, id: u64) -> String {
    let body = match kind.name {
        "foreign" => GET_TASK.to_owned(),
        name if name.ends_with("stream") => CALL.replace("SendMessage", "SendStreamingMessage"),
        _ if id.is_multiple_of(23) => CALL.replace("hi", &"x".repeat(100_000)),
        _ => CALL.to_owned(),
    };
    with_id(&body, id)
}

fn request(kind: &Kind, id: u64) -> String {
    let target = format!("{}?{}-{id}", kind.path, kind.name);
    if kind.path.starts_with("/rest/tasks") {
        return support::get(&target);
    }
    support::post(&target, &body_of(kind, id))
}

/// The host: what it has read, by kind.
#[derive(Default)]
struct Heard(Mutex<BTreeMap<String, u64>>);

fn start_host(heard: &Arc<Heard>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard = heard.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let heard = heard.clone();
            thread::spawn(move || {
                let mut connection = Connection::new(stream);
                while let Some(request) = connection.request() {
                    let query = request.first_line.split_once('?').unwrap().1.split(' ').next().unwrap();
                    let (kind, id) = query.rsplit_once('-').unwrap();
                    *heard.0.lock().unwrap().entry(kind.to_owned()).or_default() += 1;
                    if !answer(&mut connection, kind, id.parse().unwrap()) {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Whether the connection lasts.
fn answer(connection: &mut Connection, kind: &str, id: u64) -> bool {
    let error = with_id(ERROR, id);
    let foreign = r#"{"error":"run_forbidden","message":"it belongs to acme","details":{"tenantId":"acme"}}"#;
    let coded = "HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n";
    match kind {
        "success" => connection.try_send(sized(200, &with_id(SUCCESS, id))),
        "large" | "leaves" => connection.try_send(chunked(200, &with_id(&long_success(), id), 30_000)),
        "garbage-behind" => {
            connection.try_send(sized(200, &with_id(SUCCESS, id)) + &sized(200, "{\"owner\":\"acme\"}"))
        }
        "error" => connection.try_send(sized(200, &error)),
        "foreign" | "rest-foreign" => connection.try_send(sized(403, foreign)),
        "page" => connection.try_send(sized(500, "<html>acme is down</html>")),
        "busy" => connection.try_send(sized(429, "acme has no more today")),
        "trickle" => chunked(200, &error, 9).as_bytes().chunks(40).all(|piece| {
            thread::sleep(Duration::from_millis(1));
            connection.try_send(piece)
        }),
        "interim" => {
            let interim = "HTTP/1.1 103 Early Hints\r\nX-Owner: acme\r\n\r\n".repeat(20);
            connection.try_send(interim + &sized(200, &error))
        }
        "endless" => {
            let head =
                "HTTP/1.1 200 X\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
            let begun = error.trim_end_matches("\"}}");
            connection.try_send(format!("{head}{:x}\r\n{begun}\r\n", begun.len()));
            while connection.try_send(format!("1000\r\n{}\r\n", "a".repeat(0x1000))) {}
            false
        }
        "bomb" => {
            let body = bomb();
            connection.try_send(format!("{coded}Content-Length: {}\r\n\r\n", body.len()))
                && connection.try_send(body)
        }
        "stream" | "torn-stream" => {
            let head =
                "HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
            let event = |text: &str| format!("{:x}\r\ndata: {text}\n\n\r\n", text.len() + 8);
            let good = event(&with_id(SUCCESS, id));
            let went = connection.try_send(head)
                && (0..5).all(|_| {
                    thread::sleep(Duration::from_millis(2));
                    connection.try_send(&good)
                });
            went && kind == "stream" && connection.try_send(event(&error) + "0\r\n\r\n")
        }
        "silent" => {
            // Until the proxy hangs up.
            connection.rest();
            false
        }
        "dies" | "rest-dies" => false,
        "torn-error" => {
            connection.try_send(&sized(200, &error).as_bytes()[..90]);
            false
        }
        "torn-success" => {
            connection.try_send(&sized(200, &with_id(&long_success(), id)).as_bytes()[..150_000]);
            false
        }
        other => panic!("{other}"),
    }
}

/// An error of 20 MB, compressed; made once, because that takes longer than a proxy waits.
fn bomb() -> &'static [u8] {
    static BOMB: OnceLock<Vec<u8>> = OnceLock::new();
    BOMB.get_or_init(|| {
        let mut zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        zip.write_all(ERROR.trim_end_matches("\"}}").as_bytes()).unwrap();
        for _ in 0..2_000 {
            zip.write_all(&[b'a'; 10_000]).unwrap();
        }
        zip.write_all(b"\"}}").unwrap();
        zip.finish().unwrap()
    })
}

/// What the clients have counted.
#[derive(Default)]
struct Seen {
    made: AtomicU64,
    got: Mutex<BTreeMap<&'static str, u64>>,
    wrong: Mutex<Vec<String>>,
    stop: AtomicBool,
}

impl Seen {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn next(&self, http2: bool) -> (u64, &'static Kind) {
        let id = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        (id, kind_of(id, http2))
    }

    /// What came, of a request with this number; nothing of an answer is `None`.
    fn note(&self, kind: &'static Kind, id: u64, got: Option<(u16, bool, &str)>) {
        *self.got.lock().unwrap().entry(kind.name).or_default() += 1;
        if got.is_none_or(|(status, whole, text)| !is_right(kind, id, status, whole, text)) {
            let mut wrong = self.wrong.lock().unwrap();
            if wrong.len() < 10 {
                let got = got.map(|(status, whole, text)| (status, whole, text.get(..500).unwrap_or(text)));
                let says = format!("{} {id}: {got:?}", kind.name);
                println!("wrong: {says}");
                wrong.push(says);
            }
        }
    }
}

fn is_right(kind: &Kind, id: u64, status: u16, whole: bool, text: &str) -> bool {
    let json = || serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
    match kind.outcome {
        Success if kind.name == "stream" => {
            whole
                && status == 200
                && text.matches(&format!("\"id\":{id},\"result\"")).count() == 5
                && text.contains("UNSUPPORTED_OPERATION")
        }
        Success => whole && status == 200 && json()["id"] == id && json()["result"].is_object(),
        Fault(expected) => {
            let json = json();
            let is_its = kind.path != "/a2a" || json["id"] == id;
            whole && status == expected && is_its && json["error"]["code"].is_i64() && !text.contains("acme")
        }
        Torn => !whole && status == 200,
        Gone => true,
    }
}

/// HTTP/1 clients keep their connections, as long as they last.
fn http_1(seen: &Seen, proxy: SocketAddr) {
    let mut kept: Option<Connection> = None;
    while seen.goes_on() {
        let (id, kind) = seen.next(false);
        let mut client = kept.take().unwrap_or_else(|| Connection::connect(proxy));
        let sent = client.try_send(request(kind, id));
        if kind.outcome == Gone {
            client.some();
            seen.note(kind, id, Some((0, false, "")));
            continue;
        }
        let Some(mut answer) = client.head().filter(|_| sent) else {
            seen.note(kind, id, None);
            continue;
        };
        while matches!(answer.status(), 100..200) {
            answer = client.head().unwrap();
        }
        client.read_body(&mut answer);
        seen.note(kind, id, Some((answer.status(), answer.complete, &answer.text())));
        let closes = answer.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        kept = (answer.complete && !closes).then_some(client);
    }
}

/// HTTP/2 clients change their connection now and then.
fn http_2(seen: &Seen, proxy: SocketAddr) {
    block_on(async {
        while seen.goes_on() {
            let (client, driver) = Http2::in_the_clear(proxy).await.unwrap();
            let driver = tokio::spawn(driver);
            for _ in 0..200 {
                if !seen.goes_on() {
                    break;
                }
                let (id, kind) = seen.next(true);
                let target = format!("{}?{}-{id}", kind.path, kind.name);
                let asked = async {
                    let mut answer = client.post(&target, body_of(kind, id).into()).await.ok()?;
                    let rest = answer.rest().await;
                    let text = String::from_utf8_lossy(rest.as_deref().unwrap_or_default()).into_owned();
                    Some((answer.status, rest.is_ok(), text))
                };
                let got = tokio::time::timeout(PATIENCE, asked).await.ok().flatten();
                seen.note(
                    kind,
                    id,
                    got.as_ref().map(|(status, whole, text)| (*status, *whole, text.as_str())),
                );
            }
            drop(client);
            let _ = driver.await;
        }
    });
}

/// What the kernel says of the proxy.
#[derive(Debug, Clone, Copy)]
struct Sample {
    second: f64,
    /// Resident, in MiB.
    memory: f64,
    descriptors: usize,
}

fn sample(process: &Running, began: Instant) -> Sample {
    let of = |what: &str| format!("/proc/{}/{what}", process.0.id());
    let status = fs::read_to_string(of("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the proxy ended");
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    Sample {
        second: began.elapsed().as_secs_f64(),
        memory: kib / 1024.0,
        descriptors: fs::read_dir(of("fd")).unwrap().count(),
    }
}

/// How much the memory grows from the first to the last sample, by the least squares' line.
fn growth(samples: &[Sample]) -> f64 {
    let count = samples.len() as f64;
    let mean = |of: fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / count;
    let (seconds, memory) = (mean(|one| one.second), mean(|one| one.memory));
    let both: f64 = samples.iter().map(|one| (one.second - seconds) * (one.memory - memory)).sum();
    let spread: f64 = samples.iter().map(|one| (one.second - seconds).powi(2)).sum();
    let lasts = samples.last().unwrap().second - samples[0].second;
    both / spread * lasts
}

#[test]
fn growth_is_seen() {
    let of = |memory: fn(f64) -> f64| -> Vec<_> {
        (0..100)
            .map(f64::from)
            .map(|second| Sample { second, memory: memory(second), descriptors: 0 })
            .collect()
    };
    assert!((growth(&of(|second| 20.0 + second / 10.0)) - 9.9).abs() < 0.01);
    assert!(growth(&of(|second| 20.0 + (second % 2.0))).abs() < 0.1);
}

/// The sum of a metric's series whose labels hold this.
fn count(page: &str, name: &str, label: &str) -> f64 {
    let lines = page.lines().filter_map(|line| line.strip_prefix("a2a_errata_")?.strip_prefix(name));
    let values = lines.filter(|line| line.starts_with([' ', '{']) && line.contains(label));
    values.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

#[test]
fn nothing_grows_and_all_counts_agree() {
    let lasts = std::env::var("SOAK_SECONDS").map_or(8, |seconds| seconds.parse().unwrap());
    let lasts = Duration::from_secs(lasts);
    let heard = Arc::new(Heard::default());
    let host = start_host(&heard);
    let _ = bomb();
    let directory = tempfile::tempdir().unwrap();
    let (listen, admin) = (free_port(), free_port());
    let (file, log) = (directory.path().join("soak.toml"), directory.path().join("log"));
    let interface =
        |path, binding| format!("[[hosts.interfaces]]\npath = \"{path}\"\nbinding = \"{binding}\"\n");
    let text = format!(
        "[listen]\naddress = \"127.0.0.1:{listen}\"\n[admin]\naddress = \"127.0.0.1:{admin}\"\n\
         [[hosts]]\nname = \"legacy\"\nupstreams = [\"{host}\"]\nintake_bytes = 65536\nresponse_cap_bytes = 65536\n\
         timeouts = {{ connect_ms = 2000, read_ms = 1000, idle_ms = 2000 }}\n"
    ) + &interface("/a2a", "JSONRPC")
        + &interface("/rest", "HTTP+JSON");
    fs::write(&file, text).unwrap();
    let program =
        std::env::var_os("SOAK_BINARY").unwrap_or_else(|| OsString::from(env!("CARGO_BIN_EXE_a2a-errata")));
    let mut command = command_of(&program);
    command.args(["run", "--log-level", "error", "--config"]).arg(&file);
    command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
    let process = Running(command.spawn().unwrap());
    assert!(ask(admin, "GET /livez").starts_with("HTTP/1.1 200 "));
    let logged = || fs::read_to_string(&log).unwrap();
    let proxy = SocketAddr::from(([127, 0, 0, 1], listen));
    eventually(|| std::net::TcpStream::connect(proxy).is_ok(), logged);
    let descriptors = || sample(&process, Instant::now()).descriptors;
    thread::sleep(Duration::from_millis(200));
    let at_first = descriptors();

    let began = Instant::now();
    let seen = Arc::new(Seen::default());
    let mut clients = Vec::new();
    for n in 0..8 {
        let seen = seen.clone();
        clients.push(thread::spawn(move || if n < 6 { http_1(&seen, proxy) } else { http_2(&seen, proxy) }));
    }
    let mut samples = Vec::new();
    let mut told = Instant::now();
    while began.elapsed() < lasts {
        thread::sleep(Duration::from_millis(100).max(lasts / 1_000));
        let now = sample(&process, began);
        samples.push(now);
        if told.elapsed() > Duration::from_secs(30) {
            told = Instant::now();
            let made = seen.made.load(Ordering::Relaxed);
            let wrong = seen.wrong.lock().unwrap().len();
            println!(
                "{:>5.0} s  {made:>9} requests  {wrong} wrong  {:>6.1} MiB  {:>3} descriptors",
                now.second, now.memory, now.descriptors
            );
        }
    }
    seen.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }

    let wrong = seen.wrong.lock().unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let (got, heard) = (seen.got.lock().unwrap(), heard.0.lock().unwrap());
    println!("{got:?}");
    // Whoever leaves may do so before the host, or the proxy, has taken note.
    for kind in KINDS.iter().filter(|kind| kind.outcome != Gone) {
        let (got, heard) = (got.get(kind.name), heard.get(kind.name));
        assert!(got > Some(&2), "{}: {got:?} in {lasts:?}", kind.name);
        assert_eq!(got, heard, "{}", kind.name);
    }
    let all: u64 = got.values().sum();
    let page = ask(admin, "GET /metrics");
    let responses = count(&page, "responses_total", "host=\"legacy\"");
    assert!(
        responses <= all as f64 && responses >= (all - got["leaves"]) as f64,
        "{responses} of {all}\n{page}"
    );
    let failed = KINDS.iter().filter(|kind| kind.fails).map(|kind| got[kind.name]).sum::<u64>();
    assert_eq!(count(&page, "upstream_failures_total", ""), failed as f64, "{page}");
    for gauge in ["inflight", "held_bytes", "streams_open"] {
        let is_zero = || count(&ask(admin, "GET /metrics"), gauge, "") == 0.0;
        eventually(is_zero, || format!("{gauge} is not 0"));
    }
    // What waits for the next request is closed when nothing comes.
    eventually(
        || descriptors() <= at_first,
        || format!("{at_first} descriptors before, {} after", descriptors()),
    );
    let log = logged();
    assert!(!log.contains("panicked"), "{log}");

    let settled = &samples[samples.len() / 4..];
    let (first, last, grows) = (settled[0], settled[settled.len() - 1], growth(settled));
    println!(
        "{all} requests in {:.0} s; {:.1} MiB after a quarter, {:.1} MiB at the end, growth by {grows:.2} MiB",
        last.second, first.memory, last.memory
    );
    // In some seconds the allocator has not settled; in half an hour it has.
    let bound = if lasts >= Duration::from_mins(10) { 0.05 * first.memory } else { 32.0 };
    assert!(grows < bound, "memory grows by {grows:.1} MiB in {lasts:?}");
}
