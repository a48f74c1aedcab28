//! Sends the head of a request together with the first of its body.
//!
//! Pingora writes and flushes an upstream head before it looks at the body, so that a small POST costs two
//! sends, and its host two wake-ups. [`Joined`] is an upstream connection that keeps such a head back until the
//! body's first bytes are written, if they are on their way already, and sends both in one. It keeps back
//! nothing else and waits for nobody: the first read that finds no body under way sends the head.
//!
//! Pingora's hooks know what a connection cannot: that the next write is a head ([`expect_head`]), and that a piece
//! of the body is in the pipe ([`expect_body`]). They say so in a thread-local note that names the connection. All
//! between the hook and the write it announces is one poll of one task, so a note cannot reach another's
//! connection; one that is overtaken only costs the second send.
//!
//! [`Connector`] is how such a connection gets below Pingora's HTTP/1 session. Afterwards Pingora decides whether it
//! is good for another request, as ever; where it then waits is [`super::idle`]. Pingora's last question before it
//! would keep a connection itself is a read of one byte that wakes nobody. A connection that is good answers it
//! with "closed", is dropped therefore, and comes back from its `Drop`. Were the question not recognized, Pingora
//! would keep the connection, at more cost.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use pingora::connectors::http::custom::{Connection, Connector as Connect};
use pingora::connectors::{ConnectorOptions, TransportConnector};
use pingora::protocols::tls::CustomALPN;
use pingora::protocols::{ALPN, Stream, UniqueID};
use pingora::upstreams::peer::Peer;
use pingora_error::{Error, Result};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::idle::{Idle, IsWanted, is_quiet};
use super::layer::{Kept, pass_on};

/// A longer head is sent at once; it would not share a packet with much of the body.
const HEAD: usize = 4096;

/// What the hooks know of the next thing that happens to a connection.
#[derive(Clone, Copy)]
struct Note {
    connection: RawFd,
    /// A head with a body behind it is about to be written.
    head: bool,
    /// A piece of the body is in the pipe to it.
    body: bool,
}

impl Note {
    const NONE: Self = Self { connection: -1, head: false, body: false };
}

thread_local! {
    static NOTE: Cell<Note> = const { Cell::new(Note::NONE) };
}

/// The next write to `connection` is the head of a request that has a body.
pub fn expect_head(connection: RawFd) {
    NOTE.set(Note { connection, head: true, body: false });
}

/// A piece of the body is on its way to `connection`.
pub fn expect_body(connection: RawFd) {
    let note = NOTE.get();
    if note.connection == connection {
        NOTE.set(Note { body: true, ..note });
    }
}

/// The protocol name by which a peer asks for a [`Joined`] connection. Nothing of it is sent: over TLS HTTP/1.1 is
/// what the host is offered.
pub fn marker() -> ALPN {
    ALPN::Custom(CustomALPN::new(b"http/1.1 joined".to_vec()))
}

/// Whether a request failed before any of it was written, so that its host cannot have seen it (P-2).
pub fn is_unsent(error: &Error) -> bool {
    let cause = error.cause.as_ref().and_then(|cause| cause.downcast_ref::<io::Error>());
    matches!(cause.and_then(io::Error::get_ref), Some(inner) if inner.is::<Unsent>())
}

/// A failed write that took nothing of the request.
#[derive(Debug)]
struct Unsent(io::Error);

impl std::fmt::Display for Unsent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "nothing of the request was sent: {}", self.0)
    }
}

impl std::error::Error for Unsent {}

thread_local! {
    static REUSED: Cell<RawFd> = const { Cell::new(-1) };
}

/// Whether `connection`, which was just taken for an attempt, was used before. Pingora believes that all of ours
/// are new. To be asked once.
pub fn was_used_before(connection: RawFd) -> bool {
    REUSED.replace(-1) == connection
}

thread_local! {
    static SPENT: RefCell<Vec<RawFd>> = const { RefCell::new(Vec::new()) };
}

/// The host closes `connection` after this answer, so that it is not kept.
pub fn spend(connection: RawFd) {
    SPENT.with_borrow_mut(|spent| {
        // One of Pingora's own, agreed on in place of HTTP/2, never asks: it must not add up here.
        if !spent.contains(&connection) {
            spent.push(connection);
        }
    });
}

