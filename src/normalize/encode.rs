//! From a fault to what the client gets: shape, status and the byte cap (sections 4 and 6).

use super::Binding;
use super::call::{Call, Id, Task};
use super::decode::Violation;
use super::disclose::{Gate, admits_metadata, is_field_path, is_version};
use super::fault::{Fault, Kind, Refusal};
use super::outcome::{DroppedKind, Outcome, Rule};
use crate::protocol::a2a::{A2aError, DOMAIN, OPENWOP_DOMAIN};
use crate::protocol::google_rpc::{
    BAD_REQUEST, ERROR_INFO, LOCALIZED_MESSAGE, PRECONDITION_FAILURE, QUOTA_FAILURE, RETRY_INFO, STRUCT,
    full_type, status_word,
};
use crate::protocol::json_rpc::{RpcError, SERVER_ERROR, UNKNOWN_CODE};
use crate::protocol::tree::{Node, Text, decode_string};

/// The message of the overflow answer (C-2).
pub const OVERFLOW: &str = "response exceeds configured byte limit";
/// What stands in place of a description that may not leave (D-1).
const INVALID_VALUE: &str = "Invalid value";

/// An answer with its shape: the status it leaves with and its body, as it is written.
#[derive(Debug, Clone)]
pub struct Shaped {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Shaped {
    pub(super) fn new(status: u16, body: &Node) -> Self {
        Self { status, body: body.to_bytes() }
    }
}

/// Who asked, how, and what may be told.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    pub binding: Binding,
    pub is_post: bool,
    pub gate: Gate<'a>,
    /// The versions of the interface, in its order; empty if unknown (E-7).
    pub offered: &'a [String],
    /// Seconds of the host's `Retry-After` (E-3).
    pub retry_after: Option<u64>,
    pub cap: usize,
    /// A 0.3 request on the HTTP+JSON binding: clients of 0.3 agree on no body, so it says everything
    /// (I-3).
    pub merged: bool,
}

/// Optional members that the rules add to what a host said. For E-9 those it lacks stay away.
#[derive(Debug, Clone, Copy)]
pub struct Additions {
    pub requested: bool,
    pub supported_versions: bool,
    pub retry_info: bool,
}

impl Additions {
    pub const ALL: Self = Self { requested: true, supported_versions: true, retry_info: true };

    /// Only what the host said itself.
    #[must_use]
    pub fn of_host(fault: &Fault) -> Self {
        let has = |key: &str| fault.metadata.iter().any(|(name, _)| &**name == key);
        Self {
            requested: has("requested"),
            supported_versions: has("supportedVersions"),
            retry_info: fault.details.iter().any(|(kind, _)| &**kind == RETRY_INFO),
        }
    }
}

