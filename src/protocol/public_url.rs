//! A host's URL as its clients see it, and agent cards that are told about it (P-3).
//!
//! A card is edited in place: only the interface URLs and the signatures that no longer hold are
//! other bytes; members, spacing, numbers and escapes stay as the host wrote them.

use std::fmt;
use std::net::IpAddr;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::tree::write_string;

/// The authorities that are the host's own: what an absolute URL in its card may name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Own(Vec<Box<str>>);

impl Own {
    /// From the addresses of the host (`HOST:PORT`) and its `authorities`. On a machine's own loopback
    /// every name of it is the same address, and hosts rarely know which one is in the configuration.
    #[must_use]
    pub fn new<'a>(
        upstreams: impl IntoIterator<Item = &'a str>,
        authorities: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut own: Vec<Box<str>> = authorities.into_iter().map(folded).collect();
        for upstream in upstreams {
            own.push(folded(upstream));
            let (name, port) = split_port(upstream);
            let is_loopback = name.eq_ignore_ascii_case("localhost")
                || name.trim_matches(['[', ']']).parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
            if let Some(port) = port.filter(|_| is_loopback) {
                let names = ["localhost", "127.0.0.1", "[::1]", "0.0.0.0"];
                own.extend(names.map(|name| format!("{name}:{port}").into_boxed_str()));
            }
        }
        Self(own)
    }

    /// Whether `authority` (lower case) is one of them. One that is listed without a port stands for
    /// every port, and a port that the scheme implies may be left out.
    #[must_use]
    pub fn has(&self, authority: &str) -> bool {
        let (name, port) = split_port(authority);
        let implied = |listed: &str| {
            port.is_none() && matches!(split_port(listed), (same, Some("80" | "443")) if same == name)
        };
        self.0.iter().any(|listed| **listed == *authority || **listed == *name || implied(listed))
    }
}

/// The URL below which a host is reached, and what stands for it in its card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    /// `https://agents.example`.
    origin: Box<str>,
    /// `agents.example`; the port is left out if the scheme implies it.
    authority: Box<str>,
    /// `/billing`; empty for the root.
    path: Box<str>,
    own: Own,
}

/// An edited card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    pub bytes: Vec<u8>,
    /// It was signed; what it says now, nobody has signed.
    pub was_signed: bool,
}

/// The bytes are no JSON object in UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoCard;

impl PublicUrl {
    /// `None` if `url` is no absolute `http(s)` URL: one has no blanks, which those who read it would trim away.
    #[must_use]
    pub fn new(url: &str, own: Own) -> Option<Self> {
        let Place::Absolute { scheme, authority, rest } = place(url)? else { return None };
        let path = rest.trim_end_matches('/');
        let blank = |c: char| c.is_whitespace() || c.is_control();
        let is_plain = !authority.is_empty() && !rest.contains(['?', '#']) && !url.contains(blank);
        is_plain.then(|| Self {
            origin: format!("{scheme}://{authority}").into(),
            authority: without_implied_port(&scheme, &authority).into(),
            path: path.into(),
            own,
        })
    }

