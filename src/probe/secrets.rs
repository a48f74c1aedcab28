//! What was typed as a credential, kept out of everything that is printed: a host may say it back.

use std::collections::HashSet;

use base64::Engine as _;
use http::{HeaderName, HeaderValue};

use super::session::Options;
use crate::protocol::a2a::percent_decode;

/// Shorter texts are no secrets, and are in every other sentence.
const LEAST: usize = 4;
/// So many bytes in a row of a secret are not shown either.
const PART: usize = 8;
/// What stands in a secret's place.
const HIDDEN: &str = "[credential]";

/// Texts that are not to be shown, as `plain` has them.
#[derive(Debug, Default)]
pub struct Secrets {
    whole: Vec<Vec<u8>>,
    parts: HashSet<[u8; PART]>,
}

impl Secrets {
    /// The credentials, the headers, and the values of the URL's query: whole, and what is secret in them by itself.
    #[must_use]
    pub fn of(options: &Options, query: Option<&str>) -> Self {
        Self::of_headers(options.credentials.iter().chain(&options.headers), query)
    }

    /// Likewise of headers, whatever they are for.
    pub fn of_headers<'a>(
        headers: impl IntoIterator<Item = (&'a HeaderName, &'a HeaderValue)>,
        query: Option<&str>,
    ) -> Self {
        let mut all = Self::default();
        for (name, value) in headers {
            let value = String::from_utf8_lossy(value.as_bytes());
            let value = value.trim();
            // The word before a token (`Bearer`) is none, so a part of the whole may be shown.
            match value.split_once(' ') {
                Some((_, token)) if name == http::header::AUTHORIZATION => {
                    all.add_whole(value);
                    all.add_token(token.trim());
                }
                _ => all.add_token(value),
            }
            // What is in a cookie, or in quotes of a list of parameters.
            for pair in value.split([';', ',', ' ']) {
                let (_, value) = pair.split_once('=').unwrap_or_default();
                all.add_token(value.trim().trim_matches('"'));
            }
        }
        for pair in query.unwrap_or_default().split('&') {
            let value = pair.split_once('=').map_or(pair, |(_, value)| value);
            all.add_token(value);
            all.add_token(&percent_decode(value));
        }
        all.whole.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        all.whole.dedup();
        all
    }

    /// A secret, and if it is a user and a password in base64, these.
    fn add_token(&mut self, token: &str) {
        self.add(token);
        let decoded = base64::engine::general_purpose::STANDARD.decode(token);
        if let Some(pair) = decoded.ok().and_then(|pair| String::from_utf8(pair).ok())
            && let Some((user, password)) = pair.split_once(':')
        {
            self.add(&pair);
            self.add(user);
            self.add(password);
        }
    }

    fn add(&mut self, secret: &str) {
        let bytes = self.add_whole(secret);
        self.parts.extend(bytes.windows(PART).filter_map(|part| <[u8; PART]>::try_from(part).ok()));
    }

    fn add_whole(&mut self, secret: &str) -> Vec<u8> {
        let bytes: Vec<u8> = plain(secret.as_bytes()).into_iter().map(|one| one.byte).collect();
        if bytes.len() >= LEAST {
            self.whole.push(bytes.clone());
        }
        bytes
    }

    /// The text without them, and without any `PART` bytes of one; also where it was cut off (`…`) within one.
    #[must_use]
    pub fn hide(&self, text: &str) -> String {
        let read = plain(text.as_bytes());
        let bytes: Vec<u8> = read.iter().map(|one| one.byte).collect();
        let mut secret = vec![false; bytes.len()];
        let mut mark = |from: usize, length: usize| {
            secret.iter_mut().skip(from).take(length).for_each(|one| *one = true);
        };
        for whole in &self.whole {
            for at in memchr::memmem::find_iter(&bytes, whole) {
                mark(at, whole.len());
            }
        }
        for (at, part) in bytes.windows(PART).enumerate() {
            if self.parts.contains(part) {
                mark(at, PART);
            }
        }
        for cut in memchr::memmem::find_iter(&bytes, "…".as_bytes()) {
            let before = bytes.get(..cut).unwrap_or_default();
            let begun = |whole: &Vec<u8>| {
                let lengths = (LEAST..=whole.len()).rev();
                lengths
                    .into_iter()
                    .find(|length| whole.get(..*length).is_some_and(|part| before.ends_with(part)))
            };
            if let Some(length) = self.whole.iter().filter_map(begun).max() {
                mark(cut - length, length);
            }
        }
        let mut shown: Vec<u8> = Vec::with_capacity(text.len());
        let mut was_secret = false;
        for (one, is_secret) in read.iter().zip(secret) {
            match (is_secret, was_secret) {
                (true, false) => shown.extend_from_slice(HIDDEN.as_bytes()),
                (true, true) => {}
                (false, _) => {
                    shown.extend_from_slice(text.as_bytes().get(one.from..one.to).unwrap_or_default());
                }
            }
            was_secret = is_secret;
        }
        String::from_utf8_lossy(&shown).into_owned()
    }
}

/// A byte that a text means, and where it is written.
struct Meant {
    byte: u8,
    from: usize,
    to: usize,
}

/// What a text means: `%2f`, `\u002f` and `\/` are a slash, `A` is `a`.
fn plain(text: &[u8]) -> Vec<Meant> {
    let hex = |from: usize, to: usize| {
        let digits = std::str::from_utf8(text.get(from..to)?).ok()?;
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
    };
    let mut all = Vec::with_capacity(text.len());
    let mut from = 0;
    while let Some(first) = text.get(from).copied() {
        let next = text.get(from + 1).copied();
        let (byte, length) = match (first, next) {
            (b'%', _) => match hex(from + 1, from + 3).and_then(|code| u8::try_from(code).ok()) {
                Some(byte) => (byte, 3),
                None => (first, 1),
            },
            (b'\\', Some(b'u')) => match hex(from + 2, from + 6).and_then(|code| u8::try_from(code).ok()) {
                Some(byte) if byte.is_ascii() => (byte, 6),
                _ => (first, 1),
            },
            (b'\\', Some(escaped @ (b'"' | b'\\' | b'/'))) => (escaped, 2),
            _ => (first, 1),
        };
        all.push(Meant { byte: byte.to_ascii_lowercase(), from, to: from + length });
        from += length;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue};

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
        add(&mut options.headers, "cookie", "theme=dark; sid=S3ss10n");
        add(&mut options.credentials, "authorization", "Basic bWF0aGlsZGE6cHc=");
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
            "q%2fsecret",
            "Q/SECRET",
            "tok\\u0022en\\/1 2+3",
            "S3ss10n",
            "s3SS10N again",
            "mathilda",
            "tok\"en/1 2+...",
            "en/1 2+3!",
            "xx12345678",
        ] {
            let hidden = secrets.hide(shown);
            assert!(hidden.contains(HIDDEN), "{hidden}");
            for part in ["tok", "2+", "hunter", "12345678", "secret", "dxnl", "s3ss10n", "mathilda"] {
                assert!(!hidden.to_lowercase().contains(part), "{shown}: {hidden}");
            }
        }
        assert_eq!(secrets.hide("no k-1234… and k-12345678"), "no [credential]… and [credential]");
        assert_eq!(secrets.hide("on and on, k-1…"), "on and on, k-1…");
        for harmless in ["Bearer of news, 100% sure", "in Basic English", "\\u00e9 é %zz \\", "theme"] {
            assert_eq!(secrets.hide(harmless), harmless);
        }
        assert_eq!(Secrets::default().hide("é…ß%c3"), "é…ß%c3");
    }
}
