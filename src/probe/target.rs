//! From a URL to interfaces: it may be an agent card's, a host's, or an interface's own.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Uri};
use serde_json::Value;

use super::client::{Client, End, NoReply, Reply};
use super::session::{credential_hint, made_up};
use super::shape::{self, Read};
use crate::normalize::Binding;
use crate::outbound::{Typed, shown};
use crate::protocol::card::{self, CardBinding};

/// Which generation of the protocol the interface is asked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    V1_0,
    /// RFC 0211 does not bind it; the verdicts say what a 1.0 host would have to change.
    V0_3,
}

/// One interface to be probed.
#[derive(Debug, Clone)]
pub struct Interface {
    /// Scheme and authority, `https://agent.example`.
    pub origin: String,
    /// Without a trailing slash.
    pub path: String,
    /// Sent with every request, and not shown: it may hold a key.
    pub query: Option<String>,
    /// Whether credentials and headers are sent there: they were typed for it.
    pub is_trusted: bool,
    pub binding: Binding,
    /// As the card lists them; empty without a card.
    pub versions: Vec<String>,
    /// Those of all interfaces of the card's.
    pub card_versions: Vec<String>,
    pub protocol: Protocol,
    /// What the card says of push notifications, streaming and an extended card, if there is one.
    pub capabilities: Option<Capabilities>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    pub push: bool,
    pub streaming: bool,
}

impl Interface {
    /// The JSON-RPC interface among these that says the same as this HTTP+JSON one: of the same version, and of the
    /// same origin if there is one.
    #[must_use]
    pub fn twin<'a>(&self, all: &'a [Self]) -> Option<&'a Self> {
        let shares = |other: &Self| {
            self.versions.is_empty()
                || other.versions.is_empty()
                || self.versions.iter().any(|version| other.versions.contains(version))
        };
        let fits = |other: &&Self| {
            other.binding == Binding::JsonRpc && other.protocol == self.protocol && shares(other)
        };
        let mut twins = all.iter().filter(fits).filter(|_| self.binding == Binding::HttpJson);
        let first = twins.next()?;
        let near = std::iter::once(first).chain(twins).find(|twin| twin.origin == self.origin);
        Some(near.unwrap_or(first))
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("{}{}", self.origin, self.path)
    }

    /// The URL of what is below it, with the query besides.
    #[must_use]
    pub fn target(&self, below: &str) -> String {
        let (path, more) = below.split_once('?').map_or((below, None), |(path, more)| (path, Some(more)));
        let slash = if self.path.is_empty() && path.is_empty() { "/" } else { "" };
        let query: Vec<&str> = self.query.as_deref().into_iter().chain(more).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{}{path}{slash}{mark}{}", self.url(), query.join("&"))
    }
}

/// Whether other origins that the card names are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Follow {
    #[default]
    No,
    /// Without what was typed for the first one: credentials, headers, the query.
    Bare,
    /// With all of it.
    WithCredentials,
}

/// What a URL led to.
#[derive(Debug)]
pub struct Found {
    pub interfaces: Vec<Interface>,
    pub notes: Vec<String>,
    /// Interfaces that nobody can ask, each in one line.
    pub problems: Vec<String>,
}

