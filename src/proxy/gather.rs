//! Sends the pieces of an answer that are there at the same time in one.
//!
//! Pingora writes an HTTP/1 head through a small buffer, which a larger piece of the body overflows into a send of its
//! own; given several pieces at once, it copies them together first. [`Gathering`] is a client's connection that keeps
//! what it is given while its [`Gather`] says that more of the body follows in the same breath, and then sends all
//! of it in one, copying no large piece. Whoever writes says so ([`send`]); otherwise the connection sees to nothing but
//! a client's slowness: a request that does not come, a head that does not come to its end, in time or in length
//! ([`Head`]), and a client that takes nothing.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pingora::protocols::Stream;
use pingora::protocols::http::{HttpTask, ServerSession};
use pingora_error::Result;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::admission::Admission;
use super::layer::{Kept, pass_on};
use super::patience::Patience;
use super::settings::Bounds;
use crate::observe::Limit;

/// What is kept at most. A piece that would take it further is sent with what is kept.
const ROOM: usize = 16 << 10;

/// What those who read and write requests tell their connection.
#[derive(Debug, Default)]
pub struct Gather {
    /// More of the body follows what is written now.
    more: AtomicBool,
    head: Head,
    /// So many bytes were read since the head began.
    read: AtomicU64,
    /// How many milliseconds the answer may wait for its client; 0: not known yet.
    write: AtomicU64,
}

