//! D-4, from the outside: hosts and clients plant a secret of its own in every place there is, and none of
//! them is in a log at the most talkative level, a metric, a page, a report or a span.
// A test says what went wrong by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[path = "support/binary.rs"]
mod binary;
mod support;
#[path = "support/tls.rs"]
mod tls;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::{fs, thread};

use binary::{ask, exchange, free_port, run, start, text};
use support::{CALL, ScriptedHost, Visit, post};
use tls::{Authority, EXPIRED, Signed, TlsClient, block_on};

/// What every secret begins with; what follows says where it was planted.
const MARK: &str = "planted";

/// Everything in an answer of a host that a host can choose.
fn answers() -> Vec<String> {
    let headers = "X-planted-name: planted-header\r\nSet-Cookie: planted-cookie=planted-cookie-value\r\n\
         Server: planted-server\r\nETag: \"planted-etag\"\r\nLocation: /planted-location\r\n\
         WWW-Authenticate: Bearer realm=\"planted-realm\"\r\nVia: 1.1 planted-via\r\n";
    let whole = |status: u16, kind: &str, body: &str| {
        format!(
            "HTTP/1.1 {status} planted-phrase\r\nContent-Type: {kind}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let json = "application/json; planted-parameter=planted";
    let error = r#"{"jsonrpc":"2.0","id":"planted-answer-id","error":{"code":-32602,"message":"planted-message","planted-member":1,
        "data":[{"@type":"planted.type/planted.Type","reason":"PLANTED_REASON","domain":"planted.example","metadata":{"planted_key":"planted-metadata","plantedKey":["planted"]}},
        {"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"planted.field","description":"planted description"}]},
        {"loc":["planted","loc"],"msg":"planted-msg","input":"planted-input"}]}}"#;
    let envelope = r#"{"error":"planted.vendor_code","message":"planted-envelope","details":{"tenantId":"planted-tenant"}}"#;
    let stream = ": planted-comment\nevent: planted-event\nid: planted-event-id\nretry: 1\n\
         data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"text\":\"planted-result\"}}\n\n\
         data: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32001,\"message\":\"planted-event-message\"}}\n\n\
         planted-field: planted\ndata: planted-text\n\n";
    let big = format!(
        r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32603,"message":"{}"}}}}"#,
        "planted".repeat(9000)
    );
    vec![
        whole(200, json, error),
        whole(200, json, r#"{"jsonrpc":"2.0","id":1,"result":{"planted":"planted-success"}}"#),
        whole(403, json, envelope),
        whole(401, json, envelope),
        whole(500, "text/html; planted", "<h1>planted-html</h1>"),
        whole(422, json, r#"{"detail":[{"loc":["planted"],"msg":"planted","input":"planted-echo"}]}"#),
        whole(404, "text/planted", "planted-text"),
        whole(200, "text/event-stream; planted=1", stream),
        whole(200, json, &big),
        // Answers that end early or are none.
        format!("HTTP/1.1 500 planted\r\n{headers}Content-Length: 5000\r\n\r\nplanted-cut-off"),
        format!("HTTP/1.1 200 planted\r\n{headers}Transfer-Encoding: chunked\r\n\r\nplanted-no-chunk\r\n"),
        "planted-no-http planted\r\nplanted\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nplanted header without colon\r\nplanted: \u{1}\r\n\r\n".to_owned(),
        String::new(),
    ]
}

/// A card in which everything but the paths of its interfaces is planted: those are labels (U-4).
fn card(address: &str) -> String {
    let body = format!(
        r#"{{"name":"planted-agent","description":"planted","provider":{{"organization":"planted-org"}},"skills":[{{"id":"planted-skill"}}],
        "supportedInterfaces":[{{"url":"http://{address}/a2a","protocolBinding":"JSONRPC","protocolVersion":"1.0"}},
        {{"url":"http://{address}/rest","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"}},
        {{"url":"http://planted.example/x?planted","protocolBinding":"PLANTED","protocolVersion":"planted"}}],
        "signatures":[{{"protected":"planted-signature","signature":"planted"}}]}}"#
    );
    format!(
        "HTTP/1.1 200 planted\r\nContent-Type: application/json\r\nETag: \"planted\"\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Every request a client can plant something in: those that reach a host, and those that are none.
fn requests() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let headers = "Host: planted-authority.example\r\nAuthorization: Bearer planted-token\r\nCookie: planted=planted-cookie\r\n\
         User-Agent: planted-agent\r\nX-planted: planted-header\r\nX-Forwarded-For: planted-peer\r\nReferer: http://planted/\r\n\
         traceparent: 00-planted-planted-01\r\ntracestate: planted=1\r\nbaggage: planted=1\r\nA2A-Extensions: https://planted.example\r\n\
         Connection: close\r\n";
    let call = |line: &str, version: &str, body: &str| {
        let length = body.len();
        format!("{line} HTTP/1.1\r\n{headers}{version}Content-Length: {length}\r\n\r\n{body}").into_bytes()
    };
    let v1 = "A2A-Version: 1.0\r\n";
    let get_task = r#"{"jsonrpc":"2.0","id":"planted-id","method":"GetTask","params":{"id":"planted-task","planted":1}}"#;
    let send = r#"{"jsonrpc":"2.0","id":"planted-id","method":"SendMessage","params":{"message":{"messageId":"planted","taskId":"planted-task","parts":[{"text":"planted-prompt"}]}}}"#;
    let stream = send.replace("SendMessage", "SendStreamingMessage");
    let calls = vec![
        call("POST /a2a?planted=planted-query", v1, get_task),
        call("POST /a2a", v1, send),
        call("POST /a2a", "A2A-Version: 1.0\r\nAccept: text/event-stream\r\n", &stream),
        call("POST /a2a", "A2A-Version: planted.version\r\n", get_task),
        call("POST /a2a", v1, r#"{"jsonrpc":"2.0","id":1,"method":"planted-method"}"#),
        call("POST /a2a", v1, "planted-no-json"),
        call("POST /A2A//", v1, get_task),
        call("GET /rest/tasks/planted-task?planted", v1, ""),
        call("POST /rest/planted-tenant/tasks/planted-task:cancel", v1, "{}"),
        call("POST /rest/message:send", v1, send),
        call("GET /planted-path/planted?planted", v1, ""),
        call("PLANTED /planted", v1, ""),
        call("GET /.well-known/agent-card.json?planted", v1, ""),
    ];
    let mut looped = b"POST /a2a HTTP/1.1\r\nHost: planted\r\nVia: 1.1 planted\r\n".to_vec();
    looped.extend_from_slice(b"Upgrade: planted\r\nConnection: upgrade, planted\r\n\r\n");
    let none = vec![
        b"planted-line\r\nplanted\r\n\r\n".to_vec(),
        b"POST /a2a HTTP/1.1\r\nHost: planted\r\nContent-Length: planted\r\n\r\n".to_vec(),
        b"POST /a2a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nplanted\r\n".to_vec(),
        format!("POST /a2a HTTP/1.1\r\n{headers}Content-Length: 99999999999\r\n\r\nplanted").into_bytes(),
        call("CONNECT planted.example:443", v1, ""),
        looped,
    ];
    (calls, none)
}

/// Answers each request of a connection with the next of [`answers`]; the card always.
fn host() -> ScriptedHost {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let (all, next) = (answers(), AtomicUsize::new(0));
    ScriptedHost::start(move |visit: &mut Visit| {
        let Some(request) = visit.request() else { return };
        let address = visit.own_address();
        if request.first_line.contains("agent-card") && request.header("authorization").is_none() {
            visit.send(card(&address));
        } else {
            visit.send(&all[next.fetch_add(1, Ordering::Relaxed) % all.len()]);
        }
    })
}

fn assert_clean(what: &str, text: &str) {
    let lower = text.to_ascii_lowercase();
    if let Some(at) = lower.find(MARK) {
        let around: String = text.chars().skip(at.saturating_sub(200)).take(400).collect();
        panic!("{what} says what was planted: …{around}…");
    }
}

const PAGES: [&str; 9] = [
    "/",
    "/report",
    "/config",
    "/metrics",
    "/readyz",
    "/readyz?verbose",
    "/livez",
    "/log-level",
    "/style.css",
];

#[test]
fn d4_planted_secrets_are_nowhere() {
    let kinds = [("json", "enforce"), ("text", "enforce"), ("json", "observe")];
    std::thread::scope(|scope| {
        for (format, mode) in kinds {
            scope.spawn(move || nowhere(format, mode));
        }
    });
}

fn nowhere(format: &str, mode: &str) {
    let host = host();
    let collector = ScriptedHost::saying(support::sized(200, ""));
    let (listen, admin) = (free_port(), free_port());
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    let text_of = format!(
        "[listen]\naddress = \"127.0.0.1:{listen}\"\n[admin]\naddress = \"127.0.0.1:{admin}\"\n\
             [traces]\notlp_url = \"http://{}\"\nheaders = [\"x-key: planted-key\"]\n[[hosts]]\n\
         upstreams = [\"{}\"]\nmode = \"{mode}\"\nresponse_cap_bytes = 8192\nintake_bytes = 16384\n\
         public_url = \"https://agents.example/x\"\ndisclosure = {{ words = [\"planted-word\", \"b\"] }}\n\
         timeouts = {{ read_ms = 500 }}\n",
        collector.address, host.address
    );
    std::fs::write(&config, text_of).unwrap();
    let path = config.to_str().unwrap();
    let proxy = start(&["run", "--config", path, "--log-level", "warn", "--log-format", format], &[]);
    support::eventually(|| ask(admin, "GET /readyz").starts_with("HTTP/1.1 200"), || "not ready".into());
    let level = exchange(
        admin,
        format!("PUT /log-level HTTP/1.1\r\nHost: 127.0.0.1:{admin}\r\nConnection: close\r\nContent-Length: 5\r\n\r\ntrace").as_bytes(),
    );
    assert!(level.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&level));

    // Often enough that every call meets every kind of answer.
    let (calls, none) = requests();
    std::thread::scope(|scope| {
        for call in &calls {
            scope.spawn(move || (0..answers().len()).for_each(|_| drop(exchange(listen, call))));
        }
        for request in &none {
            scope.spawn(move || exchange(listen, request));
        }
    });
    // Planted in what is asked of the admin listener, too.
    for request in ["GET /planted?planted=1", "GET /?days=planted", "GET /readyz/planted", "PLANTED /"] {
        assert_clean("the answer to a bad request", &ask(admin, request));
    }
    let bad = format!(
        "PUT /log-level HTTP/1.1\r\nHost: localhost:{admin}\r\nConnection: close\r\nContent-Length: 7\r\n\r\nplanted"
    );
    assert_clean("the log level", &String::from_utf8_lossy(&exchange(admin, bad.as_bytes())));

    let mut seen = String::new();
    for page in PAGES {
        let answer = ask(admin, &format!("GET {page}"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{page}: {answer}");
        assert_clean(page, &answer);
        seen.push_str(&answer);
    }
    assert!(seen.contains("upstream_failures_total") && seen.contains("\"***\""), "{seen}");
    for arguments in [&["report", "--json"][..], &["report"]] {
        let output = run(&[arguments, &[&format!("127.0.0.1:{admin}")]].concat(), &[]);
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{shown}");
        assert!(shown.contains("/a2a"), "{shown}");
        assert_clean("a2a-errata report", &shown);
    }
    support::eventually(|| !collector.requests().is_empty(), || "no spans came".into());
    for batch in collector.requests() {
        assert_clean("a span", &String::from_utf8_lossy(&batch.body));
    }
    let log = proxy.log();
    assert!(log.contains("a2a_errata::access") && log.contains("log level changed"), "{log}");
    assert!(log.lines().count() > calls.len() * answers().len() / 2, "{log}");
    assert!(!log.contains("panicked"), "{log}");
    assert_clean("the log", &log);
}

/// The test would see it: the same words, where they may be.
#[test]
fn what_was_planted_does_reach_the_client() {
    let host = host();
    let (listen, admin) = (free_port(), free_port());
    let (upstream, listen_at) = (host.address.to_string(), format!("127.0.0.1:{listen}"));
    let admin_at = format!("127.0.0.1:{admin}");
    let _proxy = start(
        &["run", "--upstream", &upstream, "--listen", &listen_at, "--admin", &admin_at],
        &[("A2A_ERRATA_HOSTS__0__MODE", "observe"), ("A2A_ERRATA_HOSTS__0__INTERFACES__0__PATH", "/a2a")],
    );
    support::eventually(|| ask(admin, "GET /livez").starts_with("HTTP/1.1 200"), || "not alive".into());
    let answer = String::from_utf8_lossy(&exchange(listen, &requests().0[0])).into_owned();
    for word in ["planted-message", "planted-header", "planted-cookie"] {
        assert!(answer.contains(word), "{word} is not in {answer}");
    }
    let asked = &host.requests()[0];
    assert!(String::from_utf8_lossy(&asked.body).contains("planted-task"));
    assert_eq!(asked.header("authorization"), Some("Bearer planted-token"));
}

/// The name on the listener's certificate that clients ask for.
const SERVER: &str = "planted-server.example";

/// A host that speaks HTTP/2 in the clear and answers with what is planted.
fn http_2_host() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    // Ends with the test's process.
    thread::spawn(move || {
        block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let Ok(mut connection) = h2::server::handshake(socket).await else { return };
                    let mut number = 0;
                    while let Some(Ok((_, mut answer))) = connection.accept().await {
                        number += 1;
                        if number % 3 == 0 {
                            answer.send_reset(h2::Reason::INTERNAL_ERROR);
                            continue;
                        }
                        let head = http::Response::builder()
                            .status(if number % 3 == 1 { 200 } else { 403 })
                            .header("content-type", "application/json; planted=1")
                            .header("x-planted", "planted-header");
                        let body =
                            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"planted-message"}}"#;
                        let Ok(mut stream) = answer.send_response(head.body(()).unwrap(), false) else {
                            continue;
                        };
                        let _ = stream.send_data(bytes::Bytes::from_static(body.as_bytes()), true);
                    }
                });
            }
        });
    });
    address
}

