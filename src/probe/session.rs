//! One interface under probe: how it is asked, and everything that it answered.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Uri, header};
use serde_json::{Value, json};

use super::checks::Miss;
use super::client::{Client, NoReply, Reply};
use super::shape::{self, ErrorAnswer, Read};
use super::target::{Interface, Protocol};
use crate::normalize::Binding;
use crate::protocol::a2a::Operation;

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
    pub reply: Reply,
}

/// One interface under probe.
pub struct Session<'a> {
    pub client: &'a Client,
    pub interface: &'a Interface,
    /// The same host's JSON-RPC interface, when this one is HTTP+JSON.
    pub twin: Option<&'a Interface>,
    pub options: &'a Options,
    pub unknown: String,
    /// Another one, for what two unknown tasks' answers differ in.
    pub other: String,
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

    /// Without credentials.
    #[must_use]
    pub fn anonymous(mut self) -> Self {
        self.credentials = false;
        self
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }
}

/// The id of requests where it does not matter.
pub const ID: &str = "7";

impl<'a> Session<'a> {
    #[must_use]
    pub fn new(
        client: &'a Client,
        interface: &'a Interface,
        twin: Option<&'a Interface>,
        options: &'a Options,
    ) -> Self {
        let unknown = options.unknown.clone().unwrap_or_else(|| match &options.foreign {
            Some(foreign) => alike(foreign, 0),
            None => made_up(),
        });
        let other = alike(&unknown, 7);
        Self {
            client,
            interface,
            twin,
            options,
            unknown,
            other,
            heard: Mutex::default(),
            unanswered: Mutex::default(),
            notes: Mutex::default(),
        }
    }

    /// The same host's other interface, with its own transcript.
    #[must_use]
    pub fn on(&self, interface: &'a Interface) -> Self {
        Self {
            client: self.client,
            interface,
            twin: None,
            options: self.options,
            unknown: self.unknown.clone(),
            other: self.other.clone(),
            heard: Mutex::default(),
            unanswered: Mutex::default(),
            notes: Mutex::default(),
        }
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
        match self.interface.binding {
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
                self.post(&asked, body)
            }
            Binding::HttpJson => {
                let (method, below) = operation.route(task, "probe");
                let prefix = if self.interface.protocol == Protocol::V0_3 { "/v1" } else { "" };
                let body = if method == Method::POST { "{}" } else { "" };
                self.ask(&asked, method, &format!("{prefix}{below}"), body)
            }
        }
    }

    fn method_of(&self, operation: Operation) -> &'static str {
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
        Ask { asked: asked.to_owned(), method, below: below.to_owned(), body, headers, credentials: true }
    }

    /// Asks, and remembers the answer.
    ///
    /// # Errors
    /// Without an answer the check fails; without budget it is not run.
    pub async fn hear(&self, ask: Ask) -> Result<Reply, Miss> {
        let url = format!("{}{}", self.interface.url(), ask.below);
        let url =
            if self.interface.path.is_empty() && ask.below.is_empty() { format!("{url}/") } else { url };
        let uri: Uri = url.parse().map_err(|_| Miss::Fails(format!("{url:?} is no URL")))?;
        let mut headers = ask.headers;
        let mut add = |more: &HeaderMap| {
            for (name, value) in more {
                headers.insert(name.clone(), value.clone());
            }
        };
        add(&self.options.headers);
        if ask.credentials {
            add(&self.options.credentials);
        }
        let reply = match self.client.send(ask.method.clone(), uri, &headers, ask.body).await {
            Ok(reply) => reply,
            Err(why @ NoReply::Spent(_)) => return Err(Miss::NotRun(why.to_string())),
            Err(why) => {
                let told = format!("{}: {why}", ask.asked);
                self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).push(why);
                return Err(Miss::Fails(told));
            }
        };
        let heard = Heard { asked: ask.asked, method: ask.method, reply: reply.clone() };
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).push(heard);
        Ok(reply)
    }

    /// What an answer says.
    ///
    /// # Errors
    /// When it is not in the binding's form.
    pub fn read(&self, asked: &str, reply: &Reply) -> Result<Read, Miss> {
        let told = |why: &str| Miss::Fails(format!("{asked}: HTTP {} with {why}", reply.status));
        match shape::read(self.interface.binding, &reply.body) {
            Ok(Read::Success(_)) if self.interface.binding == Binding::HttpJson && reply.status >= 400 => {
                Err(told(&format!("{}, no google.rpc.Status", shape::looks(&reply.body))))
            }
            Ok(read) => Ok(read),
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

/// What to do where requests are refused.
#[must_use]
pub fn credential_hint(given: bool) -> &'static str {
    if given {
        "is the credential that was given the right one?"
    } else {
        "it asks for a credential; --bearer TOKEN or --header 'NAME: VALUE' sends one"
    }
}

/// An id like any other, that nobody has.
fn made_up() -> String {
    let (a, b) = (random(0), random(1));
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        a >> 32,
        a & 0xffff,
        (a >> 16) & 0xfff,
        b >> 52,
        b & 0xffff_ffff_ffff
    )
}

fn random(n: usize) -> u64 {
    use std::hash::BuildHasher as _;
    // The standard library's hash keys are random in every process.
    std::hash::RandomState::new().hash_one(n)
}

/// An id of the same length and with the same kinds of characters, so that only its being unknown tells.
#[must_use]
pub fn alike(id: &str, salt: usize) -> String {
    let mut changed = false;
    let mut all: Vec<char> = id.chars().collect();
    // What is in front may name the tenant or the kind: the last sixteen letters are enough.
    let mut left = 16;
    for (at, c) in all.iter_mut().enumerate().rev() {
        let digit = u32::try_from(random(at + salt) % 26).unwrap_or_default();
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
            let other = alike(id, 1);
            assert_ne!(other, id);
            if id != "--" {
                assert_eq!(other.len(), id.len(), "{other}");
            }
            assert!(!id.starts_with("acme/") || other.starts_with("acme/"), "{other}");
        }
        assert_eq!(made_up().len(), 36);
    }
}
