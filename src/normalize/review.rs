//! Holds the details of an error against those that the rules would write, for whoever asks a host directly: a detail is
//! right exactly if the proxy would let it through unchanged (E-9).

use http::{HeaderMap, Method};

use super::call::{Call, CallReader, query_in_order};
use super::decode::decode;
use super::disclose::{self, Gate, METADATA_KEYS};
use super::encode::{Additions, Frame, error_info, says_the_same};
use super::exchange::RequestFacts;
use super::fault::{Decision, Extent, Fault, Kind, Setting, decide};
use super::outcome::{Outcome, Rule, RuleSet};
use super::version::requested_version;
use super::weigh::without_metadata;
use super::{Binding, Interface, Policy};
use crate::protocol::a2a::{A2aError, DOMAIN, Route, plain_path};
use crate::protocol::google_rpc::{ERROR_INFO, RETRY_INFO, STRUCT};
use crate::protocol::tree::{self, Node};

/// What was asked, and where.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub interface: &'a Interface,
    pub request: &'a RequestFacts<'a>,
    pub body: &'a [u8],
}

/// What the rules would change; nothing if the details may leave as they are, additions of ours aside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Review {
    /// The first ErrorInfo that is not as it may be, its metadata aside.
    pub info: Option<Odd>,
    /// The first other detail.
    pub detail: Option<Odd>,
    /// The first member of the ErrorInfo's metadata that may be there, but not with this value.
    pub metadata: Option<(String, Rule)>,
}

/// A detail that would not leave as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Odd {
    /// Its place in the list.
    pub at: usize,
    pub change: Change,
    pub rule: Rule,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The rules have no place for it.
    Dropped,
    /// It would be written otherwise here: a JSON pointer into it.
    At(String),
    /// It stands behind what it should stand before.
    Late,
}

/// Reviews an error's details. `None` where there are none, or no error that a rule binds.
#[must_use]
pub fn review(asked: &Asked<'_>, status: u16, headers: &HeaderMap, document: &[u8]) -> Option<Review> {
    let document = tree::parse(document).ok()?;
    let error = document.root.get("error")?;
    let details = error.get("data").or_else(|| error.get("details"))?.elements();
    if details.is_empty() {
        return None;
    }
    // What 0.3 clients are told is judged too: whoever asks wants to know.
    let policy = Policy { normalize_0_3: true, ..Policy::default() };
    let call = call_of(asked, &policy);
    let version = requested_version(asked.request).single();
    let binding = asked.interface.binding;
    let is_post = *asked.request.method == Method::POST;
    let offered = asked.interface.versions.as_slice();
    let requested = version.as_deref();
    let decided = |call: &Call| {
        let policy = &policy;
        let setting = Setting { binding, is_post, call, policy, requested, offered, status, headers };
        let evidence = decode(Some(&document.root), false);
        decide(evidence, Extent::Whole, &setting, &mut RuleSet::default()).ok()
    };
    let frame = Frame {
        binding,
        is_post,
        gate: Gate {
            disclosure: &policy.disclosure,
            call: &call,
            version: requested,
            path: asked.request.path,
        },
        offered,
        retry_after: disclose::retry_after(headers),
        cap: policy.response_cap_bytes,
        merged: false,
    };
    let decision = match decided(&call)? {
        // That it must be told like a task that does not exist is no fault of its details (O-3).
        Decision::NotFound(Some(_)) => decided(&Call { task: None, ..call.clone() })?,
        decision => decision,
    };
    match decision {
        Decision::Pass => None,
        // Its metadata aside the one answer is fixed (O-1).
        Decision::NotFound(_) => {
            let reason = Node::word(A2aError::TaskNotFound.reason());
            let ours = [error_info(reason, DOMAIN, Vec::new())];
            Some(Review { metadata: None, ..compare(&frame, None, details, &ours) })
        }
        Decision::Fault(fault) => {
            let ours = frame.details(&fault, Additions::of_host(&fault), &mut Outcome::default());
            Some(compare(&frame, Some(&fault), details, &ours))
        }
    }
}

/// The call, read as the proxy reads it.
fn call_of(asked: &Asked<'_>, policy: &Policy) -> Call {
    let request = asked.request;
    let route = match asked.interface.binding {
        Binding::JsonRpc => None,
        Binding::HttpJson => {
            let path = plain_path(request.path);
            let below = path.strip_prefix(asked.interface.path.as_str());
            match below.and_then(|below| Route::parse(below, request.method)) {
                Some(route) => {
                    let in_order = query_in_order(request.query, route.operation);
                    Some((route, in_order))
                }
                None => return Call::default(),
            }
        }
    };
    let mut reader = CallReader::new(request.headers, policy.response_cap_bytes, policy.normalize_0_3, route);
    reader.piece(asked.body);
    reader.end();
    reader.call()
}

