//! What may leave: texts, metadata, details and headers (section 5, D-1 to D-3).

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};
use memchr::memmem;

use super::call::{Call, Id};
use super::policy::{Disclosure, Messages};
use crate::protocol::a2a::Operation;
use crate::protocol::tree::decode_string;
use crate::protocol::vocabulary::{DOMAINS, FILES, MARKERS, MEDIA, SLASHED};

/// Longest message that may be a host's, in characters (D-1).
const MESSAGE_MAX: usize = 256;
/// Hex digits in a row that look like an id.
const HEX_MAX: usize = 12;
/// Letters and digits in a row, mixed, that look like a token.
const TOKEN_MAX: usize = 16;
/// Letters of one case in a row that are no word of any language's error messages.
const ONE_CASE_MAX: usize = 26;
/// Metadata that may leave on any A2A error (D-2).
pub const METADATA_KEYS: &[&str] =
    &["supportedVersions", "requested", "mediaType", "extension", "method", "field"];

/// Words that speak of who owns or may see something (D-1), singular, lower case.
const WORDS: &[&str] = &[
    "tenant",
    "tenancy",
    "workspace",
    "organization",
    "organisation",
    "org",
    "account",
    "principal",
    "owner",
    "owned",
    "ownership",
    "member",
    "membership",
    "subject",
    "team",
    "user",
    "username",
    "customer",
    "employee",
    "credential",
    "password",
    "secret",
    "belong",
    "identity",
    "identities",
];

/// [`MARKERS`] and then [`WORDS`], ready to be searched for in one pass.
static LISTED: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let listed = MARKERS.iter().chain(WORDS);
    AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).build(listed).ok()
});

/// What of the lists a lower-case text contains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Listed {
    marker: bool,
    /// One of [`WORDS`], perhaps within another word.
    word: bool,
}

impl Listed {
    fn in_text(lower: &str) -> Self {
        let Some(listed) = &*LISTED else { return Self { marker: true, word: true } };
        let mut found = Self::default();
        for at in listed.find_overlapping_iter(lower) {
            if at.pattern().as_usize() < MARKERS.len() {
                return Self { marker: true, word: true };
            }
            found.word = true;
        }
        found
    }
}

/// What a host's text is held against.
#[derive(Debug, Clone, Copy)]
pub struct Gate<'a> {
    pub disclosure: &'a Disclosure,
    pub call: &'a Call,
    /// The request's `A2A-Version`.
    pub version: Option<&'a str>,
    /// The request's path.
    pub path: &'a str,
}