    /// Name and port of the URL, in lower case; the port is left out if the scheme implies it.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The path of the URL, without a trailing slash; empty for the root.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What follows the public path in `path`: empty, or from a slash on. `None` if `path` is not below.
    #[must_use]
    pub fn below<'a>(&self, path: &'a str) -> Option<&'a str> {
        path.strip_prefix(&*self.path).filter(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The path at the host of a URL that a card lists: a host that writes its public URL itself means
    /// what is left of it once a request has come through.
    #[must_use]
    pub fn inner_path<'a>(&self, authority: &str, path: &'a str) -> Option<&'a str> {
        let named = [80, 443]
            .iter()
            .any(|port| authority.strip_suffix(&format!(":{port}")) == Some(&*self.authority));
        if *authority == *self.authority || named { self.below(path) } else { None }
    }

    /// The public form of an interface's URL; `None` if it stays as it is.
    #[must_use]
    pub fn public(&self, url: &str) -> Option<String> {
        let public = match place(url)? {
            Place::Absolute { authority, .. } if !self.own.has(&authority) => return None,
            // It is below the public path already: the host knows how it is reached.
            Place::Absolute { scheme, authority, rest }
                if without_implied_port(&scheme, &authority) == &*self.authority
                    && self.below(rest.split(['?', '#']).next().unwrap_or_default()).is_some() =>
            {
                format!("{}{rest}", self.origin)
            }
            Place::Absolute { rest, .. } | Place::Relative(rest) => {
                let slash = if rest.is_empty() || rest.starts_with(['/', '?', '#']) { "" } else { "/" };
                format!("{}{}{slash}{rest}", self.origin, self.path)
            }
        };
        (public != url).then_some(public)
    }

    /// Puts the public URLs into a card, 1.0's `supportedInterfaces[].url` as well as 0.3's `url` and
    /// `additionalInterfaces[].url`; `signatures` go if anything was changed. `None` if nothing was.
    ///
    /// # Errors
    /// It is no card.
    pub fn edit(&self, card: &[u8]) -> Result<Option<Edited>, NoCard> {
        let card = card.strip_prefix(b"\xef\xbb\xbf").unwrap_or(card);
        let card = std::str::from_utf8(card).map_err(|_| NoCard)?;
        let members: Members<'_> = serde_json::from_str(card).map_err(|_| NoCard)?;
        let mut edits = Vec::new();
        for (name, value) in &members.0 {
            match name.as_str() {
                "url" => edits.extend(self.edit_url(card, value)),
                "supportedInterfaces" | "additionalInterfaces" => {
                    let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(value.get()) else { continue };
                    for entry in entries {
                        let Ok(entry) = serde_json::from_str::<Members<'_>>(entry.get()) else { continue };
                        let urls = entry.0.into_iter().filter(|(name, _)| name == "url");
                        edits.extend(urls.filter_map(|(_, url)| self.edit_url(card, url)));
                    }
                }
                _ => {}
            }
        }
        if edits.is_empty() {
            return Ok(None);
        }
        let signatures = members.without(card, "signatures");
        let was_signed = !signatures.is_empty();
        edits.extend(signatures.into_iter().map(|range| (range, Vec::new())));
        edits.sort_by_key(|(range, _)| range.start);
        let mut bytes = Vec::with_capacity(card.len() + 64 * edits.len());
        let mut done = 0;
        for (range, new) in edits {
            bytes.extend_from_slice(card.get(done..range.start).unwrap_or_default().as_bytes());
            bytes.extend_from_slice(&new);
            done = range.end;
        }
        bytes.extend_from_slice(card.get(done..).unwrap_or_default().as_bytes());
        Ok(Some(Edited { bytes, was_signed }))
    }

    /// The same for a card that is the `result` of a JSON-RPC response.
    ///
    /// # Errors
    /// There is no card.
    pub fn edit_result(&self, response: &[u8]) -> Result<Option<Edited>, NoCard> {
        let response = response.strip_prefix(b"\xef\xbb\xbf").unwrap_or(response);
        let response = std::str::from_utf8(response).map_err(|_| NoCard)?;
        let members: Members<'_> = serde_json::from_str(response).map_err(|_| NoCard)?;
        let (_, result) = members.0.iter().find(|(name, _)| name == "result").ok_or(NoCard)?;
        let Some(edited) = self.edit(result.get().as_bytes())? else { return Ok(None) };
        let span = span(response, result);
        let before = response.get(..span.start).unwrap_or_default().as_bytes();
        let after = response.get(span.end..).unwrap_or_default().as_bytes();
        Ok(Some(Edited { bytes: [before, &edited.bytes, after].concat(), ..edited }))
    }

    fn edit_url(&self, card: &str, value: &RawValue) -> Option<(Range<usize>, Vec<u8>)> {
        let url: String = serde_json::from_str(value.get()).ok()?;
        let public = self.public(url.trim())?;
        let mut new = Vec::with_capacity(public.len() + 2);
        write_string(&public, &mut new);
        Some((span(card, value), new))
    }
}