impl Gather {
    fn set(&self, more: bool) {
        self.more.store(more, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.more.load(Ordering::Relaxed)
    }

    pub fn head(&self) -> &Head {
        &self.head
    }

    /// What is read from here on is a head of at most so many bytes; of it `ahead` are there already.
    pub fn begins(&self, most: u32, ahead: u32) {
        self.read.store(ahead.into(), Ordering::Relaxed);
        self.head.begins(most.saturating_sub(ahead));
    }

    /// The bytes of the request, and of what came with it.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// By the one task that the connection has.
    fn has_read(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.read.store(self.read().saturating_add(bytes), Ordering::Relaxed);
    }

    /// What is written from here on may wait so long.
    pub fn write_within(&self, limit: Duration) {
        self.write.store(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn patience(&self) -> Option<Duration> {
        let millis = self.write.load(Ordering::Relaxed);
        (millis > 0).then(|| Duration::from_millis(millis))
    }
}

/// A request's head that is being read.
#[derive(Debug)]
pub struct Head {
    /// How many bytes it may still have.
    left: AtomicU32,
    /// Nobody waited for it yet.
    is_new: AtomicBool,
}

/// No head is being read.
const NO_HEAD: u32 = u32::MAX;
/// It was not there in time. (No bytes left: it was too long.)
const TOO_SLOW: u32 = u32::MAX - 1;

impl Default for Head {
    fn default() -> Self {
        Self { left: NO_HEAD.into(), is_new: AtomicBool::default() }
    }
}

impl Head {
    fn begins(&self, bytes: u32) {
        self.is_new.store(true, Ordering::Relaxed);
        self.has_left(bytes);
    }

    fn has_left(&self, bytes: u32) {
        self.left.store(bytes, Ordering::Relaxed);
    }

    /// The head is there, or will not be. `Some` if that is because of a limit.
    pub fn ends(&self, was_read: bool) -> Option<Limit> {
        let left = self.left.swap(NO_HEAD, Ordering::Relaxed);
        match left {
            _ if was_read => None,
            0 => Some(Limit::RequestHeaderBytes),
            TOO_SLOW => Some(Limit::RequestHeaders),
            _ => None,
        }
    }
}

/// Ends gathering however writing ends.
struct Ended<'a>(&'a Gather);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// On HTTP/2 a client has to take so much in its time: Pingora's timer is for a piece as a whole.
const PIECE: usize = 8 << 10;

/// The same in pieces that a slow client can take in time.
fn in_pieces(tasks: Vec<HttpTask>) -> Vec<HttpTask> {
    let is_long = |task: &HttpTask| matches!(task, HttpTask::Body(Some(bytes), _) if bytes.len() > PIECE);
    if !tasks.iter().any(is_long) {
        return tasks;
    }
    let mut pieces = Vec::new();
    for task in tasks {
        let HttpTask::Body(Some(mut bytes), end) = task else {
            pieces.push(task);
            continue;
        };
        while bytes.len() > PIECE {
            pieces.push(HttpTask::Body(Some(bytes.split_to(PIECE)), false));
        }
        pieces.push(HttpTask::Body(Some(bytes), end));
    }
    pieces
}

/// Writes these tasks, whose pieces of the body leave together. Without a [`Gather`] (HTTP/2) it is left to Pingora; so
/// are several small pieces, which it makes one chunk of.
///
/// # Errors
/// When the client cannot be written to.
pub async fn send(client: &mut ServerSession, tasks: Vec<HttpTask>, gather: Option<&Gather>) -> Result<bool> {
    let size = |task: &HttpTask| match task {
        HttpTask::Body(Some(bytes), _) => bytes.len(),
        _ => 0,
    };
    let pieces = tasks.iter().filter(|task| size(task) > 0).count();
    let are_small = pieces > 1 && tasks.iter().map(size).sum::<usize>() <= ROOM;
    let Some(gather) = gather else { return client.response_duplex_vec(in_pieces(tasks)).await };
    let Some(gather) = Some(gather).filter(|_| tasks.len() > 1 && !are_small) else {
        return client.response_duplex_vec(tasks).await;
    };
    // Only what is followed by a piece is kept, so that nothing is ever left behind.
    let last = tasks.iter().rposition(|task| size(task) > 0).unwrap_or_default();
    let ended = Ended(gather);
    let mut done = false;
    for (at, task) in tasks.into_iter().enumerate() {
        gather.set(at < last);
        done = client.response_duplex_vec(vec![task]).await?;
    }
    drop(ended);
    Ok(done)
}

/// A client's HTTP/1 connection.
pub struct Gathering {
    stream: Stream,
    gather: Arc<Gather>,
    kept: Kept,
    /// A head may have so many bytes.
    head_bytes: u32,
    /// Its first byte may take so long: Pingora forgets what it was told of that with every head that it reads.
    idle: Patience,
    /// And take so long, from its first byte.
    head: Patience,
    /// What is written may wait so long.
    write: Patience,
    admission: Arc<Admission>,
}

impl Gathering {
    pub fn new(
        stream: Stream,
        gather: Arc<Gather>,
        bounds: &Bounds,
        write: Duration,
        admission: Arc<Admission>,
    ) -> Self {
        Self {
            stream,
            gather,
            kept: Kept::default(),
            head_bytes: bounds.request_header_bytes,
            idle: Patience::new(bounds.keep_alive),
            head: Patience::new(bounds.request_headers),
            write: Patience::new(write),
            admission,
        }
    }

    /// Reads no more than the head may have, for no longer than it may take.
    fn poll_head(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>, left: u32) -> Poll<io::Result<()>> {
        if self.gather.head.is_new.swap(false, Ordering::Relaxed) {
            self.head.end();
            self.idle.end();
        }
        if left == 0 {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        let room = usize::try_from(left).unwrap_or(usize::MAX);
        let before = buf.filled().len();
        let polled = if buf.remaining() <= room {
            Pin::new(&mut self.stream).poll_read(cx, buf)
        } else {
            let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
            let polled = Pin::new(&mut self.stream).poll_read(cx, &mut part);
            let read = part.filled().len();
            buf.advance(read);
            polled
        };
        if polled.is_ready() {
            self.idle.end();
            let read = u32::try_from(buf.filled().len() - before).unwrap_or(u32::MAX);
            self.gather.head.has_left(left.saturating_sub(read));
            return polled;
        }
        if left == self.head_bytes {
            // Nothing of this one came yet: until it does, the connection is idle.
            return self.idle.poll_over(cx).map(Err);
        }
        let error = ready!(self.head.poll_over(cx));
        self.gather.head.has_left(TOO_SLOW);
        Poll::Ready(Err(error))
    }

    /// Ends a write that waits for too long.
    fn watch_write<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let admission = &self.admission;
        if let Some(limit) = self.gather.patience() {
            self.write.limit(limit);
        }
        self.write.watch(cx, polled, &self.stream, || admission.reached(Limit::Write))
    }

    /// Writes what is kept, and these bytes behind it.
    fn poll_through(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let Self { stream, kept, .. } = self;
        if !kept.is_empty() {
            let taken = ready!(kept.poll_join(stream, cx, buf))?;
            if taken > 0 {
                return Poll::Ready(Ok(taken));
            }
        }
        Pin::new(stream).poll_write(cx, buf)
    }

    /// Writes what is kept, and flushes.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, kept, .. } = self;
        ready!(kept.poll_join(stream, cx, &[]))?;
        Pin::new(stream).poll_flush(cx)
    }

    fn below(&self) -> &Stream {
        &self.stream
    }

    fn below_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }
}

