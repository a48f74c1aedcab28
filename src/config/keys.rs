//! Every key of the configuration as data: what it may hold and what it is when nobody sets it (U-3).
//! Files, variables, messages and `check` all read this one table.

use http::header::HeaderName;
use http::uri::Authority;

/// Says what is wrong with a text and what would be right.
pub type Check = fn(&str) -> Result<(), String>;

/// What a key holds.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Text(Check),
    Flag,
    /// The smallest and the largest number allowed.
    Number(i64, i64),
    Choice(&'static [&'static str]),
    /// A list of texts, each checked.
    Texts(Check),
    /// A list of addresses, or of tables with an `address`.
    Upstreams,
    /// A list of tables, each with a `cert` and a `key`.
    Certificates,
    /// A table of further keys.
    Table,
    /// A list of tables, written `[[name]]`.
    Tables,
    /// A table with these members, known by name and understood by a later build only.
    Later(&'static [&'static str]),
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `hosts[].oracle.floor_ms`: `[]` stands for any index.
    pub path: &'static str,
    pub kind: Kind,
    /// As TOML; `None` when the key has to be given (or, for tables, needs none).
    pub default: Option<&'static str>,
}

const fn key(path: &'static str, kind: Kind, default: &'static str) -> Key {
    Key { path, kind, default: Some(default) }
}

const fn must(path: &'static str, kind: Kind) -> Key {
    Key { path, kind, default: None }
}

/// Bodies are held in memory: a gibibyte is the most that can be meant.
const MOST_BYTES: i64 = 1 << 30;
/// Streams of one HTTP/2 connection, as its setting can say (RFC 9113, 5.1.2).
const MOST_STREAMS: i64 = (1 << 31) - 1;
/// What an ordinary head needs, and what Pingora reads of one.
const LEAST_HEADER: i64 = 4096;
const MOST_HEADER: i64 = (1 << 20) - 1;
/// A day, in milliseconds.
const DAY_MS: i64 = 86_400_000;
/// Smallest `response_cap_bytes` (C-1).
const LEAST_CAP: i64 = 4096;

/// The largest weight of an upstream.
pub(super) const MOST_WEIGHT: i64 = 1000;
/// How HTTP/2 is spoken to an upstream.
pub(super) const HTTP2: &[&str] = &["off", "prior_knowledge", "alpn"];

