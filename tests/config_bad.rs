//! What is wrong with a configuration is told with file, line, column, key, the bad value and what would
//! be right (U-1). Each case is a file (or variables, or flags) and the exact message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use a2a_errata::config::{Flags, Sources, load};

/// The messages for this file, with `FILE` for its path.
fn problems(text: &str, environment: &[(&str, &str)], flags: Flags) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.toml");
    std::fs::write(&file, text).unwrap();
    let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let sources = Sources { file: Some(file.clone()), environment, flags };
    let problems = load(&sources).expect_err("the configuration is bad");
    problems.0.iter().map(|problem| problem.to_string().replace(file.to_str().unwrap(), "FILE")).collect()
}

/// A host that is right, for what is wrong elsewhere; three lines.
const HOST: &str = "[[hosts]]\nname = \"legacy\"\nupstreams = [\"127.0.0.1:9000\"]\n";

#[test]
fn keys_that_are_none() {
    for (text, message) in [
        (
            format!("[listen]\nadress = \"x\"\n{HOST}"),
            "FILE:2:1: listen.adress: unknown key; did you mean `address`?",
        ),
        (format!("[listn]\n{HOST}"), "FILE:1:2: listn: unknown key; did you mean `listen`?"),
        (
            format!("verbose = true\n{HOST}"),
            "FILE:1:1: verbose: unknown key; known here are `listen`, `admin`, `limits`, `timeouts`, `traces`, `hosts`",
        ),
        (
            format!("{HOST}floor_ms = 5\n"),
            "FILE:4:1: hosts[0].floor_ms: unknown key here; it belongs at `hosts[].oracle.floor_ms`",
        ),
        (
            format!("{HOST}oracle = {{ flor_ms = 5 }}\n"),
            "FILE:4:12: hosts[0].oracle.flor_ms: unknown key; did you mean `floor_ms`?",
        ),
        (
            format!("{HOST}[[hosts.interfaces]]\npath = \"/a\"\nversion = [\"1.0\"]\n"),
            "FILE:6:1: hosts[0].interfaces[0].version: unknown key; did you mean `versions`?",
        ),
        (
            format!("{HOST}{HOST}Mode = \"observe\"\n"),
            "FILE:7:1: hosts[1].Mode: unknown key; did you mean `mode`?",
        ),
        (
            format!("{HOST}timeouts.conect_ms = 5\n"),
            "FILE:4:10: hosts[0].timeouts.conect_ms: unknown key; did you mean `connect_ms`?",
        ),
        (
            "[[hosts]]\nupstreams = [{ addres = \"a:1\" }]\n".into(),
            "FILE:2:14: hosts[0].upstreams[0] = { addres = \"a:1\" }: unknown key `addres`; an upstream has `address`, `weight`, `http2` and `tls`",
        ),
    ] {
        assert_eq!(problems(&text, &[], Flags::default()), [message], "{text}");
    }
}

