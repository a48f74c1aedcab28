//! What a text gives away that no caller needs (D-1): a reading of its own, which shares words with the gate of the
//! rules but no code. A test holds the two against each other.

use crate::protocol::a2a::Operation;
use crate::protocol::vocabulary::{DOMAINS, FILES, MARKERS, MEDIA, SLASHED};

/// A line or a column of something.
pub const PLACE: &str = "a place in a source";

/// What a host's name ends with, or is.
fn is_domain(label: &str) -> bool {
    label == "localhost" || DOMAINS.contains(&label)
}

/// Longest message, in characters.
const LONGEST: usize = 256;

/// Words that name somebody, or what only somebody has; also with `s`, `id` or `name` behind.
const TELLING: &[&str] = &[
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
    "identity",
    "identities",
    "password",
    "secret",
    "belong",
    "belonging",
    "yours",
    "somebody",
    "someone",
];

/// Whether a word, in lower case, names somebody.
fn names_somebody(word: &str) -> bool {
    let endings = ["", "s", "es", "id", "ids", "name", "names"];
    TELLING.iter().any(|known| word.strip_prefix(known).is_some_and(|ending| endings.contains(&ending)))
}

/// Whether a name or a header's value names somebody, be it within another word.
pub fn names(text: &str) -> bool {
    let lower = text.to_lowercase();
    // The short ones are in too many words.
    lower.contains("scope")
        || TELLING.iter().any(|known| known.len() > 3 && lower.contains(known))
        || words(text).iter().any(|word| names_somebody(word))
}

/// Why this text is not one that any caller may see. `said` is what the request said itself, which may be said back
/// where it stands alone.
pub fn tells(text: &str, said: &[String]) -> Option<&'static str> {
    if text.contains(['\n', '\r']) {
        return Some("more than one line");
    }
    if text.chars().count() > LONGEST {
        return Some("more than 256 characters");
    }
    if text.chars().any(is_unseen) {
        return Some("a character that nobody sees");
    }
    if text.trim().is_empty() {
        return Some("nothing in it");
    }
    let text = without(text, said);
    let lower = text.to_lowercase();
    if MARKERS.iter().any(|mark| lower.contains(mark)) || lower.split(is_between).any(is_frame) {
        return Some("a crash");
    }
    if text.split(|c: char| !c.is_alphanumeric() && c != '_').any(is_type_of_error) {
        return Some("an error's type");
    }
    if words(&text).iter().any(|word| names_somebody(word)) {
        return Some("a word that names somebody");
    }
    if ["line", "column", "char", "offset"].iter().any(|word| is_numbered(&lower, word)) {
        return Some(PLACE);
    }
    let tokens = || text.split(is_between).map(|word| word.trim_end_matches([',', ';', ':', '!', '?', '.']));
    tokens().find_map(of_token).or_else(|| signs(&text)).or_else(|| {
        let runs = text.split(|c: char| !(c.is_ascii_alphanumeric() || "-_+~".contains(c)));
        runs.into_iter().any(is_made_by_a_machine).then_some("an id")
    })
}

/// A control, a mark that turns the direction or joins, a private or missing character.
fn is_unseen(c: char) -> bool {
    let code = u32::from(c);
    c.is_control()
        || matches!(code, 0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f)
        || matches!(code, 0xe000..=0xf8ff | 0xfeff | 0xfff0..=0xffff | 0xe_0000..)
}

/// What stands between words: blanks, quotes, brackets.
fn is_between(c: char) -> bool {
    c.is_whitespace() || "'\"`()[]“”‘’«»".contains(c)
}