/// Finds the interfaces behind a URL. `binding` chooses among them, or says what an interface speaks that
/// has no card. `follow` goes to other origins that the card names.
///
/// # Errors
/// In one line, why there is nothing to probe.
pub async fn resolve(
    client: &Client,
    url: &Typed,
    headers: &HeaderMap,
    binding: Option<Binding>,
    follow: Follow,
) -> Result<Found, String> {
    let uri = &url.uri;
    let scheme = uri.scheme_str().unwrap_or("http");
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    let mut typed = Named {
        origin: format!("{scheme}://{authority}"),
        path: uri.path().strip_suffix('/').unwrap_or(uri.path()).to_owned(),
        query: uri.query().filter(|query| !query.is_empty()).map(str::to_owned),
        has_headers: !headers.is_empty(),
    };
    let mut asked = vec![if typed.path.is_empty() { "/".to_owned() } else { typed.path.clone() }];
    // A card below the path, as hosts with several agents have it, then at its place.
    for base in [typed.path.as_str(), ""] {
        let places = card::PATHS.iter().map(|place| format!("{base}{place}"));
        let new: Vec<String> = places.filter(|place| !asked.contains(place)).collect();
        asked.extend(new);
    }
    let mut seen = Vec::new();
    let mut unusable = None;
    for (at, place) in asked.iter().enumerate() {
        let query = typed.query.as_ref().map_or_else(String::new, |query| format!("?{query}"));
        let reply = get(client, &format!("{}{place}{query}", typed.origin), headers).await;
        // A host that cannot be reached or is silent will be no better at the next place.
        let reply = reply.map_err(|why| format!("{}: {why}", typed.origin))?;
        let looked = card_in(&reply, scheme);
        let listed = match looked {
            Ok(listed) => listed,
            Err((why, is_card)) => {
                if is_card && place.contains("/.well-known/") {
                    unusable = unusable.or(Some(card::Unusable::NoInterface.as_str()));
                }
                seen.push(format!("{place}: {why}"));
                continue;
            }
        };
        let of_card = Card { listed, text: &reply.body };
        // The URL was not the card's own, so it was meant to be an interface.
        let own = at == 0;
        if let Some(binding) = binding.filter(|binding| !own && of_card.lacks(&typed.path, *binding)) {
            return without_card(client, &typed, headers, Some(binding), &seen).await;
        }
        if own {
            // The query was the card's.
            typed.query = None;
        } else if !is_below(place, &typed.path) && !of_card.leads_to(&typed.path) {
            return Err(format!(
                "the agent card at {}{place} lists no interface at {}; name one that it lists, or the host alone, or \
                 give --binding for an interface without a card",
                typed.origin, typed.path
            ));
        }
        return of_card.interfaces(&typed, binding, follow);
    }
    if let Some(why) = unusable {
        let origin = &typed.origin;
        return Err(format!("the agent card of {origin} cannot be used: {why} ({})", seen.join("; ")));
    }
    without_card(client, &typed, headers, binding, &seen).await
}

/// Whether a place is below a path that was typed: what is found there was meant.
fn is_below(place: &str, path: &str) -> bool {
    place.strip_prefix(path).is_some_and(|rest| path.is_empty() || rest.starts_with('/'))
}

/// What the person named.
struct Named {
    /// Scheme and authority.
    origin: String,
    /// Without a trailing slash.
    path: String,
    query: Option<String>,
    has_headers: bool,
}

type Listed = Vec<(card::Listed, String)>;

/// The interfaces of the card that an answer is; else what it is in words, and whether it is a card without any.
fn card_in(reply: &Reply, scheme: &str) -> Result<Listed, (String, bool)> {
    let plain = |why: String| Err((why, false));
    if let 300..=399 = reply.status {
        let to = reply
            .header("location")
            .map_or_else(String::new, |to| format!(" to {}", shape::brief(&shown(to))));
        return plain(format!("HTTP {}{to}, which is not followed", reply.status));
    }
    if reply.status != 200 {
        let https = scheme == "http" && reply.status == 400 && says_https(&reply.body);
        let hint = if https { ", and it speaks of HTTPS; is it https://?" } else { "" };
        return plain(format!("HTTP {}{hint}", reply.status));
    }
    if let Some(trouble) = reply.trouble() {
        return plain(format!("an answer that {trouble}"));
    }
    match card::read_with_urls(&reply.body) {
        Ok(listed) => Ok(listed),
        Err(card::Unusable::NotJson) => plain(format!("{}, no JSON", shape::looks(&reply.body))),
        Err(card::Unusable::NotAnObject) => plain(shape::looks(&reply.body).to_owned()),
        Err(card::Unusable::NoInterface) => Err(("JSON without interfaces".to_owned(), true)),
    }
}

/// As nginx, Go and others answer what is no TLS.
fn says_https(body: &[u8]) -> bool {
    memchr::memmem::find(body.get(..2048).unwrap_or(body), b"HTTPS").is_some()
}

async fn get(client: &Client, url: &str, headers: &HeaderMap) -> Result<Reply, NoReply> {
    let uri: Uri = url.parse().map_err(|_| NoReply::Broken(format!("{url:?} is no URL")))?;
    let mut headers = headers.clone();
    headers.insert("accept", HeaderValue::from_static("application/json"));
    headers.insert("a2a-version", HeaderValue::from_static("1.0"));
    client.send(Method::GET, uri, &headers, Bytes::new()).await
}

