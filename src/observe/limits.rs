//! What clients take of the process, and how often a limit was reached. No label tells whose request it was (D-4).

use std::sync::atomic::{AtomicI64, Ordering};

use prometheus::core::Collector;
use prometheus::{IntCounter, IntCounterVec, IntGauge};

use super::metrics::{counters, gauge};

/// What was reached, as the metric `limits_reached_total` names it: by the key of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// An answer that would have had to be held was replaced by a 503.
    HeldBytes,
    /// A connection was closed as it came.
    Connections,
    /// A request got a 429.
    RequestsPerSecond,
    /// A request of HTTP/1 got a 431.
    RequestHeaderBytes,
    /// An answer's head was replaced by a 502.
    ResponseHeaderBytes,
    /// A head, or what comes before the first one of HTTP/2, was not there in time.
    RequestHeaders,
    /// A client took nothing of what was sent to it.
    Write,
}

impl Limit {
    pub const ALL: [Self; 7] = [
        Self::HeldBytes,
        Self::Connections,
        Self::RequestsPerSecond,
        Self::RequestHeaderBytes,
        Self::ResponseHeaderBytes,
        Self::RequestHeaders,
        Self::Write,
    ];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HeldBytes => "held_bytes",
            Self::Connections => "connections",
            Self::RequestsPerSecond => "requests_per_second",
            Self::RequestHeaderBytes => "request_header_bytes",
            Self::ResponseHeaderBytes => "response_header_bytes",
            Self::RequestHeaders => "request_headers_ms",
            Self::Write => "write_ms",
        }
    }
}

/// How much is taken, and what was refused for it.
#[derive(Debug)]
pub struct Limits {
    /// Bytes of hosts' answers that are held back.
    held: IntGauge,
    /// And may be.
    most_held: AtomicI64,
    connections: IntGauge,
    reached: IntCounterVec,
    /// Resolved: whatever happens under a flood costs no look-up.
    counts: [IntCounter; Limit::ALL.len()],
}

impl Limits {
    pub(super) fn new() -> prometheus::Result<Self> {
        let reached = counters(
            "limits_reached_total",
            "Requests and connections that were refused or ended because of a limit, by its key.",
            &["limit"],
        )?;
        Ok(Self {
            held: gauge("held_bytes", "Bytes of hosts' answers held back right now.")?,
            most_held: AtomicI64::new(i64::MAX),
            connections: gauge("connections_open", "Client connections open right now.")?,
            // A first step is to be seen as one.
            counts: Limit::ALL.map(|limit| reached.with_label_values(&[limit.as_str()])),
            reached,
        })
    }

    pub(super) fn collectors(&self) -> [Box<dyn Collector>; 3] {
        [Box::new(self.held.clone()), Box::new(self.connections.clone()), Box::new(self.reached.clone())]
    }

    /// So many bytes may be held back from here on.
    pub fn hold_at_most(&self, bytes: u64) {
        self.most_held.store(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// The bytes held back changed by this much.
    pub(super) fn held(&self, delta: i64) {
        self.held.add(delta);
    }

    /// More is held back than may be.
    pub(super) fn holds_too_much(&self) -> bool {
        self.held.get() > self.most_held.load(Ordering::Relaxed)
    }

    /// A client connection more, or less.
    pub fn connection(&self, delta: i64) {
        self.connections.add(delta);
    }

    /// Somebody was refused or ended.
    pub fn reached(&self, limit: Limit) {
        if let Some(count) = self.counts.get(limit as usize) {
            count.inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_counts_as_itself() {
        let limits = Limits::new().unwrap();
        for limit in Limit::ALL {
            limits.reached(limit);
            assert_eq!(limits.reached.with_label_values(&[limit.as_str()]).get(), 1, "{limit:?}");
        }
    }

    #[test]
    fn too_much_is_more_than_may_be() {
        let limits = Limits::new().unwrap();
        limits.hold_at_most(10);
        limits.held(10);
        assert!(!limits.holds_too_much());
        limits.held(1);
        assert!(limits.holds_too_much());
        limits.held(-1);
        assert!(!limits.holds_too_much());
    }
}