/// Every key, in the order of U-3; a table stands before its members.
pub const KEYS: &[Key] = &[
    must("listen", Kind::Table),
    key("listen.address", Kind::Text(address), "\"0.0.0.0:8080\""),
    key("listen.handover", Kind::Text(socket_or_off), "\"\""),
    must("listen.tls", Kind::Table),
    key("listen.tls.cert", Kind::Text(file_or_off), "\"\""),
    key("listen.tls.key", Kind::Text(file_or_off), "\"\""),
    key("listen.tls.certificates", Kind::Certificates, "[]"),
    key("listen.tls.client_ca", Kind::Text(file_or_off), "\"\""),
    key("listen.tls.client_auth", Kind::Choice(&["required", "optional"]), "\"required\""),
    key("listen.tls.http2", Kind::Flag, "true"),
    must("admin", Kind::Table),
    key("admin.address", Kind::Text(address_or_off), "\"127.0.0.1:9464\""),
    key("admin.allow_remote", Kind::Flag, "false"),
    must("limits", Kind::Table),
    key("limits.held_bytes", Kind::Number(1 << 16, i64::MAX), "67108864"),
    key("limits.connections", Kind::Number(0, 10_000_000), "20000"),
    key("limits.concurrent_streams", Kind::Number(1, MOST_STREAMS), "100"),
    key("limits.request_header_bytes", Kind::Number(LEAST_HEADER, MOST_HEADER), "65536"),
    key("limits.requests_per_second", Kind::Number(0, 1_000_000), "0"),
    must("timeouts", Kind::Table),
    key("timeouts.request_headers_ms", Kind::Number(1, DAY_MS), "10000"),
    key("timeouts.keep_alive_ms", Kind::Number(1000, DAY_MS), "60000"),
    must("traces", Kind::Table),
    key("traces.otlp_url", Kind::Text(otlp_url), "\"\""),
    key("traces.sample_percent", Kind::Number(0, 100), "100"),
    key("traces.headers", Kind::Texts(header_line), "[]"),
    must("hosts", Kind::Tables),
    key("hosts[].name", Kind::Text(host_name), "\"legacy\""),
    must("hosts[].upstreams", Kind::Upstreams),
    key("hosts[].balance", Kind::Choice(&["round_robin", "least_connections"]), "\"round_robin\""),
    must("hosts[].health", Kind::Table),
    key("hosts[].health.path", Kind::Text(health_path), "\"\""),
    key("hosts[].health.interval_ms", Kind::Number(0, DAY_MS), "0"),
    key("hosts[].health.timeout_ms", Kind::Number(1, DAY_MS), "2000"),
    key("hosts[].health.failures", Kind::Number(1, 100), "3"),
    key("hosts[].health.successes", Kind::Number(1, 100), "2"),
    must("hosts[].ejection", Kind::Table),
    key("hosts[].ejection.failures", Kind::Number(0, 1000), "5"),
    key("hosts[].ejection.for_ms", Kind::Number(1, DAY_MS), "10000"),
    key("hosts[].ejection.max_percent", Kind::Number(0, 100), "50"),
    key("hosts[].authorities", Kind::Texts(authority), "[]"),
    key("hosts[].mode", Kind::Choice(&["enforce", "observe"]), "\"enforce\""),
    key("hosts[].response_cap_bytes", Kind::Number(LEAST_CAP, MOST_BYTES), "1048576"),
    key("hosts[].intake_bytes", Kind::Number(LEAST_CAP, MOST_BYTES), "4194304"),
    key("hosts[].normalize_0_3", Kind::Flag, "false"),
    must("hosts[].oracle", Kind::Table),
    key("hosts[].oracle.collapse_scope", Kind::Flag, "false"),
    key("hosts[].oracle.floor_ms", Kind::Number(0, 10_000), "0"),
    key("hosts[].oracle.keep_headers", Kind::Texts(header), "[]"),
    must("hosts[].disclosure", Kind::Table),
    key("hosts[].disclosure.messages", Kind::Choice(&["guarded", "canonical", "upstream"]), "\"guarded\""),
    key("hosts[].disclosure.words", Kind::Texts(not_blank), "[]"),
    key("hosts[].disclosure.metadata_keys", Kind::Texts(not_blank), "[]"),
    key("hosts[].disclosure.detail_types", Kind::Texts(detail_type), "[]"),
    key("hosts[].disclosure.headers", Kind::Texts(header), "[]"),
    must("hosts[].cap", Kind::Table),
    key("hosts[].cap.success", Kind::Flag, "false"),
    must("hosts[].limits", Kind::Table),
    key("hosts[].limits.request_bytes", Kind::Number(1, i64::MAX), "67108864"),
    key("hosts[].limits.response_header_bytes", Kind::Number(LEAST_HEADER, MOST_HEADER), "1048575"),
    key("hosts[].public_url", Kind::Text(public_url), "\"\""),
    must("hosts[].card", Kind::Table),
    key("hosts[].card.refresh_s", Kind::Number(1, 86_400), "60"),
    key("hosts[].card.max_bytes", Kind::Number(1, MOST_BYTES), "4194304"),
    must("hosts[].timeouts", Kind::Table),
    key("hosts[].timeouts.connect_ms", Kind::Number(1, DAY_MS), "3000"),
    key("hosts[].timeouts.read_ms", Kind::Number(1, DAY_MS), "60000"),
    key("hosts[].timeouts.write_ms", Kind::Number(1, DAY_MS), "30000"),
    key("hosts[].timeouts.idle_ms", Kind::Number(1, DAY_MS), "55000"),
    must("hosts[].interfaces", Kind::Tables),
    must("hosts[].interfaces[].path", Kind::Text(interface_path)),
    key("hosts[].interfaces[].binding", Kind::Choice(&["JSONRPC", "HTTP+JSON"]), "\"JSONRPC\""),
    key("hosts[].interfaces[].versions", Kind::Texts(version), "[\"1.0\"]"),
    key("hosts[].interfaces[].mode", Kind::Choice(&["host", "enforce", "observe"]), "\"host\""),
];