impl AsyncRead for Gathering {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = match self.gather.head.left.load(Ordering::Relaxed) {
            NO_HEAD | TOO_SLOW => Pin::new(&mut self.stream).poll_read(cx, buf),
            left => self.poll_head(cx, buf, left),
        };
        self.gather.has_read(buf.filled().len() - before);
        polled
    }
}

impl AsyncWrite for Gathering {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.gather.get() && self.kept.len() + buf.len() <= ROOM {
            self.kept.add(buf);
            return Poll::Ready(Ok(buf.len()));
        }
        let polled = self.poll_through(cx, buf);
        self.watch_write(cx, polled)
    }

    /// Sends everything, unless more follows.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.gather.get() {
            return Poll::Ready(Ok(()));
        }
        let polled = self.poll_out(cx);
        self.watch_write(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch_write(cx, polled)
    }
}

impl fmt::Debug for Gathering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathering").field("stream", &self.stream).finish_non_exhaustive()
    }
}

pass_on!(Gathering);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::idle::tests::connection;
    use super::*;
    use crate::observe::Metrics;

    #[tokio::test]
    async fn what_is_gathered_leaves_with_what_follows() {
        let (stream, mut far) = connection().await;
        let gather = Arc::new(Gather::default());
        let (bounds, admission) = (Bounds::default(), Admission::new(Bounds::default(), &Metrics::new()));
        let mut near = Gathering::new(stream, gather.clone(), &bounds, bounds.keep_alive, admission);
        let mut bytes = vec![0; 2 * ROOM];

        gather.set(true);
        near.write_all(b"head ").await.unwrap();
        near.flush().await.unwrap();
        let waits = tokio::time::timeout(Duration::from_millis(50), far.read(&mut bytes)).await;
        assert!(waits.is_err(), "more follows");
        gather.set(false);
        near.write_all(b"body").await.unwrap();
        near.flush().await.unwrap();
        let read = far.read(&mut bytes).await.unwrap();
        assert_eq!(&bytes[..read], b"head body");

        // More than is kept goes at once, and with what is kept.
        gather.set(true);
        near.write_all(b"head ").await.unwrap();
        near.write_all(&vec![b'x'; ROOM]).await.unwrap();
        far.read_exact(&mut bytes[..5 + ROOM]).await.unwrap();
        assert_eq!(&bytes[..6], b"head x");

        // And so does all that is kept when nothing follows after all.
        near.write_all(b"head").await.unwrap();
        gather.set(false);
        near.flush().await.unwrap();
        let read = far.read(&mut bytes).await.unwrap();
        assert_eq!(&bytes[..read], b"head");
    }
}
