//! The command line (U-1). Each command is a module with `Args` and `run`; exit codes are 0 for done,
//! 1 for a failure at run time, 2 for a bad configuration or command line and for output that cannot be written, 3 for
//! an upgrade that did not happen.

mod certificates;
mod check;
mod demo;
mod descriptors;
mod ending;
mod explain;
mod input;
mod output;
mod pages;
mod probe;
mod reload;
mod report;
mod run;
mod schema;
mod screen;
mod sources;
mod takeover;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use self::screen::Screen;

/// A failure at run time, such as an address that is taken.
const FAILED: u8 = 1;
/// Nothing was started: the configuration or the command line is wrong.
const REFUSED: u8 = 2;
/// `--upgrade` took nothing over; the process that runs goes on.
const KEPT: u8 = 3;

/// A transparent reverse proxy that repairs what A2A hosts answer when something goes wrong.
#[derive(Debug, Parser)]
#[command(name = "a2a-errata", version, max_term_width = 100)]
#[command(after_help = "Examples:
  a2a-errata run --upstream 127.0.0.1:9000
  a2a-errata check --config /etc/a2a-errata.toml
  a2a-errata run --config /etc/a2a-errata.toml
  a2a-errata probe https://agent.example
  curl -si https://agent.example/a2a --json @request.json | a2a-errata explain --request request.json")]
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
    /// Turn a saved answer into the normalized one and say why.
    Explain(explain::Args),
    /// Check from outside what a host answers when something goes wrong.
    Probe(probe::Args),
    /// Print the completions of a shell.
    #[command(after_help = "Examples:
  a2a-errata completions bash > /etc/bash_completion.d/a2a-errata
  a2a-errata completions zsh > \"${fpath[1]}/_a2a-errata\"
  a2a-errata completions fish > ~/.config/fish/completions/a2a-errata.fish")]
    Completions { shell: Shell },
    /// Print the manual page, or write one for each command.
    #[command(after_help = "Examples:
  a2a-errata man | man -l -
  a2a-errata man --directory /usr/local/share/man/man1")]
    Man {
        /// Write `a2a-errata.1`, `a2a-errata-run.1` and so on there
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

/// Do what the command line says. Bad command lines end the process with code 2.
#[must_use]
pub fn main() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        // Help and the version are output like any other.
        Err(asked) if !asked.use_stderr() => {
            let text = asked.render();
            let text = if Screen::detect().colour { text.ansi().to_string() } else { text.to_string() };
            return output::print(text.as_bytes(), ExitCode::SUCCESS);
        }
        Err(wrong) => wrong.exit(),
    };
    match command {
        Command::Run(args) => run::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Completions { shell } => pages::completions(shell, Cli::command()),
        Command::Man { directory } => pages::man(directory.as_deref(), Cli::command()),
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

    /// Every command teaches by example, and says what its exit codes are where they tell something.
    #[test]
    fn every_command_has_examples() {
        for command in super::Cli::command().get_subcommands() {
            let name = command.get_name();
            if name == "demo" {
                continue; // its flags are its examples
            }
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:") && help.contains(&format!("a2a-errata {name}")), "{name}");
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
