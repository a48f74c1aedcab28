//! How long a client's connection may keep us waiting.
//!
//! Pingora bounds each read by itself, so that a head that comes byte by byte never ends, and of what it writes only
//! the body. Here a wait has one timer, whatever is read or written in it. The timer exists only while something
//! waits: what is there at once costs nothing.
//!
//! Whether a client takes what it is sent cannot be told from its socket: that has room again only once a third of its
//! buffer is free, which may be a megabyte. So what the client's end has acknowledged is looked at, too.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pingora::protocols::Stream;
use tokio::time::{Instant, Sleep};

/// Ends what takes too long.
#[derive(Debug)]
pub struct Patience {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// What had been taken when the timer began.
    taken: Option<u64>,
}

impl Patience {
    pub fn new(limit: Duration) -> Self {
        Self { limit, timer: None, taken: None }
    }

    /// From the next wait on.
    pub fn limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// The wait is over.
    pub fn end(&mut self) {
        self.timer = None;
    }

    /// Still waiting: ready once that is too long.
    pub fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(io::ErrorKind::TimedOut.into())
    }

    /// What was polled, or an error in its place once it has not been ready for too long and the client at the end of
    /// `stream` has taken nothing for as long. `told` is called then.
    pub fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
        stream: &Stream,
        told: impl FnOnce(),
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.end();
            return polled;
        }
        if self.timer.is_none() {
            self.taken = taken(stream);
        }
        loop {
            let error = ready!(self.poll_over(cx));
            let now = taken(stream);
            if now <= self.taken {
                told();
                return Poll::Ready(Err(error));
            }
            self.taken = now;
            if let Some(timer) = &mut self.timer {
                timer.as_mut().reset(Instant::now() + self.limit);
            }
        }
    }
}

/// How much of what was written the other end has acknowledged, if the system says so.
fn taken(stream: &Stream) -> Option<u64> {
    Some(stream.get_socket_digest()?.tcp_info()?.tcpi_bytes_acked)
}
