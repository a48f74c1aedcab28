//! One interface under probe: how it is asked, and everything that it answered.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use serde_json::{Value, json};

use super::checks::Miss;
use super::client::{Client, NoReply, Reply};
use super::shape::{self, ErrorAnswer, Read};
use super::target::{Interface, Protocol};
use crate::normalize::{self, Asked, Binding, RequestFacts, Review};
use crate::outbound::shown;
use crate::protocol::a2a::{A2aError, Operation, percent_decode};

/// What the person at the keyboard says.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Sent with every request but those without a credential.
    pub credentials: HeaderMap,
    /// Sent with every request.
    pub headers: HeaderMap,
    /// A finished task of the caller's.
    pub task: Option<String>,
    /// A task of somebody else's.
    pub foreign: Option<String>,
    /// A task that does not exist; made up when absent.
    pub unknown: Option<String>,
    pub allow_create: bool,
    /// Pairs of requests whose times are compared.
    pub pairs: usize,
    /// Bytes of a body that should be too large.
    pub oversize: usize,
}

/// One answer, for the checks that look at all of them.
#[derive(Debug)]
pub struct Heard {
    /// What was asked, in words.
    pub asked: String,
    pub method: Method,
    /// The task that was asked about.
    pub task: Option<String>,
    /// What the request said that an answer may say back: path, method, version, ids.
    pub said: Vec<String>,
    pub sent: Sent,
    pub echo: Echo,
    /// Whether a stream of events was asked for.
    pub streams: bool,
    pub reply: Reply,
}

/// A request as it left.
#[derive(Debug)]
pub struct Sent {
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Which id an answer may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Echo {
    /// The request's, as it was written.
    Own(String),
    /// Null as well: the host may refuse before it reads.
    OwnOrNull(String),
    /// There was none to be read.
    Null,
    /// The binding has none.
    Absent,
}

/// One interface under probe.
pub struct Session<'a> {
    pub client: &'a Client,
    pub interface: &'a Interface,
    /// The same host's JSON-RPC interface, when this one is HTTP+JSON.
    pub twin: Option<&'a Interface>,
    pub options: &'a Options,
    /// An id that nobody has or can guess, or the one that was given as such.
    pub unknown: String,
    /// Tasks that `GetTask` has called "not found".
    proven: Mutex<HashSet<String>>,
    heard: Mutex<Vec<Heard>>,
    /// Why requests had no answer.
    unanswered: Mutex<Vec<NoReply>>,
    notes: Mutex<Vec<String>>,
}

/// A request before it has its usual parts.
pub struct Ask {
    asked: String,
    method: Method,
    below: String,
    body: Bytes,
    headers: HeaderMap,
    credentials: bool,
    task: Option<String>,
    /// Whether it would change something, if there were such a task.
    changes: bool,
    /// Whether it asks if there is the task.
    looks: bool,
    echo: Echo,
}

impl Ask {
    /// With this header in place of the usual one.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    /// Called this in what is said of its answer.
    #[must_use]
    pub fn named(mut self, asked: &str) -> Self {
        asked.clone_into(&mut self.asked);
        self
    }

