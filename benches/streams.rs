//! Clients of streams: one that notes how long each event was on its way, and one that only keeps streams open.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::wire::{self, broken};
use super::word;

/// No head and no event is waited for longer than this.
const PATIENCE: Duration = Duration::from_secs(30);
/// Streams that are being opened at a time: fewer than a listener's queue holds.
const OPENING: usize = 64;
/// What stands before an event's stamp.
pub const STAMP: &str = r#""sent":""#;

/// `events ADDRESS PATH STREAMS SKIPPED`: opens so many streams, reads each to its end and prints, as
/// `name=value`, `events`, `p50_us`, `p99_us`, `max_us` (from the host's stamp to the client's read) and
/// `failed`. The first SKIPPED events of every stream are not counted.
pub async fn events(words: &[String]) {
    let (address, path) = (words[0].clone(), words[1].clone());
    let number = word(words, 2).unwrap_or(1);
    let skipped = word(words, 3).unwrap_or(0);
    let streams: Vec<_> =
        (0..number).map(|_| tokio::spawn(follow(address.clone(), path.clone(), skipped))).collect();
    let (mut delays, mut failed) = (Vec::new(), 0);
    for stream in streams {
        match stream.await.expect("a stream does not panic") {
            Ok(of_one) => delays.extend(of_one),
            Err(_) => failed += 1,
        }
    }
    println!(
        "events={} p50_us={:.1} p99_us={:.1} max_us={:.1} failed={failed}",
        delays.len(),
        wire::quantile(&mut delays, 500),
        wire::quantile(&mut delays, 990),
        wire::quantile(&mut delays, 1000),
    );
}

/// `open ADDRESS PATH STREAMS`: opens so many streams, prints `open=N failed=N` when each has had its first
/// event, and keeps them open until its standard input ends.
pub async fn open(words: &[String]) {
    let (address, path) = (words[0].clone(), words[1].clone());
    let number = word(words, 2).unwrap_or(1);
    let turns = Arc::new(Semaphore::new(OPENING));
    let open_one = |turns: Arc<Semaphore>, address: String, path: String| async move {
        let _turn = turns.acquire().await;
        let (mut stream, mut read) = begin(&address, &path).await?;
        while memchr::memmem::find(&read, b"\n\n").is_none() {
            more(&mut stream, &mut read).await?;
        }
        std::io::Result::Ok(stream)
    };
    let opening: Vec<_> =
        (0..number).map(|_| tokio::spawn(open_one(turns.clone(), address.clone(), path.clone()))).collect();
    let mut streams = Vec::with_capacity(number);
    for one in opening {
        streams.extend(one.await.expect("a stream does not panic"));
    }
    println!("open={} failed={}", streams.len(), number - streams.len());
    let _ = std::io::stdin().read(&mut [0]);
}

/// Begins a stream call; the connection, and what was read after the answer's head.
async fn begin(address: &str, path: &str) -> std::io::Result<(TcpStream, Vec<u8>)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (request, _, end) = wire::call(address, path, "SendStreamingMessage", "text/event-stream", 0);
    stream.write_all((request + end).as_bytes()).await?;
    let mut read = Vec::with_capacity(1024);
    let head = tokio::time::timeout(PATIENCE, wire::read_head(&mut stream, &mut read)).await??;
    let end = head.ok_or_else(broken)?;
    let is_stream = memchr::memmem::find(&read[..end], b"text/event-stream").is_some();
    if wire::status(&read)? != 200 || !is_stream {
        return Err(broken());
    }
    read.drain(..end);
    Ok((stream, read))
}

async fn more(stream: &mut TcpStream, read: &mut Vec<u8>) -> std::io::Result<()> {
    match tokio::time::timeout(PATIENCE, stream.read_buf(read)).await?? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Reads a stream to its last chunk; nanoseconds from each event's stamp to the read that completed it.
async fn follow(address: String, path: String, skipped: usize) -> std::io::Result<Vec<u64>> {
    let (mut stream, mut read) = begin(&address, &path).await?;
    let (mut delays, mut seen) = (Vec::new(), 0);
    let mut now = wire::now();
    loop {
        while let Some(end) = memchr::memmem::find(&read, b"\n\n") {
            let at = memchr::memmem::find(&read[..end], STAMP.as_bytes()).ok_or_else(broken)? + STAMP.len();
            let digits = read[at..end].split(|byte| *byte == b'"').next().unwrap_or_default();
            let sent = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            seen += 1;
            if seen > skipped {
                // Events from the future mean that somebody has set the clock.
                delays.push(now.checked_sub(sent.ok_or_else(broken)?).ok_or_else(broken)?);
            }
            read.drain(..end + 2);
        }
        if read.ends_with(b"\r\n0\r\n\r\n") || read == b"0\r\n\r\n" {
            return Ok(delays);
        }
        more(&mut stream, &mut read).await?;
        now = wire::now();
    }
}