impl Frame<'_> {
    fn call(&self) -> &Call {
        self.gate.call
    }

    /// Gives a fault its shape.
    #[must_use]
    pub fn shape(&self, fault: &Fault, additions: Additions, outcome: &mut Outcome) -> Shaped {
        let (status, body) = self.tree(fault, additions, outcome);
        Shaped::new(status, &body)
    }

    /// The same before it is written.
    #[must_use]
    pub fn tree(&self, fault: &Fault, additions: Additions, outcome: &mut Outcome) -> (u16, Node) {
        let message = self.message(fault, outcome);
        let details = self.details(fault, additions, outcome);
        outcome.reason = Some(reason(fault));
        match self.binding {
            Binding::JsonRpc => {
                outcome.rules.insert(Rule::E1);
                let status = self.rpc_status(fault);
                if self.is_post && (status != fault.status || matches!(fault.kind, Kind::Refusal(_))) {
                    outcome.rules.insert(Rule::E2);
                }
                (status, rpc_error(&self.call().id, code(fault.kind), message, details))
            }
            Binding::HttpJson => {
                outcome.rules.insert(Rule::E4);
                let (status, word) = http_status(fault);
                let body = http_error(status, word, message.clone(), details);
                (status, if self.merged { merged(body, fault.kind, message) } else { body })
            }
        }
    }

    /// E-2: answers to a POST leave with 200 but for refusals and the host's own failures.
    fn rpc_status(&self, fault: &Fault) -> u16 {
        match fault.kind {
            Kind::Refusal(refusal) => refusal.status(),
            _ if !self.is_post => fault.status,
            Kind::A2a(_) => 200,
            _ if (500..600).contains(&fault.status) || Refusal::from_status(fault.status).is_some() => {
                fault.status
            }
            _ => 200,
        }
    }

    /// D-1: the host's message if this error may have one and it is harmless, else the canonical text.
    fn message(&self, fault: &Fault, outcome: &mut Outcome) -> Text {
        let canonical = match fault.kind {
            Kind::A2a(error) => error.message(),
            // C-2's answer, behind a second proxy, is still that answer (E-5).
            Kind::Rpc(RpcError::Internal) if fault.message.as_deref() == Some(OVERFLOW) => OVERFLOW,
            Kind::Rpc(error) => error.message(),
            Kind::Refusal(refusal) => refusal.message(),
            Kind::Code(-32000) => {
                let refusal =
                    Refusal::ALL.iter().find(|r| fault.openwop_reason.as_deref() == Some(r.reason()));
                refusal.map_or(SERVER_ERROR, |r| r.message())
            }
            Kind::Code(_) => UNKNOWN_CODE,
        };
        let fixed = match fault.kind {
            Kind::A2a(error) => error == A2aError::TaskNotFound,
            Kind::Rpc(error) => !matches!(error, RpcError::MethodNotFound | RpcError::InvalidParams),
            Kind::Refusal(_) => true,
            Kind::Code(code) => code == -32000,
        };
        match &fault.message {
            Some(message) if !fixed && self.gate.admits(message) => Text::from(&**message),
            Some(message) => {
                if **message != *canonical {
                    outcome.rules.insert(Rule::D1);
                    outcome.drop_field(DroppedKind::Message, None);
                }
                Text::const_new(canonical)
            }
            None => Text::const_new(canonical),
        }
    }

    /// The typed details, ErrorInfo first.
    pub(super) fn details(&self, fault: &Fault, additions: Additions, outcome: &mut Outcome) -> Vec<Node> {
        let mut details = Vec::new();
        let invalid_params = fault.kind == Kind::Rpc(RpcError::InvalidParams);
        if let Some((reason, domain)) = self.error_info(fault) {
            let metadata = self.metadata(fault, additions, outcome);
            details.push(error_info(Node::String(reason), domain, metadata));
        } else {
            for (name, _) in &fault.metadata {
                outcome.rules.insert(Rule::D2);
                outcome.drop_field(DroppedKind::Metadata, Some(name));
            }
        }
        let retry = self.retry_after.filter(|_| additions.retry_info && !invalid_params).map(|seconds| {
            Node::object([
                ("@type", Node::word(RETRY_INFO)),
                ("retryDelay", Node::string(&format!("{seconds}s"))),
            ])
        });
        let host_has_retry = fault.details.iter().any(|(kind, _)| &**kind == RETRY_INFO);
        if let (Some(retry), false) = (&retry, host_has_retry) {
            outcome.rules.insert(Rule::E3);
            details.push(retry.clone());
        }
        let mut has_bad_request = false;
        let mut has_retry = false;
        for (kind, detail) in &fault.details {
            let kept = match &**kind {
                BAD_REQUEST => self.bad_request(&typed_violations(detail), outcome),
                _ if invalid_params => None,
                RETRY_INFO if has_retry => None,
                RETRY_INFO => retry.clone().or_else(|| retry_info(detail)),
                PRECONDITION_FAILURE => self.violations(kind, detail, &["type", "subject", "description"]),
                QUOTA_FAILURE => self.violations(kind, detail, &["subject", "description"]),
                LOCALIZED_MESSAGE => self.localized(detail),
                other => self.configured(other, detail),
            };
            has_bad_request |= &**kind == BAD_REQUEST && kept.is_some();
            has_retry |= &**kind == RETRY_INFO && kept.is_some();
            if kept.is_none() {
                outcome.rules.insert(Rule::E5);
                outcome.drop_field(DroppedKind::Detail, None);
            }
            details.extend(kept);
        }
        if !has_bad_request && !fault.violations.is_empty() {
            outcome.rules.insert(Rule::E5);
            details.extend(self.bad_request(&fault.violations, outcome));
        }
        if let Some(profile) = &fault.profile {
            outcome.rules.insert(Rule::E8);
            details.push(Node::object([("@type", Node::word(STRUCT)), ("value", profile.clone())]));
        }
        details
    }

    /// The reason and domain of the one ErrorInfo, if this error has one (E-1, E-4).
    fn error_info(&self, fault: &Fault) -> Option<(Text, &'static str)> {
        match (fault.kind, fault.openwop_reason.as_deref()) {
            (Kind::A2a(error), _) => Some((error.reason().into(), DOMAIN)),
            (Kind::Refusal(refusal), _) => Some((refusal.reason().into(), OPENWOP_DOMAIN)),
            (_, Some(reason)) => Some((reason.into(), OPENWOP_DOMAIN)),
            (Kind::Rpc(error), None) if self.binding == Binding::HttpJson => {
                Some((error.http_reason().into(), DOMAIN))
            }
            (Kind::Rpc(_) | Kind::Code(_), None) => None,
        }
    }

    /// D-2, E-6, E-7: the metadata that may leave.
    fn metadata(&self, fault: &Fault, additions: Additions, outcome: &mut Outcome) -> Vec<(Text, Node)> {
        let mut metadata: Vec<(Text, Node)> = Vec::new();
        let version = fault.kind == Kind::A2a(A2aError::VersionNotSupported);
        if version {
            outcome.rules.insert(Rule::E7);
            let versions = self.versions(fault);
            if additions.supported_versions && !versions.is_empty() {
                metadata.push(("supportedVersions".into(), Node::string(&versions)));
            }
            if let Some(requested) = self.gate.version.filter(|_| additions.requested) {
                metadata.push(("requested".into(), Node::string(requested)));
            }
        }
        if matches!(fault.kind, Kind::Refusal(_)) {
            return metadata;
        }
        for (name, value) in &fault.metadata {
            if version && matches!(&**name, "supportedVersions" | "supported" | "requested") {
                continue;
            }
            // Behind a second proxy a list of versions would make a wrong version of another error (F-7, E-5).
            let misleads = &**name == "supportedVersions" && !matches!(fault.kind, Kind::A2a(_));
            let kept = value
                .as_ref()
                .filter(|v| !misleads && admits_metadata(name, v, self.gate.disclosure, self.call()));
            match kept {
                Some(value) if !metadata.iter().any(|(n, _)| **n == **name) => {
                    metadata.push(((&**name).into(), Node::string(value)));
                }
                _ => {
                    outcome.rules.insert(Rule::D2);
                    outcome.drop_field(DroppedKind::Metadata, Some(name));
                }
            }
        }
        metadata
    }

    /// E-7: the host's list cut with the interface's, in the interface's order; else the interface's.
    fn versions(&self, fault: &Fault) -> String {
        if self.offered.is_empty() {
            let plain = fault.versions.iter().map(|v| &**v).filter(|v| is_version(v));
            return plain.collect::<Vec<_>>().join(",");
        }
        let both: Vec<&str> = self
            .offered
            .iter()
            .map(String::as_str)
            .filter(|offered| fault.versions.iter().any(|v| &**v == *offered))
            .collect();
        if both.is_empty() { self.offered.join(",") } else { both.join(",") }
    }

    /// A BadRequest of these violations, each description gated (D-1, E-5).
    fn bad_request(&self, violations: &[Violation], outcome: &mut Outcome) -> Option<Node> {
        let rows: Vec<Node> = violations
            .iter()
            .filter(|v| !v.field.is_empty() || !v.description.is_empty())
            .map(|violation| {
                let mut row = Vec::with_capacity(2);
                if is_field_path(&violation.field) {
                    row.push(("field".into(), Node::string(&violation.field)));
                }
                if !violation.description.is_empty() {
                    let admitted = self.gate.admits(&violation.description);
                    if !admitted && violation.description != INVALID_VALUE {
                        outcome.rules.insert(Rule::D1);
                        outcome.drop_field(DroppedKind::Message, None);
                    }
                    let text = if admitted { &violation.description } else { INVALID_VALUE };
                    row.push(("description".into(), Node::string(text)));
                }
                Node::Object(row)
            })
            .filter(|row| !row.members().is_empty())
            .collect();
        (!rows.is_empty()).then(|| {
            Node::object([("@type", Node::word(BAD_REQUEST)), ("fieldViolations", Node::Array(rows))])
        })
    }

    /// A detail that is a list of violations: known members, harmless texts.
    fn violations(&self, kind: &str, detail: &Node, members: &[&str]) -> Option<Node> {
        let rows: Vec<Node> = detail
            .get("violations")?
            .elements()
            .iter()
            .map(|row| {
                let all = row.members();
                // Of doubled members the last one counts (F-6).
                let is_last =
                    |n: usize, name: &str| !all.iter().skip(n + 1).any(|(other, _)| **other == *name);
                let kept = all.iter().enumerate().filter(|(n, (name, value))| {
                    members.contains(&&**name)
                        && is_last(*n, name)
                        && value.as_str().is_some_and(|text| self.gate.admits(text))
                });
                Node::Object(kept.map(|(_, member)| member.clone()).collect())
            })
            .filter(|row| !row.members().is_empty())
            .collect();
        (!rows.is_empty())
            .then(|| Node::object([("@type", Node::string(kind)), ("violations", Node::Array(rows))]))
    }

    fn localized(&self, detail: &Node) -> Option<Node> {
        let message = detail.get("message").and_then(Node::as_str).filter(|m| self.gate.admits(m))?;
        let is_locale = |l: &&str| l.len() <= 35 && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let locale = detail.get("locale").and_then(Node::as_str).filter(is_locale);
        let mut members = vec![("@type".into(), Node::word(LOCALIZED_MESSAGE))];
        members.extend(locale.map(|l| ("locale".into(), Node::string(l))));
        members.push(("message".into(), Node::string(message)));
        Some(Node::Object(members))
    }

    /// A type that the operator names, kept whole if every parser reads it the same.
    fn configured(&self, kind: &str, detail: &Node) -> Option<Node> {
        let named = self.gate.disclosure.detail_types.iter().any(|t| full_type(t) == kind);
        if !named || detail.has_duplicates() || !is_plain(detail) {
            return None;
        }
        let members = detail.members().iter().map(|(name, value)| {
            let value = if &**name == "@type" { Node::string(kind) } else { value.clone() };
            (name.clone(), value)
        });
        Some(Node::Object(members.collect()))
    }

    /// The fixed TASK_NOT_FOUND, built from the request alone (O-1, O-2): its status and its body.
    #[must_use]
    pub fn not_found(&self, outcome: &mut Outcome) -> (u16, Node) {
        let call = self.call();
        let task = call.task.as_ref().and_then(|t: &Task| t.json.as_deref());
        let build = |id: &Id, task: Option<&str>| {
            let metadata = task.map(|json| ("taskId".into(), Node::Raw(json.into())));
            let reason = Node::word(A2aError::TaskNotFound.reason());
            let details = vec![error_info(reason, DOMAIN, metadata.into_iter().collect())];
            let message = A2aError::TaskNotFound.message().into();
            match self.binding {
                Binding::JsonRpc => (200, rpc_error(id, A2aError::TaskNotFound.code(), message, details)),
                Binding::HttpJson => {
                    let word = A2aError::TaskNotFound.status_word();
                    let body = http_error(404, word, message.clone(), details);
                    let kind = Kind::A2a(A2aError::TaskNotFound);
                    (404, if self.merged { merged(body, kind, message) } else { body })
                }
            }
        };
        outcome.reason = Some(A2aError::TaskNotFound.reason());
        outcome.not_found = true;
        let fits = |(_, body): &(u16, Node)| body.fits(self.cap);
        let mut answer = build(&call.id, task);
        if call.id == Id::TooLong || !fits(&answer) {
            outcome.rules.insert(Rule::O2);
            answer = build(&call.id, None);
            if !fits(&answer) {
                answer = build(&Id::Null, None);
            }
        }
        answer
    }

    /// A fault whose id alone would take it over the cap: code and text, no id, no details.
    #[must_use]
    pub fn without_id(&self, fault: &Fault) -> Shaped {
        let bare = Call::default();
        let gate = Gate { call: &bare, ..self.gate };
        let frame = Frame { gate, retry_after: None, ..*self };
        frame.shape(&Fault::new(fault.kind, fault.status), Additions::ALL, &mut Outcome::default())
    }

    /// The answer in place of one that is larger than the cap (C-2).
    #[must_use]
    pub fn overflow(&self, host_status: u16) -> Shaped {
        match self.binding {
            Binding::JsonRpc => {
                let status = self.rpc_status(&Fault::new(Kind::Rpc(RpcError::Internal), host_status));
                let build = |id: &Id| {
                    Shaped::new(
                        status,
                        &rpc_error(id, RpcError::Internal.code(), OVERFLOW.into(), Vec::new()),
                    )
                };
                let shaped = build(&self.call().id);
                if shaped.body.len() <= self.cap { shaped } else { build(&Id::Null) }
            }
            Binding::HttpJson => {
                let status = if (400..600).contains(&host_status) { host_status } else { 500 };
                let body = http_error(status, status_word(status), OVERFLOW.into(), Vec::new());
                let kind = Kind::Rpc(RpcError::Internal);
                let body = if self.merged { merged(body, kind, OVERFLOW.into()) } else { body };
                Shaped::new(status, &body)
            }
        }
    }
}