impl Key {
    /// The key of this path, indexes written `[]`.
    #[must_use]
    pub fn find(path: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.path == path)
    }

    /// The path of the table it is in (`hosts[]`) and its own name.
    #[must_use]
    pub fn split(&self) -> (&'static str, &'static str) {
        self.path.rsplit_once('.').unwrap_or(("", self.path))
    }

    /// Its value opens something or identifies somebody: it is not shown on the admin pages (D-4). Words to
    /// be kept out of messages are names of tenants and the like.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.is_credential() || self.path == "hosts[].disclosure.words"
    }

    /// Its value opens something: it is repeated nowhere, not even a bad one in a message.
    #[must_use]
    pub fn is_credential(&self) -> bool {
        self.path == "traces.headers"
    }

    /// It is a leaf that a person may set.
    #[must_use]
    pub fn is_value(&self) -> bool {
        !matches!(self.kind, Kind::Table | Kind::Tables | Kind::Later(_))
    }
}

/// What to say about `name`, which is no key of the table `parent`.
pub(super) fn unknown(parent: &str, name: &str) -> String {
    let siblings: Vec<&str> =
        KEYS.iter().map(Key::split).filter(|(table, _)| *table == parent).map(|(_, name)| name).collect();
    let prefix = if parent.is_empty() { String::new() } else { format!("{parent}.") };
    if let Some(near) = nearest(name, &siblings) {
        return format!("unknown key; did you mean `{near}`?");
    }
    if (parent, name) == ("hosts[]", "tls") {
        return "unknown key here; each upstream has its own, { address = \"…\", tls = { … } }".to_owned();
    }
    if let Some(elsewhere) = KEYS.iter().find(|key| key.split().1 == name) {
        return format!("unknown key here; it belongs at `{}`", elsewhere.path);
    }
    let all: Vec<String> = siblings.iter().map(|name| format!("`{prefix}{name}`")).collect();
    format!("unknown key; known here are {}", all.join(", "))
}

/// The word of `words` that `word` is most likely a slip of.
pub(crate) fn nearest<'a>(word: &str, words: &[&'a str]) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    words
        .iter()
        .map(|known| (strsim::damerau_levenshtein(&word, &known.to_ascii_lowercase()), *known))
        .filter(|(distance, known)| *distance <= (known.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// `HOST:PORT`, split. The host is a name, an IPv4 address or a bracketed IPv6 address.
fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.bytes().all(|b| b.is_ascii_digit()).then(|| port.parse::<u16>().ok()).flatten()?;
    let plain = if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        inner.parse::<std::net::Ipv6Addr>().is_ok()
    } else if host.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        host.parse::<std::net::Ipv4Addr>().is_ok()
    } else {
        host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
            && !host.starts_with(['.', '-'])
    };
    (plain && port > 0).then_some((host, port))
}

pub(super) fn address(text: &str) -> Result<(), String> {
    host_and_port(text).map(|_| ()).ok_or_else(|| {
        "not an address; write HOST:PORT with a port from 1 to 65535, for example \"127.0.0.1:9000\"".into()
    })
}

/// A name that a certificate may have: of a host, without a port, or an address.
pub(super) fn server_name(text: &str) -> Result<(), String> {
    if rustls::pki_types::ServerName::try_from(text).is_ok() {
        return Ok(());
    }
    Err("not a name of a host; write it without a port, for example \"agents.internal\"".into())
}

fn address_or_off(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    address(text).map_err(|says| format!("{says}, or \"\" for no admin listener"))
}

/// The longest path of a Unix socket, in bytes.
const LONGEST_SOCKET: usize = 107;

fn socket_or_off(text: &str) -> Result<(), String> {
    let plain = text.starts_with('/') && !text.ends_with('/') && text.len() <= LONGEST_SOCKET;
    if text.is_empty() || plain && !text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Ok(());
    }
    Err("not the path of a socket; write an absolute one of at most 107 bytes without spaces, for example \
         \"/run/a2a-errata/handover.sock\", or \"\" for none"
        .into())
}

/// Whether the file is there is seen when it is read.
pub(super) fn file_or_off(text: &str) -> Result<(), String> {
    if text.contains('\0') || text.starts_with("-----BEGIN") {
        return Err("not the path of a file; write for example \"/etc/tls/tls.crt\", or \"\" for none".into());
    }
    Ok(())
}

