//! From a URL to interfaces: it may be an agent card's, a host's, or an interface's own.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Uri};
use serde_json::Value;

use super::client::{Client, NoReply, Reply};
use super::session::credential_hint;
use super::shape::{self, Read};
use crate::normalize::Binding;
use crate::outbound::Typed;
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
    pub binding: Binding,
    /// As the card lists them; empty without a card.
    pub versions: Vec<String>,
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
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}{}", self.origin, self.path)
    }
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
    follow: bool,
) -> Result<Found, String> {
    let uri = &url.uri;
    let scheme = uri.scheme_str().unwrap_or("http");
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    let origin = format!("{scheme}://{authority}");
    let path = uri.path().strip_suffix('/').unwrap_or(uri.path()).to_owned();
    let mut asked = vec![format!("{path}{}", uri.query().map_or_else(String::new, |q| format!("?{q}")))];
    // A card below the path, as hosts with several agents have it, then at its place.
    for base in [path.as_str(), ""] {
        asked.extend(card::PATHS.iter().map(|place| format!("{base}{place}")));
    }
    asked.dedup();
    let mut unusable = None;
    for place in &asked {
        let reply = get(client, &format!("{origin}{place}"), headers).await;
        let reply = match reply {
            Ok(reply) => reply,
            // A host that cannot be reached or is silent will be no better at the next place.
            Err(why) => return Err(format!("{origin}: {why}")),
        };
        if reply.status != 200 {
            continue;
        }
        match card::read(&reply.body) {
            Ok(listed) => {
                let of_card = Card { listed, text: &reply.body };
                // The URL was not the card's own, so it was meant to be an interface.
                let own = asked.first() == Some(place);
                if let Some(binding) = binding.filter(|binding| !own && of_card.lacks(&path, *binding)) {
                    return without_card(client, &origin, &path, headers, Some(binding)).await;
                }
                return of_card.interfaces(&origin, &path, binding, follow);
            }
            Err(card::Unusable::NotJson) => {}
            Err(why) if place.contains("/.well-known/") => unusable = Some(why.as_str()),
            Err(_) => {}
        }
    }
    if let Some(why) = unusable {
        return Err(format!("the agent card of {origin} cannot be used: {why}"));
    }
    without_card(client, &origin, &path, headers, binding).await
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
    origin: &str,
    path: &str,
    headers: &HeaderMap,
    binding: Option<Binding>,
) -> Result<Found, String> {
    let interface = |binding| Interface {
        origin: origin.to_owned(),
        path: path.to_owned(),
        binding,
        versions: Vec::new(),
        protocol: Protocol::V1_0,
        capabilities: None,
    };
    let note = "no agent card lists this interface: versions are not compared with one".to_owned();
    if let Some(binding) = binding {
        return Ok(Found { interfaces: vec![interface(binding)], notes: vec![note], problems: Vec::new() });
    }
    let url = format!("{origin}{path}");
    let uri: Uri = url.parse().map_err(|_| format!("{url:?} is no URL"))?;
    let mut sent = headers.clone();
    sent.insert("content-type", HeaderValue::from_static("application/json"));
    sent.insert("a2a-version", HeaderValue::from_static("1.0"));
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"probe"}}"#;
    let reply = client.send(Method::POST, uri, &sent, Bytes::from_static(body.as_bytes())).await;
    let reply = reply.map_err(|why| format!("{url}: {why}"))?;
    match shape::read(Binding::JsonRpc, &reply.body) {
        Ok(Read::Error(_) | Read::Success(_)) => Ok(Found {
            interfaces: vec![interface(Binding::JsonRpc)],
            notes: vec![note],
            problems: Vec::new(),
        }),
        Err(_) if matches!(reply.status, 401 | 403 | 407) => {
            let what = credential_hint(!headers.is_empty());
            Err(format!("{url} answers with HTTP {} and no A2A error: {what}", reply.status))
        }
        Err(_) => Err(format!(
            "{url} is no A2A host: there is no agent card, and a JSON-RPC call is answered with HTTP {} and {}; \
             for an interface without a card give --binding",
            reply.status,
            shape::looks(&reply.body),
        )),
    }
}

fn binding_of(listed: &card::Listed) -> Binding {
    match listed.binding {
        CardBinding::JsonRpc => Binding::JsonRpc,
        CardBinding::HttpJson => Binding::HttpJson,
    }
}

struct Card<'a> {
    listed: Vec<card::Listed>,
    text: &'a [u8],
}

impl Card<'_> {
    /// Whether a path was meant that the card says nothing of.
    fn lacks(&self, path: &str, binding: Binding) -> bool {
        let listed = self.listed.iter().any(|one| one.path == path && binding_of(one) == binding);
        !path.is_empty() && !listed
    }

    fn interfaces(
        self,
        origin: &str,
        path: &str,
        binding: Option<Binding>,
        follow: bool,
    ) -> Result<Found, String> {
        let mut notes = Vec::new();
        let card: Value = serde_json::from_slice(self.text).unwrap_or_default();
        let says = |name: &str| card.pointer(&format!("/capabilities/{name}")) == Some(&Value::Bool(true));
        let capabilities = Capabilities { push: says("pushNotifications"), streaming: says("streaming") };
        let (_, here) = origin.split_once("://").unwrap_or_default();
        let mut interfaces: Vec<Interface> = Vec::new();
        for one in self.listed {
            let elsewhere = one.authority.as_deref().filter(|authority| *authority != here);
            let origin = match elsewhere {
                Some(authority) if follow => {
                    // The card's scheme is not kept by the reader; an origin is asked as this one was.
                    let scheme = origin.split("://").next().unwrap_or("https");
                    format!("{scheme}://{authority}")
                }
                Some(authority) => {
                    let note = format!(
                        "the card names {authority}; its paths are probed at {here}, --follow goes there"
                    );
                    if !notes.contains(&note) {
                        notes.push(note);
                    }
                    origin.to_owned()
                }
                None => origin.to_owned(),
            };
            let speaks = binding_of(&one);
            let known = interfaces
                .iter_mut()
                .find(|known| known.path == one.path && known.binding == speaks && known.origin == origin);
            match known {
                Some(known) => known.versions.push(one.version),
                None => interfaces.push(Interface {
                    origin,
                    path: one.path,
                    binding: speaks,
                    versions: vec![one.version],
                    protocol: Protocol::V1_0,
                    capabilities: Some(capabilities),
                }),
            }
        }
        for interface in &mut interfaces {
            if !interface.versions.iter().any(|version| version.starts_with("1.")) {
                interface.protocol = Protocol::V0_3;
            }
        }
        if let Some(binding) = binding {
            interfaces.retain(|interface| interface.binding == binding);
            if interfaces.is_empty() {
                return Err(format!("the agent card lists no {} interface", binding.as_str()));
            }
        }
        // The URL of one of them means that one.
        if !path.is_empty() && interfaces.iter().any(|interface| interface.path == path) {
            interfaces.retain(|interface| interface.path == path);
        }
        let mut problems = Vec::new();
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

/// How long a task that was created may take to end.
pub const TASK_PATIENCE: Duration = Duration::from_secs(20);
