//! Sends the pieces of an answer that are there at the same time in one.
//!
//! Pingora writes an HTTP/1 head through a small buffer, which a larger piece of the body overflows into a send of its
//! own; given several pieces at once, it copies them together first. [`Gathering`] is a client's connection that keeps
//! what it is given while its [`Gather`] says that more of the body follows in the same breath, and then sends all
//! of it in one, copying no large piece. Whoever writes says so ([`send`]); otherwise the connection does nothing
//! of its own.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use pingora::protocols::Stream;
use pingora::protocols::http::{HttpTask, ServerSession};
use pingora_error::Result;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::layer::{Kept, pass_on};

/// What is kept at most. A piece that would take it further is sent with what is kept.
const ROOM: usize = 16 << 10;

/// Says whether more of the body follows what is written now.
#[derive(Debug, Default)]
pub struct Gather(AtomicBool);

impl Gather {
    fn set(&self, more: bool) {
        self.0.store(more, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ends gathering however writing ends.
struct Ended<'a>(&'a Gather);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Writes these tasks, whose pieces of the body leave together. Without a [`Gather`] it is left to Pingora; so are several
/// small pieces, which it makes one chunk of.
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
    let Some(gather) = gather.filter(|_| tasks.len() > 1 && !are_small) else {
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
#[derive(Debug)]
pub struct Gathering {
    stream: Stream,
    gather: Arc<Gather>,
    kept: Kept,
}

impl Gathering {
    pub fn new(stream: Stream, gather: Arc<Gather>) -> Self {
        Self { stream, gather, kept: Kept::default() }
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
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Gathering {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.gather.get() && self.kept.len() + buf.len() <= ROOM {
            self.kept.add(buf);
            return Poll::Ready(Ok(buf.len()));
        }
        let Self { stream, kept, .. } = &mut *self;
        if !kept.is_empty() {
            let taken = ready!(kept.poll_join(stream, cx, buf))?;
            if taken > 0 {
                return Poll::Ready(Ok(taken));
            }
        }
        Pin::new(stream).poll_write(cx, buf)
    }

    /// Sends everything, unless more follows.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.gather.get() {
            return Poll::Ready(Ok(()));
        }
        let Self { stream, kept, .. } = &mut *self;
        ready!(kept.poll_join(stream, cx, &[]))?;
        Pin::new(stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

pass_on!(Gathering);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::idle::tests::connection;
    use super::*;

    #[tokio::test]
    async fn what_is_gathered_leaves_with_what_follows() {
        let (stream, mut far) = connection().await;
        let gather = Arc::new(Gather::default());
        let mut near = Gathering::new(stream, gather.clone());
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