    /// Without credentials, and so perhaps refused unread.
    #[must_use]
    pub fn anonymous(mut self) -> Self {
        self.credentials = false;
        self.unread()
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// About this task, which its body names.
    #[must_use]
    pub fn about(mut self, task: &str) -> Self {
        self.task = Some(task.to_owned());
        self
    }

    /// About this task, and what would change it if it existed.
    #[must_use]
    pub fn changing(mut self, task: &str) -> Self {
        self.task = Some(task.to_owned());
        (self.changes, self.looks) = (true, false);
        self
    }

    /// On a task that the person at the keyboard gave for it, and that was looked at.
    #[must_use]
    pub fn allowed(mut self) -> Self {
        self.changes = false;
        self
    }

    /// By this HTTP method.
    #[must_use]
    pub fn by(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// With this query besides.
    #[must_use]
    pub fn query(mut self, query: &str) -> Self {
        self.below = format!("{}?{query}", self.below);
        self
    }

    /// With an id that nobody can read.
    #[must_use]
    pub fn without_id(mut self) -> Self {
        if self.echo != Echo::Absent {
            self.echo = Echo::Null;
        }
        self
    }

    /// Which may be refused before it is read.
    #[must_use]
    pub fn unread(mut self) -> Self {
        if let Echo::Own(id) = self.echo {
            self.echo = Echo::OwnOrNull(id);
        }
        self
    }
}

/// The id of requests where it does not matter.
pub const ID: &str = "7";

/// Whether an operation changes, or may change, the task it names.
fn changes(operation: Operation) -> bool {
    match operation {
        Operation::GetTask
        | Operation::ListTasks
        | Operation::GetPushConfig
        | Operation::ListPushConfigs
        | Operation::GetExtendedAgentCard => false,
        Operation::SendMessage
        | Operation::SendStreamingMessage
        | Operation::CancelTask
        | Operation::SubscribeToTask
        | Operation::CreatePushConfig
        | Operation::DeletePushConfig => true,
    }
}

impl<'a> Session<'a> {
    #[must_use]
    pub fn new(
        client: &'a Client,
        interface: &'a Interface,
        twin: Option<&'a Interface>,
        options: &'a Options,
    ) -> Self {
        let unknown = options.unknown.clone().unwrap_or_else(made_up);
        Self {
            client,
            interface,
            twin,
            options,
            unknown,
            proven: Mutex::default(),
            heard: Mutex::default(),
            unanswered: Mutex::default(),
            notes: Mutex::default(),
        }
    }

    /// The same host's other interface, with its own transcript.
    #[must_use]
    pub fn on(&self, interface: &'a Interface) -> Self {
        let mut other = Self::new(self.client, interface, None, self.options);
        other.unknown.clone_from(&self.unknown);
        other
    }

    #[must_use]
    pub fn is_json_rpc(&self) -> bool {
        self.interface.binding == Binding::JsonRpc
    }

    /// Says what is no verdict.
    pub fn note(&self, note: impl Into<String>) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note.into());
    }

    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Why nothing comes from this interface. Silence or a hang-up must happen twice: it may be one request's own.
    pub fn is_dead(&self) -> Option<String> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        let first = unanswered.first().filter(|_| heard.is_empty())?;
        let is_dead = match first {
            NoReply::Unreachable(_) | NoReply::Tls(_) => true,
            NoReply::Silence(_) | NoReply::Broken(_) => unanswered.len() > 1,
            NoReply::Spent(_) => false,
        };
        is_dead.then(|| format!("{}: {first}", self.interface.url()))
    }

    /// That a credential is missing or is not taken, if nearly everything is refused.
    pub fn hint(&self) -> Option<String> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = heard.iter().filter(|one| matches!(one.reply.status, 401 | 403 | 407)).count();
        if refused == 0 || refused * 4 < heard.len() * 3 {
            return None;
        }
        let url = self.interface.url();
        let what = credential_hint(!(self.options.credentials.is_empty() && self.options.headers.is_empty()));
        Some(format!("{url} refuses {refused} of {} requests (401, 403): {what}", heard.len()))
    }

    /// Goes through all that was heard so far.
    pub fn each_heard(&self, mut look: impl FnMut(&Heard)) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(&mut look);
    }

    /// A call of an operation on a task, as its binding writes it. Never one that sends a message.
    #[must_use]
    pub fn call(&self, operation: Operation, task: &str) -> Ask {
        self.call_with_id(ID, operation, task)
    }

    /// The same with this id, which only JSON-RPC has.
    #[must_use]
    pub fn call_with_id(&self, id: &str, operation: Operation, task: &str) -> Ask {
        let asked = self.method_of(operation).to_owned();
        let mut ask = match self.interface.binding {
            Binding::JsonRpc => {
                let method = self.method_of(operation);
                let params = match operation {
                    Operation::GetExtendedAgentCard | Operation::ListTasks => json!({}),
                    _ if self.interface.protocol == Protocol::V0_3 && operation.is_push() => {
                        json!({"id": task, "pushNotificationConfigId": "probe"})
                    }
                    _ if operation == Operation::ListPushConfigs => json!({"taskId": task}),
                    _ if operation.is_push() => json!({"taskId": task, "id": "probe"}),
                    _ => json!({"id": task}),
                };
                let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
                let mut ask = self.post(&asked, body);
                ask.echo = Echo::Own(id.to_owned());
                ask
            }
            Binding::HttpJson => {
                let (method, below) = operation.route(task, "probe");
                let prefix = if self.interface.protocol == Protocol::V0_3 { "/v1" } else { "" };
                let body = if method == Method::POST { "{}" } else { "" };
                self.ask(&asked, method, &format!("{prefix}{below}"), body)
            }
        };
        ask.task = operation.names_task().then(|| task.to_owned());
        ask.changes = ask.task.is_some() && changes(operation);
        ask.looks = operation == Operation::GetTask;
        ask
    }

    /// The JSON-RPC method's name in the protocol that is spoken.
    #[must_use]
    pub fn method_of(&self, operation: Operation) -> &'static str {
        match self.interface.protocol {
            Protocol::V1_0 => operation.method(),
            Protocol::V0_3 => operation.method_0_3(),
        }
    }

    /// Bytes to a JSON-RPC interface's URL.
    #[must_use]
    pub fn post(&self, asked: &str, body: impl Into<Bytes>) -> Ask {
        self.ask(asked, Method::POST, "", body)
    }

    #[must_use]
    pub fn ask(&self, asked: &str, method: Method, below: &str, body: impl Into<Bytes>) -> Ask {
        let body = body.into();
        let mut headers = HeaderMap::new();
        if !body.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        // Clients of 0.3 send none.
        if self.interface.protocol == Protocol::V1_0 {
            headers.insert("a2a-version", HeaderValue::from_static("1.0"));
        }
        let echo = if self.is_json_rpc() { Echo::Own(ID.to_owned()) } else { Echo::Absent };
        Ask {
            asked: asked.to_owned(),
            method,
            below: below.to_owned(),
            body,
            headers,
            credentials: true,
            task: None,
            changes: false,
            looks: false,
            echo,
        }
    }

    /// Asks, and remembers the answer. What would change a task is asked only of one that `GetTask` says is none.
    ///
    /// # Errors
    /// Without an answer, or with half of one, the check fails; without budget it is not run.
    pub async fn hear(&self, ask: Ask) -> Result<Reply, Miss> {
        let asked = ask.asked.clone();
        let reply = self.hear_half(ask).await?;
        match reply.trouble() {
            Some(trouble) => Err(Miss::Fails(format!("{asked}: the answer {trouble}"))),
            None => Ok(reply),
        }
    }

    /// The same, where half an answer is one too.
    ///
    /// # Errors
    /// As [`Self::hear`].
    pub async fn hear_half(&self, ask: Ask) -> Result<Reply, Miss> {
        if let (true, Some(task)) = (ask.changes, &ask.task) {
            self.prove_unknown(task).await?;
        }
        self.send(ask).await
    }

    /// Asks whether there is such a task.
    ///
    /// # Errors
    /// When anything but "not found" is the answer.
    async fn prove_unknown(&self, task: &str) -> Result<(), Miss> {
        let is_proven = || self.proven.lock().unwrap_or_else(PoisonError::into_inner).contains(task);
        if is_proven() {
            return Ok(());
        }
        let reply = self.send(self.call(Operation::GetTask, task)).await?;
        match self.found(task, &reply) {
            Lookup::None => Ok(()),
            Lookup::Some => Err(Miss::NotApplicable(
                "there is such a task, by GetTask: nothing is asked that would change it".to_owned(),
            )),
            Lookup::PutOff(why) => Err(Miss::Undecided(format!("GetTask: {why}"))),
            Lookup::Unclear(why) => Err(Miss::NotApplicable(format!(
                "GetTask does not say \"not found\", so nothing is asked that could change a task: {why}"
            ))),
        }
    }

    /// What an answer to `GetTask` says of there being such a task, in whatever shape.
    pub fn found(&self, task: &str, reply: &Reply) -> Lookup {
        if let Some(why) = put_off(reply) {
            return Lookup::PutOff(why);
        }
        if let Some(trouble) = reply.trouble() {
            return Lookup::Unclear(format!("the answer {trouble}"));
        }
        let gone = self.interface.binding == Binding::HttpJson && matches!(reply.status, 404 | 410);
        // Over HTTP+JSON the status of what has no readable shape may be the router's own word, so it is taken for
        // an id only that nobody can have.
        let is_made_up = self.options.unknown.is_none() && task == self.unknown;
        match shape::read(self.interface.binding, &reply.body) {
            Ok(Read::Success(_)) if reply.status < 400 => Lookup::Some,
            Ok(Read::Error(error)) if error.says() == Some(A2aError::TaskNotFound) => Lookup::None,
            Ok(Read::Error(error)) if gone && error.says().is_none() && matches!(error.code, 404 | 410) => {
                Lookup::None
            }
            _ if shape::says_not_found(&reply.body) => Lookup::None,
            _ if gone && is_made_up && !shape::has_success(&reply.body) => Lookup::None,
            Ok(Read::Error(error)) => Lookup::Unclear(format!("HTTP {}, {}", reply.status, error.name())),
            Ok(Read::Success(_)) | Err(_) => {
                Lookup::Unclear(format!("HTTP {} with {}", reply.status, shape::looks(&reply.body)))
            }
        }
    }

    async fn send(&self, ask: Ask) -> Result<Reply, Miss> {
        let url = self.interface.target(&ask.below);
        let uri: Uri = url.parse().map_err(|_| Miss::Fails(format!("{url:?} is no URL")))?;
        let streams = ask.headers.get(header::ACCEPT).is_some_and(|media| media == "text/event-stream");
        let said = said(&ask, &uri);
        let mut headers = ask.headers;
        let mut add = |more: &HeaderMap| {
            for name in more.keys() {
                headers.remove(name);
            }
            for (name, value) in more {
                headers.append(name.clone(), value.clone());
            }
        };
        // What was typed for one origin is not for others.
        if self.interface.is_trusted {
            add(&self.options.headers);
            if ask.credentials {
                add(&self.options.credentials);
            }
        }
        let sent = Sent { uri: uri.clone(), headers, body: ask.body };
        let answered = self.client.send(ask.method.clone(), uri, &sent.headers, sent.body.clone()).await;
        let reply = match answered {
            Ok(reply) => reply,
            Err(why @ NoReply::Spent(_)) => return Err(Miss::NotRun(why.to_string())),
            Err(why) => {
                let told = format!("{}: {why}", ask.asked);
                self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).push(why);
                return Err(Miss::Fails(told));
            }
        };
        // What nobody may see without a credential may be there all the same.
        if let (true, true, Some(task)) = (ask.looks, ask.credentials, &ask.task) {
            let mut proven = self.proven.lock().unwrap_or_else(PoisonError::into_inner);
            match self.found(task, &reply) {
                Lookup::None => proven.insert(task.clone()),
                Lookup::Some => proven.remove(task),
                Lookup::PutOff(_) | Lookup::Unclear(_) => false,
            };
        }
        let heard = Heard {
            asked: ask.asked,
            method: ask.method,
            task: ask.task,
            said,
            sent,
            echo: ask.echo,
            streams,
            reply: reply.clone(),
        };
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).push(heard);
        Ok(reply)
    }

    /// What the rules would change in the details of an error that was heard, be it all of the answer or one event
    /// of it.
    pub fn review(&self, heard: &Heard, document: &[u8]) -> Option<Review> {
        let interface = normalize::Interface {
            path: self.interface.path.clone(),
            binding: self.interface.binding,
            versions: self.interface.versions.clone(),
        };
        let Sent { uri, headers, body } = &heard.sent;
        let request = RequestFacts { method: &heard.method, path: uri.path(), query: uri.query(), headers };
        let mut answered = HeaderMap::new();
        for (name, value) in &heard.reply.headers {
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
                answered.append(name, value);
            }
        }
        let asked = Asked { interface: &interface, request: &request, body };
        normalize::review(&asked, heard.reply.status, &answered, document)
    }

    /// What an answer says.
    ///
    /// # Errors
    /// When it is not in the binding's form, or says that now is not the time.
    pub fn read(&self, asked: &str, reply: &Reply) -> Result<Read, Miss> {
        let told = |why: &str| Miss::Fails(format!("{asked}: HTTP {} with {why}", reply.status));
        if let (300..=399, Some(to)) = (reply.status, reply.header("location")) {
            return Err(told(&format!("a redirect to {}, which is not followed", shape::brief(&shown(to)))));
        }
        match shape::read(self.interface.binding, &reply.body) {
            Ok(Read::Success(_)) if self.interface.binding == Binding::HttpJson && reply.status >= 400 => {
                Err(told(&format!("{}, no google.rpc.Status", shape::looks(&reply.body))))
            }
            Ok(read) => match put_off(reply) {
                Some(why) => Err(Miss::Undecided(format!("{asked}: {why}"))),
                None => Ok(read),
            },
            Err(why) => Err(told(&why)),
        }
    }

    /// The error that an answer is.
    ///
    /// # Errors
    /// When it is none.
    pub fn error(&self, asked: &str, reply: &Reply) -> Result<ErrorAnswer, Miss> {
        match self.read(asked, reply)? {
            Read::Error(error) => Ok(error),
            Read::Success(_) => Err(Miss::Fails(format!("{asked}: a success instead of an error"))),
        }
    }
}