/// The text without what the request said, where that is a word of its own.
fn without(text: &str, said: &[String]) -> String {
    let mut longest: Vec<&str> = said.iter().map(String::as_str).collect();
    longest.retain(|one| one.chars().any(char::is_alphanumeric));
    longest.sort_by_key(|one| std::cmp::Reverse(one.len()));
    let mut text = text.to_owned();
    for one in longest {
        let mut rest = String::new();
        let mut from = 0;
        for (at, _) in text.match_indices(one) {
            let before = text.get(..at).and_then(|before| before.chars().next_back());
            let mut after = text.get(at + one.len()..).unwrap_or_default().chars();
            let begins = before.is_none_or(|c| is_between(c) || ",;:".contains(c));
            let ends = match after.next() {
                None => true,
                // These end a word only where a blank follows.
                Some('.' | ':') => after.next().is_none_or(is_between),
                Some(c) => is_between(c) || ",;!?".contains(c),
            };
            if begins && ends {
                rest.push_str(text.get(from..at).unwrap_or_default());
                rest.push(' ');
                from = at + one.len();
            }
        }
        rest.push_str(text.get(from..).unwrap_or_default());
        text = rest;
    }
    text
}

/// The words in lower case; `tenantId`, `tenant_id` and `tenant7` have a `tenant` in them.
fn words(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for run in text.split(|c: char| !c.is_alphanumeric()) {
        let mut part = String::new();
        let mut last = ' ';
        for c in run.chars() {
            if c.is_numeric() || c.is_uppercase() && last.is_lowercase() {
                all.push(std::mem::take(&mut part));
            }
            if !c.is_numeric() {
                part.extend(c.to_lowercase());
            }
            last = c;
        }
        all.extend([part, run.to_lowercase()]);
    }
    all
}

/// `ValueError`, `KeyError`, `IOException`: written as one word.
fn is_type_of_error(word: &str) -> bool {
    ["Error", "Exception"]
        .iter()
        .filter_map(|kind| word.strip_suffix(kind))
        .any(|before| before.ends_with(char::is_alphanumeric))
}

/// `com.acme.store.get`: how stacks name what was called.
fn is_frame(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    let is_name = |part: &&str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "_$".contains(c))
    };
    parts.len() >= 4 && parts.iter().all(is_name) && parts.first().is_some_and(|first| is_domain(first))
}

