//! `error.data` and `error.details`: typed details, legacy objects and lists (E-5 to E-8, F-2).

use super::Evidence;
use crate::protocol::a2a::{A2aError, DOMAIN, OPENWOP_DOMAIN, fold};
use crate::protocol::google_rpc::{ERROR_INFO, STRUCT, full_type};
use crate::protocol::openwop::reason_is_unreadable;
use crate::protocol::tree::{Node, Text};

/// Candidates kept of one answer; more is no error data but a dump.
const KEEP_MAX: usize = 256;
/// Schema name of the one known closed profile (E-8).
const SEMAPRAX: &str = "semaprax.image-agent-application-error-data.v1";

/// One field violation (E-5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field; empty if the host names none.
    pub field: String,
    pub description: String,
}

/// A text that says something.
pub fn text(text: &str) -> Option<Text> {
    (!text.is_empty()).then(|| text.into())
}

/// Reads `data` or `details` of an error object.
pub fn read_data(data: &Node, evidence: &mut Evidence) {
    match data {
        Node::Object(_) if data.get("@type").is_some() => read_element(data, evidence),
        Node::Object(members) => {
            evidence.untyped_data = true;
            evidence.profile = profile(data);
            if evidence.profile.is_some() {
                return;
            }
            evidence.broken_profile = data.get("schema").and_then(Node::as_str) == Some(SEMAPRAX);
            read_reason(data, evidence);
            read_versions(data, evidence);
            for (name, value) in members {
                match (&**name, value) {
                    ("reason" | "domain", Node::String(_)) => {}
                    ("errors" | "detail", Node::Array(_)) => read_violations(value, evidence),
                    ("metadata", Node::Object(inner)) => {
                        read_versions(value, evidence);
                        read_metadata(inner, evidence);
                    }
                    _ => push_metadata(name, value, evidence),
                }
            }
        }
        Node::Array(elements) => {
            for element in elements {
                read_element(element, evidence);
            }
        }
        Node::Null => evidence.untyped_data = true,
        _ => {
            evidence.untyped_data = true;
            evidence.left_out += 1;
        }
    }
}

/// Reads only typed details: of a body that is otherwise a framework's.
pub fn read_details_only(details: &Node, evidence: &mut Evidence) {
    for element in details.elements().iter().filter(|e| is_error_info(e)) {
        read_reason(element, evidence);
    }
}

fn is_error_info(element: &Node) -> bool {
    element.get("@type").and_then(Node::as_str).is_some_and(|t| full_type(t) == ERROR_INFO)
}

fn read_element(element: &Node, evidence: &mut Evidence) {
    if !element.is_object() {
        evidence.left_out += 1;
        return;
    }
    let Some(kind) = element.get("@type") else {
        evidence.untyped_data = true;
        // Untyped: a reason, a pydantic entry, or metadata.
        read_reason(element, evidence);
        read_versions(element, evidence);
        if let Some(violation) = violation(element) {
            push_violation(violation, evidence);
        } else {
            for (name, value) in element.members() {
                if !matches!(&**name, "reason" | "domain") {
                    push_metadata(name, value, evidence);
                }
            }
        }
        return;
    };
    let Some(kind) = kind.as_str().map(full_type) else {
        evidence.left_out += 1;
        return;
    };
    if kind == ERROR_INFO {
        read_reason(element, evidence);
        if let Some(metadata) = element.get("metadata") {
            read_versions(metadata, evidence);
            read_metadata(metadata.members(), evidence);
        }
    } else if kind == STRUCT
        && evidence.profile.is_none()
        && element.get("value").is_some_and(|v| profile(v).is_some())
    {
        evidence.profile = element.get("value").cloned();
    } else if evidence.details.len() < KEEP_MAX {
        evidence.details.push((kind.into(), element.clone()));
    } else {
        evidence.left_out += 1;
    }
}

/// A `reason`, with or without a `domain` beside it.
fn read_reason(object: &Node, evidence: &mut Evidence) {
    let Some(reason) = object.get("reason").and_then(Node::as_str) else { return };
    let domain = match object.get("domain") {
        Some(Node::String(domain)) if !domain.is_empty() => &**domain,
        _ => DOMAIN,
    };
    let folded = fold(reason);
    if domain == DOMAIN {
        evidence.a2a = evidence.a2a.or_else(|| A2aError::from_folded(&folded));
    }
    let is_openwop = domain == OPENWOP_DOMAIN;
    evidence.says_forbidden |= forbids(&folded, reason, is_openwop);
    if is_openwop && evidence.openwop_reason.is_none() && is_reason(reason) {
        evidence.openwop_reason = Some(reason.into());
    }
}

/// Whether a reason of OpenWOP's says that the caller may not read this (O-3).
#[must_use]
pub fn openwop_forbids(reason: &str) -> bool {
    forbids(&fold(reason), reason, true)
}

/// The same of any reason, which is given as [`fold`] makes it, too.
fn forbids(folded: &str, reason: &str, is_openwop: bool) -> bool {
    let folded = folded.strip_suffix("error").unwrap_or(folded);
    matches!(folded, "permissiondenied" | "forbidden" | "unauthorized" | "accessdenied")
        || is_openwop && reason_is_unreadable(reason)
}

/// google.rpc.ErrorInfo: `[A-Z][A-Z0-9_]+[A-Z0-9]`, at most 63 characters; OpenWOP's codes with a
/// vendor before them may be longer.
fn is_reason(reason: &str) -> bool {
    let bytes = reason.as_bytes();
    let word = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit();
    (3..=128).contains(&bytes.len())
        && bytes.first().is_some_and(u8::is_ascii_uppercase)
        && bytes.last().is_some_and(word)
        && bytes.iter().all(|b| word(b) || *b == b'_')
}

