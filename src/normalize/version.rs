//! Which protocol version a request is at, and whether the rules bind it (I-3).

use super::RequestFacts;
use crate::protocol::a2a::percent_decode;
use crate::protocol::tree::Text;

/// The request header, and query parameter, that names the protocol version.
const A2A_VERSION: &str = "a2a-version";
/// The version of a request that names none.
const VERSION_OF_SILENCE: &str = "0.3";

/// What a request says about its version (I-3).
pub(super) enum Version {
    None,
    One(Text),
    /// Several that differ: the host may take any.
    Several,
}

impl Version {
    /// The one version it names.
    pub(super) fn single(self) -> Option<Text> {
        if let Self::One(version) = self { Some(version) } else { None }
    }
}

/// The header, else the query parameter; an empty one is none.
pub(super) fn requested_version(request: &RequestFacts<'_>) -> Version {
    let mut found = Version::None;
    for value in request.headers.get_all(A2A_VERSION) {
        let text = String::from_utf8_lossy(value.as_bytes());
        let text = text.trim();
        match &found {
            _ if text.is_empty() => {}
            Version::None => found = Version::One(text.into()),
            Version::One(first) if **first == *text => {}
            _ => return Version::Several,
        }
    }
    if !matches!(found, Version::None) {
        return found;
    }
    for pair in request.query.unwrap_or_default().split('&') {
        let Some((name, value)) = pair.split_once('=') else { continue };
        let value = percent_decode(value);
        if percent_decode(name).eq_ignore_ascii_case(A2A_VERSION) && !value.trim().is_empty() {
            match &found {
                Version::None => found = Version::One(value.trim().into()),
                Version::One(first) if **first == *value.trim() => {}
                _ => return Version::Several,
            }
        }
    }
    found
}

/// I-3: a request at a 0.x version that the interface offers; silence is 0.3.
pub(super) fn passes_as_0_3(version: &Version, offered: &[String]) -> bool {
    let version = match version {
        Version::None => VERSION_OF_SILENCE,
        Version::One(version) => version,
        Version::Several => return false,
    };
    version.starts_with("0.") && offered.iter().any(|v| same_version(v, version))
}

/// Whether two spellings name one version: patch levels do not count (A2A §3.6).
pub(super) fn same_version(a: &str, b: &str) -> bool {
    a == b || minor(a).is_some_and(|a| minor(b) == Some(a))
}

/// `1.0` of `1.0` and `1.0.1`; nothing of what is no version.
fn minor(version: &str) -> Option<&str> {
    let mut parts = version.split('.');
    let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let count = parts.clone().count();
    ((2..=3).contains(&count) && parts.all(plain)).then(|| match version.rsplit_once('.') {
        Some((minor, _)) if count == 3 => minor,
        _ => version,
    })
}
