//! What packagers want: shell completions and manual pages, made from the command line itself.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap_complete::Shell;

use super::{FAILED, say};

/// Prints the completions of `shell`.
pub fn completions(shell: Shell, mut command: clap::Command) -> ExitCode {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    done(io::stdout().write_all(&script), "print the completions")
}

/// Prints the manual page, or writes one for each command to `directory`.
pub fn man(directory: Option<&Path>, command: clap::Command) -> ExitCode {
    let Some(directory) = directory else {
        let mut page = Vec::new();
        let made = clap_mangen::Man::new(command).render(&mut page);
        return done(made.and_then(|()| io::stdout().write_all(&page)), "print the manual page");
    };
    let made = std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(command, directory));
    done(made, &format!("write manual pages to {}", directory.display()))
}

fn done(result: io::Result<()>, what: &str) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that went away (`| head`) is no failure.
        Err(why) if why.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(why) => {
            say(&format!("a2a-errata: cannot {what}: {why}"));
            ExitCode::from(FAILED)
        }
    }
}