/// An interface is known by how it answers a call of a method that changes nothing.
async fn without_card(
    client: &Client,
    typed: &Named,
    headers: &HeaderMap,
    binding: Option<Binding>,
    seen: &[String],
) -> Result<Found, String> {
    let interface = |binding| Interface {
        origin: typed.origin.clone(),
        path: typed.path.clone(),
        query: typed.query.clone(),
        is_trusted: true,
        binding,
        versions: Vec::new(),
        card_versions: Vec::new(),
        protocol: Protocol::V1_0,
        capabilities: None,
    };
    let note = "no agent card lists this interface: versions are not compared with one".to_owned();
    let found = |binding| Found {
        interfaces: vec![interface(binding)],
        notes: vec![note.clone()],
        problems: Vec::new(),
    };
    if let Some(binding) = binding {
        return Ok(found(binding));
    }
    let one = interface(Binding::JsonRpc);
    let (url, target) = (one.url(), one.target(""));
    let uri: Uri = target.parse().map_err(|_| format!("{url:?} is no URL"))?;
    let mut sent = headers.clone();
    sent.insert("content-type", HeaderValue::from_static("application/json"));
    sent.insert("a2a-version", HeaderValue::from_static("1.0"));
    let task = made_up();
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{{"id":"{task}"}}}}"#);
    let reply = client.send(Method::POST, uri, &sent, Bytes::from(body)).await;
    let reply = reply.map_err(|why| format!("{url}: {why}"))?;
    let what = match reply.trouble() {
        Some(trouble) => format!("an answer that {trouble}"),
        None => shape::looks(&reply.body).to_owned(),
    };
    match shape::read(Binding::JsonRpc, &reply.body) {
        Ok(Read::Error(_) | Read::Success(_)) if reply.end == End::Whole => Ok(found(Binding::JsonRpc)),
        _ if matches!(reply.status, 401 | 403 | 407) => {
            let hint = credential_hint(!headers.is_empty());
            Err(format!("{url} answers with HTTP {} and no A2A error: {hint}", reply.status))
        }
        _ => Err(format!(
            "{url} is no A2A host: there is no agent card ({}), and a JSON-RPC call is answered with HTTP {} and \
             {what}; for an interface without a card give --binding",
            seen.join("; "),
            reply.status,
        )),
    }
}

fn binding_of(listed: &card::Listed) -> Binding {
    match listed.binding {
        CardBinding::JsonRpc => Binding::JsonRpc,
        CardBinding::HttpJson => Binding::HttpJson,
    }
}

/// Interfaces of one card that are probed.
const INTERFACES: usize = 16;
/// Versions of one interface that are looked at.
const VERSIONS: usize = 64;

struct Card<'a> {
    listed: Listed,
    text: &'a [u8],
}

