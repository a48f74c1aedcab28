//! `a2a-errata explain` as a person or a script meets it: what it reads, what it prints, its exit codes. That
//! it gives the proxy's own bytes on every black-box case is `tests/black_box/explain.py`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use a2a_errata::normalize::{Binding, Interface};
use serde_json::{Value, json};
use support::{Proxy, ScriptedHost, sized};

const FOREIGN: &str = "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\netag: \"r-41\"\r\nset-cookie: sid=1\r\n\r\n\
    {\"error\":\"run_forbidden\",\"message\":\"run t-1 belongs to acme\"}";
const NOT_FOUND: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"Task not found","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org","metadata":{"taskId":"t-1"}}]}}"#;

struct Told {
    code: i32,
    out: String,
    err: String,
}

impl Told {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|why| panic!("{why}: {}{}", self.out, self.err))
    }

    /// The rules that fired.
    fn rules(&self) -> Vec<String> {
        let all = self.json();
        all["rules"].as_array().unwrap().iter().map(|rule| rule["id"].as_str().unwrap().to_owned()).collect()
    }
}

/// Runs `explain` with this on standard input.
fn explain(arguments: &[&str], stdin: impl AsRef<[u8]>) -> Told {
    let mut child = Command::new(env!("CARGO_BIN_EXE_a2a-errata"))
        .arg("explain")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command line that is refused reads nothing.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_ref());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Told { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn a_foreign_task_becomes_the_fixed_answer_and_says_why() {
    let get = ["--method", "GetTask", "--task", "t-1"];
    let told = explain(&get, FOREIGN);
    assert_eq!(told.code, 1, "{}", told.err);
    for wanted in [
        "HTTP 200 OK",
        "- HTTP 403 Forbidden",
        "+ HTTP 200 OK",
        "- etag: \"r-41\"",
        "O-3    a refusal on a call that names a task would tell that the task exists [RFC 0211 §D]",
        "Rewritten as TASK_NOT_FOUND.",
    ] {
        assert!(told.out.contains(wanted), "no {wanted:?} in:\n{}", told.out);
    }
    assert!(!told.out.contains('\x1b'), "colours where there is no terminal");

    let raw = explain(&[&get[..], &["--raw"]].concat(), FOREIGN);
    let (head, body) = raw.out.split_once("\r\n\r\n").unwrap();
    assert_eq!((raw.code, body), (1, NOT_FOUND));
    let length = NOT_FOUND.len();
    assert_eq!(
        head,
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}")
    );

    let machine = explain(&[&get[..], &["--json"]].concat(), FOREIGN);
    let all = machine.json();
    assert_eq!(
        (all["verdict"].as_str(), all["reason"].as_str()),
        (Some("rewritten"), Some("TASK_NOT_FOUND"))
    );
    assert_eq!(all["answer"]["body"], NOT_FOUND);
    assert_eq!(machine.rules(), ["O-1", "O-3", "D-3", "C-4"]);
    assert!(all["rules"].as_array().unwrap().iter().all(|rule| !rule["does"].as_str().unwrap().is_empty()));
}

#[test]
fn what_is_right_passes_with_exit_code_0() {
    for (arguments, answer, verdict) in [
        (&["--json"][..], r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "passed"),
        (
            &["--json", "--method", "CancelTask", "--task", "t"],
            r#"{"id":1,"jsonrpc":"2.0","error":{"message":"Task cannot be canceled","code":-32002,"data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_CANCELABLE","domain":"a2a-protocol.org"}]}}"#,
            "conformant",
        ),
        // Not an interface's business (I-4).
        (&["--json", "--method", "OPTIONS", "--status", "403"], "{}", "passed"),
    ] {
        let told = explain(arguments, answer);
        assert_eq!(told.code, 0, "{}{}", told.out, told.err);
        assert_eq!(told.json()["verdict"], verdict);
        assert_eq!(told.json()["answer"]["body"], answer);
    }
}

