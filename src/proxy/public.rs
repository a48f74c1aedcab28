//! The URL under which clients know a host (P-3): which requests come below it, which ask for the
//! card, and what is said in the log about cards.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;
use pingora_http::RequestHeader;

use super::settings;
use crate::normalize::{CardFate, CardRewrite, Exchange, ExtendedCard, Policy};
use crate::protocol::a2a::plain_path;
use crate::protocol::card;
use crate::protocol::public_url::PublicUrl;

/// What P-3 needs to know of one host.
pub struct Public {
    url: Arc<PublicUrl>,
    max_bytes: usize,
    /// Said once; how often it happens is counted.
    said: [AtomicBool; 3],
}

impl Public {
    /// `None` when the host has no public URL of its own.
    pub fn new(host: &settings::Host) -> Option<Self> {
        let url = Arc::new(host.public_url()?);
        Some(Self { url, max_bytes: host.card.max_bytes, said: Default::default() })
    }

    pub fn url(&self) -> &PublicUrl {
        &self.url
    }

    /// The path of a request as the host knows it.
    pub fn inner<'a>(&self, path: &'a str) -> &'a str {
        match self.url.below(path) {
            Some("") => "/",
            Some(below) => below,
            None => path,
        }
    }

    /// The request target as the host knows it; `None` if it is the same. Bytes that are no UTF-8 and
    /// an absolute form stay what they are.
    pub fn inner_target(&self, request: &RequestHeader) -> Option<Vec<u8>> {
        let public = self.url.path();
        if public.is_empty() || self.url.below(request.uri.path()).is_none() {
            return None;
        }
        let raw = request.raw_path();
        let begins = if raw.starts_with(b"/") {
            0
        } else {
            let authority = memchr::memmem::find(raw, b"://")? + 3;
            authority + memchr::memchr(b'/', raw.get(authority..)?)?
        };
        let (before, path) = raw.split_at_checked(begins)?;
        let below = path.strip_prefix(public.as_bytes())?;
        let slash: &[u8] = if below.first() == Some(&b'/') { b"" } else { b"/" };
        Some([before, slash, below].concat())
    }

    /// The machine for a request for the host's card, if it is one; `path` is the host's.
    pub fn card(&self, policy: &Policy, request: &RequestHeader, path: &str) -> Option<CardRewrite> {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return None;
        }
        let path: Cow<'_, str> = plain_path(path);
        card::PATHS.contains(&&*path).then(|| self.rewrite(policy, request))
    }

    /// The machine for a call to one of the host's interfaces, which may ask for an extended card.
    pub fn extended(&self, exchange: Exchange, policy: &Policy, request: &RequestHeader) -> ExtendedCard {
        ExtendedCard::new(exchange, self.rewrite(policy, request))
    }

    fn rewrite(&self, policy: &Policy, request: &RequestHeader) -> CardRewrite {
        CardRewrite::new(&self.url, policy.mode, self.max_bytes, &request.method, &request.headers)
    }

    /// Tells operators, once, what they may have to do something about.
    pub fn note(&self, host: &str, fate: CardFate) {
        let (slot, says) = match fate {
            CardFate::Rewritten { was_signed: true } => {
                (0, "the agent card's signatures do not cover its public URLs and are dropped")
            }
            CardFate::TooLarge => (1, "the agent card is larger than card.max_bytes and keeps its URLs"),
            CardFate::Unreadable => (2, "the agent card is no JSON object and keeps its URLs"),
            CardFate::Rewritten { was_signed: false } | CardFate::Unchanged => return,
        };
        if self.said.get(slot).is_some_and(|said| !said.swap(true, Ordering::Relaxed)) {
            tracing::warn!(host, "{says}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::public_url::Own;

    fn public(url: &str) -> Public {
        let url = Arc::new(PublicUrl::new(url, Own::default()).unwrap());
        Public { url, max_bytes: 1, said: Default::default() }
    }

    #[test]
    fn p3_the_public_path_is_taken_off() {
        let public = public("https://agents.example/billing");
        for (target, expected) in [
            (&b"/billing/a2a?x=/billing"[..], Some(&b"/a2a?x=/billing"[..])),
            (b"/billing", Some(b"/")),
            (b"/billing?x", Some(b"/?x")),
            (b"/billing/", Some(b"/")),
            (b"/billing//a", Some(b"//a")),
            (b"/billing/\xff", Some(b"/\xff")),
            (b"http://agents.example/billing/a?b", Some(b"http://agents.example/a?b")),
            (b"/billings/a", None),
            (b"/a2a", None),
            (b"*", None),
        ] {
            let request = RequestHeader::build("GET", target, None).unwrap();
            assert_eq!(public.inner_target(&request).as_deref(), expected, "{target:?}");
        }
        for (path, expected) in [("/billing", "/"), ("/billing/a", "/a"), ("/a", "/a")] {
            assert_eq!(public.inner(path), expected);
        }
    }

    #[test]
    fn p3_without_a_path_nothing_is_taken_off() {
        let request = RequestHeader::build("GET", b"/billing/a", None).unwrap();
        assert_eq!(public("https://agents.example/").inner_target(&request), None);
    }

    #[test]
    fn p3_cards_are_known_by_their_place() {
        let public = public("https://agents.example/billing");
        for (method, path, expected) in [
            ("GET", "/.well-known/agent-card.json", true),
            ("HEAD", "/.well-known/agent.json", true),
            ("GET", "/.well-known/agent%2Dcard.json", true),
            ("POST", "/.well-known/agent.json", false),
            ("GET", "/agent.json", false),
        ] {
            let request = RequestHeader::build(method, path.as_bytes(), None).unwrap();
            assert_eq!(
                public.card(&Policy::default(), &request, path).is_some(),
                expected,
                "{method} {path}"
            );
        }
    }
}