/// What a request says that D-1 lets a host say back, as it is written and as it is meant.
fn said(ask: &Ask, uri: &Uri) -> Vec<String> {
    let mut all = vec![uri.path().to_owned(), percent_decode(uri.path()), ask.method.to_string()];
    all.extend(ask.task.clone());
    all.extend(ask.headers.get("a2a-version").and_then(|version| version.to_str().ok()).map(str::to_owned));
    if let Ok(Value::Object(call)) = serde_json::from_slice(&ask.body) {
        let params = call.get("params");
        let in_params = ["id", "taskId"].into_iter().filter_map(|name| params?.get(name));
        for value in ["id", "method"].into_iter().filter_map(|name| call.get(name)).chain(in_params) {
            match value {
                Value::String(text) => all.push(text.clone()),
                Value::Number(number) => all.push(number.to_string()),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
            }
        }
    }
    all
}

/// What `GetTask` says of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    None,
    Some,
    /// Not now.
    PutOff(String),
    /// Neither, and what it says instead.
    Unclear(String),
}

/// Why an answer is about the moment, and not about what was asked.
fn put_off(reply: &Reply) -> Option<String> {
    let why = match reply.status {
        429 => "the host is asked too often (--rps asks more slowly)",
        502..=504 => "the host is not available",
        _ if shape::says_too_often(&reply.body) => "the host is asked too often (--rps asks more slowly)",
        _ => return None,
    };
    Some(format!("HTTP {}: {why}", reply.status))
}

