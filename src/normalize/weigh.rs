//! Weighs one answer, or one event of a stream: from its evidence to what becomes of it.

use http::HeaderMap;

use super::call::{Call, Id};
use super::decode::Evidence;
use super::disclose::{self, Gate};
use super::encode::{self, Additions, Frame, Shaped, is_token, says_the_same};
use super::fault::{Decision, Extent, Fault, Kind, Setting, Undecided, decide};
use super::outcome::{DroppedKind, Rule, Verdict};
use super::{Binding, Exchange, Failure, Outcome};
use crate::protocol::tree::{self, Document, Node};

/// Why the host's body is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    End,
    Failed(Failure),
    Intake,
}

impl Over {
    pub(super) fn extent(self) -> Extent {
        match self {
            Self::End => Extent::Whole,
            Self::Failed(Failure::Closed | Failure::TimedOut) => Extent::CutOff,
            Self::Failed(Failure::NoRoom) | Self::Intake => Extent::OverIntake,
        }
    }
}

/// One answer, or one event of a stream, to be weighed.
pub(super) struct Material<'a> {
    pub(super) status: u16,
    pub(super) headers: &'a HeaderMap,
    /// Bytes of the body, decoded.
    pub(super) len: usize,
    /// There is a body and it is no JSON document.
    pub(super) unreadable: bool,
    pub(super) document: Option<&'a Document>,
    /// Its bytes are plain UTF-8, without a byte order mark.
    pub(super) is_utf8: bool,
    /// Its head and its encoding are those of an answer that may pass (E-9).
    pub(super) is_exact: bool,
    /// It has no status of its own: an event of a stream that has begun.
    pub(super) any_status: bool,
    pub(super) over: Over,
}

/// What becomes of it.
pub(super) enum Judged {
    /// No error.
    Pass,
    /// An error that says exactly what the rules allow (E-9).
    AsIs,
    Answer(Shaped),
    /// The host broke off and left nothing to go by (C-5).
    CutOff(Failure),
}

impl Exchange {
    /// Weighs one answer, or one event of a stream, and gives it its shape.
    pub(super) fn weigh(
        &self,
        call: &Call,
        evidence: Evidence,
        material: &Material<'_>,
        outcome: &mut Outcome,
    ) -> Judged {
        let policy = &self.policy;
        let offered = self.interface.as_deref().map_or(&[][..], |i| &i.versions);
        let setting = Setting {
            binding: self.binding,
            is_post: self.is_post,
            call,
            policy,
            requested: self.version.as_deref(),
            offered,
            status: material.status,
            headers: material.headers,
        };
        let frame = Frame {
            binding: self.binding,
            is_post: self.is_post,
            gate: Gate {
                disclosure: &policy.disclosure,
                call,
                version: self.version.as_deref(),
                path: &self.path,
            },
            offered,
            retry_after: disclose::retry_after(material.headers),
            cap: policy.response_cap_bytes,
            merged: self.merged,
        };
        let odd = material.unreadable || evidence.contested || material.document.is_some_and(|d| d.odd);
        let notes = [
            (odd || !material.is_utf8, Rule::F6),
            (evidence.untyped_data, Rule::E5),
            (evidence.broken_profile, Rule::E8),
            (material.over == Over::Intake, Rule::C3),
        ];
        let left_out = evidence.left_out;
        let over_cap = |body: &[u8]| body.len() > policy.response_cap_bytes;
        let overflow = |rule: Rule, outcome: &mut Outcome| {
            outcome.rules.insert(rule);
            outcome.rules.insert(Rule::C2);
            outcome.verdict = Verdict::Overflow;
            outcome.reason = Some("INTERNAL_ERROR");
            Judged::Answer(frame.overflow(material.status))
        };
        let note = |outcome: &mut Outcome| {
            for (_, rule) in notes.iter().filter(|(applies, _)| *applies) {
                outcome.rules.insert(*rule);
            }
        };
        let fault = match decide(evidence, material.over.extent(), &setting, &mut outcome.rules) {
            Ok(Decision::Pass) if policy.cap.success && material.len > policy.response_cap_bytes => {
                return overflow(Rule::C1, outcome);
            }
            Ok(Decision::Pass) => return Judged::Pass,
            Ok(Decision::NotFound(cause)) => {
                note(outcome);
                outcome.collapsed = cause;
                outcome.verdict = Verdict::Rewritten;
                let (status, body) = frame.not_found(outcome);
                outcome.said_already = cause.is_none() && says_not_found_already(status, &body, material);
                return Judged::Answer(self.written(status, &body));
            }
            Ok(Decision::Fault(fault)) => fault,
            Err(Undecided) => {
                return match material.over {
                    Over::Failed(failure) => {
                        if failure != Failure::NoRoom {
                            outcome.rules.insert(Rule::C5);
                        }
                        Judged::CutOff(failure)
                    }
                    Over::End | Over::Intake => overflow(Rule::C3, outcome),
                };
            }
        };
        if let Some(document) = material.document.filter(|d| material.is_exact && !d.odd)
            && says_so_already(&fault, &frame, material, &document.root)
        {
            outcome.reason = Some(encode::reason(&fault));
            if material.len <= policy.response_cap_bytes {
                outcome.rules.insert(Rule::E9);
                outcome.verdict = Verdict::Conformant;
                return Judged::AsIs;
            }
            outcome.verdict = Verdict::Rewritten;
            let body = document.root.to_bytes();
            if over_cap(&body) {
                return overflow(Rule::C1, outcome);
            }
            outcome.rules.insert(Rule::E9);
            return Judged::Answer(Shaped { status: material.status, body });
        }
        note(outcome);
        if let Some(root) = material.document.map(|d| &d.root).filter(|root| root.get("error").is_some())
            && self.binding == Binding::JsonRpc
            && !root.get("id").is_some_and(|theirs| is_token(call.id.as_json(), theirs))
        {
            outcome.rules.insert(if call.id == Id::Null { Rule::Q2 } else { Rule::Q1 });
        }
        outcome.verdict = Verdict::Rewritten;
        outcome.drop_fields(DroppedKind::Member, left_out);
        let (status, body) = frame.tree(&fault, Additions::ALL, outcome);
        let shaped = self.written(status, &body);
        if over_cap(&shaped.body) { overflow(Rule::C1, outcome) } else { Judged::Answer(shaped) }
    }

