//! From evidence to one fault: what went wrong, in the proxy's own canonical form (sections 3 and 5,
//! F-1 to F-10 and O-3).

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

use super::call::Call;
use super::decode::{CodeSpelling, EnvelopeCode, Evidence, Shape, Violation, openwop_forbids, own_error};
use super::outcome::{Rule, RuleSet};
use super::version::same_version;
use super::{Binding, Policy};
use crate::protocol::a2a::{A2aError, Operation};
use crate::protocol::json_rpc::RpcError;
use crate::protocol::openwop::{self, CodeKind};
use crate::protocol::tree::{Node, Text};

/// A refusal that the HTTP status tells: it stays one on both bindings (F-1, E-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Unauthenticated,
    ProxyUnauthenticated,
    PermissionDenied,
    PayloadTooLarge,
    RateLimited,
}

impl Refusal {
    pub const ALL: [Self; 5] = [
        Self::Unauthenticated,
        Self::ProxyUnauthenticated,
        Self::PermissionDenied,
        Self::PayloadTooLarge,
        Self::RateLimited,
    ];

    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::Unauthenticated => 401,
            Self::ProxyUnauthenticated => 407,
            Self::PermissionDenied => 403,
            Self::PayloadTooLarge => 413,
            Self::RateLimited => 429,
        }
    }

    #[must_use]
    pub fn from_status(status: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.status() == status)
    }

    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Unauthenticated | Self::ProxyUnauthenticated => "UNAUTHENTICATED",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::PayloadTooLarge => "PAYLOAD_TOO_LARGE",
            Self::RateLimited => "RATE_LIMITED",
        }
    }

    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::Unauthenticated | Self::ProxyUnauthenticated => "Authentication required",
            Self::PermissionDenied => "Permission denied",
            Self::PayloadTooLarge => "Request too large",
            Self::RateLimited => "Too many requests",
        }
    }

    #[must_use]
    pub fn code(self) -> i64 {
        if self == Self::PayloadTooLarge { -32600 } else { -32000 }
    }

    #[must_use]
    pub fn status_word(self) -> &'static str {
        match self {
            Self::Unauthenticated | Self::ProxyUnauthenticated => "UNAUTHENTICATED",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::PayloadTooLarge => "INVALID_ARGUMENT",
            Self::RateLimited => "RESOURCE_EXHAUSTED",
        }
    }
}

/// Which error a fault is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    A2a(A2aError),
    Rpc(RpcError),
    Refusal(Refusal),
    /// A code nobody registered, kept (F-3).
    Code(i64),
}

/// One error, before anything is held back (section 5) and before it has a shape (section 4).
#[derive(Debug, Clone)]
pub struct Fault {
    pub kind: Kind,
    /// The HTTP status the fault stands for: the host's own, or the one its body names.
    pub status: u16,
    /// The reason of an `openwop.dev` ErrorInfo.
    pub openwop_reason: Option<Text>,
    /// The host's message, if this kind of body may give one.
    pub message: Option<Text>,
    pub metadata: Vec<(Text, Option<Text>)>,
    pub versions: Vec<Text>,
    pub violations: Vec<Violation>,
    pub details: Vec<(Text, Node)>,
    pub profile: Option<Node>,
}

impl Fault {
    #[must_use]
    pub fn new(kind: Kind, status: u16) -> Self {
        Self {
            kind,
            status,
            openwop_reason: None,
            message: None,
            metadata: Vec::new(),
            versions: Vec::new(),
            violations: Vec::new(),
            details: Vec::new(),
            profile: None,
        }
    }
}

/// What becomes of an answer.
#[derive(Debug)]
pub enum Decision {
    /// No error: it passes (I-4).
    Pass,
    /// The fixed TASK_NOT_FOUND (O-1), and what collapsed into it; `None` if the host said just that.
    NotFound(Option<&'static str>),
    Fault(Box<Fault>),
}

/// What the evidence is weighed against.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    pub binding: Binding,
    /// The request was a POST: the JSON-RPC method of calling.
    pub is_post: bool,
    pub call: &'a Call,
    pub policy: &'a Policy,
    /// The request's `A2A-Version`, if it has one.
    pub requested: Option<&'a str>,
    /// The versions the interface offers; empty if unknown.
    pub offered: &'a [String],
    pub status: u16,
    pub headers: &'a HeaderMap,
}