/// The host's list of versions (E-7): an array, or one string with commas.
pub fn read_versions(object: &Node, evidence: &mut Evidence) {
    for name in ["supportedVersions", "supported"] {
        let Some(value) = object.get(name) else { continue };
        evidence.has_supported_versions |= name == "supportedVersions";
        if !evidence.versions.is_empty() {
            continue;
        }
        evidence.versions = match value {
            Node::String(list) => list.split(',').map(|v| v.trim().into()).collect(),
            list => list.elements().iter().filter_map(Node::as_str).map(|v| v.trim().into()).collect(),
        };
        evidence.versions.truncate(KEEP_MAX);
    }
}

fn read_metadata(members: &[(Text, Node)], evidence: &mut Evidence) {
    for (name, value) in members {
        push_metadata(name, value, evidence);
    }
}

fn push_metadata(name: &str, value: &Node, evidence: &mut Evidence) {
    if evidence.metadata.len() < KEEP_MAX {
        evidence.metadata.push((name.into(), metadata_value(value)));
    } else {
        evidence.left_out += 1;
    }
}

/// A metadata value as a string (E-6): strings as they are, numbers in decimal, booleans, arrays of
/// those with commas between; nothing for null and objects.
fn metadata_value(value: &Node) -> Option<Text> {
    match value {
        Node::Array(elements) => {
            let parts: Option<Vec<Text>> = elements.iter().map(scalar).collect();
            parts.filter(|p| !p.is_empty()).map(|p| p.join(",").into())
        }
        _ => scalar(value),
    }
}

fn scalar(value: &Node) -> Option<Text> {
    match value {
        Node::String(text) => Some(text.clone()),
        Node::Bool(true) => Some(Text::const_new("true")),
        Node::Bool(false) => Some(Text::const_new("false")),
        Node::Number(raw) => decimal(raw).map(Text::from),
        _ => None,
    }
}

/// A JSON number without an exponent; none for what would be absurdly long or is no number.
fn decimal(raw: &str) -> Option<String> {
    let first = raw.bytes().find(|b| *b != b'-')?;
    if !first.is_ascii_digit() {
        return None;
    }
    let Some((mantissa, exponent)) = raw.split_once(['e', 'E']) else { return Some(raw.to_owned()) };
    let exponent: i32 = exponent.parse().ok().filter(|e: &i32| e.abs() <= 64)?;
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |m| ("-", m));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let point = i32::try_from(whole.len()).ok()? + exponent;
    let (whole, fraction) = if point <= 0 {
        let zeros = usize::try_from(-point).ok()?;
        ("0".to_owned(), ["0".repeat(zeros), digits].concat())
    } else {
        let point = usize::try_from(point).ok()?;
        if point >= digits.len() {
            ([digits.as_str(), &"0".repeat(point - digits.len())].concat(), String::new())
        } else {
            let (whole, fraction) = digits.split_at_checked(point)?;
            (whole.to_owned(), fraction.to_owned())
        }
    };
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
}

/// Lists of violations as pydantic (`loc`, `msg`) and the SDKs (`field`, `message`) write them.
pub fn read_violations(list: &Node, evidence: &mut Evidence) {
    for element in list.elements() {
        match violation(element) {
            Some(violation) => push_violation(violation, evidence),
            None => evidence.left_out += 1,
        }
    }
}

fn push_violation(violation: Violation, evidence: &mut Evidence) {
    if evidence.violations.len() < KEEP_MAX {
        evidence.violations.push(violation);
    } else {
        evidence.left_out += 1;
    }
}

fn violation(entry: &Node) -> Option<Violation> {
    if let (Some(Node::Array(loc)), Some(Node::String(msg))) = (entry.get("loc"), entry.get("msg")) {
        let parts: Vec<&str> = loc
            .iter()
            .filter_map(|part| match part {
                Node::String(text) | Node::Number(text) => Some(&**text),
                _ => None,
            })
            .collect();
        return Some(Violation { field: parts.join("."), description: msg.to_string() });
    }
    match (entry.get("field"), entry.get("message").or_else(|| entry.get("description"))) {
        (Some(Node::String(field)), Some(Node::String(message))) => {
            Some(Violation { field: field.to_string(), description: message.to_string() })
        }
        _ => None,
    }
}

/// The object itself if it is one of the known closed profile and validates (E-8).
fn profile(object: &Node) -> Option<Node> {
    let is = |name: &str, want: &str| object.get(name).and_then(Node::as_str) == Some(want);
    let closed = object.members().len() == 2 && !object.has_duplicates();
    let rows = object.get("diagnostics")?.elements();
    (is("schema", SEMAPRAX) && closed && !rows.is_empty() && rows.iter().all(diagnostic))
        .then(|| object.clone())
}

fn diagnostic(row: &Node) -> bool {
    let string = |name: &str| row.get(name).and_then(Node::as_str).is_some();
    let nullable = |name: &str| matches!(row.get(name), Some(Node::Null | Node::String(_)));
    row.members().len() == 6
        && string("code")
        && string("message")
        && matches!(row.get("severity").and_then(Node::as_str), Some("error" | "warning"))
        && nullable("path")
        && nullable("help")
        && match row.get("location") {
            Some(Node::Null) => true,
            Some(location) => {
                location.members().len() == 4
                    && ["line", "column", "start", "end"].iter().all(|name| {
                        matches!(location.get(name), Some(Node::Number(n)) if n.bytes().all(|b| b.is_ascii_digit()))
                    })
            }
            None => false,
        }
}
