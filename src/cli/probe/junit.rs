//! The JUnit report: a file that is known to be writable before anything is asked, and its text.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};

use super::Probed;
use crate::probe::Verdict;

/// Where the report goes. From the start the file says that there is none yet: what an earlier run found must not be
/// taken for this one's, however this one ends.
pub struct Report {
    path: PathBuf,
    file: File,
}

impl Report {
    /// # Errors
    /// In one line, why nothing can be written there.
    pub fn open(path: &Path) -> Result<Self, String> {
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|why| format!("--junit {}: cannot be written: {why}", path.display()))?;
        let mut report = Self { path: path.to_owned(), file };
        // A pipe or a device takes one report.
        if report.is_file() {
            report.replace(&nothing("the probe did not come to its end"))?;
        }
        Ok(report)
    }

    fn is_file(&self) -> bool {
        self.file.metadata().is_ok_and(|file| file.is_file())
    }

    /// # Errors
    /// In one line, why it was not written.
    pub fn write(mut self, text: &str) -> Result<(), String> {
        self.replace(text)
    }

    fn replace(&mut self, text: &str) -> Result<(), String> {
        let emptied =
            if self.is_file() { self.file.set_len(0).and_then(|()| self.file.rewind()) } else { Ok(()) };
        let written = emptied.and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(|why| format!("--junit {}: cannot be written: {why}", self.path.display()))
    }
}

/// The report of a probe that found out nothing, and why.
pub fn nothing(why: &str) -> String {
    text(&Probed {
        url: String::new(),
        notes: Vec::new(),
        problems: vec![why.to_owned()],
        requests: 0,
        interfaces: Vec::new(),
    })
}

/// For pipelines: a suite per interface, a case per check.
pub fn text(probed: &Probed) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let all: usize = probed.interfaces.iter().map(|(_, findings)| findings.len()).sum();
    let totals = |tests: usize, failures: usize, errors: usize, skipped: usize| {
        format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\"")
    };
    let _ = writeln!(
        out,
        "<testsuites name=\"a2a-errata probe\" {}>",
        totals(
            all + probed.problems.len(),
            probed.count(Verdict::Fail),
            probed.count(Verdict::NotRun) + probed.count(Verdict::Undecided) + probed.problems.len(),
            probed.count(Verdict::NotApplicable)
        )
    );
    for (interface, findings) in &probed.interfaces {
        let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
        let suite = escape(&super::show::title(interface));
        let totals = totals(
            findings.len(),
            count(Verdict::Fail),
            count(Verdict::NotRun) + count(Verdict::Undecided),
            count(Verdict::NotApplicable),
        );
        let _ = writeln!(out, "  <testsuite name=\"{suite}\" {totals}>");
        for finding in findings {
            let _ = write!(out, "    <testcase classname=\"{suite}\" name=\"{}\"", escape(finding.check.id));
            let reason = escape(&finding.reason);
            let inner = match finding.verdict {
                Verdict::Pass => None,
                Verdict::Fail => {
                    let source = escape(finding.check.source);
                    Some(format!("<failure message=\"{reason}\" type=\"{source}\"/>"))
                }
                Verdict::NotRun => Some(format!("<error message=\"not run: {reason}\" type=\"budget\"/>")),
                Verdict::Undecided => {
                    Some(format!("<error message=\"undecided: {reason}\" type=\"undecided\"/>"))
                }
                Verdict::NotApplicable => Some(format!("<skipped message=\"{reason}\"/>")),
            };
            match inner {
                None => out.push_str("/>\n"),
                Some(inner) => {
                    let _ = writeln!(out, ">{inner}</testcase>");
                }
            }
        }
        out.push_str("  </testsuite>\n");
    }
    for problem in &probed.problems {
        let totals = totals(1, 0, 1, 0);
        let _ = writeln!(
            out,
            "  <testsuite name=\"not probed\" {totals}>\n    <testcase classname=\"not probed\" \
             name=\"interface\"><error message=\"{}\"/></testcase>\n  </testsuite>",
            escape(problem)
        );
    }
    out.push_str("</testsuites>\n");
    out
}

/// Text as an attribute's value; what XML cannot hold becomes U+FFFD.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control()
                || crate::cli::screen::is_hidden(c)
                || matches!(c, '\u{fffe}' | '\u{ffff}') =>
            {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_says_is_text_in_xml() {
        assert_eq!(escape("a<b>\"&\x1b\u{ffff}\u{202e}é"), "a&lt;b&gt;&quot;&amp;\u{fffd}\u{fffd}\u{fffd}é");
    }
}