#[test]
fn values_that_are_wrong() {
    let bytes = "must be a whole number from 4096 to 1073741824";
    let address =
        "not an address; write HOST:PORT with a port from 1 to 65535, for example \"127.0.0.1:9000\"";
    for (line, message) in [
        ("mode = \"enforced\"", "mode = \"enforced\": must be \"enforce\" or \"observe\"; did you mean \"enforce\"?".to_owned()),
        ("mode = true", "mode = true: must be \"enforce\" or \"observe\"".into()),
        ("mode = []", "mode = []: must be \"enforce\" or \"observe\"".into()),
        ("response_cap_bytes = 100", format!("response_cap_bytes = 100: {bytes}")),
        ("response_cap_bytes = \"1MiB\"", format!("response_cap_bytes = \"1MiB\": {bytes}")),
        ("response_cap_bytes = -1", format!("response_cap_bytes = -1: {bytes}")),
        ("response_cap_bytes = 1e6", format!("response_cap_bytes = 1e6: {bytes}")),
        ("intake_bytes = 4095", format!("intake_bytes = 4095: {bytes}")),
        ("intake_bytes = 4096", "intake_bytes = 4096: is less than response_cap_bytes (1048576); write 1048576 or more".into()),
        ("normalize_0_3 = \"yes\"", "normalize_0_3 = \"yes\": must be true or false".into()),
        ("oracle.floor_ms = 10001", "oracle.floor_ms = 10001: must be a whole number from 0 to 10000".into()),
        ("oracle.collapse_scope = 1", "oracle.collapse_scope = 1: must be true or false".into()),
        ("timeouts.read_ms = 0", "timeouts.read_ms = 0: must be a whole number from 1 to 86400000".into()),
        ("limits.request_bytes = 0", "limits.request_bytes = 0: must be a whole number of at least 1".into()),
        ("card.refresh_s = 0", "card.refresh_s = 0: must be a whole number from 1 to 86400".into()),
        ("disclosure.messages = \"all\"", "disclosure.messages = \"all\": must be \"guarded\" or \"canonical\" or \"upstream\"".into()),
        ("disclosure.words = \"a\"", "disclosure.words = \"a\": must be a list of texts, for example [\"…\", \"…\"]".into()),
        ("disclosure.words = [\"\"]", "disclosure.words[0] = \"\": must not be empty or begin or end with a space; write a word".into()),
        ("authorities = [\"a b\"]", "authorities[0] = \"a b\": not a Host value; write a name with or without a port, for example \"agents.example\"".into()),
        ("public_url = \"https://u@a.example/b\"", "public_url = \"https://u@a.example/b\": not an absolute URL; write for example \"https://agents.example/billing\", or \"\" for off".into()),
        ("public_url = \"https://a.example/b\u{3000}\"", "public_url = \"https://a.example/b\u{3000}\": not an absolute URL; write for example \"https://agents.example/billing\", or \"\" for off".into()),
        ("public_url = \"agents\"", "public_url = \"agents\": not an absolute URL; write for example \"https://agents.example/billing\", or \"\" for off".into()),
        ("oracle = 5", "oracle = 5: must be a table".into()),
    ] {
        let key_and_value = line.split_once(" = ").unwrap();
        let column = key_and_value.0.len() + 4 + usize::from(line.contains('[') && !line.ends_with("[]"));
        let text = format!("{HOST}{line}\n");
        assert_eq!(problems(&text, &[], Flags::default()), [format!("FILE:4:{column}: hosts[0].{message}")], "{line}");
    }
    for (text, message) in [
        (format!("listen.address = \"8080\"\n{HOST}"), format!("FILE:1:18: listen.address = \"8080\": {address}")),
        (format!("admin.address = \"8080\"\n{HOST}"), format!("FILE:1:17: admin.address = \"8080\": {address}, or \"\" for no admin listener")),
        (format!("listen.address = \"[::1]:1\"\nadmin.address = \"[::1]:1\"\n{HOST}"), "FILE:2:17: admin.address = \"[::1]:1\": is the address of `listen` too; give each its own port".into()),
        ("[[hosts]]\nupstreams = [\"a:1\", \"http://a\"]".into(), format!("FILE:2:21: hosts[0].upstreams[1] = \"http://a\": {address}")),
        ("[[hosts]]\nupstreams = \"a:1\"".into(), "FILE:2:13: hosts[0].upstreams = \"a:1\": must be a list of addresses, for example [\"127.0.0.1:9000\"]".into()),
        ("[[hosts]]\nupstreams = []".into(), "FILE:2:13: hosts[0].upstreams = []: has no address; write for example [\"127.0.0.1:9000\"]".into()),
        ("[[hosts]]\nname = \"x\"".into(), "FILE:1:1: hosts[0].upstreams: is missing; write for example [\"127.0.0.1:9000\"]".into()),
        ("[[hosts]]\nupstreams = [\"localhost:8080\"]".into(), "FILE:2:13: hosts[0].upstreams[0] = \"localhost:8080\": is the proxy's own listen.address; write the host's address".into()),
        (format!("{HOST}oracle = {{ keep_headers = [\"x-a\", \"bad name\"] }}"), "FILE:4:35: hosts[0].oracle.keep_headers[1] = \"bad name\": not a header name; write for example \"x-request-id\"".into()),
        (format!("{HOST}[hosts.disclosure]\nheaders = [\"Content-Length\"]"), "FILE:5:12: hosts[0].disclosure.headers[0] = \"Content-Length\": belongs to one connection or one body's framing and is never kept; remove it".into()),
        (format!("{HOST}response_cap_bytes = 8388608"), "FILE:4:22: hosts[0].response_cap_bytes = 8388608: is more than intake_bytes (4194304 by default); set intake_bytes = 8388608 or more".into()),
    ] {
        assert_eq!(problems(&text, &[], Flags::default()), [message], "{text}");
    }
}

