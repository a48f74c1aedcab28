//! How the demo looks: answers side by side, and the table. Text only; nothing here decides anything.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use super::verdict::{Verdict, read_answer};
use super::{Played, wire::Reply};
use crate::demo::{Expect, Scenario};

/// Lines of a body that are shown side by side.
const BODY_LINES: usize = 26;
/// Below this many columns nothing stands side by side.
const NARROW: usize = 96;
/// Headers that say nothing here.
const DULL: &[&str] = &["content-length", "connection", "date", "transfer-encoding", "keep-alive"];

/// The terminal: how wide, and whether it has colours.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    pub width: usize,
    pub colour: bool,
}

#[derive(Debug, Clone, Copy)]
pub enum Ink {
    Bold,
    Dim,
    Good,
    Bad,
    Host,
}

impl Screen {
    /// What standard output is. `NO_COLOR` and `COLUMNS` are respected.
    pub fn detect() -> Self {
        let terminal = std::io::stdout().is_terminal();
        let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let measured = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            width: asked.or(measured.filter(|_| terminal)).unwrap_or(120).clamp(40, 180),
            colour: terminal && !no_colour,
        }
    }

    pub fn paint(self, ink: Ink, text: &str) -> String {
        if !self.colour || text.trim().is_empty() {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Bold => "1",
            Ink::Dim => "2",
            Ink::Good => "32",
            Ink::Bad => "1;31",
            Ink::Host => "33",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    fn verdict(self, verdict: &Verdict, text: &str) -> String {
        match verdict {
            Verdict::Wrong(_) => self.paint(Ink::Bad, text),
            Verdict::Rewritten | Verdict::Identical | Verdict::Untouched => self.paint(Ink::Good, text),
        }
    }

    /// A line with a title in it.
    pub fn rule(self, title: &str) -> String {
        let rest = self.width.saturating_sub(title.chars().count() + 4);
        format!("{} {} {}", self.paint(Ink::Dim, "──"), self.paint(Ink::Bold, title), {
            self.paint(Ink::Dim, &"─".repeat(rest))
        })
    }

    /// One scenario in full: the question, both answers, what was done.
    pub fn side_by_side(self, played: &Played) -> String {
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
    pub fn table(self, all: &[Played]) -> String {
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

/// JSON indented, other text by its lines, what is neither as a number of bytes.
fn readable(body: &[u8]) -> Vec<String> {
    // Enough for every line that is shown; the rest of megabytes need not be laid out.
    const ENOUGH: usize = 16 * 1024;
    if body.is_empty() {
        return vec!["(empty)".to_owned()];
    }
    if body.len() <= ENOUGH
        && let Ok(value) = serde_json::from_slice::<serde_json::Value>(body)
        && let Ok(pretty) = serde_json::to_string_pretty(&value)
        // Indented only if indenting loses nothing: no member twice, no number respelled.
        && squeezed(&pretty) == squeezed(&String::from_utf8_lossy(body))
    {
        return pretty.lines().map(clean).collect();
    }
    let start = body.get(..ENOUGH.min(body.len())).unwrap_or_default();
    let text = String::from_utf8_lossy(start);
    let odd = text.chars().filter(|c| *c == '\u{fffd}' || (c.is_control() && !c.is_whitespace())).count();
    if odd * 8 > text.chars().count() {
        return vec![format!("({} bytes that are no UTF-8 text)", body.len())];
    }
    text.lines().map(clean).collect()
}

fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// The body on one line, as far as anybody reads.
fn line_of(body: &[u8]) -> String {
    let start = body.get(..body.len().min(400)).unwrap_or_default();
    let text = String::from_utf8_lossy(start);
    if text.chars().filter(|c| *c == '\u{fffd}' || *c == '\0').count() > 8 {
        return format!("({} bytes that are no UTF-8 text)", body.len());
    }
    clean(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Without anything a terminal would obey.
fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' => ' ',
            '\u{feff}' => '\u{b7}',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

fn pad(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.chars().count());
    format!("{text}{}", " ".repeat(missing))
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Lines of at most `width` columns, broken at spaces where there are any; continued lines keep the
/// first one's indentation.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let indent: String = text.chars().take_while(|c| *c == ' ').take(width / 2).collect();
    let mut lines = Vec::new();
    let mut rest: Vec<char> = text.chars().collect();
    while rest.len() > width {
        let filled = indent.chars().count() + 1;
        let at =
            rest.iter().take(width + 1).rposition(|c| *c == ' ').filter(|at| *at >= filled).unwrap_or(width);
        let tail = rest.split_off(at);
        lines.push(rest.iter().collect::<String>().trim_end().to_owned());
        rest = indent.chars().chain(tail.into_iter().skip_while(|c| *c == ' ')).collect();
    }
    lines.push(rest.into_iter().collect());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_keep_their_indentation() {
        assert_eq!(wrap("  one two three", 9), ["  one two", "  three"]);
        assert_eq!(wrap("abcdefghijkl", 8), ["abcdefgh", "ijkl"]);
        assert_eq!(wrap("", 8), [""]);
        for width in 1..40 {
            for line in wrap("  \"message\": \"somethingwithoutanyspace and then some more words\"", width) {
                assert!(line.chars().count() <= width.max(8), "{width}: {line}");
            }
        }
    }

    #[test]
    fn json_is_indented_only_if_nothing_is_lost() {
        assert_eq!(readable(br#"{"a":1}"#), ["{", "  \"a\": 1", "}"]);
        assert_eq!(readable(br#"{"a":1,"a":2}"#), [r#"{"a":1,"a":2}"#]);
        assert_eq!(readable(b"one\r\ntwo"), ["one", "two"]);
        assert_eq!(readable(b"\xff\xfe{\0}\0"), ["(6 bytes that are no UTF-8 text)"]);
    }

    #[test]
    fn nothing_a_host_says_reaches_the_terminal_as_an_order() {
        assert_eq!(line_of(b"\x1b[31mred\x07\n next"), "\u{fffd}[31mred\u{fffd} next");
        assert_eq!(readable(b"all is \x1b[2Jwell"), ["all is \u{fffd}[2Jwell"]);
    }
}