#[test]
fn a_request_is_json_a_body_or_a_whole_message() {
    let dir = tempfile::tempdir().unwrap();
    let body = r#"{"jsonrpc":"2.0","id":"\u0061","method":"GetTask","params":{"id":"t-1"}}"#;
    let whole = format!("POST /x/a2a HTTP/1.1\r\nhost: a\r\na2a-version: 1.0\r\n\r\n{body}");
    let (body_file, whole_file) = (dir.path().join("body"), dir.path().join("whole"));
    std::fs::write(&body_file, body).unwrap();
    std::fs::write(&whole_file, whole).unwrap();
    let want = NOT_FOUND.replace("\"id\":1", r#""id":"\u0061""#);
    for request in [body, body_file.to_str().unwrap(), whole_file.to_str().unwrap()] {
        let told = explain(&["--json", "--request", request], FOREIGN);
        assert_eq!(told.json()["answer"]["body"], want, "{request}");
    }
}

/// Of a body alone, and of a call that is only named, nobody knows the head: it is that of the curl line in the help,
/// and what comes out is what the proxy makes of that (I-3, F-7).
#[test]
fn a_request_without_a_head_names_no_version_as_the_proxy_has_it() {
    const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t-1"}}"#;
    let info = r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"VERSION_NOT_SUPPORTED","domain":"a2a-protocol.org","metadata":{"supportedVersions":"1.0"}}"#;
    let error = |error: &str| {
        sized(400, &format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{{error},"message":"no"}}}}"#))
    };
    let answers = [
        error(r#""data":{"supportedVersions":["1.0","0.3"],"host":"acme-1"},"code":-32600"#),
        error(&format!(r#""code":-32001,"data":[{info}]"#)),
        sized(
            400,
            r#"{"error":"interop_version_unsupported","message":"no","details":{"supported":["1.0","0.3"]}}"#,
        ),
        error(r#""code":-32004"#),
        sized(403, r#"{"error":"run_forbidden"}"#),
    ];
    let says = Arc::new(Mutex::new(String::new()));
    let said = says.clone();
    let host = ScriptedHost::start(move |visit| {
        while visit.request().is_some() {
            let answer = said.lock().unwrap().clone();
            visit.send(answer);
        }
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), CALL).unwrap();
    let mut agreed = Vec::new();
    for versions in ["1.0", "1.0,0.3"] {
        let mut settings = support::settings(&[host.address]);
        settings.hosts[0].interfaces = vec![Arc::new(Interface {
            path: "/a2a".into(),
            binding: Binding::JsonRpc,
            versions: versions.split(',').map(str::to_owned).collect(),
        })];
        let proxy = Proxy::start_with(settings);
        for (number, answer) in answers.iter().enumerate() {
            answer.clone_into(&mut says.lock().unwrap());
            for header in [None, Some("A2A-Version: 1.0"), Some("A2A-Version: 9.9"), Some("A2A-Version: 0.3")]
            {
                let line = header.map_or_else(String::new, |header| format!("{header}\r\n"));
                let got = proxy.ask(format!(
                    "POST /a2a HTTP/1.1\r\nHost: h\r\n{line}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{CALL}",
                    CALL.len()
                ));
                let header = header.map(|header| ["--request-header", header]);
                for call in [
                    &["--method", "GetTask", "--task", "t-1", "--id", "1"][..],
                    &["--request", CALL],
                    &["--request", file.path().to_str().unwrap()],
                ] {
                    let common = ["--json", "--versions", versions];
                    let all = [&common[..], call, header.as_ref().map_or(&[][..], |header| header)].concat();
                    let told = explain(&all, answer);
                    let (json, case) = (told.json(), format!("{all:?} {answer}"));
                    assert_eq!(json["answer"]["status"], got.status(), "{case}: {}", told.out);
                    assert_eq!(json["answer"]["body"], got.text(), "{case}");
                    assert_eq!(told.code == 0, got.text() == answer.split("\r\n\r\n").nth(1).unwrap());
                    let assumed = json["notes"].to_string().contains("without A2A-Version");
                    assert_eq!(assumed, header.is_none(), "{case}: {}", json["notes"]);
                }
                agreed.push((versions, number, header.is_some(), got.json()["error"]["code"].as_i64()));
            }
        }
    }
    // What silence decides: a version refusal is one, and where 0.3 is offered it passes.
    for number in 0..2 {
        assert!(agreed.contains(&("1.0", number, false, Some(-32009))), "{agreed:?}");
    }
    assert!(agreed.contains(&("1.0,0.3", 0, false, Some(-32600))), "{agreed:?}");
    // A head that is known, or a version that is named, needs no note.
    std::fs::write(file.path(), format!("POST /a2a HTTP/1.1\r\nhost: h\r\n\r\n{CALL}")).unwrap();
    let path = "/a2a?A2A-Version=1.0";
    for known in [["--request", file.path().to_str().unwrap()], ["--path", path]] {
        assert!(!explain(&known, &answers[3]).out.contains("A2A-Version"), "{known:?}");
    }
    assert!(explain(&["--path", "/a2a?x=y"], &answers[3]).out.contains("without A2A-Version"));
}

#[test]
fn http_json_is_told_by_its_route() {
    let whole = "GET /rest/tasks/t-1 HTTP/1.1\r\na2a-version: 1.0\r\n\r\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), whole).unwrap();
    let by_request = explain(&["--json", "--request", file.path().to_str().unwrap()], FOREIGN);
    let by_name = explain(
        &["--json", "--binding", "HTTP+JSON", "--path", "/rest", "--method", "GetTask", "--task", "t-1"],
        FOREIGN,
    );
    for told in [by_request, by_name] {
        let answer = told.json()["answer"].clone();
        assert_eq!((told.code, answer["status"].as_u64()), (1, Some(404)), "{}", told.err);
        assert!(answer["body"].as_str().unwrap().starts_with(r#"{"error":{"code":404,"status":"NOT_FOUND""#));
    }
}

#[test]
fn a_har_entry_has_both_sides() {
    let har = json!({"log": {"entries": [{
        "request": {"method": "POST", "url": "https://agent.example/a2a", "headers": [],
            "postData": {"text": r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t-1"}}"#}},
        "response": {"status": 410, "headers": [{"name": "content-type", "value": "text/html"}],
            "content": {"size": 6, "text": "<html>"}},
    }]}});
    let told = explain(&["--json"], har.to_string());
    assert_eq!((told.code, told.json()["answer"]["body"].as_str()), (1, Some(NOT_FOUND)), "{}", told.err);
}

/// Browsers save what is no HTTP at all beside what is.
#[test]
fn only_the_chosen_entry_of_a_har_file_must_be_readable() {
    let good = json!({
        "request": {"method": "POST", "url": "https://agent.example/a2a", "headers": [],
            "postData": {"text": r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t-1"}}"#}},
        // `<html>`, without padding and over two lines.
        "response": {"status": 410, "headers": [{"name": "content-type", "value": "text/html"}],
            "content": {"size": 6, "encoding": "base64", "text": "PGh0\nbWw+"}},
    });
    let odd = json!({"_resourceType": "websocket", "response": {"status": "none"}});
    let har = json!({"log": {"version": "1.2", "entries": [odd, good]}}).to_string();
    let told = explain(&["--json", "--entry", "2"], &har);
    assert_eq!((told.code, told.json()["answer"]["body"].as_str()), (1, Some(NOT_FOUND)), "{}", told.err);
    let told = explain(&["--entry", "1"], &har);
    assert_eq!((told.code, told.err.lines().count()), (2, 1), "{}", told.err);
    assert!(told.err.contains("entry 1 of the HAR file cannot be read"), "{}", told.err);
    let told = explain(&[], &har);
    assert!(
        told.code == 2 && told.err.contains("1 (cannot be read)\n  2 POST https://agent"),
        "{}",
        told.err
    );
}

/// The policy is the configured host's.
#[test]
fn the_configuration_decides_what_may_be_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.toml");
    let card = dir.path().join("card.json");
    let answer = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32004,"message":"billing is off","data":null}}"#;
    let message = |file: &Path, more: &[&str]| {
        let config = ["--json", "--path", "/a2a", "--config", file.to_str().unwrap()];
        let told = explain(&[&config[..], more].concat(), answer);
        assert_eq!(told.code, 1, "{}", told.err);
        let body = told.json()["answer"]["body"].as_str().unwrap().to_owned();
        serde_json::from_str::<Value>(&body).unwrap()["error"]["message"].as_str().unwrap().to_owned()
    };
    let interfaces = "[[hosts.interfaces]]\npath = \"/a2a\"\nbinding = \"JSONRPC\"\n";
    let host = "[[hosts]]\nupstreams = [\"127.0.0.1:9\"]\n";
    std::fs::write(&file, format!("{host}{interfaces}")).unwrap();
    assert_eq!(message(&file, &[]), "billing is off");
    std::fs::write(&file, format!("{host}disclosure.words = [\"billing\"]\n{interfaces}")).unwrap();
    assert_eq!(message(&file, &[]), "This operation is not supported");
    std::fs::write(&card, "{}").unwrap();
    let listed = ["--path", "/a2a", "--config", file.to_str().unwrap(), "--card", card.to_str().unwrap()];
    assert!(explain(&listed, answer).out.contains("note: --card is not looked at"));
    // Interfaces from the card: this path is none of them, and then no rule binds the request.
    std::fs::write(&file, host).unwrap();
    std::fs::write(&card, r#"{"supportedInterfaces":[{"url":"/other","protocolBinding":"JSONRPC"}]}"#)
        .unwrap();
    let arguments = ["--json", "--path", "/a2a", "--config"];
    let arguments = [&arguments[..], &[file.to_str().unwrap(), "--card", card.to_str().unwrap()]].concat();
    let told = explain(&arguments, answer);
    assert_eq!((told.code, told.json()["bound"].as_bool()), (0, Some(false)), "{}", told.err);
}

/// One line on stderr, nothing on stdout, exit code 2.
#[test]
fn what_cannot_be_read_is_refused_in_one_line() {
    for (arguments, stdin, why) in [
        (&[][..], "", "there is no answer"),
        (&["/no/such/file"], "", "cannot read /no/such/file"),
        (&[], "HTTP/1.1 abc\r\n\r\n", "no status line"),
        (&[], "HTTP/1.1 200 OK\r\nno header\r\n\r\n", "is no header"),
        (&["--wire"], "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n", "chunks"),
        (&["--header", "x"], "{}", "NAME: VALUE"),
        (&["--status", "42"], "{}", "42 is no HTTP status"),
        (&["--request", "/no/such/file"], "{}", "cannot read the request"),
        (&["--method", "GetTask", "--id", "{"], "{}", "--id \"{\" is no JSON"),
        (&["--method", "GetTask", "--id", "abc"], "{}", "--id \"abc\" is no JSON"),
        (&["--request", "{}", "--id", "7"], "{}", "says already"),
        (&["--binding", "HTTP+JSON", "--method", "Nonsense"], "{}", "no operation of A2A"),
        (&["--config", "/no/such/file"], "{}", "/no/such/file"),
        (&[], r#"{"log":{}}"#, "has no log.entries"),
        (&[], r#"{"log":{"version":"1.2","#, "begins like a HAR file"),
        (&["--entry", "1"], "{}", "--entry 1 is of a HAR file"),
    ] {
        let told = explain(arguments, stdin);
        assert_eq!(told.code, 2, "{arguments:?}: {}", told.out);
        assert!(told.out.is_empty(), "{}", told.out);
        assert!(told.err.contains(why), "{arguments:?}: {}", told.err);
        assert_eq!(told.err.trim_end().lines().count(), 1, "{}", told.err);
    }
}

/// A device gives bytes for ever, whichever argument names it.
#[test]
fn no_file_is_read_without_bound() {
    let folder = tempfile::tempdir().unwrap();
    let (config, card) = (folder.path().join("a.toml"), folder.path().join("card"));
    let host = "[[hosts]]\nupstreams = [\"127.0.0.1:9\"]\ncard.max_bytes = 1000\n";
    std::fs::write(&config, host).unwrap();
    std::fs::write(&card, " ".repeat(1001)).unwrap();
    let answer = folder.path().join("answer");
    std::fs::write(&answer, "{}").unwrap();
    let (config, answer) = (config.to_str().unwrap(), answer.to_str().unwrap());
    for arguments in [
        &["/dev/zero"][..],
        &[answer, "--request", "/dev/zero"],
        &[answer, "--config", "/dev/zero"],
        &[answer, "--config", config, "--card", "/dev/zero"],
        &[answer, "--config", config, "--card", card.to_str().unwrap()],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_a2a-errata"))
            .arg("explain")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while child.try_wait().unwrap().is_none() {
            if std::time::Instant::now() > end {
                child.kill().unwrap();
                panic!("{arguments:?} is still read");
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{arguments:?}: {told}");
        assert!(told.contains("bytes") || told.contains("device"), "{arguments:?}: {told}");
    }
}

/// Whatever the text and however long: one line that ends, and of a request no word that could be a credential.
#[test]
fn what_is_wrong_is_one_short_line_without_a_credential() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(200_000);
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let no_header =
        file("a", "POST /a2a HTTP/1.1\r\nhost: h\r\nAuthorization Bearer planted\r\n\r\n{}".into());
    let method = file("b", format!("P({long} /a2a HTTP/1.1\r\n\r\n"));
    let target = file("c", format!("POST /a2a^{long}?key=planted HTTP/1.1\r\nhost: h\r\n\r\n{{}}"));
    let entry = |request: Value, status: Value| {
        json!({"log": {"entries": [{"request": request, "response": {"status": status}}]}}).to_string()
    };
    let har = |method: &str, url: String, status: Value| entry(json!({"method": method, "url": url}), status);
    let name = format!("/no\n{}", "y".repeat(3000));
    for (arguments, stdin, says) in [
        (
            &["--request", "POST /a2a HTTP/1.1\nauthorization: planted\n\n{}"][..],
            String::new(),
            "write a whole request to a file",
        ),
        (&["--request", "a\rplanted"], String::new(), "neither JSON nor the name of a file"),
        (&["--request", &no_header], "{}".into(), "line 3 of it is no header"),
        (&["--request", &method], "{}".into(), "is no method"),
        (&["--request", &target], "{}".into(), "is no request target"),
        (&[&name], String::new(), "cannot read /no\\u{a}y"),
        (&[], format!("HTTP/1.1{long}"), "is no status line"),
        (&[], format!("HTTP/1.1 200 OK\r\n{long}\r\n\r\n"), "is no header"),
        (&[], har(&format!("P({long}"), "http://a/".into(), json!(404)), "is no method"),
        (&[], har("GET", format!("ftp://a/{long}?planted"), json!(404)), "is no URL"),
        (&[], har("GET", "http://a/".into(), json!(long)), "entry 1 of the HAR file cannot be read"),
    ] {
        let told = explain(arguments, &stdin);
        let shown: String = told.err.chars().take(2000).collect();
        assert_eq!((told.code, told.err.lines().count()), (2, 1), "{shown}");
        assert!(told.err.contains(says) && told.err.len() < 700, "{says}: {shown}");
        assert!(!told.err.contains("planted"), "{shown}");
    }
}

/// A query may hold a key. That there is one tells entries apart.
#[test]
fn the_list_of_a_har_file_shows_no_query() {
    let entry = |method: &str, url: &str| json!({"request": {"method": method, "url": url}, "response": {"status": 404}});
    let har = json!({"log": {"entries": [
        entry("GET", "https://a.example/x?key=planted"),
        entry("GET", "https://u:planted@a.example/x#planted"),
        entry("a\nb", "https://a.example/y"),
        entry("GET", &format!("data:text/html,{}", "x".repeat(100_000))),
    ]}});
    let told = explain(&[], har.to_string());
    assert!(told.code == 2 && !told.err.contains("planted"), "{}", told.err);
    assert!(
        told.err.contains("\n  1 GET https://a.example/x?… -> 404\n  2 GET https://a.example/x#… -> 404\n")
    );
    assert_eq!(told.err.lines().count(), 5, "{}", told.err);
    assert!(told.err.len() < 800, "{}", told.err);
}

/// Ids below zero are numbers as any other.
#[test]
fn an_id_below_zero_is_no_flag() {
    for id in ["-1", "-0.5", "-1e3"] {
        let told = explain(&["--json", "--method", "GetTask", "--task", "-7", "--id", id], FOREIGN);
        let want = NOT_FOUND.replace("\"id\":1", &format!("\"id\":{id}")).replace("\"t-1\"", "\"-7\"");
        assert_eq!((told.code, &told.json()["answer"]["body"]), (1, &json!(want)), "{}", told.err);
    }
}

/// What a host sends must not order the terminal about.
#[test]
fn control_characters_stay_in_the_answer() {
    let told = explain(&[], "HTTP/1.1 500 x\r\nserver: a\x1b[31m\r\n\r\nboom \x1b[2J".as_bytes());
    // Not a legal header value, so it is refused rather than shown.
    assert_eq!(told.code, 2);
    let told = explain(&[], "HTTP/1.1 500 x\r\n\r\nboom \x1b[2J".as_bytes());
    assert!(told.code == 1 && !told.out.contains('\x1b'), "{}", told.out);
}

/// Everything that a host's answer puts on the screen, in the colours of a terminal as well.
#[test]
fn nothing_of_an_answer_orders_the_terminal_about() {
    let evil = "\u{1b}]0;x\u{7}\u{9b}2J\u{202e}\u{2066}\u{200b}";
    let answer = format!(
        "HTTP/1.1 500 {evil}\r\nx-a: \u{202e}\u{9b}\r\n\r\n{{\"error\":\"{evil}\",\"message\":\"{evil}\"}}\r\n{evil}"
    );
    let har = json!({"log": {"entries": [
        {"request": {"method": evil, "url": format!("http://a/{evil}")}, "response": {"status": 404}},
        {"request": {"method": evil, "url": format!("http://a/{evil}")}, "response": {"status": 404}},
    ]}});
    let har = har.to_string();
    let shown = |text: &str| {
        let painted = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[32m", "\u{1b}[1;31m"];
        painted.iter().fold(text.to_owned(), |text, code| text.replace(code, ""))
    };
    for (arguments, stdin) in [
        (&[][..], &answer),
        (&[], &har),
        (&["--entry", "1"], &har),
        (&["--method", evil], &answer),
        (&[], &format!("HTTP/1.1 {evil}\r\n\r\n")),
        (&[], &format!("HTTP/1.1 200 OK\r\n{evil}\r\n\r\n")),
    ] {
        let told = explain(arguments, stdin);
        let all = format!("{}{}", told.out, told.err);
        assert!(all.contains("\\u{1b}") || all.contains("\\u{202e}"), "{all}");
        let is_order = |c: char| c != '\n' && (c.is_control() || "\u{202e}\u{2066}\u{200b}".contains(c));
        assert!(!all.contains(is_order), "{all:?}");
        // A terminal, as `script` gives one, if it is there.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("answer");
        std::fs::write(&file, stdin).unwrap();
        let command = format!("{} explain {}", env!("CARGO_BIN_EXE_a2a-errata"), file.display());
        let on_terminal =
            Command::new("script").args(["-qec", &command, "/dev/null"]).stdin(Stdio::null()).output();
        let Ok(on_terminal) = on_terminal else {
            eprintln!("not run on a terminal: `script` is not installed");
            continue;
        };
        let all = String::from_utf8_lossy(&on_terminal.stdout).replace('\r', "");
        assert!(!shown(&all).contains(is_order), "{all:?}");
    }
}

/// The heads of a proxy on the way, of interim answers and of what curl followed come before the answer.
#[test]
fn the_last_of_several_heads_is_the_answers() {
    let last = "HTTP/2 404 \r\ncontent-type: application/json\r\n\r\n{}";
    for before in [
        "",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n",
        "HTTP/1.1 200 Connection established\r\n\r\n",
        "HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 301 Moved Permanently\r\nlocation: /b\r\ncontent-length: 162\r\n\r\n",
        "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Digest\r\ncontent-length: 12\r\n\r\n",
        "HTTP/2 307 \r\nlocation: /b\r\n\r\nHTTP/2 308 \r\nlocation: /c\r\n\r\n",
    ] {
        for wire in [&["--json", "--method", "GetTask"][..], &["--json", "--method", "GetTask", "--wire"]] {
            let told = explain(wire, format!("{before}{last}"));
            assert_eq!(told.code, 1, "{before}: {}", told.err);
            assert_eq!(told.json()["reason"], "TASK_NOT_FOUND", "{before}: {}", told.out);
        }
    }
    // So does one that was saved with its body.
    for (before, notes) in [
        ("HTTP/1.1 302 Found\r\nlocation: /b\r\ncontent-length: 5\r\n\r\nmoved", 0),
        ("HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Digest\r\ncontent-length: 2\r\n\r\n{}", 0),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", 1),
    ] {
        let saved = format!("HTTP/1.1 100 Continue\r\n\r\n{before}{last}");
        let told = explain(&["--json", "--method", "GetTask", "--task", "t"], &saved);
        let all = told.json();
        assert_eq!((told.code, &all["reason"]), (1, &json!("TASK_NOT_FOUND")), "{before}: {}", told.out);
        let count =
            all["notes"].to_string().matches("there are 2 answers in it, and the last is taken").count();
        assert_eq!(count, notes, "{before}: {}", all["notes"]);
        // On the wire, what comes after an answer is none of it; nobody follows a 200.
        let told = explain(&["--json", "--method", "GetTask", "--task", "t", "--wire"], &saved);
        let reason = if notes == 0 { "TASK_NOT_FOUND" } else { "INTERNAL_ERROR" };
        assert_eq!(told.json()["reason"], reason, "{before}: {}", told.out);
    }
    // A body that begins like a head is a body, and a head alone is no answer.
    for body in ["HTTP/2 is required", "HTTP/1.1 404 Not Found\r\n\r\n"] {
        let told = explain(&["--raw", "--method", "OPTIONS"], format!("HTTP/1.1 500 Oops\r\n\r\n{body}"));
        assert!(told.code == 0 && told.out.ends_with(&format!("\r\n\r\n{body}")), "{}{}", told.out, told.err);
    }
    let told = explain(&[], "HTTP/1.1 100 Continue\r\n\r\n");
    assert!(told.code == 2 && told.err.contains("100 is no final answer"), "{}", told.err);
}

/// 204, 304 and what answers a HEAD end with their head (C-4).
#[test]
fn what_has_no_body_is_whole_whatever_its_length_says() {
    for wire in [&["--json"][..], &["--json", "--wire"]] {
        for (status, more) in
            [("204 No Content", &[][..]), ("304 Not Modified", &[]), ("200 OK", &["--method", "HEAD"])]
        {
            let saved = format!("HTTP/1.1 {status}\r\ncontent-length: 42\r\n\r\n");
            let told = explain(&[wire, more].concat(), &saved);
            let answer = told.json()["answer"].clone();
            assert_eq!((told.code, &answer["complete"]), (0, &json!(true)), "{status}: {}", told.out);
            assert_eq!(answer["headers"], json!([["content-length", "42"]]), "{status}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let request = folder.path().join("request");
    std::fs::write(&request, "HEAD /rest/tasks/t-1 HTTP/1.1\r\na2a-version: 1.0\r\n\r\n").unwrap();
    let saved = "HTTP/1.1 200 OK\r\ncontent-length: 42\r\n\r\n";
    let told = explain(&["--json", "--request", request.to_str().unwrap()], saved);
    assert_eq!((told.code, &told.json()["answer"]["complete"]), (0, &json!(true)), "{}", told.out);
}

/// An answer that was cut short is what the proxy makes of it: a fault of its own inside an error, an aborted
/// message inside a success (C-5).
#[test]
fn an_answer_that_is_cut_short_is_no_whole_one() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}}"#;
    let success = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":"{}"}}}}"#, "x".repeat(8000));
    let sized = |body: &str, length: usize| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
    };
    let chunked = |body: &str, end: &str| {
        format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: application/json\r\n\r\n{:x};x=y\r\n{body}{end}",
            body.len()
        )
    };
    for wire in [&["--json"][..], &["--json", "--wire"]] {
        for cut in [
            sized(error.get(..40).unwrap(), error.len()),
            chunked(error, "\r\n"),
            chunked(error, "\r\n5"),
            chunked(error, ""),
            format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\n{error}"),
        ] {
            let told = explain(wire, &cut);
            let all = told.json();
            assert_eq!((told.code, all["answer"]["status"].as_u64()), (1, Some(502)), "{cut}: {}", told.out);
            assert_eq!(all["verdict"], "synthesized", "{cut}");
            assert!(all["notes"].to_string().contains("taken as cut off there"), "{cut}: {}", told.out);
        }
        for cut in [sized(&success, success.len() + 1), chunked(&success, "\r\n")] {
            let told = explain(wire, &cut);
            assert_eq!(told.json()["answer"]["complete"], false, "{}", told.out);
        }
        // What comes after the end is not part of it.
        for whole in
            [sized(&format!("{success}more"), success.len()), chunked(&success, "\r\n0\r\nt: x\r\n\r\nmore")]
        {
            let told = explain(wire, &whole);
            let answer = told.json()["answer"].clone();
            assert_eq!((told.code, &answer["complete"]), (0, &json!(true)), "{}", told.out);
            assert_eq!(answer["body"], success);
        }
    }
    // What the command line says of the length counts, and line ends that an editor changed do not.
    let shorter = sized("{}", 9);
    assert_eq!(explain(&["--header", "content-length: 2"], &shorter).code, 1);
    assert!(!explain(&["--header", "content-length: 2", "--json"], &shorter).out.contains("cut off"));
    assert!(explain(&["--header", "content-length: 9", "--json"], "{}").out.contains("cut off"));
    let lines = success.replacen(',', ",\n", 3);
    let edited = sized(&lines, lines.len() + 4).replace("\r\n", "\n");
    let told = explain(&["--json"], &edited);
    assert_eq!((told.code, &told.json()["answer"]["complete"]), (0, &json!(true)), "{}", told.out);
}

#[test]
fn compressed_answers_are_read_as_they_were_saved() {
    let error = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}}"#;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(error).unwrap();
    let gzip = gzip.finish().unwrap();
    let head = |length: usize| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: {length}\r\n\r\n").into_bytes()
    };
    let get = ["--json", "--method", "GetTask", "--task", "t-1"];
    // As it was sent, and as `curl --compressed` undid it.
    for body in [&gzip[..], error, b"no such task"] {
        let told = explain(&get, [&head(gzip.len())[..], body].concat());
        let (all, is_text) = (told.json(), body == b"no such task");
        assert_eq!((told.code, &all["answer"]["complete"]), (1, &json!(true)), "{}", told.out);
        assert_eq!(all["reason"] == "TASK_NOT_FOUND", !is_text, "{}", told.out);
    }
    let cut = [&head(gzip.len())[..], &gzip[..20]].concat();
    assert_eq!(explain(&get, cut).json()["verdict"], "synthesized");
}

/// As PowerShell, editors and `curl -v` write them.
#[test]
fn files_are_read_as_tools_write_them() {
    let utf_16: Vec<u8> =
        format!("\u{feff}{FOREIGN}\r\n").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mixed = FOREIGN.replacen("\r\n", "\n", 2);
    let verbose = FOREIGN.split_once("\r\n\r\n").map(|(head, body)| {
        let head = format!("< {}\r\n", head.replace("\r\n", "\r\n< "));
        format!("* Connected to a (127.0.0.1) port 1\n> POST /a2a HTTP/1.1\r\n> Host: a\r\n> \r\n{head}< \r\n{body}* Connection #0 to host a left intact\n")
    });
    let get = ["--json", "--method", "GetTask", "--task", "t-1"];
    for saved in [
        utf_16.clone(),
        format!("\u{feff}{FOREIGN}").into(),
        mixed.into(),
        FOREIGN.replace("\r\n", "\n").into(),
        verbose.unwrap().into(),
    ] {
        let told = explain(&get, &saved);
        assert_eq!((told.code, &told.json()["answer"]["body"]), (1, &json!(NOT_FOUND)), "{}", told.err);
    }
    for (arguments, saved, says) in [
        (&["--wire"][..], &utf_16[..], "curl -si"),
        (&[], b"*   Trying 127.0.0.1:1...\n* connect failed\n", "have no answer in them"),
        (&[], b"== Info: Trying\n", "curl --trace"),
        (&[], b"  % Total    % Received % Xferd\n", "progress meter"),
    ] {
        let told = explain(arguments, saved);
        assert_eq!((told.code, told.err.lines().count()), (2, 1), "{}", told.err);
        assert!(told.err.contains(says) && told.err.contains("curl -si"), "{}", told.err);
    }
    // The request's file may be written so, too.
    let folder = tempfile::tempdir().unwrap();
    let request = folder.path().join("request");
    let text = "\u{feff}POST /a2a HTTP/1.1\r\na2a-version: 1.0\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"GetTask\",\"params\":{\"id\":\"t-1\"}}";
    for bytes in [text.as_bytes().to_vec(), text.encode_utf16().flat_map(u16::to_le_bytes).collect()] {
        std::fs::write(&request, bytes).unwrap();
        let told = explain(&["--json", "--request", request.to_str().unwrap()], FOREIGN);
        assert_eq!(told.json()["answer"]["body"], NOT_FOUND, "{}", told.err);
    }
}

#[test]
fn a_slip_in_a_methods_name_is_told() {
    for (arguments, says) in [
        (&["--method", "GetTaks"][..], "did you mean GetTask?"),
        (&["--method", "gettask"], "did you mean GetTask?"),
        (&["--method", "SENDMESSAGE"], "did you mean SendMessage?"),
        (&["--method", "task/get"], "did you mean tasks/get?"),
        (&["--method", "POTS"], "did you mean POST?"),
        (&["--method", "head"], "did you mean HEAD?"),
        (&["--method", "Nonsense", "--binding", "HTTP+JSON"], "known are SendMessage, "),
    ] {
        let told = explain(arguments, "{}");
        assert_eq!((told.code, told.err.lines().count()), (2, 1), "{arguments:?}: {}", told.err);
        assert!(told.err.contains(says), "{}", told.err);
    }
    // A host may be asked for what there is not.
    let told = explain(&["--json", "--method", "Nonsense"], FOREIGN);
    assert!(told.code == 1 && told.out.contains("is no operation of A2A"), "{}", told.out);
    assert_eq!(explain(&["--method", "PROPFIND", "--status", "404"], "{}").err, "");
}
