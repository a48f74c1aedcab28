//! A right host but for one thing: answers of the model host, edited on their way.

use super::*;

/// An answer of the model host's, taken apart; `Content-Length` is written anew.
struct Edited {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
    /// Behind the announced body.
    beyond: &'static str,
}

impl Edited {
    fn set(&mut self, name: &str, value: &str) {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
    }
}

/// Stands before a model host; `edit` is told each request's first line and body. Gives what it was asked, too.
fn edited(edit: impl Fn(&str, &str, &mut Edited) + Send + 'static) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let model = model(None);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let told = lines.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut head, mut length, mut line) = (String::new(), 0, String::new());
            while stream.read_line(&mut line).unwrap_or(0) > 2 {
                let lower = line.to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                head.push_str(&line);
                line.clear();
            }
            let mut body = vec![0; length];
            if head.is_empty() || stream.read_exact(&mut body).is_err() {
                continue;
            }
            let mut behind = std::net::TcpStream::connect(model).unwrap();
            behind.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).unwrap();
            behind.write_all(&body).unwrap();
            let mut answer = String::new();
            behind.read_to_string(&mut answer).unwrap();
            let (top, rest) = answer.split_once("\r\n\r\n").unwrap();
            let mut top = top.lines();
            let status = top.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
            let headers = top.filter_map(|line| line.split_once(": "));
            let mut said = Edited {
                status,
                headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
                body: rest.to_owned(),
                beyond: "",
            };
            let (first, asked) = (head.lines().next().unwrap(), String::from_utf8_lossy(&body));
            told.lock().unwrap().push(format!("{first} {}", asked.get(..200).unwrap_or(&asked)));
            edit(first, &asked, &mut said);
            let length = said.body.len().to_string();
            said.set("content-length", &length);
            said.set("connection", "close");
            let lines: Vec<String> =
                said.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let head = format!("HTTP/1.1 {} x\r\n{}", said.status, lines.concat());
            let _ = stream.get_mut().write_all(format!("{head}\r\n{}{}", said.body, said.beyond).as_bytes());
        }
    });
    (address, lines)
}

/// What failed at the host, with its reason, over both bindings.
fn failed(output: &Output) -> Vec<(String, String)> {
    let all: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let interfaces = all["interfaces"].as_array().unwrap();
    let findings = interfaces.iter().flat_map(|one| one["findings"].as_array().unwrap());
    let those = findings.filter(|one| one["verdict"] == "fail");
    those
        .map(|one| (one["check"].as_str().unwrap().to_owned(), one["reason"].as_str().unwrap().to_owned()))
        .collect()
}

fn is_get(first: &str, asked: &str) -> bool {
    asked.contains("\"GetTask\"") || first.starts_with("GET /") && first.contains("/tasks/t-")
}

/// An error that is right is no more than the first event: what follows it, and what no client can read, is wrong.
#[test]
fn all_of_a_stream_is_judged() {
    let event = r#"data: {"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"Task not found","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}]}}"#;
    for (more, why) in [
        ("", ""),
        (": bye\n\n", ""),
        ("data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"id\":\"t\"}}\n\n", "a success after the error"),
        ("EVENT\n\n", "another error after the error"),
        ("data: oops\n\n", "text after the error"),
        ("<html>oops</html>\n\n", "a line that is no event's"),
        ("data: {\"half", "an event that is cut off"),
        ("data: {}\n", "an event that is cut off"),
    ] {
        let more = more.replace("EVENT", event);
        let (host, _) = edited(move |_, asked, said| {
            if asked.contains("SubscribeToTask") {
                said.status = 200;
                said.set("content-type", "text/event-stream");
                said.body = format!("{event}\n\n{more}");
            }
        });
        let failed = failed(&probe(host, &["--json", "--binding", "JSONRPC"]));
        if why.is_empty() {
            assert_eq!(failed, []);
        } else {
            assert!(
                failed.iter().any(|(check, told)| check == "stream-error" && told.contains(why)),
                "{why}: {failed:?}"
            );
        }
    }
}

