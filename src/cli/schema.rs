//! `schema`: print the JSON Schema of the configuration, for editors and checks.

use std::process::ExitCode;

use super::output;
use crate::config;

/// Print the JSON Schema of the configuration.
///
/// Editors check and complete a configuration with it; `config/schema.json` is this output.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  a2a-errata schema > a2a-errata.schema.json
  Then, on top of a configuration, for editors that use Taplo:
    #:schema ./a2a-errata.schema.json")]
pub struct Args {}

/// Print it.
#[must_use]
pub fn run(_: &Args) -> ExitCode {
    let text = serde_json::to_string_pretty(&config::schema()).unwrap_or_default() + "\n";
    output::print(text.as_bytes(), ExitCode::SUCCESS)
}
