//! JSON-RPC responses, with or without `jsonrpc`, and errors that lost their envelope (F-3, F-6, F-10).

use super::data::{read_data, text};
use super::{CodeSpelling, Evidence, Shape};
use crate::protocol::a2a::A2aError;
use crate::protocol::google_rpc::is_status_word;
use crate::protocol::json_rpc::{RpcError, integral};
use crate::protocol::tree::Node;

/// True if it is a JSON-RPC response of either kind.
pub fn read(root: &Node, evidence: &mut Evidence) -> bool {
    let count = |want: &str| root.members().iter().filter(|(name, _)| &**name == want).count();
    // Doubled members: the last that says something, one with a code before any other.
    let said = root.members().iter().rev().filter(|(n, v)| &**n == "error" && !v.is_null()).map(|(_, v)| v);
    let error = said.clone().find(|v| v.get("code").is_some()).or_else(|| said.clone().next());
    let (results, errors) = (count("result"), count("error"));
    match error {
        None if results == 1 && errors <= 1 => {
            evidence.shape = Shape::Result;
            true
        }
        Some(error) if !evidence.has_jsonrpc && is_status(error) => false,
        Some(error) if evidence.has_jsonrpc || error.get("code").is_some() => {
            evidence.shape = Shape::RpcError;
            let beside = root.get("result").is_some_and(|result| !result.is_null());
            evidence.contested = beside || errors > 1 || !evidence.has_jsonrpc;
            evidence.left_out += extra(root, &["jsonrpc", "id", "error"]);
            read_error(error, evidence);
            true
        }
        None | Some(_) => false,
    }
}

/// True if the body itself has an error's `code`, one that A2A or JSON-RPC registers, and `message`.
pub fn read_flat(root: &Node, evidence: &mut Evidence) -> bool {
    let CodeSpelling::Integer(code) = spelling(root.get("code")) else { return false };
    if A2aError::from_code(code).is_none() && RpcError::from_code(code).is_none() {
        return false;
    }
    if evidence.has_jsonrpc || root.get("message").and_then(Node::as_str).is_none() {
        return false;
    }
    evidence.shape = Shape::FlatError;
    read_error(root, evidence);
    true
}

fn read_error(error: &Node, evidence: &mut Evidence) {
    evidence.code = spelling(error.get("code"));
    evidence.message = error.get("message").and_then(Node::as_str).and_then(text);
    evidence.left_out += extra(error, &["code", "message", "data"]);
    if let Some(data) = error.get("data") {
        read_data(data, evidence);
    }
    if let Some(details) = error.get("details") {
        read_data(details, evidence);
    }
}

/// Whether an `error` object is a google.rpc.Status rather than a JSON-RPC error: a status word, or a
/// code that is an HTTP status.
fn is_status(error: &Node) -> bool {
    let word = error.get("status").and_then(Node::as_str).is_some_and(is_status_word);
    word || matches!(spelling(error.get("code")), CodeSpelling::Integer(100..=599))
}

/// What a `code` member says, integral spellings folded (F-3).
pub fn spelling(code: Option<&Node>) -> CodeSpelling {
    match code {
        None | Some(Node::Null) => CodeSpelling::Absent,
        Some(Node::Number(raw) | Node::String(raw)) => {
            integral(raw).map_or(CodeSpelling::Unreadable, CodeSpelling::Integer)
        }
        Some(_) => CodeSpelling::Unreadable,
    }
}

/// How many members have no place in an answer.
fn extra(object: &Node, known: &[&str]) -> u32 {
    let count = object.members().iter().filter(|(name, _)| !known.contains(&&**name)).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}