/// The code on the JSON-RPC binding.
fn code(kind: Kind) -> i64 {
    match kind {
        Kind::A2a(error) => error.code(),
        Kind::Rpc(error) => error.code(),
        Kind::Refusal(refusal) => refusal.code(),
        Kind::Code(code) => code,
    }
}

/// Status and google.rpc.Code on the HTTP+JSON binding (E-4).
fn http_status(fault: &Fault) -> (u16, &'static str) {
    let own = fault.status;
    match fault.kind {
        Kind::A2a(error) => (error.http_status(), error.status_word()),
        Kind::Refusal(refusal) => (refusal.status(), refusal.status_word()),
        Kind::Rpc(RpcError::MethodNotFound) if own == 405 => (405, status_word(405)),
        Kind::Rpc(RpcError::Internal) if (500..600).contains(&own) => (own, status_word(own)),
        Kind::Rpc(error) => (error.http_status(), status_word(error.http_status())),
        Kind::Code(_) => {
            let status = if (400..600).contains(&own) { own } else { 500 };
            (status, status_word(status))
        }
    }
}

/// The reason operators count, from a closed list.
#[must_use]
pub fn reason(fault: &Fault) -> &'static str {
    match (fault.kind, &fault.openwop_reason) {
        (Kind::A2a(error), _) => error.reason(),
        (Kind::Refusal(refusal), _) => refusal.reason(),
        (_, Some(_)) => "OPENWOP",
        (Kind::Rpc(RpcError::Parse), None) => "PARSE_ERROR",
        (Kind::Rpc(error), None) => error.http_reason(),
        (Kind::Code(_), None) => "OTHER_CODE",
    }
}

