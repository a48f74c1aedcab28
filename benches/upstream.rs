//! A host that costs next to nothing: fixed answers, written in one piece, chosen by the request's
//! path. It prints `listening ADDRESS:PORT` and runs until it is ended.
//!
//! | path | answer |
//! |---|---|
//! | `/small` | a JSON-RPC success of 300 bytes |
//! | `/large` | a JSON-RPC success of 64 KiB |
//! | `/error` | a legacy error (403 with an envelope) that has to be rewritten |
//! | `/fault` | a legacy error whose data has to be read and dropped |
//! | `/huge` | a JSON-RPC success of 256 MiB |
//! | `/held/N` | an error of 1 MiB, its last bytes only when N requests wait for theirs |
#![forbid(unsafe_code)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a measurement may end by panicking"
)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

const HUGE: usize = 256 << 20;
const HELD: usize = 1 << 20;
/// How long a held error waits for the others: a request that never comes must not hang the run.
const PATIENCE: Duration = Duration::from_mins(1);

struct Answers {
    small: Bytes,
    large: Bytes,
    error: Bytes,
    fault: Bytes,
    /// What `/huge` repeats.
    filler: Bytes,
    /// The held error but for its end, and the end.
    held: (Bytes, Bytes),
    barrier: std::sync::Mutex<Option<(usize, Arc<Barrier>)>>,
}

fn answer(status: &str, body: &str) -> Bytes {
    format!("{}{body}", head(status, body.len())).into()
}

fn head(status: &str, length: usize) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json; charset=utf-8\r\n\
         X-Request-Id: 0b7c1b1e\r\nServer: legacy\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// A JSON-RPC success of exactly `length` bytes.
fn success(length: usize) -> String {
    let before = r#"{"jsonrpc":"2.0","id":7,"result":{"task":{"id":"task-1","contextId":"context-1","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"text":""#;
    let after = r#""}]}]}}}"#;
    format!("{before}{}{after}", "x".repeat(length - before.len() - after.len()))
}

impl Answers {
    fn new() -> Self {
        // Data as a traceback dump has it: what is dropped has to be read first.
        let line = r#"{"file":"/srv/agent/run.py","line":42,"args":["a","b",null,true]},"#;
        let open = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"boom","data":{"stack":["#;
        let lines = line.repeat((HELD - open.len() - 8) / line.len());
        let held = format!("{open}{lines}null");
        let fill = " ".repeat(HELD - held.len() - 4);
        Self {
            small: answer("200 OK", &success(300)),
            large: answer("200 OK", &success(64 << 10)),
            error: answer(
                "403 Forbidden",
                r#"{"error":"forbidden_tenant","message":"principal cannot operate under tenant 'acme'"}"#,
            ),
            fault: answer(
                "200 OK",
                r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"not here","data":{"reason":"UnsupportedOperationError","task_id":"tsk_81","tenant_id":"acme","owner_principal":"buyer-2"}}}"#,
            ),
            filler: "x".repeat(256 << 10).into(),
            held: (format!("{}{held}{fill}", head("200 OK", HELD)).into(), "]}}}".into()),
            barrier: std::sync::Mutex::default(),
        }
    }

    /// The barrier that the held requests of this round share.
    fn barrier(&self, number: usize) -> Arc<Barrier> {
        let mut known = self.barrier.lock().expect("no panic while locked");
        match &*known {
            Some((n, barrier)) if *n == number => barrier.clone(),
            _ => known.insert((number, Arc::new(Barrier::new(number)))).1.clone(),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening {}", listener.local_addr()?);
    let answers = Arc::new(Answers::new());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answers = answers.clone();
        tokio::spawn(async move {
            // A proxy that hangs up is its business.
            let _ = serve(stream, &answers).await;
        });
    }
}

async fn serve(mut stream: TcpStream, answers: &Answers) -> std::io::Result<()> {
    let mut buffer = Vec::with_capacity(16 << 10);
    loop {
        let Some(end) = read_head(&mut stream, &mut buffer).await? else { return Ok(()) };
        let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
        read_body(&mut stream, &mut buffer, end, length(&head)).await?;
        let path = head.split(' ').nth(1).unwrap_or_default();
        match path {
            "/small" => stream.write_all(&answers.small).await?,
            "/large" => stream.write_all(&answers.large).await?,
            "/error" => stream.write_all(&answers.error).await?,
            "/fault" => stream.write_all(&answers.fault).await?,
            "/huge" => huge(&mut stream, answers).await?,
            _ => {
                let number = path.strip_prefix("/held/").and_then(|n| n.parse().ok()).unwrap_or(1);
                stream.write_all(&answers.held.0).await?;
                let _ = tokio::time::timeout(PATIENCE, answers.barrier(number).wait()).await;
                stream.write_all(&answers.held.1).await?;
            }
        }
    }
}

async fn huge(stream: &mut TcpStream, answers: &Answers) -> std::io::Result<()> {
    let (before, after) = (r#"{"jsonrpc":"2.0","id":7,"result":{"text":""#, r#""}}"#);
    stream.write_all(head("200 OK", HUGE).as_bytes()).await?;
    stream.write_all(before.as_bytes()).await?;
    let mut left = HUGE - before.len() - after.len();
    while left > 0 {
        let piece = answers.filler.slice(..left.min(answers.filler.len()));
        stream.write_all(&piece).await?;
        left -= piece.len();
    }
    stream.write_all(after.as_bytes()).await
}

/// Reads until a head is whole; where it ends. `None` when the connection is over.
async fn read_head(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<usize>> {
    loop {
        if let Some(end) = memchr::memmem::find(buffer, b"\r\n\r\n") {
            return Ok(Some(end + 4));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

fn length(head: &str) -> usize {
    let of = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    };
    head.lines().find_map(of).unwrap_or(0)
}

/// Drops the head and the body from the buffer, reading what is missing of the body.
async fn read_body(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    head: usize,
    body: usize,
) -> std::io::Result<()> {
    let here = body.min(buffer.len() - head);
    buffer.drain(..head + here);
    let mut left = body - here;
    let mut sink = vec![0; left.min(256 << 10)];
    while left > 0 {
        let room = left.min(sink.len());
        let read = stream.read(&mut sink[..room]).await?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        left -= read;
    }
    Ok(())
}
