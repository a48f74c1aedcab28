//! What an answer that has to be held is fed to: an exchange, on an interface, or the rewriting of an
//! agent card (P-3). The shell drives both in the same way.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::{CardFate, CardRewrite, Exchange, ExtendedCard, Failure, Outcome, Output, OwnAnswer};
use crate::protocol::a2a::Operation;

/// One request and the answer to it.
pub enum Machine {
    Exchange(Box<Exchange>),
    /// The same, on a host whose extended cards are rewritten.
    Extended(Box<ExtendedCard>),
    Card(CardRewrite),
}

/// See [`Exchange`] for what the calls mean and in which order they come.
impl Machine {
    /// The URL is an interface for certain, so that Q-4 applies to the request.
    #[must_use]
    pub fn is_interface(&self) -> bool {
        match self {
            Self::Exchange(exchange) => exchange.is_interface(),
            Self::Extended(extended) => extended.exchange().is_interface(),
            Self::Card(_) => false,
        }
    }

    /// Bytes pass as they are and are only judged (I-5).
    #[must_use]
    pub fn is_observing(&self) -> bool {
        match self {
            Self::Exchange(exchange) => exchange.is_observing(),
            Self::Extended(extended) => extended.exchange().is_observing(),
            Self::Card(card) => card.is_observing(),
        }
    }

    /// The host must send its whole card, whatever the client has of it (P-3).
    #[must_use]
    pub fn wants_whole_card(&self) -> bool {
        matches!(self, Self::Card(card) if card.wants_whole())
    }

    /// What became of an agent card, if the answer was one (P-3).
    #[must_use]
    pub fn card_fate(&self) -> Option<CardFate> {
        match self {
            Self::Exchange(_) => None,
            Self::Extended(extended) => extended.fate(),
            Self::Card(card) => card.fate(),
        }
    }

    #[must_use]
    pub fn operation(&self) -> Option<Operation> {
        match self {
            Self::Exchange(exchange) => exchange.operation(),
            Self::Extended(extended) => extended.exchange().operation(),
            Self::Card(_) => None,
        }
    }

    pub fn request_piece(&mut self, bytes: &[u8]) {
        match self {
            Self::Exchange(exchange) => exchange.request_piece(bytes),
            Self::Extended(extended) => extended.request_piece(bytes),
            Self::Card(_) => {}
        }
    }

    pub fn request_end(&mut self) {
        match self {
            Self::Exchange(exchange) => exchange.request_end(),
            Self::Extended(extended) => extended.request_end(),
            Self::Card(card) => card.request_end(),
        }
    }

    #[must_use]
    pub fn request_ended(&self) -> bool {
        match self {
            Self::Exchange(exchange) => exchange.request_ended(),
            Self::Extended(extended) => extended.exchange().request_ended(),
            Self::Card(card) => card.request_ended(),
        }
    }

    /// The call names a task, or might yet, and its answer is not only observed.
    #[must_use]
    pub fn may_name_a_task(&self) -> bool {
        matches!(self, Self::Exchange(exchange) if exchange.may_name_a_task())
    }

    /// There is a head, and no verdict yet.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        matches!(self, Self::Exchange(exchange) if exchange.is_holding())
    }

    #[must_use]
    pub fn wants_request(&self) -> bool {
        match self {
            Self::Exchange(exchange) => exchange.wants_request(),
            Self::Extended(extended) => extended.exchange().wants_request(),
            Self::Card(_) => false,
        }
    }

    pub fn head(&mut self, status: StatusCode, headers: &HeaderMap) {
        match self {
            Self::Exchange(exchange) => exchange.head_lent(status, headers),
            Self::Extended(extended) => extended.head(status, headers),
            Self::Card(card) => card.head(status, headers),
        }
    }

    pub fn piece(&mut self, bytes: Bytes) {
        match self {
            Self::Exchange(exchange) => exchange.piece(bytes),
            Self::Extended(extended) => extended.piece(bytes),
            Self::Card(card) => card.piece(bytes),
        }
    }

    pub fn end(&mut self) {
        match self {
            Self::Exchange(exchange) => exchange.end(),
            Self::Extended(extended) => extended.end(),
            Self::Card(card) => card.end(),
        }
    }

    pub fn fail(&mut self, failure: Failure) {
        match self {
            Self::Exchange(exchange) => exchange.fail(failure),
            Self::Extended(extended) => extended.fail(failure),
            Self::Card(card) => card.fail(failure),
        }
    }

    pub fn shed(&mut self) -> bool {
        match self {
            Self::Exchange(exchange) => exchange.shed(),
            Self::Extended(extended) => extended.shed(),
            Self::Card(card) => card.shed(),
        }
    }

    pub fn answer(&mut self, own: OwnAnswer) {
        match self {
            Self::Exchange(exchange) => exchange.answer(own),
            Self::Extended(extended) => extended.answer(own),
            Self::Card(card) => card.answer(own),
        }
    }

    pub fn reset_answer(&mut self) {
        match self {
            Self::Exchange(exchange) => exchange.reset_answer(),
            Self::Extended(extended) => extended.reset_answer(),
            Self::Card(card) => card.reset_answer(),
        }
    }

    /// `head` is the host's, as long as it was not told to be written.
    pub fn poll(&mut self, head: Option<&HeaderMap>) -> Option<Output> {
        match self {
            Self::Exchange(exchange) => exchange.poll_with(head),
            Self::Extended(extended) => extended.poll(),
            Self::Card(card) => card.poll(),
        }
    }

    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::Exchange(exchange) => exchange.held_bytes(),
            Self::Extended(extended) => extended.held_bytes(),
            Self::Card(card) => card.held_bytes(),
        }
    }

    #[must_use]
    pub fn outcome(&self) -> &Outcome {
        match self {
            Self::Exchange(exchange) => exchange.outcome(),
            Self::Extended(extended) => extended.outcome(),
            Self::Card(card) => card.outcome(),
        }
    }
}
