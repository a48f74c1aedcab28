//! What was typed as a credential, kept out of everything that is printed: a host may say it back.

use base64::Engine as _;
use http::HeaderMap;
use serde_json::Value;

use super::session::Options;
use crate::protocol::a2a::{percent_decode, percent_encode};

/// Shorter texts are no secrets, and are in every other sentence.
const LEAST: usize = 4;
/// What stands in a secret's place.
const HIDDEN: &str = "[credential]";

/// Texts that are not to be shown, the longest first.
#[derive(Debug, Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// The credentials, the headers, and the values of the URL's query, in every way a host may write them.
    #[must_use]
    pub fn of(options: &Options, query: Option<&str>) -> Self {
        let mut all = Self::default();
        let values = |headers: &HeaderMap| -> Vec<String> {
            headers.values().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
        };
        for value in values(&options.credentials) {
            all.add(&value);
            // `Bearer TOKEN`, and what is inside `Basic`.
            if let Some((_, token)) = value.trim().split_once(' ') {
                all.add(token.trim());
                let decoded = base64::engine::general_purpose::STANDARD.decode(token.trim());
                if let Some(pair) = decoded.ok().and_then(|pair| String::from_utf8(pair).ok()) {
                    all.add(&pair);
                    all.add(pair.split_once(':').map_or("", |(_, password)| password));
                }
            }
        }
        for value in values(&options.headers) {
            all.add(&value);
        }
        for pair in query.unwrap_or_default().split('&') {
            let value = pair.split_once('=').map_or(pair, |(_, value)| value);
            all.add(value);
            all.add(&percent_decode(value));
        }
        all.0.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        all.0.dedup();
        all
    }

    fn add(&mut self, secret: &str) {
        let quoted = Value::from(secret).to_string();
        for form in [secret, quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default()] {
            if form.chars().count() >= LEAST {
                self.0.extend([form.to_owned(), percent_encode(form)]);
            }
        }
    }

    /// The text without them, also where it was cut off (`…`) within one.
    #[must_use]
    pub fn hide(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.0 {
            if text.contains(secret) {
                text = text.replace(secret, HIDDEN);
            }
        }
        let mut pieces: Vec<String> = text.split('…').map(str::to_owned).collect();
        let last = pieces.len().saturating_sub(1);
        for piece in pieces.iter_mut().take(last) {
            let begun = self.0.iter().filter_map(|secret| {
                let ends = secret.char_indices().map(|(at, _)| at).filter(|at| *at >= LEAST);
                ends.filter_map(|end| secret.get(..end))
                    .filter(|begin| piece.ends_with(begin))
                    .map(str::len)
                    .max()
            });
            if let Some(length) = begun.max() {
                piece.truncate(piece.len() - length);
                piece.push_str(HIDDEN);
            }
        }
        pieces.join("…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn no_way_to_write_a_credential_is_shown() {
        let mut options = Options::default();
        let add = |headers: &mut HeaderMap, name: &'static str, value: &str| {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        };
        add(&mut options.credentials, "authorization", "Bearer tok\"en/1 2+3");
        add(&mut options.credentials, "authorization", "Basic dXNlcjpodW50ZXIy");
        add(&mut options.headers, "x-api-key", "k-12345678");
        add(&mut options.headers, "x-flag", "on");
        let secrets = Secrets::of(&options, Some("key=q%2Fsecret&a=1"));
        for shown in [
            "Bearer tok\"en/1 2+3",
            "you sent tok\"en/1 2+3!",
            "in JSON: tok\\\"en/1 2+3",
            "dXNlcjpodW50ZXIy",
            "user:hunter2",
            "hunter2",
            "k-12345678",
            "q%2Fsecret",
            "q/secret",
        ] {
            let hidden = secrets.hide(shown);
            assert!(hidden.contains(HIDDEN), "{hidden}");
            for part in ["tok", "2+3", "hunter", "12345678", "secret", "dXNl"] {
                assert!(!hidden.contains(part), "{shown}: {hidden}");
            }
        }
        assert_eq!(secrets.hide("no k-1234… and k-12345678"), "no [credential]… and [credential]");
        assert_eq!(secrets.hide("on and on, k-1…"), "on and on, k-1…");
    }
}
