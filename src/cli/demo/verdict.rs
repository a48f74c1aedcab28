//! Judges what the client got: by the rules themselves, run on the same bytes without a socket, and
//! by a plain reading of what the specification allows.
//!
//! The second half shares no code with the rules on purpose: a judge that asks the accused is none.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::wire::Reply;
use crate::demo::{Expect, INTERFACE, REST_INTERFACE, Scenario};
use crate::normalize::{Binding, Failure, Interface, OwnAnswer, RuleSet};
use crate::proxy::{self, Ending, Hosts, Question, Told};

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

/// The demo's host as the proxy in front of it knows it.
pub fn hosts() -> Hosts {
    let interface = |path: &str, binding| {
        Arc::new(Interface { path: path.to_owned(), binding, versions: vec!["1.0".to_owned()] })
    };
    proxy::hosts_of(vec![proxy::default_host(vec![
        interface(INTERFACE, Binding::JsonRpc),
        interface(REST_INTERFACE, Binding::HttpJson),
    ])])
}

/// Runs the rules on what the host said, without a proxy. `None` where no rule binds the request.
pub fn rehearse(hosts: &Hosts, scenario: &Scenario, direct: Option<&Reply>) -> Option<Rehearsal> {
    let call = &scenario.call;
    call.interface()?;
    let question = Question {
        method: Method::from_bytes(call.method.as_bytes()).ok()?,
        target: call.target(scenario.name),
        headers: header_map(call.headers.iter().map(|(name, value)| (*name, value.as_str()))),
        body: call.body.clone().into(),
    };
    let told = match direct {
        Some(said) => Told {
            status: StatusCode::from_u16(said.status).ok()?,
            headers: header_map(said.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))),
            body: said.body.clone().into(),
            ending: if said.complete { Ending::Whole } else { Ending::CutOff(Failure::Closed) },
        },
        None => Told {
            status: StatusCode::BAD_GATEWAY,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            ending: Ending::Silence(OwnAnswer::BadGateway),
        },
    };
    let got = proxy::rehearse(hosts, &question, &told).ok().filter(|got| got.bound)?;
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let reply = Reply {
        status: got.status.as_u16(),
        headers: got.headers.iter().map(|(n, v)| (n.as_str().to_owned(), text(v))).collect(),
        body: got.body.to_vec(),
        complete: got.complete,
    };
    Some(Rehearsal { reply, rules: got.outcome.rules })
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
    } else if scenario.call.interface().is_some() {
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
        Expect::Status { status, word, reason } => {
            wrong.extend(faults_of(scenario, got, *status, i64::from(*status), Some(reason)));
            if !got.body.starts_with(format!(r#"{{"error":{{"code":{status},"status":"{word}","#).as_bytes())
            {
                wrong.push(format!("not {status} {word}"));
            }
            Verdict::Rewritten
        }
        Expect::Event { after, code, reason } => {
            wrong.extend(faults_of(scenario, got, 200, *code, *reason));
            wrong.extend(events_that_changed(direct, got, *after));
            Verdict::Rewritten
        }
        Expect::NotFound => {
            let is_rest = binding_of(scenario) == Binding::HttpJson;
            let (status, code) = if is_rest { (404, 404) } else { (200, -32001) };
            wrong.extend(faults_of(scenario, got, status, code, Some("TASK_NOT_FOUND")));
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

fn binding_of(scenario: &Scenario) -> Binding {
    scenario.call.interface().map_or(Binding::JsonRpc, |(_, binding)| binding)
}

/// What must come before the error came otherwise, or not at all.
fn events_that_changed(direct: Option<&Reply>, got: &Reply, after: usize) -> Vec<String> {
    let theirs = direct.map(events).unwrap_or_default();
    let ours = events(got);
    let mut wrong = Vec::new();
    if ours.len() != after + 1 {
        wrong.push(format!("{} events instead of {}", ours.len(), after + 1));
    }
    let same = theirs.iter().zip(&ours).take(after).filter(|(a, b)| a == b).count();
    if same != after {
        wrong.push(format!("{same} of the first {after} events as they came"));
    }
    wrong
}

/// One event of a stream: all its lines, and what they say.
#[derive(Debug, PartialEq, Eq)]
struct Event<'a> {
    lines: Vec<&'a str>,
    name: &'a str,
    data: &'a str,
}

/// The events of a stream, or the lines of one of lines. Enough for what the demo's host says: data in
/// one line.
fn events(reply: &Reply) -> Vec<Event<'_>> {
    let text = std::str::from_utf8(&reply.body).unwrap_or_default();
    if reply.header("content-type") == Some("application/x-ndjson") {
        return text.lines().map(|line| Event { lines: vec![line], name: "", data: line }).collect();
    }
    let mut events = Vec::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        if !line.is_empty() {
            lines.push(line);
            continue;
        }
        let lines = std::mem::take(&mut lines);
        let field = |name| lines.iter().find_map(|line: &&str| line.strip_prefix(name));
        if let Some(data) = field("data: ") {
            events.push(Event { name: field("event: ").unwrap_or_default(), data, lines });
        }
    }
    events
}

/// The error of an answer, whatever its binding and framing: a stream's is its last event.
pub fn read_answer(scenario: &Scenario, reply: &Reply) -> Result<ReadError, String> {
    let media = reply.header("content-type").unwrap_or_default();
    let binding = binding_of(scenario);
    let is_stream = matches!(media, "text/event-stream" | "application/x-ndjson");
    let events = if is_stream { events(reply) } else { Vec::new() };
    let body = match events.last() {
        Some(last) if binding == Binding::HttpJson && last.name != "error" => {
            return Err(format!("the last event is named {:?}", last.name));
        }
        Some(last) => last.data.as_bytes(),
        None if is_stream => return Err("a stream without an event".to_owned()),
        None if media != "application/json" => return Err(format!("content-type is {media:?}")),
        None => &reply.body,
    };
    match binding {
        Binding::JsonRpc => read_error(body, &id_of(&scenario.call.body)),
        Binding::HttpJson => read_status(body),
    }
}

/// Whether a JSON answer, or a stream, is what was asked for and expected.
fn is_framed(scenario: &Scenario, media: Option<&str>) -> bool {
    let is_json = media == Some("application/json");
    match scenario.expect {
        Expect::Event { .. } => {
            matches!(media, Some("text/event-stream" | "application/x-ndjson"))
        }
        Expect::NotFound if binding_of(scenario) == Binding::JsonRpc && scenario.call.is_streaming() => {
            media == Some("text/event-stream")
        }
        Expect::Fault { .. } | Expect::Status { .. } | Expect::NotFound | Expect::Untouched => is_json,
    }
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

/// What keeps an answer from being this error, in shape and without a secret (E-1, E-2, E-4, S-3). The
/// code of a Status is its HTTP status.
fn faults_of(scenario: &Scenario, got: &Reply, status: u16, code: i64, reason: Option<&str>) -> Vec<String> {
    let mut wrong = Vec::new();
    if got.status != status {
        wrong.push(format!("status {} instead of {status}", got.status));
    }
    if !is_framed(scenario, got.header("content-type")) {
        wrong.push(format!("content-type is {:?}", got.header("content-type")));
    }
    match read_answer(scenario, got) {
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
    let reason = read_details(error.get("message"), error.get("data"), is_a2a(code))?;
    if is_a2a(code) && reason.is_none() {
        return Err("an A2A code without an ErrorInfo".to_owned());
    }
    Ok(ReadError { code, reason })
}

/// Reads a body as E-4 describes it: a Status with these members in this order, compact, details typed.
fn read_status(body: &[u8]) -> Result<ReadError, String> {
    let root: Value = serde_json::from_slice(body).map_err(|why| format!("not a Status: {why}"))?;
    if root.to_string().as_bytes() != body {
        return Err(format!("not written as {root}"));
    }
    let error = root.get("error").and_then(Value::as_object).ok_or("error is no object")?;
    let names: Vec<_> = error.keys().map(String::as_str).collect();
    if root.as_object().is_none_or(|root| root.len() != 1)
        || names != ["code", "status", "message"] && names != ["code", "status", "message", "details"]
    {
        return Err(format!("members of error: {names:?}"));
    }
    let code = error.get("code").and_then(Value::as_i64).ok_or("code is no integer")?;
    let details = error.get("details");
    let is_a2a = details.and_then(|details| details.get(0)).and_then(|info| info.get("domain"))
        == Some(&Value::from("a2a-protocol.org"));
    Ok(ReadError { code, reason: read_details(error.get("message"), details, is_a2a)? })
}

/// The reason, if there is an ErrorInfo.
fn read_details(
    message: Option<&Value>,
    details: Option<&Value>,
    is_a2a: bool,
) -> Result<Option<String>, String> {
    if message.and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err("message is no text".to_owned());
    }
    let details = match details {
        None => &[],
        Some(Value::Array(details)) if !details.is_empty() => details.as_slice(),
        Some(other) => return Err(format!("details are {other}")),
    };
    let mut reason = None;
    for (at, detail) in details.iter().enumerate() {
        let kind = detail.get("@type").and_then(Value::as_str).ok_or("an untyped detail")?;
        let kind = kind.strip_prefix("type.googleapis.com/").ok_or("an @type without its prefix")?;
        if kind == "google.rpc.ErrorInfo" {
            if at > 0 {
                return Err("an ErrorInfo that is not the first detail".to_owned());
            }
            reason = Some(read_error_info(detail, is_a2a)?);
        }
    }
    Ok(reason)
}

fn is_a2a(code: i64) -> bool {
    (-32009..=-32001).contains(&code)
}

fn read_error_info(info: &Value, is_a2a: bool) -> Result<String, String> {
    let text = |name| info.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let domain = text("domain").ok_or("an ErrorInfo without a domain")?;
    if is_a2a != (domain == "a2a-protocol.org") {
        return Err(format!("domain {domain} on an error of another"));
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
    fn a_status_is_read_and_others_are_refused() {
        let good = r#"{"error":{"code":404,"status":"NOT_FOUND","message":"m","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}]}}"#;
        let said = read_status(good.as_bytes()).unwrap();
        assert_eq!((said.code, said.reason.as_deref()), (404, Some("TASK_NOT_FOUND")));
        let wrong = [
            good.replace("\"code\":404,", ""),
            good.replace("{\"error\"", "{\"id\":1,\"error\""),
            good.replace("\"message\":\"m\"", "\"message\":\"\""),
            good.replace("\"details\":[", "\"details\":[{},"),
            good.replace(":404", ": 404"),
            GOOD.to_owned(),
        ];
        for body in wrong {
            assert!(read_status(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn events_are_read_and_compared() {
        let stream = |body: &str| Reply {
            status: 200,
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
            body: body.as_bytes().to_vec(),
            complete: true,
        };
        let host = stream(": a\n\nid: 1\ndata: x\n\nevent: error\ndata: y\n\ndata: tail");
        let said = events(&host);
        assert_eq!(said.iter().map(|e| (e.name, e.data)).collect::<Vec<_>>(), [("", "x"), ("error", "y")]);
        let good = stream("id: 1\ndata: x\n\nevent: error\ndata: z\n\n");
        assert!(events_that_changed(Some(&host), &good, 1).is_empty());
        for bad in ["id: 2\ndata: x\n\ndata: z\n\n", "data: z\n\n", "id: 1\ndata: x\n\n"] {
            assert!(!events_that_changed(Some(&host), &stream(bad), 1).is_empty(), "{bad}");
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
