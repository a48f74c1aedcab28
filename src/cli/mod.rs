//! The command line (U-1). Each command is a module with `Args` and `run`; exit codes are 0 for done,
//! 1 for a failure at run time, 2 for a bad configuration or command line.

mod check;
mod demo;
mod ending;
mod reload;
mod report;
mod run;
mod schema;
mod sources;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A failure at run time, such as an address that is taken.
const FAILED: u8 = 1;
/// Nothing was started: the configuration or the command line is wrong.
const REFUSED: u8 = 2;

/// A transparent reverse proxy that repairs what A2A hosts answer when something goes wrong.
#[derive(Debug, Parser)]
#[command(name = "a2a-errata", version, max_term_width = 100)]
#[command(after_help = "Examples:
  a2a-errata run --upstream 127.0.0.1:9000
  a2a-errata check --config /etc/a2a-errata.toml
  a2a-errata run --config /etc/a2a-errata.toml")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the proxy.
    Run(run::Args),
    /// Show the built-in legacy host with the proxy in front.
    Demo(demo::Args),
    /// Validate a configuration and print what is in effect.
    Check(check::Args),
    /// Print the JSON Schema of the configuration.
    Schema(schema::Args),
    /// Tell what is still repaired per host, and whether the shim can go.
    Report(report::Args),
}

/// Do what the command line says. Bad command lines end the process with code 2.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Report(args) => report::run(&args),
    }
}

/// Tell a person on stderr. One that went away is no reason to fail.
fn say(text: &str) {
    use std::io::Write as _;
    _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
