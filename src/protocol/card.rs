//! Agent cards: which interfaces a host lists, in the shape of A2A 1.0 and of 0.3 (I-1).

use std::collections::HashSet;

use serde_json::Value;

/// Where a card is, and where older hosts have it.
pub const PATHS: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// A binding as cards name it; others (gRPC, a vendor's own) are none of the proxy's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CardBinding {
    JsonRpc,
    HttpJson,
}

/// One interface as a card lists it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Listed {
    /// `host:port` of an absolute URL, lower case; `None` if the URL is relative.
    pub authority: Option<String>,
    /// Absolute, without a trailing slash.
    pub path: String,
    pub binding: CardBinding,
    /// `major.minor`.
    pub version: String,
}

/// Why a card cannot be used. The text is for operators and holds nothing of the card's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    NotJson,
    NotAnObject,
    /// No interface with a binding the proxy knows.
    NoInterface,
}

impl Unusable {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotJson => "it is not JSON",
            Self::NotAnObject => "it is not an object",
            Self::NoInterface => "it lists no interface with the binding JSONRPC or HTTP+JSON",
        }
    }
}

/// Reads a card. A card may list interfaces in both shapes; each counts once.
///
/// # Errors
/// It is no card, or lists nothing that the proxy could guard.
pub fn read(bytes: &[u8]) -> Result<Vec<Listed>, Unusable> {
    let mut listed: Vec<Listed> = read_with_urls(bytes)?.into_iter().map(|(one, _)| one).collect();
    let mut seen = HashSet::new();
    listed.retain(|one| seen.insert(one.clone()));
    Ok(listed)
}

/// The same with each URL as it is written, scheme and query included.
///
/// # Errors
/// It is no card, or lists nothing that the proxy could guard.
pub fn read_with_urls(bytes: &[u8]) -> Result<Vec<(Listed, String)>, Unusable> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let card: Value = serde_json::from_slice(bytes).map_err(|_| Unusable::NotJson)?;
    let card = card.as_object().ok_or(Unusable::NotAnObject)?;
    let (mut listed, mut seen) = (Vec::new(), HashSet::new());
    let mut add = |url: Option<&Value>, binding: Option<&Value>, version: Option<&Value>, default: &str| {
        let binding = text(binding).map_or(Some(CardBinding::JsonRpc), binding_of);
        let (Some(url), Some(binding)) = (text(url), binding) else { return };
        let Some((authority, path)) = place(url) else { return };
        let version = major_minor(text(version).unwrap_or(default));
        let interface = (Listed { authority, path, binding, version }, url.to_owned());
        // A card of megabytes lists too many to be compared with each other.
        if seen.insert(interface.clone()) {
            listed.push(interface);
        }
    };
    let list = |name: &str| card.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for entry in list("supportedInterfaces") {
        add(entry.get("url"), entry.get("protocolBinding"), entry.get("protocolVersion"), "1.0");
    }
    let version = card.get("protocolVersion");
    add(card.get("url"), card.get("preferredTransport"), version, "0.3");
    for entry in list("additionalInterfaces") {
        add(entry.get("url"), entry.get("transport"), version, "0.3");
    }
    if listed.is_empty() { Err(Unusable::NoInterface) } else { Ok(listed) }
}

fn text(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
}

fn binding_of(name: &str) -> Option<CardBinding> {
    if name.eq_ignore_ascii_case("JSONRPC") {
        Some(CardBinding::JsonRpc)
    } else if name.eq_ignore_ascii_case("HTTP+JSON") {
        Some(CardBinding::HttpJson)
    } else {
        None
    }
}

fn major_minor(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// Authority and path of an `http(s)` URL or of a relative one.
fn place(url: &str) -> Option<(Option<String>, String)> {
    let below_scheme = match url.split_once("://") {
        Some((scheme, rest)) => {
            if !matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") {
                return None;
            }
            Some(rest)
        }
        // A relative one may name an authority too.
        None => url.strip_prefix("//"),
    };
    let (authority, path) = match below_scheme {
        Some(rest) => {
            let (authority, path) =
                rest.split_at_checked(rest.find(['/', '?', '#']).unwrap_or(rest.len()))?;
            let authority = authority.rsplit('@').next().unwrap_or(authority);
            (Some(authority.to_ascii_lowercase()).filter(|a| !a.is_empty()), path)
        }
        None => (None, url),
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let path = path.strip_suffix('/').unwrap_or(path);
    let path = if path.is_empty() || path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Some((authority, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(authority: Option<&str>, path: &str, binding: CardBinding, version: &str) -> Listed {
        Listed { authority: authority.map(Into::into), path: path.into(), binding, version: version.into() }
    }

    #[test]
    fn i1_a_card_of_1_0() {
        let card = br#"{"name":"x","supportedInterfaces":[
            {"url":"https://Agent.example/agents/main","protocolBinding":"JSONRPC","protocolVersion":"1.0"},
            {"url":"https://agent.example/rest/","protocolBinding":"HTTP+JSON","protocolVersion":"1.0.1","tenant":"a"},
            {"url":"agent.example:50051","protocolBinding":"GRPC","protocolVersion":"1.0"},
            {"url":"/relative?x=1","protocolBinding":"JSONRPC","protocolVersion":"0.3"}]}"#;
        assert_eq!(
            read(card).unwrap(),
            vec![
                listed(Some("agent.example"), "/agents/main", CardBinding::JsonRpc, "1.0"),
                listed(Some("agent.example"), "/rest", CardBinding::HttpJson, "1.0"),
                listed(None, "/relative", CardBinding::JsonRpc, "0.3"),
            ]
        );
    }

    #[test]
    fn i1_a_relative_url_may_name_an_authority() {
        for (url, authority, path) in [
            ("//Agent.example/a2a/", Some("agent.example"), "/a2a"),
            ("//agent.example?x=/1", Some("agent.example"), ""),
            ("//user@agent.example:8443#/x", Some("agent.example:8443"), ""),
            ("///a2a", None, "/a2a"),
            ("a2a?x=//b", None, "/a2a"),
        ] {
            let card = serde_json::json!({"supportedInterfaces": [{"url": url}]}).to_string();
            let want = vec![listed(authority, path, CardBinding::JsonRpc, "1.0")];
            assert_eq!(read(card.as_bytes()).unwrap(), want, "{url}");
        }
    }

    #[test]
    fn i1_a_card_of_0_3() {
        let card = br#"{"protocolVersion":"0.3.0","url":"http://h:9/","preferredTransport":"JSONRPC",
            "additionalInterfaces":[{"url":"http://h:9","transport":"JSONRPC"},
            {"url":"http://h:9/v1x","transport":"HTTP+JSON"},{"url":"http://h:10","transport":"GRPC"}]}"#;
        assert_eq!(
            read(card).unwrap(),
            vec![
                listed(Some("h:9"), "", CardBinding::JsonRpc, "0.3"),
                listed(Some("h:9"), "/v1x", CardBinding::HttpJson, "0.3"),
            ]
        );
    }

    #[test]
    fn i1_cards_that_cannot_be_used() {
        assert_eq!(read(b"<html>"), Err(Unusable::NotJson));
        assert_eq!(read(b"[]"), Err(Unusable::NotAnObject));
        assert_eq!(read(b"{}"), Err(Unusable::NoInterface));
        assert_eq!(read(br#"{"url":"grpc://x","preferredTransport":"JSONRPC"}"#), Err(Unusable::NoInterface));
        assert_eq!(read(br#"{"url":7,"supportedInterfaces":{}}"#), Err(Unusable::NoInterface));
    }
}