/// Whether `connection`, which is given up, was spent.
fn was_spent(connection: RawFd) -> bool {
    SPENT.with_borrow_mut(|spent| {
        let before = spent.len();
        spent.retain(|one| *one != connection);
        spent.len() < before
    })
}

/// Makes [`Joined`] connections for peers that ask for them by [`marker`].
pub struct Connector {
    transport: TransportConnector,
    idle: Arc<Idle>,
}

impl Connector {
    /// Connections wait while their peer is wanted.
    pub fn new(options: ConnectorOptions, is_wanted: IsWanted) -> Self {
        let idle = Idle::new(options.keepalive_pool_size, is_wanted);
        Self { transport: TransportConnector::new(Some(options)), idle }
    }
}

/// The unit type is a session that is never made: a connection of ours goes below an HTTP/1 session of Pingora's,
/// which also keeps it for the next request.
#[async_trait]
impl Connect for Connector {
    type Session = ();

    async fn get_http_session<P: Peer + Send + Sync + 'static>(
        &self,
        peer: &P,
    ) -> Result<(Connection<()>, bool)> {
        let key = peer.reuse_hash();
        let stream = if let Some(stream) = self.idle.take(key) {
            REUSED.set(stream.id());
            stream
        } else if peer.tls() {
            let mut offers = peer.clone();
            if let Some(options) = offers.get_mut_peer_options() {
                options.alpn = ALPN::H1;
            }
            self.transport.new_stream(&offers).await?
        } else {
            self.transport.new_stream(peer).await?
        };
        let home = Home { idle: self.idle.clone(), key, patience: peer.idle_timeout() };
        Ok((Connection::Stream(Box::new(Joined::new(stream, home))), false))
    }

    async fn reused_http_session<P: Peer + Send + Sync + 'static>(&self, _peer: &P) -> Option<()> {
        None
    }

    async fn release_http_session<P: Peer + Send + Sync + 'static>(
        &self,
        (): (),
        _peer: &P,
        _idle_timeout: Option<Duration>,
    ) {
    }
}

/// Where a connection waits for its next request.
struct Home {
    idle: Arc<Idle>,
    key: u64,
    patience: Option<Duration>,
}

/// A connection to a host.
pub struct Joined {
    /// `None` only while being dropped.
    stream: Option<Stream>,
    home: Home,
    /// Pingora has found it good for another request.
    good: bool,
    /// The head of a request, until something follows it.
    head: Kept,
    /// Somebody has asked for the answer while the head was kept: a piece of the body is about to come.
    awaited: bool,
    /// A head was taken over, and no byte of it was handed down yet.
    unsent: bool,
    /// Something was handed down that nobody has flushed since.
    unflushed: bool,
}

impl Joined {
    fn new(stream: Stream, home: Home) -> Self {
        Self {
            stream: Some(stream),
            home,
            good: false,
            head: Kept::default(),
            awaited: false,
            unsent: false,
            unflushed: false,
        }
    }

    fn below(&self) -> &Stream {
        match &self.stream {
            Some(stream) => stream,
            None => unreachable!("a connection is used after it was dropped"),
        }
    }

    fn below_mut(&mut self) -> &mut Stream {
        self.parts().0
    }

    fn parts(&mut self) -> (&mut Stream, &mut Kept) {
        match &mut self.stream {
            Some(stream) => (stream, &mut self.head),
            None => unreachable!("a connection is used after it was dropped"),
        }
    }

    fn failed(&self, error: io::Error) -> io::Error {
        if self.unsent { io::Error::new(error.kind(), Unsent(error)) } else { error }
    }

    /// Hands down the head, with `body` behind it, and says how much of `body` was taken.
    fn poll_join(&mut self, cx: &mut Context<'_>, body: &[u8]) -> Poll<io::Result<usize>> {
        let (stream, head) = self.parts();
        let length = head.len();
        let joined = head.poll_join(stream, cx, body);
        // What the connection has taken the host may have seen, whatever becomes of the rest.
        if head.len() < length {
            self.unsent = false;
            self.unflushed = true;
        }
        let joined = ready!(joined).map_err(|error| self.failed(error));
        // Pingora reads on after a failed write: no body is coming then.
        self.awaited = joined.is_err();
        Poll::Ready(joined)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(self.below_mut()).poll_flush(cx))?;
        self.unflushed = false;
        Poll::Ready(Ok(()))
    }

    /// Pingora asks whether the connection can be used again: one byte is read, and nobody is woken.
    fn is_asked(cx: &Context<'_>, buf: &ReadBuf<'_>) -> bool {
        buf.remaining() == 1 && cx.waker().data().is_null()
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take()
            && !was_spent(stream.id())
            && self.good
        {
            self.home.idle.put(self.home.key, stream, self.home.patience);
        }
    }
}

