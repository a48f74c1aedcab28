//! What `explain` prints: the client's answer, the difference, and the rules; or the same as JSON.

use std::fmt::Write as _;

use base64::Engine as _;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use super::Explained;
use crate::cli::screen::{Ink, Screen, clean, readable, wrap};
use crate::normalize::{DroppedKind, Mode, Rule, Verdict};
use crate::protocol::tree::Text;

/// Lines of an answer or a difference that are shown.
const LINES: usize = 400;

/// For people.
pub fn text(screen: Screen, explained: &Explained) -> String {
    let Explained { told, got, notes } = explained;
    let mut out = String::new();
    let before = lines(told.status, &told.headers, &told.body);
    let after = lines(got.status, &got.headers, &got.body);
    let _ = writeln!(out, "{}", screen.rule("the client gets"));
    for line in shown(&after) {
        let _ = writeln!(out, "{}", line.trim_end());
    }
    if !got.complete {
        out.push_str("(cut off here)\n");
    }
    out.push('\n');
    if before == after {
        let _ = writeln!(out, "{}\n", screen.paint(Ink::Good, "That is what the host said, byte for byte."));
    } else {
        let _ = writeln!(out, "{}", screen.rule("what changed"));
        out.push_str(&difference(screen, &before, &after));
        out.push('\n');
    }
    let _ = writeln!(out, "{}", screen.rule("why"));
    out.push_str(&rules(screen, got.outcome.rules.iter()));
    for note in notes {
        for (at, line) in wrap(&clean(&format!("note: {note}")), screen.width - 2).iter().enumerate() {
            let _ = writeln!(out, "{}{}", if at == 0 { "" } else { "  " }, screen.paint(Ink::Dim, line));
        }
    }
    let _ = writeln!(out, "\n{}", verdict(screen, explained));
    out
}

/// The last line: what became of the answer.
fn verdict(screen: Screen, explained: &Explained) -> String {
    let outcome = &explained.got.outcome;
    let reason = outcome.reason.map_or_else(String::new, |reason| format!(" as {reason}"));
    let observed = if explained.got.mode == Mode::Observe {
        "; the host is observed only, so its bytes pass"
    } else {
        ""
    };
    match outcome.verdict {
        Verdict::Passed => screen.paint(Ink::Good, "Passes: a success, or nothing that a rule binds."),
        Verdict::Conformant => screen.paint(Ink::Good, "Conformant: an error in shape already."),
        Verdict::Rewritten => screen.paint(Ink::Bad, &format!("Rewritten{reason}{observed}.")),
        Verdict::Overflow => screen.paint(Ink::Bad, &format!("Replaced: over the byte limit{observed}.")),
        Verdict::Synthesized => {
            screen.paint(Ink::Bad, &format!("Replaced: the host gave no complete answer{observed}."))
        }
        Verdict::Refused => screen.paint(Ink::Bad, "Refused: the request is over limits.request_bytes."),
    }
}

fn rules(screen: Screen, fired: impl Iterator<Item = Rule>) -> String {
    let mut out = String::new();
    for rule in fired {
        let source = if rule.source().is_empty() { String::new() } else { format!(" [{}]", rule.source()) };
        let lines = wrap(&format!("{}{source}", rule.does()), screen.width.saturating_sub(7));
        for (at, line) in lines.iter().enumerate() {
            let id = if at == 0 { rule.id() } else { "" };
            let _ = writeln!(out, "{}  {line}", screen.paint(Ink::Bold, &format!("{id:<5}")));
        }
    }
    if out.is_empty() {
        out.push_str("no rule fired\n");
    }
    out
}

fn difference(screen: Screen, before: &[String], after: &[String]) -> String {
    let (before, after) = (before.join("\n"), after.join("\n"));
    let diff = TextDiff::from_lines(&before, &after);
    let mut out = String::new();
    for (at, change) in diff.iter_all_changes().enumerate() {
        if at == LINES {
            out.push_str("…\n");
            break;
        }
        let line = change.value().trim_end_matches('\n');
        let (sign, ink) = match change.tag() {
            ChangeTag::Delete => ('-', Ink::Bad),
            ChangeTag::Insert => ('+', Ink::Good),
            ChangeTag::Equal => (' ', Ink::Dim),
        };
        let _ = writeln!(out, "{}", screen.paint(ink, format!("{sign} {line}").trim_end()));
    }
    out
}

/// An answer in lines: the status, the headers, the body as it reads best.
fn lines(status: StatusCode, headers: &HeaderMap, body: &Bytes) -> Vec<String> {
    let reason = status.canonical_reason().unwrap_or_default();
    let mut lines = vec![format!("HTTP {} {reason}", status.as_u16()).trim_end().to_owned()];
    for (name, value) in headers {
        lines.push(clean(&format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))));
    }
    lines.push(String::new());
    lines.extend(readable(body));
    lines
}

fn shown(lines: &[String]) -> impl Iterator<Item = &str> {
    let more = (lines.len() > LINES).then_some("…");
    lines.iter().take(LINES).map(String::as_str).chain(more)
}

/// The client's answer as it goes over the wire, but for the framing of its connection.
pub fn raw(explained: &Explained) -> Vec<u8> {
    let got = &explained.got;
    let reason = got.status.canonical_reason().unwrap_or_default();
    let mut out = format!("HTTP/1.1 {} {reason}\r\n", got.status.as_u16()).into_bytes();
    for (name, value) in &got.headers {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&got.body);
    out
}

/// For machines.
pub fn json(explained: &Explained) -> String {
    let Explained { got, notes, .. } = explained;
    let outcome = &got.outcome;
    let rules: Vec<Value> = outcome
        .rules
        .iter()
        .map(|rule| json!({"id": rule.id(), "does": rule.does(), "source": rule.source()}))
        .collect();
    let headers: Vec<Value> = got
        .headers
        .iter()
        .map(|(name, value)| json!([name.as_str(), String::from_utf8_lossy(value.as_bytes())]))
        .collect();
    let dropped: serde_json::Map<String, Value> = DroppedKind::ALL
        .iter()
        .zip(outcome.dropped)
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| (kind.as_str().to_owned(), count.into()))
        .collect();
    let mut answer = json!({"status": got.status.as_u16(), "headers": headers, "complete": got.complete});
    let (name, body) = match std::str::from_utf8(&got.body) {
        Ok(text) => ("body", text.to_owned()),
        Err(_) => ("bodyBase64", base64::engine::general_purpose::STANDARD.encode(&got.body)),
    };
    if let Some(answer) = answer.as_object_mut() {
        answer.insert(name.to_owned(), body.into());
    }
    let all = json!({
        "verdict": outcome.verdict.as_str(),
        "bound": got.bound,
        "host": got.host,
        "reason": outcome.reason,
        "rules": rules,
        "dropped": dropped,
        "droppedNames": outcome.dropped_names.iter().map(Text::as_str).collect::<Vec<_>>(),
        "collapsed": outcome.collapsed,
        "answer": answer,
        "notes": notes,
    });
    format!("{all:#}\n")
}