pub(super) fn error_info(reason: Node, domain: &'static str, metadata: Vec<(Text, Node)>) -> Node {
    let mut members = Vec::with_capacity(4);
    members.push(("@type".into(), Node::word(ERROR_INFO)));
    members.push(("reason".into(), reason));
    members.push(("domain".into(), Node::word(domain)));
    if !metadata.is_empty() {
        members.push(("metadata".into(), Node::Object(metadata)));
    }
    Node::Object(members)
}

/// E-1: members in this order.
fn rpc_error(id: &Id, code: i64, message: Text, data: Vec<Node>) -> Node {
    let mut error = Vec::with_capacity(3);
    error.push(("code".into(), Node::integer(code)));
    error.push(("message".into(), Node::String(message)));
    if !data.is_empty() {
        error.push(("data".into(), Node::Array(data)));
    }
    Node::object([
        ("jsonrpc", Node::word("2.0")),
        ("id", Node::Raw(id.as_json().into())),
        ("error", Node::Object(error)),
    ])
}

/// E-4: members in this order.
fn http_error(status: u16, word: &'static str, message: Text, details: Vec<Node>) -> Node {
    let mut error = Vec::with_capacity(4);
    error.push(("code".into(), Node::integer(i64::from(status))));
    error.push(("status".into(), Node::word(word)));
    error.push(("message".into(), Node::String(message)));
    if !details.is_empty() {
        error.push(("details".into(), Node::Array(details)));
    }
    Node::object([("error", Node::Object(error))])
}

