//! What is no pass, what is never asked, and what goes nowhere: `probe` before hosts that are scripted for it.

use super::*;

/// An error in perfect shape, but another than the one that was caused, shows nothing.
#[test]
fn another_error_than_the_one_that_was_caused_is_no_pass() {
    let caused = ["malformed-json", "non-object-json", "unknown-method", "invalid-params", "bad-version"];
    let lenient = ["wrong-content-type", "oversized-body"];
    for (status, code, reason, verdict, when_lenient) in [
        (200, -32603, "", "fail", "fail"),
        (500, -32603, "", "fail", "fail"),
        (200, -32001, "TASK_NOT_FOUND", "fail", "not applicable"),
        (200, -32004, "UNSUPPORTED_OPERATION", "fail", "fail"),
        (429, -32000, "", "undecided", "undecided"),
        (503, -32603, "", "undecided", "undecided"),
    ] {
        let mut error = json!({"code": code, "message": "no"});
        if !reason.is_empty() {
            let info = json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "a2a-protocol.org"});
            error["data"] = json!([info]);
        }
        let body = json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string();
        let host = Scripted::with_card(&[("/a2a", "JSONRPC")], move |_| (status, body.clone()));
        let output = host.probe(&["--json", "--bearer", "token", "--foreign-task", "t-2"]);
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        for (check, verdict) in
            caused.map(|check| (check, verdict)).into_iter().chain(lenient.map(|check| (check, when_lenient)))
        {
            assert_eq!(finding(&all, check)["verdict"], verdict, "{status} {code}: {}", finding(&all, check));
        }
        for check in ["no-credential", "foreign-task", "unknown-cancel"] {
            let is_right = reason == "TASK_NOT_FOUND" && check != "no-credential";
            assert_eq!(finding(&all, check)["verdict"] == "pass", is_right, "{}", finding(&all, check));
        }
        assert_ne!(output.status.code(), Some(0), "{status} {code}");
        if verdict == "undecided" {
            let why = finding(&all, "malformed-json")["reason"].as_str().unwrap().to_owned();
            assert!(why.contains(&format!("HTTP {status}: the host is ")), "{why}");
            assert!(all["undecided"].as_u64().unwrap() > 5, "{all}");
        }
    }
}

