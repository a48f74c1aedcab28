//! Defaults < file < environment < flags, and what each default is (U-1, U-3).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::path::Path;

use a2a_errata::config::{Effective, Flags, KEYS, Key, Kind, Place, Sources, load};
use a2a_errata::normalize;

fn effective(text: Option<&str>, environment: &[(&str, &str)], flags: Flags) -> Effective {
    let dir = tempfile::tempdir().unwrap();
    let file = text.map(|text| {
        let file = dir.path().join("a.toml");
        std::fs::write(&file, text).unwrap();
        file
    });
    let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    load(&Sources { file, environment, flags }).unwrap_or_else(|problems| panic!("{problems}"))
}

fn upstream() -> Flags {
    Flags { upstreams: vec!["127.0.0.1:9000".into()], ..Flags::default() }
}

/// A value in effect and the kind of place it came from.
fn value(effective: &Effective, key: &str) -> (String, &'static str) {
    let line = effective.lines.iter().find(|line| line.key == key).unwrap_or_else(|| panic!("no {key}"));
    let place = match line.place {
        Place::Default => "default",
        Place::File { .. } | Place::WholeFile(_) => "file",
        Place::Env(_) => "environment",
        Place::Flag(_) => "flag",
    };
    (line.value.clone(), place)
}

fn addresses(host: &a2a_errata::config::Host) -> Vec<&str> {
    host.upstreams.iter().map(|upstream| upstream.address.as_str()).collect()
}

#[test]
fn each_layer_is_above_the_one_before() {
    let file = "listen.address = \"127.0.0.1:2\"\nadmin.address = \"127.0.0.1:22\"\n[[hosts]]\nupstreams = [\"a:1\"]\nmode = \"observe\"\n";
    let address = "A2A_ERRATA_LISTEN__ADDRESS";
    let all = |text: Option<&str>, environment: &[(&str, &str)], listen: Option<&str>| {
        let found = effective(text, environment, Flags { listen: listen.map(Into::into), ..upstream() });
        value(&found, "listen.address")
    };
    assert_eq!(all(None, &[], None), ("\"0.0.0.0:8080\"".into(), "default"));
    assert_eq!(all(Some(file), &[], None), ("\"127.0.0.1:2\"".into(), "file"));
    assert_eq!(all(Some(file), &[(address, "127.0.0.1:3")], None), ("\"127.0.0.1:3\"".into(), "environment"));
    assert_eq!(
        all(Some(file), &[(address, "127.0.0.1:3")], Some("127.0.0.1:4")),
        ("\"127.0.0.1:4\"".into(), "flag")
    );

    let found =
        effective(Some(file), &[], Flags { upstreams: vec!["b:2".into(), "c:3".into()], ..Flags::default() });
    assert_eq!(value(&found, "hosts[0].upstreams"), ("[\"b:2\", \"c:3\"]".into(), "flag"));
    assert_eq!(value(&found, "hosts[0].mode"), ("\"observe\"".into(), "file"), "the rest of the host stays");
    assert_eq!(value(&found, "admin.address"), ("\"127.0.0.1:22\"".into(), "file"));
}

#[test]
fn a_variable_changes_one_key_of_one_host() {
    let file = "[[hosts]]\nname = \"a\"\nupstreams = [\"a:1\"]\noracle = { floor_ms = 5, collapse_scope = true }\n\
                [[hosts.interfaces]]\npath = \"/a\"\nversions = [\"0.3\"]\n\
                [[hosts]]\nname = \"b\"\nupstreams = [\"b:1\"]\nauthorities = [\"b\"]\n";
    let found = effective(
        Some(file),
        &[
            ("A2A_ERRATA_HOSTS__0__ORACLE__FLOOR_MS", " 7 "),
            ("A2A_ERRATA_HOSTS__0__INTERFACES__0__VERSIONS", "1.0, 0.3"),
            ("A2A_ERRATA_HOSTS__0__INTERFACES__1__PATH", "/b"),
            ("A2A_ERRATA_HOSTS__1__NORMALIZE_0_3", "true"),
            ("A2A_ERRATA_HOSTS__1__DISCLOSURE__WORDS", "[\"a, b\"]"),
            ("A2A_ERRATA_HOSTS__1__OracLe__keep_headers", ""),
            ("A2A_ERRATA_ADMIN__ADDRESS", ""),
        ],
        Flags::default(),
    );
    let [a, b] = found.model.hosts.as_slice() else { panic!("two hosts") };
    assert_eq!((a.oracle.floor_ms, a.oracle.collapse_scope), (7, true));
    assert_eq!(a.interfaces[0].versions, ["1.0", "0.3"]);
    assert_eq!((a.interfaces[0].path.as_str(), a.interfaces[1].path.as_str()), ("/a", "/b"));
    assert!(b.normalize_0_3 && !a.normalize_0_3);
    assert_eq!(b.disclosure.words, ["a, b"]);
    assert!(b.oracle.keep_headers.is_empty() && found.model.admin.address.is_empty());
    assert_eq!(value(&found, "hosts[1].oracle.keep_headers"), ("[]".into(), "environment"));
}