/// The Status body with what the 0.3 clients look for beside it: `code` and `message` (JS), `type` and
/// `message` (Python).
fn merged(body: Node, kind: Kind, message: Text) -> Node {
    let Node::Object(mut members) = body else { return body };
    members.push(("code".into(), Node::integer(code(kind))));
    let name = match kind {
        Kind::A2a(error) => Some(error.name()),
        Kind::Rpc(error) => Some(error.name()),
        Kind::Refusal(_) | Kind::Code(_) => None,
    };
    members.extend(name.map(|name| ("type".into(), Node::word(name))));
    members.push(("message".into(), Node::String(message)));
    Node::Object(members)
}

fn typed_violations(detail: &Node) -> Vec<Violation> {
    let rows = detail.get("fieldViolations").or_else(|| detail.get("field_violations"));
    let text = |row: &Node, name: &str| row.get(name).and_then(Node::as_str).unwrap_or_default().to_owned();
    rows.map_or(&[][..], Node::elements)
        .iter()
        .map(|row| Violation { field: text(row, "field"), description: text(row, "description") })
        .collect()
}

/// A RetryInfo whose delay is a duration: `2s`, `0.5s`.
fn retry_info(detail: &Node) -> Option<Node> {
    let delay = detail.get("retryDelay").and_then(Node::as_str)?;
    let number = delay.strip_suffix('s')?;
    let (seconds, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits =
        |t: &str, max: usize| !t.is_empty() && t.len() <= max && t.bytes().all(|b| b.is_ascii_digit());
    (digits(seconds, 12) && digits(fraction, 9))
        .then(|| Node::object([("@type", Node::word(RETRY_INFO)), ("retryDelay", Node::string(delay))]))
}

/// Nothing in it that parsers read differently.
fn is_plain(node: &Node) -> bool {
    match node {
        Node::Null | Node::Bool(_) => true,
        Node::String(text) => !text.contains('\u{fffd}'),
        Node::Number(raw) => raw.bytes().find(|b| *b != b'-').is_some_and(|b| b.is_ascii_digit()),
        Node::Array(elements) => elements.iter().all(is_plain),
        Node::Object(members) => members.iter().all(|(_, value)| is_plain(value)),
        Node::Raw(_) | Node::Opaque => false,
    }
}

/// Whether a value is what this raw token says.
#[must_use]
pub fn is_token(token: &str, value: &Node) -> bool {
    match (token.starts_with('"'), value) {
        (true, Node::String(text)) => decode_string(token.as_bytes()).0 == **text,
        (false, Node::Number(raw)) => token == raw,
        (false, Node::Null) => token == "null",
        _ => false,
    }
}

/// Whether a host's answer says exactly what ours would, members in any order (E-9). An empty metadata
/// map is none.
#[must_use]
pub fn says_the_same(ours: &Node, theirs: &Node) -> bool {
    match (ours, theirs) {
        (Node::Raw(token), theirs) => is_token(token, theirs),
        (Node::Array(ours), Node::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| says_the_same(a, b))
        }
        (Node::Object(ours), Node::Object(theirs)) => {
            let spare = |(name, value): &&(Text, Node)| {
                &**name == "metadata" && matches!(value, Node::Object(m) if m.is_empty())
            };
            let theirs: Vec<&(Text, Node)> = theirs.iter().filter(|m| !spare(m)).collect();
            ours.len() == theirs.len()
                && ours
                    .iter()
                    .all(|(name, value)| theirs.iter().any(|(n, v)| n == name && says_the_same(value, v)))
        }
        _ => ours == theirs,
    }
}
