//! `report`: what proxies still repair, and whether their shims can go. Reads `/report` of any number of
//! proxies, a Prometheus that scrapes them, or both; the criteria are `observe::removal`'s.

mod coverage;
mod fetch;
mod merge;
mod prometheus;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use super::screen::{Screen, clean, cut};
use super::{FAILED, REFUSED, output, say};
use crate::observe::removal::{CLEAN_DAYS, MOST_DAYS};
use crate::observe::report::{FORMAT, Host, Report};

/// Tell what is still repaired per host, and whether the shim can go.
///
/// Reads the report of each proxy at its admin address, or asks a Prometheus, which remembers what proxies
/// counted before they were restarted.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Admin address of a proxy: HOST:PORT or a URL; one that is named twice counts once [default:
    /// 127.0.0.1:9464, without --prometheus]
    #[arg(value_name = "URL")]
    urls: Vec<String>,

    /// A Prometheus that scrapes the proxies: its base URL
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,

    /// For how many days an interface must have been clean
    #[arg(long, value_name = "N", default_value_t = CLEAN_DAYS, value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_DAYS)))]
    clean_days: u32,

    /// Print JSON, for machines
    #[arg(long)]
    json: bool,

    /// Send this header with every request, for what asks for credentials; repeat it for several
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,

    /// Seconds to wait for each answer
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=300))]
    timeout: u64,
}

const EXAMPLES: &str = "\
Examples:
  Of the proxy on this machine:
    a2a-errata report
  Of several, clean for a month:
    a2a-errata report 10.0.0.1:9464 10.0.0.2:9464 --clean-days 30
  As Prometheus remembers it, in a script:
    a2a-errata report --prometheus http://prometheus:9090 --json && echo \"take it out\"

Exit code 0: every shim can go. 1: at least one is still needed. 2: something could not be read, or the
report not be written.";

/// What is printed with `--json`.
#[derive(Debug, Serialize)]
struct Summary {
    /// That of the reports.
    format: u32,
    clean_days: u32,
    /// Every shim can go.
    can_go: bool,
    hosts: Vec<Host>,
    /// What could not be read.
    problems: Vec<String>,
    /// What was read under two names.
    notes: Vec<String>,
}

/// Print the table or the JSON.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    let client = match fetch::Client::new(&args.header, Duration::from_secs(args.timeout)) {
        Ok(client) => client,
        Err(says) => {
            say(&format!("a2a-errata: {}", one_line(&says)));
            return ExitCode::from(REFUSED);
        }
    };
    let (summary, secrets) = (gather(args, &client), client.secrets());
    for line in summary.problems.iter().chain(&summary.notes) {
        say(&format!("a2a-errata: {}", one_line(&secrets.hide(line))));
    }
    let text = if args.json {
        serde_json::to_string_pretty(&summary).unwrap_or_default() + "\n"
    } else if summary.hosts.is_empty() {
        String::new()
    } else {
        let colour = Screen::detect().colour;
        table::print(&summary.hosts, summary.problems.is_empty(), colour)
    };
    let done = match (summary.problems.is_empty(), summary.can_go) {
        (false, _) => ExitCode::from(REFUSED),
        (true, false) => ExitCode::from(FAILED),
        (true, true) => ExitCode::SUCCESS,
    };
    // 1 would say that a shim is still needed.
    output::print(secrets.hide(&text).as_bytes(), done)
}

/// What others wrote, in a line that orders no terminal about, and ends.
fn one_line(text: &str) -> String {
    const MOST: usize = 600;
    cut(&clean(&text.replace(['\n', '\r'], " ")), MOST)
}

fn gather(args: &Args, client: &fetch::Client) -> Summary {
    let default = ["127.0.0.1:9464".to_owned()];
    let urls = match (args.urls.is_empty(), &args.prometheus) {
        (true, None) => &default[..],
        _ => &args.urls,
    };
    let (mut problems, mut notes) = (Vec::new(), Vec::new());
    let mut now = 0;
    let mut reports: Vec<(String, Report)> = Vec::new();
    let mut asked = Vec::new();
    for url in urls {
        let url = match fetch::admin_url(url) {
            // What one proxy counted counts once, however often and however it was named.
            Ok(url) if asked.contains(&url.place()) => continue,
            Ok(url) => url,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        asked.push(url.place());
        match fetch::report(client, &url) {
            Ok(report) => {
                let is_it = |(_, known): &&(String, Report)| {
                    !report.instance.is_empty() && known.instance == report.instance
                };
                if let Some((first, _)) = reports.iter().find(is_it) {
                    notes.push(format!("{}: is the same proxy as {first}, and counts once", url.url));
                    continue;
                }
                now = now.max(report.now);
                reports.push((url.url, report));
            }
            Err(problem) => problems.push(problem),
        }
    }
    let mut hosts = merge::proxies(reports.iter().map(|(_, report)| &*report.hosts));
    let mut limits = Vec::new();
    if let Some(base) = &args.prometheus {
        let asked = fetch::base_url(base).and_then(|base| prometheus::memory(client, &base, args.clean_days));
        match asked {
            Ok(memory) => {
                now = now.max(memory.now);
                limits = memory.limits;
                problems.extend(memory.lost);
                notes.extend(memory.notes);
                hosts = merge::with_memory(hosts, memory.hosts);
                for (url, report) in &reports {
                    let is_it = |began: &i64| began.abs_diff(report.started) <= 1;
                    if !memory.starts.iter().any(is_it) {
                        let says = format!("{url} is not scraped, so what ran there before is not known");
                        merge::forgets(&mut hosts, &report.hosts, &says, &mut limits);
                    }
                }
            }
            Err(problem) => problems.push(problem),
        }
    }
    if hosts.is_empty() && problems.is_empty() {
        problems.push("there is no host in any of this".to_owned());
    }
    merge::judge(&mut hosts, now, args.clean_days, &limits, problems.is_empty());
    let can_go = problems.is_empty() && hosts.iter().all(|host| host.can_go);
    Summary { format: FORMAT, clean_days: args.clean_days, can_go, hosts, problems, notes }
}