#[test]
fn groups_that_are_wrong() {
    let upstream = |table: &str| format!("[[hosts]]\nupstreams = [{table}]\n");
    let told = |table: &str, says: &str| format!("FILE:2:14: hosts[0].upstreams[0] = {table}: {says}");
    for (table, says) in [
        (
            "{ address = \"a:1\", weight = -1 }",
            "`weight` must be a whole number from 0 (gets nothing new) to 1000",
        ),
        (
            "{ address = \"a:1\", weight = 1001 }",
            "`weight` must be a whole number from 0 (gets nothing new) to 1000",
        ),
        (
            "{ address = \"a:1\", weight = \"2\" }",
            "`weight` must be a whole number from 0 (gets nothing new) to 1000",
        ),
        ("{ address = \"a:1\", http2 = true }", "`http2` must be \"off\" or \"prior_knowledge\" or \"alpn\""),
        (
            "{ address = \"a:1\", http2 = \"alpn\" }",
            "`http2 = \"alpn\"` is agreed on over TLS, and there is no `tls`; write `tls = {}` too, or \"prior_knowledge\"",
        ),
        (
            "{ address = \"a:1\", http2 = \"prior_knowledge\", tls = {} }",
            "`http2 = \"prior_knowledge\"` is for hosts without TLS; write \"alpn\"",
        ),
    ] {
        assert_eq!(problems(&upstream(table), &[], Flags::default()), [told(table, says)]);
    }
    for (text, message) in [
        (
            upstream("{ address = \"a:1\", weight = 0 }, { address = \"a:2\", weight = 0 }"),
            "FILE:2:13: hosts[0].upstreams: every weight is 0, so that nothing may go anywhere; give one at least a weight of 1".to_owned(),
        ),
        (
            upstream("\"a:1\", { address = \"a:1\", weight = 3 }"),
            "FILE:2:13: hosts[0].upstreams[1] = \"a:1\": is listed twice; list it once, with a `weight` if it is to get more than others".into(),
        ),
        (
            format!("{HOST}health = {{ path = \"/h\" }}"),
            "FILE:4:19: hosts[0].health.path = \"/h\": is never asked for, because health.interval_ms is 0; write interval_ms = 5000 beside it".into(),
        ),
        (
            format!("{HOST}health = {{ path = \"h\", interval_ms = 1000 }}"),
            "FILE:4:19: hosts[0].health.path = \"h\": not a path; write it from the root, for example \"/healthz\", or \"\" for a connection alone".into(),
        ),
        (
            format!("{HOST}health = {{ interval_ms = 99 }}"),
            "FILE:4:26: hosts[0].health.interval_ms = 99: asks more often than a host can bear; write 100 or more, or 0 for off".into(),
        ),
        (
            format!("{HOST}health = {{ interval = 10 }}"),
            "FILE:4:12: hosts[0].health.interval: unknown key; did you mean `interval_ms`?".into(),
        ),
        (
            format!("{HOST}ejection = {{ max_percent = 101 }}"),
            "FILE:4:28: hosts[0].ejection.max_percent = 101: must be a whole number from 0 to 100".into(),
        ),
        (
            format!("{HOST}balance = \"least_connection\""),
            "FILE:4:11: hosts[0].balance = \"least_connection\": must be \"round_robin\" or \"least_connections\"; did you mean \"least_connections\"?".into(),
        ),
    ] {
        assert_eq!(problems(&text, &[], Flags::default()), [message], "{text}");
    }
}

