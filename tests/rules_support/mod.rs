//! Runs one request and one scripted answer of a host through an [`Exchange`] and tells what the
//! client gets, without a socket. The tests by rule (`rules_*.rs`) share it.
#![allow(dead_code)] // each test binary uses its own part of this

use std::sync::Arc;

use a2a_errata::normalize::{
    Binding, Exchange, Failure, Interface, Outcome, Output, Policy, RequestFacts, Rule, Target, Verdict,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

pub mod grammar;
pub mod invariants;
pub mod reading;
pub mod strict;

pub const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
pub const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";
pub const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// How a body is cut into pieces.
#[derive(Debug, Clone)]
pub enum Split {
    Whole,
    /// Two pieces, the first this long.
    At(usize),
    /// Pieces of this length.
    Every(usize),
    /// Pieces of these lengths, over and over.
    Lengths(Vec<usize>),
}

impl Split {
    pub fn pieces<'a>(&self, bytes: &'a [u8]) -> Vec<&'a [u8]> {
        match self {
            Split::Whole => vec![bytes],
            Split::At(n) => {
                let (a, b) = bytes.split_at((*n).min(bytes.len()));
                vec![a, b]
            }
            Split::Every(n) => bytes.chunks((*n).max(1)).collect(),
            Split::Lengths(lengths) => {
                let mut pieces = Vec::new();
                let mut rest = bytes;
                let mut lengths = lengths.iter().cycle();
                while !rest.is_empty() {
                    let length = lengths.next().map_or(rest.len(), |n| (*n).clamp(1, rest.len()));
                    let (piece, after) = rest.split_at(length);
                    pieces.push(piece);
                    rest = after;
                }
                pieces
            }
        }
    }
}

/// How the host's answer ends.
#[derive(Debug, Clone, Copy)]
pub enum Ending {
    End,
    Fail(Failure),
    /// Not at all: the host is silent, the test looks at what the client has so far.
    Open,
}

#[derive(Debug, Clone)]
pub struct Request {
    pub method: Method,
    pub path: String,
    pub query: Option<String>,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub split: Split,
}

impl Request {
    /// A POST of these bytes to `/a2a` at protocol 1.0.
    pub fn raw(body: impl Into<Vec<u8>>) -> Self {
        let request = Self {
            method: Method::POST,
            path: "/a2a".into(),
            query: None,
            headers: HeaderMap::new(),
            body: body.into(),
            split: Split::Whole,
        };
        request.header("a2a-version", "1.0").header("content-type", "application/json")
    }

    /// A JSON-RPC call with the id 7.
    pub fn call(method: &str, params: &Value) -> Self {
        Self::raw(json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string())
    }

    /// `GetTask` of `t-1`.
    pub fn get_task() -> Self {
        Self::call("GetTask", &json!({"id": "t-1"}))
    }

    /// A message that names no task.
    pub fn send() -> Self {
        Self::call("SendMessage", &json!({"message": {"messageId": "m-1", "parts": [{"text": "hi"}]}}))
    }

    /// A message to the task `t-1`.
    pub fn send_to_task() -> Self {
        Self::call("SendMessage", &json!({"message": {"messageId": "m-1", "taskId": "t-1"}}))
    }

    /// An HTTP+JSON request below `/rest`, without a body.
    pub fn http(method: Method, path: &str) -> Self {
        Self { method, path: path.into(), ..Self::raw("") }
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        append(&mut self.headers, name, value);
        self
    }

    /// Without this header, then with this value.
    #[must_use]
    pub fn set(mut self, name: &str, value: Option<&str>) -> Self {
        self.headers.remove(name);
        match value {
            Some(value) => self.header(name, value),
            None => self,
        }
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    #[must_use]
    pub fn split(mut self, split: Split) -> Self {
        self.split = split;
        self
    }
}

fn append(headers: &mut HeaderMap, name: &str, value: &str) {
    let name: HeaderName = name.parse().unwrap();
    headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub split: Split,
    pub ending: Ending,
    /// From this byte of the body on the proxy holds more in all than it may (`limits.held_bytes`).
    pub no_room_from: Option<usize>,
}

/// What is judged whole has room always, as in the shell.
pub const ROOM_ALWAYS: usize = 4096;
/// How often, in bytes, an answer is asked to give up what it holds once there is no room.
const ASKED_EVERY: usize = 512;

impl Answer {
    /// Bytes with this status and `application/json`.
    pub fn raw(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let answer = Self {
            status,
            headers: HeaderMap::new(),
            body: body.into(),
            split: Split::Whole,
            ending: Ending::End,
            no_room_from: None,
        };
        answer.header("content-type", "application/json")
    }

