//! What an operator decides about one host: the part of the configuration that the rules read.

use http::HeaderName;

/// Whether answers are changed or only judged (I-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Errors are normalized.
    #[default]
    Enforce,
    /// Bytes pass untouched; what would have been done is reported in the outcome.
    Observe,
}

impl Mode {
    /// As the configuration and the metrics write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Observe => "observe",
        }
    }
}

/// Which texts of a host may reach the client (D-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Messages {
    /// A host's message, whole, if nothing in it can identify anything; else the canonical text.
    #[default]
    Guarded,
    /// The canonical text of the code, always.
    Canonical,
    /// The host's message as it is (but for the codes whose text is always canonical).
    Upstream,
}

/// How far "not yours" and "not there" are made one answer (section 5, O-1 to O-4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Oracle {
    /// Also collapse a 403 whose challenge says `insufficient_scope`.
    pub collapse_scope: bool,
    /// TASK_NOT_FOUND leaves at a multiple of this many milliseconds; 0 is off. The proxy waits.
    pub floor_ms: u64,
    /// Host headers that survive on the fixed answer.
    pub keep_headers: Vec<HeaderName>,
}

/// What may be disclosed; every list adds to the built-in one (D-1 to D-3, E-5).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Disclosure {
    pub messages: Messages,
    /// Additional words that make a message unfit, lower case.
    pub words: Vec<String>,
    pub metadata_keys: Vec<String>,
    /// Additional `@type`s, with or without `type.googleapis.com/`.
    pub detail_types: Vec<String>,
    pub headers: Vec<HeaderName>,
}

/// Whether the byte cap also binds successes (C-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapPolicy {
    pub success: bool,
}

/// Everything the rules need to know about one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub mode: Mode,
    /// Bytes of a normalized error's body, at the most (C-1).
    pub response_cap_bytes: usize,
    /// Bytes read, after decoding, of a body that must be held (C-3).
    pub intake_bytes: usize,
    pub normalize_0_3: bool,
    pub oracle: Oracle,
    pub disclosure: Disclosure,
    pub cap: CapPolicy,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Mode::Enforce,
            response_cap_bytes: 1 << 20,
            intake_bytes: 4 << 20,
            normalize_0_3: false,
            oracle: Oracle::default(),
            disclosure: Disclosure::default(),
            cap: CapPolicy::default(),
        }
    }
}
