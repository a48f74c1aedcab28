//! What was done to one answer and why: what operators count, never a value from the wire.

use super::output::OwnAnswer;
use crate::protocol::tree::Text;

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
    ($($name:ident = $id:literal, $does:literal, $source:literal;)*) => {
        /// A rule of the specification, by its id.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Rule { $($name),* }
        impl Rule {
            /// Every rule, in the specification's order.
            pub const ALL: &'static [Rule] = &[$(Rule::$name),*];
            /// The id as the specification writes it.
            #[must_use]
            pub fn id(self) -> &'static str { match self { $(Rule::$name => $id),* } }
            /// What it does to an answer, in one line.
            #[must_use]
            pub fn does(self) -> &'static str { match self { $(Rule::$name => $does),* } }
            /// The section that it follows from; empty where it is this proxy's own.
            #[must_use]
            pub fn source(self) -> &'static str { match self { $(Rule::$name => $source),* } }
        }
    };
}

rules! {
    I1 = "I-1", "the URL is an interface of the host, by its configuration or its agent card", "A2A §8.2";
    I2 = "I-2", "the URL is an interface's path or an A2A route below it", "A2A §11.3";
    I3 = "I-3", "the request is at a protocol version that the rules bind", "A2A §3.6, RFC 0211 §F";
    I4 = "I-4", "a success, or nothing of A2A's: it passes byte for byte", "A2A §9, §11";
    I5 = "I-5", "the host is only observed: its bytes pass, and this is what would have been done", "";
    Q1 = "Q-1", "the id is the request's own, digit by digit", "JSON-RPC 2.0 §5";
    Q2 = "Q-2", "the request has no id that can be told, so the answer's is null or there is no body", "JSON-RPC 2.0 §4.1, §5";
    Q3 = "Q-3", "the call names a task", "A2A §3.1";
    Q4 = "Q-4", "the host was asked for plain bytes", "RFC 9110 §12.5.3";
    F1 = "F-1", "the HTTP status refuses (401, 403, 407, 413, 429) and decides, whatever the body says", "RFC 0211 §C, RFC 9110 §15.5";
    F2 = "F-2", "an A2A reason in the answer names the error", "A2A §9.5, §11.6";
    F3 = "F-3", "the error's code names it", "A2A §5.4, JSON-RPC 2.0 §5.1";
    F4 = "F-4", "an OpenWOP envelope: its code says what it means in A2A", "RFC 0211 §C";
    F5 = "F-5", "a framework's or gateway's page or JSON: the status decides, nothing of the body is kept", "RFC 0211 §C";
    F6 = "F-6", "JSON that parsers disagree about: read once, written anew", "RFC 8259 §4, §8.1";
    F7 = "F-7", "a refusal of the version under another code is VERSION_NOT_SUPPORTED", "RFC 0211 §E";
    F8 = "F-8", "a 404 or 405 that is no task's: the method is not there, not the task", "JSON-RPC 2.0 §5.1";
    F9 = "F-9", "a success was seen to begin, and flows", "";
    F10 = "F-10", "an A2A code counts whatever the HTTP status", "A2A §9.5";
    E1 = "E-1", "written as a JSON-RPC error: members in order, details typed, one ErrorInfo", "RFC 0211 §A, A2A §9.5";
    E2 = "E-2", "a JSON-RPC error leaves with HTTP 200, or clients do not read it", "A2A §9";
    E3 = "E-3", "Retry-After is said again as a google.rpc.RetryInfo", "google.rpc error_details.proto";
    E4 = "E-4", "written as a google.rpc.Status with its HTTP status", "RFC 0211 §B, A2A §11.6";
    E5 = "E-5", "details that are untyped, empty or not allowed go; a validator's list becomes a BadRequest", "RFC 0211 §A, A2A §9.5";
    E6 = "E-6", "metadata is a map of strings", "RFC 0211 §E, google.rpc error_details.proto";
    E7 = "E-7", "supportedVersions is comma-joined text and lists what the interface offers", "RFC 0211 §E";
    E8 = "E-8", "error data of a known closed profile is kept whole or not at all", "";
    E9 = "E-9", "the error is in shape already and passes byte for byte", "RFC 0211 §A, §B";
    O1 = "O-1", "the one fixed TASK_NOT_FOUND, the same for \"not there\" and \"not yours\"", "RFC 0211 §D";
    O2 = "O-2", "the fixed answer is made from the request alone, whatever its length", "RFC 0211 §D";
    O3 = "O-3", "a refusal on a call that names a task would tell that the task exists", "RFC 0211 §D";
    O4 = "O-4", "TASK_NOT_FOUND leaves at a multiple of a floor, so that time does not tell", "RFC 0211 §D";
    D1 = "D-1", "the message may identify somebody: the code's canonical text stands in", "RFC 0211 §D";
    D2 = "D-2", "metadata members that are not on the list go", "RFC 0211 §D";
    D3 = "D-3", "headers that are not on the list go", "RFC 0211 §D";
    D4 = "D-4", "nothing of it is logged", "";
    C1 = "C-1", "the answer is bounded by response_cap_bytes", "";
    C2 = "C-2", "over the cap: one fixed error, nothing cut", "";
    C3 = "C-3", "more than intake_bytes: the rest is not read", "";
    C4 = "C-4", "length, codings, ETag and digests of the old body go with it", "RFC 9110 §8";
    C5 = "C-5", "the host's answer broke off: a complete error in its place", "RFC 9112 §8";
    S1 = "S-1", "the answer's media type says that it is a stream", "A2A §9.4, §11.7";
    S2 = "S-2", "an error event in a stream is put into shape, the others pass", "A2A §9.4";
    S3 = "S-3", "a stream's error has the framing that its client reads", "A2A §9.4, §11.7";
    S4 = "S-4", "an empty stream passes", "";
    P1 = "P-1", "the proxy's own answer, in the interface's binding", "RFC 0211 §C";
    P2 = "P-2", "sent to the host a second time", "RFC 9110 §9.2.2";
    P3 = "P-3", "interface URLs in the agent card become the public one", "A2A §8.2";
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
    pub dropped_names: Vec<Text>,
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
            self.dropped_names.push(name.into());
        }
    }

    /// Notes that this many fields were dropped.
    pub fn drop_fields(&mut self, kind: DroppedKind, count: u32) {
        if let Some(dropped) = self.dropped.get_mut(kind as usize) {
            *dropped = dropped.saturating_add(count);
        }
    }
}
