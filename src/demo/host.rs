//! The legacy host: it answers as hosts in the field do, and plays any scenario of the catalogue.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use super::server::{Called, Repertoire, Request, Said, Server};
use super::{Answer, INTERFACE, REFERENCE, REST_INTERFACE, Scenario, catalogue};
use crate::protocol::a2a::percent_decode;

/// A task of the caller's that has ended.
pub const FINISHED: &str = "t-9";

/// A task of somebody else's. All others but these two do not exist, however alike their ids are.
pub const FOREIGN: &str = "acme/5d2f6a7b8c9d0e1f2a3b4c";

/// The running host; it stops when this is dropped.
#[derive(Debug)]
pub struct LegacyHost(Server);

impl LegacyHost {
    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn start() -> io::Result<Self> {
        Server::start(Arc::new(Catalogued::new())).await.map(Self)
    }

    /// Starts on this address, for clients on other machines too.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn start_on(address: SocketAddr) -> io::Result<Self> {
        Server::start_on(address, Arc::new(Catalogued::new())).await.map(Self)
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }
}

/// Everything the host can say, by name.
struct Catalogued {
    scenarios: HashMap<&'static str, Scenario>,
    index: String,
}

impl Catalogued {
    fn new() -> Self {
        let all = catalogue();
        let mut index = String::from(
            "A legacy A2A host. Choose a fault with ?fault=NAME, with a task's id, or with a message's text:\n\n",
        );
        for scenario in &all {
            // Writing to a string does not fail.
            let _ = writeln!(index, "{:<24} {}", scenario.name, scenario.title);
        }
        Self { scenarios: all.into_iter().map(|scenario| (scenario.name, scenario)).collect(), index }
    }
}

