//! What a request asks for, while it is read and afterwards.

use std::sync::Arc;

use super::call::{Call, CallReader};

/// A request that is read, or what was read of it.
#[derive(Debug)]
pub enum Asking {
    Reading(Box<CallReader>),
    /// It has ended, and its reader, which is the larger part of an exchange, is gone.
    Settled(Arc<Call>),
}

impl Asking {
    #[must_use]
    pub fn new(reader: CallReader) -> Self {
        Self::Reading(Box::new(reader))
    }

    /// The next bytes of the body.
    pub fn piece(&mut self, bytes: &[u8]) {
        if let Self::Reading(reader) = self {
            reader.piece(bytes);
        }
    }

    /// The body is complete.
    pub fn end(&mut self) {
        if let Self::Reading(reader) = self {
            reader.end();
        }
    }

    #[must_use]
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Reading(reader) => reader.has_ended(),
            Self::Settled(_) => true,
        }
    }

    /// What the request asks for, as far as it was read.
    #[must_use]
    pub fn call(&self) -> Arc<Call> {
        match self {
            Self::Reading(reader) => Arc::new(reader.call()),
            Self::Settled(call) => call.clone(),
        }
    }

    /// Its answer takes a while and may ask again and again: once the request has ended only what it asks for is kept.
    pub fn settle(&mut self) {
        if let Self::Reading(reader) = self
            && reader.has_ended()
        {
            *self = Self::Settled(Arc::new(reader.call()));
        }
    }
}