    pub fn json(status: u16, body: &Value) -> Self {
        Self::raw(status, body.to_string())
    }

    /// A JSON-RPC error on this status.
    pub fn error(status: u16, error: &Value) -> Self {
        Self::json(status, &json!({"jsonrpc": "2.0", "id": 7, "error": error}))
    }

    /// An OpenWOP envelope.
    pub fn envelope(status: u16, code: &str) -> Self {
        Self::json(
            status,
            &json!({"error": code, "message": "tenant acme says no", "details": {"tenant": "acme"}}),
        )
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        append(&mut self.headers, name, value);
        self
    }

    #[must_use]
    pub fn set(mut self, name: &str, value: Option<&str>) -> Self {
        self.headers.remove(name);
        match value {
            Some(value) => self.header(name, value),
            None => self,
        }
    }

    #[must_use]
    pub fn split(mut self, split: Split) -> Self {
        self.split = split;
        self
    }

    #[must_use]
    pub fn ending(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }

    #[must_use]
    pub fn no_room_from(mut self, byte: usize) -> Self {
        self.no_room_from = Some(byte);
        self
    }

    /// The body's pieces, and whether there is no room behind one: at the same bytes whatever the split.
    fn pieces(&self) -> Vec<(&[u8], bool)> {
        let mut pieces = Vec::new();
        let mut at: usize = 0;
        for piece in self.split.pieces(&self.body) {
            let mut rest = piece;
            while let Some(from) = self.no_room_from {
                let past = at.saturating_sub(from);
                let mark = if at < from { from } else { from + (past / ASKED_EVERY + 1) * ASKED_EVERY };
                if mark - at > rest.len() {
                    break;
                }
                let (before, after) = rest.split_at(mark - at);
                pieces.push((before, true));
                (at, rest) = (mark, after);
            }
            if !rest.is_empty() {
                pieces.push((rest, false));
                at += rest.len();
            }
        }
        pieces
    }
}

/// How the message to the client ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    End,
    PassRest,
    Abort,
    /// Nothing yet.
    Open,
}

/// What the client got.
#[derive(Debug, Clone)]
pub struct Seen {
    /// No exchange at all: no rule binds the request.
    pub unbound: bool,
    pub status: u16,
    pub headers: HeaderMap,
    /// The head is the host's own, unchanged.
    pub host_head: bool,
    pub body: Vec<u8>,
    pub finish: Finish,
    pub closes_upstream: bool,
    /// Bytes of the host's answer that were held back at once, at the most.
    pub most_held: usize,
    /// It had to give up what it held, and still held so many bytes at the most.
    pub shed: Option<usize>,
    pub outcome: Outcome,
}

impl Seen {
    #[track_caller]
    pub fn json(&self) -> Value {
        strict::parse(&self.body).unwrap_or_else(|why| panic!("{why}: {:?}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The `error` member.
    #[track_caller]
    pub fn error(&self) -> Value {
        self.json()["error"].clone()
    }

    #[track_caller]
    pub fn code(&self) -> i64 {
        self.error()["code"].as_i64().unwrap_or_else(|| panic!("no code: {}", self.text()))
    }

    /// The reason of the first detail, or nothing.
    pub fn reason(&self) -> Option<String> {
        let error = self.error();
        let data = if error["data"].is_array() { &error["data"] } else { &error["details"] };
        data[0]["reason"].as_str().map(str::to_owned)
    }

    pub fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned())
    }

    pub fn fired(&self, rule: Rule) -> bool {
        self.outcome.rules.contains(rule)
    }

    /// The host's head and bytes, untouched.
    pub fn passed(&self, answer: &Answer) -> bool {
        self.unbound || self.host_head && self.body == answer.body
    }

    /// Everything of it that the client can tell, for comparisons.
    pub fn visible(&self) -> (u16, Vec<(String, Vec<u8>)>, String, Finish) {
        let mut headers: Vec<(String, Vec<u8>)> =
            self.headers.iter().map(|(n, v)| (n.to_string(), v.as_bytes().to_vec())).collect();
        headers.sort();
        let finish = if self.finish == Finish::PassRest { Finish::End } else { self.finish };
        (self.status, headers, self.text(), finish)
    }
}

/// When the request's body is read, seen from the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    RequestFirst,
    /// The host answers before it reads (Q-1).
    AnswerFirst,
}