impl Gate<'_> {
    /// Whether a host's text may reach the client, whole (D-1).
    #[must_use]
    pub fn admits(&self, text: &str) -> bool {
        match self.disclosure.messages {
            Messages::Canonical => false,
            Messages::Upstream => !text.is_empty(),
            Messages::Guarded => self.is_harmless(text),
        }
    }

    fn is_harmless(&self, text: &str) -> bool {
        if text.trim().is_empty() || text.chars().count() > MESSAGE_MAX || !text.chars().all(is_printable) {
            return false;
        }
        let text = self.without_echoes(text);
        let lower = text.to_lowercase();
        let listed = Listed::in_text(&lower);
        let may_have_word = listed.word || !self.disclosure.words.is_empty();
        if listed.marker || may_have_word && self.has_word(&text) {
            return false;
        }
        // Nothing but words and blanks is what most messages are.
        let plain = text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b' ' || byte == b',');
        let longest = text.split(|c: char| !is_run(c)).map(str::len).max().unwrap_or_default();
        !((!plain
            && (has_sign(&text)
                || has_position(&lower)
                || text.split(is_space).any(|token| is_path_or_id(trim(token)))))
            || longest >= HEX_MAX && text.split(|c: char| !is_run(c)).any(is_opaque)
            || text.split(|c: char| !c.is_alphanumeric() && c != '_').any(is_exception))
    }

    /// The text with what the client said itself taken out, where it stands alone.
    fn without_echoes<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let raw = match &self.call.id {
            Id::Token(raw) => Some(&**raw),
            Id::Null | Id::TooLong => None,
        };
        // An id with an escape in it is looked for as what it says.
        let decoded = raw.filter(|raw| raw.contains('\\')).map(|raw| decode_string(raw.as_bytes()).0);
        let bare = raw.map(|raw| raw.strip_prefix('"').and_then(|id| id.strip_suffix('"')).unwrap_or(raw));
        let id = decoded.as_deref().or(bare);
        let task = self.call.task.as_ref().and_then(|t| t.text.as_deref());
        let mut echoes = [id, self.call.method.as_deref(), task, self.version, Some(self.path)];
        for echo in &mut echoes {
            *echo = echo.filter(|e| {
                e.len() <= text.len()
                    && memmem::find(text.as_bytes(), e.as_bytes()).is_some()
                    && e.chars().any(char::is_alphanumeric)
                    && e.chars().count() <= MESSAGE_MAX
            });
        }
        if echoes.iter().all(Option::is_none) {
            return Cow::Borrowed(text);
        }
        echoes.sort_unstable_by_key(|echo| std::cmp::Reverse(echo.map_or(0, str::len)));
        let mut text = text.to_owned();
        for echo in echoes.into_iter().flatten() {
            text = remove_alone(&text, echo);
        }
        Cow::Owned(text)
    }

    fn has_word(&self, text: &str) -> bool {
        let own: Vec<String> = self.disclosure.words.iter().map(|word| word.to_lowercase()).collect();
        words(text).any(|word| {
            let is = |listed: &str| {
                word.strip_prefix(listed)
                    .is_some_and(|rest| matches!(rest, "" | "s" | "es" | "id" | "ids" | "name" | "names"))
            };
            WORDS.iter().any(|w| is(w)) || own.iter().any(|w| is(w))
        }) || self.disclosure.words.iter().any(|listed| {
            // A configured word may be more than one, or joined by a sign.
            !listed.chars().all(char::is_alphanumeric) && text.to_lowercase().contains(&listed.to_lowercase())
        })
    }
}

/// The words of a text, lower case; `tenantId` and `tenant_id` are two.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut found = Vec::new();
    for run in text.split(|c: char| !c.is_alphanumeric()).filter(|r| !r.is_empty()) {
        found.push(run.to_lowercase());
        let mut word = String::new();
        let mut was_lower = false;
        for c in run.chars() {
            if (c.is_uppercase() && was_lower || c.is_numeric()) && !word.is_empty() {
                found.push(std::mem::take(&mut word));
            }
            was_lower = c.is_lowercase();
            if !c.is_numeric() {
                word.extend(c.to_lowercase());
            }
        }
        found.push(word);
    }
    found.into_iter()
}

/// Takes out each occurrence of `echo` that stands alone.
fn remove_alone(text: &str, echo: &str) -> String {
    let edge = |c: Option<char>, next: Option<char>| match c {
        None => true,
        // A full stop or colon ends a word only where nothing follows it.
        Some('.' | ':') => next.is_none_or(is_space),
        Some(c) => is_space(c) || matches!(c, ',' | ';' | '!' | '?'),
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(echo) {
        let mut following = after.chars();
        let first = before.chars().next_back().or_else(|| out.chars().next_back());
        let starts = first.is_none_or(|c| is_space(c) || matches!(c, ',' | ';' | ':'));
        if starts && edge(following.next(), following.next()) {
            out.push_str(before);
            out.push(' ');
            rest = after;
        } else {
            // Not alone: step over its first character and look again.
            let mut chars = echo.chars();
            let skip = before.len() + chars.next().map_or(1, char::len_utf8);
            let (kept, left) = rest.split_at_checked(skip).unwrap_or((rest, ""));
            out.push_str(kept);
            rest = left;
        }
    }
    out.push_str(rest);
    out
}

fn is_space(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '\'' | '"' | '`' | '(' | ')' | '[' | ']' | '“' | '”' | '‘' | '’' | '«' | '»')
}

fn trim(token: &str) -> &str {
    token.trim_end_matches([',', ';', ':', '!', '?', '.'])
}

/// No control, no format character, no replacement, no private use: what a person sees is what it is.
fn is_printable(c: char) -> bool {
    !(c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff0}'..='\u{ffff}'
            | '\u{e0000}'..='\u{10ffff}'))
}