/// What to do where requests are refused.
#[must_use]
pub fn credential_hint(given: bool) -> &'static str {
    if given {
        "is the credential that was given the right one?"
    } else {
        "it asks for a credential; --bearer TOKEN or --header 'NAME: VALUE' sends one"
    }
}

/// An id that nobody has and nobody can guess: 128 bits, written like a UUID.
#[must_use]
pub fn made_up() -> String {
    let (a, b) = (random(), random());
    let low = |n: u64, bits: u32| n & ((1 << bits) - 1);
    format!("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", a >> 32, low(a >> 16, 16), low(a, 16), b >> 48, low(b, 48))
}

/// From the system's source of randomness.
fn random() -> u64 {
    let mut bytes = [0; 8];
    if rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).is_err() {
        // The standard library's hash keys are random in every process.
        return std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    }
    u64::from_le_bytes(bytes)
}

/// An id of the same length and with the same kinds of characters, so that only its being unknown tells. It may be
/// somebody's: only what changes nothing is asked about it.
#[must_use]
pub fn alike(id: &str) -> String {
    let mut changed = false;
    let mut all: Vec<char> = id.chars().collect();
    // What is in front may name the tenant or the kind: the last sixteen letters are enough.
    let mut left = 16;
    for c in all.iter_mut().rev() {
        let digit = u32::try_from(random() % 1_048_576).unwrap_or_default();
        let other = match c {
            '0'..='9' => char::from_digit(digit % 10, 10),
            'a'..='f' => char::from_digit(10 + digit % 6, 16),
            'g'..='z' => char::from_u32('g' as u32 + digit % 20),
            'A'..='F' => char::from_digit(10 + digit % 6, 16).map(|c| c.to_ascii_uppercase()),
            'G'..='Z' => char::from_u32('G' as u32 + digit % 20),
            _ => None,
        };
        if let Some(other) = other.filter(|_| left > 0) {
            left -= 1;
            changed |= other != *c;
            *c = other;
        }
    }
    if changed { all.into_iter().collect() } else { format!("{id}x") }
}

