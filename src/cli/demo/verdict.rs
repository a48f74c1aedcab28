//! Judges what the client got: by the rules themselves, run on the same bytes without a socket, and
//! by a plain reading of what the specification allows.
//!
//! The second half shares no code with the rules on purpose: a judge that asks the accused is none.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::wire::Reply;
use crate::demo::{Expect, INTERFACE, Scenario};
use crate::normalize::{
    Binding, Exchange, Failure, Interface, Output, OwnAnswer, Policy, RequestFacts, RuleSet, Target,
};

/// What no request contains and no rewritten answer may contain.
const SECRETS: &[&str] = &["acme", "ws-9", "u-9", "/srv", "/var/lib", "stack"];

/// Headers of one connection, not of the answer.
const OF_THE_CONNECTION: &[&str] = &["date", "connection", "keep-alive", "transfer-encoding"];

/// How one scenario ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// An error that was put into shape.
    Rewritten,
    /// The same bytes as for a task that does not exist (O-1).
    Identical,
    /// The host's own bytes (I-4, E-9).
    Untouched,
    /// Everything that is wrong with it.
    Wrong(Vec<String>),
}

impl Verdict {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Rewritten => "rewritten",
            Self::Identical => "identical",
            Self::Untouched => "untouched",
            Self::Wrong(_) => "WRONG",
        }
    }
}

/// What the rules make of the host's bytes.
#[derive(Debug)]
pub struct Rehearsal {
    pub reply: Reply,
    pub rules: RuleSet,
}

/// Runs the rules on what the host said, without a proxy. `None` where no rule binds the request.
pub fn rehearse(scenario: &Scenario, direct: Option<&Reply>) -> Option<Rehearsal> {
    let call = &scenario.call;
    if call.path != INTERFACE {
        return None;
    }
    let interface =
        Interface { path: INTERFACE.to_owned(), binding: Binding::JsonRpc, versions: vec!["1.0".to_owned()] };
    let method = Method::from_bytes(call.method.as_bytes()).ok()?;
    let query = format!("fault={}", scenario.name);
    let headers = header_map(call.headers.iter().map(|(name, value)| (*name, value.as_str())));
    let facts = RequestFacts { method: &method, path: call.path, query: Some(&query), headers: &headers };
    let mut exchange =
        Exchange::new(&Target::Interface(Arc::new(interface)), &Arc::new(Policy::default()), &facts)?;
    exchange.request_piece(&call.body);
    exchange.request_end();
    if let Some(said) = direct {
        let headers = header_map(said.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        exchange.head(StatusCode::from_u16(said.status).ok()?, &headers);
        if !said.body.is_empty() {
            exchange.piece(said.body.clone().into());
        }
        if said.complete {
            exchange.end();
        } else {
            exchange.fail(Failure::Closed);
        }
    } else {
        exchange.answer(OwnAnswer::BadGateway);
    }
    let reply = drain(&mut exchange, direct)?;
    Some(Rehearsal { reply, rules: exchange.outcome().rules })
}

/// What the exchange wants the client to get; `None` when it says nothing.
fn drain(exchange: &mut Exchange, direct: Option<&Reply>) -> Option<Reply> {
    let mut reply: Option<Reply> = None;
    while let Some(output) = exchange.poll() {
        match output {
            Output::HostHead => reply = Some(Reply { body: Vec::new(), ..direct?.clone() }),
            Output::Head(head) => {
                let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
                reply = Some(Reply {
                    status: head.status.as_u16(),
                    headers: head.headers.iter().map(|(n, v)| (n.as_str().to_owned(), text(v))).collect(),
                    body: Vec::new(),
                    complete: true,
                });
            }
            Output::Body(bytes) => reply.as_mut()?.body.extend_from_slice(&bytes),
            Output::PassRest => {
                // Everything that was fed and not yet given back goes through.
                let (reply, direct) = (reply.as_mut()?, direct?);
                reply.body.clone_from(&direct.body);
                break;
            }
            Output::End => break,
            Output::Abort => {
                reply.as_mut()?.complete = false;
                break;
            }
            Output::CloseUpstream => {}
        }
    }
    reply
}

fn header_map<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> HeaderMap {
    let parse = |(name, value): (&str, &str)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value.as_bytes()).ok()?))
    };
    let mut map = HeaderMap::new();
    for (name, value) in headers.filter_map(parse) {
        map.append(name, value);
    }
    map
}