/// How much of the body there was to judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// The host broke off (C-5).
    CutOff,
    /// More than the intake (C-3); the evidence is what the part that was read says.
    OverIntake,
}

/// The body could not be read to its end, and what was read of it decides nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecided;

/// Weighs everything in the order of section 3.
///
/// # Errors
/// The body is incomplete and neither status nor code says enough: C-2 or C-5 answer.
pub fn decide(
    evidence: Evidence,
    extent: Extent,
    setting: &Setting<'_>,
    rules: &mut RuleSet,
) -> Result<Decision, Undecided> {
    let judge = Judge { setting, named: setting.call.task.is_some() };
    judge.decide(evidence, extent, rules)
}

struct Judge<'a> {
    setting: &'a Setting<'a>,
    /// The call is task-addressed.
    named: bool,
}

impl Judge<'_> {
    fn decide(&self, evidence: Evidence, extent: Extent, rules: &mut RuleSet) -> Result<Decision, Undecided> {
        let status = self.setting.status;
        // F-1: the status decides, whatever the body says, and however much of it came.
        let refusal = Refusal::from_status(status);
        // Of a 403 it depends on whether a task is named, see below.
        if let Some(refusal) = refusal.filter(|refusal| *refusal != Refusal::PermissionDenied) {
            rules.insert(Rule::F1);
            return Ok(refuse(refusal, evidence));
        }
        let whole = extent == Extent::Whole;
        let version = whole && self.is_version_refusal(&evidence, rules);
        if status == 403 && !version {
            if self.named && !self.keeps_scope() {
                return Ok(collapse("status_403", rules));
            }
            rules.insert(Rule::F1);
            return Ok(refuse(Refusal::PermissionDenied, evidence));
        }
        if !whole {
            return self.decide_incomplete(evidence, extent, rules);
        }
        if version {
            return Ok(self.version_refusal(evidence));
        }
        Ok(self.by_body(evidence, rules))
    }

    /// The body decides, and the status where the body says nothing.
    fn by_body(&self, evidence: Evidence, rules: &mut RuleSet) -> Decision {
        let status = self.setting.status;
        if evidence.shape == Shape::Result && self.setting.binding == Binding::JsonRpc {
            return Decision::Pass;
        }
        // O-3: 404 and 410 collapse unless a JSON-RPC body explains them.
        if self.named && matches!(status, 404 | 410) {
            let explained = evidence.shape == Shape::RpcError
                && evidence.has_jsonrpc
                && matches!(evidence.code, CodeSpelling::Integer(code) if code != -32001);
            if !explained {
                let plain = evidence.a2a == Some(A2aError::TaskNotFound);
                let cause = if status == 404 { "status_404" } else { "status_410" };
                return if plain { not_found(rules) } else { collapse(cause, rules) };
            }
        }
        if evidence.shape == Shape::Envelope {
            return self.envelope(evidence, rules);
        }
        let speaks = matches!(evidence.shape, Shape::RpcError | Shape::FlatError | Shape::RpcStatus)
            || evidence.a2a.is_some() && evidence.shape == Shape::Other;
        if !speaks {
            return self.by_status(evidence, rules);
        }
        self.by_code(evidence, rules)
    }

    /// The body speaks for itself, by reason or code.
    fn by_code(&self, evidence: Evidence, rules: &mut RuleSet) -> Decision {
        let status = self.setting.status;
        if self.setting.binding == Binding::HttpJson && status < 400 && !is_moved(&evidence) {
            return Decision::Pass;
        }
        let forbidden = evidence.says_forbidden || evidence.code == CodeSpelling::Integer(-31403);
        if self.named && forbidden {
            return collapse("reason_forbidden", rules);
        }
        let kind = if let Some(error) = evidence.a2a {
            rules.insert(Rule::F2);
            Kind::A2a(error)
        } else if evidence.shape == Shape::RpcStatus && !names_error(evidence.code) {
            let inner = if status >= 400 { status } else { evidence.inner_status.unwrap_or(500) };
            match (evidence.rpc_reason, Refusal::from_status(inner)) {
                (Some(error), _) => Kind::Rpc(error),
                (None, Some(Refusal::PermissionDenied)) if self.named => {
                    return collapse("reason_forbidden", rules);
                }
                (None, Some(refusal)) => Kind::Refusal(refusal),
                (None, None) if self.named && matches!(inner, 404 | 410) => {
                    return collapse("status_404", rules);
                }
                (None, None) if inner == 400 && says_params(&evidence) => Kind::Rpc(RpcError::InvalidParams),
                (None, None) => kind_of_status(inner),
            }
        } else {
            match evidence.code {
                CodeSpelling::Integer(code) => of_code(code),
                CodeSpelling::Absent | CodeSpelling::Unreadable => Kind::Rpc(RpcError::Internal),
            }
        };
        if !matches!(kind, Kind::Refusal(_)) && evidence.a2a.is_none() {
            rules.insert(Rule::F3);
        }
        let is_server_error = kind == Kind::Code(-32000);
        let is_http = self.setting.binding == Binding::HttpJson;
        // That binding has no place for a code of one's own: the status says what there is to say.
        let kind = match kind {
            Kind::Code(_) if is_http => {
                kind_of_status(if status >= 400 { status } else { evidence.inner_status.unwrap_or(500) })
            }
            kind => kind,
        };
        let has_reason = evidence.openwop_reason.is_some();
        let (kind, openwop_reason) = self.with_reason(kind, evidence.openwop_reason);
        if status >= 400 && matches!(kind, Kind::A2a(_)) {
            rules.insert(Rule::F10);
        }
        if kind == Kind::A2a(A2aError::TaskNotFound) && self.named {
            return not_found(rules);
        }
        if kind == Kind::Rpc(RpcError::InvalidParams) && self.hides_invalid_params() {
            return collapse("invalid_params", rules);
        }
        let status = match (kind, evidence.inner_status) {
            (Kind::Refusal(refusal), _) => refusal.status(),
            (_, Some(inner)) if status < 400 && self.setting.binding == Binding::HttpJson => inner,
            _ => status,
        };
        let speaks_openly = evidence.shape != Shape::Other
            && (evidence.shape != Shape::RpcStatus
                || evidence.a2a.is_some()
                || evidence.rpc_reason.is_some()
                || has_reason);
        let message = if speaks_openly { evidence.message } else { None };
        fault(Fault {
            kind,
            status,
            openwop_reason,
            message,
            metadata: evidence.metadata,
            versions: evidence.versions,
            violations: evidence.violations,
            details: evidence.details,
            profile: evidence.profile.filter(|_| is_server_error || is_http && !matches!(kind, Kind::A2a(_))),
        })
    }

    /// The HTTP status an envelope's code stands for: where nobody registered it the answer's own, but
    /// for the codes that the table itself names.
    fn class(&self, code: &str, kind: CodeKind) -> u16 {
        let own = self.setting.status;
        match kind {
            CodeKind::Unregistered(_) if own >= 400 && !openwop::UNREADABLE.contains(&code) => own,
            CodeKind::Known(class) | CodeKind::Unregistered(class) => class,
            CodeKind::Vendor if own >= 400 => own,
            CodeKind::Vendor => 500,
        }
    }

    /// The table of section 3.
    fn envelope(&self, evidence: Evidence, rules: &mut RuleSet) -> Decision {
        rules.insert(Rule::F4);
        let Some(EnvelopeCode { code, kind }) = &evidence.envelope else { return Decision::Pass };
        let own = self.setting.status;
        let class = self.class(code, *kind);
        let operation = self.setting.call.operation;
        let unreadable = openwop::UNREADABLE.contains(&&**code);
        if self.named && unreadable {
            return if &**code == "task_not_found" { not_found(rules) } else { collapse("envelope", rules) };
        }
        let reason = openwop::reason(code);
        // A vendor's code may be another's reason, and read as that behind a second proxy (E-5).
        if self.named && (class == 403 || openwop_forbids(&reason)) {
            return collapse("envelope", rules);
        }
        let kind = match &**code {
            "not_found" if operation == Some(Operation::GetExtendedAgentCard) => {
                Kind::A2a(A2aError::ExtendedAgentCardNotConfigured)
            }
            "run_terminal" if operation == Some(Operation::CancelTask) => {
                Kind::A2a(A2aError::TaskNotCancelable)
            }
            "capability_required" | "capability_not_provided"
                if operation.is_some_and(Operation::is_push) =>
            {
                Kind::A2a(A2aError::PushNotificationNotSupported)
            }
            "run_terminal" | "capability_required" | "capability_not_provided" => {
                Kind::A2a(A2aError::UnsupportedOperation)
            }
            "unsupported_media_type" => Kind::A2a(A2aError::ContentTypeNotSupported),
            _ => match class {
                400 | 422 => Kind::Rpc(RpcError::InvalidParams),
                // F-8: on a call that names a task the method is there.
                404 if !self.named => {
                    rules.insert(Rule::F8);
                    Kind::Rpc(RpcError::MethodNotFound)
                }
                500.. => Kind::Rpc(RpcError::Internal),
                _ => Refusal::from_status(class).map_or(Kind::Rpc(RpcError::InvalidRequest), Kind::Refusal),
            },
        };
        let (kind, openwop_reason) = self.with_reason(kind, Some(reason.into()));
        if kind == Kind::Rpc(RpcError::InvalidParams) && self.hides_invalid_params() {
            return collapse("invalid_params", rules);
        }
        let status = match kind {
            Kind::Refusal(refusal) => refusal.status(),
            _ if own >= 400 => own,
            _ if self.setting.binding == Binding::HttpJson => class,
            _ => own,
        };
        fault(Fault { openwop_reason, message: evidence.message, ..Fault::new(kind, status) })
    }

    /// What an OpenWOP reason makes of an error, and the reason if it may leave beside it.
    fn with_reason(&self, kind: Kind, reason: Option<Text>) -> (Kind, Option<Text>) {
        let Some(reason) = reason else { return (kind, None) };
        let is_http = self.setting.binding == Binding::HttpJson;
        let kind = if is_http { told_by_reason(kind, &reason) } else { kind };
        // A reason that the binding has for another error would be read as that one behind a second proxy (E-5).
        let names =
            |error: RpcError| matches!(kind, Kind::Rpc(own) if own.http_reason() == error.http_reason());
        let is_free = !is_http || own_error(&reason).is_none_or(names);
        let may_leave = is_free && !matches!(kind, Kind::A2a(_) | Kind::Refusal(_));
        (kind, Some(reason).filter(|_| may_leave))
    }

    /// F-5 and F-8: the status decides, and such a body gives field violations at most.
    fn by_status(&self, evidence: Evidence, rules: &mut RuleSet) -> Decision {
        let status = self.setting.status;
        let passes = match status {
            0..=199 | 300..=399 => true,
            200..=299 => {
                self.setting.binding == Binding::HttpJson
                    || !self.setting.is_post
                    || evidence.shape == Shape::Empty && matches!(status, 202 | 204 | 205)
            }
            _ => false,
        };
        if passes {
            return Decision::Pass;
        }
        rules.insert(if matches!(status, 404 | 405) { Rule::F8 } else { Rule::F5 });
        let kind = if status < 300 { Kind::Rpc(RpcError::Internal) } else { kind_of_status(status) };
        if kind == Kind::Rpc(RpcError::InvalidParams) && self.hides_invalid_params() {
            return collapse("invalid_params", rules);
        }
        fault(Fault { violations: evidence.violations, ..Fault::new(kind, status) })
    }

    /// O-3 and C-3 on a body that is not whole: its status, or, over the intake, what was read of it, if that
    /// says "not found" by itself.
    fn decide_incomplete(
        &self,
        evidence: Evidence,
        extent: Extent,
        rules: &mut RuleSet,
    ) -> Result<Decision, Undecided> {
        if self.named && self.setting.status == 404 {
            return Ok(collapse("status_404", rules));
        }
        if self.named && self.setting.status == 410 {
            return Ok(collapse("status_410", rules));
        }
        if extent == Extent::CutOff {
            return Err(Undecided);
        }
        let mut fired = *rules;
        if self.named && !self.is_version_refusal(&evidence, &mut fired) {
            let decision = self.by_body(evidence, &mut fired);
            if matches!(decision, Decision::NotFound(_)) {
                *rules = fired;
                return Ok(decision);
            }
        }
        // A redirect is judged only for what it may say of itself (F-5).
        if (300..400).contains(&self.setting.status) { Ok(Decision::Pass) } else { Err(Undecided) }
    }

    /// O-3: on these operations a -32602 on parameters that are in order says "not yours".
    fn hides_invalid_params(&self) -> bool {
        self.named
            && self.setting.call.well_formed
            && self.setting.call.operation.is_some_and(Operation::names_task)
    }

    /// O-3: a 403 about the caller's scope stays one, unless the operator says otherwise.
    fn keeps_scope(&self) -> bool {
        !self.setting.policy.oracle.collapse_scope && says_insufficient_scope(self.setting.headers)
    }

    /// F-2, F-3, F-7 and the table's version codes.
    fn is_version_refusal(&self, evidence: &Evidence, rules: &mut RuleSet) -> bool {
        if evidence.shape == Shape::Result || evidence.shape == Shape::Empty {
            return false;
        }
        if self.setting.binding == Binding::HttpJson && self.setting.status < 400 && !is_moved(evidence) {
            return false; // a success (I-4)
        }
        match (evidence.a2a, &evidence.envelope) {
            (Some(error), _) => {
                let is = error == A2aError::VersionNotSupported;
                if is {
                    rules.insert(Rule::F2);
                }
                return is;
            }
            (None, Some(envelope)) => {
                if matches!(
                    &*envelope.code,
                    "interop_version_unsupported"
                        | "protocol_version_unsupported"
                        | "protocol_version_mismatch"
                ) {
                    rules.insert(Rule::F4);
                    return true;
                }
            }
            (None, None) => {}
        }
        if evidence.code == CodeSpelling::Integer(-32009) {
            rules.insert(Rule::F3);
            return true;
        }
        // F-7: the wrong code, with the evidence of a version list, on a version that is not offered.
        let offers = |version: &str| self.setting.offered.iter().any(|v| same_version(v, version));
        let requested = self.setting.requested.unwrap_or("0.3");
        let envelope = evidence.envelope.as_ref().map(|e| e.kind);
        let weak = match evidence.code {
            CodeSpelling::Integer(code) => matches!(code, -32600 | -32602),
            CodeSpelling::Absent | CodeSpelling::Unreadable => {
                self.setting.status == 400 || matches!(envelope, Some(CodeKind::Known(400 | 422)))
            }
        };
        let is = weak && evidence.has_supported_versions && !offers(requested);
        if is {
            rules.insert(Rule::F7);
        }
        is
    }

    fn version_refusal(&self, evidence: Evidence) -> Decision {
        fault(Fault {
            message: evidence.message,
            metadata: evidence.metadata,
            versions: evidence.versions,
            details: evidence.details,
            ..Fault::new(Kind::A2a(A2aError::VersionNotSupported), self.setting.status)
        })
    }
}

