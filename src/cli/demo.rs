//! `demo`: a built-in legacy host with the proxy in front of it. Not part of this build yet.

use std::process::ExitCode;

/// What `demo` may be told.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Says that there is no demo yet.
#[must_use]
pub fn run(_args: &Args) -> ExitCode {
    eprintln!("a2a-errata: this build does not support `demo` yet");
    ExitCode::from(1)
}
