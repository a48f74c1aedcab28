//! The effective configuration as text: for `check`, and for the admin page `/config`.

use std::fmt::Write as _;

use super::{Effective, Key, Line, Place, Problem};

/// Longest value that the places are still aligned behind.
const ALIGN: usize = 44;

/// What stands in for a secret.
pub(super) const MASKED: &str = "\"***\"";

impl Effective {
    /// What is wrong with the value in effect of this key.
    #[must_use]
    pub fn problem(&self, key: &str, says: &str) -> Problem {
        let line = self.lines.iter().find(|line| line.key == key);
        let place = line.map_or(Place::Default, |line| line.place.clone());
        let problem = Problem::new(place, key, says);
        match line {
            Some(line) => problem.with_value(&line.value),
            None => problem,
        }
    }

    /// As TOML: `key = value`, aligned, with the place as a comment.
    #[must_use]
    pub fn to_toml(&self, colour: bool) -> String {
        print(&self.lines, colour)
    }

    /// The same for the admin pages: without what identifies anybody or opens anything. Lists keep their
    /// length.
    #[must_use]
    pub fn shown(&self) -> String {
        let masked = |line: &Line| {
            let is_secret = Key::find(&pattern(&line.key)).is_some_and(Key::is_secret);
            let value = match &line.value {
                value if !is_secret || value == "[]" || value == "\"\"" => without_credentials(value),
                value => {
                    match value.parse::<toml_edit::Value>().ok().as_ref().and_then(toml_edit::Value::as_array)
                    {
                        Some(list) => format!("[{}]", vec![MASKED; list.len()].join(", ")),
                        None => MASKED.to_owned(),
                    }
                }
            };
            Line { value, ..line.clone() }
        };
        let lines: Vec<Line> = self.lines.iter().map(masked).collect();
        format!("# in effect; secrets are masked\n{}", print(&lines, false))
    }
}

/// The key of a line as the table of keys writes it.
pub(super) fn pattern(key: &str) -> String {
    let mut parts = key.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |path, part| path + "[]" + part.split_once(']').map_or("", |(_, rest)| rest))
}

/// A value, as TOML, without what may open something in a URL or an address: the user's part and the query.
pub(super) fn without_credentials(value: &str) -> String {
    let mut shown = String::with_capacity(value.len());
    // Strings of a list, one by one; what stands between them has neither.
    for part in value.split_inclusive('"') {
        let (scheme, rest) = match part.split_once("://") {
            Some((scheme, rest)) => (format!("{scheme}://"), rest),
            None => (String::new(), part),
        };
        let end = rest.find(['/', '?', '#', '"']).unwrap_or(rest.len());
        let (authority, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        shown.push_str(&scheme);
        match authority.rsplit_once('@') {
            Some((_, host)) => shown.extend(["***@", host]),
            None => shown.push_str(authority),
        }
        match after.split_once('?') {
            Some((path, query)) if !scheme.is_empty() => {
                let tail = query.find(['#', '"']).and_then(|at| query.get(at..)).unwrap_or_default();
                shown.extend([path, "?***", tail]);
            }
            _ => shown.push_str(after),
        }
    }
    shown
}

fn print(lines: &[Line], colour: bool) -> String {
    let rows: Vec<(&str, &str, &Line)> = lines.iter().map(row).collect();
    let width = |row: &(&str, &str, &Line)| row.1.len() + 3 + row.2.value.chars().count();
    let column = rows.iter().map(width).filter(|width| *width <= ALIGN).max().unwrap_or(0);
    let paint = |code: &str, text: &str| {
        if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    };
    let mut text = String::new();
    let mut last = "";
    for row in &rows {
        let (table, name, line) = *row;
        if table != last {
            last = table;
            let header = match table.split_once('[') {
                Some(_) => format!("[[{}]]", without_indexes(table)),
                None => format!("[{table}]"),
            };
            _ = write!(text, "\n{}\n", paint("1", &header));
        }
        let gap = " ".repeat(column.saturating_sub(width(row)) + 2);
        let place = place(&line.place);
        let place = if line.place == Place::Default { paint("2", &place) } else { paint("32", &place) };
        _ = writeln!(text, "{} = {}{gap}{place}", paint("36", name), line.value);
    }
    text
}

/// The table of a key (up to its last index) and what remains: `hosts[0]`, `oracle.floor_ms`.
fn row(line: &Line) -> (&str, &str, &Line) {
    let key = line.key.as_str();
    let (table, name) = match key.rsplit_once("].") {
        Some((table, name)) => (key.get(..=table.len()).unwrap_or(table), name),
        None => key.split_once('.').unwrap_or(("", key)),
    };
    (table, name, line)
}

/// `hosts[0].interfaces[1]` as a header says it: `hosts.interfaces`.
fn without_indexes(table: &str) -> String {
    table.split('.').map(|part| part.split('[').next().unwrap_or(part)).collect::<Vec<_>>().join(".")
}

fn place(place: &Place) -> String {
    match place {
        Place::File { path, line, .. } => format!("# {}:{line}", path.display()),
        Place::Default | Place::WholeFile(_) | Place::Env(_) | Place::Flag(_) => format!("# {place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opens_something_in_a_url_is_not_shown() {
        for (value, shown) in [
            (r#""http://u:pass@h:1/x""#, r#""http://***@h:1/x""#),
            (r#""https://h/v1?key=abc""#, r#""https://h/v1?***""#),
            (r#""https://h?key=abc#f""#, r#""https://h?***#f""#),
            (r#"["a:1", "u:pass@b:1"]"#, r#"["a:1", "***@b:1"]"#),
            (r#""https://u@p@h?a@b"#, r#""https://***@h?***"#),
            (r#""/etc/tls/a@b.crt""#, r#""/etc/tls/a@b.crt""#),
            (r#""https://agents.example/billing""#, r#""https://agents.example/billing""#),
            ("50", "50"),
        ] {
            assert_eq!(without_credentials(value), shown);
        }
    }

    #[test]
    fn lines_find_their_keys() {
        assert_eq!(pattern("hosts[12].interfaces[0].path"), "hosts[].interfaces[].path");
        assert_eq!(pattern("listen.address"), "listen.address");
    }
}