fn kind_of(detail: &Node) -> Option<&str> {
    detail.get("@type").and_then(Node::as_str)
}

/// Each of theirs must be among ours, in the same order. `fault` is none where the answer is fixed.
fn compare(frame: &Frame<'_>, fault: Option<&Fault>, theirs: &[Node], ours: &[Node]) -> Review {
    let mut review = Review::default();
    let mut next = 0;
    for (at, detail) in theirs.iter().enumerate() {
        let is_info = kind_of(detail) == Some(ERROR_INFO);
        // The metadata is looked at by itself.
        let same = |our: &Node| {
            if is_info {
                says_the_same(&without_metadata(our), &without_metadata(detail))
            } else {
                says_the_same(our, detail)
            }
        };
        let left = ours.get(next..).unwrap_or_default();
        if let Some(found) = left.iter().position(same) {
            next += found + 1;
            continue;
        }
        let seat = if is_info { &mut review.info } else { &mut review.detail };
        if seat.is_some() {
            continue;
        }
        let twin = left.iter().find(|our| kind_of(our) == kind_of(detail));
        let change = match twin {
            Some(our) => Change::At(parting(our, detail, is_info)),
            None if ours.iter().any(same) && !theirs.iter().take(at).any(same) => Change::Late,
            None => Change::Dropped,
        };
        let rule = rule_of(frame, fault, detail, &change);
        *seat = Some(Odd { at, change, rule });
    }
    let info = |list: &[Node]| list.iter().find(|one| kind_of(one) == Some(ERROR_INFO)).cloned();
    if let (Some(our), Some(their)) = (info(ours), info(theirs)) {
        review.metadata = odd_metadata(fault, &our, &their);
    }
    review
}

fn rule_of(frame: &Frame<'_>, fault: Option<&Fault>, detail: &Node, change: &Change) -> Rule {
    match (kind_of(detail), change) {
        (Some(ERROR_INFO), _) if frame.binding == Binding::JsonRpc => Rule::E1,
        (Some(ERROR_INFO), _) => Rule::E4,
        (Some(STRUCT), _) => Rule::E8,
        (Some(_), _) if fault.is_none() => Rule::O1,
        (Some(RETRY_INFO), Change::At(_)) if frame.retry_after.is_some() => Rule::E3,
        (_, Change::At(pointer)) => match value_at(detail, pointer) {
            Some(Node::String(text)) if !text.is_empty() && !frame.gate.admits(text) => Rule::D1,
            _ => Rule::E5,
        },
        _ => Rule::E5,
    }
}

/// Where their detail first says something else than ours: a JSON pointer.
fn parting(ours: &Node, theirs: &Node, is_info: bool) -> String {
    let step = |name: &str| name.replace('~', "~0").replace('/', "~1");
    let mut pointer = String::new();
    let (mut ours, mut theirs) = (ours, theirs);
    loop {
        let next = match (ours, theirs) {
            (Node::Object(known), Node::Object(members)) => members
                .iter()
                .filter(|(name, _)| !(is_info && pointer.is_empty() && &**name == "metadata"))
                .map(|(name, value)| {
                    let our = known.iter().find(|(other, _)| other == name).map(|(_, value)| value);
                    (step(name), our, value)
                })
                .find(|(_, our, value)| our.is_none_or(|our| !says_the_same(our, value))),
            (Node::Array(known), Node::Array(elements)) => elements
                .iter()
                .enumerate()
                .map(|(at, value)| (at.to_string(), known.get(at), value))
                .find(|(_, our, value)| our.is_none_or(|our| !says_the_same(our, value))),
            _ => None,
        };
        let Some((name, our, value)) = next else { return pointer };
        pointer.push('/');
        pointer.push_str(&name);
        let Some(our) = our else { return pointer };
        (ours, theirs) = (our, value);
    }
}

/// What a pointer of [`parting`] points at.
fn value_at<'a>(detail: &'a Node, pointer: &str) -> Option<&'a Node> {
    pointer.split('/').skip(1).try_fold(detail, |node, step| match node {
        Node::Array(elements) => elements.get(step.parse::<usize>().ok()?),
        _ => node.get(&step.replace("~1", "/").replace("~0", "~")),
    })
}