    /// An answer as it is written. While observing none is: all that counts then is whether it would be too long (I-5).
    fn written(&self, status: u16, body: &Node) -> Shaped {
        if self.is_observing() && body.fits(self.policy.response_cap_bytes) {
            return Shaped { status, body: Vec::new() };
        }
        Shaped::new(status, body)
    }
}

/// The host's own answer is the fixed TASK_NOT_FOUND, `metadata` aside, with headers that tell no two
/// tasks apart: it is written anew all the same (O-1), but the host no longer needs that.
fn says_not_found_already(status: u16, ours: &Node, material: &Material<'_>) -> bool {
    let Some(document) = material.document.filter(|d| material.is_exact && !d.odd) else { return false };
    // Most are not, and show it at once: their data is missing or no list.
    let error = document.root.get("error");
    let details = error.and_then(|error| error.get("data").or_else(|| error.get("details")));
    let fits = material.any_status || status == material.status;
    if !fits
        || !matches!(details, Some(Node::Array(_)))
        || !material.headers.keys().all(disclose::tells_no_task)
    {
        return false;
    }
    says_the_same(ours, &document.root) || says_the_same(&without_metadata(ours), &document.root)
}

/// C-2's answer, behind a second proxy, is still that answer, whatever its status would say by itself (E-5).
fn says_overflow(frame: &Frame<'_>, material: &Material<'_>, root: &Node) -> bool {
    let message = root.get("error").and_then(|error| error.get("message"));
    if message.and_then(Node::as_str) != Some(encode::OVERFLOW) {
        return false;
    }
    let ours = frame.overflow(material.status);
    (material.any_status || ours.status == material.status)
        && tree::parse(&ours.body).is_ok_and(|ours| says_the_same(&ours.root, root))
}

pub(super) fn without_metadata(node: &Node) -> Node {
    match node {
        Node::Object(members) => {
            let kept = members.iter().filter(|(name, _)| &**name != "metadata");
            Node::Object(kept.map(|(name, value)| (name.clone(), without_metadata(value))).collect())
        }
        Node::Array(elements) => Node::Array(elements.iter().map(without_metadata).collect()),
        other => other.clone(),
    }
}

/// E-9: the host says exactly what the rules allow, additions of ours aside.
fn says_so_already(fault: &Fault, frame: &Frame<'_>, material: &Material<'_>, root: &Node) -> bool {
    if says_overflow(frame, material, root) {
        return true;
    }
    // Most answers that are not in shape show it at once: their data is missing or no list.
    let is_a2a = matches!(fault.kind, Kind::A2a(_));
    let details = root.get("error").and_then(|error| error.get("data").or_else(|| error.get("details")));
    if !matches!(details, Some(Node::Array(_))) && (is_a2a || details.is_some()) {
        return false;
    }
    let (status, ours) = frame.tree(fault, Additions::of_host(fault), &mut Outcome::default());
    (material.any_status || status == material.status) && says_the_same(&ours, root)
}