/// One that says goodbye at once, and why.
fn http_2_host_that_goes() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            thread::spawn(move || {
                let debug = b"planted-debug-data";
                // Settings, then a goodbye: its last stream, the error, and what else there is to say.
                let mut frames =
                    vec![0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8 + u8::try_from(debug.len()).unwrap(), 7];
                frames.extend_from_slice(&[0; 9]);
                frames.extend_from_slice(&[0, 0, 0, 11]);
                frames.extend_from_slice(debug);
                let _ = socket.write_all(&frames);
                let _ = socket.read_to_end(&mut Vec::new());
            });
        }
    });
    address
}

/// A host over TLS whose certificate is for another name than the one it is asked for by.
fn misnamed_host(certificate: &Signed) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = rustls::pki_types::PrivateKeyDer::try_from(certificate.key_der.clone()).unwrap();
    let chain = vec![rustls::pki_types::CertificateDer::from(certificate.der.clone())];
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut connection = rustls::ServerConnection::new(config.clone()).unwrap();
            thread::spawn(move || connection.complete_io(&mut socket).map(drop));
        }
    });
    address
}

/// The same for what has to do with TLS, with groups of addresses and with HTTP/2: keys, the names on certificates, those
/// that clients ask for, and what hosts say in frames.
#[test]
fn d4_secrets_of_tls_of_groups_and_of_http_2_are_nowhere() {
    let (authority, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let (listen, admin) = (free_port(), free_port());
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, contents: &str| {
        fs::write(dir.path().join(name), contents).unwrap();
        dir.path().join(name).display().to_string()
    };
    let server = authority.sign(&[SERVER, "*.planted-wildcard.example"]);
    let client = clients.sign(&["planted-client.example"]);
    let shown_to_host = clients.sign(&["planted-proxy.example"]);
    let misnamed = misnamed_host(&authority.sign(&["planted-host.example"]));
    let scripted = host();
    let nobody = format!("127.0.0.1:{}", free_port());
    let group = |name: &str, upstreams: &str| {
        format!(
            "[[hosts]]\nname = \"{name}\"\nauthorities = [\"{name}.example\"]\nupstreams = [{upstreams}]\n\
             health = {{ interval_ms = 100, path = \"/planted-health\" }}\nejection = {{ failures = 2, for_ms = 100 }}\n\
             timeouts = {{ read_ms = 500 }}\n[[hosts.interfaces]]\npath = \"/a2a\"\n"
        )
    };
    let upstream_tls = format!(
        "tls = {{ ca = \"{}\", client_cert = \"{}\", client_key = \"{}\" }}",
        put("ca.pem", &authority.pem()),
        put("proxy.crt", &shown_to_host.cert),
        put("proxy.key", &shown_to_host.key)
    );
    let config = format!(
        "[listen]\naddress = \"127.0.0.1:{listen}\"\n[listen.tls]\ncert = \"{}\"\nkey = \"{}\"\nclient_ca = \"{}\"\n\
         [admin]\naddress = \"127.0.0.1:{admin}\"\n{}{}{}",
        put("tls.crt", &server.cert),
        put("tls.key", &server.key),
        put("clients.pem", &clients.pem()),
        group("group", &format!("\"{}\", \"{nobody}\"", scripted.address)),
        group(
            "h2",
            &format!(
                "{{ address = \"{}\", http2 = \"prior_knowledge\" }}, {{ address = \"{}\", http2 = \"prior_knowledge\" }}",
                http_2_host(),
                http_2_host_that_goes()
            )
        ),
        group("tls", &format!("{{ address = \"{misnamed}\", {upstream_tls} }}")),
    );
    let path = put("config.toml", &config);
    let proxy = start(&["run", "--config", &path, "--log-level", "trace", "--log-format", "json"], &[]);
    support::eventually(
        || {
            ask(admin, "GET /livez").starts_with("HTTP/1.1 200")
                && TcpStream::connect(("127.0.0.1", listen)).is_ok()
        },
        || "it does not listen".into(),
    );

    let address: SocketAddr = ([127, 0, 0, 1], listen).into();
    let with = |authority: &Authority, name: &str, shown: Option<&Signed>| {
        TlsClient::with(authority, name, &["http/1.1"], shown)
    };
    let known = with(&authority, SERVER, Some(&client));
    for name in ["group", "h2", "tls"] {
        for _ in 0..answers().len() {
            let mut connection = known.connect(address);
            let request = post("/a2a?planted-query", CALL).replacen(
                "Host: ",
                &format!("Host: {name}.example\r\nX-planted: planted-"),
                1,
            );
            connection.send(request.replacen("HTTP/1.1\r\n", "HTTP/1.1\r\nConnection: close\r\n", 1));
            connection.rest();
        }
    }
    // Handshakes that fail, in every way that has a name in it.
    let late = clients.sign_for(&["planted-late.example"], EXPIRED);
    let strange = strangers.sign(&["planted-stranger.example"]);
    for client in [
        with(&authority, SERVER, None),
        with(&authority, SERVER, Some(&late)),
        with(&authority, SERVER, Some(&strange)),
        with(&authority, "planted-unknown-name.example", Some(&client)),
        with(&strangers, "a.planted-wildcard.example", Some(&client)),
    ] {
        if let Ok(mut connection) = client.try_connect(address) {
            let _ = connection.try_send(post("/a2a", CALL));
            connection.rest();
        }
    }
    // Files that cannot be used, by themselves and by a reload.
    put("tls.key", "-----BEGIN PRIVATE KEY-----\nplanted\n-----END PRIVATE KEY-----\nplanted-text\n");
    put("ca.pem", &(authority.pem() + "-----BEGIN CERTIFICATE-----\nplanted\n-----END CERTIFICATE-----\n"));
    support::eventually(
        || {
            let page = ask(admin, "GET /metrics");
            ["listen", "upstream"]
                .iter()
                .all(|of| page.contains(&format!("certificates_refused{{use=\"{of}\"}} 1")))
        },
        || "the files were taken".into(),
    );
    let reload = format!(
        "POST /-/reload HTTP/1.1\r\nHost: 127.0.0.1:{admin}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    let reload = String::from_utf8_lossy(&exchange(admin, reload.as_bytes())).into_owned();
    assert!(reload.starts_with("HTTP/1.1 422"), "{reload}");

    let keys = [&server.key, &client.key, &shown_to_host.key, &late.key, &strange.key, &server.cert];
    let assert_clean = |what: &str, text: &str| {
        // What was configured is no secret: the health check's path.
        assert_clean(what, &text.replace("/planted-health", ""));
        for pem in keys {
            for line in pem.lines().filter(|line| line.len() > 20 && !line.starts_with('-')) {
                assert!(!text.contains(line), "{what} has a line of a key or certificate");
            }
        }
    };
    assert_clean("the answer to a reload", &reload);
    let mut seen = String::new();
    for page in PAGES {
        let answer = ask(admin, &format!("GET {page}"));
        assert_clean(page, &answer);
        seen.push_str(&answer);
    }
    for words in [
        "tls_handshake_failures_total{cause=\"unknown_issuer\"} 1",
        "tls_handshake_failures_total{cause=\"expired\"} 1",
        "tls_handshake_failures_total{cause=\"no_client_certificate\"} 1",
        "host=\"h2\"",
    ] {
        assert!(seen.contains(words), "{words} is not in {seen}");
    }
    let output = run(&["report", "--json", &format!("127.0.0.1:{admin}")], &[]);
    assert_clean("a2a-errata report", &(text(&output.stdout) + &text(&output.stderr)));
    let checked = run(&["check", "--config", &path], &[]);
    assert_clean("a2a-errata check", &text(&checked.stderr));
    let log = proxy.log();
    assert!(log.contains("no TLS handshake") && log.contains("certificate files not taken"), "{log}");
    assert!(log.lines().count() > 3 * answers().len(), "{log}");
    assert!(!log.contains("panicked"), "{log}");
    assert_clean("the log", &log);
}
