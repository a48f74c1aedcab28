//! Sends a fixed number of equal requests over kept-alive connections, as fast as they are answered,
//! and says how that went.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::wire::{self, broken};
use super::word;

/// No answer is waited for longer than this.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Clone)]
struct Plan {
    address: String,
    host: String,
    path: String,
    requests: usize,
    request_bytes: usize,
}

#[derive(Default)]
struct Part {
    /// Nanoseconds each.
    latencies: Vec<u64>,
    status: u16,
    bytes: usize,
    failed: bool,
}

/// `load ADDRESS PATH REQUESTS CONNECTIONS [REQUEST_BYTES [HOST]]` prints one line of `name=value` pairs:
/// `requests`, `seconds`, `p50_us`, `p99_us`, `status` and `bytes` (those of the last answer), and
/// `failed`. A failed request ends its connection's part.
pub async fn run(words: &[String]) {
    let plan = Plan {
        address: words[0].clone(),
        host: words.get(5).unwrap_or(&words[0]).clone(),
        path: words[1].clone(),
        requests: word(words, 2).unwrap_or(1),
        request_bytes: word(words, 4).unwrap_or(0),
    };
    let connections: usize = word(words, 3).unwrap_or(1);
    let mut parts = Vec::new();
    let began = Instant::now();
    for n in 0..connections {
        let requests = plan.requests / connections + usize::from(n < plan.requests % connections);
        parts.push(tokio::spawn(part(Plan { requests, ..plan.clone() })));
    }
    let mut all = Part::default();
    let mut failed = 0;
    for part in parts {
        let part = part.await.expect("a part does not panic");
        all.latencies.extend(part.latencies);
        failed += usize::from(part.failed);
        if part.status != 0 {
            (all.status, all.bytes) = (part.status, part.bytes);
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "requests={} seconds={seconds:.6} p50_us={:.1} p99_us={:.1} status={} bytes={} failed={failed}",
        all.latencies.len(),
        wire::quantile(&mut all.latencies, 500),
        wire::quantile(&mut all.latencies, 990),
        all.status,
        all.bytes,
    );
}

async fn part(plan: Plan) -> Part {
    let mut part = Part { latencies: Vec::with_capacity(plan.requests), ..Part::default() };
    let done = tokio::time::timeout(PATIENCE, send(&mut part, &plan)).await;
    part.failed = !matches!(done, Ok(Ok(())));
    part
}

async fn send(part: &mut Part, plan: &Plan) -> std::io::Result<()> {
    let mut caller = Caller::connect(&plan.address, &plan.host, &plan.path, plan.request_bytes).await?;
    for _ in 0..plan.requests {
        let began = Instant::now();
        (part.status, part.bytes) = caller.call().await?;
        part.latencies.push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(())
}

/// A connection over which the same call is made again and again.
pub struct Caller {
    stream: TcpStream,
    head: String,
    blanks: usize,
    close: &'static str,
    /// All of a call without blanks.
    short: String,
    buffer: Vec<u8>,
}

impl Caller {
    pub async fn connect(
        address: &str,
        host: &str,
        path: &str,
        request_bytes: usize,
    ) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let method = if request_bytes == 0 { "GetTask" } else { "SendMessage" };
        let (head, blanks, close) = wire::call(host, path, method, "application/json", request_bytes);
        let short = format!("{head}{close}");
        Ok(Self { stream, head, blanks, close, short, buffer: Vec::with_capacity(256 << 10) })
    }

    /// Makes the call; the answer's status and the length of its body.
    pub async fn call(&mut self) -> std::io::Result<(u16, usize)> {
        if self.blanks == 0 {
            self.stream.write_all(self.short.as_bytes()).await?;
        } else {
            self.stream.write_all(self.head.as_bytes()).await?;
            let blank = vec![b' '; 256 << 10];
            let mut left = self.blanks;
            while left > 0 {
                let piece = left.min(blank.len());
                self.stream.write_all(&blank[..piece]).await?;
                left -= piece;
            }
            self.stream.write_all(self.close.as_bytes()).await?;
        }
        read_answer(&mut self.stream, &mut self.buffer).await
    }
}

/// Reads one answer; its status and the length of its body.
async fn read_answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<(u16, usize)> {
    buffer.clear();
    let end = wire::read_head(stream, buffer).await?.ok_or(ErrorKind::UnexpectedEof)?;
    let status = wire::status(buffer)?;
    let Some(length) = wire::content_length(&buffer[..end]) else {
        // In chunks then, as rewriting proxies send what is short.
        while !buffer.ends_with(b"\r\n0\r\n\r\n") {
            if stream.read_buf(buffer).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        return Ok((status, buffer.len() - end));
    };
    let mut left = length.checked_sub(buffer.len() - end).ok_or_else(broken)?;
    while left > 0 {
        buffer.clear();
        let read = stream.read_buf(buffer).await?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        left = left.checked_sub(read).ok_or_else(broken)?;
    }
    Ok((status, length))
}
