//! `a2a-errata report --prometheus`: since when a Prometheus can know. A scripted one answers with what it was
//! given; where `prometheus` and `promtool` are installed, a real one with the same history says the same.
// A test says what went wrong by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[path = "support/binary.rs"]
mod binary;
#[path = "support/reports.rs"]
mod reports;
mod support;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use a2a_errata::observe::report::{Interface, Report};
use binary::{run, text};
use reports::{DAY, NOW, clean, code, proxy, report_of, summary};
use serde_json::{Value, json};
use support::{ScriptedHost, sized};

const HOUR: i64 = 3600;

/// A process as it was scraped; times in hours before now.
#[derive(Clone)]
struct Process {
    host: &'static str,
    job: &'static str,
    instance: &'static str,
    began: i64,
    from: i64,
    to: i64,
    repaired: Option<i64>,
}

fn process(host: &'static str, instance: &'static str, [began, from, to]: [i64; 3]) -> Process {
    Process { host, job: "a2a", instance, began, from, to, repaired: None }
}

/// Of each host, since how many hours it can be known, and why not for longer.
fn histories() -> (Vec<Process>, Vec<(&'static str, i64, &'static str)>) {
    let processes = vec![
        process("whole", "w:1", [60, 60, 0]),
        // Scraped for two hours, begun then and not.
        process("young", "y:1", [2, 2, 0]),
        process("late", "l:1", [50, 2, 0]),
        // Lost for ten hours, and then another process, or the same.
        process("gap", "g:1", [60, 60, 20]),
        process("gap", "g:1", [15, 10, 0]),
        process("lost", "o:1", [60, 60, 20]),
        process("lost", "o:1", [60, 10, 0]),
        // A rollout, a restart, and one more that was there before it was scraped.
        process("rolled", "r:1", [60, 60, 24]),
        process("rolled", "r:2", [24, 24, 0]),
        Process { repaired: Some(30), ..process("reset", "s:1", [60, 60, 24]) },
        process("reset", "s:1", [24, 24, 0]),
        process("second", "t:1", [60, 60, 0]),
        process("second", "t:2", [50, 5, 0]),
        // One proxy, two jobs.
        process("jobs", "j:1", [60, 60, 0]),
        Process { job: "more", ..process("jobs", "j:1", [60, 3, 0]) },
        process("gone", "n:1", [60, 60, 5]),
    ];
    let wanted = vec![
        ("whole", 48, ""),
        ("young", 2, "Prometheus has nothing from before that"),
        ("late", 2, "the proxy l:1 may have run before that without being scraped"),
        ("gap", 10, "the proxy g:1 was not scraped for"),
        ("lost", 48, ""),
        ("rolled", 48, ""),
        ("reset", 48, ""),
        ("second", 5, "the proxy t:2 may have run before that"),
        ("jobs", 48, ""),
        ("gone", 0, "it was last scraped"),
    ];
    (processes, wanted)
}

