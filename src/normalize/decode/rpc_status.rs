//! `{"error": google.rpc.Status}`, the error body of the HTTP+JSON binding (A2A §11.6).

use super::data::{read_data, text};
use super::json_rpc::spelling;
use super::{CodeSpelling, Evidence, Shape};
use crate::protocol::a2a::OPENWOP_DOMAIN;
use crate::protocol::google_rpc::is_status_word;
use crate::protocol::json_rpc::RpcError;
use crate::protocol::openwop::status_of_reason;
use crate::protocol::tree::Node;

/// True if it is one.
pub fn read(root: &Node, evidence: &mut Evidence) -> bool {
    let Some(error) = root.get("error").filter(|e| e.is_object()) else { return false };
    let word = error.get("status").and_then(Node::as_str).filter(|w| is_status_word(w));
    let code = spelling(error.get("code"));
    if evidence.has_jsonrpc || word.is_none() && !matches!(code, CodeSpelling::Integer(100..=599)) {
        return false;
    }
    evidence.shape = Shape::RpcStatus;
    if let CodeSpelling::Integer(code) = code {
        evidence.inner_status = u16::try_from(code).ok().filter(|s| (400..600).contains(s));
        evidence.code =
            if evidence.inner_status.is_none() { CodeSpelling::Integer(code) } else { evidence.code };
    }
    evidence.says_forbidden = word == Some("PERMISSION_DENIED");
    evidence.inner_status = evidence.inner_status.or(match word {
        Some("UNAUTHENTICATED") => Some(401),
        Some("PERMISSION_DENIED") => Some(403),
        Some("NOT_FOUND") => Some(404),
        Some("RESOURCE_EXHAUSTED") => Some(429),
        Some("INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE" | "ABORTED" | "ALREADY_EXISTS") => {
            Some(400)
        }
        Some("UNAVAILABLE") => Some(503),
        Some("DEADLINE_EXCEEDED") => Some(504),
        Some("OK") | None => None,
        Some(_) => Some(500),
    });
    evidence.message = error.get("message").and_then(Node::as_str).and_then(text);
    for name in ["details", "data"] {
        if let Some(details) = error.get(name) {
            read_data(details, evidence);
            read_rpc_reason(details, evidence);
        }
    }
    true
}

/// The reasons this binding has for JSON-RPC's own errors.
fn read_rpc_reason(details: &Node, evidence: &mut Evidence) {
    let Some(detail) = details.elements().iter().find(|d| d.get("reason").is_some()) else { return };
    // A code that OpenWOP has registered is that code, where its domain is named.
    let is_openwop = detail.get("domain").and_then(Node::as_str) == Some(OPENWOP_DOMAIN);
    let reason = detail.get("reason").and_then(Node::as_str);
    let reason = reason.filter(|reason| !is_openwop || status_of_reason(reason).is_none());
    evidence.rpc_reason = reason.and_then(|reason| match reason {
        // The binding has one reason for two errors; ours that says so stays what it is (E-5).
        "INVALID_REQUEST" if evidence.message.as_deref() == Some(RpcError::Parse.message()) => {
            Some(RpcError::Parse)
        }
        _ => rpc_of_reason(reason),
    });
}

/// JSON-RPC's error that a reason names which OpenWOP has not registered.
pub fn own_error(reason: &str) -> Option<RpcError> {
    rpc_of_reason(reason).filter(|_| status_of_reason(reason).is_none())
}

/// JSON-RPC's error that a reason of this binding names.
fn rpc_of_reason(reason: &str) -> Option<RpcError> {
    match reason {
        "PARSE_ERROR" | "JSON_PARSE" | "JSON_PARSE_ERROR" => Some(RpcError::Parse),
        _ => RpcError::ALL.into_iter().rev().find(|e| e.http_reason() == reason),
    }
}
