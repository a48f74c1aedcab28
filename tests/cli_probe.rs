//! `a2a-errata probe`, `completions` and `man` as a person or a script meets them, and what every command does when
//! its output cannot be written.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use a2a_errata::demo::{CREDENTIAL, ModelHost, OWN_TASK, Sabotage, THEIR_TASK};
use a2a_errata::probe::CHECKS;
use serde_json::{Value, json};

#[path = "cli_probe/edited.rs"]
mod edited;
#[path = "cli_probe/verdicts.rs"]
mod verdicts;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_a2a-errata"));
    // How many files this machine lets a process have open is none of these tests' business.
    let few = ("A2A_ERRATA_LIMITS__CONNECTIONS", "100");
    command.args(arguments).env("COLUMNS", "120").env(few.0, few.1).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The model host in a thread of its own, until the test's process ends.
fn model(sabotage: Option<Sabotage>) -> SocketAddr {
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let host = ModelHost::start(sabotage).await.unwrap();
            tell.send(host.address()).unwrap();
            std::future::pending::<()>().await;
        });
    });
    told.recv().unwrap()
}

fn probe(host: SocketAddr, more: &[&str]) -> Output {
    let url = format!("http://{host}");
    let token = CREDENTIAL.strip_prefix("Bearer ").unwrap();
    let usual = [
        "probe",
        &url,
        "--bearer",
        token,
        "--task",
        OWN_TASK,
        "--foreign-task",
        THEIR_TASK,
        "--rps",
        "1000",
        "--pairs",
        "20",
        "--oversize",
        "2097152",
    ];
    run(&[&usual[..], more].concat())
}

#[test]
fn a_good_host_is_a_table_without_a_fail_and_exit_code_0() {
    let output = probe(model(None), &[]);
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{table}{}", text(&output.stderr));
    for check in CHECKS {
        assert!(table.lines().any(|line| line.starts_with(check.id)), "no row for {}:\n{table}", check.id);
    }
    assert!(table.contains("JSONRPC http://") && table.contains("HTTP+JSON http://"), "{table}");
    let last = table.trim_end().lines().last().unwrap();
    assert!(last.starts_with("52 passed, 0 failed, 2 not applicable; "), "{last}");
    assert!(
        !table.contains('\x1b') && output.stderr.is_empty(),
        "colours or progress where there is no terminal"
    );
}