#[test]
fn interfaces_that_are_wrong() {
    let interface = "[[hosts.interfaces]]\n";
    for (lines, message) in [
        (
            "binding = \"JSONRPC\"",
            "FILE:4:1: hosts[0].interfaces[0].path: is missing; write for example \"/a2a\"",
        ),
        (
            "path = \"a2a\"",
            "FILE:5:8: hosts[0].interfaces[0].path = \"a2a\": not a path; write it from the root without a query, for example \"/a2a\"",
        ),
        (
            "path = \"/a?b\"",
            "FILE:5:8: hosts[0].interfaces[0].path = \"/a?b\": not a path; write it from the root without a query, for example \"/a2a\"",
        ),
        (
            "path = \"/\"\nbinding = \"jsonrpc\"",
            "FILE:6:11: hosts[0].interfaces[0].binding = \"jsonrpc\": must be \"JSONRPC\" or \"HTTP+JSON\"; did you mean \"JSONRPC\"?",
        ),
        (
            "path = \"/\"\nbinding = \"GRPC\"",
            "FILE:6:11: hosts[0].interfaces[0].binding = \"GRPC\": must be \"JSONRPC\" or \"HTTP+JSON\"",
        ),
        (
            "path = \"/\"\nversions = []",
            "FILE:6:12: hosts[0].interfaces[0].versions = []: has no version; write for example [\"1.0\"]",
        ),
        (
            "path = \"/\"\nversions = [\"v1\"]",
            "FILE:6:13: hosts[0].interfaces[0].versions[0] = \"v1\": not a protocol version; write MAJOR.MINOR, for example \"1.0\"",
        ),
        (
            "path = \"/\"\nversions = [\"1.0\", \"1.0\"]",
            "FILE:6:12: hosts[0].interfaces[0].versions = \"1.0\": is listed twice; remove one",
        ),
        (
            "path = \"/a\"\n[[hosts.interfaces]]\npath = \"/a/\"",
            "FILE:7:8: hosts[0].interfaces[1].path = \"/a/\": hosts[0].interfaces[0] has this path and binding already; list all versions there",
        ),
    ] {
        assert_eq!(
            problems(&format!("{HOST}{interface}{lines}\n"), &[], Flags::default()),
            [message],
            "{lines}"
        );
    }
    let both = "path = \"/a\"\n[[hosts.interfaces]]\npath = \"/a\"\nbinding = \"HTTP+JSON\"\n[[hosts]]\nupstreams = []\n";
    let found = problems(&format!("{HOST}{interface}{both}"), &[], Flags::default());
    assert!(
        found.iter().all(|message| !message.contains("interfaces")),
        "one path may have both bindings: {found:?}"
    );
}