/// E-4: which bodies on a 2xx of the HTTP+JSON binding are errors. A success never has an `error`
/// object with a code or a status word.
fn is_moved(evidence: &Evidence) -> bool {
    match evidence.shape {
        Shape::Envelope | Shape::RpcError => true,
        Shape::RpcStatus => {
            evidence.inner_status.is_some() || evidence.a2a.is_some() || evidence.code != CodeSpelling::Absent
        }
        _ => false,
    }
}

/// The host says itself that there is no such task.
fn not_found(rules: &mut RuleSet) -> Decision {
    rules.insert(Rule::O1);
    Decision::NotFound(None)
}

fn collapse(cause: &'static str, rules: &mut RuleSet) -> Decision {
    rules.insert(Rule::O1);
    rules.insert(Rule::O3);
    Decision::NotFound(Some(cause))
}

/// A refusal; of the body only typed details count.
fn refuse(refusal: Refusal, evidence: Evidence) -> Decision {
    fault(Fault { details: evidence.details, ..Fault::new(Kind::Refusal(refusal), refusal.status()) })
}

fn fault(fault: Fault) -> Decision {
    Decision::Fault(Box::new(fault))
}

/// Whether a Status body's `code` names an error: google.rpc.Code's numbers and HTTP statuses only say
/// again what the status word does.
fn names_error(code: CodeSpelling) -> bool {
    !matches!(code, CodeSpelling::Absent | CodeSpelling::Integer(0..=599))
}