#[test]
fn what_failed_is_in_the_table_the_json_and_the_junit_report() {
    let host = model(Some(Sabotage::WrongDomain));
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("probe.xml");
    let output = probe(host, &["--json", "--binding", "JSONRPC", "--junit", report.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((all["failed"].as_u64(), all["interfaces"].as_array().unwrap().len()), (Some(1), 1));
    let findings = all["interfaces"][0]["findings"].as_array().unwrap();
    assert_eq!(findings.len(), CHECKS.len());
    let failed: Vec<_> = findings.iter().filter(|finding| finding["verdict"] == "fail").collect();
    assert_eq!((failed.len(), &failed[0]["check"]), (1, &Value::from("unknown-task")));
    let junit = std::fs::read_to_string(report).unwrap();
    assert!(
        junit.contains(
            r#"<testsuites name="a2a-errata probe" tests="27" failures="1" errors="0" skipped="1">"#
        ),
        "{junit}"
    );
    let reason = r#"<failure message="domain is &quot;example.com&quot; instead of a2a-protocol.org" type="RFC 0211 §A, §B"/>"#;
    assert!(junit.contains(reason), "{junit}");
    let table = probe(host, &["--binding", "JSONRPC"]);
    assert_eq!(table.status.code(), Some(1));
    let row = "unknown-task        fail            domain is \"example.com\" instead of a2a-protocol.org [RFC 0211 §A, §B]";
    assert!(text(&table.stdout).lines().any(|line| line == row), "{}", text(&table.stdout));
}

/// No more than it was allowed; what was not asked is not called good, and the exit code says that it was not.
#[test]
fn what_the_budget_does_not_cover_is_not_run() {
    let host = model(None);
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("probe.xml");
    let output = probe(host, &["--json", "--max-requests", "12", "--junit", report.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&all["requests"], &all["failed"]), (&12.into(), &0.into()));
    let findings = |n: usize| all["interfaces"][n]["findings"].as_array().unwrap().clone();
    for finding in findings(0).iter().chain(&findings(1)) {
        let (check, verdict) = (&finding["check"], finding["verdict"].as_str().unwrap());
        let because_of_it = finding["reason"].as_str().unwrap().starts_with("budget: ");
        assert_eq!(verdict == "not run", because_of_it, "{finding}");
        // Nothing of the second interface was heard.
        assert!(verdict != "pass" || findings(0).contains(finding), "{check}");
    }
    let not_run = all["notRun"].as_u64().unwrap();
    assert!(not_run > 30, "{all}");
    let junit = std::fs::read_to_string(report).unwrap();
    assert!(junit.contains(&format!(r#"failures="0" errors="{not_run}""#)), "{junit}");
    assert!(junit.contains(r#"<error message="not run: budget: "#), "{junit}");
    let table = text(&probe(host, &["--max-requests", "12"]).stdout);
    let last = table.trim_end().lines().last().unwrap();
    assert!(last.contains(&format!(", {not_run} not run: budget (--max-requests); 12 requests")), "{last}");
    assert!(table.lines().any(|line| line.starts_with("malformed-json      not run         budget: the 12")));
    // A failure is one all the same.
    let broken = probe(model(Some(Sabotage::WrongDomain)), &["--max-requests", "12"]);
    assert_eq!(broken.status.code(), Some(1), "{}", text(&broken.stdout));
}

/// Dozens of pairs of one interface would leave nothing to the checks of the next.
#[test]
fn what_costs_most_is_asked_last() {
    let host = model(None);
    let of = |output: &Output| -> Value { serde_json::from_slice(&output.stdout).unwrap() };
    let whole = probe(host, &["--json"]);
    assert_eq!(whole.status.code(), Some(0));
    let needed = of(&whole)["requests"].as_u64().unwrap();
    assert_eq!(probe(host, &["--max-requests", &needed.to_string()]).status.code(), Some(0));
    let short = probe(host, &["--json", "--max-requests", &(needed - 50).to_string()]);
    assert_eq!(short.status.code(), Some(2));
    let mut not_run = Vec::new();
    for interface in of(&short)["interfaces"].as_array().unwrap() {
        let findings = interface["findings"].as_array().unwrap();
        not_run.extend(
            findings.iter().filter(|one| one["verdict"] == "not run").map(|one| one["check"].clone()),
        );
    }
    assert_eq!(not_run, ["foreign-time", "foreign-time"]);
}

/// A server that has one document for everybody.
fn serves(body: &str) -> SocketAddr {
    let length = body.len();
    says(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"))
}

/// A server that says the same bytes to everybody.
fn says(answer: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = vec![0; 65536];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(answer.as_bytes());
            if answer.is_empty() {
                // Silence: the connection stays open.
                std::mem::forget(stream);
            }
        }
    });
    address
}

/// One clear line, exit code 2, nothing on stdout.
#[test]
fn what_cannot_be_probed_is_told_in_one_line() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let page = serves("<html>");
    let empty = serves("{}");
    let grpc = serves(r#"{"supportedInterfaces":[{"url":"a:1","protocolBinding":"GRPC"}]}"#);
    let silent = says(String::new());
    let moved =
        says("HTTP/1.1 302 x\r\nlocation: https://h.example/a\r\ncontent-length: 0\r\n\r\n".to_owned());
    let cut = says("HTTP/1.1 200 x\r\ncontent-length: 99\r\nconnection: close\r\n\r\n{\"name\":1".to_owned());
    let large = serves(&format!("\"{}\"", "x".repeat(5 << 20)));
    let nginx = says(
        "HTTP/1.1 400 x\r\ncontent-length: 41\r\n\r\nThe plain HTTP request was sent to HTTPS.".to_owned(),
    );
    let garbage = says("\x15\x03\x01nonsense".to_owned());
    for (url, more, why) in [
        ("ftp://a.example".to_owned(), &[][..], "no http or https URL"),
        ("http://".to_owned(), &[], "no URL"),
        (format!("http://{closed}"), &[], "cannot connect: "),
        ("http://no-such-host.invalid".to_owned(), &[], "cannot connect: "),
        (format!("http://{page}"), &[], "is no A2A host: there is no agent card"),
        (format!("http://{empty}"), &[], "it lists no interface with the binding JSONRPC or HTTP+JSON"),
        (format!("http://{grpc}"), &[], "it lists no interface with the binding JSONRPC or HTTP+JSON"),
        (format!("http://{silent}"), &["--timeout", "1"], "no answer within 1 s"),
        (format!("https://{page}"), &[], "TLS: "),
        (
            format!("http://{garbage}"),
            &[],
            "the connection ended without an answer: what answers there speaks TLS",
        ),
        (
            format!("http://{moved}"),
            &[],
            "/: HTTP 302 to https://h.example/a, which is not followed; /.well-known",
        ),
        (format!("http://{cut}"), &[], "/: an answer that is cut short: 9 of 99 bytes came; "),
        (format!("http://{large}"), &[], "/: an answer that is longer than 4 MiB; "),
        (format!("http://{nginx}"), &[], "/: HTTP 400, and it speaks of HTTPS; is it https://?; "),
        (
            format!("http://{page}/x"),
            &[],
            "(/x: HTML, no JSON; /x/.well-known/agent-card.json: HTML, no JSON; ",
        ),
        (format!("http://{empty}"), &[], "/.well-known/agent-card.json: JSON without interfaces; "),
        (format!("http://{page}"), &["--bearer", ""], "--bearer is empty"),
        (format!("http://{page}"), &["--bearer", " \t"], "--bearer is empty"),
        (format!("http://{page}"), &["--bearer", "@/dev/null"], "--bearer is empty"),
        (format!("http://{page}"), &["--bearer", "@/dev/zero"], "larger than 16 MiB"),
        (format!("http://{page}"), &["--credential", "x"], "NAME: VALUE"),
        (format!("http://{page}"), &["--header", "x"], "NAME: VALUE"),
        (format!("http://{page}"), &["--bearer", "@/no/such/file"], "cannot read the token"),
        (format!("http://{page}"), &["--task", ""], "--task is empty"),
    ] {
        let output = run(&[&["probe", &url][..], more].concat());
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{url}: {told}{}", text(&output.stdout));
        assert!(output.stdout.is_empty(), "{url}");
        assert!(told.contains(why), "{url}: {told}");
        assert_eq!(told.trim_end().lines().count(), 1, "{url}: {told}");
    }
    assert_eq!(run(&["probe"]).status.code(), Some(2));
}

/// A credential is not sent to where a card points, but to where the person pointed.
#[test]
fn another_origin_of_the_card_is_not_followed() {
    let card = serves(
        r#"{"supportedInterfaces":[{"url":"http://elsewhere.invalid/a2a","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}"#,
    );
    let output = run(&["probe", &format!("http://{card}"), "--json", "--rps", "1000", "--oversize", "10"]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all["interfaces"][0]["url"], format!("http://{card}/a2a"));
    assert!(all["notes"][0].as_str().unwrap().contains("the card names http://elsewhere.invalid"), "{all}");
}

#[test]
fn the_list_asks_nobody() {
    let output = run(&["probe", "--list"]);
    assert_eq!(output.status.code(), Some(0));
    for check in CHECKS {
        assert!(text(&output.stdout).contains(check.id), "{}", check.id);
    }
}

/// A host of one's own: what it answers to a method and path, with how many requests and credentials it saw.
struct Scripted {
    address: SocketAddr,
    /// The `Authorization` of each request.
    seen: Arc<Mutex<Vec<Option<String>>>>,
    /// The first line of each request.
    lines: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    /// `answer` is told the request's first line, and says status and body.
    fn start(answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let tell = seen.clone();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let tell_line = lines.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let (mut first, mut length, mut credential) = (String::new(), 0, None);
                let mut line = String::new();
                while stream.read_line(&mut line).unwrap_or(0) > 2 {
                    if first.is_empty() {
                        first.clone_from(&line);
                    }
                    let (name, value) = line.trim_end().split_once(": ").unwrap_or_default();
                    match name.to_ascii_lowercase().as_str() {
                        "content-length" => length = value.parse().unwrap(),
                        "authorization" => credential = Some(value.to_owned()),
                        _ => {}
                    }
                    line.clear();
                }
                let mut body = vec![0; length];
                stream.read_exact(&mut body).unwrap();
                tell.lock().unwrap().push(credential);
                tell_line.lock().unwrap().push(first.trim_end().to_owned());
                let (status, body) = answer(&first);
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}"
                );
                let _ = write!(stream.get_mut(), "{head}\r\n\r\n{body}");
            }
        });
        Self { address, seen, lines }
    }

    /// Answers with a card that lists these interfaces, and calls as `answer` says.
    fn with_card(urls: &[(&str, &str)], answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> Self {
        let interface = |(url, binding): &(&str, &str)| json!({"url": url, "protocolBinding": binding, "protocolVersion": "1.0"});
        let interfaces: Vec<Value> = urls.iter().map(interface).collect();
        let card = json!({"supportedInterfaces": interfaces}).to_string();
        Self::start(move |first| {
            if first.contains("/.well-known/agent-card.json") { (200, card.clone()) } else { answer(first) }
        })
    }

    fn probe(&self, more: &[&str]) -> Output {
        let url = format!("http://{}", self.address);
        run(&[&["probe", &url, "--rps", "1000", "--oversize", "10"], more].concat())
    }
}

fn html(_: &str) -> (u16, String) {
    (500, "<html>oops".to_owned())
}

fn finding<'a>(all: &'a Value, check: &str) -> &'a Value {
    let findings = all["interfaces"][0]["findings"].as_array().unwrap();
    findings.iter().find(|one| one["check"] == check).unwrap()
}