#[test]
fn hosts_that_are_in_each_others_way() {
    let second = |lines: &str| format!("{HOST}[[hosts]]\nupstreams = [\"b:1\"]\n{lines}\n");
    for (text, messages) in [
        (
            String::new(),
            vec![
                "FILE: hosts: there is no host; add a [[hosts]] table with upstreams = [\"127.0.0.1:9000\"], or give --upstream HOST:PORT",
            ],
        ),
        (
            format!("[hosts]\n{}", HOST.trim_start_matches("[[hosts]]\n")),
            vec!["FILE:1:1: hosts: is a list of tables; write [[hosts]]"],
        ),
        (
            format!("{HOST}[hosts.interfaces]\npath = \"/\""),
            vec!["FILE:4:1: hosts[0].interfaces: is a list of tables; write [[hosts.interfaces]]"],
        ),
        (
            second("authorities = [\"b\"]"),
            vec!["FILE:4:1: hosts[1].name = \"legacy\": is the name of hosts[0] too; give each host its own"],
        ),
        (
            second("name = \"b\""),
            vec![
                "FILE:4:1: hosts[1].authorities = []: hosts[0] takes every Host value already; list this host's, for example [\"agents.example\"]",
            ],
        ),
        (
            format!(
                "{HOST}authorities = [\"A.example\"]\n[[hosts]]\nname = \"b\"\nupstreams = [\"b:1\"]\nauthorities = [\"x\", \"a.example\"]\n"
            ),
            vec![
                "FILE:8:15: hosts[1].authorities[1] = \"a.example\": leads to hosts[0] already; list it at one host only",
            ],
        ),
        (
            format!(
                "{HOST}public_url = \"https://a.example/b\"\n[[hosts]]\nname = \"b\"\nupstreams = [\"b:1\"]\nauthorities = [\"x\"]\npublic_url = \"https://A.example:443/b/\"\n"
            ),
            vec![
                "FILE:9:14: hosts[1].public_url = \"https://A.example:443/b/\": is the public URL of hosts[0] too; give each its own path",
            ],
        ),
    ] {
        assert_eq!(problems(&text, &[], Flags::default()), messages, "{text}");
    }
}

/// Keys of U-3 whose feature comes later are known and refused, never ignored.
#[test]
fn keys_of_a_later_build() {
    for (text, message) in [
        (
            format!("listen.tls = {{ crt = \"a\" }}\n{HOST}"),
            "FILE:1:16: listen.tls.crt: unknown key; did you mean `cert`?",
        ),
        (format!("listen.tls = true\n{HOST}"), "FILE:1:14: listen.tls = true: must be a table"),
        (
            format!("{HOST}tls = {{ sni = \"a\" }}"),
            "FILE:4:1: hosts[0].tls: unknown key here; each upstream has its own, { address = \"…\", tls = { … } }",
        ),
    ] {
        assert_eq!(problems(&text, &[], Flags::default()), [message], "{text}");
    }
}

#[test]
fn files_that_cannot_be_read() {
    let found = problems("[listen\n", &[], Flags::default());
    assert!(found.len() == 1 && found[0].starts_with("FILE:1:8: not TOML: "), "{found:?}");
    let found = problems("a = 1\na = 2\n", &[], Flags::default());
    assert!(found.len() == 1 && found[0].starts_with("FILE:2:1: not TOML: "), "{found:?}");
    let sources = Sources { file: Some("/nonexistent/a.toml".into()), ..Sources::default() };
    let message = load(&sources).unwrap_err().to_string();
    let expected = "/nonexistent/a.toml: cannot be read (No such file or directory (os error 2)); give the path of a TOML file";
    assert_eq!(message, expected);
}

