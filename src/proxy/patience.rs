//! How long a client's connection may keep us waiting.
//!
//! Pingora bounds each read by itself, so that a head that comes byte by byte never ends, and of what it writes only
//! the body. Here a wait has one timer, whatever is read or written in it. The timer exists only while something
//! waits: what is there at once costs nothing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Sleep;

/// Ends what takes too long.
#[derive(Debug)]
pub struct Patience {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    pub fn new(limit: Duration) -> Self {
        Self { limit, timer: None }
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

    /// What was polled, or an error in its place once it has not been ready for too long. `told` is called then.
    pub fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
        told: impl FnOnce(),
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.end();
            return polled;
        }
        let error = ready!(self.poll_over(cx));
        told();
        Poll::Ready(Err(error))
    }
}
