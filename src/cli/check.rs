//! `check`: validate a configuration and print what is in effect, with where each value came from (U-2).
//! What it prints is TOML and can be used as a configuration again.

use std::process::ExitCode;

use super::screen::Screen;
use super::sources::{self, Sources};
use super::{REFUSED, output};

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
    let colour = Screen::detect().colour;
    let text = format!("# {}: valid\n{}", args.sources.title(), effective.to_toml(colour));
    output::print(text.as_bytes(), ExitCode::SUCCESS)
}
