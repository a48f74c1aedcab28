//! The state machine of one request and its answer.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

use super::{Outcome, Policy, Target};

/// What the rules need of a request's head.
#[derive(Debug, Clone)]
pub struct RequestFacts<'a> {
    pub method: &'a Method,
    /// The path as it was sent, without the query.
    pub path: &'a str,
    /// The query as it was sent, without the question mark.
    pub query: Option<&'a str>,
    pub headers: &'a HeaderMap,
}

/// A head to be written in place of the host's. Complete: nothing of the host's is added but the
/// framing of the connection itself.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    pub status: StatusCode,
    /// Holds `content-length` when the body's length is known; without it the body is a stream.
    pub headers: HeaderMap,
}

/// What the client gets next.
#[derive(Debug)]
pub enum Output {
    /// The host's own head, unchanged.
    HostHead,
    /// This head in place of the host's.
    Head(ResponseHead),
    /// A piece of the body.
    Body(Bytes),
    /// The message is complete. After [`Output::HostHead`] the host's trailers go with it.
    End,
    /// The message cannot be completed: the client must not see a clean end (C-5).
    Abort,
    /// From here on the host's bytes go through as they are, its end and trailers included: the
    /// caller need not ask again.
    PassRest,
    /// What the host still sends is not wanted: close its connection (C-3).
    CloseUpstream,
}

/// Why the host's answer ended before it was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Closed or reset.
    Closed,
    /// Silent for longer than allowed.
    TimedOut,
}

/// An answer of the proxy's own (P-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnAnswer {
    /// 502: the host could not be reached, or hung up without an answer.
    BadGateway,
    /// 504: connecting or waiting took too long.
    GatewayTimeout,
    /// 503 with `Retry-After: 1`: no healthy upstream, or no room.
    Unavailable,
    /// 413: the request is larger than `limits.request_bytes`.
    RequestTooLarge,
    /// 400: the request's framing is unreadable.
    BadRequest,
    /// 508: `Via` names this instance.
    Loop,
    /// 408: the client did not finish its request in time.
    RequestTimeout,
    /// 500: something in the proxy itself.
    Internal,
}

/// One request to an interface and the answer to it.
pub struct Exchange {
    _policy: Arc<Policy>,
}

impl Exchange {
    /// `None`: no rule binds this request (I-2 to I-4: `OPTIONS`, an upgrade, a route that is none,
    /// a 0.x version that passes); it goes through without an exchange.
    #[must_use]
    pub fn new(_target: &Target, policy: &Arc<Policy>, _request: &RequestFacts<'_>) -> Option<Self> {
        Some(Self { _policy: policy.clone() })
    }

    /// The next bytes of the request's body, in order, each once.
    pub fn request_piece(&mut self, _bytes: &[u8]) {}

    /// The request is complete.
    pub fn request_end(&mut self) {}

    /// Whether `request_end` was called.
    #[must_use]
    pub fn request_ended(&self) -> bool {
        true
    }

    /// The host's final head (not an informational one).
    pub fn head(&mut self, _status: StatusCode, _headers: &HeaderMap) {}

    /// The next bytes of the host's body, as they came.
    pub fn piece(&mut self, _bytes: Bytes) {}

    /// The host's answer is complete. With trailers or without.
    pub fn end(&mut self) {}

    /// The host's answer will never be complete.
    pub fn fail(&mut self, _failure: Failure) {}

    /// The host gave no answer: write the proxy's own. Only while nothing was written.
    pub fn answer(&mut self, _own: OwnAnswer) {}

    /// Forget what the host said: the request is sent again (P-2). Only while nothing was written.
    pub fn reset_answer(&mut self) {}

    /// What the client gets next; `None` until there is more input.
    pub fn poll(&mut self) -> Option<Output> {
        None
    }

    /// An answer is due but the request has not been read to its end: feed `request_piece` until
    /// `request_end`, then poll again.
    #[must_use]
    pub fn wants_request(&self) -> bool {
        false
    }

    /// Bytes of the host's answer held back right now.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        0
    }

    /// What was done; complete once [`Output::End`], [`Output::PassRest`] or [`Output::Abort`] came.
    #[must_use]
    pub fn outcome(&self) -> &Outcome {
        unimplemented!("being built")
    }
}
