//! The commands as a person meets them: exit codes, messages, what listens and what does not (U-1, U-2).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[path = "support/binary.rs"]
mod binary;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use binary::{ask, free_port, run, start, text};

fn nothing_listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_err()
}

/// Asks until it says this: the admin listener may be open before the other one is.
#[track_caller]
fn becomes(admin: u16, is_so: impl Fn(&str) -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let ready = ask(admin, "GET /readyz");
        if is_so(&ready) {
            return;
        }
        assert!(Instant::now() < end, "not in time: {ready}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn check_prints_what_is_in_effect_and_where_from() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.toml");
    std::fs::write(&file, "[[hosts]]\nupstreams = [\"127.0.0.1:9000\"]\noracle.floor_ms = 5\n").unwrap();
    let path = file.to_str().unwrap();
    let arguments = ["check", "--config", path, "--listen", "127.0.0.1:8081"];
    let output = run(&arguments, &[("A2A_ERRATA_HOSTS__0__MODE", "observe")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    for (key, place) in [
        ("address = \"127.0.0.1:8081\"", "# flag --listen".to_owned()),
        ("address = \"127.0.0.1:9464\"", "# default".into()),
        ("mode = \"observe\"", "# environment A2A_ERRATA_HOSTS__0__MODE".into()),
        ("oracle.floor_ms = 5", format!("# {path}:3")),
        ("upstreams = [\"127.0.0.1:9000\"]", format!("# {path}:2")),
        ("intake_bytes = 4194304", "# default".into()),
    ] {
        let line = printed.lines().find(|line| line.starts_with(key));
        assert!(line.is_some_and(|line| line.ends_with(&place)), "{key} {place}\n{printed}");
    }
    assert!(!printed.contains('\x1b'), "no colour when it is no terminal");
    let columns: Vec<_> =
        printed.lines().filter(|line| line.contains(" = ")).map(|line| line.find('#')).collect();
    assert!(columns.iter().all(|column| *column == columns[0]), "aligned:\n{printed}");
}

/// What `check` prints is a configuration: the same one.
#[test]
fn check_prints_toml_that_means_the_same() {
    let gateway = concat!(env!("CARGO_MANIFEST_DIR"), "/config/gateway.toml");
    let first = run(&["check", "--config", gateway], &[]);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.toml");
    std::fs::write(&file, &first.stdout).unwrap();
    let second = run(&["check", "--config", file.to_str().unwrap()], &[]);
    assert_eq!(second.status.code(), Some(0), "{}", text(&second.stderr));
    let values = |output: &Output| -> Vec<String> {
        let lines = text(&output.stdout);
        lines.lines().skip(1).map(|line| line.split(" #").next().unwrap().trim_end().to_owned()).collect()
    };
    assert_eq!(values(&first), values(&second));
}

#[test]
fn every_shipped_configuration_passes_check() {
    for name in ["reference", "sidecar", "gateway", "shim"] {
        let file = format!("{}/config/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        // How many files this machine allows is not the configuration's.
        let output = run(&["check", "--config", &file], &[("A2A_ERRATA_LIMITS__CONNECTIONS", "100")]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
        assert!(output.stderr.is_empty(), "{name}: {}", text(&output.stderr));
    }
}

#[test]
fn a_bad_configuration_is_refused_with_2_and_nothing_listens() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.toml");
    let (listen, admin) = (free_port(), free_port());
    let text_of_file = format!(
        "[listen]\naddress = \"127.0.0.1:{listen}\"\n[admin]\naddress = \"127.0.0.1:{admin}\"\n\
         [[hosts]]\nupstreams = [\"127.0.0.1:9000\"]\nmode = \"enforced\"\n"
    );
    std::fs::write(&file, text_of_file).unwrap();
    let path = file.to_str().unwrap();
    for command in ["run", "check"] {
        let output = run(&[command, "--config", path], &[]);
        assert_eq!(output.status.code(), Some(2));
        let expected = format!(
            "a2a-errata: {path}:7:8: hosts[0].mode = \"enforced\": must be \"enforce\" or \"observe\"; did you mean \"enforce\"?\n"
        );
        assert_eq!(text(&output.stderr), expected);
        assert!(output.stdout.is_empty());
        assert!(nothing_listens(listen) && nothing_listens(admin));
    }
}

#[test]
fn the_command_line_is_refused_with_2() {
    for arguments in [&["run", "--upsteam", "a:1"][..], &["check", "--log-level", "info"], &["serve"], &[]] {
        assert_eq!(run(arguments, &[]).status.code(), Some(2), "{arguments:?}");
    }
    let output = run(&["run"], &[]);
    assert_eq!(output.status.code(), Some(2));
    let expected = "a2a-errata: hosts: there is no host; add a [[hosts]] table with upstreams = \
                    [\"127.0.0.1:9000\"], or give --upstream HOST:PORT\n";
    assert_eq!(text(&output.stderr), expected);
    let output = run(&["run", "--upstream", "127.0.0.1:9000"], &[("A2A_ERRATA_LOG", "inof")]);
    assert_eq!(output.status.code(), Some(2));
    let expected =
        "a2a-errata: environment A2A_ERRATA_LOG = \"inof\": must be off, error, warn, info, debug or trace\n";
    assert_eq!(text(&output.stderr), expected);
}

#[test]
fn help_teaches_with_examples() {
    for (arguments, words) in [
        (&["--help"][..], &["run", "check", "demo", "a2a-errata run --upstream"][..]),
        (
            &["run", "--help"],
            &["--config", "--listen", "--admin", "a2a-errata run --config", "A2A_ERRATA_HOSTS__0__UPSTREAMS"],
        ),
        (&["check", "--help"], &["a2a-errata check --config", "Exit code 0"]),
    ] {
        let output = run(arguments, &[]);
        assert_eq!(output.status.code(), Some(0));
        for word in words {
            assert!(text(&output.stdout).contains(word), "{arguments:?} does not say {word}");
        }
    }
}

#[test]
fn an_address_that_is_taken_is_a_failure_with_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (listen, admin) = (format!("127.0.0.1:{}", free_port()), format!("127.0.0.1:{}", free_port()));
    for (listen, admin, key) in [(&address, &admin, "listen.address"), (&listen, &address, "admin.address")] {
        let output = run(&["run", "--upstream", "127.0.0.1:9000", "--listen", listen, "--admin", admin], &[]);
        assert_eq!(output.status.code(), Some(1));
        let expected = format!(
            "a2a-errata: cannot listen on {address} ({key}): Address already in use (os error 98); stop what \
             listens there or choose another port\n"
        );
        assert_eq!(text(&output.stderr), expected);
    }
}

#[test]
fn run_needs_no_file_and_the_admin_pages_answer() {
    let (listen, admin) = (free_port(), free_port());
    let mut proxy = start(
        &[
            "run",
            "--upstream",
            "127.0.0.1:9",
            "--listen",
            &format!("127.0.0.1:{listen}"),
            "--admin",
            &format!("127.0.0.1:{admin}"),
        ],
        &[],
    );
    assert!(ask(admin, "GET /livez").starts_with("HTTP/1.1 200 "));
    becomes(admin, |ready| {
        ready.starts_with("HTTP/1.1 503 ") && ready.ends_with("not ready, no interfaces known: legacy\n")
    });
    let metrics = ask(admin, "GET /metrics");
    assert!(
        metrics.starts_with("HTTP/1.1 200 ") && metrics.contains("\na2a_errata_build_info{"),
        "{metrics}"
    );
    let head = ask(admin, "HEAD /livez");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(ask(admin, "DELETE /livez").starts_with("HTTP/1.1 405 "));
    assert!(ask(admin, "GET /nothing").starts_with("HTTP/1.1 404 "));

    // The first look for the agent card fails, and says so, a moment after the start.
    let end = Instant::now() + Duration::from_secs(10);
    while !ask(admin, "GET /metrics").contains("result=\"unusable\"") && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(200));
    proxy.0.kill().unwrap();
    let mut log = String::new();
    proxy.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    let events: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let listening = events.iter().find(|event| event["message"] == "listening").unwrap();
    assert_eq!(listening["listen"], format!("127.0.0.1:{listen}"));
    assert_eq!(listening["admin"], format!("127.0.0.1:{admin}"));
    let host = events.iter().find(|event| event["message"] == "in front of").unwrap();
    assert_eq!((&host["host"], &host["upstreams"]), (&"legacy".into(), &"127.0.0.1:9".into()));
    assert_eq!(host["mode"], "enforce");
    assert!(events.iter().any(|event| event["level"] == "WARN"), "no interfaces is worth a warning: {log}");
}

#[test]
fn a_host_with_interfaces_is_ready_and_the_admin_listener_can_be_off() {
    let (listen, admin) = (free_port(), free_port());
    let listen = format!("127.0.0.1:{listen}");
    let sidecar = concat!(env!("CARGO_MANIFEST_DIR"), "/config/sidecar.toml");
    let address = format!("127.0.0.1:{admin}");
    {
        let _proxy = start(&["run", "--config", sidecar, "--listen", &listen, "--admin", &address], &[]);
        becomes(admin, |ready| ready.starts_with("HTTP/1.1 200 "));
    }
    let default_admin_is_free = nothing_listens(9464);
    let mut proxy = start(&["run", "--config", sidecar, "--listen", &listen, "--admin", ""], &[]);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(proxy.0.try_wait().unwrap(), None, "it runs");
    assert!(nothing_listens(admin));
    assert!(!default_admin_is_free || nothing_listens(9464));
}

/// A graceful shutdown lasts as long as what is in flight, and no longer.
#[test]
fn sigterm_ends_an_idle_proxy_soon_and_a_busy_one_after_its_answer() {
    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = host.local_addr().unwrap().to_string();
    let (listen, admin) = (free_port(), free_port());
    let mut proxy = start(
        &[
            "run",
            "--upstream",
            &upstream,
            "--listen",
            &format!("127.0.0.1:{listen}"),
            "--admin",
            &format!("127.0.0.1:{admin}"),
        ],
        &[("A2A_ERRATA_HOSTS__0__INTERFACES__0__PATH", "/a2a")],
    );
    assert!(ask(admin, "GET /livez").starts_with("HTTP/1.1 200 "));
    let client = std::thread::spawn(move || ask(listen, "GET /slow"));
    let (mut stream, _) = host.accept().unwrap();
    let pid = proxy.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    std::thread::sleep(Duration::from_millis(800));
    assert_eq!(proxy.0.try_wait().unwrap(), None, "a request is in flight");
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone").unwrap();
    assert!(client.join().unwrap().ends_with("done"));
    let end = Instant::now() + Duration::from_secs(5);
    let status = loop {
        if let Some(status) = proxy.0.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < end, "nothing is in flight any more");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(0));
}

