//! What was done to one answer and why: what operators count, never a value from the wire.

use super::output::OwnAnswer;

/// How an exchange ended, as the metric `responses_total` names it (U-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verdict {
    /// A success, or nothing of ours: untouched.
    #[default]
    Passed,
    /// An error that was put into shape.
    Rewritten,
    /// An error that already was in shape, passed byte for byte.
    Conformant,
    /// Replaced by the fixed overflow answer (C-2).
    Overflow,
    /// The proxy's own answer: the host gave none (P-1, C-5).
    Synthesized,
    /// The proxy's own refusal of the request (P-1, 4xx).
    Refused,
}

impl Verdict {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Rewritten => "rewritten",
            Self::Conformant => "conformant",
            Self::Overflow => "overflow",
            Self::Synthesized => "synthesized",
            Self::Refused => "refused",
        }
    }
}

macro_rules! rules {
    ($($name:ident = $id:literal),* $(,)?) => {
        /// A rule of the specification, by its id.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Rule { $($name),* }
        impl Rule {
            /// Every rule, in the specification's order.
            pub const ALL: &'static [Rule] = &[$(Rule::$name),*];
            /// The id as the specification writes it.
            #[must_use]
            pub fn id(self) -> &'static str { match self { $(Rule::$name => $id),* } }
        }
    };
}

rules! {
    I1 = "I-1", I2 = "I-2", I3 = "I-3", I4 = "I-4", I5 = "I-5",
    Q1 = "Q-1", Q2 = "Q-2", Q3 = "Q-3", Q4 = "Q-4",
    F1 = "F-1", F2 = "F-2", F3 = "F-3", F4 = "F-4", F5 = "F-5", F6 = "F-6", F7 = "F-7", F8 = "F-8",
    F9 = "F-9", F10 = "F-10",
    E1 = "E-1", E2 = "E-2", E3 = "E-3", E4 = "E-4", E5 = "E-5", E6 = "E-6", E7 = "E-7", E8 = "E-8",
    E9 = "E-9",
    O1 = "O-1", O2 = "O-2", O3 = "O-3", O4 = "O-4",
    D1 = "D-1", D2 = "D-2", D3 = "D-3", D4 = "D-4",
    C1 = "C-1", C2 = "C-2", C3 = "C-3", C4 = "C-4", C5 = "C-5",
    S1 = "S-1", S2 = "S-2", S3 = "S-3", S4 = "S-4",
    P1 = "P-1", P2 = "P-2", P3 = "P-3",
}

/// The rules that fired, without an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleSet(u64);

impl RuleSet {
    pub fn insert(&mut self, rule: Rule) {
        self.0 |= 1 << rule as u64;
    }
    #[must_use]
    pub fn contains(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u64) != 0
    }
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// In the specification's order.
    pub fn iter(self) -> impl Iterator<Item = Rule> {
        Rule::ALL.iter().copied().filter(move |r| self.contains(*r))
    }
}

/// What a dropped field was, as the metric `dropped_fields_total` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DroppedKind {
    Message,
    Metadata,
    Detail,
    Header,
    Member,
}

impl DroppedKind {
    pub const ALL: &'static [DroppedKind] =
        &[Self::Message, Self::Metadata, Self::Detail, Self::Header, Self::Member];
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Metadata => "metadata",
            Self::Detail => "detail",
            Self::Header => "header",
            Self::Member => "member",
        }
    }
}

/// What was done to one answer.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    pub verdict: Verdict,
    pub rules: RuleSet,
    /// The reason of the fault as the client sees it, from a closed list (`faults_total`), if the
    /// answer was a fault: an A2A reason, a refusal's, `OPENWOP`, `INTERNAL_ERROR` and the like.
    pub reason: Option<&'static str>,
    /// Why the answer became the fixed TASK_NOT_FOUND (`oracle_collapsed_total`), if it did so
    /// for another cause than the host's saying just that.
    pub collapsed: Option<&'static str>,
    /// How many fields were dropped, by kind.
    pub dropped: [u32; DroppedKind::ALL.len()],
    /// Names (never values) of dropped metadata members, for operators; bounded in number and length.
    pub dropped_names: Vec<String>,
    /// The answer is the fixed TASK_NOT_FOUND: O-4's floor applies to it.
    pub not_found: bool,
    /// The fixed TASK_NOT_FOUND was written anew (O-1), but the host had said just that already.
    pub said_already: bool,
}

/// Names of dropped members that are kept for operators, at the most, and their length.
const NAMES_MAX: usize = 16;
const NAME_LENGTH_MAX: usize = 64;

impl Outcome {
    /// Of an answer of the proxy's own where no rule binds the request (P-1).
    #[must_use]
    pub fn of_own_answer(own: OwnAnswer) -> Self {
        let mut outcome = Self { verdict: own.verdict(), ..Self::default() };
        outcome.rules.insert(Rule::P1);
        outcome
    }

    /// Without the proxy the client would have got something else than the rules allow.
    #[must_use]
    pub fn is_repair(&self) -> bool {
        match self.verdict {
            Verdict::Rewritten => !self.said_already,
            Verdict::Overflow => true,
            Verdict::Passed | Verdict::Conformant | Verdict::Synthesized | Verdict::Refused => false,
        }
    }

    /// Notes that something of the host's was dropped; of metadata also its name, if it is one.
    pub fn drop_field(&mut self, kind: DroppedKind, name: Option<&str>) {
        self.drop_fields(kind, 1);
        if let Some(name) = name {
            self.drop_name(name);
        }
    }

    /// Notes the name of a dropped metadata member, if it is one.
    pub fn drop_name(&mut self, name: &str) {
        let is_name = |n: &&str| {
            n.len() <= NAME_LENGTH_MAX
                && n.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
        };
        if is_name(&name)
            && self.dropped_names.len() < NAMES_MAX
            && !self.dropped_names.iter().any(|n| n == name)
        {
            self.dropped_names.push(name.to_owned());
        }
    }

    /// Notes that this many fields were dropped.
    pub fn drop_fields(&mut self, kind: DroppedKind, count: u32) {
        if let Some(dropped) = self.dropped.get_mut(kind as usize) {
            *dropped = dropped.saturating_add(count);
        }
    }
}
