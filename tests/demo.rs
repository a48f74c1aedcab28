//! The demo, from outside: the catalogue is sound and complete, and `a2a-errata demo` ends well and
//! says so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use a2a_errata::demo::{Expect, Group, INTERFACE, REFERENCE, TASK, catalogue};
use a2a_errata::normalize::Rule;

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(90);

#[test]
fn names_are_unique_and_fit_a_query_and_the_table() {
    let mut seen = HashSet::new();
    for scenario in catalogue() {
        let name = scenario.name;
        assert!(seen.insert(name), "{name} twice");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{name}");
        assert!(name.len() <= 23, "{name} is wider than its column");
        assert!(!scenario.title.is_empty() && !scenario.seen_at.is_empty(), "{name}");
        assert!(!scenario.rules.is_empty(), "{name} is there for no rule");
    }
    assert!(seen.contains(REFERENCE));
}

#[test]
fn every_rule_of_section_3_and_every_section_is_exercised() {
    let covered: HashSet<&str> =
        catalogue().iter().flat_map(|s| s.rules.iter().map(|rule| rule.id())).collect();
    for rule in Rule::ALL {
        let id = rule.id();
        assert!(!id.starts_with("F-") || covered.contains(id), "no scenario for {id}");
    }
    for section in ["I-", "Q-", "F-", "E-", "O-", "D-", "C-", "S-", "P-"] {
        assert!(covered.iter().any(|id| id.starts_with(section)), "no scenario for {section}");
    }
    for group in Group::ALL {
        assert!(catalogue().iter().any(|scenario| scenario.group == *group), "{group:?} is empty");
    }
}

#[test]
fn no_request_contains_what_an_answer_must_not_tell() {
    for scenario in catalogue() {
        let request = String::from_utf8(scenario.call.body.clone()).unwrap();
        for secret in ["acme", "ws-9", "u-9", "/srv"] {
            assert!(!request.contains(secret), "{} asks for {secret}", scenario.name);
        }
    }
}

/// The comparison byte by byte needs one question for all that are compared with one reference.
#[test]
fn everything_that_is_not_found_is_the_same_question() {
    let all = catalogue();
    let not_found: Vec<_> = all.iter().filter(|scenario| scenario.expect == Expect::NotFound).collect();
    let references: HashSet<_> = not_found.iter().map(|scenario| scenario.reference()).collect();
    assert_eq!(references.len(), 3, "unary, stream, HTTP+JSON");
    for reference in references {
        let compared = not_found.iter().filter(|scenario| scenario.reference() == reference);
        let questions: HashSet<_> = compared
            .clone()
            .map(|scenario| {
                let call = &scenario.call;
                format!(
                    "{} {} {:?} {}",
                    call.method,
                    call.path,
                    call.headers,
                    String::from_utf8_lossy(&call.body)
                )
            })
            .collect();
        assert_eq!(questions.len(), 1, "{reference}");
        assert!(questions.iter().all(|question| question.contains(TASK)), "{reference}");
        assert!(compared.clone().any(|scenario| scenario.name == reference), "{reference}");
        assert!(compared.count() > 3, "{reference}");
    }
}