impl Repertoire for Catalogued {
    /// What a query, a task's id or a message's text names; else what a host like this says by itself.
    fn answer(&self, request: &Request, called: &Called) -> Said {
        let fault = request.query.split('&').find_map(|pair| pair.strip_prefix("fault="));
        // This host has no push notifications and says so before it looks for a task.
        let of_task = Some(called.task.as_str()).filter(|_| !is_push(request, called));
        let candidates = fault.into_iter().chain(of_task).chain([called.text.as_str()]);
        let named = candidates.into_iter().find_map(|name| self.scenarios.get(name));
        if let Some(scenario) = named {
            return scenario.answer.clone().into();
        }
        let own = own(request, called);
        let scenario = own.and_then(|name| self.scenarios.get(name));
        match scenario {
            // The scenario's task has another id.
            Some(Scenario { name: "ok-task", .. }) if called.method == "GetTask" => {
                let task = r#"{"id":"$TASK","status":{"state":"TASK_STATE_COMPLETED"}}"#;
                Answer::result(task).into()
            }
            Some(Scenario { name: "ok-rest-task", .. }) => {
                let task = r#"{"id":"$TASK","status":{"state":"TASK_STATE_COMPLETED"}}"#;
                Answer::new(200, "application/a2a+json", task).into()
            }
            Some(scenario) => scenario.answer.clone().into(),
            None if request.path == "/" && request.method == "GET" => {
                Answer::new(200, "text/plain; charset=utf-8", self.index.as_str()).into()
            }
            None if request.method == "POST" && request.path == format!("{REST_INTERFACE}/message:send") => {
                Answer::json(200, r#"{"task":{"id":"t-9"}}"#).into()
            }
            None => Answer::json(404, r#"{"detail":"Not Found"}"#).into(),
        }
    }
}

/// Bytes of a body that this host reads.
const BODY_LIMIT: usize = 1 << 20;

fn is_push(request: &Request, called: &Called) -> bool {
    called.method.contains("PushNotificationConfig") || request.path.contains("/pushNotificationConfigs")
}

/// Which of the scenarios a host of this age would play by itself.
fn own(request: &Request, called: &Called) -> Option<&'static str> {
    let below = request.path.strip_prefix(REST_INTERFACE).filter(|below| below.starts_with('/'));
    let version = request.header("a2a-version").unwrap_or("1.0");
    let task = called.task.as_str();
    let is_theirs = percent_decode(task) == FOREIGN;
    if (request.method.as_str(), request.path.as_str()) == ("GET", "/.well-known/agent-card.json") {
        return Some("ok-agent-card");
    }
    let is_call = request.method == "POST" && request.path == INTERFACE;
    if !is_call && below.is_none() {
        return None;
    }
    if request.body.len() > BODY_LIMIT {
        return Some("openwop-413");
    }
    if !version.starts_with("1.") {
        return Some("openwop-400-version");
    }
    if request.method == "PATCH" {
        return Some("starlette-405");
    }
    if request.header("content-type").is_some_and(|media| media.starts_with("text/")) {
        return Some("openwop-415");
    }
    // Whether it is an object, and JSON at all, this host's framework looks at.
    let is_object = serde_json::from_slice::<serde_json::Map<_, serde_json::Value>>(&request.body).is_ok();
    if !request.body.is_empty() && !is_object {
        return Some("express-400");
    }
    if request.query.contains("historyLength=abc") {
        return Some("fastapi-422");
    }
    let Some(below) = below else {
        return Some(match called.method.as_str() {
            "SendMessage" => "ok-task",
            "GetExtendedAgentCard" => "openwop-404-card",
            _ if is_push(request, called) => "openwop-422-push",
            _ if is_theirs => "foreign-403-envelope",
            "CancelTask" if task == FINISHED => "openwop-409-terminal",
            "GetTask" if task == FINISHED => "ok-task",
            "SubscribeToTask" if !task.is_empty() => "stream-unknown-task",
            _ if !task.is_empty() => REFERENCE,
            "GetTask" => "openwop-400-validation",
            _ => "openwop-404",
        });
    };
    Some(match below {
        "/extendedAgentCard" => "openwop-404-card",
        _ if is_push(request, called) => "openwop-422-push",
        _ if !below.starts_with("/tasks/") => return None,
        _ if is_theirs => "rest-foreign-403",
        _ if task == FINISHED && below.ends_with(":cancel") => "rest-flat-code",
        _ if task == FINISHED => "ok-rest-task",
        _ => "rest-unknown-task",
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    fn answer_to(query: &str, body: &str) -> Answer {
        let request = Request {
            method: "POST".to_owned(),
            path: INTERFACE.to_owned(),
            query: query.to_owned(),
            headers: Vec::new(),
            close: false,
            body: body.as_bytes().to_vec(),
        };
        Catalogued::new().answer(&request, &Called::read(&request.body)).answer
    }

    #[test]
    fn a_fault_is_chosen_by_query_task_or_text() {
        let get =
            |id: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{{"id":"{id}"}}}}"#);
        assert_eq!(answer_to("fault=nginx-502", &get("t")).status, 502);
        assert_eq!(answer_to("", &get("foreign-410-html")).status, 410);
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"parts":[{"text":"openwop-429"}]}}}"#;
        assert_eq!(answer_to("", text).status, 429);
        assert_eq!(answer_to("", &get(FOREIGN)).status, 403);
        assert_eq!(answer_to("", &get("acme/5d2f6a7b8c9d0e1f2a3b4d")).status, 200, "nobody's");
        assert_eq!(answer_to("", &get("unknown-1")).status, 200);
    }

    /// Else its answer to push operations would tell a fault's id from any other.
    #[test]
    fn push_operations_are_refused_whatever_the_task() {
        let list = |id: &str| {
            let method = "ListTaskPushNotificationConfigs";
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"taskId":"{id}"}}}}"#)
        };
        for task in ["foreign-410-html", "nobody-knows", FINISHED, FOREIGN] {
            assert_eq!(answer_to("", &list(task)).status, 422, "{task}");
        }
        assert_eq!(answer_to("fault=foreign-410-html", &list("t")).status, 410);
    }

    #[test]
    fn an_id_keeps_its_spelling() {
        assert_eq!(Called::read(br#"{"id":1180591620717411303424}"#).id, "1180591620717411303424");
        assert_eq!(Called::read(br#"{"id":"\u0061"}"#).id, r#""\u0061""#);
        assert_eq!(Called::read(b"no JSON").id, "null");
    }

    #[tokio::test]
    async fn a_connection_is_kept_and_chunked_requests_are_read() {
        let host = LegacyHost::start().await.unwrap();
        let mut stream = TcpStream::connect(host.address()).await.unwrap();
        for _ in 0..2 {
            stream
                .write_all(b"POST /a2a?fault=foreign-403-empty HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
                .await
                .unwrap();
            let expected = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n";
            let mut answer = vec![0; expected.len()];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer, expected);
        }
    }
}