/// Whether an OpenWOP reason on a 400, which is the status of several errors on HTTP+JSON, is about the
/// parameters: the registry tells, and of a vendor's only one text says otherwise (E-5).
fn says_params(evidence: &Evidence) -> bool {
    let Some(reason) = &evidence.openwop_reason else { return false };
    match openwop::status_of_reason(reason) {
        Some(status) => matches!(status, 400 | 422),
        None => evidence.message.as_deref() != Some(RpcError::InvalidRequest.message()),
    }
}

/// On HTTP+JSON an OpenWOP reason stands in place of what tells the errors of a 400 apart, so it decides which of them is
/// meant: here as behind a second proxy, which has nothing else to go by (E-5).
fn told_by_reason(kind: Kind, reason: &str) -> Kind {
    if matches!(kind, Kind::Rpc(_)) && reason == RpcError::InvalidParams.http_reason() {
        return Kind::Rpc(RpcError::InvalidParams);
    }
    match (kind, openwop::status_of_reason(reason)) {
        (
            Kind::Rpc(RpcError::Parse | RpcError::InvalidRequest | RpcError::InvalidParams),
            Some(400 | 422),
        ) => Kind::Rpc(RpcError::InvalidParams),
        (Kind::Rpc(RpcError::Parse | RpcError::InvalidRequest | RpcError::InvalidParams), Some(_))
        | (Kind::Rpc(RpcError::Parse), None) => Kind::Rpc(RpcError::InvalidRequest),
        (kind, _) => kind,
    }
}