#[test]
fn variables_that_are_wrong() {
    for (name, value, message) in [
        (
            "A2A_ERRATA_LISTEN__ADRESS",
            "x",
            "environment A2A_ERRATA_LISTEN__ADRESS: listen.adress: unknown key; did you mean `address`?",
        ),
        (
            "A2A_ERRATA_LISTEN_ADDRESS",
            "x",
            "environment A2A_ERRATA_LISTEN_ADDRESS: listen_address: unknown key; known here are `listen`, `admin`, `limits`, `timeouts`, `traces`, `hosts`",
        ),
        (
            "A2A_ERRATA_LISTEN__ADDRESS",
            "8080",
            "environment A2A_ERRATA_LISTEN__ADDRESS: listen.address = \"8080\": not an address; write HOST:PORT with a port from 1 to 65535, for example \"127.0.0.1:9000\"",
        ),
        (
            "A2A_ERRATA_HOSTS__0__ORACLE__FLOOR_MS",
            "soon",
            "environment A2A_ERRATA_HOSTS__0__ORACLE__FLOOR_MS: hosts[0].oracle.floor_ms = \"soon\": must be a whole number from 0 to 10000",
        ),
        (
            "A2A_ERRATA_HOSTS__0__NORMALIZE_0_3",
            "yes",
            "environment A2A_ERRATA_HOSTS__0__NORMALIZE_0_3: hosts[0].normalize_0_3 = \"yes\": must be true or false",
        ),
        (
            "A2A_ERRATA_HOSTS__0__ORACLE",
            "x",
            "environment A2A_ERRATA_HOSTS__0__ORACLE: hosts[0].oracle: is a table; set its keys one by one, for example A2A_ERRATA_HOSTS__0__ORACLE__COLLAPSE_SCOPE",
        ),
        (
            "A2A_ERRATA_HOSTS__LEGACY__MODE",
            "observe",
            "environment A2A_ERRATA_HOSTS__LEGACY__MODE: hosts: is a list of tables, numbered from 0; write for example A2A_ERRATA_HOSTS__0__NAME",
        ),
        (
            "A2A_ERRATA_HOSTS__0__INTERFACES__0",
            "x",
            "environment A2A_ERRATA_HOSTS__0__INTERFACES__0: hosts[0].interfaces: is a list of tables, numbered from 0; write for example A2A_ERRATA_HOSTS__0__INTERFACES__0__PATH",
        ),
        (
            "A2A_ERRATA_HOSTS__2__MODE",
            "observe",
            "environment A2A_ERRATA_HOSTS__2__MODE: hosts[1]: is missing; number the tables from 0 without a gap",
        ),
        (
            "A2A_ERRATA_HOSTS__0__MODE__X",
            "observe",
            "environment A2A_ERRATA_HOSTS__0__MODE__X: hosts[0].mode.x: unknown key; `hosts[0].mode` has none below it",
        ),
        (
            "A2A_ERRATA_LISTEN__TLS__CERT",
            "/nowhere/tls.crt",
            "environment A2A_ERRATA_LISTEN__TLS__CERT: listen.tls.key = \"\": is missing beside cert; write the key's path",
        ),
        (
            "A2A_ERRATA_HOSTS__0__UPSTREAMS",
            "a:1,b",
            "environment A2A_ERRATA_HOSTS__0__UPSTREAMS: hosts[0].upstreams[1] = \"b\": not an address; write HOST:PORT with a port from 1 to 65535, for example \"127.0.0.1:9000\"",
        ),
    ] {
        assert_eq!(problems(HOST, &[(name, value)], Flags::default()), [message], "{name}");
    }
}

#[test]
fn flags_that_are_wrong() {
    let flags = Flags { listen: Some("here".into()), ..Flags::default() };
    let address =
        "not an address; write HOST:PORT with a port from 1 to 65535, for example \"127.0.0.1:9000\"";
    assert_eq!(problems(HOST, &[], flags), [format!("flag --listen: listen.address = \"here\": {address}")]);
    let flags = Flags { upstreams: vec!["a:1".into()], ..Flags::default() };
    let two = format!("{HOST}[[hosts]]\nname = \"b\"\nupstreams = [\"b:1\"]\nauthorities = [\"b\"]\n");
    let message = "flag --upstream: hosts[0].upstreams: there are 2 hosts and the flag fits one only; set it in the file";
    assert_eq!(problems(&two, &[], flags), [message]);
}

#[test]
fn everything_wrong_is_told_at_once() {
    let text = "[listen]\naddress = 5\nport = 6\n[[hosts]]\nupstreams = [7]\n";
    let found = problems(text, &[("A2A_ERRATA_X", "1")], Flags::default());
    assert_eq!(found.len(), 4, "{found:?}");
}

/// A value that another layer would replace is checked all the same.
#[test]
fn a_bad_value_is_refused_even_when_overridden() {
    let flags = Flags { listen: Some("127.0.0.1:1".into()), ..Flags::default() };
    assert_eq!(problems(&format!("listen.address = \"x\"\n{HOST}"), &[], flags).len(), 1);
}

#[test]
fn long_values_are_shortened() {
    let found = problems(&format!("listen.address = \"{}\"\n{HOST}", "x".repeat(500)), &[], Flags::default());
    assert!(found[0].contains("xxx…: not an address"), "{found:?}");
}