/// Everything that must hold of one scenario. `reference` is the proxy's answer for a task that does
/// not exist.
pub fn judge(
    scenario: &Scenario,
    direct: Option<&Reply>,
    proxied: Option<&Reply>,
    rehearsed: Option<&Rehearsal>,
    reference: Option<&Reply>,
) -> Verdict {
    let Some(got) = proxied else {
        return Verdict::Wrong(vec!["the proxy gave no answer".to_owned()]);
    };
    let mut wrong = Vec::new();
    if !got.complete {
        wrong.push("the answer is cut off".to_owned());
    }
    if let Some(rehearsed) = rehearsed {
        wrong.extend(
            differences(&rehearsed.reply, got)
                .into_iter()
                .map(|what| format!("differs from what the rules make of the same bytes: {what}")),
        );
    } else if scenario.call.path == INTERFACE {
        wrong.push("the rules say nothing about it".to_owned());
    }
    let verdict = match &scenario.expect {
        Expect::Untouched => {
            match direct {
                Some(said) => wrong.extend(differences(said, got)),
                None => wrong.push("the host gave no answer".to_owned()),
            }
            Verdict::Untouched
        }
        Expect::Fault { status, code, reason } => {
            wrong.extend(faults_of(scenario, got, *status, *code, *reason));
            Verdict::Rewritten
        }
        Expect::NotFound => {
            wrong.extend(faults_of(scenario, got, 200, -32001, Some("TASK_NOT_FOUND")));
            match reference {
                Some(unknown) => wrong.extend(
                    differences(unknown, got)
                        .into_iter()
                        .map(|what| format!("can be told from a task that does not exist: {what}")),
                ),
                None => wrong.push("there is no reference to compare with".to_owned()),
            }
            Verdict::Identical
        }
    };
    if wrong.is_empty() { verdict } else { Verdict::Wrong(wrong) }
}

/// In what two answers differ, the connection's own headers aside.
fn differences(expected: &Reply, got: &Reply) -> Vec<String> {
    let mut found = Vec::new();
    if expected.status != got.status {
        found.push(format!("status {} instead of {}", got.status, expected.status));
    }
    let (theirs, ours) = (headers_of(expected), headers_of(got));
    found.extend(theirs.iter().filter(|h| !ours.contains(h)).map(|(n, v)| format!("no `{n}: {v}`")));
    found.extend(ours.iter().filter(|h| !theirs.contains(h)).map(|(n, v)| format!("`{n}: {v}` added")));
    if expected.body != got.body {
        let at = expected.body.iter().zip(&got.body).take_while(|(a, b)| a == b).count();
        found.push(format!(
            "body of {} bytes instead of {}, other from byte {at} on",
            got.body.len(),
            expected.body.len()
        ));
    }
    found
}

fn headers_of(reply: &Reply) -> Vec<(&str, &str)> {
    let all = reply.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    all.filter(|(name, _)| !OF_THE_CONNECTION.contains(name)).collect()
}

/// What keeps an answer from being this JSON-RPC error, in shape and without a secret (E-1, E-2).
fn faults_of(scenario: &Scenario, got: &Reply, status: u16, code: i64, reason: Option<&str>) -> Vec<String> {
    let mut wrong = Vec::new();
    if got.status != status {
        wrong.push(format!("status {} instead of {status}", got.status));
    }
    if got.header("content-type") != Some("application/json") {
        wrong.push(format!("content-type is {:?}", got.header("content-type")));
    }
    match read_error(&got.body, &id_of(&scenario.call.body)) {
        Ok(said) => {
            if said.code != code {
                wrong.push(format!("code {} instead of {code}", said.code));
            }
            if said.reason.as_deref() != reason {
                wrong.push(format!("reason {:?} instead of {reason:?}", said.reason));
            }
        }
        Err(why) => wrong.push(why),
    }
    let body = String::from_utf8_lossy(&got.body).to_ascii_lowercase();
    let told = |secret: &&&str| {
        body.contains(**secret)
            || got.headers.iter().any(|(_, value)| value.to_ascii_lowercase().contains(**secret))
    };
    wrong.extend(SECRETS.iter().filter(told).map(|secret| format!("tells `{secret}`")));
    wrong
}

/// The id a client must get back: the raw token of a string or a number, else null (Q-2).
pub fn id_of(request: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Request<'a> {
        #[serde(borrow)]
        id: Option<&'a RawValue>,
    }
    let id = serde_json::from_slice::<Request<'_>>(request).ok().and_then(|request| request.id);
    let id = id.map_or("null", RawValue::get);
    if id.starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit()) {
        id
    } else {
        "null"
    }
    .to_owned()
}

/// An error as a client reads it.
#[derive(Debug, PartialEq, Eq)]
pub struct ReadError {
    pub code: i64,
    pub reason: Option<String>,
}

