//! `check`: validate a configuration and print what is in effect, with where each value came from (U-2).
//! What it prints is TOML and can be used as a configuration again.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use super::screen::Screen;
use super::sources::{self, Sources};
use super::{FAILED, REFUSED};
use crate::config::{Effective, Line, Place};

/// Validate a configuration and print what is in effect.
///
/// Prints every key with its value and where it was set: a line of the file, a variable, a flag, or the
/// default. What is printed is TOML: it can be used as a configuration file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  a2a-errata check --config /etc/a2a-errata.toml
  A2A_ERRATA_HOSTS__0__MODE=observe a2a-errata check --config /etc/a2a-errata.toml

Exit code 0: it may be run. 2: it may not; every problem is told with file, line, key and what would
be right.", after_long_help = help())]
pub struct Args {
    #[command(flatten)]
    sources: Sources,
}

fn help() -> String {
    format!(
        "Examples:
  a2a-errata check --config /etc/a2a-errata.toml
  A2A_ERRATA_HOSTS__0__MODE=observe a2a-errata check --config /etc/a2a-errata.toml

{}

Exit code 0: it may be run. 2: it may not; every problem is told with file, line, key and what would
be right.",
        sources::ENVIRONMENT
    )
}

/// Print the effective configuration, or every problem.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    let effective = match args.sources.load() {
        Ok(effective) => effective,
        Err(problems) => {
            sources::refuse(&problems);
            return ExitCode::from(REFUSED);
        }
    };
    for warning in sources::warnings(&effective.model) {
        super::say(&format!("a2a-errata: warning: {warning}"));
    }
    let mut stdout = std::io::stdout();
    let colour = Screen::detect().colour;
    let text = format!("# {}: valid\n{}", args.sources.title(), print(&effective, colour));
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(FAILED),
    }
}

/// Longest value that the places are still aligned behind.
const ALIGN: usize = 44;

/// As TOML: `key = value`, aligned, with the place as a comment.
fn print(effective: &Effective, colour: bool) -> String {
    let rows: Vec<(&str, &str, &Line)> = effective.lines.iter().map(row).collect();
    let width = |row: &(&str, &str, &Line)| row.1.len() + 3 + row.2.value.chars().count();
    let column = rows.iter().map(width).filter(|width| *width <= ALIGN).max().unwrap_or(0);
    let paint = |code: &str, text: &str| {
        if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    };
    let mut text = String::new();
    let mut last = "";
    for row in &rows {
        let (table, name, line) = *row;
        if table != last {
            last = table;
            let header = match table.split_once('[') {
                Some(_) => format!("[[{}]]", without_indexes(table)),
                None => format!("[{table}]"),
            };
            _ = write!(text, "\n{}\n", paint("1", &header));
        }
        let gap = " ".repeat(column.saturating_sub(width(row)) + 2);
        let place = place(&line.place);
        let place = if line.place == Place::Default { paint("2", &place) } else { paint("32", &place) };
        _ = writeln!(text, "{} = {}{gap}{place}", paint("36", name), line.value);
    }
    text
}

/// The table of a key (up to its last index) and what remains: `hosts[0]`, `oracle.floor_ms`.
fn row(line: &Line) -> (&str, &str, &Line) {
    let key = line.key.as_str();
    let (table, name) = match key.rsplit_once("].") {
        Some((table, name)) => (key.get(..=table.len()).unwrap_or(table), name),
        None => key.split_once('.').unwrap_or(("", key)),
    };
    (table, name, line)
}

/// `hosts[0].interfaces[1]` as a header says it: `hosts.interfaces`.
fn without_indexes(table: &str) -> String {
    table.split('.').map(|part| part.split('[').next().unwrap_or(part)).collect::<Vec<_>>().join(".")
}

fn place(place: &Place) -> String {
    match place {
        Place::File { path, line, .. } => format!("# {}:{line}", path.display()),
        Place::Default | Place::WholeFile(_) | Place::Env(_) | Place::Flag(_) => format!("# {place}"),
    }
}
