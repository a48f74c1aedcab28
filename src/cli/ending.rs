//! How the process ends: at once (`SIGINT`), when its requests have their answers (`SIGTERM`), or when a new
//! process has its listening sockets and its requests have their answers (`SIGQUIT`).

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::{ExecutionPhase, ShutdownSignal, ShutdownSignalWatch, UnixShutdownSignalWatch};
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep};

use crate::observe::Metrics;

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

/// How long a new process may take until it waits for the sockets.
const PATIENCE: Duration = Duration::from_secs(5);

/// Waits for the signal that ends the process, and ends it as soon as there is nothing left to wait for. Pingora
/// would wait for the whole of its grace period, whether something is in flight or not.
pub(super) struct Drain {
    metrics: Arc<Metrics>,
    /// The Unix socket to send the listening sockets over; empty: they cannot be handed over.
    handover: String,
    phases: Mutex<Option<broadcast::Receiver<ExecutionPhase>>>,
}

impl Drain {
    pub(super) fn new(
        metrics: Arc<Metrics>,
        handover: String,
        phases: broadcast::Receiver<ExecutionPhase>,
    ) -> Self {
        Self { metrics, handover, phases: Mutex::new(Some(phases)) }
    }

    /// Somebody waits for the sockets: else Pingora would give them up, and the process with them.
    async fn can_hand_over(&self) -> bool {
        if self.handover.is_empty() {
            tracing::error!(
                "SIGQUIT: nothing is handed over without listen.handover; SIGTERM ends the proxy"
            );
            return false;
        }
        let end = Instant::now() + PATIENCE;
        while !is_awaited(Path::new(&self.handover)) {
            if Instant::now() > end {
                tracing::error!(
                    socket = self.handover,
                    "SIGQUIT: no new process waits for the sockets; start one with --upgrade before"
                );
                return false;
            }
            sleep(LOOK).await;
        }
        true
    }

    /// Ends the process once the phase has come and nothing is in flight any more, or it took too long.
    fn end(&self, after: Option<broadcast::Receiver<ExecutionPhase>>, quiet: Duration, limit: Duration) {
        let metrics = self.metrics.clone();
        std::thread::spawn(move || {
            if let Some(mut phases) = after {
                // Without a phase to wait for there is nothing to wait for.
                while let Ok(phase) = phases.blocking_recv() {
                    if matches!(phase, ExecutionPhase::ShutdownGracePeriod) {
                        break;
                    }
                }
            }
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
            let signal = UnixShutdownSignalWatch.recv().await;
            match signal {
                ShutdownSignal::FastShutdown => {}
                ShutdownSignal::GracefulTerminate => {
                    tracing::info!(inflight = self.metrics.inflight(), "shutting down");
                    self.end(None, QUIET, GRACE);
                }
                ShutdownSignal::GracefulUpgrade if !self.can_hand_over().await => continue,
                ShutdownSignal::GracefulUpgrade => {
                    tracing::info!(inflight = self.metrics.inflight(), "handing over to a new process");
                    let phases = self.phases.lock().unwrap_or_else(PoisonError::into_inner).take();
                    self.end(phases, QUIET_REPLACED, LONGEST);
                }
            }
            return signal;
        }
    }
}

/// Whether a process listens on this Unix socket. Connecting would tell, too, but would be taken for the hand-over.
fn is_awaited(socket: &Path) -> bool {
    // Not `/proc/net`: where only processes are shown (systemd's `ProcSubset=pid`) there is none.
    let Ok(table) = std::fs::read("/proc/self/net/unix") else { return false };
    let listens = |line: &str| {
        // Number, references, protocol, flags (listening is bit 16), type, state, inode, path.
        let mut fields = line.split_ascii_whitespace();
        let flags = fields.nth(3).and_then(|flags| u32::from_str_radix(flags, 16).ok());
        flags.is_some_and(|flags| flags & 0x1_0000 != 0)
            && fields.nth(3).is_some_and(|path| Path::new(path) == socket)
    };
    String::from_utf8_lossy(&table).lines().any(listens)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_is_awaited_while_somebody_listens() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        assert!(!is_awaited(&socket));
        let listener = UnixListener::bind(&socket).unwrap();
        assert!(is_awaited(&socket));
        drop(listener);
        // The file is still there, and means nothing.
        assert!(socket.exists() && !is_awaited(&socket));
    }
}