/// D-1 over the wire: the path of the request may be in a message, what is not of the request may be nowhere.
#[test]
fn a_message_may_say_back_what_the_request_said_and_no_more() {
    const INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
    const BAD: &str = "type.googleapis.com/google.rpc.BadRequest";
    let info = || json!({"@type": INFO, "reason": "METHOD_NOT_FOUND", "domain": "openwop.dev"});
    let row = |row: Value| json!({"@type": BAD, "fieldViolations": [row]});
    for (before, detail, messages, details) in [
        ("", info(), "pass", "pass"),
        ("/srv/", info(), "a message with a path", "pass"),
        ("", row(json!({"field": "id", "description": "must be there"})), "pass", "pass"),
        (
            "",
            row(json!({"field": "id", "description": "not in src/db.py:12"})),
            "pass",
            "BadRequest where fieldViolations.0.description may not be \"not in src/db.py:12\" (D-1)",
        ),
        (
            "",
            row(json!({"field": "acme/x1", "description": "is odd"})),
            "pass",
            "BadRequest where fieldViolations.0.field may not be \"acme/x1\" (D-1)",
        ),
        (
            "",
            json!({"@type": INFO, "reason": "METHOD_NOT_FOUND", "domain": "openwop.dev", "tenant": "acme"}),
            "pass",
            "ErrorInfo where tenant may not be \"acme\" (E-4)",
        ),
    ] {
        let host = Scripted::with_card(&[("/rest", "HTTP+JSON")], move |first| {
            let mut words = first.split([' ', '?']);
            let (method, path) = (words.next().unwrap(), words.next().unwrap());
            let message = format!("{method} not allowed for {before}{path}");
            let error = json!({"code": 405, "status": "NOT_FOUND", "message": message, "details": [&detail]});
            (405, json!({"error": error}).to_string())
        });
        let all: Value = serde_json::from_slice(&host.probe(&["--json"]).stdout).unwrap();
        for (check, wanted) in [("messages", messages), ("details", details)] {
            let finding = finding(&all, check);
            let told =
                if finding["verdict"] == "pass" { "pass" } else { finding["reason"].as_str().unwrap() };
            assert!(told.contains(wanted), "{check}, {wanted}: {finding}");
        }
    }
}