impl std::fmt::Debug for Joined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joined")
            .field("stream", &self.stream)
            .field("head", &self.head)
            .finish_non_exhaustive()
    }
}

impl AsyncRead for Joined {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.head.is_empty() {
            let note = NOTE.get();
            if !self.awaited && note.body && note.connection == self.id() {
                // No waker is left behind: Pingora asks the pipe next, within this very poll, and comes back here
                // after it has taken the piece that is in it, or when the pipe wakes it.
                self.awaited = true;
                return Poll::Pending;
            }
            ready!(self.poll_join(cx, &[]))?;
        }
        if self.unflushed {
            ready!(self.poll_send(cx))?;
        }
        if Self::is_asked(cx, buf) {
            self.good = is_quiet(self.below_mut());
            return Poll::Ready(Ok(()));
        }
        Pin::new(self.below_mut()).poll_read(cx, buf)
    }
}

impl AsyncWrite for Joined {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.head.is_empty() {
            let note = NOTE.get();
            if note.head && note.connection == self.id() {
                NOTE.set(Note { head: false, ..note });
                if buf.len() <= HEAD {
                    self.head.add(buf);
                    self.unsent = true;
                    return Poll::Ready(Ok(buf.len()));
                }
            }
        } else {
            let taken = ready!(self.poll_join(cx, buf))?;
            if taken > 0 {
                return Poll::Ready(Ok(taken));
            }
        }
        Pin::new(self.below_mut()).poll_write(cx, buf)
    }

    /// Sends what was handed down; a head that is kept stays until something follows it.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.head.is_empty() { self.poll_send(cx) } else { Poll::Ready(Ok(())) }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.below_mut()).poll_shutdown(cx)
    }
}

