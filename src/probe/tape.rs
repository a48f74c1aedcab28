//! What came over the wire, below hyper, which keeps neither the order of headers nor how they are written. One
//! request is under way at a time, so one tape serves all connections.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower_service::Service;

/// Bytes that are kept of an answer: a head of any size that hosts have.
const KEPT: usize = 64 << 10;

/// The first bytes that came since it was wound back.
#[derive(Debug, Clone, Default)]
pub struct Tape(Arc<Mutex<Vec<u8>>>);

impl Tape {
    pub fn wind_back(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = KEPT.saturating_sub(kept.len());
        kept.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// Whether what came is a TLS record: an alert or a handshake.
    pub fn is_tls(&self) -> bool {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(kept.get(..2), Some([0x15 | 0x16, 3]))
    }

    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Whether what came begins as an HTTP/1 answer.
    pub fn is_http_1(&self) -> bool {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.starts_with(b"HTTP/1.")
    }

    /// Whether what came begins as an HTTP/2 connection: with settings, for all of it.
    pub fn is_http_2(&self) -> bool {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(kept.get(3..9), Some([4, _, 0, 0, 0, 0]))
    }

    /// Whether a line of the head that came goes on in the next.
    pub fn is_folded(&self) -> bool {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = kept.split(|byte| *byte == b'\n').take_while(|line| !line.trim_ascii().is_empty());
        lines.into_iter().any(|line| line.starts_with(b" ") || line.starts_with(b"\t"))
    }

    /// How many lines of headers came, as far as they are kept.
    pub fn header_lines(&self) -> usize {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = kept.split(|byte| *byte == b'\n').skip(1);
        lines.take_while(|line| !line.trim_ascii().is_empty()).count()
    }

    /// The answer's head as it is on the wire, interim answers left out.
    pub fn head(&self, status: u16) -> Option<Head> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        final_head(&kept, status).map(|(head, _)| head)
    }

    /// How many bytes came behind the answer's head and so many bytes of body, as far as they are kept.
    pub fn beyond(&self, status: u16, body: usize) -> usize {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        final_head(&kept, status).map_or(0, |(_, after)| after.len().saturating_sub(body))
    }
}

/// The head with this status and what follows it; interim answers are left out.
fn final_head(bytes: &[u8], status: u16) -> Option<(Head, &[u8])> {
    let mut rest = bytes;
    loop {
        let (head, after) = Head::read(rest)?;
        match head.status {
            100..=199 if head.status != status => rest = after,
            found => return Some((head, after)).filter(|_| found == status),
        }
    }
}

/// The head of an HTTP/1 answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    /// `HTTP/1.1`.
    pub version: String,
    pub phrase: String,
    /// Names as they are written.
    pub headers: Vec<(String, String)>,
}

impl Head {
    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut rest = bytes;
        let mut lines: Vec<String> = Vec::new();
        loop {
            let at = rest.iter().position(|byte| *byte == b'\n')?;
            let (line, after) = rest.split_at_checked(at + 1)?;
            rest = after;
            let line = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
            match lines.last_mut() {
                _ if line.is_empty() => break,
                // Folded lines are one.
                Some(last) if line.starts_with([' ', '\t']) => last.push_str(&line),
                _ => lines.push(line),
            }
        }
        let mut lines = lines.into_iter();
        let first = lines.next()?;
        let mut words = first.splitn(3, ' ');
        let version = words.next().filter(|version| version.starts_with("HTTP/"))?.to_owned();
        let status = words.next()?.parse().ok()?;
        let phrase = words.next().unwrap_or_default().to_owned();
        let pair = |line: String| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_owned(), value.trim().to_owned()))
        };
        let headers = lines.filter_map(pair).collect();
        Some((Self { status, version, phrase, headers }, rest))
    }
}

/// A connector whose connections are taped.
#[derive(Debug, Clone)]
pub struct Taping<C> {
    pub inner: C,
    pub tape: Tape,
}

impl<C> Service<Uri> for Taping<C>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
    C::Response: 'static,
    C::Error: 'static,
{
    type Response = Taped<C::Response>;
    type Error = C::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tape = self.tape.clone();
        self.inner.call(uri).map(|connected| connected.map(|inner| Taped { inner, tape })).boxed()
    }
}

/// A connection that is taped.
#[derive(Debug)]
pub struct Taped<T> {
    inner: T,
    tape: Tape,
}

impl<T: Connection> Connection for Taped<T> {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}

impl<T: Read + Unpin> Read for Taped<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut piece = [0; 16 << 10];
        let room = buffer.remaining().min(piece.len());
        let mut read = ReadBuf::new(piece.get_mut(..room).unwrap_or_default());
        ready!(Pin::new(&mut self.inner).poll_read(cx, read.unfilled()))?;
        self.tape.add(read.filled());
        buffer.put_slice(read.filled());
        Poll::Ready(Ok(()))
    }
}

impl<T: Write + Unpin> Write for Taped<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_kept_as_it_was_written() {
        let tape = Tape::default();
        tape.add(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Nothing here\r\nB: 1\r\na:2 \r\nB: 3\r\n x\r\n\r\n{",
        );
        let head = tape.head(404).unwrap();
        assert_eq!((head.version.as_str(), head.phrase.as_str()), ("HTTP/1.1", "Nothing here"));
        let pairs: Vec<_> =
            head.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("B", "1"), ("a", "2"), ("B", "3 x")]);
        // Another answer's, or half of one, is none.
        assert_eq!(tape.head(200), None);
        tape.wind_back();
        tape.add(b"HTTP/1.1 200 OK\r\na: 1\r\n");
        assert_eq!(tape.head(200), None);
        tape.wind_back();
        tape.add(&[0x15, 3, 3, 0, 2]);
        assert!(tape.is_tls());
    }

    /// Bytes behind the announced body are seen, whatever came before the head.
    #[test]
    fn what_is_beyond_an_answer_is_counted() {
        let tape = Tape::default();
        tape.add(b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 404 x\r\ncontent-length: 2\r\n\r\n{}");
        assert!(tape.is_http_1() && !tape.is_folded());
        assert_eq!((tape.beyond(404, 2), tape.beyond(200, 2)), (0, 0));
        tape.add(b"{\"more\"");
        assert_eq!(tape.beyond(404, 2), 7);
        assert!(!tape.is_http_2());
        tape.wind_back();
        tape.add(b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64");
        assert!(tape.is_http_2() && !tape.is_http_1());
        tape.wind_back();
        tape.add(b"HTTP/1.1 200 x\r\na: 1\r\n 2\r\n\r\n");
        assert!(tape.is_folded());
    }

    #[test]
    fn a_tape_is_bounded() {
        let tape = Tape::default();
        for _ in 0..20 {
            tape.add(&[b'x'; 16 << 10]);
        }
        assert_eq!(tape.0.lock().unwrap().len(), KEPT);
    }
}
