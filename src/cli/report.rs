//! `report`: what proxies still repair, and whether their shims can go. Reads `/report` of any number of
//! proxies, a Prometheus that scrapes them, or both; the criteria are `observe::removal`'s.

mod fetch;
mod merge;
mod prometheus;
mod table;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use super::{FAILED, REFUSED, output, say};
use crate::observe::removal::{CLEAN_DAYS, MOST_DAYS};
use crate::observe::report::{FORMAT, Host};

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
}

/// Print the table or the JSON.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    let summary = match gather(args) {
        Ok(summary) => summary,
        Err(says) => {
            say(&format!("a2a-errata: {says}"));
            return ExitCode::from(REFUSED);
        }
    };
    for problem in &summary.problems {
        say(&format!("a2a-errata: {problem}"));
    }
    let text = if args.json {
        serde_json::to_string_pretty(&summary).unwrap_or_default() + "\n"
    } else if summary.hosts.is_empty() {
        String::new()
    } else {
        let colour = std::io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        table::print(&summary.hosts, colour)
    };
    let done = match (summary.problems.is_empty(), summary.can_go) {
        (false, _) => ExitCode::from(REFUSED),
        (true, false) => ExitCode::from(FAILED),
        (true, true) => ExitCode::SUCCESS,
    };
    // 1 would say that a shim is still needed.
    output::print(text.as_bytes(), done, REFUSED)
}

fn gather(args: &Args) -> Result<Summary, String> {
    let client = fetch::Client::new(&args.header, Duration::from_secs(args.timeout))?;
    let default = ["127.0.0.1:9464".to_owned()];
    let urls = match (args.urls.is_empty(), &args.prometheus) {
        (true, None) => &default[..],
        _ => &args.urls,
    };
    let mut problems = Vec::new();
    let mut now = 0;
    let mut reports = Vec::new();
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
        match fetch::report(&client, &url) {
            Ok(report) => {
                now = now.max(report.now);
                reports.push(report.hosts);
            }
            Err(problem) => problems.push(problem),
        }
    }
    let mut hosts = merge::proxies(reports);
    if let Some(base) = &args.prometheus {
        let asked = fetch::base_url(base).and_then(|base| prometheus::hosts(&client, &base, args.clean_days));
        match asked {
            Ok((remembered, at)) => {
                now = now.max(at);
                hosts = merge::with_memory(hosts, remembered);
            }
            Err(problem) => problems.push(problem),
        }
    }
    merge::judge(&mut hosts, now, args.clean_days);
    if hosts.is_empty() && problems.is_empty() {
        problems.push("there is no host in any of this".to_owned());
    }
    let can_go = problems.is_empty() && hosts.iter().all(|host| host.can_go);
    Ok(Summary { format: FORMAT, clean_days: args.clean_days, can_go, hosts, problems })
}