/// A member that D-2 lets leave, but not with this value. What is no string is no map's (E-6); the versions of a version
/// refusal are the card's business (E-7).
fn odd_metadata(fault: Option<&Fault>, ours: &Node, theirs: &Node) -> Option<(String, Rule)> {
    let is_version = fault.is_some_and(|fault| fault.kind == Kind::A2a(A2aError::VersionNotSupported));
    let known = |name: &str| METADATA_KEYS.contains(&name) || matches!(name, "taskId" | "contextId");
    let members = theirs.get("metadata").map_or(&[][..], Node::members);
    let (name, _) = members.iter().find(|(name, value)| {
        let our = ours.get("metadata").and_then(|metadata| metadata.get(name));
        known(name)
            && matches!(value, Node::String(_))
            && !(is_version && &**name == "supportedVersions")
            && our.is_none_or(|our| !says_the_same(our, value))
    })?;
    let rule = if is_version && &**name == "requested" { Rule::E7 } else { Rule::D2 };
    Some((name.to_string(), rule))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use http::{HeaderValue, StatusCode};

    use super::*;
    use crate::normalize::{Exchange, Target, Verdict};

    const INFO: &str = r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UNSUPPORTED_OPERATION","domain":"a2a-protocol.org"}"#;

    /// What the review says of these details, and what the exchange makes of the answer that has them.
    fn both(code: i64, details: &str) -> (Review, Verdict) {
        let request_body = br#"{"jsonrpc":"2.0","id":7,"method":"CancelTask","params":{"id":"t-1"}}"#;
        let mut headers = HeaderMap::new();
        headers.insert("a2a-version", HeaderValue::from_static("1.0"));
        let request = RequestFacts { method: &Method::POST, path: "/a2a", query: None, headers: &headers };
        let interface =
            Interface { path: "/a2a".into(), binding: Binding::JsonRpc, versions: vec!["1.0".into()] };
        let message = if code == -32601 { "Method not found" } else { "This operation is not supported" };
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":{code},"message":"{message}","data":[{details}]}}}}"#
        );
        let asked = Asked { interface: &interface, request: &request, body: request_body };
        let mut answered = HeaderMap::new();
        answered.insert("content-type", HeaderValue::from_static("application/json"));
        let found = review(&asked, 200, &answered, body.as_bytes()).unwrap();
        let target = Target::Interface(Arc::new(interface.clone()));
        let mut exchange = Exchange::new(&target, &Arc::new(Policy::default()), &request).unwrap();
        exchange.request_piece(request_body);
        exchange.request_end();
        exchange.head(StatusCode::OK, &answered);
        exchange.piece(Bytes::from(body));
        exchange.end();
        (found, exchange.outcome().verdict)
    }

    /// E-9: a detail is right exactly if the proxy lets it through unchanged.
    #[test]
    fn e9_the_review_and_the_exchange_agree_on_details() {
        let detail = |kind: &str, more: &str| {
            format!(
                r#"{{"@type":"type.googleapis.com/google.{kind}"{}{more}}}"#,
                if more.is_empty() { "" } else { "," }
            )
        };
        let good = [
            detail("rpc.RetryInfo", r#""retryDelay":"1.5s""#),
            detail("rpc.BadRequest", r#""fieldViolations":[{"field":"id","description":"Must be there"}]"#),
            detail("rpc.BadRequest", r#""fieldViolations":[{"description":"Must be there"}]"#),
            detail("rpc.QuotaFailure", r#""violations":[{"description":"Quota is used up"}]"#),
            detail(
                "rpc.PreconditionFailure",
                r#""violations":[{"type":"TOS","description":"Not accepted"}]"#,
            ),
            detail("rpc.LocalizedMessage", r#""locale":"de-DE","message":"Nicht vorgesehen""#),
        ];
        for details in std::iter::once(INFO.to_owned()).chain(good.iter().map(|one| format!("{INFO},{one}")))
        {
            assert_eq!(both(-32004, &details), (Review::default(), Verdict::Conformant), "{details}");
        }
        let retry = detail("rpc.RetryInfo", r#""retryDelay":"1s""#);
        let (dropped, at) = (Change::Dropped, |pointer: &str| Change::At(pointer.to_owned()));
        for (more, change, rule) in [
            (detail("rpc.BadRequest", r#""fieldViolations":"x""#), dropped.clone(), Rule::E5),
            (detail("rpc.BadRequest", r#""fieldViolations":["tenant acme"]"#), dropped.clone(), Rule::E5),
            (
                detail(
                    "rpc.BadRequest",
                    r#""fieldViolations":[{"field":"id","description":{"tenant":"acme"}}]"#,
                ),
                at("/fieldViolations/0/description"),
                Rule::E5,
            ),
            (
                detail(
                    "rpc.BadRequest",
                    r#""fieldViolations":[{"field":"id","reason":"owned by bob@acme.corp"}]"#,
                ),
                at("/fieldViolations/0/reason"),
                Rule::D1,
            ),
            (
                detail("rpc.BadRequest", r#""fieldViolations":[{"field":"acme/x1","description":"is odd"}]"#),
                at("/fieldViolations/0/field"),
                Rule::D1,
            ),
            (
                detail(
                    "rpc.BadRequest",
                    r#""fieldViolations":[{"field":"id","description":"see /etc/passwd"}]"#,
                ),
                at("/fieldViolations/0/description"),
                Rule::D1,
            ),
            (
                detail(
                    "rpc.QuotaFailure",
                    r#""violations":[{"subject":"bob@acme.corp","description":"Used up"}]"#,
                ),
                at("/violations/0/subject"),
                Rule::D1,
            ),
            (
                detail(
                    "rpc.QuotaFailure",
                    r#""violations":[{"quotaDimensions":{"owner":"bob"},"description":"Used up"}]"#,
                ),
                at("/violations/0/quotaDimensions"),
                Rule::E5,
            ),
            (
                detail("rpc.PreconditionFailure", r#""violations":[{"subject":"tenant:acme"}]"#),
                dropped.clone(),
                Rule::E5,
            ),
            (detail("rpc.RetryInfo", r#""retryDelay":"ask bob""#), dropped.clone(), Rule::E5),
            (detail("rpc.RetryInfo", r#""retryDelay":{}"#), dropped.clone(), Rule::E5),
            (format!("{retry},{retry}"), dropped.clone(), Rule::E5),
            (
                detail("rpc.LocalizedMessage", r#""locale":"en","message":{"tenant":"acme"}"#),
                dropped.clone(),
                Rule::E5,
            ),
            (
                detail("rpc.LocalizedMessage", r#""locale":"/etc/passwd acme","message":"No""#),
                at("/locale"),
                Rule::D1,
            ),
            (detail("protobuf.Struct", r#""value":{"tenant":"acme"}"#), dropped.clone(), Rule::E8),
            (detail("rpc.DebugInfo", ""), dropped.clone(), Rule::E5),
            ("{}".to_owned(), dropped.clone(), Rule::E5),
            ("null".to_owned(), dropped, Rule::E5),
        ] {
            let (found, verdict) = both(-32004, &format!("{INFO},{more}"));
            let odd = found.detail.unwrap();
            assert_eq!((odd.change, odd.rule), (change, rule), "{more}");
            assert_eq!((found.info, found.metadata, verdict), (None, None, Verdict::Rewritten), "{more}");
        }
    }

    /// E-1, E-7, D-2: the one ErrorInfo, where it stands, and what its metadata may say.
    #[test]
    fn e1_the_review_and_the_exchange_agree_on_the_error_info() {
        let with = |metadata: &str| INFO.replace('}', &format!(r#","metadata":{metadata}}}"#));
        for details in [with("{}"), with(r#"{"field":"id","taskId":"t-1","supportedVersions":"1.0, 0.3"}"#)] {
            assert_eq!(both(-32004, &details), (Review::default(), Verdict::Conformant), "{details}");
        }
        for (metadata, name) in [
            (r#"{"supportedVersions":"bob@acme.corp"}"#, "supportedVersions"),
            (r#"{"field":"id","taskId":"t-2"}"#, "taskId"),
        ] {
            let (found, verdict) = both(-32004, &with(metadata));
            assert_eq!((found.info, found.metadata), (None, Some((name.to_owned(), Rule::D2))), "{metadata}");
            assert_eq!(verdict, Verdict::Rewritten);
        }
        let retry = r#"{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1s"}"#;
        let other =
            |reason: &str| format!(r#"{{"@type":"type.googleapis.com/google.rpc.ErrorInfo"{reason}}}"#);
        for (code, details, at, change) in [
            (-32004, format!("{retry},{INFO}"), 1, Change::Late),
            (-32004, format!("{INFO},{INFO}"), 1, Change::Dropped),
            (-32004, INFO.replace("a2a-protocol.org", "example.com"), 0, Change::At("/domain".into())),
            (-32004, INFO.replace('}', r#","tenant":"acme"}"#), 0, Change::At("/tenant".into())),
            (-32601, other(""), 0, Change::Dropped),
            (-32601, other(r#","reason":5,"domain":"openwop.dev""#), 0, Change::Dropped),
            (-32601, other(r#","reason":"tenant acme","domain":"openwop.dev""#), 0, Change::Dropped),
            (
                -32601,
                other(r#","reason":"METHOD_NOT_FOUND","domain":"a2a-protocol.org""#),
                0,
                Change::Dropped,
            ),
        ] {
            let (found, verdict) = both(code, &details);
            assert_eq!(found.info, Some(Odd { at, change, rule: Rule::E1 }), "{details}");
            assert_eq!(verdict, Verdict::Rewritten, "{details}");
        }
        let openwop = other(r#","reason":"METHOD_NOT_FOUND","domain":"openwop.dev""#);
        assert_eq!(both(-32601, &openwop), (Review::default(), Verdict::Conformant));
    }
}
