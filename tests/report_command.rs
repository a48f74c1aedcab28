//! `a2a-errata report` as scripts meet it: exit codes, one line per error, many proxies, a Prometheus (U-2).
// A test says what went wrong by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[path = "support/binary.rs"]
mod binary;
mod support;

use std::process::Output;

use a2a_errata::observe::certificates::Known;
use a2a_errata::observe::reloads::Reloads;
use a2a_errata::observe::removal::Removal;
use a2a_errata::observe::report::{FORMAT, Host, Interface, Report, RuleCount};
use binary::{run, text};
use serde_json::{Value, json};
use support::{ScriptedHost, sized};

const NOW: i64 = 1_800_000_000;
const DAY: i64 = 86_400;

/// Watched for a month and right all the time.
fn clean() -> Interface {
    Interface {
        interface: "/a2a".into(),
        binding: "JSONRPC".into(),
        mode: "enforce".into(),
        since: NOW - 30 * DAY,
        mode_since: NOW - 30 * DAY,
        responses: [("passed".to_owned(), 90), ("conformant".to_owned(), 4)].into(),
        repairs: 0,
        right_errors: 4,
        last_rewrite: None,
        last_repair: None,
        clean_answers: 94,
        clean_errors: 4,
        rules: vec![],
        faults: [].into(),
        dropped: [].into(),
        collapsed: [].into(),
        upstream_failures: [].into(),
        last_hour: vec![],
        removal: Removal::default(),
    }
}

fn repaired() -> Interface {
    Interface {
        repairs: 5,
        last_repair: Some(NOW - 2 * DAY),
        rules: vec![RuleCount { rule: "E-1".into(), says: "written in shape".into(), count: 5 }],
        ..clean()
    }
}

fn report(interfaces: Vec<Interface>) -> String {
    let host = Host {
        name: "legacy".into(),
        ready: true,
        card_age: None,
        addresses: Vec::new(),
        can_go: false,
        interfaces,
    };
    let report = Report {
        format: FORMAT,
        version: "1".into(),
        started: NOW - 30 * DAY,
        now: NOW,
        configuration: Reloads::default(),
        certificates: Known::default(),
        hosts: vec![host],
    };
    serde_json::to_string(&report).unwrap()
}

