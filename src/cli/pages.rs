//! What packagers want: shell completions and manual pages, made from the command line itself.

use std::path::Path;
use std::process::ExitCode;

use clap_complete::Shell;

use super::{FAILED, output, say};

/// Prints the completions of `shell`.
pub fn completions(shell: Shell, mut command: clap::Command) -> ExitCode {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, &name, &mut script);
    let script = String::from_utf8_lossy(&script);
    let script = if shell == Shell::Bash { one_spelling(&script, &name) } else { script.into_owned() };
    output::print(script.as_bytes(), ExitCode::SUCCESS, FAILED)
}

/// clap_complete up to 4.6.12, the newest there is, spells a dash in the program's name `__` where its script for bash
/// finds out which command is meant, and `__subcmd__` where it looks that command up: with a dash, no command is
/// ever found. `tests/cli_probe.rs` runs the script; this can go once that passes without.
fn one_spelling(script: &str, name: &str) -> String {
    script.replace(&name.replace('-', "__subcmd__"), &name.replace('-', "__"))
}

/// Prints the manual page, or writes one for each command to `directory`.
pub fn man(directory: Option<&Path>, command: clap::Command) -> ExitCode {
    let Some(directory) = directory else {
        let mut page = Vec::new();
        return match clap_mangen::Man::new(command).render(&mut page) {
            Ok(()) => output::print(&page, ExitCode::SUCCESS, FAILED),
            Err(why) => failed(&format!("make the manual page: {why}")),
        };
    };
    let made = std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(command, directory));
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => failed(&format!("write manual pages to {}: {why}", directory.display())),
    }
}

fn failed(what: &str) -> ExitCode {
    say(&format!("a2a-errata: cannot {what}"));
    ExitCode::from(FAILED)
}