/// One host with one interface and its policy.
#[derive(Debug, Clone)]
pub struct Host {
    pub target: Target,
    pub policy: Policy,
    pub order: Order,
}

impl Host {
    pub fn with(path: &str, binding: Binding, versions: &[&str]) -> Self {
        let interface = Interface {
            path: path.into(),
            binding,
            versions: versions.iter().map(|v| (*v).to_owned()).collect(),
        };
        Self {
            target: Target::Interface(Arc::new(interface)),
            policy: Policy::default(),
            order: Order::RequestFirst,
        }
    }

    /// A JSON-RPC interface at `/a2a` that offers 1.0.
    pub fn rpc() -> Self {
        Self::with("/a2a", Binding::JsonRpc, &["1.0"])
    }

    /// An HTTP+JSON interface at `/rest` that offers 1.0.
    pub fn http() -> Self {
        Self::with("/rest", Binding::HttpJson, &["1.0"])
    }

    #[must_use]
    pub fn policy(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(&mut self.policy);
        self
    }

    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    fn exchange(&self, request: &Request) -> Option<Exchange> {
        let facts = RequestFacts {
            method: &request.method,
            path: &request.path,
            query: request.query.as_deref(),
            headers: &request.headers,
        };
        Exchange::new(&self.target, &Arc::new(self.policy.clone()), &facts)
    }

    /// Runs the request and the answer through an exchange.
    pub fn run(&self, request: &Request, answer: &Answer) -> Seen {
        let mut seen = Seen {
            unbound: false,
            status: answer.status,
            headers: HeaderMap::new(),
            host_head: false,
            body: Vec::new(),
            finish: Finish::Open,
            closes_upstream: false,
            most_held: 0,
            shed: None,
            outcome: Outcome::default(),
        };
        let Some(mut exchange) = self.exchange(request) else {
            seen.unbound = true;
            seen.host_head = true;
            seen.headers = answer.headers.clone();
            seen.body.clone_from(&answer.body);
            seen.finish = match answer.ending {
                Ending::End | Ending::Open => Finish::PassRest,
                Ending::Fail(_) => Finish::Abort,
            };
            return seen;
        };
        if self.order == Order::RequestFirst {
            read_request(&mut exchange, request);
        }
        exchange.head(StatusCode::from_u16(answer.status).unwrap(), &answer.headers);
        drain(&mut exchange, answer, &mut seen);
        for (piece, no_room) in answer.pieces() {
            if seen.finish == Finish::PassRest {
                seen.body.extend_from_slice(piece);
                continue;
            }
            exchange.piece(Bytes::copy_from_slice(piece));
            seen.most_held = seen.most_held.max(exchange.held_bytes());
            if no_room {
                make_room(&mut exchange, &mut seen);
            }
            drain(&mut exchange, answer, &mut seen);
        }
        match answer.ending {
            Ending::End if seen.finish != Finish::PassRest => exchange.end(),
            Ending::Fail(_) if seen.finish == Finish::PassRest => seen.finish = Finish::Abort,
            Ending::Fail(failure) => exchange.fail(failure),
            Ending::End | Ending::Open => {}
        }
        drain(&mut exchange, answer, &mut seen);
        if self.order == Order::AnswerFirst {
            if answer.no_room_from.is_some() && exchange.wants_request() {
                make_room(&mut exchange, &mut seen);
            }
            read_request(&mut exchange, request);
            drain(&mut exchange, answer, &mut seen);
            if seen.finish == Finish::PassRest && matches!(answer.ending, Ending::Fail(_)) {
                seen.finish = Finish::Abort; // the rest is that end
            }
        }
        seen.outcome = exchange.outcome().clone();
        if seen.host_head {
            seen.headers = answer.headers.clone();
        }
        seen
    }