#[test]
fn every_kind_of_fault_is_rewritten_and_every_success_untouched() {
    let output = demo(&["demo"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    for scenario in catalogue() {
        let verdict = match scenario.expect {
            Expect::Fault { .. } | Expect::Status { .. } | Expect::Event { .. } => "rewritten",
            Expect::NotFound => "identical",
            Expect::Untouched => "untouched",
        };
        // The first word of a table's row, and of nothing else that is indented.
        let row = text
            .lines()
            .filter(|line| line.starts_with("  "))
            .find(|line| line.split_whitespace().next() == Some(scenario.name));
        let row = row.unwrap_or_else(|| panic!("no row for {}:\n{text}", scenario.name));
        assert!(row.ends_with(verdict), "{row}");
    }
    let last = text.trim_end().lines().last().unwrap();
    assert!(last.starts_with("All good: "), "{last}");
    assert!(!text.contains('\x1b'), "colours where there is no terminal");
}

#[test]
fn a_part_of_a_name_chooses_and_a_wrong_one_is_refused() {
    let output = demo(&["demo", "--only", "foreign-403-e"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for wanted in ["foreign-403-envelope", "foreign-403-empty", "HTTP 403 Forbidden", "TASK_NOT_FOUND"] {
        assert!(text.contains(wanted), "no {wanted} in:\n{text}");
    }
    assert!(!text.contains("openwop-429"));
    assert_eq!(demo(&["demo", "--only", "no-such-fault"]).status.code(), Some(2));
}

#[test]
fn the_list_needs_no_network_and_names_everything() {
    let text = String::from_utf8(demo(&["demo", "--list"]).stdout).unwrap();
    for scenario in catalogue() {
        assert!(text.contains(scenario.name), "{}", scenario.name);
    }
}

#[test]
fn served_until_a_signal_and_nothing_stays_behind() {
    let mut child = Watched::spawn(&["demo", "--serve", "--only", "ok-task"]);
    let mut lines = BufReader::new(child.process.stdout.take().unwrap()).lines();
    let mut curls = Vec::new();
    loop {
        let line = lines.next().expect("the demo ended").unwrap();
        if line.trim_start().starts_with("curl -si") {
            curls.push(line);
        } else if line.starts_with("All good: ") {
            break;
        }
    }
    assert!(curls.len() >= 4, "{curls:?}");
    let through: Vec<_> = curls.iter().filter_map(|line| address_in(line)).collect();
    assert_eq!(
        through.iter().collect::<HashSet<_>>().len(),
        2,
        "the host's address and the proxy's: {through:?}"
    );
    for address in &through {
        std::net::TcpStream::connect(address).unwrap();
    }
    signal("-TERM", child.process.id());
    let status = child.process.wait().unwrap();
    assert!(status.success(), "{status}");
    let deadline = Instant::now() + PATIENCE;
    for address in &through {
        while std::net::TcpStream::connect(address).is_ok() {
            assert!(Instant::now() < deadline, "{address} still listens");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// As a person does who pastes them: what fails is the host's, and behind the proxy nothing does.
#[test]
fn the_probe_lines_can_be_pasted() {
    let mut child = Watched::spawn(&["demo", "--serve", "--only", "ok-task"]);
    let mut lines = BufReader::new(child.process.stdout.take().unwrap()).lines();
    let mut pasted = Vec::new();
    loop {
        let line = lines.next().expect("the demo ended").unwrap();
        if line.trim_start().starts_with("a2a-errata probe ") {
            pasted.push(line);
        } else if line.starts_with("All good: ") {
            break;
        }
    }
    let directory = std::path::Path::new(env!("CARGO_BIN_EXE_a2a-errata")).parent().unwrap();
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let probes: Vec<Child> = pasted
        .iter()
        .map(|line| {
            let mut shell = Command::new("sh");
            shell.args(["-c", line]).env("PATH", &path).env("COLUMNS", "160");
            shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let told: Vec<Output> = probes.into_iter().map(|probe| probe.wait_with_output().unwrap()).collect();
    let said = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
    let codes: Vec<_> = told.iter().map(|output| output.status.code()).collect();
    assert_eq!(
        codes,
        [Some(1), Some(0), Some(1), Some(0)],
        "{pasted:?}\n{}\n{}",
        said(&told[1]),
        said(&told[3])
    );
    for (output, binding, foreign) in
        [(&told[0], "JSONRPC", "HTTP 403 instead of 200"), (&told[2], "HTTP+JSON", "HTTP 403 instead of 404")]
    {
        let table = said(output);
        assert!(table.contains(&format!("── {binding} http://")), "{table}");
        // Somebody else's task is told from the unknown ones that the probe makes up.
        assert!(table.contains(&format!("GetTask: {foreign}")), "{table}");
    }
    for output in [&told[1], &told[3]] {
        assert!(
            said(output).contains("the same bytes and headers as for an unknown task"),
            "{}",
            said(output)
        );
    }
}

#[test]
fn the_host_alone_listens_where_it_is_told_to() {
    let mut child = Watched::spawn(&["demo", "--host", "127.0.0.1:0"]);
    let mut lines = BufReader::new(child.process.stdout.take().unwrap()).lines();
    let line = lines.next().expect("the host ended").unwrap();
    let (_, rest) = line.split_once("listens on ").unwrap();
    let address = rest.split_once(';').unwrap().0;
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: legacy\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(REFERENCE), "{answer}");
    assert_eq!(demo(&["demo", "--host", address]).status.code(), Some(1), "the address is taken");
    signal("-TERM", child.process.id());
    assert!(child.process.wait().unwrap().success());
}

/// `HOST:PORT` of the URL in a line.
fn address_in(line: &str) -> Option<String> {
    let (_, url) = line.split_once("http://")?;
    Some(url.split_once(INTERFACE)?.0.to_owned())
}

/// Runs to its end.
fn demo(args: &[&str]) -> Output {
    let mut child = Watched::spawn(args);
    let mut output = Output { status: ExitStatus::default(), stdout: Vec::new(), stderr: Vec::new() };
    child.process.stdout.take().unwrap().read_to_end(&mut output.stdout).unwrap();
    child.process.stderr.take().unwrap().read_to_end(&mut output.stderr).unwrap();
    output.status = child.process.wait().unwrap();
    output
}

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// A process of the binary that is ended when the test is over or takes too long.
struct Watched {
    process: Child,
    /// Dropped with the rest: then there is nothing left to watch.
    _over: mpsc::Sender<()>,
}

impl Watched {
    fn spawn(args: &[&str]) -> Self {
        let process = Command::new(env!("CARGO_BIN_EXE_a2a-errata"))
            .args(args)
            .env("COLUMNS", "140")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (over, watching) = mpsc::channel();
        let pid = process.id();
        std::thread::spawn(move || {
            if watching.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                signal("-TERM", pid);
            }
        });
        Self { process, _over: over }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Asked, not killed: a killed demo leaves its proxy behind.
        if let Ok(None) = self.process.try_wait() {
            signal("-TERM", self.process.id());
            let _ = self.process.wait();
        }
    }
}
