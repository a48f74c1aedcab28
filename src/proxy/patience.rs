//! How long a client's connection may keep us waiting.
//!
//! Pingora bounds each read by itself, so that a head that comes byte by byte never ends, and of what it writes only
//! the body. Here a wait has one time, whatever is read or written in it. Nothing is timed before something waits:
//! what is there at once costs nothing. A timer that is there stays for the next wait, and is set anew only once it is
//! over: a connection waits far oftener than it waits too long.
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
    /// Since when something waits, if it does.
    since: Option<Instant>,
    /// Over at the end of this wait, or earlier: of one before.
    timer: Option<Pin<Box<Sleep>>>,
    /// What had been taken when the wait began.
    taken: Option<u64>,
}

impl Patience {
    pub fn new(limit: Duration) -> Self {
        Self { limit, since: None, timer: None, taken: None }
    }

    /// From the next wait on.
    pub fn limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// The wait is over.
    pub fn end(&mut self) {
        self.since = None;
    }

    /// Still waiting: ready once that is too long.
    pub fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let due = *self.since.get_or_insert_with(Instant::now) + self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        if timer.deadline() > due {
            timer.as_mut().reset(due);
        }
        ready!(timer.as_mut().poll(cx));
        if timer.deadline() < due {
            timer.as_mut().reset(due);
            ready!(timer.as_mut().poll(cx));
        }
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
        if self.since.is_none() {
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
            self.since = None;
        }
    }
}

/// How much of what was written the other end has acknowledged, if the system says so.
fn taken(stream: &Stream) -> Option<u64> {
    Some(stream.get_socket_digest()?.tcp_info()?.tcpi_bytes_acked)
}
