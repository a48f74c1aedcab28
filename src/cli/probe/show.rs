//! What `probe` prints: a table for people, JSON for machines.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Probed;
use crate::cli::screen::{self, Ink, Screen, pad, wrap};
use crate::probe::{CHECKS, Finding, Interface, Protocol, Verdict};

/// The longest check's id.
const CHECK: usize = 18;
/// The longest verdict.
const VERDICT: usize = 14;

/// The table.
pub fn text(screen: Screen, probed: &Probed) -> String {
    let mut out = String::new();
    for note in &probed.notes {
        out.push_str(&indented(screen, Ink::Dim, "note: ", note, 0));
    }
    for (interface, findings) in &probed.interfaces {
        let _ = writeln!(out, "{}", screen.rule(&screen::clean(&title(interface))));
        if interface.protocol == Protocol::V0_3 {
            let note = "it offers 0.3 only, which RFC 0211 does not bind; this is what a 1.0 host would have to change";
            out.push_str(&indented(screen, Ink::Dim, "note: ", note, 0));
        }
        for finding in findings {
            out.push_str(&row(screen, finding));
        }
        out.push('\n');
    }
    let (passed, failed, none) =
        (probed.count(Verdict::Pass), probed.count(Verdict::Fail), probed.count(Verdict::NotApplicable));
    let not_run = match probed.count(Verdict::NotRun) {
        0 => String::new(),
        checks => format!(", {checks} not run: budget (--max-requests)"),
    };
    let undecided = match probed.count(Verdict::Undecided) {
        0 => String::new(),
        checks => format!(", {checks} undecided"),
    };
    let last = format!(
        "{passed} passed, {failed} failed, {none} not applicable{undecided}{not_run}; {} requests",
        probed.requests
    );
    let ink = match failed {
        0 if !probed.is_open() => Ink::Good,
        0 => Ink::Host,
        _ => Ink::Bad,
    };
    let _ = writeln!(out, "{}", screen.paint(ink, &last));
    out
}

/// What the interface is called.
pub(super) fn title(interface: &Interface) -> String {
    let versions = if interface.versions.is_empty() {
        String::new()
    } else {
        format!(" ({})", interface.versions.join(", "))
    };
    format!("{} {}{versions}", interface.binding.as_str(), interface.url())
}

fn row(screen: Screen, finding: &Finding) -> String {
    let ink = match finding.verdict {
        Verdict::Pass => Ink::Good,
        Verdict::Fail => Ink::Bad,
        Verdict::NotApplicable => Ink::Dim,
        Verdict::Undecided | Verdict::NotRun => Ink::Host,
    };
    let said = screen.paint(ink, &pad(finding.verdict.as_str(), VERDICT));
    let source = match finding.verdict {
        Verdict::Fail => format!("{} [{}]", finding.reason, finding.check.source),
        Verdict::Pass | Verdict::NotApplicable | Verdict::Undecided | Verdict::NotRun => {
            finding.reason.clone()
        }
    };
    let before = CHECK + VERDICT + 4;
    let mut out = String::new();
    for (at, line) in
        wrap(&screen::clean(&source), screen.width.saturating_sub(before).max(30)).iter().enumerate()
    {
        if at == 0 {
            let _ = writeln!(out, "{}  {said}  {line}", pad(finding.check.id, CHECK));
        } else {
            let _ = writeln!(out, "{}{line}", " ".repeat(before));
        }
    }
    for note in &finding.notes {
        out.push_str(&indented(screen, Ink::Dim, "note: ", note, before));
    }
    out
}

fn indented(screen: Screen, ink: Ink, begins: &str, text: &str, by: usize) -> String {
    let room = screen.width.saturating_sub(by).max(30);
    let lines = wrap(&screen::clean(&format!("{begins}{text}")), room);
    let mut out = String::new();
    for line in lines {
        let _ = writeln!(out, "{}{}", " ".repeat(by), screen.paint(ink, &line));
    }
    out
}

/// `--list`.
pub fn list(screen: Screen) -> String {
    let mut out = String::new();
    for check in CHECKS {
        let room = screen.width.saturating_sub(CHECK + 2).max(30);
        for (at, line) in wrap(&format!("{} [{}]", check.tests, check.source), room).iter().enumerate() {
            let _ = writeln!(out, "{}  {line}", pad(if at == 0 { check.id } else { "" }, CHECK));
        }
    }
    out
}

/// For machines.
pub fn json(probed: &Probed) -> String {
    let finding = |finding: &Finding| {
        json!({
            "check": finding.check.id,
            "tests": finding.check.tests,
            "source": finding.check.source,
            "verdict": finding.verdict.as_str(),
            "reason": finding.reason,
            "notes": finding.notes,
        })
    };
    let interface = |(interface, findings): &(Interface, Vec<Finding>)| {
        json!({
            "url": interface.url(),
            "binding": interface.binding.as_str(),
            "versions": interface.versions,
            "protocol": match interface.protocol { Protocol::V1_0 => "1.0", Protocol::V0_3 => "0.3" },
            "findings": findings.iter().map(finding).collect::<Vec<Value>>(),
        })
    };
    let all = json!({
        "url": probed.url,
        "requests": probed.requests,
        "passed": probed.count(Verdict::Pass),
        "failed": probed.count(Verdict::Fail),
        "notApplicable": probed.count(Verdict::NotApplicable),
        "undecided": probed.count(Verdict::Undecided),
        "notRun": probed.count(Verdict::NotRun),
        "problems": probed.problems,
        "notes": probed.notes,
        "interfaces": probed.interfaces.iter().map(interface).collect::<Vec<Value>>(),
    });
    let mut out = String::new();
    // Outside of strings there are none of these; inside, an escape says the same.
    for c in format!("{all:#}\n").chars() {
        if screen::is_hidden(c) || (c.is_control() && c != '\n') {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_says_cannot_turn_a_line_around() {
        assert_eq!(screen::clean("a\u{202e}b\x1b[2J\u{9b}\u{2066}"), "a\\u{202e}b\\u{1b}[2J\\u{9b}\\u{2066}");
        let probed = Probed {
            url: "http://h".to_owned(),
            notes: vec!["a\u{202e}b\u{9b}\u{e0041}\x1b".to_owned()],
            problems: Vec::new(),
            requests: 0,
            interfaces: Vec::new(),
        };
        let text = json(&probed);
        assert!(text.contains(r"a\u202eb\u009b\udb40\udc41\u001b"), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["notes"][0], probed.notes[0].as_str());
    }

    #[test]
    fn ids_fit_their_column() {
        for check in CHECKS {
            assert!(check.id.len() <= CHECK, "{}", check.id);
        }
    }
}
