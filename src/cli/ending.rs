//! How the process ends: at once (`SIGINT`), when its requests have their answers (`SIGTERM`), or when a new
//! process has its listening sockets and its requests have their answers (`SIGQUIT`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::{ShutdownSignal, ShutdownSignalWatch, UnixShutdownSignalWatch};
use tokio::time::{Instant, sleep};

use crate::observe::Metrics;
use crate::proxy::{Kept, Sockets};

/// How long `SIGTERM` waits for requests in flight: less than the 30 s after which orchestrators kill.
const GRACE: Duration = Duration::from_secs(25);

/// How long a process that was replaced waits for its streams. Nobody waits for its end.
pub(super) const LONGEST: Duration = Duration::from_hours(1);

/// How long nothing must be in flight before the process ends: what was accepted just before gets its answer.
const QUIET: Duration = Duration::from_millis(200);

/// The same after a hand-over: longer than idle connections are kept for a request under way.
const QUIET_REPLACED: Duration = Duration::from_secs(2);

/// How often it is looked whether something is in flight.
const LOOK: Duration = Duration::from_millis(20);

/// Waits for the signal that ends the process, and ends it as soon as there is nothing left to wait for. Pingora
/// would wait for the whole of its grace period, whether something is in flight or not.
pub(super) struct Drain {
    metrics: Arc<Metrics>,
    /// The Unix socket to send the listening sockets over; empty: they cannot be handed over.
    handover: String,
    sockets: Arc<Sockets>,
}

impl Drain {
    pub(super) fn new(metrics: Arc<Metrics>, handover: String, sockets: Arc<Sockets>) -> Self {
        Self { metrics, handover, sockets }
    }

    /// Gives the sockets to the process that waits for them. `None`: none took the place, this process goes on; else
    /// what to do now.
    async fn hand_over(&self) -> Option<ShutdownSignal> {
        if self.handover.is_empty() {
            tracing::error!(
                "SIGQUIT: nothing is handed over without listen.handover; SIGTERM ends the proxy"
            );
            return None;
        }
        let (sockets, handover) = (self.sockets.clone(), self.handover.clone());
        let mut giving = tokio::task::spawn_blocking(move || sockets.give(Path::new(&handover)));
        let given = loop {
            tokio::select! {
                given = &mut giving => break given,
                signal = UnixShutdownSignalWatch.recv() => match signal {
                    // It is being done.
                    ShutdownSignal::GracefulUpgrade => {}
                    // The new process finds itself alone, or without this one's word.
                    ShutdownSignal::FastShutdown | ShutdownSignal::GracefulTerminate => return Some(signal),
                },
            }
        };
        let (problem, says) = match given {
            Ok(Ok(())) => return Some(ShutdownSignal::GracefulUpgrade),
            Ok(Err(Kept::Nobody)) => {
                ("no new process waits for the sockets; start one with --upgrade before", None)
            }
            Ok(Err(Kept::Refused(says))) => ("the new process cannot take over", Some(says)),
            Ok(Err(Kept::Ended)) => ("the new process ended before it served", None),
            Ok(Err(Kept::Silent)) => ("the new process did not serve in time", None),
            Ok(Err(Kept::Unsent(says))) => ("the sockets could not be sent", Some(says)),
            Err(error) => ("the sockets could not be sent", Some(error.to_string())),
        };
        tracing::error!(socket = self.handover, says, "SIGQUIT: {problem}; this process goes on");
        None
    }

    /// Ends the process once nothing is in flight any more, or it took too long.
    fn end(&self, quiet: Duration, limit: Duration) {
        let metrics = self.metrics.clone();
        std::thread::spawn(move || {
            if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
                runtime.block_on(nothing_left(&metrics, quiet, limit));
            }
            super::run::flush();
            std::process::exit(0);
        });
    }
}

/// Until nothing is in flight, or the limit is over. Pingora listens to no second signal: `SIGTERM` shortens the
/// limit, `SIGINT` ends the waiting.
async fn nothing_left(metrics: &Metrics, quiet: Duration, limit: Duration) {
    let mut end = Instant::now() + limit;
    let mut quiet_since = Instant::now();
    let mut signal = UnixShutdownSignalWatch.recv();
    while quiet_since.elapsed() < quiet && Instant::now() < end {
        tokio::select! {
            () = sleep(LOOK) => if metrics.inflight() > 0 { quiet_since = Instant::now() },
            signalled = &mut signal => match signalled {
                ShutdownSignal::FastShutdown => return,
                ShutdownSignal::GracefulTerminate => {
                    end = end.min(Instant::now() + GRACE);
                    signal = UnixShutdownSignalWatch.recv();
                }
                ShutdownSignal::GracefulUpgrade => signal = UnixShutdownSignalWatch.recv(),
            },
        }
    }
}

#[async_trait]
impl ShutdownSignalWatch for Drain {
    async fn recv(&self) -> ShutdownSignal {
        loop {
            let signal = match UnixShutdownSignalWatch.recv().await {
                ShutdownSignal::GracefulUpgrade => match self.hand_over().await {
                    Some(signal) => signal,
                    None => continue,
                },
                signal => signal,
            };
            let inflight = self.metrics.inflight();
            match signal {
                ShutdownSignal::FastShutdown => return signal,
                ShutdownSignal::GracefulTerminate => {
                    tracing::info!(inflight, "shutting down");
                    self.end(QUIET, GRACE);
                }
                ShutdownSignal::GracefulUpgrade => {
                    tracing::info!(inflight, "handing over to a new process");
                    self.end(QUIET_REPLACED, LONGEST);
                }
            }
            // Pingora's own hand-over would begin with what is done already.
            return ShutdownSignal::GracefulTerminate;
        }
    }
}
