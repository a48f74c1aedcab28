//! `a2a-errata probe`, `completions` and `man` as a person or a script meets them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output, Stdio};
use std::thread;

use a2a_errata::demo::{CREDENTIAL, ModelHost, OWN_TASK, Sabotage, THEIR_TASK};
use a2a_errata::probe::CHECKS;
use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_a2a-errata"))
        .args(arguments)
        .env("COLUMNS", "120")
        .stdin(Stdio::null())
        .output()
        .unwrap()
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
    assert!(last.starts_with("50 passed, 0 failed, 2 not applicable; "), "{last}");
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
            r#"<testsuites name="a2a-errata probe" tests="26" failures="1" errors="0" skipped="1">"#
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

/// No more than it was allowed, and what was not asked is not called good.
#[test]
fn requests_are_bounded() {
    let output = probe(model(None), &["--json", "--max-requests", "12"]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all["requests"], 12);
    assert!(all["notApplicable"].as_u64().unwrap() > 30, "{all}");
    let findings = all["interfaces"][0]["findings"].as_array().unwrap();
    let told = |finding: &&Value| finding["reason"].as_str().unwrap().contains("--max-requests");
    assert!(findings.iter().any(|finding| told(&finding)), "{all}");
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
        (format!("http://{garbage}"), &[], "the connection ended without an answer"),
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
    assert!(all["notes"][0].as_str().unwrap().contains("the card names elsewhere.invalid"), "{all}");
}

#[test]
fn the_list_asks_nobody() {
    let output = run(&["probe", "--list"]);
    assert_eq!(output.status.code(), Some(0));
    for check in CHECKS {
        assert!(text(&output.stdout).contains(check.id), "{}", check.id);
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
    assert_eq!((refused.status.code(), text(&refused.stderr).lines().count()), (Some(1), 1));
}

#[test]
fn the_model_host_lists_what_it_can_break() {
    let output = run(&["demo", "--model", "--sabotage", "list"]);
    for sabotage in Sabotage::ALL {
        assert!(text(&output.stdout).contains(sabotage.id()));
    }
    assert_eq!(run(&["demo", "--model", "--sabotage", "nonsense"]).status.code(), Some(2));
}
