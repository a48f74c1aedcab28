//! What packagers want: shell completions and manual pages, made from the command line itself.
//!
//! The libraries that make them have faults of their own; what is mended here is what running the scripts and
//! rendering the pages brought to light (`tests/cli_pages.rs`, and bash in `tests/cli_probe.rs`).

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use super::{REFUSED, output, say};

/// Prints the completions of `shell`.
pub fn completions(shell: Shell, mut command: Command) -> ExitCode {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, &name, &mut script);
    let script = String::from_utf8_lossy(&script);
    let script = match shell {
        Shell::Bash => one_spelling(&script, &name),
        Shell::Fish => with_words(&script, &command),
        _ => script.into_owned(),
    };
    output::print(script.as_bytes(), ExitCode::SUCCESS)
}

/// clap_complete up to 4.6.12, the newest there is, spells a dash in the program's name `__` where its script for bash
/// finds out which command is meant, and `__subcmd__` where it looks that command up: with a dash, no command is
/// ever found. `tests/cli_probe.rs` runs the script; this can go once that passes without.
fn one_spelling(script: &str, name: &str) -> String {
    script.replace(&name.replace('-', "__subcmd__"), &name.replace('-', "__"))
}

/// The same releases offer nothing after `help`, which they take for the command that is asked about, and no values
/// of arguments that are told by their place.
fn with_words(script: &str, command: &Command) -> String {
    let name = command.get_name();
    let function = name.replace('-', "_");
    let mut mended = String::new();
    for line in script.lines() {
        let asks_help = line.contains(&format!("__fish_{function}_using_subcommand help; and not "));
        mended.push_str(&if asks_help { line.replacen(" help\" -f", "\" -f", 1) } else { line.to_owned() });
        mended.push('\n');
    }
    for subcommand in command.get_subcommands() {
        for argument in subcommand.get_positionals() {
            let values = argument.get_possible_values();
            let words: Vec<&str> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
            if !words.is_empty() {
                let _ = writeln!(
                    mended,
                    "complete -c {name} -n \"__fish_{function}_using_subcommand {}\" -f -a \"{}\"",
                    subcommand.get_name(),
                    words.join(" ")
                );
            }
        }
    }
    mended
}

/// Prints the manual page, or writes one for each command to `directory`.
pub fn man(directory: Option<&Path>, command: Command) -> ExitCode {
    let Some(directory) = directory else {
        return match page(command) {
            Ok(page) => output::print(page.as_bytes(), ExitCode::SUCCESS),
            Err(why) => failed(&format!("make the manual page: {why}")),
        };
    };
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let all = command.get_subcommands().filter(|one| !one.is_hide_set()).cloned().collect::<Vec<_>>();
    let write = |command: Command| {
        let file = directory.join(format!("{}.1", title(&command)));
        page(command).and_then(|page| std::fs::write(file, page))
    };
    let made = std::fs::create_dir_all(directory)
        .and_then(|()| all.into_iter().chain([command.clone()]).try_for_each(write));
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => failed(&format!("write manual pages to {}: {why}", directory.display())),
    }
}

fn title(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// clap_mangen writes an empty date as nothing, so that readers take what follows for it; characters beyond ASCII,
/// which not every reader knows the encoding of; and paragraphs that linters warn of.
fn page(command: Command) -> std::io::Result<String> {
    let head = format!(
        ".TH {} 1 \"\" \"a2a-errata {}\" \"User Commands\"",
        title(&command),
        env!("CARGO_PKG_VERSION")
    );
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    let mut mended = String::new();
    for line in String::from_utf8_lossy(&page).lines() {
        for c in if line.starts_with(".TH ") { &head } else { line }.chars() {
            if c.is_ascii() {
                mended.push(c);
            } else {
                let _ = write!(mended, "\\[u{:04X}]", u32::from(c));
            }
        }
        mended.push('\n');
    }
    Ok(mended.replace("\n.br\n\n.br\n", "\n.sp\n").replace("\n\n.br\n", "\n\n"))
}

fn failed(what: &str) -> ExitCode {
    say(&format!("a2a-errata: cannot {what}"));
    ExitCode::from(REFUSED)
}