    /// The proxy's own answer to this request (P-1).
    pub fn own(&self, request: &Request, own: a2a_errata::normalize::OwnAnswer) -> Seen {
        let mut exchange = self.exchange(request).expect("bound");
        read_request(&mut exchange, request);
        exchange.answer(own);
        let nothing = Answer::raw(200, "");
        let mut seen = Seen {
            unbound: false,
            status: 0,
            headers: HeaderMap::new(),
            host_head: false,
            body: Vec::new(),
            finish: Finish::Open,
            closes_upstream: false,
            most_held: 0,
            shed: None,
            outcome: Outcome::default(),
        };
        drain(&mut exchange, &nothing, &mut seen);
        seen.outcome = exchange.outcome().clone();
        seen
    }
}

/// What the shell does where all exchanges together hold more than they may.
fn make_room(exchange: &mut Exchange, seen: &mut Seen) {
    if exchange.held_bytes() > ROOM_ALWAYS && exchange.shed() {
        seen.shed = seen.shed.max(Some(exchange.held_bytes()));
    }
}

fn read_request(exchange: &mut Exchange, request: &Request) {
    for piece in request.split.pieces(&request.body) {
        exchange.request_piece(piece);
    }
    exchange.request_end();
}

fn drain(exchange: &mut Exchange, answer: &Answer, seen: &mut Seen) {
    while let Some(output) = exchange.poll() {
        match output {
            Output::HostHead => {
                assert!(!seen.host_head && seen.headers.is_empty(), "one head");
                seen.host_head = true;
                seen.status = answer.status;
            }
            Output::Head(head) => {
                assert!(!seen.host_head && seen.headers.is_empty(), "one head");
                seen.status = head.status.as_u16();
                seen.headers = head.headers;
            }
            Output::Body(bytes) => seen.body.extend_from_slice(&bytes),
            Output::End => seen.finish = Finish::End,
            Output::Abort => seen.finish = Finish::Abort,
            Output::PassRest => seen.finish = Finish::PassRest,
            Output::CloseUpstream => seen.closes_upstream = true,
        }
    }
}

/// Checks that the client got the fixed TASK_NOT_FOUND for the id 7 and the task `t-1` (O-1).
#[track_caller]
pub fn is_not_found(seen: &Seen, why: &str) {
    let want = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"Task not found","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org","metadata":{"taskId":"t-1"}}]}}"#;
    assert_eq!(seen.text(), want, "{why}");
    assert_eq!(seen.status, 200, "{why}");
    assert_not_found_head(seen, want.len(), why);
}

/// The same on HTTP+JSON.
#[track_caller]
pub fn is_http_not_found(seen: &Seen, why: &str) {
    let want = r#"{"error":{"code":404,"status":"NOT_FOUND","message":"Task not found","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org","metadata":{"taskId":"t-1"}}]}}"#;
    assert_eq!(seen.text(), want, "{why}");
    assert_eq!(seen.status, 404, "{why}");
    assert_not_found_head(seen, want.len(), why);
}

#[track_caller]
fn assert_not_found_head(seen: &Seen, length: usize, why: &str) {
    assert!(!seen.host_head, "{why}");
    let mut names: Vec<&str> = seen.headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-length", "content-type"], "{why}");
    assert_eq!(seen.header("content-type").as_deref(), Some("application/json"), "{why}");
    assert_eq!(seen.header("content-length"), Some(length.to_string()), "{why}");
    assert!(seen.outcome.not_found, "{why}");
}

/// Types that may stand in `data` and `details` (E-5, E-8).
const TYPES: &[&str] = &[
    ERROR_INFO,
    BAD_REQUEST,
    RETRY_INFO,
    "type.googleapis.com/google.rpc.PreconditionFailure",
    "type.googleapis.com/google.rpc.QuotaFailure",
    "type.googleapis.com/google.rpc.LocalizedMessage",
    "type.googleapis.com/google.protobuf.Struct",
];

