//! How the demo looks: answers side by side, and the table. Text only; nothing here decides anything.

use std::fmt::Write as _;

use super::verdict::{Verdict, read_answer};
use super::{Played, wire::Reply};
use crate::cli::screen::{Ink, Screen, clean, cut, line_of, pad, readable, wrap};
use crate::demo::{Expect, Scenario};

/// Lines of a body that are shown side by side.
const BODY_LINES: usize = 26;
/// Below this many columns nothing stands side by side.
const NARROW: usize = 96;
/// Headers that say nothing here.
const DULL: &[&str] = &["content-length", "connection", "date", "transfer-encoding", "keep-alive"];

impl Screen {
    fn verdict(self, verdict: &Verdict, text: &str) -> String {
        match verdict {
            Verdict::Wrong(_) => self.paint(Ink::Bad, text),
            Verdict::Rewritten | Verdict::Identical | Verdict::Untouched => self.paint(Ink::Good, text),
        }
    }

    /// One scenario in full: the question, both answers, what was done.
    pub(super) fn side_by_side(self, played: &Played) -> String {
        let scenario = &played.scenario;
        let mut out = format!("{}\n", self.rule(scenario.name));
        for line in wrap(&format!("{} ({})", scenario.title, scenario.seen_at), self.width - 1) {
            let _ = writeln!(out, " {line}");
        }
        let question =
            format!("{} {}  {}", scenario.call.method, scenario.call.path, line_of(&scenario.call.body));
        let _ = writeln!(out, " {}\n", self.paint(Ink::Dim, &cut(&question, self.width - 1)));
        if self.width < NARROW {
            for (title, ink, reply) in [
                ("the host said", Ink::Host, &played.direct),
                ("the client gets", Ink::Good, &played.proxied),
            ] {
                let _ = writeln!(out, " {}", self.paint(Ink::Dim, title));
                for line in in_full(reply.as_ref(), self.width - 3) {
                    let _ = writeln!(out, "{}", format!("   {}", self.paint(ink, &line)).trim_end());
                }
                out.push('\n');
            }
        } else {
            let column = (self.width - 5) / 2;
            let left = in_full(played.direct.as_ref(), column);
            let right = in_full(played.proxied.as_ref(), column);
            let bar = self.paint(Ink::Dim, "│");
            let _ = writeln!(out, " {} {bar} {}", self.paint(Ink::Dim, &pad("the host said", column)), {
                self.paint(Ink::Dim, "the client gets")
            });
            for at in 0..left.len().max(right.len()) {
                let of = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
                let left = self.paint(Ink::Host, &pad(&of(&left), column));
                let line = format!(" {left} {bar} {}", self.paint(Ink::Good, &of(&right)));
                let _ = writeln!(out, "{}", line.trim_end());
            }
            out.push('\n');
        }
        let rules = played.rules();
        let fired = if rules.is_empty() { "no rule fired".to_owned() } else { format!("rules {rules}") };
        let _ = writeln!(out, " {}  {}", self.verdict(&played.verdict, played.verdict.as_str()), {
            self.paint(Ink::Dim, &fired)
        });
        out.push_str(&self.complaints(&played.verdict));
        out.push('\n');
        out
    }

    fn complaints(self, verdict: &Verdict) -> String {
        let mut out = String::new();
        if let Verdict::Wrong(wrong) = verdict {
            for what in wrong {
                for line in wrap(&clean(what), self.width.saturating_sub(6)) {
                    let _ = writeln!(out, "     {}", self.paint(Ink::Bad, &line));
                }
            }
        }
        out
    }

    /// The table of everything that was played.
    pub(super) fn table(self, all: &[Played]) -> String {
        let columns = Columns::of(self.width);
        let mut out = String::new();
        if let Some(columns) = columns {
            let head =
                columns.row(["kind", "the host said", "the client gets", "rules that fired", "verdict"]);
            let _ = writeln!(out, "{}", self.paint(Ink::Bold, head.trim_end()));
        }
        let mut group = None;
        for played in all {
            if group != Some(played.scenario.group) {
                group = Some(played.scenario.group);
                let _ = writeln!(
                    out,
                    "{}",
                    self.paint(Ink::Dim, &cut(played.scenario.group.title(), self.width))
                );
            }
            match columns {
                Some(columns) => out.push_str(&self.wide_row(columns, played)),
                None => out.push_str(&self.narrow_row(played)),
            }
            out.push_str(&self.complaints(&played.verdict));
        }
        out
    }