/// A proxy's admin address that answers with this body.
fn proxy(body: &str) -> (ScriptedHost, String) {
    let host = ScriptedHost::saying(sized(200, body));
    let address = host.address.to_string();
    (host, address)
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn summary(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn all_clean_is_0_and_says_so() {
    let (host, address) = proxy(&report(vec![clean()]));
    let output = run(&["report", &address], &[]);
    assert_eq!(code(&output), 0, "{output:?}");
    let shown = text(&output.stdout);
    assert!(shown.contains("can go") && shown.ends_with("The shim can go.\n"), "{shown}");
    assert_eq!(host.requests()[0].first_line, "GET /report HTTP/1.1");
    let output = run(&["report", "--json", &address], &[]);
    let summary = summary(&output);
    assert_eq!(
        (&summary["can_go"], &summary["clean_days"], &summary["format"]),
        (&json!(true), &json!(14), &json!(1))
    );
}

#[test]
fn one_repair_is_1_and_says_which_rule_and_since_when() {
    let (_host, address) = proxy(&report(vec![repaired()]));
    let output = run(&["report", &address], &[]);
    assert_eq!(code(&output), 1);
    let shown = text(&output.stdout);
    for words in
        ["still needed", "nothing repaired for 2 days of 14 days", "E-1", "written in shape", "2 days"]
    {
        assert!(shown.contains(words), "{words} is not in {shown}");
    }
    // The days are the reader's choice.
    assert_eq!(code(&run(&["report", &address, "--clean-days", "2"], &[])), 0);
    assert_eq!(code(&run(&["report", &address, "--clean-days", "3"], &[])), 1);
}

/// Several proxies before one host: the last repair and the latest start of any of them count.
#[test]
fn proxies_of_one_host_are_one_row() {
    let (_a, clean_one) = proxy(&report(vec![clean()]));
    let (_b, repaired_one) = proxy(&report(vec![repaired()]));
    let young = Interface { since: NOW - DAY, mode: "observe".into(), ..clean() };
    let (_c, young_one) = proxy(&report(vec![young]));
    let output = run(&["report", "--json", &clean_one, &repaired_one], &[]);
    assert_eq!(code(&output), 1);
    let found = summary(&output);
    let hosts = found["hosts"].as_array().unwrap();
    assert_eq!((hosts.len(), hosts[0]["interfaces"].as_array().unwrap().len()), (1, 1), "{found}");
    let row = &hosts[0]["interfaces"][0];
    assert_eq!((&row["repairs"], &row["responses"]["passed"]), (&json!(5), &json!(180)));
    let output = run(&["report", "--json", &clean_one, &young_one], &[]);
    assert_eq!(code(&output), 1);
    let row = summary(&output)["hosts"][0]["interfaces"][0].clone();
    assert_eq!((&row["mode"], &row["since"]), (&json!("mixed"), &json!(NOW - DAY)));
}

/// What one proxy counted counts once, however it is named.
#[test]
fn a_proxy_that_is_named_twice_counts_once() {
    let (_a, address) = proxy(&report(vec![repaired()]));
    let names = [
        address.clone(),
        format!("http://{address}/"),
        format!("HTTP://{address}/report"),
        format!("u:planted@{address}"),
        address.clone(),
    ];
    let output = run(&[&["report", "--json"], &names.each_ref().map(String::as_str)[..]].concat(), &[]);
    assert_eq!(code(&output), 1, "{}", text(&output.stderr));
    let row = &summary(&output)["hosts"][0]["interfaces"][0];
    assert_eq!((&row["repairs"], &row["responses"]["passed"]), (&json!(5), &json!(90)));
}

#[test]
fn a_report_that_cannot_be_written_is_no_verdict() {
    let (_a, address) = proxy(&report(vec![clean()]));
    for more in [&[][..], &["--json"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = binary::command().args(["report", &address]).args(more).stdout(full).output().unwrap();
        assert_eq!((code(&output), text(&output.stderr).lines().count()), (2, 1), "{}", text(&output.stderr));
    }
}

/// A user in a URL is sent as curl sends it, and never printed.
#[test]
fn a_user_in_the_url_is_sent_as_basic() {
    let (host, address) = proxy(&report(vec![clean()]));
    let url = format!("http://us:planted@{address}");
    assert_eq!(code(&run(&["report", &url], &[])), 0);
    // `printf us:planted | base64`.
    let basic = ("authorization".to_owned(), "Basic dXM6cGxhbnRlZA==".to_owned());
    assert!(host.requests()[0].headers.contains(&basic), "{:?}", host.requests()[0].headers);
    for url in ["http://us:planted@127.0.0.1:1", "http://us:planted@127.0.0.1:70000", "us:planted@h h"] {
        for command in [&["report", url][..], &["report", "--prometheus", url]] {
            let told = text(&run(command, &[]).stderr);
            assert!(!told.contains("planted") && told.lines().count() == 1, "{told}");
        }
    }
}

/// Whatever cannot be read is one line on stderr and exit code 2; the rest is told all the same.
#[test]
fn errors_are_one_line_and_2() {
    let (_good, good) = proxy(&report(vec![clean()]));
    let (_html, html) = proxy("<html>");
    let (_other, other) = proxy(r#"{"hosts":[]}"#);
    let (_newer, newer) = proxy(r#"{"format":2}"#);
    let (_torn, torn) = proxy(r#"{"format":1,"hosts":7}"#);
    let failing = ScriptedHost::saying(sized(503, "planted"));
    let hangs = ScriptedHost::start(|visit| {
        visit.request();
        std::thread::sleep(std::time::Duration::from_secs(5));
    });
    let nobody = format!("127.0.0.1:{}", support::free_port());
    for (bad, says) in [
        (html.as_str(), "no a2a-errata report"),
        (&other, "no a2a-errata report"),
        (&newer, "of format 2"),
        (&torn, "cannot be read"),
        (&failing.address.to_string(), "HTTP status 503"),
        (&hangs.address.to_string(), "took too long"),
        (&nobody, "nothing listens there"),
        ("ftp://a", "is no address"),
    ] {
        let output = run(&["report", "--timeout", "1", bad, &good], &[]);
        let errors = text(&output.stderr);
        assert_eq!(code(&output), 2, "{bad}: {output:?}");
        assert!(errors.contains(says) && errors.lines().count() == 1, "{bad}: {errors}");
        assert!(text(&output.stdout).contains("legacy"), "{bad}: {output:?}");
        assert!(!errors.contains("planted"));
    }
    let (_empty, empty) = proxy(r#"{"format":1,"version":"1","started":0,"now":0,"hosts":[]}"#);
    let output = run(&["report", &empty], &[]);
    assert_eq!((code(&output), text(&output.stdout)), (2, String::new()));
    let output = run(&["report", "--header", "planted", &good], &[]);
    assert_eq!(code(&output), 2);
    assert!(!text(&output.stderr).contains("planted"));
}

/// A Prometheus that answers each query by what it asks for; `repairs` in the window, `old` before it.
fn prometheus(repairs: u32, old: bool) -> ScriptedHost {
    ScriptedHost::start(move |visit| {
        while let Some(request) = visit.request() {
            let query = request.first_line.clone();
            let labels = json!({"host": "legacy", "interface": "/a2a", "binding": "JSONRPC", "outcome": "conformant", "mode": "observe"});
            let one = |value: String| json!([{"metric": labels, "value": [NOW, value]}]);
            let result = if query.contains("query=time") {
                let body = json!({"status": "success", "data": {"resultType": "scalar", "result": [NOW, NOW.to_string()]}});
                visit.send(sized(200, &body.to_string()));
                continue;
            } else if query.contains("min_over_time") {
                one((NOW - 3 * DAY).to_string())
            } else if query.contains("offset%2014d") {
                if old { one("1".into()) } else { json!([]) }
            } else if query.contains("last_") || query.contains("rewrites_total") {
                json!([])
            } else if query.contains("increase%28a2a_errata_repairs_total") {
                one(repairs.to_string())
            } else {
                one("1".into())
            };
            let body = json!({"status": "success", "data": {"resultType": "vector", "result": result}});
            visit.send(sized(200, &body.to_string()));
        }
    })
}

#[test]
fn a_prometheus_remembers_what_a_restarted_proxy_forgot() {
    let remembers = prometheus(0, true);
    let base = format!("http://{}", remembers.address);
    let output = run(&["report", "--json", "--prometheus", &base], &[]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(summary(&output)["hosts"][0]["interfaces"][0]["mode"], "observe");
    // Restarted a day ago, the proxy alone proves nothing; together they do.
    let (_proxy, young) = proxy(&report(vec![Interface { since: NOW - DAY, ..clean() }]));
    assert_eq!(code(&run(&["report", &young], &[])), 1);
    assert_eq!(code(&run(&["report", &young, "--prometheus", &base], &[])), 0);
    // Repairs it counted but has no time of may have been just now.
    let repairing = prometheus(3, true);
    let base = format!("http://{}", repairing.address);
    assert_eq!(code(&run(&["report", "--prometheus", &base], &[])), 1);
    // One that does not look back far enough proves nothing either.
    let short = prometheus(0, false);
    let base = format!("http://{}", short.address);
    let output = run(&["report", "--json", "--prometheus", &base], &[]);
    assert_eq!(
        (code(&output), &summary(&output)["hosts"][0]["interfaces"][0]["since"]),
        (1, &json!(NOW - 3 * DAY))
    );
}

#[test]
fn what_is_no_prometheus_is_2() {
    let (_a, page) = proxy("<html>");
    let (_b, other) = proxy(r#"{"status":"success"}"#);
    let (_c, refuses) = proxy(r#"{"status":"error","error":"parse\nerror"}"#);
    let (_d, empty) = proxy(r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#);
    for (address, says) in [
        (page, "is no Prometheus"),
        (other, "is no Prometheus"),
        (refuses, "parse error"),
        (empty, "no series"),
    ] {
        let output = run(&["report", "--prometheus", &address], &[]);
        let errors = text(&output.stderr);
        assert_eq!(code(&output), 2, "{output:?}");
        assert!(errors.contains(says) && errors.lines().count() == 1, "{errors}");
    }
}
