//! The OpenWOP error envelope `{error, message, details?}` (F-4).

use super::data::{read_versions, text};
use super::{EnvelopeCode, Evidence, Shape};
use crate::protocol::openwop;
use crate::protocol::tree::Node;

/// True if it is one: an object without `jsonrpc`, whose `error` is a code that hosts use and whose
/// `message` is a string. Other `{error, message}` bodies are a framework's (F-5).
pub fn read(root: &Node, evidence: &mut Evidence) -> bool {
    if evidence.has_jsonrpc {
        return false;
    }
    let Some(code) = root.get("error").and_then(Node::as_str) else { return false };
    let Some(message) = root.get("message").and_then(Node::as_str) else { return false };
    let Some(kind) = openwop::classify(code) else { return false };
    evidence.shape = Shape::Envelope;
    evidence.envelope = Some(EnvelopeCode { code: code.into(), kind });
    evidence.message = text(message);
    // Of an envelope's details only the version lists may leave (F-7).
    if let Some(details) = root.get("details") {
        read_versions(details, evidence);
        evidence.left_out += u32::try_from(details.members().len()).unwrap_or(u32::MAX);
    }
    true
}