fn holds(output: &Output, wanted: &[(&str, i64, &str)]) {
    assert_eq!(code(output), 1, "{output:?}");
    let told = summary(output);
    let hosts = told["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), wanted.len(), "{told:#}");
    for (name, hours, why) in wanted {
        let host = hosts.iter().find(|host| host["name"] == *name).unwrap();
        let lane = &host["interfaces"][0];
        let criterion = |name: &str| {
            let all = lane["removal"]["criteria"].as_array().unwrap();
            all.iter().find(|criterion| criterion["name"] == name).unwrap().clone()
        };
        let watched = criterion("watched");
        assert_eq!(watched["holds"], *hours == 48, "{name}: {watched}");
        assert_eq!(host["can_go"], *hours == 48 && *name != "reset", "{name}: {lane:#}");
        assert!(watched["says"].as_str().unwrap().contains(why), "{name}: {watched}");
        let clean = lane["removal"]["clean_seconds"].as_i64().unwrap();
        let clean_hours = if *name == "reset" { 30 } else { *hours };
        assert!((clean - clean_hours * HOUR).abs() <= HOUR / 2, "{name}: {clean}");
        assert_eq!(criterion("errors seen")["holds"], true, "{name}: {lane:#}");
    }
    let notes = told["notes"].as_array().unwrap();
    assert!(
        notes.len() == 1 && notes[0].as_str().unwrap().contains("j:1 is scraped by several jobs"),
        "{told:#}"
    );
}

/// A Prometheus of nothing but these. `down`: job and instance of targets that it cannot scrape.
fn scripted(
    processes: Vec<Process>,
    down: &'static [(&str, &str)],
    warnings: &'static [&str],
) -> ScriptedHost {
    let hosts: BTreeSet<&str> = processes.iter().map(|process| process.host).collect();
    ScriptedHost::start(move |visit| {
        while let Some(request) = visit.request() {
            let line = request.first_line.clone();
            let number = |name: &str| -> i64 {
                line.split_once(&format!("&{name}="))
                    .unwrap()
                    .1
                    .split(['&', ' '])
                    .next()
                    .unwrap()
                    .parse()
                    .unwrap()
            };
            let each = |value: &dyn Fn(&str) -> Option<i64>| -> Value {
                let series = hosts.iter().filter_map(|host| {
                    let labels = json!({"host": host, "interface": "/a2a", "binding": "JSONRPC",
                        "outcome": "conformant", "mode": "enforce"});
                    Some(json!({"metric": labels, "value": [NOW, value(host)?.to_string()]}))
                });
                series.collect()
            };
            let repaired = |host: &str| {
                let of_host = processes.iter().filter(|process| process.host == host);
                of_host.filter_map(|process| process.repaired).map(|hours| NOW - hours * HOUR).max()
            };
            let (kind, result) = if line.contains("query_range") {
                let steps =
                    || (number("start")..=number("end")).step_by(usize::try_from(number("step")).unwrap());
                let series = processes.iter().filter_map(|process| {
                    let seen = |step: &i64| {
                        // A sample at the beginning and the end of its time; seen for a quarter of an hour.
                        *step >= NOW - process.from * HOUR && *step < NOW - process.to * HOUR + 900
                    };
                    let labels = json!({"host": process.host, "interface": "/a2a", "job": process.job,
                        "instance": process.instance});
                    let began = (NOW - process.began * HOUR).to_string();
                    let value = if line.contains("start_time") { &*began } else { "1" };
                    let values: Vec<Value> = steps().filter(seen).map(|step| json!([step, value])).collect();
                    (!values.is_empty()).then(|| json!({"metric": labels, "values": values}))
                });
                ("matrix", series.collect())
            } else if line.contains("query=time") {
                ("scalar", json!([NOW, NOW.to_string()]))
            } else if line.contains("build_info") {
                let series = down.iter().map(|(job, instance)| {
                    json!({"metric": {"job": job, "instance": instance}, "value": [NOW, "1"]})
                });
                ("vector", series.collect())
            } else if line.contains("last_repair") {
                ("vector", each(&|host| repaired(host)))
            } else if line.contains("repairs_total") {
                ("vector", each(&|host| Some(repaired(host).map_or(0, |_| 1))))
            } else if line.contains("last_rewrite") || line.contains("rewrites_total") {
                ("vector", json!([]))
            } else if line.contains("host_ready") {
                ("vector", each(&|host| processes.iter().any(|p| p.host == host && p.to == 0).then_some(1)))
            } else {
                ("vector", each(&|_| Some(5)))
            };
            let body = json!({"status": "success", "warnings": warnings,
                "data": {"resultType": kind, "result": result}});
            visit.send(sized(200, &body.to_string()));
        }
    })
}

/// Processes of one instance, the last one last.
fn merged(mut processes: Vec<Process>) -> Vec<Process> {
    processes.sort_by_key(|process| -process.to);
    processes
}

fn asked(address: &str, more: &[&str]) -> Output {
    asked_for("2", address, more)
}

fn asked_for(days: &str, address: &str, more: &[&str]) -> Output {
    let url = format!("http://{address}");
    run(&[&["report", "--json", "--clean-days", days, "--prometheus", &url][..], more].concat(), &[])
}

#[test]
fn no_more_is_said_than_was_scraped() {
    let (processes, wanted) = histories();
    let prometheus = scripted(merged(processes), &[], &[]);
    holds(&asked(&prometheus.address.to_string(), &[]), &wanted);
}

#[test]
fn the_table_says_why_no_more_is_known() {
    let prometheus = scripted(vec![process("gone", "n:1", [60, 60, 5])], &[], &[]);
    let url = prometheus.address.to_string();
    let output = run(&["report", "--clean-days", "2", "--prometheus", &url], &[]);
    let shown = text(&output.stdout);
    assert_eq!(code(&output), 1, "{output:?}");
    assert!(shown.contains("watched for 0 seconds of 2 days; it was last scraped 5 hours ago"), "{shown}");
    assert!(!shown.contains("can go"), "{shown}");
}

/// What it should scrape and cannot, and what it knows in part only.
#[test]
fn a_prometheus_that_does_not_see_all_gives_no_verdict() {
    let whole = || vec![process("whole", "w:1", [60, 60, 0])];
    assert_eq!(code(&asked(&scripted(whole(), &[], &[]).address.to_string(), &[])), 0);
    let info = &["PromQL info: metric might not be a counter"];
    assert_eq!(code(&asked(&scripted(whole(), &[], info).address.to_string(), &[])), 0);
    for (prometheus, says) in [
        (scripted(whole(), &[("a2a", "w:2")], &[]), "cannot scrape w:2 of job \"a2a\""),
        (scripted(whole(), &[], &["store x: unavailable"]), "answers in part only: store x: unavailable"),
    ] {
        let output = asked(&prometheus.address.to_string(), &[]);
        let told = text(&output.stderr);
        assert_eq!((code(&output), told.lines().count()), (2, 1), "{told}");
        assert!(told.contains(says), "{told}");
        assert!(!text(&output.stdout).contains("\"can_go\": true"), "{}", text(&output.stdout));
    }
}

#[test]
fn a_prometheus_remembers_what_a_restarted_proxy_forgot() {
    let remembers = scripted(
        vec![process("legacy", "p:1", [60, 60, 24]), process("legacy", "p:1", [24, 24, 0])],
        &[],
        &[],
    );
    let base = remembers.address.to_string();
    // Restarted a day ago, the proxy alone proves nothing; together they do.
    let lanes = vec![Interface { since: NOW - DAY, ..clean() }];
    let young = Report { started: NOW - DAY, ..report_of(lanes.clone()) };
    let (_proxy, address) = proxy(&serde_json::to_string(&young).unwrap());
    assert_eq!(code(&run(&["report", "--clean-days", "2", &address], &[])), 1);
    assert_eq!(code(&asked(&base, &[&address])), 0);
    // But of a proxy that it does not scrape it remembers nothing.
    let other = Report { started: NOW - DAY - 7, ..young };
    let (_proxy, address) = proxy(&serde_json::to_string(&other).unwrap());
    let output = asked(&base, &[&address]);
    let told = text(&output.stdout);
    assert!(
        code(&output) == 1 && told.contains("/report is not scraped, so what ran there before"),
        "{told}"
    );
}

/// Repairs that it counted and has no time of may have been just now.
#[test]
fn a_repair_without_a_time_was_just_now() {
    let prometheus = ScriptedHost::start(|visit| {
        while let Some(request) = visit.request() {
            let line = request.first_line;
            let labels =
                json!({"host": "legacy", "interface": "/a2a", "binding": "JSONRPC", "outcome": "passed"});
            let (kind, result) = if line.contains("query=time") {
                ("scalar", json!([NOW, NOW.to_string()]))
            } else if line.contains("query_range") {
                ("matrix", json!([{"metric": labels, "values": [[NOW, "1"]]}]))
            } else if line.contains("timestamp_seconds") || line.contains("build_info") {
                ("vector", json!([]))
            } else {
                ("vector", json!([{"metric": labels, "value": [NOW, "3"]}]))
            };
            let body = json!({"status": "success", "data": {"resultType": kind, "result": result}});
            visit.send(sized(200, &body.to_string()));
        }
    });
    let output = asked(&prometheus.address.to_string(), &[]);
    let lane = summary(&output)["hosts"][0]["interfaces"][0].clone();
    assert_eq!((code(&output), &lane["last_repair"]), (1, &json!(NOW)), "{lane:#}");
}

/// A Prometheus that is none may say any number: no arithmetic ends the process, and nothing is counted for ever.
#[test]
fn any_number_of_a_prometheus_is_told() {
    let says = |time: &'static str, at: f64, value: &'static str| {
        ScriptedHost::start(move |visit| {
            while let Some(request) = visit.request() {
                let line = request.first_line;
                let labels = json!({"host": "legacy", "interface": "/a2a", "binding": "JSONRPC",
                    "outcome": "overflow", "job": "j", "instance": "i"});
                let again = json!({"host": "legacy", "interface": "/a2a", "binding": "JSONRPC",
                    "outcome": "conformant"});
                let (kind, result) = if line.contains("query=time") {
                    ("scalar", json!([NOW, time]))
                } else if line.contains("query_range") {
                    let value = if line.contains("start_time") { value } else { "1" };
                    let values = json!([[-at, value], [NOW - HOUR, value], [NOW, value], [at, value]]);
                    ("matrix", json!([{"metric": labels, "values": values}]))
                } else if line.contains("build_info") {
                    ("vector", json!([]))
                } else {
                    let values =
                        [labels, again].map(|labels| json!({"metric": labels, "value": [NOW, value]}));
                    ("vector", json!(values))
                };
                let body = json!({"status": "success", "data": {"resultType": kind, "result": result}});
                visit.send(sized(200, &body.to_string()));
            }
        })
    };
    let now: &'static str = NOW.to_string().leak();
    for time in
        ["-1e300", "-Inf", "+Inf", "NaN", "1e300", "-9223372036854775808", "9223372036854775807", "-1"]
    {
        let output = asked(&says(time, 0.0, "1").address.to_string(), &[]);
        let told = text(&output.stderr);
        assert_eq!((code(&output), told.lines().count()), (2, 1), "{time}: {told}");
        assert!(told.contains("no number") || told.contains("its time is none"), "{time}: {told}");
    }
    for at in [1e300, 9.3e18, 9e15, 0.0] {
        for value in ["1e300", "-1e300", "+Inf", "-Inf", "NaN", "9.3e18", "-9.3e18", "18446744073709551615"] {
            let prometheus = says(now, at, value);
            let output = asked(&prometheus.address.to_string(), &["--timeout", "5"]);
            let told = text(&output.stderr);
            assert_eq!((code(&output), told.lines().count()), (2, 1), "{at} {value}: {told}");
            assert!(told.contains("what is no count and no time"), "{at} {value}: {told}");
        }
    }
    // The longest window there is.
    let output = asked_for("3650", &says(now, 9e15, "9007199254740992").address.to_string(), &[]);
    assert_eq!(code(&output), 1, "{}", text(&output.stderr));
}

#[test]
fn a_credential_that_is_said_back_is_not_shown() {
    let (_guard, refuses) = proxy(r#"{"status":"error","error":"bad key PLANTED-KEY-1, user planted-user"}"#);
    let key = ["--header", "X-Api-Key: PLANTED-KEY-1"];
    let told = text(&asked(&refuses, &key).stderr);
    assert!(told.contains("bad key [credential]") && !told.contains("PLANTED"), "{told}");
}

#[test]
fn what_is_no_prometheus_is_2() {
    let (_a, page) = proxy("<html>");
    let (_b, other) = proxy(r#"{"status":"success"}"#);
    let (_c, refuses) = proxy(r#"{"status":"error","error":"parse\nerror"}"#);
    let nothing = scripted(vec![], &[], &[]);
    let empty = nothing.address.to_string();
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

/// A real one, with a history that was written for it.
struct Real {
    _process: binary::Running,
    _folder: tempfile::TempDir,
    address: String,
}

impl Real {
    /// `ups`: job, instance and `up` of further targets. `None`: it is not installed.
    fn start(processes: &[Process], ups: &[(&str, &str, i64)]) -> Option<Self> {
        let is_installed = |name: &str| {
            let version =
                Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            version.is_ok_and(|status| status.success())
        };
        if !is_installed("prometheus") || !is_installed("promtool") {
            eprintln!("not run: prometheus and promtool are not installed (Debian package prometheus)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let (history, data) = (folder.path().join("history"), folder.path().join("data"));
        std::fs::write(&history, history_of(processes, ups)).unwrap();
        let made = Command::new("promtool")
            .args(["tsdb", "create-blocks-from", "openmetrics", "--quiet"])
            .args([&history, &data])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let config = folder.path().join("prometheus.yml");
        std::fs::write(&config, "scrape_configs: []\n").unwrap();
        let port = binary::free_port();
        let flag = |name: &str, value: &Path| format!("--{name}={}", value.display());
        let process = Command::new("prometheus")
            .args([flag("config.file", &config), flag("storage.tsdb.path", &data)])
            .args(["--storage.tsdb.retention.time=1y", &format!("--web.listen-address=127.0.0.1:{port}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let process = binary::Running(process);
        let end = Instant::now() + Duration::from_mins(1);
        while !binary::ask(port, "GET /-/ready").starts_with("HTTP/1.1 200") {
            assert!(Instant::now() < end, "Prometheus does not become ready");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(Self { _process: process, _folder: folder, address: format!("127.0.0.1:{port}") })
    }
}

/// The samples, in the text form that promtool reads: a family after the other.
fn history_of(processes: &[Process], ups: &[(&str, &str, i64)]) -> String {
    const EVERY: i64 = 240;
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
    let mut out = String::new();
    for family in [
        "repairs_total",
        "responses_total",
        "start_time_seconds",
        "build_info",
        "host_ready",
        "mode_info",
        "last_repair_timestamp_seconds",
        "up",
    ] {
        for process in processes {
            let Process { host, job, instance, .. } = process;
            let target = format!("job=\"{job}\",instance=\"{instance}\"");
            let lane = format!("host=\"{host}\",interface=\"/a2a\",{target}");
            let (from, to) = (now - process.from * HOUR, now - process.to * HOUR);
            let repaired = process.repaired.map(|hours| now - hours * HOUR);
            for (number, at) in
                (0..).map(|number| (number, from + number * EVERY)).take_while(|(_, at)| *at <= to)
            {
                let is_repaired = repaired.is_some_and(|repaired| at >= repaired);
                let (labels, value) = match family {
                    "repairs_total" => (lane.clone(), i64::from(is_repaired)),
                    "responses_total" => {
                        (format!("{lane},binding=\"JSONRPC\",outcome=\"conformant\""), number)
                    }
                    "start_time_seconds" => (target.clone(), now - process.began * HOUR),
                    "build_info" | "up" => (target.clone(), 1),
                    "host_ready" => (format!("host=\"{host}\",{target}"), 1),
                    "mode_info" => (format!("{lane},mode=\"enforce\""), 1),
                    _ if is_repaired => (lane.clone(), repaired.unwrap()),
                    _ => continue,
                };
                let name = if family == "up" { "up".to_owned() } else { format!("a2a_errata_{family}") };
                writeln!(out, "{name}{{{labels}}} {value} {at}").unwrap();
            }
        }
        if family == "up" {
            for (job, instance, up) in ups {
                writeln!(out, "up{{job=\"{job}\",instance=\"{instance}\"}} {up} {now}").unwrap();
            }
        }
    }
    out + "# EOF\n"
}

#[test]
fn a_real_prometheus_says_the_same() {
    let (mut processes, wanted) = histories();
    // Another job's targets are none of ours, also where one of them is a proxy.
    processes[0].job = "pods";
    let Some(real) = Real::start(&processes, &[("pods", "x:1", 1), ("pods", "x:2", 0), ("db", "d:1", 0)])
    else {
        return;
    };
    holds(&asked(&real.address, &[]), &wanted);
}

#[test]
fn a_real_prometheus_tells_which_proxies_it_cannot_scrape() {
    let processes = [process("whole", "w:1", [60, 60, 0]), process("whole", "w:2", [60, 60, 1])];
    let down = [("a2a", "w:2", 0), ("a2a", "w:3", 0)];
    let Some(real) = Real::start(&processes, &down) else { return };
    let output = asked(&real.address, &[]);
    let told = text(&output.stderr);
    assert_eq!((code(&output), told.lines().count()), (2, 2), "{told}");
    assert!(told.contains("cannot scrape w:2 of") && told.contains("cannot scrape w:3 of"), "{told}");
}