/// Without credentials, the admin pages are for this machine, unless somebody says otherwise.
#[test]
fn an_admin_address_that_others_reach_is_refused_unless_allowed() {
    let arguments = ["check", "--upstream", "127.0.0.1:9", "--admin", "0.0.0.0:9464"];
    let refused = run(&arguments, &[]);
    assert_eq!(refused.status.code(), Some(2));
    let says = text(&refused.stderr);
    assert!(says.contains("admin.address") && says.contains("admin.allow_remote = true"), "{says}");
    let allowed = run(&arguments, &[("A2A_ERRATA_ADMIN__ALLOW_REMOTE", "true")]);
    assert_eq!(allowed.status.code(), Some(0));
    assert!(text(&allowed.stderr).contains("asks for no credentials"));
    assert_eq!(run(&["run", "--upstream", "127.0.0.1:9", "--admin", "[::]:0"], &[]).status.code(), Some(2));
}

/// Runs the binary with so many open files at the most: soft, hard.
fn with_files(files: (u32, u32), arguments: &[&str]) -> Command {
    let mut command = binary::command_of("sh".as_ref());
    let script = format!("ulimit -Sn {} && ulimit -Hn {} && exec \"$@\"", files.0, files.1);
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_a2a-errata")]).args(arguments);
    command
}