/// A name becomes a label of metrics and logs.
fn host_name(text: &str) -> Result<(), String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if !text.is_empty() && text.len() <= 64 && text.bytes().all(plain) {
        return Ok(());
    }
    Err("not a name; write 1 to 64 letters, digits, `-`, `_` or `.`, for example \"legacy\"".into())
}

fn authority(text: &str) -> Result<(), String> {
    let valid = text.parse::<Authority>().is_ok_and(|parsed| {
        let port_is_right = match text.strip_prefix(parsed.host()) {
            Some("") => true,
            _ => parsed.port_u16().is_some_and(|port| port > 0),
        };
        !parsed.host().is_empty() && !text.contains(['@', '*']) && port_is_right
    });
    if valid {
        return Ok(());
    }
    Err("not a Host value; write a name with or without a port, for example \"agents.example\"".into())
}

fn not_blank(text: &str) -> Result<(), String> {
    if text.trim().is_empty() || text.trim() != text {
        return Err("must not be empty or begin or end with a space; write a word".into());
    }
    Ok(())
}

fn detail_type(text: &str) -> Result<(), String> {
    let name = text.rsplit('/').next().unwrap_or_default();
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_');
    if !name.is_empty() && name.bytes().all(plain) && !text.contains(char::is_whitespace) {
        return Ok(());
    }
    Err("not a message type; write its full name, for example \"google.rpc.Help\"".into())
}

/// What belongs to a connection or to the framing of a body is never carried over (C-4).
const FRAMING: &[&str] = &[
    "connection",
    "content-encoding",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

fn header(text: &str) -> Result<(), String> {
    let Ok(name) = HeaderName::from_bytes(text.as_bytes()) else {
        return Err("not a header name; write for example \"x-request-id\"".into());
    };
    if FRAMING.contains(&name.as_str()) {
        return Err("belongs to one connection or one body's framing and is never kept; remove it".into());
    }
    Ok(())
}

fn public_url(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    let absolute = text.parse::<http::Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.authority().is_some_and(|a| !a.host().is_empty() && !a.as_str().contains('@'))
            && uri.authority().is_some_and(|a| authority(a.as_str()).is_ok())
            && uri.query().is_none()
            && !uri.path().split('/').any(|segment| matches!(segment, "." | ".."))
            && !uri.path().contains("//")
    });
    if absolute && !text.contains('#') && !text.contains(char::is_whitespace) {
        return Ok(());
    }
    Err("not an absolute URL; write for example \"https://agents.example/billing\", or \"\" for off".into())
}

/// The URL of a collector; one without a path means OTLP's own.
fn otlp_url(text: &str) -> Result<(), String> {
    let is_url = text.parse::<http::Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.authority().is_some_and(|a| !a.host().is_empty() && !a.as_str().contains('@'))
    });
    if text.is_empty() || is_url && !text.contains('#') {
        return Ok(());
    }
    let says = "not the URL of a collector (http or https, without user and fragment); write for example \
                \"http://127.0.0.1:4318/v1/traces\", or \"\" for off";
    Err(says.into())
}

/// A header with its value. What is wrong with it is said without it: it may be a credential.
fn header_line(text: &str) -> Result<(), String> {
    let parts = text.split_once(':');
    let valid = parts.is_some_and(|(name, value)| {
        HeaderName::from_bytes(name.trim().as_bytes()).is_ok()
            && http::HeaderValue::from_str(value.trim()).is_ok()
            && !value.trim().is_empty()
    });
    if valid {
        return Ok(());
    }
    Err("not a header; write for example \"authorization: Bearer …\"".into())
}

fn interface_path(text: &str) -> Result<(), String> {
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'?' | b'#');
    if text.starts_with('/') && text.bytes().all(plain) {
        return Ok(());
    }
    Err("not a path; write it from the root without a query, for example \"/a2a\"".into())
}

fn health_path(text: &str) -> Result<(), String> {
    let plain = |b: u8| b.is_ascii_graphic() && b != b'#';
    if text.is_empty() || text.starts_with('/') && text.bytes().all(plain) {
        return Ok(());
    }
    Err("not a path; write it from the root, for example \"/healthz\", or \"\" for a connection alone".into())
}