/// What is wrong with an answer of the proxy's own, if anything (section 4).
pub fn faults_of(body: &[u8], binding: Binding, cap: usize) -> Result<(), String> {
    faults_in_any_order(body, binding, cap)?;
    let value = strict::parse(body)?;
    let names = |value: &Value| -> Vec<String> {
        value.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect()
    };
    let (root, error): (&[&str], &[&str]) = match binding {
        Binding::JsonRpc => (&["jsonrpc", "id", "error"], &["code", "message", "data"]),
        Binding::HttpJson => (&["error"], &["code", "status", "message", "details"]),
    };
    // A host may write an empty map; ours is left out.
    let details = value["error"].get("data").or_else(|| value["error"].get("details"));
    if details.and_then(Value::as_array).into_iter().flatten().any(|d| d["metadata"] == serde_json::json!({}))
    {
        return Err("empty metadata".into());
    }
    for (have, want) in [(names(&value), root), (names(&value["error"]), error)] {
        if !want.starts_with(&have.iter().map(String::as_str).collect::<Vec<_>>()) {
            return Err(format!("members in the order {have:?}"));
        }
    }
    Ok(())
}

/// The same for one of a host that may pass as it is: the order of its members is the host's (E-9).
pub fn faults_in_any_order(body: &[u8], binding: Binding, cap: usize) -> Result<(), String> {
    if body.len() > cap {
        return Err(format!("{} bytes over the cap", body.len() - cap));
    }
    let value = strict::parse(body)?;
    let root = value.as_object().ok_or("no object")?;
    let mut names: Vec<&str> = root.keys().map(String::as_str).collect();
    names.sort_unstable();
    let error = root.get("error").and_then(Value::as_object).ok_or("no error object")?;
    let mut members: Vec<&str> = error.keys().map(String::as_str).collect();
    members.sort_unstable();
    let details = match binding {
        Binding::JsonRpc => {
            if names != ["error", "id", "jsonrpc"] || root["jsonrpc"] != "2.0" {
                return Err(format!("members {names:?}"));
            }
            if !matches!(members.as_slice(), ["code", "message"] | ["code", "data", "message"]) {
                return Err(format!("members {members:?}"));
            }
            error.get("data")
        }
        Binding::HttpJson => {
            if names != ["error"] {
                return Err(format!("members {names:?}"));
            }
            if !matches!(
                members.as_slice(),
                ["code", "message", "status"] | ["code", "details", "message", "status"]
            ) {
                return Err(format!("members {members:?}"));
            }
            error.get("details")
        }
    };
    let code = error["code"].as_i64().ok_or("the code is no integer")?;
    if error["message"].as_str().is_none_or(str::is_empty) {
        return Err("no message".into());
    }
    let none = Vec::new();
    let details = match details {
        None => &none,
        Some(Value::Array(list)) if !list.is_empty() => list,
        Some(other) => return Err(format!("details {other}")),
    };
    let infos: Vec<usize> =
        details.iter().enumerate().filter(|(_, d)| d["@type"] == ERROR_INFO).map(|(i, _)| i).collect();
    if infos.len() > 1 || infos.first().is_some_and(|first| *first != 0) {
        return Err(format!("ErrorInfo at {infos:?}"));
    }
    if binding == Binding::JsonRpc && (-32009..=-32001).contains(&code) && infos.is_empty() {
        return Err("an A2A code without ErrorInfo".into());
    }
    for detail in details {
        let kind = detail["@type"].as_str().ok_or("a detail without a type")?;
        if !TYPES.contains(&kind) {
            return Err(format!("a detail of the type {kind}"));
        }
        if kind == ERROR_INFO {
            let metadata = match detail.get("metadata") {
                None => continue,
                Some(Value::Object(map)) => map,
                Some(other) => return Err(format!("metadata {other}")),
            };
            if metadata.values().any(|v| !v.is_string()) {
                return Err("metadata that is no text".into());
            }
        }
    }
    Ok(())
}

/// The verdict was one that leaves the host's bytes alone.
pub fn is_untouched(seen: &Seen) -> bool {
    matches!(seen.outcome.verdict, Verdict::Passed | Verdict::Conformant)
}