pass_on!(Joined);

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use pingora::protocols::l4;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpSocket, TcpStream};

    use super::super::idle::tests::{connection, idle};
    use super::*;

    const HEAD: &[u8] = b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n";

    struct Pair {
        near: Joined,
        far: TcpStream,
        idle: Arc<Idle>,
    }

    async fn pair() -> Pair {
        let (stream, far) = connection().await;
        let idle = idle(4);
        let home = Home { idle: idle.clone(), key: 1, patience: None };
        Pair { near: Joined::new(stream, home), far, idle }
    }

    impl Pair {
        async fn write_head(&mut self) {
            expect_head(self.near.id());
            self.near.write_all(HEAD).await.unwrap();
            self.near.flush().await.unwrap();
        }

        /// What the host has received once it has received anything; nothing if that takes too long.
        async fn received(&mut self) -> Vec<u8> {
            let mut bytes = vec![0; 1024];
            let read = tokio::time::timeout(Duration::from_millis(100), self.far.read(&mut bytes)).await;
            bytes.truncate(read.map_or(0, Result::unwrap));
            bytes
        }

        /// One poll of a read; whether it has to wait.
        async fn read_waits(&mut self) -> bool {
            let mut bytes = [0; 64];
            poll_fn(|cx| {
                let read = Pin::new(&mut self.near).poll_read(cx, &mut ReadBuf::new(&mut bytes));
                Poll::Ready(read.is_pending())
            })
            .await
        }
    }

    #[tokio::test]
    async fn a_head_leaves_with_the_body() {
        let mut pair = pair().await;
        pair.write_head().await;
        assert_eq!(pair.received().await, b"", "no body is there yet");
        pair.near.write_all(b"body").await.unwrap();
        pair.near.flush().await.unwrap();
        assert_eq!(pair.received().await, [HEAD, b"body"].concat());
    }

    #[tokio::test]
    async fn a_head_waits_for_nobody() {
        let mut pair = pair().await;
        pair.write_head().await;
        assert!(pair.read_waits().await);
        assert_eq!(pair.received().await, HEAD);
    }

    /// A body on its way is waited for once; should nothing come of it, the next read sends the head.
    #[tokio::test]
    async fn a_body_on_its_way_is_waited_for_once() {
        let mut pair = pair().await;
        pair.write_head().await;
        expect_body(pair.near.id());
        assert!(pair.read_waits().await);
        assert_eq!(pair.received().await, b"");
        assert!(pair.read_waits().await);
        assert_eq!(pair.received().await, HEAD);
    }

    #[tokio::test]
    async fn nothing_else_is_kept() {
        let mut pair = pair().await;
        // Another connection's head, a head without a body, a piece of a body: all are just written.
        expect_head(pair.near.id() + 1);
        for bytes in [HEAD, b"piece"] {
            pair.near.write_all(bytes).await.unwrap();
            pair.near.flush().await.unwrap();
            assert_eq!(pair.received().await, bytes);
        }
        // A long one would not share a packet with the body.
        expect_head(pair.near.id());
        pair.near.write_all(&[b'x'; super::HEAD + 1]).await.unwrap();
        pair.near.flush().await.unwrap();
        assert_eq!(pair.received().await.len(), 1024);
    }

    /// P-2: a host that is gone has seen nothing of a request whose first write fails.
    #[tokio::test]
    async fn what_was_not_sent_is_known() {
        let mut pair = pair().await;
        // With bytes unread, closing resets the connection.
        pair.near.write_all(b"x").await.unwrap();
        let (near, far) = (&mut pair.near, pair.far);
        far.readable().await.unwrap();
        drop(far);
        tokio::time::sleep(Duration::from_millis(50)).await;
        expect_head(near.id());
        near.write_all(HEAD).await.unwrap();
        expect_body(near.id());
        let error = near.write_all(b"body").await.unwrap_err();
        let error = Error::because(pingora_error::ErrorType::WriteError, "while writing body", error);
        assert!(is_unsent(&error), "{error:?}");
        let mut byte = [0];
        let read = poll_fn(|cx| {
            Poll::Ready(Pin::new(&mut *near).poll_read(cx, &mut ReadBuf::new(&mut byte)).is_ready())
        });
        assert!(read.await, "it waits for a body that will not come");
        assert!(!is_unsent(&Error::explain(pingora_error::ErrorType::WriteError, "another")));
    }

    /// P-2: of a request whose first write was taken in part the host may have seen something.
    #[tokio::test]
    async fn what_was_sent_in_part_was_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(4096).unwrap();
        let (near, far) = tokio::join!(socket.connect(listener.local_addr().unwrap()), listener.accept());
        let far = far.unwrap().0;
        let home = Home { idle: idle(0), key: 1, patience: None };
        let mut near = Joined::new(Box::new(l4::stream::Stream::from(near.unwrap())), home);

        expect_head(near.id());
        near.write_all(HEAD).await.unwrap();
        // More than the connection takes before the host reads.
        let body = vec![b'x'; 16 << 20];
        let writing = near.write_all(&body);
        let gone = async move {
            far.readable().await.unwrap();
            // With bytes unread, closing resets the connection.
            drop(far);
        };
        let (written, ()) = tokio::join!(writing, gone);
        let cause = written.unwrap_err();
        let error = Error::because(pingora_error::ErrorType::WriteError, "while writing body", cause);
        assert!(!is_unsent(&error), "{error:?}");
    }

    /// Asked the way Pingora asks, a good connection says that it is closed, and waits at home for the next request.
    #[tokio::test]
    async fn a_good_connection_comes_back() {
        let asked = |near: &mut Joined| {
            let mut byte = [0];
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let mut buf = ReadBuf::new(&mut byte);
            matches!(Pin::new(near).poll_read(&mut cx, &mut buf), Poll::Ready(Ok(())))
                && buf.filled().is_empty()
        };
        let Pair { mut near, far, idle } = pair().await;
        let id = near.id();
        assert!(asked(&mut near));
        drop(near);
        assert_eq!(idle.take(1).unwrap().id(), id);
        drop(far);

        // The host said that it closes it.
        let Pair { mut near, far: _far, idle } = pair().await;
        spend(near.id());
        assert!(asked(&mut near));
        drop(near);
        assert!(idle.take(1).is_none());

        // Nobody asked: something went wrong with it.
        let Pair { near, far: _far, idle } = pair().await;
        drop(near);
        assert!(idle.take(1).is_none());

        // Closed by the host.
        let Pair { mut near, far, idle } = pair().await;
        drop(far);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(asked(&mut near));
        drop(near);
        assert!(idle.take(1).is_none());
    }
}