fn version(text: &str) -> Result<(), String> {
    let number = |part: &str| !part.is_empty() && part.len() < 5 && part.bytes().all(|b| b.is_ascii_digit());
    if text.split_once('.').is_some_and(|(major, minor)| number(major) && number(minor)) {
        return Ok(());
    }
    Err("not a protocol version; write MAJOR.MINOR, for example \"1.0\"".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_strictly() {
        for good in ["127.0.0.1:1", "[::1]:8080", "localhost:80", "my-host.example:65535", "a_b:9"] {
            assert!(address(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ":80",
            "8080",
            "127.0.0.1",
            "127.0.0.1:",
            "127.0.0.1:0",
            "127.0.0.1:65536",
            "::1:80",
            "127.0.0.1:+80",
            "256.0.0.1:80",
            "http://a:80",
            "a b:80",
            "[zz]:80",
            "-a:80",
        ] {
            assert!(address(bad).is_err(), "{bad}");
        }
        assert!(address_or_off("").is_ok());
    }

    #[test]
    fn texts_are_checked() {
        for (check, good, bad) in [
            (
                authority as Check,
                vec!["agents.example", "agents.example:8443", "[::1]:80", "127.0.0.1"],
                vec!["", "a b", "u@h", "*.example", "http://a", "a:", "a:99999", "/x"],
            ),
            (
                interface_path,
                vec!["/", "/a2a", "/a2a/", "/a/b%2Fc"],
                vec!["", "a2a", "/a?x", "/a#x", "/a b", "/ä"],
            ),
            (version, vec!["1.0", "0.3", "10.12"], vec!["", "1", "v1.0", "1.0.1", "1.", ".1", "1.x"]),
            (header, vec!["x-request-id", "ETag"], vec!["", "x y", "content-length", "Transfer-Encoding"]),
            (host_name, vec!["legacy", "a.b-c_d"], vec!["", "a b", "ä"]),
            (
                otlp_url,
                vec!["", "http://c:4318", "https://c/v1/traces"],
                vec!["c:4318", "grpc://c", "http://", "http://u@c/", "http://c/#x"],
            ),
            (
                header_line,
                vec!["a: b", "authorization: Bearer x:y"],
                vec!["", "a", ": b", "a:", "a b: c", "a: \n"],
            ),
            (
                public_url,
                vec!["", "https://a", "http://a:81/", "https://a/b", "https://a/b/c/", "https://[::1]:80/x"],
                vec![
                    "x",
                    "ftp://a",
                    "/x",
                    "https://",
                    "https://a/b?c",
                    "https://a/b#c",
                    "https://u@a/b",
                    "https://a:0/b",
                    "https://a/../b",
                    "https://a//b",
                    "https://a/b c",
                ],
            ),
            (socket_or_off, vec!["", "/run/a/b.sock"], vec!["b.sock", "/run/", "/run/a b", "/x\n"]),
            (detail_type, vec!["google.rpc.Help", "type.googleapis.com/a.B"], vec!["", "a b", "a/"]),
        ] {
            for text in good {
                assert_eq!(check(text), Ok(()), "{text}");
            }
            for text in bad {
                assert!(check(text).is_err(), "{text}");
            }
        }
    }

    #[test]
    fn every_key_stands_in_a_known_table() {
        for key in KEYS {
            let (table, _) = key.split();
            if !table.is_empty() {
                let table = Key::find(table.trim_end_matches("[]")).unwrap();
                assert!(matches!(table.kind, Kind::Table | Kind::Tables), "{}", key.path);
            }
        }
    }

    /// A key that sounds like a secret is one.
    #[test]
    fn secrets_are_known() {
        for key in KEYS.iter().filter(|key| key.is_value()) {
            let (_, name) = key.split();
            let sounds_like_one = ["password", "secret", "token", "credential", "bearer"]
                .iter()
                .any(|word| name.contains(word));
            assert!(!sounds_like_one || key.is_secret(), "{}", key.path);
        }
    }

    #[test]
    fn a_slip_finds_its_key() {
        assert_eq!(unknown("listen", "adress"), "unknown key; did you mean `address`?");
        assert_eq!(unknown("", "host"), "unknown key; did you mean `hosts`?");
        assert_eq!(
            unknown("hosts[]", "floor_ms"),
            "unknown key here; it belongs at `hosts[].oracle.floor_ms`"
        );
        assert_eq!(
            unknown("admin", "colour"),
            "unknown key; known here are `admin.address`, `admin.allow_remote`"
        );
    }
}
