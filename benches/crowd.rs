//! Clients of a crowd: streams over HTTP/2 that stay open while calls go on at a steady rate beside them.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::load::Caller;
use super::wire::{self, broken};
use super::word;

/// No head, no event and no answer is waited for longer than this.
const PATIENCE: Duration = Duration::from_mins(1);

/// What all streams of a crowd came to.
#[derive(Default)]
struct Crowd {
    events: AtomicUsize,
    cut: AtomicUsize,
    over: AtomicBool,
}

/// `crowd ADDRESS PATH STREAMS CONNECTIONS`: opens so many streams over so many connections of HTTP/2 (prior knowledge),
/// prints `open=N failed=N` when each has had its first event, reads on until its standard input ends, and then prints
/// `events=N cut=N`: what came, and how many streams had ended before.
pub async fn crowd(words: &[String]) {
    let (address, path) = (words[0].clone(), words[1].clone());
    let streams: usize = word(words, 2).unwrap_or(1);
    let connections: usize = word(words, 3).unwrap_or(1);
    let crowd = Arc::new(Crowd::default());
    let (tell, mut told) = mpsc::unbounded_channel();
    for n in 0..connections {
        let share = streams / connections + usize::from(n < streams % connections);
        let (address, path, crowd, tell) = (address.clone(), path.clone(), crowd.clone(), tell.clone());
        tokio::spawn(async move {
            let opened = join(&address, &path, share, &crowd, &tell).await.unwrap_or(0);
            for _ in opened..share {
                let _ = tell.send(false);
            }
        });
    }
    let mut open = 0;
    for _ in 0..streams {
        open += usize::from(told.recv().await.unwrap_or(false));
    }
    println!("open={open} failed={}", streams - open);
    let _ = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0])).await;
    crowd.over.store(true, Ordering::Relaxed);
    println!("events={} cut={}", crowd.events.load(Ordering::Relaxed), crowd.cut.load(Ordering::Relaxed));
}

/// Opens streams on a connection of their own; how many were begun.
async fn join(
    address: &str,
    path: &str,
    streams: usize,
    crowd: &Arc<Crowd>,
    tell: &mpsc::UnboundedSender<bool>,
) -> std::io::Result<usize> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let (mut send, connection) = h2::client::handshake(socket).await.map_err(std::io::Error::other)?;
    tokio::spawn(connection);
    for n in 0..streams {
        let Ok(answer) = begin(&mut send, address, path).await else { return Ok(n) };
        let (crowd, tell) = (crowd.clone(), tell.clone());
        tokio::spawn(async move {
            if read(answer, &crowd, &tell).await.is_none() && !crowd.over.load(Ordering::Relaxed) {
                crowd.cut.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    Ok(streams)
}

async fn begin(
    send: &mut SendRequest<Bytes>,
    address: &str,
    path: &str,
) -> Result<h2::client::ResponseFuture, h2::Error> {
    let request = http::Request::post(format!("http://{address}{path}"))
        .header("content-type", "application/json")
        .header("accept", "text/event-stream")
        .header("a2a-version", "1.0")
        .body(())
        .expect("a request");
    *send = send.clone().ready().await?;
    let (answer, mut body) = send.send_request(request, false)?;
    let call = r#"{"jsonrpc":"2.0","id":7,"method":"SendStreamingMessage","params":{"message":{}}}"#;
    body.send_data(Bytes::from_static(call.as_bytes()), true)?;
    Ok(answer)
}

/// Counts the events of a stream; it never ends well.
async fn read(
    answer: h2::client::ResponseFuture,
    crowd: &Crowd,
    tell: &mpsc::UnboundedSender<bool>,
) -> Option<()> {
    let first = async {
        let answer = answer.await.ok().filter(|answer| answer.status() == 200)?;
        let mut body = answer.into_body();
        piece(&mut body).await?;
        Some(body)
    };
    let first = tokio::time::timeout(PATIENCE, first).await.ok().flatten();
    let _ = tell.send(first.is_some());
    let mut body = first?;
    crowd.events.fetch_add(1, Ordering::Relaxed);
    loop {
        let piece = tokio::time::timeout(PATIENCE, piece(&mut body)).await.ok()??;
        let events = memchr::memmem::find_iter(&piece, b"\n\n").count();
        crowd.events.fetch_add(events, Ordering::Relaxed);
    }
}

async fn piece(body: &mut RecvStream) -> Option<Bytes> {
    let piece = body.data().await?.ok()?;
    let _ = body.flow_control().release_capacity(piece.len());
    Some(piece)
}

/// `steady ADDRESS PATH RATE SECONDS CONNECTIONS`: calls at this rate a second over so many connections, each due at its
/// moment whatever became of the others; prints `requests`, `p50_us`, `p99_us`, `max_us` (from when it was due) and
/// `failed`.
pub async fn steady(words: &[String]) {
    let (address, path) = (words[0].clone(), words[1].clone());
    let rate: u32 = word(words, 2).unwrap_or(1);
    let seconds: u32 = word(words, 3).unwrap_or(1);
    let connections: u32 = word(words, 4).unwrap_or(1);
    let gap = Duration::from_secs(1) / rate;
    let began = Instant::now();
    let parts: Vec<_> = (0..connections)
        .map(|n| {
            let (address, path) = (address.clone(), path.clone());
            tokio::spawn(async move {
                let (mut latencies, mut failed) = (Vec::new(), 0);
                let mut caller = None;
                for turn in (n..rate * seconds).step_by(connections as usize) {
                    let due = began + gap * turn;
                    tokio::time::sleep_until(due.into()).await;
                    if call(&mut caller, &address, &path).await.is_ok() {
                        latencies.push(u64::try_from(due.elapsed().as_nanos()).unwrap_or(u64::MAX));
                    } else {
                        failed += 1;
                        caller = None;
                    }
                }
                (latencies, failed)
            })
        })
        .collect();
    let (mut latencies, mut failed) = (Vec::new(), 0);
    for part in parts {
        let (of_one, failures) = part.await.expect("a part does not panic");
        latencies.extend(of_one);
        failed += failures;
    }
    println!(
        "requests={} p50_us={:.1} p99_us={:.1} max_us={:.1} failed={failed}",
        latencies.len(),
        wire::quantile(&mut latencies, 500),
        wire::quantile(&mut latencies, 990),
        wire::quantile(&mut latencies, 1000),
    );
}

async fn call(caller: &mut Option<Caller>, address: &str, path: &str) -> std::io::Result<()> {
    let asked = async {
        if caller.is_none() {
            *caller = Some(Caller::connect(address, address, path, 0).await?);
        }
        let Some(caller) = caller else { return Err(broken()) };
        match caller.call().await? {
            (200, _) => Ok(()),
            _ => Err(broken()),
        }
    };
    tokio::time::timeout(PATIENCE, asked).await?
}
