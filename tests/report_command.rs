//! `a2a-errata report` as scripts meet it: exit codes, one line per error, many proxies, a Prometheus (U-2).
// A test says what went wrong by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[path = "support/binary.rs"]
mod binary;
#[path = "support/reports.rs"]
mod reports;
mod support;

use a2a_errata::observe::report::{Host, Interface, Report};
use binary::{run, text};
use reports::{DAY, NOW, clean, code, proxy, repaired, report, report_of, summary};
use serde_json::json;
use support::{ScriptedHost, sized};

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

/// What is sent may be a credential: it is for nobody but whom was named, and 3xx is an answer like another.
#[test]
fn no_redirect_is_followed() {
    let (thief, stolen) = proxy(&report(vec![clean()]));
    for status in [301, 302, 303, 307, 308] {
        for to in [format!("http://localhost:{}/steal?key=planted", thief.address.port()), "/steal".into()] {
            let moved = ScriptedHost::saying(format!(
                "HTTP/1.1 {status} X\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"
            ));
            let address = moved.address.to_string();
            for named in [&["report", &address][..], &["report", "--prometheus", &address]] {
                let output = run(&[named, &["--header", "X-Api-Key: planted"]].concat(), &[]);
                let told = text(&output.stderr);
                assert_eq!((code(&output), told.lines().count()), (2, 1), "{status}: {told}");
                let place = to.split('?').next().unwrap();
                let says = format!("answers with HTTP status {status} and sends on to {place}");
                assert!(told.contains(&says) && told.contains("not followed"), "{told}");
                assert!(told.contains(&address) && !told.contains("planted"), "{told}");
            }
            let key = ("x-api-key".to_owned(), "planted".to_owned());
            let asked = moved.requests();
            assert!(asked.len() == 2 && asked.iter().all(|request| request.headers.contains(&key)));
        }
    }
    assert_eq!(thief.connections(), 0);
    assert_eq!(code(&run(&["report", &stolen], &[])), 0);
}

/// A proxy says any number and any name; what comes of it is a verdict or a line, and no end of the process.
#[test]
fn any_number_and_any_name_is_told() {
    let both = |change: &dyn Fn(&mut Report)| {
        let mut report = report_of(vec![repaired()]);
        change(&mut report);
        let text = serde_json::to_string(&report).unwrap();
        [proxy(&text), proxy(&text)]
    };
    let lane = |change: &dyn Fn(&mut Interface)| both(&|report| change(&mut report.hosts[0].interfaces[0]));
    let addresses =
        json!([{"upstream": "u", "address": "a", "state": "healthy", "weight": 1, "in_flight": u64::MAX}]);
    let mut told = vec![
        both(&|report| report.hosts[0].addresses = serde_json::from_value(addresses.clone()).unwrap()),
        both(&|report| report.hosts[0].card_age = Some(f64::MAX)),
        lane(&|lane| {
            (lane.repairs, lane.right_errors) = (u64::MAX, u64::MAX);
            (lane.clean_answers, lane.clean_errors) = (u64::MAX, u64::MAX);
            lane.responses.insert("passed".into(), u64::MAX);
            lane.rules[0].count = u64::MAX;
            for counts in
                [&mut lane.faults, &mut lane.dropped, &mut lane.collapsed, &mut lane.upstream_failures]
            {
                counts.insert("x".into(), u64::MAX);
            }
        }),
    ];
    for time in [i64::MIN, -1, 0, i64::MAX] {
        told.push(both(&|report| (report.now, report.started) = (time, time)));
        told.push(lane(&|lane| (lane.since, lane.mode_since) = (time, time)));
        told.push(lane(&|lane| (lane.last_repair, lane.last_rewrite) = (Some(time), Some(time))));
    }
    let name = "n".repeat(70_000);
    told.push(both(&|report| report.hosts[0].name.clone_from(&name)));
    told.push(lane(&|lane| lane.interface.clone_from(&name)));
    told.push(lane(&|lane| lane.mode.clone_from(&name)));
    told.push(lane(&|lane| lane.rules[0].rule.clone_from(&name)));
    for [(_one, first), (_other, second)] in &told {
        for more in [&[][..], &["--json"]] {
            let output = run(&[&["report", first, second], more].concat(), &[]);
            let errors = text(&output.stderr);
            assert!([0, 1].contains(&code(&output)) && errors.is_empty(), "{errors}");
        }
    }
    // All rows are as wide as the widest.
    let output = run(&["report", &told[told.len() - 3][0].1], &[]);
    let wide = text(&output.stdout).lines().next().unwrap().chars().count();
    assert!(wide < 250, "{wide}");
}

