//! Prometheus metrics (U-4), with handles resolved once per host and interface so that a request
//! costs no label look-up.

use std::sync::Arc;
use std::time::Duration;

use crate::normalize::{Binding, Outcome};

/// Every metric of one process, in its own registry.
#[derive(Debug, Default)]
pub struct Metrics {}

impl Metrics {
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// The handles of one interface of one host; `interface` is its configured path, or `other` with
    /// no binding for everything that is no interface.
    #[must_use]
    pub fn lane(self: &Arc<Self>, _host: &str, _interface: &str, _binding: Option<Binding>) -> Arc<Lane> {
        Arc::new(Lane {})
    }

    /// The text exposition format of everything.
    #[must_use]
    pub fn render(&self) -> String {
        String::new()
    }
}

/// What is known when an exchange is over.
#[derive(Debug)]
pub struct Finished<'a> {
    /// Status the client got; 0 when it got none.
    pub status: u16,
    /// `None` for a request that was no rule's business.
    pub outcome: Option<&'a Outcome>,
    /// The answer was an event stream.
    pub stream: bool,
    /// From the request's last byte (or head) sent to the host until its head came.
    pub upstream: Duration,
    /// What holding the answer added, from the host's last needed byte to the first byte written.
    pub added: Duration,
}

/// Pre-resolved handles of one host and interface.
#[derive(Debug)]
pub struct Lane {}

impl Lane {
    /// A request came in; the guard counts it as in flight until it is dropped.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> InFlight {
        InFlight { _lane: self.clone() }
    }

    /// Count one finished exchange and log it.
    pub fn finished(&self, _finished: &Finished<'_>) {}

    /// The bytes held back changed by this much (gauge `held_bytes`).
    pub fn held(&self, _delta: i64) {}
}

/// Counts one request as in flight while it lives.
#[derive(Debug)]
pub struct InFlight {
    _lane: Arc<Lane>,
}