/// Reads a body as E-1 describes it: these members in this order, compact, details typed.
pub fn read_error(body: &[u8], id: &str) -> Result<ReadError, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Response<'a> {
        #[serde(borrow)]
        jsonrpc: &'a RawValue,
        #[serde(borrow)]
        id: &'a RawValue,
        error: Value,
    }
    let response: Response<'_> =
        serde_json::from_slice(body).map_err(|why| format!("not a JSON-RPC error: {why}"))?;
    if response.id.get() != id {
        return Err(format!("id {} instead of {id}", response.id.get()));
    }
    let canonical = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{}}}"#, response.error);
    if canonical.as_bytes() != body {
        return Err(format!("not written as {canonical} (jsonrpc is {})", response.jsonrpc.get()));
    }
    let error = response.error.as_object().ok_or("error is no object")?;
    let names: Vec<_> = error.keys().map(String::as_str).collect();
    if names != ["code", "message"] && names != ["code", "message", "data"] {
        return Err(format!("members of error: {names:?}"));
    }
    let code = error.get("code").and_then(Value::as_i64).ok_or("code is no integer")?;
    if error.get("message").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err("message is no text".to_owned());
    }
    let details = match error.get("data") {
        None => &[],
        Some(Value::Array(details)) if !details.is_empty() => details.as_slice(),
        Some(other) => return Err(format!("data is {other}")),
    };
    let mut reason = None;
    for (at, detail) in details.iter().enumerate() {
        let kind = detail.get("@type").and_then(Value::as_str).ok_or("an untyped detail")?;
        let kind = kind.strip_prefix("type.googleapis.com/").ok_or("an @type without its prefix")?;
        if kind == "google.rpc.ErrorInfo" {
            if at > 0 {
                return Err("an ErrorInfo that is not the first detail".to_owned());
            }
            reason = Some(read_error_info(detail, code)?);
        }
    }
    if is_a2a(code) && reason.is_none() {
        return Err("an A2A code without an ErrorInfo".to_owned());
    }
    Ok(ReadError { code, reason })
}

fn is_a2a(code: i64) -> bool {
    (-32009..=-32001).contains(&code)
}

fn read_error_info(info: &Value, code: i64) -> Result<String, String> {
    let text = |name| info.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let domain = text("domain").ok_or("an ErrorInfo without a domain")?;
    if is_a2a(code) != (domain == "a2a-protocol.org") {
        return Err(format!("domain {domain} with code {code}"));
    }
    let strings = |map: &serde_json::Map<String, Value>| map.values().all(Value::is_string);
    if info.get("metadata").is_some_and(|metadata| !metadata.as_object().is_some_and(strings)) {
        return Err("metadata is no map of strings".to_owned());
    }
    text("reason").map(str::to_owned).ok_or_else(|| "an ErrorInfo without a reason".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"m","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UNSUPPORTED_OPERATION","domain":"a2a-protocol.org"}]}}"#;

    #[test]
    fn an_error_in_shape_is_read() {
        let said = read_error(GOOD.as_bytes(), "7").unwrap();
        assert_eq!((said.code, said.reason.as_deref()), (-32004, Some("UNSUPPORTED_OPERATION")));
        assert!(
            read_error(br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"m"}}"#, "null")
                .is_ok()
        );
    }

    #[test]
    fn what_is_out_of_shape_is_refused() {
        let wrong = [
            GOOD.replace("\"id\":7", "\"id\":8"),
            GOOD.replace("{\"jsonrpc\":\"2.0\",", "{ \"jsonrpc\":\"2.0\","),
            GOOD.replace("\"jsonrpc\":\"2.0\",\"id\":7", "\"id\":7,\"jsonrpc\":\"2.0\""),
            GOOD.replace("\"message\":\"m\"", "\"message\":\"\""),
            GOOD.replace("-32004", "\"-32004\""),
            GOOD.replace("type.googleapis.com/", ""),
            GOOD.replace("a2a-protocol.org\"", "openwop.dev\""),
            GOOD.replace("a2a-protocol.org\"", "a2a-protocol.org\",\"metadata\":{\"n\":1}"),
            GOOD.replace("\"data\":[", "\"data\":[{\"@type\":\"type.googleapis.com/x\"},"),
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"m"}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"m","data":[]}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"m","data":null}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#.to_owned(),
        ];
        for body in wrong {
            assert!(read_error(body.as_bytes(), "7").is_err(), "{body}");
        }
    }

    #[test]
    fn differences_are_found_in_status_headers_and_body() {
        let one = Reply {
            status: 200,
            headers: vec![("etag".to_owned(), "1".to_owned()), ("date".to_owned(), "now".to_owned())],
            body: b"abc".to_vec(),
            complete: true,
        };
        assert!(differences(&one, &one).is_empty());
        let other = Reply {
            status: 404,
            headers: vec![("x".to_owned(), "1".to_owned()), ("date".to_owned(), "then".to_owned())],
            body: b"abd".to_vec(),
            complete: true,
        };
        assert_eq!(
            differences(&one, &other),
            [
                "status 404 instead of 200",
                "no `etag: 1`",
                "`x: 1` added",
                "body of 3 bytes instead of 3, other from byte 2 on"
            ]
        );
    }

    #[test]
    fn an_id_is_a_string_a_number_or_null() {
        assert_eq!(id_of(br#"{"id":-0}"#), "-0");
        assert_eq!(id_of(br#"{"id":{"a":1}}"#), "null");
        assert_eq!(id_of(br"[]"), "null");
    }
}
