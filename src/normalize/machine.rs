//! What an answer that has to be held is fed to: an exchange, on an interface, or the rewriting of an
//! agent card (P-3). The shell drives both in the same way.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::{CardRewrite, Exchange, Failure, Outcome, Output, OwnAnswer};
use crate::protocol::a2a::Operation;

/// One request and the answer to it.
#[expect(clippy::large_enum_variant, reason = "cards are few, and a request's machine is boxed by its owner")]
pub enum Machine {
    Exchange(Exchange),
    Card(CardRewrite),
}

/// See [`Exchange`] for what the calls mean and in which order they come.
impl Machine {
    /// The URL is an interface for certain, so that Q-4 applies to the request.
    #[must_use]
    pub fn is_interface(&self) -> bool {
        matches!(self, Self::Exchange(exchange) if exchange.is_interface())
    }

    /// The answer is an agent card.
    #[must_use]
    pub fn card(&self) -> Option<&CardRewrite> {
        if let Self::Card(card) = self { Some(card) } else { None }
    }

    #[must_use]
    pub fn operation(&self) -> Option<Operation> {
        match self {
            Self::Exchange(exchange) => exchange.operation(),
            Self::Card(_) => None,
        }
    }

    pub fn request_piece(&mut self, bytes: &[u8]) {
        match self {
            Self::Exchange(exchange) => exchange.request_piece(bytes),
            Self::Card(_) => {}
        }
    }

    pub fn request_end(&mut self) {
        match self {
            Self::Exchange(exchange) => exchange.request_end(),
            Self::Card(card) => card.request_end(),
        }
    }

    #[must_use]
    pub fn request_ended(&self) -> bool {
        match self {
            Self::Exchange(exchange) => exchange.request_ended(),
            Self::Card(card) => card.request_ended(),
        }
    }

    #[must_use]
    pub fn wants_request(&self) -> bool {
        match self {
            Self::Exchange(exchange) => exchange.wants_request(),
            Self::Card(_) => false,
        }
    }

    pub fn head(&mut self, status: StatusCode, headers: &HeaderMap) {
        match self {
            Self::Exchange(exchange) => exchange.head_lent(status, headers),
            Self::Card(card) => card.head(status, headers),
        }
    }

    pub fn piece(&mut self, bytes: Bytes) {
        match self {
            Self::Exchange(exchange) => exchange.piece(bytes),
            Self::Card(card) => card.piece(bytes),
        }
    }

    pub fn end(&mut self) {
        match self {
            Self::Exchange(exchange) => exchange.end(),
            Self::Card(card) => card.end(),
        }
    }

    pub fn fail(&mut self, failure: Failure) {
        match self {
            Self::Exchange(exchange) => exchange.fail(failure),
            Self::Card(card) => card.fail(failure),
        }
    }

    pub fn answer(&mut self, own: OwnAnswer) {
        match self {
            Self::Exchange(exchange) => exchange.answer(own),
            Self::Card(card) => card.answer(own),
        }
    }

    pub fn reset_answer(&mut self) {
        match self {
            Self::Exchange(exchange) => exchange.reset_answer(),
            Self::Card(card) => card.reset_answer(),
        }
    }

    /// `head` is the host's, as long as it was not told to be written.
    pub fn poll(&mut self, head: Option<&HeaderMap>) -> Option<Output> {
        match self {
            Self::Exchange(exchange) => exchange.poll_with(head),
            Self::Card(card) => card.poll(),
        }
    }

    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::Exchange(exchange) => exchange.held_bytes(),
            Self::Card(card) => card.held_bytes(),
        }
    }

    #[must_use]
    pub fn outcome(&self) -> &Outcome {
        match self {
            Self::Exchange(exchange) => exchange.outcome(),
            Self::Card(card) => card.outcome(),
        }
    }
}