impl Card<'_> {
    /// Whether a path was meant that the card says nothing of.
    fn lacks(&self, path: &str, binding: Binding) -> bool {
        let listed = self.listed.iter().any(|(one, _)| one.path == path && binding_of(one) == binding);
        !path.is_empty() && !listed
    }

    /// Whether a path that was typed is one of an interface, or one that interfaces are below, or an old place of the
    /// card's.
    fn leads_to(&self, path: &str) -> bool {
        let is_above =
            |one: &str| one.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        card::PATHS.iter().any(|place| path.ends_with(place))
            || self.listed.iter().any(|(one, _)| is_above(&one.path))
    }

    /// The interfaces that are asked for, no more than [`INTERFACES`], and how many others there are.
    fn bounded(listed: Listed, path: &str, binding: Option<Binding>) -> (Listed, usize) {
        let fits = |one: &card::Listed| binding.is_none_or(|binding| binding_of(one) == binding);
        // The URL of one of them means that one.
        let is_one = !path.is_empty() && listed.iter().any(|(one, _)| fits(one) && one.path == path);
        let (mut taken, mut left) = (HashSet::new(), HashSet::new());
        let mut kept = Listed::new();
        for (one, url) in listed {
            if !fits(&one) || (is_one && one.path != path) {
                continue;
            }
            let key = (url.clone(), binding_of(&one) == Binding::JsonRpc);
            if taken.contains(&key) || taken.len() < INTERFACES {
                taken.insert(key);
                kept.push((one, url));
            } else {
                left.insert(key);
            }
        }
        (kept, left.len())
    }

    fn interfaces(self, typed: &Named, binding: Option<Binding>, follow: Follow) -> Result<Found, String> {
        let mut notes: Vec<String> = Vec::new();
        let mut problems: Vec<String> = Vec::new();
        let add = |to: &mut Vec<String>, line: String| {
            if !to.contains(&line) {
                to.push(line);
            }
        };
        let path = typed.path.as_str();
        let card: Value = serde_json::from_slice(self.text).unwrap_or_default();
        let says = |name: &str| card.pointer(&format!("/capabilities/{name}")) == Some(&Value::Bool(true));
        let capabilities = Capabilities { push: says("pushNotifications"), streaming: says("streaming") };
        let mut interfaces: Vec<Interface> = Vec::new();
        let mut card_versions: Vec<String> = self.listed.iter().map(|(one, _)| one.version.clone()).collect();
        card_versions.sort_unstable_by(|one, other| other.cmp(one));
        card_versions.dedup();
        let (listed, more) = Self::bounded(self.listed, path, binding);
        if more > 0 {
            notes.push(format!(
                "the card lists {} interfaces, and the first {INTERFACES} are probed; the URL of another means that one",
                more + INTERFACES
            ));
        }
        for (one, url) in listed {
            let (origin, is_trusted) = match Place::of(typed, one.authority.as_deref(), &url) {
                Place::Here => (typed.origin.clone(), true),
                Place::Elsewhere { origin, same_host } => {
                    let is_downgrade = typed.origin.starts_with("https:") && origin.starts_with("http:");
                    let here = &typed.origin;
                    if is_downgrade && follow != Follow::No && !same_host {
                        let line = format!("{origin}, which the card names, is not asked: it is no https://");
                        add(&mut problems, line);
                        continue;
                    }
                    if is_downgrade {
                        let note = format!(
                            "the card names {origin} without TLS, which is never followed; its paths are probed at {here}"
                        );
                        add(&mut notes, note);
                        (typed.origin.clone(), true)
                    } else if follow == Follow::No {
                        let note = format!(
                            "the card names {origin}; its paths are probed at {here}, --follow goes there"
                        );
                        add(&mut notes, note);
                        (typed.origin.clone(), true)
                    } else {
                        let is_trusted = follow == Follow::WithCredentials;
                        if !is_trusted && (typed.has_headers || typed.query.is_some()) {
                            let note = format!(
                                "{origin} gets no credential, header or query that was typed for {here}; \
                                 --follow-credentials sends them"
                            );
                            add(&mut notes, note);
                        }
                        (origin, is_trusted)
                    }
                }
            };
            let speaks = binding_of(&one);
            let known = interfaces
                .iter_mut()
                .find(|known| known.path == one.path && known.binding == speaks && known.origin == origin);
            match known {
                Some(known) if known.versions.len() >= VERSIONS || known.versions.contains(&one.version) => {}
                Some(known) => known.versions.push(one.version),
                None => {
                    let own =
                        url.split('#').next().unwrap_or_default().split_once('?').map(|(_, query)| query);
                    let typed = typed.query.as_deref().filter(|typed| is_trusted && own != Some(*typed));
                    let query: Vec<&str> =
                        own.into_iter().chain(typed).filter(|one| !one.is_empty()).collect();
                    interfaces.push(Interface {
                        origin,
                        path: one.path,
                        query: Some(query.join("&")).filter(|query| !query.is_empty()),
                        is_trusted,
                        binding: speaks,
                        versions: vec![one.version],
                        card_versions: card_versions.clone(),
                        protocol: Protocol::V1_0,
                        capabilities: Some(capabilities),
                    });
                }
            }
        }
        for interface in &mut interfaces {
            // As the rules have it (I-3): what offers no 0.x is bound at 1.0, however it writes its version.
            if interface.versions.iter().all(|version| version.starts_with("0.")) {
                interface.protocol = Protocol::V0_3;
            }
        }
        if let (Some(binding), true) = (binding, interfaces.is_empty() && problems.is_empty()) {
            return Err(format!("the agent card lists no {} interface", binding.as_str()));
        }
        interfaces.retain(|interface| match Typed::read(&interface.url()) {
            Ok(_) => true,
            Err(why) => {
                let binding = interface.binding.as_str();
                problems.push(format!("the URL of the card's {binding} interface cannot be asked: {why}"));
                false
            }
        });
        Ok(Found { interfaces, notes, problems })
    }
}