/// The members of an object, in order, duplicates kept, values as they were spelled.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl Members<'_> {
    /// What to cut out of `card` so that it is an object without the members of this name.
    fn without(&self, card: &str, name: &str) -> Vec<Range<usize>> {
        let spans: Vec<_> =
            self.0.iter().map(|(member, value)| (member == name, span(card, value))).collect();
        let after_comma = |end: usize| {
            let comma = card.get(end..).and_then(|rest| rest.find(','));
            comma.map_or(end, |comma| end + comma + 1)
        };
        let mut cuts = Vec::new();
        // Until a member stays, a cut takes the comma behind it; from then on the one before.
        let mut begins = card.find('{').map_or(0, |brace| brace + 1);
        let mut one_stays = false;
        for (n, (goes, value)) in spans.iter().enumerate() {
            let is_last = n + 1 == spans.len();
            let next = if is_last { value.end } else { after_comma(value.end) };
            if !goes {
                one_stays = true;
            } else if one_stays {
                // `begins` is behind the comma; the cut begins where the value before it ended.
                let before = n.checked_sub(1).and_then(|n| spans.get(n)).map_or(begins, |(_, v)| v.end);
                cuts.push(before..value.end);
            } else {
                cuts.push(begins..next);
            }
            begins = next;
        }
        cuts
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// Where `value`, which borrows from `card`, stands in it.
fn span(card: &str, value: &RawValue) -> Range<usize> {
    let start = (value.get().as_ptr() as usize).saturating_sub(card.as_ptr() as usize);
    start..start + value.get().len()
}

/// A URL, taken apart as far as P-3 needs it.
enum Place<'a> {
    /// Scheme and authority in lower case, the latter without user information.
    Absolute {
        scheme: String,
        authority: String,
        rest: &'a str,
    },
    Relative(&'a str),
}

/// `None` for a URL of another scheme, and for `name:port`, which gRPC interfaces have.
fn place(url: &str) -> Option<Place<'_>> {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
        None => match url.strip_prefix("//") {
            // As the card's own: it does not matter which, ports aside.
            Some(rest) => ("https".into(), rest),
            None if url.split(['/', '?', '#']).next().unwrap_or_default().contains(':') => return None,
            None => return Some(Place::Relative(url)),
        },
    };
    if !matches!(scheme.as_str(), "http" | "https") {
        return None;
    }
    let (authority, rest) = rest.split_at_checked(rest.find(['/', '?', '#']).unwrap_or(rest.len()))?;
    let authority = authority.rsplit('@').next().unwrap_or(authority).to_ascii_lowercase();
    Some(Place::Absolute { scheme, authority, rest })
}

fn folded(authority: &str) -> Box<str> {
    authority.to_ascii_lowercase().into()
}

/// The name and the port of `name:port`; an IPv6 address keeps its brackets.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (name, Some(port))
        }
        _ => (authority, None),
    }
}

