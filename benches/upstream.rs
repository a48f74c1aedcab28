//! A host that costs next to nothing: fixed answers, written in one piece, chosen by the request's path.
//!
//! | path begins with | answer |
//! |---|---|
//! | `/small` | a JSON-RPC success of 300 bytes |
//! | `/large` | a JSON-RPC success of 64 KiB |
//! | `/error` | a legacy error (403 with an envelope) that has to be rewritten |
//! | `/fault` | a legacy error whose data has to be read and dropped |
//! | `/result/N` | a JSON-RPC success of N bytes |
//! | `/held/N` | an error of 1 MiB, its last bytes only when N requests wait for theirs |
//! | `/open` | a stream with one event that does not end |
//! | `/ticks/N` | a stream with an event every N seconds that does not end |
//! | `/events/N/RATE/COUNT` | once N requests wait: COUNT events on each stream, RATE a second, each with the time at which it was written; those of all streams are evenly spaced |

use std::io::Write;
use std::net::TcpStream as BlockingStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

use super::streams::STAMP;
use super::wire;

const HELD: usize = 1 << 20;
/// How long a held error or a stream waits for the others: a request that never comes must not hang the run.
const PATIENCE: Duration = Duration::from_mins(1);

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\
                      Server: legacy\r\nTransfer-Encoding: chunked\r\n\r\n";

struct Answers {
    small: Bytes,
    large: Bytes,
    error: Bytes,
    fault: Bytes,
    /// What `/result` repeats.
    filler: Bytes,
    /// The held error but for its end, and the end.
    held: (Bytes, Bytes),
    barrier: Mutex<Option<(usize, Arc<Barrier>)>>,
    /// Streams that wait for the others of theirs.
    gathering: Mutex<Vec<BlockingStream>>,
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

const BEFORE: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"task":{"id":"task-1","contextId":"context-1","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"text":""#;
const AFTER: &str = r#""}]}]}}}"#;

/// A JSON-RPC success of exactly `length` bytes.
fn success(length: usize) -> String {
    format!("{BEFORE}{}{AFTER}", "x".repeat(length - BEFORE.len() - AFTER.len()))
}

/// A chunk with one success event.
fn event() -> String {
    let event = format!(
        "data: {{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{{\"statusUpdate\":{{\"taskId\":\"task-1\",\"contextId\":\"context-1\",\
         \"status\":{{\"state\":\"TASK_STATE_WORKING\"}},\"metadata\":{{{STAMP}{}\"}}}}}}}}\n\n",
        wire::now()
    );
    format!("{:x}\r\n{event}\r\n", event.len())
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
            barrier: Mutex::default(),
            gathering: Mutex::default(),
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

    /// One more stream; all of them once it is the last that was waited for.
    fn gather(&self, stream: BlockingStream, number: usize) -> Option<Vec<BlockingStream>> {
        let mut gathering = self.gathering.lock().expect("no panic while locked");
        gathering.push(stream);
        (gathering.len() >= number).then(|| std::mem::take(&mut *gathering))
    }
}

/// Prints `listening ADDRESS:PORT` and runs until it is ended.
pub async fn run() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    println!("listening {}", listener.local_addr().expect("an address"));
    let answers = Arc::new(Answers::new());
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("a TCP connection");
        let answers = answers.clone();
        tokio::spawn(async move {
            // A proxy that hangs up is its business.
            let _ = serve(stream, &answers).await;
        });
    }
}

async fn serve(mut stream: TcpStream, answers: &Answers) -> std::io::Result<()> {
    let mut buffer = Vec::with_capacity(2 << 10);
    loop {
        let Some(end) = wire::read_head(&mut stream, &mut buffer).await? else { return Ok(()) };
        let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
        let length = wire::content_length(&buffer[..end]).unwrap_or(0);
        read_body(&mut stream, &mut buffer, end, length).await?;
        let path = head.split(' ').nth(1).unwrap_or_default();
        let mut segments = path.split('/').skip(1);
        let name = segments.next().unwrap_or_default();
        let mut number = || segments.next().and_then(|segment| segment.parse().ok()).unwrap_or(1);
        match name {
            "small" => stream.write_all(&answers.small).await?,
            "large" => stream.write_all(&answers.large).await?,
            "error" => stream.write_all(&answers.error).await?,
            "fault" => stream.write_all(&answers.fault).await?,
            "result" => result(&mut stream, answers, number()).await?,
            "held" => {
                stream.write_all(&answers.held.0).await?;
                let _ = tokio::time::timeout(PATIENCE, answers.barrier(number()).wait()).await;
                stream.write_all(&answers.held.1).await?;
            }
            "open" => {
                stream.write_all(format!("{STREAM}{}", event()).as_bytes()).await?;
                while stream.read(&mut [0; 64]).await? > 0 {}
                return Ok(());
            }
            "ticks" => {
                let every = Duration::from_secs(number() as u64);
                stream.write_all(STREAM.as_bytes()).await?;
                loop {
                    stream.write_all(event().as_bytes()).await?;
                    let gone = tokio::time::timeout(every, stream.read(&mut [0; 64])).await;
                    if gone.is_ok_and(|read| read.is_ok_and(|read| read == 0)) {
                        return Ok(());
                    }
                }
            }
            "events" => {
                stream.write_all(STREAM.as_bytes()).await?;
                let stream = stream.into_std()?;
                stream.set_nonblocking(false)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                if let Some(streams) = answers.gather(stream, number()) {
                    let (rate, count) = (number(), number());
                    std::thread::spawn(move || pace(streams, rate, count));
                }
                return Ok(());
            }
            _ => panic!("no answer for {path}"),
        }
    }
}

/// Writes the events of streams that began together. A thread of its own: the runtime's timer knows only
/// milliseconds, and would let events leave in bunches.
fn pace(mut streams: Vec<BlockingStream>, rate: usize, count: usize) {
    let number = streams.len();
    let gap = Duration::from_secs(1).div_f64((rate * number) as f64);
    let began = Instant::now();
    for turn in 0..count * number {
        let due = gap.mul_f64(turn as f64);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        if streams[turn % number].write_all(event().as_bytes()).is_err() {
            return; // the client will miss it
        }
    }
    for stream in &mut streams {
        let _ = stream.write_all(b"0\r\n\r\n");
    }
}

async fn result(stream: &mut TcpStream, answers: &Answers, length: usize) -> std::io::Result<()> {
    let mut left = length - BEFORE.len() - AFTER.len();
    stream.write_all(format!("{}{BEFORE}", head("200 OK", length)).as_bytes()).await?;
    while left > 0 {
        let piece = answers.filler.slice(..left.min(answers.filler.len()));
        stream.write_all(&piece).await?;
        left -= piece.len();
    }
    stream.write_all(AFTER.as_bytes()).await
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
