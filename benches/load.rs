//! Sends a fixed number of equal requests over kept-alive connections, as fast as they are answered,
//! and says how that went.
//!
//! `load ADDRESS:PORT PATH REQUESTS CONNECTIONS [REQUEST_BYTES]` prints one line of `name=value` pairs:
//! `requests`, `seconds`, `p50_us`, `p99_us`, `status` and `bytes` (those of the last answer), and
//! `failed`. A failed request ends its connection's part.
#![forbid(unsafe_code)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a measurement may end by panicking"
)]

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// No answer is waited for longer than this.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Default)]
struct Part {
    /// Nanoseconds each.
    latencies: Vec<u64>,
    status: u16,
    bytes: usize,
    failed: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, path, rest @ ..] = words.as_slice() else {
        panic!("load ADDRESS:PORT PATH REQUESTS CONNECTIONS [REQUEST_BYTES]")
    };
    let number = |n: usize| rest.get(n).map(|word| word.parse().expect("a number"));
    let (requests, connections): (usize, usize) = (number(0).unwrap_or(1), number(1).unwrap_or(1));
    let request_bytes = number(2).unwrap_or(0);

    let mut parts = Vec::new();
    let began = Instant::now();
    for n in 0..connections {
        let share = requests / connections + usize::from(n < requests % connections);
        parts.push(tokio::spawn(part(address.clone(), path.clone(), share, request_bytes)));
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
    all.latencies.sort_unstable();
    let quantile = |permille: usize| {
        let at = (all.latencies.len() * permille / 1000).min(all.latencies.len().saturating_sub(1));
        all.latencies.get(at).map_or(0.0, |ns| *ns as f64 / 1000.0)
    };
    println!(
        "requests={} seconds={seconds:.6} p50_us={:.1} p99_us={:.1} status={} bytes={} failed={failed}",
        all.latencies.len(),
        quantile(500),
        quantile(990),
        all.status,
        all.bytes,
    );
}

async fn part(address: String, path: String, requests: usize, request_bytes: usize) -> Part {
    let mut part = Part { latencies: Vec::with_capacity(requests), ..Part::default() };
    let run = run(&mut part, &address, &path, requests, request_bytes);
    let done = tokio::time::timeout(PATIENCE, run).await;
    part.failed = !matches!(done, Ok(Ok(())));
    part
}

async fn run(
    part: &mut Part,
    address: &str,
    path: &str,
    requests: usize,
    request_bytes: usize,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let open = r#"{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"task-1","historyLength":3}"#;
    let (open, close) = if request_bytes == 0 {
        (open.to_owned(), "}".to_owned())
    } else {
        (
            open.replace("GetTask", "SendMessage").replace("\"id\":\"task-1\"", "\"message\":{}"),
            "}".to_owned(),
        )
    };
    let fill = request_bytes.saturating_sub(open.len() + close.len());
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: application/json\r\n\
         User-Agent: bench\r\nA2A-Version: 1.0\r\nAuthorization: Bearer none\r\nContent-Length: {}\r\n\r\n{open}",
        open.len() + fill + close.len()
    );
    let short = format!("{head}{close}");
    let mut buffer = vec![0; 256 << 10];
    for _ in 0..requests {
        let began = Instant::now();
        if fill == 0 {
            stream.write_all(short.as_bytes()).await?;
        } else {
            stream.write_all(head.as_bytes()).await?;
            let blank = vec![b' '; 256 << 10];
            let mut left = fill;
            while left > 0 {
                let piece = left.min(blank.len());
                stream.write_all(&blank[..piece]).await?;
                left -= piece;
            }
            stream.write_all(close.as_bytes()).await?;
        }
        (part.status, part.bytes) = read_answer(&mut stream, &mut buffer).await?;
        part.latencies.push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(())
}

/// Reads one answer with a `Content-Length`; its status and the length of its body.
async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> std::io::Result<(u16, usize)> {
    let broken = || std::io::Error::from(std::io::ErrorKind::InvalidData);
    let mut filled = 0;
    let end = loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        filled += read;
        if let Some(end) = memchr::memmem::find(&buffer[..filled], b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = std::str::from_utf8(&buffer[..end]).map_err(|_| broken())?;
    let status = head.get(9..12).and_then(|digits| digits.parse().ok()).ok_or_else(broken)?;
    let of = |line: &str| -> Option<usize> {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    };
    let length = head.lines().find_map(of).ok_or_else(broken)?;
    let mut left = length.checked_sub(filled - end).ok_or_else(broken)?;
    while left > 0 {
        let read = stream.read(buffer).await?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        left = left.checked_sub(read).ok_or_else(broken)?;
    }
    Ok((status, length))
}