/// E-1, E-5, E-8, D-1, D-2: what a detail says is judged, not only what it is called, and by the proxy's own rules.
#[test]
fn a_detail_that_the_proxy_would_change_is_no_pass() {
    let info = |more: Value| {
        let mut info = json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo"});
        info.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        info
    };
    let bad =
        |rows: Value| json!({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": rows});
    let right = bad(json!([{"field": "id", "description": "Must be there"}]));
    let push = |more: Value| {
        let mut all = json!({"reason": "PUSH_NOTIFICATION_NOT_SUPPORTED", "domain": "a2a-protocol.org"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        info(all)
    };
    for (code, data, check, why) in [
        (-32602, json!([right]), "", ""),
        (
            -32602,
            json!([info(json!({"reason": "INVALID_PARAMS"}))]),
            "invalid-params",
            "carries an A2A reason",
        ),
        (
            -32602,
            json!([info(json!({"reason": "INVALID_PARAMS", "domain": "example.com"})), right]),
            "details",
            "google.rpc.ErrorInfo that may not be there: {",
        ),
        (-32602, json!([bad(json!(["tenant acme"]))]), "details", "BadRequest that may not be there: {"),
        (
            -32602,
            json!([bad(json!([{"field": "id", "reason": "owned by bob@acme.corp"}]))]),
            "details",
            "google.rpc.BadRequest where fieldViolations.0.reason may not be \"owned by bob@acme.corp\" (D-1)",
        ),
        (
            -32601,
            json!([info(json!({"reason": 5, "domain": "openwop.dev"}))]),
            "details",
            "may not be there: {",
        ),
        (-32601, json!([info(json!({}))]), "details", "google.rpc.ErrorInfo that may not be there: {"),
        (
            -32601,
            json!([{"@type": "type.googleapis.com/google.protobuf.Struct", "value": {"tenant": "acme"}}]),
            "details",
            "google.protobuf.Struct that may not be there: {",
        ),
        // RFC 0211 §F knows of these.
        (-32601, json!([info(json!({"reason": "METHOD_NOT_FOUND", "domain": "a2a-protocol.org"}))]), "", ""),
        (-32003, json!([push(json!({"metadata": {"field": "id"}}))]), "", ""),
        (
            -32003,
            json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1s"}, push(json!({}))]),
            "details",
            "google.rpc.ErrorInfo that stands too late in the list (E-1)",
        ),
        (
            -32003,
            json!([push(json!({"metadata": {"supportedVersions": "bob@acme.corp"}}))]),
            "metadata",
            "metadata.supportedVersions may not be \"bob@acme.corp\" (D-2)",
        ),
    ] {
        let given = data.clone();
        let (host, _) = edited(move |_, _, said| {
            let Ok(mut answer) = serde_json::from_str::<Value>(&said.body) else { return };
            if answer["error"]["code"] == code {
                answer["error"]["data"] = given.clone();
                said.body = answer.to_string();
            }
        });
        let output = probe(host, &["--json", "--binding", "JSONRPC"]);
        let told = failed(&output);
        if check.is_empty() {
            assert_eq!(told, [], "{data}");
            let of_f = text(&output.stdout).contains("RFC 0211 §F has clients bear with it");
            assert_eq!(of_f, code == -32601, "{data}");
        } else {
            let [(found, reason)] = &told[..] else { panic!("{data}: {told:?}") };
            assert!(found == check && reason.contains(why), "{data}: {found}: {reason}");
        }
    }
}

/// I-3: an interface that offers no 0.x is asked in 1.0, however its card writes the version.
#[test]
fn only_what_offers_0_x_alone_is_asked_in_0_3() {
    for (version, is_0_3) in
        [("1", false), ("2.0", false), ("10.0", false), ("v1.0", false), ("1.0.0", false), ("0.3", true)]
    {
        let (host, lines) = edited(move |first, _, said| {
            if first.contains("/.well-known/") {
                said.body = said.body.replace(r#""1.0""#, &format!("\"{version}\""));
            }
        });
        let output = probe(host, &["--json", "--binding", "JSONRPC"]);
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(all["interfaces"][0]["protocol"], if is_0_3 { "0.3" } else { "1.0" }, "{version}");
        let asked = |method: &str| lines.lock().unwrap().iter().any(|line| line.contains(method));
        assert_eq!(asked("\"tasks/get\""), is_0_3, "{version}");
        if !is_0_3 {
            // The host says 1.0 where its card does not.
            let wanted: &[&str] = if version == "1.0.0" { &[] } else { &["supported-versions"] };
            let told: Vec<String> = failed(&output).into_iter().map(|(check, _)| check).collect();
            assert_eq!(told, wanted, "{version}");
        }
    }
}

/// As many header lines as the proxy takes.
#[test]
fn an_answer_may_have_256_header_lines() {
    for (lines, code) in [(256, 0), (257, 2)] {
        let (host, _) = edited(move |_, _, said| {
            // Two more are written with the answer.
            said.headers
                .retain(|(name, _)| !matches!(&*name.to_ascii_lowercase(), "content-length" | "connection"));
            for at in said.headers.len() + 2..lines {
                said.headers.push((format!("x-h{at}"), "1".to_owned()));
            }
        });
        let output = probe(host, &["--binding", "JSONRPC"]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{told}{}", text(&output.stdout));
        if code == 2 {
            assert_eq!(told.lines().count(), 1, "{told}");
            assert!(told.contains("it has more than 256 header lines"), "{told}");
        }
    }
}

/// Whatever a host sends, it is judged in a moment and told in a line.
#[test]
fn what_a_host_sends_is_quoted_short() {
    let long = "v".repeat(300_000);
    let began = std::time::Instant::now();
    let info = |reason: &str, domain: &str| json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": domain});
    let error = |error: Value| json!({"jsonrpc": "2.0", "id": 7, "error": error}).to_string();
    let mut many = serde_json::Map::new();
    (0..30_000).for_each(|at| drop(many.insert(format!("k{at}"), json!("v"))));
    let mut with_many = info("TASK_NOT_FOUND", "a2a-protocol.org");
    with_many["metadata"] = Value::Object(many);
    for body in [
        error(json!({"code": {"a": long}, "message": "m"})),
        error(json!({"code": -32001, "message": [long]})),
        error(json!({"code": -32001, "message": "m", "data": [{"@type": long}]})),
        error(json!({"code": -32001, "message": "m", "data": [info(&long, &long)]})),
        error(json!({"code": -32001, "message": "m", "data": [with_many]})),
        error(json!({"code": -32001, "message": "m", "data": long, (&long): 1})),
        json!({"jsonrpc": "2.0", "id": [long], "error": {"code": -32001, "message": "m"}}).to_string(),
        json!({"error": "acme.x", "message": long}).to_string(),
    ] {
        let host = Scripted::with_card(&[("/a2a", "JSONRPC")], move |_| (200, body.clone()));
        for more in [&[][..], &["--json"]] {
            let output = host.probe(more);
            assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
            let said = text(&output.stdout);
            assert!(said.len() < 60_000 && !said.contains(&"v".repeat(200)), "{} bytes", said.len());
        }
    }
    let path = format!("/{}", "v".repeat(70_000));
    let host = Scripted::with_card(&[(&path, "JSONRPC")], html);
    for more in [&[][..], &["--json"]] {
        let output = host.probe(more);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.len() < 60_000 && output.stderr.len() < 2000, "{}", output.stderr.len());
    }
    assert!(began.elapsed().as_secs() < 240, "{:?}", began.elapsed());
}

/// Nobody undoes a coding that nobody asked for, or reads what stands where the next answer begins.
#[test]
fn what_no_client_reads_is_no_pass() {
    let (host, _) = edited(|first, _, said| {
        if !first.contains("/.well-known/") {
            said.set("content-encoding", "gzip");
        }
    });
    let told = failed(&probe(host, &["--json"]));
    for check in ["unknown-task", "malformed-json", "extended-card"] {
        let why = told.iter().find(|(one, _)| one == check).unwrap_or_else(|| panic!("{check}: {told:?}"));
        assert!(why.1.contains("has the Content-Encoding gzip"), "{why:?}");
    }
    let (host, _) = edited(|first, asked, said| {
        if asked.contains("\"GetTask\"") || first.contains("/tasks/") {
            said.beyond = "{\"jsonrpc\"";
        }
    });
    let told = failed(&probe(host, &["--json"]));
    let bytes = "is followed by 10 bytes more than its Content-Length says";
    assert!(told.iter().any(|(check, why)| check == "unknown-task" && why.contains(bytes)), "{told:?}");
}

/// Deleting may be answered with nothing over HTTP+JSON; JSON-RPC has an answer for everything.
#[test]
fn an_empty_answer_is_none_over_json_rpc() {
    let (host, _) = edited(|first, asked, said| {
        if asked.contains("DeleteTaskPush") || first.starts_with("DELETE ") {
            (said.status, said.body) = (if asked.is_empty() { 204 } else { 200 }, String::new());
        }
    });
    let told = failed(&probe(host, &["--json"]));
    let [(check, why)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(check, "push-operations");
    assert!(why.contains("DeleteTaskPushNotificationConfig: HTTP 200 with an empty body"), "{why}");
}

/// The id in `metadata` is the one that the body named, whatever was odd about the request.
#[test]
fn a_lenient_host_may_name_the_task_that_was_asked_about() {
    let (host, _) = edited(|_, asked, said| {
        let Some((_, rest)) =
            asked.split_once(r#""params":{"id":""#).filter(|_| asked.contains("\"GetTask\""))
        else {
            return;
        };
        let refused = said.body.contains("-32600") || said.body.contains("CONTENT_TYPE_NOT_SUPPORTED");
        let task = rest.split('"').next().unwrap();
        if refused {
            said.status = 200;
            said.body = json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32001, "message": "Task not found", "data": [
                {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org", "metadata": {"taskId": task}}
            ]}})
            .to_string();
        }
    });
    let output = probe(host, &["--json", "--binding", "JSONRPC"]);
    assert_eq!(failed(&output), []);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    for check in ["wrong-content-type", "oversized-body"] {
        assert_eq!(finding(&all, check)["verdict"], "not applicable", "{}", finding(&all, check));
    }
}

/// Bindings are compared within a version, and versions with those of the whole card.
#[test]
fn interfaces_of_another_version_are_no_twins_and_no_lie() {
    let not_found = |_: &str| {
        let info = json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org"});
        (200, json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32001, "message": "Task not found", "data": [info]}}).to_string())
    };
    let old = Scripted::start(not_found);
    let old = format!("http://{}/old", old.address);
    let (host, _) = edited(move |first, _, said| {
        if first.contains("/.well-known/") {
            let mut card: Value = serde_json::from_str(&said.body).unwrap();
            let all = card["supportedInterfaces"].as_array_mut().unwrap();
            all.insert(0, json!({"url": old, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}));
            said.body = card.to_string();
        }
        said.body = said.body.replace(r#""supportedVersions":"1.0""#, r#""supportedVersions":"1.0, 0.3""#);
    });
    let output = probe(host, &["--json", "--follow"]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let new: Vec<&Value> = all["interfaces"].as_array().unwrap().iter().skip(1).collect();
    assert_eq!(new.len(), 2, "{all}");
    for interface in new {
        let findings = interface["findings"].as_array().unwrap();
        let failed: Vec<_> = findings.iter().filter(|one| one["verdict"] == "fail").collect();
        assert!(failed.is_empty(), "{failed:?}");
        let of = |check: &str| findings.iter().find(|one| one["check"] == check).unwrap();
        assert_eq!(of("supported-versions")["verdict"], "pass");
        let noted = of("supported-versions")["notes"].to_string();
        assert!(noted.contains("0.3") && noted.contains("on another interface"), "{noted}");
        assert!(interface["binding"] == "JSONRPC" || of("twins")["verdict"] == "pass", "{}", of("twins"));
    }
}

/// Only an error that says so means that there is no such task, and only the names of ends that it has ended.
#[test]
fn a_task_that_may_exist_or_go_on_is_not_canceled() {
    let task = r#"{"id":"mine-1","status":{"state":"TASK_STATE_WORKING"}}"#;
    let found = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{task}}}"#);
    let coded = format!(r#"{{"jsonrpc":"2.0","id":7,"code":-32001,"result":{task}}}"#);
    let no_method = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no"}}"#;
    for (binding, status, body, may_change) in [
        ("JSONRPC", 404, found.as_str(), false),
        ("JSONRPC", 404, coded.as_str(), false),
        ("JSONRPC", 404, "<html>nothing here", false),
        ("JSONRPC", 404, "", false),
        ("JSONRPC", 404, no_method, false),
        ("JSONRPC", 404, r#"{"detail":"Not Found"}"#, false),
        ("HTTP+JSON", 404, task, false),
        ("HTTP+JSON", 404, "<html>nothing here", false),
        ("HTTP+JSON", 404, r#"{"detail":"Not Found"}"#, false),
        ("HTTP+JSON", 404, r#"{"error":{"code":404,"status":"NOT_FOUND","message":"m"}}"#, true),
        ("JSONRPC", 200, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"m"}}"#, true),
    ] {
        let (answer, url) = (body.to_owned(), if binding == "JSONRPC" { "/a2a" } else { "/rest" });
        let (host, lines) = edited(move |first, asked, said| {
            if first.contains("/.well-known/") {
                let interface = json!({"url": url, "protocolBinding": binding, "protocolVersion": "1.0"});
                said.body = json!({"supportedInterfaces": [interface]}).to_string();
            } else if asked.contains("\"GetTask\"") || first.starts_with("GET ") {
                (said.status, said.body) = (status, answer.clone());
            }
        });
        probe(host, &["--json", "--unknown-task", "mine-1"]);
        let lines = lines.lock().unwrap();
        let changes = |line: &&String| {
            line.contains("mine-1")
                && (line.contains("CancelTask\"") || line.contains(":cancel") || line.contains("ubscribe"))
        };
        assert!(lines.len() > 10);
        assert_eq!(lines.iter().any(|line| changes(&line)), may_change, "{binding} {body}: {lines:?}");
    }
    for (state, ended) in [
        ("TASK_STATE_NOT_COMPLETED", false),
        ("UNCANCELED", false),
        ("TASK_STATE_WORKING", false),
        ("TASK_STATE_COMPLETED", true),
        ("TASK_STATE_REJECTED", true),
    ] {
        let (host, lines) = edited(move |first, asked, said| {
            if is_get(first, asked) {
                said.body = said.body.replace("TASK_STATE_COMPLETED", state);
            }
        });
        probe(host, &["--json", "--binding", "JSONRPC"]);
        let canceled = |line: &String| line.contains("CancelTask\"") && line.contains(OWN_TASK);
        assert_eq!(lines.lock().unwrap().iter().any(canceled), ended, "{state}");
    }
}

/// Another value of a header that the checks set would be taken for the host's error.
#[test]
fn headers_that_the_checks_set_are_refused() {
    let host = Scripted::with_card(&[("/a2a", "JSONRPC")], html);
    for header in [
        "A2A-Version: 1.0",
        "Content-Type: a/b",
        "Content-Length: 5",
        "Transfer-Encoding: chunked",
        "Accept: */*",
        "Accept-Encoding: gzip",
        "Host: a.example",
        "Connection: close",
    ] {
        for flag in ["--header", "--credential"] {
            let output = host.probe(&[flag, header]);
            let told = text(&output.stderr);
            assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{header}: {told}");
            assert!(told.contains(&format!("{flag} cannot set ")) && output.stdout.is_empty(), "{told}");
        }
    }
    assert_eq!(host.seen.lock().unwrap().len(), 0);
}

/// A typing error in the path is not answered with a look at something else.
#[test]
fn a_path_that_the_card_has_not_is_refused() {
    let host = model(None);
    let token = CREDENTIAL.strip_prefix("Bearer ").unwrap();
    for (path, code) in [
        ("/nothing", 2),
        ("/a2", 2),
        ("/a2a/x", 2),
        ("/a2a", 0),
        ("/a2a/", 0),
        ("/", 0),
        ("/.well-known/agent-card.json", 0),
        ("/.well-known/agent.json", 0),
    ] {
        let url = format!("http://{host}{path}");
        let output = run(&["probe", &url, "--rps", "1000", "--oversize", "2097152", "--bearer", token]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{path}: {told}{}", text(&output.stdout));
        if code == 2 {
            assert!(told.contains(&format!("lists no interface at {path}; ")), "{told}");
            assert!(told.lines().count() == 1 && output.stdout.is_empty(), "{told}");
        }
    }
    // What is below the path that was typed is what was meant.
    let tenant = Scripted::with_card(&[("/agents/1/a2a", "JSONRPC")], html);
    let url = format!("http://{}/agents/1", tenant.address);
    assert_eq!(run(&["probe", &url, "--rps", "1000", "--oversize", "10"]).status.code(), Some(1));
}

/// However many interfaces a card lists, so many are probed, and one line says it.
#[test]
fn a_card_of_thousands_of_interfaces_is_bounded() {
    let urls: Vec<String> = (0..3000).map(|at| format!("http://{at}.invalid/{at}")).collect();
    let listed: Vec<(&str, &str)> = urls.iter().map(|url| (url.as_str(), "JSONRPC")).collect();
    let host = Scripted::with_card(&listed, html);
    let of = |output: &Output| -> Value { serde_json::from_slice(&output.stdout).unwrap() };
    let all = of(&host.probe(&["--json", "--max-requests", "40"]));
    assert_eq!(all["interfaces"].as_array().unwrap().len(), 16);
    let notes = all["notes"].to_string();
    assert!(notes.contains("lists 3000 interfaces, and the first 16 are probed"), "{notes}");
    assert!(all["notes"].as_array().unwrap().len() < 20, "{notes}");
    let url = format!("http://{}/2999", host.address);
    let all = of(&run(&["probe", &url, "--json", "--rps", "1000", "--max-requests", "40"]));
    assert_eq!(all["interfaces"][0]["url"], url, "{all}");
    assert!(!all["notes"].to_string().contains("are probed;"), "{all}");
}

/// What is no HTTP/1.1 to hyper may be HTTP/1.1 all the same, and then --http2 is no advice.
#[test]
fn a_head_that_cannot_be_read_is_called_that() {
    let folded = says("HTTP/1.1 200 x\r\na: 1\r\n folded\r\ncontent-length: 0\r\n\r\n".to_owned());
    let endless = says(format!("HTTP/1.1 200 x\r\n{}", "a: 1\r\n".repeat(400)));
    let plain = says("HTTP/1.1 400 x\r\ncontent-length: 0\r\n\r\n".to_owned());
    let page = says("<html>Bad request version".to_owned());
    let http2 = says("\0\0\x12\x04\0\0\0\0\0\0\0".to_owned());
    for (host, more, why) in [
        (
            folded,
            &[][..],
            "the head of the HTTP/1.1 answer cannot be read: a header that is folded over two lines",
        ),
        (endless, &[], "the head of the HTTP/1.1 answer cannot be read: it has more than 256 header lines"),
        (plain, &["--http2"], "leave --http2 out"),
        (page, &["--http2"], "leave --http2 out"),
        (http2, &[], "needs --http2"),
    ] {
        let output = run(&[&["probe", &format!("http://{host}")], more].concat());
        let told = text(&output.stderr);
        assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{told}");
        assert!(told.contains(why), "{why}: {told}");
    }
}