#[test]
fn the_environment_alone_is_enough() {
    let found = effective(
        None,
        &[("A2A_ERRATA_HOSTS__0__UPSTREAMS", "10.0.0.5:9000,10.0.0.6:9000"), ("OTHER", "x")],
        Flags::default(),
    );
    assert_eq!(addresses(&found.model.hosts[0]), ["10.0.0.5:9000", "10.0.0.6:9000"]);
}

/// More hosts than one digit counts: their order is that of the numbers.
#[test]
fn hosts_keep_their_order() {
    use std::fmt::Write as _;
    let mut text = String::new();
    for n in 0..12 {
        write!(text, "[[hosts]]\nname = \"h{n}\"\nupstreams = [\"a:1\"]\nauthorities = [\"h{n}\"]\n")
            .unwrap();
    }
    let found = effective(Some(&text), &[("A2A_ERRATA_HOSTS__11__MODE", "observe")], Flags::default());
    let names: Vec<_> = found.model.hosts.iter().map(|host| host.name.clone()).collect();
    assert_eq!(names, (0..12).map(|n| format!("h{n}")).collect::<Vec<_>>());
    assert_eq!(value(&found, "hosts[11].mode").1, "environment");
}

/// Kubernetes sets these for a service named `a2a-errata`, and the log level has its own variable.
#[test]
fn variables_that_are_no_keys_are_left_alone() {
    let variables = [
        ("A2A_ERRATA_SERVICE_HOST", "10.0.0.1"),
        ("A2A_ERRATA_SERVICE_PORT", "8080"),
        ("A2A_ERRATA_SERVICE_PORT_HTTP", "8080"),
        ("A2A_ERRATA_PORT", "tcp://10.0.0.1:8080"),
        ("A2A_ERRATA_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("A2A_ERRATA_LOG", "debug"),
    ];
    effective(None, &variables, upstream());
}

#[test]
fn the_rules_have_the_same_defaults() {
    let found = effective(None, &[], upstream());
    let ours = found.model.hosts[0].policy();
    assert_eq!(format!("{ours:?}"), format!("{:?}", normalize::Policy::default()));
    assert!(found.model.hosts[0].interfaces().is_empty());
}

#[test]
fn what_is_set_reaches_the_rules() {
    let text = "[[hosts]]\nupstreams = [{ address = \"a:1\", weight = 1 }]\nmode = \"observe\"\nresponse_cap_bytes = 5000\nintake_bytes = 6000\n\
                normalize_0_3 = true\noracle = { collapse_scope = true, floor_ms = 9, keep_headers = [\"X-Request-Id\"] }\n\
                disclosure = { messages = \"upstream\", words = [\"Ledger\"], metadata_keys = [\"region\"], detail_types = [\"a.B\"], headers = [\"x-b\"] }\n\
                cap.success = true\n\
                interfaces = [{ path = \"/\" }, { path = \"/rest/\", binding = \"HTTP+JSON\", versions = [\"0.3\", \"1.0\"] }]\n";
    let found = effective(Some(text), &[], Flags::default());
    let host = &found.model.hosts[0];
    assert_eq!(addresses(host), ["a:1"]);
    let policy = host.policy();
    assert_eq!(policy.mode, normalize::Mode::Observe);
    assert_eq!((policy.response_cap_bytes, policy.intake_bytes), (5000, 6000));
    assert!(policy.normalize_0_3 && policy.cap.success && policy.oracle.collapse_scope);
    assert_eq!(policy.oracle.floor_ms, 9);
    assert_eq!(policy.oracle.keep_headers, ["x-request-id"]);
    assert_eq!(policy.disclosure.messages, normalize::Messages::Upstream);
    assert_eq!(policy.disclosure.words, ["ledger"], "compared in lower case");
    assert_eq!(policy.disclosure.metadata_keys, ["region"]);
    assert_eq!(policy.disclosure.detail_types, ["a.B"]);
    assert_eq!(policy.disclosure.headers, ["x-b"]);
    let interfaces = host.interfaces();
    assert_eq!((interfaces[0].path.as_str(), interfaces[0].binding), ("", normalize::Binding::JsonRpc));
    assert_eq!((interfaces[1].path.as_str(), interfaces[1].binding), ("/rest", normalize::Binding::HttpJson));
    assert_eq!(interfaces[1].versions, ["0.3", "1.0"]);
}

/// U-3's defaults, spelled out once more so that neither the table nor the reference can drift alone.
#[test]
fn defaults_are_those_of_the_specification() {
    let found = effective(None, &[("A2A_ERRATA_HOSTS__0__INTERFACES__0__PATH", "/a2a")], upstream());
    let spec = [
        ("listen.address", "\"0.0.0.0:8080\""),
        ("listen.handover", "\"\""),
        ("listen.tls.cert", "\"\""),
        ("listen.tls.key", "\"\""),
        ("listen.tls.certificates", "[]"),
        ("listen.tls.client_ca", "\"\""),
        ("listen.tls.client_auth", "\"required\""),
        ("listen.tls.http2", "true"),
        ("admin.address", "\"127.0.0.1:9464\""),
        ("admin.allow_remote", "false"),
        ("limits.held_bytes", "67108864"),
        ("limits.connections", "20000"),
        ("limits.concurrent_streams", "100"),
        ("limits.request_header_bytes", "65536"),
        ("limits.requests_per_second", "0"),
        ("timeouts.request_headers_ms", "10000"),
        ("timeouts.keep_alive_ms", "60000"),
        ("traces.otlp_url", "\"\""),
        ("traces.sample_percent", "100"),
        ("traces.headers", "[]"),
        ("hosts[0].name", "\"legacy\""),
        ("hosts[0].upstreams", "[\"127.0.0.1:9000\"]"),
        ("hosts[0].balance", "\"round_robin\""),
        ("hosts[0].health.path", "\"\""),
        ("hosts[0].health.interval_ms", "0"),
        ("hosts[0].health.timeout_ms", "2000"),
        ("hosts[0].health.failures", "3"),
        ("hosts[0].health.successes", "2"),
        ("hosts[0].ejection.failures", "5"),
        ("hosts[0].ejection.for_ms", "10000"),
        ("hosts[0].ejection.max_percent", "50"),
        ("hosts[0].authorities", "[]"),
        ("hosts[0].mode", "\"enforce\""),
        ("hosts[0].response_cap_bytes", "1048576"),
        ("hosts[0].intake_bytes", "4194304"),
        ("hosts[0].normalize_0_3", "false"),
        ("hosts[0].oracle.collapse_scope", "false"),
        ("hosts[0].oracle.floor_ms", "0"),
        ("hosts[0].oracle.keep_headers", "[]"),
        ("hosts[0].disclosure.messages", "\"guarded\""),
        ("hosts[0].disclosure.words", "[]"),
        ("hosts[0].disclosure.metadata_keys", "[]"),
        ("hosts[0].disclosure.detail_types", "[]"),
        ("hosts[0].disclosure.headers", "[]"),
        ("hosts[0].cap.success", "false"),
        ("hosts[0].limits.request_bytes", "67108864"),
        ("hosts[0].limits.response_header_bytes", "1048575"),
        ("hosts[0].public_url", "\"\""),
        ("hosts[0].card.refresh_s", "60"),
        ("hosts[0].card.max_bytes", "4194304"),
        ("hosts[0].timeouts.connect_ms", "3000"),
        ("hosts[0].timeouts.read_ms", "60000"),
        ("hosts[0].timeouts.write_ms", "30000"),
        ("hosts[0].timeouts.idle_ms", "55000"),
        ("hosts[0].interfaces[0].path", "\"/a2a\""),
        ("hosts[0].interfaces[0].binding", "\"JSONRPC\""),
        ("hosts[0].interfaces[0].versions", "[\"1.0\"]"),
        ("hosts[0].interfaces[0].mode", "\"host\""),
    ];
    let lines: Vec<_> = found.lines.iter().map(|line| (line.key.as_str(), line.value.as_str())).collect();
    assert_eq!(lines, spec);
}

fn shipped(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(name)
}

fn load_file(name: &str) -> Effective {
    let sources = Sources { file: Some(shipped(name)), ..Sources::default() };
    load(&sources).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn the_reference_says_every_key_and_its_default() {
    let reference = load_file("reference.toml");
    let defaults = effective(None, &[("A2A_ERRATA_HOSTS__0__INTERFACES__0__PATH", "/a2a")], upstream());
    assert_eq!(reference.model, defaults.model);
    for line in &reference.lines {
        assert!(matches!(line.place, Place::File { .. }), "{} is not in reference.toml", line.key);
    }
    let in_force: Vec<String> = reference.lines.iter().map(|line| line.key.replace("[0]", "[]")).collect();
    let text = std::fs::read_to_string(shipped("reference.toml")).unwrap();
    for key in KEYS {
        match key.kind {
            Kind::Later(members) => {
                let (_, name) = Key::split(key);
                let line = text.lines().find(|line| {
                    line.starts_with(&format!("# {name} = {{"))
                        && members.iter().all(|member| line.contains(member))
                });
                assert!(line.is_some(), "{} is not named in reference.toml", key.path);
            }
            _ if key.is_value() => assert!(in_force.iter().any(|known| known == key.path), "{}", key.path),
            _ => {}
        }
    }
}

#[test]
fn every_shipped_configuration_is_accepted() {
    for name in ["sidecar.toml", "gateway.toml", "shim.toml"] {
        let found = load_file(name);
        assert!(found.model.hosts.iter().all(|host| !host.interfaces.is_empty()), "{name}");
    }
    assert_eq!(load_file("gateway.toml").model.hosts.len(), 3);
}