/// `limits.connections` beside what the system allows: raised if that helps, told if it does not, at a reload too.
#[test]
fn u1_connections_that_do_not_fit_into_the_open_files_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.toml");
    let (listen, admin) = (free_port(), free_port());
    let write = |connections: u32| {
        let toml = format!(
            "listen.address = \"127.0.0.1:{listen}\"\nadmin.address = \"127.0.0.1:{admin}\"\n\
             limits.connections = {connections}\n[[hosts]]\nupstreams = [\"127.0.0.1:9\"]\n\
             [[hosts.interfaces]]\npath = \"/a2a\"\n"
        );
        std::fs::write(&file, toml).unwrap();
    };
    let path = file.to_str().unwrap();
    let told = "limits.connections = 5000 needs 10256 open files (2 for each and 256 for the proxy itself), and this \
                process may have 2000; write 872 or less, or let it have 10256 (ulimit -n, LimitNOFILE=)";
    write(5000);
    let checked = with_files((300, 2000), &["check", "--config", path]).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "it may be run");
    assert_eq!(text(&checked.stderr), format!("a2a-errata: warning: {told}\n"));
    let refused = with_files((40, 40), &["run", "--config", path]).output().unwrap();
    let says = text(&refused.stderr);
    assert_eq!((refused.status.code(), says.lines().count()), (Some(1), 1), "{says}");
    assert!(says.contains("may have 40 open files, and needs "), "{says}");
    write(500);
    let checked = with_files((300, 2000), &["check", "--config", path]).output().unwrap();
    assert_eq!(text(&checked.stderr), "", "500 fit, once the limit is raised");

    let mut command = with_files((300, 2000), &["run", "--config", path, "--log-format", "json"]);
    let proxy = binary::Running(command.stderr(std::process::Stdio::piped()).spawn().unwrap());
    becomes(admin, |ready| ready.starts_with("HTTP/1.1 200 "));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", proxy.0.id())).unwrap();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().take(2).collect::<Vec<_>>(), ["2000", "2000"]);
    write(5000);
    assert!(Command::new("kill").args(["-HUP", &proxy.0.id().to_string()]).status().unwrap().success());
    let end = Instant::now() + Duration::from_secs(10);
    while !ask(admin, "GET /metrics").contains("config_reloads_total{result=\"ok\"} 1\n") {
        assert!(Instant::now() < end, "not reloaded");
        std::thread::sleep(Duration::from_millis(20));
    }
    let log = proxy.log();
    let events: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let at = |message: &str| events.iter().position(|event| event["message"] == message);
    let raised = &events[at("open files: limit raised").unwrap_or_else(|| panic!("{log}"))];
    assert_eq!((&raised["from"], &raised["to"]), (&300.into(), &2000.into()));
    assert!(at("configuration reloaded").unwrap() < at(told).unwrap_or_else(|| panic!("{log}")));
    let warning = &events[at(told).unwrap()];
    assert_eq!(warning["level"], "WARN");
    assert_eq!(log.matches("open files (").count(), 1, "once, when it is so: {log}");
}