/// What a report or a Prometheus says of itself fills no screen.
#[test]
fn an_error_is_a_line_that_ends() {
    let long = "x".repeat(100_000);
    let (_a, torn) = proxy(&json!({"format": 1, "version": "1", "started": long}).to_string());
    let (_b, refuses) = proxy(&json!({"status": "error", "error": long}).to_string());
    let url = format!("http://127.0.0.1:1/{long}?key=planted");
    for arguments in [&[&*torn][..], &["--prometheus", &refuses], &[&url], &["--prometheus", &url]] {
        let output = run(&[&["report"], arguments].concat(), &[]);
        let told = text(&output.stderr);
        assert_eq!((code(&output), told.lines().count()), (2, 1));
        assert!(told.len() < 700 && !told.contains("planted"), "{}", told.len());
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
    let whole = sized(200, &report(vec![clean()]));
    let cut = ScriptedHost::saying_once(whole.get(..whole.len() - 9).unwrap());
    let broken =
        ScriptedHost::saying_once("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"for\r\n");
    let mute = ScriptedHost::saying_once("");
    let odd = ScriptedHost::saying(&b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xfe"[..]);
    for (bad, says) in [
        (cut.address.to_string().as_str(), "the answer breaks off before its end"),
        (&broken.address.to_string(), "the answer breaks off before its end"),
        (&mute.address.to_string(), "hangs up instead of answering"),
        (&html, "no a2a-errata report"),
        (&other, "no a2a-errata report"),
        (&newer, "of format 2"),
        (&torn, "cannot be read"),
        (&failing.address.to_string(), "HTTP status 503"),
        (&hangs.address.to_string(), "took too long"),
        (&nobody, "nothing listens there"),
        (&format!("https://{}", hangs.address), "took too long to answer; is it http://?"),
        (&odd.address.to_string(), "the answer cannot be read as text"),
        ("ftp://a", "is no address"),
        ("http://127.0.0.1:1/?key=planted", "\"http://127.0.0.1:1/?…\" is no address"),
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

/// That a shim cannot go has a reason, also where there is no interface to tell it of.
#[test]
fn a_host_without_interfaces_says_why_it_stays() {
    for (ready, says) in [
        (true, "legacy: ✗ it has no interface that was asked, so nothing is proved"),
        (false, "legacy: ✗ its agent card could not be used yet, so no interface of it is known"),
    ] {
        let mut nothing = report_of(Vec::new());
        nothing.hosts[0].ready = ready;
        let (_a, address) = proxy(&serde_json::to_string(&nothing).unwrap());
        let output = run(&["report", &address], &[]);
        let shown = text(&output.stdout);
        assert_eq!(code(&output), 1, "{shown}");
        assert!(shown.contains(says) && shown.ends_with("The shim is still needed.\n"), "{shown}");
    }
}

/// One proxy under two host names, as behind two services: its word tells, and what it counted counts once.
#[test]
fn a_proxy_under_two_names_counts_once_and_is_told() {
    let named = |instance: &str| {
        let report = Report { instance: instance.into(), ..report_of(vec![repaired()]) };
        serde_json::to_string(&report).unwrap()
    };
    let (_a, one) = proxy(&named("5eed"));
    let (_b, again) = proxy(&named("5eed"));
    let (_c, other) = proxy(&named("beef"));
    let output = run(&["report", "--json", &one, &again, &other], &[]);
    let told = text(&output.stderr);
    assert_eq!((code(&output), told.lines().count()), (1, 1), "{told}");
    let says = format!("http://{again}/report: is the same proxy as http://{one}/report, and counts once");
    assert!(told.contains(&says), "{told}");
    let summary = summary(&output);
    assert_eq!(summary["hosts"][0]["interfaces"][0]["repairs"], 10);
    assert_eq!((&summary["notes"], &summary["problems"]), (&json!([says]), &json!([])));
    // Builds that have no such word are taken as they are named.
    let (_d, old) = proxy(&named(""));
    let (_e, old_too) = proxy(&named(""));
    assert!(run(&["report", &old, &old_too], &[]).stderr.is_empty());
}

/// A proxy says the same word each time, and no other says it.
#[test]
fn every_process_has_a_word_of_its_own() {
    let word = || {
        let (listen, admin) = (binary::free_port(), binary::free_port());
        let (listen, address) = (format!("127.0.0.1:{listen}"), format!("127.0.0.1:{admin}"));
        let arguments = ["run", "--upstream", "127.0.0.1:9", "--listen", &listen, "--admin", &address];
        let _proxy = binary::start(&arguments, &[]);
        let [first, second] = [0, 1].map(|_| {
            let answer = binary::ask(admin, "GET /report");
            let body = answer.split_once("\r\n\r\n").unwrap().1;
            serde_json::from_str::<Report>(body).unwrap().instance
        });
        assert_eq!((&first, first.len()), (&second, 16));
        first
    };
    assert_ne!(word(), word());
}

/// What is missing may be repairing: no line, no member, no exit code says that a shim can go.
#[test]
fn a_partial_answer_never_says_that_a_shim_can_go() {
    let (_good, good) = proxy(&report(vec![clean()]));
    let nobody = format!("127.0.0.1:{}", support::free_port());
    for missing in [&[&*nobody][..], &["--prometheus", &nobody]] {
        let output = run(&[&["report", &good][..], missing].concat(), &[]);
        let shown = text(&output.stdout);
        assert_eq!(code(&output), 2, "{output:?}");
        assert!(!shown.contains("can go") && shown.contains("not known"), "{shown}");
        assert!(shown.ends_with("so nothing here says that a shim is not needed.\n"), "{shown}");
        let output = run(&[&["report", "--json", &good][..], missing].concat(), &[]);
        let text = text(&output.stdout);
        assert!(code(&output) == 2 && !text.contains("\"can_go\": true"), "{text}");
        assert!(text.contains("\"everything read\""), "{text}");
    }
}

/// Whatever answers there, its words order the terminal nothing.
#[test]
fn nothing_that_is_told_reaches_the_terminal_as_an_order() {
    let evil = "\u{1b}]0;x\u{7}\u{9b}2J\u{202e}\nx";
    let mut lane = repaired();
    lane.interface = format!("/a{evil}");
    lane.mode = evil.into();
    lane.rules[0].says = evil.into();
    lane.rules[0].rule = evil.into();
    let mut told = report_of(vec![lane.clone(), lane]);
    told.hosts[0].name = evil.into();
    told.hosts.push(Host { name: "b".into(), ..told.hosts[0].clone() });
    let (_a, address) = proxy(&serde_json::to_string(&told).unwrap());
    let refusing = json!({"status": "error", "error": evil}).to_string();
    let (_b, prometheus) = proxy(&refusing);
    let output = run(&["report", &address, "--prometheus", &prometheus], &[]);
    assert_eq!(code(&output), 2);
    let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(all.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{all:?}");
    assert!(all.contains("\\u{1b}]0;x\\u{7}\\u{9b}2J\\u{202e}"), "{all}");
    assert_eq!(text(&output.stderr).lines().count(), 1);
}
