//! Completions as shells execute them, and manual pages as readers render them. What is not installed is not run,
//! and says so. Bash is in `cli_probe.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What a person types before the tab key, and what is offered.
const PRESSES: [(&str, &[&str]); 9] = [
    ("pro", &["probe"]),
    ("probe --ju", &["--junit"]),
    ("probe https://a.example --foreign", &["--foreign-task"]),
    ("probe --binding ", &["HTTP+JSON", "JSONRPC"]),
    ("explain --binding H", &["HTTP+JSON"]),
    ("completions z", &["zsh"]),
    ("run --log-level w", &["warn"]),
    ("help exp", &["explain"]),
    ("man --dir", &["--directory"]),
];

fn a2a_errata(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_a2a-errata")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// `None` if there is no such program; it must end in time.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    let is_there = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    if is_there.is_err() {
        eprintln!("not run: {program} is not installed (Debian package {program})");
        return None;
    }
    let timeout = [&["60", program], arguments].concat();
    Some(
        Command::new("timeout").args(timeout).env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).output().unwrap(),
    )
}

fn sorted(output: &Output) -> Vec<String> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    // Fish tells what each word is for after a tab.
    let mut words: Vec<String> = text
        .lines()
        .map(|line| line.split('\t').next().unwrap().to_owned())
        .filter(|word| !word.is_empty())
        .collect();
    words.sort();
    words.dedup();
    words
}

#[test]
fn fish_completes_at_every_depth() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("a2a-errata.fish");
    std::fs::write(&script, a2a_errata(&["completions", "fish"])).unwrap();
    for (typed, wanted) in PRESSES {
        let press = format!("source {}; complete -C 'a2a-errata {typed}'", script.display());
        let Some(output) = run("fish", &["--no-config", "-c", &press]) else { return };
        assert_eq!(sorted(&output), wanted, "{typed}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A shell on a terminal of its own, whose keys are pressed; what its completion adds is written down.
const ZSH: &str = r#"
    zmodload zsh/zpty
    typeset -x OFFERED=$1/offered
    wait_for() { repeat 400; do [[ -e $1 ]] && return; zpty -r -t shell seen; sleep 0.1; done }
    zpty shell zsh -f -i
    zpty -w shell "PROMPT=; fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D; source ${(q)1}/listen"
    wait_for $OFFERED.ready
    zpty -w -n shell "$2"$'\t'
    zpty -w shell $'\025print > $OFFERED.done'
    wait_for $OFFERED.done
    zpty -d shell
    [[ -e $OFFERED ]] && cat $OFFERED
"#;
const LISTEN: &str = r#"
    compadd() {
        local -a offered
        if (( ! ${@[(I)-[OAD]]} )); then
            builtin compadd -A offered "$@"
            print -rl -- $offered >> $OFFERED
        fi
        builtin compadd "$@"
    }
    zle-line-init() { print > $OFFERED.ready }
    zle -N zle-line-init
"#;

#[test]
fn zsh_completes_at_every_depth() {
    let script = a2a_errata(&["completions", "zsh"]);
    for (typed, wanted) in PRESSES {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("_a2a-errata"), &script).unwrap();
        std::fs::write(folder.path().join("listen"), LISTEN).unwrap();
        let place = folder.path().to_str().unwrap();
        let Some(output) = run("zsh", &["-f", "-c", ZSH, "zsh", place, &format!("a2a-errata {typed}")])
        else {
            return;
        };
        assert_eq!(sorted(&output), wanted, "{typed}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

fn pages(folder: &Path) -> Vec<String> {
    a2a_errata(&["man", "--directory", folder.to_str().unwrap()]);
    let mut pages: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .collect();
    pages.sort();
    assert!(pages.len() >= 10, "{pages:?}");
    let single = folder.join("single.1");
    std::fs::write(&single, a2a_errata(&["man"])).unwrap();
    pages.push(single.to_str().unwrap().to_owned());
    pages
}

#[test]
fn manual_pages_render_without_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    for page in pages(folder.path()) {
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.is_ascii(), "{page}");
        if let Some(output) = run("groff", &["-man", "-Tutf8", "-ww", "-z", &page]) {
            assert!(output.status.success() && output.stderr.is_empty(), "{page}: {output:?}");
        }
        if let Some(output) = run("mandoc", &["-Tlint", "-W", "warning", &page]) {
            let told = String::from_utf8(output.stdout).unwrap();
            // A page of a build has no date.
            let warnings: Vec<&str> = told.lines().filter(|line| !line.contains("missing date")).collect();
            assert!(warnings.is_empty(), "{page}: {warnings:?}");
        }
        if let Some(output) = run("man", &["-l", &page]) {
            let shown = String::from_utf8(output.stdout).unwrap();
            assert!(
                shown.contains("User Commands")
                    && shown.contains(&format!("a2a-errata {}", env!("CARGO_PKG_VERSION"))),
                "{page}: {shown}"
            );
        }
    }
}
