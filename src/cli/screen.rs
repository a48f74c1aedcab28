//! What every command that draws has in common: the terminal's width and colours, and text that fits it
//! and orders it nothing.

use std::io::IsTerminal as _;

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

    /// A line with a title in it.
    pub fn rule(self, title: &str) -> String {
        let rest = self.width.saturating_sub(title.chars().count() + 4);
        format!("{} {} {}", self.paint(Ink::Dim, "──"), self.paint(Ink::Bold, title), {
            self.paint(Ink::Dim, &"─".repeat(rest))
        })
    }
}

/// JSON indented, other text by its lines, what is neither as a number of bytes.
pub fn readable(body: &[u8]) -> Vec<String> {
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
pub fn line_of(body: &[u8]) -> String {
    let start = body.get(..body.len().min(400)).unwrap_or_default();
    let text = String::from_utf8_lossy(start);
    if text.chars().filter(|c| *c == '\u{fffd}' || *c == '\0').count() > 8 {
        return format!("({} bytes that are no UTF-8 text)", body.len());
    }
    clean(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// With everything that a terminal would obey, or that would show text as it is not, written as an escape.
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => clean.push(' '),
            c if c.is_control() || is_hidden(c) => clean.extend(c.escape_unicode()),
            c => clean.push(c),
        }
    }
    clean
}

/// Directions of writing, line ends that are none of ours, and what has no width.
pub fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

pub fn pad(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.chars().count());
    format!("{text}{}", " ".repeat(missing))
}

pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Lines of at most `width` columns, broken at spaces where there are any; continued lines keep the
/// first one's indentation.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let all: Vec<char> = text.chars().collect();
    let indent: String = all.iter().take_while(|c| **c == ' ').take(width / 2).collect();
    let by = indent.chars().count();
    let mut lines = Vec::new();
    // Each letter is looked at once or twice, however long the text is: a host may have written it.
    let mut rest = all.as_slice();
    // The first line has its indentation itself; a break within that would be none.
    let (mut before, mut room, mut filled) = ("", width, by + 1);
    while rest.len() > room {
        let near = rest.get(..=room).unwrap_or(rest);
        let at = near.iter().rposition(|c| *c == ' ').filter(|at| *at >= filled).unwrap_or(room);
        let (line, tail) = rest.split_at_checked(at).unwrap_or((rest, &[]));
        lines.push(format!("{before}{}", line.iter().collect::<String>()).trim_end().to_owned());
        let blanks = tail.iter().take_while(|c| **c == ' ').count();
        rest = tail.get(blanks..).unwrap_or_default();
        (before, room, filled) = (&indent, width - by, 1);
    }
    lines.push(format!("{before}{}", rest.iter().collect::<String>()));
    lines
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

    /// A line of megabytes, with blanks or without, is broken in a moment.
    #[test]
    fn long_lines_are_wrapped_in_linear_time() {
        let began = std::time::Instant::now();
        for text in ["v".repeat(4 << 20), "v ".repeat(2 << 20), format!("  {}", " ".repeat(4 << 20))] {
            let lines = wrap(&text, 80);
            assert!(lines.iter().all(|line| line.chars().count() <= 80));
            let kept = |text: &str| text.chars().filter(|c| *c == 'v').count();
            assert_eq!(lines.iter().map(|line| kept(line)).sum::<usize>(), kept(&text));
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
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
        assert_eq!(line_of(b"\x1b[31mred\x07\n next"), "\\u{1b}[31mred\\u{7} next");
        assert_eq!(readable(b"all is \x1b[2Jwell"), ["all is \\u{1b}[2Jwell"]);
        assert_eq!(clean("a\u{202e}b\u{2066}c\u{9b}d\u{2028}é"), "a\\u{202e}b\\u{2066}c\\u{9b}d\\u{2028}é");
    }
}
