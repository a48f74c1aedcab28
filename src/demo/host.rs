//! The legacy host's server: HTTP/1.1 with every byte under our control.
//!
//! A web framework would repair what this host has to break, so requests are read and answers are
//! written by hand. One task per connection; nothing but 127.0.0.1.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Answer, INTERFACE, REFERENCE, Scenario, catalogue};

/// Bytes of one line of a request's head.
const LINE_BYTES: u64 = 16 * 1024;
/// Bytes of a request's body.
const BODY_BYTES: usize = 64 << 20;
/// Silence after which a connection is closed.
const PATIENCE: Duration = Duration::from_mins(1);

/// The running host; it stops when this is dropped.
#[derive(Debug)]
pub struct LegacyHost {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl LegacyHost {
    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let repertoire = Arc::new(Repertoire::new());
        let accepting = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let repertoire = repertoire.clone();
                        // A client that goes away is its own business.
                        tokio::spawn(async move { serve(stream, &repertoire).await.ok() });
                    }
                    // Out of file descriptors, say: give the others time to finish.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        });
        Ok(Self { address, accepting })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for LegacyHost {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One request, as far as the host cares.
struct Request {
    method: String,
    path: String,
    query: String,
    close: bool,
    body: Vec<u8>,
}

async fn serve(stream: TcpStream, repertoire: &Repertoire) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(request) = timeout(PATIENCE, read_request(&mut stream)).await?? {
        let called = Called::read(&request.body).on_path(&request.path);
        let answer = repertoire.answer(&request, &called);
        let wire = answer.wire(&called.id, &called.task);
        stream.write_all(&wire).await?;
        stream.flush().await?;
        if answer.closes() || request.close {
            break;
        }
    }
    stream.shutdown().await
}

/// `None` at the connection's clean end.
async fn read_request(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
    let Some(first) = read_line(stream).await? else { return Ok(None) };
    let mut words = first.split(' ');
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().ok_or_else(|| bad("no request target"))?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request =
        Request { method, path: path.to_owned(), query: query.to_owned(), close: false, body: Vec::new() };
    let mut length = 0;
    let mut chunked = false;
    loop {
        let line = read_line(stream).await?.ok_or_else(|| bad("the head is cut off"))?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| bad("a header without a colon"))?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().map_err(|_| bad("a length that is none"))?,
            "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
            "connection" => request.close = value.eq_ignore_ascii_case("close"),
            "expect" => stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?,
            _ => {}
        }
    }
    if chunked {
        loop {
            let line = read_line(stream).await?.ok_or_else(|| bad("a chunk is cut off"))?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| bad("a chunk without a size"))?;
            if size == 0 {
                while read_line(stream).await?.is_some_and(|trailer| !trailer.is_empty()) {}
                break;
            }
            read_body(stream, &mut request.body, size).await?;
            read_line(stream).await?;
        }
    } else {
        read_body(stream, &mut request.body, length).await?;
    }
    Ok(Some(request))
}

async fn read_body(stream: &mut BufReader<TcpStream>, body: &mut Vec<u8>, size: usize) -> io::Result<()> {
    let start = body.len();
    let end = start.checked_add(size).filter(|end| *end <= BODY_BYTES).ok_or_else(|| bad("too large"))?;
    body.resize(end, 0);
    stream.read_exact(body.get_mut(start..).unwrap_or_default()).await?;
    Ok(())
}

/// A line without its end; `None` when there is none.
async fn read_line(stream: &mut BufReader<TcpStream>) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if stream.take(LINE_BYTES).read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(bad("a line without an end"));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

fn bad(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// What a JSON-RPC request says, read with little care: it is a legacy host.
struct Called {
    /// The raw token; `null` without one.
    id: String,
    method: String,
    task: String,
    /// The text of the message's first part.
    text: String,
}

impl Called {
    fn read(body: &[u8]) -> Self {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Request<'a> {
            #[serde(borrow)]
            id: Option<&'a RawValue>,
            method: String,
            params: Params,
        }
        #[derive(Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct Params {
            id: String,
            task_id: String,
            message: Message,
        }
        #[derive(Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct Message {
            task_id: String,
            parts: Vec<Part>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Part {
            text: String,
        }
        let request: Request<'_> = serde_json::from_slice(body).unwrap_or_default();
        let Params { id, task_id, message } = request.params;
        let task = [task_id, id, message.task_id].into_iter().find(|task| !task.is_empty());
        Self {
            id: request.id.map_or("null", RawValue::get).to_owned(),
            method: request.method,
            task: task.unwrap_or_default(),
            text: message.parts.into_iter().next().unwrap_or_default().text,
        }
    }
}

impl Called {
    /// The HTTP+JSON binding names the task on the path.
    fn on_path(mut self, path: &str) -> Self {
        if let (true, Some((_, rest))) = (self.task.is_empty(), path.split_once("/tasks/")) {
            rest.split([':', '/']).next().unwrap_or_default().clone_into(&mut self.task);
        }
        self
    }
}

/// Everything the host can say, by name.
struct Repertoire {
    scenarios: HashMap<&'static str, Scenario>,
    index: String,
}

impl Repertoire {
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

    /// What a query, a task's id or a message's text names; else what a host like this says by itself.
    fn answer(&self, request: &Request, called: &Called) -> Answer {
        let fault = request.query.split('&').find_map(|pair| pair.strip_prefix("fault="));
        let named = fault
            .into_iter()
            .chain([called.task.as_str(), called.text.as_str()])
            .find_map(|name| self.scenarios.get(name));
        if let Some(scenario) = named {
            return scenario.answer.clone();
        }
        let by_name = |name: &str| self.scenarios.get(name).map(|scenario| scenario.answer.clone());
        let own = match (request.method.as_str(), request.path.as_str()) {
            ("POST", INTERFACE) => match called.method.as_str() {
                "SendMessage" => by_name("ok-task"),
                _ if called.task.starts_with("acme/") => by_name("foreign-403-envelope"),
                _ if !called.task.is_empty() => by_name(REFERENCE),
                _ => by_name("openwop-404"),
            },
            ("GET", "/.well-known/agent-card.json") => by_name("ok-agent-card"),
            ("POST", "/rest/message:send") => Some(Answer::json(200, r#"{"task":{"id":"t-9"}}"#)),
            (_, path) if path.starts_with("/rest/tasks/") => by_name("rest-unknown-task"),
            ("GET", "/") => Some(Answer::new(200, "text/plain; charset=utf-8", self.index.as_str())),
            _ => None,
        };
        own.unwrap_or_else(|| Answer::json(404, r#"{"detail":"Not Found"}"#))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_to(query: &str, body: &str) -> Answer {
        let request = Request {
            method: "POST".to_owned(),
            path: INTERFACE.to_owned(),
            query: query.to_owned(),
            close: false,
            body: body.as_bytes().to_vec(),
        };
        Repertoire::new().answer(&request, &Called::read(&request.body))
    }

    #[test]
    fn a_fault_is_chosen_by_query_task_or_text() {
        let get =
            |id: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{{"id":"{id}"}}}}"#);
        assert_eq!(answer_to("fault=nginx-502", &get("t")).status, 502);
        assert_eq!(answer_to("", &get("foreign-410-html")).status, 410);
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"parts":[{"text":"openwop-429"}]}}}"#;
        assert_eq!(answer_to("", text).status, 429);
        assert_eq!(answer_to("", &get("acme/1")).status, 403);
        assert_eq!(answer_to("", &get("unknown-1")).status, 200);
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
