//! What the documents promise is there: each test that `SECURITY.md` names, each file and heading that a document
//! links to.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What stands between backticks, outside of code blocks.
fn quoted(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            all.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    all
}

#[test]
fn the_tests_that_are_named_exist() {
    let places = |file: &str| [format!("tests/{file}.rs"), format!("tests/rules_table/{file}.rs")];
    let named: Vec<_> = quoted(&read(&root().join("SECURITY.md")))
        .into_iter()
        .filter_map(|name| name.split_once("::").map(|(file, test)| (file.to_owned(), test.to_owned())))
        .collect();
    assert!(named.len() > 30, "{named:?}");
    for (file, test) in named {
        let path = places(&file).into_iter().map(|place| root().join(place)).find(|path| path.exists());
        let path = path.unwrap_or_else(|| panic!("{file}::{test}: no such file"));
        let text = read(&path);
        let at = text.find(&format!("fn {test}(")).unwrap_or_else(|| panic!("{file}::{test} does not exist"));
        let before = text.get(..at).unwrap().trim_end();
        assert!(before.ends_with("#[test]"), "{file}::{test} is no test, or one that is left out");
    }
}

/// Every document of the repository, so not what is installed below `target`.
fn documents() -> Vec<PathBuf> {
    let listed = Command::new("git").args(["ls-files", "*.md"]).current_dir(root()).output().unwrap();
    let all = String::from_utf8(listed.stdout).unwrap();
    all.lines().map(|name| root().join(name)).collect()
}

/// A heading as it is linked to.
fn anchor(heading: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
    heading.to_lowercase().chars().filter(|c| kept(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_lead_somewhere() {
    let documents = documents();
    assert!(documents.len() > 5, "{documents:?}");
    for document in documents {
        let text = read(&document);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let path = if file.is_empty() { document.clone() } else { document.parent().unwrap().join(file) };
            assert!(path.exists(), "{}: {link} leads nowhere", document.display());
            if !heading.is_empty() {
                let headings = read(&path);
                let found = headings.lines().filter_map(|line| line.strip_prefix('#'));
                let mut found = found.map(|line| anchor(line.trim_start_matches('#').trim()));
                assert!(
                    found.any(|known| known == heading),
                    "{}: {link}: no such heading",
                    document.display()
                );
            }
        }
    }
}

/// Whoever tries the README gets what it says they get.
#[test]
fn the_task_that_is_asked_for_is_somebody_elses() {
    let readme = read(&root().join("README.md"));
    let asked = format!("\"params\":{{\"id\":\"{}\"}}", a2a_errata::demo::FOREIGN);
    assert_eq!(readme.matches("\"params\":{\"id\":\"acme").count(), readme.matches(&asked).count());
    assert!(readme.contains(&asked));
}
