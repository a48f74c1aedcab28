//! What became of the configuration's readings since the start: for the status page, the report and alerts.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// How the configuration in effect came about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloads {
    /// Unix time of the reading that is in effect.
    pub loaded: i64,
    /// The last reading, if it was refused: then the one before is in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
}

/// A configuration that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Unix time.
    pub at: i64,
    /// Why: file, line, key and what would be right.
    pub says: Vec<String>,
}

/// The same, shared.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<Reloads>);

impl Told {
    pub(super) fn new(loaded: i64) -> Self {
        Self(Mutex::new(Reloads { loaded, refused: None }))
    }

    pub(super) fn get(&self) -> Reloads {
        self.lock().clone()
    }

    pub(super) fn set(&self, now: i64, refused: Option<Vec<String>>) {
        let mut told = self.lock();
        match refused {
            Some(says) => told.refused = Some(Refused { at: now, says }),
            None => *told = Reloads { loaded: now, refused: None },
        }
    }

    fn lock(&self) -> MutexGuard<'_, Reloads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