/// Two hex digits follow: an encoded character.
fn is_hex_pair(chars: &[char], at: usize) -> bool {
    matches!(chars.get(at + 1..at + 3), Some([a, b]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit())
}

/// `@`, braces, tags, backslashes, `key=value`: nothing a sentence has.
fn has_sign(text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    chars.iter().enumerate().any(|(i, c)| {
        let before = i.checked_sub(1).and_then(|i| chars.get(i)).copied().unwrap_or(' ');
        let after = chars.get(i + 1).copied().unwrap_or(' ');
        match c {
            '@' | '{' | '}' | '\\' => true,
            '<' => after.is_alphabetic() || matches!(after, '/' | '!' | '?'),
            '=' => !matches!(before, '<' | '>' | '!' | '=') && after != '=',
            // `~/`, and `~2F` or `%2F`: a slash in an id.
            '~' => after == '/' || is_hex_pair(&chars, i),
            '%' => is_hex_pair(&chars, i),
            _ => false,
        }
    })
}

/// `line 3`, `column 25`, `char 24`: where in some source.
fn has_position(lower: &str) -> bool {
    lower.bytes().any(|b| b.is_ascii_digit())
        && ["line ", "column ", "char ", "offset "].iter().any(|word| {
            lower.match_indices(word).any(|(at, _)| {
                let alone =
                    lower.get(..at).and_then(|b| b.chars().next_back()).is_none_or(|c| !c.is_alphanumeric());
                let digit = lower
                    .get(at + word.len()..)
                    .and_then(|a| a.chars().next())
                    .is_some_and(|c| c.is_ascii_digit());
                alone && digit
            })
        })
}

/// Paths, URLs, host names, addresses, and ids of the form `<tenant>/<opaque>`.
fn is_path_or_id(token: &str) -> bool {
    let lower = token.to_lowercase();
    if lower.contains('/') {
        let media = lower.split_once('/').is_some_and(|(first, second)| {
            MEDIA.contains(&first)
                && !second.is_empty()
                && second.len() <= 64
                && !second.contains('/')
                && second.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-' | '*'))
        });
        let known = media || SLASHED.contains(&&*lower) || Operation::from_method_0_3(token).is_some();
        let fraction = lower
            .split_once('/')
            .is_some_and(|(a, b)| is_digits(a) && is_digits(b) && a.len() <= 3 && b.len() <= 3);
        return !known && !fraction && lower != "/";
    }
    if ["www.", "urn:", "arn:", "mailto:"].iter().any(|prefix| lower.starts_with(prefix)) {
        return true;
    }
    if lower.matches(':').count() > 2 {
        return true; // an IPv6 address, or an id of many parts
    }
    let host = lower.rsplit_once(':').filter(|(_, port)| (2..=5).contains(&port.len()) && is_digits(port));
    if host.is_some_and(|(name, _)| !name.is_empty()) {
        return true;
    }
    if lower.split(':').any(|part| part.split('.').count() == 4 && part.split('.').all(is_digits)) {
        return true;
    }
    // `index.js:3:1`, `main.c:12`: a place in a source.
    let source = lower.trim_end_matches(|c: char| c.is_ascii_digit() || c == ':');
    if source.len() < lower.len() && lower.contains(':') && source.contains('.') && !source.ends_with('.') {
        return true;
    }
    let labels: Vec<&str> = lower.split('.').collect();
    let Some((last, first)) = labels.split_last() else { return false };
    let dotted = !first.is_empty() && first.iter().all(|l| !l.is_empty());
    dotted
        && (FILES.contains(last) || DOMAINS.contains(last))
        && first.iter().all(|l| l.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_')))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_run(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '~')
}

/// UUIDs, long hex, base64 and other generated tokens.
fn is_opaque(run: &str) -> bool {
    let count = |test: fn(&char) -> bool| run.chars().filter(test).count();
    let (digits, lower, upper) =
        (count(char::is_ascii_digit), count(char::is_ascii_lowercase), count(char::is_ascii_uppercase));
    let longest_hex = run
        .split(|c: char| !c.is_ascii_hexdigit())
        .filter(|part| part.len() >= TOKEN_MAX || part.bytes().any(|b| b.is_ascii_digit()))
        .map(str::len)
        .max()
        .unwrap_or_default();
    let groups: Vec<&str> = run.split('-').collect();
    let uuid = groups.len() >= 5
        && groups.windows(5).any(|w| {
            w.iter()
                .zip([8, 4, 4, 4, 12])
                .all(|(part, len)| part.len() == len && part.bytes().all(|b| b.is_ascii_hexdigit()))
        });
    let letters = lower + upper;
    let mixed =
        run.len() >= TOKEN_MAX && digits >= 2 && letters >= 2 && (digits >= 4 || lower > 0 && upper > 0);
    let key = run.len() >= TOKEN_MAX && digits >= 1 && upper >= 8 && lower == 0;
    let one_case = letters == run.len() && (lower == 0 || upper == 0) && run.len() >= ONE_CASE_MAX;
    let no_words = key || one_case || run.len() >= 40 && !run.contains(['-', '_']);
    uuid || longest_hex >= HEX_MAX || mixed || no_words
}

/// `ValueError`, `NullPointerException`, `KeyError`: a type's name, not the word.
fn is_exception(word: &str) -> bool {
    ["Error", "Exception"].iter().any(|suffix| {
        word.strip_suffix(suffix)
            .is_some_and(|before| before.chars().next_back().is_some_and(char::is_alphanumeric))
    })
}

/// Whether a field's path may leave: an identifier-like path, nothing an id could hide in.
#[must_use]
pub fn is_field_path(field: &str) -> bool {
    let sign = |c: char| matches!(c, '.' | '_' | '[' | ']' | '-' | '$');
    !field.is_empty()
        && field.len() <= 256
        && field.chars().all(|c| c.is_ascii_alphanumeric() || sign(c))
        && !field.split(['.', '[', ']']).any(is_opaque)
}

/// D-2: whether this member may be in an ErrorInfo's metadata.
#[must_use]
pub fn admits_metadata(key: &str, value: &str, disclosure: &Disclosure, call: &Call) -> bool {
    match key {
        "taskId" => call.task.as_ref().and_then(|t| t.text.as_deref()) == Some(value),
        "contextId" => call.context.as_deref() == Some(value),
        // A list of versions and no other text of the host's.
        "supportedVersions" => value.split(',').all(|version| is_version(version.trim())),
        _ => METADATA_KEYS.contains(&key) || disclosure.metadata_keys.iter().any(|k| k == key),
    }
}

/// Digits and dots, as versions of the protocol are written.
#[must_use]
pub fn is_version(text: &str) -> bool {
    !text.is_empty() && text.len() <= 16 && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// D-3: the headers of a host that a rewritten answer keeps, content headers aside.
#[must_use]
pub fn admits_header(name: &HeaderName, disclosure: &Disclosure) -> bool {
    let text = name.as_str();
    matches!(
        *name,
        header::WWW_AUTHENTICATE
            | header::RETRY_AFTER
            | header::ALLOW
            | header::CACHE_CONTROL
            | header::VARY
            | header::DATE
    ) || matches!(text, "a2a-version" | "a2a-extensions" | "traceparent" | "tracestate" | "traceresponse")
        || text.starts_with("ratelimit-")
        || text == "ratelimit"
        || text.starts_with("access-control-")
        || disclosure.headers.contains(name) && !is_framing(name)
}

/// Headers that say nothing of the task a TASK_NOT_FOUND is about: of the connection, the software, the body's
/// framing.
#[must_use]
pub fn tells_no_task(name: &HeaderName) -> bool {
    admits_header(name, &Disclosure::default())
        || matches!(
            *name,
            header::CONTENT_LENGTH
                | header::CONTENT_TYPE
                | header::TRANSFER_ENCODING
                | header::CONNECTION
                | header::SERVER
        )
        || name.as_str() == "keep-alive"
}

/// Headers that belong to the host's framing or coding of a body that is gone (C-4).
#[must_use]
pub fn is_framing(name: &HeaderName) -> bool {
    matches!(
        *name,
        header::CONTENT_LENGTH
            | header::CONTENT_ENCODING
            | header::CONTENT_TYPE
            | header::TRANSFER_ENCODING
            | header::TRAILER
            | header::CONNECTION
            | header::UPGRADE
            | header::TE
            | header::ETAG
            | header::LAST_MODIFIED
            | header::CONTENT_RANGE
            | header::ACCEPT_RANGES
    ) || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// The host's headers that a rewritten answer keeps, and how many were dropped.
#[must_use]
pub fn filter_headers(host: &HeaderMap, keep: impl Fn(&HeaderName) -> bool) -> (HeaderMap, u32) {
    let mut kept = HeaderMap::with_capacity(8);
    let mut dropped = 0;
    for (name, value) in host {
        if keep(name) {
            kept.append(name.clone(), value.clone());
        } else if !is_framing(name) {
            dropped += 1;
        }
    }
    (kept, dropped)
}

/// How many a rewritten answer would not keep.
#[must_use]
pub fn drops(host: &HeaderMap, keep: impl Fn(&HeaderName) -> bool) -> u32 {
    let dropped = host.iter().filter(|(name, _)| !keep(name) && !is_framing(name)).count();
    u32::try_from(dropped).unwrap_or(u32::MAX)
}

/// A `Retry-After` in seconds (E-3).
#[must_use]
pub fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get(header::RETRY_AFTER).map(HeaderValue::as_bytes)?;
    let text = std::str::from_utf8(value).ok()?.trim();
    if !is_digits(text) {
        return None;
    }
    text.parse().ok().filter(|seconds| *seconds <= crate::protocol::google_rpc::DURATION_MAX_S)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn d1_fields_are_paths_of_fields() {
        for good in ["id", "message.parts[0].kind", "params.task_id", "$.id"] {
            assert!(is_field_path(good), "{good}");
        }
        for bad in ["", "acme/x", "a b", "tasks.0123456789abcdef0", "<x>"] {
            assert!(!is_field_path(bad), "{bad}");
        }
    }

    /// What [`Gate::is_harmless`] decides, by every test in turn and without a look at what is needed.
    fn is_harmless_the_plain_way(gate: &Gate<'_>, text: &str) -> bool {
        if text.trim().is_empty() || text.chars().count() > MESSAGE_MAX || !text.chars().all(is_printable) {
            return false;
        }
        let text = gate.without_echoes(text);
        let lower = text.to_lowercase();
        !(has_sign(&text)
            || MARKERS.iter().any(|marker| lower.contains(marker))
            || has_position(&lower)
            || text.split(is_space).any(|token| is_path_or_id(trim(token)))
            || text.split(|c: char| !is_run(c)).any(is_opaque)
            || text.split(|c: char| !c.is_alphanumeric() && c != '_').any(is_exception)
            || gate.has_word(&text))
    }

    fn piece() -> impl Strategy<Value = String> {
        let listed: Vec<String> = MARKERS
            .iter()
            .chain(WORDS)
            .chain(FILES)
            .chain(DOMAINS)
            .chain(SLASHED)
            .chain(&["Not", "Error", "Exception", "line 3", "char x", "deadbeefcafe", "QWERTZUIOPASDF7YXC"])
            .map(|text| (*text).to_owned())
            .collect();
        prop_oneof![
            4 => proptest::sample::select(listed).prop_flat_map(|text| {
                let upper = text.to_uppercase();
                let mut letters = text.chars();
                let first = letters.next().map(|c| c.to_uppercase().to_string());
                let camel = first.map(|first| first + letters.as_str());
                proptest::sample::select(vec![text, upper, camel.unwrap_or_default()])
            }),
            3 => "[a-z]{1,12}",
            1 => "[A-Za-z0-9_~%-]{1,30}",
            2 => proptest::sample::select(vec![" ", " ", ", ", ".", ": ", "/", "=", "'", "(", "@", "İ", "ſ", "K", "ß", "ς", "é"])
                .prop_map(str::to_owned),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

        /// D-1: what makes the gate fast changes nothing it decides.
        #[test]
        fn the_fast_gate_decides_like_the_plain_one(
            pieces in proptest::collection::vec(piece(), 1..8),
            own in proptest::option::of("[a-z]{2,6}( [a-z]{2,4})?"),
        ) {
            let text = pieces.concat();
            let disclosure = Disclosure { words: own.into_iter().collect(), ..Disclosure::default() };
            let call = Call { method: Some("GetTask".into()), ..Call::default() };
            let gate = Gate { disclosure: &disclosure, call: &call, version: Some("1.0"), path: "/a2a" };
            prop_assert_eq!(gate.is_harmless(&text), is_harmless_the_plain_way(&gate, &text), "{:?}", text);
        }
    }
}
