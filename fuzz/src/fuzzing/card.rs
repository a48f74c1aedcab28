//! Agent cards: which interfaces are read of one, and how one is told its public URL (P-3).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::Value;

use super::{hold, mutate};
use crate::normalize::{CardRewrite, Mode, Output};
use crate::protocol::card;
use crate::protocol::public_url::{NoCard, Own, PublicUrl};
use crate::rules_support::reading;

/// The lines before a card: its public URL, the host's upstreams, its authorities.
const LINES: &[&[&str]] = &[
    &[
        "https://agents.example/billing",
        "https://agents.example",
        "http://10.0.0.5:9000/x/",
        "HTTPS://Agents.Example:443/b",
    ],
    &["10.0.0.5:9000", "127.0.0.1:9000", "localhost:80", "[::1]:443 agents.example:443"],
    &["billing.internal", "agents.example agents.example:8443", "", "Agents.Example"],
];
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The input is these lines, a blank one, and a card.
pub fn check(data: &[u8]) {
    let at = data.windows(2).position(|w| w == b"\n\n").unwrap_or(data.len());
    let lines = String::from_utf8_lossy(&data[..at]).into_owned();
    let mut lines = lines.lines();
    let document = data.get(at + 2..).unwrap_or_default();
    hold(listed_in_order(document));
    let url = lines.next().unwrap_or_default().to_owned();
    let upstreams = lines.next().unwrap_or_default().to_owned();
    let authorities = lines.next().unwrap_or_default().to_owned();
    let own = Own::new(upstreams.split_whitespace(), authorities.split_whitespace());
    let Some(public) = PublicUrl::new(&url, own) else { return };
    let edited = public.edit(document);
    hold(edited_in_place(&public, document, edited.as_ref().map(|e| e.as_ref().map(|e| e.bytes.as_slice()))));
    if let Ok(Some(edited)) = &edited {
        let again = public.edit(&edited.bytes);
        let steady = matches!(again, Ok(None));
        hold(if steady {
            Ok(())
        } else {
            Err(format!("edited twice: {:?}", again.map(|e| e.map(|e| text(&e.bytes)))))
        });
    }
    hold(result_in_place(&public, document));
    hold(rewritten(Arc::new(public), document, edited.ok().flatten().map(|e| e.bytes)));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What is read of a card is in the form the routes rely on.
fn listed_in_order(document: &[u8]) -> Result<(), String> {
    let Ok(listed) = card::read(document) else { return Ok(()) };
    for one in listed {
        let path_is_plain =
            (one.path.is_empty() || one.path.starts_with('/')) && !one.path.contains(['?', '#']);
        let authority_is_plain = one
            .authority
            .as_ref()
            .is_none_or(|a| *a == a.to_ascii_lowercase() && !a.contains(['/', '?', '#', '@']));
        if !path_is_plain || !authority_is_plain {
            return Err(format!("{one:?}"));
        }
    }
    Ok(())
}

/// What a card should say once it was edited; `None` where nothing is to be changed.
fn wanted(public: &PublicUrl, members: &[(String, Value)]) -> Option<Vec<(String, Value)>> {
    let mut changed = false;
    let mut url = |value: &Value| -> Value {
        let new = value.as_str().and_then(|old| public.public(old.trim()));
        changed |= new.is_some();
        new.map_or_else(|| value.clone(), Value::String)
    };
    let mut all: Vec<(String, Value)> = Vec::new();
    for (name, value) in members {
        let value = match (name.as_str(), value) {
            ("url", value) => url(value),
            ("supportedInterfaces" | "additionalInterfaces", Value::Array(entries)) => {
                let entries = entries.iter().map(|entry| {
                    let mut entry = entry.clone();
                    if let Some(old) = entry.get_mut("url") {
                        *old = url(old);
                    }
                    entry
                });
                Value::Array(entries.collect())
            }
            (_, value) => value.clone(),
        };
        all.push((name.clone(), value));
    }
    if changed {
        all.retain(|(name, _)| name != "signatures");
    }
    changed.then_some(all)
}

/// The edited card says what the card said, but for the URLs and the signatures.
fn edited_in_place(
    public: &PublicUrl,
    document: &[u8],
    edited: Result<Option<&[u8]>, &NoCard>,
) -> Result<(), String> {
    let bare = document.strip_prefix(BOM).unwrap_or(document);
    let members = reading::members(bare).filter(|_| std::str::from_utf8(bare).is_ok());
    let (members, edited) = match (members, edited) {
        // What serde makes no tree of (lone surrogates, deep nesting) may be skipped over while editing.
        (None, _) => return Ok(()),
        (Some(_), Err(_)) => return Err("a card is none".into()),
        (Some(members), Ok(edited)) => (members, edited),
    };
    match (wanted(public, &members), edited) {
        (None, None) => Ok(()),
        // A member that is doubled inside an entry is edited wherever it stands; serde's tree knows the last one.
        (None, Some(new)) => {
            let same = reading::members(new).is_some_and(|new| {
                new.iter()
                    .filter(|(n, _)| n != "signatures")
                    .eq(members.iter().filter(|(n, _)| n != "signatures"))
            });
            if same { Ok(()) } else { Err(format!("edited without need: {}", text(new))) }
        }
        (Some(want), None) => Err(format!("not edited, should be {want:?}")),
        (Some(want), Some(new)) => {
            let have = reading::members(new).ok_or_else(|| format!("no card: {}", text(new)))?;
            if have == want { Ok(()) } else { Err(format!("{have:?}\nshould be {want:?}")) }
        }
    }
}

/// The card that is a `result` is edited as it is by itself, and all around it stays.
fn result_in_place(public: &PublicUrl, document: &[u8]) -> Result<(), String> {
    let around = |card: &[u8]| [b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\": ", card, b" ,\"x\":[]}"].concat();
    let bare = document.strip_prefix(BOM).unwrap_or(document);
    if reading::members(bare).is_none() {
        return Ok(());
    }
    // Serde counts levels of nesting, and the result's are one more.
    let Ok(Some(edited)) = public.edit(bare) else { return Ok(()) };
    match public.edit_result(&around(bare)) {
        Ok(Some(whole)) if whole.bytes == around(&edited.bytes) => Ok(()),
        Ok(Some(whole)) => Err(format!("as a result: {}", text(&whole.bytes))),
        Ok(None) => Err("not edited as a result".into()),
        Err(NoCard) if serde_json::from_slice::<Value>(&around(bare)).is_err() => Ok(()),
        Err(NoCard) => Err("no card as a result".into()),
    }
}

/// Status, headers and body that the client gets.
type Got = (u16, HeaderMap, Vec<u8>);

fn run(public: &Arc<PublicUrl>, document: &[u8], size: usize, has: Option<&HeaderValue>) -> Option<Got> {
    let mut asked = HeaderMap::new();
    if let Some(tag) = has {
        asked.insert("if-none-match", tag.clone());
    }
    let mut machine = CardRewrite::new(public, Mode::Enforce, 1 << 20, &Method::GET, &asked);
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("etag", HeaderValue::from_static("\"host\""));
    machine.request_end();
    machine.head(StatusCode::OK, &headers);
    for piece in document.chunks(size.max(1)) {
        machine.piece(Bytes::copy_from_slice(piece));
    }
    machine.end();
    let mut got = (200, headers, Vec::new());
    let mut ended = false;
    while let Some(output) = machine.poll() {
        match output {
            Output::HostHead => {}
            Output::Head(head) => (got.0, got.1) = (head.status.as_u16(), head.headers),
            Output::Body(bytes) => got.2.extend_from_slice(&bytes),
            Output::End | Output::PassRest => ended = true,
            Output::Abort | Output::CloseUpstream => return None,
        }
    }
    ended.then_some(got)
}

/// The machine around the editing: the same in any split, with a length and a tag that are the new card's.
fn rewritten(public: Arc<PublicUrl>, document: &[u8], edited: Option<Vec<u8>>) -> Result<(), String> {
    let first = run(&public, document, document.len(), None).ok_or("no answer")?;
    for size in [1, 7] {
        let cut = run(&public, document, size, None);
        if cut.as_ref() != Some(&first) {
            return Err(format!("in pieces of {size}: {cut:?}"));
        }
    }
    let (status, headers, body) = first;
    let Some(edited) = edited else {
        let is_same =
            status == 200 && body == document && headers.get("etag").is_some_and(|t| t == "\"host\"");
        return if is_same { Ok(()) } else { Err(format!("touched: {headers:?} {}", text(&body))) };
    };
    let length = headers.get("content-length").and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
    if body != edited || length != Some(body.len()) {
        return Err(format!("{headers:?} for {} bytes", body.len()));
    }
    let tag = headers.get("etag").ok_or("no tag")?;
    let known = run(&public, document, 64, Some(tag)).ok_or("no answer")?;
    if known.0 == 304 && known.2.is_empty() { Ok(()) } else { Err(format!("to its own tag: {}", known.0)) }
}

/// Changes an input.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    mutate::lines_and_document(LINES, data, size, max_size, seed)
}