    fn wide_row(self, columns: Columns, played: &Played) -> String {
        let gets = wrap(&gets(played), columns.gets);
        let rules = wrap(&played.rules(), columns.rules);
        let lines = gets.len().max(rules.len()).max(1);
        // The body gets the lines that the others need anyway.
        let said: Vec<char> = cut(&said(played), lines * columns.said).chars().collect();
        let said: Vec<String> = said.chunks(columns.said).map(|line| line.iter().collect()).collect();
        let mut out = String::new();
        for at in 0..lines {
            let first = at == 0;
            let of = |lines: &[String], width| pad(lines.get(at).map_or("", String::as_str), width);
            let line = format!(
                "  {}  {}  {}  {}  {}",
                pad(if first { played.scenario.name } else { "" }, columns.kind),
                self.paint(Ink::Host, &of(&said, columns.said)),
                of(&gets, columns.gets),
                self.paint(Ink::Dim, &of(&rules, columns.rules)),
                self.verdict(&played.verdict, if first { played.verdict.as_str() } else { "" }),
            );
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out
    }

    fn narrow_row(self, played: &Played) -> String {
        let mut out = format!(
            "  {}  {}\n",
            pad(played.scenario.name, 24),
            self.verdict(&played.verdict, played.verdict.as_str())
        );
        let room = self.width.saturating_sub(12);
        let _ = writeln!(out, "    host    {}", self.paint(Ink::Host, &cut(&said(played), room)));
        let _ = writeln!(out, "    client  {}", cut(&gets(played), room));
        if !played.rules().is_empty() {
            let _ = writeln!(out, "    rules   {}", self.paint(Ink::Dim, &cut(&played.rules(), room)));
        }
        out
    }
}

/// Column widths of the table.
#[derive(Debug, Clone, Copy)]
struct Columns {
    kind: usize,
    said: usize,
    gets: usize,
    rules: usize,
}

impl Columns {
    /// `None` when the terminal is too narrow for a table.
    fn of(width: usize) -> Option<Self> {
        const KIND: usize = 23;
        /// The longest reason of A2A's.
        const GETS: usize = 34;
        const RULES: usize = 19;
        const VERDICT: usize = 9;
        let said = width.checked_sub(2 + KIND + GETS + RULES + VERDICT + 4 * 2).filter(|said| *said >= 16)?;
        Some(Self { kind: KIND, said, gets: GETS, rules: RULES })
    }

    fn row(self, cells: [&str; 5]) -> String {
        let [kind, said, gets, rules, verdict] = cells;
        format!(
            "  {}  {}  {}  {}  {verdict}",
            pad(kind, self.kind),
            pad(said, self.said),
            pad(gets, self.gets),
            pad(rules, self.rules)
        )
    }
}

/// One line: the status and the body.
fn said(played: &Played) -> String {
    match &played.direct {
        None => "hangs up without a byte".to_owned(),
        Some(reply) => {
            let broken = if reply.complete { "" } else { " (cut off)" };
            let body = if reply.body.is_empty() { "(empty)".to_owned() } else { line_of(&reply.body) };
            // What JSON-RPC wraps around an error is left out where it is as it should be.
            let usual = format!(r#"{{"jsonrpc":"2.0","id":{},"error":"#, played.id);
            let body = body.strip_prefix(&usual).unwrap_or(&body);
            format!("{}{broken} {body}", reply.status)
        }
    }
}

/// One line: status, code and reason, or that nothing changed.
fn gets(played: &Played) -> String {
    let Some(reply) = &played.proxied else { return "nothing".to_owned() };
    match &played.scenario.expect {
        Expect::Untouched if played.direct.as_ref().is_some_and(|direct| direct.body == reply.body) => {
            match reply.body.len() {
                0 => format!("{}, as empty", reply.status),
                bytes => format!("{}, the same {bytes} bytes", reply.status),
            }
        }
        Expect::Untouched
        | Expect::Fault { .. }
        | Expect::Status { .. }
        | Expect::Event { .. }
        | Expect::NotFound => match read_answer(&played.scenario, reply) {
            Ok(error) => {
                format!("{} {} {}", reply.status, error.code, error.reason.unwrap_or_default())
            }
            Err(_) => format!("{} {}", reply.status, cut(&line_of(&reply.body), 40)),
        },
    }
}

/// Status, headers and body of one answer, in lines of at most this many columns.
fn in_full(reply: Option<&Reply>, width: usize) -> Vec<String> {
    let Some(reply) = reply else { return vec!["(hangs up without a byte)".to_owned()] };
    let reason =
        http::StatusCode::from_u16(reply.status).ok().and_then(|s| s.canonical_reason()).unwrap_or("");
    let mut lines = vec![format!("HTTP {} {reason}", reply.status)];
    for (name, value) in reply.headers.iter().filter(|(name, _)| !DULL.contains(&name.as_str())) {
        lines.extend(wrap(&clean(&format!("{name}: {value}")), width));
    }
    lines.push(String::new());
    let body: Vec<String> = readable(&reply.body).iter().flat_map(|line| wrap(line, width)).collect();
    let more = body.len() > BODY_LINES;
    lines.extend(body.into_iter().take(BODY_LINES));
    if more {
        lines.push(format!("… {} bytes in all", reply.body.len()));
    }
    if !reply.complete {
        lines.push("(cut off here)".to_owned());
    }
    lines
}

/// `--list`: every scenario with what it stands for.
pub fn list(screen: Screen, all: &[Scenario]) -> String {
    let mut out = String::new();
    let mut group = None;
    for scenario in all {
        if group != Some(scenario.group) {
            group = Some(scenario.group);
            let _ = writeln!(out, "{}", screen.paint(Ink::Bold, scenario.group.title()));
        }
        let rules: Vec<_> = scenario.rules.iter().map(|rule| rule.id()).collect();
        let text = format!("{} ({})", scenario.title, scenario.seen_at);
        let room = screen.width.saturating_sub(2 + 23 + 2).max(30);
        let lines = wrap(&format!("{text}  [{}]", rules.join(" ")), room);
        for (at, line) in lines.iter().enumerate() {
            let _ = writeln!(out, "  {}  {line}", pad(if at == 0 { scenario.name } else { "" }, 23));
        }
    }
    out
}