/// Where an interface of the card's is, seen from the URL that was typed.
enum Place {
    Here,
    Elsewhere {
        /// With the card's scheme; with the typed one where the card names none.
        origin: String,
        /// Whether only the scheme or the port differs.
        same_host: bool,
    },
}

impl Place {
    fn of(typed: &Named, authority: Option<&str>, url: &str) -> Self {
        let Some(authority) = authority else { return Self::Here };
        let (own_scheme, own) = typed.origin.split_once("://").unwrap_or_default();
        let scheme = url.split_once("://").map_or(own_scheme, |(scheme, _)| scheme).to_ascii_lowercase();
        let origin = format!("{scheme}://{authority}");
        let place = |origin: &str| Typed::read(origin).ok().map(|typed| typed.place());
        let is_here = match (place(&origin), place(&typed.origin)) {
            (Some(theirs), Some(ours)) => theirs == ours,
            _ => origin == typed.origin,
        };
        let host =
            |authority: &str| authority.parse::<http::uri::Authority>().map(|one| one.host().to_owned());
        let same_host =
            host(own).is_ok_and(|own| host(authority).is_ok_and(|it| it.eq_ignore_ascii_case(&own)));
        if is_here { Self::Here } else { Self::Elsewhere { origin, same_host } }
    }
}

/// How long a task that was created may take to end.
pub const TASK_PATIENCE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn found(origin: &str, url: &str, follow: Follow) -> Found {
        let card = serde_json::json!({"supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC"}]});
        let text = card.to_string();
        let listed = card::read_with_urls(text.as_bytes()).unwrap();
        let typed = Named { origin: origin.to_owned(), path: String::new(), query: None, has_headers: true };
        Card { listed, text: text.as_bytes() }.interfaces(&typed, None, follow).unwrap()
    }

    /// The card's scheme is kept, TLS is never given up, and one line says where what was typed is not sent.
    #[test]
    fn a_card_leads_to_its_own_scheme_and_never_out_of_tls() {
        use Follow::{Bare, No, WithCredentials};
        let (plain, tls) = ("http://h.example", "https://h.example");
        for (typed, url, follow, asked, trusted, says) in [
            (tls, "https://H.example:443/a", No, "https://h.example/a", true, ""),
            (tls, "/a", Bare, "https://h.example/a", true, ""),
            (tls, "//h.example/a", Bare, "https://h.example/a", true, ""),
            (
                plain,
                "https://h.example/a",
                No,
                "http://h.example/a",
                true,
                "names https://h.example; its paths",
            ),
            (plain, "https://h.example/a", Bare, "https://h.example/a", false, "gets no credential"),
            (plain, "https://b.example/a", WithCredentials, "https://b.example/a", true, ""),
            (tls, "//b.example/a", Bare, "https://b.example/a", false, "gets no credential"),
            (
                tls,
                "http://h.example/a",
                No,
                "https://h.example/a",
                true,
                "without TLS, which is never followed",
            ),
            (tls, "http://h.example/a", WithCredentials, "https://h.example/a", true, "without TLS"),
            (
                tls,
                "http://b.example/a",
                Bare,
                "",
                true,
                "http://b.example, which the card names, is not asked",
            ),
            (tls, "http://b.example/a", WithCredentials, "", true, "it is no https://"),
        ] {
            let found = found(typed, url, follow);
            let first = found.interfaces.first();
            assert_eq!(first.map_or_else(String::new, Interface::url), asked, "{typed} {url} {follow:?}");
            assert!(first.is_none_or(|one| one.is_trusted == trusted), "{typed} {url} {follow:?}");
            let lines = [found.notes, found.problems].concat();
            assert_eq!(lines.len(), usize::from(!says.is_empty()), "{lines:?}");
            assert!(lines.concat().contains(says), "{lines:?}");
        }
    }

    #[test]
    fn a_query_stands_behind_the_path() {
        let mut one = found("http://h", "/a?x=1", Follow::No).interfaces.remove(0);
        assert_eq!(one.target(""), "http://h/a?x=1");
        assert_eq!(one.target("/tasks/1?historyLength=2"), "http://h/a/tasks/1?x=1&historyLength=2");
        (one.path, one.query) = (String::new(), None);
        assert_eq!(one.target(""), "http://h/");
        assert_eq!(one.target("/tasks?a=1"), "http://h/tasks?a=1");
    }
}
