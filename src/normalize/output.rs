//! What an exchange says to whoever pumps it: what the client gets next, and the proxy's own answers.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::fault::{Kind, Refusal};
use super::outcome::Verdict;
use crate::protocol::json_rpc::RpcError;

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
    /// Not the host's doing: there is no room to hold it (`limits.held_bytes`).
    NoRoom,
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
    /// 429 with `Retry-After: 1`: more than `limits.requests_per_second` of one address.
    TooManyRequests,
    /// 508: `Via` names this instance.
    Loop,
    /// 408: the client did not finish its request in time.
    RequestTimeout,
    /// 500: something in the proxy itself.
    Internal,
}

impl Failure {
    /// What is answered in place of what the host left unfinished (C-5).
    pub(super) fn own_answer(self) -> OwnAnswer {
        match self {
            Self::Closed => OwnAnswer::BadGateway,
            Self::TimedOut => OwnAnswer::GatewayTimeout,
            Self::NoRoom => OwnAnswer::Unavailable,
        }
    }
}

impl OwnAnswer {
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::RequestTimeout => 408,
            Self::RequestTooLarge => 413,
            Self::TooManyRequests => 429,
            Self::Internal => 500,
            Self::BadGateway => 502,
            Self::Unavailable => 503,
            Self::GatewayTimeout => 504,
            Self::Loop => 508,
        }
    }

    /// Seconds after which trying again makes sense.
    #[must_use]
    pub fn retry_after(self) -> Option<u64> {
        matches!(self, Self::Unavailable | Self::TooManyRequests).then_some(1)
    }

    /// Refused if it is the client's fault, not the host's.
    #[must_use]
    pub fn verdict(self) -> Verdict {
        if self.status() < 500 || self == Self::Loop { Verdict::Refused } else { Verdict::Synthesized }
    }

    /// Which error it is, in the interface's binding.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::RequestTooLarge => Kind::Refusal(Refusal::PayloadTooLarge),
            Self::TooManyRequests => Kind::Refusal(Refusal::RateLimited),
            Self::BadRequest | Self::RequestTimeout => Kind::Rpc(RpcError::InvalidRequest),
            _ => Kind::Rpc(RpcError::Internal),
        }
    }
}
