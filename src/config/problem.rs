//! What is wrong with a configuration, said so that it can be put right: where, which key, which value,
//! what would be right (U-1).

use std::fmt;
use std::path::{Path, PathBuf};

use super::Key;
use super::print::{MASKED, pattern, without_credentials};
use super::tls::{Cause, Owner};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Built in.
    Default,
    /// Line and column count from 1, columns in characters.
    File { path: PathBuf, line: usize, column: usize },
    /// The file as a whole.
    WholeFile(PathBuf),
    /// A variable of the environment, by name.
    Env(String),
    /// A flag, by name.
    Flag(&'static str),
}

impl Place {
    /// The place of byte `offset` of `text`.
    pub(super) fn in_file(path: &Path, text: &str, offset: usize) -> Self {
        let before = text.get(..offset.min(text.len())).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
        Self::File { path: path.to_owned(), line, column }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::WholeFile(path) => write!(f, "{}", path.display()),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub place: Place,
    /// Empty when the trouble is with no key in particular.
    pub key: String,
    /// As TOML, shortened when long.
    pub value: Option<String>,
    /// What is wrong with it and what would be right.
    pub says: String,
    /// Whose file is at fault and why, if one is.
    pub file: Option<(Owner, Cause)>,
}

/// Longest bad value that is repeated in a message, in characters.
const SHOWN: usize = 80;

impl Problem {
    pub(super) fn new(place: Place, key: impl Into<String>, says: impl Into<String>) -> Self {
        Self { place, key: key.into(), value: None, says: says.into(), file: None }
    }

    pub(super) fn caused(mut self, of: Owner, cause: Cause) -> Self {
        self.file = Some((of, cause));
        self
    }

    pub(super) fn with_value(mut self, value: &str) -> Self {
        let mut shown: String = value.trim().chars().take(SHOWN).collect();
        if shown.len() < value.trim().len() {
            shown.push('…');
        }
        self.value = Some(shown.replace(['\n', '\r'], " "));
        self
    }
}

impl Problem {
    /// As pages and logs show it: without the value of a secret.
    #[must_use]
    pub fn shown(&self) -> Self {
        // An element of a list is `words[1]`, its key `words`.
        let pattern = pattern(&self.key);
        let is_secret = Key::find(pattern.trim_end_matches("[]")).is_some_and(Key::is_secret);
        let value = self.value.as_deref();
        let value = value.map(|value| if is_secret { MASKED.to_owned() } else { without_credentials(value) });
        Self { value, ..self.clone() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place != Place::Default {
            write!(f, "{}: ", self.place)?;
        }
        if !self.key.is_empty() {
            f.write_str(&self.key)?;
            if let Some(value) = &self.value {
                write!(f, " = {value}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.says)
    }
}

/// Everything that is wrong, in the order it was found; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.0.iter().enumerate() {
            if n > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let of =
            |key: &str| Problem::new(Place::Default, key, "no").with_value("\"acme\"").shown().to_string();
        assert_eq!(of("hosts[0].disclosure.words[1]"), "hosts[0].disclosure.words[1] = \"***\": no");
        assert_eq!(of("hosts[0].disclosure.words"), "hosts[0].disclosure.words = \"***\": no");
        assert_eq!(of("hosts[0].name"), "hosts[0].name = \"acme\": no");
    }
}
