//! The server under the demo's hosts: HTTP/1.1 with every byte under our control.
//!
//! A web framework would repair what these hosts have to break, so requests are read and answers are
//! written by hand. One task per connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::Answer;

/// Bytes of one line of a request's head.
const LINE_BYTES: u64 = 16 * 1024;
/// Headers of a request that are kept.
const HEADERS: usize = 100;
/// Bytes of a request's body.
const BODY_BYTES: usize = 64 << 20;
/// Silence after which a connection is closed.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a host says.
pub(super) trait Repertoire: Send + Sync + 'static {
    fn answer(&self, request: &Request, called: &Called) -> Said;
}

/// One answer, and how long the host thinks about it.
pub(super) struct Said {
    pub answer: Answer,
    pub after: Duration,
}

impl From<Answer> for Said {
    fn from(answer: Answer) -> Self {
        Self { answer, after: Duration::ZERO }
    }
}

/// A running host; it stops when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    pub address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Starts on a free port of 127.0.0.1.
    pub async fn start(repertoire: Arc<impl Repertoire>) -> io::Result<Self> {
        Self::start_on(SocketAddr::from(([127, 0, 0, 1], 0)), repertoire).await
    }

    pub async fn start_on(address: SocketAddr, repertoire: Arc<impl Repertoire>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let repertoire = repertoire.clone();
                        // A client that goes away is its own business.
                        tokio::spawn(async move { serve(stream, &*repertoire).await.ok() });
                    }
                    // Out of file descriptors, say: give the others time to finish.
                    Err(_) => sleep(Duration::from_millis(50)).await,
                }
            }
        });
        Ok(Self { address, accepting })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One request, as far as the host cares.
pub(super) struct Request {
    pub method: String,
    pub path: String,
    pub query: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub close: bool,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

async fn serve(stream: TcpStream, repertoire: &impl Repertoire) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(request) = timeout(PATIENCE, read_request(&mut stream)).await?? {
        let called = Called::read(&request.body).on_path(&request.path);
        let Said { answer, after } = repertoire.answer(&request, &called);
        if !after.is_zero() {
            sleep(after).await;
        }
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
    let mut request = Request {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        headers: Vec::new(),
        close: false,
        body: Vec::new(),
    };
    let mut length = 0;
    let mut chunked = false;
    loop {
        let line = read_line(stream).await?.ok_or_else(|| bad("the head is cut off"))?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| bad("a header without a colon"))?;
        let value = value.trim();
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "content-length" => length = value.parse().map_err(|_| bad("a length that is none"))?,
            "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
            "connection" => request.close = value.eq_ignore_ascii_case("close"),
            "expect" => stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?,
            _ => {}
        }
        if request.headers.len() < HEADERS {
            request.headers.push((name, value.to_owned()));
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
pub(super) struct Called {
    /// The raw token; `null` without one.
    pub id: String,
    pub method: String,
    pub task: String,
    /// The text of the message's first part.
    pub text: String,
}

impl Called {
    pub fn read(body: &[u8]) -> Self {
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
    pub fn on_path(mut self, path: &str) -> Self {
        if let (true, Some((_, rest))) = (self.task.is_empty(), path.split_once("/tasks/")) {
            rest.split([':', '/']).next().unwrap_or_default().clone_into(&mut self.task);
        }
        self
    }
}