/// Whoever has a task for every id has none of them touched.
#[test]
fn nothing_is_asked_that_changes_a_task_that_may_exist() {
    let task = r#"{"id":"t-9","status":{"state":"TASK_STATE_WORKING"}}"#;
    for (status, body, why) in [
        (200, task, "there is such a task"),
        (500, r#"{"error":{"code":500,"status":"INTERNAL","message":"m"}}"#, "GetTask does not say"),
        (200, r#"{"error":{"code":403,"status":"PERMISSION_DENIED","message":"m"}}"#, "GetTask does not say"),
    ] {
        let host = Scripted::with_card(&[("/rest", "HTTP+JSON")], move |_| (status, body.to_owned()));
        let given = ["--task", "t-9", "--foreign-task", "t1", "--unknown-task", "t-8", "--json"];
        for more in [&given[..], &["--json"]] {
            host.lines.lock().unwrap().clear();
            let output = host.probe(more);
            let all: Value = serde_json::from_slice(&output.stdout).unwrap();
            for line in host.lines.lock().unwrap().iter() {
                assert!(line.starts_with("GET "), "{line}");
                // What was given may be guessed, what is made up may not.
                let id = line.split("/tasks/").nth(1).and_then(|rest| rest.split(['/', '?', ' ']).next());
                assert!(more.len() > 1 || id.is_none_or(|id| id.len() == 36), "{line}");
            }
            for check in ["unknown-cancel", "malformed-json", "unknown-method", "stream-error"] {
                let found = finding(&all, check);
                assert_eq!(found["verdict"], "not applicable", "{found}");
                assert!(found["reason"].as_str().unwrap().contains(why), "{found}");
            }
            assert_ne!(output.status.code(), Some(0));
        }
    }
}

/// Credentials go where they were typed for.
#[test]
fn another_origin_gets_no_credential_unless_it_is_asked_for() {
    let not_found =
        |_: &str| (404, r#"{"error":{"code":404,"status":"NOT_FOUND","message":"m"}}"#.to_owned());
    let other = Scripted::start(not_found);
    let interface = format!("http://{}/rest?own=1", other.address);
    let host = Scripted::with_card(&[(&interface, "HTTP+JSON")], not_found);
    let url = format!("http://{}/?key=planted-key", host.address);
    let usual = ["probe", &url, "--rps", "1000", "--oversize", "10", "--json", "--bearer", "planted-token"];
    let header = ["--header", "Authorization: Bearer planted-header"];
    for (more, sends) in [
        (&["--follow"][..], false),
        (&["--follow-credentials"], true),
        (&["--follow", header[0], header[1]], false),
    ] {
        other.seen.lock().unwrap().clear();
        other.lines.lock().unwrap().clear();
        let output = run(&[&usual[..], more].concat());
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        let seen = other.seen.lock().unwrap().clone();
        assert!(seen.len() > 10 && seen.iter().any(Option::is_some) == sends, "{more:?}: {seen:?}");
        assert!(host.seen.lock().unwrap().iter().all(Option::is_some));
        let lines = other.lines.lock().unwrap().clone();
        assert!(
            lines.iter().all(|line| line.contains("own=1") && line.contains("planted-key") == sends),
            "{lines:?}"
        );
        let note = format!("http://{} gets no credential, header or query", other.address);
        let noted =
            all["notes"].as_array().unwrap().iter().any(|one| one.as_str().unwrap().starts_with(&note));
        assert_eq!(noted, !sends, "{all}");
    }
}

/// It belongs to the interface's URL, and is not shown.
#[test]
fn a_query_is_sent_and_not_shown() {
    let host = Scripted::start(|_| (404, "{}".to_owned()));
    for (binding, path) in [("JSONRPC", "/a2a"), ("HTTP+JSON", "/rest"), ("HTTP+JSON", "")] {
        host.lines.lock().unwrap().clear();
        let url = format!("http://{}{path}?key=planted-1", host.address);
        let output = run(&["probe", &url, "--binding", binding, "--rps", "1000", "--oversize", "10"]);
        let lines = host.lines.lock().unwrap().clone();
        assert!(lines.len() > 10);
        for line in &lines {
            let target = line.split(' ').nth(1).unwrap();
            assert_eq!(target.matches("?key=planted-1").count(), 1, "{line}");
            assert_eq!(target.matches('?').count(), 1, "{line}");
        }
        assert_eq!(
            lines.iter().any(|line| line.contains("?key=planted-1&historyLength=abc")),
            binding != "JSONRPC"
        );
        assert!(!text(&output.stdout).contains("planted") && !text(&output.stderr).contains("planted"));
    }
}

/// A host may say back what it was sent, and orders to the terminal.
#[test]
fn what_a_host_says_back_is_neither_a_credential_nor_an_order() {
    let message = "no: /srv/a/Bearer planted-token, planted-header, cGxhbnRlZA== planted-to... PLANTED-TOKEN planted%2dtoken plantedsid \u{1b}[2J \u{202e}";
    let error = json!({"code": -32001, "message": message, "data": null});
    let body = json!({"jsonrpc": "2.0", "id": 7, "error": error}).to_string();
    for more in [&["--bearer", "planted-token"][..], &["--credential", "X-Api-Key: planted-token"]] {
        let dir = tempfile::tempdir().unwrap();
        let junit = dir.path().join("probe.xml").display().to_string();
        let body = body.clone();
        let host = Scripted::with_card(&[("/a2a", "JSONRPC")], move |_| (200, body.clone()));
        let usual = [
            "--header",
            "X-Other: planted-header",
            "--header",
            "Cookie: a=b; sid=plantedsid",
            "--junit",
            &junit,
        ];
        for form in [&[][..], &["--json"]] {
            let output = host.probe(&[more, &usual, form].concat());
            let report = std::fs::read_to_string(&junit).unwrap();
            let shown = [text(&output.stdout), text(&output.stderr), report];
            let why = "a message with a character that nobody sees";
            assert!(shown[0].contains(why) && shown[2].contains(why));
            for one in shown {
                assert!(
                    !one.to_lowercase().contains("planted") && !one.contains(['\x1b', '\u{202e}']),
                    "{one}"
                );
            }
        }
    }
}

/// Neither a card nor a call goes where an answer points.
#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = Scripted::start(html);
    let to = format!("http://{}/a2a", elsewhere.address);
    let moved =
        says(format!("HTTP/1.1 307 x\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"));
    let url = format!("http://{moved}/a2a");
    let output = run(&[
        "probe",
        &url,
        "--follow",
        "--binding",
        "JSONRPC",
        "--bearer",
        "planted",
        "--rps",
        "1000",
        "--json",
    ]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let told = finding(&all, "unknown-task")["reason"].as_str().unwrap();
    assert!(told.contains(&format!("HTTP 307 with a redirect to {to}, which is not followed")), "{told}");
    assert_eq!(elsewhere.seen.lock().unwrap().len(), 0);
}

/// Rows over no answer, or over answers that nobody can read, show nothing.
#[test]
fn nothing_passes_where_nothing_can_be_read() {
    for (status, body, may_pass) in [
        (500, "<html>oops", &[][..]),
        (404, "", &[]),
        (200, "no JSON", &[]),
        // Not an error at all: no more than that it is no envelope can be said.
        (200, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, &["no-envelope"]),
        (200, r#"{"jsonrpc":"2.0","id":7}"#, &["no-envelope"]),
    ] {
        for binding in ["JSONRPC", "HTTP+JSON"] {
            let host = Scripted::with_card(&[("/a2a", "JSONRPC"), ("/rest", "HTTP+JSON")], move |_| {
                (status, body.to_owned())
            });
            let tasks = ["--task", "t-1", "--foreign-task", "t-2", "--binding", binding, "--json"];
            let output = host.probe(&tasks);
            let all: Value = serde_json::from_slice(&output.stdout).unwrap();
            let findings = all["interfaces"][0]["findings"].as_array().unwrap();
            let passed = findings.iter().filter(|one| one["verdict"] == "pass");
            let passed: Vec<_> = passed.map(|one| one["check"].as_str().unwrap()).collect();
            assert!(passed.iter().all(|check| may_pass.contains(check)), "{binding} {body}: {passed:?}");
            assert_ne!(output.status.code(), Some(0), "{binding} {body}");
        }
    }
}

/// What a host leaves out has no shape to be judged; where some answers cannot be read, the count says so.
#[test]
fn what_is_absent_is_not_called_right() {
    let info = json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "VERSION_NOT_SUPPORTED", "domain": "a2a-protocol.org"});
    let error = json!({"code": -32009, "message": "no", "data": [info]});
    let refusal = json!({"jsonrpc": "2.0", "id": 7, "error": error}).to_string();
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let host = Scripted::with_card(&[("/a2a", "JSONRPC")], move |_| {
        let before = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if before < 3 { html("") } else { (200, refusal.clone()) }
    });
    let output = host.probe(&["--foreign-task", "t-2", "--json"]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = all["interfaces"][0]["findings"].as_array().unwrap();
    let of = |check: &str| findings.iter().find(|one| one["check"] == check).unwrap();
    for check in ["supported-versions", "metadata", "headers", "foreign-time"] {
        assert_eq!(of(check)["verdict"], "not applicable", "{}", of(check));
    }
    assert_eq!(of("supported-versions")["reason"], "absent, so the card counts");
    let counted = of("details")["reason"].as_str().unwrap();
    assert!(
        of("details")["verdict"] == "pass" && counted.contains(" of ") && counted.contains("answers"),
        "{counted}"
    );
}

/// A refusal of everything is the same for any task, and takes as long.
#[test]
fn refusals_of_everything_are_no_verdict_on_tasks_and_hint_at_a_credential() {
    let refusal = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"no","data":[]}}"#;
    let refusal = refusal.replace("\"id\":7", "\"id\":null");
    let host = Scripted::with_card(&[("/a2a", "JSONRPC")], move |_| (401, refusal.clone()));
    let output = host.probe(&["--foreign-task", "t-2", "--json"]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let verdict = |check: &str| {
        let findings = all["interfaces"][0]["findings"].as_array().unwrap();
        findings.iter().find(|one| one["check"] == check).unwrap()["verdict"].clone()
    };
    for check in [
        "foreign-task",
        "foreign-time",
        "malformed-json",
        "unknown-method",
        "oversized-body",
        "details",
        "metadata",
        "headers",
    ] {
        assert_eq!(verdict(check), "not applicable", "{check}");
    }
    let hints = |output: &Output| -> Vec<String> {
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        let notes = all["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap().to_owned());
        notes.filter(|note| note.contains("refuses")).collect()
    };
    let [hint] = &hints(&output)[..] else { panic!("{all}") };
    assert!(hint.contains("--bearer TOKEN") && hint.contains("--header"), "{hint}");
    let [hint] = &hints(&host.probe(&["--bearer", "planted", "--json"]))[..] else { panic!("no hint") };
    assert!(hint.contains("the right one?") && !hint.contains("planted"), "{hint}");
    assert!(text(&host.probe(&[]).stdout).contains("--bearer TOKEN"));
    // Without a card there is one line.
    let closed = Scripted::start(|_| (403, "no".to_owned()));
    let output = closed.probe(&[]);
    let told = text(&output.stderr);
    assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{told}");
    assert!(told.contains("HTTP 403") && told.contains("--bearer TOKEN"), "{told}");
}