fn without_implied_port<'a>(scheme: &str, authority: &'a str) -> &'a str {
    match (scheme, split_port(authority)) {
        ("http", (name, Some("80"))) | ("https", (name, Some("443"))) => name,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn billing() -> PublicUrl {
        let own = Own::new(["10.0.0.5:9000"], ["billing.internal", "Agents.example:8443"]);
        PublicUrl::new("https://agents.example/billing/", own).unwrap()
    }

    #[test]
    fn p3_urls_on_the_hosts_own_origin_are_made_public() {
        let public = billing();
        for (url, expected) in [
            ("http://10.0.0.5:9000/a2a", Some("https://agents.example/billing/a2a")),
            ("http://10.0.0.5:9000", Some("https://agents.example/billing")),
            ("HTTP://user:pw@10.0.0.5:9000/", Some("https://agents.example/billing/")),
            ("https://Billing.Internal/a?b#c", Some("https://agents.example/billing/a?b#c")),
            ("https://billing.internal:444/a", Some("https://agents.example/billing/a")),
            ("//billing.internal/a", Some("https://agents.example/billing/a")),
            ("https://agents.example:8443/a", Some("https://agents.example/billing/a")),
            ("/a2a", Some("https://agents.example/billing/a2a")),
            ("a2a", Some("https://agents.example/billing/a2a")),
            ("http://10.0.0.5:9001/a2a", None),
            ("http://10.0.0.5/a2a", None),
            ("https://billing.internal.evil.example/a", None),
            ("https://agents.example/billing/a", None),
            ("https://elsewhere.example/a", None),
            ("10.0.0.5:9000", None),
            ("grpc://10.0.0.5:9000", None),
            ("mailto:a@b", None),
        ] {
            assert_eq!(public.public(url).as_deref(), expected, "{url}");
        }
    }

    /// A host that is selected by the public authority may know its public URL.
    #[test]
    fn p3_what_is_public_already_stays() {
        let public =
            PublicUrl::new("https://agents.example/billing", Own::new([], ["agents.example"])).unwrap();
        for (url, expected) in [
            ("https://agents.example/billing/a2a", None),
            ("https://agents.example/billing", None),
            ("http://agents.example:80/billing/a2a", Some("https://agents.example/billing/a2a")),
            ("https://agents.example/billings", Some("https://agents.example/billing/billings")),
            ("https://agents.example/a2a", Some("https://agents.example/billing/a2a")),
        ] {
            assert_eq!(public.public(url).as_deref(), expected, "{url}");
        }
        assert_eq!(public.inner_path("agents.example", "/billing/a2a"), Some("/a2a"));
        assert_eq!(public.inner_path("agents.example:443", "/billing"), Some(""));
        assert_eq!(public.inner_path("agents.example", "/billings"), None);
        assert_eq!(public.inner_path("other.example", "/billing/a2a"), None);
    }

    #[test]
    fn p3_loopback_has_many_names() {
        let own = Own::new(["127.0.0.1:9000"], []);
        for (authority, expected) in [
            ("127.0.0.1:9000", true),
            ("localhost:9000", true),
            ("[::1]:9000", true),
            ("0.0.0.0:9000", true),
            ("localhost:9001", false),
            ("localhost", false),
        ] {
            assert_eq!(own.has(authority), expected, "{authority}");
        }
        assert!(!Own::new(["10.0.0.5:9000"], []).has("localhost:9000"));
        assert!(Own::new(["agent.internal:80"], []).has("agent.internal"));
        assert!(!Own::new(["agent.internal:8080"], []).has("agent.internal"));
    }

    #[test]
    fn p3_paths_below_the_public_one() {
        let public = billing();
        assert_eq!(public.path(), "/billing");
        for (path, expected) in [
            ("/billing/a2a", Some("/a2a")),
            ("/billing/", Some("/")),
            ("/billing", Some("")),
            ("/billings", None),
            ("/Billing/a", None),
            ("/a2a", None),
        ] {
            assert_eq!(public.below(path), expected, "{path}");
        }
        let root = PublicUrl::new("https://agents.example", Own::default()).unwrap();
        assert_eq!(root.below("/a2a"), Some("/a2a"));
        for bad in ["", "agents.example", "/x", "ftp://a", "https://", "https://a?b", "https://a/#b"] {
            assert_eq!(PublicUrl::new(bad, Own::default()), None, "{bad}");
        }
        // What a card's reader trims away would be another URL.
        for bad in ["https://a/b\r", "https://a/b\u{3000}", "https://a/b c", " https://a/b"] {
            assert_eq!(PublicUrl::new(bad, Own::default()), None, "{bad:?}");
        }
    }

    #[test]
    fn p3_nothing_but_urls_and_signatures_is_other_bytes() {
        let card = concat!(
            "\u{feff}{ \"name\" : \"\\u0061\", \"n\":1.50e+2,\n",
            " \"signatures\": [ {\"protected\":\"x\"} ] ,\n",
            " \"supportedInterfaces\":[ {\"protocolBinding\":\"JSONRPC\", \"url\" : \"http:\\/\\/10.0.0.5:9000/a2a\"},\n",
            "  {\"url\":\"https://elsewhere.example\"}, 7, {\"url\":null} ],\n",
            " \"url\":\"http://10.0.0.5:9000/\", \"additionalInterfaces\":[{\"url\":\"http://10.0.0.5:9000/r\"}],\n",
            " \"provider\":{\"url\":\"http://10.0.0.5:9000/about\"}, \"n\":2 }\n"
        );
        let expected = concat!(
            "{ \"name\" : \"\\u0061\", \"n\":1.50e+2 ,\n",
            " \"supportedInterfaces\":[ {\"protocolBinding\":\"JSONRPC\", \"url\" : \"https://agents.example/billing/a2a\"},\n",
            "  {\"url\":\"https://elsewhere.example\"}, 7, {\"url\":null} ],\n",
            " \"url\":\"https://agents.example/billing/\", \"additionalInterfaces\":[{\"url\":\"https://agents.example/billing/r\"}],\n",
            " \"provider\":{\"url\":\"http://10.0.0.5:9000/about\"}, \"n\":2 }\n"
        );
        let edited = billing().edit(card.as_bytes()).unwrap().unwrap();
        assert_eq!(String::from_utf8(edited.bytes.clone()).unwrap(), expected);
        assert!(edited.was_signed);
        assert_eq!(billing().edit(&edited.bytes), Ok(None), "twice is once");
    }

    #[test]
    fn p3_signatures_go_wherever_they_stand() {
        let url = r#""url":"/a""#;
        let new = r#""url":"https://agents.example/billing/a""#;
        let s = r#""signatures":[",",{}]"#;
        for (card, expected) in [
            (format!("{{{s},{url}}}"), format!("{{{new}}}")),
            (format!("{{{url},{s}}}"), format!("{{{new}}}")),
            (format!("{{{s},{s} , {url},{s},\"x\":1,{s},{s}}}"), format!("{{ {new},\"x\":1}}")),
            (format!("{{{url}}}"), format!("{{{new}}}")),
        ] {
            let edited = billing().edit(card.as_bytes()).unwrap().unwrap();
            assert_eq!(String::from_utf8(edited.bytes).unwrap(), expected, "{card}");
            assert_eq!(edited.was_signed, card.contains("signatures"));
        }
    }

    #[test]
    fn p3_a_card_may_be_a_result() {
        let response = br#"{"jsonrpc":"2.0", "result" : {"signatures":[],"url":"/a" } ,"id":1.0}"#;
        let edited = billing().edit_result(response).unwrap().unwrap();
        let expected =
            r#"{"jsonrpc":"2.0", "result" : {"url":"https://agents.example/billing/a" } ,"id":1.0}"#;
        assert_eq!(String::from_utf8(edited.bytes).unwrap(), expected);
        assert!(edited.was_signed);
        assert_eq!(billing().edit_result(br#"{"result":{"url":"https://e.example"}}"#), Ok(None));
        for none in [&br#"{"url":"/a"}"#[..], br#"{"result":7}"#, b"{"] {
            assert_eq!(billing().edit_result(none), Err(NoCard));
        }
    }

    #[test]
    fn p3_cards_that_stay() {
        let public = billing();
        let signed = br#"{"signatures":[{}],"url":"https://elsewhere.example/"}"#;
        assert_eq!(public.edit(signed), Ok(None));
        assert_eq!(public.edit(b"{}"), Ok(None));
        assert_eq!(
            public.edit(br#"{"url":7,"supportedInterfaces":{},"additionalInterfaces":[[]]}"#),
            Ok(None)
        );
        for bad in
            [&b"<html>"[..], b"[]", b"", b"{\"url\":\"/a\"", b"{\"url\":\"/a\"} x", b"{\"a\":\"\xff\"}"]
        {
            assert_eq!(public.edit(bad), Err(NoCard), "{bad:?}");
        }
    }
}