/// A task's id and state in a success of GetTask or SendMessage.
#[must_use]
pub fn task_of(result: &Value) -> Option<(String, String)> {
    let task = result.get("task").unwrap_or(result);
    let state = task.pointer("/status/state")?.as_str()?;
    Some((task.get("id")?.as_str()?.to_owned(), state.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_id_looks_like_the_foreign_one() {
        for id in ["acme/5d2f6a7b8c9d0e1f2a3b4c", "T-1", "42", "--", "ABCdef019"] {
            let other = alike(id);
            // A short one may be the same by chance, and gets longer then.
            assert_ne!(other, id);
            assert!(other.len() == id.len() || other == format!("{id}x"), "{other}");
            assert!(!id.starts_with("acme/") || other.starts_with("acme/"), "{other}");
        }
    }

    /// What is asked to change something must not be anybody's.
    #[test]
    fn made_up_ids_have_128_bits_of_chance_in_them() {
        let all: Vec<Vec<char>> = (0..200).map(|_| made_up().chars().collect()).collect();
        let mut free = 0;
        for at in 0..36 {
            let seen: HashSet<char> = all.iter().map(|id| id[at]).collect();
            if seen.len() > 1 {
                assert!(seen.len() >= 14 && seen.iter().all(char::is_ascii_hexdigit), "{at}: {seen:?}");
                free += 4;
            }
        }
        assert_eq!(free, 128);
    }
}