/// F-3: a registered code is that error, another integer is kept.
fn of_code(code: i64) -> Kind {
    A2aError::from_code(code)
        .map(Kind::A2a)
        .or_else(|| RpcError::from_code(code).map(Kind::Rpc))
        .unwrap_or(Kind::Code(code))
}

/// F-5, F-8: what a status alone stands for.
#[must_use]
pub fn kind_of_status(status: u16) -> Kind {
    if let Some(refusal) = Refusal::from_status(status) {
        return Kind::Refusal(refusal);
    }
    Kind::Rpc(match status {
        404 | 405 => RpcError::MethodNotFound,
        422 => RpcError::InvalidParams,
        400..=499 => RpcError::InvalidRequest,
        _ => RpcError::Internal,
    })
}

/// RFC 6750 §3.1: a challenge with `error="insufficient_scope"`.
fn says_insufficient_scope(headers: &HeaderMap) -> bool {
    headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|v| v.to_str().ok()).any(|challenge| {
        challenge.split([',', ' ', '\t']).any(|parameter| {
            // `error = "x"` may have spaces around the sign; the value alone then is the parameter.
            let value = parameter.rsplit('=').next().unwrap_or(parameter);
            let is_error = match parameter.split_once('=') {
                Some((name, _)) => name.is_empty() || name.trim().eq_ignore_ascii_case("error"),
                None => parameter.starts_with('"') && parameter.ends_with('"'),
            };
            is_error && value.trim_matches('"').eq_ignore_ascii_case("insufficient_scope")
        })
    })
}