/// `line 3`, `char 25`.
fn is_numbered(lower: &str, word: &str) -> bool {
    lower.match_indices(word).any(|(at, _)| {
        let alone = lower.get(..at).is_some_and(|before| !before.ends_with(char::is_alphanumeric));
        let after = lower.get(at + word.len()..).and_then(|after| after.strip_prefix(' '));
        alone && after.is_some_and(|after| after.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// What one word is by itself.
fn of_token(word: &str) -> Option<&'static str> {
    let lower = word.to_lowercase();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if lower.contains("://") || ["www.", "urn:", "arn:", "mailto:"].iter().any(|one| lower.starts_with(one)) {
        return Some("a URL");
    }
    if lower.contains('@') {
        return Some("an address");
    }
    if let Some((first, second)) = lower.split_once('/') {
        let subtype = |c: char| c.is_ascii_alphanumeric() || "+.-*".contains(c);
        let is_media =
            MEDIA.contains(&first) && !second.is_empty() && second.len() <= 64 && second.chars().all(subtype);
        let is_count = digits(first) && digits(second) && first.len() <= 3 && second.len() <= 3;
        let harmless = is_media
            || is_count
            || lower == "/"
            || SLASHED.contains(&lower.as_str())
            || Operation::from_method_0_3(word).is_some();
        let is_path = first.is_empty() || second.contains(['/', '.']) || first.ends_with(['.', '~', ':']);
        return (!harmless).then_some(if is_path { "a path" } else { "an id with a slash" });
    }
    if lower.contains('\\') {
        return Some("a path");
    }
    let parts: Vec<&str> = lower.split(':').collect();
    let number = parts.last().filter(|last| parts.len() > 1 && digits(last)).map_or(0, |last| last.len());
    let is_ip = |part: &&str| part.split('.').count() == 4 && part.split('.').all(digits);
    if parts.iter().any(is_ip) || parts.len() > 3 {
        return Some("an address");
    }
    let (name, ending) = parts.first().and_then(|first| first.rsplit_once('.')).unwrap_or_default();
    let is_name = name
        .split('.')
        .all(|label| !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_'));
    let first = parts.first().copied().unwrap_or_default();
    if is_name && (FILES.contains(&ending) || number > 0 && !is_domain(ending)) {
        return Some("a path");
    }
    let is_host = is_name && is_domain(ending) || !first.is_empty() && (2..=5).contains(&number);
    is_host.then_some("an address")
}

/// Signs that no sentence has: braces, tags, backslashes, `key=value`, encoded slashes.
fn signs(text: &str) -> Option<&'static str> {
    let chars: Vec<char> = text.chars().collect();
    let at = |place: usize| chars.get(place).copied().unwrap_or(' ');
    chars.iter().enumerate().find_map(|(place, c)| {
        let (before, after) = (place.checked_sub(1).map_or(' ', at), at(place + 1));
        let encoded = after.is_ascii_hexdigit() && at(place + 2).is_ascii_hexdigit();
        match c {
            '=' if !"<>!=".contains(before) && after != '=' => Some("a variable"),
            '{' | '}' | '\\' => Some("data"),
            '@' => Some("an address"),
            '<' if after.is_alphabetic() || "/!?".contains(after) => Some("a tag"),
            '~' if after == '/' || encoded => Some("a path"),
            '%' if encoded => Some("an encoded character"),
            _ => None,
        }
    })
}

/// A UUID, long hex, base64: what nobody writes by hand.
fn is_made_by_a_machine(run: &str) -> bool {
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let long_hex = run
        .split(|c: char| !c.is_ascii_hexdigit())
        .any(|part| part.len() >= 16 || part.len() >= 12 && part.bytes().any(|byte| byte.is_ascii_digit()));
    let groups: Vec<&str> = run.split('-').collect();
    let is_uuid = groups.windows(5).any(|five| {
        five.iter().zip([8, 4, 4, 4, 12]).all(|(group, length)| group.len() == length && hex(group))
    });
    let count = |test: fn(&u8) -> bool| run.bytes().filter(test).count();
    let digits = count(u8::is_ascii_digit);
    let (small, large) = (count(u8::is_ascii_lowercase), count(u8::is_ascii_uppercase));
    let letters = small + large;
    let is_long = run.len() >= 16;
    let is_mixed = is_long && digits >= 2 && letters >= 2 && (digits >= 4 || small > 0 && large > 0);
    let is_key = is_long && digits >= 1 && large >= 8 && small == 0;
    let is_one_case = run.len() >= 26 && letters == run.len() && (small == 0 || large == 0);
    let is_endless = run.len() >= 40 && !run.contains(['-', '_']);
    is_uuid || long_hex || is_mixed || is_key || is_one_case || is_endless
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normalize::{Call, Disclosure, Gate};

    #[test]
    fn messages_that_tell_are_told() {
        for (text, what) in [
            ("Task not found", None),
            ("The task cannot be canceled: it is completed", None),
            ("Unsupported A2A version 99.0; supported: 1.0, 0.3", None),
            ("content type text/plain is not supported", None),
            ("Use application/json, and/or HTTP/1.1 (1/2)", None),
            ("Method tasks/get is not found", None),
            ("Payload too large: at most 1048576 bytes", None),
            ("historyLength must be >= 0", None),
            ("Our technology stack is closed for today", None),
            ("params.key is missing: see google.rpc.Status", None),
            ("the limit:5 is reached", None),
            ("application/vnd.oasis.opendocument.presentation.templates.x is not taken", None),
            ("that is out of scope", None),
            ("open /var/lib/agent/a.db: no", Some("a path")),
            ("in main.c:12 and main.ts:3:1", Some("a path")),
            ("see src/store/db.py:120", Some("a path")),
            ("see db.py:120", Some("a path")),
            ("C:\\agent\\a.db", Some("a path")),
            ("see https://x.example/1", Some("a URL")),
            ("write to a@b.example", Some("an address")),
            ("connect 10.0.0.3:5432", Some("an address")),
            ("host db-1.internal.acme.corp down", Some("an address")),
            ("redis:6379 is away", Some("an address")),
            ("connect ECONNREFUSED", Some("a crash")),
            ("at com.acme.Store.get(Store.java:42)", Some("a crash")),
            ("Traceback (most recent call last)", Some("a crash")),
            ("unknown exception", Some("a crash")),
            ("KeyError: 'x'", Some("an error's type")),
            ("NullPointerError in Store", Some("a crash")),
            ("ValueError in it", Some("an error's type")),
            ("Parse error at line 1 column 51", Some("a place in a source")),
            ("Expecting value (char 0)", Some("a place in a source")),
            ("belongs to tenant 7", Some("a word that names somebody")),
            ("no such tenantId", Some("a word that names somebody")),
            ("you are not the owner", Some("a word that names somebody")),
            ("it belongs to others", Some("a word that names somebody")),
            ("not one of yours", Some("a word that names somebody")),
            ("lookup failed: shard=7", Some("a variable")),
            ("run 0123456789abcdef0 is gone", Some("an id")),
            ("id 4f9c2d1e7a8b gone", Some("an id")),
            ("no task acme/5d2f6a7b8c9d0e1f2a3b4c here", Some("an id with a slash")),
            ("no task b8b9c5b2-7d4e-4f6a-9c1d-2e3f4a5b6c7d", Some("an id")),
            ("bad eyJhbGciOiJIUzI1NiJ9eyJzdWIiOiJhbGljZSJ9QUJDREVG", Some("an id")),
            ("acme%2Fx is gone", Some("an encoded character")),
            ("see {x}", Some("data")),
            ("<b>no</b> x", Some("an id with a slash")),
            ("<b>no", Some("a tag")),
            ("a\0b \u{1b}[31mred", Some("a character that nobody sees")),
            ("x \u{202e}gnp", Some("a character that nobody sees")),
            ("one\ntwo", Some("more than one line")),
            (" ", Some("nothing in it")),
        ] {
            assert_eq!(tells(text, &[]), what, "{text}");
            // The rules say the same, but of words that this list has besides.
            let gate =
                Gate { disclosure: &Disclosure::default(), call: &Call::default(), version: None, path: "/" };
            let more = ["not one of yours"].contains(&text);
            assert_eq!(!gate.admits(text) || more, what.is_some(), "the gate: {text}");
        }
        assert_eq!(tells(&"x ".repeat(129), &[]), Some("more than 256 characters"));
    }

    /// D-1: a literal echo of the request's id, method, task, version or path.
    #[test]
    fn what_the_request_said_may_be_said_back() {
        let task = "acme/5d2f6a7b8c9d0e1f2a3b4c";
        let path = format!("/rest/tasks/{task}");
        let said = [task.to_owned(), path.clone(), "ProbeNoSuchMethod".to_owned(), "/rpc/v1/x".to_owned()];
        for text in [
            format!("Task {task} not found"),
            format!("Task '{task}' not found."),
            format!("Task not found: {task}"),
            format!("PATCH not allowed for {path}"),
            "Method not found: ProbeNoSuchMethod on /rpc/v1/x".to_owned(),
        ] {
            assert_eq!(tells(&text, &said), None, "{text}");
            assert!(
                tells(&text.replace("5d2f", "5d2e").replace("/v1/x", "/v1/y"), &said).is_some(),
                "{text}"
            );
        }
        for text in [format!("Task {task}-2 not found"), format!("{path}/more"), format!("see x{task}")] {
            assert!(tells(&text, &said).is_some(), "{text}");
        }
    }
}