/// One line for each interface that cannot be asked, and exit code 2, also beside one that can.
#[test]
fn an_interface_that_cannot_be_asked_is_told() {
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let dead = format!("http://{dead}/a2a");
    for (url, more, why) in [
        ("/no url", &[][..], "the URL of the card's JSONRPC interface cannot be asked: "),
        ("http://a b/x", &["--follow"], "the URL of the card's JSONRPC interface cannot be asked: "),
        ("http://127.0.0.1:70000/x", &["--follow"], "70000 is no port"),
        (&dead, &["--follow"], "cannot connect: "),
    ] {
        let host = Scripted::with_card(&[(url, "JSONRPC")], html);
        let output = host.probe(more);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{url}: {told}{}", text(&output.stdout));
        assert!(output.stdout.is_empty() && told.contains(why), "{url}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");

        // Its neighbour is probed; that all is well is not said.
        let good = format!("http://{}/rest", model(None));
        let both = Scripted::with_card(&[(url, "JSONRPC"), (&good, "HTTP+JSON")], html);
        let token = CREDENTIAL.strip_prefix("Bearer ").unwrap();
        let report = tempfile::NamedTempFile::new().unwrap();
        let junit = ["--junit", report.path().to_str().unwrap()];
        let output =
            both.probe(&[&["--follow-credentials", "--bearer", token, "--json"], &junit[..]].concat());
        let told = text(&output.stderr);
        assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{url}: {told}");
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(all["interfaces"][0]["binding"], "HTTP+JSON", "{url}: {told}");
        assert_eq!((&all["failed"], all["problems"].as_array().unwrap().len()), (&0.into(), 1));
        let junit = std::fs::read_to_string(report.path()).unwrap();
        assert!(junit.contains(r#"tests="28" failures="0" errors="1""#), "{junit}");
        assert!(junit.contains(r#"name="interface"><error message=""#), "{junit}");
    }
}

/// Silence is waited for twice, not for every check.
#[test]
fn an_interface_that_hangs_is_given_up() {
    let silent = says(String::new());
    let host = Scripted::with_card(&[(&format!("http://{silent}/a2a"), "JSONRPC")], html);
    let output = host.probe(&["--follow", "--timeout", "1"]);
    let told = text(&output.stderr);
    assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{told}");
    assert!(told.contains("no answer within 1 s"), "{told}");
}

/// As curl does; what stands there is never printed.
#[test]
fn a_user_in_the_url_is_sent_as_basic() {
    let refuses = |_: &str| (401, "{}".to_owned());
    let host = Scripted::with_card(&[("/a2a", "JSONRPC")], refuses);
    for (url, more) in [
        (format!("http://us%40er:pla%3Anted@{}", host.address), &["--json"][..]),
        (format!("us%40er:pla%3Anted@{}", host.address), &[]),
    ] {
        host.seen.lock().unwrap().clear();
        let output = run(&[&["probe", &url, "--rps", "1000", "--oversize", "10"], more].concat());
        assert_eq!(output.status.code(), Some(1));
        let seen = host.seen.lock().unwrap().clone();
        // `printf 'us@er:pla:nted' | base64`; once it is left out, to see what that does.
        let basic = Some("Basic dXNAZXI6cGxhOm50ZWQ=".to_owned());
        assert!(seen.iter().filter(|one| **one == basic).count() > 10, "{seen:?}");
        assert!(seen.iter().all(|one| one.is_none() || *one == basic), "{seen:?}");
        for shown in [text(&output.stdout), text(&output.stderr)] {
            assert!(
                !shown.contains("nted") && !shown.contains("us%40er") && !shown.contains("us@er"),
                "{shown}"
            );
        }
    }
    for url in ["http://u:planted@127.0.0.1:70000", "http://u:planted@h h", "https:/u:planted@h"] {
        let told = text(&run(&["probe", url]).stderr);
        assert!(!told.contains("planted") && told.lines().count() == 1, "{told}");
    }
    for header in ["planted", "pla nted: x", "x: planted\nplanted"] {
        for flag in ["--header", "--credential"] {
            let told = text(&run(&["probe", "http://127.0.0.1:1", flag, header]).stderr);
            assert!(told.contains("header") && !told.contains("nted"), "{told}");
        }
    }
    let two = run(&["probe", "http://u:planted@127.0.0.1:1", "--bearer", "x"]);
    assert_eq!(two.status.code(), Some(2));
    assert!(text(&two.stderr).contains("another credential"), "{}", text(&two.stderr));
}

/// One task compared with itself is alike in everything.
#[test]
fn tasks_that_cannot_be_both_are_refused() {
    for pair in
        [["--task", "--foreign-task"], ["--foreign-task", "--unknown-task"], ["--task", "--unknown-task"]]
    {
        let output = run(&["probe", "http://127.0.0.1:1", pair[0], "t", pair[1], "t"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("the same task"), "{}", text(&output.stderr));
    }
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_is_asked() {
    let host = Scripted::with_card(&[("/a2a", "JSONRPC")], html);
    let dir = tempfile::tempdir().unwrap();
    for path in ["/no/such/dir/probe.xml", dir.path().to_str().unwrap()] {
        let output = host.probe(&["--junit", path]);
        let told = text(&output.stderr);
        assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{told}");
        assert!(told.contains(path) && output.stdout.is_empty(), "{told}");
    }
    assert_eq!(host.seen.lock().unwrap().len(), 0);
    // What is found out at the end is not kept from the person.
    let full = host.probe(&["--junit", "/dev/full"]);
    assert_eq!(full.status.code(), Some(2));
    assert!(text(&full.stderr).contains("--junit /dev/full") && text(&full.stdout).contains("unknown-task"));
    // What an earlier run wrote is not taken for what this one found.
    let (old, new) = (dir.path().join("old.xml"), dir.path().join("new.xml"));
    std::fs::write(&old, "kept").unwrap();
    for path in [&old, &new] {
        assert_eq!(
            run(&["probe", "http://127.0.0.1:1", "--junit", path.to_str().unwrap()]).status.code(),
            Some(2)
        );
    }
    for path in [&old, &new] {
        let report = std::fs::read_to_string(path).unwrap();
        let told = r#"name="interface"><error message="http://127.0.0.1:1: cannot connect: "#;
        assert!(report.contains(told) && report.contains(r#"failures="0" errors="1""#), "{report}");
        assert!(!report.contains("kept") && report.trim_end().ends_with("</testsuites>"), "{report}");
    }
    host.probe(&["--junit", old.to_str().unwrap()]);
    let report = std::fs::read_to_string(&old).unwrap();
    assert!(report.starts_with("<?xml") && report.trim_end().ends_with("</testsuites>"), "{report}");
}

/// Every command that prints a result: to a full disk it fails and says so, to a reader that went away it does not.
#[test]
fn output_that_cannot_be_written_is_told() {
    let host = format!("http://{}", model(None));
    let token = CREDENTIAL.strip_prefix("Bearer ").unwrap();
    let fast = ["--bearer", token, "--rps", "1000", "--oversize", "1100000"];
    let probe: Vec<&str> = [&["probe", &host], &fast[..]].concat();
    for (arguments, failed) in [
        (&probe[..], 2),
        (&[&probe[..], &["--json"]].concat(), 2),
        (&["probe", "--list"], 2),
        (&["explain", "--status", "204"], 2),
        (&["explain", "--status", "204", "--json"], 2),
        (&["explain", "--status", "204", "--raw"], 2),
        (&["check", "--upstream", "127.0.0.1:9"], 2),
        (&["schema"], 2),
        (&["completions", "bash"], 2),
        (&["man"], 2),
        (&["demo", "--list"], 2),
        (&["demo", "--only", "ok-task"], 1),
        (&["demo", "--model", "--sabotage", "list"], 2),
        (&["demo", "--model"], 1),
        (&["--help"], 2),
        (&["probe", "--help"], 2),
        (&["--version"], 2),
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(failed), "{arguments:?}: {told}");
        assert!(told.contains("cannot write to standard output: No space left"), "{arguments:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        if arguments == ["demo", "--model"] {
            continue; // it waits for a signal
        }
        let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        for word in ["explain", "probe", "foreign-task"] {
            assert!(text(&output.stdout).contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(run(&["completions", "tcsh"]).status.code(), Some(2));
}

/// The script is executed, as bash does when a person presses the tab key.
#[test]
fn bash_completes_at_every_depth() {
    let script = text(&run(&["completions", "bash"]).stdout);
    let press = r#"
        shift_to() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); }
        shift_to "$@"
        [[ $(complete -p a2a-errata) =~ -F\ ([^ ]+) ]] && function=${BASH_REMATCH[1]}
        "$function" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    for (words, wanted) in [
        (&["pro"][..], &["probe"][..]),
        (&["probe", "--j"], &["--json", "--junit"]),
        (&["probe", "https://a.example", "--foreign"], &["--foreign-task"]),
        (&["probe", "--binding", ""], &["JSONRPC", "HTTP+JSON"]),
        (&["probe", "--json", "--binding", "J"], &["JSONRPC"]),
        (&["explain", "--binding", "H"], &["HTTP+JSON"]),
        (&["completions", "z"], &["zsh"]),
        (&["run", "--log-level", "w"], &["warn"]),
        (&["help", "exp"], &["explain"]),
        (&["man", "--dir"], &["--directory"]),
    ] {
        let output = Command::new("bash")
            .args(["--norc", "-c", &format!("{script}\n{press}"), "bash", "a2a-errata"])
            .args(words)
            .output()
            .unwrap();
        let told = text(&output.stdout);
        let offered: Vec<&str> = told.lines().collect();
        assert_eq!(offered, wanted, "{words:?} {}", text(&output.stderr));
    }
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let page = run(&["man"]);
    assert_eq!(page.status.code(), Some(0));
    assert!(text(&page.stdout).contains(".TH a2a-errata 1"), "{}", text(&page.stdout));
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("man1");
    assert_eq!(run(&["man", "--directory", into.to_str().unwrap()]).status.code(), Some(0));
    let probe = std::fs::read_to_string(into.join("a2a-errata-probe.1")).unwrap();
    assert!(probe.contains("foreign\\-task") && probe.contains("Exit code 0: nothing failed."), "{probe}");
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let refused = run(&["man", "--directory", file.to_str().unwrap()]);
    assert_eq!((refused.status.code(), text(&refused.stderr).lines().count()), (Some(2), 1));
}

#[test]
fn the_model_host_lists_what_it_can_break() {
    let output = run(&["demo", "--model", "--sabotage", "list"]);
    for sabotage in Sabotage::ALL {
        assert!(text(&output.stdout).contains(sabotage.id()));
    }
    assert_eq!(run(&["demo", "--model", "--sabotage", "nonsense"]).status.code(), Some(2));
    let near = text(&run(&["demo", "--model", "--sabotage", "foreign-headr"]).stderr);
    assert!(near.contains("did you mean foreign-header?"), "{near}");
}
